#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An AMD GPU that is missing, has no code, too little memory or a broken kernel: each has its message and exit code. The HIP runtime is
# tests/runtime/fake_hip.c, whose kernels do nothing here, and last AMD's own, which shows no device on a machine without one.
. "$(dirname "$0")/common.sh"

mkdir fake nvidia none
ln -s "$FAKE_HIP" fake/libamdhip64.so.7
ln -s "$FAKE_CUDA" nvidia/libcuda.so.1
touch none/libamdhip64.so.7
check "code for AMD GPUs" "$AOT" build "$DIGITS/digits.mlir" -o amd.tsb --target=cpu:x86-64-v3,hip:gfx942

# gpu HOW FLAG…: runs with a HIP runtime that behaves as HOW says.
gpu() {
    local how=$1
    shift
    env LD_LIBRARY_PATH="${DRIVER:-fake}" FAKE_HIP_TOLD="any=1 free=1000000000 $how" "$RUN" "${TSB:-amd.tsb}" --device "${DEVICE:-hip}" \
        "${DATA[@]}" --steps 2 "$@"
}

expect "a run" 0 '^state [0-9a-f]{64} step 2' gpu ''
for device in hip:1 hip:GPU-1011 hip:0000:1c:00.0; do DEVICE=$device expect "$device" 0 '^state ' gpu ''; done
DEVICE=hip:2 expect "no such GPU" 6 "'2' names 0 HIP devices; expected one of 0 GPU-0001.*\(Fake A\), 1 GPU-1011" gpu ''
DEVICE=hip:x expect "no selector" 6 "device 'hip:x'; expected cpu, cuda, cuda:N, cuda:GPU-UUID, the same with hip, or auto" gpu ''
DEVICE=auto expect "any GPU" 0 '^state ' gpu ''
DRIVER=none expect "a file that is not a library" 17 'there is no AMD driver here: .*libamdhip64' gpu ''
expect "no GPU" 17 'the AMD driver shows no device$' gpu devices=0
HIP_VISIBLE_DEVICES=5 expect "hidden GPUs" 17 "HIP_VISIBLE_DEVICES is '5', which may hide" gpu devices=0
expect "an old runtime" 17 'the AMD driver is for HIP 5\.1; expected 5\.2 or later' gpu version=50100000
expect "a GPU without code" 5 'architecture gfx90a; it has .*; build it with --target=hip:gfx90a' gpu arch=gfx90a
expect "an unknown GPU" 5 "the architecture 'gfx803:sramecc\+:xnack-'; no target is for it" gpu arch=gfx803
TSB=$BUNDLE expect "code for other machines only" 5 'architecture gfx942; it has .*; build it with --target=hip:gfx942' gpu ''
expect "NVIDIA's GPU, AMD's code" 5 'no code for a GPU of compute capability 9\.0; it has .*hip:gfx942' \
    env LD_LIBRARY_PATH=nvidia "$RUN" amd.tsb --device cuda "${DATA[@]}" --steps 2
expect "a newer code object than the runtime" 17 'hipModuleLoadDataEx: .*\(218\): .*the HIP runtime is older than this kind of code' \
    gpu 'fail=hipModuleLoadDataEx at=1 code=218'
expect "less memory than the plan" 15 'bytes of device memory are needed on Fake A .*; 4000 of' gpu free=4000
expect "memory runs out" 15 'hipMalloc: hipErrorOutOfMemory \(2\): .*a smaller batch needs less' gpu 'fail=hipMalloc at=1 code=2'
expect "a trapped kernel" 17 'hipStreamSynchronize: hipErrorLaunchFailure \(719\): k[0-9]+_[a-z0-9_]* at .*digits\.mlir:[0-9]+:[0-9]+.*; --one-by-one names' \
    gpu 'fail=hipStreamSynchronize at=8 code=719' --one-by-one

library=$(ldconfig -p 2>/dev/null | sed -n 's|.* => \(/.*/libamdhip64\.so\.[0-9]*\)$|\1|p' | head -1)
if [ -z "$library" ] || [ -e /dev/kfd ]; then
    skip "AMD's own HIP runtime is not installed, or there is a GPU"
else
    expect "AMD's own runtime without a GPU" 17 'the AMD driver shows no device' "$RUN" amd.tsb --device hip "${DATA[@]}" --steps 2
fi
finish
