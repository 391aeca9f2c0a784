# SPDX-License-Identifier: Apache-2.0
"""Golden files of the same weights as different modules save them, buffers and all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import layouts
from cases import MODULE_CASES, ModuleCase, generator, module_inputs
from formula import dense, random_weights
from nine import Config, causal_block

Save = Callable[[dict[str, Tensor], Path, dict[str, str]], None]


def buffers(layout: str, tokens: int, num_heads: int) -> dict[str, Tensor]:
    """What the original classes save besides weights: a reader has to step over these."""
    mask = causal_block(tokens).float()
    if layout == "heads":
        return {f"heads.{head}.mask": mask.clone() for head in range(num_heads)}
    if layout in ("split", "qkv", "einsum"):
        return {"mask": mask}
    if layout == "gpt2":
        return {"bias": (1 - mask)[None, None], "masked_bias": torch.tensor(-1e4)}
    return {}


def write_layouts(directory: Path, save: Save, case: ModuleCase) -> dict[str, Any]:
    canonical = module_inputs(case).canonical
    entries = {}
    for name, to_layout in layouts.LAYOUTS.items():
        state = to_layout(canonical, case.num_heads) | buffers(name, case.tokens, case.num_heads)
        file = f"layout_{name}{'_bias' if case.qkv_bias else ''}.safetensors"
        save(
            state,
            directory / file,
            {"kind": "layout", "layout": name, "num_heads": str(case.num_heads), "case": case.name},
        )
        entries[file] = {"layout": name, "case": case.name, "num_heads": case.num_heads}
    return entries


def write_model(directory: Path, save: Save, case: ModuleCase) -> dict[str, Any]:
    """A whole-model file with two GPT-2 layers: the second is the case, the first is not."""
    config = case.config
    other = random_weights(config, generator("another layer"))
    tensors = {"transformer.wte.weight": torch.randn(5, config.d_out, generator=generator("embedding"))}
    for layer, canonical in enumerate((other, module_inputs(case).canonical)):
        state = layouts.to_gpt2(canonical, case.num_heads) | buffers("gpt2", case.tokens, case.num_heads)
        tensors |= {f"transformer.h.{layer}.attn.{name}": tensor for name, tensor in state.items()}
        tensors[f"transformer.h.{layer}.ln_1.weight"] = torch.ones(config.d_out)
    file, prefix = "model_gpt2.safetensors", "transformer.h.1.attn."
    save(
        tensors,
        directory / file,
        {"kind": "model", "layout": "gpt2", "prefix": prefix, "num_heads": str(case.num_heads), "case": case.name},
    )
    return {file: {"layout": "gpt2", "prefix": prefix, "case": case.name, "num_heads": case.num_heads}}


def write_grouped(directory: Path, save: Save) -> dict[str, Any]:
    """Llama's layout with fewer key heads, and what PyTorch computes from it with enable_gqa."""
    config, kv_heads, batch, tokens = Config(d_in=8, d_out=8, num_heads=4), 2, 2, 7
    g = generator("grouped")
    grouped = random_weights(config, g, kv_heads)
    x = torch.randn(batch, tokens, config.d_in, generator=g)
    w = {name: tensor.double() for name, tensor in grouped.items()}

    def heads(name: str, count: int) -> Tensor:
        return F.linear(x.double(), w[f"{name}.weight"]).view(batch, tokens, count, config.head_dim).transpose(1, 2)

    queries, keys, values = heads("W_query", 4), heads("W_key", kv_heads), heads("W_value", kv_heads)
    context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
    output = F.linear(context.transpose(1, 2).flatten(-2), w["out_proj.weight"], w["out_proj.bias"])
    full = dense(config, layouts.ungroup(w, config.num_heads, kv_heads), x.double())
    if not torch.allclose(output, full.output, rtol=1e-12, atol=1e-12):
        raise AssertionError("grouped heads are not repeated heads")
    file = "layout_llama_grouped.safetensors"
    info = {"kind": "layout", "layout": "llama", "num_heads": "4", "kv_heads": "2", "case": "grouped"}
    save(layouts.to_llama(grouped, config.num_heads), directory / file, info)
    save({"x": x, "f64.output": output}, directory / "grouped.safetensors", {"kind": "grouped", "num_heads": "4"})
    return {file: {"layout": "llama", "case": "grouped", "num_heads": 4, "kv_heads": kv_heads}}


def write_half(directory: Path, save: Save, case: ModuleCase) -> dict[str, Any]:
    """The split layout in the two half types, and the outputs of the weights so rounded."""
    inputs = module_inputs(case)
    entries, outputs = {}, {"x": inputs.x}
    for name, dtype in (("float16", torch.float16), ("bfloat16", torch.bfloat16)):
        rounded = {key: tensor.to(dtype) for key, tensor in inputs.canonical.items()}
        file = f"layout_split_{name}.safetensors"
        save(
            rounded,
            directory / file,
            {"kind": "layout", "layout": "split", "num_heads": str(case.num_heads), "case": "half"},
        )
        exact = {key: tensor.double() for key, tensor in rounded.items()}
        outputs[f"f64.output.{name}"] = dense(case.config, exact, inputs.x.double()).output
        entries[file] = {"layout": "split", "case": "half", "output": f"f64.output.{name}", "num_heads": case.num_heads}
    save(outputs, directory / "half.safetensors", {"kind": "half", "num_heads": str(case.num_heads)})
    return entries


def write(directory: Path, save: Save) -> dict[str, Any]:
    by_name = {case.name: case for case in MODULE_CASES}
    entries = write_layouts(directory, save, by_name["square"])
    entries |= write_layouts(directory, save, by_name["square_bias"])
    entries |= write_model(directory, save, by_name["square_bias"])
    entries |= write_grouped(directory, save)
    entries |= write_half(directory, save, by_name["square_bias"])
    return entries
