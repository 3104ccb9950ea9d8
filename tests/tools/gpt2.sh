#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/gpt2, small: it trains, with the same state after kills, evaluates and writes; its tokenizer reproduces the tokens in the repository.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
readonly E=$ROOT/examples/gpt2 STEPS=6 WINDOW=32
SIZES=(--batch 4 --positions 32 --width 64 --heads 4 --vocabulary 1024 --window "$WINDOW")
TRAIN=(--data "text=$E/train.tokens")

for name in train test; do
    check "$name.txt is encoded" "$PYTHON" "$E/tokenizer.py" encode "$ROOT/examples/gpt-char/$name.txt" "$name.tokens"
    check "$name.tokens is what is shipped" cmp "$name.tokens" "$E/$name.tokens"
done
check 'merges are learned' "$PYTHON" "$E/tokenizer.py" learn --merges 3 --folder .
check 'they are the first of those shipped' cmp merges.txt <(head -n 3 "$E/merges.txt")
checks=$((checks + 1))
"$PYTHON" "$E/tokenizer.py" decode "$E/test.tokens" | cmp -s - "$ROOT/examples/gpt-char/test.txt" || fail 'decoded, it is the text'
# The source text is not in the repository: decoding and encoding gives the same tokens, and a line is a verse.
check 'the Bible is decoded' "$PYTHON" "$E/tokenizer.py" decode "$E/bible.tokens"
mv .out bible.txt
check 'and encoded' "$PYTHON" "$E/tokenizer.py" encode bible.txt bible.tokens
check 'bible.tokens is what is shipped' cmp bible.tokens "$E/bible.tokens"
checks=$((checks + 1))
[ "$(wc -l <bible.txt) $(head -n 1 bible.txt)" = '31102 In the beginning God created the heaven and the earth.' ] || fail 'a line is a verse'
checks=$((checks + 1))
printf 'A\0\377\377' >unknown.tokens
[ "$("$PYTHON" "$E/tokenizer.py" decode unknown.tokens)" = 'A<65535>' ] || fail 'a token that the tokenizer has not is a number'

"$PYTHON" "$E/sizes.py" >whole.mlir
check 'the sizes of gpt2.mlir' cmp whole.mlir "$E/gpt2.mlir"
checks=$((checks + 1))
"$PYTHON" "$E/sizes.py" --width 64 --heads 5 >.out 2>.err && fail 'heads that do not divide the width are accepted'
"$PYTHON" "$E/sizes.py" "${SIZES[@]}" >gpt2.mlir
check 'it is built' "$AOT" build gpt2.mlir -o gpt2.tsb --target=cpu:x86-64-v3
if ! "$RUN" gpt2.tsb --check >.out 2>.err; then
    echo 'skipped: this machine is no x86-64-v3'
    exit 77
fi

expect 'one process' 0 'loss 6\.9' "$RUN" gpt2.tsb "${TRAIN[@]}" --data "test_text=$E/test.tokens" --steps $STEPS
state=$(state_of .out)
# Killed after its first generation was saved, at any point of a later step.
"$RUN" gpt2.tsb "${TRAIN[@]}" --steps $STEPS --state-dir G --save-every 2 >.out 2>.err &
training=$!
until compgen -G 'G/MANIFEST.1.*' >/dev/null || ! kill -0 $training 2>/dev/null; do sleep 0.01; done
kill -KILL $training
{ wait $training; } 2>/dev/null
expect 'it continues' 0 '' "$RUN" gpt2.tsb "${TRAIN[@]}" --steps $STEPS --state-dir G
checks=$((checks + 1))
[ "$(state_of .out)" = "${state:-none}" ] || fail "killed and resumed: not the state $state"

check 'a prompt' "$PYTHON" "$E/tokenizer.py" prompt "$ROOT/examples/gpt-char/prompt.txt" . $WINDOW
WRITE=(--entry write --state-dir G --input text=text.bin)
check 'it writes' "$RUN" gpt2.tsb "${WRITE[@]}" --input place=place.bin --repeat 5 --output token=token.bin --output text=longer.bin
checks=$((checks + 1))
"$PYTHON" "$E/tokenizer.py" decode longer.bin | head -c 64 | cmp -s - "$ROOT/examples/gpt-char/prompt.txt" || fail 'the text begins with the prompt'
checks=$((checks + 1))
[ "$(od -An -td8 -j160 -N40 -v longer.bin)" = "$(od -An -td8 -v token.bin)" ] || fail 'the tokens stand behind the prompt'
# The input is the same each time, and so are the logits; the time of each call is reported.
PREDICT=(--entry predict --params first.safetensors --input tokens=text.bin)
check 'parameters' "$RUN" gpt2.tsb --export-params first.safetensors
check 'one call' "$RUN" gpt2.tsb "${PREDICT[@]}" --output logits=once.bin
check 'three calls' "$RUN" gpt2.tsb "${PREDICT[@]}" --repeat 3 --output logits=thrice.bin
check 'all of them are the same' cmp thrice.bin <(cat once.bin once.bin once.bin)
check 'three that are only timed' "$RUN" gpt2.tsb "${PREDICT[@]}" --repeat 3 --metrics calls.jsonl
checks=$((checks + 1))
[ "$(sed -n 's/^{"event":"call","call":\([1-9]\),"seconds":0\.[0-9]*}$/\1/p' calls.jsonl | paste -sd ' ')" = '1 2 3' ] || fail "three calls: $(cat calls.jsonl)"
expect 'none that nothing is kept of' 6 "no output of entry 'predict' is requested" "$RUN" gpt2.tsb "${PREDICT[@]}" --repeat 3
printf '\x21\0\0\0\0\0\0\0' >place.bin
expect 'a place outside the window' 8 'index\[0\] is 32; expected 0 to 31' "$RUN" gpt2.tsb "${WRITE[@]}" --input place=place.bin --output token=token.bin
finish
