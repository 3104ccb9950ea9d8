#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the f32 arrays of two .npy files: they must have one shape, and differ by at most
TOLERANCE.

    near.py A.npy B.npy TOLERANCE

Prints "near: DISTANCE" or "far: DISTANCE at INDEX" and exits with 0 or 1. Uses only the standard
library.
"""
import ast
import math
import struct
import sys


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", path
    length = struct.unpack_from("<H", data, 8)[0]
    header = ast.literal_eval(data[10:10 + length].decode())
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    count = math.prod(header["shape"])
    return header["shape"], struct.unpack_from(f"<{count}f", data, 10 + length)


def main():
    shape, a = read(sys.argv[1])
    other, b = read(sys.argv[2])
    if shape != other:
        print(f"far: shapes {shape} and {other}")
        return 1
    distance, at = max((abs(x - y) if x == x and y == y else math.inf, i)
                       for i, (x, y) in enumerate(zip(a, b)))
    if distance <= float(sys.argv[3]):
        print(f"near: {distance:.3g}")
        return 0
    print(f"far: {distance:.3g} at {at}")
    return 1


sys.exit(main())
