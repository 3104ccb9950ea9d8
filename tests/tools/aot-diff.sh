#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The output of tessera-aot diff for two bundles; its JSON validated against the schema.
schema=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../../schemas/diff.schema.json
. "$(dirname "${BASH_SOURCE[0]}")/aot-kit.sh"

model() { # NAME WEIGHTS TARGETS OP
    mkdir -p "$1"
    cat >"$1/model.mlir" <<SOURCE
func.func @f(%x: tensor<2x3xf32> {tessera.name = "x"}) -> (tensor<2x2xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" data = dense<$2> : tensor<3x2xf32>
  %m = tessera.matmul %x, %w : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>
  %y = tessera.$4 %m : tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
SOURCE
    run 0 "$aot" build "$1/model.mlir" -o "$1.tsb" "--target=$3"
}
both=cpu:x86-64-v2,cpu:x86-64-v3
model a '[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]' $both exp
model same '[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]' $both exp
model weights '[[1.0, 2.0], [3.0000002, 4.0], [5.0, -6.0]]' $both exp
model kernel '[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]' $both tanh
model fewer '[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]' cpu:x86-64-v2 exp

run 0 "$aot" diff a.tsb same.tsb
has out '^identical: sha256:[0-9a-f]{64}$'
mkdir unpacked && tar xf same.tsb -C unpacked
run 0 "$aot" diff a.tsb unpacked
run 0 "$aot" diff --json a.tsb same.tsb
has out '"identical":true,"differences":\[\]'
# A slice has the digest of the whole bundle.
"$PYTHON" - unpacked <<'SLICE'
import json, pathlib, sys
blobs = pathlib.Path(sys.argv[1], "blobs/sha256")
read = lambda digest: json.loads((blobs / digest.removeprefix("sha256:")).read_text())
index = json.loads(pathlib.Path(sys.argv[1], "index.json").read_text())
for entry in read(index["manifests"][0]["digest"])["manifests"]:
    if entry["annotations"]["dev.tessera.target"] == "cpu:x86-64-v3":
        (blobs / entry["digest"].removeprefix("sha256:")).unlink()
SLICE
run 21 "$aot" diff a.tsb unpacked
has out '^target .*cpu:x86-64-v3 removed'
run 21 "$aot" diff unpacked a.tsb
has out '^target .*cpu:x86-64-v3 added'
run 0 "$aot" diff unpacked unpacked

run 21 "$aot" diff a.tsb weights.tsb
has err "'a.tsb' and 'weights.tsb' differ: [0-9]+ differences"
one_error
# 3.0000002 is the next float after 3; 6 and -6 are 2 * 0x40c00000 apart in the order of floats.
has out '^tensor +w changed: 2 of 6 elements differ, the first at 2: 3 became 3.00000024; the largest difference is 12, 2172649472 ulp$'
has out '^layer +weights.safetensors changed: '
has out "^text +graph.mlir changed: the texts first differ at line [0-9]+, byte [0-9]+: '.*' became '.*'$"
grep -q '^kernel\|^program' out && fail 'other weights changed a kernel'

run 21 "$aot" diff a.tsb kernel.tsb
has out '^kernel +cpu:x86-64-v2 k0_.* (changed|removed)'
has out '^kernel +cpu:x86-64-v3 k0_'
has out '^program +cpu:x86-64-v3 listing changed: from line [0-9]+ on'
grep -q '^tensor' out && fail 'another kernel changed a tensor'

run 21 "$aot" diff a.tsb fewer.tsb
has out '^target +cpu:x86-64-v3 .* removed'
run 21 "$aot" diff fewer.tsb a.tsb
has out '^target +cpu:x86-64-v3 .* added'

run 6 "$aot" diff a.tsb
has err 'B is missing'
run 7 "$aot" diff a.tsb absent.tsb
head -c 5000 a.tsb >cut.tsb
run 2 "$aot" diff a.tsb cut.tsb
size=$(stat -c %s a.tsb)
cp weights.tsb damaged.tsb # in the last blob; it is followed by 488 bytes of padding and the end marker
printf 'x' | dd of=damaged.tsb bs=1 seek=$((size - 1024 - 488 - 2)) conv=notrunc status=none
run 2 "$aot" diff a.tsb damaged.tsb
has err 'damaged.tsb: digest of'

for other in weights kernel fewer same; do "$aot" diff --json a.tsb $other.tsb >$other.json 2>err || true; done
if "$PYTHON" -c 'import jsonschema' 2>/dev/null; then
    "$PYTHON" - "$schema" ./*.json <<'CHECK' || fail 'the JSON of diff does not fit its schema'
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
checker = jsonschema.Draft202012Validator(schema)
for path in sys.argv[2:]:
    document = json.load(open(path))
    checker.validate(document)
    assert document["identical"] == (path == "./same.json")
    for key in list(document):
        assert not checker.is_valid({k: v for k, v in document.items() if k != key}), key
    assert not checker.is_valid(dict(document, news=1))
weights = {d["section"]: d for d in json.load(open("weights.json"))["differences"]}
assert weights["tensor"]["elements"] == {"count": 6, "differing": 2, "first": 2, "firstA": 3.0,
    "firstB": 3.000000238418579, "maxAbs": 12.0, "maxUlp": 2172649472, "hasNan": False}
CHECK
    checks=$((checks + 1))
else
    echo 'left out: jsonschema'
fi
finish
