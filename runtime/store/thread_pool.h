/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of threads that work while one thread, the caller, writes, opens and closes: what changes
 * a file stays in the order of the protocol. Tasks are numbered from 0 and are begun in that order.
 * A task may offer tasks of another pool, in order. Without threads (a small state, or the system
 * refuses them) the caller does the work itself; with them it works when it would only wait.
 */
#ifndef TSR_RUNTIME_STORE_THREAD_POOL_H
#define TSR_RUNTIME_STORE_THREAD_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { TSR_THREAD_POOL_MAX = 8 };

/* `worker` is the index of the thread that runs the task, 0 … TSR_THREAD_POOL_MAX; the last one is
 * the caller. */
typedef void (*tsr_thread_pool_task)(void *user, uint64_t index, unsigned worker);

typedef struct tsr_thread_pool tsr_thread_pool;

typedef struct tsr_thread_pool_worker {
    tsr_thread_pool *pool;
    pthread_t thread;
    uint64_t task; /* under way; UINT64_MAX: none */
} tsr_thread_pool_worker;

struct tsr_thread_pool {   /* never moved between init and finish */
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t offered, finished;
    tsr_thread_pool_worker workers[TSR_THREAD_POOL_MAX + 1]; /* the last one is the caller */
    unsigned thread_count;
    uint64_t next, limit;
    tsr_thread_pool_task task;
    void *user;
    bool quit;
};

void tsr_thread_pool_init(tsr_thread_pool *pool);
/* So many threads for each CPU this process may use, at most TSR_THREAD_POOL_MAX in all; signals
 * stay with the threads that were there before. Once; later calls do nothing. */
void tsr_thread_pool_start(tsr_thread_pool *pool, unsigned per_cpu);
void tsr_thread_pool_finish(tsr_thread_pool *pool);

/* The calling thread's calls. No task is under way at begin. */
void tsr_thread_pool_begin(tsr_thread_pool *pool, tsr_thread_pool_task task, void *user);
void tsr_thread_pool_offer(tsr_thread_pool *pool,
                           uint64_t limit); /* tasks below `limit` may be done now */
/* Until those below `count` are done; tasks that nobody has begun are done here meanwhile. */
void tsr_thread_pool_wait(tsr_thread_pool *pool, uint64_t count);
void tsr_thread_pool_cancel(
    tsr_thread_pool *pool); /* no more is begun; what is under way is waited for */

#endif
