#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tool from outside: exit statuses, sentences, and what lies on the disk afterwards."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOOL = os.environ.get("ENNEAD_TOOL", "")
SOURCE = os.environ.get("ENNEAD_SOURCE_DIR", str(pathlib.Path(__file__).resolve().parents[2]))
SMALL = ["--batch", "2", "--tokens", "33", "--d-in", "24", "--d-out", "30", "--heads", "3"]


def run(*arguments, **environment):
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "LC_ALL": "C.UTF-8", **environment})


def listed():
    return json.loads(run("list", "--json").stdout)


class Refusals(unittest.TestCase):
    """One sentence that names what was expected and what came; nothing on standard output."""

    def refused(self, status, *arguments, says):
        result = run(*arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, "")
        for piece in says:
            self.assertIn(piece, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result

    def test_unknown_command(self):
        self.refused(2, "bnech", says=["bench", "roofline", '"bnech"'])

    def test_unknown_variant_lists_what_there_is(self):
        for command in ("bench", "check", "show", "trace", "roofline"):
            with self.subTest(command):
                self.refused(2, command, "fast_one", says=["fast_one", "stacked_heads", "weight_split"])
        self.refused(2, "bench", "0", says=["0", "stacked_heads"])

    def test_unknown_option(self):
        self.refused(2, "bench", "--bacth", "3", says=["--bacth", "ennead bench --help"])

    def test_numbers_that_are_no_numbers(self):
        for flag in ("--batch", "--tokens", "--d-in", "--d-out", "--heads", "--threads"):
            for text in ("eight", "8x", "", "1.5", "0", "-3", "99999999999999999999", "nan"):
                with self.subTest(flag=flag, text=text):
                    result = run("check", f"{flag}={text}")
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertIn(flag, result.stderr)
        self.refused(2, "bench", "--tokens", "eight", says=["--tokens", "whole number", '"eight"'])
        self.refused(2, "bench", "--seconds", "soon", says=["--seconds", "above 0", '"soon"'])
        self.refused(2, "bench", "--seed", "-1", says=["--seed", '"-1"'])

    def test_words_that_are_none_of_the_choices(self):
        self.refused(2, "bench", "--dtype", "float16", says=["--dtype", "float32 or float64", '"float16"'])
        self.refused(2, "bench", "--pass", "backward", says=["--pass", "forward-backward", '"backward"'])
        self.refused(2, "bench", "--isa", "mmx", says=["--isa", "scalar", '"mmx"'])

    def test_d_out_not_divisible_by_heads(self):
        self.refused(2, "bench", "--d-out", "770", "--heads", "12", says=["770", "12"])

    def test_backward_where_there_is_none(self):
        without = [v for v in listed() if not v["supports"]["gradient"]]
        if not without:
            self.skipTest("every variant has gradients")
        self.refused(2, "bench", "--pass", "forward-backward", without[0]["slug"],
                     says=["forward-backward", without[0]["slug"], "1, 2, 3, 4"])

    def test_sizes_that_do_not_fit_name_the_bytes(self):
        start = time.monotonic()
        for command in ("bench", "check", "trace", "roofline"):
            with self.subTest(command):
                result = self.refused(1, command, "2", "--tokens", "3000000", "--batch", "1", says=["bytes"])
                self.assertRegex(result.stderr, r"\d{12,} bytes")
        self.assertLess(time.monotonic() - start, 20)
        # A product that overflows 64 bits is refused too, not wrapped around.
        result = run("bench", "1", "--batch", "4000000000", "--tokens", "4000000000", "--d-in", "4000000000", "--heads", "1")
        self.assertIn(result.returncode, (1, 2))
        self.assertEqual(result.stderr.count("\n"), 1)

    def test_unwritable_output_is_found_out_before_measuring(self):
        start = time.monotonic()
        self.refused(1, "bench", "--json", "/no/such/folder/result.json", says=["/no/such/folder/result.json"])
        self.refused(1, "bench", "--json", SOURCE, says=[SOURCE])
        self.assertLess(time.monotonic() - start, 5)

    def test_no_command_prints_the_help(self):
        result = run()
        self.assertEqual(result.returncode, 2)
        self.assertIn("Examples:", result.stderr)

    def test_a_bad_environment_is_told(self):
        result = run("bench", *SMALL, ENNEAD_ISA="mmx")
        self.assertEqual(result.returncode, 1)
        self.assertIn("mmx", result.stderr)

    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "w", encoding="ascii") as full:
            result = subprocess.run([TOOL, "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("standard output", result.stderr)


class Commands(unittest.TestCase):
    def test_help_has_examples(self):
        for arguments in ((), ("bench",), ("check",), ("show",), ("trace",), ("roofline",)):
            result = run(*arguments, "--help")
            self.assertEqual(result.returncode, 0)
            self.assertIn("Examples:", result.stdout)
            self.assertEqual(result.stderr, "")

    def test_version(self):
        result = run("--version")
        self.assertEqual(result.returncode, 0)
        for word in ("commit", "compiler", "targets", "scalar"):
            self.assertIn(word, result.stdout)

    def test_list_is_the_one_list(self):
        with open(os.path.join(SOURCE, "src/variants/variants.def"), encoding="utf-8") as file:
            lines = re.findall(r'^ENNEAD_VARIANT\((\d+), *(\w+), *"([^"]*)", *(\d+), *"(.*)"\)', file.read(), re.M)
        wanted = [(int(n), slug, title, int(parent) or None, change) for n, slug, title, parent, change in lines]
        got = [(v["number"], v["slug"], v["title"], v["parent"], v["change"]) for v in listed()]
        self.assertEqual(got, wanted)
        text = run("list").stdout
        for _, slug, *_ in wanted:
            self.assertIn(slug, text)

    def test_show_prints_the_source_and_the_book(self):
        for variant in listed():
            with open(os.path.join(SOURCE, variant["source"]), encoding="utf-8") as file:
                source = file.read()
            self.assertIn(source, run("show", variant["slug"], COLUMNS="60").stdout)
        narrow = run("show", "2", COLUMNS="60").stdout
        self.assertIn("class MultiHeadAttention(nn.Module):", narrow)
        wide = run("show", "1", COLUMNS="260").stdout
        self.assertIn("class MultiHeadAttentionWrapper(nn.Module):", wide)
        self.assertTrue(any("│" in line and "SPDX" in line for line in wide.splitlines()))

    def test_show_diff_rebuilds_the_file_from_its_parent(self):
        lines = run("show", "3", "--diff").stdout.splitlines()
        self.assertEqual(lines[:2], ["--- src/variants/weight_split.cpp", "+++ src/variants/combined_qkv.cpp"])
        for mark, slug in (("-", "weight_split"), ("+", "combined_qkv")):
            with open(os.path.join(SOURCE, f"src/variants/{slug}.cpp"), encoding="utf-8") as file:
                source = file.read().splitlines()
            for line in lines[2:]:
                if line[:1] in (mark, " "):
                    self.assertIn(line[1:], source)
        self.assertIn("no parent", run("show", "1", "--diff").stdout)

    def test_check(self):
        result = run("check", *SMALL)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("all agree", result.stdout)
        self.assertNotIn("WRONG", result.stdout)
        self.assertIn("float32", result.stdout)
        self.assertIn("float64", result.stdout)

    def test_check_of_gradients(self):
        self.assertEqual(run("check", "1", "2", "3", "4", "--pass", "forward-backward", *SMALL).returncode, 0)

    def test_trace_adds_up(self):
        result = run("trace", "2", *SMALL)
        self.assertEqual(result.returncode, 0, result.stderr)
        for piece in ("weight_split.cpp:", "softmax", "unexplained", "the whole pass"):
            self.assertIn(piece, result.stdout)
        shares = [float(share) for share in re.findall(r" ([0-9.]+)%$", result.stdout, re.M)]
        self.assertEqual(shares[-1], 100)
        self.assertAlmostEqual(sum(shares[:-1]), 100, delta=5)

    def test_roofline(self):
        result = run("roofline", "1", "2", *SMALL)
        self.assertEqual(result.returncode, 0, result.stderr)
        for piece in ("scalar", "memory", "stacked_heads", "FLOPs/byte"):
            self.assertIn(piece, result.stdout)


class Bench(unittest.TestCase):
    def test_result_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            result = run("bench", *SMALL, "--seconds", "1", "--published", "--json", path, "--threads", "1")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(os.listdir(folder), ["result.json"])
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
        self.assertIn("return [2, 33, 30]", result.stdout)
        self.assertIn("not measured here", result.stdout)
        self.assertNotIn("\x1b", result.stdout)
        self.assertEqual(data["schema_version"], 1)
        self.assertEqual(data["work"]["shape"]["num_tokens"], 33)
        self.assertEqual(data["machine"]["threads"], 1)
        self.assertGreater(len(data["peak_flops"]), 2)
        self.assertEqual([bar["slug"] for bar in data["results"]], [v["slug"] for v in listed()])
        fields = ("number slug title samples_ns median_ns ratio_to_1 ratio_interval share_of_peak useful_flops "
                  "executed_flops peak_bytes plan_ns cpu_share max_abs_err ok").split()
        for bar in data["results"]:
            self.assertLessEqual(set(fields), set(bar))
            self.assertTrue(bar["ok"])
            self.assertGreaterEqual(len(bar["samples_ns"]), 3)
            self.assertLessEqual(min(bar["samples_ns"]), bar["median_ns"])
            self.assertLessEqual(bar["share_of_peak"], 1)
            self.assertGreater(bar["executed_flops"], 0)
            self.assertGreater(bar["peak_bytes"], 0)
            low, high = bar["ratio_interval"]
            self.assertTrue(low <= bar["ratio_to_1"] <= high)
        self.assertEqual(data["results"][0]["ratio_to_1"], 1)

    def test_one_round_names_no_winner(self):
        # Mutant: an interval of no width, "fastest", or silence, when only one round fits in the time.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            result = run("bench", "1", "2", *SMALL, "--quick", "--seconds", "0.000001", "--json", path, COLUMNS="400")
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
        for words in ("no winner: one round", "single round", "note: only 1 round was completed"):
            self.assertIn(words, result.stdout)
        for words in ("fastest:", "joint winners", "[0.", "[1.", "of 100 cases", "nan"):
            self.assertNotIn(words, result.stdout)
        self.assertEqual((data["rounds"], data["ratio_coverage"], data["enough_rounds"]), (1, None, False))
        for bar in data["results"]:
            self.assertEqual((bar["ratio_interval"], bar["spread"]), ([None, None], None))
            self.assertGreater(bar["ratio_to_1"], 0)

    def test_json_alone_on_standard_output(self):
        result = run("bench", "1", "2", *SMALL, "--seconds", "0.2", "--json", "-")
        self.assertEqual(json.loads(result.stdout)["schema_version"], 1)

    def test_backward_pass(self):
        result = run("bench", *SMALL, "--seconds", "0.5", "--pass", "forward-backward", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)
        self.assertEqual(data["work"]["pass"], "forward-backward")
        self.assertEqual([bar["number"] for bar in data["results"]],
                         [v["number"] for v in listed() if v["supports"]["gradient"]])

    def test_oversubscription_is_flagged(self):
        result = run("bench", "1", *SMALL, "--seconds", "0.2", "--threads", "64")
        self.assertIn("oversubscribed: 64 threads", result.stdout.replace("\n      ", " "))

    def test_plain_letters_where_the_locale_has_no_others(self):
        result = run("bench", "1", "2", *SMALL, "--seconds", "0.2", LC_ALL="C")
        self.assertTrue(result.stdout.isascii())

    def test_interrupted_keeps_what_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            with subprocess.Popen([TOOL, "bench", "1", "2", "--batch", "1", "--tokens", "256", "--d-in", "192",
                                   "--heads", "3", "--seconds", "60", "--json", path],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                time.sleep(4)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1)
            self.assertIn("interrupted", err)
            self.assertIn("stacked_heads", out)
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
            self.assertEqual(os.listdir(folder), ["result.json"])
        self.assertTrue(data["interrupted"])
        self.assertGreater(len(data["results"][0]["samples_ns"]), 1)


if __name__ == "__main__":
    if not TOOL:
        print("ENNEAD_TOOL is not set: nothing to test")
        sys.exit(77)
    unittest.main(verbosity=2)
