# SPDX-License-Identifier: Apache-2.0
# The product of matmul.mlir, in Python syntax: the same bits.
from tessera import *

@function(entry="infer")
def matmul_bias_gelu(a: Tensor[9, 16, f32], b: Tensor[11, 16, f32], c: Tensor[11, f32]):
    return {"y": gelu(matmul(a, b, transpose_b=True, allow_tf32=True) + c)}
