#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a transformer's training step: layers of attention and a perceptron, each in a checkpoint.

usage: transformer.py [--layers N] [--batch N] [--positions N] [--width N] [--heads N]
                      [--policy full|selective|none|absent] [--hint full|selective] [--budget BYTES]
"""
import argparse


def parse():
    parser = argparse.ArgumentParser()
    for name, value in (("layers", 2), ("batch", 4), ("positions", 32), ("width", 64), ("heads", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--policy", default="absent")
    parser.add_argument("--hint", default="")
    parser.add_argument("--budget", type=int, default=-1)
    return parser.parse_args()


class Program:
    def __init__(self, options):
        self.o = options
        self.lines = []
        self.params = []
        self.count = 0

    def emit(self, text):
        self.count += 1
        self.lines.append(f"    %v{self.count} = {text}")
        return f"%v{self.count}"

    def param(self, name, shape, init):
        self.params.append(name)
        return self.emit(f'tessera.param "{name}" init = #tessera.{init} : tensor<{shape}xf32>')

    def matmul(self, x, w, rows, inner, columns):
        return self.emit(f"tessera.matmul {x}, {w} : tensor<{rows}x{inner}xf32>, "
                         f"tensor<{inner}x{columns}xf32> -> tensor<{rows}x{columns}xf32>")

    def binary(self, op, x, y, x_type, y_type, r_type):
        return self.emit(f"tessera.{op} {x}, {y} : tensor<{x_type}>, tensor<{y_type}> -> tensor<{r_type}>")

    def norm(self, x, name, rows, width):
        scale = self.param(f"{name}.scale", width, "constant<1.0>")
        bias = self.param(f"{name}.bias", width, "constant<0.0>")
        return self.emit(f"tessera.layernorm_safe {x}, {scale}, {bias} {{axes = [1]}} : tensor<{rows}x{width}xf32>, "
                         f"tensor<{width}xf32>, tensor<{width}xf32> -> tensor<{rows}x{width}xf32>")

    def heads(self, x, rows):
        o = self.o
        deep = o.width // o.heads
        split = self.emit(f"tessera.reshape {x} : tensor<{rows}x{o.width}xf32> -> "
                          f"tensor<{o.batch}x{o.positions}x{o.heads}x{deep}xf32>")
        return self.emit(f"tessera.transpose {split} {{permutation = [0, 2, 1, 3]}} : "
                         f"tensor<{o.batch}x{o.positions}x{o.heads}x{deep}xf32> -> "
                         f"tensor<{o.batch}x{o.heads}x{o.positions}x{deep}xf32>")

    def attend(self, x, name, rows):
        o = self.o
        deep = o.width // o.heads
        inputs = []
        for part in "qkv":
            w = self.param(f"{name}.{part}", f"{o.width}x{o.width}", "uniform<-0.1, 0.1>")
            inputs.append(self.heads(self.matmul(x, w, rows, o.width, o.width), rows))
        type_of = f"tensor<{o.batch}x{o.heads}x{o.positions}x{deep}xf32>"
        y = self.emit(f"tessera.attention {', '.join(inputs)} {{causal}} : {', '.join([type_of] * 3)} -> {type_of}")
        y = self.emit(f"tessera.transpose {y} {{permutation = [0, 2, 1, 3]}} : {type_of} -> "
                      f"tensor<{o.batch}x{o.positions}x{o.heads}x{deep}xf32>")
        y = self.emit(f"tessera.reshape {y} : tensor<{o.batch}x{o.positions}x{o.heads}x{deep}xf32> -> "
                      f"tensor<{rows}x{o.width}xf32>")
        w = self.param(f"{name}.o", f"{o.width}x{o.width}", "uniform<-0.1, 0.1>")
        return self.matmul(y, w, rows, o.width, o.width)

    def layer(self, x, name):
        o = self.o
        rows, wide = o.batch * o.positions, 4 * o.width
        flat, long = f"{rows}x{o.width}xf32", f"{rows}x{wide}xf32"
        y = self.attend(self.norm(x, f"{name}.norm1", rows, o.width), f"{name}.attention", rows)
        y = self.emit(f"tessera.dropout {y} {{rate = 1.0e-1 : f64}} : tensor<{flat}> -> tensor<{flat}>")
        x = self.binary("add", x, y, flat, flat, flat)
        y = self.norm(x, f"{name}.norm2", rows, o.width)
        up = self.param(f"{name}.up", f"{o.width}x{wide}", "uniform<-0.1, 0.1>")
        bias = self.param(f"{name}.bias", f"{wide}", "constant<0.0>")
        down = self.param(f"{name}.down", f"{wide}x{o.width}", "uniform<-0.05, 0.05>")
        y = self.binary("add", self.matmul(y, up, rows, o.width, wide), bias, long, f"{wide}xf32", long)
        y = self.emit(f"tessera.gelu {y} : tensor<{long}>")
        y = self.matmul(y, down, rows, wide, o.width)
        return self.binary("add", x, y, flat, flat, flat)

    def program(self):
        o = self.o
        rows = o.batch * o.positions
        flat = f"{rows}x{o.width}xf32"
        x = self.emit(f"tessera.reshape %x : tensor<{o.batch}x{o.positions}x{o.width}xf32> -> tensor<{flat}>")
        if o.hint:
            budget = f", budget_bytes = {o.budget}" if o.budget >= 0 else ""
            self.lines.append(f'    tessera.schedule.recompute_hint {{policy = "{o.hint}"{budget}}}')
        for i in range(o.layers):
            if o.policy != "absent":
                budget = f", budget_bytes = {o.budget}" if o.budget >= 0 else ""
                self.lines.append(f'    %layer{i} = tessera.schedule.checkpoint {{policy = "{o.policy}"{budget}}} {{')
            x = self.layer(x, f"layer{i}")
            if o.policy != "absent":
                self.lines.append(f"    tessera.yield {x} : tensor<{flat}>")
                self.lines.append(f"    }} : tensor<{flat}>")
                x = f"%layer{i}"
        head = self.param("head", f"{o.width}x16", "uniform<-0.1, 0.1>")
        logits = self.matmul(x, head, rows, o.width, 16)
        labels = self.emit(f"tessera.reshape %labels : tensor<{o.batch}x{o.positions}xi64> -> tensor<{rows}xi64>")
        losses = self.emit(f"tessera.cross_entropy {logits}, {labels} : tensor<{rows}x16xf32>, tensor<{rows}xi64> -> "
                           f"tensor<{rows}xf32>")
        self.lines.append(f"    %loss = tessera.mean {losses} {{axes = [0]}} : tensor<{rows}xf32> -> tensor<f32>")
        self.lines.append("    tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-3, beta1 = 0.9, "
                          "beta2 = 0.999, eps = 1.0e-8, weight_decay = 1.0e-2>} : tensor<f32>")
        self.lines.append("    return %loss : tensor<f32>")
        return "\n".join([
            "module @transformer {",
            f'  func.func @train(%x: tensor<{o.batch}x{o.positions}x{o.width}xf32> {{tessera.data = "x"}},',
            f'                   %labels: tensor<{o.batch}x{o.positions}xi64> {{tessera.data = "labels"}})',
            '      -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {',
            *self.lines, "  }", "}"])


if __name__ == "__main__":
    print(Program(parse()).program())
