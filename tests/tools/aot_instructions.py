#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions of a build per layer, counted by valgrind: a layer must not cost more in a deeper program. Not part of the
test suite, since it takes minutes: aot_instructions.py TESSERA_AOT [LAYERS]

Builds programs with AdamW of LAYERS (25), twice and four times as many layers. The second doubling may add at most 2.15
times as many instructions as the first one. Exits with 77 without valgrind.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

GROWTH_MAX = 2.15


def layers(count):
    """A chain of layers, each with a parameter of its own."""
    t, w = 'tensor<4x16xf32>', 'tensor<16x16xf32>'
    lines, h = [f'func.func @train(%x: {t} {{tessera.data = "x"}}) -> (tensor<f32> {{tessera.name = "loss"}}) '
                'attributes {tessera.entry = "train"} {'], '%x'
    for i in range(count):
        lines += [f'%w{i} = tessera.param "layer{i}.w" init = #tessera.normal<0.0, 0.25> : {w}',
                  f'%m{i} = tessera.matmul {h}, %w{i} : {t}, {w} -> {t}', f'%t{i} = tessera.tanh %m{i} : {t}']
        h = f'%t{i}'
    return '\n'.join(lines + [
        f'%l = tessera.mean {h} {{axes = [0, 1]}} : {t} -> tensor<f32>',
        'tessera.minimize %l {optimizer = #tessera.adamw<lr = 1.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, '
        'weight_decay = 0.0>} : tensor<f32>', 'return %l : tensor<f32>']) + '\n}\n'


def instructions(aot, folder, count):
    """Counts the instructions of the compiler and its child processes."""
    source = folder / 'layers.mlir'
    source.write_text(layers(count), 'utf-8')
    for old in folder.glob('out.*'):
        old.unlink()
    subprocess.run(['valgrind', '-q', '--tool=callgrind', f'--callgrind-out-file={folder}/out.%p', aot, 'build', source,
                    '-o', folder / 'layers.tsb', '--target=cpu:x86-64-v2'], check=True)
    return sum(int(re.search(r'^totals: (\d+)', out.read_text('utf-8'), re.MULTILINE)[1]) for out in folder.glob('out.*'))


def main():
    aot, first = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 25
    if not shutil.which('valgrind'):
        print('valgrind is absent')
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        costs = [instructions(aot, pathlib.Path(folder), times * first) for times in (1, 2, 4)]
    growth = (costs[2] - costs[1]) / (costs[1] - costs[0])
    for times, cost in zip((1, 2, 4), costs):
        print(f'{times * first} layers: {cost / 1e6:.0f} million instructions')
    print(f'the second doubling adds {growth:.2f} times what the first one adds, at most {GROWTH_MAX}')
    sys.exit(growth > GROWTH_MAX)


main()
