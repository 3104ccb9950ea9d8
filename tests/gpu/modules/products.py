# SPDX-License-Identifier: Apache-2.0
"""Tile IR of matrix products on the matrix units, one kernel a case, and what NumPy says of them in float64."""
import dataclasses

import numpy as np

WIDTH = {'bf16': 2, 'f16': 2, 'f32': 4}


@dataclasses.dataclass
class Product:
    m: int
    n: int
    k: int
    dtype: str = 'bf16'        # of A and B
    out: str = 'bf16'
    at: bool = False           # A lies as K x M
    bt: bool = False           # B lies as N x K
    batch: int = 0             # 0: no dimension for it
    tile: tuple = (128, 128, 64)
    stages: int = 3
    warps: int = 8
    through: bool = True       # stored by way of shared memory
    epilogue: str = ''         # 'bias', 'gelu', 'unit': bias and GELU (tanh), by the unit's tanh; 'fetched': plus a matrix, by the ring of results
    fragment: bool = False     # A by way of registers
    registers: int = 0
    group: int = 16            # rows of programs that go together
    teams: int = 1             # programs that a block runs side by side
    beside: int = 1            # programs in a row that run together, and share what they copy of A
    below: int = 1             # in a column, of B
    split: int = 1             # programs that share K, and sum up
    result_stages: int = 2     # of the ring of results
    transposed: bool = False   # columns of the result are rows of the matrix units'
    tail: int = 0              # last rounds of K in which warp groups go one after the other

    @property
    def programs(self):
        rows, columns = self.grid
        return rows * columns * max(self.batch, 1) * self.together

    @property
    def together(self):
        return self.beside * self.below * self.split

    @property
    def grid(self):
        """Rows and columns of programs, or of those that run together."""
        height = self.tile[0] * self.below
        width = self.tile[1] * self.beside
        return -(-self.m // height), -(-self.n // width)


def memref(p, rows, columns, dtype, batched=True):
    lead = f'{p.batch}x' if p.batch and batched else ''
    return f'memref<{lead}{rows}x{columns}x{dtype}>'


GELU = '''
    %h = arith.constant dense<0.5> : vector<64xf32>
    %one = arith.constant dense<1.0> : vector<64xf32>
    %g1 = arith.constant dense<0.7978845608> : vector<64xf32>
    %g2 = arith.constant dense<0.044715> : vector<64xf32>
    %q = arith.mulf %u, %u : vector<64xf32>
    %r = arith.mulf %q, %g2 : vector<64xf32>
    %s1 = arith.addf %r, %one : vector<64xf32>
    %s2 = arith.mulf %u, %s1 : vector<64xf32>
    %s3 = arith.mulf %s2, %g1 : vector<64xf32>
    %s4 = math.tanh %s3 : vector<64xf32>
    %s5 = arith.addf %s4, %one : vector<64xf32>
    %s6 = arith.mulf %u, %h : vector<64xf32>
    %w = arith.mulf %s5, %s6 : vector<64xf32>'''


UNIT = '\n    %w = tile.gelu %u {tanh, tile.approximate} : vector<64xf32>'


def epilogue(p, acc, value, row, column):
    if not p.epilogue:
        return '', value
    if p.epilogue == 'fetched':
        return f'''
  %mapped = tile.map {value} at [%row, {column}] with %other : {acc}, {acc} {{
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    %u = arith.addf %e, %o : vector<64xf32>
    tile.yield %u : vector<64xf32>
  }}''', '%mapped'
    result = '%u' if p.epilogue == 'bias' else '%w'
    after = {'bias': '', 'gelu': GELU, 'unit': UNIT}[p.epilogue]
    return f'''
  %mapped = tile.map {value} at [{row}, {column}]{' {transposed}' if p.transposed else ''} : {acc} {{
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>):
    %lim = arith.constant dense<{p.n - 1}> : vector<64xindex>
    %jj = arith.minsi %j, %lim : vector<64xindex>
    %b0 = tile.gather %bias[%jj] : memref<{p.n}xf32>, vector<64xindex> -> vector<64xf32>
    %u = arith.addf %e, %b0 : vector<64xf32>{after}
    tile.yield {result} : vector<64xf32>
  }}''', '%mapped'


def source(p, name):
    """The kernel's text."""
    bm, bn, bk = p.tile
    rows, columns = p.grid
    a_type = memref(p, *((p.k, p.m) if p.at else (p.m, p.k)), p.dtype)
    b_type = memref(p, *((p.n, p.k) if p.bt else (p.k, p.n)), p.dtype)
    c_type = memref(p, p.m, p.n, p.out)
    bias = f', %bias: {c_type if p.epilogue == "fetched" else f"memref<{p.n}xf32>"}' if p.epilogue else ''
    a_ring = f'!tile.shared<{p.stages}x' + (f'{bk}x{bm}' if p.at else f'{bm}x{bk}') + f'x{p.dtype}>'
    b_ring = f'!tile.shared<{p.stages}x' + (f'{bn}x{bk}' if p.bt else f'{bk}x{bn}') + f'x{p.dtype}>'
    lines, width = (bn, bm) if p.transposed else (bm, bn)  # of fragments
    c_ring = f'!tile.shared<{p.result_stages}x{lines}x{128 // WIDTH[p.out]}x{p.out}>'
    acc = f'!tile.fragment<{lines}x{width}xf32, acc>'
    fragment = f'!tile.fragment<{bm}x{bk}x{p.dtype}, a>'
    at = '%z, ' if p.batch else ''
    a_index = f'{at}%kk, %row' if p.at else f'{at}%row, %kk'
    b_index = f'{at}%column, %kk' if p.bt else f'{at}%kk, %column'
    at_, bt_ = (not p.bt, not p.at) if p.transposed else (p.at, p.bt)
    transposes = ', '.join(n for n, on in (('transpose_a', at_), ('transpose_b', bt_)) if on)
    transposes = f' {{{transposes}}}' if transposes else ''
    ring = f'\n  %rc = tile.alloc_shared swizzle = "xor" : {c_ring}' if p.through else ''
    part = f'!tile.fragment<{lines}x{width // p.split}xf32, acc>'
    summed, row, column = '', '%row', '%column'
    if p.split > 1:
        summed, row, column = f'''
  %part = tile.sum_programs %acc : {acc} -> {part}
  %wide = arith.constant {width // p.split} : index
  %own = arith.muli %rank, %wide : index
  %first_own = arith.addi {row if p.transposed else column}, %own : index''', *(('%first_own', column) if p.transposed else (row, '%first_own'))
    fetch = f'\n  %other = tile.load_fragment %bias[{at}%row, {column}] through %rc : {c_type}, {c_ring} -> {part}' if p.epilogue == 'fetched' else ''
    if p.split > 1:
        summed, fetch = summed + fetch, ''
    mapped, value = epilogue(p, part, '%part' if p.split > 1 else '%acc', row, column)
    load = f'\n    %f = tile.load_shared %ra stage %k : {a_ring} -> {fragment}' if p.fragment else ''
    factors, factor_types = f"{'%f' if p.fragment else '%ra'}, %rb", f'{fragment if p.fragment else a_ring}, {b_ring}'
    if p.transposed:
        factors, factor_types = '%rb, %ra', f'{b_ring}, {a_ring}'
    caps = f' registers {p.registers}' if p.registers else ''
    group = max(1, min(p.group, rows))
    options = f', tile.teams = {p.teams} : i64' if p.teams > 1 else ''
    options += f', tile.together = {p.together} : i64' if p.together > 1 else ''
    a_both, b_both = (f' {{tile.shared = array<i64: {count}, {apart}>}}' if count > 1 else '' for count, apart in ((p.beside, 1), (p.below, p.beside)))
    number = '%pid' if p.together == 1 else '%pair'
    tile_of_program = '''%one_of = arith.remui %pid, %ctogether : index
  %r0 = arith.divui %one_of, %cbeside : index
  %own_row = arith.remui %r0, %cbelow : index
  %own_column = arith.remui %one_of, %cbeside : index
  %r1 = arith.muli %pm, %cbelow : index
  %tr = arith.addi %r1, %own_row : index
  %r2 = arith.muli %pc, %cbeside : index
  %tc = arith.addi %r2, %own_column : index'''
    return f'''
tile.func @{name}(%a: {a_type}, %b: {b_type}{bias}, %c: {c_type}) grid {p.programs} warps {p.warps}{caps} attributes {{outputs = 1 : i64{options}}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %steps = arith.constant {-(-p.k // bk)} : index
  %cbk = arith.constant {bk} : index
  %cbm = arith.constant {bm} : index
  %cbn = arith.constant {bn} : index
  %crows = arith.constant {rows} : index
  %plane = arith.constant {rows * columns} : index
  %band = arith.constant {group * columns} : index
  %cgroup = arith.constant {group} : index
  %zero = arith.constant 0.0 : f32
  %pid = tile.program_id
  %ctogether = arith.constant {p.together} : index
  %cbeside = arith.constant {p.beside} : index
  %cbelow = arith.constant {p.below} : index
  %csplit = arith.constant {p.split} : index
  %pair = arith.divui %pid, %ctogether : index
  %rank = arith.remui %pid, %csplit : index
  %next = arith.addi %rank, %c1 : index
  %even = arith.constant {-(-p.k // bk) // p.split} : index
  %more = arith.constant {-(-p.k // bk) % p.split} : index
  %before = arith.minsi %rank, %more : index
  %with = arith.minsi %next, %more : index
  %t0 = arith.muli %rank, %even : index
  %low = arith.addi %t0, %before : index
  %own_more = arith.subi %with, %before : index
  %count = arith.addi %own_more, %even : index
  %z = arith.divui {number}, %plane : index
  %q0 = arith.remui {number}, %plane : index
  %g = arith.divui %q0, %band : index
  %first = arith.muli %g, %cgroup : index
  %left = arith.subi %crows, %first : index
  %height = arith.minsi %left, %cgroup : index
  %inner = arith.remui %q0, %band : index
  %pr = arith.remui %inner, %height : index
  %pc = arith.divui %inner, %height : index
  %pm = arith.addi %first, %pr : index
  {tile_of_program}
  %row = arith.muli %tr, %cbm : index
  %column = arith.muli %tc, %cbn : index
  %ra = tile.alloc_shared swizzle = "xor" : {a_ring}
  %rb = tile.alloc_shared swizzle = "xor" : {b_ring}{ring}
  %none = tile.fill %zero : f32 -> {acc}{fetch}
  %acc = scf.for %k = %c0 to {'%count' if p.split > 1 else '%steps'} step %c1 iter_args(%s = %none) -> ({acc}) {{
    %kn = arith.addi %k, {'%low' if p.split > 1 else '%c0'} : index
    %kk = arith.muli %kn, %cbk : index
    tile.async_copy %a[{a_index}], %ra stage %k{a_both} : {a_type}, {a_ring}
    tile.async_copy %b[{b_index}], %rb stage %k{b_both} : {b_type}, {b_ring}
    tile.wait_async stage %k{load}
    %t = tile.mma {factors}, %s stage %k{transposes} : {factor_types}, {acc}
    tile.release stage %k
    scf.yield %t : {acc}
  }}{f' {{tile.tail = {p.tail} : i64}}' if p.tail else ''}{summed}{mapped}
  tile.store_fragment {value}, %c[{at}{row}, {column}]{' through %rc' if p.through else ''}{' {transposed}' if p.transposed else ''} : {part}, {c_type}{f', {c_ring}' if p.through else ''}
  tile.return
}}
'''


def to_bits(x, dtype):
    """Rounded to it, ties to even, as the bytes of memory."""
    if dtype == 'f32':
        return x.astype('<f4').tobytes()
    if dtype == 'f16':
        return x.astype('<f2').tobytes()
    u = x.astype('<f4').view('<u4').astype(np.uint64)
    return ((u + 0x7fff + (u >> 16 & 1)) >> 16).astype('<u2').tobytes()


def from_bits(raw, dtype):
    if dtype == 'f32':
        return np.frombuffer(raw, '<f4').astype(np.float64)
    if dtype == 'f16':
        return np.frombuffer(raw, '<f2').astype(np.float64)
    return (np.frombuffer(raw, '<u2').astype('<u4') << 16).view('<f4').astype(np.float64)


def inputs(p, generator):
    """Bytes of the buffers before the last, and the product in float64 of just what they hold."""
    lead = (p.batch,) if p.batch else ()
    a = generator.standard_normal(lead + ((p.k, p.m) if p.at else (p.m, p.k)))
    b = generator.standard_normal(lead + ((p.n, p.k) if p.bt else (p.k, p.n)))
    raw = [to_bits(x, p.dtype) for x in (a, b)]
    a, b = (from_bits(r, p.dtype).reshape(x.shape) for r, x in zip(raw, (a, b)))
    exact = np.matmul(np.swapaxes(a, -1, -2) if p.at else a, np.swapaxes(b, -1, -2) if p.bt else b)
    if p.epilogue == 'fetched':
        raw.append(to_bits(generator.standard_normal(exact.shape), p.out))
        exact = exact + from_bits(raw[-1], p.out).reshape(exact.shape)
    elif p.epilogue:
        bias = generator.standard_normal(p.n).astype('<f4')
        raw.append(bias.tobytes())
        exact = exact + bias
    if p.epilogue in ('gelu', 'unit'):
        exact = 0.5 * exact * (1 + np.tanh(0.7978845608028654 * (exact + 0.044715 * exact**3)))
    return raw, exact


def tolerance(p):
    """Of the whole in the 2-norm. The sum in f32 of K exact products is far below a rounding of the result to 8 (bf16) or 11
    bits; factors of tf32 are rounded to 11. Cut to them, they are up to 2^-10 smaller, and the whole 7.7e-4."""
    if p.dtype == 'f32':
        return 4e-4
    return {'bf16': 2.5e-3, 'f16': 4e-4, 'f32': 2e-6}[p.out]


CASES = {
    'nn': Product(256, 256, 256), 'nt': Product(256, 256, 256, bt=True), 'tn': Product(256, 256, 256, at=True),
    'tt': Product(256, 256, 256, at=True, bt=True), 'half': Product(256, 384, 192, dtype='f16', out='f16'),
    'out32': Product(200, 136, 320, out='f32', through=False), 'ragged': Product(1000, 776, 200),
    'ragged_t': Product(136, 72, 88, at=True, bt=True, stages=2), 'tiny': Product(8, 8, 8),
    'tf32': Product(384, 256, 288, dtype='f32', out='f32', bt=True, tile=(128, 128, 32), through=False),
    'tf32_nn': Product(200, 264, 104, dtype='f32', out='f32', tile=(128, 128, 32), through=False),
    'tf32_tn': Product(200, 264, 104, dtype='f32', out='f32', at=True, tile=(128, 128, 32), through=False),
    'tf32_tt': Product(130, 74, 94, dtype='f32', out='f32', at=True, bt=True, tile=(128, 64, 32), through=False, batch=3),
    'batched': Product(200, 136, 152, batch=5), 'batched_t': Product(128, 64, 96, batch=3, at=True, bt=True, tile=(128, 64, 64)),
    'odd': Product(131, 77, 93), 'odd_t': Product(130, 75, 94, at=True, bt=True), 'half_pitch': Product(132, 140, 180),
    'one_stage': Product(256, 256, 512, stages=1), 'many_stages': Product(256, 128, 1024, stages=8, tile=(128, 64, 64)),
    'one_group': Product(256, 256, 256, warps=4, tile=(64, 128, 64)), 'three_groups': Product(500, 248, 256, warps=12, tile=(192, 128, 64)),
    'tall': Product(512, 256, 256, tile=(256, 128, 64), stages=2), 'wide': Product(300, 512, 256, tile=(128, 256, 64), stages=2),
    'deep': Product(256, 256, 256, tile=(128, 128, 128), stages=2), 'narrow': Product(256, 64, 256, tile=(128, 64, 64)),
    'fragment': Product(256, 256, 256, fragment=True, tile=(128, 64, 64)), 'bias': Product(300, 264, 200, epilogue='bias'),
    'gelu': Product(264, 200, 136, epilogue='gelu'), 'unit': Product(264, 200, 136, epilogue='unit'), 'two_blocks': Product(2048, 1536, 256, tile=(64, 128, 64), warps=4, registers=128, stages=2),
    'many_programs': Product(4096, 2304, 136), 'turns': Product(4096, 2304, 136, warps=4, teams=2),
    'pair_a': Product(520, 776, 328, beside=2), 'pair_b': Product(520, 776, 328, below=2),
    'pair_transposed': Product(520, 776, 328, below=2, at=True, bt=True, stages=2), 'pair_batched': Product(200, 136, 152, batch=5, beside=2),
    'pair_turns': Product(4096, 2304, 136, warps=4, teams=2, below=2), 'pair_wide': Product(1000, 2056, 1000, tile=(128, 256, 64), below=2, stages=4),
    'square': Product(1000, 1544, 328, beside=2, below=2), 'eight': Product(1000, 1544, 1000, beside=4, below=2, stages=4, warps=4, teams=2),
    'eight_down': Product(520, 776, 200, tile=(64, 64, 64), warps=4, beside=2, below=4, bt=True), 'four': Product(520, 776, 328, below=4, at=True),
    'transposed': Product(328, 776, 520, tile=(208, 128, 64), transposed=True), 'transposed_nt': Product(328, 776, 520, tile=(80, 128, 64), transposed=True, bt=True),
    'transposed_tn': Product(328, 776, 520, tile=(192, 128, 64), stages=2, transposed=True, at=True),
    'transposed_tt': Product(328, 776, 520, tile=(64, 64, 64), warps=4, transposed=True, at=True, bt=True), 'transposed_batched': Product(200, 136, 152, batch=5, tile=(48, 128, 64), transposed=True),
    'transposed_turns': Product(2000, 1544, 200, tile=(112, 128, 64), warps=4, teams=2, transposed=True, epilogue='unit'),
    'transposed_groups': Product(1000, 776, 328, tile=(96, 192, 64), warps=12, transposed=True, epilogue='gelu'),
    'transposed_split': Product(264, 200, 3000, tile=(64, 128, 64), transposed=True, split=4, epilogue='bias'),
    'transposed_eights': Product(2000, 1544, 200, tile=(88, 128, 64), warps=4, teams=2, transposed=True, epilogue='unit'),
    'transposed_last_eight': Product(328, 776, 520, tile=(72, 128, 64), transposed=True, bt=True), 'transposed_one_eight': Product(1000, 1544, 1000, tile=(8, 64, 64), warps=4, transposed=True),
    'transposed_eights_groups': Product(1000, 776, 328, tile=(200, 192, 64), stages=2, warps=12, transposed=True, epilogue='gelu'),
    'transposed_eights_square': Product(1000, 1544, 1000, tile=(152, 128, 64), stages=3, transposed=True, beside=2, below=2, epilogue='bias'),
    'transposed_eight': Product(1000, 1544, 1000, tile=(80, 128, 64), transposed=True, beside=2, below=4, stages=5, epilogue='bias'),
    'split': Product(200, 264, 1000, split=4, through=False), 'split_8': Product(136, 176, 3000, split=8, through=False, epilogue='bias'),
    'split_3': Product(200, 264, 1000, tile=(128, 192, 64), split=3), 'split_6': Product(200, 264, 3000, tile=(128, 192, 64), split=6, through=False, epilogue='bias'),
    'split_5': Product(264, 200, 3000, tile=(80, 128, 64), split=5, transposed=True, epilogue='bias'), 'split_3_short': Product(200, 136, 200, batch=5, tile=(128, 192, 64), split=3),
    'split_3_rounds': Product(4096, 2304, 328, tile=(128, 192, 64), split=3, at=True, epilogue='bias'),
    'split_3_eights': Product(264, 200, 3000, tile=(72, 128, 64), split=3, transposed=True),
    'three_a': Product(520, 776, 328, beside=3), 'three_b': Product(1000, 1544, 328, beside=2, below=3),
    'split_short': Product(72, 88, 136, tile=(64, 64, 64), warps=4, split=4, through=False), 'split_through': Product(512, 512, 520, split=2),
    'split_many': Product(2048, 1536, 200, tile=(64, 128, 64), warps=4, split=8, through=False), 'split_batched': Product(72, 136, 520, batch=3, at=True, split=4, through=False),
    'out32_through': Product(200, 136, 320, out='f32'), 'out32_turns': Product(4096, 2304, 136, out='f32', warps=4, teams=2),
    'out32_split': Product(200, 264, 1000, out='f32', split=4), 'out32_batched': Product(200, 136, 152, batch=5, out='f32', result_stages=3),
    'fetched': Product(300, 264, 200, epilogue='fetched', out='f32'), 'fetched_narrow': Product(1000, 776, 200, epilogue='fetched'),
    'fetched_half': Product(264, 200, 136, epilogue='fetched', dtype='f16', out='f16', result_stages=1),
    'fetched_batched': Product(200, 136, 152, batch=5, epilogue='fetched', out='f32', tile=(128, 64, 64)),
    'fetched_turns': Product(4096, 2304, 136, warps=4, teams=2, epilogue='fetched', out='f32'),
    'fetched_uneven': Product(4096, 2304, 136, tile=(128, 192, 64), epilogue='fetched'),
    'fetched_wide': Product(1000, 2056, 1000, tile=(128, 256, 64), epilogue='fetched', out='f32', below=2, result_stages=3),
    'fetched_odd_k': Product(264, 200, 133, at=True, epilogue='fetched'), 'fetched_split': Product(512, 512, 520, split=2, epilogue='fetched'),
    'split_rounds': Product(4096, 2304, 328, split=2, at=True, epilogue='bias'),
    'turns_short': Product(264, 200, 40, tile=(64, 128, 64), warps=4, teams=2),
    'turns_deep': Product(1000, 1544, 1000, warps=4, teams=2, stages=5, epilogue='bias'),
    'tail': Product(1000, 776, 520, epilogue='unit', tail=2), 'tail_programs': Product(4096, 2304, 392, tail=2), 'tail_one': Product(4096, 2304, 328, stages=2, tail=1),
    'tail_groups': Product(1500, 1544, 1000, tile=(192, 128, 64), warps=12, stages=4, epilogue='gelu', tail=3),
    'tail_pairs': Product(4096, 2304, 520, tile=(128, 256, 64), stages=4, below=2, epilogue='unit', tail=3), 'tail_fetched': Product(1000, 776, 520, epilogue='fetched', tail=2),
    'tail_transposed': Product(1000, 1544, 1000, tile=(152, 128, 64), transposed=True, beside=2, below=2, epilogue='bias', tail=2),
    'tail_too_long': Product(1000, 776, 520, tail=3), 'tail_too_short': Product(1000, 776, 200, tail=1), 'tail_batched': Product(200, 136, 520, batch=5, tail=1),
}
# Their sums or rings are too large for an A100's multiprocessor.
LARGE = ('many_stages', 'three_groups', 'tall', 'wide', 'tail_groups')
# Teams, programs that run together, fetched fragments and results stored transposed are Hopper's.
HOPPER = tuple(name for name, p in CASES.items() if p.teams > 1 or p.together > 1 or p.epilogue == 'fetched' or p.transposed)
# Factors of f32 that lie width K: wgmma does not take them.
AMPERE = ('tf32_nn', 'tf32_tn', 'tf32_tt')
