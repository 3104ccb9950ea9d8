#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What kernels cost compared with those of another compiler, for example of the commit before a change of their order of summation.

usage: costs.py MODEL_BENCH TESSERA_AOT AGAINST [--only NAME,...] [--threads N] [--rounds N] [--own-time] [--folder DIR]

AGAINST is the other tessera-aot. Each program of the tables is built by both and called in turns; a ratio is the median of the rounds' ratios,
our time / theirs. Products: with at most 2,048 steps, whose order is one chain, and longer ones; norms and softmax: forward, and with
their gradients. Prints one row for each program, the geometric mean of each table, and then one JSON object.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

FILES_MAX = 16  # of one call of model_bench
# Rows, columns and steps of the product; is B a parameter, which is packed beforehand?
PRODUCTS = [(64, 3072, 768, True), (16, 768, 2048, True), (256, 768, 768, True), (1024, 1024, 1024, False), (128, 128, 128, False), (1, 768, 768, True)]
LONG_PRODUCTS = [(64, 768, 3072, True), (128, 256, 8192, False), (32, 32, 65536, False)]
ROWS = [(4096, 64), (512, 768), (128, 4096)]


def tensor(*shape, dtype='f32'):
    return f'tensor<{"".join(f"{d}x" for d in shape)}{dtype}>'


def program(inputs, result, body):
    arguments = ', '.join(f'%{name}: {kind} {{tessera.name = "{name}"}}' for name, kind in inputs.items())
    return (f'func.func @f({arguments}) -> ({result} {{tessera.name = "y"}}) attributes {{tessera.entry = "infer"}} {{\n'
            f'{body}  return %y : {result}\n}}\n')


def product(rows, columns, steps, is_parameter):
    a, b, y = tensor(rows, steps), tensor(steps, columns), tensor(rows, columns)
    inputs = {'a': a} if is_parameter else {'a': a, 'b': b}
    weight = f'  %b = tessera.param "b" init = #tessera.uniform<-1.0, 1.0> : {b}\n' if is_parameter else ''
    return program(inputs, y, f'{weight}  %y = tessera.matmul %a, %b : {a}, {b} -> {y}\n')


def forward(op, attributes, dtype):
    def text(rows, columns):
        full = tensor(rows, columns, dtype=dtype)
        return program({'x': full}, full, f'  %y = tessera.{op} %x {{{attributes}}} : {full}\n')
    return text


def backward(op, attributes, dtype):
    def text(rows, columns):
        full = tensor(rows, columns, dtype=dtype)
        return program({'x': full, 'g': full}, full, f'''  %n, %y = tessera.vjp %x, %g {{
  ^bb0(%a: {full}):
    %0 = tessera.{op} %a {{{attributes}}} : {full}
    tessera.yield %0 : {full}
  }} : {full}, {full} -> {full}, {full}
''')
    return text


def tables():
    """{table: {name of a program: its text}}"""
    rows = {}
    for dtype in ('f32', 'bf16'):
        for op, attributes in (('layernorm_safe', 'axes = [1]'), ('rmsnorm_safe', 'axes = [1]'), ('softmax_safe', 'axis = 1 : i64')):
            for name, make in ((op, forward), (f'{op}_gradient', backward)):
                rows |= {f'{name}_{m}x{n}_{dtype}': make(op, attributes, dtype)(m, n) for m, n in ROWS}
    of_shapes = lambda shapes: {f'{m}x{n}x{k}' + ('_weights' if p else ''): product(m, n, k, p) for m, n, k, p in shapes}
    return {'products': of_shapes(PRODUCTS), 'long_products': of_shapes(LONG_PRODUCTS), 'rows': rows}


def measure(args, folder, programs):
    """{name: what model_bench says of it}"""
    found, names = {}, list(programs)
    for name, text in programs.items():
        (folder / f'{name}.mlir').write_text(text, encoding='utf-8')
    for i in range(0, len(names), FILES_MAX):
        files = [folder / f'{name}.mlir' for name in names[i:i + FILES_MAX]]
        command = [args.model_bench, f'--aot={args.aot}', f'--against={args.against}', f'--folder={folder}', f'--threads={args.threads}', f'--rounds={args.rounds}']
        done = subprocess.run([*command, *(['--own-time'] if args.own_time else []), *files], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f'model_bench ended with {done.returncode}:\n{done.stderr}')
        line = json.loads(done.stdout.splitlines()[-1])
        found |= {file.stem: line[file.name] for file in files}
    return found


def main():
    parser = argparse.ArgumentParser()
    for name in ('model_bench', 'aot', 'against'):
        parser.add_argument(name)
    parser.add_argument('--only', default='products,long_products,rows')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--rounds', type=int, default=41)
    parser.add_argument('--own-time', action='store_true')
    parser.add_argument('--folder')
    args, figures, known = parser.parse_args(), {}, tables()
    wrong = [name for name in args.only.split(',') if name not in known]
    if wrong:
        sys.exit(f"unknown table '{wrong[0]}'; expected one of: {', '.join(known)}")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for table in args.only.split(','):
            ratios = {}
            for name, found in measure(args, pathlib.Path(folder), known[table]).items():
                ratios[name] = found['ratio']
                print(f'{name:40} {found["seconds"] * 1e6:10.1f} us   other compiler: {found["against"] * 1e6:10.1f} us   {found["ratio"]:.3f}', flush=True)
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            print(f'{table}: mean {mean:.3f}, largest {max(ratios.values()):.3f}')
            figures[table] = {'mean': round(mean, 4), 'largest': max(ratios.values()), **ratios}
    print(json.dumps(figures))


if __name__ == '__main__':
    main()
