# SPDX-License-Identifier: Apache-2.0
"""Programs of one product with native numerics: their text, their inputs, and what float64 says of their results."""
import numpy as np

from graph import pack, unpack

EPS = {'f32': 2.0**-24, 'bf16': 2.0**-8, 'f16': 2.0**-11}  # half a unit in the last place, relative
LEAST = {'f32': 0, 'bf16': 0, 'f16': 2.0**-24}
EPILOGUES = {
    'none': ([], lambda y, c: y),
    'bias': (['%{} = tessera.add %{}, %c : (T, tensor<NxD>) -> T'], lambda y, c: y + c),
    'relu': (['%{} = tessera.add %{}, %c : (T, tensor<NxD>) -> T', '%{} = tessera.relu %{} : T'], lambda y, c: np.maximum(y + c, 0)),
}



class Case:
    def __init__(self, m, n, k, batch=(), dtype='bf16', at=False, bt=False, after='none', tile=None):
        self.m, self.n, self.k, self.batch, self.dtype, self.at, self.bt, self.after, self.tile = m, n, k, batch, dtype, at, bt, after, tile

    def __str__(self):
        return f'{self.dtype} {self.m} x {self.n} x {self.k}, batch {self.batch}, transposed {self.at} {self.bt}, after it {self.after}, tile {self.tile}'

    def type(self, *dims):
        return f'tensor<{"x".join(map(str, (*self.batch, *dims)))}x{self.dtype}>'

    def shapes(self):
        return ((self.k, self.m) if self.at else (self.m, self.k)), ((self.n, self.k) if self.bt else (self.k, self.n))

    def text(self, name):
        a, b = (self.type(*dims) for dims in self.shapes())
        result, bias = self.type(self.m, self.n), f'tensor<{self.n}x{self.dtype}>'
        flags = ', '.join([f'{f} = true' for f, on in (('transpose_a', self.at), ('transpose_b', self.bt)) if on])
        lines, steps = [f'%0 = tessera.matmul %a, %b {{{flags}}} : ({a}, {b}) -> {result}'], EPILOGUES[self.after][0]
        for i, step in enumerate(steps):
            lines.append(step.format(i + 1, i).replace('tensor<NxD>', bias).replace('T', result))
        body = '\n  '.join(lines)
        ports = ', '.join(f'%{p}: {t} {{tessera.name = "{p}"}}' for p, t in (('a', a), ('b', b), ('c', bias)))
        return f'func.func @{name}({ports}) -> ({result} {{tessera.name = "y"}}) attributes {{tessera.entry = "infer"}} {{\n  {body}\n' \
               f'  return %{len(steps)} : {result}\n}}\n'

    def draw(self, generator):
        shapes = [(*self.batch, *dims) for dims in self.shapes()] + [(self.n,)]
        arrays = [generator.standard_normal(s).astype(np.float32) for s in shapes]
        return [np.asarray(unpack(pack(x, self.dtype), self.dtype), np.float64) for x in arrays]

    def expect(self, a, b, c):
        """The result in float64, and by how much each element may differ: the sum in f32 in any order, and the rounding of the result."""
        a, b = (np.swapaxes(x, -1, -2) if t else x for x, t in ((a, self.at), (b, self.bt)))
        y, size = EPILOGUES[self.after][1](a @ b, c), np.abs(a) @ np.abs(b) + np.abs(c)
        return y, (self.k + 2) * EPS['f32'] * size + EPS[self.dtype] * np.abs(y) * 1.01 + LEAST[self.dtype]

    def differs(self, got, data):
        """None, or where a result is not the expected one."""
        expected, allowed = self.expect(*data)
        far = ~(np.abs(got - expected) <= allowed)
        if not far.any():
            return None
        where = tuple(int(i) for i in np.argwhere(far)[0])
        return f'{int(far.sum())} of {far.size} elements are wrong; {where}: {got[where]}, float64 {expected[where]}'


def draw_cases(generator, count):
    cases = []
    for i in range(count):
        sizes = [int(generator.choice([generator.integers(1, 140), 16 * generator.integers(1, 9)])) for _ in range(3)]
        batch = () if generator.integers(3) else (int(generator.integers(1, 4)),)
        cases.append(Case(*sizes, batch, str(generator.choice(['bf16', 'f16', 'f32'])), bool(generator.integers(2)), bool(generator.integers(2)),
                          str(generator.choice(list(EPILOGUES)))))
    return cases
