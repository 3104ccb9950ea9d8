#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Signatures as referrers: by tag in docker-registry, by the API of OCI 1.1 in registry.py.
. "$(dirname "$0")/common.sh"
need docker-registry skopeo

check "make" "$MAKE" make a.tsb 1 1 0 1
check "another" "$MAKE" make b.tsb 1 1 0 2
for key in old new; do "$SAMPLE" keygen $key.pem $key.pub; done
check "sign" "$SAMPLE" sign a.tsb old.pem
index=$("$SAMPLE" open a.tsb)

serve docker
DOCKER=127.0.0.1:$PORT
python_server api registry.py
API=127.0.0.1:$PORT
python_server tags registry.py no-referrers
for registry in "$DOCKER" "$API" "127.0.0.1:$PORT"; do
    R=$registry/models/a
    rm -f ./*.tsb.sigstore.json
    "$SAMPLE" sign a.tsb old.pem
    cp a.tsb.sigstore.json old.json
    expect "push" 0 'with its signature' "$AOT" push a.tsb "$R:v1"
    rm -f out.tsb*
    expect "pull" 0 'with its signature' "$AOT" pull "$R:v1" -o out.tsb
    check "the same signature" cmp old.json out.tsb.sigstore.json
    expect "which is good" 0 good "$SAMPLE" check out.tsb old.pub
    expect "push again" 0 'with its signature' "$AOT" push a.tsb "$R:v1"

    rm -f key.tsb*
    expect "by the right key" 0 'with its signature' "$AOT" pull "$R:v1" -o key.tsb --key old.pub --require-signature
    rm -f key.tsb*
    expect "by another key" 4 'expected the one given' "$AOT" pull "$R:v1" -o key.tsb --key new.pub
    check "leaves nothing" test -z "$(compgen -G 'key.tsb*')"
    expect "not wanted" 0 '^pulled' "$AOT" pull "$R:v1" -o key.tsb --no-signature
    check "then there is none" test ! -e key.tsb.sigstore.json
    expect "wanted later" 0 'nothing had changed' "$AOT" pull "$R:v1" -o key.tsb --key old.pub
    check "then there is one" cmp old.json key.tsb.sigstore.json
    expect "of a slice" 0 'with its signature' "$AOT" pull "$R:v1" -o slice.tsb --target cpu:x86-64-v3 --key old.pub --require-signature
    expect "it is good" 0 good "$SAMPLE" check slice.tsb old.pub

    # A second signature, by a new key.
    "$SAMPLE" sign a.tsb new.pem
    expect "a second signature" 0 'with its signature' "$AOT" push a.tsb "$R:v1"
    for key in old new; do
        rm -f key.tsb*
        expect "by the $key key" 0 'has 2 signatures of the bundle' "$AOT" pull "$R:v1" -o key.tsb --key $key.pub --require-signature
        expect "it is good" 0 good "$SAMPLE" check key.tsb $key.pub
    done
    expect "pushed twice" 0 'with its signature' "$AOT" push a.tsb "$R:v1"
    expect "pushed twice, listed once" 0 'has 2 signatures' "$AOT" pull "$R:v1" -o key.tsb

    # Another bundle replaces it: the old signature stays with the old bundle.
    expect "not signed" 0 '^pushed' "$AOT" push b.tsb "$R:v2"
    cp a.tsb key.tsb
    echo stale >key.tsb.minisig
    expect "a bundle without" 0 '^pulled' "$AOT" pull "$R:v2" -o key.tsb
    check "takes the signature away" test ! -e key.tsb.sigstore.json -a ! -e key.tsb.minisig
    expect "a key is given" 0 'warning: .*has no signature in the registry' "$AOT" pull "$R:v2" -o key2.tsb --key old.pub
    rm -f key2.tsb
    expect "required" 4 'has no signature in the registry: expected one by a given key' "$AOT" pull "$R:v2" -o key2.tsb --key old.pub --require-signature
    check "leaves nothing" test ! -e key2.tsb -a ! -e key2.tsb.part
    rm -f key.tsb
done

# The signatures as other tools see them.
check "the tag of the signatures" skopeo inspect --tls-verify=false --raw "docker://$DOCKER/models/a:sha256-$index"
check "is an index of two" test "$("$PYTHON" -c 'import json, sys; m = json.load(open(".out"))["manifests"]; print(len(m), {one["artifactType"] for one in m})')" = \
    "2 {'application/vnd.dev.sigstore.bundle.v0.3+json'}"
raw() { skopeo inspect --tls-verify=false --raw "docker://$DOCKER/models/a$1"; }
raw ":sha256-$index" >list.json
raw "@$(sed 's/.*"digest":"\([^"]*\)".*/\1/' list.json)" >manifest.json
"$PYTHON" "$HERE/summary.py" "$HERE/../../schemas/oci-referrers.schema.json" list.json manifest.json
case $? in
0) checks=$((checks + 1)) ;;
77) ;;
*) fail "the schema of what stands in the registry" ;;
esac
cp old.json b.tsb.sigstore.json
expect "a signature of another bundle is not pushed" 4 'signs another bundle' "$AOT" push b.tsb "$DOCKER/models/a:v3"
expect "unless it is left here" 0 '^pushed' "$AOT" push b.tsb "$DOCKER/models/a:v3" --no-signature
expect "a key for nothing" 6 'do not go together' "$AOT" pull "$DOCKER/models/a:v1" -o x.tsb --no-signature --key old.pub
expect "required by nobody" 6 '--require-signature needs --key' "$AOT" pull "$DOCKER/models/a:v1" -o x.tsb --require-signature
expect "a key that is none" 6 'holds no public key' "$AOT" pull "$DOCKER/models/a:v1" -o x.tsb --key a.tsb.sigstore.json
finish
