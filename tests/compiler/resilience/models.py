# SPDX-License-Identifier: Apache-2.0
"""The models that the tests of this folder train: the digits, and a small transformer; and the checks of these models."""
import json
import random
import re
import struct
import subprocess
import sys

TARGET = ("--target", "cpu:x86-64-v3")


class Model:
    """`train_data` is what a training step reads, `data` what all entries read; the forward pass of the step stands between
    the texts `begin` and `end`; `param` is one of its parameters."""

    def __init__(self, name, text, train_data, test_data, begin, param):
        self.name, self.text, self.begin, self.end, self.param = name, text, begin, "    tessera.minimize", param
        self.train_data, self.data = train_data, train_data + test_data

    def forward(self):
        return self.text.index(self.begin), self.text.index(self.end)


def digits(folder):
    with open(f"{folder}/digits.mlir", encoding="utf-8") as file:
        text = file.read()
    train, test = ([f"--data={key}={folder}/{part}-{key.split('_')[-1]}.npy" for key in keys]
                   for part, keys in (("train", ("images", "labels")), ("test", ("test_images", "test_labels"))))
    return Model("digits", text, train, test, "    %logits = call", "layer1.weight")


def write_npy(path, dtype, shape, values):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    code = {"<f4": "f", "<i8": "q", "|u1": "B"}[dtype]
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(values)}{code}", *values))


def transformer_text(script, *options):
    command = [sys.executable, script, *map(str, options)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def transformer(script, folder, *options, rows=128, positions=32, width=64):
    """Its data is written to `folder`; `positions` and `width` as in `options`."""
    draw = random.Random(7)
    write_npy(f"{folder}/x.npy", "<f4", (rows, positions, width), [draw.uniform(-1, 1) for _ in range(rows * positions * width)])
    write_npy(f"{folder}/labels.npy", "<i8", (rows, positions), [draw.randrange(16) for _ in range(rows * positions)])
    data = [f"--data=x={folder}/x.npy", f"--data=labels={folder}/labels.npy"]
    return Model("transformer", transformer_text(script, *options), data, [], "    %v1 = ", "layer0.norm1.scale")


def small_transformer(script, folder, *options):
    """Two layers of a step that takes milliseconds."""
    sizes = {"layers": 2, "batch": 8, "positions": 16, "width": 32, "heads": 2}
    words = [word for name, size in sizes.items() for word in ("--" + name, size)]
    return transformer(script, folder, *words, *options, rows=64, positions=sizes["positions"], width=sizes["width"])


def sharded(text, stage, positions, axis="data", mesh=None):
    """Every parameter's optimizer state is sharded over `positions` of an axis."""
    mesh = mesh or {axis: positions}
    sizes = ", ".join(f"{name} = {size}" for name, size in mesh.items())
    text = re.sub(r"module @(\w+) \{", rf"module @\1 attributes {{tessera.mesh = {{{sizes}}}}} {{", text, count=1)
    return re.sub(r"(weight_decay = [0-9.e+-]+>)\}", rf'\1, tessera.opt.shard = #tessera.opt.shard<axis = "{axis}">, '
                  rf'tessera.opt.partition = #tessera.opt.partition<"{stage}">}}', text)


class Checks:
    """Counts what a test looks at, and prints what is not as it should be."""

    def __init__(self):
        self.count = self.failures = 0

    def __call__(self, what, good, shown=""):
        self.count += 1
        if not good:
            self.failures += 1
            print(f"FAILED: {what} {shown}")

    def __str__(self):
        return f"{self.count} checks, {self.failures} failed"


def counter(name, function, param):
    """A handler that adds 1 to a state."""
    return f"""
  func.func @{function}() {{
    %n = tessera.opt.state "{name}" of "{param}" kind "count" init = #tessera.constant<0.0> : tensor<f32>
    %one = tessera.constant dense<1.0> : tensor<f32>
    %next = tessera.add %n, %one : tensor<f32>, tensor<f32> -> tensor<f32>
    tessera.assign %next to "{name}" : tensor<f32>
    return
  }}"""


def in_region(model, mode, divided=False, mended=True, recovers=True):
    """The model's forward pass in a region that exports the loss; `divided`: by the number of failures, so that the first
    attempt fails; `mended`: failures are counted; `recovers`: so are runs that resume from a state, which thus have one of
    their own."""
    text, (begin, end) = model.text, model.forward()
    body = text[begin:end].rstrip().replace("= call", "= func.call")
    result = "%loss"
    if divided:
        body += f"""
    %failures = tessera.opt.state "failures" of "{model.param}" kind "count" init = #tessera.constant<0.0> : tensor<f32>
    %mended = tessera.div %loss, %failures : tensor<f32>, tensor<f32> -> tensor<f32>"""
        result = "%mended"
    events = "    tessera.resilience.on_failure(handler = @fail)\n" if mended else ""
    back = "    tessera.resilience.on_recovery(handler = @back)\n" if recovers else ""
    region = f"""{back}    %imported, %previous = tessera.target.import "forward" : !tessera_sr.token, tensor<f32>
    %token, %out = tessera.resilience.region {{mode = "{mode}", name = "forward"}} {{
{events}{body}
    tessera.yield {result} : tensor<f32>
    }} : !tessera_sr.token, tensor<f32>
    tessera.target.export %token : !tessera_sr.token
"""
    text = text[:begin] + region + text[end:].replace("minimize %loss", "minimize %out", 1).replace(
        "return %loss : tensor<f32>", "return %out, %previous : tensor<f32>, tensor<f32>", 1)
    text = text.replace('(tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"}',
                        '(tensor<f32> {tessera.name = "loss"}, tensor<f32> {tessera.name = "previous"}) '
                        'attributes {tessera.entry = "train"}')
    handlers = counter("recoveries", "back", model.param) if recovers else ""
    handlers += counter("failures", "fail", model.param) if mended or divided else ""
    return re.sub(r"(module @\w+ (?:attributes .*)?\{)\n", lambda found: found[1] + handlers + "\n", text, count=1)


def build(aot, folder, name, text, *options):
    """The finished process; the bundle is `folder`/`name`.tsb."""
    with open(f"{folder}/{name}.mlir", "w", encoding="utf-8") as file:
        file.write(text)
    return subprocess.run([aot, "build", file.name, "-o", f"{folder}/{name}.tsb", *TARGET, *options], capture_output=True,
                          text=True, check=False)


def tensors(run, state):
    """What a folder of states holds last: {name: (type, shape, bytes)}."""
    path = f"{state}.safetensors"
    subprocess.run([run, "export", state, "-o", path], check=True, stdout=subprocess.DEVNULL)
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {name: (row["dtype"], tuple(row["shape"]), data[slice(*row["data_offsets"])])
            for name, row in header.items() if name != "__metadata__"}


def same(found, wanted):
    """Are the tensors of `wanted` there, bit by bit? There may be others."""
    return all(found.get(name) == value for name, value in wanted.items())


def read_plan(text, name):
    """The integers of attribute `name` in IR."""
    return [int(n) for n in re.search(rf"{re.escape(name)} = \[([^]]*)\]", text).group(1).split(",")]
