/* SPDX-License-Identifier: Apache-2.0
 *
 * A device for tests: a CPU, the null device, or a GPU of fake_cuda.c with the kernels of toy.c.
 */
#ifndef TSR_TESTS_RUNTIME_DEVICE_BENCH_H
#define TSR_TESTS_RUNTIME_DEVICE_BENCH_H

#include "runtime/base/arena.h"
#include "runtime/device/device.h"
#include "tests/runtime/fake_cuda.h"

typedef struct bench {
    tsr_ctx ctx;
    tsr_arena arena;
    tsr_threads *threads;
    tsr_device *device;
} bench;

/* What the toy plans, the end of every message about memory. */
extern const char bench_planned[];

extern fake_cuda *fake; /* of the library the device has loaded */

void bench_open_fake(void);
/* Two images and the toy's kernels, in the bench's arena. */
tsr_device_options bench_cuda_options(bench *b);
void bench_open(bench *b, const char *name);
void bench_close(bench *b);
void bench_expect_nothing_open(const char *when);
/* A chunk of `size` bytes. */
tsr_result bench_take_chunk(bench *b, uint64_t number, const char *bytes, size_t size);

#endif
