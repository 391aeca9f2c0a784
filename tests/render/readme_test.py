#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The picture and the tables of the README say what the committed result says."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("ENNEAD_SOURCE_DIR", str(pathlib.Path(__file__).resolve().parents[2]))
MAKER = os.path.join(os.environ.get("ENNEAD_BUILD_DIR", ""), "bin", "ennead_readme")
RESULT = os.path.join(SOURCE, "bench", "results", "reference.json")


def check(folder):
    return subprocess.run([MAKER, folder, RESULT, "--check"], capture_output=True, text=True, check=False)


class Readme(unittest.TestCase):
    def test_is_what_the_result_says(self):
        result = check(SOURCE)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_changed_number_is_noticed(self):
        for changed in ("README.md", "docs/bars.svg"):
            with self.subTest(changed), tempfile.TemporaryDirectory() as folder:
                for name in ("docs", "data"):
                    os.mkdir(os.path.join(folder, name))
                for name in ("README.md", "docs/bars.svg", "data/published.json"):
                    shutil.copy(os.path.join(SOURCE, name), os.path.join(folder, name))
                self.assertEqual(check(folder).returncode, 0)
                path = os.path.join(folder, changed)
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                self.assertIn(" ms", text)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text.replace(" ms", " us", 1))
                result = check(folder)
                self.assertEqual(result.returncode, 1)
                self.assertIn("tools/readme", result.stderr)


if __name__ == "__main__":
    if not os.path.exists(MAKER):
        print(f"{MAKER} is not there: nothing to test")
        sys.exit(77)
    unittest.main(verbosity=2)
