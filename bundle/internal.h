/* SPDX-License-Identifier: Apache-2.0
 *
 * An open bundle, used by the source files that read. A bundle does not change after it is opened,
 * so threads may share it.
 */
#ifndef TSR_BUNDLE_INTERNAL_H
#define TSR_BUNDLE_INTERNAL_H

#include "bundle/bundle.h"
#include "bundle/layout.h"

/* One digest that exists in the file or the folder. */
typedef struct tsr_blob {
    tsr_digest digest;
    uint64_t size_bytes;      /* TSR_BLOB_SIZE_UNKNOWN: a file of a directory, not opened yet */
    uint64_t offset_bytes;    /* offset of its bytes; 0 in a directory */
    const tsr_digest *chunks; /* borrowed from a chunk table; NULL if none covers it */
    bool used;                /* reachable from the index */
} tsr_blob;
#define TSR_BLOB_SIZE_UNKNOWN UINT64_MAX

struct tsr_bundle {
    tsr_arena arena;
    char *path;
    int fd;
    bool is_directory;
    uint64_t file_size_bytes;   /* 0 for a directory */
    uint64_t root_offset_bytes; /* offset of index.json; UINT64_MAX until it is found */
    uint64_t root_size_bytes;
    uint64_t marker_offset_bytes; /* offset of oci-layout; UINT64_MAX until it is found */
    uint64_t marker_size_bytes;
    size_t blob_count, blob_capacity;
    tsr_blob *blobs; /* owned; sorted by digest once all are known */
    tsr_layout layout;
    size_t target_count;
    size_t targets[TSR_BUNDLE_MANIFESTS_MAX]; /* index of the manifest of each target */
    /* config of the targets; in the arena, NUL-terminated */
    char *config;
    size_t config_size_bytes;
};

/* NULL when absent. */
tsr_blob *tsr_bundle_find_blob(const tsr_bundle *bundle, const tsr_digest *digest);

/* Open and close a file descriptor for reading the blob. */
TSR_RESULT tsr_blob_open(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob, int *out_fd);
void tsr_blob_close(tsr_ctx *ctx, const tsr_bundle *bundle, int fd);

/* Reads the whole blob into `bytes` and verifies its digest. blob->size_bytes must be known. */
TSR_RESULT tsr_blob_read(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob, void *bytes);
/* Reads the blob in pieces, passes them to the sink, and compares the blob's digest. `piece`
 * (TSR_BLOB_BLOCK_BYTES) is the caller's; `sink` may be NULL. The pieces are not verified until the
 * call returns. */
typedef tsr_result (*tsr_blob_sink_fn)(tsr_ctx *ctx, void *user, const void *bytes,
                                       size_t size_bytes, uint64_t offset_bytes);
enum { TSR_BLOB_BLOCK_BYTES = 256 * 1024 };
TSR_RESULT tsr_blob_stream(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                           void *block, tsr_blob_sink_fn sink, void *user);
/* Fails with TSR_CORRUPT and both digests if they differ; `what` and `offset` name the bytes. */
TSR_RESULT tsr_blob_check_digest(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                                 const char *what, uint64_t offset, const tsr_digest *expected,
                                 const tsr_digest *got);
/* Returns the blob of a layer that came from this bundle. */
const tsr_blob *tsr_bundle_get_blob(const tsr_bundle *bundle, const tsr_bundle_layer *layer);
/* Verifies one chunk against the chunk table, or the whole blob if no table covers it. `piece` as
 * above. */
TSR_RESULT tsr_blob_check_chunk(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                                uint64_t chunk, void *block);

/* Strict mode: checks that every byte outside the blobs is the one that the layout prescribes. */
TSR_RESULT tsr_bundle_check_canonical(tsr_ctx *ctx, const tsr_bundle *bundle);

#endif
