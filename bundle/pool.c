/* SPDX-License-Identifier: Apache-2.0 */
#include "bundle/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    THREADS_MAX = 256,
    CPUS_MAX = 1 << 16,
    ONE_THREAD_BYTES = 8 << 20, /* below this, starting threads costs more than it gains */
};

typedef struct shared {
    const tsr_pool_job *job;
    atomic_size_t next;
    atomic_bool failed;
} shared;

typedef struct worker {
    shared *shared;
    tsr_ctx ctx;
    pthread_t thread;
    size_t failed_task;
} worker;

static tsr_result run_tasks(worker *w, void *scratch) {
    const tsr_pool_job *job = w->shared->job;
    if (!scratch && job->scratch_bytes)
        FAIL(&w->ctx, TSR_MEMORY, "no memory to work on '%s'", job->subject);
    while (!atomic_load(&w->shared->failed)) {
        size_t task = atomic_fetch_add(&w->shared->next, 1);
        if (task >= job->task_count) break;
        w->failed_task = task;
        TRY(&w->ctx, job->run(&w->ctx, job->user, task, scratch));
    }
    return TSR_SUCCESS;
}

static void *work(void *user) {
    worker *w = user;
    size_t scratch_bytes = w->shared->job->scratch_bytes;
    void *scratch = scratch_bytes ? malloc(scratch_bytes) : NULL;
    tsr_result result = run_tasks(w, scratch);
    if (result.code) atomic_store(&w->shared->failed, true);
    free(scratch);
    return NULL;
}

/* Returns 1 if the system does not report the number. */
static unsigned usable_cpus(void) {
    for (int capacity = 1024; capacity <= CPUS_MAX; capacity *= 4) {
        cpu_set_t *cpus = CPU_ALLOC((size_t)capacity);
        size_t size = CPU_ALLOC_SIZE((size_t)capacity);
        int count = cpus && sched_getaffinity(0, size, cpus) == 0 ? CPU_COUNT_S(size, cpus) : 0;
        CPU_FREE(cpus);
        if (count > 0) return (unsigned)count;
    }
    return 1;
}

unsigned tsr_pool_thread_count(const tsr_pool_job *job) {
    unsigned wanted = job->threads;
    if (job->size_bytes < ONE_THREAD_BYTES) return 1;
    if (!wanted) wanted = usable_cpus();
    if (wanted > THREADS_MAX) wanted = THREADS_MAX;
    if (wanted > job->task_count) wanted = (unsigned)job->task_count;
    return wanted ? wanted : 1;
}

tsr_result tsr_pool_run(tsr_ctx *ctx, const tsr_pool_job *job) {
    unsigned threads = tsr_pool_thread_count(job), started = 1;
    shared common = {.job = job};
    const worker *failed = NULL;
    worker *workers = calloc(threads, sizeof *workers);
    if (!workers) FAIL(ctx, TSR_MEMORY, "no memory to work on '%s'", job->subject);
    for (unsigned i = 0; i < threads; i++)
        workers[i] = (worker){.shared = &common, .ctx = tsr_ctx_fork(ctx)};
    while (started < threads &&
           pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0)
        started++;
    work(&workers[0]);
    for (unsigned i = 1; i < started; i++) pthread_join(workers[i].thread, NULL);
    for (unsigned i = 0; i < started; i++)
        if (workers[i].ctx.error.code && (!failed || workers[i].failed_task < failed->failed_task))
            failed = &workers[i];
    tsr_result result = failed ? tsr_error_adopt(ctx, &failed->ctx) : TSR_SUCCESS;
    free(workers);
    return result;
}
