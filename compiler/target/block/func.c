/* SPDX-License-Identifier: Apache-2.0
 *
 *     ptx_kernel NAME(ptr buffer…, ptr fault, ptr scratch, i64 grid, map…) {
 *         thread 0 makes the mbarriers
 *         if (warp group == 0) for (program = block; program < grid; program += blocks) copies
 *         else                 for (program = block; program < grid; program += blocks) the rest
 *     }
 */
#include "compiler/ir/targets/features.h"
#include "compiler/shim/shim.h"
#include "compiler/target/block/block.h"
#include "compiler/target/block/sizes.h"
#include "compiler/target/host/rules.h"
#include "compiler/tile/attributes.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    PTX_KERNEL = 71,       /* LLVM's number of the calling convention */
    NAMED_GROUP = 1,       /* first barrier of the warp groups */
    NAMED_COMPUTING = 8,   /* first barrier of the teams */
    PINGPONG_BARRIER = 10, /* first barrier of the turns */
    TEAMS_MAX = 2,
    FILE_REGISTERS = 65536,
    SET_REGISTERS_MAX = 240,
    COPY_REGISTERS = 24, /* registers of a copying thread; for more complex address computations: */
    MORE_COPY_REGISTERS = 32,
};

LLVMTypeRef tsr_block_i32(tsr_emit *emit) { return LLVMInt32TypeInContext(emit->llvm); }

LLVMValueRef tsr_block_int(tsr_emit *emit, int64_t value) {
    return tsr_emit_int(tsr_block_i32(emit), value);
}

LLVMValueRef tsr_block_add(tsr_emit *emit, LLVMValueRef x, int64_t y) {
    return y ? LLVMBuildAdd(emit->builder, x, tsr_block_int(emit, y), "") : x;
}

LLVMValueRef tsr_block_mul(tsr_emit *emit, LLVMValueRef x, int64_t y) {
    return LLVMBuildMul(emit->builder, x, tsr_block_int(emit, y), "");
}

static void set_attribute(tsr_emit *emit, LLVMValueRef call, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(emit->llvm, kind, 0));
}

LLVMValueRef tsr_block_asm(tsr_emit *emit, LLVMTypeRef result, const char *text,
                           const char *constraints, LLVMValueRef *args, unsigned arg_count) {
    LLVMTypeRef types[2 * TSR_BLOCK_REGISTERS_MAX + 16];
    TSR_ASSERT(arg_count <= TSR_COUNT(types));
    for (unsigned i = 0; i < arg_count; i++) types[i] = LLVMTypeOf(args[i]);
    if (!result) result = LLVMVoidTypeInContext(emit->llvm);
    LLVMTypeRef type = LLVMFunctionType(result, types, arg_count, false);
    LLVMValueRef callee =
        LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints), true, false,
                         LLVMInlineAsmDialectATT, false);
    LLVMValueRef call = LLVMBuildCall2(emit->builder, type, callee, args, arg_count, "");
    set_attribute(emit, call, "convergent");
    set_attribute(emit, call, "nounwind");
    return call;
}

void tsr_block_sync(tsr_emit *emit, bool of_group) {
    const tsr_block *block = emit->block;
    LLVMValueRef number = tsr_block_int(emit, 0);
    if (of_group && block->groups > 1)
        number = LLVMBuildUDiv(emit->builder, block->warp, tsr_block_int(emit, GROUP_WARPS), "");
    if (block->teams > 1) {
        LLVMValueRef first = tsr_block_mul(emit, block->team, of_group ? block->groups : 1);
        number = LLVMBuildAdd(emit->builder, number, first, "");
    }
    LLVMValueRef args[] = {
        tsr_block_add(emit, number, of_group ? NAMED_GROUP : NAMED_COMPUTING),
        tsr_block_int(emit, of_group ? TSR_BLOCK_GROUP : (int64_t)block->warps * WARP_LANES)};
    tsr_block_asm(emit, NULL, "bar.sync $0, $1;", "r,r,~{memory}", args, 2);
}

/* bar.sync promises that all threads reach the same instruction, and compute-sanitizer checks
 * it. */
void tsr_block_sync_apart(tsr_emit *emit) {
    LLVMValueRef args[] = {tsr_block_int(emit, NAMED_COMPUTING),
                           tsr_block_int(emit, (int64_t)emit->block->warps * WARP_LANES)};
    TSR_ASSERT(emit->block->teams <= 1);
    tsr_block_asm(emit, NULL, "barrier.sync $0, $1;", "r,r,~{memory}", args, 2);
}

void tsr_block_named_barrier(tsr_emit *emit, const char *text, LLVMValueRef whose,
                             uint32_t threads) {
    LLVMValueRef args[] = {tsr_block_add(emit, whose, PINGPONG_BARRIER),
                           tsr_block_int(emit, threads)};
    tsr_block_asm(emit, NULL, text, "r,r,~{memory}", args, 2);
}

/* ---- resources of the body ------------------------------------------------------------------- */

MlirValue tsr_block_argument(MlirValue buffer) {
    MlirOperation owner = tsr_value_owner(buffer);
    return mlirOperationIsNull(owner) ? buffer : tsr_op_operand(owner, 0);
}

bool tsr_block_is_mappable(MlirValue buffer) {
    enum { UNIT = 16 };
    MlirType type = mlirValueGetType(buffer);
    int64_t rank = mlirShapedTypeGetRank(type);
    uint64_t row = (uint64_t)tsr_buffer_row(type) *
                   tsr_block_element_bytes(mlirShapedTypeGetElementType(type));
    for (int64_t d = 0; d < rank; d++)
        if (mlirShapedTypeGetDimSize(type, d) < 1 || mlirShapedTypeGetDimSize(type, d) > UINT32_MAX)
            return false;
    return row % UNIT == 0 && rank <= TSR_FATBIN_MAP_RANK_MAX;
}

/* Teams take turns at one loop of products, and each team knows how many stages the other team uses
 * in the loop. */
static tsr_result plan_teams(tsr_emit *emit, MlirOperation func) {
    tsr_block *block = emit->block;
    int64_t teams = 1;
    uint32_t loops = 0;
    tsr_op_i64(func, TSR_TEAMS_NAME, &teams);
    block->teams = (uint32_t)teams;
    if (teams == 1) return TSR_SUCCESS;
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (!tsr_op_is(op, TSR_SCF_FOR)) continue;
        block->program_stages = tsr_block_rounds(op);
        loops++;
    }
    if (teams != TEAMS_MAX || loops != 1 || !block->program_stages || !block->has_wgmma ||
        block->query_stages)
        FAIL(
            emit->ctx, TSR_COMPILE,
            "kernel '%s' has %" PRId64
            " teams and %u loops, of %u rounds; expected %d, 1 and a number known when it is built",
            emit->kernel, teams, loops, block->program_stages, TEAMS_MAX);
    return TSR_SUCCESS;
}

static TSR_RESULT scan(tsr_emit *emit, MlirBlock body) {
    tsr_block *block = emit->block;
    TSR_FOR_EACH_OP(op, body) {
        if (tsr_op_is(op, TSR_SCF_FOR)) TRY(emit->ctx, scan(emit, tsr_op_body(op)));
        if (tsr_op_is(op, TSR_TILE_ALLOC_SHARED)) TRY(emit->ctx, tsr_block_add_ring(emit, op));
        if (tsr_op_is(op, TSR_TILE_SUM_PROGRAMS)) tsr_block_plan_sum(block, op);
        if (tsr_op_is(op, TSR_TILE_MMA)) tsr_block_mark_factors(block, op);
        if (tsr_op_is(op, TSR_TILE_ATTEND)) tsr_block_plan_attend(emit, op);
        if (tsr_op_is(op, TSR_TILE_LOAD_FRAGMENT)) TRY(emit->ctx, tsr_block_plan_fetch(emit, op));
        if (!tsr_op_is(op, TSR_TILE_ASYNC_COPY)) continue;
        tsr_ring *ring =
            tsr_block_find_ring(block, tsr_op_operand(op, tsr_op_operand_count(op) - 2));
        ring->is_copied_to = true;
        TRY(emit->ctx, tsr_block_plan_share(emit, op));
        block->stages = ring->stages;
        if (!ring->swizzled || !tsr_block_is_mappable(tsr_op_operand(op, 0)))
            block->uses_tma = false;
    }
    return TSR_SUCCESS;
}

/* False with one computing warp group, where each thread can have the maximum, and if threads copy
 * by themselves, because they need more registers than would be left for them. */
static bool divides_registers(const tsr_block *block) {
    return block->uses_tma && block->groups * block->teams > 1;
}

/* The registers of all threads at the start; the block cannot get more. */
static uint32_t given_registers(const tsr_block *block) {
    uint32_t groups = block->groups * block->teams + 1;
    return FILE_REGISTERS / TSR_BLOCK_GROUP / groups / 8 * 8 * groups;
}

/* Attention, and programs that run together, have more address computations. */
static uint32_t least_copying_registers(const tsr_block *block) {
    return block->query_stages || block->together > 1 ? MORE_COPY_REGISTERS : COPY_REGISTERS;
}

static uint32_t computing_registers(const tsr_block *block) {
    uint32_t groups = block->groups * block->teams, copying = least_copying_registers(block);
    uint32_t most = (given_registers(block) - copying) / groups / 8 * 8;
    uint32_t cap = block->registers / 8 * 8;
    if (most > SET_REGISTERS_MAX) most = SET_REGISTERS_MAX;
    return cap && cap < most ? cap : most;
}

/* For attention, the copying role gets the remaining registers. */
static uint32_t copying_registers(const tsr_block *block) {
    if (!block->query_stages) return least_copying_registers(block);
    return given_registers(block) - block->groups * computing_registers(block);
}

static uint32_t count_threads(const tsr_block *block) {
    return (block->groups * block->teams + !block->has_one_role) * TSR_BLOCK_GROUP;
}

/* A block runs one program. */
static bool runs_one(const tsr_block *block) { return block->own_barriers || block->has_one_role; }

/* The number of blocks that fit on a multiprocessor; with no cap on registers, one. */
static uint32_t count_blocks(const tsr_block *block) {
    enum { BLOCKS_MAX = 4, SHARED_OF_BLOCK = 1024, SHARED = 233472 };
    uint32_t threads = count_threads(block);
    if (!block->registers || divides_registers(block)) return 1;
    uint32_t by_registers = FILE_REGISTERS / (block->registers * threads);
    uint32_t by_shared = SHARED / (block->shared_bytes + SHARED_OF_BLOCK);
    uint32_t blocks = by_registers < by_shared ? by_registers : by_shared;
    if (blocks > BLOCKS_MAX) blocks = BLOCKS_MAX;
    return blocks ? blocks : 1;
}

static tsr_result plan_together(tsr_emit *emit, MlirOperation func) {
    tsr_block *block = emit->block;
    int64_t count = 1, grid = 0;
    tsr_op_i64(func, TSR_TOGETHER_NAME, &count);
    tsr_op_i64(func, "grid", &grid);
    block->together = (uint32_t)count;
    if (count < 1 || count > TSR_TOGETHER_MAX || grid % count || (count > 1 && !block->has_wgmma))
        FAIL(emit->ctx, TSR_COMPILE,
             "kernel '%s' runs %" PRId64 " of %" PRId64
             " programs together; expected 1, or on 'sm_90a' a divisor of the programs up to %d",
             emit->kernel, count, grid, TSR_TOGETHER_MAX);
    if (block->exchange_bytes && block->teams > 1)
        FAIL(emit->ctx, TSR_COMPILE,
             "kernel '%s' sums over programs and has %u teams; expected one", emit->kernel,
             block->teams);
    return tsr_block_check_copies(emit);
}

static tsr_result plan(tsr_emit *emit, MlirOperation func, tsr_fatbin_kernel *launch) {
    tsr_block *block = emit->block;
    int64_t warps = 0, registers = 0;
    bool known = tsr_op_i64(func, "warps", &warps);
    TSR_ASSERT(known);
    tsr_op_i64(func, "registers", &registers);
    block->warps = (uint32_t)warps;
    block->groups = block->warps / GROUP_WARPS;
    block->registers = (uint32_t)registers;
    block->has_wgmma = block->has_tma = emit->target->arch == 90;
    block->uses_tma = block->has_tma;
    TRY(emit->ctx, scan(emit, tsr_op_body(func)));
    TRY(emit->ctx, plan_teams(emit, func));
    TRY(emit->ctx, plan_together(emit, func));
    tsr_block_locate_rings(block);
    block->full_at = block->shared_bytes;
    block->empty_at = block->full_at + block->stages * BARRIER_BYTES;
    block->written_at = block->empty_at + block->stages * BARRIER_BYTES;
    block->read_at = block->written_at + BARRIER_BYTES;
    block->queries_full_at = block->read_at + BARRIER_BYTES;
    block->queries_empty_at = block->queries_full_at + block->query_stages * BARRIER_BYTES;
    block->own_at = block->queries_empty_at + block->query_stages * BARRIER_BYTES;
    block->fetch.full_at = block->own_at + block->own_barriers * BARRIER_BYTES;
    block->shared_bytes =
        block->fetch.full_at + block->fetch.slots * block->groups * block->teams * BARRIER_BYTES;
    const tsr_feature *has = tsr_feature_find(emit->target->cpu);
    if (has && block->shared_bytes > has->shared_bytes)
        FAIL(emit->ctx, TSR_COMPILE,
             "kernel '%s' needs %u bytes of shared memory; '%s' has %" PRId64, emit->kernel,
             block->shared_bytes, emit->target->name, has->shared_bytes);
    *launch = (tsr_fatbin_kernel){.threads = count_threads(block),
                                  .programs = 1,
                                  .shared_bytes = block->shared_bytes,
                                  .blocks = count_blocks(block)};
    return TSR_SUCCESS;
}

/* ---- the function ---------------------------------------------------------------------------- */

static void set_text(tsr_emit *emit, const char *name, const char *value) {
    LLVMAddAttributeAtIndex(emit->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(emit->llvm, name, (unsigned)strlen(name),
                                                      value, (unsigned)strlen(value)));
}

static tsr_result make_function(tsr_emit *emit, MlirBlock body, const tsr_fatbin_kernel *launch) {
    LLVMTypeRef params[TSR_EMIT_ARGUMENTS_MAX + 3 + TSR_FATBIN_MAPS_MAX];
    LLVMTypeRef pointer = LLVMPointerTypeInContext(emit->llvm, 0);
    unsigned buffers = (unsigned)mlirBlockGetNumArguments(body);
    unsigned maps = emit->block->has_tma ? tsr_block_map_limit(emit->block) : 0,
             count = buffers + 3 + maps;
    char text[32];
    for (unsigned i = 0; i < count; i++) params[i] = pointer;
    params[buffers + 2] = LLVMInt64TypeInContext(emit->llvm);
    if (LLVMGetNamedFunction(emit->module, emit->kernel))
        FAIL(emit->ctx, TSR_INTERNAL, "kernel '%s' is defined twice", emit->kernel);
    emit->function =
        LLVMAddFunction(emit->module, emit->kernel,
                        LLVMFunctionType(LLVMVoidTypeInContext(emit->llvm), params, count, false));
    LLVMSetFunctionCallConv(emit->function, PTX_KERNEL);
    emit->block->grid_index = buffers + 2;
    for (unsigned i = 0; i < maps; i++) tsr_block_set_map(emit, buffers + 3 + i);
    snprintf(text, sizeof text, "%u,1,1", launch->threads);
    set_text(emit, "nvvm.maxntid", text);
    bool capped = emit->block->registers && !divides_registers(emit->block);
    snprintf(text, sizeof text, "%u", capped ? emit->block->registers : launch->blocks);
    set_text(emit, capped ? "nvvm.maxnreg" : "nvvm.minctasm", text);
    if (emit->block->together > 1) {
        snprintf(text, sizeof text, "%u,1,1", emit->block->together);
        set_text(emit, "nvvm.cluster_dim", text);
    }
    set_text(emit, "target-cpu", emit->target->cpu);
    set_text(emit, "target-features", emit->target->features);
    for (unsigned i = 0; i < buffers; i++)
        tsr_emit_bind(emit, mlirBlockGetArgument(body, (intptr_t)i),
                      LLVMGetParam(emit->function, i));
    emit->fault = LLVMGetParam(emit->function, buffers);
    return TSR_SUCCESS;
}

/* i32: start of the block's shared memory. */
static LLVMValueRef find_shared(tsr_emit *emit) {
    LLVMValueRef memory = LLVMGetNamedGlobal(emit->module, "tile_shared");
    if (!memory) {
        LLVMTypeRef type = LLVMArrayType2(LLVMInt8TypeInContext(emit->llvm), 0);
        memory = LLVMAddGlobalInAddressSpace(emit->module, type, "tile_shared", 3);
        LLVMSetLinkage(memory, LLVMExternalLinkage);
        LLVMSetAlignment(memory, TSR_BLOCK_RING_ALIGN);
    }
    return LLVMBuildPtrToInt(emit->builder, memory, tsr_block_i32(emit), "shared");
}

static LLVMValueRef special(tsr_emit *emit, const char *name) {
    return tsr_emit_intrinsic(emit, name, NULL, 0, NULL, 0);
}

/* Tells the assembler that the value is the same in all lanes of a warp. */
static LLVMValueRef warp_uniform(tsr_emit *emit, LLVMValueRef value) {
    LLVMValueRef args[] = {tsr_block_int(emit, -1), value, tsr_block_int(emit, 0),
                           tsr_block_int(emit, WARP_LANES - 1)};
    return tsr_emit_intrinsic(emit, "llvm.nvvm.shfl.sync.idx.i32", NULL, 0, args, 4);
}

static void branch_if(tsr_emit *emit, LLVMValueRef condition, LLVMBasicBlockRef *out_then,
                      LLVMBasicBlockRef *out_else, const char *name) {
    *out_then = tsr_emit_block(emit, name);
    *out_else = tsr_emit_block(emit, "");
    LLVMBuildCondBr(emit->builder, condition, *out_then, *out_else);
    LLVMPositionBuilderAtEnd(emit->builder, *out_then);
}

static LLVMValueRef is_zero(tsr_emit *emit, LLVMValueRef x) {
    return LLVMBuildICmp(emit->builder, LLVMIntEQ, x, tsr_block_int(emit, 0), "");
}

/* Synchronizes all threads of a block, or of blocks that run together, after the setup. */
static void sync_made(tsr_emit *emit) {
    tsr_block_asm(emit, NULL,
                  emit->block->together > 1
                      ? "barrier.cluster.arrive.relaxed; barrier.cluster.wait;"
                      : "bar.sync 0;",
                  "~{memory}", NULL, 0);
}

static void make_some(tsr_emit *emit, uint32_t from, uint32_t to, int64_t arrivals) {
    for (; from < to; from += BARRIER_BYTES) {
        LLVMValueRef args[] = {tsr_block_add(emit, emit->block->shared, from),
                               tsr_block_int(emit, arrivals)};
        tsr_block_asm(emit, NULL, "mbarrier.init.shared.b64 [$0], $1;", "r,r,~{memory}", args, 2);
    }
}

/* Initializes the barriers of a stage with their numbers of arrivals. Returns the first instruction
 * of the one thread that does it. */
static LLVMValueRef make_barriers(tsr_emit *emit, LLVMValueRef thread) {
    const tsr_block *block = emit->block;
    LLVMBasicBlockRef first, rest;
    int64_t full = block->uses_tma ? 1 : TSR_BLOCK_GROUP;
    int64_t empty = block->has_wgmma ? block->groups : block->warps;
    empty *= tsr_block_sharers(block);
    branch_if(emit, is_zero(emit, thread), &first, &rest, "barriers");
    make_some(emit, block->full_at, block->empty_at, full);
    make_some(emit, block->empty_at, block->written_at, empty);
    make_some(emit, block->written_at, block->queries_full_at, block->together);
    make_some(emit, block->queries_full_at, block->queries_empty_at, full);
    make_some(emit, block->queries_empty_at, block->own_at, empty);
    for (uint32_t i = 0; i < block->own_barriers; i++) {
        uint32_t at = block->own_at + i * BARRIER_BYTES;
        make_some(emit, at, at + BARRIER_BYTES, tsr_block_grad_arrivals(block, i));
    }
    make_some(emit, block->fetch.full_at, block->shared_bytes, 1);
    if (block->has_tma)
        tsr_block_asm(emit, NULL, "fence.mbarrier_init.release.cluster;", "~{memory}", NULL, 0);
    LLVMBuildBr(emit->builder, rest);
    LLVMPositionBuilderAtEnd(emit->builder, rest);
    sync_made(emit);
    return LLVMGetFirstInstruction(first);
}

/* Copying threads give registers to the computing threads. */
static void divide_registers(tsr_emit *emit) {
    const tsr_block *block = emit->block;
    char text[64];
    if (!divides_registers(block)) return;
    snprintf(text, sizeof text, "setmaxnreg.%s.sync.aligned.u32 %u;", block->copies ? "dec" : "inc",
             block->copies ? copying_registers(block) : computing_registers(block));
    tsr_block_asm(emit, NULL, text, "", NULL, 0);
}

/* ---- turns of teams -------------------------------------------------------------------------- */

static void team_barrier(tsr_emit *emit, const char *text, LLVMValueRef team) {
    const tsr_block *block = emit->block;
    tsr_block_named_barrier(emit, text, team, block->teams * block->warps * WARP_LANES);
}

/* Passes the turn to the other team. */
static void pass_to_next_team(tsr_emit *emit) {
    LLVMValueRef other =
        LLVMBuildSub(emit->builder, tsr_block_int(emit, TEAMS_MAX - 1), emit->block->team, "");
    team_barrier(emit, "bar.arrive $0, $1;", other);
}

/* Team 0 has the first turn. */
static void open_pingpong(tsr_emit *emit) {
    LLVMBasicBlockRef first, last;
    branch_if(emit, is_zero(emit, emit->block->team), &first, &last, "first_turn");
    LLVMBasicBlockRef begin = tsr_emit_block(emit, "pingpong");
    LLVMBuildBr(emit->builder, begin);
    LLVMPositionBuilderAtEnd(emit->builder, last);
    pass_to_next_team(emit);
    LLVMBuildBr(emit->builder, begin);
    LLVMPositionBuilderAtEnd(emit->builder, begin);
}

static bool is_pingpong(const tsr_block *block) { return block->teams > 1 && !block->copies; }

void tsr_block_before_loop(tsr_emit *emit, MlirOperation loop) {
    (void)loop; /* the only one */
    if (is_pingpong(emit->block)) team_barrier(emit, "bar.sync $0, $1;", emit->block->team);
}

void tsr_block_after_loop(tsr_emit *emit, MlirOperation loop) {
    (void)loop;
    if (is_pingpong(emit->block)) pass_to_next_team(emit);
}

/* Emits the loop over all programs of the block, in the current role. */
static tsr_result emit_role(tsr_emit *emit, MlirBlock body, LLVMBasicBlockRef done) {
    LLVMBuilderRef b = emit->builder;
    tsr_block *block = emit->block;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMBasicBlockRef loop = tsr_emit_block(emit, "program"), end = tsr_emit_block(emit, "last");
    LLVMValueRef begin =
        LLVMBuildZExt(b, special(emit, "llvm.nvvm.read.ptx.sreg.ctaid.x"), i64, "");
    LLVMValueRef step =
        LLVMBuildZExt(b, special(emit, "llvm.nvvm.read.ptx.sreg.nctaid.x"), i64, "");
    LLVMValueRef limit = LLVMGetParam(emit->function, block->grid_index);
    LLVMValueRef used = tsr_block_int(emit, 0);
    if (is_pingpong(block)) {
        LLVMValueRef team = LLVMBuildZExt(b, block->team, i64, "");
        begin = LLVMBuildAdd(b, begin, LLVMBuildMul(b, team, step, ""), "");
        step = LLVMBuildMul(b, step, tsr_emit_int(i64, block->teams), "");
        used = tsr_block_mul(emit, block->team, block->program_stages);
        open_pingpong(emit);
    }
    if (!block->copies) tsr_block_open_attend(emit);
    LLVMBuildStore(b, used, block->used);
    LLVMBuildStore(b, tsr_block_int(emit, 0), block->tiles);
    LLVMBuildStore(b, tsr_block_int(emit, 0), block->fetch.programs);
    LLVMBuildStore(b, tsr_block_int(emit, 0), block->deferred);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, begin, limit, ""), loop, end);
    LLVMPositionBuilderAtEnd(b, loop);
    emit->program = LLVMBuildPhi(b, i64, "program");
    block->base = LLVMBuildLoad2(b, tsr_block_i32(emit), block->used, "base");
    block->filled = (MlirValue){NULL};
    block->pending = block->stored = false;
    TRY(emit->ctx, tsr_emit_ops(emit, body));
    if (!block->copies) tsr_block_wait_products(emit, (MlirValue){NULL});
    int64_t stages = (int64_t)block->teams * block->program_stages;
    if (is_pingpong(block))
        LLVMBuildStore(b, tsr_block_add(emit, block->base, stages), block->used);
    LLVMValueRef next = LLVMBuildNSWAdd(b, emit->program, step, "");
    LLVMValueRef values[] = {begin, next};
    LLVMBasicBlockRef from[] = {before, LLVMGetInsertBlock(b)};
    LLVMAddIncoming(emit->program, values, from, runs_one(block) ? 1 : 2);
    if (runs_one(block)) /* there is no next program */
        LLVMBuildBr(b, end);
    else
        LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, next, limit, ""), loop, end);
    LLVMPositionBuilderAtEnd(b, end);
    if (!block->copies && block->stored) tsr_block_emit_stored(emit);
    LLVMBuildBr(b, done);
    return TSR_SUCCESS;
}

/* The writing role: thread 0 of warps 1 and 2. */
static tsr_result emit_writing(tsr_emit *emit, MlirBlock body, LLVMBasicBlockRef done) {
    LLVMBuilderRef b = emit->builder;
    LLVMBasicBlockRef work, none;
    LLVMValueRef other = LLVMBuildICmp(b, LLVMIntULT, emit->block->thread,
                                       tsr_block_int(emit, (int64_t)3 * WARP_LANES), "");
    other = LLVMBuildAnd(b, other, is_zero(emit, emit->lane), "");
    branch_if(emit, other, &work, &none, "write");
    LLVMPositionBuilderAtEnd(b, none);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, work);
    emit->block->writes = true;
    TRY(emit->ctx, emit_role(emit, body, done));
    emit->block->writes = false;
    return TSR_SUCCESS;
}

/* Elects one thread of warp 0 in a way that the assembler recognizes: otherwise it generates a loop
 * around each copy for other threads. */
static LLVMBasicBlockRef elect_one(tsr_emit *emit, LLVMValueRef warp, LLVMBasicBlockRef done) {
    LLVMBasicBlockRef first, work, none;
    LLVMValueRef all = tsr_block_int(emit, -1);
    branch_if(emit, is_zero(emit, warp), &first, &none, "elect");
    LLVMValueRef elected = tsr_emit_intrinsic(emit, "llvm.nvvm.elect.sync", NULL, 0, &all, 1);
    elected = LLVMBuildExtractValue(emit->builder, elected, 1, "");
    work = tsr_emit_block(emit, "copy");
    LLVMBuildCondBr(emit->builder, elected, work, none);
    LLVMPositionBuilderAtEnd(emit->builder, none);
    LLVMBuildBr(emit->builder, done);
    return work;
}

static tsr_result emit_copying(tsr_emit *emit, MlirBlock body, LLVMValueRef thread,
                               LLVMValueRef warp, LLVMBasicBlockRef done) {
    tsr_block *block = emit->block;
    LLVMBasicBlockRef work, none;
    block->copies = true;
    block->thread = thread;
    divide_registers(emit);
    if (!block->stages && !block->own_barriers) {
        LLVMBuildBr(emit->builder, done);
        return TSR_SUCCESS;
    }
    if (block->uses_tma && block->own_barriers) {
        branch_if(emit, is_zero(emit, thread), &work, &none, "copy");
        LLVMPositionBuilderAtEnd(emit->builder, none);
        TRY(emit->ctx, emit_writing(emit, body, done));
        LLVMPositionBuilderAtEnd(emit->builder, work);
    } else if (block->uses_tma) {
        work = elect_one(emit, warp, done);
        LLVMPositionBuilderAtEnd(emit->builder, work);
    }
    return emit_role(emit, body, done);
}

/* Numbers threads and warps within their team. */
static void join_team(tsr_emit *emit) {
    LLVMBuilderRef b = emit->builder;
    tsr_block *block = emit->block;
    if (block->teams == 1) return;
    block->team = LLVMBuildUDiv(b, block->warp, tsr_block_int(emit, block->warps), "team");
    LLVMValueRef warps = tsr_block_mul(emit, block->team, block->warps);
    block->warp = LLVMBuildSub(b, block->warp, warps, "");
    block->thread = LLVMBuildSub(b, block->thread, tsr_block_mul(emit, warps, WARP_LANES), "");
}

/* Emits the copying warp group and the computing warp groups. */
static tsr_result emit_roles(tsr_emit *emit, MlirBlock body, LLVMValueRef thread, LLVMValueRef warp,
                             LLVMBasicBlockRef done) {
    LLVMBuilderRef b = emit->builder;
    tsr_block *block = emit->block;
    LLVMBasicBlockRef copying, computing;
    LLVMValueRef is_copying =
        LLVMBuildICmp(b, LLVMIntULT, warp, tsr_block_int(emit, GROUP_WARPS), "");
    branch_if(emit, is_copying, &copying, &computing, "copying");
    TRY(emit->ctx, emit_copying(emit, body, thread, warp, done));
    LLVMPositionBuilderAtEnd(b, computing);
    block->copies = false;
    block->thread = tsr_block_add(emit, thread, -TSR_BLOCK_GROUP);
    block->warp = tsr_block_add(emit, warp, -GROUP_WARPS);
    join_team(emit);
    divide_registers(emit);
    return emit_role(emit, body, done);
}

static tsr_result emit_body(tsr_emit *emit, MlirBlock body) {
    LLVMBuilderRef b = emit->builder;
    tsr_block *block = emit->block;
    LLVMBasicBlockRef done;
    emit->entry = tsr_emit_block(emit, "entry");
    LLVMPositionBuilderAtEnd(b, emit->entry);
    block->used = LLVMBuildAlloca(b, tsr_block_i32(emit), "used");
    block->tiles = LLVMBuildAlloca(b, tsr_block_i32(emit), "tiles");
    block->deferred = LLVMBuildAlloca(b, tsr_block_i32(emit), "deferred");
    block->fetch.programs = LLVMBuildAlloca(b, tsr_block_i32(emit), "programs");
    block->sums = LLVMBuildAlloca(b, tsr_block_i32(emit), "sums");
    LLVMBuildStore(b, tsr_block_int(emit, 0), block->sums);
    block->shared = find_shared(emit);
    LLVMValueRef thread = special(emit, "llvm.nvvm.read.ptx.sreg.tid.x");
    LLVMValueRef lanes = tsr_block_int(emit, WARP_LANES);
    emit->lane = LLVMBuildAnd(b, thread, tsr_block_int(emit, WARP_LANES - 1), "lane");
    LLVMValueRef warp = warp_uniform(emit, LLVMBuildUDiv(b, thread, lanes, ""));
    if (block->together > 1) block->rank = special(emit, "llvm.nvvm.read.ptx.sreg.cluster.ctarank");
    bool waits =
        block->stages || block->exchange_bytes || block->own_barriers || block->fetch.slots;
    LLVMValueRef first = waits ? make_barriers(emit, thread) : NULL;
    done = tsr_emit_block(emit, "end");
    if (block->has_one_role) {
        block->thread = thread;
        block->warp = warp;
        TRY(emit->ctx, emit_role(emit, body, done));
    } else {
        TRY(emit->ctx, emit_roles(emit, body, thread, warp, done));
    }
    LLVMPositionBuilderAtEnd(b, done);
    /* A block's barriers must exist until the other blocks have arrived at them. */
    if (block->together > 1)
        tsr_block_asm(emit, NULL, "barrier.cluster.arrive; barrier.cluster.wait;", "~{memory}",
                      NULL, 0);
    LLVMBuildRetVoid(b);
    if (first) tsr_block_prefetch_maps(emit, first);
    return TSR_SUCCESS;
}

tsr_result tsr_emit_block_func(tsr_emit *emit, MlirOperation func, tsr_fatbin_kernel *out_launch) {
    tsr_block block = {0};
    memset(emit->argument_use, 0, sizeof emit->argument_use);
    MlirBlock body = tsr_op_body(func);
    emit->block = &block;
    tsr_result result = plan(emit, func, out_launch);
    if (!result.code) result = make_function(emit, body, out_launch);
    if (!result.code) result = emit_body(emit, body);
    if (!result.code && block.lacks_maps)
        result = tsr_fail_(emit->ctx, TSR_COMPILE, 0, __FILE__, __LINE__,
                           "kernel '%s' copies from and to more than %d buffers or kinds of boxes",
                           emit->kernel, (int)tsr_block_map_limit(&block));
    if (runs_one(&block)) out_launch->blocks = 0;
    out_launch->map_count = block.map_count;
    memcpy(out_launch->maps, block.maps, sizeof block.maps);
    emit->block = NULL;
    return result;
}

void tsr_block_enter_loop(tsr_emit *emit, MlirOperation loop) {
    if (emit->block->copies || !emit->block->has_wgmma) return;
    TSR_FOR_EACH_OP(op, tsr_op_body(loop))
    emit->block->pending = emit->block->pending || tsr_op_is(op, TSR_TILE_MMA);
}

/* ---- ops ------------------------------------------------------------------------------------- */

static void emit_nothing(tsr_emit *emit, MlirOperation op) { (void)emit, (void)op; }

static void emit_barrier(tsr_emit *emit, MlirOperation op) {
    (void)op;
    tsr_block_sync(emit, false);
}

/* The results of the other role's ops are not used in this role. */
static void leave_out(tsr_emit *emit, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        tsr_emit_bind(emit, tsr_op_result(op, i), LLVMGetUndef(tsr_block_i32(emit)));
}

enum { BOTH, COPYING, COMPUTING };
static const struct {
    int role;
    void (*emit)(tsr_emit *emit, MlirOperation op);
} rows[TSR_OP_COUNT] = {[TSR_TILE_ALLOC_SHARED] = {BOTH, emit_nothing},
                        [TSR_TILE_ASYNC_COPY] = {COPYING, tsr_block_emit_async_copy},
                        [TSR_TILE_WAIT_ASYNC] = {COMPUTING, tsr_block_emit_wait},
                        [TSR_TILE_RELEASE] = {COMPUTING, tsr_block_emit_release},
                        [TSR_TILE_BARRIER] = {COMPUTING, emit_barrier},
                        [TSR_TILE_FILL] = {COMPUTING, tsr_block_emit_fill},
                        [TSR_TILE_MMA] = {COMPUTING, tsr_block_emit_mma},
                        [TSR_TILE_LOAD_SHARED] = {COMPUTING, tsr_block_emit_load_shared},
                        [TSR_TILE_LOAD_FRAGMENT] = {COMPUTING, tsr_block_emit_fetch},
                        [TSR_TILE_STORE_SHARED] = {COMPUTING, tsr_block_emit_store_shared},
                        [TSR_TILE_SUM_PROGRAMS] = {BOTH, tsr_block_emit_sum}};

bool tsr_emit_block_has(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_TILE_ATTEND || id == TSR_TILE_MAP || id == TSR_TILE_STORE_FRAGMENT ||
           rows[id].emit;
}

tsr_result tsr_emit_block_op(tsr_emit *emit, MlirOperation op, bool *out_known) {
    bool copies = emit->block->copies;
    tsr_op id = tsr_op_of(op);
    *out_known = true;
    if (rows[id].emit) {
        (rows[id].role == (copies ? COMPUTING : COPYING) ? leave_out : rows[id].emit)(emit, op);
        return TSR_SUCCESS;
    }
    if (id == TSR_TILE_ATTEND) return tsr_block_emit_attend(emit, op);
    if (id == TSR_TILE_GATHER && tsr_op_has(op, TSR_PAIRS_NAME)) {
        tsr_block_emit_pair(emit, op);
        return TSR_SUCCESS;
    }
    bool is_map = id == TSR_TILE_MAP;
    if (is_map || id == TSR_TILE_STORE_FRAGMENT) {
        if (!copies) return is_map ? tsr_block_emit_map(emit, op) : tsr_block_emit_store(emit, op);
        leave_out(emit, op);
        return TSR_SUCCESS;
    }
    *out_known = false;
    return TSR_SUCCESS;
}
