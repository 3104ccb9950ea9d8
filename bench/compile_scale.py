#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: compile_scale.py TESSERA_OPT FOLDER [--pipeline=PASSES] [--check] [COUNT...]

Measures how the compiler's front end scales: parse, PASSES (default tessera-sr-pipeline, then the whole graph stage) and verify of a
program of COUNT ops in one function, with no ops that can be merged and no dead ops, as one process from start to exit. References: the
same with tessera-sr-pipeline alone; the same number of ops in functions of 1,000; and stock mlir-opt, if it is installed, which parses,
canonicalizes, merges, verifies and prints the ops of the one function without knowing them.
Prints a row per COUNT and one line of JSON; each figure is the minimum of three runs, of more if they are short, of fewer if they are long.
The time of an empty program is printed and subtracted from the times per op.
With --check the exit code is 1 if 100,000 ops take more than 3 s or 600 MB, or if the time per op with tessera-sr-pipeline grows to more
than 1.5 times its minimum: in functions of 1,000; and in one function, unless mlir-opt's time grows as much in the same run, because its
tables of names, locations and values, one of each per function, then no longer fit in the caches. Both are printed.
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

PER_FUNCTION = 1000
COUNTS = [1000, 10000, 100000, 1000000]
RUNS_MIN, RUNS_MAX, SECONDS_SHORT, SECONDS_LONG = 3, 50, 1.0, 20.0  # for all runs of one command
SECONDS_MAX, MEGABYTES_MAX, GROWTH_MAX = 3.0, 600, 1.5
BINARY = ['add', 'sub', 'mul', 'max', 'min']
UNARY = ['tanh', 'sigmoid', 'erf', 'abs', 'neg']
TYPE = 'tensor<8x16xf32>'
STOCK = shutil.which('mlir-opt-22') or shutil.which('mlir-opt')


def write_program(path, count, per_function):
    """Makes functions, each a chain through all its ops, which also read an earlier value or an argument, so that no two are equal."""
    choose = random.Random(count)
    with open(path, 'w', encoding='utf-8') as out:
        for first in range(0, count, per_function):
            write_function(out, first, min(per_function, count - first), choose)


def write_function(out, number, count, choose):
    out.write(f'func.func @f{number}(%a: {TYPE} {{tessera.name = "a"}}, %b: {TYPE} {{tessera.name = "b"}}) -> ({TYPE} '
              '{tessera.name = "y"}) attributes {tessera.entry = "infer"} {\n')
    last, unary = 'a', True
    for i in range(count):
        unary = choose.random() < 0.3 and not unary
        if unary:
            out.write(f'  %{i} = tessera.{choose.choice(UNARY)} %{last} : {TYPE}\n')
        else:
            other = 'b' if i < 2 else str(choose.randrange(max(0, i - 50), i - 1))
            out.write(f'  %{i} = tessera.{choose.choice(BINARY)} %{last}, %{other} : {TYPE}, {TYPE} -> {TYPE}\n')
        last = str(i)
    out.write(f'  return %{last} : {TYPE}\n}}\n')


def measure(command):
    """Returns seconds and the peak megabytes."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f'{command} ended with exit code {process.returncode}')
    return time.monotonic() - start, usage.ru_maxrss / 1024


def best(command):
    runs, spent = [], 0
    while spent < (SECONDS_LONG if len(runs) < RUNS_MIN else SECONDS_SHORT) and len(runs) < RUNS_MAX:
        runs.append(measure(command))
        spent += runs[-1][0]
    return min(seconds for seconds, _ in runs), max(megabytes for _, megabytes in runs)


def stock(opt, path):
    """Returns seconds."""
    generic = path.with_suffix('.generic.mlir')
    with open(generic, 'w', encoding='utf-8') as out:
        subprocess.run([opt, '--mlir-print-op-generic', str(path)], stdout=out, check=True)
    seconds, _ = best([STOCK, '--allow-unregistered-dialect', '--mlir-disable-threading', '--canonicalize', '--cse',
                       '--mlir-print-op-generic', '-o', '/dev/null', str(generic)])
    generic.unlink()
    return seconds


def measure_count(opt, path, count, pipeline, empty, stock_empty):
    """Returns the figures of one COUNT."""
    figures = {'ops': count}
    each = lambda seconds, empty=empty: round((seconds - empty) / count * 1e6, 3)
    write_program(path, count, count)
    seconds, megabytes = best([opt, '--no-output', f'-{pipeline}', str(path)])
    figures.update({'seconds': round(seconds, 4), 'megabytes': round(megabytes, 1), 'us_per_op': each(seconds)})
    seconds, _ = best([opt, '--no-output', '-tessera-sr-pipeline', str(path)])
    figures.update({'sr_seconds': round(seconds, 4), 'sr_us_per_op': each(seconds)})
    if STOCK:
        seconds = stock(opt, path)
        figures.update({'mlir_opt_seconds': round(seconds, 4), 'mlir_opt_us_per_op': each(seconds, stock_empty)})
    write_program(path, count, PER_FUNCTION)
    seconds, _ = best([opt, '--no-output', '-tessera-sr-pipeline', str(path)])
    return {**figures, 'functions_seconds': round(seconds, 4), 'functions_us_per_op': each(seconds)}


def grow(costs):
    return round(max(costs) / min(costs), 3) if min(costs) > 0 else 0


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith('--')]
    options = [a for a in sys.argv[1:] if a.startswith('--')]
    opt, folder = arguments[0], pathlib.Path(arguments[1])
    counts = [int(a) for a in arguments[2:]] or COUNTS
    pipeline = next((o.split('=', 1)[1] for o in options if o.startswith('--pipeline=')), 'tessera-sr-pipeline,tessera-graph')
    path, figures, wrong = folder / 'scale.mlir', [], []
    path.write_text('', 'utf-8')
    empty, _ = best([opt, '--no-output', str(path)])
    stock_empty = stock(opt, path) if STOCK else 0
    print(f'  an empty program: {empty:.4f} s' + (f'   mlir-opt: {stock_empty:.4f} s' if STOCK else ''))
    for count in counts:
        figures.append(measure_count(opt, path, count, pipeline, empty, stock_empty))
        f = figures[-1]
        print(f'{count:9d} ops {f["seconds"]:9.3f} s {f["megabytes"]:8.0f} MB {f["us_per_op"]:8.2f} us an op'
              f'   tessera-sr-pipeline alone: {f["sr_seconds"]:.3f} s {f["sr_us_per_op"]:.2f} us an op'
              f'   in functions of {PER_FUNCTION}: {f["functions_seconds"]:.3f} s {f["functions_us_per_op"]:.2f} us an op'
              + (f'   mlir-opt: {f["mlir_opt_seconds"]:.3f} s {f["mlir_opt_us_per_op"]:.2f} us an op' if STOCK else ''), flush=True)
        if count == 100000 and (f['seconds'] > SECONDS_MAX or f['megabytes'] > MEGABYTES_MAX):
            wrong.append(f'{count} ops take {f["seconds"]:.2f} s and {f["megabytes"]:.0f} MB, at most {SECONDS_MAX} s and {MEGABYTES_MAX} MB')
    path.unlink()
    growth = {name: grow([f[key] for f in figures]) for name, key in (
        ('growth', 'us_per_op'), ('sr_growth', 'sr_us_per_op'), ('functions_growth', 'functions_us_per_op'),
        ('mlir_opt_growth', 'mlir_opt_us_per_op')) if key in figures[0]}
    print('  growth of the time per op:', ', '.join(f'{name} {times}' for name, times in growth.items()))
    if growth['functions_growth'] > GROWTH_MAX:
        wrong.append(f'in functions of {PER_FUNCTION} the time per op grows {growth["functions_growth"]} times, at most {GROWTH_MAX}')
    if growth['sr_growth'] > max(GROWTH_MAX, growth.get('mlir_opt_growth', 0)):
        wrong.append(f'in one function the time per op grows {growth["sr_growth"]} times, at most {GROWTH_MAX}; '
                     f'mlir-opt\'s {growth.get("mlir_opt_growth", "is not known")}')
    print(json.dumps({'pipeline': pipeline, 'empty_seconds': round(empty, 4), **growth, 'sizes': figures}))
    print('\n'.join(wrong), end='\n' if wrong else '', file=sys.stderr)
    sys.exit(bool(wrong) and '--check' in options)


main()
