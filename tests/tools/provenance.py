#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The provenance of a bundle, checked with Python's `cryptography` and against the requirements of
SLSA v1.

provenance.py TESSERA_AOT SOURCE_ROOT TESSERA_RUN; 77 without the package.
"""
import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
except ImportError:
    sys.exit(77)

AOT, ROOT = os.path.realpath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
RUN = os.path.realpath(sys.argv[3])
TYPE = b"application/vnd.in-toto+json"
TARGETS = ["cpu:x86-64-v2", "cpu:x86-64-v3"]


def run(*words, code=0):
    done = subprocess.run([AOT, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def index_digest(path):
    with tarfile.open(path) as archive:
        return json.load(archive.extractfile("index.json"))["manifests"][0]["digest"]


def check_statement(statement, path):
    """in-toto Statement v1, SLSA Provenance v1: their required fields, and ours."""
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert [s["digest"] for s in statement["subject"]] == [
        {"sha256": index_digest(path).removeprefix("sha256:")}]
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    predicate = statement["predicate"]
    definition, details = predicate["buildDefinition"], predicate["runDetails"]
    assert definition["buildType"] == "https://tessera.dev/build/v1"
    assert definition["externalParameters"] == {
        "source": "digits.mlir", "targets": TARGETS, "options": {"numerics": "portable"}}
    source = (ROOT / "examples/digits/digits.mlir").read_bytes()
    assert definition["resolvedDependencies"] == [
        {"name": "digits.mlir", "digest": {"sha256": hashlib.sha256(source).hexdigest()}}]
    assert details["builder"]["id"] == "https://tessera.dev/tessera-aot"
    versions = details["builder"]["version"]
    assert versions["tessera"] == run("--version").split()[1]
    assert versions["llvm"].startswith("22.") and versions["zstd"].count(".") == 2, versions
    assert "metadata" not in details, "a time that nobody gave"


def check_stored(path, statement):
    """The predicate is a layer of every target, as stored, so the index signs it."""
    with tarfile.open(path) as archive:
        blob = lambda d: archive.extractfile("blobs/sha256/" + d["digest"][7:]).read()
        index = json.loads(blob(json.load(archive.extractfile("index.json"))["manifests"][0]))
        for descriptor in index["manifests"]:
            stored = [blob(layer) for layer in json.loads(blob(descriptor))["layers"]
                      if layer["mediaType"] == "application/vnd.tessera.provenance.v1+json"]
            assert [json.loads(one) for one in stored] == [statement["predicate"]]
            assert stored[0] in run("provenance", path).encode()


def check_signed(path):
    with open(path, "rb") as file:
        bundle = json.load(file)
    with open("k.pub", "rb") as file:
        public = serialization.load_pem_public_key(file.read())
    envelope = bundle["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"], validate=True)
    signature = base64.b64decode(envelope["signatures"][0]["sig"], validate=True)
    signed = b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE, len(payload), payload)
    public.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
    try:
        public.verify(signature, signed[:-1] + b" ", ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return json.loads(payload)
    raise AssertionError("other bytes verify too")


def check_baked(statement):
    """A bundle made from another one records its inputs: that bundle, and the state that was stored.
    """
    digits = ROOT / "examples/digits"
    done = subprocess.run([RUN, "a.tsb", f"--data=images={digits}/train-images.npy",
                           f"--data=labels={digits}/train-labels.npy", "--steps=1", "--quiet",
                           "--state-dir=S"], capture_output=True, text=True, check=True)
    word, state, *rest = done.stdout.splitlines()[-1].split()
    assert (word, rest[:2]) == ("state", ["step", "1"]), done.stdout
    run("bake", "a.tsb", "--state-dir", "S", "-o", "baked.tsb")
    baked = json.loads(run("provenance", "baked.tsb"))
    inputs = baked["predicate"]["buildDefinition"].pop("resolvedDependencies")
    before = statement["predicate"]["buildDefinition"].pop("resolvedDependencies")
    assert inputs == before + [
        {"name": "bundle", "digest": {"sha256": index_digest("a.tsb").removeprefix("sha256:")}},
        {"name": "state at step 1", "digest": {"sha256": state}}], inputs
    assert baked["predicate"] == statement["predicate"]
    assert f"and state at step 1 sha256:{state}" in run("inspect", "baked.tsb")


def main():
    source = str(ROOT / "examples/digits/digits.mlir")
    run("build", source, "-o", "a.tsb", "--target=" + ",".join(TARGETS))
    statement = json.loads(run("provenance", "a.tsb"))
    check_statement(statement, "a.tsb")
    check_stored("a.tsb", statement)
    run("keygen", "-o", "k")
    assert "signed by key sha256:" in run("provenance", "a.tsb", "--sign", "k", "-o", "p.json")
    assert check_signed("p.json") == statement
    # It differs from the signature of the bundle, and is not accepted as one.
    shutil.copy("p.json", "a.tsb.sigstore.json")
    assert "predicateType" in run("verify", "a.tsb", "--key", "k.pub", code=4)
    assert "predicateType" in run("provenance", "a.tsb", code=4)
    os.unlink("a.tsb.sigstore.json")
    run("provenance", "a.tsb", "--key", "k.pub", "--require-signature", code=4)
    run("sign", "a.tsb", "--key", "k")
    run("provenance", "a.tsb", "--key", "k.pub", "--require-signature")
    check_baked(statement)
    # Bundles without provenance, and invalid arguments.
    golden = str(ROOT / "tests/golden/format-1.0.tsb")
    assert "holds no provenance" in run("provenance", golden, code=8)
    assert "-o OUT is missing" in run("provenance", "a.tsb", "--sign", "k", code=6)
    assert "--sign KEY is missing" in run("provenance", "a.tsb", "-o", "x", code=6)
    assert "needs --key" in run("provenance", "a.tsb", "--require-signature", code=6)
    assert "holds no private key" in run("provenance", "a.tsb", "--sign", "k.pub", "-o", "x", code=6)
    assert "No such file" in run("provenance", "a.tsb", "--sign", "k", "-o", "none/x", code=7)
    assert not os.path.exists("x")


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    main()
    os.chdir("/")
