#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The openssl program as the other side: it verifies signatures made here, over the bytes that
# FORMAT.md specifies, and signatures made by it are accepted here.
# usage: signature.sh SAMPLE_TOOL
set -eu
tool=$(realpath "$1")
command -v openssl >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
checks=0

fail() {
    echo "FAILED: $1" >&2
    cat out err >&2
    exit 1
}
expect() { # code text command…
    want=$1 text=$2
    shift 2
    got=0
    "$@" >out 2>err || got=$?
    [ "$got" -eq "$want" ] || fail "exit code $got, expected $want: $*"
    [ -z "$text" ] || cat out err | grep -qF -- "$text" || fail "no '$text': $*"
    checks=$((checks + 1))
}
field() { sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/" a.tsb.sigstore.json; }
authentication() { # file of a statement
    printf 'DSSEv1 28 application/vnd.in-toto+json %d ' "$(wc -c <"$1")"
    cat "$1"
}
identity() { openssl pkey -pubin -in "$1" -outform DER | openssl dgst -sha256 -binary | openssl base64 -A; }

"$tool" tiny a.tsb
digest=$("$tool" open a.tsb)

# Written here, verified there.
"$tool" keygen ours.pem ours.pub
"$tool" sign a.tsb ours.pem
expect 0 'NIST CURVE: P-256' openssl pkey -in ours.pem -noout -text
expect 0 'NIST CURVE: P-256' openssl pkey -pubin -in ours.pub -noout -text
openssl pkey -in ours.pem -pubout | cmp - ours.pub
grep -q '^-----BEGIN PRIVATE KEY-----$' ours.pem
field payload | openssl base64 -A -d >statement
field sig | openssl base64 -A -d >signature
authentication statement >signed
expect 0 'Verified OK' openssl dgst -sha256 -verify ours.pub -signature signature signed
[ "$(field hint)" = "$(identity ours.pub)" ] || fail 'the key is not named by its digest'
grep -qF "\"subject\":[{\"name\":\"index\",\"digest\":{\"sha256\":\"$digest\"}}]" statement
printf ' ' >>signed
expect 1 'Verification failure' openssl dgst -sha256 -verify ours.pub -signature signature signed

# Written there, verified here.
foreign() { # private-key public-key statement
    authentication "$3" | openssl dgst -sha256 -sign "$1" >signature
    printf '{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json",\n  "verificationMaterial":{"publicKey":{"hint":"%s"},"tlogEntries":[]},\n  "dsseEnvelope":{"signatures":[{"keyid":"","sig":"%s"}],"payloadType":"application/vnd.in-toto+json","payload":"%s"}}\n' \
        "$(identity "$2")" "$(openssl base64 -A -in signature)" "$(openssl base64 -A -in "$3")" \
        >a.tsb.sigstore.json
}
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out theirs.pem 2>err
openssl pkey -in theirs.pem -pubout -out theirs.pub
foreign theirs.pem theirs.pub statement
expect 0 good "$tool" check a.tsb theirs.pub
expect 0 good "$tool" check a.tsb ours.pub theirs.pub
expect 4 'expected the one given' "$tool" check a.tsb ours.pub
sed "s/$digest/$(printf %064d 0)/" statement >another
foreign theirs.pem theirs.pub another
expect 4 'signs another bundle' "$tool" check a.tsb theirs.pub
sed "s/\"subject\":\[/&{\"name\":\"x\",\"digest\":{\"sha256\":\"$(printf %064d 0)\"}},/" statement >several
foreign theirs.pem theirs.pub several
expect 0 good "$tool" check a.tsb theirs.pub
sed 's,tessera.dev/bundle-signature/v1,slsa.dev/provenance/v1,' statement >predicate
foreign theirs.pem theirs.pub predicate
expect 4 "member 'predicateType'" "$tool" check a.tsb theirs.pub
sed 's,in-toto.io/Statement/v1,in-toto.io/Statement/v2,' statement >version
foreign theirs.pem theirs.pub version
expect 4 "member '_type'" "$tool" check a.tsb theirs.pub
sed 's/"subject":.*"predicateType"/"subject":[],"predicateType"/' statement >nobody
foreign theirs.pem theirs.pub nobody
expect 4 'no subject' "$tool" check a.tsb theirs.pub
printf 'no JSON' >text
foreign theirs.pem theirs.pub text
expect 4 'payload: offset 0' "$tool" check a.tsb theirs.pub
foreign ours.pem theirs.pub statement
expect 4 'the signature is wrong' "$tool" check a.tsb theirs.pub

# A key in the older format of OpenSSL is accepted. Other curves, other kinds and passphrases are
# refused.
openssl ec -in theirs.pem -out older.pem 2>err
expect 0 '' "$tool" sign a.tsb older.pem
expect 0 good "$tool" check a.tsb theirs.pub
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out p384.pem 2>err
openssl genpkey -algorithm ED25519 -out ed25519.pem 2>err
openssl pkcs8 -topk8 -in theirs.pem -passout pass:secret -out locked.pem
openssl pkey -in p384.pem -pubout -out p384.pub
expect 6 "curve 'secp384r1'; expected P-256" "$tool" sign a.tsb p384.pem
expect 6 "curve 'secp384r1'; expected P-256" "$tool" check a.tsb p384.pub
expect 6 'type ED25519; expected ECDSA' "$tool" sign a.tsb ed25519.pem
expect 6 'without a passphrase' "$tool" sign a.tsb locked.pem </dev/null
expect 0 good "$tool" check a.tsb theirs.pub

# OpenSSL settings in the environment have no effect.
printf 'openssl_conf = x\n[x]\nproviders = y\n[y]\nnull = z\n[z]\nactivate = 1\n' >null.cnf
expect 0 good env OPENSSL_CONF="$work/null.cnf" "$tool" check a.tsb theirs.pub
echo "$checks checks"
