/* SPDX-License-Identifier: Apache-2.0
 *
 * What the translated code of a kernel and the simulator know of each other.
 *
 * `lane-pack` translates the LLVM IR of an AMD target to code for this CPU. What differs between
 * lanes, and what lanes do together, becomes a call of a function below. The result has the
 * binary interface of a CPU kernel (runtime/base/kernel.h), which enters the simulator.
 */
#ifndef TSR_TESTS_LANES_H
#define TSR_TESTS_LANES_H

#include "runtime/base/kernel.h"

enum {
    LANES_GROUP = 32,           /* lanes of a program that exchange values */
    LANES_DYNAMIC = 160 * 1024, /* room for shared memory whose size the launch says */
    LANES_LOAD = 0,
    LANES_STORE = 1,
};

typedef struct lanes_shared {
    char *bytes;
    uint64_t size_bytes; /* 0: the launch says it */
} lanes_shared;

/* One kernel; the translated code has it as a constant, whose name is this before the kernel's. */
#define LANES_ROW "lanes_row_"
typedef struct lanes_kernel {
    void (*enter)(const uint64_t *parameters); /* the kernel, for the current lane */
    const char *name;
    const lanes_shared *shared;
    uint32_t shared_count, parameter_count;
    uint32_t threads, programs, dynamic_bytes, scratch_bytes, wave_lanes, unused;
} lanes_kernel;

void lanes_launch(const lanes_kernel *kernel, const tsr_kernel_args *args, int64_t begin,
                  int64_t end);

/* Called by a lane; `site` is the text of the instruction. */
uint32_t lanes_thread(void);
uint32_t lanes_block(void);
const void *lanes_dispatch(void);
uint32_t lanes_first(uint32_t word, const char *site);
uint32_t lanes_read(uint32_t word, uint32_t lane, const char *site);
uint32_t lanes_bpermute(uint32_t address, uint32_t word, const char *site);
uint32_t lanes_swizzle(uint32_t word, uint32_t pattern, const char *site);
uint32_t lanes_dpp(uint32_t word, uint32_t control, const char *site);
uint32_t lanes_permlanex16(uint32_t word, uint32_t low, uint32_t high, const char *site);
uint64_t lanes_ballot(uint32_t vote, const char *site);
void lanes_wave_barrier(const char *site);
void lanes_block_barrier(const char *site);
void lanes_access(const char *at, uint64_t size_bytes, uint32_t kind, const char *site);

#endif
