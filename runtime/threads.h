/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of threads that runs the programs of one kernel launch at a time. The calling thread works
 * too. Workers spin for a while after each launch, then sleep, so that a chain of kernels of a few
 * microseconds each does not pay for a wake-up; with more threads than CPUs they sleep at once. The
 * assignment of programs to threads never changes a result.
 */
#ifndef TSR_RUNTIME_THREADS_H
#define TSR_RUNTIME_THREADS_H

#include "runtime/base/kernel.h"
#include "runtime/base/result.h"

enum { TSR_THREADS_MAX = 1024 };

typedef struct tsr_threads tsr_threads;

/* `count` threads including the caller's; 0 means every CPU this process may use. Fails with
 * TSR_USAGE above TSR_THREADS_MAX, TSR_MEMORY when a thread cannot be created. */
TSR_RESULT tsr_threads_create(tsr_ctx *ctx, unsigned count, tsr_threads **out_threads);
void tsr_threads_destroy(tsr_threads *threads); /* accepts NULL */
unsigned tsr_threads_get_count(const tsr_threads *threads);

/* Wakes sleeping workers: a hint that launches worth sharing follow at once. */
void tsr_threads_wake(tsr_threads *threads);

/* A launch is divided among as many threads as get at least this share of its cost each (see
 * tsr_program_command; 0 is unknown: all threads take part): about 1 us; sharing takes 0.13 us. A
 * launch that is too cheap for two threads runs on the caller's thread. */
#define TSR_LAUNCH_COST_SHARE UINT64_C(100000)
/* A list with a launch of at least this cost wakes workers before it begins: about 10 us on one
 * core, which is longer than the wake-up takes. */
#define TSR_LAUNCH_COST_WAKE UINT64_C(2000000)

/* Runs programs 0 … grid-1 and returns when all are done. out_fault receives the
 * fault with the lowest element index, or kind TSR_FAULT_NONE. Allocates nothing. */
void tsr_threads_launch(tsr_threads *threads, tsr_kernel_fn kernel, void *const *buffers,
                        uint64_t grid, uint64_t cost, tsr_fault *out_fault);

#endif
