#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Logins and certificates: docker-registry with passwords over TLS, and with tokens.
. "$(dirname "$0")/common.sh"
need docker-registry openssl

check "make" "$MAKE" make a.tsb 2 1 0 1
base64_of() { printf '%s' "$1" | openssl base64 -A; }
FAST=(--retry-delay 10)

# ---- certificates of our own ----
authority

# ---- passwords (bcrypt, by the C library) ----
"$PYTHON" -W ignore -c 'import crypt; print("user:" + crypt.crypt("päss:word", crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)))' >htpasswd
serve basic "  tls: {certificate: $WORK/tls.pem, key: $WORK/tls.key}
auth:
  htpasswd: {realm: basic, path: $WORK/htpasswd}"
B=127.0.0.1:$PORT
login() { printf '{"auths": {"%s": {"auth": "%s"}}}' "$1" "$(base64_of "$2")" >auth.json; }

login "$B" 'user:päss:word'
expect "password, own certificate" 0 '^pushed' "$AOT" push a.tsb "$B/a/b" --ca ca.pem --authfile auth.json
expect "pull" 0 '^pulled' "$AOT" pull "$B/a/b" -o out.tsb --ca ca.pem --authfile auth.json
check "the same bytes" cmp a.tsb out.tsb
expect "by name" 0 '^pulled' env REGISTRY_AUTH_FILE=auth.json "$AOT" pull "$B/a/b" -o out.tsb --ca ca.pem
expect "certificates not looked at" 0 '^pulled' "$AOT" pull "$B/a/b" -o out.tsb --insecure --authfile auth.json
expect "an unknown certificate" 18 'certificate.*needs --ca FILE' "$AOT" pull "localhost:${B#*:}/a/b" -o out.tsb --ca /etc/ssl/certs/ca-certificates.crt --authfile auth.json
expect "no TLS to a TLS port" 18 'status 400' "$AOT" pull "$B/a/b" -o out.tsb "${FAST[@]}"
expect "a missing certificate file" 7 "cannot read 'none.pem'" "$AOT" pull "$B/a/b" -o out.tsb --ca none.pem
expect "TLS and not TLS" 6 'plain HTTP has no certificates' "$AOT" pull "$B/a/b" -o out.tsb --plain-http --insecure

pull() { # WHAT CODE REGEX ENVIRONMENT…
    local what=$1 code=$2 regex=$3
    shift 3
    expect "$what" "$code" "$regex" env "$@" "$AOT" pull "$B/a/b" -o out.tsb --ca ca.pem
}
pull "no login" 19 "requires a login \(status 401\), but no file has a login" A=b
login "$B" user:wrong
pull "a wrong password, told without it" 19 'status 401: UNAUTHORIZED' REGISTRY_AUTH_FILE=auth.json
if grep -rq 'wrong' .out .err; then fail "a message tells the password"; fi
login "$B" 'user:päss:word'
mkdir -p docker home/.docker run/containers
cp auth.json docker/config.json
pull "DOCKER_CONFIG" 0 '' DOCKER_CONFIG="$WORK/docker"
cp auth.json home/.docker/config.json
pull "the home folder" 0 '' A=b
rm home/.docker/config.json
cp auth.json run/containers/auth.json
pull "XDG_RUNTIME_DIR" 0 '' XDG_RUNTIME_DIR="$WORK/run"
pull "a file that is not there" 7 "cannot read 'none.json'" REGISTRY_AUTH_FILE=none.json
login "https://$B/v1/" 'user:päss:word'
pull "a key that is a URL" 0 '' REGISTRY_AUTH_FILE=auth.json
login "$B/a" 'user:päss:word'
pull "a key that is a namespace" 0 '' REGISTRY_AUTH_FILE=auth.json
login "$B/c" 'user:päss:word'
pull "another namespace" 19 'requires a login' REGISTRY_AUTH_FILE=auth.json
login "example.org" 'user:päss:word'
pull "another host" 19 'requires a login' REGISTRY_AUTH_FILE=auth.json
printf '{"auths": {"%s": {"auth": "%s"}, "%s/a/b": {"auth": "%s"}}}' "$B" "$(base64_of user:wrong)" "$B" "$(base64_of 'user:päss:word')" >auth.json
pull "the most exact key" 0 '' REGISTRY_AUTH_FILE=auth.json
printf '{"auths": {"%s": {}}, "credsStore": "desktop", "a": 1.5}' "$B" >auth.json
pull "a store" 19 "credential helper 'docker-credential-desktop'; no other program is started" REGISTRY_AUTH_FILE=auth.json
printf '{"credHelpers": {"%s": "ecr-login"}}' "$B" >auth.json
pull "a helper" 19 "credential helper 'docker-credential-ecr-login'" REGISTRY_AUTH_FILE=auth.json
printf '{"auths": {"%s": {"auth": "%%%%"}}}' "$B" >auth.json
pull "no Base64" 6 "'auth' of '$B': expected Base64" REGISTRY_AUTH_FILE=auth.json
printf '{"auths": {"%s": {"auth": "%s"}}}' "$B" "$(base64_of nocolon)" >auth.json
pull "no password" 6 'expected Base64 of user:password' REGISTRY_AUTH_FILE=auth.json
printf '{"auths": ' >auth.json
pull "no JSON" 6 "auth.json: offset" REGISTRY_AUTH_FILE=auth.json
printf '{"auths": {"%s": {"registrytoken": "a\\r\\nX: y"}}}' "$B" >auth.json
pull "a token with a line break" 6 'has a line break' REGISTRY_AUTH_FILE=auth.json

# ---- tokens ----
openssl req -x509 -newkey rsa:2048 -nodes -keyout token.key -out token.pem -days 2 -subj /CN=issuer 2>.err
openssl x509 -in token.pem -outform DER -out token.der
python_server tokens issuer.py token.key token.der tokens.log
realm=http://127.0.0.1:$PORT/token
serve bearer "auth:
  token: {realm: '$realm', service: the service, issuer: issuer, rootcertbundle: $WORK/token.pem}"
T=127.0.0.1:$PORT
expect "no login" 19 'requires a login' "$AOT" push a.tsb "$T/a"
login "$T" 'user:päss:word'
expect "push" 0 '^pushed' "$AOT" push a.tsb "$T/a" --authfile auth.json
check "asked for once, for what is needed" test "$(grep -c "GET True \['the service'\] \['repository:a:pull,push'\]" tokens.log)" = 1
expect "pull" 0 '^pulled' "$AOT" pull "$T/a" -o out.tsb --authfile auth.json
check "asked for reading" grep -q "\['repository:a:pull'\]" tokens.log
check "the same bytes" cmp a.tsb out.tsb
expect "mount" 0 '12 mounted' "$AOT" push a.tsb "$T/b" --mount-from a --authfile auth.json
check "asked for both" grep -q "\['repository:b:pull,push', 'repository:a:pull'\]" tokens.log
login "$T" user:wrong
expect "a wrong password" 19 "refuses the login of 'user' \(status 401\)" "$AOT" pull "$T/a" -o out.tsb --authfile auth.json
printf '{"auths": {"%s": {"auth": "%s", "identitytoken": "refresh me+&="}}}' "$T" "$(base64_of '<token>:x')" >auth.json
expect "an identity token" 0 '^pulled' "$AOT" pull "$T/a" -o out.tsb --authfile auth.json
check "by POST" grep -q "POST True" tokens.log

# Tokens that expire during transfers are renewed. (The registry allows an additional minute.)
python_server short issuer.py token.key token.der short.log -58
realm=http://127.0.0.1:$PORT/token
serve ending "auth:
  token: {realm: '$realm', service: s, issuer: issuer, rootcertbundle: $WORK/token.pem}"
behind ending "$PORT"
login "127.0.0.1:$PORT" 'user:päss:word'
E=127.0.0.1:$PORT
rules "PUT /blobs/uploads/ 1 status 429:4"
expect "a token that ends" 0 '^pushed' "$AOT" push a.tsb "$E/a" --authfile auth.json --jobs 1
below "it was renewed" 1 "$(wc -l <short.log)"

# ---- the login is not sent to other hosts ----
login "$E" 'user:päss:word'
python_server elsewhere registry.py
behind elsewhere "$PORT"
mkdir -p net
rules "GET ^/v2/a/blobs/ 99 redirect http://127.0.0.1:$PORT/elsewhere{path}"
expect "blobs on another host" 20 'status 404' "$AOT" pull "$E/a" -o no.tsb --authfile auth.json
check "which was asked" grep -q '^GET /elsewhere/v2/a/blobs' net/log
equal "without the login" "$(grep -c '^GET /elsewhere/.* login$' net/log)" 0
check "the registry had it" grep -q '^GET /v2/a/manifests.* login$' net/log
finish
