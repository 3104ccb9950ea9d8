/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions, loops and memory accesses of Tile IR. A kernel becomes
 *
 *     void NAME(const tsr_kernel_args *args, int64_t begin, int64_t end) {
 *         load the buffer pointers
 *         for (program = begin; program < end; program++) body
 *     }
 */
#include "compiler/target/block/block.h"
#include "compiler/target/block/wave.h"
#include "compiler/target/llvm/lanes.h"
#include "compiler/target/llvm/warp.h"
#include "compiler/tile/attributes.h"
#include "runtime/base/kernel.h"

#include <llvm-c/DebugInfo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

static size_t slot_of(const tsr_emit *emit, const void *key) {
    size_t hash = (size_t)(((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u >> 20);
    size_t at = hash & (emit->slot_capacity - 1);
    while (emit->slots[at].key && emit->slots[at].key != key)
        at = (at + 1) & (emit->slot_capacity - 1);
    return at;
}

static void grow_slots(tsr_emit *emit) {
    tsr_emit_slot *old = emit->slots;
    size_t old_capacity = emit->slot_capacity;
    emit->slot_capacity = old_capacity ? old_capacity * 2 : 1024;
    emit->slots = calloc(emit->slot_capacity, sizeof *emit->slots);
    TSR_ASSERT(emit->slots); /* this is the child process: it may abort */
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].key) emit->slots[slot_of(emit, old[i].key)] = old[i];
    free(old);
}

void tsr_emit_bind(tsr_emit *emit, MlirValue value, LLVMValueRef llvm) {
    if (2 * emit->slot_count >= emit->slot_capacity) grow_slots(emit);
    size_t at = slot_of(emit, value.ptr);
    if (!emit->slots[at].key) emit->slot_count++;
    emit->slots[at] = (tsr_emit_slot){value.ptr, llvm};
}

bool tsr_emit_has(tsr_emit *emit, MlirValue value) {
    return emit->slot_count && emit->slots[slot_of(emit, value.ptr)].key;
}

LLVMValueRef tsr_emit_get(tsr_emit *emit, MlirValue value) {
    size_t at = slot_of(emit, value.ptr);
    TSR_ASSERT(emit->slots[at].key);
    return emit->slots[at].value;
}

LLVMValueRef tsr_emit_operand(tsr_emit *emit, MlirOperation op, size_t index) {
    return tsr_emit_get(emit, tsr_op_operand(op, index));
}

void tsr_emit_set(tsr_emit *emit, MlirOperation op, LLVMValueRef value) {
    tsr_emit_bind(emit, tsr_op_result(op, 0), value);
}

void tsr_emit_finish(tsr_emit *emit) { free(emit->slots); }

/* ---- types and constants --------------------------------------------------------------------- */

LLVMTypeRef tsr_emit_type(tsr_emit *emit, MlirType type) {
    if (mlirTypeIsAVector(type)) {
        LLVMTypeRef element = tsr_emit_type(emit, mlirShapedTypeGetElementType(type));
        if (!element || mlirShapedTypeGetRank(type) != 1) return NULL;
        unsigned count = (unsigned)mlirShapedTypeGetDimSize(type, 0);
        unsigned lanes = emit->lanes;
        return LLVMVectorType(element, lanes ? (count + lanes - 1) / lanes : count);
    }
    if (mlirTypeIsAMemRef(type)) return LLVMPointerTypeInContext(emit->llvm, 0);
    if (mlirTypeIsAIndex(type)) return LLVMInt64TypeInContext(emit->llvm);
    if (mlirTypeIsAF32(type)) return LLVMFloatTypeInContext(emit->llvm);
    if (mlirTypeIsAF64(type)) return LLVMDoubleTypeInContext(emit->llvm);
    /* Only stored, loaded and converted: llvm_narrow.c. */
    if (mlirTypeIsABF16(type) || mlirTypeIsAF16(type)) return LLVMInt16TypeInContext(emit->llvm);
    if (mlirTypeIsAInteger(type))
        return LLVMIntTypeInContext(emit->llvm, mlirIntegerTypeGetWidth(type));
    return NULL;
}

unsigned tsr_emit_lanes(LLVMTypeRef type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 0;
}

LLVMTypeRef tsr_emit_element(LLVMTypeRef type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

LLVMTypeRef tsr_emit_like(LLVMTypeRef element, LLVMTypeRef like) {
    unsigned lanes = tsr_emit_lanes(like);
    return lanes ? LLVMVectorType(element, lanes) : element;
}

static LLVMValueRef constant_splat(LLVMValueRef element, unsigned lanes) {
    LLVMValueRef elements[TSR_EMIT_LANES_MAX];
    TSR_ASSERT(lanes <= TSR_EMIT_LANES_MAX);
    if (!lanes) return element;
    for (unsigned i = 0; i < lanes; i++) elements[i] = element;
    return LLVMConstVector(elements, lanes);
}

LLVMValueRef tsr_emit_float(LLVMTypeRef type, double value) {
    return constant_splat(LLVMConstReal(tsr_emit_element(type), value), tsr_emit_lanes(type));
}

LLVMValueRef tsr_emit_int(LLVMTypeRef type, int64_t value) {
    LLVMValueRef element = LLVMConstInt(tsr_emit_element(type), (uint64_t)value, true);
    return constant_splat(element, tsr_emit_lanes(type));
}

LLVMValueRef tsr_emit_splat(tsr_emit *emit, LLVMValueRef scalar, unsigned lanes) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(emit->llvm);
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), lanes);
    LLVMValueRef one = LLVMBuildInsertElement(emit->builder, LLVMGetPoison(type), scalar,
                                              tsr_emit_int(i32, 0), "");
    return LLVMBuildShuffleVector(emit->builder, one, LLVMGetPoison(type),
                                  LLVMConstNull(LLVMVectorType(i32, lanes)), "");
}

LLVMValueRef tsr_emit_intrinsic(tsr_emit *emit, const char *name, const LLVMTypeRef *types,
                                unsigned type_count, LLVMValueRef *args, unsigned arg_count) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    TSR_ASSERT(id);
    LLVMTypeRef overloads[4];
    TSR_ASSERT(type_count <= 4);
    if (type_count) memcpy(overloads, types, type_count * sizeof *types);
    LLVMValueRef callee = LLVMGetIntrinsicDeclaration(emit->module, id, overloads, type_count);
    return LLVMBuildCall2(emit->builder, LLVMGlobalGetValueType(callee), callee, args, arg_count,
                          "");
}

LLVMValueRef tsr_emit_fma(tsr_emit *emit, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMTypeKind kind = LLVMGetTypeKind(tsr_emit_element(type));
    LLVMValueRef args[] = {a, b, c};
    if (kind == LLVMIntegerTypeKind)
        return LLVMBuildAdd(emit->builder, LLVMBuildMul(emit->builder, a, b, ""), c, "");
    if (emit->target->has_fma) return tsr_emit_intrinsic(emit, "llvm.fma", &type, 1, args, 3);
    return LLVMBuildFAdd(emit->builder, LLVMBuildFMul(emit->builder, a, b, ""), c, "");
}

LLVMBasicBlockRef tsr_emit_block(tsr_emit *emit, const char *name) {
    return LLVMAppendBasicBlockInContext(emit->llvm, emit->function, name);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static LLVMValueRef address(tsr_emit *emit, MlirValue buffer, MlirValue offset) {
    MlirType element = mlirShapedTypeGetElementType(mlirValueGetType(buffer));
    LLVMValueRef index = tsr_emit_get(emit, offset);
    /* Not "inbounds": a masked access may begin outside. */
    return LLVMBuildGEP2(emit->builder, tsr_emit_type(emit, element), tsr_emit_get(emit, buffer),
                         &index, 1, "");
}

unsigned tsr_emit_align(LLVMTypeRef type) {
    LLVMTypeRef element = tsr_emit_element(type);
    switch (LLVMGetTypeKind(element)) {
    case LLVMDoubleTypeKind:
        return 8;
    case LLVMFloatTypeKind:
        return 4;
    default:
        return LLVMGetIntTypeWidth(element) / 8;
    }
}

static void emit_load(tsr_emit *emit, MlirOperation op) {
    LLVMTypeRef type = tsr_emit_type(emit, mlirValueGetType(tsr_op_result(op, 0)));
    LLVMValueRef from = address(emit, tsr_op_operand(op, 0), tsr_op_operand(op, 1));
    LLVMValueRef value = NULL;
    if (tsr_op_operand_count(op) == 3) {
        LLVMTypeRef types[] = {type, LLVMTypeOf(from)};
        LLVMValueRef args[] = {from, tsr_emit_operand(emit, op, 2), LLVMConstNull(type)};
        value = tsr_emit_intrinsic(emit, "llvm.masked.load", types, 2, args, 3);
    } else {
        value = LLVMBuildLoad2(emit->builder, type, from, "");
        LLVMSetAlignment(value, tsr_emit_align(type));
    }
    tsr_emit_set(emit, op, value);
}

static void mark_streamed(tsr_emit *emit, LLVMValueRef store, LLVMTypeRef type) {
    enum { ALIGN_MAX = TSR_BUFFER_ALIGN_BYTES };
    static const char name[] = "nontemporal";
    LLVMTypeRef i32 = LLVMInt32TypeInContext(emit->llvm);
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(i32, 1, false));
    unsigned lanes = tsr_emit_lanes(type), size = (lanes ? lanes : 1) * tsr_emit_align(type);
    if (strncmp(emit->target->triple, "x86_64-", strlen("x86_64-")) != 0) return;
    LLVMSetAlignment(store, size < ALIGN_MAX ? size : ALIGN_MAX);
    LLVMSetMetadata(store, LLVMGetMDKindIDInContext(emit->llvm, name, sizeof name - 1),
                    LLVMMetadataAsValue(emit->llvm, LLVMMDNodeInContext2(emit->llvm, &one, 1)));
    emit->streams = true;
}

/* LLVM turns a store of either the old value or a new one into a masked store, which takes AVX2 a
 * dozen cycles. LLVM keeps a volatile store. */
static void forbid_masking(tsr_emit *emit, LLVMValueRef store, LLVMValueRef value) {
    enum { FAST_MASKS_BYTES = 64 };
    bool is_vector = LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMVectorTypeKind;
    if (!is_vector || emit->target->vector_bytes >= FAST_MASKS_BYTES || !LLVMIsASelectInst(value))
        return;
    for (unsigned i = 1; i < 3; i++)
        if (LLVMIsALoadInst(LLVMGetOperand(value, i))) LLVMSetVolatile(store, true);
}

static void emit_store(tsr_emit *emit, MlirOperation op) {
    LLVMValueRef value = tsr_emit_operand(emit, op, 0);
    LLVMTypeRef type = LLVMTypeOf(value);
    LLVMValueRef to = address(emit, tsr_op_operand(op, 1), tsr_op_operand(op, 2));
    if (tsr_op_operand_count(op) == 4) {
        LLVMTypeRef types[] = {type, LLVMTypeOf(to)};
        LLVMValueRef args[] = {value, to, tsr_emit_operand(emit, op, 3)};
        tsr_emit_intrinsic(emit, "llvm.masked.store", types, 2, args, 3);
        return;
    }
    LLVMValueRef store = LLVMBuildStore(emit->builder, value, to);
    LLVMSetAlignment(store, tsr_emit_align(type));
    forbid_masking(emit, store, value);
    if (tsr_op_has(op, "streamed")) mark_streamed(emit, store, type);
}

static void emit_prefetch(tsr_emit *emit, MlirOperation op) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(emit->llvm);
    LLVMValueRef at = address(emit, tsr_op_operand(op, 0), tsr_op_operand(op, 1));
    LLVMTypeRef types[] = {LLVMTypeOf(at)};
    enum { READ = 0, SECOND_LEVEL = 2, EVERY_LEVEL = 3, DATA = 1 };
    int level = tsr_op_has(op, "later") ? SECOND_LEVEL : EVERY_LEVEL;
    LLVMValueRef args[] = {at, tsr_emit_int(i32, READ), tsr_emit_int(i32, level),
                           tsr_emit_int(i32, DATA)};
    tsr_emit_intrinsic(emit, "llvm.prefetch", types, 1, args, 4);
}

static void emit_until_aligned(tsr_emit *emit, MlirOperation op) {
    LLVMTypeRef type = tsr_emit_type(emit, mlirValueGetType(tsr_op_result(op, 0)));
    MlirType element = mlirShapedTypeGetElementType(mlirValueGetType(tsr_op_operand(op, 0)));
    unsigned size = tsr_emit_align(tsr_emit_type(emit, element));
    LLVMValueRef at = address(emit, tsr_op_operand(op, 0), tsr_op_operand(op, 1));
    LLVMValueRef bytes =
        LLVMBuildNeg(emit->builder, LLVMBuildPtrToInt(emit->builder, at, type, ""), "");
    bytes = LLVMBuildAnd(emit->builder, bytes, tsr_emit_int(type, TSR_BUFFER_ALIGN_BYTES - 1), "");
    tsr_emit_set(emit, op, LLVMBuildUDiv(emit->builder, bytes, tsr_emit_int(type, size), ""));
}

static LLVMTypeRef array_type(tsr_emit *emit, MlirType buffer) {
    uint64_t count = 1;
    for (int64_t d = 0; d < mlirShapedTypeGetRank(buffer); d++)
        count *= (uint64_t)mlirShapedTypeGetDimSize(buffer, d);
    LLVMTypeRef element = tsr_emit_type(emit, mlirShapedTypeGetElementType(buffer));
    return LLVMArrayType2(element, count ? count : 1);
}

/* Allocates in the entry block, so that the programs of one call share it. */
static void emit_local(tsr_emit *emit, MlirOperation op) {
    LLVMTypeRef type = array_type(emit, mlirValueGetType(tsr_op_result(op, 0)));
    LLVMBasicBlockRef here = LLVMGetInsertBlock(emit->builder);
    LLVMPositionBuilderBefore(emit->builder, LLVMGetBasicBlockTerminator(emit->entry));
    LLVMValueRef local = LLVMBuildAlloca(emit->builder, type, "");
    LLVMSetAlignment(local, 64);
    LLVMPositionBuilderAtEnd(emit->builder, here);
    tsr_emit_set(emit, op, local);
}

/* MLIR stores a single element if all elements are equal. */
static LLVMValueRef constant_array(LLVMTypeRef element, MlirAttribute value, size_t count) {
    const char *data = mlirDenseElementsAttrGetRawData(value);
    size_t width = tsr_emit_align(element);
    if (!mlirDenseElementsAttrIsSplat(value))
        return LLVMConstDataArray(element, data, count * width);
    char *repeated = calloc(count, width);
    TSR_ASSERT(repeated); /* this is the child process: it may abort */
    for (size_t i = 0; i < count; i++) memcpy(repeated + i * width, data, width);
    LLVMValueRef array = LLVMConstDataArray(element, repeated, count * width);
    free(repeated);
    return array;
}

static void emit_constant(tsr_emit *emit, MlirOperation op) {
    LLVMTypeRef type = array_type(emit, mlirValueGetType(tsr_op_result(op, 0)));
    MlirAttribute value = tsr_op_attr(op, "value");
    size_t count = (size_t)mlirElementsAttrGetNumElements(value);
    LLVMValueRef data =
        count ? constant_array(LLVMGetElementType(type), value, count) : LLVMConstNull(type);
    unsigned space = emit->target->family == TSR_FAMILY_HIP ? TSR_LANES_GLOBAL : 0;
    LLVMValueRef global = LLVMAddGlobalInAddressSpace(emit->module, type, "constant", space);
    LLVMSetInitializer(global, data);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMInternalLinkage);
    LLVMSetAlignment(global, 64);
    if (space) global = LLVMConstAddrSpaceCast(global, LLVMPointerTypeInContext(emit->llvm, 0));
    tsr_emit_set(emit, op, global);
}

/* The cold half of check_index: keeps the first fault. All kernels share the function. */
static LLVMValueRef fault_function(tsr_emit *emit) {
    static const char name[] = "tsr_set_fault";
    LLVMValueRef function = LLVMGetNamedFunction(emit->module, name);
    if (function) return function;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMTypeRef params[] = {LLVMPointerTypeInContext(emit->llvm, 0), i64, i64, i64, i64};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(emit->llvm), params, 5, false);
    function = LLVMAddFunction(emit->module, name, type);
    LLVMSetLinkage(function, LLVMInternalLinkage);
    unsigned noinline_ = LLVMGetEnumAttributeKindForName("noinline", 8);
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(emit->llvm, noinline_, 0));
    LLVMBasicBlockRef here = LLVMGetInsertBlock(emit->builder);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(emit->llvm, function, "entry");
    LLVMBasicBlockRef first = LLVMAppendBasicBlockInContext(emit->llvm, function, "first");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(emit->llvm, function, "done");
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef record = LLVMGetParam(function, 0);
    LLVMPositionBuilderAtEnd(b, entry);
    LLVMValueRef kind = LLVMBuildLoad2(b, i64, record, "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, kind, tsr_emit_int(i64, 0), ""), first, done);
    LLVMPositionBuilderAtEnd(b, first);
    for (unsigned i = 0; i < 5; i++) { /* kind, argument, element, value, limit */
        LLVMValueRef at = tsr_emit_int(i64, i);
        LLVMBuildStore(b, i ? LLVMGetParam(function, i) : tsr_emit_int(i64, 1),
                       LLVMBuildInBoundsGEP2(b, i64, record, &at, 1, ""));
    }
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
    LLVMBuildRetVoid(b);
    LLVMPositionBuilderAtEnd(b, here);
    return function;
}

static void emit_check_index(tsr_emit *emit, MlirOperation op) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    int64_t argument = 0, limit = 0;
    bool known = tsr_op_i64(op, "argument", &argument) && tsr_op_i64(op, "limit", &limit);
    TSR_ASSERT(known);
    LLVMValueRef value = tsr_emit_operand(emit, op, 0);
    LLVMValueRef end =
        tsr_op_operand_count(op) > 2 ? tsr_emit_operand(emit, op, 2) : tsr_emit_int(i64, limit);
    LLVMValueRef valid = LLVMBuildICmp(b, LLVMIntULT, value, end, "");
    LLVMBasicBlockRef bad = tsr_emit_block(emit, "bad"), go_on = tsr_emit_block(emit, "checked");
    LLVMBuildCondBr(b, valid, go_on, bad);
    LLVMValueRef function = fault_function(emit);
    LLVMPositionBuilderAtEnd(b, bad);
    LLVMValueRef args[] = {emit->fault, tsr_emit_int(i64, argument), tsr_emit_operand(emit, op, 1),
                           value, end};
    LLVMBuildCall2(b, LLVMGlobalGetValueType(function), function, args, 5, "");
    LLVMBuildBr(b, go_on);
    LLVMPositionBuilderAtEnd(b, go_on);
    tsr_emit_set(emit, op, valid);
}

static void emit_gather(tsr_emit *emit, MlirOperation op) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef type = tsr_emit_type(emit, mlirValueGetType(tsr_op_result(op, 0)));
    LLVMTypeRef element = tsr_emit_element(type), i32 = LLVMInt32TypeInContext(emit->llvm);
    LLVMValueRef buffer = tsr_emit_operand(emit, op, 0), offsets = tsr_emit_operand(emit, op, 1);
    LLVMValueRef result = LLVMGetPoison(type);
    for (unsigned i = 0; i < LLVMGetVectorSize(type); i++) {
        LLVMValueRef lane = tsr_emit_int(i32, i);
        LLVMValueRef index = LLVMBuildExtractElement(b, offsets, lane, "");
        LLVMValueRef from = LLVMBuildGEP2(b, element, buffer, &index, 1, "");
        result = LLVMBuildInsertElement(b, result, LLVMBuildLoad2(b, element, from, ""), lane, "");
    }
    tsr_emit_set(emit, op, result);
}

static void emit_scatter(tsr_emit *emit, MlirOperation op) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef value = tsr_emit_operand(emit, op, 0), buffer = tsr_emit_operand(emit, op, 1);
    LLVMValueRef offsets = tsr_emit_operand(emit, op, 2);
    LLVMTypeRef type = LLVMTypeOf(value), i32 = LLVMInt32TypeInContext(emit->llvm);
    for (unsigned i = 0; i < LLVMGetVectorSize(type); i++) {
        LLVMValueRef lane = tsr_emit_int(i32, i);
        LLVMValueRef index = LLVMBuildExtractElement(b, offsets, lane, "");
        LLVMValueRef to = LLVMBuildGEP2(b, tsr_emit_element(type), buffer, &index, 1, "");
        LLVMBuildStore(b, LLVMBuildExtractElement(b, value, lane, ""), to);
    }
}

static void emit_view(tsr_emit *emit, MlirOperation op) {
    tsr_emit_set(emit, op, tsr_emit_operand(emit, op, 0));
}

/* One thread runs a program: a barrier does nothing. */
static void emit_barrier(tsr_emit *emit, MlirOperation op) { (void)emit, (void)op; }

/* ---- loops ----------------------------------------------------------------------------------- */

static void set_metadata(tsr_emit *emit, LLVMValueRef branch, const char *name,
                         LLVMMetadataRef node) {
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(emit->llvm, name, (unsigned)strlen(name)),
                    LLVMMetadataAsValue(emit->llvm, node));
}

static LLVMMetadataRef text_of(tsr_emit *emit, const char *text) {
    return LLVMMDStringInContext2(emit->llvm, text, strlen(text));
}

/* Marks a rarely taken branch: registers are spilled inside, not around it. */
static void mark_rare(tsr_emit *emit, LLVMValueRef branch) {
    enum { MOSTLY = 1 << 20 };
    LLVMTypeRef i32 = LLVMInt32TypeInContext(emit->llvm);
    LLVMMetadataRef parts[] = {text_of(emit, "branch_weights"),
                               LLVMValueAsMetadata(LLVMConstInt(i32, 1, false)),
                               LLVMValueAsMetadata(LLVMConstInt(i32, MOSTLY, false))};
    set_metadata(emit, branch, "prof", LLVMMDNodeInContext2(emit->llvm, parts, 3));
}

/* Marks the back edge of a loop that is not unrolled or vectorized, so that it takes few registers.
 * Such a node has itself as its first part. */
static void mark_rolled(tsr_emit *emit, LLVMValueRef branch) {
    LLVMTypeRef truth = LLVMInt1TypeInContext(emit->llvm);
    LLVMMetadataRef unroll = text_of(emit, "llvm.loop.unroll.disable");
    LLVMMetadataRef vectors[] = {text_of(emit, "llvm.loop.vectorize.enable"),
                                 LLVMValueAsMetadata(LLVMConstInt(truth, 0, false))};
    LLVMMetadataRef itself = LLVMTemporaryMDNode(emit->llvm, NULL, 0);
    LLVMMetadataRef parts[] = {itself, LLVMMDNodeInContext2(emit->llvm, &unroll, 1),
                               LLVMMDNodeInContext2(emit->llvm, vectors, 2)};
    LLVMMetadataRef node = LLVMMDNodeInContext2(emit->llvm, parts, 3);
    LLVMMetadataReplaceAllUsesWith(itself, node);
    set_metadata(emit, branch, "llvm.loop", node);
}

/* if (index < high) do { … } while ((index += step) < high); values: the index and the carried
 * values, which merge at the end. */
static tsr_result emit_rounds(tsr_emit *emit, MlirOperation op, LLVMValueRef high,
                              LLVMValueRef *values) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef phis[TSR_EMIT_CARRIED_MAX + 1];
    size_t carried = tsr_op_result_count(op);
    MlirBlock body = tsr_op_body(op);
    LLVMValueRef step = tsr_emit_operand(emit, op, 2);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMBasicBlockRef loop = tsr_emit_block(emit, "loop"), done = tsr_emit_block(emit, "done");
    LLVMValueRef enters = LLVMBuildICmp(b, LLVMIntSLT, values[0], high, "");
    LLVMValueRef branch = LLVMBuildCondBr(b, enters, loop, done);
    if (tsr_op_has(op, TSR_RARE_NAME)) mark_rare(emit, branch);
    LLVMPositionBuilderAtEnd(b, loop);
    for (size_t i = 0; i <= carried; i++) {
        phis[i] = LLVMBuildPhi(b, LLVMTypeOf(values[i]), "");
        tsr_emit_bind(emit, mlirBlockGetArgument(body, (intptr_t)i), phis[i]);
    }
    emit->loaded = emit->stored = true; /* by the previous iteration */
    if (emit->block) tsr_block_enter_loop(emit, op);
    TRY(emit->ctx, tsr_emit_ops(emit, body));
    emit->loaded = emit->stored = true;
    MlirOperation yield = mlirBlockGetTerminator(body);
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(b);
    LLVMValueRef next = LLVMBuildNSWAdd(b, phis[0], step, "");
    LLVMValueRef goes_on = LLVMBuildICmp(b, LLVMIntSLT, next, high, "");
    branch = LLVMBuildCondBr(b, goes_on, loop, done);
    if (tsr_op_has(op, TSR_RARE_NAME)) mark_rolled(emit, branch);
    LLVMPositionBuilderAtEnd(b, done);
    LLVMBasicBlockRef from[] = {before, latch};
    for (size_t i = 0; i <= carried; i++) {
        LLVMValueRef both[] = {values[i], i ? tsr_emit_operand(emit, yield, i - 1) : next};
        LLVMAddIncoming(phis[i], both, from, 2);
        values[i] = LLVMBuildPhi(b, LLVMTypeOf(values[i]), "");
        LLVMAddIncoming(values[i], both, from, 2);
    }
    return TSR_SUCCESS;
}

static tsr_result emit_for(tsr_emit *emit, MlirOperation op) {
    LLVMValueRef values[TSR_EMIT_CARRIED_MAX + 1], high = tsr_emit_operand(emit, op, 1);
    size_t carried = tsr_op_result_count(op);
    TSR_ASSERT(carried <= TSR_EMIT_CARRIED_MAX);
    values[0] = tsr_emit_operand(emit, op, 0);
    for (size_t i = 0; i < carried; i++) values[i + 1] = tsr_emit_operand(emit, op, 3 + i);
    if (emit->block && emit->block->waves)
        TRY(emit->ctx, tsr_wave_before_loop(emit, op));
    else if (emit->block)
        tsr_block_before_loop(emit, op);
    uint32_t tail = emit->block ? tsr_block_tail(emit, op) : 0;
    if (tail) {
        LLVMValueRef count = tsr_emit_int(LLVMTypeOf(high), tail);
        TRY(emit->ctx, emit_rounds(emit, op, LLVMBuildSub(emit->builder, high, count, ""), values));
        tsr_block_follow(emit, true);
    }
    TRY(emit->ctx, emit_rounds(emit, op, high, values));
    if (tail) tsr_block_follow(emit, false);
    for (size_t i = 0; i < carried; i++) tsr_emit_bind(emit, tsr_op_result(op, i), values[i + 1]);
    if (emit->block) tsr_block_after_loop(emit, op);
    return TSR_SUCCESS;
}

typedef void (*emit_fn)(tsr_emit *emit, MlirOperation op);
static const emit_fn rows[TSR_OP_COUNT] = {[TSR_TILE_LOAD] = emit_load,
                                           [TSR_TILE_STORE] = emit_store,
                                           [TSR_TILE_PREFETCH] = emit_prefetch,
                                           [TSR_TILE_LOCAL] = emit_local,
                                           [TSR_TILE_CONSTANT] = emit_constant,
                                           [TSR_TILE_CHECK_INDEX] = emit_check_index,
                                           [TSR_TILE_GATHER] = emit_gather,
                                           [TSR_TILE_SCATTER] = emit_scatter,
                                           [TSR_TILE_VIEW] = emit_view,
                                           [TSR_TILE_BARRIER] = emit_barrier,
                                           [TSR_TILE_UNTIL_ALIGNED] = emit_until_aligned,
                                           [TSR_TILE_SEGMENT] = tsr_emit_segment};

bool tsr_emit_func_has(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    switch (id) {
    case TSR_SCF_FOR:
    case TSR_SCF_YIELD:
    case TSR_TILE_RETURN:
    case TSR_TILE_YIELD:
    case TSR_TILE_PROGRAM_ID:
    case TSR_TILE_PROGRAM_END:
        return true;
    default:
        return rows[id];
    }
}

static tsr_result emit_op(tsr_emit *emit, MlirOperation op) {
    bool known = false;
    tsr_op id = tsr_op_of(op);
    if (id == TSR_SCF_YIELD || id == TSR_TILE_RETURN || id == TSR_TILE_YIELD) return TSR_SUCCESS;
    if (id == TSR_SCF_FOR) return emit_for(emit, op);
    if (emit->block) {
        TRY(emit->ctx, emit->block->waves ? tsr_emit_wave_op(emit, op, &known)
                                          : tsr_emit_block_op(emit, op, &known));
        if (known) return TSR_SUCCESS;
    }
    if (emit->target->warp_lanes) {
        TRY(emit->ctx, tsr_emit_warp_op(emit, op, &known));
        if (known) return TSR_SUCCESS;
    }
    if (rows[id]) {
        rows[id](emit, op);
        return TSR_SUCCESS;
    }
    if (id == TSR_TILE_PROGRAM_ID) {
        tsr_emit_set(emit, op, emit->program);
        return TSR_SUCCESS;
    }
    if (id == TSR_TILE_PROGRAM_END) {
        tsr_emit_set(emit, op, LLVMGetParam(emit->function, 2));
        emit->at_once = true;
        return TSR_SUCCESS;
    }
    TRY(emit->ctx, tsr_emit_op(emit, op, &known));
    if (!known)
        FAIL(emit->ctx, TSR_INTERNAL, "kernel '%s': no machine code for %s", emit->kernel,
             tsr_op_name(op));
    return TSR_SUCCESS;
}

tsr_result tsr_emit_ops(tsr_emit *emit, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) TRY(emit->ctx, emit_op(emit, op));
    return TSR_SUCCESS;
}

tsr_result tsr_emit_ops_before(tsr_emit *emit, MlirOperation end) {
    TSR_FOR_EACH_OP(op, mlirOperationGetBlock(end)) {
        if (mlirOperationEqual(op, end)) break;
        TRY(emit->ctx, emit_op(emit, op));
    }
    return TSR_SUCCESS;
}

/* ---- functions ------------------------------------------------------------------------------- */

static void set_attributes(tsr_emit *emit) {
    char width[16];
    snprintf(width, sizeof width, "%u", emit->target->vector_bytes * 8);
    const char *texts[][2] = {{"target-cpu", emit->target->cpu},
                              {"target-features", emit->target->features},
                              {"prefer-vector-width", width}};
    LLVMAttributeIndex at = (LLVMAttributeIndex)LLVMAttributeFunctionIndex;
    for (size_t i = 0; i < 3; i++)
        LLVMAddAttributeAtIndex(
            emit->function, at,
            LLVMCreateStringAttribute(emit->llvm, texts[i][0], (unsigned)strlen(texts[i][0]),
                                      texts[i][1], (unsigned)strlen(texts[i][1])));
    unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
    LLVMAddAttributeAtIndex(emit->function, at, LLVMCreateEnumAttribute(emit->llvm, nounwind, 0));
    if (emit->target->warp_lanes) return;
    /* Otherwise spilled registers may cross cache lines, depending on the alignment of the caller's
     * stack. */
    unsigned aligned = LLVMGetEnumAttributeKindForName("alignstack", 10);
    uint64_t bytes = emit->target->vector_bytes;
    LLVMAddAttributeAtIndex(emit->function, at,
                            LLVMCreateEnumAttribute(emit->llvm, aligned, bytes));
}

/* Loads the pointers of the arguments, and the fault record. */
static void load_arguments(tsr_emit *emit, MlirBlock body) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef pointer = LLVMPointerTypeInContext(emit->llvm, 0);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMValueRef args = LLVMGetParam(emit->function, 0);
    LLVMValueRef buffers = LLVMBuildLoad2(b, pointer, args, "buffers"), one = tsr_emit_int(i64, 1);
    LLVMValueRef fault_at = LLVMBuildInBoundsGEP2(b, pointer, args, &one, 1, "");
    emit->fault = LLVMBuildLoad2(b, pointer, fault_at, "fault");
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++) {
        LLVMValueRef index = tsr_emit_int(i64, i);
        LLVMValueRef at = LLVMBuildInBoundsGEP2(b, pointer, buffers, &index, 1, "");
        tsr_emit_bind(emit, mlirBlockGetArgument(body, i), LLVMBuildLoad2(b, pointer, at, ""));
    }
}

static tsr_result emit_func(tsr_emit *emit, MlirOperation op) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMTypeRef params[] = {LLVMPointerTypeInContext(emit->llvm, 0), i64, i64};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(emit->llvm), params, 3, false);
    MlirBlock body = tsr_op_body(op);
    if (LLVMGetNamedFunction(emit->module, emit->kernel))
        FAIL(emit->ctx, TSR_INTERNAL, "kernel '%s' is defined twice", emit->kernel);
    emit->function = LLVMAddFunction(emit->module, emit->kernel, type);
    emit->streams = emit->at_once = false;
    set_attributes(emit);
    emit->entry = tsr_emit_block(emit, "entry");
    LLVMBasicBlockRef loop = tsr_emit_block(emit, "program");
    LLVMBasicBlockRef done = tsr_emit_block(emit, "end");
    LLVMPositionBuilderAtEnd(b, emit->entry);
    load_arguments(emit, body);
    LLVMValueRef begin = LLVMGetParam(emit->function, 1), end = LLVMGetParam(emit->function, 2);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, begin, end, ""), loop, done);
    LLVMPositionBuilderAtEnd(b, loop);
    emit->program = LLVMBuildPhi(b, i64, "program");
    TRY(emit->ctx, tsr_emit_ops(emit, body));
    LLVMValueRef next =
        emit->at_once ? end : LLVMBuildNSWAdd(b, emit->program, tsr_emit_int(i64, 1), "");
    LLVMValueRef values[] = {begin, next};
    LLVMBasicBlockRef from[] = {emit->entry, LLVMGetInsertBlock(b)};
    LLVMAddIncoming(emit->program, values, from, 2);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, next, end, ""), loop, done);
    LLVMMoveBasicBlockAfter(done, LLVMGetLastBasicBlock(emit->function));
    LLVMPositionBuilderAtEnd(b, done);
    /* Non-temporal stores need a fence before other threads learn that the kernel is done. */
    if (emit->streams) tsr_emit_intrinsic(emit, "llvm.x86.sse.sfence", NULL, 0, NULL, 0);
    LLVMBuildRetVoid(b);
    return TSR_SUCCESS;
}

tsr_result tsr_emit_module(tsr_emit *emit, MlirModule module, char *note, size_t note_size,
                           tsr_fatbin_kernel *launches) {
    size_t count = 0;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (!tsr_op_is(op, TSR_TILE_FUNC))
            FAIL(emit->ctx, TSR_INTERNAL, "%s between the kernels", tsr_op_name(op));
        emit->kernel = tsr_op_symbol(op);
        snprintf(note, note_size, "%s", emit->kernel);
        TRY(emit->ctx, tsr_emit_check(emit, op));
        emit->slot_count = 0;
        if (emit->slots) memset(emit->slots, 0, emit->slot_capacity * sizeof *emit->slots);
        TRY(emit->ctx, emit->target->warp_lanes ? tsr_emit_warp_func(emit, op, &launches[count++])
                                                : emit_func(emit, op));
    }
    return TSR_SUCCESS;
}
