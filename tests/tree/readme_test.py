#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the README shows is what the tree holds.

Catches: a C++ block that is no longer the example that is built and run, a link to a file that went.
The figures and the picture are render/readme_test's.
"""

import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(os.environ["ENNEAD_SOURCE_DIR"])
README = (ROOT / "README.md").read_text()


class Readme(unittest.TestCase):
    def test_cpp_block_is_the_example_that_is_built_and_run(self):
        blocks = re.findall(r"```cpp\n(.*?)```", README, re.DOTALL)
        example = (ROOT / "examples/quickstart.cpp").read_text()
        code = "".join(line for line in example.splitlines(True) if not line.startswith("//"))
        self.assertEqual(blocks, [code])

    def test_links_lead_somewhere(self):
        pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
        for page in pages:
            for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
                self.assertTrue((page.parent / link).exists(), f"{page.name}: {link}")


if __name__ == "__main__":
    unittest.main()
