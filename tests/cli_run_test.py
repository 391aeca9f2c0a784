#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ennead run from outside: golden values through files, refusals, and what lies on the disk afterwards.

Files are written and read here with the standard library alone, so that a fault of ours in both
directions does not cancel out.
"""

import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TOOL = os.environ.get("ENNEAD_TOOL", "")
SOURCE = pathlib.Path(os.environ.get("ENNEAD_SOURCE_DIR", pathlib.Path(__file__).resolve().parent.parent))
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


class GoldenValues(InDirectory):
    """Every variant through files gives PyTorch's float64 numbers."""

    def test_every_variant(self):
        # Mutants: heads or masks lost between the command line and the call; causality that is always on.
        manifest = json.loads((GOLDEN / "manifest.json").read_text(encoding="utf-8"))
        self.assertGreater(len(manifest["modules"]), 10)
        for case in manifest["modules"]:
            flags, tensors, needs = self.case(case)
            _, shape, expected = tensors["f64.output"]
            count = 0
            for variant in variants():
                if not all(variant["supports"][need] for need in needs):
                    continue
                with self.subTest(case=case, variant=variant["slug"]):
                    self.good("--variant", variant["slug"], *flags)
                    got_shape, got = read_npy(self.dir / "y.npy")
                    self.assertEqual(list(got_shape), shape)
                    self.close(expected, got, 1e-12)
                    count += 1
            self.assertGreaterEqual(count, 2, case)

    def test_float32(self):
        for case in ("square_bias", "past_two_tiles", "padding_causal_additive"):
            flags, tensors, needs = self.case(case, "F32")
            for variant in variants():
                if all(variant["supports"][need] for need in needs):
                    with self.subTest(case=case, variant=variant["slug"]):
                        self.good("--variant", variant["number"], *flags)
                        self.close(tensors["f64.output"][2], read_npy(self.dir / "y.npy")[1], 2e-6)

    def test_dtype_follows_the_input_unless_told(self):
        flags, tensors, _ = self.case("square", "F32")
        for extra, descr in (([], b"<f4"), (["--dtype", "float64"], b"<f8"), (["--dtype", "float32"], b"<f4")):
            self.good("--variant", 2, *flags, *extra)
            self.assertIn(descr, (self.dir / "y.npy").read_bytes()[:64])
        flags, tensors, _ = self.case("square")
        self.good("--variant", 2, *flags, "--dtype", "float32")
        self.assertIn(b"<f4", (self.dir / "y.npy").read_bytes()[:64])
        self.close(tensors["f64.output"][2], read_npy(self.dir / "y.npy")[1], 2e-6)

    def test_layouts(self):
        manifest = json.loads((GOLDEN / "manifest.json").read_text(encoding="utf-8"))
        tried = 0
        for file, entry in manifest["layouts"].items():
            case, extra = entry["case"], []
            if case == "half":
                continue  # its x is float32 and its outputs are under other names
            flags, tensors, _ = self.case(case) if case != "grouped" else self.grouped()
            extra = ["--prefix", entry["prefix"]] if "prefix" in entry else []
            with self.subTest(file):
                self.good("--variant", 10, *flags, "--weights", GOLDEN / file, *extra)
                self.close(tensors["f64.output"][2], read_npy(self.dir / "y.npy")[1], 1e-12)
                tried += 1
        self.assertGreater(tried, 15)

    def grouped(self):
        tensors, options = read_safetensors(GOLDEN / "grouped.safetensors")
        write_npy(self.dir / "x.npy", "<f8", *tensors["x"][1:])
        return ["--input", self.dir / "x.npy", "--heads", options["num_heads"], "--output", self.dir / "y.npy"], tensors, set()

    def test_fortran_order(self):
        flags, tensors, _ = self.case("wider_in")
        _, (batch, tokens, width), numbers = tensors["x"]
        turned = [numbers[(b * tokens + t) * width + d] for d in range(width) for t in range(tokens) for b in range(batch)]
        write_npy(self.dir / "x.npy", "<f8", (batch, tokens, width), turned, fortran=True)
        for variant in variants():
            with self.subTest(variant["slug"]):
                self.good("--variant", variant["number"], *flags)
                self.close(tensors["f64.output"][2], read_npy(self.dir / "y.npy")[1], 1e-12)


class Masks(InDirectory):
    """K2: masks are named by meaning, and what cannot be honoured is refused."""

    def test_allow_and_block_are_opposites(self):
        flags, tensors, _ = self.case("allow_shared")
        _, shape, allowed = tensors["mask.allow"]
        write_npy(self.dir / "m.npy", "|b1", shape, [not value for value in allowed])
        turned = ["block" if flag == "allow" else flag for flag in flags]
        self.good("--variant", 6, *turned)
        self.close(tensors["f64.output"][2], read_npy(self.dir / "y.npy")[1], 1e-12)

    def test_key_padding_by_either_meaning(self):
        flags, tensors, _ = self.case("padding")
        _, shape, block = tensors["mask.key_padding_block"]
        write_npy(self.dir / "p.npy", "|b1", shape, [not value for value in block])
        self.good("--variant", 8, *flags, "--key-padding-means", "allow")
        self.close(tensors["f64.output"][2], read_npy(self.dir / "y.npy")[1], 1e-12)

    def test_a_boolean_mask_needs_its_meaning(self):
        flags, _, _ = self.case("allow_shared")
        bare = [flag for flag in flags if flag not in ("--mask-means", "allow")]
        self.refused(2, "--variant", 6, *bare, says=["--mask-means allow or block", "got neither"])
        self.refused(2, "--variant", 6, *bare, "--mask-means", "yes", says=["--mask-means", "allow or block", '"yes"'])

    def test_numbers_have_no_other_meaning(self):
        flags, _, _ = self.case("additive")
        self.refused(2, "--variant", 6, *flags, "--mask-means", "allow", says=["--mask-means", "boolean mask", "added"])

    def test_a_mask_of_0_and_1_warns_and_is_added(self):
        # B11. Mutant: a float triangle of ones taken for permission.
        flags, _, _ = self.case("not_causal")
        tokens = read_npy_shape(self.dir / "x.npy")[1]
        lower = [1.0 if k <= q else 0.0 for q in range(tokens) for k in range(tokens)]
        write_npy(self.dir / "m.npy", "<f8", (tokens, tokens), lower)
        result = self.good("--variant", 6, *flags, "--mask", self.dir / "m.npy")
        self.assertIn("only 0 and 1", result.stderr)
        _, added = read_npy(self.dir / "y.npy")
        write_npy(self.dir / "m.npy", "<f8", (tokens, tokens), [value + 0.25 for value in lower])
        result = self.good("--variant", 6, *flags, "--mask", self.dir / "m.npy")
        self.assertEqual(result.stderr, "")
        self.close(added, read_npy(self.dir / "y.npy")[1], 1e-12)  # a constant on every score changes nothing

    def test_neutral_masks_change_nothing(self):
        # B13. Mutant: True read as "hide".
        flags, _, _ = self.case("square")
        tokens = read_npy_shape(self.dir / "x.npy")[1]
        self.good("--variant", 6, *flags)
        _, plain = read_npy(self.dir / "y.npy")
        write_npy(self.dir / "m.npy", "|b1", (tokens, tokens), [True] * tokens**2)
        self.good("--variant", 6, *flags, "--mask", self.dir / "m.npy", "--mask-means", "allow")
        self.close(plain, read_npy(self.dir / "y.npy")[1], 1e-15)

    def test_wrong_shapes_and_types(self):
        flags, _, _ = self.case("not_causal")
        mask = self.dir / "m.npy"
        for shape in ((3, 3), (2, 9, 9), (9,)):
            write_npy(mask, "|b1", shape, [True] * math.prod(shape))
            self.refused(1, "--variant", 6, *flags, "--mask", mask, "--mask-means", "allow",
                         says=["attn_mask: expected [9, 9]", f"got [{', '.join(map(str, shape))}]"])
        write_npy(mask, "|b1", (9, 2), [True] * 18)
        self.refused(1, "--variant", 8, *flags, "--key-padding-mask", mask, says=["expected [2, 9], got [9, 2]"])
        write_npy(mask, "<f8", (2, 9), [0.0] * 18)
        self.refused(1, "--variant", 8, *flags, "--key-padding-mask", mask, says=["expected booleans", "float64"])

    def test_options_a_variant_does_not_take(self):
        flags, _, _ = self.case("square")
        for variant in variants():
            for flag, feature in (("--mask", "attn_mask"), ("--key-padding-mask", "key_padding_mask"),
                                  ("--attn-weights", "need_weights")):
                if not variant["supports"][feature]:
                    with self.subTest(variant=variant["slug"], flag=flag):
                        self.refused(2, "--variant", variant["slug"], *flags, flag, self.dir / "absent.npy",
                                     says=[flag, "expected a variant that takes it", variant["slug"]])


def read_npy_shape(path):
    return read_npy_any(path)["shape"]


def read_npy_any(path):
    data = pathlib.Path(path).read_bytes()
    return eval(data[10:10 + struct.unpack("<H", data[8:10])[0]], {})  # pylint: disable=eval-used; our own input


class AttentionWeights(InDirectory):
    """K4: every head or the mean, as asked, and the output stays what it was."""

    def test_mean_and_every_head(self):
        flags, tensors, _ = self.case("square_bias")
        self.good("--variant", 7, *flags)
        plain = (self.dir / "y.npy").read_bytes()
        for extra, golden in (([], "f64.attn_weights_averaged"), (["--per-head"], "f64.attn_weights")):
            self.good("--variant", 7, *flags, "--attn-weights", self.dir / "a.npy", *extra)
            shape, got = read_npy(self.dir / "a.npy")
            self.assertEqual(list(shape), tensors[golden][1])
            self.close(tensors[golden][2], got, 1e-12)
            self.assertEqual((self.dir / "y.npy").read_bytes(), plain)


class BadInput(InDirectory):
    def test_what_is_missing(self):
        self.refused(2, says=["--variant, --input, --weights, --output"])
        self.refused(2, "--variant", 1, "--input", "x.npy", says=["expected --weights, --output, got none"])
        self.refused(2, "--variant", "fast", "--input", "x", "--weights", "w", "--output", "y", says=['"fast"'])
        flags, _, _ = self.case("square")
        self.refused(2, "--variant", 1, *flags, "--per-head", says=["--per-head", "--attn-weights"])
        self.refused(2, "--variant", 1, *flags, "--mask-means", "allow", says=["--mask-means", "--mask beside it"])
        self.refused(2, "--variant", 1, *flags, "--to", "split", says=["--to", "--convert"])
        self.refused(2, "--variant", 7, *flags, "--attn-weights", self.dir / "." / "y.npy", says=["another file"])

    def test_shape_flags_must_agree_with_the_files(self):
        flags, _, _ = self.case("square_bias")  # [2, 7, 8] -> 8
        self.good("--variant", 1, *flags, "--batch", 2, "--tokens", 7, "--d-in", 8, "--d-out", 8, "--qkv-bias")
        for flag, got in (("--batch", 3), ("--tokens", 8), ("--d-in", 16), ("--d-out", 4)):
            self.refused(2, "--variant", 1, *flags, flag, got, says=[flag, f"got {got}"])
        self.refused(1, "--variant", 1, *flags, "--heads", 3, says=["3 heads divide, got 8"])
        flags, _, _ = self.case("square")
        self.refused(2, "--variant", 1, *flags, "--qkv-bias", says=["--qkv-bias", "got 1"])

    def test_files_that_are_none(self):
        flags, _, _ = self.case("square")
        os.mkfifo(self.dir / "pipe")
        for path, says in ((self.dir, "a directory"), (self.dir / "pipe", "a pipe"), ("/dev/null", "a device"),
                           (self.dir / "absent\n\x1b", "absent\\x0a\\x1b"), (self.dir / "w.safetensors", ".npy file")):
            self.refused(1, "--variant", 1, *flags, "--input", path, says=[says])
        for path, says in ((self.dir, "a directory"), (self.dir / "pipe", "a pipe"), (self.dir / "x.npy", ".safetensors file")):
            self.refused(1, "--variant", 1, *flags, "--weights", path, says=[says])
        (self.dir / "empty").write_bytes(b"")
        self.refused(1, "--variant", 1, *flags, "--input", self.dir / "empty", says=["got an empty one"])
        self.refused(1, "--variant", 1, *flags, "--weights", self.dir / "empty", says=["got an empty one"])

    def test_truncated_files(self):
        flags, _, _ = self.case("wider_in")
        for name in ("x.npy", "w.safetensors"):
            whole = (self.dir / name).read_bytes()
            for length in list(range(0, 140, 7)) + [len(whole) - 1]:
                with self.subTest(name=name, length=length):
                    (self.dir / name).write_bytes(whole[:length])
                    self.refused(1, "--variant", 1, *flags, says=[name, "expected", "got"])
            (self.dir / name).write_bytes(whole)

    def test_inputs_that_do_not_fit(self):
        flags, _, _ = self.case("square")
        write_npy(self.dir / "x.npy", "<f8", (7, 8), [0.0] * 56)
        self.refused(1, "--variant", 1, *flags, says=["expected [batch, num_tokens, d_in], got [7, 8]"])
        write_npy(self.dir / "x.npy", "<f8", (1, 2, 9), [0.0] * 18)
        self.refused(1, "--variant", 1, *flags, says=["expected [batch, num_tokens, 8]", "got [1, 2, 9]"])
        write_npy(self.dir / "x.npy", "<f8", (1, 1, 8), [1e300] * 8)
        self.refused(1, "--variant", 1, *flags, "--dtype", "float32", says=["fit float32", "at [0, 0, 0]"])

    def test_nan_warns_and_goes_on(self):
        flags, tensors, _ = self.case("square")
        _, shape, numbers = tensors["x"]
        write_npy(self.dir / "x.npy", "<f8", shape, (*numbers[:-1], math.nan))
        result = self.good("--variant", 5, *flags)
        self.assertIn("x.npy", result.stderr)
        self.assertIn("NaN", result.stderr)
        _, got = read_npy(self.dir / "y.npy")
        width = shape[2]
        self.assertTrue(all(map(math.isnan, got[-width:])))
        self.close(tensors["f64.output"][2][:-width], got[:-width], 1e-12)


class Outputs(InDirectory):
    def test_found_out_before_computing(self):
        flags, _, _ = self.case("square")
        for path, says in ((self.dir, "a directory"), (self.dir / "no" / "y.npy", "cannot be written"),
                           ("/dev/full", "a device"), ("", "name of a file")):
            self.refused(1, "--variant", 1, *flags, "--output", path, says=[says])

    def test_no_space(self):
        # Mutant: a failed write that leaves a piece, or that goes unnoticed.
        def little_space():
            import resource  # pylint: disable=import-outside-toplevel; not on every system
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))

        flags, _, _ = self.case("past_two_tiles")
        self.refused(1, "--variant", 1, *flags, says=["y.npy", "cannot be written"], before=little_space)
        (self.dir / "y.npy").write_text("old", encoding="utf-8")
        self.refused(1, "--variant", 1, *flags, says=["cannot be written"], before=little_space)
        self.assertEqual((self.dir / "y.npy").read_text(encoding="utf-8"), "old")
        self.refused(1, "--weights", self.dir / "w.safetensors", "--heads", 2, "--convert", self.dir / "w2", "--to", "qkv",
                     says=["w2", "cannot be written"], before=little_space)

    def test_both_files_or_none(self):
        flags, _, _ = self.case("square")
        self.refused(1, "--variant", 7, *flags, "--attn-weights", self.dir / "no" / "a.npy", says=["cannot be written"])
        self.assertFalse((self.dir / "y.npy").exists())

    def test_killed_in_the_middle_leaves_nothing(self):
        flags, _, _ = self.case("past_two_tiles")
        width = read_npy_shape(self.dir / "x.npy")[2]
        write_npy(self.dir / "x.npy", "<f8", (8, 3000, width), [0.5] * (8 * 3000 * width))
        there = sorted(os.listdir(self.dir))
        with subprocess.Popen([TOOL, "run", "--variant", "1", *map(str, flags), "--threads", "1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(0.3)
            process.kill()
            process.wait(60)
        self.assertEqual(sorted(set(os.listdir(self.dir)) - {"y.npy"}), there)
        if (self.dir / "y.npy").exists():  # it was faster than we
            self.assertEqual(read_npy(self.dir / "y.npy")[0][1], 3000)

    def test_batches_in_pieces_are_the_same_bits(self):
        # A batch too large for one piece: 2^24 elements of x. Mutant: a piece too few, or a mask of the wrong items.
        flags, tensors, _ = self.case("padding")
        _, (batch, tokens, width), numbers = tensors["x"]
        self.good("--variant", 8, *flags)
        _, small = read_npy(self.dir / "y.npy")
        times = 2**24 // (batch * tokens * width) // 4 + 1
        data = struct.pack(f"<{len(numbers)}f", *numbers) * times
        header = str({"descr": "<f4", "fortran_order": False, "shape": (batch * times, tokens, width)}).encode() + b"\n"
        big = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data
        (self.dir / "x.npy").write_bytes(big)
        _, shape, block = tensors["mask.key_padding_block"]
        write_npy(self.dir / "p.npy", "|b1", (shape[0] * times, shape[1]), block * times)
        self.good("--variant", 8, *flags)
        _, got = read_npy(self.dir / "y.npy")
        self.assertEqual(got, got[:len(small)] * times)
        self.close(small, got[:len(small)], 2e-6)


class Conversion(InDirectory):
    LAYOUTS = ("heads", "split", "qkv", "einsum", "in_proj", "in_proj_separate", "gpt2", "nanogpt", "llama", "opt")

    def test_there_and_back(self):
        flags, tensors, _ = self.case("wider_out")
        heads = flags[flags.index("--heads") + 1]
        original, _ = read_safetensors(self.dir / "w.safetensors")
        for layout in self.LAYOUTS:
            with self.subTest(layout):
                result = self.good("--weights", self.dir / "w.safetensors", "--heads", heads, "--convert", self.dir / "to",
                                   "--to", layout)
                self.assertIn(f"from split to {layout}", result.stdout)
                self.good("--variant", 3, *flags, "--weights", self.dir / "to")
                self.close(tensors["f64.output"][2], read_npy(self.dir / "y.npy")[1], 1e-12)
                self.good("--weights", self.dir / "to", "--convert", self.dir / "back", "--to", "split")
                self.assertEqual(read_safetensors(self.dir / "back")[0], original)

    def test_golden_layouts_convert_to_the_bit(self):
        # What PyTorch saved in one layout becomes what PyTorch saved in the other.
        def weights(path):
            return {name: tensor for name, tensor in read_safetensors(path)[0].items()
                    if not name.endswith("mask") and name not in ("bias", "masked_bias")}

        names = ("heads", "split", "qkv", "einsum", "in_proj", "in_proj_separate", "gpt2", "llama")
        for one in names:
            for other in names:
                with self.subTest(one=one, other=other):
                    self.good("--weights", GOLDEN / f"layout_{one}_bias.safetensors", "--heads", 4, "--convert",
                              self.dir / "to", "--to", other)
                    self.assertEqual(weights(self.dir / "to"), weights(GOLDEN / f"layout_{other}_bias.safetensors"))

    def test_refusals(self):
        self.case("square")
        w = ["--weights", self.dir / "w.safetensors"]
        self.refused(2, *w, "--convert", self.dir / "to", says=["expected --to"])
        self.refused(2, *w, "--convert", self.dir / "to", "--to", "bert", says=["--to", "llama", '"bert"'])
        self.refused(2, *w, "--convert", self.dir / "to", "--to", "qkv", "--variant", 1, says=["--variant", "--convert"])
        self.refused(1, *w, "--convert", self.dir / "to", "--to", "qkv", says=["number of heads (--heads)"])
        self.refused(1, *w, "--heads", 2, "--convert", self.dir / "to", "--to", "llama", "--kv-heads", 1,
                     says=["expected equal key and value heads"])
        self.refused(1, *w, "--heads", 2, "--prefix", "h.0", "--convert", self.dir / "to", "--to", "qkv",
                     says=['under the prefix "h.0."', "W_query.weight"])


if __name__ == "__main__":
    if not TOOL:
        sys.exit(77)
    unittest.main(verbosity=0)
