#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the products of tests/gpu, and gradients of attention (attend-grad.mlir), through LLVM and ptxas: every kernel is
accepted, and none spills.

usage: products.py TILE-CODE [CASE...]; exit code 77 without ptxas or NumPy. Without cases: a few of each kind.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'gpu/modules'))

try:
    from products import CASES, HOPPER, LARGE, source
except ImportError as missing:
    print(f'skipped: {missing}')
    sys.exit(77)

SHORT = ('tt', 'odd_t', 'tf32', 'fragment', 'three_groups', 'two_blocks', 'gelu', 'turns_deep', 'pair_transposed', 'fetched_turns', 'split_rounds',
         'transposed_turns', 'transposed_eight')


def gradients():
    """{name: source}: heads of 128 numbers and of 64, causal and not, heads of keys that are shared and not."""
    wide = (pathlib.Path(__file__).parent / 'attend-grad.mlir').read_text('utf-8')
    narrow = wide
    for old, new in (('512x128x', '512x64x'), ('4x8xi32', '4x4xi32'), ('<1x128x128x', '<1x128x64x'), ('<2x64x128xbf16>', '<2x128x64xb>'),
                     ('<2x128x64xbf16>', '<2x128x128xbf16>'), ('<2x128x64xb>', '<2x128x64xbf16>'), ('<2x64x128xf32>', '<2x128x64xf32>'),
                     ('<2x2x64xf32>', '<2x2x128xf32>')):
        narrow = narrow.replace(old, new)
    own = lambda text: text.replace('<2x512x', '<4x512x').replace('%head = arith.muli %group, %2', '%head = arith.divui %p, %4')
    found = {'grad_128': wide, 'grad_64': narrow, 'grad_128_own': own(wide), 'grad_64_own': own(narrow)}
    return {**found, **{name + '_all': text.replace('causal, ', '') for name, text in found.items()}}


def main():
    wrong = count = 0
    grads = gradients()
    names = [*CASES, *grads] if sys.argv[2:] == ['all'] else sys.argv[2:] or [*SHORT, *grads]
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / 'kernel.mlir'
        for name in names:
            path.write_text(grads[name] if name in grads else source(CASES[name], name), 'utf-8')
            for target in ('cuda:sm_90a', *(['cuda:sm_80'] if name not in LARGE + HOPPER + tuple(grads) else [])):
                done = subprocess.run([sys.argv[1], target, 'code', str(path), f'{work}/code'], capture_output=True, text=True)
                if done.returncode == 77:
                    print('skipped: there is no ptxas')
                    return 77
                count += 1
                if done.returncode or not re.search(r'\d+ registers, 0 spilt', done.stdout):
                    wrong += 1
                    print(f'{target}: {done.stdout}{done.stderr}')
                else:
                    print(f'{target}: {done.stdout.strip()}')
    print(f'{count - wrong} of {count} kernels spill nothing')
    return 1 if wrong or not count else 0


sys.exit(main())
