/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops of arith, vector and math, and functions of tile: a table from the name of an op to the
 * function that emits it.
 */
#include "compiler/target/block/block.h"
#include "compiler/target/llvm/emit.h"
#include "compiler/tile/attributes.h"

#include <stdio.h>
#include <string.h>

typedef struct op {
    tsr_emit *emit;
    LLVMBuilderRef b;
    MlirOperation mlir;
    LLVMTypeRef type; /* type of the result */
    int how;          /* the row's argument: an LLVMOpcode or a number of this file */
} op;

typedef LLVMValueRef (*op_fn)(const op *o);

static LLVMValueRef x(const op *o, size_t index) {
    return tsr_emit_operand(o->emit, o->mlir, index);
}

/* ---- arith ----------------------------------------------------------------------------------- */

/* A product and a sum may become one FMA if the kernel allows it. */
static LLVMValueRef binary(const op *o) {
    LLVMValueRef value = LLVMBuildBinOp(o->b, (LLVMOpcode)o->how, x(o, 0), x(o, 1), "");
    if (o->emit->contracts && LLVMCanValueUseFastMathFlags(value))
        LLVMSetFastMathFlags(value, LLVMFastMathAllowContract);
    return value;
}

static LLVMValueRef conversion(const op *o) {
    return LLVMBuildCast(o->b, (LLVMOpcode)o->how, x(o, 0), o->type, "");
}

/* Returns the same bits, but hides from the assembler that the same value was widened before: a
 * byte permutation with a selector that is the identity as long as a grid has less than 2^50
 * programs. */
static LLVMValueRef forget(const op *o, LLVMValueRef value) {
    enum { IDENTITY = 0x3210, LAST_BIT = 62, MASK = 7 };
    static const char text[] = "prmt.b32 $0, $1, $1, $2;", constraints[] = "=r,r,r";
    LLVMTypeRef type = LLVMTypeOf(value), i32 = LLVMInt32TypeInContext(o->emit->llvm);
    LLVMTypeRef types[] = {i32, i32}, function = LLVMFunctionType(i32, types, 2, false);
    unsigned words = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) / 2 : 0;
    int64_t number = 0;
    if (!words || LLVMGetVectorSize(type) % 2 || o->emit->block) return value;
    tsr_op_i64(o->mlir, TSR_AGAIN_NAME, &number);
    LLVMValueRef grid = LLVMGetLastParam(o->emit->function);
    LLVMValueRef selector =
        LLVMBuildLShr(o->b, grid, tsr_emit_int(LLVMTypeOf(grid), LAST_BIT - (number & MASK)), "");
    selector = LLVMBuildAdd(o->b, LLVMBuildTrunc(o->b, selector, i32, ""),
                            tsr_emit_int(i32, IDENTITY), "");
    LLVMValueRef code =
        LLVMGetInlineAsm(function, text, sizeof text - 1, constraints, sizeof constraints - 1,
                         false, false, LLVMInlineAsmDialectATT, false);
    value = LLVMBuildBitCast(o->b, value, LLVMVectorType(i32, words), "");
    for (unsigned i = 0; i < words; i++) {
        LLVMValueRef at = tsr_emit_int(i32, i);
        LLVMValueRef args[] = {LLVMBuildExtractElement(o->b, value, at, ""), selector};
        LLVMValueRef word = LLVMBuildCall2(o->b, function, code, args, 2, "");
        value = LLVMBuildInsertElement(o->b, value, word, at, "");
    }
    return LLVMBuildBitCast(o->b, value, type, "");
}

static LLVMValueRef float_conversion(const op *o) {
    bool widen = o->how == LLVMFPExt;
    MlirType type =
        mlirValueGetType(widen ? tsr_op_operand(o->mlir, 0) : tsr_op_result(o->mlir, 0));
    if (mlirTypeIsAVector(type)) type = mlirShapedTypeGetElementType(type);
    bool bf16 = mlirTypeIsABF16(type);
    if (!bf16 && !mlirTypeIsAF16(type)) return conversion(o);
    LLVMValueRef value = x(o, 0);
    if (widen && o->emit->target->family == TSR_FAMILY_CUDA && tsr_op_has(o->mlir, TSR_AGAIN_NAME))
        value = forget(o, value);
    if (!widen && bf16 && o->emit->target->has_dot && tsr_op_has(o->mlir, TSR_NORMAL_NAME) &&
        tsr_emit_lanes(o->type))
        return tsr_emit_narrow_normal(o->emit, value);
    return (widen ? tsr_emit_widen : tsr_emit_narrow)(o->emit, value, bf16);
}

static LLVMValueRef fptosi(const op *o) { return tsr_emit_whole(o->emit, x(o, 0), o->type); }

/* index is 64 bits wide */
static LLVMValueRef index_cast(const op *o) {
    return LLVMBuildIntCast2(o->b, x(o, 0), o->type, true, "");
}

static LLVMValueRef negf(const op *o) { return LLVMBuildFNeg(o->b, x(o, 0), ""); }

static LLVMValueRef integer_extremum(const op *o) {
    static const char *const names[] = {"llvm.smax", "llvm.smin", "llvm.umax", "llvm.umin"};
    LLVMValueRef args[] = {x(o, 0), x(o, 1)};
    return tsr_emit_intrinsic(o->emit, names[o->how], &o->type, 1, args, 2);
}

static LLVMValueRef largest_number(const op *o) {
    LLVMValueRef args[] = {x(o, 0), x(o, 1)};
    return tsr_emit_intrinsic(o->emit, "llvm.maxnum", &o->type, 1, args, 2);
}

static LLVMValueRef cmpi(const op *o) {
    static const LLVMIntPredicate predicates[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntSLT, LLVMIntSLE,
                                                  LLVMIntSGT, LLVMIntSGE, LLVMIntULT, LLVMIntULE,
                                                  LLVMIntUGT, LLVMIntUGE};
    int64_t how = 0;
    bool known = tsr_op_i64(o->mlir, "predicate", &how);
    TSR_ASSERT(known && how >= 0 && how < 10);
    return LLVMBuildICmp(o->b, predicates[how], x(o, 0), x(o, 1), "");
}

static LLVMValueRef cmpf(const op *o) {
    static const LLVMRealPredicate predicates[] = {LLVMRealPredicateFalse,
                                                   LLVMRealOEQ,
                                                   LLVMRealOGT,
                                                   LLVMRealOGE,
                                                   LLVMRealOLT,
                                                   LLVMRealOLE,
                                                   LLVMRealONE,
                                                   LLVMRealORD,
                                                   LLVMRealUEQ,
                                                   LLVMRealUGT,
                                                   LLVMRealUGE,
                                                   LLVMRealULT,
                                                   LLVMRealULE,
                                                   LLVMRealUNE,
                                                   LLVMRealUNO,
                                                   LLVMRealPredicateTrue};
    int64_t how = 0;
    bool known = tsr_op_i64(o->mlir, "predicate", &how);
    TSR_ASSERT(known && how >= 0 && how < 16);
    return LLVMBuildFCmp(o->b, predicates[how], x(o, 0), x(o, 1), "");
}

static LLVMValueRef select_(const op *o) {
    return LLVMBuildSelect(o->b, x(o, 0), x(o, 1), x(o, 2), "");
}

int64_t tsr_emit_int_element(MlirAttribute value, MlirType element, int64_t index) {
    if (mlirTypeIsAIndex(element))
        return (int64_t)mlirDenseElementsAttrGetUInt64Value(value, index);
    switch (mlirIntegerTypeGetWidth(element)) {
    case 1:
        return mlirDenseElementsAttrGetBoolValue(value, index);
    case 8:
        return mlirDenseElementsAttrGetInt8Value(value, index);
    case 16:
        return mlirDenseElementsAttrGetInt16Value(value, index);
    case 32:
        return mlirDenseElementsAttrGetInt32Value(value, index);
    default:
        return mlirDenseElementsAttrGetInt64Value(value, index);
    }
}

/* Vectors of integers that are not splats, such as lane numbers. */
static LLVMValueRef constant_lanes(const op *o, MlirAttribute value) {
    enum { LANES_MAX = 256 };
    LLVMValueRef lanes[LANES_MAX];
    unsigned count = tsr_emit_lanes(o->type);
    MlirType element = mlirShapedTypeGetElementType(mlirAttributeGetType(value));
    TSR_ASSERT(count <= LANES_MAX && !mlirTypeIsAFloat(element));
    for (unsigned i = 0; i < count; i++)
        lanes[i] = LLVMConstInt(tsr_emit_element(o->type),
                                (uint64_t)tsr_emit_int_element(value, element, i), true);
    return LLVMConstVector(lanes, count);
}

static LLVMValueRef constant(const op *o) {
    MlirAttribute value = tsr_op_attr(o->mlir, "value");
    if (mlirAttributeIsADenseElements(value)) {
        if (!mlirDenseElementsAttrIsSplat(value)) return constant_lanes(o, value);
        value = mlirDenseElementsAttrGetSplatValue(value);
    }
    MlirType element = mlirAttributeIsAFloat(value) ? mlirAttributeGetType(value) : (MlirType){0};
    if (mlirAttributeIsAFloat(value) && (mlirTypeIsABF16(element) || mlirTypeIsAF16(element))) {
        uint16_t bits;
        tsr_dtype dtype = mlirTypeIsABF16(element) ? TSR_DTYPE_BF16 : TSR_DTYPE_F16;
        tsr_dtype_write(dtype, mlirFloatAttrGetValueDouble(value), &bits, 0);
        return tsr_emit_int(o->type, bits);
    }
    if (mlirAttributeIsAFloat(value))
        return tsr_emit_float(o->type, mlirFloatAttrGetValueDouble(value));
    if (mlirAttributeIsABool(value)) return tsr_emit_int(o->type, mlirBoolAttrGetValue(value));
    return tsr_emit_int(o->type, mlirIntegerAttrGetValueInt(value));
}

/* ---- vector ---------------------------------------------------------------------------------- */

static LLVMValueRef broadcast(const op *o) {
    return tsr_emit_splat(o->emit, x(o, 0), tsr_emit_lanes(o->type));
}

static LLVMValueRef extract(const op *o) {
    int64_t lane = 0;
    size_t count = 0;
    bool known = tsr_op_i64s(o->mlir, "static_position", 1, &lane, &count);
    TSR_ASSERT(known && count == 1);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(o->emit->llvm);
    return LLVMBuildExtractElement(o->b, x(o, 0), tsr_emit_int(i64, lane), "");
}

static LLVMValueRef shuffle_lanes(const op *o, LLVMValueRef first, LLVMValueRef second,
                                  const int64_t *lanes, size_t count) {
    enum { LANES_MAX = 256 };
    LLVMValueRef indices[LANES_MAX];
    LLVMTypeRef i32 = LLVMInt32TypeInContext(o->emit->llvm);
    TSR_ASSERT(count <= LANES_MAX);
    for (size_t i = 0; i < count; i++) indices[i] = tsr_emit_int(i32, lanes[i]);
    return LLVMBuildShuffleVector(o->b, first, second, LLVMConstVector(indices, (unsigned)count),
                                  "");
}

static LLVMValueRef shuffle(const op *o) {
    int64_t lanes[256];
    size_t count = 0;
    bool known = tsr_op_i64s(o->mlir, "mask", 256, lanes, &count);
    TSR_ASSERT(known);
    return shuffle_lanes(o, x(o, 0), x(o, 1), lanes, count);
}

static LLVMValueRef slice(const op *o) {
    int64_t begin = 0, lanes[256];
    size_t count = 0;
    bool known = tsr_op_i64s(o->mlir, "offsets", 1, &begin, &count);
    TSR_ASSERT(known);
    count = tsr_emit_lanes(o->type);
    for (size_t i = 0; i < count; i++) lanes[i] = begin + (int64_t)i;
    LLVMValueRef from = x(o, 0);
    return shuffle_lanes(o, from, LLVMGetPoison(LLVMTypeOf(from)), lanes, count);
}

static LLVMValueRef create_mask(const op *o) {
    LLVMValueRef count = x(o, 0);
    LLVMTypeRef i64 = LLVMTypeOf(count), i32 = LLVMInt32TypeInContext(o->emit->llvm);
    unsigned lanes = tsr_emit_lanes(o->type);
    LLVMValueRef low[] = {count, tsr_emit_int(i64, 0)};
    count = tsr_emit_intrinsic(o->emit, "llvm.smax", &i64, 1, low, 2);
    LLVMValueRef high[] = {count, tsr_emit_int(i64, lanes)};
    count = tsr_emit_intrinsic(o->emit, "llvm.smin", &i64, 1, high, 2);
    LLVMValueRef numbers[256];
    TSR_ASSERT(lanes <= 256);
    for (unsigned i = 0; i < lanes; i++) numbers[i] = tsr_emit_int(i32, i);
    LLVMValueRef limit = LLVMBuildTrunc(o->b, count, i32, "");
    return LLVMBuildICmp(o->b, LLVMIntULT, LLVMConstVector(numbers, lanes),
                         tsr_emit_splat(o->emit, limit, lanes), "");
}

/* ---- between the elements of a warp -----------------------------------------------------------
 */

enum { WARP_LANES = 32 };

static LLVMValueRef element_at(const op *o, LLVMValueRef vector, unsigned index) {
    return LLVMBuildExtractElement(o->b, vector,
                                   tsr_emit_int(LLVMInt32TypeInContext(o->emit->llvm), index), "");
}

static LLVMValueRef warp_shuffle(const op *o) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(o->emit->llvm);
    LLVMValueRef from = x(o, 0), selector = x(o, 1), result = LLVMGetPoison(o->type);
    for (unsigned i = 0; i < LLVMGetVectorSize(o->type); i++) {
        LLVMValueRef lane =
            LLVMBuildAnd(o->b, element_at(o, selector, i), tsr_emit_int(i32, WARP_LANES - 1), "");
        lane = LLVMBuildAdd(o->b, lane, tsr_emit_int(i32, i / WARP_LANES * WARP_LANES), "");
        LLVMValueRef value = LLVMBuildExtractElement(o->b, from, lane, "");
        result = LLVMBuildInsertElement(o->b, result, value, tsr_emit_int(i32, i), "");
    }
    return result;
}

static LLVMValueRef butterfly(const op *o) {
    int64_t lanes[256], distance = 0;
    unsigned count = LLVMGetVectorSize(o->type);
    bool known = tsr_op_i64(o->mlir, "distance", &distance);
    TSR_ASSERT(known && count <= 256);
    for (unsigned i = 0; i < count; i++) lanes[i] = (int64_t)i ^ distance;
    LLVMValueRef from = x(o, 0);
    return shuffle_lanes(o, from, LLVMGetPoison(LLVMTypeOf(from)), lanes, count);
}

static LLVMValueRef vote(const op *o) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(o->emit->llvm);
    const char *how = tsr_op_string(o->mlir, "how");
    LLVMValueRef bits = LLVMBuildBitCast(o->b, x(o, 0), i32, "");
    if (strcmp(how, "ballot") == 0) return bits;
    bool any = strcmp(how, "any") == 0;
    return LLVMBuildICmp(o->b, any ? LLVMIntNE : LLVMIntEQ, bits, tsr_emit_int(i32, any ? 0 : -1),
                         "");
}

/* ---- math ------------------------------------------------------------------------------------ */

enum {
    EXP,
    EXP_BELOW_40,
    EXP_SHIFTED,
    EXPM1,
    LOG,
    LOG1P,
    TANH,
    ERF,
    GELU,
    GELU_TANH,
    GELU_SLOPE,
    SIN,
    COS,
    TAN,
    ASIN,
    ACOS,
    ATAN
};

static LLVMValueRef function(const op *o) {
    static LLVMValueRef (*const functions[])(tsr_emit *, LLVMValueRef) = {
        [EXP] = tsr_emit_exp,
        [EXP_BELOW_40] = tsr_emit_exp_below_40,
        [EXP_SHIFTED] = tsr_emit_exp_shifted,
        [EXPM1] = tsr_emit_expm1,
        [LOG] = tsr_emit_log,
        [LOG1P] = tsr_emit_log1p,
        [TANH] = tsr_emit_tanh,
        [ERF] = tsr_emit_erf,
        [GELU] = tsr_emit_gelu,
        [GELU_TANH] = tsr_emit_gelu_tanh,
        [GELU_SLOPE] = tsr_emit_gelu_slope,
        [SIN] = tsr_emit_sin,
        [COS] = tsr_emit_cos,
        [TAN] = tsr_emit_tan,
        [ASIN] = tsr_emit_asin,
        [ACOS] = tsr_emit_acos,
        [ATAN] = tsr_emit_atan};
    int how = o->how;
    if (how == EXP && tsr_op_has(o->mlir, TSR_BELOW_40_NAME)) how = EXP_BELOW_40;
    if (how == EXP && tsr_op_has(o->mlir, TSR_SHIFTED_NAME)) how = EXP_SHIFTED;
    if (how == GELU && tsr_op_has(o->mlir, "tanh")) how = GELU_TANH;
    if (how == GELU && tsr_op_has(o->mlir, "slope")) how = GELU_SLOPE;
    if (o->emit->target->family == TSR_FAMILY_CUDA && tsr_op_has(o->mlir, TSR_APPROXIMATE_NAME)) {
        bool is_exp = how == EXP || how == EXP_BELOW_40 || how == EXP_SHIFTED;
        const char *name = how == TANH ? "tanh" : is_exp ? "exp" : how == GELU_TANH ? "gelu" : "";
        LLVMValueRef value = tsr_block_approximate(o->emit, name, x(o, 0));
        if (value) return value;
    }
    return functions[how](o->emit, x(o, 0));
}

static LLVMValueRef intrinsic_1(const op *o) {
    static const char *const names[] = {"llvm.fabs",  "llvm.sqrt", "llvm.floor",
                                        "llvm.ctpop", "llvm.ceil", "llvm.roundeven"};
    LLVMValueRef value = x(o, 0);
    return tsr_emit_intrinsic(o->emit, names[o->how], &o->type, 1, &value, 1);
}

static LLVMValueRef fma_(const op *o) { return tsr_emit_fma(o->emit, x(o, 0), x(o, 1), x(o, 2)); }

static LLVMValueRef dot(const op *o) { return tsr_emit_dot(o->emit, x(o, 0), x(o, 1), x(o, 2)); }

static LLVMValueRef dot_bytes(const op *o) {
    return tsr_emit_dot_bytes(o->emit, x(o, 0), x(o, 1), x(o, 2), tsr_op_has(o->mlir, "a_unsigned"),
                              tsr_op_has(o->mlir, "b_unsigned"));
}

static LLVMValueRef powf_(const op *o) { return tsr_emit_pow(o->emit, x(o, 0), x(o, 1)); }

static LLVMValueRef fpowi(const op *o) { return tsr_emit_power(o->emit, x(o, 0), x(o, 1)); }

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct row {
    op_fn emit; /* NULL: another file emits the op, or none does */
    int how;
} row;

static const row rows[TSR_OP_COUNT] = {
    [TSR_ARITH_CONSTANT] = {constant, 0},
    [TSR_ARITH_ADDI] = {binary, LLVMAdd},
    [TSR_ARITH_SUBI] = {binary, LLVMSub},
    [TSR_ARITH_MULI] = {binary, LLVMMul},
    [TSR_ARITH_DIVSI] = {binary, LLVMSDiv},
    [TSR_ARITH_DIVUI] = {binary, LLVMUDiv},
    [TSR_ARITH_REMUI] = {binary, LLVMURem},
    [TSR_ARITH_ANDI] = {binary, LLVMAnd},
    [TSR_ARITH_ORI] = {binary, LLVMOr},
    [TSR_ARITH_XORI] = {binary, LLVMXor},
    [TSR_ARITH_SHLI] = {binary, LLVMShl},
    [TSR_ARITH_SHRSI] = {binary, LLVMAShr},
    [TSR_ARITH_SHRUI] = {binary, LLVMLShr},
    [TSR_ARITH_ADDF] = {binary, LLVMFAdd},
    [TSR_ARITH_SUBF] = {binary, LLVMFSub},
    [TSR_ARITH_MULF] = {binary, LLVMFMul},
    [TSR_ARITH_DIVF] = {binary, LLVMFDiv},
    [TSR_ARITH_NEGF] = {negf, 0},
    [TSR_ARITH_MAXSI] = {integer_extremum, 0},
    [TSR_ARITH_MINSI] = {integer_extremum, 1},
    [TSR_ARITH_MAXUI] = {integer_extremum, 2},
    [TSR_ARITH_MINUI] = {integer_extremum, 3},
    [TSR_ARITH_MAXNUMF] = {largest_number, 0},
    [TSR_ARITH_CMPI] = {cmpi, 0},
    [TSR_ARITH_CMPF] = {cmpf, 0},
    [TSR_ARITH_SELECT] = {select_, 0},
    [TSR_ARITH_EXTSI] = {conversion, LLVMSExt},
    [TSR_ARITH_EXTUI] = {conversion, LLVMZExt},
    [TSR_ARITH_TRUNCI] = {conversion, LLVMTrunc},
    [TSR_ARITH_SITOFP] = {conversion, LLVMSIToFP},
    [TSR_ARITH_UITOFP] = {conversion, LLVMUIToFP},
    [TSR_ARITH_FPTOSI] = {fptosi, 0},
    [TSR_ARITH_EXTF] = {float_conversion, LLVMFPExt},
    [TSR_ARITH_TRUNCF] = {float_conversion, LLVMFPTrunc},
    [TSR_ARITH_BITCAST] = {conversion, LLVMBitCast},
    [TSR_ARITH_INDEX_CAST] = {index_cast, 0},
    [TSR_VECTOR_BROADCAST] = {broadcast, 0},
    [TSR_VECTOR_EXTRACT] = {extract, 0},
    [TSR_VECTOR_SHUFFLE] = {shuffle, 0},
    [TSR_VECTOR_EXTRACT_STRIDED_SLICE] = {slice, 0},
    [TSR_VECTOR_CREATE_MASK] = {create_mask, 0},
    [TSR_TILE_SHUFFLE] = {warp_shuffle, 0},
    [TSR_TILE_BUTTERFLY] = {butterfly, 0},
    [TSR_TILE_VOTE] = {vote, 0},
    [TSR_MATH_EXP] = {function, EXP},
    [TSR_MATH_EXPM1] = {function, EXPM1},
    [TSR_MATH_LOG] = {function, LOG},
    [TSR_MATH_LOG1P] = {function, LOG1P},
    [TSR_MATH_TANH] = {function, TANH},
    [TSR_MATH_ERF] = {function, ERF},
    [TSR_MATH_SIN] = {function, SIN},
    [TSR_MATH_COS] = {function, COS},
    [TSR_MATH_TAN] = {function, TAN},
    [TSR_MATH_ASIN] = {function, ASIN},
    [TSR_MATH_ACOS] = {function, ACOS},
    [TSR_MATH_ATAN] = {function, ATAN},
    [TSR_TILE_GELU] = {function, GELU},
    [TSR_MATH_ABSF] = {intrinsic_1, 0},
    [TSR_MATH_SQRT] = {intrinsic_1, 1},
    [TSR_MATH_FLOOR] = {intrinsic_1, 2},
    [TSR_MATH_CTPOP] = {intrinsic_1, 3},
    [TSR_MATH_CEIL] = {intrinsic_1, 4},
    [TSR_MATH_ROUNDEVEN] = {intrinsic_1, 5},
    [TSR_MATH_FMA] = {fma_, 0},
    [TSR_TILE_DOT] = {dot, 0},
    [TSR_TILE_DOT_BYTES] = {dot_bytes, 0},
    [TSR_MATH_POWF] = {powf_, 0},
    [TSR_MATH_FPOWI] = {fpowi, 0},
};

bool tsr_emit_ops_have(MlirOperation mlir) { return rows[tsr_op_of(mlir)].emit; }

tsr_result tsr_emit_op(tsr_emit *emit, MlirOperation mlir, bool *out_known) {
    const row *found = &rows[tsr_op_of(mlir)];
    *out_known = false;
    if (!found->emit) return TSR_SUCCESS;
    LLVMTypeRef type = tsr_emit_type(emit, mlirValueGetType(tsr_op_result(mlir, 0)));
    if (!type)
        FAIL(emit->ctx, TSR_INTERNAL, "%s has a type without machine code", tsr_op_name(mlir));
    op o = {emit, emit->builder, mlir, type, found->how};
    tsr_emit_set(emit, mlir, found->emit(&o));
    *out_known = true;
    return TSR_SUCCESS;
}
