/* SPDX-License-Identifier: Apache-2.0
 *
 * The arrays are hashed piece by piece under a lock, by the thread and, after finish is called, by
 * the caller too: so finish need not wait for a thread that gets no CPU time.
 */
#include "runtime/data/fingerprint.h"

#include "runtime/base/io/io.h"
#include "runtime/base/plural.h"
#include "runtime/data/array_file.h"
#include "runtime/data/fingerprint_cache.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK_BYTES = 64 * 1024, AT_ONCE_BYTES = 4 * 1024 * 1024 };
/* A file system may give two changes within this time the same time stamp. */
static const int64_t stable_ns = INT64_C(2000000000);

typedef struct source {
    tsr_fingerprint_array array;
    tsr_array *open; /* owned; until its digest is known */
    uint64_t element_count, size_bytes;
    tsr_file_state state; /* when it was opened */
    bool known, hashed;   /* its digest is known; we computed it, not the cache */
    bool stable;          /* it was last changed long enough ago */
    tsr_digest digest;
} source;

struct tsr_fingerprint {
    tsr_fingerprint_options options;
    source *sources; /* owned */
    size_t count;
    bool started, cache_written;
    pthread_t thread;
    atomic_bool stop;
    tsr_ctx thread_ctx;   /* context of the thread */
    pthread_mutex_t lock; /* guards all fields below, and `known` and `digest` of the sources */
    size_t at;            /* index of the current source */
    uint64_t element;     /* its next element */
    tsr_tree_hasher hasher;
    char block[BLOCK_BYTES];
};

/* ---- opening ---- */

static tsr_result stat_source(tsr_ctx *ctx, const source *s, tsr_file_state *out_state) {
    const tsr_io *io = tsr_ctx_io(ctx);
    struct stat about;
    int code = io->fstat(io->self, tsr_array_get_fd(s->open), &about);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot stat '%s'", s->array.spec);
    *out_state = tsr_file_state_of(&about, s->array.spec + tsr_array_path_length(s->array.spec));
    return TSR_SUCCESS;
}

static void close_source(tsr_ctx *ctx, source *s) {
    tsr_array_close(ctx, s->open);
    s->open = NULL;
}

static tsr_result open_source(tsr_ctx *ctx, source *s) {
    struct timespec now;
    TRY(ctx, tsr_array_open(ctx, s->array.spec, s->array.dtype, &s->open));
    bool fits = tsr_shape_count(tsr_array_get_shape(s->open), &s->element_count);
    TSR_ASSERT(fits);
    s->size_bytes = s->element_count * tsr_dtype_size(tsr_array_get_dtype(s->open));
    TRY(ctx, stat_source(ctx, s, &s->state));
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    s->stable = s->state.ctime_ns < now_ns - stable_ns;
    return TSR_SUCCESS;
}

tsr_result tsr_fingerprint_open(tsr_ctx *ctx, const tsr_fingerprint_array *arrays, size_t count,
                                const tsr_fingerprint_options *options,
                                tsr_fingerprint **out_fingerprint) {
    tsr_result result = TSR_SUCCESS;
    TSR_ASSERT(count <= TSR_FINGERPRINT_ARRAYS_MAX);
    tsr_fingerprint *f = calloc(1, sizeof *f);
    if (!f) FAIL(ctx, TSR_MEMORY, "no memory to hash data");
    pthread_mutex_init(&f->lock, NULL);
    f->options = *options;
    f->count = count;
    f->sources = calloc(count + 1, sizeof *f->sources);
    if (!f->sources) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to hash %zu arrays", count);
    for (size_t i = 0; i < count; i++) {
        source *s = &f->sources[i];
        s->array = arrays[i];
        TRY_GOTO(ctx, result, open_source(ctx, s));
        s->known = options->cache_path && !options->ignores_cache &&
                   tsr_fingerprint_cache_find(ctx, options->cache_path, &s->state, &s->digest);
        if (s->known) close_source(ctx, s);
    }
    tsr_tree_hasher_init(&f->hasher);
    *out_fingerprint = f;
    f = NULL;
done:
    tsr_fingerprint_close(ctx, f);
    return result;
}

static void join(tsr_fingerprint *f) {
    if (f->started) pthread_join(f->thread, NULL);
    f->started = false;
}

void tsr_fingerprint_close(tsr_ctx *ctx, tsr_fingerprint *fingerprint) {
    if (!fingerprint) return;
    fingerprint->stop = true;
    join(fingerprint);
    for (size_t i = 0; fingerprint->sources && i < fingerprint->count; i++)
        close_source(ctx, &fingerprint->sources[i]);
    pthread_mutex_destroy(&fingerprint->lock);
    free(fingerprint->sources);
    free(fingerprint);
}

uint64_t tsr_fingerprint_get_bytes(const tsr_fingerprint *fingerprint) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < fingerprint->count; i++) {
        const source *s = &fingerprint->sources[i];
        if (!s->known) bytes += s->size_bytes;
    }
    return bytes;
}

/* ---- hashing ---- */

static tsr_result end_source(tsr_ctx *ctx, tsr_fingerprint *f, source *s) {
    tsr_file_state now;
    TRY(ctx, stat_source(ctx, s, &now));
    if (!tsr_file_state_equal(&now, &s->state))
        FAIL(ctx, TSR_DATA,
             "'%s' changed while it was hashed: it had %" PRIu64 " byte%s, and now has %" PRIu64
             " or another time of change",
             s->array.spec, s->state.size_bytes, TSR_PLURAL(s->state.size_bytes), now.size_bytes);
    s->digest = tsr_tree_hasher_finish(&f->hasher);
    s->known = s->hashed = true;
    close_source(ctx, s);
    tsr_tree_hasher_init(&f->hasher);
    f->element = 0;
    f->at++;
    return TSR_SUCCESS;
}

/* Hashes one piece, under the lock. *out_done: nothing remains. */
static tsr_result hash_block(tsr_ctx *ctx, tsr_fingerprint *f, bool *out_done) {
    while (f->at < f->count && f->sources[f->at].known) f->at++;
    *out_done = f->at == f->count;
    if (*out_done) return TSR_SUCCESS;
    source *s = &f->sources[f->at];
    size_t size = tsr_dtype_size(tsr_array_get_dtype(s->open));
    uint64_t count = BLOCK_BYTES / size, left = s->element_count - f->element;
    if (count > left) count = left;
    if (count) TRY(ctx, tsr_array_read(ctx, s->open, f->element, count, f->block));
    tsr_tree_hasher_update(&f->hasher, f->block, (size_t)count * size);
    f->element += count;
    return f->element == s->element_count ? end_source(ctx, f, s) : TSR_SUCCESS;
}

static tsr_result hash_all(tsr_ctx *ctx, tsr_fingerprint *f) {
    tsr_result result = TSR_SUCCESS;
    for (bool done = false; !done && !result.code && !f->stop;) {
        pthread_mutex_lock(&f->lock);
        result = hash_block(ctx, f, &done);
        pthread_mutex_unlock(&f->lock);
    }
    return result;
}

static void *run_thread(void *user) {
    tsr_fingerprint *f = user;
    const struct sched_param none = {0};
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
    TSR_DROP(hash_all(&f->thread_ctx, f), "finish finds the error again");
    return NULL;
}

void tsr_fingerprint_begin(tsr_ctx *ctx, tsr_fingerprint *fingerprint) {
    tsr_fingerprint *f = fingerprint;
    if (f->started) return;
    f->thread_ctx = tsr_ctx_fork(ctx);
    f->thread_ctx.log = NULL;
    f->thread_ctx.trace = NULL;
    if (tsr_fingerprint_get_bytes(f) <= AT_ONCE_BYTES)
        TSR_DROP(hash_all(&f->thread_ctx, f), "finish finds the error again");
    else /* finish hashes everything if no thread was started */
        f->started = pthread_create(&f->thread, NULL, run_thread, f) == 0;
}

tsr_result tsr_fingerprint_finish(tsr_ctx *ctx, tsr_fingerprint *fingerprint) {
    TRY(ctx, hash_all(ctx, fingerprint));
    join(fingerprint);
    return TSR_SUCCESS;
}

void tsr_fingerprint_write_cache(tsr_ctx *ctx, tsr_fingerprint *fingerprint) {
    tsr_fingerprint *f = fingerprint;
    if (!f->options.cache_path || !f->options.writes_cache || f->cache_written) return;
    tsr_fingerprint_known *known = calloc(f->count + 1, sizeof *known);
    tsr_ctx aside = tsr_ctx_fork(ctx);
    size_t count = 0;
    for (size_t i = 0; known && i < f->count; i++)
        if (f->sources[i].hashed && f->sources[i].stable)
            known[count++] = (tsr_fingerprint_known){f->sources[i].state, f->sources[i].digest};
    f->cache_written = true;
    if (count && tsr_fingerprint_cache_add(&aside, f->options.cache_path, known, count).code)
        tsr_log(ctx, TSR_LOG_WARNING, "the data will be hashed again by the next run: %s",
                aside.error.text);
    free(known);
}

/* ---- digests ---- */

tsr_digest tsr_fingerprint_get_array(const tsr_fingerprint *fingerprint, size_t index) {
    TSR_ASSERT(index < fingerprint->count && fingerprint->sources[index].known);
    return fingerprint->sources[index].digest;
}

static void hash_number(tsr_hasher *hasher, uint64_t value) {
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(value >> (8 * i));
    tsr_hasher_update(hasher, bytes, sizeof bytes);
}

tsr_digest tsr_fingerprint_combine(const tsr_named_digest *arrays, size_t count) {
    static const char tag[] = "tessera.data.1"; /* and its zero byte */
    const char *last = NULL;
    tsr_hasher hasher;
    tsr_hasher_init(&hasher);
    tsr_hasher_update(&hasher, tag, sizeof tag);
    hash_number(&hasher, count);
    for (size_t done = 0; done < count; done++) {
        const tsr_named_digest *next = NULL;
        for (size_t i = 0; i < count; i++)
            if ((!last || strcmp(arrays[i].name, last) > 0) &&
                (!next || strcmp(arrays[i].name, next->name) < 0))
                next = &arrays[i];
        TSR_ASSERT(next && "names are unique");
        last = next->name;
        hash_number(&hasher, strlen(last));
        tsr_hasher_update(&hasher, last, strlen(last));
        tsr_hasher_update(&hasher, next->digest.bytes, TSR_DIGEST_BYTES);
    }
    return tsr_hasher_finish(&hasher);
}

tsr_digest tsr_fingerprint_get(const tsr_fingerprint *fingerprint) {
    tsr_named_digest arrays[TSR_FINGERPRINT_ARRAYS_MAX];
    for (size_t i = 0; i < fingerprint->count; i++)
        arrays[i] = (tsr_named_digest){fingerprint->sources[i].array.name,
                                       tsr_fingerprint_get_array(fingerprint, i)};
    return tsr_fingerprint_combine(arrays, fingerprint->count);
}
