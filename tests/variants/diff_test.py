#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a variant changes from its parent stays readable, and the stages stand in the order in which they run.

The budget counts changed lines of code, removed and added, by the shortest line diff. Comments, blank lines
and indentation are left out, and the names of class and file count as equal, because every pair changes them.

Mutants: a variant that writes the same step in other words than its parent; a stage under another label."""
import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(os.environ.get("ENNEAD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUDGET = 40
STAGES = ["project", "split", "score", "mask", "softmax", "mix", "merge"]
# A loop over heads makes each head's own projection, so there is nothing to split.
WITHOUT_SPLIT = {"stacked_heads"}


def listed(text):
    """{number: (slug, parent)} as variants.def tells."""
    found = re.findall(r'^ENNEAD_VARIANT\((\d+), *(\w+), *"[^"]*", *(\d+),', text, flags=re.M)
    return {int(number): (slug, int(parent)) for number, slug, parent in found}


def code_lines(source):
    """Lines of code without indentation and comments, with one name for the class and for the file."""
    names = re.search(r"^ENNEAD_VARIANT_CLASS\((\w+), (\w+)\)", source, flags=re.M)
    for name, common in zip(names.groups(), ("slug", "Class")):
        source = re.sub(rf"\b{name}\b", common, source)
    lines = [re.sub(r"//.*", "", line).strip() for line in source.splitlines()]
    return [line for line in lines if line]


def changed_lines(before, after):
    """How many lines the shortest diff removes and adds."""
    common = [0] * (len(after) + 1)
    for line in before:
        diagonal = 0
        for j, other in enumerate(after, 1):
            above = common[j]
            common[j] = diagonal + 1 if line == other else max(above, common[j - 1])
            diagonal = above
    return len(before) + len(after) - 2 * common[-1]


def stages(source):
    """The labels of a variant's comments, in the order of its lines."""
    comments = re.findall(r"^\s+//(.*)$", source, flags=re.M)
    return [label for comment in comments for label in re.findall(r"\[(\w+)\]", comment) if label in STAGES]


class VariantsDiff(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = ROOT / "src/variants"
        cls.variants = listed((folder / "variants.def").read_text(encoding="utf-8"))
        cls.sources = {slug: (folder / f"{slug}.cpp").read_text(encoding="utf-8") for slug, _ in cls.variants.values()}

    def test_changes_fit_the_budget(self):
        pairs = [(self.variants[parent][0], slug) for slug, parent in self.variants.values() if parent]
        self.assertEqual(len(pairs), len(self.variants) - 1)
        for parent, slug in pairs:
            with self.subTest(parent=parent, slug=slug):
                changed = changed_lines(code_lines(self.sources[parent]), code_lines(self.sources[slug]))
                self.assertLessEqual(changed, BUDGET, f"{parent} -> {slug}: expected at most {BUDGET} changed lines")

    def test_stages_stand_in_order(self):
        for slug, source in self.sources.items():
            with self.subTest(slug=slug):
                expected = [stage for stage in STAGES if stage != "split" or slug not in WITHOUT_SPLIT]
                self.assertEqual(stages(source), expected)

    def test_the_same_step_is_written_in_one_way(self):
        for slug, source in self.sources.items():
            code = "\n".join(code_lines(source))
            with self.subTest(slug=slug):
                self.assertNotRegex(code, r"\bconfig_\b", "the configuration is `config`")
                for axes in re.findall(r"transpose\(keys, ([^)]*)\)", code):
                    self.assertEqual(axes, "-2, -1")
                self.assertNotRegex(code, r"\bmutable\b|\bconst_cast\b", "a call changes nothing in the variant")

    def test_the_count_sees(self):
        self.assertEqual(changed_lines(list("abcd"), list("abcd")), 0)
        self.assertEqual(changed_lines(list("abcd"), list("axcde")), 3)
        self.assertEqual(changed_lines(list("abcd"), []), 4)
        one = code_lines("class One {\n  // why\n\n  int x;  // what\n};\nENNEAD_VARIANT_CLASS(first, One)\n")
        two = code_lines("class Two {\n    int x;\n};\nENNEAD_VARIANT_CLASS(second, Two)\n")
        self.assertEqual(one, two)
        self.assertEqual(stages("// [merge] of the head\n  // [mask] [b, n]\n  a[mask]\n  // [score]\n"), ["mask", "score"])


if __name__ == "__main__":
    unittest.main()
