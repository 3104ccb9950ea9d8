/* SPDX-License-Identifier: Apache-2.0
 *
 *     kernel NAME(ptr buffer…, ptr fault, ptr scratch, i64 grid) {
 *         for (program = block * P + warp; program < grid; program += blocks * P) body
 *     }
 *
 * Local buffers: llvm_local.c.
 */
#include "compiler/target/llvm/warp.h"

#include "compiler/target/block/block.h"
#include "compiler/target/block/wave.h"
#include "compiler/target/llvm/lanes.h"
#include "compiler/tile/attributes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    REGISTERS_MAX = 256, /* registers of a lane, for a vector */
    ELEMENTS_MAX = REGISTERS_MAX * 32,
    FAULT_FIELDS = 5,
};

static LLVMTypeRef i32_of(tsr_emit *emit) { return LLVMInt32TypeInContext(emit->llvm); }
static LLVMTypeRef i64_of(tsr_emit *emit) { return LLVMInt64TypeInContext(emit->llvm); }

static unsigned lanes_of(const tsr_emit *emit) { return emit->lanes; }

/* Elements of a vector, 0 for a scalar. */
static unsigned elements_of(MlirType type) {
    return mlirTypeIsAVector(type) ? (unsigned)mlirShapedTypeGetDimSize(type, 0) : 0;
}

static LLVMValueRef get_register(tsr_emit *emit, LLVMValueRef vector, unsigned index) {
    return LLVMBuildExtractElement(emit->builder, vector, tsr_emit_int(i32_of(emit), index), "");
}

static LLVMValueRef set_register(tsr_emit *emit, LLVMValueRef vector, LLVMValueRef value,
                                 unsigned index) {
    return LLVMBuildInsertElement(emit->builder, vector, value, tsr_emit_int(i32_of(emit), index),
                                  "");
}

/* ---- between lanes --------------------------------------------------------------------------- */

/* The word of lane number `lane`, or with `butterfly` of lane number (own number xor `lane`). */
static LLVMValueRef exchange_word(tsr_emit *emit, LLVMValueRef word, LLVMValueRef lane,
                                  bool butterfly) {
    const tsr_lanes *lanes = tsr_lanes_of(emit);
    return (butterfly ? lanes->butterfly : lanes->shuffle)(emit, word, lane);
}

/* The value in lane `lane` (i32, may differ between lanes); see exchange_word. */
static LLVMValueRef exchange_value(tsr_emit *emit, LLVMValueRef value, LLVMValueRef lane,
                                   bool butterfly) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef type = LLVMTypeOf(value), i32 = i32_of(emit), i64 = i64_of(emit);
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    if (kind == LLVMFloatTypeKind) {
        LLVMValueRef word = LLVMBuildBitCast(b, value, i32, "");
        return LLVMBuildBitCast(b, exchange_word(emit, word, lane, butterfly), type, "");
    }
    bool wide = kind == LLVMDoubleTypeKind ||
                (kind == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(type) == 64);
    if (!wide) {
        LLVMValueRef word = LLVMBuildZExtOrBitCast(b, value, i32, "");
        return LLVMBuildTruncOrBitCast(b, exchange_word(emit, word, lane, butterfly), type, "");
    }
    LLVMValueRef bits = LLVMBuildBitCast(b, value, i64, ""), shift = tsr_emit_int(i64, 32);
    LLVMValueRef low = exchange_word(emit, LLVMBuildTrunc(b, bits, i32, ""), lane, butterfly);
    LLVMValueRef high = exchange_word(
        emit, LLVMBuildTrunc(b, LLVMBuildLShr(b, bits, shift, ""), i32, ""), lane, butterfly);
    high = LLVMBuildShl(b, LLVMBuildZExt(b, high, i64, ""), shift, "");
    bits = LLVMBuildOr(b, LLVMBuildZExt(b, low, i64, ""), high, "");
    return LLVMBuildBitCast(b, bits, type, "");
}

static LLVMValueRef shuffle_value(tsr_emit *emit, LLVMValueRef value, LLVMValueRef lane) {
    return exchange_value(emit, value, lane, false);
}

/* Tables with the same contents share one global, whose name encodes the contents. */
static LLVMValueRef table_global(tsr_emit *emit, LLVMTypeRef type, const int32_t *values,
                                 unsigned count) {
    char name[16 + 64 * 12] = "lanes";
    size_t at = strlen(name);
    for (unsigned i = 0; i < count; i++)
        at += (size_t)snprintf(name + at, sizeof name - at, "_%x", (unsigned)values[i]);
    LLVMValueRef global = LLVMGetNamedGlobal(emit->module, name);
    if (global) return global;
    global = LLVMAddGlobalInAddressSpace(emit->module, type, name, TSR_LANES_GLOBAL);
    LLVMSetInitializer(global, LLVMConstDataArray(i32_of(emit), (const char *)values, count * 4));
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMInternalLinkage);
    LLVMSetAlignment(global, 4);
    return global;
}

/* Returns for each lane its own element of `values`, as an i32. */
static LLVMValueRef lane_table(tsr_emit *emit, const int32_t *values) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i32 = i32_of(emit);
    unsigned count = lanes_of(emit);
    int64_t step = (int64_t)values[1] - values[0];
    bool same = true, rising = step == (int32_t)step, mirrored = true;
    for (unsigned i = 1; i < count; i++) {
        same = same && values[i] == values[0];
        rising = rising && values[i] == values[0] + i * step;
        mirrored = mirrored && values[i] == (values[0] ^ (int32_t)i);
    }
    if (same) return tsr_emit_int(i32, values[0]);
    if (rising)
        return LLVMBuildAdd(b, LLVMBuildMul(b, emit->lane, tsr_emit_int(i32, step), ""),
                            tsr_emit_int(i32, values[0]), "");
    if (mirrored) return LLVMBuildXor(b, emit->lane, tsr_emit_int(i32, values[0]), "");
    LLVMTypeRef type = LLVMArrayType2(i32, count);
    LLVMValueRef global = table_global(emit, type, values, count);
    LLVMValueRef at[] = {tsr_emit_int(i32, 0), emit->lane};
    return LLVMBuildLoad2(b, i32, LLVMBuildInBoundsGEP2(b, type, global, at, 2, ""), "");
}

/* One register of a shuffle's result: element e of the result is element from[e] of x (x_count of
 * them) followed by y. */
static LLVMValueRef gather_register(tsr_emit *emit, LLVMValueRef x, unsigned x_count,
                                    LLVMValueRef y, const int64_t *from, unsigned count) {
    LLVMBuilderRef b = emit->builder;
    unsigned lanes = lanes_of(emit);
    int32_t source[64], lane[64];
    bool stays = true;
    TSR_ASSERT(lanes <= 64 && count <= lanes);
    for (unsigned i = 0; i < lanes; i++) {
        int64_t element = from[i < count ? i : 0];
        bool second = element >= (int64_t)x_count;
        int64_t at = second ? element - x_count : element;
        source[i] = (int32_t)(at / lanes) + (second ? REGISTERS_MAX : 0);
        lane[i] = (int32_t)(at % lanes);
        stays = stays && lane[i] == (int32_t)i;
    }
    LLVMValueRef lane_value = stays ? NULL : lane_table(emit, lane);
    LLVMValueRef source_value = NULL, result = NULL;
    for (unsigned i = 0; i < lanes; i++) {
        bool seen = false;
        for (unsigned k = 0; k < i; k++) seen = seen || source[k] == source[i];
        if (seen) continue;
        LLVMValueRef value = get_register(emit, source[i] >= REGISTERS_MAX ? y : x,
                                          (unsigned)source[i] % REGISTERS_MAX);
        if (lane_value) value = shuffle_value(emit, value, lane_value);
        if (!result) {
            result = value;
            continue;
        }
        if (!source_value) source_value = lane_table(emit, source);
        LLVMValueRef mine =
            LLVMBuildICmp(b, LLVMIntEQ, source_value, tsr_emit_int(i32_of(emit), source[i]), "");
        result = LLVMBuildSelect(b, mine, value, result, "");
    }
    return result;
}

static void emit_gather(tsr_emit *emit, MlirOperation op, LLVMValueRef x, unsigned x_count,
                        LLVMValueRef y, const int64_t *from) {
    MlirType result_type = mlirValueGetType(tsr_op_result(op, 0));
    LLVMTypeRef type = tsr_emit_type(emit, result_type);
    LLVMValueRef result = LLVMGetPoison(type);
    unsigned count = elements_of(result_type), lanes = lanes_of(emit);
    for (unsigned r = 0; r * lanes < count; r++) {
        unsigned part = count - r * lanes < lanes ? count - r * lanes : lanes;
        result = set_register(emit, result,
                              gather_register(emit, x, x_count, y, from + r * lanes, part), r);
    }
    tsr_emit_set(emit, op, result);
}

static void emit_shuffle(tsr_emit *emit, MlirOperation op) {
    int64_t from[ELEMENTS_MAX];
    size_t count = 0;
    bool known = tsr_op_i64s(op, "mask", ELEMENTS_MAX, from, &count);
    TSR_ASSERT(known);
    emit_gather(emit, op, tsr_emit_operand(emit, op, 0),
                elements_of(mlirValueGetType(tsr_op_operand(op, 0))), tsr_emit_operand(emit, op, 1),
                from);
}

/* True and set if the result is whole registers of x, from element `begin` on. */
static bool slice_registers(tsr_emit *emit, MlirOperation op, LLVMValueRef x, unsigned begin) {
    MlirType type = mlirValueGetType(tsr_op_result(op, 0));
    unsigned lanes = lanes_of(emit), count = elements_of(type) / lanes;
    if (begin % lanes || elements_of(type) % lanes) return false;
    LLVMValueRef result = LLVMGetPoison(tsr_emit_type(emit, type));
    for (unsigned r = 0; r < count; r++)
        result = set_register(emit, result, get_register(emit, x, begin / lanes + r), r);
    tsr_emit_set(emit, op, result);
    return true;
}

static void emit_slice(tsr_emit *emit, MlirOperation op) {
    int64_t begin = 0, from[ELEMENTS_MAX];
    size_t count = 0;
    bool known = tsr_op_i64s(op, "offsets", 1, &begin, &count);
    TSR_ASSERT(known);
    for (int i = 0; i < ELEMENTS_MAX; i++) from[i] = begin + i;
    LLVMValueRef x = tsr_emit_operand(emit, op, 0);
    if (slice_registers(emit, op, x, (unsigned)begin)) return;
    emit_gather(emit, op, x, elements_of(mlirValueGetType(tsr_op_operand(op, 0))), x, from);
}

static void emit_extract(tsr_emit *emit, MlirOperation op) {
    int64_t element = 0;
    size_t count = 0;
    bool known = tsr_op_i64s(op, "static_position", 1, &element, &count);
    TSR_ASSERT(known && count == 1);
    LLVMValueRef value =
        get_register(emit, tsr_emit_operand(emit, op, 0), (unsigned)element / lanes_of(emit));
    tsr_emit_set(emit, op,
                 shuffle_value(emit, value, tsr_emit_int(i32_of(emit), element % lanes_of(emit))));
}

/* Returns for each lane its own element of `numbers`, as an integer of this type. */
static LLVMValueRef lane_integers(tsr_emit *emit, const int64_t *numbers, LLVMTypeRef type) {
    LLVMBuilderRef b = emit->builder;
    int32_t low[64], high[64];
    bool fits = true;
    for (unsigned i = 0; i < lanes_of(emit); i++) {
        low[i] = (int32_t)(uint32_t)numbers[i];
        high[i] = (int32_t)(numbers[i] >> 32);
        fits = fits && numbers[i] == low[i];
    }
    LLVMValueRef value = LLVMBuildIntCast2(b, lane_table(emit, low), type, fits, "");
    if (fits) return value;
    LLVMValueRef upper = LLVMBuildIntCast2(b, lane_table(emit, high), type, true, "");
    return LLVMBuildOr(b, LLVMBuildShl(b, upper, tsr_emit_int(type, 32), ""), value, "");
}

/* Integers that are not all equal, such as lane numbers. */
static bool emit_constant(tsr_emit *emit, MlirOperation op) {
    MlirAttribute value = tsr_op_attr(op, "value");
    if (!mlirAttributeIsADenseElements(value) || mlirDenseElementsAttrIsSplat(value)) return false;
    MlirType type = mlirValueGetType(tsr_op_result(op, 0));
    LLVMTypeRef llvm = tsr_emit_type(emit, type);
    LLVMTypeRef element = tsr_emit_element(llvm);
    LLVMValueRef result = LLVMGetPoison(llvm);
    unsigned count = elements_of(type), lanes = lanes_of(emit);
    for (unsigned r = 0; r * lanes < count; r++) {
        int64_t numbers[64];
        for (unsigned i = 0; i < lanes; i++) {
            unsigned at = r * lanes + i < count ? r * lanes + i : count - 1;
            numbers[i] = tsr_emit_int_element(value, mlirShapedTypeGetElementType(type), at);
        }
        result = set_register(emit, result, lane_integers(emit, numbers, element), r);
    }
    tsr_emit_set(emit, op, result);
    return true;
}

/* tile.shuffle and tile.butterfly: the elements of a register are those of a warp. */
static void exchange_registers(tsr_emit *emit, MlirOperation op, LLVMValueRef lanes,
                               bool butterfly) {
    LLVMValueRef x = tsr_emit_operand(emit, op, 0), result = LLVMGetPoison(LLVMTypeOf(x));
    for (unsigned r = 0; r < LLVMGetVectorSize(LLVMTypeOf(x)); r++) {
        LLVMValueRef lane = butterfly ? lanes : get_register(emit, lanes, r);
        result = set_register(emit, result,
                              exchange_value(emit, get_register(emit, x, r), lane, butterfly), r);
    }
    tsr_emit_set(emit, op, result);
}

static void emit_lane_shuffle(tsr_emit *emit, MlirOperation op) {
    exchange_registers(emit, op, tsr_emit_operand(emit, op, 1), false);
}

static void emit_butterfly(tsr_emit *emit, MlirOperation op) {
    int64_t distance = 0;
    bool known = tsr_op_i64(op, "distance", &distance);
    TSR_ASSERT(known);
    exchange_registers(emit, op, tsr_emit_int(i32_of(emit), distance), true);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Element number of this lane's register r, as an i64. */
static LLVMValueRef element_number(tsr_emit *emit, unsigned r) {
    return LLVMBuildAdd(emit->builder, LLVMBuildZExt(emit->builder, emit->lane, i64_of(emit), ""),
                        tsr_emit_int(i64_of(emit), (int64_t)r * lanes_of(emit)), "");
}

static void emit_step(tsr_emit *emit, MlirOperation op) {
    MlirType type = mlirValueGetType(tsr_op_result(op, 0));
    LLVMValueRef result = LLVMGetPoison(tsr_emit_type(emit, type));
    for (unsigned r = 0; r * lanes_of(emit) < elements_of(type); r++)
        result = set_register(emit, result, element_number(emit, r), r);
    tsr_emit_set(emit, op, result);
}

/* The same for blocked elements. */
LLVMValueRef tsr_emit_blocked_number(tsr_emit *emit, unsigned r) {
    int64_t whole = (int64_t)lanes_of(emit) * TSR_BLOCKED_RUN;
    int64_t part = (int64_t)r / TSR_BLOCKED_RUN * whole + r % TSR_BLOCKED_RUN;
    LLVMValueRef lane = LLVMBuildZExt(emit->builder, emit->lane, i64_of(emit), "");
    LLVMValueRef first =
        LLVMBuildMul(emit->builder, lane, tsr_emit_int(i64_of(emit), TSR_BLOCKED_RUN), "");
    return LLVMBuildAdd(emit->builder, first, tsr_emit_int(i64_of(emit), part), "");
}

static void emit_create_mask(tsr_emit *emit, MlirOperation op) {
    bool blocked = tsr_op_has(op, TSR_BLOCKED_NAME);
    MlirType type = mlirValueGetType(tsr_op_result(op, 0));
    LLVMValueRef count = tsr_emit_operand(emit, op, 0);
    LLVMValueRef result = LLVMGetPoison(tsr_emit_type(emit, type));
    for (unsigned r = 0; r * lanes_of(emit) < elements_of(type); r++)
        result = set_register(
            emit, result,
            LLVMBuildICmp(emit->builder, LLVMIntSLT,
                          blocked ? tsr_emit_blocked_number(emit, r) : element_number(emit, r),
                          count, ""),
            r);
    tsr_emit_set(emit, op, result);
}

/* Makes the writes of the program's lanes visible to each other. */
static void warp_barrier(tsr_emit *emit) {
    tsr_emit_program_barrier(emit);
    emit->loaded = emit->stored = false;
}

/* True if some lane may read the writes of another: local buffers, and arguments that the kernel
 * both loads and stores. With a barrier that takes no time, also if some lane may overwrite the
 * writes of another: arguments that several ops store. */
static bool is_exchanged(const tsr_emit *emit, MlirValue buffer) {
    if (!mlirValueIsABlockArgument(buffer))
        return tsr_op_is(mlirOpResultGetOwner(buffer), TSR_TILE_LOCAL) && !tsr_emit_is_own(buffer);
    intptr_t index = mlirBlockArgumentGetArgNumber(buffer);
    if (tsr_lanes_of(emit)->barrier_is_free && emit->argument_use[index] & TSR_EMIT_AGAIN)
        return true;
    return (emit->argument_use[index] & TSR_EMIT_BOTH) == TSR_EMIT_BOTH;
}

static void before_access(tsr_emit *emit, MlirValue buffer, bool is_store) {
    if (!is_exchanged(emit, buffer)) return;
    if (emit->stored || (is_store && emit->loaded)) warp_barrier(emit);
    if (is_store)
        emit->stored = true;
    else
        emit->loaded = true;
}

static LLVMValueRef address(tsr_emit *emit, MlirValue buffer, LLVMValueRef index) {
    MlirType element = mlirShapedTypeGetElementType(mlirValueGetType(buffer));
    return LLVMBuildGEP2(emit->builder, tsr_emit_type(emit, element), tsr_emit_get(emit, buffer),
                         &index, 1, "");
}

/* True if this lane accesses register r of a vector; NULL: every lane does. */
static LLVMValueRef lane_predicate(tsr_emit *emit, unsigned elements, unsigned r,
                                   LLVMValueRef mask) {
    unsigned lanes = lanes_of(emit), left = elements - r * lanes;
    LLVMValueRef mine = mask ? get_register(emit, mask, r) : NULL;
    if (left >= lanes) return mine;
    LLVMValueRef inside =
        LLVMBuildICmp(emit->builder, LLVMIntULT, emit->lane, tsr_emit_int(i32_of(emit), left), "");
    return mine ? LLVMBuildAnd(emit->builder, mine, inside, "") : inside;
}

static LLVMValueRef load_one(tsr_emit *emit, LLVMTypeRef type, LLVMValueRef from,
                             LLVMValueRef predicate) {
    LLVMBuilderRef b = emit->builder;
    if (!predicate) return LLVMBuildLoad2(b, type, from, "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMBasicBlockRef load = tsr_emit_block(emit, "load"), done = tsr_emit_block(emit, "loaded");
    LLVMBuildCondBr(b, predicate, load, done);
    LLVMPositionBuilderAtEnd(b, load);
    LLVMValueRef values[] = {LLVMConstNull(type), LLVMBuildLoad2(b, type, from, "")};
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
    LLVMValueRef value = LLVMBuildPhi(b, type, "");
    LLVMBasicBlockRef blocks[] = {before, load};
    LLVMAddIncoming(value, values, blocks, 2);
    return value;
}

/* align_bytes 0: the alignment of the type. */
static void store_one(tsr_emit *emit, LLVMValueRef value, LLVMValueRef to, LLVMValueRef predicate,
                      unsigned align_bytes) {
    LLVMBuilderRef b = emit->builder;
    LLVMBasicBlockRef done = predicate ? tsr_emit_block(emit, "stored") : NULL;
    if (predicate) {
        LLVMBasicBlockRef store = tsr_emit_block(emit, "store");
        LLVMBuildCondBr(b, predicate, store, done);
        LLVMPositionBuilderAtEnd(b, store);
    }
    LLVMValueRef stored = LLVMBuildStore(b, value, to);
    if (align_bytes) LLVMSetAlignment(stored, align_bytes);
    if (!predicate) return;
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
}

/* Blocked: registers r to r + count - 1 of this lane are adjacent in memory. */
enum { BLOCKED_BYTES = 16 };

static LLVMValueRef blocked_address(tsr_emit *emit, MlirValue buffer, LLVMValueRef offset,
                                    unsigned r) {
    return address(emit, buffer,
                   LLVMBuildAdd(emit->builder, offset, tsr_emit_blocked_number(emit, r), ""));
}

unsigned tsr_emit_element_bytes(MlirValue buffer) {
    MlirType element = mlirShapedTypeGetElementType(mlirValueGetType(buffer));
    if (mlirTypeIsABF16(element) || mlirTypeIsAF16(element)) return 2;
    if (mlirTypeIsAF32(element)) return 4;
    return mlirTypeIsAF64(element) ? 8 : mlirIntegerTypeGetWidth(element) / 8;
}

/* Elements that a lane moves in one access. */
static unsigned blocked_count(MlirValue buffer) {
    unsigned count = BLOCKED_BYTES / tsr_emit_element_bytes(buffer);
    return count < TSR_BLOCKED_RUN ? count : TSR_BLOCKED_RUN;
}

/* Is the access blocked, with the conditions in target.h? */
static bool is_blocked(const tsr_emit *emit, MlirOperation op, unsigned elements) {
    size_t mask = tsr_op_is(op, TSR_TILE_LOAD) ? 2 : 3;
    bool masked = tsr_op_operand_count(op) > mask;
    return tsr_op_has(op, TSR_BLOCKED_NAME) && lanes_of(emit) % 32 == 0 &&
           elements % (lanes_of(emit) * TSR_BLOCKED_RUN) == 0 &&
           (!masked || tsr_op_has(tsr_value_owner(tsr_op_operand(op, mask)), TSR_BLOCKED_NAME));
}

/* Memory that is not written while the kernel runs may be read before other memory is written. */
static void set_invariant(tsr_emit *emit, MlirValue buffer, LLVMValueRef load) {
    static const char name[] = "invariant.load";
    if (!mlirValueIsABlockArgument(buffer) ||
        emit->argument_use[mlirBlockArgumentGetArgNumber(buffer)] != TSR_EMIT_LOADED)
        return;
    LLVMMetadataRef node = LLVMMDNodeInContext2(emit->llvm, NULL, 0);
    LLVMSetMetadata(load, LLVMGetMDKindIDInContext(emit->llvm, name, sizeof name - 1),
                    LLVMMetadataAsValue(emit->llvm, node));
}

/* If the mask excludes a run, the vector's first run is read and replaced by zeros: no lane
 * branches, and all loads are in flight together. */
static LLVMValueRef load_run(tsr_emit *emit, MlirValue buffer, LLVMTypeRef type,
                             LLVMValueRef offset, unsigned r, LLVMValueRef mask) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef from = blocked_address(emit, buffer, offset, r);
    LLVMValueRef inside = mask ? get_register(emit, mask, r) : NULL;
    if (inside) from = LLVMBuildSelect(b, inside, from, address(emit, buffer, offset), "");
    LLVMValueRef loaded = LLVMBuildLoad2(b, type, from, "");
    LLVMSetAlignment(loaded, blocked_count(buffer) * tsr_emit_element_bytes(buffer));
    set_invariant(emit, buffer, loaded);
    return inside ? LLVMBuildSelect(b, inside, loaded, LLVMConstNull(type), "") : loaded;
}

static LLVMValueRef load_blocked(tsr_emit *emit, MlirValue buffer, LLVMTypeRef type,
                                 LLVMValueRef offset, unsigned elements, LLVMValueRef mask) {
    unsigned count = blocked_count(buffer);
    LLVMTypeRef part = LLVMVectorType(tsr_emit_element(type), count);
    LLVMValueRef result = LLVMGetPoison(type);
    for (unsigned r = 0; r < elements / lanes_of(emit); r += count) {
        LLVMValueRef loaded = load_run(emit, buffer, part, offset, r, mask);
        for (unsigned i = 0; i < count; i++)
            result = set_register(emit, result, get_register(emit, loaded, i), r + i);
    }
    return result;
}

static void store_blocked(tsr_emit *emit, LLVMValueRef value, MlirValue buffer, LLVMValueRef offset,
                          unsigned elements, LLVMValueRef mask) {
    unsigned count = blocked_count(buffer);
    LLVMTypeRef type = LLVMVectorType(tsr_emit_element(LLVMTypeOf(value)), count);
    for (unsigned r = 0; r < elements / lanes_of(emit); r += count) {
        LLVMValueRef part = LLVMGetPoison(type);
        for (unsigned i = 0; i < count; i++)
            part = set_register(emit, part, get_register(emit, value, r + i), i);
        store_one(emit, part, blocked_address(emit, buffer, offset, r),
                  mask ? get_register(emit, mask, r) : NULL,
                  count * tsr_emit_element_bytes(buffer));
    }
}

static void emit_load(tsr_emit *emit, MlirOperation op) {
    MlirType type = mlirValueGetType(tsr_op_result(op, 0));
    MlirValue buffer = tsr_op_operand(op, 0);
    LLVMTypeRef llvm = tsr_emit_type(emit, type);
    LLVMValueRef offset = tsr_emit_operand(emit, op, 1);
    LLVMValueRef mask = tsr_op_operand_count(op) == 3 ? tsr_emit_operand(emit, op, 2) : NULL;
    unsigned elements = elements_of(type);
    before_access(emit, buffer, false);
    if (!elements) {
        tsr_emit_set(emit, op, load_one(emit, llvm, address(emit, buffer, offset), NULL));
        return;
    }
    if (tsr_emit_is_own(buffer)) {
        tsr_emit_set(emit, op, tsr_emit_load_own(emit, buffer, llvm, offset));
        return;
    }
    if (is_blocked(emit, op, elements)) {
        tsr_emit_set(emit, op, load_blocked(emit, buffer, llvm, offset, elements, mask));
        return;
    }
    LLVMValueRef result = LLVMGetPoison(llvm);
    for (unsigned r = 0; r * lanes_of(emit) < elements; r++) {
        LLVMValueRef index = LLVMBuildAdd(emit->builder, offset, element_number(emit, r), "");
        result = set_register(emit, result,
                              load_one(emit, tsr_emit_element(llvm), address(emit, buffer, index),
                                       lane_predicate(emit, elements, r, mask)),
                              r);
    }
    tsr_emit_set(emit, op, result);
}

/* tile.gather and tile.scatter */
static void emit_each(tsr_emit *emit, MlirOperation op) {
    bool is_store = !tsr_op_result_count(op);
    MlirType type = mlirValueGetType(is_store ? tsr_op_operand(op, 0) : tsr_op_result(op, 0));
    MlirValue buffer = tsr_op_operand(op, is_store);
    LLVMTypeRef llvm = tsr_emit_type(emit, type);
    LLVMValueRef value = is_store ? tsr_emit_operand(emit, op, 0) : LLVMGetPoison(llvm);
    LLVMValueRef offsets = tsr_emit_operand(emit, op, is_store + 1U);
    before_access(emit, buffer, is_store);
    for (unsigned r = 0; r * lanes_of(emit) < elements_of(type); r++) {
        LLVMValueRef at = address(emit, buffer, get_register(emit, offsets, r));
        LLVMValueRef mine = lane_predicate(emit, elements_of(type), r, NULL);
        if (is_store)
            store_one(emit, get_register(emit, value, r), at, mine, 0);
        else
            value = set_register(emit, value, load_one(emit, tsr_emit_element(llvm), at, mine), r);
    }
    if (!is_store) tsr_emit_set(emit, op, value);
}

static void emit_barrier(tsr_emit *emit, MlirOperation op) {
    (void)op;
    warp_barrier(emit);
}

static void emit_store(tsr_emit *emit, MlirOperation op) {
    MlirType type = mlirValueGetType(tsr_op_operand(op, 0));
    MlirValue buffer = tsr_op_operand(op, 1);
    LLVMValueRef value = tsr_emit_operand(emit, op, 0), offset = tsr_emit_operand(emit, op, 2);
    LLVMValueRef mask = tsr_op_operand_count(op) == 4 ? tsr_emit_operand(emit, op, 3) : NULL;
    unsigned elements = elements_of(type);
    before_access(emit, buffer, true);
    if (!elements) {
        LLVMValueRef first =
            LLVMBuildICmp(emit->builder, LLVMIntEQ, emit->lane, tsr_emit_int(i32_of(emit), 0), "");
        store_one(emit, value, address(emit, buffer, offset), first, 0);
        return;
    }
    if (is_blocked(emit, op, elements)) {
        store_blocked(emit, value, buffer, offset, elements, mask);
        return;
    }
    for (unsigned r = 0; r * lanes_of(emit) < elements; r++) {
        LLVMValueRef index = LLVMBuildAdd(emit->builder, offset, element_number(emit, r), "");
        store_one(emit, get_register(emit, value, r), address(emit, buffer, index),
                  lane_predicate(emit, elements, r, mask), 0);
    }
}

/* The first fault of a launch is kept: the lane that finds the record empty fills it. */
static void emit_check_index(tsr_emit *emit, MlirOperation op) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = i64_of(emit);
    int64_t argument = 0, limit = 0;
    bool known = tsr_op_i64(op, "argument", &argument) && tsr_op_i64(op, "limit", &limit);
    TSR_ASSERT(known);
    LLVMValueRef value = tsr_emit_operand(emit, op, 0);
    LLVMValueRef valid = LLVMBuildICmp(b, LLVMIntULT, value, tsr_emit_int(i64, limit), "");
    LLVMBasicBlockRef bad = tsr_emit_block(emit, "bad"), first = tsr_emit_block(emit, "first");
    LLVMBasicBlockRef go_on = tsr_emit_block(emit, "checked");
    LLVMBuildCondBr(b, valid, go_on, bad);
    LLVMPositionBuilderAtEnd(b, bad);
    LLVMValueRef old =
        LLVMBuildAtomicCmpXchg(b, emit->fault, tsr_emit_int(i64, 0), tsr_emit_int(i64, 1),
                               LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, false);
    LLVMBuildCondBr(b, LLVMBuildExtractValue(b, old, 1, ""), first, go_on);
    LLVMPositionBuilderAtEnd(b, first);
    LLVMValueRef fields[FAULT_FIELDS] = {NULL, tsr_emit_int(i64, argument),
                                         tsr_emit_operand(emit, op, 1), value,
                                         tsr_emit_int(i64, limit)};
    for (unsigned i = 1; i < FAULT_FIELDS; i++) {
        LLVMValueRef at = tsr_emit_int(i64, i);
        LLVMBuildStore(b, fields[i], LLVMBuildInBoundsGEP2(b, i64, emit->fault, &at, 1, ""));
    }
    LLVMBuildBr(b, go_on);
    LLVMPositionBuilderAtEnd(b, go_on);
    tsr_emit_set(emit, op, valid);
}

typedef void (*emit_fn)(tsr_emit *emit, MlirOperation op);
static const emit_fn rows[TSR_OP_COUNT] = {[TSR_TILE_LOAD] = emit_load,
                                           [TSR_TILE_STORE] = emit_store,
                                           [TSR_TILE_LOCAL] = tsr_emit_local,
                                           [TSR_TILE_FETCH] = tsr_emit_fetch,
                                           [TSR_TILE_FETCHED] = tsr_emit_fetched,
                                           [TSR_TILE_ADD_PROGRAMS] = tsr_emit_add_programs,
                                           [TSR_TILE_CHECK_INDEX] = emit_check_index,
                                           [TSR_TILE_GATHER] = emit_each,
                                           [TSR_TILE_SCATTER] = emit_each,
                                           [TSR_TILE_BARRIER] = emit_barrier,
                                           [TSR_TILE_SHUFFLE] = emit_lane_shuffle,
                                           [TSR_TILE_BUTTERFLY] = emit_butterfly,
                                           [TSR_TILE_VOTE] = tsr_emit_vote,
                                           [TSR_VECTOR_REDUCTION] = tsr_emit_reduction,
                                           [TSR_VECTOR_SHUFFLE] = emit_shuffle,
                                           [TSR_VECTOR_EXTRACT] = emit_extract,
                                           [TSR_VECTOR_EXTRACT_STRIDED_SLICE] = emit_slice,
                                           [TSR_VECTOR_STEP] = emit_step,
                                           [TSR_VECTOR_CREATE_MASK] = emit_create_mask};

bool tsr_emit_warp_has(MlirOperation op) { return rows[tsr_op_of(op)]; }

tsr_result tsr_emit_warp_op(tsr_emit *emit, MlirOperation op, bool *out_known) {
    tsr_op id = tsr_op_of(op);
    *out_known = rows[id];
    if (rows[id]) rows[id](emit, op);
    if (id == TSR_ARITH_CONSTANT) *out_known = emit_constant(emit, op);
    return TSR_SUCCESS;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Finds the uses of each argument, and the memory that local buffers take. */
static void scan(tsr_emit *emit, MlirBlock block, uint64_t *local_total) {
    TSR_FOR_EACH_OP(op, block) {
        bool load = tsr_op_is(op, TSR_TILE_LOAD) || tsr_op_is(op, TSR_TILE_GATHER) ||
                    tsr_op_is(op, TSR_TILE_FETCH);
        bool store = tsr_op_is(op, TSR_TILE_STORE) || tsr_op_is(op, TSR_TILE_SCATTER);
        if (tsr_op_is(op, TSR_SCF_FOR)) scan(emit, tsr_op_body(op), local_total);
        emit->sums += tsr_emit_is_reduction(op);
        emit->fetches |= tsr_op_is(op, TSR_TILE_FETCH);
        if (tsr_op_is(op, TSR_TILE_LOCAL)) *local_total += tsr_emit_local_bytes(emit, op);
        if (!load && !store) continue;
        MlirValue buffer = tsr_op_operand(op, load ? 0 : 1);
        if (!mlirValueIsABlockArgument(buffer)) continue;
        unsigned char *use = &emit->argument_use[mlirBlockArgumentGetArgNumber(buffer)];
        if (store && *use & TSR_EMIT_STORED) *use |= TSR_EMIT_AGAIN;
        *use |= load ? TSR_EMIT_LOADED : TSR_EMIT_STORED;
    }
}

/* Marks the inputs that an output may overwrite. */
static void mark_replaced(tsr_emit *emit, MlirOperation func) {
    int64_t inputs[TSR_EMIT_ARGUMENTS_MAX];
    size_t count = 0;
    if (!tsr_op_i64s(func, "in_place", TSR_EMIT_ARGUMENTS_MAX, inputs, &count)) return;
    for (size_t i = 0; i < count; i++)
        if (inputs[i] >= 0 && inputs[i] < TSR_EMIT_ARGUMENTS_MAX)
            emit->argument_use[inputs[i]] |= TSR_EMIT_REPLACED;
}

static tsr_result plan_launch(tsr_emit *emit, uint64_t local_total, tsr_fatbin_kernel *launch) {
    bool one =
        lanes_of(emit) > emit->target->warp_lanes || emit->fetches || emit->block_programs > 1;
    uint32_t programs = one ? emit->block_programs : TSR_WARP_PROGRAMS;
    while (!one && programs > 1 && programs * local_total > TSR_WARP_SHARED_MAX) programs /= 2;
    *launch = (tsr_fatbin_kernel){.programs = programs};
    if (emit->fetches) { /* dynamic shared memory: tile families ensure that it fits */
        launch->shared_bytes = (uint32_t)(programs * local_total);
    } else if (local_total > TSR_WARP_SHARED_MAX) {
        launch->programs = one ? programs : TSR_WARP_PROGRAMS;
        if (!one && launch->programs * local_total > TSR_FATBIN_SCRATCH_MAX) launch->programs = 1;
        if (launch->programs * local_total > TSR_FATBIN_SCRATCH_MAX)
            FAIL(emit->ctx, TSR_INTERNAL,
                 "kernel '%s' has %" PRIu64 " bytes of local buffers; at most %d", emit->kernel,
                 local_total, TSR_FATBIN_SCRATCH_MAX);
        launch->scratch_bytes = (uint32_t)(launch->programs * local_total);
    } else
        launch->static_bytes = (uint32_t)(programs * local_total);
    launch->threads = launch->programs * lanes_of(emit);
    return TSR_SUCCESS;
}

void tsr_emit_set_text(tsr_emit *emit, const char *name, const char *value) {
    LLVMAddAttributeAtIndex(emit->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(emit->llvm, name, (unsigned)strlen(name),
                                                      value, (unsigned)strlen(value)));
}

static LLVMValueRef widen(tsr_emit *emit, LLVMValueRef x) {
    return LLVMBuildZExt(emit->builder, x, i64_of(emit), "");
}

tsr_result tsr_emit_warp_declare(tsr_emit *emit, MlirOperation func,
                                 const tsr_fatbin_kernel *launch) {
    MlirBlock body = tsr_op_body(func);
    int64_t registers = 0;
    const tsr_lanes *lanes = tsr_lanes_of(emit);
    LLVMTypeRef params[TSR_EMIT_ARGUMENTS_MAX + 3],
        pointer = LLVMPointerTypeInContext(emit->llvm, lanes->pointers);
    unsigned count = (unsigned)mlirBlockGetNumArguments(body);
    for (unsigned i = 0; i < count + 2; i++) params[i] = pointer;
    params[count + 2] = i64_of(emit);
    LLVMTypeRef type =
        LLVMFunctionType(LLVMVoidTypeInContext(emit->llvm), params, count + 3, false);
    if (LLVMGetNamedFunction(emit->module, emit->kernel))
        FAIL(emit->ctx, TSR_INTERNAL, "kernel '%s' is defined twice", emit->kernel);
    emit->function = LLVMAddFunction(emit->module, emit->kernel, type);
    LLVMSetFunctionCallConv(emit->function, lanes->convention);
    tsr_op_i64(func, "registers", &registers);
    lanes->set_launch(emit, launch, registers);
    tsr_emit_set_text(emit, "target-cpu", emit->target->cpu);
    tsr_emit_set_text(emit, "target-features", emit->target->features);
    return TSR_SUCCESS;
}

/* A parameter as a pointer to any memory. */
static LLVMValueRef pointer_param(tsr_emit *emit, unsigned index) {
    LLVMValueRef param = LLVMGetParam(emit->function, index);
    if (!tsr_lanes_of(emit)->pointers) return param;
    return LLVMBuildAddrSpaceCast(emit->builder, param, LLVMPointerTypeInContext(emit->llvm, 0),
                                  "");
}

LLVMValueRef tsr_emit_warp_bind(tsr_emit *emit, MlirBlock body) {
    unsigned count = (unsigned)mlirBlockGetNumArguments(body);
    for (unsigned i = 0; i < count; i++)
        tsr_emit_bind(emit, mlirBlockGetArgument(body, (intptr_t)i), pointer_param(emit, i));
    emit->fault = pointer_param(emit, count);
    return pointer_param(emit, count + 1);
}

static tsr_result emit_programs(tsr_emit *emit, MlirBlock body, const tsr_fatbin_kernel *launch) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = i64_of(emit), i32 = i32_of(emit);
    unsigned count = (unsigned)mlirBlockGetNumArguments(body);
    emit->entry = tsr_emit_block(emit, "entry");
    LLVMBasicBlockRef loop = tsr_emit_block(emit, "program");
    LLVMBasicBlockRef done = tsr_emit_block(emit, "end");
    LLVMPositionBuilderAtEnd(b, emit->entry);
    const tsr_lanes *lanes = tsr_lanes_of(emit);
    LLVMValueRef scratch = tsr_emit_warp_bind(emit, body);
    LLVMValueRef thread = lanes->thread(emit);
    bool alone = launch->programs == 1;
    emit->lane =
        alone ? thread : LLVMBuildURem(b, thread, tsr_emit_int(i32, lanes_of(emit)), "lane");
    LLVMValueRef warp = LLVMBuildUDiv(b, thread, tsr_emit_int(i32, lanes_of(emit)), "");
    emit->side = alone ? tsr_emit_int(i32, 0) : lanes->first(emit, warp);
    warp = widen(emit, emit->side);
    LLVMValueRef block = widen(emit, lanes->block(emit));
    LLVMValueRef blocks = widen(emit, lanes->blocks(emit, launch));
    LLVMValueRef programs = tsr_emit_int(i64, launch->programs);
    LLVMValueRef begin = LLVMBuildAdd(b, LLVMBuildMul(b, block, programs, ""), warp, "");
    LLVMValueRef step = LLVMBuildMul(b, blocks, programs, "");
    LLVMValueRef end = LLVMGetParam(emit->function, count + 2);
    tsr_emit_find_locals(emit, launch, warp, block, scratch);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, begin, end, ""), loop, done);
    LLVMPositionBuilderAtEnd(b, loop);
    emit->program = LLVMBuildPhi(b, i64, "program");
    emit->loaded = emit->stored = true;
    TRY(emit->ctx, tsr_emit_ops(emit, body));
    LLVMValueRef next = LLVMBuildNSWAdd(b, emit->program, step, "");
    LLVMValueRef values[] = {begin, next};
    LLVMBasicBlockRef from[] = {emit->entry, LLVMGetInsertBlock(b)};
    LLVMAddIncoming(emit->program, values, from, 2);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, next, end, ""), loop, done);
    LLVMMoveBasicBlockAfter(done, LLVMGetLastBasicBlock(emit->function));
    LLVMPositionBuilderAtEnd(b, done);
    LLVMBuildRetVoid(b);
    return TSR_SUCCESS;
}

tsr_result tsr_emit_warp_func(tsr_emit *emit, MlirOperation func, tsr_fatbin_kernel *out_launch) {
    MlirBlock body = tsr_op_body(func);
    uint64_t local_total = 0;
    int64_t cooperative = 1, programs = 1, grid = 0;
    emit->lanes = emit->target->warp_lanes;
    tsr_op_i64(func, TSR_BLOCK_PROGRAMS_NAME, &programs);
    tsr_op_i64(func, "grid", &grid);
    if (programs < 1 || programs > TSR_BLOCK_PROGRAMS_MAX || grid % programs)
        FAIL(emit->ctx, TSR_COMPILE,
             "kernel '%s' has %" PRId64 " of %" PRId64
             " programs in a block; expected a divisor of the programs up to %d",
             emit->kernel, programs, grid, TSR_BLOCK_PROGRAMS_MAX);
    emit->block_programs = (unsigned)programs;
    emit->contracts = tsr_op_has(func, TSR_CONTRACT_NAME);
    if (tsr_op_has(func, "warps") && !tsr_target_has_matrix_products(emit->target))
        FAIL(emit->ctx, TSR_COMPILE, "kernel '%s' has warps; '%s' has no code for matrix units",
             emit->kernel, emit->target->name);
    bool on_waves = emit->target->family == TSR_FAMILY_HIP;
    if (tsr_op_has(func, "warps"))
        return (on_waves ? tsr_emit_wave_func : tsr_emit_block_func)(emit, func, out_launch);
    if (mlirBlockGetNumArguments(body) > TSR_EMIT_ARGUMENTS_MAX)
        FAIL(emit->ctx, TSR_INTERNAL, "kernel '%s' has %zd arguments; at most %d", emit->kernel,
             mlirBlockGetNumArguments(body), TSR_EMIT_ARGUMENTS_MAX);
    memset(emit->argument_use, 0, sizeof emit->argument_use);
    emit->sums = emit->sums_emitted = 0;
    emit->fetches = false;
    tsr_op_i64(func, TSR_COOPERATIVE_NAME, &cooperative);
    emit->lanes = emit->target->warp_lanes * (unsigned)cooperative;
    scan(emit, body, &local_total);
    mark_replaced(emit, func);
    TRY(emit->ctx, plan_launch(emit, local_total, out_launch));
    TRY(emit->ctx, tsr_emit_warp_declare(emit, func, out_launch));
    tsr_emit_make_shared(emit);
    return emit_programs(emit, body, out_launch);
}
