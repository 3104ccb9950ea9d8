#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""clip_range.py TESSERA_AOT TESSERA_RUN: the norm of clip_norm over the whole range of gradients.

The gradient of a parameter is the input itself. The reported norm must be that of NumPy's longdouble whenever it fits the type,
for f32 and f64, a loss of another type, one and two virtual ranks, and sharded state; clipped gradients must move the parameter.
A norm that is infinite or NaN ends the run with exit code 14 and a message that names it, whether the program returns it or not.
Exit code 77 without NumPy.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

AOT, RUN = sys.argv[1:]
NONFINITE = 14
L = np.longdouble
MOST = {'f32': float(np.finfo(np.float32).max), 'f64': float(np.finfo(np.float64).max)}
LEAST = {'f32': 2.0**-149, 'f64': 2.0**-1074}
COLUMNS = 37  # no multiple of a vector, or of ranks
PROGRAM = '''module @clip attributes {{tessera.mesh = {{data = {ranks}}}}} {{
func.func @train(%x: tensor<2x{n}x{dtype}> {{tessera.data = "x"}}) -> (tensor<{dtype}> {{tessera.name = "loss"}}{port}) attributes {{tessera.entry = "train"}} {{
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<{n}x{dtype}>
  %u = tessera.param "u" init = #tessera.constant<0.0> : tensor<{dtype}>
  %a = tessera.mul %x, %w : tensor<2x{n}x{dtype}>, tensor<{n}x{dtype}> -> tensor<2x{n}x{dtype}>
  %s = tessera.sum %a {{axes = [0, 1]}} : tensor<2x{n}x{dtype}> -> tensor<{dtype}>
  %half = tessera.constant dense<0.5> : tensor<{dtype}>
  %h = tessera.mul %s, %half : tensor<{dtype}>, tensor<{dtype}> -> tensor<{dtype}>
  %l = tessera.add %h, %u : tensor<{dtype}>, tensor<{dtype}> -> tensor<{dtype}>
  {minimize}
  return %l{value} : tensor<{dtype}>{type}
}}
}}
'''


def program(dtype, ranks, returns, shard):
    how = ('optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>, clip_norm = 1.0'
           + (', tessera.opt.shard = #tessera.opt.shard<axis = "data">, tessera.opt.partition = #tessera.opt.partition<"zero2">' if shard else ''))
    port = f', tensor<{dtype}> {{tessera.name = "norm"}}' if returns else ''
    minimize = f'{"%g = " if returns else ""}tessera.minimize %l {{{how}}} : tensor<{dtype}>' + (f' -> tensor<{dtype}>' if returns else '')
    return PROGRAM.format(n=COLUMNS, dtype=dtype, ranks=ranks, port=port, minimize=minimize, value=', %g' if returns else '',
                          type=f', tensor<{dtype}>' if returns else '')


def gradients(dtype, random):
    unit, kind = random.standard_normal(COLUMNS), np.float32 if dtype == 'f32' else np.float64
    made = {'ordinary': unit, 'root of the largest': unit * MOST[dtype]**0.5 * 4, '1e20': np.full(COLUMNS, 1e20),
            'large': np.linspace(-0.1, 0.1, COLUMNS) * MOST[dtype], 'one large': np.where(np.arange(COLUMNS) == 3, MOST[dtype] / 2, unit),
            'root of the least': unit * LEAST[dtype]**0.5, 'tiny': unit * LEAST[dtype] * 4096, 'zeros': 0 * unit}
    return {name: g.astype(kind) for name, g in made.items()}


class Test:
    def __init__(self, folder):
        self.folder, self.failed = folder, 0

    def check(self, good, *message):
        self.failed += not good
        if not good:
            print(*message)

    def run(self, bundle, x):
        """Exit code, outputs of the step, the parameter, stderr."""
        np.save(self.folder / 'x.npy', np.stack([x, x]))
        metrics, params = self.folder / 'metrics.jsonl', self.folder / 'p.safetensors'
        for path in (metrics, params):
            path.unlink(missing_ok=True)
        done = subprocess.run([RUN, bundle, '--data', f'x={self.folder}/x.npy', '--steps', '1', '--quiet', '--metrics', metrics,
                               '--export-params', params], capture_output=True, text=True, check=False)
        outputs, w = {}, None
        if done.returncode == 0:
            outputs = next(json.loads(line)['outputs'] for line in metrics.read_text('utf-8').splitlines() if '"event":"step"' in line)
            raw = params.read_bytes()
            length = int.from_bytes(raw[:8], 'little')
            begin, end = json.loads(raw[8:8 + length])['w']['data_offsets']
            w = np.frombuffer(raw[8 + length + begin:8 + length + end], x.dtype)
        return done.returncode, outputs, w, done.stderr

    def norms(self, dtype, ranks, shard):
        bundle = self.folder / 'norm.tsb'
        source = self.folder / 'norm.mlir'
        source.write_text(program(dtype, ranks, True, shard), 'utf-8')
        subprocess.run([AOT, 'build', source, '-o', bundle], check=True)
        for name, g in gradients(dtype, np.random.default_rng(26)).items():
            what = f'{dtype}, {ranks} virtual ranks{", sharded" if shard else ""}, gradients {name}:'
            want = np.sqrt((g.astype(L)**2).sum() + 1)  # that of u is 1
            code, outputs, w, error = self.run(bundle, g)
            self.check(code == 0, what, 'exit code', code, error)
            if code:
                continue
            self.check(abs(L(float(outputs['norm'])) - want) <= want * L(3e-7 if dtype == 'f32' else 2e-8), what, 'norm', outputs['norm'], 'expected', want)
            clipped = -g.astype(L) * min(1 / (want + L(1e-6)), 1)
            off = np.abs(w.astype(L) - clipped).max()
            self.check(off <= np.abs(clipped).max() * L(2e-6) + LEAST[dtype], what, 'clipped gradients are off by', off)

    def refused(self, returns):
        """Norms that the type cannot hold, though every gradient and the loss are finite; and NaN."""
        bundle, source = self.folder / 'watch.tsb', self.folder / 'watch.mlir'
        source.write_text(program('f32', 1, returns, False), 'utf-8')
        subprocess.run([AOT, 'build', source, '-o', bundle], check=True)
        code, outputs, _, error = self.run(bundle, np.full(COLUMNS, 1e38, np.float32))
        self.check(code == NONFINITE, 'an infinite norm: exit code', code, error)
        self.check(("output 'norm' is inf" if returns else "'gradient norm' is inf at step 1") in error, 'an infinite norm:', error)
        code, outputs, _, error = self.run(bundle, np.ones(COLUMNS, np.float32))
        self.check(code == 0 and sorted(outputs) == (['loss', 'norm'] if returns else ['loss']), 'reported are', outputs, error)


def main():
    with tempfile.TemporaryDirectory() as where:
        test = Test(pathlib.Path(where))
        for dtype in ('f32', 'f64'):
            for ranks, shard in ((1, False), (2, False), (2, True)):
                test.norms(dtype, ranks, shard)
        for returns in (True, False):
            test.refused(returns)
    print(f'{test.failed} failures')
    sys.exit(test.failed > 0)


main()
