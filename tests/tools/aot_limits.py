# SPDX-License-Identifier: Apache-2.0
"""Programs that are large but valid: thousands of parameters, constants of megabytes, hundreds of layers. They build, run, read their data once, and
cost time in proportion to their size. Usage: aot_limits.py TESSERA_AOT TESSERA_RUN [--large [TENSORS]]

--large: only programs with an eighth, a quarter, a half and all of that many tensors, by default 100,200, a third of them parameters. Each is built,
trained, resumed, checked, exported, baked, inspected and compared; the table shows the CPU seconds of each command, which must not grow faster than
the number of tensors (minutes, by hand)."""
import array
import os
import random
import resource
import subprocess
import sys
import tempfile

AOT, RUN = map(os.path.abspath, sys.argv[1:3])
TARGET = "--target=cpu:x86-64-v2"


def run(*command, code=0):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, f"exit code {done.returncode}, expected {code}: {command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def npy(path, values, shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}".replace(",)", ",)")
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        array.array("f", values).tofile(file)


def layers(count, kind):
    """A chain of `count` layers, each with a parameter of its own."""
    t, w = "tensor<4x16xf32>", "tensor<16x16xf32>"
    head = ('func.func @train(%x: ' + t + ' {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {'
            if kind == "train" else
            'func.func @f(%x: ' + t + ' {tessera.name = "x"}) -> (' + t + ' {tessera.name = "y"}) attributes {tessera.entry = "infer"} {')
    lines, h = [head], "%x"
    for i in range(count):
        lines += [f'%w{i} = tessera.param "layer{i}.w" init = #tessera.normal<0.0, 0.25> : {w}',
                  f'%m{i} = tessera.matmul {h}, %w{i} : {t}, {w} -> {t}',
                  f'%t{i} = tessera.tanh %m{i} : {t}']
        h = f"%t{i}"
    if kind == "train":
        lines += [f'%l = tessera.mean {h} {{axes = [0, 1]}} : {t} -> tensor<f32>',
                  'tessera.minimize %l {optimizer = #tessera.adamw<lr = 1.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>',
                  'return %l : tensor<f32>']
    else:
        lines += [f'return {h} : {t}']
    return "\n".join(lines) + "\n}\n"


def side_by_side(count):
    """A sum of `count` layers of the same input, each with a parameter of its own, so that every parameter is trained."""
    t, w = "tensor<4x8xf32>", "tensor<8x8xf32>"
    lines = ['func.func @train(%x: ' + t + ' {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {']
    for i in range(count):
        lines += [f'%w{i} = tessera.param "layer{i}.w" init = #tessera.normal<0.0, 0.25> : {w}',
                  f'%m{i} = tessera.matmul %x, %w{i} : {t}, {w} -> {t}',
                  f'%t{i} = tessera.tanh %m{i} : {t}',
                  f'%s{i} = tessera.add %s{i - 1}, %t{i} : {t}' if i else f'%s{i} = tessera.add %t{i}, %x : {t}']
    lines += [f'%q = tessera.mul %s{count - 1}, %s{count - 1} : {t}', f'%l = tessera.mean %q {{axes = [0, 1]}} : {t} -> tensor<f32>',
              'tessera.minimize %l {optimizer = #tessera.adamw<lr = 1.0e-3>} : tensor<f32>', 'return %l : tensor<f32>']
    return "\n".join(lines) + "\n}\n"


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def many_tensors():
    """1,700 parameters with AdamW are 5,100 tensors: built, trained, saved, resumed."""
    write("many.mlir", layers(1700, "train"))
    run(AOT, "build", "many.mlir", "-o", "many.tsb", TARGET)
    npy("x.npy", [i / 64 for i in range(64)], (4, 16))
    run(RUN, "many.tsb", "--data", "x=x.npy", "--steps", "1", "--state-dir", "S", "--quiet")
    run(RUN, "many.tsb", "--data", "x=x.npy", "--steps", "2", "--state-dir", "S", "--quiet")
    run(RUN, "fsck", "S")
    write("many.mlir", layers(7000, "infer"))
    run(AOT, "build", "many.mlir", "-o", "many.tsb", TARGET)
    run(AOT, "verify", "--strict", "many.tsb")


def constant_program(rows, columns, element, data):
    """y = constant + x, or where the constant is a mask, x where it is true and 0 elsewhere."""
    t, c = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}x{columns}x{element}>"
    use = (f"%y = tessera.add %c, %x : {c}, tensor<{columns}xf32> -> {t}" if element == "f32" else
           f"%m = tessera.cast %c : {c} to {t}\n%y = tessera.mul %m, %x : {t}, tensor<{columns}xf32> -> {t}")
    return (f'func.func @f(%x: tensor<{columns}xf32> {{tessera.name = "x"}}) -> ({t} {{tessera.name = "y"}}) attributes {{tessera.entry = "infer"}} {{\n'
            f'%c = tessera.constant dense<{data}> : {c}\n{use}\nreturn %y : {t}\n}}\n')


def hex_of(values):
    return '"0x' + array.array("f", values).tobytes().hex().upper() + '"'


def large_constants():
    random.seed(7)
    noise = [random.random() for _ in range(1024 * 512)]
    mask = [1.0] + [0.0] * (2048 * 2048 - 1)
    bits = [random.random() < 0.5 for _ in range(256 * 256)]
    truth = "[" + ", ".join("[" + ", ".join("true" if b else "false" for b in bits[r * 256:(r + 1) * 256]) + "]" for r in range(256)) + "]"
    for name, rows, columns, element, data, values in [
            ("noise", 1024, 512, "f32", hex_of(noise), noise),
            ("mask", 2048, 2048, "f32", hex_of(mask), mask),  # compresses better than a reader accepts
            ("bits", 256, 256, "i1", truth, [float(b) for b in bits])]:
        write(f"{name}.mlir", constant_program(rows, columns, element, data))
        run(AOT, "build", f"{name}.mlir", "-o", f"{name}.tsb", TARGET)
        run(AOT, "verify", "--strict", f"{name}.tsb")
        stored = rows * columns * (4 if element == "f32" else 1)
        size = os.path.getsize(f"{name}.tsb")
        assert stored < size < stored + 200000, f"{name}: {size} bytes for a constant of {stored}"
        is_sum = element == "f32"
        npy("x.npy", [0.0 if is_sum else 1.0] * columns, (columns,))
        run(RUN, f"{name}.tsb", "--entry", "f", "--input", "x=x.npy", "--output", "y=y.npy")
        with open("y.npy", "rb") as file:
            got = array.array("f", file.read()[-4 * rows * columns:])
        assert got == array.array("f", values), f"{name}: other values than the constant's"
        run(AOT, "build", f"{name}.mlir", "-o", "again.tsb", TARGET, "--dump=all", "--dump-dir", f"{name}.levels")
        built = open(f"{name}.tsb", "rb").read()
        assert built == open("again.tsb", "rb").read(), f"{name}: other bytes when built again"
        for level, path in [("graph", "graph.mlir"), ("schedule", "schedule.mlir"), ("tile", "tile.x86-64-v2.mlir"),
                            ("target", "target.x86-64-v2.mlir")]:
            run(AOT, "build", f"{name}.levels/{path}", "-o", "from.tsb", TARGET, "--from", level)
            said = run(AOT, "diff", f"{name}.tsb", "from.tsb", code=21)
            others = [line for line in said.splitlines() if "provenance.json" not in line and "2 differences" not in line]
            assert not others, f"{name}: another bundle from level {level}: {others}"
    # One additional element changes the text and the digest in it.
    noise[77] += 1
    write("noise.mlir", constant_program(1024, 512, "f32", hex_of(noise)))
    run(AOT, "build", "noise.mlir", "-o", "other.tsb", TARGET)
    said = run(AOT, "diff", "noise.tsb", "other.tsb", code=21)
    assert "dense_resource<sha256_" in said, said


def splats_stay():
    write("splat.mlir", constant_program(4096, 4096, "f32", "0.0"))
    run(AOT, "build", "splat.mlir", "-o", "splat.tsb", TARGET)
    assert os.path.getsize("splat.tsb") < 100000, "a splat takes room"


def mark_in_the_program():
    """A name that looks like MLIR's mark for elided elements does not confuse the references."""
    text = constant_program(128, 64, "f32", hex_of([float(i) for i in range(128 * 64)]))
    text = text.replace('tessera.name = "y"', 'tessera.name = "dense_resource<__elided__>"')
    write("mark.mlir", text)
    run(AOT, "build", "mark.mlir", "-o", "mark.tsb", TARGET)
    run(AOT, "verify", "--strict", "mark.tsb")


def user_seconds(source):
    """The time of the compiler and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run(AOT, "build", source, "-o", "time.tsb", TARGET)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def linear_time():
    """Twice as many layers take about twice the time: 4 times would be quadratic. The runs are in turns, since a processor's speed changes."""
    for count in (1000, 2000):
        write(f"time{count}.mlir", layers(count, "train"))
    small, large = (min(times) for times in zip(*[(user_seconds("time1000.mlir"), user_seconds("time2000.mlir")) for _ in range(3)]))
    print(f"1,000 layers: {small:.2f} s, 2,000 layers: {large:.2f} s, ratio {large / small:.2f}")
    assert large / small < 2.6, f"2,000 layers take {large / small:.2f} times as long as 1,000"


def cpu_seconds(*command, code=0):
    """Returns what the command prints, and its CPU seconds with its children's."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    before = used()
    said = run(*command, code=code)
    return said, used() - before


def state_of(said):
    return next(line for line in said.splitlines() if line.startswith("state ")).split()[1]


def whole_life(tensors):
    """{command: CPU seconds}"""
    write("wide.mlir", side_by_side(tensors // 3))
    npy("x.npy", [i / 32 - 0.5 for i in range(32)], (4, 8))
    train = [RUN, "wide.tsb", "--data", "x=x.npy", "--quiet"]
    for name in ("S", "T"):
        subprocess.run(["rm", "-rf", name], check=True)
    commands = {"build": [AOT, "build", "wide.mlir", "-o", "wide.tsb", TARGET], "one step": [*train, "--steps", "1", "--state-dir", "S"],
                "resume": [*train, "--steps", "2", "--state-dir", "S"], "two steps": [*train, "--steps", "2", "--state-dir", "T"], "fsck": [RUN, "fsck", "S"],
                "export": [RUN, "export", "S", "-o", "w.safetensors"], "bake": [AOT, "bake", "wide.tsb", "--state-dir", "S", "-o", "baked.tsb"],
                "verify": [AOT, "verify", "--strict", "baked.tsb"], "inspect": [AOT, "inspect", "baked.tsb"], "diff": [AOT, "diff", "wide.tsb", "baked.tsb"]}
    said, seconds = {}, {}
    for name, command in commands.items():
        said[name], seconds[name] = cpu_seconds(*command, code=21 if name == "diff" else 0)
    assert f" {tensors // 3 * 3} tensors," in said["fsck"], said["fsck"]
    states = {name: state_of(said[name]) for name in ("one step", "resume", "two steps")}
    assert states["resume"] == states["two steps"] != states["one step"], states
    return seconds


def large(tensors):
    counts = [tensors // 8, tensors // 4, tensors // 2, tensors]
    found = {}
    for count in counts:
        found[count] = whole_life(count)
        print(f"{count} tensors, CPU seconds: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in found[count].items()), flush=True)
    for few, many in zip(counts, counts[1:]):
        for name, seconds in found[many].items():
            assert seconds < 2.6 * found[few][name] + 0.1, f"{name}: {seconds:.2f} s for {many} tensors, {found[few][name]:.2f} s for {few}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if sys.argv[3:4] == ["--large"]:
            large(int(sys.argv[4]) if len(sys.argv) > 4 else 100200)
            return
        for check in (large_constants, splats_stay, mark_in_the_program, many_tensors, linear_time):
            check()
            print(f"{check.__name__}: good")


main()
