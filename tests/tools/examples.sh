#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples of examples/README.md: each is built and run by the documented commands, and gives the documented results.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The levels of this CPU according to the kernel, so that a level that the tool wrongly refuses is not skipped.
LEVELS=1
grep -q ' avx2 .* fma \| fma .* avx2 ' /proc/cpuinfo && LEVELS=2
[ $LEVELS = 2 ] && grep ' avx512f ' /proc/cpuinfo | grep ' avx512bw ' | grep ' avx512cd ' | grep ' avx512dq ' | grep -q ' avx512vl' && LEVELS=3

# example NAME KERNELS TOLERANCE [ENTRY]: every array in the folder except expected.npy is an input.
example() {
    local name=$1 kernels=$2 tolerance=$3 entry=${4:-$1} folder=$ROOT/examples/$1 inputs=() file run=0 absent=0
    for file in "$folder"/*.npy; do
        file=$(basename "$file" .npy)
        [ "$file" = expected ] || inputs+=(--input "$file=$folder/$file.npy")
    done
    check "$name is built" "$AOT" build "$folder/$name.mlir" -o "$name.tsb"
    expect "$name is $kernels kernel" 0 "of 1 entry, $kernels kernel calls?; origin: default$" "$AOT" inspect "$name.tsb"
    for target in cpu:x86-64-v2 cpu:x86-64-v3 cpu:x86-64-v4; do
        check "$name for $target" "$AOT" build "$folder/$name.mlir" --target=$target -o one.tsb
        "$RUN" one.tsb --entry "$entry" "${inputs[@]}" --output y=y.npy >.out 2>.err
        case $? in
        0)
            run=$((run + 1))
            expect "$name on $target" 0 '^near: ' "$PYTHON" "$ROOT/tests/tools/near.py" y.npy "$folder/expected.npy" "$tolerance"
            ;;
        5) absent=$((absent + 1)) ;; # for another machine
        *) fail "$name on $target" ;;
        esac
    done
    echo "$name: run on $run levels; $absent are not of this machine"
    check "$name runs on each of the $LEVELS levels of this CPU, ran on $run" test "$run" -eq "$LEVELS"
}

example matmul 1 4e-6
example softmax 1 4e-7
example flash-attn 1 1e-6 attention
# Inputs and results have 8 significant bits: NumPy with the same inputs is 7.7e-3 away.
example flash-attn-bf16 5 2e-2 attention

# These use the matrix units on a GPU.
for row in 'matmul tile.mma' 'flash-attn-bf16 tile.attend'; do
    read -r name op <<<"$row"
    "$AOT" build "$ROOT/examples/$name/$name.mlir" -o gpu.tsb --numerics=native --target=cuda:sm_90a,cuda:sm_80 --dump=tile >tile 2>.err
    check "$name by matrix units" test "$(grep -c " $op " tile)" = 2
done

expect 'the only entry need not be named' 6 "no output of entry 'matmul' is requested" "$RUN" matmul.tsb --input a=a.npy
sed 's/@matmul/@other/; /^\/\//d' "$ROOT/examples/matmul/matmul.mlir" | cat "$ROOT/examples/matmul/matmul.mlir" - >two.mlir
check 'two entries' "$AOT" build two.mlir -o two.tsb --target=cpu:x86-64-v2
expect 'an entry is named where nothing trains' 6 'the bundle trains nothing; expected --entry with one of matmul, other$' \
    "$RUN" two.tsb --input a=a.npy

# as_written NAME [TOLERANCE]: the commands at the top of the example, copied as they are, give the documented results.
PATH=$(dirname "$AOT"):$PATH
as_written() {
    local source=$ROOT/examples/$1/$1.mlir ends
    mkdir "$1" && ln -s "$ROOT/examples" "$1/examples"
    sed -n '/^[^/]/q; s,^//   ,,p' "$source" >"$1/commands"
    check "$1 has commands" grep -q '^tessera-run' "$1/commands"
    ends=$(sed -n 's,^// It ends with: \(.*\)$,\1,p' "$source" | sed 's/[().]/\\&/g')
    # CPUs without FMA give different bits.
    grep -q ' avx2 ' /proc/cpuinfo || ends=${ends:+(eval step|state )}
    expect "$1 as written" 0 "^$ends" env -C "$1" bash -e commands
    cp .err said
    check "$1 tells of parameters where it has some" sh -c "! grep -q 'own parameters' said"
    [ -n "$ends" ] || check "$1 as written gives what is expected" "$PYTHON" "$ROOT/tests/tools/near.py" "$1/y.npy" \
        "$ROOT/examples/$1/expected.npy" "${2:-4e-6}"
}
for name in matmul softmax flash-attn convnet digits moe; do as_written "$name"; done
as_written flash-attn-bf16 2e-2

"$PYTHON" "$ROOT/tests/tools/near.py" "$ROOT/examples/softmax/x.npy" "$ROOT/examples/softmax/expected.npy" 1e-3 >.out &&
    fail 'another array is near'

check 'convnet is built' "$AOT" build "$ROOT/examples/convnet/convnet.mlir" -o convnet.tsb
for seed in 0 1; do
    expect "convnet learns, seed $seed" 0 'accuracy 0\.9[6-9]' "$RUN" convnet.tsb "${DATA[@]}" \
        "${TEST_DATA[@]}" --steps 500 --seed "$seed"
done

finish
