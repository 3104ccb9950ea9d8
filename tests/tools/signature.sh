#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The signer of a bundle, through the tools. (Every bit of a signature: tests/bundle.)
. "$(dirname "$0")/common.sh"

cp "$BUNDLE" a.tsb
signature=a.tsb.sigstore.json
run() { "$RUN" a.tsb "${DATA[@]}" --steps 1 "$@"; }
both() { # WHAT CODE REGEX FLAGS…: tessera-run and verify agree.
    local what=$1 code=$2 regex=$3
    shift 3
    expect "run: $what" "$code" "$regex" run "$@"
    expect "verify: $what" "$code" "$regex" "$AOT" verify a.tsb "$@"
}

# ---- keys ----
expect "keygen" 0 '^key sha256:[0-9a-f]{64}$' "$AOT" keygen -o old
old=$(sed -n 's/^key sha256://p' .out)
expect "keygen" 0 '' "$AOT" keygen -o new
new=$(sed -n 's/^key sha256://p' .out)
[ "$(stat -c %a old)" = 600 ] || fail "the private key has mode $(stat -c %a old)"
sum=$(cat old old.pub | sha256sum)
expect "a key is never overwritten" 7 "'old': File exists" "$AOT" keygen -o old
rm new.pub && expect "nor is one without its public half" 7 "'new': File exists" "$AOT" keygen -o new
[ "$(cat old old.pub | sha256sum)" = "$sum" ] || fail "keygen changed a key"
openssl pkey -in new -pubout -out new.pub || fail "openssl does not read the key"
expect "keygen without a name" 6 '-o KEY is missing' "$AOT" keygen
expect "keygen into no folder" 7 'No such file' "$AOT" keygen -o no/such/key
[ "$(openssl pkey -pubin -in old.pub -outform DER | sha256sum | cut -d' ' -f1)" = "$old" ] ||
    fail "the name of the key is not the digest of its public half"

# ---- not signed ----
both "not signed" 0 ''
expect "verify says so" 0 '^a.tsb: not signed$' "$AOT" verify a.tsb
both "not signed, a key is given" 0 "warning: 'a.tsb' is not signed" --key old.pub
both "not signed, required" 4 "'a.tsb' is not signed: expected a signature in '$signature'" --key old.pub --require-signature
both "required, no key" 6 '--require-signature needs --key' --require-signature

# ---- signed ----
expect "sign" 0 "^a.tsb: signed by key sha256:$old$" "$AOT" sign a.tsb --key old
cmp -s "$BUNDLE" a.tsb || fail "signing changed the bundle"
both "signed" 0 '' --key old.pub
both "signed, required" 0 '' --key old.pub --require-signature
expect "verify names the signer" 0 "signed by key sha256:$old$" "$AOT" verify a.tsb --key=old.pub
expect "verify without a key" 0 "names key sha256:$old; not checked" "$AOT" verify a.tsb
both "another key" 4 "signed by key sha256:$old; expected the one given" --key new.pub
both "a second key" 0 '' --key new.pub --key old.pub --require-signature
expect "strict and repacked: the signature is of the index" 0 "signed by key sha256:$old$" \
    "$AOT" verify --strict a.tsb --key old.pub
mkdir folder && tar xf a.tsb -C folder && cp $signature folder.sigstore.json
expect "unpacked" 0 "signed by key sha256:$old$" "$AOT" verify folder --key old.pub --require-signature

# ---- a new key ----
cp $signature old.json
expect "sign again" 0 "$new" "$AOT" sign a.tsb --key new
both "the old key alone" 4 "signed by key sha256:$new; expected the one given" --key old.pub
both "both keys" 0 '' --key old.pub --key new.pub --require-signature
both "the new key alone" 0 '' --key new.pub --require-signature

# ---- wrong signatures: refused whether required or not ----
hint() { openssl pkey -pubin -in "$1" -outform DER | openssl dgst -sha256 -binary | openssl base64 -A; }
sed "s,$(hint old.pub),$(hint new.pub)," old.json >$signature
both "under another name" 4 'the signature is wrong' --key new.pub
both "under another name, both keys" 4 'the signature is wrong' --key new.pub --key old.pub
size=$(stat -c %s old.json)
for part in $(seq 1 20); do
    head -c $((size * part / 21)) old.json >$signature
    both "cut at $((size * part / 21))" 4 "$signature" --key old.pub
    expect "cut at $((size * part / 21)), no key" 4 "$signature" run
done
: >$signature
both "empty" 4 "$signature: offset 0" --key old.pub
head -c 2000000 /dev/zero >$signature
both "too large" 4 'at most 1048576 bytes, got 2000000' --key old.pub
rm $signature && mkdir $signature
both "a directory" 7 'is a directory' --key old.pub
rmdir $signature
check "another bundle" "$AOT" build "$ROOT/examples/digits/digits.mlir" -o b.tsb --target=cpu:x86-64-v2
cp old.json b.tsb.sigstore.json
expect "the signature of another bundle" 4 'signs another bundle' "$AOT" verify b.tsb --key old.pub
expect "the signature of another bundle, no key" 4 'signs another bundle' "$AOT" verify b.tsb

# ---- no part of a refused bundle is used ----
cp old.json $signature
expect "refused before the state" 4 'expected the one given' run --key new.pub --state-dir state --metrics metrics.json
[ ! -e state ] || fail "a refused bundle made a state directory"
mv b.tsb.sigstore.json b.json
expect "a target that is not there" 5 'x86-64-v2' "$RUN" b.tsb "${DATA[@]}" --steps 1 --cpu x86-64-v3
mv b.json b.tsb.sigstore.json
expect "the signature is the first question" 4 'signs another bundle' "$RUN" b.tsb "${DATA[@]}" --steps 1 --cpu x86-64-v3

# ---- arguments ----
both "a missing key file" 7 "'none.pub': No such file" --key none.pub
both "a private key" 6 "'old' holds no public key" --key old
both "no key at all" 6 'holds no public key' --key "$ROOT/README.md"
expect "sign without a key" 6 '--key KEY is missing' "$AOT" sign a.tsb
expect "sign with a public key" 6 "'old.pub' holds no private key" "$AOT" sign a.tsb --key old.pub
expect "sign what is no bundle" 7 'No such file' "$AOT" sign none.tsb --key old
cp a.tsb damaged.tsb
printf 'x' | dd of=damaged.tsb bs=1 seek=$(($(stat -c %s a.tsb) - 3000)) conv=notrunc status=none
expect "damage is not signed" 2 'damaged.tsb' "$AOT" sign damaged.tsb --key old
[ ! -e damaged.tsb.sigstore.json ] || fail "damage was signed"
finish
