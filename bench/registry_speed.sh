#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: registry_speed.sh TESSERA_AOT BUNDLE FOLDER
#
# Compares push and pull of BUNDLE through docker-registry on loopback with curl sending and fetching
# the same bytes as one blob. Each pushes to its own repository; fetched files are synced, as in pull.
# Prints one JSON object: MB/s, medians of three rounds. Exits with 77 without docker-registry or curl.
set -euo pipefail
python=$(realpath "$(dirname "${BASH_SOURCE[0]}")")/../tests/python
aot=$(realpath "$1") bundle=$(realpath "$2") folder=$(realpath "$3")/registry-speed
command -v docker-registry >/dev/null && command -v curl >/dev/null || exit 77
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
printf 'version: 0.1\nlog: {level: error}\nstorage:\n  filesystem: {rootdirectory: %s}\nhttp: {addr: "127.0.0.1:%s"}\n' \
    "$folder/data" "$port" >registry.yml
docker-registry serve registry.yml >registry.log 2>&1 </dev/null &
server=$!
trap 'kill $server; wait $server 2>/dev/null || true; rm -rf "$folder"' EXIT
url=http://127.0.0.1:$port/v2
until curl -sf "$url/" >/dev/null; do sleep 0.05; done
size=$(stat -c %s "$bundle")
digest=sha256:$(sha256sum <"$bundle" | cut -d' ' -f1)

curl_push() {
    local location
    location=$(curl -sf -o /dev/null -D - -X POST "$url/curl$1/blobs/uploads/" | tr -d '\r' | sed -n 's/^Location: //p')
    curl -sf -X PUT -H 'Content-Type: application/octet-stream' -H 'Expect:' -T "$bundle" "$location&digest=$digest"
}
curl_pull() {
    curl -sf -o curl.out "$url/curl$1/blobs/$digest"
    sync curl.out
}
our_push() { "$aot" push "$bundle" "127.0.0.1:$port/ours$1" --quiet; }
our_pull() { "$aot" pull "127.0.0.1:$port/ours$1" -o ours.out --quiet; }

# speed WHAT: prints the median of three rounds, in MB/s.
speed() {
    local round start end
    for round in 1 2 3; do
        rm -f curl.out ours.out
        start=${EPOCHREALTIME/./}
        "$1" "$round" >&2
        end=${EPOCHREALTIME/./}
        awk "BEGIN { printf \"%.1f\\n\", $size / ($end - $start) }"
    done | sort -g | sed -n 2p
}

pushed_curl=$(speed curl_push)
pushed=$(speed our_push)
fetched_curl=$(speed curl_pull)
fetched=$(speed our_pull)
cmp "$bundle" ours.out
printf '{"push": %s, "curl_push": %s, "pull": %s, "curl_pull": %s}\n' "$pushed" "$pushed_curl" "$fetched" "$fetched_curl"
