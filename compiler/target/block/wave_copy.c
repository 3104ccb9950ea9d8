/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of waves: global memory to registers, a step of the loop later to shared memory. A thread
 * copies chunks of 16 bytes, in smaller parts if rows of the buffer do not begin at multiples of
 * 16 bytes. Parts outside of the buffer become zeros; their loads read its first bytes instead.
 */
#include "compiler/target/block/wave.h"
#include "compiler/target/llvm/lanes.h"

enum { PRE_OPS_MAX = 64 /* ops of a step before it waits */ };

/* A matrix of a buffer, for the chunks of a thread. */
typedef struct source {
    const tsr_ring *ring;
    LLVMValueRef buffer, row, column; /* i64: the matrix's first row and column */
    LLVMValueRef first;               /* i64: number of the batch's first element */
    int64_t rows, columns, pitch;
    uint32_t part_bytes;
    bool is_whole; /* no part is outside */
} source;

static LLVMTypeRef i64_of(tsr_emit *emit) { return LLVMInt64TypeInContext(emit->llvm); }

static LLVMValueRef int_of(tsr_emit *emit, int64_t value) {
    return tsr_emit_int(i64_of(emit), value);
}

static LLVMValueRef widen(tsr_emit *emit, LLVMValueRef x) {
    return LLVMBuildZExt(emit->builder, x, i64_of(emit), "");
}

/* The largest size whose multiples are the beginnings and the ends of all rows. */
static uint32_t part_bytes_of(int64_t pitch_bytes, int64_t row_bytes) {
    uint32_t bytes = TSR_WAVE_CHUNK_BYTES;
    while (pitch_bytes % bytes || row_bytes % bytes) bytes /= 2;
    return bytes;
}

static source read_source(tsr_emit *emit, MlirOperation copy) {
    LLVMBuilderRef b = emit->builder;
    size_t count = tsr_op_operand_count(copy);
    MlirType type = mlirValueGetType(tsr_op_operand(copy, 0));
    int64_t rank = mlirShapedTypeGetRank(type);
    source s = {.ring = tsr_block_ring(emit, tsr_op_operand(copy, count - 2)),
                .buffer = tsr_emit_operand(emit, copy, 0),
                .row = tsr_emit_operand(emit, copy, (size_t)rank - 1),
                .column = tsr_emit_operand(emit, copy, (size_t)rank),
                .first = int_of(emit, 0),
                .rows = mlirShapedTypeGetDimSize(type, rank - 2),
                .columns = mlirShapedTypeGetDimSize(type, rank - 1),
                .pitch = tsr_buffer_row(type)};
    int64_t size = s.ring->element_bytes;
    s.part_bytes = part_bytes_of(s.pitch * size, s.columns * size);
    s.is_whole = s.rows % s.ring->rows == 0 && s.columns % s.ring->columns == 0;
    for (int64_t d = 0; d + 2 < rank; d++) {
        LLVMValueRef dim = int_of(emit, mlirShapedTypeGetDimSize(type, d));
        s.first = LLVMBuildMul(b, s.first, dim, "");
        s.first = LLVMBuildAdd(b, s.first, tsr_emit_operand(emit, copy, (size_t)d + 1), "");
    }
    s.first = LLVMBuildMul(b, s.first, int_of(emit, s.rows * s.pitch), "");
    return s;
}

static LLVMTypeRef chunk_type(tsr_emit *emit) {
    return LLVMVectorType(tsr_block_i32(emit), TSR_WAVE_CHUNK_WORDS);
}

/* Loads part `part` of the chunk at that row and column (i64). *out_inside: is it inside? NULL:
 * yes. */
static LLVMValueRef load_part(tsr_emit *emit, const source *s, LLVMValueRef row,
                              LLVMValueRef column, uint32_t part, LLVMValueRef *out_inside) {
    LLVMBuilderRef b = emit->builder;
    unsigned bits = 8 * s->part_bytes;
    LLVMTypeRef byte = LLVMInt8TypeInContext(emit->llvm);
    LLVMTypeRef type = bits > 32 ? LLVMVectorType(tsr_block_i32(emit), bits / 32)
                                 : LLVMIntTypeInContext(emit->llvm, bits);
    int64_t size = s->ring->element_bytes;
    column = LLVMBuildAdd(b, column, int_of(emit, (int64_t)part * s->part_bytes / size), "");
    LLVMValueRef at = LLVMBuildMul(b, row, int_of(emit, s->pitch), "");
    at = LLVMBuildAdd(b, LLVMBuildAdd(b, at, s->first, ""), column, "");
    at = LLVMBuildMul(b, at, int_of(emit, size), "");
    LLVMValueRef inside = NULL;
    if (!s->is_whole) {
        inside =
            LLVMBuildAnd(b, LLVMBuildICmp(b, LLVMIntSLT, row, int_of(emit, s->rows), ""),
                         LLVMBuildICmp(b, LLVMIntSLT, column, int_of(emit, s->columns), ""), "");
        at = LLVMBuildSelect(b, inside, at, int_of(emit, 0), "");
    }
    LLVMValueRef value = LLVMBuildLoad2(b, type, LLVMBuildGEP2(b, byte, s->buffer, &at, 1, ""), "");
    LLVMSetAlignment(value, s->part_bytes);
    *out_inside = inside;
    return value;
}

static LLVMValueRef zero_outside(tsr_emit *emit, LLVMValueRef inside, LLVMValueRef value) {
    if (!inside) return value;
    return LLVMBuildSelect(emit->builder, inside, value, LLVMConstNull(LLVMTypeOf(value)), "");
}

/* A whole chunk becomes zeros only when it is stored: the loads are in flight until then. */
static LLVMValueRef load_chunk(tsr_emit *emit, const source *s, LLVMValueRef row,
                               LLVMValueRef column, LLVMValueRef *out_inside) {
    LLVMBuilderRef b = emit->builder;
    uint32_t parts = TSR_WAVE_CHUNK_BYTES / s->part_bytes;
    if (parts == 1) return load_part(emit, s, row, column, 0, out_inside);
    LLVMTypeRef unit = s->part_bytes > 4 ? LLVMInt64TypeInContext(emit->llvm)
                                         : LLVMIntTypeInContext(emit->llvm, 8 * s->part_bytes);
    LLVMValueRef all = LLVMGetPoison(LLVMVectorType(unit, parts));
    *out_inside = NULL;
    for (uint32_t i = 0; i < parts; i++) {
        LLVMValueRef inside, part = load_part(emit, s, row, column, i, &inside);
        part = LLVMBuildBitCast(b, zero_outside(emit, inside, part), unit, "");
        all = LLVMBuildInsertElement(b, all, part, tsr_block_int(emit, i), "");
    }
    return LLVMBuildBitCast(b, all, chunk_type(emit), "");
}

/* Chunk number `round` of this thread: its row and its number in the row, i32. Returns i1: the
 * matrix has it; NULL: it has it for all threads. */
static LLVMValueRef find_chunk(tsr_emit *emit, const tsr_ring *ring, uint32_t round,
                               LLVMValueRef *out_row, LLVMValueRef *out_chunk) {
    LLVMBuilderRef b = emit->builder;
    uint32_t threads = emit->block->waves * emit->target->wave_lanes;
    uint32_t per_row = ring->columns * ring->element_bytes / TSR_WAVE_CHUNK_BYTES;
    LLVMValueRef width = tsr_block_int(emit, per_row);
    LLVMValueRef number = tsr_block_add(emit, emit->block->thread, (int64_t)round * threads);
    *out_row = LLVMBuildUDiv(b, number, width, "");
    *out_chunk = LLVMBuildURem(b, number, width, "");
    uint32_t all = ring->rows * per_row;
    if ((round + 1) * threads <= all) return NULL;
    return LLVMBuildICmp(b, LLVMIntULT, number, tsr_block_int(emit, all), "");
}

static uint32_t rounds_of(const tsr_emit *emit, const tsr_ring *ring) {
    uint32_t threads = emit->block->waves * emit->target->wave_lanes;
    uint32_t all = ring->rows * ring->columns * ring->element_bytes / TSR_WAVE_CHUNK_BYTES;
    return (all + threads - 1) / threads;
}

static tsr_block_prefetch *find_prefetch(tsr_emit *emit, MlirOperation copy, uint32_t rounds) {
    tsr_block *block = emit->block;
    for (uint32_t i = 0; i < block->prefetch_count; i++)
        if (mlirOperationEqual(block->prefetches[i].copy, copy)) return &block->prefetches[i];
    TSR_ASSERT(block->prefetch_count < TSR_BLOCK_COPIES_MAX && rounds <= TSR_BLOCK_PREFETCH_MAX);
    tsr_block_prefetch *prefetch = &block->prefetches[block->prefetch_count++];
    *prefetch = (tsr_block_prefetch){.copy = copy, .count = rounds};
    for (uint32_t i = 0; i < rounds; i++)
        prefetch->chunks[i] = tsr_block_memory(emit, chunk_type(emit));
    return prefetch;
}

void tsr_wave_emit_copy(tsr_emit *emit, MlirOperation copy) {
    LLVMBuilderRef b = emit->builder;
    if (!emit->block->holds) return;
    source s = read_source(emit, copy);
    tsr_block_prefetch *prefetch = find_prefetch(emit, copy, rounds_of(emit, s.ring));
    int64_t per_chunk = TSR_WAVE_CHUNK_BYTES / s.ring->element_bytes;
    for (uint32_t i = 0; i < prefetch->count; i++) {
        LLVMValueRef row, chunk;
        LLVMValueRef exists = find_chunk(emit, s.ring, i, &row, &chunk);
        LLVMBasicBlockRef rest = exists ? tsr_block_if(emit, exists, "load") : NULL;
        LLVMValueRef column = LLVMBuildMul(b, widen(emit, chunk), int_of(emit, per_chunk), "");
        LLVMValueRef inside, value;
        value = load_chunk(emit, &s, LLVMBuildAdd(b, s.row, widen(emit, row), ""),
                           LLVMBuildAdd(b, s.column, column, ""), &inside);
        tsr_block_set(emit, prefetch->chunks[i], value);
        if (inside && !prefetch->inside[i])
            prefetch->inside[i] = tsr_block_memory(emit, LLVMTypeOf(inside));
        if (inside) tsr_block_set(emit, prefetch->inside[i], inside);
        if (rest) tsr_block_end_if(emit, rest);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The tile.wait_async of a loop, or null. */
static MlirOperation wait_of(MlirOperation loop) {
    TSR_FOR_EACH_OP(op, tsr_op_body(loop))
    if (tsr_op_is(op, TSR_TILE_WAIT_ASYNC)) return op;
    return (MlirOperation){NULL};
}

static TSR_RESULT begin_loads(tsr_emit *emit, MlirOperation wait) {
    emit->block->holds = true;
    tsr_result result = tsr_emit_ops_before(emit, wait);
    emit->block->holds = false;
    return result;
}

tsr_result tsr_wave_before_loop(tsr_emit *emit, MlirOperation loop) {
    MlirOperation wait = wait_of(loop);
    if (mlirOperationIsNull(wait)) return TSR_SUCCESS;
    if (emit->block->prefetch_count || !tsr_block_rounds(loop))
        FAIL(emit->ctx, TSR_COMPILE,
             "kernel '%s' has a second loop that copies, or one of 0 rounds; expected one loop of "
             "a number of rounds known when it is built",
             emit->kernel);
    tsr_emit_bind(emit, mlirBlockGetArgument(tsr_op_body(loop), 0),
                  tsr_emit_operand(emit, loop, 0));
    return begin_loads(emit, wait);
}

static void store_prefetched(tsr_emit *emit, const tsr_block_prefetch *prefetch,
                             LLVMValueRef stage) {
    LLVMBuilderRef b = emit->builder;
    size_t count = tsr_op_operand_count(prefetch->copy);
    const tsr_ring *ring = tsr_block_ring(emit, tsr_op_operand(prefetch->copy, count - 2));
    LLVMValueRef to = tsr_block_stage(emit, ring, stage);
    for (uint32_t i = 0; i < prefetch->count; i++) {
        LLVMValueRef row, chunk;
        LLVMValueRef exists = find_chunk(emit, ring, i, &row, &chunk);
        LLVMBasicBlockRef rest = exists ? tsr_block_if(emit, exists, "store") : NULL;
        LLVMValueRef at = tsr_wave_shared(emit, tsr_block_chunk(emit, ring, to, row, chunk));
        LLVMValueRef inside = prefetch->inside[i] ? tsr_block_get(emit, prefetch->inside[i]) : NULL;
        LLVMValueRef value = zero_outside(emit, inside, tsr_block_get(emit, prefetch->chunks[i]));
        LLVMSetAlignment(LLVMBuildStore(b, value, at), TSR_WAVE_CHUNK_BYTES);
        if (rest) tsr_block_end_if(emit, rest);
    }
}

/* Emits the ops before the wait once more, for the next step, if there is one. The values of this
 * step are bound again afterwards. */
static TSR_RESULT begin_next(tsr_emit *emit, MlirOperation loop, MlirOperation wait) {
    LLVMBuilderRef b = emit->builder;
    MlirValue index = mlirBlockGetArgument(tsr_op_body(loop), 0);
    LLVMValueRef own = tsr_emit_get(emit, index), before[PRE_OPS_MAX];
    size_t count = 0;
    LLVMValueRef next = LLVMBuildNSWAdd(b, own, tsr_emit_operand(emit, loop, 2), "");
    LLVMValueRef more = LLVMBuildICmp(b, LLVMIntSLT, next, tsr_emit_operand(emit, loop, 1), "");
    TSR_FOR_EACH_OP(op, tsr_op_body(loop)) {
        if (mlirOperationEqual(op, wait)) break;
        TSR_ASSERT(count < PRE_OPS_MAX);
        before[count++] = tsr_op_result_count(op) ? tsr_emit_get(emit, tsr_op_result(op, 0)) : NULL;
    }
    LLVMBasicBlockRef rest = tsr_block_if(emit, more, "next");
    tsr_emit_bind(emit, index, next);
    TRY(emit->ctx, begin_loads(emit, wait));
    tsr_block_end_if(emit, rest);
    tsr_emit_bind(emit, index, own);
    count = 0;
    TSR_FOR_EACH_OP(op, tsr_op_body(loop)) {
        if (mlirOperationEqual(op, wait)) break;
        if (before[count++]) tsr_emit_bind(emit, tsr_op_result(op, 0), before[count - 1]);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_wave_emit_wait(tsr_emit *emit, MlirOperation wait) {
    MlirOperation loop = mlirOperationGetParentOperation(wait);
    if (!tsr_op_is(loop, TSR_SCF_FOR))
        FAIL(emit->ctx, TSR_COMPILE, "kernel '%s' waits for copies outside of a loop",
             emit->kernel);
    for (uint32_t i = 0; i < emit->block->prefetch_count; i++)
        store_prefetched(emit, &emit->block->prefetches[i], tsr_emit_operand(emit, wait, 0));
    tsr_lanes_of(emit)->block_barrier(emit);
    return begin_next(emit, loop, wait);
}
