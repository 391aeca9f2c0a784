# SPDX-License-Identifier: Apache-2.0
"""The golden cases: small, odd, and each there for a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from formula import random_weights
from nine import Config, Masks


@dataclass(frozen=True)
class ModuleCase:
    """x -> multi-head self-attention -> output, by every one of the nine that can take it."""

    name: str
    why: str
    batch: int
    tokens: int
    d_in: int
    d_out: int
    num_heads: int
    qkv_bias: bool = False
    is_causal: bool = True
    allow: str = ""  # "", "shared" [T, T] or "per_head" [B, H, T, T]
    bias: str = ""
    padding: tuple[int, ...] = ()  # tokens at the end of each batch item that are padding
    left_padding: bool = False  # padding at the start: with causality this empties rows
    defects: bool = False  # also write what the notebook's defects would give
    lean: bool = False  # large T: no per-head weights, no float32 copies

    @property
    def config(self) -> Config:
        return Config(self.d_in, self.d_out, self.num_heads, self.qkv_bias, self.is_causal)


MODULE_CASES = (
    ModuleCase("wider_in", "d_in > d_out, no bias, causal", 2, 5, 6, 4, 2),
    ModuleCase("wider_out", "d_in < d_out, odd head size 5, biases", 1, 9, 7, 15, 3, qkv_bias=True),
    ModuleCase("square", "one width, as nn.MultiheadAttention needs; causal", 3, 7, 8, 8, 2, defects=True),
    ModuleCase("square_bias", "as square with biases", 2, 7, 8, 8, 4, qkv_bias=True, defects=True),
    ModuleCase("one_token", "T = 1: the softmax of one score", 3, 1, 6, 6, 3, qkv_bias=True),
    ModuleCase("one_wide_heads", "head size 1", 2, 6, 5, 5, 5),
    ModuleCase("not_causal", "every key seen", 2, 9, 6, 6, 3, qkv_bias=True, is_causal=False),
    ModuleCase("past_a_tile", "T = 33: one past a panel of 32 keys", 1, 33, 6, 8, 2, lean=True),
    ModuleCase("past_two_tiles", "T = 65, B > 1, biases", 2, 65, 5, 6, 2, qkv_bias=True, lean=True),
    ModuleCase("allow_shared", "a random boolean mask [T, T]", 2, 7, 6, 6, 2, is_causal=False, allow="shared"),
    ModuleCase(
        "allow_per_head", "a boolean mask per batch item and head, with causality", 2, 6, 6, 6, 3, allow="per_head"
    ),
    ModuleCase(
        "additive",
        "a bias added to the scores, some of it -inf",
        2,
        7,
        8,
        8,
        2,
        qkv_bias=True,
        is_causal=False,
        bias="shared",
    ),
    ModuleCase("additive_per_head", "a bias per batch item and head, with causality", 2, 6, 6, 6, 2, bias="per_head"),
    ModuleCase("padding", "keys at the end are padding", 3, 7, 6, 6, 2, is_causal=False, padding=(0, 2, 5)),
    ModuleCase("padding_causal_additive", "three masks at once", 2, 7, 6, 6, 3, bias="shared", padding=(3, 1)),
    ModuleCase(
        "blocked_rows",
        "left padding and causality together leave queries without a key",
        2,
        6,
        6,
        6,
        2,
        qkv_bias=True,
        padding=(2, 0),
        left_padding=True,
    ),
)


@dataclass(frozen=True)
class AttentionCase:
    """softmax(scale * q k^T + masks) v alone."""

    name: str
    why: str
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_dim: int
    value_dim: int
    is_causal: bool = False
    align: str = "top_left"
    scale: float | None = None
    bias: bool = False
    padding: tuple[int, ...] = ()
    amplitude: float = 1.0


ATTENTION_CASES = (
    AttentionCase("sdpa_grouped", "4 query heads on 2 key heads, causal", 2, 4, 2, 7, 7, 5, 5, is_causal=True),
    AttentionCase("sdpa_one_key_head", "6 query heads on 1 key head", 1, 6, 1, 5, 5, 4, 4),
    AttentionCase("sdpa_more_keys", "L < S, causal from the top left", 2, 2, 2, 4, 9, 6, 6, is_causal=True),
    AttentionCase(
        "sdpa_more_keys_bottom",
        "L < S, causal to the bottom right",
        2,
        2,
        2,
        4,
        9,
        6,
        6,
        is_causal=True,
        align="bottom_right",
    ),
    AttentionCase(
        "sdpa_more_queries",
        "L > S, causal to the bottom right: rows 0..3 have no key",
        1,
        2,
        2,
        9,
        5,
        6,
        6,
        is_causal=True,
        align="bottom_right",
    ),
    AttentionCase(
        "sdpa_narrow_value",
        "value width is not the head size; scale and bias given",
        2,
        3,
        3,
        6,
        7,
        8,
        3,
        scale=0.3,
        bias=True,
    ),
    AttentionCase("sdpa_padding", "a boolean mask of sizes [B, 1, 1, S]", 3, 2, 2, 5, 7, 4, 4, padding=(0, 3, 6)),
    AttentionCase(
        "sdpa_large_scores",
        "scores in the hundreds: only differences matter",
        1,
        2,
        2,
        7,
        7,
        8,
        8,
        is_causal=True,
        amplitude=12.0,
    ),
)


@dataclass(frozen=True)
class FlexCase:
    name: str
    why: str
    batch: int
    heads: int
    tokens: int
    head_dim: int
    mask: str = "causal"  # or "window", "documents"
    score: str = ""  # or "slopes", "soft_cap", "table"
    parameter: float = 0.0


FLEX_CASES = (
    FlexCase("flex_window_slopes", "a causal window of 3 keys and a slope per head", 2, 3, 9, 4, "window", "slopes", 3),
    FlexCase("flex_soft_cap", "scores capped by 2 tanh(score / 2), then causal", 1, 2, 9, 6, "causal", "soft_cap", 2.0),
    FlexCase(
        "flex_documents_table", "packed documents; a bias looked up by distance", 2, 2, 11, 5, "documents", "table"
    ),
)


def generator(name: str) -> torch.Generator:
    """Each case draws from its own stream, so that adding one changes no other."""
    return torch.Generator().manual_seed(sum(ord(c) * 31**i for i, c in enumerate(name)) % 2**31)


@dataclass
class ModuleInputs:
    x: Tensor
    dy: Tensor
    canonical: dict[str, Tensor]
    masks: Masks


def module_inputs(case: ModuleCase) -> ModuleInputs:
    """float32 numbers, exact in float64 too."""
    g = generator(case.name)
    x = torch.randn(case.batch, case.tokens, case.d_in, generator=g)
    dy = torch.randn(case.batch, case.tokens, case.d_out, generator=g)
    canonical = random_weights(case.config, g)
    shapes = {
        "shared": (case.tokens, case.tokens),
        "per_head": (case.batch, case.num_heads, case.tokens, case.tokens),
    }
    allow = bias = padding = None
    if case.allow:
        allow = torch.rand(shapes[case.allow], generator=g) < 0.5
        allow |= torch.eye(case.tokens, dtype=torch.bool)  # no row without a key: blocked_rows is for that
    if case.bias:
        bias = torch.randn(shapes[case.bias], generator=g)
        cut = torch.rand(shapes[case.bias], generator=g) < 0.2
        cut &= ~torch.eye(case.tokens, dtype=torch.bool)
        if case.padding:  # keep the first key open, or causality, padding and -inf together empty a row
            cut[..., 0] = False
        bias = bias.masked_fill(cut, -torch.inf)
    if case.padding:
        at = torch.arange(case.tokens).expand(case.batch, -1)
        count = torch.tensor(case.padding)[:, None]
        padding = at < count if case.left_padding else at >= case.tokens - count
    return ModuleInputs(x, dy, canonical, Masks(allow, bias, padding))


def describe(case: Any) -> dict[str, Any]:
    """A case as the manifest tells it: what differs from the defaults, and the sizes."""
    defaults = {f.name: f.default for f in case.__dataclass_fields__.values()}
    return {k: v for k, v in vars(case).items() if k in ("is_causal", "qkv_bias") or v != defaults[k]}
