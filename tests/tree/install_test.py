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

SOURCE = pathlib.Path(os.environ.get("ENNEAD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
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
        cls.has_io = any(cls.prefix.rglob("ennead-io.pc"))

    def succeeds(self, *command, **options):
        result = run(*command, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def configure(self, version):
        return run("cmake", "-S", SOURCE / "tests/tree/install", "-B", self.folder / f"build-{version}", f"-DCMAKE_CXX_COMPILER={CXX}",
                   f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DWANTED_VERSION={version}",
                   f"-DWANTED_COMPONENTS={'io' if self.has_io else ''}",
                   f"-DCMAKE_CXX_FLAGS={'-fsanitize=' + SANITIZE if SANITIZE else ''}")

    def test_found_by_cmake(self):
        configured = self.configure("0.1")
        self.assertEqual(configured.returncode, 0, configured.stderr)
        build = self.folder / "build-0.1"
        self.succeeds("cmake", "--build", build)
        self.assertIn("variants agree", self.succeeds(build / "consumer").stdout)
        if self.has_io:
            self.succeeds(build / "consumer_io", build / "x.npy")

    def test_other_minor_versions_are_not_taken(self):
        for version in ("0.0", "0.2", "1.0"):
            with self.subTest(version):
                self.assertNotEqual(self.configure(version).returncode, 0)

    def pkg_config(self, package):
        folder = next(self.prefix.rglob("ennead.pc")).parent
        flags = self.succeeds("pkg-config", "--cflags", "--libs", "--static", package,
                              env={**os.environ, "PKG_CONFIG_PATH": str(folder)}).stdout.split()
        return flags + ([f"-fsanitize={SANITIZE}"] if SANITIZE else [])

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config")
    def test_found_by_pkg_config(self):
        program = self.folder / "by-pkg-config"
        # The standard is the consumer's choice: flags of pkg-config often stand behind the consumer's own.
        self.assertFalse([flag for flag in self.pkg_config("ennead") if flag.startswith("-std")])
        self.succeeds(CXX, "-std=c++23", SOURCE / "tests/tree/install/consumer.cpp", "-o", program, *self.pkg_config("ennead"))
        self.assertIn("variants agree", self.succeeds(program).stdout)
        if self.has_io:
            self.succeeds(CXX, "-std=c++20", SOURCE / "tests/tree/install/consumer_io.cpp", "-o", program,
                          *self.pkg_config("ennead-io"))
            self.succeeds(program, self.folder / "x.npy")

    def test_an_earlier_standard_is_refused_in_one_sentence(self):
        result = run(CXX, "-std=c++17", "-fsyntax-only", "-I", self.prefix / "include", SOURCE / "tests/tree/install/consumer.cpp")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("expected C++20 or later", result.stderr)

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config")
    def test_a_plugin_can_hold_the_static_library(self):
        plugin = self.folder / "libplugin.so"
        self.succeeds(CXX, "-std=c++20", "-shared", "-fPIC", "-Wl,-z,text", SOURCE / "tests/tree/install/engine.cpp", "-o", plugin,
                      *self.pkg_config("ennead"))
        names = self.succeeds("nm", "--dynamic", "--defined-only", "--demangle", plugin).stdout
        self.assertIn("engine_variants()", names)
        # The plugin shows its own functions and what the public headers declare, no kernels.
        self.assertNotRegex(names, r"(?m)^[0-9a-f]+ \w (\w+ )?ennead::kernels::")

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
