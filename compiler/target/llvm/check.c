/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks which ops of kernels have machine code on a target. The emitters support every op that
 * passes.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/target/llvm/emit.h"
#include "compiler/tile/attributes.h"

typedef struct refusal {
    const tsr_target *target;
    bool together;    /* the program runs on several warps */
    MlirOperation op; /* the first refused op, or null */
    const char *why;
} refusal;

static bool is_emitted(const refusal *r, MlirType type) {
    uint64_t elements = 1;
    if (!mlirTypeIsAVector(type) && !mlirTypeIsAMemRef(type)) return true;
    int64_t rank = mlirShapedTypeGetRank(type);
    for (int64_t d = 0; d < rank; d++) {
        bool rows = mlirTypeIsAMemRef(type) && d + 1 == rank;
        int64_t size = rows ? tsr_buffer_row(type) : mlirShapedTypeGetDimSize(type, d);
        if (__builtin_mul_overflow(elements, (uint64_t)size, &elements) || elements > UINT32_MAX)
            return false;
    }
    uint64_t lanes = r->target->warp_lanes ? r->target->warp_lanes : 1;
    return mlirTypeIsAMemRef(type) || (elements && elements <= TSR_EMIT_LANES_MAX * lanes);
}

/* bf16 and f16 are only moved and converted: no op computes in them. */
static bool computes_small(MlirOperation op) {
    static const bool floats[TSR_OP_COUNT] = {
        [TSR_ARITH_ADDF] = true,     [TSR_ARITH_SUBF] = true,    [TSR_ARITH_MULF] = true,
        [TSR_ARITH_DIVF] = true,     [TSR_ARITH_NEGF] = true,    [TSR_ARITH_MAXIMUMF] = true,
        [TSR_ARITH_MINIMUMF] = true, [TSR_ARITH_MAXNUMF] = true, [TSR_ARITH_MINNUMF] = true,
        [TSR_ARITH_REMF] = true,     [TSR_ARITH_CMPF] = true,    [TSR_ARITH_FPTOSI] = true,
        [TSR_ARITH_FPTOUI] = true,   [TSR_ARITH_SITOFP] = true,  [TSR_ARITH_UITOFP] = true,
        [TSR_TILE_GELU] = true};
    tsr_op id = tsr_op_of(op);
    bool is_small = false, computes = floats[id] || tsr_op_dialect(id) == TSR_DIALECT_MATH;
    size_t operands = tsr_op_operand_count(op), results = tsr_op_result_count(op);
    for (size_t i = 0; computes && i < operands + results; i++) {
        MlirType type = mlirValueGetType(i < operands ? tsr_op_operand(op, i)
                                                      : tsr_op_result(op, i - operands));
        if (mlirTypeIsAShaped(type)) type = mlirShapedTypeGetElementType(type);
        is_small = is_small || mlirTypeIsABF16(type) || mlirTypeIsAF16(type);
    }
    return is_small;
}

/* MLIR accepts vectors of one element instead of scalars, and vice versa; the emitters do not. */
static const char *why_no_element(MlirOperation op) {
    int64_t lane;
    size_t count = 0;
    if (tsr_op_is(op, TSR_VECTOR_EXTRACT) &&
        (tsr_op_operand_count(op) != 1 || !tsr_op_i64s(op, "static_position", 1, &lane, &count) ||
         count != 1))
        return "takes an element whose position is unknown at build time";
    if (tsr_op_is(op, TSR_VECTOR_BROADCAST) &&
        mlirTypeIsAVector(mlirValueGetType(tsr_op_operand(op, 0))))
        return "repeats a vector; expected a scalar";
    return NULL;
}

static bool has_code(const refusal *r, MlirOperation op) {
    return tsr_emit_func_has(op) || tsr_emit_ops_have(op) ||
           (r->target->warp_lanes && tsr_emit_warp_has(op)) ||
           (r->together && tsr_emit_block_has(op));
}

/* Rings and fragments are made by their own ops, and carried by loops. */
static bool has_registers(MlirOperation op, MlirType type) {
    if (!tsr_emit_ops_have(op)) return true;
    if (mlirTypeIsAShaped(type)) type = mlirShapedTypeGetElementType(type);
    return mlirTypeIsAIndex(type) || mlirTypeIsAInteger(type) || mlirTypeIsAF64(type) ||
           mlirTypeIsAF32(type) || mlirTypeIsABF16(type) || mlirTypeIsAF16(type);
}

/* The op that makes a mask determines the layout of its elements, so that op must be known. */
static bool has_unknown_mask(MlirOperation op) {
    bool load = tsr_op_is(op, TSR_TILE_LOAD);
    size_t mask = load ? 2 : 3;
    if ((!load && !tsr_op_is(op, TSR_TILE_STORE)) || !tsr_op_has(op, TSR_BLOCKED_NAME) ||
        tsr_op_operand_count(op) <= mask)
        return false;
    MlirOperation maker = tsr_value_owner(tsr_op_operand(op, mask));
    return !tsr_op_is(maker, TSR_VECTOR_CREATE_MASK);
}

_Static_assert(TSR_EMIT_CARRIED_MAX == 64, "why_not says so");

/* NULL: the op may be emitted. Buffers that are arguments may be larger: they are not stored
 * here. */
static const char *why_not(const refusal *r, MlirOperation op) {
    bool of_tile = tsr_op_is_of(op, TSR_DIALECT_TILE);
    if (!has_code(r, op)) return "has no machine code";
    if (computes_small(op)) return "computes in bf16 or f16; expected f32";
    if ((tsr_op_is(op, TSR_TILE_DOT) || tsr_op_is(op, TSR_TILE_PROGRAM_END) ||
         tsr_op_is(op, TSR_TILE_UNTIL_ALIGNED)) &&
        r->target->warp_lanes)
        return "is for CPUs";
    if (has_unknown_mask(op)) return "is blocked, and its mask is not a vector.create_mask";
    if (tsr_op_is(op, TSR_SCF_FOR) && tsr_op_result_count(op) > TSR_EMIT_CARRIED_MAX)
        return "carries more than 64 values";
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        MlirType type = mlirValueGetType(tsr_op_result(op, i));
        if (!is_emitted(r, type)) return "makes a vector or buffer that is too large";
        if (mlirTypeIsAVector(type) && mlirShapedTypeGetRank(type) != 1)
            return "creates a vector with more than one dimension, or none";
        if (!has_registers(op, type)) return "makes a value of a type that has no machine code";
        if (mlirTypeIsAMemRef(type) && !of_tile)
            return "passes a buffer on; expected an argument, or the result of an op of tile";
    }
    return why_no_element(op);
}

static MlirWalkResult visit(MlirOperation op, void *user) {
    refusal *r = user;
    if (tsr_op_is(op, TSR_TILE_FUNC)) return MlirWalkResultAdvance;
    r->why = why_not(r, op);
    r->op = op;
    return r->why ? MlirWalkResultInterrupt : MlirWalkResultAdvance;
}

static refusal scan(const tsr_target *target, MlirOperation func) {
    refusal r = {.target = target, .together = tsr_op_has(func, "warps")};
    mlirOperationWalk(func, visit, &r, MlirWalkPreOrder);
    return r;
}

tsr_result tsr_emit_check(const tsr_emit *emit, MlirOperation func) {
    refusal r = scan(emit->target, func);
    if (!r.why) return TSR_SUCCESS;
    /* An op that is unknown on every target is an internal error, not the author's: for modules
     * that were read, tsr_target_check has already reported it. */
    FAIL(emit->ctx, has_code(&r, r.op) ? TSR_COMPILE : TSR_INTERNAL, "kernel '%s': %s %s",
         emit->kernel, tsr_op_name(r.op), r.why);
}

tsr_result tsr_target_check(tsr_ctx *ctx, MlirModule module, const tsr_target *target) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_TILE_FUNC)) continue;
        refusal r = scan(target, func);
        if (!r.why) continue;
        const char *name = tsr_op_name(r.op), *kernel = tsr_op_symbol(func);
        tsr_diag_error(mlirOperationGetLocation(r.op), TSR_DIAG_LEVEL,
                       "kernel '%s' for '%s': %s %s", kernel, target->name, name, r.why);
        FAIL(ctx, TSR_COMPILE, "kernel '%s': %s %s", kernel, name, r.why);
    }
    return TSR_SUCCESS;
}
