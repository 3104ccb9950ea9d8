#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Record and replay: every digest, and the first step and tensor that differ.
. "$(dirname "$0")/common.sh"

train() { "$RUN" "$BUNDLE" "${DATA[@]}" --quiet "$@"; }

expect "record" 0 'step 60' train --steps 60 --seed 3 --record run.log
recorded=$(state_of .out)
check "a line a step, the start and the header" test "$(wc -l <run.log)" -eq 62
expect "replay" 0 'replay matches: 60 steps' train --replay run.log
[ "$(state_of .out)" = "$recorded" ] || fail "a replay ends with another state"
for threads in 1 2 5; do expect "replay with $threads threads" 0 'matches: 60' train --replay run.log --threads $threads; done
expect "another seed" 13 "step 0, tensor 'layer1.weight': recorded [0-9a-f]+, replayed" train --replay run.log --seed 4
expect "never overwritten" 6 'run.log' train --steps 60 --record run.log

# One digit of one digest: step 17 is line 19; the digests are in the order of the header's names.
sed '19s/\(\["[0-9a-f]\{64\}","[0-9a-f]\{64\}","\)\(.\)/\1x\2/; 19s/x[0-8]/9/; 19s/x[9a-f]/0/' run.log >tampered.log
check "tampered" sh -c '! cmp -s run.log tampered.log'
name=$(sed -n '1s/.*"tensors":\[\(.*\)\]}/\1/p' run.log | cut -d, -f3 | tr -d '"')
expect "tampered log" 13 "step 17, tensor '$name'" train --replay tampered.log
sed '1s/"bundle":"../"bundle":"00/' run.log >foreign.log
expect "another bundle's log" 12 'this bundle has hash [0-9a-f]+; the log was recorded with 00' train --replay foreign.log
head -c -1 "$DIGITS/train-labels.npy" >changed.npy && printf "\001" >>changed.npy
expect "other data" 12 'data labels has hash' "$RUN" "$BUNDLE" --quiet --data "images=$DIGITS/train-images.npy" \
    --data labels=changed.npy --replay run.log
sed '1s/,"labels":"[0-9a-f]*"//' run.log >fewer.log
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

# A record that begins at a resumed generation.
expect "first part" 0 '' train --steps 40 --state-dir S --seed 3
expect "recorded second part" 0 '' train --steps 60 --state-dir S --record second.log
expect "replay needs the state" 6 'begins at step 40' train --replay second.log
expect "replay from a state" 0 'matches: 20 steps' train --replay second.log --state-dir S
finish
