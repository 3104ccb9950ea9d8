#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# product.sh PRODUCT MUTATED MUTANTS_DEF: the library PRODUCT contains no symbol and no name of a
# mutant; MUTATED, built from the same sources, contains the symbol.
set -eu
product=$1 mutated=$2 mutants=$3
if ! nm "$mutated" | grep -q tsr_mutant_active; then
    echo "$mutated has no switches: nothing would be found"
    exit 1
fi
if nm "$product" | grep -i mutant || strings "$product" | grep -i mutant; then
    echo "$product holds switches"
    exit 1
fi
sed -n 's/^X([A-Z_]*, "\([^"]*\)".*/\1/p' "$mutants" >"${TMPDIR:-/tmp}/names.$$"
trap 'rm -f "${TMPDIR:-/tmp}/names.$$"' EXIT
[ -s "${TMPDIR:-/tmp}/names.$$" ] || { echo "$mutants names no mutant"; exit 1; }
if strings "$product" | grep -Fx -f "${TMPDIR:-/tmp}/names.$$"; then
    echo "$product holds the names above"
    exit 1
fi
echo "$(wc -l <"${TMPDIR:-/tmp}/names.$$") mutants, none in $(basename "$product")"
