#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: recompute.py TESSERA_AOT TESSERA_RUN TRANSFORMER_PY DIGITS_FOLDER

Trains with every recompute policy and without: equal bits, and the memory that the plan says.
"""
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

aot, run, transformer, digits = sys.argv[1:]
STEPS = 3
# Of what the plan says the peak falls by; the rest is noise of the allocator and of page sizes.
TOLERANCE = 0.10


def write_npy(path, dtype, shape, values):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    code = {"<f4": "f", "<i8": "q"}[dtype]
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(values)}{code}", *values))


def build(folder, name, text):
    with open(f"{folder}/{name}.mlir", "w") as file:
        file.write(text)
    subprocess.run([aot, "build", f"{folder}/{name}.mlir", "-o", f"{folder}/{name}.tsb", "--target",
                    "cpu:x86-64-v3"], check=True)
    shown = subprocess.run([aot, "inspect", f"{folder}/{name}.tsb"], check=True, capture_output=True, text=True)
    return int(re.search(r"@train .*workspace (\d+)", shown.stdout).group(1))


def train(folder, name, data):
    """The bytes of the state after some steps, and the peak of resident bytes."""
    state = f"{folder}/{name}.state"
    command = [run, f"{folder}/{name}.tsb", "--steps", str(STEPS), "--state-dir", state, "--threads", "1", "--quiet"]
    for item in data:
        command += ["--data", item]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        sys.exit(f"{name}: exit status {status}")
    subprocess.run([run, "export", state, "-o", f"{folder}/{name}.safetensors"], check=True,
                   stdout=subprocess.DEVNULL)
    with open(f"{folder}/{name}.safetensors", "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
        header.pop("__metadata__", None)  # names the bundle
        return (header, file.read()), usage.ru_maxrss * 1024


def compare(folder, title, programs, data):
    results = {}
    for name, text in programs.items():
        planned = build(folder, name, text)
        state, resident = train(folder, name, data)
        results[name] = planned, state, resident
    planned, state, resident = results["absent"]
    failed = False
    for name, (other_planned, other_state, other_resident) in results.items():
        fall, measured = planned - other_planned, resident - other_resident
        print(f"{title:12} {name:10} workspace {other_planned:10} resident {other_resident:10} "
              f"planned to fall by {fall:9}, fell by {measured:9}; state {'equal' if other_state == state else 'DIFFERS'}")
        failed |= other_state != state
        if fall > 1 << 22 and abs(measured - fall) > TOLERANCE * fall:
            print(f"  the peak fell by {measured / fall:.3f} of the plan")
            failed = True
    return results, failed


def transformers(folder):
    programs = {}
    for name, arguments in (("absent", []), ("none", ["--policy", "none"]), ("selective", ["--policy", "selective"]),
                            ("full", ["--policy", "full"]), ("hint", ["--hint", "full"]),
                            ("budget", ["--policy", "selective", "--budget", "4000000"])):
        command = [sys.executable, transformer, "--layers", "4", "--batch", "64", *arguments]
        programs[name] = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    draw = random.Random(7)
    write_npy(f"{folder}/x.npy", "<f4", (128, 32, 64), [draw.uniform(-1, 1) for _ in range(128 * 32 * 64)])
    write_npy(f"{folder}/labels.npy", "<i8", (128, 32), [draw.randrange(16) for _ in range(128 * 32)])
    results, failed = compare(folder, "transformer", programs, [f"x={folder}/x.npy", f"labels={folder}/labels.npy"])
    planned = {name: result[0] for name, result in results.items()}
    if not max(planned["full"], planned["budget"]) < planned["selective"] < planned["absent"] == planned["none"] \
            or not planned["hint"] < planned["absent"] / 1.5 or not planned["full"] < planned["absent"] / 2:
        print("the order of the plans is wrong")
        failed = True
    return failed


def digit_programs(folder):
    with open(f"{digits}/digits.mlir") as file:
        text = file.read()
    begin, end = text.index("    %m1 ="), text.index("    %m3 =")
    programs = {"absent": text}
    for policy in ("full", "selective"):
        body = f'    %h = tessera.schedule.checkpoint {{policy = "{policy}"}} {{\n' + text[begin:end] + \
            "    tessera.yield %h2 : tensor<64x64xf32>\n    } : tensor<64x64xf32>\n"
        programs[policy] = text[:begin] + body + text[end:].replace("%h2", "%h")
    data = [f"{key}={digits}/{part}-{key.split('_')[-1]}.npy" for part, keys in
            (("train", ("images", "labels")), ("test", ("test_images", "test_labels"))) for key in keys]
    _, failed = compare(folder, "digits", programs, data)
    return failed


with tempfile.TemporaryDirectory() as temporary:
    os.mkdir(f"{temporary}/t")
    os.mkdir(f"{temporary}/d")
    failed = transformers(f"{temporary}/t") | digit_programs(f"{temporary}/d")
sys.exit(1 if failed else 0)
