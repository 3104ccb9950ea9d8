#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The worked example of FORMAT.md, byte for byte: check_example.py FORMAT.md BUNDLE."""
import hashlib
import re
import sys
import tarfile

text, raw = open(sys.argv[1], encoding="utf-8").read(), open(sys.argv[2], "rb").read()
section = text[text.index("## 13. Worked example"):]
rows = [line for block in re.findall(r"```hex\n(.*?)```", section, re.S) for line in block.splitlines()]
for row in rows:
    at, data = int(row[:6], 16), bytes.fromhex(row[8:55])
    assert raw[at:at + len(data)] == data, row
    shown = "".join(chr(x) if 32 <= x < 127 else "." for x in data)
    assert row[57:] == shown, row
assert len(rows) >= 20, "expected at least 20 rows"
assert f"{len(raw)} bytes: one target" in section

# Every digest in the text is the digest of a blob or of the leaf's hash.
members = tarfile.open(sys.argv[2]).getmembers()
blobs = [raw[m.offset_data:m.offset_data + m.size] for m in members if m.name.startswith("blobs/")]
flat = {hashlib.sha256(b).hexdigest() for b in blobs}
chunks = {hashlib.sha256(hashlib.sha256(b).digest()).hexdigest() for b in blobs}
named = re.findall(r"`([0-9a-f]{64})`", section)
assert len(named) == 3 and all(d in flat | chunks for d in named) and any(d in chunks for d in named)
index = blobs[0]
assert hashlib.sha256(index).hexdigest() in named
print("ok: the worked example,", len(rows), "rows")
