#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the four .npy files of this folder from digits.csv.gz of the scikit-learn package.

usage: make-data.py DIGITS_CSV_GZ [OUTPUT_FOLDER]

Each line of the CSV is 64 pixels (0 ... 16, row by row) and the label. Image i is held out for
testing where i % 5 == 4. The files are NumPy format 1.0: images ui8 [N, 64], labels i64 [N].
"""
import gzip
import hashlib
import pathlib
import struct
import sys

SOURCE_SHA256 = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"


def npy(descr, shape, payload):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}, }}"
    padding = -(10 + len(header) + 1) % 64
    header = header.encode() + b" " * padding + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + payload


def main(source, folder):
    raw = pathlib.Path(source).read_bytes()
    if hashlib.sha256(raw).hexdigest() != SOURCE_SHA256:
        sys.exit(f"{source}: SHA-256 is {hashlib.sha256(raw).hexdigest()}, expected {SOURCE_SHA256}")
    rows = [[int(value) for value in line.split(",")]
            for line in gzip.decompress(raw).decode().splitlines()]
    for part, chosen in (("train", [r for i, r in enumerate(rows) if i % 5 != 4]),
                         ("test", [r for i, r in enumerate(rows) if i % 5 == 4])):
        images = b"".join(bytes(row[:64]) for row in chosen)
        labels = b"".join(struct.pack("<q", row[64]) for row in chosen)
        out = pathlib.Path(folder)
        (out / f"{part}-images.npy").write_bytes(npy("|u1", (len(chosen), 64), images))
        (out / f"{part}-labels.npy").write_bytes(npy("<i8", (len(chosen),), labels))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else pathlib.Path(__file__).parent)
