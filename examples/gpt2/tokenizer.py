#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer `milton-1024`: byte pairs (Sennrich, Haddow and Birch 2016), learned on Books I to XI of *Paradise Lost*.

usage: tokenizer.py learn [--merges N] [--folder DIR]   from ../gpt-char: merges.txt, train.tokens, test.tokens
       tokenizer.py encode TEXT TOKENS      as numbers of 16 bits
       tokenizer.py decode TOKENS           to standard output; TOKENS.bin holds numbers of 64 bits
       tokenizer.py prompt TEXT DIR [N]     what entry `write` takes: DIR/text.bin of N (256) numbers of 64 bits, DIR/place.bin

Tokens 0 to 255 are bytes, the next ones the pairs of merges.txt, a line each. A word, with the space before it, is encoded by itself: of
its pairs the one that stands first in merges.txt is joined until none is left. Of pairs that occur equally often, the one of the lower
numbers is learned first.
"""
import argparse
import array
import collections
import functools
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
WORD = re.compile(rb" ?[A-Za-z']+| ?[^A-Za-z' \n]+|\n| ")
MERGES = 768


def join(word, pair, token):
    """The word, each occurrence of the pair from the left on replaced by the token."""
    out, at = [], 0
    while at < len(word):
        is_pair = word[at:at + 2] == pair
        out.append(token if is_pair else word[at])
        at += 2 if is_pair else 1
    return tuple(out)


def learn(text, count):
    words = collections.Counter(tuple(word) for word in WORD.findall(text))
    merges = []
    for token in range(256, 256 + count):
        pairs = collections.Counter()
        for word, times in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += times
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        joined = collections.Counter()
        for word, times in words.items():
            joined[join(word, best, token)] += times
        words = joined
    return merges


def read_merges():
    return [tuple(map(int, line.split())) for line in (HERE / "merges.txt").read_text("ascii").splitlines()]


def encode(text, merges):
    ranks = {pair: 256 + i for i, pair in enumerate(merges)}

    @functools.lru_cache(None)
    def tokens(raw):
        word = tuple(raw)
        while len(word) > 1:
            best = min(zip(word, word[1:]), key=lambda pair: ranks.get(pair, 1 << 16))
            if best not in ranks:
                break
            word = join(word, best, ranks[best])
        return word

    return [token for raw in WORD.findall(text) for token in tokens(raw)]


def decode(tokens, merges):
    """Tokens that the tokenizer has not, which a model of a larger vocabulary may draw, as <number>."""
    table = [bytes([i]) for i in range(256)]
    for first, second in merges:
        table.append(table[first] + table[second])
    return b"".join(table[token] if token < len(table) else b"<%d>" % token for token in tokens)


def write(path, tokens, kind="H"):
    pathlib.Path(path).write_bytes(array.array(kind, tokens).tobytes())


def write_prompt(text, folder, positions):
    tokens = encode(text, read_merges())
    if not 0 < len(tokens) <= positions:
        sys.exit(f"the text has {len(tokens)} tokens; expected 1 to {positions}")
    write(pathlib.Path(folder, "text.bin"), tokens + [0] * (positions - len(tokens)), "q")
    write(pathlib.Path(folder, "place.bin"), [len(tokens)], "q")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("learn")
    one.add_argument("--merges", type=int, default=MERGES)
    one.add_argument("--folder", type=pathlib.Path, default=HERE)
    one = commands.add_parser("encode")
    one.add_argument("text", type=pathlib.Path)
    one.add_argument("tokens")
    commands.add_parser("decode").add_argument("tokens", type=pathlib.Path)
    one = commands.add_parser("prompt")
    one.add_argument("text", type=pathlib.Path)
    one.add_argument("folder")
    one.add_argument("positions", type=int, nargs="?", default=256)
    a = parser.parse_args()
    if a.command == "learn":
        texts = {name: (HERE.parent / "gpt-char" / f"{name}.txt").read_bytes() for name in ("train", "test")}
        merges = learn(texts["train"], a.merges)
        (a.folder / "merges.txt").write_text("".join(f"{first} {second}\n" for first, second in merges), "ascii")
        for name, text in texts.items():
            write(a.folder / f"{name}.tokens", encode(text, merges))
    elif a.command == "encode":
        write(a.tokens, encode(a.text.read_bytes(), read_merges()))
    elif a.command == "decode":
        tokens = array.array("q" if a.tokens.suffix == ".bin" else "H", a.tokens.read_bytes())
        sys.stdout.buffer.write(decode(tokens, read_merges()))
    else:
        write_prompt(a.text.read_bytes(), a.folder, a.positions)


if __name__ == "__main__":
    main()
