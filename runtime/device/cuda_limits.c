/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the limits of a GPU: copies of a block larger than the caches; chains of f32
 * multiplications and additions; 16-bit products on matrix units, with the instruction of our
 * kernels: wgmma on 9.0, with operands in shared memory, and mma.sync on others. The kernels are
 * PTX that the driver compiles. Matrices contain only zeros: other values heat the GPU, which then
 * slows down.
 */
#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/device/cuda_device.h"
#include "runtime/device/cuda_ptx.h"

#include <inttypes.h>

enum {
    COPY_BYTES = 256 << 20,
    COPIES = 8, /* one after the other, so that the final wait is relatively short */
    ROUNDS = 5, /* the best one counts */
    THREADS = 256,
    LANES = 32,
    WARP_GROUP = 128,
    BLOCKS = 4,  /* per multiprocessor */
    CHAINS = 16, /* per thread; more than a unit has in flight at once */
    SUMS = 8,    /* per warp, on matrix units: the same */
    /* per instruction: */
    MMA_ROWS = 16,
    MMA_COLUMNS = 8,
    WGMMA_ROWS = 64,
    WGMMA_COLUMNS = 256,
    DEPTH = 16,
    WGMMA_SUMS = WGMMA_ROWS * WGMMA_COLUMNS / WARP_GROUP, /* per thread */
    WGMMA_BYTES = 2 * WGMMA_COLUMNS * DEPTH,              /* maximum bytes that it reads */
    WGMMA_AT_ONCE = 8,                                    /* issued before a wait */
};

/* A kernel that measures a rate, and the number of its operations. */
typedef struct rate_kernel {
    void (*print)(tsr_buffer *out);
    uint32_t steps;
    double flops_of_step; /* operations of a block */
} rate_kernel;

#define NAME TSR_CUDA_PTX_RATE
#define P(...) tsr_buffer_printf(out, __VA_ARGS__)

/* ---- the kernels: %q counts steps; the total of all sums is written to `to` if it is NaN ---- */

static void print_begin(tsr_buffer *out, const char *version, const char *target, int sum_count) {
    P(".version %s\n.target %s\n.address_size 64\n"
      ".visible .entry " NAME "(.param .u64 to, .param .u32 steps)\n.maxntid %d, 1, 1\n{\n"
      ".reg .b32 %%q, %%t, %%steps;\n.reg .b64 %%to;\n.reg .f32 %%a, %%b, %%f<%d>;\n.reg .pred "
      "%%p;\n"
      "ld.param.u32 %%steps, [steps];\nmov.u32 %%q, 0;\nmov.u32 %%t, %%tid.x;\n",
      version, target, THREADS, WGMMA_SUMS);
    /* Must differ, otherwise the compiler would merge them. */
    for (int i = 0; i < sum_count; i++)
        P("add.u32 %%t, %%t, %d;\ncvt.rn.f32.u32 %%f%d, %%t;\n", THREADS, i);
}

static void print_end(tsr_buffer *out, int sum_count) {
    P("add.u32 %%q, %%q, 1;\nsetp.lt.u32 %%p, %%q, %%steps;\n@%%p bra STEP;\n");
    for (int i = 1; i < sum_count; i++) P("add.f32 %%f0, %%f0, %%f%d;\n", i);
    P("testp.notanumber.f32 %%p, %%f0;\nld.param.u64 %%to, [to];\n@%%p st.global.f32 [%%to], %%f0;"
      "\nret;\n}\n");
    tsr_buffer_append(out, "", 1);
}

static void print_chains(tsr_buffer *out) {
    print_begin(out, "7.0", "sm_80", CHAINS);
    /* The values are 0.999 and 0.001. */
    P("mov.f32 %%a, 0f3F7FBE77;\nmov.f32 %%b, 0f3A83126F;\nSTEP:\n");
    for (int i = 0; i < CHAINS; i++) P("fma.rn.f32 %%f%d, %%f%d, %%a, %%b;\n", i, i);
    print_end(out, CHAINS);
}

static void print_mma(tsr_buffer *out) {
    print_begin(out, "7.0", "sm_80", 4 * SUMS);
    P(".reg .b32 %%z;\nmov.u32 %%z, 0;\nSTEP:\n");
    for (int i = 0; i < 4 * SUMS; i += 4)
        P("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%%f%d, %%f%d, %%f%d, %%f%d}, "
          "{%%z, %%z, %%z, %%z}, {%%z, %%z}, {%%f%d, %%f%d, %%f%d, %%f%d};\n",
          i, i + 1, i + 2, i + 3, i, i + 1, i + 2, i + 3);
    print_end(out, 4 * SUMS);
}

/* Both operands are the same bytes of shared memory, without a swizzle: blocks of 8 rows of 16
 * bytes, 128 bytes apart along K, 256 bytes apart along the rows. */
static void print_wgmma(tsr_buffer *out) {
    enum { ALONG = 128, APART = 256 };
    print_begin(out, "8.0", "sm_90a", WGMMA_SUMS);
    P(".shared .align 128 .b8 zeros[%d];\n.reg .b32 %%at, %%z;\n.reg .b64 %%d;\nmov.u32 %%z, 0;\n"
      "mov.u32 %%at, zeros;\nmov.u32 %%t, %%tid.x;\nmad.lo.u32 %%t, %%t, 4, %%at;\n",
      WGMMA_BYTES);
    for (int at = 0; at < WGMMA_BYTES; at += 4 * THREADS) P("st.shared.u32 [%%t+%d], %%z;\n", at);
    P("fence.proxy.async.shared::cta;\nbar.sync 0;\nshr.u32 %%at, %%at, 4;\n"
      "and.b32 %%at, %%at, 0x3FFF;\ncvt.u64.u32 %%d, %%at;\nor.b64 %%d, %%d, 0x%" PRIx64 ";\n",
      (ALONG / 16) << 16 | (uint64_t)(APART / 16) << 32);
    P("STEP:\n.pragma \"nounroll\";\nwgmma.fence.sync.aligned;\n");
    for (int k = 0; k < WGMMA_AT_ONCE; k++) {
        P("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {");
        for (int i = 0; i < WGMMA_SUMS; i++) P("%s%%f%d", i ? ", " : "", i);
        P("}, %%d, %%d, 1, 1, 1, 0, 0;\n");
    }
    P("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
    print_end(out, WGMMA_SUMS);
}

static const rate_kernel chains = {print_chains, 1 << 15, 2.0 * CHAINS *THREADS};
static const rate_kernel mma = {print_mma, 1 << 13,
                                2.0 * MMA_ROWS *MMA_COLUMNS *DEPTH *SUMS *(THREADS / LANES)};
static const rate_kernel wgmma = {
    print_wgmma, 1 << 10,
    2.0 * WGMMA_ROWS *WGMMA_COLUMNS *DEPTH *WGMMA_AT_ONCE *(THREADS / WARP_GROUP)};

/* ---- measuring ---- */

/* Work that is put into the stream. */
typedef tsr_result (*work_fn)(tsr_ctx *ctx, tsr_cuda_device *self, void *user);

static tsr_result time_best(tsr_ctx *ctx, tsr_cuda_device *self, work_fn work, void *user,
                            double *out_seconds) {
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, self->stream));
        uint64_t began = tsr_clock_ns();
        TRY(ctx, work(ctx, self, user));
        TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, self->stream));
        uint64_t took = tsr_clock_ns() - began;
        if (took < best) best = took;
    }
    *out_seconds = 1e-9 * (double)(best ? best : 1);
    return TSR_SUCCESS;
}

static tsr_result copy_blocks(tsr_ctx *ctx, tsr_cuda_device *self, void *user) {
    tsr_cuda_address blocks = *(tsr_cuda_address *)user;
    for (int i = 0; i < COPIES; i++)
        TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, copy, self->about, blocks, blocks + COPY_BYTES,
                               COPY_BYTES, self->stream));
    return TSR_SUCCESS;
}

/* Measures only if there is enough memory for two blocks. */
static tsr_result measure_memory(tsr_ctx *ctx, tsr_cuda_device *self, double *out_bytes_per_s) {
    tsr_cuda_address blocks = 0;
    size_t left = 0, total = 0;
    double seconds = 0;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, memory_info, self->about, &left, &total));
    if (left / 2 < COPY_BYTES) return TSR_SUCCESS;
    TRY(ctx, tsr_cuda_reserve(ctx, self, self->about, 2 * COPY_BYTES, &blocks));
    tsr_result result = time_best(ctx, self, copy_blocks, &blocks, &seconds);
    self->cuda.free(blocks, self->stream);
    if (!result.code) *out_bytes_per_s = 2.0 * COPIES * COPY_BYTES / seconds;
    return result;
}

typedef struct rate {
    struct CUfunc_st *function;
    uint32_t steps;
} rate;

/* `to` is never written, because the total is never NaN. */
static tsr_result launch_rate(tsr_ctx *ctx, tsr_cuda_device *self, void *user) {
    rate *of = user;
    tsr_cuda_address to = 0;
    void *parameters[] = {&to, &of->steps};
    return TSR_CUDA_CALL(ctx, &self->cuda, launch, NAME, of->function,
                         BLOCKS * self->gpu.multiprocessors, 1, 1, THREADS, 1, 1, 0, self->stream,
                         parameters, NULL);
}

static tsr_result measure_rate(tsr_ctx *ctx, tsr_cuda_device *self, const rate_kernel *kernel,
                               double *out_flops_per_s) {
    tsr_buffer text = {0};
    struct CUmod_st *module = NULL;
    rate of = {NULL, kernel->steps};
    tsr_result result = TSR_SUCCESS;
    double seconds = 0;
    kernel->print(&text);
    if (text.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the text of " NAME);
    TRY_GOTO(
        ctx, result,
        TSR_CUDA_CALL(ctx, &self->cuda, module_load, NAME, &module, text.bytes, 0, NULL, NULL));
    TRY_GOTO(ctx, result,
             TSR_CUDA_CALL(ctx, &self->cuda, module_function, NAME, &of.function, module, NAME));
    TRY_GOTO(ctx, result, time_best(ctx, self, launch_rate, &of, &seconds));
    *out_flops_per_s = BLOCKS * (double)self->gpu.multiprocessors * kernel->flops_of_step *
                       kernel->steps / seconds;
done:
    if (module) self->cuda.module_unload(module);
    tsr_buffer_finish(&text);
    return result;
}

tsr_result tsr_cuda_measure(tsr_ctx *ctx, tsr_device *device, tsr_limits *out_limits) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    const rate_kernel *matrix = self->gpu.capability == 90 ? &wgmma : &mma;
    tsr_limits limits = {0};
    TRY(ctx, tsr_cuda_enter(ctx, self));
    TRY(ctx, measure_memory(ctx, self, &limits.bytes_per_s));
    TRY(ctx, measure_rate(ctx, self, &chains, &limits.flops_per_s));
    TRY(ctx, measure_rate(ctx, self, matrix, &limits.matrix_flops_per_s));
    *out_limits = limits;
    return TSR_SUCCESS;
}
