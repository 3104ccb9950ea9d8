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
#include <sys/mman.h>
#include <time.h>

enum { WRITE_BYTES = 2 * TSR_HASH_CHUNK_BYTES, TASKS_MAX = 4096, HUGE_PAGE_BYTES = 2 << 20 };

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

static uint64_t aligned(uint64_t size_bytes) {
    return (size_bytes + TSR_DIRECT_ALIGN - 1) / TSR_DIRECT_ALIGN * TSR_DIRECT_ALIGN;
}

static uint8_t *staged(const tsr_store *store, const tsr_chunk_row *chunk) {
    return store->staging + store->segment_starts[chunk->segment] + chunk->offset;
}

/* Many small chunks make one task. */
static uint64_t chunks_per_task(const tsr_store *store) {
    return 1 + store->plan.chunk_count / TASKS_MAX;
}

/* Done by the crew while the segments are written: staging does not change meanwhile. */
static void hash_chunks(void *user, uint64_t task) {
    tsr_store *store = user;
    uint64_t per_task = chunks_per_task(store), end = (task + 1) * per_task;
    for (uint64_t i = task * per_task; i < end && i < store->plan.chunk_count; i++) {
        tsr_chunk_row *chunk = &store->plan.chunks[i];
        chunk->digest = tsr_hash_tree(staged(store, chunk), chunk->size_bytes);
    }
}

/* Whole blocks past the page cache, which a file system may refuse; what is not done after success
 * is left to the page cache. */
static tsr_result write_direct(tsr_ctx *ctx, int fd, const char *name, const uint8_t *bytes,
                               uint64_t size_bytes, uint64_t *out_done) {
    const tsr_io *io = tsr_ctx_io(ctx);
    unsigned interruptions = 0;
    uint64_t done = 0, whole = size_bytes / TSR_DIRECT_ALIGN * TSR_DIRECT_ALIGN;
    while (done < whole && done % TSR_DIRECT_ALIGN == 0) {
        size_t size = whole - done < WRITE_BYTES ? (size_t)(whole - done) : WRITE_BYTES;
        ssize_t part = io->pwrite(io->self, fd, bytes + done, size, (off_t)done);
        if (part == -EINTR && interruptions++ < TSR_IO_INTERRUPTIONS_MAX) continue;
        if (part == -EINVAL || part == -EOPNOTSUPP) break;
        if (part <= 0)
            FAIL_ERRNO(ctx, TSR_IO, part ? (int)-part : EIO, "cannot write '%s' at offset %" PRIu64,
                       name, done);
        done += (uint64_t)part;
    }
    *out_done = done / TSR_DIRECT_ALIGN * TSR_DIRECT_ALIGN;
    return TSR_SUCCESS;
}

static tsr_result write_bytes(tsr_ctx *ctx, int dir, int fd, const char *name, const uint8_t *bytes,
                              uint64_t size_bytes) {
    const tsr_io *io = tsr_ctx_io(ctx);
    uint64_t done = 0;
    int direct = -1, code = 0;
    tsr_result result = TSR_SUCCESS;
    if (size_bytes >= TSR_DIRECT_ALIGN)
        direct = io->open(io->self, dir, name, O_WRONLY | O_NOFOLLOW | O_DIRECT, 0);
    if (direct >= 0) {
        result = write_direct(ctx, direct, name, bytes, size_bytes, &done);
        code = io->close(io->self, direct);
    }
    TRY(ctx, result);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot close '%s'", name);
    return tsr_io_write_all(ctx, fd, name, bytes + done, (size_t)(size_bytes - done), done);
}

static tsr_result write_segment(tsr_ctx *ctx, tsr_store *store, int dir, uint32_t segment) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char name[TSR_NAME_TEXT_MAX];
    tsr_name_format(&(tsr_name){.kind = TSR_NAME_SEGMENT, .generation = segment}, name);
    int fd = io->open(io->self, dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot create '%s'", name);
    tsr_result result = TSR_SUCCESS;
    uint64_t size = store->plan.segment_sizes[segment];
    int code = io->fallocate(io->self, fd, (off_t)size);
    if (code < 0 && code != -EOPNOTSUPP)
        result = tsr_fail_(ctx, TSR_IO, -code, __FILE__, __LINE__,
                           "cannot reserve %" PRIu64 " bytes for '%s'", size, name);
    if (!result.code)
        result =
            write_bytes(ctx, dir, fd, name, store->staging + store->segment_starts[segment], size);
    if (!result.code) result = tsr_disk_sync(ctx, fd, name);
    code = io->close(io->self, fd);
    if (!result.code && code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot close '%s'", name);
    return result;
}

static tsr_result write_generation(tsr_ctx *ctx, tsr_store *store, const char *name) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_result result = TSR_SUCCESS;
    int code = io->mkdir(io->self, store->gens, name, 0755);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot create 'gen/%s'", name);
    int dir = io->open(io->self, store->gens, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (dir < 0) FAIL_ERRNO(ctx, TSR_IO, -dir, "cannot open 'gen/%s'", name);
    for (uint32_t i = 0; i < store->plan.segment_count; i++)
        TRY_GOTO(ctx, result, write_segment(ctx, store, dir, i));
    TRY_GOTO(ctx, result, tsr_disk_sync(ctx, dir, name));
    TRY_GOTO(ctx, result, tsr_disk_sync(ctx, store->gens, "gen"));
done:
    io->close(io->self, dir);
    return result;
}

/* Both at once; neither outlives this call. */
static tsr_result hash_and_write(tsr_ctx *ctx, tsr_store *store, const char *name) {
    tsr_crew *crew = &store->reader->crew;
    uint64_t per_task = chunks_per_task(store);
    uint64_t tasks = (store->plan.chunk_count + per_task - 1) / per_task;
    tsr_crew_begin(crew, hash_chunks, store);
    tsr_crew_offer(crew, tasks);
    tsr_result result = write_generation(ctx, store, name);
    if (!result.code) tsr_crew_wait(crew, tasks);
    tsr_crew_cancel(crew);
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
    if (!result.code) result = hash_and_write(ctx, store, tsr_name_format(&name, text));
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

tsr_result tsr_store_reserve_staging(tsr_ctx *ctx, tsr_store *store, const tsr_manifest *manifest) {
    uint64_t room = TSR_DIRECT_ALIGN;
    for (uint32_t i = 0; i < manifest->segment_count; i++)
        room += aligned(manifest->segment_sizes[i]);
    size_t align = room < HUGE_PAGE_BYTES ? TSR_DIRECT_ALIGN : HUGE_PAGE_BYTES;
    room = (room + align - 1) / align * align;
    store->landed = NULL;
    if (room <= store->staging_bytes) return TSR_SUCCESS;
    free(store->staging);
    store->staging_bytes = 0;
    store->staging = room <= SIZE_MAX / 2 ? aligned_alloc(align, (size_t)room) : NULL;
    if (!store->staging)
        FAIL(ctx, TSR_MEMORY, "no memory to stage a state of %" PRIu64 " bytes", room);
    store->staging_bytes = (size_t)room;
    /* A hint: the disk pins pages, and few large ones take less time. */
    if (align == HUGE_PAGE_BYTES) (void)madvise(store->staging, (size_t)room, MADV_HUGEPAGE);
    return TSR_SUCCESS;
}

/* Everything a save needs, touched now, so that the first one is not slower than the others. */
static tsr_result reserve_memory(tsr_ctx *ctx, tsr_store *store) {
    size_t encoded_size = tsr_manifest_size(&store->plan);
    uint64_t size = tsr_manifest_data_bytes(&store->plan), start = 0;
    size_t read_size = TSR_READ_SLOTS * (size_t)TSR_READ_SLOT_BYTES;
    TRY(ctx, tsr_store_reserve_staging(ctx, store, &store->plan));
    store->segment_starts = TSR_NEW(&store->arena, uint64_t, store->plan.segment_count + 1);
    if (!store->encoded) store->encoded = malloc(encoded_size);
    if (!store->segment_starts || !store->encoded)
        FAIL(ctx, TSR_MEMORY, "no memory for a manifest of %zu bytes", encoded_size);
    for (uint32_t i = 0; i < store->plan.segment_count; i++) {
        store->segment_starts[i] = start;
        start += aligned(store->plan.segment_sizes[i]);
    }
    memset(store->staging, 0, (size_t)start);
    memset(store->encoded, 0, encoded_size);
    memset(store->reader->memory, 0, size < read_size ? (size_t)size : read_size);
    if (size >= TSR_CREW_BYTES_MIN) tsr_crew_start(&store->reader->crew);
    return TSR_SUCCESS;
}

tsr_result tsr_store_reserve(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                             size_t tensor_count) {
    TSR_ASSERT(!store->thread_started);
    const tsr_tensor **sorted = TSR_NEW(&store->arena, const tsr_tensor *, tensor_count + 1);
    tsr_tensor *sources = TSR_NEW(&store->arena, tsr_tensor, tensor_count + 1);
    if (!sorted || !sources) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", tensor_count);
    TRY(ctx, tsr_manifest_plan(ctx, &store->arena, tensors, tensor_count,
                               &(tsr_division){store->segment_bytes_max, 1}, sorted, &store->plan));
    for (size_t i = 0; i < tensor_count; i++) sources[i] = *sorted[i];
    store->sources = sources;
    store->plan.token.bundle_hash = store->bundle_hash;
    store->plan.token.region = store->region;
    store->plan.token.numerics = store->numerics;
    store->plan.token.topology = "ranks=1";
    TRY(ctx, reserve_memory(ctx, store));
    return start_thread(ctx, store);
}

/* Called with the mutex held. */
static void log_failures(tsr_store *store) {
    tsr_ctx aside = tsr_ctx_fork(&store->ctx);
    if (store->failures_logged == store->status.failed_count) return;
    store->failures_logged = store->status.failed_count;
    tsr_log(&aside, TSR_LOG_WARNING, "saving failed (%" PRIu64 " in all, %u in a row): '%s': %s",
            store->status.failed_count, store->status.failed_in_a_row, store->directory,
            store->failure_text);
}

tsr_result tsr_store_save(tsr_ctx *ctx, tsr_store *store, const tsr_position *position) {
    double start = seconds_now();
    const tsr_chunk_row *chunk = store->plan.chunks;
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
        const uint8_t *from = store->sources[i].data;
        for (uint32_t k = 0; k < store->plan.tensors[i].chunk_count; k++, chunk++) {
            memcpy(staged(store, chunk), from, chunk->size_bytes);
            from += chunk->size_bytes;
        }
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
