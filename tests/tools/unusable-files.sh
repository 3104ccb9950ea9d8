#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unusable files, for every option that reads arrays: each kind of defect is refused at once with the path of the file. A link to a good file
# is accepted. Also the cache of digests in a state directory, which is ignored if it is unusable.
. "$(dirname "$0")/common.sh"

cp "$DIGITS/train-images.npy" images.npy && cp "$DIGITS/train-labels.npy" labels.npy && cp "$DIGITS/test-images.npy" x.npy
cp "$BUNDLE" d.tsb
train=("$RUN" d.tsb --quiet --steps 2 --data labels=labels.npy)
check "parameters" "$RUN" d.tsb --quiet --steps 1 --data labels=labels.npy --data images=images.npy --export-params w.safetensors --state-dir S
"$PYTHON" -c 'import sys, zipfile; zipfile.ZipFile("images.npz", "w").write("images.npy", "images.npy")'
tail -c +129 images.npy >images.u8
printf 'a,b\n1,2\n' >table.csv
mkfifo fifo
ln -s nowhere dangling && ln -s loop loop
mkdir folder

# WHAT|GOOD FILE|COMMAND, whose last word gets the path. A flat file has no end marker: it cannot be truncated, but has other rows.
rows=(
    "--data .npy|images.npy|train images="
    "--data .npz|images.npz|train images="
    "--data flat|images.u8|train images="
    "--data with a state|images.npy|resume images="
    "--data with a state, accepted|images.npy|accept images="
    "--input|x.npy|predict x="
    "--params|w.safetensors|params "
    "build --params|w.safetensors|build "
    "bake --params|w.safetensors|bake "
)
run_row() { # KIND FILE
    local words=()
    case ${1%% *} in
    train) words=("${train[@]}" --data) ;;
    resume) words=("${train[@]}" --state-dir D --data) ;;
    accept) words=("${train[@]}" --state-dir D --new-data --data) ;;
    predict) words=("$RUN" d.tsb --quiet --entry predict --output y=y.npy --input) ;;
    params) words=("$RUN" d.tsb --quiet --entry predict --input x=x.npy --output y=y.npy --params) ;;
    build) words=("$AOT" build "$DIGITS/digits.mlir" --target cpu:x86-64-v2 -o y.npy --params) ;;
    bake) words=("$AOT" bake d.tsb -o y.npy --params) ;;
    esac
    unprivileged timeout 30 "${words[@]}" "${1#* }$2"
}
# refused WHAT CODES KIND FILE: no output is written, and the state is unchanged.
refused() {
    local what=$1 codes=$2 code=0
    rm -rf D y.npy && cp -a S D
    checks=$((checks + 1))
    run_row "$3" "$4" >.out 2>.err </dev/null || code=$?
    [[ " $codes " == *" $code "* ]] || fail "$what: exit code $code; expected $codes"
    grep -q "^tessera-[a-z]*: error: .*$4" .err || fail "$what: the message does not name '$4'"
    [ ! -e y.npy ] || fail "$what: an output was written"
    [ "$("$RUN" ls D --json | grep -c '"token"')" = 1 ] || fail "$what: something was saved"
}
for row in "${rows[@]}"; do
    IFS='|' read -r what good kind <<<"$row"
    suffix=.${good##*.}
    rm -rf D && cp -a S D
    ln -sf "$good" "link$suffix"
    checks=$((checks + 1))
    run_row "$kind" "link$suffix" >.out 2>.err </dev/null || fail "$what: a link to a good file"
    refused "$what: missing" 7 "$kind" "missing$suffix"
    for file in fifo dangling loop folder; do
        ln -sfn "$file" "$file$suffix"
        refused "$what: $file" 7 "$kind" "$file$suffix"
    done
    refused "$what: a device" 7 "$kind" /dev/full
    refused "$what: another program's file" "6 8" "$kind" table.csv
    cp table.csv "table$suffix"
    refused "$what: a table under that name" 8 "$kind" "table$suffix"
    : >"empty$suffix"
    refused "$what: empty" 8 "$kind" "empty$suffix"
    for size in 1 7 100 2000; do
        head -c $size "$good" >"short$suffix"
        refused "$what: $size bytes of it" 8 "$kind" "short$suffix"
    done
    if $can_deny; then
        cp "$good" "denied$suffix" && chmod 0 "denied$suffix"
        refused "$what: unreadable" 7 "$kind" "denied$suffix"
        rm -f "denied$suffix"
    else
        skip "$what: unreadable: permissions do not hold here"
    fi
done
refused "--data: elements of another type" 8 "train images=" labels.npy
expect "--input: elements of another type" 8 "error: input 'x' is 1438xi64; expected 64x64xui8" run_row "predict x=" labels.npy
refused "--params: an array" "6 8" "params " x.npy

# ---- the cache of digests: with any file there the run is the same, and no other file is written ----
sleep 2.1 # files that have just changed are not cached
resume() { unprivileged timeout 30 "$RUN" d.tsb --quiet --data images="$1" --data labels=labels.npy --steps "$2" --state-dir C; }
cp -a S C
check "cached" resume images.npy 2
check "a cache" test -f C/DATA
cp C/DATA good && cp C/DATA precious
tail -c +129 images.npy | head -c $((1400 * 64)) >fewer.u8
tail -c +129 labels.npy | head -c $((1400 * 8)) >fewer.i64
step=2
lies() { # WHAT COMMAND…: the command makes C/DATA
    local what=$1
    shift
    rm -rf C/DATA && "$@"
    expect "cache: $what" 0 '^state ' resume images.npy "$((++step))"
    rm -rf C/DATA && "$@"
    expect "cache: $what: other data" 12 'the state was trained with 1438 rows' \
        unprivileged timeout 30 "$RUN" d.tsb --quiet --data images=fewer.u8 --data labels=fewer.i64 --steps 99 --state-dir C
    chmod -f 644 C/DATA
    check "cache: $what: what is no cache stays" cmp precious good
}
lies "missing" true
lies "good" cp good C/DATA
lies "a link to one" ln -s ../precious C/DATA
lies "truncated" sh -c 'head -c 70 good >C/DATA'
lies "of another kind" cp images.npy C/DATA
lies "too large" truncate -s 1G C/DATA
lies "empty" touch C/DATA
lies "unreadable" sh -c 'cp good C/DATA && chmod 0 C/DATA'
lies "a FIFO" mkfifo C/DATA
lies "a link to a FIFO" ln -s ../fifo C/DATA
lies "a folder" mkdir C/DATA
lies "a full folder" cp -r S C/DATA
lies "a device" ln -s /dev/full C/DATA
lies "a dangling link" ln -s nowhere C/DATA
lies "a link to itself" ln -s DATA C/DATA
finish
