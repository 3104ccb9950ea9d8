/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading many parts of a layer at once, compared with the bytes that the writer was given; damage
 * is found where it is read, and nowhere else; the coverage of verify and verify --full.
 */
#include "bundle/bundle.h"
#include "tests/base/random.h"
#include "tests/bundle/sample.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYER = 3, LAYER_BYTES = 5242920, SEGMENTS_MAX = 400 };

static tsr_bundle *open_large(tsr_ctx *ctx, const char *name) {
    tsr_bundle *bundle = NULL;
    sample_must(ctx, sample_write(ctx, sample_path(name), SAMPLE_LARGE, false));
    sample_must(ctx, tsr_bundle_open(ctx, sample_path(name), NULL, &bundle));
    return bundle;
}

/* Makes ordered pieces with gaps, of sizes from 0 to several chunks; the rest of `room` stays
 * 0xee. */
static size_t random_segments(uint64_t *seed, char *buffer, tsr_bundle_segment *segments) {
    static const uint32_t sizes[] = {3, 100, 40000, 300000, 2000000};
    uint64_t at = random_below(seed, 5000);
    size_t count = 0;
    while (count < SEGMENTS_MAX) {
        uint64_t size = random_below(seed, sizes[random_below(seed, 5)]);
        if (at + size > LAYER_BYTES) break;
        segments[count++] = (tsr_bundle_segment){at, (size_t)size, buffer + at};
        at += size + random_below(seed, 2) * random_below(seed, 300000);
    }
    return count;
}

static void check_buffer(const char *buffer, const char *expected,
                         const tsr_bundle_segment *segments, size_t count) {
    uint64_t at = 0;
    for (size_t i = 0; i <= count; i++) {
        uint64_t begin = i < count ? segments[i].offset_bytes : LAYER_BYTES;
        for (; at < begin; at++)
            cr_assert_eq((unsigned char)buffer[at], 0xee, "byte %zu", (size_t)at);
        if (i == count) break;
        cr_assert_eq(memcmp(buffer + begin, expected + begin, segments[i].size_bytes), 0,
                     "segment %zu", i);
        at = begin + segments[i].size_bytes;
    }
}

Test(segments, are_what_was_written) {
    tsr_ctx ctx = {0};
    uint64_t seed = 5;
    tsr_bundle_segment *segments = calloc(SEGMENTS_MAX, sizeof *segments);
    char *buffer = malloc(LAYER_BYTES);
    tsr_bundle *bundle = open_large(&ctx, "segments.tsb");
    const char *expected = sample_layer(SAMPLE_LARGE, "cuda:sm_90a", LAYER)->bytes;
    tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, 0, LAYER);
    cr_assert_eq(layer.size_bytes, LAYER_BYTES);
    for (unsigned round = 0; round < 40; round++) {
        memset(buffer, 0xee, LAYER_BYTES);
        size_t count = random_segments(&seed, buffer, segments);
        sample_must(&ctx,
                    tsr_bundle_read_segments(&ctx, bundle, &layer, segments, count, round % 4));
        check_buffer(buffer, expected, segments, count);
    }
    tsr_bundle_close(&ctx, bundle);
    free(buffer);
    free(segments);
}

/* ---- reading into a sink ---- */

static void flip(const char *path, uint64_t offset) {
    unsigned char byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    cr_assert(fd >= 0 && pread(fd, &byte, 1, (off_t)offset) == 1);
    byte ^= 0x10;
    cr_assert_eq(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

enum { WINDOWS = 3, DEPTH = 2 * WINDOWS, SLOTS = WINDOWS + DEPTH };
typedef struct slots {
    char windows[WINDOWS][TSR_HASH_CHUNK_BYTES], chunks[SLOTS][TSR_HASH_CHUNK_BYTES];
    size_t sizes[SLOTS];
    atomic_uint_least64_t taken[WINDOWS], done[SLOTS]; /* number of its last chunk, plus 1 */
    atomic_int puts;
} slots;

static tsr_result slot_window(tsr_ctx *ctx, void *user, uint64_t number, void **out_window) {
    slots *s = user;
    (void)ctx;
    if (number >= WINDOWS) cr_assert_eq(s->taken[number % WINDOWS], number - WINDOWS + 1);
    *out_window = s->windows[number % WINDOWS];
    memset(*out_window, 0xdd, TSR_HASH_CHUNK_BYTES);
    return TSR_SUCCESS;
}

static tsr_result slot_submit(tsr_ctx *ctx, void *user, uint64_t number, size_t size_bytes) {
    slots *s = user;
    (void)ctx;
    cr_assert_leq(size_bytes, TSR_HASH_CHUNK_BYTES);
    if (number >= DEPTH) cr_assert_eq(s->done[(number - DEPTH) % SLOTS], number - DEPTH + 1);
    memcpy(s->chunks[number % SLOTS], s->windows[number % WINDOWS], size_bytes);
    memset(s->windows[number % WINDOWS], 0xdd, TSR_HASH_CHUNK_BYTES);
    s->sizes[number % SLOTS] = size_bytes;
    s->taken[number % WINDOWS] = number + 1;
    return TSR_SUCCESS;
}

static tsr_result slot_digest(tsr_ctx *ctx, void *user, uint64_t number, size_t size_bytes,
                              tsr_digest *out_digest) {
    slots *s = user;
    (void)ctx;
    cr_assert_eq(size_bytes, s->sizes[number % SLOTS]);
    *out_digest = tsr_hash_tree(s->chunks[number % SLOTS], size_bytes);
    s->done[number % SLOTS] = number + 1;
    return TSR_SUCCESS;
}

static tsr_result slot_put(tsr_ctx *ctx, void *user, uint64_t number,
                           const tsr_bundle_segment *segment) {
    slots *s = user;
    (void)ctx;
    memcpy(segment->bytes, s->chunks[number % SLOTS] + segment->offset_bytes, segment->size_bytes);
    s->puts++;
    return TSR_SUCCESS;
}

Test(segments, go_elsewhere) {
    tsr_ctx ctx = {0};
    uint64_t seed = 6;
    slots *s = calloc(1, sizeof *s);
    tsr_bundle_segment *segments = calloc(SEGMENTS_MAX, sizeof *segments);
    char *buffer = malloc(LAYER_BYTES);
    tsr_bundle *bundle = open_large(&ctx, "elsewhere.tsb");
    const char *expected = sample_layer(SAMPLE_LARGE, "cuda:sm_90a", LAYER)->bytes;
    tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, 0, LAYER);
    tsr_bundle_sink sink = {4, WINDOWS, DEPTH, slot_window, slot_submit, slot_digest, slot_put, s};
    cr_assert(tsr_bundle_has_chunks(bundle, &layer));
    for (unsigned round = 0; round < 20; round++) {
        memset(buffer, 0xee, LAYER_BYTES);
        size_t count = random_segments(&seed, buffer, segments);
        sink.threads_max = 1 + round % 5;
        sample_must(&ctx, tsr_bundle_send_segments(&ctx, bundle, &layer, segments, count, &sink));
        check_buffer(buffer, expected, segments, count);
    }
    /* No byte of a damaged chunk is put anywhere. */
    const tsr_bundle_segment second = {TSR_HASH_CHUNK_BYTES + 5, 8, buffer};
    flip(sample_path("elsewhere.tsb"), layer.offset_bytes + LAYER_BYTES - 1);
    s->puts = 0;
    cr_assert_eq(tsr_bundle_send_segments(&ctx, bundle, &layer, &second, 1, &sink).code,
                 TSR_CORRUPT);
    cr_assert_not_null(strstr(ctx.error.text, "digest of the chunk at offset"), "%s",
                       ctx.error.text);
    cr_assert_eq(s->puts, 0);
    tsr_bundle_close(&ctx, bundle);
    free(buffer);
    free(segments);
    free(s);
}

enum { MANY = 19, MANY_BYTES = MANY * TSR_HASH_CHUNK_BYTES - 77777 };

static tsr_bundle *open_many(tsr_ctx *ctx, const char *name, char **out_bytes) {
    char *bytes = malloc(MANY_BYTES);
    const tsr_bundle_blob blob = {.media_type = TSR_MEDIA_WEIGHTS,
                                  .title = "weights",
                                  .bytes = bytes,
                                  .size_bytes = MANY_BYTES};
    const tsr_bundle_target target = {.name = "cpu:x86-64-v2"};
    const tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                                  .config = "{}",
                                  .config_size_bytes = 2,
                                  .blobs = &blob,
                                  .blob_count = 1,
                                  .targets = &target,
                                  .target_count = 1};
    tsr_bundle *bundle = NULL;
    for (size_t i = 0; i < MANY_BYTES; i++) bytes[i] = (char)(i * 2654435761u >> 11);
    sample_must(ctx, tsr_bundle_write(ctx, sample_path(name), &spec));
    sample_must(ctx, tsr_bundle_open(ctx, sample_path(name), NULL, &bundle));
    *out_bytes = bytes;
    return bundle;
}

/* More chunks than a sink has slots, on one thread and on several. A damaged chunk ends the
 * transfer, and is not put anywhere. */
Test(segments, many_chunks_go_elsewhere) {
    enum { DAMAGED = 11 };
    tsr_ctx ctx = {0};
    char *bytes = NULL, *buffer = malloc(MANY_BYTES);
    tsr_bundle *bundle = open_many(&ctx, "many.tsb", &bytes);
    tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, 0, 0);
    const uint64_t hole = TSR_HASH_CHUNK_BYTES + 5;
    const tsr_bundle_segment segments[] = {{3, 100, buffer + 3},
                                           {hole, (size_t)(MANY_BYTES - hole), buffer + hole}};
    for (unsigned round = 0; round < 8; round++) {
        slots *s = calloc(1, sizeof *s);
        const tsr_bundle_sink sink = {1 + round % 4, WINDOWS,     DEPTH,    slot_window,
                                      slot_submit,   slot_digest, slot_put, s};
        if (round == 5)
            flip(sample_path("many.tsb"),
                 layer.offset_bytes + (uint64_t)DAMAGED * TSR_HASH_CHUNK_BYTES + 9);
        memset(buffer, 0xee, MANY_BYTES);
        tsr_result result = tsr_bundle_send_segments(&ctx, bundle, &layer, segments, 2, &sink);
        if (round < 5) {
            sample_must(&ctx, result);
            cr_assert_eq(memcmp(buffer + hole, bytes + hole, MANY_BYTES - hole), 0);
            cr_assert_eq(memcmp(buffer + 3, bytes + 3, 100), 0);
            cr_assert_eq((unsigned char)buffer[hole - 1], 0xee);
        } else {
            const size_t wrong = (size_t)DAMAGED * TSR_HASH_CHUNK_BYTES;
            char text[64];
            cr_assert_eq(result.code, TSR_CORRUPT);
            snprintf(text, sizeof text, "digest of the chunk at offset %" PRIu64 " ",
                     layer.offset_bytes + wrong);
            cr_assert_not_null(strstr(ctx.error.text, text), "%s", ctx.error.text);
            for (size_t i = 0; i < TSR_HASH_CHUNK_BYTES; i++)
                cr_assert_eq((unsigned char)buffer[wrong + i], 0xee);
        }
        free(s);
    }
    tsr_bundle_close(&ctx, bundle);
    free(buffer);
    free(bytes);
}

Test(segments, that_make_no_sense_are_refused) {
    tsr_ctx ctx = {0};
    char bytes[16];
    const tsr_bundle_segment back[] = {{10, 4, bytes}, {13, 4, bytes}};
    const tsr_bundle_segment behind = {LAYER_BYTES - 3, 4, bytes}, far = {UINT64_MAX, 2, bytes};
    tsr_bundle *bundle = open_large(&ctx, "order.tsb");
    tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, 0, LAYER);
    cr_assert_eq(tsr_bundle_read_segments(&ctx, bundle, &layer, back, 2, 1).code, TSR_USAGE);
    cr_assert_not_null(strstr(ctx.error.text, "expected it after byte 14, got 13"), "%s",
                       ctx.error.text);
    cr_assert_eq(tsr_bundle_read_segments(&ctx, bundle, &layer, &behind, 1, 1).code, TSR_USAGE);
    cr_assert_eq(tsr_bundle_read_segments(&ctx, bundle, &layer, &far, 1, 1).code, TSR_USAGE);
    sample_must(&ctx, tsr_bundle_read_segments(&ctx, bundle, &layer, NULL, 0, 1));
    tsr_bundle_close(&ctx, bundle);
}

/* Verification is lazy: a damaged chunk matters only to its readers. */
Test(segments, damage_is_met_where_it_is_touched) {
    tsr_ctx ctx = {0};
    char bytes[8];
    tsr_bundle_verify_report report;
    const char *path = sample_path("damaged.tsb");
    tsr_bundle *bundle = open_large(&ctx, "damaged.tsb");
    tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, 0, LAYER);
    const tsr_bundle_segment first = {5, 8, bytes}, second = {TSR_HASH_CHUNK_BYTES + 5, 8, bytes};
    flip(path, layer.offset_bytes + LAYER_BYTES - 1);
    sample_must(&ctx, tsr_bundle_read_segments(&ctx, bundle, &layer, &first, 1, 1));
    cr_assert_eq(tsr_bundle_read_segments(&ctx, bundle, &layer, &second, 1, 1).code, TSR_CORRUPT);
    cr_assert_not_null(strstr(ctx.error.text, "digest of the chunk at offset"), "%s",
                       ctx.error.text);
    cr_assert_eq(tsr_bundle_verify(&ctx, bundle, 2, &report).code, TSR_CORRUPT);
    cr_assert_eq(tsr_bundle_verify_full(&ctx, bundle, 2, &report).code, TSR_CORRUPT);
    flip(path, layer.offset_bytes + LAYER_BYTES - 1);
    sample_must(&ctx, tsr_bundle_verify(&ctx, bundle, 2, &report));
    sample_must(&ctx, tsr_bundle_verify_full(&ctx, bundle, 2, &report));
    tsr_bundle_close(&ctx, bundle);
}

typedef struct counted {
    tsr_io io;
    const tsr_io *below;
    uint64_t read_bytes;
} counted;

static ssize_t counted_pread(void *self, int fd, void *bytes, size_t size, off_t offset) {
    counted *c = self;
    ssize_t result = c->below->pread(c->below->self, fd, bytes, size, offset);
    if (result > 0) c->read_bytes += (uint64_t)result;
    return result;
}

/* Hundreds of tensors in one chunk need only one read of the chunk. */
Test(segments, no_chunk_is_read_twice) {
    tsr_ctx ctx = {0};
    char *buffer = malloc(LAYER_BYTES);
    tsr_bundle_segment segments[200];
    counted c = {.io = *tsr_io_system(), .below = tsr_io_system()};
    tsr_bundle *bundle = open_large(&ctx, "counted.tsb");
    tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, 0, LAYER);
    for (size_t i = 0; i < 200; i++)
        segments[i] = (tsr_bundle_segment){i * 20000, 10000, buffer + i * 20000};
    c.io.self = &c;
    c.io.pread = counted_pread;
    ctx.io = &c.io;
    sample_must(&ctx, tsr_bundle_read_segments(&ctx, bundle, &layer, segments, 200, 1));
    cr_assert_eq(c.read_bytes, TSR_HASH_CHUNK_BYTES);
    ctx.io = NULL;
    tsr_bundle_close(&ctx, bundle);
    free(buffer);
}
