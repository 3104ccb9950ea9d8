#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: virtual_ranks.py TESSERA_AOT TESSERA_RUN

Small models of ops that split a batch in different ways are trained with 1, 2 and 4 virtual ranks, which process their rows one
after another: the parameters agree except for the order of sums (relative 2e-5 of the largest), and the random numbers are the
same. With 4 virtual ranks, 1, 2, 3 and 4 processes end with the same bits.
"""
import json
import re
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit(77)

aot, run = sys.argv[1:]
STEPS, TOLERANCE = 3, 2e-5
SGD = "#tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>"
ADAMW = "#tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-3, weight_decay = 1.0e-1>"

# name: (inputs: name -> (type, classes or 0), optimizer, body that defines %loss)
MODELS = {
    "perceptron": ({"x": ("8x6xf32", 0), "t": ("8xi64", 3)}, ADAMW, """
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<6x5xf32>
    %b = tessera.param "b" init = #tessera.uniform<-0.5, 0.5> : tensor<5xf32>
    %u = tessera.param "u" init = #tessera.uniform<-0.5, 0.5> : tensor<5x3xf32>
    %0 = tessera.matmul %x, %w : tensor<8x6xf32>, tensor<6x5xf32> -> tensor<8x5xf32>
    %1 = tessera.add %0, %b : tensor<8x5xf32>, tensor<5xf32> -> tensor<8x5xf32>
    %2 = tessera.gelu %1 : tensor<8x5xf32>
    %3 = tessera.dropout %2 {rate = 0.3} : tensor<8x5xf32> -> tensor<8x5xf32>
    %4 = tessera.matmul %3, %u : tensor<8x5xf32>, tensor<5x3xf32> -> tensor<8x3xf32>
    %5 = tessera.cross_entropy %4, %t : tensor<8x3xf32>, tensor<8xi64> -> tensor<8xf32>
    %loss = tessera.mean %5 {axes = [0]} : tensor<8xf32> -> tensor<f32>"""),
    # Batch statistics take part in the forward pass: sums over virtual ranks between its parts; running means are assigned.
    "batch_norm": ({"x": ("8x4x4x3xf32", 0)}, SGD, """
    %f = tessera.param "f" init = #tessera.uniform<-0.5, 0.5> : tensor<3x3x3x4xf32>
    %s = tessera.param "s" init = #tessera.constant<1.0> : tensor<4xf32>
    %b = tessera.param "b" init = #tessera.constant<0.5> : tensor<4xf32>
    %m = tessera.param "m" init = #tessera.constant<0.0> : tensor<4xf32>
    %v = tessera.param "v" init = #tessera.constant<1.0> : tensor<4xf32>
    %0 = tessera.conv2d %x, %f {strides = [1, 1], padding = [1, 1, 1, 1], dilation = [1, 1]} : tensor<8x4x4x3xf32>, tensor<3x3x3x4xf32> -> tensor<8x4x4x4xf32>
    %1:3 = tessera.batch_norm_train %0, %s, %b, %m, %v {axis = 3 : i64, momentum = 0.1, eps = 1.0e-5} : tensor<8x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<8x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>
    %2 = tessera.max_pool2d %1#0 {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]} : tensor<8x4x4x4xf32> -> tensor<8x2x2x4xf32>
    %3 = tessera.mul %2, %2 : tensor<8x2x2x4xf32>, tensor<8x2x2x4xf32> -> tensor<8x2x2x4xf32>
    %loss = tessera.mean %3 {axes = [0, 1, 2, 3]} : tensor<8x2x2x4xf32> -> tensor<f32>"""),
    # Tokens are looked up, heads move behind and before, a causal softmax.
    "attention": ({"tokens": ("4x6xi64", 7)}, ADAMW, """
    %e = tessera.param "e" init = #tessera.uniform<-0.5, 0.5> : tensor<7x8xf32>
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<8x8xf32>
    %g = tessera.param "g" init = #tessera.constant<1.0> : tensor<8xf32>
    %c = tessera.param "c" init = #tessera.constant<0.0> : tensor<8xf32>
    %0 = tessera.gather %e, %tokens {axis = 0 : i64} : tensor<7x8xf32>, tensor<4x6xi64> -> tensor<4x6x8xf32>
    %1 = tessera.layernorm_safe %0, %g, %c {axes = [2]} : tensor<4x6x8xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<4x6x8xf32>
    %2 = tessera.reshape %1 : tensor<4x6x8xf32> -> tensor<24x8xf32>
    %3 = tessera.matmul %2, %w : tensor<24x8xf32>, tensor<8x8xf32> -> tensor<24x8xf32>
    %4 = tessera.reshape %3 : tensor<24x8xf32> -> tensor<4x6x2x4xf32>
    %5 = tessera.transpose %4 {permutation = [0, 2, 1, 3]} : tensor<4x6x2x4xf32> -> tensor<4x2x6x4xf32>
    %6 = tessera.attention %5, %5, %5 {causal} : tensor<4x2x6x4xf32>, tensor<4x2x6x4xf32>, tensor<4x2x6x4xf32> -> tensor<4x2x6x4xf32>
    %7 = tessera.transpose %6 {permutation = [0, 2, 1, 3]} : tensor<4x2x6x4xf32> -> tensor<4x6x2x4xf32>
    %8 = tessera.reshape %7 : tensor<4x6x2x4xf32> -> tensor<4x6x8xf32>
    %9 = tessera.add %8, %0 : tensor<4x6x8xf32>, tensor<4x6x8xf32> -> tensor<4x6x8xf32>
    %10 = tessera.reshape %9 : tensor<4x6x8xf32> -> tensor<24x8xf32>
    %11 = tessera.matmul %10, %e {transpose_b = true} : tensor<24x8xf32>, tensor<7x8xf32> -> tensor<24x7xf32>
    %12 = tessera.reshape %tokens : tensor<4x6xi64> -> tensor<24xi64>
    %13 = tessera.cross_entropy %11, %12 : tensor<24x7xf32>, tensor<24xi64> -> tensor<24xf32>
    %loss = tessera.mean %13 {axes = [0]} : tensor<24xf32> -> tensor<f32>"""),
    # What mixes rows: a softmax and a sort over the batch, a product of all, the largest, a cumulative sum, noise, a pad.
    "mixed": ({"x": ("8x4xf32", 0)}, SGD, """
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<4x4xf32>
    %p = tessera.param "p" init = #tessera.uniform<-0.5, 0.5> : tensor<8x4xf32>
    %0 = tessera.matmul %x, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %1 = tessera.softmax_safe %0 {axis = 0 : i64} : tensor<8x4xf32>
    %2 = tessera.mul %1, %p : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
    %3:2 = tessera.sort %2 {axis = 0 : i64} : tensor<8x4xf32> -> tensor<8x4xf32>, tensor<8x4xi64>
    %4 = tessera.cumsum %0 {axis = 1 : i64} : tensor<8x4xf32>
    %5 = tessera.reduce_max %4 {axes = [0]} : tensor<8x4xf32> -> tensor<4xf32>
    %6 = tessera.pad %3#0 {low = [0, 1], high = [0, 0]} : tensor<8x4xf32> -> tensor<8x5xf32>
    %7 = tessera.slice %6 {start = [0, 0], size = [8, 4]} : tensor<8x5xf32> -> tensor<8x4xf32>
    %8 = tessera.random_normal : tensor<8x4xf32>
    %9 = tessera.mul %7, %8 : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
    %10 = tessera.concat %9, %4 {axis = 1 : i64} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x8xf32>
    %11 = tessera.concat %10, %10 {axis = 0 : i64} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<16x8xf32>
    %12 = tessera.mul %11, %11 : tensor<16x8xf32>, tensor<16x8xf32> -> tensor<16x8xf32>
    %13 = tessera.mean %12 {axes = [0, 1]} : tensor<16x8xf32> -> tensor<f32>
    %14 = tessera.mean %5 {axes = [0]} : tensor<4xf32> -> tensor<f32>
    %loss = tessera.add %13, %14 : tensor<f32>, tensor<f32> -> tensor<f32>"""),
    # Half precision is computed, and summed over virtual ranks, in f32.
    "half": ({"x": ("8x4xf32", 0)}, SGD, """
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<4x4xf32>
    %h = tessera.cast %w : tensor<4x4xf32> to tensor<4x4xbf16>
    %k = tessera.cast %x : tensor<8x4xf32> to tensor<8x4xbf16>
    %0 = tessera.matmul %k, %h : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
    %1 = tessera.cast %0 : tensor<8x4xbf16> to tensor<8x4xf32>
    %2 = tessera.mul %1, %1 : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
    %loss = tessera.mean %2 {axes = [0, 1]} : tensor<8x4xf32> -> tensor<f32>"""),
}
LOOSE = {"half": 1e-2}  # a gradient is rounded to bf16 once, after the sum


def shape_of(text):
    return [int(n) for n in re.findall(r"(\d+)x", text)]


def source(name):
    inputs, optimizer, body = MODELS[name]
    arguments = ", ".join(f'%{key}: tensor<{kind}> {{tessera.data = "{key}"}}' for key, (kind, _) in inputs.items())
    assigned = '    tessera.assign %1#1 to "m" : tensor<4xf32>\n    tessera.assign %1#2 to "v" : tensor<4xf32>\n'
    return (f'module @{name} {{\n  func.func @train({arguments}) -> (tensor<f32> {{tessera.name = "loss"}})\n'
            f'      attributes {{tessera.entry = "train"}} {{{body}\n    tessera.minimize %loss {{optimizer = {optimizer}}} : tensor<f32>\n'
            f'{assigned if "batch_norm_train" in body else ""}    return %loss : tensor<f32>\n  }}\n}}\n')


def write_data(folder, name):
    flags, random = [], np.random.default_rng(1)
    for key, (kind, classes) in MODELS[name][0].items():
        shape = [3 * shape_of(kind)[0], *shape_of(kind)[1:]]
        array = random.integers(0, classes, shape) if classes else random.standard_normal(shape).astype(np.float32)
        np.save(f"{folder}/{name}.{key}.npy", array)
        flags += ["--data", f"{key}={folder}/{name}.{key}.npy"]
    return flags


def train(folder, name, ranks, processes, data):
    state = f"{folder}/{name}.{ranks}.{processes}.state"
    out = f"{state}.safetensors"
    command = [run, f"{folder}/{name}.{ranks}.tsb", "--steps", str(STEPS), "--seed", "5", "--state-dir", state, "--quiet", *data]
    if processes:
        command += ["--ranks", str(processes)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name}, {ranks} virtual ranks, {processes} processes: {done.stderr}")
    subprocess.run([run, "export", state, "-o", out], check=True, stdout=subprocess.DEVNULL)
    with open(out, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        header.pop("__metadata__", None)
        body = file.read()
    tensors = {key: np.frombuffer(body[slice(*of["data_offsets"])], np.float32) for key, of in header.items()}
    return re.search(r"^state (\w+)", done.stdout, re.M).group(1), tensors


def main(folder):
    failed = False
    for name in MODELS:
        with open(f"{folder}/{name}.mlir", "w", encoding="utf-8") as file:
            file.write(source(name))
        data, reference = write_data(folder, name), None
        for ranks in (1, 2, 4):
            subprocess.run([aot, "build", file.name, "-o", f"{folder}/{name}.{ranks}.tsb", "--target", "cpu:x86-64-v3",
                            "--virtual-ranks", str(ranks)], check=True)
            hash_, tensors = train(folder, name, ranks, 0, data)
            reference = reference or tensors
            worst = max(float(np.max(np.abs(tensors[key] - reference[key])) / (np.max(np.abs(reference[key])) + 1e-30))
                        for key in reference)
            fits = worst <= LOOSE.get(name, TOLERANCE)
            print(f"{name}, {ranks} virtual ranks: off by {worst:.1e}{'' if fits else ': TOO MUCH'}")
            failed |= not fits
        hashes = [train(folder, name, 4, processes, data)[0] for processes in (1, 2, 3, 4)]
        same = all(each == hash_ for each in hashes)
        print(f"{name}: 1, 2, 3, 4 processes {'end with the same bits' if same else 'DIFFER'}")
        failed |= not same
    return failed


with tempfile.TemporaryDirectory() as temporary:
    sys.exit(1 if main(temporary) else 0)
