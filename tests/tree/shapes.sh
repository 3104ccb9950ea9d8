#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# No shape of a benchmark's tables stands in the sources of compiler, loader, runtime: shapes.py says what that is.
. "$(dirname "$0")/common.sh"

command -v python3 >/dev/null || { echo 'python3 is absent' && exit 77; }
tree_files | python3 "$here/shapes.py" | report
