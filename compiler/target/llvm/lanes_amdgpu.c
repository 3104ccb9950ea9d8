/* SPDX-License-Identifier: Apache-2.0
 *
 * AMD GPUs. Source: LLVM, "User Guide for AMDGPU Backend"; AMD, instruction set guides of CDNA 3
 * and RDNA 3. These kernels have not run on an AMD GPU.
 *
 * Waves of 64 lanes hold two programs of 32 lanes, which may take different branches. So numbers of
 * lanes are those in a half, and nothing is assumed about the other half.
 *
 * The kernels compute with the default modes of LLVM's AMDGPU kernels: round to nearest, denormals
 * kept; divisions and square roots are rounded correctly. Blocks are counted with the packet of the
 * launch, which every version of the code object has.
 */
#include "compiler/target/llvm/lanes.h"
#include "compiler/target/llvm/warp.h"

#include <stdio.h>
#include <string.h>

enum {
    HALF = 32,
    AMDGPU_KERNEL = 91,
    GRID_SIZE_OFFSET = 12, /* of hsa_kernel_dispatch_packet_t.grid_size_x, in threads */
};

/* Values of dpp_ctrl. */
enum { QUAD_XOR_1 = 0xb1, QUAD_XOR_2 = 0x4e, ROW_ROTATE_8 = 0x128, ROW_XOR_4 = 0x164 };

static LLVMTypeRef i32_of(tsr_emit *emit) { return LLVMInt32TypeInContext(emit->llvm); }

static LLVMValueRef number(tsr_emit *emit, int64_t value) {
    return tsr_emit_int(i32_of(emit), value);
}

static LLVMValueRef truth(tsr_emit *emit, bool value) {
    return LLVMConstInt(LLVMInt1TypeInContext(emit->llvm), value, false);
}

static LLVMValueRef special(tsr_emit *emit, const char *name) {
    return tsr_emit_intrinsic(emit, name, NULL, 0, NULL, 0);
}

static bool has_halves(const tsr_emit *emit) { return emit->target->wave_lanes > HALF; }

/* RDNA runs waves of 32 lanes, CDNA waves of 64. */
static bool is_rdna(const tsr_emit *emit) { return !has_halves(emit); }

/* ---- kernels --------------------------------------------------------------------------------- */

static void set_launch(tsr_emit *emit, const tsr_fatbin_kernel *launch, int64_t registers_max) {
    char text[32];
    (void)registers_max; /* follows from the number of threads */
    snprintf(text, sizeof text, "%u,%u", launch->threads, launch->threads);
    tsr_emit_set_text(emit, "amdgpu-flat-work-group-size", text);
    tsr_emit_set_text(emit, "uniform-work-group-size", "true");
    tsr_emit_set_text(emit, "denormal-fp-math", "ieee,ieee");
    tsr_emit_set_text(emit, "denormal-fp-math-f32", "ieee,ieee");
    unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
    LLVMAddAttributeAtIndex(emit->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(emit->llvm, nounwind, 0));
    LLVMSetVisibility(emit->function, LLVMProtectedVisibility);
}

static LLVMValueRef thread(tsr_emit *emit) { return special(emit, "llvm.amdgcn.workitem.id.x"); }

static LLVMValueRef block(tsr_emit *emit) { return special(emit, "llvm.amdgcn.workgroup.id.x"); }

static LLVMValueRef blocks(tsr_emit *emit, const tsr_fatbin_kernel *launch) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef offset = number(emit, GRID_SIZE_OFFSET);
    LLVMValueRef at =
        LLVMBuildInBoundsGEP2(b, LLVMInt8TypeInContext(emit->llvm),
                              special(emit, "llvm.amdgcn.dispatch.ptr"), &offset, 1, "");
    LLVMValueRef threads = LLVMBuildLoad2(b, i32_of(emit), at, "");
    return LLVMBuildUDiv(b, threads, number(emit, launch->threads), "");
}

static LLVMValueRef read_first(tsr_emit *emit, LLVMValueRef word) {
    LLVMTypeRef type = LLVMTypeOf(word);
    return tsr_emit_intrinsic(emit, "llvm.amdgcn.readfirstlane", &type, 1, &word, 1);
}

static LLVMValueRef first(tsr_emit *emit, LLVMValueRef word) {
    return emit->lanes % emit->target->wave_lanes == 0 ? read_first(emit, word) : word;
}

/* ---- between lanes --------------------------------------------------------------------------- */

/* i32: 0 in the lower half of a wave of 64 lanes, 32 in the upper one. */
static LLVMValueRef half_begin(tsr_emit *emit) {
    return LLVMBuildAnd(emit->builder, thread(emit), number(emit, HALF), "");
}

static LLVMValueRef read_lane(tsr_emit *emit, LLVMValueRef word, LLVMValueRef lane) {
    LLVMTypeRef type = LLVMTypeOf(word);
    LLVMValueRef args[] = {word, lane};
    return tsr_emit_intrinsic(emit, "llvm.amdgcn.readlane", &type, 1, args, 2);
}

/* The same lane for all: no access of shared memory. */
static LLVMValueRef from_constant_lane(tsr_emit *emit, LLVMValueRef word, LLVMValueRef lane) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef low = read_lane(emit, word, lane);
    if (!has_halves(emit)) return low;
    LLVMValueRef high = read_lane(emit, word, LLVMBuildAdd(b, lane, number(emit, HALF), ""));
    LLVMValueRef upper = LLVMBuildICmp(b, LLVMIntNE, half_begin(emit), number(emit, 0), "");
    return LLVMBuildSelect(b, upper, high, low, "");
}

static LLVMValueRef shuffle(tsr_emit *emit, LLVMValueRef word, LLVMValueRef lane) {
    LLVMBuilderRef b = emit->builder;
    if (LLVMIsAConstantInt(lane)) return from_constant_lane(emit, word, lane);
    LLVMValueRef at = LLVMBuildAnd(b, lane, number(emit, HALF - 1), "");
    if (has_halves(emit)) at = LLVMBuildOr(b, at, half_begin(emit), "");
    LLVMValueRef args[] = {LLVMBuildShl(b, at, number(emit, 2), ""), word};
    return tsr_emit_intrinsic(emit, "llvm.amdgcn.ds.bpermute", NULL, 0, args, 2);
}

static LLVMValueRef move_by_dpp(tsr_emit *emit, LLVMValueRef word, unsigned control) {
    enum { ALL_ROWS = 0xf, ALL_BANKS = 0xf };
    LLVMTypeRef type = i32_of(emit);
    LLVMValueRef args[] = {LLVMGetUndef(type),      word,
                           number(emit, control),   number(emit, ALL_ROWS),
                           number(emit, ALL_BANKS), truth(emit, true)};
    return tsr_emit_intrinsic(emit, "llvm.amdgcn.update.dpp", &type, 1, args, 6);
}

/* Swaps rows of 16 lanes. */
static LLVMValueRef swap_rows(tsr_emit *emit, LLVMValueRef word) {
    enum { LOWER_LANES = 0x76543210 };
    LLVMTypeRef type = i32_of(emit);
    LLVMValueRef args[] = {LLVMGetUndef(type),        word,
                           number(emit, LOWER_LANES), number(emit, INT64_C(0xfedcba98)),
                           truth(emit, false),        truth(emit, false)};
    return tsr_emit_intrinsic(emit, "llvm.amdgcn.permlanex16", &type, 1, args, 6);
}

/* Through the shared memory's crossbar, within groups of 32 lanes. */
static LLVMValueRef swizzle(tsr_emit *emit, LLVMValueRef word, uint64_t distance) {
    enum { XOR_SHIFT = 10, EVERY_LANE = 0x1f };
    LLVMValueRef args[] = {word, number(emit, (int64_t)(distance << XOR_SHIFT | EVERY_LANE))};
    return tsr_emit_intrinsic(emit, "llvm.amdgcn.ds.swizzle", NULL, 0, args, 2);
}

static LLVMValueRef butterfly(tsr_emit *emit, LLVMValueRef word, LLVMValueRef distance) {
    uint64_t lanes = LLVMConstIntGetZExtValue(distance);
    if (lanes == 1) return move_by_dpp(emit, word, QUAD_XOR_1);
    if (lanes == 2) return move_by_dpp(emit, word, QUAD_XOR_2);
    if (lanes == 4 && is_rdna(emit)) return move_by_dpp(emit, word, ROW_XOR_4);
    if (lanes == 8) return move_by_dpp(emit, word, ROW_ROTATE_8);
    if (lanes == 16 && is_rdna(emit)) return swap_rows(emit, word);
    return swizzle(emit, word, lanes);
}

/* i32: the votes of this lane's half. */
static LLVMValueRef ballot(tsr_emit *emit, LLVMValueRef mine) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i32 = i32_of(emit), i64 = LLVMInt64TypeInContext(emit->llvm);
    if (!has_halves(emit)) return tsr_emit_intrinsic(emit, "llvm.amdgcn.ballot", &i32, 1, &mine, 1);
    LLVMValueRef all = tsr_emit_intrinsic(emit, "llvm.amdgcn.ballot", &i64, 1, &mine, 1);
    LLVMValueRef begin = LLVMBuildZExt(b, half_begin(emit), i64, "");
    return LLVMBuildTrunc(b, LLVMBuildLShr(b, all, begin, ""), i32, "");
}

static LLVMValueRef vote(tsr_emit *emit, const char *how, LLVMValueRef mine) {
    LLVMValueRef votes = ballot(emit, mine);
    if (strcmp(how, "any") == 0)
        return LLVMBuildICmp(emit->builder, LLVMIntNE, votes, number(emit, 0), "");
    if (strcmp(how, "all") == 0)
        return LLVMBuildICmp(emit->builder, LLVMIntEQ, votes, number(emit, -1), "");
    return votes;
}

/* ---- barriers and copies --------------------------------------------------------------------- */

static void fence(tsr_emit *emit, const char *scope, LLVMAtomicOrdering ordering) {
    unsigned id = LLVMGetSyncScopeID(emit->llvm, scope, strlen(scope));
    LLVMBuildFenceSyncScope(emit->builder, ordering, id, "");
}

/* Lanes of a wave run in lockstep, and its accesses of memory are done in order. */
static void warp_barrier(tsr_emit *emit) {
    fence(emit, "wavefront", LLVMAtomicOrderingRelease);
    special(emit, "llvm.amdgcn.wave.barrier");
    fence(emit, "wavefront", LLVMAtomicOrderingAcquire);
}

static void block_barrier(tsr_emit *emit) {
    fence(emit, "workgroup", LLVMAtomicOrderingRelease);
    special(emit, "llvm.amdgcn.s.barrier");
    fence(emit, "workgroup", LLVMAtomicOrderingAcquire);
}

/* These GPUs have one barrier for a block. The programs of a block meet at the same barriers,
 * because only kernels whose programs all do the same work share a block. */
static void side_barrier(tsr_emit *emit) { block_barrier(emit); }

static void fetch(tsr_emit *emit, LLVMValueRef to, LLVMValueRef from, bool reused,
                  LLVMValueRef inside) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef type = LLVMVectorType(i32_of(emit), TSR_LANES_FETCH_BYTES / 4);
    LLVMValueRef value = LLVMBuildLoad2(b, type, from, "");
    (void)reused;
    LLVMSetAlignment(value, TSR_LANES_FETCH_BYTES);
    if (inside) value = LLVMBuildSelect(b, inside, value, LLVMConstNull(type), "");
    LLVMSetAlignment(LLVMBuildStore(b, value, to), TSR_LANES_FETCH_BYTES);
}

/* The copies go through registers: the wave waits for them by itself. */
static void wait_fetched(tsr_emit *emit, int64_t but) { (void)emit, (void)but; }

const tsr_lanes tsr_lanes_amdgpu = {.convention = AMDGPU_KERNEL,
                                    .pointers = TSR_LANES_GLOBAL,
                                    .set_launch = set_launch,
                                    .thread = thread,
                                    .block = block,
                                    .blocks = blocks,
                                    .first = first,
                                    .shuffle = shuffle,
                                    .butterfly = butterfly,
                                    .vote = vote,
                                    .warp_barrier = warp_barrier,
                                    .barrier_is_free = true,
                                    .block_barrier = block_barrier,
                                    .side_barrier = side_barrier,
                                    .fetch = fetch,
                                    .wait_fetched = wait_fetched};
