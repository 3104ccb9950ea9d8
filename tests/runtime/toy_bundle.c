/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the toy as a bundle for a GPU: toy_bundle FILE [NUMERICS]. Its machine code is text:
 * fake_cuda.c runs the kernels of toy.c instead. Its schedule says that one of them is a product.
 */
#include "bundle/bundle.h"
#include "manifests/fatbin.h"
#include "tests/runtime/toy.h"

#include <stdio.h>

static const char schedule[] =
    "{\"formatVersion\":1,\"entries\":[],\"groups\":["
    "{\"name\":\"mean\",\"kind\":\"reduce\",\"source\":\"\",\"flops\":1000000,\"bytes\":8,"
    "\"ops\":[\"tessera.mean\"]},"
    "{\"name\":\"update\",\"kind\":\"matmul\",\"source\":\"\",\"flops\":1000000,\"bytes\":8,"
    "\"ops\":[\"tessera.matmul\"]}]}";

static tsr_result write_bundle(tsr_ctx *ctx, const char *path, const char *numerics,
                               tsr_arena *arena) {
    static const tsr_fatbin_kernel kernels[] = {
        {.threads = 128, .programs = 4},
        {.threads = 128, .programs = 4},
        {.threads = 32, .programs = 1, .map_count = 1, .maps = {TOY_MAP}}};
    static const tsr_fatbin_image images[] = {{TSR_FATBIN_CUBIN, 90, true, "cubin90a", 9}};
    const tsr_fatbin fatbin = {kernels, 3, images, 1};
    void *program = NULL, *code = NULL;
    size_t program_size = 0, code_size = 0, config_size = 0;
    char *config = NULL;
    tsr_config changed = toy_config;
    if (numerics) changed.numerics = numerics;
    TRY(ctx, tsr_config_encode(ctx, &changed, arena, &config, &config_size));
    TRY(ctx, tsr_program_encode(ctx, &toy_program, arena, &program, &program_size));
    TRY(ctx, tsr_fatbin_encode(ctx, &fatbin, arena, &code, &code_size));
    const tsr_bundle_blob blobs[] = {{.media_type = TSR_MEDIA_PROGRAM,
                                      .title = "program.bin",
                                      .bytes = program,
                                      .size_bytes = program_size},
                                     {.media_type = TSR_MEDIA_FATBIN,
                                      .title = "kernels.fatbin",
                                      .bytes = code,
                                      .size_bytes = code_size},
                                     {.media_type = TSR_MEDIA_SCHEDULE,
                                      .title = "schedule.json",
                                      .bytes = schedule,
                                      .size_bytes = sizeof schedule - 1}};
    const tsr_bundle_target target = {.name = "cuda:sm_90a", .blobs = blobs, .blob_count = 3};
    const tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                                  .config = config,
                                  .config_size_bytes = config_size,
                                  .targets = &target,
                                  .target_count = 1};
    return tsr_bundle_write(ctx, path, &spec);
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    if (argc != 2 && argc != 3) return 2;
    tsr_result result = write_bundle(&ctx, argv[1], argc == 3 ? argv[2] : NULL, &arena);
    if (result.code) fprintf(stderr, "%s\n", ctx.error.text);
    tsr_arena_finish(&arena);
    return result.code;
}
