#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Random programs in Python syntax: the outputs are those of the same program in NumPy, in f64.

random_programs.py AOT RUN [PROGRAMS [SEED]]

A program is text that both sides run: the compiler with the library, CPython with NumPy in its place. It has functions with static and traced
arguments, loops, branches over static values, lists, dicts, comprehensions, slices. Entries of one bundle hold several programs.
"""
import pathlib
import random
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish, run  # noqa: E402

AOT, RUN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
PROGRAMS, SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 40, int(sys.argv[4]) if len(sys.argv) > 4 else 1
EACH = 20  # programs of one bundle
DIM = 4  # all tensors are [DIM, DIM]: every operation fits


def numpy_names():
    """What the programs call, in NumPy."""
    def axes_of(axes):
        return tuple(axes) if isinstance(axes, (list, tuple)) else axes
    return {
        'tanh': np.tanh, 'exp': np.exp, 'sin': np.sin, 'cos': np.cos, 'sqrt': np.sqrt, 'abs': np.abs, 'floor': np.floor, 'sign': np.sign,
        'maximum': np.maximum, 'minimum': np.minimum, 'where': np.where, 'relu': lambda x: np.maximum(x, 0.0),
        'sigmoid': lambda x: 1 / (1 + np.exp(-x)), 'clamp': np.clip, 'log1p': np.log1p, 'matmul': np.matmul,
        'sum': lambda x, axes=None: sum(x) if isinstance(x, (list, tuple)) else np.sum(x, axis=axes_of(axes)),
        'mean': lambda x, axes=None: np.mean(x, axis=axes_of(axes)), 'reduce_max': lambda x, axes=None: np.max(x, axis=axes_of(axes)),
        'reshape': np.reshape, 'transpose': np.transpose, 'concat': lambda tensors, axis: np.concatenate(tensors, axis),
        'split': np.split, 'cumsum': lambda x, axis: np.cumsum(x, axis), 'zeros': lambda shape, dtype: np.zeros(shape),
        'full': lambda shape, value, dtype: np.full(shape, value), 'f64': np.float64,
        'softmax_safe': lambda x, axis: (lambda e: e / e.sum(axis, keepdims=True))(np.exp(x - x.max(axis, keepdims=True))),
    }


class Writer:
    """Writes one program: functions, then an entry."""

    def __init__(self, rng, index):
        self.rng, self.index, self.functions, self.lines = rng, index, [], []

    def number(self):
        return self.rng.choice(['0.5', '-1.25', '2.0', '3', '-1', f'{self.rng.uniform(-2, 2):.3f}'])

    def static(self, names):
        """A static number from static names."""
        if not names or self.rng.random() < 0.4:
            return self.number()
        name = self.rng.choice(names)
        return self.rng.choice([name, f'({name} * {self.number()})', f'min({name}, 2)', f'max({name}, -2)', f'(1.5 if {name} > 0 else -0.5)', f'float(len(str(int({name}))))'])

    def tensor(self, names, statics, depth=0):
        """An expression of a tensor [DIM, DIM] from tensors of that shape."""
        pick, sub = self.rng.choice, lambda: self.tensor(names, statics, depth + 1)
        if depth > 2 or self.rng.random() < 0.15:
            return pick(names)
        unary, binary = pick(['tanh', 'sin', 'cos', 'sigmoid', 'relu', 'abs', 'sign']), pick(['+', '-', '*'])
        forms = [
            lambda: f'{unary}({sub()})', lambda: f'({sub()} {binary} {sub()})', lambda: f'({sub()} {binary} {self.static(statics)})',
            lambda: f'({self.static(statics)} {binary} {sub()})', lambda: f'tanh({sub()} @ {sub()})', lambda: f'-{sub()}',
            lambda: f'where({sub()} > {self.static(statics)}, {sub()}, {sub()})', lambda: f'maximum({sub()}, {sub()})',
            lambda: f'clamp({sub()}, -0.75, 0.5)', lambda: f'softmax_safe({sub()}, axis={pick([0, 1, -1])})',
            lambda: f'({sub()} + mean({sub()}, axes=[{pick([0, 1])}]))', lambda: f'(tanh({sub()}) * sum({pick(names)}[{pick([0, 1, -1])}]))',
            lambda: f'transpose({sub()}, (1, 0))', lambda: f'{pick(names)}.T', lambda: f'reshape(reshape({sub()}, (2, -1)), ({DIM}, {DIM}))',
            lambda: f'concat([{pick(names)}[:2], {pick(names)}[2:]], axis=0)', lambda: f'concat(split({sub()}, 2, axis=1), axis=1)',
            lambda: f'cumsum({sub()}, axis={pick([0, 1])})', lambda: f'sqrt(abs({sub()}) + 1.0)', lambda: f'({sub()} / (abs({sub()}) + 1.0))',
            lambda: f'({sub()} + [{pick(names)}, {pick(names)}][{pick([0, 1, -1])}])',
            lambda: f'({sub()} + [n * {pick(names)} for n in range({pick([1, 2, 3])})][-1])',
            lambda: '{"a": %s, "b": %s}["%s"]' % (pick(names), sub(), pick(['a', 'b'])),
            lambda: f'({sub()} + {pick(names)}.shape[{pick([0, 1])}])', lambda: f'(zeros(({DIM}, {DIM}), f64) + {sub()})',
            lambda: f'(reshape({pick(names)}[{pick([0, 1, 3])}, :], (1, {DIM})) * {sub()})',
        ]
        if self.functions:
            name, count, keyword = pick(self.functions)
            tensors = ', '.join(sub() for _ in range(count))
            forms += 4 * [lambda: f'{name}({tensors}' + (f', scale={self.static(statics)}' if keyword else '') + ')']
        return pick(forms)()

    def body(self, names, statics, indent):
        """Assignments, loops, branches; the names of tensors afterwards."""
        names, out = list(names), []
        for i in range(self.rng.randint(1, 4)):
            new = f't{i}'
            kind = self.rng.random()
            if kind < 0.55:
                out.append(f'{indent}{new} = {self.tensor(names, statics)}')
            elif kind < 0.7:
                out += [f'{indent}{new} = {self.rng.choice(names)}', f'{indent}for i in range({self.rng.randint(0, 3)}):',
                        f'{indent}    {new} = {self.tensor(names + [new], [*statics, "i"])}']
            elif kind < 0.85:
                out += [f'{indent}if {self.static(statics)} > 0:', f'{indent}    {new} = {self.tensor(names, statics)}', f'{indent}else:',
                        f'{indent}    {new} = {self.tensor(names, statics)}']
            else:
                out += [f'{indent}items = [k * {self.rng.choice(names)} for k in ({self.number()}, {self.number()})]',
                        f'{indent}items.append({self.tensor(names, statics)})', f'{indent}{new} = items[{self.rng.choice([0, 1, -1])}] + items[0]']
            names.append(new)
        return out, names

    def write(self):
        for k in range(self.rng.randint(0, 3)):
            count, keyword = self.rng.randint(1, 2), self.rng.random() < 0.6
            parameters = [f'a{i}' for i in range(count)]
            head = ', '.join(parameters + (['*', 'scale'] if keyword else []))
            lines, names = self.body(parameters, ['scale'] if keyword else [], '    ')
            name = f'g{self.index}_{k}'
            self.lines += [f'def {name}({head}):', *lines, f'    return {self.tensor(names, ["scale"] if keyword else [])}', '']
            self.functions.append((name, count, keyword))
        lines, names = self.body(['x', 'y'], [], '    ')
        self.lines += ['@function(entry="infer")', f'def entry{self.index}(x: Tensor[{DIM}, {DIM}, f64], y: Tensor[{DIM}, {DIM}, f64]):', *lines,
                       f'    return {{"r": {self.tensor(names, [])}, "s": {names[-1]}}}', '']
        return '\n'.join(self.lines)


def as_python(text):
    """Runs the program in CPython: entries by name."""
    scope = numpy_names()
    lines = [line for line in text.split('\n') if not line.startswith(('@function', 'from tessera'))]
    plain = '\n'.join(line.split('(x: ')[0] + '(x, y):' if '(x: ' in line else line for line in lines)
    exec(compile(plain, 'program', 'exec'), scope)  # pylint: disable=exec-used
    return scope


def compare(folder, rng, indices):
    text = 'from tessera import *\n' + '\n'.join(Writer(rng, i).write() for i in indices)
    (folder / 'm.py').write_text(text, 'utf-8')
    done = run(folder, AOT, 'build', 'm.py', '-o', 'm.tsb', '--target=cpu:x86-64-v2')
    expect(f'programs {indices[0]} … are built', done.returncode == 0, done.stderr[:2000])
    if done.returncode:
        print(text)
        return
    values = np.random.default_rng(rng.randrange(1 << 30)).normal(size=(2, DIM, DIM))
    scope = as_python(text)
    for name, value in zip('xy', values):
        np.save(folder / f'{name}.npy', value)
    for i in indices:
        done = run(folder, RUN, 'm.tsb', '--entry', f'entry{i}', '--input', 'x=x.npy', '--input', 'y=y.npy', '--output', 'r=r.npy', '--output', 's=s.npy')
        expect(f'program {i} runs', done.returncode == 0, done.stderr[:500])
        for name, value in scope[f'entry{i}'](*values).items():
            got = np.load(folder / f'{name}.npy')
            # Sums may be in another order; where() and sign() may then take the other side, which no tolerance forgives.
            good = got.shape == np.shape(value) and np.allclose(got, value, rtol=1e-9, atol=1e-9)
            expect(f'program {i}, output {name}: the values of NumPy', good, np.abs(got - value).max() if got.shape == np.shape(value) else (got.shape, np.shape(value)), text if not good else '')


with tempfile.TemporaryDirectory() as temporary:
    source = random.Random(SEED)
    for begin in range(0, PROGRAMS, EACH):
        compare(pathlib.Path(temporary), source, list(range(begin, min(begin + EACH, PROGRAMS))))
finish(f'{PROGRAMS} programs')
