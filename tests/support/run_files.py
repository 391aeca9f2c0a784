# SPDX-License-Identifier: Apache-2.0
"""Tensors in files and `ennead run` over them, for tests of the tool from outside.

Files are written and read here with the standard library alone, so that a fault of ours in both
directions does not cancel out.
"""

import json
import math
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

TOOL = os.environ.get("ENNEAD_TOOL", "")
SOURCE = pathlib.Path(os.environ.get("ENNEAD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
GOLDEN = SOURCE / "tests" / "golden"
FORMATS = {"F32": "f", "F64": "d", "BOOL": "?"}
DESCRS = {"<f4": "f", "<f8": "d", "|b1": "?"}


def read_safetensors(path):
    """name -> (type, shape, numbers), and the metadata."""
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        code = FORMATS.get(entry["dtype"])
        numbers = struct.unpack(f"<{math.prod(entry['shape'])}{code}", data[begin:end]) if code else data[begin:end]
        tensors[name] = (entry["dtype"], entry["shape"], numbers)
    return tensors, metadata


def write_safetensors(path, tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, shape, numbers) in tensors.items():
        packed = struct.pack(f"<{len(numbers)}{FORMATS[dtype]}", *numbers)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_npy(path, descr, shape, numbers, fortran=False):
    header = str({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)}).encode() + b"\n"
    data = struct.pack(f"<{len(numbers)}{DESCRS[descr]}", *numbers)
    pathlib.Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)


def read_npy(path):
    data = pathlib.Path(path).read_bytes()
    if data[:8] != b"\x93NUMPY\x01\x00" or (10 + struct.unpack("<H", data[8:10])[0]) % 64 != 0:
        raise AssertionError(f"{path} has no header as NumPy writes it")
    end = 10 + struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:end], {})  # pylint: disable=eval-used; our own output
    if header["fortran_order"]:
        raise AssertionError("C order expected")
    return header["shape"], struct.unpack(f"<{math.prod(header['shape'])}{DESCRS[header['descr']]}", data[end:])


def latest(arguments):
    """Of flags that come twice the last: tests name what they change after what a case names."""
    flags = {}
    for argument in map(str, arguments):
        if argument.startswith("--"):
            flags[argument] = flags.pop(argument, [])[:0]
            last = argument
        else:
            flags[last].append(argument)
    return [word for flag, values in flags.items() for word in (flag, *values)]


def read_npy_shape(path):
    """Of a file that this module wrote."""
    data = pathlib.Path(path).read_bytes()
    return eval(data[10:10 + struct.unpack("<H", data[8:10])[0]], {})["shape"]  # pylint: disable=eval-used; our own


def run(*arguments, before=None):
    return subprocess.run([TOOL, "run", *latest(arguments)], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "LC_ALL": "C.UTF-8"}, preexec_fn=before)


def variants():
    return json.loads(subprocess.run([TOOL, "list", "--json"], capture_output=True, text=True, check=True).stdout)


class InDirectory(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)

    def good(self, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def refused(self, status, *arguments, says, before=None):
        """One sentence, nothing on standard output, nothing new in the directory."""
        there = sorted(os.listdir(self.dir))
        result = run(*arguments, before=before)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, "")
        for piece in says:
            self.assertIn(piece, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertEqual(sorted(os.listdir(self.dir)), there)

    def close(self, expected, got, tolerance):
        self.assertEqual(len(expected), len(got))
        scale = max(map(abs, expected), default=1.0)
        for place, (one, other) in enumerate(zip(expected, got)):
            if not abs(one - other) <= tolerance * scale:
                self.fail(f"element {place}: expected {one}, got {other}")

    def case(self, name, dtype="F64"):
        """x, weights and masks of a golden case as files; the flags that name them."""
        tensors, options = read_safetensors(GOLDEN / f"{name}.safetensors")
        descr = {"F64": "<f8", "F32": "<f4"}[dtype]
        write_npy(self.dir / "x.npy", descr, *tensors["x"][1:])
        weights = {n.removeprefix("weights."): (dtype, shape, numbers)
                   for n, (_, shape, numbers) in tensors.items() if n.startswith("weights.")}
        write_safetensors(self.dir / "w.safetensors", weights)
        flags = ["--input", self.dir / "x.npy", "--weights", self.dir / "w.safetensors", "--heads", options["num_heads"],
                 "--output", self.dir / "y.npy"]
        flags += ["--causal" if options.get("is_causal") == "true" else "--no-causal"]
        needs = set()
        if "mask.allow" in tensors:
            write_npy(self.dir / "m.npy", "|b1", *tensors["mask.allow"][1:])
            flags += ["--mask", self.dir / "m.npy", "--mask-means", "allow"]
            needs.add("attn_mask")
        if "mask.bias" in tensors:
            write_npy(self.dir / "m.npy", descr, *tensors["mask.bias"][1:])
            flags += ["--mask", self.dir / "m.npy"]
            needs.add("attn_mask")
        if "mask.key_padding_block" in tensors:
            write_npy(self.dir / "p.npy", "|b1", *tensors["mask.key_padding_block"][1:])
            flags += ["--key-padding-mask", self.dir / "p.npy"]
            needs.add("key_padding_mask")
        return flags, tensors, needs
