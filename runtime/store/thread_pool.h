/* SPDX-License-Identifier: Apache-2.0
 *
 * Worker threads for tasks, while one thread, the feeder, writes, opens and closes files: file
 * changes stay in the order of the protocol. Tasks are numbered from 0 and begin in that order. A
 * task may offer tasks of another pool, in order. Without threads (a small state, or the system
 * refuses them) the feeder does the work itself; with threads, it works when it would otherwise
 * wait.
 */
#ifndef TSR_RUNTIME_STORE_THREAD_POOL_H
#define TSR_RUNTIME_STORE_THREAD_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { TSR_THREAD_POOL_MAX = 8 };

/* `member` is the member that runs the task, 0 … TSR_THREAD_POOL_MAX; the last one is the feeder.
 */
typedef void (*tsr_thread_pool_task)(void *user, uint64_t index, unsigned worker);

typedef struct tsr_thread_pool tsr_thread_pool;

typedef struct tsr_thread_pool_worker {
    tsr_thread_pool *pool;
    pthread_t thread;
    uint64_t task; /* task that is running; UINT64_MAX: no task */
} tsr_thread_pool_worker;

struct tsr_thread_pool {   /* does not move between init and finish */
    pthread_mutex_t mutex; /* guards the following fields */
    pthread_cond_t offered, finished;
    tsr_thread_pool_worker workers[TSR_THREAD_POOL_MAX + 1]; /* the last one is the caller */
    unsigned thread_count;
    uint64_t next, limit;
    tsr_thread_pool_task task;
    void *user;
    bool quit;
};

void tsr_thread_pool_init(tsr_thread_pool *pool);
/* Starts this many threads for each CPU that this process may use, at most TSR_THREAD_POOL_MAX in
 * total. The new threads block all signals. Only the first call has an effect. */
void tsr_thread_pool_start(tsr_thread_pool *pool, unsigned per_cpu);
void tsr_thread_pool_finish(tsr_thread_pool *pool);

/* Called by the feeder. No task may be running at begin. */
void tsr_thread_pool_begin(tsr_thread_pool *pool, tsr_thread_pool_task task, void *user);
void tsr_thread_pool_offer(tsr_thread_pool *pool,
                           uint64_t limit); /* tasks below `limit` may begin now */
/* Waits until the tasks below `count` are done; the caller runs tasks that have not begun. */
void tsr_thread_pool_wait(tsr_thread_pool *pool, uint64_t count);
void tsr_thread_pool_cancel(
    tsr_thread_pool *pool); /* begins no more tasks; waits for running tasks */

#endif
