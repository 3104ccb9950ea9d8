/* SPDX-License-Identifier: Apache-2.0
 *
 * Local buffers of programs that warps run. These buffers are in shared memory; if they do not fit,
 * in the scratch memory of the block. For a kernel that fetches, they are dynamic shared memory,
 * whose size its launch sets.
 *
 * tile.fetch is cp.async: each lane copies the 16 bytes that it will read itself, so that a lane
 * only waits for its own copies and no barrier is needed. Piece p of a lane's part of a vector
 * comes after the segments p of the lanes before it, and all segments p come after all segments p -
 * 1: lanes read adjacent groups of 16 bytes.
 */
#include "compiler/target/llvm/lanes.h"
#include "compiler/target/llvm/warp.h"
#include "compiler/tile/attributes.h"

enum { LOCAL_ALIGN_BYTES = 64, VECTOR_BYTES = TSR_LANES_FETCH_BYTES };

static LLVMTypeRef i64_of(tsr_emit *emit) { return LLVMInt64TypeInContext(emit->llvm); }

uint64_t tsr_emit_local_bytes(tsr_emit *emit, MlirOperation local) {
    MlirType type = mlirValueGetType(tsr_op_result(local, 0));
    uint64_t count = 1;
    for (int64_t d = 0; d < mlirShapedTypeGetRank(type); d++)
        count *= (uint64_t)mlirShapedTypeGetDimSize(type, d);
    LLVMTypeRef element = tsr_emit_type(emit, mlirShapedTypeGetElementType(type));
    LLVMTypeKind kind = LLVMGetTypeKind(element);
    uint64_t width = kind == LLVMDoubleTypeKind  ? 8
                     : kind == LLVMFloatTypeKind ? 4
                                                 : LLVMGetIntTypeWidth(element) / 8;
    return (count * width + LOCAL_ALIGN_BYTES - 1) / LOCAL_ALIGN_BYTES * LOCAL_ALIGN_BYTES;
}

void tsr_emit_local(tsr_emit *emit, MlirOperation op) {
    LLVMValueRef offset = tsr_emit_int(i64_of(emit), (int64_t)emit->local_used);
    emit->local_used += tsr_emit_local_bytes(emit, op);
    tsr_emit_set(emit, op,
                 LLVMBuildGEP2(emit->builder, LLVMInt8TypeInContext(emit->llvm), emit->local_base,
                               &offset, 1, "local"));
}

/* Shared memory of this size; 0: dynamic shared memory, with the size in the launch. */
static LLVMValueRef shared_memory(tsr_emit *emit, uint64_t bytes) {
    static const char asked[] = "tile_locals"; /* one for all kernels of a module */
    LLVMTypeRef type = LLVMArrayType2(LLVMInt8TypeInContext(emit->llvm), bytes);
    LLVMValueRef shared = bytes ? NULL : LLVMGetNamedGlobal(emit->module, asked);
    if (!shared) {
        shared = LLVMAddGlobalInAddressSpace(emit->module, type, bytes ? "local" : asked, 3);
        if (bytes) LLVMSetInitializer(shared, LLVMGetUndef(type));
        LLVMSetLinkage(shared, bytes ? LLVMInternalLinkage : LLVMExternalLinkage);
        LLVMSetAlignment(shared, 128);
    }
    return LLVMBuildAddrSpaceCast(emit->builder, shared, LLVMPointerTypeInContext(emit->llvm, 0),
                                  "");
}

void tsr_emit_find_locals(tsr_emit *emit, const tsr_fatbin_kernel *launch, LLVMValueRef warp,
                          LLVMValueRef block, LLVMValueRef scratch) {
    LLVMBuilderRef b = emit->builder;
    uint64_t total = launch->scratch_bytes ? launch->scratch_bytes : launch->static_bytes;
    LLVMValueRef base = scratch;
    emit->local_used = 0;
    emit->local_base = LLVMConstPointerNull(LLVMPointerTypeInContext(emit->llvm, 0));
    if (launch->shared_bytes) {
        LLVMValueRef of_program =
            tsr_emit_int(i64_of(emit), launch->shared_bytes / launch->programs);
        LLVMValueRef before = LLVMBuildMul(b, warp, of_program, "");
        emit->local_each = launch->shared_bytes / launch->programs;
        emit->local_base = LLVMBuildGEP2(b, LLVMInt8TypeInContext(emit->llvm),
                                         shared_memory(emit, 0), &before, 1, "locals");
    }
    if (!total) return; /* empty buffers need no address */
    LLVMValueRef offset =
        LLVMBuildMul(b, warp, tsr_emit_int(i64_of(emit), (int64_t)(total / launch->programs)), "");
    if (launch->scratch_bytes) {
        LLVMValueRef before =
            LLVMBuildMul(b, block, tsr_emit_int(i64_of(emit), (int64_t)total), "");
        offset = LLVMBuildAdd(b, offset, before, "");
    } else
        base = shared_memory(emit, total);
    emit->local_base =
        LLVMBuildGEP2(b, LLVMInt8TypeInContext(emit->llvm), base, &offset, 1, "locals");
}

/* ---- buffers of a lane ----------------------------------------------------------------------- */

bool tsr_emit_is_own(MlirValue buffer) {
    MlirOperation owner =
        mlirValueIsABlockArgument(buffer) ? (MlirOperation){NULL} : mlirOpResultGetOwner(buffer);
    return !mlirOperationIsNull(owner) && tsr_op_has(owner, TSR_OWN_NAME);
}

/* The address of segment `p` of this lane's part of the vector at element `at`. */
static LLVMValueRef own_vector(tsr_emit *emit, MlirValue buffer, LLVMValueRef at, unsigned p) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i8 = LLVMInt8TypeInContext(emit->llvm);
    int64_t size = tsr_emit_element_bytes(buffer), before = (int64_t)p * emit->lanes * VECTOR_BYTES;
    LLVMValueRef bytes = LLVMBuildMul(b, at, tsr_emit_int(i64_of(emit), size), "");
    LLVMValueRef lane = LLVMBuildZExt(b, emit->lane, i64_of(emit), "");
    LLVMValueRef mine = LLVMBuildMul(b, lane, tsr_emit_int(i64_of(emit), VECTOR_BYTES), "");
    mine = LLVMBuildAdd(b, mine, tsr_emit_int(i64_of(emit), before), "");
    bytes = LLVMBuildAdd(b, bytes, mine, "");
    return LLVMBuildGEP2(b, i8, tsr_emit_get(emit, buffer), &bytes, 1, "");
}

LLVMValueRef tsr_emit_load_own(tsr_emit *emit, MlirValue buffer, LLVMTypeRef type,
                               LLVMValueRef at) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(emit->llvm);
    unsigned count = VECTOR_BYTES / tsr_emit_element_bytes(buffer), all = LLVMGetVectorSize(type);
    LLVMTypeRef part = LLVMVectorType(tsr_emit_element(type), count);
    LLVMValueRef result = LLVMGetPoison(type);
    TSR_ASSERT(all % count == 0);
    for (unsigned r = 0; r < all; r += count) {
        LLVMValueRef loaded = LLVMBuildLoad2(b, part, own_vector(emit, buffer, at, r / count), "");
        LLVMSetAlignment(loaded, VECTOR_BYTES);
        for (unsigned i = 0; i < count; i++) {
            LLVMValueRef one = LLVMBuildExtractElement(b, loaded, tsr_emit_int(i32, i), "");
            result = LLVMBuildInsertElement(b, result, one, tsr_emit_int(i32, r + i), "");
        }
    }
    return result;
}

/* Segments of 4-byte elements are in every other 16 bytes: the cache lines that they share stay in
 * the first-level cache until both are copied. */
void tsr_emit_fetch(tsr_emit *emit, MlirOperation op) {
    LLVMBuilderRef b = emit->builder;
    MlirValue from = tsr_op_operand(op, 0), to = tsr_op_operand(op, 2);
    LLVMTypeRef i32 = LLVMInt32TypeInContext(emit->llvm);
    LLVMTypeRef element = tsr_emit_type(emit, mlirShapedTypeGetElementType(mlirValueGetType(from)));
    LLVMValueRef offset = tsr_emit_operand(emit, op, 1), at = tsr_emit_operand(emit, op, 3);
    LLVMValueRef mask = tsr_op_operand_count(op) > 4 ? tsr_emit_operand(emit, op, 4) : NULL;
    unsigned size = tsr_emit_element_bytes(from), count = VECTOR_BYTES / size;
    int64_t elements = 0;
    bool known = tsr_op_i64(op, "elements", &elements);
    TSR_ASSERT(known && elements % (emit->lanes * TSR_BLOCKED_RUN) == 0 && size <= 4);
    for (unsigned r = 0; r < elements / emit->lanes; r += count) {
        LLVMValueRef index = LLVMBuildAdd(b, offset, tsr_emit_blocked_number(emit, r), "");
        LLVMValueRef inside =
            mask ? LLVMBuildExtractElement(b, mask, tsr_emit_int(i32, r), "") : NULL;
        if (inside) index = LLVMBuildSelect(b, inside, index, offset, "");
        LLVMValueRef source = LLVMBuildGEP2(b, element, tsr_emit_get(emit, from), &index, 1, "");
        LLVMTypeRef shared = LLVMPointerTypeInContext(emit->llvm, TSR_LANES_SHARED);
        LLVMTypeRef global = LLVMPointerTypeInContext(emit->llvm, TSR_LANES_GLOBAL);
        LLVMValueRef into =
            LLVMBuildAddrSpaceCast(b, own_vector(emit, to, at, r / count), shared, "");
        source = LLVMBuildAddrSpaceCast(b, source, global, "");
        tsr_lanes_of(emit)->fetch(emit, into, source, size == 4, inside);
    }
}

void tsr_emit_fetched(tsr_emit *emit, MlirOperation op) {
    int64_t but = 0;
    bool known = tsr_op_i64(op, "but", &but);
    TSR_ASSERT(known);
    tsr_lanes_of(emit)->wait_fetched(emit, but);
}

/* Piece `p` of the vector that program `side` of the block has stored in the buffer. */
static LLVMValueRef vector_of_side(tsr_emit *emit, MlirValue buffer, unsigned side, unsigned p) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(emit->llvm), i64 = i64_of(emit);
    LLVMValueRef zero = tsr_emit_int(i64, 0), from = own_vector(emit, buffer, zero, p);
    LLVMValueRef sides = LLVMBuildSub(b, tsr_emit_int(i32, side), emit->side, "");
    LLVMValueRef bytes = LLVMBuildMul(b, LLVMBuildSExt(b, sides, i64, ""),
                                      tsr_emit_int(i64, (int64_t)emit->local_each), "");
    return LLVMBuildGEP2(b, LLVMInt8TypeInContext(emit->llvm), from, &bytes, 1, "");
}

/* After the second barrier the buffer may be written again. */
void tsr_emit_add_programs(tsr_emit *emit, MlirOperation op) {
    LLVMBuilderRef b = emit->builder;
    MlirValue buffer = tsr_op_operand(op, 1);
    LLVMValueRef value = tsr_emit_operand(emit, op, 0), result = LLVMGetPoison(LLVMTypeOf(value));
    LLVMTypeRef i32 = LLVMInt32TypeInContext(emit->llvm), f32 = LLVMFloatTypeInContext(emit->llvm);
    enum { COUNT = VECTOR_BYTES / 4 };
    unsigned all = LLVMGetVectorSize(LLVMTypeOf(value));
    LLVMTypeRef part = LLVMVectorType(f32, COUNT);
    TSR_ASSERT(emit->block_programs > 1 && emit->fetches && all % COUNT == 0);
    for (unsigned r = 0; r < all; r += COUNT) {
        LLVMValueRef segment = LLVMGetPoison(part);
        for (unsigned i = 0; i < COUNT; i++)
            segment = LLVMBuildInsertElement(
                b, segment, LLVMBuildExtractElement(b, value, tsr_emit_int(i32, r + i), ""),
                tsr_emit_int(i32, i), "");
        LLVMSetAlignment(
            LLVMBuildStore(b, segment,
                           own_vector(emit, buffer, tsr_emit_int(i64_of(emit), 0), r / COUNT)),
            VECTOR_BYTES);
    }
    tsr_emit_block_barrier(emit);
    for (unsigned r = 0; r < all; r += COUNT) {
        LLVMValueRef sum = NULL;
        for (unsigned side = 0; side < emit->block_programs; side++) {
            LLVMValueRef one =
                LLVMBuildLoad2(b, part, vector_of_side(emit, buffer, side, r / COUNT), "");
            LLVMSetAlignment(one, VECTOR_BYTES);
            sum = side ? LLVMBuildFAdd(b, sum, one, "") : one;
        }
        for (unsigned i = 0; i < COUNT; i++)
            result = LLVMBuildInsertElement(
                b, result, LLVMBuildExtractElement(b, sum, tsr_emit_int(i32, i), ""),
                tsr_emit_int(i32, r + i), "");
    }
    tsr_emit_block_barrier(emit);
    tsr_emit_set(emit, op, result);
}
