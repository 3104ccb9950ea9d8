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

/* Instructions of matrix units: X(ID, "intrinsic", elements of an operand in a lane,
 * lanes of a wave, depth, type). A name may stand twice, with operands of other sizes. */
#define LANES_MATRICES(X)                                                                          \
    X(MFMA_F16, "llvm.amdgcn.mfma.f32.16x16x16f16", 4, 64, 16, F16)                                \
    X(MFMA_BF16, "llvm.amdgcn.mfma.f32.16x16x16bf16.1k", 4, 64, 16, BF16)                          \
    X(MFMA_F32, "llvm.amdgcn.mfma.f32.16x16x4f32", 1, 64, 4, F32)                                  \
    X(MFMA_DEEP_F16, "llvm.amdgcn.mfma.f32.16x16x32.f16", 8, 64, 32, F16)                          \
    X(MFMA_DEEP_BF16, "llvm.amdgcn.mfma.f32.16x16x32.bf16", 8, 64, 32, BF16)                       \
    X(WMMA_11_F16, "llvm.amdgcn.wmma.f32.16x16x16.f16", 16, 32, 16, F16)                           \
    X(WMMA_11_BF16, "llvm.amdgcn.wmma.f32.16x16x16.bf16", 16, 32, 16, BF16)                        \
    X(WMMA_12_F16, "llvm.amdgcn.wmma.f32.16x16x16.f16", 8, 32, 16, F16)                            \
    X(WMMA_12_BF16, "llvm.amdgcn.wmma.f32.16x16x16.bf16", 8, 32, 16, BF16)
typedef enum lanes_matrix_id {
#define X(id, name, elements, lanes, depth, type) LANES_##id,
    LANES_MATRICES(X)
#undef X
        LANES_MATRIX_COUNT
} lanes_matrix_id;
enum { LANES_MATRIX_SIZE = 16 }; /* rows and columns of each */

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
/* `id`: lanes_matrix_id; the operands, the sum and the result of this lane. */
void lanes_matrix(uint32_t id, const void *first, const void *second, const void *sum, void *result,
                  const char *site);
void lanes_access(const char *at, uint64_t size_bytes, uint32_t kind, const char *site);

/* Where an instruction has an element: `element` of this lane is row *out_row of the first operand
 * (column of the second one) at depth *out_k; of the result, row *out_row and column *out_column.
 */
void lanes_position_of_operand(lanes_matrix_id id, uint32_t lane, uint32_t element,
                               uint32_t *out_row, uint32_t *out_k);
void lanes_position_of_result(lanes_matrix_id id, uint32_t lane, uint32_t element,
                              uint32_t *out_row, uint32_t *out_column);

#endif
