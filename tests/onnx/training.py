#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Inference models written by writer.py are trained with --train and compared with NumPy in float64; wrong texts are refused.

training.py AOT RUN
"""
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

import writer as w

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish, run  # noqa: E402

AOT, RUN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
TARGET = '--target=cpu:x86-64-v2'
USAGE, COMPILE = 6, 9
SGD = ('--optimizer', 'sgd(lr=0.1)')
rng = np.random.default_rng(11)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def build(folder, loss, *words, out='t.tsb'):
    process = run(folder, AOT, 'build', 'm.onnx', '-o', out, TARGET, '--train', loss, *words)
    expect(f'a build with {loss}', process.returncode == 0, process.stderr)


def train(folder, data, steps, *words, bundle='t.tsb'):
    """Returns the losses and the hash of the last state."""
    for name, value in data.items():
        np.save(folder / f'{name}.npy', value)
    (folder / 'log.jsonl').unlink(missing_ok=True)
    pairs = [word for name in data for word in ('--data', f'{name}={name}.npy')]
    process = run(folder, RUN, bundle, *pairs, '--steps', str(steps), '--metrics', 'log.jsonl', *words)
    expect('a run', process.returncode == 0, process.stderr)
    records = [json.loads(line) for line in (folder / 'log.jsonl').read_text().splitlines()]
    losses = [record['outputs']['loss'] for record in records if 'loss' in record.get('outputs', {})]
    return losses, re.findall(r'^state (\w{64})', process.stdout, re.M)[-1:]


def params_of(folder, bundle='t.tsb', state='S'):
    process = run(folder, AOT, 'bake', bundle, '--state-dir', state, '--export-params', 'p.safetensors')
    expect('an export of parameters', process.returncode == 0, process.stderr)
    data = (folder / 'p.safetensors').read_bytes()
    size = int.from_bytes(data[:8], 'little')
    header = json.loads(data[8:8 + size])
    header.pop('__metadata__', None)
    values = {}
    for name, tensor in header.items():
        begin, end = tensor['data_offsets']
        values[name] = np.frombuffer(data[8 + size + begin:8 + size + end], np.float32).reshape(tensor['shape'])
    return values


def predict(folder, x, output, bundle='t.tsb', state='S'):
    np.save(folder / 'in.npy', x)
    process = run(folder, RUN, bundle, '--entry', 'main', '--state-dir', state, '--input', 'x=in.npy', '--output', f'{output}=out.npy')
    expect('a call of main', process.returncode == 0, process.stderr)
    return np.load(folder / 'out.npy')


# ---- models, and what they compute ----


def perceptron(normed=False, hidden=16):
    """Gemm, optionally BatchNormalization, Relu, Gemm."""
    p = {'fc1.weight': floats(hidden, 8) / 3, 'fc1.bias': floats(hidden), 'fc2.weight': floats(4, hidden) / 4, 'fc2.bias': floats(4)}
    nodes = [w.node('Gemm', ['x', 'fc1.weight', 'fc1.bias'], ['a'], 'fc1', transB=1)]
    if normed:
        p.update({'bn.scale': 1 + floats(hidden) / 4, 'bn.bias': floats(hidden), 'bn.mean': floats(hidden), 'bn.var': 1 + floats(hidden)**2})
        nodes += [w.node('BatchNormalization', ['a', 'bn.scale', 'bn.bias', 'bn.mean', 'bn.var'], ['n'], 'bn', epsilon=1e-3, momentum=0.75)]
    nodes += [w.node('Relu', ['n' if normed else 'a'], ['r']), w.node('Gemm', ['r', 'fc2.weight', 'fc2.bias'], ['logits'], 'fc2', transB=1)]
    tensors = [w.tensor(name, value) for name, value in p.items()]
    return w.model(w.graph(nodes, [w.info('x', ['N', 8])], [w.info('logits', ['N', 4])], tensors)), p


def forward(p, x, statistics=None):
    """statistics: running mean and variance; None: those of the batch."""
    a = x @ p['fc1.weight'].T + p['fc1.bias']
    keep = {'a': a}
    if 'bn.scale' in p:
        mean, var = statistics or (a.mean(0), a.var(0))
        keep['inverse'] = 1 / np.sqrt(var + 1e-3)
        keep['normed'] = (a - mean) * keep['inverse']
        a = keep['normed'] * p['bn.scale'] + p['bn.bias']
    keep['r'] = np.maximum(a, 0)
    return keep['r'] @ p['fc2.weight'].T + p['fc2.bias'], keep


def step(p, x, labels):
    """The loss and the gradients of the mean cross entropy."""
    logits, keep = forward(p, x)
    shifted = logits - logits.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    rows = np.arange(len(x))
    d = np.exp(logs)
    d[rows, labels] -= 1
    d /= len(x)
    grads = {'fc2.weight': d.T @ keep['r'], 'fc2.bias': d.sum(0)}
    d = (d @ p['fc2.weight']) * (keep['r'] > 0)
    if 'bn.scale' in p:
        grads.update({'bn.scale': (d * keep['normed']).sum(0), 'bn.bias': d.sum(0)})
        d = d * p['bn.scale']
        d = (d - d.mean(0) - keep['normed'] * (d * keep['normed']).mean(0)) * keep['inverse']
    grads.update({'fc1.weight': d.T @ x, 'fc1.bias': d.sum(0)})
    return -logs[rows, labels].mean(), grads, keep


def adamw(p, grads, moments, t, lr=1e-2, decay=0.05):
    for name, g in grads.items():
        m, v = moments.setdefault(name, (0, 0))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        moments[name] = m, v
        p[name] = p[name] * (1 - lr * decay) - lr * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)


def sgd(p, grads, moments, t, lr=0.1, momentum=0.9):
    for name, g in grads.items():
        moments[name] = momentum * moments.get(name, 0) + g
        p[name] = p[name] - lr * moments[name]


def reference(p, data, steps, update, frozen=()):
    p, moments, losses = {name: value.astype(np.float64) for name, value in p.items()}, {}, []
    x = data['x'].astype(np.float64)
    for t in range(1, steps + 1):
        loss, grads, keep = step(p, x, data['labels'])
        losses.append(loss)
        if 'bn.mean' in p:  # ONNX's momentum is the weight of the old value; the variance is unbiased, as PyTorch's
            rows = len(x)
            p['bn.mean'] = 0.75 * p['bn.mean'] + 0.25 * keep['a'].mean(0)
            p['bn.var'] = 0.75 * p['bn.var'] + 0.25 * keep['a'].var(0) * rows / (rows - 1)
        update(p, {name: g for name, g in grads.items() if name not in frozen}, moments, t)
    return losses, p


def near(ours, theirs):
    """f32 against f64: the rounding errors of 50 steps."""
    return len(ours) == len(theirs) and np.allclose(ours, theirs, rtol=1e-4, atol=0)


def digits(rows=16):
    return {'x': floats(rows, 8), 'labels': rng.integers(0, 4, rows)}


# ---- training ----


def check_perceptron(folder):
    data, p = perceptron()
    (folder / 'm.onnx').write_bytes(data)
    flags = ('--dim', 'N=16', '--optimizer', 'adamw(lr=1e-2, weight_decay=0.05)')
    build(folder, 'cross_entropy(logits, labels)', *flags)
    batch = digits()
    ours, state = train(folder, batch, 50, '--state-dir', 'S')
    theirs, trained = reference(p, batch, 50, adamw)
    expect('the losses of a perceptron', near(ours, theirs) and theirs[-1] < 0.7 * theirs[0], ours[-1], theirs[-1])
    found = params_of(folder)
    expect('its parameters have their names', set(found) == set(p), set(found))
    expect('and values', all(np.allclose(found[name], trained[name], rtol=1e-3, atol=1e-4) for name in p))
    y = predict(folder, batch['x'], 'logits')
    expect('inference reads the trained parameters', np.allclose(y, forward(trained, batch['x'])[0], rtol=1e-3, atol=1e-3))

    process = run(folder, AOT, 'import', 'm.onnx', '-o', 'i.mlir', '--train', 'cross_entropy(logits, labels)', *flags)
    expect('an import with training', process.returncode == 0, process.stderr)
    process = run(folder, AOT, 'build', 'i.mlir', '-o', 'i.tsb', TARGET)
    expect('a build of it', process.returncode == 0, process.stderr)
    again, same = train(folder, batch, 50, bundle='i.tsb')
    expect('has the same bits', again == ours and same == state, same, state)


def check_batch_norm(folder):
    data, p = perceptron(normed=True)
    (folder / 'm.onnx').write_bytes(data)
    build(folder, 'cross_entropy(logits, labels)', '--dim', 'N=16', '--optimizer', 'sgd(lr=0.1, momentum=0.9)')
    batch = digits()
    ours, _ = train(folder, batch, 50, '--state-dir', 'S')
    theirs, trained = reference(p, batch, 50, sgd)
    expect('the losses with batch norm', near(ours, theirs) and theirs[-1] < 0.7 * theirs[0], ours[-1], theirs[-1])
    found = params_of(folder)
    for name in ('bn.mean', 'bn.var', 'bn.scale', 'bn.bias'):
        expect(f'{name} after training', np.allclose(found[name], trained[name], rtol=1e-3, atol=1e-4), found[name], trained[name])
    want = forward(trained, batch['x'], (trained['bn.mean'], trained['bn.var']))[0]
    expect('inference uses the running statistics', np.allclose(predict(folder, batch['x'], 'logits'), want, rtol=1e-3, atol=1e-3))


def check_freeze(folder):
    data, p = perceptron()
    (folder / 'm.onnx').write_bytes(data)
    build(folder, 'cross_entropy(logits, labels)', '--dim', 'N=16', '--optimizer', 'sgd(lr=0.1, momentum=0.9)', '--freeze', 'fc1.*',
          '--freeze', '*2.bias')
    batch = digits()
    ours, _ = train(folder, batch, 20, '--state-dir', 'S')
    frozen = {'fc1.weight', 'fc1.bias', 'fc2.bias'}
    theirs, trained = reference(p, batch, 20, sgd, frozen)
    found = params_of(folder)
    expect('the losses with frozen parameters', near(ours, theirs), ours[-1], theirs[-1])
    expect('frozen ones stay', all(np.array_equal(found[name], p[name]) for name in frozen))
    expect('others move', not np.allclose(found['fc2.weight'], p['fc2.weight'], atol=1e-3))


def check_resumes(folder):
    """Killed runs, virtual ranks and replays."""
    data, _ = perceptron(normed=True)
    (folder / 'm.onnx').write_bytes(data)
    build(folder, 'cross_entropy(logits, labels)', '--dim', 'N=16', '--virtual-ranks', '4', *SGD)
    batch = digits(160)
    _, whole = train(folder, batch, 600, '--record', 'r.log')
    _, ranks = train(folder, batch, 600, '--ranks', '2')
    expect('two ranks have the bits of one', whole == ranks and len(whole) == 1, whole, ranks)
    words = [RUN, 't.tsb', '--data', 'x=x.npy', '--data', 'labels=labels.npy', '--steps', '100000000', '--state-dir', 'S', '--save-every', '10']
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list((folder / 'S').glob('MANIFEST.*')):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    listing = run(folder, RUN, 'ls', 'S', '--json').stdout
    steps = [int(step) for step in re.findall(r'"step": ?(\d+)', listing)]
    expect('a killed run leaves a state', process.returncode == -signal.SIGKILL and steps, listing)
    target = max(steps, default=0) + 50
    _, resumed = train(folder, batch, target, '--state-dir', 'S')
    _, direct = train(folder, batch, target)
    expect('resuming it has the bits of one run', resumed == direct and len(direct) == 1, resumed, direct)
    process = run(folder, RUN, 't.tsb', '--data', 'x=x.npy', '--data', 'labels=labels.npy', '--replay', 'r.log')
    expect('a replay', process.returncode == 0, process.stderr)


def check_dropout(folder):
    size, ratio = 64, 0.25
    p = {'w': np.ones(size, np.float32)}
    nodes = [w.node('Mul', ['x', 'w'], ['a']), w.node('Dropout', ['a', 'ratio'], ['y'], 'drop')]
    tensors = [w.tensor('w', p['w']), w.tensor('ratio', np.float32(ratio))]
    (folder / 'm.onnx').write_bytes(w.model(w.graph(nodes, [w.info('x', [size, size])], [w.info('y', [size, size])], tensors)))
    build(folder, 'y * y', '--optimizer', 'sgd(lr=1e-30)')
    x = np.ones((size, size), np.float32)
    losses, _ = train(folder, {'x': x}, 20, '--state-dir', 'S')
    scaled = np.array(losses) * (1 - ratio)**2
    error = np.sqrt(ratio * (1 - ratio) / size**2)  # standard deviation of the share that is not dropped
    expect('dropout drops its share', np.all(np.abs(scaled - (1 - ratio)) < 5 * error), scaled)
    expect('and other elements in each step', len(set(losses)) > 15, losses)
    expect('but none in inference', np.array_equal(predict(folder, x, 'y'), x))
    found = params_of(folder)
    expect('the ratio is not trained', set(found) == {'w'}, set(found))


def check_training_mode(folder):
    """A file exported in training mode: its other entry is inference all the same."""
    p = {'s': floats(3), 'b': floats(3), 'm': floats(3), 'v': 1 + floats(3)**2}
    nodes = [w.node('BatchNormalization', ['x', 's', 'b', 'm', 'v'], ['n', 'm2', 'v2'], training_mode=1),
             w.node('Dropout', ['n', 'ratio', 'yes'], ['y', 'mask'])]
    tensors = [w.tensor(name, value) for name, value in p.items()] + [w.tensor('ratio', np.float32(0.5)), w.tensor('yes', np.array(True))]
    (folder / 'm.onnx').write_bytes(w.model(w.graph(nodes, [w.info('x', [8, 3])], [w.info('y', [8, 3])], tensors)))
    build(folder, 'y', *SGD)
    x = floats(8, 3)
    want = (x - p['m']) / np.sqrt(p['v'] + 1e-5) * p['s'] + p['b']
    np.save(folder / 'in.npy', x)
    process = run(folder, RUN, 't.tsb', '--entry', 'main', '--input', 'x=in.npy', '--output', 'y=y.npy')
    expect('its inference', process.returncode == 0 and np.allclose(np.load(folder / 'y.npy'), want, rtol=1e-5, atol=1e-5), process.stderr)
    losses, _ = train(folder, {'x': x}, 2)
    # The mean of a normed batch is that of the shift; dropout halves it on average.
    expect('its training', len(losses) == 2 and len(set(losses)) == 2 and abs(losses[0]) < 5, losses)


def check_shared_statistics(folder):
    """Two nodes with the same statistics: the second one continues with what the first one made."""
    p = {'s': np.ones(3, np.float32), 'b': np.zeros(3, np.float32), 'm': floats(3), 'v': 1 + floats(3)**2}
    nodes = [w.node('BatchNormalization', ['x', 's', 'b', 'm', 'v'], ['n']), w.node('Add', ['x', 'x'], ['d']),
             w.node('BatchNormalization', ['d', 's', 'b', 'm', 'v'], ['o']), w.node('Add', ['n', 'o'], ['y'])]
    tensors = [w.tensor(name, value) for name, value in p.items()]
    (folder / 'm.onnx').write_bytes(w.model(w.graph(nodes, [w.info('x', [8, 3])], [w.info('y', [8, 3])], tensors)))
    build(folder, 'y * y', '--optimizer', 'sgd(lr=1e-30)')
    x = floats(8, 3)
    train(folder, {'x': x}, 1, '--state-dir', 'S')
    mean = 0.9 * (0.9 * p['m'] + 0.1 * x.mean(0)) + 0.1 * 2 * x.mean(0)
    found = params_of(folder)
    expect('statistics of two nodes', np.allclose(found['m'], mean, rtol=1e-4, atol=1e-5), found['m'], mean)


def check_constants(folder):
    """Tensors of nodes Constant are not trained; a value that the program was made with is not, either."""
    table = floats(8)
    nodes = [w.node('Constant', [], ['c'], value=table), w.node('Mul', ['x', 'c'], ['a']), w.node('Pow', ['a', 'two'], ['q']),
             w.node('Mul', ['q', 'w'], ['y'])]
    tensors = [w.tensor('w', np.float32(0.5).reshape(1)), w.tensor('two', np.float32(2))]
    (folder / 'm.onnx').write_bytes(w.model(w.graph(nodes, [w.info('x', [4, 8])], [w.info('y', [4, 8])], tensors)))
    build(folder, 'y', *SGD)
    x = floats(4, 8)
    losses, _ = train(folder, {'x': x}, 3, '--state-dir', 'S')
    found, slope = params_of(folder), np.mean((x.astype(np.float64) * table)**2)
    expect('a constant is not trained', np.array_equal(found['c'], table), found)
    want = [slope * (0.5 - 0.1 * k * slope) for k in range(3)]
    expect('a scalar initializer is', np.allclose(losses, want, rtol=1e-4), losses, want)


# ---- expressions ----


def scaled(dims=(4, 6), inputs=('x',)):
    """y = x * w, with w = 1."""
    nodes = [w.node('Mul', ['x', 'w'], ['y'], 'scale')] + [w.node('Identity', [name], [f'{name}.out']) for name in inputs[1:]]
    outputs = ['y'] + [f'{name}.out' for name in inputs[1:]]
    tensors = [w.tensor('w', np.ones(dims[-1], np.float32))]
    return w.model(w.graph(nodes, [w.info(name, dims) for name in inputs], [w.info(name, dims) for name in outputs], tensors))


def softmax_loss(y, k):
    return np.log(np.exp(y).sum(-1)) - np.take_along_axis(y, k[:, None], 1)[:, 0]


def check_expressions(folder):
    (folder / 'm.onnx').write_bytes(scaled(inputs=('x', 'z')))
    x, z, t = (floats(4, 6) for _ in range(3))
    k, k2, m = rng.integers(0, 6, 4), rng.integers(0, 2, 12).reshape(4, 3), rng.integers(0, 2, (4, 6)).astype(bool)
    cases = [  # whose means do not depend on the order of the rows, which an epoch shuffles
        ('y - t', x - t), ('(y - t) * (y - t) / 2', (x - t)**2 / 2), ('y * y - 2 * 3 + -1', x * x - 7), ('-y', -x), ('1 / 2 * y', x / 2),
        ('2 - y - 1', 1 - x), ('y / 2 / 2', x / 4), ('- - y', x), ('y + .5e1', x + 5), ('y * "z.out"', x * z), ('y * z', x * z),
        ('y * z.out + y', x * z + x), ('max(y, t)', np.maximum(x, t)), ('where(m, y, 0)', np.where(m, x, 0)), ('where(m, 0, y)', np.where(m, 0, x)),
        ('where(compare(y, t, predicate="lt"), y, t)', np.minimum(x, t)), ('sum(y, axes=[1])', x.sum(1)), ('mean(y, axes=[0, 1])', x.mean()),
        ('clamp(y, low=-1, high=0.5)', np.clip(x, -1, 0.5)), ('softplus(y)', np.log1p(np.exp(x))),
        ('gelu(y, approximate="tanh")', 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
        ('cross_entropy(y, k)', softmax_loss(x, k)), ('cumsum(y, axis=1)', np.cumsum(x, 1)),
        ('cumsum(y, axis=1, reverse=true)', np.cumsum(x[:, ::-1], 1)), ('cumsum(y, axis=1, reverse=false)', np.cumsum(x, 1)),
        ('cast(cast(y, type="f64"), type="f32")', x), ('cast(y * y, type="f64")', x * x), ('slice(y, start=[0, 2], size=[4, 3])', x[:, 2:5]),
        ('cross_entropy(reshape(y, shape=[-1, 2]), reshape(k2, shape=[-1]))', softmax_loss(x.reshape(-1, 2), k2.reshape(-1))),
        ('transpose(y, permutation=[1, 0]) * 1', x.T), ('concat(y, t, axis=0)', np.concatenate([x, t])),
        ('reduce_max(matmul(y, t, transpose_b=true), axes=[1])', (x @ t.T).max(1)), ('y * cast(iota(axis=1, shape=[1, 6], type="i64"), type="f32")',
                                                                                    x * np.arange(6)),
    ]
    for loss, want in cases:
        names = set(re.findall(r'[a-z]\w*', loss))
        data = {'x': x, 'z': z, **{name: value for name, value in (('t', t), ('k', k), ('k2', k2), ('m', m)) if name in names}}
        types = [word for name, text in (('k2', 'i64[4, 3]'), ('t', 'f32[4, 6]')) if name in names and re.search('k2|concat|matmul', loss)
                 for word in ('--data-type', f'{name}={text}')]
        build(folder, loss, '--optimizer', 'sgd(lr=1e-30)', *types)
        losses, _ = train(folder, data, 1)
        expect(f'{loss}', np.allclose(losses, np.mean(want), rtol=1e-5, atol=1e-6), losses, np.mean(want))


def check_optimizers(folder):
    """Every field of the page of the language."""
    (folder / 'm.onnx').write_bytes(scaled())
    page = (pathlib.Path(__file__).resolve().parents[2] / 'docs' / 'language.md').read_text()
    for name in ('adamw', 'sgd', 'nesterov'):
        section = page.split(f'### `#tessera.{name}`')[1].split('###')[0]
        fields = re.findall(r'^\| `(\w+)` \|.*\| (\S+) \|$', section, re.M)
        expect(f'fields of {name}', len(fields) >= 3, section)
        every = ', '.join(f'{field}=0.125' for field, _ in fields)
        process = run(folder, AOT, 'import', 'm.onnx', '-o', 'm.mlir', '--train', 'y', '--optimizer', f'{name}({every})')
        text = (folder / 'm.mlir').read_text() if process.returncode == 0 else ''
        expect(f'{name} takes them', all(re.search(rf'#tessera.{name}<[^>]*\b{field} = 0.125\b', text) for field, _ in fields),
               process.stderr, text)
        needed = ', '.join(f'{field}=0.125' for field, default in fields if default == 'required')
        process = run(folder, AOT, 'import', 'm.onnx', '-o', 'm.mlir', '--train', 'y', '--optimizer', f'{name}({needed})')
        expect(f'{name} has defaults', process.returncode == 0, process.stderr)
        for field in needed.split(', '):
            left = ', '.join(f for f in needed.split(', ') if f != field)
            process = run(folder, AOT, 'import', 'm.onnx', '-o', 'm.mlir', '--train', 'y', '--optimizer', f'{name}({left})')
            expect(f'{name} without {field}', process.returncode == COMPILE and f"needs '{field.split('=')[0]}'" in process.stderr, process.stderr)
    words = 'adamw(lr=1e-3, clip_norm=1.0, schedule="cosine", warmup_steps=10, total_steps=200, final=0.1)'
    process = run(folder, AOT, 'import', 'm.onnx', '-o', 'm.mlir', '--train', 'y', '--optimizer', words)
    text = (folder / 'm.mlir').read_text()
    expect('a schedule', process.returncode == 0 and 'clip_norm = 1.0' in text and 'kind = "cosine"' in text and 'total_steps = 200' in text,
           process.stderr)


# ---- refusals ----


def check_refusals(folder):
    data, _ = perceptron()
    (folder / 'm.onnx').write_bytes(data)
    good = 'cross_entropy(logits, labels)'
    # the text, the column of the caret, the message
    for loss, column, message in [
        ('()', 2, "expected a name, a number or .\\(., got '\\)'"), ('logits +', 9, 'got the end'), ('logits logits', 8, "expected an operator or the end, got 'l'"),
        ('neg(logits', 11, "expected ',' or '\\)'"), ('(logits', 8, "expected an operator or '\\)'"), ('logits * é', 10, "got 'é'"), ('0x10', 1, 'a finite decimal number'),
        ('logits * 1e999', 10, 'a finite decimal number'), ('"logits', 1, 'no closing'), ('cross_entropi(logits, labels)', 1, "there is no op.*did you mean 'cross_entropy'"),
        ('minimize(logits)', 1, "cannot call 'minimize'"), ('logits + if(logits)', 10, "cannot call 'if'"), ('3 * 4', 3, 'this is a number'),
        ('[1]', 1, 'only the value of an attribute'), ('logit', 1, "'logit' is not an output.*did you mean 'logits'"),
        ('cross_entropy(logit, labels)', 15, "'logit' is not an output or input.*--data-type 'logit=f32.N, 10.'.*did you mean 'logits'"),
        ('cross_entropy(logits)', 1, '1 operands; expected 2'), ('logits - gather(logits, where_, axis=0)', 25, 'does not follow from .gather.'),
        ('sum(logits)', 1, "needs attribute 'axes', a list of integers"), ('sum(logits, axis=[0])', 13, "no attribute 'axis'; it has axes.*did you mean 'axes'"),
        ('sum(logits, axes=1)', 18, "'axes' must be a list of integers"), ('sum(logits, axes=[1.5])', 18, "'axes' must be a list"),
        ('sum(logits, axes=[0], axes=[1])', 23, 'given twice'), ('sum(axes=[0], logits)', 15, 'an operand after an attribute'),
        ('sum(logits, axes=[5])', 1, 'TSR-0106'), ('matmul(logits, logits)', 1, 'TSR-01'), ('cross_entropy(logits, logits)', 1, 'TSR-0104'),
        ('reshape(logits, shape=[-1, 3])', 23, 'cannot be divided into rows of 3'), ('reshape(logits)', 1, 'needs the type of its result'),
        ('cast(logits, type="f31")', 19, "'type' must be one of f64"), ('compare(logits, logits)', 1, 'needs predicate'),
        ('compare(logits, logits, predicate="less")', 35, "'predicate' must be"), ('argmax(logits, axis=1)', 1, 'the loss is 16xi64; expected floats'),
        ('argmax(logits, axis=1) * 1.5', 26, 'i64 cannot hold the number 1.5'), ('clamp(logits, low="a", high=1)', 19, "'low' must be a number"),
        ('-' * 70 + 'logits', 65, 'nested more than 64 deep'), ('logits' + ' + 1' * 70, 260, 'more than 63 operators'),
        ('concat(axis=0)', 1, '0 operands; expected 1 to 64'), ('((logits' + 2 * (' + 1' * 60 + ')') + ' + 1' * 60, 524, 'more than 128 operations are nested'),
        ('cast(logits, type="f64", type="f32")', 26, "'type' is given twice"), ('argmax(logits, axis=1) * 1e30', 26, 'i64 cannot hold the number 1e.30'),
        ('logits\n + neg(labels, 1)', 4, '2 operands; expected 1'),
    ]:
        process = run(folder, AOT, 'build', 'm.onnx', '-o', 't.tsb', TARGET, '--dim', 'N=16', '--train', loss, *SGD)
        line = loss.count('\n') + 1
        shown = loss.split('\n')[-1].encode()
        caret = f'\n{shown.decode()}\n{" " * (column - 1)}^' if len(shown) < 90 else '…'  # a long line is cut
        expect(f'refused: {loss!r}', process.returncode == COMPILE and re.search(message, process.stderr, re.S) and
               f'--train:{line}:{column}: error: [TSR-' in process.stderr and caret in process.stderr, process.stderr)
    for optimizer, column, message in [
        ('adam', 1, r'expected a call of an optimizer \(adamw, sgd, nesterov\)'), ('adamx(lr=1)', 1, "did you mean 'adamw'"), ('sgd(0.1)', 5, 'expected NAME=VALUE'),
        ('sgd(lr=0.1, betas=1)', 13, "'sgd' has no attribute 'betas'; it has lr, momentum, weight_decay"), ('sgd(lr=0.1, lr=0.2)', 13, 'given twice'),
        ('sgd(lr="a")', 8, "'lr' must be a number"), ('sgd()', 1, "needs 'lr'"), ('sgd(lr=0.1, total_steps=5)', 13, 'needs schedule='),
        ('sgd(lr=0.1, schedule="cosine", total_steps=1.5)', 44, 'must be an integer'), ('sgd(lr=0.1, schedule="sine")', 1, 'TSR-0109'), ('sgd(lr=0.1, schedule="cos\\")', 22, 'must be "cosine"'), ('sgd(lr=-1)', 1, 'TSR-01'),
    ]:
        process = run(folder, AOT, 'build', 'm.onnx', '-o', 't.tsb', TARGET, '--dim', 'N=16', '--train', good, '--optimizer', optimizer)
        expect(f'refused: {optimizer}', process.returncode == COMPILE and re.search(message, process.stderr) and
               f'--optimizer:1:{column}: error: [TSR-' in process.stderr and f'\n{optimizer}\n{" " * (column - 1)}^' in process.stderr, process.stderr)
    for data_type, column, message in [
        ('labels', 1, 'expected NAME=TYPE'), ('labels=i63[N]', 8, "'i63' is not an element type"), ('labels=i64', 11, 'expected the dims'),
        ('labels=i64[M]', 12, "dim 'M' has no size"), ('labels=i64[N', 13, "expected ',' or"), ('labels=i64[N]x', 14, 'expected the end'),
        ('labels=i64[]8', 13, 'expected the end'), ('labels=i64[,]', 12, 'expected a size'), ('logits=f32[N, 4]', 1, 'is in the model'),
        ('labls=i64[N]', 1, "does not read 'labls'; did you mean 'labels'"),
    ]:
        process = run(folder, AOT, 'build', 'm.onnx', '-o', 't.tsb', TARGET, '--dim', 'N=16', '--train', good, *SGD, '--data-type', data_type)
        expect(f'refused: {data_type}', process.returncode == COMPILE and re.search(message, process.stderr) and
               f'--data-type:1:{column}: error: [TSR-' in process.stderr, process.stderr)
    usage = ('--dim', 'N=16')
    for words, message in [
        (('--train', good), '--train needs --optimizer'), (SGD, '--optimizer needs --train'), (('--freeze', 'x'), '--freeze needs --train'),
        (('--data-type', 'a=f32[1]'), '--data-type needs --train'),
        (('--train', good, *SGD, '--freeze', 'fc3.weight'), "--freeze 'fc3.weight': no trained parameter of 'm.onnx' has such a name; did you mean 'fc"),
    ]:
        process = run(folder, AOT, 'build', 'm.onnx', '-o', 't.tsb', TARGET, *usage, *words)
        expect(f'refused: {words}', process.returncode == USAGE and message in process.stderr, process.stderr)
    (folder / 'p.mlir').write_text('module {}')
    process = run(folder, AOT, 'build', 'p.mlir', '-o', 't.tsb', TARGET, '--train', good, *SGD)
    expect('a program', process.returncode == USAGE and '--train is for ONNX models' in process.stderr, process.stderr)
    process = run(folder, AOT, 'build', 'm.onnx', '-o', 't.tsb', TARGET, '--dim', 'N=16', '--train', good, *SGD, '--freeze', '*')
    expect('nothing to train', process.returncode == COMPILE and 'TSR-0' in process.stderr, process.stderr)
    process = run(folder, AOT, 'build', 'm.onnx', '-o', 't.tsb', TARGET, '--dim', 'N=15', '--train', good, *SGD, '--virtual-ranks', '4')
    expect('a batch that virtual ranks do not divide', process.returncode == COMPILE and '15' in process.stderr and '4' in process.stderr, process.stderr)
    process = run(folder, AOT, 'import', 'm.onnx', '-o', 'n.mlir', '--dim', 'N=16', '--train', good)
    expect('an import without an optimizer', process.returncode == USAGE and '--train needs --optimizer' in process.stderr, process.stderr)
    expect('no bundle', not (folder / 't.tsb').exists() and not (folder / 'n.mlir').exists())


CHECKS = (check_perceptron, check_batch_norm, check_freeze, check_resumes, check_dropout, check_training_mode, check_shared_statistics,
          check_constants, check_expressions, check_optimizers, check_refusals)
wanted = sys.argv[3:]
for check in CHECKS:
    if wanted and check.__name__ not in wanted:
        continue
    with tempfile.TemporaryDirectory() as name:
        check(pathlib.Path(name))
finish()
