#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: region_ranks.py TESSERA_AOT TESSERA_RUN

Regions of resilience over virtual ranks, with unsharded and sharded state: with any number of ranks the bits are those of the
program without a region. A region fails in values that all ranks have, or in one row of one rank: all ranks handle the failure
once and run the region again, or return to the last committed state; a failure that cannot be handled ends all ranks in the same
way. Ranks are killed in between: the run continues with another number of ranks.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import models

aot, run = sys.argv[1:]
VRANKS, BATCH, ROWS, STEPS = 8, 16, 160, 10
STAGES = ("none", "zero1", "zero2", "zero3")
check = models.Checks()


def program(mode, stage, fails="never", mended=True):
    """`mode`: of the region; "plain": there is none; "rows": it yields the losses of rows. `fails`: "never"; "all" (the loss is divided by the number of failures so far); "row" (as long as there was no failure,
    one of the rows of the data asks for a row of %e that is not there)."""
    shard = "" if stage == "none" else (', tessera.opt.shard = #tessera.opt.shard<axis = "data">, '
                                        f'tessera.opt.partition = #tessera.opt.partition<"{stage}">')
    scaled, positions, events = "%mean", "%t", ""
    state = '%f = tessera.opt.state "failures" of "w" kind "count" init = #tessera.constant<0.0> : tensor<f32>' if fails != "never" else ""
    divide = row = ""
    if fails == "all":
        divide, scaled = "%divided = tessera.div %mean, %f : tensor<f32>, tensor<f32> -> tensor<f32>", "%divided"
    if fails == "row":
        positions = "%positions"
        row = f"""
    %zero = tessera.constant dense<0.0> : tensor<f32>
    %bad = tessera.constant dense<36> : tensor<i64>
    %far = tessera.constant dense<64> : tensor<i64>
    %none = tessera.compare eq %f, %zero : tensor<f32>, tensor<f32> -> tensor<i1>
    %is = tessera.compare eq %t, %bad : tensor<{BATCH}xi64>, tensor<i64> -> tensor<{BATCH}xi1>
    %both = tessera.and %is, %none : tensor<{BATCH}xi1>, tensor<i1> -> tensor<{BATCH}xi1>
    %positions = tessera.where %both, %far, %t : tensor<{BATCH}xi1>, tensor<i64>, tensor<{BATCH}xi64> -> tensor<{BATCH}xi64>"""
    if mended:
        events = "tessera.resilience.on_failure(handler = @fail)"
    body = f"""{state}{row}
    %h = tessera.matmul %x, %w : tensor<{BATCH}x7xf32>, tensor<7x5xf32> -> tensor<{BATCH}x5xf32>
    %g = tessera.gelu %h : tensor<{BATCH}x5xf32>
    %r = tessera.gather %e, {positions} {{axis = 0 : i64}} : tensor<37x5xf32>, tensor<{BATCH}xi64> -> tensor<{BATCH}x5xf32>
    %s = tessera.add %g, %r : tensor<{BATCH}x5xf32>, tensor<{BATCH}x5xf32> -> tensor<{BATCH}x5xf32>
    %l = tessera.matmul %s, %e {{transpose_b = true}} : tensor<{BATCH}x5xf32>, tensor<37x5xf32> -> tensor<{BATCH}x37xf32>
    %c = tessera.cross_entropy %l, %t : tensor<{BATCH}x37xf32>, tensor<{BATCH}xi64> -> tensor<{BATCH}xf32>
    %mean = tessera.mean %c {{axes = [0]}} : tensor<{BATCH}xf32> -> tensor<f32>
    {divide}"""
    if mode == "plain":
        begin, end, previous = "", "%out = tessera.add %mean, %nought : tensor<f32>, tensor<f32> -> tensor<f32>", "%nought"
    else:
        begin = f"""tessera.resilience.on_recovery(handler = @back)
    %imported, %previous = tessera.target.import "forward" : !tessera_sr.token, tensor<f32>
    %token, %yielded = tessera.resilience.region {{mode = "{mode}", name = "forward"}} {{
    {events}"""
        end, previous = f"""tessera.yield {scaled} : tensor<f32>
    }} : !tessera_sr.token, tensor<f32>
    tessera.target.export %token : !tessera_sr.token
    %out = tessera.add %yielded, %nought : tensor<f32>, tensor<f32> -> tensor<f32>""", "%previous"
    if mode == "rows":
        # Virtual ranks the region in rows, which each virtual rank has; exported, they are whole.
        rows = f"tensor<{BATCH}xf32>"
        begin = f'''%imported, %old = tessera.target.import "forward" : !tessera_sr.token, {rows}
    %token, %yielded = tessera.resilience.region {{mode = "replay", name = "forward"}} {{'''
        body = body.replace(f"%mean = tessera.mean %c {{axes = [0]}} : {rows} -> tensor<f32>", "")
        end, previous = f'''tessera.yield %c : {rows}
    }} : !tessera_sr.token, {rows}
    tessera.target.export %token : !tessera_sr.token
    %previous = tessera.mean %old {{axes = [0]}} : {rows} -> tensor<f32>
    %out = tessera.mean %yielded {{axes = [0]}} : {rows} -> tensor<f32>''', "%previous"
    handlers = models.counter("recoveries", "back", "w") + (models.counter("failures", "fail", "w") if fails != "never" or mended else "")
    return f"""module @m attributes {{tessera.mesh = {{data = {VRANKS}}}}} {{{handlers if mode in ("replay", "restart") else ""}
  func.func @train(%x: tensor<{BATCH}x7xf32> {{tessera.data = "x"}}, %t: tensor<{BATCH}xi64> {{tessera.data = "t"}})
      -> (tensor<f32> {{tessera.name = "loss"}}, tensor<f32> {{tessera.name = "previous"}}, tensor<f32> {{tessera.name = "grad_norm"}})
      attributes {{tessera.entry = "train"}} {{
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<7x5xf32>
    %e = tessera.param "e" init = #tessera.uniform<-0.5, 0.5> : tensor<37x5xf32>
    %nought = tessera.constant dense<0.0> : tensor<f32>
    {begin}
    {body}
    {end}
    %norm = tessera.minimize %out {{optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-3, weight_decay = 1.0e-1>, clip_norm = 0.5{shard}}} : tensor<f32> -> tensor<f32>
    return %out, {previous}, %norm : tensor<f32>, tensor<f32>, tensor<f32>
  }}
  func.func @infer(%x: tensor<{BATCH}x7xf32> {{tessera.name = "x"}}) -> (tensor<{BATCH}x5xf32> {{tessera.name = "h"}}) attributes {{tessera.entry = "infer"}} {{
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<7x5xf32>
    %h = tessera.matmul %x, %w : tensor<{BATCH}x7xf32>, tensor<7x5xf32> -> tensor<{BATCH}x5xf32>
    return %h : tensor<{BATCH}x5xf32>
  }}
}}
"""


def write_npy(path, shape, kind, data):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def build(folder, name, text):
    (folder / f"{name}.mlir").write_text(text, "utf-8")
    subprocess.run([aot, "build", folder / f"{name}.mlir", "-o", folder / f"{name}.tsb", "--target", "cpu:x86-64-v3"], check=True)


def command(folder, name, state, ranks, *more, steps=STEPS, data=""):
    return [run, f"{folder}/{name}.tsb", "--steps", str(steps), "--seed", "5", "--quiet", "--threads", "1", "--state-dir", f"{folder}/{state}",
            "--data", f"x={folder}/{data}x.npy", "--data", f"t={folder}/{data}t.npy", *(["--ranks", str(ranks)] if ranks else []), *more]


def train(folder, name, state, ranks, *more, steps=STEPS, data="", under=()):
    return subprocess.run([*under, *command(folder, name, state, ranks, *more, steps=steps, data=data)], check=False, capture_output=True,
                          text=True)


def tensors(folder, state):
    path = folder / f"{state}.safetensors"
    subprocess.run([run, "export", folder / state, "-o", path], check=True, stdout=subprocess.DEVNULL)
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    return {name: data[8 + length + row["data_offsets"][0]:8 + length + row["data_offsets"][1]]
            for name, row in header.items() if name != "__metadata__"}


def count(found, name):
    return struct.unpack("<f", found[name])[0]


def same(found, wanted):
    return all(found.get(name) == value for name, value in wanted.items())


def undisturbed(folder):
    """Returns what the program without a region ends with."""
    plain = {}
    for stage in STAGES:
        build(folder, f"plain.{stage}", program("plain", stage))
        done = train(folder, f"plain.{stage}", f"plain.{stage}.state", 0)
        check(f"plain {stage} trains", done.returncode == 0, done.stderr)
        plain = plain or tensors(folder, f"plain.{stage}.state")
        for mode in ("replay", "restart"):
            name = f"{mode}.{stage}"
            build(folder, name, program(mode, stage))
            check(f"{name}: more ranks than virtual ranks are refused", train(folder, name, "none", VRANKS + 1).returncode == 6)
            for ranks in (0, 1, 2, 3, 5, 7, 8):
                state = f"{name}.{ranks}.state"
                done = train(folder, name, state, ranks)
                found = tensors(folder, state) if done.returncode == 0 else {}
                check(f"{name}, {ranks} ranks: the bits of the program without a region", same(found, plain), done.stderr)
                check(f"{name}, {ranks} ranks: no event", found and count(found, "recoveries") == 0 and found["forward.export.0"] != bytes(4))
    build(folder, "rows", program("rows", "zero3"))
    for ranks in (0, 2, 3):
        metrics = folder / f"rows.{ranks}.jsonl"
        done = train(folder, "rows", f"rows.{ranks}.state", ranks, "--metrics", metrics)
        found = tensors(folder, f"rows.{ranks}.state") if done.returncode == 0 else {}
        check(f"rows, {ranks} ranks: the bits of the program without a region", same(found, plain), done.stderr)
        steps = [json.loads(line)["outputs"] for line in metrics.read_text("utf-8").splitlines() if '"event":"step"' in line]
        check(f"rows, {ranks} ranks: each step has the rows of the one before",
              all(abs(b["previous"] - a["loss"]) <= 1e-6 * a["loss"] for a, b in zip(steps, steps[1:])) and len(steps) == STEPS, steps)
    return plain


def find_virtual_rank(folder):
    """The one whose second row is sample 77 when it first comes: told by a label of the data that is none, with any number of ranks."""
    labels = (folder / "t.npy").read_bytes()
    at = len(labels) - 8 * (ROWS - 77)
    (folder / "bad.npy").write_bytes(labels[:at] + struct.pack("<q", 99) + labels[at + 8:])
    found = set()
    for ranks in (0, 2, 3, 8):
        words = [word.replace("/t.npy", "/bad.npy") for word in command(folder, "plain.none", f"bad.{ranks}.state", ranks)]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        said = re.search(r"row 77 of the data: t\[(\d+)\] is 99; expected 0 to 36 at ", done.stderr)
        check(f"a label that is none, {ranks} ranks: the element is one of the batch", done.returncode == 8 and said, done.stderr)
        found.add(int(said[1]) if said else -1)
    element = found.pop()
    check("the same element with any number of ranks", not found and element % (BATCH // VRANKS) == 1, element)
    return element // (BATCH // VRANKS)


def failing(folder, plain):
    virtual = find_virtual_rank(folder)
    row = f"an index[1] is 64; expected 0 to 36 on virtual rank {virtual} at "
    for mode, words in (("replay", "region 'forward' failed"), ("restart", "the run resumes from the last committed state")):
        for fails, stage in (("all", "none"), ("row", "none"), ("row", "zero2"), ("row", "zero3")):
            name = f"{mode}.{fails}.{stage}"
            build(folder, name, program(mode, stage, fails))
            for ranks in (0, 2, 3, 8):
                state = f"{name}.{ranks}.state"
                done = train(folder, name, state, ranks, "--save-every", "3")
                found = tensors(folder, state) if done.returncode == 0 else {}
                check(f"{name}, {ranks} ranks: says it once", done.returncode == 0 and done.stderr.count(words) == 1, done.stderr)
                check(f"{name}, {ranks} ranks: says why", ("has inf at element 0" if fails == "all" else row) in done.stderr,
                      done.stderr)
                check(f"{name}, {ranks} ranks: one failure, handled once", found and count(found, "failures") == 1, done.stderr)
                check(f"{name}, {ranks} ranks: the bits of an undisturbed run", same(found, plain), done.stderr)
        if mode == "replay":
            # What is recorded of a failed attempt is what the last one made: one log, which any number of ranks replays.
            logs = []
            for ranks in (0, 2, 8):
                data = ("--data", f"x={folder}/x.npy", "--data", f"t={folder}/t.npy", "--steps", str(STEPS), "--seed", "5", "--quiet")
                count_of = ("--ranks", str(ranks)) if ranks else ()
                program_run = [run, f"{folder}/replay.row.zero3.tsb", *data, *count_of]
                for log in (("--record", f"{folder}/log.{ranks}"), ("--replay", f"{folder}/log.0")):
                    done = subprocess.run([*program_run, *log], check=False, capture_output=True, text=True)
                    check(f"{log[0]}, {ranks} ranks", done.returncode == 0 and words in done.stderr, done.stderr)
                logs.append((folder / f"log.{ranks}").read_bytes())
            check("one log with any number of ranks", logs[0] == logs[1] == logs[2])
        codes = {}
        for fails in ("all", "row"):
            name = f"{mode}.{fails}.lost"
            build(folder, name, program(mode, "none", fails, mended=False))
            for ranks in (0, 2, 3, 8):
                done = train(folder, name, f"{name}.{ranks}.state", ranks)
                codes.setdefault(fails, set()).add(done.returncode)
                check(f"{name}, {ranks} ranks: gives up", done.returncode not in (0, 22) and "region 'forward'" in done.stderr, done.stderr)
        check(f"{mode}: one exit code with any number of ranks", all(len(each) == 1 for each in codes.values()), codes)


def killed(folder):
    """Killed with one number of ranks, taken up with another, at all stages of a run of 300 steps."""
    name = "restart.zero2"
    wanted = None
    for kills in (0, 3):
        state, ranks = f"kills.{kills}", (4, 1, 2, 8)
        for life in range(kills):
            with subprocess.Popen(command(folder, name, state, ranks[life], "--save-every", "10", steps=300), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as running:
                ends = time.monotonic() + 20
                while running.poll() is None and time.monotonic() < ends:
                    if len(list((folder / state).glob("MANIFEST.*"))) and max(
                            int(path.name.split(".")[1].split("-")[0], 16) for path in (folder / state).glob("MANIFEST.*")) >= 2 + life:
                        break
                    time.sleep(0.01)
                running.send_signal(signal.SIGKILL)
        done = train(folder, name, state, ranks[kills], "--save-every", "10", steps=300)
        found = tensors(folder, state) if done.returncode == 0 else {}
        check(f"{kills} kills: ends", done.returncode == 0, done.stderr)
        recoveries = count(found, "recoveries") if found else -1
        print(f"{kills} kills, {recoveries:g} recoveries")
        check(f"{kills} kills: a recovery for each that a state was taken up after", 0 <= recoveries <= kills and bool(recoveries) == bool(kills))
        found.pop("recoveries", None)
        wanted = wanted or found
        check(f"{kills} kills: as if undisturbed", found == wanted)


OLD_STEPS, NEW_ROWS, NEW_STEPS = 7, 130, 21


def positions(folder, state):
    """What the tokens of a folder of states say of seed, step, sample, virtual ranks, order, epoch, its first sample, rows and data: by step."""
    said = subprocess.run([run, "ls", folder / state, "--json"], check=True, capture_output=True, text=True).stdout
    tokens = [json.loads(line)["token"] for line in said.splitlines() if '"token"' in line]
    names = ("seed", "step", "sample", "virtualRanks", "shuffleVersion", "epochBase", "epochBaseSample", "rows", "data")
    return {token["step"]: [token[name] for name in names] for token in tokens}


def new_data(folder):
    """A region fails while a run resumes from a state with other data, whose epoch begins then: it has begun once, whatever comes after."""
    write_rows(folder, "old.", ROWS, [])
    write_rows(folder, "new.", NEW_ROWS, [63])  # drawn in step 15: there are saves of new data before it
    wanted = wanted_position = None
    for name in ("plain.none", "replay.row.none", "restart.row.none", "replay.row.zero3", "restart.row.zero3"):
        done = train(folder, name, f"old.{name}", 0, steps=OLD_STEPS, data="old.")
        check(f"{name}: trains with the old data", done.returncode == 0, done.stderr)
        # One save, at the end, and several: a run goes back to the old data's last state, and to the new data's.
        for ranks, every in ((0, 0), (0, 4), (2, 4), (3, 0), (8, 5)):
            state, what = f"new.{name}.{ranks}.{every}", f"{name}, new data, {ranks} ranks, a save every {every} steps"
            shutil.copytree(folder / f"old.{name}", folder / state)
            saves = ["--save-every", str(every)] if every else []
            done = train(folder, name, state, ranks, "--new-data", *saves, steps=NEW_STEPS, data="new.")
            found = tensors(folder, state) if done.returncode == 0 else {}
            where = positions(folder, state).get(NEW_STEPS)
            wanted, wanted_position = wanted or found, wanted_position or where
            check(f"{what}: the bits of an undisturbed run", same(found, wanted), done.stderr)
            check(f"{what}: the position", where == wanted_position, (where, wanted_position))
            if name != "plain.none":
                check(f"{what}: the region has failed", found and count(found, "failures") == 1, done.stderr)
            done = train(folder, name, state, 2 if ranks == 0 and name != "plain.none" else 0, steps=NEW_STEPS + 3, data="new.")
            check(f"{what}: continues without the flag", done.returncode == 0, done.stderr)
            done = train(folder, name, state, ranks, steps=NEW_STEPS + 5, data="old.")
            check(f"{what}: the old data is refused", done.returncode == 12 and f"trained with {NEW_ROWS} rows" in done.stderr, done.stderr)
    check("the position", wanted_position[5:8] == [1, OLD_STEPS * BATCH, NEW_ROWS], wanted_position)
    not_hashed(folder, wanted)


def not_hashed(folder, wanted):
    """Data that is read for training and then cannot be read to be hashed: what is saved has no digest. A run that goes back to that state
    continues with the new data, and does not begin another epoch of it. If the data cannot be read when the run has gone back, that error ends it:
    it is no other failure of the region."""
    name, new = "restart.row.none", ("--new-data", "--save-every", "4")
    census = ["strace", "-f", "-qq", "-e", "trace=pread64", "-P", folder / "new.t.npy", "-o", folder / "trace"]

    def count_reads(steps):
        """The last read is for the hash: before the first step, and again when the region has failed."""
        state = f"census.{steps}"
        shutil.copytree(folder / f"old.{name}", folder / state)
        done = train(folder, name, state, 0, *new, steps=steps, data="new.", under=census)
        return 0 if done.returncode else len((folder / "trace").read_text("utf-8").splitlines())

    first = count_reads(OLD_STEPS + 1) if shutil.which("strace") else 0
    if not first:
        print("skipped: data that cannot be hashed: strace does not work here")
        return

    def failing_read(state, when):
        shutil.copytree(folder / f"old.{name}", folder / state)
        inject = [*census, "-e", f"inject=pread64:error=EIO:when={when}"]
        done = train(folder, name, state, 0, *new, steps=NEW_STEPS, data="new.", under=inject)
        check(f"{state}: the region fails", done.stderr.count("the run resumes from the last committed state") == 1, done.stderr)
        check(f"{state}: one epoch begins", done.stderr.count("new data: ") == 1, done.stderr)
        return done

    done = failing_read("unhashed", f"{first}..{first + 1}")
    check("unhashed: it is told", "the state is saved without a digest of its data" in done.stderr, done.stderr)
    check("unhashed: the bits of an undisturbed run", done.returncode == 0 and same(tensors(folder, "unhashed"), wanted), done.stderr)
    done = failing_read("unreadable", f"{count_reads(NEW_STEPS)}+")
    check("unreadable: it is told", done.returncode == 7 and "error: cannot read" in done.stderr, done.stderr)


def write_rows(folder, prefix, rows, bad):
    """Data of so many rows; the labels of those that are bad are 36."""
    labels = [36 if row in bad else random.randrange(36) for row in range(rows)]
    write_npy(folder / f"{prefix}x.npy", (rows, 7), "<f4", struct.pack(f"<{7 * rows}f", *[random.gauss(0, 1) for _ in range(7 * rows)]))
    write_npy(folder / f"{prefix}t.npy", (rows,), "<i8", struct.pack(f"<{rows}q", *labels))


def main(folder):
    random.seed(1)
    write_rows(folder, "", ROWS, [77])
    plain = undisturbed(folder)
    failing(folder, plain)
    killed(folder)
    new_data(folder)
    print(check)
    return check.failures


with tempfile.TemporaryDirectory() as temporary:
    sys.exit(1 if main(pathlib.Path(temporary)) else 0)
