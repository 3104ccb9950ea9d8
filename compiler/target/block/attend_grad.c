/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.attend "backward" with wgmma: the gradient contributions of a tile of 128 keys. Everything
 * is transposed: a warp group has 64 keys and columns are queries, so that P^T and dS^T in
 * registers are the first factors of the following products.
 *
 *     copying          K, V; for each step Q and -l / scale, dO and -t
 *     computing, step  begin C = V dO^T - t
 *                      P = exp2(c S); begin dV += P dO
 *                      wait for C: dS = P C, rounded, to shared memory
 *                      begin dQ = dS K of the step before, dK += dS Q, S = K Q^T - l / scale of the
 *                      next one
 *                      wait for dQ: to shared memory, in f32
 *     two writers,     wait until it is the tile's turn at these queries; add dQ to theirs
 *     in rotation
 *
 * Each tile of queries counts the tiles of keys that have added to it. A tile of keys waits until
 * the count is its own position in the order, so that sums are the same in every run. Causal: tiles
 * of keys run from the last to the first; each begins at its first query and adds after the tiles
 * with later keys. Otherwise each tile begins at its own queries and wraps around, so that no tile
 * waits for long; then all tiles of a head must run concurrently. If a head may have more tiles
 * than can run concurrently, all begin at the first query.
 *
 * With dropout, P of dropped weights is negative: dV then uses 0, and dS only uses C = -t. The
 * sums are divided by 1 - dropout, and t is multiplied by it.
 *
 * Sources: Dao, "FlashAttention-2", 2023, section 3.1.2; Shah et al., "FlashAttention-3", 2024; PTX
 * ISA 8.6, "cp.reduce.async.bulk.tensor".
 */
#include "compiler/shim/shim.h"
#include "compiler/target/block/block.h"
#include "compiler/target/block/drop.h"
#include "compiler/target/block/sizes.h"
#include "compiler/tile/attributes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    BOX_PAIRS = BOX_REGISTERS / 2,
    WIDE_COLUMNS = 32, /* columns of a box of f32 */
    SUM_COLUMNS = 64,  /* columns of a warp group's part of dQ, transposed */
    SUM_REGISTERS = 32,
    REGISTERS_MAX = 64,
    MASK_PAIRS = 16, /* pairs of weights whose dropout bits share a register */
    MASKS_MAX = REGISTERS_MAX / 2 / MASK_PAIRS,
    STAGES = 2,
    RESIDENT_MAX = 64, /* tiles of a head that always run concurrently */
};

/* mbarriers, which follow the mbarriers of func.c. */
enum {
    KEYS_FULL,
    VALUES_FULL,
    QUERIES_FULL,
    QUERIES_EMPTY = QUERIES_FULL + STAGES,
    RESULTS_FULL = QUERIES_EMPTY + STAGES, /* dO */
    RESULTS_EMPTY = RESULTS_FULL + STAGES,
    SCORES_FULL = RESULTS_EMPTY + STAGES, /* dS */
    SCORES_EMPTY = SCORES_FULL + STAGES,
    SUMS_FULL = SCORES_EMPTY + STAGES, /* dQ */
    SUMS_EMPTY = SUMS_FULL + STAGES,
    BARRIERS = SUMS_EMPTY + STAGES,
};

enum { Q, K, V, DRESULT, LOGARITHM, TOTAL, COUNT, SUM, DK, DV, BUFFERS };
enum { RING_K, RING_V, RING_Q, RING_DRESULT, RING_SCORES, RING_SUMS, RING_ROWS, RINGS };

typedef struct grad {
    tsr_emit *emit;
    MlirOperation op;
    const tsr_ring *rings[RINGS];
    MlirType element;
    int64_t size, d;       /* size: queries, and keys; d: head dimension */
    int64_t step;          /* queries of a step */
    int64_t ratio;         /* steps per tile of keys */
    int64_t repeat;        /* query heads per key head */
    int64_t tiles, rounds; /* tiles of keys; rounds of queries, in steps */
    bool causal, rotates;  /* rotates: tiles begin at their own queries */
    double scale;
    uint32_t buffers;
    tsr_drop drop;
    bool begins_anew; /* begin dropout in each step, because heads change or few registers are left
                       */
    LLVMTypeRef f32;
    /* i32 */
    LLVMValueRef head, group, row, tile;
    LLVMValueRef per_head, steps;
    LLVMValueRef warp_group;
    LLVMValueRef
        masks[MASKS_MAX]; /* memory: bits of the weights that the current step does not drop */
    LLVMValueRef dk[REGISTERS_MAX], dv[REGISTERS_MAX], scores[REGISTERS_MAX]; /* memory */
} grad;

/* The position of a step. */
typedef struct where {
    LLVMValueRef head, in_head;   /* i32: head of queries; step within it */
    LLVMValueRef queries, before; /* i32: number of its queries; number of tiles that add before */
} where;

static LLVMValueRef integer(const grad *g, int64_t value) { return tsr_block_int(g->emit, value); }

static LLVMValueRef constant(const grad *g, double value) { return tsr_emit_float(g->f32, value); }

/* ---- the op ---------------------------------------------------------------------------------- */

static LLVMValueRef index_operand(const grad *g, uint32_t index) {
    return LLVMBuildTrunc(g->emit->builder, tsr_emit_operand(g->emit, g->op, g->buffers + index),
                          tsr_block_i32(g->emit), "");
}

static grad read_grad(tsr_emit *emit, MlirOperation op) {
    enum { INDICES = 3 };
    grad g = {.emit = emit,
              .op = op,
              .f32 = LLVMFloatTypeInContext(emit->llvm),
              .size = tsr_attend_dim(op, Q, 1),
              .d = tsr_attend_dim(op, Q, 2),
              .repeat = tsr_attend_dim(op, Q, 0) / tsr_attend_dim(op, K, 0),
              .causal = tsr_op_flag(op, "causal")};
    MlirAttribute segments = tsr_op_attr(op, "operandSegmentSizes");
    g.buffers = (uint32_t)mlirDenseI32ArrayGetElement(segments, 0);
    g.drop = tsr_block_read_drop(op);
    for (uint32_t i = 0; i < RINGS; i++)
        g.rings[i] = tsr_block_ring(emit, tsr_op_operand(op, g.buffers + INDICES + i));
    g.element = mlirShapedTypeGetElementType(mlirValueGetType(tsr_op_operand(op, Q)));
    g.step = g.rings[RING_Q]->rows;
    g.ratio = g.rings[RING_K]->rows / g.step;
    g.tiles = g.size / g.rings[RING_K]->rows;
    g.rounds = g.size / g.step;
    g.rotates = !g.causal && g.tiles <= RESIDENT_MAX;
    g.begins_anew = g.repeat > 1 || (!g.causal && g.d == BOX_COLUMNS);
    tsr_op_f64(op, "scale", &g.scale);
    return g;
}

bool tsr_block_is_backward(MlirOperation op) {
    return strcmp(tsr_op_string(op, "how"), "backward") == 0;
}

void tsr_block_plan_grad(tsr_emit *emit) { emit->block->own_barriers = BARRIERS; }

static void find_tile(grad *g) {
    LLVMBuilderRef b = g->emit->builder;
    g->head = index_operand(g, 0);
    g->group = index_operand(g, 1);
    g->row = index_operand(g, 2);
    g->tile = LLVMBuildUDiv(b, g->row, integer(g, g->rings[RING_K]->rows), "");
    g->per_head = integer(g, g->rounds);
    if (g->causal)
        g->per_head = LLVMBuildSub(b, g->per_head, tsr_block_mul(g->emit, g->tile, g->ratio), "");
    g->steps = tsr_block_mul(g->emit, g->per_head, g->repeat);
}

static where find_step(const grad *g, LLVMValueRef step) {
    LLVMBuilderRef b = g->emit->builder;
    where w = {.head = g->head, .in_head = step};
    if (g->repeat > 1) {
        LLVMValueRef number = LLVMBuildUDiv(b, step, g->per_head, "");
        w.in_head = LLVMBuildSub(b, step, LLVMBuildMul(b, number, g->per_head, ""), "");
        w.head = LLVMBuildAdd(b, g->head, number, "");
    }
    w.queries = w.in_head;
    w.before = g->tile;
    if (!g->causal && !g->rotates) return w;
    LLVMValueRef first = tsr_block_mul(g->emit, g->tile, g->ratio), zero = integer(g, 0);
    w.queries = LLVMBuildAdd(b, first, w.in_head, "");
    if (g->rotates) {
        LLVMValueRef over = tsr_block_add(g->emit, w.queries, -g->rounds);
        LLVMValueRef round = LLVMBuildICmp(b, LLVMIntSGE, over, zero, "");
        w.queries = LLVMBuildSelect(b, round, over, w.queries, "");
    }
    LLVMValueRef number = LLVMBuildUDiv(b, w.queries, integer(g, g->ratio), "");
    w.before = LLVMBuildSub(b, number, g->tile, "");
    if (g->rotates) {
        LLVMValueRef below = LLVMBuildICmp(b, LLVMIntSLT, w.before, zero, "");
        LLVMValueRef round = tsr_block_add(g->emit, w.before, g->tiles);
        w.before = LLVMBuildSelect(b, below, round, w.before, "");
    }
    return w;
}

/* ---- barriers -------------------------------------------------------------------------------- */

/* The slot of step or use `number`; -1: the slot of a step that is already done. */
static tsr_slot slot_of(const grad *g, LLVMValueRef number) {
    LLVMBuilderRef b = g->emit->builder;
    LLVMValueRef one = integer(g, 1);
    return (tsr_slot){.count = number,
                      .slot = LLVMBuildAnd(b, number, one, ""),
                      .parity = LLVMBuildAnd(b, LLVMBuildAShr(b, number, one, ""), one, "")};
}

static LLVMValueRef barrier(const grad *g, uint32_t which, const tsr_slot *at) {
    uint32_t offset = g->emit->block->own_at + which * BARRIER_BYTES;
    return at ? tsr_block_barrier(g->emit, at, offset)
              : tsr_block_add(g->emit, g->emit->block->shared, offset);
}

static void wait_full(const grad *g, uint32_t which, const tsr_slot *at) {
    tsr_block_wait(g->emit, barrier(g, which, at), at ? at->parity : integer(g, 0));
}

static void wait_empty(const grad *g, uint32_t which, const tsr_slot *at) {
    LLVMValueRef parity = LLVMBuildXor(g->emit->builder, at->parity, integer(g, 1), "");
    tsr_block_wait(g->emit, barrier(g, which, at), parity);
}

/* One thread of each warp arrives after the reads and writes of all its lanes. `condition`: NULL,
 * or i1. */
static void arrive(const grad *g, uint32_t which, const tsr_slot *at, LLVMValueRef condition) {
    LLVMBuilderRef b = g->emit->builder;
    LLVMValueRef mine = LLVMBuildICmp(b, LLVMIntEQ, g->emit->lane, integer(g, 0), "");
    if (condition) mine = LLVMBuildAnd(b, mine, condition, "");
    LLVMValueRef args[] = {barrier(g, which, at),
                           LLVMBuildZExt(b, mine, tsr_block_i32(g->emit), "")};
    tsr_block_asm(g->emit, NULL,
                  "{ .reg .pred p; .reg .b64 t; setp.ne.b32 p, $1, 0; bar.warp.sync -1; "
                  "@p mbarrier.arrive.shared.b64 t, [$0]; }",
                  "r,r,~{memory}", args, 2);
}

uint32_t tsr_block_grad_arrivals(const tsr_block *block, uint32_t barrier_number) {
    bool by_copies = barrier_number < QUERIES_EMPTY ||
                     (barrier_number >= RESULTS_FULL && barrier_number < RESULTS_EMPTY) ||
                     barrier_number >= SUMS_EMPTY;
    return by_copies ? 1 : block->warps;
}

static void fence(const grad *g) {
    tsr_block_asm(g->emit, NULL, "fence.proxy.async.shared::cta;", "~{memory}", NULL, 0);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void copy(const grad *g, uint32_t buffer, uint32_t number, const tsr_slot *at,
                 LLVMValueRef row, LLVMValueRef head, LLVMValueRef full) {
    const tsr_ring *ring = g->rings[number];
    LLVMValueRef indices[3];
    LLVMValueRef to =
        at ? tsr_block_slot_address(g->emit, ring, at) : tsr_block_ring_address(g->emit, ring);
    tsr_block_locate_head(g->emit, g->op, buffer, head, row, 0, indices);
    tsr_block_copy_boxes(g->emit, tsr_op_operand(g->op, buffer), indices, ring, to, full, NULL);
}

static uint32_t stage_bytes(const tsr_ring *ring) {
    return ring->rows * ring->columns * ring->element_bytes;
}

static LLVMValueRef element_address(const grad *g, uint32_t buffer, LLVMValueRef head,
                                    int64_t per_head, LLVMValueRef number, int64_t unit) {
    LLVMBuilderRef b = g->emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->emit->llvm);
    LLVMValueRef offset =
        LLVMBuildMul(b, LLVMBuildZExt(b, head, i64, ""), tsr_emit_int(i64, per_head), "");
    LLVMValueRef part =
        LLVMBuildMul(b, LLVMBuildZExt(b, number, i64, ""), tsr_emit_int(i64, unit), "");
    offset = LLVMBuildAdd(b, offset, part, "");
    return LLVMBuildGEP2(b, g->f32, tsr_emit_operand(g->emit, g->op, buffer), &offset, 1, "");
}

/* An address in the ring of rows: row 0 has the logarithms, row 1 the totals. */
static LLVMValueRef rows_address(const grad *g, const tsr_slot *at, uint32_t row) {
    int64_t bytes = (int64_t)row * g->step * 4;
    return tsr_block_add(g->emit, tsr_block_slot_address(g->emit, g->rings[RING_ROWS], at), bytes);
}

/* Copies queries, or gradients of their results, and the logarithm or total of each. */
static void copy_step(const grad *g, const where *w, const tsr_slot *at, bool results) {
    uint32_t full_at = results ? RESULTS_FULL : QUERIES_FULL;
    uint32_t number = results ? RING_DRESULT : RING_Q;
    LLVMValueRef full = barrier(g, full_at, at);
    wait_empty(g, results ? RESULTS_EMPTY : QUERIES_EMPTY, at);
    tsr_block_expect(g->emit, full, stage_bytes(g->rings[number]) + (uint32_t)g->step * 4);
    copy(g, results ? DRESULT : Q, number, at, tsr_block_mul(g->emit, w->queries, g->step), w->head,
         full);
    LLVMValueRef args[] = {
        rows_address(g, at, results),
        element_address(g, results ? TOTAL : LOGARITHM, w->head, g->size, w->queries, g->step),
        integer(g, g->step * 4), full};
    tsr_block_asm(g->emit, NULL,
                  "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], "
                  "$2, [$3];",
                  "r,l,r,r,~{memory}", args, 4);
}

static void copy_tile(const grad *g) {
    LLVMValueRef zero = integer(g, 0), keys = barrier(g, KEYS_FULL, NULL);
    LLVMValueRef values = barrier(g, VALUES_FULL, NULL);
    tsr_block_expect(g->emit, keys, stage_bytes(g->rings[RING_K]));
    copy(g, K, RING_K, NULL, g->row, g->group, keys);
    tsr_block_loop l = tsr_block_loop_begin(g->emit, zero, g->steps, 1, "copies");
    where w = find_step(g, l.index);
    tsr_slot at = slot_of(g, l.index);
    copy_step(g, &w, &at, false);
    LLVMBasicBlockRef rest = tsr_block_if(
        g->emit, LLVMBuildICmp(g->emit->builder, LLVMIntEQ, l.index, zero, ""), "values");
    tsr_block_expect(g->emit, values, stage_bytes(g->rings[RING_V]));
    copy(g, V, RING_V, NULL, g->row, g->group, values);
    tsr_block_end_if(g->emit, rest);
    copy_step(g, &w, &at, true);
    tsr_block_loop_end(g->emit, &l);
}

/* ---- sums of dQ ------------------------------------------------------------------------------ */

/* Copies the boxes of dQ to memory. The first tile stores, the others add. */
static void send_boxes(const grad *g, const where *w, const tsr_slot *at, bool adds) {
    tsr_emit *emit = g->emit;
    const tsr_ring *ring = g->rings[RING_SUMS];
    uint32_t map = tsr_block_map(emit, tsr_op_operand(g->op, SUM), ring->rows, false);
    LLVMValueRef from = tsr_block_slot_address(emit, ring, at);
    char text[160];
    snprintf(text, sizeof text,
             "cp.%sasync.bulk.tensor.3d.global.shared::cta%s.tile.bulk_group [$0, {$2, $3, $4}], "
             "[$1];",
             adds ? "reduce." : "", adds ? ".add" : "");
    for (int64_t c = 0; c < g->d; c += WIDE_COLUMNS) {
        int64_t offset = c / WIDE_COLUMNS * ring->rows * TSR_BLOCK_SWIZZLE_BYTES;
        LLVMValueRef args[5] = {tsr_block_map_address(emit, map),
                                tsr_block_add(emit, from, offset)};
        tsr_block_locate_head(emit, g->op, SUM, w->head, tsr_block_mul(emit, w->queries, g->step),
                              c, args + 2);
        tsr_block_asm(emit, NULL, text, "l,r,r,r,r,~{memory}", args, 5);
    }
}

/* Use `use` of the stages belongs to step use - 1, whose turn is awaited; the first use belongs to
 * no step. */
static void write_step(const grad *g, LLVMValueRef use, const tsr_slot *at) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    where w = find_step(g, tsr_block_add(emit, use, -1));
    LLVMValueRef count = element_address(g, COUNT, w.head, g->rounds, w.queries, 1);
    LLVMValueRef args[] = {count, w.before};
    tsr_block_asm(emit, NULL,
                  "{ .reg .pred p; .reg .b32 v; W: ld.acquire.gpu.global.b32 v, [$0]; "
                  "setp.ne.b32 p, v, $1; @p bra W; fence.proxy.async; }",
                  "l,r,~{memory}", args, 2);
    LLVMValueRef is_first = LLVMBuildICmp(b, LLVMIntEQ, w.before, integer(g, 0), "");
    LLVMBasicBlockRef first = tsr_emit_block(emit, "store"), others = tsr_emit_block(emit, "add"),
                      sent = tsr_emit_block(emit, "sent");
    LLVMBuildCondBr(b, is_first, first, others);
    LLVMPositionBuilderAtEnd(b, first);
    send_boxes(g, &w, at, false);
    LLVMBuildBr(b, sent);
    LLVMPositionBuilderAtEnd(b, others);
    send_boxes(g, &w, at, true);
    LLVMBuildBr(b, sent);
    LLVMPositionBuilderAtEnd(b, sent);
    LLVMValueRef empty = barrier(g, SUMS_EMPTY, at);
    tsr_block_asm(emit, NULL,
                  "{ .reg .b64 t; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; "
                  "mbarrier.arrive.shared.b64 t, [$0]; cp.async.bulk.wait_group 0; }",
                  "r,~{memory}", &empty, 1);
    args[1] = tsr_block_add(emit, w.before, 1);
    tsr_block_asm(emit, NULL, "fence.proxy.async; st.release.gpu.global.b32 [$0], $1;",
                  "l,r,~{memory}", args, 2);
}

/* The writer of the even uses, or of the odd ones. */
static void write_tile(const grad *g) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef one = integer(g, 1);
    LLVMValueRef first =
        tsr_block_add(emit, LLVMBuildUDiv(b, emit->block->thread, integer(g, WARP_LANES), ""), -1);
    LLVMValueRef none = LLVMBuildICmp(b, LLVMIntEQ, first, integer(g, 0), "");
    tsr_slot at = slot_of(g, first);
    LLVMBasicBlockRef rest = tsr_block_if(emit, none, "nothing");
    wait_full(g, SUMS_FULL, &at);
    LLVMValueRef empty = barrier(g, SUMS_EMPTY, &at);
    tsr_block_asm(emit, NULL, "{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [$0]; }", "r,~{memory}",
                  &empty, 1);
    tsr_block_end_if(emit, rest);
    first = LLVMBuildSelect(b, none, integer(g, STAGES), first, "");
    LLVMValueRef limit = LLVMBuildAdd(b, g->steps, one, "");
    tsr_block_loop l = tsr_block_loop_begin(emit, first, limit, STAGES, "sums");
    at = slot_of(g, l.index);
    wait_full(g, SUMS_FULL, &at);
    write_step(g, l.index, &at);
    tsr_block_loop_end(emit, &l);
}

/* ---- products -------------------------------------------------------------------------------- */

static void get_all(const grad *g, const LLVMValueRef *memory, LLVMValueRef *out_values,
                    unsigned count) {
    for (unsigned i = 0; i < count; i++) out_values[i] = tsr_block_get(g->emit, memory[i]);
}

static void set_all(const grad *g, const LLVMValueRef *memory, LLVMValueRef *values,
                    unsigned count) {
    for (unsigned i = 0; i < count; i++) tsr_block_set(g->emit, memory[i], values[i]);
}

static unsigned score_registers(const grad *g) { return (unsigned)g->step / 2; }

static unsigned sum_registers(const grad *g) { return (unsigned)g->d / 2; }

/* The address of the thread's first two query numbers. */
static LLVMValueRef row_address(const grad *g, const tsr_slot *at, uint32_t row) {
    LLVMBuilderRef b = g->emit->builder;
    LLVMValueRef column = LLVMBuildAnd(b, g->emit->lane, integer(g, 3), "");
    return LLVMBuildAdd(b, rows_address(g, at, row), tsr_block_mul(g->emit, column, 2 * 4), "");
}

/* Loads the two numbers of column block `j`. */
static void load_row(const grad *g, LLVMValueRef from, unsigned j, LLVMValueRef out_both[2]) {
    LLVMTypeRef pair[] = {g->f32, g->f32};
    LLVMTypeRef type = LLVMStructTypeInContext(g->emit->llvm, pair, 2, 0);
    char text[64];
    snprintf(text, sizeof text, "ld.shared.v2.f32 {$0, $1}, [$2+%u];", j * BLOCK_COLUMNS * 4);
    tsr_block_unpack(g->emit, tsr_block_asm(g->emit, type, text, "=f,=f,r,~{memory}", &from, 1),
                     out_both, 2);
}

/* Loads the initial sums of a product: the number of each query, the same for all keys. */
static void load_rows(const grad *g, const tsr_slot *at, uint32_t row, LLVMValueRef *out_sums) {
    LLVMValueRef from = row_address(g, at, row), both[2];
    for (unsigned j = 0; j < g->step / BLOCK_COLUMNS; j++) {
        load_row(g, from, j, both);
        for (unsigned i = 0; i < BLOCK_REGISTERS; i++)
            out_sums[BLOCK_REGISTERS * j + i] = both[i % 2];
    }
}

/* sums += A B^T over the whole head dimension; A is K or V. */
static void begin_scores(const grad *g, uint32_t a, uint32_t by, const tsr_slot *at,
                         LLVMValueRef *sums) {
    tsr_block_product p = {.a = g->rings[a],
                           .b = g->rings[by],
                           .element = g->element,
                           .a_at = tsr_block_ring_address(g->emit, g->rings[a]),
                           .b_at = tsr_block_slot_address(g->emit, g->rings[by], at),
                           .b_transposed = true,
                           .columns = (uint32_t)g->step,
                           .steps = (uint32_t)g->d / DEPTH,
                           .row_blocks = 1};
    unsigned count = score_registers(g);
    tsr_block_unpack(g->emit, tsr_block_wgmma(g->emit, &p, sums, count, 0), sums, count);
}

/* sums += weights B, weights in registers. */
static void begin_sums(const grad *g, const LLVMValueRef *weights, uint32_t by, const tsr_slot *at,
                       const LLVMValueRef *memory, LLVMValueRef *out_sums) {
    tsr_block_product p = {.b = g->rings[by],
                           .element = g->element,
                           .b_at = tsr_block_slot_address(g->emit, g->rings[by], at),
                           .columns = (uint32_t)g->d,
                           .steps = (uint32_t)g->step / DEPTH,
                           .row_blocks = 1};
    LLVMValueRef given[2 * REGISTERS_MAX];
    unsigned sums = sum_registers(g), input_count = score_registers(g) / 2;
    get_all(g, memory, given, sums);
    memcpy(given + sums, weights, input_count * sizeof *given);
    tsr_block_unpack(g->emit, tsr_block_wgmma(g->emit, &p, given, sums, input_count), out_sums,
                     sums);
}

/* dQ, transposed: with a head dimension of 128 each warp group computes half of the dimension,
 * otherwise half of the queries. */
static void begin_dq(const grad *g, const tsr_slot *at, LLVMValueRef *out_sums) {
    const tsr_ring *scores = g->rings[RING_SCORES];
    bool halves_queries = g->d == BOX_COLUMNS;
    tsr_block_product p = {.a = g->rings[RING_K],
                           .b = scores,
                           .element = g->element,
                           .a_at = tsr_block_ring_address(g->emit, g->rings[RING_K]),
                           .b_at = tsr_block_slot_address(g->emit, scores, at),
                           .a_transposed = true,
                           .is_fresh = true,
                           .a_common = halves_queries,
                           .columns = SUM_COLUMNS,
                           .steps = scores->rows / DEPTH,
                           .row_blocks = 1};
    int64_t half = (int64_t)scores->rows * TSR_BLOCK_SWIZZLE_BYTES;
    if (halves_queries)
        p.b_at =
            LLVMBuildAdd(g->emit->builder, p.b_at, tsr_block_mul(g->emit, g->warp_group, half), "");
    tsr_block_unpack(g->emit, tsr_block_wgmma(g->emit, &p, NULL, SUM_REGISTERS, 0), out_sums,
                     SUM_REGISTERS);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Sets the weights of keys after a query to 0. Only needed in the steps of the tile's own
 * queries. */
static void mask(const grad *g, LLVMValueRef in_head) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef some = LLVMBuildICmp(b, LLVMIntSLT, in_head, integer(g, g->ratio), "");
    LLVMBasicBlockRef rest = tsr_block_if(emit, some, "mask");
    LLVMValueRef key = LLVMBuildAdd(b, tsr_block_mul(emit, emit->block->warp, BLOCK_ROWS),
                                    LLVMBuildLShr(b, emit->lane, integer(g, 2), ""), "");
    LLVMValueRef column = LLVMBuildAnd(b, emit->lane, integer(g, 3), "");
    LLVMValueRef limit = LLVMBuildSub(b, key, tsr_block_mul(emit, column, 2), "");
    limit = LLVMBuildSub(b, limit, tsr_block_mul(emit, in_head, g->step), "");
    for (unsigned i = 0; i < score_registers(g); i++) {
        unsigned half = i / 2 % HALVES, offset = i / BLOCK_REGISTERS * BLOCK_COLUMNS + i % 2;
        LLVMValueRef first = tsr_block_add(emit, limit, (int64_t)half * BLOCK_COLUMNS);
        LLVMValueRef seen = LLVMBuildICmp(b, LLVMIntSGE, integer(g, offset), first, "");
        LLVMValueRef score = tsr_block_get(emit, g->scores[i]);
        score = LLVMBuildSelect(b, seen, score, constant(g, -(double)INFINITY), "");
        tsr_block_set(emit, g->scores[i], score);
    }
    tsr_block_end_if(emit, rest);
}

static void narrow(const grad *g, LLVMValueRef *values, LLVMValueRef *out_pairs) {
    for (unsigned i = 0; i < score_registers(g) / 2; i++)
        out_pairs[i] = tsr_block_narrow(g->emit, g->element, values[2 * i], values[2 * i + 1]);
}

/* Rounds to pairs; negative values become 0. */
static void narrow_positive(const grad *g, LLVMValueRef *values, LLVMValueRef *out_pairs) {
    bool is_bf16 = mlirTypeIsABF16(g->element);
    for (unsigned i = 0; i < score_registers(g) / 2; i++) {
        LLVMValueRef args[] = {values[2 * i + 1], values[2 * i]};
        out_pairs[i] = tsr_block_asm(g->emit, tsr_block_i32(g->emit),
                                     is_bf16 ? "cvt.rn.relu.bf16x2.f32 $0, $1, $2;"
                                             : "cvt.rn.relu.f16x2.f32 $0, $1, $2;",
                                     "=r,f,f", args, 2);
    }
}

/* Makes the compiler compute values that depend on the lane here, so that they occupy no registers
 * before. */
static void forget_lane(tsr_emit *emit) {
    emit->lane =
        tsr_block_asm(emit, tsr_block_i32(emit), "mov.b32 $0, $1;", "=r,r", &emit->lane, 1);
}

/* Finds the weights of the step that are not dropped: for each 16 pairs of registers a word, with
 * bits k and k + 16 for registers 2 k and 2 k + 1. */
static void draw_step(grad *g, LLVMValueRef step) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef words[TSR_DROP_WORDS], masks[MASKS_MAX] = {NULL}, lane = emit->lane;
    if (!g->drop.some) return;
    forget_lane(emit);
    where w = find_step(g, step);
    if (g->begins_anew) tsr_block_begin_drop(emit, g->op, &g->drop, w.head, true);
    LLVMValueRef tile = LLVMBuildUDiv(b, g->row, integer(g, BLOCK_ROWS), "");
    tile = tsr_block_mul(emit, LLVMBuildAdd(b, tile, emit->block->warp, ""), WARP_LANES);
    LLVMValueRef counter = tsr_block_mul(emit, w.queries, g->step / BLOCK_ROWS * g->drop.tile_row);
    counter =
        LLVMBuildAdd(b, LLVMBuildAdd(b, counter, tile, ""), tsr_block_transposed_counter(emit), "");
    for (unsigned pair = 0; pair < score_registers(g) / 2; pair++) {
        unsigned column = pair / HALVES, half = pair % HALVES, k = pair % MASK_PAIRS;
        if (column % 2 == 0 && half == 0) {
            LLVMValueRef at = tsr_block_add(emit, counter, column / 2 * (int64_t)g->drop.tile_row);
            tsr_block_draw(emit, &g->drop, at, words);
            tsr_block_transpose_words(emit, words);
        }
        LLVMValueRef mask = tsr_block_drop_mask(emit, &g->drop, words[column % 2 + 2 * half]);
        mask = LLVMBuildAnd(b, mask, integer(g, (int64_t)0x10001 << k), "");
        LLVMValueRef *to = &masks[pair / MASK_PAIRS];
        *to = k ? LLVMBuildOr(b, *to, mask, "") : mask;
    }
    for (unsigned i = 0; i < MASKS_MAX && masks[i]; i++) tsr_block_set(emit, g->masks[i], masks[i]);
    emit->lane = lane;
}

/* Negates dropped weights. */
static void drop(const grad *g, LLVMValueRef *weights) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    for (unsigned i = 0; i < score_registers(g); i++) {
        unsigned pair = i / 2, bit = pair % MASK_PAIRS + i % 2 * MASK_PAIRS;
        LLVMValueRef stays = LLVMBuildAnd(b, tsr_block_get(emit, g->masks[pair / MASK_PAIRS]),
                                          integer(g, INT64_C(1) << bit), "");
        stays = LLVMBuildICmp(b, LLVMIntNE, stays, integer(g, 0), "");
        weights[i] = LLVMBuildSelect(b, stays, weights[i], LLVMBuildFNeg(b, weights[i], ""), "");
    }
}

/* slopes = P C where P is not negative, otherwise P times minus the total. */
static void multiply_masked(const grad *g, const tsr_slot *at, LLVMValueRef *weights,
                            LLVMValueRef *slopes) {
    LLVMBuilderRef b = g->emit->builder;
    LLVMValueRef from = row_address(g, at, 1), totals[2];
    for (unsigned i = 0; i < score_registers(g); i++) {
        if (i % BLOCK_REGISTERS == 0) load_row(g, from, i / BLOCK_REGISTERS, totals);
        LLVMValueRef stays = LLVMBuildFCmp(b, LLVMRealOGE, weights[i], constant(g, 0), "");
        LLVMValueRef total = LLVMBuildFNeg(b, totals[i % 2], "");
        slopes[i] = LLVMBuildSelect(b, stays, slopes[i], total, "");
        slopes[i] = LLVMBuildFMul(b, weights[i], slopes[i], "");
    }
}

static void put_scores(const grad *g, const tsr_slot *at, LLVMValueRef *pairs) {
    const tsr_ring *ring = g->rings[RING_SCORES];
    LLVMValueRef rows = tsr_block_mul(g->emit, g->warp_group, GROUP_ROWS * TSR_BLOCK_SWIZZLE_BYTES);
    LLVMValueRef from =
        LLVMBuildAdd(g->emit->builder, tsr_block_slot_address(g->emit, ring, at), rows, "");
    for (unsigned c = 0; c < g->step / BOX_COLUMNS; c++)
        tsr_block_put_pairs(g->emit, ring, from, (int64_t)c * ring->rows * TSR_BLOCK_SWIZZLE_BYTES,
                            pairs + (size_t)c * BOX_PAIRS);
}

/* The swizzle depends on a query's lowest bits, which are its column within eight: four addresses
 * and constant offsets. The accesses of lanes and of registers have no bank conflicts. */
static void put_dq(const grad *g, const tsr_slot *at, LLVMValueRef *sums) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    const tsr_ring *ring = g->rings[RING_SUMS];
    LLVMValueRef number = LLVMBuildAdd(
        b,
        tsr_block_mul(emit, LLVMBuildAnd(b, emit->block->warp, integer(g, GROUP_WARPS - 1), ""),
                      BLOCK_ROWS),
        LLVMBuildLShr(b, emit->lane, integer(g, 2), ""), "");
    LLVMValueRef query = tsr_block_mul(emit, LLVMBuildAnd(b, emit->lane, integer(g, 3), ""), 2);
    LLVMValueRef part = tsr_block_mul(emit, g->warp_group, SUM_COLUMNS);
    if (g->d == BOX_COLUMNS)
        query = LLVMBuildAdd(b, query, part, "");
    else
        number = LLVMBuildAdd(b, number, part, "");
    LLVMValueRef from = tsr_block_slot_address(emit, ring, at);
    for (unsigned i = 0; i < BLOCK_REGISTERS; i++) {
        LLVMValueRef d = tsr_block_add(emit, number, (int64_t)(i / 2) * BLOCK_COLUMNS);
        LLVMValueRef address = tsr_block_chunk(emit, ring, from, tsr_block_add(emit, query, i % 2),
                                               LLVMBuildLShr(b, d, integer(g, 2), ""));
        LLVMValueRef rest = tsr_block_mul(emit, LLVMBuildAnd(b, d, integer(g, 3), ""), 4);
        address = LLVMBuildAdd(b, address, rest, "");
        for (unsigned j = 0; j < SUM_COLUMNS / BLOCK_COLUMNS; j++) {
            char text[64];
            LLVMValueRef args[] = {address, sums[BLOCK_REGISTERS * j + i]};
            snprintf(text, sizeof text, "st.shared.f32 [$0+%u], $1;",
                     j * BLOCK_COLUMNS * TSR_BLOCK_SWIZZLE_BYTES);
            tsr_block_asm(emit, NULL, text, "r,f,~{memory}", args, 2);
        }
    }
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* P and dS of the step, both as pairs. Begins dV += P dO; `dv` are its sums. */
static void weigh(const grad *g, const tsr_slot *at, LLVMValueRef *dv, LLVMValueRef *out_pairs) {
    LLVMBuilderRef b = g->emit->builder;
    LLVMValueRef weights[REGISTERS_MAX], scores[REGISTERS_MAX], pairs[REGISTERS_MAX / 2];
    LLVMValueRef factor = constant(g, g->scale * 1.4426950408889634);
    unsigned count = score_registers(g);
    wait_full(g, RESULTS_FULL, at);
    load_rows(g, at, 1, scores);
    begin_scores(g, RING_V, RING_DRESULT, at, scores);
    get_all(g, g->scores, weights, count);
    for (unsigned i = 0; i < count; i++)
        weights[i] = tsr_block_power_of_2(g->emit, LLVMBuildFMul(b, weights[i], factor, ""));
    if (g->drop.some) drop(g, weights);
    (g->drop.some ? narrow_positive : narrow)(g, weights, pairs);
    begin_sums(g, pairs, RING_DRESULT, at, g->dv, dv);
    tsr_block_wait_some(g->emit, 1, scores, count);
    if (g->drop.some)
        multiply_masked(g, at, weights, scores);
    else
        for (unsigned i = 0; i < count; i++)
            scores[i] = LLVMBuildFMul(b, weights[i], scores[i], "");
    narrow(g, scores, out_pairs);
}

static void send_dq(const grad *g, LLVMValueRef use, LLVMValueRef *sums) {
    tsr_slot at = slot_of(g, use);
    wait_empty(g, SUMS_EMPTY, &at);
    put_dq(g, &at, sums);
    fence(g);
    arrive(g, SUMS_FULL, &at, NULL);
}

static void run_step(grad *g, LLVMValueRef step, bool is_last) {
    tsr_emit *emit = g->emit;
    LLVMValueRef lane = emit->lane;
    bool forgets = g->drop.some && g->d == BOX_COLUMNS; /* 128 queries: more weights at once */
    if (forgets) forget_lane(emit);
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef pairs[REGISTERS_MAX / 2], dv[REGISTERS_MAX], dq[SUM_REGISTERS];
    LLVMValueRef rest[2 * REGISTERS_MAX]; /* dK, then the next scores */
    unsigned sums = sum_registers(g), count = score_registers(g);
    LLVMValueRef before_number = tsr_block_add(emit, step, -1);
    tsr_slot at = slot_of(g, step), before = slot_of(g, before_number);
    tsr_slot next = slot_of(g, tsr_block_add(emit, step, 1));
    if (g->causal) mask(g, find_step(g, step).in_head);
    weigh(g, &at, dv, pairs);
    wait_empty(g, SCORES_EMPTY, &at);
    put_scores(g, &at, pairs);
    fence(g);
    arrive(g, SCORES_FULL, &at, NULL);
    tsr_block_wait_some(emit, 0, dv, sums);
    set_all(g, g->dv, dv, sums);
    arrive(g, RESULTS_EMPTY, &at, NULL);
    wait_full(g, SCORES_FULL, &before);
    begin_dq(g, &before, dq);
    begin_sums(g, pairs, RING_Q, &at, g->dk, rest);
    if (!is_last) {
        wait_full(g, QUERIES_FULL, &next);
        load_rows(g, &next, 0, rest + sums);
        begin_scores(g, RING_K, RING_Q, &next, rest + sums);
    }
    tsr_block_wait_some(emit, is_last ? 1 : 2, dq, SUM_REGISTERS);
    arrive(g, SCORES_EMPTY, &before,
           LLVMBuildICmp(b, LLVMIntSGE, before_number, integer(g, 0), ""));
    if (forgets) forget_lane(emit);
    send_dq(g, step, dq);
    if (!is_last) draw_step(g, tsr_block_add(emit, step, 1));
    tsr_block_wait_some(emit, 0, rest, is_last ? sums : sums + count);
    set_all(g, g->dk, rest, sums);
    if (!is_last) set_all(g, g->scores, rest + sums, count);
    arrive(g, QUERIES_EMPTY, &at, NULL);
    emit->lane = lane;
}

/* ---- a tile ---------------------------------------------------------------------------------- */

static void begin_tile(grad *g) {
    tsr_emit *emit = g->emit;
    LLVMValueRef scores[REGISTERS_MAX];
    unsigned count = score_registers(g);
    g->warp_group = LLVMBuildUDiv(emit->builder, emit->block->warp, integer(g, GROUP_WARPS), "");
    if (!g->begins_anew) tsr_block_begin_drop(emit, g->op, &g->drop, g->head, false);
    for (unsigned i = 0; i < sum_registers(g); i++) {
        g->dk[i] = tsr_block_memory(emit, g->f32);
        g->dv[i] = tsr_block_memory(emit, g->f32);
        tsr_block_set(emit, g->dk[i], constant(g, 0));
        tsr_block_set(emit, g->dv[i], constant(g, 0));
    }
    for (unsigned i = 0; i < count; i++) g->scores[i] = tsr_block_memory(emit, g->f32);
    for (unsigned i = 0; i < count / 2 / MASK_PAIRS; i++)
        g->masks[i] = tsr_block_memory(emit, tsr_block_i32(emit));
    tsr_slot first = slot_of(g, integer(g, 0));
    wait_full(g, KEYS_FULL, NULL);
    wait_full(g, QUERIES_FULL, &first);
    load_rows(g, &first, 0, scores);
    begin_scores(g, RING_K, RING_Q, &first, scores);
    draw_step(g, integer(g, 0));
    tsr_block_wait_some(emit, 0, scores, count);
    set_all(g, g->scores, scores, count);
    wait_full(g, VALUES_FULL, NULL);
}

/* Stores sums through the slots of keys and values, which are no longer read. */
static void store_sums(const grad *g, const LLVMValueRef *memory, uint32_t number, uint32_t buffer,
                       double factor) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    const tsr_ring *ring = g->rings[number];
    int64_t box_bytes = (int64_t)ring->rows * TSR_BLOCK_SWIZZLE_BYTES;
    LLVMValueRef values[REGISTERS_MAX], rows = tsr_block_mul(emit, g->warp_group, GROUP_ROWS);
    LLVMValueRef from = LLVMBuildAdd(b, tsr_block_ring_address(emit, ring),
                                     tsr_block_mul(emit, rows, TSR_BLOCK_SWIZZLE_BYTES), "");
    unsigned boxes = (unsigned)g->d / BOX_COLUMNS;
    get_all(g, memory, values, sum_registers(g));
    for (unsigned i = 0; i < sum_registers(g) && factor != 1; i++)
        values[i] = LLVMBuildFMul(b, values[i], constant(g, factor), "");
    for (unsigned c = 0; c < boxes; c++)
        tsr_block_put_box(emit, ring, g->element, from, c * box_bytes,
                          values + (size_t)c * BOX_REGISTERS);
    fence(g);
    tsr_block_sync(emit, true);
    for (unsigned c = 0; c < boxes; c++) {
        LLVMValueRef at[3], row = LLVMBuildAdd(b, g->row, rows, "");
        tsr_block_locate_head(emit, g->op, buffer, g->group, row, (int64_t)c * BOX_COLUMNS, at);
        tsr_block_copy_box(emit, tsr_op_operand(g->op, buffer),
                           tsr_block_add(emit, from, c * box_bytes), at);
    }
}

static void compute_tile(grad *g) {
    tsr_emit *emit = g->emit;
    LLVMValueRef dq[SUM_REGISTERS], last = tsr_block_add(emit, g->steps, -1);
    begin_tile(g);
    tsr_block_loop l = tsr_block_loop_begin(emit, integer(g, 0), last, 1, "queries");
    run_step(g, l.index, false);
    tsr_block_loop_end(emit, &l);
    run_step(g, last, true);
    tsr_slot at = slot_of(g, last);
    wait_full(g, SCORES_FULL, &at);
    begin_dq(g, &at, dq);
    tsr_block_wait_some(emit, 0, dq, SUM_REGISTERS);
    send_dq(g, g->steps, dq);
    tsr_block_sync(emit, false);
    store_sums(g, g->dv, RING_V, DV, g->drop.some ? 1 / g->drop.left : 1);
    store_sums(g, g->dk, RING_K, DK, g->drop.some ? g->scale / g->drop.left : g->scale);
    emit->block->stored = true;
}

void tsr_block_emit_grad(tsr_emit *emit, MlirOperation op) {
    grad g = read_grad(emit, op);
    find_tile(&g);
    if (emit->block->writes)
        write_tile(&g);
    else if (emit->block->copies)
        copy_tile(&g);
    else
        compute_tile(&g);
}
