#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A dim that is open at run time: `--dim N=1..40` builds one program, and the inputs of a call give the size.
. "$(dirname "$0")/common.sh"

# program N OPS…: an entry with independent rows; the last line of OPS makes %y.
program() {
    local n=$1 rows="$1x4xf32" dims='' attribute=''
    if [ "$n" = N ]; then rows='?x4xf32, #tessera.dims<N>' dims=', tessera.dims = ["N"]'; fi
    if [ "$2" = rows ]; then attribute=', tessera.rows_independent'; fi
    cat <<END
module @open {
  func.func @predict(%x: tensor<$rows> {tessera.name = "x"}, %b: tensor<$rows> {tessera.name = "b"})
      -> (tensor<$rows> {tessera.name = "y"}) attributes {tessera.entry = "infer"$dims$attribute} {
    %w = tessera.param "w" init = #tessera.uniform<-1.0, 1.0> : tensor<4x4xf32>
    %0 = tessera.matmul %x, %w : tensor<$rows>, tensor<4x4xf32> -> tensor<$rows>
    %1 = tessera.add %0, %b : tensor<$rows>
    %y = tessera.softmax_safe %1 {axis = 1} : tensor<$rows>
    return %y : tensor<$rows>
  }
}
END
}

# array FILE DIM…: random f32, the same for the same dims.
array() { "$PYTHON" -c 'import sys, numpy as np; d = [int(a) for a in sys.argv[2:]]; np.save(sys.argv[1], np.random.default_rng(d).standard_normal(d).astype("f4"))' "$@"; }
call() { "$RUN" "$1" --quiet --input x=x.npy --input b=b.npy --output "y=$2" "${@:3}"; }

program N plain >open.mlir
program N rows >rows.mlir
target=(--target cpu:x86-64-v2)

# ---- the build ----

for text in N=1.. N=..8 N=1..8..9 N=1...8 N=a..8 N=1..8,9 N=9,1..8; do
    expect "--dim $text" 6 "expected NAME=SIZE, as N=64, or NAME=SIZE,SIZE,… with at most 64 sizes, or NAME=LOW..HIGH" \
        "$AOT" build open.mlir -o x.tsb "${target[@]}" --dim "$text"
done
for text in N=0..8 N=8..8 N=9..8; do
    expect "--dim $text" 6 "expected a size from 1 on and a larger one" "$AOT" build open.mlir -o x.tsb "${target[@]}" --dim "$text"
done
check "a range" "$AOT" build open.mlir -o open.tsb "${target[@]}" --dim N=1..40
check "a range of independent rows" "$AOT" build rows.mlir -o rows.tsb "${target[@]}" --dim N=1..40
expect "inspect shows the dim" 0 'predict\(x: Nx4xf32, b: Nx4xf32\) -> \(y: Nx4xf32\)' "$AOT" inspect open.tsb
expect "and its range" 0 '@predict  infer, N from 1 to 40; memory' "$AOT" inspect open.tsb
expect "as JSON" 0 '"open":\{"dim":"N","low":1,"high":40,"inputs":\[1,1\],"outputs":\[1\]\}' "$AOT" inspect --json open.tsb
check "two builds" "$AOT" build open.mlir -o again.tsb "${target[@]}" --dim N=1..40
holds "have the same bytes" cmp open.tsb again.tsb
expect "another range" 21 'N from 1 to 40 .* became .*N from 1 to 41' bash -c "'$AOT' build open.mlir -o other.tsb --target cpu:x86-64-v2 --dim N=1..41 && '$AOT' diff open.tsb other.tsb"

refused() {
    local what=$1 text=$2
    shift 2
    expect "$what" 9 "TSR-0233. $text" "$AOT" build "$@"
}
refused "native numerics" "func.func of entry '@predict' is built with native numerics, so dim 'N' cannot stay open; build for its sizes: --dim N=1,8,64" \
    open.mlir -o x.tsb "${target[@]}" --numerics native --dim N=1..40
refused "a GPU" "func.func of entry '@predict' is built for a GPU" open.mlir -o x.tsb --target cuda:sm_80 --dim N=1..40
sed 's/%y = tessera.softmax_safe %1 {axis = 1}/%y = tessera.softmax_safe %1 {axis = 0}/' open.mlir >mixes.mlir
cat >ones.mlir <<'END'
func.func @predict(%x: tensor<?x1xf32, #tessera.dims<N>> {tessera.name = "x"}) -> (tensor<?xi64, #tessera.dims<N>> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
  %y = tessera.argmax %x {axis = 1} : (tensor<?x1xf32, #tessera.dims<N>>) -> tensor<?xi64, #tessera.dims<N>>
  return %y : tensor<?xi64, #tessera.dims<N>>
}
END
check "the index in a dim of size 1" "$AOT" build ones.mlir -o x.tsb "${target[@]}" --dim N=1..8
sed 's/%y = tessera.softmax_safe %1 {axis = 0} : \(.*\)/%y, %i = tessera.sort %1 {axis = 0} : (\1) -> (\1, tensor<?x4xi64, #tessera.dims<N>>)/' mixes.mlir >sorted.mlir
check "rows that mix" "$AOT" build mixes.mlir -o x.tsb "${target[@]}" --dim N=1..40
refused "rows that mix in an op without such a kernel" "tessera.sort of entry '@predict' moves or mixes rows" sorted.mlir -o x.tsb "${target[@]}" --dim N=1..40
mv sorted.mlir mixes.mlir
holds "at the op" grep -q '^sorted.mlir:7:14: error' .err
check "which several sizes build" "$AOT" build mixes.mlir -o x.tsb "${target[@]}" --dim N=1,8,40
sizes() {
    cat <<END
func.func @predict(%x: tensor<?x4xf32, #tessera.dims<N>> {tessera.name = "x"}) -> (tensor<1xi64> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
  %y = tessera.sizes {values = ["$1"]} : tensor<1xi64>
  return %y : tensor<1xi64>
}
END
}
for size in 'N - 3' '3*N*N + 2*N + 7'; do
    sizes "$size" >sizes.mlir
    check "the integer $size" "$AOT" build sizes.mlir -o sizes.tsb "${target[@]}" --dim N=1..40
    array x.npy 2 4
    check "of 2 rows" "$RUN" sizes.tsb --quiet --input x=x.npy --output y=y.npy
    holds "is $size" "$PYTHON" -c 'import sys, numpy as np; N = 2; assert np.load("y.npy").tolist() == [eval(sys.argv[1])]' "$size"
done
sizes 'floor(N/2)' >sizes.mlir
refused "a quotient" "tessera.constant: a number of it is 506 where the dim is 1013, and 648 where it is 1297, which is no sum of products of sizes" \
    sizes.mlir -o x.tsb "${target[@]}" --dim N=1..40
sizes 'min(N, 8)' >sizes.mlir
refused "a minimum" "tessera.sizes: a size is min\(8, N\), so dim 'N' cannot stay open" sizes.mlir -o x.tsb "${target[@]}" --dim N=1..40
sed 's/%y = .*/%y = tessera.slice %x {start = [0, 0], size = [3, 4]} : (tensor<?x4xf32, #tessera.dims<N>>) -> tensor<3x4xf32>/
    s/tensor<1xi64>/tensor<3x4xf32>/' sizes.mlir >part.mlir
refused "rows that the smallest size lacks" "where dim 'N' is 1: .TSR-0125. tessera.slice: 3 elements from 0 by 1 do not fit into dim 0 of 1" \
    part.mlir -o x.tsb "${target[@]}" --dim N=1..40
check "which a larger one has" "$AOT" build part.mlir -o x.tsb "${target[@]}" --dim N=3..40
check "an ONNX model" "$AOT" build "$ROOT/examples/onnx/mlp.onnx" -o x.tsb "${target[@]}" --dim N=1..8
expect "its dim" 0 'main\(x: Nx64xui8\) -> \(y: Nx10xf32\)' "$AOT" inspect x.tsb

# ---- calls ----

for n in 40 1 7 33; do
    program "$n" plain >exact.mlir
    check "the program for $n" "$AOT" build exact.mlir -o exact.tsb "${target[@]}"
    array x.npy "$n" 4
    cp x.npy b.npy
    check "a call with $n rows" call open.tsb open.npy
    check "of the program for them" call exact.tsb exact.npy
    holds "the same bits" cmp open.npy exact.npy
done
check "recorded" call open.tsb open.npy --record calls.log
check "replayed" call open.tsb open.npy --replay calls.log
array x.npy 41 4
cp x.npy b.npy
expect "too many rows" 8 "dim 'N' of entry 'predict' is 41 in input 'x'; the bundle was built for 1 to 40" call open.tsb y.npy
array x.npy 0 4
expect "none" 8 "dim 'N' of entry 'predict' is 0 in input 'x'; the bundle was built for 1 to 40" call open.tsb y.npy
array x.npy 5 4
expect "two sizes" 8 "dim 'N' of entry 'predict' is 5 in input 'x' and 41 in input 'b'" call open.tsb y.npy

cat >rows-at.mlir <<'END'
func.func @predict(%x: tensor<?x4xf32, #tessera.dims<N>> {tessera.name = "x"}, %i: tensor<2xi64> {tessera.name = "i"}) -> (tensor<2x4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
  %y = tessera.gather %x, %i {axis = 0} : (tensor<?x4xf32, #tessera.dims<N>>, tensor<2xi64>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
END
check "rows of the dim by index" "$AOT" build rows-at.mlir -o at.tsb "${target[@]}" --dim N=1..40
"$PYTHON" -c 'import numpy as np; np.save("i.npy", np.array([1, 6]))'
array x.npy 7 4
check "the last row of a call" "$RUN" at.tsb --quiet --input x=x.npy --input i=i.npy --output y=y.npy
holds "is found" "$PYTHON" -c 'import numpy as np; assert (np.load("y.npy") == np.load("x.npy")[[1, 6]]).all()'
array x.npy 6 4
expect "a row behind those of the call" 8 'i\[1\] is 6; expected 0 to 5 ' "$RUN" at.tsb --quiet --input x=x.npy --input i=i.npy --output y=y.npy

# Any number of independent rows, in batches of 40; the last one has what is left.
program 40 rows >exact.mlir
check "independent rows, padded" "$AOT" build exact.mlir -o exact.tsb "${target[@]}"
for n in 0 1 40 41 203; do
    array x.npy "$n" 4
    cp x.npy b.npy
    check "$n independent rows" call rows.tsb open.npy
    check "of the program that pads" call exact.tsb exact.npy
    holds "the same bits" cmp open.npy exact.npy
done

finish
