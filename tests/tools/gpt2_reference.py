#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares examples/gpt2, small, on a CPU with PyTorch, see bench/gpt2.py. Losses are recorded, time can be measured, and a loss that is too far away
is reported.

usage: gpt2_reference.py TESSERA_AOT TESSERA_RUN ROOT. Exits with 77 without PyTorch.
"""
import pathlib
import subprocess
import sys
import tempfile
import types

SIZES = ["--batch", "4", "--positions", "32", "--width", "64", "--heads", "4", "--vocabulary", "1024", "--window", "16"]
STEPS = 12
LIMIT = "120"  # seconds of saves: a disk that is shared with other users is slow


def check_bounds(root):
    """A loss 0.6 % away from PyTorch's passes if PyTorch's own runs differ by that much, except with --strict; a loss 2 % away or NaN does not."""
    sys.path.insert(0, str(root / "bench"))
    import gpt2
    theirs = {"bf16": [7.0, 6.0], "f32": [7.0, 6.03], "turned": [7.0, 6.0]}
    gpt2.Trainer = lambda s, weights, text, kind: types.SimpleNamespace(steps=lambda count: theirs[kind])
    for last, strict, wrong in ((6.02, True, 0), (6.036, False, 0), (6.036, True, 1), (6.12, False, 1), (float("nan"), False, 1), (float("nan"), True, 1)):
        gpt2.train = lambda s, folder, steps: {"step": [{"outputs": {"loss": value}} for value in (7.0, last)]}
        told, _ = gpt2.check_curve(types.SimpleNamespace(steps=2, curve=None, strict=strict), "", {}, None)
        if len(told) != wrong:
            sys.exit(f"a last loss of {last}, {'strict' if strict else 'not strict'}: told is {told}; expected {wrong} lines")


def main():
    aot, run, root = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    example = root / "examples/gpt2"
    try:
        check_bounds(root)
    except ImportError:
        return 77
    with tempfile.TemporaryDirectory() as folder:
        source, bundle = pathlib.Path(folder, "gpt2.mlir"), pathlib.Path(folder, "gpt2.tsb")
        source.write_bytes(subprocess.run([sys.executable, example / "sizes.py", *SIZES], capture_output=True, check=True).stdout)
        subprocess.run([aot, "build", source, "-o", bundle, "--target", "cpu:x86-64-v3"], check=True)
        bench, curve = [sys.executable, root / "bench/gpt2.py", run, bundle, example, *SIZES], pathlib.Path(folder, "curve.csv")
        code = subprocess.run([*bench, "--steps", str(STEPS), "--curve", curve], check=False).returncode
        if code:
            return code
        lines = curve.read_text("utf-8").splitlines()
        if len(lines) != STEPS + 1 or lines[0] != "step,ours,bf16,f32,turned":
            sys.exit(f"{len(lines)} lines of losses, the first is '{lines[0]}'; expected {STEPS + 1}")
        return max(subprocess.run([*bench, "--times", "--rounds", "1", "--limit", LIMIT, "--only", what], check=False).returncode for what in ("save", "forward", "first"))


if __name__ == "__main__":
    sys.exit(main())
