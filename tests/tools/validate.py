# SPDX-License-Identifier: Apache-2.0
"""Schemas, and documents that break them. A script that imports this ends with 77 without jsonschema."""
import copy
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)


def validator(root, name):
    """Returns the validator of schemas/NAME.schema.json in `root`."""
    schema = json.loads((pathlib.Path(root) / "schemas" / f"{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def members(value, path=()):
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(
            value, list) else ():
        yield path + (key,)
        yield from members(item, path + (key,))


def changed(document, path, change):
    document = copy.deepcopy(document)
    at = document
    for key in path[:-1]:
        at = at[key]
    change(at, path[-1])
    return document


def refuses_changes(check, document, may_miss, free=("versions", "hyperparameters")):
    """No member may be missing, renamed or of another type; members of objects in `free` have arbitrary names."""
    count = 0
    for path in members(document):
        if not isinstance(path[-1], str) or set(free) & set(path[:-1]):
            continue
        wrong = [changed(document, path, lambda at, key: at.update({key + "x": at.pop(key)})),
                 changed(document, path, lambda at, key: at.update({key: [[1.5]]}))]
        if path[-1] not in may_miss:
            wrong.append(changed(document, path, lambda at, key: at.pop(key)))
        for other in wrong:
            assert not check.is_valid(other), path
            count += 1
    return count
