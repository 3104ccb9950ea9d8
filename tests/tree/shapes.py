# SPDX-License-Identifier: Apache-2.0
"""No shape of a benchmark stands in the sources: what is fast on it is fast for another reason. Files come on standard input.

A shape is three neighbouring numbers in a row of a table (`1024, 768, 3072` or `1024x768x3072`), not all up to 256, as tiles are, and of
16 at least, or two of them not round; or two different ones of 256 at least that are not both round: a product's, whatever its third
number is. It stands in a source where as many numbers follow each other there, in any order, in comments, too. Factors of a product
(`64 * 1024`) are one number.
"""
import re
import sys

TABLES = re.compile(r'bench/gpu/pack|bench/kernels/[^/]*_bench\.c|bench/transformer\.py|tools/bench')
SOURCES = re.compile(r'(compiler|loader|runtime)/.*\.(c|h|cpp|hpp|def|td)')
ROW = re.compile(r'(?<![\w.])\d+(?:(?:\s*,\s*|x)\d+)+(?![\w.])')
NUMBER = re.compile(r'(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d+)(?:\.0*)?[fFuUlL]*(?![\w.])')
BY = re.compile(r'(?<![0-9A-Za-wyz_.])([1-9]\d*)x(?=[1-9]|[a-z]+\d)')  # 64x64xf32
TIMES = re.compile(r'\s*\*\s*$')
GAP = 24  # characters between numbers that belong together
LEAST, TILE = 16, 256


def is_round(n):
    """A power of two, or one digit and zeros: a size of anything."""
    return n & (n - 1) == 0 or len(str(n).rstrip('0')) == 1


def shapes_of(row):
    """Sorted tuples."""
    for two in zip(row, row[1:]):
        if min(two) >= TILE and len(set(two)) == 2 and not all(map(is_round, two)):
            yield tuple(sorted(two))
    for three in zip(row, row[1:], row[2:]):
        if max(three) > TILE and (min(three) >= LEAST or sum(map(is_round, three)) == 1):
            yield tuple(sorted(three))


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def numbers(text):
    """(value, where it begins, where it ends); a product is one."""
    found = []
    for match in NUMBER.finditer(text):
        digits = match[0].rstrip('fFuUlL.') if not match[0].lower().startswith('0x') else match[0].rstrip('uUlL')
        value = int(digits, 16) if digits.lower().startswith('0x') else int(digits.split('.')[0])
        if found and TIMES.match(text[found[-1][2]:match.start()]):
            found[-1] = (found[-1][0] * value, found[-1][1], match.end())
        else:
            found.append((value, match.start(), match.end()))
    return found


def main():
    files = [line.rstrip('\n') for line in sys.stdin]
    shapes = {}
    for path in filter(TABLES.fullmatch, files):
        for line, text in enumerate(read(path).split('\n'), 1):
            for row in ROW.findall(text):
                for shape in shapes_of([int(n) for n in re.findall(r'\d+', row)]):
                    shapes.setdefault(shape, f'{path}:{line}')
    if not shapes:
        print('no benchmark has a table of shapes')
    for path in filter(SOURCES.fullmatch, files):
        text = BY.sub(r'\1 x ', read(path))
        found = numbers(text)
        for count in (2, 3):
            for group in zip(*(found[i:] for i in range(count))):
                shape = tuple(sorted(n for n, _, _ in group))
                near = all(b[1] - a[2] <= GAP for a, b in zip(group, group[1:]))
                if near and shape in shapes:
                    line = text.count('\n', 0, group[0][1]) + 1
                    print(f'{path}:{line}: {", ".join(str(n) for n, _, _ in group)} is a shape of {shapes[shape]}')


main()
