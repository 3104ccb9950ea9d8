#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the log of a different run: changes one value, and recomputes every chain as runtime/record/record.h describes.

usage: replay_log.py LOG OUT [STEP TENSOR COUNT ELEMENT WAS] [--header FROM TO] [--without TENSOR]

In STEP, the bytes of ELEMENT of TENSOR (the first tensor whose name begins with it and that has COUNT elements), which are the number
WAS, are increased by one; its sums and its digest change accordingly. WAS is "alone" if the element is a part by itself: its sum is then
the value. --header replaces text in the first line; --without removes all tensors whose names begin with TENSOR. Prints the tensor's
name.
"""
import hashlib
import json
import sys

PARTS, WRAP = 8, 1 << 64


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WRAP
    z = (z ^ z >> 27) * 0x94D049BB133111EB % WRAP
    return z ^ z >> 31


def change(line, index, count, element, was):
    of_each = -(-count // PARTS)
    part, number = element // of_each, element % of_each + 1
    sums = line["sums"][index]
    numbers = [int(sums[at:at + 16], 16) for at in range(0, len(sums), 16)]
    assert was != "alone" or of_each == 1, of_each
    was = numbers[2 * part] if was == "alone" else int(was)
    is_now = was + 1
    numbers[2 * part] = (numbers[2 * part] + is_now - was) % WRAP
    numbers[2 * part + 1] = (numbers[2 * part + 1] + mix(mix(number) ^ is_now) - mix(mix(number) ^ was)) % WRAP
    line["sums"][index] = "".join(f"{number:016x}" for number in numbers)
    line["digests"][index] = hashlib.sha256(line["digests"][index].encode()).hexdigest()


def without(header, lines, name):
    names = json.loads(header)["tensors"]
    left = [i for i, known in enumerate(names) if not known.startswith(name)]
    assert len(left) < len(names), names
    for line in lines:
        for key in ("digests", "sums"):
            line[key] = [line[key][i] for i in left]
    begin = header.index('"tensors":[')
    return header[:begin] + '"tensors":' + json.dumps([names[i] for i in left], separators=(",", ":")) + "}"


def main(log, out, *rest):
    header, *lines = open(log, encoding="utf-8").read().splitlines()
    if "--header" in rest:
        at = rest.index("--header")
        assert rest[at + 1] in header, header
        header = header.replace(rest[at + 1], rest[at + 2])
        rest = rest[:at]
    lines = [json.loads(line) for line in lines]
    if "--without" in rest:
        at = rest.index("--without")
        header = without(header, lines, rest[at + 1])
        rest = rest[:at]
    if rest:
        step, name, count, element = int(rest[0]), rest[1], int(rest[2]), int(rest[3])
        names = json.loads(header)["tensors"]
        index = next(i for i, known in enumerate(names) if known.startswith(name))
        print(names[index])
        change(next(line for line in lines if line["step"] == step), index, count, element, rest[4])
    chain = hashlib.sha256(header.encode()).digest()
    for line in lines:
        chain = hashlib.sha256(chain + line["step"].to_bytes(8, "little") + b"".join(map(bytes.fromhex, line["digests"]))).digest()
        line["chain"] = chain.hex()
    with open(out, "w", encoding="utf-8") as file:
        file.write("".join(text + "\n" for text in [header] + [json.dumps(line, separators=(",", ":")) for line in lines]))


main(*sys.argv[1:])
