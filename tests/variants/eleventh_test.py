#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A new implementation is one file and one line: adds an eleventh in a copy of the tree and looks for it
in the tests, the bars, `show` and `list --json`.

Mutants: a list of variants kept anywhere but in variants.def; a test that counts to ten."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("ENNEAD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("ENNEAD_BUILD_DIR", ""))
CXX = os.environ.get("ENNEAD_CXX", "c++")
SANITIZE = os.environ.get("ENNEAD_SANITIZE", "")
PARENT, NEW = "fused_causal", "eleventh"
SMALL = ["--batch", "2", "--tokens", "33", "--d-in", "24", "--d-out", "30", "--heads", "3"]


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=200, check=False,
                          **options)


class Eleventh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="ennead-eleventh-"))
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.tree = folder / "tree"
        cls.tree.mkdir()
        for name in ("include", "src", "apps", "tests", "docs", "data", "cmake"):
            shutil.copytree(SOURCE / name, cls.tree / name, ignore=shutil.ignore_patterns("golden", "__pycache__"))

        # One file ...
        variants = cls.tree / "src/variants"
        text = (variants / f"{PARENT}.cpp").read_text(encoding="utf-8")
        (variants / f"{NEW}.cpp").write_text(text.replace(f"CLASS({PARENT},", f"CLASS({NEW},"), encoding="utf-8")
        # ... and one line.
        with (variants / "variants.def").open("a", encoding="utf-8") as listed:
            listed.write(f'ENNEAD_VARIANT(11, {NEW}, "The eleventh", 5, "nothing, but it is there")\n')

        cls.out = folder / "out"
        flags = f"-fsanitize={SANITIZE}" if SANITIZE else ""
        for command in (["cmake", "-S", cls.tree / "tests/variants/eleventh", "-B", cls.out, f"-DTREE={cls.tree}", f"-DBUILD={BUILD}",
                         f"-DNEW={NEW}", f"-DCMAKE_CXX_COMPILER={CXX}", f"-DCMAKE_CXX_FLAGS={flags}"],
                        ["cmake", "--build", cls.out]):
            result = run(*command)
            assert result.returncode == 0, result.stdout + result.stderr
        cls.tool = cls.out / "ennead"

    def succeeds(self, *command, **options):
        result = run(*command, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_list(self):
        listed = json.loads(self.succeeds(self.tool, "list", "--json"))
        entries = listed if isinstance(listed, list) else listed["variants"]
        self.assertEqual([(entry["number"], entry["slug"]) for entry in entries][-1], (11, NEW))
        self.assertIn("nothing, but it is there", self.succeeds(self.tool, "list"))

    def test_bars(self):
        folder = self.out / "bars"
        folder.mkdir()
        text = self.succeeds(self.tool, "bench", *SMALL, "--seconds", "1", "--json", folder / "result.json")
        self.assertIn(f"11 {NEW}", text)
        results = json.loads((folder / "result.json").read_text(encoding="utf-8"))["results"]
        mine = [bar for bar in results if bar["slug"] == NEW]
        self.assertEqual(len(mine), 1)
        self.assertTrue(mine[0]["ok"] and mine[0]["samples_ns"])

    def test_show_and_check(self):
        self.assertIn(f"ENNEAD_VARIANT_CLASS({NEW},", self.succeeds(self.tool, "show", "11"))
        self.assertIn(NEW, self.succeeds(self.tool, "check", *SMALL))

    def test_tests(self):
        program = self.out / "properties_test"
        names = self.succeeds(program, "--gtest_list_tests").count(f"/{NEW} ")
        self.assertGreater(names, 8)
        ran = self.succeeds(program, f"--gtest_filter=*/{NEW}")
        self.assertIn(f"[  PASSED  ] {names} tests", ran)

    def test_rules_of_the_tree(self):
        self.succeeds(sys.executable, self.tree / "tests/tree/architecture_test.py", "Architecture.test_tree_keeps_the_rules",
                      env={**os.environ, "ENNEAD_SOURCE_DIR": str(self.tree)})


if __name__ == "__main__":
    if not (BUILD / "apps/cli/libennead_tool.a").exists():
        print("skipped: the tool is not part of this build")
        sys.exit(77)
    unittest.main()
