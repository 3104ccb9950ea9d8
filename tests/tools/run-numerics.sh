#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --debug-numerics: the first NaN, with step, kernel, place, element, rank; the same bits and files without one. A GPU: run-gpu.sh.
. "$(dirname "$0")/common.sh"

cat >overflow.mlir <<'END'
func.func @soft(%x: tensor<2x3xf32> {tessera.name = "x"}) -> (tensor<2x3xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %w = tessera.constant dense<[[60.0, 0.0, 0.0], [0.0, 60.0, 0.0], [0.0, 0.0, 60.0]]> : tensor<3x3xf32>
  %0 = tessera.matmul %x, %w : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %1 = tessera.exp %0 : tensor<2x3xf32>
  %2 = tessera.sum %1 {axes = [1]} : tensor<2x3xf32> -> tensor<2xf32>
  %3 = tessera.reshape %2 : tensor<2xf32> -> tensor<2x1xf32>
  %4 = tessera.div %1, %3 : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  return %4 : tensor<2x3xf32>
}
func.func @loop(%x: tensor<400x2xf32> {tessera.name = "x"}) -> (tensor<2x2xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %m = tessera.constant dense<[[0.5, 0.0], [0.0, 0.5]]> : tensor<2x2xf32>
  %0:2 = tessera.scan %m, %x {
  ^bb0(%a: tensor<2x2xf32>, %row: tensor<2xf32>):
    %1 = tessera.matmul %a, %m : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %2 = tessera.sqrt %row : tensor<2xf32>
    %3 = tessera.add %1, %2 : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
    tessera.yield %3, %2 : tensor<2x2xf32>, tensor<2xf32>
  } {carried = 1 : i64} : (tensor<2x2xf32>, tensor<400x2xf32>) -> (tensor<2x2xf32>, tensor<400x2xf32>)
  return %0#0 : tensor<2x2xf32>
}
func.func @train(%d: tensor<8x3xf32> {tessera.data = "d"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3xf32>
  %0 = tessera.mul %d, %w : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
  %1 = tessera.log %0 : tensor<8x3xf32>
  %2 = tessera.mean %1 {axes = [0, 1]} : tensor<8x3xf32> -> tensor<f32>
  tessera.minimize %2 {optimizer = #tessera.sgd<lr = 0.25>} : tensor<f32>
  return %2 : tensor<f32>
}
END
check "builds" "$AOT" build overflow.mlir -o o.tsb
check "builds for ranks" "$AOT" build overflow.mlir -o ranks.tsb --virtual-ranks 4

# floats FILE ROWS COLUMNS VALUE [INDEX=VALUE…]: an f32 array.
cat >floats.py <<'END'
import struct, sys
rows, columns = int(sys.argv[2]), int(sys.argv[3])
values = [float(sys.argv[4])] * (rows * columns)
for change in sys.argv[5:]:
    index, value = change.split("=")
    values[int(index)] = float(value)
header = ("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, columns)).ljust(117) + "\n"
open(sys.argv[1], "wb").write(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + struct.pack("<%df" % len(values), *values))
END
floats() { "$PYTHON" floats.py "$@"; }
floats good.npy 2 3 1
floats large.npy 2 3 1 4=2
floats nan.npy 2 3 1 5=nan
floats rows.npy 400 2 1 751=-1
floats data.npy 8 3 1
floats bad.npy 8 3 1 20=-1
soft() { "$RUN" o.tsb --entry soft --input "x=$1" --output y=y.npy "${@:2}"; }

# ---- calls
check "a call" soft good.npy
mv y.npy plain.npy
expect "a call that is checked" 0 'notice: checked [0-9]+ numbers, the results of [0-9]+ kernel launch' soft good.npy --debug-numerics
check "gives the same bits" cmp plain.npy y.npy
expect "NaN" 14 "error: step 0: kernel '[a-z0-9_]*div[a-z0-9_]*' at overflow.mlir:[57]:8 makes nan at element \[1, 1\] of 'y' \(2x3xf32\); its operand [0-9] has inf at element \[1, 1\]" \
    soft large.npy --debug-numerics
holds "infinity comes first" grep -Eq "warning: step 0: kernel '[a-z0-9_]*exp[a-z0-9_]*' at overflow.mlir:[34]:8 makes inf at element \[1, 1\].*the first infinity of this run" .err
expect "without the flag" 0 "warning: output 'y' has nan at element \[1, 1\]" soft large.npy
expect "NaN as input" 14 "error: step 0: input 'x' has nan at element \[1, 2\]" soft nan.npy --debug-numerics
expect "in a loop" 14 "error: step 0, iteration 375: kernel '[a-z0-9_]*sqrt[a-z0-9_]*' at overflow.mlir:[0-9]*:10 makes nan at element \[1\]" \
    "$RUN" o.tsb --entry loop --input x=rows.npy --output y=l.npy --debug-numerics

# ---- training
train() { "$RUN" "$1" --data "d=$2" --steps 6 "${@:3}"; }
expect "training" 0 '^state ' train o.tsb data.npy
state=$(state_of .out)
expect "training that is checked" 0 "^state $state " train o.tsb data.npy --debug-numerics
expect "the first step with NaN" 14 "error: step 1: kernel '[a-z0-9_]*' at overflow.mlir:[0-9]*:[0-9]* makes nan at element \[[0-7], 2\]" \
    train o.tsb bad.npy --debug-numerics
expect "the state of ranks" 0 '^state ' train ranks.tsb data.npy
state=$(state_of .out)
expect "two ranks that are checked" 0 "^state $state " train ranks.tsb data.npy --ranks 2 --debug-numerics
expect "rank and virtual rank" 14 'step 1: rank [01], virtual rank [0-3]: kernel .* makes nan at element \[' \
    train ranks.tsb bad.npy --ranks 2 --debug-numerics
expect "not with ls" 6 "debug-numerics" "$RUN" ls . --debug-numerics

# ---- checks that a program asks for
cat >asks.mlir <<'END'
func.func @f(%x: tensor<2x3xf32> {tessera.name = "x"}) -> (tensor<2x3xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.exp %x : tensor<2x3xf32>
  tessera.verify.numerics %0 {bounded = [0, 5.5]} : tensor<2x3xf32>
  %1 = tessera.neg %0 : tensor<2x3xf32>
  %2 = tessera.cast %1 : tensor<2x3xf32> -> tensor<2x3xbf16>
  tessera.verify.numerics %2 : tensor<2x3xbf16>
  return %1 : tensor<2x3xf32>
}
func.func @sums(%x: tensor<400x2xf32> {tessera.name = "x"}) -> (tensor<2xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %m = tessera.constant dense<0.5> : tensor<2xf32>
  %0:2 = tessera.scan %m, %x {
  ^bb0(%a: tensor<2xf32>, %row: tensor<2xf32>):
    %1 = tessera.add %a, %row : tensor<2xf32>
    tessera.yield %1, %1 : tensor<2xf32>, tensor<2xf32>
  } {carried = 1 : i64} : (tensor<2xf32>, tensor<400x2xf32>) -> (tensor<2xf32>, tensor<400x2xf32>)
  tessera.verify.numerics %0#1 {bounded = [0, 100]} : tensor<400x2xf32>
  return %0#0 : tensor<2xf32>
}
func.func @train(%d: tensor<8x3xf32> {tessera.data = "d"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3xf32>
  CHECK %w {bounded = [0.6, 1.5]} : tensor<3xf32>
  %0 = tessera.mul %d, %w : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
  CHECK %0 {bounded = [-10, 10]} : tensor<8x3xf32>
  %1 = tessera.mean %0 {axes = [0, 1]} : tensor<8x3xf32> -> tensor<f32>
  tessera.minimize %1 {optimizer = #tessera.sgd<lr = 0.5>} : tensor<f32>
  return %1 : tensor<f32>
}
END
grep -v CHECK asks.mlir >silent.mlir
sed -i 's/CHECK/tessera.verify.numerics/' asks.mlir
for name in asks silent; do check "builds $name" "$AOT" build $name.mlir -o $name.tsb; done
check "builds it for ranks" "$AOT" build asks.mlir -o askranks.tsb --virtual-ranks 4
asks() { "$RUN" asks.tsb --entry "$1" --input "x=$2" --output y=y.npy; }
check "within the bounds" asks f good.npy
expect "above them" 14 "error: verify.numerics at asks.mlir:3:3: 7.38905[0-9]* at element \[1, 1\] \(2x3xf32\); expected numbers from 0 to 5.5$" asks f large.npy
expect "NaN" 14 "error: verify.numerics at asks.mlir:3:3: nan at element \[1, 2\]" asks f nan.npy
floats ones.npy 400 2 1
expect "after a loop" 14 "error: verify.numerics at asks.mlir:16:3: 100.5 at element \[99, 0\] \(400x2xf32\); expected numbers from 0 to 100" asks sums ones.npy
expect "a training" 14 "error: step 4: verify.numerics at asks.mlir:21:3: 0.(5|49999)[0-9]* at element \[0\] of 'w' \(3xf32\); expected numbers from 0.6 to 1.5" train asks.tsb data.npy
expect "its ranks" 14 "step [0-9]*: rank [01]: verify.numerics at asks.mlir:21:3: 0.(5|49999)" train askranks.tsb data.npy --ranks 2
"$RUN" asks.tsb --data d=data.npy --steps 2 --state-dir A >.out 2>.err || fail "two steps"
asked=$(state_of .out)
"$RUN" silent.tsb --data d=data.npy --steps 2 --state-dir B >.out 2>.err || fail "two steps without checks"
holds "checks change no bit, and the state belongs to both programs" test "$asked" = "$(state_of .out)"
expect "resumed without the checks" 0 '^state .* step 6' "$RUN" silent.tsb --data d=data.npy --steps 6 --state-dir A

finish
