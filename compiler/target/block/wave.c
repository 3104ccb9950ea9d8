/* SPDX-License-Identifier: Apache-2.0
 *
 *     amdgpu_kernel NAME(ptr buffer…, ptr fault, ptr scratch, i64 grid) {
 *         program = block
 *         if (program < grid) the ops
 *     }
 */
#include "compiler/target/block/wave.h"

#include "compiler/ir/targets/features.h"
#include "compiler/target/llvm/lanes.h"
#include "compiler/target/llvm/warp.h"
#include "compiler/tile/attributes.h"

#include <inttypes.h>

/* ---- the function ---------------------------------------------------------------------------- */

static TSR_RESULT scan(tsr_emit *emit, MlirBlock body) {
    tsr_block *block = emit->block;
    TSR_FOR_EACH_OP(op, body) {
        if (tsr_op_is(op, TSR_SCF_FOR)) TRY(emit->ctx, scan(emit, tsr_op_body(op)));
        if (tsr_op_is(op, TSR_TILE_ALLOC_SHARED)) TRY(emit->ctx, tsr_block_add_ring(emit, op));
        if (!tsr_op_is(op, TSR_TILE_ASYNC_COPY)) continue;
        MlirValue to = tsr_op_operand(op, tsr_op_operand_count(op) - 2);
        tsr_ring *ring = tsr_block_find_ring(block, to);
        ring->is_copied_to = true;
        block->stages = ring->stages;
        if (ring->stages < 2)
            FAIL(emit->ctx, TSR_COMPILE,
                 "kernel '%s' has rings of %u stage; expected at least 2 on '%s'", emit->kernel,
                 ring->stages, emit->target->name);
    }
    return TSR_SUCCESS;
}

static TSR_RESULT plan(tsr_emit *emit, MlirOperation func, tsr_fatbin_kernel *launch) {
    tsr_block *block = emit->block;
    int64_t warps = 0, teams = 1, together = 1;
    tsr_op_i64(func, "warps", &warps);
    tsr_op_i64(func, TSR_TEAMS_NAME, &teams);
    tsr_op_i64(func, TSR_TOGETHER_NAME, &together);
    uint32_t threads = (uint32_t)warps * emit->target->warp_lanes;
    if (teams != 1 || together != 1 || threads % emit->target->wave_lanes)
        FAIL(emit->ctx, TSR_COMPILE,
             "kernel '%s' has %" PRId64 " teams, %" PRId64 " programs that run together and %u "
             "threads; '%s' runs 1 of each, on waves of %u lanes",
             emit->kernel, teams, together, threads, emit->target->name, emit->target->wave_lanes);
    block->warps = (uint32_t)warps;
    block->teams = block->together = 1;
    block->waves = threads / emit->target->wave_lanes;
    block->has_one_role = true;
    TRY(emit->ctx, scan(emit, tsr_op_body(func)));
    tsr_block_locate_rings(block);
    const tsr_feature *has = tsr_feature_find(emit->target->cpu);
    if (has && block->shared_bytes > has->shared_bytes)
        FAIL(emit->ctx, TSR_COMPILE,
             "kernel '%s' needs %u bytes of shared memory; '%s' has %" PRId64, emit->kernel,
             block->shared_bytes, emit->target->name, has->shared_bytes);
    *launch =
        (tsr_fatbin_kernel){.threads = threads, .programs = 1, .shared_bytes = block->shared_bytes};
    return TSR_SUCCESS;
}

LLVMValueRef tsr_wave_shared(tsr_emit *emit, LLVMValueRef offset) {
    static const char name[] = "tile_shared";
    LLVMTypeRef byte = LLVMInt8TypeInContext(emit->llvm);
    LLVMValueRef memory = LLVMGetNamedGlobal(emit->module, name);
    if (!memory) {
        memory = LLVMAddGlobalInAddressSpace(emit->module, LLVMArrayType2(byte, 0), name,
                                             TSR_LANES_SHARED);
        LLVMSetLinkage(memory, LLVMExternalLinkage);
        LLVMSetAlignment(memory, TSR_WAVE_CHUNK_BYTES);
    }
    return LLVMBuildGEP2(emit->builder, byte, memory, &offset, 1, "");
}

/* The same in all lanes of a wave, in a form that says so. */
static LLVMValueRef wave_uniform(tsr_emit *emit, LLVMValueRef word) {
    LLVMTypeRef type = LLVMTypeOf(word);
    return tsr_emit_intrinsic(emit, "llvm.amdgcn.readfirstlane", &type, 1, &word, 1);
}

static TSR_RESULT emit_body(tsr_emit *emit, MlirBlock body) {
    LLVMBuilderRef b = emit->builder;
    tsr_block *block = emit->block;
    const tsr_lanes *lanes = tsr_lanes_of(emit);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMValueRef size = tsr_block_int(emit, emit->target->wave_lanes);
    emit->entry = tsr_emit_block(emit, "entry");
    LLVMPositionBuilderAtEnd(b, emit->entry);
    tsr_emit_warp_bind(emit, body);
    block->shared = tsr_block_int(emit, 0);
    block->base = tsr_block_int(emit, 0);
    block->thread = lanes->thread(emit);
    block->warp = wave_uniform(emit, LLVMBuildUDiv(b, block->thread, size, ""));
    emit->lane = LLVMBuildURem(b, block->thread, size, "lane");
    emit->program = LLVMBuildZExt(b, lanes->block(emit), i64, "program");
    LLVMValueRef grid = LLVMGetParam(emit->function, (unsigned)mlirBlockGetNumArguments(body) + 2);
    LLVMBasicBlockRef rest =
        tsr_block_if(emit, LLVMBuildICmp(b, LLVMIntSLT, emit->program, grid, ""), "run");
    TRY(emit->ctx, tsr_emit_ops(emit, body));
    tsr_block_end_if(emit, rest);
    LLVMBuildRetVoid(b);
    return TSR_SUCCESS;
}

tsr_result tsr_emit_wave_func(tsr_emit *emit, MlirOperation func, tsr_fatbin_kernel *out_launch) {
    tsr_block block = {0};
    emit->block = &block;
    tsr_result result = plan(emit, func, out_launch);
    if (!result.code) result = tsr_emit_warp_declare(emit, func, out_launch);
    if (!result.code) result = emit_body(emit, tsr_op_body(func));
    emit->block = NULL;
    return result;
}

/* ---- stores ---------------------------------------------------------------------------------- */

static LLVMValueRef convert(tsr_emit *emit, MlirType element, LLVMValueRef *values) {
    LLVMTypeRef type = LLVMVectorType(LLVMFloatTypeInContext(emit->llvm), 2);
    LLVMValueRef both = LLVMGetPoison(type);
    for (unsigned e = 0; e < 2; e++)
        both = LLVMBuildInsertElement(emit->builder, both, values[e], tsr_block_int(emit, e), "");
    return mlirTypeIsAF32(element) ? both : tsr_emit_narrow(emit, both, mlirTypeIsABF16(element));
}

static void store_if(tsr_emit *emit, LLVMValueRef inside, LLVMValueRef value, LLVMValueRef at,
                     unsigned align) {
    LLVMBuilderRef b = emit->builder;
    LLVMBasicBlockRef rest = NULL;
    if (inside)
        rest = tsr_block_if(emit, LLVMBuildICmp(b, LLVMIntNE, inside, tsr_block_int(emit, 0), ""),
                            "inside");
    LLVMSetAlignment(LLVMBuildStore(b, value, at), align);
    if (rest) tsr_block_end_if(emit, rest);
}

void tsr_wave_store_pair(tsr_emit *emit, MlirType element, LLVMValueRef at,
                         const LLVMValueRef inside[2], bool together, bool whole,
                         LLVMValueRef *values) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef both = convert(emit, element, values);
    unsigned size = tsr_block_element_bytes(element);
    if (together) {
        store_if(emit, whole ? NULL : inside[0], both, at, 2 * size);
        return;
    }
    for (unsigned e = 0; e < 2; e++) {
        LLVMValueRef offset = tsr_block_int(emit, e * size);
        LLVMValueRef to = LLVMBuildGEP2(b, LLVMInt8TypeInContext(emit->llvm), at, &offset, 1, "");
        LLVMValueRef value = LLVMBuildExtractElement(b, both, tsr_block_int(emit, e), "");
        store_if(emit, whole ? NULL : inside[e], value, to, size);
    }
}

/* ---- ops ------------------------------------------------------------------------------------- */

tsr_result tsr_emit_wave_op(tsr_emit *emit, MlirOperation op, bool *out_known) {
    *out_known = true;
    switch (tsr_op_of(op)) {
    case TSR_TILE_ALLOC_SHARED:
    case TSR_TILE_RELEASE: /* the barrier of the next step */
        return TSR_SUCCESS;
    case TSR_TILE_ASYNC_COPY:
        tsr_wave_emit_copy(emit, op);
        return TSR_SUCCESS;
    case TSR_TILE_WAIT_ASYNC:
        return tsr_wave_emit_wait(emit, op);
    case TSR_TILE_MMA:
        return tsr_wave_emit_mma(emit, op);
    case TSR_TILE_FILL:
        tsr_block_emit_fill(emit, op);
        return TSR_SUCCESS;
    case TSR_TILE_MAP:
        return tsr_block_emit_map(emit, op);
    case TSR_TILE_STORE_FRAGMENT:
        return tsr_block_emit_store(emit, op);
    case TSR_TILE_GATHER:
        *out_known = tsr_op_has(op, TSR_PAIRS_NAME);
        if (*out_known) tsr_block_emit_pair(emit, op);
        return TSR_SUCCESS;
    case TSR_TILE_BARRIER:
        tsr_lanes_of(emit)->block_barrier(emit);
        return TSR_SUCCESS;
    case TSR_TILE_ATTEND:
    case TSR_TILE_LOAD_SHARED:
    case TSR_TILE_STORE_SHARED:
    case TSR_TILE_LOAD_FRAGMENT:
    case TSR_TILE_SUM_PROGRAMS:
        FAIL(emit->ctx, TSR_COMPILE, "kernel '%s': '%s' has no code for %s", emit->kernel,
             emit->target->name, tsr_op_name(op));
    default:
        *out_known = false;
        return TSR_SUCCESS;
    }
}
