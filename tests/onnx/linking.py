#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that call ONNX models, and models whose custom ops call functions of programs: --link and --op.

linking.py AOT RUN
"""
import json
import pathlib
import re
import sys
import tempfile

import numpy as np

import writer as w

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish, run  # noqa: E402

AOT, RUN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
TARGET = '--target=cpu:x86-64-v2'
USAGE, COMPILE = 6, 9
rng = np.random.default_rng(5)


def build(folder, source, out, *words):
    process = run(folder, AOT, 'build', source, '-o', out, TARGET, *words)
    expect(f'a build of {source} with {words}', process.returncode == 0, process.stderr)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def train(folder, bundle, steps=20):
    (folder / 'log.jsonl').unlink(missing_ok=True)
    process = run(folder, RUN, bundle, '--data', 'x=x.npy', '--data', 'labels=labels.npy', '--steps', str(steps), '--metrics', 'log.jsonl')
    expect(f'a run of {bundle}', process.returncode == 0, process.stderr)
    records = [json.loads(line) for line in (folder / 'log.jsonl').read_text().splitlines()]
    return [record['outputs']['loss'] for record in records if 'loss' in record.get('outputs', {})]


def call(folder, bundle, x, name='y', entry='main'):
    np.save(folder / 'in.npy', x)
    process = run(folder, RUN, bundle, '--entry', entry, '--input', 'x=in.npy', '--output', f'{name}=out.npy')
    expect(f'a call of {bundle}', process.returncode == 0, process.stderr)
    return np.load(folder / 'out.npy') if process.returncode == 0 else None


def normed(prefix='', batch='N'):
    """Gemm, BatchNormalization, Relu, Gemm."""
    p = {'a.w': floats(8, 16) / 3, 'a.b': floats(16), 's': 1 + floats(16) / 4, 'b': floats(16), 'm': floats(16), 'v': 1 + floats(16)**2,
         'c.w': floats(16, 4) / 4, 'c.b': floats(4)}
    p = {prefix + name: value for name, value in p.items()}
    names = list(p)
    nodes = [w.node('Gemm', ['x', *names[:2]], ['a']), w.node('BatchNormalization', ['a', *names[2:6]], ['n']), w.node('Relu', ['n'], ['r']),
             w.node('Gemm', ['r', *names[6:]], ['logits'])]
    tensors = [w.tensor(name, value) for name, value in p.items()]
    return w.model(w.graph(nodes, [w.info('x', [batch, 8])], [w.info('logits', [batch, 4])], tensors)), p


PROGRAM = '''func.func private @net(tensor<16x8xf32>) -> tensor<16x4xf32>
func.func private @net_train(tensor<16x8xf32>) -> tensor<16x4xf32> attributes {tessera.training}
func.func @train(%x: tensor<16x8xf32> {tessera.data = "x"}, %labels: tensor<16xi64> {tessera.data = "labels"})
    -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %logits = call @net_train(%x) : (tensor<16x8xf32>) -> tensor<16x4xf32>
  %losses = tessera.cross_entropy %logits, %labels : (tensor<16x4xf32>, tensor<16xi64>)
  %loss = tessera.mean %losses {axes = [0]} : tensor<16xf32>
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 0.01>} : tensor<f32>
  return %loss : tensor<f32>
}
func.func @main(%x: tensor<16x8xf32> {tessera.name = "x"}) -> (tensor<16x4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = call @net(%x) : (tensor<16x8xf32>) -> tensor<16x4xf32>
  return %y : tensor<16x4xf32>
}
'''
LINKS = ('--link', 'net=m.onnx', '--link', 'net_train=m.onnx')


def check_program(folder):
    data, p = normed()
    (folder / 'm.onnx').write_bytes(data)
    (folder / 'p.mlir').write_text(PROGRAM)
    np.save(folder / 'x.npy', floats(16, 8))
    np.save(folder / 'labels.npy', rng.integers(0, 4, 16))
    build(folder, 'p.mlir', 'linked.tsb', *LINKS)
    build(folder, 'm.onnx', 'trained.tsb', '--dim', 'N=16', '--train', 'cross_entropy(logits, labels)', '--optimizer', 'adamw(lr=0.01)')
    expect('only bundles are written', sorted(path.suffix for path in folder.iterdir()) == ['.mlir', '.npy', '.npy', '.onnx', '.tsb', '.tsb'])
    ours, theirs = train(folder, 'linked.tsb'), train(folder, 'trained.tsb')
    expect('a program that calls a model has the bits of --train', ours == theirs and ours[-1] < ours[0] and len(ours) == 20, ours, theirs)
    x = floats(16, 8)
    a = (x @ p['a.w'] + p['a.b'] - p['m']) / np.sqrt(p['v'] + 1e-5) * p['s'] + p['b']
    want = np.maximum(a, 0) @ p['c.w'] + p['c.b']
    expect('its inference', np.allclose(call(folder, 'linked.tsb', x), want, rtol=1e-4, atol=1e-4))
    listing = run(folder, AOT, 'inspect', 'linked.tsb').stdout
    expect('its names', all(re.search(rf'param +{re.escape(name)} ', listing) for name in p), listing)
    sources = run(folder, AOT, 'provenance', 'linked.tsb').stdout
    expect('the model is a source of the bundle', 'm.onnx' in sources and 'p.mlir' in sources, sources)
    build(folder, 'p.mlir', 'frozen.tsb', *LINKS, '--freeze', 'a.*')
    listing = run(folder, AOT, 'inspect', 'frozen.tsb').stdout
    frozen = set(re.findall(r'param +(\S+) .*; frozen', listing))
    expect('frozen parameters', frozen == {'a.w', 'a.b', 'm', 'v'}, frozen)


def scaled(domain='com.me', names=('w',), **attributes):
    """y = Scale(x + w)."""
    nodes = [w.node('Add', ['x', *names], ['a']), w.node('Scale', ['a', *names], ['y'], 'scaling', domain=domain, **attributes)]
    tensors = [w.tensor(name, value) for name, value in zip(names, [np.arange(6, dtype=np.float32)])]
    return w.model(w.graph(nodes, [w.info('x', [4, 6])], [w.info('y', [4, 6])], tensors), domains=[domain])


SCALE = '''func.func @scale(%a: tensor<4x6xf32>, %w: tensor<6xf32>) -> tensor<4x6xf32> {
  %e = tessera.exp %w : tensor<6xf32>
  %y = tessera.mul %a, %e : (tensor<4x6xf32>, tensor<6xf32>)
  return %y : tensor<4x6xf32>
}
'''
OP = ('--op', 'com.me:Scale=@scale')


def check_custom(folder):
    (folder / 'm.onnx').write_bytes(scaled())
    (folder / 'ops.mlir').write_text(SCALE)
    x, weight = floats(4, 6), np.arange(6, dtype=np.float32)
    want = (x + weight) * np.exp(weight)
    build(folder, 'm.onnx', 'm.tsb', '--link', 'ops=ops.mlir', *OP)
    expect('a custom op', np.allclose(call(folder, 'm.tsb', x), want, rtol=1e-5))
    process = run(folder, AOT, 'import', 'm.onnx', '-o', 'i.mlir', '--link', 'ops=ops.mlir', *OP)
    expect('its import', process.returncode == 0 and 'call @scale' in (folder / 'i.mlir').read_text(), process.stderr)
    build(folder, 'i.mlir', 'i.tsb')
    expect('is built', np.allclose(call(folder, 'i.tsb', x), want, rtol=1e-5))
    build(folder, 'm.onnx', 't.tsb', '--link', 'ops=ops.mlir', *OP, '--train', 'y * y', '--optimizer', 'sgd(lr=1e-5)')
    np.save(folder / 'x.npy', x)
    process = run(folder, RUN, 't.tsb', '--data', 'x=x.npy', '--steps', '2', '--metrics', 'log.jsonl')
    loss = json.loads((folder / 'log.jsonl').read_text().splitlines()[0])['outputs']['loss']
    expect('a custom op is trained', np.isclose(loss, np.mean(want.astype(np.float64)**2), rtol=1e-5), loss)
    for domain in ('', 'ai.onnx'):  # two names of one domain
        (folder / 'd.onnx').write_bytes(scaled(domain))
        build(folder, 'd.onnx', 'd.tsb', '--link', 'ops=ops.mlir', '--op', 'ai.onnx:Scale=@scale')
        expect(f'a custom op of domain {domain!r}', np.allclose(call(folder, 'd.tsb', x), want, rtol=1e-5))
    (folder / 'p.mlir').write_text('func.func private @net(tensor<4x6xf32>) -> tensor<4x6xf32>\nfunc.func private @scale(tensor<4x6xf32>, '
                                   'tensor<6xf32>) -> tensor<4x6xf32>\n' + '''func.func @main(%x: tensor<4x6xf32> {tessera.name = "x"}) ->
    (tensor<4x6xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %a = call @net(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = tessera.neg %a : tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
''')
    build(folder, 'p.mlir', 'p.tsb', '--link', 'net=m.onnx', '--link', 'ops=ops.mlir', *OP)
    expect('a program, a model and a library', np.allclose(call(folder, 'p.tsb', x), -want, rtol=1e-5))


def declares(inputs, results, name='net'):
    return f'func.func private @{name}({inputs}) -> {results}\n'


def check_refusals(folder):
    data, _ = normed()
    (folder / 'm.onnx').write_bytes(data)
    (folder / 'other.onnx').write_bytes(normed()[0])
    (folder / 'two.onnx').write_bytes(w.model(w.graph([w.node('Add', ['x', 'z'], ['y'])], [w.info('x', ['N', 2]), w.info('z', ['N', 2])],
                                                      [w.info('y', ['N', 2])])))
    (folder / 'c.onnx').write_bytes(scaled())
    (folder / 'alpha.onnx').write_bytes(scaled(alpha=2))
    (folder / 'ops.mlir').write_text(SCALE)
    good = declares('tensor<16x8xf32>', 'tensor<16x4xf32>')
    net = ('--link', 'net=m.onnx')
    param = ('func.func @p() -> (tensor<16xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {\n  %0 = tessera.param "a.b" init = '
             '#tessera.constant<0.0> : tensor<16xf32>\n  return %0 : tensor<16xf32>\n}\n')
    cases = [  # the program, flags, exit code, message
        ('module {}', net, USAGE, r"--link net=m.onnx: the program declares no such function; expected 'func.func private @net"),
        (declares('tensor<16x8xf32>', 'tensor<16x4xf32>', 'nett'), net, USAGE, "did you mean 'nett'"),
        ('func.func private @net() {\n  return\n}', net, USAGE, 'has such a function'),
        (declares('tensor<16x9xf32>', 'tensor<16x4xf32>'), net, COMPILE, r"TSR-0822\] '@net': argument 0 is declared as 16x9xf32; input 'x' of the model is 16x8xf32"),
        (declares('tensor<16x8xf64>', 'tensor<16x4xf32>'), net, COMPILE, 'declared as 16x8xf64; input .x. of the model is 16x8xf32'),
        (declares('tensor<8xf32>', 'tensor<16x4xf32>'), net, COMPILE, "dim 'N' has no size"),
        (declares('', 'tensor<16x4xf32>'), net, COMPILE, 'declared with 0 arguments; the model has 1 inputs'),
        (declares('tensor<16x8xf32>, tensor<1xf32>', 'tensor<16x4xf32>'), net, COMPILE, 'declared with 2 arguments; the model has 1 inputs'),
        (declares('tensor<16x8xf32>', 'tensor<16x5xf32>'), net, COMPILE, 'result 0 is declared as 16x5xf32; the output of the model is 16x4xf32'),
        (declares('tensor<16x8xf32>', '()'), net, COMPILE, 'declared with 0 results; the model has 1 outputs'),
        (declares('tensor<2x2xf32>, tensor<3x2xf32>', 'tensor<2x2xf32>'), ('--link', 'net=two.onnx'), COMPILE,
         "dim 'N' of the model is declared as 2 and, in input 'z', as 3"),
        (good + param, net, USAGE, "parameter 'a.b' of 'm.onnx' is also one of the program"),
        (good + declares('tensor<16x8xf32>', 'tensor<16x4xf32>', 'b'), (*net, '--link', 'b=other.onnx'), USAGE, "of 'other.onnx' is also one of m.onnx"),
        (good, (*net, '--freeze', 'x.*'), USAGE, "--freeze 'x..': no trained parameter of 'm.onnx'"),
        ('module {}', ('--freeze', 'x'), USAGE, '--freeze needs --train, or --link'), (good, ('--link', 'net=none.onnx'), 7, 'none.onnx'),
        ('module attributes {tessera.weights = "p.safetensors", tessera.weights_digest = "sha256:' + '0' * 64 + '"} {\n' + good + '}', net, USAGE,
         "names a file of parameters; expected none, because those of 'm.onnx'"),
        (good, (*net, *OP), USAGE, '--op com.me:Scale=@scale: no node of m.onnx has this op'), (good, OP, USAGE, '--op needs an ONNX model'),
        ('module {}', ('--link', 'ops=ops.mlir', '--from', 'autodiff'), USAGE, 'expected no link with a dump'),
        (declares('tensor<4x6xf64>, tensor<6xf32>', 'tensor<4x6xf32>', 'scale'), ('--link', 'ops=ops.mlir'), COMPILE, 'another type than its declaration'),
        (SCALE, ('--link', 'ops=ops.mlir'), COMPILE, r'TSR-0822\] another function of the program has this name'),
        ('module {}', ('--link', 'ops=main.mlir'), COMPILE, "'main.mlir' is linked, so it must have only functions that are not entries"),
        ('module {}', ('--link', 'ops=named.mlir'), USAGE, 'the program names a file of parameters'),
        ('module {}', ('--link', 'a=ops.mlir', '--link', 'a=ops.mlir'), USAGE, "--link names 'a' twice"),
    ]
    (folder / 'main.mlir').write_text(param)
    (folder / 'clash.mlir').write_text(SCALE + SCALE.replace('@scale', '@main'))
    (folder / 'named.mlir').write_text('module attributes {tessera.weights = "p.safetensors"} {}')
    for text, words, code, message in cases:
        (folder / 'p.mlir').write_text(text)
        process = run(folder, AOT, 'build', 'p.mlir', '-o', 'p.tsb', TARGET, *words)
        expect(f'refused: {message}', process.returncode == code and re.search(message, process.stderr), process.returncode, process.stderr)
    link = ('--link', 'ops=ops.mlir')
    for source, words, code, message in [
        ('c.onnx', (), COMPILE, 'TSR-0803'), ('c.onnx', OP, COMPILE, r"TSR-0823\] node 'scaling' \(com.me.Scale\): --op binds it to '@scale', which is not a function"),
        ('c.onnx', (*link, '--op', 'com.me:Scale=@scael'), COMPILE, "'@scael', which is not a function"),
        ('alpha.onnx', (*link, *OP), COMPILE, "attribute 'alpha' cannot be passed to '@scale'"), ('c.onnx', (*link, '--op', 'Scale'), USAGE, 'expected DOMAIN:NAME=@FUNCTION'),
        ('c.onnx', (*link, '--op', 'com.me:=@scale'), USAGE, 'expected DOMAIN:NAME=@FUNCTION'), ('c.onnx', (*link, *OP, *OP), USAGE, '--op com.me:Scale is given twice'),
        ('c.onnx', ('--link', 'ops=clash.mlir', *OP), COMPILE, "TSR-0822. the entry of the model is called '@main', too"),
        ('m.onnx', (*link, *OP, '--dim', 'N=2'), USAGE, 'no node of m.onnx has this op'), ('m.onnx', ('--link', 'net=c.onnx', '--dim', 'N=2'), USAGE, 'the source is a model, too'),
    ]:
        process = run(folder, AOT, 'build', source, '-o', 'p.tsb', TARGET, *words)
        expect(f'refused: {message}', process.returncode == code and re.search(message, process.stderr), process.returncode, process.stderr)
    for text, message in [('tensor<4x7xf32>, %w: tensor<6xf32>', 'input 0 is 4x6xf32; argument 0 of .@scale. is 4x7xf32'),
                          ('tensor<4x6xf32>', '2 inputs; .@scale. has 1 arguments')]:
        (folder / 'ops.mlir').write_text(f'func.func @scale(%a: {text}) -> tensor<4x6xf32> {{\n  %y = tessera.constant dense<0.0> : tensor<4x6xf32>\n'
                                         '  return %y : tensor<4x6xf32>\n}\n')
        process = run(folder, AOT, 'build', 'c.onnx', '-o', 'p.tsb', TARGET, *link, *OP)
        expect(f'refused: {message}', process.returncode == COMPILE and re.search(r'TSR-0823\].*' + message, process.stderr), process.stderr)
    expect('no bundle', not (folder / 'p.tsb').exists())


for check in (check_program, check_custom, check_refusals):
    with tempfile.TemporaryDirectory() as name:
        check(pathlib.Path(name))
finish()
