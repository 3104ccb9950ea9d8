/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention's computations on scores in the registers of a fragment: masks, weights, maximum and
 * sum of each row. Sources: Dao et al., "FlashAttention", 2022; Dao, "FlashAttention-2", 2023.
 */
#include "compiler/target/block/attend.h"
#include "compiler/tile/attributes.h"

#include <math.h>

static LLVMValueRef constant(const tsr_attend *a, double value) {
    return tsr_emit_float(a->f32, value);
}

static LLVMValueRef integer(const tsr_attend *a, int64_t value) {
    return tsr_block_int(a->emit, value);
}

static LLVMValueRef get(const tsr_attend *a, LLVMValueRef memory) {
    return tsr_block_get(a->emit, memory);
}

static void set(const tsr_attend *a, LLVMValueRef memory, LLVMValueRef value) {
    tsr_block_set(a->emit, memory, value);
}

static LLVMValueRef index_operand(const tsr_attend *a, uint32_t index) {
    return LLVMBuildTrunc(a->emit->builder, tsr_emit_operand(a->emit, a->op, a->buffers + index),
                          tsr_block_i32(a->emit), "");
}

static LLVMValueRef least(const tsr_attend *a, LLVMValueRef x, LLVMValueRef y) {
    LLVMBuilderRef b = a->emit->builder;
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, x, y, ""), x, y, "");
}

static LLVMValueRef greatest(const tsr_attend *a, LLVMValueRef x, LLVMValueRef y) {
    LLVMBuilderRef b = a->emit->builder;
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSGT, x, y, ""), x, y, "");
}

/* ---- a tile ---------------------------------------------------------------------------------- */

static const tsr_ring *ring_operand(const tsr_attend *a, uint32_t index) {
    enum { INDICES = 3 };
    return tsr_block_ring(a->emit, tsr_op_operand(a->op, a->buffers + INDICES + index));
}

tsr_attend tsr_block_read_attend(tsr_emit *emit, MlirOperation op) {
    tsr_attend a = {.emit = emit, .op = op, .f32 = LLVMFloatTypeInContext(emit->llvm)};
    MlirAttribute segments = tsr_op_attr(op, "operandSegmentSizes");
    a.buffers = (uint32_t)mlirDenseI32ArrayGetElement(segments, 0);
    a.element = mlirShapedTypeGetElementType(mlirValueGetType(tsr_op_operand(op, 0)));
    a.queries = tsr_attend_dim(op, 0, 1);
    a.d = tsr_attend_dim(op, 0, 2);
    a.keys = tsr_attend_dim(op, 1, 1);
    a.query_ring = ring_operand(&a, 0);
    a.key_ring = ring_operand(&a, 1);
    if (mlirDenseI32ArrayGetElement(segments, 2) > 2) a.result_ring = ring_operand(&a, 2);
    a.drop = tsr_block_read_drop(op);
    a.causal = tsr_op_flag(op, "causal");
    tsr_op_f64(op, "scale", &a.scale);
    int64_t unit = a.key_ring->rows;
    a.masks = a.causal || a.keys % unit;
    a.masks_more =
        a.causal && (a.keys % unit || (a.keys - a.queries) % unit || unit % a.query_ring->rows);
    return a;
}

void tsr_block_find_keys(tsr_attend *a) {
    LLVMBuilderRef b = a->emit->builder;
    int64_t unit = a->key_ring->rows, shift = a->keys - a->queries;
    LLVMValueRef keys = integer(a, a->keys), end = keys, seen = keys, zero = integer(a, 0);
    a->head = index_operand(a, 0);
    a->group = index_operand(a, 1);
    a->row = index_operand(a, 2);
    if (a->causal) {
        end = least(a, keys, tsr_block_add(a->emit, a->row, a->query_ring->rows + shift));
        seen = greatest(a, least(a, keys, tsr_block_add(a->emit, a->row, shift + 1)), zero);
        end = greatest(a, end, integer(a, 1));
    }
    a->blocks = LLVMBuildUDiv(b, tsr_block_add(a->emit, end, unit - 1), integer(a, unit), "");
    a->whole = LLVMBuildUDiv(b, seen, integer(a, unit), "");
}

void tsr_block_locate_column(tsr_attend *a) {
    LLVMBuilderRef b = a->emit->builder;
    a->column = tsr_block_mul(a->emit, LLVMBuildAnd(b, a->emit->lane, integer(a, 3), ""), 2);
    tsr_block_begin_drop(a->emit, a->op, &a->drop, a->head, false);
}

tsr_attend_rows tsr_block_locate_rows(const tsr_attend *a, LLVMValueRef row) {
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    tsr_attend_rows rows = {
        .first = LLVMBuildAdd(b, row, LLVMBuildLShr(b, emit->lane, integer(a, 2), ""), "")};
    if (a->drop.some) {
        LLVMValueRef tiles = LLVMBuildUDiv(b, row, integer(a, BLOCK_ROWS), "");
        tiles = tsr_block_mul(emit, tiles, a->drop.tile_row);
        rows.counter = LLVMBuildAdd(b, tiles, emit->lane, "");
    }
    for (unsigned half = 0; half < HALVES; half++) {
        rows.highest[half] = tsr_block_memory(emit, a->f32);
        rows.total[half] = tsr_block_memory(emit, a->f32);
    }
    return rows;
}

/* ---- functions of a thread's elements -------------------------------------------------------- */

static LLVMValueRef call_1(const tsr_attend *a, const char *text, LLVMValueRef x) {
    return tsr_block_asm(a->emit, a->f32, text, "=f,f", &x, 1);
}

static LLVMValueRef larger(const tsr_attend *a, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef args[] = {x, y};
    return tsr_emit_intrinsic(a->emit, "llvm.maxnum", &a->f32, 1, args, 2);
}

/* Reduces over the four threads of a row. */
static LLVMValueRef reduce_row(const tsr_attend *a, LLVMValueRef x, bool is_sum) {
    static const char *const texts[] = {"shfl.sync.bfly.b32 $0, $1, 1, 31, -1;",
                                        "shfl.sync.bfly.b32 $0, $1, 2, 31, -1;"};
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef other = call_1(a, texts[i], x);
        x = is_sum ? LLVMBuildFAdd(a->emit->builder, x, other, "") : larger(a, x, other);
    }
    return x;
}

/* Element i of a row half of S is register 4 (i / 2) + 2 half + i % 2. */
static unsigned element_register(unsigned half, unsigned i) {
    return i / 2 * BLOCK_REGISTERS + 2 * half + i % 2;
}

void tsr_block_mask_scores(const tsr_attend *a, const tsr_attend_rows *rows, LLVMValueRef block,
                           LLVMValueRef *scores) {
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef key =
        LLVMBuildAdd(b, tsr_block_mul(emit, block, a->key_ring->rows), a->column, "");
    for (unsigned half = 0; half < HALVES; half++) {
        LLVMValueRef limit = integer(a, a->keys);
        LLVMValueRef row = tsr_block_add(emit, rows->first, (int64_t)half * BLOCK_COLUMNS);
        if (a->causal) limit = least(a, limit, tsr_block_add(emit, row, a->keys - a->queries + 1));
        limit = LLVMBuildSub(b, limit, key, "");
        for (unsigned i = 0; i < a->key_ring->rows / 4; i++) {
            unsigned at = element_register(half, i);
            LLVMValueRef column = integer(a, (int64_t)(i / 2) * BLOCK_COLUMNS + i % 2);
            LLVMValueRef seen = LLVMBuildICmp(b, LLVMIntSLT, column, limit, "");
            scores[at] = LLVMBuildSelect(b, seen, scores[at], constant(a, -(double)INFINITY), "");
        }
    }
}

LLVMValueRef tsr_block_soften(const tsr_attend *a, const tsr_attend_rows *rows, unsigned half,
                              LLVMValueRef *scores, bool first) {
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
    highest = reduce_row(a, highest, false);
    LLVMValueRef before = first ? NULL : get(a, rows->highest[half]);
    if (!first) highest = larger(a, highest, before);
    set(a, rows->highest[half], highest);
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
    if (!first) sum = tsr_emit_fma(a->emit, get(a, rows->total[half]), rescale, sum);
    set(a, rows->total[half], sum);
    return rescale;
}

void tsr_block_store_weights(const tsr_attend *a, const tsr_attend_rows *rows, LLVMValueRef block,
                             LLVMValueRef *scores, LLVMValueRef *out_pairs) {
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef words[TSR_DROP_WORDS], counter = NULL;
    if (a->drop.some)
        counter =
            LLVMBuildAdd(b, rows->counter,
                         tsr_block_mul(emit, block, a->key_ring->rows / DEPTH * WARP_LANES), "");
    for (unsigned i = 0; i < a->key_ring->rows / 4; i++) {
        LLVMValueRef pair = tsr_block_narrow(emit, a->element, scores[2 * i], scores[2 * i + 1]);
        unsigned word = i % TSR_DROP_WORDS, tile = i / TSR_DROP_WORDS;
        if (a->drop.some && word == 0)
            tsr_block_draw(emit, &a->drop, tsr_block_add(emit, counter, tile * WARP_LANES), words);
        if (a->drop.some)
            pair = LLVMBuildAnd(b, pair, tsr_block_drop_mask(emit, &a->drop, words[word]), "");
        out_pairs[i] = pair;
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void store_logarithm(const tsr_attend *a, const tsr_attend_rows *rows, unsigned half,
                            LLVMValueRef total) {
    enum { LOGARITHM = 4 };
    tsr_emit *emit = a->emit;
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMValueRef highest = get(a, rows->highest[half]);
    LLVMValueRef none = LLVMBuildFCmp(b, LLVMRealOEQ, highest, constant(a, -(double)INFINITY), "");
    highest = LLVMBuildSelect(b, none, constant(a, 0), highest, "");
    LLVMValueRef log = call_1(a, "lg2.approx.ftz.f32 $0, $1;", total);
    log = LLVMBuildFMul(b, log, constant(a, 0.6931471805599453), "");
    log = tsr_emit_fma(emit, highest, constant(a, a->scale), log);
    LLVMValueRef row = tsr_block_add(emit, rows->first, (int64_t)half * BLOCK_COLUMNS);
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

LLVMValueRef tsr_block_end_rows(const tsr_attend *a, const tsr_attend_rows *rows, unsigned half) {
    LLVMBuilderRef b = a->emit->builder;
    LLVMValueRef total = reduce_row(a, get(a, rows->total[half]), true);
    LLVMValueRef none = LLVMBuildFCmp(b, LLVMRealOEQ, total, constant(a, 0), "");
    LLVMValueRef divisor = LLVMBuildSelect(b, none, constant(a, 1), total, "");
    LLVMValueRef factor = call_1(a, "rcp.approx.ftz.f32 $0, $1;", divisor);
    if (a->drop.some) factor = LLVMBuildFMul(b, factor, constant(a, 1 / a->drop.left), "");
    if (tsr_attend_buffers(a->op) > TSR_ATTEND_RESULT + 1) store_logarithm(a, rows, half, total);
    return factor;
}
