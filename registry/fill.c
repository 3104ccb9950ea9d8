/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: split the blobs into spans; look for the chunks of each span in the output and the
 * bases; split the missing chunks into spans again, and fetch these. Both are tasks of the
 * connections.
 */
#include "registry/fill.h"

#include "bundle/internal.h"
#include "registry/connections.h"
#include "registry/transfer.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPAN_CHUNKS = TSR_REGISTRY_SPAN_BYTES / TSR_HASH_CHUNK_BYTES,
    DAMAGED_MAX = 2, /* how often one span may arrive with wrong bytes before this is an error */
};

typedef struct span {
    tsr_remote_blob *blob;
    uint64_t first, end; /* chunk numbers */
} span;

/* A chunk of an older bundle. */
typedef struct base_chunk {
    const tsr_digest *digest; /* borrowed */
    const tsr_bundle *bundle;
    const tsr_blob *blob;
    uint64_t chunk;
} base_chunk;

typedef struct filler {
    tsr_fill *fill;
    span *spans; /* owned */
    size_t span_count;
    base_chunk *chunks; /* owned; sorted by digest */
    size_t chunk_count;
    atomic_uint_least64_t reused;
} filler;

static uint64_t chunk_begin(uint64_t chunk) { return chunk * TSR_HASH_CHUNK_BYTES; }
static uint64_t chunk_end(const tsr_remote_blob *blob, uint64_t chunk) {
    uint64_t end = (chunk + 1) * TSR_HASH_CHUNK_BYTES;
    return end < blob->size_bytes ? end : blob->size_bytes;
}

/* Returns true if the bytes are that chunk. A small blob without a chunk table is its own only
 * chunk; a large one is checked only when it is complete. */
static bool is_chunk(const tsr_remote_blob *blob, uint64_t chunk, const void *bytes, size_t size,
                     tsr_digest *out_got) {
    if (blob->chunks) {
        *out_got = tsr_hash_tree(bytes, size);
        return tsr_digest_equal(out_got, &blob->chunks[chunk]);
    }
    if (blob->size_bytes > TSR_HASH_CHUNK_BYTES) return true;
    *out_got = tsr_hash(bytes, size);
    return tsr_digest_equal(out_got, &blob->digest);
}

/* ---- spans ---- */

static tsr_result add_span(tsr_ctx *ctx, filler *f, size_t *capacity, span item) {
    if (f->span_count == *capacity) {
        span *spans = tsr_grow(f->spans, capacity, 64, sizeof *spans);
        if (!spans) FAIL(ctx, TSR_MEMORY, "no memory to pull '%s'", f->fill->path);
        f->spans = spans;
    }
    f->spans[f->span_count++] = item;
    return TSR_SUCCESS;
}

/* Lists the runs of chunks that are not done, none longer than SPAN_CHUNKS. A large blob without a
 * chunk table is one span, because it can only be verified as a whole. */
static tsr_result list_spans(tsr_ctx *ctx, filler *f, uint64_t *out_bytes) {
    const tsr_catalog *catalog = f->fill->catalog;
    size_t capacity = 0;
    free(f->spans);
    f->spans = NULL;
    f->span_count = 0;
    *out_bytes = 0;
    f->fill->missing_blob_count = 0;
    for (size_t i = 0; i < catalog->blob_count; i++) {
        tsr_remote_blob *blob = &catalog->blobs[i];
        uint64_t count = tsr_chunk_count(blob->size_bytes), end, before = *out_bytes;
        uint64_t limit = blob->chunks ? SPAN_CHUNKS : count;
        for (uint64_t at = 0; !blob->bytes && at < count; at = end) {
            end = at;
            if (atomic_load(&blob->done[at])) {
                end++;
                continue;
            }
            while (end < count && end - at < limit && !atomic_load(&blob->done[end])) end++;
            TRY(ctx, add_span(ctx, f, &capacity, (span){blob, at, end}));
            *out_bytes += chunk_end(blob, end - 1) - chunk_begin(at);
        }
        f->fill->missing_blob_count += *out_bytes > before;
    }
    return TSR_SUCCESS;
}

/* ---- local chunks ---- */

static int compare_chunks(const void *a, const void *b) {
    const base_chunk *left = a, *right = b;
    return memcmp(left->digest, right->digest, sizeof *left->digest);
}

static tsr_result list_base_chunks(tsr_ctx *ctx, filler *f) {
    size_t count = 0, at = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < f->fill->base_count; i++) {
            const tsr_bundle *bundle = f->fill->bases[i];
            for (size_t k = 0; k < bundle->blob_count; k++) {
                const tsr_blob *blob = &bundle->blobs[k];
                uint64_t chunks = blob->chunks ? tsr_chunk_count(blob->size_bytes) : 0;
                if (pass == 0) count += (size_t)chunks;
                for (uint64_t c = 0; pass == 1 && c < chunks; c++)
                    f->chunks[at++] = (base_chunk){&blob->chunks[c], bundle, blob, c};
            }
        }
        if (pass == 0 && !count) return TSR_SUCCESS;
        if (pass == 0) f->chunks = calloc(count, sizeof *f->chunks);
        if (!f->chunks) FAIL(ctx, TSR_MEMORY, "no memory to pull '%s'", f->fill->path);
    }
    f->chunk_count = count;
    qsort(f->chunks, count, sizeof *f->chunks, compare_chunks);
    return TSR_SUCCESS;
}

/* Reads a chunk from a base, if the base has an intact chunk with this digest and size. */
static bool read_base(const tsr_ctx *ctx, const filler *f, const tsr_remote_blob *blob,
                      uint64_t chunk, void *bytes, size_t size) {
    const base_chunk key = {.digest = &blob->chunks[chunk]};
    const base_chunk *found = NULL;
    tsr_ctx quiet = tsr_ctx_fork(ctx);
    tsr_digest got;
    int fd;
    if (f->chunk_count)
        found = bsearch(&key, f->chunks, f->chunk_count, sizeof key, compare_chunks);
    if (!found) return false;
    uint64_t begin = chunk_begin(found->chunk), left = found->blob->size_bytes - begin;
    if ((left < TSR_HASH_CHUNK_BYTES ? left : TSR_HASH_CHUNK_BYTES) != size) return false;
    if (tsr_blob_open(&quiet, found->bundle, found->blob, &fd).code) return false;
    tsr_result result = tsr_io_read_exact(&quiet, fd, found->bundle->path, bytes, size,
                                          found->blob->offset_bytes + begin);
    tsr_blob_close(&quiet, found->bundle, fd);
    return !result.code && is_chunk(blob, chunk, bytes, size, &got);
}

static tsr_result find_chunk(tsr_ctx *ctx, filler *f, tsr_remote_blob *blob, uint64_t chunk,
                             void *bytes) {
    const tsr_fill *fill = f->fill;
    uint64_t begin = chunk_begin(chunk), at = blob->offset_bytes + begin;
    size_t size = (size_t)(chunk_end(blob, chunk) - begin);
    tsr_digest got;
    bool there = false;
    if (fill->resumed) {
        TRY(ctx, tsr_io_read_exact(ctx, fill->fd, fill->path, bytes, size, at));
        there = is_chunk(blob, chunk, bytes, size, &got);
    }
    if (!there && blob->chunks && read_base(ctx, f, blob, chunk, bytes, size)) {
        TRY(ctx, tsr_io_write_all(ctx, fill->fd, fill->path, bytes, size, at));
        there = true;
    }
    if (!there) return TSR_SUCCESS;
    atomic_store(&blob->done[chunk], 1);
    atomic_fetch_add(&f->reused, size);
    return TSR_SUCCESS;
}

static tsr_result find_span_chunks(tsr_ctx *ctx, tsr_http *http, void *user, size_t task) {
    filler *f = user;
    const span *s = &f->spans[task];
    tsr_result result = TSR_SUCCESS;
    /* The parts of a large blob without a chunk table cannot be verified separately. */
    if (!s->blob->chunks && s->blob->size_bytes > TSR_HASH_CHUNK_BYTES) return TSR_SUCCESS;
    char *bytes = malloc(TSR_HASH_CHUNK_BYTES);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory to pull '%s'", f->fill->path);
    for (uint64_t chunk = s->first; chunk < s->end && !result.code; chunk++) {
        result = find_chunk(ctx, f, s->blob, chunk, bytes);
        tsr_remote_advance(http->remote, (int64_t)(chunk_end(s->blob, chunk) - chunk_begin(chunk)));
    }
    free(bytes);
    return result;
}

/* ---- missing chunks ---- */

typedef struct fetch {
    tsr_http *http;
    filler *filler;
    const span *span;
    char *bytes;  /* owned; one chunk */
    size_t size;  /* bytes already stored */
    uint64_t at;  /* offset in the blob of the next requested byte */
    bool damaged; /* true if the sink failed because of wrong bytes */
    tsr_retry retry;
} fetch;

/* Skips chunks that are already done, because a server sent more than was requested. */
static void pass_over(fetch *t) {
    const tsr_remote_blob *blob = t->span->blob;
    while (t->size == 0 && t->at < blob->size_bytes &&
           atomic_load(&blob->done[t->at / TSR_HASH_CHUNK_BYTES]))
        t->at = chunk_end(blob, t->at / TSR_HASH_CHUNK_BYTES);
}

static tsr_result finish_chunk(tsr_ctx *ctx, fetch *t) {
    tsr_remote_blob *blob = t->span->blob;
    const tsr_fill *fill = t->filler->fill;
    uint64_t chunk = (t->at - 1) / TSR_HASH_CHUNK_BYTES, begin = chunk_begin(chunk);
    size_t size = t->size;
    tsr_digest got = {0};
    t->size = 0;
    if (!is_chunk(blob, chunk, t->bytes, size, &got)) {
        t->at = begin;
        t->damaged = true;
        tsr_remote_advance(fill->remote, -(int64_t)size);
        FAIL(ctx, TSR_CORRUPT,
             "registry '%s': blob %s, chunk at offset %" PRIu64 ": expected digest %s, got %s",
             fill->remote->reference.host, tsr_digest_text_of(&blob->digest).text, begin,
             tsr_digest_text_of(blob->chunks ? &blob->chunks[chunk] : &blob->digest).text,
             tsr_digest_text_of(&got).text);
    }
    TRY(ctx,
        tsr_io_write_all(ctx, fill->fd, fill->path, t->bytes, size, blob->offset_bytes + begin));
    atomic_store(&blob->done[chunk], 1);
    t->retry.attempts = 0;
    return TSR_SUCCESS;
}

static tsr_result take_span(tsr_ctx *ctx, void *user, uint64_t offset, const void *bytes,
                            size_t size_bytes) {
    fetch *t = user;
    const char *from = bytes;
    for (uint64_t end = offset + size_bytes; offset < end;) {
        pass_over(t);
        if (t->at >= end || t->at > offset) { /* not requested, or already received */
            uint64_t skip = t->at < end ? t->at - offset : end - offset;
            from += skip;
            offset += skip;
            continue;
        }
        uint64_t stop = chunk_end(t->span->blob, t->at / TSR_HASH_CHUNK_BYTES);
        size_t part = (size_t)((stop < end ? stop : end) - offset);
        memcpy(t->bytes + t->size, from, part);
        tsr_remote_advance(t->http->remote, (int64_t)part);
        t->size += part;
        t->at += part;
        from += part;
        offset += part;
        if (t->at == stop) TRY(ctx, finish_chunk(ctx, t));
    }
    return TSR_SUCCESS;
}

/* Verifies a large blob without a chunk table, now that it is complete. */
static tsr_result check_whole(tsr_ctx *ctx, const fetch *t) {
    const tsr_remote_blob *blob = t->span->blob;
    const tsr_fill *fill = t->filler->fill;
    tsr_hasher hasher;
    if (blob->chunks || blob->size_bytes <= TSR_HASH_CHUNK_BYTES) return TSR_SUCCESS;
    tsr_hasher_init(&hasher);
    for (uint64_t chunk = 0; chunk < tsr_chunk_count(blob->size_bytes); chunk++) {
        size_t size = (size_t)(chunk_end(blob, chunk) - chunk_begin(chunk));
        TRY(ctx, tsr_io_read_exact(ctx, fill->fd, fill->path, t->bytes, size,
                                   blob->offset_bytes + chunk_begin(chunk)));
        tsr_hasher_update(&hasher, t->bytes, size);
    }
    tsr_digest got = tsr_hasher_finish(&hasher);
    if (tsr_digest_equal(&got, &blob->digest)) return TSR_SUCCESS;
    FAIL(ctx, TSR_CORRUPT, "registry '%s': blob %s: got bytes of digest %s",
         fill->remote->reference.host, tsr_digest_text_of(&blob->digest).text,
         tsr_digest_text_of(&got).text);
}

static tsr_result fetch_span(tsr_ctx *ctx, fetch *t) {
    uint64_t end = chunk_end(t->span->blob, t->span->end - 1);
    tsr_http_response response = {0};
    tsr_result result = TSR_SUCCESS;
    for (unsigned damaged = 0;;) {
        pass_over(t);
        if (t->at >= end) break;
        tsr_blob_range range = {.digest = t->span->blob->digest,
                                .size_bytes = t->span->blob->size_bytes,
                                .begin = t->at,
                                .end = end,
                                .sink = take_span,
                                .user = t};
        t->damaged = false;
        result = tsr_blob_get_range(ctx, t->http, &range, &response);
        if (!result.code) continue;
        damaged += t->damaged;
        if (t->damaged ? damaged > DAMAGED_MAX : !response.retry) break;
        if (!tsr_retry_wait(t->http, &t->retry, &response)) break;
        tsr_error_clear(ctx);
        result = TSR_SUCCESS;
    }
    tsr_http_response_finish(&response);
    TRY(ctx, result);
    return check_whole(ctx, t);
}

static tsr_result run_fetch(tsr_ctx *ctx, tsr_http *http, void *user, size_t task) {
    filler *f = user;
    fetch t = {
        .http = http, .filler = f, .span = &f->spans[task], .bytes = malloc(TSR_HASH_CHUNK_BYTES)};
    if (!t.bytes) FAIL(ctx, TSR_MEMORY, "no memory to pull '%s'", f->fill->path);
    t.at = chunk_begin(t.span->first);
    tsr_result result = fetch_span(ctx, &t);
    free(t.bytes);
    return result;
}

/* ---- local and missing chunks ---- */

static tsr_result run(tsr_ctx *ctx, filler *f) {
    tsr_fill *fill = f->fill;
    uint64_t bytes = 0;
    TRY(ctx, list_spans(ctx, f, &bytes));
    if (fill->resumed || fill->base_count) {
        TRY(ctx, list_base_chunks(ctx, f));
        tsr_remote_begin(fill->remote, "check", bytes);
        TRY(ctx, tsr_connections_run(ctx, fill->remote, f->span_count, find_span_chunks, f));
        TRY(ctx, list_spans(ctx, f, &bytes));
    }
    fill->reused_bytes = atomic_load(&f->reused);
    if (!bytes) return TSR_SUCCESS;
    tsr_remote_begin(fill->remote, "receive", bytes);
    return tsr_connections_run(ctx, fill->remote, f->span_count, run_fetch, f);
}

tsr_result tsr_fill_run(tsr_ctx *ctx, tsr_fill *fill) {
    filler f = {.fill = fill};
    tsr_result result = run(ctx, &f);
    free(f.spans);
    free(f.chunks);
    return result;
}
