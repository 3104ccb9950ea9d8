#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The parser against CPython's module `ast`, over CPython's own library.

parser.py TOOL [--all] [FOLDER]

Each statement of each file has the dump that ast.dump writes. The constructs that are refused are those that ast.walk finds first in
each statement, without the statements in it, among the kinds of REFUSED. Texts with one changed token are accepted or not as by CPython.
The test takes a part of the files; --all takes all of FOLDER.
"""
import ast
import io
import pathlib
import random
import re
import subprocess
import sys
import sysconfig
import tokenize
import warnings

if sys.version_info[:2] != (3, 11):
    print(f'needs CPython 3.11 as reference, this is {sys.version}')
    sys.exit(77)
warnings.simplefilter('ignore')
sys.setrecursionlimit(10000)

words = [word for word in sys.argv[1:] if word != '--all']
TOOL, ALL = str(pathlib.Path(words[0]).resolve()), '--all' in sys.argv
FOLDER = pathlib.Path(words[1] if len(words) > 1 else sysconfig.get_path('stdlib'))
# The share of files that is read without --all, the statements and changed texts that are compared at least.
EVERY, FLOOR, CHANGED = 14, 7000, 3000
REFUSED = (ast.AsyncFunctionDef, ast.ClassDef, ast.Delete, ast.AsyncFor, ast.While, ast.AsyncWith, ast.Raise, ast.Try, ast.TryStar,
           ast.Global, ast.Nonlocal, ast.Break, ast.Continue, ast.NamedExpr, ast.Lambda, ast.Set, ast.SetComp, ast.GeneratorExp,
           ast.Await, ast.Yield, ast.YieldFrom, ast.Starred)
SYNTAX, REFUSAL, TOKEN, ENCODING = 904, 905, 903, 901
failures = 0


def fail(what, *more):
    global failures
    failures += 1
    if failures < 20:
        print('FAILED:', what, *more)


class Shown:
    """A constant as the tool shows it."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def show_constants(tree):
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if isinstance(value, str):
                setattr(node, field, Shown(ascii(value)))
            elif type(value) is int and abs(value) >= 2**63:
                setattr(node, field, Shown('BIG'))


def refused_at(node):
    """Where the node is refused, itself or in its form; None if it is not."""
    if isinstance(node, REFUSED):
        return node
    if isinstance(node, ast.Constant):
        big = type(node.value) is int and node.value >= 2**63
        return node if big or isinstance(node.value, (bytes, complex)) else None
    if isinstance(node, ast.arguments):
        return next(iter(node.posonlyargs), None) or node.vararg or node.kwarg
    if isinstance(node, ast.keyword) and node.arg is None or isinstance(node, ast.Dict) and None in node.keys:
        return node
    if isinstance(node, ast.comprehension) and node.is_async:
        return node
    return node if isinstance(node, ast.For) and node.orelse else None


def refusals(statements):
    """(line, column) of the first refused construct of each statement, in the order of the statements."""
    for statement in statements:
        queue, inner = [statement], []
        for node in queue:
            at = refused_at(node)
            if at is not None:
                yield (at.lineno, at.col_offset + 1)
                break
            for child in ast.iter_child_nodes(node):
                (inner if isinstance(child, ast.stmt) else queue).append(child)
        if not isinstance(queue[0], ast.For) or not queue[0].orelse:
            if not isinstance(statement, REFUSED):
                yield from refusals(inner)


def run(*arguments, text=None):
    done = subprocess.run([TOOL, *arguments], input=text, capture_output=True, check=False)
    if done.returncode:
        fail(f'the tool ended with {done.returncode}', done.stderr[-2000:].decode())
    return done.stdout.decode().split('\n')


def split(lines):
    """The statements' dumps and the errors (line, column, number, text) of each text."""
    results = []
    for line in lines:
        error = re.match(r'(\d+) (\d+) (\d+) (.*)', line)
        if line.startswith('file '):
            results.append(([], []))
        elif error:
            results[-1][1].append((*map(int, error.groups()[:3]), error.group(4)))
        elif line:
            results[-1][0].append(line)
    return results


def first_difference(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f'\n    here    …{a[max(0, at - 60):at + 60]}\n    CPython …{b[max(0, at - 60):at + 60]}'


def has_non_ascii_names(text):
    return any(isinstance(value, str) and not value.isascii() for node in ast.walk(ast.parse(text))
               for field, value in ast.iter_fields(node) if field in ('id', 'name', 'arg', 'attr', 'asname', 'module'))


def is_outside(tree, text):
    """Whether the text has what the parser itself refuses: match, names beyond ASCII, \\N."""
    return any(isinstance(node, ast.Match) for node in ast.walk(tree)) or '\\N' in text or has_non_ascii_names(text)


def compare_file(path, dumps, errors):
    """Returns the number of statements compared."""
    text = path.read_bytes()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as reason:
        if not errors:
            fail(f'{path}: accepted; CPython says {reason}')
        return 0
    if errors and errors[0][2] == ENCODING:
        if b'coding' not in text[:200]:
            fail(f'{path}: {errors[0]}')
        return 0
    expected_refusals = list(refusals(tree.body))
    count, outside = 0, 0
    for statement, dump in zip(tree.body, dumps):
        source = ast.get_source_segment(text.decode('utf-8-sig').replace('\r\n', '\n'), statement) or ''
        if is_outside(statement, source):
            outside += 1
            continue
        show_constants(statement)
        if ast.dump(statement) != dump:
            fail(f'{path}:{statement.lineno}', first_difference(dump, ast.dump(statement)))
        count += sum(isinstance(node, ast.stmt) for node in ast.walk(statement))
    if len(dumps) != len(tree.body):
        fail(f'{path}: {len(dumps)} statements, CPython finds {len(tree.body)}')
    if not outside and [error[:2] for error in errors] != expected_refusals:
        odd = set(expected_refusals) ^ {error[:2] for error in errors}
        fail(f'{path}: the refused constructs differ at {sorted(odd)[:5]}')
    if not outside and any(error[2] != REFUSAL for error in errors):
        fail(f'{path}: {[error for error in errors if error[2] != REFUSAL][:3]}')
    return count


def change(text, rng):
    """The text with one token left out, doubled or exchanged with the next one; None if it has too few."""
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline)
              if token.string.strip() and token.start[0] == token.end[0]]
    if len(tokens) < 3:
        return None
    lines = text.split('\n')
    one = rng.choice(tokens)
    line, kind = lines[one.start[0] - 1], rng.randrange(4)
    a, b = one.start[1], one.end[1]
    other = rng.choice(tokens).string
    middle = ['', f'{one.string} {one.string}', f' {other} ', f'{other} {one.string}'][kind]
    lines[one.start[0] - 1] = line[:a] + middle + line[b:]
    return '\n'.join(lines)


def compare_changed(files):
    """Accepts and refuses changed statements as CPython does; returns how many were compared."""
    rng, texts = random.Random(11), []
    while len(texts) < CHANGED * (4 if ALL else 1):
        source = rng.choice(files).read_text('utf-8', errors='replace')
        try:
            body = ast.parse(source).body
        except (SyntaxError, ValueError):
            continue
        for statement in rng.sample(body, min(len(body), 40)):
            text = ast.get_source_segment(source, statement) or ''
            if len(text) > 400 or not text.isascii() or 'match' in text or '\\N' in text:
                continue
            try:
                changed = change(text, rng)
            except (tokenize.TokenError, IndentationError):
                continue
            if changed and '\0' not in changed:
                texts.append(changed)
    joined = b''.join(b'%d\n%s' % (len(text.encode()), text.encode()) for text in texts)
    count = 0
    for text, (dumps, errors) in zip(texts, split(run('-m', '-s', '-', text=joined))):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            tree = None
        wrong = [error for error in errors if error[2] != REFUSAL]
        if (tree is None) != bool(wrong):
            fail('CPython', 'accepts' if tree else 'refuses', repr(text), wrong[:1])
        elif tree is not None:
            for statement, dump in zip(tree.body, dumps):
                show_constants(statement)
                if ast.dump(statement) != dump:
                    fail(repr(text), first_difference(dump, ast.dump(statement)))
        count += 1
    return count


def main():
    files = sorted(path for path in FOLDER.rglob('*.py') if path.is_file() and not path.is_symlink())
    if not files:
        print(f'{FOLDER} has no sources of CPython')
        sys.exit(77)
    chosen = files if ALL else files[::EVERY]
    results = split(run(*map(str, chosen)))
    count = sum(compare_file(path, *result) for path, result in zip(chosen, results))
    changed = compare_changed(files)
    print(f'{count} statements of {len(chosen)} files and {changed} changed texts compared with CPython {sys.version.split()[0]}')
    if count < FLOOR or changed < CHANGED:
        fail(f'expected at least {FLOOR} statements and {CHANGED} changed texts')
    sys.exit(bool(failures))


main()
