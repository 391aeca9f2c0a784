#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ennead run from outside: what it refuses, in which words, and what then lies on the disk."""

import math
import os
import signal
import struct
import subprocess
import sys
import time
import unittest

from run_files import TOOL, InDirectory, read_npy, read_npy_shape, write_npy


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

    def test_no_input_is_written_over(self):
        # Mutants: an input that is not compared; paths compared as text; a result that is not compared.
        flags, _, needs = self.case("padding_causal_additive")
        self.assertEqual(needs, {"attn_mask", "key_padding_mask"})
        inputs = {"--input": "x.npy", "--weights": "w.safetensors", "--mask": "m.npy", "--key-padding-mask": "p.npy"}
        before = {name: (self.dir / name).read_bytes() for name in inputs.values()}
        (self.dir / "sub").mkdir()
        for flag, name in inputs.items():
            os.symlink(os.path.join("..", name), self.dir / "sub" / name)
            for path in (self.dir / name, self.dir / "sub" / ".." / name, self.dir / "sub" / name):
                with self.subTest(flag=flag, path=path):
                    self.refused(2, "--variant", 7, *flags, "--output", path, says=[f"--output: expected another file than {flag}"])
                    self.refused(2, "--variant", 7, *flags, "--attn-weights", path,
                                 says=[f"--attn-weights: expected another file than {flag}"])
        self.refused(2, "--weights", self.dir / "w.safetensors", "--heads", 2, "--to", "split",
                     "--convert", self.dir / "sub" / "w.safetensors", says=["--convert: expected another file than --weights"])
        self.assertEqual(before, {name: (self.dir / name).read_bytes() for name in inputs.values()})

    def test_links(self):
        # Mutants: an exception's text instead of a sentence; two outputs that end in one file.
        flags, _, _ = self.case("square")
        os.symlink("ring", self.dir / "ring")
        long = self.dir / ("y" * 300)
        for path, says in ((self.dir / "ring", "Too many levels"), (long, "File name too long")):
            self.refused(1, "--variant", 7, *flags, "--output", path, "--attn-weights", self.dir / "a.npy", says=[says])
            self.refused(1, "--variant", 7, *flags, "--attn-weights", path, says=["cannot be written", says])
        os.symlink("y.npy", self.dir / "dangling")
        self.refused(2, "--variant", 7, *flags, "--attn-weights", self.dir / "dangling", says=["another file"])
        self.good("--variant", 1, *flags, "--output", self.dir / "dangling")
        self.assertTrue((self.dir / "dangling").is_symlink())
        read_npy(self.dir / "y.npy")

    def long_case(self):
        flags, _, _ = self.case("past_two_tiles")
        width = read_npy_shape(self.dir / "x.npy")[2]
        write_npy(self.dir / "x.npy", "<f8", (8, 3000, width), [0.5] * (8 * 3000 * width))
        return flags

    def test_interrupted_in_the_middle_leaves_nothing_and_says_so(self):
        # Mutants: the flag asked before the work only; a file that gets its name although it was interrupted.
        flags = self.long_case()
        there = sorted(os.listdir(self.dir))
        for number, seconds in ((signal.SIGINT, 0), (signal.SIGTERM, 0.3)):  # while it reads, while it computes
            with subprocess.Popen([TOOL, "run", "--variant", "1", *map(str, flags), "--threads", "1"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                self.wait_until_caught(process, number)
                time.sleep(seconds)
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, out, err), (1, "", "ennead: interrupted; nothing was written\n"))
            self.assertEqual(sorted(os.listdir(self.dir)), there)

    def wait_until_caught(self, process, number):
        """Until the process handles the signal, where the system tells."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and process.poll() is None:
            try:
                with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                    caught = [line.split()[1] for line in status if line.startswith("SigCgt:")]
            except OSError:
                time.sleep(0.3)
                return
            if int(caught[0], 16) >> (number - 1) & 1:
                return
            time.sleep(0.005)

    def test_killed_in_the_middle_leaves_nothing(self):
        flags = self.long_case()
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


if __name__ == "__main__":
    if not TOOL:
        sys.exit(77)
    unittest.main(verbosity=0)
