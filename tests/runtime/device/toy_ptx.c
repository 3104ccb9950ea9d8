/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/device/toy_ptx.h"

#include <inttypes.h>

#define REGISTERS                                                                                  \
    ".reg .pred %p<2>;\n.reg .b32 %r<8>;\n.reg .f32 %f<4>;\n.reg .b64 %d<16>, %fault, %scratch, "  \
    "%grid;\n"
/* The parameters after the buffers: fault record, scratch, number of programs. */
#define HEAD(name, buffers, more)                                                                  \
    ".visible .entry " name "(" buffers                                                            \
    ".param .u64 fault, .param .u64 scratch, .param .u64 grid" more ")\n{\n" REGISTERS             \
    "ld.param.u64 %fault, [fault];\nld.param.u64 %grid, [grid];\n"
#define BUFFER(name) ".param .u64 " name ", "
#define LOAD(to, name) "ld.param.u64 " to ", [" name "];\n"
/* %r0: the block; %r1: the thread; %r2: the number of blocks. */
#define PLACE "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %nctaid.x;\n"

/* (No parameter has the same name as a kernel: the driver would report a size of 0 bytes for
 * it.) */
static const char mean[] = HEAD("mean", BUFFER("x") BUFFER("w") BUFFER("loss") BUFFER("means"), "")
    LOAD("%d0", "x") LOAD("%d1", "w") LOAD("%d2", "loss") LOAD("%d3", "means") PLACE
    "or.b32 %r3, %r0, %r1;\n"
    "setp.ne.u32 %p0, %r3, 0;\n"
    "@%p0 bra MEAN_DONE;\n"
    "ld.const.s64 %d4, [toy_limit];\n"
    "mov.f32 %f0, 0f00000000;\n"
    "mov.u64 %d5, 0;\n"
    "MEAN_NEXT:\n"
    "mov.u32 %r6, 0;\n"
    "mov.u64 %d6, %d5;\n"
    "MEAN_ROW:\n" /* %d6: the element of x, first in one row, then in the other; %r6: their sum */
    "add.u64 %d7, %d0, %d6;\n"
    "ld.global.u8 %r5, [%d7];\n"
    "add.u32 %r6, %r6, %r5;\n"
    "cvt.s64.s32 %d8, %r5;\n"
    "setp.lt.s64 %p0, %d8, %d4;\n"
    "@%p0 bra MEAN_GOOD;\n"
    "ld.global.s64 %d9, [%fault];\n"
    "setp.ne.s64 %p0, %d9, 0;\n"
    "@%p0 bra MEAN_GOOD;\n"
    "mov.s64 %d9, 1;\n"
    "st.global.s64 [%fault], %d9;\n"
    "mov.s64 %d9, 0;\n"
    "st.global.s64 [%fault+8], %d9;\n"
    "st.global.s64 [%fault+16], %d6;\n"
    "st.global.s64 [%fault+24], %d8;\n"
    "st.global.s64 [%fault+32], %d4;\n"
    "MEAN_GOOD:\n"
    "add.u64 %d6, %d6, 4;\n"
    "setp.lt.u64 %p0, %d6, 8;\n"
    "@%p0 bra MEAN_ROW;\n"
    "cvt.rn.f32.s32 %f1, %r6;\n"
    "mul.rn.f32 %f1, %f1, 0f3F000000;\n"
    "shl.b64 %d9, %d5, 2;\n"
    "add.u64 %d10, %d3, %d9;\n"
    "st.global.f32 [%d10], %f1;\n"
    "add.u64 %d10, %d1, %d9;\n"
    "ld.global.f32 %f2, [%d10];\n"
    "sub.rn.f32 %f2, %f1, %f2;\n"
    "mul.rn.f32 %f2, %f2, %f2;\n"
    "add.rn.f32 %f0, %f0, %f2;\n"
    "add.u64 %d5, %d5, 1;\n"
    "setp.lt.u64 %p0, %d5, 4;\n"
    "@%p0 bra MEAN_NEXT;\n"
    "st.global.f32 [%d2], %f0;\n"
    "MEAN_DONE:\n"
    "ret;\n}\n";

/* One warp per program, four warps per block. */
static const char update[] =
    HEAD("update", BUFFER("means") BUFFER("w") BUFFER("count"), "") LOAD("%d0", "means")
        LOAD("%d1", "w") LOAD("%d2", "count") PLACE "and.b32 %r3, %r1, 31;\n"
                                                    "setp.ne.u32 %p0, %r3, 0;\n"
                                                    "@%p0 bra UPDATE_DONE;\n"
                                                    "shl.b32 %r0, %r0, 2;\n"
                                                    "shr.u32 %r1, %r1, 5;\n"
                                                    "add.u32 %r0, %r0, %r1;\n"
                                                    "shl.b32 %r2, %r2, 2;\n"
                                                    "cvt.u64.u32 %d3, %r0;\n"
                                                    "cvt.u64.u32 %d4, %r2;\n"
                                                    "UPDATE_NEXT:\n"
                                                    "setp.ge.u64 %p0, %d3, %grid;\n"
                                                    "@%p0 bra UPDATE_DONE;\n"
                                                    "shl.b64 %d5, %d3, 2;\n"
                                                    "add.u64 %d6, %d0, %d5;\n"
                                                    "ld.global.f32 %f0, [%d6];\n"
                                                    "add.u64 %d6, %d1, %d5;\n"
                                                    "ld.global.f32 %f1, [%d6];\n"
                                                    "sub.rn.f32 %f0, %f0, %f1;\n"
                                                    "mul.rn.f32 %f0, %f0, 0f3DCCCCCD;\n"
                                                    "add.rn.f32 %f1, %f1, %f0;\n"
                                                    "st.global.f32 [%d6], %f1;\n"
                                                    "setp.ne.u64 %p0, %d3, 0;\n"
                                                    "@%p0 bra UPDATE_COUNTED;\n"
                                                    "ld.global.s64 %d7, [%d2];\n"
                                                    "add.s64 %d7, %d7, 1;\n"
                                                    "st.global.s64 [%d2], %d7;\n"
                                                    "UPDATE_COUNTED:\n"
                                                    "add.u64 %d3, %d3, %d4;\n"
                                                    "bra UPDATE_NEXT;\n"
                                                    "UPDATE_DONE:\n"
                                                    "ret;\n}\n";

/* One block per program. It takes a map, which it does not read. */
static const char twice[] =
    HEAD("twice", BUFFER("x") BUFFER("y"), ", .param .align 64 .b8 map[128]") LOAD("%d0", "x")
        LOAD("%d1", "y") PLACE "setp.ne.u32 %p0, %r1, 0;\n"
                               "@%p0 bra TWICE_DONE;\n"
                               "cvt.u64.u32 %d3, %r0;\n"
                               "cvt.u64.u32 %d4, %r2;\n"
                               "TWICE_NEXT:\n"
                               "setp.ge.u64 %p0, %d3, %grid;\n"
                               "@%p0 bra TWICE_DONE;\n"
                               "add.u64 %d5, %d0, %d3;\n"
                               "ld.global.u8 %r5, [%d5];\n"
                               "cvt.rn.f32.s32 %f0, %r5;\n"
                               "add.rn.f32 %f0, %f0, %f0;\n"
                               "shl.b64 %d6, %d3, 2;\n"
                               "add.u64 %d6, %d1, %d6;\n"
                               "st.global.f32 [%d6], %f0;\n"
                               "add.u64 %d3, %d3, %d4;\n"
                               "bra TWICE_NEXT;\n"
                               "TWICE_DONE:\n"
                               "ret;\n}\n";

char *toy_ptx(tsr_arena *arena, int64_t limit) {
    return tsr_arena_printf(arena,
                            ".version 7.0\n.target sm_80\n.address_size 64\n"
                            ".const .align 8 .s64 toy_limit = %" PRId64 ";\n%s%s%s",
                            limit, mean, update, twice);
}
