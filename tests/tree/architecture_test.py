#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of the tree that no compiler checks: layers, and what must not appear where.

Each rule is a function from a tree to the sentences that say where it is broken. Every rule is also
run on a small tree that breaks it, so that a rule that has gone blind is noticed.
"""
import os
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("ENNEAD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))

# Includes may point to the same layer or to one further left.
LAYERS = ["base", "kernels", "ops", "attention", "variants", "io", "harness", "render", "apps"]
# Where that would be too much or too little. The oracle shares no code with what it judges. The harness measures and
# judges what is computed (hence the kernels' peak loop and the oracle), but its results come and go as text, so that a
# page without files can use it. A renderer reads what the harness found and computes nothing.
MAY_INCLUDE = {
    "oracle": {"oracle"},
    "harness": {"base", "kernels", "ops", "attention", "variants", "oracle", "harness"},
    "render": {"base", "harness", "render"},
    "bench": set(LAYERS) - {"render", "apps"},
    "tools": set(LAYERS) - {"apps"},
}
# Where the public headers belong; a header that is not named here belongs to its own layer's folder name.
HEADER_LAYER = {
    **dict.fromkeys(["arena", "context", "cpu", "dtype", "error", "executor", "export", "function_ref", "packed_byte", "tape",
                     "tensor", "trace", "version", "view"], "base"),
    "ops": "ops",
    "attention": "attention", "flex": "attention", "module": "attention",
    "variants": "variants",
    "io": "io", "weight_files": "io",
    "ennead": "apps",
}
# Kernels know memory and workers, nothing of tensors.
KERNEL_HEADERS = {"cpu", "dtype", "error", "executor", "function_ref", "packed_byte", "view"}
SOURCE = {".h", ".cpp"}


def files(root, *folders, suffixes=SOURCE):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in suffixes:
                yield path


def code(path):
    """The text without comments and without the contents of strings; line numbers stay."""
    text = path.read_text(encoding="utf-8")
    pattern = r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''

    def blank(match):
        token = match.group(0)
        if token.startswith('"') and "#include" in text[text.rfind("\n", 0, match.start()) + 1:match.start()]:
            return token
        return "\n" * token.count("\n") if token[0] == "/" else '""' + "\n" * token.count("\n")

    return re.sub(pattern, blank, text, flags=re.S)


def search(root, paths, pattern, sentence):
    for path in paths:
        for number, line in enumerate(code(path).splitlines(), 1):
            found = re.search(pattern, line)
            if found:
                yield f"{path.relative_to(root)}:{number}: {sentence}: {found.group(0).strip()}"


def layer_of(root, path):
    parts = path.relative_to(root).parts
    if parts[0] == "include":
        return HEADER_LAYER.get(path.stem)
    return parts[1] if parts[0] == "src" else parts[0]


def includes_point_down(root):
    for path in files(root, "include", "src", "harness", "render", "apps", "bench", "tools"):
        own = layer_of(root, path)
        where = path.relative_to(root)
        if own in MAY_INCLUDE:
            allowed = MAY_INCLUDE[own]
        elif own in LAYERS:
            allowed = set(LAYERS[:LAYERS.index(own) + 1])
        else:
            yield f"{where}: expected a layer of {', '.join(LAYERS)}, got {own}"
            continue
        for number, line in enumerate(code(path).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*["<]([\w./-]+)[">]', line)
            if not match or "/" not in match.group(1):
                continue
            first, rest = match.group(1).split("/", 1)
            stem = pathlib.PurePath(rest).stem
            target = HEADER_LAYER.get(stem) if first == "ennead" else first
            if target not in LAYERS + ["oracle"] and first != "ennead":
                continue
            if target not in allowed:
                yield f"{where}:{number}: {own} includes upwards: {match.group(1)}"
            elif own == "kernels" and first == "ennead" and stem not in KERNEL_HEADERS:
                yield f"{where}:{number}: kernels know View and Executor only: {match.group(1)}"


def threads_in_one_file(root):
    paths = [p for p in files(root, "src", "include", "harness", "render")
             if p.relative_to(root) != pathlib.Path("src/base/executor.cpp")]
    yield from search(root, paths, r"std::(j?thread|\w*mutex|condition_variable\w*|async|call_once)\b"
                      r"|#\s*include\s*<(thread|mutex|condition_variable|future|shared_mutex)>|\bpthread_\w+|\bomp_\w+"
                      r"|#\s*pragma\s+omp", "threads and locks belong into src/base/executor.cpp")


def library_is_silent(root):
    paths = list(files(root, "src", "include", "harness", "render"))
    yield from search(root, paths, r"\bv?f?printf\s*\(|\bputs\s*\(|\bfmt::print\b|std::(cout|cerr|clog|terminate|abort|exit|quick_exit)\b"
                      r"|(?<![\w.>:])(abort|exit|_exit)\s*\(|\bassert\s*\(|#\s*include\s*<iostream>",
                      "the library prints nothing and ends nothing")
    paths = [p for p in files(root, "src", "include", "harness") if p.relative_to(root) != pathlib.Path("src/base/cpu.cpp")]
    yield from search(root, paths, r"\bgetenv\b", "the library reads no environment but ENNEAD_ISA")


def no_hidden_state(root):
    paths = [p for p in files(root, "src", "include", "harness", "render")]
    yield from search(root, paths, r"\bthread_local\b|^\s*static\s+(?!constexpr|const\b|inline|void|bool|auto|std::(int64_t|size_t)\s+\w+\()"
                      r"\w[\w:<>]*\s+\w+\s*(=|;|\{)", "no state outside a Context")


def simd_only_in_kernels(root):
    paths = [p for p in files(root, "src", "include", "harness", "render", "apps", "bench") if layer_of(root, p) != "kernels"]
    yield from search(root, paths, r"#\s*include\s*[<\"](hwy/|\w*mmintrin|arm_neon|immintrin|wasm_simd128)|\b_mm\d*_\w+|\bHWY_\w+",
                      "vector code belongs into src/kernels")


# The headers of src/kernels that its own folders may use, and others only these.
KERNEL_ROOMS = {
    "scalar": {"scalar"},
    "shared": {"shared"},
    "simd": {"simd", "shared"},
    "amx": {"amx", "shared"},
}
# What amx does not get right, the vector kernels compute: their one door.
AMX_MAY_INCLUDE = {"kernels/simd/attention/forward/worker-inl.h"}
DEFINITION = re.compile(r"^(?:struct|class|enum class|using)\s+(\w+)|^(?:inline )?constexpr [\w:<>]+\s*\*?\s+(\w+)(?:\s*=|\(|<)", re.M)


def kernels_keep_to_their_rooms(root):
    shared = {}
    for path in files(root, "src/kernels/shared"):
        for found in DEFINITION.finditer(code(path)):
            shared[found.group(1) or found.group(2)] = path.relative_to(root)
    for path in files(root, "include", "src", "harness", "render", "apps", "bench"):
        parts = path.relative_to(root).parts
        where, text = path.relative_to(root), code(path)
        in_kernels = parts[:2] == ("src", "kernels")
        room = parts[2] if in_kernels and len(parts) > 3 else None
        for number, line in enumerate(text.splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*"(kernels/(\w+)/[\w./-]+)"', line)
            if not match or match.group(1) == "kernels/" + "/".join(parts[2:]):
                continue
            if not in_kernels:
                yield f"{where}:{number}: the door to the kernels is kernels/kernels.h: {match.group(1)}"
            elif room and match.group(2) not in KERNEL_ROOMS[room] and not (room == "amx" and match.group(1) in AMX_MAY_INCLUDE):
                yield f"{where}:{number}: {room} includes from another room: {match.group(1)}"
        if room not in ("simd", "amx"):
            continue
        if "HWY_NAMESPACE {" in text:
            yield f"{where}: expected the namespace HWY_NAMESPACE::{room}, got HWY_NAMESPACE"
        for found in DEFINITION.finditer(text):
            name = found.group(1) or found.group(2)
            if name in shared:
                yield f"{where}: {name} is defined in {shared[name]} too"


def variants_hold_the_idea_only(root):
    paths = list(files(root, "src/variants"))
    yield from search(root, paths, r"^\s*#\s*(if|ifdef|ifndef|elif|pragma(?!\s+once))\b|\b(malloc|calloc|realloc|free)\s*\("
                      r"|\bnew\s+\w|\bgoto\b", "a variant has no preprocessor switches and no memory of its own")


def public_headers_are_exported(root):
    for path in files(root, "include", suffixes={".h"}):
        text = code(path)
        opened = len(re.findall(r"^namespace ennead\b", text, flags=re.M))
        shown = len(re.findall(r"^ENNEAD_API_BEGIN\nnamespace ennead\b[^\n]*\{$", text, flags=re.M))
        closed = len(re.findall(r"^\}[^\n]*\nENNEAD_API_END$", text, flags=re.M))
        if not opened == shown == closed:
            yield f"{path.relative_to(root)}: expected ENNEAD_API_BEGIN before namespace ennead and ENNEAD_API_END after it"
        for found in re.finditer(r"^template <[^\n]*>\n(?!ENNEAD_API|class|struct|using|inline|constexpr|concept|requires)[^;{]*;",
                                 text.replace("= {}", ""), flags=re.M):
            yield f"{path.relative_to(root)}: a function template says ENNEAD_API too: {' '.join(found.group(0).split())}"


def public_headers_are_light(root):
    yield from search(root, files(root, "include", suffixes={".h"}), r"#include <(sstream|iostream|iomanip|fstream|regex)>",
                      "every file of a consumer would read this header")


def flags_are_portable(root):
    names = [root / "CMakeLists.txt", root / "CMakePresets.json", root / "race", root / "test"]
    names += list(files(root, "cmake", "src", "harness", "render", "apps", "tests", "bench", "tools", suffixes={".txt", ".cmake", ".json", ".sh", ""}))
    for path in names:
        if not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            found = re.search(r"-march=native|-mtune=native|-ffast-math|-Ofast|-fopenmp|-ffinite-math-only|-funsafe-math",
                              re.sub(r"(^|\s)#.*", "", line))
            if found:
                yield f"{path.relative_to(root)}:{number}: one binary for all CPUs, IEEE arithmetic: {found.group(0)}"


def listed_variants(root):
    text = (root / "src/variants/variants.def").read_text(encoding="utf-8")
    return re.findall(r"^ENNEAD_VARIANT\((\d+), *(\w+),", text, flags=re.M)


def variants_are_listed_and_short(root):
    listed = listed_variants(root)
    slugs = [slug for _, slug in listed]
    numbers = [int(number) for number, _ in listed]
    if numbers != sorted(set(numbers)):
        yield f"src/variants/variants.def: numbers are reading order and never reused, got {numbers}"
    for path in files(root, "src/variants", suffixes={".cpp"}):
        if path.stem != "variants" and path.stem not in slugs and "ENNEAD_VARIANT" in path.read_text(encoding="utf-8"):
            yield f"{path.relative_to(root)}: is not in variants.def"
    for number, slug in listed:
        path = root / "src/variants" / f"{slug}.cpp"
        if not path.is_file():
            yield f"src/variants/variants.def: {slug} has no file"
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) >= 150:
            yield f"src/variants/{slug}.cpp: expected fewer than 150 lines, got {len(lines)}"
        head = "\n".join(line for line in lines[:40] if line.startswith("//"))
        for field in ["Idea", "Changes from", "Keeps", "Materialises", "Matmuls"]:
            if number == "1" and field == "Changes from":
                continue
            if not re.search(rf"^// *{field}\b", head, flags=re.M):
                yield f"src/variants/{slug}.cpp: the header lacks the field '{field}'"


def sources_are_tidy(root):
    tops = ["include", "src", "harness", "render", "apps", "tests", "bench", "examples", "python", "tools"]
    for path in files(root, *[t for t in tops if (root / t).is_dir()], suffixes=SOURCE | {".py", ".sh", ".def", ".cmake"}):
        where = path.relative_to(root)
        if {"build", "data"} & set(where.parts):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
            yield f"{where}: expected the SPDX line first"
        limit = 400 if path.suffix in SOURCE else 600
        if len(lines) > limit:
            yield f"{where}: expected one idea in at most {limit} lines, got {len(lines)}"
        for number, line in enumerate(lines, 1):
            if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line) and path.name != "architecture_test.py":
                yield f"{where}:{number}: do it or drop it: {line.strip()}"
            if line != line.rstrip():
                yield f"{where}:{number}: trailing space"


RULES = [includes_point_down, threads_in_one_file, library_is_silent, no_hidden_state, simd_only_in_kernels, kernels_keep_to_their_rooms,
         variants_hold_the_idea_only, public_headers_are_exported, public_headers_are_light,
         flags_are_portable, variants_are_listed_and_short, sources_are_tidy]

# rule -> a file and a text that break it (SPDX and the like added where the rule is about something else).
BREAKS = {
    includes_point_down: [("src/base/a.cpp", '#include "kernels/kernels.h"'), ("src/ops/a.cpp", '#include "ennead/variants.h"'),
                          ("src/kernels/a.h", "#include <ennead/tensor.h>"), ("src/oracle/a.h", '#include "ennead/view.h"'),
                          ("include/ennead/tensor.h", '#include "base/launch.h"\n#include "ennead/ops.h"'),
                          ("src/variants/a.cpp", '#include "harness/race.h"'), ("harness/a.cpp", '#include "render/table.h"'),
                          ("harness/a.cpp", '#include "io/file.h"'), ("render/a.cpp", '#include "ennead/variants.h"'),
                          ("render/a.cpp", '#include "oracle/oracle.h"'), ("bench/kernels/a.cpp", '#include "render/table.h"')],
    threads_in_one_file: [("src/ops/a.cpp", "std::mutex m;"), ("include/ennead/a.h", "#include <thread>")],
    library_is_silent: [("src/ops/a.cpp", 'std::printf("x");'), ("src/ops/a.cpp", "std::cout << 1;"),
                        ("include/ennead/a.h", "if (bad) abort();"), ("src/attention/a.cpp", 'getenv("HOME");'),
                        ("render/a.cpp", 'fmt::print("x");'), ("harness/a.cpp", 'std::printf("x");')],
    no_hidden_state: [("src/ops/a.cpp", "thread_local int x;"), ("src/ops/a.cpp", "  static int calls = 0;")],
    simd_only_in_kernels: [("src/ops/a.cpp", "#include <hwy/highway.h>"), ("src/variants/a.cpp", "_mm256_add_ps(a, b);")],
    kernels_keep_to_their_rooms: [("src/kernels/amx/gemm/a-inl.h", '#include "kernels/simd/gemm/block-inl.h"'),
                                  ("src/kernels/simd/a.cpp", '#include "kernels/amx/split/planes-inl.h"'),
                                  ("src/kernels/shared/a-inl.h", '#include "kernels/simd/gemm/block-inl.h"'),
                                  ("src/ops/a.cpp", '#include "kernels/scalar/products.h"'),
                                  ("src/kernels/amx/a-inl.h", "namespace ennead::kernels::HWY_NAMESPACE {")],
    variants_hold_the_idea_only: [("src/variants/a.cpp", "#ifdef __AVX2__\n#endif"), ("src/variants/a.cpp", "auto* p = new float[3];")],
    public_headers_are_exported: [("include/ennead/a.h", "namespace ennead {\nint f();\n}"),
                                  ("include/ennead/a.h", "ENNEAD_API_BEGIN\nnamespace ennead {\nint f();\n}"),
                                  ("include/ennead/a.h", "ENNEAD_API_BEGIN\nnamespace ennead {\ntemplate <class T>\n"
                                   "T f(T = {});\n}\nENNEAD_API_END")],
    public_headers_are_light: [("include/ennead/a.h", "#include <sstream>")],
    flags_are_portable: [("cmake/options.cmake", "target_compile_options(x INTERFACE -march=native)")],
    variants_are_listed_and_short: [("src/variants/variants.def", 'ENNEAD_VARIANT(1, gone, "Gone", 0, "x")'),
                                    ("src/variants/stacked_heads.cpp", "// Idea: x\n" * 200)],
    sources_are_tidy: [("src/ops/a.cpp", "int x;"), ("src/ops/a.cpp", "// SPDX-License-Identifier: Apache-2.0\n// " + "TO" + "DO later")],
}


class Architecture(unittest.TestCase):
    def test_tree_keeps_the_rules(self):
        for rule in RULES:
            with self.subTest(rule=rule.__name__):
                broken = list(rule(ROOT))
                self.assertEqual(broken, [], "\n" + "\n".join(broken))

    def test_rules_see(self):
        self.assertEqual(set(BREAKS), set(RULES))
        for rule, breaks in BREAKS.items():
            for name, text in breaks:
                with self.subTest(rule=rule.__name__, name=name), tempfile.TemporaryDirectory() as folder:
                    root = pathlib.Path(folder)
                    (root / "src/variants").mkdir(parents=True)
                    (root / "src/variants/variants.def").write_text('ENNEAD_VARIANT(1, stacked_heads, "S", 0, "x")\n')
                    (root / "src/variants/stacked_heads.cpp").write_text("// Idea: x\n// Keeps: x\n// Materialises: x\n// Matmuls: x\n")
                    if rule is not sources_are_tidy:
                        self.assertEqual(list(rule(root)), [])
                    path = root / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text + "\n")
                    self.assertNotEqual(list(rule(root)), [], "the rule does not see it")

    def test_a_name_of_the_kernels_means_one_thing(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in [("shared/a-inl.h", "constexpr std::int64_t kStepKeys = 256;\n"),
                               ("amx/a-inl.h", "constexpr std::int64_t kStepKeys = 128;\n")]:
                path = root / "src/kernels" / name
                path.parent.mkdir(parents=True)
                path.write_text(text)
            self.assertEqual(len(list(kernels_keep_to_their_rooms(root))), 1)

    def test_comments_and_strings_are_no_code(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src/ops").mkdir(parents=True)
            (root / "src/ops/a.cpp").write_text('// std::cout\n/* abort( */\nauto s = "printf(";\nint my_exit(int);\n')
            self.assertEqual(list(library_is_silent(root)), [])


if __name__ == "__main__":
    unittest.main()
