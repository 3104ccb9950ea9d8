# SPDX-License-Identifier: Apache-2.0
"""Counts idioms in the comments of C sources that make readers stop. Paths come on standard input, one per line.

usage: idioms.py TABLE [--write | --rates]

TABLE has one row per idiom: `NAME GOAL CEILING PATTERN`. The rate of an idiom is the number of matches of PATTERN (a regular
expression, case ignored) per 1,000 words of comments; the rate of `openings` is the number of comments that begin with a match,
per 100 comments. The check prints one line per idiom whose rate exceeds its ceiling. --write lowers the ceilings to today's rates,
rounded up to two decimals, but not below the goals; it never raises a ceiling. --rates prints all rates.
"""
import math
import re
import sys

COMMENT = re.compile(r'/\*(.*?)\*/|(?<![:"])//([^\n]*)', re.DOTALL)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
SOURCES = ('.c', '.h', '.cpp', '.hpp', '.td', '.def')
WORDS_MIN = 50000  # a tree with fewer words of comments says too little about a rate


def comments_of(text):
    """Yields the text of each comment, without stars at the beginning of lines and without the licence line."""
    for match in COMMENT.finditer(text):
        body = match.group(1) if match.group(1) is not None else match.group(2)
        yield re.sub(r'^[ \t]*\*', '', body, flags=re.MULTILINE).replace('SPDX-License-Identifier: Apache-2.0', '')


def read_table(path):
    """Returns the rows of TABLE: [name, goal, ceiling, pattern]."""
    rows = []
    with open(path, encoding='utf-8') as file:
        for line in file:
            if line.strip() and not line.startswith('#'):
                name, goal, ceiling, pattern = line.split(None, 3)
                rows.append([name, float(goal), float(ceiling), pattern.strip()])
    return rows


def measure(paths, rows):
    """Returns the number of words and comments, and for each row its rate and the first example where it occurs."""
    words = openings = 0
    patterns = [re.compile(row[3], re.IGNORECASE) for row in rows]
    counts, examples = [0] * len(rows), [''] * len(rows)
    for path in paths:
        with open(path, encoding='utf-8', errors='replace') as file:
            text = file.read()
        for comment in comments_of(text):
            words += len(WORD.findall(comment))
            openings += 1
            for i, pattern in enumerate(patterns):
                found = bool(pattern.match(comment.lstrip())) if rows[i][0] == 'openings' else len(pattern.findall(comment))
                counts[i] += found
                examples[i] = examples[i] or (path if found else '')
    rates = [100 * count / max(openings, 1) if row[0] == 'openings' else 1000 * count / max(words, 1)
             for count, row in zip(counts, rows)]
    return words, rates, examples


def write_table(path, rows, rates):
    ceilings = {row[0]: min(row[2], max(row[1], math.ceil(100 * rate) / 100)) for row, rate in zip(rows, rates)}
    with open(path, encoding='utf-8') as file:
        lines = file.readlines()
    with open(path, 'w', encoding='utf-8') as file:
        for line in lines:
            fields = line.split(None, 3)
            if not line.startswith('#') and len(fields) == 4:
                line = f'{fields[0]:<10} {fields[1]:>4} {ceilings[fields[0]]:>6.2f}  {fields[3]}'
            file.write(line)


def main():
    table = sys.argv[1]
    rows = read_table(table)
    paths = [line.strip() for line in sys.stdin if line.strip().endswith(SOURCES)]
    words, rates, examples = measure(paths, rows)
    if '--write' in sys.argv[2:]:
        write_table(table, rows, rates)
        return
    if '--rates' in sys.argv[2:]:
        print(f'{words} words', *(f'{row[0]} {rate:.2f}' for row, rate in zip(rows, rates)), sep='\n')
        return
    if words < WORDS_MIN and '--any-size' not in sys.argv[2:]:
        print(f'the comments have {words} words; expected at least {WORDS_MIN}')
    for (name, goal, ceiling, _), rate, example in zip(rows, rates, examples):
        unit = 'of 100 comments' if name == 'openings' else 'per 1,000 words of comments'
        if rate > ceiling:
            print(f'{name}: {rate:.2f} {unit}; the ceiling is {ceiling:.2f}, the goal {goal:g} (for example in {example})')


if __name__ == '__main__':
    main()
