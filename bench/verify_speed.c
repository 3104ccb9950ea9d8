/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed of verifying a bundle beside that of the hash itself, in one run.
 *
 *     verify_speed FOLDER MIB
 *
 * Writes a bundle with one blob of MIB mebibytes to FOLDER (removed at the end), so that it lies in
 * the page cache, and takes the median of several rounds each of: OpenSSL's SHA-256 over the same
 * bytes in memory, flat, on one thread; the bundle opened and verified on one thread, and on all.
 * Prints one JSON object; speeds are in GB/s (1e9 bytes).
 */
#include "bundle/bundle.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5, PATH_BYTES = 4096, MIB_MAX = 4096 };

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

static double hash_seconds(const void *bytes, size_t size_bytes) {
    double rounds[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        unsigned char digest[EVP_MAX_MD_SIZE];
        double start = now_seconds();
        if (!EVP_Digest(bytes, size_bytes, digest, NULL, EVP_sha256(), NULL)) return -1;
        rounds[i] = now_seconds() - start;
    }
    return median(rounds, ROUNDS);
}

static TSR_RESULT write_bundle(tsr_ctx *ctx, const char *path, const void *bytes,
                               size_t size_bytes) {
    static const char config[] = "{}";
    const tsr_bundle_blob weights = {.media_type = TSR_MEDIA_WEIGHTS,
                                     .title = "weights",
                                     .bytes = bytes,
                                     .size_bytes = size_bytes};
    const tsr_bundle_target target = {.name = "cpu:x86-64-v2"};
    const tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                                  .config = config,
                                  .config_size_bytes = strlen(config),
                                  .blobs = &weights,
                                  .blob_count = 1,
                                  .targets = &target,
                                  .target_count = 1};
    return tsr_bundle_write(ctx, path, &spec);
}

static TSR_RESULT verify_seconds(tsr_ctx *ctx, const char *path, unsigned threads,
                                 double *out_seconds) {
    double rounds[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        tsr_bundle *bundle = NULL;
        tsr_bundle_verify_report report;
        double start = now_seconds();
        TRY(ctx, tsr_bundle_open(ctx, path, NULL, &bundle));
        tsr_result result = tsr_bundle_verify(ctx, bundle, threads, &report);
        rounds[i] = now_seconds() - start;
        tsr_bundle_close(ctx, bundle);
        TRY(ctx, result);
    }
    *out_seconds = median(rounds, ROUNDS);
    return TSR_SUCCESS;
}

static TSR_RESULT measure(tsr_ctx *ctx, const char *path, const void *bytes, size_t size_bytes) {
    double one = 0, all = 0;
    double hash = hash_seconds(bytes, size_bytes);
    if (hash <= 0) FAIL(ctx, TSR_INTERNAL, "SHA-256 of OpenSSL failed");
    TRY(ctx, write_bundle(ctx, path, bytes, size_bytes));
    TRY(ctx, verify_seconds(ctx, path, 1, &one));
    TRY(ctx, verify_seconds(ctx, path, 0, &all));
    double gigabytes = (double)size_bytes * 1e-9;
    printf("{\"hash\": %.3f, \"verify_1_thread\": %.3f, \"verify_all_threads\": %.3f}\n",
           gigabytes / hash, gigabytes / one, gigabytes / all);
    return TSR_SUCCESS;
}

int main(int argc, char **argv) {
    char path[PATH_BYTES];
    char *end = NULL;
    long mib = argc == 3 ? strtol(argv[2], &end, 10) : 0;
    if (mib < 1 || mib > MIB_MAX || *end ||
        snprintf(path, sizeof path, "%s/verify-speed.tsb", argv[1]) >= (int)sizeof path) {
        fprintf(stderr, "usage: verify_speed FOLDER MIB (1 to %d)\n", MIB_MAX);
        return TSR_USAGE;
    }
    size_t size_bytes = (size_t)mib << 20;
    unsigned char *bytes = malloc(size_bytes);
    if (!bytes) {
        fprintf(stderr, "verify_speed: no memory for %zu bytes\n", size_bytes);
        return TSR_MEMORY;
    }
    /* Weyl sequence: no two leaves are equal, nothing to compress. */
    uint64_t state = 0;
    for (size_t i = 0; i + 8 <= size_bytes; i += 8) {
        state += 0x9e3779b97f4a7c15u;
        memcpy(bytes + i, &state, sizeof state);
    }
    tsr_ctx ctx = {0};
    tsr_result result = measure(&ctx, path, bytes, size_bytes);
    if (result.code) fprintf(stderr, "verify_speed: %s\n", ctx.error.text);
    unlink(path);
    free(bytes);
    return (int)result.code;
}
