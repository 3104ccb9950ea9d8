#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Idioms that make readers stop do not become more frequent in comments: idioms.py counts them, idioms.txt has the ceilings.
# `idioms.sh ROOT --write` lowers the ceilings to today's rates, `idioms.sh ROOT --rates` prints them.
. "$(dirname "$0")/common.sh"

ratchet=$here/idioms.txt
option=${2:-}
if [ -f tests/tree/idioms.txt ]; then ratchet=tests/tree/idioms.txt; else option=--any-size; fi
tree_files | "$PYTHON" "$here/idioms.py" "$ratchet" ${option:+"$option"} | report
