#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same source gives the same bytes for every user, folder, time and way of building. Also --verify-rebuild.
. "$(dirname "${BASH_SOURCE[0]}")/aot-kit.sh"

mkdir -m 755 here "far away"
chmod 755 .
cp "$examples/digits/digits.mlir" here
cp "$examples/digits/digits.mlir" "far away"
targets=--target=cpu:x86-64-v2,cpu:x86-64-v3
run 0 "$aot" build $targets here/digits.mlir -o a.tsb
sum=$(sha256sum <a.tsb)
same() { # WHAT, of b.tsb
    [[ $(sha256sum <"${2:-b.tsb}") == "$sum" ]] || fail "$1 changed the bytes: $("$aot" diff a.tsb "${2:-b.tsb}" 2>&1)"
    checks=$((checks + 1))
    rm -f "${2:-b.tsb}"
}
skipped=
needs() { command -v "$1" >/dev/null || { skipped+=" $1" && return 1; }; }

(cd "far away" && "$aot" build $targets ./digits.mlir -o ../b.tsb)
same 'another directory'
LC_ALL=tr_TR.UTF-8 LANG=de_DE.UTF-8 "$aot" build $targets here/digits.mlir -o b.tsb
same 'another locale'
TZ=Pacific/Kiritimati "$aot" build $targets here/digits.mlir -o b.tsb
same 'another time zone'
env -i "$aot" build $targets here/digits.mlir -o b.tsb
same 'an empty environment'
(for i in {1..200}; do export "NOISE_$i=$i"; done && HOME=/x TMPDIR=/y MALLOC_PERTURB_=165 "$aot" build $targets here/digits.mlir -o b.tsb)
same 'a large environment, memory that is filled'
for threads in 1 2 16; do
    "$aot" build $targets --threads=$threads here/digits.mlir -o b.tsb
    same "$threads threads"
done
if needs taskset; then
    taskset 1 "$aot" build $targets here/digits.mlir -o b.tsb
    same 'one processor'
fi
if needs setarch && setarch -R true 2>/dev/null; then
    setarch -R "$aot" build $targets here/digits.mlir -o b.tsb
    same 'no address randomisation'
fi
(umask 000 && "$aot" build $targets here/digits.mlir -o b.tsb)
same 'umask 000'
(umask 077 && ulimit -s 65536 && "$aot" build $targets here/digits.mlir -o b.tsb)
same 'umask 077, a large stack'
touch -d 2001-01-01 here/digits.mlir && chmod 600 here/digits.mlir
"$aot" build $targets here/digits.mlir -o b.tsb
same "the source's time and mode"
chmod 644 here/digits.mlir
if needs faketime; then
    faketime '2038-01-20 03:14:08' "$aot" build $targets here/digits.mlir -o b.tsb
    same 'another clock'
    faketime -f '@1999-12-31 23:59:59 x50' "$aot" build $targets here/digits.mlir -o b.tsb
    same 'a fast clock in another century'
fi
if [[ $(id -u) == 0 ]] && needs setpriv; then
    mkdir -m 777 nobody
    # The user may be unable to reach the built program, but can run the copy.
    cp "$aot" nobody/tessera-aot
    setpriv --reuid=65534 --regid=65534 --clear-groups nobody/tessera-aot build $targets here/digits.mlir -o nobody/b.tsb
    same 'another user' nobody/b.tsb
fi
if needs unshare && unshare -u true 2>/dev/null; then
    unshare -u sh -c 'hostname elsewhere 2>/dev/null; exec "$@"' sh "$aot" build $targets here/digits.mlir -o b.tsb
    same 'another host name'
fi

# SOURCE_DATE_EPOCH is stored in the provenance, and only there.
SOURCE_DATE_EPOCH=1700000000 "$aot" build $targets here/digits.mlir -o dated.tsb
[[ $(sha256sum <dated.tsb) != "$sum" ]] || fail 'SOURCE_DATE_EPOCH was not told'
run 0 "$aot" provenance dated.tsb
has out '"metadata":\{"startedOn":"2023-11-14T22:13:20Z"\}'
SOURCE_DATE_EPOCH=1700000000 TZ=Asia/Kathmandu "$aot" build $targets here/digits.mlir -o b.tsb
cmp b.tsb dated.tsb || fail 'a time zone changed SOURCE_DATE_EPOCH'
for bad in 1e9 -1 x ' 1' 999999999999999; do
    SOURCE_DATE_EPOCH=$bad run 6 "$aot" build $targets here/digits.mlir -o bad.tsb
    has err "SOURCE_DATE_EPOCH is '$bad'; expected seconds since 1970"
done

# --verify-rebuild
run 0 "$aot" build $targets --verify-rebuild here/digits.mlir -o b.tsb
has out "^b.tsb: built twice, the same bytes: sha256:${sum%% *}$"
same '--verify-rebuild'
[[ ! -e b.tsb.rebuild ]] || fail 'the second build was left'
SOURCE_DATE_EPOCH=1700000000 run 0 "$aot" build $targets here/digits.mlir -o=b.tsb --timing --threads 2 --verify-rebuild
cmp b.tsb dated.tsb || fail '--verify-rebuild with a date'
# A source that differs at the second reading is detected: a pipe that ends, a file that changes.
mkfifo pipe.mlir
(cat here/digits.mlir >pipe.mlir && sed 's/0.2165/0.2166/' here/digits.mlir >pipe.mlir) >/dev/null 2>&1 &
run 7 "$aot" build $targets --verify-rebuild pipe.mlir -o c.tsb
exec 9<>pipe.mlir # lets a writer continue that no reader has opened
wait || true
exec 9>&-
[[ -z $skipped ]] || echo "left out:$skipped"
finish
