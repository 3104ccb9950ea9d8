#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --set: a hyper-parameter that a run changes. The bits are those of a bundle that was built with the value; states, logs, ls and metrics record it; a run
# that resumes or replays has it too; what cannot be set is refused, and the message has both values.
. "$(dirname "$0")/common.sh"

MODEL=$DIGITS/digits.mlir
build() { "$AOT" build "$1" -o "$2" --target=cpu:x86-64-v2,cpu:x86-64-v3 "${@:3}"; }
train() { "$RUN" "$BUNDLE" "${DATA[@]}" "$@"; }
listed() { "$RUN" ls "$1" | head -n 1; }

sed 's/lr = 1.0e-3/lr = 5.0e-3/' "$MODEL" >built.mlir
cmp -s built.mlir "$MODEL" && fail "nothing was changed"
check "a bundle with another lr" build built.mlir built.tsb
check "forty steps of it" "$RUN" built.tsb "${DATA[@]}" --quiet --steps 40
BUILT=$(state_of .out)
check "forty steps" train --quiet --steps 40
PLAIN=$(state_of .out)
[ "$BUILT" != "$PLAIN" ] || fail "the learning rate changes no bit"

# ---- the bits of a bundle that was built with the value ----

expect "set" 0 "^state $BUILT step 40" train --quiet --steps 40 --set lr=0.005
expect "another spelling" 0 "^state $BUILT step 40" train --quiet --steps 40 --set lr=5e-3
expect "the program's value" 0 "^state $PLAIN step 40" train --quiet --steps 40 --set lr=0.001 --set beta1=0.9
sed 's/beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 3.0e-1/beta1 = 0.8, beta2 = 0.99, eps = 1.0e-4, weight_decay = 0.0/' "$MODEL" >all.mlir
check "other numbers, too" build all.mlir all.tsb
check "forty steps of them" "$RUN" all.tsb "${DATA[@]}" --quiet --steps 40
expect "all numbers" 0 "^state $(state_of .out) step 40" train --quiet --steps 40 --set beta1=0.8 --set beta2=0.99 --set eps=1e-4 --set weight_decay=0

# ---- states ----

expect "saved" 0 '^state [0-9a-f]* step 20 generation 1' train --steps 20 --state-dir S --set lr=0.005
holds "ls has the value" grep -q ' good, lr 0.005 set$' <(listed S)
check "ls --json" "$RUN" ls S --json
holds "ls --json has the value" grep -q '"lr":"0.005".*"set":\["lr"\]' .out
cp -a S T && cp -a S U && cp -a S V
expect "resumed without --set" 0 'notice: lr stays 0.005, as it was set for generation 1; the program has 0.001, which --set lr=0.001 restores$' \
    train --steps 40 --state-dir S
[ "$(state_of .out)" = "$BUILT" ] || fail "the resumed run has another learning rate"
expect "resumed with the same --set" 0 "^state $BUILT step 40" train --steps 40 --state-dir T --set lr=0.005
grep -q 'lr stays' .err && fail "a notice tells what the user has just said"
expect "with another one" 0 'notice: generation 1 was trained with lr 0.005, which was set; this run continues with 0.002$' train --steps 40 --state-dir U --set lr=0.002
holds "ls has the new value" grep -q ' good, lr 0.002 set$' <(listed U)
expect "with the program's" 0 'notice: generation 1 was trained with lr 0.005, which was set; this run continues with 0.001$' train --steps 40 --state-dir V --set lr=0.001
holds "ls has no value" grep -q ' good$' <(listed V)
expect "which stays the program's" 0 'resumed generation 2 at step 40' train --steps 41 --state-dir V
grep -q 'lr' .err && fail "a notice about a value that nobody set"
expect "a set value of a state without one" 0 'notice: generation 3 was trained with lr 0.001; this run continues with 0.003$' train --steps 42 --state-dir V --set lr=0.003
expect "fsck" 0 ' 0 damaged' "$RUN" fsck U

# A bundle that was built again keeps the value that was set; the program's own value needs no notice.
rm -rf S && check "saved again" train --quiet --steps 20 --state-dir S --set lr=0.005
expect "the same value, built in" 0 "^state $BUILT step 40" "$RUN" built.tsb "${DATA[@]}" --steps 40 --state-dir S
grep -q 'lr' .err && fail "a notice about a value that did not change"
holds "ls has no value any more" grep -q ' good$' <(listed S)

# Killed at any time, resumed without --set.
check "undisturbed" train --quiet --steps 4000 --set lr=0.0005
WHOLE=$(state_of .out)
"$RUN" "$BUNDLE" "${DATA[@]}" --quiet --steps 4000 --save-every 20 --state-dir K --set lr=0.0005 >/dev/null 2>&1 &
run=$!
for ((i = 0; i < 400; i++)); do
    compgen -G 'K/MANIFEST.*' >/dev/null && break
    sleep 0.01
done
kill -KILL $run && wait $run 2>/dev/null
expect "killed" 0 "^state $WHOLE step 4000" train --quiet --steps 4000 --state-dir K
expect "what is left is good" 0 ' 0 damaged' "$RUN" fsck K

# ---- logs ----

check "recorded" train --quiet --steps 20 --record run.log --set lr=0.005
holds "the log has the value" grep -q '"lr":"0.005".*"set":\["lr"\]' <(head -n 1 run.log)
expect "replayed" 0 '^replay matches: 20 steps, every digest equal' train --quiet --replay run.log
expect "replayed with the same value" 0 '^replay matches: 20 steps' train --quiet --replay run.log --set lr=0.005
expect "replayed with another one" 12 'this run has lr 0.002; the log was recorded with 0.005$' train --quiet --replay run.log --set lr=0.002
expect "replayed with the program's" 12 'this run has lr 0.001; the log was recorded with 0.005$' train --quiet --replay run.log --set lr=0.001
expect "replayed by a bundle that was built with it" 0 '^replay matches: 20 steps' "$RUN" built.tsb "${DATA[@]}" --quiet --replay run.log
check "recorded without" train --quiet --steps 20 --record plain.log
grep -q '"set"' plain.log && fail "a log without values that were set names some"
expect "its replay with --set" 12 'this run has lr 0.005; the log was recorded with 0.001$' train --quiet --replay plain.log --set lr=0.005
sed '1s/"set":\["lr"\]/"set":["lrr"]/' run.log >unknown.log
expect "a log with an unknown name" 8 "set: expected names of hyper-parameters, got 'lrr'" train --quiet --replay unknown.log
check "on a state" train --quiet --steps 30 --state-dir T2 --set lr=0.005
check "recorded from there" train --quiet --steps 40 --state-dir T2 --set lr=0.002 --record later.log
expect "replayed from there" 0 '^replay matches: 10 steps' train --quiet --replay later.log --state-dir T2

# ---- ranks ----

check "virtual ranks: build" build "$MODEL" ranks.tsb --virtual-ranks 8
check "one process" "$RUN" ranks.tsb "${DATA[@]}" --quiet --steps 30 --set lr=0.005
RANKS=$(state_of .out)
expect "two processes" 0 "^state $RANKS step 30" "$RUN" ranks.tsb "${DATA[@]}" --quiet --steps 30 --ranks 2 --set lr=0.005
check "two, saved" "$RUN" ranks.tsb "${DATA[@]}" --quiet --steps 10 --ranks 2 --state-dir R --set lr=0.005
expect "four, resumed" 0 "^state $RANKS step 30" "$RUN" ranks.tsb "${DATA[@]}" --quiet --steps 30 --ranks 4 --state-dir R
holds "ls of ranks" grep -q ' good, lr 0.005 set$' <(listed R)
check "two, recorded" "$RUN" ranks.tsb "${DATA[@]}" --quiet --steps 10 --ranks 2 --record ranks.log --set lr=0.005
expect "three, replayed" 0 '^replay matches: 10 steps' "$RUN" ranks.tsb "${DATA[@]}" --quiet --ranks 3 --replay ranks.log

# ---- metrics: the rate of each step, with a schedule ----

check "metrics" train --quiet --steps 3 --metrics plain.jsonl --set lr=0.004
[ "$(grep -c '"rates":{"lr":0.004}' plain.jsonl)" = 3 ] || fail "the metrics lack the learning rate"
check "a chart of them" "$RUN" plot plain.jsonl -o plain.html
holds "the chart has the rate" grep -q 'learning rate' plain.html
sed 's/weight_decay = 3.0e-1>/&, lr_schedule = {kind = "cosine", warmup_steps = 4, total_steps = 12, final = 0.1}/' "$MODEL" >schedule.mlir
check "a schedule: build" build schedule.mlir schedule.tsb
sed 's/lr = 1.0e-3/lr = 8.0e-3/' schedule.mlir >schedule8.mlir
check "its factor, built in" build schedule8.mlir schedule8.tsb
check "its steps" "$RUN" schedule8.tsb "${DATA[@]}" --quiet --steps 14
expect "its factor, set" 0 "^state $(state_of .out) step 14" "$RUN" schedule.tsb "${DATA[@]}" --quiet --steps 14 --set lr=0.008 --metrics schedule.jsonl
holds "the rate of each step" "$PYTHON" - schedule.jsonl <<'END'
import json, math, sys
rates = [line["rates"]["lr"] for line in map(json.loads, open(sys.argv[1])) if line["event"] == "step"]
assert len(rates) == 14, rates
for t, got in enumerate(rates, 1):
    p = min(max((t - 4) / 8, 0), 1)
    want = 0.008 * min(t / 4, 1) * (0.1 + 0.9 * (1 + math.cos(math.pi * p)) / 2)
    assert abs(got - want) <= 1e-8 * want, (t, got, want)
END

# ---- several optimizers, numbers of the program itself ----

sed 's/    tessera.minimize %loss {/    %kl = tessera.hyperparameter {key = "kl", value = 5.0e-1, least = 0.0, most = 1.0} : tensor<f32>\n    %part = tessera.mul %loss, %kl : tensor<f32>\n    tessera.minimize %part {/' "$MODEL" >kl.mlir
check "a number of the program: build" build kl.mlir kl.tsb
sed 's/value = 5.0e-1/value = 2.5e-1/' kl.mlir >kl25.mlir
check "another one, built in" build kl25.mlir kl25.tsb
check "its steps" "$RUN" kl25.tsb "${DATA[@]}" --quiet --steps 20
expect "a number of the program" 0 "^state $(state_of .out) step 20" "$RUN" kl.tsb "${DATA[@]}" --quiet --steps 20 --set kl=0.25
expect "beyond its range" 6 'kl is 1.5; expected a number from 0 to 1$' "$RUN" kl.tsb "${DATA[@]}" --quiet --steps 20 --set kl=1.5
sed 's/, least = 0.0, most = 1.0//' kl.mlir >free.mlir
check "a number without a range" build free.mlir free.tsb
check "takes any number of f32" "$RUN" free.tsb "${DATA[@]}" --quiet --steps 2 --set kl=-1.5
expect "but no other" 6 'kl is 1e[+]39; expected a number from -3.4028234663852886e[+]38 to 3.4028234663852886e[+]38$' "$RUN" free.tsb "${DATA[@]}" --quiet --steps 2 --set kl=1e39
# A handler reads the value that an earlier run set, on every rank.
"$PYTHON" - kl.mlir >handler.mlir <<'END'
import sys
text = open(sys.argv[1]).read()
at = text.index('    %kl = tessera.hyperparameter')
text = text[:at] + '    tessera.resilience.on_recovery(handler = @resumed)\n' + text[at:]
handler = """  func.func @resumed() {
    %b = tessera.param "layer3.bias" init = #tessera.constant<0.0> : tensor<10xf32>
    %kl = tessera.hyperparameter {key = "kl", value = 5.0e-1, least = 0.0, most = 1.0} : tensor<f32>
    %next = tessera.mul %b, %kl : tensor<10xf32>, tensor<f32> -> tensor<10xf32>
    tessera.assign %next to "layer3.bias" : tensor<10xf32>
    return
  }
"""
end = text.rindex('}')
print(text[:end] + handler + text[end:], end='')
END
check "a handler with a number" build handler.mlir handler.tsb --virtual-ranks 4
expect "a run sets it" 0 'step 5 generation 1' "$RUN" handler.tsb "${DATA[@]}" --quiet --steps 5 --state-dir H --set kl=0.25
cp -a H H2
check "one process resumes" "$RUN" handler.tsb "${DATA[@]}" --quiet --steps 8 --state-dir H
expect "two ranks resume: the same bits" 0 "^state $(state_of .out) step 8" "$RUN" handler.tsb "${DATA[@]}" --quiet --steps 8 --state-dir H2 --ranks 2
refuse() { # WHAT OLD NEW TEXT
    "$PYTHON" -c 'import sys; text = open(sys.argv[1]).read(); assert sys.argv[2] in text; print(text.replace(sys.argv[2], sys.argv[3], 1), end="")' \
        "$MODEL" "$2" "$3" >refused.mlir || fail "$1: nothing was changed"
    expect "$1" 9 "$4" build refused.mlir refused.tsb
}
number() { echo "%$1 = tessera.hyperparameter {key = \"$2\", value = $3} : tensor<f32>"; }
refuse "in an entry that does not train" '    %y = call @logits(%x)' "    $(number a kl 0.5)
    %z = tessera.cast %x : tensor<64x64xui8> -> tensor<64x64xf32>
    %s = tessera.mul %z, %a : tensor<64x64xf32>, tensor<f32> -> tensor<64x64xf32>
    %i = tessera.cast %s : tensor<64x64xf32> -> tensor<64x64xui8>
    %y = call @logits(%i)" "'kl' is in the entry @predict; expected it in a train entry"
refuse "the name of an optimizer's number" '    tessera.minimize %loss' "    $(number a lr 0.5)
    %part = tessera.mul %loss, %a : tensor<f32>
    tessera.minimize %part" "'lr' is the name of a number of an optimizer"
refuse "two values" '    tessera.minimize %loss' "    $(number a kl 0.5)
    $(number b kl 1.0)
    %first = tessera.mul %loss, %a : tensor<f32>
    %part = tessera.mul %first, %b : tensor<f32>
    tessera.minimize %part" "'kl' is 1 here, and 0.5 elsewhere"

# ---- what is refused ----

while IFS='|' read -r value text; do
    expect "--set $value" 6 "$text" train --quiet --steps 20 --state-dir never --set "$value"
done <<'END'
lrr=0.1|'lrr' cannot be set to 0.1: it is not a hyper-parameter of 'digits', which has beta1 0.9, .*; did you mean 'lr'\?$
weightdecay=0.1|did you mean 'weight_decay'\?$
banana=0.1|which has beta1 0.9, beta2 0.999, eps 1e-08, lr 0.001, weight_decay 0.3$
lr=nan|lr is -?nan; expected a number from 0 to 3.40
lr=inf|lr is inf; expected a number from 0 to 3.40
lr=-0.1|lr is -0.1; expected a number from 0 to 3.40
lr=1e39|lr is 1e\+39; expected a number from 0 to 3.40
beta1=1|beta1 is 1; expected a number from 0 to 0.9999999999999999$
eps=0|eps is 0; expected a number from 1.40
lr=|--set is 'lr='; expected NAME=VALUE$
=1|--set is '=1'; expected NAME=VALUE$
lr|--set is 'lr'; expected NAME=VALUE$
lr=fast|--set lr is 'fast'; expected a number$
lr=0.1x|--set lr is '0.1x'; expected a number$
lr= 0.1|--set lr is ' 0.1'; expected a number$
END
[ ! -e never ] || fail "a run that was refused has made a state directory"
expect "twice" 6 "[-]-set names 'lr' twice: '0.1' and '0.2'$" train --quiet --steps 20 --set lr=0.1 --set lr=0.2
expect "a part of a schedule" 6 'lr_schedule.final is 0.1 in .digits. and cannot be set to 0.2' "$RUN" schedule.tsb "${DATA[@]}" --quiet --steps 20 --set lr_schedule.final=0.2
expect "in a call" 6 '[-]-set does not apply to a call' "$RUN" "$BUNDLE" --quiet --entry predict --input "x=$DIGITS/test-images.npy" --output y=y.npy --set lr=1
expect "in an evaluation" 6 '[-]-set does not apply to an evaluation' "$RUN" "$BUNDLE" --quiet --entry evaluate "${TEST_DATA[@]}" --set lr=1
expect "a bundle of an older Tessera" 6 'lr is [0-9.]* in .digits. and cannot be set to 0.1: the bundle has no input for it; build it again with 0.1, or, if an older Tessera built it, with this one$' \
    "$RUN" "$ROOT/tests/golden/state-2/digits.tsb" "${DATA[@]}" --quiet --steps 1 --set lr=0.1

expect "a bundle that lists no hyper-parameters" 6 "'lr' cannot be set to 0.1: '[a-z]*' lists no hyper-parameters, so that states and logs could not record it; build it again$" \
    "$RUN" "$ROOT/tests/golden/state-1/digits.tsb" "${DATA[@]}" --quiet --steps 1 --set lr=0.1

# ---- a trained bundle continues with the value ----

rm -rf B && check "a state to bake" train --quiet --steps 20 --state-dir B --set lr=0.005
expect "baked" 0 'notice: generation 1 was trained with lr 0.005, which was set; the bundle has that value now, instead of 0.001$' \
    "$AOT" bake "$BUNDLE" --state-dir B --with-state -o baked.tsb
expect "the baked bundle continues" 0 "^state $BUILT step 40" "$RUN" baked.tsb "${DATA[@]}" --quiet --steps 40
expect "its list" 0 'lr 0.005' "$AOT" inspect baked.tsb
expect "verify" 0 '' "$AOT" verify --strict baked.tsb
check "parameters alone" "$AOT" bake "$BUNDLE" --state-dir B -o params.tsb
expect "have the program's value" 0 'lr 0.001' "$AOT" inspect params.tsb
# Values are compared as numbers, whatever the order of the flags and their spelling.
port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
ranked() { # RANK FLAGS…
    env RANK="$1" WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" "$RUN" handler.tsb "${DATA[@]}" --quiet --steps 4 --launcher torchrun "${@:2}"
}
ranked 1 --set lr=0.005 --set beta1=0.8 --set eps=0.0000000123456 >1.out 2>1.err </dev/null &
expect "two ranks with the same values" 0 '^state [0-9a-f]* step 4' ranked 0 --set eps=1.23456e-8 --set beta1=0.8 --set lr=5e-3
wait
finish
