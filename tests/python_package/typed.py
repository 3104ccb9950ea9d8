#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The package under mypy --strict; its modules are those that the wheel installs. Skipped (77) after the second check without mypy.

usage: typed.py
"""
import re
import sys

import common

PACKAGE = common.ROOT / 'python/tessera'
installed = set(re.findall(r"'tessera/([\w.]+)'", (PACKAGE.parent / 'meson.build').read_text('utf-8')))
present = {path.name for path in PACKAGE.iterdir() if path.is_file() and path.suffix != '.so'}
if installed != present:
    sys.exit(f'python/meson.build and python/tessera differ: {installed ^ present}')
# Every function and class that users see has a docstring.
import tessera  # noqa: E402

for name in tessera.__all__:
    value = getattr(tessera, name)
    if not value.__doc__:
        sys.exit(f'tessera.{name} has no docstring')
    for part, method in vars(value).items() if isinstance(value, type) else ():
        if callable(method) and not part.startswith('_') and not getattr(method, '__doc__', None) and name not in ('Trainer', 'Model', 'Array'):
            sys.exit(f'tessera.{name}.{part} has no docstring')
try:
    import mypy.api
except ImportError:
    print('mypy is not installed')
    sys.exit(common.SKIPPED)
text, error, status = mypy.api.run(['--strict', '--cache-dir=/dev/null', '--config-file=', str(PACKAGE)])
print(text, error)
sys.exit(status)
