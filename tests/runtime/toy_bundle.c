/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the toy as a bundle for a GPU: toy_bundle FILE [NUMERICS [away|ranks]]. Its machine code
 * is text: fake_gpu.c runs the kernels of toy.c instead. Its schedule says that one kernel is a
 * product. away: the mean is offloaded to host memory, and its buffer is overwritten during that
 * time. ranks: the batch has four times as many rows, for four virtual ranks; the parameter moves a
 * tenth of the way to the sum of their means.
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

enum {
    W = 1,
    MEAN = 3,
    COPY = 5,
    OFFLOADED_COPY,
    BUFFERS
}; /* buffer indices of the toy's training */

static tsr_program make_offloaded(void) {
    static uint32_t offload[] = {OFFLOADED_COPY, MEAN}, spoil[] = {MEAN, W},
                    prefetch[] = {COPY, OFFLOADED_COPY};
    static tsr_program_command commands[] = {
        {TSR_OP_LAUNCH, 0, 0, 0, 0, 0, NULL, "", 0, 0},
        {TSR_OP_OFFLOAD, 0, 0, 0, 2, 0, offload, "toy.mlir:4:1", 0, 0},
        {TSR_OP_AWAIT, 1, 0, 0, 0, 0, offload, "", 0, 0},
        {TSR_OP_COPY, 0, 0, 0, 2, 0, spoil, "", 0, 0},
        {TSR_OP_PREFETCH, 0, 0, 0, 2, 0, prefetch, "", 0, 0},
        {TSR_OP_AWAIT, 4, 0, 0, 0, 0, offload, "", 0, 0},
        {TSR_OP_LAUNCH, 0, 0, 0, 0, 0, NULL, "", 0, 0}};
    static tsr_program_buffer buffers[BUFFERS];
    static tsr_program_entry entries[2];
    tsr_program program = toy_program;
    memcpy(entries, toy_program.entries, sizeof entries);
    tsr_program_entry *train = &entries[TOY_TRAIN];
    memcpy(buffers, train->buffers, OFFLOADED_COPY * sizeof *buffers);
    buffers[OFFLOADED_COPY] = buffers[MEAN];
    buffers[OFFLOADED_COPY].space = TSR_SPACE_HOST;
    buffers[OFFLOADED_COPY].offset_bytes = 0;
    commands[0] = train->commands[0];
    commands[6] = train->commands[2];
    train->buffers = buffers;
    train->buffer_count = BUFFERS;
    train->commands = commands;
    train->command_count = TSR_COUNT(commands);
    program.entries = entries;
    return program;
}

enum { VRANKS = 4, ADD = 3 /* number of the kernel */ };

static tsr_program make_for_ranks(void) {
    enum { X, OWN_LOSS, OWN_MEAN, LOSS_SUM, MEAN_SUM, PARAM, COUNT, LOSS, BUFFER_COUNT };
    static tsr_program_buffer buffers[BUFFER_COUNT] = {
        [X] = {TSR_SPACE_INPUT, 0, 0, TSR_DTYPE_UI8, {2, {2, 4}}, "x", 0},
        [OWN_LOSS] = {TSR_SPACE_VRANK, 0, 0, TSR_DTYPE_F32, {0, {0}}, "", 0},
        [OWN_MEAN] = {TSR_SPACE_VRANK, 0, 64, TSR_DTYPE_F32, {1, {4}}, "", 0},
        [LOSS_SUM] = {TSR_SPACE_SUMS, 0, 0, TSR_DTYPE_F32, {0, {0}}, "", 0},
        [MEAN_SUM] = {TSR_SPACE_SUMS, 0, 64, TSR_DTYPE_F32, {1, {4}}, "", 0},
        [PARAM] = {TSR_SPACE_TENSOR, 0, 0, TSR_DTYPE_F32, {1, {4}}, "w", 0},
        [COUNT] = {TSR_SPACE_TENSOR, 1, 0, TSR_DTYPE_I64, {0, {0}}, "w.count", 0},
        [LOSS] = {TSR_SPACE_OUTPUT, 0, 0, TSR_DTYPE_F32, {0, {0}}, "loss", 0}};
    static uint32_t mean[] = {X, PARAM, OWN_LOSS, OWN_MEAN}, loss_sum[] = {LOSS_SUM, OWN_LOSS},
                    mean_sum[] = {MEAN_SUM, OWN_MEAN}, show[] = {LOSS, LOSS_SUM},
                    update[] = {MEAN_SUM, PARAM, COUNT};
    static tsr_program_command commands[] = {
        {TSR_OP_EACH_VRANK, 0, 3, 0, 0, 0, NULL, "", 0, 0},
        {TSR_OP_LAUNCH, 0, 1, 0, 4, 2, mean, "toy.mlir:3:5", 0, 0},
        {TSR_OP_VRANK_SUM, ADD, 1, 0, 2, 0, loss_sum, "", 0, 0},
        {TSR_OP_VRANK_SUM, ADD, 4, 0, 2, 0, mean_sum, "", 0, 0},
        {TSR_OP_COPY, 0, 0, 0, 2, 0, show, "", 0, 0},
        {TSR_OP_LAUNCH, 1, 4, 0, 3, 1, update, "", 0, 0}};
    static const char *names[] = {"mean", "update", "twice", "add"};
    static tsr_program_entry entries[2];
    tsr_program program = toy_program;
    memcpy(entries, toy_program.entries, sizeof entries);
    entries[TOY_TRAIN].buffers = buffers;
    entries[TOY_TRAIN].buffer_count = BUFFER_COUNT;
    entries[TOY_TRAIN].commands = commands;
    entries[TOY_TRAIN].command_count = TSR_COUNT(commands);
    entries[TOY_TRAIN].workspace_bytes = 0;
    program.entries = entries;
    program.kernels = names;
    program.kernel_count = TSR_COUNT(names);
    return program;
}

static void give_vranks(tsr_config *config) {
    static tsr_config_entry entries[2];
    static tsr_config_port inputs[2];
    memcpy(entries, toy_config.entries, sizeof entries);
    memcpy(inputs, entries[TOY_TRAIN].inputs, sizeof inputs);
    inputs[0].shape.dims[0] *= VRANKS;
    entries[TOY_TRAIN].inputs = inputs;
    entries[TOY_TRAIN].batch *= VRANKS;
    config->entries = entries;
    config->virtual_ranks = VRANKS;
}

static tsr_result write_bundle(tsr_ctx *ctx, const char *path, const char *numerics,
                               const char *form, tsr_arena *arena) {
    bool for_ranks = strcmp(form, "ranks") == 0;
    const tsr_program made = for_ranks               ? make_for_ranks()
                             : strcmp(form, "plain") ? make_offloaded()
                                                     : toy_program;
    static const tsr_fatbin_kernel kernels[] = {
        {.threads = 128, .programs = 4},
        {.threads = 128, .programs = 4},
        {.threads = 32, .programs = 1, .map_count = 1, .maps = {TOY_MAP}},
        {.threads = 128, .programs = 4}};
    static const tsr_fatbin_image images[] = {{TSR_FATBIN_CUBIN, 90, true, "cubin90a", 9}};
    const tsr_fatbin fatbin = {kernels, (uint32_t)made.kernel_count, images, 1};
    void *program = NULL, *code = NULL;
    size_t program_size = 0, code_size = 0, config_size = 0;
    char *config = NULL;
    tsr_config changed = toy_config;
    if (numerics) changed.numerics = numerics;
    if (for_ranks) give_vranks(&changed);
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
    tsr_result result = write_bundle(&ctx, argv[1], argc >= 3 ? argv[2] : NULL,
                                     argc == 4 ? argv[3] : "plain", &arena);
    if (result.code) fprintf(stderr, "%s\n", ctx.error.text);
    tsr_arena_finish(&arena);
    return result.code;
}
