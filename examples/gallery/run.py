#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the exported models of the gallery, compares their outputs with their framework's, and times calls beside ONNX Runtime.

PYTHONPATH=python TESSERA_LIBRARY=build/loader/libtessera.so.0 examples/gallery/run.py AOT FOLDER [NAME ...] [--threads 1,2] [--rounds N]
    [--target T] [--compile] [--history FILE]

Each round calls every runtime in turn; the ratio is the median of the rounds' ratios, theirs / ours, so that more than 1 is faster than
ONNX Runtime. --compile also times torch.compile. --history appends the figures as one JSON object.
"""
import argparse
import datetime
import json
import math
import pathlib
import platform
import statistics
import subprocess
import time

import numpy as np
import onnxruntime
import tessera

BATCH_SECONDS = 0.03  # calls of a round take about this long


def build(aot, folder, target):
    begin = time.monotonic()
    process = subprocess.run([aot, 'build', 'model.onnx', '-o', 'model.tsb', f'--target={target}'], cwd=folder, capture_output=True, text=True, check=False)
    return (time.monotonic() - begin, None) if process.returncode == 0 else (0, process.stderr.strip().splitlines()[0])


def distance(got, wanted):
    """The largest difference, as a part of the largest value; None if all values are zero."""
    largest = np.abs(wanted).max()
    return float(np.abs(got.astype(np.float64) - wanted).max() / largest) if largest else None


def torch_call(name, inputs, threads):
    import torch

    import models
    torch.set_num_threads(threads)
    model, given = models.make(name)
    compiled = torch.compile(model)
    with torch.no_grad():
        compiled(*given)

    def call():
        with torch.no_grad():
            compiled(*given)
    return call


def runtimes(folder, inputs, threads, compiles):
    ours = tessera.open(str(folder / 'model.tsb'), threads=threads)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(folder / 'model.onnx'), options, providers=['CPUExecutionProvider'])
    calls = {'ours': lambda: ours(**inputs), 'onnxruntime': lambda: session.run(None, inputs)}
    if compiles and not folder.name.endswith('-int8'):
        calls['torch.compile'] = torch_call(folder.name, inputs, threads)
    return calls


def times(calls, rounds):
    """{name: [seconds of a call, one for each round]}"""
    counts, taken = {}, {name: [] for name in calls}
    for name, call in calls.items():
        call()
        begin = time.perf_counter()
        call()
        counts[name] = max(1, int(BATCH_SECONDS / (time.perf_counter() - begin)))
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(counts[name]):
                call()
            taken[name].append((time.perf_counter() - begin) / counts[name])
    return taken


def measure(aot, folder, arguments):
    inputs = {path.stem: np.load(path) for path in sorted(folder.glob('in*.npy'))}
    seconds, error = build(aot, folder, arguments.target)
    if error:
        return {'refused': error}
    result = {'build_s': round(seconds, 1), 'bundle_bytes': (folder / 'model.tsb').stat().st_size}
    for threads in arguments.threads:
        calls = runtimes(folder, inputs, threads, arguments.compile)
        result['distance'] = distance(np.asarray(calls['ours']()), np.load(folder / 'out.npy'))
        taken = times(calls, arguments.rounds)
        for other in taken:
            if other != 'ours':
                result[f'{other}/{threads}'] = round(statistics.median(b / a for a, b in zip(taken['ours'], taken[other])), 3)
        result[f'ms/{threads}'] = round(1e3 * min(taken['ours']), 3)
    return result


def geometric(results, key, quantised):
    values = [r[key] for name, r in results.items() if key in r and name.endswith('-int8') == quantised]
    return round(math.exp(statistics.fmean(map(math.log, values))), 3) if values else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('aot', type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('names', nargs='*')
    parser.add_argument('--threads', type=lambda text: [int(word) for word in text.split(',')], default=[1, 2])
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--target', default='cpu:x86-64-v4-bf16')
    parser.add_argument('--compile', action='store_true')
    parser.add_argument('--history', type=pathlib.Path)
    arguments = parser.parse_args()
    results = {}
    for name in arguments.names or sorted(path.parent.name for path in arguments.folder.glob('*/out.npy')):
        results[name] = measure(arguments.aot, arguments.folder / name, arguments)
        print(name, json.dumps(results[name]), flush=True)
    means = {f'{kind}/{threads}': geometric(results, f'onnxruntime/{threads}', kind == 'int8')
             for kind in ('f32', 'int8') for threads in arguments.threads}
    print('geometric means of onnxruntime / ours:', json.dumps(means))
    if arguments.history:
        commit = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True, check=False).stdout.strip()
        row = {'date': datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ'), 'commit': commit,
               'machine': {'cpu': platform.processor() or platform.machine()},
               'figures': {'gallery': {'onnxruntime': onnxruntime.__version__, 'means': means, 'models': results}}}
        with arguments.history.open('a', encoding='utf-8') as file:
            file.write(json.dumps(row) + '\n')


main()
