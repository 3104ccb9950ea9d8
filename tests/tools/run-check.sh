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

# The numbers are those of the plan: parameters of 4 bytes each, two moments for each of them.
"$RUN" --check --json "$BUNDLE" >j
number() { grep -o "\"$1\":[0-9]*" j | cut -d: -f2; }
parameters=$((4 * (64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10)))
check "parameters" test "$(number parameterBytes)" = "$parameters"
check "state" test "$(number stateBytes)" = $((2 * parameters))
check "a save" test "$(number saveBytes)" = $((3 * parameters))
total=$(($(number hostBytes) + 0))
check "in all" test "$total" -ge $((3 * parameters + $(number workspaceBytes) + $(number portBytes)))

# What does not run: the code of a run, a reason and advice, also in JSON.
check "target v2" "$AOT" build "$DIGITS/digits.mlir" -o one.tsb --target=cpu:x86-64-v2
expect "another level" 5 '^one.tsb: does not run here$' "$RUN" --check one.tsb --cpu x86-64-v3
cp .out refused
check "advice" grep -q '^do this: build it with --target=cpu:x86-64-v' refused
expect "no level" 6 "is no CPU level" "$RUN" --check --json one.tsb --cpu pentium
head -c 5120 "$BUNDLE" >cut.tsb
expect "truncated" 2 '^do this: copy it anew' "$RUN" --check cut.tsb
expect "not there" 7 '"runs":false,"exitCode":7,"code":"IO"' "$RUN" --check --json no.tsb
expect "unsigned, though it must be" 4 '^do this: get it' sh -c '"$0" keygen -o k >/dev/null && "$1" --check --require-signature --key k.pub one.tsb' "$AOT" "$RUN"
(ulimit -v 150000 2>/dev/null && "$RUN" --check one.tsb >limited 2>.err)
check "a limit on memory is told" grep -Eq 'available on this host +[0-9]{1,9}$' limited

# Metadata alone: a damaged kernel or weight is not looked at, and a run finds it.
cp "$BUNDLE" damaged.tsb
size=$(stat -c %s damaged.tsb)
printf 'XXXX' | dd of=damaged.tsb bs=1 seek=$((size - 8192)) conv=notrunc status=none
expect "metadata is whole" 0 'runs here' "$RUN" --check damaged.tsb
expect "the rest is not" 2 'digest of the chunk' "$AOT" verify damaged.tsb
if command -v strace >/dev/null && strace -f -e trace=pread64 -o trace "$RUN" --check "$BUNDLE" >/dev/null 2>&1; then
    check "code is not read" sh -c '! grep -q "ELF" trace'
fi

# A GPU: a driver that is none, then one without a GPU behind it.
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
expect "no driver" 17 '^do this: install or renew the NVIDIA driver' env LD_LIBRARY_PATH=none "$RUN" --check --device cuda net.tsb
expect "no code" 5 '^do this: build it with a --target=cuda:' env LD_LIBRARY_PATH=fake "$RUN" --check --device cuda one.tsb
expect "code for the GPU" 0 '^  \* cuda:sm_90a +code for this GPU; needs libcuda.so.1' env LD_LIBRARY_PATH=fake "$RUN" --check --device cuda net.tsb
cp .out gpu
for line in '^    cpu:x86-64-v2 +not: a GPU runs it$' '^    cuda:sm_80 +not: .*other code suits it better' '^  device +[1-9]' '^    needs --data x='; do
    check "a line $line" grep -Eq -- "$line" gpu
done
check "the seed is nobody's to give" sh -c '! grep -q "needs --input" gpu'
expect "too little of its memory" 15 "bytes of device memory are needed; 1048576 are allowed; 'net' plans [0-9]+ bytes, of them [0-9]+ for tensors: " \
    env LD_LIBRARY_PATH=fake "$RUN" --check --device cuda --device-memory 1 net.tsb
expect "a cap that caps nothing" 6 "--device-memory 1 limits a GPU's memory; the device is the CPU" "$RUN" --check --device-memory 1 net.tsb
expect "auto takes the GPU" 0 '^device   cuda:sm_90a: for compute capability 9.0$' env LD_LIBRARY_PATH=fake "$RUN" --check --device auto net.tsb
expect "auto takes the CPU" 0 '^device   cpu:x86-64-v2: .*; no GPU: the NVIDIA driver shows no device' \
    env LD_LIBRARY_PATH=fake FAKE_CUDA_TOLD='devices=0' "$RUN" --check --device auto net.tsb

# Flags that mean nothing to it.
expect "steps" 6 '--steps does not apply to --check' "$RUN" --check "$BUNDLE" --steps 3
expect "state" 6 '--state-dir does not apply to --check' "$RUN" --check "$BUNDLE" --state-dir S
expect "json alone" 6 '--json needs --check' "$RUN" "$BUNDLE" --json
"$RUN" --check "$BUNDLE" >/dev/full 2>.err
check "a full disk" test $? -eq 7
check "nothing is written" test ! -e S
finish
