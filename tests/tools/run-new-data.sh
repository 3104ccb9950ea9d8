#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --new-data with ranks that are killed, on this host and in an MPI job: the bits of an undisturbed run with the same flag, the same position on all
# ranks, runs that continue without the flag, the old data refused. Argument 5: rank_positions.
POSITIONS=$(realpath "$5")
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# States are stored in memory if possible, since ranks are tested here, not a disk.
rm -rf "$WORK"
WORK=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
cd "$WORK" || exit 99

check "four virtual ranks" "$AOT" build "$DIGITS/digits.mlir" -o ranks.tsb --virtual-ranks 4 --target=cpu:x86-64-v2,cpu:x86-64-v3
tail -c +129 "$DIGITS/train-images.npy" | head -c $((1400 * 64)) >images.u8
tail -c +129 "$DIGITS/train-labels.npy" | head -c $((1400 * 8)) >labels.i64
NEW=(--data images=images.u8 --data labels=labels.i64)
STEPS=2000
train() { "$RUN" ranks.tsb --quiet --threads 1 "$@"; }
launch() { exec "$RUN" ranks.tsb --quiet --threads 1 "$@"; } # followed by `&`, so that $! is the launcher
# The position that a run resumes from, according to the newest token of a state.
position_of() {
    "$RUN" ls "$1" --json | head -n 1 |
        sed -E 's/.*"seed":([0-9]+),"step":([0-9]+),"sample":([0-9]+),"virtualRanks":([0-9]+),"shuffleVersion":([0-9]+),"epochBase":([0-9]+),"epochBaseSample":([0-9]+),"rows":([0-9]+),"data":"([0-9a-f]+)".*/seed \1 step \2 sample \3 virtual \4 shuffle \5 base \6 base_sample \7 rows \8 data \9/'
}
wait_for_step() { # FILE STEP
    local tries=0
    until grep -q "\"step\":$2," "$1" 2>/dev/null || [ $((tries += 1)) -gt 4000 ]; do sleep 0.005; done
}
# same_end WHAT DIR: the last state and its position are those of the undisturbed run.
same_end() {
    holds "$1: the bits of the undisturbed run" [ "$(state_of .out)" = "$expected" ]
    holds "$1: the position is '$(position_of "$2")'; expected '$position'" [ "$(position_of "$2")" = "$position" ]
}
# afterwards WHAT DIR COMMAND…: the command continues without the flag, and only with the new data.
afterwards() {
    local what=$1 dir=$2
    shift 2
    expect "$what: continues without the flag" 0 "^state $next step $((STEPS + 1))" "$@" "${NEW[@]}" --steps $((STEPS + 1)) --state-dir "$dir"
    refuse_old "$what" "$dir" "$@"
}
refuse_old() {
    local what=$1 dir=$2 code=0
    shift 2
    "$@" "${DATA[@]}" --steps $((STEPS + 2)) --state-dir "$dir" >.out 2>.err </dev/null || code=$?
    holds "$what: the old data: exit code $code; expected 12" [ $code -eq 12 ]
    holds "$what: the words that refuse the old data" \
        grep -Eq 'error: (rank [0-9]: )?the data has 1438 rows with digest [0-9a-f]{16}; the state was trained with 1400 rows with digest [0-9a-f]{16}' .err
}

# Three generations of the old data; the first is not at the end of an epoch.
check "the old data" train "${DATA[@]}" --steps 30 --save-every 10 --keep 8 --state-dir S
cp -a S U
expect "undisturbed" 0 '^state' train "${NEW[@]}" --steps $STEPS --state-dir U --new-data
expected=$(state_of .out)
position=$(position_of U)
# begins TEXT PREFIX
begins() { [[ $1 == "$2"* ]]; }
holds "the position: $position" begins "$position" "seed 0 step $STEPS sample $((STEPS * 64)) virtual 4 shuffle 1 base 2 base_sample 1920 rows 1400 data "
expect "and on" 0 '^state' train "${NEW[@]}" --steps $((STEPS + 1)) --state-dir U
next=$(state_of .out)
cp -a S U1
expect "undisturbed, from the first generation" 0 '^state' train "${NEW[@]}" --steps $STEPS --state-dir U1 --new-data --resume 1
expected_first=$(state_of .out)
holds "the epoch of new data begins elsewhere" [ "$expected_first" != "$expected" ]

# killed WHAT DIR SAVE_EVERY "STEP…" FLAG…: ranks are killed after these steps; all start again. On a busy machine a run may end before a kill reaches
# it; it is then repeated.
killed() {
    local what=$1 dir=$2 every=$3 steps=$4 launcher pid step number
    shift 4
    for _ in 1 2 3 4 5; do
        rm -rf "$dir" m.jsonl && cp -a S "$dir"
        launch "${NEW[@]}" --steps $STEPS --state-dir "$dir" --new-data --save-every "$every" --restarts 20 --metrics m.jsonl "$@" >.out 2>.err </dev/null &
        launcher=$! number=0
        for step in $steps; do
            wait_for_step m.jsonl "$step"
            pid=$(pgrep -P $launcher | sed -n "$((++number % 2 + 1))p")
            [ -z "$pid" ] || kill -KILL "$pid"
        done
        holds "$what: the run succeeds" wait $launcher
        ! grep -q 'all ranks start again' .err || break
    done
    holds "$what: a rank was killed" grep -q 'all ranks start again' .err
}
told() { grep -c 'warning: new data: 1400 rows; the state was trained with 1438. Epoch 2 begins' .err; }
for ranks in 2 3; do
    killed "$ranks ranks, before a save of the new data" K 10000 "100 300" --ranks $ranks
    same_end "$ranks ranks, before a save of the new data" K
    holds "each attempt tells of the new data" [ "$(told)" -eq "$((1 + $(grep -c 'all ranks start again' .err)))" ]
    killed "$ranks ranks, between saves" K 20 "100 400 800" --ranks $ranks
    same_end "$ranks ranks, between saves" K
    holds "$ranks ranks: an epoch of new data begins" [ "$(told)" -ne 0 ]
    holds "$ranks ranks: no other begins" [ "$(told)" -eq "$(grep -c 'new data: ' .err)" ]
    holds "a restart does not warn of the data that it continues with" [ "$(grep -c 'there is no new data' .err)" -eq 0 ]
    afterwards "$ranks ranks" K train --ranks $ranks
done
killed "from the first generation" K 10000 "100 300" --ranks 2 --resume 1
holds "from the first generation: the bits of the undisturbed run" [ "$(state_of .out)" = "$expected_first" ]
killed "from the first generation, between saves" K 20 "100 300" --ranks 2 --resume 1
holds "from the first generation, between saves: the bits of the undisturbed run" [ "$(state_of .out)" = "$expected_first" ]

# Each rank draws its samples by its own position: all positions are equal, at the beginning and at the end.
one_position() { # WHAT DIR COUNT
    local rank
    for ((rank = 1; rank < $3; rank++)); do
        holds "$1: rank $rank is at '$(cat "p.$rank")'; rank 0 at '$(cat p.0)'" cmp -s "p.$rank" p.0
    done
    holds "$1: the position is '$(tail -n 1 p.0)'; expected '$position'" [ "$(tail -n 1 p.0)" = "$position" ]
    holds "$1: it begins at $(head -n 1 p.0)" \
        begins "$(head -n 1 p.0)" "seed 0 step 30 sample 1920 virtual 4 shuffle 1 base 2 base_sample 1920 rows 1400 data "
    holds "$1: saved is '$(position_of "$2")'" [ "$(position_of "$2")" = "$position" ]
}
positions() { "$POSITIONS" ranks.tsb images.u8 labels.i64 "$STEPS" "$@"; }
rm -rf P && cp -a S P
check "positions of three ranks" positions P p 3 new
one_position "three ranks" P 3

# ---- an MPI job ----
"$RUN" ranks.tsb "${DATA[@]}" --quiet --steps 1 --mpi >.out 2>.err </dev/null
if grep -q 'MPI cannot be used' .err || ! command -v mpirun >/dev/null; then
    skip "ranks of an MPI job: this build has no MPI"
    finish
fi
job() { mpi_job --oversubscribe -n "$1" "$RUN" ranks.tsb --quiet --threads 1 --mpi "${@:2}"; }
rm -rf P p.* && cp -a S P
check "positions of three ranks of a job" mpirun --oversubscribe -n 3 "$POSITIONS" ranks.tsb images.u8 labels.i64 $STEPS P p "mpi:$(dirname "$RUN")/tessera-mpi.so" new
one_position "three ranks of a job" P 3
afterwards "a job" P job 2

# A rank of the job dies: the job ends, and the next one has the same arguments.
for every in 1000000 20; do
    for _ in 1 2 3 4 5; do # on a busy machine a job may end before it is killed
        rm -rf M m.jsonl && cp -a S M
        mpirun --oversubscribe -n 2 "$RUN" ranks.tsb --quiet --threads 1 --mpi "${NEW[@]}" --steps 1000000 --save-every "$every" --state-dir M --new-data --metrics m.jsonl >.out 2>.err </dev/null &
        launcher=$!
        wait_for_step m.jsonl 110
        kill -KILL "$(pgrep -P $launcher | tail -n 1)"
        code=0
        wait $launcher || code=$?
        holds "a job ends badly when a rank is killed" [ $code -ne 0 ]
        step=$("$RUN" ls M | grep -o 'step [0-9]*' | sort -k2 -n | tail -n 1 | tr -dc 0-9)
        if [ "$step" -lt $STEPS ]; then break; fi
    done
    if [ $every = 1000000 ]; then
        holds "killed at step $step; expected 30" [ "$step" -eq 30 ]
    else
        holds "killed at step $step; expected more than 30" [ "$step" -gt 30 ]
        holds "killed at step $step; expected less than $STEPS" [ "$step" -lt $STEPS ]
    fi
    expect "the same words again, saves every $every" 0 '^state' job 3 "${NEW[@]}" --steps $STEPS --state-dir M --new-data
    same_end "a job that was killed, saves every $every" M
    afterwards "a job that was killed, saves every $every" M job 2
done

# Ranks with different arguments.
rm -rf M && cp -a S M
code=0
mpi_job --oversubscribe -n 1 "$RUN" ranks.tsb --quiet --threads 1 --mpi "${NEW[@]}" --steps 40 --state-dir M --new-data : \
    -n 1 "$RUN" ranks.tsb --quiet --threads 1 --mpi "${NEW[@]}" --steps 40 --state-dir M >.out 2>.err </dev/null || code=$?
holds "a rank without --new-data: exit code $code; expected 12" [ $code -eq 12 ]
holds "a rank without --new-data: the words" grep -q 'ranks have different values of --new-data: rank 0 01, rank 1 00' .err
refuse_old "nothing was committed" K train
finish
