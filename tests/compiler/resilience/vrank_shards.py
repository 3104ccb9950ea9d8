#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: vrank_shards.py TESSERA_AOT TESSERA_RUN

Sharded optimizer state across ranks: at every stage, with any number of ranks and threads, the hash of the trained state and the
norms of clipped gradients are those of the unsharded program. There are tensors smaller than the number of positions, with prime
sizes, read twice, and in half precision with f32 masters. A run saved with one number of ranks continues with another, and at
another stage. Numbers of ranks that do not divide the number of virtual ranks work; larger ones are refused.
"""
import contextlib
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

aot, run = sys.argv[1:]
STEPS, ROWS, STAGES = 5, 64, ("none", "zero1", "zero2", "zero3")
# The global norms of gradients here are above and below what they are clipped to.
OPTIMIZERS = {
    "adamw": "#tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-3, weight_decay = 1.0e-1>",
    "sgd": "#tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.01>",
    "clipped": "#tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-3, weight_decay = 1.0e-1>, clip_norm = 0.5",
    "clipped-sgd": "#tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.01>, clip_norm = 0.64",
}


def source(positions, stage, optimizer):
    """%e is read twice (tied); %s has one element; 37 x 5 and 7 x 5 are parts of uneven sizes."""
    batch, one = 2 * positions, "%sharded = tessera.optimizer.shard %e {axis = \"data\", policy = \"zero2\"} : (tensor<37x5xf32>) -> tensor<37x5xf32>" if stage == "one" else ""
    normed = optimizer.startswith("clipped")
    sharded = "" if stage in ("none", "one") else (f', tessera.opt.shard = #tessera.opt.shard<axis = "data">, '
                                         f'tessera.opt.partition = #tessera.opt.partition<"{stage}">')
    return f"""module @m attributes {{tessera.mesh = {{data = {positions}}}}} {{
  func.func @train(%x: tensor<{batch}x7xf32> {{tessera.data = "x"}}, %t: tensor<{batch}xi64> {{tessera.data = "t"}}) -> (tensor<f32> {{tessera.name = "loss"}}{', tensor<f32> {tessera.name = "grad_norm"}' if normed else ""})
      attributes {{tessera.entry = "train"}} {{
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<7x5xf32>
    %b = tessera.param "b" init = #tessera.uniform<-0.5, 0.5> : tensor<5xf32>
    %e = tessera.param "e" init = #tessera.uniform<-0.5, 0.5> : tensor<37x5xf32>
    %s = tessera.param "s" init = #tessera.constant<1.0> : tensor<f32>
    %h = tessera.cast %w : tensor<7x5xf32> to tensor<7x5xbf16>
    %k = tessera.cast %x : tensor<{batch}x7xf32> to tensor<{batch}x7xbf16>
    %0 = tessera.matmul %k, %h : tensor<{batch}x7xbf16>, tensor<7x5xbf16> -> tensor<{batch}x5xbf16>
    %1 = tessera.cast %0 : tensor<{batch}x5xbf16> to tensor<{batch}x5xf32>
    %2 = tessera.add %1, %b : tensor<{batch}x5xf32>, tensor<5xf32> -> tensor<{batch}x5xf32>
    %3 = tessera.gelu %2 : tensor<{batch}x5xf32>
    %4 = tessera.gather %e, %t {{axis = 0 : i64}} : tensor<37x5xf32>, tensor<{batch}xi64> -> tensor<{batch}x5xf32>
    %5 = tessera.add %3, %4 : tensor<{batch}x5xf32>, tensor<{batch}x5xf32> -> tensor<{batch}x5xf32>
    %6 = tessera.mul %5, %s : tensor<{batch}x5xf32>, tensor<f32> -> tensor<{batch}x5xf32>
    %7 = tessera.matmul %6, %e {{transpose_b = true}} : tensor<{batch}x5xf32>, tensor<37x5xf32> -> tensor<{batch}x37xf32>
    %8 = tessera.cross_entropy %7, %t : tensor<{batch}x37xf32>, tensor<{batch}xi64> -> tensor<{batch}xf32>
    %loss = tessera.mean %8 {{axes = [0]}} : tensor<{batch}xf32> -> tensor<f32>
    {one}
    {"%norm = " if normed else ""}tessera.minimize %loss {{optimizer = {OPTIMIZERS[optimizer]}{sharded}}} : tensor<f32>{" -> tensor<f32>" if normed else ""}
    return %loss{", %norm : tensor<f32>" if normed else " : tensor<f32>"}{", tensor<f32>" if normed else ""}
  }}
  func.func @evaluate(%x: tensor<8x7xf32> {{tessera.data = "ex"}}) -> (tensor<8xf32> {{tessera.name = "sum"}})
      attributes {{tessera.entry = "eval", tessera.rows_independent}} {{
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<7x5xf32>
    %0 = tessera.matmul %x, %w : tensor<8x7xf32>, tensor<7x5xf32> -> tensor<8x5xf32>
    %1 = tessera.sum %0 {{axes = [1]}} : tensor<8x5xf32> -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }}
}}
"""


def write_npy(path, shape, kind, data):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def build(folder, positions, stage, optimizer):
    path = f"{folder}/{optimizer}.{stage}.{positions}"
    with open(path + ".mlir", "w", encoding="utf-8") as file:
        file.write(source(positions, stage, optimizer))
    subprocess.run([aot, "build", path + ".mlir", "-o", path + ".tsb", "--target", "cpu:x86-64-v3"], check=True)
    return path + ".tsb"


def norms(path):
    """Of each step; the file is removed."""
    with open(path, encoding="utf-8") as file:
        found = [event["outputs"].get("grad_norm") for event in map(json.loads, file) if event["event"] == "step"]
    os.remove(path)
    return found


def train(folder, bundle, ranks, threads=1, steps=STEPS, extra=()):
    """What it evaluates to, the hash of the state."""
    command = [run, bundle, "--steps", str(steps), "--seed", "5", "--quiet", "--threads", str(threads),
               "--data", f"x={folder}/x.npy", "--data", f"t={folder}/t.npy", "--data", f"ex={folder}/x.npy", *extra]
    done = subprocess.run(command + (["--ranks", str(ranks)] if ranks else []), check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{bundle}, {ranks} ranks: {done.stderr}")
    return "".join(re.findall(r"^eval.*\n", done.stdout, re.M)) + re.search(r"^state (\w+)", done.stdout, re.M).group(1)


def is_refused(folder, bundle, ranks, positions):
    done = subprocess.run([run, bundle, "--steps", "1", "--ranks", str(ranks), "--data", f"x={folder}/x.npy", "--data", f"t={folder}/t.npy",
                           "--data", f"ex={folder}/x.npy"], check=False, capture_output=True, text=True)
    refused = done.returncode == 6 and f"{ranks} ranks for {positions} virtual ranks" in done.stderr
    if not refused:
        print(f"{ranks} ranks for {positions} virtual ranks end with {done.returncode}: {done.stderr}")
    return refused


def overflow(folder, bundles):
    """One row of the data is no number: the step that reads it ends the run, on all ranks alike, with what was committed before."""
    wanted, differ = None, 0
    with open(f"{folder}/x.npy", "rb") as file:
        data = bytearray(file.read())
    data[-4 * 7 * 17:-4 * 7 * 17 + 4] = struct.pack("<f", float("inf"))
    with open(f"{folder}/inf.npy", "wb") as file:
        file.write(data)
    for stage in ("none", "zero2", "one"):
        for ranks in (0, 1, 2, 3, 5, 8):
            state = f"{folder}/overflow.{stage}.{ranks}"
            command = [run, bundles["clipped", stage], "--steps", "8", "--seed", "5", "--quiet", "--threads", "1", "--save-every", "1", "--state-dir", state,
                       "--data", f"x={folder}/inf.npy", "--data", f"t={folder}/t.npy", *(["--ranks", str(ranks)] if ranks else [])]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            saved = [int(number, 16) for name in os.listdir(state) for number in re.findall(r"^MANIFEST\.([0-9a-f]+)", name)]
            found = (done.returncode, re.findall(r"output 'loss' is \S+ at step \d+", done.stderr)[:1], max(saved))
            wanted = wanted or found
            same = found == wanted and found[0] == 14 and found[1] and f"step {found[2] + 1}" in found[1][0]
            differ += not same
            if not same:
                print(f"{stage}, {ranks} ranks: {found}, expected {wanted}: {done.stderr}")
    print(f"an infinite row ends with {wanted}, {'DIFFERS' if differ else 'with any number of ranks'}")
    return differ


def kill_one(folder, bundle, wanted):
    """A rank dies while others wait for its part; all start again from the last generation."""
    state, metrics = f"{folder}/killed", f"{folder}/killed.jsonl"
    command = [run, bundle, "--steps", "300", "--seed", "5", "--quiet", "--threads", "1", "--ranks", "4", "--restarts", "9", "--save-every", "20",
               "--state-dir", state, "--metrics", metrics, "--data", f"x={folder}/x.npy", "--data", f"t={folder}/t.npy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as launched:
        killed = 0
        while launched.poll() is None and killed < 3:
            with open(metrics, "a+", encoding="utf-8") as file:
                file.seek(0)
                saves = file.read().count('"event":"save"')
            ranks = subprocess.run(["pgrep", "-P", str(launched.pid)], check=False, capture_output=True, text=True).stdout.split()
            if saves > 2 * killed and len(ranks) == 4:
                with contextlib.suppress(ProcessLookupError):  # the run may have ended since
                    os.kill(int(ranks[1 + killed]), signal.SIGKILL)
                    killed += 1
            time.sleep(0.02)
        out, err = launched.communicate()
    found = re.search(r"^state (\w+) step 300", out, re.M)
    same = launched.returncode == 0 and found and found.group(1) == wanted
    print(f"{killed} ranks killed: {'as if undisturbed' if same else 'DIFFERS: ' + err}")
    return not same or not killed


def main(folder):
    random.seed(1)
    write_npy(f"{folder}/x.npy", (ROWS, 7), "<f4", struct.pack(f"<{7 * ROWS}f", *[random.gauss(0, 1) for _ in range(7 * ROWS)]))
    write_npy(f"{folder}/t.npy", (ROWS,), "<i8", struct.pack(f"<{ROWS}q", *[random.randrange(37) for _ in range(ROWS)]))
    differ, bundles, hashes, metrics = 0, {}, {}, f"{folder}/metrics.jsonl"
    for optimizer, positions, stages in (("adamw", 8, STAGES), ("sgd", 4, STAGES), ("clipped", 8, (*STAGES, "one")), ("clipped-sgd", 5, STAGES)):
        for stage in stages:
            bundle, found = build(folder, positions, stage, optimizer), []
            bundles[optimizer, stage] = bundle
            for ranks, threads in [(ranks, 1) for ranks in range(positions + 1)] + [(0, 2), (2, 2)]:
                trained = train(folder, bundle, ranks, threads, extra=("--metrics", metrics))
                found.append((ranks, trained, norms(metrics)))
            wanted = hashes.setdefault(optimizer, found[0][1:])
            wrong = [ranks for ranks, *same in found if tuple(same) != wanted]
            differ += len(wrong)
            print(f"{optimizer} {stage}, {positions} positions, ranks 0 to {positions}: "
                  f"{f'DIFFERS at {wrong}' if wrong else 'the same bits'}")
            differ += sum(not is_refused(folder, bundle, ranks, positions) for ranks in (positions + 1, 16))
        clip = re.search(r"clip_norm = (\S+)", OPTIMIZERS[optimizer])
        if clip and not min(wanted[1]) < float(clip.group(1)) < max(wanted[1]):
            sys.exit(f"{optimizer}: norms {wanted[1]} are not on both sides of {clip.group(1)}")
    differ += overflow(folder, bundles)
    # Saved by some ranks at one stage, taken up by others at another: adopted state counts its steps on.
    for number, (stage, ranks, other, others) in enumerate((("zero1", 2, "zero1", 8), ("zero2", 8, "zero2", 3), ("zero3", 4, "zero3", 1),
                                                            ("none", 2, "zero3", 4), ("zero3", 8, "zero1", 2), ("zero1", 3, "none", 4))):
        state = f"{folder}/state.{number}"
        train(folder, bundles["adamw", stage], ranks, steps=2, extra=("--state-dir", state))
        flags = ("--state-dir", state) if stage == other else ("--adopt", state)
        same = train(folder, bundles["adamw", other], others, extra=flags) == hashes["adamw"][0]
        differ += not same
        print(f"{stage} of {ranks} ranks, then {other} of {others}: {'as if undisturbed' if same else 'DIFFERS'}")
    undisturbed = train(folder, bundles["adamw", "none"], 0, steps=300).split("\n")[-1]
    differ += kill_one(folder, bundles["adamw", "zero3"], undisturbed)
    # A log of one number of ranks is replayed by another.
    train(folder, bundles["adamw", "zero3"], 4, extra=("--record", f"{folder}/log"))
    for ranks in (0, 2, 8):
        train(folder, bundles["adamw", "zero3"], ranks, extra=("--replay", f"{folder}/log"))
    return differ


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(1 if main(temporary) else 0)
