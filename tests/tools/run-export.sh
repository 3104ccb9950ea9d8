#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The export of a generation, and the event log of a state directory.
. "$(dirname "$0")/common.sh"

train() { "$RUN" "$BUNDLE" "${DATA[@]}" --quiet "$@"; }
flip() { # FILE OFFSET: flips the lowest bit
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    printf '%b' "\\0$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

expect "train, with a log" 0 'generation 3' train --steps 30 --save-every 10 --keep 3 --state-dir S --store-log log.jsonl
expect "continue, with the same log" 0 'generation 6' train --steps 60 --save-every 10 --keep 3 --state-dir S --store-log log.jsonl
for event in open epoch recover base prepare segment prepared publish ack verified collect unlink unlinked sweep verdict agreed committed load close; do
    check "the log has '$event'" grep -q "\"event\":\"$event\"" log.jsonl
done
check "six were acknowledged" test "$(grep -c '"event":"ack"' log.jsonl)" -eq 6
expect "a log that cannot be opened" 7 "cannot write 'none/log'" train --steps 61 --keep 3 --state-dir S --store-log none/log
expect "a log that cannot be written" 7 "cannot write events to '/dev/full'" train --steps 61 --keep 3 --state-dir S --store-log /dev/full
expect "--store-log needs a state" 6 '--store-log needs --state-dir' train --steps 5 --store-log log.jsonl

# The last run stopped as soon as its log failed: before or after its only step.
expect "export" 0 '^exported generation [0-9]+ step 6[01] state [0-9a-f]{64}$' "$RUN" export S -o newest.safetensors
expect "of one generation" 0 '^exported generation 5 step 50 ' "$RUN" export S -o chosen.safetensors --generation 5
expect "which changes nothing" 0 '0 damaged, 0 uncommitted' "$RUN" fsck S
expect "a generation that is not there" 10 'there is no generation 99; there are: ' "$RUN" export S -o none.safetensors --generation 99
expect "without a file" 6 '-o is missing' "$RUN" export S
expect "without a directory" 6 'export: 0 directories' "$RUN" export -o x
expect "a missing directory" 7 'cannot open it' "$RUN" export missing -o none.safetensors
mkdir empty
expect "an empty directory" 10 'nothing to export' "$RUN" export empty -o none.safetensors
expect "a file that cannot be written" 7 'none/x.safetensors' "$RUN" export S -o none/x.safetensors
expect "--generation is of export" 6 '--generation does not apply to ls' "$RUN" ls S --generation 1
check "nothing was written" test ! -e none.safetensors
cp -a S D
flip "$(find D/gen -name 'segment.*' | sort -V | tail -n 1)" 20000
expect "a damaged one is told, and one back is exported" 0 'error: generation [0-9]+ of epoch [0-9]+ is damaged' "$RUN" export D -o back.safetensors
check "which is another state" bash -c '! cmp -s back.safetensors newest.safetensors'

"$PYTHON" "$ROOT/tests/tools/export_check.py" chosen.safetensors log.jsonl "$ROOT/schemas/store-event.schema.json" \
    "$("$RUN" ls S | sed -n 's/^generation 5 .* state \([0-9a-f]*\) .*/\1/p')" >.out 2>.err
case $? in
0) checks=$((checks + 1)) ;;
77) echo "skipped: the Python packages safetensors, numpy and jsonschema are needed" && exit 77 ;;
*) fail "what Python reads" ;;
esac
finish
