#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls of functions: one function of Graph IR for each signature, random streams by the name of the `def`, what runs in place, what is
refused. Results are compared with NumPy and with a program in MLIR.

functions.py AOT RUN
"""
import hashlib
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
ENTRY = '@function(entry="infer")\ndef f(x: Tensor[4, f32]):\n'
X = np.array([-1.5, 0.0, 0.25, 3.0], np.float32)


def write(folder, name, text):
    (folder / name).write_text(text, 'utf-8')
    return name


def results(folder, source, *outputs, options=()):
    """The outputs of entry f for X."""
    done = run(folder, AOT, 'build', source, '-o', 'm.tsb', TARGET)
    expect(f'{source} is built', done.returncode == 0, done.stderr)
    np.save(folder / 'x.npy', X)
    words = [word for name in outputs for word in ('--output', f'{name}={name}.npy')]
    done = run(folder, RUN, 'm.tsb', '--entry', 'f', '--input', 'x=x.npy', *words, *options)
    expect(f'{source} runs', done.returncode == 0, done.stderr)
    return [np.load(folder / f'{name}.npy') for name in outputs]


def functions(folder, source):
    """The symbols of the functions, and those of the calls."""
    done = run(folder, AOT, 'build', source, '-o', 'm.tsb', TARGET, '--dump=graph', '--dump-dir=levels')
    expect(f'{source} is built', done.returncode == 0, done.stderr)
    text = (folder / 'levels/graph.mlir').read_text('utf-8')
    return re.findall(r'func\.func (?:private )?@([\w.]+)', text), re.findall(r'call @([\w.]+)', text)


SHARED = HEAD + '''
def layer(x, width, *, scale=0.5):
    return x * param("w", (width,), f32, init=constant(2.0)) * scale

''' + ENTRY + '''
    for i in range(6):
        with scope(f"h.{i}"):
            x = layer(x, 4)
    y = layer(x, 4, scale=1)            # 1 and 1.0 are two values: they print differently
    z = layer(x, 4, scale=1.0)
    w = layer(reshape(x, (1, 4)), 4)
    return {"y": y + z + layer(x, 4) + reshape(w, (4,))}
'''

# Lists and dicts that a call changes or returns; functions in functions; a parameter of the module, also below a scope.
INLINED = HEAD + '''
W = param("shared", (4,), f32, init=constant(3.0))

def layer(x, n, *, scale=2):
    def inner(a):
        return a * x + scale
    return inner(inner(x)) + n, {"k": [x, n]}

def make(x):
    h = x * 2.0
    def f(y): return y + h
    return f

def times_w(x):
    return x * W

def collect(x, out):
    out.append(x + 1.0)
    return x

def pair(p):
    a, b = p
    return b, a

''' + ENTRY + '''
    y, d = layer(x, 1)
    d["k"].append(y)
    z, e = layer(y, 1)
    assert len(e["k"]) == 2 and len(d["k"]) == 3
    out = []
    collect(x, out)
    collect(x, out)
    assert len(out) == 2
    with scope("s"):
        q = times_w(times_w(make(x)(z)))
    a, b = pair((q, y))
    return {"y": a - b + d["k"][2] + out[1], "q": q}
'''


def check_shared(folder):
    names, calls = functions(folder, write(folder, 'shared.py', SHARED))
    expect('one function for each signature', names == ['f', 'layer', 'layer.1', 'layer.2', 'layer.3'], names)
    expect('each call is a call', sorted(calls) == ['layer'] * 7 + ['layer.1', 'layer.2', 'layer.3'], calls)
    got, = results(folder, 'shared.py', 'y')
    expect('the values of NumPy', np.array_equal(got, X * 2 + X * 2 + X + X), got)


def check_inlined(folder):
    got, q = results(folder, write(folder, 'inlined.py', INLINED), 'y', 'q')
    x = X.astype(np.float64)
    y = (x * x + 2) * x + 2 + 1
    z = (y * y + 2) * y + 2 + 1
    expected = (z + 2 * x) * 9
    expect('the values of NumPy', np.allclose(q, expected, rtol=1e-6) and np.allclose(got, y - expected + y + x + 1, rtol=1e-6), got, q)


def stream(path):
    """The first 32 bits of the hash of the path, as the format of programs says."""
    return int(hashlib.sha256(path.encode()).hexdigest()[:8], 16)


def check_streams(folder):
    """A random op samples by the name of the function in the source, whichever specialisation it is in."""
    source = HEAD + '''
def noise(x, *, add):
    return x + random_uniform(x.shape, f32) + add
def twice(x):
    return noise(x, add=1) + noise(x, add=2)
''' + ENTRY + '''
    y = twice(x) + noise(x, add=2)
    with scope("s"):
        z = noise(reshape(x, (2, 2)), add=1)
    return {"y": y, "z": reshape(z, (4,))}
'''
    paths = ['f/twice#0/noise#0', 'f/twice#0/noise#1', 'f/noise#0', 'f/noise[s]#0']
    samples = ''.join(f'  %u{i} = tessera.random_uniform {{stream = {stream(f"{path}/random_uniform#0")} : i64}} : tensor<4xf32>\n'
                    for i, path in enumerate(paths))
    mlir = f'''func.func @f(%x: tensor<4xf32> {{tessera.name = "x"}}) -> (tensor<4xf32> {{tessera.name = "y"}}, tensor<4xf32> {{tessera.name = "z"}})
    attributes {{tessera.entry = "infer"}} {{
{samples}
  %one = tessera.constant dense<1.0> : tensor<f32>
  %two = tessera.constant dense<2.0> : tensor<f32>
  %a0 = tessera.add %x, %u0 : tensor<4xf32>
  %a = tessera.add %a0, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b0 = tessera.add %x, %u1 : tensor<4xf32>
  %b = tessera.add %b0, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %c0 = tessera.add %x, %u2 : tensor<4xf32>
  %c = tessera.add %c0, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %ab = tessera.add %a, %b : tensor<4xf32>
  %y = tessera.add %ab, %c : tensor<4xf32>
  %z0 = tessera.add %x, %u3 : tensor<4xf32>
  %z = tessera.add %z0, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}}
'''
    found = [results(folder, write(folder, name, text), 'y', 'z', options=('--seed', '5')) for name, text in (('noise.py', source), ('noise.mlir', mlir))]
    expect('samples by names', all(np.array_equal(a, b) for a, b in zip(*found)), found)


# A program, and the first line of what is said.
REFUSED = [
    (HEAD + 'def g(x, i): return x * i\n' + ENTRY + '    for i in range(65):\n        x = g(x, i)\n    return {"y": x}\n',
     '6:13: error: [TSR-0913] g() is compiled for more than 64 combinations of types and static values; parameters of layers get their names from scope(…)'),
    (HEAD + 'seen = []\ndef g(x):\n    seen.append(x)\n    return x\n' + ENTRY + '    return {"y": g(x)}\n',
     '4:5: error: [TSR-0912] the list is made outside of the function, which is compiled once for all its calls and cannot change it; return a new one'),
    (HEAD + 'seen = {}\ndef g(x):\n    seen["a"] = 1\n    return x\n' + ENTRY + '    return {"y": g(x)}\n',
     '4:5: error: [TSR-0912] the dict is made outside of the function, which is compiled once for all its calls and cannot change it; return a new one'),
    (HEAD + 'seen = [1]\n' + ENTRY + '    seen[0] = x\n    return {"y": x}\n',
     '5:5: error: [TSR-0912] the list is made outside of the function, which is compiled once for all its calls and cannot change it; return a new one'),
    (HEAD + ENTRY + '    out = []\n    def g(y):\n        out.extend([y])\n        return y\n    return {"y": g(x)}\n',
     '6:9: error: [TSR-0912] the list is made outside of the function, which is compiled once for all its calls and cannot change it; return a new one'),
    (HEAD + ENTRY + '    out = [1]\n    def g(y):\n        nonlocals = out\n        nonlocals += [y]\n        return y\n    return {"y": g(x)}\n',
     '7:9: error: [TSR-0912] the list is made outside of the function, which is compiled once for all its calls and cannot change it; return a new one'),
    (HEAD + 'def g(x): return h(x)\ndef h(x): return g(x)\n' + ENTRY + '    return {"y": g(x)}\n', '3:18: error: [TSR-0913] g() calls itself'),
]


def check_refused(folder):
    for text, message in REFUSED:
        done = run(folder, AOT, 'check', write(folder, 'm.py', text))
        expect(message, done.returncode == COMPILE and done.stderr.startswith(f'm.py:{message}\n'), done.returncode, done.stderr[:400], text)
    text = HEAD + 'def g(x): return x @ x @ x\n' + ENTRY + '    y = g(x)\n    z = g(x)\n    w = reshape(z, (3,))\n    return {"y": y}\n'
    done = run(folder, AOT, 'check', write(folder, 'm.py', text))
    expect('a function that fails is reported once', done.stderr.count('error: [') == 1 and done.stderr.count('called from here') == 1, done.stderr)


with tempfile.TemporaryDirectory() as temporary:
    check_shared(pathlib.Path(temporary))
    check_inlined(pathlib.Path(temporary))
    check_streams(pathlib.Path(temporary))
    check_refused(pathlib.Path(temporary))
finish(f'{len(REFUSED)} refused programs')
