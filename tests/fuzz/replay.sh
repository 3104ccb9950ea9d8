#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# replay.sh ROOT FOLDER TARGET...: runs every input of tests/fuzz/corpus, once under MSan and once
# for each failing read and allocation under ASan and UBSan. FOLDER is the folder of build.sh's
# programs.
set -eu
root=$1 folder=$2
shift 2
for mode in faults memory; do "$root/tests/fuzz/build.sh" "$root" "$folder" $mode || exit $?; done
for target in "$@"; do
    corpus=$root/tests/fuzz/corpus/$target
    "$folder/faults/$target" --faults "$corpus"
    [ "$target" != signature ] || continue # almost all time is spent in OpenSSL
    "$folder/memory/$target" -runs=0 "$corpus" 2>&1 | grep '^fuzz: '
done
