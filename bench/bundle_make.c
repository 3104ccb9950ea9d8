/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a bundle for measurements: weights that do not compress, a small kernel.
 * usage: bundle_make PATH MIB
 */
#include "bundle/bundle.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tsr_result make(tsr_ctx *ctx, const char *path, char *weights, size_t size_bytes) {
    const tsr_bundle_blob shared = {.media_type = TSR_MEDIA_WEIGHTS,
                                    .title = "weights.safetensors",
                                    .bytes = weights,
                                    .size_bytes = size_bytes};
    const tsr_bundle_blob own = {
        .media_type = TSR_MEDIA_ELF, .title = NULL, .bytes = "kernel", .size_bytes = 6};
    const tsr_bundle_target target = {"cpu:x86-64-v2", &own, 1};
    const tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                                  .config = "{}",
                                  .config_size_bytes = 2,
                                  .blobs = &shared,
                                  .blob_count = 1,
                                  .targets = &target,
                                  .target_count = 1};
    return tsr_bundle_write(ctx, path, &spec);
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {0};
    size_t size_bytes = argc == 3 ? strtoul(argv[2], NULL, 10) << 20 : 0;
    char *weights = size_bytes ? malloc(size_bytes) : NULL;
    if (!weights) {
        fprintf(stderr, "usage: bundle_make PATH MIB\n");
        return TSR_USAGE;
    }
    for (size_t at = 0; at < size_bytes; at += 1 << 20)
        if (RAND_bytes((unsigned char *)weights + at, 1 << 20) != 1) return TSR_INTERNAL;
    tsr_result result = make(&ctx, argv[1], weights, size_bytes);
    if (result.code) fprintf(stderr, "bundle_make: %s\n", ctx.error.text);
    free(weights);
    return (int)result.code;
}
