#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pass tessera-prove-rows: entries that keep their rows independent pass; entries that mix rows are refused at the op that mixes
them.

usage: rows.py TESSERA_OPT OPS_DEF

Each case is the body of an entry with tessera.rows_independent over batches of 6 rows, and the op that mixes them with some words
of the explanation, or None. Every op of ops.def must occur in some case, or in ELSEWHERE with a reason. Each case is also tried
without the attribute: independent entries get the remark; the others are refused as eval entries and pass as infer entries.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from ops import OPS  # noqa: E402

NUMBER = "differs from row to row"
ELSEWHERE = {
    "minimize": "trains", "assign": "trains", "loop": "made by a later pass", "philox": "made by a later pass",
    "adamw": "trains", "sgd": "trains", "opt.state": "like param", "seed": "like step", "hyperparameter": "like step",
    "verify.numerics": "has no result", "words": "made by a later pass", "sizes": "like constant", "moe_route": "mixes tokens", "moe_dispatch": "mixes tokens",
    "moe_combine": "like moe_dispatch", "moe_dot": "like moe_dispatch", "encode": "like cast", "decode": "like cast",
    "quant_scale": "mixes rows", "quant": "mixes rows", "dequant": "mixes rows",
}
FLOATS = [row for row in OPS.values() if "f32" in row.dtypes]  # the ops of the table that floats have


def f(*dims):
    return "tensor<" + "".join(f"{d}x" for d in dims) + "f32>"


def i(*dims):
    return "tensor<" + "".join(f"{d}x" for d in dims) + "i64>"


def b(*dims):
    return "tensor<" + "".join(f"{d}x" for d in dims) + "i1>"


def of(group):
    return [row for row in FLOATS if row.group == group]


def described(attributes):
    """As MLIR writes them after operands."""
    return "{" + ", ".join(f"{name} = {value}" for name, value in attributes.items()) + "}" if attributes else ""


X, ROW = f(6, 4), f(6)
CASES = []  # name, arguments, ops, (result, type), None or (op, words)


def case(name, arguments, ops, result, mixes=None):
    CASES.append((name, arguments, ops, result, mixes))


def unary(op, attributes="", of=X, result=None, arrow=True):
    return f"%y = tessera.{op} %x {attributes} : {of}" + (f" -> {result or of}" if arrow else "")


def elementwise():
    for row in of("one"):
        for form in row.forms:
            case(f"{row.name}{described(form)}", [X], unary(row.name, described(form), arrow=False), X)
    for op in [row.name for row in of("two") if not row.result]:
        case(op, [X, X], f"%y = tessera.{op} %x, %x1 : {X}, {X} -> {X}", X)
        case(f"{op}, rows along other dims", [f(6, 1)],
             f"%t = tessera.transpose %x {{permutation = [1, 0]}} : {f(6, 1)} -> {f(1, 6)}\n"
             f"%y = tessera.{op} %x, %t : {f(6, 1)}, {f(1, 6)} -> {f(6, 6)}", f(6, 6), (op, "other rows"))
        case(f"{op} of a parameter for each row", [X],
             f'%w = tessera.param "w" init = #tessera.constant<0.0> : {X}\n%y = tessera.{op} %x, %w : {X}, {X} -> {X}', X, (op, NUMBER))
        case(f"{op} of one parameter", [X],
             f'%w = tessera.param "w" init = #tessera.constant<0.0> : {f(4)}\n%y = tessera.{op} %x, %w : {X}, {f(4)} -> {X}', X)
    case("ipow", [X, i(6, 4)], f"%y = tessera.ipow %x, %x1 : {X}, {i(6, 4)} -> {X}", X)
    case("mul_add", [X, f(6, 1)], f"%y = tessera.mul_add %x, %x1, %x1 : {X}, {f(6, 1)}, {f(6, 1)} -> {X}", X)
    case("mul_add, a number for each row", [X],
         f'%w = tessera.param "w" init = #tessera.constant<1.0> : {f(6, 1)}\n%y = tessera.mul_add %x, %x, %w : {X}, {X}, {f(6, 1)} -> {X}', X, ("mul_add", NUMBER))
    case("cast", [X], f"%y = tessera.cast %x : {X} to {i(6, 4)}", i(6, 4))
    case("compare, logic, where", [X, X],
         f"%c = tessera.compare lt %x, %x1 : {X}, {X} -> {b(6, 4)}\n%n = tessera.not %c : {b(6, 4)}\n"
         f"%a = tessera.and %c, %n : {b(6, 4)}, {b(6, 4)} -> {b(6, 4)}\n%o = tessera.or %a, %n : {b(6, 4)}, {b(6, 4)} -> {b(6, 4)}\n"
         f"%d = tessera.xor %o, %n : {b(6, 4)}, {b(6, 4)} -> {b(6, 4)}\n"
         f"%y = tessera.where %d, %x, %x1 : {b(6, 4)}, {X}, {X} -> {X}", X)
    j = i(6, 4)
    case("shifts, bit casts", [X],
         f"%i = tessera.cast %x : {X} to {j}\n%l = tessera.shift_left %i, %i : {j}\n%r = tessera.shift_right %l, %i : {j}\n"
         f"%y = tessera.bitcast %r : ({j}) -> tensor<6x4xf64>", "tensor<6x4xf64>")
    case("the same constant for all rows", [X], f"%c = tessera.constant dense<2.0> : {X}\n%y = tessera.mul %x, %c : {X}, {X} -> {X}", X)
    case("a constant for each row", [ROW],
         f"%c = tessera.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]> : {ROW}\n%y = tessera.mul %x, %c : {ROW}, {ROW} -> {ROW}", ROW,
         ("mul", NUMBER))
    case("step", [X], f"%s = tessera.step : {i()}\n%c = tessera.cast %s : {i()} to {f()}\n%y = tessera.mul %x, %c : {X}, {f()} -> {X}", X)
    case("dropout", [X], unary("dropout", "{rate = 0.5, stream = 1 : i64}"), X)
    for op in "random_uniform", "random_normal":
        case(op, [X], f"%r = tessera.{op} {{stream = 1 : i64}} : {X}\n%y = tessera.add %x, %r : {X}, {X} -> {X}", X, ("add", NUMBER))
        case(f"{op}, the same for all rows", [X],
             f"%r = tessera.{op} {{stream = 1 : i64}} : {f(4)}\n%y = tessera.add %x, %r : {X}, {f(4)} -> {X}", X)
    case("a result that is all numbers of rows", [X], f"%y = tessera.iota {{axis = 0}} : {ROW}", ROW, ("func.return", NUMBER))
    case("a result that no row goes into", [X], f"%y = tessera.iota {{axis = 1}} : {X}", X)


def reductions():
    for op in [row.name for row in of("reduction")]:
        case(op, [X], unary(op, "{axes = [1]}", result=ROW), ROW)
        case(f"{op} over rows", [X], f"%m = tessera.{op} %x {{axes = [0]}} : {X} -> {f(4)}\n%y = tessera.sub %x, %m : {X}, {f(4)} -> {X}", X,
             (op, "reduces dim 0"))
        case(f"{op} over all", [X], f"%m = tessera.{op} %x {{axes = [0, 1]}} : {X} -> {f()}\n%y = tessera.sub %x, %m : {X}, {f()} -> {X}", X,
             (op, "reduces dim 0"))
    case("argmax", [X], unary("argmax", "{axis = 1}", result=i(6)), i(6))
    case("argmax over rows", [X], f"%m = tessera.argmax %x {{axis = 0}} : {X} -> {i(4)}\n%y = tessera.broadcast %m : {i(4)} -> {i(6, 4)}",
         i(6, 4), ("argmax", "reduces dim 0"))
    for op in [*(row.name for row in of("over_axis")), "cumsum"]:
        case(op, [X], unary(op, "{axis = 1}", arrow=False), X)
        case(f"{op} over rows", [X], unary(op, "{axis = 0}", arrow=False), X, (op, "along dim 0"))
    for op, k in ("sort", ""), ("top_k", ", k = 2 : i64"):
        to = f(6, 2) if k else X
        ti = to.replace("f32", "i64")
        case(op, [X], f"%y, %p = tessera.{op} %x {{axis = 1 : i64{k}}} : {X} -> {to}, {ti}", to)
        case(f"{op}, its positions", [X], f"%p, %y = tessera.{op} %x {{axis = 1 : i64{k}}} : {X} -> {to}, {ti}", ti)
        k, to = k.replace("2", "6"), X
        case(f"{op} over rows", [X], f"%y, %p = tessera.{op} %x {{axis = 0 : i64{k}}} : {X} -> {to}, {i(6, 4)}", to, (op, "along dim 0"))
    for op in [row.name for row in of("norm")]:
        case(op, [X], unary(op, "{axes = [1]}"), X)
        case(f"{op} over rows", [X], unary(op, "{axes = [0]}"), X, (op, "along dim 0"))
        case(f"{op}, a scale for each row", [X],
             f'%w = tessera.param "w" init = #tessera.constant<1.0> : {f(6, 1)}\n'
             f"%y = tessera.{op} %x, %w {{axes = [1]}} : {X}, {f(6, 1)} -> {X}", X, (op, NUMBER))
    case("repair", [X, f(6, 1)], f'%y = tessera.repair %x, %x1 {{axes = [1], of = "mean"}} : {X}, {f(6, 1)} -> {f(6, 1)}', f(6, 1))
    case("repair of a mean", [X, f(6)], f'%y = tessera.repair %x, %x1 {{axes = [1], of = "average"}} : {X}, {f(6)} -> {f(6)}', f(6))
    case("repair of means of rows", [X], f'%w = tessera.param "w" init = #tessera.constant<1.0> : {f(4)}\n%m = tessera.repair %x, %w {{axes = [0], of = "average"}} : {X}, {f(4)} -> {f(4)}\n'
         f"%y = tessera.sub %x, %m : {X}, {f(4)} -> {X}", X, ("repair", "reduces dim 0"))
    case("repair over rows", [X], f'%w = tessera.param "w" init = #tessera.constant<1.0> : {f(1, 1)}\n%m = tessera.repair %x, %w {{axes = [0, 1], of = "size"}} : {X}, {f(1, 1)} -> {f(1, 1)}\n'
         f"%y = tessera.sub %x, %m : {X}, {f(1, 1)} -> {X}", X, ("repair", "reduces dim 0"))
    case("repair, a plain result for each row", [X],
         f'%w = tessera.param "w" init = #tessera.constant<1.0> : {f(6, 1)}\n'
         f'%y = tessera.repair %x, %w {{axes = [1], of = "deviation"}} : {X}, {f(6, 1)} -> {f(6, 1)}', f(6, 1), ("repair", NUMBER))
    incoming = ", ".join([X, X, f(6, 1), f(6, 1)])
    case("repair of an incoming gradient", [X, X, f(6, 1), f(6, 1)],
         f'%y = tessera.repair %x, %x1, %x2, %x3 {{axes = [1], of = "incoming_product"}} : {incoming} -> {f(6, 1)}', f(6, 1))
    case("repair of a gradient beside rows", [X], f'%w = tessera.param "w" init = #tessera.constant<1.0> : {f(6, 4)}\n%v = tessera.param "v" init = #tessera.constant<1.0> : {f(1, 4)}\n'
         f'%m = tessera.repair %w, %x, %v, %v {{axes = [0], of = "incoming_product"}} : {", ".join([X, X, f(1, 4), f(1, 4)])} -> {f(1, 4)}\n'
         f"%y = tessera.sub %x, %m : {X}, {f(1, 4)} -> {X}", X, ("repair", "reduces dim 0"))
    norm = "".join(f'%{n} = tessera.param "{n}" init = #tessera.constant<1.0> : {f(4)}\n' for n in "sbmv")
    types = ", ".join([X] + [f(4)] * 4)
    case("batch_norm", [X], norm + f"%y = tessera.batch_norm %x, %s, %b, %m, %v {{axis = 1}} : {types} -> {X}", X)
    case("batch_norm_train", [X], norm + f"%y, %n, %o = tessera.batch_norm_train %x, %s, %b, %m, %v {{axis = 1}} : {types} -> {X}, {f(4)}, {f(4)}",
         X, ("batch_norm_train", "mean and variance over dim 0"))
    case("cross_entropy", [X, i(6)], f"%y = tessera.cross_entropy %x, %x1 : {X}, {i(6)} -> {ROW}", ROW)
    case("cross_entropy_grad", [X, i(6), ROW], f"%y = tessera.cross_entropy_grad %x, %x1, %x2 : {X}, {i(6)}, {ROW} -> {X}", X)
    case("cross_entropy, rows as classes", [X],
         f"%t = tessera.transpose %x {{permutation = [1, 0]}} : {X} -> {f(4, 6)}\n%l = tessera.constant dense<0> : {i(4)}\n"
         f"%m = tessera.cross_entropy %t, %l : {f(4, 6)}, {i(4)} -> {f(4)}\n%y = tessera.sub %x, %m : {X}, {f(4)} -> {X}", X,
         ("cross_entropy", "reduces dim 1"))


def products():
    w = f'%w = tessera.param "w" init = #tessera.constant<1.0> : {f(4, 5)}\n'
    case("matmul", [X], w + f"%y = tessera.matmul %x, %w : {X}, {f(4, 5)} -> {f(6, 5)}", f(6, 5))
    case("matmul, rows summed", [X, X],
         f"%g = tessera.matmul %x, %x1 {{transpose_a = true}} : {X}, {X} -> {f(4, 4)}\n%y = tessera.matmul %x, %g : {X}, {f(4, 4)} -> {X}", X,
         ("matmul", "sums products over dim 0"))
    case("matmul, each row with each", [X, X], f"%y = tessera.matmul %x, %x1 {{transpose_b = true}} : {X}, {X} -> {f(6, 6)}", f(6, 6),
         ("matmul", "other rows"))
    case("matmul, rows as batch", [f(6, 3, 4), f(6, 4, 5)], f"%y = tessera.matmul %x, %x1 : {f(6, 3, 4)}, {f(6, 4, 5)} -> {f(6, 3, 5)}",
         f(6, 3, 5))
    case("matmul, a matrix for each row", [f(6, 3, 4)],
         f'%w = tessera.param "w" init = #tessera.constant<1.0> : {f(6, 4, 5)}\n'
         f"%y = tessera.matmul %x, %w : {f(6, 3, 4)}, {f(6, 4, 5)} -> {f(6, 3, 5)}", f(6, 3, 5), ("matmul", NUMBER))
    case("tile.gemm, tile.relu", [X], w + f"%m = tessera.tile.gemm %x, %w : ({X}, {f(4, 5)}) -> {f(6, 5)}\n"
         f"%y = tessera.tile.relu %m : ({f(6, 5)}) -> {f(6, 5)}", f(6, 5))
    q, kv, out = f(6, 2, 3, 4), f(6, 1, 5, 4), f(6, 2, 3, 4)
    case("attention", [q, kv, kv], f"%y = tessera.attention %x, %x1, %x2 {{causal}} : {q}, {kv}, {kv} -> {out}", out)
    case("attention, its sums", [q, kv, kv], f"%r, %y = tessera.attention %x, %x1, %x2 : {q}, {kv}, {kv} -> {out}, {f(6, 2, 3)}", f(6, 2, 3))
    one, keys = f(1, 1, 6, 4), f(1, 1, 5, 4)
    rows = f"%q = tessera.reshape %x : {X} -> {one}\n"
    back = f"%y = tessera.reshape %a : {one} -> {X}"
    case("attention across rows", [X], rows + f"%a = tessera.attention %q, %q, %q : {one}, {one}, {one} -> {one}\n" + back, X,
         ("attention", "sums over dim 2"))
    param = f'%k = tessera.param "k" init = #tessera.constant<1.0> : {keys}\n'
    case("attention, rows as queries", [X], param + rows + f"%a = tessera.attention %q, %k, %k : {one}, {keys}, {keys} -> {one}\n" + back, X)
    case("attention, rows as queries in order", [X],
         param + rows + f"%a = tessera.attention %q, %k, %k {{causal}} : {one}, {keys}, {keys} -> {one}\n" + back, X,
         ("attention", "position along dim 2"))
    case("attention, a mask for each row", [q, kv, kv],
         f'%m = tessera.param "m" init = #tessera.constant<1.0> : {f(6, 1, 1, 5)}\n'
         f"%y = tessera.attention %x, %x1, %x2, %m : {q}, {kv}, {kv}, {f(6, 1, 1, 5)} -> {out}", out, ("attention", NUMBER))
    grad = [q, kv, kv, out, f(6, 2, 3), out]
    names = ", ".join(["%x"] + [f"%x{k}" for k in range(1, 6)])
    case("attention_grad", grad, f"%y, %k, %v = tessera.attention_grad {names} : {', '.join(grad)} -> {q}, {kv}, {kv}", q)
    case("rotary", [f(6, 3, 4)], unary("rotary", "{axis = 1}", of=f(6, 3, 4), arrow=False), f(6, 3, 4))
    case("rotary over rows", [X], unary("rotary", "{axis = 0}", arrow=False), X, ("rotary", "position along dim 0"))


def shapes():
    case("reshape, merged and split", [f(6, 3, 4)],
         f"%m = tessera.reshape %x : {f(6, 3, 4)} -> {f(18, 4)}\n%s = tessera.softmax_safe %m {{axis = 1}} : {f(18, 4)}\n"
         f"%y = tessera.reshape %s : {f(18, 4)} -> {f(6, 12)}", f(6, 12))
    for size, mixes in (3, ("func.return", "one after the other")), (4, ("reshape", "splits the rows")):
        case(f"reshape, {size} elements merged the other way", [f(6, size)],
             f"%t = tessera.transpose %x {{permutation = [1, 0]}} : {f(6, size)} -> {f(size, 6)}\n"
             f"%y = tessera.reshape %t : {f(size, 6)} -> {f(6, size)}", f(6, size), mixes)
    case("reshape, reduced over a part of rows", [X],
         f"%s = tessera.reshape %x : {X} -> {f(3, 2, 4)}\n%m = tessera.mean %s {{axes = [1]}} : {f(3, 2, 4)} -> {f(3, 4)}\n"
         f"%b = tessera.reshape %m : {f(3, 4)} -> {f(6, 2)}\n%y = tessera.neg %b : {f(6, 2)}", f(6, 2), ("mean", "reduces dim 1"))
    case("reshape, positions for each position", [f(6, 3, 4)],
         f'%p = tessera.param "p" init = #tessera.constant<1.0> : {f(3, 4)}\n%b = tessera.broadcast %p : {f(3, 4)} -> {f(6, 3, 4)}\n'
         f"%m = tessera.reshape %x : {f(6, 3, 4)} -> {f(18, 4)}\n%q = tessera.reshape %b : {f(6, 3, 4)} -> {f(18, 4)}\n"
         f"%a = tessera.add %m, %q : {f(18, 4)}, {f(18, 4)} -> {f(18, 4)}\n%y = tessera.reshape %a : {f(18, 4)} -> {f(6, 12)}", f(6, 12))
    case("reshape that cuts rows", [ROW], f"%s = tessera.reshape %x : {ROW} -> {f(2, 3)}\n%z = tessera.pad %s {{low = [0, 0], high = [0, 1]}} : "
         f"{f(2, 3)} -> {f(2, 4)}\n%c = tessera.slice %z {{start = [0, 0], size = [2, 3]}} : {f(2, 4)} -> {f(2, 3)}\n"
         f"%y = tessera.reshape %c : {f(2, 3)} -> {ROW}", ROW, ("pad", "pads dim 1"))
    case("transpose and back", [X], f"%t = tessera.transpose %x {{permutation = [1, 0]}} : {X} -> {f(4, 6)}\n"
         f"%s = tessera.softmax_safe %t {{axis = 0}} : {f(4, 6)}\n%y = tessera.transpose %s {{permutation = [1, 0]}} : {f(4, 6)} -> {X}", X)
    case("transpose", [f(6, 6)], unary("transpose", "{permutation = [1, 0]}", of=f(6, 6)), f(6, 6), ("func.return", "one after the other"))
    case("broadcast", [f(6, 1)], unary("broadcast", of=f(6, 1), result=X), X)
    case("slice", [X], unary("slice", "{start = [0, 1], size = [6, 2]}", result=f(6, 2)), f(6, 2))
    case("slice of rows", [X], f"%m = tessera.slice %x {{start = [0, 0], size = [1, 4]}} : {X} -> {f(1, 4)}\n"
         f"%y = tessera.add %x, %m : {X}, {f(1, 4)} -> {X}", X, ("slice", "takes some elements of dim 0"))
    case("pad", [X], unary("pad", "{low = [0, 1], high = [0, 1]}", result=f(6, 6)), f(6, 6))
    case("pad of rows", [X], f"%p = tessera.pad %x {{low = [1, 0], high = [0, 0]}} : {X} -> {f(7, 4)}\n"
         f"%y = tessera.slice %p {{start = [0, 0], size = [6, 4]}} : {f(7, 4)} -> {X}", X, ("pad", "pads dim 0"))
    case("concat", [X, X], f"%y = tessera.concat %x, %x1 {{axis = 1}} : {X}, {X} -> {f(6, 8)}", f(6, 8))
    case("concat of batches, and split", [X, X],
         f"%c = tessera.concat %x, %x1 {{axis = 0}} : {X}, {X} -> {f(12, 4)}\n%s = tessera.softmax_safe %c {{axis = 1}} : {f(12, 4)}\n"
         f"%a, %b = tessera.split %s {{axis = 0}} : {f(12, 4)} -> {X}, {X}\n%y = tessera.sub %a, %b : {X}, {X} -> {X}", X)
    case("concat of one row and rows", [X],
         f'%w = tessera.param "w" init = #tessera.constant<1.0> : {f(1, 4)}\n'
         f"%c = tessera.concat %w, %x {{axis = 0}} : {f(1, 4)}, {X} -> {f(7, 4)}\n"
         f"%y = tessera.slice %c {{start = [0, 0], size = [6, 4]}} : {f(7, 4)} -> {X}", X, ("concat", "dim 0"))
    case("split", [X], f"%y, %z = tessera.split %x {{axis = 1}} : {X} -> {f(6, 1)}, {f(6, 3)}", f(6, 1))
    case("split of rows", [X], f"%a, %b = tessera.split %x {{axis = 0}} : {X} -> {f(3, 4)}, {f(3, 4)}\n"
         f"%y = tessera.concat %b, %a {{axis = 0}} : {f(3, 4)}, {f(3, 4)} -> {X}", X, ("split", "dim 0"))
    table = f'%w = tessera.param "w" init = #tessera.constant<1.0> : {f(9, 4)}\n'
    case("gather by rows", [i(6)], table + f"%y = tessera.gather %w, %x {{axis = 0}} : {f(9, 4)}, {i(6)} -> {X}", X)
    case("gather from rows", [X, i(6)], f"%y = tessera.gather %x, %x1 {{axis = 0}} : {X}, {i(6)} -> {X}", X, ("gather", "picks elements of dim 0"))
    case("gather in each row", [X], f"%k = tessera.constant dense<[1, 0]> : {i(2)}\n"
         f"%y = tessera.gather %x, %k {{axis = 1}} : {X}, {i(2)} -> {f(6, 2)}", f(6, 2))
    case("gather in each row, by each row", [X, i(6)], f"%y = tessera.gather %x, %x1 {{axis = 1}} : {X}, {i(6)} -> {f(6, 6)}", f(6, 6),
         ("gather", "other rows"))
    case("scatter_add in each row", [X, f(6, 2)], f"%k = tessera.constant dense<[1, 0]> : {i(2)}\n"
         f"%y = tessera.scatter_add %x, %k, %x1 {{axis = 1}} : {X}, {i(2)}, {f(6, 2)}", X)
    case("scatter_add of rows", [i(6), X], table + f"%s = tessera.scatter_add %w, %x, %x1 {{axis = 0}} : {f(9, 4)}, {i(6)}, {X}\n"
         f"%y = tessera.gather %s, %x {{axis = 0}} : {f(9, 4)}, {i(6)} -> {X}", X, ("scatter_add", "sums the elements that indices select along"))
    case("scatter in each row", [X, f(6, 2)], f"%k = tessera.constant dense<[1, 0]> : {i(2)}\n"
         f"%y = tessera.scatter %x, %k, %x1 {{axis = 1, how = \"max\"}} : {X}, {i(2)}, {f(6, 2)}", X)
    case("scatter of rows", [i(6), X], table + f"%s = tessera.scatter %w, %x, %x1 {{axis = 0}} : {f(9, 4)}, {i(6)}, {X}\n"
         f"%y = tessera.gather %s, %x {{axis = 0}} : {f(9, 4)}, {i(6)} -> {X}", X, ("scatter", "changes the elements that indices select along"))
    case("one_hot", [i(6)], f"%y = tessera.one_hot %x {{axis = 1}} : {i(6)} -> {f(6, 5)}", f(6, 5))
    case("iota over rows", [ROW], f"%k = tessera.iota {{axis = 0}} : {ROW}\n%y = tessera.add %x, %k : {ROW}, {ROW} -> {ROW}", ROW, ("add", NUMBER))
    case("iota in each row", [X], f"%k = tessera.iota {{axis = 1}} : {X}\n%y = tessera.add %x, %k : {X}, {X} -> {X}", X)


def images():
    image, filters, out = f(6, 4, 4, 2), f(3, 3, 2, 5), f(6, 4, 4, 5)
    window = "{strides = [1, 1], padding = [1, 1, 1, 1], dilation = [1, 1]}"
    w = f'%w = tessera.param "w" init = #tessera.constant<1.0> : {filters}\n'
    case("conv2d", [image], w + f"%y = tessera.conv2d %x, %w {window} : {image}, {filters} -> {out}", out)
    case("conv2d over rows", [f(6, 4, 2)],
         w + f"%i = tessera.reshape %x : {f(6, 4, 2)} -> {f(1, 6, 4, 2)}\n"
         f"%c = tessera.conv2d %i, %w {window} : {f(1, 6, 4, 2)}, {filters} -> {f(1, 6, 4, 5)}\n"
         f"%y = tessera.reshape %c : {f(1, 6, 4, 5)} -> {f(6, 4, 5)}", f(6, 4, 5), ("conv2d", "windows of dim 1"))
    case("conv2d_grad_input", [out], w + f"%y = tessera.conv2d_grad_input %w, %x {window} : {filters}, {out} -> {image}", image)
    case("conv2d_grad_filter", [image, out],
         f"%g = tessera.conv2d_grad_filter %x, %x1 {window} : {image}, {out} -> {filters}\n"
         f"%y = tessera.conv2d %x, %g {window} : {image}, {filters} -> {out}", out, ("conv2d_grad_filter", "sums over dim 0"))
    pool, half = "{window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]}", f(6, 2, 2, 2)
    for op in "max_pool2d", "avg_pool2d":
        case(op, [image], unary(op, pool, of=image, result=half), half)
        case(f"{op} over rows", [f(6, 4, 2)],
             f"%i = tessera.reshape %x : {f(6, 4, 2)} -> {f(1, 6, 4, 2)}\n"
             f"%p = tessera.{op} %i {{window = [3, 3], strides = [1, 1], padding = [1, 1, 1, 1]}} : {f(1, 6, 4, 2)} -> {f(1, 6, 4, 2)}\n"
             f"%y = tessera.reshape %p : {f(1, 6, 4, 2)} -> {f(6, 4, 2)}", f(6, 4, 2), (op, "windows over dim 1"))
    case("max_pool2d_grad", [image, half], f"%y = tessera.max_pool2d_grad %x, %x1 {pool} : {image}, {half}", image)
    case("avg_pool2d_grad", [half], unary("avg_pool2d_grad", pool, of=half, result=image), image)


def loops():
    body = lambda op: (f"%y = tessera.scan %z, %t {{\n^bb0(%c: {ROW}, %s: {ROW}):\n{op}\ntessera.yield %n : {ROW}\n}} {{carried = 1 : i64}}"
                       f" : {ROW}, {f(4, 6)} -> {ROW}")
    over = f"%t = tessera.transpose %x {{permutation = [1, 0]}} : {X} -> {f(4, 6)}\n%z = tessera.constant dense<0.0> : {ROW}\n"
    case("scan of steps", [X], over + body(f"%n = tessera.add %c, %s : {ROW}, {ROW} -> {ROW}"), ROW)
    case("scan of steps that mixes", [X],
         over + body(f"%m = tessera.add %c, %s : {ROW}, {ROW} -> {ROW}\n%n = tessera.cumsum %m {{axis = 0}} : {ROW}"), ROW,
         ("cumsum", "along dim 0"))
    case("scan of rows", [X], f"%y = tessera.scan %x {{\n^bb0(%s: {f(4)}):\n%n = tessera.softmax_safe %s {{axis = 0}} : {f(4)}\n"
         f"tessera.yield %n : {f(4)}\n}} {{carried = 0 : i64}} : {X} -> {X}", X)
    case("scan of parts of rows", [X], f"%p = tessera.reshape %x : {X} -> {f(3, 2, 4)}\n"
         f"%q = tessera.scan %p {{\n^bb0(%s: {f(2, 4)}):\n%n = tessera.sum %s {{axes = [1]}} : {f(2, 4)} -> {f(2)}\n"
         f"tessera.yield %n : {f(2)}\n}} {{carried = 0 : i64}} : {f(3, 2, 4)} -> {f(3, 2)}\n%y = tessera.reshape %q : {f(3, 2)} -> {ROW}", ROW)
    case("scan of rows that draws", [X], f"%y = tessera.scan %x {{\n^bb0(%s: {f(4)}):\n%r = tessera.random_uniform {{stream = 1 : i64}} : {f(4)}\n"
         f"%n = tessera.add %s, %r : {f(4)}, {f(4)} -> {f(4)}\ntessera.yield %n : {f(4)}\n}} {{carried = 0 : i64}} : {X} -> {X}", X,
         ("random_uniform", "draws other numbers"))
    case("scan of rows that carries", [X], f"%z = tessera.constant dense<0.0> : {f(4)}\n%e, %y = tessera.scan %z, %x {{\n^bb0(%c: {f(4)}, "
         f"%s: {f(4)}):\n%n = tessera.add %c, %s : {f(4)}, {f(4)} -> {f(4)}\ntessera.yield %n, %n : {f(4)}, {f(4)}\n}} {{carried = 1 : i64}} : "
         f"{f(4)}, {X} -> {f(4)}, {X}", X, ("scan", "carries a value from row to row"))
    case("scan of rows that reads all", [X], f"%y = tessera.scan %x {{\n^bb0(%s: {f(4)}):\n%n = tessera.add %x, %s : {X}, {f(4)} -> {X}\n"
         f"%m = tessera.reduce_max %n {{axes = [0]}} : {X} -> {f(4)}\ntessera.yield %m : {f(4)}\n}} {{carried = 0 : i64}} : {X} -> {X}", X,
         ("add", "all rows"))
    case("scan of rows and their numbers", [ROW], f"%k = tessera.iota {{axis = 0}} : {ROW}\n%y = tessera.scan %x, %k {{\n^bb0(%s: {f()}, %p: {f()}):\n"
         f"%n = tessera.add %s, %p : {f()}, {f()} -> {f()}\ntessera.yield %n : {f()}\n}} {{carried = 0 : i64}} : {ROW}, {ROW} -> {ROW}", ROW,
         ("scan", "by the row's number"))
    count = f"%l = tessera.constant dense<3> : {i()}\n%z = tessera.constant dense<0> : {i()}\n%u = tessera.constant dense<1> : {i()}\n"
    loop = lambda cond, bound: (count + bound + f"%e, %y = tessera.while %z, %x {{\n^bb0(%k: {i()}, %v: {ROW}):\n{cond}\ntessera.yield %g : {b()}\n"
                                f"}} do {{\n^bb0(%k: {i()}, %v: {ROW}):\n%n = tessera.add %k, %u : {i()}, {i()} -> {i()}\n"
                                f"%w = tessera.tanh %v : {ROW}\ntessera.yield %n, %w : {i()}, {ROW}\n}} {{limit = 5 : i64}} : {i()}, {ROW} -> {i()}, {ROW}")
    case("while, a fixed number of times", [ROW], loop(f"%g = tessera.compare lt %k, %l : {i()}, {i()} -> {b()}", ""), ROW)
    case("while, a bound of the rows", [ROW],
         loop(f"%m = tessera.reduce_max %v {{axes = [0]}} : {ROW} -> {f()}\n%h = tessera.constant dense<1.0> : {f()}\n"
              f"%g = tessera.compare gt %m, %h : {f()}, {f()} -> {b()}", ""), ROW, ("reduce_max", "reduces dim 0"))
    case("while, a bound of data", [ROW],
         loop(f"%g = tessera.compare lt %k, %m : {i()}, {i()} -> {b()}",
              f"%d = tessera.cast %x : {ROW} to {i(6)}\n%m = tessera.reduce_max %d {{axes = [0]}} : {i(6)} -> {i()}\n"), ROW,
         ("reduce_max", "reduces dim 0"))
    branch = lambda c, then: (c + f"%y = tessera.if %c {{\n{then}\ntessera.yield %t : {X}\n}} else {{\ntessera.yield %x : {X}\n}} : {b()} -> {X}")
    case("if", [X], branch(f'%s = tessera.step : {i()}\n%o = tessera.constant dense<1> : {i()}\n%c = tessera.compare lt %s, %o : {i()}, {i()} -> {b()}\n',
                           f"%t = tessera.neg %x : {X}"), X)
    case("if, by the rows", [X], branch(f"%m = tessera.sum %x {{axes = [0, 1]}} : {X} -> {f()}\n%o = tessera.constant dense<1.0> : {f()}\n"
                                        f"%c = tessera.compare lt %m, %o : {f()}, {f()} -> {b()}\n", f"%t = tessera.neg %x : {X}"), X,
         ("sum", "reduces dim 0"))
    case("if, a branch that mixes", [X], branch(f"%c = tessera.constant dense<true> : {b()}\n", f"%t = tessera.cumsum %x {{axis = 0}} : {X}"), X,
         ("cumsum", "along dim 0"))


def derivatives():
    region = f"{{\n^bb0(%a: {X}):\n%e = tessera.exp %a : {X}\n{{}}\ntessera.yield %r : {ROW}\n}}"
    apart, mixed = f"%r = tessera.sum %e {{axes = [1]}} : {X} -> {ROW}", f"%m = tessera.cumsum %e {{axis = 0}} : {X}\n" \
        f"%r = tessera.sum %m {{axes = [1]}} : {X} -> {ROW}"
    for op, more, out in ("jvp", X, f"{ROW}, {ROW}"), ("vjp", ROW, f"{ROW}, {X}"):
        result = "%v, %y" if op == "vjp" else "%v, %y"
        to = X if op == "vjp" else ROW
        write = lambda inner: f"{result} = tessera.{op} %x, %x1 " + region.replace("{}", inner) + f" : {X}, {more} -> {out}"
        case(op, [X, more], write(apart), to)
        case(f"{op} of what mixes", [X, more], write(mixed), to, ("cumsum", "along dim 0"))
    case("vjp of a sum over rows", [X],
         f"%o = tessera.constant dense<1.0> : {f()}\n%v, %y = tessera.vjp %x, %o {{\n^bb0(%a: {X}):\n%e = tessera.exp %a : {X}\n"
         f"%s = tessera.mean %e {{axes = [0, 1]}} : {X} -> {f()}\n%r = tessera.neg %s : {f()}\ntessera.yield %r : {f()}\n}} : {X}, {f()} -> {f()}, {X}", X)
    case("vjp of a square of a sum", [X],
         f"%o = tessera.constant dense<1.0> : {f()}\n%v, %y = tessera.vjp %x, %o {{\n^bb0(%a: {X}):\n"
         f"%s = tessera.sum %a {{axes = [0, 1]}} : {X} -> {f()}\n%r = tessera.mul %s, %s : {f()}, {f()} -> {f()}\ntessera.yield %r : {f()}\n}} : "
         f"{X}, {f()} -> {f()}, {X}", X, ("sum", "reduces dim 0"))
    case("vjp to a parameter", [X],
         f'%w = tessera.param "w" init = #tessera.constant<1.0> : {f(4)}\n%o = tessera.constant dense<1.0> : {X}\n'
         f"%v, %g = tessera.vjp %w, %o {{\n^bb0(%a: {f(4)}):\n%r = tessera.mul %x, %a : {X}, {f(4)} -> {X}\ntessera.yield %r : {X}\n}} : "
         f"{f(4)}, {X} -> {X}, {f(4)}\n%y = tessera.add %x, %g : {X}, {f(4)} -> {X}", X, ("vjp", "over all rows"))
    rule = lambda inner: (f"%y = tessera.custom_derivative %{{in}} {{\n^bb0(%a: {X}):\n%q = tessera.floor %a : {X}\ntessera.yield %q : {X}\n}} vjp {{\n"
                          f"^bb0(%a: {X}, %q: {X}, %g: {X}):\n{inner}\ntessera.yield %h : {X}\n}} : {X} -> {X}")
    good, bad = f"%h = tessera.neg %g : {X}", f"%h = tessera.cumsum %g {{axis = 0}} : {X}"
    case("custom_derivative", [X], rule(good).replace("{in}", "x"), X)
    case("custom_derivative, its rule not asked", [X], rule(bad).replace("{in}", "x"), X)
    inner = lambda how: (f"%v, %y = tessera.vjp %x, %x1 {{\n^bb0(%b: {X}):\n" + rule(how).replace("{in}", "b").replace("%y =", "%c =")
                         + f"\ntessera.yield %c : {X}\n}} : {X}, {X} -> {X}, {X}")
    case("custom_derivative in vjp", [X, X], inner(good), X)
    case("custom_derivative in vjp, its rule mixes", [X, X], inner(bad), X, ("custom_derivative", "rule for its derivatives"))


HEADS = {"f": 'tessera.entry = "infer", tessera.rows_independent', "g": 'tessera.entry = "infer"', "h": 'tessera.entry = "eval"'}


def program(at, arguments, ops, result):
    """The case as three entries of one module."""
    names = ["%x"] + [f"%x{k}" for k in range(1, len(arguments))]
    ports = ", ".join(f'{name}: {type} {{tessera.name = "{name[1:]}"}}' for name, type in zip(names, arguments))
    return "".join(f'func.func @{letter}{at}({ports}) -> ({result} {{tessera.name = "y"}}) attributes {{{head}}} {{\n{ops}\nreturn %y : {result}\n}}\n'
                   for letter, head in HEADS.items())


def check(at, said, mixes):
    """What is wrong with what was said of a case. `said`: {entry: texts}"""
    done, plain, eval_ = (said.get(f"{letter}{at}", "") for letter in "fgh")
    if mixes is None:
        remark = f"remark: [TSR-0230] entry '@"
        if done:
            return f"should pass, says {done}"
        if remark not in plain or remark not in eval_ or "error:" in plain + eval_:
            return f"should get a remark without the attribute, says {plain} {eval_}"
        return None
    op, words = mixes
    wanted = rf"error: \[TSR-0229\] {re.escape(op if '.' in op else 'tessera.' + op)}: [^\n]*{re.escape(words)}"
    if not re.search(wanted, done):
        return f"should be refused with {wanted}, says {done}"
    if op != "func.return" and "note: result 'y' depends on it" not in done:
        return f"does not say which result depends on it: {done}"
    if plain:
        return f"should pass in silence without the attribute, says {plain}"
    if not re.search(wanted, eval_) or 'is "eval", for which it must be tessera.rows_independent' not in eval_:
        return f"should be refused as an eval entry, says {eval_}"
    return None


def ask(opt):
    """{entry: what is said of it}, and what is said of no entry."""
    with tempfile.NamedTemporaryFile("w", suffix=".mlir", encoding="utf-8") as file:
        file.write("// -----\n".join(program(at, *rest[:3]) for at, (_, *rest) in enumerate(CASES)))
        file.flush()
        done = subprocess.run([opt, "-tessera-verify", "-tessera-prove-rows", "--no-output", "-split-input-file", file.name],
                              capture_output=True, text=True, check=False)
    said, other = {}, [] if done.returncode == 9 else [f"exit code {done.returncode}, expected 9"]
    for part in re.split(r"^(?=\S+:\d+:\d+: (?:error|remark): )", done.stderr, flags=re.MULTILINE):
        entry = re.search(r"entry '@(\w+)'", part)
        if entry:
            said[entry[1]] = said.get(entry[1], "") + part
        elif part.strip():
            other.append(part)
    return said, other


def main():
    opt, table = sys.argv[1], pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
    for family in elementwise, reductions, products, shapes, images, loops, derivatives:
        family()
    names = re.findall(r'^X\(\w+, "([\w.]+)",', table, re.MULTILINE)
    held = set(re.findall(r"tessera\.([\w.]+)", " ".join(ops for _, _, ops, _, _ in CASES)))
    wrong = [f"{name}: no case holds it, and ELSEWHERE gives no reason" for name in names if name not in held and name not in ELSEWHERE]
    wrong += [f"{name}: ELSEWHERE names it, but a case holds it or ops.def does not" for name in ELSEWHERE if name in held or name not in names]
    said, other = ask(opt)
    wrong += other
    for at, (name, *_, mixes) in enumerate(CASES):
        problem = check(at, said, mixes)
        if problem:
            wrong.append(f"{name}: {problem}")
    print("\n".join(wrong))
    print(f"{len(CASES)} cases, {len(names)} ops, {len(wrong)} wrong")
    sys.exit(bool(wrong) or len(CASES) < 120)


main()
