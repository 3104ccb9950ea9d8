#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tessera-aot tune: what it measures and keeps, what it refuses, and that it never changes a result.

usage: tune.py TESSERA_AOT TESSERA_RUN FOLDER_OF_SCHEMAS TUNE_MEASURE

- A tuned product gives the bytes of the untuned one, and NumPy's result in float64 to rounding. A second run finds everything in the store.
- With times that are drawn at random, a training ends with the state of the untuned program, and ten processes choose the same plan.
- Processes share a store; a store or a JSON file that cannot be used is refused, with the reason.
"""
import json
import os
import pathlib
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import jsonschema
import numpy

AOT, RUN = map(os.path.realpath, sys.argv[1:3])
SCHEMAS, MEASURE = pathlib.Path(sys.argv[3]).resolve(), os.path.realpath(sys.argv[4])
PRODUCTS = [(70, 60, 130), (200, 96, 150)]
SEEDS = 10
checks = 0


def need(condition, text):
    global checks
    checks += 1
    assert condition, text


def aot(*words, code=0, says="", **options):
    done = subprocess.run([AOT, *map(str, words)], capture_output=True, text=True, check=False, timeout=120, **options)
    need(done.returncode == code and re.search(says, done.stdout + done.stderr), (words, done.returncode, done.stdout, done.stderr))
    return done.stdout


def write_product():
    inputs, outputs, lines, types = [], [], [], []
    for i, (m, k, n) in enumerate(PRODUCTS):
        inputs += [f'%a{i}: tensor<{m}x{k}xf32> {{tessera.name = "a{i}"}}', f'%b{i}: tensor<{k}x{n}xf32> {{tessera.name = "b{i}"}}']
        lines.append(f"  %c{i} = tessera.matmul %a{i}, %b{i} {{transpose_b = false}} : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32> -> tensor<{m}x{n}xf32>")
        outputs.append(f'tensor<{m}x{n}xf32> {{tessera.name = "c{i}"}}')
        types.append(f"tensor<{m}x{n}xf32>")
    values = ", ".join(f"%c{i}" for i in range(len(PRODUCTS)))
    pathlib.Path("p.mlir").write_text(f'func.func @f({", ".join(inputs)}) -> ({", ".join(outputs)}) attributes {{tessera.entry = "infer"}} {{\n'
                                      + "\n".join(lines) + f'\n  return {values} : {", ".join(types)}\n}}\n')


def results(bundle):
    words = [word for i in range(len(PRODUCTS)) for word in ("--input", f"a{i}=a{i}.npy", "--input", f"b{i}=b{i}.npy", "--output", f"c{i}=c{i}.npy")]
    subprocess.run([RUN, bundle, "--entry", "f", "--quiet", *words], check=True)
    return [pathlib.Path(f"c{i}.npy").read_bytes() for i in range(len(PRODUCTS))]


def kernels(bundle):
    shown = json.loads(aot("inspect", "--json", "--schedule", bundle))
    return shown["schedule"]["targets"][0]


def check_measuring(numbers):
    for i, (m, k, n) in enumerate(PRODUCTS):
        numpy.save(f"a{i}.npy", numbers.standard_normal((m, k), numpy.float32))
        numpy.save(f"b{i}.npy", numbers.standard_normal((k, n), numpy.float32))
    aot("tune", "p.mlir", "-o", "t.tsb", "--store", "s.db", "--trace", "t.json", says=rf"{len(PRODUCTS)} kernels, 0 from the store, \d+ trials, 0 faults\n")
    target = kernels("t.tsb")
    aot("build", "p.mlir", "-o", "p.tsb", "--target", target["name"])
    want = results("p.tsb")
    need(results("t.tsb") == want, "tuning changed the result")
    for i, (_, k, _) in enumerate(PRODUCTS):
        a, b, c = (numpy.load(f"{name}{i}.npy").astype(numpy.float64) for name in "abc")
        need(numpy.all(numpy.abs(c - a @ b) <= k * 2.0**-24 * (numpy.abs(a) @ numpy.abs(b))), i)
    aot("tune", "p.mlir", "-o", "t2.tsb", "--store", "s.db", says=rf"{len(PRODUCTS)} from the store, 0 trials")
    need(pathlib.Path("t.tsb").read_bytes() == pathlib.Path("t2.tsb").read_bytes(), "plans of the store build another bundle")
    trials = [event for event in json.loads(pathlib.Path("t.json").read_text())["traceEvents"] if not event["args"]["confirms"]]
    others = sum(len(kernel["candidates"]) - 1 for kernel in target["kernels"])
    need(len(trials) == others and all(event["args"]["safe_ns"] > 0 for event in trials), (len(trials), others))
    # Every kernel has its own sizes in the bundle, with both times, and both are plausible.
    for kernel in target["kernels"]:
        need(kernel["source"] == "autotune" and 0 < kernel["measured_ns"] <= kernel["safe_ns"] < 1e9, kernel)


def check_miss():
    """A program with one more kernel measures only that one."""
    text = pathlib.Path("p.mlir").read_text().replace("%c0 = tessera.matmul", "%n = tessera.neg %a0 : tensor<70x60xf32>\n  %c0 = tessera.matmul", 1)
    pathlib.Path("q.mlir").write_text(text.replace("tessera.matmul %a0", "tessera.matmul %n", 1))
    out = aot("tune", "q.mlir", "-o", "q.tsb", "--store", "s.db")
    found = int(re.search(r"(\d+) from the store", out)[1])
    need(found >= len(PRODUCTS) - 1, out)


def write_training():
    pathlib.Path("m.mlir").write_text("""module @line {
  func.func @train(%x: tensor<64x48xf32> {tessera.data = "x"}, %t: tensor<64x40xf32> {tessera.data = "t"})
      -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<48x40xf32>
    %y = tessera.matmul %x, %w : tensor<64x48xf32>, tensor<48x40xf32> -> tensor<64x40xf32>
    %d = tessera.sub %y, %t : tensor<64x40xf32>, tensor<64x40xf32> -> tensor<64x40xf32>
    %s = tessera.mul %d, %d : tensor<64x40xf32>, tensor<64x40xf32> -> tensor<64x40xf32>
    %loss = tessera.mean %s {axes = [0, 1]} : tensor<64x40xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 5.0e-2, momentum = 9.0e-1, weight_decay = 1.0e-1>} : tensor<f32>
    return %loss : tensor<f32>
  }
}
""")
    numbers = numpy.random.default_rng(random.randrange(2**32))
    numpy.save("x.npy", numbers.standard_normal((256, 48), numpy.float32))
    numpy.save("t.npy", numbers.standard_normal((256, 40), numpy.float32))


def training_hash(bundle, folder):
    done = subprocess.run([RUN, bundle, "--entry", "train", "--steps", "12", "--seed", "5", "--data", "x=x.npy", "--data", "t=t.npy", "--state-dir", folder],
                          capture_output=True, text=True, check=False)
    need(done.returncode == 0, done.stderr)
    return re.search(r"^state ([0-9a-f]{64}) step 12", done.stdout)[1]


def check_adversarial():
    source = "m.mlir"
    write_training()
    first = random.randrange(1, 2**31)
    print("fake times from", first)
    aot("tune", source, "-o", "d0.tsb", "--store", "d.db", "--fake-times", first)
    target = kernels("d0.tsb")["name"]
    aot("build", source, "-o", "d.tsb", "--target", target)
    want, changed = training_hash("d.tsb", "S"), 0
    for i in range(SEEDS):
        aot("tune", source, "-o", f"d{i}.tsb", "--store", f"d{i}.db", "--fake-times", first + i)
        changed += [kernel["chosen"] for kernel in kernels(f"d{i}.tsb")["kernels"]] != [kernel["chosen"] for kernel in kernels("d.tsb")["kernels"]]
        need(training_hash(f"d{i}.tsb", f"S{i}") == want, f"seed {first + i} changed the state")
    need(changed > 0, "no fake time changed a plan")
    shared = [subprocess.Popen([AOT, "tune", source, "-o", f"e{i}.tsb", "--store", "e.db" if i % 2 else f"e{i}.db", "--fake-times", str(first)],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for i in range(10)]
    for i, process in enumerate(shared):
        text = process.communicate(timeout=120)[0]
        need(process.returncode == 0, text)
        need(pathlib.Path(f"e{i}.tsb").read_bytes() == pathlib.Path("e0.tsb").read_bytes(), f"process {i} chose another plan")


def check_artifact():
    aot("tune", "--export", "x.json", "--store", "s.db")
    document = json.loads(pathlib.Path("x.json").read_text())
    for name, value in ("plans", document), ("trials", json.loads(pathlib.Path("t.json").read_text())):
        jsonschema.Draft202012Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text())).validate(value)
    target = document["plans"][0]["arch"]
    aot("tune", "--import", "x.json", "--store", "y.db", says=rf"imported {len(document['plans'])} plans")
    aot("tune", "--export", "y.json", "--store", "y.db")
    need(pathlib.Path("x.json").read_bytes() == pathlib.Path("y.json").read_bytes(), "export, import, export changes plans")
    aot("build", "p.mlir", "-o", "w1.tsb", "--target", target, "--schedules", "x.json")
    aot("build", "p.mlir", "-o", "w2.tsb", "--target", target, "--schedules", "y.db")
    sources = [kernel["source"] for kernel in kernels("w1.tsb")["kernels"]]
    need(kernels("w1.tsb") == kernels("w2.tsb") == kernels("t.tsb") and sources == ["autotune"] * len(PRODUCTS), sources)

    def refuse(change, code, says, build=False):
        damaged = json.loads(pathlib.Path("x.json").read_text())
        change(damaged)
        pathlib.Path("z.json").write_text(json.dumps(damaged))
        if build:
            return aot("build", "p.mlir", "-o", "w.tsb", "--target", target, "--schedules", "z.json", code=code, says=says)
        return aot("tune", "--import", "z.json", "--store", "y.db", code=code, says=says)
    refuse(lambda d: d.update(formatVersion=2), 3, "formatVersion is 2; expected 1")
    refuse(lambda d: d["plans"][0].pop("arch"), 8, "arch")
    refuse(lambda d: d["plans"][0].update(sizes=[1] * 13), 8, "'sizes' has 13 elements; expected 1 to 12")
    refuse(lambda d: d["plans"][0].update(sizes=["4"]), 8, "an element of 'sizes' is not a number")
    # Of a tile that the kernel cannot have, and of another number of sizes.
    refuse(lambda d: [plan.update(sizes=[99, 16, 96, 1, 60]) for plan in d["plans"]], 9, r"rows is 99; expected at most \d+", build=True)
    refuse(lambda d: [plan.update(sizes=[4, 16]) for plan in d["plans"]], 9, "2 sizes were stored; expected 5", build=True)
    # Plans of another target or policy are not for these kernels.
    for key, value in ("arch", "cpu:x86-64-v9"), ("policy_hash", "native/latency"):
        refuse(lambda d, k=key, v=value: [plan.update({k: v, "sizes": [99, 99, 1, 1, 1]}) for plan in d["plans"]], 0, "", build=True)
        need(all(kernel["source"] == "model" for kernel in kernels("w.tsb")["kernels"]), key)


def check_stores():
    pathlib.Path("text.db").write_text("no store " * 1000)
    aot("tune", "--list", "--store", "text.db", code=2, says="schedule store 'text.db': cannot read it: file is not a database")
    with sqlite3.connect("other.db") as other:
        other.execute("CREATE TABLE t(x)")
    aot("tune", "--list", "--store", "other.db", code=2, says="'other.db' is an SQLite file, but no schedule store")
    before = pathlib.Path("other.db").read_bytes()
    aot("tune", "p.mlir", "-o", "n.tsb", "--store", "other.db", code=2, says="no schedule store")
    need(pathlib.Path("other.db").read_bytes() == before, "the file of another program was changed")
    need(not pathlib.Path("n.tsb").exists(), "a bundle was written")
    aot("tune", "--list", "--store", "missing.db", code=7, says="cannot open it")
    aot("tune", "--list", "--store", ".", code=7, says="")
    aot("tune", "--import", "x.json", "--store", "new.db")
    with sqlite3.connect("new.db") as new:
        new.execute("PRAGMA user_version=99")
    aot("tune", "--list", "--store", "new.db", code=3, says="schedule store 'new.db' has version 99; this is version 1")
    aot("tune", "--import", "x.json", "--store", "cut.db")
    damaged = pathlib.Path("cut.db").read_bytes()
    pathlib.Path("cut.db").write_bytes(damaged[:4096] + b"\xff" * (len(damaged) - 4096))
    aot("tune", "--list", "--store", "cut.db", code=2, says="malformed|cannot be read")
    aot("tune", "--import", "x.json", "--store", "busy.db")
    lock = sqlite3.connect("busy.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    aot("tune", "--import", "x.json", "--store", "busy.db", code=7, says="cannot write it: database is locked")
    need(aot("tune", "--list", "--store", "busy.db"), "a reader waits for a writer")
    lock.execute("ROLLBACK")
    lock.close()
    aot("tune", "--import", "x.json", "--store", "full.db", code=7, says="cannot write|cannot open",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)))
    # Plans of another version are listed as such, not used, and pruned.
    document = json.loads(pathlib.Path("x.json").read_text())
    for plan in document["plans"]:
        plan["runtime"] = "0" * 16
    pathlib.Path("old.json").write_text(json.dumps(document))
    aot("tune", "--import", "old.json", "--store", "old.db")
    aot("tune", "--list", "--store", "old.db", says="expired")
    aot("build", "p.mlir", "-o", "o.tsb", "--target", document["plans"][0]["arch"], "--schedules", "old.db")
    need(all(kernel["source"] == "model" for kernel in kernels("o.tsb")["kernels"]), "an expired plan was used")
    aot("tune", "--prune", "--store", "old.db", says=rf"deleted {len(PRODUCTS)} plans")
    need(aot("tune", "--list", "--store", "old.db") == "", "plans are left")


def check_interrupt():
    """A signal ends the search; what was found is built."""
    process = subprocess.Popen([AOT, "tune", "p.mlir", "-o", "i.tsb", "--store", "i.db"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=120)
    need("round 1 of" in line and process.returncode == 0 and "not all candidates were tried" in out, (line, out, rest))
    need(results("i.tsb") == results("p.tsb"), "another result after a signal")
    need(not [name for name in os.listdir() if ".trial." in name or ".safe." in name], os.listdir())


def check_faults():
    """A candidate that computes something else, that does not end in time, or that cannot be opened."""
    text = pathlib.Path("p.mlir").read_text()
    pathlib.Path("wrong.mlir").write_text(text.replace("return %c0", "%w = tessera.neg %c0 : tensor<70x130xf32>\n  return %w"))
    target = kernels("t.tsb")["name"]
    aot("build", "wrong.mlir", "-o", "wrong.tsb", "--target", target)
    for words, code, says in ((("p.tsb", "t.tsb", "60000"), 0, "same"),
                              (("p.tsb", "wrong.tsb", "60000"), 12, "output 'c0' of 'f' differs from the safe plan's"),
                              (("p.tsb", "t.tsb", "1"), 1, "measurement of two bundles"),
                              (("p.tsb", "x.json", "60000"), 2, "")):
        done = subprocess.run([MEASURE, *words], capture_output=True, text=True, check=False, timeout=120)
        need(done.returncode == code and says in done.stdout, (words, done))


def check_usage():
    pathlib.Path("v.mlir").write_text(pathlib.Path("m.mlir").read_text().replace("module @line", "module @line attributes {tessera.virtual_ranks = 2 : i64}"))
    aot("tune", "v.mlir", "-o", "u.tsb", "--store", "u.db", code=6, says="the program has 2 virtual ranks; expected 1")
    aot("tune", "p.mlir", "-o", "u.tsb", "--store", "u.db", "--deadline", "0", code=6)
    aot("tune", "-o", "u.tsb", code=6, says="SRC is missing, or one of")
    aot("tune", "p.mlir", code=6, says="-o OUT is missing")
    aot("tune", "p.mlir", "-o", "u.tsb", "--list", code=6, says="take no SRC")
    aot("tune", "p.mlir", "-o", "u.tsb", "--target", "cuda:sm_90a", code=6, says="candidates are measured on CPUs only")
    aot("tune", "p.mlir", "-o", "u.tsb", "--store", "u.db", "--fake-times", "0", code=6)


def main():
    seed = random.randrange(2**32)
    print("seed", seed)
    random.seed(seed)
    began = time.time()
    write_product()
    for check in (lambda: check_measuring(numpy.random.default_rng(seed)), check_miss, check_adversarial, check_artifact, check_stores, check_interrupt,
                  check_faults, check_usage):
        check()
    print(f"{checks} checks, {time.time() - began:.1f} s")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
