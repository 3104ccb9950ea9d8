/* SPDX-License-Identifier: Apache-2.0
 *
 * A device for tests: a CPU, the null device, a GPU of fake_gpu.c with the kernels of toy.c, or a
 * real GPU with the kernels of device/toy_ptx.c.
 */
#ifndef TSR_TESTS_RUNTIME_DEVICE_BENCH_H
#define TSR_TESTS_RUNTIME_DEVICE_BENCH_H

#include "runtime/base/arena.h"
#include "runtime/device/device.h"
#include "tests/runtime/fake_gpu.h"

typedef struct bench {
    tsr_ctx ctx;
    tsr_arena arena;
    tsr_threads *threads;
    tsr_device *device;
} bench;

/* The memory that the toy plans; every message about memory ends with it. */
extern const char bench_planned[];

enum { BENCH_LIMIT = 256 };
extern int64_t bench_limit; /* limit for the values of x, on the device that is opened next */

/* Defined by the program that runs the cases (device/criterion.c, device/main.c): the driver, NULL
 * for the system's; whether it translates code or accepts any text; how a case ends. */
extern const char *bench_library;
extern const char *bench_hip_library; /* the same for AMD GPUs; NULL: their cases are skipped */
extern const bool bench_translates;
_Noreturn void bench_failed(const char *file, int line, const char *condition, const char *format,
                            ...) __attribute__((format(printf, 4, 5)));

#define REQUIRE(condition, ...)                                                                    \
    ((condition) ? (void)0 : bench_failed(__FILE__, __LINE__, #condition, __VA_ARGS__))

extern fake_gpu *fake; /* state of the loaded driver library; NULL if the driver is real */

void bench_open_fake(void);
void bench_open_driver(const char *device); /* the same for the GPUs of that type */
/* Returns options with images and the toy's kernels, in the bench's arena. */
tsr_device_options bench_cuda_options(bench *b);
tsr_device_options bench_options(bench *b, const char *device);
void bench_open(bench *b, const char *name);
/* Uses draws, takes, one_by_one and memory_max of `more`. */
void bench_open_as(bench *b, const char *name, const tsr_device_options *more);
void bench_must(const bench *b, tsr_result result);
void bench_close(bench *b);
void bench_expect_nothing_open(const char *when);
/* Hashes a chunk of `size` bytes on the device. */
tsr_result bench_take_chunk(bench *b, uint64_t number, const char *bytes, size_t size);

#endif
