#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads an exported state with the safetensors package and recomputes its state hash as docs/state-store.md
defines it; validates an event log. Arguments: the file, the log, the schema, the state hash that `ls`
printed. Exits with 77 if a package is missing."""
import hashlib
import json
import re
import struct
import sys

try:
    import jsonschema
    import numpy  # noqa: F401 (the package below needs it)
    from safetensors import safe_open
    from safetensors.numpy import load_file
except ImportError:
    sys.exit(77)

NUMBERS = {"float64": 1, "float32": 2, "int64": 3, "int32": 4, "bool": 5, "uint8": 6, "float16": 8, "int8": 9}
LEAF, CHUNK = 16 << 10, 4 << 20


def sha(data):
    return hashlib.sha256(data).digest()


def parts(data, size):
    return [data[at:at + size] for at in range(0, len(data), size)]


def tree(data):
    chunks = [sha(b"".join(sha(leaf) for leaf in parts(chunk, LEAF))) for chunk in parts(data, CHUNK)]
    return chunks[0] if len(chunks) == 1 else sha(b"".join(chunks))


def state_hash(tensors):
    hasher = hashlib.sha256(b"tessera.state.1\0" + struct.pack("<Q", len(tensors)))
    for name in sorted(tensors, key=lambda text: text.encode()):
        array = tensors[name]
        text = name.encode()
        hasher.update(struct.pack("<I", len(text)) + text)
        hasher.update(struct.pack("<II", NUMBERS[str(array.dtype)], array.ndim))
        hasher.update(struct.pack("<%dQ" % array.ndim, *array.shape))
        hasher.update(tree(array.tobytes()))
    return hasher.hexdigest()


def main():
    path, log, schema, expected = sys.argv[1:]
    found = state_hash(load_file(path))
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    assert found == expected, "the tensors have the state hash %s; ls says %s" % (found, expected)
    assert metadata["state_hash"] == expected, metadata
    assert (metadata["generation"], metadata["step"]) == ("5", "50"), metadata
    for key in ("bundle_hash", "manifest_hash", "data_digest", "program_digest"):
        assert re.fullmatch("[0-9a-f]{64}", metadata[key]), metadata
    position = {"step", "seed", "sample", "virtual_ranks", "shuffle_version", "epoch_base", "epoch_base_sample", "rows"}
    assert position <= set(metadata) and all(metadata[key].isdigit() for key in position), metadata

    checker = jsonschema.Draft202012Validator(json.load(open(schema, encoding="utf-8")))
    last = {}
    for line in open(log, encoding="utf-8"):
        event = json.loads(line)
        checker.validate(event)
        author = (event["who"], event["pid"])
        assert event["seq"] == last.get(author, 0) + 1, event
        last[author] = event["seq"]
        broken = dict(event, event="none")
        assert not checker.is_valid(broken) and not checker.is_valid(dict(event, more=1))
    assert len(last) >= 4, "two runs, each with a coordinator and a rank"


main()
