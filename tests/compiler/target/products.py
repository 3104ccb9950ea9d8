#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The products of tests/gpu through LLVM and ptxas: every one is taken, and spills nothing.

usage: products.py TILE-CODE [CASE...]; exit code 77 without ptxas or NumPy. Without cases: a few of each kind.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'gpu'))

try:
    from products import CASES, HOPPER, LARGE, source
except ImportError as missing:
    print(f'skipped: {missing}')
    sys.exit(77)

SHORT = ('tt', 'odd_t', 'tf32', 'fragment', 'three_groups', 'two_blocks', 'gelu', 'turns_deep', 'pair_turned')


def main():
    wrong = count = 0
    names = CASES if sys.argv[2:] == ['all'] else sys.argv[2:] or SHORT
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / 'kernel.mlir'
        for name in names:
            path.write_text(source(CASES[name], name), 'utf-8')
            for target in ('cuda:sm_90a', *(['cuda:sm_80'] if name not in LARGE + HOPPER else [])):
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
