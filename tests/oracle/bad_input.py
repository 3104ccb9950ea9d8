#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What happens at the edges: bad indices and labels end a call with an error that names them; division and functions outside their
domain give what IEEE 754 says; a branch not taken cannot fault; constants may be infinite or NaN; tensors may be empty.

usage: bad_input.py TOOLS
"""
import re
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

from graph import parse
from product import Product

INF, NAN = np.inf, np.nan
DATA = 8  # exit code: docs/exit-codes.md
SOURCE = '''
func.func @gather(%x: tensor<3x2xf32> {tessera.name = "x"}, %i: tensor<4xi64> {tessera.name = "i"}) -> (tensor<4x2xf32> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %y = "tessera.gather"(%x, %i) {axis = 0 : i64} : (tensor<3x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
  "func.return"(%y) : (tensor<4x2xf32>) -> ()
}
func.func @gather_small(%x: tensor<3x2xf32> {tessera.name = "x"}, %i: tensor<4xi32> {tessera.name = "i"}) -> (tensor<3x4xf32> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %y = "tessera.gather"(%x, %i) {axis = 1 : i64} : (tensor<3x2xf32>, tensor<4xi32>) -> tensor<3x4xf32>
  "func.return"(%y) : (tensor<3x4xf32>) -> ()
}
func.func @scatter(%x: tensor<3xf32> {tessera.name = "x"}, %i: tensor<2xi64> {tessera.name = "i"}, %u: tensor<2xf32> {tessera.name = "u"}) -> (tensor<3xf32> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %y = "tessera.scatter_add"(%x, %i, %u) {axis = 0 : i64} : (tensor<3xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<3xf32>
  "func.return"(%y) : (tensor<3xf32>) -> ()
}
func.func @label(%x: tensor<2x3xf32> {tessera.name = "x"}, %i: tensor<2xi64> {tessera.name = "i"}) -> (tensor<2xf32> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %y = "tessera.cross_entropy"(%x, %i) : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<2xf32>
  "func.return"(%y) : (tensor<2xf32>) -> ()
}
func.func @empty(%x: tensor<0x2xf32> {tessera.name = "x"}, %i: tensor<1xi64> {tessera.name = "i"}) -> (tensor<1x2xf32> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %y = "tessera.gather"(%x, %i) {axis = 0 : i64} : (tensor<0x2xf32>, tensor<1xi64>) -> tensor<1x2xf32>
  "func.return"(%y) : (tensor<1x2xf32>) -> ()
}
func.func @branch(%c: tensor<i1> {tessera.name = "c"}, %x: tensor<3xf32> {tessera.name = "x"}, %i: tensor<2xi64> {tessera.name = "i"}) -> (tensor<2xf32> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %y = "tessera.if"(%c) ({
    %a = "tessera.gather"(%x, %i) {axis = 0 : i64} : (tensor<3xf32>, tensor<2xi64>) -> tensor<2xf32>
    "tessera.yield"(%a) : (tensor<2xf32>) -> ()
  }, {
    %b = "tessera.slice"(%x) {start = [1], size = [2]} : (tensor<3xf32>) -> tensor<2xf32>
    "tessera.yield"(%b) : (tensor<2xf32>) -> ()
  }) : (tensor<i1>) -> tensor<2xf32>
  "func.return"(%y) : (tensor<2xf32>) -> ()
}
func.func @domain(%x: tensor<6xf64> {tessera.name = "x"}, %z: tensor<6xf64> {tessera.name = "z"}) -> (tensor<6xf64> {tessera.name = "r0"}, tensor<6xf64> {tessera.name = "r1"}, tensor<6xf64> {tessera.name = "r2"}, tensor<6xf64> {tessera.name = "r3"}, tensor<6xf64> {tessera.name = "r4"}) attributes {tessera.entry = "infer"} {
  %0 = "tessera.div"(%x, %z) : (tensor<6xf64>, tensor<6xf64>) -> tensor<6xf64>
  %1 = "tessera.log"(%x) : (tensor<6xf64>) -> tensor<6xf64>
  %2 = "tessera.sqrt"(%x) : (tensor<6xf64>) -> tensor<6xf64>
  %3 = "tessera.pow"(%x, %z) : (tensor<6xf64>, tensor<6xf64>) -> tensor<6xf64>
  %4 = "tessera.rsqrt"(%x) : (tensor<6xf64>) -> tensor<6xf64>
  "func.return"(%0, %1, %2, %3, %4) : (tensor<6xf64>, tensor<6xf64>, tensor<6xf64>, tensor<6xf64>, tensor<6xf64>) -> ()
}
func.func @integers(%x: tensor<4xi32> {tessera.name = "x"}, %z: tensor<4xi32> {tessera.name = "z"}, %f: tensor<4xf32> {tessera.name = "f"}) -> (tensor<4xi32> {tessera.name = "r0"}, tensor<4xi8> {tessera.name = "r1"}) attributes {tessera.entry = "infer"} {
  %0 = "tessera.div"(%x, %z) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %1 = "tessera.cast"(%f) : (tensor<4xf32>) -> tensor<4xi8>
  "func.return"(%0, %1) : (tensor<4xi32>, tensor<4xi8>) -> ()
}
func.func @constants(%x: tensor<3xf32> {tessera.name = "x"}) -> (tensor<3xf32> {tessera.name = "r0"}, tensor<0x3xf32> {tessera.name = "r1"}) attributes {tessera.entry = "infer"} {
  %k = "tessera.constant"() {value = dense<[0x7F800000, 0xFF800000, 0x7FC00000]> : tensor<3xf32>} : () -> tensor<3xf32>
  %e = "tessera.constant"() {value = dense<> : tensor<0x3xf32>} : () -> tensor<0x3xf32>
  %0 = "tessera.add"(%x, %k) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = "tessera.add"(%e, %x) : (tensor<0x3xf32>, tensor<3xf32>) -> tensor<0x3xf32>
  "func.return"(%0, %1) : (tensor<3xf32>, tensor<0x3xf32>) -> ()
}
'''
X = np.arange(6, dtype=np.float64).reshape(3, 2)
MIN = -2**31
# entry, inputs, and either the error or the results
CASES = [
    ('gather', [X, [0, 2, 3, 0]], "i[2] is 3; expected 0 to 2"),
    ('gather', [X, [0, -1, 1, 9]], "i[1] is -1; expected 0 to 2"),
    ('gather', [X, [0, 2, 1, 0]], [X[[0, 2, 1, 0]]]),
    ('gather_small', [X, [0, 1, 2, 0]], "i[2] is 2; expected 0 to 1"),
    ('scatter', [[1, 2, 3], [0, 3], [1, 1]], "i[1] is 3; expected 0 to 2"),
    ('scatter', [[1, 2, 3], [2, 2], [1, 4]], [[1, 2, 8]]),
    ('label', [np.zeros((2, 3)), [1, 3]], "i[1] is 3; expected 0 to 2"),
    ('empty', [np.zeros((0, 2)), [0]], "i[0] is 0; expected 0 to -1"),
    ('branch', [np.bool_(False), [1, 2, 3], [9, -9]], [[2, 3]]),
    ('branch', [np.bool_(True), [1, 2, 3], [2, 0]], [[3, 1]]),
    ('domain', [[1, -1, 0, -4, INF, NAN], [0, 0, 0, 0.5, 0, 0]],
     [[INF, -INF, NAN, -8, INF, NAN], [0, NAN, -INF, NAN, INF, NAN], [1, NAN, 0, NAN, INF, NAN], [1, 1, 1, NAN, 1, 1],
      [1, NAN, INF, NAN, 0, NAN]]),
    ('integers', [[7, MIN, -7, 7], [0, -1, 2, -2], [300, -INF, NAN, -1.9]], [[0, MIN, -3, -3], [127, -128, 0, -1]]),
    ('constants', [[1, 1, 1]], [[INF, -INF, NAN], np.zeros((0, 3))]),
]


def check(product, functions, target, entry, inputs, expected):
    function = functions[entry]
    got, why = product.run(function, [np.asarray(x) for x in inputs], target)
    if isinstance(expected, str):
        must = rf'tessera-run: error: {re.escape(expected)} at graphs\.mlir:\d+:\d+'
        right = re.fullmatch(must, why or '') and product.code == DATA
        return None if right else f'said {why!r}, exit code {product.code}; expected {expected!r}, {DATA}'
    if why:
        return why
    for i, (mine, must) in enumerate(zip(got, expected)):
        if not np.array_equal(np.asarray(mine, np.float64), np.asarray(must, np.float64), equal_nan=True):
            return f'result {i} is {mine}, expected {must}'
    return None


def main():
    with tempfile.TemporaryDirectory() as folder:
        product = Product(sys.argv[1], folder, ['x86-64-v2'])
        functions, failed = parse(SOURCE), 0
        why = product.build(list(functions.values()))
        if why:
            print(why)
            sys.exit(1)
        for entry, inputs, expected in CASES:
            problem = check(product, functions, 'x86-64-v2', entry, inputs, expected)
            if problem:
                failed += 1
                print(f'{entry}: {problem}')
    print(f'{len(CASES)} cases, {failed} failed')
    sys.exit(1 if failed else 0)


main()
