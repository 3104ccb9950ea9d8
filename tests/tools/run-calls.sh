#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Calls: warnings about untrained parameters and about outputs that are not finite.
. "$(dirname "$0")/common.sh"

# silent WHAT CODE COMMAND…: requires the exit code, and no output on standard error.
silent() {
    local what=$1 code=$2
    shift 2
    checks=$((checks + 1))
    "$@" >.out 2>.err </dev/null
    [ $? -eq "$code" ] || fail "$what: expected exit code $code"
    [ ! -s .err ] || fail "$what: expected no message"
}

# ---- untrained parameters ----

untrained='warning: entry .predict. reads parameters that were never trained: .layer1.[a-z]*. and 5 more, initial values of seed'
predict=(--entry predict --input "x=$DIGITS/test-images.npy" --output y=y.npy --quiet)
expect "an untrained bundle" 0 "$untrained 0;" "$RUN" "$BUNDLE" "${predict[@]}"
expect "another seed" 0 "$untrained 7;" "$RUN" "$BUNDLE" "${predict[@]}" --seed 7
expect "its evaluation" 0 'warning: entry .evaluate. reads parameters that were never trained' "$RUN" "$BUNDLE" --entry evaluate "${TEST_DATA[@]}" --quiet
silent "training" 0 "$RUN" "$BUNDLE" "${DATA[@]}" "${TEST_DATA[@]}" --steps 20 --state-dir S --quiet
silent "a state" 0 "$RUN" "$BUNDLE" "${predict[@]}" --state-dir S
silent "its evaluation" 0 "$RUN" "$BUNDLE" --entry evaluate "${TEST_DATA[@]}" --quiet --state-dir S
silent "an export" 0 "$RUN" "$BUNDLE" --state-dir S --export-params p.safetensors --quiet
silent "a parameter file" 0 "$RUN" "$BUNDLE" "${predict[@]}" --params p.safetensors
check "bake" "$AOT" bake "$BUNDLE" --state-dir S -o baked.tsb
silent "a baked bundle" 0 "$RUN" baked.tsb "${predict[@]}"

cat >scalar.mlir <<'END'
module @scalar {
  func.func @train(%x: tensor<8xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<f32>
    %d = tessera.sub %x, %w : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
    %s = tessera.mul %d, %d : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
    %loss = tessera.mean %s {axes = [0]} : tensor<8xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func @scale(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<f32>
    %y = tessera.mul %x, %w : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
  func.func @twice(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %y = tessera.add %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
END
floats() { "$PYTHON" -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<%df" % (len(sys.argv) - 1), *map(float, sys.argv[1:])))' "$@"; }
floats 1 2 3 4 >four.bin
floats 1 2 3 4 5 6 7 8 >eight.bin
check "a model of one number" "$AOT" build scalar.mlir -o scalar.tsb --target cpu:x86-64-v2
call() { "$RUN" "$1" --entry "$2" --input x=four.bin --output y=y.bin --quiet; }
expect "a constant rule is no training, either" 0 "never trained: 'w', initial values of seed 0" call scalar.tsb scale
silent "an entry that reads no parameter" 0 call scalar.tsb twice
check "it is trained" "$RUN" scalar.tsb --data x=eight.bin --steps 3 --state-dir W --quiet
check "and baked" "$AOT" bake scalar.tsb --state-dir W -o scalar2.tsb
silent "a baked parameter that is stored as a rule again" 0 call scalar2.tsb scale

# ---- outputs that are not finite ----

cat >finite.mlir <<'END'
module @finite {
  func.func @rows(%x: tensor<4x3xf32> {tessera.name = "x"}) -> (tensor<4x3xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.rows_independent} {
    %y = tessera.exp %x : tensor<4x3xf32>
    return %y : tensor<4x3xf32>
  }
  func.func @means(%x: tensor<4x3xf32> {tessera.data = "x"}) -> (tensor<4x3xf32> {tessera.name = "y"}) attributes {tessera.entry = "eval", tessera.rows_independent} {
    %y = tessera.exp %x : tensor<4x3xf32>
    return %y : tensor<4x3xf32>
  }
  func.func @masked(%x: tensor<4x3xf32> {tessera.name = "x"}) -> (tensor<4x3xf32> {tessera.name = "m"}, tensor<4xf32> {tessera.name = "l"}, tensor<4x3xf32> {tessera.name = "p"}, tensor<4x3xf32> {tessera.name = "e"}) attributes {tessera.entry = "infer"} {
    %mask = tessera.constant dense<0xFF800000> : tensor<3xf32>
    %m = tessera.add %x, %mask : tensor<4x3xf32>, tensor<3xf32> -> tensor<4x3xf32>
    %l = tessera.logsumexp_safe %m {axes = [1]} : tensor<4x3xf32> -> tensor<4xf32>
    %p = tessera.softmax_safe %m {axis = 1} : tensor<4x3xf32>
    %e = tessera.exp %x : tensor<4x3xf32>
    return %m, %l, %p, %e : tensor<4x3xf32>, tensor<4xf32>, tensor<4x3xf32>, tensor<4x3xf32>
  }
  func.func @square(%x: tensor<f32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "x"}, tensor<2xf32> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
    %y = tessera.mul %x, %x : tensor<f32>, tensor<f32> -> tensor<f32>
    %o = tessera.constant dense<1.0> : tensor<2xf32>
    %z = tessera.mul %o, %y : tensor<2xf32>, tensor<f32> -> tensor<2xf32>
    return %y, %z : tensor<f32>, tensor<2xf32>
  }
  func.func @types(%x: tensor<4x3xf32> {tessera.name = "x"}) -> (tensor<4x3xf64> {tessera.name = "d"}, tensor<4x3xbf16> {tessera.name = "b"}, tensor<4x3xf16> {tessera.name = "h"}, tensor<4x3xi32> {tessera.name = "i"}) attributes {tessera.entry = "infer"} {
    %n = tessera.log %x : tensor<4x3xf32>
    %d = tessera.cast %n : tensor<4x3xf32> to tensor<4x3xf64>
    %b = tessera.cast %n : tensor<4x3xf32> to tensor<4x3xbf16>
    %h = tessera.cast %n : tensor<4x3xf32> to tensor<4x3xf16>
    %i = tessera.cast %n : tensor<4x3xf32> to tensor<4x3xi32>
    return %d, %b, %h, %i : tensor<4x3xf64>, tensor<4x3xbf16>, tensor<4x3xf16>, tensor<4x3xi32>
  }
}
END
check "a bundle" "$AOT" build finite.mlir -o finite.tsb --target cpu:x86-64-v2
cat >ones.py <<'END'
# FILE ROWS [ROW,COLUMN=VALUE…]
import struct, sys
rows = int(sys.argv[2])
values = [1.0] * (3 * rows)
for change in sys.argv[3:]:
    index, value = change.split("=")
    row, column = map(int, index.split(","))
    values[3 * row + column] = float(value)
data = struct.pack("<%df" % len(values), *values)
header = ("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 3), }" % rows).ljust(117) + "\n"
open(sys.argv[1], "wb").write(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + data)
END
ones() { "$PYTHON" ones.py "$@"; }
ones big.npy 10 7,2=1000
ones given.npy 10 6,1=inf
ones both.npy 10 6,1=inf 8,1=1000
ones nan.npy 10 5,0=nan
ones four.npy 4 1,2=1000
ones fournan.npy 4 1,2=nan
ones negative.npy 4 2,1=-1
rows() { "$RUN" finite.tsb --entry rows --quiet --input "x=$1" --output y=rows.bin "${@:2}"; }
expect "an overflow in a later batch" 0 "warning: output 'y' has inf at element \[7, 2\]; expected finite numbers; more values of .y. that are not finite are not reported" rows big.npy
check "the output is written" test "$(wc -c <rows.bin)" -eq 120
rm rows.bin
expect "as an error" 14 "error: rows 4 to 7: output 'y' has inf at element \[7, 2\]; expected finite numbers$" rows big.npy --check-finite=error
check "nothing is written" test ! -e rows.bin
silent "not looked at" 0 rows big.npy --check-finite=off
expect "another word" 6 "check-finite is 'on'; expected error, warn or off" rows big.npy --check-finite=on
silent "an infinity that was given in this row" 0 rows given.npy
expect "but not in another row" 0 "output 'y' has inf at element \[8, 1\]" rows both.npy
expect "NaN is reported always" 0 "output 'y' has nan at element \[5, 0\]" rows nan.npy
masked() { "$RUN" finite.tsb --entry masked --quiet "$@"; }
silent "a mask of -inf, and what follows from it" 0 masked --input x=four.npy --output m=m.npy --output l=l.npy --output p=p.npy --check-finite=error
expect "beside it an overflow" 14 "output 'e' has inf at element \[1, 2\]; expected finite" \
    masked --input x=four.npy --output m=m.npy --output e=e.npy --check-finite=error
expect "NaN of a masked output" 14 "output 'm' has nan at element \[1, 2\]; expected no NaN" \
    masked --input x=fournan.npy --output m=m.npy --check-finite=error
square() { "$RUN" finite.tsb --entry square --quiet --input x=start.bin --repeat 3 "$@"; }
floats 1e30 >start.bin
expect "repeated calls" 0 "warning: call 1: output 'z' has inf at element \[0\]; expected finite numbers" square --output z=z.bin
floats 1e10 >start.bin
expect "the first call that has one" 14 "error: call 2: output 'z' has inf at element \[0\]" square --output z=z.bin --check-finite=error
expect "a scalar" 14 "error: call 2: output 'x' is inf; expected a finite number" square --output x=x.bin --check-finite=error
for output in d b h; do
    expect "type of output $output" 14 "output '$output' has nan at element \[2, 1\]" "$RUN" finite.tsb --entry types --quiet \
        --input x=negative.npy --output "$output=t.bin" --check-finite=error
done
silent "integers" 0 "$RUN" finite.tsb --entry types --quiet --input x=negative.npy --output i=t.bin --check-finite=error
means() { "$RUN" finite.tsb --entry means --quiet --data x=big.npy "$@"; }
expect "an evaluation" 14 "output 'y' is inf in row 3 of this batch; expected finite" means
expect "an evaluation, warned" 0 "warning: the mean of output 'y' is inf; expected a finite number" means --check-finite=warn
expect "whose result is printed" 0 'y inf' means --check-finite=off

# Training: the state is finite while an output is not.
cat >loss.mlir <<'END'
module @loss {
  func.func @train(%x: tensor<8xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}, tensor<f32> {tessera.name = "odd"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<f32>
    %d = tessera.sub %x, %w : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
    %s = tessera.mul %d, %d : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
    %loss = tessera.mean %s {axes = [0]} : tensor<8xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    %m = tessera.neg %loss : tensor<f32>
    %odd = tessera.log %m : tensor<f32>
    return %loss, %odd : tensor<f32>, tensor<f32>
  }
}
END
check "a training program" "$AOT" build loss.mlir -o loss.tsb --target cpu:x86-64-v2
train() { "$RUN" loss.tsb --data x=eight.bin --steps 3 --quiet "$@"; }
expect "an output of training" 14 "error: output 'odd' is nan at step 1; expected a finite number" train
expect "warned once, and run to the end" 0 "^state [0-9a-f]{64} step 3" train --check-finite=warn
check "one warning" test "$(grep -c "output 'odd' is nan at step 1; .* later values" .err)" -eq 1
silent "off" 0 train --check-finite=off
finish
