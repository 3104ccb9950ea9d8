#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tessera-aot with invalid programs, unwritable outputs, and a stdout that cannot be written.
. "$(dirname "${BASH_SOURCE[0]}")/aot-kit.sh"

# bad NAME PATTERN: the program on stdin is refused with exit code 9 and a located diagnostic.
bad() {
    cat >"$1.mlir"
    run 9 "$aot" build "$1.mlir" -o bad.tsb
    has err "^$1\.mlir:$2"
    one_error
    [[ ! -e bad.tsb ]] || fail "$1: a bundle was written"
    run 9 "$aot" build --diagnostics=json "$1.mlir" -o bad.tsb
    has err '^\{"number":.*"line":[0-9]+,"column":[0-9]+'
}
bad malformed '3:[0-9]+: error: ' <<'SOURCE'
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.exp : tensor<4xf32>
  return %y : tensor<4xf32>
}
SOURCE
bad unknown '3:[0-9]+: error: ' <<'SOURCE'
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.unheard_of %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
SOURCE
bad shapes '4:[0-9]+: error: \[TSR-0[0-9]+\]' <<'SOURCE'
func.func @f(%x: tensor<4x5xf32> {tessera.name = "x"}, %w: tensor<6x7xf32> {tessera.name = "w"})
    -> (tensor<4x7xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  // 5 is not 6
  %y = tessera.matmul %x, %w : tensor<4x5xf32>, tensor<6x7xf32> -> tensor<4x7xf32>
  return %y : tensor<4x7xf32>
}
SOURCE
bad rows '1:[0-9]+: error: \[TSR-0215\].*4 rows.*5' <<'SOURCE'
func.func @f(%x: tensor<4xf32> {tessera.data = "x"}, %z: tensor<5xf32> {tessera.data = "z"})
    -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "eval"} {
  %a = tessera.sum %z {axes = [0]} : tensor<5xf32> -> tensor<f32>
  %y = tessera.add %x, %a : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}
SOURCE
: >empty.mlir
run 9 "$aot" build empty.mlir -o bad.tsb
one_error
# Nested brackets that would exhaust the stack of a recursive parser.
repeat() { printf "%0$2d" 0 | sed "s/0/$1/g"; }
nested() { # NAME OPEN CLOSE DEPTH
    {
        echo 'func.func @f(%x: tensor<4xf32> {tessera.name = "((((((("}) // {{{{{{{{{'
        printf '    attributes {a = '
        repeat "$2" "$4"
        [[ $3 != '>' ]] || printf i32
        repeat "$3" "$4"
        echo '} { return }'
    } >"$1.mlir"
    run 9 "$aot" build "$1.mlir" -o bad.tsb
    one_error
}
nested regions 'module {' '}' 200000
has err '^regions.mlir:2:[0-9]+: error: \[TSR-0005\] brackets are nested 257 deep; at most 256 are accepted$'
nested lists '[' ']' 256
has err '^lists.mlir:2:276: error: \[TSR-0005\] brackets are nested 257'
nested types 'tuple<' '>' 256
has err '^types.mlir:2:[0-9]+: error: \[TSR-0005\] brackets are nested 257'
nested few '[' ']' 255
has err 'error: \[TSR-0204\]'

head -c 100000 /dev/urandom >noise.mlir
run 9 "$aot" build noise.mlir -o bad.tsb
one_error
run 7 "$aot" build absent.mlir -o bad.tsb
has err 'absent.mlir'
mkdir folder
run 7 "$aot" build folder -o bad.tsb
has err 'folder'
[[ ! -e bad.tsb ]] || fail 'a bundle was written'

cat >good.mlir <<'SOURCE'
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
SOURCE
run 0 "$aot" build good.mlir -o good.tsb

# Unwritable outputs: exit code 7, the path in the message, no files left.
nowhere() {
    local before after
    before=$(find . -path ./out -o -path ./err -o -print | sort)
    run 7 "$aot" build good.mlir -o "$1"
    has err "$2"
    one_error
    after=$(find . -path ./out -o -path ./err -o -print | sort)
    [[ $before == "$after" ]] || fail "$1: something was left behind: $(diff <(echo "$before") <(echo "$after"))"
}
nowhere folder 'folder'
nowhere folder/ 'folder'
nowhere missing/x.tsb 'missing/x.tsb.*No such file'
nowhere good.mlir/x.tsb 'Not a directory'
nowhere /proc/x.tsb '/proc/x.tsb'
nowhere /dev/null '/dev/null'
nowhere "$(printf 'n%.0s' {1..300}).tsb" 'too long'
if [[ $(id -u) != 0 ]]; then
    mkdir locked
    chmod 555 locked
    nowhere locked/x.tsb 'Permission denied'
fi

# An existing bundle is unchanged if the new one cannot be written.
cp good.tsb saved.tsb
cat >other.mlir <<'SOURCE'
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.tanh %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
SOURCE
mkdir full
if mount -t tmpfs -o size=16k tmpfs full 2>/dev/null; then
    trap 'umount "$work/full"; rm -rf "$work"' EXIT
    run 7 "$aot" build good.mlir -o full/x.tsb
    has err 'No space left'
    one_error
    [[ -z $(ls -A full) ]] || fail 'a full disk keeps a part of the bundle'
    run 7 "$aot" build good.mlir -o y.tsb --dump=all --dump-dir=full
    has err 'No space left'
    [[ ! -e y.tsb ]] || fail 'a failed dump did not stop the build'
fi
(ulimit -f 8 && run 7 "$aot" build other.mlir -o saved.tsb && has err 'File too large' && one_error)
cmp good.tsb saved.tsb || fail 'the old bundle was damaged'
[[ -z $(find . -name '*kept*' ! -name saved.tsb) ]] || fail 'a part of the bundle was left'
run 0 "$aot" build other.mlir -o saved.tsb
cmp -s good.tsb saved.tsb && fail 'the old bundle was not replaced'

# A closed or full stdout.
for command in 'inspect good.tsb' 'inspect --json good.tsb' 'verify good.tsb' '--help' '--version' \
    'build good.mlir -o z.tsb --dump=all'; do
    code=0
    # shellcheck disable=SC2086
    "$aot" $command >/dev/full 2>err || code=$?
    [[ $code == 7 ]] || fail "$command with a full stdout: exit code $code, expected 7"
    has err 'standard output: No space left'
    code=0
    # shellcheck disable=SC2086
    "$aot" $command >&- 2>err || code=$?
    [[ $code == 7 ]] || fail "$command with a closed stdout: exit code $code, expected 7"
    has err 'standard output: Bad file descriptor'
done
rm -f z.tsb
code=0
"$aot" build good.mlir -o z.tsb <&- >&- 2>&- || code=$?
[[ $code == 0 ]] || fail "a build that prints nothing, with all streams closed: exit code $code"
run 0 "$aot" verify --strict z.tsb
set +o pipefail
{ sleep 0.2 && "$aot" inspect good.tsb 2>err && echo 0 >code || echo $? >code; } | true
while [[ ! -s code ]]; do sleep 0.1; done
[[ $(cat code) == 7 ]] || fail "a reader that went away: exit code $(cat code), expected 7"
has err 'standard output: Broken pipe'
finish
