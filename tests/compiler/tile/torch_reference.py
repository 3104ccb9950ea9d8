#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Batched products, convolutions, attention and gradients of norms, built and run by the tools, compared with PyTorch in
float64.

usage: torch_reference.py TESSERA_AOT TESSERA_RUN [SEED]

Shapes are drawn from the seed, which is printed. Exits with 77 without PyTorch.
"""
import os
import random
import subprocess
import sys
import tempfile
import time

try:
    import numpy
    import torch
except ImportError as error:
    print(error)
    sys.exit(77)

CASES, TOLERANCE = 2, 2e-5


def type_of(array):
    return f"tensor<{'x'.join(map(str, array.shape))}xf32>"


def call_entry(aot, tool, folder, body, arrays, shapes, *flags):
    """Results of `body`, whose operands are %i0 … and results %y0 …"""
    results = [f"tensor<{'x'.join(map(str, shape))}xf32>" for shape in shapes]
    arguments = ", ".join(f'%i{k}: {type_of(array)} {{tessera.name = "i{k}"}}' for k, array in enumerate(arrays))
    named = ", ".join(f'{kind} {{tessera.name = "y{k}"}}' for k, kind in enumerate(results))
    text = (f'module @m {{\nfunc.func @f({arguments}) -> ({named}) attributes {{tessera.entry = "infer"}} {{\n{body}\n'
            f'return {", ".join(f"%y{k}" for k in range(len(results)))} : {", ".join(results)}\n}}\n}}\n')
    source, bundle = os.path.join(folder, "m.mlir"), os.path.join(folder, "m.tsb")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run([aot, "build", source, "-o", bundle, *flags], check=True, stdout=subprocess.DEVNULL)
    command = [tool, bundle, "--entry", "f"]
    for k in range(len(results)):
        command += ["--output", f"y{k}={folder}/y{k}.npy"]
    for k, array in enumerate(arrays):
        numpy.save(f"{folder}/i{k}.npy", array)
        command += ["--input", f"i{k}={folder}/i{k}.npy"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [numpy.load(f"{folder}/y{k}.npy") for k in range(len(results))]


def run(aot, tool, folder, op, attrs, arrays, shape):
    types = [type_of(array) for array in arrays]
    names = ", ".join(f"%i{k}" for k in range(len(arrays)))
    result = f"tensor<{'x'.join(map(str, shape))}xf32>"
    body = f'%y0 = tessera.{op} {names} {{{attrs}}} : {", ".join(types)} -> {result}'
    return call_entry(aot, tool, folder, body, arrays, [shape])[0]


def compare(what, got, expected):
    error = numpy.abs(got - expected).max() / (1 + numpy.abs(expected).max())
    print(f"{what}: relative error {error:.2e}")
    if not error <= TOLERANCE:
        sys.exit(f"{what}: expected at most {TOLERANCE}")


def floats(draw, *shape):
    return numpy.random.default_rng(draw.getrandbits(32)).uniform(-1, 1, shape).astype("f4")


def wide(array):
    return torch.from_numpy(array.astype("f8"))


def check_matmul(draw, call):
    batch, m, n, k = draw.randint(1, 5), draw.randint(1, 70), draw.randint(1, 130), draw.randint(1, 90)
    a, b = floats(draw, batch, 2, m, k), floats(draw, 2, k, n)
    compare(f"matmul {a.shape} {b.shape}", call("matmul", "", [a, b], (batch, 2, m, n)),
            (wide(a) @ wide(b)).numpy())


def check_conv(draw, call):
    groups, kernel, stride, dilation = (draw.choice((1, 1, 2, 3)), draw.randint(1, 4),
                                        draw.randint(1, 3), draw.randint(1, 2))
    channels, filters, padding = groups * draw.randint(1, 9), groups * draw.randint(1, 20), draw.randint(0, 3)
    x = floats(draw, 2, draw.randint(9, 20), draw.randint(9, 20), channels)
    w = floats(draw, kernel, kernel, channels // groups, filters)
    # Contiguous: PyTorch refuses some gradients of filters that are not.
    image = wide(x).permute(0, 3, 1, 2).contiguous().requires_grad_()
    filter_ = wide(w).permute(3, 2, 0, 1).contiguous().requires_grad_()
    y = torch.nn.functional.conv2d(image, filter_, None, stride, padding, dilation, groups)
    g = floats(draw, *y.permute(0, 2, 3, 1).shape)
    y.backward(wide(g).permute(0, 3, 1, 2))
    attrs = (f"strides = [{stride}, {stride}], padding = [{padding}, {padding}, {padding}, {padding}], "
             f"dilation = [{dilation}, {dilation}], groups = {groups} : i64")
    what = f"{x.shape} {w.shape} {attrs}"
    compare(f"conv2d {what}", call("conv2d", attrs, [x, w], g.shape), y.detach().permute(0, 2, 3, 1).numpy())
    compare(f"conv2d_grad_input {what}", call("conv2d_grad_input", attrs, [w, g], x.shape),
            image.grad.permute(0, 2, 3, 1).numpy())
    compare(f"conv2d_grad_filter {what}", call("conv2d_grad_filter", attrs, [x, g], w.shape),
            filter_.grad.permute(2, 3, 1, 0).numpy())


def check_attention(draw, call):
    key_heads, repeat = draw.randint(1, 3), draw.randint(1, 2)
    queries, keys, size = draw.randint(1, 90), draw.randint(90, 700), draw.randint(1, 70)
    q = floats(draw, 2, key_heads * repeat, queries, size)
    k, v = floats(draw, 2, key_heads, keys, size), floats(draw, 2, key_heads, keys, size)
    mask = floats(draw, 1, key_heads * repeat, queries, keys)
    expected = torch.nn.functional.scaled_dot_product_attention(
        wide(q), wide(k).repeat_interleave(repeat, 1), wide(v).repeat_interleave(repeat, 1), wide(mask))
    compare(f"attention {q.shape} {k.shape}", call("attention", "", [q, k, v, mask], q.shape),
            expected.numpy())


def check_norm_gradient(draw, aot, tool, folder):
    """With native numerics sums over rows are taken in the walk over them; some rows are a program's, and parts are added."""
    outer, rows, columns = draw.randint(1, 3), draw.choice((1, 3, 50, 700)), draw.randint(1, 150)
    x, r = floats(draw, outer, rows, columns), floats(draw, outer, rows, 1)
    g, s = floats(draw, outer, rows, columns), floats(draw, columns)
    full, reduced = type_of(x), f"tensor<{outer}x{rows}xf32>"
    body = f"""%n = tessera.mul %i0, %i1 : {full}, {type_of(r)} -> {full}
%h = tessera.mul %i2, %i3 : {full}, {type_of(s)} -> {full}
%p = tessera.mul %h, %n : {full}, {full} -> {full}
%m = tessera.mean %p {{axes = [2]}} : {full} -> {reduced}
%e = tessera.reshape %m : {reduced} -> {type_of(r)}
%a = tessera.mul %n, %e : {full}, {type_of(r)} -> {full}
%y0 = tessera.sub %h, %a : {full}, {full} -> {full}
%q = tessera.mul %i2, %n : {full}, {full} -> {full}
%y1 = tessera.sum %q {{axes = [1]}} : {full} -> tensor<{outer}x{columns}xf32>
%y2 = tessera.sum %i2 {{axes = [0, 1]}} : {full} -> tensor<{columns}xf32>"""
    results = call_entry(aot, tool, folder, body, [x, r, g, s], [x.shape, (outer, columns), (columns,)], "--numerics", "native")
    n, h = wide(x) * wide(r), wide(g) * wide(s)
    expected = (h - n * (h * n).mean(2, keepdim=True), (wide(g) * n).sum(1), wide(g).sum((0, 1)))
    for name, got, right in zip(("rows", "scale", "bias"), results, expected):
        compare(f"norm gradient {x.shape}, {name}", got, right.numpy())


def main(aot, tool, seed):
    print(f"seed {seed}")
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        def call(*arguments):
            return run(aot, tool, folder, *arguments)
        for _ in range(CASES):
            check_matmul(draw, call)
            check_conv(draw, call)
            check_attention(draw, call)
            check_norm_gradient(draw, aot, tool, folder)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time()))
