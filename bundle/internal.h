/* SPDX-License-Identifier: Apache-2.0
 *
 * An open bundle, shared by the files that read. After open nothing in it changes, so threads may
 * share it.
 */
#ifndef TSR_BUNDLE_INTERNAL_H
#define TSR_BUNDLE_INTERNAL_H

#include "bundle/bundle.h"
#include "bundle/layout.h"

/* One digest that exists in the file or the folder. */
typedef struct tsr_blob {
    tsr_digest digest;
    uint64_t size_bytes;      /* TSR_BLOB_SIZE_UNKNOWN: a file of a directory not looked at yet */
    uint64_t offset_bytes;    /* of its bytes; 0 in a directory */
    const tsr_digest *chunks; /* borrowed from a chunk table; NULL if none covers it */
    bool used;                /* reached from the index */
} tsr_blob;
#define TSR_BLOB_SIZE_UNKNOWN UINT64_MAX

struct tsr_bundle {
    tsr_arena arena;
    char *path;
    int fd;
    bool is_directory;
    uint64_t file_size_bytes;   /* 0 for a directory */
    uint64_t root_offset_bytes; /* of index.json; UINT64_MAX until it was found */
    uint64_t root_size_bytes;
    uint64_t marker_offset_bytes; /* of oci-layout; the same */
    uint64_t marker_size_bytes;
    size_t blob_count, blob_capacity;
    tsr_blob *blobs; /* owned; sorted by digest once all are known */
    tsr_layout layout;
    size_t target_count;
    size_t targets[TSR_BUNDLE_MANIFESTS_MAX]; /* index of the manifest of each target */
    char *config;                             /* of the targets; in the arena, NUL-terminated */
    size_t config_size_bytes;
};

/* NULL when absent. */
tsr_blob *tsr_bundle_find_blob(const tsr_bundle *bundle, const tsr_digest *digest);

/* A descriptor to read the blob from, and back. */
TSR_RESULT tsr_blob_open(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob, int *out_fd);
void tsr_blob_close(tsr_ctx *ctx, const tsr_bundle *bundle, int fd);

/* The whole blob into `bytes`, verified by its blob digest. size_bytes of it are known. */
TSR_RESULT tsr_blob_read(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob, void *bytes);
/* Passes the blob by in pieces and compares its digest. `piece` (TSR_BLOB_PIECE_BYTES) is the
 * caller's; `sink` may be NULL. The pieces are not verified until the call returns. */
typedef tsr_result (*tsr_blob_sink_fn)(tsr_ctx *ctx, void *user, const void *bytes,
                                       size_t size_bytes, uint64_t offset_bytes);
enum { TSR_BLOB_PIECE_BYTES = 256 * 1024 };
TSR_RESULT tsr_blob_stream(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                           void *piece, tsr_blob_sink_fn sink, void *user);
/* TSR_CORRUPT with both digests when they differ; `what` and `offset` say of what. */
TSR_RESULT tsr_blob_check_digest(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                                 const char *what, uint64_t offset, const tsr_digest *expected,
                                 const tsr_digest *got);
/* The blob of a layer that this bundle handed out. */
const tsr_blob *tsr_bundle_get_blob(const tsr_bundle *bundle, const tsr_bundle_layer *layer);
/* One chunk against the chunk table; the whole blob where no table covers it. `piece` as above. */
TSR_RESULT tsr_blob_check_chunk(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                                uint64_t chunk, void *piece);

/* Strict mode: every byte of the file outside the blobs is as the layout prescribes. */
TSR_RESULT tsr_bundle_check_canonical(tsr_ctx *ctx, const tsr_bundle *bundle);

#endif
