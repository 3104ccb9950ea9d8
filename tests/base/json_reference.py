#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the texts that runtime/base/io/json.c accepts with those of Python's json module, on random
mutations.

Arguments: the path of json_check. Python's parser is made equally strict by its hooks.
"""
import json
import random
import subprocess
import sys

DEPTH_MAX = 16


def depth(value):
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


def texts_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)


def refuse(text):
    raise ValueError(text)


def integer(text):
    if text.startswith("-") or int(text) > 2**53:
        raise ValueError(text)
    return int(text)


def unique(pairs):
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)


def accepts(text):
    try:
        value = json.loads(text.decode("utf-8"), parse_float=refuse, parse_constant=refuse,
                           parse_int=integer, object_pairs_hook=unique)
        for string in texts_of(value):
            string.encode("utf-8")  # no lone surrogate
            if "\0" in string:
                return False
        return depth(value) <= DEPTH_MAX
    except (ValueError, RecursionError):
        return False


def mutated(chance):
    seeds = [
        '{"a":[1,2,{"b":null,"c":"\\u00e4\\ud83d\\ude00€"}],"d":{"e":true,"f":9007199254740992}}',
        '[[],{},"",0,10,false,{"a":1,"b":2,"c":{"a":1}},"\\"\\\\\\/\\b\\f\\n\\r\\t"]',
        ' { "k" : [ 1 , 2 ] , "l" : "\\uD834\\uDD1E" } ',
        "[" * 16 + "1" + "]" * 16,
    ]
    pieces = [b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\\u0000", b"\\ud800", b"\\udc00",
              b"0", b"1", b"-", b".", b"e", b"a", b"b", b" ", b"\n", b"\0", b"\x1f", b"\x7f",
              b"\x80", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xf4", b"null", b"true",
              b'"a":1,', b"NaN"]
    text = bytearray(chance.choice(seeds).encode("utf-8"))
    for _ in range(chance.randint(0, 4)):
        begin = chance.randint(0, len(text))
        end = min(len(text), begin + chance.choice([0, 0, 1, 1, 2]))
        text[begin:end] = chance.choice(pieces)
    if chance.random() < 0.05:
        del text[chance.randint(0, len(text)):]
    return bytes(text)


def main():
    chance = random.Random(5)
    texts = [mutated(chance) for _ in range(60000)]
    stream = b"".join(b"%d\n%s" % (len(text), text) for text in texts)
    output = subprocess.run([sys.argv[1]], input=stream, stdout=subprocess.PIPE, check=True).stdout
    got = output.decode().strip()
    if len(got) != len(texts):
        sys.exit(f"expected {len(texts)} answers, got {len(got)}")
    wanted = [accepts(text) for text in texts]
    for text, want, answer in zip(texts, wanted, got):
        if want != (answer == "1"):
            sys.exit(f"{text!r}: expected {'accepted' if want else 'refused'}, got the other")
    if not 3000 < sum(wanted) < 57000:
        sys.exit(f"expected both kinds of text, got {sum(wanted)} good ones")
    print(f"{len(texts)} texts, {sum(wanted)} accepted by both")


main()
