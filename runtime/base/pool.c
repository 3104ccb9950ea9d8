/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/pool.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    CPUS_MAX = 1 << 16,
    ONE_THREAD_BYTES = 8 << 20, /* below this, starting threads costs more than it gains */
};

unsigned tsr_pool_cpu_count(void) {
    for (int capacity = 1024; capacity <= CPUS_MAX; capacity *= 4) {
        cpu_set_t *cpus = CPU_ALLOC((size_t)capacity);
        size_t size = CPU_ALLOC_SIZE((size_t)capacity);
        int count = cpus && sched_getaffinity(0, size, cpus) == 0 ? CPU_COUNT_S(size, cpus) : 0;
        CPU_FREE(cpus);
        if (count > 0) return (unsigned)count;
    }
    return 1;
}

/* ---- a pool that is fed ---- */

void tsr_pool_init(tsr_pool *pool) {
    *pool = (tsr_pool){.thread_count = 0};
    pool->members[0] = (tsr_pool_member){.pool = pool, .task = UINT64_MAX};
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->offered, NULL);
    pthread_cond_init(&pool->finished, NULL);
}

/* Called with the mutex locked; unlocks it during the task. */
static void do_next(tsr_pool *pool, tsr_pool_member *member) {
    member->task = pool->next++;
    pthread_mutex_unlock(&pool->mutex);
    pool->task(pool->user, member->task, (unsigned)(member - pool->members));
    pthread_mutex_lock(&pool->mutex);
    member->task = UINT64_MAX;
    pthread_cond_broadcast(&pool->finished);
}

static void *worker_main(void *user) {
    tsr_pool_member *member = user;
    tsr_pool *pool = member->pool;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (pool->next == pool->limit && !pool->quit)
            pthread_cond_wait(&pool->offered, &pool->mutex);
        if (pool->quit) break;
        do_next(pool, member);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

/* A thread is counted with the mutex locked, because it may have a task at once. */
static bool start_thread(tsr_pool *pool) {
    tsr_pool_member *member = &pool->members[pool->thread_count + 1];
    *member = (tsr_pool_member){.pool = pool, .task = UINT64_MAX};
    pthread_mutex_lock(&pool->mutex);
    bool started = pthread_create(&member->thread, NULL, worker_main, member) == 0;
    pool->thread_count += started;
    pthread_mutex_unlock(&pool->mutex);
    return started;
}

void tsr_pool_start(tsr_pool *pool, unsigned thread_count) {
    sigset_t all, old;
    TSR_ASSERT(thread_count <= TSR_POOL_THREADS_MAX);
    if (pool->thread_count) return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (pool->thread_count < thread_count && start_thread(pool)) {
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void tsr_pool_finish(tsr_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    pool->quit = true;
    pthread_cond_broadcast(&pool->offered);
    pthread_mutex_unlock(&pool->mutex);
    for (unsigned i = 1; i <= pool->thread_count; i++) pthread_join(pool->members[i].thread, NULL);
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->offered);
    pthread_cond_destroy(&pool->finished);
}

void tsr_pool_begin(tsr_pool *pool, tsr_pool_task task, void *user) {
    pthread_mutex_lock(&pool->mutex);
    TSR_ASSERT(pool->next == pool->limit);
    pool->next = pool->limit = 0;
    pool->task = task;
    pool->user = user;
    pthread_mutex_unlock(&pool->mutex);
}

void tsr_pool_offer(tsr_pool *pool, uint64_t limit) {
    pthread_mutex_lock(&pool->mutex);
    TSR_ASSERT(limit >= pool->limit);
    pool->limit = limit;
    pthread_cond_broadcast(&pool->offered);
    pthread_mutex_unlock(&pool->mutex);
}

/* The lowest task that is not done. */
static uint64_t done_count(const tsr_pool *pool) {
    uint64_t count = pool->next;
    for (unsigned i = 0; i <= pool->thread_count; i++)
        if (pool->members[i].task < count) count = pool->members[i].task;
    return count;
}

void tsr_pool_wait(tsr_pool *pool, uint64_t count) {
    pthread_mutex_lock(&pool->mutex);
    TSR_ASSERT(count <= pool->limit);
    while (done_count(pool) < count) {
        if (pool->next < pool->limit)
            do_next(pool, &pool->members[0]);
        else
            pthread_cond_wait(&pool->finished, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
}

void tsr_pool_cancel(tsr_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    pool->limit = pool->next;
    while (done_count(pool) < pool->next) pthread_cond_wait(&pool->finished, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- independent tasks ---- */

typedef struct runner { /* state of one member of the pool */
    tsr_ctx ctx;
    void *scratch; /* owned; allocated for the first task */
    uint64_t task; /* the last one */
    tsr_result result;
} runner;

typedef struct run {
    const tsr_pool_job *job;
    runner *runners;
    atomic_bool failed;
} run;

static tsr_result run_task(const tsr_pool_job *job, runner *r) {
    if (job->scratch_bytes && !r->scratch) r->scratch = malloc(job->scratch_bytes);
    if (job->scratch_bytes && !r->scratch)
        FAIL(&r->ctx, TSR_MEMORY, "no memory to work on '%s'", job->subject);
    TRY(&r->ctx, job->run(&r->ctx, job->user, (size_t)r->task, r->scratch));
    return TSR_SUCCESS;
}

static void run_next(void *user, uint64_t index, unsigned member) {
    run *all = user;
    runner *r = &all->runners[member];
    if (atomic_load(&all->failed)) return;
    r->task = index;
    r->result = run_task(all->job, r);
    if (r->result.code) atomic_store(&all->failed, true);
}

unsigned tsr_pool_thread_count(const tsr_pool_job *job) {
    unsigned wanted = job->threads;
    if (job->size_bytes < ONE_THREAD_BYTES) return 1;
    if (!wanted) wanted = tsr_pool_cpu_count();
    if (wanted > TSR_POOL_THREADS_MAX) wanted = TSR_POOL_THREADS_MAX;
    if (wanted > job->task_count) wanted = (unsigned)job->task_count;
    return wanted ? wanted : 1;
}

tsr_result tsr_pool_run(tsr_ctx *ctx, const tsr_pool_job *job) {
    unsigned count = tsr_pool_thread_count(job);
    run all = {.job = job, .runners = calloc(count, sizeof *all.runners)};
    const runner *failed = NULL;
    tsr_pool pool;
    if (!all.runners) FAIL(ctx, TSR_MEMORY, "no memory to work on '%s'", job->subject);
    for (unsigned i = 0; i < count; i++) all.runners[i].ctx = tsr_ctx_fork(ctx);
    tsr_pool_init(&pool);
    tsr_pool_begin(&pool, run_next, &all);
    tsr_pool_offer(&pool, job->task_count);
    tsr_pool_start(&pool, count - 1);
    tsr_pool_wait(&pool, job->task_count);
    tsr_pool_finish(&pool);
    for (unsigned i = 0; i < count; i++) {
        const runner *r = &all.runners[i];
        if (r->result.code && (!failed || r->task < failed->task)) failed = r;
        free(r->scratch);
    }
    tsr_result result = failed ? tsr_error_adopt(ctx, &failed->ctx) : TSR_SUCCESS;
    free(all.runners);
    return result;
}
