# SPDX-License-Identifier: Apache-2.0
# The convolutional net of convnet.mlir, in Python syntax: the same bits.
from tessera import *

def conv(x, name, out, bound):
    w = param(f"{name}.weight", (3, 3, x.shape[-1], out), f32, init=uniform(-bound, bound))
    b = param(f"{name}.bias", (out,), f32, init=constant(0.0))
    y = relu(conv2d(x, w, strides=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1]) + b)
    return max_pool2d(y, [2, 2], strides=[2, 2], padding=[0, 0, 0, 0])

def logits(pixels):
    image = reshape(cast(pixels, f32) * 0.0625, (64, 8, 8, 1))    # pixels are 0 ... 16
    features = reshape(conv(conv(image, "conv1", 16, 0.333), "conv2", 32, 0.0833), (64, 128))
    w = param("linear.weight", (128, 10), f32, init=uniform(-0.0883, 0.0883))
    b = param("linear.bias", (10,), f32, init=constant(0.0))
    return features @ w + b

@function(entry="train", data=dict(images="images", labels="labels"))
def train(images: Tensor[64, 64, ui8], labels: Tensor[64, i64]):
    loss = mean(cross_entropy(logits(images), labels))
    minimize(loss, adamw(lr=3e-3, weight_decay=0.01))
    return {"loss": loss}

@function(entry="eval", data=dict(images="test_images", labels="test_labels"), rows_independent=True)
def evaluate(images: Tensor[64, 64, ui8], labels: Tensor[64, i64]):
    y = logits(images)
    return {"loss": cross_entropy(y, labels), "accuracy": cast(argmax(y, axis=1) == labels, f32)}
