#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks of an MPI job: the bits of one process, states that any other number of ranks resumes from, ranks with different arguments, a rank that dies.
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

check "eight virtual ranks" "$AOT" build "$DIGITS/digits.mlir" -o ranks.tsb --target cpu:x86-64-v2,cpu:x86-64-v3 --virtual-ranks 8
check "another bundle" "$AOT" build "$DIGITS/digits.mlir" -o other.tsb --target cpu:x86-64-v3 --virtual-ranks 4
TRAIN=("$RUN" ranks.tsb "${DATA[@]}" --quiet --threads 1)
job() { mpi_job --oversubscribe -n "$1" "${TRAIN[@]}" --mpi "${@:2}"; }
# Two ranks that were started with different arguments.
pair() { mpi_job --oversubscribe -n 1 "${TRAIN[@]}" --mpi --steps 9 : -n 1 "$RUN" "$@" --quiet --threads 1 --mpi; }
# told WHAT CODE REGEX COMMAND…: the job ends with that code, and its output contains the reason.
told() {
    local code=0
    checks=$((checks + 1))
    "${@:4}" >.out 2>.err </dev/null || code=$?
    [ $code -eq "$2" ] || fail "$1: exit code $code; expected $2"
    cat .out .err | grep -Eq -- "$3" || fail "$1: no line matches '$3'"
}

"${TRAIN[@]}" --steps 40 >alone.out
for n in 1 2 3; do
    expect "$n ranks: the same bits" 0 "^state $(state_of alone.out) step 40" job "$n" --steps 40
done
expect "saved by three" 0 'step 20 generation 2' job 3 --steps 20 --save-every 10 --state-dir S
expect "each its part" 0 '^6$' sh -c 'ls S/gen/*/segment.* | wc -l'
expect "resumed by two processes of this host" 0 'step 30 generation 3' "${TRAIN[@]}" --steps 30 --ranks 2 --state-dir S
expect "and by two of a job: as if undisturbed" 0 "^state $(state_of alone.out) step 40 generation 4" job 2 --steps 40 --state-dir S

# Ranks that each have a part of the parameters and of the state.
sed -e 's/^module @digits {/module @digits attributes {tessera.mesh = {data = 8}} {/' \
    -e 's/weight_decay = 3.0e-1>}/weight_decay = 3.0e-1>, tessera.opt.shard = #tessera.opt.shard<axis = "data">, tessera.opt.partition = #tessera.opt.partition<"zero3">}/' \
    "$DIGITS/digits.mlir" >spread.mlir
check "a state in parts" "$AOT" build spread.mlir -o spread.tsb --target cpu:x86-64-v3
spread() { mpi_job --oversubscribe -n "$1" "$RUN" spread.tsb "${DATA[@]}" --quiet --threads 1 --mpi "${@:2}"; }
expect "parts, two ranks: the same bits" 0 "^state $(state_of alone.out) step 40" spread 2 --steps 40
expect "parts, saved by three" 0 'step 20 generation 1' spread 3 --steps 20 --state-dir P
expect "and taken up by two: as if undisturbed" 0 "^state $(state_of alone.out) step 40 generation 2" spread 2 --steps 40 --state-dir P

told "a rank with another bundle" 12 'ranks have different bundles: rank 0 [0-9a-f]+, rank 1 [0-9a-f]+' pair other.tsb "${DATA[@]}" --steps 9
told "a rank with other steps" 12 'ranks have different steps, intervals' pair ranks.tsb "${DATA[@]}" --steps 10
told "a rank with other data" 12 'ranks have different data' \
    pair ranks.tsb --data "images=$DIGITS/test-images.npy" --data "labels=$DIGITS/test-labels.npy" --steps 9
told "a rank with other code" 12 'ranks have different numerics' pair ranks.tsb "${DATA[@]}" --steps 9 --cpu x86-64-v2
told "more ranks than virtual ones" 6 '9 ranks for 8 virtual ranks' job 9 --steps 9

# A rank dies: the job ends, and committed generations are complete.
launch() { exec mpirun --oversubscribe -n 2 "${TRAIN[@]}" --mpi "$@"; } # followed by `&`, so that $! is the launcher
launch --steps 100000 --save-every 20 --state-dir K --metrics m.jsonl >k.out 2>k.err &
launcher=$!
tries=0
until grep -q '"event":"save"' m.jsonl 2>/dev/null || [ $((tries += 1)) -gt 1000 ]; do sleep 0.02; done
kill -KILL "$(pgrep -P $launcher | tail -n 1)"
checks=$((checks + 1))
wait $launcher && fail "a job ended well though a rank was killed"
expect "what was committed is whole" 0 '' "$RUN" fsck K
step=$("$RUN" ls K | grep -o 'step [0-9]*' | sort -k2 -n | tail -n 1 | tr -dc 0-9)
expect "and is resumed" 0 "step $((step + 7))" job 3 --steps $((step + 7)) --state-dir K

# A signal to any rank stops all ranks at the same step, which is saved.
for signal in TERM INT HUP USR1; do
    for rank in 1 2; do
        rm -rf G m.jsonl
        launch --steps 1000000 --state-dir G --metrics m.jsonl >g.out 2>g.err </dev/null &
        launcher=$!
        tries=0
        until grep -q '"step":20,' m.jsonl 2>/dev/null || [ $((tries += 1)) -gt 1000 ] || ! kill -0 $launcher 2>/dev/null; do sleep 0.02; done
        kill -$signal "$(pgrep -P $launcher | sed -n ${rank}p)"
        code=0
        wait $launcher || code=$?
        checks=$((checks + 1))
        [ $code -eq 0 ] || fail "SIG$signal to rank $((rank - 1)): exit code $code: $(tail -n 3 g.err)"
        step=$(sed -n 's/^state [0-9a-f]* step \([0-9]*\) .*/\1/p' g.out)
        expect "SIG$signal to rank $((rank - 1)): saved" 0 "^state $(state_of g.out) step $step" "${TRAIN[@]}" --steps 1 --state-dir G
    done
done
finish
