#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Entries with open dims: `--dim N=1,8` builds one program for each size, and the inputs of a call choose it.
. "$(dirname "$0")/common.sh"

# program N S: a program whose dims are these; with letters they are open.
program() {
    local n=$1 s=$2 rows=$1x4 all=$1x$2x4 dims=''
    if [ "$n" = N ]; then
        rows='?x4xf32, #tessera.dims<N>' all='?x?x4xf32, #tessera.dims<N, S>' dims=', tessera.dims = ["N", "S"]'
    else
        rows=${rows}xf32 all=${all}xf32
    fi
    cat <<END
module @anchors {
  func.func private @hidden(%x: tensor<$rows>) -> tensor<$rows> {
    %w = tessera.param "w" init = #tessera.uniform<-1.0, 1.0> : tensor<4x4xf32>
    %0 = tessera.matmul %x, %w : tensor<$rows>, tensor<4x4xf32> -> tensor<$rows>
    %1 = tessera.relu %0 : tensor<$rows>
    return %1 : tensor<$rows>
  }
  func.func @predict(%x: tensor<$all> {tessera.name = "x"}, %b: tensor<$rows> {tessera.name = "b"})
      -> (tensor<$rows> {tessera.name = "y"}) attributes {tessera.entry = "infer"$dims} {
    %0 = tessera.mean %x {axes = [1]} : tensor<$all> -> tensor<$rows>
    %1 = tessera.add %0, %b : tensor<$rows>, tensor<$rows> -> tensor<$rows>
    %2 = call @hidden(%1) : (tensor<$rows>) -> tensor<$rows>
    return %2 : tensor<$rows>
  }
  func.func @other(%x: tensor<3xf32> {tessera.name = "x"}) -> (tensor<3xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    return %x : tensor<3xf32>
  }
}
END
}

# array FILE DIM…: random f32, the same for the same dims.
array() { "$PYTHON" -c 'import sys, numpy as np; d = [int(a) for a in sys.argv[2:]]; np.save(sys.argv[1], np.random.default_rng(d).standard_normal(d).astype("f4"))' "$@"; }
call() {
    local bundle=$1 entry=$2
    shift 2
    "$RUN" "$bundle" --entry "$entry" --quiet "$@"
}

program N S >open.mlir
array b.npy 1 4
target=(--target cpu:x86-64-v2)

# ---- the build ----

expect "every symbol needs a size" 9 "TSR-0232. func.func: a dim is N, but 'N' has no size" "$AOT" build open.mlir -o x.tsb "${target[@]}" --dim S=5
expect "an unknown symbol" 9 "dim 'M' has the size 2, but no open dim of the program has this name" \
    "$AOT" build open.mlir -o x.tsb "${target[@]}" --dim N=1 --dim S=5 --dim M=2
expect "a symbol given twice" 6 "build: --dim N is given twice" "$AOT" build open.mlir -o x.tsb "${target[@]}" --dim N=1 --dim N=5
expect "a size of 0" 9 "dim 'N' has the size 0, needs at least 1" "$AOT" build open.mlir -o x.tsb "${target[@]}" --dim N=0,5 --dim S=5
expect "sizes that do not ascend" 6 "expected sizes in ascending order, got 5 after 5" "$AOT" build open.mlir -o x.tsb "${target[@]}" --dim N=5,5
for text in N= N =5 N=a 'N=1,' 'N=1,,2' N=-1 N=1.8 N=9999999999999999999; do
    expect "--dim $text" 6 "expected NAME=SIZE, as N=64, or NAME=SIZE,SIZE," "$AOT" build open.mlir -o x.tsb "${target[@]}" --dim "$text"
done
expect "a dump has its sizes" 6 "dim 'N' has a size; expected none with a dump of stage autodiff" \
    "$AOT" build open.mlir --from autodiff -o x.tsb "${target[@]}" --dim N=1
program 7 5 >closed.mlir
expect "a program without open dims" 9 "dim 'N' has the size 1, but no open dim of the program has this name" \
    "$AOT" build closed.mlir -o x.tsb "${target[@]}" --dim N=1
check "two sizes of N, two of S" "$AOT" build open.mlir -o open.tsb "${target[@]}" --dim N=1,7 --dim S=5,64
expect "inspect lists the programs" 0 'predict\[N=7,S=64\]' "$AOT" inspect open.tsb
holds "all of them" test "$(grep -c 'predict\[' .out)" -ge 4

cat >named.mlir <<'END'
func.func @"p[N=1,M=4]"(%a: tensor<1x4xf32> {tessera.name = "a"}, %b: tensor<1x4xf32> {tessera.name = "b"}) -> (tensor<1x4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.add %a, %b : tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
func.func @"p[N=2]"(%a: tensor<2x4xf32> {tessera.name = "a"}) -> (tensor<2x4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  return %a : tensor<2x4xf32>
}
END
expect "entries named as copies, with other symbols" 9 "config: entry 'p.N=2.': expected the symbols of 'p.N=1,M=4.', another copy of 'p'" \
    "$AOT" build named.mlir -o x.tsb "${target[@]}"
sed 's/N=1,M=4/N=1/' named.mlir >ports.mlir
expect "with other inputs" 9 "config: entry 'p.N=2.': inputs: expected 2, as 'p.N=1.' has, got 1" "$AOT" build ports.mlir -o x.tsb "${target[@]}"
sed 's/func.func @other/func.func @"predict[N=4,S=5]"/' open.mlir >taken.mlir
expect "an entry with a name for copies" 9 "entry '@predict': its copies have names such as '@predict.N=4,S=5.'; rename this function" \
    "$AOT" build taken.mlir -o x.tsb "${target[@]}" --dim N=1,7 --dim S=5

# ---- the same bits as the program with these sizes ----

for n in 1 7; do
    for s in 5 64; do
        mkdir "$n-$s"
        program $n $s >"$n-$s/open.mlir"
        check "the program for $n, $s" "$AOT" build "$n-$s/open.mlir" -o closed.tsb "${target[@]}"
        array x.npy $n $s 4
        array b.npy $n 4
        check "its call" call closed.tsb predict --input x=x.npy --input b=b.npy --output y=expected.npy
        check "a call with $n, $s" call open.tsb predict --input x=x.npy --input b=b.npy --output y=y.npy
        holds "the same bytes for $n, $s" cmp y.npy expected.npy
        check "by the full name" call open.tsb "predict[N=$n,S=$s]" --input x=x.npy --input b=b.npy --output y=z.npy
        holds "the same bytes again" cmp z.npy expected.npy
        if [ $n = 7 ]; then
            check "one size" "$AOT" build open.mlir -o one.tsb "${target[@]}" --dim N=$n --dim S=$s
            check "its call" call one.tsb predict --input x=x.npy --input b=b.npy --output y=y.npy
            holds "one size has the same bytes" cmp y.npy expected.npy
        fi
    done
done
check "a record" call open.tsb predict --input x=x.npy --input b=b.npy --output y=y.npy --record r.log
check "its replay" call open.tsb predict --input x=x.npy --input b=b.npy --replay r.log

# ---- calls that are refused ----

array x.npy 3 5 4
array b.npy 3 4
expect "a size without a program" 8 "dim 'N' of entry 'predict' is 3 in input 'x' .dim 0.; the bundle was built for 1, 7" \
    call open.tsb predict --input x=x.npy --input b=b.npy --output y=y.npy
array x.npy 1 5 4
array b.npy 7 4
expect "dims that contradict" 8 "dim 'N' of entry 'predict' is 1 in input 'x' .dim 0. and 7 in input 'b' .dim 0." \
    call open.tsb predict --input x=x.npy --input b=b.npy --output y=y.npy
array x.npy 0 5 4
array b.npy 0 4
expect "a dim of 0" 8 "dim 'N' of entry 'predict' is 0 in input 'x' .dim 0.; the bundle was built for 1, 7" call open.tsb predict --input x=x.npy --input b=b.npy --output y=y.npy
array x.npy 7 5 3
array b.npy 7 4
expect "another dim" 8 "input 'x' is 7x5x3xf32; expected 7x5x4xf32" call open.tsb predict --input x=x.npy --input b=b.npy --output y=y.npy
array x.npy 7 5 4
expect "a wrong size for a full name" 8 "input 'x' is 7x5x4xf32; expected 1x5x4xf32" \
    call open.tsb 'predict[N=1,S=5]' --input x=x.npy --input b=b.npy --output y=y.npy
expect "a missing input" 6 "input 'b' of entry 'predict" call open.tsb predict --input x=x.npy --output y=y.npy
program N S | sed '/func.func @other/,/^  }/d' >only.mlir
check "a program of one entry" "$AOT" build only.mlir -o only.tsb "${target[@]}" --dim N=1,7 --dim S=5
expect "the copies of one entry need no --entry" 0 '' "$RUN" only.tsb --quiet --input x=x.npy --input b=b.npy --output y=only.npy
expect "which are listed as one" 6 "no entry 'predikt'; the bundle has predict$" \
    call only.tsb predikt --input x=x.npy --output y=y.npy
expect "an unknown entry" 6 "no entry 'predikt'; the bundle has other, predict" call open.tsb predikt --input x=x.npy --output y=y.npy

# ---- flat files ----

cat >flat.mlir <<'END'
func.func @p(%a: tensor<?x?xf32, #tessera.dims<N, S>> {tessera.name = "a"}) -> (tensor<?x?xf32, #tessera.dims<N, S>> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.dims = ["N", "S"]} {
  %0 = tessera.softmax_safe %a {axis = 1} : tensor<?x?xf32, #tessera.dims<N, S>>
  return %0 : tensor<?x?xf32, #tessera.dims<N, S>>
}
END
check "sizes with equal products" "$AOT" build flat.mlir -o flat.tsb "${target[@]}" --dim N=1,2,4 --dim S=1,2,4
"$PYTHON" -c 'import numpy as np; a = np.arange(4, dtype="f4"); a.tofile("4.bin"); a[:1].tofile("1.bin"); np.save("4.npy", a.reshape(2, 2)); np.save("1.npy", a[:1].reshape(1, 1))'
expect "a flat file that fits several" 8 "input 'a' is flat and has 4 elements, which fits 'p.N=1,S=4.' and 'p.N=2,S=2.'" \
    call flat.tsb p --input a=4.bin --output y=y.npy
check "by the full name" call flat.tsb 'p[N=2,S=2]' --input a=4.bin --output y=y.npy
check "with its shape" call flat.tsb p --input a=4.npy --output y=z.npy
holds "the same bytes" cmp y.npy z.npy
check "a flat file that fits one" call flat.tsb p --input a=1.bin --output y=y.npy
check "with its shape" call flat.tsb p --input a=1.npy --output y=z.npy
holds "the same bytes" cmp y.npy z.npy

# ---- entries that have one size ----

sed 's/"infer", tessera.dims/"infer", tessera.rows_independent, tessera.dims/' open.mlir >rows.mlir
expect "independent rows" 9 "dim 'N' has 2 sizes; an entry that is tessera.rows_independent has one" \
    "$AOT" build rows.mlir -o x.tsb "${target[@]}" --dim N=1,7 --dim S=5
cat >train.mlir <<'END'
func.func @train(%x: tensor<?xf32, #tessera.dims<N>> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train", tessera.dims = ["N"]} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<f32>
  %0 = tessera.mul %x, %w : tensor<?xf32, #tessera.dims<N>>, tensor<f32> -> tensor<?xf32, #tessera.dims<N>>
  %loss = tessera.mean %0 {axes = [0]} : tensor<?xf32, #tessera.dims<N>> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}
END
expect "training" 9 "dim 'N' has 2 sizes; only an infer entry can have several" "$AOT" build train.mlir -o x.tsb "${target[@]}" --dim N=4,8
check "training with one size" "$AOT" build train.mlir -o train.tsb "${target[@]}" --dim N=8
array x.npy 16
check "its run" "$RUN" train.tsb --data x=x.npy --steps 3 --state-dir S --quiet

finish
