/* SPDX-License-Identifier: Apache-2.0
 *
 * A blob's digest is one hash chain over its bytes, so its chunks have to be added one after the
 * other; the chunk's own digest and writing the chunk are independent. A task handles one chunk: it
 * reads it, waits for its turn in the chain, adds it, then hashes and writes it concurrently with
 * later tasks. Chunks of different blobs alternate, so that several chains progress at once.
 */
#include "bundle/stored.h"

#include "runtime/base/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct chain {
    tsr_hasher hasher;
    uint64_t next_chunk;
} chain;

typedef struct task {
    uint32_t blob, chunk;
} task;

typedef struct writing {
    tsr_stored *blobs;
    size_t count;
    const tsr_io_atomic *file;
    task *tasks;   /* owned */
    chain *chains; /* owned; one for each blob */
    size_t task_count;
    uint64_t size_bytes;
    bool has_source;
    pthread_mutex_t lock; /* protects next_chunk and failed */
    pthread_cond_t turn;
    bool failed;
} writing;

static bool is_ready(const tsr_stored *blob) { return blob->bytes || blob->source; }

static bool is_zero(const char *bytes, size_t size) {
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

/* Returns false if another task has failed: then there is nothing more to do. */
static bool wait_for_turn(writing *self, const task *t) {
    pthread_mutex_lock(&self->lock);
    while (self->chains[t->blob].next_chunk != t->chunk && !self->failed)
        pthread_cond_wait(&self->turn, &self->lock);
    bool go = !self->failed;
    pthread_mutex_unlock(&self->lock);
    return go;
}

static void end_turn(writing *self, const task *t, bool failed) {
    pthread_mutex_lock(&self->lock);
    if (failed)
        self->failed = true;
    else
        self->chains[t->blob].next_chunk++;
    pthread_cond_broadcast(&self->turn);
    pthread_mutex_unlock(&self->lock);
}

static tsr_result store_chunk(tsr_ctx *ctx, writing *self, const task *t, char *scratch) {
    tsr_stored *blob = &self->blobs[t->blob];
    uint64_t offset = (uint64_t)t->chunk * TSR_HASH_CHUNK_BYTES, left = blob->size_bytes - offset;
    size_t size = left < TSR_HASH_CHUNK_BYTES ? (size_t)left : TSR_HASH_CHUNK_BYTES;
    const char *bytes = blob->bytes ? (const char *)blob->bytes + offset : scratch;
    if (!blob->bytes) TRY(ctx, blob->source->read(ctx, blob->source->user, offset, scratch, size));
    if (!wait_for_turn(self, t)) return TSR_SUCCESS;
    tsr_hasher_update(&self->chains[t->blob].hasher, bytes, size);
    end_turn(self, t, false);
    blob->chunks[t->chunk] = tsr_hash_tree(bytes, size);
    if (is_zero(bytes, size)) return TSR_SUCCESS; /* a hole reads as zeros */
    return tsr_io_write_all(ctx, self->file->fd, self->file->path, bytes, size,
                            blob->file_offset_bytes + offset);
}

static tsr_result run_task(tsr_ctx *ctx, void *user, size_t index, void *scratch) {
    writing *self = user;
    const task *t = &self->tasks[index];
    tsr_result result = store_chunk(ctx, self, t, scratch);
    if (result.code) end_turn(self, t, true);
    return result;
}

static int by_chunk(const void *a, const void *b) {
    const task *x = a, *y = b;
    if (x->chunk != y->chunk) return x->chunk < y->chunk ? -1 : 1;
    return (x->blob > y->blob) - (x->blob < y->blob);
}

static tsr_result list_tasks(tsr_ctx *ctx, writing *self, tsr_arena *arena) {
    uint64_t chunks = 0;
    for (size_t i = 0; i < self->count; i++)
        if (is_ready(&self->blobs[i])) chunks += tsr_chunk_count(self->blobs[i].size_bytes);
    self->tasks = calloc((size_t)chunks + 1, sizeof *self->tasks);
    self->chains = calloc(self->count + 1, sizeof *self->chains);
    if (!self->tasks || !self->chains)
        FAIL(ctx, TSR_MEMORY, "no memory to write '%s'", self->file->path);
    for (size_t i = 0; i < self->count; i++) {
        tsr_stored *blob = &self->blobs[i];
        if (!is_ready(blob)) continue;
        uint64_t count = tsr_chunk_count(blob->size_bytes);
        blob->chunks = TSR_NEW(arena, tsr_digest, (size_t)count);
        if (!blob->chunks) FAIL(ctx, TSR_MEMORY, "no memory to write '%s'", self->file->path);
        tsr_hasher_init(&self->chains[i].hasher);
        self->size_bytes += blob->size_bytes;
        self->has_source |= !blob->bytes;
        for (uint64_t chunk = 0; chunk < count; chunk++)
            self->tasks[self->task_count++] = (task){(uint32_t)i, (uint32_t)chunk};
    }
    qsort(self->tasks, self->task_count, sizeof *self->tasks, by_chunk);
    return TSR_SUCCESS;
}

tsr_result tsr_stored_write(tsr_ctx *ctx, tsr_stored *blobs, size_t count,
                            const tsr_io_atomic *file, tsr_arena *arena) {
    writing self = {.blobs = blobs,
                    .count = count,
                    .file = file,
                    .lock = PTHREAD_MUTEX_INITIALIZER,
                    .turn = PTHREAD_COND_INITIALIZER};
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, list_tasks(ctx, &self, arena));
    const tsr_pool_job job = {.task_count = self.task_count,
                              .size_bytes = self.size_bytes,
                              .scratch_bytes = self.has_source ? TSR_HASH_CHUNK_BYTES : 0,
                              .run = run_task,
                              .user = &self,
                              .subject = file->path};
    TRY_GOTO(ctx, result, tsr_pool_run(ctx, &job));
    for (size_t i = 0; i < count; i++) {
        if (!is_ready(&blobs[i])) continue;
        blobs[i].digest = tsr_hasher_finish(&self.chains[i].hasher);
        blobs[i].written = true;
    }
done:
    free(self.tasks);
    free(self.chains);
    return result;
}

tsr_result tsr_stored_move(tsr_ctx *ctx, tsr_stored *blob, const tsr_io_atomic *file,
                           uint64_t file_offset_bytes) {
    enum { BLOCK_BYTES = 1 << 20 };
    tsr_result result = TSR_SUCCESS;
    TSR_ASSERT(blob->written && file_offset_bytes <= blob->file_offset_bytes);
    char *block = malloc(BLOCK_BYTES);
    if (!block) FAIL(ctx, TSR_MEMORY, "no memory to write '%s'", file->path);
    for (uint64_t at = 0; at < blob->size_bytes && file_offset_bytes != blob->file_offset_bytes;) {
        uint64_t left = blob->size_bytes - at;
        size_t size = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
        TRY_GOTO(ctx, result,
                 tsr_io_read_exact(ctx, file->fd, file->path, block, size,
                                   blob->file_offset_bytes + at));
        TRY_GOTO(ctx, result,
                 tsr_io_write_all(ctx, file->fd, file->path, block, size, file_offset_bytes + at));
        at += size;
    }
    blob->file_offset_bytes = file_offset_bytes;
done:
    free(block);
    return result;
}
