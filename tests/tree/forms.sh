#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# C code that has one spelling in this tree: assertions that change nothing, TSR_COUNT, tsr_grow, PRIu64. forms.py lists the rules.
. "$(dirname "$0")/common.sh"

tree_files | "$PYTHON" "$here/forms.py" | report
