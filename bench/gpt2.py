#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/gpt2 beside the same model in PyTorch: logits, every parameter's gradient, the loss of every step; what a step takes.

usage: gpt2.py TESSERA_RUN BUNDLE EXAMPLE_FOLDER [--device cpu|cuda] [--steps N] [--only CHECK] [--times] [--batch N] [--places N] …

The sizes are those that BUNDLE was built with (sizes.py). Weights are random numbers of a seed, made here and given as a file of Hugging
Face's names and shapes. Our bf16 and PyTorch's (autocast) are both compared with PyTorch in f32: of each gradient, and of the logits, our
distance may be at most 1.5 times PyTorch's own and a rest for the smallest. The loss of each of N steps (default 20) must be within 0.5 % of PyTorch's of bf16.
With --times it measures instead, on a GPU, in turns with torch.compile. Prints JSON objects. Exits with 77 without PyTorch.
"""
import argparse
import json
import math
import pathlib
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(error)
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests/data")]
from shuffle_reference import shuffle_index  # noqa: E402

LAYERS, RATE, WARMUP, TOTAL, FINAL, BETAS, EPS, DECAY = 12, 6e-4, 50, 1000, 0.1, (0.9, 0.95), 1e-8, 0.1
FURTHER, REST, CURVE = 1.5, 2e-3, 0.005
ROUND_STEPS = 12


def shapes(s):
    width = s.width
    yield "wte.weight", (s.vocabulary, width)
    yield "wpe.weight", (s.places, width)
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
    """Random weights, f32; none is at a value where a mistake could not be seen."""
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
    """The f32 tensors whose names end so, without the ending."""
    data = np.memmap(path, np.uint8, "r")
    size = int(data[:8].view("<u8")[0])
    header = json.loads(data[8:8 + size].tobytes())
    return {name.removesuffix(ending): data[8 + size:][slice(*entry["data_offsets"])].view("<f4").reshape(entry["shape"])
            for name, entry in header.items() if name.endswith(ending) and entry.get("dtype") == "F32"}


# ---- the model in PyTorch ------------------------------------------------------------------------

def hidden(w, tokens, heads):
    x = F.embedding(tokens, w["wte.weight"]) + w["wpe.weight"][:tokens.shape[1]]

    def norm(x, name):
        return F.layer_norm(x, (x.shape[-1],), w[f"{name}.weight"], w[f"{name}.bias"])

    def product(x, name):
        return F.linear(x, w[f"{name}.weight"].t(), w[f"{name}.bias"])

    for layer in (f"h.{i}" for i in range(LAYERS)):
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2)
                   for part in product(norm(x, f"{layer}.ln_1"), f"{layer}.attn.c_attn").chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        x = x + product(a, f"{layer}.attn.c_proj")
        x = x + product(F.gelu(product(norm(x, f"{layer}.ln_2"), f"{layer}.mlp.c_fc"), approximate="tanh"), f"{layer}.mlp.c_proj")
    return norm(x, "ln_f")


def logits(w, tokens, heads):
    return F.linear(hidden(w, tokens, heads), w["wte.weight"])


def loss_of(w, rows, heads):
    return F.cross_entropy(logits(w, rows[:, :-1], heads).flatten(0, 1).float(), rows[:, 1:].flatten())


def rate(step):
    p = min(max((step - WARMUP) / (TOTAL - WARMUP), 0.0), 1.0)
    return RATE * min(step / WARMUP, 1.0) * (FINAL + (1 - FINAL) * (1 + math.cos(math.pi * p)) / 2)


class Trainer:
    def __init__(self, s, weights, text, compiled=False):
        self.s, self.done = s, 0
        self.w = {name: torch.nn.Parameter(torch.from_numpy(value).to(s.device, copy=True)) for name, value in weights.items()}
        self.loss = torch.compile(loss_of, dynamic=False) if compiled else loss_of
        self.rows = text[:len(text) // (s.places + 1) * (s.places + 1)].reshape(-1, s.places + 1)
        self.optimizer = torch.optim.AdamW(self.w.values(), lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY, fused=True)

    def batch(self):
        first = self.done * self.s.batch
        rows = [shuffle_index(0, len(self.rows), first + i) for i in range(self.s.batch)]
        return torch.from_numpy(self.rows[rows].astype(np.int64)).to(self.s.device)

    def gradients(self, is_bf16):
        self.optimizer.zero_grad(set_to_none=True)
        rows = self.batch()
        with torch.autocast(self.s.device, torch.bfloat16, enabled=is_bf16):
            loss = self.loss(self.w, rows, self.s.heads)
        loss.backward()
        return loss

    def step(self):
        loss = self.gradients(True)
        self.done += 1
        for group in self.optimizer.param_groups:
            group["lr"] = rate(self.done)
        self.optimizer.step()
        return loss


# ---- ours ----------------------------------------------------------------------------------------

def run(s, *arguments):
    command = [str(s.run), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f'{" ".join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}')
    return done


def train(s, folder, steps, *more):
    """The events of the steps."""
    metrics = pathlib.Path(folder, "metrics.jsonl")
    run(s, s.bundle, "--device", s.device, "--data", f"text={s.example}/train.tokens", "--params", f"{folder}/weights.safetensors",
        "--steps", steps, "--quiet", "--metrics", metrics, *more)
    events = [json.loads(line) for line in metrics.read_text().splitlines()]
    metrics.unlink()
    return [event for event in events if event["event"] == "step"]


def distance(a, exact):
    return ((a.double() - exact.double()).norm() / exact.double().norm()).item()


def judge(s, ours, theirs, exact):
    """What is further from the exact values than it may be, and the largest ratio of distances."""
    wrong, worst, most = [], (0.0, ""), (0.0, "")
    for name, value in exact.items():
        a, b = distance(torch.from_numpy(np.array(ours[name])).to(s.device), value), distance(theirs[name], value)
        worst, most = max(worst, (a / (b + 1e-12), name)), max(most, (a, name))
        if not a <= FURTHER * b + REST:
            wrong.append(f"{name}: {a:.2e} from the exact value, PyTorch's bf16 {b:.2e}")
    return wrong, {"compared": len(exact), "distance": round(most[0], 5), "of": most[1], "ratio": round(worst[0], 3), "ratio_of": worst[1]}


def check_gradients(s, folder, weights, text):
    event = train(s, folder, 1, "--state-dir", f"{folder}/state")[0]
    run(s, "export", f"{folder}/state", "-o", f"{folder}/state.safetensors")
    moments = read_safetensors(f"{folder}/state.safetensors", ".adam_m")
    if set(moments) != set(weights):
        sys.exit(f"the state has moments of {sorted(set(moments) ^ set(weights))} too many or few")
    ours = {name: value / (1 - BETAS[0]) for name, value in moments.items()}
    trainer, found = Trainer(s, weights, text), {}
    for is_bf16 in (False, True):
        loss = trainer.gradients(is_bf16).item()
        found[is_bf16] = {name: p.grad.detach().clone() for name, p in trainer.w.items()}, loss
    wrong, figures = judge(s, ours, found[True][0], found[False][0])
    return wrong, {"loss": event["outputs"]["loss"], "torch_bf16": found[True][1], "torch_f32": found[False][1], **figures}


def check_logits(s, folder, weights, text):
    window = text[:s.window].astype(np.int64)
    np.save(f"{folder}/window.npy", window)
    run(s, s.bundle, "--device", s.device, "--entry", "predict", "--params", f"{folder}/weights.safetensors", "--input",
        f"tokens={folder}/window.npy", "--output", f"logits={folder}/logits.npy")
    w = {name: torch.from_numpy(value).to(s.device) for name, value in weights.items()}
    tokens, found = torch.from_numpy(window)[None].to(s.device), {}
    with torch.no_grad():
        for is_bf16 in (False, True):
            with torch.autocast(s.device, torch.bfloat16, enabled=is_bf16):
                found[is_bf16] = {"logits": logits(w, tokens, s.heads)[0].float()}
    return judge(s, {"logits": np.load(f"{folder}/logits.npy")}, found[True], found[False])


def check_curve(s, folder, weights, text):
    trainer = Trainer(s, weights, text)
    ours = [event["outputs"]["loss"] for event in train(s, folder, s.steps)]
    theirs = [trainer.step().item() for _ in ours]
    apart = [abs(a - b) / b for a, b in zip(ours, theirs)]
    worst = max(range(len(apart)), key=lambda i: apart[i])
    figures = {"steps": len(ours), "first": ours[0], "last": ours[-1], "torch_last": round(theirs[-1], 6), "apart": round(apart[worst], 6),
               "at_step": worst + 1}
    good = len(ours) == s.steps and apart[worst] <= CURVE
    return [] if good else [f"the loss of step {worst + 1} is {ours[worst]}, PyTorch's {theirs[worst]}"], figures


def compare(s, folder, weights, text):
    failures = 0
    for name, check in (("logits", check_logits), ("gradients", check_gradients), ("curve", check_curve)):
        if s.only not in (None, name):
            continue
        wrong, figures = check(s, folder, weights, text)
        print(json.dumps({"check": name, **figures, "wrong": len(wrong)}), flush=True)
        for why in wrong[:10]:
            print(f"FAILED: {why}")
        failures += len(wrong)
    return failures


# ---- times ---------------------------------------------------------------------------------------

def first_step(s, folder):
    """Seconds from the start of the process to the end of its first step."""
    command = [str(s.run), str(s.bundle), "--device", s.device, "--data", f"text={s.example}/train.tokens", "--steps", "2"]
    start, at = time.perf_counter(), None
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        for line in process.stderr:
            if line.startswith("step 1/") and at is None:
                at = time.perf_counter() - start
    return at


def save_blocks(s, folder):
    """How much longer than others a step is that a save is made before, as part of a step: the saves' median. Saves are rarer than
    it takes to write one, so that none waits for the one before."""
    every, saves = 16, 5
    ends = [event["seconds"] for event in train(s, folder, every * (saves + 1), "--state-dir", f"{folder}/saves", "--save-every", every)]
    shutil.rmtree(f"{folder}/saves")
    took = {step: after - before for step, (before, after) in enumerate(zip(ends, ends[1:]), 2)}
    plain = statistics.median(seconds for step, seconds in took.items() if step % every > 2)
    return statistics.median(took[every * (k + 1) + 1] - plain for k in range(saves)) / plain


def our_seconds(s, folder):
    ends = [event["seconds"] for event in train(s, folder, ROUND_STEPS)]
    return [after - before for before, after in zip(ends[1:], ends[2:])]


def their_seconds(trainer):
    seconds = []
    for _ in range(ROUND_STEPS - 2):
        start = time.perf_counter()
        trainer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds


def measure(s, folder, weights, text):
    trainer = Trainer(s, weights, text, True)
    begin = time.perf_counter()
    for _ in range(3):
        trainer.step()
    torch.cuda.synchronize()
    result = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "compile_s": round(time.perf_counter() - begin, 1)}
    ours, theirs = [], []
    for _ in range(s.rounds):
        ours += our_seconds(s, folder)
        theirs += their_seconds(trainer)
    tokens = s.batch * s.places
    a, b = statistics.median(ours), statistics.median(theirs)
    starts = [first_step(s, folder) for _ in range(s.rounds)]
    print(json.dumps({**result, "step_ms": round(1e3 * a, 2), "torch_ms": round(1e3 * b, 2), "ratio": round(b / a, 3),
                      "tokens_per_s": round(tokens / a), "first_step_s": [round(t, 3) for t in starts],
                      "save_blocks": round(save_blocks(s, folder), 5)}), flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("example", type=pathlib.Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("logits", "gradients", "curve"))
    for name, value in (("batch", 16), ("places", 1024), ("width", 768), ("heads", 12), ("vocabulary", 50304), ("window", 256)):
        parser.add_argument(f"--{name}", type=int, default=value, metavar="N")
    s = parser.parse_args()
    if s.device == "cuda" and not torch.cuda.is_available():
        print("skipped: there is no GPU here")
        return 77
    if s.device == "cpu":
        torch.set_num_threads(1)
    text, weights = np.fromfile(s.example / "train.tokens", "<u2"), draw(s, s.seed)
    with tempfile.TemporaryDirectory() as folder:
        write_safetensors(f"{folder}/weights.safetensors", weights)
        return (measure if s.times else compare)(s, folder, weights, text) != 0


if __name__ == "__main__":
    sys.exit(main())
