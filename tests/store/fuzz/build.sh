#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# build.sh ROOT OUTPUT CLANG: builds the fuzzing program for the state store's formats. Does nothing
# if OUTPUT is newer than every source.
set -eu
root=$1 output=$(realpath -m "$2") clang=$3
cd "$root"
sources='runtime/base runtime/state tests/store/fuzz'
# shellcheck disable=SC2086 # a list
if [ -e "$output" ] && [ -z "$(find $sources -name '*.[ch]' -newer "$output" | head -n 1)" ]; then
    exit 0
fi
# shellcheck disable=SC2046 # lists
"$clang" -std=c17 -O1 -g -D_GNU_SOURCE -DTSR_VERSION_TEXT='"0"' -I. -w \
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
    $(find runtime/base runtime/state tests/store/fuzz -name '*.c') \
    $(pkg-config --cflags --libs libcjson libcrypto) -lpthread -lm -o "$output.new"
mv "$output.new" "$output"
