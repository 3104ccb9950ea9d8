/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores a set of tensors as safetensors blobs of a bundle, each within the size limit of the
 * format. Private to this folder.
 */
#ifndef TSR_LOADER_WEIGHTS_SHARDS_H
#define TSR_LOADER_WEIGHTS_SHARDS_H

#include "bundle/bundle.h"
#include "runtime/base/tensor.h"

/* A tensor whose bytes are read when they are written; `read` is as in tsr_bundle_source, with
 * `offset` relative to the tensor. */
typedef struct tsr_value {
    const char *name; /* borrowed */
    tsr_dtype dtype;
    tsr_shape shape;
    tsr_result (*read)(tsr_ctx *ctx, void *user, uint64_t offset_bytes, void *bytes,
                       size_t size_bytes);
    void *user; /* borrowed */
} tsr_value;

/* A read function: `user` points to the bytes of the tensor. */
tsr_result tsr_value_read_memory(tsr_ctx *ctx, void *user, uint64_t offset_bytes, void *bytes,
                                 size_t size_bytes);

/* *out_splat is true if all elements have the same bits and a double represents them exactly: then
 * *out_value is set. Stops reading at the first different element. */
TSR_RESULT tsr_value_is_splat(tsr_ctx *ctx, const tsr_value *value, bool *out_splat,
                              double *out_value);

/* Fills shards in the order of `values`, which is the order of the names: a set that grows does not
 * change the shards before it. Titles are STEM.safetensors, or STEM-00002-of-00003.safetensors.
 * Everything except the values is in the arena. Fails with TSR_USAGE and both sizes if a single
 * tensor is larger than `size_max`. */
TSR_RESULT tsr_shards_make(tsr_ctx *ctx, const tsr_value *values, size_t value_count,
                           const char *media_type, const char *stem, uint64_t size_max,
                           tsr_arena *arena, tsr_bundle_blob **out_blobs, size_t *out_count);

#define TSR_SHARD_BYTES_MAX (UINT64_C(4) << 30)

#endif
