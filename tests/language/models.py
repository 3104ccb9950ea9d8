#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The modelling surface: named dims, constraints, caches, policies, placement, tessera.stdlib. Values are compared with NumPy in float64.

models.py AOT RUN
"""
import pathlib
import re
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish, run  # noqa: E402

AOT, RUN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
TARGET, COMPILE = '--target=cpu:x86-64-v2', 9
HEAD = 'from tessera import *\n'
PARTS = 'from tessera.stdlib import flash_attention, residual, split_qkv\n'


def build(folder, text, *options):
    (folder / 'm.py').write_text(text, 'utf-8')
    done = run(folder, AOT, 'build', 'm.py', '-o', 'm.tsb', TARGET, *options)
    expect('the program is built', done.returncode == 0, done.stderr, text)


def call(folder, inputs, outputs, *options):
    """The outputs of entry f."""
    words = []
    for name, value in inputs.items():
        np.save(folder / f'{name}.npy', value)
        words += ['--input', f'{name}={name}.npy']
    for name in outputs:
        words += ['--output', f'{name}={name}.out.npy']
    done = run(folder, RUN, 'm.tsb', '--entry', 'f', *words, *options)
    expect('the program runs', done.returncode == 0, done.stderr)
    return [np.load(folder / f'{name}.out.npy') for name in outputs]


def entry(body, parameters='x: Tensor[4, 6, f32]', above=''):
    lines = ''.join(f'    {line}\n' for line in body.split('\n'))
    return f'{HEAD}{PARTS}{above}@function(entry="infer")\ndef f({parameters}):\n{lines}'


# ---- dims ----

OPEN = HEAD + '''
@constraints("D % 4 == 0", "B in 1..=64")
def scaled(x: Tensor["B", "D", f32], w: Tensor["3*D", f32]) -> Tensor["B", "D", f32]:
    return x * w[0:x.shape[1]]

@constraints("N <= 128")
@function(entry="infer")
def f(x: Tensor["N", "D", f32], y: Tensor["D", f32], z: Tensor[2, 8, f32]):
    n, d = x.shape
    assert n * d == d * n and n + 1 > n and n >= 1 and n
    return {"y": x * y + 1.0, "flat": reshape(x, (-1,)), "turned": reshape(x, (d, (n * 2) // 2)), "ones": ones((n, 3), f32), "z": scaled(z, full((24,), 2.0, f32))}
'''


def check_open_dims(folder):
    """An entry has dims without a size; the build says their sizes, and dims are computed with."""
    build(folder, OPEN, '--dim', 'N=1,3', '--dim', 'D=8', '--dump=graph', '--dump-dir=levels')
    text = (folder / 'levels/graph.mlir').read_text('utf-8')
    expect('constraints of the entry and of the function are in Graph IR', 'tessera.constraints = ["N <= 128"]' in text
           and 'tessera.constraints = ["D % 4 == 0", "B in 1..=64"]' in text and 'tessera.dims = ["N", "D"]' in text, text)
    random = np.random.default_rng(11)
    for n in (1, 3):
        x, y, z = (random.standard_normal(shape).astype(np.float32) for shape in ((n, 8), (8,), (2, 8)))
        found = call(folder, {'x': x, 'y': y, 'z': z}, ['y', 'flat', 'turned', 'ones', 'z'])
        exact = [x.astype(np.float64) * y + 1, x.reshape(-1), x.reshape(8, n), np.ones((n, 3)), z * 2]
        for is_, must in zip(found, exact):
            expect(f'the values of NumPy where N is {n}', is_.shape == must.shape and np.allclose(is_, must, rtol=1e-6, atol=1e-6), is_, must)
    for size, message in (('7', '"D % 2 == 0" does not hold'), ('8', '')):
        (folder / 'm.py').write_text(entry('return {"y": x}', 'x: Tensor["N", "D", f32]', '@constraints("D % 2 == 0")\n'), 'utf-8')
        done = run(folder, AOT, 'build', 'm.py', '-o', 'm.tsb', TARGET, '--dim', 'N=2', '--dim', f'D={size}')
        expect(f'a constraint where D is {size}', (done.returncode == COMPILE and '[TSR-0264]' in done.stderr and message in done.stderr) if message
               else done.returncode == 0, done.stderr)


# ---- parts of models ----

SPLIT = entry('''q, k, v = split_qkv(qkv, heads=2)
cache = KVCache[2, 2, 5, 4, f32].empty().append(k, v)
y = flash_attention(q, cache, causal=True)
full_y = flash_attention(q, KVCache.of(k, v))
r = residual(qkv, qkv * 2.0, dropout=0.0)
n = rmsnorm_safe(qkv)
c = cast(cast_like(qkv, cast(qkv, f16)), f32)
return {"q": q, "k": cache.K, "v": cache.V, "y": y, "full": full_y, "r": r, "n": n, "c": c}''', 'qkv: Tensor[2, 5, 24, f32]')


def attend(q, k, v, causal):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = weights / weights.sum(-1, keepdims=True) @ v
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def check_parts(folder):
    build(folder, SPLIT)
    x = np.random.default_rng(5).standard_normal((2, 5, 24)).astype(np.float32)
    wide = x.astype(np.float64)
    q, k, v = (part.reshape(2, 5, 2, 4).transpose(0, 2, 1, 3) for part in np.split(wide, 3, axis=2))
    exact = {'q': q, 'k': k, 'v': v, 'y': attend(q, k, v, True), 'full': attend(q, k, v, False), 'r': wide * 3,
             'n': wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5), 'c': x.astype(np.float16)}
    for name, is_ in zip(exact, call(folder, {'qkv': x}, exact)):
        expect(f'{name} has the values of NumPy', is_.shape == exact[name].shape and np.allclose(is_, exact[name], rtol=1e-5, atol=1e-5), is_, exact[name])


# The modelling snippet of the specification, byte for byte.
SNIPPET = '''\
@jit @autodiff
def transformer_block(x: Tensor["B","S","D", bf16 @accum(f32)],
                      cache: KVCache, *, heads: int, p: float):
    x = rmsnorm_safe(x)
    with device(gpu), prefetch(cache, into="smem", overlap="compute"):
        qkv = matmul(x, Wqkv)                 # fp8 -> fp32 accum
        q,k,v = split_qkv(qkv, heads=heads)
        cache = cache.append(k,v)
        y = flash_attention(q, cache, dropout=p, causal=True)
    y = residual(x, matmul(y, Wo), dropout=p)
    y = residual(y, gelu(matmul(rmsnorm_safe(y), Wmlp_in)) @ Wmlp_out, dropout=p)
    return cast_like(y, x), cache
'''

BLOCK = HEAD + PARTS + '''
B, S, D, HEADS = 2, 8, 16, 4
Wqkv = param("Wqkv", (D, 3 * D), bf16 @accum(f32), init=normal(0.0, 0.2))
Wo = param("Wo", (D, D), bf16, init=normal(0.0, 0.2))
Wmlp_in = param("Wmlp_in", (D, 4 * D), bf16, init=normal(0.0, 0.2))
Wmlp_out = param("Wmlp_out", (4 * D, D), bf16, init=normal(0.0, 0.2))

''' + SNIPPET + '''
def block(x, p):
    empty = KVCache[B, HEADS, S, D // HEADS, bf16] @rolling_window @device(gpu)
    return transformer_block(cast(x, bf16), empty.empty(), heads=HEADS, p=p)

@function(entry="train", data=dict(x="x"))
def step(x: Tensor[B, S, D, f32]):
    y, _ = block(x, 0.1)
    error = cast(y, f32) - x
    loss = mean(error * error)
    minimize(loss, adamw(lr=1e-2), state=OptimizerState @fp32_master @checkpointable)
    return {"loss": loss}

@function(entry="infer")
def f(x: Tensor[B, S, D, f32]):
    y, cache = block(x, 0.0)
    return {"y": cast(y, f32), "k": cast(cache.K, f32), "v": cast(cache.V, f32), "Wqkv": cast(Wqkv, f32), "Wo": cast(Wo, f32),
            "Wmlp_in": cast(Wmlp_in, f32), "Wmlp_out": cast(Wmlp_out, f32)}
'''


def normalize(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def check_block(folder):
    """The snippet trains; what it computes with the trained parameters is what NumPy computes, but for the rounding to bf16."""
    build(folder, BLOCK)
    x = np.random.default_rng(7).standard_normal((2, 8, 16)).astype(np.float32)
    np.save(folder / 'd.npy', np.tile(x, (60, 1, 1)))
    done = run(folder, RUN, 'm.tsb', '--data', 'x=d.npy', '--steps', '60', '--state-dir', 'state')
    losses = [float(word) for word in re.findall(r'loss ([\d.e+-]+)', done.stdout + done.stderr)]
    expect('the snippet trains', done.returncode == 0 and losses[-1] < losses[0], losses, done.stderr)
    names = ['y', 'k', 'v', 'Wqkv', 'Wo', 'Wmlp_in', 'Wmlp_out']
    y, k, v, wqkv, wo, w_in, w_out = (a.astype(np.float64) for a in call(folder, {'x': x}, names, '--state-dir', 'state'))
    h = normalize(x.astype(np.float64))
    q, k2, v2 = (part.reshape(2, 8, 4, 4).transpose(0, 2, 1, 3) for part in np.split(h @ wqkv, 3, axis=2))
    h = h + attend(q, k2, v2, True) @ wo
    a = normalize(h) @ w_in
    erf = np.vectorize(__import__('math').erf)
    h = h + (a * (1 + erf(a / np.sqrt(2))) / 2) @ w_out
    for name, is_, must in (('y', y, h), ('k', k, k2), ('v', v, v2)):
        error = np.abs(is_ - must).max() / np.abs(must).max()
        expect(f'{name} of the snippet is that of NumPy', error < 0.03, error)


# ---- policies ----

MASTER = HEAD + '''
@function(entry="train", data=dict(x="x"))
def step(x: Tensor[1, 2, f32]):
    w = param("w", (2,), bf16, init=constant(1.0))
    count = param("count", (2,), bf16, init=constant(0.0))
    assign("count", count + 1.0)
    loss = sum(cast(w, f32) + 0.0 * x)
    minimize(loss, sgd(lr=0.000244140625)STATE)
    return {"loss": loss}

@function(entry="infer")
def f(x: Tensor[2, f32]):
    return {"w": cast(param("w", (2,), bf16, init=constant(1.0)), f32) + 0.0 * x, "count": cast(param("count", (2,), bf16, init=constant(0.0)), f32)}
'''


def check_master(folder):
    """A step of 2^-12 would be lost in bf16, whose neighbour of 1 is 1 - 2^-8; in f32, 32 of them are 2^-7."""
    (folder / 'm.py').write_text(MASTER.replace('STATE', ''), 'utf-8')
    done = run(folder, AOT, 'build', 'm.py', '-o', 'm.tsb', TARGET)
    expect('without @fp32_master, an optimizer refuses bf16', done.returncode == COMPILE and '[TSR-0104] tessera.sgd: ' in done.stderr, done.stderr)
    build(folder, MASTER.replace('STATE', ', state=OptimizerState @fp32_master @checkpointable'))
    np.save(folder / 'd.npy', np.ones((32, 2), np.float32))
    done = run(folder, RUN, 'm.tsb', '--data', 'x=d.npy', '--steps', '32', '--state-dir', 'master')
    expect('it trains', done.returncode == 0, done.stderr)
    w, count = call(folder, {'x': np.ones(2, np.float32)}, ['w', 'count'], '--state-dir', 'master')
    expect('steps of 2^-12 add up', np.all(w == 1 - 2.0**-7) and np.all(count == 32), w, count)


# ---- what is refused ----

def function_of(parameters, body='return x', above=''):
    return f'{above}def g({parameters}):\n    {body}\n'


CACHE = 'KVCache[1, 2, 4, 8, f32]'
# A program, and the first line of what is said.
REFUSED = [
    (entry('return {"y": g(x, x[0])}', above=function_of('x: Tensor["B", "D"], y: Tensor["B"]')), "7:18: error: [TSR-0921] dim 0 of 'y' is 6; 'B' is 4 from dim 0 of 'x'"),
    (entry('return {"y": g(x, x[0])}', above=function_of('x: Tensor["B", "D"], y: Tensor["3*D"]')), "7:18: error: [TSR-0921] dim 0 of 'y' is 6; '3*D' is 18 from the other dims"),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor[4, 5]')), "7:18: error: [TSR-0921] dim 1 of 'x' is 6; its type has 5"),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor["B"]')), "7:18: error: [TSR-0921] 'x' has 2 dims; its type has 1"),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor["A", "B", "C", ..., f32]')), '3:10: error: [TSR-0920] dim 3 of the type is not an int of at least 1'),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor[..., "A", "B", "C", f32]')), "7:18: error: [TSR-0921] 'x' has 2 dims; its type has at least 3"),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor["B", "D", bf16]')), "7:18: error: [TSR-0911] 'x' has elements of f32; its type has bf16"),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor["B", "B*D"]')), "7:18: error: [TSR-0921] dim 1 of 'x' is 6; 'B*D' cannot be compared with it, because no other dim is 'D'"),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor["B", "2*D+1"]')), "7:18: error: [TSR-0921] dim 1 of 'x' is 6; '2*D + 1' cannot be compared with it, because no other dim is 'D'"),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor["B", "floor(D/2)"]')), '3:10: error: [TSR-0921] \'floor(D/2)\' does not name a dim: it is another expression, or below 0; a dim is a size, a name as "B", or a sum or product of names as "3*D"'),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor["B", "D D"]')), '3:10: error: [TSR-0921] \'D D\' does not name a dim: expected an operator or the end; a dim is a size, a name as "B", or a sum or product of names as "3*D"'),
    (entry('return {"y": g(x)}', above='def g(x: Tensor["B", "D"]) -> Tensor["D", "B"]:\n    return x\n'), "7:18: error: [TSR-0921] dim 0 of the result of g() is 4; 'D' is 6 from dim 1 of 'x'"),
    (entry('return {"y": g(x)[0]}', above='def g(x) -> (Tensor, Tensor):\n    return x, x, x\n'), '7:18: error: [TSR-0911] the result of g() has 3 values; its type has 2'),
    (entry('return {"y": g(1)}', above=function_of('x: Tensor["B"]')), "7:18: error: [TSR-0911] 'x' is a tensor; it gets int"),
    (entry('return {"y": g(x, n=x)}', above=function_of('x, *, n: int')), "7:18: error: [TSR-0918] 'n' is needed while the program is compiled; it gets a tensor"),
    (entry('y = g(x)\nreturn {"y": x if x.shape[0] > 4 else y}', 'x: Tensor["N", 6, f32]', above=function_of('x: Tensor["N", 6]')), '8:23: error: [TSR-0921] whether N > 4 is not known while the program is compiled: the dims have no size yet'),
    (entry('return {"y": scan(h, x[0], x)[1]}', 'x: Tensor["N", 6, f32]', 'def h(c, r): return c, r\n'), '6:32: error: [TSR-0921] scan() goes through a dim with a size; dim 0 of tensor 0 is N'),
    (entry('return {"y": x}', 'x: Tensor["3*D", f32]'), "4:1: error: [TSR-0231] entry '@f': no argument has the dim 'D', which would say its size"),
    (entry('return {"y": reshape(x, (-1, -1))}'), '5:29: error: [TSR-0912] no size in the place of -1 holds the elements of 4x6xf32; one -1 is allowed'),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor["B", "D"]', above='@constraints("D % 4 == 0")\n')), '4:1: error: [TSR-0264] func.func: \'@g\': "D % 4 == 0" does not hold: \'D\' = 6 (argument 0, dim 1); pad \'D\' to 8'),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor["B", "D"]', above='@constraints("D % 4 == 0")\n@constraints("B % 2 == 0")\n')), '5:1: error: [TSR-0264] func.func: \'@g\': "D % 4 == 0" does not hold: \'D\' = 6 (argument 0, dim 1); pad \'D\' to 8'),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor["B", "D"]', above='@deterministic(seed=1)\n@deterministic(seed=2)\n')), '3:2: error: [TSR-0915] @deterministic stands twice before g()'),
    (entry('return {"y": g(x)}', above=function_of('x: Tensor["B", "D"]', above='@constraints("D %% 4")\n')), '4:1: error: [TSR-0262] func.func: \'@g\': "D %% 4", at character 6: expected ==, !=, <, <=, >, >= or in'),
    (entry('return {"y": g(x)}', above=function_of('x', above='@constraints(4)\n')), '3:14: error: [TSR-0911] expected a text, as "D % 8 == 0", not int'),
    (entry('return {"y": g(x)}', above=function_of('x', above='@deterministic(seed=-1)\n')), '3:21: error: [TSR-0912] the seed is -1; expected 0 to 4294967295'),
    (HEAD + 'constraints("D > 1")(3)\n', '2:1: error: [TSR-0915] the decorator stands directly before a function'),
    (entry('return {"y": x}', f'x: {CACHE}'), "4:7: error: [TSR-0922] parameter 'x' of an entry is a cache; in this version a cache lives in one call: make it in the function, as KVCache[…].empty()"),
    (entry(f'return {{"y": {CACHE}.empty().append(x, x).K}}'), '5:18: error: [TSR-0921] k is 4x6xf32; the cache takes at most 1x2x4x8xf32: batch, heads, tokens, width'),
    (entry(f'c = {CACHE}.empty().append(k, k)\nreturn {{"y": c.append(k, k).K}}', 'k: Tensor[1, 2, 4, 8, f32]'), '6:18: error: [TSR-0922] the cache has tokens already; this version appends to an empty cache only: concat joins tensors'),
    (entry(f'c = {CACHE}.empty().append(k, k[:, :, 0:2, :])\nreturn {{"y": c.K}}', 'k: Tensor[1, 2, 4, 8, f32]'), '5:9: error: [TSR-0921] k is 1x2x4x8xf32 and v is 1x2x2x8xf32; both have the same number of tokens'),
    (entry(f'return {{"y": {CACHE}.empty().K}}'), '5:18: error: [TSR-0912] the cache is empty; append gives it tokens'),
    (entry(f'return {{"y": {CACHE}.empty().prune(1)}}'), "5:18: error: [TSR-0922] this version of Tessera has no 'prune' of a cache"),
    (entry(f'return {{"y": {CACHE}.empty().foo}}'), "5:51: error: [TSR-0910] a cache has no attribute 'foo'"),
    (entry('return {"y": KVCache[1, 2, 4, f32].empty().K}'), '5:18: error: [TSR-0921] KVCache[…] holds batch, heads, tokens, width and an element type, as KVCache[4, 16, 512, 64, bf16]'),
    (entry(f'return {{"y": g({CACHE}.empty())}}', above=function_of('x: KVCache[1, 2, 5, 8, f32]')), "7:18: error: [TSR-0921] 'x' is a cache of 1x2x4x8xf32; its type has 1x2x5x8xf32"),
    (entry('return {"y": g(x)}', above=function_of('x: KVCache')), "7:18: error: [TSR-0911] 'x' is a cache, as KVCache[B, H, S, D, bf16].empty(); it gets a tensor"),
    (entry('return {"y": cast(x, bf16 @accum(bf16))}'), '5:26: error: [TSR-0922] sums of bf16 are accumulated in f32; this version cannot accumulate them in bf16'),
    (entry('return {"y": cast(x, bf16 @stochastic_round)}'), '5:26: error: [TSR-0922] this version of Tessera cannot act on @stochastic_round'),
    (entry('return {"y": cast(x, bf16 @saturate)}'), '5:26: error: [TSR-0922] this version of Tessera cannot act on @saturate'),
    (entry('return {"y": cast(x, bf16 @loss_scale(8.0))}'), '5:26: error: [TSR-0922] this version of Tessera cannot act on @loss_scale'),
    (entry('return {"y": cast(x, bf16 @paged)}'), '5:26: error: [TSR-0911] @paged is not a policy of an element type'),
    (entry('return {"y": x @saturate}'), '5:18: error: [TSR-0911] expected a tensor or numbers, not a policy'),
    (entry('s = OptimizerState @paged\nreturn {"y": x}'), '5:9: error: [TSR-0922] this version of Tessera cannot act on @paged: the state of an optimizer stays on the device'),
    (entry('s = OptimizerState[x]\nreturn {"y": x}'), '5:9: error: [TSR-0922] this version of Tessera has one OptimizerState for all parameters; leave out […]'),
    (entry('s = OptimizerState @rolling_window\nreturn {"y": x}'), '5:9: error: [TSR-0911] @rolling_window is not a policy of a state of an optimizer'),
    (entry('minimize(sum(x), sgd(lr=0.1), state=1)\nreturn {"y": x}'), '5:41: error: [TSR-0911] expected OptimizerState, not int'),
    (entry(f'c = {CACHE} @saturate\nreturn {{"y": x}}'), '5:9: error: [TSR-0911] @saturate is not a policy of a cache'),
    (entry('with device(gpu[1]):\n    pass\nreturn {"y": x}'), '5:17: error: [TSR-0922] this version of Tessera places a program on one device, gpu[0]; mesh(data=8) distributes its training'),
    (entry('with device("gpu"):\n    pass\nreturn {"y": x}'), '5:17: error: [TSR-0911] expected gpu, not str'),
    (entry('with prefetch(x, into="smem"):\n    pass\nreturn {"y": x}'), '5:19: error: [TSR-0918] expected a cache, not a tensor: it is needed while the program is compiled'),
    (entry(f'with prefetch({CACHE}.empty(), into="registers"):\n    pass\nreturn {{"y": x}}'), '5:10: error: [TSR-0922] this version of Tessera prefetches a cache with into="smem" and overlap="compute" only'),
    (entry('return {"y": split_qkv(x, heads=2)[0]}'), "5:18: error: [TSR-0912] 'qkv' has 2 dims; split_qkv() takes 3"),
    (entry('return {"y": split_qkv(x, heads=5)[0]}', 'x: Tensor[1, 4, 24, f32]'), "5:18: error: [TSR-0912] the last dim of 'qkv' is 24; expected a multiple of 3 times 5 heads"),
    (entry('return {"y": split_qkv(x, heads=0)[0]}', 'x: Tensor[1, 4, 24, f32]'), '5:37: error: [TSR-0912] heads is 0; expected at least 1'),
    (entry('return {"y": flash_attention(q, q)}', 'q: Tensor[1, 2, 4, 8, f32]'), '5:37: error: [TSR-0918] expected a cache, as KVCache.of(k, v), not a tensor: it is needed while the program is compiled'),
    (entry(f'return {{"y": flash_attention(q, {CACHE}.empty())}}', 'q: Tensor[1, 2, 4, 8, f32]'), '5:37: error: [TSR-0912] the cache is empty; append gives it tokens'),
    (entry('return {"y": residual(x, x, dropout=1.0)}'), '5:41: error: [TSR-0912] the rate is 1; expected at least 0 and below 1'),
    (entry('return {"y": residual(x, x[0:3])}'), '5:18: error: [TSR-0103] tessera.add: shapes do not broadcast: lhs dim 0 is 4 (4x6xf32), rhs dim 0 is 3 (3x6xf32); they must be equal, or one of them 1'),
    (entry('return {"y": rmsnorm_safe(x, axes=[2])}'), '5:18: error: [TSR-0106] tessera.rmsnorm_safe: axis 2 is outside [0, 2) of the operand (4x6xf32)'),
    (HEAD + 'from tessera.stdlib import residuel\n', "2:28: error: [TSR-0916] 'tessera.stdlib' has no name 'residuel'; did you mean 'residual'?"),
    (HEAD + 'from tessera.stdlib import *\n', "2:28: error: [TSR-0916] '*' is not imported from tessera.stdlib; write the names, as 'from tessera.stdlib import residual'"),
    (HEAD + 'import tessera.stdlib\n', "2:8: error: [TSR-0916] 'tessera.stdlib' cannot be imported: programs are compiled without Python; a program imports tessera and files beside it"),
    (HEAD + 'from tessera.stdlib import stable_softmax\n' + entry('return {"y": stable_softmax(x)}')[len(HEAD):], "6:18: error: [TSR-0910] this version of Tessera has no 'stable_softmax'"),
]


def check_refused(folder):
    for text, message in REFUSED:
        (folder / 'm.py').write_text(text, 'utf-8')
        done = run(folder, AOT, 'check', 'm.py')
        expect(message, done.returncode == COMPILE and done.stderr.startswith(f'm.py:{message}\n'), done.returncode, done.stderr[:600], text)


with tempfile.TemporaryDirectory() as temporary:
    for check in (check_open_dims, check_parts, check_block, check_master, check_refused):
        check(pathlib.Path(temporary))
finish(f'{len(REFUSED)} refused programs')
