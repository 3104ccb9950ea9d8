#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/gpt2, small, on a CPU, against PyTorch: bench/gpt2.py says how. Its losses are kept, and it can measure.

usage: gpt2_reference.py TESSERA_AOT TESSERA_RUN ROOT. Exits with 77 without PyTorch.
"""
import pathlib
import subprocess
import sys
import tempfile

SIZES = ["--batch", "4", "--places", "32", "--width", "64", "--heads", "4", "--vocabulary", "1024", "--window", "16"]
STEPS = 12
LIMIT = "120"  # seconds of saves: a disk that others use is slow


def main():
    aot, run, root = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    example = root / "examples/gpt2"
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
        return max(subprocess.run([*bench, "--times", "--rounds", "1", "--limit", LIMIT, "--only", what], check=False).returncode for what in ("save", "forward"))


if __name__ == "__main__":
    sys.exit(main())
