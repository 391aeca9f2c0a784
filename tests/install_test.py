#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is installed can be used: found by CMake and by pkg-config, moved elsewhere, header by header."""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("ENNEAD_SOURCE_DIR", pathlib.Path(__file__).resolve().parent.parent))
BUILD = os.environ.get("ENNEAD_BUILD_DIR", "")
CXX = os.environ.get("ENNEAD_CXX", "c++")
SANITIZE = os.environ.get("ENNEAD_SANITIZE", "")


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=200, check=False, **options)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ennead-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        first = cls.folder / "first"
        installed = run("cmake", "--install", BUILD, "--prefix", first)
        assert installed.returncode == 0, installed.stderr
        # Nothing may remember where it was built or first put.
        cls.prefix = cls.folder / "moved"
        first.rename(cls.prefix)

    def succeeds(self, *command, **options):
        result = run(*command, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def configure(self, version):
        return run("cmake", "-S", SOURCE / "tests/install", "-B", self.folder / f"build-{version}", f"-DCMAKE_CXX_COMPILER={CXX}",
                   f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DWANTED_VERSION={version}",
                   f"-DCMAKE_CXX_FLAGS={'-fsanitize=' + SANITIZE if SANITIZE else ''}")

    def test_found_by_cmake(self):
        configured = self.configure("0.1")
        self.assertEqual(configured.returncode, 0, configured.stderr)
        build = self.folder / "build-0.1"
        self.succeeds("cmake", "--build", build)
        self.assertIn("variants agree", self.succeeds(build / "consumer").stdout)
        if (build / "consumer_io").exists():
            self.succeeds(build / "consumer_io", build / "x.npy")

    def test_other_minor_versions_are_not_taken(self):
        for version in ("0.0", "0.2", "1.0"):
            with self.subTest(version):
                self.assertNotEqual(self.configure(version).returncode, 0)

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config")
    def test_found_by_pkg_config(self):
        folder = next(self.prefix.rglob("ennead.pc")).parent
        program = self.folder / "by-pkg-config"
        flags = self.succeeds("pkg-config", "--cflags", "--libs", "--static", "ennead",
                              env={**os.environ, "PKG_CONFIG_PATH": str(folder)}).stdout.split()
        sanitize = [f"-fsanitize={SANITIZE}"] if SANITIZE else []
        self.succeeds(CXX, *sanitize, SOURCE / "tests/install/consumer.cpp", "-o", program, *flags)
        self.assertIn("variants agree", self.succeeds(program).stdout)

    def test_each_header_stands_alone(self):
        headers = sorted((self.prefix / "include/ennead").glob("*.h"))
        self.assertGreater(len(headers), 10)

        def compiles(header):
            return header.name, run(CXX, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", self.prefix / "include",
                                    "-x", "c++", "-", input=f'#include "ennead/{header.name}"\n')

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for name, result in pool.map(compiles, headers):
                with self.subTest(name):
                    self.assertEqual(result.returncode, 0, result.stderr)

    def test_nothing_points_at_the_source_or_build_tree(self):
        for path in self.prefix.rglob("*"):
            if path.suffix in {".cmake", ".pc", ".h"}:
                text = path.read_text(encoding="utf-8")
                for where in (str(SOURCE), BUILD, str(self.folder)):
                    self.assertNotIn(where, text, path.name)

    def test_licence_comes_along(self):
        names = {path.name for path in self.prefix.rglob("*")}
        self.assertLessEqual({"LICENSE", "NOTICE"}, names)
        self.assertNotIn("kernels.h", names, "an internal header is installed")


if __name__ == "__main__":
    if not BUILD:
        sys.exit("ENNEAD_BUILD_DIR: expected a build folder")
    unittest.main()
