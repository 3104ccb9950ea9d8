#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A bundle is copied by skopeo as an OCI archive, and opened both as a layout directory and as the
# tar that skopeo writes; repack restores the first bytes. usage: skopeo.sh SAMPLE_TOOL
set -eu
command -v skopeo >/dev/null || { echo 'skopeo is not installed'; exit 77; }
tool=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy() { skopeo --insecure-policy --tmpdir "$work" copy --quiet --all --preserve-digests "$1" "$2"; }
"$tool" write "$work/a.tsb"
copy "oci-archive:$work/a.tsb" "oci:$work/dir:latest"
copy "oci:$work/dir:latest" "oci-archive:$work/b.tsb:latest"
want=$("$tool" strict "$work/a.tsb")
for form in dir b.tsb; do
    got=$("$tool" open "$work/$form")
    [ "$got" = "$want" ] || { echo "$form: index $got, expected $want" >&2; exit 1; }
    "$tool" verify "$work/$form"
    "$tool" repack "$work/$form" "$work/c.tsb"
    cmp "$work/a.tsb" "$work/c.tsb"
    "$tool" strict "$work/c.tsb" >/dev/null
done
if "$tool" strict "$work/b.tsb" 2>/dev/null; then echo 'strict mode took a repacked tar' >&2; exit 1; fi
# Without --all skopeo picks the manifest without a variant: the lowest x86 level.
skopeo --insecure-policy --tmpdir "$work" --override-os linux --override-arch amd64 \
    copy --quiet "oci-archive:$work/a.tsb" "oci:$work/one:latest"
grep -q '"dev.tessera.target":"cpu:x86-64-v2"' "$work"/one/blobs/sha256/*
if "$tool" open "$work/one" 2>"$work/message"; then echo 'one platform was taken' >&2; exit 1; fi
grep -q -e '--all' "$work/message"
