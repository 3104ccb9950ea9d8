#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Validates real configs and deployment manifests against schemas/, with the jsonschema package.

Argument: the path of manifest_dump. Exits with 77 when jsonschema is absent.
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from validate import changed, validator


def members_of(value, path=()):
    """Yields (path, value) for every value inside a JSON value."""
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(
        value, list) else ()
    for key, item in items:
        yield from members_of(item, path + (key,))


def may_lack(document, path):
    """True for a flag that only some outputs have, and for a part of a deployment manifest beyond version 1.0. A
    file that a program requests has only some of the parts."""
    if path[-1] == "watched":
        return True
    if len(path) == 2 and path[0] == "hyperparameters":
        return True
    parts = ("mesh", "parameters", "optimizer", "constants", "collectives", "checkpoint", "pipeline")
    return len(path) == 1 and path[0] in parts and document["formatVersion"] != "1.0"


def main():
    names = ["config", "deployment"]
    checkers = [validator(ROOT, name) for name in names]
    lines = subprocess.run([sys.argv[1]], stdout=subprocess.PIPE, check=True).stdout.splitlines()
    if len(lines) < 100:
        sys.exit(f"expected at least 100 documents, got {len(lines)}")
    refused = 0
    for number, line in enumerate(lines):
        document, checker, name = json.loads(line), checkers[number % 2], names[number % 2]
        for error in checker.iter_errors(document):
            sys.exit(f"{name} {number // 2}: {error.message} at {list(error.path)}")
        if number > 16:
            continue
        for path, value in members_of(document):
            if not path:
                continue
            # Every member is required, no other is allowed, and every value has its type.
            wrong = [changed(document, path, lambda at, key: at.__setitem__(key, 1.5))]
            if isinstance(path[-1], str) and not may_lack(document, path):
                wrong.append(changed(document, path, lambda at, key: at.__delitem__(key)))
            if isinstance(value, dict):
                wrong.append(changed(document, path + ("news",),
                                     lambda at, key: at.__setitem__(key, 1)))
            for other in wrong:
                if checker.is_valid(other):
                    sys.exit(f"{name} {number // 2}: expected a change at {list(path)} refused")
                refused += 1
    print(f"{len(lines)} documents valid, {refused} changed ones refused")


main()
