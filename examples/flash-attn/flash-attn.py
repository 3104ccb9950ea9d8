# SPDX-License-Identifier: Apache-2.0
# The attention of flash-attn.mlir, in Python syntax: the same bits.
from tessera import *

@function(entry="infer")
def attend(q: Tensor[1, 4, 7, 8, f32], k: Tensor[1, 2, 7, 8, f32], v: Tensor[1, 2, 7, 8, f32]):
    return {"y": attention(q, k, v, causal=True)}
