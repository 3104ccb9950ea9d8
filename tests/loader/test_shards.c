/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of tensors as blobs: sets of more than 4 GiB are split, in the order of the names; the
 * source of a shard returns the safetensors file of its tensors; splats.
 */
#include "loader/weights/shards.h"
#include "runtime/data/array_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static tsr_ctx ctx;
static tsr_arena arena;

static void must(tsr_result result) { cr_assert_eq(result.code, TSR_OK, "%s", ctx.error.text); }
static void finish(void) { tsr_arena_finish(&arena); }
TestSuite(shards, .fini = finish);

/* Returns a byte that depends on the tensor `user` and on the offset. */
static unsigned char byte_at(const void *user, uint64_t offset) {
    return (unsigned char)(*(const uint64_t *)user * 131 + offset * 7 + (offset >> 8));
}

static tsr_result read_pattern(tsr_ctx *context, void *user, uint64_t offset, void *bytes,
                               size_t size) {
    (void)context;
    for (size_t i = 0; i < size; i++) ((unsigned char *)bytes)[i] = byte_at(user, offset + i);
    return TSR_SUCCESS;
}

/* Makes `count` tensors of `size` bytes each, named t0000 … */
static tsr_value *make_values(size_t count, uint64_t size) {
    tsr_value *values = TSR_NEW(&arena, tsr_value, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t *seed = TSR_NEW(&arena, uint64_t, 1);
        *seed = i + 1;
        values[i] = (tsr_value){tsr_arena_printf(&arena, "t%04zu", i),
                                i % 3 ? TSR_DTYPE_F32 : TSR_DTYPE_UI8,
                                {1, {i % 3 ? size / 4 : size}},
                                read_pattern,
                                seed};
    }
    return values;
}

/* Requires that the blob's header names these tensors of the set, and that the bytes of each are at
 * the stated offset. */
static void check_blob(const tsr_bundle_blob *blob, const tsr_value *values, size_t count) {
    enum { HEADER_MAX = 1 << 20 };
    tsr_safetensors index;
    unsigned char *header = tsr_arena_alloc(&arena, HEADER_MAX, 1, 8), part[5000];
    size_t size = blob->size_bytes < HEADER_MAX ? (size_t)blob->size_bytes : HEADER_MAX;
    must(blob->source->read(&ctx, blob->source->user, 0, header, size));
    must(tsr_safetensors_decode(&ctx, header, size, blob->size_bytes, "shard", TSR_CORRUPT, &arena,
                                &index));
    cr_assert_eq(index.entry_count, count);
    cr_assert_eq(index.data_offset_bytes % 65536, 0);
    for (size_t i = 0; i < count; i++) {
        const tsr_safetensors_entry *entry = &index.entries[i];
        cr_assert_str_eq(entry->name, values[i].name);
        const uint64_t offsets[] = {0, entry->size_bytes / 2, entry->size_bytes - 1};
        for (size_t k = 0; k < 3; k++) {
            uint64_t left = blob->size_bytes - entry->offset_bytes - offsets[k];
            size_t room = left < sizeof part ? (size_t)left : sizeof part;
            must(blob->source->read(&ctx, blob->source->user, entry->offset_bytes + offsets[k],
                                    part, room));
            for (size_t b = 0; b < room && offsets[k] + b < entry->size_bytes; b++)
                cr_assert_eq(part[b], byte_at(values[i].user, offsets[k] + b));
        }
    }
}

Test(shards, more_than_4_gib_are_split) {
    tsr_bundle_blob *blobs = NULL;
    size_t count = 0;
    tsr_value *values = make_values(50, UINT64_C(200) << 20); /* 10 GB that are never stored */
    must(tsr_shards_make(&ctx, values, 50, TSR_MEDIA_WEIGHTS, "weights", TSR_SHARD_BYTES_MAX,
                         &arena, &blobs, &count));
    cr_assert_eq(count, 3);
    cr_assert_str_eq(blobs[0].title, "weights-00001-of-00003.safetensors");
    cr_assert_str_eq(blobs[2].title, "weights-00003-of-00003.safetensors");
    for (size_t i = 0, at = 0, part = 20; i < 3; i++, at += part) {
        if (i == 2) part = 10;
        cr_assert_leq(blobs[i].size_bytes, TSR_SHARD_BYTES_MAX);
        check_blob(&blobs[i], values + at, part);
    }
}

Test(shards, a_set_that_grows_leaves_the_first_ones) {
    tsr_bundle_blob *few = NULL, *many = NULL;
    size_t few_count = 0, many_count = 0;
    unsigned char a[70000], b[70000];
    tsr_value *values = make_values(100, 40000);
    must(tsr_shards_make(&ctx, values, 60, TSR_MEDIA_WEIGHTS, "w", 1 << 20, &arena, &few,
                         &few_count));
    must(tsr_shards_make(&ctx, values, 100, TSR_MEDIA_WEIGHTS, "w", 1 << 20, &arena, &many,
                         &many_count));
    cr_assert_eq(few_count, 3);
    cr_assert_eq(many_count, 5);
    for (size_t i = 0; i + 1 < few_count; i++) {
        cr_assert_eq(few[i].size_bytes, many[i].size_bytes);
        must(few[i].source->read(&ctx, few[i].source->user, 0, a, sizeof a));
        must(many[i].source->read(&ctx, many[i].source->user, 0, b, sizeof b));
        cr_assert_eq(memcmp(a, b, sizeof a), 0);
    }
}

Test(shards, one_has_a_plain_name) {
    tsr_bundle_blob *blobs = NULL;
    size_t count = 7;
    tsr_value *values = make_values(3, 4000);
    must(tsr_shards_make(&ctx, values, 3, TSR_MEDIA_STATE, "state", TSR_SHARD_BYTES_MAX, &arena,
                         &blobs, &count));
    cr_assert_eq(count, 1);
    cr_assert_str_eq(blobs[0].title, "state.safetensors");
    check_blob(&blobs[0], values, 3);
    must(tsr_shards_make(&ctx, values, 0, TSR_MEDIA_STATE, "state", TSR_SHARD_BYTES_MAX, &arena,
                         &blobs, &count));
    cr_assert_eq(count, 0);
}

Test(shards, a_tensor_that_fits_nowhere) {
    tsr_bundle_blob *blobs = NULL;
    size_t count = 0;
    tsr_value *values = make_values(2, UINT64_C(4) << 30);
    cr_assert_eq(tsr_shards_make(&ctx, values, 2, TSR_MEDIA_WEIGHTS, "w", TSR_SHARD_BYTES_MAX,
                                 &arena, &blobs, &count)
                     .code,
                 TSR_USAGE);
    cr_assert_str_eq(ctx.error.text, "tensor 't0000' has 4294967296 bytes; a bundle stores tensors "
                                     "of at most 4294967296 bytes, less their header");
}

static bool is_splat(tsr_dtype dtype, size_t count, void *bytes, double *out_value) {
    bool splat = false;
    const tsr_value value = {"v", dtype, {1, {count}}, tsr_value_read_memory, bytes};
    must(tsr_value_is_splat(&ctx, &value, &splat, out_value));
    return splat;
}

Test(shards, splats) {
    enum { COUNT = 200000 };
    static float floats[COUNT];
    static int64_t integers[COUNT];
    double value = 0;
    cr_assert(is_splat(TSR_DTYPE_F32, COUNT, floats, &value) && value == 0);
    floats[COUNT - 1] = -0.0f;
    cr_assert_not(is_splat(TSR_DTYPE_F32, COUNT, floats, &value), "-0 has other bits than 0");
    for (size_t i = 0; i < COUNT; i++) floats[i] = 0.1f;
    cr_assert(is_splat(TSR_DTYPE_F32, COUNT, floats, &value) && (float)value == 0.1f);
    floats[COUNT / 2] = 0.2f;
    cr_assert_not(is_splat(TSR_DTYPE_F32, COUNT, floats, &value));
    for (size_t i = 0; i < COUNT; i++) floats[i] = (float)(0.0 / 0.0);
    cr_assert_not(is_splat(TSR_DTYPE_F32, COUNT, floats, &value), "the config has no NaN");
    for (size_t i = 0; i < COUNT; i++) integers[i] = INT64_MAX;
    cr_assert_not(is_splat(TSR_DTYPE_I64, COUNT, integers, &value), "no double is 2^63 - 1");
    for (size_t i = 0; i < COUNT; i++) integers[i] = -((int64_t)1 << 53);
    cr_assert(is_splat(TSR_DTYPE_I64, COUNT, integers, &value) && value == -0x1p53);
}
