#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Damaged and foreign states: fall back by one generation with a message; never start again at step 0.
. "$(dirname "$0")/common.sh"

train() { "$RUN" "$BUNDLE" "${DATA[@]}" --quiet "$@"; }
newest() { find "$1" -name 'MANIFEST.*' | sort -t. -k2 -n | tail -n 1; }
count() { find "$1" -name 'MANIFEST.*' | wc -l; }
flip() { # FILE OFFSET: flips the lowest bit
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    printf '%b' "\\0$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

expect "four generations" 0 'generation' train --steps 400 --save-every 100 --keep 4 --state-dir S
for offset in 5 100 600; do
    rm -rf D && cp -a S D
    flip "$(newest D)" $offset
    expect "fsck tells" 10 '' "$RUN" fsck D
    expect "manifest damaged at $offset: one back" 0 'resumed generation [0-9]+ at step 300' train --steps 300 --state-dir D
    grep -q 'error: ' .err || fail "a damaged generation is not loud"
done
rm -rf D && cp -a S D
segment=$(find D -type f -size +16k | sort | tail -n 1)
flip "$segment" 20000
expect "segment damaged: one back" 0 'resumed generation [0-9]+ at step (300|400)' train --steps 300 --state-dir D
rm -rf D && cp -a S D
flip "$(newest D)" 50
read_state() { "$RUN" "$BUNDLE" --entry predict --state-dir D --input "x=$DIGITS/test-images.npy" --output y=y.npy "$@"; }
told_once() { [ "$(grep -c 'is damaged: MANIFEST' .err)" -eq 1 ] || fail "damage is told more than once"; }
expect "a reader falls back, too" 0 'error: generation 4 of epoch 1 is damaged' read_state
told_once
expect "but not from what it asked for" 10 'error: generation 4 of epoch 1 is damaged' read_state --resume 4
told_once
expect "the metrics count it" 0 '' train --steps 300 --state-dir D --metrics damaged.jsonl
check "a record of it" grep -q '^{"event":"resume",.*"generation":3,.*"damaged":1}$' damaged.jsonl
rm -rf D && cp -a S D
for manifest in D/MANIFEST.*; do flip "$manifest" 50; done
expect "all damaged" 10 '' train --steps 500 --state-dir D
check "nothing was removed" test "$(count D)" -eq "$(count S)"
expect "fsck of a damaged store" 10 '' "$RUN" fsck D
expect "fsck of a good store" 0 '' "$RUN" fsck S
expect "fsck of nothing" 7 '' "$RUN" fsck missing

rm -rf D && cp -a S D
rm D/MANIFEST.*
expect "all manifests deleted by hand: no fresh start" 10 'was committed, but its manifest is missing' train --steps 500 --state-dir D
expect "nor by asking for one" 10 'a fresh start was requested' train --steps 500 --state-dir D --resume never
check "the data is left" test "$(find D -name 'segment.*' | wc -l)" -eq "$(find S -name 'segment.*' | wc -l)"
expect "fsck tells" 10 'was committed, but its manifest is missing' "$RUN" fsck D
rm -rf D && cp -a S D
rm "$(newest D)"
expect "the newest deleted: one back, loudly" 0 'error: generation 4 of epoch 1 was committed' train --steps 300 --state-dir D

# A manifest that no run wrote hides the generations below it by default, but not from a user who names one.
rm -rf D && cp -a S D
: >D/MANIFEST.1.9
expect "a stray manifest: refused by default" 10 'fsck lists the remaining records' train --steps 500 --state-dir D
expect "fsck tells of the stray" 10 "'MANIFEST.1.9' may be a stray file: epoch 9 has left no BASE.9 and no data in gen/" "$RUN" fsck D
expect "and the generations that it hides" 10 '^generation 3 of epoch 1: .* it is good: resume it by its number' "$RUN" fsck D
expect "ls, too" 10 '^generation 4 epoch 1 step 400 .* good, ignored unless a run resumes it' "$RUN" ls D
expect "a hidden generation is exported" 0 'generation 3' "$RUN" export D -o hidden.safetensors --generation 3
expect "read" 0 'generation 2, step 200' "$RUN" "$BUNDLE" --entry predict --state-dir D --resume 2 --input "x=$DIGITS/test-images.npy" --output y=y.npy
expect "baked" 0 '^generation 1, step 100' "$AOT" bake "$BUNDLE" --state-dir D --generation 1 -o hidden.tsb
expect "and gone on from" 0 'resumed generation 3 at step 300' train --steps 400 --state-dir D --resume 3
[ "$(state_of .out)" = "$("$RUN" ls S --json | sed -n 's/.*"generation":4,.*"state":"\([0-9a-f]*\)".*/\1/p')" ] ||
    fail "the run from a hidden generation has other bits"
expect "then it is the newest that counts" 0 'at step 400' train --steps 400 --state-dir D

expect "ls" 0 '^generation [0-9]+ epoch 1 step 400 seed 0 bytes [0-9]+ state [0-9a-f]{64} program [0-9a-f]{64} good$' "$RUN" ls S
check "a line for each, and the counts" test "$(wc -l <.out)" -eq 5
check "a state of one step" "$RUN" "$BUNDLE" "${DATA[@]}" --quiet --steps 1 --state-dir one
expect "ls of one generation" 0 '^1 generation, 0 damaged, 0 uncommitted; the data was not read$' "$RUN" ls one
expect "its replay" 0 '^replay matches: 1 step, every digest equal$' sh -c "\"$RUN\" \"$BUNDLE\" ${DATA[*]} --quiet --steps 1 --record one.log && \"$RUN\" \"$BUNDLE\" ${DATA[*]} --quiet --replay one.log"
flip one/gen/*/segment.0 20000
expect "one record is damaged" 10 'error: .*1 committed record is damaged; 0 generations are good$' "$RUN" fsck one
expect "and refused" 10 'there is no good generation: 1 committed record is damaged. Nothing was changed' train --steps 2 --state-dir one
expect "ls reads no data" 0 'the data was not read' "$RUN" ls S
rm -rf D && cp -a S D
flip "$(find D -name 'segment.*' | sort | tail -n 1)" 20000
expect "a flipped byte is not seen" 0 '0 damaged' "$RUN" ls D
expect "but with --verify" 10 'damaged: tensor' "$RUN" ls D --verify
flip "$(newest D)" 100
expect "a damaged manifest is" 10 'epoch 1 damaged: MANIFEST' "$RUN" ls D
expect "prune of a damaged store" 10 'nothing was removed' "$RUN" prune D --keep 2
check "nothing was removed" test "$(count D)" -eq "$(count S)"
expect "ls --json of a damaged one" 10 '^\{"generation":[0-9]+,"epoch":1,"damaged":"' "$RUN" ls D --json
expect "--json is of --check and ls" 6 '--json does not apply to fsck' "$RUN" fsck D --json
expect "ls of nothing" 7 '' "$RUN" ls missing
expect "ls of another folder" 10 'not a state directory' "$RUN" ls "$DIGITS"
expect "ls of two" 6 'expected one' "$RUN" ls S S
rm -rf D && cp -a S D
expect "prune needs --keep" 6 '--keep is missing' "$RUN" prune D
expect "prune keeps 2 or more" 6 '--keep' "$RUN" prune D --keep 1
expect "prune of nothing" 7 '' "$RUN" prune missing --keep 2
mkdir foreign
expect "prune of another folder" 10 'not a state directory' "$RUN" prune foreign --keep 2
check "which stays as it is" test -z "$(ls -A foreign)"
expect "prune" 0 '2 removed, 2 left' "$RUN" prune D --keep 2
check "two are left" test "$(count D)" -eq 2
expect "again" 0 '0 removed, 2 left' "$RUN" prune D --keep 2
expect "what is left is good" 0 '2 good, 0 damaged, 0 uncommitted' "$RUN" fsck D
expect "and continues" 0 'at step 400' train --steps 400 --state-dir D
expect "ls takes no --keep" 6 '--keep does not apply to ls' "$RUN" ls S --keep 3

sed "s/%h1 = tessera.relu/%h1 = tessera.tanh/" "$DIGITS/digits.mlir" >other.mlir
check "another program" "$AOT" build other.mlir -o other.tsb
expect "another program's state" 12 "is of the program [0-9a-f]{64}; the bundle given has [0-9a-f]{64}" "$RUN" other.tsb "${DATA[@]}" --quiet --steps 500 --state-dir S
expect "state is a file" 7 '' train --steps 5 --state-dir other.tsb
if [ "$(grep -c -w fma /proc/cpuinfo)" -gt 0 ]; then
    expect "without FMA the bits differ: refused" 12 'portable' train --steps 500 --state-dir S --cpu x86-64-v2
fi

expect "predict from a state" 0 '' "$RUN" "$BUNDLE" --entry predict --state-dir S --input "x=$DIGITS/test-images.npy" --output y=y.npy
expect "the bundle's own parameters" 0 "bundle's own" "$RUN" "$BUNDLE" --entry predict --input "x=$DIGITS/test-images.npy" --output y=z.npy
check "they differ" sh -c '! cmp -s y.npy z.npy'
expect "export" 0 '' "$RUN" "$BUNDLE" --state-dir S --export-params p.safetensors
expect "predict from a file" 0 '' "$RUN" "$BUNDLE" --entry predict --params p.safetensors --input "x=$DIGITS/test-images.npy" --output y=q.npy
check "equal outputs" cmp y.npy q.npy
expect "bake" 0 '' "$AOT" bake "$BUNDLE" --state-dir S -o trained.tsb
expect "predict from a trained bundle" 0 '' "$RUN" trained.tsb --entry predict --input "x=$DIGITS/test-images.npy" --output y=t.npy
check "equal outputs" cmp y.npy t.npy
expect "trained bundle verifies" 0 '' "$AOT" verify --strict trained.tsb
expect "export at build side" 0 '' "$AOT" bake "$BUNDLE" --state-dir S --export-params p2.safetensors
check "the same file" cmp p.safetensors p2.safetensors
head -c 100 p.safetensors >short.safetensors
expect "truncated parameters" 8 'short.safetensors' "$RUN" "$BUNDLE" --entry predict --params short.safetensors --input "x=$DIGITS/test-images.npy" --output y=u.npy
check "no output of a failed call" test ! -e u.npy
for file in y.npz y.safetensors; do
    expect "an output in $file" 0 '' "$RUN" "$BUNDLE" --entry predict --state-dir S --input "x=$DIGITS/test-images.npy" --output "y=$file"
done
elements=$((359 * 10 * 4)) # after the local header of member y.npy, and at the end of the others
check "equal elements" cmp <(tail -c $elements y.npy) <(tail -c +$((30 + 5 + 20 + 128 + 1)) y.npz | head -c $elements)
check "equal elements" cmp <(tail -c $elements y.npy) <(tail -c $elements y.safetensors)
both=(--input "test_images=$DIGITS/test-images.npy" --input "test_labels=$DIGITS/test-labels.npy")
expect "two outputs in one file" 0 '' "$RUN" "$BUNDLE" --entry evaluate --state-dir S "${both[@]}" --output loss=e.npz --output accuracy=e.npz
expect "they are called by their names" 8 'the archive has: loss.npy, accuracy.npy' "$RUN" "$BUNDLE" --steps 1 --data images=e.npz:none --data labels=e.npz
expect "two outputs in one .npy" 6 "'loss' and 'accuracy' both go to 'e.npy'; expected one array, or a file that ends in .npz or .safetensors" \
    "$RUN" "$BUNDLE" --entry evaluate --state-dir S "${both[@]}" --output loss=e.npy --output accuracy=e.npy
check "no file" test ! -e e.npy
expect "unknown input" 6 "no input 'z'; it has x \(64x64xui8\)" "$RUN" "$BUNDLE" --entry predict --input z=y.npy --output y=u.npy
expect "missing input" 6 "input 'x' of entry 'predict' is missing" "$RUN" "$BUNDLE" --entry predict --output y=u.npy
expect "unknown output" 6 "no output 'z'; it has y" "$RUN" "$BUNDLE" --entry predict --input "x=$DIGITS/test-images.npy" --output z=u.npy
expect "no output" 6 'no output' "$RUN" "$BUNDLE" --entry predict --input "x=$DIGITS/test-images.npy"
# A disk that is full for some time: saves fail, are reported and counted, and the run continues; three failures in a row stop it.
mkdir full
if mount -t tmpfs -o size=1m tmpfs full 2>/dev/null; then
    trap 'umount -l "$WORK/full"; rm -rf "$WORK"' EXIT
    fill() { head -c 2000000 /dev/zero >full/filler 2>/dev/null; }
    begin() { # a long run, saved often; returns after its first save
        rm -rf full/F
        "$RUN" "$BUNDLE" "${DATA[@]}" --quiet --steps 100000000 --save-every 3000 --state-dir full/F >stopped 2>warned &
        pid=$!
        until ls full/F/MANIFEST.2.* >/dev/null 2>&1 || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
    }
    begin
    fill
    wait $pid
    code=$?
    checks=$((checks + 1))
    [ $code -eq 16 ] || fail "a full disk: exit code $code; expected 16"
    check "three warnings" test "$(grep -c 'warning: saving failed .[1-3] in all, [1-3] in a row.: .full/F.: .*No space left' warned)" -eq 3
    expect "what was saved is good" 0 '^2 good, 0 damaged' "$RUN" fsck full/F
    expect "no room to begin" 7 'full/F.*No space left' train --steps 1000000 --state-dir full/F
    rm full/filler
    begin
    fill
    until grep -q 'saving failed .1 in all' warned || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
    rm full/filler
    sleep 1
    kill -TERM $pid
    checks=$((checks + 1))
    wait $pid || fail "a save that failed once: exit code $?"
    grep -q '^state .* failed-saves [1-2]$' stopped || fail "failed saves are not counted: $(cat stopped)"
    expect "and the last state is good" 0 '^2 good, 0 damaged' "$RUN" fsck full/F
fi
expect "output unwritable" 7 'u.npy' "$RUN" "$BUNDLE" --entry predict --input "x=$DIGITS/test-images.npy" --output y=no/such/folder/u.npy
finish
