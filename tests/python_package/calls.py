#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls with NumPy arrays, numbers and foreign exporters, compared with NumPy; 3,000 random layouts.

usage: calls.py (PYTHONPATH: python; TESSERA_LIBRARY; DIGITS_BUNDLE, ARRAYS_BUNDLE)
"""
import ctypes
import multiprocessing
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile
import threading
import time

import common
import numpy as np
import tessera
from common import raises

ARRAYS = tessera.open(common.ARRAYS, threads=2)
DATA = common.digits_data()


def digits(**options):
    return tessera.open(common.DIGITS, threads=2, **options)


# ---- arrays of any layout ----


def with_strides(rng, values):
    """The same values with random strides (0 where all are equal along a dim, negative, with gaps), offset and order of dims."""
    order = list(range(values.ndim))
    rng.shuffle(order)
    size = values.dtype.itemsize
    gaps, strides, span = [rng.choice((1, 1, 2, 3)) for _ in order], [0] * values.ndim, 1
    for dim, gap in zip(order, gaps):
        strides[dim] = span * gap
        span *= gap * max(values.shape[dim], 1)
    offset = rng.choice((0, 0, 1, 5))
    buffer = np.zeros(span + offset, values.dtype)
    view = np.lib.stride_tricks.as_strided(buffer[offset:], values.shape, [stride * size for stride in strides])
    flips = tuple(slice(None, None, rng.choice((1, -1))) for _ in values.shape)
    view = view[flips]
    view[...] = values
    if rng.random() < 0.3:
        view.flags.writeable = False
    return view


def random_values(rng, dtype, shape):
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    if dtype.kind == 'b':
        return numbers.integers(0, 2, shape).astype(bool)
    if dtype.kind in 'iu':
        return numbers.integers(0, 9, shape).astype(dtype)
    return (numbers.integers(-64, 64, shape) / 8).astype(dtype)


def test_random_layouts():
    rng = random.Random(7)
    cases = {'twice_f64': 'f8', 'twice_f32': 'f4', 'twice_f16': 'f2', 'twice_i64': 'i8', 'twice_i32': 'i4', 'cast_ui8': 'u1'}
    for round_number in range(500):
        for entry, dtype in cases.items():
            x = with_strides(rng, random_values(rng, np.dtype(dtype), (4, 5)))
            expected = x.astype('f4') if entry == 'cast_ui8' else x + x
            given = np.full((4, 10), 99, expected.dtype)
            out = given[:, ::2] if rng.random() < 0.5 else None
            y = ARRAYS.entries[entry](x, out=out)
            assert y.dtype == expected.dtype and y.tobytes() == expected.tobytes(), (round_number, entry, x.strides)
            assert out is None or (y is out and (given[:, 1::2] == 99).all())


def test_repeated_rows():
    row = np.arange(5, dtype='f4')
    assert (ARRAYS.twice_f32(np.broadcast_to(row, (4, 5))) == 2 * row).all()
    assert (ARRAYS.twice_f32(np.broadcast_to(np.float32(3), (4, 5))) == 6).all()


def test_booleans_and_two_outputs():
    rng = random.Random(3)
    for _ in range(100):
        m, a, b = (with_strides(rng, random_values(rng, np.dtype(d), (4, 5))) for d in ('?', 'f4', 'f4'))
        y, n = ARRAYS.choose(m, b=b, a=a)
        assert (y == np.where(m, a, b)).all() and n.dtype == bool and (n == ~m).all()
    result = ARRAYS.choose(m, a, b)
    assert (result.y == y).all() and result._fields[0] == 'y'
    bad = np.array([[2] * 5] * 4, 'u1').view(bool)
    with raises(tessera.DataError, "input 'm'", 'is 2', '0 or 1'):
        ARRAYS.choose(bad, a, b)


def test_bfloat16():
    """bf16 as the upper half of f32, whose type NumPy does not have."""
    class Exporter:
        def __init__(self, bits):
            self.bits = bits

        def __dlpack__(self, **_):
            raise AssertionError('the array interface comes first')

    class Half:  # as ml_dtypes describes its arrays
        def __init__(self, bits):
            self.bits, self.dtype = bits, type('dtype', (), {'name': 'bfloat16'})()

        @property
        def __array_interface__(self):
            return {**self.bits.__array_interface__, 'typestr': '<V2'}
    values = np.arange(20, dtype='f4').reshape(4, 5)
    bits = (values.view('u4') >> 16).astype('u2')
    y = ARRAYS.twice_bf16(Half(bits), library='tessera')
    got = (np.frombuffer(y.tobytes(), 'u2').astype('u4') << 16).view('f4').reshape(4, 5)
    assert y.dtype == 'bf16' and (got == 2 * values).all() and y.tolist() == (2 * values).tolist()
    with raises(tessera.DataError, 'ui16', 'bf16'):
        ARRAYS.twice_bf16(bits)


def test_indices():
    table = np.arange(27, dtype='f4').reshape(9, 3)
    assert (ARRAYS.pick(table, np.array([8, 0, 3, 3, 1, 2])[::-1]) == table[[2, 1, 3, 3, 0, 8]]).all()
    assert (ARRAYS.pick(table, [8, 0, 3, 3, 1, 2]) == table[[8, 0, 3, 3, 1, 2]]).all()
    with raises(tessera.DataError, 'rows[5] is 9', '0 to 8'):
        ARRAYS.pick(table, [8, 0, 3, 3, 1, 9])


def test_any_number_of_rows():
    model, images = digits(), DATA['test-images']
    whole = model(images)
    for rows in (0, 1, 3, 64, 65, 359):
        y = model.predict(images[:rows])
        assert y.shape == (rows, 10) and y.tobytes() == whole[:rows].tobytes()
    assert model.predict(images[::-2]).tobytes() == whole[::-2].tobytes()
    parameters = model.state_dict()
    x = images.astype('f8') / 16
    for layer in ('layer1', 'layer2', 'layer3'):
        x = x @ parameters[f'{layer}.weight'].astype('f8') + parameters[f'{layer}.bias']
        x = np.maximum(x, 0) if layer != 'layer3' else x
    assert np.abs(whole - x).max() < 1e-5  # rounding of f32 in 128 products


# ---- in place ----


def test_large_arrays_are_not_copied():
    x = np.ones((64, 300), 'f4')
    with common.log_lines() as lines:
        y = ARRAYS.scale(x, 3.0)
    assert (y == 3).all()
    text = '\n'.join(lines)
    assert "input 'x' is read in place" in text and "output 'y' is written in place" in text, text
    assert y.__array_interface__['data'][0] % 64 == 0
    owner = y
    while getattr(owner, 'base', None) is not None:
        owner = owner.base
    assert isinstance(owner, tessera.Array) and owner._address == y.__array_interface__['data'][0], 'the memory of the C library'
    out = np.empty((64, 300), 'f4')
    assert ARRAYS.scale(x, 3.0, out=out) is out and (out == 3).all()


def test_results_outlive_the_model():
    model = tessera.open(common.ARRAYS)
    y = model.scale(np.ones((64, 300), 'f4'), 2.0)
    model.close()
    del model
    assert (y == 2).all()


def test_inputs_that_change_or_are_freed_after_the_call():
    x = np.ones((64, 300), 'f4')
    y = ARRAYS.scale(x, 2.0)
    x[:] = 7
    assert (y == 2).all()
    for _ in range(50):
        assert (ARRAYS.scale(np.full((64, 300), 3, 'f4'), 2.0) == 6).all()


def test_inputs_that_another_thread_changes():
    """Indices are checked in a copy: whatever another thread writes, the call is refused or gives rows of the table."""
    table, rows, stop = np.arange(27, dtype='f4').reshape(9, 3), np.zeros(6, 'i8'), threading.Event()

    def change():
        while not stop.is_set():
            rows[:] = 1 << 40
            rows[:] = 4
    thread = threading.Thread(target=change)
    thread.start()
    results = 0
    for _ in range(300):
        try:
            y = ARRAYS.pick(table, rows)
        except tessera.DataError:
            continue
        results += 1
        assert all(any((row == known).all() for known in table) for row in y), y
    stop.set()
    thread.join()


# ---- what is refused ----


def test_arrays_that_do_not_fit():
    x = np.zeros((4, 5), 'f4')
    for wrong, words in ((x.astype('f8'), ('4x5xf64', '4x5xf32')), (x[:3], ('3x5xf32',)), (x.reshape(20), ('20xf32',)), (x.astype('c8'), ('complex64',)),
                         (x.astype('>f4'), ('byte order',)), (np.array([['a'] * 5] * 4), ('str32',)), (x.astype(object), ('object',)),
                         (np.zeros((4,) + 8 * (1,), 'f4'), ('9 dims',)), ([[1.5] * 5] * 3, ('3x5xf32',)), ([[1] * 5] * 3 + [[1]], ('lengths',))):
        with raises(tessera.DataError, *words):
            ARRAYS.twice_f32(wrong)
    for wrong in (None, 'text', {}, object()):
        with raises(tessera.UsageError, 'not an array'):
            ARRAYS.twice_f32(wrong)
    with raises(tessera.UsageError, "needs x: 4x5xf32"):
        ARRAYS.twice_f32()
    with raises(tessera.UsageError, 'takes 1 input'):
        ARRAYS.twice_f32(x, x)
    with raises(tessera.UsageError, "no input 'z'"):
        ARRAYS.twice_f32(z=x)
    with raises(tessera.UsageError, 'by position and by name'):
        ARRAYS.twice_f32(x, x=x)
    with raises(tessera.UsageError, 'several entries'):
        ARRAYS(x)
    with raises(AttributeError, "no entry 'thrice'"):
        ARRAYS.thrice(x)
    with raises(tessera.DataError, '300', 'not a value of ui8'):
        ARRAYS.cast_ui8([[300] * 5] * 4)
    with raises(tessera.DataError, '1.5', 'not a value of i64'):
        ARRAYS.twice_i64([[1.5] * 5] * 4)


def test_outputs_that_do_not_fit():
    x = np.zeros((4, 5), 'f4')
    read_only = np.zeros((4, 5), 'f4')
    read_only.flags.writeable = False
    with raises(tessera.UsageError, "'y' is read-only"):
        ARRAYS.twice_f32(x, out=read_only)
    with raises(tessera.DataError, "'y'", 'share memory'):
        ARRAYS.twice_f32(x, out=np.lib.stride_tricks.as_strided(np.zeros(9, 'f4'), (4, 5), (4, 4)))
    with raises(tessera.DataError, '4x4xf32', '4x5xf32'):
        ARRAYS.twice_f32(x, out=np.zeros((4, 4), 'f4'))
    with raises(tessera.UsageError, "no output 'z'"):
        ARRAYS.twice_f32(x, out={'z': x})
    with raises(tessera.UsageError, "no library 'cupy'"):
        ARRAYS.twice_f32(x, library='cupy')
    both = np.zeros((4, 5), 'f4')
    with raises(tessera.DataError):
        ARRAYS.choose(both == 0, both, both, out=(both, both))
    x = np.ones((4, 5), 'f4')
    assert ARRAYS.twice_f32(x, out=x) is x and (x == 2).all(), 'an output over its input'


class Exporter:
    """An exporter of DLPack that says what it is told to say."""

    def __init__(self, array, device=(1, 0), **fields):
        self.array, self.device, self.fields = array, device, fields

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        from tessera import _arrays
        memory = _arrays.memory_of(self.array, None)
        managed = memory.describe()
        managed.contents.tensor.device.type, managed.contents.tensor.device.number = self.device
        for name, value in self.fields.items():
            target = managed.contents
            *path, last = name.split('__')
            for part in path:
                target = getattr(target, part)
            setattr(target, last, value)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.owner = memory
        return new(ctypes.addressof(managed.contents), b'dltensor_versioned', None)


def test_exporters():
    x = np.arange(20, dtype='f4').reshape(4, 5)
    assert (ARRAYS.twice_f32(Exporter(x[::-1])) == 2 * x[::-1]).all()
    assert (ARRAYS.twice_f32(Exporter(x, flags=1)) == 2 * x).all()
    assert (ARRAYS.twice_f32(Exporter(x, device=(3, 0))) == 2 * x).all()
    with raises(tessera.UsageError, 'GPU 0', "'cpu:"):
        ARRAYS.twice_f32(Exporter(x, device=(2, 0)))
    with raises(tessera.UsageError, 'device type 10'):
        ARRAYS.twice_f32(Exporter(x, device=(10, 0)))
    with raises(tessera.VersionError, 'DLPack 2.1'):
        ARRAYS.twice_f32(Exporter(x, version__major=2, version__minor=1))
    with raises(tessera.DataError, '2 lanes'):
        ARRAYS.twice_f32(Exporter(x, tensor__dtype__lanes=2))
    with raises(tessera.DataError, 'code 9'):
        ARRAYS.twice_f32(Exporter(x, tensor__dtype__code=9, tensor__dtype__bits=8))
    if hasattr(x, '__dlpack__'):  # a capsule of the version before 1.0 from Debian's NumPy, of 1.0 from newer ones
        class Hidden:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **keywords):
                return self.array.__dlpack__(**keywords)
        assert (ARRAYS.twice_f32(Hidden(x)) == 2 * x).all()
        assert (ARRAYS.twice_f32(x.__dlpack__()) == 2 * x).all()


# ---- models ----


def test_a_closed_model_is_refused():
    model = digits()
    model.predict(DATA['test-images'][:2])
    model.close()
    model.close()
    for use in (lambda: model.predict(DATA['test-images'][:2]), model.state_dict, model.inspect, lambda: model.train({}, 1), lambda: model.target,
                lambda: model.initialize(1)):
        with raises(tessera.UsageError):
            use()
    assert 'closed' in repr(model)


def test_closing_waits_for_a_call():
    model = tessera.open(common.ARRAYS)
    x, errors = np.ones((64, 300), 'f4'), []

    def call():
        try:
            for _ in range(5000):
                assert (model.scale(x, 2.0)[0] == 2).all()
        except tessera.UsageError as error:
            errors.append(str(error))
    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    model.close()
    for thread in threads:
        thread.join()
    assert errors and all('closed' in text for text in errors), errors


def in_child(model, queue):
    try:
        model.twice_f32(np.zeros((4, 5), 'f4'))
        queue.put('no error')
    except tessera.UsageError as error:
        again = tessera.open(common.ARRAYS)
        queue.put(f'{error}|{again.twice_f32(np.ones((4, 5), "f4")).sum()}')


def test_fork_after_open():
    context = multiprocessing.get_context('fork')
    queue = context.Queue()
    child = context.Process(target=in_child, args=(ARRAYS, queue))
    child.start()
    text = queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0 and 'a fork of it' in text and text.endswith('|40.0'), text
    assert (ARRAYS.twice_f32(np.ones((4, 5), 'f4')) == 2).all()


def test_files_that_are_refused():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'broken.tsb'
        path.write_bytes(pathlib.Path(common.DIGITS).read_bytes()[:-4096])
        with raises(tessera.CorruptError):
            tessera.open(path)
        with raises(tessera.InputOutputError, 'No such file'):
            tessera.open(pathlib.Path(folder) / 'missing.tsb')
        assert issubclass(tessera.InputOutputError, OSError) and issubclass(tessera.DataError, ValueError)
    with raises(tessera.UsageError, 'x86-64-v9'):
        tessera.open(common.DIGITS, cpu='x86-64-v9')
    with raises(tessera.UsageError, 'check_finite'):
        tessera.open(common.DIGITS, check_finite='always')


def test_state_and_safetensors():
    model, other = digits(seed=4), digits(seed=5)
    values = model.state_dict()
    assert values['layer1.weight'].shape == (64, 128) and set(values) < set(model.state_dict(optimizer=True))
    other.load_state_dict({name: np.asfortranarray(value) for name, value in values.items()})
    assert all((a == values[name]).all() for name, a in other.state_dict().items())
    with raises(tessera.UsageError, 'missing: layer1.bias', 'unknown: x'):
        other.load_state_dict({**{k: v for k, v in values.items() if k != 'layer1.bias'}, 'x': values['layer1.bias']})
    with raises(tessera.DataError, 'layer1.bias', '127xf32', '128xf32'):
        other.load_state_dict({**values, 'layer1.bias': values['layer1.bias'][1:]})
    with tempfile.TemporaryDirectory() as folder:
        model.save_safetensors(f'{folder}/p.safetensors')
        third = digits()
        third.load_state_dict(f'{folder}/p.safetensors')
        assert third.state_dict()['layer2.weight'].tobytes() == values['layer2.weight'].tobytes()
        assert tessera.open(common.DIGITS, params=f'{folder}/p.safetensors').predict(DATA['test-images'][:9]).tobytes() == \
            model.predict(DATA['test-images'][:9]).tobytes()


def test_what_is_shown():
    model = digits()
    seen = model.inspect()
    assert 'layer1.weight' in repr(seen) and '<table>' in seen._repr_html_() and '64x64xui8' in repr(seen) and seen.summary['model'] == 'digits'
    assert str(model.predict.signature) == "(x: '64x64xui8')" and 'predict' in dir(model) and 'predict' in repr(model)
    found = model.profile(DATA['test-images'][:64], calls=3)
    assert any(row['launches'] == '3' for row in found.kernels) and found.events and 'seconds' in repr(found) and '<td>' in found._repr_html_()


def test_warnings_go_to_logging():
    with common.log_lines() as lines:
        digits().predict(DATA['test-images'][:2])
    assert any('never trained' in line for line in lines), lines


def test_numpy_is_not_imported_by_itself():
    code = 'import tessera, sys; m = tessera.open(sys.argv[1]); print("numpy" in sys.modules, "logging" in sys.modules, m.twice_f32([[1, 2, 3, 4, 5]] * 4, library="tessera").tolist()[3], "numpy" in sys.modules)'
    got = subprocess.run([sys.executable, '-c', code, common.ARRAYS], capture_output=True, text=True, check=True).stdout
    assert got == 'False True [2.0, 4.0, 6.0, 8.0, 10.0] False\n', got
    got = subprocess.run([sys.executable, '-c', 'import tessera, sys; print(sorted({"numpy", "logging", "inspect", "pathlib"} & set(sys.modules)))'],
                         capture_output=True, text=True, check=True).stdout
    assert got == '[]\n', got


def test_a_library_that_is_missing_or_old():
    environment = {**os.environ, 'TESSERA_LIBRARY': '/nonexistent/libtessera.so'}
    got = subprocess.run([sys.executable, '-c', 'import tessera'], capture_output=True, text=True, check=False, env=environment)
    assert got.returncode == 1 and 'ImportError' in got.stderr and 'pip install .' in got.stderr, got.stderr
    environment['TESSERA_LIBRARY'] = 'libc.so.6'
    got = subprocess.run([sys.executable, '-c', 'import tessera'], capture_output=True, text=True, check=False, env=environment)
    assert "has no function 'tsr_" in got.stderr, got.stderr


def test_exceptions_are_pickled():
    error = tessera.DataError('a text', ('x.c:1',))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is tessera.DataError and str(copy) == 'a text'


common.run(sys.modules['__main__'])
