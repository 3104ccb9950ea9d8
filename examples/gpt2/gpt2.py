# SPDX-License-Identifier: Apache-2.0
# The GPT-2 of gpt2.mlir, in Python syntax: the same bits.
from tessera import *

LAYERS, WIDTH, HEADS, POSITIONS, TOKENS, BATCH, WINDOW = 12, 768, 12, 1024, 50304, 16, 256

def dense(x, name, out, deviation=0.02):          # parameters are f32, products bf16
    w = param(f"{name}.weight", (x.shape[-1], out), f32, init=normal(0.0, deviation))
    b = param(f"{name}.bias", (out,), f32, init=constant(0.0))
    return x @ cast(w, bf16) + cast(b, bf16)

def norm(x, name):
    w = param(f"{name}.weight", (WIDTH,), f32, init=constant(1.0))
    b = param(f"{name}.bias", (WIDTH,), f32, init=constant(0.0))
    return cast(layernorm_safe(x, w, b, axes=[2], eps=1e-5), bf16)

def attend(h):
    B, S, _ = h.shape
    parts = split(dense(h, "attn.c_attn", 3 * WIDTH), 3, axis=2)
    q, k, v = [transpose(reshape(p, (B, S, HEADS, WIDTH // HEADS)), (0, 2, 1, 3)) for p in parts]
    a = reshape(transpose(attention(q, k, v, causal=True), (0, 2, 1, 3)), (B, S, WIDTH))
    return dense(a, "attn.c_proj", WIDTH, 0.00408)

def block(x):
    x = x + cast(attend(norm(x, "ln_1")), f32)
    u = gelu(dense(norm(x, "ln_2"), "mlp.c_fc", 4 * WIDTH), approximate="tanh")
    return x + cast(dense(u, "mlp.c_proj", WIDTH, 0.00408), f32)

def table():                                      # the table of tokens is also the last product's weight
    return param("wte.weight", (TOKENS, WIDTH), f32, init=normal(0.0, 0.02))

def states(tokens):
    positions = param("wpe.weight", (POSITIONS, WIDTH), f32, init=normal(0.0, 0.01))
    x = gather(table(), tokens) + gather(positions, iota(tokens.shape[-1], i32))
    for i in range(LAYERS):
        with scope(f"h.{i}"):
            x = block(x)
    return norm(x, "ln_f")

def logits(h):
    return h @ cast(table(), bf16).T

def losses(rows):                                 # 16 bits a token; each but the last predicts the next
    B, S = BATCH, POSITIONS
    text = sum(cast(reshape(rows, (B, S + 1, 2)), i32) * [1, 256], axes=[2])
    scores = cast(reshape(logits(states(text[:, :S])), (B * S, TOKENS)), f32)
    return reshape(cross_entropy(scores, cast(reshape(text[:, 1:], (B * S,)), i64)), (B, S))

@function(entry="train", data=dict(rows="text"))
def train(rows: Tensor[BATCH, 2 * POSITIONS + 2, ui8]):
    loss = mean(losses(rows))
    minimize(loss, adamw(lr=2e-4, weight_decay=0.1), lr_schedule=cosine(warmup_steps=200, total_steps=1000, final=0.1))
    return {"loss": loss}

@function(entry="eval", data=dict(rows="test_text"), rows_independent=True)
def evaluate(rows: Tensor[BATCH, 2 * POSITIONS + 2, ui8]):
    return {"loss": losses(rows)}

@function(entry="infer")
def predict(tokens: Tensor[WINDOW, i64]):
    y = logits(states(cast(reshape(tokens, (1, WINDOW)), i32)))
    return {"logits": cast(reshape(y, (WINDOW, TOKENS)), f32)}

@function(entry="infer")
def write(text: Tensor[WINDOW, i64], position: Tensor[1, i64]):
    h = reshape(states(cast(reshape(text, (1, WINDOW)), i32)), (WINDOW, WIDTH))
    y = logits(reshape(gather(h, position - 1), (1, 1, WIDTH)))
    drawn = cast(reshape(y, (TOKENS,)), f32) * 1.25 - log(-log(random_uniform((TOKENS,), f32)))   # Gumbel's trick, temperature 0.8
    token = argmax(drawn, axis=0)
    return {"text": where(iota(WINDOW, i64) == position, token, text), "position": position + 1, "token": token}
