#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`tessera-run --trace` and `--roofline`: the files are validated against schemas/, against the trace format, and against the plan.

Arguments: tessera-run, tessera-aot, a bundle of digits, the source root. Exits with 77 without jsonschema or NumPy.
"""
import collections
import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

try:
    import jsonschema
    import numpy
except ImportError:
    sys.exit(77)

RUN, AOT, BUNDLE, ROOT = [str(pathlib.Path(a).resolve()) for a in sys.argv[1:5]]
sys.path.insert(0, ROOT + "/tests/gpu/modules")
from traces import check_format  # noqa: E402
DIGITS = ROOT + "/examples/digits"
TRAIN = [f"--data={key}={DIGITS}/train-{key}.npy" for key in ("images", "labels")]
TEST = [f"--data=test_{key}={DIGITS}/test-{key}.npy" for key in ("images", "labels")]
SCHEMA = json.loads((pathlib.Path(ROOT) / "schemas/trace.schema.json").read_text("utf-8"))
jsonschema.Draft202012Validator.check_schema(SCHEMA)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
NUMBERS = ("launches", "seconds", "bytes", "flops", "flops_per_byte", "gb_per_s", "gflop_per_s", "of_bound")


def run(*arguments, code=0):
    done = subprocess.run([RUN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done.stderr.decode()


def read_trace(path):
    """Returns {track: spans sorted by time}, the memory values, and the metadata of the whole trace."""
    trace = json.loads(path.read_text("utf-8"))
    for error in VALIDATOR.iter_errors(trace):
        sys.exit(f"{path.name}: {error.message[:200]} at {list(error.path)}")
    assert not check_format(trace), (path.name, check_format(trace)[:3])
    events, other = trace["traceEvents"], trace["otherData"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {e["pid"] for e in events} == {other["rank"]}
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == [f"rank {other['rank']}"]
    times = [e["ts"] for e in events if e["ph"] != "M"]
    assert times == sorted(times), "times fall"
    tracks = {name: [] for name in names.values()}
    for event in events:
        if event["ph"] == "X":
            tracks[names[event["tid"]]].append(event)
    for name, spans in tracks.items():
        open_ends = []
        for span in spans:
            begin, end = nanoseconds(span["ts"]), nanoseconds(span["ts"]) + nanoseconds(span["dur"])
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], (name, span, "neither nests nor follows")
            open_ends.append(end)
    return tracks, [e for e in events if e["ph"] == "C"], other


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def inside(spans, outer):
    begin, end = nanoseconds(outer["ts"]), nanoseconds(outer["ts"]) + nanoseconds(outer["dur"])
    return [s for s in spans if begin <= nanoseconds(s["ts"]) and nanoseconds(s["ts"]) + nanoseconds(s["dur"]) <= end]


def read_roofline(path):
    with open(path, newline="") as file:
        first, *rows = list(csv.DictReader(file))
    assert first["kernel"] == "(machine)", first
    limits = {key: float(first[key]) for key in ("gb_per_s", "gflop_per_s")}
    assert min(limits.values()) > 0.1, limits
    table = {key: numpy.array([float(r[key]) if r[key] else numpy.nan for r in rows]) for key in NUMBERS}
    table["kernel"], table["bound"] = [r["kernel"] for r in rows], [r["bound"] for r in rows]
    assert len(set(table["kernel"])) == len(rows) and (numpy.diff(table["seconds"]) <= 0).all()
    numpy.testing.assert_allclose(table["gb_per_s"], table["bytes"] / table["seconds"] / 1e9, rtol=1e-6)
    numpy.testing.assert_allclose(table["gflop_per_s"], table["flops"] / table["seconds"] / 1e9, rtol=1e-6)
    numpy.testing.assert_allclose(table["flops_per_byte"], table["flops"] / table["bytes"], rtol=1e-6)
    floors = numpy.stack([table["bytes"] / limits["gb_per_s"], numpy.nan_to_num(table["flops"]) / limits["gflop_per_s"]]) / 1e9
    numpy.testing.assert_allclose(table["of_bound"], floors.max(0) / table["seconds"], rtol=1e-6)
    assert table["bound"] == [("memory", "compute")[i] for i in floors.argmax(0)]
    return table


def schedule_flops():
    """Returns the schedule of the bundle by kernel, read with a tar and a JSON reader."""
    import tarfile
    with tarfile.open(BUNDLE) as archive:
        for member in archive.getmembers():
            data = archive.extractfile(member).read() if member.isfile() else b""
            if data.startswith(b'{"formatVersion":1,"entries"'):
                return {g["name"]: g["flops"] for g in json.loads(data)["groups"]}
    raise AssertionError("no schedule")


def check_training(folder):
    run(BUNDLE, *TRAIN, *TEST, "--steps", "12", "--save-every", "4", "--state-dir", str(folder / "S"), "--threads", "1", "--quiet",
        "--trace", str(folder / "t.json"), "--trace-steps", "3:9", "--roofline", str(folder / "r.csv"))
    tracks, memory, other = read_trace(folder / "t.json")
    assert other == {"rank": 0, "firstStep": 3, "lastStep": 9, "dropped": 0}, other
    steps = [s for s in tracks["steps"] if s["name"].startswith("step ")]
    assert [s["name"] for s in steps] == [f"step {i}" for i in range(3, 10)], steps
    launches = collections.Counter()
    for step in steps:
        kernels = inside(tracks["kernels"], step)
        (data,) = [s for s in inside(tracks["steps"], step) if s["name"] == "data"]
        (train,) = [s for s in inside(tracks["steps"], step) if s["name"] == "train"]
        assert sum(nanoseconds(k["dur"]) for k in kernels) <= nanoseconds(train["dur"]) <= nanoseconds(step["dur"])
        assert nanoseconds(data["ts"]) + nanoseconds(data["dur"]) <= nanoseconds(train["ts"])
        assert inside(kernels, train) == kernels and all("digits.mlir:" in k["args"]["location"] for k in kernels)
        launches.update(k["name"] for k in kernels)
    assert sum(launches.values()) == len(tracks["kernels"]) and set(launches.values()) == {7}, launches
    saves = [s for s in tracks["saves"] if s["name"].startswith("save ")]
    assert [s["name"] for s in saves] == ["save 4", "save 8"], saves
    for save in saves:
        parts = collections.Counter(s["name"] for s in inside(tracks["saves"], save))
        assert parts["write"] and parts["fsync"] and parts["commit"] == 1, parts
        assert len(inside(tracks["hashes of saves"], save)) == 1
        copied = [s for s in tracks["steps"] if s["name"] == "copy" and nanoseconds(s["ts"]) < nanoseconds(save["ts"])]
        assert copied or parts["copy"]
    check_plan(folder, launches, memory)


def check_plan(folder, launches, memory):
    """Bytes and operations are those of the plan, and the memory in use never exceeds it."""
    inspect = json.loads(subprocess.run([AOT, "inspect", "--json", BUNDLE], stdout=subprocess.PIPE, check=True).stdout)
    (train,) = [e for e in inspect["entries"] if e["name"] == "train"]
    table = read_roofline(folder / "r.csv")
    assert dict(zip(table["kernel"], table["launches"])) == dict(launches)
    assert table["bytes"].sum() == 7 * train["launchBytes"] > 0, (table["bytes"].sum(), train["launchBytes"])
    flops = schedule_flops()
    numpy.testing.assert_array_equal(table["flops"], [7 * flops[k] for k in table["kernel"]])
    values = numpy.array([m["args"]["bytes"] for m in memory])
    assert values.max() - values.min() <= train["peakBytes"] and len(set(values)) > 3
    tensors = sum(t["sizeBytes"] for t in inspect["tensors"])
    assert tensors < values.min() and values.max() <= tensors + train["peakBytes"] + values.min(), values


def check_defaults(folder):
    """The first ten steps of any run; a resumed run; more events than fit are not an error."""
    for steps, first in (("15", 1), ("18", 16)):
        run(BUNDLE, *TRAIN, "--steps", steps, "--state-dir", str(folder / "D"), "--quiet", "--trace", str(folder / "d.json"))
        tracks, _, other = read_trace(folder / "d.json")
        assert (other["firstStep"], other["lastStep"]) == (first, first + 9), other
        seen = [s["name"] for s in tracks["steps"] if s["name"].startswith("step ")]
        assert seen == [f"step {i}" for i in range(first, min(first + 10, int(steps) + 1))], seen
    run(BUNDLE, *TRAIN, "--steps", "3", "--quiet", "--trace", str(folder / "d.json"), "--trace-steps", "7:9")
    tracks, _, _ = read_trace(folder / "d.json")
    assert not tracks["kernels"] and not tracks["steps"], tracks


def check_others(folder):
    """An evaluation and a call are traced completely; the results are the same bits as without a trace."""
    images = numpy.load(f"{DIGITS}/test-images.npy")
    run(BUNDLE, "--entry", "evaluate", *TEST, "--quiet", "--trace", str(folder / "e.json"), "--roofline", str(folder / "e.csv"))
    tracks, _, _ = read_trace(folder / "e.json")
    runs = [s for s in tracks["steps"] if s["name"] == "evaluate"]
    assert len(runs) == -(-len(images) // 64), len(runs)
    table = read_roofline(folder / "e.csv")
    assert table["launches"].sum() == len(tracks["kernels"]) and set(table["launches"]) <= {1, len(runs)}, table["launches"]
    run(BUNDLE, "--entry", "predict", "--input", f"x={DIGITS}/test-images.npy", "--output", f"y={folder}/y.npy", "--quiet",
        "--trace", str(folder / "c.json"))
    tracks, memory, other = read_trace(folder / "c.json")
    assert len([s for s in tracks["steps"] if s["name"] == "predict"]) == len(runs) and memory and other["firstStep"] == 0


def check_ranks(folder):
    """Each rank writes a trace with the same clock: while one sends, the others wait."""
    bundle = str(folder / "v4.tsb")
    subprocess.run([AOT, "build", DIGITS + "/digits.mlir", "-o", bundle, "--virtual-ranks=4", "--target=cpu:x86-64-v2"], check=True)
    run(bundle, *TRAIN, "--steps", "6", "--save-every", "2", "--state-dir", str(folder / "R"), "--ranks", "2", "--threads", "1", "--quiet",
        "--trace", str(folder / "w.json"), "--trace-steps", "2:5", "--roofline", str(folder / "w.csv"))
    assert not (folder / "w.json").exists() and not (folder / "w.csv").exists()
    spans, total = [], 0
    inspect = json.loads(subprocess.run([AOT, "inspect", "--json", bundle], stdout=subprocess.PIPE, check=True).stdout)
    (train,) = [e for e in inspect["entries"] if e["name"] == "train"]
    for rank in (0, 1):
        tracks, _, other = read_trace(folder / f"w.rank{rank}.json")
        assert other["rank"] == rank
        exchanges = tracks["exchanges between ranks"]
        assert {"wait", "all_gather"} <= {e["name"] for e in exchanges}, {e["name"] for e in exchanges}
        assert sum(e.get("args", {}).get("bytes", 0) for e in exchanges) > 0
        assert tracks["exchanges of saves"] and tracks["saves"]
        (third,) = [s for s in tracks["steps"] if s["name"] == "step 3"]
        spans.append((third["ts"], third["ts"] + third["dur"]))
        total += read_roofline(folder / f"w.rank{rank}.csv")["bytes"].sum()
    assert max(s[0] for s in spans) < min(s[1] for s in spans), spans
    # Both ranks run the steps of the optimizer; each leaf, and each sum within a rank, runs on one rank only.
    assert 4 * train["launchBytes"] < total < 8 * train["launchBytes"], (total, train["launchBytes"])


def check_format_itself(folder):
    """A trace that a viewer could not open completely is reported."""
    run(BUNDLE, *TRAIN, "--steps", "2", "--quiet", "--trace", str(folder / "g.json"))
    text = (folder / "g.json").read_text("utf-8")
    at = {ph: [i for i, e in enumerate(json.loads(text)["traceEvents"]) if e["ph"] == ph] for ph in "MXC"}
    process, track = at["M"][0], at["M"][1]
    changes = {"a begin": lambda e: e[at["X"][0]].update(ph="B"), "no duration": lambda e: e[at["X"][3]].pop("dur"),
               "a time that is text": lambda e: e[at["X"][1]].update(ts="1"), "a span before zero": lambda e: e[at["X"][1]].update(ts=-1),
               "no name of a process": lambda e: e.pop(process), "two names of a track": lambda e: e.append(dict(e[track])),
               "tracks of one name": lambda e: e[at["M"][3]].update(args=e[track]["args"]), "a span of no track": lambda e: e[at["X"][0]].update(tid=99),
               "a counter of text": lambda e: e[at["C"][0]].update(args={"bytes": "many"}), "a counter of nothing": lambda e: e[at["C"][0]].update(args={}),
               "another series": lambda e: e[at["C"][0]].update(args={"other": 1}), "no name": lambda e: e[at["X"][0]].update(name="")}
    assert not check_format(json.loads(text))
    for what, change in changes.items():
        changed = json.loads(text)
        change(changed["traceEvents"])
        assert check_format(changed), f"{what} is not told"
    assert check_format({"traceEvents": []})


def check_failures(folder):
    """Errors are reported; a killed run leaves no file, a stopped run leaves a complete file."""
    text = run(BUNDLE, *TRAIN, "--steps", "3", "--trace-steps", "1:2", code=6)
    assert "--trace-steps needs --trace or --roofline" in text, text
    for steps in ("3", "0:4", "a:b", "3:", ":3", "1:2:3", "-1:3", "99999999999999999999:3"):
        text = run(BUNDLE, *TRAIN, "--steps", "3", "--trace", str(folder / "x.json"), "--trace-steps", steps, code=6)
        assert f"--trace-steps is '{steps}'; expected FIRST:LAST" in text, text
    text = run(BUNDLE, *TRAIN, "--steps", "3", "--trace", str(folder / "x.json"), "--trace-steps", "5:4", code=6)
    assert "the last step of the trace is 4; the first one is 5" in text, text
    text = run(BUNDLE, "--entry", "evaluate", *TEST, "--trace", str(folder / "x"), "--trace-steps", "1:2", code=6)
    assert "--trace-steps does not apply to an evaluation" in text, text
    # An unwritable file is reported before the first step; if it becomes unwritable later, the state is saved nevertheless.
    for flag in ("--trace", "--roofline"):
        text = run(BUNDLE, *TRAIN, "--steps", "3", "--state-dir", str(folder / "E"), "--quiet", flag, str(folder / "no/x"), code=7)
        assert "cannot write" in text and "no/x" in text and not (folder / "E").exists(), text
    (folder / "gone").mkdir()
    process = subprocess.Popen([RUN, BUNDLE, *TRAIN, "--steps", "100000000", "--state-dir", str(folder / "F"), "--trace",
                                str(folder / "gone/x.json")], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while not process.stderr.readline().startswith("step 1/"):
        assert process.poll() is None
    (folder / "gone").rename(folder / "moved")
    process.terminate()
    text = process.communicate()[1]
    assert process.returncode == 7 and "gone/x.json" in text, text
    listing = subprocess.run([RUN, "ls", str(folder / "F")], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert " step " in listing, listing
    # A failed run writes the trace of its steps until the failure.
    labels = numpy.load(f"{DIGITS}/train-labels.npy")
    labels[:] = 77
    numpy.save(folder / "wrong.npy", labels)
    run(BUNDLE, TRAIN[0], f"--data=labels={folder}/wrong.npy", "--steps", "3", "--quiet", "--trace", str(folder / "f.json"), code=8)
    tracks, _, _ = read_trace(folder / "f.json")
    assert tracks["kernels"] and not [k for k in tracks["kernels"] if "adam" in k["name"]]
    for number, expected in ((signal.SIGKILL, False), (signal.SIGTERM, True)):
        path = folder / f"k{int(number)}.json"
        process = subprocess.Popen([RUN, BUNDLE, *TRAIN, "--steps", "100000000", "--trace", str(path), "--metrics", str(folder / "m")],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (folder / "m").exists() or not (folder / "m").stat().st_size:
            time.sleep(0.01)
        os.kill(process.pid, number)
        process.wait()
        (folder / "m").unlink()
        assert path.exists() == expected
        assert not [f for f in folder.iterdir() if f.name.startswith(path.name) and f != path], "a temporary file is left"
        if expected:
            read_trace(path)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for check in (check_training, check_defaults, check_others, check_ranks, check_format_itself, check_failures):
            check(folder)
            print(check.__name__, "holds")


main()
