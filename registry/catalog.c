/* SPDX-License-Identifier: Apache-2.0 */
#include "registry/catalog.h"

#include "bundle/bundle.h"
#include "registry/transfer.h"
#include "runtime/base/array.h"
#include "runtime/base/suggest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Other tools store other types under a reference, so manifests are accepted too; the type tells
 * them apart. */
#define ACCEPT TSR_MEDIA_INDEX ", " TSR_MEDIA_MANIFEST

typedef struct fetcher {
    tsr_ctx *ctx;
    tsr_http *http;
    tsr_catalog *catalog;
    char subject[TSR_REFERENCE_HOST_MAX + TSR_REFERENCE_NAME_MAX + 2]; /* for messages */
} fetcher;

static tsr_result out_of_memory(const fetcher *f) {
    FAIL(f->ctx, TSR_MEMORY, "no memory to pull '%s'", f->subject);
}

static tsr_json_source source_of(const fetcher *f, const char *what, const tsr_descriptor *d) {
    return (tsr_json_source){f->subject, what, 0, tsr_entry_text_digest(&d->digest)};
}

/* Finds the row of the descriptor's digest, or adds it at its first use. */
static tsr_result add_blob(fetcher *f, tsr_descriptor *d) {
    tsr_catalog *c = f->catalog;
    for (size_t i = 0; i < c->blob_count; i++) {
        if (!tsr_digest_equal(&c->blobs[i].digest, &d->digest)) continue;
        d->blob = (uint32_t)i;
        if (c->blobs[i].size_bytes == d->size_bytes) return TSR_SUCCESS;
        FAIL(f->ctx, TSR_CORRUPT,
             TSB "size of a blob (entry %s): expected %" PRIu64 ", got %" PRIu64, f->subject,
             tsr_entry_text_digest(&d->digest).text, c->blobs[i].size_bytes, d->size_bytes);
    }
    if (c->blob_count == c->blob_capacity) {
        tsr_remote_blob *blobs = tsr_grow(c->blobs, &c->blob_capacity, 32, sizeof *blobs);
        if (!blobs) return out_of_memory(f);
        c->blobs = blobs;
    }
    d->blob = (uint32_t)c->blob_count;
    c->blobs[c->blob_count++] = (tsr_remote_blob){.digest = d->digest, .size_bytes = d->size_bytes};
    return TSR_SUCCESS;
}

static tsr_result store_body(fetcher *f, const tsr_buffer *body, const tsr_descriptor *d) {
    void *bytes = tsr_arena_memdup(&f->catalog->arena, body->bytes, body->size_bytes);
    if (!bytes) return out_of_memory(f);
    f->catalog->blobs[d->blob].bytes = bytes;
    return TSR_SUCCESS;
}

static tsr_result fetch_blob(fetcher *f, tsr_descriptor *d) {
    TRY(f->ctx, add_blob(f, d));
    if (f->catalog->blobs[d->blob].bytes) return TSR_SUCCESS;
    char *bytes = tsr_arena_alloc(&f->catalog->arena, (size_t)d->size_bytes, 1, 16);
    if (!bytes) return out_of_memory(f);
    TRY(f->ctx, tsr_blob_get(f->ctx, f->http, &d->digest, (size_t)d->size_bytes, bytes));
    f->catalog->blobs[d->blob].bytes = bytes;
    return TSR_SUCCESS;
}

/* ---- index ---- */

static tsr_result check_is_index(const fetcher *f, const tsr_http_response *response) {
    const char *type = tsr_http_header(response, "content-type", 0);
    if (!type || strncmp(type, TSR_MEDIA_MANIFEST, sizeof TSR_MEDIA_MANIFEST - 1) != 0)
        return TSR_SUCCESS;
    FAIL(f->ctx, TSR_CORRUPT,
         TSB "expected an image index, got one image manifest: copied for one platform only (copy "
             "with --all)",
         f->subject);
}

static tsr_result fetch_index(fetcher *f) {
    const tsr_reference *reference = &f->http->remote->reference;
    tsr_http_response response = {0};
    tsr_descriptor *index = &f->catalog->layout.index;
    tsr_result result = TSR_SUCCESS;
    tsr_digest_text digest = tsr_digest_text_of(&reference->digest);
    const char *name = reference->has_digest ? digest.text : reference->tag;
    TRY_GOTO(f->ctx, result,
             tsr_manifest_get(f->ctx, f->http, name, ACCEPT,
                              reference->has_digest ? &reference->digest : NULL, false, &response));
    TRY_GOTO(f->ctx, result, check_is_index(f, &response));
    if (!response.body.size_bytes)
        FAIL_GOTO(f->ctx, result, TSR_NETWORK, TSB "index: expected bytes, got none", f->subject);
    index->media_type = TSR_MEDIA_INDEX;
    index->digest = tsr_hash(response.body.bytes, response.body.size_bytes);
    index->size_bytes = response.body.size_bytes;
    TRY_GOTO(f->ctx, result, add_blob(f, index));
    TRY_GOTO(f->ctx, result, store_body(f, &response.body, index));
    tsr_json_source source = source_of(f, "index", index);
    TRY_GOTO(f->ctx, result,
             tsr_layout_parse_index(f->ctx, &source, response.body.bytes, response.body.size_bytes,
                                    &f->catalog->arena, &f->catalog->layout));
done:
    tsr_http_response_finish(&response);
    return result;
}

/* ---- manifests ---- */

static bool is_wanted(const tsr_manifest *manifest, const char *const *targets, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (manifest->target && strcmp(manifest->target, targets[i]) == 0) return true;
    return !count;
}

static tsr_result check_targets(const fetcher *f, const char *const *targets, size_t count) {
    const tsr_layout *layout = &f->catalog->layout;
    for (size_t i = 0; i < count; i++) {
        bool found = false;
        tsr_buffer names = {0};
        char meant[TSR_SUGGESTION_TEXT_MAX];
        tsr_suggestion likely = {.wrong = targets[i]};
        for (size_t m = 0; m < layout->manifest_count; m++) {
            const char *name = layout->manifests[m].target;
            if (name) tsr_buffer_printf(&names, " %s", name);
            if (name) tsr_suggest(&likely, name);
            found = found || (name && strcmp(name, targets[i]) == 0);
        }
        tsr_result result = TSR_SUCCESS;
        if (!found)
            result = tsr_fail_(f->ctx, TSR_TARGET, 0, __FILE__, __LINE__,
                               "'%s' has no target '%s'; there are%s%s", f->subject, targets[i],
                               names.bytes ? names.bytes : "", tsr_suggestion_text(&likely, meant));
        tsr_buffer_finish(&names);
        TRY(f->ctx, result);
    }
    return TSR_SUCCESS;
}

/* Records that a manifest covers the blob with these digests; an earlier manifest may have covered
 * it already. */
static tsr_result cover(const fetcher *f, tsr_remote_blob *blob, const tsr_digest *chunks) {
    size_t size = (size_t)tsr_chunk_count(blob->size_bytes) * sizeof *chunks;
    if (blob->chunks && memcmp(blob->chunks, chunks, size) != 0)
        FAIL(f->ctx, TSR_CORRUPT,
             TSB "chunk tables (entry %s): expected equal digests of one blob, got different ones",
             f->subject, tsr_entry_text_digest(&blob->digest).text);
    blob->chunks = chunks;
    return TSR_SUCCESS;
}

static tsr_result cover_layers(fetcher *f, const tsr_manifest *manifest) {
    size_t last = manifest->layer_count - 1;
    const tsr_remote_blob *table = &f->catalog->blobs[manifest->layers[last].blob];
    const tsr_digest *chunks = table->bytes;
    for (size_t i = 0; i < last; i++) {
        tsr_remote_blob *blob = &f->catalog->blobs[manifest->layers[i].blob];
        TRY(f->ctx, cover(f, blob, chunks));
        chunks += tsr_chunk_count(blob->size_bytes); /* the parser has checked the sum */
    }
    return TSR_SUCCESS;
}

static tsr_result fetch_manifest(fetcher *f, tsr_manifest *manifest) {
    tsr_http_response response = {0};
    tsr_descriptor *self = &manifest->self;
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(f->ctx, result, add_blob(f, self));
    TRY_GOTO(f->ctx, result,
             tsr_manifest_get(f->ctx, f->http, tsr_digest_text_of(&self->digest).text,
                              TSR_MEDIA_MANIFEST, &self->digest, false, &response));
    if (response.body.size_bytes != self->size_bytes)
        FAIL_GOTO(f->ctx, result, TSR_CORRUPT,
                  TSB "size of a manifest (entry %s): expected %" PRIu64 ", got %zu", f->subject,
                  tsr_entry_text_digest(&self->digest).text, self->size_bytes,
                  response.body.size_bytes);
    TRY_GOTO(f->ctx, result, store_body(f, &response.body, self));
    tsr_json_source source = source_of(f, "manifest", self);
    TRY_GOTO(f->ctx, result,
             tsr_layout_parse_manifest(f->ctx, &source, response.body.bytes,
                                       response.body.size_bytes, &f->catalog->arena, manifest));
    TRY_GOTO(f->ctx, result, fetch_blob(f, &manifest->config));
    for (size_t i = 0; i < manifest->layer_count; i++) {
        tsr_descriptor *layer = &manifest->layers[i];
        bool table = manifest->target && i + 1 == manifest->layer_count;
        TRY_GOTO(f->ctx, result, table ? fetch_blob(f, layer) : add_blob(f, layer));
    }
    if (manifest->target) result = cover_layers(f, manifest);
done:
    tsr_http_response_finish(&response);
    return result;
}

tsr_result tsr_catalog_fetch(tsr_ctx *ctx, tsr_http *http, const char *const *targets,
                             size_t target_count, tsr_catalog *out) {
    fetcher f = {.ctx = ctx, .http = http, .catalog = out};
    const tsr_reference *reference = &http->remote->reference;
    *out = (tsr_catalog){0};
    snprintf(f.subject, sizeof f.subject, "%s/%s", reference->host, reference->name);
    TRY(ctx, fetch_index(&f));
    TRY(ctx, check_targets(&f, targets, target_count));
    for (size_t i = 0; i < out->layout.manifest_count; i++)
        if (is_wanted(&out->layout.manifests[i], targets, target_count))
            TRY(ctx, fetch_manifest(&f, &out->layout.manifests[i]));
    for (size_t i = 0; i < out->blob_count; i++) {
        tsr_remote_blob *blob = &out->blobs[i];
        blob->done = TSR_NEW(&out->arena, atomic_uchar, (size_t)tsr_chunk_count(blob->size_bytes));
        if (!blob->done) return out_of_memory(&f);
    }
    return TSR_SUCCESS;
}

void tsr_catalog_finish(tsr_catalog *catalog) {
    free(catalog->blobs);
    tsr_arena_finish(&catalog->arena);
    *catalog = (tsr_catalog){0};
}
