#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The structs and functions of python/tessera/_abi.py compared with the headers by the C compiler; codes, dtypes and exceptions with the tables.

usage: layout.py (PYTHONPATH: python; TESSERA_LIBRARY: libtessera.so)
"""
import ctypes
import re
import subprocess
import sys
import tempfile

import common
import tessera
from tessera import _abi, _arrays, _errors

NAMES = {'ErrorText': 'tsr_error'}


def c_name(structure):
    return NAMES.get(structure.__name__) or 'tsr' + re.sub(r'([A-Z])', lambda m: '_' + m.group(1).lower(), structure.__name__)


def structures():
    return [value for value in vars(_abi).values() if isinstance(value, type) and issubclass(value, ctypes.Structure) and value.__module__ == 'tessera._abi']


def test_structs_have_the_layout_of_c():
    lines = ['#include <tessera/tessera.h>', '#include <stdio.h>', 'int main(void) {']
    expected = []
    for one in structures():
        name = c_name(one)
        lines.append(f'    printf("{name} %zu\\n", sizeof({name}));')
        expected.append(f'{name} {ctypes.sizeof(one)}')
        for field, *_ in one._fields_:
            at = getattr(one, field)
            lines.append(f'    printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
            expected.append(f'{name}.{field} {at.offset} {at.size}')
    with tempfile.TemporaryDirectory() as folder:
        with open(f'{folder}/layout.c', 'w', encoding='utf-8') as file:
            file.write('\n'.join([*lines, '}']))
        subprocess.run(['cc', '-std=c17', f'-I{common.ROOT}', f'{folder}/layout.c', '-o', f'{folder}/layout'], check=True)
        got = subprocess.run([f'{folder}/layout'], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(structures()) > 20 and len(got) > 150, (len(structures()), len(got))
    assert len(got) == len(expected)
    assert got == expected, '\n'.join(f'C: {a}; Python: {b}' for a, b in zip(got, expected) if a != b)


def test_functions_have_the_parameters_of_c():
    with tempfile.TemporaryDirectory() as folder:
        with open(f'{folder}/declared.c', 'w', encoding='utf-8') as file:
            file.write('#include <tessera/tessera.h>\n')
        subprocess.run(['cc', '-std=c17', f'-I{common.ROOT}', '-aux-info', f'{folder}/declared.X', '-fsyntax-only', f'{folder}/declared.c'], check=True)
        with open(f'{folder}/declared.X', encoding='utf-8') as file:
            declared = dict(re.findall(r'extern .*?(tsr_\w+) \((.*)\);', file.read()))
    for name, (_, *arguments) in _abi.PROTOTYPES.items():
        parameters = declared[name].split(', ')
        count = 0 if parameters == ['void'] else len(parameters)
        assert count == len(arguments), f'{name}: C has {count} parameters, Python {len(arguments)}'
        for parameter, argument in zip(parameters, arguments):
            is_pointer = '*' in parameter
            assert is_pointer == (argument in (ctypes.c_void_p, ctypes.c_char_p)), f'{name}: {parameter}'
            sizes = {'uint32_t': 4, 'uint64_t': 8, 'size_t': 8, 'double': 8}
            if parameter in sizes:
                assert ctypes.sizeof(argument) == sizes[parameter], f'{name}: {parameter}'


def test_codes_have_exceptions():
    rows = re.findall(r'^X\((\w+), (\d+), "([^"]*)", "([^"]*)"\)', (common.ROOT / 'tessera/codes.def').read_text('utf-8'), re.M)
    assert len(rows) > 20
    for name, number, short, when in rows[1:]:
        kind = _errors.CLASSES[int(number)]
        assert (kind.code, kind.name) == (int(number), name) and kind.__doc__ == f'{short.capitalize()}: {when}.', name
        assert getattr(tessera, kind.__name__) is kind, name
        assert str(kind('a text', ('file.c:3',))) == 'a text', name
    assert len(_errors.CLASSES) == len(rows) - 1


def test_dtypes_are_those_of_the_table():
    rows = re.findall(r'^X\((\w+), (\d+), (\d), \w+, \w+, "(\w+)", "\w+", "([^"]*)"\)', (common.ROOT / 'tessera/dtype.def').read_text('utf-8'), re.M)
    assert len(rows) == len(_arrays.DTYPES) > 10
    make = ctypes.CDLL(_abi.find()).tsr_dlpack_make_dtype
    make.restype, make.argtypes = _abi.DlpackDtype, [ctypes.c_int]
    for _, number, size, name, typestr in rows:
        dtype = make(int(number))
        expected = int(number), int(size), typestr.replace('|V', '<V'), dtype.code, dtype.bits
        assert _arrays.DTYPES[name] == expected, f'{name}: {_arrays.DTYPES[name]}, expected {expected}'


def test_the_version_is_that_of_the_library():
    assert f"version: '{_abi.VERSION}'" in (common.ROOT / 'meson.build').read_text('utf-8') and tessera.__version__ == _abi.VERSION


def test_effects_are_those_of_the_header():
    rows = re.findall(r'TSR_EFFECT_(\w+) = 1 << (\d)', (common.ROOT / 'tessera/config.h').read_text('utf-8'))
    assert [name.lower() for name, _ in rows] == list(_abi.EFFECTS) and [int(bit) for _, bit in rows] == list(range(len(rows)))


def test_constants_are_those_of_the_headers():
    text = ''.join((common.ROOT / f'tessera/{name}').read_text('utf-8') for name in ('tensor.h', 'digest.h', 'state.h', 'result.h', 'config.h', 'dlpack.h'))
    for python, c in (('RANK_MAX', 'TSR_RANK_MAX'), ('DIGEST_BYTES', 'TSR_DIGEST_BYTES'), ('METRIC_MAX', 'TSR_METRIC_MAX'),
                      ('ERROR_TEXT_MAX', 'TSR_ERROR_TEXT_MAX'), ('FRAMES_MAX', 'TSR_ERROR_FRAMES_MAX'), ('INFER', 'TSR_ENTRY_INFER'),
                      ('TRAIN', 'TSR_ENTRY_TRAIN'), ('EVAL', 'TSR_ENTRY_EVAL'), ('ROLE_PARAM', 'TSR_ROLE_PARAM'), ('ROLE_STATE', 'TSR_ROLE_STATE'),
                      ('ROLE_CONSTANT', 'TSR_ROLE_CONSTANT'), ('PORT_ARGUMENT', 'TSR_PORT_ARGUMENT'), ('PORT_DATA', 'TSR_PORT_DATA'),
                      ('DLPACK_CPU', 'TSR_DLPACK_CPU'), ('DLPACK_CUDA', 'TSR_DLPACK_CUDA'), ('READ_ONLY', 'TSR_DLPACK_READ_ONLY')):
        found = re.search(rf'\b{c} = (\d+)', text)
        assert found and int(found.group(1)) == getattr(_abi, python), c


common.run(sys.modules['__main__'])
