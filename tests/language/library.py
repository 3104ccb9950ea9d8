#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/library.md: the functions of the library, from the rows of library.def. The example of each row is compiled.

library.py AOT ROOT            compares
library.py AOT ROOT --update   rewrites the page
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

AOT, ROOT = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
PAGE, MODULE, ROWS = ROOT / 'docs/library.md', ROOT / 'python/tessera/_library.py', 95
# What an example may use: the first of these under which it compiles.
CONTEXTS = (
    'x: Tensor[4, 6, f32], y: Tensor[4, 6, f32], condition: Tensor[4, 6, i1]',
    'x: Tensor[4, 6, f32], w: Tensor[6, f32], b: Tensor[6, f32]',
    'x: Tensor[4, 6, f32], w: Tensor[6, 3, f32]',
    'x: Tensor[1, 8, 8, 3, f32], w: Tensor[3, 3, 3, 5, f32]',
    'q: Tensor[1, 2, 4, 8, f32], k: Tensor[1, 2, 4, 8, f32], v: Tensor[1, 2, 4, 8, f32]',
    'logits: Tensor[4, 6, f32], labels: Tensor[4, i64]',
    'table: Tensor[9, 4, f32], tokens: Tensor[5, i64], updates: Tensor[5, 4, f32]',
)
STRING = r'"((?:[^"\\]|\\.)*)"'


def read_rows():
    """(name, parameters, what it does, example, op) of each function, by name."""
    text = (ROOT / 'compiler/frontend/language/trace/library.def').read_text('utf-8')
    plain = [re.sub(r'\\(.)', r'\1', word) for row in re.findall(rf'^OP\((\w+), {STRING}, {STRING}, {STRING}, {STRING}\)', text, re.M) for word in row]
    ops = [(name, words, about, example, op) for name, op, words, about, example in zip(*[iter(plain)] * 5)]
    plain = [re.sub(r'\\(.)', r'\1', word) for row in re.findall(rf'^(?:FUNCTION|OTHER)\((\w+), {STRING}, {STRING}, {STRING}\)', text, re.M) for word in row]
    others = [(name, words, about, example, '') for name, words, about, example in zip(*[iter(plain)] * 4)]
    assert len(ops) + len(others) == len(re.findall(r'^(?:OP|FUNCTION|OTHER)\(', text, re.M)), 'a row that library.py does not understand'
    return sorted(ops + others)


# What an example may call.
HELPERS = """
def advance(carry, x): return carry + x, x
def below(x): return sum(x) < 9.0
"""


def program(example, parameters):
    first = parameters.split(':')[0]
    if example.startswith('@custom'):
        return f'from tessera import *\n{example}\ndef g(x): return x\n@function(entry="infer")\ndef f({parameters}): return {{"y": {first}}}\n'
    if example.startswith(('assign', 'verify')):
        return f'from tessera import *\n@function(entry="train")\ndef f({parameters}):\n    w = param("w", (4, 6), f32, init=constant(1.0))\n    {example}\n    return {{"y": {first} + w}}\n'
    if example.startswith('@'):
        head = '' if 'entry' in example else '@function(entry="infer")\n'
        return f'from tessera import *\n{head}{example}\ndef f({parameters}): return {{"y": {first}}}\n'
    if example.startswith('mesh'):
        return f'from tessera import *\n{example}\n@function(entry="infer")\ndef f({parameters}): return {{"y": {first}}}\n'
    if example.startswith('with '):
        return f'from tessera import *\n@function(entry="infer")\ndef f({parameters}):\n    {example.replace("…", "pass")}\n    return {{"y": {first}}}\n'
    if example.startswith('minimize'):
        return (f'from tessera import *\n@function(entry="train")\ndef f({parameters}):\n    loss = mean({first} * param("w", (6,), f32, init=constant(1.0)))\n'
                f'    {example}\n    return {{"loss": loss}}\n')
    return f'from tessera import *\n{HELPERS}@function(entry="infer")\ndef f({parameters}):\n    value = {example}\n    return {{"y": {first}}}\n'


def compiles(row):
    name, _, _, example, _ = row
    said = ''
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / 'm.py'
        for parameters in CONTEXTS:
            source.write_text(program(example, parameters), 'utf-8')
            done = subprocess.run([AOT, 'check', str(source)], capture_output=True, text=True, timeout=60, check=False)
            if done.returncode == 0:
                return ''
            said = said or done.stderr
    return f'{name}: its example {example} does not compile: {said[:300]}'


def make_page(rows):
    out = ['# Library', '', 'The functions of programs in Python syntax: `from tessera import *`. The page is made of `compiler/frontend/language/trace/library.def`'
           ' by `tests/language/library.py --update`,', 'which compiles each example. A parameter with `?` can be left out; `axes` without a value are all axes.'
           ' [language.md](language.md) says more about each op.', '', '| function | what | example | op |', '|---|---|---|---|']
    for name, words, about, example, op in rows:
        shown = re.sub(r':(i64s?|f64|flag|text|all)', '', words.replace(' ', ', ').replace(':all', ':all?'))
        code = example.replace('|', '\\|')
        out.append(f'| `{name}({shown})` | {about.replace("|", chr(92) + "|")} | `{code}` | {f"`tessera.{op}`" if op else ""} |')
    return '\n'.join(out) + '\n'


DTYPES = 'f64 f32 bf16 f16 i64 i32 i16 i8 i1 ui64 ui32 ui16 ui8'.split()


def make_module(rows):
    """python/tessera/_library.py: the functions for editors and type checkers."""
    out = ['# SPDX-License-Identifier: Apache-2.0', '"""The functions of programs in Python syntax. Made of library.def by tests/language/library.py --update."""', '# flake8: noqa',
           '# pylint: skip-file', 'from __future__ import annotations', '', 'from typing import Any', '', 'from ._language import DType, Tensor, call, function', '']
    out += [f"{name} = DType('{name}')" for name in DTYPES]
    for name, words, about, _, _ in rows:
        if name == 'function':
            continue
        names = [re.split(r'[:?]', word)[0] for word in words.split()]
        first = name in ('cond', 'mesh')
        shown = ', '.join(f'{word}: Any' + ('' if i == 0 else ' = None') for i, word in enumerate(names))
        if first:
            shown = '*arguments: Any, **axes: Any'
        given = 'arguments, axes' if first else '(' + ''.join(f'{word}, ' for word in names) + '), {}'
        text = about.replace('"', "'")
        out += ['', '', f'def {name}({shown}) -> Any:', f'    """{text[0].upper()}{text[1:]}."""', f"    return call('{name}', {given})"]
    out += ['', '', f'__all__ = {sorted([row[0] for row in rows] + DTYPES + ["Tensor"])!r}']
    return '\n'.join(out) + '\n'


rows = read_rows()
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    wrong = [line for line in pool.map(compiles, rows) if line]
page = make_page(rows)
module = make_module(rows)
if '--update' in sys.argv[3:]:
    PAGE.write_text(page, 'utf-8')
    MODULE.write_text(module, 'utf-8')
if not MODULE.exists() or MODULE.read_text('utf-8') != module:
    wrong.append('python/tessera/_library.py is stale: run tests/language/library.py AOT ROOT --update')
if not PAGE.exists() or PAGE.read_text('utf-8') != page:
    wrong.append('docs/library.md is stale: run tests/language/library.py AOT ROOT --update')
if len(rows) < ROWS:
    wrong.append(f'{len(rows)} rows, expected at least {ROWS}')
print('\n'.join(wrong), f'{len(rows)} functions, {len(wrong)} wrong', sep='\n')
sys.exit(bool(wrong))
