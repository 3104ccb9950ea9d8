#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The mutation gate: each planted bug of runtime/commit/mutants.def must be found by a test.

usage: gate.py --mutants MUTANTS_DEF --page PAGE [--write] [--only NAME] [--limit SECONDS]
               LAYER=PROGRAM[,ARGUMENT...]...

The layers are programs linked with the sources that contain the switches, cheapest first; a layer finds a bug by exiting with a status
other than 0.

Without --write each mutant runs in the layer that the page names. It is a failure if a mutant survives, or if the page does not list
exactly the mutants with their texts. With --write the page is generated: first every layer must pass without a mutant, then each mutant
runs in one layer after another, for at most --limit seconds each, until one finds it.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import time

UNKNOWN_NAME = 99
THREADS = 2
ROW = re.compile(r'^X\((\w+), "([^"]+)",\s*"([^"]+)"\)', re.MULTILINE)
PAGE_ROW = re.compile(r'^\| `([^`]+)` \| (.*?) \| (\S+) \| ([0-9.]+) \| (.*) \|$', re.MULTILINE)

HEAD = """# Mutation gate

Each row is a bug that is planted alone in the sources of the commit protocol (`runtime/commit/mutants.def`), with the first layer of the tests that finds
it, and the seconds that this took (on one CPU of the machine that wrote this page). The layers, cheapest first:
{layers}.
`tests/store/gate/gate.py --write` writes this page; test `store/gate` fails if a mutant survives or this page is not current.

| mutant | planted bug | found by | seconds | message |
|---|---|---|---|---|
"""


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutants", required=True)
    parser.add_argument("--page", required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("layers", nargs="+")
    return parser.parse_args()


def first_words(output):
    """The first violation that a test printed, short and without parts that differ between runs."""
    for pattern in (r"VIOLATION: (.*)", r"a start cannot be made: (.*)", r"Assertion Failed\n\S*\s*\n?(.*)", r"\[FAIL\] (\S+)",
                    r"\[CRASH\]? ?(\S+)", r"(?i)(assert.*)"):
        match = re.search(pattern, output)
        if match:
            text = re.sub(r"\x1b\[[0-9;]*m|\[----\]", "", match.group(1))
            text = re.sub(r"0x[0-9a-f]{6,}|[0-9a-f]{16,}|\d{4,}", "…", text)
            return text.replace("|", "/").strip(" :")[:110]
    return ""


def run(layer, mutant, limit):
    """Returns (found, seconds, words); found is None if the layer did not end in time."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CRITERION")}
    environment["TESSERA_MUTANT"] = mutant
    start = time.monotonic()
    try:
        done = subprocess.run(layer, env=environment, timeout=limit, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired:
        return None, limit, "did not end"
    seconds = time.monotonic() - start
    if done.returncode == UNKNOWN_NAME:
        sys.exit(f"{layer[0]} does not know the mutant '{mutant}'")
    output = done.stdout.decode(errors="replace")
    return done.returncode != 0, seconds, first_words(output) if done.returncode else ""


def hunt(layers, mutant, limit):
    for name, layer in layers.items():
        found, seconds, words = run(layer, mutant, limit)
        if found:
            return name, seconds, words
    return None


def write_page(arguments, mutants, layers):
    for name, layer in layers.items():
        found, seconds, words = run(layer, "", 10 * arguments.limit)
        print(f"{name}: {seconds:.1f} s without a mutant", flush=True)
        if found is not False:
            sys.exit(f"layer '{name}' fails without a mutant: {words}")
    rows, alive = [], []
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        results = pool.map(lambda m: hunt(layers, m[0], arguments.limit), mutants)
        for (name, bug), result in zip(mutants, results):
            print(f"{name}: {result or 'LIVES'}", flush=True)
            if result:
                rows.append(f"| `{name}` | {bug} | {result[0]} | {result[1]:.1f} | {result[2]} |\n")
            else:
                alive.append(name)
    if arguments.only is None:
        with open(arguments.page, "w", encoding="utf-8") as page:
            page.write(HEAD.format(layers=", ".join(layers)) + "".join(rows))
    print(f"{len(rows)} of {len(mutants)} mutants were found; alive: {', '.join(alive) or 'none'}")
    return 1 if alive else 0


def check_page(arguments, mutants, layers):
    with open(arguments.page, encoding="utf-8") as page:
        listed = {row[0]: row for row in PAGE_ROW.findall(page.read())}
    wrong = [f"{name}: the page has not its row" for name, bug in mutants
             if name not in listed or listed[name][1] != bug or listed[name][2] not in layers]
    wrong += [f"{name}: is on the page alone" for name in listed
              if arguments.only is None and name not in dict(mutants)]
    if wrong:
        print("\n".join(wrong) + "\nrun gate.py --write (see tests/store/gate/README.md)")
        return 1
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(
            lambda m: run(layers[listed[m[0]][2]], m[0], arguments.limit), mutants))
    alive = []
    for (name, _), (found, seconds, words) in zip(mutants, results):
        print(f"{name}: {listed[name][2]}, {seconds:.1f} s: {words}" if found else f"{name}: LIVES")
        if not found:
            alive.append(name)
    print(f"{len(mutants) - len(alive)} of {len(mutants)} mutants were found")
    return 1 if alive else 0


def main():
    arguments = parse_arguments()
    with open(arguments.mutants, encoding="utf-8") as source:
        mutants = [(name, bug) for _, name, bug in ROW.findall(source.read())]
    if arguments.only:
        mutants = [m for m in mutants if m[0] == arguments.only]
    if not mutants:
        sys.exit("no such mutant")
    layers = {}
    for layer in arguments.layers:
        name, _, command = layer.partition("=")
        layers[name] = command.split(",")
    if arguments.write:
        return write_page(arguments, mutants, layers)
    return check_page(arguments, mutants, layers)


if __name__ == "__main__":
    sys.exit(main())
