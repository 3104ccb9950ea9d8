#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python, and the first one of docs/python.md, with the results that they state.

usage: examples.py (PYTHONPATH: python; TESSERA_LIBRARY; DIGITS_BUNDLE)
"""
import os
import re
import subprocess
import sys
import tempfile

import common


def run(name):
    return subprocess.run([sys.executable, str(common.ROOT / f'examples/python/{name}.py'), common.DIGITS, str(common.ROOT / 'examples/digits')],
                          capture_output=True, text=True, check=True).stdout


def test_classify():
    out = run('classify')
    digits = [int(digit) for digit in re.findall(r'looks like a (\d)', out)]
    assert out.endswith('accuracy 0.961 on 359 images\n') and digits == common.digits_data()['test-labels'][:2].tolist(), out


def test_finetune():
    before, after = map(float, re.search(r'mirrored images: (0\.\d+) before, (0\.\d+) after', run('finetune')).groups())
    assert before < 0.7 and after > 0.9, (before, after)


def test_resume():
    out = run('resume')
    assert int(re.search(r'resumed at step (\d+)', out).group(1)) > 0 and 'the same state as an undisturbed run' in out, out


def test_the_program_of_the_page():
    page = (common.ROOT / 'docs/python.md').read_text('utf-8')
    program = re.search(r'```python\n(import numpy.*?)```', page, re.S).group(1)
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(common.ROOT / 'examples', f'{folder}/examples')
        os.symlink(common.DIGITS, f'{folder}/digits.tsb')
        done = subprocess.run([sys.executable, '-c', program + 'print(y.shape)'], cwd=folder, capture_output=True, text=True, check=True)
        assert '(359, 10)' in done.stdout and 'layer1.weight' in done.stdout, done.stdout
        assert sorted(os.listdir(folder)) == ['S', 'digits.safetensors', 'digits.tsb', 'examples']


common.run(sys.modules['__main__'])
