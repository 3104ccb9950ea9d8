#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A second reader of FORMAT.md, sharing nothing with the C code: python's tarfile, json, hashlib.

Checks headers, order, alignment, the key order of the JSON, digests and chunk tables of one file.
usage: check_format.py FILE [TARGET…]; with targets: FILE is a slice that has these and no other.
"""
import hashlib
import json
import sys
import tarfile

CHUNK, LEAF, ALIGN = 4 << 20, 16 << 10, 65536
MEDIA = "application/vnd.tessera."


def sha(data):
    return hashlib.sha256(data)


def chunk_digests(data):
    for at in range(0, len(data), CHUNK):
        chunk = data[at:at + CHUNK]
        leaves = b"".join(sha(chunk[i:i + LEAF]).digest() for i in range(0, len(chunk), LEAF))
        yield sha(leaves).digest()


def header(name, kind, size):
    """FORMAT.md section 2, field by field."""
    fields = [name.ljust(100, b"\0"), b"0000644\0", b"0000000\0", b"0000000\0",
              b"%011o\0" % size, b"00000000000\0", b" " * 8, kind, b"\0" * 100, b"ustar\0" b"00",
              b"\0" * 64, b"0000000\0" * 2, b"\0" * 167]
    block = b"".join(fields)
    assert len(block) == 512
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def canonical(members):
    """(name, bytes, aligned) -> the bytes of the file."""
    out = bytearray()
    for name, data, aligned in members:
        if aligned and (len(out) + 512) % ALIGN:
            size = -(len(out) + 1024) % ALIGN or ALIGN
            record = b"%d comment=" % size
            out += header(b"PaxHeader/pad", b"x", size) + record + b" " * (size - len(record) - 1) + b"\n"
        out += header(name.encode(), b"0", len(data)) + data + b"\0" * (-len(data) % 512)
    return bytes(out + b"\0" * 1024)


def parse(text):
    value = json.loads(text)
    again = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    assert again == text, "white space or number format"
    return value


def check_annotations(node):
    if isinstance(node, dict):
        if "annotations" in node:
            keys = list(node["annotations"])
            assert keys == sorted(keys), keys
        for child in node.values():
            check_annotations(child)
    elif isinstance(node, list):
        for child in node:
            check_annotations(child)


def main(path, slice_of):
    raw = open(path, "rb").read()
    archive = tarfile.open(path)
    files = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}
    blob = lambda d: files["blobs/sha256/" + d["digest"].removeprefix("sha256:")]
    for name, data in files.items():
        if name.startswith("blobs/"):
            assert name == "blobs/sha256/" + sha(data).hexdigest()
    root = parse(files["index.json"])
    assert list(root) == ["schemaVersion", "mediaType", "manifests"]
    (top,) = root["manifests"]
    index = parse(blob(top))
    assert list(index) == ["schemaVersion", "mediaType", "manifests", "annotations"]
    order = [("oci-layout", None), ("index.json", None), (top["digest"], "+json")]
    manifests = []
    for entry in index["manifests"]:
        assert list(entry) == ["mediaType", "digest", "size", "annotations", "platform"]
        if slice_of and entry["annotations"]["dev.tessera.target"] not in slice_of:
            assert entry["digest"].replace("sha256:", "blobs/sha256/") not in files, "left out"
            continue
        manifests.append(parse(blob(entry)))
        order.append((entry["digest"], "+json"))
    assert manifests
    names = [e["annotations"]["dev.tessera.target"] for e in index["manifests"]]
    assert names == ["cuda:sm_90a", "cpu:x86-64-v4", "cpu:x86-64-v2"], names
    assert [e["platform"].get("variant") for e in index["manifests"]] == ["sm_90a", "v4", None]
    check_annotations([root, index, manifests])
    order += [(m["config"]["digest"], "+json") for m in manifests]
    layers = [layer for m in manifests for layer in m["layers"]]

    def rank(layer):
        kind = layer["mediaType"]
        if kind == MEDIA + "chunks.v1":
            return 0
        if layer["size"] < ALIGN or kind.endswith("+zstd"):
            return 1
        return {"application/vnd.cncf.model.weight.v1.raw": 3, MEDIA + "state.v1.raw": 4}.get(kind, 2)

    order += [(x["digest"], x["mediaType"]) for x in sorted(layers, key=rank)]
    members, seen = [], set()
    for digest, kind in order:
        if digest in seen:
            continue
        seen.add(digest)
        name = digest.replace("sha256:", "blobs/sha256/")
        data = files[name]
        members.append((name, data, kind and len(data) >= ALIGN and not kind.endswith("+zstd")))
    assert [m[0] for m in members] == [m.name for m in archive.getmembers()], "order"
    assert canonical(members) == raw, "bytes"
    for manifest in manifests:
        assert manifest["layers"][-1]["mediaType"] == MEDIA + "chunks.v1"
        table = b"".join(d for x in manifest["layers"][:-1] for d in chunk_digests(blob(x)))
        assert table == blob(manifest["layers"][-1]), "chunk table"
        for layer in manifest["layers"]:
            assert len(blob(layer)) == layer["size"]
    print("ok: independent reader,", len(members), "members")


main(sys.argv[1], sys.argv[2:])
