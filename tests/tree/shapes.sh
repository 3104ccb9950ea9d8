#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# No shape of a benchmark's tables stands in the sources of compiler, loader, runtime: shapes.py says what that is.
. "$(dirname "$0")/common.sh"

tree_files | "$PYTHON" "$here/shapes.py" | report
