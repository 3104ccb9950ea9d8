#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Imports of tessera and of files beside the program; --strict-python; module-level settings.

imports.py AOT
"""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish, run  # noqa: E402

AOT, COMPILE = str(pathlib.Path(sys.argv[1]).resolve()), 9
ENTRY = '@function(entry="infer")\ndef f(x: Tensor[4, f32]):\n'
LAYERS = 'from tessera import *\nimport tessera as T\nSIZE = 4\n_hidden = 1\ndef double(x): return T.relu(x) * 2.0\n'


def check(folder, text, *options, **siblings):
    for old in folder.glob('*.py'):
        old.unlink()
    for name, body in siblings.items():
        (folder / f'{name}.py').write_text(body, 'utf-8')
    (folder / 'm.py').write_text(text, 'utf-8')
    return run(folder, AOT, 'check', *options, 'm.py')


ACCEPTED = [
    ('from tessera import *\nfrom layers import double, SIZE as size\n' + ENTRY + '    assert size == 4\n    return {"y": double(x)}\n', {}),
    ('from tessera import function, Tensor, f32\nimport layers, tessera\n' + ENTRY + '    return {"y": layers.double(tessera.tanh(x))}\n', {}),
    ('from tessera import *\nfrom layers import *\n' + ENTRY + '    return {"y": double(x)}\n', {}),
    ('from layers import *\n' + ENTRY + '    return {"y": double(x)}\n', {}),
    ('from tessera import *\nfrom more import again\nimport layers as L\n' + ENTRY + '    return {"y": again(L.double(x))}\n',
     {'more': 'from layers import double\ndef again(x): return double(double(x))\n'}),
]
# A program, files beside it, and the first line of what is said.
REFUSED = [
    ('import numpy\n', {}, "m.py:1:8: error: [TSR-0916] 'numpy' cannot be imported: there is no numpy.py beside the program, and programs are compiled without Python"),
    ('import numpy as np\nx = np.array([1])\ny = np.zeros(3) + x\n', {}, "m.py:1:8: error: [TSR-0916] 'numpy' cannot be imported: "),
    ('from torch import *\nx = ones(3)\ny = nn\n', {}, "m.py:1:1: error: [TSR-0916] 'torch' cannot be imported: "),
    ('import os.path\nos.path.join("a")\n', {}, "m.py:1:8: error: [TSR-0916] 'os.path' cannot be imported: programs are compiled without Python; a program imports tessera and files beside it"),
    ('from tessera.stdlob import flash_attention\nflash_attention(1)\n', {}, "m.py:1:1: error: [TSR-0916] 'tessera.stdlob' cannot be imported: "),
    ('from . import layers\nlayers.double(1)\n', {}, 'm.py:1:1: error: [TSR-0916] a program is no package; leave out the dots before the name'),
    ('from layers import doubel\ndoubel(1)\n', {}, "m.py:1:20: error: [TSR-0916] 'layers' has no name 'doubel'; did you mean 'double'?"),
    ('import layers\nlayers.treble(1)\n', {}, "m.py:2:8: error: [TSR-0910] a module has no attribute 'treble'"),
    ('from tessera import rellu\nrellu(1)\n', {}, "m.py:1:21: error: [TSR-0910] the name 'rellu' is not known; did you mean 'relu'?"),
    ('import a\n', {'a': 'import b\n', 'b': 'import a\n'}, "b.py:1:8: error: [TSR-0916] 'a' is imported while it runs: imports form a circle"),
    ('import m\n', {}, "m.py:1:8: error: [TSR-0916] 'm' is imported while it runs: imports form a circle"),
    ('from tessera import *\n' + ENTRY + '    return {"y": x}\n', {'tessera': ''},
     'm.py:1:1: error: [TSR-0916] a file tessera.py is beside the program, which hides the package tessera; give it another name'),
    ('import broken\nbroken.f()\n', {'broken': 'x = (1\n'}, "broken.py:1:5: error: [TSR-0904] '(' is never closed"),
    ('from layers import double\nfrom tessera import *\n' + ENTRY + '    return {"y": double(cast(x, i1))}\n', {}, 'layers.py:5:23: error: [TSR-0'),
]


def check_imports(folder):
    for text, siblings in ACCEPTED:
        done = check(folder, text, layers=LAYERS, **siblings)
        expect(text, done.returncode == 0, done.stderr)
    for text, siblings, message in REFUSED:
        done = check(folder, text, layers=LAYERS, **siblings)
        expect(message, done.returncode == COMPILE and done.stderr.startswith(message), done.returncode, done.stderr[:400])
        expect(f'{text}: one error', done.stderr.count('error: [') == 1, done.stderr)


def check_digest(folder):
    """The digest of the source covers the files that it imports."""
    digests = []
    for factor in ('2.0', '3.0', '2.0'):
        check(folder, ACCEPTED[0][0], layers=LAYERS.replace('2.0', factor))
        done = run(folder, AOT, 'build', 'm.py', '-o', 'm.tsb', '--target=cpu:x86-64-v2')
        expect('it is built', done.returncode == 0, done.stderr)
        digests.append((folder / 'm.tsb').read_bytes())
    expect('one source, one bundle', digests[0] == digests[2] and digests[0] != digests[1])


def check_strict(folder):
    text = 'from tessera import *\n' + ENTRY + '    w = [1, 2]\n    y = w{0}\n    return {"y": x * y}\n'
    done = check(folder, text)
    expect('a warning', done.returncode == 0 and 'm.py:5:10: warning: [TSR-0907] Python selects with [ ], not with { }' in done.stderr, done.stderr)
    done = check(folder, text, '--strict-python')
    expect('an error', done.returncode == COMPILE and done.stderr.startswith('m.py:5:10: error: [TSR-0907] Python selects with [ ]'), done.stderr)
    done = run(folder, AOT, 'build', '--strict-python', 'm.py', '-o', 's.tsb')
    expect('build, too', done.returncode == COMPILE and 'error: [TSR-0907]' in done.stderr, done.stderr)


def check_mesh(folder):
    for line, message in (('mesh()', "m.py:2:1: error: [TSR-0915] mesh() names the axes of the program once, outside of functions, as mesh(data=8)"),
                          ('mesh(8)', 'm.py:2:6: error: [TSR-0911] expected a name and a size of at least 1, as data=8, not int'),
                          ('mesh(data=2)\nmesh(data=2)', 'm.py:3:1: error: [TSR-0915] mesh() names the axes')):
        done = check(folder, f'from tessera import *\n{line}\n{ENTRY}    return {{"y": x}}\n')
        expect(message, done.returncode == COMPILE and done.stderr.startswith(message), done.stderr)


with tempfile.TemporaryDirectory() as temporary:
    check_imports(pathlib.Path(temporary))
    check_digest(pathlib.Path(temporary))
    check_strict(pathlib.Path(temporary))
    check_mesh(pathlib.Path(temporary))
finish(f'{len(REFUSED)} refused programs')
