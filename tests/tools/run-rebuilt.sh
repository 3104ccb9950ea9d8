#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# States, logs and calls of a bundle that was built again: by a changed comment, target list, name, number of an optimizer, op, init rule,
# numerics or number of virtual ranks. What is the same program continues with the same bits; everything else is refused, and the message has both values.
. "$(dirname "$0")/common.sh"

MODEL=$DIGITS/digits.mlir
build() { "$AOT" build "$1" -o "$2" "${@:3}"; }
train() { "$RUN" "$1" "${DATA[@]}" "${@:2}"; }
program_of() { "$AOT" inspect "$1" --json | grep -o '"program":{"digest":"sha256:[0-9a-f]*"' | grep -o '[0-9a-f]\{64\}'; }
thaw() { rm -rf S && cp -a "${1:-ten}" S; }
same_program() { [ "$(program_of "$1")" = "$PROGRAM" ] || fail "$1 is another program"; }
other_program() { [ "$(program_of "$1")" != "$PROGRAM" ] || fail "$1 is the same program"; }

check "the first build" build "$MODEL" first.tsb --target=cpu:x86-64-v2,cpu:x86-64-v3
PROGRAM=$(program_of first.tsb)
[ ${#PROGRAM} = 64 ] || fail "the bundle has no program digest"
check "ten steps" train first.tsb --quiet --steps 10 --seed 3 --state-dir ten
check "twenty steps" train first.tsb --quiet --steps 20 --seed 3 --state-dir undisturbed
TWENTY=$(state_of .out)

# ---- the same program ----

sed 's|// Pixels are 0 ... 16.|// Another comment.|; s/^module @digits/\n\n\nmodule @numbers/' "$MODEL" >comment.mlir
sed 's/%h1/%hidden/g; s/%logits/%scores/g; s/%loss\b/%mean/g' "$MODEL" >renamed.mlir
# entries in another order, and constants elsewhere
"$PYTHON" - "$MODEL" >order.mlir <<'END'
import re, sys
text = open(sys.argv[1]).read()
funcs = re.split(r"\n\n(?=  //|  func)", text)
head, body = funcs[0], funcs[1:]
last = body[-1].rstrip()
assert last.endswith("}"), last[-20:]
body[-1] = last[:-1].rstrip()
scale = re.search(r"    %scale = .*\n", head).group(0)
head = head.replace(scale, "").replace("    %w1 =", scale + "    %w1 =")
print("\n\n".join([head] + body[::-1]) + "\n}")
END
checkpoint='s/    %logits = call @logits(%images) : (tensor<64x64xui8>) -> tensor<64x10xf32>\n    %losses/X/'
sed "$checkpoint; s/    tessera.minimize/    tessera.schedule.recompute_hint {policy = \"full\"}\n    tessera.minimize/" "$MODEL" >recompute.mlir
for source in comment renamed order recompute; do
    check "$source: build" build $source.mlir $source.tsb --target=cpu:x86-64-v3
    same_program $source.tsb
done
check "another list of targets" build "$MODEL" targets.tsb --target=cpu:x86-64-v4,cpu:x86-64-v3
same_program targets.tsb
for bundle in comment renamed order recompute targets; do
    thaw
    expect "$bundle: continues" 0 "^state $TWENTY step 20" train $bundle.tsb --steps 20 --state-dir S --cpu x86-64-v3
    grep -q 'was trained with' .err && fail "$bundle: a change is told, and there is none"
    expect "$bundle: ls" 0 "^generation 2 .* program $PROGRAM good$" "$RUN" ls S
    expect "$bundle: back again" 0 'resumed generation 2 at step 20' train first.tsb --quiet --steps 21 --state-dir S
done

# A run that is killed at any time continues in the new bundle.
check "undisturbed" train first.tsb --quiet --steps 4000 --cpu x86-64-v3
WHOLE=$(state_of .out)
"$RUN" first.tsb "${DATA[@]}" --quiet --steps 4000 --save-every 20 --state-dir K --cpu x86-64-v3 >/dev/null 2>&1 &
run=$!
for ((i = 0; i < 400; i++)); do
    compgen -G 'K/MANIFEST.*' >/dev/null && break
    sleep 0.01
done
kill -KILL $run && wait $run 2>/dev/null
expect "killed" 0 "^state $WHOLE step 4000" train comment.tsb --quiet --steps 4000 --state-dir K --cpu x86-64-v3
expect "what is left is good" 0 ' 0 damaged' "$RUN" fsck K

# ---- another hyper-parameter ----

hyper() { # NAME SED BUNDLE
    sed "$2" "$MODEL" >"$1.mlir"
    cmp -s "$1.mlir" "$MODEL" && fail "$1: nothing was changed"
    check "$1: build" build "$1.mlir" "$1.tsb" --target=cpu:x86-64-v3,cpu:x86-64-v2
    same_program "$1.tsb"
}
hyper lr 's/lr = 1.0e-3/lr = 5.0e-4/'
hyper decay 's/weight_decay = 3.0e-1/weight_decay = 0.0/'
hyper schedule 's/weight_decay = 3.0e-1>/&, clip_norm = 0.5, lr_schedule = {kind = "cosine", warmup_steps = 5, total_steps = 50}/'
thaw
expect "another lr" 0 'notice: generation 1 was trained with lr 0.001; this run continues with 0.0005$' train lr.tsb --steps 20 --state-dir S
halved=$(state_of .out)
check "adopted" train lr.tsb --quiet --steps 20 --adopt ten
[ "$halved" = "$(state_of .out)" ] || fail "another lr: not the bits of a run that begins with that state"
[ "$halved" != "$TWENTY" ] || fail "another lr: no other bits"
expect "the old generation has the old value" 0 '"generation":1,.*"lr":"0.001"' "$RUN" ls --json S
expect "the new one the new value" 0 '"generation":2,.*"lr":"0.0005"' "$RUN" ls --json S
expect "nothing is told when it continues" 0 'resumed generation 2' train lr.tsb --steps 21 --state-dir S
grep -q 'was trained with' .err && fail "the same lr is told as a change"
thaw
expect "--quiet" 0 "^state $halved step 20" train lr.tsb --quiet --steps 20 --state-dir S
grep -q . .err && fail "a notice is told in spite of --quiet"
thaw
expect "a weight decay of 0" 0 'weight_decay 0.3; this run continues with 0$' train decay.tsb --steps 20 --state-dir S
thaw
expect "clipping" 0 'clip_norm none; this run continues with 0.5$' train schedule.tsb --steps 20 --state-dir S
for change in 'lr_schedule.kind none; this run continues with cosine' 'lr_schedule.warmup_steps none; this run continues with 5'; do
    grep -q "$change\$" .err || fail "no notice '$change'"
done
expect "and without it" 0 'clip_norm 0.5; this run continues with none$' train first.tsb --steps 22 --state-dir S --cpu x86-64-v3
expect "diff" 21 '^hyper +lr changed: lr 0.001 -> 0.0005$' "$AOT" diff first.tsb lr.tsb
head -n 1 .out | grep -q '^hyper' || fail "diff tells something else first"
expect "diff of one that is new" 21 '^hyper +clip_norm added: clip_norm none -> 0.5$' "$AOT" diff first.tsb schedule.tsb
expect "inspect" 0 '^hyper-parameters beta1 0.9, beta2 0.999, eps 1e-08, lr 0.0005, weight_decay 0.3$' "$AOT" inspect lr.tsb

# ---- another program ----

refused() { # WHAT BUNDLE REGEX FLAG…
    thaw
    expect "$1" 12 "$3" train "$2" --quiet --steps 20 --state-dir S --cpu x86-64-v3 "${@:4}"
    diff -r ten S >/dev/null || [ "$(find S -name 'MANIFEST.*' | wc -l)" = 1 ] || fail "$1: a generation was made or removed"
}
sed 's/%h1 = tessera.relu/%h1 = tessera.sigmoid/' "$MODEL" >op.mlir
sed 's/-0.1531, 0.1531/-0.15, 0.15/' "$MODEL" >init.mlir
sed 's/dense<6.250000e-02>/dense<1.250000e-01>/' "$MODEL" >constant.mlir
sed 's/tensor<64x64xui8> {tessera.data = "images"}/tensor<64x64xui8> {tessera.data = "pictures"}/' "$MODEL" >port.mlir
sed 's/#tessera.adamw<[^>]*>/#tessera.sgd<lr = 1.0e-3, momentum = 0.9, weight_decay = 0.0>/' "$MODEL" >sgd.mlir
for source in op init constant port sgd; do
    check "$source: build" build $source.mlir $source.tsb --target=cpu:x86-64-v3
    other_program $source.tsb
done
for source in op init constant sgd; do
    refused "$source" $source.tsb "generation 1 is of the program $PROGRAM; the bundle given has $(program_of $source.tsb); --adopt takes over what fits of it: tessera-run $source.tsb "
done
# The command of the message is one that works.
command=$(sed -n 's/.*takes over what fits of it: tessera-run //p' .err)
expect "the command" 0 '^state [0-9a-f]* step 20 generation 1$' sh -c "'$RUN' $command"
grep -q -- "--adopt S --state-dir S.adopted$" <<<"$command" || fail "the command is '$command'"
refused "the next name" op.tsb '--adopt S --state-dir S.adopted-2$'
refused "nothing to advise" op.tsb "the bundle given has $(program_of op.tsb)\$" --adopt ten
cp op.tsb "it's new.tsb"
refused "a name with a quote" "it's new.tsb" "tessera-run 'it'\\\\''s new.tsb' --data"
command=$(sed -n 's/.*takes over what fits of it: tessera-run //p' .err)
expect "its command" 0 '^state [0-9a-f]* step 20 generation 1$' sh -c "'$RUN' $command"
long=$(printf 'x%.0s' {1..180}) && mkdir -p "$long/$long" && cp op.tsb "$long/$long/$long.tsb"
refused "a command that is too long" "$long/$long/$long.tsb" 'tessera-run … --adopt S --state-dir S.adopted'

check "v2 alone" build "$MODEL" v2.tsb --target=cpu:x86-64-v2
same_program v2.tsb
thaw
expect "v2 alone" 12 "was computed with numerics 'portable\+fma\..'; this machine runs 'portable\..'" train v2.tsb --quiet --steps 20 --state-dir S
thaw
expect "v2 alone, inexact" 0 "inexact: generation 1 was computed with numerics 'portable\+fma" train v2.tsb --quiet --steps 20 --state-dir S --allow-inexact
check "native" build "$MODEL" native.tsb --target=cpu:x86-64-v3 --numerics=native
other_program native.tsb
refused "native" native.tsb "is of the program $PROGRAM"
check "native, another list of targets" build "$MODEL" native2.tsb --target=cpu:x86-64-v3,cpu:x86-64-v2 --numerics=native
[ "$(program_of native.tsb)" = "$(program_of native2.tsb)" ] || fail "a list of targets changes a native program"

# ---- virtual ranks ----

check "4 virtual ranks" build "$MODEL" ranks.tsb --target=cpu:x86-64-v3 --virtual-ranks 4
same_program ranks.tsb
refused "other virtual ranks" ranks.tsb 'the state has virtual ranks 1; this run has 4'
check "4 virtual ranks, a comment" build comment.mlir ranks2.tsb --target=cpu:x86-64-v3 --virtual-ranks 4
check "4 virtual ranks: ten" train ranks.tsb --quiet --steps 10 --ranks 2 --state-dir four
check "4 virtual ranks: twenty" train ranks.tsb --quiet --steps 20 --ranks 2
four=$(state_of .out)
thaw four
expect "4 virtual ranks, built again" 0 "^state $four step 20" train ranks2.tsb --quiet --steps 20 --ranks 3 --state-dir S
# Where optimizer steps run changes no bit.
sed 's/^module @digits {/module @digits attributes {tessera.mesh = {data = 4 : i64}} {/; s/weight_decay = 3.0e-1>/&, tessera.opt.shard = #tessera.opt.shard<axis = "data">, tessera.opt.partition = #tessera.opt.partition<"zero2">/' \
    "$MODEL" >zero2.mlir
check "sharded: build" build zero2.mlir zero2.tsb --target=cpu:x86-64-v3
same_program zero2.tsb
thaw four
expect "sharded" 0 "^state $four step 20" train zero2.tsb --quiet --steps 20 --ranks 2 --state-dir S

# ---- logs ----

check "a log" train first.tsb --quiet --steps 5 --seed 3 --record run.log --cpu x86-64-v3
replay() { train "$1" --quiet --cpu x86-64-v3 --replay "${@:2}"; }
for bundle in comment renamed order recompute targets; do
    expect "$bundle: replay" 0 '^replay matches: 5 steps' replay $bundle.tsb run.log
done
expect "a replay with another lr" 12 'this run has lr 0.0005; the log was recorded with 0.001$' replay lr.tsb run.log
expect "a replay without the clipping" 12 'this run has clip_norm 0.5; the log was recorded with none$' replay schedule.tsb run.log
expect "a replay with other virtual ranks" 12 'this run has 4 virtual ranks; the log was recorded with 1$' replay ranks.tsb run.log
for bundle in op init constant sgd native; do
    expect "$bundle: replay" 12 "this bundle has program $(program_of $bundle.tsb | cut -c1-16); the log was recorded with ${PROGRAM:0:16}$" replay $bundle.tsb run.log
done
expect "a replay by v2" 12 "this run has numerics 'portable\..'; the log was recorded with 'portable\+fma" train v2.tsb --quiet --replay run.log
header() { sed "1s/$2/$3/" run.log >"$1.log"; }
bad() { # WHAT REGEX FROM TO
    header bad "$3" "$4"
    cmp -s bad.log run.log && fail "$1: nothing was changed"
    expect "$1" 8 "bad.log', line 1: $2" replay first.tsb bad.log
}
bad "no program" "member 'program'" '"program":"[0-9a-f]*",' ''
bad "a program that is a number" "member 'program'" '"program":"[0-9a-f]*"' '"program":7'
bad "a short program" 'program: expected a digest' '"program":"..' '"program":"'
bad "a program of zeros" 'program: expected a digest' '"program":"[0-9a-f]*"' "\"program\":\"$(printf '0%.0s' {1..64})\""
bad "no hyper-parameters" "member 'hyperparameters'" '"hyperparameters":{[^}]*},' ''
bad "hyper-parameters in a list" "member 'hyperparameters'" '"hyperparameters":{[^}]*}' '"hyperparameters":[]'
bad "a number" 'hyperparameters: expected strings' '"lr":"0.001"' '"lr":1'
bad "an empty value" 'a value of its hyper-parameters is not usable' '"lr":"0.001"' '"lr":""'
bad "out of order" 'its hyper-parameters are not in the order of their names' '"beta1":"0.9",' '"zeta":"0.9",'
bad "no virtual ranks" "member 'virtual_ranks'" '"virtual_ranks":1,' ''
bad "0 virtual ranks" 'virtual_ranks is 0' '"virtual_ranks":1,' '"virtual_ranks":0,'
bad "virtual ranks as text" "member 'virtual_ranks'" '"virtual_ranks":1,' '"virtual_ranks":"1",'
header newer 'record.v5' 'record.v6'
expect "a newer log" 3 "format is 'tessera.record.v6'; this version reads 'tessera.record.v1' to 'tessera.record.v5'" replay first.tsb newer.log

# ---- calls, trained bundles ----

call() { "$RUN" "$1" --quiet --cpu x86-64-v3 --entry predict --state-dir ten --input "x=$DIGITS/test-images.npy" "${@:2}"; }
check "a call" call first.tsb --output y=first.npy --record call.log
for bundle in comment lr targets ranks; do
    check "$bundle: a call" call $bundle.tsb --output y=$bundle.npy
    cmp first.npy $bundle.npy || fail "$bundle: another result"
    expect "$bundle: its replay" 0 '^replay matches' call $bundle.tsb --replay call.log
done
expect "a call of another program" 12 "generation 1 is of the program $PROGRAM" call op.tsb --output y=y.npy
expect "a trained bundle" 0 'notice: generation 1 was trained with lr 0.001; this run continues with 0.0005' \
    "$AOT" bake lr.tsb --state-dir ten --with-state -o trained.tsb
expect "continues" 0 "^state $halved step 20" train trained.tsb --quiet --steps 20 --cpu x86-64-v3
other_program trained.tsb
expect "parameters alone say nothing of it" 0 '' "$AOT" bake lr.tsb --state-dir ten -o params.tsb
grep -q 'was trained with' .err && fail "a bundle of parameters tells of hyper-parameters"
check "an export" "$RUN" export ten -o ten.safetensors
grep -aq "\"program_digest\":\"$PROGRAM\"" ten.safetensors || fail "the export does not have the program digest"
finish
