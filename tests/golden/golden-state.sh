#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# State directories, record logs and bundles of an earlier Tessera (state-1/README.md, state-2/README.md): states resume
# to the bits of a run that never stopped, and logs replay.
# usage: golden-state.sh TESSERA_RUN TESSERA_AOT DIGITS_BUNDLE SOURCE_ROOT
. "$(dirname "$0")/../tools/common.sh"

for FROZEN in "$ROOT"/tests/golden/state-[12]; do
    (cd "$FROZEN" && sha256sum --quiet -c SHA256SUMS) || fail "the frozen files of $FROZEN were changed"
    listed=$(wc -l <"$FROZEN/SHA256SUMS")
    found=$(find "$FROZEN" -type f ! -name README.md ! -name SHA256SUMS | wc -l)
    [ "$listed" = "$found" ] || fail "$found frozen files; SHA256SUMS of $FROZEN lists $listed"
done
FROZEN=$ROOT/tests/golden/state-1

for bundle in digits ranks ids ids-trained; do
    expect "$bundle.tsb" 0 'good' "$AOT" verify --strict "$FROZEN/$bundle.tsb"
done

# a writable copy of a state directory
thaw() { # NAME
    rm -rf "$1.state" && cp -r "$FROZEN/$1.state" "$1.state"
    chmod -R u+w "$1.state"
}

# resumes NAME GENERATION STEP STATE TO NEW_STATE FLAG…: the directory verifies, and the run that resumes from
# its newest generation ends with NEW_STATE.
resumes() {
    local name=$1 generation=$2 step=$3 state=$4 to=$5 new=$6
    shift 6
    thaw "$name"
    expect "$name: fsck" 0 '^2 good, 0 damaged, 0 uncommitted$' "$RUN" fsck "$name.state"
    expect "$name: ls" 0 "\"generation\":$generation,.*\"step\":$step,.*\"state\":\"$state\"" "$RUN" ls --json "$name.state"
    expect "$name: export" 0 "generation $generation" "$RUN" export "$name.state" -o "$name.safetensors"
    expect "$name: resume" 0 "^state $new step $to generation $((generation + 1))$" \
        "$RUN" "$FROZEN/$name.tsb" "$@" --quiet --steps "$to" --state-dir "$name.state"
    grep -q "^resumed generation $generation at step $step " .out || fail "$name: another generation was resumed"
}

replays() { # NAME STEPS STATE FLAG…
    local name=$1 steps=$2 state=$3
    shift 3
    expect "$name: replay" 0 "^replay matches: $steps steps, every digest equal$" \
        "$RUN" "$FROZEN/$name.tsb" "$@" --quiet --replay "$FROZEN/$name.log"
    grep -q "^state $state step $steps$" .out || fail "$name: the replayed state differs"
}

IDS=(--data "x=$FROZEN/ids.npy")
if grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo; then
    resumes digits 2 30 d10da6eda25ec77fa38a8ebd615ff8e042500b049a7bf50b810fa85c8db76781 \
        40 acc6de4eab2adef771d36cad7234cb728b1af2d3493d6bcdd52aa14c97cb57a2 "${DATA[@]}" --cpu x86-64-v3
    replays digits 4 d1f906bd17f1065a811734109edc136edae160588a2ae83fc697e4b99a2b9d5e "${DATA[@]}" --cpu x86-64-v3
    thaw digits
    expect "digits: of another bundle" 12 'generation 2 belongs to bundle [0-9a-f]{64}; the given bundle is [0-9a-f]{64}' \
        "$RUN" "$ROOT/tests/golden/digits-1.0.tsb" "${DATA[@]}" --cpu x86-64-v3 --steps 40 --state-dir digits.state
    expect "digits: of other numerics" 12 'portable\+fma' \
        "$RUN" "$FROZEN/digits.tsb" "${DATA[@]}" --cpu x86-64-v2 --steps 40 --state-dir digits.state
fi
resumes ranks 3 30 655fd739d3b0c17e32eb99f19b83817e25534299fc034788763b6c8681f2e60c \
    40 3c46087db7add463c2cac4ec0224f42cea994a0adffe91f991cae13a296c4d2c "${DATA[@]}" --cpu x86-64-v2 --ranks 3
replays ranks 3 e55102dbb3680a4342014c0a4d0dffce73e243ccd9cc53afc2dcf30b73f40686 "${DATA[@]}" --cpu x86-64-v2 --ranks 4

# One epoch is 333 batches of 3 samples: a run resumed in its middle visits each sample once.
each_once() { # METRICS…
    cat "$@" | grep '"event":"step"' | grep -Eo '"[abc]":[0-9]+' | cut -d: -f2 | sort -n | uniq >seen
    [ "$(wc -l <seen)" = 999 ] || fail "an epoch of 999 samples visited $(wc -l <seen) of them"
}
thaw ids
check "ids: the first half" "$RUN" "$FROZEN/ids.tsb" "${IDS[@]}" --steps 166 --metrics first.jsonl
resumes ids 2 166 63a7e70f47d871d82f61c0daa6938b7141a3d3052a844e98844c3948f2e5ea3a \
    333 8b9352d9940c35250c11032a1698a155a56d0a2c550ef56189f94c4a979e766f "${IDS[@]}" --metrics second.jsonl
each_once first.jsonl second.jsonl
replays ids 6 15aa6b23c816facafbe809d6e570617883a893413c8b743e2053d2ab0af06221 "${IDS[@]}"
expect "ids: a baked state" 0 '^state 8b9352d9940c35250c11032a1698a155a56d0a2c550ef56189f94c4a979e766f step 333$' \
    "$RUN" "$FROZEN/ids-trained.tsb" "${IDS[@]}" --quiet --steps 333 --metrics baked.jsonl
each_once first.jsonl baked.jsonl

# State 2 has program digests: bundles that are built again from the source, or with another number of the optimizer, continue with it.
# Should the first of these fail, then the compiler computes other bits or another digest than it did: the version in `numerics`, or the
# one at the beginning of the hashed bytes, has to be raised.
FROZEN=$ROOT/tests/golden/state-2
if grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo; then
    FORTY=acc6de4eab2adef771d36cad7234cb728b1af2d3493d6bcdd52aa14c97cb57a2
    resumes digits 2 30 d10da6eda25ec77fa38a8ebd615ff8e042500b049a7bf50b810fa85c8db76781 40 $FORTY "${DATA[@]}" --cpu x86-64-v3
    replays digits 4 d1f906bd17f1065a811734109edc136edae160588a2ae83fc697e4b99a2b9d5e "${DATA[@]}" --cpu x86-64-v3
    check "digits.mlir: build" "$AOT" build "$FROZEN/digits.mlir" -o again.tsb --target=cpu:x86-64-v3
    sed 's/lr = 1.0e-3/lr = 5.0e-4/' "$FROZEN/digits.mlir" >halved.mlir
    check "halved.mlir: build" "$AOT" build halved.mlir -o halved.tsb --target=cpu:x86-64-v3
    thaw digits
    expect "built again: continues" 0 "^state $FORTY step 40 generation 3$" "$RUN" again.tsb "${DATA[@]}" --steps 40 --state-dir digits.state
    expect "built again: replay" 0 '^replay matches: 4 steps' "$RUN" again.tsb "${DATA[@]}" --quiet --replay "$FROZEN/digits.log"
    expect "built again: replay of a call" 0 '^replay matches: [0-9]+ call' "$RUN" again.tsb --quiet --entry predict --state-dir "$FROZEN/digits.state" \
        --input "x=$DIGITS/test-images.npy" --replay "$FROZEN/predict.log"
    thaw digits
    expect "another lr" 0 '^state 6c1d84c8e9cb3deb4b4c0e983bd63837fa5b3d096ec9039851439c2968443566 step 40 generation 3$' \
        "$RUN" halved.tsb "${DATA[@]}" --steps 40 --state-dir digits.state
    grep -q 'generation 2 was trained with lr 0.001; this run continues with 0.0005$' .err || fail "another lr is not told"
    expect "another lr: replay" 12 'this run has lr 0.0005; the log was recorded with 0.001' "$RUN" halved.tsb "${DATA[@]}" --quiet --replay "$FROZEN/digits.log"
    # Where one side has no program digest, the bundle counts.
    thaw digits
    expect "an older bundle" 12 'generation 2 belongs to bundle [0-9a-f]{64}; the given bundle is [0-9a-f]{64}' \
        "$RUN" "$ROOT/tests/golden/state-1/digits.tsb" "${DATA[@]}" --cpu x86-64-v3 --steps 40 --state-dir digits.state
    FROZEN=$ROOT/tests/golden/state-1
    thaw digits
    expect "an older state" 12 'generation 2 belongs to bundle [0-9a-f]{64}; the given bundle is [0-9a-f]{64}' \
        "$RUN" again.tsb "${DATA[@]}" --steps 40 --state-dir digits.state
    expect "an older log" 12 'this bundle has hash [0-9a-f]{16}; the log was recorded with [0-9a-f]{16}' "$RUN" again.tsb "${DATA[@]}" --quiet --replay "$FROZEN/digits.log"
fi
finish
