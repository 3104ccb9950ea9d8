#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: untouched.py TESSERA_OPT TESTS_COMPILER EXAMPLES

Programs that use no scaling or resilience pass through every such pass without a change of a single byte, both as written and
after conversion to straight-line code; -tessera-sr-pipeline changes them only by its canonicalize and cse.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

opt, tests, examples = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
SHARD = r"opt\.shard|optimizer\.shard|optimizer_shard|tessera_sr\.shard"
AGAIN = r"schedule\.checkpoint|tessera_sr\.(checkpoint|segment|hint|budget|backward|recompute)|recompute_hint"
REGION = r"resilience|tessera\.target\.(export|import)|tessera_sr\.(export|import|enter|leave|on_)"
# What each pass looks for.
PASSES = {
    "tessera-optimizer-shard": SHARD,
    "tessera-insert-recompute": AGAIN,
    "tessera-resilience-restart": REGION,
    "tessera-export-deployment-manifest": rf"{SHARD}|{AGAIN}|tessera\.mesh|export_manifest|tsched\.pipeline|tessera_sr\.(all_|reduce_)",
}
PASSES["tessera-sr-pipeline"] = "|".join(PASSES.values())
STRAIGHT = ("tessera-name-calls", "inline", "tessera-streams", "tessera-drop-other-functions", "tessera-infer-shapes", "tessera-count-samples", "tessera-flatten",
            "canonicalize", "cse", "tessera-autodiff")
MARK = "// -----"


def pieces():
    """Programs of the lit tests, where a test expects no errors; and the examples."""
    for path in sorted(tests.rglob("*.mlir")):
        text = path.read_text(encoding="utf-8")
        if path.parent.name != "rejected" and not re.search(r"RUN: .*not tessera|--verify-diagnostics|\bgrep\b", text):
            yield from (part for part in re.split(r"(?m)^// -----.*$", text) if "func.func" in part)
    for path in sorted(examples.glob("*/*.mlir")):
        yield path.read_text(encoding="utf-8")


def passed(text, *passes):
    with tempfile.NamedTemporaryFile("w", suffix=".mlir", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([opt, "--split-input-file", *("-" + name for name in passes), file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{passes}: {done.stderr[:2000]}")
    return done.stdout


def check(kind, programs):
    failed = False
    for name, words in PASSES.items():
        chosen = [text for text in programs if not re.search(words, text)]
        before = passed(f"\n{MARK}\n".join(chosen), *(("canonicalize", "cse") if name == "tessera-sr-pipeline" else ()))
        after = passed(before, name)
        print(f"{kind}: -{name} virtual ranks {len(chosen)} programs, {len(before)} bytes: {'untouched' if after == before else 'CHANGED'}")
        failed |= after != before or len(chosen) < 5
    return failed


def main():
    every = list(pieces())
    texts = [path.read_text(encoding="utf-8") for path in sorted(examples.glob("*/*.mlir"))]
    straight = [passed(text, *STRAIGHT) for text in texts if "tsched." not in text]  # plans are applied before functions are inlined
    return check("as written", every) | check("straight-line", straight)


sys.exit(1 if main() else 0)
