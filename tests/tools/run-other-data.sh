#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A state continues only with the data it was trained with: other rows, another order and another file are refused unless --new-data is given, and
# every epoch visits each of its samples once.
. "$(dirname "$0")/common.sh"

FROZEN=$ROOT/tests/golden/state-1
check "build" "$AOT" build "$FROZEN/ids.mlir" -o ids.tsb --target=cpu:x86-64-v2
# numbers FILE FIRST LAST STEP: an .npy of f32
numbers() {
    "$PYTHON" - "$@" <<'P'
import struct, sys
path, first, last, step = sys.argv[1], *map(int, sys.argv[2:])
values = list(range(first, last, step))
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
header += " " * (-(len(header) + 11) % 64) + "\n"
with open(path, "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
    file.write(struct.pack("<%df" % len(values), *values))
P
}
numbers x.npy 0 999 1
numbers more.npy 0 1100 1
numbers fewer.npy 0 900 1
numbers reversed.npy 998 -1 -1
train() { "$RUN" ids.tsb --quiet "$@"; }
samples() { grep -h '"event":"step"' "$@" | grep -Eo '"[abc]":[0-9]+' | cut -d: -f2; }
# once WHAT COUNT FILE: the first COUNT samples are distinct
once() {
    checks=$((checks + 1))
    [ "$(head -n "$2" "$3" | sort -n | uniq | wc -l)" = "$2" ] || fail "$1: samples are visited twice"
}

check "half an epoch" train --data x=x.npy --steps 166 --state-dir S --metrics first.jsonl
expect "the token names the data" 0 '"epochBase":0,"epochBaseSample":0,"rows":999,"data":"[0-9a-f]{64}"' "$RUN" ls S --json
expect "export does" 0 'generation 1' "$RUN" export S -o s.safetensors
grep -aq '"rows":"999"' s.safetensors || fail "the exported metadata has no rows"

# Other data: the message has found and expected values, and no file is changed.
refused() { # WHAT REGEX FILE FLAG…
    local what=$1 regex=$2 file=$3
    shift 3
    rm -rf D && cp -a S D
    expect "$what" 12 "$regex" train --data "x=$file" --steps 333 --state-dir D "$@"
# shellcheck disable=SC2010
    diff <(ls S | grep -v -e EPOCH -e BASE -e SPARE -e LOCK -e DATA) <(ls D | grep -v -e EPOCH -e BASE -e SPARE -e LOCK -e DATA) >/dev/null ||
        fail "$what: the state directory was changed"
    expect "$what, then the right data" 0 '^state' train --data x=x.npy --steps 167 --state-dir D
}
digest='[0-9a-f]{16}'
refused "more rows" "the data has 1100 rows with digest $digest; the state was trained with 999 rows with digest $digest" more.npy
refused "fewer rows" "the data has 900 rows with digest $digest; the state was trained with 999 rows" fewer.npy
refused "another order" "the data has 999 rows with digest $digest; the state was trained with 999 rows with digest $digest" reversed.npy
refused "by number" "the data has 1100 rows" more.npy --resume 1
refused "rehashed" "the data has 999 rows" reversed.npy --verify-data

# The same rows from another file format are the same data.
ln -s x.npy link.npy
cp x.npy copy.npy
tail -c $((999 * 4)) x.npy >flat.f32
whole=$(train --data x=x.npy --steps 333 --metrics whole.jsonl | tee .whole | sed -n 's/^state \([0-9a-f]*\) .*/\1/p')
for file in link.npy copy.npy flat.f32; do
    rm -rf D && cp -a S D
    expect "the same rows, $file" 0 "^state $whole step 333" train --data "x=$file" --steps 333 --state-dir D
done
samples first.jsonl >once.txt
rm -rf D && cp -a S D
check "the other half" train --data x=x.npy --steps 333 --state-dir D --metrics second.jsonl
samples second.jsonl >>once.txt
once "one epoch" 999 once.txt

# New data: an epoch with it begins at once, and continues after a restart.
rm -rf D && cp -a S D
expect "new data" 0 'new data: 1100 rows; the state was trained with 999. Epoch 1 begins with the new data at sample 498; 501 samples of the current epoch are skipped' \
    "$RUN" ids.tsb --data x=more.npy --steps 400 --state-dir D --new-data --metrics new1.jsonl
expect "its token" 0 '"epochBase":1,"epochBaseSample":498,"rows":1100' "$RUN" ls D --json
expect "continues without the flag" 0 'resumed generation 2 at step 400' train --data x=more.npy --steps 540 --state-dir D --metrics new2.jsonl
straight=$(state_of .out)
samples new1.jsonl new2.jsonl >new.txt
once "an epoch of new data" 1100 new.txt
expect "and with it" 0 'there is no new data' "$RUN" ids.tsb --data x=more.npy --steps 541 --state-dir D --new-data
expect "the old data is now other data" 12 'the data has 999 rows .* trained with 1100 rows' train --data x=x.npy --steps 600 --state-dir D
rm -rf D && cp -a S D
expect "in one run, the same bits" 0 "^state $straight step 540" train --data x=more.npy --steps 540 --state-dir D --new-data
expect "fewer rows, twice" 0 '^state' train --data x=fewer.npy --steps 900 --state-dir D --new-data --metrics fewer.jsonl
samples fewer.jsonl >fewer.txt
once "an epoch of fewer rows" 900 fewer.txt
expect "its epoch" 0 '"epochBase":3,"epochBaseSample":1620,"rows":900' "$RUN" ls D --json
# At the end of an epoch no sample is left out.
rm -rf D
check "a whole epoch" train --data x=x.npy --steps 333 --state-dir D
expect "new data at its end" 0 'Epoch 1 begins with the new data at sample 999; 0 samples' "$RUN" ids.tsb --data x=more.npy --steps 340 --state-dir D --new-data

# Logs and baked positions.
cp -a S L
expect "recorded" 0 '^state' train --data x=more.npy --steps 170 --state-dir L --new-data --record new.log
check "its header" grep -q '"format":"tessera.record.v5",.*"rows":1100,"epoch_base":1,"epoch_base_sample":498' new.log
cp -a S K
expect "replayed" 0 '^replay matches: 4 steps' train --data x=more.npy --replay new.log --state-dir K
expect "replayed with other data" 12 'the data has 999 rows; the log was recorded with 1100' train --data x=x.npy --replay new.log --state-dir K
check "bake" "$AOT" bake ids.tsb --state-dir L --with-state -o trained.tsb
expect "a baked state, the same data" 0 '^state' "$RUN" trained.tsb --quiet --data x=more.npy --steps 540
[ "$(state_of .out)" = "$straight" ] || fail "a baked state continues with other bits"
expect "a baked state, other data" 12 'the data has 999 rows .* trained with 1100 rows' "$RUN" trained.tsb --quiet --data x=x.npy --steps 540

# States that do not name the data they were trained with.
cp -r "$FROZEN/ids.state" old.state
expect "an old state adopts the data" 0 'the state does not record the data it was trained with; the run assumes that it was this data of 999 rows' \
    "$RUN" "$FROZEN/ids.tsb" --data "x=$FROZEN/ids.npy" --steps 200 --state-dir old.state
expect "once" 0 '"rows":999,"data":"[0-9a-f]{64}"' "$RUN" ls old.state --json
expect "and then refuses others" 12 'trained with 999 rows' "$RUN" "$FROZEN/ids.tsb" --quiet --data x=more.npy --steps 300 --state-dir old.state

# Files that cannot be data, before and after a state exists.
mkfifo fifo.npy
head -c 2000 x.npy >truncated.npy
mkdir folder.npy
cp x.npy secret.npy && chmod 000 secret.npy
bad() { # WHAT CODE FILE
    rm -rf D && cp -a S D
    expect "$1 as data" "$2" "$3" timeout 20 "$RUN" ids.tsb --quiet --data "x=$3" --steps 333 --state-dir D
    expect "$1 as new data" "$2" "$3" timeout 20 "$RUN" ids.tsb --quiet --data "x=$3" --steps 333 --state-dir D --new-data
    expect "$1: the right data continues" 0 '^state' train --data x=x.npy --steps 333 --state-dir D
}
bad "a missing file" 7 missing.npy
bad "a FIFO" 7 fifo.npy
bad "a folder" 7 folder.npy
bad "a truncated file" 8 truncated.npy
bad "a device" 7 /dev/full
[ "$(id -u)" = 0 ] || bad "an unreadable file" 7 secret.npy

# The cache: digests of unchanged files are not recomputed, except with --verify-data.
sleep 2.1 # files that have just changed are not cached
cp -a S C
check "hashed" train --data x=x.npy --steps 170 --state-dir C --verify-data
check "a cache" grep -q '^tessera.fingerprints.1$' C/DATA
sed 's/^[0-9a-f]\{64\} 41/00000000000000000000000000000000000000000000000000000000000000aa 41/' C/DATA | head -n 2 >forged
printf '%s\n' "$(sha256sum <forged | cut -c 1-64)" >>forged
cp forged C/DATA
expect "the cache is used" 12 'the data has 999 rows' train --data x=x.npy --steps 171 --state-dir C
expect "but not with --verify-data" 0 '^state' train --data x=x.npy --steps 171 --state-dir C --verify-data
check "which mends it" grep -vq '00000000000000aa' C/DATA
cached() { # WHAT: the cache is unusable, which affects only the time
    local what=$1
    expect "cache: $what" 0 '^state' timeout 20 "$RUN" ids.tsb --quiet --data x=x.npy --steps "$((++step))" --state-dir C
    expect "cache: $what, other data" 12 'the data has 999 rows' timeout 20 "$RUN" ids.tsb --quiet --data x=reversed.npy --steps 999 --state-dir C
}
step=171
rm -f C/DATA
cached "missing"
head -c 100 forged >C/DATA
cached "truncated"
sed 's/aa/ab/' forged >C/DATA
cached "damaged"
echo nonsense >C/DATA
cached "of another kind"
: >C/DATA
cached "empty"
rm C/DATA && mkfifo C/DATA
cached "a FIFO"
rm -f C/DATA && mkdir C/DATA
cached "a folder"
rmdir C/DATA && ln -s /dev/full C/DATA
cached "a link to a device"
rm -f C/DATA && ln -s nowhere C/DATA
cached "a dangling link"

# Several ranks.
check "build for ranks" "$AOT" build "$DIGITS/digits.mlir" -o ranks.tsb --virtual-ranks 4 --target=cpu:x86-64-v2
ranks() { "$RUN" ranks.tsb --quiet "$@"; }
tail -c +129 "$DIGITS/train-images.npy" | head -c $((1400 * 64)) >images.u8
tail -c +129 "$DIGITS/train-labels.npy" | head -c $((1400 * 8)) >labels.i64
FEWER=(--data images=images.u8 --data labels=labels.i64)
check "two ranks" ranks "${DATA[@]}" --ranks 2 --steps 30 --state-dir R
expect "other data, three ranks" 12 'the data has 1400 rows with digest .*; the state was trained with 1438 rows with digest' ranks "${FEWER[@]}" --ranks 3 --steps 40 --state-dir R
cp -a R R1
expect "new data, three ranks" 0 '^state' ranks "${FEWER[@]}" --ranks 3 --steps 60 --state-dir R --new-data
three=$(state_of .out)
expect "new data, one rank: the same bits" 0 "^state $three step 60" ranks "${FEWER[@]}" --steps 60 --state-dir R1 --new-data
finish
