#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: install.sh BUILD_DIR BUNDLE ROOT: the installed files suffice to build the embedding example and run it.
set -eu
build=$1 bundle=$2 root=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work meson install -C "$build" --no-rebuild --quiet
prefix=$(find "$work" -name tessera.pc -printf '%h\n' -quit)
export PKG_CONFIG_SYSROOT_DIR=$work PKG_CONFIG_PATH=$prefix
# shellcheck disable=SC2046
cc -std=c17 -Wall -Wextra -Werror "$root/examples/embed/train_predict.c" $(pkg-config --cflags --libs tessera) -o "$work/train_predict"
library=$(dirname "$(find "$work" -name libtessera.so -print -quit)")
LD_LIBRARY_PATH=$library "$work/train_predict" "$bundle" "$root/examples/digits" | tee "$work/out"
grep -q '^step 500: loss 0\.' "$work/out"
grep -q '^image 0 looks like a 1$' "$work/out"
grep -q '^image 1 looks like a 0$' "$work/out"
for tool in tessera-run tessera-aot tessera-opt; do test -x "$(find "$work" -name $tool -print -quit)"; done
! nm -D --defined-only "$library/libtessera.so" | grep -v ' tsr_' | grep -v ' [AV] ' || { echo 'exported without the prefix tsr_'; exit 1; }
