#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON in bundles and in other output files, validated against schemas/: every blob of several bundles by its media type, statements
and signatures, logs of --record, headers of exported parameters. A JSON blob whose type has no schema is an error.

Arguments: tessera-run, tessera-aot, a bundle, the source root. Exits with 77 without jsonschema.
"""
import base64
import json
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile

from validate import refuses_changes, validator

RUN, AOT, BUNDLE, ROOT = [str(pathlib.Path(a).resolve()) for a in sys.argv[1:5]]
DIGITS = ROOT + "/examples/digits"
INDEX = "application/vnd.oci.image.index.v1+json"
# media type: its schema. Optional members are those that the schema does not require.
SCHEMAS = {
    INDEX: "oci-index", "application/vnd.oci.image.manifest.v1+json": "oci-manifest",
    "application/vnd.tessera.bundle.config.v1+json": "config", "application/vnd.tessera.deployment.v1+json": "deployment",
    "application/vnd.tessera.schedule.v1+json": "schedule", "application/vnd.tessera.provenance.v1+json": "provenance",
    "application/vnd.tessera.external.v1+json": "external", "application/vnd.tessera.position.v1+json": "position"}
MAY_MISS = ("annotations", "variant", "tile", "startedOn", "metadata", "org.opencontainers.image.title", "org.cncf.model.filepath",
            "dev.tessera.compression", "file", "kind", "of", "a", "b", "stream", "batch", "rowsIndependent", "targets", "signature")
FREE = ("options", "version", "data", "predicate", "hyperparameters")  # objects whose members have arbitrary names
checkers, seen, refused = {}, {}, 0


def check(name, document):
    """`document` is valid, and changed versions are not."""
    global refused
    checker = checkers.setdefault(name, validator(ROOT, name))
    for error in checker.iter_errors(document):
        sys.exit(f"{name}: {error.message[:200]} at {list(error.path)}")
    if name not in seen and name != "safetensors":
        refused += refuses_changes(checker, document, MAY_MISS, FREE)
    seen[name] = seen.get(name, 0) + 1


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0, (command, done.returncode, done.stderr)
    return done.stdout


def check_blobs(path):
    """Starting from index.json: every descriptor has the right type for its blob."""
    with tarfile.open(path) as archive:
        read = lambda name: archive.extractfile(name).read()
        check("oci-layout", json.loads(read("oci-layout")))
        todo, types = [(INDEX, json.loads(read("index.json")))], {}
        while todo:
            media, document = todo.pop()
            check(SCHEMAS[media], document)
            for item in document.get("manifests", []) + document.get("layers", []) + [document.get("config")]:
                if isinstance(item, dict) and "digest" in item:
                    types["blobs/sha256/" + item["digest"][7:]] = item["mediaType"]
                    if "manifests" in document:
                        todo.append((item["mediaType"], json.loads(read("blobs/sha256/" + item["digest"][7:]))))
        for name, media in types.items():
            data = read(name)
            if media.endswith("json"):
                assert media in SCHEMAS, f"{path}: no schema for {media}"
                check(SCHEMAS[media], json.loads(data))
            else:
                assert data[:1] != b"{", f"{path}: {name} of type {media} begins like JSON"
        assert {m.name for m in archive.getmembers() if m.isfile()} == set(types) | {"oci-layout", "index.json"}, path


def make_bundles(folder):
    """Checks bundles of several programs; with parameters in a file, with state; the header of the exported parameters."""
    data = [f"--data=images={DIGITS}/train-images.npy", f"--data=labels={DIGITS}/train-labels.npy"]
    names = [BUNDLE]
    for source in ("flash-attn", "convnet"):
        names.append(str(folder / (source + ".tsb")))
        run(AOT, "build", f"{ROOT}/examples/{source}/{source}.mlir", "-o", names[-1], "--target=cpu:x86-64-v2")
    run(RUN, BUNDLE, *data, "--quiet", "--steps", "3", "--state-dir", str(folder / "S"), "--record", str(folder / "run.log"))
    weights = str(folder / "weights.safetensors")
    run(AOT, "bake", BUNDLE, "--state-dir", str(folder / "S"), "--export-params", weights)
    for name, options in (("state", ("--state-dir", str(folder / "S"), "--with-state")), ("named", ("--params", weights, "--reference"))):
        names.append(str(folder / (name + ".tsb")))
        run(AOT, "bake", BUNDLE, *options, "-o", names[-1])
    with open(weights, "rb") as file:
        check("safetensors", json.loads(file.read(struct.unpack("<Q", file.read(8))[0])))
    for line in (folder / "run.log").read_text("utf-8").splitlines():
        check("record", json.loads(line))
    return names


def check_signatures(folder):
    key, path = str(folder / "key"), folder / "signed.tsb"
    path.write_bytes(pathlib.Path(BUNDLE).read_bytes())
    run(AOT, "keygen", "-o", key)
    run(AOT, "sign", str(path), "--key", key)
    run(AOT, "provenance", BUNDLE, "--sign", key, "-o", str(folder / "provenance.json"))
    statement = json.loads(run(AOT, "provenance", BUNDLE))
    check("statement", statement)
    check("provenance", statement["predicate"])
    for file in (folder / "signed.tsb.sigstore.json", folder / "provenance.json"):
        signature = json.loads(file.read_text("utf-8"))
        check("signature", signature)
        check("statement", json.loads(base64.b64decode(signature["dsseEnvelope"]["payload"])))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for path in make_bundles(folder):
            check_blobs(path)
        check_signatures(folder)
    expected = set(SCHEMAS.values()) | {"oci-layout", "safetensors", "record", "statement", "signature"}
    assert set(seen) == expected, expected ^ set(seen)
    print(", ".join(f"{count} {name}" for name, count in sorted(seen.items())), "are valid;", refused, "changed ones are not")


main()
