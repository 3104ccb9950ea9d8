# SPDX-License-Identifier: Apache-2.0
# The attention of flash-attn-bf16.mlir, in Python syntax: the same bits.
from tessera import *

@function(entry="infer")
def attend(q: Tensor[1, 4, 7, 64, f32], k: Tensor[1, 2, 7, 64, f32], v: Tensor[1, 2, 7, 64, f32]):
    q, k, v = [cast(x, bf16) for x in (q, k, v)]
    return {"y": cast(attention(q, k, v, causal=True), f32)}
