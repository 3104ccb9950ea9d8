# SPDX-License-Identifier: Apache-2.0
"""Groups of parameters: frozen ones, ones without weight decay, ones with a learning rate of their own.

usage: param_groups.py TESSERA_AOT TESSERA_RUN

A network of two layers is trained with each optimizer, with clipping and with a schedule. Its parameters agree with NumPy in float64, and with
torch.optim's groups if PyTorch is there; frozen ones keep their bits, and have no optimizer state. The bits of a program without groups are
those of one whose groups say what is said anyway. What is refused names the parameter's attribute.

Then the numbers of each optimizer are changed in the middle of a run (tessera-run --set), as a user of torch.optim changes param_groups.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

AOT, RUN = sys.argv[1:3]
STEPS, ROWS = 25, 64
BATCH = ROWS  # every batch has all rows, so their order only changes the last bits of sums
WIDTHS = {"w1": (8, 12), "b1": (12,), "w2": (12, 3), "b2": (3,)}
GROUPS = {"w1": {"frozen": True}, "b1": {"no_decay": True}, "w2": {"lr_factor": 0.25}, "b2": {"no_decay": True, "lr_factor": 4.0}}
OPTIMIZERS = {
    "adamw": ("#tessera.adamw<lr = 1.0e-2, beta1 = 9.0e-1, beta2 = 9.9e-1, eps = 1.0e-8, weight_decay = 2.0e-1>", {}),
    "clipped": ("#tessera.adamw<lr = 1.0e-2, beta1 = 9.0e-1, beta2 = 9.9e-1, eps = 1.0e-8, weight_decay = 2.0e-1>", {"clip_norm": 0.1}),
    "warming": ("#tessera.adamw<lr = 1.0e-2, beta1 = 9.0e-1, beta2 = 9.9e-1, eps = 1.0e-8, weight_decay = 2.0e-1>", {"warmup": 10}),
    "sgd": ("#tessera.sgd<lr = 5.0e-2, momentum = 9.0e-1, weight_decay = 1.0e-1>", {}),
    "nesterov": ("#tessera.nesterov<lr = 5.0e-2, momentum = 9.0e-1, weight_decay = 1.0e-1>", {}),
}
# From step CHANGED + 1 on.
CHANGED = 10
CHANGES = {
    "adamw": {"lr": 3e-3, "weight_decay": 0.5, "beta1": 0.8, "beta2": 0.95, "eps": 1e-3},
    "clipped": {"lr": 2e-2, "clip_norm": 0.03},
    "warming": {"lr": 4e-2},
    "sgd": {"lr": 1e-2, "momentum": 0.5, "weight_decay": 0.3},
    "nesterov": {"lr": 1e-2, "momentum": 0.7},
}
checks = 0


def need(condition, text):
    global checks
    checks += 1
    assert condition, text


def attributes(group):
    words = [name if value is True else f"{name} = {value:.17e} : f64" for name, value in group.items()]
    return "{" + ", ".join(words) + "} " if words else ""


def program(optimizer, options, groups, read=("train", "predict")):
    """Mean squared error of a network with tanh; `read`: the entries whose reads have the attributes."""
    params = {name: "\n".join(
        f'    %{p} = tessera.param "{p}" {attributes(groups.get(p, {}) if name in read else {})}init = #tessera.uniform<-0.5, 0.5> '
        f': tensor<{"x".join(map(str, shape))}xf32>' for p, shape in WIDTHS.items()) for name in ("train", "predict")}
    extra = f', clip_norm = {options["clip_norm"]:e} : f64' if "clip_norm" in options else ""
    if "warmup" in options:
        extra += f', lr_schedule = {{kind = "constant", warmup_steps = {options["warmup"]}}}'
    forward = f"""
    %p1 = tessera.matmul %x, %w1 : tensor<{BATCH}x8xf32>, tensor<8x12xf32> -> tensor<{BATCH}x12xf32>
    %a1 = tessera.add %p1, %b1 : tensor<{BATCH}x12xf32>, tensor<12xf32> -> tensor<{BATCH}x12xf32>
    %h1 = tessera.tanh %a1 : tensor<{BATCH}x12xf32>
    %p2 = tessera.matmul %h1, %w2 : tensor<{BATCH}x12xf32>, tensor<12x3xf32> -> tensor<{BATCH}x3xf32>
    %y = tessera.add %p2, %b2 : tensor<{BATCH}x3xf32>, tensor<3xf32> -> tensor<{BATCH}x3xf32>"""
    return f"""module @groups {{
  func.func @train(%x: tensor<{BATCH}x8xf32> {{tessera.data = "x"}}, %t: tensor<{BATCH}x3xf32> {{tessera.data = "t"}})
      -> (tensor<f32> {{tessera.name = "loss"}}) attributes {{tessera.entry = "train"}} {{
{params["train"]}{forward}
    %d = tessera.sub %y, %t : tensor<{BATCH}x3xf32>, tensor<{BATCH}x3xf32> -> tensor<{BATCH}x3xf32>
    %s = tessera.mul %d, %d : tensor<{BATCH}x3xf32>, tensor<{BATCH}x3xf32> -> tensor<{BATCH}x3xf32>
    %loss = tessera.mean %s {{axes = [0, 1]}} : tensor<{BATCH}x3xf32> -> tensor<f32>
    tessera.minimize %loss {{optimizer = {optimizer}{extra}}} : tensor<f32>
    return %loss : tensor<f32>
  }}
  func.func @predict(%x: tensor<{BATCH}x8xf32> {{tessera.name = "x"}}) -> (tensor<{BATCH}x3xf32> {{tessera.name = "y"}})
      attributes {{tessera.entry = "infer", tessera.rows_independent}} {{
{params["predict"]}{forward}
    return %y : tensor<{BATCH}x3xf32>
  }}
}}
"""


def run(*command, code=0):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    need(done.returncode == code, f"{command}: exit code {done.returncode}; expected {code}\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    return {name: np.frombuffer(data[8 + size + row["data_offsets"][0]:8 + size + row["data_offsets"][1]], "<f4").reshape(row["shape"]).copy()
            for name, row in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


def gradients(p, x, t):
    h = np.tanh(x @ p["w1"] + p["b1"])
    d = 2 * (h @ p["w2"] + p["b2"] - t) / t.size
    e = (d @ p["w2"].T) * (1 - h * h)
    return {"w1": x.T @ e, "b1": e.sum(0), "w2": h.T @ d, "b2": d.sum(0)}


def reference(name, optimizer, options, start, batches, changes=None):
    """NumPy in float64: each parameter has the rate and the decay of its group. `changes`: numbers from step CHANGED + 1 on."""
    numbers = {key: float(value) for key, value in (part.split(" = ") for part in optimizer.split("<")[1][:-1].split(", "))}
    p = {key: value.astype(np.float64) for key, value in start.items()}
    m = {key: np.zeros_like(value) for key, value in p.items()}
    v = {key: np.zeros_like(value) for key, value in p.items()}
    numbers.update({key: value for key, value in options.items() if key == "clip_norm"})
    for step, (x, t) in enumerate(batches, 1):
        numbers.update(changes if changes and step == CHANGED + 1 else {})
        g = {key: value for key, value in gradients(p, x, t).items() if not GROUPS[key].get("frozen")}
        norm = math.sqrt(sum((value ** 2).sum() for value in g.values()))
        scale = min(numbers["clip_norm"] / (norm + 1e-6), 1) if "clip_norm" in numbers else 1
        warm = min(step / options["warmup"], 1) if "warmup" in options else 1
        for key, value in g.items():
            lr = numbers["lr"] * GROUPS[key].get("lr_factor", 1) * warm
            decay = 0 if GROUPS[key].get("no_decay") else numbers["weight_decay"]
            value = value * scale
            if "beta1" in numbers:
                p[key] = p[key] * (1 - lr * decay)
                m[key] += (value - m[key]) * (1 - numbers["beta1"])
                v[key] = v[key] * numbers["beta2"] + value ** 2 * (1 - numbers["beta2"])
                p[key] -= lr / (1 - numbers["beta1"] ** step) * m[key] / (np.sqrt(v[key] / (1 - numbers["beta2"] ** step)) + numbers["eps"])
            else:
                value = value + decay * p[key]
                m[key] = numbers["momentum"] * m[key] + value
                p[key] -= lr * (value + numbers["momentum"] * m[key] if name == "nesterov" else m[key])
    return p


def by_torch(name, optimizer, options, start, batches, changes=None):
    """The same by torch.optim, or None without PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    numbers = {key: float(value) for key, value in (part.split(" = ") for part in optimizer.split("<")[1][:-1].split(", "))}
    p = {key: torch.tensor(value.astype(np.float64), requires_grad=not GROUPS[key].get("frozen")) for key, value in start.items()}
    groups = [{"params": [p[key]], "lr": numbers["lr"] * group.get("lr_factor", 1),
               "weight_decay": 0 if group.get("no_decay") else numbers["weight_decay"]} for key, group in GROUPS.items() if not group.get("frozen")]
    if "beta1" in numbers:
        trainer = torch.optim.AdamW(groups, betas=(numbers["beta1"], numbers["beta2"]), eps=numbers["eps"])
    else:
        trainer = torch.optim.SGD(groups, momentum=numbers["momentum"], nesterov=name == "nesterov")
    numbers.update({key: value for key, value in options.items() if key == "clip_norm"})
    kept = [group for group in GROUPS.values() if not group.get("frozen")]
    for step, (x, t) in enumerate(batches, 1):
        numbers.update(changes if changes and step == CHANGED + 1 else {})
        for group, ours in zip(trainer.param_groups, kept):
            group["lr"] = numbers["lr"] * ours.get("lr_factor", 1) * (min(step / options["warmup"], 1) if "warmup" in options else 1)
            group["weight_decay"] = 0 if ours.get("no_decay") else numbers["weight_decay"]
            group.update({"betas": (numbers["beta1"], numbers["beta2"]), "eps": numbers["eps"]} if "beta1" in numbers
                         else {"momentum": numbers["momentum"]})
        trainer.zero_grad()
        y = torch.tanh(torch.tensor(x) @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
        ((y - torch.tensor(t)) ** 2).mean().backward()
        if "clip_norm" in numbers:
            torch.nn.utils.clip_grad_norm_([value for value in p.values() if value.requires_grad], numbers["clip_norm"])
        trainer.step()
    return {key: value.detach().numpy() for key, value in p.items()}


class Bench:
    def __init__(self, folder):
        self.folder = folder
        rng = np.random.default_rng(5)
        self.x = rng.standard_normal((ROWS, 8)).astype(np.float32)
        self.t = rng.standard_normal((ROWS, 3)).astype(np.float32)
        np.save(folder / "x.npy", self.x)
        np.save(folder / "t.npy", self.t)

    def build(self, text, code=0):
        (self.folder / "m.mlir").write_text(text, "utf-8")
        return run(AOT, "build", self.folder / "m.mlir", "-o", self.folder / "m.tsb", "--target=cpu:x86-64-v3", code=code)

    def train(self, steps, *more):
        return run(RUN, self.folder / "m.tsb", "--quiet", "--data", f"x={self.folder}/x.npy", "--data", f"t={self.folder}/t.npy",
                   "--steps", steps, "--export-params", self.folder / "p.safetensors", *more)

    def batches(self):
        return [(self.x.astype(np.float64), self.t.astype(np.float64))] * STEPS


def check_training(bench, has_torch):
    for name, (optimizer, options) in OPTIMIZERS.items():
        bench.build(program(optimizer, options, GROUPS))
        run(RUN, bench.folder / "m.tsb", "--quiet", "--export-params", bench.folder / "start.safetensors")
        start = read_safetensors(bench.folder / "start.safetensors")
        bench.train(STEPS)
        got = read_safetensors(bench.folder / "p.safetensors")
        need(np.array_equal(got["w1"].view(np.uint32), start["w1"].view(np.uint32)), f"{name}: the frozen parameter moved")
        expected = [reference(name, optimizer, options, start, bench.batches())]
        torch_values = by_torch(name, optimizer, options, start, bench.batches())
        if torch_values:
            has_torch.append(name)
            expected.append(torch_values)
        for key in WIDTHS:
            for want in expected:
                error = np.abs(got[key] - want[key]).max()
                need(error < 2e-5, f"{name}: '{key}' is off by {error}")
        tensors = json.loads(run(AOT, "inspect", "--json", bench.folder / "m.tsb"))["tensors"]
        names = {tensor["name"] for tensor in tensors}
        need(not any(key.startswith("w1.") for key in names), f"{name}: the frozen parameter has optimizer state: {names}")
        need(any(key.startswith("w2.") for key in names), f"{name}: a trained parameter has none")
        told = {tensor["name"]: tensor.get("group") for tensor in tensors}
        need(told["w1"] == {"frozen": True, "decay": False}, told["w1"])
        need(told["b1"] == {"frozen": False, "decay": False}, told["b1"])
        need(told["w2"] == {"frozen": False, "decay": True, "lrFactor": 0.25}, told["w2"])
        need(told["b2"] == {"frozen": False, "decay": False, "lrFactor": 4.0}, told["b2"])
    text = run(AOT, "inspect", "--tensors", bench.folder / "m.tsb")
    for part in ("; frozen", "; no decay; lr times 4", "; lr times 0.25"):
        need(part in text, f"inspect does not say '{part}'")


def check_changed(bench, has_torch):
    """Numbers that change in the middle of a run, in every group; a bundle that is built with them continues with the same bits."""
    for name, (optimizer, options) in OPTIMIZERS.items():
        changes, state = CHANGES[name], bench.folder / f"state-{name}"
        values = [word for key, value in changes.items() for word in ("--set", f"{key}={value!r}")]
        bench.build(program(optimizer, options, GROUPS))
        run(RUN, bench.folder / "m.tsb", "--quiet", "--export-params", bench.folder / "start.safetensors")
        start = read_safetensors(bench.folder / "start.safetensors")
        unchanged = bench.train(STEPS)
        bench.train(CHANGED, "--state-dir", state)
        subprocess.run(["cp", "-a", state, f"{state}-again"], check=True)
        said = bench.train(STEPS, "--state-dir", state, *values)
        got = read_safetensors(bench.folder / "p.safetensors")
        need(said.split("state ")[1].split()[0] != unchanged.split("state ")[1].split()[0], f"{name}: --set changes nothing")
        expected = [reference(name, optimizer, options, start, bench.batches(), changes)]
        torch_values = by_torch(name, optimizer, options, start, bench.batches(), changes)
        if torch_values:
            has_torch.append(name)
            expected.append(torch_values)
        for key in WIDTHS:
            for want in expected:
                error = np.abs(got[key] - want[key]).max()
                need(error < 2e-5, f"{name}, changed: '{key}' is off by {error}")
        numbers = dict(part.split(" = ") for part in optimizer.split("<")[1][:-1].split(", "))
        rebuilt = optimizer.split("<")[0] + "<" + ", ".join(f"{key} = {changes.get(key, float(value)):.17e}" for key, value in numbers.items()) + ">"
        bench.build(program(rebuilt, dict(options, **{key: value for key, value in changes.items() if key == "clip_norm"}), GROUPS))
        again = bench.train(STEPS, "--state-dir", f"{state}-again")
        need(again.split("state ")[1].split()[0] == said.split("state ")[1].split()[0], f"{name}: a bundle built with these numbers has other bits")


def check_same_bits(bench):
    """Groups that say what holds anyway change no bit, and no groups leave the config as it was."""
    optimizer, options = OPTIMIZERS["adamw"]
    bench.build(program(optimizer, options, {}))
    plain = bench.train(STEPS)
    need("parameter-groups" not in subprocess.run(["tar", "xOf", str(bench.folder / "m.tsb")], stdout=subprocess.PIPE, check=True).stdout.decode("latin-1"),
         "a program without groups has the feature")
    bench.build(program(optimizer, options, {"w1": {"lr_factor": 1.0}}))
    same = bench.train(STEPS)
    need(plain == same, "a factor of 1 changes bits")


def check_refused(bench):
    optimizer, options = OPTIMIZERS["adamw"]
    cases = [
        ({"w1": {"lr_factor": 0.0}}, "lr_factor is 0, needs lr_factor > 0"),
        ({"w1": {"lr_factor": -1.0}}, "lr_factor is -1, needs lr_factor > 0"),
        ({"w1": {"frozen": True, "lr_factor": 2.0}}, "is frozen, and has lr_factor"),
        ({"w1": {"frozen": True, "no_decay": True}}, "is frozen, and has no_decay"),
        ({"w1": {"freeze": True}}, "freeze"),
        ({key: {"frozen": True} for key in WIDTHS}, "the loss depends on no parameter that is not frozen"),
    ]
    for groups, text in cases:
        said = bench.build(program(optimizer, options, groups), code=9)
        need(text in said, f"no '{text}' in {said}")
    source = program(optimizer, options, {"w1": {"lr_factor": 2.0}}).replace(f"lr_factor = {2.0:.17e} : f64", 'lr_factor = "fast"')
    need("lr_factor is not a float" in bench.build(source, code=9), "a factor that is text is accepted")
    source = program(optimizer, options, {"w1": {"frozen": True}}).replace("{frozen}", "{frozen = 3 : i64}")
    need("frozen" in bench.build(source, code=9), "frozen = 3 is accepted")
    said = bench.build(program(optimizer, options, {"w1": {"frozen": True}}, ("train",)), code=9)
    need("'w1' is declared in two ways" in said, said)


def main():
    has_torch = []
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(pathlib.Path(name))
        check_training(bench, has_torch)
        check_changed(bench, has_torch)
        check_same_bits(bench)
        check_refused(bench)
    print(f"{checks} checks, 0 failed, {0 if has_torch else 1} skipped{'' if has_torch else ': PyTorch is not installed'}")


main()
