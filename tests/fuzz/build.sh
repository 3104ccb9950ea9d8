#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# build.sh ROOT FOLDER MODE: links FOLDER/MODE/NAME for each targets/NAME.c, unless all of them are
# newer than the sources. Exits with 77 where clang or its libFuzzer is not installed.
#
#   checked   libFuzzer, ASan, UBSan
#   fast      libFuzzer, UBSan that traps: several times as many executions
# memory    libFuzzer, MSan; output of other libraries counts as initialized (foreign.c)
#   faults    no fuzzer: runs inputs, each with every failing read and allocation; objects of `checked`
#   coverage  the same, by gcc with line counts
set -eu
root=$1 mode=$3
mkdir -p "$2/$mode"
out=$(realpath "$2")/$mode
cd "$root"
exec 9>"$out/lock"
flock 9 # the tests of one run share the built programs

sources='bundle manifests runtime/base runtime/data compiler/frontend/onnx compiler/frontend/language compiler/diag compiler/ir tests/fuzz tests/bundle tests/manifests'
# shellcheck disable=SC2086 # a list
if [ -e "$out/complete" ] && [ -z "$(find $sources -name '*.[ch]' -newer "$out/complete" | head -n 1)" ]; then
    exit 0
fi

wrap='-Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=aligned_alloc'
hidden='-Wl,--wrap=SHA256_Update -Wl,--wrap=SHA256_Final -Wl,--wrap=ZSTD_decompress -Wl,--wrap=ZSTD_compress2'
hidden="$hidden -Wl,--wrap=cJSON_ParseWithLength -Wl,--wrap=cJSON_PrintUnformatted -Wl,--wrap=LLVMFuzzerMutate"
compiler=clang driver=tests/fuzz/fuzz.c link='' main=''
case $mode in
checked) compile='-O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all' link='-fsanitize=fuzzer,address,undefined' ;;
fast) compile='-O2 -g -fsanitize=fuzzer-no-link,undefined -fsanitize-trap=undefined' link='-fsanitize=fuzzer' ;;
memory) compile='-O1 -g -fsanitize=fuzzer-no-link,memory -fsanitize-memory-track-origins' link="-fsanitize=fuzzer,memory $hidden" main=tests/fuzz/foreign.c ;;
faults) compile='-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all' link="-fsanitize=address,undefined $wrap" driver=tests/fuzz/replay.c ;;
coverage) compiler=gcc compile='-O0 -g --coverage' link="--coverage $wrap" driver=tests/fuzz/replay.c ;;
*) echo "build.sh: unknown mode '$mode'" >&2 && exit 6 ;;
esac
command -v "$compiler" >/dev/null || { echo "$compiler: not installed" && exit 77; }
case $link in
*fuzzer*)
    echo 'int LLVMFuzzerTestOneInput(const char *b, unsigned long s) { return b && s > 1; }' >"$out/probe.c"
    # shellcheck disable=SC2086 # a list
    "$compiler" ${link%% *} "$out/probe.c" -o "$out/probe" 2>"$out/probe.log" ||
        { echo "clang has no ${link%% *}" && exit 77; }
    ;;
esac

rm -rf "$out/objects" "$out/complete" "$out/library.a"
mkdir -p "$out/objects"
flags="-std=c17 -w -D_GNU_SOURCE -DTSR_VERSION_TEXT=\"0\" -I. $(pkg-config --cflags libcjson libcrypto libzstd zlib)"
if [ "$mode" = faults ]; then
    "$root/tests/fuzz/build.sh" "$root" "$2" checked
    cp "$out/../checked/objects/"*.o "$out/objects/"
    rm "$out/objects/tests+fuzz+fuzz.o"
    sources=''
else
    sources="$(find bundle manifests runtime/base runtime/data compiler/frontend/language tests/fuzz/targets -name '*.c' ! -path '*/language/trace/*')
        compiler/diag/format.c compiler/ir/dim_expression.c compiler/frontend/onnx/model.c compiler/frontend/onnx/tensor.c compiler/frontend/onnx/wire.c
        tests/manifests/random_manifests.c tests/bundle/kit.c tests/bundle/ram_io.c tests/fuzz/common.c tests/fuzz/mutate_json.c"
fi
# shellcheck disable=SC2086 # a list
printf '%s\n' $sources "$driver" $main |
    xargs -P "${JOBS:-2}" -I '{}' sh -c '"$1" $2 $3 -c "$5" -o "$4/$(echo "${5%.c}" | tr / +).o"' \
        sh "$compiler" "$flags" "$compile" "$out/objects" '{}'
# shellcheck disable=SC2046 # a list
ar rcs "$out/library.a" $(find "$out/objects" -name '*.o' ! -name 'tests+fuzz+*')
for source in tests/fuzz/targets/*.c; do
    name=$(basename "$source" .c)
    # shellcheck disable=SC2086,SC2046 # lists
    "$compiler" $link "$out/objects/tests+fuzz+targets+$name.o" \
        $(find "$out/objects" -name 'tests+fuzz+*.o' ! -name 'tests+fuzz+targets+*') \
        "$out/library.a" $(pkg-config --libs libcjson libcrypto libzstd zlib) -lpthread -lm -o "$out/$name"
done
touch "$out/complete"
