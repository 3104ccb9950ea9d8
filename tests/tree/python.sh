#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# No test, measurement or tool runs whatever `python3` stands first in the PATH: tests/python decides
# which interpreter it is (meson: test_python; scripts: "$PYTHON"; lit: %python; Python:
# sys.executable). A script that is started by itself begins with #!/usr/bin/python3. Only programs
# that tests/gpu and bench/gpu pack for another machine use that machine's, and tools/test makes the
# folder of references with Debian's.
. "$(dirname "$0")/common.sh"

tree_files | grep -E '^(bench|tests|tools)/' |
    grep -vE '\.(md|jsonl)$|^tools/packages\.txt$|^tests/python$|^tests/tree/(python|selftest)\.sh$' |
    tr '\n' '\0' | xargs -0r grep -nIE 'python3([^-]|$)|find_installation|/env python' |
    grep -vE '^[^:]+:1:#!/usr/bin/python3$|^tests/gpu/(examples|kernels|native|run|sanitize|singles):1:#!/usr/bin/env python3$|^bench/gpu/(attention|attention_grad|chains|counters|fit|model|optimizer|products|rows|scaling|sums):1:#!/usr/bin/env python3$|^tests/registry/docs\.sh:[0-9]+:.*bin/python3$|^tools/test:[0-9]+: +/usr/bin/python3 -m venv ' |
    while IFS= read -r line; do
        printf '%s\n' "$line: the interpreter is not that of tests/python"
    done | report
