#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the peak that `tessera-aot inspect` plans with the peak that `tessera-run --measure-memory` measures.

They are equal, the end of the last buffer of an entry, if all of its commands run. The peak in use is a lower bound of the written bytes, since
buffers that are not live at the same time need not overlap. A branch that is not taken writes nothing: then the plan is an upper bound.

Arguments: tessera-run, tessera-aot, the source root. Exits with 77 without NumPy.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy
except ImportError:
    sys.exit(77)

RUN, AOT, ROOT = [str(pathlib.Path(a).resolve()) for a in sys.argv[1:4]]
DIGITS, GPT = ROOT + "/examples/digits", ROOT + "/examples/gpt-char"
LOOP = '''func.func @f(%s: tensor<50xf32> {tessera.name = "s"}, %x: tensor<60x50xf32> {tessera.name = "x"})
    -> (tensor<50xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %w = tessera.exp %s : tensor<50xf32>
  %0:2 = tessera.scan %s, %x {
  ^bb0(%carry: tensor<50xf32>, %row: tensor<50xf32>):
    %1 = tessera.mul %carry, %row : tensor<50xf32>, tensor<50xf32> -> tensor<50xf32>
    %2 = tessera.cumsum %1 {axis = 0 : i64} : tensor<50xf32>
    %3 = tessera.add %2, %w : tensor<50xf32>, tensor<50xf32> -> tensor<50xf32>
    tessera.yield %3, %1 : tensor<50xf32>, tensor<50xf32>
  } {carried = 1 : i64} : tensor<50xf32>, tensor<60x50xf32> -> tensor<50xf32>, tensor<60x50xf32>
  %4 = tessera.sum %0#1 {axes = [0]} : tensor<60x50xf32> -> tensor<50xf32>
  %5 = tessera.add %0#0, %4 : tensor<50xf32>, tensor<50xf32> -> tensor<50xf32>
  return %5 : tensor<50xf32>
}
'''
BLOCK = '''func.func @f(%x: tensor<2x37x48xf32> {tessera.name = "x"}) -> (tensor<2x37x48xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %n = tessera.param "n" init = #tessera.constant<1.0> : tensor<48xf32>
  %b = tessera.param "b" init = #tessera.constant<0.0> : tensor<48xf32>
  %wq = tessera.param "wq" init = #tessera.uniform<-0.1, 0.1> : tensor<48x48xf32>
  %wk = tessera.param "wk" init = #tessera.uniform<-0.1, 0.1> : tensor<48x48xf32>
  %wu = tessera.param "wu" init = #tessera.uniform<-0.1, 0.1> : tensor<48x192xf32>
  %wd = tessera.param "wd" init = #tessera.uniform<-0.1, 0.1> : tensor<192x48xf32>
  %h = tessera.layernorm_safe %x, %n, %b {axes = [2], eps = 1.0e-5} : tensor<2x37x48xf32>, tensor<48xf32>, tensor<48xf32> -> tensor<2x37x48xf32>
  %q0 = tessera.matmul %h, %wq : tensor<2x37x48xf32>, tensor<48x48xf32> -> tensor<2x37x48xf32>
  %k0 = tessera.matmul %h, %wk : tensor<2x37x48xf32>, tensor<48x48xf32> -> tensor<2x37x48xf32>
  %q1 = tessera.reshape %q0 : tensor<2x37x48xf32> -> tensor<2x37x3x16xf32>
  %k1 = tessera.reshape %k0 : tensor<2x37x48xf32> -> tensor<2x37x3x16xf32>
  %q = tessera.transpose %q1 {permutation = [0, 2, 1, 3]} : tensor<2x37x3x16xf32> -> tensor<2x3x37x16xf32>
  %k = tessera.transpose %k1 {permutation = [0, 2, 1, 3]} : tensor<2x37x3x16xf32> -> tensor<2x3x37x16xf32>
  %a = tessera.attention %q, %k, %k {causal} : tensor<2x3x37x16xf32>, tensor<2x3x37x16xf32>, tensor<2x3x37x16xf32> -> tensor<2x3x37x16xf32>
  %a1 = tessera.transpose %a {permutation = [0, 2, 1, 3]} : tensor<2x3x37x16xf32> -> tensor<2x37x3x16xf32>
  %a2 = tessera.reshape %a1 : tensor<2x37x3x16xf32> -> tensor<2x37x48xf32>
  %r = tessera.add %x, %a2 : tensor<2x37x48xf32>, tensor<2x37x48xf32> -> tensor<2x37x48xf32>
  %h2 = tessera.layernorm_safe %r, %n, %b {axes = [2], eps = 1.0e-5} : tensor<2x37x48xf32>, tensor<48xf32>, tensor<48xf32> -> tensor<2x37x48xf32>
  %u = tessera.matmul %h2, %wu : tensor<2x37x48xf32>, tensor<48x192xf32> -> tensor<2x37x192xf32>
  %g = tessera.gelu %u : tensor<2x37x192xf32>
  %d = tessera.matmul %g, %wd : tensor<2x37x192xf32>, tensor<192x48xf32> -> tensor<2x37x48xf32>
  %y = tessera.add %r, %d : tensor<2x37x48xf32>, tensor<2x37x48xf32> -> tensor<2x37x48xf32>
  return %y : tensor<2x37x48xf32>
}
'''


# Only the other branch needs workspace.
BRANCH = '''func.func @f(%c: tensor<i1> {tessera.name = "c"}, %x: tensor<50xf32> {tessera.name = "x"})
    -> (tensor<50xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.if %c {
    %a:2 = tessera.sort %x {axis = 0 : i64} : tensor<50xf32> -> tensor<50xf32>, tensor<50xi64>
    %b = tessera.cumsum %a#0 {axis = 0 : i64} : tensor<50xf32>
    %d = tessera.cumsum %b {axis = 0 : i64} : tensor<50xf32>
    tessera.yield %d : tensor<50xf32>
  } else {
    %e = tessera.neg %x : tensor<50xf32>
    tessera.yield %e : tensor<50xf32>
  } : tensor<i1> -> tensor<50xf32>
  return %0 : tensor<50xf32>
}
'''
NUMBERS = re.compile(r"^workspace: (\d+) bytes planned, (\d+) reached, (\d+) written$", re.M)


def call(*arguments):
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0, (arguments, done.returncode, done.stderr)
    return done.stdout.decode(), done.stderr.decode()


def build(folder, source):
    """Builds a bundle for every CPU; returns the output of `inspect` for its entries, as (workspace, peak in use)."""
    bundle = str(folder / "one.tsb")
    call(AOT, "build", source, "-o", bundle, "--target=cpu:x86-64-v2")
    (target,) = json.loads(call(AOT, "inspect", "--json", bundle)[0])["targets"]
    plans = {name: (int(workspace), int(peak)) for name, workspace, peak in re.findall(
        r"^  @(\w+)  .*; memory: .*workspace (\d+) \(peak in use (\d+)\)", call(AOT, "inspect", bundle)[0], re.M)}
    assert plans and target["name"] == "cpu:x86-64-v2", (plans, target)
    return bundle, plans


def measure(folder, bundle, *arguments):
    """Returns (planned, reached, written) from the printed line, which must match the metrics."""
    log = folder / "log"
    log.unlink(missing_ok=True)
    _, said = call(RUN, bundle, "--measure-memory", "--metrics", str(log), *arguments)
    (line,) = NUMBERS.findall(said)
    numbers = tuple(map(int, line))
    (event,) = [e for e in map(json.loads, log.read_text("utf-8").splitlines()) if e["event"] == "workspace"]
    assert numbers == tuple(event[f"{key}_bytes"] for key in ("planned", "reached", "written")), (said, event)
    return numbers


def jobs(folder):
    """(name, source, [(entry, arguments)])"""
    def data(part, prefix):
        return [f"--data={prefix}{key}={DIGITS}/{part}-{key}.npy" for key in ("images", "labels")]
    for name, text in (("loop", LOOP), ("block", BLOCK), ("branch", BRANCH)):
        (folder / f"{name}.mlir").write_text(text, encoding="utf-8")
    random = numpy.random.default_rng(1)
    arrays = {"s": numpy.ones(50), "x": random.random((60, 50)) / 100, "z": random.random((2, 37, 48)), "r": random.random(50)}
    for name, values in arrays.items():
        numpy.save(folder / f"{name}.npy", values.astype(numpy.float32))
    numpy.save(folder / "no.npy", numpy.bool_(False))
    one = ["--entry", "f", f"--output=y={folder}/y.npy"]
    return [
        ("convnet", ROOT + "/examples/convnet/convnet.mlir", [
            ("train", ["--steps", "1", *data("train", "")]), ("evaluate", ["--entry", "evaluate", *data("test", "test_")])]),
        ("gpt-char", GPT + "/gpt-char.mlir", [
            ("train", ["--steps", "1", f"--data=text={GPT}/train.txt"]),
            ("write", ["--entry", "write", f"--input=text={GPT}/prompt.txt", f"--output=letter={folder}/l.txt"])]),
        ("loop", str(folder / "loop.mlir"), [("f", [*one, f"--input=s={folder}/s.npy", f"--input=x={folder}/x.npy"])]),
        ("block", str(folder / "block.mlir"), [("f", [*one, f"--input=x={folder}/z.npy"])]),
        ("branch", str(folder / "branch.mlir"), [("f", [*one, f"--input=c={folder}/no.npy", f"--input=x={folder}/r.npy"])]),
    ]


def main():
    count = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for program, source, entries in jobs(folder):
            bundle, plans = build(folder, source)
            for entry, arguments in entries:
                workspace, peak = plans[entry]
                planned, reached, written = measure(folder, bundle, *arguments)
                what = f"{program} @{entry}: inspect says workspace {workspace}, peak {peak}; planned {planned}, reached {reached}, written {written}"
                print(what)
                assert planned == max(w for w, _ in plans.values()), what
                if program == "branch":
                    assert 0 <= written <= reached < workspace, what
                else:
                    assert reached == workspace and 0 < peak <= written <= reached, what
                count += 1
    print(count, "entries measured")


main()
