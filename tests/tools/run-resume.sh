#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Saving, resuming, being killed: the bits are those of an undisturbed run, and no committed step is lost.
. "$(dirname "$0")/common.sh"

command=("$RUN" "$BUNDLE" "${DATA[@]}" --quiet) # run directly in the background: a function would run in a shell
train() { "${command[@]}" "$@"; }

expect "undisturbed" 0 '^state [0-9a-f]{64} step 400 ' train --steps 400 --state-dir whole
whole=$(state_of .out)
expect "first half" 0 '^state [0-9a-f]{64} step 150 generation 1' train --steps 150 --state-dir S
expect "second half resumes" 0 'resumed generation 1 at step 150' train --steps 400 --state-dir S
[ "$(state_of .out)" = "$whole" ] || fail "a resumed run has another state hash"
expect "nothing to do" 0 'at step 400, at or past --steps 400' train --steps 400 --state-dir S
expect "past" 0 'at step 400, at or past --steps 10' train --steps 10 --state-dir S
expect "another seed" 12 'seed 0; this run has 5' train --steps 500 --seed 5 --state-dir S
expect "never with a state" 10 '' train --steps 500 --state-dir S --resume never
expect "absent generation" 10 '77' train --steps 500 --state-dir S --resume 77
expect "threads do not matter" 0 "^state $whole step 400" train --steps 400 --threads 1
expect "three threads" 0 "^state $whole step 400" train --steps 400 --threads 3
expect "saving often does not matter" 0 "^state $whole step 400" train --steps 400 --state-dir often --save-every 7 --keep 3
expect "fsck" 0 '' "$RUN" fsck often

# Other numerics: refused, or reported.
expect "v2's bits" 0 '^state [0-9a-f]{64} step 150 ' train --steps 150 --cpu x86-64-v2 --state-dir N
expect "other numerics" 12 "which does not give the same bits" train --steps 400 --cpu x86-64-v3 --state-dir N
expect "other numerics allowed" 0 'resumed generation 1 at step 150' train --steps 400 --cpu x86-64-v3 --state-dir N --allow-inexact
grep -q 'inexact: generation 1 was computed with numerics' .out .err || fail "other numerics: no warning"

# SIGKILL at any moment: resumes from a generation > 0, redoes at most the save interval, ends with the same bits.
for attempt in 1 2 3 4 5; do
    rm -rf K m.jsonl
    "${command[@]}" --steps 20000000 --save-every 50 --state-dir K --metrics m.jsonl >/dev/null 2>&1 &
    pid=$!
    while ! grep -q '"step":1[0-9][0-9],' m.jsonl 2>/dev/null && kill -0 $pid; do sleep 0.01; done # saved at least once
    sleep "0.$attempt"
    kill -KILL $pid 2>/dev/null || fail "the run was over before it was killed"
    wait $pid 2>/dev/null
    last=$(sed -n 's/^{"event":"step","step":\([0-9]*\),.*}}$/\1/p' m.jsonl | tail -n 1)
    goal=$((last + 100))
    expect "resume after SIGKILL" 0 'resumed generation [1-9][0-9]* at step [1-9]' train --steps "$goal" --state-dir K --save-every 50
    from=$(sed -n 's/^resumed generation [0-9]* at step \([0-9]*\) .*/\1/p' .out)
    killed=$(state_of .out)
    # A save may have been active when the next was due: the run waits for it before the following steps.
    [ $((last - from)) -le 100 ] || fail "resumed from step $from after step $last: more than two intervals"
    expect "the same steps undisturbed" 0 "^state $killed step $goal" train --steps "$goal"
done

# A program with loops that are not unrolled: parameters have momenta, and the result of a loop is kept in a tensor.
cat >loop.mlir <<'END'
module @loop {
  func.func private @next(%a: tensor<64xf32>) -> tensor<64xf32> {
    %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<64xf32>
    %t = tessera.tanh %a : tensor<64xf32>
    %y = tessera.mul %t, %w : tensor<64xf32>, tensor<64xf32> -> tensor<64xf32>
    return %y : tensor<64xf32>
  }
  func.func @train(%images: tensor<64x64xui8> {tessera.data = "images"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %x = tessera.cast %images : tensor<64x64xui8> to tensor<64x64xf32>
    %m = tessera.mean %x {axes = [0]} : tensor<64x64xf32> -> tensor<64xf32>
    %half = tessera.constant dense<0.5> : tensor<f32>
    %y = tessera.scan %m {
    ^bb0(%a: tensor<64xf32>):
      %b = func.call @next(%m) : (tensor<64xf32>) -> tensor<64xf32>
      %c = tessera.mul %a, %half : tensor<64xf32>, tensor<f32> -> tensor<64xf32>
      %n = tessera.add %b, %c : tensor<64xf32>, tensor<64xf32> -> tensor<64xf32>
      tessera.yield %n : tensor<64xf32>
    } {carried = 1 : i64, length = 300 : i64} : tensor<64xf32> -> tensor<64xf32>
    %sum = tessera.param "sum" init = #tessera.constant<0.0> : tensor<64xf32>
    %r = tessera.scan %sum {
    ^bb0(%a: tensor<64xf32>):
      %b = tessera.add %a, %m : tensor<64xf32>, tensor<64xf32> -> tensor<64xf32>
      tessera.yield %b : tensor<64xf32>
    } {carried = 1 : i64, length = 300 : i64} : tensor<64xf32> -> tensor<64xf32>
    tessera.assign %r to "sum" : tensor<64xf32>
    %loss = tessera.mean %y {axes = [0]} : tensor<64xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.01, momentum = 0.9, weight_decay = 0.0>} : tensor<f32>
    return %loss : tensor<f32>
  }
}
END
expect "a loop stays one" 0 'repeat 300 times' "$AOT" build loop.mlir -o loop.tsb --target cpu:x86-64-v2 --dump=program
loop=("$RUN" loop.tsb --data "images=$DIGITS/train-images.npy" --quiet)
"${loop[@]}" --steps 20000000 --save-every 20 --state-dir loops --metrics loop.jsonl >.out 2>.err &
pid=$!
while ! grep -q '"step":[0-9][0-9][0-9],' loop.jsonl 2>/dev/null && kill -0 $pid 2>/dev/null; do sleep 0.01; done
kill -KILL $pid 2>/dev/null || fail "a loop: the run was over before it was killed"
wait $pid 2>/dev/null
goal=$(($(sed -n 's/^{"event":"step","step":\([0-9]*\),.*}}$/\1/p' loop.jsonl | tail -n 1) + 50))
expect "a loop: resume after SIGKILL" 0 'resumed generation [1-9][0-9]* at step [1-9]' "${loop[@]}" --steps "$goal" --state-dir loops
killed=$(state_of .out)
expect "a loop: the same steps undisturbed" 0 "^state $killed step $goal" "${loop[@]}" --steps "$goal"
expect "a loop: undisturbed, and saved" 0 "^state $killed step $goal" "${loop[@]}" --steps "$goal" --save-every 7 --state-dir undisturbed

# SIGTERM and SIGINT: finish the step, save, exit 0.
for signal in TERM INT; do
    rm -rf T
    "${command[@]}" --steps 100000000 --state-dir T >.stopped 2>.err &
    pid=$!
    sleep 0.3
    kill -$signal $pid
    wait $pid || fail "SIG$signal: exit code $?"
    checks=$((checks + 1))
    grep -q 'stopped by a signal at step [1-9]' .stopped || fail "SIG$signal: not said"
    step=$(sed -n 's/^state [0-9a-f]* step \([0-9]*\) .*/\1/p' .stopped)
    expect "SIG$signal: saved" 0 "at step $step, at or past" train --steps 1 --state-dir T
    [ "$(state_of .out)" = "$(state_of .stopped)" ] || fail "SIG$signal: another state was saved"
done

# A second run on the same directory.
"${command[@]}" --steps 100000000 --state-dir L >/dev/null 2>&1 &
pid=$!
sleep 0.3
expect "locked" 11 'L' train --steps 10 --state-dir L
kill -TERM $pid
wait $pid
finish
