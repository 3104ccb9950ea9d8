/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scripts in this folder need besides tessera-aot. push and pull are its commands, in a
 * program that also fits into little address space:
 *   push FILE REF [flags] | pull REF -o OUT [flags]
 *   faults REF OUT: pulls repeatedly; the first, second, third … file operation fails
 *   make PATH WEIGHTS_MIB WEIGHTS_SEED CHANGED_MIB KERNEL_SEED: a bundle of three targets. The seed
 *     of the weights determines all but the first CHANGED_MIB, which the kernels' seed determines
 */
#include "bundle/bundle.h"
#include "runtime/base/array.h"
#include "runtime/base/io/io.h"
#include "tools/aot/remote.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    tsr_result (*run)(tsr_ctx *ctx, int argc, char **argv);
} commands[] = {{"push", tsr_aot_push}, {"pull", tsr_aot_pull}};

tsr_result tsr_aot_parse(tsr_ctx *ctx, int argc, char **argv, const tsr_aot_command_line *line,
                         bool *out_done) {
    const char *words[64];
    size_t count = 0, wanted = 0;
    while (line->positional[wanted].name) wanted++;
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

/* ---- failing file operations ---- */

static atomic_int countdown; /* the next operation fails when this is 1 */

static bool fails(void) { return atomic_fetch_sub(&countdown, 1) == 1; }

static int faulty_open(void *self, int dir, const char *path, int flags, mode_t mode) {
    const tsr_io *io = tsr_io_system();
    (void)self;
    return fails() ? -EMFILE : io->open(io->self, dir, path, flags, mode);
}
static ssize_t faulty_pread(void *self, int fd, void *bytes, size_t size, off_t offset) {
    const tsr_io *io = tsr_io_system();
    (void)self;
    return fails() ? -EIO : io->pread(io->self, fd, bytes, size, offset);
}
static ssize_t faulty_pwrite(void *self, int fd, const void *bytes, size_t size, off_t offset) {
    const tsr_io *io = tsr_io_system();
    (void)self;
    return fails() ? -ENOSPC : io->pwrite(io->self, fd, bytes, size, offset);
}
static int faulty_fsync(void *self, int fd) {
    (void)self;
    return fails() ? -EIO : tsr_io_system()->fsync(NULL, fd);
}
static int faulty_fallocate(void *self, int fd, off_t size) {
    (void)self;
    return fails() ? -ENOSPC : tsr_io_system()->fallocate(NULL, fd, size);
}
static int faulty_ftruncate(void *self, int fd, off_t size) {
    (void)self;
    return fails() ? -EFBIG : tsr_io_system()->ftruncate(NULL, fd, size);
}
static int faulty_fstat(void *self, int fd, struct stat *out_stat) {
    (void)self;
    return fails() ? -EIO : tsr_io_system()->fstat(NULL, fd, out_stat);
}
static int faulty_rename(void *self, int dir, const char *from, const char *to) {
    (void)self;
    return fails() ? -EACCES : tsr_io_system()->rename(NULL, dir, from, to);
}
static int faulty_unlink(void *self, int dir, const char *path, int flags) {
    (void)self;
    return fails() ? -EACCES : tsr_io_system()->unlink(NULL, dir, path, flags);
}
static int faulty_lock(void *self, int fd) {
    (void)self;
    return fails() ? -EIO : tsr_io_system()->lock(NULL, fd);
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

/* Whichever operation fails: either an error and no file, or success and a complete file. */
static tsr_result faults(tsr_ctx *ctx, const char *reference, const char *path) {
    tsr_io io = *tsr_io_system();
    const tsr_registry_options options = {
        .size_bytes = sizeof options, .jobs = 1, .no_retries = true};
    const tsr_bundle_open_options strict = {.size_bytes = sizeof strict, .strict = true};
    tsr_registry_report report;
    int failed = 0;
    io.open = faulty_open, io.pread = faulty_pread, io.pwrite = faulty_pwrite;
    io.fsync = faulty_fsync, io.fallocate = faulty_fallocate, io.ftruncate = faulty_ftruncate;
    io.fstat = faulty_fstat, io.rename = faulty_rename, io.unlink = faulty_unlink;
    io.lock = faulty_lock;
    for (int nth = 1;; nth++) {
        tsr_ctx faulty = {.io = &io};
        tsr_bundle *bundle = NULL;
        atomic_store(&countdown, nth);
        tsr_result result = tsr_registry_pull(&faulty, reference, path, &options, NULL, &report);
        bool met = atomic_load(&countdown) <= 0, there = exists(path);
        if (there) {
            TRY(ctx, tsr_bundle_open(ctx, path, &strict, &bundle));
            tsr_bundle_close(ctx, bundle);
        }
        if (result.code && (!met || !faulty.error.text[0]))
            FAIL(ctx, TSR_INTERNAL, "operation %d: code %d without a reason: '%s'", nth,
                 result.code, faulty.error.text);
        if (!result.code && !there) FAIL(ctx, TSR_INTERNAL, "operation %d: success, no file", nth);
        failed += result.code != 0;
        unlink(path);
        if (!met) break;
    }
    printf("%d operations failed, each told\n", failed);
    return TSR_SUCCESS;
}

static tsr_result run(tsr_ctx *ctx, int argc, char **argv) {
    const char *verb = argc > 1 ? argv[1] : "";
    if (argc == 7 && strcmp(verb, "make") == 0) {
        uint64_t numbers[4];
        for (size_t i = 0; i < 4; i++) numbers[i] = strtoull(argv[3 + i], NULL, 10);
        return make(ctx, argv[2], numbers);
    }
    if (argc == 4 && strcmp(verb, "faults") == 0) return faults(ctx, argv[2], argv[3]);
    for (size_t i = 0; i < TSR_COUNT(commands); i++)
        if (strcmp(commands[i].name, verb) == 0) return commands[i].run(ctx, argc - 2, argv + 2);
    FAIL(ctx, TSR_USAGE, "push FILE REF | pull REF -o OUT | make PATH MIB SEED CHANGED SEED");
}

int main(int argc, char **argv) {
    static const char tool[] = "tessera-aot"; /* the tool that this one replaces */
    tsr_ctx ctx = {
        .log = tsr_tool_log, .log_user = (void *)(uintptr_t)tool, .log_level = TSR_LOG_NOTICE};
    tsr_tool_begin();
    return tsr_tool_finish(&ctx, tool, run(&ctx, argc, argv));
}
