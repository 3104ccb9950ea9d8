/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of a rank: hashes and writes it from staging, verifies it on the way to its destination.
 */
#include "runtime/base/clock.h"
#include "runtime/commit/mutants.h"
#include "runtime/store/internal.h"

#include <sched.h>
#include <string.h>

enum { TASKS_MAX = 4096 };

static uint64_t staged_step(void *user) {
    const tsr_store *store = user;
    return store->staged.step;
}

static const uint8_t *segment_bytes(void *user, uint32_t segment) {
    const tsr_store *store = user;
    return store->staging + store->segment_starts[segment];
}

/* Many small chunks make one task. */
static uint32_t chunks_per_task(const tsr_store *store) {
    return 1 + store->hashing.count / TASKS_MAX;
}

static uint64_t task_count(const tsr_store *store) {
    uint32_t per_task = chunks_per_task(store);
    return ((uint64_t)store->hashing.count + per_task - 1) / per_task;
}

/* Run by the thread pool while the segments are written; staging does not change during that time.
 */
static void hash_chunks(void *user, uint64_t task, unsigned worker) {
    tsr_store *store = user;
    (void)worker;
    uint64_t per_task = chunks_per_task(store), end = (task + 1) * per_task;
    for (uint64_t i = task * per_task; i < end && i < store->hashing.count; i++) {
        tsr_chunk_row *chunk = &store->plan.chunks[store->hashing.first + i];
        const uint8_t *bytes =
            store->staging + store->segment_starts[chunk->segment] + chunk->offset;
        if (TSR_MUTANT(SOURCE_HASHED)) bytes = store->sources[store->hashing.first + i];
        chunk->digest = tsr_hash_tree(bytes, chunk->size_bytes);
    }
    if (store->hash_began_ns) atomic_store(&store->hash_ended_ns, tsr_clock_ns());
    /* The writing thread needs a CPU for a moment each time the disk has finished. */
    (void)sched_yield();
}

static void hash_begin(void *user, tsr_part part) {
    tsr_store *store = user;
    store->hashing = part;
    store->hash_began_ns = tsr_trace_begin(store->ctx.trace, TSR_TRACK_HASHES);
    atomic_store(&store->hash_ended_ns, store->hash_began_ns);
    tsr_pool_begin(&store->reader->workers, hash_chunks, store);
    tsr_pool_offer(&store->reader->workers, task_count(store));
}

static void hash_end(void *user) {
    tsr_store *store = user;
    tsr_pool_wait(&store->reader->workers, task_count(store));
    tsr_trace_span(store->ctx.trace, TSR_TRACK_HASHES, "hash", store->hash_began_ns,
                   atomic_load(&store->hash_ended_ns), (tsr_trace_detail){0});
    store->prepared_ns = tsr_trace_begin(store->ctx.trace, TSR_TRACK_SAVES);
}

/* Assigns successive offsets to the chunks of this rank's part. */
static tsr_result land_part(tsr_ctx *ctx, tsr_store *store, const tsr_manifest *manifest,
                            void **destinations) {
    const tsr_part part = tsr_store_own_part(store, manifest);
    uint64_t size = 0;
    uint32_t chunk = 0;
    for (uint32_t i = 0; i < part.count; i++) size += manifest->chunks[part.first + i].size_bytes;
    TRY(ctx, tsr_store_reserve_staging(ctx, store, size));
    uint8_t *at = store->staging;
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        uint64_t width = tsr_dtype_size(manifest->tensors[i].dtype);
        bool begun = false;
        for (uint32_t k = 0; k < manifest->tensors[i].chunk_count; k++, chunk++) {
            const tsr_chunk_row *row = &manifest->chunks[chunk];
            if (chunk - part.first >= part.count) continue;
            /* The address that element 0 would have. */
            if (!begun) destinations[i] = (void *)((uintptr_t)at - row->first * width);
            begun = true;
            at += row->size_bytes;
        }
    }
    return TSR_SUCCESS;
}

/* Reads into the tensors given at opening, else into the memory that later saves need anyway. If
 * neither works, the verified data is read again by the load. */
static void land(tsr_ctx *ctx, tsr_store *store, const tsr_manifest *manifest) {
    void **destinations = TSR_NEW(&store->arena, void *, manifest->tensor_count + 1);
    tsr_result result = TSR_SUCCESS;
    store->landed = NULL;
    if (!destinations) return;
    bool named = store->landing_count && !tsr_find_destinations(ctx, manifest, store->landing,
                                                                store->landing_count, destinations)
                                              .code;
    if (named && store->transport)
        result = tsr_store_plan(ctx, store, store->landing, store->landing_count);
    if (named && store->parts && !result.code)
        result = land_part(ctx, store, manifest, destinations);
    if (!named) result = tsr_store_reserve_staging(ctx, store, tsr_manifest_data_bytes(manifest));
    tsr_error_clear(ctx);
    if (result.code) return;
    uint8_t *at = store->staging;
    for (uint32_t i = 0; !named && i < manifest->tensor_count; i++) {
        destinations[i] = at;
        at += tsr_row_bytes(&manifest->tensors[i]);
    }
    store->landed = destinations;
}

static tsr_result verify(tsr_ctx *ctx, void *user, const tsr_manifest *manifest, tsr_part part,
                         tsr_purpose purpose) {
    tsr_store *store = user;
    int gens = store->gens;
    void **destinations = NULL;
    if (purpose == TSR_PURPOSE_RECOVER) {
        /* Checks the sizes first: no memory is allocated only because a manifest requests it. */
        TRY(ctx, tsr_read_sizes(ctx, gens, manifest));
        land(ctx, store, manifest);
        destinations = store->landed;
    }
    return tsr_read_part(ctx, store->reader, gens, manifest, part, destinations,
                         purpose == TSR_PURPOSE_READ_BACK);
}

tsr_rank_data tsr_store_data(tsr_store *store) {
    return (tsr_rank_data){.user = store,
                           .step = staged_step,
                           .segment = segment_bytes,
                           .hash_begin = hash_begin,
                           .hash_end = hash_end,
                           .verify = verify};
}
