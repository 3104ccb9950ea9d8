/* SPDX-License-Identifier: Apache-2.0
 *
 * Fragments "acc": the layout of their elements, elementwise functions, and stores to memory. A
 * store through a ring moves 64 rows of 128 bytes at a time through shared memory, each part while
 * the copy of another part is in flight.
 */
#include "compiler/shim/shim.h"
#include "compiler/target/block/block.h"
#include "compiler/target/block/sizes.h"
#include "compiler/target/block/wave.h"
#include "compiler/tile/attributes.h"
#include "runtime/base/array.h"

#include <stdio.h>
#include <string.h>

enum {
    STORES_MAX = 4,       /* stores of a fragment through one ring */
    AHEAD_REGISTERS = 64, /* registers for values loaded in advance, per thread */
};

/* ---- elementwise ----------------------------------------------------------------------------- */

static LLVMValueRef pair(tsr_emit *emit, LLVMValueRef low, LLVMValueRef high) {
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(low), 2);
    LLVMValueRef both =
        LLVMBuildInsertElement(emit->builder, LLVMGetPoison(type), low, tsr_block_int(emit, 0), "");
    return LLVMBuildInsertElement(emit->builder, both, high, tsr_block_int(emit, 1), "");
}

static LLVMValueRef widen(tsr_emit *emit, LLVMValueRef x) {
    return LLVMBuildZExt(emit->builder, x, LLVMInt64TypeInContext(emit->llvm), "");
}

/* Registers of a fragment that a function is applied to, with their layout. */
typedef struct mapping {
    MlirOperation op; /* tile.map; null: none */
    tsr_layout layout;
    LLVMValueRef *values;
    LLVMValueRef *other; /* registers of the second fragment; NULL: none, or fetched */
} mapping;

static LLVMValueRef load_pair(tsr_emit *emit, MlirOperation op) {
    LLVMBuilderRef b = emit->builder;
    tsr_block *block = emit->block;
    if (!block->fetches && block->ahead_taken < block->ahead_count)
        return block->ahead[block->ahead_taken++];
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMTypeRef type = tsr_emit_type(emit, mlirValueGetType(tsr_op_result(op, 0)));
    LLVMTypeRef element = LLVMGetElementType(type);
    LLVMValueRef offsets = tsr_emit_operand(emit, op, 1), from = tsr_emit_operand(emit, op, 0);
    LLVMValueRef first = LLVMBuildExtractElement(b, offsets, tsr_block_int(emit, 0), "");
    first = LLVMBuildAnd(b, first, tsr_emit_int(i64, -2), "");
    from = LLVMBuildGEP2(b, element, from, &first, 1, "");
    LLVMValueRef pair = LLVMBuildLoad2(b, type, from, "");
    LLVMSetAlignment(pair, LLVMGetTypeKind(element) == LLVMFloatTypeKind ? 8 : 4);
    if (block->fetches && block->ahead_count < TSR_BLOCK_REGISTERS_MAX)
        block->ahead[block->ahead_count++] = pair;
    return pair;
}

void tsr_block_emit_pair(tsr_emit *emit, MlirOperation op) {
    tsr_emit_set(emit, op, load_pair(emit, op));
}

/* Emits the body once for each two registers: a vector of 64 elements is two in each lane. */
static tsr_result map_registers(tsr_emit *emit, const mapping *m, unsigned first, unsigned count) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    const tsr_layout *l = &m->layout;
    if (mlirOperationIsNull(m->op)) return TSR_SUCCESS;
    MlirBlock body = tsr_op_body(m->op);
    MlirValue result = tsr_op_operand(mlirBlockGetTerminator(body), 0);
    bool transposed = tsr_op_flag(m->op, "transposed");
    LLVMValueRef one = tsr_emit_int(i64, 1);
    LLVMValueRef row0 =
        LLVMBuildAdd(b, tsr_emit_operand(emit, m->op, 1 + transposed), widen(emit, l->row), "");
    LLVMValueRef column0 =
        LLVMBuildAdd(b, tsr_emit_operand(emit, m->op, 2 - transposed), widen(emit, l->column), "");
    for (unsigned i = first; i < first + count; i += 2) {
        int64_t row_offset, column_offset;
        tsr_block_layout_find(l, i, &row_offset, &column_offset);
        LLVMValueRef row = LLVMBuildAdd(b, row0, tsr_emit_int(i64, row_offset), "");
        LLVMValueRef column = LLVMBuildAdd(b, column0, tsr_emit_int(i64, column_offset), "");
        tsr_emit_bind(emit, mlirBlockGetArgument(body, transposed), pair(emit, row, row));
        tsr_emit_bind(emit, mlirBlockGetArgument(body, !transposed),
                      pair(emit, column, LLVMBuildAdd(b, column, one, "")));
        tsr_emit_bind(emit, mlirBlockGetArgument(body, 2),
                      pair(emit, m->values[i], m->values[i + 1]));
        if (m->other)
            tsr_emit_bind(emit, mlirBlockGetArgument(body, 3),
                          pair(emit, m->other[i], m->other[i + 1]));
        TRY(emit->ctx, tsr_emit_ops(emit, body));
        for (unsigned e = 0; e < 2; e++)
            m->values[i + e] =
                LLVMBuildExtractElement(b, tsr_emit_get(emit, result), tsr_block_int(emit, e), "");
    }
    return TSR_SUCCESS;
}

/* Registers of a thread for the values that the body loads for two of the fragment's registers; 0:
 * no value can be loaded in advance. */
static uint32_t loaded_registers(const mapping *m) {
    uint32_t count = 0;
    if (mlirOperationIsNull(m->op)) return 0;
    TSR_FOR_EACH_OP(op, tsr_op_body(m->op)) {
        if (!tsr_op_is(op, TSR_TILE_GATHER)) continue;
        MlirType element = mlirShapedTypeGetElementType(mlirValueGetType(tsr_op_result(op, 0)));
        if (!tsr_op_has(op, TSR_PAIRS_NAME)) return 0;
        count += mlirTypeIsAF32(element) ? 2 : 1;
    }
    return count;
}

/* Emits the loads that those registers need. The rest of the body is removed as dead code. */
static tsr_result fetch_ahead(tsr_emit *emit, const mapping *m, unsigned first, unsigned count) {
    LLVMValueRef values[TSR_BLOCK_REGISTERS_MAX];
    mapping unknown = *m;
    unknown.values = values;
    if (tsr_op_operand_count(m->op) > 3) unknown.other = values;
    for (unsigned i = first; i < first + count; i++)
        values[i] = LLVMGetPoison(LLVMFloatTypeInContext(emit->llvm));
    emit->block->fetches = true;
    emit->block->ahead_count = emit->block->ahead_taken = 0;
    tsr_result result = map_registers(emit, &unknown, first, count);
    emit->block->fetches = false;
    return result;
}

/* True if the result is only stored: then it is computed at the store, part by part. */
static bool is_only_stored(MlirOperation map) {
    MlirOpOperand use = mlirValueGetFirstUse(tsr_op_result(map, 0));
    if (mlirOpOperandIsNull(use) || !mlirOpOperandIsNull(mlirOpOperandGetNextUse(use)))
        return false;
    MlirOperation user = mlirOpOperandGetOwner(use);
    return tsr_op_is(user, TSR_TILE_STORE_FRAGMENT) &&
           mlirBlockEqual(mlirOperationGetBlock(user), mlirOperationGetBlock(map));
}

/* True if the second fragment of a tile.map comes through a ring (tile.load_fragment), false if it
 * was computed. */
static bool is_fetched(MlirOperation map) {
    if (mlirOperationIsNull(map) || tsr_op_operand_count(map) <= 3) return false;
    MlirOperation owner = tsr_value_owner(tsr_op_operand(map, 3));
    return tsr_op_is(owner, TSR_TILE_LOAD_FRAGMENT);
}

/* The registers of a second fragment that was computed; NULL if there is no such fragment. */
static LLVMValueRef *other_registers(tsr_emit *emit, MlirOperation map, LLVMValueRef *registers) {
    unsigned count = 0;
    if (mlirOperationIsNull(map) || tsr_op_operand_count(map) <= 3 || is_fetched(map)) return NULL;
    tsr_block_registers(emit, tsr_op_operand(map, 3), registers, &count);
    return registers;
}

tsr_result tsr_block_emit_map(tsr_emit *emit, MlirOperation op) {
    LLVMValueRef values[TSR_BLOCK_REGISTERS_MAX], other[TSR_BLOCK_REGISTERS_MAX];
    unsigned count = 0;
    mapping m = {op, tsr_block_layout_of(emit, tsr_op_operand(op, 0)), values, NULL};
    if (is_only_stored(op)) return TSR_SUCCESS;
    tsr_block_registers(emit, tsr_op_operand(op, 0), values, &count);
    m.other = other_registers(emit, op, other);
    TRY(emit->ctx, map_registers(emit, &m, 0, count));
    tsr_emit_set(emit, op,
                 tsr_block_pack_registers(emit, LLVMFloatTypeInContext(emit->llvm), values, count));
    return TSR_SUCCESS;
}

/* Instructions that only compute a value from another one: LLVM may merge two equal ones. */
static LLVMValueRef pure_asm(tsr_emit *emit, LLVMTypeRef type, const char *text,
                             const char *constraints, LLVMValueRef x) {
    LLVMTypeRef from = LLVMTypeOf(x), function = LLVMFunctionType(type, &from, 1, false);
    LLVMValueRef code =
        LLVMGetInlineAsm(function, text, strlen(text), constraints, strlen(constraints), false,
                         false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef call = LLVMBuildCall2(emit->builder, function, code, &x, 1, "");
    static const char *const names[] = {"memory", "nounwind"};
    for (size_t i = 0; i < TSR_COUNT(names); i++) {
        unsigned kind = LLVMGetEnumAttributeKindForName(names[i], strlen(names[i]));
        LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                 LLVMCreateEnumAttribute(emit->llvm, kind, 0));
    }
    return call;
}

/* c (x + 0.044715 x^3), where gelu(x) = x (1 + tanh of it) / 2. */
static LLVMValueRef gelu_inner(tsr_emit *emit, LLVMValueRef x) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMValueRef square = LLVMBuildFMul(b, x, x, "");
    LLVMValueRef factor = tsr_emit_fma(emit, square, tsr_emit_float(type, 0.035677408136300125),
                                       tsr_emit_float(type, 0.7978845608028654));
    return LLVMBuildFMul(b, x, factor, "");
}

/* Errors below 2^-10.9 (tanh, absolute) and 2 ulp (exp): PTX ISA, "tanh", "ex2". */
LLVMValueRef tsr_block_approximate(tsr_emit *emit, const char *function, LLVMValueRef x) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef f32 = LLVMFloatTypeInContext(emit->llvm), type = LLVMTypeOf(x);
    bool is_exp = strcmp(function, "exp") == 0, is_gelu = strcmp(function, "gelu") == 0;
    bool is_vector = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
    if (!is_exp && !is_gelu && strcmp(function, "tanh") != 0) return NULL;
    if ((is_vector ? LLVMGetElementType(type) : type) != f32) return NULL;
    LLVMValueRef from = x, result = LLVMGetPoison(type);
    if (is_exp) from = LLVMBuildFMul(b, x, tsr_emit_float(type, 1.4426950408889634), "");
    if (is_gelu) from = gelu_inner(emit, x);
    for (unsigned e = 0; e < (is_vector ? LLVMGetVectorSize(type) : 1); e++) {
        LLVMValueRef at = tsr_block_int(emit, e);
        LLVMValueRef value = is_vector ? LLVMBuildExtractElement(b, from, at, "") : from;
        value =
            pure_asm(emit, f32, is_exp ? "ex2.approx.ftz.f32 $0, $1;" : "tanh.approx.f32 $0, $1;",
                     "=f,f", value);
        result = is_vector ? LLVMBuildInsertElement(b, result, value, at, "") : value;
    }
    if (!is_gelu) return result;
    LLVMValueRef half = LLVMBuildFMul(b, x, tsr_emit_float(type, 0.5), "");
    return tsr_emit_fma(emit, half, result, half);
}

/* ---- to shared memory ------------------------------------------------------------------------ */

LLVMValueRef tsr_block_narrow(tsr_emit *emit, MlirType element, LLVMValueRef low,
                              LLVMValueRef high) {
    LLVMValueRef args[] = {high, low};
    return tsr_block_asm(emit, tsr_block_i32(emit),
                         mlirTypeIsABF16(element) ? "cvt.rn.bf16x2.f32 $0, $1, $2;"
                                                  : "cvt.rn.f16x2.f32 $0, $1, $2;",
                         "=r,f,f", args, 2);
}

/* Stores two neighbours of a row to their slot in the ring. */
static void put_pair(tsr_emit *emit, const tsr_ring *ring, MlirType element, LLVMValueRef at,
                     LLVMValueRef row, LLVMValueRef column, LLVMValueRef *values) {
    LLVMBuilderRef b = emit->builder;
    int64_t per_chunk = 16 / ring->element_bytes;
    LLVMValueRef unit = tsr_block_int(emit, per_chunk);
    LLVMValueRef address = tsr_block_chunk(emit, ring, at, row, LLVMBuildUDiv(b, column, unit, ""));
    address = LLVMBuildAdd(
        b, address, tsr_block_mul(emit, LLVMBuildURem(b, column, unit, ""), ring->element_bytes),
        "");
    if (ring->element_bytes == 4) {
        LLVMValueRef args[] = {address, values[0], values[1]};
        tsr_block_asm(emit, NULL, "st.shared.v2.f32 [$0], {$1, $2};", "r,f,f,~{memory}", args, 3);
        return;
    }
    LLVMValueRef args[] = {address, tsr_block_narrow(emit, element, values[0], values[1])};
    tsr_block_asm(emit, NULL, "st.shared.b32 [$0], $1;", "r,r,~{memory}", args, 2);
}

static MlirType ring_element(MlirValue ring) {
    int64_t dims[3];
    MlirType element = {NULL};
    tsr_shim_tile_shared(mlirValueGetType(ring), dims, &element);
    return element;
}

void tsr_block_emit_store_shared(tsr_emit *emit, MlirOperation op) {
    LLVMValueRef values[TSR_BLOCK_REGISTERS_MAX];
    unsigned count = 0;
    MlirType element = ring_element(tsr_op_operand(op, 1));
    const tsr_ring *ring = tsr_block_ring(emit, tsr_op_operand(op, 1));
    LLVMValueRef at = tsr_block_stage(emit, ring, tsr_emit_operand(emit, op, 2));
    tsr_layout l = tsr_block_layout_of(emit, tsr_op_operand(op, 0));
    tsr_block_registers(emit, tsr_op_operand(op, 0), values, &count);
    for (unsigned i = 0; i < count; i += 2) {
        int64_t row, column;
        tsr_block_layout_find(&l, i, &row, &column);
        put_pair(emit, ring, element, at, tsr_block_add(emit, l.row, row),
                 tsr_block_add(emit, l.column, column), values + i);
    }
}

/* ---- to buffers ------------------------------------------------------------------------------ */

typedef struct target {
    MlirOperation op;
    MlirType element;
    int64_t rows, columns; /* rows and columns of the buffer's matrices */
    int64_t pitch;         /* elements from row to row */
    size_t rank;
    LLVMValueRef row, column; /* i64: position of the fragment's first element */
    LLVMValueRef from;        /* pointer to the matrix */
    bool is_whole;            /* all elements of all fragments are in the buffer */
} target;

static target read_target(tsr_emit *emit, MlirOperation op) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    MlirType type = mlirValueGetType(tsr_op_operand(op, 1));
    target t = {.op = op,
                .element = mlirShapedTypeGetElementType(type),
                .rank = (size_t)mlirShapedTypeGetRank(type)};
    t.rows = mlirShapedTypeGetDimSize(type, (intptr_t)t.rank - 2);
    t.columns = mlirShapedTypeGetDimSize(type, (intptr_t)t.rank - 1);
    t.pitch = tsr_buffer_row(type);
    int64_t dims[2] = {0};
    bool is_acc = false;
    MlirType element;
    tsr_shim_tile_fragment(mlirValueGetType(tsr_op_operand(op, 0)), dims, &element, &is_acc);
    t.is_whole = dims[0] && dims[1] && t.rows % dims[0] == 0 && t.columns % dims[1] == 0;
    t.row = tsr_emit_operand(emit, op, t.rank);
    t.column = tsr_emit_operand(emit, op, t.rank + 1);
    LLVMValueRef offset = tsr_emit_int(i64, 0);
    for (size_t d = 0; d + 2 < t.rank; d++) {
        LLVMValueRef size = tsr_emit_int(i64, mlirShapedTypeGetDimSize(type, (intptr_t)d));
        offset = LLVMBuildMul(b, offset, size, "");
        offset = LLVMBuildAdd(b, offset, tsr_emit_operand(emit, op, 2 + d), "");
    }
    offset = LLVMBuildMul(b, offset, tsr_emit_int(i64, t.rows * t.pitch), "");
    t.from = LLVMBuildGEP2(b, tsr_emit_type(emit, t.element), tsr_emit_operand(emit, op, 1),
                           &offset, 1, "");
    return t;
}

/* Stores two neighbours of a row, one at a time if rows have an odd number of elements. */
static void store_pair(tsr_emit *emit, const target *t, LLVMValueRef row, LLVMValueRef column,
                       LLVMValueRef *values) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    bool is_wide = mlirTypeIsAF32(t->element), together = t->columns % 2 == 0 && t->pitch % 2 == 0;
    int64_t size = is_wide ? 4 : 2;
    LLVMValueRef offset = LLVMBuildMul(b, row, tsr_emit_int(i64, t->pitch), "");
    offset = LLVMBuildMul(b, LLVMBuildAdd(b, offset, column, ""), tsr_emit_int(i64, size), "");
    LLVMValueRef in_rows = LLVMBuildICmp(b, LLVMIntSLT, row, tsr_emit_int(i64, t->rows), "");
    LLVMValueRef inside[2];
    for (int64_t e = 0; e < 2; e++)
        inside[e] = LLVMBuildZExt(b,
                                  LLVMBuildAnd(b, in_rows,
                                               LLVMBuildICmp(b, LLVMIntSLT, column,
                                                             tsr_emit_int(i64, t->columns - e), ""),
                                               ""),
                                  tsr_block_i32(emit), "");
    LLVMValueRef at = LLVMBuildGEP2(b, LLVMInt8TypeInContext(emit->llvm), t->from, &offset, 1, "");
    if (emit->block->waves) {
        tsr_wave_store_pair(emit, t->element, at, inside, together, t->is_whole, values);
        return;
    }
    static const char *const texts[2][2] = {
        {"{ .reg .pred p, q; .reg .b16 x, y; setp.ne.b32 p, $1, 0; setp.ne.b32 q, $2, 0; "
         "mov.b32 {x, y}, $3; @p st.global.b16 [$0], x; @q st.global.b16 [$0+2], y; }",
         "{ .reg .pred p; setp.ne.b32 p, $1, 0; @p st.global.b32 [$0], $3; }"},
        {"{ .reg .pred p, q; setp.ne.b32 p, $1, 0; setp.ne.b32 q, $2, 0; "
         "@p st.global.f32 [$0], $3; @q st.global.f32 [$0+4], $4; }",
         "{ .reg .pred p; setp.ne.b32 p, $1, 0; @p st.global.v2.f32 [$0], {$3, $4}; }"}};
    LLVMValueRef args[5] = {at, inside[0], inside[1]};
    if (is_wide)
        args[3] = values[0], args[4] = values[1];
    else
        args[3] = tsr_block_narrow(emit, t->element, values[0], values[1]);
    tsr_block_asm(emit, NULL, texts[is_wide][together],
                  is_wide ? "l,r,r,f,f,~{memory}" : "l,r,r,r,~{memory}", args, is_wide ? 5 : 4);
}

static void store_directly(tsr_emit *emit, const target *t, const tsr_layout *l,
                           LLVMValueRef *values, unsigned count) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMValueRef row0 = LLVMBuildAdd(b, t->row, widen(emit, l->row), "");
    LLVMValueRef column0 = LLVMBuildAdd(b, t->column, widen(emit, l->column), "");
    for (unsigned i = 0; i < count; i += 2) {
        int64_t row, column;
        tsr_block_layout_find(l, i, &row, &column);
        store_pair(emit, t, LLVMBuildAdd(b, row0, tsr_emit_int(i64, row), ""),
                   LLVMBuildAdd(b, column0, tsr_emit_int(i64, column), ""), values + i);
    }
}

/* The thread that executes the copies also waits for them. */
void tsr_block_first_thread(tsr_emit *emit, const char *text, const char *constraints,
                            LLVMValueRef *args, unsigned count) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef lane =
        LLVMBuildAnd(b, emit->block->thread, tsr_block_int(emit, TSR_BLOCK_GROUP - 1), "");
    LLVMBasicBlockRef first = tsr_emit_block(emit, "first"), rest = tsr_emit_block(emit, "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, lane, tsr_block_int(emit, 0), ""), first, rest);
    LLVMPositionBuilderAtEnd(b, first);
    tsr_block_asm(emit, NULL, text, constraints, args, count);
    LLVMBuildBr(b, rest);
    LLVMPositionBuilderAtEnd(b, rest);
}

void tsr_block_emit_stored(tsr_emit *emit) {
    tsr_block_first_thread(emit, "cp.async.bulk.wait_group 0;", "~{memory}", NULL, 0);
}

static void copy_rows(tsr_emit *emit, MlirValue buffer, LLVMValueRef box, uint32_t rows,
                      LLVMValueRef *at) {
    size_t rank = (size_t)mlirShapedTypeGetRank(mlirValueGetType(buffer));
    uint32_t map = tsr_block_map(emit, buffer, rows, false);
    LLVMValueRef args[2 + TSR_FATBIN_MAP_RANK_MAX] = {tsr_block_map_address(emit, map), box};
    char text[256], constraints[64] = "l,r";
    size_t used = 3, length = (size_t)snprintf(
                         text, sizeof text,
                         "cp.async.bulk.tensor.%zud.global.shared::cta.bulk_group [$0, {", rank);
    memcpy(args + 2, at, rank * sizeof *at);
    for (size_t d = 0; d < rank; d++) {
        length +=
            (size_t)snprintf(text + length, sizeof text - length, "%s$%zu", d ? ", " : "", 2 + d);
        used += (size_t)snprintf(constraints + used, sizeof constraints - used, ",r");
    }
    snprintf(text + length, sizeof text - length, "}], [$1]; cp.async.bulk.commit_group;");
    snprintf(constraints + used, sizeof constraints - used, ",~{memory}");
    tsr_block_first_thread(emit, text, constraints, args, (unsigned)(2 + rank));
}

void tsr_block_copy_box(tsr_emit *emit, MlirValue buffer, LLVMValueRef box, LLVMValueRef *at) {
    copy_rows(emit, buffer, box, GROUP_ROWS, at);
}

static void copy_box(tsr_emit *emit, const target *t, LLVMValueRef box, uint32_t rows,
                     LLVMValueRef row, LLVMValueRef column) {
    LLVMValueRef at[TSR_FATBIN_MAP_RANK_MAX];
    for (size_t d = 0; d < t->rank; d++) {
        LLVMValueRef index = d == 0   ? column
                             : d == 1 ? row
                                      : tsr_emit_operand(emit, t->op, 1 + t->rank - d);
        at[d] = LLVMBuildTrunc(emit->builder, index, tsr_block_i32(emit), "");
    }
    copy_rows(emit, tsr_op_operand(t->op, 1), box, rows, at);
}

/* A store through a ring, and the mapping of the fragment that it stores. */
typedef struct through {
    target to;
    mapping of;
    bool fetches; /* a second fragment comes through the ring */
} through;

tsr_boxes tsr_block_boxes(const tsr_ring *ring, const tsr_layout *layout) {
    uint32_t columns = TSR_BLOCK_SWIZZLE_BYTES / ring->element_bytes;
    uint32_t row_boxes = (layout->column_blocks * BLOCK_COLUMNS + columns - 1) / columns;
    return (tsr_boxes){.ring = ring,
                       .columns = columns,
                       .row_boxes = row_boxes,
                       .all = layout->row_blocks * row_boxes,
                       .slots = ring->stages * layout->row_blocks,
                       .row_blocks = layout->row_blocks};
}

LLVMValueRef tsr_block_group_row(tsr_emit *emit, const tsr_boxes *boxes) {
    LLVMValueRef four = tsr_block_int(emit, GROUP_WARPS);
    LLVMValueRef group = LLVMBuildUDiv(emit->builder, emit->block->warp, four, "");
    return tsr_block_mul(emit, group, (int64_t)boxes->row_blocks * GROUP_ROWS);
}

LLVMValueRef tsr_block_box_slot(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number,
                                int64_t *out_at) {
    uint32_t slot = number % boxes->slots;
    int64_t row = (int64_t)(slot / boxes->row_blocks) * boxes->ring->rows +
                  (int64_t)(slot % boxes->row_blocks) * GROUP_ROWS;
    *out_at = row * TSR_BLOCK_SWIZZLE_BYTES;
    LLVMValueRef own =
        tsr_block_mul(emit, tsr_block_group_row(emit, boxes), TSR_BLOCK_SWIZZLE_BYTES);
    return LLVMBuildAdd(emit->builder, tsr_block_ring_address(emit, boxes->ring), own, "");
}

/* Waits until copies from the slot of box `number` are done, so that it may be written. The last
 * slot of the previous program is unknown: the first box waits for all copies, unless each program
 * ends at the slot where it began. */
static void wait_for_slot(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number) {
    char text[64];
    bool evenly = boxes->all % boxes->slots == 0;
    snprintf(text, sizeof text, "cp.async.bulk.wait_group.read %u;",
             number || evenly ? boxes->slots - 1 : 0);
    tsr_block_first_thread(emit, text, "~{memory}", NULL, 0);
    tsr_block_sync(emit, true);
}

static void fetch_next(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef lane =
        LLVMBuildAnd(b, emit->block->thread, tsr_block_int(emit, TSR_BLOCK_GROUP - 1), "");
    LLVMValueRef is_first = LLVMBuildICmp(b, LLVMIntEQ, lane, tsr_block_int(emit, 0), "");
    LLVMBasicBlockRef rest = tsr_block_if(emit, is_first, "fetch");
    tsr_block_fetch_next(emit, boxes, number);
    tsr_block_end_if(emit, rest);
}

/* Copies the box to memory. Rows of a transposed box are the remaining columns of the fragment. */
static void copy_stored(tsr_emit *emit, const through *store, const tsr_boxes *boxes,
                        LLVMValueRef box, uint32_t m, uint32_t c, uint32_t columns) {
    LLVMBuilderRef b = emit->builder;
    bool transposed = tsr_op_flag(store->to.op, "transposed");
    LLVMValueRef group_row = tsr_block_group_row(emit, boxes);
    LLVMValueRef step = widen(emit, tsr_block_add(emit, group_row, (int64_t)m * GROUP_ROWS));
    LLVMValueRef offset =
        tsr_emit_int(LLVMInt64TypeInContext(emit->llvm), (int64_t)c * boxes->columns);
    LLVMValueRef row = LLVMBuildAdd(b, store->to.row, transposed ? offset : step, "");
    LLVMValueRef column = LLVMBuildAdd(b, store->to.column, transposed ? step : offset, "");
    copy_box(emit, &store->to, box, transposed ? columns : GROUP_ROWS, row, column);
}

/* Box `c` of row block `m`: the range of the fragment's registers. */
typedef struct box_part {
    uint32_t m, c, columns;
    unsigned first, registers;
} box_part;

static box_part part_of(const tsr_layout *l, const tsr_boxes *boxes, uint32_t m, uint32_t c) {
    uint32_t before = c * boxes->columns, left = l->column_blocks * BLOCK_COLUMNS - before;
    uint32_t columns = left < boxes->columns ? left : boxes->columns;
    return (box_part){.m = m,
                      .c = c,
                      .columns = columns,
                      .first = (m * l->column_blocks + before / BLOCK_COLUMNS) * BLOCK_REGISTERS,
                      .registers = columns / BLOCK_COLUMNS * BLOCK_REGISTERS};
}

/* The number of a box's `count` registers that are stored together, beginning at number `begin`. */
static unsigned of_part(unsigned count, unsigned begin) {
    return count - begin < BOX_PART_REGISTERS ? count - begin : BOX_PART_REGISTERS;
}

/* Computes the stored values of `count` of the part's registers, beginning at number `from`. */
static tsr_result map_some(tsr_emit *emit, const through *store, const box_part *part,
                           unsigned from, unsigned count, LLVMValueRef *other,
                           LLVMValueRef *out_values) {
    LLVMValueRef values[TSR_BLOCK_REGISTERS_MAX];
    mapping of = store->of;
    unsigned first = part->first + from;
    memcpy(values + first, of.values + first, count * sizeof *values);
    of.values = values;
    if (other) of.other = other;
    TRY(emit->ctx, map_registers(emit, &of, first, count));
    memcpy(out_values + from, values + first, count * sizeof *values);
    return TSR_SUCCESS;
}

/* Computes the stored values of the part, in f32. */
static tsr_result map_box(tsr_emit *emit, const through *store, const tsr_boxes *boxes,
                          const box_part *part, uint32_t number, LLVMValueRef *out_values) {
    LLVMValueRef other[TSR_BLOCK_REGISTERS_MAX];
    if (store->fetches) tsr_block_take_box(emit, boxes, number, other + part->first);
    return map_some(emit, store, part, 0, part->registers, store->fetches ? other : NULL,
                    out_values);
}

/* Computes results that are stored together, as pairs of 16 bits if elements have 16 bits: 16
 * columns of all results at a time, so that shared subexpressions are computed once and few values
 * are live. */
static tsr_result map_boxes(tsr_emit *emit, const through *stores, uint32_t count, bool is_wide,
                            const box_part *part, LLVMValueRef (*out_values)[BOX_REGISTERS]) {
    for (unsigned at = 0; at < part->registers; at += BOX_PART_REGISTERS)
        for (uint32_t i = 0; i < count; i++) {
            LLVMValueRef values[BOX_REGISTERS], *to = is_wide ? out_values[i] : values;
            unsigned some = of_part(part->registers, at);
            TRY(emit->ctx, map_some(emit, &stores[i], part, at, some, NULL, to));
            if (!is_wide)
                tsr_block_narrow_part(emit, stores[i].to.element, to + at, some / 2,
                                      out_values[i] + at / 2);
        }
    return TSR_SUCCESS;
}

/* Stores `count` registers; `narrow`: they must be rounded to 16 bits, else they are already
 * pairs. */
static void put_parts(tsr_emit *emit, const through *store, const tsr_ring *ring, LLVMValueRef from,
                      int64_t at, unsigned count, bool narrow, LLVMValueRef *values) {
    bool transposed = tsr_op_flag(store->to.op, "transposed");
    if (narrow) {
        tsr_block_put_parts(emit, ring, store->to.element, from, at, count, transposed, values);
        return;
    }
    for (unsigned begin = 0; begin < count; begin += BOX_PART_REGISTERS)
        tsr_block_put_part(emit, ring, from, at, begin / BOX_PART_REGISTERS, transposed,
                           values + begin / 2, of_part(count, begin) / 2);
}

static void store_box(tsr_emit *emit, const through *store, const tsr_boxes *boxes,
                      const box_part *part, uint32_t number, bool narrow, LLVMValueRef *values) {
    int64_t at = 0;
    LLVMValueRef from = tsr_block_box_slot(emit, boxes, number, &at);
    if (!store->fetches) wait_for_slot(emit, boxes, number);
    if (boxes->ring->element_bytes == 4)
        tsr_block_put_wide(emit, boxes->ring, from, at, values);
    else
        put_parts(emit, store, boxes->ring, from, at, part->registers, narrow, values);
    tsr_block_asm(emit, NULL, "fence.proxy.async.shared::cta;", "~{memory}", NULL, 0);
    tsr_block_sync(emit, true);
    copy_stored(emit, store, boxes, LLVMBuildAdd(emit->builder, from, tsr_block_int(emit, at), ""),
                part->m, part->c, part->columns);
    if (store->fetches) fetch_next(emit, boxes, number);
}

/* Stores a box of each of the results. */
static tsr_result store_boxes(tsr_emit *emit, const through *stores, uint32_t count,
                              const tsr_boxes *boxes, const box_part *part, uint32_t number) {
    LLVMValueRef values[STORES_MAX][BOX_REGISTERS];
    bool alone = count == 1, is_wide = boxes->ring->element_bytes == 4;
    TRY(emit->ctx, alone ? map_box(emit, stores, boxes, part, number, values[0])
                         : map_boxes(emit, stores, count, is_wide, part, values));
    for (uint32_t i = 0; i < count; i++)
        store_box(emit, &stores[i], boxes, part, number + i, alone, values[i]);
    return TSR_SUCCESS;
}

/* A branch on "the grid has programs", which is always true, but LLVM and the assembler cannot
 * prove it. Code after such a condition is not computed earlier, where its results would occupy
 * registers. */
static LLVMBasicBlockRef begin_apart(tsr_emit *emit) {
    LLVMValueRef grid = LLVMGetParam(emit->function, emit->block->grid_index);
    grid = tsr_block_asm(emit, LLVMTypeOf(grid), "mov.b64 $0, $1;", "=l,l", &grid, 1);
    LLVMValueRef zero = tsr_emit_int(LLVMTypeOf(grid), 0);
    return tsr_block_if(emit, LLVMBuildICmp(emit->builder, LLVMIntNE, grid, zero, ""), "box");
}

/* Stores box by box. Data fetched to the ring is available for one result, then for the next
 * one. */
static tsr_result store_through(tsr_emit *emit, const through *stores, uint32_t count,
                                const tsr_ring *ring) {
    tsr_boxes boxes = tsr_block_boxes(ring, &stores->of.layout);
    LLVMValueRef programs = emit->block->fetch.programs;
    uint32_t together = stores->fetches ? 1 : count, number = 0;
    /* If no other team multiplies at the same time, the first boxes leave while others are
     * computed. */
    bool exposed = emit->block->teams == 1 && !stores->fetches;
    bool apart = count > 1 || (exposed && !mlirOperationIsNull(stores->of.op));
    boxes.all *= count;
    for (uint32_t m = 0; m < boxes.row_blocks; m++)
        for (uint32_t c = 0; c < boxes.row_boxes; c++)
            for (uint32_t i = 0; i < count; i += together, number += together) {
                box_part part = part_of(&stores->of.layout, &boxes, m, c);
                LLVMBasicBlockRef rest = apart ? begin_apart(emit) : NULL;
                TRY(emit->ctx, store_boxes(emit, stores + i, together, &boxes, &part, number));
                if (rest) tsr_block_end_if(emit, rest);
            }
    if (stores->fetches)
        tsr_block_set(emit, programs, tsr_block_add(emit, tsr_block_get(emit, programs), 1));
    emit->block->stored = true;
    return TSR_SUCCESS;
}

/* Loads the values that the first stores need while the last products are in flight. */
static tsr_result fetch_first(tsr_emit *emit, const mapping *m) {
    uint32_t loaded = loaded_registers(m), count = tsr_block_layout_count(&m->layout);
    emit->block->ahead_count = emit->block->ahead_taken = 0;
    if (!loaded) return TSR_SUCCESS;
    if (count > AHEAD_REGISTERS / loaded * 2) count = AHEAD_REGISTERS / loaded * 2;
    return fetch_ahead(emit, m, 0, count);
}

/* The map whose result the op stores and no other op uses, or null. */
static MlirOperation map_of(MlirOperation store) {
    MlirOperation owner = tsr_value_owner(tsr_op_operand(store, 0));
    bool is_map = tsr_op_is(owner, TSR_TILE_MAP) && is_only_stored(owner);
    return is_map ? owner : (MlirOperation){NULL};
}

/* The fragment that is mapped and stored. */
static MlirValue source_of(MlirOperation store) {
    MlirOperation map = map_of(store);
    return tsr_op_operand(mlirOperationIsNull(map) ? store : map, 0);
}

/* The ring that the store uses; null: no ring. */
static MlirValue ring_of(tsr_emit *emit, MlirOperation store) {
    MlirAttribute segments = tsr_op_attr(store, "operandSegmentSizes");
    bool is_through = mlirDenseI32ArrayGetElement(segments, 3) == 1;
    return is_through && emit->block->has_tma && tsr_block_is_mappable(tsr_op_operand(store, 1))
               ? tsr_op_operand(store, tsr_op_operand_count(store) - 1)
               : (MlirValue){NULL};
}

/* The stores of one fragment through one ring, in their order. */
static uint32_t find_stores(tsr_emit *emit, MlirOperation store, MlirOperation *out_stores) {
    MlirValue ring = ring_of(emit, store), source = source_of(store);
    uint32_t count = 0;
    TSR_FOR_EACH_OP(other, mlirOperationGetBlock(store)) {
        if (count == STORES_MAX || !tsr_op_is(other, TSR_TILE_STORE_FRAGMENT)) continue;
        MlirValue other_ring = ring_of(emit, other);
        if (!mlirValueIsNull(other_ring) && mlirValueEqual(other_ring, ring) &&
            mlirValueEqual(source_of(other), source))
            out_stores[count++] = other;
    }
    return count;
}

/* Emits all stores together, at the last one. */
static tsr_result emit_through(tsr_emit *emit, MlirOperation op) {
    LLVMValueRef values[TSR_BLOCK_REGISTERS_MAX];
    LLVMValueRef others[STORES_MAX][TSR_BLOCK_REGISTERS_MAX];
    MlirOperation ops[STORES_MAX];
    through stores[STORES_MAX];
    unsigned values_count = 0;
    uint32_t count = find_stores(emit, op, ops);
    if (!mlirOperationEqual(ops[count - 1], op)) return TSR_SUCCESS;
    for (uint32_t i = 0; i < count; i++) {
        MlirOperation map = map_of(ops[i]);
        stores[i] = (through){read_target(emit, ops[i]),
                              {map, tsr_block_layout_of(emit, tsr_op_operand(ops[i], 0)), values,
                               other_registers(emit, map, others[i])},
                              is_fetched(map)};
    }
    emit->block->ahead_count = emit->block->ahead_taken = 0;
    if (count == 1) TRY(emit->ctx, fetch_first(emit, &stores->of));
    tsr_block_registers(emit, source_of(op), values, &values_count);
    return store_through(emit, stores, count, tsr_block_ring(emit, ring_of(emit, op)));
}

tsr_result tsr_block_emit_store(tsr_emit *emit, MlirOperation op) {
    LLVMValueRef values[TSR_BLOCK_REGISTERS_MAX], other[TSR_BLOCK_REGISTERS_MAX];
    unsigned count = 0;
    if (!mlirValueIsNull(ring_of(emit, op))) return emit_through(emit, op);
    if (tsr_op_flag(op, "transposed"))
        FAIL(emit->ctx, TSR_COMPILE,
             "kernel '%s' stores transposed; expected a ring for it, and on 'sm_90a' rows of whole "
             "16 bytes",
             emit->kernel);
    target t = read_target(emit, op);
    mapping m = {map_of(op), tsr_block_layout_of(emit, tsr_op_operand(op, 0)), values, NULL};
    TRY(emit->ctx, fetch_first(emit, &m));
    tsr_block_registers(emit, source_of(op), values, &count);
    m.other = other_registers(emit, m.op, other);
    TRY(emit->ctx, map_registers(emit, &m, 0, count));
    store_directly(emit, &t, &m.layout, values, count);
    return TSR_SUCCESS;
}
