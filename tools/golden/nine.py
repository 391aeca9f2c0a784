# SPDX-License-Identifier: Apache-2.0
"""The nine in PyTorch, in our own words: same canonical weights in, same numbers out.

They follow the structure of the implementations in Sebastian Raschka's notebook "Comparing Efficient
Multi-Head Attention Implementations" (Apache-2.0) and can show its defects when asked (Defects).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

import layouts
from layouts import Weights


@dataclass(frozen=True)
class Config:
    d_in: int
    d_out: int
    num_heads: int
    qkv_bias: bool = False
    is_causal: bool = True

    @property
    def head_dim(self) -> int:
        return self.d_out // self.num_heads


@dataclass(frozen=True)
class Defects:
    """What is wrong with the notebook's implementations; all off gives the right numbers."""

    inverted_mask: bool = False  # 6: a mask of what to hide, handed over as a mask of what to see
    second_projection: bool = False  # 7, 8: one more output projection after the module's own
    bias_key: bool = False  # 7, 8: with biases on, one learned key and value more for every query


@dataclass(frozen=True)
class Masks:
    """What a query may see besides causality. Booleans are named by meaning; all are combined by AND."""

    allow: Tensor | None = None  # bool [T, T] or [batch, heads, T, T]
    bias: Tensor | None = None  # added to the scaled score, same shapes
    key_padding_block: Tensor | None = None  # bool [batch, T], true: padding

    @property
    def empty(self) -> bool:
        return self.allow is None and self.bias is None and self.key_padding_block is None


NO_MASKS = Masks()


def causal_block(tokens: int) -> Tensor:
    """True above the diagonal: what a token must not see."""
    return torch.ones(tokens, tokens, dtype=torch.bool).triu(1)


def combined(masks: Masks, is_causal: bool, shape: tuple[int, int, int], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """(allowed, bias), both [batch, heads, T, T]; shape is (batch, heads, T)."""
    batch, heads, tokens = shape
    full = (batch, heads, tokens, tokens)
    allowed = torch.ones(full, dtype=torch.bool)
    if is_causal:
        allowed = allowed & ~causal_block(tokens)
    if masks.allow is not None:
        allowed = allowed & masks.allow
    if masks.key_padding_block is not None:
        allowed = allowed & ~masks.key_padding_block[:, None, None, :]
    bias = torch.zeros(full, dtype=dtype) if masks.bias is None else masks.bias.to(dtype).expand(full)
    return allowed, bias


class Attention(nn.Module):
    """What all nine share: a configuration, and weights that come and go in the canonical layout."""

    number: int
    slug: str
    mask: Tensor
    layout: Callable[[Weights, int], dict[str, Tensor]]
    unlayout: Callable[[Weights, int], dict[str, Tensor]]

    def __init__(self, config: Config, context_length: int, defects: Defects = Defects()) -> None:
        super().__init__()
        self.config = config
        self.defects = defects
        self.register_buffer("mask", causal_block(context_length), persistent=False)

    def load(self, canonical: Weights) -> Attention:
        state = type(self).layout(canonical, self.config.num_heads)
        self.to(next(iter(state.values())).dtype)
        self.load_state_dict(state)
        return self

    def canonical_gradients(self) -> dict[str, Tensor]:
        gradients = {name: p.grad for name, p in self.named_parameters() if p.grad is not None}
        return type(self).unlayout(gradients, self.config.num_heads)

    def refuse_masks(self, masks: Masks) -> None:
        if not masks.empty:
            raise ValueError(f"{self.slug} takes no masks besides causality")

    def split(self, t: Tensor) -> Tensor:
        """[batch, T, d_out] -> [batch, heads, T, head_dim]"""
        return t.unflatten(-1, (self.config.num_heads, self.config.head_dim)).transpose(1, 2)

    @staticmethod
    def merge(t: Tensor) -> Tensor:
        """[batch, heads, T, head_dim] -> [batch, T, d_out]"""
        return t.transpose(1, 2).flatten(-2)

    def eager(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Scores, mask, softmax, mix: each a whole tensor. Inputs [..., T, head_dim]."""
        scores = queries @ keys.transpose(-2, -1)
        if self.config.is_causal:
            scores.masked_fill_(self.mask[: scores.shape[-1], : scores.shape[-1]], -torch.inf)
        return torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1) @ values


def _linear(d_in: int, d_out: int, bias: bool = True) -> nn.Linear:
    return nn.Linear(d_in, d_out, bias=bias)


class SingleHead(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.W_query, self.W_key, self.W_value = (
            _linear(config.d_in, config.head_dim, config.qkv_bias) for _ in range(3)
        )


class StackedHeads(Attention):
    number, slug = 1, "stacked_heads"
    layout, unlayout = staticmethod(layouts.to_heads), staticmethod(layouts.from_heads)

    def __init__(self, config: Config, context_length: int, defects: Defects = Defects()) -> None:
        super().__init__(config, context_length, defects)
        self.heads = nn.ModuleList(SingleHead(config) for _ in range(config.num_heads))
        self.out_proj = _linear(config.d_out, config.d_out)

    def forward(self, x: Tensor, masks: Masks = NO_MASKS) -> Tensor:
        self.refuse_masks(masks)
        contexts = [self.eager(head.W_query(x), head.W_key(x), head.W_value(x)) for head in self.heads]
        return self.out_proj(torch.cat(contexts, dim=-1))


class WeightSplit(Attention):
    number, slug = 2, "weight_split"
    layout, unlayout = staticmethod(layouts.to_split), staticmethod(layouts.to_split)

    def __init__(self, config: Config, context_length: int, defects: Defects = Defects()) -> None:
        super().__init__(config, context_length, defects)
        self.W_query, self.W_key, self.W_value = (_linear(config.d_in, config.d_out, config.qkv_bias) for _ in range(3))
        self.out_proj = _linear(config.d_out, config.d_out)

    def forward(self, x: Tensor, masks: Masks = NO_MASKS) -> Tensor:
        self.refuse_masks(masks)
        queries, keys, values = (self.split(project(x)) for project in (self.W_query, self.W_key, self.W_value))
        return self.out_proj(self.merge(self.eager(queries, keys, values)))


class CombinedQKV(Attention):
    number, slug = 3, "combined_qkv"
    layout, unlayout = staticmethod(layouts.to_qkv), staticmethod(layouts.from_qkv)

    def __init__(self, config: Config, context_length: int, defects: Defects = Defects()) -> None:
        super().__init__(config, context_length, defects)
        self.qkv = _linear(config.d_in, 3 * config.d_out, config.qkv_bias)
        self.proj = _linear(config.d_out, config.d_out)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One product, then [batch, heads, T, head_dim] three times."""
        packed = self.qkv(x).unflatten(-1, (3, self.config.num_heads, self.config.head_dim))
        return packed.permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, x: Tensor, masks: Masks = NO_MASKS) -> Tensor:
        self.refuse_masks(masks)
        return self.proj(self.merge(self.eager(*self.project(x))))


class Einsum(Attention):
    number, slug = 4, "einsum"
    layout, unlayout = staticmethod(layouts.to_einsum), staticmethod(layouts.from_einsum)

    def __init__(self, config: Config, context_length: int, defects: Defects = Defects()) -> None:
        super().__init__(config, context_length, defects)
        for weight, bias in (("W_query", "bias_q"), ("W_key", "bias_k"), ("W_value", "bias_v")):
            self.register_parameter(weight, nn.Parameter(torch.empty(config.d_in, config.d_out)))
            self.register_parameter(bias, nn.Parameter(torch.empty(config.d_out)) if config.qkv_bias else None)
        self.out_proj = _linear(config.d_out, config.d_out)

    def forward(self, x: Tensor, masks: Masks = NO_MASKS) -> Tensor:
        self.refuse_masks(masks)
        projected = []
        for weight, bias in ((self.W_query, self.bias_q), (self.W_key, self.bias_k), (self.W_value, self.bias_v)):
            product = torch.einsum("bnd,do->bno", x, weight)
            projected.append(self.split(product if bias is None else product + bias))
        queries, keys, values = projected
        scores = torch.einsum("bhnd,bhmd->bhnm", queries, keys)
        if self.config.is_causal:
            scores = scores.masked_fill(self.mask[: x.shape[1], : x.shape[1]], -torch.inf)
        weights = torch.softmax(scores / self.config.head_dim**0.5, dim=-1)
        context = torch.einsum("bhnm,bhmd->bhnd", weights, values)
        return self.out_proj(self.merge(context))


class FusedCausal(CombinedQKV):
    number, slug = 5, "fused_causal"

    def forward(self, x: Tensor, masks: Masks = NO_MASKS) -> Tensor:
        self.refuse_masks(masks)
        context = F.scaled_dot_product_attention(*self.project(x), is_causal=self.config.is_causal)
        return self.proj(self.merge(context))


class ExplicitMask(CombinedQKV):
    number, slug = 6, "explicit_mask"

    def forward(self, x: Tensor, masks: Masks = NO_MASKS) -> Tensor:
        queries, keys, values = self.project(x)
        if masks.empty:
            mask = self.mask[: x.shape[1], : x.shape[1]]
            if not self.config.is_causal:
                mask = torch.zeros_like(mask)
            # scaled_dot_product_attention reads true as "may be seen"; the buffer holds what may not.
            mask = mask if self.defects.inverted_mask else ~mask
        else:
            allowed, bias = combined(masks, self.config.is_causal, tuple(queries.shape[:3]), x.dtype)
            mask = bias.masked_fill(~allowed, -torch.inf)
        return self.proj(self.merge(F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)))


class ModuleNoWeights(Attention):
    number, slug = 8, "module_no_weights"
    layout, unlayout = staticmethod(layouts.to_in_proj), staticmethod(layouts.from_in_proj)
    need_weights = False

    def __init__(self, config: Config, context_length: int, defects: Defects = Defects()) -> None:
        super().__init__(config, context_length, defects)
        if config.d_in != config.d_out:
            raise ValueError(f"nn.MultiheadAttention needs d_in == d_out, got {config.d_in} and {config.d_out}")
        self.module = nn.MultiheadAttention(
            config.d_out, config.num_heads, bias=True, add_bias_kv=defects.bias_key, batch_first=True
        )
        if not config.qkv_bias:
            self.module.register_parameter("in_proj_bias", None)

    def load(self, canonical: Weights) -> Attention:
        state = layouts.to_in_proj(canonical, self.config.num_heads)
        self.module.to(state["in_proj_weight"].dtype)
        self.module.load_state_dict(state, strict=not self.defects.bias_key)
        return self

    def canonical_gradients(self) -> dict[str, Tensor]:
        gradients = {name: p.grad for name, p in self.module.named_parameters() if p.grad is not None}
        return layouts.from_in_proj(gradients, self.config.num_heads)

    def call(self, x: Tensor, masks: Masks, need_weights: bool, average: bool) -> tuple[Tensor, Tensor | None]:
        tokens = x.shape[1]
        mask = self.mask[:tokens, :tokens] if self.config.is_causal else None
        if masks.allow is not None or masks.bias is not None:
            shape = (x.shape[0], self.config.num_heads, tokens)
            # The padding goes in by its own argument, so that the module combines the two itself.
            allowed, bias = combined(Masks(masks.allow, masks.bias), self.config.is_causal, shape, x.dtype)
            mask = bias.masked_fill(~allowed, -torch.inf).flatten(0, 1)
        padding = masks.key_padding_block
        if padding is not None and mask is not None and mask.dtype != torch.bool:
            padding = torch.zeros(padding.shape, dtype=x.dtype).masked_fill(padding, -torch.inf)
        output, weights = self.module(
            x,
            x,
            x,
            attn_mask=mask,
            key_padding_mask=padding,
            need_weights=need_weights,
            average_attn_weights=average,
        )
        if self.defects.second_projection:
            output = self.module.out_proj(output)
        return output, weights

    def forward(self, x: Tensor, masks: Masks = NO_MASKS) -> Tensor:
        return self.call(x, masks, self.need_weights, True)[0]


class ModuleNeedWeights(ModuleNoWeights):
    number, slug = 7, "module_need_weights"
    need_weights = True


class Flex(CombinedQKV):
    number, slug = 9, "flex"

    def plan(self, batch: int, tokens: int, masks: Masks = NO_MASKS) -> BlockMask | None:
        """The block mask depends on sizes and masks only, so it is made once and not in forward()."""
        is_causal, allow, padding = self.config.is_causal, masks.allow, masks.key_padding_block
        if not is_causal and allow is None and padding is None:
            return None
        per_head = allow is not None and allow.dim() == 4

        def mask_mod(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            seen = q >= k if is_causal else q >= 0
            if allow is not None:
                seen = seen & (allow[b, h, q, k] if per_head else allow[q, k])
            if padding is not None:
                seen = seen & ~padding[b, k]
            return seen

        heads = self.config.num_heads if per_head else None
        batches = batch if per_head or padding is not None else None
        return create_block_mask(mask_mod, batches, heads, tokens, tokens, device="cpu")

    def forward(self, x: Tensor, masks: Masks = NO_MASKS, block_mask: BlockMask | None = None) -> Tensor:
        if block_mask is None:
            block_mask = self.plan(x.shape[0], x.shape[1], masks)
        score_mod = None
        if masks.bias is not None:
            bias = masks.bias.to(x.dtype).expand(x.shape[0], self.config.num_heads, x.shape[1], x.shape[1])

            def score_mod(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
                return score + bias[b, h, q, k]

        context = flex_attention(*self.project(x), score_mod=score_mod, block_mask=block_mask)
        return self.proj(self.merge(context))


NINE: tuple[type[Attention], ...] = (
    StackedHeads,
    WeightSplit,
    CombinedQKV,
    Einsum,
    FusedCausal,
    ExplicitMask,
    ModuleNeedWeights,
    ModuleNoWeights,
    Flex,
)


def make(
    number: int, config: Config, context_length: int, canonical: Weights, defects: Defects = Defects()
) -> Attention:
    return NINE[number - 1](config, context_length, defects).load(canonical)
