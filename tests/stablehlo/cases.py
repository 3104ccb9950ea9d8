# SPDX-License-Identifier: Apache-2.0
"""A module of StableHLO with its inputs and results in comments: written, read, built, run, compared."""
import pathlib
import re
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, run  # noqa: E402

# Relative to the largest element of a result. JAX rounds sums in another order, and functions by other polynomials.
TOLERANCE = {'float64': 1e-13, 'float32': 2e-6, 'float16': 2e-3}


def plain(path):
    """The name of an output of jax: "result[0]['w']" is result.0.w."""
    return re.sub(r'[\[.]+', '.', re.sub(r'[\]\'"]', '', path))


def names_of(text):
    head = text[text.index('@main('):]
    return [plain(path) for path in re.findall(r'jax.result_info = "([^"]*)"', head[:head.index('\n')])]


def comment(word, array):
    values = np.asarray(array).reshape(-1)
    numbers = values.astype(np.int64) if values.dtype == bool else values
    shape = 'x'.join(map(str, np.shape(array))) or '-'
    return ' '.join(['//', word, str(values.dtype), shape] + [str(n.item()) if hasattr(n, 'item') else str(n) for n in numbers]) + '\n'


def write(text, inputs, results):
    lines = ''.join(comment('in', array) for array in inputs) + ''.join(comment('out', array) for array in results)
    return '// SPDX-License-Identifier: Apache-2.0\n// programs.py --update wrote this file.\n' + lines + text


def parse(line):
    word, dtype, shape, *numbers = line[3:].split()
    dims = [] if shape == '-' else [int(n) for n in shape.split('x')]
    return word, np.array([float(n) if 'float' in dtype else int(n) for n in numbers], np.dtype(dtype)).reshape(dims)


def read(text):
    """Inputs and results."""
    found = [parse(line) for line in text.splitlines() if re.match(r'// (in|out) ', line)]
    return [array for word, array in found if word == 'in'], [array for word, array in found if word == 'out']


def largest(array):
    """The largest finite element, 0 of none."""
    finite = np.abs(array[np.isfinite(array)]) if array.dtype.kind == 'f' else np.zeros(0)
    return float(finite.max()) if finite.size else 0.0


def differs(got, want, factor=1, scale=None):
    """The number of elements that differ by more than the tolerance of the scale, the largest element unless it is given."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f'{got.dtype}{got.shape} instead of {want.dtype}{want.shape}'
    if str(want.dtype) not in TOLERANCE:
        return int((got != want).sum())
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all='ignore'):
        near = np.abs(a - b) <= TOLERANCE[str(want.dtype)] * factor * (largest(b) if scale is None else scale)
    return int((~(near | (a == b) | (np.isnan(a) & np.isnan(b)))).sum())


def check(folder, tools, name, text, inputs, results, factor=1, shared=False):
    """Builds and runs a module in the folder. `shared`: results are compared by the largest element of them all."""
    aot, tessera_run = tools
    (folder / f'{name}.stablehlo.mlir').write_text(text, 'utf-8')
    process = run(folder, aot, 'build', f'{name}.stablehlo.mlir', '-o', f'{name}.tsb', '--target=cpu:x86-64-v2')
    expect(f'{name}: a build', process.returncode == 0, process.stderr)
    if process.returncode:
        return
    words = []
    for index, array in enumerate(inputs):
        np.save(folder / f'in{index}.npy', np.array(array, order='C'))
        words += ['--input', f'arg{index}=in{index}.npy']
    for index, output in enumerate(names_of(text)):
        words += ['--output', f'{output}=out{index}.npy']
    process = run(folder, tessera_run, f'{name}.tsb', *words)
    expect(f'{name}: a call', process.returncode == 0, process.stderr)
    scale = max(map(largest, results)) if shared else None
    for index, want in enumerate(results):
        if process.returncode == 0:
            got = np.load(folder / f'out{index}.npy')
            wrong = differs(got, want, factor, scale)
            expect(f'{name}: result {index}', wrong == 0, wrong, got.reshape(-1)[:5], want.reshape(-1)[:5])
