/* SPDX-License-Identifier: Apache-2.0
 *
 * Damage: every bit of a tiny bundle, every length, every failing read. Strict mode refuses all of
 * it; normal mode refuses it or returns the same outputs.
 */
#include "tests/base/sweep.h"
#include "tests/bundle/ram_io.h"
#include "tests/bundle/sample.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const tsr_bundle_open_options strict = {.size_bytes = sizeof strict, .strict = true};

typedef struct fixture {
    unsigned char *bytes; /* owned */
    size_t size;
    ram_file file;
    ram_io ram;
    tsr_ctx ctx;
    tsr_digest outputs; /* digest of the outputs of the undamaged bundle */
} fixture;

/* Hashes everything that a user of the bundle can read. Returns false if it is refused; the error
 * is in the context. */
static bool digest_outputs(tsr_ctx *ctx, const tsr_bundle_open_options *options,
                           tsr_digest *out_digest) {
    tsr_bundle *bundle = NULL;
    tsr_hasher hasher;
    tsr_arena arena = {0};
    if (tsr_bundle_open(ctx, "ram.tsb", options, &bundle).code) return false;
    bool good = true;
    tsr_hasher_init(&hasher);
    tsr_digest root = tsr_bundle_get_digest(bundle);
    tsr_hasher_update(&hasher, root.bytes, sizeof root.bytes);
    for (size_t t = 0; t < tsr_bundle_get_target_count(bundle); t++) {
        const char *name = tsr_bundle_get_target_name(bundle, t), *config;
        size_t config_size;
        tsr_bundle_get_config(bundle, t, &config, &config_size);
        tsr_hasher_update(&hasher, name, strlen(name) + 1);
        tsr_hasher_update(&hasher, config, config_size);
        for (size_t i = 0; good && i < tsr_bundle_get_layer_count(bundle, t); i++) {
            tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, t, i);
            void *bytes;
            size_t size;
            good = !tsr_bundle_read_layer(ctx, bundle, &layer, &arena, &bytes, &size).code;
            if (good) tsr_hasher_update(&hasher, bytes, size);
            tsr_hasher_update(&hasher, layer.media_type, strlen(layer.media_type) + 1);
        }
    }
    *out_digest = tsr_hasher_finish(&hasher);
    tsr_arena_finish(&arena);
    tsr_bundle_close(ctx, bundle);
    return good;
}

static void fixture_init(fixture *f, sample_size size) {
    tsr_ctx disk = {0};
    *f = (fixture){0};
    sample_must(&disk, sample_write(&disk, sample_path("flips.tsb"), size, false));
    f->bytes = sample_load(sample_path("flips.tsb"), &f->size);
    f->file = (ram_file){"ram.tsb", f->bytes, f->size};
    ram_io_init(&f->ram, false, &f->file, 1);
    f->ctx.io = &f->ram.io;
    cr_assert(digest_outputs(&f->ctx, &strict, &f->outputs), "%s", f->ctx.error.text);
}

/* A refusal has one of the documented codes, and names the file. */
static void check_refusal(const fixture *f, const char *what, size_t at) {
    tsr_code code = f->ctx.error.code;
    cr_assert(code == TSR_CORRUPT || code == TSR_VERSION, "%s %zu: code %d, %s", what, at, code,
              f->ctx.error.text);
    cr_assert(strstr(f->ctx.error.text, "tsb: ram.tsb: "), "%s %zu: %s", what, at,
              f->ctx.error.text);
}

static void flip(fixture *f, size_t at, unsigned char mask) {
    tsr_digest digest;
    f->bytes[at] ^= mask;
    tsr_error_clear(&f->ctx);
    if (digest_outputs(&f->ctx, NULL, &digest))
        cr_assert(tsr_digest_equal(&digest, &f->outputs), "flip 0x%02x at %zu changed the outputs",
                  mask, at);
    else
        check_refusal(f, "flip at", at);
    tsr_bundle *bundle = NULL;
    tsr_error_clear(&f->ctx);
    cr_assert(tsr_bundle_open(&f->ctx, "ram.tsb", &strict, &bundle).code,
              "strict mode accepted flip 0x%02x at %zu", mask, at);
    check_refusal(f, "strict flip at", at);
    f->bytes[at] ^= mask;
}

/* Split into parts, so that several processes share the work. */
static void flip_part(unsigned part, unsigned parts) {
    fixture f;
    fixture_init(&f, SAMPLE_TINY);
    for (size_t at = part; at < f.size; at += parts * SWEEP_STEP(3))
        for (unsigned bit = 0; bit < 8; bit++) flip(&f, at, (unsigned char)(1u << bit));
    free(f.bytes);
}
Test(flips, every_bit_1_of_4) { flip_part(0, 4); }
Test(flips, every_bit_2_of_4) { flip_part(1, 4); }
Test(flips, every_bit_3_of_4) { flip_part(2, 4); }
Test(flips, every_bit_4_of_4) { flip_part(3, 4); }

/* Flips a sample of the bytes of a bundle that has pads and large blobs. */
Test(flips, aligned_bundle) {
    fixture f;
    fixture_init(&f, SAMPLE_SMALL);
    for (size_t at = 0, n = 0; at < f.size; at += 509, n++)
        flip(&f, at, (unsigned char)(1u << n % 8));
    free(f.bytes);
}

Test(flips, every_length) {
    fixture f;
    fixture_init(&f, SAMPLE_TINY);
    for (size_t size = 0; size < f.size; size += SWEEP_STEP(3)) {
        tsr_bundle *bundle = NULL;
        f.file.size_bytes = size;
        tsr_error_clear(&f.ctx);
        cr_assert(tsr_bundle_open(&f.ctx, "ram.tsb", NULL, &bundle).code, "length %zu", size);
        check_refusal(&f, "length", size);
        if (size % 512 || size < 1536)
            cr_assert(strstr(f.ctx.error.text, "file size"), "%zu: %s", size, f.ctx.error.text);
    }
    free(f.bytes);
}

Test(flips, appended_bytes) {
    fixture f;
    fixture_init(&f, SAMPLE_TINY);
    unsigned char *longer = calloc(1, f.size + 4096);
    memcpy(longer, f.bytes, f.size);
    f.file.bytes = longer;
    for (size_t extra = 1; extra <= 4096; extra++) {
        tsr_bundle *bundle = NULL;
        tsr_digest digest;
        f.file.size_bytes = f.size + extra;
        cr_assert(tsr_bundle_open(&f.ctx, "ram.tsb", &strict, &bundle).code, "%zu more", extra);
        cr_assert_eq(digest_outputs(&f.ctx, NULL, &digest), extra % 512 == 0, "%zu more", extra);
    }
    longer[f.size + 3000] = 1;
    cr_assert_not(digest_outputs(&f.ctx, NULL, &f.outputs), "bytes after the end");
    free(longer);
    free(f.bytes);
}

/* Every read fails once: the error is TSR_IO, nothing leaks, every file is closed. */
Test(flips, every_read_fails) {
    fixture f;
    fixture_init(&f, SAMPLE_TINY);
    for (unsigned mode = 0; mode < 2; mode++) {
        f.ram.fail_at = -1;
        f.ram.read_count = 0;
        tsr_digest digest;
        cr_assert(digest_outputs(&f.ctx, mode ? &strict : NULL, &digest));
        long count = f.ram.read_count;
        cr_assert_gt(count, 5);
        for (long at = 0; at < count; at++) {
            f.ram.fail_at = at;
            f.ram.read_count = 0;
            tsr_error_clear(&f.ctx);
            cr_assert_not(digest_outputs(&f.ctx, mode ? &strict : NULL, &digest));
            cr_assert_eq(f.ctx.error.code, TSR_IO, "read %ld: %s", at, f.ctx.error.text);
        }
    }
    cr_assert_eq(f.ram.open_count, f.ram.close_count);
    free(f.bytes);
}

/* Short reads are not the end of the file. */
Test(flips, short_reads) {
    fixture f;
    tsr_digest digest;
    fixture_init(&f, SAMPLE_TINY);
    for (f.ram.part_max = 1; f.ram.part_max < 700; f.ram.part_max += 97) {
        cr_assert(digest_outputs(&f.ctx, &strict, &digest), "%s", f.ctx.error.text);
        cr_assert(tsr_digest_equal(&digest, &f.outputs));
    }
    free(f.bytes);
}
