#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same binaries on emulated x86-64 CPUs that lack instruction sets: without AVX, and without SSE4.

Mutants: an instruction above the baseline outside the kernels (the emulator stops the process); an
instruction set offered that the CPU does not have.
"""
import os
import pathlib
import platform
import shutil
import subprocess
import sys

BUILD = pathlib.Path(os.environ["ENNEAD_BUILD_DIR"])
MODELS = ("Nehalem", "core2duo")
TESTS = "KernelsTable.*:KernelsSoftmax.*:KernelsLinear.*SameBits*"


def run(emulator, model, *command):
    environment = {key: value for key, value in os.environ.items() if key != "ENNEAD_ISA"}
    result = subprocess.run(
        [emulator, "-cpu", model, *map(str, command)], capture_output=True, text=True, env=environment, check=False
    )
    if result.returncode != 0:
        print(f"{model}: {command[0]} left with {result.returncode}\n{result.stdout}{result.stderr}")
    return result.returncode == 0


def main():
    emulator = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    program = BUILD / "tests" / "kernels_tests"
    if emulator is None or platform.machine() != "x86_64" or os.environ.get("ENNEAD_SANITIZE"):
        print("needs qemu-x86_64 and an x86-64 build without sanitizers")
        return 77
    if not program.exists():
        print("the kernels' tests are not built")
        return 77
    good = True
    for model in MODELS:
        good &= run(emulator, model, program, "--gtest_brief=1", f"--gtest_filter={TESTS}")
        tool = os.environ.get("ENNEAD_TOOL")
        if tool:
            good &= run(emulator, model, tool, "list")
    return 0 if good else 1


sys.exit(main())
