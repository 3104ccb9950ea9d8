#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several ranks: the same bits for any number of them, saved by one number and resumed by others; ranks that die or hang.
. "$(dirname "$0")/common.sh"

# States are stored in memory if possible, since ranks are tested here, not a disk.
STATES=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d -p "$WORK")
trap 'rm -rf "$WORK" "$STATES"' EXIT

build() { "$AOT" build "$DIGITS/digits.mlir" --target cpu:x86-64-v3 "$@"; }
train() { "$RUN" ranks.tsb "${DATA[@]}" --quiet "$@"; }
launch() { exec "$RUN" ranks.tsb "${DATA[@]}" --quiet "$@"; } # followed by `&`, so that $! is the launcher
now_ms() { echo $(($(date +%s%N) / 1000000)); }
ranks_of() { pgrep -P "$1"; } # in the order of their start
wait_for_step() { # FILE STEP
    local tries=0
    until grep -q "\"step\":$2," "$1" 2>/dev/null || [ $((tries += 1)) -gt 1000 ]; do sleep 0.02; done
}

check "eight virtual ranks" build -o ranks.tsb --virtual-ranks 8
train --steps 40 >alone.out
expected=$(state_of alone.out)
for w in 1 2 3 4 8; do
    expect "$w ranks: the same bits" 0 "^state $expected step 40" train --steps 40 --ranks $w --threads 1
done
expect "the evaluation too" 0 'accuracy' "$RUN" ranks.tsb "${DATA[@]}" "${TEST_DATA[@]}" --steps 20 --ranks 2 --eval-every 10

expect "saved by two" 0 'step 20' train --steps 20 --ranks 2 --state-dir "$STATES/S"
expect "each its part" 0 '^2$' sh -c "ls '$STATES/S'/gen/*/segment.* | wc -l"
expect "resumed by four" 0 'step 30 generation 2' train --steps 30 --ranks 4 --state-dir "$STATES/S"
expect "resumed by one: as if undisturbed" 0 "^state $expected step 40 generation 3" train --steps 40 --state-dir "$STATES/S"
expect "recorded by two" 0 'step 12' train --steps 12 --ranks 2 --record log
expect "replayed by four" 0 'replay matches' train --replay log --ranks 4
expect "replayed by one" 0 'replay matches' train --replay log
"$PYTHON" "$ROOT/tests/tools/replay_log.py" log bent 7 'sum 1' 1 0 alone >.out
for w in 1 3 8; do
    expect "$w ranks name what differs" 13 "step 7, tensor 'sum 1 at digits.mlir:[0-9:]+', element 0: recorded" train --replay bent --ranks $w
done

expect "more ranks than virtual ones" 6 'error: 9 ranks for 8 virtual ranks' train --steps 9 --ranks 9
checks=$((checks + 1))
[ "$(wc -l <.err)" -eq 1 ] || fail "it is said once"
little() { (ulimit -f 100 && train "$@"); }
expect "too little memory to share" 15 'cannot take [0-9]+ bytes for 2 ranks to share' little --steps 9 --ranks 2
expect "a batch that is not a multiple" 9 'a batch of 64; expected a multiple of the 7 virtual ranks' "$AOT" build "$DIGITS/digits.mlir" -o seven.tsb \
    --virtual-ranks 7
[ -e seven.tsb ] && fail 'a failed build leaves no bundle'
expect "a bundle of one virtual rank" 6 '2 ranks for 1 virtual rank' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 9 --ranks 2
expect "ranks of an evaluation" 6 '--ranks does not apply' "$RUN" ranks.tsb --entry evaluate "${TEST_DATA[@]}" --ranks 2
expect "restarts without a state" 6 'needs --state-dir' train --steps 9 --ranks 2 --restarts 1
expect "restarts without ranks" 6 'needs --ranks' train --steps 9 --restarts 1 --state-dir "$STATES/T"
expect "data that is not there" 7 "cannot open" "$RUN" ranks.tsb --data "images=none.npy" --data "labels=$DIGITS/train-labels.npy" --steps 9 --ranks 2
expect "a batch that no 7 can share" 9 'TSR-0612' build -o seven.tsb --virtual-ranks 7

# Each launch may open one more file than the last, until all ranks can be watched.
watched=0 files=3
until [ $files -gt 64 ]; do
    (ulimit -n $files && timeout 60 "$RUN" ranks.tsb "${DATA[@]}" --quiet --steps 2 --ranks 4 --threads 1) >.out 2>.err
    code=$?
    files=$((files + 1))
    [ $code -ne 124 ] || { fail "it hangs with $files open files" && break; }
    [ $code -ne 0 ] || break
    ! grep -q 'cannot watch rank' .err || watched=1
done
checks=$((checks + 1))
[ $watched -eq 1 ] || fail "no launch ran out of files where it watches a rank"

# A rank dies: this is noticed at once, and the rank is named; committed generations are kept.
for victim in 1 2 3; do
    rm -rf "$STATES/K" m.jsonl
    launch --steps 100000 --ranks 3 --state-dir "$STATES/K" --save-every 20 --metrics m.jsonl >k.out 2>k.err &
    launcher=$!
    wait_for_step m.jsonl 50
    pid=$(ranks_of $launcher | sed -n "${victim}p")
    began=$(now_ms)
    kill -KILL "$pid"
    wait $launcher
    code=$?
    took=$(($(now_ms) - began))
    checks=$((checks + 1))
    echo "rank $((victim - 1)) killed: the run ended after $took ms: $(tail -n 1 k.err)"
    cp k.err .err && cp k.out .out
    [ $code -eq 22 ] || fail "exit code $code after a kill; expected 22"
    grep -Eq "rank $((victim - 1)) was ended by signal 9 .*in region '[a-z ]*' at step [1-9]" k.err ||
        fail "the rank, region and step are not named"
    expect "what was committed is whole" 0 '' "$RUN" fsck "$STATES/K"
done
step=$("$RUN" ls "$STATES/K" | grep -o 'step [0-9]*' | sort -k2 -n | tail -n 1 | tr -dc 0-9)
expect "and is resumed" 0 "step $((step + 7))" train --steps $((step + 7)) --ranks 2 --state-dir "$STATES/K"

# With restarts the result is that of an undisturbed run.
train --steps 400 >undisturbed.out
undisturbed=$(state_of undisturbed.out)
launch --steps 400 --ranks 2 --state-dir "$STATES/R" --save-every 10 --restarts 100 --metrics r.jsonl >r.out 2>r.err &
launcher=$!
for kill_number in 1 2 3 4 5; do
    wait_for_step r.jsonl $((kill_number * 50))
    pid=$(ranks_of $launcher | sed -n "$((kill_number % 2 + 1))p")
    [ -n "$pid" ] && kill -KILL "$pid"
done
wait $launcher || fail "a run with restarts failed"
cp r.err .err && cp r.out .out
checks=$((checks + 1))
[ "$(state_of r.out)" = "$undisturbed" ] || fail "restarts changed the bits"
grep -q 'all ranks start again (restart 1 of at most 100)' r.err || fail "no restart was told"

# A stopped rank is detected by its deadline.
rm -f m.jsonl
launch --steps 1000000 --ranks 2 --metrics m.jsonl >h.out 2>h.err &
launcher=$!
wait_for_step m.jsonl 60
pid=$(ranks_of $launcher | sed -n 2p)
began=$(now_ms)
kill -STOP "$pid"
wait $launcher
code=$?
echo "a rank stopped: the run ended after $(($(now_ms) - began)) ms: $(tail -n 1 h.err)"
cp h.err .err && cp h.out .out
checks=$((checks + 1))
[ $code -eq 22 ] || fail "exit code $code after a rank stopped; expected 22"
grep -q 'rank 1 hangs: it did not come to' h.err || fail "the rank that hangs is not named"

# With restarts, a rank that is stopped for longer than its deadline is replaced, and the bits stay the same.
rm -rf "$STATES/P" m.jsonl
launch --steps 400 --ranks 2 --state-dir "$STATES/P" --save-every 10 --restarts 9 --metrics m.jsonl >p.out 2>p.err &
launcher=$!
wait_for_step m.jsonl 60
pid=$(ranks_of $launcher | sed -n 2p)
kill -STOP "$pid"
sleep 3
kill -CONT "$pid" 2>/dev/null && fail "the stopped rank still exists"
wait $launcher || fail "a run with a stopped rank failed"
cp p.err .err && cp p.out .out
checks=$((checks + 1))
[ "$(state_of p.out)" = "$undisturbed" ] || fail "a stopped rank changed the bits"
grep -q 'rank 1 hangs: it did not come to .*all ranks start again (restart 1 of at most 9)' p.err || fail "the stopped rank was not replaced"

# All processes of a run are stopped, and continue: nobody is late.
rm -f m.jsonl
launch --steps 400 --ranks 2 --metrics m.jsonl >q.out 2>q.err &
launcher=$!
wait_for_step m.jsonl 60
mapfile -t stopped < <(ranks_of $launcher)
kill -STOP $launcher "${stopped[@]}"
sleep 3
kill -CONT $launcher "${stopped[@]}"
wait $launcher || fail "a run that was stopped as a whole failed"
cp q.err .err && cp q.out .out
checks=$((checks + 1))
[ "$(state_of q.out)" = "$undisturbed" ] || fail "a stop of all processes changed the bits"

# SIGTERM to the run: all ranks end at the same step, and save it.
rm -f m.jsonl
launch --steps 1000000 --ranks 2 --state-dir "$STATES/G" --metrics m.jsonl >g.out 2>g.err &
launcher=$!
wait_for_step m.jsonl 30
kill -TERM $launcher
wait $launcher
code=$?
cp g.err .err && cp g.out .out
checks=$((checks + 1))
[ $code -eq 0 ] || fail "exit code $code after SIGTERM; expected 0"
grep -q 'stopped by a signal at step [0-9]* of 1000000' g.out || fail "the step is not told"
finish
