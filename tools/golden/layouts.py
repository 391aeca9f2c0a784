# SPDX-License-Identifier: Apache-2.0
"""How different modules store the same multi-head attention weights.

Canonical weights are the book's split class in torch's [out, in] layout:

    W_query.weight W_key.weight W_value.weight   [d_out, d_in]
    W_query.bias   W_key.bias   W_value.bias     [d_out], absent without qkv_bias
    out_proj.weight out_proj.bias                [d_out, d_out], [d_out]

Every layout below is a copy, a concatenation or a transpose of these, so a round trip is exact; and
because each is a permutation of the same numbers, gradients map back the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]

_PROJECTIONS = ("W_query", "W_key", "W_value")


def has_qkv_bias(canonical: Weights) -> bool:
    return "W_query.bias" in canonical


def _stack(canonical: Weights, kind: str) -> Tensor:
    return torch.cat([canonical[f"{name}.{kind}"] for name in _PROJECTIONS])


def _unstack(canonical: dict[str, Tensor], stacked: Tensor, kind: str) -> None:
    for name, part in zip(_PROJECTIONS, stacked.chunk(3), strict=True):
        canonical[f"{name}.{kind}"] = part


def _output(canonical: Weights, name: str = "out_proj") -> dict[str, Tensor]:
    return {f"{name}.{kind}": canonical[f"out_proj.{kind}"] for kind in ("weight", "bias")}


def to_heads(canonical: Weights, num_heads: int) -> dict[str, Tensor]:
    """The book's wrapper: one small set of projections per head."""
    state = _output(canonical)
    for name in _PROJECTIONS:
        for kind in ("weight", "bias") if has_qkv_bias(canonical) else ("weight",):
            for head, part in enumerate(canonical[f"{name}.{kind}"].chunk(num_heads)):
                state[f"heads.{head}.{name}.{kind}"] = part
    return state


def from_heads(state: Weights, num_heads: int) -> dict[str, Tensor]:
    canonical = _output(state)
    for name in _PROJECTIONS:
        for kind in ("weight", "bias"):
            if f"heads.0.{name}.{kind}" in state:
                canonical[f"{name}.{kind}"] = torch.cat([state[f"heads.{h}.{name}.{kind}"] for h in range(num_heads)])
    return canonical


def to_split(canonical: Weights, num_heads: int) -> dict[str, Tensor]:
    """The book's MultiHeadAttention: the canonical layout itself."""
    return dict(canonical)


def to_qkv(canonical: Weights, num_heads: int) -> dict[str, Tensor]:
    """One projection for Q, K and V, called qkv, and an output projection called proj."""
    state = {"qkv.weight": _stack(canonical, "weight"), **_output(canonical, "proj")}
    if has_qkv_bias(canonical):
        state["qkv.bias"] = _stack(canonical, "bias")
    return state


def from_qkv(state: Weights, num_heads: int) -> dict[str, Tensor]:
    canonical = {f"out_proj.{kind}": state[f"proj.{kind}"] for kind in ("weight", "bias")}
    for kind in ("weight", "bias"):
        if f"qkv.{kind}" in state:
            _unstack(canonical, state[f"qkv.{kind}"], kind)
    return canonical


_EINSUM_BIAS = {"W_query": "bias_q", "W_key": "bias_k", "W_value": "bias_v"}


def to_einsum(canonical: Weights, num_heads: int) -> dict[str, Tensor]:
    """Bare [d_in, d_out] parameters, so that "bnd,do->bno" reads them as they stand."""
    state = _output(canonical)
    for name in _PROJECTIONS:
        state[name] = canonical[f"{name}.weight"].T
        if has_qkv_bias(canonical):
            state[_EINSUM_BIAS[name]] = canonical[f"{name}.bias"]
    return state


def from_einsum(state: Weights, num_heads: int) -> dict[str, Tensor]:
    canonical = _output(state)
    for name in _PROJECTIONS:
        canonical[f"{name}.weight"] = state[name].T
        if _EINSUM_BIAS[name] in state:
            canonical[f"{name}.bias"] = state[_EINSUM_BIAS[name]]
    return canonical


def to_in_proj(canonical: Weights, num_heads: int) -> dict[str, Tensor]:
    """nn.MultiheadAttention, whose query, key and value have one width."""
    state = {"in_proj_weight": _stack(canonical, "weight"), **_output(canonical)}
    if has_qkv_bias(canonical):
        state["in_proj_bias"] = _stack(canonical, "bias")
    return state


def from_in_proj(state: Weights, num_heads: int) -> dict[str, Tensor]:
    canonical = _output(state)
    for kind in ("weight", "bias"):
        if f"in_proj_{kind}" in state:
            _unstack(canonical, state[f"in_proj_{kind}"], kind)
    return canonical


def to_in_proj_separate(canonical: Weights, num_heads: int) -> dict[str, Tensor]:
    """nn.MultiheadAttention built with kdim or vdim: separate weights, still one bias."""
    state = {f"{name}_proj_weight": canonical[f"{full}.weight"] for name, full in zip("qkv", _PROJECTIONS, strict=True)}
    if has_qkv_bias(canonical):
        state["in_proj_bias"] = _stack(canonical, "bias")
    return {**state, **_output(canonical)}


def to_gpt2(canonical: Weights, num_heads: int) -> dict[str, Tensor]:
    """GPT-2: fused like qkv but stored [in, out]; it always has biases."""
    bias = _stack(canonical, "bias") if has_qkv_bias(canonical) else torch.zeros_like(_stack(canonical, "weight")[:, 0])
    return {
        "c_attn.weight": _stack(canonical, "weight").T,
        "c_attn.bias": bias,
        "c_proj.weight": canonical["out_proj.weight"].T,
        "c_proj.bias": canonical["out_proj.bias"],
    }


def to_llama(canonical: Weights, num_heads: int) -> dict[str, Tensor]:
    """Llama's names, as many key heads as query heads. Its projections may have biases (as Qwen's do)."""
    names = {"W_query": "q_proj", "W_key": "k_proj", "W_value": "v_proj", "out_proj": "o_proj"}
    state = {}
    for full, tensor in canonical.items():
        name, kind = full.split(".")
        state[f"{names[name]}.{kind}"] = tensor
    return state


def ungroup(canonical: Weights, num_heads: int, kv_heads: int) -> dict[str, Tensor]:
    """Weights with kv_heads key heads as weights with one key head per query head: query head h
    reads key head h // (num_heads // kv_heads)."""
    full = dict(canonical)
    for name in ("W_key", "W_value"):
        for kind in ("weight", "bias"):
            if f"{name}.{kind}" in full:
                heads = full[f"{name}.{kind}"].chunk(kv_heads)
                full[f"{name}.{kind}"] = torch.cat([heads[h // (num_heads // kv_heads)] for h in range(num_heads)])
    return full


Writer = Callable[[Weights, int], dict[str, Tensor]]

#: Every layout by the name its golden file carries.
LAYOUTS: dict[str, Writer] = {
    "heads": to_heads,
    "split": to_split,
    "qkv": to_qkv,
    "einsum": to_einsum,
    "in_proj": to_in_proj,
    "in_proj_separate": to_in_proj_separate,
    "gpt2": to_gpt2,
    "llama": to_llama,
}
