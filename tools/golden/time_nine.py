# SPDX-License-Identifier: Apache-2.0
"""Times the nine in PyTorch and writes a result file in Ennead's JSON schema.

    python tools/golden/time_nine.py --mode eager --pass forward --threads 1 --rounds 5 \\
        --json bench/results/pytorch-eager-forward-1.json

A file is one series: a mode, a pass, a number of threads. Rounds run every variant once, in random
order; --append adds rounds to a file that is there. What does not work in PyTorch becomes a warning
in the file and a bar without samples.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import time
from pathlib import Path
from typing import Any

# Before torch is loaded: these slow an OpenBLAS down, and hide what the machine can do.
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager")
    parser.add_argument("--pass", dest="direction", choices=("forward", "forward-backward"), default="forward")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--variants", default="1,2,3,4,5,6,7,8,9", help="numbers, comma-separated")
    parser.add_argument("--shape", default="8,1024,768,768,12", help="batch,tokens,d_in,d_out,heads")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--huge-pages", action="store_true", help="let torch ask the system for huge pages")
    parser.add_argument("--json", type=Path, help="where to write the result")
    parser.add_argument("--append", action="store_true", help="add the rounds to that file")
    parser.add_argument("--peak", type=float, default=0.0, help="GFLOP/s of the peak, as `ennead roofline` measures it")
    parser.add_argument("--step", action="store_true", help="a round begins when a line arrives on standard input")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    if arguments.huge_pages:
        os.environ["THP_MEM_ALLOC_ENABLE"] = "1"
    import warnings

    import torch

    import result_file
    import torch_series as series
    from nine import Config

    warnings.filterwarnings("ignore", "flex_attention called without torch.compile")  # that is the eager series
    torch.set_num_threads(arguments.threads)
    batch, tokens, d_in, d_out, heads = (int(size) for size in arguments.shape.split(","))
    config = Config(d_in, d_out, heads)
    generator = torch.Generator().manual_seed(arguments.seed)
    canonical = series.initial_weights(config, generator)
    x = torch.randn(batch, tokens, d_in, generator=generator)
    rows = torch.linspace(0, tokens - 1, min(64, tokens)).round().long()
    expected = series.reference_rows(config, canonical, x, rows)
    compiled, backward = arguments.mode == "compile", arguments.direction == "forward-backward"
    print(f"torch {torch.__version__}, {arguments.mode}, {series.blas_facts()}", file=sys.stderr)

    bars: list[dict[str, Any]] = []
    entrants: dict[int, series.Entrant] = {}
    problems: list[str] = []
    for number in (int(number) for number in arguments.variants.split(",")):
        bar = result_file.new_bar(number, series.NINE[number - 1].slug, f"PyTorch: {series.TITLES[number]}")
        bars.append(bar)
        try:
            entrant = series.prepare(number, config, canonical, x, compiled, backward)
            output = entrant.call()  # warms up: pages, caches, and the compiler
            bar["max_abs_err"] = float((output[:, rows].double() - expected).abs().max())
            bar["ok"] = bar["max_abs_err"] <= 2e-5
            bar["plan_ns"] = entrant.plan_ns
            bar["peak_bytes"] = series.peak_bytes(entrant.call)
            entrants[number] = entrant
        except Exception as error:  # whatever PyTorch cannot do is part of the result
            first = str(error).strip().splitlines()[0][:160]
            problems.append(f"{bar['slug']} does not run in this series: {type(error).__name__}: {first}")
            print(problems[-1], file=sys.stderr)

    cpu = {number: 0.0 for number in entrants}
    by_number = {bar["number"]: bar for bar in bars}
    shuffle = random.Random(time.time_ns())
    for index in range(arguments.rounds):
        print("ready" if arguments.step else f"round {index + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
        if arguments.step and not sys.stdin.readline():
            break
        for number in shuffle.sample(sorted(entrants), len(entrants)):
            nanoseconds, seconds = series.timed(entrants[number].call)
            by_number[number]["samples_ns"].append(nanoseconds)
            cpu[number] += seconds
    for number, bar in by_number.items():
        if bar["samples_ns"]:
            bar["cpu_share"] = cpu[number] / (sum(bar["samples_ns"]) * 1e-9 * arguments.threads)

    result: dict[str, Any] = {
        "schema_version": result_file.SCHEMA_VERSION,
        "work": {
            "shape": {
                "batch": batch,
                "num_tokens": tokens,
                "d_in": d_in,
                "d_out": d_out,
                "num_heads": heads,
                "is_causal": config.is_causal,
                "qkv_bias": config.qkv_bias,
            },
            "pass": arguments.direction,
            "dtype": "float32",
            "seed": arguments.seed,
        },
        "machine": {
            "cpu": result_file.cpu_name(),
            "caches": result_file.caches(),
            "isa": torch.backends.cpu.get_cpu_capability().lower(),
            "threads": arguments.threads,
            "available_threads": len(os.sched_getaffinity(0)),
            "os": f"{platform.system()} {platform.release()}",
        },
        "build": {
            "commit": f"PyTorch {torch.__version__} ({torch.version.git_version[:12]})",
            "compiler": "torch.compile" if compiled else "eager",
            "flags": series.blas_facts(),
        },
        "peak_flops": [arguments.peak * 1e9] if arguments.peak else [],
        "base": 1,
        "ratio_coverage": None,
        "largest_difference": None,
        "interrupted": False,
        "warnings": problems,
        "results": bars,
    }
    result = result_file.finish(result)
    for bar in result["results"]:
        median = "does not run" if bar["median_ns"] is None else f"{bar['median_ns'] / 1e6:9.1f} ms"
        accuracy = "" if bar["max_abs_err"] is None else f"  error {bar['max_abs_err']:.1e}"
        print(f"{bar['number']:2} {bar['title']:44} {median}{accuracy}")
    if arguments.json:
        result_file.write(result, arguments.json, arguments.append)
    return 0


if __name__ == "__main__":
    sys.exit(main())
