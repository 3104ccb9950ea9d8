/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry client on the command line, without the compiler, so that the scripts of this folder
 * run under the sanitizers too. push and pull are those of tessera-aot, flag by flag:
 *   push FILE REF [flags] | pull REF -o OUT [flags]
 *   make PATH WEIGHTS_MIB WEIGHTS_SEED CHANGED_MIB KERNEL_SEED: a bundle of three targets; the seed
 *     of the weights holds but for the first CHANGED_MIB, whose content the kernels' seed decides
 */
#include "bundle/bundle.h"
#include "tools/aot/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    tsr_result (*run)(tsr_ctx *ctx, int argc, char **argv);
} commands[] = {{"push", tsr_aot_push}, {"pull", tsr_aot_pull}};

tsr_result tsr_aot_parse(tsr_ctx *ctx, int argc, char **argv, const tsr_aot_command_line *line,
                         bool *out_done) {
    const char *words[64];
    size_t count = 0, wanted = 0;
    while (line->positional[wanted]) wanted++;
    *out_done = false;
    if (argc > 64) FAIL(ctx, TSR_USAGE, "%s: at most 64 arguments", line->name);
    TRY(ctx, tsr_flags_parse(ctx, argc, argv, line->flags, line->flag_count, words, &count));
    if (count != wanted)
        FAIL(ctx, TSR_USAGE, "%s: expected %zu arguments, got %zu", line->name, wanted, count);
    for (size_t i = 0; i < wanted; i++) line->out_words[i] = words[i];
    return TSR_SUCCESS;
}

/* SplitMix64: bytes that do not repeat. */
static void fill(void *bytes, size_t size_bytes, uint64_t seed) {
    unsigned char *out = bytes;
    for (size_t i = 0; i < size_bytes; i += 8) {
        uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
        memcpy(out + i, &z, size_bytes - i < 8 ? size_bytes - i : 8);
    }
}

static void *random_bytes(size_t size_bytes, uint64_t seed) {
    void *bytes = malloc(size_bytes);
    if (!bytes) {
        fprintf(stderr, "registry_tool: no memory\n");
        exit(TSR_MEMORY);
    }
    fill(bytes, size_bytes, seed);
    return bytes;
}

static tsr_result make(tsr_ctx *ctx, const char *path, const uint64_t *numbers) {
    enum { KERNEL_BYTES = 80000, PROGRAM_BYTES = 3000 };
    static const char *const names[] = {"cpu:x86-64-v2", "cpu:x86-64-v3", "cuda:sm_90a"};
    uint64_t mib = numbers[0], weights_seed = numbers[1], changed = numbers[2], seed = numbers[3];
    size_t size = (size_t)(mib << 20) + 4097;
    tsr_bundle_blob own[3][2], shared[2];
    tsr_bundle_target targets[3];
    char *weights = random_bytes(size, weights_seed);
    fill(weights, (size_t)(changed << 20), seed + 1000);
    shared[0] = (tsr_bundle_blob){.media_type = TSR_MEDIA_IR,
                                  .title = "program.mlir",
                                  .bytes = "module {}\n",
                                  .size_bytes = 10};
    shared[1] = (tsr_bundle_blob){.media_type = TSR_MEDIA_WEIGHTS,
                                  .title = "a.safetensors",
                                  .bytes = weights,
                                  .size_bytes = size};
    for (size_t i = 0; i < 3; i++) {
        own[i][0] = (tsr_bundle_blob){.media_type = TSR_MEDIA_PROGRAM,
                                      .bytes = random_bytes(PROGRAM_BYTES, seed * 8 + i),
                                      .size_bytes = PROGRAM_BYTES};
        own[i][1] = (tsr_bundle_blob){.media_type = i == 2 ? TSR_MEDIA_FATBIN : TSR_MEDIA_ELF,
                                      .bytes = random_bytes(KERNEL_BYTES, seed * 8 + 4 + i),
                                      .size_bytes = KERNEL_BYTES};
        targets[i] = (tsr_bundle_target){names[i], own[i], 2};
    }
    const tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                                  .config = "{}",
                                  .config_size_bytes = 2,
                                  .blobs = shared,
                                  .blob_count = 2,
                                  .targets = targets,
                                  .target_count = 3};
    tsr_result result = tsr_bundle_write(ctx, path, &spec);
    for (size_t i = 0; i < 6; i++) free((void *)(uintptr_t)own[i / 2][i % 2].bytes);
    free(weights);
    return result;
}

static tsr_result run(tsr_ctx *ctx, int argc, char **argv) {
    const char *verb = argc > 1 ? argv[1] : "";
    if (argc == 7 && strcmp(verb, "make") == 0) {
        uint64_t numbers[4];
        for (size_t i = 0; i < 4; i++) numbers[i] = strtoull(argv[3 + i], NULL, 10);
        return make(ctx, argv[2], numbers);
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, verb) == 0) return commands[i].run(ctx, argc - 2, argv + 2);
    FAIL(ctx, TSR_USAGE, "push FILE REF | pull REF -o OUT | make PATH MIB SEED CHANGED SEED");
}

int main(int argc, char **argv) {
    static const char tool[] = "tessera-aot"; /* what it stands for */
    tsr_ctx ctx = {
        .log = tsr_tool_log, .log_user = (void *)(uintptr_t)tool, .log_level = TSR_LOG_NOTICE};
    tsr_tool_begin();
    return tsr_tool_finish(&ctx, tool, run(&ctx, argc, argv));
}
