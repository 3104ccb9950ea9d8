#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unknown names in command lines: the error ends with the name that was probably meant, or suggests nothing.
. "$(dirname "$0")/common.sh"

cat >names.mlir <<'MODEL'
func.func @predict(%x: tensor<64x64xui8> {tessera.name = "pixels"}) -> (tensor<64x64xf32> {tessera.name = "logits"})
    attributes {tessera.entry = "infer", tessera.rows_independent} {
  %y = tessera.cast %x : tensor<64x64xui8> -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
MODEL
check "a bundle with longer names" "$AOT" build names.mlir -o names.tsb --target cpu:x86-64-v2

# what is wrong, the name that is suggested ("-": none), exit code, command
# shellcheck disable=SC2034 # `eval` uses what and code
while IFS='|' read -r what meant code command; do
    case $meant in
        -) end="[^?]$" ;;
        *) end="; did you mean '$meant'\\?$" ;;
    esac
    eval "expect \"\$what\" \"\$code\" \"\$end\" $command"
done <<'ROWS'
a flag|--steps|6|"$RUN" "$BUNDLE" --stepz 3
a flag with a value|--state-dir|6|"$RUN" "$BUNDLE" --state-dri=S
a flag of other tools|--steps|6|"$RUN" "$BUNDLE" --epochs 3
a flag of other tools|--state-dir|6|"$RUN" "$BUNDLE" --checkpoint-dir S
a flag like none|-|6|"$RUN" "$BUNDLE" --frobnicate
a flag of a command|--target|6|"$AOT" build m.mlir -o m.tsb --taget cpu:x86-64-v3
a command|inspect|6|"$AOT" inspct "$BUNDLE"
a command of other tools|verify|6|"$AOT" validate "$BUNDLE"
a command like none|-|6|"$AOT" frobnicate
a stage|autodiff|6|"$AOT" build m.mlir -o m.tsb --until autodif
an entry|predict|6|"$RUN" "$BUNDLE" --entry predickt
an entry of a training run|train|6|"$RUN" "$BUNDLE" --entry trian --steps 3
an entry like none|-|6|"$RUN" "$BUNDLE" --entry serve
an output|logits|6|"$RUN" names.tsb --entry predict --input pixels="$DIGITS/test-images.npy" --output logit=y.npy
an input|pixels|6|"$RUN" names.tsb --entry predict --input pixles="$DIGITS/test-images.npy" --output logits=y.npy
an output like none|-|6|"$RUN" names.tsb --entry predict --input pixels="$DIGITS/test-images.npy" --output y=y.npy
a data input|images|6|"$RUN" "$BUNDLE" --data image="$DIGITS/train-images.npy" --data labels="$DIGITS/train-labels.npy" --steps 3
a value|warn|6|"$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --check-finite=wran
a value of other tools|off|6|"$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --check-finite=none
a target|cpu:x86-64-v3|6|"$AOT" build "$DIGITS/digits.mlir" -o m.tsb --target cpu:x86_64-v3
ROWS
finish
