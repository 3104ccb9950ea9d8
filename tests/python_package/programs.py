#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs in Python syntax, captured from modules of Python: the same bundles as those of tessera-aot, and what is refused.

programs.py RUN
"""
import importlib.util
import linecache
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish  # noqa: E402

AOT = str(pathlib.Path(sys.argv[1]).resolve().with_name('tessera-aot'))
os.environ['TESSERA_AOT'] = AOT
import tessera  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = 'cpu:x86-64-v2'
BAD = 'from tessera import *\n@function(entry="infer")\ndef f(x: Tensor[4, f32]):\n    return {"y": rellu(x)}\n'
GOOD = BAD.replace('rellu', 'relu')


def load(path):
    spec = importlib.util.spec_from_file_location('program', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def raises(what, kind, text, run):
    try:
        run()
    except kind as error:
        expect(f'{what}: {text}', text in str(error), error)
        return error
    expect(f'{what}: refused', False)
    return None


def check_examples(folder):
    sources = [path for path in sorted((ROOT / 'examples').glob('*/*.py')) if path.with_suffix('.mlir').exists()]
    for source in sources:
        module = load(source)
        entries = [value for value in vars(module).values() if isinstance(value, tessera.Function)]
        expect(f'{source.name} has entries', entries)
        if source.stem in ('gpt2', 'gpt-char', 'convnet'):
            continue  # their bundles take long; the front end is the same
        subprocess.run([AOT, 'build', str(source), '-o', str(folder / 'aot.tsb'), f'--target={TARGET}'], check=True, capture_output=True)
        entries[0].build(folder / 'captured.tsb', target=TARGET)
        expect(f'{source.name}: the same bundle', (folder / 'aot.tsb').read_bytes() == (folder / 'captured.tsb').read_bytes())
    expect('all examples', len(sources) == 8, len(sources))
    softmax = load(ROOT / 'examples/softmax/softmax.py')
    entry = next(value for value in vars(softmax).values() if isinstance(value, tessera.Function))
    expect('a repr with types', repr(entry) == '<infer entry rows(x: tensor<5x12xf32>) -> {y: tensor<5x12xf32>}>', repr(entry))
    import numpy as np
    profile = entry.profile(np.load(ROOT / 'examples/softmax/x.npy'), calls=2)
    expect('a profile with kernels', profile.kernels, profile)


def check_refused(folder):
    path = folder / 'bad.py'
    path.write_text(BAD, 'utf-8')
    error = raises('an unknown name', tessera.CompilationError, "[TSR-0910] the name 'rellu' is not known; did you mean 'relu'?", lambda: load(path).f.build(folder / 'b.tsb'))
    if error:
        first = error.diagnostics[0]
        expect('its place and fix', (first.line, first.column, first.fix) == (4, 18, (18, 5, 'relu')), first)
        expect('the text shows both', str(error).endswith('                 ^\n                 relu'), str(error))
    path.write_text(GOOD, 'utf-8')
    module = load(path)
    raises('a call', tessera.UsageError, 'f() is an entry of a program, which Python does not run', lambda: module.f(1))
    raises('a library function', tessera.UsageError, 'relu() runs in a compiled program only', lambda: tessera.relu(1))
    path.write_text(GOOD + '# more\n', 'utf-8')
    raises('a changed file', tessera.UsageError, 'bad.py has changed since it was imported', lambda: module.f.build(folder / 'b.tsb'))
    prompt = {}
    exec(compile(GOOD, '<stdin>', 'exec'), prompt)  # pylint: disable=exec-used
    raises('a prompt', tessera.UsageError, '<stdin> has no source', lambda: prompt['f'].build(folder / 'b.tsb'))
    cell = {}
    linecache.cache['<ipython-input-1>'] = (len(GOOD), None, GOOD.splitlines(True), '<ipython-input-1>')
    exec(compile(GOOD, '<ipython-input-1>', 'exec'), cell)  # pylint: disable=exec-used
    expect('a cell of a notebook', pathlib.Path(cell['f'].build(folder / 'cell.tsb', target=TARGET)).exists())


def check_values():
    """What the names mean for known values, and at the top of a module."""
    expect('sum, abs and round of Python', (tessera.sum([1, 2]), tessera.abs(-3), tessera.round(2.5)) == (3, 3, 2))
    expect('a decorator', tessera.jit(check_values) is check_values)
    expect('a type', repr(tessera.Tensor[4, tessera.f32]) == 'Tensor[4, f32]')
    with tessera.scope('a'):
        expect('a parameter', repr(tessera.param('w', (4,), tessera.f32, tessera.constant(0.0))) == 'param(…)')


with tempfile.TemporaryDirectory() as temporary:
    check_examples(pathlib.Path(temporary))
    check_refused(pathlib.Path(temporary))
    check_values()
finish()
