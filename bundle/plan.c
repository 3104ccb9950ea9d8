/* SPDX-License-Identifier: Apache-2.0
 *
 * The canonical archive as a function of the layout: the offset of each member, and writing it.
 */
#include "bundle/bundle.h"
#include "bundle/layout.h"

#include <stdlib.h>
#include <string.h>

/* Rows 3 to 10 of FORMAT.md section 1. */
typedef enum rank {
    RANK_INDEX,
    RANK_MANIFEST,
    RANK_CONFIG,
    RANK_CHUNKS,
    RANK_SMALL,
    RANK_LARGE,
    RANK_WEIGHTS,
    RANK_STATE,
    RANK_COUNT,
} rank;

typedef struct planner {
    tsr_plan *plan;
    bool *appended; /* one flag for each blob */
    uint64_t at;    /* current end of the archive */
} planner;

static bool is_large_raw(const char *media_type, uint64_t size_bytes) {
    return size_bytes >= TSR_BUNDLE_ALIGN_BYTES && !tsr_media_type_compressed(media_type);
}

static rank rank_of_layer(const tsr_descriptor *layer) {
    if (strcmp(layer->media_type, TSR_MEDIA_CHUNKS) == 0) return RANK_CHUNKS;
    if (!is_large_raw(layer->media_type, layer->size_bytes)) return RANK_SMALL;
    if (strcmp(layer->media_type, TSR_MEDIA_WEIGHTS) == 0) return RANK_WEIGHTS;
    return strcmp(layer->media_type, TSR_MEDIA_STATE) == 0 ? RANK_STATE : RANK_LARGE;
}

static void append_entry(planner *p, uint32_t blob, const tsr_digest *digest, uint64_t size_bytes,
                         bool align) {
    tsr_plan_entry entry = {.blob = blob,
                            .digest = *digest,
                            .head_offset_bytes = p->at,
                            .pad_bytes = align ? tsr_tar_pad_size(p->at) : 0,
                            .size_bytes = size_bytes};
    uint64_t head = TSR_TAR_BLOCK_BYTES;
    if (entry.pad_bytes) head += TSR_TAR_BLOCK_BYTES + entry.pad_bytes;
    entry.data_offset_bytes = p->at + head;
    p->at = entry.data_offset_bytes + size_bytes + tsr_tar_gap(size_bytes);
    p->plan->entries[p->plan->entry_count++] = entry;
}

static void append_blob(planner *p, const tsr_descriptor *d) {
    if (p->appended[d->blob]) return;
    p->appended[d->blob] = true;
    append_entry(p, d->blob, &d->digest, d->size_bytes, is_large_raw(d->media_type, d->size_bytes));
}

static void append_rank(planner *p, const tsr_layout *layout, rank wanted) {
    if (wanted == RANK_INDEX) append_blob(p, &layout->index);
    for (size_t m = 0; m < layout->manifest_count; m++) {
        const tsr_manifest *manifest = &layout->manifests[m];
        if (!manifest->layer_count) continue; /* left out of a slice */
        if (wanted == RANK_MANIFEST) append_blob(p, &manifest->self);
        if (wanted == RANK_CONFIG) append_blob(p, &manifest->config);
        for (size_t i = 0; i < manifest->layer_count; i++)
            if (rank_of_layer(&manifest->layers[i]) == wanted) append_blob(p, &manifest->layers[i]);
    }
}

tsr_result tsr_plan_init(tsr_ctx *ctx, const tsr_layout *layout, size_t blob_count,
                         tsr_arena *arena, tsr_plan *out_plan) {
    static const tsr_digest none;
    tsr_plan plan = {.entries = TSR_NEW(arena, tsr_plan_entry, blob_count + 2)};
    planner p = {.plan = &plan, .appended = TSR_NEW(arena, bool, blob_count)};
    tsr_layout_format_root(&plan.root, &layout->index);
    if (!plan.entries || !p.appended || plan.root.failed) {
        tsr_buffer_finish(&plan.root);
        FAIL(ctx, TSR_MEMORY, "no memory to lay out a bundle of %zu blobs", blob_count);
    }
    append_entry(&p, TSR_PLAN_MARKER, &none, sizeof TSR_OCI_LAYOUT - 1, false);
    append_entry(&p, TSR_PLAN_ROOT, &none, plan.root.size_bytes, false);
    for (rank wanted = RANK_INDEX; wanted < RANK_COUNT; wanted++) append_rank(&p, layout, wanted);
    plan.file_size_bytes = p.at + 2 * TSR_TAR_BLOCK_BYTES;
    *out_plan = plan;
    return TSR_SUCCESS;
}

void tsr_plan_finish(tsr_plan *plan) {
    if (!plan) return;
    tsr_buffer_finish(&plan->root);
    *plan = (tsr_plan){0};
}

const char *tsr_plan_fixed_bytes(const tsr_plan *plan, const tsr_plan_entry *entry) {
    if (entry->blob == TSR_PLAN_MARKER) return TSR_OCI_LAYOUT;
    return entry->blob == TSR_PLAN_ROOT ? plan->root.bytes : NULL;
}

size_t tsr_plan_format_head(const tsr_plan_entry *entry,
                            unsigned char out_head[static TSR_PLAN_HEAD_BYTES_MAX]) {
    char name[sizeof TSR_BLOB_FOLDER + TSR_DIGEST_HEX] = TSR_BLOB_FOLDER;
    unsigned char *at = out_head;
    if (entry->blob == TSR_PLAN_MARKER)
        strcpy(name, "oci-layout");
    else if (entry->blob == TSR_PLAN_ROOT)
        strcpy(name, "index.json");
    else
        tsr_digest_format(&entry->digest, name + sizeof TSR_BLOB_FOLDER - 1);
    if (entry->pad_bytes) {
        tsr_tar_format_header(at, "PaxHeader/pad", 'x', entry->pad_bytes);
        tsr_tar_format_pad(at + TSR_TAR_BLOCK_BYTES, entry->pad_bytes);
        at += TSR_TAR_BLOCK_BYTES + entry->pad_bytes;
    }
    tsr_tar_format_header(at, name, '0', entry->size_bytes);
    return (size_t)(at + TSR_TAR_BLOCK_BYTES - out_head);
}

static tsr_result write_entry(tsr_ctx *ctx, const tsr_plan *plan, const tsr_plan_entry *entry,
                              const tsr_io_atomic *file, unsigned char *head, tsr_plan_copy_fn copy,
                              void *user) {
    static const char zeros[TSR_TAR_BLOCK_BYTES];
    size_t head_size = tsr_plan_format_head(entry, head);
    const char *fixed = tsr_plan_fixed_bytes(plan, entry);
    uint64_t end = entry->data_offset_bytes + entry->size_bytes;
    TRY(ctx,
        tsr_io_write_all(ctx, file->fd, file->path, head, head_size, entry->head_offset_bytes));
    if (fixed)
        TRY(ctx, tsr_io_write_all(ctx, file->fd, file->path, fixed, (size_t)entry->size_bytes,
                                  entry->data_offset_bytes));
    else
        TRY(ctx, copy(ctx, user, entry, file->fd, file->path));
    return tsr_io_write_all(ctx, file->fd, file->path, zeros, tsr_tar_gap(entry->size_bytes), end);
}

tsr_result tsr_plan_write_file(tsr_ctx *ctx, const tsr_plan *plan, const tsr_io_atomic *file,
                               tsr_plan_copy_fn copy, void *user) {
    static const char end[2 * TSR_TAR_BLOCK_BYTES];
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_result result = TSR_SUCCESS;
    unsigned char *head = malloc(TSR_PLAN_HEAD_BYTES_MAX);
    if (!head) FAIL(ctx, TSR_MEMORY, "no memory to write '%s'", file->path);
    for (size_t i = 0; i < plan->entry_count; i++)
        TRY_GOTO(ctx, result, write_entry(ctx, plan, &plan->entries[i], file, head, copy, user));
    TRY_GOTO(ctx, result,
             tsr_io_write_all(ctx, file->fd, file->path, end, sizeof end,
                              plan->file_size_bytes - sizeof end));
    int code = io->ftruncate(io->self, file->fd, (off_t)plan->file_size_bytes);
    if (code < 0)
        result = tsr_fail_(ctx, TSR_IO, -code, __FILE__, __LINE__, "cannot write '%s'", file->path);
done:
    free(head);
    return result;
}

tsr_result tsr_plan_write(tsr_ctx *ctx, const tsr_plan *plan, const char *path,
                          tsr_plan_copy_fn copy, void *user) {
    tsr_arena arena = {0};
    tsr_io_atomic file = {.fd = -1};
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, tsr_io_atomic_open(ctx, path, &arena, &file));
    TRY_GOTO(ctx, result, tsr_plan_write_file(ctx, plan, &file, copy, user));
    TRY_GOTO(ctx, result, tsr_io_atomic_commit(ctx, &file));
done:
    tsr_io_atomic_abandon(ctx, &file);
    tsr_arena_finish(&arena);
    return result;
}
