#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of tessera-aot that need no compiler, in builds with and without it: what each does, and what it refuses. (push and
# pull: tests/registry.) usage: aot-commands.sh RUN AOT BUNDLE ROOT compiler|none; the bundle is one of tests/golden, which needs no build.
. "$(dirname "$0")/common.sh"
compiler=$5
cp "$BUNDLE" a.tsb
train() { "$RUN" a.tsb "${DATA[@]}" --steps "$1" --state-dir S --quiet; }

# ---- the build
expect "help" 0 '^  verify +FILE' "$AOT" --help
for command in inspect verify repack bake keygen sign push pull provenance diff; do
    expect "help of $command" 0 "^usage: tessera-aot $command " "$AOT" "$command" --help
done
expect "no command" 6 'no command .*; known are .*inspect verify repack bake keygen sign push pull provenance diff$' "$AOT"
printf 'module {}\n' >m.mlir
if [ "$compiler" = none ]; then
    absent='build: this tessera-aot was built without the compiler \(-Dcompiler=false\); expected one built with it'
    expect "build" 6 "error: $absent$" "$AOT" build m.mlir -o m.tsb
    expect "help of build" 6 "error: $absent$" "$AOT" build --help
    [ ! -e m.tsb ] || fail "a build without the compiler wrote a bundle"
    expect "help says so" 0 '^Not in this build, which has no compiler: build ' "$AOT" --help
    expect "the version says so" 0 '^tessera-aot [0-9.]+ without the compiler$' "$AOT" --version
    expect "build is not known" 6 'known are inspect' "$AOT" no-such-command
    ldd "$AOT" | grep -E 'LLVM|MLIR' && fail "tessera-aot links the compiler's libraries"
    "$AOT" --help | grep -Eq '^  build ' && fail "the help shows build as a command"
else
    expect "build" 9 'no entry|entry' "$AOT" build m.mlir -o m.tsb
    expect "help of build" 0 '^usage: tessera-aot build SRC' "$AOT" build --help
    expect "the version" 0 '^tessera-aot [0-9.]+$' "$AOT" --version
    "$AOT" --help | grep -q 'Not in this build' && fail "the help misses a command"
fi

# ---- inspect, verify, repack
expect "inspect" 0 '^bundle sha256:[0-9a-f]{64}, ' "$AOT" inspect a.tsb
expect "inspect --json" 0 '"layer1\.weight"' "$AOT" inspect --json --tensors a.tsb
expect "verify" 0 '^a.tsb: ' "$AOT" verify --full a.tsb
cp a.tsb damaged.tsb
size=$(stat -c %s a.tsb)
printf '\xff' | dd of=damaged.tsb bs=1 seek=$((size * 3 / 4)) conv=notrunc status=none
cmp -s a.tsb damaged.tsb && fail "the damage changed nothing"
expect "verify a damaged one" 2 'damaged.tsb' "$AOT" verify --full damaged.tsb
check "repack" "$AOT" repack a.tsb -o b.tsb
expect "canonical bytes" 0 '' "$AOT" verify --strict b.tsb
expect "inspect nothing" 7 "No such file" "$AOT" inspect none.tsb

# ---- keygen, sign
expect "keygen" 0 '^key sha256:[0-9a-f]{64}$' "$AOT" keygen -o key
expect "sign" 0 '^a.tsb: signed by key sha256:[0-9a-f]{64}$' "$AOT" sign a.tsb --key key
expect "verify the signature" 0 'signed' "$AOT" verify a.tsb --key key.pub --require-signature
expect "another key" 0 '' "$AOT" keygen -o other
expect "verify with another key" 4 'a.tsb' "$AOT" verify a.tsb --key other.pub --require-signature
expect "an unsigned one" 4 "'b.tsb' is not signed" "$AOT" verify b.tsb --key key.pub --require-signature

# ---- bake, diff
expect "train" 0 '^state [0-9a-f]{64} step 3' train 3
expect "bake" 0 '' "$AOT" bake a.tsb --state-dir S -o trained.tsb
expect "verify what is baked" 0 '' "$AOT" verify --full --strict trained.tsb
expect "export" 0 '' "$AOT" bake a.tsb --state-dir S --export-params p.safetensors
expect "bake from a file" 0 '' "$AOT" bake a.tsb --params p.safetensors -o again.tsb
expect "bake nothing" 6 '' "$AOT" bake a.tsb -o x.tsb
expect "bake of no state" 7 'No such file' "$AOT" bake a.tsb --state-dir none -o x.tsb
expect "diff of one" 0 '' "$AOT" diff a.tsb a.tsb
differs=$(sed -n 's/^X(DIFFERENT, \([0-9]*\),.*/\1/p' "$ROOT/tessera/codes.def")
checks=$((checks + 1))
"$AOT" diff a.tsb trained.tsb >.out 2>.err
code=$?
if [ "$code" -ne "$differs" ] || ! grep -q 'layer1\.weight' .out; then fail "diff of two: exit code $code; expected $differs, and tensors"; fi
check "a prediction of what is baked" "$RUN" trained.tsb --entry predict --input "x=$DIGITS/test-images.npy" --output y=baked.npy --quiet
check "a prediction of the state" "$RUN" a.tsb --entry predict --state-dir S --input "x=$DIGITS/test-images.npy" --output y=state.npy --quiet
check "they are the same" cmp baked.npy state.npy

# ---- provenance
expect "provenance" 0 '"predicateType":"https://slsa.dev/provenance/v1"' "$AOT" provenance a.tsb
expect "signed provenance" 0 '^statement: signed by key' "$AOT" provenance a.tsb --sign key -o statement
expect "provenance of nothing" 7 'No such file' "$AOT" provenance none.tsb
finish
