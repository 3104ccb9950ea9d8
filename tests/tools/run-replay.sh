#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Record and replay: every digest, and the first step, tensor and element that differ; on any number of ranks.
. "$(dirname "$0")/common.sh"

LOG=$ROOT/tests/tools/replay_log.py
train() { "$RUN" "$BUNDLE" "${DATA[@]}" --quiet "$@"; }

expect "record" 0 'step 60' train --steps 60 --seed 3 --record run.log
recorded=$(state_of .out)
check "a line a step, the start and the header" test "$(wc -l <run.log)" -eq 62
expect "replay" 0 'replay matches: 60 steps' train --replay run.log
[ "$(state_of .out)" = "$recorded" ] || fail "a replay ends with another state"
for threads in 1 2 5; do expect "replay with $threads threads" 0 'matches: 60' train --replay run.log --threads $threads; done
expect "another seed" 13 "step 0, tensor 'layer1.weight', several of elements 0 to 1023: recorded [0-9a-f]+, replayed" train --replay run.log --seed 4
expect "never overwritten" 6 'run.log' train --steps 60 --record run.log

# One digit of one digest is changed: step 17 is line 19; its chain reveals it. Version 1 has no chain, so the step and the tensor are named.
sed '19s/\(\["[0-9a-f]\{64\}","[0-9a-f]\{64\}","\)\(.\)/\1x\2/; 19s/x[0-8]/9/; 19s/x[9a-f]/0/' run.log >tampered.log
check "tampered" sh -c '! cmp -s run.log tampered.log'
expect "tampered log" 8 "line 19: the chain is [0-9a-f]+; the lines before it give" train --replay tampered.log
name=$(sed -n '1s/.*"tensors":\[\(.*\)\]}/\1/p' run.log | cut -d, -f3 | tr -d '"')
sed '1s/record.v5/record.v1/; s/,"sums".*/}/' tampered.log >first.log
expect "tampered log of version 1" 13 "step 17, tensor '$name': recorded" train --replay first.log
sed '1s/record.v5/record.v1/; 1s/"batch images","batch labels",//; s/"digests":\["[0-9a-f]*","[0-9a-f]*",/"digests":[/; s/,"sums".*/}/' \
    run.log >first.log
expect "a log of version 1" 0 'replay matches: 60 steps' train --replay first.log
"$PYTHON" "$LOG" run.log foreign.log --header "$(grep -o '"program":"..' run.log)" '"program":"00'
expect "another program's log" 12 'this bundle has program [0-9a-f]+; the log was recorded with 00' train --replay foreign.log
"$PYTHON" "$LOG" run.log rebuilt.log --header "$(grep -o '"bundle":"..' run.log)" '"bundle":"00'
expect "another bundle's log of this program" 0 'replay matches: 60 steps' train --replay rebuilt.log
"$PYTHON" "$LOG" run.log older.log --header "$(grep -o '"bundle":"..' run.log)" '"bundle":"00'
sed -i '1s/record.v5/record.v4/; s/,"chain".*/}/; s/,"sums".*/}/; 1s/record.v4/record.v1/' older.log
expect "another bundle's log of an older version" 12 'this bundle has hash [0-9a-f]+; the log was recorded with 00' train --replay older.log
head -c -1 "$DIGITS/train-labels.npy" >changed.npy && printf "\001" >>changed.npy
expect "other data" 12 'data labels has hash' "$RUN" "$BUNDLE" --quiet --data "images=$DIGITS/train-images.npy" \
    --data labels=changed.npy --replay run.log
"$PYTHON" "$LOG" run.log fewer.log --header "$(grep -o ',"labels":"[0-9a-f]*"' run.log)" ''
expect "a log without one of the data sets" 12 "recorded without data 'labels'" train --replay fewer.log
sed '1s/"seed":3/"seed":4294967299/' run.log >seed.log
expect "a seed of 33 bits" 8 'line 1: seed is 4294967299; expected at most 4294967295' train --replay seed.log
sed '30d' run.log >gap.log
expect "a line is missing" 8 'line 30: step is 29; expected 28' train --replay gap.log
printf 'nonsense\n' >nonsense.log
expect "no log" 8 'nonsense.log' train --replay nonsense.log
expect "missing log" 7 'missing.log' train --replay missing.log
head -c -20 run.log >cut.log
expect "the last line is unfinished" 0 'matches: 59 steps' train --replay cut.log

# A recording of one rank can be replayed by any number; runs that differ in one element of the batch, of a collective's result, of the state.
check "8 virtual ranks" "$AOT" build "$DIGITS/digits.mlir" -o ranks.tsb --virtual-ranks 8
several() { "$RUN" ranks.tsb "${DATA[@]}" --quiet "$@"; }
expect "one rank" 0 'step 12' several --steps 12 --record one.log
expect "two ranks" 0 'step 12' several --steps 12 --record two.log --ranks 2
check "equal logs" cmp one.log two.log
for ranks in 2 3 8; do expect "replay with $ranks ranks" 0 'matches: 12' several --replay one.log --ranks $ranks; done
# planted WHAT STEP TENSOR COUNT ELEMENT WAS REGEX: replays the changed log on one rank and on two.
planted() {
    local name
    name=$("$PYTHON" "$LOG" one.log planted.log "$2" "$3" "$4" "$5" "$6")
    expect "$1, one rank" 13 "step $2, tensor '$name', element $5: $7" several --replay planted.log
    expect "$1, two ranks" 13 "step $2, tensor '$name', element $5: $7" several --replay planted.log --ranks 2
}
planted 'a pixel, of a corner that is empty' 7 'batch images' 4096 4032 0 "recorded 1, replayed 0; region 'train'\$"
planted 'a sum over the virtual ranks' 5 'sum 1' 1 0 alone "recorded [0-9.]+, replayed [0-9.]+; region 'train', at digits.mlir:[0-9]+:[0-9]+\$"
planted 'what begins as 0' 0 'layer3.weight.adam_m' 640 77 0 "recorded 1.40129846e-45, replayed 0; region 'train', at digits.mlir:[0-9]+:[0-9]+\$"
"$PYTHON" "$LOG" one.log planted.log 0 'layer2.weight.adam_v' 8192 4100 0 >.out
"$PYTHON" "$LOG" planted.log planted2.log 0 'layer2.weight.adam_v' 8192 4107 0 >.out
expect "two of a tensor" 13 "step 0, tensor 'layer2.weight.adam_v', several of elements 4096 to 5119: recorded" several --replay planted2.log
# A second recording with the values of that step names the first differing element; here the first of all elements, with another seed.
expect "recorded with values" 0 'step 60' train --steps 60 --seed 3 --record values.log --record-values 0
expect "replayed with values" 0 'matches: 60 steps' train --replay values.log --threads 2
check "but for them it is the same log" cmp <(sed '1s/.*//; s/,"values":\[[^]]*\]//; s/,"chain":"[0-9a-f]*"//' values.log) \
    <(sed '1s/.*//; s/,"chain":"[0-9a-f]*"//' run.log)
checks=$((checks + 1))
first=$("$PYTHON" - values.log <<'END'
import json, struct, sys
header, line = [json.loads(text) for text in open(sys.argv[1]).read().splitlines()[:2]]
print(f'{struct.unpack("<f", bytes.fromhex(line["values"][header["tensors"].index("layer1.weight")])[:4])[0]:.9g}')
END
)
[ -n "$first" ] || fail 'no value'
expect "the first of several" 13 "step 0, tensor 'layer1.weight', element 0: recorded $first, replayed -?[0-9.e-]+; region 'train', at digits.mlir:[0-9]+:[0-9]+$" train --replay values.log --seed 4
expect "values on two ranks" 0 'step 5' several --steps 5 --record v2.log --record-values 4 --ranks 2
expect "and on one" 0 'step 5' several --steps 5 --record v1.log --record-values 4
check "equal logs with values" cmp v1.log v2.log
sed '6s/,"values":\["\(.\)/,"values":["x\1/' v1.log >bad.log
expect "values that are no bytes" 8 "line 6: the digest of tensor 'batch images' does not match its recorded values" several --replay bad.log
sed '6s/,"values":\["0*[1-9a-f]/,"values":["00/' v1.log >bad.log
expect "other values" 8 "line 6: the digest of tensor 'batch images' does not match its recorded values" several --replay bad.log
sed '6s/,"values":\["[0-9a-f]*",/,"values":[/' v1.log >bad.log
expect "values of too few" 8 'line 6: values of [0-9]+ tensors; expected [0-9]+' several --replay bad.log
sed '1s/,"values_of":4//' v1.log >bad.log
expect "values of no step" 8 "line 2: the chain is" several --replay bad.log
expect "values of a step that did not come" 0 "the log 'few.log' ends with step 5; it has no values of step 9" train --steps 5 --record few.log --record-values 9
expect "every 4th step is recorded" 0 'step 10' train --steps 10 --seed 3 --record every.log --record-every 4
check "the log has steps 0, 4, 8" test "$(grep -o '^{"step":[0-9]*' every.log | tr '\n' ' ')" = '{"step":0 {"step":4 {"step":8 '
train --steps 10 --seed 3 --record each.log >/dev/null
for step in 4 8; do
    check "step $step has the digests of a log of each step" test "$(grep -o "^{\"step\":$step,.*\"chain" every.log)" = "$(grep -o "^{\"step\":$step,.*\"chain" each.log)"
done
expect "the steps of such a log are compared" 0 'replay matches: 8 steps' train --replay every.log
expect "another seed differs where the log has a step" 13 'step 0, tensor' train --seed 4 --replay every.log
expect "every 4th step on two ranks" 0 'step 10' several --steps 10 --seed 3 --record e2.log --record-every 4 --ranks 2
expect "and on one" 0 'step 10' several --steps 10 --seed 3 --record e1.log --record-every 4
check "the logs are equal" cmp e1.log e2.log
expect "values of a step between" 6 'has one of 4 steps, from step 0; the values of step 6 are requested' \
    train --steps 9 --record none.log --record-every 4 --record-values 6
expect "an interval without a log" 6 'every 4 steps are to be recorded, but no log is written' train --steps 9 --record-every 4
"$PYTHON" "$LOG" every.log every0.log --header '"every":4' '"every":0'
expect "an interval of 0 in a log" 8 'every is 0; expected at least 1' train --replay every0.log
"$PYTHON" "$LOG" every.log every3.log --header '"every":4' '"every":3'
expect "another interval in a log" 8 'step is 4; expected 3' train --replay every3.log
expect "values without a log" 6 'values of step 4 are requested, but no log is written' train --steps 9 --record-values 4
# Other data, although the log's header names them: one pixel of an image differs, and the batch that draws it is found.
head -c -1 "$DIGITS/train-images.npy" >pixel.npy && printf '\020' >>pixel.npy
cmp -s pixel.npy "$DIGITS/train-images.npy" && fail 'the pixel is another one'
digest() { "$RUN" ranks.tsb --data "images=$1" --data "labels=$DIGITS/train-labels.npy" --quiet --steps 1 --record "$2" >.out &&
    grep -o '"images":"[0-9a-f]*"' "$2"; }
digest "$DIGITS/train-images.npy" d1.log >.out
digest pixel.npy d2.log >.out
expect "an epoch and more" 0 'step 30' several --steps 30 --record long.log
"$PYTHON" "$LOG" long.log other.log --header "$(grep -o '"images":"[0-9a-f]*"' d1.log)" "$(grep -o '"images":"[0-9a-f]*"' d2.log)"
expect "a pixel of the data" 13 "step [0-9]+, tensor 'batch images', element [0-9]+: recorded 0, replayed 16; region 'train'$" "$RUN" ranks.tsb --quiet \
    --data images=pixel.npy --data "labels=$DIGITS/train-labels.npy" --replay other.log --ranks 2

# Ranks that each have a part of the state.
sed -e 's/^module @digits {/module @digits attributes {tessera.mesh = {data = 8}} {/' \
    -e 's/weight_decay = 3.0e-1>}/weight_decay = 3.0e-1>, tessera.opt.shard = #tessera.opt.shard<axis = "data">, tessera.opt.partition = #tessera.opt.partition<"zero3">}/' \
    "$DIGITS/digits.mlir" >spread.mlir
check "a state in parts" "$AOT" build spread.mlir -o ranks.tsb
expect "parts, one rank" 0 'step 6' several --steps 6 --record parts.log
expect "parts, three ranks" 0 'step 6' several --steps 6 --record three.log --ranks 3
check "equal logs of parts" cmp parts.log three.log
expect "parts, replayed by four" 0 'matches: 6' several --replay parts.log --ranks 4
# If each rank has a part of the sums, the sums are those that all ranks have without parts, possibly in another order.
digests_of() { # LOG NAME: of the tensors whose names begin with NAME, in step 3
    "$PYTHON" -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
print("\n".join(sorted(d for n, d in zip(lines[0]["tensors"], lines[4]["digests"]) if n.startswith(sys.argv[2]))))' "$1" "$2"
}
digests_of parts.log 'reduce_scatter ' >parts.sums
checks=$((checks + 1))
[ "$(sort -u parts.sums | wc -l)" -eq 6 ] || fail "six parameters have six sums: $(cat parts.sums)"
checks=$((checks + 1))
digests_of one.log 'sum ' | comm -13 - parts.sums | grep -q . && fail "sums in parts that are none of those that are whole"
name=$("$PYTHON" "$LOG" parts.log planted.log 4 'reduce_scatter 6' 8192 4100 0)
for ranks in 1 3; do expect "a sum in parts differs" 13 "step 4, tensor '$name', element 4100: recorded 1.40129846e-45, replayed 0; region 'train', at spread.mlir:[0-9]+:[0-9]+$" several --replay planted.log --ranks $ranks; done
"$PYTHON" "$LOG" parts.log older.log --without 'reduce_scatter ' >.out
expect "a log from before such sums were tracked" 0 'matches: 6' several --replay older.log --ranks 2
"$PYTHON" "$LOG" parts.log fewer.log --without 'layer1.bias' >.out
expect "a log without a tensor of the state" 12 "tracks tensor 'layer1.weight'; this program has 'layer1.bias'" several --replay fewer.log
"$PYTHON" "$LOG" parts.log fewer.log --without 'output loss' >.out
expect "a log without an output" 12 "tracks tensor ''; this program has 'output loss'" several --replay fewer.log

# A recording that begins at a resumed generation.
expect "first part" 0 '' train --steps 40 --state-dir S --seed 3
expect "recorded second part" 0 '' train --steps 60 --state-dir S --record second.log
expect "values of a step before" 6 "the log 'third.log' begins with step 60; the values of step 59 are requested" \
    train --steps 70 --state-dir S --record third.log --record-values 59
expect "replay needs the state" 6 'begins at step 40' train --replay second.log
expect "replay from a state" 0 'matches: 20 steps' train --replay second.log --state-dir S

# ---- calls ----

check "parameters" train --steps 20 --state-dir P
predict() { "$RUN" "$BUNDLE" --entry predict --quiet --state-dir P --input "x=$DIGITS/test-images.npy" "$@"; }
check "calls that are recorded" predict --output y=y.npy --record calls.log
check "the output is written, too" test -s y.npy
check "a line for each batch of 64 of the 359 rows, the beginning and the header" test "$(wc -l <calls.log)" -eq 8
expect "calls that are replayed" 0 'replay matches: 6 calls, every digest equal' predict --replay calls.log
expect "with another number of threads" 0 'replay matches: 6 calls' predict --replay calls.log --threads 1
expect "a log is never overwritten" 6 'calls.log' predict --record calls.log
expect "other inputs" 12 'the hash of input x is [0-9a-f]+; the log was recorded with' \
    "$RUN" "$BUNDLE" --entry predict --quiet --state-dir P --input "x=$DIGITS/train-images.npy" --replay calls.log
expect "other parameters" 12 'the hash of parameters is [0-9a-f]+; the log was recorded with' \
    "$RUN" "$BUNDLE" --entry predict --quiet --input "x=$DIGITS/test-images.npy" --replay calls.log
expect "another seed" 12 'this call has seed 5; the log was recorded with 0' predict --replay calls.log --seed 5
expect "a log of training" 12 "this call runs entry 'predict'; the log was recorded with 'train'" predict --replay run.log
"$LOG" calls.log bent.log 2 'output y' 640 77 0 >.out
expect "an output that differs" 13 "step 2, tensor 'output y'.*: recorded [0-9a-f]+, replayed [0-9a-f]+; region 'predict', at digits.mlir:[0-9]+:[0-9]+" \
    predict --replay bent.log
"$LOG" calls.log bent.log 3 'input x' 4096 4032 0 >.out
expect "an input that differs" 13 "step 3, tensor 'input x', element 4032: recorded 1, replayed 0; region 'predict'$" predict --replay bent.log
head -n 5 calls.log >short.log
expect "a log of fewer calls" 8 'has no step 4; it contains steps 0 to 3' predict --replay short.log
check "with the values of a call" predict --record values2.log --record-values 2
expect "are replayed" 0 'replay matches: 6 calls' predict --replay values2.log
expect "values without a log" 6 'values of call 2 are requested, but no log is written' predict --output y=z.npy --record-values 2
expect "both" 6 'either recorded or replayed' predict --record new.log --replay calls.log
cat >again.mlir <<'END'
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
  %r = tessera.random_normal : tensor<4xf32>
  %y = tessera.add %x, %r : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}
END
check "an entry that draws" "$AOT" build again.mlir -o again.tsb --target cpu:x86-64-v2
head -c 16 /dev/zero >zero.bin
again() { "$RUN" again.tsb --entry f --quiet --input x=zero.bin --repeat "$@"; }
check "repeated calls" again 5 --record again.log --seed 3
expect "the same" 0 'replay matches: 5 calls' again 5 --replay again.log --seed 3
expect "fewer" 13 '4 calls were made; the log was recorded with 5' again 4 --replay again.log --seed 3
finish
