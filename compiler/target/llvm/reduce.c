/* SPDX-License-Identifier: Apache-2.0
 *
 * vector.reduction on the lanes of one or several warps: each lane combines its registers in
 * halves, and the lanes of a warp exchange by butterflies. With several warps
 * (TSR_COOPERATIVE_NAME) each warp then writes its result to shared memory, and after a barrier all
 * warps read all results. Every lane then has the same bits.
 *
 * Each reduction has its own words in shared memory, so that the barrier of the next reduction is
 * enough between its reads and its next writes. If a program has only one reduction, that reduction
 * has a second barrier. Consecutive reductions share a barrier. tile.vote only uses one warp.
 */
#include "compiler/target/llvm/lanes.h"
#include "compiler/target/llvm/warp.h"
#include "compiler/tile/attributes.h"
#include "runtime/base/array.h"

#include <stdio.h>

enum { WARP = 32, DIRECT_MAX = 8, TOGETHER_MAX = 8 };

typedef struct how {
    const char *kind; /* kind of dialect vector */
    LLVMValueRef (*combine)(tsr_emit *emit, LLVMValueRef x, LLVMValueRef y);
} how;

static LLVMValueRef add(tsr_emit *emit, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildFAdd(emit->builder, x, y, "");
}

static LLVMValueRef multiply(tsr_emit *emit, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildFMul(emit->builder, x, y, "");
}

static LLVMValueRef extremum(tsr_emit *emit, const char *name, LLVMValueRef x, LLVMValueRef y) {
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMValueRef args[] = {x, y};
    return tsr_emit_intrinsic(emit, name, &type, 1, args, 2);
}

static LLVMValueRef largest(tsr_emit *emit, LLVMValueRef x, LLVMValueRef y) {
    return extremum(emit, "llvm.maximum", x, y);
}

static LLVMValueRef largest_number(tsr_emit *emit, LLVMValueRef x, LLVMValueRef y) {
    return extremum(emit, "llvm.maxnum", x, y);
}

static LLVMValueRef smallest(tsr_emit *emit, LLVMValueRef x, LLVMValueRef y) {
    return extremum(emit, "llvm.minimum", x, y);
}

static const how hows[] = {{"add", add},
                           {"mul", multiply},
                           {"maximumf", largest},
                           {"maxnumf", largest_number},
                           {"minimumf", smallest}};

static const how *find_how(MlirOperation op) {
    MlirAttribute kind = tsr_op_attr(op, "kind");
    for (size_t i = 0; i < TSR_COUNT(hows); i++) {
        char text[32];
        snprintf(text, sizeof text, "#vector.kind<%s>", hows[i].kind);
        if (mlirAttributeEqual(kind,
                               mlirAttributeParseGet(mlirOperationGetContext(op), tsr_ref(text))))
            return &hows[i];
    }
    return NULL;
}

static LLVMValueRef number(tsr_emit *emit, int64_t value) {
    return tsr_emit_int(LLVMInt32TypeInContext(emit->llvm), value);
}

static unsigned warps_of(const tsr_emit *emit) { return emit->lanes / WARP; }

static LLVMValueRef from_lane_xor(tsr_emit *emit, LLVMValueRef value, unsigned distance) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(emit->llvm);
    LLVMValueRef word = tsr_lanes_of(emit)->butterfly(emit, LLVMBuildBitCast(b, value, i32, ""),
                                                      number(emit, distance));
    return LLVMBuildBitCast(b, word, LLVMTypeOf(value), "");
}

static LLVMValueRef over_lanes(tsr_emit *emit, const how *h, LLVMValueRef value, unsigned lanes) {
    for (unsigned distance = lanes / 2; distance; distance /= 2)
        value = h->combine(emit, value, from_lane_xor(emit, value, distance));
    return value;
}

/* Reduces a lane's registers, then the lanes of its warp. */
static LLVMValueRef over_warp(tsr_emit *emit, const how *h, LLVMValueRef vector) {
    LLVMBuilderRef b = emit->builder;
    unsigned count = LLVMGetVectorSize(LLVMTypeOf(vector));
    LLVMValueRef values[256];
    TSR_ASSERT(count <= TSR_COUNT(values));
    for (unsigned i = 0; i < count; i++)
        values[i] = LLVMBuildExtractElement(b, vector, number(emit, i), "");
    while (count > 1) {
        unsigned half = (count + 1) / 2;
        for (unsigned i = 0; i + half < count; i++)
            values[i] = h->combine(emit, values[i], values[i + half]);
        count = half;
    }
    return over_lanes(emit, h, values[0], WARP);
}

void tsr_emit_block_barrier(tsr_emit *emit) { tsr_lanes_of(emit)->block_barrier(emit); }

/* Several programs in a block have a barrier each; number 0 is the block's barrier. */
void tsr_emit_program_barrier(tsr_emit *emit) {
    const tsr_lanes *lanes = tsr_lanes_of(emit);
    if (warps_of(emit) > 1 && emit->block_programs > 1)
        lanes->side_barrier(emit);
    else
        (warps_of(emit) > 1 ? lanes->block_barrier : lanes->warp_barrier)(emit);
}

/* Word `at` of the words that warps exchange. */
static LLVMValueRef word_at(tsr_emit *emit, unsigned slot, LLVMValueRef at) {
    LLVMTypeRef f32 = LLVMFloatTypeInContext(emit->llvm);
    LLVMValueRef index =
        LLVMBuildAdd(emit->builder, number(emit, slot * TSR_COOPERATIVE_MAX), at, "");
    LLVMValueRef before = number(emit, emit->sums * TSR_COOPERATIVE_MAX);
    if (emit->block_programs > 1)
        index = LLVMBuildAdd(emit->builder, index,
                             LLVMBuildMul(emit->builder, emit->side, before, ""), "");
    return LLVMBuildInBoundsGEP2(emit->builder, f32, emit->shared, &index, 1, "");
}

static void write_word(tsr_emit *emit, unsigned slot, LLVMValueRef value) {
    LLVMBuilderRef b = emit->builder;
    LLVMBasicBlockRef write = tsr_emit_block(emit, "write"), done = tsr_emit_block(emit, "written");
    LLVMValueRef lane = LLVMBuildAnd(b, emit->lane, number(emit, WARP - 1), "");
    LLVMValueRef warp = LLVMBuildLShr(b, emit->lane, number(emit, 5), "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, lane, number(emit, 0), ""), write, done);
    LLVMPositionBuilderAtEnd(b, write);
    LLVMBuildStore(b, value, word_at(emit, slot, warp));
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
}

/* Few words: each lane reads every word. More words: each lane reads one. */
static LLVMValueRef over_words(tsr_emit *emit, const how *h, unsigned slot) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef f32 = LLVMFloatTypeInContext(emit->llvm);
    unsigned warps = warps_of(emit);
    if (warps > DIRECT_MAX) {
        LLVMValueRef at = LLVMBuildAnd(b, emit->lane, number(emit, warps - 1), "");
        return over_lanes(emit, h, LLVMBuildLoad2(b, f32, word_at(emit, slot, at), ""), warps);
    }
    LLVMValueRef values[DIRECT_MAX] = {NULL};
    for (unsigned i = 0; i < warps; i++)
        values[i] = LLVMBuildLoad2(b, f32, word_at(emit, slot, number(emit, i)), "");
    for (unsigned i = 1; i < warps; i++) values[0] = h->combine(emit, values[0], values[i]);
    return values[0];
}

bool tsr_emit_is_reduction(MlirOperation op) { return tsr_op_is(op, TSR_VECTOR_REDUCTION); }

void tsr_emit_reduction(tsr_emit *emit, MlirOperation op) {
    MlirOperation ops[TOGETHER_MAX];
    const how *h[TOGETHER_MAX];
    LLVMValueRef values[TOGETHER_MAX];
    unsigned count = 0, first = emit->sums_emitted;
    if (tsr_emit_has(emit, tsr_op_result(op, 0))) return; /* emitted with the previous one */
    do {
        ops[count] = op;
        h[count] = find_how(op);
        TSR_ASSERT(h[count]);
        values[count] = over_warp(emit, h[count], tsr_emit_operand(emit, op, 0));
        op = mlirOperationGetNextInBlock(op);
        count++;
    } while (count < TOGETHER_MAX && tsr_emit_is_reduction(op));
    if (warps_of(emit) > 1) {
        for (unsigned i = 0; i < count; i++) write_word(emit, first + i, values[i]);
        tsr_emit_program_barrier(emit);
        for (unsigned i = 0; i < count; i++) values[i] = over_words(emit, h[i], first + i);
        if (count == emit->sums) tsr_emit_program_barrier(emit);
    }
    emit->sums_emitted += count;
    for (unsigned i = 0; i < count; i++) tsr_emit_set(emit, ops[i], values[i]);
}

void tsr_emit_make_shared(tsr_emit *emit) {
    if (warps_of(emit) <= 1 || !emit->sums) return;
    LLVMTypeRef type = LLVMArrayType2(LLVMFloatTypeInContext(emit->llvm),
                                      emit->block_programs * emit->sums * TSR_COOPERATIVE_MAX);
    emit->shared = LLVMAddGlobalInAddressSpace(emit->module, type, "words", 3);
    LLVMSetInitializer(emit->shared, LLVMGetUndef(type));
    LLVMSetLinkage(emit->shared, LLVMInternalLinkage);
    LLVMSetAlignment(emit->shared, 128);
}

void tsr_emit_vote(tsr_emit *emit, MlirOperation op) {
    LLVMValueRef mine =
        LLVMBuildExtractElement(emit->builder, tsr_emit_operand(emit, op, 0), number(emit, 0), "");
    tsr_emit_set(emit, op, tsr_lanes_of(emit)->vote(emit, tsr_op_string(op, "how"), mine));
}
