#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# No test runs whatever `python3` stands first in the PATH: tests/python decides which interpreter it
# is (meson: test_python; scripts: "$PYTHON"; lit: %python; Python: sys.executable). A script that is
# started by itself begins with #!/usr/bin/python3. Only programs that tests/gpu packs for another
# machine use that machine's.
. "$(dirname "$0")/common.sh"

tree_files | grep -E '^tests/' | grep -vE '\.md$|^tests/python$|^tests/tree/(python|selftest)\.sh$' |
    tr '\n' '\0' | xargs -0r grep -nIE 'python3([^-]|$)|find_installation|/env python' |
    grep -vE '^[^:]+:1:#!/usr/bin/python3$|^tests/gpu/(examples|kernels|native|run|sanitize|singles):1:#!/usr/bin/env python3$' |
    while IFS= read -r line; do
        printf '%s\n' "$line: the interpreter is not that of tests/python"
    done | report
