# SPDX-License-Identifier: Apache-2.0
"""Result files in Ennead's JSON schema (schema_version 1, docs/results.md), written and merged."""

from __future__ import annotations

import json
import math
import platform
import re
from pathlib import Path
from statistics import median
from typing import Any

SCHEMA_VERSION = 1
CONFIDENCE = 0.95


def useful_flops(shape: dict[str, Any], backward: bool) -> float:
    """Multiply-adds * 2 that the result needs; masked products are not among them."""
    tokens, d_in, d_out = shape["num_tokens"], shape["d_in"], shape["d_out"]
    pairs = tokens * (tokens + 1) / 2 if shape["is_causal"] else tokens * tokens
    linear = 2.0 * shape["batch"] * tokens * (3 * d_in * d_out + d_out * d_out)
    attention = 2.0 * shape["batch"] * pairs * 2 * d_out
    return linear * (3 if backward else 1) + attention * (3.5 if backward else 1)


def quantile(values: list[float], p: float) -> float:
    ordered = sorted(values)
    at = p * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def median_interval(values: list[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """The narrowest pair of order statistics that holds the median with that probability, and the
    probability it has; the extremes when the values are too few. It takes two values at least."""
    ordered, n = sorted(values), len(values)
    k, tail = 1, 0.5**n
    while 2 * (k + 1) <= n + 1:
        wider = tail + math.comb(n, k) * 0.5**n
        if 1 - 2 * wider < confidence:
            break
        k, tail = k + 1, wider
    return ordered[k - 1], ordered[n - k], 1 - 2 * tail


def cpu_name() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else platform.processor() or "unknown"


def caches() -> dict[str, int]:
    """Bytes of the caches of the first CPU; 0 where the system does not tell."""
    sizes = {"l1d": 0, "l2": 0, "l3": 0}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        level, kind = (index / "level").read_text().strip(), (index / "type").read_text().strip()
        name = "l1d" if level == "1" else f"l{level}"
        if kind != "Instruction" and name in sizes:
            sizes[name] = int((index / "size").read_text().strip().rstrip("K")) * 1024
    return sizes


def new_bar(number: int, slug: str, title: str) -> dict[str, Any]:
    unknown = ("peak_bytes", "plan_ns", "cpu_share", "max_abs_err", "executed_flops")
    return {"number": number, "slug": slug, "title": title, "samples_ns": [], "ok": False} | dict.fromkeys(unknown)


def finish(result: dict[str, Any]) -> dict[str, Any]:
    """Fills in what follows from the samples."""
    flops = useful_flops(result["work"]["shape"], result["work"]["pass"] == "forward-backward")
    base: list[float] = next((bar["samples_ns"] for bar in result["results"] if bar["number"] == result["base"]), [])
    peak = max(result["peak_flops"], default=None)
    coverages = []
    for bar in result["results"]:
        samples = bar["samples_ns"]
        derived: dict[str, Any] = dict.fromkeys(("median_ns", "spread", "ratio_to_1", "share_of_peak"))
        derived["ratio_interval"] = [None, None]
        if samples:
            middle = median(samples)
            derived["median_ns"] = middle
            if len(samples) > 1:
                derived["spread"] = (quantile(samples, 0.75) - quantile(samples, 0.25)) / 2 / middle
            derived["share_of_peak"] = None if peak is None else flops / (middle * 1e-9) / peak
        if samples and len(samples) == len(base):
            ratios = [time / of_base for time, of_base in zip(samples, base, strict=True)]
            derived["ratio_to_1"] = median(ratios)
            if len(ratios) > 1:
                low, high, coverage = median_interval(ratios)
                derived["ratio_interval"] = [low, high]
                coverages.append(coverage)
        bar |= derived | {"useful_flops": flops}
    coverage = min(coverages, default=None)
    result["rounds"] = min((len(bar["samples_ns"]) for bar in result["results"] if bar["samples_ns"]), default=0)
    result["ratio_coverage"] = coverage
    result["ratio_confidence"] = CONFIDENCE
    result["enough_rounds"] = coverage is not None and coverage >= CONFIDENCE
    return result


def merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Appends the rounds of `new`. Both must have measured the same work with the same build."""
    for key in ("schema_version", "work", "machine", "build", "base"):
        if old[key] != new[key]:
            raise ValueError(f"the file holds another {key}: expected {new[key]}, got {old[key]}")
    bars = {bar["number"]: bar for bar in new["results"]}
    if bars.keys() != {bar["number"] for bar in old["results"]}:
        raise ValueError("the file holds other variants")
    for bar in old["results"]:
        fresh = {key: value for key, value in bars[bar["number"]].items() if value is not None}
        bar |= fresh | {"samples_ns": bar["samples_ns"] + fresh["samples_ns"]}
    old["warnings"] = list(dict.fromkeys(old["warnings"] + new["warnings"]))
    old["peak_flops"] += new["peak_flops"]
    return finish(old)


def write(result: dict[str, Any], path: Path, append: bool) -> None:
    if append and path.exists():
        result = merge(json.loads(path.read_text()), result)
    path.parent.mkdir(parents=True, exist_ok=True)
    # One bar's samples on one line: a file that people can read and compare.
    text = json.dumps(finish(result), indent=1)
    text = re.sub(
        r"\[[^\[\]{}\"]*\]", lambda found: re.sub(r"\s+", " ", found[0]).replace("[ ", "[").replace(" ]", "]"), text
    )
    partial = path.with_suffix(".partial")
    partial.write_text(text + "\n")
    partial.replace(path)
