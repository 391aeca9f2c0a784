# SPDX-License-Identifier: Apache-2.0
"""The same array in every way NumPy writes it: a[i, j, k] = 100 i + 10 j + k + 0.5, exact in every type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cases import MODULE_CASES, module_inputs
from formula import dense


def array() -> np.ndarray:
    i, j, k = np.ogrid[0:2, 0:3, 0:4]
    return 100.0 * i + 10.0 * j + k + 0.5


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """The upper half of each float32, which holds these values exactly."""
    return (values.astype("<f4").view("<u4") >> 16).astype("<u2")


def write(directory: Path) -> dict[str, Any]:
    a = array()
    files: dict[str, tuple[np.ndarray, tuple[int, int], str]] = {
        "float32_v1": (a.astype("<f4"), (1, 0), "as np.save writes it"),
        "float64_v2": (a.astype("<f8"), (2, 0), "the long header"),
        "float32_v3": (a.astype("<f4"), (3, 0), "the header in UTF-8"),
        "float32_fortran": (np.asfortranarray(a.astype("<f4")), (1, 0), "first axis fastest"),
        "float64_big_endian": (a.astype(">f8"), (1, 0), "the other byte order"),
        "float32_big_endian_fortran": (np.asfortranarray(a.astype(">f4")), (1, 0), "both at once"),
        "float16": (a.astype("<f2"), (1, 0), "half"),
        "float16_big_endian": (a.astype(">f2"), (1, 0), "half in the other byte order"),
        "bfloat16": (bfloat16_bits(a), (1, 0), "bfloat16 bits as uint16"),
        "bool": (a > 60.0, (1, 0), "true where the value is over 60"),
        "scalar": (np.array(0.5, "<f4"), (1, 0), "no axis at all"),
        "empty": (np.zeros((0, 3), "<f4"), (1, 0), "no element"),
    }
    (directory / "npy").mkdir(exist_ok=True)
    for name, (values, version, _) in files.items():
        with open(directory / "npy" / f"{name}.npy", "wb") as file:
            np.lib.format.write_array(file, np.asanyarray(values), version=version, allow_pickle=False)
    case = next(case for case in MODULE_CASES if case.name == "square_bias")
    inputs = module_inputs(case)
    exact = {name: tensor.double() for name, tensor in inputs.canonical.items()}
    np.save(directory / "npy" / "square_bias_x.npy", inputs.x.numpy())
    np.save(directory / "npy" / "square_bias_y.npy", dense(case.config, exact, inputs.x.double()).output.numpy())
    entries = {f"npy/{name}.npy": why for name, (_, _, why) in files.items()}
    return entries | {"npy/square_bias_x.npy": "x of square_bias", "npy/square_bias_y.npy": "its output in float64"}
