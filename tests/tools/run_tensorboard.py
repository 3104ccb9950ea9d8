# SPDX-License-Identifier: Apache-2.0
"""--tensorboard: records, checksums and messages of the event files, against the metrics of the same run.

usage: run_tensorboard.py TESSERA_RUN DIGITS.tsb SOURCE_ROOT

The files are read by the code below, which follows the public formats, and by the package tensorboard if it is there (else one check is
skipped). Files that cannot be written end a run as metrics do.
"""
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

RUN, BUNDLE, ROOT = sys.argv[1:4]
DIGITS = f"{ROOT}/examples/digits"
checks = skips = 0


def need(condition, text):
    global checks
    checks += 1
    assert condition, text


def make_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = make_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def must(condition, text):
    """As need, for what is checked in every record, and counts once for a file."""
    assert condition, text


def records(data):
    at = 0
    while at < len(data):
        must(len(data) - at >= 16, f"{len(data) - at} bytes are left at {at}")
        size, = struct.unpack_from("<Q", data, at)
        crc, = struct.unpack_from("<I", data, at + 8)
        must(crc == masked(data[at:at + 8]), f"the checksum of the length at {at}")
        body = data[at + 12:at + 12 + size]
        must(len(body) == size, f"a record of {size} bytes at {at} is cut")
        must(struct.unpack_from("<I", data, at + 12 + size)[0] == masked(body), f"the checksum of the record at {at}")
        yield body
        at += 16 + size


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of a message: varints, fixed numbers as bytes, bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = (8, at) if kind == 1 else (4, at) if kind == 5 else varint(data, at)
            must(kind in (1, 2, 5), f"wire type {kind}")
            value, at = data[at:at + size], at + size
        must(at <= len(data), "a field is cut")
        yield number, value


def read(folder):
    """The scalars of the only file, as {tag: [(step, value)]}; checks what every event has."""
    path, = folder.iterdir()
    must(path.name.startswith("events.out.tfevents."), path.name)
    scalars, before = {}, 0.0
    for i, body in enumerate(records(path.read_bytes())):
        event = dict(fields(body))
        wall, = struct.unpack("<d", event[1])
        must(before <= wall <= time.time() + 1 and wall > time.time() - 600, f"event {i} is of {wall}")
        before = wall
        if i == 0:
            must(event == {1: event[1], 3: b"brain.Event:2"}, f"the first event is {event}")
            continue
        for number, value in fields(event[5]):
            one = dict(fields(value))
            must(number == 1 and set(one) == {1, 2}, f"a value is {one}")
            scalars.setdefault(one[1].decode(), []).append((event[2], struct.unpack("<f", one[2])[0]))
    return scalars


DATA = [f"--data={name}={DIGITS}/{which}-{kind}.npy" for name, which, kind in (
    ("images", "train", "images"), ("labels", "train", "labels"), ("test_images", "test", "images"), ("test_labels", "test", "labels"))]


def train(*more, code=0):
    done = subprocess.run([RUN, BUNDLE, *DATA, "--quiet", *map(str, more)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    need(done.returncode == code, f"{more}: exit code {done.returncode}; expected {code}: {done.stderr}")
    return done.stderr


def as_float(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def check_values(folder):
    train("--steps", 300, "--eval-every", 50, "--metrics", folder / "m.jsonl", "--tensorboard", folder / "board")
    events = [json.loads(line) for line in (folder / "m.jsonl").read_text("utf-8").splitlines()]
    scalars = read(folder / "board")
    for tag, event in (("train", "step"), ("eval", "eval")):
        names = {name for e in events if e["event"] == event for name in e["outputs"]}
        for name in names:
            want = [(e["step"], as_float(e["outputs"][name])) for e in events if e["event"] == event]
            got = scalars.pop(f"{tag}/{name}")
            need([s for s, _ in got] == [s for s, _ in want], f"{tag}/{name}: the steps")
            need(all(math.isclose(a, b, rel_tol=1e-6) for (_, a), (_, b) in zip(got, want)), f"{tag}/{name}: the values")
    lr = scalars.pop("rates/lr")
    need([s for s, _ in lr] == [e["step"] for e in events if e["event"] == "step"], "rates/lr: the steps")
    need(all(math.isclose(value, 0.001, rel_tol=1e-6) for _, value in lr), "rates/lr: the values")
    rates = scalars.pop("throughput/samples_per_second")
    steps = [e for e in events if e["event"] == "step"]
    need(not scalars, f"more tags: {set(scalars)}")
    need(len(rates) >= 299 and all(rate > 0 and math.isfinite(rate) for _, rate in rates), "the throughput")
    mean = len(rates) / sum(1 / rate for _, rate in rates)
    whole = steps[0]["samples"] * len(steps) / steps[-1]["seconds"]
    need(0.9 < mean / whole < 1.1, f"{mean} samples/s; the metrics say {whole}")
    return {"train/loss": [(e["step"], as_float(e["outputs"]["loss"])) for e in steps]}


def check_package(folder, want):
    global skips
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        skips += 1
        return
    board = EventAccumulator(str(folder / "board"), size_guidance={"scalars": 0})
    board.Reload()
    for tag, values in want.items():
        got = [(event.step, event.value) for event in board.Scalars(tag)]
        need(len(got) == len(values) and all(a[0] == b[0] and math.isclose(a[1], b[1], rel_tol=1e-6) for a, b in zip(got, values)), f"tensorboard reads {tag}")
    need("eval/accuracy" in board.Tags()["scalars"], f"{board.Tags()}")


def check_files(folder):
    for _ in range(2):
        train("--steps", 3, "--tensorboard", folder / "two")
    need(len(list((folder / "two").iterdir())) == 2, "each run has a file of its own")
    train("--steps", 3, "--tensorboard", folder / "ranks", "--save-every", 1, "--state-dir", folder / "S")
    need(len(list((folder / "ranks").iterdir())) == 1, "one file")
    said = train("--steps", 3, "--tensorboard", folder / "none" / "deep", code=7)
    need("cannot create the directory" in said and "No such file or directory" in said, said)
    (folder / "file").touch()
    need("Not a directory" in train("--steps", 3, "--tensorboard", folder / "file", code=7), "a file")
    need("--tensorboard is empty" in train("--steps", 3, "--tensorboard", "", code=6), "an empty name")
    done = subprocess.run([RUN, BUNDLE, "--entry", "predict", "--tensorboard", "x"], stderr=subprocess.PIPE, text=True, check=False)
    need(done.returncode == 6 and "--tensorboard does not apply to a call" in done.stderr, done.stderr)
    # A full disk, by a limit of the file's size: complete records stay, the run saves and tells.
    words = [RUN, BUNDLE, *DATA, "--quiet", "--steps", "100000", "--tensorboard", str(folder / "full"), "--state-dir", str(folder / "T")]
    done = subprocess.run(["bash", "-c", 'ulimit -f 512; exec "$@"', "bash", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    need(done.returncode == 7 and "cannot write events to" in done.stderr and "File too large" in done.stderr, f"{done.returncode} {done.stderr}")
    need("because a log could not be written" in done.stdout, done.stdout)
    need(len(read(folder / "full")["train/loss"]) > 100, "the records before the limit")
    need(any(path.name.startswith("MANIFEST") for path in (folder / "T").iterdir()), "the state was not saved")


def main():
    need(crc32c(b"123456789") == 0xE3069283 and crc32c(bytes(32)) == 0x8A9136AA, "the checksum of RFC 3720")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        want = check_values(folder)
        check_package(folder, want)
        check_files(folder)
    print(f"{checks} checks, 0 failed, {skips} skipped")


main()
