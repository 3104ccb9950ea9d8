#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An edited model continues from the state of its predecessor: matching tensors are taken by name, also by a new name.
. "$(dirname "$0")/common.sh"

build() { "$AOT" build "$1" -o "$2" --target cpu:x86-64-v3 "${@:3}"; }
train() { "$RUN" "$1" "${DATA[@]}" "${@:2}"; }
losses() { grep -o '"step":[0-9]*,.*"loss":[^,}]*' "$1" | sed 's/.*"step":\([0-9]*\),.*"loss":/\1 /'; }

sed 's/"layer1\./"first./; s/"layer3.bias"/"last.bias"/' "$DIGITS/digits.mlir" >renamed.mlir
sed 's/64x10x/64x12x/g; s/<10x/<12x/g; s/"layer2.bias"/"layer2.offset"/' "$DIGITS/digits.mlir" >edited.mlir
check "a model with other names" build renamed.mlir renamed.tsb
check "a model of other shapes" build edited.mlir edited.tsb
check "the one before" train "$BUNDLE" --quiet --steps 20 --seed 3 --state-dir before
cp -r before undisturbed
check "and on" train "$BUNDLE" --quiet --steps 30 --state-dir undisturbed --metrics undisturbed.jsonl

# The numbers are those of a run without renaming, for any number of ranks.
RENAMES=(--rename layer1=first --rename layer3.bias=last.bias)
expect "all is taken" 0 "18 of 18 tensors of generation 1, step 20, are taken over \(9 renamed\); the program has 18" \
    train renamed.tsb --steps 30 --adopt before "${RENAMES[@]}" --state-dir after --metrics after.jsonl
checks=$((checks + 1))
if [ "$(losses after.jsonl | wc -l)" -ne 10 ] || [ "$(losses after.jsonl)" != "$(losses undisturbed.jsonl)" ]; then
    fail "renaming changed the losses: $(losses after.jsonl | tail -n 2), expected $(losses undisturbed.jsonl | tail -n 2)"
fi
check "with virtual ranks" build renamed.mlir two.tsb --virtual-ranks 2
train two.tsb --quiet --steps 24 --adopt before "${RENAMES[@]}" >one.out
expect "by two ranks" 0 "^state $(state_of one.out) step 24" train two.tsb --quiet --steps 24 --adopt before "${RENAMES[@]}" --ranks 2
expect "what was adopted is resumed then" 0 'resumed generation 1 at step 30' \
    train renamed.tsb --steps 31 --adopt before "${RENAMES[@]}" --state-dir after

# Tensors that do not match start with initial values, and are named.
expect "a shape that changed" 0 "'layer3.weight' starts from its initial value: it is 64x10xf32 in the state, 64x12xf32 in the program" \
    train edited.tsb --steps 25 --adopt before --state-dir edited
expect "a name that is new" 0 "'layer2.offset' starts from its initial value: the state has no tensor of this name" train edited.tsb --steps 25 --adopt before
expect "one that is gone" 0 "'layer2.bias.adam_m' of the state is not used: the program has no 'layer2.bias.adam_m'" \
    train edited.tsb --steps 25 --adopt before
expect "how many" 0 '9 of 18 tensors of generation 1, step 20, are taken over \(0 renamed\); the program has 18' \
    train edited.tsb --steps 25 --adopt before
expect "it continues at that step" 0 '^state [0-9a-f]* step 25' train edited.tsb --steps 25 --adopt before
expect "renamed, it fits" 0 '12 of 18 tensors .* \(3 renamed\)' train edited.tsb --steps 25 --adopt before --rename layer2.bias=layer2.offset

expect "a name that the state has not" 6 "has no tensor 'layer9' that could be renamed to 'x'" train renamed.tsb --steps 30 --adopt before --rename layer9=x
expect "half a name" 6 "has no tensor 'layer' that could be renamed to 'x'" train renamed.tsb --steps 30 --adopt before --rename layer=x
expect "two of one name" 6 "would both be 'layer2" train renamed.tsb --steps 30 --adopt before --rename layer1=layer2
expect "renamed twice" 6 "names 'layer1' twice: 'a' and 'b'" train renamed.tsb --steps 30 --adopt before --rename layer1=a --rename layer1=b
expect "nothing in common" 12 'has no tensor with the name, type and shape of a tensor of the program' \
    train renamed.tsb --steps 30 --adopt before --rename layer1=a --rename layer2=b --rename layer3=c
expect "no such directory" 7 "state directory 'none'" train renamed.tsb --steps 30 --adopt none
expect "an empty one" 10 'holds no generation' bash -c "mkdir -p empty && '$RUN' renamed.tsb ${DATA[*]} --steps 30 --adopt empty"
expect "and parameters of a file" 6 'a state is adopted instead of parameters of a file' \
    train renamed.tsb --steps 30 --adopt before --params p.safetensors
expect "a rename of nothing" 6 '--rename needs --adopt' train renamed.tsb --steps 30 --rename a=b
finish
