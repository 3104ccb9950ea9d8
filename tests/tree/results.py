# SPDX-License-Identifier: Apache-2.0
"""Finds results that a cast to void drops. Paths come on standard input, one per line.

Prints one line for each `(void)f(…)` where f returns a tsr_result: a function with the prefix of the project, or one of the same file.
"""
import re
import sys

RETURNS = re.compile(r'\b(?:tsr_result|TSR_RESULT)\s+(\w+)\(')
DROPS = re.compile(r'\(void\)\s*(\w+)\(')


def main():
    texts = {}
    for path in sys.stdin.read().split('\n'):
        if path.endswith(('.c', '.h')):
            with open(path, encoding='utf-8', errors='replace') as file:
                texts[path] = file.read()
    shared = {name for text in texts.values() for name in RETURNS.findall(text) if name.startswith('tsr_')}
    for path, text in texts.items():
        names = shared | set(RETURNS.findall(text))
        for match in DROPS.finditer(text):
            if match.group(1) in names:
                line = text.count('\n', 0, match.start()) + 1
                print(f'{path}:{line}: (void) drops the result of {match.group(1)}; expected TSR_DROP and a reason')


main()
