#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same binaries on emulated x86-64 CPUs that lack instruction sets, or one bit of what a level of them needs.

Mutants: an instruction above the baseline outside the kernels (the emulator stops the process); an
instruction set offered that the CPU does not have, or not offered though it has it; a wrong CPUID leaf.
"""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

BUILD = pathlib.Path(os.environ["ENNEAD_BUILD_DIR"])
TESTS = "KernelsTable.*:KernelsSoftmax.*:KernelsLinear.*SameBits*"
# What runs there, best first. The kernels are tried on those in KERNELS.
MODELS = {
    "core2duo": "scalar",
    "Nehalem": "scalar",
    "Westmere": "sse4, scalar",
    "Westmere,-aes": "scalar",
    "Westmere,-pclmulqdq": "scalar",
    "SandyBridge": "sse4, scalar",
    "Haswell": "avx2, sse4, scalar",
    "Haswell,-fma": "sse4, scalar",
    "Haswell,-f16c": "sse4, scalar",
    "Haswell,-bmi2": "sse4, scalar",
    "Haswell,-abm": "sse4, scalar",
    "Haswell,-xsave": "sse4, scalar",
}
KERNELS = {"core2duo", "Nehalem", "Westmere", "Haswell,-fma", "Haswell"}


def run(emulator, model, *command):
    """What the command prints; None, and the reason on standard output, when it fails."""
    environment = {key: value for key, value in os.environ.items() if key != "ENNEAD_ISA"}
    result = subprocess.run(
        [emulator, "-cpu", model, *map(str, command)], capture_output=True, text=True, env=environment, check=False
    )
    if result.returncode != 0:
        print(f"{model}: {command[0]} left with {result.returncode}\n{result.stdout}{result.stderr}")
        return None
    return result.stdout


def offers(emulator, model, tool, expected):
    text = run(emulator, model, tool, "--version")
    if text is None:
        return False
    found = re.search(r"^targets +(.*) \(", text, flags=re.M)
    if not found or found.group(1) != expected:
        print(f"{model}: expected the targets {expected}, got\n{text}")
        return False
    return run(emulator, model, tool, "list") is not None


def main():
    emulator = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    program = BUILD / "tests" / "kernels_tests"
    if emulator is None or platform.machine() != "x86_64" or os.environ.get("ENNEAD_SANITIZE"):
        print("needs qemu-x86_64 (package qemu-user) and an x86-64 build without sanitizers")
        return 77
    if not program.exists():
        print("the kernels' tests are not built")
        return 77
    good = True
    tool = os.environ.get("ENNEAD_TOOL")
    for model, expected in MODELS.items():
        if tool:
            good &= offers(emulator, model, tool, expected)
        if model in KERNELS:
            good &= run(emulator, model, program, "--gtest_brief=1", f"--gtest_filter={TESTS}") is not None
    return 0 if good else 1


sys.exit(main())
