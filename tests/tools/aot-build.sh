#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The output of tessera-aot build: bundles that verify, the same bytes in every folder and way of building, dumps of every stage;
# also inspect and repack.
. "$(dirname "${BASH_SOURCE[0]}")/aot-kit.sh"

mkdir -p here "there/far away"
cp "$examples/digits/digits.mlir" here
cp "$examples/digits/digits.mlir" "there/far away"
run 0 "$aot" build here/digits.mlir -o a.tsb
[[ ! -s out && ! -s err ]] || fail "a quiet build said something"
run 0 "$aot" verify --strict a.tsb
has out '^a.tsb: good; [0-9]+ blobs, [0-9]+ bytes.*sha256:[0-9a-f]{64}$'

same() {
    cmp a.tsb "$1" || fail "$2 changed the bytes"
    checks=$((checks + 1))
    rm -f "$1"
}
(cd "there/far away" && TZ=Pacific/Kiritimati LC_ALL=de_DE.UTF-8 "$aot" build digits.mlir -o b.tsb)
same "there/far away/b.tsb" 'directory, time zone or locale'
(cd / && env -i PATH=/bin "$aot" build "$work/there/far away/digits.mlir" -o "$work/b.tsb")
same b.tsb 'an empty environment'
(umask 077 && LANG=tr_TR.UTF-8 "$aot" build --threads=1 here/digits.mlir -o b.tsb)
same b.tsb 'one thread'
if command -v taskset >/dev/null; then
    taskset 1 "$aot" build here/digits.mlir -o b.tsb
    same b.tsb 'one processor'
fi
"$aot" build --threads=16 --dump=all --dump-dir=dumps --timing here/digits.mlir -o b.tsb 2>err
same b.tsb '--dump or --timing'
"$aot" build --target=cpu:x86-64-v4,cpu:x86-64-v2,cpu:x86-64-v3 here/digits.mlir -o b.tsb
same b.tsb 'the order of the targets'
touch -d 2001-01-01 here/digits.mlir
"$aot" build here/digits.mlir -o b.tsb
same b.tsb "the source's time"

for stage in graph autodiff schedule tile target code llvm asm program bundle all; do
    grep -Eq " ms  $stage( |$)" err || [[ $stage == llvm || $stage == asm ]] ||
        fail "--timing lacks $stage"
done
for name in graph.mlir autodiff.mlir schedule.mlir; do [[ -s dumps/$name ]] || fail "no $name"; done
for level in v2 v3 v4; do
    for name in tile.x86-64-$level.mlir target.x86-64-$level.mlir llvm.x86-64-$level.ll asm.x86-64-$level.s \
        program.x86-64-$level.txt; do
        [[ -s dumps/$name ]] || fail "no $name"
    done
done
has dumps/graph.mlir 'tessera.minimize'
has dumps/autodiff.mlir 'tessera.assign'
has dumps/schedule.mlir 'tsched.call'
has dumps/tile.x86-64-v3.mlir 'tile.func'
has dumps/llvm.x86-64-v3.ll 'define'
has dumps/asm.x86-64-v3.s 'vfmadd'
has dumps/program.x86-64-v3.txt 'launch @k0_'
grep -q vfmadd dumps/asm.x86-64-v2.s && fail 'FMA in code for x86-64-v2'
run 0 "$aot" build --dump=schedule,program --target=cpu:x86-64-v3 here/digits.mlir -o b.tsb
has out '^// ---- schedule: '
has out '^// ---- program cpu:x86-64-v3: '
rm b.tsb

# --until: the same dumps, no code and no file.
run 0 "$aot" build --until program --dump=tile,program --dump-dir=until --timing here/digits.mlir
for file in tile.x86-64-v2.mlir program.x86-64-v4.txt; do
    cmp "dumps/$file" "until/$file" || fail "--until changed $file"
    checks=$((checks + 1))
done
[[ $(ls until) == "$(cd dumps && ls tile.* program.*)" ]] || fail "--until wrote $(ls until)"
grep -Eq ' ms  (code|bundle) ' err && fail '--until program continued'
run 0 "$aot" build --until graph here/digits.mlir
[[ ! -s out && ! -s err ]] || fail 'a quiet check said something'
sed 's/tensor<64x10xf32>/tensor<64x11xf32>/' here/digits.mlir >here/wrong.mlir
run 9 "$aot" build --until graph here/wrong.mlir
has err 'wrong.mlir:[0-9]+:[0-9]+: error'

# The bundle does not contain the path where it was built.
if grep -aq "$work" a.tsb; then fail 'a path of the machine is in the bundle'; fi

run 0 "$aot" inspect a.tsb
has out '^digits  tessera '
has out '^bundle sha256:[0-9a-f]{64}, format 1.1, '"$(stat -c %s a.tsb) bytes$"
has out '^  @train  train, batch 64; memory: '
has out 'param +layer1.weight +64x128xf32 +uniform \[-0.2165, 0.2165\)'
has out 'state +layer3.bias.adam_v +10xf32 +all 0'
for level in v2 v3 v4; do has out "^target cpu:x86-64-$level  "; done
run 0 "$aot" inspect --json a.tsb
"$PYTHON" - out <<'CHECK' || fail 'the JSON of inspect is not what it should be'
import json, sys
view = json.load(open(sys.argv[1]))
assert view["name"] == "digits" and view["virtualRanks"] == 1
assert [e["name"] for e in view["entries"]] == ["evaluate", "predict", "train"]
train = view["entries"][2]
assert train["kind"] == "train" and train["batch"] == 64 and not train["rowsIndependent"]
assert [(p["name"], p["dtype"], p["shape"], p["source"]) for p in train["inputs"] if p["source"] != "hyperparameter"] == [
    ("images", "ui8", [64, 64], "data"), ("labels", "i64", [64], "data"), ("step", "i64", [], "step")]
assert {p["name"] for p in train["inputs"] if p["source"] == "hyperparameter"} == {"lr", "beta1", "beta2", "weight_decay", "eps"}
assert 0 < train["workspaceBytes"] < 200000 and train["workspaceBytes"] % 64 == 0
assert [t["name"] for t in view["targets"]] == ["cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:x86-64-v2"]
params = [t for t in view["tensors"] if t["role"] == "param"]
assert {t["name"]: t["init"] for t in params}["layer1.weight"] == {"kind": "uniform", "low": -0.2165, "high": 0.2165}
assert all(t["init"] == {"kind": "constant", "value": 0} for t in view["tensors"] if t["role"] == "state")
assert len(params) == 6 and sum(t["role"] == "state" for t in view["tensors"]) == 12
for target in view["targets"]:
    kinds = [layer["title"] for layer in target["layers"]]
    assert kinds[:6] == ["graph.mlir", "schedule.json", "deployment.json", "provenance.json", "program.bin", "kernels.so"], kinds
    assert all(layer["digest"].startswith("sha256:") for layer in target["layers"])
    assert target["launches"] == []
CHECK

run 0 "$aot" repack a.tsb -o b.tsb
same b.tsb repack
mkdir unpacked
tar xf a.tsb -C unpacked
run 0 "$aot" repack unpacked -o b.tsb
same b.tsb 'unpacking and repack'
run 0 "$aot" inspect unpacked
has out '^bundle sha256:[0-9a-f]{64}, format 1.1, unpacked$'

# The code objects are plain ELF that imports nothing.
if command -v readelf >/dev/null; then
    elves=0
    for blob in unpacked/blobs/sha256/*; do
        [[ $(head -c 4 "$blob" | tail -c 3) == ELF ]] || continue
        readelf -W --dyn-syms "$blob" | grep -q ' k0_' || fail "$blob exports no kernel"
        readelf -W --dyn-syms "$blob" | awk '$7 == "UND" && $8 != ""' | grep . && fail 'imports'
        elves=$((elves + 1))
    done
    [[ $elves == 3 ]] || fail "$elves code objects, expected 3"
fi

# Stored weights, and a constant that a kernel reads as a whole.
cat >stored.mlir <<'SOURCE'
func.func @f(%x: tensor<2x3xf32> {tessera.name = "x"}) -> (tensor<2x2xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" data = dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %c = tessera.constant dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %m = tessera.matmul %x, %w : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>
  %y = tessera.matmul %m, %c : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
SOURCE
run 0 "$aot" build stored.mlir -o s.tsb
run 0 "$aot" verify --strict s.tsb
run 0 "$aot" inspect s.tsb
has out '^stored.mlir  |^stored  '
has out 'param +w +3x2xf32 +stored'
has out 'constant constant.2x2xf32.[0-9a-f]+ +2x2xf32 +stored'
has out 'weights.safetensors'
finish
