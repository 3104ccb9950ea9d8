#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs in Python syntax from their text to their results.

programs.py AOT RUN ROOT

The example programs give the bits of their .mlir: outputs, or the state after some steps. Programs that must be refused are refused with
their message, at its place.
"""
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish, run  # noqa: E402

AOT, RUN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
ROOT = pathlib.Path(sys.argv[3]).resolve()
EXAMPLES, TARGET = ROOT / 'examples', '--target=cpu:x86-64-v2'
COMPILE = 9


def build(folder, source, bundle):
    done = run(folder, AOT, 'build', source, '-o', bundle, TARGET)
    expect(f'{source} is built', done.returncode == 0, done.stderr)


# ---- the same bits as the .mlir ----


def compare_outputs(folder, name, entry, entry_py):
    """The one output of an entry, from the arrays in the example's folder."""
    inputs = [word for path in sorted((EXAMPLES / name).glob('*.npy')) if path.stem != 'expected'
              for word in ('--input', f'{path.stem}={path}')]
    for ending, called in (('mlir', entry), ('py', entry_py)):
        build(folder, str(EXAMPLES / name / f'{name}.{ending}'), f'{ending}.tsb')
        done = run(folder, RUN, f'{ending}.tsb', '--entry', called, *inputs, '--output', f'y={ending}.npy')
        expect(f'{name}.{ending} runs', done.returncode == 0, done.stderr)
    expect(f'{name}: the same bits', (folder / 'mlir.npy').read_bytes() == (folder / 'py.npy').read_bytes())


def compare_states(folder, name, sources, data, steps):
    states = []
    for source in sources:
        build(folder, str(source), 'trained.tsb')
        words = [word for pair in data for word in ('--data', pair)]
        state = folder / f'{name}-{len(states)}'
        done = run(folder, RUN, 'trained.tsb', *words, '--steps', str(steps), '--state-dir', str(state))
        expect(f'{source} trains', done.returncode == 0, done.stderr)
        states += re.findall(r'^state ([0-9a-f]{64})', done.stdout + done.stderr, re.M)
    expect(f'{name}: the same state after {steps} steps', len(states) == 2 and states[0] == states[1], states)


def small_gpt2(folder):
    """GPT-2 with 12 layers of width 64, from both texts."""
    sizes = {'batch': 2, 'positions': 32, 'width': 64, 'heads': 4, 'vocabulary': 300, 'window': 16}
    words = [word for key, value in sizes.items() for word in (f'--{key}', str(value))]
    mlir = run(folder, str(ROOT / 'tests/python'), str(EXAMPLES / 'gpt2/sizes.py'), *words)
    (folder / 'small.mlir').write_text(mlir.stdout, 'utf-8')
    text = (EXAMPLES / 'gpt2/gpt2.py').read_text('utf-8')
    line = 'LAYERS, WIDTH, HEADS, POSITIONS, TOKENS, BATCH, WINDOW = '
    small = re.sub(f'^{line}.*$', f'{line}12, 64, 4, 32, 300, 2, 16', text, flags=re.M)
    expect('the sizes of GPT-2 are one line', small != text)
    (folder / 'small.py').write_text(small, 'utf-8')
    import numpy as np
    tokens = np.random.default_rng(3).integers(0, 300, size=(8, 33)).astype('<u2')
    np.save(folder / 'rows.npy', tokens.view(np.uint8).reshape(8, 66))
    return [folder / 'small.mlir', folder / 'small.py']


def check_examples(folder):
    compare_outputs(folder, 'matmul', 'matmul', 'matmul_bias_gelu')
    compare_outputs(folder, 'softmax', 'softmax', 'rows')
    compare_outputs(folder, 'flash-attn', 'attention', 'attend')
    compare_outputs(folder, 'flash-attn-bf16', 'attention', 'attend')
    digits = [f'{name}={EXAMPLES}/digits/{file}.npy' for name, file in
              (('images', 'train-images'), ('labels', 'train-labels'), ('test_images', 'test-images'), ('test_labels', 'test-labels'))]
    for name, steps in (('digits', 50), ('convnet', 8)):
        compare_states(folder, name, [EXAMPLES / name / f'{name}.{ending}' for ending in ('mlir', 'py')], digits, steps)
    (folder / 'test.txt').write_bytes((EXAMPLES / 'gpt-char/test.txt').read_bytes()[:2080])
    letters = [f'text={EXAMPLES}/gpt-char/train.txt', 'test_text=test.txt']
    compare_states(folder, 'gpt-char', [EXAMPLES / 'gpt-char' / f'gpt-char.{ending}' for ending in ('mlir', 'py')], letters, 1)
    compare_states(folder, 'gpt2', small_gpt2(folder), ['text=rows.npy', 'test_text=rows.npy'], 3)


# ---- programs that are refused ----

HEAD = 'from tessera import *\n'


def entry(body, parameters='x: Tensor[4, 3, f32]', kind='infer'):
    lines = ''.join(f'    {line}\n' for line in body.split('\n'))
    return f'{HEAD}@function(entry="{kind}")\ndef f({parameters}):\n{lines}'


# A program, and the first line of what is said.
REFUSED = [
    (HEAD + 'x = 1\n', '1:1: error: [TSR-0920] the program has no entry; put @function(entry="infer") before a function'),
    (entry('return x'), '3:1: error: [TSR-0920] an entry returns a dict from names to tensors, as {\'y\': y}, not a tensor'),
    (entry('return {"y": 1}'), '3:1: error: [TSR-0920] an entry returns a dict from names to tensors, as {\'y\': y}, not dict'),
    (entry('return {"y": x}', 'x'), "3:7: error: [TSR-0920] parameter 'x' of an entry needs a type, as x: Tensor[64, 10, f32]; at most 256 parameters are allowed"),
    (entry('return {"y": x}', 'x: Tensor[0, f32]'), '3:10: error: [TSR-0920] dim 0 of the type is not an int of at least 1'),
    (entry('return {"y": x}', 'x: Tensor[4]'), "3:7: error: [TSR-0920] parameter 'x' of an entry needs a type, as x: Tensor[64, 10, f32]; at most 256 parameters are allowed"),
    (entry('return {"y": x}', 'x: Tensor[4, f33]'), "3:20: error: [TSR-0910] the name 'f33' is not known; did you mean 'f32'?"),
    (entry('return {"y": x}').replace('entry="infer"', 'data={}'), '2:2: error: [TSR-0915] function() needs entry="train", "eval" or "infer"'),
    (entry('return {"y": x}').replace('entry="infer"', 'entry="infer", data={"q": "d"}'), "2:2: error: [TSR-0920] 'data' names q, which is not a parameter of f, or no text"),
    (entry('return {"y": x}') + entry('return {"y": x}')[len(HEAD):], "6:1: error: [TSR-0920] two entries are called 'f'"),
    (HEAD + 'y = iota(3, i64)\n', '2:5: error: [TSR-0920] a tensor is computed outside of an entry; put the code into a function'),
    (entry('if x > 0.0:\n    pass\nreturn {"y": x}'), "4:8: error: [TSR-0918] a tensor's value is not known while the program is compiled; where(c, a, b) selects elements, cond(c, f, g) and while_loop(…) run code"),
    (entry('y = x and x\nreturn {"y": y}'), "4:9: error: [TSR-0918] a tensor's value is not known while the program is compiled; where(c, a, b) selects elements, cond(c, f, g) and while_loop(…) run code"),
    (entry('x[0] = 1.0\nreturn {"y": x}'), '4:5: error: [TSR-0918] elements of a tensor cannot be assigned; where(condition, a, b) or scatter_add(…) makes a new tensor'),
    (entry('y = f"{x}"\nreturn {"y": x}'), "4:12: error: [TSR-0918] a tensor's value is not known while the program is compiled; a text cannot show it"),
    (entry('return {"y": reshape(x, (x, 1))}'), '4:29: error: [TSR-0911] expected a list of ints, not tuple'),
    (entry('return {"y": softmax_safe(x, axis=x)}'), '4:39: error: [TSR-0918] expected an int, not a tensor: it is needed while the program is compiled'),
    (entry('return {"y": x @ x}'), '4:18: error: [TSR-0102] tessera.matmul: '),
    (entry('return {"y": x + cast(x, f64)}'), '4:18: error: [TSR-0111] tessera.add: element types differ: lhs is f32, rhs is f64'),
    (entry('return {"y": softmax_safe(x, axis=2)}'), '4:18: error: [TSR-0106] tessera.softmax_safe: '),
    (entry('return {"y": reshape(x, (5, 2))}'), '4:18: error: [TSR-0107] tessera.reshape: '),
    (entry('return {"y": reshape(x, (0, 2))}'), '4:29: error: [TSR-0912] dim 0 has size 0; expected at least 1'),
    (entry('return {"y": rellu(x)}'), "4:18: error: [TSR-0910] the name 'rellu' is not known; did you mean 'relu'?"),
    (entry('return {"y": softmax_safe(x, axes=1)}'), "4:34: error: [TSR-0915] softmax_safe() has no parameter 'axes'; did you mean 'axis'?"),
    (entry('return {"y": softmax_safe(x)}'), "4:18: error: [TSR-0915] softmax_safe() needs a value for 'axis'"),
    (entry('return {"y": relu(x, 1)}'), '4:26: error: [TSR-0915] relu() takes 1 arguments; this is number 2'),
    (entry('return {"y": gelu(x, approximate=1)}'), '4:38: error: [TSR-0911] expected a text, not int'),
    (entry('return {"y": cast(x, 1)}'), '4:26: error: [TSR-0911] expected an element type, as f32, not int'),
    (entry('return {"y": relu("a")}'), '4:23: error: [TSR-0911] expected a tensor or numbers, not str'),
    (entry('return {"y": x + "a"}'), '4:18: error: [TSR-0911] expected a tensor or numbers, not str'),
    (entry('return {"y": x // 2}'), "4:18: error: [TSR-0911] '//' does not take a tensor and int"),
    (entry('return {"y": x * 0.5}', 'x: Tensor[4, i32]'), '4:18: error: [TSR-0911] a float meets a tensor of i32; cast(x, f32) makes it one of floats'),
    (entry('return {"y": x[4]}'), '4:18: error: [TSR-0912] the index is 4; dim 0 has 4 elements'),
    (entry('return {"y": x[0, 0, 0]}'), '4:18: error: [TSR-0912] 3 indices select from a tensor of 2 dims'),
    (entry('return {"y": x[3:1]}'), '4:18: error: [TSR-0912] the slice of dim 0 selects 0 elements with step 1; expected at least one, in ascending order'),
    (entry('return {"y": x["a"]}'), '4:18: error: [TSR-0911] a tensor is indexed by str; expected an int or a slice, and gather(x, indices) for a tensor'),
    (entry('return {"y": x.foo}'), "4:20: error: [TSR-0910] a tensor has no attribute 'foo'"),
    (entry('return {"y": x.T}', 'x: Tensor[4, f32]'), "4:18: error: [TSR-0912] '.T' needs two dims; the tensor has 1"),
    (entry('a, b = split(x, 5, axis=0)\nreturn {"y": a}'), '4:12: error: [TSR-0912] axis 0 cannot be split into 5 equal parts; at most 64 parts are allowed'),
    (entry('w = param("w", (3,), f32, init=1.0)\nreturn {"y": x + w}'), '4:36: error: [TSR-0911] expected an init rule, not float'),
    (entry('w = param("w", (3,), f32)\nreturn {"y": x + w}'), "4:9: error: [TSR-0915] param() needs a value for 'init'"),
    (entry('w = param("w", (-3,), f32, init=constant(1.0))\nreturn {"y": x + w}'), '4:20: error: [TSR-0912] dim 0 has size -3; expected at least 1'),
    (entry('minimize(mean(x), sgd())\nreturn {}', kind='train'), "4:23: error: [TSR-0915] sgd() needs a value for 'lr'"),
    (entry('minimize(mean(x), normal(0.0, 1.0))\nreturn {}', kind='train'), '4:23: error: [TSR-0911] expected an optimizer, not a setting'),
    (entry('minimize(mean(x), adamw(lr="a"))\nreturn {}', kind='train'), '4:32: error: [TSR-0911] expected a number, not str'),
    (entry('minimize(mean(x), sgd(lr=1.0), lr_schedule=cosine(warmup_steps=1.5))\nreturn {}', kind='train'), '4:68: error: [TSR-0911] expected an int, not float'),
    (entry('with scope(1): pass\nreturn {"y": x}'), '4:16: error: [TSR-0911] expected a text, not int'),
    (entry('return {"y": vmap(x)}'), "4:18: error: [TSR-0910] this version of Tessera has no 'vmap'"),
    (entry('1 + x\nreturn {"y": x}'), '4:5: error: [TSR-0917] the value of this expression is not used'),
    ('import numpy\n' + entry('return {"y": x}'), "1:8: error: [TSR-0916] 'numpy' cannot be imported: there is no numpy.py beside the program, and programs are compiled without Python"),
    (HEAD + 'class A: pass\n', "2:1: error: [TSR-0905] 'class' is not part of the language; a function and a dict serve here"),
    (HEAD + 'x = (1\n', "2:5: error: [TSR-0904] '(' is never closed"),
]

CALLED = '''\
from tessera import *

def product(a, b):
    return a @ b

@function(entry="infer")
def f(x: Tensor[4, 3, f32]):
    for i in range(2):
        x = product(x, x)
    return {"y": x}
'''


ORDER = HEAD + '''
def g(x):
    return x @ x

@function(entry="infer")
def f(x: Tensor[4, 3, f32]):
    a = g(x)
    b = rellu(a)
    c = reshape(x, (5, 5))
    d = c + a + b
    return {"y": undefined(d)}
'''


def check_order(folder):
    (folder / 'm.py').write_text(ORDER, 'utf-8')
    done = run(folder, AOT, 'check', 'm.py')
    lines = [int(line) for line in re.findall(r'^m\.py:(\d+):\d+: error', done.stderr, re.M)]
    expect('errors in the order of lines, and none that follows from another', lines == [4, 9, 10, 12], done.stderr)
    (folder / 'm.py').write_text(entry('if x.rank > 3:\n    y = x\nreturn {"y": y}'), 'utf-8')
    done = run(folder, AOT, 'check', 'm.py')
    expect('both places of a name that is bound in a branch', done.stderr.startswith("m.py:6:18: error: [TSR-0910] 'y' is not bound yet: ")
           and 'm.py:5:9: note: it is assigned here' in done.stderr, done.stderr)


def check_refused(folder):
    source = folder / 'm.py'
    for text, message in REFUSED:
        source.write_text(text, 'utf-8')
        done = run(folder, AOT, 'check', 'm.py')
        expect(f'{message}', done.returncode == COMPILE and done.stderr.startswith(f'm.py:{message}'), done.returncode, done.stderr[:400], text)
    source.write_text(CALLED, 'utf-8')
    done = run(folder, AOT, 'check', 'm.py')
    expect('an error of an op shows its place and the call', re.search(
        r'm\.py:4:12: error: \[TSR-0102\] tessera\.matmul: .*\n    return a @ b\n           \^~~~~\nm\.py:9:13: note: called from here\n', done.stderr), done.stderr)
    json = run(folder, AOT, 'check', '--diagnostics=json', 'm.py')
    expect('the same as JSON', '"number":"TSR-0102"' in json.stderr and '"line":4' in json.stderr, json.stderr)


# Lines of an entry with an error whose fix makes the program one that compiles.
FIXED = [
    'return {"y": rellu(x)}',
    'return {"y": softmax_safe(x, axes=1)}',
    'return {"y": gelu(x, aproximate="tanh")}',
    'return {"y": reshape(x, x.shap)}',
    'd = {"y": x}\nd.updat({"z": x})\nreturn d',
    'def g(a, *, scale): return a * scale\nreturn {"y": g(x, scael=2.0)}',
    'y = cast(x, f23)\nreturn {"y": y}',
    'pixels = relu(x)\nreturn {"y": pixel}',
    'from tessera import tanhh as t\nreturn {"y": t(x)}',
    'on scope("a"):\n    y = x\nreturn {"y": y}',
    'weight = param("w", (3,), f32, init=constnat(1.0))\nreturn {"y": x * weight}',
]


def apply_fix(text, said):
    """The text with the first fix that a message offers."""
    fix = re.search(r'"line":(\d+).*?"fix":\{"column":(\d+),"length":(\d+),"text":"([^"]*)"\}', said)
    if not fix:
        return text
    line, column, length, by = int(fix[1]) - 1, int(fix[2]) - 1, int(fix[3]), fix[4]
    lines = text.split('\n')
    lines[line] = lines[line][:column] + by + lines[line][column + length:]
    return '\n'.join(lines)


def check_fixes(folder):
    for body in FIXED:
        text = entry(body)
        (folder / 'fix.py').write_text(text, 'utf-8')
        said = run(folder, AOT, 'check', '--strict-python', '--diagnostics=json', 'fix.py')
        expect(f'{body}: refused', said.returncode == COMPILE, said.stderr)
        fixed = apply_fix(text, said.stderr)
        (folder / 'fix.py').write_text(fixed, 'utf-8')
        done = run(folder, AOT, 'check', '--strict-python', 'fix.py')
        expect(f'{body}: compiles with its fix', fixed != text and done.returncode == 0, fixed, done.stderr)


with tempfile.TemporaryDirectory() as name:
    check_refused(pathlib.Path(name))
    check_fixes(pathlib.Path(name))
    check_order(pathlib.Path(name))
    check_examples(pathlib.Path(name))
finish(f'{len(REFUSED)} refused programs, {len(FIXED)} fixes')
