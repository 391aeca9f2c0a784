#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The machine code of the kernels, from the compiler of this build and from clang++ where there is one.

Mutants: an unrolled loop over k (its accumulators spill); a helper of the kernels outside
HWY_NAMESPACE, so that its AVX-512 copy is linked into code for every CPU; a tile register used by
the kernels of AVX-512, which run without AMX.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["ENNEAD_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["ENNEAD_BUILD_DIR"])
TOOL = SOURCE / "tools" / "check-disassembly"
FLAGS = ["-std=c++20", "-O3", "-DNDEBUG", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


def cached(name):
    for line in (BUILD / "CMakeCache.txt").read_text().splitlines():
        if line.startswith(name + ":"):
            return line.split("=", 1)[1]
    return ""


def main():
    libraries = sorted(BUILD.glob("src/libennead.a"))
    if os.environ.get("ENNEAD_SANITIZE") or cached("CMAKE_BUILD_TYPE") == "Debug" or not libraries:
        print("needs an optimised static library without sanitizers")
        return 77
    status = subprocess.run([sys.executable, TOOL, libraries[0]], check=False).returncode
    clang = next((path for path in map(shutil.which, ("clang++-19", "clang++")) if path), None)
    if status != 0 or clang is None or "clang" in os.environ.get("ENNEAD_CXX", ""):
        return status
    # The files that hold all tiles, and one with tile registers.
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for name in ("simd/gemm/register_tiles", "simd/attention/forward/block", "amx/attention/forward/block", "amx/gemm/products"):
            objects.append(pathlib.Path(folder) / f"{name.replace('/', '-')}.o")
            subprocess.run(
                [clang, *FLAGS, f"-I{SOURCE}/src", f"-I{SOURCE}/include", "-c",
                 SOURCE / f"src/kernels/{name}.cpp", "-o", objects[-1]],
                check=True,
            )
        return subprocess.run([sys.executable, TOOL, *objects], check=False).returncode


sys.exit(main())
