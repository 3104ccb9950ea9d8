#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on device hip, with AMD's runtime replaced by tests/runtime/fake_hip.c, whose kernels run lane by lane on this CPU (lanes.h):
tessera-run loads the code object, captures graphs, copies and launches as on a GPU. The state must be the CPU's, bit by bit.

usage: device.py BUILD [--targets A,B] [--programs A,B]

Programs: digits (100 steps; saved, killed, resumed, replayed, and one kernel at a time), gpt-char (5), gpt2 (two small layers of
examples/gpt2, 3). Exit code: 0 all agree, 1 some do not, 77 NumPy is absent.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
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
CPU = 'x86-64-v3'
FREE_BYTES = 1 << 30
SIZES = 'LAYERS, WIDTH, HEADS, POSITIONS, TOKENS, BATCH, WINDOW = 2, 32, 2, 16, 64, 2, 8'


class Failure(Exception):
    pass


class Machine:
    """The tools, and an AMD GPU that the simulator plays."""

    def __init__(self, build, work):
        self.tools, self.tests, self.work = build / 'tools', build / 'tests', work
        (work / 'driver').mkdir()
        (work / 'code').mkdir()
        (work / 'driver/libamdhip64.so.7').symlink_to(self.tests / 'runtime/libfakehip.so')

    def must(self, *command, gpu=None):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=900, env=self.environment(gpu))
        if done.returncode:
            raise Failure(f'{" ".join(str(part) for part in command[:2])}: {done.stderr.strip()[-600:]} (exit code {done.returncode})')
        return done.stdout

    def environment(self, gpu):
        told = {'LD_LIBRARY_PATH': str(self.work / 'driver'), 'FAKE_HIP_CODE': str(self.work / 'code'), 'FAKE_HIP_TOLD': f'free={FREE_BYTES} arch={gpu}'}
        return {**os.environ, **(told if gpu else {})}

    def build(self, name, source, gpus, *flags):
        bundle, ir = self.work / f'{name}.tsb', self.work / f'{name}.ir'
        targets = ','.join([f'cpu:{CPU}', *(f'hip:{gpu}' for gpu in gpus)])
        self.must(self.tools / 'tessera-aot', 'build', source, '-o', bundle, '--target', targets, '--dump', 'llvm', '--dump-dir', ir, *flags)
        for gpu in gpus:
            self.must(self.tests / 'lanes/lane-pack', '--code', bundle, f'hip:{gpu}', ir / f'llvm.{gpu}.ll', self.tests / 'lanes/liblane-simulator.a',
                      self.work / 'code')
        return bundle

    def command(self, bundle, gpu, *flags):
        where = ('--device', 'hip') if gpu else ('--cpu', CPU)
        return [self.tools / 'tessera-run', bundle, '--quiet', *where, *flags]

    def train(self, bundle, gpu, *flags):
        """The state's hash."""
        return re.search(r'^state (\w{64})', self.must(*self.command(bundle, gpu, *flags), gpu=gpu), re.M)[1]

    def train_killed(self, bundle, gpu, state, *flags):
        """Killed after the first save, and resumed."""
        command = [str(part) for part in self.command(bundle, gpu, '--state-dir', state, '--save-every', 10, *flags)]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment(gpu))
        while run.poll() is None and not list(state.glob('MANIFEST.1.*')):
            time.sleep(0.005)
        if run.poll() is not None:
            raise Failure(f'the run ended before it was killed (exit code {run.returncode})')
        run.send_signal(signal.SIGKILL)
        run.wait()
        return self.train(bundle, gpu, '--state-dir', state, *flags)


def digits_data():
    folder = ROOT / 'examples/digits'
    return [part for name, file in (('images', 'train-images'), ('labels', 'train-labels'), ('test_images', 'test-images'), ('test_labels', 'test-labels'))
            for part in ('--data', f'{name}={folder}/{file}.npy')]


def check_digits(machine, gpus):
    bundle, data = machine.build('digits', ROOT / 'examples/digits/digits.mlir', gpus), [*digits_data(), '--steps', 100]
    expected, states = machine.train(bundle, None, *data, '--record', machine.work / 'cpu.log'), {}
    for gpu in gpus:
        states[gpu] = machine.train(bundle, gpu, *data, '--record', machine.work / f'{gpu}.log')
        states[f'{gpu}, killed and resumed'] = machine.train_killed(bundle, gpu, machine.work / f'state-{gpu}', *data)
        states[f'{gpu}, one kernel at a time'] = machine.train(bundle, gpu, *data, '--one-by-one')
        for log in ('cpu', gpu):
            if 'replay matches: 100 steps' not in machine.must(*machine.command(bundle, gpu, *data[:-2], '--replay', machine.work / f'{log}.log'), gpu=gpu):
                states[f'{gpu}, replay of {log}'] = 'differs'
    return expected, states


def check_gpt_char(machine, gpus):
    folder = ROOT / 'examples/gpt-char'
    bundle, data = machine.build('gpt-char', folder / 'gpt-char.mlir', gpus), ['--data', f'text={folder}/train.txt', '--steps', 5]
    return machine.train(bundle, None, *data), {gpu: machine.train(bundle, gpu, *data) for gpu in gpus}


def check_gpt2(machine, gpus):
    text = (ROOT / 'examples/gpt2/gpt2.py').read_text('utf-8')
    small, count = re.subn(r'^LAYERS, .* = .*$', SIZES, text, flags=re.M)
    assert count == 1
    source, rows = machine.work / 'gpt2.py', machine.work / 'rows.npy'
    source.write_text(small, 'utf-8')
    tokens = np.random.default_rng(5).integers(0, 64, (8, 17)).astype('<u2')
    np.save(rows, tokens.view(np.uint8).reshape(8, 34))
    bundle = machine.build('gpt2', source, gpus)
    data = ['--data', f'text={rows}', '--steps', 3]
    return machine.train(bundle, None, *data), {gpu: machine.train(bundle, gpu, *data) for gpu in gpus}


PROGRAMS = {'digits': check_digits, 'gpt-char': check_gpt_char, 'gpt2': check_gpt2}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--targets', default='gfx942,gfx1100')
    parser.add_argument('--programs', default=','.join(PROGRAMS))
    options = parser.parse_args()
    wrong = 0
    for name in options.programs.split(','):
        work, begin = pathlib.Path(tempfile.mkdtemp(prefix='hip-')), time.monotonic()
        try:
            expected, states = PROGRAMS[name](Machine(options.build.resolve(), work), options.targets.split(','))
        except Failure as failure:
            expected, states = '', {'': str(failure)}
        shutil.rmtree(work)
        differ = {what: state for what, state in states.items() if state != expected}
        print(f'{name}: {len(states)} states, that of the CPU is {expected[:16]}: {len(differ)} differ; {time.monotonic() - begin:.0f} s', flush=True)
        for what, state in differ.items():
            print(f'{name} on {what}: {state}')
        wrong += len(differ)
    return 1 if wrong else 0


sys.exit(main())
