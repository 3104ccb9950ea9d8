/* SPDX-License-Identifier: Apache-2.0
 *
 * The blobs that a writer stores: hashed while they are written to their expected offsets.
 */
#ifndef TSR_BUNDLE_STORED_H
#define TSR_BUNDLE_STORED_H

#include "bundle/bundle.h"
#include "bundle/layout.h"

typedef struct tsr_stored {
    const void *bytes;               /* borrowed; NULL: read from the source, or made later */
    const tsr_bundle_source *source; /* borrowed; or NULL */
    uint64_t size_bytes;
    tsr_digest digest;
    tsr_digest *chunks;         /* array of tsr_chunk_count digests, in the arena */
    uint64_t file_offset_bytes; /* offset in the file, once written there */
    bool written;
} tsr_stored;

/* Hashes every blob that has bytes or a source (digest and chunks), and writes it to its offset in
 * the file, which is still empty. Fails with TSR_IO, TSR_MEMORY, or the error of the source. */
TSR_RESULT tsr_stored_write(tsr_ctx *ctx, tsr_stored *blobs, size_t count,
                            const tsr_io_atomic *file, tsr_arena *arena);

/* Copies a written blob to a lower offset in the same file. */
TSR_RESULT tsr_stored_move(tsr_ctx *ctx, tsr_stored *blob, const tsr_io_atomic *file,
                           uint64_t file_offset_bytes);

#endif
