/* SPDX-License-Identifier: Apache-2.0
 *
 * The catalog of a bundle in a registry: index, manifests, configs and chunk tables are fetched and
 * verified; every other blob is known by digest, size and the digests of its chunks. Private to
 * this folder.
 */
#ifndef TSR_REGISTRY_CATALOG_H
#define TSR_REGISTRY_CATALOG_H

#include "bundle/layout.h"
#include "registry/http.h"

typedef struct tsr_remote_blob {
    tsr_digest digest;
    uint64_t size_bytes;
    const void *bytes;        /* metadata only, in the arena; NULL: not fetched yet */
    const tsr_digest *chunks; /* allocated in the arena; NULL: no table covers it */
    atomic_uchar *done;       /* true for each chunk that is in the output; in the arena */
    uint64_t offset_bytes;    /* offset in the output */
} tsr_remote_blob;

typedef struct tsr_catalog {
    tsr_arena arena;
    tsr_layout layout; /* manifests of other targets have no layers */
    size_t blob_count, blob_capacity;
    tsr_remote_blob *blobs; /* owned */
} tsr_catalog;

/* `targets`: the requested targets; target_count 0: every manifest. Fails with TSR_TARGET if the
 * index lacks one. *out must be finished even after an error. */
TSR_RESULT tsr_catalog_fetch(tsr_ctx *ctx, tsr_http *http, const char *const *targets,
                             size_t target_count, tsr_catalog *out);
void tsr_catalog_finish(tsr_catalog *catalog);

#endif
