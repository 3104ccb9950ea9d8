# SPDX-License-Identifier: Apache-2.0
# The softmax of softmax.mlir, in Python syntax: the same bits.
from tessera import *

@function(entry="infer")
def rows(x: Tensor[5, 12, f32]):
    return {"y": softmax_safe(x, axis=1)}
