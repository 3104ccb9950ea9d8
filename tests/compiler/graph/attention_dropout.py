# SPDX-License-Identifier: Apache-2.0
"""attention_dropout.py AOT RUN: the weights that attention drops, its result and its gradients.

The dropped weights must be those given by the oracle's numbers; with these weights, results and gradients must agree with NumPy
in float64: causal, masked, with shared key heads, with several blocks of keys, with heads too large for the kernel, for f32, f64
and bf16. In a scan the dropped weights are those of one tensor with the slices of all iterations; with virtual ranks they are
those of one rank; outside of training no weights are dropped. Exit code 77, skipped, without NumPy.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'oracle'))

try:
    import numpy as np

    from interpret import weight_numbers
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

RATE, STREAM, SEED = 0.25, 9, 11
# batch, heads, heads of keys, queries, keys, numbers of keys, of values; causal, mask, type computed in, tolerance of norms
CASES = {
    'plain': (2, 3, 3, 5, 7, 8, 8, False, False, 'f32', 2e-6),
    'causal': (2, 4, 2, 37, 37, 16, 24, True, False, 'f32', 2e-6),
    'masked': (1, 2, 2, 70, 130, 12, 12, False, True, 'f32', 2e-6),
    'blocks': (1, 2, 1, 65, 1100, 64, 64, True, False, 'f32', 4e-6),
    'double': (2, 2, 2, 9, 33, 8, 8, True, True, 'f64', 1e-13),
    'narrow': (2, 2, 1, 33, 40, 16, 16, True, False, 'bf16', 2e-2),
    'large': (1, 2, 2, 6, 9, 300, 300, True, False, 'f32', 2e-6),  # of simpler ops
}
TRAINED = '''
func.func @train(%x: tensor<1xf32> {{tessera.data = "x"}}) -> (tensor<f32> {{tessera.name = "loss"}}) attributes {{tessera.entry = "train"}} {{
{params}
{body}
  %loss = tessera.cast %sum : tensor<{wide}> to tensor<f32>
  tessera.minimize %sum {{optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>}} : tensor<{wide}>
  return %loss : tensor<f32>
}}
'''


def write(path, tensors):
    header, at = {}, 0
    for name, value in tensors.items():
        header[name] = {'dtype': {'f': 'F32', 'd': 'F64'}[value.dtype.char], 'shape': list(value.shape), 'data_offsets': [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack('<Q', len(text)) + text + b''.join(value.tobytes() for value in tensors.values()))


def read(path):
    data = path.read_bytes()
    size = struct.unpack('<Q', data[:8])[0]
    kinds = {'F32': np.float32, 'F64': np.float64}
    return {name: np.frombuffer(data[8 + size:][slice(*row['data_offsets'])], kinds[row['dtype']]).reshape(row['shape'])
            for name, row in json.loads(data[8:8 + size]).items() if name != '__metadata__'}


class Tools:
    def __init__(self, aot, run, folder):
        self.aot, self.run, self.folder = aot, run, folder
        np.save(folder / 'x.npy', np.zeros(1, np.float32))

    def build(self, text, *options):
        source = self.folder / 'program.mlir'
        source.write_text(text, encoding='utf-8')
        subprocess.run([self.aot, 'build', source, '-o', source.with_suffix('.tsb'), '--target', 'cpu:x86-64-v2', *options], check=True,
                       stdout=subprocess.DEVNULL)
        return source.with_suffix('.tsb')

    def gradients(self, bundle, tensors):
        """Of the loss, by all parameters: a step of rate 1."""
        given, made = self.folder / 'given.safetensors', self.folder / 'made.safetensors'
        write(given, tensors)
        subprocess.run([self.run, bundle, '--entry', 'train', '--steps', '1', '--seed', str(SEED), '--data', f'x={self.folder / "x.npy"}',
                        '--quiet', '--params', given, '--export-params', made], check=True, stdout=subprocess.DEVNULL)
        return {name: tensors[name] - value for name, value in read(made).items()}


def text_of(shape, kind):
    return f'tensor<{"".join(f"{size}x" for size in shape)}{kind}>'


def param(name, shape, kind):
    return f'  %{name} = tessera.param "{name}" init = #tessera.constant<0.0> : {text_of(shape, kind)}'


def attention_program(case, scale=''):
    b, h, g, s, t, d, e, causal, masked, kind, _ = CASES[case]
    wide = 'f32' if kind == 'bf16' else kind
    shapes = {'q': (b, h, s, d), 'k': (b, g, t, d), 'v': (b, g, t, e), 'o': (b, h, s, e)}
    lines, types = [], [text_of(shapes[n], kind) for n in 'qkvo']
    for name in 'qkv':
        lines.append(f'  %{name}c = tessera.cast %{name} : {text_of(shapes[name], wide)} to {text_of(shapes[name], kind)}')
    operands, of = '%qc, %kc, %vc', types[:3]
    if masked:
        seen = text_of((s, t), 'i1')
        lines += [f'  %position = tessera.iota {{axis = 1 : i64}} : {text_of((s, t), "i64")}',
                  f'  %row = tessera.iota {{axis = 0 : i64}} : {text_of((s, t), "i64")}',
                  f'  %far = tessera.add %position, %row : {text_of((s, t), "i64")}, {text_of((s, t), "i64")} -> {text_of((s, t), "i64")}',
                  '  %three = tessera.constant dense<3> : tensor<i64>',
                  f'  %part = tessera.div %far, %three : {text_of((s, t), "i64")}, tensor<i64> -> {text_of((s, t), "i64")}',
                  f'  %back = tessera.mul %part, %three : {text_of((s, t), "i64")}, tensor<i64> -> {text_of((s, t), "i64")}',
                  f'  %seen = tessera.compare ne %far, %back : {text_of((s, t), "i64")}, {text_of((s, t), "i64")} -> {seen}']
        operands, of = operands + ', %seen', of + [seen]
    attributes = ', '.join((['causal'] if causal else []) + [f'dropout = {RATE}', f'stream = {STREAM} : i64'])
    lines += [f'  %y = tessera.attention {operands} {{{attributes}}} : {", ".join(of)} -> {types[3]}',
              f'  %yw = tessera.cast %y : {types[3]} to {text_of(shapes["o"], wide)}',
              f'  %p = tessera.mul %yw, %o : {text_of(shapes["o"], wide)}, {text_of(shapes["o"], wide)} -> {text_of(shapes["o"], wide)}',
              f'  %sum = tessera.sum %p {{axes = [0, 1, 2, 3]}} : {text_of(shapes["o"], wide)} -> tensor<{wide}>']
    params = '\n'.join(param(n, shapes[n], wide) for n in 'qkvo')
    return TRAINED.format(params=params, body='\n'.join(lines), wide=wide), shapes, wide


def reference(case, tensors, mask):
    """The result and the gradients of q, k and v, where o is the result's gradient; mask: 0 or 1 / (1 - rate)."""
    b, h, g, s, t, d, _, causal, masked, _, _ = CASES[case]
    q, k, v, o = (tensors[n].astype(np.float64) for n in 'qkvo')
    k, v = (np.repeat(x, h // g, 1) for x in (k, v))
    x = q @ k.swapaxes(2, 3) / np.sqrt(d)
    row, column = np.arange(s)[:, None], np.arange(t)[None]
    if causal:
        x = np.where(column <= row + t - s, x, -np.inf)
    if masked:
        x = np.where((row + column) % 3 != 0, x, -np.inf)
    p = np.exp(x - x.max(3, keepdims=True))
    p /= p.sum(3, keepdims=True)
    left = p * mask
    dp = mask * (o @ v.swapaxes(2, 3))
    dx = p * (dp - (dp * p).sum(3, keepdims=True)) / np.sqrt(d)
    shared = lambda y: y.reshape(b, g, h // g, *y.shape[2:]).sum(2)
    return {'o': left @ v, 'q': dx @ k, 'k': shared(dx.swapaxes(2, 3) @ q), 'v': shared(left.swapaxes(2, 3) @ o)}


def check(tools, case):
    b, h, _, s, t, *_, kind, tolerance = CASES[case]
    text, shapes, wide = attention_program(case)
    number, generator = np.float64 if wide == 'f64' else np.float32, np.random.default_rng(5)
    tensors = {n: generator.standard_normal(shape).astype(number) for n, shape in shapes.items()}
    mask = np.where(weight_numbers(h * np.arange(b), 1, SEED, STREAM, (b, h, s, t)) >= RATE, 1 / (1 - RATE), 0.0)
    share = np.mean(mask == 0)
    assert abs(share - RATE) < 5 * np.sqrt(RATE * (1 - RATE) / mask.size), f'{case}: {share:.3f} of the weights fall'
    wanted = reference(case, tensors, mask)
    for numerics in ('portable', 'native'):
        got = tools.gradients(tools.build(text, '--numerics', numerics), tensors)
        assert set(got) == set(wanted), case
        for name, value in wanted.items():
            far = np.linalg.norm(got[name] - value) / np.linalg.norm(value)
            # A gradient is the difference that a step makes of a parameter.
            lost = np.finfo(number).eps * np.linalg.norm(tensors[name]) / np.linalg.norm(value)
            assert far < tolerance + lost, f'{case}, {name}: {far:.2e}, at most {tolerance + lost:.2e}'
            print(f'{case}, {numerics}, {name}: {far:.2e}')


LOOPED = '''  %z = tessera.constant dense<0.0> : tensor<2x2x5x8xf32>
  %s = tessera.scan %z, %q, %k, %v {{
  ^bb0(%c: tensor<2x2x5x8xf32>, %qi: tensor<2x2x5x8xf32>, %ki: tensor<2x2x5x8xf32>, %vi: tensor<2x2x5x8xf32>):
    %y = tessera.attention %qi, %ki, %vi {{causal, dropout = {rate}, stream = {stream} : i64}} : tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32> -> tensor<2x2x5x8xf32>
    %p = tessera.mul %y, %o : tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32> -> tensor<2x2x5x8xf32>
    %n = tessera.add %c, %p : tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32> -> tensor<2x2x5x8xf32>
    tessera.yield %n : tensor<2x2x5x8xf32>
  }} {{carried = 1 : i64, length = {times} : i64}} : tensor<2x2x5x8xf32>, {slices}, {slices}, {slices} -> tensor<2x2x5x8xf32>
  %sum = tessera.sum %s {{axes = [0, 1, 2, 3]}} : tensor<2x2x5x8xf32> -> tensor<f32>'''
WHOLE = '''{heads}
  %all = tessera.broadcast %o : {part} -> {slices}
  %o1 = tessera.reshape %all : {slices} -> {flat}
  %y = tessera.attention %q1, %k1, %v1 {{causal, dropout = {rate}, stream = {stream} : i64}} : {flat}, {flat}, {flat} -> {flat}
  %p = tessera.mul %y, %o1 : {flat}, {flat} -> {flat}
  %sum = tessera.sum %p {{axes = [0, 1, 2, 3]}} : {flat} -> tensor<f32>'''


def check_loop(tools, times):
    """Iterations draw what one attention with all of them as its batch draws."""
    part, slices, flat = (2, 2, 5, 8), (times, 2, 2, 5, 8), (2 * times, 2, 5, 8)
    types = {'part': text_of(part, 'f32'), 'slices': text_of(slices, 'f32'), 'flat': text_of(flat, 'f32')}
    values = {'rate': RATE, 'stream': STREAM, 'times': times, **types}
    values['heads'] = '\n'.join(f'  %{n}1 = tessera.reshape %{n} : {types["slices"]} -> {types["flat"]}' for n in 'qkv')
    params = '\n'.join([*(param(n, slices, 'f32') for n in 'qkv'), param('o', part, 'f32')])
    generator = np.random.default_rng(6)
    tensors = {n: generator.standard_normal(part if n == 'o' else slices).astype(np.float32) for n in 'qkvo'}
    looped, whole = (tools.gradients(tools.build(TRAINED.format(params=params, body=body.format(**values), wide='f32')), tensors)
                     for body in (LOOPED, WHOLE))
    for name, value in whole.items():
        assert np.allclose(looped[name], value, rtol=1e-4, atol=1e-5), f'{times} times, {name}'


VRANKS = '''
func.func @train(%x: tensor<8x2x6x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %u = tessera.param "u" init = #tessera.constant<1.0> : tensor<4xf32>
  %zero = tessera.constant dense<0.0> : tensor<8x2x6x4xf32>
  %v = tessera.mul %x, %u : tensor<8x2x6x4xf32>, tensor<4xf32> -> tensor<8x2x6x4xf32>
  %y = tessera.attention %zero, %zero, %v {dropout = 0.5} : tensor<8x2x6x4xf32>, tensor<8x2x6x4xf32>, tensor<8x2x6x4xf32> -> tensor<8x2x6x4xf32>
  %scale = tessera.constant dense<6.0> : tensor<f32>
  %z = tessera.mul %y, %scale : tensor<8x2x6x4xf32>, tensor<f32> -> tensor<8x2x6x4xf32>
  %q = tessera.sum %z {axes = [0, 1, 2, 3]} : tensor<8x2x6x4xf32> -> tensor<f32>
  tessera.minimize %q {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %q : tensor<f32>
}
func.func @predict(%x: tensor<8x2x6x4xf32> {tessera.name = "x"}) -> (tensor<8x2x6x4xf32> {tessera.name = "dropped"}, tensor<8x2x6x4xf32> {tessera.name = "whole"})
    attributes {tessera.entry = "infer"} {
  %a = tessera.attention %x, %x, %x {dropout = 0.5} : tensor<8x2x6x4xf32>, tensor<8x2x6x4xf32>, tensor<8x2x6x4xf32> -> tensor<8x2x6x4xf32>
  %b = tessera.attention %x, %x, %x : tensor<8x2x6x4xf32>, tensor<8x2x6x4xf32>, tensor<8x2x6x4xf32> -> tensor<8x2x6x4xf32>
  return %a, %b : tensor<8x2x6x4xf32>, tensor<8x2x6x4xf32>
}
'''


def check_vranks(tools):
    """Whatever the number of virtual ranks, the same weights fall; where nothing is trained, none."""
    x = np.random.default_rng(7).integers(-8, 8, (8, 2, 6, 4)).astype(np.float32)
    data, made, found = tools.folder / 'rows.npy', tools.folder / 'made.safetensors', []
    np.save(data, x)
    for vranks in ('1', '8'):
        bundle = tools.build(VRANKS, '--virtual-ranks', vranks)
        subprocess.run([tools.run, bundle, '--steps', '3', '--seed', str(SEED), '--data', f'x={data}', '--quiet', '--export-params', made],
                       check=True, stdout=subprocess.DEVNULL)
        found.append(read(made)['u'])
    assert np.allclose(found[0], found[1], rtol=1e-5), found
    whole = 1 - 3 * x.sum((0, 1, 2)) * 6  # if nothing fell
    assert not np.allclose(found[0], whole, rtol=1e-2), found
    outputs = [tools.folder / f'{name}.npy' for name in ('dropped', 'whole')]
    subprocess.run([tools.run, bundle, '--quiet', '--entry', 'predict', '--input', f'x={data}',
                    *(word for path in outputs for word in ('--output', f'{path.stem}={path}'))], check=True, stdout=subprocess.DEVNULL)
    assert np.array_equal(*map(np.load, outputs))


def main():
    with tempfile.TemporaryDirectory() as name:
        tools = Tools(*sys.argv[1:3], pathlib.Path(name))
        for case in CASES:
            check(tools, case)
        for times in (3, 70):  # unrolled, and a loop that stays
            check_loop(tools, times)
        check_vranks(tools)


main()
