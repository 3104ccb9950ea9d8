# SPDX-License-Identifier: Apache-2.0
"""Checks C code that has one spelling in this tree. Paths come on standard input, one per line.

Prints one line for each violation:
  assertions  the condition of TSR_ASSERT or assert changes nothing: no ++, --, assignment, and no call of a function of the tree
              that takes a pointer to something that is not const
  counts      the number of elements of an array is TSR_COUNT
  growth      an array doubles by tsr_grow or TSR_ARENA_GROW
  numbers     64-bit numbers are printed by PRIu64 and its like, without %ll and without a cast to (unsigned) long long
"""
import re
import sys

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)
FUNCTION = re.compile(r'^[A-Za-z_][\w \t*]*?\b(\w+)\(([^;{}()]*)\)\s*(?:__attribute__[^;{]*)?[;{]', re.MULTILINE)
ASSERTION = re.compile(r'\b(?:TSR_ASSERT|assert)\(')
CHANGE = re.compile(r'\+\+|--|(?<![=!<>])=(?!=)')
CALL = re.compile(r'\b(\w+)\(')
PATTERNS = (
    ('counts', re.compile(r'\bsizeof ?\(?([\w.>-]+)\)? */ *sizeof ?\(?(?:\*\1|\(?\1\)?\[0\])'), 'sizeof / sizeof; expected TSR_COUNT'),
    ('growth', re.compile(r'(\w*(?:capacity|room)) \? 2 \* [\w.>*-]*\1[^;]*;(?:[^;]*;){0,2}[^;]*\b(?:realloc|memcpy)\('),
     'an array doubles by hand; expected tsr_grow or TSR_ARENA_GROW'),
    ('numbers', re.compile(r'\((?:unsigned )?long long\)'), 'a cast to long long; expected PRIu64 or PRId64'),
)
LONG_LONG = re.compile(r'(?<!%)(?:%%)*%[-+ #0-9.*]*ll[dioxuX]')


def blank(match):
    """Replaces a comment or string by blanks, so that lines and columns stay."""
    text = match.group(0)
    if text[0] in '"\'':
        return text[0] + ' ' * (len(text) - 2) + text[-1]
    return re.sub(r'[^\n]', ' ', text)


def is_changed(parameter):
    """Tells whether a function may change something through this parameter."""
    parameter = parameter.strip()
    return ('*' in parameter or '[' in parameter) and not re.match(r'(?:struct )?const\b|\w+ const\b', parameter)


def changers(texts):
    """Returns names of functions that may change something: for all files those with the prefix, for each file its own."""
    shared, own = set(), {}
    for path, text in texts.items():
        own[path] = set()
        for name, parameters in FUNCTION.findall(text):
            if any(is_changed(parameter) for parameter in parameters.split(',')):
                (shared if name.startswith('tsr_') else own[path]).add(name)
    return shared, own


def condition_at(text, start):
    """Returns the text of the parentheses that open before start."""
    depth = 1
    for end in range(start, len(text)):
        depth += (text[end] == '(') - (text[end] == ')')
        if depth == 0:
            return text[start:end]
    return text[start:]


def check_assertions(path, text, names):
    for match in ASSERTION.finditer(text):
        if text[:match.start()].rsplit('\n', 1)[-1].lstrip().startswith('#define'):
            continue
        condition = condition_at(text, match.end())
        change = CHANGE.search(condition)
        called = [name for name in CALL.findall(condition) if name in names]
        if change or called:
            what = f"'{change.group(0)}'" if change else f'{called[0]}, which may change its argument'
            yield match.start(), f'the condition of an assertion has {what}'


def main():
    raw = {}
    for path in sys.stdin.read().split('\n'):
        if path.endswith(('.c', '.h', '.cpp')):
            with open(path, encoding='utf-8', errors='replace') as file:
                raw[path] = file.read()
    texts = {path: COMMENT.sub(blank, text) for path, text in raw.items()}
    shared, own = changers(texts)
    for path, text in texts.items():
        if path == 'runtime/base/array.h':
            continue  # defines TSR_COUNT
        found = list(check_assertions(path, text, shared | own[path]))
        for _, pattern, message in PATTERNS:
            found += [(match.start(), message) for match in pattern.finditer(text)]
        found += [(match.start(), f"'{match.group(0)}' in a format; expected PRIu64 and its like") for match in LONG_LONG.finditer(raw[path])]
        for start, message in sorted(found):
            line = text.count('\n', 0, start) + 1
            print(f'{path}:{line}: {message}')


main()
