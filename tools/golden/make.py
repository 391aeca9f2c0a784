# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/: what PyTorch computes, for the C++ tests to be held to.

python tools/golden/make.py            write the files
python tools/golden/make.py --check    compute again and compare with the files that are there
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import attention_files
import layout_files
import npy_files
from cases import MODULE_CASES, ModuleCase, ModuleInputs, describe, module_inputs
from formula import DenseResult, dense
from nine import NINE, Defects, Masks, make

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"
LIMIT_BYTES = 400_000

#: Variants that take masks besides causality, and those that take key padding by its own argument.
TAKES_MASKS = (6, 7, 8, 9)


def cast(inputs: ModuleInputs, dtype: torch.dtype) -> ModuleInputs:
    bias = inputs.masks.bias
    return ModuleInputs(
        inputs.x.to(dtype),
        inputs.dy.to(dtype),
        {name: tensor.to(dtype) for name, tensor in inputs.canonical.items()},
        Masks(inputs.masks.allow, None if bias is None else bias.to(dtype), inputs.masks.key_padding_block),
    )


def numbers_for(case: ModuleCase) -> list[int]:
    numbers = range(1, 10) if not (case.allow or case.bias or case.padding) else TAKES_MASKS
    # nn.MultiheadAttention has one width.
    return [n for n in numbers if case.d_in == case.d_out or n not in (7, 8)]


def compact(value: Any, depth: int) -> str:
    """JSON with one line for everything below `depth`, to be read and compared by people."""
    if depth == 0 or not isinstance(value, dict):
        return json.dumps(value)
    lines = [f"{' ' * (4 - depth)}{json.dumps(name)}: {compact(item, depth - 1)}" for name, item in value.items()]
    return "{\n" + ",\n".join(lines) + "\n" + " " * (3 - depth) + "}"


def run(number: int, case: ModuleCase, inputs: ModuleInputs) -> tuple[Tensor, dict[str, Tensor] | str]:
    """Output and gradients of one of the nine; instead of gradients, the reason why there are none."""
    module = make(number, case.config, case.tokens, inputs.canonical)
    x = inputs.x.clone().requires_grad_()
    try:
        output = module(x, inputs.masks)
        output.backward(inputs.dy)
    except (NotImplementedError, RuntimeError, ValueError) as error:
        with torch.no_grad():
            return module(inputs.x, inputs.masks), str(error).split(".")[0]
    return output.detach(), {"x": x.grad, **module.canonical_gradients()}


def difference(a: Tensor, b: Tensor) -> float:
    """Largest difference relative to the largest value; NaN counts as infinite."""
    return largest_difference({"": a}, {"": b})


def largest_difference(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """The same over several tensors. One scale for all: the gradient of the key bias is zero but for
    rounding, since a constant added to a row of scores changes nothing."""
    scale = max(float(b[name].abs().max()) for name in a if b[name].numel() > 0)
    errors = [float((a[name].detach().double() - b[name].double()).abs().max()) for name in a if b[name].numel() > 0]
    return max(error if np.isfinite(error) else np.inf for error in errors) / scale


def rounded(value: float) -> float | str:
    return float(f"{value:.2g}") if np.isfinite(value) else "NaN"


def compare_the_nine(case: ModuleCase, inputs: ModuleInputs, reference: DenseResult, exact: bool) -> dict[str, Any]:
    """How far each of the nine is from the float64 formula: [output, gradients] by slug. Raises when
    it is float64 itself that does not agree, but in rows that no mask leaves a key."""
    report: dict[str, Any] = {}
    has_blocked = bool(torch.isneginf(reference.lse).any())
    rows = ~torch.isneginf(reference.lse).any(1)  # [batch, T]: every head sees a key
    for number in numbers_for(case):
        output, gradients = run(number, case, inputs)
        error = difference(output[rows], reference.output[rows])
        gradient_error = 0.0 if isinstance(gradients, str) else largest_difference(gradients, reference.gradients)
        if exact and not (error < 1e-12 and (has_blocked or gradient_error < 1e-12)):
            raise AssertionError(f"{case.name}: {NINE[number - 1].slug} is off by {error}, gradients {gradient_error}")
        entry: list[Any] = [rounded(error), gradients if isinstance(gradients, str) else rounded(gradient_error)]
        if has_blocked:
            entry.append("blocked rows finite" if output[~rows].isfinite().all() else "blocked rows NaN")
        report[NINE[number - 1].slug] = entry
    return report


def check_weights_of_the_module(case: ModuleCase, inputs: ModuleInputs, reference: DenseResult) -> None:
    """nn.MultiheadAttention's own weights, per head and averaged, are those of the formula."""
    if 7 not in numbers_for(case) or torch.isneginf(reference.lse).any():
        return
    module = make(7, case.config, case.tokens, inputs.canonical)
    for average in (False, True):
        weights = module.call(inputs.x, inputs.masks, True, average)[1]
        expected = reference.attn_weights.mean(1) if average else reference.attn_weights
        if not difference(weights, expected) < 1e-12:
            raise AssertionError(f"{case.name}: the module's attention weights are not the formula's")


def defect_outputs(case: ModuleCase, inputs: ModuleInputs) -> dict[str, Tensor]:
    """What the notebook's defects give, for tests that must tell them apart from the right numbers."""
    defects = {
        "inverted_mask": (6, Defects(inverted_mask=True)),
        "second_projection": (8, Defects(second_projection=True)),
    }
    if case.qkv_bias:  # the notebook's module takes add_bias_kv from qkv_bias
        defects["bias_key"] = (8, Defects(bias_key=True))
    outputs = {}
    for name, (number, switches) in defects.items():
        torch.manual_seed(1)  # the bias key has no canonical weight: nn.MultiheadAttention draws it
        with torch.no_grad():
            outputs[name] = make(number, case.config, case.tokens, inputs.canonical, switches)(inputs.x)
    return outputs


def result_tensors(key: str, case: ModuleCase, result: DenseResult) -> dict[str, Tensor]:
    tensors = {f"{key}.output": result.output, f"{key}.lse": result.lse}
    if not case.lean:
        tensors[f"{key}.attn_weights"] = result.attn_weights
        if key == "f64":
            tensors[f"{key}.attn_weights_averaged"] = result.attn_weights.mean(1)
    return tensors | {f"{key}.gradient.{name}": g for name, g in result.gradients.items()}


def module_file(case: ModuleCase) -> tuple[dict[str, Tensor], dict[str, Any]]:
    exact = module_inputs(case)
    tensors: dict[str, Tensor] = {"x": exact.x, "dy": exact.dy}
    tensors |= {f"weights.{name}": tensor for name, tensor in exact.canonical.items()}
    masks = {"allow": exact.masks.allow, "bias": exact.masks.bias, "key_padding_block": exact.masks.key_padding_block}
    tensors |= {f"mask.{name}": tensor for name, tensor in masks.items() if tensor is not None}

    def compute(inputs: ModuleInputs) -> DenseResult:
        return dense(case.config, inputs.canonical, inputs.x, inputs.masks, inputs.dy)

    wide, narrow = cast(exact, torch.float64), cast(exact, torch.float32)
    reference = compute(wide)
    check_weights_of_the_module(case, wide, reference)
    tensors |= result_tensors("f64", case, reference)
    if case.defects:
        tensors |= {f"f64.defect.{name}": output for name, output in defect_outputs(case, wide).items()}
    if not case.lean:
        tensors |= result_tensors("f32", case, compute(narrow))
    pytorch = {
        "f64": compare_the_nine(case, wide, reference, exact=True),
        "f32": compare_the_nine(case, narrow, reference, exact=False),
    }
    blocked = int(torch.isneginf(reference.lse[:, 0]).sum())
    return tensors, {**describe(case), "blocked_rows": blocked, "pytorch": pytorch}


def metadata(kind: str, entry: dict[str, Any]) -> dict[str, str]:
    """What a reader of the one file needs to know, as strings."""
    wanted = {k: v for k, v in entry.items() if isinstance(v, (bool, int, float, str)) and k not in ("why", "name")}
    return {"kind": kind, **{k: str(v).lower() for k, v in wanted.items()}}


def write(directory: Path) -> None:
    manifest: dict[str, Any] = {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "made_by": "tools/golden/make.py",
        "notes": [
            "Inputs and weights are float32 numbers, used as they are in float64 too."
            " f64.* and f32.* were computed in those types.",
            "Gradients are those of sum(output * dy) for x and for every canonical weight.",
            "pytorch: how far each of the nine in PyTorch is from the float64 formula, [output, gradients] relative to"
            " the largest value; a sentence where PyTorch has no gradient.",
            "A query without an allowed key: zero weights, lse -inf and zero gradients here, so its output is"
            " out_proj.bias. PyTorch's own answer differs by path: the third entry tells which of the nine gave"
            " numbers and which NaN.",
        ],
        "modules": {},
        "attention": {},
        "flex": {},
        "layouts": {},
        "npy": {},
    }
    directory.mkdir(parents=True, exist_ok=True)
    for case in MODULE_CASES:
        tensors, entry = module_file(case)
        save(tensors, directory / f"{case.name}.safetensors", metadata("module", entry))
        manifest["modules"][case.name] = {k: v for k, v in entry.items() if k != "name"}
    manifest["attention"] = attention_files.write_attention(directory, save, metadata)
    manifest["flex"] = attention_files.write_flex(directory, save, metadata)
    manifest["layouts"] = layout_files.write(directory, save)
    manifest["npy"] = npy_files.write(directory)
    (directory / "manifest.json").write_text(compact(manifest, 3) + "\n")
    total = sum(f.stat().st_size for f in directory.rglob("*") if f.is_file())
    if total >= LIMIT_BYTES:
        raise AssertionError(f"the golden files are {total} bytes, expected fewer than {LIMIT_BYTES}")
    print(f"{directory}: {total} bytes in {sum(1 for _ in directory.rglob('*.*'))} files")


def save(tensors: dict[str, Tensor], path: Path, info: dict[str, str]) -> None:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata=info)
    path.write_bytes(with_sorted_metadata(path.read_bytes()))
    path.chmod(0o644)


def with_sorted_metadata(file: bytes) -> bytes:
    """safetensors writes metadata in an order drawn by chance; the same numbers shall give the same bytes."""
    length = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + file[8 + length :]


def check(directory: Path) -> int:
    """Compares a fresh run with the committed files: rounding may differ between CPUs, nothing else."""
    problems = []
    with tempfile.TemporaryDirectory() as fresh_name:
        fresh = Path(fresh_name)
        write(fresh)
        here = {p.relative_to(directory) for p in directory.rglob("*.*")}
        for path in sorted(here ^ {p.relative_to(fresh) for p in fresh.rglob("*.*")}):
            problems.append(f"{path}: in one of the two only")
        for path in sorted(p for p in here if p.suffix == ".safetensors"):
            old, new = load_file(directory / path), load_file(fresh / path)
            if old.keys() != new.keys():
                problems.append(f"{path}: other tensors: {sorted(old.keys() ^ new.keys())}")
                continue
            for name in old:
                tolerance = 1e-12 if old[name].dtype == torch.float64 else 1e-5
                same = torch.allclose(
                    old[name].double(), new[name].double(), rtol=tolerance, atol=tolerance, equal_nan=True
                )
                if not same:
                    problems.append(f"{path}: {name} differs")
        for path in sorted(p for p in here if p.suffix == ".npy"):
            if (directory / path).read_bytes() != (fresh / path).read_bytes():
                problems.append(f"{path}: other bytes")
    print("\n".join(problems) or f"{directory}: as computed by torch {torch.__version__}")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the files that are there")
    parser.add_argument("--directory", type=Path, default=GOLDEN)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "flex_attention called without torch.compile")  # meant here
    if arguments.check:
        return check(arguments.directory)
    write(arguments.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
