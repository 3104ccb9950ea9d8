/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading parts of layers. A span is the range of bytes that one digest covers: a chunk or a whole
 * blob. A span is read in windows and hashed window by window, while its bytes are in the cache. A
 * window inside one requested piece is read directly to its destination, any other window through
 * scratch memory. Therefore nothing is read or hashed twice, and memory use does not grow with the
 * layer.
 */
#include "bundle/internal.h"
#include "runtime/base/pool.h"

#include <immintrin.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(TSR_BLOB_BLOCK_BYTES % (2 * TSR_HASH_LEAF_BYTES) == 0,
              "windows hold pairs of leaves");

typedef struct span {
    uint64_t start, end;        /* offsets in the blob */
    const tsr_digest *expected; /* digest of a chunk, or of the blob */
    bool tree;                  /* true for a chunk */
} span;

static span span_of(const tsr_blob *blob, uint64_t chunk) {
    uint64_t start = chunk * TSR_HASH_CHUNK_BYTES, end = start + TSR_HASH_CHUNK_BYTES;
    if (!blob->chunks) return (span){0, blob->size_bytes, &blob->digest, false};
    return (span){start, end < blob->size_bytes ? end : blob->size_bytes, &blob->chunks[chunk],
                  true};
}

static uint64_t segment_end(const tsr_bundle_segment *segment) {
    return segment->offset_bytes + segment->size_bytes;
}

/* Copies the requested parts of a window from scratch memory to their pieces. */
static void scatter(const char *window, uint64_t start, uint64_t end,
                    const tsr_bundle_segment *segments, size_t count) {
    for (size_t i = 0; i < count && segments[i].offset_bytes < end; i++) {
        uint64_t from = segments[i].offset_bytes > start ? segments[i].offset_bytes : start;
        uint64_t to = segment_end(&segments[i]) < end ? segment_end(&segments[i]) : end;
        if (from < to)
            memcpy((char *)segments[i].bytes + (from - segments[i].offset_bytes),
                   window + (from - start), (size_t)(to - from));
    }
}

/* Returns the destination of the window if it is inside one piece, else NULL. `pieces` begins with
 * the first one that ends after the window's start. */
static char *find_destination(uint64_t start, uint64_t end, const tsr_bundle_segment *segments,
                              size_t count) {
    if (!count || segments->offset_bytes > start || segment_end(segments) < end) return NULL;
    return (char *)segments->bytes + (start - segments->offset_bytes);
}

static tsr_result read_windows(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob, int fd,
                               const span *part, const tsr_bundle_segment *segments, size_t count,
                               char *scratch, tsr_digest *out_digest) {
    tsr_tree_hasher tree;
    tsr_hasher flat;
    tsr_tree_hasher_init(&tree);
    tsr_hasher_init(&flat);
    for (uint64_t at = part->start, end; at < part->end; at = end) {
        end = part->end - at < TSR_BLOB_BLOCK_BYTES ? part->end : at + TSR_BLOB_BLOCK_BYTES;
        for (; count && segment_end(segments) <= at; count--) segments++;
        char *destination = find_destination(at, end, segments, count),
             *window = destination ? destination : scratch;
        size_t size = (size_t)(end - at);
        TRY(ctx, tsr_io_read_exact(ctx, fd, bundle->path, window, size, blob->offset_bytes + at));
        if (part->tree)
            tsr_tree_hasher_update(&tree, window, size);
        else
            tsr_hasher_update(&flat, window, size);
        if (!destination) scatter(window, at, end, segments, count);
    }
    *out_digest = part->tree ? tsr_tree_hasher_finish(&tree) : tsr_hasher_finish(&flat);
    return TSR_SUCCESS;
}

static tsr_result read_span(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                            const span *part, const tsr_bundle_segment *segments, size_t count,
                            void *scratch) {
    tsr_digest got;
    int fd;
    TRY(ctx, tsr_blob_open(ctx, bundle, blob, &fd));
    tsr_result result = read_windows(ctx, bundle, blob, fd, part, segments, count, scratch, &got);
    tsr_blob_close(ctx, bundle, fd);
    TRY(ctx, result);
    return tsr_blob_check_digest(ctx, bundle, blob,
                                 part->tree ? "digest of the chunk" : "digest of the blob",
                                 part->start, part->expected, &got);
}

tsr_result tsr_blob_check_chunk(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                                uint64_t chunk, void *block) {
    span part = span_of(blob, chunk);
    return read_span(ctx, bundle, blob, &part, NULL, 0, block);
}

/* ---- segments ---- */

typedef struct touched {
    uint64_t chunk;
    size_t first_segment; /* index of the first piece that ends after the chunk's start */
} touched;

/* The state of a chunk on its way to a sink: 1 + the number of the chunk that is open or taken. */
typedef struct window {
    atomic_uint_least64_t open, taken;
    atomic_uint parts; /* number of parts that have been read */
    char *bytes;
} window;

typedef struct request {
    const tsr_bundle *bundle;
    const tsr_blob *blob;
    const tsr_bundle_segment *segments;
    size_t segment_count;
    touched *chunks; /* owned */
    size_t chunk_count;
    const tsr_bundle_sink *sink; /* NULL: read into the pieces; the next fields are unused */
    window windows[TSR_BUNDLE_WINDOWS_MAX];
    atomic_size_t next_part;
    atomic_bool failed;
} request;

static tsr_result run_chunk(tsr_ctx *ctx, void *user, size_t task, void *scratch) {
    const request *r = user;
    const touched *chunk = &r->chunks[task];
    const span part = span_of(r->blob, chunk->chunk);
    return read_span(ctx, r->bundle, r->blob, &part, r->segments + chunk->first_segment,
                     r->segment_count - chunk->first_segment, scratch);
}

/* ---- to a sink ---- */

/* The number of parts of a chunk; parts past its end are empty. */
enum { PARTS = TSR_HASH_CHUNK_BYTES / TSR_BLOB_BLOCK_BYTES, PAUSES = 4000 };

/* Takes microseconds if there are enough CPUs. Returns false if another thread failed. */
static bool wait_until(const request *r, const atomic_uint_least64_t *at, uint64_t value) {
    for (unsigned i = 0; atomic_load(at) != value; i++) {
        if (atomic_load(&r->failed)) return false;
        if (i < PAUSES)
            _mm_pause();
        else
            sched_yield();
    }
    return true;
}

static tsr_result put_segments(tsr_ctx *ctx, const request *r, size_t number, const span *part) {
    const tsr_bundle_sink *sink = r->sink;
    for (size_t i = r->chunks[number].first_segment; i < r->segment_count; i++) {
        const tsr_bundle_segment *segment = &r->segments[i];
        if (segment->offset_bytes >= part->end) break;
        uint64_t from = segment->offset_bytes > part->start ? segment->offset_bytes : part->start;
        uint64_t to = segment_end(segment) < part->end ? segment_end(segment) : part->end;
        const tsr_bundle_segment wanted = {from - part->start, (size_t)(to - from),
                                           (char *)segment->bytes + (from - segment->offset_bytes)};
        if (from < to) TRY(ctx, sink->put(ctx, sink->user, number, &wanted));
    }
    return TSR_SUCCESS;
}

/* Delivers the requested pieces of a chunk after checking its digest. */
static tsr_result finish_chunk(tsr_ctx *ctx, const request *r, size_t number) {
    const span part = span_of(r->blob, r->chunks[number].chunk);
    tsr_digest got;
    TRY(ctx, r->sink->digest(ctx, r->sink->user, number, (size_t)(part.end - part.start), &got));
    TRY(ctx, tsr_blob_check_digest(ctx, r->bundle, r->blob, "digest of the chunk", part.start,
                                   part.expected, &got));
    return put_segments(ctx, r, number, &part);
}

/* Called by the thread that has read the last part of the chunk. */
static tsr_result submit_chunk(tsr_ctx *ctx, request *r, size_t number, window *at) {
    const tsr_bundle_sink *sink = r->sink;
    const span part = span_of(r->blob, r->chunks[number].chunk);
    if (number >= sink->depth) TRY(ctx, finish_chunk(ctx, r, number - sink->depth));
    TRY(ctx, sink->submit(ctx, sink->user, number, (size_t)(part.end - part.start)));
    atomic_store(&at->taken, number + 1);
    return TSR_SUCCESS;
}

/* *out_open is false if another thread failed. */
static tsr_result open_window(tsr_ctx *ctx, request *r, size_t number, window *at, bool *out_open) {
    const tsr_bundle_sink *sink = r->sink;
    const uint64_t before = number < sink->window_count ? 0 : number - sink->window_count + 1;
    void *bytes = NULL;
    *out_open = wait_until(r, &at->taken, before);
    if (!*out_open) return TSR_SUCCESS;
    TRY(ctx, sink->get_window(ctx, sink->user, number, &bytes));
    at->bytes = bytes;
    atomic_store(&at->parts, 0);
    atomic_store(&at->open, number + 1);
    return TSR_SUCCESS;
}

static tsr_result send_part(tsr_ctx *ctx, request *r, int fd, size_t number, size_t index) {
    window *at = &r->windows[number % r->sink->window_count];
    const span part = span_of(r->blob, r->chunks[number].chunk);
    const uint64_t begin = index * TSR_BLOB_BLOCK_BYTES, size = part.end - part.start;
    bool open = true;
    if (index == 0)
        TRY(ctx, open_window(ctx, r, number, at, &open));
    else
        open = wait_until(r, &at->open, number + 1);
    if (!open) return TSR_SUCCESS;
    if (begin < size)
        TRY(ctx,
            tsr_io_read_exact(
                ctx, fd, r->bundle->path, at->bytes + begin,
                (size_t)(size - begin < TSR_BLOB_BLOCK_BYTES ? size - begin : TSR_BLOB_BLOCK_BYTES),
                r->blob->offset_bytes + part.start + begin));
    if (atomic_fetch_add(&at->parts, 1) + 1 < PARTS) return TSR_SUCCESS;
    return submit_chunk(ctx, r, number, at);
}

/* Parts are started in order, so that no thread waits for a part that no thread reads. */
static tsr_result send_parts(tsr_ctx *ctx, void *user, size_t task, void *scratch) {
    request *r = user;
    tsr_result result = TSR_SUCCESS;
    int fd;
    (void)task, (void)scratch;
    TRY(ctx, tsr_blob_open(ctx, r->bundle, r->blob, &fd));
    for (size_t next; !result.code && !atomic_load(&r->failed) &&
                      (next = atomic_fetch_add(&r->next_part, 1)) < r->chunk_count * PARTS;)
        result = send_part(ctx, r, fd, next / PARTS, next % PARTS);
    if (result.code) atomic_store(&r->failed, true);
    tsr_blob_close(ctx, r->bundle, fd);
    return result;
}

static tsr_result send_chunks(tsr_ctx *ctx, request *r) {
    const tsr_bundle_sink *sink = r->sink;
    TSR_ASSERT(r->blob->chunks && sink->threads_max && sink->window_count &&
               sink->window_count <= TSR_BUNDLE_WINDOWS_MAX && sink->depth &&
               sink->depth % sink->window_count == 0);
    tsr_pool_job job = {.task_count = r->chunk_count * PARTS,
                        .size_bytes = (uint64_t)r->chunk_count * TSR_HASH_CHUNK_BYTES,
                        .run = send_parts,
                        .user = r,
                        .subject = r->bundle->path};
    job.threads = tsr_pool_thread_count(&job);
    if (job.threads > sink->threads_max) job.threads = sink->threads_max;
    job.task_count = job.threads;
    TRY(ctx, tsr_pool_run(ctx, &job));
    size_t count = r->chunk_count, first = count > sink->depth ? count - sink->depth : 0;
    for (size_t i = first; i < count; i++) TRY(ctx, finish_chunk(ctx, r, i));
    return TSR_SUCCESS;
}

/* Checks that the pieces are in order, do not overlap, and are inside the blob. */
static tsr_result check_segments(tsr_ctx *ctx, const request *r) {
    uint64_t at = 0, size = r->blob->size_bytes;
    for (size_t i = 0; i < r->segment_count; i++) {
        const tsr_bundle_segment *segment = &r->segments[i];
        if (segment->offset_bytes > size || segment->size_bytes > size - segment->offset_bytes)
            FAIL(ctx, TSR_USAGE,
                 TSB "range of entry %s: expected at most %" PRIu64 " bytes, got %" PRIu64 " + %zu",
                 r->bundle->path, tsr_entry_text_digest(&r->blob->digest).text, size,
                 segment->offset_bytes, segment->size_bytes);
        if (segment->offset_bytes < at)
            FAIL(ctx, TSR_USAGE,
                 TSB "range of entry %s: expected it after byte %" PRIu64 ", got %" PRIu64,
                 r->bundle->path, tsr_entry_text_digest(&r->blob->digest).text, at,
                 segment->offset_bytes);
        at = segment_end(segment);
    }
    return TSR_SUCCESS;
}

/* Lists the chunks that contain requested bytes, each once. */
static void list_chunks(request *r) {
    uint64_t unit = r->blob->chunks ? TSR_HASH_CHUNK_BYTES : UINT64_MAX;
    for (size_t i = 0; i < r->segment_count; i++) {
        const tsr_bundle_segment *segment = &r->segments[i];
        if (!segment->size_bytes) continue;
        uint64_t last = (segment_end(segment) - 1) / unit;
        for (uint64_t chunk = segment->offset_bytes / unit; chunk <= last; chunk++)
            if (!r->chunk_count || r->chunks[r->chunk_count - 1].chunk < chunk)
                r->chunks[r->chunk_count++] = (touched){chunk, i};
    }
}

static tsr_result read_chunks(tsr_ctx *ctx, request *r, unsigned threads) {
    const tsr_pool_job job = {.task_count = r->chunk_count,
                              .size_bytes = (uint64_t)r->chunk_count * TSR_HASH_CHUNK_BYTES,
                              .threads = threads,
                              .scratch_bytes = TSR_BLOB_BLOCK_BYTES,
                              .run = run_chunk,
                              .user = r,
                              .subject = r->bundle->path};
    return tsr_pool_run(ctx, &job);
}

static tsr_result read_segments(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                                const tsr_bundle_segment *segments, size_t segment_count,
                                unsigned threads, const tsr_bundle_sink *sink) {
    uint64_t chunks = tsr_chunk_count(blob->size_bytes);
    request r = {.sink = sink,
                 .bundle = bundle,
                 .blob = blob,
                 .segments = segments,
                 .segment_count = segment_count};
    TRY(ctx, check_segments(ctx, &r));
    r.chunks = calloc((size_t)chunks + 1, sizeof *r.chunks);
    if (!r.chunks) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", bundle->path);
    list_chunks(&r);
    tsr_result result = sink ? send_chunks(ctx, &r) : read_chunks(ctx, &r, threads);
    free(r.chunks);
    return result;
}

tsr_result tsr_bundle_read_segments(tsr_ctx *ctx, const tsr_bundle *bundle,
                                    const tsr_bundle_layer *layer,
                                    const tsr_bundle_segment *segments, size_t segment_count,
                                    unsigned threads) {
    return read_segments(ctx, bundle, tsr_bundle_get_blob(bundle, layer), segments, segment_count,
                         threads, NULL);
}

bool tsr_bundle_has_chunks(const tsr_bundle *bundle, const tsr_bundle_layer *layer) {
    return tsr_bundle_get_blob(bundle, layer)->chunks != NULL;
}

tsr_result tsr_bundle_send_segments(tsr_ctx *ctx, const tsr_bundle *bundle,
                                    const tsr_bundle_layer *layer,
                                    const tsr_bundle_segment *segments, size_t segment_count,
                                    const tsr_bundle_sink *sink) {
    return read_segments(ctx, bundle, tsr_bundle_get_blob(bundle, layer), segments, segment_count,
                         0, sink);
}

/* The file is treated as a bundle with one blob that begins at its first byte. */
static tsr_result read_file(tsr_ctx *ctx, const tsr_bundle_file *file,
                            const tsr_bundle_segment *segments, size_t segment_count,
                            unsigned threads, const tsr_bundle_sink *sink) {
    tsr_arena arena = {0};
    char *path = tsr_arena_strdup(&arena, file->path);
    if (!path) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", file->path);
    const tsr_bundle frame = {.path = path, .fd = file->fd, .file_size_bytes = file->size_bytes};
    const tsr_blob blob = {
        .digest = file->digest, .size_bytes = file->size_bytes, .chunks = file->chunks};
    tsr_result result = read_segments(ctx, &frame, &blob, segments, segment_count, threads, sink);
    tsr_arena_finish(&arena);
    if (result.code != TSR_CORRUPT) return result;
    char text[TSR_ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s", ctx->error.text);
    FAIL(ctx, TSR_MISMATCH,
         "weights '%s' differ from the weights that the bundle was built with: %.800s", file->path,
         text);
}

tsr_result tsr_bundle_read_file_segments(tsr_ctx *ctx, const tsr_bundle_file *file,
                                         const tsr_bundle_segment *segments, size_t segment_count,
                                         unsigned threads) {
    return read_file(ctx, file, segments, segment_count, threads, NULL);
}

tsr_result tsr_bundle_send_file_segments(tsr_ctx *ctx, const tsr_bundle_file *file,
                                         const tsr_bundle_segment *segments, size_t segment_count,
                                         const tsr_bundle_sink *sink) {
    return read_file(ctx, file, segments, segment_count, 0, sink);
}

tsr_result tsr_bundle_read_range(tsr_ctx *ctx, tsr_bundle *bundle, const tsr_bundle_layer *layer,
                                 uint64_t offset_bytes, void *bytes, size_t size_bytes) {
    const tsr_bundle_segment segment = {offset_bytes, size_bytes, bytes};
    return tsr_bundle_read_segments(ctx, bundle, layer, &segment, 1, 0);
}
