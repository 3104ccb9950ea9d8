/* SPDX-License-Identifier: Apache-2.0
 *
 * Sample bundles for tests, and a folder for them. Failures end the process with a message, since
 * they are not subjects of the tests.
 */
#ifndef TSR_TESTS_SAMPLE_H
#define TSR_TESTS_SAMPLE_H

#include "bundle/bundle.h"

typedef enum sample_size {
    SAMPLE_TINY,  /* one target, every blob below 64 bytes: about 11 KiB */
    SAMPLE_SMALL, /* three targets, aligned blobs and pads: about 800 KiB */
    SAMPLE_LARGE, /* blobs of several chunks: about 14 MiB */
} sample_size;

/* Writes deterministic bytes. */
void sample_fill(void *bytes, size_t size_bytes, uint64_t seed);

/* `shuffled`: gives the same targets in another order. */
tsr_result sample_write(tsr_ctx *ctx, const char *path, sample_size size, bool shuffled);
/* Returns the bytes that the writer was given, which a read of the layer must return. */
const tsr_bundle_blob *sample_layer(sample_size size, const char *target, size_t layer);
size_t sample_layer_count(sample_size size, const char *target); /* without the chunk table */

char *sample_path(const char *name); /* in a new folder of this process; static storage */
void *sample_load(const char *path, size_t *out_size_bytes); /* malloc */
void sample_store(const char *path, const void *bytes, size_t size_bytes);
/* Fails with the message of the context unless result is TSR_OK. */
void sample_must(const tsr_ctx *ctx, tsr_result result);
/* Returns the first offset of `needle` in `bytes`; it must occur. */
size_t sample_find(const void *bytes, size_t size_bytes, const void *needle, size_t needle_size);

#endif
