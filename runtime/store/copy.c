/* SPDX-License-Identifier: Apache-2.0
 *
 * The copy of a state to staging, done by the thread pool chunk by chunk, in the order in which the
 * tensors were given, so that each tensor may be overwritten as soon as it is copied. Copied bytes
 * are checked while they are still in the cache: a state that is not finite is not saved. Each of
 * several ranks copies its part, but checks the full state, so that all stop in the same way.
 */
#include "runtime/base/clock.h"
#include "runtime/commit/mutants.h"
#include "runtime/store/internal.h"
#include "runtime/store/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 << 10 };
static_assert((int)TSR_STORE_READERS_MAX == (int)TSR_STORE_THREADS_MAX + 1,
              "the threads of the pool, and the caller");
static_assert((int)TSR_STORE_READ_BYTES_MAX == (int)TSR_HASH_CHUNK_BYTES,
              "a chunk is read at once");

/* ---- the plan ---- */

/* Records the source address of each chunk, in the order of the plan. */
static void note_sources(tsr_store *store) {
    const tsr_manifest *plan = &store->plan;
    uint32_t chunk = 0;
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        const uint8_t *from = store->tensor_data[i];
        for (uint32_t k = 0; k < plan->tensors[i].chunk_count; k++, chunk++) {
            store->sources[chunk] = from;
            from += plan->chunks[chunk].size_bytes;
        }
    }
}

static int by_data(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const tsr_copied *)a)->data;
    uintptr_t y = (uintptr_t)((const tsr_copied *)b)->data;
    return (x > y) - (x < y);
}

static int by_name(const void *name, const void *row) {
    return strcmp(name, ((const tsr_tensor_row *)row)->name);
}

static uint64_t task_count(const tsr_store *store) {
    return ((uint64_t)store->copy_count + store->chunks_per_copy - 1) / store->chunks_per_copy;
}

/* Appends the chunks of a tensor, and records the number of tasks after which it is copied. */
static void add_tensor(tsr_store *store, const tsr_tensor *tensor, const uint32_t *first_chunks) {
    const tsr_manifest *plan = &store->plan;
    const tsr_tensor_row *row =
        bsearch(tensor->name, plan->tensors, plan->tensor_count, sizeof *row, by_name);
    TSR_ASSERT(row);
    const uint32_t index = (uint32_t)(row - plan->tensors), before = store->copy_count;
    const tsr_part part = tsr_store_own_part(store, plan);
    for (uint32_t k = 0; k < row->chunk_count; k++) {
        const uint32_t chunk = first_chunks[index] + k;
        const bool is_own = chunk - part.first < part.count;
        const bool scans = store->finite && tsr_dtype_is_float(row->dtype);
        if (store->parts ? is_own && scans : is_own || scans)
            store->copies[store->copy_count++] = (tsr_copy){chunk, index, is_own};
    }
    if (store->parts || !row->chunk_count) return;
    store->copied[store->copied_count++] =
        (tsr_copied){tensor->data, store->copy_count > before ? task_count(store) : 0};
}

tsr_result tsr_copy_plan(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                         size_t tensor_count) {
    const tsr_manifest *plan = &store->plan;
    tsr_arena *arena = &store->arena;
    uint32_t *first_chunks = TSR_NEW(arena, uint32_t, tensor_count + 1), chunk = 0;
    store->sources = TSR_NEW(arena, const uint8_t *, (size_t)plan->chunk_count + 1);
    store->copies = TSR_NEW(arena, tsr_copy, (size_t)plan->chunk_count + 1);
    store->copied = TSR_NEW(arena, tsr_copied, tensor_count + 1);
    if (!first_chunks || !store->sources || !store->copies || !store->copied)
        FAIL(ctx, TSR_MEMORY, "no memory for %" PRIu32 " chunks", plan->chunk_count);
    store->chunks_per_copy = 1 + plan->chunk_count / TSR_COPY_TASKS_MAX;
    note_sources(store);
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        first_chunks[i] = chunk;
        chunk += plan->tensors[i].chunk_count;
    }
    for (size_t i = 0; i < tensor_count; i++) add_tensor(store, &tensors[i], first_chunks);
    qsort(store->copied, store->copied_count, sizeof *store->copied, by_data);
    return TSR_SUCCESS;
}

/* ---- the copy ---- */

/* The first tensor by name is reported, in whatever order threads find values. */
void tsr_store_note_nonfinite(tsr_store *store, const tsr_finding *found) {
    tsr_nonfinite *first = &store->status.nonfinite;
    pthread_mutex_lock(&store->mutex);
    if (!first->found || found->row < store->nonfinite_row ||
        (found->row == store->nonfinite_row && found->element < first->element)) {
        store->nonfinite_row = found->row;
        *first = (tsr_nonfinite){true, store->plan.tensors[found->row].name, found->element,
                                 store->staged.step, found->value};
    }
    pthread_mutex_unlock(&store->mutex);
}

/* Returns the address of a chunk's bytes; NULL if they cannot be read. */
static const uint8_t *read_source(tsr_store *store, const tsr_copy *copy, unsigned worker) {
    const void *from = store->sources[copy->chunk];
    tsr_ctx aside = tsr_ctx_fork(&store->ctx);
    if (!store->source.read) return from;
    tsr_result result = store->source.read(&aside, store->source.user, worker, from,
                                           store->plan.chunks[copy->chunk].size_bytes, &from);
    if (!result.code) return from;
    pthread_mutex_lock(&store->mutex);
    if (!store->copy_result.code) {
        store->copy_result = result;
        store->copy_error = aside.error;
    }
    pthread_mutex_unlock(&store->mutex);
    return NULL;
}

static void copy_chunk(tsr_store *store, const tsr_copy *copy, unsigned worker) {
    const tsr_chunk_row *chunk = &store->plan.chunks[copy->chunk];
    const uint8_t *from = read_source(store, copy, worker);
    uint8_t *staged = copy->is_own ? tsr_store_staged(store, chunk) : NULL;
    uint8_t *to = store->parts ? NULL : staged; /* tensors with parts were gathered there */
    const uint8_t *seen = store->parts && staged ? staged : from;
    const tsr_dtype dtype = store->plan.tensors[copy->row].dtype;
    /* A state that fits into the cache should stay there, because it is hashed and written next. */
    const bool streams = tsr_manifest_data_bytes(&store->plan) >= TSR_STORE_THREADS_BYTES_MIN;
    bool scans = store->finite;
    if (!from) return;
    for (uint32_t at = 0; at < chunk->size_bytes; at += BLOCK_BYTES) {
        uint32_t size = chunk->size_bytes - at < BLOCK_BYTES ? chunk->size_bytes - at : BLOCK_BYTES;
        double value = 0;
        if (to && !streams) memcpy(to + at, from + at, size);
        if (to && streams && !tsr_stream_copy(dtype, to + at, from + at, size)) continue;
        if (!scans) continue;
        uint64_t width = tsr_dtype_size(dtype);
        uint64_t found = tsr_dtype_find_nonfinite(dtype, seen + at, size / width, &value);
        if (found == UINT64_MAX) continue;
        tsr_store_note_nonfinite(
            store, &(tsr_finding){copy->row, chunk->first + at / width + found, value});
        scans = false;
    }
}

/* Marks a task as done; tasks may end in a different order than they began. */
static void note_task(tsr_store *store, uint64_t task) {
    pthread_mutex_lock(&store->mutex);
    store->task_done[task] = true;
    while (store->tasks_done < TSR_COPY_TASKS_MAX && store->task_done[store->tasks_done])
        store->tasks_done++;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
}

static void copy_task(void *user, uint64_t task, unsigned worker) {
    tsr_store *store = user;
    uint64_t per_task = store->chunks_per_copy, end = (task + 1) * per_task;
    for (uint64_t i = task * per_task; i < end && i < store->copy_count; i++)
        copy_chunk(store, &store->copies[i], worker);
    note_task(store, task);
}

void tsr_copy_begin(tsr_store *store) {
    memset(store->task_done, 0, sizeof store->task_done);
    store->tasks_done = 0;
    store->status.nonfinite = (tsr_nonfinite){.found = false};
    store->copy_result = TSR_SUCCESS;
}

void tsr_copy_run(tsr_store *store) {
    tsr_pool *pool = &store->reader->workers;
    uint64_t tasks = task_count(store);
    tsr_pool_begin(pool, copy_task, store);
    tsr_pool_offer(pool, tasks);
    tsr_pool_wait(pool, tasks);
}

/* Returns the number of tasks that must be done before this memory may be written; all if the
 * address is unknown. */
static uint64_t tasks_until(const tsr_store *store, const void *data) {
    const tsr_copied key = {.data = data};
    const tsr_copied *found =
        data && store->copied_count
            ? bsearch(&key, store->copied, store->copied_count, sizeof key, by_data)
            : NULL;
    if (found && TSR_MUTANT(TENSOR_UNAWAITED)) return found->tasks - 1;
    return found ? found->tasks : UINT64_MAX;
}

void tsr_store_wait_copied(tsr_store *store, const void *data) {
    pthread_mutex_lock(&store->mutex);
    if (store->copying && !TSR_MUTANT(COPY_UNAWAITED)) {
        uint64_t tasks = tasks_until(store, data);
        double start = tsr_clock_seconds();
        uint64_t began_ns =
            store->tasks_done < tasks ? tsr_trace_begin(store->ctx.trace, TSR_TRACK_STEPS) : 0;
        while (store->copying && store->tasks_done < tasks)
            pthread_cond_wait(&store->changed, &store->mutex);
        store->status.stall_seconds += tsr_clock_seconds() - start;
        tsr_trace_end(store->ctx.trace, TSR_TRACK_STEPS, "wait for a copy", began_ns);
    }
    pthread_mutex_unlock(&store->mutex);
}
