# SPDX-License-Identifier: Apache-2.0
"""loops.py AOT RUN: the code and the workspace of a loop do not depend on its number of iterations.

Pairs of programs that differ only in the number of iterations: nets that are trained through a scan with dropout and through a
while, and a while. They must have the same commands and kernels, and the same workspace except for the state that training saves
per iteration. Prints the build times. A net trained through the while, which ends long before its limit, is bit for bit equal to
one trained through a scan of the same number of iterations.
"""
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

FEW, MANY = 200, 20_000
STATE_BYTES = 4 * 16 * 4 + 8  # and the iteration, which draws hang on

ITERATIONS = 150  # of the while
RETAINED_BYTES = 1 + 8 + 4 * 8 * 4  # whether the condition has held, and what is carried

BODY = '''\
      %0 = tessera.matmul %c, %v : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
      %1 = tessera.add %0, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
      %2 = tessera.tanh %1 : tensor<4x8xf32>'''

PROGRAM = '''
module @loops {
  func.func @train(%x: tensor<4x8xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.normal<0.0, 0.3> : tensor<8x16xf32>
    %u = tessera.param "u" init = #tessera.normal<0.0, 0.3> : tensor<16x16xf32>
    %in = tessera.matmul %x, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
    %h = tessera.scan %in {
    ^bb0(%c: tensor<4x16xf32>):
      %0 = tessera.matmul %c, %u : tensor<4x16xf32>, tensor<16x16xf32> -> tensor<4x16xf32>
      %1 = tessera.add %0, %in : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x16xf32>
      %2 = tessera.tanh %1 : tensor<4x16xf32>
      %3 = tessera.dropout %2 {rate = 0.1} : tensor<4x16xf32> -> tensor<4x16xf32>
      tessera.yield %3 : tensor<4x16xf32>
    } {carried = 1 : i64, length = TIMES : i64} : tensor<4x16xf32> -> tensor<4x16xf32>
    %loss = tessera.mean %h {axes = [0, 1]} : tensor<4x16xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func @until(%x: tensor<4x8xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %v = tessera.param "v" init = #tessera.normal<0.0, 0.3> : tensor<8x8xf32>
    %zero = tessera.constant dense<0> : tensor<i64>
    %r:2 = tessera.while %zero, %x {
    ^bb0(%i: tensor<i64>, %c: tensor<4x8xf32>):
      %top = tessera.constant dense<ITERATIONS> : tensor<i64>
      %0 = tessera.compare lt %i, %top : tensor<i64>, tensor<i64> -> tensor<i1>
      tessera.yield %0 : tensor<i1>
    } do {
    ^bb0(%i: tensor<i64>, %c: tensor<4x8xf32>):
      %one = tessera.constant dense<1> : tensor<i64>
      %n = tessera.add %i, %one : tensor<i64>, tensor<i64> -> tensor<i64>
BODY
      tessera.yield %n, %2 : tensor<i64>, tensor<4x8xf32>
    } {limit = TIMES : i64} : tensor<i64>, tensor<4x8xf32> -> tensor<i64>, tensor<4x8xf32>
    %loss = tessera.mean %r#1 {axes = [0, 1]} : tensor<4x8xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.5, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func @exactly(%x: tensor<4x8xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %v = tessera.param "v" init = #tessera.normal<0.0, 0.3> : tensor<8x8xf32>
    %r = tessera.scan %x {
    ^bb0(%c: tensor<4x8xf32>):
BODY
      tessera.yield %2 : tensor<4x8xf32>
    } {carried = 1 : i64, length = ITERATIONS : i64} : tensor<4x8xf32> -> tensor<4x8xf32>
    %loss = tessera.mean %r {axes = [0, 1]} : tensor<4x8xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.5, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func @count(%n: tensor<i64> {tessera.name = "n"}) -> (tensor<i64> {tessera.name = "m"}) attributes {tessera.entry = "infer"} {
    %m = tessera.while %n {
    ^bb0(%i: tensor<i64>):
      %top = tessera.constant dense<100000000> : tensor<i64>
      %0 = tessera.compare lt %i, %top : tensor<i64>, tensor<i64> -> tensor<i1>
      tessera.yield %0 : tensor<i1>
    } do {
    ^bb0(%i: tensor<i64>):
      %one = tessera.constant dense<1> : tensor<i64>
      %0 = tessera.add %i, %one : tensor<i64>, tensor<i64> -> tensor<i64>
      tessera.yield %0 : tensor<i64>
    } {limit = TIMES : i64} : tensor<i64> -> tensor<i64>
    return %m : tensor<i64>
  }
}
'''


def build(aot, folder, times):
    """The listing of its host program, and seconds."""
    source = folder / f'loops{times}.mlir'
    source.write_text(PROGRAM.replace('BODY', BODY).replace('ITERATIONS', str(ITERATIONS)).replace('TIMES', str(times)), encoding='utf-8')
    begin = time.monotonic()
    made = subprocess.run([aot, 'build', source, '-o', source.with_suffix('.tsb'), '--target', 'cpu:x86-64-v2', '--dump', 'program'],
                          check=True, capture_output=True, text=True)
    return made.stdout, time.monotonic() - begin


def commands(listing):
    """Without numbers of iterations and locations."""
    lines = [line for line in listing.splitlines() if re.match(r'\s+\d+: ', line)]
    return [re.sub(r'repeat \d+ times', 'repeat', re.sub(r'\s+loops\d+\.mlir.*', '', line)) for line in lines]


def workspaces(listing):
    return {name: int(size) for name, size in re.findall(r'entry @(\w+) .*workspace (\d+) bytes', listing)}


def trained(run, folder, times, entry):
    """The parameters after five steps."""
    out = folder / f'{entry}{times}'
    subprocess.run([run, folder / f'loops{times}.tsb', '--entry', entry, '--data', f'x={folder / "x"}', '--steps', '5', '--seed', '3', '--quiet',
                    '--export-params', out], check=True, stdout=subprocess.DEVNULL)
    return out.read_bytes()


def main():
    aot, run = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        few, few_seconds = build(aot, folder, FEW)
        many, many_seconds = build(aot, folder, MANY)
        print(f'{FEW} iterations: built in {few_seconds:.2f} s; {MANY}: {many_seconds:.2f} s; {len(commands(many))} commands')
        assert few.count('repeat 200 times') == 5, few
        assert commands(few) == commands(many), (commands(few), commands(many))
        small, large = workspaces(few), workspaces(many)
        assert small['count'] == large['count'], (small, large)
        assert large['train'] - small['train'] == (MANY - FEW) * STATE_BYTES, (small, large)
        assert abs(large['until'] - small['until'] - (MANY - FEW) * RETAINED_BYTES) < 128, (small, large)
        (folder / 'x').write_bytes(struct.pack('<256f', *(i % 7 - 3 for i in range(256))))
        seen = {trained(run, folder, times, entry) for times in (FEW, MANY) for entry in ('until', 'exactly')}
        assert len(seen) == 1, seen
        # One that would not end does, at its limit.
        header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (), }"
        header += b' ' * (118 - len(header) - 1) + b'\n'
        (folder / 'n.npy').write_bytes(b'\x93NUMPY\x01\x00' + len(header).to_bytes(2, 'little') + header + (7).to_bytes(8, 'little'))
        subprocess.run([run, folder / f'loops{MANY}.tsb', '--entry', 'count', '--input', f'n={folder / "n.npy"}',
                        '--output', f'm={folder / "m.npy"}'], check=True, capture_output=True)
        last = int.from_bytes((folder / 'm.npy').read_bytes()[-8:], 'little')
        assert last == 7 + MANY, last


if __name__ == '__main__':
    main()
