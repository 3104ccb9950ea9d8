#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Modules that must be refused, each with the diagnostic whose number begins the file name, and with the text of the .txt file
next to it.

check.py OPT ROOT            compares; every number of diag.def has one to three modules
check.py OPT ROOT --update   rewrites the .txt files and docs/diagnostics.md

The comments of a module may contain directives: `// run: -tessera-verify` passes to run, `// from: tile` the level from which
tessera-aot continues, `// expand: N text` is replaced by N lines of the text, with the line's number for {i} and the next number
for {i+1}; `// fill: N text` replaces {fill} by N times the text; `// nest: N open close` replaces {nest} by N times open, then N
times close; {n+1} is one more than the N of these directives; `// base64: …` is the whole input. `// one fewer is accepted` means
that N is one beyond a limit.
"""
import base64
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

OPT, AOT, ROOT = str(pathlib.Path(sys.argv[1]).resolve()), str(pathlib.Path(sys.argv[1]).resolve().with_name('tessera-aot')), pathlib.Path(sys.argv[2]).resolve()
HERE = ROOT / 'tests/compiler/rejected'
PAGE = ROOT / 'docs/diagnostics.md'
UPDATE = '--update' in sys.argv[3:]
AT_LEAST, EACH_AT_MOST, COMPILE = 150, 3, 9
LIMITS = 5, 6, 7  # of compiler/source_limits.h
ROOMS = {0: 'Reading', 1: 'Shapes and types', 2: 'Programs', 3: 'Gradients and lowering', 4: 'Schedule', 5: 'Kernels and targets',
         6: 'Scaling and resilience', 7: 'Kernels of Tile IR', 8: 'ONNX and StableHLO', 9: 'Programs in Python syntax'}


def read_numbers():
    """number: (name, what it is about, what to do)"""
    text = (ROOT / 'compiler/diag/diag.def').read_text('utf-8')
    string = r'"((?:[^"\\]|\\.)*)"'
    rows = re.findall(r'^X\((\w+), (\d+),\s*' + string + r',\s*' + string + r'\)', text, re.M)
    assert len(rows) == len(re.findall(r'^X\(', text, re.M)), 'a row of diag.def that check.py does not understand'
    return {int(number): (name, about.replace('\\"', '"'), remedy.replace('\\"', '"')) for name, number, about, remedy in rows}


def read_elsewhere():
    """number: the test that triggers it, where no module can."""
    lines = (HERE / 'elsewhere.txt').read_text('utf-8').splitlines()
    return {int(line.split()[0]): line.split()[1] for line in lines if line and not line.startswith('#')}


SIZED = re.compile(r'^// (expand|fill|nest): (\d+) (.*)$', re.M)


def expand(text, fewer=0):
    code = re.search(r'^// base64: (\S+)$', text, re.M)
    if code:
        return base64.b64decode(code.group(1))
    sized = SIZED.search(text)
    if not sized:
        return text.encode()
    kind, count, by = sized.group(1), int(sized.group(2)) - fewer, sized.group(3)
    if kind == 'expand':
        text = text.replace(sized.group(0), '\n'.join(by.replace('{i}', str(i)).replace('{i+1}', str(i + 1)) for i in range(count)))
    elif kind == 'fill':
        text = text.replace('{fill}', count * by)
    else:
        text = text.replace('{nest}', count * by.split()[0] + count * by.split()[1])
    return text.replace('{n+1}', str(count + 1)).encode()


def run(path, *options, fewer=0):
    text = path.read_text('utf-8')
    passes = re.search(r'^// run: (.*)$', text, re.M)
    with tempfile.TemporaryDirectory() as folder:
        source = path
        if SIZED.search(text) or '// base64: ' in text:
            source = pathlib.Path(folder) / path.name
            source.write_bytes(expand(text, fewer))
        level = re.search(r'^// from: (.*)$', text, re.M)
        if level:
            command = [AOT, 'build', f'--from={level.group(1)}', '-o', str(pathlib.Path(folder) / 'refused.tsb'), *options, str(source)]
        else:
            command = [OPT, '--no-output', *options, *(shlex.split(passes.group(1)) if passes else []), str(source)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        done.stderr = re.sub(rb'^tessera-aot: error: .*\n', b'', done.stderr, flags=re.M)  # says the same again
        return done


def check(path):
    """What is wrong with a module."""
    number, expected = path.name[:4], path.with_suffix('.txt')
    done = run(path)
    said = re.sub(r'[ \t]+$', '', done.stderr.decode('utf-8', 'replace'), flags=re.M)
    if UPDATE:
        expected.write_text(said, 'utf-8')
    if done.returncode != COMPILE:
        return [f'{path.name}: exit code {done.returncode}, expected {COMPILE}: {said[:300]}']
    found = re.findall(r'^(?:[^\n]*: )?error: \[TSR-(\d+)\]', said, re.M)
    if not found or found[0] != number:
        return [f'{path.name}: says {found or said[:300]}, expected {number} first']
    if not expected.exists() or expected.read_text('utf-8') != said:
        return [f'{path.name}: says something else than {expected.name} (check.py … --update writes it):\n{said}']
    if '// one fewer is accepted' in path.read_text('utf-8'):
        done = run(path, fewer=1)
        if done.returncode:
            return [f'{path.name}: with one fewer exit code {done.returncode}, expected 0: {done.stderr[:300]}']
    return []


def make_page(numbers, modules, elsewhere):
    out = ['# Diagnostics', '', 'What the compiler says about a program, by number. Each stands first in its line, with its location;'
           ' `--diagnostics=json` prints the same as objects of', '[diagnostic.schema.json](../schemas/diagnostic.schema.json).'
           ' Numbers are never reused. This page is made of `compiler/diag/diag.def` and the modules of', '`tests/compiler/rejected/` by its'
           ' `check.py --update`.', '']
    room = None
    for number in sorted(n for n in numbers if modules[n] or n in elsewhere):
        name, about, remedy = numbers[number]
        if number // 100 != room:
            room = number // 100
            out += [f'## {ROOMS[room]}', '']
        out += [f'### TSR-{number:04d}', '', f'*{about}.* What to do: {remedy}.', '']
        if not modules[number]:
            continue
        example = min(modules[number], key=lambda path: (len(path.read_text('utf-8')), path.name))
        text = re.sub(r'\A// SPDX[^\n]*\n', '', example.read_text('utf-8')).rstrip('\n')
        said = example.with_suffix('.txt').read_text('utf-8').rstrip('\n')
        shorten = lambda line: (line if len(line) <= 160 else line[:157] + '…').rstrip()
        out += ['```mlir', *map(shorten, text.split('\n')), '```', '```',
                *map(shorten, said.split('\n')), '```', '']
    return '\n'.join(out).rstrip('\n') + '\n'


HEAD = re.compile(r'^(?:[^\s:]+:\d+:\d+: )?(?:error|warning|remark|note): ', re.M)


def head_of(said):
    """What the text form begins with."""
    location = f'{said["file"]}:{said["line"]}:{said["column"]}: ' if said['file'] else ''
    number = f'[{said["number"]}] ' if 'number' in said else ''
    return re.sub(r'[ \t]+$', '', f'{location}{said["severity"]}: {number}{said["text"]}', flags=re.M)


def check_json(path, validator):
    """The same as JSON, by the schema, with the numbers, locations and words of the text."""
    said, wrong, at = path.with_suffix('.txt').read_text('utf-8'), [], 0
    lines = [json.loads(line) for line in run(path, '--diagnostics=json').stderr.decode('utf-8').splitlines()]
    wrong += [f'{path.name}: {error.message}' for line in lines for error in validator.iter_errors(line)]
    heads = [head_of(part) for line in lines for part in (line, *line['notes'])]
    for head in heads:
        found = said.find(head + '\n', at)
        if found < 0:
            wrong.append(f'{path.name}: the text does not continue with what JSON says: {head}')
        at = max(at, found)
    if not heads or len(heads) != len(HEAD.findall(said)):
        wrong.append(f'{path.name}: {len(heads)} locations as JSON, {len(HEAD.findall(said))} in the text')
    return wrong


def main():
    numbers, elsewhere = read_numbers(), read_elsewhere()
    modules = collections.defaultdict(list)
    for path in sorted(HERE.glob('[0-9]*.mlir')):
        modules[int(path.name[:4])].append(path)
    paths = [path for several in modules.values() for path in several]
    wrong = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for lines in pool.map(check, paths):
            wrong += lines
    for path in HERE.glob('[0-9]*.txt'):
        if not path.with_suffix('.mlir').exists():
            wrong.append(f'{path.name}: there is no such module')
    for number, (name, _, _) in numbers.items():
        if not modules[number] and number not in elsewhere:
            wrong.append(f'TSR-{number:04d} ({name}) has no module {number:04d}-….mlir in tests/compiler/rejected/')
        if len(modules[number]) > EACH_AT_MOST:
            wrong.append(f'TSR-{number:04d} ({name}) has {len(modules[number])} modules, at most {EACH_AT_MOST} say something new')
    for number in [*modules, *elsewhere]:
        if modules[number] and number not in numbers or number in elsewhere and (number not in numbers or modules[number]):
            wrong.append(f'TSR-{number:04d} is no number of diag.def that needs a test')
    if len(paths) < AT_LEAST:
        wrong.append(f'{len(paths)} modules, expected at least {AT_LEAST}')
    for limit in LIMITS:
        if not any('// one fewer is accepted' in path.read_text('utf-8') for path in modules[limit]):
            wrong.append(f'no module of TSR-{limit:04d} is one beyond its limit')
    page = make_page(numbers, modules, elsewhere)
    if UPDATE:
        PAGE.write_text(page, 'utf-8')
    if not PAGE.exists() or PAGE.read_text('utf-8') != page:
        wrong.append('docs/diagnostics.md is stale: run tests/compiler/rejected/check.py OPT ROOT --update')
    try:
        import jsonschema
        schema = json.loads((ROOT / 'schemas/diagnostic.schema.json').read_text('utf-8'))
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        small = [path for path in paths if not SIZED.search(path.read_text('utf-8'))]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for lines in pool.map(lambda path: check_json(path, validator), small):
                wrong += lines
        print('as JSON: of the schema')
    except ImportError:
        print('jsonschema is not installed: JSON is not checked')
    print('\n'.join(wrong))
    print(f'{len(paths)} modules, {sum(bool(m) for m in modules.values())} of {len(numbers)} numbers, {len(wrong)} wrong')
    sys.exit(bool(wrong))


main()
