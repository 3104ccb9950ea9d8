#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What happens at the edges: bad indices and labels end a call with an error that names them; division and functions outside their
domain give what IEEE 754 says; a branch not taken cannot fault; constants may be infinite or NaN, where that means something;
tensors may be empty; shapes whose product overflows and functions that call themselves are refused.

usage: bad_input.py TOOLS
"""
import math
import pathlib
import re
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

from graph import parse
from product import Product, cpu_levels

INF, NAN = np.inf, np.nan
DATA, INPUT, MEMORY = 8, 9, 15  # exit codes: docs/exit-codes.md
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
func.func @no_classes(%x: tensor<1x0xf32> {tessera.name = "x"}, %i: tensor<1xi64> {tessera.name = "i"}) -> (tensor<1xf32> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %y = "tessera.cross_entropy"(%x, %i) : (tensor<1x0xf32>, tensor<1xi64>) -> tensor<1xf32>
  "func.return"(%y) : (tensor<1xf32>) -> ()
}
func.func @label_grad(%x: tensor<2x3xf32> {tessera.name = "x"}, %i: tensor<2xi64> {tessera.name = "i"}, %g: tensor<2xf32> {tessera.name = "g"}) -> (tensor<2x3xf32> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %y = "tessera.cross_entropy_grad"(%x, %i, %g) : (tensor<2x3xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<2x3xf32>
  "func.return"(%y) : (tensor<2x3xf32>) -> ()
}
func.func @hot(%i: tensor<4xi64> {tessera.name = "i"}) -> (tensor<4x2xf32> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %y = "tessera.one_hot"(%i) {axis = 1 : i64} : (tensor<4xi64>) -> tensor<4x2xf32>
  "func.return"(%y) : (tensor<4x2xf32>) -> ()
}
func.func @nothing(%x: tensor<2x0xf32> {tessera.name = "x"}) -> (tensor<2xf32> {tessera.name = "r0"}, tensor<2xf32> {tessera.name = "r1"}, tensor<2xf32> {tessera.name = "r2"}, tensor<2xf32> {tessera.name = "r3"}, tensor<2xf32> {tessera.name = "r4"}, tensor<2xf32> {tessera.name = "r5"}, tensor<2x2xf32> {tessera.name = "r6"}, tensor<2x0xf32> {tessera.name = "r7"}) attributes {tessera.entry = "infer"} {
  %0 = "tessera.sum"(%x) {axes = [1]} : (tensor<2x0xf32>) -> tensor<2xf32>
  %1 = "tessera.mean"(%x) {axes = [1]} : (tensor<2x0xf32>) -> tensor<2xf32>
  %2 = "tessera.reduce_max"(%x) {axes = [1]} : (tensor<2x0xf32>) -> tensor<2xf32>
  %3 = "tessera.reduce_min"(%x) {axes = [1]} : (tensor<2x0xf32>) -> tensor<2xf32>
  %4 = "tessera.reduce_prod"(%x) {axes = [1]} : (tensor<2x0xf32>) -> tensor<2xf32>
  %5 = "tessera.logsumexp_safe"(%x) {axes = [1]} : (tensor<2x0xf32>) -> tensor<2xf32>
  %6 = "tessera.matmul"(%x, %x) {transpose_a = false, transpose_b = true} : (tensor<2x0xf32>, tensor<2x0xf32>) -> tensor<2x2xf32>
  %7 = "tessera.softmax_safe"(%x) {axis = 1 : i64} : (tensor<2x0xf32>) -> tensor<2x0xf32>
  "func.return"(%0, %1, %2, %3, %4, %5, %6, %7) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2x0xf32>) -> ()
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
func.func @divisions(%a: tensor<4xi64> {tessera.name = "a"}, %b: tensor<4xi64> {tessera.name = "b"}, %c: tensor<4xi8> {tessera.name = "c"}, %d: tensor<4xi8> {tessera.name = "d"}, %e: tensor<3xui8> {tessera.name = "e"}, %f: tensor<3xui8> {tessera.name = "f"}, %g: tensor<5xf32> {tessera.name = "g"}, %n: tensor<5xi64> {tessera.name = "n"}) -> (tensor<4xi64> {tessera.name = "r0"}, tensor<4xi8> {tessera.name = "r1"}, tensor<3xui8> {tessera.name = "r2"}, tensor<5xf32> {tessera.name = "r3"}) attributes {tessera.entry = "infer"} {
  %0 = "tessera.div"(%a, %b) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %1 = "tessera.div"(%c, %d) : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
  %2 = "tessera.div"(%e, %f) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
  %3 = "tessera.ipow"(%g, %n) : (tensor<5xf32>, tensor<5xi64>) -> tensor<5xf32>
  "func.return"(%0, %1, %2, %3) : (tensor<4xi64>, tensor<4xi8>, tensor<3xui8>, tensor<5xf32>) -> ()
}
func.func @functions(%x: tensor<5xf32> {tessera.name = "x"}) -> (tensor<5xf32> {tessera.name = "r0"}, tensor<5xf32> {tessera.name = "r1"}, tensor<5xf32> {tessera.name = "r2"}, tensor<5xf32> {tessera.name = "r3"}, tensor<5xf32> {tessera.name = "r4"}, tensor<5xf32> {tessera.name = "r5"}) attributes {tessera.entry = "infer"} {
  %0 = "tessera.log1p"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "tessera.expm1"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "tessera.tanh"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %3 = "tessera.sigmoid"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %4 = "tessera.erf"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %5 = "tessera.exp"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  "func.return"(%0, %1, %2, %3, %4, %5) : (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> ()
}
func.func @in_a_loop(%x: tensor<3xf32> {tessera.name = "x"}, %i: tensor<100xi64> {tessera.name = "i"}) -> (tensor<f32> {tessera.name = "r0"}, tensor<100xf32> {tessera.name = "r1"}) attributes {tessera.entry = "infer"} {
  %z = "tessera.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %y:2 = "tessera.scan"(%z, %i) ({
  ^bb0(%c: tensor<f32>, %k: tensor<i64>):
    %a = "tessera.gather"(%x, %k) {axis = 0 : i64} : (tensor<3xf32>, tensor<i64>) -> tensor<f32>
    %b = "tessera.add"(%a, %c) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "tessera.yield"(%b, %a) : (tensor<f32>, tensor<f32>) -> ()
  }) {carried = 1 : i64} : (tensor<f32>, tensor<100xi64>) -> (tensor<f32>, tensor<100xf32>)
  "func.return"(%y#0, %y#1) : (tensor<f32>, tensor<100xf32>) -> ()
}
func.func @in_two_loops(%x: tensor<3xf32> {tessera.name = "x"}, %i: tensor<40x50x2xi32> {tessera.name = "i"}) -> (tensor<2xf32> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %z = "tessera.constant"() {value = dense<0.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %y = "tessera.scan"(%z, %i) ({
  ^bb0(%c: tensor<2xf32>, %row: tensor<50x2xi32>):
    %w = "tessera.scan"(%c, %row) ({
    ^bb0(%d: tensor<2xf32>, %k: tensor<2xi32>):
      %a = "tessera.gather"(%x, %k) {axis = 0 : i64} : (tensor<3xf32>, tensor<2xi32>) -> tensor<2xf32>
      %b = "tessera.add"(%a, %d) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      "tessera.yield"(%b) : (tensor<2xf32>) -> ()
    }) {carried = 1 : i64, reverse} : (tensor<2xf32>, tensor<50x2xi32>) -> tensor<2xf32>
    "tessera.yield"(%w) : (tensor<2xf32>) -> ()
  }) {carried = 1 : i64} : (tensor<2xf32>, tensor<40x50x2xi32>) -> tensor<2xf32>
  "func.return"(%y) : (tensor<2xf32>) -> ()
}
func.func @counted(%x: tensor<3xf32> {tessera.name = "x"}, %s: tensor<100xf32> {tessera.name = "s"}) -> (tensor<i64> {tessera.name = "r0"}, tensor<100xf32> {tessera.name = "r1"}) attributes {tessera.entry = "infer"} {
  %z = "tessera.constant"() {value = dense<-98> : tensor<i64>} : () -> tensor<i64>
  %o = "tessera.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %y:2 = "tessera.scan"(%z, %s) ({
  ^bb0(%c: tensor<i64>, %k: tensor<f32>):
    %m = "tessera.max"(%c, %o) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %a = "tessera.gather"(%x, %m) {axis = 0 : i64} : (tensor<3xf32>, tensor<i64>) -> tensor<f32>
    %f = "tessera.mul"(%a, %k) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %b = "tessera.cast"(%f) : (tensor<f32>) -> tensor<i64>
    "tessera.yield"(%b, %f) : (tensor<i64>, tensor<f32>) -> ()
  }) {carried = 1 : i64} : (tensor<i64>, tensor<100xf32>) -> (tensor<i64>, tensor<100xf32>)
  "func.return"(%y#0, %y#1) : (tensor<i64>, tensor<100xf32>) -> ()
}
func.func @constants(%x: tensor<3xf32> {tessera.name = "x"}) -> (tensor<3xf32> {tessera.name = "r0"}, tensor<0x3xf32> {tessera.name = "r1"}) attributes {tessera.entry = "infer"} {
  %k = "tessera.constant"() {value = dense<[0x7F800000, 0xFF800000, 0x7FC00000]> : tensor<3xf32>} : () -> tensor<3xf32>
  %e = "tessera.constant"() {value = dense<> : tensor<0x3xf32>} : () -> tensor<0x3xf32>
  %0 = "tessera.add"(%x, %k) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = "tessera.add"(%e, %x) : (tensor<0x3xf32>, tensor<3xf32>) -> tensor<0x3xf32>
  "func.return"(%0, %1) : (tensor<3xf32>, tensor<0x3xf32>) -> ()
}
func.func @odd_constants(%x: tensor<2xf16> {tessera.name = "x"}, %b: tensor<2xbf16> {tessera.name = "b"}, %d: tensor<2xf64> {tessera.name = "d"}) -> (tensor<2xf16> {tessera.name = "r0"}, tensor<2xbf16> {tessera.name = "r1"}, tensor<2xf64> {tessera.name = "r2"}, tensor<4xf16> {tessera.name = "r3"}, tensor<2xbf16> {tessera.name = "r4"}) attributes {tessera.entry = "infer"} {
  %h = "tessera.constant"() {value = dense<[0x7C00, 0x7E00]> : tensor<2xf16>} : () -> tensor<2xf16>
  %k = "tessera.constant"() {value = dense<[0xFF80, 0x7FC0]> : tensor<2xbf16>} : () -> tensor<2xbf16>
  %e = "tessera.constant"() {value = dense<[0x7FF0000000000000, 0x7FF8000000000000]> : tensor<2xf64>} : () -> tensor<2xf64>
  %0 = "tessera.mul"(%x, %h) : (tensor<2xf16>, tensor<2xf16>) -> tensor<2xf16>
  %1 = "tessera.max"(%b, %k) : (tensor<2xbf16>, tensor<2xbf16>) -> tensor<2xbf16>
  %2 = "tessera.div"(%d, %e) : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
  %3 = "tessera.pad"(%x) {low = [1], high = [1], value = 0x7FF8000000000000 : f64} : (tensor<2xf16>) -> tensor<4xf16>
  %4 = "tessera.clamp"(%b) {low = 0xFFF0000000000000 : f64, high = 0x7FF0000000000000 : f64} : (tensor<2xbf16>) -> tensor<2xbf16>
  "func.return"(%0, %1, %2, %3, %4) : (tensor<2xf16>, tensor<2xbf16>, tensor<2xf64>, tensor<4xf16>, tensor<2xbf16>) -> ()
}
'''
X = np.arange(6, dtype=np.float64).reshape(3, 2)
MIN = -2**31
FAR = np.zeros((40, 50, 2))
FAR[7, 11, 1] = 5
# entry, inputs, and either the error or the results
CASES = [
    ('gather', [X, [0, 2, 3, 0]], "i[2] is 3; expected 0 to 2"),
    ('gather', [X, [0, -1, 1, 9]], "i[1] is -1; expected 0 to 2"),
    ('gather', [X, [0, 2, 1, 0]], [X[[0, 2, 1, 0]]]),
    ('gather_small', [X, [0, 1, 2, 0]], "i[2] is 2; expected 0 to 1"),
    ('scatter', [[1, 2, 3], [0, 3], [1, 1]], "i[1] is 3; expected 0 to 2"),
    ('scatter', [[1, 2, 3], [2, 2], [1, 4]], [[1, 2, 8]]),
    ('label', [np.zeros((2, 3)), [1, 3]], "i[1] is 3; expected 0 to 2"),
    ('scatter', [[1, 2, 3], [0, -1], [1, 1]], "i[1] is -1; expected 0 to 2"),
    ('label', [np.zeros((2, 3)), [-1, 0]], "i[0] is -1; expected 0 to 2"),
    ('label', [np.zeros((2, 3)), [2, 0]], [[np.float32(math.log(3))] * 2]),
    ('label_grad', [np.zeros((2, 3)), [2, 3], [1, 1]], "i[1] is 3; expected 0 to 2"),
    ('label_grad', [np.zeros((2, 3)), [-2**63, 0], [1, 1]], "i[0] is -9223372036854775808; expected 0 to 2"),
    ('no_classes', [np.zeros((1, 0)), [0]], "i[0] is 0; expected 0 to -1"),
    ('gather_small', [X, [0, 1, -2**31, 0]], "i[2] is -2147483648; expected 0 to 1"),
    ('hot', [[0, 1, 2, -1]], [[[1, 0], [0, 1], [0, 0], [0, 0]]]),
    ('nothing', [np.zeros((2, 0))], [[0, 0], [NAN, NAN], [-INF, -INF], [INF, INF], [1, 1], [-INF, -INF], np.zeros((2, 2)), np.zeros((2, 0))]),
    ('empty', [np.zeros((0, 2)), [0]], "i[0] is 0; expected 0 to -1"),
    ('branch', [np.bool_(False), [1, 2, 3], [9, -9]], [[2, 3]]),
    ('branch', [np.bool_(True), [1, 2, 3], [2, 0]], [[3, 1]]),
    ('domain', [[1, -1, 0, -4, INF, NAN], [0, 0, 0, 0.5, 0, 0]],
     [[INF, -INF, NAN, -8, INF, NAN], [0, NAN, -INF, NAN, INF, NAN], [1, NAN, 0, NAN, INF, NAN], [1, 1, 1, NAN, 1, 1],
      [1, NAN, INF, NAN, 0, NAN]]),
    ('integers', [[7, MIN, -7, 7], [0, -1, 2, -2], [300, -INF, NAN, -1.9]], [[0, MIN, -3, -3], [127, -128, 0, -1]]),
    ('divisions', [[7, -2**63, -7, 7], [0, -1, 2, -2], [7, -128, -7, 7], [0, -1, 2, -2], [7, 200, 0], [0, 3, 0], [-0.0, -2, -INF, NAN, 2],
                   [-1, -148, -1, 0, -149]],
     [[0, -2**63, -3, -3], [0, -128, -3, -3], [0, 66, 0], [-INF, 2.0**-148, 0, 1, 2.0**-149]]),
    ('functions', [[-1, INF, -INF, NAN, 0]],
     [[-INF, INF, NAN, NAN, 0], [np.float32(math.expm1(-1)), INF, -1, NAN, 0], [np.float32(math.tanh(-1)), 1, -1, NAN, 0],
      [np.float32(1 / (1 + math.e)), 1, 0, NAN, 0.5], [np.float32(math.erf(-1)), 1, -1, NAN, 0],
      [np.float32(math.exp(-1)), INF, 0, NAN, 1]]),
    ('in_a_loop', [[1, 2, 4], np.arange(100) % 3], [34 * 1 + 33 * 2 + 33 * 4, np.array([1, 2, 4])[np.arange(100) % 3]]),
    ('in_a_loop', [[1, 2, 4], np.where(np.arange(100) == 70, 3, 0)], "i[70] is 3; expected 0 to 2 in iteration 70"),
    # The inner loop runs backwards: (7, 11) is in its 38th iteration. What a loop computes has no name.
    ('in_two_loops', [[1, 2, 4], FAR], "i[723] is 5; expected 0 to 2 in iteration 7, 38"),
    ('in_two_loops', [[1, 2, 4], np.zeros((40, 50, 2))], [[2000, 2000]]),
    ('counted', [[1, 1, 1], np.where(np.arange(100) == 41, 7, 1)], "an index[0] is 7; expected 0 to 2 in iteration 42"),
    ('constants', [[1, 1, 1]], [[INF, -INF, NAN], np.zeros((0, 3))]),
    ('odd_constants', [[-2, 1], [3, 4], [5, 6]], [[-INF, NAN], [3, NAN], [0, NAN], [NAN, -2, 1, NAN], [3, 4]]),
]

HUGE = 'tensor<3000000000x3000000000x3000000000xf32>'
EMPTY = 'tensor<0x4000000000x4000000000x4000000000xf32>'


def of_one(op, kind, attrs='', result=None):
    """An entry of one op."""
    result = result or kind
    return (f'func.func @f(%x: {kind} {{tessera.name = "x"}}) -> ({result} {{tessera.name = "y"}}) attributes '
            f'{{tessera.entry = "infer"}} {{\n  %y = "tessera.{op}"(%x) {{{attrs}}} : ({kind}) -> {result}\n'
            f'  "func.return"(%y) : ({result}) -> ()\n}}\n')


def of_none(op, attrs, kind='tensor<3xf32>'):
    return of_one(op, kind, attrs).replace(f'(%x) {{{attrs}}} : ({kind})', f'() {{{attrs}}} : ()')


def calling(name, body, kind='tensor<3xf32>'):
    return (f'func.func {name}(%x: {kind}) -> {kind} {{\n  %y = func.call @{body}(%x) : ({kind}) -> {kind}\n'
            f'  return %y : {kind}\n}}\n')


CALLER = ('func.func @f(%x: tensor<3xf32> {tessera.name = "x"}) -> (tensor<3xf32> {tessera.name = "y"}) attributes '
          '{tessera.entry = "infer"} {\n  %y = func.call @CALLEE(%x) : (tensor<3xf32>) -> tensor<3xf32>\n  return %y : tensor<3xf32>\n}\n')
IN_A_LOOP = '''func.func private @g(%x: tensor<3xf32>) -> tensor<3xf32> {
  %s = "tessera.scan"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    %b = func.call @g(%a) : (tensor<3xf32>) -> tensor<3xf32>
    "tessera.yield"(%b) : (tensor<3xf32>) -> ()
  }) {carried = 1 : i64, length = 3 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  return %s : tensor<3xf32>
}
'''
ASSIGNS = '''func.func private @g(%x: tensor<3xf32>) -> tensor<3xf32> {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<3xf32>
  tessera.assign %x to "w" : tensor<3xf32>
  return %w : tensor<3xf32>
}
'''


def in_a_scan(callee, times):
    """A train entry that calls a function in a loop."""
    return (CALLER.replace('"infer"', '"train"').replace('  %y = func.call @CALLEE(%x) : (tensor<3xf32>) -> tensor<3xf32>\n', IN_A_LOOP[
        IN_A_LOOP.index('  %s'):IN_A_LOOP.index('  return')].replace('@g', '@' + callee).replace('length = 3', f'length = {times}'))
            .replace('return %y', 'return %s'))


# source, and how it is refused
REFUSED = [
    (of_one('neg', HUGE), f'tessera.neg: operand 0 has more than 2^63 bytes: {HUGE[7:-1]}'),
    (of_one('neg', EMPTY), f'tessera.neg: operand 0 has more than 2^63 bytes: {EMPTY[7:-1]}'),
    (of_one('pad', 'tensor<4xf32>', 'low = [9223372036854775803], high = [0]', 'tensor<9223372036854775807xf32>'),
     'tessera.pad: result 0 has more than 2^63 bytes: 9223372036854775807xf32'),
    (of_one('broadcast', 'tensor<1x1x1xf32>', '', HUGE), 'tessera.broadcast: result 0 has more than 2^63 bytes'),
    (of_one('neg', 'tensor<1500000000000000000xf32>'), 'shape: expected dims[0] in 0 ... 2^53, got 1500000000000000000'),
    (of_one('clamp', 'tensor<3xf32>', 'low = 0x7FF8000000000000 : f64, high = 1.0 : f64'),
     'tessera.clamp: low is nan, high is 1; low must not be above high'),
    (of_one('pad', 'tensor<3xi32>', 'low = [1], high = [1], value = 0x7FF0000000000000 : f64', 'tensor<5xi32>'),
     'tessera.pad: value is inf, which i32 cannot hold'),
    (of_one('rotary', 'tensor<2x4xf32>', 'axis = 0 : i64, base = 0x7FF8000000000000 : f64'),
     'tessera.rotary: base is not finite'),
    (of_one('dropout', 'tensor<3xf32>', 'rate = 0x7FF8000000000000 : f64, stream = 1 : i64'), 'tessera.dropout: rate is not finite'),
    (of_one('dropout', 'tensor<3xf32>', 'rate = 1.0 : f64, stream = 1 : i64'), 'tessera.dropout: rate is 1, needs 0 <= rate < 1'),
    (of_one('layernorm_safe', 'tensor<3xf32>', 'axes = [0], eps = 0x7FF8000000000000 : f64'), 'tessera.layernorm_safe: eps is not finite'),
    (of_none('random_uniform', 'low = 0.0 : f64, high = 0x7FF0000000000000 : f64, stream = 1 : i64'),
     'tessera.random_uniform: high is not finite'),
    (of_none('param', 'name = "w", init = #tessera.constant<0xFFF0000000000000>'), 'tessera.param: init has a number that is not finite'),
    (of_none('param', 'name = "w", init = #tessera.normal<0.0, 0x7FF8000000000000>'), 'tessera.param: init has a number that is not finite'),
    (of_one('one_hot', 'tensor<3000000000xi64>', 'axis = 1 : i64', 'tensor<3000000000x4000000000xf32>'),
     'tessera.one_hot: result 0 has more than 2^63 bytes'),
    (of_one('argmax', 'tensor<3x0xf32>', 'axis = 1 : i64', 'tensor<3xi64>'), 'tessera.argmax: dim 1 is 0, so there is no largest element'),
    (of_one('add', 'tensor<3xi1>').replace('(%x) {} : (tensor<3xi1>)', '(%x, %x) : (tensor<3xi1>, tensor<3xi1>)'),
     'tessera.add: element type of lhs is i1'),
    ('func.func @f(%x: memref<3xf32> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {\n  return\n}\n', "entry '@f': argument 0 has the type memref<3xf32>; expected a ranked tensor"),
    (CALLER.replace('CALLEE', 'g') + IN_A_LOOP, "func.call: '@g' calls itself or was not inlined"),
    (CALLER.replace('CALLEE', 'f'), "func.call: '@f' calls itself or was not inlined"),
    (CALLER.replace('CALLEE', 'g') + calling('private @g', 'h') + calling('private @h', 'g'),
     "func.call: '@g' calls itself or was not inlined"),
    *((in_a_scan('g', times) + ASSIGNS, "func.call: is not allowed in a region of tessera.scan: '@g' leads to a tessera.assign")
      for times in (1, 3, 300)),
    (in_a_scan('h', 3) + calling('private @h', 'g') + ASSIGNS,
     "func.call: is not allowed in a region of tessera.scan: '@h' leads to a tessera.assign"),
]


def large(rows):
    """An entry whose inner tensors have so many rows of a million."""
    kind = f'tensor<{rows}x1000000xf32>'
    return (f'func.func @f(%x: tensor<1000000xf32> {{tessera.name = "x"}}) -> (tensor<1000000xf32> {{tessera.name = "y"}}) attributes '
            f'{{tessera.entry = "infer"}} {{\n  %a = "tessera.broadcast"(%x) : (tensor<1000000xf32>) -> {kind}\n'
            f'  %b:2 = "tessera.sort"(%a) {{axis = 0 : i64}} : ({kind}) -> ({kind}, {kind.replace("f32", "i64")})\n'
            f'  %y = "tessera.sum"(%b#0) {{axes = [0]}} : ({kind}) -> tensor<1000000xf32>\n  "func.return"(%y) : (tensor<1000000xf32>) -> ()\n}}\n')


def check_large(product, folder):
    """What is planned is more than any machine has: said before anything runs."""
    path = pathlib.Path(folder) / 'large.mlir'
    path.write_text(large(10**9), encoding='utf-8')
    built = product.call('tessera-aot', 'build', path, '-o', path.with_suffix('.tsb'), '--target', 'cpu:x86-64-v2')
    np.save(path.with_suffix('.npy'), np.zeros(10**6, np.float32))
    done = product.call('tessera-run', path.with_suffix('.tsb'), '--quiet', '--entry', 'f', '--input', f'x={path.with_suffix(".npy")}',
                        '--output', f'y={path.with_suffix(".y.npy")}')
    if built.returncode == 0 and done.returncode == MEMORY and re.search(r'plans \d{17} bytes of memory; \d+ are available', done.stderr):
        return 0
    print(f'exit codes {built.returncode}, {done.returncode}, {built.stderr!r}, {done.stderr!r}; expected 0, {MEMORY}, the plan')
    return 1


def check_refused(product, folder):
    """How many sources were not refused as they must be."""
    failed = 0
    for source, expected in REFUSED:
        path = pathlib.Path(folder) / 'refused.mlir'
        path.write_text(source, encoding='utf-8')
        done = product.call('tessera-aot', 'build', path, '-o', path.with_suffix('.tsb'))
        if done.returncode != INPUT or expected not in done.stderr:
            failed += 1
            print(f'exit code {done.returncode}, {done.stderr!r}; expected {INPUT}, {expected!r}\n{source}')
    return failed


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
    levels = cpu_levels()
    with tempfile.TemporaryDirectory() as folder:
        product = Product(sys.argv[1], folder, levels)
        functions, failed = parse(SOURCE), int(not levels)
        why = product.build(list(functions.values()))
        if why:
            print(why)
            sys.exit(1)
        for level in levels:
            for entry, inputs, expected in CASES:
                problem = check(product, functions, level, entry, inputs, expected)
                if problem:
                    failed += 1
                    print(f'{level}, {entry}: {problem}')
        failed += check_refused(product, folder) + check_large(product, folder)
    print(f'{len(CASES)} cases on {", ".join(levels) or "no level"}, {len(REFUSED) + 1} that no code decides, {failed} failed')
    sys.exit(1 if failed else 0)


main()
