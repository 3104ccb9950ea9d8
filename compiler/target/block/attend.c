/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.attend "forward": attention of a tile of queries with wgmma. A warp group has 64 queries.
 *
 *     copying                 queries; keys and values of the blocks, in the order they are used in
 *     computing, block 0      S = Q K^T; m, P of it
 *     block j, from the last  begin S = Q K^T of it, begin O += P V of the one before
 *                             wait for S: m, P, and what O is to be multiplied by
 *                             wait for O: multiply it
 *     at the end              O += P V; O / l is the result, m + log l its logarithm
 *
 * The queries of the next tile, keys and values come while this one is computed. Blocks in which
 * some query does not see some key come first, on a path of their own. S as it lies in registers is
 * what the second product takes as its first factor.
 * Sources: Dao et al., "FlashAttention", 2022; Shah et al., "FlashAttention-3", 2024, section 3.2;
 * PTX ISA 8.5, "wgmma.mma_async".
 */
#include "compiler/shim/shim.h"
#include "compiler/target/block/block.h"
#include "compiler/target/block/drop.h"
#include "compiler/target/block/sizes.h"

#include <math.h>

enum {
    REGISTERS_MAX = 128,
    RESULT = 3,                         /* buffer */
    TURN_THREADS = 2 * TSR_BLOCK_GROUP, /* who gives a turn, and who takes it */
};

typedef struct attend {
    tsr_emit *emit;
    MlirOperation op;
    const tsr_ring *query_ring, *key_ring, *result_ring;
    MlirType element;
    int64_t queries, keys, d;
    uint32_t buffers; /* with those that weights are dropped by */
    tsr_drop drop;
    bool causal, turns, masks; /* some block may need a mask */
    bool masks_more;           /* than the first one */
    double scale;
    LLVMTypeRef f32;
    /* i32, of the tile */
    LLVMValueRef head, group, row, blocks, whole, base;
    LLVMValueRef warp_group;
    LLVMValueRef first_row, column; /* of the thread: its first row; its first column */
    LLVMValueRef counter;           /* of its first weights of the row of tiles, if any fall */
    tsr_place query;
    /* memory: sums of the result, weights, maximum and total of each row */
    LLVMValueRef result[REGISTERS_MAX], weights[REGISTERS_MAX / 2];
    LLVMValueRef highest[HALVES], total[HALVES];
} attend;

static LLVMValueRef constant(const attend *a, double value) {
    return tsr_emit_float(a->f32, value);
}

static LLVMValueRef integer(const attend *a, int64_t value) {
    return tsr_block_int(a->emit, value);
}

static LLVMValueRef get(const attend *a, LLVMValueRef memory) {
    return tsr_block_get(a->emit, memory);
}

static void set(const attend *a, LLVMValueRef memory, LLVMValueRef value) {
    tsr_block_set(a->emit, memory, value);
}

static LLVMValueRef index_operand(const attend *a, uint32_t index) {
    return LLVMBuildTrunc(a->emit->builder, tsr_emit_operand(a->emit, a->op, a->buffers + index),
                          tsr_block_i32(a->emit), "");
}

static LLVMValueRef least(const attend *a, LLVMValueRef x, LLVMValueRef y) {
    LLVMBuilderRef b = a->emit->builder;
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, x, y, ""), x, y, "");
}

static LLVMValueRef greatest(const attend *a, LLVMValueRef x, LLVMValueRef y) {
    LLVMBuilderRef b = a->emit->builder;
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSGT, x, y, ""), x, y, "");
}

/* ---- what it is about ------------------------------------------------------------------------ */

static const tsr_ring *ring_operand(const attend *a, uint32_t index) {
    enum { INDICES = 3 };
    return tsr_block_ring(a->emit, tsr_op_operand(a->op, a->buffers + INDICES + index));
}

static attend read_attend(tsr_emit *emit, MlirOperation op) {
    attend a = {.emit = emit, .op = op, .f32 = LLVMFloatTypeInContext(emit->llvm)};
    MlirAttribute segments = tsr_op_attr(op, "operandSegmentSizes");
    a.buffers = (uint32_t)mlirDenseI32ArrayGetElement(segments, 0);
    a.element = mlirShapedTypeGetElementType(mlirValueGetType(tsr_op_operand(op, 0)));
    a.queries = tsr_attend_dim(op, 0, 1);
    a.d = tsr_attend_dim(op, 0, 2);
    a.keys = tsr_attend_dim(op, 1, 1);
    a.query_ring = ring_operand(&a, 0);
    a.key_ring = ring_operand(&a, 1);
    a.result_ring = ring_operand(&a, 2);
    a.drop = tsr_block_read_drop(op);
    a.causal = tsr_op_flag(op, "causal");
    a.turns = tsr_op_flag(op, "turns");
    tsr_op_f64(op, "scale", &a.scale);
    int64_t unit = a.key_ring->rows;
    a.masks = a.causal || a.keys % unit;
    a.masks_more =
        a.causal && (a.keys % unit || (a.keys - a.queries) % unit || unit % a.query_ring->rows);
    return a;
}

void tsr_block_plan_attend(tsr_emit *emit, MlirOperation op) {
    if (tsr_block_is_backward(op)) {
        tsr_block_plan_grad(emit);
        return;
    }
    attend a = read_attend(emit, op);
    tsr_block *block = emit->block;
    for (uint32_t i = 0; i < block->ring_count; i++)
        if (&block->rings[i] == a.query_ring || &block->rings[i] == a.key_ring)
            block->rings[i].is_copied_to = true;
    block->stages = a.key_ring->stages;
    block->query_stages = a.query_ring->stages;
    block->attends_in_turns = a.turns;
}

/* How many blocks of keys the tile's queries see, and how many of them its first one sees wholly.
 * Of a tile that sees nothing the first block is taken. */
static void find_blocks(attend *a) {
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    int64_t unit = a->key_ring->rows, shift = a->keys - a->queries;
    LLVMValueRef keys = integer(a, a->keys), end = keys, seen = keys, zero = integer(a, 0);
    a->head = index_operand(a, 0);
    a->group = index_operand(a, 1);
    a->row = index_operand(a, 2);
    if (a->causal) {
        end = least(a, keys, tsr_block_add(emit, a->row, a->query_ring->rows + shift));
        seen = greatest(a, least(a, keys, tsr_block_add(emit, a->row, shift + 1)), zero);
        end = greatest(a, end, integer(a, 1));
    }
    a->blocks = LLVMBuildUDiv(b, tsr_block_add(emit, end, unit - 1), integer(a, unit), "");
    a->whole = LLVMBuildUDiv(b, seen, integer(a, unit), "");
    a->base = get(a, emit->block->used);
    a->query = tsr_block_place(emit, get(a, emit->block->tiles), emit->block->query_stages);
}

static void finish_tile(const attend *a) {
    LLVMBuilderRef b = a->emit->builder;
    LLVMValueRef used = LLVMBuildAdd(b, a->base, tsr_block_mul(a->emit, a->blocks, 2), "");
    set(a, a->emit->block->used, used);
    set(a, a->emit->block->tiles, tsr_block_add(a->emit, a->query.count, 1));
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void copy(const attend *a, uint32_t buffer, const tsr_ring *ring, const tsr_place *place,
                 uint32_t full_at, uint32_t empty_at, LLVMValueRef row, LLVMValueRef head) {
    tsr_emit *emit = a->emit;
    LLVMValueRef at[3], full = tsr_block_barrier(emit, place, full_at);
    tsr_block_place_head(emit, a->op, buffer, head, row, 0, at);
    tsr_block_wait(emit, tsr_block_barrier(emit, place, empty_at),
                   LLVMBuildXor(emit->builder, place->parity, integer(a, 1), ""));
    tsr_block_expect(emit, full, ring->rows * ring->columns * ring->element_bytes);
    tsr_block_copy_boxes(emit, tsr_op_operand(a->op, buffer), at, ring,
                         tsr_block_place_address(emit, ring, place), full, NULL);
}

/* Number `number` of the tile's keys and values: block `block` of the keys (1) or values (2). */
static void copy_block(const attend *a, uint32_t buffer, LLVMValueRef number, LLVMValueRef block) {
    const tsr_block *of = a->emit->block;
    LLVMValueRef count = LLVMBuildAdd(a->emit->builder, a->base, number, "");
    tsr_place at = tsr_block_place(a->emit, count, of->stages);
    copy(a, buffer, a->key_ring, &at, of->full_at, of->empty_at,
         tsr_block_mul(a->emit, block, a->key_ring->rows), a->group);
}

/* Keys of block j have number 2 j - 1 (of the first: 0), values of block j - 1 number 2 j. */
static void copy_tile(const attend *a) {
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    const tsr_block *of = emit->block;
    LLVMValueRef last = tsr_block_add(emit, a->blocks, -1);
    copy(a, 0, a->query_ring, &a->query, of->queries_full_at, of->queries_empty_at, a->row,
         a->head);
    copy_block(a, 1, integer(a, 0), last);
    tsr_block_loop l = tsr_block_loop_begin(emit, integer(a, 1), a->blocks, 1, "copies");
    LLVMValueRef number = tsr_block_mul(emit, l.index, 2);
    LLVMValueRef block = LLVMBuildSub(b, last, l.index, "");
    copy_block(a, 1, tsr_block_add(emit, number, -1), block);
    copy_block(a, 2, number, tsr_block_add(emit, block, 1));
    tsr_block_loop_end(emit, &l);
    copy_block(a, 2, tsr_block_add(emit, tsr_block_mul(emit, a->blocks, 2), -1), integer(a, 0));
}

/* ---- functions of a thread's elements -------------------------------------------------------- */

static LLVMValueRef call_1(const attend *a, const char *text, LLVMValueRef x) {
    return tsr_block_asm(a->emit, a->f32, text, "=f,f", &x, 1);
}

static LLVMValueRef larger(const attend *a, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef args[] = {x, y};
    return tsr_emit_intrinsic(a->emit, "llvm.maxnum", &a->f32, 1, args, 2);
}

/* Over the four threads of a row. */
static LLVMValueRef across_row(const attend *a, LLVMValueRef x, bool is_sum) {
    static const char *const texts[] = {"shfl.sync.bfly.b32 $0, $1, 1, 31, -1;",
                                        "shfl.sync.bfly.b32 $0, $1, 2, 31, -1;"};
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef other = call_1(a, texts[i], x);
        x = is_sum ? LLVMBuildFAdd(a->emit->builder, x, other, "") : larger(a, x, other);
    }
    return x;
}

/* Elements of a row half of S: number i of them is register 4 (i / 2) + 2 half + i % 2. */
static unsigned element_register(unsigned half, unsigned i) {
    return i / 2 * BLOCK_REGISTERS + 2 * half + i % 2;
}

/* -inf where a query does not see a key of the block. */
static void mask(const attend *a, LLVMValueRef block, LLVMValueRef *scores) {
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef key =
        LLVMBuildAdd(b, tsr_block_mul(emit, block, a->key_ring->rows), a->column, "");
    for (unsigned half = 0; half < HALVES; half++) {
        LLVMValueRef limit = integer(a, a->keys);
        LLVMValueRef row = tsr_block_add(emit, a->first_row, (int64_t)half * BLOCK_COLUMNS);
        if (a->causal) limit = least(a, limit, tsr_block_add(emit, row, a->keys - a->queries + 1));
        limit = LLVMBuildSub(b, limit, key, "");
        for (unsigned i = 0; i < a->key_ring->rows / 4; i++) {
            unsigned at = element_register(half, i);
            LLVMValueRef place = integer(a, (int64_t)(i / 2) * BLOCK_COLUMNS + i % 2);
            LLVMValueRef seen = LLVMBuildICmp(b, LLVMIntSLT, place, limit, "");
            scores[at] = LLVMBuildSelect(b, seen, scores[at], constant(a, -(double)INFINITY), "");
        }
    }
}

/* Scores of a row half become weights; what was summed up before is to be multiplied by the result,
 * NULL in the first block. */
static LLVMValueRef soften(const attend *a, unsigned half, LLVMValueRef *scores, bool first) {
    enum { CHAINS = 4 };
    LLVMBuilderRef b = a->emit->builder;
    unsigned count = a->key_ring->rows / 4;
    LLVMValueRef chains[CHAINS], factor = constant(a, a->scale * 1.4426950408889634);
    LLVMValueRef lowest = constant(a, -(double)INFINITY);
    for (unsigned i = 0; i < count; i++) {
        LLVMValueRef x = scores[element_register(half, i)];
        chains[i % CHAINS] = i < CHAINS ? x : larger(a, chains[i % CHAINS], x);
    }
    LLVMValueRef highest =
        larger(a, larger(a, chains[0], chains[1]), larger(a, chains[2], chains[3]));
    highest = across_row(a, highest, false);
    LLVMValueRef before = first ? NULL : get(a, a->highest[half]);
    if (!first) highest = larger(a, highest, before);
    set(a, a->highest[half], highest);
    LLVMValueRef none = LLVMBuildFCmp(b, LLVMRealOEQ, highest, lowest, "");
    LLVMValueRef shift = LLVMBuildSelect(b, none, constant(a, 0), highest, "");
    shift = LLVMBuildFNeg(b, LLVMBuildFMul(b, shift, factor, ""), "");
    LLVMValueRef rescale =
        first ? NULL : tsr_block_power_of_2(a->emit, tsr_emit_fma(a->emit, before, factor, shift));
    for (unsigned i = 0; i < count; i++) {
        unsigned at = element_register(half, i);
        scores[at] =
            tsr_block_power_of_2(a->emit, tsr_emit_fma(a->emit, scores[at], factor, shift));
        chains[i % CHAINS] =
            i < CHAINS ? scores[at] : LLVMBuildFAdd(b, chains[i % CHAINS], scores[at], "");
    }
    LLVMValueRef sum = LLVMBuildFAdd(b, LLVMBuildFAdd(b, chains[0], chains[1], ""),
                                     LLVMBuildFAdd(b, chains[2], chains[3], ""), "");
    if (!first) sum = tsr_emit_fma(a->emit, get(a, a->total[half]), rescale, sum);
    set(a, a->total[half], sum);
    return rescale;
}

/* Weights of the block as pairs, those that fall 0. */
static void keep_weights(const attend *a, LLVMValueRef block, LLVMValueRef *scores) {
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef words[TSR_DROP_WORDS], counter = NULL;
    if (a->drop.some)
        counter = LLVMBuildAdd(
            b, a->counter, tsr_block_mul(emit, block, a->key_ring->rows / DEPTH * WARP_LANES), "");
    for (unsigned i = 0; i < a->key_ring->rows / 4; i++) {
        LLVMValueRef pair = tsr_block_narrow(emit, a->element, scores[2 * i], scores[2 * i + 1]);
        unsigned word = i % TSR_DROP_WORDS, tile = i / TSR_DROP_WORDS;
        if (a->drop.some && word == 0)
            tsr_block_draw(emit, &a->drop, tsr_block_add(emit, counter, tile * WARP_LANES), words);
        if (a->drop.some)
            pair = LLVMBuildAnd(b, pair, tsr_block_drop_mask(emit, &a->drop, words[word]), "");
        set(a, a->weights[i], pair);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

static void take_turn(const attend *a, bool take) {
    LLVMBuilderRef b = a->emit->builder;
    uint32_t groups = a->emit->block->groups;
    if (!a->turns || groups < 2) return;
    LLVMValueRef next = tsr_block_add(a->emit, a->warp_group, 1);
    next = LLVMBuildURem(b, next, integer(a, groups), "");
    if (take)
        tsr_block_turn(a->emit, "bar.sync $0, $1;", a->warp_group, TURN_THREADS);
    else
        tsr_block_turn(a->emit, "bar.arrive $0, $1;", next, TURN_THREADS);
}

static tsr_place key_place(const attend *a, LLVMValueRef number) {
    return tsr_block_place(a->emit, LLVMBuildAdd(a->emit->builder, a->base, number, ""),
                           a->emit->block->stages);
}

static void wait_for(const attend *a, const tsr_place *at) {
    tsr_block_wait(a->emit, tsr_block_barrier(a->emit, at, a->emit->block->full_at), at->parity);
}

static void release(const attend *a, const tsr_place *at) {
    tsr_block_arrive(a->emit, tsr_block_barrier(a->emit, at, a->emit->block->empty_at), NULL);
}

/* S = Q K^T of the keys at that place is begun. */
static void begin_scores(const attend *a, const tsr_place *at, LLVMValueRef *out_scores) {
    tsr_block_product p = {.a = a->query_ring,
                           .b = a->key_ring,
                           .element = a->element,
                           .a_at = tsr_block_place_address(a->emit, a->query_ring, &a->query),
                           .b_at = tsr_block_place_address(a->emit, a->key_ring, at),
                           .b_transposed = true,
                           .is_fresh = true,
                           .columns = a->key_ring->rows,
                           .steps = (uint32_t)a->d / DEPTH,
                           .row_blocks = 1};
    unsigned count = a->key_ring->rows / 2;
    tsr_block_unpack(a->emit, tsr_block_wgmma(a->emit, &p, NULL, count, 0), out_scores, count);
}

/* O += P V of the values at that place is begun. */
static void begin_result(const attend *a, const tsr_place *at, LLVMValueRef *out_result) {
    tsr_block_product p = {.b = a->key_ring,
                           .element = a->element,
                           .b_at = tsr_block_place_address(a->emit, a->key_ring, at),
                           .columns = (uint32_t)a->d,
                           .steps = a->key_ring->rows / DEPTH,
                           .row_blocks = 1};
    LLVMValueRef given[REGISTERS_MAX + REGISTERS_MAX / 2];
    unsigned sums = (unsigned)a->d / 2, weights = a->key_ring->rows / 4;
    for (unsigned i = 0; i < sums; i++) given[i] = get(a, a->result[i]);
    for (unsigned i = 0; i < weights; i++) given[sums + i] = get(a, a->weights[i]);
    tsr_block_unpack(a->emit, tsr_block_wgmma(a->emit, &p, given, sums, weights), out_result, sums);
}

static void settle(const attend *a, unsigned left, LLVMValueRef *sums, unsigned count) {
    tsr_block_settle_some(a->emit, left, sums, count);
}

static void first_block(const attend *a) {
    LLVMValueRef scores[REGISTERS_MAX];
    tsr_place at = key_place(a, integer(a, 0));
    wait_for(a, &at);
    take_turn(a, true);
    begin_scores(a, &at, scores);
    take_turn(a, false);
    settle(a, 0, scores, a->key_ring->rows / 2);
    release(a, &at);
    if (a->masks) mask(a, tsr_block_add(a->emit, a->blocks, -1), scores);
    for (unsigned half = 0; half < HALVES; half++) soften(a, half, scores, true);
    keep_weights(a, tsr_block_add(a->emit, a->blocks, -1), scores);
    for (unsigned i = 0; i < (unsigned)a->d / 2; i++) set(a, a->result[i], constant(a, 0));
}

static void next_block(const attend *a, LLVMValueRef j, bool masked) {
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef scores[REGISTERS_MAX], result[REGISTERS_MAX], rescale[HALVES];
    LLVMValueRef number = tsr_block_mul(emit, j, 2);
    tsr_place keys = key_place(a, tsr_block_add(emit, number, -1)), values = key_place(a, number);
    unsigned sums = (unsigned)a->d / 2;
    wait_for(a, &keys);
    take_turn(a, true);
    begin_scores(a, &keys, scores);
    wait_for(a, &values);
    begin_result(a, &values, result);
    take_turn(a, false);
    settle(a, 1, scores, a->key_ring->rows / 2);
    release(a, &keys);
    LLVMValueRef block = LLVMBuildSub(b, tsr_block_add(emit, a->blocks, -1), j, "");
    if (masked) mask(a, block, scores);
    for (unsigned half = 0; half < HALVES; half++) rescale[half] = soften(a, half, scores, false);
    settle(a, 0, result, sums);
    release(a, &values);
    for (unsigned i = 0; i < sums; i++)
        set(a, a->result[i], LLVMBuildFMul(b, result[i], rescale[i / 2 % HALVES], ""));
    keep_weights(a, block, scores);
}

/* ---- the result ------------------------------------------------------------------------------ */

static void store_logarithm(const attend *a, unsigned half, LLVMValueRef total) {
    enum { LOGARITHM = 4 };
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMValueRef highest = get(a, a->highest[half]);
    LLVMValueRef none = LLVMBuildFCmp(b, LLVMRealOEQ, highest, constant(a, -(double)INFINITY), "");
    highest = LLVMBuildSelect(b, none, constant(a, 0), highest, "");
    LLVMValueRef log = call_1(a, "lg2.approx.ftz.f32 $0, $1;", total);
    log = LLVMBuildFMul(b, log, constant(a, 0.6931471805599453), "");
    log = tsr_emit_fma(emit, highest, constant(a, a->scale), log);
    LLVMValueRef row = tsr_block_add(emit, a->first_row, (int64_t)half * BLOCK_COLUMNS);
    LLVMValueRef mine = LLVMBuildICmp(b, LLVMIntEQ, a->column, integer(a, 0), "");
    LLVMValueRef inside = LLVMBuildICmp(b, LLVMIntSLT, row, integer(a, a->queries), "");
    LLVMValueRef offset =
        LLVMBuildMul(b, LLVMBuildZExt(b, a->head, i64, ""), tsr_emit_int(i64, a->queries), "");
    offset = LLVMBuildAdd(b, offset, LLVMBuildZExt(b, row, i64, ""), "");
    LLVMValueRef to = tsr_emit_operand(emit, a->op, LOGARITHM);
    LLVMValueRef args[] = {
        LLVMBuildGEP2(b, a->f32, to, &offset, 1, ""),
        LLVMBuildZExt(b, LLVMBuildAnd(b, mine, inside, ""), tsr_block_i32(emit), ""), log};
    tsr_block_asm(emit, NULL, "{ .reg .pred p; setp.ne.b32 p, $1, 0; @p st.global.f32 [$0], $2; }",
                  "l,r,f,~{memory}", args, 3);
}

/* Boxes of 64 columns through shared memory; those of the tile before must have left it. */
static void store_result(const attend *a, LLVMValueRef *result) {
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    const tsr_ring *ring = a->result_ring;
    int64_t stage_bytes = (int64_t)ring->rows * TSR_BLOCK_SWIZZLE_BYTES;
    uint32_t boxes = (uint32_t)a->d / BOX_COLUMNS;
    LLVMValueRef rows = tsr_block_mul(emit, a->warp_group, GROUP_ROWS);
    LLVMValueRef from = LLVMBuildAdd(b, tsr_block_ring_address(emit, ring),
                                     tsr_block_mul(emit, rows, TSR_BLOCK_SWIZZLE_BYTES), "");
    tsr_block_first_thread(emit, "cp.async.bulk.wait_group.read 0;", "~{memory}", NULL, 0);
    tsr_block_sync(emit, true);
    for (uint32_t c = 0; c < boxes; c++)
        tsr_block_put_box(emit, ring, a->element, from, c * stage_bytes,
                          result + (size_t)c * BOX_REGISTERS);
    tsr_block_asm(emit, NULL, "fence.proxy.async.shared::cta;", "~{memory}", NULL, 0);
    tsr_block_sync(emit, true);
    for (uint32_t c = 0; c < boxes; c++) {
        LLVMValueRef at[3], row = LLVMBuildAdd(b, a->row, rows, "");
        tsr_block_place_head(emit, a->op, RESULT, a->head, row, (int64_t)c * BOX_COLUMNS, at);
        tsr_block_copy_box(emit, tsr_op_operand(a->op, RESULT),
                           tsr_block_add(emit, from, c * stage_bytes), at);
    }
    emit->block->stored = true;
}

static void finish_result(const attend *a) {
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef result[REGISTERS_MAX], factors[HALVES];
    unsigned sums = (unsigned)a->d / 2;
    tsr_place values = key_place(a, tsr_block_add(emit, tsr_block_mul(emit, a->blocks, 2), -1));
    wait_for(a, &values);
    begin_result(a, &values, result);
    for (unsigned half = 0; half < HALVES; half++) {
        LLVMValueRef total = across_row(a, get(a, a->total[half]), true);
        LLVMValueRef none = LLVMBuildFCmp(b, LLVMRealOEQ, total, constant(a, 0), "");
        LLVMValueRef divisor = LLVMBuildSelect(b, none, constant(a, 1), total, "");
        factors[half] = call_1(a, "rcp.approx.ftz.f32 $0, $1;", divisor);
        if (a->drop.some)
            factors[half] = LLVMBuildFMul(b, factors[half], constant(a, 1 / a->drop.left), "");
        if (tsr_attend_buffers(a->op) > RESULT + 1) store_logarithm(a, half, total);
    }
    settle(a, 0, result, sums);
    release(a, &values);
    for (unsigned i = 0; i < sums; i++)
        result[i] = LLVMBuildFMul(b, result[i], factors[i / 2 % HALVES], "");
    store_result(a, result);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

static void place_thread(attend *a) {
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef warp = emit->block->warp;
    a->warp_group = LLVMBuildUDiv(b, warp, integer(a, GROUP_WARPS), "");
    LLVMValueRef row = LLVMBuildAdd(b, a->row, tsr_block_mul(emit, warp, BLOCK_ROWS), "");
    a->first_row = LLVMBuildAdd(b, row, LLVMBuildLShr(b, emit->lane, integer(a, 2), ""), "");
    a->column = tsr_block_mul(emit, LLVMBuildAnd(b, emit->lane, integer(a, 3), ""), 2);
    if (a->drop.some) {
        tsr_block_begin_drop(emit, a->op, &a->drop, a->head, false);
        LLVMValueRef tiles = LLVMBuildUDiv(b, row, integer(a, BLOCK_ROWS), "");
        tiles = tsr_block_mul(emit, tiles, a->drop.tile_row);
        a->counter = LLVMBuildAdd(b, tiles, emit->lane, "");
    }
    for (unsigned i = 0; i < (unsigned)a->d / 2; i++) a->result[i] = tsr_block_memory(emit, a->f32);
    for (unsigned i = 0; i < a->key_ring->rows / 4; i++)
        a->weights[i] = tsr_block_memory(emit, tsr_block_i32(emit));
    for (unsigned half = 0; half < HALVES; half++) {
        a->highest[half] = tsr_block_memory(emit, a->f32);
        a->total[half] = tsr_block_memory(emit, a->f32);
    }
}

static void compute_tile(attend *a) {
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    const tsr_block *of = emit->block;
    place_thread(a);
    tsr_block_wait(emit, tsr_block_barrier(emit, &a->query, of->queries_full_at), a->query.parity);
    first_block(a);
    LLVMValueRef from = integer(a, 1);
    if (a->masks_more) {
        LLVMValueRef masked = greatest(a, LLVMBuildSub(b, a->blocks, a->whole, ""), from);
        tsr_block_loop l = tsr_block_loop_begin(emit, from, masked, 1, "masked");
        next_block(a, l.index, true);
        tsr_block_loop_end(emit, &l);
        from = masked;
    }
    tsr_block_loop l = tsr_block_loop_begin(emit, from, a->blocks, 1, "keys");
    next_block(a, l.index, false);
    tsr_block_loop_end(emit, &l);
    tsr_block_arrive(emit, tsr_block_barrier(emit, &a->query, of->queries_empty_at), NULL);
    finish_result(a);
}

/* The first turn is warp group 0's. */
void tsr_block_open_attend(tsr_emit *emit) {
    const tsr_block *block = emit->block;
    LLVMValueRef warps = tsr_block_int(emit, GROUP_WARPS);
    LLVMValueRef group = LLVMBuildUDiv(emit->builder, block->warp, warps, "");
    LLVMValueRef last = tsr_block_int(emit, block->groups - 1);
    if (!block->attends_in_turns || block->groups < 2) return;
    LLVMBasicBlockRef opens = tsr_emit_block(emit, "first_turn"), rest = tsr_emit_block(emit, "");
    LLVMBuildCondBr(emit->builder, LLVMBuildICmp(emit->builder, LLVMIntEQ, group, last, ""), opens,
                    rest);
    LLVMPositionBuilderAtEnd(emit->builder, opens);
    tsr_block_turn(emit, "bar.arrive $0, $1;", tsr_block_int(emit, 0), TURN_THREADS);
    LLVMBuildBr(emit->builder, rest);
    LLVMPositionBuilderAtEnd(emit->builder, rest);
}

tsr_result tsr_block_emit_attend(tsr_emit *emit, MlirOperation op) {
    if (!emit->block->has_wgmma || !emit->block->uses_tma)
        FAIL(emit->ctx, TSR_COMPILE, "kernel '%s' attends with wgmma; '%s' has none", emit->kernel,
             emit->target->name);
    if (tsr_block_is_backward(op)) {
        tsr_block_emit_grad(emit, op);
        return TSR_SUCCESS;
    }
    attend a = read_attend(emit, op);
    find_blocks(&a);
    if (emit->block->copies)
        copy_tile(&a);
    else
        compute_tile(&a);
    finish_tile(&a);
    return TSR_SUCCESS;
}
