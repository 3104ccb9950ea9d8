/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread pool for independent tasks: reading, verifying and writing.
 */
#ifndef TSR_BUNDLE_POOL_H
#define TSR_BUNDLE_POOL_H

#include "runtime/base/result.h"

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

#endif
