#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs code for AMD GPUs on this CPU, lane by lane (lanes.h), and compares every bit with the CPU's own code.

usage: check.py BUILD [--seed S] [--singles N] [--graphs N] [--targets A,B] [--examples] [--selftest]

--singles: so many ops of the oracle by themselves, drawn from every op, type and edge; --graphs: so many of its random graphs;
--examples: the examples, and digits trained to the CPU's state. --selftest: kernels that were broken by hand are found. Without
any of the four: a slice of each. Exit code: 0 all agree, 1 some do not, 77 NumPy is absent.
"""
import argparse
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/oracle'))

from generate import KINDS, Generator
from graph import write
from product import Product
from singles import singles

CPU = 'x86-64-v3'
WIDE, NARROW = 'gfx942', 'gfx1100'  # waves of 64 and of 32 lanes
BATCH = 24  # graphs of one bundle
STEPS = 100
DIGITS = ROOT / 'examples/digits'
EXAMPLES = {'softmax': 'x', 'matmul': 'abc', 'flash-attn': 'qkv', 'flash-attn-bf16': 'qkv'}  # and their inputs


class Failure(Exception):
    pass


class Simulated(Product):
    """Builds for the CPU and for GPUs; runs a GPU's code as lanes on the CPU."""

    def __init__(self, build, work, gpus):
        super().__init__(pathlib.Path(build) / 'tools', work, [CPU, *gpus])
        self.lanes, self.gpus = pathlib.Path(build) / 'tests/lanes', gpus

    def must(self, *command):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise Failure(f'{pathlib.Path(command[0]).name}: {done.stderr.strip()[-600:]} (exit code {done.returncode})')
        return done.stdout

    def compile(self, source, name):
        targets = ','.join([f'cpu:{CPU}', *(f'hip:{gpu}' for gpu in self.gpus)])
        self.must(self.tools / 'tessera-aot', 'build', source, '-o', self.work / f'{name}.tsb', '--target', targets, '--dump', 'llvm', '--dump-dir',
                  self.work / f'{name}.ir')
        for gpu in self.gpus:
            self.pack(name, gpu)

    def pack(self, name, gpu):
        self.must(self.lanes / 'lane-pack', self.work / f'{name}.tsb', f'hip:{gpu}', self.work / f'{name}.ir' / f'llvm.{gpu}.ll',
                  self.lanes / 'liblane-simulator.a', self.bundle(name, gpu))

    def bundle(self, name, target):
        return self.work / (f'{name}.tsb' if target == CPU else f'{name}-{target}.tsb')

    def run(self, function, data, target, name='graphs'):
        if target == CPU:
            return super().run(function, data, CPU, name)
        return super().run(function, data, CPU, f'{name}-{target}')


def same(a, b):
    return a.shape == b.shape and (np.array_equal(a, b, equal_nan=True) if a.dtype.kind == 'f' else np.array_equal(a, b))


def compare(product, graphs):
    """[what is wrong]; a bundle for all of the graphs."""
    source = product.work / 'graphs.mlir'
    source.write_text('\n'.join(write(function) for function, _ in graphs), 'utf-8')
    try:
        product.compile(source, 'graphs')
    except Failure as failure:
        if len(graphs) == 1:
            return [f'{graphs[0][0].name}: {failure}']
        middle = len(graphs) // 2
        return compare(product, graphs[:middle]) + compare(product, graphs[middle:])
    wrong = []
    for function, data in graphs:
        expected, why = product.run(function, data, CPU)
        if why:
            wrong.append(f'{function.name}: {CPU}: {why}')
            continue
        for gpu in product.gpus:
            got, why = product.run(function, data, gpu)
            differ = [] if why else [i for i, (a, b) in enumerate(zip(expected, got)) if not same(np.asarray(a), np.asarray(b))]
            if why or differ:
                wrong.append(f'{function.name}: {gpu}: {why or f"results {differ} differ from {CPU}"}\n{write(function)}')
    return wrong


def draw(seed, single_count, graph_count):
    everything = singles(seed, list(KINDS))
    order = np.random.default_rng([seed, 1]).permutation(len(everything))[:single_count]
    graphs = [everything[i] for i in order]
    for index in range(graph_count):
        generator = np.random.default_rng([seed, index, 0])
        g = Generator(generator, list(KINDS), dtypes=None, empty=True, smooth=False)
        function = g.graph(f'g{index}', int(generator.integers(2, 31)))
        graphs.append((function, g.data))
    return [(function, data) for function, data in graphs if function.ops[-1].operands]


def check_graphs(product, options):
    graphs, wrong = draw(options.seed, options.singles, options.graphs), []
    begin = time.monotonic()
    for at in range(0, len(graphs), BATCH):
        wrong += compare(product, graphs[at:at + BATCH])
    print(f'{len(graphs)} graphs as {" and ".join(product.gpus)}: {len(wrong)} differ from the CPU; {time.monotonic() - begin:.0f} s')
    return wrong


def call_example(product, name, target, ports):
    folder, output = ROOT / 'examples' / name, product.work / f'{target}.npy'
    text = (folder / f'{name}.mlir').read_text('utf-8')
    entry = re.search(r'func\.func @(\w+)', text)[1]
    arguments = [part for port in ports for part in ('--input', f'{port}={folder}/{port}.npy')]
    result = re.findall(r'tessera\.name = "(\w+)"', text.split('->')[1])[0]
    product.must(product.tools / 'tessera-run', product.bundle(name, target), '--quiet', '--cpu', CPU, '--entry', entry, *arguments, '--output',
                 f'{result}={output}')
    return output.read_bytes()


def train_digits(product, target):
    state = product.work / f'state-{target}'
    shutil.rmtree(state, ignore_errors=True)
    data = [part for name, file in (('images', 'train-images'), ('labels', 'train-labels'), ('test_images', 'test-images'), ('test_labels', 'test-labels'))
            for part in ('--data', f'{name}={DIGITS}/{file}.npy')]
    product.must(product.tools / 'tessera-run', product.bundle('digits', target), '--quiet', '--cpu', CPU, *data, '--steps', STEPS, '--state-dir', state)
    told = product.must(product.tools / 'tessera-run', 'export', state, '-o', product.work / 'state.safetensors')
    return re.search(r'state (\w{64})', told)[1]


def check_examples(product):
    wrong = []
    for name, ports in EXAMPLES.items():
        product.compile(ROOT / 'examples' / name / f'{name}.mlir', name)
        expected = call_example(product, name, CPU, ports)
        wrong += [f'{name}: {gpu} differs' for gpu in product.gpus if call_example(product, name, gpu, ports) != expected]
    product.compile(DIGITS / 'digits.mlir', 'digits')
    states = {target: train_digits(product, target) for target in product.targets}
    wrong += [f'digits: the state of {gpu} is {state}; that of the CPU {states[CPU]}' for gpu, state in states.items() if state != states[CPU]]
    print(f'{len(EXAMPLES)} examples, {STEPS} steps of digits to state {states[CPU][:16]}: {len(wrong)} differ')
    return wrong


def change(text, pattern, replacement, count=0):
    changed, found = re.subn(pattern, replacement, text, count=count, flags=re.M)
    assert found, pattern
    return changed


def in_kernel(text, name, pattern, replacement):
    """The IR with one change in one kernel."""
    head, mark, rest = text.partition(f'@{name}(')
    body, end, tail = rest.partition('\n}\n')
    return head + mark + change(body, pattern, replacement, 1) + end + tail


def mutants(text):
    """(what, changed IR, part of the message): each defect that the simulator has to find."""
    kernel = re.search(r'^define .*@(\w*cross_entropy)\(', text, re.M)[1]
    yield 'address', change(text, r'(getelementptr float, ptr addrspace\(3\) %locals, i64 )%\d+', r'\g<1>0'), \
        'another lane wrote this shared memory since the last barrier'
    yield 'stores', change(text, r'store (.+), ptr addrspace\(3\) .+', 'fence acquire'), 'a load of shared memory that was not written'
    yield 'size', change(text, r'^(@local\S* = internal addrspace\(3\) global \[)\d+( x i8\])', r'\g<1>64\2'), "outside of the kernel's shared memory"
    yield 'lanes', in_kernel(text, kernel, r'br i1 (%\d+), label %program\S*, label %end',
                             lambda m: f'%few = icmp ult i32 %lane, 5\n  %some = and i1 %few, {m[1]}\n  ' + m[0].replace(m[1], '%some')), 'while others wait'


def selftest(product):
    wrong = []
    product.compile(DIGITS / 'digits.mlir', 'digits')
    for gpu in product.gpus:
        path = product.work / 'digits.ir' / f'llvm.{gpu}.ll'
        text = path.read_text('utf-8')
        for what, changed, message in mutants(text):
            path.write_text(changed, 'utf-8')
            try:
                product.pack('digits', gpu)
                train_digits(product, gpu)
                wrong.append(f'{gpu}, {what}: nothing was found')
            except Failure as failure:
                if message not in str(failure) or 'lanes: kernel' not in str(failure):
                    wrong.append(f'{gpu}, {what}: {failure}')
        path.write_text(text, 'utf-8')
    print(f'broken kernels: {len(wrong)} not found')
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build')
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument('--singles', type=int, default=0)
    parser.add_argument('--graphs', type=int, default=0)
    parser.add_argument('--targets', default=f'{WIDE},{NARROW}')
    parser.add_argument('--examples', action='store_true')
    parser.add_argument('--selftest', action='store_true')
    options = parser.parse_args()
    if not (options.singles or options.graphs or options.examples or options.selftest):
        options.singles, options.graphs, options.examples, options.selftest = 24, 6, True, True
    print(f'seed {options.seed}', flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix='lanes-'))
    product, wrong = Simulated(options.build, folder, options.targets.split(',')), []
    if options.selftest:
        wrong += selftest(product)
    if options.examples:
        wrong += check_examples(product)
    if options.singles or options.graphs:
        wrong += check_graphs(product, options)
    for text in wrong:
        print(text)
    shutil.rmtree(folder)
    return 1 if wrong else 0


sys.exit(main())
