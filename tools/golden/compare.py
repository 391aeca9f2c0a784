# SPDX-License-Identifier: Apache-2.0
"""Ennead and PyTorch in alternation on this machine: how many times the time, and both errors.

    python tools/golden/compare.py --tool build/release/bin/ennead --threads 1 --rounds 5

Each round times PyTorch's variants and then lets `ennead bench` race its own for a moment; the ratio is
formed within the round, so that a change of the machine touches both. Errors are those of both on the
same weights and x (`ennead run`), against the formula in float64.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True, help="the built ennead")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ennead", default="5,10", help="variants of Ennead, comma-separated")
    parser.add_argument("--pytorch", default="5,8", help="variants of PyTorch; its fastest on a CPU unless given")
    parser.add_argument("--compile", action="store_true", help="PyTorch's variants compiled")
    parser.add_argument("--shape", default="8,1024,768,768,12", help="batch,tokens,d_in,d_out,heads")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long Ennead's turn takes")
    parser.add_argument("--huge-pages", action="store_true", help="let torch ask the system for huge pages too")
    parser.add_argument("--step", action="store_true", help="a round begins when a line arrives on standard input")
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    return parser.parse_args()


class Ennead:
    """The tool at one shape and number of threads."""

    def __init__(self, tool: Path, shape: list[int], threads: int) -> None:
        names = ("--batch", "--tokens", "--d-in", "--d-out", "--heads")
        self.tool = tool
        self.sizes = [part for flag, size in zip(names, shape, strict=True) for part in (flag, str(size))]
        self.threads = ["--threads", str(threads)]

    def samples_ms(self, numbers: list[str], seconds: float) -> dict[str, list[float]]:
        command = [self.tool, "bench", *numbers, *self.sizes, *self.threads, "--seconds", str(seconds), "--json", "-"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        result = json.loads(done.stdout[done.stdout.index("{") :])
        return {str(bar["number"]): [ns / 1e6 for ns in bar["samples_ns"]] for bar in result["results"]}

    def output(self, number: str, weights: Path, x: Path, heads: int) -> Any:
        import numpy as np

        y = x.with_name(f"y{number}.npy")
        command = [self.tool, "run", "--variant", number, "--heads", str(heads), "--weights", weights, "--input", x]
        subprocess.run([*command, "--output", y, *self.threads], capture_output=True, check=True)
        return np.load(y)


def main() -> int:
    arguments = parse()
    if arguments.huge_pages:
        os.environ["THP_MEM_ALLOC_ENABLE"] = "1"
    import numpy as np
    import torch
    from safetensors.torch import save_file

    import torch_series as series
    from nine import Config

    torch.set_num_threads(arguments.threads)
    shape = [int(size) for size in arguments.shape.split(",")]
    batch, tokens, d_in, d_out, heads = shape
    config = Config(d_in, d_out, heads)
    generator = torch.Generator().manual_seed(1)
    canonical = series.initial_weights(config, generator)
    x = torch.randn(batch, tokens, d_in, generator=generator)
    rows = torch.linspace(0, tokens - 1, min(64, tokens)).round().long()
    expected = series.reference_rows(config, canonical, x, rows)
    ours, theirs = arguments.ennead.split(","), [int(number) for number in arguments.pytorch.split(",")]
    tool = Ennead(arguments.tool.resolve(), shape, arguments.threads)

    errors: dict[str, float] = {}
    entrants = [series.prepare(number, config, canonical, x, arguments.compile, backward=False) for number in theirs]
    for entrant in entrants:
        errors[f"pytorch {entrant.number}"] = float((entrant.call()[:, rows].double() - expected).abs().max())
    with tempfile.TemporaryDirectory() as directory:
        weights, input_file = Path(directory, "weights.safetensors"), Path(directory, "x.npy")
        save_file(canonical, weights)
        np.save(input_file, x.numpy())
        for number in ours:
            output = torch.from_numpy(tool.output(number, weights, input_file, heads))
            errors[f"ennead {number}"] = float((output[:, rows].double() - expected).abs().max())

    samples: dict[str, list[float]] = {name: [] for name in errors}
    for _ in range(arguments.rounds):
        if arguments.step:
            print("ready", file=sys.stderr, flush=True)
            if not sys.stdin.readline():
                break
        for entrant in entrants:
            entrant.call()  # the caches were Ennead's
            times = [series.timed(entrant.call)[0] / 1e6 for _ in range(3)]
            samples[f"pytorch {entrant.number}"].append(median(times))
        for number, times in tool.samples_ms(ours, arguments.seconds).items():
            samples[f"ennead {number}"].append(median(times))

    mode = "torch.compile" if arguments.compile else "eager"
    print(f"torch {torch.__version__} {mode}, {arguments.threads} thread(s); {series.blas_facts()}")
    for name, times in samples.items():
        print(f"{name:12} {median(times):8.1f} ms, error {errors[name]:.1e}")
    for number in ours:
        for entrant in entrants:
            pairs = zip(samples[f"ennead {number}"], samples[f"pytorch {entrant.number}"], strict=True)
            ratios = sorted(mine / other for mine, other in pairs)
            print(
                f"ennead {number} / pytorch {entrant.number} ({entrant.slug}): {median(ratios):.3f}"
                f" in {len(ratios)} rounds [{ratios[0]:.3f}, {ratios[-1]:.3f}]"
            )
    if arguments.json:
        record = {"torch": torch.__version__, "mode": mode, "threads": arguments.threads, "shape": shape}
        arguments.json.write_text(json.dumps(record | {"samples_ms": samples, "errors": errors}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
