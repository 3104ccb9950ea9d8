#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Modules that JAX wrote (corpus/) are built and run, and compared with what JAX computed. Modules that cannot be imported, and texts
of --carry that do not fit, are refused. A step with carried state trains as NumPy does, also after it was killed.

corpus.py AOT RUN [--mutations N | NAME...]
"""
import pathlib
import random
import re
import sys
import tempfile

import numpy as np

import cases

from checks import expect, finish, run  # noqa: E402

AOT, RUN = TOOLS = [str(pathlib.Path(word).resolve()) for word in sys.argv[1:3]]
FILES = sorted((pathlib.Path(__file__).resolve().parent / 'corpus').glob('*.stablehlo.mlir'))
USAGE, COMPILE = 6, 9
MUTATIONS = int(sys.argv[4]) if sys.argv[3:4] == ['--mutations'] else 16
NAMES = [] if sys.argv[3:4] == ['--mutations'] else sys.argv[3:]

# ---- what must be refused ----


def module(body, inputs='%x: tensor<4xf32>', results='tensor<4xf32>', name='main'):
    return f'module {{\n  func.func @{name}({inputs}) -> ({results}) {{\n{body}\n  }}\n}}\n'


def one(op, result='tensor<4xf32>', **more):
    return module(f'    %y = {op}\n    return %y : {result}', results=result, **more)


PASS = module('    return %x : tensor<4xf32>')
TWICE = module('    return %x, %k : tensor<4xf32>, tensor<2xf32>', '%x: tensor<4xf32>, %k: tensor<2xf32>', 'tensor<4xf32>, tensor<2xf32>')
BODY = '''({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.subtract %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    })'''
SCATTER = '''"stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> '''
REFUSED = (
    # module, arguments of build, exit code, message
    (one('stablehlo.fft %x, type = FFT, length = [4] : tensor<4xf32>'), (), COMPILE, r'm.stablehlo.mlir:3:10: error: \[TSR-0830\] stablehlo.fft: no rule imports this op'),
    (one('stablehlo.custom_call @lapack_spotrf(%x) : (tensor<4xf32>) -> tensor<4xf32>'), (), COMPILE,
     r'TSR-0833\] stablehlo.custom_call: it calls \'lapack_spotrf\', code outside of the program; compute it before the step'),
    (one('stablehlo.complex %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xcomplex<f32>>', 'tensor<4xcomplex<f32>>'), (), COMPILE, r'TSR-0832\] main: output 0 has the type tensor<4xcomplex<f32>>; expected a tensor of'),
    (module('    return %x : tensor<?xf32>', '%x: tensor<?xf32>', 'tensor<?xf32>'), (), COMPILE, r'TSR-0832\] main: input 0 has the type tensor<\?xf32>; expected a size for each dim'),
    (one('stablehlo.transpose %x, dims = [1] : (tensor<4xf32>) -> tensor<4xf32>'), (), COMPILE, r'TSR-0831\] stablehlo.transpose: permutation has dim 1; expected 0 to 0'),
    (one('stablehlo.transpose %x, dims = [0, 0] : (tensor<4xf32>) -> tensor<4xf32>'), (), COMPILE, r'TSR-0831\] .* is not a list of at most 1 integers'),
    (one('stablehlo.reshape %x : (tensor<4xf32>) -> tensor<5xf32>', 'tensor<5xf32>'), (), COMPILE, r'm.stablehlo.mlir:3:10: error: \[TSR-01'),
    (one('stablehlo.exponential %x : (tensor<4xf32>) -> tensor<2xf32>', 'tensor<2xf32>'), (), COMPILE, r'TSR-0832\] stablehlo.exponential: result 0 is declared as 2xf32; it is 4xf32'),
    (one('stablehlo.slice %x [2:9] : (tensor<4xf32>) -> tensor<7xf32>', 'tensor<7xf32>'), (), COMPILE, r'TSR-0831\] stablehlo.slice: dim 0 has the slice 2:9:1 of 4 elements'),
    (one('stablehlo.compare XX, %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>', 'tensor<4xi1>'), (), COMPILE, r'comparison_direction is \'XX\''),
    (one('func.call @absent(%x) : (tensor<4xf32>) -> tensor<4xf32>'), (), COMPILE, r'absent'),
    (one(SCATTER + BODY + ' : (tensor<4xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<4xf32>', inputs='%x: tensor<4xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>'), (), COMPILE,
     r'TSR-0831\] stablehlo.scatter: its body is made of several ops; expected to give the update'),
    (one('stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : '
         '(tensor<2x4611686018427387904x8xf32>, tensor<4x4611686018427387904x3xf32>) -> tensor<4xf32>',
         inputs='%x: tensor<2x4611686018427387904x8xf32>, %k: tensor<4x4611686018427387904x3xf32>'), (), COMPILE, r'TSR-0142\] .* has more than 2\^63 bytes'),
    (module('    %y:2147483647 = stablehlo.while(%a = %x) : tensor<4xf32> cond {} do {}\n    return %x : tensor<4xf32>'), (), COMPILE,
     r'm.stablehlo.mlir:3:\d+: .*the op has 2147483647 results; at most 512 can be imported'),
    ('module {\n}\n', (), COMPILE, r'TSR-0834\] the module has no function \'@main\' and 0 public ones'),
    (one('stablehlo.add %x, : tensor<4xf32>'), (), COMPILE, r'm.stablehlo.mlir:3'),
    (one('stablehlo.add %x %z : tensor<4xf32>'), (), COMPILE, r'm.stablehlo.mlir:3'),
    (one('stablehlo.add %x, %x : tensor<4xf32> tensor'), (), COMPILE, r'm.stablehlo.mlir:3'),
    (PASS, ('--carry', 'x=in 0'), USAGE, r"--carry is 'x=in 0'; expected NAME=in FIRST..LAST:out FIRST..LAST"),
    (PASS, ('--carry', 'x=in 0:out 1'), USAGE, r"--carry 'x=in 0:out 1' names output 1; the program has 1, counted from 0"),
    (PASS, ('--carry', 'x=in 0..1:out 0'), USAGE, r'names 2 inputs and 1 outputs; expected as many'),
    (TWICE, ('--carry', 'x=in 0:out 0;y=in 0:out 1'), USAGE, r"names input 0, which 'x' has already"),
    (TWICE, ('--carry', 'x=in 0:out 0;x=in 1:out 1'), USAGE, r"gives the name 'x', which input 0 has already"),
    (TWICE, ('--carry', 'x=in 0:out 1'), COMPILE, r"TSR-0835\] 'x' is carried from output 1, which has the type 2xf32, to input 0, which has 4xf32"),
    (PASS, ('--dim', 'N=3'), USAGE, r'--dim does not apply to modules of StableHLO'),
)


def check_refused(folder):
    for text, words, code, message in REFUSED:
        (folder / 'm.stablehlo.mlir').write_text(text, 'utf-8')
        process = run(folder, AOT, 'build', 'm.stablehlo.mlir', '-o', 'm.tsb', '--target=cpu:x86-64-v2', *words)
        expect(f'refused: {message}', process.returncode == code and re.search(message, process.stderr), process.returncode, process.stderr)
    (folder / 'm.stablehlo').write_bytes(b'ML\xefR\x0dStableHLO_v1.0.0\0')
    process = run(folder, AOT, 'build', 'm.stablehlo', '-o', 'm.tsb')
    expect('an artifact', process.returncode == USAGE and 'is a portable artifact' in process.stderr, process.stderr)
    (folder / 'm.mlir').write_text(PASS, 'utf-8')
    process = run(folder, AOT, 'build', 'm.mlir', '-o', 'm.tsb', '--carry', 'x=in 0:out 0')
    expect('--carry with another source', process.returncode == USAGE and '--carry is for modules of StableHLO' in process.stderr, process.stderr)


MARKS = ('(', ')', '[', ']', '{', '}', '<', '>', '%arg0', 'x', '->', ',', '=', ':', '-1', '99999999999', 'init', 'applies', 'reducer', 'do')


def mutate(rng, text):
    """The text with a part left out or repeated, a mark inserted, or another number."""
    for _ in range(rng.randint(1, 3)):
        at, numbers = rng.randrange(text.index('module'), len(text)), list(re.finditer(r'(?<=[ \[(,<x])-?\d+(?=[\],:>) x])', text))
        number = rng.choice(numbers)
        text = rng.choice((text[:at] + text[at + rng.randint(1, 12):], text[:at] + rng.choice(MARKS) + text[at:], text[:at] + text[at - 20:], text[:at],
                           text[:number.start()] + rng.choice(('0', '-1', '3', '7', '100000', '4294967296')) + text[number.end():]))
        if 'module' not in text:
            break
    return text


def check_mutated(folder, count):
    """A module that was changed is read, or refused with a diagnostic: nothing crashes."""
    rng = random.Random(count)
    for number in range(count):
        text = mutate(rng, rng.choice(FILES).read_text('utf-8'))
        (folder / 'm.stablehlo.mlir').write_text(text, 'utf-8')
        process = run(folder, AOT, 'check', 'm.stablehlo.mlir')
        expect(f'mutation {number}', process.returncode in (0, COMPILE) and 'TSR-0004' not in process.stderr, process.returncode, process.stderr[-400:])


# ---- training with carried state ----

# Gradient descent with momentum on a linear model: (w, v, n, x, y) -> (loss, w, v, n).
STEP = '''module {
  func.func public @main(%w: tensor<3xf64>, %v: tensor<3xf64>, %n: tensor<i32>, %x: tensor<4x3xf64> loc("x"), %y: tensor<4xf64> loc("y"))
      -> (tensor<f64> {jax.result_info = "loss"}, tensor<3xf64>, tensor<3xf64>, tensor<i32>) {
    %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x3xf64>, tensor<3xf64>) -> tensor<4xf64>
    %e = stablehlo.subtract %p, %y : tensor<4xf64>
    %q = stablehlo.multiply %e, %e : tensor<4xf64>
    %zero = stablehlo.constant dense<0.0> : tensor<f64>
    %loss = stablehlo.reduce(%q init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<f64>
    %g = stablehlo.dot_general %e, %x, contracting_dims = [0] x [0] : (tensor<4xf64>, tensor<4x3xf64>) -> tensor<3xf64>
    %m = stablehlo.constant dense<0.5> : tensor<3xf64>
    %mv = stablehlo.multiply %v, %m : tensor<3xf64>
    %nv = stablehlo.add %mv, %g : tensor<3xf64>
    %r = stablehlo.constant dense<0.03125> : tensor<3xf64>
    %s = stablehlo.multiply %nv, %r : tensor<3xf64>
    %nw = stablehlo.subtract %w, %s : tensor<3xf64>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %nn = stablehlo.add %n, %one : tensor<i32>
    return %loss, %nw, %nv, %nn : tensor<f64>, tensor<3xf64>, tensor<3xf64>, tensor<i32>
  }
}
'''


def numpy_losses(x, y, steps):
    w, v, losses = np.zeros(3), np.zeros(3), []
    for _ in range(steps):
        error = x @ w - y
        losses.append((error ** 2).sum())
        v = v / 2 + error @ x
        w = w - v / 32
    return losses


def check_carry(folder):
    """All batches have the same rows, so that the order of the samples does not matter but for rounding."""
    rng = np.random.default_rng(3)
    x, y, steps = rng.standard_normal((4, 3)), rng.standard_normal(4), 12
    np.save(folder / 'x.npy', x)
    np.save(folder / 'y.npy', y)
    (folder / 's.stablehlo.mlir').write_text(STEP, 'utf-8')
    process = run(folder, AOT, 'build', 's.stablehlo.mlir', '-o', 's.tsb', '--target=cpu:x86-64-v2', '--carry', 'state=in 0..1:out 1..2', '--carry', 'n=in 2:out 3')
    expect('a step', process.returncode == 0, process.stderr)
    train = (RUN, 's.tsb', '--data', 'x=x.npy', '--data', 'y=y.npy', '--state-dir', 'S', '--metrics', 'm.jsonl')
    first, second = run(folder, *train, '--steps', '5'), run(folder, *train, '--steps', str(steps))
    expect('a run', first.returncode == 0, first.stderr)
    expect('a run that goes on', second.returncode == 0 and 'step 12' in second.stdout, second.stdout, second.stderr)
    losses = [float(text) for text in re.findall(r'"loss": ?([-+.e0-9]+)', (folder / 'm.jsonl').read_text('utf-8'))]
    want = numpy_losses(x, y, steps)
    expect('losses of all steps', len(losses) == steps and np.allclose(losses, want, rtol=1e-6), losses, want)
    whole = run(folder, RUN, 's.tsb', '--data', 'x=x.npy', '--data', 'y=y.npy', '--steps', str(steps))
    expect('the bits of a run without a stop', whole.stdout.split()[1] == re.search(r'state (\w+) step 12', second.stdout).group(1), whole.stdout, second.stdout)


with tempfile.TemporaryDirectory() as temporary:
    root = pathlib.Path(temporary)
    for path in FILES:
        title = path.name.split('.')[0]
        if not NAMES or title in NAMES:
            source = path.read_text('utf-8')
            cases.check(root, TOOLS, title, source, *cases.read(source))
    if not NAMES:
        check_refused(root)
        check_carry(root)
        check_mutated(root, MUTATIONS)
finish(f'{len(FILES)} modules')
