# SPDX-License-Identifier: Apache-2.0
"""Validates JSON files against a schema, and requires that the schema refuses similar invalid files.

usage: summary.py SCHEMA FILE…; exits with 77 without jsonschema.
"""
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    print("jsonschema is not installed")
    sys.exit(77)

schema = json.loads(pathlib.Path(sys.argv[1]).read_text("utf-8"))
jsonschema.Draft202012Validator.check_schema(schema)
checker = jsonschema.Draft202012Validator(schema)
refused = 0
for name in sys.argv[2:]:
    document = json.loads(pathlib.Path(name).read_text("utf-8"))
    for error in checker.iter_errors(document):
        sys.exit(f"{name}: {error.message[:300]} at {list(error.path)}")
    for key in document:
        rest = {k: v for k, v in document.items() if k != key}
        for wrong in (rest, rest | {key + "x": document[key]}, rest | {key: [1.5]}, rest | {key: -1}, rest | {key: ""}):
            if checker.is_valid(wrong):
                sys.exit(f"{name}: the schema takes {key} = {wrong.get(key)!r}")
            refused += 1
print(len(sys.argv) - 2, "summaries are valid;", refused, "changed ones are not")
