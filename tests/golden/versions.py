#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What later versions of the format may write: the frozen bundle, edited, with all digests put right.

versions.py TESSERA_RUN TESSERA_AOT SOURCE_ROOT
"""
import hashlib
import io
import json
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile

RUN, AOT, ROOT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
FORMAT, NEEDS = "dev.tessera.format", "dev.tessera.needs"
TYPE = "application/vnd.tessera."


class Bundle:
    """All of a bundle as Python values; `write` hashes from the leaves up."""

    def __init__(self, path):
        with tarfile.open(path) as archive:
            files = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}
        self.blobs = {name.rsplit("/", 1)[1]: data for name, data in files.items() if "/" in name}
        self.root = json.loads(files["index.json"])
        self.marker = files["oci-layout"]
        self.index = json.loads(self.get(self.root["manifests"][0]))
        self.manifests = [json.loads(self.get(d)) for d in self.index["manifests"]]
        self.config = json.loads(self.get(self.manifests[0]["config"]))

    def get(self, descriptor):
        return self.blobs[descriptor["digest"].removeprefix("sha256:")]

    def put(self, descriptor, data):
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        descriptor["digest"], descriptor["size"] = "sha256:" + digest, len(data)

    def layers(self, kind):
        return [layer for manifest in self.manifests for layer in manifest["layers"]
                if layer["mediaType"] == TYPE + kind]

    def write(self, path):
        compact = lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        for manifest, descriptor in zip(self.manifests, self.index["manifests"]):
            self.put(manifest["config"], compact(self.config))
            table = b"".join(tree(self.get(layer)) for layer in manifest["layers"][:-1])
            self.put(manifest["layers"][-1], table)
            self.put(descriptor, compact(manifest))
        self.put(self.root["manifests"][0], compact(self.index))
        used = {d["digest"] for m in self.manifests for d in m["layers"] + [m["config"]]}
        used |= {d["digest"] for d in self.index["manifests"] + self.root["manifests"]}
        files = [("oci-layout", self.marker), ("index.json", compact(self.root))]
        files += [("blobs/sha256/" + digest, data) for digest, data in self.blobs.items()
                  if "sha256:" + digest in used]
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
            for name, data in files:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


def tree(data):
    """Chunk digests of FORMAT.md section 5."""
    digests = b""
    for start in range(0, len(data), 4 << 20):
        chunk = data[start:start + (4 << 20)]
        leaves = b"".join(hashlib.sha256(chunk[at:at + 16384]).digest()
                          for at in range(0, len(chunk), 16384))
        digests += hashlib.sha256(leaves).digest()
    return digests


# ---- edits ----

def annotate(where, **values):
    names = {"format": FORMAT, "needs": NEEDS}
    return lambda b: [one["annotations"].update({names[k]: v for k, v in values.items()})
                      for one in (b.manifests if where == "manifest" else [b.index])]


def set_config(**values):
    return lambda b: b.config.update(values)


def retype(old, new):
    return lambda b: [layer.update(mediaType=TYPE + new) for layer in b.layers(old)]


def add_layer(required):
    def edit(b):
        for manifest in b.manifests:
            layer = {"mediaType": TYPE + "new.v1"}
            if required:
                layer["annotations"] = {"dev.tessera.required": "true"}
            b.put(layer, b"something new")
            manifest["layers"].insert(0, layer)
    return edit


def set_program_version(version):
    def edit(b):
        for layer in b.layers("program.v1"):
            data = b.get(layer)
            b.put(layer, data[:8] + struct.pack("<I", version) + data[12:])
    return edit


def each(*edits):
    return lambda b: [edit(b) for edit in edits]


def artifact(new):
    return lambda b: [m.update(artifactType=new) for m in b.manifests]


def config_type(new):
    return lambda b: [m["config"].update(mediaType=TYPE + new) for m in b.manifests]


def drop(kind):
    return lambda b: [m.update(layers=[x for x in m["layers"] if x["mediaType"] != TYPE + kind])
                      for m in b.manifests]


NEWER = "needs a newer tessera-run"
# What, edit, exit code, text of the message.
CASES = [
    ("as it is", lambda b: None, 0, ""),
    ("index of a later minor", annotate("index", format="1.7"), 0, ""),
    ("manifests of a later minor", annotate("manifest", format="1.7"), 0, ""),
    ("index of a later major", annotate("index", format="2.0", needs="9.1"), 3,
     "needs tessera-run >= 9.1"),
    ("manifests of a later major", annotate("manifest", format="2.0", needs="9.1"), 3,
     "needs tessera-run >= 9.1"),
    ("a later major in another shape", lambda b: b.index.update(
        annotations={FORMAT: "3.0", NEEDS: "12"}, schemaVersion=9, manifests=b.index["manifests"]),
     3, "needs tessera-run >= 12"),
    ("index of an earlier major", annotate("index", format="0.9"), 3, "needs tessera-run >="),
    ("config of a later minor", set_config(formatVersion="1.9"), 0, ""),
    ("config of a later minor, with more", set_config(formatVersion="1.9", news={"a": [1]}), 0, ""),
    ("config of a later major", set_config(formatVersion="2.0"), 3, "2.0"),
    ("a required name", set_config(formatVersion="1.9", required=["sparse"]), 3, "sparse"),
    ("a required name in this minor", set_config(required=["sparse"]), 3, "sparse"),
    ("an optional name", set_config(optional=["hints"]), 0, ""),
    ("an optional name and a member", set_config(optional=["hints"], hints=7), 0, ""),
    ("unknown members of this minor", set_config(hints=7), 2, "config"),
    ("other numerics", set_config(numerics="exact2"), 3, "exact2"),
    ("a layer that is not known", add_layer(False), 0, ""),
    ("a layer that must be known", add_layer(True), 3, NEWER),
    ("program of a later version", set_program_version(1000), 3, "1000"),
    ("program of a version it does not need", set_program_version(2), 2, "expected 1 for its contents"),
    ("program in a later media type", retype("program.v1", "program.v2"), 3,
     "program.v2', which " + NEWER),
    ("no program", drop("program.v1"), 2, "expected 'application/vnd.tessera.program.v1', got none"),
    ("manifest in a later type", artifact(TYPE + "bundle.v2"), 3, NEWER),
    ("config in a later type", config_type("bundle.config.v2+json"), 3, NEWER),
    ("chunk table in a later type", retype("chunks.v1", "chunks.v2"), 2, "chunk table"),
    ("schedule in a later type", retype("schedule.v1+json", "schedule.v2+json"), 0, ""),
    ("provenance in a later type", retype("provenance.v1+json", "provenance.v2+json"), 0, ""),
    ("IR in a later type", retype("ir.v1+zstd", "ir.v2+zstd"), 0, ""),
]
def hyperparameter(name, value):
    return lambda b: b.config["hyperparameters"].update({name: value})


def without(*names):
    return lambda b: [b.config.pop(name) for name in names]


HEX = "0123456789abcdef" * 4
# The same of a bundle with a program digest, config 1.1.
PROGRAM_CASES = [
    ("1.1 as it is", lambda b: None, 0, ""),
    ("1.1: a later minor", set_config(formatVersion="1.9"), 0, ""),
    ("1.1: a later minor with another digest", set_config(formatVersion="1.9", program=HEX), 0, ""),
    ("1.1: a later minor without one", each(set_config(formatVersion="1.9"), without("program")), 0, ""),
    ("1.1: another digest", set_config(program=HEX), 2, "config: program: expected"),
    ("1.1: digest of zeros", set_config(program="0" * 64), 2, "program: expected a digest"),
    ("1.1: digest that is a number", set_config(program=1), 2, "'program'"),
    ("1.1: a short digest", set_config(program="00"), 2, "program: expected a digest"),
    ("1.1: no digest", without("program"), 2, "config"),
    ("1.1: no operations", without("operations"), 2, "'operations'"),
    ("1.1: other operations", set_config(operations=HEX), 2, "config: program: expected"),
    ("1.1: operations of zeros", set_config(operations="0" * 64), 2, "operations: expected"),
    ("1.1: no hyper-parameters", without("hyperparameters"), 2, "'hyperparameters'"),
    ("1.1: hyper-parameters in a list", set_config(hyperparameters=[]), 2, "'hyperparameters'"),
    ("1.1: a number among them", hyperparameter("lr", 1), 2, "expected strings"),
    ("1.1: an empty value", hyperparameter("lr", ""), 2, "a value of its hyper-parameters"),
    ("1.1: out of order", hyperparameter("a", "1"), 2, "not in the order"),
    ("1.1: another value", hyperparameter("lr", "0.5"), 0, ""),
    ("1.1: as 1.0", set_config(formatVersion="1.0"), 2, "canonical byte"),
    ("1.0 with one", each(set_config(formatVersion="1.0"),
                          without("program", "operations", "hyperparameters")), 0, ""),
]
# Only who runs it needs it.
RUN_CASES = [
    ("code in a later media type", retype("elf.v1", "elf.v2"), 3, "elf.v2', which " + NEWER),
    ("no code", drop("elf.v1"), 2, "expected 'application/vnd.tessera.elf.v1', got none"),
]


def expect(what, words, code, text):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != code or text not in done.stderr:
        sys.exit(f"{what}: {' '.join(words[:2])}: expected exit code {code} and '{text}', got "
                 f"{done.returncode}: {done.stdout}{done.stderr}")


def main():
    digits = ROOT / "examples/digits"
    data = [f"--data=images={digits}/train-images.npy", f"--data=labels={digits}/train-labels.npy"]
    with tempfile.TemporaryDirectory() as work:
        path = work + "/edited.tsb"
        run = [RUN, path, *data, "--steps=1", "--quiet", "--cpu=x86-64-v2"]
        for what, edit, code, text in CASES + PROGRAM_CASES + RUN_CASES:
            has_program = (what, edit, code, text) in PROGRAM_CASES
            bundle = Bundle(ROOT / "tests/golden" / ("state-2/digits.tsb" if has_program else "digits-1.0.tsb"))
            edit(bundle)
            bundle.write(path)
            if (what, edit, code, text) not in RUN_CASES:
                expect(what, [AOT, "verify", path], code, text)
            expect(what, run, code, text)
    print(f"{len(CASES) + len(PROGRAM_CASES) + len(RUN_CASES)} versions")


main()
