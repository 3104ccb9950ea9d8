#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files that are not valid bundles, through the tools. (Every bit of a small bundle: tests/bundle.)
. "$(dirname "$0")/common.sh"

both() { # WHAT CODE REGEX FILE
    expect "run: $1" "$2" "$3" "$RUN" "$4" "${DATA[@]}" --steps 1 --quiet
    expect "verify: $1" "$2" "$3" "$AOT" verify "$4"
    expect "inspect: $1" "$2" "$3" "$AOT" inspect "$4"
}
size=$(stat -c %s "$BUNDLE")
: >empty.tsb
both "missing" 7 'missing.tsb.*No such file' missing.tsb
both "empty" 2 'empty.tsb' empty.tsb
mkdir folder.tsb
both "a directory that is no layout" 7 'folder.tsb|oci-layout' folder.tsb
for part in 100 512 5000 $((size / 2)) $((size - 512)) $((size - 1)); do
    head -c "$part" "$BUNDLE" >cut.tsb
    expect "strict run: cut at $part" 2 'cut.tsb' "$RUN" cut.tsb --strict "${DATA[@]}" --steps 1 --quiet
    expect "strict verify: cut at $part" 2 'cut.tsb' "$AOT" verify --strict cut.tsb
done
expect "text file" 2 'digits.mlir' "$RUN" "$DIGITS/digits.mlir" "${DATA[@]}" --steps 1 --quiet
if [ "$(id -u)" -ne 0 ]; then
    cp "$BUNDLE" unreadable.tsb && chmod 0 unreadable.tsb
    both "unreadable" 7 'unreadable.tsb.*Permission denied' unreadable.tsb
fi

# Bits spread over the whole file: strict mode refuses each; normal mode refuses it, or gives the same result.
expect "the result" 0 '' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 2 --quiet
good=$(state_of .out)
for part in $(seq 1 60); do
    offset=$((size * part / 61))
    cp "$BUNDLE" flipped.tsb
    byte=$(od -An -tu1 -j $offset -N 1 flipped.tsb | tr -d ' ')
    printf '%b' "\\0$(printf %03o $((byte ^ (1 << (part % 8)))))" | dd of=flipped.tsb bs=1 seek=$offset conv=notrunc status=none
    expect "strict: bit $((part % 8)) of byte $offset" '2' 'flipped.tsb' "$RUN" flipped.tsb --strict "${DATA[@]}" --steps 2 --quiet
    "$RUN" flipped.tsb "${DATA[@]}" --steps 2 --quiet >.out 2>.err
    code=$?
    checks=$((checks + 1))
    [ $code -ne 0 ] || [ "$(state_of .out)" = "$good" ] || fail "byte $offset: another result"
    [ $code -lt 128 ] || fail "byte $offset: died of signal $((code - 128))"
done
expect "strict, undamaged" 0 "^state $good" "$RUN" "$BUNDLE" --strict "${DATA[@]}" --steps 2 --quiet
finish
