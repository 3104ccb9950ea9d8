#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several ranks, each with a GPU: which GPU a rank has, how ranks exchange, the bits, a rank that is killed. The driver is
# tests/runtime/fake_gpu.c, the bundle tests/runtime/toy_bundle.c with four virtual ranks.
. "$(dirname "$0")/common.sh"

mkdir fake
ln -s "$FAKE_CUDA" fake/libcuda.so.1
"$TOY_BUNDLE" toy.tsb portable ranks || exit 99
for i in 1 2 3 4 5 6 7 8; do
    for k in 1 2 3 4 5 6 7 8; do printf '%b' "\\x$((i % 8))$k\\x1$k\\x2$((i * k % 8))\\x3$(((i + k) % 8))"; done
done >x.bin

# gpus HOW FLAG…: runs with a driver that behaves as HOW says.
gpus() {
    local how=$1
    shift
    env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD="$how" "$RUN" toy.tsb --device "${DEVICE:-cuda}" --data x=x.bin --steps "${STEPS:-12}" "$@"
}

expect "one process" 0 '^state [0-9a-f]{64} step 12' gpus ''
whole=$(state_of .out)
same="^state $whole step 12"

# The bits do not depend on the number of ranks, on their GPUs or on the way to exchange.
expect "one rank" 0 "$same" gpus '' --ranks 1
for ranks in 2 3 4; do
    for way in auto p2p host; do expect "$ranks ranks by $way" 0 "$same" gpus devices=4 --ranks "$ranks" --transport "$way"; done
done
expect "the best way is reported" 0 'notice: the ranks exchange by p2p: the fastest way' gpus '' --ranks 2
expect "a requested way is reported" 0 'notice: the ranks exchange by host: requested' gpus '' --ranks 2 --transport host
for how in 'windows=0|cannot share its memory with other processes' 'reaches=0|has no access to the memory of Fake B .1, GPU-1011'; do
    expect "${how%%|*}: through the host" 0 "notice: the ranks exchange by host: not p2p: Fake A .*${how#*|}" gpus "${how%%|*}" --ranks 2
    holds "${how%%|*}: the same bits" test "$(state_of .out)" = "$whole"
    expect "${how%%|*}: p2p is requested" 17 "exchange by p2p: Fake A .*${how#*|}" gpus "${how%%|*}" --ranks 2 --transport p2p
done

# Which GPU a rank has.
expect "GPUs in another order" 0 "$same" gpus '' --ranks 2 --devices 1,0
expect "GPUs by their UUID" 0 "$same" gpus '' --ranks 2 --devices GPU-1011,GPU-0001
expect "fewer GPUs than ranks" 6 '3 ranks need 3 GPUs; there are 2: 0 GPU-0001.* .Fake A., 1 GPU-1011.* .Fake B.; ranks share GPUs with --share-device' \
    gpus '' --ranks 3
expect "one GPU" 6 '2 ranks need 2 GPUs; there is 1: 0 GPU-0001' gpus devices=1 --ranks 2
expect "few queues" 0 "by host: not p2p: CUDA_DEVICE_MAX_CONNECTIONS is '1'; expected at least 8" env CUDA_DEVICE_MAX_CONNECTIONS=1 LD_LIBRARY_PATH=fake \
    "$RUN" toy.tsb --device cuda --data x=x.bin --steps 12 --ranks 2
# Launchers that show each process a GPU of its own.
sees() { # RANK HOW
    env RANK="$1" WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD="$2" "$RUN" toy.tsb --device cuda \
        --data x=x.bin --steps 12 --launcher torchrun
}
port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
sees 1 'devices=1 first=1' >1.out 2>1.err </dev/null &
expect "each process sees its own GPU" 0 "$same" sees 0 devices=1
wait
sees 1 devices=1 >1.out 2>1.err </dev/null &
expect "both see the same one" 6 '2 ranks need 2 GPUs; there is 1: 0 GPU-0001' sees 0 devices=1
wait
expect "a shared GPU" 0 "$same" gpus devices=1 --ranks 2 --share-device
expect "two GPUs for three ranks" 0 "$same" gpus '' --ranks 3 --share-device
expect "a GPU twice" 6 'GPU 0, Fake A .GPU-0001.*, is given to ranks 0 and 1; ranks share GPUs with --share-device' gpus '' --ranks 2 --devices 0,GPU-0001
expect "a GPU twice, shared" 0 "$same" gpus '' --ranks 2 --devices 0,0 --share-device
expect "too short a list" 6 "2 ranks need 2 GPUs; the devices '1' are 1; ranks share GPUs with --share-device" gpus '' --ranks 2 --devices 1
DEVICE=cuda:1 expect "one GPU is named" 6 "2 ranks need 2 GPUs; the devices '1' are 1" gpus '' --ranks 2
DEVICE=cuda:1 expect "two choices" 6 "device 'cuda:1' and the devices '0,1' both choose GPUs" gpus '' --ranks 2 --devices 0,1
expect "an unknown GPU" 6 "'7' of the devices '0,7' names no GPU, or several; there are 0 GPU-0001" gpus '' --ranks 2 --devices 0,7
expect "another kind of GPU" 5 "rank 1 has GPU 1, Fake B .GPU-1011.*: 'toy.tsb' has no code for a GPU of compute capability 8.0; it has cuda:sm_90a" \
    gpus second=8 --ranks 2
DEVICE=auto expect "auto" 0 "$same" gpus '' --ranks 2
DEVICE=auto expect "auto with too few GPUs" 5 'notice: the ranks use the CPU: 3 ranks need 3 GPUs; there are 2' gpus '' --ranks 3

# Flags.
expect "an unknown way" 6 "exchange 'ring' is unknown; expected auto, p2p, host" gpus '' --ranks 2 --transport ring
for flag in "--transport host" "--devices 0,1" --share-device; do
    # shellcheck disable=SC2086 # the flag and its value
    expect "$flag without ranks" 6 "${flag%% *} needs --ranks, --launcher or --mpi" gpus '' $flag
    # shellcheck disable=SC2086
    DEVICE=cpu expect "$flag on CPUs" 6 "${flag%% *} applies to ranks on GPUs; the device is the CPU" gpus '' --ranks 2 $flag
done

# Failures of one rank end the run with its error, and of all ranks with the error of the first.
expect "no memory for a mailbox" 0 'by host: not p2p: .*cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY' gpus 'fail=cuMemCreate at=2 code=2' --ranks 2
expect "a kernel's own error" 17 'CUDA_ERROR_ILLEGAL_ADDRESS' gpus 'fail=cuGraphLaunch at=9 code=700' --ranks 2
expect "an error of a copy between GPUs" 17 'CUDA_ERROR_ECC_UNCORRECTABLE' gpus 'fail=cuMemcpyDtoDAsync_v2 at=9 code=214' --ranks 2

# Saved by two ranks, resumed by one, then by two; and with a rank that is killed in between.
STEPS=4 expect "two ranks save" 0 'step 4 generation' gpus '' --ranks 2 --state-dir S
STEPS=8 expect "one process resumes" 0 'step 8 generation' gpus '' --state-dir S
expect "two ranks resume" 0 "$same" gpus '' --ranks 2 --state-dir S
expect "a record of two ranks" 0 "$same" gpus '' --ranks 2 --record log
expect "is replayed by one process" 0 "$same" gpus '' --replay log

# killed WAY: a rank is killed during a long run; the run ends with exit code 22 and can be resumed.
killed() {
    rm -rf K
    env LD_LIBRARY_PATH=fake "$RUN" toy.tsb --device cuda --data x=x.bin --steps 100000000 --ranks 2 --transport "$1" \
        --state-dir K --save-every 50 >.out 2>.err </dev/null &
    local run=$! rank i
    for i in $(seq 200); do
        ls K/MANIFEST.* >/dev/null 2>&1 && break
        sleep 0.05
    done
    rank=$(pgrep -P "$run" | tail -n 1)
    kill -9 "$rank"
    wait "$run"
    [ $? -eq 22 ] && grep -q 'was ended by signal 9' .err && [ "$i" -lt 200 ]
}
for way in p2p host; do
    holds "a killed rank is noticed, by $way" killed "$way"
    holds "its last generation is good" sh -c '"$1" ls K --verify | head -n 1 | grep -q " good$"' sh "$RUN"
done

# State in parts, of a program whose kernels do nothing: the tensors keep their initial values, which ranks gather, save and resume.
mkdir silent
ln -s "$FAKE_SILENT_CUDA" silent/libcuda.so.1
parts() {
    env LD_LIBRARY_PATH=silent FAKE_CUDA_TOLD='any=1 free=1000000000' "$RUN" "$1.tsb" --device cuda "${DATA[@]}" --steps "$2" "${@:3}"
}
for stage in zero1 zero2 zero3; do
    sed -e 's/^module @digits {/module @digits attributes {tessera.mesh = {data = 4}} {/' \
        -e "s/weight_decay = 3.0e-1>}/weight_decay = 3.0e-1>, tessera.opt.shard = #tessera.opt.shard<axis = \"data\">, tessera.opt.partition = #tessera.opt.partition<\"$stage\">}/" \
        "$DIGITS/digits.mlir" >$stage.mlir
    check "$stage is built" "$AOT" build $stage.mlir -o $stage.tsb --target=cuda:sm_90a
    expect "$stage, one process" 0 '^state [0-9a-f]{64} step 4' parts $stage 4
    whole=$(state_of .out)
    for ranks in 2 3; do
        expect "$stage, $ranks ranks" 0 "^state $whole step 4" parts $stage 4 --ranks $ranks --share-device
    done
    expect "$stage, two ranks save" 0 'step 2 generation' parts $stage 2 --ranks 2 --state-dir $stage --save-every 1
    expect "$stage, one process resumes" 0 'step 3 generation' parts $stage 3 --state-dir $stage
    expect "$stage, two ranks resume" 0 "^state $whole step 4 generation" parts $stage 4 --ranks 2 --state-dir $stage
done

finish
