#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Transforms of functions: derivatives, loops and branches over tensors, segments that are recomputed. Results are compared with formulas in
NumPy, in f64.

transforms.py AOT RUN
"""
import pathlib
import re
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish, run  # noqa: E402

AOT, RUN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
TARGET, COMPILE = '--target=cpu:x86-64-v2', 9
HEAD = 'from tessera import *\n'
RNG = np.random.default_rng(11)
X, S = RNG.normal(size=4), RNG.normal(size=(5, 4))
TANH = 1 - np.tanh(X) ** 2

# The functions that the expressions below use.
FUNCTIONS = HEAD + '''
W = param("w", (4,), f64, init=constant(2.0))

def loss(p, x):
    return mean(tanh(x * p["a"] + p["b"]))
def cube(x): return sum(x * x * x)
def product(a, b): return a * b
def step(carry, x):
    new = carry * 0.5 + x
    return new, new * new
def count(carry, _): return carry + 1.0, None
def narrow(carry, x): return cast(carry, f32), None
def below(state): return state[0] < 3.0
def double(state):
    n, x = state
    return n + 1.0, x * 2.0
def directional(x): return sum(jvp(cube, x, x)[1])
def scaled(x): return sum(W * x * x)

@custom_vjp
def square(x): return x * x
@square.vjp
def square_rule(x, y, cotangent): return cotangent * x + y * 0.0
@custom_jvp
def third(x, n): return x * n
@third.jvp
def third_rule(x, n, y, tangent): return tangent * 3.0
def of_square(x): return sum(square(x) * x)
def of_third(x): return sum(third(x, 5.0))

@function(entry="infer")
def f(x: Tensor[4, f64], s: Tensor[5, 4, f64]):
    p = {"a": x * 0.5, "b": x + 1.0}
    def inner(t): return sum(t * t * x)             # x is a constant of the derivative
'''

A, B = X * 0.5, X + 1
T = np.tanh(X * A + B)
D = (1 - T * T) / 4


def scanned(order):
    carry, out = np.zeros(4), []
    for row in S[order]:
        carry = carry * 0.5 + row
        out.append(carry * carry)
    return carry, np.array(out)[order]


FORWARD, BACKWARD = slice(None), slice(None, None, -1)
# What the program computes, and the same by NumPy.
CASES = {
    'value_and_grad(loss)(p, x)[0]': T.mean(),
    'value_and_grad(loss)(p, x)[1]["a"]': D * X,
    'grad(loss)(p, x)["b"]': D,
    'grad(loss, argnums=1)(p, x)': D * A,
    'grad(loss, argnums=(0, 1))(p, x)[0]["a"]': D * X,
    'grad(cube)(x)': 3 * X * X,
    'grad(inner)(x)': 2 * X * X,
    'grad(scaled)(x)': 4 * X,
    'grad(directional)(x)': 9 * X * X,
    'grad(of_square)(x)': X * X + X * X,
    'jvp(of_third, x, x)[1]': (3 * X).sum(),
    'vjp(tanh, x, s[0])[1]': TANH * S[0],
    'vjp(product, (x, s[0]), s[1])[1][0]': S[0] * S[1],
    'vjp(product, (x, s[0]), s[1])[0]': X * S[0],
    'jvp(product, (x, s[0]), (s[1], s[2]))[1]': S[1] * S[0] + X * S[2],
    'jvp(tanh, x, s[0])[0]': np.tanh(X),
    'scan(step, x * 0.0, s)[0]': scanned(FORWARD)[0],
    'scan(step, x * 0.0, s)[1]': scanned(FORWARD)[1],
    'scan(step, x * 0.0, s, reverse=True)[1]': scanned(BACKWARD)[1],
    'scan(count, x, length=7)[0]': X + 7,
    'while_loop(below, double, (sum(x) * 0.0, x), limit=9)[1]': X * 8,
    'while_loop(below, double, (sum(x) * 0.0, x), limit=2)[1]': X * 4,
    'cond(sum(x) > 1e9, tanh, exp, x)': np.exp(X),
    'cond(sum(x) < 1e9, product, product, x, s[0])': X * S[0],
    'remat(tanh)(checkpoint(tanh, policy="full")(x))': np.tanh(np.tanh(X)),
    'remat(cube)(x)': (X ** 3).sum(),
}

TRAINED = HEAD + '''
def layer(x, name):
    return tanh(x @ param(name, (4, 4), f32, init=normal(0.0, 0.5)))
@function(entry="train", data=dict(x="x"))
def train(x: Tensor[8, 4, f32]):
    y = {}
    minimize(mean(y * y), sgd(lr=0.1))
    return {{"loss": mean(y * y)}}
'''


def check_values(folder):
    lines = ''.join(f'    y{i} = {text}\n' for i, text in enumerate(CASES))
    outputs = ', '.join(f'"y{i}": y{i}' for i in range(len(CASES)))
    (folder / 'm.py').write_text(f'{FUNCTIONS}{lines}    return {{{outputs}}}\n', 'utf-8')
    done = run(folder, AOT, 'build', 'm.py', '-o', 'm.tsb', TARGET)
    expect('the cases are built', done.returncode == 0, done.stderr)
    np.save(folder / 'x.npy', X)
    np.save(folder / 's.npy', S)
    words = [word for i in range(len(CASES)) for word in ('--output', f'y{i}=y{i}.npy')]
    done = run(folder, RUN, 'm.tsb', '--entry', 'f', '--input', 'x=x.npy', '--input', 's=s.npy', *words)
    expect('the cases run', done.returncode == 0, done.stderr)
    for i, (text, value) in enumerate(CASES.items()):
        got = np.load(folder / f'y{i}.npy')
        expect(text, got.shape == np.shape(value) and np.allclose(got, value, rtol=1e-12, atol=1e-14), got, value)


def check_segments(folder):
    """Training with recomputed segments ends with the bits of training without."""
    np.save(folder / 'd.npy', RNG.normal(size=(32, 4)).astype('f4'))
    states = []
    for text in ('layer(layer(x, "a"), "b")', 'remat(layer)(checkpoint(layer, policy="selective")(x, "a"), "b")'):
        (folder / 't.py').write_text(TRAINED.format(text), 'utf-8')
        done = run(folder, AOT, 'build', 't.py', '-o', 't.tsb', TARGET)
        expect(f'{text} is built', done.returncode == 0, done.stderr)
        done = run(folder, RUN, 't.tsb', '--data', 'x=d.npy', '--steps', '5', '--state-dir', f's{len(states)}')
        states += re.findall(r'^state ([0-9a-f]{64})', done.stdout + done.stderr, re.M)
    expect('the same state', len(states) == 2 and states[0] == states[1], states)


# An expression of the entry, and the first line of what is said.
REFUSED = [
    ('grad(tanh)(x)', '[TSR-0912] a function with a gradient returns one number; this returns 4xf64; vjp(…) takes others'),
    ('grad(cube)()', '[TSR-0915] the gradient is that of argument 0, which is not given'),
    ('grad(cube, argnums=-1)(x)', "[TSR-0912] 'argnums' counts arguments from 0, each once"),
    ('grad(1)(x)', '[TSR-0911] expected a function, not int'),
    ('grad(cube)(1.0)', '[TSR-0911] an argument with a gradient consists of tensors, in tuples, lists and dicts; this is tuple with another value'),
    ('grad(cube)(cast(x, i64))', '[TSR-0911] an argument with a gradient has elements of i64, which have no derivative; floats have one'),
    ('vjp(tanh, x, s)', '[TSR-0912] tensor 0 of cotangents is 5x4xf64; that of the result is 4xf64'),
    ('jvp(tanh, x, (x, x))', '[TSR-0912] tangents has 2 tensors; primals has 1'),
    ('scan(step, x, None)', "[TSR-0915] scan() needs tensors to go through, or a value for 'length'"),
    ('scan(tanh, x, s)', '[TSR-0915] tanh() takes 1 arguments; this is number 2'),
    ('scan(product, x, s)', '[TSR-0911] a step of scan returns two values: what it carries, and a slice of the results or None; not a tensor'),
    ('scan(narrow, x, s)', '[TSR-0912] tensor 0 of what the step carries on is 4xf32; that of what it began with is 4xf64'),
    ('scan(step, 0.0, s)', '[TSR-0911] what a loop carries consists of tensors, in tuples, lists and dicts; this is float'),
    ('scan(step, x, sum(x))', '[TSR-0912] scan() goes through dim 0 of tensors; tensor 0 is a scalar'),
    ('while_loop(below, double, (sum(x), x))', "[TSR-0915] while_loop() needs a value for 'limit'"),
    ('while_loop(tanh, tanh, x, limit=3)', "[TSR-0143] tessera.while: the condition's value is 4xf64, needs a scalar i1"),
    ('while_loop(below, double, (sum(x), x), limit=-1)', '[TSR-0147] tessera.while: limit is -1, needs 0 to 281474976710656'),
    ('cond(x, tanh, exp, x)', '[TSR-0143] tessera.if: the condition is 4xf64, needs a scalar i1'),
    ('cond(sum(x) > 0.0, tanh)', '[TSR-0915] cond() needs a condition, two functions, and their arguments'),
    ('cond(sum(x) > 0.0, tanh, cube, x)', '[TSR-0912] tensor 0 of what the second branch returns is f64; that of the result of the first is 4xf64'),
    ('cond(sum(x) > 0.0, tanh, exp, x=x)', "[TSR-0915] the argument 'x' has a name; cond() takes arguments by position"),
    ('cond(True, tanh, exp, x)', '[TSR-0911] expected a tensor, not bool'),
    ('checkpoint(tanh, policy="all")(x)', '[TSR-0912] the policy of a checkpoint is "full", "selective" or "none"'),
    ('custom_vjp(tanh)(x)', '[TSR-0915] the function has no rule; @f.vjp or @f.jvp gives it one'),
    ('square(x=x)', "[TSR-0915] the argument 'x' has a name; functions with rules take arguments by position"),
    ('square.bjp(tanh)', "[TSR-0910] a function with rules has no attribute 'bjp'"),
]


def check_refused(folder):
    for text, message in REFUSED:
        (folder / 'm.py').write_text(f'{FUNCTIONS}    y = {text}\n    return {{"y": x}}\n', 'utf-8')
        done = run(folder, AOT, 'check', 'm.py')
        first = done.stderr.split('\n')[0]
        expect(text, done.returncode == COMPILE and first.startswith('m.py:') and f': error: {message}' in first, done.returncode, done.stderr[:300])
        expect(f'{text}: one error', done.stderr.count('error: [') == 1, done.stderr)


with tempfile.TemporaryDirectory() as temporary:
    check_values(pathlib.Path(temporary))
    check_segments(pathlib.Path(temporary))
    check_refused(pathlib.Path(temporary))
finish(f'{len(CASES)} expressions, {len(REFUSED)} refused programs')
