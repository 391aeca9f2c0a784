#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ennead run from outside: every variant, mask and layout through files, against the golden values."""

import json
import math
import os
import struct
import subprocess
import sys
import unittest

try:
    import pty
except ImportError:  # not on every system
    pty = None

from run_files import GOLDEN, TOOL, InDirectory, read_npy, read_npy_shape, read_safetensors, variants, write_npy


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


@unittest.skipIf(pty is None, "no pseudo-terminals here")
class Progress(InDirectory):
    def test_on_a_terminal_only(self):
        flags, _, _ = self.case("square")
        self.assertEqual(self.good("--variant", 2, *flags).stderr, "")
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "rb", buffering=0) as terminal:
            subprocess.run([TOOL, "run", "--variant", "2", *map(str, flags)], stderr=theirs, stdout=subprocess.DEVNULL,
                           timeout=60, check=True)
            os.close(theirs)
            shown = b""
            try:
                while piece := terminal.read(4096):
                    shown += piece
            except OSError:  # the other end is closed
                pass
        self.assertIn(b"reading", shown)
        self.assertIn(b"weight_split: sequence 1 of 3", shown)


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
