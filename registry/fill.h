/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling the output of a pull with the chunks of the bundle: those that are in it already, those
 * that older bundles have, the rest from the registry. Private to this folder.
 *
 * The state of a broken-off pull is the output itself: each chunk in it is verified and kept, or
 * fetched.
 */
#ifndef TSR_REGISTRY_FILL_H
#define TSR_REGISTRY_FILL_H

#include "bundle/bundle.h"
#include "registry/catalog.h"

typedef struct tsr_fill {
    tsr_remote *remote;
    tsr_catalog *catalog;
    const char *path;   /* of the output, for messages */
    int fd;             /* of it, as long as it will be */
    bool resumed;       /* it may hold chunks already */
    tsr_bundle **bases; /* open */
    size_t base_count;
    uint64_t reused_bytes;     /* result */
    size_t missing_blob_count; /* result: blobs of which something was fetched */
} tsr_fill;

/* Every blob of the catalog that is no metadata. Each chunk is verified in memory before it is
 * written. */
TSR_RESULT tsr_fill_run(tsr_ctx *ctx, tsr_fill *fill);

#endif
