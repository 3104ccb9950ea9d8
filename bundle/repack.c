/* SPDX-License-Identifier: Apache-2.0
 *
 * The canonical archive of an open bundle: comparing the file with it (strict mode), or writing it.
 */
#include "bundle/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- strict mode ---- */

typedef struct checker {
    tsr_ctx *ctx;
    const tsr_bundle *bundle;
    unsigned char *expected, *got; /* owned, TSR_PLAN_HEAD_BYTES_MAX each */
} checker;

/* Checks that the file has the `size_bytes` bytes of `expected` at `offset`. */
static tsr_result compare(checker *c, const void *expected, size_t size_bytes, uint64_t offset,
                          const tsr_plan_entry *entry) {
    const unsigned char *wanted = expected;
    tsr_entry_text name = {"-"};
    if (entry && entry->blob < c->bundle->blob_count) name = tsr_entry_text_digest(&entry->digest);
    TRY(c->ctx,
        tsr_io_read_exact(c->ctx, c->bundle->fd, c->bundle->path, c->got, size_bytes, offset));
    if (memcmp(wanted, c->got, size_bytes) == 0) return TSR_SUCCESS;
    size_t at = 0;
    while (wanted[at] == c->got[at]) at++;
    FAIL(c->ctx, TSR_CORRUPT, TSB "strict mode: byte" TSB_AT "0x%02x, got 0x%02x", c->bundle->path,
         offset + at, name.text, wanted[at], c->got[at]);
}

static tsr_result compare_entry(checker *c, const tsr_plan *plan, const tsr_plan_entry *entry) {
    static const char zeros[TSR_TAR_BLOCK_BYTES];
    const char *fixed = tsr_plan_fixed_bytes(plan, entry);
    size_t head = tsr_plan_format_head(entry, c->expected);
    TRY(c->ctx, compare(c, c->expected, head, entry->head_offset_bytes, entry));
    if (fixed)
        TRY(c->ctx, compare(c, fixed, (size_t)entry->size_bytes, entry->data_offset_bytes, entry));
    else if (c->bundle->blobs[entry->blob].offset_bytes != entry->data_offset_bytes)
        FAIL(c->ctx, TSR_CORRUPT, TSB "strict mode: blob" TSB_AT "%" PRIu64 ", got it elsewhere",
             c->bundle->path, c->bundle->blobs[entry->blob].offset_bytes,
             tsr_entry_text_digest(&entry->digest).text, entry->data_offset_bytes);
    return compare(c, zeros, tsr_tar_gap(entry->size_bytes),
                   entry->data_offset_bytes + entry->size_bytes, entry);
}

static tsr_result compare_plan(checker *c, const tsr_plan *plan) {
    static const char end[2 * TSR_TAR_BLOCK_BYTES];
    if (!c->expected || !c->got)
        FAIL(c->ctx, TSR_MEMORY, "no memory to check '%s'", c->bundle->path);
    TSR_ASSERT(plan->root.size_bytes <= TSR_PLAN_HEAD_BYTES_MAX); /* about 300 bytes */
    if (plan->file_size_bytes != c->bundle->file_size_bytes)
        FAIL(c->ctx, TSR_CORRUPT, TSB "strict mode: file size: expected %" PRIu64 ", got %" PRIu64,
             c->bundle->path, plan->file_size_bytes, c->bundle->file_size_bytes);
    for (size_t i = 0; i < plan->entry_count; i++)
        TRY(c->ctx, compare_entry(c, plan, &plan->entries[i]));
    return compare(c, end, sizeof end, plan->file_size_bytes - sizeof end, NULL);
}

tsr_result tsr_bundle_check_canonical(tsr_ctx *ctx, const tsr_bundle *bundle) {
    tsr_arena arena = {0};
    tsr_plan plan = {0};
    tsr_result result = TSR_SUCCESS;
    checker c = {.ctx = ctx,
                 .bundle = bundle,
                 .expected = malloc(TSR_PLAN_HEAD_BYTES_MAX),
                 .got = malloc(TSR_PLAN_HEAD_BYTES_MAX)};
    TRY_GOTO(ctx, result, tsr_plan_init(ctx, &bundle->layout, bundle->blob_count, &arena, &plan));
    TRY_GOTO(ctx, result, compare_plan(&c, &plan));
done:
    tsr_plan_finish(&plan);
    tsr_arena_finish(&arena);
    free(c.expected);
    free(c.got);
    return result;
}

/* ---- repack ---- */

typedef struct repacker {
    const tsr_bundle *bundle;
    const tsr_plan_entry *entry;
    void *block; /* TSR_BLOB_BLOCK_BYTES */
    const char *path;
    int fd;
} repacker;

static tsr_result copy_block(tsr_ctx *ctx, void *user, const void *bytes, size_t size_bytes,
                             uint64_t offset_bytes) {
    const repacker *r = user;
    return tsr_io_write_all(ctx, r->fd, r->path, bytes, size_bytes,
                            r->entry->data_offset_bytes + offset_bytes);
}

/* A wrong digest fails the whole write, so unverified bytes never appear under the name. */
static tsr_result copy_blob(tsr_ctx *ctx, void *user, const tsr_plan_entry *entry, int fd,
                            const char *path) {
    repacker *r = user;
    r->entry = entry;
    r->fd = fd;
    r->path = path;
    return tsr_blob_stream(ctx, r->bundle, &r->bundle->blobs[entry->blob], r->block, copy_block, r);
}

tsr_result tsr_bundle_repack(tsr_ctx *ctx, const char *in_path, const char *out_path) {
    tsr_bundle *bundle = NULL;
    tsr_arena arena = {0};
    tsr_plan plan = {0};
    tsr_result result = TSR_SUCCESS;
    TRY(ctx, tsr_bundle_open(ctx, in_path, NULL, &bundle));
    repacker r = {.bundle = bundle, .block = tsr_arena_alloc(&arena, TSR_BLOB_BLOCK_BYTES, 1, 64)};
    if (!r.block) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to repack '%s'", in_path);
    TRY_GOTO(ctx, result, tsr_plan_init(ctx, &bundle->layout, bundle->blob_count, &arena, &plan));
    TRY_GOTO(ctx, result, tsr_plan_write(ctx, &plan, out_path, copy_blob, &r));
done:
    tsr_plan_finish(&plan);
    tsr_arena_finish(&arena);
    tsr_bundle_close(ctx, bundle);
    return result;
}
