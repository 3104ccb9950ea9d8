#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that another program started: the variables of torchrun, Slurm, Open MPI and MPICH; the bits of one process; states that
# any other number of ranks resumes; ranks that die, stop, have another key or another state directory; two hosts, as two
# network namespaces.
. "$(dirname "$0")/common.sh"

unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_USE_AGENT_STORE OMPI_COMM_WORLD_RANK \
    OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_STEP_NODELIST SLURM_JOB_ID SLURM_STEP_ID
free_port() { "$PYTHON" "$ROOT/tests/free_port.py"; }
check "eight virtual ranks" "$AOT" build "$DIGITS/digits.mlir" -o ranks.tsb --target cpu:x86-64-v3 --virtual-ranks 8
TRAIN=("$RUN" ranks.tsb "${DATA[@]}" --quiet --threads 1)
"${TRAIN[@]}" --steps 40 >alone.out
expected=$(state_of alone.out)

# The environment that a launcher gives to a rank of so many.
torchrun() { echo "RANK=$1 WORLD_SIZE=$2 LOCAL_RANK=$1 LOCAL_WORLD_SIZE=$2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port"; }
openmpi() { echo "OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_SIZE=$2 MASTER_ADDR=localhost MASTER_PORT=$port"; }
mpich() { echo "PMI_RANK=$1 PMI_SIZE=$2 MASTER_ADDR=localhost MASTER_PORT=$port"; }
slurm() { echo "SLURM_PROCID=$1 SLURM_STEP_NUM_TASKS=$2 SLURM_STEP_NODELIST=127.0.0.[1-2,7],x SLURM_JOB_ID=$(((port - 20000) / 16)) SLURM_STEP_ID=$((port % 16))"; }
agent() { echo "$(torchrun "$1" "$2") TORCHELASTIC_USE_AGENT_STORE=True"; }

# job LAUNCHER RANKS FLAGS…: starts the ranks, the last first; prints what rank 0 prints; the code of the first that fails.
job() {
    local launcher=$1 count=$2 rank code=0 pids=()
    shift 2
    port=$(free_port)
    for ((rank = count - 1; rank >= 0; rank--)); do
        # shellcheck disable=SC2046 # several variables
        env $($launcher "$rank" "$count") "${TRAIN[@]}" --launcher auto "$@" >"out.$rank" 2>"err.$rank" </dev/null &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do wait "$rank" || code=$?; done
    cat out.0
    cat err.* >&2
    return "$code"
}

for launcher in torchrun openmpi mpich slurm agent; do
    expect "three ranks of $launcher: the same bits" 0 "^state $expected step 40" job $launcher 3 --steps 40
done
for n in 1 2 8; do
    expect "$n ranks: the same bits" 0 "^state $expected step 40" job torchrun $n --steps 40
done
holds "only rank 0 prints" [ ! -s out.1 ]
(umask 077 && head -c 32 /dev/urandom >key && head -c 32 /dev/urandom >other-key)
expect "with a key" 0 "^state $expected step 40" job torchrun 2 --steps 40 --job-key key
TESSERA_RUN_SECRET_FILE=key expect "with a key that the environment names" 0 "^state $expected step 40" job torchrun 2 --steps 40
expect "saved by three" 0 'step 20 generation 2' job torchrun 3 --steps 20 --save-every 10 --state-dir S
expect "each its part" 0 '^6$' sh -c 'ls S/gen/*/segment.* | wc -l'
expect "resumed by two processes of this host" 0 'step 30 generation 3' "${TRAIN[@]}" --steps 30 --ranks 2 --state-dir S
expect "and by two of a job: as if undisturbed" 0 "^state $expected step 40 generation 4" job torchrun 2 --steps 40 --state-dir S
check "a record of two" job torchrun 2 --steps 20 --record log
expect "replayed by one" 0 'replay matches' "${TRAIN[@]}" --replay log
expect "and by three" 0 'replay matches' job torchrun 3 --replay log

# ---- ranks that disagree ----
# rank RANK RANKS FLAGS…: one rank alone, in the background.
rank() {
    # shellcheck disable=SC2046
    env $(torchrun "$1" "$2") "${TRAIN[@]}" --launcher torchrun "${@:3}" >"out.$1" 2>"err.$1" </dev/null &
}
# told RANK CODE REGEX PID: that rank ends with that code and says why.
told() {
    local code=0
    checks=$((checks + 1))
    wait "$4" || code=$?
    [ $code -eq "$2" ] || fail "rank $1: exit code $code; expected $2: $(cat "err.$1")"
    [ -z "$3" ] || grep -Eq -- "$3" "err.$1" || fail "rank $1: no line matches '$3': $(cat "err.$1")"
}
port=$(free_port)
rank 0 2 --steps 9 --job-key key
first=$!
rank 1 2 --steps 9 --job-key other-key
told 1 22 'rank 0 has another job key than rank 1' $!
tries=0
until grep -q 'is refused: it has another job key' err.0 || [ $((tries += 1)) -gt 500 ]; do sleep 0.02; done
holds "rank 0 warns" [ $tries -le 500 ]
kill $first
wait $first
port=$(free_port)
rank 0 2 --steps 9
first=$!
rank 1 2 --steps 10
told 1 12 'ranks have different steps' $!
told 0 12 'ranks have different steps' $first

# Two directories of one name.
mkdir -p a b
check "a state in a folder" "${TRAIN[@]}" --steps 5 --state-dir a/S
cp -a a/S b/S
apart() { # FOLDER-OF-RANK-1
    port=$(free_port)
    rank 0 2 --steps 9 --state-dir a/S
    first=$!
    rank 1 2 --steps 9 --state-dir "$1"
    second=$!
}
shares='the ranks do not share it: for rank 0,'
apart b/S
told 1 10 "state directory 'b/S': $shares 'EPOCH.2' is file [0-9]+ of device [0-9]+:[0-9]+; for rank 1, it does not exist on device [0-9]+:[0-9]+" $second
told 0 22 'rank 1 failed: ' $first
touch b/S/EPOCH.3 # as a stale copy would have
apart b/S
told 1 10 "$shares 'EPOCH.3' is file ([0-9]+) of device [0-9]+:[0-9]+; for rank 1, it is file [0-9]+ on device [0-9]+:[0-9]+" $second
wait $first

# ---- ranks that die or are asked to stop ----
start() { # RANKS FLAGS…: in the background; pids
    local rank
    pids=()
    port=$(free_port)
    rm -f m.jsonl
    for ((rank = 0; rank < $1; rank++)); do
        rank "$rank" "$1" --steps 1000000 --metrics m.jsonl "${@:2}"
        pids+=($!)
    done
    local tries=0
    until grep -q '"step":40,' m.jsonl 2>/dev/null || [ $((tries += 1)) -gt 1000 ]; do sleep 0.02; done
}
start 3 --state-dir K --save-every 10
kill -KILL "${pids[1]}"
wait "${pids[1]}" 2>/dev/null
told 0 22 'rank 1 was lost before|rank 2 failed: rank 1 was lost' "${pids[0]}"
told 2 22 'rank 1 was lost before|rank 0 failed: rank 1 was lost' "${pids[2]}"
check "what was committed is whole" "$RUN" fsck K
step=$("$RUN" ls K | grep -o 'step [0-9]*' | sort -k2 -n | tail -n 1 | tr -dc 0-9)
expect "and is resumed" 0 "step $((step + 7))" job torchrun 2 --steps $((step + 7)) --state-dir K
for signal in TERM HUP; do
    rm -rf G
    start 3 --state-dir G
    kill -$signal "${pids[2]}"
    for r in 0 1 2; do told $r 0 '' "${pids[$r]}"; done
    step=$(sed -n 's/^state [0-9a-f]* step \([0-9]*\) .*/\1/p' out.0)
    expect "SIG$signal to rank 2: saved" 0 "^state $(state_of out.0) step $step" "${TRAIN[@]}" --steps 1 --state-dir G
done

# ---- bad input ----
bad() { # REGEX VARIABLES… -- FLAGS…
    local regex=$1 variables=()
    shift
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    expect "$regex" 6 "$regex" env "${variables[@]}" "${TRAIN[@]}" --steps 1 "$@"
}
R=(RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1)
bad "expected one of auto, torchrun, openmpi, mpich, slurm; did you mean 'torchrun'" A=1 -- --launcher torchrunn
bad 'the environment names no launcher' A=1 -- --launcher auto
bad 'the environment has no RANK; torchrun sets RANK and WORLD_SIZE' A=1 -- --launcher torchrun
bad 'the environment has no WORLD_SIZE' RANK=0 -- --launcher torchrun
bad "RANK is 'x'; expected a number" "${R[@]}" RANK=x -- --launcher torchrun
bad 'RANK is 2 and WORLD_SIZE is 2; ranks count from 0' "${R[@]}" RANK=2 -- --launcher torchrun
bad 'LOCAL_RANK is 3 and LOCAL_WORLD_SIZE is 2' "${R[@]}" LOCAL_RANK=3 LOCAL_WORLD_SIZE=2 -- --launcher torchrun
bad "MASTER_PORT is '70000'; expected a number from 1 to 65535" "${R[@]}" MASTER_PORT=70000 -- --launcher torchrun
bad "MASTER_PORT is '0'; expected a number from 1 to 65535" SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=127.0.0.1 MASTER_PORT=0 -- --launcher slurm
bad 'the environment has no MASTER_ADDR; set it, or give --rendezvous' RANK=0 WORLD_SIZE=2 -- --launcher auto
bad 'the environment has no MASTER_PORT' RANK=0 WORLD_SIZE=2 MASTER_ADDR=h -- --launcher auto
bad "SLURM_STEP_NODELIST is 'n\[1', which names no host" SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 'SLURM_STEP_NODELIST=n[1' -- --launcher slurm
for text in host host: :1 host:0 host:x host:70000 '[]:1' '[::1:1'; do
    bad "expected HOST:PORT, with a port" "${R[@]}" -- --launcher torchrun --rendezvous "$text"
done
bad 'the job has no key, and other hosts can reach its rank 0' "${R[@]}" MASTER_ADDR=0.0.0.0 -- --launcher torchrun
(umask 077 && head -c 15 key >short-key)
bad 'the job key has 15 bytes; expected at least 16' "${R[@]}" -- --launcher torchrun --job-key short-key
bad 'exclude each other' "${R[@]}" -- --launcher torchrun --job-key key --no-job-key
install -m 640 key open-key
bad "the job key 'open-key' has mode 0640: other users have access to it; chmod 600 'open-key'" "${R[@]}" -- --launcher torchrun --job-key open-key
bad 'exclude each other' "${R[@]}" -- --launcher torchrun --ranks 2
bad 'exclude each other' "${R[@]}" -- --launcher torchrun --mpi
bad '--rendezvous needs --launcher' A=1 -- --rendezvous h:1
bad '--restarts needs --ranks' "${R[@]}" -- --launcher torchrun --restarts 1 --state-dir S
expect "a key that is not there" 7 'no-key' env "${R[@]}" "${TRAIN[@]}" --steps 1 --launcher torchrun --job-key no-key
expect "a rank that trains alone is told" 0 'torchrun started this process as one of several ranks, but it trains alone; --launcher torchrun joins' \
    env "${R[@]}" "${TRAIN[@]}" --steps 1

# ---- two hosts ----
# Two network namespaces with a cable between them.
hosts() {
    unshare -Urnm sh -ec '
        unshare -n sleep 60 & other=$!
        trap "kill $other" EXIT
        until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
        ip link set lo up
        ip link add cable type veth peer name cable netns $other
        ip addr add 10.77.0.1/24 dev cable
        ip link set cable up
        nsenter -t $other -n sh -ec "ip link set lo up; ip addr add 10.77.0.2/24 dev cable; ip link set cable up"
        export MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 WORLD_SIZE=4
        for rank in 3 2; do RANK=$rank nsenter -t $other -n "$@" >out.$rank 2>err.$rank & done
        RANK=1 "$@" >out.1 2>err.1 &
        RANK=0 "$@"
    ' sh "$@"
}
if hosts true >/dev/null 2>&1; then
    expect "two ranks on each of two hosts: the same bits" 0 "^state $expected step 40" \
        hosts "${TRAIN[@]}" --launcher torchrun --job-key key --steps 40 --state-dir H
    check "their state" "$RUN" fsck H
    expect "without a key" 6 'the job has no key, and other hosts can reach its rank 0' hosts "${TRAIN[@]}" --launcher torchrun --steps 40
    expect "with none on purpose" 0 "^state $expected step 40" hosts "${TRAIN[@]}" --launcher torchrun --no-job-key --steps 40
else
    skip "two hosts: this machine allows no network namespaces"
fi

# ---- the real torchrun ----
if "$PYTHON" -c 'import torch' 2>/dev/null; then
    expect "torchrun: the same bits" 0 "^state $expected step 40" \
        "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node 2 --no-python "${TRAIN[@]}" --launcher torchrun --job-key key --steps 40
else
    skip "the real torchrun: python:torch is not here"
fi
finish
