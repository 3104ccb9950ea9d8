#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A GPU that is missing, too small, or broken: each has its message and exit code, and earlier saves are kept. The driver is
# tests/runtime/fake_gpu.c, the bundle tests/runtime/toy.c.
. "$(dirname "$0")/common.sh"

mkdir fake none empty
ln -s "$FAKE_CUDA" fake/libcuda.so.1
touch none/libcuda.so.1
"$TOY_BUNDLE" toy.tsb || exit 99
for i in 1 2 3 4 5 6 7 8 9 10; do printf '%b' "\\x0$((i % 8))\\x1$i\\x2$((i % 5))\\x3$((i % 3))" | head -c 4; done >x.bin
head -c 40 x.bin >x && mv x x.bin

# gpu HOW FLAG…: runs with a driver that behaves as HOW says.
gpu() {
    local how=$1
    shift
    env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD="$how" "$RUN" toy.tsb --device "${DEVICE:-cuda}" --data x=x.bin --steps 8 \
        --save-every 2 "$@"
}

expect "a run" 0 '^state [0-9a-f]{64} step 8 ' gpu '' --state-dir whole
whole=$(state_of .out)
expect "one kernel at a time" 0 "^state $whole step 8 " gpu '' --state-dir single --one-by-one
expect "every kernel's results checked" 0 "^state $whole step 8 " gpu '' --state-dir checked --debug-numerics
"$PYTHON" - <<'END' || exit 99
import json, struct
head = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
open("nan.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + struct.pack("<4f", 0, 0, float("nan"), 0))
END
expect "a NaN in the GPU's memory" 14 "error: step 1: kernel '[a-z]*' at .* makes nan at element \[[0-9]*\]" \
    gpu '' --params nan.safetensors --state-dir nan --debug-numerics
expect "traced" 0 "^state $whole step 8 " gpu '' --state-dir traced --trace t.json --trace-steps 3:4 --roofline r.csv
# The same steps from C, with batches, loss and parameters in memory of the host and of the GPU.
steps() { env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD="$1" "$TRAINER_STEPS" toy.tsb cuda "$2" 8 x=x.bin; }
expect "steps from the host's memory" 0 "^state $whole step 8$" steps '' host
expect "steps from the GPU's memory" 0 "^state $whole step 8$" steps '' device
expect "steps on tensors of DLPack" 0 "^state $whole step 8$" steps '' dlpack
check "its kernels are in the trace" sh -c 'grep -q "\"name\":\"mean\",\"ph\":\"X\"" t.json && grep -q "\"name\":\"inputs\"" t.json'
check "copies that the driver times" grep -q '"name":"copy","ph":"X"' t.json
check "launches of two steps" grep -Eq '^update,2,' r.csv

# computes FILE KERNEL ROW: the kernel is bound by the arithmetic of that row, and takes the corresponding part of its time.
computes() {
    awk -F, -v kernel="$2" -v row="$3" '$1 == row { limit = $8 }
        $1 == kernel { found = $9 == "compute" && ($5 / 1e9 / limit / $3 / $10 - 1) ^ 2 < 1e-4 } END { exit !found }' "$1"
}
"$TOY_BUNDLE" native.tsb native || exit 99
check "native numerics" env LD_LIBRARY_PATH=fake "$RUN" native.tsb --device cuda --data x=x.bin --steps 2 --roofline n.csv
for row in r,mean,machine r,update,machine n,mean,machine "n,update,matrix units"; do
    IFS=, read -r file kernel of <<<"$row"
    check "$kernel of $file.csv is bound by $of" computes "$file.csv" "$kernel" "($of)"
done
expect "traced one at a time" 0 "^state $whole step 8 " gpu '' --state-dir both --trace u.json --one-by-one
check "the same kernels" grep -q '"name":"update","ph":"X"' u.json

# Values that wait in the host's memory: the same bits, wherever a graph has those copies; they are told and traced.
"$TOY_BUNDLE" offloaded.tsb portable offloaded || exit 99
offloaded() {
    local how=$1
    shift
    env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD="$how" "$RUN" offloaded.tsb --device cuda --data x=x.bin --steps 8 "$@"
}
expect "values wait on the host" 0 "^state $whole step 8$" offloaded ''
expect "as early as they can" 0 "^state $whole step 8$" offloaded early=1 --trace a.json
expect "one command at a time" 0 "^state $whole step 8$" offloaded '' --one-by-one
for span in offload prefetch await; do check "$span is in the trace" grep -q "\"name\":\"$span\",\"ph\":\"X\"" a.json; done
expect "they are counted" 0 'offloaded values on the host +64$' env LD_LIBRARY_PATH=fake "$RUN" --check offloaded.tsb --device cuda
expect "they are shown" 0 'on cuda:sm_90a: workspace 192 .peak in use [0-9]+., and 64 bytes of the host for values' "$AOT" inspect offloaded.tsb
expect "in JSON, too" 0 '"away":\[\{"target":"cuda:sm_90a","workspaceBytes":192,"peakBytes":[0-9]+,"hostBytes":64\}\]' "$AOT" inspect --json offloaded.tsb
expect "no memory for them" 15 '[0-9]+ bytes of the host.s memory are to be locked: cuMemHostRegister_v2: CUDA_ERROR_OUT_OF_MEMORY .2.: .*; and 64 of the host.s memory for values that wait' \
    offloaded 'fail=cuMemHostRegister_v2 at=2 code=2'

# newest_is STEP: the last saved state is good and belongs to that step.
newest_is() { "$RUN" ls S --verify | head -n 1 | grep -Eq "step $1 .* good$"; }

# During a run: step 5 and later steps are lost, saved steps are not.
row=0
broken() {
    local what=$1 how=$2 code=$3 text=$4
    shift 4
    row=$((row + 1))
    rm -rf S
    expect "$what" "$code" "$text" gpu "$how" --state-dir S "$@"
    check "$what: step 4 is saved" newest_is 4
    expect "$what: the next run continues" 0 "^state $whole step 8 " gpu '' --state-dir S
}
broken "a kernel's own error" 'fail=cuGraphLaunch at=9 code=700' 17 \
    'step 5: cuGraphLaunch: CUDA_ERROR_ILLEGAL_ADDRESS \(700\): train; --one-by-one names the kernel; the last saved state is whole$'
broken "the same, one kernel at a time" 'fail=cuLaunchKernel at=10 code=700' 17 \
    'step 5: cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS \(700\): update; ' --one-by-one
broken "an error of its memory" 'fail=cuGraphLaunch at=9 code=214' 17 \
    'CUDA_ERROR_ECC_UNCORRECTABLE \(214\): train; the GPU.s memory is damaged: reset it or take it out of service .nvidia-smi'
broken "an error without a name" 'fail=cuGraphLaunch at=9 code=9999' 17 'step 5: cuGraphLaunch: an unknown error \(9999\): train$'
broken "what is saved cannot be read" 'fail=cuMemcpyDtoHAsync_v2 at=9 code=700' 17 \
    "saving failed .1 in all, 1 in a row.: 'S': cuMemcpyDtoHAsync_v2: CUDA_ERROR_ILLEGAL_ADDRESS"
planned="'toy' plans [0-9]+ bytes, including 128 for tensors: w \(16\), w.count \(8\)"
short=".*; [0-9]+ of [0-9]+ bytes of device memory are free; $planned; a smaller batch needs less$"
broken "no memory in a run" 'fail=cuGraphLaunch at=9 code=2' 15 "step 5: cuGraphLaunch: CUDA_ERROR_OUT_OF_MEMORY \(2\): train$short"

# Before a run: no file is changed.
refused() {
    local what=$1 how=$2 code=$3 text=$4
    shift 4
    expect "$what" "$code" "$text" gpu "$how" --state-dir S "$@"
    check "$what: step 8 stays" newest_is 8
}
refused "an old driver" 'version=11080' 17 'the NVIDIA driver is for CUDA 11.8; expected 12.0 or later'
refused "no device" 'devices=0' 17 'the NVIDIA driver shows no device$'
CUDA_VISIBLE_DEVICES='' refused "no device is to be seen" 'devices=0' 17 "shows no device; CUDA_VISIBLE_DEVICES is '', which may hide the devices of this machine"
refused "code for another GPU" 'major=8' 5 "has no code for a GPU of compute capability 8.0; it has cuda:sm_90a"
refused "too little memory" 'free=400' 15 \
    "[0-9]+ bytes of device memory are needed on Fake A .*\); 400 of [0-9]+ bytes of device memory are free; $planned"
refused "no memory" 'fail=cuMemAllocAsync at=1 code=2' 15 \
    "[0-9]+ bytes of device memory are needed: cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY \(2\): $short"
for call in cuModuleLoadDataEx cuMemHostRegister_v2 cuGraphInstantiateWithFlags; do
    refused "no memory in $call" "fail=$call at=1 code=2" 15 "$call: CUDA_ERROR_OUT_OF_MEMORY \(2\): $short"
done
refused "no memory for a context" 'fail=cuDevicePrimaryCtxRetain at=1 code=2' 15 \
    "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY \(2\): Fake A .*\); $planned; a smaller batch needs less$"
DEVICE=cuda:7 refused "a device that is not there" '' 6 "'7' names 0 CUDA devices; expected one of 0 GPU-00010203"
refused "a broken GPU at the begin" 'fail=cuDevicePrimaryCtxRetain at=1 code=214' 17 'cuDevicePrimaryCtxRetain: CUDA_ERROR_ECC_UNCORRECTABLE'
# Advice for a driver that does not start, or refuses code.
for row in 'cuInit|34|the toolkit.s library, which is only for linking: .*LD_LIBRARY_PATH' 'cuInit|803|not that of the running driver: after an update, reboot' \
    'cuInit|804|cuda-compat package, which this GPU does not support' 'cuDevicePrimaryCtxRetain|805|start nvidia-cuda-mps-control' \
    'cuDevicePrimaryCtxRetain|807|try again in a while' 'cuModuleLoadDataEx|221|libnvidia-ptxjitcompiler.so.1 is missing' \
    'cuModuleLoadDataEx|223|CUDA_DISABLE_PTX_JIT' 'cuModuleLoadDataEx|200|update the driver, or build the bundle again' 'cuInit|999|dmesg may tell more'; do
    IFS='|' read -r call code advice <<<"$row"
    refused "$call with $code" "fail=$call at=1 code=$code" 17 "$call: .* \($code\).*; .*$advice"
done
cat >net.mlir <<'EOF'
module @net {
  func.func @train(%x: tensor<4x600xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.uniform<-1.0, 1.0> : tensor<600x600xf32>
    %y = tessera.matmul %x, %w : tensor<4x600xf32>, tensor<600x600xf32> -> tensor<4x600xf32>
    %loss = tessera.mean %y {axes = [0, 1]} : tensor<4x600xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0e-2, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    return %loss : tensor<f32>
  }
}
EOF
check "a larger program" "$AOT" build net.mlir -o net.tsb --target=cuda:sm_90a
# If CUDA is installed in its default folder, its assembler is always found and named.
if [ -x /usr/local/cuda/bin/ptxas ]; then
    expect "the assembler is named" 0 'ptxas' "$AOT" inspect net.tsb
else
    expect "no assembler" 0 'notice: no ptxas was found: the bundle contains only PTX for NVIDIA GPUs' env PATH="$PWD/empty" "$AOT" build net.mlir -o ptx.tsb --target=cuda:sm_90a
fi
expect "more than --device-memory" 15 \
    "[0-9]+ bytes of device memory are needed on .*; 1048576 are allowed; .* are free; 'net' plans [0-9]+ bytes, including [0-9]+ for tensors: w \(1440000\), " \
    env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD='any=1 free=1000000000' "$RUN" net.tsb --device cuda --device-memory 1 --data x=x.bin \
    --steps 9 --state-dir N
check "more than --device-memory: nothing is saved" sh -c '! ls N/MANIFEST.* 2>/dev/null'
expect "no driver" 17 'there is no NVIDIA driver here: .*libcuda.so.1' \
    env LD_LIBRARY_PATH=none "$RUN" toy.tsb --device cuda --data x=x.bin --steps 9 --state-dir S
check "no driver: step 8 stays" newest_is 8

# Ranges for a profiler, with and without a trace; without the profiler's library the run continues.
cat >ranges <<'TEXT'
step 1
  train
  end
end
step 2
  train
  end
  save
  end
end
TEXT
ranges() { DEVICE=cuda gpu '' "$@" && head -n 10 nvtx.log | diff - ranges && [ "$(wc -l <nvtx.log)" -eq 40 ]; }
export FAKE_NVTX_LOG=nvtx.log
NVTX_INJECTION64_PATH=$FAKE_NVTX check "ranges" ranges --state-dir ranged
rm nvtx.log
NVTX_INJECTION64_PATH=$FAKE_NVTX check "ranges beside a trace" ranges --state-dir ranged-too --trace v.json --trace-steps 2:2
check "one step is traced" sh -c '[ "$(grep -c "\"name\":\"step " v.json)" = 1 ]'
NVTX_INJECTION64_PATH=none/libcuda.so.1 expect "no library" 0 "warning: cannot open the profiler's library" gpu '' --state-dir ranged-no
NVTX_INJECTION64_PATH=$FAKE_CUDA expect "another library" 0 "warning: the profiler's library '.*' has no InitializeInjectionNvtx2" \
    gpu '' --state-dir ranged-other
unset FAKE_NVTX_LOG
NVTX_INJECTION64_PATH=$FAKE_NVTX expect "a library that refuses" 0 "warning: the profiler's library '.*' does not accept ranges" gpu '' --state-dir ranged-off

# By UUID, or the beginning of it.
DEVICE=cuda:GPU-1011 expect "the second one" 0 "^state $whole step 8 " gpu '' --state-dir second

# The CPU is used only if `auto` was requested, and this is reported.
expect "auto takes the GPU" 0 'notice: cuda:sm_90a: for compute capability 9.0' \
    env LD_LIBRARY_PATH=fake "$RUN" toy.tsb --device auto --data x=x.bin --steps 1
expect "auto takes the CPU" 0 'no GPU: the NVIDIA driver shows no device' \
    env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD='devices=0' "$RUN" "$BUNDLE" --device auto "${DATA[@]}" --steps 1
expect "auto without a driver" 0 'no GPU: there is no NVIDIA driver here' \
    env LD_LIBRARY_PATH=none "$RUN" "$BUNDLE" --device auto "${DATA[@]}" --steps 1
expect "auto with an old one" 0 'no GPU: the NVIDIA driver is for CUDA 11.8' \
    env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD='version=11080' "$RUN" "$BUNDLE" --device auto "${DATA[@]}" --steps 1

# A memory limit below the plan, for a run that would resume from a saved state: the state is unchanged, and another run resumes from it.
{ head -c 12000 /dev/zero; head -c 12000 /dev/zero | tr '\0' '?'; } >z.bin
both() { env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD='any=1 free=1000000000' "$RUN" both.tsb --data x=z.bin "$@"; }
check "code of both" "$AOT" build net.mlir -o both.tsb --target=cpu:x86-64-v2,cuda:sm_90a
expect "four steps" 0 '^state [0-9a-f]{64} step 4' both --steps 4
four=$(state_of .out)
expect "two steps, saved" 0 '^state [0-9a-f]{64} step 2' both --steps 2 --state-dir C
kept() { (cd C && find . -type f | sort | xargs sha256sum); }
kept >before
expect "a saved state, and more than --device-memory" 15 '; 1048576 are allowed; ' both --steps 4 --state-dir C --device cuda --device-memory 1
kept >after
check "no byte of the state has changed" cmp before after
check "its last generation is good" sh -c '"$1" ls C --verify | head -n 1 | grep -Eq "step 2 .* good$"' sh "$RUN"
expect "it continues" 0 "^state $four step 4" both --steps 4 --state-dir C

# If the chosen GPU cannot be opened, the run uses the CPU instead, but only before the model is open; nothing remains allocated.
auto() { env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD="any=1 $1" "$RUN" both.tsb --device auto --data x=z.bin --steps 2 "${@:2}"; }
expect "the CPU" 0 '^state [0-9a-f]{64} step 2' "$RUN" both.tsb --data x=z.bin --steps 2
on_cpu=$(state_of .out)
for row in 'fail=cuDevicePrimaryCtxRetain at=1 code=2|cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY' \
    'fail=cuDevicePrimaryCtxRetain at=1 code=46|cuDevicePrimaryCtxRetain: .* .46.: .*; another process uses the GPU exclusively' \
    'free=1000000000 fail=cuModuleLoadDataEx at=1 code=222|cuModuleLoadDataEx: .* .222.' \
    'free=1000000000 fail=cuMemAllocAsync at=1 code=2|bytes of device memory are needed: cuMemAllocAsync' \
    'free=400|bytes of device memory are needed on Fake A'; do
    expect "auto leaves the GPU: ${row%%|*}" 0 "notice: cpu:x86-64-v2: .*; not cuda:sm_90a: this GPU could not load it; cuda:sm_90a was chosen, but: .*${row#*|}" \
        auto "${row%%|*}"
    check "its bits are the CPU's" test "$(state_of .out)" = "$on_cpu"
done
expect "auto leaves a GPU that --device-memory makes too small" 0 'notice: cpu:x86-64-v2: .*; 1048576 are allowed; ' auto free=1000000000 --device-memory 1
DEVICE=auto expect "a graph is not made, and there is no code for the CPU" 15 \
    "error: cuGraphInstantiateWithFlags: .*; no CPU: 'toy.tsb' has no code for this CPU .*; it has cuda:sm_90a" \
    gpu 'fail=cuGraphInstantiateWithFlags at=1 code=2' --state-dir L
DEVICE=auto expect "what fails in the first step stays with the GPU" 17 'step 1: cuGraphLaunch: CUDA_ERROR_ILLEGAL_ADDRESS' \
    gpu 'fail=cuGraphLaunch at=1 code=700' --state-dir L
expect "a GPU is requested" 17 'the NVIDIA driver shows no device' \
    env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD='devices=0' "$RUN" "$BUNDLE" --device cuda "${DATA[@]}" --steps 1

finish
