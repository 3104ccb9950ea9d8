#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares examples/gpt2 with the same model in PyTorch: logits, every parameter's gradient, steps from our states, the loss of every step;
and the time of each.

usage: gpt2.py TESSERA_RUN BUNDLE EXAMPLE_FOLDER [--device cpu|cuda] [--steps N] [--strict] [--only CHECK] [--curve FILE] [--times] [--batch
N] …

The sizes are those that BUNDLE was built with (sizes.py). Weights are random numbers from a seed, made here and given as a file with
Hugging Face's names and shapes. The figures of the model and the options that produce them, each with --device cuda and a BUNDLE of native
numerics:

    logits, loss, every parameter's gradient            --only logits, --only gradients
    losses of 200 steps within 0.5 % of PyTorch's       --only curve --steps 200 --strict
    the same bits again, and killed and resumed         --only kills --steps 200
    a training step, 16 x 1024 tokens                   --times --only step
    the logits of 256 tokens                            --times --only forward
    from the start to the first step done               --times --only first
    how long a save holds up a step                     --times --only save

Our bf16 and PyTorch's bf16 (autocast) are both compared with PyTorch in f32: the logits, each parameter's gradient, and the results of a
few steps from our states (at 0, 1/4, 1/2, 3/4 of the steps). Our distance may be at most 1.5 times PyTorch's own plus a small constant. The
first step's loss, and the losses of the steps from states, must be within 0.5 % of PyTorch's in bf16.

With --strict the loss of each of N steps (default 20) must be, too. Without it, the loss may also be within 1.5 times the distance of
PyTorch from itself up to that step: in f32, and in bf16 with the rows of each batch reversed, which changes only the order of sums. Prints
all these distances and the first step at which each is above 0.5 %; --curve writes the losses. A second run of these steps, and a run that
is killed and resumed repeatedly, must end with the same state, bit by bit. Exit code: 0 if everything is within its bounds, else 1.

With --times it measures instead, alternating with torch.compile (on a CPU: plain PyTorch; use small sizes): a training step, the first
step, a save, the logits of a window, and, for --limited bundles, steps whose activations are offloaded to the host's memory, compared with
PyTorch doing the same; exit code 1 if one of these failed. The reference of the first step is a new process that imports torch, starts CUDA
and creates a tensor there. Prints JSON objects, each as soon as it is known. Exits with 77 without PyTorch, and if --device cuda finds no
GPU.
"""
import argparse
import contextlib
import csv
import json
import math
import pathlib
import random
import re
import shutil
import statistics
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
from gpt2_weights import LAYERS, draw, read_safetensors, write_safetensors  # noqa: E402
from shuffle_reference import shuffle_index  # noqa: E402

RATE, WARMUP, TOTAL, FINAL, BETAS, EPS, DECAY = 2e-4, 200, 1000, 0.1, (0.9, 0.999), 1e-8, 0.1
FURTHER, REST, CURVE = 1.5, 2e-3, 0.005
KILLS = 5
ROUND_STEPS = 12
KINDS = ("bf16", "f32", "turned")  # PyTorch runs: autocast; no autocast; autocast with the rows of a batch reversed
CALLS, WARM_CALLS = 40, 5
OFFLOADED_STEPS = 5
SAVES, SAVES_MIN, APART_MIN, PILOT = 10, 3, 24, 20  # steps of the last two


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
    return F.linear(hidden(w, tokens, heads), w.get("head", w["wte.weight"]))


def loss_of(w, rows, heads):
    return F.cross_entropy(logits(w, rows[:, :-1], heads).flatten(0, 1).float(), rows[:, 1:].flatten())


def rate(step):
    p = min(max((step - WARMUP) / (TOTAL - WARMUP), 0.0), 1.0)
    return RATE * min(step / WARMUP, 1.0) * (FINAL + (1 - FINAL) * (1 + math.cos(math.pi * p)) / 2)


class Trainer:
    """state: tensors of our export at step `done`, from which to continue; else everything begins at `weights`."""

    def __init__(self, s, weights, text, kind="bf16", compiled=False, state=None, done=0):
        self.s, self.kind, self.done = s, kind, done
        self.w = {name: torch.nn.Parameter(torch.as_tensor(value).to(s.device, copy=True)) for name, value in weights.items()}
        self.loss = torch.compile(loss_of, dynamic=False) if compiled else loss_of
        self.rows = text[:len(text) // (s.positions + 1) * (s.positions + 1)].reshape(-1, s.positions + 1)
        self.optimizer = torch.optim.AdamW(self.w.values(), lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY, fused=True)
        for name, p in self.w.items() if state else ():
            m, v = (torch.from_numpy(np.array(state[f"{name}.{part}"])).to(s.device) for part in ("adam_m", "adam_v"))
            self.optimizer.state[p] = {"step": torch.tensor(float(done), device=s.device), "exp_avg": m, "exp_avg_sq": v}

    def batch(self):
        first = self.done * self.s.batch
        rows = [shuffle_index(0, len(self.rows), first + i) for i in range(self.s.batch)]
        rows = rows[::-1] if self.kind == "turned" else rows
        return torch.from_numpy(self.rows[rows].astype(np.int64)).to(self.s.device)

    def gradients(self):
        self.optimizer.zero_grad(set_to_none=True)
        rows = self.batch()
        with torch.autocast(self.s.device, torch.bfloat16, enabled=self.kind != "f32"):
            loss = self.loss(self.w, rows, self.s.heads)
        loss.backward()
        return loss

    def step(self):
        loss = self.gradients()
        self.done += 1
        for group in self.optimizer.param_groups:
            group["lr"] = rate(self.done)
        self.optimizer.step()
        return loss

    def steps(self, count):
        return [self.step().item() for _ in range(count)]


# ---- ours ----------------------------------------------------------------------------------------

def run(s, *arguments, seconds=None):
    command = [str(s.run), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for stop in (process.terminate, process.kill):  # the first signal lets it save its state
            try:
                out, error = process.communicate(timeout=seconds)
                break
            except subprocess.TimeoutExpired:
                stop()
        else:
            sys.exit(f'{" ".join(command)}: killed')
    if process.returncode:
        sys.exit(f'{" ".join(command)}: exit code {process.returncode}\n{out}{error}')
    return out


def train(s, folder, steps, *more, seconds=None):
    """Returns the events by kind."""
    metrics = pathlib.Path(folder, "metrics.jsonl")
    run(s, s.bundle, "--device", s.device, "--data", f"text={s.text}", "--params", f"{folder}/weights.safetensors",
        "--steps", steps, "--quiet", "--metrics", metrics, *more, seconds=seconds)
    return take_events(metrics)


def take_events(metrics):
    events = {}
    for line in metrics.read_text().splitlines():
        event = json.loads(line)
        events.setdefault(event["event"], []).append(event)
    metrics.unlink()
    return events


def losses_of(events):
    return [event["outputs"]["loss"] for event in events.get("step", ())]


def export(s, folder):
    """Returns every tensor of the newest state."""
    run(s, "export", f"{folder}/state", "-o", f"{folder}/state.safetensors")
    return {name: np.array(value) for name, value in read_safetensors(f"{folder}/state.safetensors", "").items()}


def distance(a, exact):
    return ((a.double() - exact.double()).norm() / exact.double().norm()).item()


def judge(ours, theirs, exact):
    """Returns the values that are too far from the exact ones, and the largest ratio of distances."""
    wrong, worst, most = [], (0.0, ""), (0.0, "")
    for name, value in exact.items():
        a, b = distance(ours[name], value), distance(theirs[name], value)
        worst, most = max(worst, (a / (b + 1e-12), name)), max(most, (a, name))
        if not a <= FURTHER * b + REST:
            wrong.append(f"{name}: {a:.2e} from the exact value, PyTorch's bf16 {b:.2e}")
    return wrong, {"compared": len(exact), "distance": round(most[0], 5), "of": most[1], "ratio": round(worst[0], 3), "ratio_of": worst[1]}


def check_gradients(s, folder, weights, text):
    loss, = losses_of(train(s, folder, 1, "--state-dir", f"{folder}/state"))
    moments = {name.removesuffix(".adam_m"): value for name, value in export(s, folder).items() if name.endswith(".adam_m")}
    shutil.rmtree(f"{folder}/state")
    if set(moments) != set(weights):
        sys.exit(f"the state has moments of {sorted(set(moments) ^ set(weights))} too many or few")
    ours, found, losses = {name: torch.from_numpy(value).to(s.device) / (1 - BETAS[0]) for name, value in moments.items()}, {}, {}
    for kind in ("f32", "bf16"):
        trainer = Trainer(s, weights, text, kind)
        losses[kind] = trainer.gradients().item()
        found[kind] = {name: p.grad for name, p in trainer.w.items()}
    wrong, figures = judge(ours, found["bf16"], found["f32"])
    if not part([loss], [losses["bf16"]])[0] <= CURVE:
        wrong.append(f"the loss is {loss}, PyTorch's {losses['bf16']}")
    return wrong, {"loss": loss, "torch_bf16": losses["bf16"], "torch_f32": losses["f32"], **figures}


def check_states(s, folder, weights, text):
    """PyTorch also takes the next few steps from our states. Compares the losses; each parameter's gradients of these steps, through its
    first moment; and the movement of all parameters together. (The movement of a single parameter means little: a step has the sign
    of a gradient that may be almost zero.)"""
    few = max(s.steps // 20, 1)
    wrong, rows, state = [], [], None
    for start in sorted({s.steps * i // 4 for i in range(4)}):
        if start:
            train(s, folder, start, "--state-dir", f"{folder}/state")
            state = export(s, folder)
        begin = {name: torch.from_numpy(state[name] if state else value).to(s.device) for name, value in weights.items()}
        before = {name: BETAS[0] ** few * torch.from_numpy(state[f"{name}.adam_m"]).to(s.device) if state else 0 for name in begin}
        losses = {"ours": losses_of(train(s, folder, start + few, "--state-dir", f"{folder}/state"))[-few:]}
        end = {name: torch.from_numpy(value).to(s.device) for name, value in export(s, folder).items() if value.dtype == np.float32}
        moments, moved = {"ours": {name: end[f"{name}.adam_m"] - m for name, m in before.items()}}, {"ours": join(end, begin)}
        for kind in ("bf16", "f32"):
            trainer = Trainer(s, begin, text, kind, state=state, done=start)
            losses[kind] = trainer.steps(few)
            moments[kind] = {name: trainer.optimizer.state[p]["exp_avg"] - before[name] for name, p in trainer.w.items()}
            moved[kind] = join({name: p.detach() for name, p in trainer.w.items()}, begin)
        far, figures = judge(*moments.values())
        apart = {kind: max(part(losses[kind], losses["bf16"])) for kind in ("ours", "f32")}
        moved = {kind: distance(moved[kind], moved["f32"]) for kind in ("ours", "bf16")}
        wrong += [f"from step {start}: {why}" for why in far]
        if not apart["ours"] <= CURVE:
            wrong.append(f"from step {start}: losses {losses['ours']}, PyTorch's {losses['bf16']}")
        if not moved["ours"] <= FURTHER * moved["bf16"] + REST:
            wrong.append(f"from step {start}: parameters move {moved['ours']:.2e} from the exact way, PyTorch's bf16 {moved['bf16']:.2e}")
        rows.append({"from": start, "apart": round(apart["ours"], 6), "f32_apart": round(apart["f32"], 6), "moved": round(moved["ours"], 5),
                     "torch_moved": round(moved["bf16"], 5), **figures})
    shutil.rmtree(f"{folder}/state")
    return wrong, {"steps": few, "states": rows}


def join(tensors, others):
    """Returns all differences, concatenated."""
    return torch.cat([(tensors[name] - value).flatten() for name, value in others.items()])


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
    return judge({"logits": torch.from_numpy(np.load(f"{folder}/logits.npy")).to(s.device)}, found[True], found[False])


def part(losses, others):
    """Returns the distance of each loss from the other, relative to the other."""
    return [abs(a - b) / b for a, b in zip(losses, others)]


def check_curve(s, folder, weights, text):
    losses = {"ours": losses_of(train(s, folder, s.steps))}
    for kind in KINDS:
        losses[kind] = Trainer(s, weights, text, kind).steps(s.steps)
    if s.curve:
        with open(s.curve, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("step", *losses), *zip(range(1, s.steps + 1), *losses.values())])
    apart = {kind: part(values, losses["bf16"]) for kind, values in losses.items() if kind != "bf16"}
    figures, wrong, own = {"steps": len(losses["ours"])}, [], 0.0
    for kind, parts in apart.items():
        worst = max(range(len(parts)), key=lambda i: parts[i])
        beyond = next((step for step, value in enumerate(parts, 1) if value > CURVE), None)
        figures[kind] = {"apart": round(parts[worst], 6), "at_step": worst + 1, "first_beyond": beyond}
    figures["last"] = {kind: round(values[-1], 6) for kind, values in losses.items()}
    if len(losses["ours"]) != s.steps:
        wrong.append(f"{len(losses['ours'])} steps are told; expected {s.steps}")
    for step, (value, *controls) in enumerate(zip(*apart.values()), 1):
        own = max(own, *controls)
        if not value <= (CURVE if s.strict else max(CURVE, FURTHER * own)):
            wrong.append(f"the loss of step {step} is {losses['ours'][step - 1]}, PyTorch's {losses['bf16'][step - 1]}: {value:.4f} apart, "
                         f"PyTorch from itself {own:.4f}")
    return wrong, figures


def last_state(s, steps, *more):
    """Returns the state that a run of that number of steps prints."""
    out = run(s, s.bundle, "--device", s.device, "--data", f"text={s.text}", "--steps", steps, "--quiet", *more)
    found = re.search(rf"^state ([0-9a-f]{{64}}) step {steps}\b", out, re.M)
    if not found:
        sys.exit(f"a run of {steps} steps says {out!r}; expected its state")
    return found[1]


def check_kills(s, folder, _weights, _text):
    """Checks that a run that is killed at random moments and resumed ends with the state of an undisturbed run, and so does a second
    undisturbed run."""
    def arguments(name):
        return ["--params", f"{folder}/weights.safetensors", "--save-every", max(s.steps // 20, 1), "--state-dir", f"{folder}/{name}"]
    moments, kills, begin = random.Random(s.seed), 0, time.monotonic()
    states = {"whole": last_state(s, s.steps, *arguments("whole"))}
    took = time.monotonic() - begin
    states["again"] = last_state(s, s.steps, *arguments("again"))
    while kills < KILLS:
        command = [s.run, s.bundle, "--device", s.device, "--data", f"text={s.text}", "--steps", s.steps, *arguments("killed")]
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(took * moments.uniform(0.15, 0.4))
                break  # done before it could be killed
            except subprocess.TimeoutExpired:
                process.kill()
        kills += 1
    states["killed"] = last_state(s, s.steps, *arguments("killed"))
    for name in states:
        shutil.rmtree(f"{folder}/{name}")
    wrong = [f"the state of the run '{name}' is {state}; left alone it is {states['whole']}" for name, state in states.items() if state != states["whole"]]
    if not kills:
        wrong.append("no run was killed")
    return wrong, {"steps": s.steps, "killed": kills, "state": states["whole"]}


def compare(s, folder, weights, text):
    failures = 0
    checks = (("logits", check_logits), ("gradients", check_gradients), ("states", check_states), ("curve", check_curve), ("kills", check_kills))
    for name, check in checks:
        if s.only not in (None, name):
            continue
        wrong, figures = check(s, folder, weights, text)
        print(json.dumps({"check": name, **figures, "wrong": len(wrong)}), flush=True)
        for why in wrong[:10]:
            print(f"FAILED: {why}")
        failures += len(wrong)
    return failures


# ---- times ---------------------------------------------------------------------------------------

def wait(s):
    if s.device == "cuda":
        torch.cuda.synchronize()


def step_seconds(s, folder, steps, *more, seconds=None):
    """Returns the times of the steps except the first, and of the saves; the run is asked to stop after that number of seconds."""
    events = train(s, folder, steps, *more, seconds=seconds)
    ends = [event["seconds"] for event in events["step"]]
    return {step: after - before for step, (before, after) in enumerate(zip(ends, ends[1:]), 2)}, events.get("save", [])


def their_seconds(s, trainer):
    seconds = []
    for _ in range(ROUND_STEPS - 2):
        start = time.perf_counter()
        trainer.step()
        wait(s)
        seconds.append(time.perf_counter() - start)
    return seconds


def measure_step(s, folder, weights, text):
    trainer = Trainer(s, weights, text, compiled=s.device == "cuda")
    begin, ours, theirs = time.perf_counter(), [], []
    trainer.steps(3)
    wait(s)
    compiled = time.perf_counter() - begin
    for _ in range(s.rounds):
        took, _ = step_seconds(s, folder, ROUND_STEPS)
        ours += [seconds for step, seconds in took.items() if step > 2]
        theirs += their_seconds(s, trainer)
    a, b = statistics.median(ours), statistics.median(theirs)
    return {"step_ms": round(1e3 * a, 2), "torch_ms": round(1e3 * b, 2), "ratio": round(b / a, 3), "tokens_per_s": round(s.batch * s.positions / a),
            "compile_s": round(compiled, 1)}


def their_offloaded_step(s, weights, text):
    """Measures PyTorch's plain step, and the step with saved activations offloaded to page-locked host memory: seconds, peak bytes of
    the GPU."""
    found = {}
    for name, keep in (("eager", contextlib.nullcontext), ("save_on_cpu", lambda: torch.autograd.graph.save_on_cpu(pin_memory=True))):
        trainer, seconds = Trainer(s, weights, text), []
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(OFFLOADED_STEPS):
            start = time.perf_counter()
            with keep():
                trainer.step()
            wait(s)
            seconds.append(time.perf_counter() - start)
        found[f"torch_{name}"] = {"step_ms": round(1e3 * statistics.median(seconds[1:]), 2), "gpu_mb": torch.cuda.max_memory_allocated() // 10**6}
        del trainer
    return found


def measure_offload(s, folder, weights, text):
    """Compares bundles of the same model with smaller workspaces, in turns: a step, memory of the GPU and of the host; the losses must
    be equal."""
    bundles, seconds, losses, found = [s.bundle, *s.limited], {}, {}, {}
    for _ in range(s.rounds):
        for path in bundles:
            own = argparse.Namespace(**{**vars(s), "bundle": path})
            events = train(own, folder, ROUND_STEPS)
            ends = [event["seconds"] for event in events["step"]]
            seconds.setdefault(path, []).extend(after - before for before, after in zip(ends[1:], ends[2:]))
            losses.setdefault(path, []).append(losses_of(events))
    for path in bundles:
        planned = json.loads(run(s, path, "--device", s.device, "--check", "--json"))["memory"]
        found[path.stem] = {"step_ms": round(1e3 * statistics.median(seconds[path]), 2), "gpu_mb": planned["deviceBytes"] // 10**6,
                            "host_mb": planned["awayBytes"] // 10**6}
    first = losses[s.bundle][0]
    if any(losses_of_run != first for path in bundles for losses_of_run in losses[path]):
        raise RuntimeError(f"losses differ: {losses}")
    return {**found, **(their_offloaded_step(s, weights, text) if s.device == "cuda" else {})}


def until_line(command, stream, begin):
    """Returns the seconds from the start of the process until it prints a line with this beginning."""
    start, at = time.perf_counter(), None
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: subprocess.PIPE}
    with subprocess.Popen(list(map(str, command)), text=True, **streams) as process:
        for line in getattr(process, stream):
            if line.startswith(begin) and at is None:
                at = time.perf_counter() - start
    if at is None:
        raise RuntimeError(f"{command[0]}: no line begins with '{begin}'; exit code {process.returncode}")
    return at


def measure_first(s, _folder, _weights, _text):
    """Measures the time until a training has done its first step, alternating with the time until PyTorch's first tensor, its earliest
    possible start."""
    ours = [s.run, s.bundle, "--device", s.device, "--data", f"text={s.text}", "--steps", "2"]
    text = f"import torch; torch.ones(1, device='{s.device}').item(); print('ready', flush=True)"
    seconds = [(until_line(ours, "stderr", "step 1/"), until_line([sys.executable, "-c", text], "stdout", "ready")) for _ in range(s.rounds)]
    first, start = (statistics.median(column) for column in zip(*seconds))
    return {"first_step_s": [round(a, 3) for a, _ in seconds], "torch_start_s": [round(b, 3) for _, b in seconds], "first_step_of_torch_start": round(start / first, 3)}


def middle_of(took, first, last):
    """Returns the steps of an interval between two saves that no save disturbs: its second half, without the last one."""
    return [took[step] for step in range((first + last) // 2 + 1, last) if step in took]


def plan_saves(s, folder):
    """Returns the number of steps between saves, so that a save, including the deletion of the replaced generation, is over before half
    of them are done; and the number of saves that fit in the time."""
    began = time.perf_counter()
    took, saves = step_seconds(s, folder, PILOT, "--state-dir", f"{folder}/pilot", "--save-every", PILOT // 2)
    shutil.rmtree(f"{folder}/pilot")
    between = sum(took[step] for step in range(PILOT // 2 + 1, PILOT + 1))
    waited = saves[1]["stall_seconds"]  # for the previous one
    plain, over = min(took.values()), max(saves[0]["persist_seconds"], between if waited > 1e-3 else 0) + waited
    apart = max(APART_MIN, 2 * math.ceil(1.2 * over / plain))
    spent = time.perf_counter() - began  # at most half of it is the time before the first step
    return apart, min(SAVES, int((s.limit - 1.5 * spent) / (apart * plain)) - 1)


def measure_save(s, folder, _weights, _text):
    """Returns the delay of the step after a save, compared with the steps in the middle of the intervals on both sides, as a fraction of
    a step, and its median. (Steps further away are unsuitable because the speed of a GPU drifts by more, and adjacent steps because
    they run concurrently with the writing.)"""
    apart, count = plan_saves(s, folder)
    if count < SAVES_MIN:
        sys.exit(f"{SAVES_MIN} saves {apart} steps apart take longer than --limit {s.limit:g} s")
    took, saves = step_seconds(s, folder, apart * (count + 1), "--state-dir", f"{folder}/saves", "--save-every", apart, seconds=s.limit)
    shutil.rmtree(f"{folder}/saves")
    rows, last = [], max(took)
    for save in saves:
        step = save["step"]
        around = middle_of(took, step - apart, step) + middle_of(took, step, step + apart)
        if step % apart or step + apart > last:  # the run's last state: no step follows it
            continue
        middle, beside = statistics.median(around), statistics.median(took[step + d] for d in range(2, apart // 4))
        rows.append({"step": step, "longer_ms": 1e3 * (took[step + 1] - middle), "middle_ms": 1e3 * middle, "beside_ms": 1e3 * (beside - middle),
                     "stall_ms": 1e3 * save["stall_seconds"], "persist_s": save["persist_seconds"]})
        print(json.dumps({"save": len(rows), **{name: round(value, 3) for name, value in rows[-1].items()}}), flush=True)
    if len(rows) < SAVES_MIN:
        sys.exit(f"{len(rows)} of {count} saves within --limit {s.limit:g} s; at least {SAVES_MIN} are compared")
    median = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    return {"saves": len(rows), "save_every": apart, "save_blocks": round(median["longer_ms"] / median["middle_ms"], 5),
            "save_blocks_ms": round(median["longer_ms"], 3), "step_ms": round(median["middle_ms"], 3), "beside_ms": round(median["beside_ms"], 3),
            "stall_ms": round(median["stall_ms"], 3), "persist_s": round(median["persist_s"], 3)}


def our_calls(s, folder):
    """Returns the seconds of a call, and of its kernels alone."""
    metrics, roofline = pathlib.Path(folder, "calls.jsonl"), pathlib.Path(folder, "calls.csv")
    command = (s.bundle, "--device", s.device, "--entry", "predict", "--params", f"{folder}/weights.safetensors", "--input",
               f"tokens={folder}/window.npy", "--quiet", "--repeat", CALLS)
    run(s, *command, "--metrics", metrics)
    run(s, *command, "--roofline", roofline)
    seconds = [event["seconds"] for event in take_events(metrics)["call"]]
    with open(roofline, encoding="utf-8", newline="") as file:
        kernels = [row for row in csv.DictReader(file) if not row["kernel"].startswith("(")]
    return seconds[WARM_CALLS:], sum(float(row["seconds"]) for row in kernels) / CALLS


class Reader:
    """Measures PyTorch's logits of a window: weights of products are cast once, and the logits are copied to host memory as f32, like
    ours. `mode` is torch.compile's; None: not compiled."""

    def __init__(self, s, weights, window, mode):
        self.s, self.tokens = s, torch.from_numpy(window)[None]
        w = {name: torch.from_numpy(value).to(s.device) for name, value in weights.items()}
        self.w = {name: value.bfloat16() if name.startswith("h.") and ".ln_" not in name else value for name, value in w.items()}
        self.w["head"] = w["wte.weight"].bfloat16()
        self.read = torch.compile(self.compute, dynamic=False, mode=mode) if mode else self.compute
        self.host = torch.empty((len(window), s.vocabulary), pin_memory=s.device == "cuda")

    def compute(self, tokens):
        with torch.no_grad(), torch.autocast(self.s.device, torch.bfloat16):
            return logits(self.w, tokens, self.s.heads)[0].float()

    def call(self):
        start = time.perf_counter()
        self.host.copy_(self.read(self.tokens.to(self.s.device)), non_blocking=True)
        wait(self.s)
        return time.perf_counter() - start

    def kernels(self):
        """Measures many calls in sequence."""
        tokens = self.tokens.to(self.s.device)
        wait(self.s)
        start = time.perf_counter()
        for _ in range(CALLS):
            self.read(tokens)
        wait(self.s)
        return (time.perf_counter() - start) / CALLS


def measure_forward(s, folder, weights, text):
    """Compares ours with plain torch.compile, and with CUDA graphs ("graphs"), which removes the cost of launches."""
    window = text[:s.window].astype(np.int64)
    np.save(f"{folder}/window.npy", window)
    modes = {"torch": "default", "graphs": "reduce-overhead"} if s.device == "cuda" else {"torch": None}
    readers = {name: Reader(s, weights, window, mode) for name, mode in modes.items()}
    calls, kernels = {name: [] for name in ("ours", *modes)}, {name: [] for name in ("ours", *modes)}
    for reader in readers.values():
        for _ in range(WARM_CALLS):
            reader.call()
    for _ in range(s.rounds):
        seconds, alone = our_calls(s, folder)
        calls["ours"] += seconds
        kernels["ours"].append(alone)
        for name, reader in readers.items():
            calls[name] += [reader.call() for _ in range(CALLS)]
            kernels[name].append(reader.kernels())
    figures = {"tokens": s.window}
    for what, times in (("call", calls), ("kernels", kernels)):
        medians = {name: statistics.median(values) for name, values in times.items()}
        for name, value in medians.items():
            figures[f"{what}_{name}_us"] = round(1e6 * value, 1)
            if name != "ours":
                figures[f"{what}_of_{name}"] = round(value / medians["ours"], 3)
    return figures


def measure(s, folder, weights, text):
    failures = 0
    print(json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name() if s.device == "cuda" else "cpu"}), flush=True)
    for name, of in (("step", measure_step), ("first", measure_first), ("save", measure_save), ("forward", measure_forward),
                     ("offload", measure_offload)):
        if s.only not in (None, name) or name == "offload" and not s.limited:
            continue
        try:
            print(json.dumps({"times": name, **of(s, folder, weights, text)}), flush=True)
        except (Exception, SystemExit) as error:  # earlier and later measurements are kept
            print(f"FAILED: {name}: {error!r}", flush=True)
            failures += 1
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("example", type=pathlib.Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strict", action="store_true", help="no loss may be more than 0.5 %% from PyTorch's, however far that is from itself")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=45, metavar="SECONDS", help="of the saves that --times measures (default 45)")
    parser.add_argument("--only", choices=("logits", "gradients", "states", "curve", "kills", "step", "first", "save", "forward", "offload"))
    parser.add_argument("--limited", type=pathlib.Path, nargs="*", default=[], metavar="BUNDLE", help="of the same model, with less workspace")
    parser.add_argument("--text", type=pathlib.Path, metavar="FILE", help="tokens to train on, 16 bits each (default: the example's bible.tokens)")
    parser.add_argument("--curve", type=pathlib.Path, metavar="FILE", help="the losses of every step, ours and PyTorch's, as CSV")
    for name, value in (("batch", 16), ("positions", 1024), ("width", 768), ("heads", 12), ("vocabulary", 50304), ("window", 256)):
        parser.add_argument(f"--{name}", type=int, default=value, metavar="N")
    s = parser.parse_args()
    if s.device == "cuda" and not torch.cuda.is_available():
        print("skipped: there is no GPU here")
        return 77
    if s.device == "cpu":
        torch.set_num_threads(1)
    s.text = s.text or s.example / "bible.tokens"
    text, weights = np.fromfile(s.text, "<u2"), draw(s, s.seed)
    with tempfile.TemporaryDirectory() as folder:
        write_safetensors(f"{folder}/weights.safetensors", weights)
        return (measure if s.times else compare)(s, folder, weights, text) != 0


if __name__ == "__main__":
    sys.exit(main())
