#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Streams that cannot be written: the run saves and ends with exit code 7, logs contain only whole lines, and a partial last line of an earlier run is
# removed with a warning. Argument 5: tessera-opt.
OPT=$(realpath "$5")
. "$(dirname "$0")/common.sh"
train=("$RUN" "$BUNDLE" "${DATA[@]}" --quiet)

# whole FILE: not empty, and each line is one JSON object.
whole() {
    checks=$((checks + 1))
    "$PYTHON" - "$1" <<'PYTHON' || fail "$1 has lines that are not whole"
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
sys.exit(not text.endswith("\n") or not all(isinstance(json.loads(line), dict) for line in text.splitlines()))
PYTHON
}

# ---- a log that cannot be written: the run saves its state ----
for log in --metrics --store-log; do
    expect "$log /dev/full" 7 "cannot write (metrics|events) to '/dev/full': No space left on device" \
        "${train[@]}" --steps 5000 --save-every 2 --state-dir "S$log" "$log" /dev/full
    cp .out told
    check "it says why it stopped" grep -Eq '^stopped because a log could not be written at step [0-9]+ of 5000$' told
    check "it stopped early" test "$(sed -n 's/^state .* step \([0-9]*\).*/\1/p' told)" -lt 1000
    check "the state is whole" "$RUN" fsck "S$log"
done
check "a bundle for ranks" "$AOT" build "$DIGITS/digits.mlir" --target cpu:x86-64-v2 --virtual-ranks 2 -o ranks.tsb
expect "by a rank" 7 "cannot write metrics to '/dev/full'" "$RUN" ranks.tsb "${DATA[@]}" --quiet --steps 5000 --ranks 2 --state-dir S2 --metrics /dev/full
check "the state of ranks is whole" "$RUN" fsck S2
expect "of a replay" 7 "cannot write metrics" sh -c "\"\$@\" --steps 3 --record r.log && \"\$@\" --replay r.log --metrics /dev/full" sh "${train[@]}"
expect "of a call" 7 "cannot write metrics" "$RUN" "$BUNDLE" --quiet --entry predict --input "x=$DIGITS/test-images.npy" --output y=y.npy --metrics /dev/full
check "the call's output is there" test -s y.npy
expect "of an evaluation" 7 "cannot write metrics" "$RUN" "$BUNDLE" --quiet --entry evaluate "${TEST_DATA[@]}" --metrics /dev/full

# ---- a disk that becomes full in the middle of a line ----
check "a state to measure" "${train[@]}" --steps 1 --state-dir Sizes
limit=$(($(find Sizes -type f -printf '%k\n' | sort -n | tail -n 1) + 64))
limited() { (ulimit -f "$limit" && exec "$@"); }
line='{"event":"step","step":1,"samples":64,"seconds":0.1,"outputs":{"loss":1.5}}'
for log in --metrics --store-log; do
    file=m$log
    yes "$line" | head -c $((limit * 1024 - 4000)) | sed '$d' >"$file" # whole lines, with space for some more
    before=$(wc -l <"$file")
    expect "$log: no room" 7 "cannot write (metrics|events) to '$file': File too large" \
        limited "${train[@]}" --steps 5000 --save-every 1 --state-dir "F$log" "$log" "$file"
    whole "$file"
    check "$log: lines were added" test "$(wc -l <"$file")" -gt "$before"
    check "$log: a state was saved" "$RUN" fsck "F$log"
    expect "$log: the next run continues" 0 "^resumed generation" "${train[@]}" --steps 5001 --state-dir "F$log" "$log" "$file" --eval-every 5001 "${TEST_DATA[@]}"
    whole "$file"
done

# ---- the last line of a log that is continued ----
torn='{"event":"step","step":7,"sam'
for log in --metrics --store-log; do
    next() { "${train[@]}" --steps 2 --state-dir "T$log.$1" "$log" "$1"; }
    for end in "$torn" '{' '{"a":"b' '{"a":1}}'; do
        printf '%s\n%s' "$line" "$end" >t.jsonl
        expect "$log: torn '$end'" 0 "warning: 't.jsonl' ended in the middle of a line; its (${#end} bytes were|1 byte was) removed: '" next t.jsonl
        whole t.jsonl
        check "$log: the line before it is there" test "$(head -n 1 t.jsonl)" = "$line"
        check "$log: the torn one is not" sh -c '! grep -qF "\"sam{" t.jsonl'
        rm -rf "T$log.t.jsonl"
    done
    printf '%s' "$torn" >only.jsonl
    expect "$log: nothing but a torn line" 0 'its 29 bytes were removed' next only.jsonl
    whole only.jsonl
    printf '%s\n%s' "$line" "$line" >end.jsonl # an editor left out the last newline
    check "$log: a whole line without its end" next end.jsonl
    whole end.jsonl
    check "$log: it is kept" test "$(head -n 2 end.jsonl | grep -cxF "$line")" -eq 2
    for text in 'func.func @f() {' 'a,b,c' $'\x93NUMPY\x01' "$(printf '%s\nnotes' "$line")"; do
        printf '%s' "$text" >other.txt && cp other.txt saved.txt
        expect "$log: another file '$text'" 6 "'other.txt' is not a log that (metrics|events) can continue: its last line is '.*'; expected JSON objects, one per line" next other.txt
        check "$log: it is as it was" cmp other.txt saved.txt
    done
    head -c 3000000 /dev/zero | tr '\0' '{' >long.txt && cp long.txt saved.txt
    expect "$log: one endless line" 6 "'long.txt' is not a log" next long.txt
    check "$log: it is as it was, too" cmp long.txt saved.txt
    : >empty.jsonl
    check "$log: an empty file" next empty.jsonl
    whole empty.jsonl
    ln -s linked.jsonl "link$log"
    check "$log: a link to nothing" next "link$log"
    whole linked.jsonl
    rm linked.jsonl
    expect "$log: a folder" 7 "cannot write 'Sizes': it is a directory" next Sizes
    expect "$log: nowhere" 7 "cannot write 'none/m': No such file" next none/m
    printf '%s\n' "$line" >deny.jsonl && chmod 200 deny.jsonl
    if [[ $can_deny == true ]]; then
        expect "$log: cannot be read" 7 "cannot read the last line of 'deny.jsonl'.*Permission denied" unprivileged "${train[@]}" --steps 2 --state-dir "T$log.deny" "$log" deny.jsonl
        chmod 400 deny.jsonl
        expect "$log: cannot be written" 7 "cannot write (metrics|events) to 'deny.jsonl': Permission denied" unprivileged "${train[@]}" --steps 2 --state-dir "T$log.deny" "$log" deny.jsonl
    else
        skip "$log: permissions do not hold here"
    fi
    rm -f deny.jsonl
done

# ---- pipes ----
mkfifo pipe
cat pipe >read.jsonl &
check "metrics to a pipe" "${train[@]}" --steps 3 --metrics pipe
wait $!
whole read.jsonl
head -n 2 pipe >read.jsonl &
expect "a reader that goes away" 7 "cannot write metrics to 'pipe': Broken pipe" "${train[@]}" --steps 50000 --state-dir P --metrics pipe
wait $!
check "the state is whole, too" "$RUN" fsck P

# ---- standard streams ----
"$AOT" keygen -o k >/dev/null || fail "keys"
cat >m.mlir <<'SOURCE'
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
SOURCE
lost() { # ROW: with standard output full, then closed
    local words code
    read -ra words <<<"$1"
    case ${words[0]} in run) words[0]=$RUN ;; aot) words[0]=$AOT ;; opt) words[0]=$OPT ;; esac
    for to in /dev/full -; do
        checks=$((checks + 1)) code=0
        if [[ $to == - ]]; then "${words[@]}" >&- 2>.err || code=$?; else "${words[@]}" >"$to" 2>.err || code=$?; fi
        [[ $code == 7 ]] || fail "$1 >$to: exit code $code; expected 7"
        grep -Eq '^tessera-(run|aot|opt): error: cannot write to standard output' .err || fail "$1 >$to: no error"
        if grep -q 'PLEASE submit\|Stack dump\|LLVM ERROR' .err; then fail "$1 >$to: a crash report"; fi
    done
}
ln -s "$BUNDLE" d.tsb
for row in 'run --help' 'run --version' 'run --check d.tsb' 'run --check --json d.tsb' 'run ls S2' 'run ls S2 --json' 'run ls S2 --verify' 'run fsck S2' \
    'run export S2 -o e.safetensors' 'run prune S2 --keep 2' 'aot --help' 'aot build --help' 'aot inspect d.tsb' 'aot inspect d.tsb --json --tensors' \
    'aot verify d.tsb' 'aot diff d.tsb d.tsb' 'aot diff d.tsb d.tsb --json' 'aot provenance d.tsb' 'aot bake ranks.tsb --state-dir S2 -o b.tsb' \
    'aot sign b.tsb --key k' 'aot build m.mlir -o x.tsb --dump=all' 'opt --help' 'opt --version' 'opt m.mlir' 'opt -canonicalize --emit-bytecode m.mlir'; do
    lost "$row"
done
# Longer than a buffer, so that an earlier write fails than the last.
{
    cat m.mlir
    for i in $(seq 3000); do printf 'func.func private @f%s(tensor<4xf32>)\n' "$i"; done
} >large.mlir
lost 'opt large.mlir'
checks=$((checks + 1)) code=0
"${train[@]}" "${TEST_DATA[@]}" --steps 6 --eval-every 2 --state-dir O >/dev/full 2>.err || code=$?
[[ $code == 7 ]] || fail "a run with a full standard output: exit code $code; expected 7"
check "it ran to its end and saved" sh -c "'$RUN' ls O | grep -q 'step 6[ ,]'"

# Progress on standard error: the run continues, and its exit code reports the failure.
progress=("$RUN" "$BUNDLE" "${DATA[@]}" --steps 3)
for row in '7|/dev/full' '0|/dev/null'; do
    checks=$((checks + 1)) code=0
    "${progress[@]}" --state-dir "E${row%|*}" >told 2>"${row#*|}" || code=$?
    [[ $code == "${row%|*}" ]] || fail "progress to ${row#*|}: exit code $code; expected ${row%|*}"
    check "it ran to its end: ${row#*|}" grep -q "^state .* step 3" told
done
checks=$((checks + 1)) code=0
"${progress[@]}" >.out 2>&- || code=$?
[[ $code == 0 ]] || fail "progress to nowhere: exit code $code; expected 0"
finish
