#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Building bundles from Python: from text, .mlir and .onnx; diagnostics with line, caret and fix; what is refused.

usage: building.py TESSERA_RUN (beside which tessera-aot is; PYTHONPATH: python; TESSERA_LIBRARY)
"""
import os
import pathlib
import pickle
import sys
import tempfile

import common
import numpy as np
import tessera
from common import raises

AOT = str(pathlib.Path(sys.argv[1]).with_name('tessera-aot'))
os.environ['TESSERA_AOT'] = AOT
TARGET = 'cpu:x86-64-v2'
PROGRAM = '''module @m {
  func.func @f(%x: tensor<?x3xf32, #tessera.dims<N>> {tessera.name = "x"}) -> (tensor<?x3xf32, #tessera.dims<N>> {tessera.name = "y"})
      attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
    %0 = tessera.add %x, %x : tensor<?x3xf32, #tessera.dims<N>>
    return %0 : tensor<?x3xf32, #tessera.dims<N>>
  }
}
'''


def test_text_with_dims():
    with tempfile.TemporaryDirectory() as folder:
        for dims, good, bad in ((range(1, 9), (1, 5, 8), 9), ((1, 4), (1, 4), 5), (4, (4,), 3)):
            path = tessera.build(PROGRAM, f'{folder}/m.tsb', target=[TARGET], dims={'N': dims})
            model = tessera.open(path)
            for n in good:
                x = np.arange(3 * n, dtype='f4').reshape(n, 3)
                assert (model(x) == 2 * x).all() and model.target == TARGET
            with raises(tessera.DataError):
                model(np.zeros((bad, 3), 'f4'))


def test_files():
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / 'm.mlir'
        source.write_text(PROGRAM, 'utf-8')
        assert tessera.open(tessera.build(source, pathlib.Path(folder) / 'm.tsb', target=TARGET, dims={'N': 2})).name == 'm'
        onnx = common.ROOT / 'examples/onnx/mlp.onnx'
        model = tessera.open(tessera.build(onnx, f'{folder}/o.tsb', target=TARGET, dims={'N': 64}, options=['--threads', '1']))
        images = common.digits_data()['test-images']
        assert model(images[:64]).shape == (64, 10)
        with raises(tessera.CompilationError, 'mlp.onnx: error: [TSR-0807]', "dim 'N' has no size"):
            tessera.build(onnx, f'{folder}/o.tsb')


def test_an_error_shows_line_caret_and_fix():
    path = common.ROOT / 'tests/compiler/rejected/0009-dialect.mlir'
    with tempfile.TemporaryDirectory() as folder:
        try:
            tessera.build(path, f'{folder}/m.tsb', target=TARGET)
            raise AssertionError('no error')
        except tessera.CompilationError as error:
            found = error
        assert not os.path.exists(f'{folder}/m.tsb')
    expected = path.with_suffix('.txt').read_text('utf-8')
    first = found.diagnostics[0]
    assert first.number == 'TSR-0009' and first.severity == 'error' and first.line > 0 and first.column > 0 and first.fix, found.diagnostics
    source = path.read_text('utf-8').split('\n')[first.line - 1]
    lines = str(found).split('\n')
    assert first.source == source and lines[1] == source and lines[2] == ' ' * (first.column - 1) + '^', str(found)
    assert lines[3] == ' ' * (first.fix[0] - 1) + first.fix[2], str(found)
    assert all(line.strip() in expected for line in lines[:4:3]), (str(found), expected)  # as tessera-aot prints it
    assert pickle.loads(pickle.dumps(found)).text == found.text
    with raises(tessera.CompilationError, "source.mlir:2:", '[TSR-', 'N', '^'):
        tessera.build(PROGRAM.replace('tensor<?x3xf32, #tessera.dims<N>> {tessera.name = "x"}', 'tensor<?x4xf32, #tessera.dims<N>> {tessera.name = "x"}'), 'm.tsb')


def test_what_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        with raises(tessera.InputOutputError, 'missing.mlir'):
            tessera.build(f'{folder}/missing.mlir', f'{folder}/m.tsb')
        with raises(tessera.UsageError, 'x86-64-v9'):
            tessera.build(PROGRAM, f'{folder}/m.tsb', target='cpu:x86-64-v9')
        os.environ['TESSERA_AOT'], path = '', os.environ['PATH']
        os.environ['PATH'] = folder
        try:
            with raises(tessera.UsageError, 'no tessera-aot in the PATH'):
                tessera.build(PROGRAM, f'{folder}/m.tsb')
        finally:
            os.environ['TESSERA_AOT'], os.environ['PATH'] = AOT, path


def test_remarks_go_to_logging():
    with tempfile.TemporaryDirectory() as folder, common.log_lines() as lines:
        tessera.build(common.ROOT / 'tests/python_package/arrays.mlir', f'{folder}/a.tsb', target=TARGET)
    assert any('TSR-0230' in line for line in lines), lines


common.run(sys.modules['__main__'])
