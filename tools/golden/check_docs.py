# SPDX-License-Identifier: Apache-2.0
"""Runs the blocks of docs/from-pytorch.md in their order, in one empty directory.

    python tools/golden/check_docs.py --tool build/release/bin/ennead

Python blocks share their names, as in a notebook; sh blocks run under `sh -e` with the tool on the PATH.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def blocks(text: str) -> list[tuple[str, int, str]]:
    """(language, line, code) of every fenced block."""
    found = re.finditer(r"^```(python|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(m[1], text.count("\n", 0, m.start(2)) + 1, m[2]) for m in found]


def run(page: Path, tool: Path) -> None:
    names: dict[str, Any] = {}
    environment = os.environ | {"PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        for language, line, code in blocks(page.read_text()):
            print(f"{page.name}:{line}: {language}", flush=True)
            if language == "python":
                # Padded, so that an error names the line of the page.
                exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)
            else:
                subprocess.run(["sh", "-e", "-c", code], env=environment, check=True)
        os.chdir(ROOT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True, help="the built ennead")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "from-pytorch.md")
    arguments = parser.parse_args()
    tool = arguments.tool.resolve()
    if tool.name != "ennead" or not os.access(tool, os.X_OK):
        print(f"expected an executable called ennead, got {arguments.tool}", file=sys.stderr)
        return 2
    run(arguments.page.resolve(), tool)
    print("the page holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
