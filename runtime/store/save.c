/* SPDX-License-Identifier: Apache-2.0
 *
 * Saves. The state (each of several ranks: its part) is copied into staging, a small one by the
 * caller. One thread runs rank and coordinator until the generation is committed and read back, and
 * old generations are removed. Nothing allocates after reserve.
 */
#include "runtime/base/clock.h"
#include "runtime/commit/mutants.h"
#include "runtime/store/internal.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };
/* Up to this size the caller copies, because that takes less time than a handover to another
 * thread. */
enum { COPY_AT_ONCE_BYTES = 256 << 10 };

static uint64_t aligned(uint64_t size_bytes) {
    return (size_bytes + TSR_DIRECT_ALIGN - 1) / TSR_DIRECT_ALIGN * TSR_DIRECT_ALIGN;
}

uint8_t *tsr_store_staged(const tsr_store *store, const tsr_chunk_row *chunk) {
    return store->staging + store->segment_starts[chunk->segment] + chunk->offset;
}

/* ---- the thread ---- */

static void record(tsr_store *store, tsr_result result, double seconds) {
    const tsr_store_outcome *outcome = &store->outcome;
    tsr_save_status *status = &store->status;
    pthread_mutex_lock(&store->mutex);
    status->persist_seconds = seconds;
    status->best = outcome->best;
    if (!result.code) {
        status->committed_count++;
        status->last_committed = outcome->committed;
    } else {
        status->failed_count++;
        status->failed_in_a_row++;
        status->outcome_unknown = outcome->outcome_unknown;
        status->fenced = outcome->fenced;
        status->lost = store->lost ? store->lost_text : NULL;
        memcpy(store->failure_text, store->ctx.error.text, sizeof store->failure_text);
    }
    pthread_mutex_unlock(&store->mutex);
}

/* The commit is reported before the generation is read back. */
static void on_committed(void *user) {
    tsr_store *store = user;
    tsr_trace_end(store->ctx.trace, TSR_TRACK_SAVES, "commit", store->prepared_ns);
    record(store, TSR_SUCCESS, tsr_clock_seconds() - store->save_start);
}

static tsr_result begin_save(tsr_ctx *ctx, tsr_store *store) {
    tsr_coordinator *c = store->coordinator;
    if (!c) return TSR_SUCCESS;
    tsr_result result = tsr_coordinator_save(ctx, c, &store->staged);
    store->outcome.fenced = c->fenced;
    store->outcome.outcome_unknown = c->outcome_unknown;
    tsr_store_note_failure(store, ctx, result);
    return result;
}

static void save_once(tsr_store *store) {
    tsr_ctx *ctx = &store->ctx;
    tsr_error_clear(ctx);
    store->outcome.code = TSR_OK;
    tsr_result result = begin_save(ctx, store);
    tsr_ctx aside = tsr_ctx_fork(ctx);
    tsr_result delivered = tsr_store_deliver(result.code ? &aside : ctx, store);
    if (!result.code) result = delivered;
    if (result.code) {
        record(store, result, tsr_clock_seconds() - store->save_start);
        return;
    }
    pthread_mutex_lock(&store->mutex);
    store->status.failed_in_a_row = 0;
    store->status.best = store->outcome.best; /* known since it was read back */
    pthread_mutex_unlock(&store->mutex);
}

static void *thread_main(void *user) {
    tsr_store *store = user;
    pthread_mutex_lock(&store->mutex);
    for (;;) {
        while (!store->busy && !store->quit) pthread_cond_wait(&store->changed, &store->mutex);
        if (!store->busy) break;
        bool copies = store->copying;
        pthread_mutex_unlock(&store->mutex);
        store->save_start = tsr_clock_seconds();
        uint64_t began_ns = tsr_trace_begin(store->ctx.trace, TSR_TRACK_SAVES);
        tsr_result staged = TSR_SUCCESS;
        if (copies) {
            if (store->parts) staged = tsr_store_gather(&store->ctx, store);
            if (!staged.code) tsr_copy_run(store);
            if (store->parts && !staged.code)
                staged = tsr_store_share_nonfinite(&store->ctx, store);
            tsr_trace_end(store->ctx.trace, TSR_TRACK_SAVES, "copy", began_ns);
            pthread_mutex_lock(&store->mutex);
            store->copying = false;
            pthread_cond_broadcast(&store->changed);
            pthread_mutex_unlock(&store->mutex);
        }
        if (!staged.code && store->copy_result.code) {
            store->ctx.error = store->copy_error;
            staged = store->copy_result;
        }
        bool refused = store->status.nonfinite.found && !TSR_MUTANT(NONFINITE_SAVED);
        if (staged.code)
            record(store, staged, 0);
        else if (!refused)
            save_once(store);
        if (began_ns)
            tsr_trace_span(store->ctx.trace, TSR_TRACK_SAVES, "save", began_ns, tsr_clock_ns(),
                           (tsr_trace_detail){.number = store->staged.step});
        pthread_mutex_lock(&store->mutex);
        store->busy = false;
        pthread_cond_broadcast(&store->changed);
    }
    pthread_mutex_unlock(&store->mutex);
    return NULL;
}

/* The new thread blocks all signals. */
static tsr_result start_thread(tsr_ctx *ctx, tsr_store *store) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int code = pthread_create(&store->thread, NULL, thread_main, store);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code) FAIL_ERRNO(ctx, TSR_MEMORY, code, "cannot start the thread that saves");
    store->thread_started = true;
    return TSR_SUCCESS;
}

/* ---- the caller's side ---- */

tsr_part tsr_store_own_part(const tsr_store *store, const tsr_manifest *manifest) {
    return tsr_part_of(manifest->chunk_count, store->rank_number, store->rank_count);
}

/* Segments [first, end) contain the part of this rank; they may also contain chunks of other ranks.
 */
static void find_segments(const tsr_store *store, const tsr_manifest *manifest, uint32_t *out_first,
                          uint32_t *out_end) {
    const tsr_part part = tsr_store_own_part(store, manifest);
    const tsr_chunk_row *chunks = manifest->chunks + part.first;
    *out_first = part.count ? chunks[0].segment : 0;
    *out_end = part.count ? chunks[part.count - 1].segment + 1 : 0;
}

tsr_result tsr_store_reserve_staging(tsr_ctx *ctx, tsr_store *store, uint64_t size_bytes) {
    size_t align = size_bytes < HUGE_PAGE_BYTES ? TSR_DIRECT_ALIGN : HUGE_PAGE_BYTES;
    uint64_t capacity = (size_bytes / align + 1) * align;
    store->landed = NULL;
    if (capacity <= store->staging_bytes) return TSR_SUCCESS;
    free(store->staging);
    store->staging_bytes = 0;
    store->staging = capacity <= SIZE_MAX / 2 ? aligned_alloc(align, (size_t)capacity) : NULL;
    if (!store->staging)
        FAIL(ctx, TSR_MEMORY, "no memory to stage a state of %" PRIu64 " bytes", capacity);
    store->staging_bytes = (size_t)capacity;
    /* A hint: the disk pins pages, and fewer large pages take less time to pin. */
    if (align == HUGE_PAGE_BYTES) (void)madvise(store->staging, (size_t)capacity, MADV_HUGEPAGE);
    return TSR_SUCCESS;
}

/* Allocates and touches all memory for a save, so that the first save is not slower than the
 * others. */
static tsr_result reserve_memory(tsr_ctx *ctx, tsr_store *store) {
    uint64_t start = 0;
    uint32_t first, end;
    find_segments(store, &store->plan, &first, &end);
    store->segment_starts = TSR_NEW(&store->arena, uint64_t, store->plan.segment_count + 1);
    if (!store->segment_starts)
        FAIL(ctx, TSR_MEMORY, "no memory for %" PRIu32 " segments", store->plan.segment_count);
    for (uint32_t i = first; i < end; i++) {
        store->segment_starts[i] = start;
        start += aligned(store->plan.segment_sizes[i]);
    }
    TRY(ctx, tsr_store_reserve_staging(ctx, store, start));
    memset(store->staging, 0, (size_t)start);
    tsr_reader_reserve(store->reader, tsr_manifest_data_bytes(&store->plan));
    store->retained_bytes = start + store->reader->retained_bytes;
    return TSR_SUCCESS;
}

static tsr_result note_parts(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                             const tsr_tensor *const *sorted) {
    bool any = false;
    uint32_t *parts = TSR_NEW(&store->arena, uint32_t, (size_t)store->plan.tensor_count + 1);
    if (!parts)
        FAIL(ctx, TSR_MEMORY, "no memory for %" PRIu32 " tensors", store->plan.tensor_count);
    for (uint32_t i = 0; i < store->plan.tensor_count; i++) {
        parts[i] = store->given_parts[sorted[i] - tensors];
        any |= parts[i] > 0;
    }
    const tsr_sharding sharding = {store->rank_count, parts};
    if (!any) return TSR_SUCCESS;
    store->parts = parts;
    return tsr_moves_plan(ctx, &store->arena, &store->plan, &sharding, store->rank_number,
                          TSR_TO_CHUNKS, &store->to_chunks);
}

tsr_result tsr_store_plan(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                          size_t tensor_count) {
    if (store->tensor_data) {
        TSR_ASSERT(store->plan.tensor_count == tensor_count);
        return TSR_SUCCESS;
    }
    const tsr_tensor **sorted = TSR_NEW(&store->arena, const tsr_tensor *, tensor_count + 1);
    void **tensor_data = TSR_NEW(&store->arena, void *, tensor_count + 1);
    if (!sorted || !tensor_data) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", tensor_count);
    TRY(ctx, tsr_manifest_plan(ctx, &store->arena, tensors, tensor_count,
                               &(tsr_division){store->segment_bytes_max, store->rank_count}, sorted,
                               &store->plan));
    for (size_t i = 0; i < tensor_count; i++) tensor_data[i] = sorted[i]->data;
    store->tensor_data = tensor_data;
    if (!store->given_parts || !store->transport) return TSR_SUCCESS;
    return note_parts(ctx, store, tensors, sorted);
}

uint64_t tsr_store_get_retained_bytes(const tsr_store *store) { return store->retained_bytes; }

tsr_result tsr_store_reserve(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                             size_t tensor_count) {
    TSR_ASSERT(!store->thread_started);
    TRY(ctx, tsr_store_plan(ctx, store, tensors, tensor_count));
    TRY(ctx, tsr_copy_plan(ctx, store, tensors, tensor_count));
    store->plan.token.bundle_hash = store->bundle_hash;
    tsr_store_stage_hyperparameters(store);
    store->plan.token.region = store->region;
    store->plan.token.numerics = store->numerics;
    store->plan.token.topology =
        tsr_arena_printf(&store->arena, "ranks=%" PRIu32, store->rank_count);
    if (!store->plan.token.topology) FAIL(ctx, TSR_MEMORY, "no memory for a token");
    store->on_committed = on_committed;
    TRY(ctx, reserve_memory(ctx, store));
    TRY(ctx, tsr_store_reserve_answers(ctx, store, store->plan.chunk_count));
    TRY(ctx, tsr_rank_plan(ctx, store->rank, &store->plan));
    if (store->coordinator) TRY(ctx, tsr_coordinator_plan(ctx, store->coordinator, &store->plan));
    return start_thread(ctx, store);
}

/* Called with the mutex locked. */
static void log_failures(tsr_store *store) {
    tsr_ctx aside = tsr_ctx_fork(&store->ctx);
    if (store->failures_logged == store->status.failed_count || store->status.lost) return;
    store->failures_logged = store->status.failed_count;
    tsr_log(&aside, TSR_LOG_WARNING, "saving failed (%" PRIu64 " in all, %u in a row): '%s': %s",
            store->status.failed_count, store->status.failed_in_a_row, store->directory,
            store->failure_text);
}

tsr_result tsr_store_save_begin(tsr_ctx *ctx, tsr_store *store, const tsr_position *position) {
    double start = tsr_clock_seconds();
    TSR_ASSERT(store->thread_started && position->virtual_ranks && position->seed <= UINT32_MAX);
    tsr_save_status status = tsr_store_wait(store);
    if (status.fenced)
        FAIL(ctx, TSR_LOCKED, "not saved: another run took the state directory '%s' over",
             store->directory);
    if (status.outcome_unknown)
        FAIL(ctx, TSR_SAVE,
             "not saved: it is unknown whether the last save of '%s' is durable; the next run "
             "decides",
             store->directory);
    if (status.lost) FAIL(ctx, TSR_RANK, "%s", status.lost);
    bool at_once = !store->parts && tsr_manifest_data_bytes(&store->plan) <= COPY_AT_ONCE_BYTES;
    pthread_mutex_lock(&store->mutex);
    store->staged = *position;
    tsr_store_name_work(store, "save", position->step);
    tsr_store_stage_hyperparameters(store);
    tsr_copy_begin(store);
    pthread_mutex_unlock(&store->mutex);
    tsr_trace_save(ctx->trace);
    uint64_t began_ns = at_once ? tsr_trace_begin(ctx->trace, TSR_TRACK_STEPS) : 0;
    if (at_once) tsr_copy_run(store);
    tsr_trace_end(ctx->trace, TSR_TRACK_STEPS, "copy", began_ns);
    pthread_mutex_lock(&store->mutex);
    store->busy = true;
    store->copying = !at_once;
    store->status.stall_seconds = tsr_clock_seconds() - start;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    return TSR_SUCCESS;
}

tsr_result tsr_store_save(tsr_ctx *ctx, tsr_store *store, const tsr_position *position) {
    TRY(ctx, tsr_store_save_begin(ctx, store, position));
    tsr_store_wait_copied(store, NULL);
    return TSR_SUCCESS;
}

tsr_save_status tsr_store_poll(tsr_store *store) {
    pthread_mutex_lock(&store->mutex);
    log_failures(store);
    tsr_save_status status = store->status;
    pthread_mutex_unlock(&store->mutex);
    return status;
}

tsr_save_status tsr_store_wait(tsr_store *store) {
    pthread_mutex_lock(&store->mutex);
    while (store->busy) pthread_cond_wait(&store->changed, &store->mutex);
    log_failures(store);
    tsr_save_status status = store->status;
    pthread_mutex_unlock(&store->mutex);
    return status;
}
