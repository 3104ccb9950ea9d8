#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares every kind of op on one realistic shape with PyTorch on CPU.

usage: ops.py TESSERA_AOT MODEL_BENCH [options]

Each op is a program of its own, compared with PyTorch's function of the same meaning, on the same number of threads, in turns. Images are
[N, H, W, C] in memory for both (PyTorch: channels_last). Indices are computed from random floats in our program, and given to PyTorch.
Prints microseconds (medians of rounds), PyTorch's time divided by ours, the worst last, and the time of a copy of as many bytes as
arguments and results have, divided by ours; then one JSON object of the ratios to PyTorch.
Exits with 77 without PyTorch.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(error)
    sys.exit(77)

ROUNDS, ROUND_SECONDS, FILES_MAX = 3, 0.04, 16
IMAGE, POOLED, ROWS, WIDE, SEQ = (4, 112, 112, 64), (4, 56, 56, 64), (1024, 1024), (512, 3072), (1, 12, 512, 64)


def tensor(shape, dtype='f32'):
    return f'tensor<{"".join(f"{d}x" for d in shape)}{dtype}>'


class Case:
    """Inputs {name: shape, or (count, limit) for indices below a limit}; a body that ends in %r; the function in PyTorch."""

    def __init__(self, name, inputs, body, results, torch_call, kind='infer', moved=0):
        self.name, self.inputs, self.kind, self.call = name, inputs, kind, torch_call
        self.moved = moved  # additional bytes of parameters and state, in units of the first input's
        self.results = results if isinstance(results, list) else [results]
        self.body = body

    def is_index(self, name):
        return name == 'i'

    def text(self):
        arguments, lines, types = [], [], {}
        for name, shape in self.inputs.items():
            if self.is_index(name):
                count, limit = shape
                arguments.append(f'%{name}.f: {tensor((count,))} {{tessera.name = "{name}"}}')
                lines += [f'%{name}.h = tessera.constant dense<{limit / 2}> : tensor<f32>',
                          f'%{name}.s = tessera.mul %{name}.f, %{name}.h : {tensor((count,))}, tensor<f32> -> {tensor((count,))}',
                          f'%{name}.t = tessera.add %{name}.s, %{name}.h : {tensor((count,))}, tensor<f32> -> {tensor((count,))}',
                          f'%{name} = tessera.cast %{name}.t : {tensor((count,))} to {tensor((count,), "i64")}']
                types[name] = tensor((count,), 'i64')
            else:
                arguments.append(f'%{name}: {tensor(shape)} {{tessera.name = "{name}"}}')
                types[name] = tensor(shape)
        types.update({f'r{n or ""}': r if isinstance(r, str) else tensor(r) for n, r in enumerate(self.results)})
        names = [f'r{n or ""}' for n in range(len(self.results))]
        body = re.sub(r'\$(\w+)', lambda m: types[m.group(1)], self.body)
        values = ['%r'] if len(names) == 1 else [f'%r#{n}' for n in range(len(names))]
        given = ', '.join(types[n] for n in names)
        named = ', '.join(f'{types[n]} {{tessera.name = "{n}"}}' for n in names)
        return (f'module @op {{\nfunc.func @f({", ".join(arguments)}) -> ({named}) attributes {{tessera.entry = "{self.kind}"}} {{\n'
                + '\n'.join(lines) + f'\n{body}\nreturn {", ".join(values)} : {given}\n}}\n}}\n')

    def bytes(self):
        """Returns the bytes of arguments and results."""
        floats = sum(4 * math.prod(s[:1] if self.is_index(name) else s) for name, s in self.inputs.items())
        sizes = {'i1': 1, 'bf16': 2, 'f32': 4, 'i64': 8}
        for result in self.results:
            *dims, dtype = result[7:-1].split('x') if isinstance(result, str) else [*result, 'f32']
            floats += math.prod(int(d) for d in dims) * sizes[dtype]
        return floats + (self.moved and 4 * self.moved * math.prod(next(iter(self.inputs.values()))))

    def torch_call(self):
        values = []
        for name, shape in self.inputs.items():
            if self.is_index(name):
                values.append(torch.randint(0, shape[1], (shape[0],)))
            else:
                value = torch.rand(shape) * 2 - 1
                values.append(value.permute(0, 3, 1, 2) if name in 'xg' and self.name.split()[0] in IMAGES else value)
        return self.call(*values)


IMAGES = ('max_pool2d', 'max_pool2d_grad', 'avg_pool2d', 'avg_pool2d_grad', 'conv2d', 'conv2d_grad_input', 'conv2d_grad_filter',
          'batch_norm', 'batch_norm_train')


def unary(name, call):
    return Case(name, {'x': WIDE}, f'%r = tessera.{name} %x : $x', WIDE, lambda x: lambda: call(x))


def positive(name, call):
    """For numbers in (0, 1): the absolute value is computed in the kernel, and by PyTorch in advance."""
    return Case(name, {'x': WIDE}, '%p = tessera.abs %x : $x\n%r = tessera.' + name + ' %p : $x', WIDE,
                lambda x: (lambda y: lambda: call(y))(x.abs()))


def binary(name, call):
    return Case(name, {'x': WIDE, 'y': WIDE}, f'%r = tessera.{name} %x, %y : $x, $y -> $r', WIDE, lambda x, y: lambda: call(x, y))


def grad_of(call):
    """The gradient alone, as autograd computes it from the values that the forward pass saved."""
    def prepare(x, g):
        x = x.detach().requires_grad_()
        y = call(x)
        return lambda: torch.autograd.grad(y, x, g, retain_graph=True)
    return prepare


def pool(name, window, stride, padding, call):
    out = [(s + 2 * padding - window) // stride + 1 for s in IMAGE[1:3]]
    pooled = (IMAGE[0], *out, IMAGE[3])
    attrs = f'{{window = [{window}, {window}], strides = [{stride}, {stride}], padding = [{padding}, {padding}, {padding}, {padding}]}}'
    title = f'{window}x{window}/{stride}'
    to = '$x, $g' if name == 'max' else '$g -> $r'
    of = '%x, %g' if name == 'max' else '%g'
    return [Case(f'{name}_pool2d {title}', {'x': IMAGE}, f'%r = tessera.{name}_pool2d %x {attrs} : $x -> $r', pooled,
                 lambda x: lambda: call(x, window, stride, padding)),
            Case(f'{name}_pool2d_grad {title}', {'x': IMAGE, 'g': pooled}, f'%r = tessera.{name}_pool2d_grad {of} {attrs} : {to}', IMAGE,
                 grad_of(lambda x: call(x, window, stride, padding)))]


def rotary(x):
    positions = torch.arange(x.shape[2])[:, None] / 1e4 ** (torch.arange(0, x.shape[3], 2) / x.shape[3])
    cos, sin = torch.cat([positions.cos()] * 2, -1), torch.cat([positions.sin()] * 2, -1)
    half = x.shape[3] // 2
    return lambda: x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def scatter(x, i, u):
    return lambda: x.index_add(0, i, u)


def step_of(optimizer):
    def prepare(g):
        p = torch.nn.Parameter(torch.rand_like(g))
        p.grad = g
        return optimizer([p]).step
    return prepare


sgd = step_of(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True))
adamw = step_of(lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True))


def attention(causal, groups):
    def prepare(q, k, v):
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=groups)
    return prepare


def matrix(name, a, b, r, attrs, call):
    return Case(name, {'x': a, 'y': b}, f'%r = tessera.matmul %x, %y {attrs} : $x, $y -> $r', r, lambda x, y: lambda: call(x, y))


CONV = '{strides = [1, 1], padding = [1, 1, 1, 1], dilation = [1, 1]}'
CONV_IMAGE, CONV_FILTER = (1, 28, 28, 128), (3, 3, 128, 128)


def conv_grad(which):
    def prepare(a, b):
        x = torch.rand(1, 128, 28, 28).contiguous(memory_format=torch.channels_last)
        w = torch.rand(128, 128, 3, 3).contiguous(memory_format=torch.channels_last)
        g = torch.rand(1, 128, 28, 28).contiguous(memory_format=torch.channels_last)
        mask = [which == 0, which == 1, False]
        return lambda: torch.ops.aten.convolution_backward(g, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask)
    return prepare


def conv(x, f):
    w = f.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    return lambda: F.conv2d(x, w, padding=1)


def batch_norm(x, s, b, m, v):
    v = v.abs()
    return lambda: F.batch_norm(x, m, v, s, b)


def batch_norm_train(x, s, b, m, v):
    v = v.abs()
    return lambda: F.batch_norm(x, m, v, s, b, training=True)


C = (IMAGE[3],)
NORM = {'x': IMAGE, 's': C, 'b': C, 'm': C, 'v': C}
TABLE, COUNT = (32768, 256), 4096

CASES = [
    binary('add', torch.add), binary('mul', torch.mul), binary('div', torch.div), binary('max', torch.maximum),
    Case('pow', {'x': WIDE, 'y': WIDE}, '%p = tessera.abs %x : $x\n%r = tessera.pow %p, %y : $x, $y -> $r', WIDE,
         lambda x, y: (lambda z: lambda: torch.pow(z, y))(x.abs())),
    unary('exp', torch.exp), positive('log', torch.log), unary('expm1', torch.expm1), positive('log1p', torch.log1p),
    unary('tanh', torch.tanh), unary('sigmoid', torch.sigmoid), unary('erf', torch.erf), unary('relu', torch.relu),
    unary('gelu', F.gelu), unary('silu', F.silu), unary('softplus', F.softplus), positive('sqrt', torch.sqrt),
    positive('rsqrt', torch.rsqrt), unary('neg', torch.neg), unary('abs', torch.abs), unary('sign', torch.sign),
    unary('floor', torch.floor), unary('sin', torch.sin), unary('cos', torch.cos), unary('tan', torch.tan), positive('asin', torch.asin),
    positive('acos', torch.acos), unary('atan', torch.atan), unary('ceil', torch.ceil), unary('round', torch.round),
    Case('gelu tanh', {'x': WIDE}, '%r = tessera.gelu %x {approximate = "tanh"} : $x', WIDE,
         lambda x: lambda: F.gelu(x, approximate='tanh')),
    Case('clamp', {'x': WIDE}, '%r = tessera.clamp %x {low = -0.5, high = 0.5} : $x', WIDE, lambda x: lambda: x.clamp(-0.5, 0.5)),
    Case('where', {'x': WIDE, 'y': WIDE}, '%c = tessera.compare gt %x, %y : $x, $y -> tensor<512x3072xi1>\n'
         '%r = tessera.where %c, %x, %y : tensor<512x3072xi1>, $x, $y -> $r', WIDE, lambda x, y: lambda: torch.where(x > y, x, y)),
    Case('compare', {'x': WIDE, 'y': WIDE}, '%r = tessera.compare gt %x, %y : $x, $y -> $r', tensor(WIDE, 'i1'),
         lambda x, y: lambda: x > y),
    Case('cast bf16', {'x': WIDE}, '%r = tessera.cast %x : $x to $r', tensor(WIDE, 'bf16'), lambda x: lambda: x.to(torch.bfloat16)),
    Case('cast i64', {'x': WIDE}, '%r = tessera.cast %x : $x to $r', tensor(WIDE, 'i64'), lambda x: lambda: x.to(torch.int64)),
    Case('sum all', {'x': ROWS}, '%r = tessera.sum %x {axes = [0, 1]} : $x -> $r', 'tensor<f32>', lambda x: x.sum),
    Case('sum rows', {'x': ROWS}, '%r = tessera.sum %x {axes = [1]} : $x -> $r', ROWS[:1], lambda x: lambda: x.sum(1)),
    Case('sum columns', {'x': ROWS}, '%r = tessera.sum %x {axes = [0]} : $x -> $r', ROWS[1:], lambda x: lambda: x.sum(0)),
    Case('mean', {'x': ROWS}, '%r = tessera.mean %x {axes = [1]} : $x -> $r', ROWS[:1], lambda x: lambda: x.mean(1)),
    Case('reduce_max', {'x': ROWS}, '%r = tessera.reduce_max %x {axes = [1]} : $x -> $r', ROWS[:1], lambda x: lambda: x.amax(1)),
    Case('reduce_max columns', {'x': ROWS}, '%r = tessera.reduce_max %x {axes = [0]} : $x -> $r', ROWS[1:], lambda x: lambda: x.amax(0)),
    Case('reduce_prod', {'x': ROWS}, '%r = tessera.reduce_prod %x {axes = [1]} : $x -> $r', ROWS[:1], lambda x: lambda: x.prod(1)),
    Case('argmax', {'x': ROWS}, '%r = tessera.argmax %x {axis = 1 : i64} : $x -> $r', tensor(ROWS[:1], 'i64'),
         lambda x: lambda: x.argmax(1)),
    Case('argmax columns', {'x': ROWS}, '%r = tessera.argmax %x {axis = 0 : i64} : $x -> $r', tensor(ROWS[1:], 'i64'),
         lambda x: lambda: x.argmax(0)),
    Case('cumsum', {'x': ROWS}, '%r = tessera.cumsum %x {axis = 1} : $x', ROWS, lambda x: lambda: x.cumsum(1)),
    Case('cumsum columns', {'x': ROWS}, '%r = tessera.cumsum %x {axis = 0} : $x', ROWS, lambda x: lambda: x.cumsum(0)),
    Case('sort', {'x': (256, 1000)}, '%r:2 = tessera.sort %x {axis = 1} : $x -> $r, $r1', [(256, 1000), tensor((256, 1000), 'i64')],
         lambda x: lambda: x.sort(dim=1, stable=True)),
    Case('top_k', {'x': (64, 32768)}, '%r:2 = tessera.top_k %x {axis = 1, k = 40} : $x -> $r, $r1', [(64, 40), tensor((64, 40), 'i64')],
         lambda x: lambda: x.topk(40, 1)),
    Case('top_k of 1000', {'x': (256, 1000)}, '%r:2 = tessera.top_k %x {axis = 1, k = 5} : $x -> $r, $r1',
         [(256, 5), tensor((256, 5), 'i64')], lambda x: lambda: x.topk(5, 1)),
    Case('transpose', {'x': WIDE}, '%r = tessera.transpose %x {permutation = [1, 0]} : $x -> $r', WIDE[::-1], lambda x: x.T.contiguous),
    Case('transpose heads', {'x': (512, 12, 64)}, '%r = tessera.transpose %x {permutation = [1, 0, 2]} : $x -> $r', (12, 512, 64),
         lambda x: x.permute(1, 0, 2).contiguous),
    Case('broadcast', {'x': WIDE[1:]}, '%r = tessera.broadcast %x : $x -> $r', WIDE, lambda x: x.expand(WIDE).contiguous),
    Case('slice stride 2', {'x': WIDE}, '%r = tessera.slice %x {start = [0, 0], size = [512, 1536], stride = [1, 2]} : $x -> $r',
         (512, 1536), lambda x: x[:, ::2].contiguous),
    Case('pad', {'x': WIDE}, '%r = tessera.pad %x {low = [1, 1], high = [1, 1], interior = [0, 0], value = 0.0} : $x -> $r', (514, 3074),
         lambda x: lambda: F.pad(x, (1, 1, 1, 1))),
    Case('concat', {'x': WIDE, 'y': WIDE}, '%r = tessera.concat %x, %y {axis = 1} : $x, $y -> $r', (512, 6144),
         lambda x, y: lambda: torch.cat([x, y], 1)),
    Case('gather', {'x': TABLE, 'i': (COUNT, TABLE[0])}, '%r = tessera.gather %x, %i {axis = 0} : $x, $i -> $r', (COUNT, TABLE[1]),
         lambda x, i: lambda: x[i]),
    Case('scatter_add', {'x': (4096, 256), 'i': (COUNT, 4096), 'u': (COUNT, 256)},
         '%r = tessera.scatter_add %x, %i, %u {axis = 0} : $x, $i, $u', (4096, 256), scatter),
    Case('one_hot', {'i': (1024, 1000)}, '%r = tessera.one_hot %i {axis = 1} : $i -> $r', (1024, 1000),
         lambda i: lambda: F.one_hot(i, 1000).to(torch.float32)),
    Case('iota', {}, '%r = tessera.iota {axis = 1} : $r', tensor(ROWS, 'i64'), lambda: lambda: torch.arange(1024).expand(ROWS).contiguous()),
    Case('softmax_safe', {'x': ROWS}, '%r = tessera.softmax_safe %x {axis = 1} : $x', ROWS, lambda x: lambda: x.softmax(1)),
    Case('softmax_safe columns', {'x': ROWS}, '%r = tessera.softmax_safe %x {axis = 0} : $x', ROWS, lambda x: lambda: x.softmax(0)),
    Case('logsumexp_safe', {'x': ROWS}, '%r = tessera.logsumexp_safe %x {axes = [1]} : $x -> $r', ROWS[:1], lambda x: lambda: x.logsumexp(1)),
    Case('layernorm_safe', {'x': (512, 768), 's': (768,), 'b': (768,)},
         '%r = tessera.layernorm_safe %x, %s, %b {axes = [1]} : $x, $s, $b -> $r', (512, 768),
         lambda x, s, b: lambda: F.layer_norm(x, (768,), s, b)),
    Case('rmsnorm_safe', {'x': (512, 768), 's': (768,)}, '%r = tessera.rmsnorm_safe %x, %s {axes = [1]} : $x, $s -> $r', (512, 768),
         lambda x, s: lambda: F.rms_norm(x, (768,), s, 1e-5)),
    Case('batch_norm', NORM, '%w = tessera.abs %v : $v\n%r = tessera.batch_norm %x, %s, %b, %m, %w {axis = 3} : $x, $s, $b, $m, $v -> $r',
         IMAGE, batch_norm),
    Case('batch_norm_train', NORM, '%w = tessera.abs %v : $v\n%r:3 = tessera.batch_norm_train %x, %s, %b, %m, %w {axis = 3} : '
         '$x, $s, $b, $m, $v -> $r, $m, $v', [IMAGE, C, C], batch_norm_train),
    Case('cross_entropy', {'x': (256, 32768), 'i': (256, 32768)}, '%r = tessera.cross_entropy %x, %i : $x, $i -> $r', (256,),
         lambda x, i: lambda: F.cross_entropy(x, i, reduction='none')),
    Case('attention', {'q': SEQ, 'k': SEQ, 'v': SEQ}, '%r = tessera.attention %q, %k, %v : $q, $k, $v -> $r', SEQ, attention(False, False)),
    Case('attention causal', {'q': SEQ, 'k': SEQ, 'v': SEQ}, '%r = tessera.attention %q, %k, %v {causal} : $q, $k, $v -> $r', SEQ,
         attention(True, False)),
    Case('attention 4 heads of keys', {'q': SEQ, 'k': (1, 4, 512, 64), 'v': (1, 4, 512, 64)},
         '%r = tessera.attention %q, %k, %v {causal} : $q, $k, $v -> $r', SEQ, attention(True, True)),
    Case('rotary', {'x': SEQ}, '%r = tessera.rotary %x {axis = 2} : $x', SEQ, rotary),
    Case('random_uniform', {}, '%r = tessera.random_uniform {low = 0.0, high = 1.0} : $r', WIDE, lambda: lambda: torch.rand(WIDE), 'train'),
    Case('random_normal', {}, '%r = tessera.random_normal : $r', WIDE, lambda: lambda: torch.randn(WIDE), 'train'),
    Case('dropout', {'x': WIDE}, '%r = tessera.dropout %x {rate = 0.1} : $x -> $x', WIDE, lambda x: lambda: F.dropout(x, 0.1), 'train'),
    Case('sgd', {'g': WIDE}, '%p = tessera.param "p" init = #tessera.uniform<-1.0, 1.0> : $g\n'
         '%m = tessera.opt.state "p.velocity" of "p" kind "velocity" init = #tessera.constant<0.0> : $g\n'
         '%l = tessera.constant dense<0.1> : tensor<f32>\n'
         '%n:2 = tessera.sgd %p, %g, %m, %l {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : $g, tensor<f32>\n'
         'tessera.assign %n#0 to "p" : $g\ntessera.assign %n#1 to "p.velocity" : $g\n%r = tessera.constant dense<0.0> : tensor<f32>',
         'tensor<f32>', sgd, 'train', 4),
    Case('adamw', {'g': WIDE}, '%p = tessera.param "p" init = #tessera.uniform<-1.0, 1.0> : $g\n'
         '%m = tessera.opt.state "p.adam_m" of "p" kind "adam_m" init = #tessera.constant<0.0> : $g\n'
         '%v = tessera.opt.state "p.adam_v" of "p" kind "adam_v" init = #tessera.constant<0.0> : $g\n%t = tessera.step : tensor<i64>\n'
         '%n:3 = tessera.adamw %p, %g, %m, %v, %t {optimizer = #tessera.adamw<lr = 0.001, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, '
         'weight_decay = 0.01>} : $g, tensor<i64>\ntessera.assign %n#0 to "p" : $g\ntessera.assign %n#1 to "p.adam_m" : $g\n'
         'tessera.assign %n#2 to "p.adam_v" : $g\n%r = tessera.constant dense<0.0> : tensor<f32>', 'tensor<f32>', adamw, 'train', 6),
    matrix('matmul batched', (96, 128, 64), (96, 64, 128), (96, 128, 128), '', torch.matmul),
    matrix('matmul batched, b transposed', (96, 128, 64), (96, 128, 64), (96, 128, 128), '{transpose_b = true}', lambda x, y: x @ y.mT),
    matrix('matmul batched, a transposed', (96, 64, 128), (96, 64, 128), (96, 128, 128), '{transpose_a = true}', lambda x, y: x.mT @ y),
    Case('conv2d', {'x': CONV_IMAGE, 'f': CONV_FILTER}, f'%r = tessera.conv2d %x, %f {CONV} : $x, $f -> $r', CONV_IMAGE,
         conv),
    Case('conv2d_grad_input', {'f': CONV_FILTER, 'g': CONV_IMAGE}, f'%r = tessera.conv2d_grad_input %f, %g {CONV} : $f, $g -> $r',
         CONV_IMAGE, conv_grad(0)),
    Case('conv2d_grad_filter', {'x': CONV_IMAGE, 'g': CONV_IMAGE}, f'%r = tessera.conv2d_grad_filter %x, %g {CONV} : $x, $g -> $r',
         CONV_FILTER, conv_grad(1)),
    *pool('max', 2, 2, 0, F.max_pool2d), *pool('max', 3, 2, 1, F.max_pool2d),
    *pool('avg', 2, 2, 0, F.avg_pool2d), *pool('avg', 3, 1, 1, F.avg_pool2d),
]


def learned(name, parameters, body, result, call, given=None):
    """Forward and backward: parameters {name: shape}, %y computed from them; its product with %g is summed and minimized. PyTorch gets
    the gradient of the result, and takes the same step."""
    lines = [f'%{p} = tessera.param "{p}" init = #tessera.uniform<-1.0, 1.0> : {tensor(shape)}' for p, shape in parameters.items()]
    body = re.sub(r'\$(\w+)', lambda m: tensor(result if m.group(1) == 'y' else parameters[m.group(1)]) if m.group(1) in (*parameters, 'y') else m.group(0),
                  body)
    lines += [body, f'%p = tessera.mul %y, %g : {tensor(result)}, {tensor(result)} -> {tensor(result)}',
              f'%r = tessera.sum %p {{axes = {list(range(len(result)))}}} : {tensor(result)} -> tensor<f32>',
              'tessera.minimize %r {optimizer = #tessera.sgd<lr = 1.0e-6, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>']

    def prepare(*values):
        values = dict(zip([*(given or {}), 'g'], values))
        g = values.pop('g')
        images = name.split()[1] in IMAGES
        p = [torch.nn.Parameter((torch.rand(shape) * 2 - 1).permute(0, 3, 1, 2) if images and n == 'x' else torch.rand(shape) * 2 - 1)
             for n, shape in parameters.items()]
        g = g.permute(0, 3, 1, 2) if images else g
        optimizer = torch.optim.SGD(p, lr=1e-6, foreach=True)

        def step():
            optimizer.zero_grad(set_to_none=True)
            call(*p, *values.values()).backward(g)
            optimizer.step()
        return step
    return Case(name, {**(given or {}), 'g': result}, '\n'.join(lines), 'tensor<f32>', prepare, 'train')


WIDTH = {'x': (512, 768), 's': (768,), 'b': (768,)}
LEARNED = [
    learned('step: softmax_safe', {'x': ROWS}, '%y = tessera.softmax_safe %x {axis = 1} : $x', ROWS, lambda x: x.softmax(1)),
    learned('step: layernorm_safe', WIDTH, '%y = tessera.layernorm_safe %x, %s, %b {axes = [1]} : $x, $s, $b -> $y', (512, 768),
            lambda x, s, b: F.layer_norm(x, (768,), s, b)),
    learned('step: rmsnorm_safe', {'x': (512, 768), 's': (768,)}, '%y = tessera.rmsnorm_safe %x, %s {axes = [1]} : $x, $s -> $y', (512, 768),
            lambda x, s: F.rms_norm(x, (768,), s, 1e-5)),
    learned('step: logsumexp_safe', {'x': ROWS}, '%y = tessera.logsumexp_safe %x {axes = [1]} : $x -> $y', ROWS[:1], lambda x: x.logsumexp(1)),
    learned('step: gelu', {'x': WIDE}, '%y = tessera.gelu %x : $x', WIDE, F.gelu),
    learned('step: tanh', {'x': WIDE}, '%y = tessera.tanh %x : $x', WIDE, torch.tanh),
    learned('step: silu', {'x': WIDE}, '%y = tessera.silu %x : $x', WIDE, F.silu),
    learned('step: reduce_max', {'x': ROWS}, '%y = tessera.reduce_max %x {axes = [1]} : $x -> $y', ROWS[:1], lambda x: x.amax(1)),
    learned('step: reduce_prod', {'x': ROWS}, '%y = tessera.reduce_prod %x {axes = [1]} : $x -> $y', ROWS[:1], lambda x: x.prod(1)),
    learned('step: cumsum', {'x': ROWS}, '%y = tessera.cumsum %x {axis = 1} : $x', ROWS, lambda x: x.cumsum(1)),
    learned('step: gather', {'x': (4096, 256)}, '%y = tessera.gather %x, %i {axis = 0} : $x, $i -> $y', (COUNT, 256), lambda x, i: F.embedding(i, x),
            {'i': (COUNT, 4096)}),
    learned('step: sort', {'x': (256, 1000)}, '%y, %j = tessera.sort %x {axis = 1} : $x -> $y, tensor<256x1000xi64>', (256, 1000),
            lambda x: x.sort(dim=1, stable=True)[0]),
    learned('step: top_k', {'x': (256, 1000)}, '%y, %j = tessera.top_k %x {axis = 1, k = 5} : $x -> $y, tensor<256x5xi64>', (256, 5),
            lambda x: x.topk(5, 1)[0]),
    learned('step: slice stride 2', {'x': WIDE}, '%y = tessera.slice %x {start = [0, 0], size = [512, 1536], stride = [1, 2]} : $x -> $y', (512, 1536),
            lambda x: x[:, ::2]),
    learned('step: concat', {'x': WIDE, 'z': WIDE}, '%y = tessera.concat %x, %z {axis = 1} : $x, $z -> $y', (512, 6144), lambda x, z: torch.cat([x, z], 1)),
    learned('step: pow', {'x': WIDE, 'z': WIDE}, '%a = tessera.abs %x : $x\n%y = tessera.pow %a, %z : $x, $z -> $y', WIDE,
            lambda x, z: torch.pow(x.abs(), z)),
    learned('step: div', {'x': WIDE, 'z': WIDE}, '%y = tessera.div %x, %z : $x, $z -> $y', WIDE, torch.div),
    learned('step: cross_entropy', {'x': (256, 32768)}, '%y = tessera.cross_entropy %x, %i : $x, $i -> $y', (256,),
            lambda x, i: F.cross_entropy(x, i, reduction='none'), {'i': (256, 32768)}),
    learned('step: attention causal', {'q': SEQ, 'k': SEQ, 'v': SEQ}, '%y = tessera.attention %q, %k, %v {causal} : $q, $k, $v -> $y', SEQ,
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    learned('step: rotary', {'x': SEQ}, '%y = tessera.rotary %x {axis = 2} : $x', SEQ, lambda x: rotary(x)()),
    learned('step: batch_norm_train', {'x': IMAGE, 's': C, 'b': C}, '%m = tessera.opt.state "m" of "s" kind "m" init = #tessera.constant<0.0> : $s\n'
            '%y, %n, %o = tessera.batch_norm_train %x, %s, %b, %m, %m {axis = 3} : $x, $s, $b, $s, $s -> $y, $s, $s', IMAGE,
            lambda x, s, b: F.batch_norm(x, None, None, s, b, training=True)),
    learned('step: max_pool2d', {'x': IMAGE}, '%y = tessera.max_pool2d %x {window = [3, 3], strides = [2, 2], padding = [1, 1, 1, 1]} : $x -> $y',
            POOLED, lambda x: F.max_pool2d(x, 3, 2, 1)),
    learned('step: conv2d stride 2', {'x': (1, 56, 56, 64), 'f': (3, 3, 64, 128)},
            '%y = tessera.conv2d %x, %f {strides = [2, 2], padding = [1, 1, 1, 1], dilation = [1, 1]} : $x, $f -> $y', (1, 28, 28, 128),
            lambda x, f: F.conv2d(x, f.permute(3, 2, 0, 1), stride=2, padding=1)),
    learned('step: conv2d of one channel a group', {'x': (1, 56, 56, 96), 'f': (3, 3, 1, 96)},
            '%y = tessera.conv2d %x, %f {strides = [1, 1], padding = [1, 1, 1, 1], dilation = [1, 1], groups = 96 : i64} : $x, $f -> $y', (1, 56, 56, 96),
            lambda x, f: F.conv2d(x, f.permute(3, 2, 0, 1), padding=1, groups=96)),
    learned('step: matmul', {'x': (512, 768), 'z': (768, 768)}, '%y = tessera.matmul %x, %z : $x, $z -> $y', (512, 768), torch.matmul),
]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f'{" ".join(command)}:\n{done.stdout}{done.stderr}')
    return done.stdout


def seconds_of(call):
    call()
    count, start, now = 0, time.perf_counter(), 0.0
    while now < ROUND_SECONDS or count < 2:
        call()
        count += 1
        now = time.perf_counter() - start
    return now / count


def measure(args, folder, cases):
    """Returns {name: (ours, theirs, a copy of the same number of bytes, launches)}, times in seconds."""
    files = {case.name: f'{folder}/{index}.mlir' for index, case in enumerate(cases)}
    for case in cases:
        with open(files[case.name], 'w', encoding='utf-8') as file:
            file.write(case.text())
    line = json.loads(run([args.bench, f'--aot={args.aot}', f'--folder={folder}', f'--threads={args.threads}', f'--rounds={ROUNDS}',
                           *files.values()]))
    rows = {}
    for case in cases:
        with torch.enable_grad() if 'grad' in case.name or case in LEARNED else torch.no_grad():
            call = case.torch_call()
            theirs = statistics.median(seconds_of(call) for _ in range(ROUNDS))
        ours = line[os.path.basename(files[case.name])]
        half = torch.empty(case.bytes() // 2 + 1, dtype=torch.uint8)
        copy = statistics.median(seconds_of(lambda a=half, b=torch.ones_like(half): a.copy_(b)) for _ in range(ROUNDS))
        rows[case.name] = (ours['seconds'], theirs, copy, ours['launches'])
    return rows


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('aot')
    parser.add_argument('bench')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--only', default='', help='a regular expression of names')
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])
    torch.set_num_threads(args.threads)
    cases = [case for case in CASES + LEARNED if re.search(args.only, case.name)]
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, len(cases), FILES_MAX):
            rows.update(measure(args, folder, cases[first:first + FILES_MAX]))
    for name, (ours, theirs, copy, launches) in sorted(rows.items(), key=lambda row: -row[1][1] / row[1][0]):
        print(f'{name:30} {ours * 1e6:10.1f} us {launches:3} launches   PyTorch {theirs * 1e6:10.1f} us {theirs / ours:6.2f}x   '
              f'copy {copy * 1e6:8.1f} us {copy / ours:5.2f}x')
    ratios = {name: float(f'{row[1] / row[0]:.3g}') for name, row in rows.items()}
    print(json.dumps({'threads': args.threads, 'torch': torch.__version__, 'ratios': ratios}))


if __name__ == '__main__':
    main()
