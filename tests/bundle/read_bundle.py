#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A reader of FORMAT.md that uses only Python's standard library and shares nothing with the C code.

read_bundle.py BUNDLE [TARGET]: checks every digest and every chunk of one target (the last one by
default), then prints one line for each tensor whose value is in the bundle: NAME DTYPE SHAPE SHA-256,
for stored tensors and for splats.
"""
import hashlib
import json
import os
import struct
import sys

CHUNK, LEAF = 4 << 20, 16 << 10
WEIGHTS = "application/vnd.cncf.model.weight.v1.raw"
STATE = "application/vnd.tessera.state.v1.raw"
CHUNKS = "application/vnd.tessera.chunks.v1"
# config's dtype: (safetensors' name, bytes, struct format of a double or an integer; bf16 is converted
# by hand)
DTYPES = {"f64": ("F64", 8, "<d"), "f32": ("F32", 4, "<f"), "f16": ("F16", 2, "<e"),
          "bf16": ("BF16", 2, None), "i64": ("I64", 8, "<q"), "i32": ("I32", 4, "<i"),
          "i8": ("I8", 1, "<b"), "ui8": ("U8", 1, "<B"), "i1": ("BOOL", 1, "<B"), "i16": ("I16", 2, "<h"),
          "ui16": ("U16", 2, "<H"), "ui32": ("U32", 4, "<I"), "ui64": ("U64", 8, "<Q"), "f8E4M3FN": ("F8_E4M3", 1, None),
          "f8E5M2": ("F8_E5M2", 1, None), "f8E8M0FNU": ("F8_E8M0", 1, None)}


def sha(data):
    return hashlib.sha256(data).digest()


class Members:
    """The members of a tar (FORMAT.md section 2, strict rules), or of a layout directory."""

    def __init__(self, path):
        self.folder = path if os.path.isdir(path) else None
        self.entries = {}
        if not self.folder:
            self.file = open(path, "rb")
            self.size = os.fstat(self.file.fileno()).st_size
            self.walk()

    def at(self, offset, size):
        self.file.seek(offset)
        data = self.file.read(size)
        assert len(data) == size, "the file ends early"
        return data

    def walk(self):
        offset = 0
        while True:
            block = self.at(offset, 512)
            if block == bytes(512):
                break
            total = sum(block) - sum(block[148:156]) + 8 * 32
            assert block[257:262] == b"ustar" and int(block[148:154], 8) == total, hex(offset)
            name, size = block[:100].rstrip(b"\0").decode(), int(block[124:135], 8)
            if block[156:157] == b"0":
                assert name not in self.entries, name
                self.entries[name] = (offset + 512, size)
            else:
                assert block[156:157] == b"x", "a member of another type"
            offset += 512 + size + -size % 512
        assert self.at(offset, self.size - offset) == bytes(1024), "the end"

    def size_of(self, name):
        return os.path.getsize(os.path.join(self.folder, name)) if self.folder else self.entries[name][1]

    def read(self, name, start=0, size=None):
        size = self.size_of(name) - start if size is None else size
        if self.folder:
            with open(os.path.join(self.folder, name), "rb") as file:
                file.seek(start)
                return file.read(size)
        return self.at(self.entries[name][0] + start, size)


def name_of(descriptor):
    algorithm, digest = descriptor["digest"].split(":")
    assert algorithm == "sha256" and len(digest) == 64
    return "blobs/sha256/" + digest


def blob(members, descriptor):
    """Metadata: small, and checked by its own digest."""
    name = name_of(descriptor)
    assert members.size_of(name) == descriptor["size"]
    data = members.read(name)
    assert hashlib.sha256(data).hexdigest() == name[-64:], name
    return data


def check_layer(members, layer, table, row):
    """Checks the blob's digest and those of its chunks; returns the row after them."""
    name, size, whole = name_of(layer), layer["size"], hashlib.sha256()
    assert members.size_of(name) == size, name
    for start in range(0, size, CHUNK):
        data = members.read(name, start, min(CHUNK, size - start))
        whole.update(data)
        leaves = b"".join(sha(data[i:i + LEAF]) for i in range(0, len(data), LEAF))
        assert table[32 * row:32 * row + 32] == sha(leaves), (name, start)
        row += 1
    assert whole.hexdigest() == name[-64:], name
    return row


def stored_tensors(members, layer):
    """Name -> (safetensors dtype, shape, start, size) of one safetensors layer."""
    name = name_of(layer)
    length = struct.unpack("<Q", members.read(name, 0, 8))[0]
    assert (length + 8) % 65536 == 0, "data is aligned"
    header = json.loads(members.read(name, 8, length))
    header.pop("__metadata__", None)
    at = 0
    for entry in sorted(header.values(), key=lambda e: e["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == at and end >= begin, "offsets are contiguous"
        at = end
    assert 8 + length + at == layer["size"], "tensors cover the data"
    return {key: (e["dtype"], e["shape"], 8 + length + e["data_offsets"][0],
                  e["data_offsets"][1] - e["data_offsets"][0]) for key, e in header.items()}


def splat_bytes(dtype, value, count):
    number, form = float.fromhex(value), DTYPES[dtype][2]
    if form is None:
        element = struct.pack("<f", number)[2:]
    else:
        element = struct.pack(form, number if dtype in ("f64", "f32", "f16") else int(number))
    return element * count


def tensors(members, manifest):
    """Yields (config tensor, its bytes) for every tensor that is stored or a splat."""
    config, entries = json.loads(blob(members, manifest["config"])), {}
    for layer in manifest["layers"]:
        if layer["mediaType"] in (WEIGHTS, STATE):
            for key, entry in stored_tensors(members, layer).items():
                assert key not in entries, key
                entries[key] = (name_of(layer), *entry)
    for tensor in config["tensors"]:
        kind, count = tensor["init"]["kind"], 1
        for extent in tensor["shape"]:
            count *= extent
        short, width, _ = DTYPES[tensor["dtype"]]
        if kind == "data":
            name, dtype, shape, start, size = entries.pop(tensor["name"])
            assert (dtype, shape, size) == (short, tensor["shape"], count * width), tensor["name"]
            yield tensor, members.read(name, start, size)
        elif kind == "constant":
            yield tensor, splat_bytes(tensor["dtype"], tensor["init"]["a"], count)
    assert not entries, "stored, but not in the config: " + ", ".join(entries)


def main(path, target=None):
    members = Members(path)
    assert json.loads(members.read("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    (top,) = json.loads(members.read("index.json"))["manifests"]
    index = json.loads(blob(members, top))
    assert index["annotations"]["dev.tessera.format"].split(".")[0] == "1", "another major version"
    found = {m["annotations"]["dev.tessera.target"]: m for m in index["manifests"]
             if "dev.tessera.target" in m.get("annotations", {})}
    manifest = json.loads(blob(members, found[target] if target else list(found.values())[-1]))
    *layers, last = manifest["layers"]
    assert last["mediaType"] == CHUNKS
    table, row = blob(members, last), 0
    for layer in layers:
        row = check_layer(members, layer, table, row)
    assert 32 * row == len(table), "the table has a row for each chunk"
    for tensor, data in tensors(members, manifest):
        print(tensor["name"], tensor["dtype"], "x".join(map(str, tensor["shape"])) or "scalar",
              hashlib.sha256(data).hexdigest())


if __name__ == "__main__":
    main(*sys.argv[1:])
