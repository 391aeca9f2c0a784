# SPDX-License-Identifier: Apache-2.0
"""Golden files of the attention core alone: scaled_dot_product_attention and flex_attention."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from cases import ATTENTION_CASES, FLEX_CASES, AttentionCase, FlexCase, describe, generator

Save = Callable[[dict[str, Tensor], Path, dict[str, str]], None]
Metadata = Callable[[str, dict[str, Any]], dict[str, str]]
DTYPES = {"f64": torch.float64, "f32": torch.float32}


def masked_softmax(scores: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """(weights, log-sum-exp): zeros and -inf for a row without an allowed key."""
    scores = scores.masked_fill(~allowed, -torch.inf)
    blocked = ~allowed.any(-1, keepdim=True)
    open_scores = scores.masked_fill(blocked, 0.0)
    weights = torch.softmax(open_scores, dim=-1).masked_fill(blocked, 0.0)
    return weights, torch.logsumexp(open_scores, dim=-1).masked_fill(blocked[..., 0], -torch.inf)


def agree(name: str, got: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    if not torch.allclose(got, expected, rtol=tolerance, atol=tolerance):
        raise AssertionError(
            f"{name}: PyTorch's fused function is not the formula, off by {(got - expected).abs().max()}"
        )


def attention_case(case: AttentionCase) -> dict[str, Tensor]:
    g = generator(case.name)
    q = torch.randn(case.batch, case.heads, case.queries, case.head_dim, generator=g) * case.amplitude
    k = torch.randn(case.batch, case.kv_heads, case.keys, case.head_dim, generator=g) * case.amplitude
    v = torch.randn(case.batch, case.kv_heads, case.keys, case.value_dim, generator=g)
    dy = torch.randn(case.batch, case.heads, case.queries, case.value_dim, generator=g)
    tensors = {"q": q, "k": k, "v": v, "dy": dy}
    bias = torch.randn(case.queries, case.keys, generator=g) if case.bias else None
    allowed = torch.ones(case.batch, 1, 1, case.keys, dtype=torch.bool)
    if case.padding:
        allowed = (torch.arange(case.keys) < case.keys - torch.tensor(case.padding)[:, None])[:, None, None, :]
        tensors["mask.allow"] = allowed
    if bias is not None:
        tensors["mask.bias"] = bias
    if case.is_causal:
        offset = case.keys - case.queries if case.align == "bottom_right" else 0
        allowed = allowed & torch.ones(case.queries, case.keys, dtype=torch.bool).tril(offset)
    allowed = allowed.expand(case.batch, case.heads, case.queries, case.keys)
    scale = case.head_dim**-0.5 if case.scale is None else case.scale
    for key, dtype in DTYPES.items():
        leaves = [t.to(dtype).requires_grad_() for t in (q, k, v)]
        query, keys, values = leaves
        group = case.heads // case.kv_heads
        scores = query @ keys.repeat_interleave(group, 1).transpose(-2, -1) * scale
        scores = scores if bias is None else scores + bias.to(dtype)
        weights, lse = masked_softmax(scores, allowed)
        output = weights @ values.repeat_interleave(group, 1)
        gradients = torch.autograd.grad((output * dy.to(dtype)).sum(), leaves)
        tensors |= {f"{key}.output": output.detach(), f"{key}.lse": lse.detach()}
        tensors |= {f"{key}.gradient.{name}": gradient for name, gradient in zip("qkv", gradients, strict=True)}
        if key == "f64":
            mask = torch.zeros(allowed.shape, dtype=dtype).masked_fill(~allowed, -torch.inf)
            mask = mask if bias is None else mask + bias.to(dtype)
            gqa = case.heads != case.kv_heads
            with torch.no_grad():
                fused = F.scaled_dot_product_attention(query, keys, values, mask, scale=scale, enable_gqa=gqa)
            seen = allowed.any(-1)
            agree(case.name, fused[seen], output.detach()[seen])
            if case.is_causal and case.align == "top_left" and not gqa:
                with torch.no_grad():
                    fused = F.scaled_dot_product_attention(query, keys, values, is_causal=True)
                agree(case.name, fused, output.detach())
    return tensors


def write_attention(directory: Path, save: Save, metadata: Metadata) -> dict[str, Any]:
    entries = {}
    for case in ATTENTION_CASES:
        entry = describe(case)
        save(attention_case(case), directory / f"{case.name}.safetensors", metadata("attention", entry))
        entries[case.name] = {k: v for k, v in entry.items() if k != "name"}
    return entries


def flex_case(case: FlexCase) -> dict[str, Tensor]:
    g = generator(case.name)
    q, k, v = (torch.randn(case.batch, case.heads, case.tokens, case.head_dim, generator=g) for _ in range(3))
    slopes = 2.0 ** -torch.arange(1, case.heads + 1)
    documents = torch.arange(case.tokens) * 3 // case.tokens
    table = torch.randn(2 * case.tokens - 1, generator=g)
    tensors = {"q": q, "k": k, "v": v}
    tensors |= {"slopes": slopes} if case.score == "slopes" else {}
    tensors |= {"table": table} if case.score == "table" else {}
    tensors |= {"documents": documents.float()} if case.mask == "documents" else {}

    def mask_mod(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if case.mask == "documents":
            return documents[query] == documents[key]
        return (key <= query) & (query - key < case.parameter) if case.mask == "window" else key <= query

    def score_mod(score: Tensor, b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if case.score == "slopes":
            return score + slopes.to(score.dtype)[h] * (key - query)
        if case.score == "soft_cap":
            return case.parameter * torch.tanh(score / case.parameter)
        return score + table.to(score.dtype)[query - key + case.tokens - 1]

    rows, columns = torch.arange(case.tokens)[:, None], torch.arange(case.tokens)[None, :]
    heads = torch.arange(case.heads)[:, None, None]
    allowed = mask_mod(torch.tensor(0), heads, rows, columns).expand(case.batch, case.heads, case.tokens, case.tokens)
    block_mask = create_block_mask(mask_mod, None, None, case.tokens, case.tokens, device="cpu")
    for key, dtype in DTYPES.items():
        query, keys, values = (t.to(dtype) for t in (q, k, v))
        scores = score_mod(query @ keys.transpose(-2, -1) * case.head_dim**-0.5, torch.tensor(0), heads, rows, columns)
        weights, lse = masked_softmax(scores, allowed)
        tensors |= {f"{key}.output": weights @ values, f"{key}.lse": lse}
        if key == "f64":
            agree(case.name, flex_attention(query, keys, values, score_mod, block_mask), weights @ values)
    return tensors


def write_flex(directory: Path, save: Save, metadata: Metadata) -> dict[str, Any]:
    entries = {}
    for case in FLEX_CASES:
        entry = describe(case)
        save(flex_case(case), directory / f"{case.name}.safetensors", metadata("flex", entry))
        entries[case.name] = {k: v for k, v in entry.items() if k != "name"}
    return entries
