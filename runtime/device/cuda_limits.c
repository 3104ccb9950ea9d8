/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that measure the rates of NVIDIA GPUs: chains of f32 multiplications and additions;
 * 16-bit products on matrix units, with the instruction of our kernels: wgmma on 9.0, with operands
 * in shared memory, and mma.sync on others. They are PTX that the driver compiles.
 */
#include "runtime/base/buffer.h"
#include "runtime/device/cuda.h"
#include "runtime/device/cuda_ptx.h"

#include <inttypes.h>

enum {
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
    enum { ROW_BYTES = 128, GROUP_BYTES = 256 };
    print_begin(out, "8.0", "sm_90a", WGMMA_SUMS);
    P(".shared .align 128 .b8 zeros[%d];\n.reg .b32 %%at, %%z;\n.reg .b64 %%d;\nmov.u32 %%z, 0;\n"
      "mov.u32 %%at, zeros;\nmov.u32 %%t, %%tid.x;\nmad.lo.u32 %%t, %%t, 4, %%at;\n",
      WGMMA_BYTES);
    for (int at = 0; at < WGMMA_BYTES; at += 4 * THREADS) P("st.shared.u32 [%%t+%d], %%z;\n", at);
    P("fence.proxy.async.shared::cta;\nbar.sync 0;\nshr.u32 %%at, %%at, 4;\n"
      "and.b32 %%at, %%at, 0x3FFF;\ncvt.u64.u32 %%d, %%at;\nor.b64 %%d, %%d, 0x%" PRIx64 ";\n",
      (ROW_BYTES / 16) << 16 | (uint64_t)(GROUP_BYTES / 16) << 32);
    P("STEP:\n.pragma \"nounroll\";\nwgmma.fence.sync.aligned;\n");
    for (int k = 0; k < WGMMA_AT_ONCE; k++) {
        P("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {");
        for (int i = 0; i < WGMMA_SUMS; i++) P("%s%%f%d", i ? ", " : "", i);
        P("}, %%d, %%d, 1, 1, 1, 0, 0;\n");
    }
    P("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
    print_end(out, WGMMA_SUMS);
}

const tsr_gpu_rate tsr_cuda_chains = {print_chains, THREADS, BLOCKS, 1 << 15,
                                      2.0 * CHAINS *THREADS};
static const tsr_gpu_rate mma = {print_mma, THREADS, BLOCKS, 1 << 13,
                                 2.0 * MMA_ROWS *MMA_COLUMNS *DEPTH *SUMS *(THREADS / LANES)};
static const tsr_gpu_rate wgmma = {
    print_wgmma, THREADS, BLOCKS, 1 << 10,
    2.0 * WGMMA_ROWS *WGMMA_COLUMNS *DEPTH *WGMMA_AT_ONCE *(THREADS / WARP_GROUP)};

const tsr_gpu_rate *tsr_cuda_get_products(uint32_t arch) { return arch == 90 ? &wgmma : &mma; }
