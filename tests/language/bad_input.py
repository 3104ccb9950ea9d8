#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the reader of programs accepts beside plain text, and what it refuses, with each message. Where CPython refuses the same, that is
checked, too.

bad_input.py TOOL
"""
import pathlib
import re
import subprocess
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish  # noqa: E402

warnings.simplefilter('ignore')
TOOL = str(pathlib.Path(sys.argv[1]).resolve())


def run(text, *options):
    text = text if isinstance(text, bytes) else text.encode('utf-8', 'surrogatepass')
    done = subprocess.run([TOOL, *options, '-'], input=text, capture_output=True, timeout=60, check=False)
    expect('the tool ends', done.returncode == 0, text[:60], done.stderr[-500:])
    return done.stdout.decode('utf-8', 'replace')


def errors(text, *options):
    """(line, column, number, text) of each error and warning."""
    found = [re.match(r'(\d+) (\d+) (\d+) (.*)', line) for line in run(text, *options).split('\n')]
    return [(*map(int, one.groups()[:3]), one.group(4)) for one in found if one]


def cpython_refuses(text):
    try:
        compile(text, 'm.py', 'exec')
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return True
    return False


ACCEPTED = {
    'CRLF': b'x = 1\r\nif x:\r\n    y = """a\r\nb"""\r\n',
    'CR': b'x = 1\ry = 2\r',
    'a byte order mark': b'\xef\xbb\xbfx = 1\n',
    'form feeds': b'x = 1\n\x0c\nif x:\n\x0c    y = 2\n',
    'tabs': b'if 1:\n\tif 2:\n\t\tx = 3\n\ty = 4\n',
    'tabs after the same spaces': b'if 1:\n  \tx = 3\n  \ty = 4\n',
    'coding: utf-8': b'# -*- coding: utf-8 -*-\nx = 1\n',
    'no newline at the end': b'if 1:\n    x = 2',
    'only a comment': b'# nothing',
    'nothing': b'',
    'texts beyond ASCII': 'x = "naïve 数"\n'.encode(),
    '200 brackets': b'x = ' + b'(' * 199 + b'1' + b')' * 199,
    'a sum of 900 terms': b'x = ' + b' + '.join([b'1'] * 900),
}
for what, text in ACCEPTED.items():
    expect(f'{what}: accepted', not errors(text), errors(text))
    expect(f'{what}: CPython accepts it', not cpython_refuses(text))
expect('CRLF and LF have one dump', run(b'x = """a\r\nb"""\r\n') == run(b'x = """a\nb"""\n'))

# text, (line, column, number, message); CPython refuses those without a third item.
REFUSED = [
    (b'x = "\xff"\n', (1, 6, 901, 'byte 0xff is not UTF-8')),
    (b'x = 1\ny = "\xc3"', (2, 6, 901, 'byte 0xc3 is not UTF-8')),
    (b'x = 1\0\n', (1, 6, 901, 'the text contains a NUL byte')),
    (b'# coding: latin-1\nx = 1\n', (1, 11, 901, "the encoding is 'latin-1'; a program is read as UTF-8"), 'own'),
    (b'\n# vim: set fileencoding=cp1252 :\n', (2, 25, 901, "the encoding is 'cp1252'; a program is read as UTF-8"), 'own'),
    (b'if 1:\n        x = 1\n\ty = 2\n', (3, 1, 902, 'tabs and spaces are mixed: the indentation depends on the width of a tab')),
    (b'if 1:\n    x = 1\n  y = 2\n', (3, 1, 902, 'the line is indented by 2 columns, as no line of an open block is')),
    (b'  x = 1\n', (1, 1, 902, 'the line is indented further than the block it is in')),
    (b'if 1:\nx = 1\n', (2, 1, 902, 'expected an indented block after the condition')),
    ('naïve = 1\n', (1, 3, 903, 'U+00EF stands in a name; names consist of ASCII letters, digits and _'), 'own'),
    ('x = 数\n', (1, 5, 903, 'U+6570 stands in a name; names consist of ASCII letters, digits and _'), 'own'),
    (b'x = 12ab\n', (1, 5, 903, "'12ab' is not a number")),
    (b'x = 1__0\n', (1, 5, 903, "'1__0' is not a number")),
    (b'x = 0b12\n', (1, 5, 903, "'0b12' is not a number")),
    (b'x = 1e\n', (1, 5, 903, "'1e' is not a number")),
    (b'x = 012\n', (1, 5, 903, 'an integer does not begin with 0; octal integers begin with 0o')),
    (b'x = "abc\n', (1, 5, 903, 'the text is not closed by "')),
    (b"x = '''abc\n", (1, 5, 903, "the text is not closed by three times '")),
    (b'x = "\\x1"\n', (1, 6, 903, "'\\x1' needs two hexadecimal digits")),
    (b'x = "\\U00110000"\n', (1, 6, 903, "'\\U00110000' is not a code point of Unicode")),
    ('x = b"é"\n', (1, 7, 903, 'bytes consist of ASCII characters and escapes')),
    (b'x = 1 ! 2\n', (1, 7, 903, "'!' is not an operator; Python writes 'not'")),
    (b'x = 1 ? 2\n', (1, 7, 903, "'?' begins no token")),
    (b'x = \\ 1\n', (1, 5, 903, "'\\' joins lines only at the end of a line")),
    (b'x = \x01\n', (1, 5, 903, 'U+0001 begins no token')),
    (b'x = )\n', (1, 5, 904, "')' closes no bracket")),
    (b'x = (1]\n', (1, 7, 904, "']' does not close '('")),
    (b'x = (1,\ny = 2\n', (2, 3, 904, "expected ')' after the values, not '='")),
    (b'x = (1,\n', (1, 5, 904, "'(' is never closed")),
    (b'x = [1,\ndef f():\n    pass\n', (1, 5, 904, "'[' is never closed")),
    (b'x = = 1\n', (1, 5, 904, "expected an expression, not '='")),
    (b'x = 1 2\n', (1, 7, 904, "expected an operator or the end of the line, not '2'")),
    (b'f() = 1\n', (1, 1, 904, 'a call cannot be assigned to')),
    (b'1 = x\n', (1, 1, 904, 'a constant cannot be assigned to')),
    (b'x + 1 = 2\n', (1, 1, 904, 'an expression cannot be assigned to')),
    (b'a < b = 2\n', (1, 1, 904, 'a comparison cannot be assigned to')),
    (b'{} = 2\n', (1, 1, 904, 'a dict or set cannot be assigned to')),
    (b'del f()\n', (1, 5, 904, 'a call cannot be deleted')),
    (b'(a, b): int\n', (1, 1, 904, 'only one name, attribute or item can have a type')),
    (b'(a, b) += 1\n', (1, 1, 904, "'+=' changes one name, attribute or item")),
    (b'f(a=1, 2)\n', (1, 8, 904, 'an argument without name follows arguments with names')),
    (b'f(**a, *b)\n', (1, 8, 904, "an argument without name follows '**'")),
    (b'x = (*a)\n', (1, 6, 904, "'*' needs a list, a tuple or a call around it")),
    (b'x = [*a for a in b]\n', (1, 6, 904, "'*' cannot stand before the item of a comprehension")),
    (b'def f(a=1, b): pass\n', (1, 12, 904, 'a parameter without default follows parameters with defaults')),
    (b'def f(*): pass\n', (1, 8, 904, "expected the name of a parameter, not ')'")),
    (b'def f(*, **k): pass\n', (1, 10, 904, "expected the name of a parameter, not '**'")),
    (b'def f(x) pass\n', (1, 10, 904, "expected ':' after the function's head, not 'pass'")),
    (b'@x\ny = 1\n', (2, 1, 904, "expected 'def' after a decorator, not 'y'")),
    (b'for x y: pass\n', (1, 7, 904, "expected 'in' after the names of the loop, not 'y'")),
    (b'x = 1 if 2\n', (1, 11, 904, "expected 'else' after the condition of a value, not the end of the line")),
    (b'x = "a" b"b"\n', (1, 9, 904, 'bytes and texts cannot be joined')),
    (b'try:\n    pass\nx = 1\n', (3, 1, 904, "expected 'except' or 'finally' after the block of 'try', not 'x'")),
    (b'try: pass\nexcept A: pass\nexcept* B: pass\n', (3, 9, 904, "'except' and 'except*' stand in the same 'try'")),
    (b'x = f"{}"\n', (1, 7, 904, "'{' of an f-string is followed by no expression")),
    (b'x = f"{a"\n', (1, 7, 904, "'{' of an f-string is never closed")),
    (b'x = f"a}"\n', (1, 8, 904, "'}' in an f-string closes nothing; '}}' stands for itself")),
    (b'x = f"{a!x}"\n', (1, 9, 904, "'!' of an f-string is followed by s, r or a")),
    (b'x = f"{a!r b}"\n', (1, 7, 904, "'{' of an f-string is not closed by '}'")),
    (b'x = f"{a:{b:{c}}}"\n', (1, 13, 904, 'the format of a value in a format has a value')),
    (b"x = f'{a[\"\\n\"]}'\n", (1, 11, 904, "'\\' cannot stand in an expression of an f-string")),
    (b'x = f"{a)}"\n', (1, 9, 904, "')' closes no bracket")),
    (b'x = f"{1 2}"\n', (1, 10, 904, "expected the end of the text after the expression, not '2'")),
    (b'x = "\\N{BULLET}"\n', (1, 6, 905, "'\\N' is not part of the language; write the character, or \\u and its code point"), 'own'),
    (b'match x:\n    case 1:\n        pass\n', (1, 1, 905, "'match' is not part of the language; 'if' compares values"), 'own'),
    (b'x = ' + b'(' * 201 + b'1' + b')' * 201, (1, 205, 906, 'more than 200 brackets are open at the same time')),
    (b'x = ' + b'+'.join([b'1'] * 100000), (1, 5, 906, 'an expression has more than 1000 terms or operators in a chain'), 'own'),
    (b'x = ' + b'-' * 100000 + b'1', (1, 1005, 906, 'more than 1000 constructs are nested')),
    (b'x = ' + b'not ' * 100000 + b'1', (1, 4005, 906, 'more than 1000 constructs are nested')),
    (b'x = ' + b'2**' * 100000 + b'1', (1, 3005, 906, 'more than 1000 constructs are nested')),
    (b'x = ' + b'1 if 2 else ' * 100000 + b'1', (1, 12005, 906, 'more than 1000 constructs are nested')),
    (b'x = a' + b'.b' * 100000, (1, 5, 906, 'an expression has more than 1000 terms or operators in a chain'), 'own'),
    (b'x = a' + b'()' * 100000, (1, 5, 906, 'an expression has more than 1000 terms or operators in a chain'), 'own'),
    (b'x = 1' + b' < 1' * 100000, (1, 4009, 906, 'a comparison has more than 1000 operators'), 'own'),
    (b''.join(b' ' * i + b'if 1:\n' for i in range(101)) + b' ' * 101 + b'x = 1\n', (101, 1, 906, 'more than 99 blocks are nested')),
    (b'if 1: pass\n' + b'elif 1: pass\n' * 100000, (1000, 6, 906, 'more than 1000 constructs are nested'), 'own'),
    (b'def f(' + b','.join(b'a%d' % i for i in range(501)) + b'): pass\n', (1, 2397, 906, 'a function has more than 500 parameters'), 'own'),
    (b'import ' + b'a.' * 400 + b'a\n', (1, 520, 906, 'the name of a module has more than 510 letters'), 'own'),
    (b'#' * (16 * 1024 * 1024 + 1), (0, 0, 906, 'the source has 16777217 bytes; at most 16777216 are allowed'), 'own'),
]
for text, error, *own in REFUSED:
    found = errors(text)
    expect(f'{text[:60]!r}: {error}', found and found[0] == error, found[:1])
    expect(f'{text[:60]!r}: CPython refuses it', own or cpython_refuses(text))

# A construct of Python that the language lacks, one message each.
OUTSIDE = {
    'class A: pass': "'class' is not part of the language; a function and a dict serve here",
    'try: pass\nfinally: pass': "'try' is not part of the language; an error ends the compilation",
    'while x: pass': "'while' is not part of the language; while_loop(condition, step, state) repeats a step until a tensor says to stop, "
                     "and 'for' repeats over static values",
    'async def f(): pass': "'async' is not part of the language; a step of a program runs as a whole",
    'raise x': "'raise' is not part of the language; assert with a message refuses a program while it is compiled",
    'del x': "'del' is not part of the language; a name ends with its function",
    'global x': "'global' is not part of the language; a function returns what it changes",
    'nonlocal x': "'nonlocal' is not part of the language; a function returns what it changes",
    'break': "'break' is not part of the language; a loop over static values runs to its end; 'if' can skip the rest",
    'continue': "'continue' is not part of the language; 'if' can skip the rest of a step",
    'f(x := 1)': "':=' is not part of the language; assign in a statement of its own",
    'f = lambda: 0': "'lambda' is not part of the language; define a function with 'def'",
    'x = {1, 2}': 'a set is not part of the language; a list serves here',
    'x = {a for a in b}': 'a set is not part of the language; a list serves here',
    'x = sum(a for a in b)': 'a generator is not part of the language; put it into [ ], as a list',
    'yield x': "'yield' is not part of the language; return a list",
    'yield from x': "'yield' is not part of the language; return a list",
    'f(*x)': "'*' before a value is not part of the language; list each value",
    'f(**x)': "'**' before an argument is not part of the language; name each argument",
    'x = {**a}': "'**' in a dict is not part of the language; name each key",
    'def f(*a): pass': "parameters '*name' and '**name' are not part of the language; name each parameter",
    'def f(**a): pass': "parameters '*name' and '**name' are not part of the language; name each parameter",
    'def f(a, /): pass': "'/' between parameters is not part of the language; leave it out",
    'for x in y: pass\nelse: pass': "'else' of a loop is not part of the language; put the statements after it",
    'x = b"a"': 'bytes are not part of the language; use a text',
    'x = 1j': 'a complex number is not part of the language; use a tensor for each part',
    'x = 9223372036854775808': 'the integer needs more than 64 bits',
}
for text, message in OUTSIDE.items():
    found = errors(text + '\n')
    expect(f'{text!r}: {message}', [(one[2], one[3]) for one in found] == [(905, message)], found)
expect('an integer of 63 bits', not errors('x = 9223372036854775807\n'))

# The four spellings that Python lacks: a warning, and the dump of what Python writes; with -s an error.
SPELLINGS = [
    ('x = W{"d_model"}\n', 'x = W["d_model"]\n', (1, 6, 907, 'Python selects with [ ], not with { }')),
    ('on mesh(4):\n    pass\n', 'with mesh(4):\n    pass\n', (1, 1, 907, "Python has no statement 'on'; write 'with'")),
    ('x = block(2)\n    .warps(4)\n  .k(3)\n', 'x = block(2).warps(4).k(3)\n',
     (2, 5, 907, "Python has no line that begins with '.warps'; put brackets around the lines of the expression")),
    ('def f(...): pass\n', 'def f(): pass\n', (1, 7, 907, "Python has no parameters '...'; the function has no parameters")),
]
for text, python, warning in SPELLINGS:
    expect(f'{text!r}: a warning', errors(text)[:1] == [warning], errors(text))
    dump = [line for line in run(text).split('\n') if not line[:1].isdigit()]
    expect(f'{text!r}: the dump of {python!r}', dump == run(python).split('\n'), dump)
    expect(f'{text!r}: refused if strict', 'error: ' in run(text, '-t', '-s') and 'warning: ' in run(text, '-t'))
    expect(f'{text!r}: CPython refuses it', cpython_refuses(text))

# Recovery: each error is reported, the statements between them are read; at most 20 errors.
text = 'x = )\ndef f(:\n    y = (\n    z = 1\nif 1:\n    a = 1 1\n    b = 2\nclass A:\n    c = = 1\n    def g(self): pass\nd = (1,\ndef h():\n    e = 1 1\n'
expect('recovery', [one[:2] for one in errors(text)] == [(1, 5), (2, 7), (8, 1), (9, 9), (11, 5), (13, 11)], errors(text))
many = run('x = )\n' * 100, '-t')
expect('at most 20 errors', many.count('error: ') == 20, many.count('error: '))
expect('all 100 lines are read', len(errors('x = )\n' * 100)) == 100)

# How a user sees them: the range below the line, notes, the fix under its place.
shown = run('x = 1\ny = (a]\non mesh(4):\n    pass\nz = 123abc\n', '-t')
expect('a caret, a note, a range, a fix', shown == '''\
-:2:7: error: [TSR-0904] ']' does not close '('
y = (a]
      ^
-:2:5: note: '(' is opened here
y = (a]
    ^
-:3:1: warning: [TSR-0907] Python has no statement 'on'; write 'with'
on mesh(4):
^~
with
-:5:5: error: [TSR-0903] '123abc' is not a number
z = 123abc
    ^~~~~~
''', shown)

finish()
