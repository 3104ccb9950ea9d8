# SPDX-License-Identifier: Apache-2.0
"""Files of other programs may contain tensors that cannot be represented here. Every option that reads a safetensors file takes the tensors it needs,
and names an unusable one if it is requested. Usage: safetensors_unusable.py TESSERA_RUN TESSERA_AOT"""
import json
import os
import struct
import subprocess
import sys
import tempfile

RUN, AOT = map(os.path.abspath, sys.argv[1:3])

TRAIN = '''
func.func @train(%x: tensor<2x3xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3x3xf32>
  %m = tessera.matmul %x, %w : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32>
  %l = tessera.mean %m {axes = [0, 1]} : tensor<2x3xf32> -> tensor<f32>
  tessera.minimize %l {optimizer = #tessera.sgd<lr = 1.0e-3, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %l : tensor<f32>
}
func.func @f(%x: tensor<2x3xf32> {tessera.name = "x"}) -> (tensor<2x3xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3x3xf32>
  %m = tessera.matmul %x, %w : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32>
  return %m : tensor<2x3xf32>
}
'''

# Unusable tensors: name, dtype, shape, bytes; the expected message.
UNUSABLE = [
    ("q", "U12", [4], 6, "tensor 'q' has the dtype 'U12'; expected one of F64 F32"),
    ("q", "C64", [4], 32, "tensor 'q' has the dtype 'C64'; expected one of F64 F32"),
    ("q", "F6_E2M3", [4], 3, "tensor 'q' has the dtype 'F6_E2M3'; expected one of F64 F32"),
    ("q", "F4", [2, 3], 3, "tensor 'q' has the dtype 'F4'; expected one of F64 F32"),
    ("q", "F32", [1] * 9, 4, "tensor 'q': 'shape' has 9 dimensions; at most 8 are accepted"),
    ("q" * 300, "F32", [1], 4, "has 300 bytes; expected 1 to 255"),
]


def write(path, tensors):
    """A list of (name, dtype, shape, bytes)."""
    header, data = {}, b""
    for name, dtype, shape, content in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stderr


def floats(count, first):
    return struct.pack(f"<{count}f", *[first + i / 4 for i in range(count)])


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("m.mlir", "w") as file:
            file.write(TRAIN)
        rc, said = run(AOT, "build", "m.mlir", "-o", "m.tsb", "--target=cpu:x86-64-v2")
        assert rc == 0, said
        x, w, y = floats(6, 1), floats(9, 2), "y=y.npy"
        write("plain.safetensors", [("x", "F32", [2, 3], x), ("w", "F32", [3, 3], w)])
        call = [RUN, "m.tsb", "--entry", "f", "--output", y]
        # One row for each option: the command, with a name of the file or of a tensor in it.
        uses = [
            ("--input", lambda file, name: [*call, "--params", "plain.safetensors", "--input", f"x={file}:{name}"], "x", 8),
            ("--data", lambda file, name: [RUN, "m.tsb", "--steps", "1", "--data", f"x={file}:{name}"], "x", 8),
            ("--params", lambda file, name: [*call, "--input", "x=plain.safetensors:x", "--params", file], "w", 12),
            ("aot --params", lambda file, name: [AOT, "build", "m.mlir", "-o", "p.tsb", "--target=cpu:x86-64-v2", "--params", file], "w", 12),
            ("aot --reference", lambda file, name: [AOT, "build", "m.mlir", "-o", "p.tsb", "--target=cpu:x86-64-v2", "--params", file, "--reference"], "w", 12),
        ]
        for name, dtype, shape, size, message in UNUSABLE:
            content = bytes(size)
            write("beside.safetensors", [(name, dtype, shape, content), ("x", "F32", [2, 3], x), ("w", "F32", [3, 3], w)])
            for option, command, wanted, code in uses:
                rc, said = run(*command("beside.safetensors", wanted))
                assert rc == 0, f"{option} beside {dtype}: exit code {rc}: {said}"
                if option == "--params":
                    with open("y.npy", "rb") as file:
                        got = file.read()[-24:]
                    run(*command("plain.safetensors", wanted))
                    with open("y.npy", "rb") as file:
                        assert got == file.read()[-24:], f"{option} beside {dtype}: other values"
                # The same tensor under the requested name; a name of 300 bytes cannot be that of a parameter.
                asked = wanted if len(name) < 256 else name
                if asked == name and "params" in option or option == "aot --reference" and asked == name:
                    continue
                write("used.safetensors", [(asked, dtype, shape, content)])
                rc, said = run(*command("used.safetensors", asked))
                expected = message.replace("'q'", f"'{asked}'")
                assert rc == code and expected in said, f"{option} of {dtype}: exit code {rc}, not {code}: {said}; expected: {expected}"
            if os.path.exists("p.tsb"):
                rc, said = run(RUN, "p.tsb", "--entry", "f", "--input", "x=plain.safetensors:x", "--output", y)
                assert rc == 0, f"a bundle that refers to weights beside {dtype}: {said}"
        # A contradiction in the header is an error, whether the tensor is used or not.
        write("short.safetensors", [("q", "F32", [4], bytes(8)), ("x", "F32", [2, 3], x)])
        rc, said = run(*uses[0][1]("short.safetensors", "x"))
        assert rc == 8 and "tensor 'q' has the data offsets 0 to 8; 4xf32 needs 16 bytes" in said, said


main()
