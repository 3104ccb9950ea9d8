#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command line of tessera-aot: help, versions, refused arguments, lists.
. "$(dirname "${BASH_SOURCE[0]}")/aot-kit.sh"

run 0 "$aot" --version
has out '^tessera-aot [0-9]+\.[0-9]+\.[0-9]+$'
run 0 "$aot" --help
for command in build import inspect verify repack bake keygen sign; do
    has out "^  $command "
    run 0 "$aot" $command --help
    has out "^usage: tessera-aot $command"
    has out '^  --help'
    run 0 "$aot" --help
done
run 0 "$aot" build --help
for stage in graph autodiff schedule tile target llvm asm program; do has out "^  $stage "; done

run 6 "$aot"
one_error
has err 'build tune check import export inspect verify repack'
run 6 "$aot" bulid
one_error
has err "'bulid'.*known are build tune check import export inspect verify repack"

source=$examples/digits/digits.mlir
run 6 "$aot" build
has err 'SRC is missing'
run 6 "$aot" build "$source"
has err '-o OUT is missing'
for until in 'tiles;unknown; known are graph .* bundle' 'tile -o x.tsb;writes no bundle, which -o needs' \
    'tile --params w.npz;writes no bundle, which --params needs' \
    'tile --verify-rebuild;writes no bundle, which --verify-rebuild needs' \
    'tile --dump tile,asm;--dump .asm. comes after --until .tile.' \
    'graph --from schedule;--until .graph. ends before --from .schedule.'; do
    # shellcheck disable=SC2086 # several arguments
    run 6 "$aot" build "$source" --until ${until%%;*}
    one_error
    has err "${until#*;}"
done
run 6 "$aot" build "$source" --until bundle
has err '-o OUT is missing'
run 6 "$aot" build "$source" -o
has err '-o needs a value'
run 6 "$aot" build "$source" "$source" -o x.tsb
has err 'unexpected argument'
run 6 "$aot" build "$source" -o x.tsb -o y.tsb
has err '-o is given twice'
run 6 "$aot" build "$source" -o x.tsb --traget=cpu:x86-64-v3
has err "unknown flag '--traget.*--target"
run 6 "$aot" build "$source" -o x.tsb --target=cpu:pentium
has err 'cpu:pentium.*cpu:x86-64-v2.*cpu:x86-64-v3.*cpu:x86-64-v4'
one_error
run 6 "$aot" build "$source" -o x.tsb --target=cpu:x86-64-v3,cpu:x86-64-v3
has err 'given twice'
run 6 "$aot" build "$source" -o x.tsb --target=cpu:x86-64-v3,
has err 'empty name'
run 6 "$aot" build "$source" -o x.tsb --target=
has err '--target is empty; expected LIST'
run 6 "$aot" build "$source" -o ''
has err '-o is empty; expected OUT'
run 6 "$aot" build "$source" -o x.tsb --dump=tiles
has err "'tiles'.*all graph autodiff schedule plan tile target program llvm asm"
run 6 "$aot" build "$source" -o x.tsb --dump-dir=d
has err 'without --dump'
run 6 "$aot" build "$source" -o x.tsb --threads=0
has err '--threads'
run 6 "$aot" build "$source" -o x.tsb --threads=99999999999999999999
has err '--threads'
run 6 "$aot" build "$source" -o x.tsb --timing=yes
has err 'takes no value'
run 6 "$aot" build "$source" -o x.tsb --target=cpu:x86-64-v2 --ptxas=/nowhere/ptxas
has err "'/nowhere/ptxas' assembles code for NVIDIA GPUs; expected a target cuda:…, got 'cpu:x86-64-v2'"
run 6 "$aot" build "$source" -o x.tsb --diagnostics=xml
has err 'text or json'
run 6 "$aot" inspect
has err 'FILE is missing'
run 6 "$aot" inspect --yaml x.tsb
has err "unknown flag '--yaml'.*--json"
run 6 "$aot" verify a b
run 6 "$aot" repack a
has err '-o OUT is missing'
run 6 "$aot" check x.tsb
has err "check: 'x.tsb' is a bundle; expected a program or a model .tessera-aot verify checks bundles.$"
run 6 "$aot" build y.tsb -o x.tsb
has err "build: 'y.tsb' is a bundle"
run 6 "$aot" build model.stablehlo.mlir -o x.tsb --dim N=4
has err "build: --dim does not apply to modules of StableHLO, as 'model.stablehlo.mlir'$"
run 6 "$aot" build model.py -o x.tsb --link net=a.onnx
has err "build: --link does not apply to programs in Python syntax"
[[ ! -e x.tsb ]] || fail "a refused command line left a file"

for command in inspect verify; do
    run 7 "$aot" $command absent.tsb
    has err "absent.tsb.*No such file"
    one_error
done
mkdir empty
: >nothing.tsb
head -c 2000 /dev/zero >zeros.tsb
for command in inspect verify; do
    for file in empty nothing.tsb zeros.tsb "$source"; do
        code=0
        "$aot" $command "$file" >out 2>err || code=$?
        [[ $code == 2 || $code == 7 ]] || fail "$command $file: exit code $code, expected 2 or 7"
        one_error
    done
done
finish
