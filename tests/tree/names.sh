#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Words that were replaced by standard terms do not come back in identifiers: names.py counts them, names.txt has the ceilings.
# `names.sh ROOT --write` lowers the ceilings to today's numbers.
. "$(dirname "$0")/common.sh"

table=$here/names.txt
if [ -f tests/tree/names.txt ]; then table=tests/tree/names.txt; fi
tree_files | "$PYTHON" "$here/names.py" "$table" "${2:-}" | report
