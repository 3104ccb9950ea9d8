#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The machine: CPU levels (on emulated CPUs), memory, the same bits on v3 and v4.
. "$(dirname "$0")/common.sh"

train() { "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --quiet "$@"; }

cat >huge.mlir <<'END'
module @huge {
  func.func @predict(%x: tensor<1x4194304xf32> {tessera.name = "x"}) -> (tensor<1x4194304xf32> {tessera.name = "y"})
      attributes {tessera.entry = "infer"} {
    %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<4194304x4194304xf32>
    %y = tessera.matmul %x, %w : tensor<1x4194304xf32>, tensor<4194304x4194304xf32> -> tensor<1x4194304xf32>
    return %y : tensor<1x4194304xf32>
  }
}
END
# Twice: unchanged, and packed for products.
check "64 TiB of parameters compile" "$AOT" build huge.mlir -o huge.tsb --target=cpu:x86-64-v2
expect "more memory planned than there is" 15 'plans 1407375[0-9]+ bytes of memory; [0-9]+ are available' \
    "$RUN" huge.tsb --entry predict --input x=x.npy --output y=y.npy

check "targets v2 and v3" "$AOT" build "$DIGITS/digits.mlir" -o two.tsb --target=cpu:x86-64-v2,cpu:x86-64-v3
check "target v4" "$AOT" build "$DIGITS/digits.mlir" -o four.tsb --target=cpu:x86-64-v4
check "target v2" "$AOT" build "$DIGITS/digits.mlir" -o one.tsb --target=cpu:x86-64-v2
check "target v4 with dot products" "$AOT" build "$DIGITS/digits.mlir" -o dots.tsb --target=cpu:x86-64-v4-bf16
if grep -qw avx512vl /proc/cpuinfo; then
    expect "the CPU has more than the bundle" 0 'cpu:x86-64-v3: the highest level that the bundle shares with this CPU .x86-64-v4(-bf16)?.; not cpu:x86-64-v2' \
        "$RUN" two.tsb "${DATA[@]}" --steps 3
    expect "v4 is chosen" 0 'cpu:x86-64-v4: the highest level' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3
    v4=$(state_of .out)
    expect "v3 on request, the same bits" 0 "^state $v4" train --cpu x86-64-v3
    expect "v4 on request is not there" 5 "no code for 'x86-64-v4'; it has cpu:x86-64-v" "$RUN" two.tsb "${DATA[@]}" --steps 3 --cpu x86-64-v4
fi

emulate() { qemu-x86_64 -cpu "$1" "$RUN" "${@:2}" "${DATA[@]}" --steps 3 --threads 1; }
if ! command -v qemu-x86_64 >/dev/null; then
    echo "qemu-x86_64 is absent: CPUs that lack instructions are not tried"
    [ "$failures" -eq 0 ] && exit 77
    exit 1
fi
expect "below v2: a message, no SIGILL" 17 'this CPU has x86-64-v1; at least x86-64-v2 is needed' emulate core2duo "$BUNDLE"
expect "a v2 CPU" 0 'cpu:x86-64-v2: the highest level this CPU has; not cpu:x86-64-v' emulate Nehalem "$BUNDLE"
expect "a v3 CPU" 0 'cpu:x86-64-v3: the highest level this CPU has' emulate Haswell "$BUNDLE"
v3=$(state_of .out)
expect "a v3 CPU, a v2 bundle" 0 'cpu:x86-64-v2: the highest level that the bundle shares with this CPU .x86-64-v3.' emulate Haswell one.tsb
[ -z "${v4-}" ] || [ "$v3" = "$v4" ] || fail "v3 on an emulated CPU: another state than v4 here"
expect "a level the CPU lacks" 17 "'x86-64-v3' was requested; this CPU has x86-64-v2" emulate Nehalem "$BUNDLE" --cpu x86-64-v3
expect "dot products that the CPU lacks" 5 'has no code for this CPU \(x86-64-v3\); it has cpu:x86-64-v4-bf16' emulate Haswell dots.tsb
expect "what it would need" 5 'cpu:x86-64-v4-bf16 +not: this CPU has x86-64-v3' qemu-x86_64 -cpu Haswell "$RUN" --check dots.tsb
expect "nothing for this CPU" 5 'has no code for this CPU \(x86-64-v2\); it has cpu:x86-64-v4' emulate Nehalem four.tsb
finish
