/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer: blobs from sources give the same bytes as blobs in memory; equal blobs are stored
 * once, even if that is found late; failing sources; bundles larger than the memory that is used.
 */
#include "runtime/base/array.h"
#include "tests/bundle/sample.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char config[] = "{}";

/* A source of sample_fill bytes; counts the requested bytes. */
typedef struct filler {
    const char *bytes;
    uint64_t size_bytes, asked_bytes, fail_from;
    pthread_mutex_t lock;
} filler;

static tsr_result fill(tsr_ctx *ctx, void *user, uint64_t offset, void *bytes, size_t size) {
    filler *f = user;
    pthread_mutex_lock(&f->lock);
    f->asked_bytes += size;
    pthread_mutex_unlock(&f->lock);
    cr_assert(offset <= f->size_bytes && size <= f->size_bytes - offset);
    if (offset + size > f->fail_from)
        FAIL(ctx, TSR_DATA, "the source fails at %" PRIu64, f->fail_from);
    memcpy(bytes, f->bytes + offset, size);
    return TSR_SUCCESS;
}

/* Memory of the test, freed when it ends. */
static void *owned[8];
static size_t owned_count;

static void *own(void *memory) {
    cr_assert(memory && owned_count < TSR_COUNT(owned));
    return owned[owned_count++] = memory;
}

static void release(void) {
    while (owned_count) free(owned[--owned_count]);
}

static filler make_filler(uint64_t size_bytes, uint64_t seed) {
    char *bytes = own(malloc(size_bytes));
    sample_fill(bytes, size_bytes, seed);
    return (filler){.bytes = bytes,
                    .size_bytes = size_bytes,
                    .fail_from = UINT64_MAX,
                    .lock = PTHREAD_MUTEX_INITIALIZER};
}

static tsr_result write_blobs(tsr_ctx *ctx, const char *path, const tsr_bundle_blob *blobs,
                              size_t count) {
    const tsr_bundle_blob elf = {TSR_MEDIA_ELF, "model.so", "code", 4, NULL};
    const tsr_bundle_target targets[] = {{"cpu:x86-64-v2", &elf, 1}, {"cpu:x86-64-v3", &elf, 1}};
    const tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                                  .config = config,
                                  .config_size_bytes = sizeof config - 1,
                                  .blobs = blobs,
                                  .blob_count = count,
                                  .targets = targets,
                                  .target_count = 2};
    return tsr_bundle_write(ctx, path, &spec);
}

static void same_files(const char *a, const char *b) {
    size_t a_size, b_size;
    char *a_bytes = sample_load(a, &a_size), *b_bytes = sample_load(b, &b_size);
    cr_assert_eq(a_size, b_size);
    cr_assert_eq(memcmp(a_bytes, b_bytes, a_size), 0);
    free(a_bytes);
    free(b_bytes);
}

static void check_strict(tsr_ctx *ctx, const char *path) {
    const tsr_bundle_open_options strict = {
        .size_bytes = sizeof strict, .strict = true, .defer_blobs = true};
    tsr_bundle_verify_report report;
    tsr_bundle *bundle = NULL;
    sample_must(ctx, tsr_bundle_open(ctx, path, &strict, &bundle));
    sample_must(ctx, tsr_bundle_verify_full(ctx, bundle, 0, &report));
    tsr_bundle_close(ctx, bundle);
}

Test(writer, a_source_gives_the_same_bytes, .fini = release) {
    tsr_ctx ctx = {0};
    const char *memory = own(strdup(sample_path("memory.tsb"))), *read = sample_path("read.tsb");
    filler a = make_filler(9 << 20, 1), b = make_filler((4 << 20) + 1, 2);
    const tsr_bundle_source a_source = {fill, &a}, b_source = {fill, &b};
    tsr_bundle_blob blobs[] = {{TSR_MEDIA_WEIGHTS, "a.safetensors", a.bytes, a.size_bytes, NULL},
                               {TSR_MEDIA_STATE, "b.safetensors", b.bytes, b.size_bytes, NULL}};
    sample_must(&ctx, write_blobs(&ctx, memory, blobs, 2));
    blobs[0].bytes = blobs[1].bytes = NULL;
    blobs[0].source = &a_source;
    blobs[1].source = &b_source;
    sample_must(&ctx, write_blobs(&ctx, read, blobs, 2));
    same_files(memory, read);
    check_strict(&ctx, read);
    cr_assert_eq(a.asked_bytes, a.size_bytes, "each byte is asked for once");
    cr_assert_eq(b.asked_bytes, b.size_bytes);
}

/* Two sources turn out to have the same bytes: the blobs after the second one move down. */
Test(writer, equal_sources_are_stored_once, .fini = release) {
    tsr_ctx ctx = {0};
    const char *once = own(strdup(sample_path("once.tsb"))), *twice = sample_path("twice.tsb");
    filler a = make_filler(5 << 20, 1), same = make_filler(5 << 20, 1), b = make_filler(6 << 20, 3);
    const tsr_bundle_source sources[] = {{fill, &a}, {fill, &same}, {fill, &b}};
    const tsr_bundle_blob known[] = {
        {TSR_MEDIA_WEIGHTS, "a.safetensors", a.bytes, a.size_bytes, NULL},
        {TSR_MEDIA_WEIGHTS, "again.safetensors", same.bytes, same.size_bytes, NULL},
        {TSR_MEDIA_WEIGHTS, "b.safetensors", b.bytes, b.size_bytes, NULL}};
    const tsr_bundle_blob found[] = {
        {TSR_MEDIA_WEIGHTS, "a.safetensors", NULL, a.size_bytes, &sources[0]},
        {TSR_MEDIA_WEIGHTS, "again.safetensors", NULL, same.size_bytes, &sources[1]},
        {TSR_MEDIA_WEIGHTS, "b.safetensors", NULL, b.size_bytes, &sources[2]}};
    sample_must(&ctx, write_blobs(&ctx, once, known, 3));
    sample_must(&ctx, write_blobs(&ctx, twice, found, 3));
    same_files(once, twice);
    check_strict(&ctx, twice);
}

Test(writer, a_failing_source_leaves_nothing, .fini = release) {
    filler a = make_filler(20 << 20, 1);
    const tsr_bundle_source source = {fill, &a};
    const tsr_bundle_blob blob = {TSR_MEDIA_WEIGHTS, "a.safetensors", NULL, a.size_bytes, &source};
    for (uint64_t from = 0; from < a.size_bytes; from += 3 << 20) {
        tsr_ctx ctx = {0};
        char expected[64];
        a.fail_from = from;
        snprintf(expected, sizeof expected, "the source fails at %" PRIu64, from);
        cr_assert_eq(write_blobs(&ctx, sample_path("failed.tsb"), &blob, 1).code, TSR_DATA);
        cr_assert_str_eq(ctx.error.text, expected);
        cr_assert_neq(access(sample_path("failed.tsb"), F_OK), 0);
    }
}

Test(writer, refuses_what_is_neither_or_both, .fini = release) {
    tsr_ctx ctx = {0};
    filler a = make_filler(100, 1);
    const tsr_bundle_source source = {fill, &a};
    const tsr_bundle_blob wrong[] = {{TSR_MEDIA_WEIGHTS, NULL, "x", 1, &source},
                                     {TSR_MEDIA_WEIGHTS, NULL, NULL, 1, NULL},
                                     {TSR_MEDIA_IR, NULL, NULL, 100, &source}};
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(write_blobs(&ctx, sample_path("wrong.tsb"), &wrong[i], 1).code, TSR_USAGE);
}

/* ---- larger than memory ---- */

/* TESSERA_TEST_GIB=8 in the environment tests the promised size, which takes a minute. */
enum { SHARDS = 2, GIB_DEFAULT = 1, GIB_MAX = 8 };

static uint64_t shard_size(void) {
    const char *wanted = getenv("TESSERA_TEST_GIB");
    long gib = wanted ? strtol(wanted, NULL, 10) : GIB_DEFAULT;
    cr_assert(gib >= 1 && gib <= GIB_MAX, "TESSERA_TEST_GIB is %ld", gib);
    return ((uint64_t)gib << 30) / SHARDS - 4096;
}

/* Returns zeros, except for a word at the start of some chunks, so that no two sources are
 * equal. */
static tsr_result fill_sparse(tsr_ctx *ctx, void *user, uint64_t offset, void *bytes, size_t size) {
    const uint64_t *seed = user;
    (void)ctx;
    memset(bytes, 0, size);
    uint64_t word = *seed + offset;
    if (offset % (UINT64_C(64) << 20) == 0) memcpy(bytes, &word, sizeof word);
    return TSR_SUCCESS;
}

/* Returns a row of /proc/self/status in bytes. The maximum of RssAnon is not available: it is VmHWM
 * minus the memory that is mapped from files. */
static uint64_t read_status(const char *key) {
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0) sscanf(line + strlen(key), "%" SCNu64, &kib);
    fclose(file);
    return kib * 1024;
}

/* Writes two shards, opens and verifies them, and reads parts within 64 MiB of memory. The
 * file is sparse. */
Test(writer, gigabytes_in_64_megabytes, .timeout = 600) {
    tsr_ctx ctx = {0};
    const uint64_t shard_bytes = shard_size();
    struct stat info;
    uint64_t seeds[SHARDS] = {1, 1000003};
    const char *path = sample_path("large.tsb");
    tsr_bundle_source sources[SHARDS];
    tsr_bundle_blob blobs[SHARDS];
    tsr_bundle_verify_report report;
    tsr_bundle *bundle = NULL;
    tsr_bundle_layer layer;
    uint64_t word = 0;
    for (size_t i = 0; i < SHARDS; i++) {
        sources[i] = (tsr_bundle_source){fill_sparse, &seeds[i]};
        blobs[i] = (tsr_bundle_blob){TSR_MEDIA_WEIGHTS, i ? "2.safetensors" : "1.safetensors", NULL,
                                     shard_bytes, &sources[i]};
    }
    sample_must(&ctx, write_blobs(&ctx, path, blobs, SHARDS));
    cr_assert_eq(stat(path, &info), 0);
    cr_assert_gt(info.st_size, SHARDS * (off_t)shard_bytes);
    cr_assert_lt((uint64_t)info.st_blocks * 512, shard_bytes / 2, "chunks of zeros are holes");
    sample_must(&ctx, tsr_bundle_open(&ctx, path, NULL, &bundle));
    sample_must(&ctx, tsr_bundle_verify(&ctx, bundle, 0, &report));
    cr_assert_geq(report.verified_bytes, SHARDS * shard_bytes);
    layer = tsr_bundle_get_layer(bundle, 0, 1);
    sample_must(&ctx, tsr_bundle_read_range(&ctx, bundle, &layer, UINT64_C(64) << 20, &word, 8));
    cr_assert_eq(word, seeds[1] + (UINT64_C(64) << 20));
    tsr_bundle_close(&ctx, bundle);
    cr_assert_leq(read_status("VmHWM:") - read_status("RssFile:"), UINT64_C(64) << 20,
                  "%" PRIu64 " bytes of memory were taken", read_status("VmHWM:"));
}
