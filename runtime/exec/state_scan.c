/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks are distributed to free threads, and each chunk is hashed and checked while it is in that
 * thread's cache. Results are stored in order, so that nothing depends on the timing of threads.
 */
#include "runtime/exec/state_scan.h"

#include "runtime/exec/bound.h"
#include "runtime/threads.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { ONE_THREAD_BYTES = 8 << 20 /* smaller states: starting threads takes longer */ };
static_assert((int)TSR_DEVICE_READ_BYTES_MAX >= (int)TSR_HASH_CHUNK_BYTES,
              "a chunk is read at once");

typedef struct chunk {
    size_t tensor;
    const char *at;       /* address in host memory */
    uint64_t first_bytes; /* offset in this rank's part of the tensor */
    size_t size_bytes;
    tsr_digest digest;
    uint64_t nonfinite; /* index of an element in the chunk; UINT64_MAX: none */
    double value;
} chunk;

typedef struct scan {
    tsr_executor *executor;
    const tsr_sharded_view *view;
    chunk *chunks;
    size_t chunk_count;
    atomic_size_t next;
    atomic_bool failed;
    tsr_ctx *contexts; /* one per reader */
    tsr_result *results;
} scan;

static uint64_t own_bytes(const tsr_sharded_view *view, size_t tensor) {
    return tsr_sharded_view_range(view, tensor).count * tsr_dtype_size(view->tensors[tensor].dtype);
}

static uint64_t chunks_of(uint64_t size_bytes) {
    return size_bytes / TSR_HASH_CHUNK_BYTES + (size_bytes % TSR_HASH_CHUNK_BYTES != 0);
}

static void list_chunks(scan *s) {
    size_t count = 0;
    for (size_t i = 0; i < s->view->count; i++) {
        uint64_t size = own_bytes(s->view, i);
        for (uint64_t at = 0; at < size; at += TSR_HASH_CHUNK_BYTES) {
            uint64_t left = size - at;
            s->chunks[count++] = (chunk){
                .tensor = i,
                .at = (const char *)s->view->tensors[i].data + at,
                .first_bytes = at,
                .size_bytes = left < TSR_HASH_CHUNK_BYTES ? (size_t)left : TSR_HASH_CHUNK_BYTES};
        }
    }
    s->chunk_count = count;
}

static tsr_result scan_chunk(tsr_ctx *ctx, scan *s, unsigned reader, chunk *c) {
    const tsr_dtype dtype = s->view->tensors[c->tensor].dtype;
    const void *bytes = NULL;
    TRY(ctx, tsr_executor_read(ctx, s->executor, reader, c->at, c->size_bytes, &bytes));
    c->nonfinite =
        tsr_dtype_find_nonfinite(dtype, bytes, c->size_bytes / tsr_dtype_size(dtype), &c->value);
    if (!tsr_sharded_view_is_sharded(s->view, c->tensor))
        c->digest = tsr_hash_tree(bytes, c->size_bytes);
    return TSR_SUCCESS;
}

/* A kernel program acts as a reader. */
static void work(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    scan *s = args->buffers[0];
    for (int64_t reader = begin; reader < end; reader++) {
        tsr_result *result = &s->results[reader];
        for (size_t i; !result->code && !atomic_load(&s->failed) &&
                       (i = atomic_fetch_add(&s->next, 1)) < s->chunk_count;)
            *result = scan_chunk(&s->contexts[reader], s, (unsigned)reader, &s->chunks[i]);
        if (result->code) atomic_store(&s->failed, true);
    }
}

static tsr_result scan_together(tsr_ctx *ctx, scan *s, tsr_threads *threads, unsigned readers) {
    void *user = s;
    tsr_fault fault;
    s->contexts = calloc(readers, sizeof *s->contexts);
    s->results = calloc(readers, sizeof *s->results);
    if (!s->contexts || !s->results)
        FAIL(ctx, TSR_MEMORY, "no memory for %u readers of a state", readers);
    for (unsigned i = 0; i < readers; i++) s->contexts[i] = tsr_ctx_fork(ctx);
    TRY(ctx, tsr_executor_ready_readers(ctx, s->executor, readers));
    if (threads)
        tsr_threads_launch(threads, work, &user, readers, UINT64_MAX, &fault);
    else
        work(&(tsr_kernel_args){&user, &fault}, 0, readers);
    for (unsigned i = 0; i < readers; i++)
        if (s->results[i].code) return tsr_error_adopt(ctx, &s->contexts[i]);
    return TSR_SUCCESS;
}

static unsigned count_readers(const scan *s, const tsr_threads *threads) {
    size_t count = threads ? tsr_threads_get_count(threads) : 1;
    bool shares = s->executor->device->type->shares_memory;
    if (!shares && count > TSR_DEVICE_READERS_MAX) count = TSR_DEVICE_READERS_MAX;
    if (count > s->chunk_count) count = s->chunk_count;
    return count ? (unsigned)count : 1;
}

/* Computes the digest of each full tensor from the digests of its chunks, which are in order. */
static void collect(const scan *s, tsr_digest *out_digests) {
    const chunk *at = s->chunks;
    for (size_t i = 0; i < s->view->count; i++) {
        uint64_t count = chunks_of(own_bytes(s->view, i));
        tsr_hasher range;
        if (tsr_sharded_view_is_sharded(s->view, i)) {
            at += count;
            continue;
        }
        tsr_hasher_init(&range);
        for (uint64_t k = 0; k < count; k++)
            tsr_hasher_update(&range, &at[k].digest, sizeof at[k].digest);
        out_digests[i] = count == 1 ? at->digest : tsr_hasher_finish(&range);
        at += count;
    }
}

static void find_first(const scan *s, tsr_nonfinite *out_nonfinite) {
    *out_nonfinite = (tsr_nonfinite){.found = false};
    for (const chunk *c = s->chunks; c < s->chunks + s->chunk_count; c++) {
        const tsr_tensor *tensor = &s->view->tensors[c->tensor];
        if (c->nonfinite == UINT64_MAX) continue;
        out_nonfinite->found = true;
        out_nonfinite->tensor = tensor->name;
        out_nonfinite->value = c->value;
        out_nonfinite->element = tsr_sharded_view_range(s->view, c->tensor).first +
                                 c->first_bytes / tsr_dtype_size(tensor->dtype) + c->nonfinite;
        return;
    }
}

tsr_result tsr_state_scan(tsr_ctx *ctx, tsr_executor *executor, const tsr_sharded_view *view,
                          tsr_digest *out_digests, tsr_nonfinite *out_nonfinite) {
    scan s = {.executor = executor, .view = view};
    tsr_threads *threads = tsr_device_cpu_get_threads(executor->device), *own = NULL;
    tsr_result result = TSR_SUCCESS;
    uint64_t count = 0, size_bytes = 0;
    for (size_t i = 0; i < view->count; i++) {
        count += chunks_of(own_bytes(view, i));
        size_bytes += own_bytes(view, i);
    }
    s.chunks = calloc((size_t)count + 1, sizeof *s.chunks);
    if (!s.chunks) FAIL(ctx, TSR_MEMORY, "no memory to scan %zu tensors", view->count);
    list_chunks(&s);
    if (size_bytes < ONE_THREAD_BYTES)
        threads = NULL;
    else if (!threads)
        TRY_GOTO(ctx, result, tsr_threads_create(ctx, 0, &own));
    if (own) threads = own;
    TRY_GOTO(ctx, result, scan_together(ctx, &s, threads, count_readers(&s, threads)));
    collect(&s, out_digests);
    find_first(&s, out_nonfinite);
done:
    tsr_threads_destroy(own);
    free(s.chunks);
    free(s.contexts);
    free(s.results);
    return result;
}

tsr_result tsr_state_scan_hash(tsr_ctx *ctx, tsr_executor *executor, const tsr_sharded_view *view,
                               tsr_digest *out_hash) {
    tsr_nonfinite nonfinite;
    tsr_digest *digests = calloc(view->count + 1, sizeof *digests);
    if (!digests) FAIL(ctx, TSR_MEMORY, "no memory to hash %zu tensors", view->count);
    tsr_result result = tsr_state_scan(ctx, executor, view, digests, &nonfinite);
    if (!result.code) result = tsr_sharded_view_hash(ctx, view, digests, out_hash);
    free(digests);
    return result;
}
