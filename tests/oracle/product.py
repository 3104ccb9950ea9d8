# SPDX-License-Identifier: Apache-2.0
"""The product from outside: tessera-opt, tessera-aot, tessera-run."""
import json
import pathlib
import struct
import subprocess

import numpy as np

from graph import STORED, pack, unpack, write

NAMES = {'f64': 'F64', 'f32': 'F32', 'bf16': 'BF16', 'f16': 'F16', 'i64': 'I64', 'i32': 'I32', 'i8': 'I8', 'ui8': 'U8', 'i1': 'BOOL',
         'i16': 'I16', 'ui16': 'U16', 'ui32': 'U32', 'ui64': 'U64'}
NO_KERNEL = 'TSR-0401'
LEVELS = {'x86-64-v2': 'sse4_2', 'x86-64-v3': 'avx2', 'x86-64-v4': 'avx512f'}  # and a flag of each
NATIVE = {'x86-64-v4-bf16': 'avx512_bf16'}  # under portable numerics as its neighbour


def cpu_levels(numerics='portable'):
    """Those of this CPU, as the kernel tells."""
    flags = pathlib.Path('/proc/cpuinfo').read_text(encoding='utf-8')
    return [level for level, flag in (LEVELS | NATIVE if numerics == 'native' else LEVELS).items() if flag in flags]


def save(path, arrays):
    """{name: (values, dtype)} as safetensors."""
    header, data = {}, b''
    for name, (values, dtype) in arrays.items():
        raw = pack(np.asarray(values), dtype).tobytes()
        header[name] = {'dtype': NAMES[dtype], 'shape': list(np.shape(values)), 'data_offsets': [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack('<Q', len(text)) + text + data)


def load(path):
    """{name: (values, dtype)}"""
    raw = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack('<Q', raw[:8])
    header, result = json.loads(raw[8:8 + length]), {}
    header.pop('__metadata__', None)
    for name, row in header.items():
        dtype = next(d for d, n in NAMES.items() if n == row['dtype'])
        begin, end = (8 + length + o for o in row['data_offsets'])
        stored = np.frombuffer(raw[begin:end], STORED[dtype]).reshape(row['shape'])
        result[name] = (unpack(stored, dtype), dtype)
    return result


class Product:
    def __init__(self, tools, work, targets, numerics='portable'):
        self.tools, self.work, self.targets, self.numerics = pathlib.Path(tools), pathlib.Path(work), targets, numerics
        self.work.mkdir(parents=True, exist_ok=True)
        self.code = 0  # of the last run

    def call(self, tool, *arguments, text=None, seconds=120):
        try:
            return subprocess.run([str(self.tools / tool), *map(str, arguments)], input=text, text=True, capture_output=True,
                                  timeout=seconds)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(tool, 124, '', f'{tool}: still running after {seconds} s')

    def opt(self, source, *passes):
        done = self.call('tessera-opt', '--mlir-print-op-generic', *passes, '-', text=source)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def accepts(self, function):
        """Does the verifier take the graph?"""
        return self.call('tessera-opt', '-', text=write(function)).returncode == 0

    def build(self, functions, name='graphs'):
        """None, or why it failed."""
        source = self.work / f'{name}.mlir'
        source.write_text('\n'.join(write(f) for f in functions), encoding='utf-8')
        done = self.call('tessera-aot', 'build', source, '-o', self.work / f'{name}.tsb', '--numerics', self.numerics, '--target',
                         ','.join(f'cpu:{t}' for t in self.targets))
        return done.stderr.strip() or f'exit code {done.returncode}' if done.returncode else None

    def run(self, function, data, target, name='graphs'):
        """([values], None), or (None, why)."""
        inputs, outputs = self.work / 'inputs.safetensors', self.work / 'outputs.safetensors'
        arguments = [self.work / f'{name}.tsb', '--quiet', '--entry', function.name, '--cpu', target, '--threads', '2']
        if function.arguments:
            save(inputs, {n[1:]: (d, t.dtype) for (n, t), d in zip(function.arguments, data)})
        for n, _ in function.arguments:
            arguments += ['--input', f'{n[1:]}={inputs}:{n[1:]}']
        results = len(function.ops[-1].operands)
        for i in range(results):
            arguments += ['--output', f'r{i}={outputs}']
        outputs.unlink(missing_ok=True)
        done = self.call('tessera-run', *arguments)
        self.code = done.returncode
        if done.returncode:
            return None, done.stderr.strip() or f'exit code {done.returncode}'
        found = load(outputs)
        return [found[f'r{i}'][0] for i in range(results)], None
