#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --keep-best and --stop-after: which generation is kept, what resuming knows of it, what ends a run, what is refused. The values are compared with those that the
# evaluations print.
. "$(dirname "$0")/common.sh"

train() { "$RUN" "$BUNDLE" "${DATA[@]}" --quiet "$@"; }
judged() { train "${TEST_DATA[@]}" --eval-every 20 "$@"; }
# best_of FILE: step and loss of the least loss among the evaluations that were printed, as "80 0.449012".
best_of() { sed -n 's/^eval step \([0-9]*\) loss \([0-9.]*\) .*/\2 \1/p' "$1" | sort -g | head -n 1 | sed 's/\(.*\) \(.*\)/\2 \1/'; }
# told_of FILE: the same of the line about the best generation.
told_of() { sed -n 's/^best min:evaluate.loss \([0-9.e-]*\) at step \([0-9]*\), generation.*/\2 \1/p' "$1" | tail -n 1 | { read -r step loss && printf '%s %.6f' "$step" "$loss"; }; }
generations() { "$RUN" ls "$1" | sed -n 's/^generation \([0-9]*\) .* step \([0-9]*\) .*/\1:\2/p' | tr '\n' ' '; }

# ---- the best generation ----

check "four hundred steps" judged --steps 400 --save-every 20 --state-dir S --keep-best min:loss --metrics S.jsonl
cp .out whole.out
[ "$(best_of .out)" = "$(told_of .out)" ] || fail "the best evaluation is '$(best_of .out)', and the run tells '$(told_of .out)'"
read -r step _ < <(best_of .out)
[ "$step" != 400 ] || fail "the last step is the best: the case shows nothing"
expect "the state has it" 0 "^generation [0-9]+ epoch 1 step $step .* good, best min:evaluate.loss 0\.[0-9]*$" "$RUN" ls S
expect "fsck tells" 0 "the best by min:evaluate.loss: 0\.[0-9]* at step $step$" "$RUN" fsck S
expect "JSON tells" 0 "\"best\":\{\"metric\":\"min:evaluate.loss\",\"evaluatedStep\":400,\"withoutGain\":[0-9]*,\"generation\":[0-9]*,\"epoch\":1,\"step\":$step," "$RUN" ls S --json
[ "$(grep -c '"event":"best"' S.jsonl)" = 20 ] || fail "there are not 20 events of 20 evaluations"
grep -q '"event":"save".*"best":true' S.jsonl || fail "no save was the best"
check "prune" "$RUN" prune S --keep 2
[ "$(generations S | wc -w)" = 3 ] || fail "pruned to '$(generations S)'; expected the newest two and the best"
check "its parameters" "$RUN" "$BUNDLE" --state-dir S --resume best --export-params best.safetensors --quiet
check "those of its number" "$RUN" export S -o same.safetensors --generation "$(generations S | tr ' ' '\n' | sed -n "s/:$step\$//p")"
"$PYTHON" - best.safetensors same.safetensors <<'PY' || fail "--resume best is another generation"
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    return {k: data[8 + size + v["data_offsets"][0]:8 + size + v["data_offsets"][1]] for k, v in head.items() if k != "__metadata__"}
a, b = map(read, sys.argv[1:])
assert a and all(a[k] == b[k] for k in a)
PY
expect "a call with it" 0 '' "$RUN" "$BUNDLE" --entry predict --state-dir S --resume best --input "x=$DIGITS/test-images.npy" --output y=y.npy
# It costs no bit, and saves at gains alone where nothing else asks for a save.
check "without it" judged --steps 400
[ "$(state_of .out)" = "$(state_of whole.out)" ] || fail "--keep-best changes the state"
check "saves at gains" judged --steps 100 --state-dir G --keep-best max:accuracy
expect "the best accuracy" 0 'good, best max:evaluate.accuracy 0\.9[0-9]*$' "$RUN" ls G
check "the training loss" train --steps 100 --eval-every 10 --state-dir L --keep-best min:loss
expect "is the metric where nothing is evaluated" 0 'good, best min:train.loss 0\.[0-9]*$' "$RUN" ls L
check "of both" judged --steps 40 --state-dir T --keep-best min:train.loss
expect "the one that is named" 0 '"metric":"min:train.loss"' "$RUN" ls T --json

# ---- resuming ----

check "one run" judged --steps 300 --save-every 10 --state-dir one --keep-best min:loss
cp .out one.out
for stop in 30 150 170 220; do
    check "to $stop" judged --steps $stop --save-every 10 --state-dir "two" --keep-best min:loss
    told=$(told_of .out)
    expect "right after resuming from $stop" 0 "^best min:evaluate.loss .* at step ${told% *}, generation" judged --steps $((stop + 1)) --state-dir two
done
"$RUN" "$BUNDLE" "${DATA[@]}" "${TEST_DATA[@]}" --quiet --eval-every 20 --steps 100000 --save-every 10 --state-dir two >/dev/null 2>&1 &
run=$!
sleep 0.4
kill -KILL $run && wait $run 2>/dev/null
expect "after a kill nothing is damaged" 0 ' 0 damaged' "$RUN" fsck two
expect "and the best is known" 0 'the best by min:evaluate.loss: ' "$RUN" fsck two
for ranks in 1 3; do
    check "4 virtual ranks on $ranks: build" "$AOT" build "$DIGITS/digits.mlir" -o ranks.tsb --target=cpu:x86-64-v3 --virtual-ranks 4
    check "$ranks ranks" "$RUN" ranks.tsb "${DATA[@]}" "${TEST_DATA[@]}" --quiet --eval-every 20 --steps 60 --ranks $ranks --state-dir "R$ranks" --keep-best min:loss
    grep '^best\|^state' .out >"ranks$ranks.out"
done
cmp ranks1.out ranks3.out || fail "ranks keep another best generation"
cp -a one other
expect "another metric" 0 'notice: generation [0-9]+ keeps the best by min:evaluate.loss; this run keeps the best by max:evaluate.accuracy$' \
    "$RUN" "$BUNDLE" "${DATA[@]}" "${TEST_DATA[@]}" --eval-every 20 --steps 340 --state-dir other --keep-best max:accuracy
expect "from now on" 0 'good, best max:evaluate.accuracy ' "$RUN" ls other
expect "none any more" 0 'keeps the best by max:evaluate.accuracy; this run keeps none$' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 350 --state-dir other --keep-best none
"$RUN" ls other | grep -q best && fail "there is a best generation after --keep-best none"

# The state says of which entry the output is: a run without the data of the evaluation does not compare with a loss of training, which is lower.
best_line() { "$RUN" ls "$1" | grep ' good, best '; }
best_line one >saved.out
for steps in 310 330; do
    expect "$steps steps without the data of the evaluation" 0 "notice: the state keeps the best generation, but nothing is judged: the metric is 'min:evaluate.loss'; this run has train.loss, and no data is bound to an evaluation$" \
        "$RUN" "$BUNDLE" "${DATA[@]}" --steps $steps --save-every 5 --state-dir one
    best_line one >.out
    holds "the best generation stays" cmp .out saved.out
done
expect "judged again" 0 "^best min:evaluate.loss $(sed 's/.* good, best min:evaluate.loss //' saved.out) at step " judged --steps 331 --state-dir one
expect "the other loss is another metric" 0 'notice: generation [0-9]+ keeps the best by min:train.loss; this run keeps the best by min:evaluate.loss$' \
    "$RUN" "$BUNDLE" "${DATA[@]}" "${TEST_DATA[@]}" --eval-every 20 --steps 140 --state-dir L --keep-best min:loss --stop-after 5
cp .out other.out
expect "and is judged" 0 '^best min:evaluate.loss 0\.[0-9]* at step 1[0-4]0, generation ' cat other.out

# ---- stopping ----

check "a run that learns nothing" judged --steps 2000 --save-every 100 --state-dir E --keep-best min:accuracy --stop-after 3
cp .out stop.out
expect "says why it stopped" 0 '^stopped at step 80: 3 evaluations in a row without gain, --stop-after is 3$' cat stop.out
expect "has saved" 0 '^generation 2 epoch 1 step 80 ' "$RUN" ls E
expect "the same command does nothing more" 0 '^stopped at step 80: 3 evaluations' judged --steps 2000 --state-dir E --stop-after 3
grep -q '^eval' .out && fail "it has trained"
expect "the count continues" 0 '^stopped at step 120: 5 evaluations' judged --steps 2000 --state-dir E --stop-after 5
check "the count, interrupted" judged --steps 50 --state-dir F --keep-best min:accuracy --stop-after 3
expect "is part of the state" 0 '^stopped at step 60: ' judged --steps 2000 --state-dir F --stop-after 3

# ---- what is refused ----

for metric in loss min: max: mean:loss 'min:' min "min:$(printf 'x%.0s' {1..70})"; do
    expect "the metric '$metric'" 6 "the metric is '$metric'; expected min:NAME or max:NAME" judged --steps 20 --state-dir B --keep-best "$metric"
done
expect "an empty metric" 6 '--keep-best is empty' judged --steps 20 --state-dir B --keep-best ''
expect "an unknown output" 6 "the metric is 'min:lost'; this run has evaluate.loss, evaluate.accuracy, train.loss$" judged --steps 20 --state-dir B --keep-best min:lost
expect "one of an evaluation without data" 6 "the metric is 'max:accuracy'; this run has train.loss, and no data is bound to an evaluation$" train --steps 20 --state-dir B --keep-best max:accuracy
[ ! -e B ] || fail "a refused run has made a state directory"
expect "no state directory" 6 '[-]-keep-best needs --state-dir' judged --steps 20 --keep-best min:loss
expect "no metric" 6 'to stop after 3 evaluations without gain needs the metric of the best generation: --keep-best' judged --steps 20 --state-dir B --stop-after 3
expect "none, and stopping" 6 'cannot stop after 3 evaluations without gain: no best generation is kept' judged --steps 20 --state-dir B --keep-best none --stop-after 3
for count in 0 x -1; do
    expect "--stop-after $count" 6 "[-]-stop-after is '$count'; expected a number from 1" judged --steps 20 --state-dir B --keep-best min:loss --stop-after $count
done
expect "in a replay" 6 '[-]-keep-best does not apply to a replay' train --replay none.log --state-dir B --keep-best min:loss
expect "evaluations without their data" 6 'evaluation every 5 steps needs an eval entry with its data bound' train --steps 20 --state-dir B --eval-every 5
expect "no metric on ranks" 6 'to stop after 3 evaluations without gain needs the metric' "$RUN" ranks.tsb "${DATA[@]}" --quiet --steps 20 --ranks 2 --state-dir B --stop-after 3
[ ! -e B ] || fail "a refused run has made a state directory"
check "five steps" train --steps 5 --state-dir N
find N one | sort >before.out
for options in '--stop-after 3' '--eval-every 5' '--eval-every 5 --keep-best none'; do
    read -r -a options <<<"$options"
    expect "a state without a metric: ${options[*]}" 6 'evaluation' train --steps 20 --state-dir N "${options[@]}"
done
expect "a state with one that is not judged" 6 "nothing is judged: the metric is 'min:evaluate.loss'; this run has train.loss" "$RUN" "$BUNDLE" "${DATA[@]}" --steps 500 --state-dir one --stop-after 3
find N one | sort >.out
holds "a refused run changes no state directory" cmp .out before.out
check "a state with a metric of training" train --steps 60 --eval-every 5 --state-dir T --stop-after 50
expect "no best generation" 10 'names no best generation: --keep-best was not given' "$RUN" "$BUNDLE" --state-dir N --resume best --export-params x.safetensors --quiet
mkdir -p empty
expect "no state" 10 'it is not a state directory' "$RUN" "$BUNDLE" --state-dir empty --resume best --export-params x.safetensors --quiet
number=$(generations S | tr ' ' '\n' | sed -n "s/:$step\$//p")
cp -a S hollow && rm -r "hollow/gen/1-$number"
expect "a best generation without data" 10 "generation $number cannot be resumed: it is damaged; the others are: [0-9]+, [0-9]+$" "$RUN" "$BUNDLE" --state-dir hollow --resume best --export-params x.safetensors --quiet
expect "a run continues without it" 0 "warning: generation $number, the best by min:evaluate.loss, is not usable: .*; the next evaluation becomes the best" judged --steps 420 --state-dir hollow
expect "and the next evaluation is the best" 0 'good, best min:evaluate.loss 0\.[0-9]*$' "$RUN" ls hollow --verify
cp -a S broken && rm "broken/MANIFEST.$number.1"
expect "a best generation that is gone" 10 'the best by min:evaluate.loss: ' "$RUN" ls broken
expect "fsck" 10 'the best by min:evaluate.loss, is damaged: ' "$RUN" fsck broken
expect "--resume best" 10 'MANIFEST' "$RUN" "$BUNDLE" --state-dir broken --resume best --export-params x.safetensors --quiet
expect "a run continues" 0 "warning: generation [0-9]+, the best by min:evaluate.loss, is not usable: " judged --steps 420 --state-dir broken
finish
