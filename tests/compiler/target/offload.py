#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Offloaded values return unchanged: random programs, planned with less and less workspace, are simulated byte by byte on the
worst possible device, and each launch must read the same values as without a limit; so must the launches of a region when it runs
again.

usage: offload.py TESSERA_AOT [--programs N] [--seed S]

A copy is assumed to complete at once or when it is awaited, whichever is worse: until then its source must not be written, and
its destination must be neither read nor written. Exit code: 0 if all programs pass, else 1.
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
    that were made are read again, the last one first, or in any order, some of them twice; of some the end is a region that may run again."""
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
    if choose.random() < 0.4:
        begin = choose.randrange(len(made) // 2, len(lines))
        inside = {line.split()[0] for line in lines[begin:]}
        given = [name for name in results if name in inside]
        types = ', '.join([kind] * len(given))
        region = [f'%token, {", ".join(f"%g{i}" for i in range(len(given)))} = tessera.resilience.region {{mode = "replay", name = "end"}} {{',
                  *lines[begin:], f'tessera.yield {", ".join(given)} : {types}', f'}} : !tessera_sr.token, {types}']
        results = [f'%g{given.index(name)}' if name in given else name for name in results]
        lines[begin:] = region
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

    def write(self, slot, tag, first=0):
        space, begin, end = slot
        left = []
        for b, e, t, o in self.written.get(space, []):
            if b < begin:
                left.append((b, min(e, begin), t, o))
            if e > end:
                left.append((max(b, end), e, t, o + max(b, end) - b))
        self.written[space] = sorted([r for r in left if r[0] < r[1]] + [(begin, end, tag, first)])

    def read(self, slot):
        """[(tag, offset, bytes)], of adjacent ones that belong together one."""
        space, begin, end = slot
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


SLOT = re.compile(r'(%\w+) = tessera_target\.(alloc|host_alloc|tensor|input|output) (?:offset )?(\S+).*: memref<([\w]+)>')
LAUNCH = re.compile(r'tessera_target\.launch @\w+\((.*?)\) writes\((.*?)\)')
COPY = re.compile(r'tessera_target\.copy (%\w+), (%\w+)')
BEGIN = re.compile(r'(%\w+) = tessera_target\.(offload|prefetch) (%\w+), (%\w+)')
AWAIT = re.compile(r'tessera_target\.await (%\w+)')


class Walk:
    """What each launch and copy reads, how many bytes are offloaded and how many copies are under way at most; asserts that none is disturbed."""

    def __init__(self, text, entry):
        func = re.search(rf'tessera_target\.func @{entry} workspace (\d+).*?^  }}', text, re.M | re.S)
        self.workspace, self.memory, self.slots = int(func[1]), Memory(), {}
        self.begun, self.seen, self.offloaded, self.most = {}, [], 0, 0
        entered = None
        lines = [line.strip() for line in func[0].splitlines()]
        launched = [number for number, line in enumerate(lines) if LAUNCH.match(line)]
        self.launches = {number: i for i, number in enumerate(launched)}
        for number, line in enumerate(lines):
            if found := SLOT.match(line):
                self.slot(*found.groups())
            else:
                self.run(number, line)
            if 'tessera_target.enter' in line:
                entered = number
            if 'tessera_target.leave' in line:
                self.again(entered, lines[entered:number])
        assert not self.begun

    def slot(self, name, kind, where, memref):
        begin, space = (int(where), kind) if 'alloc' in kind else (0, kind + where)
        self.slots[name] = (space, begin, begin + size_of(memref))
        assert kind != 'alloc' or self.slots[name][2] <= self.workspace
        if kind in ('tensor', 'input'):
            self.memory.write(self.slots[name], space)

    def again(self, first, lines):
        """The region's commands run once more, and read what they did."""
        assert not self.begun
        before = len(self.seen)
        for number, line in enumerate(lines, first):
            self.run(number, line)
        repeated = self.seen[before:]
        assert repeated == self.seen[before - len(repeated):before], 'a region that runs again reads something else'
        del self.seen[before:]

    def touch(self, slot, writes):
        for to, source in self.begun.values():
            assert not meet(slot, to), f'{slot} is in use before a copy to {to} is awaited'
            assert not (writes and meet(slot, source)), f'{slot} is written before a copy of it is awaited'

    def run(self, number, line):
        if found := LAUNCH.match(line):
            reads, writes = [[self.slots[n] for n in part.split(', ')] for part in found.groups()]
            for slot in reads:
                self.touch(slot, False)
            self.seen.append([self.memory.read(slot) for slot in reads])
            for i, slot in enumerate(writes):
                self.touch(slot, True)
                self.memory.write(slot, (self.launches[number], i))
        elif found := COPY.match(line):
            to, source = self.slots[found[1]], self.slots[found[2]]
            self.touch(source, False)
            self.touch(to, True)
            self.seen.append([self.memory.read(source)])
            self.memory.copy(to, self.memory.read(source))
        elif found := BEGIN.match(line):
            to, source = self.slots[found[3]], self.slots[found[4]]
            self.touch(source, False)
            self.touch(to, True)
            self.begun[found[1]] = (to, source)
            self.most = max(self.most, len(self.begun))
            self.memory.copy(to, self.memory.read(source))
            self.offloaded += (to[2] - to[1]) * (found[2] == 'offload')
        elif (found := AWAIT.match(line)) and found[1] in self.begun:  # else of a region
            to, source = self.begun.pop(found[1])
            assert self.memory.read(to) == self.memory.read(source)


def planned(aot, source, work, entry, mib=None):
    """The walk, or None where it does not fit."""
    limit = ['--workspace-max', str(mib)] if mib else []
    done = subprocess.run([aot, 'build', source, '-o', work / 'x.tsb', '--target', 'cuda:sm_90a', '--numerics', 'native', '--dump', 'target', *limit],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr
    return Walk(done.stdout, entry), None


def check(aot, source, work, entry, percents=(85, 65, 45)):
    """How many plans, and how many of them offload something."""
    whole, why = planned(aot, source, work, entry)
    assert whole, why
    plans = copying = 0
    for percent in percents:
        mib = max(whole.workspace * percent // 100 >> 20, 1)
        found, why = planned(aot, source, work, entry, mib)
        if not found:
            assert 'bytes of workspace' in why, why
            break
        assert found.workspace <= mib << 20, f'{found.workspace} bytes of {mib} MiB'
        assert found.seen == whole.seen, f'{entry}: with {mib} MiB a launch reads something else'
        plans += 1
        copying += found.offloaded > 0
    return plans, copying


def many(count):
    """So many values of 1 MiB, made faster than they can be offloaded; then products that need the room; then all are read."""
    kind, large = 'tensor<256x1024xf32>', 'tensor<8192x8192xbf16>'
    lines = [f'%v{i} = tessera.softmax_safe %{"v" + str(i - 1) if i else "x"} {{axis = 1 : i64}} : {kind}' for i in range(count)]
    last = f'%v{count - 1}'
    lines += [f'%m = tessera.mean {last} {{axes = [0, 1]}} : {kind} -> tensor<f32>', '%n = tessera.cast %m : tensor<f32> to tensor<bf16>',
              f'%y = tessera.add %z, %n : {large}, tensor<bf16> -> {large}']
    for name, a, b in (('p0', 'y', 'z'), ('p1', 'p0', 'z'), ('p2', 'p1', 'p0')):
        lines.append(f'%{name} = tessera.matmul %{a}, %{b} : {large}, {large} -> {large}')
    lines += [f'%q = tessera.mean %p2 {{axes = [0, 1]}} : {large} -> tensor<bf16>', '%r = tessera.cast %q : tensor<bf16> to tensor<f32>',
              f'%t = tessera.add {last}, %r : {kind}, tensor<f32> -> {kind}']
    last = '%t'
    for i in range(count - 1):
        lines.append(f'%a{i} = tessera.softmax_safe {last} {{axis = 1 : i64}} : {kind}')
        lines.append(f'%s{i} = tessera.add %a{i}, %v{i} : {kind}, {kind} -> {kind}')
        last = f'%s{i}'
    body = '\n'.join('  ' + line for line in lines)
    return f'''func.func @many(%x: {kind} {{tessera.name = "x"}}, %z: {large} {{tessera.name = "z"}})
    -> ({kind} {{tessera.name = "y"}}, {large} {{tessera.name = "p"}}) attributes {{tessera.entry = "infer"}} {{
{body}
  return {last}, %p2 : {kind}, {large}
}}
'''


def check_many(aot, work, limit=256):
    """As many copies in one direction are under way as a half of what a program may have, and no more."""
    source = work / 'many.mlir'
    source.write_text(many(limit), 'utf-8')
    found, why = planned(aot, source, work, 'many', limit + 64)
    assert found, why
    assert limit // 4 < found.most <= limit // 2, f'{found.most} copies are under way; expected up to {limit // 2}'


def region(depth):
    """Two regions: what the first one makes the second one reads when it begins and when it ends, in between as many that it makes itself."""
    kind = 'tensor<1024x1024xf32>'
    types = f'{kind}, {kind} -> {kind}'

    def chain(name, first, reads):
        lines = [f'%{name}{i} = tessera.matmul %{f"{name}{i - 1}" if i else first}, %{reads[i]} : {types}' for i in range(len(reads))]
        return lines, f'{name}{len(reads) - 1}'

    def enclosed(name, lines, made, results):
        some = ', '.join([kind] * len(made))
        return [f'%t{name}, {", ".join(results)} = tessera.resilience.region {{mode = "replay", name = "{name}"}} {{', *lines,
                f'tessera.yield {", ".join(made)} : {some}', f'}} : !tessera_sr.token, {some}']

    first, _ = chain('i', 'x', ['x'] * depth)
    begin, last = chain('b', 'o0', [f'o{i}' for i in range(depth)])
    middle, last = chain('m', last, ['x'] * depth)
    again, last = chain('a', last, [f'm{i}' for i in reversed(range(depth - 1))])
    end, last = chain('e', last, [f'o{i}' for i in range(depth)])
    body = '\n'.join('  ' + line for line in [
        *enclosed('first', first, [f'%i{i}' for i in range(depth)], [f'%o{i}' for i in range(depth)]),
        *enclosed('second', [*begin, *middle, *again, *end], [f'%{last}'], ['%r'])])
    return f'''func.func @region(%x: {kind} {{tessera.name = "x"}}) -> ({kind} {{tessera.name = "y"}}) attributes {{tessera.entry = "infer"}} {{
{body}
  return %r : {kind}
}}
'''


def check_region(aot, work):
    """What is made inside is offloaded; what is read from outside stays as it was."""
    source = work / 'region.mlir'
    source.write_text(region(5), 'utf-8')
    plans, copying = check(aot, source, work, 'region', (90, 80, 70))
    assert copying, f'{plans} plans of a region, none of them with copies'


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
        check_many(a.aot, work)
        check_region(a.aot, work)
    print(f'seed {a.seed}: {a.programs} programs, {plans} plans, {copying} of them with copies')
    return 0 if copying else 1


if __name__ == '__main__':
    sys.exit(main())
