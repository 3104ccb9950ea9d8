#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Other tools use a bundle that passed through a registry: umoci walks the layout that skopeo made from it, tar programs list, unpack and pack
# the file, repack restores it. Each tool is required.
. "$(dirname "$0")/common.sh"
need docker-registry skopeo umoci bsdtar busybox tar

check "make" "$MAKE" make a.tsb 2 7 0 1
digest=$("$SAMPLE" strict a.tsb)
serve registry
R=127.0.0.1:$PORT/models/a
check "push" "$AOT" push a.tsb "$R:v1"
check "pull" "$AOT" pull "$R:v1" -o b.tsb
skopeo --insecure-policy --tmpdir "$WORK" copy --quiet --all --preserve-digests --src-tls-verify=false \
    "docker://$R:v1" oci:layout:latest || fail "skopeo copies to a layout"

expect "umoci lists the layout" 0 '^latest$' umoci list --layout layout
before=$(find layout/blobs -type f | wc -l)
check "umoci collects garbage" umoci gc --layout layout
equal "and finds none" "$(find layout/blobs -type f | wc -l)" "$before"
equal "the layout is the bundle" "$("$SAMPLE" open layout)" "$digest"
check "repack of the layout" "$SAMPLE" repack layout c.tsb
check "is the bundle" cmp a.tsb c.tsb

# umoci unpacks only one platform, and only root file systems: a bundle is not one, and umoci reports that.
skopeo --insecure-policy --tmpdir "$WORK" --override-arch amd64 copy --quiet --src-tls-verify=false \
    "docker://$R:v1" oci:one:latest || fail "skopeo copies one platform"
check "umoci tags one platform" umoci tag --image one:latest copy
expect "both names are listed" 0 '^copy$' umoci list --layout one
before=$(find one/blobs -type f | sort | xargs sha256sum | sha256sum)
check "umoci collects garbage of one platform" umoci gc --layout one
equal "and finds none there" "$(find one/blobs -type f | sort | xargs sha256sum | sha256sum)" "$before"
umoci unpack --rootless --image one:latest out >.out 2>&1 && fail "umoci took a bundle for a root file system"
equal "umoci says why" "$(grep -c 'not correct mediatype application/vnd.oci.image.config.v1+json' .out)" 1

wanted=$(tar tf a.tsb | sort | sha256sum)
equal "members that tar lists" "$(tar tf b.tsb | wc -l)" "$(tar tf a.tsb | wc -l)"
equal "bsdtar lists the same" "$(bsdtar tf b.tsb | sort | sha256sum)" "$wanted"
equal "busybox lists the same" "$(busybox tar tf b.tsb | sort | sha256sum)" "$wanted"
equal "python lists the same" "$("$PYTHON" -c 'import tarfile; print("\n".join(tarfile.open("b.tsb").getnames()))' | sort | sha256sum)" "$wanted"
for tool in tar bsdtar 'busybox tar'; do
    rm -rf out && mkdir out
    # shellcheck disable=SC2086 # a program and its word
    check "$tool unpacks" $tool xf b.tsb -C out
    check "repack" "$SAMPLE" repack out e.tsb
    check "gives the bundle: $tool" cmp a.tsb e.tsb
    check "push of the unpacked" "$AOT" push out "$R:unpacked" --quiet
    # shellcheck disable=SC2086
    check "$tool packs" $tool cf again.tar -C out .
    check "push of the tar" "$AOT" push again.tar "$R:tar" --quiet
done
check "pull" "$AOT" pull "$R:tar" -o f.tsb --quiet
check "is the bundle" cmp a.tsb f.tsb
finish
