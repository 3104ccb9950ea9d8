#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Signatures made by the program minisign are accepted; skipped if it is not installed.
# usage: minisign.sh SAMPLE_TOOL
set -eu
tool=$(realpath "$1") PYTHON=$(realpath "$(dirname "$0")/../python")
command -v minisign >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for size in tiny write; do
    "$tool" $size "$size.tsb"
    minisign -G -W -f -p key.pub -s key.sec >/dev/null
    minisign -S -s key.sec -m $size.tsb -t "a comment: ü" >/dev/null
    minisign -V -p key.pub -m $size.tsb >/dev/null
    [ "$("$tool" check $size.tsb key.pub)" = good ]
    minisign -G -W -f -p other.pub -s other.sec >/dev/null
    code=0
    "$tool" check $size.tsb other.pub 2>err || code=$?
    [ $code = 4 ] && grep -q 'expected the one given' err
    [ "$("$tool" check $size.tsb other.pub key.pub)" = good ]
    # A different key with the same number: the two are distinguished.
    "$PYTHON" - key.pub other.pub >forged.pub <<'END'
import base64, sys
ours, theirs = (base64.b64decode(open(p).read().splitlines()[1]) for p in sys.argv[1:])
print("untrusted comment: forged\n" + base64.b64encode(ours[:10] + theirs[10:]).decode())
END
    code=0
    "$tool" check $size.tsb forged.pub 2>err || code=$?
    [ $code = 4 ] && grep -q 'the signature is wrong' err
done
echo 'minisign: 10 checks'
