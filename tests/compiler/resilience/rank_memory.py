#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: rank_memory.py TESSERA_AOT TESSERA_RUN [EXAMPLES] [--width N]

The memory and the traffic of each rank with sharded optimizer state, for 1, 2, 4 and 8 concurrent ranks: resident memory is
within 5 % of the plan (or 1 MiB, for other memory of the process) and shrinks as state is sharded and from stage to stage; a step
sends as many bytes as planned. With one rank per position that is the number in the deployment manifest for the collectives. With
the folder of the examples, the same is tested for gpt-char, where only the order of the stages is required. The model has 16
layers of N x N, 512 by default.
"""
import argparse
import array
import json
import re
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("aot")
parser.add_argument("run")
parser.add_argument("examples", nargs="?")
parser.add_argument("--width", type=int, default=512)
options = parser.parse_args()
aot, run = options.aot, options.run
POSITIONS, WIDTH, LAYERS, MIB = 8, options.width, 16, 1 << 20
RANKS = (1, 2, 4, 8)
# With a rank for each position the manifest says all that is sent; but the loss, one number, goes from each rank to every other
# where it is not exchanged together with gradients.
LOSS = (0, 4 * POSITIONS * (POSITIONS - 1) - 2 * 4 * (POSITIONS - 1))
STAGES = ("none", "zero1", "zero2", "zero3")
OTHER = "zero2-model"  # over an axis that does not divide the batch: nothing is sharded over ranks
WEIGHTS = 4 * LAYERS * WIDTH * WIDTH  # bytes


def shard_over(stage):
    stage, _, axis = stage.partition("-")
    return "" if stage == "none" else (f', tessera.opt.shard = #tessera.opt.shard<axis = "{axis or "data"}">, '
                                       f'tessera.opt.partition = #tessera.opt.partition<"{stage}">')


def source(stage):
    sharded = shard_over(stage)
    rows, square = f"tensor<16x{WIDTH}xf32>", f"tensor<{WIDTH}x{WIDTH}xf32>"
    body, last = [f'tessera.system.export_manifest {{path = "{stage}.json"}}'], "%x"
    for i in range(LAYERS):
        body += [f'%w{i} = tessera.param "w{i}" init = #tessera.uniform<-0.02, 0.02> : {square}',
                 f"%m{i} = tessera.matmul {last}, %w{i} : {rows}, {square} -> {rows}", f"%h{i} = tessera.relu %m{i} : {rows}"]
        last = f"%h{i}"
    body += [f"%q = tessera.mul {last}, {last} : {rows}, {rows} -> {rows}",
             f"%loss = tessera.mean %q {{axes = [0, 1]}} : {rows} -> tensor<f32>",
             "tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, "
             f"weight_decay = 0.0>{sharded}}} : tensor<f32>"]
    return (f'module @m attributes {{tessera.mesh = {{data = {POSITIONS}, model = 2}}}} {{\n  func.func @train(%x: {rows} {{tessera.data = "x"}}) '
            '-> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {\n    ' + "\n    ".join(body) +
            "\n    return %loss : tensor<f32>\n  }\n}\n")


def build(folder, stage, text):
    with open(f"{folder}/{stage}.mlir", "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run([aot, "build", file.name, "-o", f"{folder}/{stage}.tsb", "--target", "cpu:x86-64-v3"], check=True)


def train(folder, stage, ranks, data):
    metrics = f"{folder}/{stage}.{ranks}.jsonl"
    done = subprocess.run([run, f"{folder}/{stage}.tsb", "--steps", "2", "--threads", "1", "--ranks", str(ranks), "--quiet", "--metrics", metrics,
                           *data], check=True, capture_output=True, text=True)
    with open(metrics, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    return re.search(r"^state (\w+)", done.stdout, re.M).group(1), [record for record in records if record["event"] == "rank"]


def planned_bytes(folder, stage):
    """Of all positions, by the deployment manifest."""
    with open(f"{folder}/{stage}.json", encoding="utf-8") as file:
        return sum(collective["bytes"] for collective in json.load(file)["collectives"] if collective["entry"] == "train")


def parts_of(folder, stage):
    """Bytes of the parts that a rank holds of tensors for each of its positions."""
    text = subprocess.run([aot, "inspect", f"{folder}/{stage}.tsb", "--json"], check=True, capture_output=True, text=True).stdout
    return sum(tensor.get("partBytes", 0) for tensor in json.loads(text)["tensors"])


def check(stage, ranks, uses, wire):
    """The first thing that is not as planned; None where all is."""
    if len(uses) != ranks:
        return f"{len(uses)} of {ranks} ranks were told of"
    for use in uses:
        if use["sent_bytes"] != use["planned_sent_bytes"]:
            return f"rank {use['rank']} sent {use['sent_bytes']} bytes"
        if abs(use["resident_bytes"] - use["planned_bytes"]) > max(0.05 * use["planned_bytes"], MIB):
            return f"rank {use['rank']} has {use['resident_bytes']} bytes"
    sent = sum(use["sent_bytes"] for use in uses)
    if ranks == POSITIONS and sent - wire not in LOSS:
        return f"{sent} bytes were sent; the manifest says {wire}"
    return None


def cell(ranks, uses, wrong):
    return (f"W {ranks}: {max(use['planned_bytes'] for use in uses) / MIB:6.1f} {max(use['resident_bytes'] for use in uses) / MIB:6.1f} "
            f"{sum(use['planned_sent_bytes'] for use in uses) / MIB:6.1f} {sum(use['sent_bytes'] for use in uses) / MIB:6.1f}" +
            (f" WRONG: {wrong}" if wrong else ""))


def gpt(folder, examples):
    """Each stage takes less than the one before, on several ranks, and sends what was planned."""
    before, hashes, failed = {}, set(), False
    example = f"{examples}/gpt-char"
    with open(f"{example}/gpt-char.mlir", encoding="utf-8") as file:
        text = file.read()
    with open(f"{example}/test.txt", "rb") as all_of, open(f"{folder}/test.txt", "wb") as little:
        little.write(all_of.read(32 * 65))
    end = "final = 0.1}}"
    assert text.count(end) == 1
    print("gpt-char")
    for stage in STAGES:
        build(folder, f"gpt-{stage}", text.replace(end, end[:-1] + shard_over(stage) + "}"))
        cells = []
        for ranks in RANKS:
            state, uses = train(folder, f"gpt-{stage}", ranks, ("--data", f"text={example}/train.txt", "--data", f"test_text={folder}/test.txt"))
            hashes.add(state)
            # Ranks that do not evaluate do not touch all of what is planned.
            unlike = [use["rank"] for use in uses if use["sent_bytes"] != use["planned_sent_bytes"]]
            wrong = f"ranks {unlike} sent something else" if unlike or len(uses) != ranks else None
            planned = max(use["planned_bytes"] for use in uses)
            failed |= wrong is not None or (ranks > 1 and planned >= before.get(ranks, planned + 1))
            before[ranks] = planned
            cells.append(cell(ranks, uses, wrong))
        print(f"{stage:5}  " + " | ".join(cells))
    print("the same bits" if len(hashes) == 1 else f"DIFFERENT BITS: {sorted(hashes)}")
    return failed or len(hashes) != 1


def main(folder):
    failed, hashes = False, set()
    with open(f"{folder}/x.npy", "wb") as file:
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': (32, {WIDTH}), }}"
        header += " " * (-(len(header) + 11) % 64) + "\n"
        values = array.array("f", [((7 * i) % 23 - 11) / 8 for i in range(32 * WIDTH)])
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + values.tobytes())
    print("MiB of the fullest rank: planned, resident; of all in a step: planned to be sent, sent")
    plans = {stage: {} for stage in STAGES}
    for stage in STAGES:
        build(folder, stage, source(stage))
        cells, planned, wire = [], plans[stage], planned_bytes(folder, stage)
        for ranks in RANKS:
            state, uses = train(folder, stage, ranks, ("--data", f"x={folder}/x.npy"))
            hashes.add(state)
            wrong = check(stage, ranks, uses, wire)
            failed |= wrong is not None
            planned[ranks] = max(use["planned_bytes"] for use in uses)
            cells.append(cell(ranks, uses, wrong))
        # From one rank to eight: seven of eight parts of two states go, and of zero3 also of the parameters.
        sharded = {"none": 0, "zero1": 2, "zero2": 2, "zero3": 3}[stage] * WEIGHTS
        failed |= parts_of(folder, stage) != sharded // POSITIONS
        failed |= stage != "none" and planned[2] - planned[8] < sharded * (1 / 2 - 1 / 8)
        print(f"{stage:5}  " + " | ".join(cells))
    build(folder, OTHER, source(OTHER))
    _, uses = train(folder, OTHER, POSITIONS, ("--data", f"x={folder}/x.npy"))
    sent, wire = sum(use["sent_bytes"] for use in uses), planned_bytes(folder, OTHER)
    failed |= sent - wire not in LOSS or sent != sum(use["planned_sent_bytes"] for use in uses)
    print(f"{OTHER}: {sent} bytes were sent, {wire} by the manifest")
    # One rank alone has all there is, once, at every stage.
    failed |= max(plans[stage][1] - plans["none"][1] for stage in STAGES) > MIB // 4
    for ranks in RANKS[1:]:
        # The state is sharded; of gradients a rank has its part, one layer's, and what turns wait for; of parameters its part and
        # one layer's.
        failed |= plans["none"][ranks] - plans["zero1"][ranks] < 2 * WEIGHTS * (1 - 1 / ranks) - MIB
        failed |= plans["zero1"][ranks] - plans["zero2"][ranks] < WEIGHTS * 0.6
        failed |= plans["zero2"][ranks] - plans["zero3"][ranks] < WEIGHTS * (1 - 1 / ranks) - MIB
    print("the same bits" if len(hashes) == 1 else f"DIFFERENT BITS: {sorted(hashes)}")
    return failed or len(hashes) != 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        bad = main(temporary)
        sys.exit(1 if bad or (options.examples and gpt(temporary, options.examples)) else 0)
