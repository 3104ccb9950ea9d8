/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of an open bundle, and reading them. The bytes are hashed after they have been read
 * into the caller's memory or a private copy, so the verified bytes are exactly the returned bytes.
 */
#include "bundle/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { LAYER_BITS = 16 }; /* bits of tsr_bundle_layer.id for the layer; above: the manifest */
static_assert(TSR_BUNDLE_LAYERS_MAX < 1 << LAYER_BITS, "a layer's id holds its index");

/* ---- contents ---- */

const char *tsr_bundle_get_path(const tsr_bundle *bundle) { return bundle->path; }
tsr_digest tsr_bundle_get_digest(const tsr_bundle *bundle) { return bundle->layout.index.digest; }
uint64_t tsr_bundle_get_file_size(const tsr_bundle *bundle) { return bundle->file_size_bytes; }
size_t tsr_bundle_get_target_count(const tsr_bundle *bundle) { return bundle->target_count; }

bool tsr_bundle_is_slice(const tsr_bundle *bundle) {
    for (size_t i = 0; i < bundle->layout.manifest_count; i++)
        if (!bundle->layout.manifests[i].layer_count) return true;
    return false;
}

const char *tsr_bundle_get_missing_target(const tsr_bundle *bundle, size_t index) {
    for (size_t i = 0; i < bundle->layout.manifest_count; i++) {
        const tsr_manifest *manifest = &bundle->layout.manifests[i];
        if (manifest->target && !manifest->layer_count && index-- == 0) return manifest->target;
    }
    return NULL;
}

static const tsr_manifest *manifest_of(const tsr_bundle *bundle, size_t target) {
    TSR_ASSERT(target < bundle->target_count);
    return &bundle->layout.manifests[bundle->targets[target]];
}

const char *tsr_bundle_get_target_name(const tsr_bundle *bundle, size_t target) {
    return manifest_of(bundle, target)->target;
}

void tsr_bundle_get_config(const tsr_bundle *bundle, size_t target, const char **out_json,
                           size_t *out_size_bytes) {
    TSR_ASSERT(target < bundle->target_count);
    *out_json = bundle->config;
    *out_size_bytes = bundle->config_size_bytes;
}

size_t tsr_bundle_get_layer_count(const tsr_bundle *bundle, size_t target) {
    return manifest_of(bundle, target)->layer_count;
}

tsr_bundle_layer tsr_bundle_get_layer(const tsr_bundle *bundle, size_t target, size_t layer) {
    const tsr_manifest *manifest = manifest_of(bundle, target);
    TSR_ASSERT(layer < manifest->layer_count);
    const tsr_descriptor *d = &manifest->layers[layer];
    return (tsr_bundle_layer){.media_type = d->media_type,
                              .title = d->title,
                              .size_bytes = d->size_bytes,
                              .offset_bytes = bundle->blobs[d->blob].offset_bytes,
                              .digest = d->digest,
                              .id = (uint32_t)(bundle->targets[target] << LAYER_BITS | layer)};
}

bool tsr_bundle_find_layer(const tsr_bundle *bundle, size_t target, const char *media_type,
                           tsr_bundle_layer *out_layer) {
    const tsr_manifest *manifest = manifest_of(bundle, target);
    for (size_t i = 0; i < manifest->layer_count; i++) {
        if (strcmp(manifest->layers[i].media_type, media_type) != 0) continue;
        *out_layer = tsr_bundle_get_layer(bundle, target, i);
        return true;
    }
    return false;
}

/* Returns the length up to the number: "application/vnd.tessera.program.v" */
static size_t stem_size(const char *media_type) {
    const char *version = strstr(media_type, ".v1");
    return version ? (size_t)(version - media_type) + 2 : strlen(media_type);
}

tsr_result tsr_bundle_need_layer(tsr_ctx *ctx, const tsr_bundle *bundle, size_t target,
                                 const char *media_type, tsr_bundle_layer *out_layer) {
    const tsr_manifest *manifest = manifest_of(bundle, target);
    size_t stem = stem_size(media_type);
    if (tsr_bundle_find_layer(bundle, target, media_type, out_layer)) return TSR_SUCCESS;
    for (size_t i = 0; i < manifest->layer_count; i++) {
        const char *other = manifest->layers[i].media_type;
        if (strncmp(other, media_type, stem) != 0 || other[stem] < '0' || other[stem] > '9')
            continue;
        FAIL(ctx, TSR_VERSION,
             TSB "layers of '%s': expected '%s', got '%s', which needs a newer tessera-run",
             bundle->path, manifest->target, media_type, other);
    }
    FAIL(ctx, TSR_CORRUPT, TSB "layers of '%s': expected '%s', got none", bundle->path,
         manifest->target, media_type);
}

static const tsr_descriptor *descriptor_of(const tsr_bundle *bundle,
                                           const tsr_bundle_layer *layer) {
    size_t manifest = layer->id >> LAYER_BITS, index = layer->id & ((1u << LAYER_BITS) - 1);
    TSR_ASSERT(manifest < bundle->layout.manifest_count &&
               index < bundle->layout.manifests[manifest].layer_count);
    return &bundle->layout.manifests[manifest].layers[index];
}

const tsr_blob *tsr_bundle_get_blob(const tsr_bundle *bundle, const tsr_bundle_layer *layer) {
    return &bundle->blobs[descriptor_of(bundle, layer)->blob];
}

/* ---- reading one blob ---- */

tsr_result tsr_blob_check_digest(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                                 const char *what, uint64_t offset, const tsr_digest *expected,
                                 const tsr_digest *got) {
    if (tsr_digest_equal(expected, got)) return TSR_SUCCESS;
    FAIL(ctx, TSR_CORRUPT, TSB "%s" TSB_AT "%s, got %s", bundle->path, what,
         blob->offset_bytes + offset, tsr_entry_text_digest(&blob->digest).text,
         tsr_entry_text_digest(expected).text, tsr_entry_text_digest(got).text);
}

static tsr_result read_at(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob, int fd,
                          void *bytes, size_t size_bytes, uint64_t offset) {
    return tsr_io_read_exact(ctx, fd, bundle->path, bytes, size_bytes, blob->offset_bytes + offset);
}

tsr_result tsr_blob_read(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                         void *bytes) {
    size_t size = (size_t)blob->size_bytes;
    int fd;
    TRY(ctx, tsr_blob_open(ctx, bundle, blob, &fd));
    tsr_result result = read_at(ctx, bundle, blob, fd, bytes, size, 0);
    tsr_blob_close(ctx, bundle, fd);
    TRY(ctx, result);
    tsr_digest got = tsr_hash(bytes, size);
    return tsr_blob_check_digest(ctx, bundle, blob, "digest of the blob", 0, &blob->digest, &got);
}

static size_t block_at(uint64_t offset, uint64_t end) {
    return end - offset < TSR_BLOB_BLOCK_BYTES ? (size_t)(end - offset) : TSR_BLOB_BLOCK_BYTES;
}

tsr_result tsr_blob_stream(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                           void *block, tsr_blob_sink_fn sink, void *user) {
    tsr_result result = TSR_SUCCESS;
    tsr_hasher hasher;
    int fd;
    TRY(ctx, tsr_blob_open(ctx, bundle, blob, &fd));
    tsr_hasher_init(&hasher);
    for (uint64_t at = 0; at < blob->size_bytes;) {
        size_t size = block_at(at, blob->size_bytes);
        TRY_GOTO(ctx, result, read_at(ctx, bundle, blob, fd, block, size, at));
        tsr_hasher_update(&hasher, block, size);
        if (sink) TRY_GOTO(ctx, result, sink(ctx, user, block, size, at));
        at += size;
    }
    tsr_digest got = tsr_hasher_finish(&hasher);
    result = tsr_blob_check_digest(ctx, bundle, blob, "digest of the blob", 0, &blob->digest, &got);
done:
    tsr_blob_close(ctx, bundle, fd);
    return result;
}

/* ---- zstd ---- */

/* Finds violations of RFC 8878 section 3.1.1 that the library would accept. Returns the problem, or
 * NULL. */
static const char *frame_problem(const tsr_descriptor *d, const unsigned char *frame) {
    static const unsigned char magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    size_t size = (size_t)d->size_bytes;
    if (size < 9 || memcmp(frame, magic, sizeof magic) != 0) return "a zstd frame";
    bool single_segment = frame[4] & 0x20, checksum = frame[4] & 0x04;
    unsigned window_log = single_segment ? 0 : 10 + (unsigned)(frame[5] >> 3);
    unsigned mantissa = single_segment ? 0 : frame[5] & 7;
    if (frame[4] & 0x18) return "no reserved bit";
    if (frame[4] & 0x03) return "no dictionary";
    if (!checksum) return "a checksum";
    if (window_log > TSR_BUNDLE_WINDOW_LOG_MAX ||
        (window_log == TSR_BUNDLE_WINDOW_LOG_MAX && mantissa))
        return "a window of at most 128 MiB";
    if (ZSTD_getFrameContentSize(frame, size) != d->plain_size_bytes)
        return "the content size of the annotation";
    if (ZSTD_findFrameCompressedSize(frame, size) != size) return "exactly one frame";
    if (d->plain_size_bytes > TSR_BUNDLE_RATIO_FREE_BYTES &&
        d->plain_size_bytes / TSR_BUNDLE_RATIO_MAX > d->size_bytes)
        return "at most 1024 times the stored size";
    return NULL;
}

static tsr_result decompress(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_descriptor *d,
                             const void *stored, tsr_arena *arena, void **out_bytes) {
    const tsr_blob *blob = &bundle->blobs[d->blob];
    size_t plain = (size_t)d->plain_size_bytes;
    const char *problem = frame_problem(d, stored);
    if (problem)
        FAIL(ctx, TSR_CORRUPT,
             TSB "compressed blob" TSB_AT "%s; %" PRIu64 " bytes stored, %" PRIu64 " plain",
             bundle->path, blob->offset_bytes, tsr_entry_text_digest(&d->digest).text, problem,
             d->size_bytes, d->plain_size_bytes);
    char *bytes = tsr_arena_alloc(arena, plain + 1, 1, 64);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory for %zu bytes of '%s'", plain, bundle->path);
    size_t got = ZSTD_decompress(bytes, plain, stored, (size_t)d->size_bytes);
    if (ZSTD_isError(got) || got != plain)
        FAIL(ctx, TSR_CORRUPT, TSB "compressed blob" TSB_AT "%zu plain bytes, got %s", bundle->path,
             blob->offset_bytes, tsr_entry_text_digest(&d->digest).text, plain,
             ZSTD_isError(got) ? ZSTD_getErrorName(got) : "fewer");
    tsr_digest digest = tsr_hash(bytes, plain);
    TRY(ctx, tsr_blob_check_digest(ctx, bundle, blob, "digest of the plain bytes", 0,
                                   &d->plain_digest, &digest));
    *out_bytes = bytes;
    return TSR_SUCCESS;
}

tsr_result tsr_bundle_read_layer(tsr_ctx *ctx, tsr_bundle *bundle, const tsr_bundle_layer *layer,
                                 tsr_arena *arena, void **out_bytes, size_t *out_size_bytes) {
    const tsr_descriptor *d = descriptor_of(bundle, layer);
    tsr_arena scratch = {0};
    tsr_result result = TSR_SUCCESS;
    size_t size = (size_t)d->size_bytes;
    void *stored = tsr_arena_alloc(d->compressed ? &scratch : arena, size + 1, 1, 64);
    if (!stored)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for %zu bytes of '%s'", size, bundle->path);
    TRY_GOTO(ctx, result, tsr_bundle_read_range(ctx, bundle, layer, 0, stored, size));
    if (d->compressed) TRY_GOTO(ctx, result, decompress(ctx, bundle, d, stored, arena, &stored));
    *out_bytes = stored;
    *out_size_bytes = d->compressed ? (size_t)d->plain_size_bytes : size;
done:
    tsr_arena_finish(&scratch);
    return result;
}
