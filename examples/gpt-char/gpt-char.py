# SPDX-License-Identifier: Apache-2.0
# The transformer of gpt-char.mlir, in Python syntax: the same bits.
from tessera import *

mesh(data=8)                                      # 8 virtual ranks: the same bits on 1 to 8 processes
BATCH, LENGTH, WIDTH, HEADS, LETTERS = 32, 64, 160, 5, 128

def norm(x, name):
    w = param(f"{name}.scale", (WIDTH,), f32, init=constant(1.0))
    b = param(f"{name}.bias", (WIDTH,), f32, init=constant(0.0))
    return layernorm_safe(x, w, b, axes=[2], eps=1e-5)

def dense(x, name, out, deviation=0.02):
    w = param(f"{name}.weight", (x.shape[-1], out), f32, init=normal(0.0, deviation))
    b = param(f"{name}.bias", (out,), f32, init=constant(0.0))
    return x @ w + b

def layer(x, name):
    B, S, _ = x.shape
    parts = split(dense(norm(x, f"{name}.norm1"), f"{name}.qkv", 3 * WIDTH), 3, axis=2)
    q, k, v = [transpose(reshape(p, (B, S, HEADS, WIDTH // HEADS)), (0, 2, 1, 3)) for p in parts]
    a = reshape(transpose(attention(q, k, v, causal=True), (0, 2, 1, 3)), (B, S, WIDTH))
    x = x + dropout(dense(a, f"{name}.out", WIDTH, 0.00707), rate=0.1)
    u = gelu(dense(norm(x, f"{name}.norm2"), f"{name}.up", 4 * WIDTH))
    return x + dropout(dense(u, f"{name}.down", WIDTH, 0.00707), rate=0.1)

def logits(text):                                 # the table of letters is also the last product's weight
    table = param("letters", (LETTERS, WIDTH), f32, init=normal(0.0, 0.02))
    positions = param("places", (LENGTH, WIDTH), f32, init=normal(0.0, 0.02))
    x = dropout(gather(table, cast(text, i64)) + positions, rate=0.1)
    for i in range(1, 5):
        x = layer(x, f"layer{i}")
    return matmul(norm(x, "norm"), table, transpose_b=True)

def losses(text):                                 # a row is 65 letters: each but the last predicts the next
    scores = reshape(logits(text[:, :LENGTH]), (BATCH * LENGTH, LETTERS))
    labels = reshape(cast(text[:, 1:], i64), (BATCH * LENGTH,))
    return reshape(cross_entropy(scores, labels), (BATCH, LENGTH))

@function(entry="train", data=dict(text="text"))
def train(text: Tensor[BATCH, LENGTH + 1, ui8]):
    loss = mean(losses(text))
    minimize(loss, adamw(lr=2e-3, beta2=0.99, weight_decay=0.1), lr_schedule=cosine(warmup_steps=100, total_steps=1000, final=0.1))
    return {"loss": loss}

@function(entry="eval", data=dict(text="test_text"), rows_independent=True)
def evaluate(text: Tensor[BATCH, LENGTH + 1, ui8]):
    return {"loss": losses(text)}

@function(entry="infer")
def write(text: Tensor[LENGTH, ui8]):             # draws the letter that follows, by Gumbel's trick, and moves the text on by it
    scores = reshape(logits(reshape(text, (1, LENGTH))), (LENGTH, LETTERS))[LENGTH - 1]
    drawn = scores * 1.25 - log(-log(random_uniform((LETTERS,), f32)))     # temperature 0.8
    letter = cast(argmax(drawn, axis=0), ui8)
    return {"text": concat([text[1:], reshape(letter, (1,))], axis=0), "letter": letter}
