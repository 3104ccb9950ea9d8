#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A hostile registry: every wrong answer has its message, costs little memory and time, and leaves no file
# under the output's name.
. "$(dirname "$0")/common.sh"

python_server hostile hostile.py
H=127.0.0.1:$PORT
case_() { # NAME CODE REGEX
    expect "$1" "$2" "$3" "$AOT" pull "$H/$1" -o out.tsb --retries 2 --retry-delay 1 --timeout 10
    [ ! -e out.tsb ] || fail "$1: a file was made"
    if grep -q '[^[:print:][:space:]]' .err; then fail "$1: a message with control characters"; fi
    below "$1: length of the message" "$(wc -c <.err)" 1100
    rm -f out.tsb*
}

expect "it can behave" 0 '^pulled' "$AOT" pull "$H/good" -o good.tsb
check "then the bundle is one" "$SAMPLE" strict good.tsb

# ---- index and manifests ----
case_ no-json 2 'index: offset|index at offset'
case_ empty 18 'index: expected bytes, got none'
case_ deep 2 'depth|expected an object'
case_ twice 2 'schemaVersion'
case_ later 3 'needs tessera-run >= 9.9.9'
case_ nothing 2 'manifests.*expected 1 to 64, got 0'
case_ image 2 "dev.tessera.format.*got 'nothing'"
case_ wrong-size 2 'size of a manifest'
case_ huge-manifest 2 'size of a descriptor'
case_ bad-target 2 "<family>:<architecture>', got '../../etc\?'"
case_ huge-layer 2 'size of a descriptor'
case_ other-manifest 2 'expected digest sha256:'
case_ endless 18 'expected at most 4194304 bytes, the server sends more'
case_ announced 18 'expected at most 4194304 bytes, the server announces 1099511627776'
case_ short 18 'transfer closed|end of response'
case_ headers 18 'headers of an answer: expected at most 65536 bytes'
case_ circle 18 'more than 10 redirects'
case_ silent 18 'Empty reply|Connection reset|reset by peer'
case_ garbage 18 'HTTP/0.9|Unsupported|Weird'

# ---- blobs ----
case_ lying-table 2 'chunk at offset 0: expected digest'
case_ endless-blob 18 'expected at most 100000 bytes, the server sends more'
case_ longer-blob 18 'expected at most 100000 bytes, the server sends more'
case_ shorter-blob 18 'expected bytes up to 100000, got them up to 99999'
case_ other-blob 2 'chunk at offset 0: expected digest'
case_ other-range 18 'expected a range from byte 0, got another one|expected digest'
for case in bad-referrers endless-referrers; do
    expect "$case" 0 '^pulled' "$AOT" pull "$H/$case" -o good.tsb
    check "$case: no signature" test ! -e good.tsb.sigstore.json
done

# ---- logins ----
printf '{"auths": {"%s": {"auth": "dXNlcjpwYXNz"}}}' "$H" >auth.json
export REGISTRY_AUTH_FILE=auth.json
case_ negotiate 19 "asks for a login by 'Negotiate'; known are Basic and Bearer"
case_ digest-login 19 "asks for a login by 'Digest'"
case_ no-challenge 19 "asks for a login by 'no scheme'"
case_ no-realm 18 'names no token server'
case_ open-quote 18 'names no token server'
case_ far-realm 19 "names the token server 'http://example.org/token': expected https"
case_ file-realm 18 "names the address 'file:///etc/passwd': expected http: or https:"
case_ token-megabytes 18 'expected at most 65536 bytes, the server announces 5000012'
case_ token-endless 18 'expected at most 65536 bytes, the server sends more'
case_ token-long 18 'token: expected 1 to 16384 characters, got 40000'
case_ token-text 18 "token server 'http://$H/token/token-text': offset 0"
case_ token-header 18 'token: expected printable characters, got 0x0d at 1'
case_ token-none 18 "access_token"
case_ token-empty 18 'token: expected 1 to 16384 characters, got 0'
case_ token-good 19 'status 401'

# ---- errors ----
case_ html-error 18 "status 418: '<h1>.\[31mteapot"
case_ json-error 18 'status 400: A\?B: .\[2Jmmmm'
case_ endless-error 18 "status 400: '"

# ---- memory (of the client without the compiler, since the compiler's libraries alone use that much)
# ----
# shellcheck disable=SC2016 # by the inner shell
if [ "${4:-}" != sanitized ]; then
    expect "an endless answer in little memory" 18 'sends more' \
        sh -c 'ulimit -v 200000; exec "$0" pull "$1/endless" -o out.tsb --jobs 1 --retries 0' "$MAKE" "$H"
fi
finish
