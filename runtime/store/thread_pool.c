/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/thread_pool.h"

#include "runtime/base/result.h"

#include <sched.h>
#include <signal.h>

void tsr_thread_pool_init(tsr_thread_pool *pool) {
    *pool = (tsr_thread_pool){.thread_count = 0};
    for (unsigned i = 0; i <= TSR_THREAD_POOL_MAX; i++)
        pool->workers[i] = (tsr_thread_pool_worker){.pool = pool, .task = UINT64_MAX};
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->offered, NULL);
    pthread_cond_init(&pool->finished, NULL);
}

/* Called with the mutex locked; unlocks it during the task. */
static void do_next(tsr_thread_pool *pool, tsr_thread_pool_worker *worker) {
    worker->task = pool->next++;
    pthread_mutex_unlock(&pool->mutex);
    pool->task(pool->user, worker->task, (unsigned)(worker - pool->workers));
    pthread_mutex_lock(&pool->mutex);
    worker->task = UINT64_MAX;
    pthread_cond_broadcast(&pool->finished);
}

static void *worker_main(void *user) {
    tsr_thread_pool_worker *worker = user;
    tsr_thread_pool *pool = worker->pool;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (pool->next == pool->limit && !pool->quit)
            pthread_cond_wait(&pool->offered, &pool->mutex);
        if (pool->quit) break;
        do_next(pool, worker);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

void tsr_thread_pool_start(tsr_thread_pool *pool, unsigned per_cpu) {
    cpu_set_t cpus;
    sigset_t all, old;
    if (pool->thread_count) return;
    unsigned count = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : (unsigned)CPU_COUNT(&cpus);
    count = count < TSR_THREAD_POOL_MAX / per_cpu ? count * per_cpu : TSR_THREAD_POOL_MAX;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (unsigned i = 0; i < count; i++) {
        tsr_thread_pool_worker *worker = &pool->workers[i];
        if (pthread_create(&worker->thread, NULL, worker_main, worker)) break;
        pool->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void tsr_thread_pool_finish(tsr_thread_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    pool->quit = true;
    pthread_cond_broadcast(&pool->offered);
    pthread_mutex_unlock(&pool->mutex);
    for (unsigned i = 0; i < pool->thread_count; i++) pthread_join(pool->workers[i].thread, NULL);
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->offered);
    pthread_cond_destroy(&pool->finished);
}

void tsr_thread_pool_begin(tsr_thread_pool *pool, tsr_thread_pool_task task, void *user) {
    pthread_mutex_lock(&pool->mutex);
    TSR_ASSERT(pool->next == pool->limit);
    pool->next = pool->limit = 0;
    pool->task = task;
    pool->user = user;
    pthread_mutex_unlock(&pool->mutex);
}

void tsr_thread_pool_offer(tsr_thread_pool *pool, uint64_t limit) {
    pthread_mutex_lock(&pool->mutex);
    TSR_ASSERT(limit >= pool->limit);
    pool->limit = limit;
    pthread_cond_broadcast(&pool->offered);
    pthread_mutex_unlock(&pool->mutex);
}

/* The lowest task that is not done. */
static uint64_t done_count(const tsr_thread_pool *pool) {
    uint64_t count = pool->next;
    for (unsigned i = 0; i <= TSR_THREAD_POOL_MAX; i++)
        if (pool->workers[i].task < count) count = pool->workers[i].task;
    return count;
}

void tsr_thread_pool_wait(tsr_thread_pool *pool, uint64_t count) {
    pthread_mutex_lock(&pool->mutex);
    TSR_ASSERT(count <= pool->limit);
    while (done_count(pool) < count) {
        if (pool->next < pool->limit)
            do_next(pool, &pool->workers[TSR_THREAD_POOL_MAX]);
        else
            pthread_cond_wait(&pool->finished, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
}

void tsr_thread_pool_cancel(tsr_thread_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    pool->limit = pool->next;
    while (done_count(pool) < pool->next) pthread_cond_wait(&pool->finished, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}
