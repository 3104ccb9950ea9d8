/* SPDX-License-Identifier: Apache-2.0
 *
 * The library as a command-line tool, for the scripts in this folder:
 *   write PATH | tiny PATH | repack IN OUT | open PATH | strict PATH | verify PATH | bench MIB PATH
 *   keygen PRIVATE PUBLIC | sign PATH PRIVATE | check PATH PUBLIC…
 */
#include "bundle/sign.h"
#include "tests/bundle/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Wall-clock time, and processor time of all threads, which is also valid on a busy machine. */
typedef struct moment {
    double wall, cpu;
} moment;

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static moment now(void) {
    return (moment){seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID)};
}

static void report(const char *what, size_t size_bytes, moment start) {
    moment end = now();
    double gigabytes = (double)size_bytes / 1e9;
    printf("%-28s %6.2f GB/s %6.2f GB per CPU second\n", what, gigabytes / (end.wall - start.wall),
           gigabytes / (end.cpu - start.cpu));
}

static tsr_result open_close(tsr_ctx *ctx, const char *path, bool strict) {
    const tsr_bundle_open_options options = {.size_bytes = sizeof options, .strict = strict};
    tsr_bundle *bundle = NULL;
    TRY(ctx, tsr_bundle_open(ctx, path, &options, &bundle));
    tsr_digest digest = tsr_bundle_get_digest(bundle);
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&digest, hex);
    printf("%s\n", hex);
    tsr_bundle_close(ctx, bundle);
    return TSR_SUCCESS;
}

static tsr_result verify(tsr_ctx *ctx, const char *path, unsigned threads) {
    tsr_bundle *bundle = NULL;
    tsr_bundle_verify_report verified = {0};
    TRY(ctx, tsr_bundle_open(ctx, path, NULL, &bundle));
    tsr_result result = tsr_bundle_verify(ctx, bundle, threads, &verified);
    tsr_bundle_close(ctx, bundle);
    return result;
}

static tsr_result sign(tsr_ctx *ctx, const char *path, const char *key) {
    tsr_bundle *bundle = NULL;
    tsr_digest id;
    TRY(ctx, tsr_bundle_open(ctx, path, NULL, &bundle));
    tsr_result result = tsr_signature_write(ctx, bundle, key, &id);
    tsr_bundle_close(ctx, bundle);
    return result;
}

static tsr_result check(tsr_ctx *ctx, const char *path, char **keys, size_t key_count) {
    const tsr_signature_policy policy = {sizeof policy, (const char *const *)keys, key_count,
                                         key_count > 0};
    tsr_bundle *bundle = NULL;
    tsr_signature_report report = {0};
    TRY(ctx, tsr_bundle_open(ctx, path, NULL, &bundle));
    tsr_result result = tsr_signature_check(ctx, bundle, &policy, &report);
    tsr_bundle_close(ctx, bundle);
    if (report.state == TSR_SIGNATURE_GOOD) printf("good\n");
    return result;
}

static tsr_result bench_read(tsr_ctx *ctx, const char *path, void *bytes, size_t size) {
    tsr_bundle *bundle = NULL;
    TRY(ctx, tsr_bundle_open(ctx, path, NULL, &bundle));
    tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, 0, 0);
    tsr_result result = tsr_bundle_read_range(ctx, bundle, &layer, 0, bytes, size);
    tsr_bundle_close(ctx, bundle);
    return result;
}

/* Measures one weights blob: the worst case, since its own digest is one sequential chain of
 * hashes. Verification hashes every byte twice: for the blob's digest and the chunk's digest. */
static tsr_result bench(tsr_ctx *ctx, size_t size, const char *path) {
    void *bytes = malloc(size);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory");
    sample_fill(bytes, size, 1);
    tsr_bundle_blob blob = {TSR_MEDIA_WEIGHTS, NULL, bytes, size, NULL};
    tsr_bundle_target target = {"cpu:x86-64-v3", &blob, 1};
    tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                            .config = "{}",
                            .config_size_bytes = 2,
                            .targets = &target,
                            .target_count = 1};
    moment start = now();
    tsr_digest digest = tsr_hash(bytes, size);
    report("hash alone, 1 thread", size, start);
    start = now();
    TRY(ctx, tsr_bundle_write(ctx, path, &spec));
    report("write", size, start);
    start = now();
    TRY(ctx, verify(ctx, path, 1));
    report("verify, 1 thread", size, start);
    start = now();
    TRY(ctx, verify(ctx, path, 0));
    report("verify, all cores", size, start);
    start = now();
    TRY(ctx, bench_read(ctx, path, bytes, size));
    report("read, chunks verified", size, start);
    tsr_digest again = tsr_hash(bytes, size);
    free(bytes);
    if (!tsr_digest_equal(&digest, &again)) FAIL(ctx, TSR_INTERNAL, "read other bytes");
    return TSR_SUCCESS;
}

static tsr_result run(tsr_ctx *ctx, int count, char **words) {
    const char *verb = count > 1 ? words[1] : "";
    if (count == 3 && strcmp(verb, "write") == 0)
        return sample_write(ctx, words[2], SAMPLE_SMALL, false);
    if (count == 3 && strcmp(verb, "tiny") == 0)
        return sample_write(ctx, words[2], SAMPLE_TINY, false);
    if (count == 4 && strcmp(verb, "repack") == 0)
        return tsr_bundle_repack(ctx, words[2], words[3]);
    if (count == 3 && strcmp(verb, "open") == 0) return open_close(ctx, words[2], false);
    if (count == 3 && strcmp(verb, "strict") == 0) return open_close(ctx, words[2], true);
    if (count == 3 && strcmp(verb, "verify") == 0) return verify(ctx, words[2], 0);
    if (count == 4 && strcmp(verb, "bench") == 0)
        return bench(ctx, strtoul(words[2], NULL, 10) << 20, words[3]);
    if (count == 4 && strcmp(verb, "keygen") == 0) {
        tsr_digest id;
        return tsr_signature_generate_key(ctx, words[2], words[3], &id);
    }
    if (count == 4 && strcmp(verb, "sign") == 0) return sign(ctx, words[2], words[3]);
    if (count >= 3 && strcmp(verb, "check") == 0)
        return check(ctx, words[2], words + 3, (size_t)count - 3);
    FAIL(ctx, TSR_USAGE,
         "write PATH | tiny PATH | repack IN OUT | open PATH | strict PATH | verify PATH | "
         "bench MIB PATH | keygen PRIVATE PUBLIC | sign PATH PRIVATE | check PATH PUBLIC...");
}

int main(int count, char **words) {
    tsr_ctx ctx = {0};
    tsr_result result = run(&ctx, count, words);
    if (result.code) fprintf(stderr, "sample_tool: %s\n", ctx.error.text);
    return result.code;
}
