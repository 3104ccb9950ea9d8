#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh ROOT TARGET SECONDS: builds tests/fuzz/fuzz_TARGET.c with Clang's libFuzzer, ASan and UBSan,
# and fuzzes for that long. Exits with 77 where Clang or libFuzzer is not installed.
set -eu

root=$1
target=$2
seconds=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"

echo 'int LLVMFuzzerTestOneInput(const char *, unsigned long); int LLVMFuzzerTestOneInput(const char *b, unsigned long s) { (void)b; return s == 0; }' >"$work/probe.c"
if ! clang -fsanitize=fuzzer,address,undefined "$work/probe.c" -o "$work/probe" 2>/dev/null; then
    echo "clang with libFuzzer: not installed"
    exit 77
fi

build() {
    output=$1
    sanitizers=$2
    shift 2
    clang -std=c17 -O1 -g -I. -D_GNU_SOURCE -DTSR_VERSION_TEXT='"fuzz"' "-fsanitize=$sanitizers" \
        -fno-sanitize-recover=all "$@" runtime/base/*.c manifests/*.c \
        tests/manifests/random_manifests.c -lcjson -lcrypto -lm -o "$work/$output"
}
build seeds address,undefined tests/fuzz/seeds.c
build fuzz fuzzer,address,undefined "tests/fuzz/fuzz_$target.c"
mkdir "$work/corpus"
"$work/seeds" "$target" "$work/corpus"
"$work/fuzz" -max_total_time="$seconds" -max_len=8192 -rss_limit_mb=1024 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="${TMPDIR:-/tmp}/tessera-fuzz-$target-" "$work/corpus"
