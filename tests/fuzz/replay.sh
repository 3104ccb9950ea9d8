#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# replay.sh ROOT FOLDER TARGET...: every input of tests/fuzz/corpus, once under MSan and once for each
# failing read and allocation under ASan and UBSan. FOLDER is where build.sh puts programs.
set -eu
root=$1 folder=$2
shift 2
for mode in faults memory; do "$root/tests/fuzz/build.sh" "$root" "$folder" $mode || exit $?; done
for target in "$@"; do
    corpus=$root/tests/fuzz/corpus/$target
    "$folder/faults/$target" --faults "$corpus"
    [ "$target" != signature ] || continue # almost all of it is OpenSSL
    "$folder/memory/$target" -runs=0 "$corpus" 2>&1 | grep '^fuzz: '
done
