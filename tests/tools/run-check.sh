#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tessera-run --check: the verdict, the reasons, the needs and the exit code are those of a run.
. "$(dirname "$0")/common.sh"

expect "it runs" 0 '^[^ ]*: runs here$' "$RUN" --check "$BUNDLE"
cp .out good
for line in '^targets \(this CPU: x86-64-v[234](-bf16)?\)$' '^  \* cpu:x86-64-v[234] +the highest level' '^    cpu:x86-64-v2 +not: a lower level$' \
    '^drivers  none$' '^  workspace +[1-9][0-9]*$' '^  device +0$' \
    '^    needs --data images=.*64x64xui8$' '^    needs --input x=.*64x64xui8$'; do
    check "a line $line" grep -Eq -- "$line" good
done
check "the step is nobody's to give" sh -c '! grep -q "step=" good'

# The numbers are those of the plan: parameters of 4 bytes each, with two moments each.
"$RUN" --check --json "$BUNDLE" >j
number() { grep -o "\"$1\":[0-9]*" j | cut -d: -f2; }
parameters=$((4 * (64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10)))
check "parameters" test "$(number parameterBytes)" = "$parameters"
check "state" test "$(number stateBytes)" = $((2 * parameters))
check "a save" test "$(number saveBytes)" = $((3 * parameters))
total=$(($(number hostBytes) + 0))
check "in all" test "$total" -ge $((3 * parameters + $(number workspaceBytes) + $(number portBytes)))

# A bundle that cannot run: the exit code of a run, a reason and advice, also in JSON.
check "target v2" "$AOT" build "$DIGITS/digits.mlir" -o one.tsb --target=cpu:x86-64-v2
expect "another level" 5 '^one.tsb: does not run here$' "$RUN" --check one.tsb --cpu x86-64-v3
cp .out refused
check "advice" grep -q '^do this: build it with --target=cpu:x86-64-v' refused
expect "no level" 6 "is not a CPU level" "$RUN" --check --json one.tsb --cpu pentium
head -c 5120 "$BUNDLE" >cut.tsb
expect "truncated" 2 '^do this: copy it again' "$RUN" --check cut.tsb
expect "not there" 7 '"runs":false,"exitCode":7,"code":"IO"' "$RUN" --check --json no.tsb
expect "unsigned, though it must be" 4 '^do this: get the bundle' sh -c '"$0" keygen -o k >/dev/null && "$1" --check --require-signature --key k.pub one.tsb' "$AOT" "$RUN"
(ulimit -v 150000 2>/dev/null && "$RUN" --check one.tsb >limited 2>.err)
check "a limit on memory is told" grep -Eq 'available on this host +[0-9]{1,9}$' limited

# Only metadata is read: a damaged kernel or weight is not noticed, but a run finds it.
cp "$BUNDLE" damaged.tsb
size=$(stat -c %s damaged.tsb)
printf 'XXXX' | dd of=damaged.tsb bs=1 seek=$((size - 8192)) conv=notrunc status=none
expect "metadata is whole" 0 'runs here' "$RUN" --check damaged.tsb
expect "the rest is not" 2 'digest of the chunk' "$AOT" verify damaged.tsb
if command -v strace >/dev/null && strace -f -e trace=pread64 -o trace "$RUN" --check "$BUNDLE" >/dev/null 2>&1; then
    check "code is not read" sh -c '! grep -q "ELF" trace'
fi

# A GPU: first a file that is not a driver, then a driver without a GPU.
cat >net.mlir <<'EOF'
module @net {
  func.func @train(%x: tensor<4x600xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.uniform<-1.0, 1.0> : tensor<600x600xf32>
    %y = tessera.matmul %x, %w : tensor<4x600xf32>, tensor<600x600xf32> -> tensor<4x600xf32>
    %d = tessera.dropout %y {rate = 0.5} : tensor<4x600xf32> -> tensor<4x600xf32>
    %loss = tessera.mean %d {axes = [0, 1]} : tensor<4x600xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0e-2, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    return %loss : tensor<f32>
  }
}
EOF
check "targets of CPU and GPU" "$AOT" build net.mlir -o net.tsb --target=cpu:x86-64-v2,cuda:sm_80,cuda:sm_90a
mkdir none fake
touch none/libcuda.so.1
ln -s "$FAKE_CUDA" fake/libcuda.so.1
expect "no driver" 17 '^do this: install or update the NVIDIA driver' env LD_LIBRARY_PATH=none "$RUN" --check --device cuda net.tsb
expect "no code" 5 '^do this: build it with a --target=cuda:' env LD_LIBRARY_PATH=fake "$RUN" --check --device cuda one.tsb
# on HOW FLAG…: --check with a driver that behaves as HOW says.
on() {
    local how=$1
    shift
    env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD="$how" "$RUN" --check net.tsb "$@"
}
expect "code for the GPU" 0 '^  \* cuda:sm_90a +code for this GPU; needs libcuda.so.1' on free=1048576000 --device cuda
cp .out gpu
for line in '^    cpu:x86-64-v2 +not: a GPU runs it$' '^    cuda:sm_80 +not: cuda:sm_90a suits this GPU better; ' '^  device +[1-9]' \
    '^  free on the device +1048576000$' '^    needs --data x='; do
    check "a line $line" grep -Eq -- "$line" gpu
done
check "the seed is nobody's to give" sh -c '! grep -q "needs --input" gpu'

# GPU memory: the free and the allowed memory, with the messages and the exit code of a run.
expect "it fits what is allowed" 0 '^  allowed there \(0: all\) +67108864$' on free=1048576000 --device cuda --device-memory 64
plan="'net' plans [0-9]+ bytes, including [0-9]+ for tensors: w \(1440000\), "
expect "too little is allowed" 15 \
    "^why:     [0-9]+ bytes of device memory are needed on Fake A .*\); 1048576 are allowed; 1048576000 of [0-9]+ bytes .* are free; $plan" \
    on free=1048576000 --device cuda --device-memory 1
expect "too little is free" 15 "^why:     [0-9]+ bytes of device memory are needed on Fake A .*\); 400 of [0-9]+ bytes of device memory are free; $plan" \
    on free=400 --device cuda
cp .out short
cp .err short.err
for line in '^net.tsb: does not run here$' '^do this: free memory of the GPU .*; the bundle plans [0-9.]+ MiB on the GPU$' '^  free on the device +400$'; do
    check "a line $line" grep -Eq -- "$line" short
done
env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD='free=400 any=1' "$RUN" net.tsb --device cuda --data x=x --steps 1 2>run.err
check "a run's exit code" test $? -eq 15
check "a run's words" diff short.err run.err
expect "too little is free, as JSON" 15 '"exitCode":15,"code":"MEMORY","problem":"[0-9]+ bytes of device memory .*"deviceFreeBytes":400,"deviceAllowedBytes":0,' \
    on free=400 --device cuda --json
expect "what is free is not known" 17 '"deviceFreeBytes":null' on 'fail=cuMemGetInfo_v2 at=1 code=700' --device cuda --json
expect "no context" 15 '^why:     cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY' on 'fail=cuDevicePrimaryCtxRetain at=1 code=2' --device cuda
expect "auto takes the CPU where a GPU is too small" 0 '^device   cpu:x86-64-v2: .*; cuda:sm_90a was chosen, but: [0-9]+ bytes of device memory are needed' \
    on free=400 --device auto
cp .out left
for line in '^  \* cpu:x86-64-v2 ' '^    cuda:sm_90a +not: this GPU could not load it; ' '^  device +0$' '^  free on the device +0$'; do
    check "a line $line" grep -Eq -- "$line" left
done

# Code and scratch memory of kernels are included, as inspect reports them: here for rows too long for the memory of a multiprocessor.
cat >wide.mlir <<'EOF'
module @wide {
  func.func @f(%x: tensor<2x20000xf32> {tessera.name = "x"}) -> (tensor<2x20000xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %y = tessera.softmax_safe %x {axis = 1} : tensor<2x20000xf32>
    return %y : tensor<2x20000xf32>
  }
}
EOF
check "a kernel with scratch memory" "$AOT" build wide.mlir -o wide.tsb --target=cpu:x86-64-v2,cuda:sm_80
"$AOT" inspect --kernels wide.tsb >told
"$RUN" --check --json wide.tsb >j
check "code of a CPU" test "$(number codeBytes)" = "$(awk '$NF ~ /elf/ { print $1 }' told)"
check "it has no scratch memory" test "$(number scratchBytes)" = 0
planned=$(($(number workspaceBytes) + $(number portBytes)))
more=$(($(number hostBytes) - planned - $(number codeBytes)))
check "the host's memory holds it: $more" test "$more" -ge 0 -a "$more" -lt 4096
env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD=free=1048576000 "$RUN" --check --json --device cuda wide.tsb >j
block=$(awk '/^  k0_/ { print $5 }' told) # the fake GPU has 5 multiprocessors, each with 4 blocks that have scratch memory
check "scratch memory of a GPU" test "$block" -gt 0 -a "$(number scratchBytes)" = $((block * 4 * 5))
fatbin=$(awk '$NF ~ /fatbin/ { print $1 }' told)
check "code of a GPU, part of what is stored" test "$(number codeBytes)" -gt 0 -a "$(number codeBytes)" -lt "$fatbin"
more=$(($(number deviceBytes) - planned - $(number codeBytes) - $(number scratchBytes)))
check "the device's memory holds both: $more" test "$more" -ge 0 -a "$more" -lt 4096
expect "no room for scratch memory" 15 \
    "^why:     with $((block * 20)) bytes of scratch memory for kernels: [0-9]+ bytes of device memory are needed on Fake A .*; 2000000 of [0-9]+ bytes" \
    env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD=free=2000000 "$RUN" --check --device cuda wide.tsb

# A reason for each target that is not chosen, for each cause.
for row in "major=8|cuda:sm_90a +not: this GPU has compute capability 8.0" "major=10|cuda:sm_90a +not: for compute capability 9.0 alone; this GPU has 10.0" \
    "major=10|cpu:x86-64-v2 +not: a GPU runs it" "major=7|cuda:sm_80 +not: this GPU has compute capability 7.0" \
    "major=7|cpu:x86-64-v2 +not: a GPU is requested" "devices=0|cuda:sm_80 +not: this machine has no usable GPU"; do
    on "${row%%|*}" --device cuda >why 2>.err
    check "${row%%|*}: ${row#*|}" grep -Eq -- "^    ${row#*|}(\$|; needs)" why
done
expect "the CPU is asked for" 0 '^    cuda:sm_80 +not: needs a GPU as the device; ' on '' --device cpu

expect "a cap that caps nothing" 6 "--device-memory 1 limits a GPU's memory; the device is the CPU" "$RUN" --check --device-memory 1 net.tsb
expect "auto takes the GPU" 0 '^device   cuda:sm_90a: for compute capability 9.0$' on free=1048576000 --device auto
expect "auto takes the CPU" 0 '^device   cpu:x86-64-v2: .*; no GPU: the NVIDIA driver shows no device' on devices=0 --device auto
check "targets of GPUs alone" "$AOT" build net.mlir -o gpus.tsb --target=cuda:sm_80
for how in "devices=0|5|.gpus.tsb. has no code for this CPU \(x86-64-v[234].*\); it has cuda:sm_80; no GPU: the NVIDIA driver shows no device" \
    "free=400|15|bytes of device memory are needed on .*; no CPU: .gpus.tsb. has no code for this CPU"; do
    IFS='|' read -r told code text <<<"$how"
    expect "auto, neither nor: $told" "$code" "^why:     .*$text" env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD="$told" "$RUN" --check --device auto gpus.tsb
    expect "auto, neither nor: $told, a run" "$code" "error: .*$text" \
        env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD="$told any=1" "$RUN" --device auto gpus.tsb --data x=x --steps 1
done

# Flags without effect on --check.
expect "steps" 6 '--steps does not apply to --check' "$RUN" --check "$BUNDLE" --steps 3
expect "state" 6 '--state-dir does not apply to --check' "$RUN" --check "$BUNDLE" --state-dir S
expect "json alone" 6 '--json needs --check' "$RUN" "$BUNDLE" --json
"$RUN" --check "$BUNDLE" >/dev/full 2>.err
check "a full disk" test $? -eq 7
check "nothing is written" test ! -e S
finish
