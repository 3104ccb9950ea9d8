#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every byte of a state directory changed, one after another: `tessera-run fsck` and an independent reader
of the format must both see it.

usage: damage.py TESSERA_RUN BUNDLE [--every N]

One bit is changed of every N-th byte (default 5) of a manifest, and of every 20 N-th of its data; then
files are made shorter, longer, and removed. What nobody touched is good to both.
"""
import argparse
import os
import sys

import common
from common import reader


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:]


def changes(path, every):
    """(what, the bytes afterwards or None)"""
    with open(path, "rb") as file:
        data = file.read()
    for at in range(0, len(data), every):
        yield "bit %d of byte %d" % (at % 8, at), flipped(data, at)
    yield "its last byte", flipped(data, len(data) - 1)
    for size in (0, 1, len(data) // 2, len(data) - 1):
        yield "%d of its %d bytes" % (size, len(data)), data[:size]
    yield "a byte more", data + b"\0"
    yield "nothing", None


def put(path, data):
    if data is None:
        os.unlink(path)
        return
    with open(path, "wb") as file:
        file.write(data)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].replace("usage: ", ""))
    parser.add_argument("run")
    parser.add_argument("bundle")
    parser.add_argument("--every", type=int, default=5)
    options = parser.parse_args()
    failures = tried = 0
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with common.Bench(options.run, options.bundle, folder) as bench:
        state = bench.path("state")
        done = bench.run(bench.train(state, 2))
        listing = reader.Listing(state)
        if done.code or bench.fsck(state).code or listing.damage or len(listing.manifests) != 2:
            raise SystemExit("untouched, it is not good to both: %s%s" % (done, listing.damage))
        for name, every in (("MANIFEST.2.1", options.every),
                            ("gen/1-2/segment.0", 20 * options.every)):
            path = os.path.join(state, name)
            with open(path, "rb") as file:
                whole = file.read()
            for what, data in changes(path, every):
                put(path, data)
                tried += 1
                ours, theirs = bench.fsck(state).code, reader.Listing(state)
                if ours != 10 or not theirs.damage:
                    failures += 1
                    print("FAILED: %s has %s: fsck ends with %d, the reader finds %s" %
                          (name, what, ours, theirs.damage))
                put(path, whole)
    print("%d changes, %d failed" % (tried, failures))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
