/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of worker threads. The kernels of a program have a pool of their own (runtime/threads.h),
 * whose workers spin between launches: on two cores, a launch of two programs of 7.5 us each takes
 * 8 us there, and 15 us here, as on one thread, because the caller is done before the worker wakes.
 *
 * tsr_pool_run does independent tasks and returns when all are done. A tsr_pool object lasts longer
 * and is fed: one thread, the feeder, writes, opens and closes files in order while workers do
 * tasks; tasks are numbered from 0 and begin in that order. A task may offer tasks of another pool,
 * in order. Without threads (little to do, or the system refuses them) the feeder does the work
 * itself; with threads, it works when it would otherwise wait.
 */
#ifndef TSR_BASE_POOL_H
#define TSR_BASE_POOL_H

#include "runtime/base/result.h"

#include <pthread.h>

enum { TSR_POOL_THREADS_MAX = 256 };

/* Number of CPUs this process may use; 1 if the system does not report it. */
unsigned tsr_pool_cpu_count(void);

/* ---- independent tasks ---- */

/* `scratch` belongs to the thread until the call returns. */
typedef tsr_result (*tsr_pool_fn)(tsr_ctx *ctx, void *user, size_t task, void *scratch);

typedef struct tsr_pool_job {
    size_t task_count;
    uint64_t size_bytes;  /* bytes of all tasks: a small job runs on one thread */
    unsigned threads;     /* 0: every CPU this process may use */
    size_t scratch_bytes; /* scratch bytes of each thread; 0: no scratch memory */
    tsr_pool_fn run;
    void *user;          /* borrowed */
    const char *subject; /* borrowed; the subject of messages */
} tsr_pool_job;

/* Tasks are started in order. After a failure no further task is started; the error is the error of
 * the first task that failed. The calling thread works too; threads that cannot be started are left
 * out. */
TSR_RESULT tsr_pool_run(tsr_ctx *ctx, const tsr_pool_job *job);

/* Returns the number of threads that tsr_pool_run would use. */
unsigned tsr_pool_thread_count(const tsr_pool_job *job);

/* ---- a pool that is fed ---- */

/* `member` is the member that does the task, 0 … thread_count; 0 is the feeder. */
typedef void (*tsr_pool_task)(void *user, uint64_t index, unsigned member);

typedef struct tsr_pool tsr_pool;

typedef struct tsr_pool_member {
    tsr_pool *pool;
    pthread_t thread;
    uint64_t task; /* task that is running; UINT64_MAX: no task */
} tsr_pool_member;

struct tsr_pool {          /* does not move between init and finish */
    pthread_mutex_t mutex; /* guards the following fields */
    pthread_cond_t offered, finished;
    tsr_pool_member members[TSR_POOL_THREADS_MAX + 1]; /* the first one is the feeder */
    unsigned thread_count;
    uint64_t next, limit;
    tsr_pool_task task;
    void *user;
    bool quit;
};

void tsr_pool_init(tsr_pool *pool);
/* Starts threads, as many as the system allows and at most TSR_POOL_THREADS_MAX; they block all
 * signals. Only the first call has an effect. */
void tsr_pool_start(tsr_pool *pool, unsigned thread_count);
void tsr_pool_finish(tsr_pool *pool);

/* Called by the feeder. No task may be running at begin. */
void tsr_pool_begin(tsr_pool *pool, tsr_pool_task task, void *user);
void tsr_pool_offer(tsr_pool *pool, uint64_t limit); /* tasks below `limit` may begin now */
/* Waits until the tasks below `count` are done; the caller does tasks that have not begun. */
void tsr_pool_wait(tsr_pool *pool, uint64_t count);
/* Begins no more tasks; waits for running tasks. */
void tsr_pool_cancel(tsr_pool *pool);

#endif
