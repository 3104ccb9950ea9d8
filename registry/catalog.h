/* SPDX-License-Identifier: Apache-2.0
 *
 * What a bundle in a registry consists of: index, manifests, configs and chunk tables fetched and
 * verified, every other blob by name, size and the digests of its chunks. Private to this folder.
 */
#ifndef TSR_REGISTRY_CATALOG_H
#define TSR_REGISTRY_CATALOG_H

#include "bundle/layout.h"
#include "registry/http.h"

typedef struct tsr_remote_blob {
    tsr_digest digest;
    uint64_t size_bytes;
    const void *bytes;        /* of metadata, in the arena; NULL: not fetched yet */
    const tsr_digest *chunks; /* in the arena; NULL: no table covers it */
    atomic_uchar *done;       /* of each chunk: it is in the output; in the arena */
    uint64_t offset_bytes;    /* in the output */
} tsr_remote_blob;

typedef struct tsr_catalog {
    tsr_arena arena;
    tsr_layout layout; /* manifests that are not wanted have no layers */
    size_t blob_count, blob_capacity;
    tsr_remote_blob *blobs; /* owned */
} tsr_catalog;

/* `targets`: those that are wanted; target_count 0: every manifest. TSR_TARGET when the index lacks
 * one. *out is to be finished after an error too. */
TSR_RESULT tsr_catalog_fetch(tsr_ctx *ctx, tsr_http *http, const char *const *targets,
                             size_t target_count, tsr_catalog *out);
void tsr_catalog_finish(tsr_catalog *catalog);

#endif
