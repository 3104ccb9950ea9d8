#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/library.md and the functions of the Python package, from the rows of library.def. The example of each row is compiled.

library.py AOT ROOT            compares
library.py AOT ROOT --update   rewrites them
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import typing

AOT, ROOT = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
PAGE, MODULE, PARTS = ROOT / 'docs/library.md', ROOT / 'python/tessera/_library.py', ROOT / 'python/tessera/stdlib.py'
ROWS, STDLIB = 110, 'tessera.stdlib'
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


class Row(typing.NamedTuple):
    kind: str  # OP FUNCTION OTHER STDLIB NAME
    name: str
    op: str
    words: str  # parameters
    about: str
    example: str


def read_rows():
    """The rows of library.def, by name."""
    text = (ROOT / 'compiler/frontend/language/trace/library.def').read_text('utf-8')
    rows = []
    for kind, name, rest in re.findall(rf'^(OP|FUNCTION|OTHER|STDLIB|NAME)\((\w+)((?:, "(?:[^"\\]|\\.)*")+)\)', text, re.M):
        words = [re.sub(r'\\(.)', r'\1', word) for word in re.findall(STRING, rest)]
        if kind == 'NAME':
            words.insert(0, '')
        if kind != 'OP':
            words.insert(0, '')
        rows.append(Row(kind, name, *words))
    assert len(rows) == len(re.findall(r'^(?:OP|FUNCTION|OTHER|STDLIB|NAME)\(', text, re.M)), 'a row that library.py does not understand'
    return sorted(rows, key=lambda row: (row.kind == 'STDLIB', row.name))


# What an example may call.
HELPERS = """
def advance(carry, x): return carry + x, x
def below(x): return sum(x) < 9.0
"""


def program(row, parameters):
    example = row.example
    if row.kind == 'STDLIB':
        return program(row._replace(kind='OTHER'), parameters).replace('import *\n', f'import *\nfrom {STDLIB} import {row.name}\n', 1)
    first = parameters.split(':')[0]
    if example.startswith('@custom'):
        return f'from tessera import *\n{example}\ndef g(x): return x\n@function(entry="infer")\ndef f({parameters}): return {{"y": {first}}}\n'
    if example.startswith(('assign', 'verify')):
        return f'from tessera import *\n@function(entry="train")\ndef f({parameters}):\n    w = param("w", (4, 6), f32, init=constant(1.0))\n    {example}\n    return {{"y": {first} + w}}\n'
    if row.name == 'autodiff':
        return f'from tessera import *\n{example}\ndef g(x): return x\n@function(entry="infer")\ndef f({parameters}): return {{"y": g({first})}}\n'
    if row.name == 'constraints':
        parameters = parameters.replace('4, 6', '"B", "D"')
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
    said = ''
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / 'm.py'
        for parameters in CONTEXTS:
            source.write_text(program(row, parameters), 'utf-8')
            done = subprocess.run([AOT, 'check', str(source)], capture_output=True, text=True, timeout=60, check=False)
            if done.returncode == 0:
                return ''
            said = said or done.stderr
    return f'{row.name}: its example {row.example} does not compile: {said[:300]}'


def table(rows, head):
    out = ['', f'| {head} | what | example | op |', '|---|---|---|---|']
    for row in rows:
        shown = re.sub(r':(i64s?|f64|flag|text|all)', '', row.words.replace(' ', ', ').replace(':all', ':all?'))
        code, about = (text.replace('|', '\\|') for text in (row.example, row.about))
        call = '' if row.kind == 'NAME' else f'({shown})'
        out.append(f'| `{row.name}{call}` | {about} | `{code}` | {f"`tessera.{row.op}`" if row.op else ""} |')
    return out


PROSE = """
## Types, policies and placement

- `Tensor["B", "S", "3*D", bf16]` is the type of a parameter or result. A dim is a size, a name, or a sum or product of names; `...` before the dims stands for any others, and the element type can be left out. Names belong to one function: at
  each call they get the dims of the arguments, which must agree. `"D"` follows from `"3*D"` alone, too.
- A dim that an entry names has no size in the program: `tessera-aot build model.py -o model.tsb --dim B=1,8` gives it one, or several. Each name must be a dim of some parameter by itself. `x.shape` has such dims; `+ - * // %` compute with
  them, shapes take them, and a comparison is an error unless it has one result for all sizes.
- `@constraints("D % 8 == 0", "B in 1..=64")` states what holds for the dims of a function, and `@deterministic(seed=7)` that its bits are the same on all targets. The compiler proves both or refuses the program.
- `KVCache[batch, heads, tokens, width, bf16]` is the type of a cache: `empty()` makes one, `append(k, v)` returns one with these tokens, and `KVCache.of(k, v)` is both. `.K` and `.V` are tensors. In this version a cache lives in one call:
  it is not a parameter of an entry, it gets tokens once, and `fork`, `prune`, `offload` and `prefetch` are refused. `@rolling_window` therefore removes no tokens.
- `bf16 @accum(f32)` states the type that sums have anyway, and another one is refused, as are `@saturate`, `@stochastic_round`, `@loss_scale` and `@paged`. `minimize(…, state=OptimizerState @fp32_master)` gives **all** parameters of bf16 and f16 of
  the module values in f32, which optimizers need; the program reads them in their own type.
- `with device(gpu), prefetch(cache, into="smem", overlap="compute"):` states where code runs and that kernels copy keys and values while they compute. Both change nothing: a program is built for one target, and its kernels of attention do so
  on GPUs. Other devices and other ways to prefetch are refused.
"""


def make_page(rows):
    out = ['# Library', '', 'The functions of programs in Python syntax: `from tessera import *`. The page is made of `compiler/frontend/language/trace/library.def`'
           ' by `tests/language/library.py --update`,', 'which compiles each example. A parameter with `?` can be left out; `axes` without a value are all axes.'
           ' [language.md](language.md) says more about each op.']
    out += table([row for row in rows if row.kind not in ('STDLIB', 'NAME')], 'function')
    out += PROSE.rstrip().split('\n')
    out += ['', '## Values', '', 'Types, policies and devices, of `tessera`, too.'] + table([row for row in rows if row.kind == 'NAME'], 'name')
    out += ['', '## Parts of models', '', f'`from {STDLIB} import residual`'] + table([row for row in rows if row.kind == 'STDLIB'], 'function')
    return '\n'.join(out) + '\n'


DTYPES = 'f64 f32 bf16 f16 i64 i32 i16 i8 i1 ui64 ui32 ui16 ui8'.split()


LICENSE = '# SPDX-License-Identifier: Apache-2.0'
CHECKERS = ['# flake8: noqa', '# pylint: skip-file', 'from __future__ import annotations', '', 'from typing import Any', '']
DECORATORS = ('autodiff', 'jit')


def define(row):
    """The function of a row in Python."""
    names = [re.split(r'[:?]', word)[0] for word in row.words.split()]
    shown = ', '.join(f'{word}: Any' + ('' if i == 0 else ' = None') for i, word in enumerate(names))
    given = '(' + ''.join(f'{word}, ' for word in names) + '), {}'
    if row.name in ('cond', 'mesh'):
        shown, given = '*arguments: Any, **axes: Any', 'arguments, axes'
    if row.name == 'constraints':
        shown, given = '*texts: Any', 'texts, {}'
    text = row.about.replace('"', "'")
    return ['', '', f'def {row.name}({shown}) -> Any:', f'    """{text[0].upper()}{text[1:]}."""', f"    return call('{row.name}', {given})"]


def make_module(rows):
    """python/tessera/_library.py: the functions for editors and type checkers."""
    out = [LICENSE, '"""The functions of programs in Python syntax. Made of library.def by tests/language/library.py --update."""', *CHECKERS,
           'from ._language import Decorator, DType, Symbol, Tensor, call, function', '']
    out += [f"{name} = DType('{name}')" for name in DTYPES]
    own = [row for row in rows if row.kind != 'STDLIB']
    out += [f"{row.name} = Symbol('{row.name}')" for row in own if row.kind == 'NAME']
    out += [f"{name} = Decorator('{name}')" for name in DECORATORS]
    for row in own:
        if row.kind != 'NAME' and row.name not in ('function', *DECORATORS):
            out += define(row)
    out += ['', '', f'__all__ = {sorted([row.name for row in own] + DTYPES + ["Tensor"])!r}']
    return '\n'.join(out) + '\n'


def make_parts(rows):
    """python/tessera/stdlib.py."""
    own = [row for row in rows if row.kind == 'STDLIB']
    out = [LICENSE, '"""Parts of models for programs in Python syntax. Made of library.def by tests/language/library.py --update."""', *CHECKERS, 'from ._language import call']
    for row in own:
        out += define(row)
    out += ['', '', f'__all__ = {[row.name for row in own]!r}']
    return '\n'.join(out) + '\n'


rows = read_rows()
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    wrong = [line for line in pool.map(compiles, rows) if line]
for path, text in ((PAGE, make_page(rows)), (MODULE, make_module(rows)), (PARTS, make_parts(rows))):
    if '--update' in sys.argv[3:]:
        path.write_text(text, 'utf-8')
    if not path.exists() or path.read_text('utf-8') != text:
        wrong.append(f'{path.relative_to(ROOT)} is stale: run tests/language/library.py AOT ROOT --update')
if len(rows) < ROWS:
    wrong.append(f'{len(rows)} rows, expected at least {ROWS}')
print('\n'.join(wrong), f'{len(rows)} functions, {len(wrong)} wrong', sep='\n')
sys.exit(bool(wrong))
