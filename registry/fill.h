/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills the output of a pull with the chunks of the bundle: some are in the output already, some
 * are in older bundles, the others come from the registry. Private to this folder.
 *
 * The state of an interrupted pull is the output itself: each chunk in it is verified and kept, or
 * fetched.
 */
#ifndef TSR_REGISTRY_FILL_H
#define TSR_REGISTRY_FILL_H

#include "bundle/bundle.h"
#include "registry/catalog.h"

typedef struct tsr_fill {
    tsr_remote *remote;
    tsr_catalog *catalog;
    const char *path;   /* path of the output, for messages */
    int fd;             /* the output, at its final size */
    bool resumed;       /* the output may contain chunks already */
    tsr_bundle **bases; /* opened bundles */
    size_t base_count;
    uint64_t reused_bytes;     /* result */
    size_t missing_blob_count; /* result: blobs with fetched bytes */
} tsr_fill;

/* Fills in every blob of the catalog that is not metadata. Each chunk is verified in memory before
 * it is written. */
TSR_RESULT tsr_fill_run(tsr_ctx *ctx, tsr_fill *fill);

#endif
