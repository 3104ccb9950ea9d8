/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving: the caller copies into staging, one thread hashes, writes and commits. After reserve
 * nothing allocates.
 */
#include "runtime/store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WRITE_BYTES = 2 * TSR_HASH_CHUNK_BYTES };

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- one generation ---- */

tsr_result tsr_store_check_fence(tsr_ctx *ctx, tsr_store *store) {
    TRY(ctx, tsr_disk_list(ctx, store->root, &store->root_names));
    uint64_t highest = tsr_listing_highest_epoch(&store->root_names);
    if (highest > store->epoch)
        FAIL(ctx, TSR_LOCKED,
             "another run took the store over: it is of epoch %" PRIu64 ", this run of %" PRIu64,
             highest, store->epoch);
    return TSR_SUCCESS;
}

/* Hashes from staging and writes what was hashed, in large blocks. */
static tsr_result write_chunks(tsr_ctx *ctx, tsr_store *store, int fd, const char *name,
                               uint32_t segment, uint32_t *chunk_index, const uint8_t *bytes) {
    uint64_t hashed = 0, written = 0, size = store->plan.segment_sizes[segment];
    while (written < size) {
        while (hashed < size && hashed - written < WRITE_BYTES) {
            tsr_chunk_row *chunk = &store->plan.chunks[(*chunk_index)++];
            TSR_ASSERT(chunk->segment == segment && chunk->offset == hashed);
            chunk->digest = tsr_hash_tree(bytes + hashed, chunk->size_bytes);
            hashed += chunk->size_bytes;
        }
        TRY(ctx,
            tsr_io_write_all(ctx, fd, name, bytes + written, (size_t)(hashed - written), written));
        written = hashed;
    }
    return TSR_SUCCESS;
}

static tsr_result write_segment(tsr_ctx *ctx, tsr_store *store, int dir, uint32_t segment,
                                uint32_t *chunk_index, const uint8_t *bytes) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char name[TSR_NAME_TEXT_MAX];
    tsr_name_format(&(tsr_name){.kind = TSR_NAME_SEGMENT, .generation = segment}, name);
    int fd = io->open(io->self, dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot create '%s'", name);
    tsr_result result = TSR_SUCCESS;
    off_t size = (off_t)store->plan.segment_sizes[segment];
    int code = io->fallocate(io->self, fd, size);
    if (code < 0 && code != -EOPNOTSUPP)
        result = tsr_fail_(ctx, TSR_IO, -code, __FILE__, __LINE__,
                           "cannot reserve %" PRIu64 " bytes for '%s'", (uint64_t)size, name);
    if (!result.code) result = write_chunks(ctx, store, fd, name, segment, chunk_index, bytes);
    if (!result.code) result = tsr_disk_sync(ctx, fd, name);
    code = io->close(io->self, fd);
    if (!result.code && code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot close '%s'", name);
    return result;
}

static tsr_result write_generation(tsr_ctx *ctx, tsr_store *store, const char *name) {
    const tsr_io *io = tsr_ctx_io(ctx);
    const uint8_t *bytes = store->staging;
    uint32_t chunk_index = 0;
    tsr_result result = TSR_SUCCESS;
    int code = io->mkdir(io->self, store->gens, name, 0755);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot create 'gen/%s'", name);
    int dir = io->open(io->self, store->gens, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (dir < 0) FAIL_ERRNO(ctx, TSR_IO, -dir, "cannot open 'gen/%s'", name);
    for (uint32_t i = 0; i < store->plan.segment_count; i++) {
        TRY_GOTO(ctx, result, write_segment(ctx, store, dir, i, &chunk_index, bytes));
        bytes += store->plan.segment_sizes[i];
    }
    TRY_GOTO(ctx, result, tsr_disk_sync(ctx, dir, name));
    TRY_GOTO(ctx, result, tsr_disk_sync(ctx, store->gens, "gen"));
done:
    io->close(io->self, dir);
    return result;
}

tsr_result tsr_store_commit(tsr_ctx *ctx, tsr_store *store, bool *out_unknown) {
    tsr_token *token = &store->plan.token;
    char text[TSR_NAME_TEXT_MAX];
    token->generation = store->next_generation++;
    token->epoch = store->epoch;
    token->previous = store->previous_token;
    store->plan.previous = store->previous;
    tsr_name name = {
        .kind = TSR_NAME_GENERATION, .epoch = token->epoch, .generation = token->generation};
    tsr_result result = tsr_store_check_fence(ctx, store);
    if (!result.code) result = write_generation(ctx, store, tsr_name_format(&name, text));
    if (!result.code) {
        tsr_manifest_encode(&store->plan, store->encoded);
        name.kind = TSR_NAME_MANIFEST;
        result = tsr_disk_publish(ctx, store->root, store->epoch, &name, store->encoded,
                                  tsr_manifest_size(&store->plan), out_unknown);
    }
    if (result.code && !*out_unknown && result.code != TSR_LOCKED) {
        /* This generation is dead, its bytes are given back. The error told is the first one. */
        tsr_ctx aside = tsr_ctx_fork(ctx);
        name.kind = TSR_NAME_GENERATION;
        tsr_result removed =
            tsr_disk_remove_generation(&aside, store->gens, &name, &store->segment_names);
        if (removed.code) tsr_log(&aside, TSR_LOG_WARNING, "%s", aside.error.text);
    }
    TRY(ctx, result);
    /* Published for good; acknowledged only by a run that was not replaced meanwhile. */
    result = tsr_store_check_fence(ctx, store);
    *out_unknown = result.code && result.code != TSR_LOCKED;
    TRY(ctx, result);
    store->previous = (tsr_link){token->generation, token->epoch, store->plan.hash};
    store->previous_token = store->plan.token_hash;
    return TSR_SUCCESS;
}

/* ---- the thread ---- */

static void record(tsr_store *store, tsr_result result, bool unknown, double seconds) {
    tsr_save_status *status = &store->status;
    pthread_mutex_lock(&store->mutex);
    status->persist_seconds = seconds;
    if (!result.code) {
        status->committed_count++;
        status->last_committed = tsr_manifest_generation(&store->plan);
    } else {
        status->failed_count++;
        status->failed_in_a_row++;
        status->outcome_unknown |= unknown;
        status->fenced |= result.code == TSR_LOCKED;
        memcpy(store->failure_text, store->ctx.error.text, sizeof store->failure_text);
    }
    pthread_mutex_unlock(&store->mutex);
}

static void save_once(tsr_store *store) {
    tsr_ctx *ctx = &store->ctx;
    bool unknown = false;
    double start = seconds_now();
    tsr_error_clear(ctx);
    tsr_result result = tsr_store_commit(ctx, store, &unknown);
    record(store, result, unknown, seconds_now() - start);
    if (result.code) return;
    result = tsr_store_collect(ctx, store);
    if (result.code == TSR_STATE) {
        result = tsr_error_prefix(ctx, result, "generation %" PRIu64 " does not read back",
                                  store->plan.token.generation);
        record(store, result, false, seconds_now() - start);
        return;
    }
    if (result.code)
        tsr_log(ctx, TSR_LOG_WARNING, "old generations stay for now: %s", ctx->error.text);
    pthread_mutex_lock(&store->mutex);
    store->status.failed_in_a_row = 0;
    pthread_mutex_unlock(&store->mutex);
}

static void *thread_main(void *user) {
    tsr_store *store = user;
    pthread_mutex_lock(&store->mutex);
    for (;;) {
        while (!store->busy && !store->quit) pthread_cond_wait(&store->changed, &store->mutex);
        if (!store->busy) break;
        pthread_mutex_unlock(&store->mutex);
        save_once(store);
        pthread_mutex_lock(&store->mutex);
        store->busy = false;
        pthread_cond_broadcast(&store->changed);
    }
    pthread_mutex_unlock(&store->mutex);
    return NULL;
}

/* Signals stay with the threads that were there before. */
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

tsr_result tsr_store_reserve(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                             size_t tensor_count) {
    TSR_ASSERT(!store->thread_started);
    const tsr_tensor **sorted = TSR_NEW(&store->arena, const tsr_tensor *, tensor_count + 1);
    tsr_tensor *sources = TSR_NEW(&store->arena, tsr_tensor, tensor_count + 1);
    if (!sorted || !sources) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", tensor_count);
    TRY(ctx, tsr_manifest_plan(ctx, &store->arena, tensors, tensor_count, store->segment_bytes_max,
                               sorted, &store->plan));
    uint64_t size = 0;
    for (uint32_t i = 0; i < store->plan.segment_count; i++) size += store->plan.segment_sizes[i];
    for (size_t i = 0; i < tensor_count; i++) sources[i] = *sorted[i];
    store->sources = sources;
    store->plan.token.bundle_hash = store->bundle_hash;
    store->plan.token.region = store->region;
    store->plan.token.numerics = store->numerics;
    store->plan.token.topology = "ranks=1";
    size_t encoded_size = tsr_manifest_size(&store->plan);
    if (!store->staging) store->staging = malloc((size_t)size + 1);
    if (!store->encoded) store->encoded = malloc(encoded_size);
    if (!store->buffer) store->buffer = malloc(TSR_HASH_CHUNK_BYTES);
    if (!store->staging || !store->encoded || !store->buffer)
        FAIL(ctx, TSR_MEMORY, "no memory to stage a state of %" PRIu64 " bytes", size);
    /* Touched now, so that the first save is not slower than the others. */
    memset(store->staging, 0, (size_t)size);
    memset(store->encoded, 0, encoded_size);
    memset(store->buffer, 0, TSR_HASH_CHUNK_BYTES);
    return start_thread(ctx, store);
}

/* Called with the mutex held. */
static void log_failures(tsr_store *store) {
    tsr_ctx aside = tsr_ctx_fork(&store->ctx);
    if (store->failures_logged == store->status.failed_count) return;
    store->failures_logged = store->status.failed_count;
    tsr_log(&aside, TSR_LOG_WARNING, "saving failed (%" PRIu64 " in all, %u in a row): %s",
            store->status.failed_count, store->status.failed_in_a_row, store->failure_text);
}

tsr_result tsr_store_save(tsr_ctx *ctx, tsr_store *store, const tsr_position *position) {
    double start = seconds_now();
    uint8_t *at = store->staging;
    TSR_ASSERT(store->thread_started && position->virtual_ranks && position->seed <= UINT32_MAX);
    tsr_save_status status = tsr_store_wait(store);
    if (status.fenced)
        FAIL(ctx, TSR_LOCKED, "not saved: another run took the state directory '%s' over",
             store->directory);
    if (status.outcome_unknown)
        FAIL(ctx, TSR_SAVE,
             "not saved: whether the last save of '%s' is durable is not known; the next run "
             "decides",
             store->directory);
    store->plan.token.position = *position;
    for (uint32_t i = 0; i < store->plan.tensor_count; i++) {
        uint64_t size = 0;
        TSR_ASSERT(tsr_shape_size(&store->sources[i].shape, store->sources[i].dtype, &size));
        if (size) memcpy(at, store->sources[i].data, (size_t)size);
        at += size;
    }
    pthread_mutex_lock(&store->mutex);
    store->busy = true;
    store->status.stall_seconds = seconds_now() - start;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
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
