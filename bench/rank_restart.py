#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: rank_restart.py TESSERA_RUN TESSERA_AOT [--mib N] [--ranks W] [--kills K] [--folder DIR]

Measures how long a run of W ranks pauses when one of them is killed: from SIGKILL until all ranks have the state of the last generation
again, and until the next step is done. The model is one product; its weight and AdamW's state are N MiB. References in the same run: a cold
sequential read of the same number of bytes of the state from the same folder; and the time of W ranks from their start until they have a
state that W ranks have saved, and one that twice as many have saved.
"""
import argparse
import array
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("run")
parser.add_argument("aot")
parser.add_argument("--mib", type=int, default=1024)
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--kills", type=int, default=3)
parser.add_argument("--folder")
options = parser.parse_args()
ROWS = 64


def write_model(path, width):
    path.write_text(f"""module @wide {{
  func.func @train(%x: tensor<8x{width}xf32> {{tessera.data = "x"}}) -> (tensor<f32> {{tessera.name = "loss"}}) attributes {{tessera.entry = "train"}} {{
    %w = tessera.param "w" init = #tessera.uniform<-0.01, 0.01> : tensor<{width}x{width}xf32>
    %y = tessera.matmul %x, %w : tensor<8x{width}xf32>, tensor<{width}x{width}xf32> -> tensor<8x{width}xf32>
    %s = tessera.mul %y, %y : tensor<8x{width}xf32>, tensor<8x{width}xf32> -> tensor<8x{width}xf32>
    %loss = tessera.mean %s {{axes = [0, 1]}} : tensor<8x{width}xf32> -> tensor<f32>
    tessera.minimize %loss {{optimizer = #tessera.adamw<lr = 1.0e-4, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>}} : tensor<f32>
    return %loss : tensor<f32>
  }}
}}
""", encoding="utf-8")


def write_rows(path, width):
    draw = random.Random(0)
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({ROWS}, {width}), }}"
    header = header.ljust(117) + "\n"
    values = array.array("f", (draw.uniform(-1, 1) for _ in range(ROWS * width)))
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + values.tobytes())


def count(path, event):
    return path.read_text(encoding="utf-8").count(f'"event":"{event}"') if path.exists() else 0


def wait_for(path, event, before):
    """Returns the time at which the log has more than `before` records of an event."""
    while count(path, event) <= before:
        time.sleep(0.002)
    return time.monotonic()


def read_cold(folder):
    """Returns the seconds to read every segment of the newest generation, one block after another, not from the cache."""
    newest = max(folder.glob("gen/*"), key=lambda path: int(path.name.split("-")[1]))
    began, size = time.monotonic(), 0
    for segment in newest.glob("segment.*"):
        fd = os.open(segment, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        while block := os.read(fd, 4 << 20):
            size += len(block)
        os.close(fd)
    return time.monotonic() - began, size


def restore_seconds(folder, bundle, data, state):
    """Returns the seconds until a run has the state, with no steps left to train."""
    log = folder / "restore"
    log.unlink(missing_ok=True)
    began = time.monotonic()
    job = subprocess.Popen([options.run, bundle, "--data", data, "--quiet", "--steps", "1", "--ranks", str(options.ranks), "--state-dir",
                            state, "--metrics", log], stdout=subprocess.DEVNULL)
    took = wait_for(log, "resume", 0) - began
    job.wait()
    return took


def main(folder):
    width = int((options.mib * (1 << 20) / 12) ** 0.5) // 64 * 64
    bundle, data, state, log = folder / "wide.tsb", f"x={folder}/x.npy", folder / "state", folder / "metrics"
    write_model(folder / "wide.mlir", width)
    write_rows(folder / "x.npy", width)
    subprocess.run([options.aot, "build", folder / "wide.mlir", "-o", bundle, "--target", "cpu:x86-64-v3", "--virtual-ranks", "8"], check=True)
    job = subprocess.Popen([options.run, bundle, "--data", data, "--quiet", "--steps", "100000", "--ranks", str(options.ranks), "--state-dir",
                            state, "--save-every", "2", "--metrics", log, "--restarts", "1000"], stdout=subprocess.DEVNULL)
    restored, again = [], []
    for kill in range(options.kills):
        wait_for(log, "save", count(log, "save"))
        ranks = [int(word) for word in pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()]
        resumes = count(log, "resume")
        began = time.monotonic()
        os.kill(ranks[kill % len(ranks)], signal.SIGKILL)
        restored.append(wait_for(log, "resume", resumes) - began)
        again.append(wait_for(log, "step", count(log, "step")) - began)
    job.terminate()
    job.wait()
    cold, size = read_cold(state)
    same = statistics.median(restore_seconds(folder, bundle, data, state) for _ in range(3))
    last = max(int(step) for step in re.findall(r'"event":"step","step":(\d+)', log.read_text(encoding="utf-8")))
    subprocess.run([options.run, bundle, "--data", data, "--quiet", "--steps", str(last + 1), "--ranks", str(2 * options.ranks),
                    "--state-dir", state], check=True, stdout=subprocess.DEVNULL)
    other = statistics.median(restore_seconds(folder, bundle, data, state) for _ in range(3))
    print(json.dumps({"bench": "rank restart", "ranks": options.ranks, "state_mib": size >> 20, "kills": options.kills,
                      "restored_s": round(statistics.median(restored), 2), "worst_s": round(max(restored), 2),
                      "next_step_s": round(statistics.median(again), 2), "cold_read_s": round(cold, 2),
                      "restore_same_s": round(same, 2), "restore_other_s": round(other, 2), "other_to_same": round(other / same, 2)}))


with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
    main(pathlib.Path(temporary))
