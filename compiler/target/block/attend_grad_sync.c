/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.attend "backward_queries" and "backward_keys": gradients with mma.sync. One kernel computes
 * the gradients of queries, and another one the gradients of keys and values. Both kernels compute
 * the scores again, and no program adds to the sum of another one: five products become seven, but
 * no values are exchanged, ordered or widened. Both kernels have the same structure:
 *
 *     rows X of the block stay, with X'; rows Y and Y' are streamed, `step` at a time
 *     S = X Y^T;  P = exp2(c S - l)
 *     C = X' Y'^T - t;  dS = P C
 *     sums of X  += dS Y
 *     sums of X' += P Y', for keys only
 *
 *     queries: X = Q, X' = dO, Y = K, Y' = V;  the sums are dQ
 *     keys:    X = K, X' = V, Y = Q, Y' = dO;  the sums are dK and dV; S and dS are transposed
 *
 * A warp has 16 or 32 rows of X. The registers of S and dS are directly the first factors of the
 * following products.
 *
 * The program for keys may split its warps into halves: a warp of the first half computes P of 32
 * keys and sums up dV; a warp of the second half reads P and sums up dK, one step later. Both
 * halves then have registers for the same number of keys, and read Y and Y' half as often.
 *
 * With dropout, P of dropped weights is negative: dV then uses 0, and dS only uses C = -t. The
 * sums are divided by 1 - dropout, and t is multiplied by it.
 *
 * Source: Dao, "FlashAttention-2", 2023, section 3.1.2.
 */
#include "compiler/target/block/attend.h"
#include "compiler/target/block/sync.h"
#include "compiler/tile/attributes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    REGISTERS_MAX = TSR_ATTEND_REGISTERS_MAX,
    ROW_BLOCKS_MAX = 2,
    SIDES = 2,       /* Y and Y'; X and X' */
    ROW_NUMBERS = 2, /* numbers of a query: l and t */
};

/* Buffers; the gradients follow. */
enum { Q, K, V, DRESULT, LOGARITHM, TOTAL, GRADIENT };

typedef struct grad {
    tsr_emit *emit;
    MlirOperation op;
    bool of_keys, causal;
    const tsr_ring *own[SIDES], *other[SIDES];
    const tsr_ring *row_ring, *weight_ring; /* weight_ring: NULL if warps are not split */
    size_t own_buffers[SIDES], other_buffers[SIDES];
    MlirType element;
    int64_t size, d, step, repeat; /* repeat: query heads per key head */
    double scale;
    tsr_drop drop;
    LLVMTypeRef f32;
    uint32_t row_blocks, stages;
    uint32_t ahead;                    /* steps copied ahead */
    uint32_t warps;                    /* number of warps that share the rows */
    LLVMValueRef head, group, row;     /* i32 */
    LLVMValueRef per_head, steps;      /* i32: rounds of a head; total number */
    LLVMValueRef warp;                 /* i32: among the warps that share the rows */
    LLVMValueRef warp_row, own_row;    /* i32: first rows of the warp and of the thread */
    LLVMValueRef column;               /* i32: the thread's first column of 8 */
    LLVMValueRef own_at[SIDES];        /* i32: the lane's read position in X and X' */
    LLVMValueRef straight, transposed; /* i32: tsr_sync_lane of Y as stored, and transposed */
    LLVMValueRef numbers[ROW_BLOCKS_MAX][HALVES][ROW_NUMBERS]; /* l and t of queries that stay */
    LLVMValueRef sums[SIDES][ROW_BLOCKS_MAX][REGISTERS_MAX];   /* memory */
} grad;

/* The position of a step. */
typedef struct where {
    LLVMValueRef number;    /* i32: among all steps */
    LLVMValueRef head, row; /* i32: head of queries, if queries are streamed; first row of Y */
} where;

static LLVMValueRef integer(const grad *g, int64_t value) { return tsr_block_int(g->emit, value); }

static LLVMValueRef constant(const grad *g, double value) { return tsr_emit_float(g->f32, value); }

/* ---- the op ---------------------------------------------------------------------------------- */

static LLVMValueRef index_operand(const grad *g, size_t index) {
    return LLVMBuildTrunc(g->emit->builder, tsr_emit_operand(g->emit, g->op, index),
                          tsr_block_i32(g->emit), "");
}

static grad read_grad(tsr_emit *emit, MlirOperation op) {
    enum { INDICES = 3 };
    grad g = {.emit = emit,
              .op = op,
              .of_keys = strcmp(tsr_op_string(op, "how"), "backward_keys") == 0,
              .causal = tsr_op_flag(op, "causal"),
              .element = mlirShapedTypeGetElementType(mlirValueGetType(tsr_op_operand(op, Q))),
              .size = tsr_attend_dim(op, Q, 1),
              .d = tsr_attend_dim(op, Q, 2),
              .repeat = tsr_attend_dim(op, Q, 0) / tsr_attend_dim(op, K, 0),
              .drop = tsr_block_read_drop(op),
              .f32 = LLVMFloatTypeInContext(emit->llvm)};
    static const size_t queries[SIDES] = {Q, DRESULT}, keys[SIDES] = {K, V};
    MlirAttribute segments = tsr_op_attr(op, "operandSegmentSizes");
    size_t buffers = (size_t)mlirDenseI32ArrayGetElement(segments, 0), at = buffers + INDICES;
    for (uint32_t i = 0; i < SIDES; i++) {
        g.own[i] = tsr_block_ring(emit, tsr_op_operand(op, at + i));
        g.other[i] = tsr_block_ring(emit, tsr_op_operand(op, at + SIDES + i));
        g.own_buffers[i] = g.of_keys ? keys[i] : queries[i];
        g.other_buffers[i] = g.of_keys ? queries[i] : keys[i];
    }
    at += (size_t)2 * SIDES;
    if (g.of_keys) g.row_ring = tsr_block_ring(emit, tsr_op_operand(op, at++));
    if (at < tsr_op_operand_count(op)) g.weight_ring = tsr_block_ring(emit, tsr_op_operand(op, at));
    g.step = g.other[0]->rows;
    g.stages = g.other[0]->stages;
    g.ahead = g.stages - (g.weight_ring ? 2 : 1);
    g.warps = emit->block->warps / (g.weight_ring ? 2 : 1);
    g.row_blocks = g.own[0]->rows / g.warps / BLOCK_ROWS;
    g.head = index_operand(&g, buffers);
    g.group = index_operand(&g, buffers + 1);
    g.row = index_operand(&g, buffers + 2);
    tsr_op_f64(op, "scale", &g.scale);
    return g;
}

/* Causal: the keys of a tile are seen from its first query on; queries see keys up to their last
 * one. */
static void count_steps(grad *g) {
    LLVMBuilderRef b = g->emit->builder;
    LLVMValueRef rows = integer(g, g->size);
    if (g->causal && g->of_keys) rows = LLVMBuildSub(b, rows, g->row, "");
    if (g->causal && !g->of_keys) rows = tsr_block_add(g->emit, g->row, g->own[0]->rows);
    g->per_head = LLVMBuildUDiv(b, rows, integer(g, g->step), "");
    g->steps = g->per_head;
    if (g->of_keys) g->steps = tsr_block_mul(g->emit, g->steps, g->repeat);
}

/* Step `in_head` of head number `number` (NULL: 0): steps with masks come first. */
static where find_step(const grad *g, LLVMValueRef number, LLVMValueRef in_head) {
    LLVMBuilderRef b = g->emit->builder;
    where w = {.number = in_head, .head = g->head};
    LLVMValueRef step = in_head;
    if (number) {
        w.number = LLVMBuildAdd(b, LLVMBuildMul(b, number, g->per_head, ""), in_head, "");
        w.head = LLVMBuildAdd(b, g->head, number, "");
    }
    if (!g->of_keys) step = LLVMBuildSub(b, tsr_block_add(g->emit, g->per_head, -1), step, "");
    w.row = tsr_block_mul(g->emit, step, g->step);
    if (g->of_keys && g->causal) w.row = LLVMBuildAdd(b, w.row, g->row, "");
    return w;
}

/* The step with number `number` (i32) among all. */
static where find_number(const grad *g, LLVMValueRef number) {
    LLVMBuilderRef b = g->emit->builder;
    if (!g->of_keys || g->repeat == 1) return find_step(g, NULL, number);
    LLVMValueRef of_head = LLVMBuildUDiv(b, number, g->per_head, "");
    LLVMValueRef before = LLVMBuildMul(b, of_head, g->per_head, "");
    return find_step(g, of_head, LLVMBuildSub(b, number, before, ""));
}

/* ---- copies ---------------------------------------------------------------------------------- */

static LLVMValueRef stage_address(const grad *g, const tsr_ring *ring, LLVMValueRef number) {
    tsr_slot at = tsr_block_slot(g->emit, number, ring->stages);
    return tsr_block_slot_address(g->emit, ring, &at);
}

/* Pointer to the number of query `row` (i32) of a head. */
static LLVMValueRef number_address(const grad *g, uint32_t which, LLVMValueRef head,
                                   LLVMValueRef row) {
    LLVMBuilderRef b = g->emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->emit->llvm);
    LLVMValueRef offset =
        LLVMBuildMul(b, LLVMBuildZExt(b, head, i64, ""), tsr_emit_int(i64, g->size), "");
    offset = LLVMBuildAdd(b, offset, LLVMBuildZExt(b, row, i64, ""), "");
    LLVMValueRef buffer = tsr_emit_operand(g->emit, g->op, LOGARITHM + which);
    return LLVMBuildGEP2(b, g->f32, buffer, &offset, 1, "");
}

/* Copies l and t of the streamed queries: the first threads copy four each. */
static void copy_numbers(const grad *g, const where *w) {
    enum { TOGETHER = 4, BYTES = 16 };
    LLVMBuilderRef b = g->emit->builder;
    LLVMValueRef thread = g->emit->block->thread;
    LLVMValueRef at = stage_address(g, g->row_ring, w->number);
    at = LLVMBuildAdd(b, at, tsr_block_mul(g->emit, thread, BYTES), "");
    for (uint32_t i = 0; i < ROW_NUMBERS; i++) {
        LLVMValueRef row = LLVMBuildAdd(b, w->row, tsr_block_mul(g->emit, thread, TOGETHER), "");
        LLVMValueRef mine =
            LLVMBuildICmp(b, LLVMIntULT, thread, integer(g, g->step / TOGETHER), "");
        LLVMValueRef args[] = {tsr_block_add(g->emit, at, i * g->step * 4),
                               number_address(g, i, w->head, row),
                               LLVMBuildZExt(b, mine, tsr_block_i32(g->emit), "")};
        tsr_block_asm(g->emit, NULL,
                      "{ .reg .pred p; setp.ne.b32 p, $2, 0; "
                      "@p cp.async.cg.shared.global [$0], [$1], 16; }",
                      "r,l,r,~{memory}", args, 3);
    }
}

/* Begins to copy the data of step `number` (i32), if that step exists. */
static void copy_step(const grad *g, LLVMValueRef number) {
    tsr_emit *emit = g->emit;
    LLVMValueRef some = LLVMBuildICmp(emit->builder, LLVMIntSLT, number, g->steps, "");
    LLVMBasicBlockRef rest = tsr_block_if(emit, some, "ahead");
    where w = find_number(g, number);
    for (uint32_t i = 0; i < SIDES; i++) {
        tsr_sync_copy copy = tsr_sync_locate_copy(emit, g->op, g->other_buffers[i],
                                                  g->of_keys ? w.head : g->group, g->other[i]);
        tsr_sync_copy_rows(emit, &copy, stage_address(g, g->other[i], number), w.row);
    }
    if (g->of_keys) copy_numbers(g, &w);
    tsr_block_end_if(emit, rest);
    tsr_sync_commit(emit);
}

static void begin(const grad *g) {
    for (uint32_t i = 0; i < SIDES; i++) {
        tsr_sync_copy copy = tsr_sync_locate_copy(g->emit, g->op, g->own_buffers[i],
                                                  g->of_keys ? g->group : g->head, g->own[i]);
        tsr_sync_copy_rows(g->emit, &copy, tsr_block_ring_address(g->emit, g->own[i]), g->row);
    }
    for (uint32_t i = 0; i < g->ahead; i++) copy_step(g, integer(g, i));
}

/* ---- products -------------------------------------------------------------------------------- */

static unsigned score_registers(const grad *g) { return (unsigned)g->step / 2; }

/* Computes X Y^T, or X' Y'^T; the scores of the row blocks are consecutive. `at`: address of Y. */
static void multiply_rows(const grad *g, uint32_t side, LLVMValueRef at, LLVMValueRef *out_scores) {
    tsr_emit *emit = g->emit;
    LLVMValueRef x[ROW_BLOCKS_MAX][4], y[4];
    at = LLVMBuildAdd(emit->builder, at, g->straight, "");
    for (uint32_t i = 0; i < g->row_blocks * score_registers(g); i++)
        out_scores[i] = constant(g, 0);
    for (uint32_t s = 0; s < g->d; s += DEPTH) {
        for (uint32_t m = 0; m < g->row_blocks; m++)
            tsr_sync_load(emit, g->own[side], g->own_at[side], m * BLOCK_ROWS, s, false, x[m]);
        for (uint32_t j = 0; j < g->step; j += 2 * BLOCK_COLUMNS) {
            tsr_sync_load(emit, g->other[side], at, j, s, false, y);
            for (uint32_t m = 0; m < g->row_blocks; m++)
                for (uint32_t k = 0; k < 2; k++)
                    tsr_block_multiply(emit, g->element,
                                       out_scores + (size_t)m * score_registers(g) + j / 2 +
                                           (size_t)4 * k,
                                       x[m], y + (size_t)2 * k);
        }
    }
}

/* Sums += weights Y, or Y'; `pairs`: the weights of each row block. */
static void add_products(const grad *g, uint32_t side, LLVMValueRef at, LLVMValueRef *pairs) {
    tsr_emit *emit = g->emit;
    LLVMValueRef sums[ROW_BLOCKS_MAX][REGISTERS_MAX], y[4];
    at = LLVMBuildAdd(emit->builder, at, g->transposed, "");
    for (uint32_t m = 0; m < g->row_blocks; m++)
        for (uint32_t i = 0; i < g->d / 2; i++)
            sums[m][i] = tsr_block_get(emit, g->sums[side][m][i]);
    for (uint32_t s = 0; s < g->step; s += DEPTH)
        for (uint32_t j = 0; j < g->d; j += 2 * BLOCK_COLUMNS) {
            tsr_sync_load(emit, g->other[side], at, s, j, true, y);
            for (uint32_t m = 0; m < g->row_blocks; m++)
                for (uint32_t k = 0; k < 2; k++)
                    tsr_block_multiply(emit, g->element, sums[m] + j / 2 + (size_t)4 * k,
                                       pairs + (size_t)m * score_registers(g) / 2 + s / 4,
                                       y + (size_t)2 * k);
        }
    for (uint32_t m = 0; m < g->row_blocks; m++)
        for (uint32_t i = 0; i < g->d / 2; i++)
            tsr_block_set(emit, g->sums[side][m][i], sums[m][i]);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Sets the weights of keys after a query to 0. */
static void mask(const grad *g, uint32_t m, const where *w, LLVMValueRef *scores) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef limit = LLVMBuildAdd(b, g->own_row, g->row, "");
    limit = LLVMBuildSub(b, limit, LLVMBuildAdd(b, w->row, g->column, ""), "");
    for (unsigned i = 0; i < score_registers(g); i++) {
        unsigned half = i / 2 % HALVES, column = i / BLOCK_REGISTERS * BLOCK_COLUMNS + i % 2;
        int64_t below = (int64_t)m * BLOCK_ROWS + (int64_t)half * BLOCK_COLUMNS;
        LLVMValueRef seen = LLVMBuildICmp(b, g->of_keys ? LLVMIntSGE : LLVMIntSLE,
                                          integer(g, column - below), limit, "");
        scores[i] = LLVMBuildSelect(b, seen, scores[i], constant(g, -(double)INFINITY), "");
    }
}

/* l or t of the query that register `i` of a row block belongs to. `columns`: l and t of streamed
 * queries, for each pair of a column block. */
static LLVMValueRef number_of(const grad *g, uint32_t which, uint32_t m, unsigned i,
                              LLVMValueRef (*columns)[2]) {
    if (g->of_keys) return columns[i / BLOCK_REGISTERS][i % 2];
    return g->numbers[m][i / 2 % HALVES][which];
}

static void load_columns(const grad *g, uint32_t which, LLVMValueRef at,
                         LLVMValueRef (*out_columns)[2]) {
    LLVMBuilderRef b = g->emit->builder;
    LLVMTypeRef types[] = {g->f32, g->f32};
    LLVMTypeRef type = LLVMStructTypeInContext(g->emit->llvm, types, 2, false);
    at = LLVMBuildAdd(b, at, tsr_block_mul(g->emit, g->column, 4), "");
    at = tsr_block_add(g->emit, at, which * g->step * 4);
    for (uint32_t j = 0; j < g->step / BLOCK_COLUMNS; j++) {
        char text[64];
        snprintf(text, sizeof text, "ld.shared.v2.f32 {$0, $1}, [$2+%u];", j * BLOCK_COLUMNS * 4);
        tsr_block_unpack(g->emit, tsr_block_asm(g->emit, type, text, "=f,=f,r,~{memory}", &at, 1),
                         out_columns[j], 2);
    }
}

static LLVMValueRef factor(const grad *g) { return constant(g, g->scale * 1.4426950408889634); }

/* Computes P in registers 2 k and 2 k + 1. */
static void weigh(const grad *g, uint32_t m, LLVMValueRef (*columns)[2], LLVMValueRef *scores) {
    for (unsigned i = 0; i < score_registers(g); i++)
        scores[i] = tsr_block_power_of_2(
            g->emit, tsr_emit_fma(g->emit, scores[i], factor(g), number_of(g, 0, m, i, columns)));
}

/* Negates dropped weights. */
static void drop(const grad *g, uint32_t m, const where *w, LLVMValueRef *weights) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i32 = tsr_block_i32(emit);
    LLVMValueRef words[TSR_DROP_WORDS], sign = LLVMConstInt(i32, 0x80000000, false);
    LLVMValueRef own = LLVMBuildAdd(b, g->row, g->warp_row, "");
    own = tsr_block_add(emit, LLVMBuildUDiv(b, own, integer(g, BLOCK_ROWS), ""), m);
    LLVMValueRef other = LLVMBuildUDiv(b, w->row, integer(g, BLOCK_ROWS), "");
    LLVMValueRef row = g->of_keys ? other : own, column = g->of_keys ? own : other;
    LLVMValueRef counter = tsr_block_mul(emit, row, g->drop.tile_row);
    counter = LLVMBuildAdd(b, counter, tsr_block_mul(emit, column, WARP_LANES), "");
    counter =
        LLVMBuildAdd(b, counter, g->of_keys ? tsr_block_transposed_counter(emit) : emit->lane, "");
    for (unsigned pair = 0; pair < score_registers(g) / 2; pair++) {
        unsigned beside = pair / HALVES, half = pair % HALVES, word = pair % TSR_DROP_WORDS;
        if (word == 0) {
            int64_t apart = g->of_keys ? g->drop.tile_row : WARP_LANES;
            tsr_block_draw(emit, &g->drop, tsr_block_add(emit, counter, beside / 2 * apart), words);
            if (g->of_keys) tsr_block_transpose_words(emit, words);
        }
        if (g->of_keys) word = beside % 2 + 2 * half;
        LLVMValueRef stays = tsr_block_drop_mask(emit, &g->drop, words[word]);
        LLVMValueRef falls = LLVMBuildNot(b, stays, "");
        for (unsigned e = 0; e < 2; e++) {
            LLVMValueRef bit = e ? falls : LLVMBuildShl(b, falls, integer(g, 16), "");
            LLVMValueRef bits = LLVMBuildBitCast(b, weights[2 * pair + e], i32, "");
            bits = LLVMBuildOr(b, bits, LLVMBuildAnd(b, bit, sign, ""), "");
            weights[2 * pair + e] = LLVMBuildBitCast(b, bits, g->f32, "");
        }
    }
}

/* Rounds to pairs; negative values become 0. */
static void narrow_weights(const grad *g, LLVMValueRef *weights, LLVMValueRef *out_pairs) {
    bool is_bf16 = mlirTypeIsABF16(g->element);
    for (unsigned i = 0; i < score_registers(g) / 2; i++) {
        LLVMValueRef args[] = {weights[2 * i + 1], weights[2 * i]};
        out_pairs[i] = g->drop.some ? tsr_block_asm(g->emit, tsr_block_i32(g->emit),
                                                    is_bf16 ? "cvt.rn.relu.bf16x2.f32 $0, $1, $2;"
                                                            : "cvt.rn.relu.f16x2.f32 $0, $1, $2;",
                                                    "=r,f,f", args, 2)
                                    : tsr_block_narrow(g->emit, g->element, args[1], args[0]);
    }
}

/* Computes dS as pairs, from P and X' Y'^T. */
static void slope(const grad *g, uint32_t m, LLVMValueRef (*columns)[2], LLVMValueRef *weights,
                  LLVMValueRef *products, LLVMValueRef *out_pairs) {
    LLVMBuilderRef b = g->emit->builder;
    LLVMValueRef two[2];
    for (unsigned i = 0; i < score_registers(g); i++) {
        LLVMValueRef x = products[i], weight = weights[i];
        if (g->drop.some) {
            LLVMValueRef falls = LLVMBuildFCmp(b, LLVMRealOLT, weight, constant(g, 0), "");
            x = LLVMBuildSelect(b, falls, constant(g, 0), x, "");
            weight = tsr_emit_intrinsic(g->emit, "llvm.fabs", &g->f32, 1, &weight, 1);
        }
        x = LLVMBuildFAdd(b, x, number_of(g, 1, m, i, columns), "");
        two[i % 2] = LLVMBuildFMul(b, weight, x, "");
        if (i % 2) out_pairs[i / 2] = tsr_block_narrow(g->emit, g->element, two[0], two[1]);
    }
}

/* ---- a step ---------------------------------------------------------------------------------- */

enum { COLUMNS_MAX = REGISTERS_MAX / BLOCK_REGISTERS };

/* P of the step, and as pairs for dV. */
static void weigh_step(const grad *g, const where *w, bool masked, LLVMValueRef *weights,
                       LLVMValueRef *pairs) {
    unsigned count = score_registers(g);
    LLVMValueRef columns[COLUMNS_MAX][2];
    multiply_rows(g, 0, stage_address(g, g->other[0], w->number), weights);
    if (g->of_keys) {
        load_columns(g, 0, stage_address(g, g->row_ring, w->number), columns);
        for (uint32_t j = 0; j < g->step / BLOCK_COLUMNS; j++)
            for (uint32_t e = 0; e < 2; e++)
                columns[j][e] = LLVMBuildFMul(g->emit->builder, columns[j][e], factor(g), "");
    }
    for (uint32_t m = 0; m < g->row_blocks; m++) {
        LLVMValueRef *own = weights + (size_t)m * count;
        if (masked) mask(g, m, w, own);
        weigh(g, m, columns, own);
        if (g->drop.some) drop(g, m, w, own);
        if (g->of_keys) narrow_weights(g, own, pairs + (size_t)m * count / 2);
    }
}

/* Sums += dS Y of step `number`, from its P. */
static void add_slopes(const grad *g, LLVMValueRef number, LLVMValueRef *weights) {
    unsigned count = score_registers(g);
    LLVMValueRef products[REGISTERS_MAX], pairs[REGISTERS_MAX / 2], columns[COLUMNS_MAX][2];
    multiply_rows(g, 1, stage_address(g, g->other[1], number), products);
    if (g->of_keys) load_columns(g, 1, stage_address(g, g->row_ring, number), columns);
    for (uint32_t m = 0; m < g->row_blocks; m++)
        slope(g, m, columns, weights + (size_t)m * count, products + (size_t)m * count,
              pairs + (size_t)m * count / 2);
    add_products(g, 0, stage_address(g, g->other[0], number), pairs);
}

static void add_step(const grad *g, const where *w, bool masked) {
    LLVMValueRef weights[REGISTERS_MAX], pairs[REGISTERS_MAX / 2];
    LLVMValueRef ahead = tsr_block_add(g->emit, w->number, g->ahead);
    tsr_sync_wait(g->emit, g->ahead - 1);
    if (!g->of_keys) copy_step(g, ahead);
    weigh_step(g, w, masked, weights, pairs);
    /* Copies begin at a point where the assembler has registers to spare. */
    if (g->of_keys) add_products(g, 1, stage_address(g, g->other[1], w->number), pairs);
    if (g->of_keys) copy_step(g, ahead);
    add_slopes(g, w->number, weights);
}

/* ---- halves of the warps --------------------------------------------------------------------- */

/* Stores or loads a warp's P of step `number` (i32), in the order of its registers: four of a lane
 * are consecutive. */
static void pass_weights(const grad *g, LLVMValueRef number, bool take, LLVMValueRef *weights) {
    enum { BYTES = 16 };
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef types[] = {g->f32, g->f32, g->f32, g->f32};
    LLVMTypeRef four = LLVMStructTypeInContext(emit->llvm, types, BLOCK_REGISTERS, false);
    uint32_t count = g->row_blocks * score_registers(g) / BLOCK_REGISTERS;
    LLVMValueRef at = stage_address(g, g->weight_ring, number);
    at = LLVMBuildAdd(b, at, tsr_block_mul(emit, g->warp, (int64_t)count * WARP_LANES * BYTES), "");
    at = LLVMBuildAdd(b, at, tsr_block_mul(emit, emit->lane, BYTES), "");
    for (uint32_t i = 0; i < count; i++) {
        LLVMValueRef *own = weights + (size_t)i * BLOCK_REGISTERS;
        LLVMValueRef args[] = {at, own[0], own[1], own[2], own[3]};
        char text[80];
        snprintf(text, sizeof text,
                 take ? "ld.shared.v4.f32 {$0, $1, $2, $3}, [$4+%u];"
                      : "st.shared.v4.f32 [$0+%u], {$1, $2, $3, $4};",
                 i * WARP_LANES * BYTES);
        if (take)
            tsr_block_unpack(emit,
                             tsr_block_asm(emit, four, text, "=f,=f,=f,=f,r,~{memory}", args, 1),
                             own, BLOCK_REGISTERS);
        else
            tsr_block_asm(emit, NULL, text, "r,f,f,f,f,~{memory}", args, 5);
    }
}

/* A step of the first half. */
static void add_values(const grad *g, const where *w, bool masked) {
    LLVMValueRef weights[REGISTERS_MAX], pairs[REGISTERS_MAX / 2];
    tsr_sync_wait_apart(g->emit, g->ahead - 1);
    copy_step(g, tsr_block_add(g->emit, w->number, g->ahead));
    weigh_step(g, w, masked, weights, pairs);
    pass_weights(g, w->number, false, weights);
    add_products(g, 1, stage_address(g, g->other[1], w->number), pairs);
}

/* All steps of the second half, each one while the first half computes the next one. */
static void add_keys(const grad *g) {
    LLVMValueRef weights[REGISTERS_MAX], one = integer(g, 1);
    tsr_sync_wait_apart(g->emit, g->ahead - 1);
    copy_step(g, integer(g, g->ahead));
    tsr_block_loop l =
        tsr_block_loop_begin(g->emit, one, tsr_block_add(g->emit, g->steps, 1), 1, "slopes");
    LLVMValueRef number = tsr_block_add(g->emit, l.index, -1);
    tsr_sync_wait_apart(g->emit, g->ahead - 1);
    copy_step(g, tsr_block_add(g->emit, l.index, g->ahead));
    pass_weights(g, number, true, weights);
    add_slopes(g, number, weights);
    tsr_block_loop_end(g->emit, &l);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

static void load_numbers(grad *g) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    for (uint32_t m = 0; m < g->row_blocks; m++)
        for (uint32_t half = 0; half < HALVES; half++)
            for (uint32_t i = 0; i < ROW_NUMBERS; i++) {
                int64_t below = (int64_t)m * BLOCK_ROWS + (int64_t)half * BLOCK_COLUMNS;
                LLVMValueRef row = LLVMBuildAdd(b, g->row, g->own_row, "");
                LLVMValueRef from = number_address(g, i, g->head, tsr_block_add(emit, row, below));
                LLVMValueRef x = LLVMBuildLoad2(b, g->f32, from, "");
                g->numbers[m][half][i] = i ? x : LLVMBuildFMul(b, x, factor(g), "");
            }
}

static void locate_warp(grad *g) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    g->warp = LLVMBuildURem(b, emit->block->warp, integer(g, g->warps), "");
    g->warp_row = tsr_block_mul(emit, g->warp, (int64_t)g->row_blocks * BLOCK_ROWS);
    g->own_row = LLVMBuildAdd(b, g->warp_row, LLVMBuildLShr(b, emit->lane, integer(g, 2), ""), "");
    g->column = tsr_block_mul(emit, LLVMBuildAnd(b, emit->lane, integer(g, 3), ""), 2);
    g->straight = tsr_sync_lane(emit, TSR_SYNC_BESIDE, NULL);
    g->transposed = tsr_sync_lane(emit, TSR_SYNC_BELOW, NULL);
    for (uint32_t i = 0; i < SIDES; i++)
        g->own_at[i] = LLVMBuildAdd(b, tsr_block_ring_address(emit, g->own[i]),
                                    tsr_sync_lane(emit, TSR_SYNC_BELOW, g->warp_row), "");
    for (uint32_t i = 0; i < (g->of_keys ? SIDES : 1); i++)
        for (uint32_t m = 0; m < g->row_blocks; m++)
            for (uint32_t r = 0; r < g->d / 2; r++) {
                g->sums[i][m][r] = tsr_block_memory(emit, g->f32);
                tsr_block_set(emit, g->sums[i][m][r], constant(g, 0));
            }
}

/* Stores sums through the slot of rows that no warp reads any more: split warps use their own
 * rows. */
static void store_sums(const grad *g, uint32_t side, double by) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    const tsr_ring *ring = g->own[g->weight_ring ? !side : side];
    LLVMValueRef at = tsr_block_ring_address(emit, ring);
    tsr_sync_meet(emit); /* they have been read */
    for (uint32_t m = 0; m < g->row_blocks; m++) {
        LLVMValueRef pairs[REGISTERS_MAX / 2];
        for (uint32_t i = 0; i < g->d / 4; i++) {
            LLVMValueRef two[2];
            for (uint32_t e = 0; e < 2; e++)
                two[e] = LLVMBuildFMul(b, tsr_block_get(emit, g->sums[side][m][2 * i + e]),
                                       constant(g, by), "");
            pairs[i] = tsr_block_narrow(emit, g->element, two[0], two[1]);
        }
        tsr_sync_put_rows(emit, ring, at, tsr_block_add(emit, g->warp_row, (int64_t)m * BLOCK_ROWS),
                          pairs, (uint32_t)g->d / 4);
    }
    tsr_sync_meet(emit);
    tsr_sync_store_rows(emit, g->op, GRADIENT + side, g->of_keys ? g->group : g->head, g->own[side],
                        at, g->warp_row, g->row_blocks * BLOCK_ROWS, g->row);
}

/* Computes the steps of a head, or of head number `number`. */
static void add_steps(const grad *g, LLVMValueRef number) {
    void (*add)(const grad *, const where *, bool) = g->weight_ring ? add_values : add_step;
    tsr_emit *emit = g->emit;
    LLVMValueRef from = integer(g, 0);
    if (g->causal) {
        LLVMValueRef masked = integer(g, g->own[0]->rows / g->step);
        tsr_block_loop l = tsr_block_loop_begin(emit, from, masked, 1, "masked");
        where w = find_step(g, number, l.index);
        add(g, &w, true);
        tsr_block_loop_end(emit, &l);
        from = masked;
    }
    tsr_block_loop l = tsr_block_loop_begin(emit, from, g->per_head, 1, "steps");
    where w = find_step(g, number, l.index);
    add(g, &w, false);
    tsr_block_loop_end(emit, &l);
}

static void add_all_steps(grad *g) {
    tsr_emit *emit = g->emit;
    if (!g->of_keys || g->repeat == 1) {
        tsr_block_begin_drop(emit, g->op, &g->drop, g->head, false);
        add_steps(g, NULL);
        return;
    }
    tsr_block_loop l = tsr_block_loop_begin(emit, integer(g, 0), integer(g, g->repeat), 1, "heads");
    LLVMValueRef head = LLVMBuildAdd(emit->builder, g->head, l.index, "");
    tsr_block_begin_drop(emit, g->op, &g->drop, head, true);
    add_steps(g, l.index);
    tsr_block_loop_end(emit, &l);
}

/* The first half waits once more, so that both halves meet equally often. */
static void add_halves(grad *g, double left) {
    tsr_emit *emit = g->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMBasicBlockRef values = tsr_emit_block(emit, "values"), keys = tsr_emit_block(emit, "keys"),
                      rest = tsr_emit_block(emit, "");
    LLVMValueRef first = LLVMBuildICmp(b, LLVMIntULT, emit->block->warp, integer(g, g->warps), "");
    LLVMBuildCondBr(b, first, values, keys);
    LLVMPositionBuilderAtEnd(b, values);
    add_all_steps(g);
    tsr_sync_wait_apart(emit, 0);
    store_sums(g, 1, 1 / left);
    LLVMBuildBr(b, rest);
    LLVMPositionBuilderAtEnd(b, keys);
    add_keys(g);
    store_sums(g, 0, g->scale / left);
    LLVMBuildBr(b, rest);
    LLVMPositionBuilderAtEnd(b, rest);
}

void tsr_block_emit_grad_sync(tsr_emit *emit, MlirOperation op) {
    grad g = read_grad(emit, op);
    double left = g.drop.some ? g.drop.left : 1;
    count_steps(&g);
    begin(&g);
    locate_warp(&g);
    if (g.weight_ring) {
        add_halves(&g, left);
        return;
    }
    if (!g.of_keys) load_numbers(&g);
    add_all_steps(&g);
    store_sums(&g, 0, g.scale / left);
    if (g.of_keys) store_sums(&g, 1, 1 / left);
}
