/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TSR_BENCH_WEIGHTS_H
#define TSR_BENCH_WEIGHTS_H

#include "bundle/bundle.h"

/* Writes a bundle with only these weights to `path`. */
static inline tsr_result weights_write(tsr_ctx *ctx, const char *path, const void *bytes,
                                       size_t size_bytes) {
    const tsr_bundle_blob weights = {.media_type = TSR_MEDIA_WEIGHTS,
                                     .title = "weights",
                                     .bytes = bytes,
                                     .size_bytes = size_bytes};
    const tsr_bundle_target target = {.name = "cpu:x86-64-v2"};
    const tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                                  .config = "{}",
                                  .config_size_bytes = 2,
                                  .blobs = &weights,
                                  .blob_count = 1,
                                  .targets = &target,
                                  .target_count = 1};
    return tsr_bundle_write(ctx, path, &spec);
}

#endif
