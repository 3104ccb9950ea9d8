# SPDX-License-Identifier: Apache-2.0
"""derivatives.py AOT RUN: programs with jvp, vjp and custom_derivative, built and run.

A Hessian times a vector of a small net with a dynamic batch; samples of random ops in a region; straight-through gradients of
rounding: in a call, in a loop and in an unrolled loop, with training; parameters read in regions, and assigned before. The
results are compared with NumPy in float64, and with PyTorch if it is installed. Exit code 77, skipped, without NumPy.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

try:
    import torch
except ImportError:
    torch = None
    print('PyTorch is absent: second derivatives are compared with differences alone')

NET = '''
func.func private @net(%w: tensor<5x7xf64>, %u: tensor<7x3xf64>, %x: tensor<?x5xf64>, %y: tensor<?xi64>) -> tensor<f64> {
  %0 = tessera.matmul %x, %w : tensor<?x5xf64>, tensor<5x7xf64> -> tensor<?x7xf64>
  %1 = tessera.tanh %0 : tensor<?x7xf64>
  %2 = tessera.layernorm_safe %1 {axes = [1]} : tensor<?x7xf64> -> tensor<?x7xf64>
  %3 = tessera.matmul %2, %u : tensor<?x7xf64>, tensor<7x3xf64> -> tensor<?x3xf64>
  %4 = tessera.cross_entropy %3, %y : tensor<?x3xf64>, tensor<?xi64> -> tensor<?xf64>
  %5 = tessera.mean %4 {axes = [0]} : tensor<?xf64> -> tensor<f64>
  return %5 : tensor<f64>
}
func.func @hessian(%x: tensor<6x5xf64> {tessera.name = "x"}, %y: tensor<6xi64> {tessera.name = "y"}, %w: tensor<5x7xf64> {tessera.name = "w"}, %u: tensor<7x3xf64> {tessera.name = "u"},
    %tw: tensor<5x7xf64> {tessera.name = "tw"}, %tu: tensor<7x3xf64> {tessera.name = "tu"}) -> (tensor<5x7xf64> {tessera.name = "gw"}, tensor<7x3xf64> {tessera.name = "gu"},
    tensor<5x7xf64> {tessera.name = "hw"}, tensor<7x3xf64> {tessera.name = "hu"}) attributes {tessera.entry = "infer"} {
  %one = tessera.constant dense<1.0> : tensor<f64>
  %none = tessera.constant dense<0> : tensor<i64>
  %a = tessera.mul %x, %one : tensor<6x5xf64>, tensor<f64> -> tensor<?x5xf64>
  %b = tessera.add %y, %none : tensor<6xi64>, tensor<i64> -> tensor<?xi64>
  %h:4 = tessera.jvp %w, %u, %tw, %tu {
  ^bb0(%p: tensor<5x7xf64>, %q: tensor<7x3xf64>):
    %g:3 = tessera.vjp %p, %q, %one {
    ^bb0(%r: tensor<5x7xf64>, %s: tensor<7x3xf64>):
      %loss = func.call @net(%r, %s, %a, %b) : (tensor<5x7xf64>, tensor<7x3xf64>, tensor<?x5xf64>, tensor<?xi64>) -> tensor<f64>
      tessera.yield %loss : tensor<f64>
    } : tensor<5x7xf64>, tensor<7x3xf64>, tensor<f64> -> tensor<f64>, tensor<5x7xf64>, tensor<7x3xf64>
    tessera.yield %g#1, %g#2 : tensor<5x7xf64>, tensor<7x3xf64>
  } : tensor<5x7xf64>, tensor<7x3xf64>, tensor<5x7xf64>, tensor<7x3xf64> -> tensor<5x7xf64>, tensor<7x3xf64>, tensor<5x7xf64>, tensor<7x3xf64>
  return %h#0, %h#1, %h#2, %h#3 : tensor<5x7xf64>, tensor<7x3xf64>, tensor<5x7xf64>, tensor<7x3xf64>
}
'''

# What leaves a train entry is what it assigns: to parameters that it reads, which are 0 before.
DRAWS = '''
func.func @draws(%x: tensor<8x16xf32> {tessera.data = "x"}) attributes {tessera.entry = "train"} {
  %p = tessera.param "once" init = #tessera.constant<0.0> : tensor<2x8x16xf32>
  %q = tessera.param "loop" init = #tessera.constant<0.0> : tensor<2x8x16xf32>
  %r = tessera.param "back" init = #tessera.constant<0.0> : tensor<8x16xf32>
  %y, %d = tessera.jvp %x, %x {
  ^bb0(%a: tensor<8x16xf32>):
    %0 = tessera.dropout %a {rate = 0.5} : tensor<8x16xf32> -> tensor<8x16xf32>
    tessera.yield %0 : tensor<8x16xf32>
  } : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x16xf32>, tensor<8x16xf32>
  %z, %e = tessera.jvp %x, %x {
  ^bb0(%a: tensor<8x16xf32>):
    %0 = tessera.scan %a {
    ^bb0(%c: tensor<8x16xf32>):
      %1 = tessera.dropout %c {rate = 0.01} : tensor<8x16xf32> -> tensor<8x16xf32>
      tessera.yield %1 : tensor<8x16xf32>
    } {carried = 1 : i64, length = TIMES : i64} : tensor<8x16xf32> -> tensor<8x16xf32>
    tessera.yield %0 : tensor<8x16xf32>
  } : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x16xf32>, tensor<8x16xf32>
  %v, %g = tessera.vjp %x, %x {
  ^bb0(%a: tensor<8x16xf32>):
    %0 = tessera.dropout %a {rate = 0.5} : tensor<8x16xf32> -> tensor<8x16xf32>
    tessera.yield %0 : tensor<8x16xf32>
  } : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x16xf32>, tensor<8x16xf32>
  %o = tessera.sub %g, %v : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
  %y1 = tessera.reshape %y : tensor<8x16xf32> -> tensor<1x8x16xf32>
  %d1 = tessera.reshape %d : tensor<8x16xf32> -> tensor<1x8x16xf32>
  %z1 = tessera.reshape %z : tensor<8x16xf32> -> tensor<1x8x16xf32>
  %e1 = tessera.reshape %e : tensor<8x16xf32> -> tensor<1x8x16xf32>
  %once = tessera.concat %y1, %d1 {axis = 0} : tensor<1x8x16xf32>, tensor<1x8x16xf32> -> tensor<2x8x16xf32>
  %loop = tessera.concat %z1, %e1 {axis = 0} : tensor<1x8x16xf32>, tensor<1x8x16xf32> -> tensor<2x8x16xf32>
  %once1 = tessera.add %once, %p : tensor<2x8x16xf32>, tensor<2x8x16xf32> -> tensor<2x8x16xf32>
  %loop1 = tessera.add %loop, %q : tensor<2x8x16xf32>, tensor<2x8x16xf32> -> tensor<2x8x16xf32>
  %back1 = tessera.add %o, %r : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
  tessera.assign %once1 to "once" : tensor<2x8x16xf32>
  tessera.assign %loop1 to "loop" : tensor<2x8x16xf32>
  tessera.assign %back1 to "back" : tensor<8x16xf32>
  return
}
'''

ROUND = '''
func.func private @round(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = tessera.custom_derivative %x {
  ^bb0(%a: tensor<4xf64>):
    %f = tessera.floor %a : tensor<4xf64>
    tessera.yield %f : tensor<4xf64>
  } RULE {
  ^bb0(%a: tensor<4xf64>, %b: tensor<4xf64>, %g: tensor<4xf64>):
    tessera.yield %g : tensor<4xf64>
  } : tensor<4xf64> -> tensor<4xf64>
  return %y : tensor<4xf64>
}
func.func @rounds(%x: tensor<4xf64> {tessera.data = "x"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<4xf64>
  %o = tessera.param "forward" init = #tessera.constant<0.0> : tensor<4xf64>
  %h = tessera.constant dense<0.75> : tensor<f64>
  %ones = tessera.constant dense<1.0> : tensor<4xf64>
  %s = tessera.scan %w {
  ^bb0(%c: tensor<4xf64>):
    %0 = func.call @round(%c) : (tensor<4xf64>) -> tensor<4xf64>
    %1 = tessera.add %c, %0 : tensor<4xf64>, tensor<4xf64> -> tensor<4xf64>
    %2 = tessera.mul %1, %h : tensor<4xf64>, tensor<f64> -> tensor<4xf64>
    tessera.yield %2 : tensor<4xf64>
  } {carried = 1 : i64, length = TIMES : i64} : tensor<4xf64> -> tensor<4xf64>
  %y, %d = tessera.jvp %w, %ones {
  ^bb0(%a: tensor<4xf64>):
    %0 = func.call @round(%a) : (tensor<4xf64>) -> tensor<4xf64>
    %1 = tessera.mul %0, %0 : tensor<4xf64>, tensor<4xf64> -> tensor<4xf64>
    tessera.yield %1 : tensor<4xf64>
  } : tensor<4xf64>, tensor<4xf64> -> tensor<4xf64>, tensor<4xf64>
  %d1 = tessera.add %d, %o : tensor<4xf64>, tensor<4xf64> -> tensor<4xf64>
  tessera.assign %d1 to "forward" : tensor<4xf64>
  %p = tessera.add %s, %y : tensor<4xf64>, tensor<4xf64> -> tensor<4xf64>
  %q = tessera.mul %p, %x : tensor<4xf64>, tensor<4xf64> -> tensor<4xf64>
  %loss = tessera.sum %q {axes = [0]} : tensor<4xf64> -> tensor<f64>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f64>
  return
}
'''

# w is assigned before it is read in a region: that reads what it was before the step. In the region it is a constant: v's gradient alone is asked for.
STEP = '''
func.func @step(%x: tensor<4xf64> {tessera.data = "x"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<4xf64>
  %v = tessera.param "v" init = #tessera.constant<0.0> : tensor<4xf64>
  %o = tessera.param "g" init = #tessera.constant<0.0> : tensor<4xf64>
  %next = tessera.add %w, %x : tensor<4xf64>, tensor<4xf64> -> tensor<4xf64>
  tessera.assign %next to "w" : tensor<4xf64>
  %one = tessera.constant dense<1.0> : tensor<f64>
  %y, %g = tessera.vjp %v, %one {
  ^bb0(%a: tensor<4xf64>):
    %b = tessera.param "w" init = #tessera.constant<0.0> : tensor<4xf64>
    %0 = tessera.mul %a, %a : tensor<4xf64>, tensor<4xf64> -> tensor<4xf64>
    %1 = tessera.mul %0, %b : tensor<4xf64>, tensor<4xf64> -> tensor<4xf64>
    %2 = tessera.sum %1 {axes = [0]} : tensor<4xf64> -> tensor<f64>
    tessera.yield %2 : tensor<f64>
  } : tensor<4xf64>, tensor<f64> -> tensor<f64>, tensor<4xf64>
  %g1 = tessera.add %g, %o : tensor<4xf64>, tensor<4xf64> -> tensor<4xf64>
  tessera.assign %g1 to "g" : tensor<4xf64>
  return
}
'''


def write(path, arrays):
    """As safetensors."""
    header, data = {}, b''
    for name, values in arrays.items():
        header[name] = {'dtype': {'float64': 'F64', 'float32': 'F32'}[str(values.dtype)], 'shape': list(values.shape),
                        'data_offsets': [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, 'little') + text + data)


def read(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], 'little')
    rows = json.loads(raw[8:8 + size])
    return {name: np.frombuffer(raw[8 + size + row['data_offsets'][0]:8 + size + row['data_offsets'][1]],
                                {'F64': '<f8', 'F32': '<f4'}[row['dtype']]).reshape(row['shape'])
            for name, row in rows.items() if name != '__metadata__'}


class Tools:
    def __init__(self, aot, run, folder):
        self.aot, self.run, self.folder = aot, run, folder

    def build(self, name, source, *flags):
        path = self.folder / f'{name}.mlir'
        path.write_text(source, encoding='utf-8')
        subprocess.run([self.aot, 'build', path, '-o', path.with_suffix('.tsb'), '--target', 'cpu:x86-64-v2', *flags], check=True,
                       stdout=subprocess.DEVNULL)
        return path.with_suffix('.tsb')

    def call(self, bundle, entry, inputs, outputs):
        arguments = []
        for name, values in inputs.items():
            np.save(self.folder / f'{name}.npy', values)
            arguments += ['--input', f'{name}={self.folder / name}.npy']
        for name in outputs:
            arguments += ['--output', f'{name}={self.folder / "out"}_{name}.npy']
        subprocess.run([self.run, bundle, '--quiet', '--entry', entry, *arguments], check=True, stdout=subprocess.DEVNULL)
        return [np.load(f'{self.folder / "out"}_{name}.npy') for name in outputs]

    def step(self, bundle, x, before):
        """The parameters after one step. All samples are the same, in whatever order they come."""
        np.save(self.folder / 'x.npy', x)
        write(self.folder / 'before', before)
        subprocess.run([self.run, bundle, '--steps', '1', '--data', f'x={self.folder / "x.npy"}', '--quiet', '--params', self.folder / 'before',
                        '--export-params', self.folder / 'after'], check=True, stdout=subprocess.DEVNULL)
        return read(self.folder / 'after')


def loss(w, u, x, y):
    h = np.tanh(x @ w)
    h = h - h.mean(1, keepdims=True)
    h = h / np.sqrt((h * h).mean(1, keepdims=True) + 1e-5)
    z = h @ u
    top = z.max(1, keepdims=True)
    return float((np.log(np.exp(z - top).sum(1)) + top[:, 0] - z[np.arange(len(y)), y]).mean())


def check_hessian(tools, random):
    x, y = random.standard_normal((6, 5)), random.integers(0, 3, 6)
    w, u, tw, tu = (random.standard_normal(shape) for shape in ((5, 7), (7, 3), (5, 7), (7, 3)))
    gw, gu, hw, hu = tools.call(tools.build('hessian', NET), 'hessian', {'x': x, 'y': y, 'w': w, 'u': u, 'tw': tw, 'tu': tu}, ('gw', 'gu', 'hw', 'hu'))
    step = 1e-3
    far, near, here, nearer, farther = (loss(w + s * step * tw, u + s * step * tu, x, y) for s in (-2, -1, 0, 1, 2))
    slope = (far - 8 * near + 8 * nearer - farther) / (12 * step)
    bend = (-far + 16 * near - 30 * here + 16 * nearer - farther) / (12 * step**2)
    mine = float((gw * tw).sum() + (gu * tu).sum()), float((hw * tw).sum() + (hu * tu).sum())
    print(f'slope {mine[0]:.9g}, difference {slope:.9g}; bend {mine[1]:.9g}, difference {bend:.9g}')
    assert abs(mine[0] - slope) < 1e-6 * max(1, abs(slope)) and abs(mine[1] - bend) < 1e-4 * max(1, abs(bend))
    if torch is None:
        return
    def net(w, u):
        h = torch.nn.functional.layer_norm(torch.tanh(torch.tensor(x) @ w), (7,), eps=1e-5)
        return torch.nn.functional.cross_entropy(h @ u, torch.tensor(y))
    point, direction = (torch.tensor(w), torch.tensor(u)), (torch.tensor(tw), torch.tensor(tu))
    _, right = torch.func.jvp(torch.func.grad(net, (0, 1)), point, direction)
    for got, expected in zip((hw, hu), right):
        error = np.abs(got - expected.numpy()).max() / np.abs(expected.numpy()).max()
        print(f'beside torch.func: {error:.3g}')
        assert error < 1e-12


def check_samples(tools, random):
    for times in (3, 200):  # straight-line, and a loop
        bundle = tools.build(f'draws{times}', DRAWS.replace('TIMES', str(times)))
        x = np.broadcast_to(random.uniform(1, 2, (16,)).astype(np.float32), (8, 16)).copy()
        empty = {'once': np.zeros((2, 8, 16), np.float32), 'loop': np.zeros((2, 8, 16), np.float32), 'back': np.zeros((8, 16), np.float32)}
        after = tools.step(bundle, x, empty)
        for name in ('once', 'loop'):
            value, tangent = after[name]
            nonzero = int((value != 0).sum())
            assert 0 < nonzero < value.size, (name, nonzero)
            assert np.array_equal(value, tangent), name  # the tangent is x: what is dropped is the same, bit for bit
        assert not after['back'].any()


def check_rounds(tools, random):
    for rule in ('vjp', 'jvp'):
        for times in (3, 40):  # straight-line, and a loop
            bundle = tools.build(f'rounds_{rule}{times}', ROUND.replace('RULE', rule).replace('TIMES', str(times)))
            w, x = random.uniform(1, 4, 4), np.full(4, random.uniform(0.5, 1) * 1.5**-times)
            after = tools.step(bundle, x, {'w': w, 'forward': np.zeros(4)})
            wanted = (1.5**times + 2 * np.floor(w)) * x
            assert np.allclose(after['forward'], 2 * np.floor(w), rtol=1e-13), (rule, times)
            assert np.allclose(w - after['w'], wanted, rtol=1e-9, atol=1e-9), (rule, times, w - after['w'], wanted)


def check_step(tools, random):
    bundle = tools.build('step', STEP)
    w, v, x = (random.standard_normal(4) for _ in range(3))
    x = np.full(4, x[0])
    after = tools.step(bundle, x, {'w': w, 'v': v, 'g': np.zeros(4)})
    assert np.allclose(after['g'], 2 * v * w, rtol=1e-14) and np.allclose(after['w'], w + x, rtol=1e-14), after
    assert np.array_equal(after['v'], v)


def main():
    seed = np.random.SeedSequence().entropy % (1 << 32)
    print(f'seed {seed}')
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        tools = Tools(*sys.argv[1:3], pathlib.Path(name))
        for check in (check_hessian, check_samples, check_rounds, check_step):
            check(tools, random)


main()
