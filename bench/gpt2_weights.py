# SPDX-License-Identifier: Apache-2.0
"""Random weights for examples/gpt2 of any size (`positions`, `width`, `vocabulary` of an object) from a seed, and files with them. Needs
NumPy.
"""
import json
import math
import struct

import numpy as np

LAYERS = 12


def shapes(s):
    width = s.width
    yield "wte.weight", (s.vocabulary, width)
    yield "wpe.weight", (s.positions, width)
    for name in (f"h.{i}" for i in range(LAYERS)):
        for part, rows, columns in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width), ("mlp.c_fc", width, 4 * width),
                                    ("mlp.c_proj", 4 * width, width)):
            yield f"{name}.{part}.weight", (rows, columns)
            yield f"{name}.{part}.bias", (columns,)
        for part in ("ln_1", "ln_2"):
            yield f"{name}.{part}.weight", (width,)
            yield f"{name}.{part}.bias", (width,)
    yield "ln_f.weight", (width,)
    yield "ln_f.bias", (width,)


def draw(s, seed):
    """Returns random f32 weights; no weight has a value that would hide a mistake."""
    generator, weights = np.random.default_rng(seed), {}
    for name, shape in shapes(s):
        deviation = 0.02 / math.sqrt(2 * LAYERS) if name.endswith("c_proj.weight") else 0.02
        values = generator.standard_normal(shape, np.float32) * np.float32(deviation)
        weights[name] = values + 1 if ".ln_" in name and name.endswith("weight") or name == "ln_f.weight" else values
    return weights


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            file.write(value.astype("<f4").tobytes())


def read_safetensors(path, ending):
    """Returns the f32 tensors whose names have this ending, without the ending."""
    data = np.memmap(path, np.uint8, "r")
    size = int(data[:8].view("<u8")[0])
    header = json.loads(data[8:8 + size].tobytes())
    return {name.removesuffix(ending): data[8 + size:][slice(*entry["data_offsets"])].view("<f4").reshape(entry["shape"])
            for name, entry in header.items() if name.endswith(ending) and entry.get("dtype") == "F32"}
