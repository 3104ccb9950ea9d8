#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bad data: refused with both values, nothing touched out of bounds, nothing saved.
. "$(dirname "$0")/common.sh"

# npy DESCR SHAPE BYTES_FILE [FORTRAN] > file: an NPY 1.0 file.
npy() {
    local header="{'descr': '$1', 'fortran_order': ${4:-False}, 'shape': $2, }"
    local length=$((118 - ${#header} - 1))
    printf '\223NUMPY\001\000\166\000%s%*s\n' "$header" "$length" ''
    cat "$3"
}
zeros() { head -c "$1" /dev/zero; }

train() { "$RUN" "$BUNDLE" --steps 5 --quiet "$@"; }
labels=(--data "labels=$DIGITS/train-labels.npy")
images=(--data "images=$DIGITS/train-images.npy")

zeros $((1438 * 64)) >pixels
zeros $((1438 * 8)) >numbers
zeros 0 >none
expect "no data" 6 'images=Nx64xui8, labels=Nxi64' train
expect "one of two" 6 "labels" train "${images[@]}"
expect "unknown name" 6 "no data input 'pictures'; the bundle has .*images" train "${images[@]}" "${labels[@]}" --data pictures=x.npy
expect "missing file" 7 'missing.npy.*No such file' train --data images=missing.npy "${labels[@]}"
expect "directory" 7 'directory' train --data images=/tmp "${labels[@]}"
npy '|u1' '(1438, 64)' pixels | head -c 5000 >short.npy
expect "truncated" 8 'short.npy' train --data images=short.npy "${labels[@]}"
npy '|u1' '(1438, 64)' pixels True >fortran.npy
expect "Fortran order" 8 'Fortran' train --data images=fortran.npy "${labels[@]}"
npy '>i8' '(1438,)' numbers >big.npy
expect "big-endian" 8 'big-endian|>i8' train "${images[@]}" --data labels=big.npy
npy '|O' '(1438,)' numbers >object.npy
expect "object" 8 'object' train "${images[@]}" --data labels=object.npy
expect "wrong dtype" 8 'i64.*ui8|ui8.*i64' train --data "images=$DIGITS/train-labels.npy" "${labels[@]}"
npy '|u1' '(1438, 8, 8)' pixels >cube.npy
expect "wrong shape" 8 '1438x8x8.*64' train --data images=cube.npy "${labels[@]}"
npy '|u1' '(1400, 64)' <(zeros $((1400 * 64))) >fewer.npy
expect "unequal rows" 8 '1400.*1438|1438.*1400' train --data images=fewer.npy "${labels[@]}"
npy '|u1' '(0, 64)' none >empty_images.npy
npy '<i8' '(0,)' none >empty_labels.npy
expect "empty data set" 8 '0 rows|empty|has 0' train --data images=empty_images.npy --data labels=empty_labels.npy
npy '|u1' '(63, 64)' <(zeros $((63 * 64))) >few_images.npy
npy '<i8' '(63,)' <(zeros $((63 * 8))) >few_labels.npy
expect "fewer rows than a batch" 8 '63.*64' train --data images=few_images.npy --data labels=few_labels.npy

# Labels out of range: found by the kernel, at any position, above and below.
for value in '\0012\000\000\000\000\000\000\000:10' '\377\377\377\377\377\377\377\377:-1' \
    '\000\000\000\000\000\000\000\200:-9223372036854775808' '\000\000\000\000\001\000\000\000:4294967296'; do
    { zeros $((700 * 8)); printf '%b' "${value%%:*}"; zeros $((737 * 8)); } >bad
    npy '<i8' '(1438,)' bad >bad.npy
    expect "label ${value##*:}" 8 "step [0-9]+, row 700 of the data: labels\[[0-9]+\] is ${value##*:}; expected 0 to 9" \
        "$RUN" "$BUNDLE" --steps 50 --quiet "${images[@]}" --data labels=bad.npy --state-dir S
    check "nothing was saved" sh -c '! ls S/MANIFEST.* 2>/dev/null'
    rm -rf S
done
expect "label out of range while evaluating" 8 'rows 640 to 703: test_labels.60. is 4294967296' \
    "$RUN" "$BUNDLE" --entry evaluate --quiet --data "test_images=$DIGITS/train-images.npy" --data test_labels=bad.npy

# Steps before an error in other data, or in a log, are saved.
bad_eval=(--data "test_images=$DIGITS/train-images.npy" --data test_labels=bad.npy)
expect "label out of range in an evaluation between" 8 'error: evaluation at step 20: rows 640 to 703: test_labels.60. is 4294967296' \
    "$RUN" "$BUNDLE" --steps 50 --eval-every 20 --quiet "${images[@]}" "${labels[@]}" "${bad_eval[@]}" --state-dir E
cp .err told
check "it is told" grep -q 'warning: the run ends early; the state of step 20 is saved$' told
expect "nothing is lost" 0 'good, step 20,' "$RUN" fsck E
recorded() { (ulimit -f 300 && "$RUN" "$BUNDLE" --steps 1000 --quiet "${images[@]}" "${labels[@]}" --state-dir R --record run.log); }
expect "no room for the record" 7 "cannot write 'run.log' at offset [0-9]+: File too large" recorded
step=$(sed -n 's/.*warning: the run ends early; the state of step \([1-9][0-9]*\) is saved$/\1/p' .err)
expect "nothing is lost" 0 "good, step ${step:-none}," "$RUN" fsck R

# Numbers that are not finite: the tensor is named, and no such number is saved or written.
for lr in 1.0e30:"output 'loss' is nan at step 2" 3.0e38:"tensor 'layer1.bias' has inf at element 0 at step 1"; do
    sed "s/lr = 1.0e-3/lr = ${lr%%:*}/" "$DIGITS/digits.mlir" >wild.mlir
    check "learning rate ${lr%%:*}" "$AOT" build wild.mlir -o wild.tsb --target=cpu:x86-64-v2
    steps=${lr##* }
    wild() { "$RUN" wild.tsb --quiet --steps "$steps" "${images[@]}" "${labels[@]}" "$@"; }
    expect "learning rate ${lr%%:*}" 14 "error: ${lr#*:}; expected" wild
    expect "learning rate ${lr%%:*}, saved" 14 "error: ${lr#*:}; expected" wild --state-dir W --save-every 1
    expect "what is saved" 0 "$((steps - 1)) good, 0 damaged" "$RUN" fsck W
    expect "learning rate ${lr%%:*}, exported" 14 "error: ${lr#*:}; expected" wild --export-params wild.safetensors
    check "nothing is exported" test ! -e wild.safetensors
    rm -rf W
done
sed 's/lr = 1.0e-3/lr = 1.0e30/' "$DIGITS/digits.mlir" >wild.mlir
check "learning rate 1e30" "$AOT" build wild.mlir -o wild.tsb --target=cpu:x86-64-v2
expect "an evaluation that is not finite" 14 "error: evaluation at step 1: rows 0 to 63: output 'loss' is nan in row [0-9]+" \
    "$RUN" wild.tsb --quiet --steps 1 "${images[@]}" "${labels[@]}" "${TEST_DATA[@]}" --metrics wild.jsonl
check "no number that JSON lacks" sh -c '! grep -q nan wild.jsonl'

# Means over a data set need rows that do not depend on each other.
sed 's/tessera.entry = "eval", tessera.rows_independent/tessera.entry = "eval"/' "$DIGITS/digits.mlir" >whole.mlir
check "an evaluation of whole batches" "$AOT" build whole.mlir -o whole.tsb --target=cpu:x86-64-v2
expect "it has no means" 6 "the rows of entry 'evaluate' depend on each other" "$RUN" whole.tsb --entry evaluate --quiet "${TEST_DATA[@]}"
expect "nor while training" 6 "the rows of entry 'evaluate' depend on each other" \
    "$RUN" whole.tsb --quiet --steps 1 "${images[@]}" "${labels[@]}" "${TEST_DATA[@]}"

# Names are the author's choice: the metrics are valid JSON nevertheless.
sed 's/tessera.name = "loss"/tessera.name = "lo\\"ss\\\\"/' "$DIGITS/digits.mlir" >names.mlir
check "a name with quotes" "$AOT" build names.mlir -o names.tsb --target=cpu:x86-64-v2
expect "its metrics" 0 '^state ' "$RUN" names.tsb --quiet --steps 1 "${images[@]}" "${labels[@]}" "${TEST_DATA[@]}" --metrics names.jsonl
check "a step" grep -Eq '^\{"event":"step","step":1,.*"outputs":\{"lo\\"ss\\\\":[0-9.]+\},"rates":\{"[^}]*\}\}$' names.jsonl
check "an evaluation" grep -Eq '^\{"event":"eval","step":1,"rows":359,"outputs":\{"lo\\"ss\\\\":[0-9.]+,"accuracy":[0-9.]+\}\}$' names.jsonl

# A last partial batch in evaluation: 359 rows are 5 batches of 64 and one of 39.
expect "every row counts once" 0 '\(359 rows\)' "$RUN" "$BUNDLE" --entry evaluate --quiet "${TEST_DATA[@]}"
# Flat files as inputs of a call: elements in order, for any number of dims; if rows are independent, any number of rows.
predict() { "$RUN" "$BUNDLE" --entry predict --quiet "$@"; }
check "an array" predict --input "x=$DIGITS/test-images.npy" --output y=array.npy
rows=$(head -c 128 "$DIGITS/test-images.npy" | grep -ao '([0-9]*' | tr -d '(')
tail -c $((rows * 64)) "$DIGITS/test-images.npy" >flat
check "the same, flat" predict --input x=flat --output y=flat.npy
check "gives the same" cmp array.npy flat.npy
head -c 65 flat >odd
expect "no whole rows" 8 "input 'x' is 65xui8; expected 64x64xui8 with any number of rows" predict --input x=odd --output y=y.npy
M=$ROOT/examples/matmul
check "a product" "$AOT" build "$M/matmul.mlir" -o matmul.tsb
for name in a b c; do tail -c +129 "$M/$name.npy" >"$name.bin"; done
product() { "$RUN" matmul.tsb --entry matmul "$@"; }
check "arrays" product --input "a=$M/a.npy" --input "b=$M/b.npy" --input "c=$M/c.npy" --output y=array.npy
check "flat files" product --input a=a.bin --input b=b.bin --input c=c.bin --output y=flat.npy
check "give the same product" cmp array.npy flat.npy
rows=$(wc -c <a.bin)
head -c $((rows - 4)) a.bin >less.bin
expect "an element less" 8 "input 'a' is $((rows / 4 - 1))xf32; expected [0-9]+x[0-9]+xf32" product --input a=less.bin --input b=b.bin --input c=c.bin --output y=y.npy

# A flat file does not describe itself: its interpretation is reported once. --quiet omits the notice.
flat=(--data images=pixels --data labels=numbers)
expect "flat files" 0 '^state ' "$RUN" "$BUNDLE" --steps 2 "${flat[@]}" --state-dir Flat
cp .err told
check "both are told" sh -c "grep -qx \"tessera-run: notice: data 'images': 'pixels' is a flat file of ui8, 1438 rows of 64\" told &&
    grep -qx \"tessera-run: notice: data 'labels': 'numbers' is a flat file of i64, 1438 rows\" told"
check "once" test "$(grep -c 'flat file' told)" -eq 2
check "a bundle for ranks" "$AOT" build "$DIGITS/digits.mlir" --target cpu:x86-64-v2 --virtual-ranks 2 -o ranks.tsb
expect "of several ranks, too" 0 '^state ' "$RUN" ranks.tsb --steps 2 "${flat[@]}" --ranks 2
cp .err told
check "once" test "$(grep -c 'flat file' told)" -eq 2
check "quietly" train "${flat[@]}"
check "nothing is told" test ! -s .err
expect "an input of a call" 0 "notice: input 'x': 'flat' is a flat file of ui8, $(($(wc -c <flat) / 64)) rows of 64" "$RUN" "$BUNDLE" --entry predict --input x=flat --output y=told.npy
check "arrays that say what they are" "$RUN" "$BUNDLE" --steps 2 "${images[@]}" "${labels[@]}"
check "are not told of" sh -c '! grep -q flat .err'

# Files of other programs are not data, whatever their size: detected by name and by content, for data and inputs.
for suffix in csv CSV gz pt pth parquet pkl json zip h5 png onnx; do
    cp pixels "p.$suffix"
    expect ".$suffix" 8 "'p.$suffix' is .*; expected .npy, .npz, .safetensors, or a flat file of elements: " train --data "images=p.$suffix" "${labels[@]}"
    expect "input .$suffix" 8 "'p.$suffix' is .*; expected .npy" predict --input "x=p.$suffix" --output y=y.npy
done
foreign() { # NAME WHAT: 1438 rows of 64 bytes
    truncate -s $((1438 * 64)) "$1"
    expect "$2" 8 "'$1' is $2; expected .npy, .npz, .safetensors, or a flat file of elements: " train --data "images=$1" "${labels[@]}"
}
gzip -c pixels >zipped && foreign zipped "a compressed file"
printf 'PAR1' >columns.dat && foreign columns.dat "a Parquet file"
cp "$DIGITS/train-images.npy" array.raw && foreign array.raw "a NumPy array"
tar -cf tape pixels && foreign tape "an archive"
for protocol in 2 3 4 5; do # with the expected size
    "$PYTHON" - $protocol <<'PYTHON'
import pickle, sys
protocol, wanted = int(sys.argv[1]), 1438 * 64
text = "a" if protocol == 2 else b"\0"
size = wanted
while len(pickle.dumps([0.5, text * size], protocol)) > wanted:
    size -= 1
with open("pickled", "wb") as file:
    file.write(pickle.dumps([0.5, text * size], protocol))
PYTHON
    expect "a pickle, protocol $protocol" 8 "'pickled' is a pickle" train --data images=pickled "${labels[@]}"
done
printf '%0.s0.25,' $(seq 2301) | head -c $((1438 * 8)) >text.bin
expect "text where numbers are expected" 8 "'text.bin' is text; expected" train "${images[@]}" --data labels=text.bin
ln -s "$DIGITS/train-images.npy" link.bin
expect "a link whose name says something else" 8 "'link.bin' is a NumPy array" train --data images=link.bin "${labels[@]}"
mkfifo fifo.bin
expect "a pipe" 7 "'fifo.bin' is not a regular file" train --data images=fifo.bin "${labels[@]}"
expect "a device" 7 "'/dev/full' is not a regular file" train --data images=/dev/full "${labels[@]}"
cp pixels denied.bin && chmod 0 denied.bin
if [[ $can_deny == true ]]; then
    expect "unreadable" 7 "cannot open 'denied.bin': Permission denied" unprivileged "$RUN" "$BUNDLE" --steps 5 --quiet --data images=denied.bin "${labels[@]}"
else
    skip "permissions do not hold here"
fi

# An output has the format of its name, or is refused before anything is computed.
for suffix in csv pt json h5 parquet npy.gz tmp; do
    expect "output .$suffix" 6 "'q.$suffix' has the format '.*', which cannot be written; expected .npy, .npz, .safetensors, .bin" \
        predict --input "x=$DIGITS/test-images.npy" --output "y=q.$suffix"
    check "nothing is there" test ! -e "q.$suffix"
done
expect "numbers as text" 6 "'y' is .*, and 'q.txt' would hold text, whose elements are bytes" predict --input "x=$DIGITS/test-images.npy" --output y=q.txt
for name in q.csv q.npz q.npy q.pt; do
    expect "export to $name" 6 "'$name' has the format '.*', which cannot be written; expected .safetensors" "$RUN" "$BUNDLE" --export-params "$name"
    expect "state to $name" 6 "'$name' has the format" "$RUN" export Flat -o "$name"
    expect "bake to $name" 6 "'$name' has the format" "$AOT" bake "$BUNDLE" --state-dir Flat --export-params "$name"
    check "nothing is there" test ! -e "$name"
done
check "a name that says none" "$RUN" "$BUNDLE" --export-params parameters

finish
