/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over programs that run together, through each other's shared memory:
 *
 *     all threads of the block have multiplied: no thread reads the stages
 *     each thread writes its registers there; all arrive at the `written` barrier of every program
 *     wait for it; each thread adds this program's part, as written by its counterpart thread in
 *     all programs
 *     all arrive at the `read` barrier of every program, if there is a next program
 *
 * The copying role waits for `read` before it copies for the next program.
 * A thread has the same elements in all programs, so it reads elements of the positions that it
 * wrote.
 * Source: PTX ISA 8.5, "mbarrier", "mapa", "ld".
 */
#include "compiler/shim/shim.h"
#include "compiler/target/block/block.h"
#include "compiler/tile/attributes.h"

enum { WORDS = 4, UNIT_BYTES = 16 };

void tsr_block_plan_sum(tsr_block *block, MlirOperation op) {
    int64_t dims[2] = {0};
    bool is_acc = false;
    MlirType element;
    tsr_shim_tile_fragment(mlirValueGetType(tsr_op_operand(op, 0)), dims, &element, &is_acc);
    uint32_t bytes = (uint32_t)(dims[0] * dims[1]) * 4;
    if (bytes > block->exchange_bytes) block->exchange_bytes = bytes;
}

static LLVMValueRef shared_at(tsr_emit *emit, uint32_t offset) {
    return tsr_block_add(emit, emit->block->shared, offset);
}

/* Waits until the phase with this parity is over; writes of other threads before it are visible
 * then. */
static void wait(tsr_emit *emit, uint32_t barrier, LLVMValueRef parity) {
    LLVMValueRef args[] = {shared_at(emit, barrier), parity};
    tsr_block_asm(emit, NULL,
                  "{ .reg .pred p; W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, "
                  "[$0], $1; @!p bra W; }",
                  "r,r,~{memory}", args, 2);
}

/* Waits for all threads of the program; then the first threads arrive, one at each program's
 * barrier. */
static void arrive_everywhere(tsr_emit *emit, uint32_t barrier) {
    LLVMBuilderRef b = emit->builder;
    const tsr_block *block = emit->block;
    tsr_block_sync(emit, false);
    LLVMValueRef mine =
        LLVMBuildICmp(b, LLVMIntULT, block->thread, tsr_block_int(emit, block->together), "");
    LLVMValueRef args[] = {shared_at(emit, barrier),
                           LLVMBuildZExt(b, mine, tsr_block_i32(emit), ""), block->thread};
    tsr_block_asm(emit, NULL,
                  "{ .reg .pred p; .reg .b32 a; setp.ne.b32 p, $1, 0; "
                  "@p mapa.shared::cluster.u32 a, $0, $2; "
                  "@p mbarrier.arrive.release.cluster.shared::cluster.b64 _, [a]; }",
                  "r,r,r,~{memory}", args, 3);
}

/* Is there a next program? */
static LLVMValueRef has_next(tsr_emit *emit) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef limit = LLVMGetParam(emit->function, emit->block->grid_index);
    LLVMValueRef blocks =
        tsr_emit_intrinsic(emit, "llvm.nvvm.read.ptx.sreg.nctaid.x", NULL, 0, NULL, 0);
    LLVMValueRef next = LLVMBuildAdd(
        b, emit->program, LLVMBuildZExt(b, blocks, LLVMInt64TypeInContext(emit->llvm), ""), "");
    return LLVMBuildICmp(b, LLVMIntSLT, next, limit, "");
}

/* Allows others to overwrite the exchanged data if there is a next program. The copies use another
 * proxy, so they need a fence. */
static void leave_exchange(tsr_emit *emit) {
    LLVMBasicBlockRef rest = tsr_block_if(emit, has_next(emit), "read");
    tsr_block_asm(emit, NULL, "fence.proxy.async.shared::cta;", "~{memory}", NULL, 0);
    arrive_everywhere(emit, emit->block->read_at);
    tsr_block_end_if(emit, rest);
}

/* The copying role's part of a sum. */
static void wait_for_exchange(tsr_emit *emit, LLVMValueRef parity) {
    LLVMBasicBlockRef rest = tsr_block_if(emit, has_next(emit), "exchanged");
    wait(emit, emit->block->read_at, parity);
    tsr_block_end_if(emit, rest);
}

static void write_all(tsr_emit *emit, LLVMValueRef from, int64_t stride, LLVMValueRef *values,
                      unsigned count) {
    for (unsigned i = 0; i < count; i += WORDS) {
        LLVMValueRef args[1 + WORDS] = {tsr_block_add(emit, from, i / WORDS * stride)};
        for (unsigned e = 0; e < WORDS; e++) args[1 + e] = values[i + e];
        tsr_block_asm(emit, NULL, "st.shared.v4.f32 [$0], {$1, $2, $3, $4};", "r,f,f,f,f,~{memory}",
                      args, 1 + WORDS);
    }
}

/* Adds the values at `offset` from each program's address. */
static void add_up(tsr_emit *emit, LLVMValueRef *addresses, LLVMValueRef offset,
                   LLVMValueRef *out) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef f32 = LLVMFloatTypeInContext(emit->llvm), types[] = {f32, f32, f32, f32};
    LLVMTypeRef type = LLVMStructTypeInContext(emit->llvm, types, WORDS, false);
    for (uint32_t q = 0; q < emit->block->together; q++) {
        LLVMValueRef address = LLVMBuildAdd(b, addresses[q], offset, "");
        LLVMValueRef loaded =
            tsr_block_asm(emit, type, "ld.shared::cluster.v4.f32 {$0, $1, $2, $3}, [$4];",
                          "=f,=f,=f,=f,r,~{memory}", &address, 1);
        for (unsigned e = 0; e < WORDS; e++) {
            LLVMValueRef value = LLVMBuildExtractValue(b, loaded, e, "");
            out[e] = q ? LLVMBuildFAdd(b, out[e], value, "") : value;
        }
    }
}

/* Adds register 4 (m * column_blocks + j) + e of all programs; the column blocks j are divided
 * among the programs. */
static unsigned read_part(tsr_emit *emit, LLVMValueRef from, int64_t stride, const tsr_layout *l,
                          LLVMValueRef *out) {
    LLVMBuilderRef b = emit->builder;
    const tsr_block *block = emit->block;
    LLVMValueRef addresses[TSR_TOGETHER_MAX];
    uint32_t width = l->column_blocks / block->together;
    unsigned count = 0;
    for (uint32_t q = 0; q < block->together; q++) {
        LLVMValueRef args[] = {from, tsr_block_int(emit, q)};
        addresses[q] = tsr_block_asm(emit, tsr_block_i32(emit),
                                     "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", args, 2);
    }
    LLVMValueRef first = tsr_block_mul(emit, block->rank, width * stride);
    for (uint32_t m = 0; m < l->row_blocks; m++)
        for (uint32_t j = 0; j < width; j++, count += WORDS) {
            int64_t unit = ((int64_t)m * l->column_blocks + j) * stride;
            add_up(emit, addresses, LLVMBuildAdd(b, first, tsr_block_int(emit, unit), ""),
                   out + count);
        }
    return count;
}

static void exchange(tsr_emit *emit, MlirOperation op, LLVMValueRef parity) {
    LLVMBuilderRef b = emit->builder;
    const tsr_block *block = emit->block;
    LLVMValueRef values[TSR_BLOCK_REGISTERS_MAX];
    unsigned count = 0;
    int64_t dims[2] = {0}, stride = (int64_t)block->groups * TSR_BLOCK_GROUP * UNIT_BYTES;
    bool is_acc = false;
    MlirType element;
    tsr_shim_tile_fragment(mlirValueGetType(tsr_op_operand(op, 0)), dims, &element, &is_acc);
    tsr_layout l = tsr_block_layout(emit, dims[0], dims[1]);
    tsr_block_registers(emit, tsr_op_operand(op, 0), values, &count);
    LLVMValueRef own = tsr_block_mul(emit, block->thread, UNIT_BYTES);
    LLVMValueRef from = LLVMBuildAdd(b, block->shared, own, "");
    tsr_block_sync(emit, false);
    write_all(emit, from, stride, values, count);
    arrive_everywhere(emit, block->written_at);
    wait(emit, block->written_at, parity);
    count = read_part(emit, from, stride, &l, values);
    leave_exchange(emit);
    tsr_emit_set(emit, op,
                 tsr_block_pack_registers(emit, LLVMFloatTypeInContext(emit->llvm), values, count));
}

void tsr_block_emit_sum(tsr_emit *emit, MlirOperation op) {
    LLVMValueRef done = tsr_block_get(emit, emit->block->sums);
    LLVMValueRef parity = LLVMBuildAnd(emit->builder, done, tsr_block_int(emit, 1), "");
    if (emit->block->copies) {
        wait_for_exchange(emit, parity);
        tsr_emit_bind(emit, tsr_op_result(op, 0), LLVMGetUndef(tsr_block_i32(emit)));
    } else {
        exchange(emit, op, parity);
    }
    tsr_block_set(emit, emit->block->sums, tsr_block_add(emit, done, 1));
}
