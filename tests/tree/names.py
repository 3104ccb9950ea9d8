# SPDX-License-Identifier: Apache-2.0
"""Counts words in the identifiers of sources for which the field has a standard term. Paths come on standard input, one per line.

usage: names.py TABLE [--write]

TABLE has one row per word: `WORD[,WORD…] CEILING [ALLOWED…]`. An identifier contains a word if the word is one of its parts: parts are
separated by `_`, or by a capital letter. Comments, strings and TableGen's `[{ … }]` are not counted; neither are identifiers that the row allows. The check
prints one line for each row with more uses than its ceiling. --write lowers the ceilings to today's numbers; it never raises one.
"""
import collections
import io
import re
import sys
import tokenize

COMMENTS_AND_STRINGS = re.compile(r'\[\{.*?\}\]|/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
IDENTIFIER = re.compile(r'[A-Za-z_]\w*')
PART = re.compile(r'[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+|[A-Z]')
C_SOURCES = ('.c', '.h', '.cpp', '.hpp', '.td', '.def')


def identifiers_of(path):
    with open(path, encoding='utf-8', errors='replace') as file:
        text = file.read()
    if path.endswith('.py'):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return [token.string for token in tokens if token.type == tokenize.NAME]
    return IDENTIFIER.findall(COMMENTS_AND_STRINGS.sub(' ', text))


def read_table(path):
    """Returns the rows of TABLE: (words, ceiling, allowed identifiers)."""
    rows = []
    with open(path, encoding='utf-8') as file:
        for line in file:
            fields = line.split()
            if fields and not line.startswith('#'):
                rows.append((fields[0].split(','), int(fields[1]), set(fields[2:])))
    return rows


def count_parts(paths):
    """Returns for each part of an identifier the identifiers that contain it: their uses and the first file."""
    uses, first = collections.defaultdict(collections.Counter), {}
    for path in paths:
        for name in identifiers_of(path):
            for part in {part.lower() for part in PART.findall(name)}:
                uses[part][name] += 1
                first.setdefault(name, path)
    return uses, first


def write_table(path, counts):
    with open(path, encoding='utf-8') as file:
        lines = file.readlines()
    left = iter(counts)
    with open(path, 'w', encoding='utf-8') as file:
        for line in lines:
            fields = line.split()
            if fields and not line.startswith('#'):
                line = f'{fields[0]} {min(int(fields[1]), next(left))} {" ".join(fields[2:])}'.rstrip() + '\n'
            file.write(line)


def main():
    table = sys.argv[1]
    rows = read_table(table)
    uses, first = count_parts([line.strip() for line in sys.stdin if line.strip().endswith(C_SOURCES + ('.py',))])
    found = []
    for words, _, allowed in rows:
        names = collections.Counter()
        for word in words:
            names |= collections.Counter({name: n for name, n in uses[word].items() if name not in allowed})
        found.append(names)
    if '--write' in sys.argv[2:]:
        write_table(table, [sum(names.values()) for names in found])
        return
    for (words, ceiling, _), names in zip(rows, found):
        count = sum(names.values())
        if count > ceiling:
            name = min(names, key=lambda name: names[name])
            print(f'{words[0]}: {count} uses in identifiers; the ceiling is {ceiling} (for example {name} in {first[name]})')


main()
