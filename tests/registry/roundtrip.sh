#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A bundle passes through a registry, pushed and pulled by our tools or by others: repack always restores the same bytes.
. "$(dirname "$0")/common.sh"
need docker-registry skopeo

check "make" "$MAKE" make a.tsb 6 1 0 1
digest=$("$SAMPLE" strict a.tsb)
serve registry
R=127.0.0.1:$PORT/models/a

copy() { skopeo --insecure-policy --tmpdir "$WORK" copy --quiet --src-tls-verify=false --dest-tls-verify=false "$@"; }

# ---- pushed by us ----
expect "push" 0 "^pushed $R:ours sha256:$digest$" "$AOT" push a.tsb "$R:ours"
expect "push again" 0 'nothing had changed' "$AOT" push a.tsb "$R:ours"
expect "pull" 0 "^pulled $R:ours sha256:$digest$" "$AOT" pull "$R:ours" -o ours.tsb
check "pulled by us: the same bytes" cmp a.tsb ours.tsb
check "nothing else is left" test "$(compgen -G 'ours*')" = ours.tsb
check "skopeo reads it" copy --all --preserve-digests "docker://$R:ours" oci-archive:skopeo.tsb:latest
equal "the index that skopeo copied" "$("$SAMPLE" open skopeo.tsb)" "$digest"
check "repack" "$SAMPLE" repack skopeo.tsb repacked.tsb
check "repacked from skopeo: the same bytes" cmp a.tsb repacked.tsb
check "skopeo inspects it" skopeo inspect --tls-verify=false --raw "docker://$R:ours"
equal "what skopeo sees is the index" "$(sha256sum <.out | cut -d' ' -f1)" "$digest"

# ---- pushed by skopeo ----
check "skopeo pushes" copy --all --preserve-digests oci-archive:a.tsb "docker://$R:theirs"
expect "pull by tag" 0 "sha256:$digest" "$AOT" pull "$R:theirs" -o theirs.tsb
check "pulled from skopeo: the same bytes" cmp a.tsb theirs.tsb
check "skopeo pushes what it made" copy --all --preserve-digests oci-archive:skopeo.tsb "docker://$R:again"
expect "pull by digest" 0 "sha256:$digest" "$AOT" pull "$R@sha256:$digest" -o digest.tsb
check "pulled by digest: the same bytes" cmp a.tsb digest.tsb

# ---- other forms pushed by us ----
mkdir layout && tar xf a.tsb -C layout
expect "push of a directory" 0 "sha256:$digest" "$AOT" push layout "$R:layout"
expect "push of a foreign tar" 0 "sha256:$digest" "$AOT" push skopeo.tsb "$R:tar"
check "pull of these" "$AOT" pull "$R:tar" -o tar.tsb --quiet
check "pulled from a foreign tar: the same bytes" cmp a.tsb tar.tsb

# ---- one target ----
for target in cpu:x86-64-v3 cpu:x86-64-v2 cuda:sm_90a; do
    expect "slice $target" 0 "sha256:$digest" "$AOT" pull "$R:ours" -o slice.tsb --target "$target"
    equal "the slice $target is strict, with the digest of the whole" "$("$SAMPLE" strict slice.tsb)" "$digest"
    mkdir slice && tar xf slice.tsb -C slice
    equal "$target is all that is in it" "$(grep -ho '"dev.tessera.target":"[^"]*"' slice/blobs/sha256/* | sort | uniq -c | awk '$1 > 1 { print $2 }')" \
        "\"dev.tessera.target\":\"$target\""
    "$SAMPLE" repack slice again.tsb
    check "a slice, unpacked and repacked: the same bytes" cmp slice.tsb again.tsb
    rm -r slice slice.tsb
done
expect "two targets" 0 '' "$AOT" pull "$R:ours" -o two.tsb --target cuda:sm_90a --target cpu:x86-64-v2
check "are smaller than three" test "$(stat -c %s two.tsb)" -lt "$(stat -c %s a.tsb)"
expect "the rest comes to a slice" 0 '' "$AOT" pull "$R:ours" -o two.tsb --json
below "bytes moved for the third target" "$(number receivedBytes)" 120000
check "then it is the whole" cmp a.tsb two.tsb
expect "no such target" 5 "no target 'hip:gfx942'; there are cuda:sm_90a cpu:x86-64-v3 cpu:x86-64-v2" \
    "$AOT" pull "$R:ours" -o no.tsb --target hip:gfx942
check "and no file" test ! -e no.tsb -a ! -e no.tsb.part
"$AOT" pull "$R:ours" -o slice.tsb --target cpu:x86-64-v3 --quiet
expect "a slice is pushed where the rest is" 0 "sha256:$digest" "$AOT" push slice.tsb "$R:slice"
expect "a slice is not pushed elsewhere" 20 "slice without target 'cuda:sm_90a'" "$AOT" push slice.tsb "127.0.0.1:$PORT/other"

# ---- one architecture, by skopeo ----
one() { skopeo --insecure-policy --tmpdir "$WORK" --override-os linux "$@" copy --quiet --src-tls-verify=false "docker://$R:ours" oci:one:latest; }
for pick in 'cpu:x86-64-v2 --override-arch amd64' 'cpu:x86-64-v3 --override-arch amd64 --override-variant v3' \
    'cuda:sm_90a --override-arch amd64 --override-variant sm_90a'; do
    rm -rf one
    # shellcheck disable=SC2086 # flags
    check "skopeo picks ${pick%% *}" one ${pick#* }
    check "it has ${pick%% *}" grep -q "\"dev.tessera.target\":\"${pick%% *}\"" -r one/blobs
    equal "and no other" "$(grep -ho '"dev.tessera.target":"[^"]*"' -r one/blobs | sort -u | wc -l)" 1
done
check "skopeo pushes one platform" skopeo --insecure-policy --tmpdir "$WORK" copy --quiet --dest-tls-verify=false \
    oci:one:latest "docker://127.0.0.1:$PORT/one:x"
expect "which is no bundle, and the message says why" 2 'copied for one platform only \(copy with --all\)' \
    "$AOT" pull "127.0.0.1:$PORT/one:x" -o no.tsb

# ---- other repositories ----
expect "blobs are mounted" 0 '12 mounted' "$AOT" push a.tsb "127.0.0.1:$PORT/mounted" --mount-from no/such --mount-from models/a
"$AOT" push a.tsb "127.0.0.1:$PORT/mounted2" --mount-from models/a --json >.out 2>.err
below "bytes sent with a mount" "$(number sentBytes)" 20000
equal "blobs mounted" "$(number mountedBlobs)" 12

# ---- references ----
expect "no such tag" 20 "manifest 'none': status 404: MANIFEST_UNKNOWN" "$AOT" pull "$R:none" -o no.tsb
expect "no such repository" 20 'status 404' "$AOT" pull "127.0.0.1:$PORT/none/none" -o no.tsb
expect "another digest" 6 'the reference requests sha256:0{64}' "$AOT" push a.tsb "$R@sha256:$(printf %064d 0)"
expect "a digest that is right" 0 '' "$AOT" push a.tsb "$R:both@sha256:$digest"
expect "no host" 6 "reference 'models/a': expected host" "$AOT" push a.tsb models/a
expect "capitals" 6 'expected a repository name' "$AOT" push a.tsb "127.0.0.1:$PORT/Models"
expect "a bad tag" 6 'expected a tag' "$AOT" push a.tsb "$R:-x"
expect "a bad port" 6 'expected a host name' "$AOT" push a.tsb 127.0.0.1:99999/a
expect "no file" 7 'No such file' "$AOT" push none.tsb "$R:x"
expect "no folder" 7 'No such file' "$AOT" pull "$R:ours" -o none/out.tsb
expect "a folder" 7 'is a directory' "$AOT" pull "$R:ours" -o layout
expect "standard output" 6 'the output cannot go to standard output' "$AOT" pull "$R:ours" -o -
expect "nobody listens" 18 'refused|connect' "$AOT" pull "127.0.0.1:$(free_port)/a" -o no.tsb --retries 0
printf 'x' | dd of=theirs.tsb bs=1 seek=$(($(stat -c %s theirs.tsb) - 3000)) conv=notrunc status=none
expect "damage is not pushed" 2 'digest of the chunk' "$AOT" push theirs.tsb "127.0.0.1:$PORT/damage"
expect "damage in OUT is fetched again" 0 '' "$AOT" pull "$R:ours" -o theirs.tsb --json
below "bytes moved for it" "$(number receivedBytes)" 4300000
check "and gone" cmp a.tsb theirs.tsb
finish
