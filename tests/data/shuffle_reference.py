#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The order of samples, version 1, implemented independently from the text of shuffle.h.

Prints the rows of the test shuffle.frozen. Needs only Python.
"""
import math

MASK = 0xFFFFFFFF


def philox(key, counter):
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def shuffle_index(seed, count, sample):
    epoch, at = divmod(sample, count)
    side = math.isqrt(count - 1) + 1
    while True:
        left, right = divmod(at, side)
        for number in range(12 if count < 1024 else 8):
            words = philox((seed, 0x73687566), (right, number, epoch & MASK, epoch >> 32))
            added = ((words[0] << 32 | words[1]) * side) >> 64
            left, right = right, (left + added) % side
        at = left * side + right
        if at < count:
            return at


ROWS = [(0, 1, 0), (0, 2, 10), (1, 10, 0), (2, 64, 62), (3, 1023, 5000), (4, 1024, 0), (0, 1438, 0),
        (42, 1438, 1437), (4294967295, 1438, 123456789), (7, 60000, 59998), (8, 1 << 32, 1 << 40),
        (9, (1 << 32) + 1, 77), (10, (1 << 63) - 1, (1 << 64) - 4)]

if __name__ == "__main__":
    for seed, count, sample in ROWS:
        values = ", ".join(str(shuffle_index(seed, count, sample + k)) + "u" for k in range(4))
        print(f"        {{{seed}u, {count}u, {sample}u, {{{values}}}}},")
