#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Standard input and output as the data of calls and evaluations: the same bytes as with files; what cannot be read once or written is refused.
. "$(dirname "$0")/common.sh"

check "a state" "$RUN" "$BUNDLE" "${DATA[@]}" --quiet --steps 20 --state-dir S
X=$DIGITS/test-images.npy
predict() { "$RUN" "$BUNDLE" --quiet --entry predict --state-dir S "$@"; }
evaluate() { "$RUN" "$BUNDLE" --quiet --entry evaluate --state-dir S "$@"; }

check "with files" predict --input "x=$X" --output y=file.npy
predict --input x=- --output y=stdin.npy <"$X" || fail "a file as standard input"
cmp file.npy stdin.npy || fail "standard input gives another result"
# shellcheck disable=SC2002 # a pipe, which cannot be sought
cat "$X" | predict --input x=- --output y=- | cat >pipe.npy || fail "pipes"
cmp file.npy pipe.npy || fail "pipes give another result"
predict --input "x=$X" --output y=- >redirected.npy || fail "standard output to a file"
cmp file.npy redirected.npy || fail "standard output to a file gives another result"
"$PYTHON" - pipe.npy <<'PY' || fail "NumPy does not read the output"
import sys, numpy
y = numpy.load(sys.argv[1])
assert y.shape[0] == 359, y.shape
PY
(head -c 50000 "$X"; sleep 0.2; tail -c +50001 "$X") | predict --input x=- --output y=slow.npy || fail "a slow writer"
cmp file.npy slow.npy || fail "a slow writer gives another result"
# Pipes that do not block, with a slow writer and a slow reader, and more output than a pipe holds.
"$PYTHON" - "$RUN" "$BUNDLE" "$X" <<'PY' || fail "pipes that do not block"
import fcntl, os, subprocess, sys, threading, time, numpy
run, bundle, path = sys.argv[1:]
call = [run, bundle, "--quiet", "--entry", "predict", "--state-dir", "S"]
numpy.save("many.npy", numpy.tile(numpy.load(path), (8, 1)))
subprocess.run([*call, "--input", "x=many.npy", "--output", "y=many-y.npy"], check=True)
reader, writer = os.pipe(), os.pipe()
for end in (reader[0], writer[1]):
    os.set_blocking(end, False)
fcntl.fcntl(writer[1], fcntl.F_SETPIPE_SZ, 4096)
process = subprocess.Popen([*call, "--input", "x=-", "--output", "y=-"], stdin=reader[0], stdout=writer[1])
os.close(reader[0]), os.close(writer[1])
def send():
    with open("many.npy", "rb") as source, os.fdopen(reader[1], "wb", buffering=0) as to:
        for part in iter(lambda: source.read(40000), b""):
            time.sleep(0.05)
            to.write(part)
sender = threading.Thread(target=send)
sender.start()
got = b""
while part := os.read(writer[0], 1 << 16):
    got += part
    time.sleep(0.01)
sender.join()
assert process.wait() == 0, process.returncode
want = open("many-y.npy", "rb").read()
assert len(want) > 2 * 4096 and got == want, (len(got), len(want))
PY
check "evaluation with files" evaluate "${TEST_DATA[@]}"
cp .out expected.txt
evaluate --data test_images=- --data "test_labels=$DIGITS/test-labels.npy" <"$X" >.out 2>.err || fail "evaluation of standard input"
cmp expected.txt .out || fail "evaluation of standard input gives another result"
check "a log" predict --input "x=$X" --output y=y.npy --record call.log
predict --input x=- --output y=- --replay call.log <"$X" >replayed.npy 2>.err || fail "a replay"
cmp file.npy replayed.npy || fail "a replay writes other bytes"
grep -q '^replay matches' .err || fail "the result of the replay is not on standard error"
check "a file named -" predict --input "x=$X" --output y=./-
cmp file.npy ./- || fail "./- is not a file of that name"

# ---- what is refused ----

from() { "${@:2}" <"$1"; }
expect "empty" 8 'standard input is empty; expected an NPY array' predict --input x=- --output y=n.npy
expect "no NPY" 8 "'standard input' does not begin with the NPY magic" from "$ROOT/README.md" predict --input x=- --output y=n.npy
head -c 1000 "$X" >short.npy
expect "truncated" 8 "'standard input' has [0-9]* bytes of elements; 359x64xui8 needs 22976" from short.npy predict --input x=- --output y=n.npy
# Long input: it is refused as soon as its bytes tell that it is no array, or longer than its array; the rest is not read.
endless() {
    { [ -z "$1" ] || cat "$1"; head -c 1000000000 /dev/zero; echo $? >rest; } 2>sender | "${@:2}"
    local code=$?
    [ "$(cat rest)" != 0 ] || { echo "all of the input was read" >&2; return 99; }
    return "$code"
}
expect "many zeros" 8 "'standard input' does not begin with the NPY magic" endless "" predict --input x=- --output y=n.npy
expect "an array, then many zeros" 8 "standard input does not end after the $(stat -c %s "$X") bytes of its array" endless "$X" predict --input x=- --output y=n.npy
printf '\223NUMPY\1\0\166\0{' >header.npy
expect "a header of zeros" 8 "'standard input': malformed NPY header" endless header.npy predict --input x=- --output y=n.npy
cat "$X" <(printf x) >long.npy
expect "one byte more" 8 "standard input does not end after the $(stat -c %s "$X") bytes of its array" from long.npy predict --input x=- --output y=n.npy
head -c 11 "$X" >prefix.npy
expect "the first bytes of a header" 8 "'standard input' has 11 bytes; its NPY header ends at byte 128" from prefix.npy predict --input x=- --output y=n.npy
expect "another type" 8 "input 'x' is" from "$DIGITS/test-labels.npy" predict --input x=- --output y=n.npy
expect "two inputs" 6 "'test_images' and 'test_labels' are both standard input, which can be read once" from "$X" evaluate --data test_images=- --data test_labels=-
expect "training" 6 "data 'images' is standard input, which can be read once and in its order; training reads samples in any order" \
    from "$DIGITS/train-images.npy" "$RUN" "$BUNDLE" --data images=- --data "labels=$DIGITS/train-labels.npy" --steps 5
expect "data of an evaluation while training" 6 "data 'test_images' is standard input" \
    from "$X" "$RUN" "$BUNDLE" "${DATA[@]}" --data test_images=- --data "test_labels=$DIGITS/test-labels.npy" --steps 5
expect "a directory" 7 'cannot read standard input: Is a directory' from . predict --input x=- --output y=n.npy
[ ! -e n.npy ] || fail "a refused call has written its output"
full() { "$@" >/dev/full; }
expect "a full disk" 7 'cannot write to standard output: No space left on device' full predict --input "x=$X" --output y=-
"$PYTHON" -c 'import numpy; numpy.save("none.npy", numpy.zeros((0, 64), "u1"))'
predict --input x=none.npy --output y=- >stream || fail "no rows"
check "no rows, to a file" predict --input x=none.npy --output y=y.npy
cmp y.npy stream || fail "an array without elements has another header on standard output"
cat >two.mlir <<'END'
module {
  func.func @two(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}, tensor<4xf32> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
    %y = tessera.add %x, %x : tensor<4xf32>
    %z = tessera.mul %x, %x : tensor<4xf32>
    return %y, %z : tensor<4xf32>, tensor<4xf32>
  }
}
END
check "two outputs" "$AOT" build two.mlir -o two.tsb --target cpu:x86-64-v2
"$PYTHON" -c 'import numpy; numpy.save("four.npy", numpy.arange(4, dtype="f4"))'
two() { "$RUN" two.tsb --quiet --entry two --input x=four.npy --output y=- "$@" >stream; }
expect "another output that cannot be opened" 6 "the format ..csv., which cannot be written" two --output z=z.csv
[ ! -s stream ] || fail "a call that failed before its first element has written $(stat -c %s stream) bytes"
check "both outputs" two --output z=z.npy
"$PYTHON" -c 'import numpy; assert numpy.load("stream").tolist() == [0, 2, 4, 6] and numpy.load("z.npy").tolist() == [0, 1, 4, 9]' || fail "both outputs"
closed() { "$@" >&-; }
expect "a closed output" 7 'cannot write to standard output: Bad file descriptor' closed predict --input "x=$X" --output y=-
into() { "${@:2}" >>"$1"; }
cp "$X" own.npy
expect "the input as output" 6 "standard output and --input 'own.npy' are one file" into own.npy predict --input x=own.npy --output y=-
cmp "$X" own.npy || fail "the input was changed"
if command -v script >/dev/null; then
    expect "a terminal" 0 "output 'y' would be written to a terminal" script -qc "'$RUN' '$BUNDLE' --quiet --entry predict --state-dir S --input 'x=$X' --output y=-" /dev/null
fi
(predict --input "x=$X" --output y=- 2>.err; echo $? >code) | true
[ "$(cat code)" = 7 ] || [ "$(cat code)" = 0 ] || fail "a reader that is gone: exit code $(cat code)"
finish
