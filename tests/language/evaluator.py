#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs over values that are known while they are compiled, against CPython.

evaluator.py TOOL [COUNT]

Random expressions of all operators, functions, methods and formats, and programs with statements, have CPython's value, or are errors
where CPython raises one or needs an integer of more than 64 bits. COUNT random expressions are compared (100000 for a whole run).
"""
import pathlib
import random
import resource
import subprocess
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish  # noqa: E402

warnings.simplefilter('ignore')
TOOL, COUNT = str(pathlib.Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) > 2 else 12000
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))  # an expression may ask for more


def run(programs):
    joined = b''.join(b'%d\n%s' % (len(text.encode()), text.encode()) for text in programs)
    done = subprocess.run([TOOL], input=joined, capture_output=True, timeout=60, check=False)
    expect('the tool ends', done.returncode == 0, done.returncode, done.stderr[-1000:].decode())
    return done.stdout.decode().split('\n')[:-1]


# ---- random expressions: each is a text and CPython's value, or None where CPython raises an error ----


class Maker:
    def __init__(self, rng):
        self.rng = rng

    def number(self):
        r = self.rng
        return r.choice([lambda: str(r.randrange(-9, 10)), lambda: str(r.randrange(-10**6, 10**6)), lambda: str(r.randrange(2**63)),
                         lambda: repr(r.uniform(-10, 10)), lambda: repr(r.choice([0.0, -0.0, 0.5, 1e300, 1e-300, 1e16, 123456789.125])),
                         lambda: r.choice(['True', 'False', '0', '1', '-1', '2', '63', '64']), lambda: repr(2.0**r.randrange(-60, 70))])()

    def text(self):
        r = self.rng
        return repr(''.join(r.choice('abcXY 01_,é"\'\n') for _ in range(r.randrange(6))))

    def sequence(self, depth):
        r = self.rng
        items = [self.any(depth - 1) for _ in range(r.randrange(4))]
        kind = r.randrange(5)
        if kind == 0:
            return '(' + ', '.join(items) + (',)' if len(items) == 1 else ')')
        if kind == 1:
            return f'range({", ".join(str(r.randrange(-5, 9)) for _ in range(r.randrange(1, 4)))})'
        if kind == 2:
            return '{' + ', '.join(f'{r.choice([self.text(), self.number()])}: {item}' for item in items) + '}'
        if kind == 3:
            return f'[{self.any(depth - 1)} for x in {self.any(depth - 1)} if {self.any(depth - 1)}]'.replace('7', 'x')
        return '[' + ', '.join(items) + ']'

    def spec(self):
        r = self.rng
        fill = r.choice(['', '', '*<', '>', '^', '=', '0^', 'é>'])
        return (fill + r.choice(['', '', '+', ' ', '-']) + r.choice(['', '0', '8', '012', '3']) +
                r.choice(['', '', '.0', '.3', '.10']) + r.choice(['', 'd', 'x', 'f', 'e', 'g', 's']))

    def call(self, depth):
        r = self.rng
        a, b = self.any(depth - 1), self.any(depth - 1)
        return r.choice([f'abs({a})', f'len({a})', f'min({a}, {b})', f'max({a}, {b})', f'min({a})', f'max({a})', f'sum({a})', f'int({a})',
                         f'float({a})', f'bool({a})', f'str({a})', f'list({a})', f'tuple({a})', f'dict({a})', f'dict(a={a}, b={b})',
                         f'list(zip({a}, {b}))', f'list(enumerate({a}))', f'list(enumerate({a}, {self.number()}))', f'sum({a}, {b})',
                         f'({a}).count({b})', f'({a}).index({b})', f'({a}).get({b}, 1)', f'list(({a}).items())', f'list(({a}).keys())',
                         f'list(({a}).values())', f'({a}).upper()', f'({a}).lower()', f'({a}).strip()', f'({a}).split()',
                         f'({a}).split({b})', f'({a}).join({b})', f'({a}).replace({b}, {self.text()})', f'({a}).startswith({b})',
                         f'({a}).endswith({b})', f'int({self.number()!r})', f'float({self.number()!r})', f'int(" 1_0 ")', f'float("inf")',
                         f'({a}).pop({b})', f'({a}).pop({b}, 2)'])

    def any(self, depth):
        r = self.rng
        if depth <= 0:
            return r.choice([self.number, self.number, self.text, lambda: 'None'])()
        a, b = self.any(depth - 1), self.any(depth - 1)
        kind = r.randrange(12)
        if kind < 4:
            op = r.choice(['+', '-', '*', '/', '//', '%', '**', '<<', '>>', '&', '|', '^', '==', '!=', '<', '<=', '>', '>=', 'in', 'not in',
                           'and', 'or'])
            if op == '**':
                b = str(r.randrange(-3, 20))
            if op in ('*', '<<'):
                b = str(r.randrange(-2, 70))
            if op == '*' and r.randrange(2):
                a, b = self.number(), self.number()
            return f'({a} {op} {b})'
        if kind == 4:
            return f'({r.choice(["-", "+", "~", "not "])}{a})'
        if kind == 5:
            return f'({a} if {self.any(depth - 1)} else {b})'
        if kind == 6:
            return f'({a} {r.choice(["<", "==", ">="])} {b} {r.choice(["<", "!=", "<="])} {self.any(0)})'
        if kind == 7:
            index = r.choice([str(r.randrange(-4, 5)), b, ':'.join(r.choice(['', str(r.randrange(-5, 6))]) for _ in range(r.choice([2, 3])))])
            return f'{a if a[0] in "([{" else "(" + a + ")"}[{index}]'
        if kind == 8:
            value = r.choice([self.number(), self.text()])
            return "f'" + r.choice(['', 'a{{', 'b']) + '{' + value.replace("'", '"') + r.choice(['', '!r', '!s']) + r.choice(['', ':' + self.spec()]) + "}'"
        if kind == 9:
            return self.sequence(depth)
        return self.call(depth)


def reference(text):
    """CPython's value of an expression. Its integers count as wide where a step had more than 64 bits."""
    try:
        return True, eval(text, {'__builtins__': {name: getattr(__import__('builtins'), name) for name in (
            'abs bool dict enumerate float int len list max min range str sum tuple zip').split()}})
    except (ArithmeticError, LookupError, TypeError, ValueError, MemoryError, AttributeError, NameError):
        return False, None


def is_supported(text):
    """Leaves out what the language refuses on purpose, or needs no agreement about."""
    try:
        compile(text, 'm', 'eval')
    except (SyntaxError, ValueError, MemoryError):
        return False
    return True


def check_random(count):
    rng = random.Random(20261130)
    maker, texts = Maker(rng), []
    while len(texts) < count:
        text = maker.any(rng.randrange(1, 4))
        if len(text) < 300 and is_supported(text):
            texts.append(text)
    values = same = errors = 0
    for text, said in zip(texts, run([f'r = {text}\n' for text in texts])):
        known, value = reference(text)
        if known and isinstance(value, complex):
            known = False
        if said.startswith('value '):
            good = known and repr(value) == said[6:]
            expect(f'{text}: the value', good, said[:200], '; CPython has', repr(value)[:200] if known else 'an error')
            values += 1
            same += good
        elif known:
            ours = '64 bit' in said or 'more than 64' in said or 'a range' in said
            expect(f'{text}: an error where CPython has {value!r:.100}', ours or is_own_refusal(said, text), said[:200])
        else:
            errors += 1
    expect('half of the expressions have values', values > count // 4, values, count)
    expect('a quarter of them are errors on both sides', errors > count // 10, errors)
    return values, errors


OWN = ('needs more than 64 bits', "'%' does not take str", 'takes texts in ASCII', 'of an empty text', 'steps while', 'has no attribute',
       'does not fit an int of 64 bits', 'the format', 'cannot be a key', 'that int() can hold')


def is_own_refusal(said, text):
    return any(word in said for word in OWN) and ('has no attribute' not in said or any(name in text for name in ('pop', 'count', 'index'))) or 'is not part of the language' in said


PROGRAMS = '''\
r = []
for i, (a, b) in enumerate(zip([1, 2, 3], "xyz")):
    r.append((i, a, b))
---
def f(a, b=2, *, c=3):
    return [a, b, c]
r = f(1) + f(1, 5) + f(b=7, a=0, c=9)
---
def outer(n):
    total = 0
    for i in range(n):
        if i % 2:
            total += i
        elif i % 3 == 0:
            total -= i
        else:
            pass
    return total
r = [outer(n) for n in range(12)]
---
x = [1, 2]
y = x
y += [3]
x[0] = 9
x[-1] = 8
r = (x, y)
---
d = dict(a=1)
d["b"] = 2
d.update({"a": 5}, c=7)
d.pop("b")
d["b"] = 3
r = [d, list(d), len(d), "a" in d, d.get("z"), d == {"a": 5, "c": 7, "b": 3}]
---
a = b = 1
a, (b, *c) = 1, (2, 3)
---
a, b = 1, 2
a, b = b, a
r = (a, b)
---
def make(n):
    def add(x):
        return x + n
    n = n * 10
    return add
r = make(2)(5)
---
r = {i: [j for j in range(i)] for i in range(4) if i != 2}
---
r = [(x, y) for x in range(3) for y in range(x) if x + y > 1]
---
x = 5
r = [x for x in range(3)]
r = (x, r)
---
def f(x):
    "a comment"
    return
r = f(1)
---
r = [f"{3.14159:.3f} {255:x} {1e10:g} {7:03d} {'ab'!r:>6} {1/3}", f"{1 + 1}{'x' * 2}"]
---
def f(n):
    with_default = n or 7
    assert with_default > 0, "positive"
    return with_default
r = [f(0), f(3)]
---
n: int = 3
n //= 2
n **= 3
n <<= 4
n |= 1
r = n
---
r = [1 == 1.0, hash if False else 0, {1: "a", 1.0: "b", True: "c"}, 2**53 == 2.0**53, 2**53 + 1 == 2.0**53, 3 < 3.5, (1, 2) < (1, 3)]
---
r = [-7 // 2, -7 % 2, 7 // -2, 7 % -2, -7.5 // 2, -7.5 % 2, 7.5 % -2, 0.0 * -1, 5e-324 / 2, 1e308 * 10, -8 >> 1, 1 << 62]
---
r = [9007199254740993 / 1, 1 / 3, 2**62 / 3, 9223372036854775807 / 9007199254740993, 7 / -2, 0 / -3]
---
r = [range(10)[2:8:2], range(10)[::-1], range(5) == range(0, 5, 1), len(range(0, 10, 3)), 4 in range(0, 10, 2), range(10)[-1]]
---
r = "a,b,,c".split(",") + " x  y ".split() + ["-".join(["a", "b"]), "abcabc".replace("b", "xx"), "  q ".strip()]
---
r = [[0] * 3, "ab" * 2, (1,) * 0, 3 * [1], [1, 2] + [3], "a" "b", (1, 2) + (3,)]
'''

# A program, and the start of the error that it must have; CPython raises one, too, where there is no third item.
REFUSED = [
    ('r = 9223372036854775807 + 1', '912 9223372036854775807 + 1 needs more than 64 bits', 'own'),
    ('r = -9223372036854775807 - 2', '912 -9223372036854775807 - 2 needs more than 64 bits', 'own'),
    ('r = 2 ** 63', '912 2 ** 63 needs more than 64 bits', 'own'),
    ('r = 1 << 63', '912 1 << 63 needs more than 64 bits', 'own'),
    ('r = -(-9223372036854775807 - 1)', '912 -(-9223372036854775808) needs more than 64 bits', 'own'),
    ('r = 1 // 0', '912 the divisor is 0'),
    ('r = 1.5 % 0', '912 the divisor is 0'),
    ('r = 0 ** -1', '912 0 has no negative power'),
    ('r = 10.0 ** 400', '912 the power is too large for a float'),
    ('r = 1 << -1', '912 a number is shifted by -1 bits; expected at least 0'),
    ('r = 1 + "a"', "911 '+' does not take int and str"),
    ('r = [1] < 2', "911 '<' does not take list and int"),
    ('r = -"a"', "911 '-' does not take str"),
    ('r = [1, 2][5]', '912 the index is 5; list has 2 items'),
    ('r = [1]["a"]', '911 the index of list is str, not an int or a slice'),
    ('r = {"a": 1}["b"]', "912 the dict has no key 'b'"),
    ('r = {[]: 1}', '911 list cannot be a key of a dict'),
    ('r = [1][::0]', '912 the step of a slice is 0'),
    ('r = range(1, 2, 0)', '912 the step of a range is 0'),
    ('r = (1)[0]', '911 int has no items'),
    ('a, b = 1, 2, 3', '912 2 names stand for 3 values'),
    ('for x in 5: pass', '911 int has no items'),
    ('r = y', "910 the name 'y' is not known"),
    ('value = 1\nr = valeu', "910 the name 'valeu' is not known; did you mean 'value'?"),
    ('def f():\n    if False:\n        a = 1\n    return a\nr = f()', "910 'a' is not bound yet"),
    ('def f(a): return a\nr = f()', "915 f() needs a value for 'a'"),
    ('def f(a): return a\nr = f(1, 2)', '915 f() takes 1 arguments without name; this is number 2'),
    ('def f(a): return a\nr = f(1, a=2)', "915 the parameter 'a' of f() gets two values"),
    ('def f(alpha): return alpha\nr = f(alhpa=2)', "915 f() has no parameter 'alhpa'; did you mean 'alpha'?"),
    ('def f(a, a): return a', "910 the function has two parameters 'a'"),
    ('def f(a): return a\nr = f(a=1, a=2)', "915 the argument 'a' is given twice"),
    ('def f(n): return f(n - 1)\nr = f(3)', '913 f() calls itself', 'own'),
    ('r = len()', '915 len() has 0 arguments; expected at least 1 and at most 1'),
    ('r = len(3)', '911 len() does not take int'),
    ('r = int("x")', "912 'x' is not a number that int() can hold"),
    ('r = float("1e")', "912 '1e' is not a number that float() can hold"),
    ('r = int(1e30)', '912 the float 1e+30 does not fit an int of 64 bits', 'own'),
    ('r = max([])', '912 max() of no values'),
    ('r = "a".foo', "910 str has no attribute 'foo'"),
    ('r = 5()', '911 int cannot be called'),
    ('r = ",".join([1])', '911 item 0 is int, not str'),
    ('r = [1].index(2)', '912 the value is not among the items'),
    ('r = f"{1.5:d}"', "912 the format 'd' is not one of float"),
    ('r = f"{1:q}"', "912 the format 'q' is not one of int"),
    ('assert 1 > 2, f"{1} is not greater"', '914 1 is not greater'),
    ('assert False', '914 the assertion does not hold'),
    ('return 1', "911 'return' stands outside a function"),
    ('1 + 1', '917 the value of this expression is not used', 'own'),
    ('python@f', '917 the value of this expression is not used', 'own'),
    ('import numpy', "916 'numpy' cannot be imported: programs are compiled without Python", 'own'),
    ('from os import path', "916 'os' cannot be imported: programs are compiled without Python", 'own'),
    ('x = 1\nx.y = 2', '911 values have no attributes that can be assigned to'),
    ('x = "a"\nx[0] = "b"', '911 an item of str at int cannot be assigned to'),
    ('with 1: pass', "911 int cannot stand in 'with'"),
    ('for i in range(10000000): x = i', '913 the program takes more than 1048576 steps while it is compiled', 'own'),
    ('r = [0] * 100000000000', '913 the program takes more than 1048576 steps while it is compiled', 'own'),
    ('r = "a" * 100000000000', '913 the program takes more than 1048576 steps while it is compiled', 'own'),
    ('x = "ab"\nfor i in range(60): x = x + x', '913 the program takes more than 1048576 steps while it is compiled', 'own'),
    ('x = []\nfor i in range(200): x = [x]\nr = x == x', '913 more than 100 values are nested', 'own'),
    ('x = []\nx.append(x)\nr = x == x', '913 more than 100 values are nested', 'own'),
    ('x = [1]\nfor i in range(60): x = [x, x]\nr = f"{x}"', '913 the program takes more than 1048576 steps while it is compiled', 'own'),
    ('\n'.join(f'def f{i}(): return f{i + 1}()' for i in range(70)) + '\ndef f70(): return 1\nr = f0()', '913 more than 64 calls are open', 'own'),
]


def check_programs():
    programs = [text for text in PROGRAMS.split('---\n')]
    for text, said in zip(programs, run(programs)):
        names = {}
        try:
            exec(compile(text, 'm', 'exec'), names)
        except (ValueError, TypeError):
            pass
        if '*c' in text:
            expect(text, said.startswith('error') and '905' in said, said)
        else:
            expect(text, said == f'value {names["r"]!r}', said, '; CPython has', repr(names.get('r')))
    for (text, message, *own), said in zip(REFUSED, run([text + '\n' for text, *_ in REFUSED])):
        expect(f'{text[:60]!r}: {message}', said.startswith('error ') and said.split(' ', 3)[3].startswith(message), said)
        try:
            exec(compile(text, 'm', 'exec'), {}) if not own else None
            expect(f'{text!r}: CPython refuses it', own)
        except Exception:
            checks_done = True
            expect('CPython refuses it', checks_done)


def check_shown():
    text = 'def g(x):\n    return x + "a"\n\ndef f(n):\n    for i in range(n):\n        g(i)\n\nf(3)\n'
    done = subprocess.run([TOOL, '-t'], input=b'%d\n%s' % (len(text), text.encode()), capture_output=True, check=False).stdout.decode()
    expect('calls and the step of a loop', done == '''\
m.py:2:12: error: [TSR-0911] '+' does not take int and str
    return x + "a"
           ^~~~~~~
m.py:6:9: note: called from here
        g(i)
        ^~~~
m.py:5:9: note: in the step with i = 0
    for i in range(n):
        ^
m.py:8:1: note: called from here
f(3)
^~~~
''', done)


values, errors = check_random(COUNT)
check_programs()
check_shown()
finish(f'{COUNT} random expressions: {values} values and {errors} errors as in CPython')
