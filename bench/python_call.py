#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What Python adds: a call with one NumPy input and output next to the same call in C (python_call.c), in turns; with tensors of PyTorch and
JAX, where they are installed; a training step next to one of tessera-run; the import of the package.

usage: python_call.py BUNDLE PROGRAM TESSERA_RUN DIGITS (PYTHONPATH: python; TESSERA_LIBRARY)

Prints a JSON object: microseconds per call and step, milliseconds of the import; medians of rounds. Steps and import are processor time on one
thread.
"""
import json
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
import tessera

CALLS, ROUNDS, FEW, MANY = 50, 400, 500, 4500
BUNDLE, PROGRAM, RUN, DIGITS = sys.argv[1:]


def timed(function, count):
    begin = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - begin) / count * 1e6


def arrays():
    """The input in every package that is installed."""
    made = {'numpy': np.random.default_rng(1).integers(0, 17, (64, 64), dtype='u1')}
    try:
        import torch
        made['torch'] = torch.from_numpy(made['numpy'])
    except ImportError:
        pass
    try:
        import jax.numpy as jnp
        made['jax'] = jnp.asarray(made['numpy'])
    except ImportError:
        pass
    return made


def calls():
    model = tessera.open(BUNDLE, threads=1, check_finite='off')
    inputs = arrays()
    for x in inputs.values():
        for _ in range(20):
            model.predict(x)
    with subprocess.Popen([PROGRAM, BUNDLE, str(CALLS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        rounds = []
        for _ in range(ROUNDS):  # the difference of one round: both sides have the same clock rate
            program.stdin.write('\n')
            program.stdin.flush()
            c = float(program.stdout.readline())
            rounds.append({'c': c, **{name: timed(lambda x=x: model.predict(x), CALLS) for name, x in inputs.items()}})
        program.stdin.close()
    figures = {'call_us': {name: round(statistics.median(r[name] for r in rounds), 2) for name in rounds[0]}}
    figures['overhead_us'] = {name: round(statistics.median(r[name] - r['c'] for r in rounds), 2) for name in inputs}
    return figures


def spent(command):
    """The processor time of a process, in seconds: nothing else on the machine adds to it."""
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


STEPS = """import sys, numpy, tessera
data = {name: numpy.load(f"{sys.argv[2]}/train-{name}.npy") for name in ("images", "labels")}
tessera.open(sys.argv[1], threads=1).train(data, int(sys.argv[3]), on_step=lambda report: report.loss, progress=False)
"""


def steps():
    files = [f'--data={name}={DIGITS}/train-{name}.npy' for name in ('images', 'labels')]
    commands = {'python': [sys.executable, '-c', STEPS, BUNDLE, DIGITS], 'tessera-run': [RUN, BUNDLE, *files, '--quiet', '--threads', '1', '--steps']}
    rounds = {name: [(spent([*command, str(MANY)]) - spent([*command, str(FEW)])) / (MANY - FEW) * 1e6 for _ in range(9)]
              for name, command in commands.items()}
    return {'step_us': {name: round(statistics.median(values), 2) for name, values in rounds.items()}}


def imports():
    """Of the package, beyond a bare interpreter."""
    bare, whole = [sys.executable, '-c', 'pass'], [sys.executable, '-c', 'import tessera']
    return {'import_ms': round(statistics.median((spent(whole) - spent(bare)) * 1e3 for _ in range(15)), 1)}


print(json.dumps({**calls(), **steps(), **imports()}))
