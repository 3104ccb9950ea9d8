# SPDX-License-Identifier: Apache-2.0
"""saved.py AOT RUN: the values of an iteration that the gradient of a scan saves, and those that it recomputes.

A recurrent net is trained for one step; its gradient is compared with NumPy's in float64. The product of an iteration is long
enough to be saved: the first loop stacks it; the second loop reads it and contains only the two products of the gradient. A short
product is recomputed, and so is a long one in a branch; a value that is already stacked as a result is read from the result. Exit
code 77, skipped, without NumPy.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

TIMES, BATCH, RATE = 60, 3, 0.5
PROGRAM = '''
func.func @train(%x: tensor<TIMESxBATCHxWxf64> {tessera.data = "x"}) -> (tensor<f64> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %u = tessera.param "u" init = #tessera.normal<0.0, 0.1> : tensor<WxWxf64>
  %zero = tessera.constant dense<0.5> : tensor<BATCHxWxf64>
  %h:2 = tessera.scan %zero, %x {
  ^bb0(%c: tensor<BATCHxWxf64>, %r: tensor<BATCHxWxf64>):
    %p = PRODUCT
    %y = tessera.add %p, %r : tensor<BATCHxWxf64>, tensor<BATCHxWxf64> -> tensor<BATCHxWxf64>
    %t = tessera.tanh %y : tensor<BATCHxWxf64>
    %s = tessera.mul %p, %p : tensor<BATCHxWxf64>, tensor<BATCHxWxf64> -> tensor<BATCHxWxf64>
    tessera.yield %t, YIELD : tensor<BATCHxWxf64>, tensor<BATCHxWxf64>
  } {carried = 1 : i64} : tensor<BATCHxWxf64>, tensor<TIMESxBATCHxWxf64> -> tensor<BATCHxWxf64>, tensor<TIMESxBATCHxWxf64>
  %a = tessera.sum %h#0 {axes = [0, 1]} : tensor<BATCHxWxf64> -> tensor<f64>
  %q = SQUARED
  %b = tessera.mean %q {axes = [0, 1, 2]} : tensor<TIMESxBATCHxWxf64> -> tensor<f64>
  %loss = tessera.add %a, %b : tensor<f64>, tensor<f64> -> tensor<f64>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = RATE, momentum = 0.0, weight_decay = 0.0>} : tensor<f64>
  return %loss : tensor<f64>
}
'''
MATMUL = 'tessera.matmul %c, %u : tensor<BATCHxWxf64>, tensor<WxWxf64> -> tensor<BATCHxWxf64>'
BRANCH = f'''tessera.if %true {{
      %pp = {MATMUL}
      tessera.yield %pp : tensor<BATCHxWxf64>
    }} else {{
      tessera.yield %c : tensor<BATCHxWxf64>
    }} : tensor<i1> -> tensor<BATCHxWxf64>'''
SQUARE = 'tessera.mul %h#1, %h#1 : tensor<TIMESxBATCHxWxf64>, tensor<TIMESxBATCHxWxf64> -> tensor<TIMESxBATCHxWxf64>'
SAME = 'tessera.reshape %h#1 : tensor<TIMESxBATCHxWxf64> -> tensor<TIMESxBATCHxWxf64>'
# name: width, product, what is stacked, products of the gradient's loop, arrays that the first loop stacks
CASES = {'saved': (128, MATMUL, False, 2, 3), 'taken': (128, MATMUL, True, 2, 2), 'short': (16, MATMUL, False, 3, 2),
         'branch': (128, BRANCH, False, 3, 2)}


def source(width, product, stacks_product):
    text = PROGRAM.replace('PRODUCT', product).replace('YIELD', '%p' if stacks_product else '%s')
    text = text.replace('SQUARED', SQUARE if stacks_product else SAME)
    if product is BRANCH:
        text = text.replace('  %zero', '  %true = tessera.constant dense<true> : tensor<i1>\n  %zero', 1)
    for name, value in (('TIMES', TIMES), ('BATCH', BATCH), ('RATE', RATE), ('xW', f'x{width}'), ('<W', f'<{width}')):
        text = text.replace(name, str(value))
    return text


def gradient(u, x):
    """Of sum(last state) + mean(product^2)."""
    states, products = [np.full(x.shape[1:], 0.5)], []
    for r in x:
        products.append(states[-1] @ u)
        states.append(np.tanh(products[-1] + r))
    of_state, of_u = np.ones(x.shape[1:]), np.zeros_like(u)
    for c, p, t in zip(states[-2::-1], products[::-1], states[:0:-1]):
        of_p = of_state * (1 - t * t) + 2 * p / x.size
        of_u += c.T @ of_p
        of_state = of_p @ u.T
    return of_u


def write_parameter(path, values):
    header = json.dumps({'u': {'dtype': 'F64', 'shape': values.shape, 'data_offsets': [0, values.nbytes]}}).encode()
    header += b' ' * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, 'little') + header + values.tobytes())


def read_parameter(path, shape):
    raw = path.read_bytes()
    return np.frombuffer(raw[8 + int.from_bytes(raw[:8], 'little'):], '<f8').reshape(shape)


def check(aot, run, folder, name, width, product, stacks_product, products, stacked):
    file = folder / f'{name}.mlir'
    file.write_text(source(width, product, stacks_product), encoding='utf-8')
    built = subprocess.run([aot, 'build', file, '-o', file.with_suffix('.tsb'), '--target', 'cpu:x86-64-v2', '--dump', 'program'], check=True,
                           capture_output=True, text=True).stdout
    first, other = re.split(r'repeat \d+ times', built)[1:]
    got = len(re.findall(r'launch @\w*matmul', other)), len(re.findall(r'put slice', first))
    assert got == (products, stacked), (name, got, built)
    random = np.random.default_rng(width)
    before, x = random.standard_normal((width, width)) / 10, random.standard_normal((BATCH, width))
    x = np.broadcast_to(x, (TIMES, BATCH, width))  # the order of samples is the run's
    np.save(folder / 'x.npy', x)
    write_parameter(folder / 'before', before)
    subprocess.run([run, file.with_suffix('.tsb'), '--steps', '1', '--data', f'x={folder / "x.npy"}', '--quiet', '--params', folder / 'before',
                    '--export-params', folder / 'after'], check=True, stdout=subprocess.DEVNULL)
    after = read_parameter(folder / 'after', before.shape)
    wanted = gradient(before, x)
    error = np.abs((before - after) / RATE - wanted).max() / np.abs(wanted).max()
    print(f'{name}: relative error {error:.3g}')
    assert error < 1e-12, name  # f64 against f64: sums of some ten thousand products


def main():
    with tempfile.TemporaryDirectory() as name:
        for case, values in CASES.items():
            check(*sys.argv[1:3], pathlib.Path(name), case, *values)


main()
