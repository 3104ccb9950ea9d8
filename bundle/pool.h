/* SPDX-License-Identifier: Apache-2.0
 *
 * A number of independent tasks on a few threads, for reading, verifying and writing.
 */
#ifndef TSR_BUNDLE_POOL_H
#define TSR_BUNDLE_POOL_H

#include "runtime/base/result.h"

/* `scratch` belongs to the thread for the length of the call. */
typedef tsr_result (*tsr_pool_fn)(tsr_ctx *ctx, void *user, size_t task, void *scratch);

typedef struct tsr_pool_job {
    size_t task_count;
    uint64_t size_bytes;  /* of all tasks: little work is done on one thread */
    unsigned threads;     /* 0: every CPU this process may use */
    size_t scratch_bytes; /* of each thread; 0: none */
    tsr_pool_fn run;
    void *user;          /* borrowed */
    const char *subject; /* borrowed; what messages are about */
} tsr_pool_job;

/* Tasks are taken in order. After a failure none is begun; the error is that of the first task that
 * failed. The calling thread works too, and threads that cannot be started are done without. */
TSR_RESULT tsr_pool_run(tsr_ctx *ctx, const tsr_pool_job *job);

/* How many threads tsr_pool_run would use. */
unsigned tsr_pool_thread_count(const tsr_pool_job *job);

#endif
