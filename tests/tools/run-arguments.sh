#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bad arguments: one line with both values, the documented exit code.
. "$(dirname "$0")/common.sh"

expect "help" 0 'usage: tessera-run' "$RUN" --help
expect "version" 0 '^tessera-run [0-9]+\.[0-9]+\.[0-9]+$' "$RUN" --version
expect "no bundle" 6 'expected one bundle' "$RUN"
expect "two bundles" 6 '2 files are given' "$RUN" "$BUNDLE" other.tsb
expect "unknown flag" 6 "unknown flag '--stepz'; known are .*--steps" "$RUN" "$BUNDLE" --stepz 3
expect "value missing" 6 '--steps needs a value' "$RUN" "$BUNDLE" --steps
expect "switch with value" 6 "--quiet takes no value; got 'yes'" "$RUN" "$BUNDLE" --quiet=yes
expect "flag twice" 6 '--steps is given twice' "$RUN" "$BUNDLE" --steps 3 --steps 4
for steps in 0 -5 18446744073709551616 99999999999999999999999 3.5 ten ''; do
    expect "steps '$steps'" 6 "--steps is '$steps'; expected a number from 1 to 18446744073709551615" \
        "$RUN" "$BUNDLE" --steps="$steps"
done
expect "seed too large" 6 "--seed is '4294967296'; expected a number from 0 to 4294967295" "$RUN" "$BUNDLE" --seed 4294967296
expect "threads 0" 6 "--threads is '0'" "$RUN" "$BUNDLE" --threads 0
expect "keep 1" 6 "--keep is '1'; expected a number from 2" "$RUN" "$BUNDLE" --keep 1
expect "steps missing" 6 '--steps is missing' "$RUN" "$BUNDLE" "${DATA[@]}"
expect "save-every without state" 6 '--save-every needs --state-dir' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --save-every 1
expect "resume nonsense" 6 "--resume is 'maybe'" "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --state-dir S --resume maybe
expect "entry unknown" 6 "no entry 'predickt'; the bundle has evaluate, predict, train" "$RUN" "$BUNDLE" --entry predickt
expect "record and replay" 6 'not both' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --record a --replay b
expect "pair without =" 6 "--data is 'images'; expected NAME=PATH" "$RUN" "$BUNDLE" --data images --steps 3
expect "data twice" 6 "--data names 'images' twice" "$RUN" "$BUNDLE" "${DATA[@]}" --data images=x --steps 3
expect "resume without state" 6 '--resume needs --state-dir' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --resume 7
expect "keep without state" 6 '--keep needs --state-dir' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --keep 3
for flag in --state-dir --metrics --record --replay --export-params --entry --params --cpu --resume; do
    expect "$flag empty" 6 "$flag is empty; expected [A-Z|a-z]+" "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 "$flag" ''
done

# A flag without effect is refused, not ignored.
expect "entry unknown, with steps" 6 "no entry 'trian'; the bundle has evaluate, predict, train" "$RUN" "$BUNDLE" --entry trian --steps 3
for flag in '--input x=y.npy' '--output y=y.npy'; do
    expect "$flag to training" 6 "${flag%% *} does not apply to training" "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 "${flag%% *}" "${flag##* }"
done
for flag in '--steps 3' '--save-every 3' '--eval-every 3' '--keep 3' '--data images=a'; do
    expect "$flag to a call" 6 "${flag%% *} does not apply to a call, which takes --input" "$RUN" "$BUNDLE" --entry predict "${flag%% *}" "${flag##* }"
done
expect "a call without an output" 6 "no output of entry 'predict' is requested" "$RUN" "$BUNDLE" --entry predict --input "x=$DIGITS/test-images.npy"
expect "output of an evaluation" 6 '--output does not apply to an evaluation, which takes --data' \
    "$RUN" "$BUNDLE" --entry evaluate "${TEST_DATA[@]}" --output loss=a.npy
for flag in '--save-every 3' '--eval-every 3' '--keep 3' '--resume never'; do
    expect "$flag to a replay" 6 "${flag%% *} does not apply to a replay" "$RUN" "$BUNDLE" "${DATA[@]}" --replay a --state-dir S "${flag%% *}" "${flag##* }"
done
expect "the workspace of an export" 6 '--measure-memory does not apply to an export' "$RUN" "$BUNDLE" --export-params a --measure-memory
expect "the workspace on a GPU" 6 "--measure-memory measures only the CPU's memory; the device is 'cuda'" "$RUN" "$BUNDLE" --device cuda --measure-memory
expect "metrics of an export" 6 '--metrics does not apply to an export' "$RUN" "$BUNDLE" --export-params a --metrics b
check "it is not created" test ! -e b
expect "fsck of nothing" 6 'fsck: 0 directories are given; expected one' "$RUN" fsck
expect "fsck of two" 6 'fsck: 2 directories are given; expected one' "$RUN" fsck a b
expect "fsck with steps" 6 '--steps does not apply to fsck' "$RUN" fsck a --steps 3
expect "cpu nonsense" 6 "'pentium' is not a CPU level" "$RUN" "$BUNDLE" --cpu pentium "${DATA[@]}" --steps 3
expect "eval without data" 6 'evaluation every 2 steps needs' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --eval-every 2
check "nothing was left behind" test -z "$(ls)"

# Flags for the other device are refused, except threads, which cause a notice. "auto" may become either device.
for row in '--device cuda --cpu x86-64-v3|--cpu x86-64-v3 chooses code for the CPU; the device is .cuda.' \
    '--device cuda:1 --check --cpu x86-64-v3|--cpu x86-64-v3 chooses code for the CPU; the device is .cuda:1.' \
    '--device cpu --one-by-one|--one-by-one applies to a GPU.s kernels; the device is the CPU' '--one-by-one|--one-by-one applies to a GPU.s kernels' \
    '--device-memory 5|--device-memory 5 limits a GPU.s memory; the device is the CPU'; do
    read -ra flags <<<"${row%%|*}"
    expect "${row%%|*}" 6 "error: ${row#*|}" "$RUN" "$BUNDLE" "${flags[@]}"
done
mkdir none && touch none/libcuda.so.1
export LD_LIBRARY_PATH=none
expect "threads of a GPU" 17 "notice: --threads 3 applies to the CPU's kernels; the device is 'cuda'" "$RUN" "$BUNDLE" --device cuda --threads 3
expect "quiet threads of a GPU" 17 "no NVIDIA driver" "$RUN" "$BUNDLE" --device cuda --threads 3 --quiet
check "no notice" sh -c '! grep -q notice .err'
expect "auto takes all of them" 0 '^state ' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 1 --device auto --threads 3 --cpu x86-64-v2 --device-memory 5 --one-by-one
unset LD_LIBRARY_PATH
rm -r none

# Each output is a separate file, however its path is spelt.
mkdir d
ln -s ../z d/link
cp "$BUNDLE" own.tsb
for row in '--trace z --roofline z' '--trace z --roofline ./z' "--trace z --roofline $PWD/z" '--trace d/../z --metrics z' '--record z --trace d/link' \
    '--metrics m --store-log d/../m --state-dir S' '--record z --metrics z' '--roofline z --export-params z' '--record own.tsb' '--trace ./own.tsb' \
    '--export-params own.tsb' '--metrics d/../own.tsb'; do
    read -ra flags <<<"$row"
    expect "$row" 6 "error: .* '.*' and --[a-z-]+ '.*' are one file; expected two" "$RUN" own.tsb "${DATA[@]}" --steps 3 "${flags[@]}"
done
expect "an output of a call" 6 "--metrics 'y.npy' and --output './y.npy' are one file" \
    "$RUN" own.tsb --entry predict --input "x=$DIGITS/test-images.npy" --output y=./y.npy --metrics y.npy
touch z
ln z hard
expect "the same by another name" 6 "--trace 'z' and --roofline 'hard' are one file" "$RUN" own.tsb "${DATA[@]}" --steps 3 --trace z --roofline hard
rm hard
expect "of another rank" 6 "--record 't.rank1.json' and --trace 't.rank1.json' are one file" \
    "$RUN" own.tsb "${DATA[@]}" --steps 3 --ranks 2 --trace t.json --record t.rank1.json
check "the bundle is whole" cmp own.tsb "$BUNDLE"

# No input is overwritten: by its name, a link, a link to a link, a second name, a path through a folder.
cp "$DIGITS/train-images.npy" images.npy
cp "$DIGITS/train-labels.npy" labels.npy
ln -s ../images.npy d/images.npy
ln -s d/images.npy again.npy
ln images.npy second.npy
"$RUN" own.tsb "${DATA[@]}" --steps 1 --quiet --export-params p.safetensors --record r.log >/dev/null || fail "params to read"
"$AOT" keygen -o k >/dev/null
sha256sum images.npy labels.npy p.safetensors r.log k.pub >sums
reads=(--data images=images.npy --data labels=labels.npy)
for row in '--metrics images.npy' '--record d/images.npy' '--trace again.npy' '--roofline second.npy' '--export-params d/../labels.npy' "--store-log $PWD/labels.npy --state-dir S"; do
    read -ra flags <<<"$row"
    expect "data: $row" 6 "error: --data '(images|labels).npy' and --[a-z-]+ '.*' are one file; expected two: the input would be lost" \
        "$RUN" own.tsb "${reads[@]}" --steps 1 "${flags[@]}"
done
expect "parameters" 6 "--params 'p.safetensors' and --record './p.safetensors' are one file" "$RUN" own.tsb "${reads[@]}" --steps 1 --params p.safetensors --record ./p.safetensors
expect "a log" 6 "--metrics 'd/../r.log' and --replay 'r.log' are one file" "$RUN" own.tsb "${reads[@]}" --replay r.log --metrics d/../r.log
expect "a key" 6 "--metrics 'k.pub' and --key './k.pub' are one file" "$RUN" own.tsb "${reads[@]}" --steps 1 --key ./k.pub --metrics k.pub
expect "an input of a call" 6 "--input 'images.npy' and --output 'second.npy' are one file" "$RUN" own.tsb --entry predict --input x=images.npy --output y=second.npy
"$PYTHON" - <<'EOF'
import zipfile
with zipfile.ZipFile("both.npz", "w") as out:
    for name in ("images", "labels"):
        out.write(name + ".npy")
EOF
sha256sum both.npz >>sums
expect "a member of a file" 6 "--data 'both.npz' and --metrics './both.npz' are one file" \
    "$RUN" own.tsb --data images=both.npz:images --data labels=both.npz:labels --steps 1 --metrics ./both.npz
expect "data, of a rank" 6 "--data 't.rank1.json' and --trace 't.rank1.json' are one file" \
    "$RUN" own.tsb --data images=t.rank1.json --data labels=labels.npy --steps 1 --ranks 2 --trace t.json
check "what is read is whole" sha256sum --check --quiet sums
expect "data of two members, another file" 0 '^state ' "$RUN" own.tsb --data images=both.npz:images --data labels=both.npz:labels --steps 1 --metrics other.jsonl

# Nor is the weights file that a bundle names, which is known only after the bundle was opened.
mkdir w
cp p.safetensors w/weights.safetensors
"$AOT" bake own.tsb --params w/weights.safetensors --reference -o named.tsb >/dev/null || fail "a bundle that names its weights"
ln -s ../w/weights.safetensors d/weights
ln w/weights.safetensors second.safetensors
sha256sum w/weights.safetensors >sums
named=("$RUN" named.tsb --weights-dir w)
is_one="error: the bundle's weights '(w|w2)/[a-z0-9.]+' and --[a-z-]+ '.*' are one file; expected two: the input would be lost"
for row in '--export-params w/weights.safetensors' '--metrics w/weights.safetensors' '--record d/weights' '--trace second.safetensors' \
    '--roofline d/../w/weights.safetensors' "--store-log $PWD/w/./weights.safetensors --state-dir N"; do
    read -ra flags <<<"$row"
    expect "weights: $row" 6 "$is_one" "${named[@]}" "${DATA[@]}" --steps 1 "${flags[@]}"
done
expect "weights, an export alone" 6 "$is_one" "${named[@]}" --export-params second.safetensors
expect "weights, others are read" 6 "$is_one" "${named[@]}" --params p.safetensors --export-params d/weights
expect "weights, an output of a call" 6 "$is_one" "${named[@]}" --entry predict --input "x=$DIGITS/test-images.npy" --output y=second.safetensors
cp w/weights.safetensors whole.safetensors
size=$(stat -c %s w/weights.safetensors)
printf '\n{"torn' | dd of=w/weights.safetensors bs=1 seek=$((size - 7)) conv=notrunc 2>/dev/null # a log would be cut here
expect "weights that end like a torn log" 6 "$is_one" "${named[@]}" "${DATA[@]}" --steps 1 --metrics w/weights.safetensors
check "they are not cut" test "$(stat -c %s w/weights.safetensors)" -eq "$size"
cp whole.safetensors w/weights.safetensors
mkdir w2
ln -s ../second.safetensors "w2/$(cut -d ' ' -f 1 sums)"
expect "weights, by their digest" 6 "$is_one" "$RUN" named.tsb --weights-dir w2 --export-params d/weights
cp w/weights.safetensors t.rank1.json
ln -sf ../t.rank1.json w2/weights.safetensors
rm w2/"$(cut -d ' ' -f 1 sums)"
sha256sum t.rank1.json >>sums
"$AOT" build "$DIGITS/digits.mlir" --target cpu:x86-64-v2 --virtual-ranks 2 --params w/weights.safetensors --reference -o ranks.tsb >/dev/null || fail "a bundle for ranks"
expect "weights, of a rank" 6 "$is_one" "$RUN" ranks.tsb --weights-dir w2 "${DATA[@]}" --steps 1 --ranks 2 --trace t.json
check "weights are whole" sha256sum --check --quiet sums
check "nothing was saved" test ! -e N
expect "beside them" 0 '^state ' "${named[@]}" "${DATA[@]}" --steps 1 --export-params w/trained.safetensors --trace w/t.json
check "both are there" test -s w/trained.safetensors -a -s w/t.json
rm again.npy second.npy d/images.npy
expect "what is no file" 0 '^state ' "$RUN" own.tsb "${DATA[@]}" --steps 1 --metrics /dev/null --store-log /dev/null --state-dir S --trace z --roofline d/z
check "both are written" grep -q -e traceEvents -e kernel z d/z

# Steps to trace that are outside the run.
for row in '9:12|and none is traced' '3:12|and no others are traced'; do
    expect "trace steps ${row%%|*}" 0 "notice: --trace-steps is '${row%%|*}'; the run has steps 1 to 4, ${row#*|}" \
        "$RUN" own.tsb "${DATA[@]}" --steps 4 --trace z --trace-steps "${row%%|*}"
done
expect "trace steps before the run" 0 "notice: --trace-steps is '1:1'; the run has steps 2 to 4, and none is traced" \
    "$RUN" own.tsb "${DATA[@]}" --steps 4 --state-dir S --trace z --trace-steps 1:1
expect "steps of the run" 0 '^state ' "$RUN" own.tsb "${DATA[@]}" --steps 4 --trace z --trace-steps 2:4
check "no notice of them" sh -c '! grep -q trace-steps .err'
rm -r S

# A closed or full standard output.
"$RUN" --help >&- 2>.err
if [ $? -ne 7 ] || ! grep -q 'cannot write to standard output' .err; then fail "closed stdout"; fi
"$RUN" "$BUNDLE" "${DATA[@]}" "${TEST_DATA[@]}" --steps 3 --quiet >/dev/full 2>.err
if [ $? -ne 7 ] || ! grep -q 'cannot write to standard output' .err; then fail "full stdout"; fi
checks=$((checks + 2))

# Output to closed streams is dropped, and never written to a file that the run opens.
"$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --metrics m.jsonl --record run.log --state-dir S <&- >&- 2>&-
[ $? -eq 7 ] || fail "closed streams: another exit code"
check "the record is whole" "$RUN" "$BUNDLE" "${DATA[@]}" --replay run.log
check "the metrics are whole" sh -c 'test "$(grep -c "^{.*}$" m.jsonl)" -eq "$(wc -l <m.jsonl)"'
check "the state is whole" "$RUN" fsck S
checks=$((checks + 1))
finish
