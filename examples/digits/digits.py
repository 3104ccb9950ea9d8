# SPDX-License-Identifier: Apache-2.0
# The perceptron of digits.mlir, in Python syntax: the same bits.
#
#   tessera-aot build examples/digits/digits.py -o digits.tsb
from tessera import *

def layer(x, name, out, bound):
    w = param(f"{name}.weight", (x.shape[-1], out), f32, init=uniform(-bound, bound))
    b = param(f"{name}.bias", (out,), f32, init=constant(0.0))
    return x @ w + b

def logits(pixels):
    x = cast(pixels, f32) * 0.0625                # pixels are 0 ... 16
    x = relu(layer(x, "layer1", 128, 0.2165))
    x = relu(layer(x, "layer2", 64, 0.1531))
    return layer(x, "layer3", 10, 0.2165)

@function(entry="train", data=dict(images="images", labels="labels"))
def train(images: Tensor[64, 64, ui8], labels: Tensor[64, i64]):
    loss = mean(cross_entropy(logits(images), labels))
    minimize(loss, adamw(lr=1e-3, weight_decay=0.3))
    return {"loss": loss}

@function(entry="eval", data=dict(images="test_images", labels="test_labels"), rows_independent=True)
def evaluate(images: Tensor[64, 64, ui8], labels: Tensor[64, i64]):
    y = logits(images)
    return {"loss": cross_entropy(y, labels), "accuracy": cast(argmax(y, axis=1) == labels, f32)}

@function(entry="infer", rows_independent=True)
def predict(x: Tensor[64, 64, ui8]):
    return {"y": logits(x)}
