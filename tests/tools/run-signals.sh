#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Signals in each mode of tessera-run: what is saved, what is left, and the exit code.
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
# ended WHAT CODE: of the process of begin.
ended() {
    local got=0
    checks=$((checks + 1))
    wait "$pid" || got=$?
    [ "$got" -eq "$2" ] || fail "$1: exit code $got; expected $2"
}
# saved WHAT: it said so, and the state is there.
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

# Signals that come together, while the process stands still: only a second SIGTERM or SIGINT ends it at once.
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

# ---- several ranks: the run, and each of them ----

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
finish
