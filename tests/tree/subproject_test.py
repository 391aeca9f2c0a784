#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ennead as a part of another project, which builds it shared, with -ffast-math and for this processor alone.

Mutants: a flag of ours that the parent's flags override (numbers off by 0.3); a build type, a standard or a launcher
set for the parent; a target outside every export set, which breaks the parent's install(EXPORT); a kernel that the
shared library shows; no SOVERSION; the oracle in `all`; a macro that -march=native defines too."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["ENNEAD_SOURCE_DIR"])
CXX = os.environ.get("ENNEAD_CXX", "c++")
LAUNCHER = os.environ.get("ENNEAD_LAUNCHER", "")
CONSUMERS = SOURCE / "tests/tree/install"


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)


class Subproject(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ennead-subproject-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.parent = cls.folder / "parent"
        for command in (cls.configure("FetchContent", cls.parent, "-DBUILD_SHARED_LIBS=ON",
                                      # As fast to build as may be.
                                      "-DCMAKE_BUILD_TYPE=Debug", "-DWANTED_CMAKE_BUILD_TYPE=yes", "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -DNDEBUG",
                                      "-DCMAKE_CXX_FLAGS=-ffast-math -march=native"),
                        ["cmake", "--build", cls.parent, "--parallel", "2"],
                        ["cmake", "--install", cls.parent, "--prefix", cls.folder / "first"]):
            cls.result = run(*command)
            assert cls.result.returncode == 0, cls.result.stdout + cls.result.stderr
            assert "redefined" not in cls.result.stderr + cls.result.stdout, cls.result.stdout + cls.result.stderr
        cls.prefix = cls.folder / "moved"
        (cls.folder / "first").rename(cls.prefix)
        cls.library = next(cls.prefix.rglob("libennead.so"))

    @staticmethod
    def configure(way, build, *options):
        launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={LAUNCHER}", "-DWANTED_CMAKE_CXX_COMPILER_LAUNCHER=yes"] if LAUNCHER else []
        return ["cmake", "-G", "Ninja", "-S", CONSUMERS / "parent", "-B", build, f"-DENNEAD={SOURCE}", f"-DWAY={way}",
                f"-DCMAKE_CXX_COMPILER={CXX}", *launcher, *options]

    def succeeds(self, *command, **options):
        result = run(*command, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_numbers_are_right(self):
        self.assertIn("largest error", self.succeeds(self.parent / "arithmetic"))

    def test_add_subdirectory(self):
        # Static; configuring checks what is left in the parent. Without a build type the library is optimised still.
        build = self.folder / "added"
        self.succeeds(*self.configure("add_subdirectory", build))
        commands = self.succeeds("ninja", "-C", build, "-t", "commands", "ennead")
        self.assertRegex(commands, r"-O3 .*softmax\.cpp")

    def test_only_the_library_is_built(self):
        built = {path.name for path in self.parent.rglob("lib*.*")}
        self.assertFalse([name for name in built if "oracle" in name or "tool" in name], built)

    def test_shared_library(self):
        names = self.succeeds("nm", "--dynamic", "--defined-only", "--demangle", self.library)
        self.assertIn("ennead::Context::Context()", names)
        # By name; an internal type may still be an argument of a public template.
        self.assertNotRegex(names, r"(?m)^[0-9a-f]+ \w (\w+ )?ennead::(kernels|base|attention)::")
        self.assertRegex(self.succeeds("readelf", "--dynamic", self.library), r"SONAME.*libennead\.so\.\d+\.\d+\]")
        # Code that flushes small numbers to zero when the library is loaded.
        self.assertNotIn("set_fast_math", self.succeeds("nm", self.library))

    def test_shared_library_is_found_by_cmake(self):
        build = self.folder / "consumer"
        self.succeeds("cmake", "-S", CONSUMERS, "-B", build, f"-DCMAKE_CXX_COMPILER={CXX}", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.succeeds("cmake", "--build", build)
        self.assertIn("variants agree", self.succeeds(build / "consumer"))

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config")
    def test_shared_library_is_found_by_pkg_config(self):
        folder = next(self.prefix.rglob("ennead.pc")).parent
        flags = self.succeeds("pkg-config", "--cflags", "--libs", "ennead", env={**os.environ, "PKG_CONFIG_PATH": str(folder)})
        self.assertNotIn("hwy", flags)
        program = self.folder / "by-pkg-config"
        self.succeeds(CXX, "-std=c++20", CONSUMERS / "consumer.cpp", "-o", program, *flags.split())
        self.assertIn("variants agree", self.succeeds(program, env={**os.environ, "LD_LIBRARY_PATH": str(self.library.parent)}))

    def test_a_component_that_was_not_built_is_refused_with_a_reason(self):
        for component, reason in (("io", "ENNEAD_IO=ON"), ("nonsense", "expected the component io, got nonsense")):
            with self.subTest(component):
                result = run("cmake", "-S", CONSUMERS, "-B", self.folder / component, f"-DCMAKE_CXX_COMPILER={CXX}",
                             f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DWANTED_COMPONENTS={component}")
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(reason, " ".join(result.stderr.split()))

    def test_sources_refuse_flags_that_change_numbers(self):
        for flag in ("-ffast-math", "-ffinite-math-only", "-Ofast"):
            with self.subTest(flag):
                result = run(CXX, "-std=c++20", flag, "-fsyntax-only", f"-I{SOURCE}/include", f"-I{SOURCE}/src",
                             SOURCE / "src/ops/softmax.cpp")
                self.assertNotEqual(result.returncode, 0)
                self.assertIn("expected arithmetic of IEEE 754", result.stderr)


if __name__ == "__main__":
    if os.environ.get("ENNEAD_SANITIZE") or not shutil.which("ninja"):
        print("skipped: builds without sanitizers, with ninja")
        sys.exit(77)
    unittest.main()
