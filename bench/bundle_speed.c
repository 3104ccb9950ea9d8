/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares packing, verifying and loading a bundle with the operations that they consist of, in one
 * run.
 *
 *     bundle_speed FOLDER MIB
 *
 * Writes a bundle with one blob of MIB mebibytes to FOLDER (removed at the end), so that it is in
 * the page cache, and takes the median of several rounds of each operation:
 *   hash         OpenSSL's SHA-256 over the same bytes in memory, flat, on one thread
 *   leaves       the tree of leaves over the same bytes, as in chunk tables, on one thread and all
 *   write        the same bytes written to a file, and fsync
 *   pack         the bundle written, and fsync
 *   read         the blob read into memory without verification, on one thread and on all
 *   load         the same, verified
 *   verify       every chunk on one thread and on all; full: the blob's digest too
 *   open         the bundle opened: index, manifests, config, chunk table
 * Prints one JSON object; speeds are in GB/s (1e9 bytes), times in ms.
 */
#include "bench/median.h"
#include "bench/weights.h"
#include "runtime/base/array.h"
#include "runtime/base/clock.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 5, PATH_BYTES = 4096, MIB_MAX = 4000, THREADS_MAX = 64, WINDOW = 256 * 1024 };

typedef struct bench {
    tsr_ctx *ctx;
    char path[PATH_BYTES], plain[PATH_BYTES];
    unsigned char *bytes, *buffer;
    size_t size_bytes;
    tsr_bundle *bundle;
    tsr_bundle_layer layer;
    unsigned cpus;
} bench;

typedef tsr_result (*timed_fn)(bench *b, unsigned threads);

/* Returns the median of the rounds; stops at the first failure. */
static TSR_RESULT time_it(bench *b, timed_fn run, unsigned threads, double *out_seconds) {
    double rounds[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        double start = tsr_clock_seconds();
        TRY(b->ctx, run(b, threads));
        rounds[i] = tsr_clock_seconds() - start;
    }
    *out_seconds = median_of(rounds, ROUNDS);
    return TSR_SUCCESS;
}

static tsr_result run_hash(bench *b, unsigned threads) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    (void)threads;
    if (!EVP_Digest(b->bytes, b->size_bytes, digest, NULL, EVP_sha256(), NULL))
        FAIL(b->ctx, TSR_INTERNAL, "SHA-256 of OpenSSL failed");
    return TSR_SUCCESS;
}

/* ---- a range of the blob on each thread ---- */

typedef struct part {
    const bench *b;
    size_t begin, end;
    int fd; /* -1: hash, else read from it */
    bool failed;
    pthread_t thread;
} part;

static void *run_part(void *user) {
    part *p = user;
    tsr_ctx ctx = tsr_ctx_fork(p->b->ctx);
    if (p->fd < 0) {
        tsr_digest digest = tsr_hash_tree(p->b->bytes + p->begin, p->end - p->begin);
        p->failed = digest.bytes[0] == 0 && digest.bytes[1] == 0 && digest.bytes[2] == 0;
        return NULL;
    }
    for (size_t at = p->begin; at < p->end && !p->failed; at += WINDOW) {
        size_t size = p->end - at < WINDOW ? p->end - at : WINDOW;
        p->failed = tsr_io_read_exact(&ctx, p->fd, p->b->path, p->b->buffer + at, size,
                                      p->b->layer.offset_bytes + at)
                        .code != TSR_OK;
    }
    return NULL;
}

static tsr_result run_parts(bench *b, unsigned threads, int fd) {
    part parts[THREADS_MAX];
    bool failed = false;
    size_t share = (b->size_bytes / threads + TSR_HASH_CHUNK_BYTES - 1) / TSR_HASH_CHUNK_BYTES *
                   TSR_HASH_CHUNK_BYTES;
    for (unsigned i = 0; i < threads; i++) {
        size_t begin = i * share < b->size_bytes ? i * share : b->size_bytes;
        size_t end = begin + share < b->size_bytes ? begin + share : b->size_bytes;
        parts[i] = (part){.b = b, .begin = begin, .end = end, .fd = fd};
        if (i && pthread_create(&parts[i].thread, NULL, run_part, &parts[i]) != 0)
            FAIL(b->ctx, TSR_INTERNAL, "cannot start a thread");
    }
    run_part(&parts[0]);
    for (unsigned i = 1; i < threads; i++) pthread_join(parts[i].thread, NULL);
    for (unsigned i = 0; i < threads; i++) failed |= parts[i].failed;
    if (failed) FAIL(b->ctx, TSR_IO, "a thread failed on '%s'", b->path);
    return TSR_SUCCESS;
}

static tsr_result run_leaves(bench *b, unsigned threads) { return run_parts(b, threads, -1); }

static tsr_result run_read(bench *b, unsigned threads) {
    int fd = open(b->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) FAIL(b->ctx, TSR_IO, "cannot open '%s'", b->path);
    tsr_result result = run_parts(b, threads, fd);
    close(fd);
    return result;
}

/* ---- the bundle ---- */

static tsr_result run_write(bench *b, unsigned threads) {
    (void)threads;
    int fd = open(b->plain, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) FAIL(b->ctx, TSR_IO, "cannot write '%s'", b->plain);
    tsr_result result = tsr_io_write_all(b->ctx, fd, b->plain, b->bytes, b->size_bytes, 0);
    if (!result.code && fsync(fd) != 0)
        result = tsr_fail_(b->ctx, TSR_IO, 0, __FILE__, __LINE__, "cannot sync '%s'", b->plain);
    close(fd);
    unlink(b->plain);
    return result;
}

static tsr_result run_pack(bench *b, unsigned threads) {
    (void)threads;
    return weights_write(b->ctx, b->path, b->bytes, b->size_bytes);
}

static tsr_result run_open(bench *b, unsigned threads) {
    tsr_bundle *bundle = NULL;
    (void)threads;
    TRY(b->ctx, tsr_bundle_open(b->ctx, b->path, NULL, &bundle));
    tsr_bundle_close(b->ctx, bundle);
    return TSR_SUCCESS;
}

static tsr_result run_load(bench *b, unsigned threads) {
    const tsr_bundle_segment all = {0, b->size_bytes, b->buffer};
    return tsr_bundle_read_segments(b->ctx, b->bundle, &b->layer, &all, 1, threads);
}

static tsr_result run_verify(bench *b, unsigned threads) {
    tsr_bundle_verify_report report;
    return tsr_bundle_verify(b->ctx, b->bundle, threads, &report);
}

static tsr_result run_full(bench *b, unsigned threads) {
    tsr_bundle_verify_report report;
    return tsr_bundle_verify_full(b->ctx, b->bundle, threads, &report);
}

static TSR_RESULT measure(bench *b) {
    static const struct {
        const char *name;
        timed_fn run;
        bool all, milliseconds; /* all: on all CPUs; milliseconds: a time, not a speed */
    } rows[] = {
        {"hash", run_hash, false, false},        {"leaves_1", run_leaves, false, false},
        {"leaves_all", run_leaves, true, false}, {"write", run_write, false, false},
        {"pack", run_pack, true, false},         {"open_ms", run_open, false, true},
        {"read_1", run_read, false, false},      {"read_all", run_read, true, false},
        {"load_1", run_load, false, false},      {"load_all", run_load, true, false},
        {"verify_1", run_verify, false, false},  {"verify_all", run_verify, true, false},
        {"full_all", run_full, true, false},
    };
    double seconds = 0;
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        if (rows[i].run == run_open) {
            TRY(b->ctx, tsr_bundle_open(b->ctx, b->path, NULL, &b->bundle));
            b->layer = tsr_bundle_get_layer(b->bundle, 0, 0);
        }
        TRY(b->ctx, time_it(b, rows[i].run, rows[i].all ? b->cpus : 1, &seconds));
        printf("%s\"%s\": %.3f", i ? ", " : "{", rows[i].name,
               rows[i].milliseconds ? seconds * 1e3 : (double)b->size_bytes * 1e-9 / seconds);
    }
    printf("}\n");
    return TSR_SUCCESS;
}

/* Weyl sequence: no two leaves are equal, and nothing compresses. */
static void fill(unsigned char *bytes, size_t size_bytes) {
    uint64_t state = 0;
    for (size_t i = 0; i + 8 <= size_bytes; i += 8) {
        state += 0x9e3779b97f4a7c15u;
        memcpy(bytes + i, &state, sizeof state);
    }
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {0};
    bench b = {.ctx = &ctx};
    char *end = NULL;
    long mib = argc == 3 ? strtol(argv[2], &end, 10) : 0, cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (mib < 1 || mib > MIB_MAX || *end ||
        snprintf(b.path, sizeof b.path, "%s/bundle-speed.tsb", argv[1]) >= (int)sizeof b.path ||
        snprintf(b.plain, sizeof b.plain, "%s/bundle-speed.raw", argv[1]) >= (int)sizeof b.plain) {
        fprintf(stderr, "usage: bundle_speed FOLDER MIB (1 to %d)\n", MIB_MAX);
        return TSR_USAGE;
    }
    b.cpus = cpus < 1 ? 1 : cpus > THREADS_MAX ? THREADS_MAX : (unsigned)cpus;
    b.size_bytes = (size_t)mib << 20;
    b.bytes = malloc(b.size_bytes);
    b.buffer = calloc(b.size_bytes, 1);
    if (!b.bytes || !b.buffer) {
        fprintf(stderr, "bundle_speed: no memory for %zu bytes\n", b.size_bytes);
        return TSR_MEMORY;
    }
    fill(b.bytes, b.size_bytes);
    memset(b.buffer, 1, b.size_bytes);
    tsr_result result = measure(&b);
    if (result.code) fprintf(stderr, "bundle_speed: %s\n", ctx.error.text);
    tsr_bundle_close(&ctx, b.bundle);
    unlink(b.path);
    free(b.bytes);
    free(b.buffer);
    return (int)result.code;
}
