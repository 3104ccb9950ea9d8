/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: check the spec; list the blobs (compressing where the media type says so); plan the
 * archive, whose offsets depend only on sizes; hash the blobs while they are written to their
 * offsets; make chunk tables, manifests and index from the digests, and write the rest.
 *
 *     check -> list -> plan -> hash and write -> name -> plan again -> write heads and metadata
 *
 * Blobs with equal bytes are stored once. If two are found to be equal only after hashing, the
 * blobs after them move down.
 */
#include "bundle/bundle.h"
#include "bundle/layout.h"
#include "bundle/stored.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

typedef struct builder {
    tsr_ctx *ctx;
    const char *path;
    const tsr_bundle_spec *spec;
    tsr_arena arena;
    tsr_layout layout;
    tsr_stored *blobs;
    size_t blob_count;
    uint32_t *first; /* the first blob with the same digest, for each blob */
    tsr_descriptor config;
    tsr_descriptor *shared;            /* descriptors of spec->blobs */
    const tsr_bundle_target **targets; /* targets in index order */
} builder;

/* ---- checking the spec ---- */

static tsr_result check_blob(builder *b, const tsr_bundle_blob *blob) {
    const char *type = blob->media_type ? blob->media_type : "";
    bool compressed = tsr_media_type_compressed(type);
    uint64_t size_max = compressed ? TSR_BUNDLE_PLAIN_BYTES_MAX : TSR_BUNDLE_BLOB_BYTES_MAX;
    if (!tsr_media_type_valid(type) || strcmp(type, TSR_MEDIA_CHUNKS) == 0)
        FAIL(b->ctx, TSR_USAGE, TSB "media type '%s' is malformed or reserved", b->path, type);
    if (blob->title && !tsr_title_valid(blob->title))
        FAIL(b->ctx, TSR_USAGE, TSB "title '%s' of a blob: expected letters, digits and _.+-",
             b->path, blob->title);
    if (!blob->bytes == !blob->source || (compressed && blob->source))
        FAIL(b->ctx, TSR_USAGE,
             TSB "blob '%s' of type %s: expected bytes or a source, +zstd only bytes, got %s",
             b->path, blob->title ? blob->title : "-", type,
             blob->bytes    ? "both"
             : blob->source ? "a source"
                            : "neither");
    if (blob->size_bytes < 1 || blob->size_bytes > size_max)
        FAIL(b->ctx, TSR_USAGE,
             TSB "blob '%s' of type %s: expected 1 to %" PRIu64 " bytes, got %" PRIu64, b->path,
             blob->title ? blob->title : "-", type, size_max, blob->size_bytes);
    return TSR_SUCCESS;
}

static tsr_result check_target(builder *b, size_t index) {
    const tsr_bundle_spec *spec = b->spec;
    const tsr_bundle_target *target = &spec->targets[index];
    if (!target->name || !tsr_target_valid(target->name))
        FAIL(b->ctx, TSR_USAGE,
             TSB "target '%s': expected <family>:<architecture>, as cpu:x86-64-v3", b->path,
             target->name ? target->name : "");
    for (size_t i = 0; i < index; i++)
        if (strcmp(spec->targets[i].name, target->name) == 0)
            FAIL(b->ctx, TSR_USAGE, TSB "target '%s' is given twice", b->path, target->name);
    if (spec->blob_count >= TSR_BUNDLE_LAYERS_MAX ||
        target->blob_count >= TSR_BUNDLE_LAYERS_MAX - spec->blob_count ||
        spec->blob_count + target->blob_count == 0)
        FAIL(b->ctx, TSR_USAGE, TSB "target '%s': expected 1 to %d blobs, got %zu and %zu shared",
             b->path, target->name, TSR_BUNDLE_LAYERS_MAX - 1, target->blob_count,
             spec->blob_count);
    for (size_t i = 0; i < target->blob_count; i++) TRY(b->ctx, check_blob(b, &target->blobs[i]));
    return TSR_SUCCESS;
}

static tsr_result check_spec(builder *b) {
    const tsr_bundle_spec *spec = b->spec;
    TSR_ASSERT(spec->size_bytes == sizeof *spec);
    if (spec->target_count < 1 || spec->target_count > TSR_BUNDLE_MANIFESTS_MAX)
        FAIL(b->ctx, TSR_USAGE, TSB "expected 1 to %d targets, got %zu", b->path,
             TSR_BUNDLE_MANIFESTS_MAX, spec->target_count);
    if (!spec->config || spec->config_size_bytes < 1 ||
        spec->config_size_bytes > TSR_BUNDLE_CONFIG_BYTES_MAX)
        FAIL(b->ctx, TSR_USAGE, TSB "config: expected 1 to %d bytes, got %zu", b->path,
             TSR_BUNDLE_CONFIG_BYTES_MAX, spec->config_size_bytes);
    for (size_t i = 0; i < spec->target_count; i++) TRY(b->ctx, check_target(b, i));
    for (size_t i = 0; i < spec->blob_count; i++) TRY(b->ctx, check_blob(b, &spec->blobs[i]));
    return TSR_SUCCESS;
}

/* ---- stored bytes ---- */

static tsr_result out_of_memory(builder *b) {
    FAIL(b->ctx, TSR_MEMORY, TSB "no memory to build the bundle", b->path);
}

static bool same_content(const tsr_stored *a, const tsr_stored *b) {
    if (a->size_bytes != b->size_bytes) return false;
    if (a->source || b->source)
        return a->source && b->source && a->source->read == b->source->read &&
               a->source->user == b->source->user;
    return a->bytes && b->bytes &&
           (a->bytes == b->bytes || memcmp(a->bytes, b->bytes, (size_t)a->size_bytes) == 0);
}

/* Sets size and blob of the descriptor. `bytes` must live until the plan is written; blobs that are
 * made later have neither bytes nor source yet. */
static void add_blob(builder *b, const void *bytes, const tsr_bundle_source *source,
                     uint64_t size_bytes, tsr_descriptor *out) {
    const tsr_stored blob = {.bytes = bytes, .source = source, .size_bytes = size_bytes};
    size_t index = 0;
    while (index < b->blob_count && !same_content(&b->blobs[index], &blob)) index++;
    if (index == b->blob_count) b->blobs[b->blob_count++] = blob;
    out->size_bytes = size_bytes;
    out->blob = (uint32_t)index;
}

/* One frame of small blocks: each takes at least 4 bytes, so that no text becomes smaller than a
 * reader accepts. */
static size_t compress_in_blocks(ZSTD_CCtx *zstd, void *out, size_t out_size, const char *bytes,
                                 size_t size_bytes) {
    enum { BLOCK_BYTES = 2048 };
    static_assert(BLOCK_BYTES / 4 < TSR_BUNDLE_RATIO_MAX, "accepted by readers");
    ZSTD_outBuffer to = {out, out_size, 0};
    ZSTD_CCtx_reset(zstd, ZSTD_reset_session_only);
    size_t left = ZSTD_CCtx_setPledgedSrcSize(zstd, size_bytes);
    for (size_t at = 0; at < size_bytes && !ZSTD_isError(left); at += BLOCK_BYTES) {
        size_t size = size_bytes - at < BLOCK_BYTES ? size_bytes - at : BLOCK_BYTES;
        ZSTD_inBuffer from = {bytes + at, size, 0};
        bool last = at + size == size_bytes;
        do left = ZSTD_compressStream2(zstd, &to, &from, last ? ZSTD_e_end : ZSTD_e_flush);
        while (left && !ZSTD_isError(left));
    }
    return ZSTD_isError(left) ? left : to.pos;
}

static bool is_too_small(const tsr_bundle_blob *blob, size_t stored_bytes) {
    return blob->size_bytes > TSR_BUNDLE_RATIO_FREE_BYTES &&
           blob->size_bytes / TSR_BUNDLE_RATIO_MAX > stored_bytes;
}

static tsr_result compress(builder *b, const tsr_bundle_blob *blob, void **out_bytes,
                           size_t *out_size) {
    size_t bound = ZSTD_compressBound((size_t)blob->size_bytes), size = 0;
    void *bytes = malloc(bound);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    tsr_result result = TSR_SUCCESS;
    if (!bytes || !zstd) TRY_GOTO(b->ctx, result, out_of_memory(b));
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, tsr_compression_level(blob->size_bytes));
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_contentSizeFlag, 1);
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1);
    size = ZSTD_compress2(zstd, bytes, bound, blob->bytes, (size_t)blob->size_bytes);
    if (!ZSTD_isError(size) && is_too_small(blob, size))
        size = compress_in_blocks(zstd, bytes, bound, blob->bytes, (size_t)blob->size_bytes);
    if (ZSTD_isError(size))
        FAIL_GOTO(b->ctx, result, TSR_INTERNAL, TSB "cannot compress '%s': %s", b->path,
                  blob->media_type, ZSTD_getErrorName(size));
    TSR_ASSERT(!is_too_small(blob, size));
    *out_bytes = tsr_arena_memdup(&b->arena, bytes, size);
    *out_size = size;
    if (!*out_bytes) TRY_GOTO(b->ctx, result, out_of_memory(b));
done:
    ZSTD_freeCCtx(zstd);
    free(bytes);
    return result;
}

static tsr_result add_layer(builder *b, const tsr_bundle_blob *blob, tsr_descriptor *out) {
    void *bytes = NULL;
    size_t size = 0;
    *out = (tsr_descriptor){.media_type = blob->media_type, .title = blob->title};
    if (!tsr_media_type_compressed(blob->media_type)) {
        add_blob(b, blob->bytes, blob->source, blob->size_bytes, out);
        return TSR_SUCCESS;
    }
    TRY(b->ctx, compress(b, blob, &bytes, &size));
    out->compressed = true;
    out->plain_size_bytes = blob->size_bytes;
    out->plain_digest = tsr_hash(blob->bytes, (size_t)blob->size_bytes);
    add_blob(b, bytes, NULL, size, out);
    return TSR_SUCCESS;
}

/* ---- blobs made from digests ---- */

/* The blobs' sizes do not depend on the digests: zeros replace the digests while the archive is
 * planned. */
static tsr_result plan_json(builder *b, tsr_buffer *json, const char *media_type,
                            tsr_descriptor *out) {
    bool failed = json->failed;
    size_t size = json->size_bytes;
    tsr_buffer_finish(json);
    if (failed) return out_of_memory(b);
    /* Limits on layers, titles and targets keep the size small. */
    TSR_ASSERT(size <= TSR_BUNDLE_METADATA_BYTES_MAX);
    out->media_type = media_type;
    add_blob(b, NULL, NULL, size, out);
    return TSR_SUCCESS;
}

static bool same_layers(const tsr_manifest *a, const tsr_manifest *b) {
    if (a->layer_count != b->layer_count) return false;
    for (size_t i = 0; i + 1 < a->layer_count; i++)
        if (a->layers[i].blob != b->layers[i].blob) return false;
    return true;
}

/* Plans the table of all layers but the last as the last layer. Equal layers have equal tables. */
static tsr_result plan_chunk_table(builder *b, tsr_manifest *manifest) {
    tsr_descriptor *table = &manifest->layers[manifest->layer_count];
    uint64_t count = 0;
    for (size_t i = 0; i < manifest->layer_count; i++)
        count += tsr_chunk_count(manifest->layers[i].size_bytes);
    if (count * TSR_DIGEST_BYTES > TSR_BUNDLE_TABLE_BYTES_MAX)
        FAIL(b->ctx, TSR_USAGE,
             TSB "target '%s': expected at most %d chunks of 4 MiB, got %" PRIu64, b->path,
             manifest->target, TSR_BUNDLE_TABLE_BYTES_MAX / TSR_DIGEST_BYTES, count);
    *table = (tsr_descriptor){.media_type = TSR_MEDIA_CHUNKS};
    manifest->layer_count++;
    for (const tsr_manifest *other = b->layout.manifests; other < manifest; other++) {
        if (!same_layers(other, manifest)) continue;
        *table = other->layers[other->layer_count - 1];
        return TSR_SUCCESS;
    }
    add_blob(b, NULL, NULL, count * TSR_DIGEST_BYTES, table);
    return TSR_SUCCESS;
}

static tsr_result plan_manifest(builder *b, const tsr_bundle_target *target) {
    tsr_manifest *manifest = &b->layout.manifests[b->layout.manifest_count++];
    size_t shared = b->spec->blob_count;
    tsr_buffer json = {0};
    *manifest = (tsr_manifest){.target = target->name, .config = b->config};
    manifest->layers = TSR_NEW(&b->arena, tsr_descriptor, shared + target->blob_count + 1);
    if (!manifest->layers) return out_of_memory(b);
    if (shared) memcpy(manifest->layers, b->shared, shared * sizeof *b->shared);
    for (size_t i = 0; i < target->blob_count; i++)
        TRY(b->ctx, add_layer(b, &target->blobs[i], &manifest->layers[shared + i]));
    manifest->layer_count = shared + target->blob_count;
    TRY(b->ctx, plan_chunk_table(b, manifest));
    tsr_layout_format_manifest(&json, manifest);
    return plan_json(b, &json, TSR_MEDIA_MANIFEST, &manifest->self);
}

/* ---- digests ---- */

/* Sets the bytes, which have just been made; their size is the planned one. */
static void fill_blob(tsr_stored *blob, const void *bytes, size_t size_bytes) {
    TSR_ASSERT(size_bytes == blob->size_bytes);
    blob->bytes = bytes;
    blob->digest = tsr_hash(bytes, size_bytes);
}

static tsr_result fill_json(builder *b, tsr_buffer *json, tsr_descriptor *d) {
    void *bytes = json->failed ? NULL : tsr_arena_memdup(&b->arena, json->bytes, json->size_bytes);
    size_t size = json->size_bytes;
    tsr_buffer_finish(json);
    if (!bytes) return out_of_memory(b);
    fill_blob(&b->blobs[d->blob], bytes, size);
    d->digest = b->blobs[d->blob].digest;
    return TSR_SUCCESS;
}

static tsr_result fill_chunk_table(builder *b, tsr_manifest *manifest) {
    tsr_descriptor *table = &manifest->layers[manifest->layer_count - 1];
    tsr_stored *blob = &b->blobs[table->blob];
    if (!blob->bytes) {
        tsr_digest *digests =
            TSR_NEW(&b->arena, tsr_digest, (size_t)(blob->size_bytes / TSR_DIGEST_BYTES));
        if (!digests) return out_of_memory(b);
        for (size_t i = 0, at = 0; i + 1 < manifest->layer_count; i++) {
            const tsr_stored *layer = &b->blobs[manifest->layers[i].blob];
            size_t part = (size_t)tsr_chunk_count(layer->size_bytes);
            memcpy(&digests[at], layer->chunks, part * sizeof *digests);
            at += part;
        }
        fill_blob(blob, digests, (size_t)blob->size_bytes);
    }
    table->digest = blob->digest;
    return TSR_SUCCESS;
}

/* Names everything by its digest, from the layers up to the index. */
static tsr_result fill(builder *b) {
    tsr_buffer json = {0};
    b->config.digest = b->blobs[b->config.blob].digest;
    for (size_t m = 0; m < b->layout.manifest_count; m++) {
        tsr_manifest *manifest = &b->layout.manifests[m];
        manifest->config = b->config;
        for (size_t i = 0; i + 1 < manifest->layer_count; i++)
            manifest->layers[i].digest = b->blobs[manifest->layers[i].blob].digest;
        TRY(b->ctx, fill_chunk_table(b, manifest));
        tsr_layout_format_manifest(&json, manifest);
        TRY(b->ctx, fill_json(b, &json, &manifest->self));
    }
    tsr_layout_format_index(&json, &b->layout);
    return fill_json(b, &json, &b->layout.index);
}

/* Blobs that have turned out to be equal become one. */
static void merge(builder *b, tsr_descriptor *d) { d->blob = b->first[d->blob]; }

static tsr_result merge_equal(builder *b) {
    b->first = TSR_NEW(&b->arena, uint32_t, b->blob_count);
    if (!b->first) return out_of_memory(b);
    for (uint32_t i = 0; i < b->blob_count; i++) {
        while (!tsr_digest_equal(&b->blobs[b->first[i]].digest, &b->blobs[i].digest)) b->first[i]++;
    }
    merge(b, &b->layout.index);
    for (size_t m = 0; m < b->layout.manifest_count; m++) {
        tsr_manifest *manifest = &b->layout.manifests[m];
        merge(b, &manifest->self);
        merge(b, &manifest->config);
        for (size_t i = 0; i < manifest->layer_count; i++) merge(b, &manifest->layers[i]);
    }
    return TSR_SUCCESS;
}

/* ---- the archive ---- */

static int compare_targets(const void *a, const void *b) {
    const tsr_bundle_target *const *left = a, *const *right = b;
    return tsr_target_compare((*left)->name, (*right)->name);
}

/* Sorts the targets into index order and allocates room for all possible blobs. */
static tsr_result prepare(builder *b) {
    const tsr_bundle_spec *spec = b->spec;
    size_t count = spec->target_count;
    size_t blobs = 2 + spec->blob_count; /* index and config */
    b->targets = TSR_NEW(&b->arena, const tsr_bundle_target *, count);
    b->layout.manifests = TSR_NEW(&b->arena, tsr_manifest, count);
    b->shared = TSR_NEW(&b->arena, tsr_descriptor, spec->blob_count);
    if (!b->targets || !b->layout.manifests || !b->shared) return out_of_memory(b);
    for (size_t i = 0; i < count; i++) {
        b->targets[i] = &spec->targets[i];
        blobs += spec->targets[i].blob_count + 2; /* manifest and chunk table */
    }
    qsort(b->targets, count, sizeof *b->targets, compare_targets);
    b->blobs = TSR_NEW(&b->arena, tsr_stored, blobs);
    return b->blobs ? TSR_SUCCESS : out_of_memory(b);
}

static tsr_result list(builder *b) {
    const tsr_bundle_spec *spec = b->spec;
    tsr_buffer json = {0};
    TRY(b->ctx, check_spec(b));
    TRY(b->ctx, prepare(b));
    b->config.media_type = TSR_MEDIA_CONFIG;
    add_blob(b, spec->config, NULL, spec->config_size_bytes, &b->config);
    for (size_t i = 0; i < spec->blob_count; i++)
        TRY(b->ctx, add_layer(b, &spec->blobs[i], &b->shared[i]));
    for (size_t i = 0; i < spec->target_count; i++) TRY(b->ctx, plan_manifest(b, b->targets[i]));
    tsr_layout_format_index(&json, &b->layout);
    return plan_json(b, &json, TSR_MEDIA_INDEX, &b->layout.index);
}

static tsr_result plan_layout(builder *b) {
    tsr_plan plan = {0};
    TRY(b->ctx, tsr_plan_init(b->ctx, &b->layout, b->blob_count, &b->arena, &plan));
    for (size_t i = 0; i < plan.entry_count; i++)
        if (plan.entries[i].blob < b->blob_count)
            b->blobs[plan.entries[i].blob].file_offset_bytes = plan.entries[i].data_offset_bytes;
    tsr_plan_finish(&plan);
    return TSR_SUCCESS;
}

typedef struct output {
    builder *builder;
    const tsr_io_atomic *file;
} output;

/* A written blob keeps its offset, or moves down if an earlier duplicate was removed. */
static tsr_result write_blob(tsr_ctx *ctx, void *user, const tsr_plan_entry *entry, int fd,
                             const char *path) {
    const output *out = user;
    tsr_stored *blob = &out->builder->blobs[entry->blob];
    if (blob->written) return tsr_stored_move(ctx, blob, out->file, entry->data_offset_bytes);
    return tsr_io_write_all(ctx, fd, path, blob->bytes, (size_t)entry->size_bytes,
                            entry->data_offset_bytes);
}

static tsr_result write_archive(tsr_ctx *ctx, builder *b, const tsr_io_atomic *file) {
    tsr_plan plan = {0};
    output out = {b, file};
    TRY(ctx, plan_layout(b));
    TRY(ctx, tsr_stored_write(ctx, b->blobs, b->blob_count, file, &b->arena));
    TRY(ctx, fill(b));
    TRY(ctx, merge_equal(b));
    TRY(ctx, tsr_plan_init(ctx, &b->layout, b->blob_count, &b->arena, &plan));
    tsr_result result = tsr_plan_write_file(ctx, &plan, file, write_blob, &out);
    tsr_plan_finish(&plan);
    return result;
}

tsr_result tsr_bundle_write(tsr_ctx *ctx, const char *path, const tsr_bundle_spec *spec) {
    builder b = {.ctx = ctx, .path = path, .spec = spec};
    tsr_io_atomic file = {.fd = -1};
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, list(&b));
    TRY_GOTO(ctx, result, tsr_io_atomic_open(ctx, path, &b.arena, &file));
    TRY_GOTO(ctx, result, write_archive(ctx, &b, &file));
    TRY_GOTO(ctx, result, tsr_io_atomic_commit(ctx, &file));
done:
    tsr_io_atomic_abandon(ctx, &file);
    tsr_arena_finish(&b.arena);
    return result;
}
