#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Validates the output of `tessera-run --check --json`, `--metrics`, `ls --json` and `tessera-aot inspect --json` against schemas/.

Arguments: tessera-run, tessera-aot, a bundle, the source root. Exits with 77 without jsonschema.
"""
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile

from validate import refuses_changes, validator

RUN, AOT, BUNDLE, ROOT = [str(pathlib.Path(a).resolve()) for a in sys.argv[1:5]]


def run(code, *command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode == code, (command, done.returncode, done.stderr)
    return json.loads(done.stdout)


def make_slice(folder):
    """Makes a copy of BUNDLE with only its last target; returns the names of the others."""
    blobs = folder / "unpacked/blobs/sha256"
    with tarfile.open(BUNDLE) as archive:
        archive.extractall(folder / "unpacked")
    (top,) = json.loads((folder / "unpacked/index.json").read_text("utf-8"))["manifests"]
    *others, _ = json.loads((blobs / top["digest"][7:]).read_text("utf-8"))["manifests"]
    for manifest in others:
        (blobs / manifest["digest"][7:]).unlink()
    subprocess.run([AOT, "repack", str(folder / "unpacked"), "-o", str(folder / "slice.tsb")], check=True)
    return str(folder / "slice.tsb"), [m["annotations"]["dev.tessera.target"] for m in others]


def train(folder):
    """The lines of two runs, the second one resumed, and of calls."""
    digits, log = ROOT + "/examples/digits", folder / "metrics.jsonl"
    data = [f"--data={key}={digits}/{part}-{key.split('_')[-1]}.npy" for part, keys in
            (("train", ("images", "labels")), ("test", ("test_images", "test_labels"))) for key in keys]
    for steps in ("2", "4"):
        subprocess.run([RUN, BUNDLE, *data, "--steps", steps, "--state-dir", str(folder / "S"), "--quiet", "--metrics", str(log)],
                       check=True, stdout=subprocess.DEVNULL)
    subprocess.run([RUN, BUNDLE, "--entry", "predict", f"--input=x={digits}/test-images.npy", "--quiet", "--metrics", str(log),
                    "--measure-memory"], check=True)
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def list_states(folder):
    """The lines of a list, and of one whose newest generation lost its data, compared with the bytes on the disk."""
    def lines(code):
        done = subprocess.run([RUN, "ls", str(folder / "S"), "--json"], stdout=subprocess.PIPE, check=False)
        assert done.returncode == code, done
        return [json.loads(line) for line in done.stdout.splitlines()]
    good = lines(0)
    assert good[-1] == {"generations": len(good) - 1, "damaged": 0, "uncommitted": 0, "verified": False}, good[-1]
    for line in good[:-1]:
        token = line["token"]
        data = (folder / "S" / f"MANIFEST.{token['generation']}.{token['epoch']}").read_bytes()
        size = struct.unpack_from("<I", data, 12)[0]
        assert struct.unpack_from("<7Q", data, 16) == tuple(token[key] for key in (
            "generation", "epoch", "seed", "step", "sample", "virtualRanks", "shuffleVersion"))
        version, = struct.unpack_from("<I", data, 8)
        assert version == 3, "a run knows its data and its program"
        assert struct.unpack_from("<3Q", data, 72) == (token["epochBase"], token["epochBaseSample"], token["rows"])
        hashes = "".join(token[key] for key in ("data", "program", "bundle", "state", "previous"))
        assert data[96:256].hex() == hashes
        lengths = struct.unpack_from("<5H", data, 256)
        texts = "".join(token[key] for key in ("region", "numerics", "topology")).encode()
        pairs = b"".join(bytes([len(name), len(value)]) + (name + value).encode()
                         for name, value in token["hyperparameters"].items())
        assert token["hyperparameters"]["lr"] == "0.001" and list(token["hyperparameters"]) == sorted(token["hyperparameters"])
        assert sum(lengths[:3]) == len(texts) and lengths[3] == 0 and lengths[4] == len(pairs)
        assert data[266:266 + len(texts + pairs)] == texts + pairs
        assert hashlib.sha256(data[:size - 32]).digest() == data[size - 32:size] == bytes.fromhex(token["hash"])
        assert hashlib.sha256(data[:-32]).digest() == data[-32:] == bytes.fromhex(line["manifest"])
    newest = good[0]["token"]
    gone = folder / "S/gen" / f"{newest['epoch']}-{newest['generation']}" / "segment.0"
    assert gone.stat().st_size == good[0]["bytes"]
    gone.unlink()
    bad = lines(10)
    assert [line for line in bad if isinstance(line.get("damaged"), str)] == bad[:1] and bad[1:-1] == good[1:-1], bad
    return good + bad


def main():
    check, inspect, metrics, token = [validator(ROOT, name) for name in ("check", "inspect", "metrics", "token")]
    with tempfile.TemporaryDirectory() as folder:
        broken, missing = pathlib.Path(folder) / "broken.tsb", pathlib.Path(folder) / "no.tsb"
        broken.write_bytes(pathlib.Path(BUNDLE).read_bytes()[:5120])
        one = str(pathlib.Path(folder) / "one.tsb")
        subprocess.run([AOT, "build", ROOT + "/examples/digits/digits.mlir", "-o", one,
                        "--target=cpu:x86-64-v2"], check=True)
        good = run(0, RUN, "--check", "--json", BUNDLE)
        seen = [good, run(0, RUN, one, "--check", "--json"),
                run(2, RUN, "--check", "--json", str(broken)),
                run(7, RUN, "--check", "--json", str(missing)),
                run(6, RUN, "--check", "--json", BUNDLE, "--cpu", "pentium"),
                run(5, RUN, "--check", "--json", one, "--cpu", "x86-64-v3")]
        part, gone = make_slice(pathlib.Path(folder))
        views = [run(0, AOT, "inspect", "--json", name) for name in (BUNDLE, one, part)]
        planned = run(0, AOT, "inspect", "--json", "--schedule", one)
        lines = train(pathlib.Path(folder))
        states = list_states(pathlib.Path(folder))
        text = subprocess.run([AOT, "inspect", part], stdout=subprocess.PIPE, check=True).stdout.decode()
    for validate, document in [(check, d) for d in seen] + [(inspect, d) for d in [*views, planned]] + [(metrics, d) for d in lines] + [
            (token, d) for d in states]:
        for error in validate.iter_errors(document):
            sys.exit(f"{error.message[:200]} at {list(error.path)}")
    assert planned["schedule"]["targets"][0]["kernels"] and "targets" not in views[1]["schedule"]
    assert good["runs"] and sum(t["chosen"] for t in good["targets"]) == 1
    assert not any(d["runs"] or d["memory"] for d in seen[2:])
    for view in views:
        names = [s["name"] for s in view["sections"]]
        assert "provenance" in names and "other" not in names, names
    assert [v["slice"] for v in views] == [None, None, {"index": views[0]["digest"], "missingTargets": gone}]
    assert views[2]["digest"] == views[0]["digest"]
    assert f"slice of that bundle; not here: {', '.join(gone)}\n" in text, text
    assert {d["event"] for d in lines} == {"step", "eval", "save", "resume", "call", "workspace"}, lines
    count = refuses_changes(check, good, ())
    for line in lines:
        bare = {**line, **{key: {} for key in ("outputs", "rates") if key in line}}
        count += refuses_changes(metrics, bare, ("rates",))
    for line in states:
        count += refuses_changes(token, line, ())
    for view in views[1:]:
        count += refuses_changes(inspect, view, ("effects", "workspaceBytes", "peakBytes", "launchBytes", "commands"))
    print(len(seen), "checks,", len(views), "views and", len(lines), "lines of metrics and", len(states), "of states are valid;", count, "changed ones are not")


main()
