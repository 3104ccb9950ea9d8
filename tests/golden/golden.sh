#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Frozen bundles are read, verified and run as on the day they were made.
# usage: golden.sh TESSERA_RUN TESSERA_AOT DIGITS_BUNDLE SOURCE_ROOT
. "$(dirname "$0")/../tools/common.sh"

bundle=$ROOT/tests/golden/digits-1.0.tsb
[ "$(sha256sum <"$bundle")" = "a1503bd36c2601dcf4b1a842977333facc654ecb9adbb6384b7854d9960f4bb3  -" ] || fail "the frozen bundle was changed"
expect "strict" 0 'good' "$AOT" verify --strict "$bundle"
expect "inspect" 0 'format 1\.0' "$AOT" inspect "$bundle"
expect "provenance" 0 '"name":"digits.mlir","digest":\{"sha256":"a56359b1d2f5d84707359cfc0f02f63351d1047aed4f4a6fee5599aa0accd8f4"\}' \
    "$AOT" provenance "$bundle"
check "repack" "$AOT" repack "$bundle" -o again.tsb
cmp -s "$bundle" again.tsb || fail "repack gives other bytes"
mkdir folder && tar xf "$bundle" -C folder
expect "unpacked" 0 'good' "$AOT" verify folder

# One step from seed 0; the bits depend on the level, as v2 has no fused multiply-add.
one_step() { # LEVEL STATE
    expect "one step, $1" 0 "^state $2 step 1$" "$RUN" "$bundle" "${DATA[@]}" --steps 1 --quiet --cpu "$1"
}
one_step x86-64-v2 36746f15eb036eca6c4a5b74ce84fb3fb5df622fae8033f794601660d07123ef
if grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo; then
    one_step x86-64-v3 aad6c3f9960d835019515d4a10d462218b9343a3c63f3914a559e00686e0b06e
fi
expect "a whole epoch" 0 '^state' "$RUN" "$bundle" "${DATA[@]}" --steps 60 --quiet --state-dir S
check "predicts from it" "$RUN" "$bundle" --entry predict --state-dir S --input "x=$DIGITS/test-images.npy" --output y=y.npy
finish
