/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed of the state store beside that of the disk below it, in one run.
 *
 *     store_bench FOLDER MIB
 *
 * Needs three times MIB mebibytes in FOLDER, which must not have a store-bench folder; what is
 * written is removed at the end. Each round takes the store and the reference one after the other;
 * figures are medians. Prints one JSON object:
 *
 *     persist       a save of MIB, to acknowledged, as a share of the speed of writing the same
 *                   bytes to one new file past the page cache in blocks of 8 MiB, with one fsync
 *     recover       opening a store of MIB, every byte verified, and loading it, as a share of the
 *                   speed of reading its segment past the page cache
 *     commit_4_kib  time of a save of 4 KiB over that of write, fsync, rename of a file of 4 KiB
 *     stall_4_kib, stall   what the caller of such a save waits, over a step of 100 ms
 *     write_gb_s, read_gb_s   the references, in 1e9 bytes a second
 */
#include "runtime/store.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5, COMMITS = 51, BLOCK_BYTES = 8 << 20, PATH_BYTES = 4096, MIB_MAX = 4096 };
static const double step_seconds = 0.1;

typedef struct bench {
    tsr_ctx ctx;
    char folder[PATH_BYTES], store[PATH_BYTES], file[PATH_BYTES], renamed[PATH_BYTES];
    uint8_t *bytes, *block; /* block is aligned for the disk */
    size_t size_bytes;
} bench;

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_doubles);
    return values[count / 2];
}

/* ---- references ---- */

static TSR_RESULT write_plain(bench *b, const char *path, size_t size_bytes, int flags,
                              double *out_seconds) {
    double start = now_seconds();
    bool good = true;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0644);
    for (size_t at = 0; fd >= 0 && good && at < size_bytes; at += BLOCK_BYTES) {
        size_t size = size_bytes - at < BLOCK_BYTES ? size_bytes - at : BLOCK_BYTES;
        good = pwrite(fd, b->bytes + at, size, (off_t)at) == (ssize_t)size;
    }
    good = good && fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) close(fd);
    *out_seconds = now_seconds() - start;
    if (!good) FAIL(&b->ctx, TSR_IO, "cannot write '%s'", path);
    return TSR_SUCCESS;
}

static TSR_RESULT read_plain(bench *b, const char *path, double *out_seconds) {
    double start = now_seconds();
    size_t at = 0;
    ssize_t part = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    while (fd >= 0 && (part = pread(fd, b->block, BLOCK_BYTES, (off_t)at)) > 0) at += (size_t)part;
    if (fd >= 0) close(fd);
    *out_seconds = now_seconds() - start;
    if (at != b->size_bytes) FAIL(&b->ctx, TSR_IO, "cannot read '%s'", path);
    return TSR_SUCCESS;
}

static TSR_RESULT replace_plain(bench *b, double *out_seconds) {
    double start = now_seconds(), ignored;
    TRY(&b->ctx, write_plain(b, b->file, 4096, 0, &ignored));
    if (rename(b->file, b->renamed)) FAIL(&b->ctx, TSR_IO, "cannot rename '%s'", b->file);
    *out_seconds = now_seconds() - start;
    return TSR_SUCCESS;
}

/* ---- the store ---- */

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static TSR_RESULT open_store(bench *b, const tsr_tensor *tensor, tsr_store **out_store) {
    const tsr_store_options options = {.size_bytes = sizeof options,
                                       .directory = b->store,
                                       .keep = 2,
                                       .region = "bench",
                                       .tensors = tensor,
                                       .tensor_count = 1};
    tsr_recovery recovery;
    return tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, out_store, &recovery);
}

static TSR_RESULT save(bench *b, tsr_store *store, uint64_t step, tsr_save_status *out_status) {
    const tsr_position position = {.step = step, .virtual_ranks = 1};
    TRY(&b->ctx, tsr_store_save(&b->ctx, store, &position));
    *out_status = tsr_store_wait(store);
    if (out_status->committed_count != step) FAIL(&b->ctx, TSR_SAVE, "save %d failed", (int)step);
    return TSR_SUCCESS;
}

static TSR_RESULT measure_large(bench *b, double out_figures[static 5]) {
    tsr_tensor tensor = {"w", TSR_DTYPE_UI8, {1, {b->size_bytes}}, b->bytes};
    double persist[ROUNDS], stall[ROUNDS], recover[ROUNDS], writing[ROUNDS], reading[ROUNDS];
    char segment[PATH_BYTES + 64];
    tsr_store *store = NULL;
    tsr_result result = open_store(b, &tensor, &store);
    TRY(&b->ctx, result);
    TRY_GOTO(&b->ctx, result, tsr_store_reserve(&b->ctx, store, &tensor, 1));
    for (uint64_t i = 0; i < ROUNDS; i++) {
        tsr_save_status status;
        unlink(b->file);
        TRY_GOTO(&b->ctx, result, write_plain(b, b->file, b->size_bytes, O_DIRECT, &writing[i]));
        TRY_GOTO(&b->ctx, result, save(b, store, i + 1, &status));
        persist[i] = status.persist_seconds;
        stall[i] = status.stall_seconds;
    }
    tsr_store_close(&b->ctx, store);
    store = NULL;
    snprintf(segment, sizeof segment, "%s/gen/1-%d/segment.0", b->store, ROUNDS);
    for (size_t i = 0; i < ROUNDS; i++) {
        TRY_GOTO(&b->ctx, result, read_plain(b, segment, &reading[i]));
        double start = now_seconds();
        TRY_GOTO(&b->ctx, result, open_store(b, &tensor, &store));
        TRY_GOTO(&b->ctx, result, tsr_store_load(&b->ctx, store, &tensor, 1));
        recover[i] = now_seconds() - start;
        tsr_store_close(&b->ctx, store);
        store = NULL;
    }
    out_figures[0] = median(persist, ROUNDS);
    out_figures[1] = median(writing, ROUNDS);
    out_figures[2] = median(recover, ROUNDS);
    out_figures[3] = median(reading, ROUNDS);
    out_figures[4] = median(stall, ROUNDS);
done:
    tsr_store_close(&b->ctx, store);
    return result;
}

static TSR_RESULT measure_small(bench *b, double out_figures[static 3]) {
    const tsr_tensor tensor = {"w", TSR_DTYPE_UI8, {1, {4096}}, b->bytes};
    double persist[COMMITS], stall[COMMITS], replace[COMMITS];
    tsr_store *store = NULL;
    tsr_result result = open_store(b, &tensor, &store);
    TRY(&b->ctx, result);
    TRY_GOTO(&b->ctx, result, tsr_store_reserve(&b->ctx, store, &tensor, 1));
    for (uint64_t i = 0; i < COMMITS; i++) {
        tsr_save_status status;
        TRY_GOTO(&b->ctx, result, replace_plain(b, &replace[i]));
        TRY_GOTO(&b->ctx, result, save(b, store, i + 1, &status));
        persist[i] = status.persist_seconds;
        stall[i] = status.stall_seconds;
    }
    out_figures[0] = median(persist, COMMITS);
    out_figures[1] = median(replace, COMMITS);
    out_figures[2] = median(stall, COMMITS);
done:
    tsr_store_close(&b->ctx, store);
    return result;
}

static TSR_RESULT measure(bench *b) {
    double large[5] = {0}, small[3] = {0};
    double gigabytes = (double)b->size_bytes * 1e-9;
    snprintf(b->store, sizeof b->store, "%.4000s/small", b->folder);
    TRY(&b->ctx, measure_small(b, small));
    snprintf(b->store, sizeof b->store, "%.4000s/large", b->folder);
    TRY(&b->ctx, measure_large(b, large));
    printf("{\"persist\": %.3f, \"recover\": %.3f, \"commit_4_kib\": %.3f, \"stall_4_kib\": %.5f, "
           "\"stall\": %.3f, \"write_gb_s\": %.3f, \"read_gb_s\": %.3f}\n",
           large[1] / large[0], large[3] / large[2], small[0] / small[1], small[2] / step_seconds,
           large[4] / step_seconds, gigabytes / large[1], gigabytes / large[3]);
    return TSR_SUCCESS;
}

int main(int argc, char **argv) {
    char *end = NULL;
    bench b = {.bytes = NULL};
    long mib = argc == 3 ? strtol(argv[2], &end, 10) : 0;
    if (mib < 8 || mib > MIB_MAX || *end || strlen(argv[1]) > PATH_BYTES - 128) {
        fprintf(stderr, "usage: store_bench FOLDER MIB (8 to %d)\n", MIB_MAX);
        return TSR_USAGE;
    }
    snprintf(b.folder, sizeof b.folder, "%.3900s/store-bench", argv[1]);
    snprintf(b.file, sizeof b.file, "%.4000s/plain", b.folder);
    snprintf(b.renamed, sizeof b.renamed, "%.4000s/renamed", b.folder);
    b.size_bytes = (size_t)mib << 20;
    b.bytes = aligned_alloc(4096, b.size_bytes);
    b.block = aligned_alloc(4096, BLOCK_BYTES);
    if (!b.bytes || !b.block || mkdir(b.folder, 0755)) {
        fprintf(stderr, "store_bench: no memory, or cannot create '%s'\n", b.folder);
        return TSR_IO;
    }
    /* Weyl sequence: no two blocks are equal, nothing to compress. */
    for (uint64_t i = 0, state = 0; i + 8 <= b.size_bytes; i += 8) {
        state += 0x9e3779b97f4a7c15u;
        memcpy(b.bytes + i, &state, sizeof state);
    }
    memset(b.block, 0, BLOCK_BYTES);
    tsr_result result = measure(&b);
    if (result.code) fprintf(stderr, "store_bench: %s\n", b.ctx.error.text);
    if (nftw(b.folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS))
        fprintf(stderr, "store_bench: '%s' is left\n", b.folder);
    free(b.bytes);
    free(b.block);
    return (int)result.code;
}
