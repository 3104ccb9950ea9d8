# SPDX-License-Identifier: Apache-2.0
"""samples.py AOT RUN: the samples of random ops in loops.

The samples of all iterations equal those of one tensor that stacks them and is drawn as a whole: in a scan that is unrolled and
in one that is not, in a nested loop, in a while, in a branch. A net trained through a scan with dropout has the same bits as one
that reads its mask from such a tensor. Virtual ranks draw the same samples as one rank. Exit code 77, skipped, without NumPy.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

FORWARD = '''
func.func @scan_TIMES() -> (tensor<TIMESx3x5xf32> {tessera.name = "r"}, tensor<TIMESx4xf64> {tessera.name = "n"}) attributes {tessera.entry = "infer"} {
  %z = tessera.constant dense<0.0> : tensor<f32>
  %0:3 = tessera.scan %z {
  ^bb0(%c: tensor<f32>):
    %1 = tessera.random_uniform {stream = 5 : i64} : tensor<3x5xf32>
    %2 = tessera.random_normal {stream = 6 : i64} : tensor<4xf64>
    tessera.yield %c, %1, %2 : tensor<f32>, tensor<3x5xf32>, tensor<4xf64>
  } {carried = 1 : i64, length = TIMES : i64} : tensor<f32> -> tensor<f32>, tensor<TIMESx3x5xf32>, tensor<TIMESx4xf64>
  return %0#1, %0#2 : tensor<TIMESx3x5xf32>, tensor<TIMESx4xf64>
}
func.func @nest_TIMES() -> (tensor<TIMESx2x3x5xf32> {tessera.name = "r"}, tensor<TIMESx2xf32> {tessera.name = "n"}) attributes {tessera.entry = "infer"} {
  %z = tessera.constant dense<0.0> : tensor<f32>
  %0:3 = tessera.scan %z {
  ^bb0(%c: tensor<f32>):
    %1:3 = tessera.scan %c {
    ^bb0(%d: tensor<f32>):
      %2 = tessera.random_uniform {stream = 5 : i64} : tensor<3x5xf32>
      %3 = tessera.random_uniform {stream = 7 : i64} : tensor<f32>
      tessera.yield %d, %2, %3 : tensor<f32>, tensor<3x5xf32>, tensor<f32>
    } {carried = 1 : i64, length = 2 : i64} : tensor<f32> -> tensor<f32>, tensor<2x3x5xf32>, tensor<2xf32>
    tessera.yield %1#0, %1#1, %1#2 : tensor<f32>, tensor<2x3x5xf32>, tensor<2xf32>
  } {carried = 1 : i64, length = TIMES : i64} : tensor<f32> -> tensor<f32>, tensor<TIMESx2x3x5xf32>, tensor<TIMESx2xf32>
  return %0#1, %0#2 : tensor<TIMESx2x3x5xf32>, tensor<TIMESx2xf32>
}
func.func @while_TIMES() -> (tensor<3x5xf32> {tessera.name = "r"}) attributes {tessera.entry = "infer"} {
  %start = tessera.constant dense<0> : tensor<i64>
  %zeros = tessera.constant dense<0.0> : tensor<3x5xf32>
  %0:2 = tessera.while %start, %zeros {
  ^bb0(%i: tensor<i64>, %x: tensor<3x5xf32>):
    %top = tessera.constant dense<TIMES> : tensor<i64>
    %1 = tessera.compare lt %i, %top : tensor<i64>, tensor<i64> -> tensor<i1>
    tessera.yield %1 : tensor<i1>
  } do {
  ^bb0(%i: tensor<i64>, %x: tensor<3x5xf32>):
    %one = tessera.constant dense<1> : tensor<i64>
    %c = tessera.compare eq %i, %one : tensor<i64>, tensor<i64> -> tensor<i1>
    %n = tessera.add %i, %one : tensor<i64>, tensor<i64> -> tensor<i64>
    %d = tessera.if %c {
      tessera.yield %zeros : tensor<3x5xf32>
    } else {
      %1 = tessera.random_uniform {stream = 5 : i64} : tensor<3x5xf32>
      %2:2 = tessera.sort %1 {axis = 1 : i64, descending = false} : tensor<3x5xf32> -> tensor<3x5xf32>, tensor<3x5xi64>
      tessera.yield %1 : tensor<3x5xf32>
    } : tensor<i1> -> tensor<3x5xf32>
    %y = tessera.sub %d, %x : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
    tessera.yield %n, %y : tensor<i64>, tensor<3x5xf32>
  } {limit = 1000 : i64} : tensor<i64>, tensor<3x5xf32> -> tensor<i64>, tensor<3x5xf32>
  return %0#1 : tensor<3x5xf32>
}
func.func @whole_TIMES() -> (tensor<TIMESx2x3x5xf32> {tessera.name = "r"}, tensor<TIMESx4xf64> {tessera.name = "n"}, tensor<TIMESx2xf32> {tessera.name = "s"}) attributes {tessera.entry = "infer"} {
  %1 = tessera.random_uniform {stream = 5 : i64} : tensor<TIMESx2x3x5xf32>
  %2 = tessera.random_normal {stream = 6 : i64} : tensor<TIMESx4xf64>
  %3 = tessera.random_uniform {stream = 7 : i64} : tensor<TIMESx2xf32>
  return %1, %2, %3 : tensor<TIMESx2x3x5xf32>, tensor<TIMESx4xf64>, tensor<TIMESx2xf32>
}
'''
TRAINED = '''
func.func @train(%x: tensor<4x8xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %u = tessera.param "u" init = #tessera.normal<0.0, 0.3> : tensor<8x8xf32>
  MASK
  %h = tessera.scan %xMASKS {
  ^bb0(%c: tensor<4x8xf32>MASKARG):
    %0 = tessera.matmul %c, %u : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    DROP
    %2 = tessera.tanh %1 : tensor<4x8xf32>
    tessera.yield %2 : tensor<4x8xf32>
  } {carried = 1 : i64, length = 60 : i64} : tensor<4x8xf32>MASKTYPE -> tensor<4x8xf32>
  %loss = tessera.mean %h {axes = [0, 1]} : tensor<4x8xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.5, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}
'''
INSIDE = {'MASKARG': '', 'MASKTYPE': '', 'MASKS': '', 'MASK': '',
          'DROP': '%1 = tessera.dropout %0 {rate = 0.25, stream = 9 : i64} : tensor<4x8xf32> -> tensor<4x8xf32>'}
OUTSIDE = {'MASKARG': ', %k: tensor<4x8xf32>', 'MASKTYPE': ', tensor<60x4x8xf32>', 'MASKS': ', %mask',
           'MASK': '''%ones = tessera.constant dense<1.0> : tensor<60x4x8xf32>
  %mask = tessera.dropout %ones {rate = 0.25, stream = 9 : i64} : tensor<60x4x8xf32> -> tensor<60x4x8xf32>''',
           'DROP': '%1 = tessera.mul %0, %k : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>'}
VRANKS = '''
func.func @train(%x: tensor<8x16xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %u = tessera.param "u" init = #tessera.constant<1.0> : tensor<16xf32>
  %zero = tessera.constant dense<0.0> : tensor<8x16xf32>
  %h = tessera.scan %zero {
  ^bb0(%c: tensor<8x16xf32>):
    %a = tessera.mul %x, %u : tensor<8x16xf32>, tensor<16xf32> -> tensor<8x16xf32>
    %p = tessera.dropout %a {rate = 0.5} : tensor<8x16xf32> -> tensor<8x16xf32>
    %y = tessera.add %p, %c : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
    tessera.yield %y : tensor<8x16xf32>
  } {carried = 1 : i64, length = 60 : i64} : tensor<8x16xf32> -> tensor<8x16xf32>
  %q = tessera.sum %h {axes = [0, 1]} : tensor<8x16xf32> -> tensor<f32>
  tessera.minimize %q {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %q : tensor<f32>
}
'''
FEW, MANY = 3, 200


def filled(text, values):
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def build(aot, folder, name, text, *options):
    source = folder / f'{name}.mlir'
    source.write_text(text, encoding='utf-8')
    subprocess.run([aot, 'build', source, '-o', source.with_suffix('.tsb'), '--target', 'cpu:x86-64-v2', *options], check=True,
                   stdout=subprocess.DEVNULL)
    return source.with_suffix('.tsb')


def forward(aot, run, folder):
    bundle = build(aot, folder, 'forward', FORWARD.replace('TIMES', str(FEW)) + FORWARD.replace('TIMES', str(MANY)))

    def result(entry, *names):
        outputs = [word for n in names for word in ('--output', f'{n}={folder / n}.npy')]
        subprocess.run([run, bundle, '--quiet', '--entry', entry, *outputs], check=True, stdout=subprocess.DEVNULL)
        return [np.load(folder / f'{n}.npy') for n in names]

    for times in (FEW, MANY):
        r, n, s = result(f'whole_{times}', 'r', 'n', 's')
        rows = r.reshape(2 * times, 3, 5)
        assert len(np.unique(r)) > 0.99 * r.size
        for got, wanted in zip(result(f'scan_{times}', 'r', 'n'), (rows[:times], n)):
            assert np.array_equal(got, wanted), times
        for got, wanted in zip(result(f'nest_{times}', 'r', 'n'), (r, s)):
            assert np.array_equal(got, wanted), times
        x = np.zeros((3, 5), np.float32)
        for i in range(times):
            x = (0 if i == 1 else rows[i]) - x
        assert np.array_equal(result(f'while_{times}', 'r')[0], x), times


def trained(aot, run, folder):
    np.save(folder / 'x.npy', np.random.default_rng(3).standard_normal((32, 8)).astype(np.float32))
    seen = []
    for name, values in (('inside', INSIDE), ('outside', OUTSIDE)):
        bundle = build(aot, folder, name, filled(TRAINED, values))
        subprocess.run([run, bundle, '--entry', 'train', '--steps', '5', '--seed', '11', '--data', f'x={folder / "x.npy"}', '--quiet',
                        '--export-params', folder / f'{name}.safetensors'], check=True, stdout=subprocess.DEVNULL)
        seen.append((folder / f'{name}.safetensors').read_bytes())
    assert seen[0] == seen[1]


def over_vranks(aot, run, folder):
    """A loop, and with virtual ranks straight-line ops on the rows of each; all sums are exact."""
    np.save(folder / 'x.npy', np.random.default_rng(4).integers(-8, 8, (8, 16)).astype(np.float32))
    seen = set()
    for vranks in ('1', '8'):
        bundle = build(aot, folder, f'vranks{vranks}', VRANKS, '--virtual-ranks', vranks)
        subprocess.run([run, bundle, '--steps', '3', '--seed', '11', '--data', f'x={folder / "x.npy"}', '--quiet',
                        '--export-params', folder / 'vranks.safetensors'], check=True, stdout=subprocess.DEVNULL)
        seen.add((folder / 'vranks.safetensors').read_bytes())
    assert len(seen) == 1


def main():
    with tempfile.TemporaryDirectory() as name:
        forward(*sys.argv[1:3], pathlib.Path(name))
        trained(*sys.argv[1:3], pathlib.Path(name))
        over_vranks(*sys.argv[1:3], pathlib.Path(name))


main()
