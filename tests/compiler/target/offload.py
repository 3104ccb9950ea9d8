#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What lies in the host's memory meanwhile comes back whole: random programs, planned with less and less workspace, are walked byte by byte as
the worst device would run them, and each launch must read what it reads without a limit.

usage: offload.py TESSERA_AOT [--programs N] [--seed S]

A copy that has begun is done at once or when it is awaited, whichever is worse: its source may not be written, its place neither read nor
written, until then. Exit code: 0 all right, 1 some wrong.
"""
import argparse
import pathlib
import random
import re
import subprocess
import sys
import tempfile

SIZES = {'f32': 4, 'bf16': 2}


def program(choose, index):
    """Matrices of 4 or 8 MiB, each made of the one before by a product, a softmax of rows, or one of rows half as long, through views; then all
    that were made are read again, the last one first, or in any order, some of them twice."""
    n, rows = 1024, choose.choice([1024, 2048])
    kind, half, weight = f'tensor<{rows}x{n}xf32>', f'tensor<{rows * 2}x{n // 2}xf32>', f'tensor<{n}x{n}xf32>'
    lines, made = [], ['%x']

    def add(text, name):
        lines.append(f'{name} = tessera.{text}')
        return name

    def step(source):
        name, kind_of = f'%v{len(lines)}', choose.choice(['matmul', 'matmul', 'softmax', 'view'])
        if kind_of == 'matmul':
            return add(f'matmul {source}, %w : {kind}, {weight} -> {kind}', name)
        if kind_of == 'softmax':
            return add(f'softmax_safe {source} {{axis = 1 : i64}} : {kind}', name)
        seen = add(f'reshape {source} : {kind} -> {half}', name + 'r')
        seen = add(f'softmax_safe {seen} {{axis = 1 : i64}} : {half}', name + 's')
        return add(f'reshape {seen} : {half} -> {kind}', name)

    for _ in range(choose.randint(4, 12)):
        made.append(step(made[-1]))
    again = made[1:-1][::-1] + choose.sample(made[1:], choose.randint(0, 2))
    if choose.random() < 0.3:
        choose.shuffle(again)
    last = made[-1]
    for value in again:
        last = step(add(f'add {last}, {value} : {kind}, {kind} -> {kind}', f'%v{len(lines)}'))
    results = [last] + choose.sample(made[1:], choose.randrange(2))
    body = '\n'.join('  ' + line for line in lines)
    ports = ', '.join(f'{kind} {{tessera.name = "y{i}"}}' for i in range(len(results)))
    return f'''func.func @p{index}(%x: {kind} {{tessera.name = "x"}}) -> ({ports}) attributes {{tessera.entry = "infer"}} {{
  %w = tessera.param "w" init = #tessera.normal<0.0, 1.0> : {weight}
{body}
  return {', '.join(results)} : {', '.join([kind] * len(results))}
}}
'''


def size_of(kind):
    *dims, dtype = kind.split('x')
    size = SIZES[dtype]
    for dim in dims:
        size *= int(dim)
    return size


class Memory:
    """Spaces of bytes, by what wrote them last: (tag, offset within what it wrote) from each boundary on."""

    def __init__(self):
        self.written = {}  # space -> [(begin, end, tag, offset)]

    def write(self, place, tag, first=0):
        space, begin, end = place
        kept = []
        for b, e, t, o in self.written.get(space, []):
            if b < begin:
                kept.append((b, min(e, begin), t, o))
            if e > end:
                kept.append((max(b, end), e, t, o + max(b, end) - b))
        self.written[space] = sorted([r for r in kept if r[0] < r[1]] + [(begin, end, tag, first)])

    def read(self, place):
        """[(tag, offset, bytes)], of adjacent ones that belong together one."""
        space, begin, end = place
        found = []
        for b, e, t, o in self.written.get(space, []):
            if e <= begin or b >= end:
                continue
            b2, e2 = max(b, begin), min(e, end)
            piece = (t, o + b2 - b, e2 - b2)
            if found and found[-1][0] == t and found[-1][1] + found[-1][2] == piece[1]:
                found[-1] = (t, found[-1][1], found[-1][2] + piece[2])
            else:
                found.append(piece)
        return found

    def copy(self, to, pieces):
        at = to[1]
        for tag, offset, size in pieces:
            self.write((to[0], at, at + size), tag, offset)
            at += size


def meet(a, b):
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]


def walk(text, entry):
    """What each launch and copy reads, and how many bytes were copied away; asserts that no copy that has begun is disturbed."""
    func = re.search(rf'tessera_target\.func @{entry} workspace (\d+).*?^  }}', text, re.M | re.S)
    memory, places, begun, seen, away, launches = Memory(), {}, {}, [], 0, 0

    def touch(place, writes, own=None):
        for token, (to, source) in begun.items():
            if token != own:
                assert not meet(place, to), f'{place} is in use before a copy to {to} is awaited'
                assert not (writes and meet(place, source)), f'{place} is written before a copy of it is awaited'

    for line in func[0].splitlines():
        line = line.strip()
        if found := re.match(r'(%\w+) = tessera_target\.(\w+) (?:offset )?(\S+).*: memref<([\w]+)>', line):
            if found[2] in ('alloc', 'host_alloc', 'tensor', 'input', 'output'):
                begin = int(found[3]) if 'alloc' in found[2] else 0
                space = found[2] if 'alloc' in found[2] else found[2] + found[3]
                places[found[1]] = (space, begin, begin + size_of(found[4]))
                if found[2] in ('tensor', 'input'):
                    memory.write(places[found[1]], space)
                if found[2] == 'alloc':
                    assert places[found[1]][2] <= int(func[1])
                continue
        if found := re.match(r'tessera_target\.launch @\w+\((.*?)\) writes\((.*?)\)', line):
            reads, writes = [[places[n] for n in part.split(', ')] for part in (found[1], found[2])]
            for place in reads:
                touch(place, False)
            seen.append([memory.read(place) for place in reads])
            for i, place in enumerate(writes):
                touch(place, True)
                memory.write(place, (launches, i))
            launches += 1
        elif found := re.match(r'tessera_target\.copy (%\w+), (%\w+)', line):
            to, source = places[found[1]], places[found[2]]
            touch(source, False)
            touch(to, True)
            seen.append([memory.read(source)])
            memory.copy(to, memory.read(source))
        elif found := re.match(r'(%\w+) = tessera_target\.(offload|prefetch) (%\w+), (%\w+)', line):
            to, source = places[found[3]], places[found[4]]
            touch(source, False)
            touch(to, True)
            begun[found[1]] = (to, source)
            memory.copy(to, memory.read(source))
            away += (to[2] - to[1]) * (found[2] == 'offload')
        elif found := re.match(r'tessera_target\.await (%\w+)', line):
            to, source = begun.pop(found[1])
            assert memory.read(to) == memory.read(source)
    assert not begun
    return seen, away, int(func[1])


def planned(aot, source, work, entry, mib=None):
    """The walk, or None where it does not fit."""
    limit = ['--workspace-max', str(mib)] if mib else []
    done = subprocess.run([aot, 'build', source, '-o', work / 'x.tsb', '--target', 'cuda:sm_90a', '--dump', 'target', *limit],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr
    return walk(done.stdout, entry), None


def check(aot, source, work, entry):
    """How many plans, and how many of them copy something away."""
    found, why = planned(aot, source, work, entry)
    assert found, why
    seen, _, whole = found
    plans = copying = 0
    for percent in (85, 65, 45):
        mib = whole * percent // 100 >> 20
        found, why = planned(aot, source, work, entry, max(mib, 1))
        if not found:
            assert 'bytes of workspace' in why, why
            break
        assert found[2] <= max(mib, 1) << 20, f'{found[2]} bytes of {mib} MiB'
        assert found[0] == seen, f'{entry}: with {mib} MiB a launch reads something else'
        plans += 1
        copying += found[1] > 0
    return plans, copying


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('aot')
    parser.add_argument('--programs', type=int, default=6)
    parser.add_argument('--seed', type=int, default=random.randrange(1 << 30))
    a = parser.parse_args()
    choose, plans, copying = random.Random(a.seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for i in range(a.programs):
            source = work / f'p{i}.mlir'
            source.write_text(program(choose, i), 'utf-8')
            try:
                own = check(a.aot, source, work, f'p{i}')
            except AssertionError as error:
                print(f'seed {a.seed}, program {i}: {error}\n{source.read_text("utf-8")}')
                return 1
            plans, copying = plans + own[0], copying + own[1]
    print(f'seed {a.seed}: {a.programs} programs, {plans} plans, {copying} of them with copies')
    return 0 if copying else 1


if __name__ == '__main__':
    sys.exit(main())
