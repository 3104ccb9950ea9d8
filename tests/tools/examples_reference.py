#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The reference for `expected.npy` of the examples: computed by NumPy in float64 from the inputs in the same folder, rounded to float32
once.

examples_reference.py ROOT            compares with the repository's files: at most one float32 apart, since erf and exp differ between
libraries examples_reference.py ROOT --update   writes them

Exits with 77 without NumPy.
"""
import math
import pathlib
import sys

try:
    import numpy as np
except ImportError:
    sys.exit(77)

EXAMPLES = pathlib.Path(sys.argv[1]).resolve() / "examples"


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def matmul(a, b, c):
    """With a bias and GELU, from its definition with erf."""
    s = a @ b.T + c
    return 0.5 * s * (1 + np.vectorize(math.erf)(s / math.sqrt(2)))


def attention(q, k, v):
    """Causal; each key head serves an equal number of consecutive query heads."""
    k, v = (np.repeat(t, q.shape[1] // t.shape[1], axis=1) for t in (k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    later = np.arange(k.shape[2])[None, :] > np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    return softmax(np.where(later, -np.inf, scores)) @ v


RULES = {"matmul": (matmul, "abc"), "softmax": (softmax, "x"), "flash-attn": (attention, "qkv"), "flash-attn-bf16": (attention, "qkv")}


def make(name):
    rule, inputs = RULES[name]
    arrays = [np.load(EXAMPLES / name / f"{key}.npy") for key in inputs]
    assert all(array.dtype == np.float32 for array in arrays), name
    return rule(*(array.astype(np.float64) for array in arrays)).astype(np.float32)


def compare(name, made):
    """Returns the difference between the repository's file and the computed array."""
    shipped = np.load(EXAMPLES / name / "expected.npy")
    if shipped.dtype != np.float32 or shipped.shape != made.shape:
        return f"{name}: shipped is {shipped.dtype} {shipped.shape}, made is {made.dtype} {made.shape}"
    apart = np.abs(shipped - made) > np.spacing(np.maximum(np.abs(shipped), np.abs(made)))
    if not np.isfinite(shipped).all() or apart.any():
        at = tuple(map(int, np.argwhere(apart | ~np.isfinite(shipped))[0]))
        return f"{name}: {int(apart.sum())} numbers differ; at {at} {shipped[at]!r} is shipped, {made[at]!r} made"
    print(f"{name}: {made.size} numbers, {int((shipped != made).sum())} of them not the same bits")
    return None


def main():
    wrong = [f"{path.parent.name}: expected.npy is of no rule" for path in EXAMPLES.glob("*/expected.npy") if path.parent.name not in RULES]
    for name in RULES:
        made = make(name)
        if "--update" in sys.argv[2:]:
            np.save(EXAMPLES / name / "expected.npy", made)
        wrong += filter(None, [compare(name, made)])
        # A different array is detected: one number two floats away.
        other = made.copy()
        other.flat[-1] += np.float32(3) * np.spacing(np.abs(other.flat[-1]))
        if (np.abs(other - made) > np.spacing(np.maximum(np.abs(other), np.abs(made)))).sum() != 1:
            wrong.append(f"{name}: a wrong number is not seen")
    print("\n".join(wrong))
    sys.exit(bool(wrong))


main()
