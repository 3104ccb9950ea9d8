/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures as OCI referrers of the index: each has its own manifest whose `subject` is the index,
 * found by the referrers API (OCI distribution specification 1.1, "Listing Referrers") or, in
 * registries without it, under the tag `sha256-<digest of the index>`. Other tools use the same
 * form for Sigstore bundles. Private to this folder.
 */
#ifndef TSR_REGISTRY_REFERRERS_H
#define TSR_REGISTRY_REFERRERS_H

#include "bundle/layout.h"
#include "registry/http.h"

typedef struct tsr_referrer {
    const void *bytes; /* contents of the signature file, in the arena */
    size_t size_bytes;
} tsr_referrer;

TSR_RESULT tsr_referrer_push(tsr_ctx *ctx, tsr_http *http, const tsr_descriptor *index,
                             const void *bytes, size_t size_bytes);
/* Fetches every signature that names the index as its subject, at most TSR_REGISTRY_REFERRERS_MAX,
 * in the registry's order. Their contents are not checked here. */
TSR_RESULT tsr_referrers_pull(tsr_ctx *ctx, tsr_http *http, const tsr_descriptor *index,
                              tsr_arena *arena, tsr_referrer **out_referrers, size_t *out_count);

#endif
