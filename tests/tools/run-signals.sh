#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2012 # names of the tests themselves
# Signals in each mode of tessera-run: the saved state, the remaining files, and the exit code.
. "$(dirname "$0")/common.sh"

steps_in() { sed -n 's/^{"event":"step","step":\([0-9]*\),.*/\1/p' "$1" 2>/dev/null | tail -n 1; }
wait_for_step() { # FILE STEP
    local tries=0
    until [ "$(steps_in "$1")" -ge "$2" ] 2>/dev/null || [ $((tries += 1)) -gt 1000 ] || ! kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
}
# The command in the background: $! is tessera-run itself.
begin() { # COMMAND…
    rm -rf T m.jsonl
    "$@" --quiet --steps 100000000 --state-dir T --metrics m.jsonl >.out 2>.err </dev/null &
    pid=$!
    wait_for_step m.jsonl 20
}
# ended WHAT CODE: exit code of the process that begin started.
ended() {
    local got=0
    checks=$((checks + 1))
    wait "$pid" || got=$?
    [ "$got" -eq "$2" ] || fail "$1: exit code $got; expected $2"
}
# saved WHAT: the process reported the save, and the state exists.
saved() {
    local step
    checks=$((checks + 1))
    grep -q 'stopped by a signal at step [1-9]' .out || fail "$1: the stop is not reported"
    step=$(sed -n 's/^state [0-9a-f]* step \([0-9]*\) .*/\1/p' .out)
    cp .out stopped
    expect "$1: saved" 0 "at step $step, at or past" "${train[@]}" --quiet --steps 1 --state-dir T
    [ "$(state_of .out)" = "$(state_of stopped)" ] || fail "$1: another state was saved"
}

# ---- training ----

train=("$RUN" "$BUNDLE" "${DATA[@]}")
for signal in TERM INT HUP USR1; do
    begin "${train[@]}"
    kill -$signal $pid
    ended "SIG$signal" 0
    saved "SIG$signal"
done

begin env --ignore-signal=HUP "${train[@]}" # as nohup does
kill -HUP $pid
at=$(steps_in m.jsonl)
wait_for_step m.jsonl $((at + 200))
check "an ignored SIGHUP is ignored" test "$(steps_in m.jsonl)" -ge $((at + 200))
kill -TERM $pid
ended "SIGTERM after an ignored SIGHUP" 0
saved "SIGTERM after an ignored SIGHUP"

# Signals that arrive together while the process is stopped: only a second SIGTERM or SIGINT ends it at once.
begin "${train[@]}"
kill -STOP $pid
kill -HUP $pid
kill -USR1 $pid
kill -TERM $pid
kill -CONT $pid
ended "a warning before SIGTERM" 0
saved "a warning before SIGTERM"
begin "${train[@]}"
kill -STOP $pid
kill -INT $pid
kill -TERM $pid
kill -CONT $pid
got=0
wait $pid || got=$?
checks=$((checks + 1))
[ $got -eq 143 ] || [ $got -eq 130 ] || fail "SIGINT and SIGTERM: exit code $got; expected 130 or 143"
check "nothing was saved" test -z "$(find T -name 'MANIFEST.*')"

# ---- several ranks: signals to the run, and to each rank ----

check "eight virtual ranks" "$AOT" build "$DIGITS/digits.mlir" -o ranks.tsb --target cpu:x86-64-v2,cpu:x86-64-v3 --virtual-ranks 8
train=("$RUN" ranks.tsb "${DATA[@]}")
for signal in TERM INT HUP USR1; do
    for who in the-run rank-0 rank-1; do
        begin "${train[@]}" --ranks 2
        case $who in
        the-run) kill -$signal $pid ;;
        rank-0) kill -$signal "$(pgrep -P $pid | sed -n 1p)" ;;
        rank-1) kill -$signal "$(pgrep -P $pid | sed -n 2p)" ;;
        esac
        ended "SIG$signal to $who" 0
        saved "SIG$signal to $who"
    done
done

# ---- calls: no file is left, and the signal ends the process ----

cat >call.mlir <<'END'
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "x"}, tensor<1000xf32> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %h = tessera.constant dense<0.5> : tensor<f32>
  %y = tessera.mul %x, %h : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %z = tessera.random_normal : tensor<1000xf32>
  return %y, %z : tensor<4xf32>, tensor<1000xf32>
}
END
check "an entry to call" "$AOT" build call.mlir -o call.tsb --target cpu:x86-64-v2
head -c 16 /dev/zero >x.bin
mkdir out
outputs=(--output x=out/x.npy --output z=out/z.npy)
call=("$RUN" call.tsb --entry f --quiet --input x=x.bin "${outputs[@]}")
(ulimit -f 4000000 && exec "${call[@]}" --repeat 2) >.out 2>.err || fail "a short call: exit code $?"
cp out/z.npy short.npy
# begin_call: starts many calls, in the background as tessera-run itself; returns when its temporary files exist.
begin_call() {
    local tries=0
    env --default-signal=HUP,INT,TERM,USR1 "${call[@]}" --repeat 200000 >.out 2>.err </dev/null &
    pid=$!
    until ls "out/z.npy.tmp-$pid" >/dev/null 2>&1 || [ $((tries += 1)) -gt 1000 ] || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
}
for signal in TERM:143 INT:130 HUP:129 USR1:138; do
    begin_call
    check "a temporary while it runs" test -n "$(find out -name 'z.npy.tmp-*')"
    kill -"${signal%:*}" $pid
    ended "a call, SIG${signal%:*}" "${signal#*:}"
    check "a call, SIG${signal%:*}: only what was there before" test "$(ls out | tr '\n' ' ')" = 'x.npy z.npy '
    check "which is as it was" cmp out/z.npy short.npy
done
begin_call
kill -KILL $pid
ended "a call, SIGKILL" 137
check "SIGKILL leaves temporaries" test "$(find out -name '*.tmp-*' | wc -l)" -eq 2
begin_call
other=$pid
check "the next call removes them" test "$(find out -name '*.tmp-*' | wc -l)" -eq 2
"${call[@]}" --repeat 2 >.out 2>.err || fail "a call beside another"
check "but not those of a process that lives" test "$(find out -name "*.tmp-$other" | wc -l)" -eq 2
kill -TERM "$other"
wait "$other"
check "which removes its own" test "$(ls out | tr '\n' ' ')" = 'x.npy z.npy '

# As under nohup.
env --ignore-signal=HUP "${call[@]}" --repeat 20000 >.out 2>.err </dev/null &
pid=$!
sleep 0.1
kill -HUP $pid
ended "a call that ignores SIGHUP" 0

# ---- space is reserved before the first call ----

rm -f out/*
small() { (ulimit -f 100 && exec "${call[@]}" "$@"); }
expect "a file that may not be so large" 7 "cannot reserve 400000128 bytes for 'out/z.npy': File too large" small --repeat 100000 --metrics m2.jsonl
check "nothing was called" test ! -s m2.jsonl
expect "more than is free" 7 "cannot reserve 4000000000000128 bytes for 'out/z.npy'; [0-9]+ are free: No space left" "${call[@]}" --repeat 1000000000000
check "no file of either" test -z "$(ls out)"
if strace -o /dev/null true 2>/dev/null; then
    injected() { strace -f -o trace -e trace=fallocate -e "inject=fallocate:error=$1" "${call[@]}" --repeat 3; }
    expect "a disk that fills up meanwhile" 7 "cannot reserve [0-9]+ bytes for 'out/x.npy': No space left" injected ENOSPC
    check "no file stays" test -z "$(ls out)"
    check "a file system that cannot reserve" injected EOPNOTSUPP
    check "is written to" test "$(ls out | tr '\n' ' ')" = 'x.npy z.npy '
fi
finish
