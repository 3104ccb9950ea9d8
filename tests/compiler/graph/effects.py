# SPDX-License-Identifier: Apache-2.0
"""effects.py AOT RUN: what deterministic functions draw, and what inspect says about effects.

A deterministic entry has the same bits for every seed of a run: those that the same entry without the attribute has with that
seed. In a loop, in attention with dropout and in training, where the gradient draws again, too. The innermost deterministic function
decides. Bundles of programs without the attributes say nothing about effects in their config; inspect shows the effects of any bundle,
with regions, virtual ranks and offloads. Exit code 77, skipped, without NumPy.
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

AOT, RUN = sys.argv[1:3]
RANDOM = '''
func.func private @noise(%x: tensor<6x4xf32>) -> tensor<6x4xf32> INNER {
  %0 = tessera.random_normal : tensor<6x4xf32>
  %1 = tessera.add %x, %0 : tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
}
func.func @draw(%x: tensor<6x4xf32> {tessera.name = "x"}) -> (tensor<6x4xf32> {tessera.name = "a"}, tensor<5x3xf64> {tessera.name = "b"})
    attributes {tessera.entry = "infer"ATTRIBUTE} {
  %0 = func.call @noise(%x) : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %1 = tessera.random_uniform : tensor<6x4xf32>
  %2 = tessera.add %0, %1 : tensor<6x4xf32>
  %z = tessera.constant dense<0.0> : tensor<f32>
  %3:2 = tessera.scan %z {
  ^bb0(%c: tensor<f32>):
    %4 = tessera.random_uniform : tensor<3xf64>
    tessera.yield %c, %4 : tensor<f32>, tensor<3xf64>
  } {carried = 1 : i64, length = 5 : i64} : tensor<f32> -> tensor<f32>, tensor<5x3xf64>
  return %2, %3#1 : tensor<6x4xf32>, tensor<5x3xf64>
}
'''
TRAIN = '''
func.func @train(%x: tensor<6x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"ATTRIBUTE} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<4x8xf32>
  %0 = tessera.matmul %x, %w : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %1 = tessera.dropout %0 {rate = 0.25} : tensor<6x8xf32>
  %2 = tessera.reshape %1 : tensor<6x8xf32> -> tensor<1x1x6x8xf32>
  %3 = tessera.attention %2, %2, %2 {dropout = 0.5} : (tensor<1x1x6x8xf32>, tensor<1x1x6x8xf32>, tensor<1x1x6x8xf32>)
  %4 = tessera.mul %3, %3 : tensor<1x1x6x8xf32>
  %5 = tessera.mean %4 {axes = [0, 1, 2, 3]} : tensor<1x1x6x8xf32> -> tensor<f32>
  tessera.minimize %5 {optimizer = #tessera.sgd<lr = 0.5>} : tensor<f32>
  return %5 : tensor<f32>
}
'''
RANKS = '''
func.func @train(%x: tensor<8x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<4xf32>
  %t, %0 = tessera.resilience.region {name = "forward"} {
    %1 = tessera.mul %x, %w : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %2 = tessera.mean %1 {axes = [0, 1]} : tensor<8x4xf32> -> tensor<f32>
    tessera.yield %2 : tensor<f32>
  } : !tessera.res.token, tensor<f32>
  tessera.target.export %t : !tessera.res.token
  tessera.minimize %0 {optimizer = #tessera.sgd<lr = 0.5>} : tensor<f32>
  return %0 : tensor<f32>
}
func.func @pure(%x: tensor<8xf32> {tessera.name = "x"}) -> (tensor<8xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"ATTRIBUTE} {
  %0 = tessera.exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
'''
wrong = 0


def expect(what, got, wanted):
    global wrong
    if got != wanted:
        wrong += 1
        print(f'{what}: got {got}, expected {wanted}')


def call(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def build(folder, name, text, attribute='', *options):
    source, bundle = folder / f'{name}.mlir', folder / f'{name}.tsb'
    source.write_text(text.replace('ATTRIBUTE', attribute), 'utf-8')
    call(AOT, 'build', source, '-o', bundle, '--target=cpu:x86-64-v3', *options)
    return bundle


def draw(folder, bundle, seed):
    call(RUN, bundle, '--entry', 'draw', '--seed', str(seed), '--input', f'x={folder}/x.npy', '--output', f'a={folder}/a.npy',
         '--output', f'b={folder}/b.npy')
    return np.load(folder / 'a.npy').tobytes(), np.load(folder / 'b.npy').tobytes()


def train(folder, bundle, seed):
    state = folder / f'{bundle.stem}-{seed}'
    call(RUN, bundle, '--seed', str(seed), '--data', f'x={folder}/equal.npy', '--steps', '5', '--state-dir', state)
    call(RUN, 'export', state, '-o', folder / 'w.safetensors')
    data = (folder / 'w.safetensors').read_bytes()
    size = int.from_bytes(data[:8], 'little')
    first, last = json.loads(data[8:8 + size])['w']['data_offsets']
    return data[8 + size + first:8 + size + last]


def effects(bundle):
    entries = json.loads(call(AOT, 'inspect', '--json', bundle))['entries']
    return {e['name']: (e['effects'], e.get('statedEffects')) for e in entries}


def check_seeds(folder):
    seed = ', tessera.deterministic = {seed = 7 : i64}'
    plain = build(folder, 'plain', RANDOM.replace('INNER', ''))
    fixed = build(folder, 'fixed', RANDOM.replace('INNER', ''), seed)
    inner = build(folder, 'inner', RANDOM.replace('INNER', 'attributes {tessera.deterministic = {seed = 8 : i64}}'), seed)
    expect('a seed of the run changes the bits', draw(folder, plain, 1) == draw(folder, plain, 7), False)
    for run in 1, 2:
        expect(f'deterministic, seed {run} of the run', draw(folder, fixed, run), draw(folder, plain, 7))
    a, b = draw(folder, inner, 1)
    expect('the loop is in the outer function', b, draw(folder, plain, 7)[1])
    x = np.load(folder / 'x.npy')
    uniform = lambda seed: np.frombuffer(draw(folder, plain, seed)[0], np.float32).reshape(6, 4)
    expect('the inner function has its own seed', a in (draw(folder, plain, 7)[0], draw(folder, plain, 8)[0]), False)
    # normal(8) + uniform(7), from sums of normal and uniform of one seed each, up to rounding
    both = build(folder, 'both', RANDOM.replace('INNER', '').replace('%2 = tessera.add %0, %1', '%2 = tessera.add %0, %x'))
    normal = lambda seed: np.frombuffer(draw(folder, both, seed)[0], np.float32).reshape(6, 4) - 2 * x
    wanted = uniform(7) - normal(7) + normal(8)
    expect('normal of the inner seed and uniform of the outer one',
           bool(np.max(np.abs(np.frombuffer(a, np.float32).reshape(6, 4) - wanted)) < 1e-5), True)
    expect('effects', effects(fixed), {'draw': ([], ['random'])})
    expect('effects', effects(plain), {'draw': (['random'], None)})


def check_training(folder):
    plain, fixed = build(folder, 'trains', TRAIN), build(folder, 'seeded', TRAIN, ', tessera.deterministic = {seed = 7 : i64}')
    expect('a seed of the run changes training', train(folder, plain, 1) == train(folder, plain, 7), False)
    expect('deterministic training', train(folder, fixed, 1), train(folder, plain, 7))
    expect('effects of training', effects(plain), {'train': (['random', 'state'], None)})


def check_inspect(folder):
    for options, more in ((), []), (('--virtual-ranks', '4'), ['collective']):
        bundle = build(folder, 'ranks', RANKS, '', *options)
        expect(f'effects {options}', effects(bundle), {'pure': ([], None), 'train': (['io', 'state'] + more, None)})
    stated = build(folder, 'stated', RANKS, ', tessera.effects = ["movement"]')
    text = call(AOT, 'inspect', '--effects', stated)
    expect('the text', text.split('effects\n')[1].split('tensors, ')[0],
           '  @pure  none; the program states: movement\n  @train  io, state\n')
    expect('without the flag', '\neffects\n' in call(AOT, 'inspect', stated), False)


with tempfile.TemporaryDirectory() as name:
    where = pathlib.Path(name)
    np.save(where / 'x.npy', np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4))
    np.save(where / 'equal.npy', np.tile(np.float32([0.5, -1, 2, 0.25]), (6, 1)))  # the seed of the run also shuffles rows
    check_seeds(where)
    check_training(where)
    check_inspect(where)
print(f'{wrong} wrong')
sys.exit(wrong > 0)
