#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes train.txt and test.txt of this folder from plrabn12.txt of the Canterbury corpus.

usage: make-data.py PLRABN12_TXT [OUTPUT_FOLDER]

The poem alone: what stands before its first and behind its last line is left out, as are spaces at
the end of lines, carriage returns, and all but one of several empty lines. Book XII is held out.
"""
import hashlib
import pathlib
import re
import sys

SOURCE_SHA256 = "07e2e0b461af78c7c647cb53dab39de560198e16f799b4516eccf0fbd69f764c"
FIRST, LAST, HELD_OUT = "Book I", "Through Eden took their solitary way.", "Book XII"


def main(source, folder):
    raw = pathlib.Path(source).read_bytes()
    if hashlib.sha256(raw).hexdigest() != SOURCE_SHA256:
        sys.exit(f"{source}: SHA-256 is {hashlib.sha256(raw).hexdigest()}, expected {SOURCE_SHA256}")
    lines = [line.rstrip() for line in raw.decode("ascii").splitlines()]
    lines = lines[lines.index(FIRST):lines.index(LAST) + 1]
    held_out = lines.index(HELD_OUT)
    for name, part in (("train", lines[:held_out]), ("test", lines[held_out:])):
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(part)).strip("\n") + "\n"
        (pathlib.Path(folder) / f"{name}.txt").write_bytes(text.encode("ascii"))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else pathlib.Path(__file__).parent)
