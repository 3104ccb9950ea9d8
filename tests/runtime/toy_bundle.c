/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the toy as a bundle for a GPU: toy_bundle FILE [NUMERICS [away]]. Its machine code is
 * text: fake_cuda.c runs the kernels of toy.c instead. Its schedule says that one kernel is a
 * product. away: the mean is offloaded to host memory, and its buffer is overwritten during that
 * time.
 */
#include "bundle/bundle.h"
#include "manifests/fatbin.h"
#include "runtime/base/array.h"
#include "tests/runtime/toy.h"

#include <stdio.h>
#include <string.h>

static const char schedule[] =
    "{\"formatVersion\":1,\"entries\":[],\"groups\":["
    "{\"name\":\"mean\",\"kind\":\"reduce\",\"source\":\"\",\"flops\":1000000,\"bytes\":8,"
    "\"ops\":[\"tessera.mean\"]},"
    "{\"name\":\"update\",\"kind\":\"matmul\",\"source\":\"\",\"flops\":1000000,\"bytes\":8,"
    "\"ops\":[\"tessera.matmul\"]}]}";

enum { W = 1, MEAN = 3, COPY = 5, KEPT, BUFFERS }; /* buffer indices of the toy's training */

static tsr_program make_offloaded(void) {
    static uint32_t keep[] = {KEPT, MEAN}, spoil[] = {MEAN, W}, prefetch[] = {COPY, KEPT};
    static tsr_program_command commands[] = {{TSR_OP_LAUNCH, 0, 0, 0, 0, 0, NULL, ""},
                                             {TSR_OP_OFFLOAD, 0, 0, 0, 2, 0, keep, "toy.mlir:4:1"},
                                             {TSR_OP_AWAIT, 1, 0, 0, 0, 0, keep, ""},
                                             {TSR_OP_COPY, 0, 0, 0, 2, 0, spoil, ""},
                                             {TSR_OP_PREFETCH, 0, 0, 0, 2, 0, prefetch, ""},
                                             {TSR_OP_AWAIT, 4, 0, 0, 0, 0, keep, ""},
                                             {TSR_OP_LAUNCH, 0, 0, 0, 0, 0, NULL, ""}};
    static tsr_program_buffer buffers[BUFFERS];
    static tsr_program_entry entries[2];
    tsr_program program = toy_program;
    memcpy(entries, toy_program.entries, sizeof entries);
    tsr_program_entry *train = &entries[TOY_TRAIN];
    memcpy(buffers, train->buffers, KEPT * sizeof *buffers);
    buffers[KEPT] = buffers[MEAN];
    buffers[KEPT].space = TSR_SPACE_HOST;
    buffers[KEPT].offset_bytes = 0;
    commands[0] = train->commands[0];
    commands[6] = train->commands[2];
    train->buffers = buffers;
    train->buffer_count = BUFFERS;
    train->commands = commands;
    train->command_count = TSR_COUNT(commands);
    program.entries = entries;
    return program;
}

static tsr_result write_bundle(tsr_ctx *ctx, const char *path, const char *numerics, bool offloaded,
                               tsr_arena *arena) {
    const tsr_program made = offloaded ? make_offloaded() : toy_program;
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
    TRY(ctx, tsr_program_encode(ctx, &made, arena, &program, &program_size));
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
    if (argc < 2 || argc > 4) return 2;
    tsr_result result = write_bundle(&ctx, argv[1], argc >= 3 ? argv[2] : NULL, argc == 4, &arena);
    if (result.code) fprintf(stderr, "%s\n", ctx.error.text);
    tsr_arena_finish(&arena);
    return result.code;
}
