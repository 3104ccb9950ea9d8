/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of waves: blocks of 16 x 16 by MFMA or WMMA. The units compute B^T A^T, so that a lane
 * holds adjacent columns of one row of the result (layout.c): a matrix of B's columns is their
 * first operand, one of A's rows their second.
 *
 * The index i of a row or column within 16, and the elements of K, of each operand:
 *
 *     MFMA             lane: i + 16 g; chunk g of the step's 4 chunks of 16 bytes
 *     WMMA of gfx11    lane: i, and the same in lane i + 16; both chunks of the step
 *     WMMA of gfx12    lane: i + 16 g; chunk g of the step's 2 chunks
 *
 * Instructions take a part of a lane's chunks one after the other. So the order of the sum over K
 * differs from that in memory, but is the same for both operands. In the result of WMMA of gfx11,
 * registers r of the halves of a wave are rows 2 r and 2 r + 1: column 8 h + r of B is given as
 * row 2 r + h, so that halves hold 8 columns each, as on gfx12.
 *
 * Sources: AMD, "Instinct MI300 Instruction Set Architecture" and "CDNA 4", chapter "Matrix
 * Arithmetic Instructions"; "RDNA 3" and "RDNA 4", section "Wave Matrix Multiply Accumulate". No
 * kernel has run on an AMD GPU.
 */
#include "compiler/ir/targets/features.h"
#include "compiler/shim/shim.h"
#include "compiler/target/block/sizes.h"
#include "compiler/target/block/wave.h"
#include "compiler/target/llvm/lanes.h"
#include "runtime/base/array.h"

#include <string.h>

enum { WORDS_MAX = 8, BLOCKS_MAX = 32, HALF_LANES = 16 };

typedef enum element { F16, BF16, F32 } element;

/* An instruction: `words` of 32 bits of each operand in a lane. */
typedef struct unit {
    int from, to; /* orders of features.def: 90 to 95 are CDNA, 110 RDNA 3, 120 RDNA 4 */
    element of;
    const char *intrinsic;
    uint32_t words;
    uint32_t lane_chunks, step_chunks; /* chunks of a lane, of a step */
    bool permutes;                     /* rows of the first operand: see above */
    bool is_overloaded;                /* the name is followed by types */
    bool takes_modes;                  /* three numbers after the operands: broadcasts, none here */
    bool as_integers;                  /* bf16 as integers of 16 bits */
} unit;

/* The first that fits counts. */
static const unit units[] = {
    {95, 95, F16, "llvm.amdgcn.mfma.f32.16x16x32.f16", 4, 1, 4, false, false, true, false},
    {95, 95, BF16, "llvm.amdgcn.mfma.f32.16x16x32.bf16", 4, 1, 4, false, false, true, false},
    {90, 95, F16, "llvm.amdgcn.mfma.f32.16x16x16f16", 2, 1, 4, false, false, true, false},
    {90, 95, BF16, "llvm.amdgcn.mfma.f32.16x16x16bf16.1k", 2, 1, 4, false, false, true, true},
    {90, 95, F32, "llvm.amdgcn.mfma.f32.16x16x4f32", 1, 1, 4, false, false, true, false},
    {110, 110, F16, "llvm.amdgcn.wmma.f32.16x16x16.f16", 8, 2, 2, true, true, false, false},
    {110, 110, BF16, "llvm.amdgcn.wmma.f32.16x16x16.bf16", 8, 2, 2, true, true, false, true},
    {120, 120, F16, "llvm.amdgcn.wmma.f32.16x16x16.f16", 4, 1, 2, false, true, false, false},
    {120, 120, BF16, "llvm.amdgcn.wmma.f32.16x16x16.bf16", 4, 1, 2, false, true, false, true},
};

typedef struct product {
    const unit *unit;
    const tsr_ring *a, *b;
    LLVMValueRef a_at, b_at;         /* i32: their stages */
    bool a_transposed, b_transposed; /* as stored; B is K x columns unless it is transposed */
    tsr_layout layout;
    LLVMTypeRef operand, sum;
} product;

static element element_of(MlirType type) {
    if (mlirTypeIsAF32(type)) return F32;
    return mlirTypeIsABF16(type) ? BF16 : F16;
}

static const unit *find_unit(const tsr_emit *emit, element of) {
    const tsr_feature *has = tsr_feature_find(emit->target->cpu);
    for (size_t i = 0; i < TSR_COUNT(units); i++)
        if (has && units[i].of == of && units[i].from <= has->order && has->order <= units[i].to)
            return &units[i];
    return NULL;
}

static LLVMTypeRef operand_type(tsr_emit *emit, const unit *u) {
    LLVMTypeRef f32 = LLVMFloatTypeInContext(emit->llvm);
    if (u->of == F32) return f32;
    LLVMTypeRef one = u->of == F16     ? LLVMHalfTypeInContext(emit->llvm)
                      : u->as_integers ? LLVMInt16TypeInContext(emit->llvm)
                                       : LLVMBFloatTypeInContext(emit->llvm);
    return LLVMVectorType(one, 2 * u->words);
}

/* ---- factors --------------------------------------------------------------------------------- */

/* Loads chunk `chunk` (i32) of row `row` (i32) as words. */
static void load_chunk(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef at, LLVMValueRef row,
                       LLVMValueRef chunk, LLVMValueRef *out_words) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef type = LLVMVectorType(tsr_block_i32(emit), TSR_WAVE_CHUNK_WORDS);
    LLVMValueRef from = tsr_wave_shared(emit, tsr_block_chunk(emit, ring, at, row, chunk));
    LLVMValueRef whole = LLVMBuildLoad2(b, type, from, "");
    LLVMSetAlignment(whole, TSR_WAVE_CHUNK_BYTES);
    for (unsigned i = 0; i < TSR_WAVE_CHUNK_WORDS; i++)
        out_words[i] = LLVMBuildExtractElement(b, whole, tsr_block_int(emit, i), "");
}

/* The same if rows of the ring are K: element by element. */
static void gather_chunk(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef at, LLVMValueRef row,
                         LLVMValueRef chunk, LLVMValueRef *out_words) {
    LLVMBuilderRef b = emit->builder;
    uint32_t size = ring->element_bytes, per_chunk = TSR_WAVE_CHUNK_BYTES / size;
    LLVMTypeRef type = LLVMIntTypeInContext(emit->llvm, 8 * size), i32 = tsr_block_i32(emit);
    LLVMValueRef unit_size = tsr_block_int(emit, per_chunk);
    LLVMValueRef within = tsr_block_mul(emit, LLVMBuildURem(b, row, unit_size, ""), size);
    LLVMValueRef column = LLVMBuildUDiv(b, row, unit_size, "");
    LLVMValueRef k = LLVMBuildMul(b, chunk, unit_size, "");
    for (uint32_t i = 0; i < per_chunk; i++) {
        LLVMValueRef from = tsr_block_chunk(emit, ring, at, tsr_block_add(emit, k, i), column);
        from = tsr_wave_shared(emit, LLVMBuildAdd(b, from, within, ""));
        LLVMValueRef value = LLVMBuildLoad2(b, type, from, "");
        LLVMSetAlignment(value, size);
        if (size == 4) {
            out_words[i] = value;
            continue;
        }
        value = LLVMBuildZExt(b, value, i32, "");
        if (i % 2)
            out_words[i / 2] = LLVMBuildOr(b, out_words[i / 2],
                                           LLVMBuildShl(b, value, tsr_block_int(emit, 16), ""), "");
        else
            out_words[i / 2] = value;
    }
}

/* Loads what the lane gives for the 16 rows from `row` on, of step `step`; `strided`: rows of the
 * ring are K. */
static void load_factor(tsr_emit *emit, const product *p, bool is_first, LLVMValueRef row,
                        uint32_t step, LLVMValueRef *out_words) {
    LLVMBuilderRef b = emit->builder;
    const unit *u = p->unit;
    const tsr_ring *ring = is_first ? p->b : p->a;
    LLVMValueRef at = is_first ? p->b_at : p->a_at, lanes = tsr_block_int(emit, HALF_LANES);
    bool strided = is_first ? !p->b_transposed : p->a_transposed;
    LLVMValueRef own = LLVMBuildURem(b, emit->lane, lanes, "");
    if (is_first && u->permutes) {
        LLVMValueRef odd = LLVMBuildAnd(b, own, tsr_block_int(emit, 1), "");
        own = LLVMBuildAdd(b, LLVMBuildLShr(b, own, tsr_block_int(emit, 1), ""),
                           tsr_block_mul(emit, odd, HALF_LANES / 2), "");
    }
    row = LLVMBuildAdd(b, row, own, "");
    LLVMValueRef chunk = tsr_block_int(emit, (int64_t)step * u->step_chunks);
    if (u->lane_chunks < u->step_chunks)
        chunk = LLVMBuildAdd(b, chunk, LLVMBuildUDiv(b, emit->lane, lanes, ""), "");
    for (uint32_t i = 0; i < u->lane_chunks; i++)
        (strided ? gather_chunk : load_chunk)(emit, ring, at, row, tsr_block_add(emit, chunk, i),
                                              out_words + (size_t)i * TSR_WAVE_CHUNK_WORDS);
}

static LLVMValueRef operand_of(tsr_emit *emit, const product *p, const LLVMValueRef *words) {
    LLVMBuilderRef b = emit->builder;
    uint32_t count = p->unit->words;
    if (count == 1) return LLVMBuildBitCast(b, words[0], p->operand, "");
    LLVMValueRef all = LLVMGetPoison(LLVMVectorType(tsr_block_i32(emit), count));
    for (uint32_t i = 0; i < count; i++)
        all = LLVMBuildInsertElement(b, all, words[i], tsr_block_int(emit, i), "");
    return LLVMBuildBitCast(b, all, p->operand, "");
}

/* ---- products -------------------------------------------------------------------------------- */

/* All instructions of a step for one block. */
static LLVMValueRef multiply(tsr_emit *emit, const product *p, const LLVMValueRef *first,
                             const LLVMValueRef *second, LLVMValueRef sum) {
    const unit *u = p->unit;
    const LLVMTypeRef types[] = {p->sum, p->operand};
    LLVMValueRef zero = tsr_block_int(emit, 0);
    for (uint32_t w = 0; w < u->lane_chunks * TSR_WAVE_CHUNK_WORDS; w += u->words) {
        LLVMValueRef args[] = {
            operand_of(emit, p, first + w), operand_of(emit, p, second + w), sum, zero, zero, zero};
        sum = tsr_emit_intrinsic(emit, u->intrinsic, types, u->is_overloaded ? 2 : 0, args,
                                 u->takes_modes ? 6 : 3);
    }
    return sum;
}

static LLVMValueRef pack(tsr_emit *emit, const product *p, const LLVMValueRef *values) {
    LLVMValueRef sum = LLVMGetPoison(p->sum);
    for (uint32_t i = 0; i < p->layout.block_registers; i++)
        sum = LLVMBuildInsertElement(emit->builder, sum, values[i], tsr_block_int(emit, i), "");
    return sum;
}

static void unpack(tsr_emit *emit, const product *p, LLVMValueRef sum, LLVMValueRef *out_values) {
    for (uint32_t i = 0; i < p->layout.block_registers; i++)
        out_values[i] = LLVMBuildExtractElement(emit->builder, sum, tsr_block_int(emit, i), "");
}

static void multiply_step(tsr_emit *emit, const product *p, uint32_t step, LLVMValueRef *sums) {
    LLVMValueRef a[BLOCKS_MAX][WORDS_MAX], b[WORDS_MAX];
    const tsr_layout *l = &p->layout;
    TSR_ASSERT(l->row_blocks <= BLOCKS_MAX);
    for (uint32_t m = 0; m < l->row_blocks; m++)
        load_factor(emit, p, false, tsr_block_add(emit, l->warp_row, (int64_t)m * l->step), step,
                    a[m]);
    for (uint32_t j = 0; j < l->column_blocks; j++) {
        LLVMValueRef column = tsr_block_add(emit, l->warp_column, (int64_t)j * l->block_columns);
        load_factor(emit, p, true, column, step, b);
        for (uint32_t m = 0; m < l->row_blocks; m++) {
            LLVMValueRef *sum = &sums[m * l->column_blocks + j];
            *sum = multiply(emit, p, b, a[m], *sum);
        }
    }
}

static TSR_RESULT read_product(tsr_emit *emit, MlirOperation op, product *p) {
    int64_t dims[3] = {0};
    MlirType type;
    LLVMValueRef stage = tsr_emit_operand(emit, op, 3);
    if (!tsr_shim_tile_shared(mlirValueGetType(tsr_op_operand(op, 0)), dims, &type))
        FAIL(emit->ctx, TSR_COMPILE, "kernel '%s': '%s' has no code for A in registers",
             emit->kernel, emit->target->name);
    *p = (product){.unit = find_unit(emit, element_of(type)),
                   .a = tsr_block_ring(emit, tsr_op_operand(op, 0)),
                   .b = tsr_block_ring(emit, tsr_op_operand(op, 1)),
                   .a_transposed = tsr_op_flag(op, "transpose_a"),
                   .b_transposed = tsr_op_flag(op, "transpose_b"),
                   .layout = tsr_block_layout_of(emit, tsr_op_operand(op, 2))};
    if (!p->unit)
        FAIL(emit->ctx, TSR_COMPILE, "kernel '%s': '%s' has no unit for products of this type",
             emit->kernel, emit->target->name);
    p->a_at = tsr_block_stage(emit, p->a, stage);
    p->b_at = tsr_block_stage(emit, p->b, stage);
    p->operand = operand_type(emit, p->unit);
    p->sum = LLVMVectorType(LLVMFloatTypeInContext(emit->llvm), p->layout.block_registers);
    return TSR_SUCCESS;
}

tsr_result tsr_wave_emit_mma(tsr_emit *emit, MlirOperation op) {
    LLVMValueRef values[TSR_BLOCK_REGISTERS_MAX], sums[TSR_BLOCK_REGISTERS_MAX];
    unsigned count = 0;
    product p;
    TRY(emit->ctx, read_product(emit, op, &p));
    tsr_block_registers(emit, tsr_op_operand(op, 2), values, &count);
    uint32_t each = p.layout.block_registers, blocks = count / each;
    uint32_t depth = p.b_transposed ? p.b->columns : p.b->rows;
    uint32_t steps = depth * p.b->element_bytes / (p.unit->step_chunks * TSR_WAVE_CHUNK_BYTES);
    for (uint32_t i = 0; i < blocks; i++) sums[i] = pack(emit, &p, values + i * each);
    for (uint32_t s = 0; s < steps; s++) multiply_step(emit, &p, s, sums);
    for (uint32_t i = 0; i < blocks; i++) unpack(emit, &p, sums[i], values + i * each);
    tsr_emit_set(emit, op,
                 tsr_block_pack_registers(emit, LLVMFloatTypeInContext(emit->llvm), values, count));
    return TSR_SUCCESS;
}
