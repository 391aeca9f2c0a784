# SPDX-License-Identifier: Apache-2.0
"""The nine in PyTorch, made ready to be timed at one shape, pass, mode and number of threads."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nine import NINE, Config, make

TITLES = {
    1: "Stacked heads",
    2: "Weight split",
    3: "Combined QKV",
    4: "Einsum",
    5: "SDPA, is_causal",
    6: "SDPA, explicit mask",
    7: "nn.MultiheadAttention, weights wanted",
    8: "nn.MultiheadAttention, no weights",
    9: "FlexAttention",
}


def initial_weights(config: Config, generator: torch.Generator) -> dict[str, Tensor]:
    """As nn.Linear starts: uniform in +-1/sqrt(fan_in)."""
    canonical = {}
    for name in ("W_query", "W_key", "W_value", "out_proj"):
        fan_in = config.d_out if name == "out_proj" else config.d_in
        for kind, sizes in (("weight", (config.d_out, fan_in)), ("bias", (config.d_out,))):
            if kind == "weight" or name == "out_proj" or config.qkv_bias:
                canonical[f"{name}.{kind}"] = (torch.rand(sizes, generator=generator) * 2 - 1) / fan_in**0.5
    return canonical


def reference_rows(config: Config, canonical: dict[str, Tensor], x: Tensor, rows: Tensor) -> Tensor:
    """The output rows `rows` of every batch item in float64: [batch, len(rows), d_out]."""
    w = {name: tensor.double() for name, tensor in canonical.items()}
    contexts = []
    for item in x.double():

        def heads(name: str, tokens: Tensor) -> Tensor:
            projected = F.linear(tokens, w[f"{name}.weight"], w.get(f"{name}.bias"))
            return projected.unflatten(-1, (config.num_heads, -1)).transpose(0, 1)

        scores = heads("W_query", item[rows]) @ heads("W_key", item).mT / config.head_dim**0.5
        if config.is_causal:
            scores.masked_fill_(torch.arange(len(item)) > rows[:, None], -torch.inf)
        context = torch.softmax(scores, dim=-1) @ heads("W_value", item)
        contexts.append(context.transpose(0, 1).flatten(-2))
    return F.linear(torch.stack(contexts), w["out_proj.weight"], w["out_proj.bias"])


@dataclass
class Entrant:
    """One of the nine, ready: call() runs the pass once."""

    number: int
    slug: str
    call: Callable[[], Tensor]
    plan_ns: float | None = None


def prepare(
    number: int, config: Config, canonical: dict[str, Tensor], x: Tensor, compiled: bool, backward: bool
) -> Entrant:
    module = make(number, config, x.shape[1], canonical)
    extra: dict[str, Any] = {}
    plan_ns = None
    if number == 9:  # the notebook made its block mask inside the timed call
        start = time.perf_counter_ns()
        extra["block_mask"] = module.plan(1, x.shape[1])
        plan_ns = float(time.perf_counter_ns() - start)
    run = torch.compile(module, dynamic=False) if compiled else module

    def forward() -> Tensor:
        with torch.no_grad():
            return run(x, **extra)

    # x gets a gradient, as in any layer but the first; the gradients are made anew by every call.
    leaf = x.clone().requires_grad_() if backward else x
    dy = torch.ones(x.shape[0], x.shape[1], config.d_out)

    def forward_backward() -> Tensor:
        module.zero_grad(set_to_none=True)
        leaf.grad = None
        output = run(leaf, **extra)
        output.backward(dy)
        return output.detach()

    return Entrant(number, NINE[number - 1].slug, forward_backward if backward else forward, plan_ns)


def timed(call: Callable[[], Tensor]) -> tuple[int, float]:
    """Nanoseconds of wall time, and CPU seconds of the whole process."""
    cpu = time.process_time()
    start = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - start, time.process_time() - cpu


def peak_bytes(call: Callable[[], Tensor]) -> int | None:
    """How far memory in use rises above what it was, by the system's own high-water mark."""
    gc.collect()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)  # what the last call freed would hide what this one takes
    try:
        Path("/proc/self/clear_refs").write_text("5")  # starts a new high-water mark
    except OSError:
        return None
    before = _status("VmRSS")
    call()
    return max(0, _status("VmHWM") - before) * 1024


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def blas_facts() -> str:
    """Which BLAS and which instruction set torch uses here."""
    facts = torch.__config__.show()
    blas = re.search(r"BLAS_INFO=(\w+)", facts)
    libraries = [line.strip(" -") for line in facts.splitlines() if "Math Kernel" in line or "MKL-DNN" in line]
    huge = "on" if os.environ.get("THP_MEM_ALLOC_ENABLE") == "1" else "off"
    capability = torch.backends.cpu.get_cpu_capability()
    return (
        f"BLAS {blas[1] if blas else 'unknown'}; {'; '.join(libraries)}; CPU capability {capability}; huge pages {huge}"
    )
