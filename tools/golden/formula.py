# SPDX-License-Identifier: Apache-2.0
"""The formula of multi-head attention written out, the reference that all nine are held to."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from layouts import Weights
from nine import NO_MASKS, Config, Masks, combined


def random_weights(config: Config, generator: torch.Generator, kv_heads: int | None = None) -> dict[str, Tensor]:
    """Canonical float32 weights whose projections keep a N(0, 1) input at about that size."""
    kv_width = config.d_out if kv_heads is None else kv_heads * config.head_dim
    rows = {"W_query": config.d_out, "W_key": kv_width, "W_value": kv_width, "out_proj": config.d_out}
    canonical: dict[str, Tensor] = {}
    for name, out in rows.items():
        fan_in = config.d_out if name == "out_proj" else config.d_in
        canonical[f"{name}.weight"] = torch.randn(out, fan_in, generator=generator) / fan_in**0.5
        if config.qkv_bias or name == "out_proj":
            canonical[f"{name}.bias"] = torch.randn(out, generator=generator) / 2
    return canonical


@dataclass
class DenseResult:
    """Everything about one call: gradients are for loss = sum(output * dy)."""

    output: Tensor
    attn_weights: Tensor  # [batch, heads, T, T]
    lse: Tensor  # [batch, heads, T] natural log of the sum of exponentials
    gradients: dict[str, Tensor] = field(default_factory=dict)  # canonical names, and "x"


def dense(
    config: Config, canonical: Weights, x: Tensor, masks: Masks = NO_MASKS, dy: Tensor | None = None
) -> DenseResult:
    """A query with no allowed key gets zero weights and log-sum-exp -inf; its gradients are zeros."""
    x = x.clone().requires_grad_(dy is not None)
    w = {name: tensor.clone().requires_grad_(dy is not None) for name, tensor in canonical.items()}
    batch, tokens, _ = x.shape

    def heads(name: str) -> Tensor:
        projected = F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))
        return projected.view(batch, tokens, config.num_heads, config.head_dim).transpose(1, 2)

    queries, keys, values = heads("W_query"), heads("W_key"), heads("W_value")
    allowed, bias = combined(masks, config.is_causal, (batch, config.num_heads, tokens), x.dtype)
    scores = queries @ keys.transpose(-2, -1) / config.head_dim**0.5 + bias
    scores = scores.masked_fill(~allowed, -torch.inf)
    blocked = torch.isneginf(scores).all(-1, keepdim=True)
    # Exact zeros in, exact zeros out: neither value nor gradient of a blocked row touches an infinity.
    weights = torch.softmax(scores.masked_fill(blocked, 0.0), dim=-1).masked_fill(blocked, 0.0)
    lse = torch.logsumexp(scores.masked_fill(blocked, 0.0), dim=-1).masked_fill(blocked[..., 0], -torch.inf)
    context = (weights @ values).transpose(1, 2).reshape(batch, tokens, config.d_out)
    output = F.linear(context, w["out_proj.weight"], w["out_proj.bias"])
    gradients: dict[str, Tensor] = {}
    if dy is not None:
        leaves = {"x": x, **w}
        gradients = dict(zip(leaves, torch.autograd.grad((output * dy).sum(), list(leaves.values())), strict=True))
    return DenseResult(output.detach(), weights.detach(), lse.detach(), gradients)
