# SPDX-License-Identifier: Apache-2.0
"""The tests of a pack on an AMD GPU, one after the other, and a report of them. Training and random graphs must have the CPU's bits; products on matrix
units are compared with NumPy in float64."""
import functools
import json
import pathlib
import platform
import re
import subprocess
import tempfile
import time

from packed import bundle

ABSENT = ('no AMD driver', 'shows no device')


def check_product(tessera_run, index, case, seed):
    """None, or what is wrong."""
    import numpy as np
    from product import load, save
    data = case.draw(np.random.default_rng([seed, 1, index]))
    with tempfile.TemporaryDirectory() as work:
        inputs, outputs = pathlib.Path(work) / 'i.safetensors', pathlib.Path(work) / 'o.safetensors'
        save(inputs, {p: (x, case.dtype) for p, x in zip('abc', data)})
        done = tessera_run(bundle('matrix.tsb'), '--quiet', '--device', 'hip', '--entry', f'p{index}', *(f'--input={p}={inputs}:{p}' for p in 'abc'),
                           '--output', f'y={outputs}')
        if done.returncode:
            return f'exit code {done.returncode}: {done.stderr.strip()}'
        return case.differs(np.asarray(load(outputs)['y'][0], np.float64), data)


def tests_of(here, tessera_run, graphs, checks):
    """[(name, function that returns None or what is wrong)]"""
    import numpy as np
    from matrix import draw_cases
    drawn = json.loads((here / 'matrix.json').read_text('utf-8'))
    cases = draw_cases(np.random.default_rng([drawn['seed'], 0]), drawn['cases'])
    tests = [('digits', functools.partial(checks['digits'], None, 'hip'))]
    tests += [(f'{g["bundle"]} {g["entry"]}', functools.partial(checks['graph'], g, 'hip')) for g in graphs['graphs']]
    return tests + [(f'product {i}: {case}', functools.partial(check_product, tessera_run, i, case, drawn['seed'])) for i, case in enumerate(cases)]


def run_test(test):
    """None, or what is wrong: also where the check itself fails, so that the others run."""
    try:
        return test()
    except (RuntimeError, TypeError, KeyError, OSError, subprocess.SubprocessError) as error:
        return f'{type(error).__name__}: {error}'


def run(here, tessera_run, graphs, checks, only, lists):
    """Exit code: 0 all agree, 1 some do not, 77 there is no GPU, or nothing for it."""
    if not (here / 'matrix.json').exists():
        print('there is nothing for AMD GPUs here; tests/gpu/pack --hip packs it')
        return 77
    tests = [(name, test) for name, test in tests_of(here, tessera_run, graphs, checks) if only in name]
    if lists:
        print(*[name for name, _ in tests], sep='\n')
        return 0
    told = tessera_run(bundle('digits.tsb'), '--device', 'hip', '--check')
    text = (told.stdout + told.stderr).strip()
    if any(reason in text for reason in ABSENT):
        print(f'{len(tests)} tests skipped: {text.splitlines()[-1]}')
        return 77
    lines = ['Tessera on an AMD GPU: paste this into an issue.', f'{platform.platform()}, seed {graphs["seed"]}',
             tessera_run('--version').stdout.strip(), re.sub(re.escape(str(bundle('digits.tsb').parent)), '', text), '']
    failures = 0
    for name, test in tests:
        begin = time.monotonic()
        why = run_test(test)
        failures += why is not None
        lines.append(f'{"wrong" if why else "right"} {time.monotonic() - begin:7.2f} s  {name}{": " + why[:600] if why else ""}')
        print(lines[-1], flush=True)
    lines.append(f'{len(tests) - failures} of {len(tests)} are right')
    print(lines[-1])
    (here / 'report.txt').write_text('\n'.join(lines) + '\n', 'utf-8')
    print(f'the report is {here / "report.txt"}')
    return 1 if failures or not tests else 0
