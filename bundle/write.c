/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: check the spec, turn every blob into stored bytes with its digests (compressing where
 * the media type says so), make manifests, chunk tables and index from them, write the plan.
 */
#include "bundle/bundle.h"
#include "bundle/layout.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* One digest, stored once. */
typedef struct stored {
    const void *bytes; /* borrowed from the spec or the arena */
    uint64_t size_bytes;
    tsr_digest digest;
    const tsr_digest *chunks; /* tsr_chunk_count of them */
} stored;

typedef struct builder {
    tsr_ctx *ctx;
    const char *path;
    const tsr_bundle_spec *spec;
    tsr_arena arena;
    tsr_layout layout;
    stored *blobs;
    size_t blob_count;
    tsr_descriptor config;
    tsr_descriptor *shared;            /* of spec->blobs */
    const tsr_bundle_target **targets; /* in index order */
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
    if (!blob->bytes || blob->size_bytes < 1 || blob->size_bytes > size_max)
        FAIL(b->ctx, TSR_USAGE, TSB "blob '%s' of type %s: expected 1 to %llu bytes, got %llu",
             b->path, blob->title ? blob->title : "-", type, (tsr_ull)size_max,
             (tsr_ull)blob->size_bytes);
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
        spec->config_size_bytes > TSR_BUNDLE_METADATA_BYTES_MAX)
        FAIL(b->ctx, TSR_USAGE, TSB "config: expected 1 to %d bytes, got %zu", b->path,
             TSR_BUNDLE_METADATA_BYTES_MAX, spec->config_size_bytes);
    for (size_t i = 0; i < spec->target_count; i++) TRY(b->ctx, check_target(b, i));
    for (size_t i = 0; i < spec->blob_count; i++) TRY(b->ctx, check_blob(b, &spec->blobs[i]));
    return TSR_SUCCESS;
}

/* ---- stored bytes ---- */

static tsr_result out_of_memory(builder *b) {
    FAIL(b->ctx, TSR_MEMORY, TSB "no memory to build the bundle", b->path);
}

static const tsr_digest *hash_chunks(builder *b, const void *bytes, uint64_t size_bytes) {
    size_t count = (size_t)tsr_chunk_count(size_bytes);
    tsr_digest *chunks = TSR_NEW(&b->arena, tsr_digest, count);
    for (size_t i = 0; chunks && i < count; i++) {
        uint64_t offset = (uint64_t)i * TSR_HASH_CHUNK_BYTES, left = size_bytes - offset;
        size_t part = left < TSR_HASH_CHUNK_BYTES ? (size_t)left : TSR_HASH_CHUNK_BYTES;
        chunks[i] = tsr_hash_tree((const char *)bytes + offset, part);
    }
    return chunks;
}

/* Sets digest, size and blob of the descriptor. `bytes` must live until the plan is written. */
static tsr_result add_blob(builder *b, const void *bytes, uint64_t size_bytes,
                           tsr_descriptor *out) {
    stored blob = {bytes, size_bytes, tsr_hash(bytes, (size_t)size_bytes), NULL};
    size_t index = 0;
    while (index < b->blob_count && !tsr_digest_equal(&b->blobs[index].digest, &blob.digest))
        index++;
    if (index == b->blob_count) {
        blob.chunks = hash_chunks(b, bytes, size_bytes);
        if (!blob.chunks) return out_of_memory(b);
        b->blobs[b->blob_count++] = blob;
    }
    out->digest = blob.digest;
    out->size_bytes = size_bytes;
    out->blob = (uint32_t)index;
    return TSR_SUCCESS;
}

static tsr_result compress(builder *b, const tsr_bundle_blob *blob, void **out_bytes,
                           size_t *out_size) {
    size_t bound = ZSTD_compressBound((size_t)blob->size_bytes), size = 0;
    void *bytes = malloc(bound);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    tsr_result result = TSR_SUCCESS;
    if (!bytes || !zstd) TRY_GOTO(b->ctx, result, out_of_memory(b));
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, TSR_COMPRESSION_LEVEL);
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_contentSizeFlag, 1);
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1);
    size = ZSTD_compress2(zstd, bytes, bound, blob->bytes, (size_t)blob->size_bytes);
    if (ZSTD_isError(size))
        FAIL_GOTO(b->ctx, result, TSR_INTERNAL, TSB "cannot compress '%s': %s", b->path,
                  blob->media_type, ZSTD_getErrorName(size));
    if (blob->size_bytes > TSR_BUNDLE_RATIO_FREE_BYTES &&
        blob->size_bytes / TSR_BUNDLE_RATIO_MAX > size)
        FAIL_GOTO(b->ctx, result, TSR_USAGE,
                  TSB
                  "blob of type %s: %llu bytes compress to %zu; a reader accepts at most %d : 1",
                  b->path, blob->media_type, (tsr_ull)blob->size_bytes, size, TSR_BUNDLE_RATIO_MAX);
    *out_bytes = tsr_arena_memdup(&b->arena, bytes, size);
    *out_size = size;
    if (!*out_bytes) TRY_GOTO(b->ctx, result, out_of_memory(b));
done:
    ZSTD_freeCCtx(zstd);
    free(bytes);
    return result;
}

static tsr_result add_layer(builder *b, const tsr_bundle_blob *blob, tsr_descriptor *out) {
    *out = (tsr_descriptor){.media_type = blob->media_type, .title = blob->title};
    if (!tsr_media_type_compressed(blob->media_type))
        return add_blob(b, blob->bytes, blob->size_bytes, out);
    void *bytes = NULL;
    size_t size = 0;
    TRY(b->ctx, compress(b, blob, &bytes, &size));
    out->compressed = true;
    out->plain_size_bytes = blob->size_bytes;
    out->plain_digest = tsr_hash(blob->bytes, (size_t)blob->size_bytes);
    return add_blob(b, bytes, size, out);
}

/* Adds JSON as a blob; takes the buffer. Limits on layers, titles and targets keep it small. */
static tsr_result add_json(builder *b, tsr_buffer *json, tsr_descriptor *out) {
    size_t size = json->size_bytes;
    void *bytes = json->failed ? NULL : tsr_arena_memdup(&b->arena, json->bytes, size);
    tsr_buffer_finish(json);
    if (!bytes) return out_of_memory(b);
    TSR_ASSERT(size <= TSR_BUNDLE_METADATA_BYTES_MAX);
    return add_blob(b, bytes, size, out);
}

/* ---- manifests and index ---- */

/* The table of all layers before the last, as that last layer. */
static tsr_result add_chunk_table(builder *b, tsr_manifest *manifest) {
    tsr_descriptor *table = &manifest->layers[manifest->layer_count];
    uint64_t count = 0;
    for (size_t i = 0; i < manifest->layer_count; i++)
        count += tsr_chunk_count(manifest->layers[i].size_bytes);
    if (count * TSR_DIGEST_BYTES > TSR_BUNDLE_METADATA_BYTES_MAX)
        FAIL(b->ctx, TSR_USAGE, TSB "target '%s': expected at most %d chunks of 4 MiB, got %llu",
             b->path, manifest->target, TSR_BUNDLE_METADATA_BYTES_MAX / TSR_DIGEST_BYTES,
             (tsr_ull)count);
    tsr_digest *digests = TSR_NEW(&b->arena, tsr_digest, (size_t)count);
    if (!digests) return out_of_memory(b);
    for (size_t i = 0, at = 0; i < manifest->layer_count; i++) {
        const stored *blob = &b->blobs[manifest->layers[i].blob];
        size_t part = (size_t)tsr_chunk_count(blob->size_bytes);
        memcpy(&digests[at], blob->chunks, part * sizeof *digests);
        at += part;
    }
    *table = (tsr_descriptor){.media_type = TSR_MEDIA_CHUNKS};
    manifest->layer_count++;
    return add_blob(b, digests, count * TSR_DIGEST_BYTES, table);
}

static tsr_result add_manifest(builder *b, const tsr_bundle_target *target) {
    tsr_manifest *manifest = &b->layout.manifests[b->layout.manifest_count++];
    size_t shared = b->spec->blob_count;
    *manifest = (tsr_manifest){.target = target->name, .config = b->config};
    manifest->layers = TSR_NEW(&b->arena, tsr_descriptor, shared + target->blob_count + 1);
    if (!manifest->layers) return out_of_memory(b);
    if (shared) memcpy(manifest->layers, b->shared, shared * sizeof *b->shared);
    for (size_t i = 0; i < target->blob_count; i++)
        TRY(b->ctx, add_layer(b, &target->blobs[i], &manifest->layers[shared + i]));
    manifest->layer_count = shared + target->blob_count;
    TRY(b->ctx, add_chunk_table(b, manifest));
    tsr_buffer json = {0};
    tsr_layout_format_manifest(&json, manifest);
    manifest->self.media_type = TSR_MEDIA_MANIFEST;
    return add_json(b, &json, &manifest->self);
}

static int compare_targets(const void *a, const void *b) {
    const tsr_bundle_target *const *left = a, *const *right = b;
    return tsr_target_compare((*left)->name, (*right)->name);
}

/* Targets in index order, and room for every blob there can be. */
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
    b->blobs = TSR_NEW(&b->arena, stored, blobs);
    return b->blobs ? TSR_SUCCESS : out_of_memory(b);
}

static tsr_result build(builder *b) {
    const tsr_bundle_spec *spec = b->spec;
    tsr_buffer json = {0};
    TRY(b->ctx, check_spec(b));
    TRY(b->ctx, prepare(b));
    b->config.media_type = TSR_MEDIA_CONFIG;
    TRY(b->ctx, add_blob(b, spec->config, spec->config_size_bytes, &b->config));
    for (size_t i = 0; i < spec->blob_count; i++)
        TRY(b->ctx, add_layer(b, &spec->blobs[i], &b->shared[i]));
    for (size_t i = 0; i < spec->target_count; i++) TRY(b->ctx, add_manifest(b, b->targets[i]));
    tsr_layout_format_index(&json, &b->layout);
    b->layout.index.media_type = TSR_MEDIA_INDEX;
    return add_json(b, &json, &b->layout.index);
}

static tsr_result copy_blob(tsr_ctx *ctx, void *user, const tsr_plan_entry *entry, int fd,
                            const char *path) {
    const builder *b = user;
    return tsr_io_write_all(ctx, fd, path, b->blobs[entry->blob].bytes, (size_t)entry->size_bytes,
                            entry->data_offset_bytes);
}

tsr_result tsr_bundle_write(tsr_ctx *ctx, const char *path, const tsr_bundle_spec *spec) {
    builder b = {.ctx = ctx, .path = path, .spec = spec};
    tsr_plan plan = {0};
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, build(&b));
    TRY_GOTO(ctx, result, tsr_plan_init(ctx, &b.layout, b.blob_count, &b.arena, &plan));
    TRY_GOTO(ctx, result, tsr_plan_write(ctx, &plan, path, copy_blob, &b));
done:
    tsr_plan_finish(&plan);
    tsr_arena_finish(&b.arena);
    return result;
}
