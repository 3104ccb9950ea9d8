#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# build.sh ROOT OUTPUT CLANG: builds the fuzzing program from the sources of the libraries that read
# foreign bytes. Does nothing if OUTPUT is newer than every source.
set -eu
root=$1 output=$(realpath -m "$2") clang=$3
cd "$root"
sources='runtime tests/parsers'
# shellcheck disable=SC2086 # a list
if [ -e "$output" ] && [ -z "$(find $sources -name '*.[ch]' -newer "$output" | head -n 1)" ]; then
    exit 0
fi

objects=$output.objects
rm -rf "$objects"
mkdir -p "$objects"
{
    find runtime/base runtime/data -name '*.c'
    printf '%s\n' runtime/record/locate.c runtime/record/record.c tests/parsers/fuzz.c
} | xargs -P 2 -I '{}' sh -c '
    "$1" -std=c17 -O1 -g -D_GNU_SOURCE -DTSR_VERSION_TEXT="\"0\"" -I. \
        -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -w \
        $(pkg-config --cflags libcjson libcrypto zlib) \
        -c "$3" -o "$2/$(echo "$3" | tr / _).o"' sh "$clang" "$objects" '{}'
# shellcheck disable=SC2046 # a list
"$clang" -fsanitize=fuzzer,address,undefined "$objects"/*.o -o "$output.new" \
    $(pkg-config --libs libcjson libcrypto zlib) -lpthread -lm
rm -rf "$objects"
mv "$output.new" "$output"
