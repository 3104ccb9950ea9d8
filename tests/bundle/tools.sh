#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Other tar programs read a bundle; archives that they write are accepted and repacked to the same bytes. usage:
# tools.sh SAMPLE_TOOL CHECK_FORMAT_PY
set -eu
tool=$1 check=$2
PYTHON=$(dirname "$0")/../python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$tool" write "$work/a.tsb"
sum() { sha256sum "$1" | cut -d' ' -f1; }
want=$(sum "$work/a.tsb")
did=0

same_after_repack() { # what path
    "$tool" open "$2" >/dev/null
    "$tool" verify "$2"
    "$tool" repack "$2" "$work/again.tsb"
    got=$(sum "$work/again.tsb")
    [ "$got" = "$want" ] || { echo "$1: repack gave $got, expected $want" >&2; exit 1; }
    echo "ok: $1"
    did=$((did + 1))
}

if command -v tar >/dev/null; then
    tar tvf "$work/a.tsb" 2>"$work/complaints" | wc -l | grep -qx 20
    [ ! -s "$work/complaints" ] || { cat "$work/complaints" >&2; exit 1; }
    mkdir "$work/dir"
    tar xf "$work/a.tsb" -C "$work/dir"
    same_after_repack 'unpacked by tar' "$work/dir"
    for format in gnu ustar pax; do
        tar cf "$work/$format.tar" --format=$format -C "$work/dir" .
        same_after_repack "tar --format=$format" "$work/$format.tar"
    done
fi
if command -v bsdtar >/dev/null; then
    bsdtar cf "$work/bsd.tar" -C "$work/dir" .
    same_after_repack bsdtar "$work/bsd.tar"
fi
if command -v busybox >/dev/null; then
    busybox tar cf "$work/box.tar" -C "$work/dir" .
    same_after_repack busybox "$work/box.tar"
fi
"$PYTHON" "$check" "$work/a.tsb"
"$PYTHON" -c 'import sys, tarfile; t = tarfile.open(sys.argv[2], "w"); t.add(sys.argv[1], "."); t.close()' \
    "$work/dir" "$work/python.tar"
same_after_repack 'python tarfile' "$work/python.tar"
cp -r "$work/dir" "$work/slice"
"$PYTHON" -c 'import json, pathlib, sys
blobs = pathlib.Path(sys.argv[1]) / "blobs/sha256"
read = lambda d: json.loads((blobs / d["digest"][7:]).read_text())
(top,) = json.loads((blobs / "../../index.json").read_text())["manifests"]
for m in read(top)["manifests"]:
    if m["annotations"]["dev.tessera.target"] != "cpu:x86-64-v4":
        (blobs / m["digest"][7:]).unlink()' "$work/slice"
"$tool" repack "$work/slice" "$work/slice.tsb"
[ "$("$tool" strict "$work/slice.tsb")" = "$("$tool" open "$work/a.tsb")" ] || { echo 'another digest' >&2; exit 1; }
"$PYTHON" "$check" "$work/slice.tsb" cpu:x86-64-v4
for wrong in '' 'cpu:x86-64-v4 cpu:x86-64-v2' cpu:x86-64-v2; do
    # shellcheck disable=SC2086 # several words
    if "$PYTHON" "$check" "$work/slice.tsb" $wrong 2>/dev/null; then echo "accepted as '$wrong'" >&2; exit 1; fi
done
[ $did -gt 0 ] || exit 77
