/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of attention in bf16 by dot products (dot.h), only for native numerics. Like
 * gradient.c, but with factors of bf16 in pairs and sums of f32:
 *
 *     for each block of keys of a key head (dk = dv = 0; dq = 0 before the first)
 *         for each query head that reads it, for each block of queries that see a key of the block
 *             s = q k^T, c = do v^T               pairs of d, of e; k and v packed by columns
 *             p = exp(scale * s + mask - logsumexp), c = p (c - t) scale     rounded to bf16
 *             dv += p^T do, dk += c^T q           pairs of queries; p and c are stored in them
 *             dq += c k                           pairs of keys
 *         dk and dv are rounded
 *
 * Beyond the diagonal p and c are zeros, because one element of a pair may be beyond it. dq is of
 * f32; another kernel rounds it afterwards: wide.c.
 */
#include "compiler/tile/attention/gradient.h"
#include "compiler/tile/products/dot.h"

enum { APART = 32 }; /* extra elements between rows of scores */

typedef struct gradient {
    tsr_attention_grad of;
    int64_t key_columns, value_columns; /* d and e rounded up to whole tiles */
    /* local buffers */
    MlirValue key_panels, value_panels;              /* packed by columns */
    MlirValue key_pairs, query_pairs, dresult_pairs; /* pairs of rows */
    MlirValue scores_at, dscores;                    /* products in f32 */
    MlirValue chances, dlogits, dlogit_rows;         /* pairs of queries; dlogit_rows: rows */
    MlirValue dk_sums, dv_sums;
} gradient;

static uint32_t lanes_of(const tsr_attention_grad *grad) {
    return grad->of.group->b.target->vector_bytes / (uint32_t)tsr_dtype_size(grad->of.dtype);
}

/* ---- local buffers --------------------------------------------------------------------------- */

static int64_t key_columns(const tsr_attention_grad *grad) {
    return tsr_round_up(grad->of.d, grad->keys.width);
}

static int64_t value_columns(const tsr_attention_grad *grad) {
    return tsr_round_up(grad->of.e, grad->values.width);
}

static int64_t stack_bytes(const tsr_attention_grad *grad) {
    int64_t keys = tsr_round_up(grad->block_keys, TSR_DOT_PAIR);
    int64_t queries = tsr_round_up(grad->block_queries, TSR_DOT_PAIR);
    int64_t columns = key_columns(grad) + value_columns(grad);
    int64_t narrow = tsr_attention_grad_panel_elements(grad, grad->key_depth + grad->value_depth) +
                     keys * key_columns(grad) + queries * (columns + 3 * grad->score_stride);
    int64_t wide = 2 * queries * grad->score_stride + keys * columns;
    return narrow * 2 + wide * 4;
}

static void make_locals(tsr_attention_grad *grad) {
    gradient *g = (gradient *)grad;
    tsr_tile_builder *b = &grad->of.group->b;
    MlirType wide = tsr_tile_storage_type(b, grad->of.dtype);
    MlirType narrow = tsr_tile_storage_type(b, grad->of.storage);
    int64_t keys = tsr_round_up(grad->block_keys, TSR_DOT_PAIR);
    int64_t queries = tsr_round_up(grad->block_queries, TSR_DOT_PAIR);
    int64_t scores = queries * grad->score_stride;
    int64_t key_panels = tsr_attention_grad_panel_elements(grad, grad->key_depth);
    int64_t value_panels = tsr_attention_grad_panel_elements(grad, grad->value_depth);
    g->key_columns = key_columns(grad);
    g->value_columns = value_columns(grad);
    g->key_panels = tsr_tile_local(b, narrow, key_panels + 1);
    g->value_panels = tsr_tile_local(b, narrow, value_panels + 1);
    g->key_pairs = tsr_tile_local(b, narrow, keys * g->key_columns + 1);
    g->query_pairs = tsr_tile_local(b, narrow, queries * g->key_columns + 1);
    g->dresult_pairs = tsr_tile_local(b, narrow, queries * g->value_columns + 1);
    g->scores_at = tsr_tile_local(b, wide, scores);
    g->dscores = tsr_tile_local(b, wide, scores);
    g->chances = tsr_tile_local(b, narrow, scores);
    g->dlogits = tsr_tile_local(b, narrow, scores);
    g->dlogit_rows = tsr_tile_local(b, narrow, scores);
    /* Both buffers are cleared and read in whole vectors. */
    g->dk_sums = tsr_tile_local(b, wide, keys * g->key_columns + lanes_of(grad));
    g->dv_sums = tsr_tile_local(b, wide, keys * g->value_columns + lanes_of(grad));
}

/* ---- products -------------------------------------------------------------------------------- */

static MlirValue pairs_of(tsr_attention_grad *g, MlirValue count) {
    tsr_tile_builder *b = &g->of.group->b;
    return tsr_tile_div(b, tsr_tile_offset(b, count, TSR_DOT_PAIR - 1), TSR_DOT_PAIR);
}

/* Adds scores^T from to the gradient of keys or values. */
static void add_over_queries(tsr_attention_grad *g, const tsr_attention_side *tiles,
                             MlirValue scores, MlirValue from, int64_t size, MlirValue to) {
    tsr_tile_builder *b = &g->of.group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    tsr_attention_grad_multiply(
        g, &(tsr_attention_product){.side = tiles,
                                    .edge = TSR_EDGE_BEGIN,
                                    .a = scores,
                                    .b = from,
                                    .to = to,
                                    .a_at = zero,
                                    .b_at = zero,
                                    .to_at = zero,
                                    .a_row = TSR_DOT_PAIR,
                                    .a_step = g->score_stride * TSR_DOT_PAIR,
                                    .b_step = tiles->width * TSR_DOT_PAIR,
                                    .b_column = tsr_round_up(g->block_queries, TSR_DOT_PAIR),
                                    .to_row = tsr_round_up(size, tiles->width),
                                    .columns = tsr_tile_index(b, size),
                                    .rows = g->key_count,
                                    .rows_all = g->of.keys,
                                    .count = pairs_of(g, g->query_count)});
}

static void add_over_keys(gradient *g) {
    tsr_attention_grad *grad = &g->of;
    tsr_tile_builder *b = &grad->of.group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    tsr_attention_grad_multiply(
        grad, &(tsr_attention_product){.side = &grad->keys,
                                       .edge = TSR_EDGE_END,
                                       .a = g->dlogit_rows,
                                       .b = g->key_pairs,
                                       .to = grad->dq,
                                       .a_at = zero,
                                       .b_at = zero,
                                       .to_at = grad->q_at,
                                       .a_row = grad->score_stride,
                                       .a_step = TSR_DOT_PAIR,
                                       .b_step = grad->keys.width * TSR_DOT_PAIR,
                                       .b_column = tsr_round_up(grad->block_keys, TSR_DOT_PAIR),
                                       .to_row = grad->of.d,
                                       .columns = tsr_tile_index(b, grad->of.d),
                                       .columns_of = grad->of.d,
                                       .rows = grad->query_count,
                                       .rows_all = grad->of.queries,
                                       .count = pairs_of(grad, grad->key_count)});
}

/* Packs the rows of a block in pairs. */
static void pack_rows(tsr_attention_grad *g, const tsr_attention_side *s, MlirValue from,
                      MlirValue from_at, int64_t size, MlirValue rows, bool odd, int64_t block,
                      MlirValue to) {
    tsr_attention_pairs pairs = {.from = from,
                                 .to = to,
                                 .from_at = from_at,
                                 .size = size,
                                 .count = pairs_of(g, rows),
                                 .rows = rows,
                                 .odd = odd,
                                 .lanes = s->lanes,
                                 .vectors = s->vectors,
                                 .panel = tsr_round_up(block, TSR_DOT_PAIR) * s->width};
    tsr_attention_pack_pairs(&g->of, &pairs);
}

/* ---- rows between the products --------------------------------------------------------------- */

/* One query of a pair. */
typedef struct query_row {
    MlirValue row, there, shift, total, limit; /* there: true if the query exists, or null */
} query_row;

static void begin_row(gradient *g, MlirValue row, bool second, query_row *out_row) {
    tsr_attention_grad *grad = &g->of;
    tsr_attention *of = &grad->of;
    tsr_tile_builder *b = &of->group->b;
    query_row q = {.row = row, .there = tsr_tile_null};
    if (second && of->queries % TSR_DOT_PAIR) { /* a missing query repeats the last */
        q.there = tsr_tile_icompare(b, TSR_ICMP_SLT, row, grad->query_count);
        q.row = tsr_tile_min(b, row, tsr_tile_offset(b, grad->query_count, -1));
    }
    MlirValue query = tsr_tile_add(b, grad->row_at, tsr_tile_add(b, of->query, q.row));
    q.shift = tsr_tile_load(b, of->dtype, grad->logsumexp, query, 0, tsr_tile_null);
    q.shift = tsr_attention_unless_lowest(of, q.shift);
    q.total =
        tsr_attention_grad_total(grad, tsr_tile_add(b, grad->o_at, tsr_tile_mul(b, q.row, of->e)));
    q.limit = tsr_attention_limit(of, q.row, grad->key_count);
    *out_row = q;
}

/* Computes p and c of `lanes` keys from `column` on. */
static void soften(gradient *g, const query_row *q, MlirValue column, uint32_t lanes,
                   MlirValue *out_p, MlirValue *out_c) {
    tsr_attention_grad *grad = &g->of;
    tsr_attention *of = &grad->of;
    tsr_tile_builder *b = &of->group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, q->row, grad->score_stride), column);
    MlirValue x = tsr_tile_load(b, of->dtype, g->scores_at, at, lanes, tsr_tile_null);
    MlirValue zero = tsr_element_zero(b, of->dtype, lanes);
    x = tsr_attention_mask(of, x, q->row, column, q->limit, lanes);
    x = tsr_tile_2(b, "arith.subf", x, tsr_tile_splat(b, q->shift, lanes));
    x = tsr_tile_1(b, "math.exp", x);
    MlirValue drop_mask = tsr_attention_drop_mask(of, q->row, column, lanes);
    MlirValue y = tsr_tile_load(b, of->dtype, g->dscores, at, lanes, tsr_tile_null);
    y = tsr_attention_drop(of, drop_mask, y);
    y = tsr_tile_2(b, "arith.subf", y, tsr_tile_splat(b, q->total, lanes));
    y = tsr_tile_2(b, "arith.mulf", x, y);
    y = tsr_tile_2(b, "arith.mulf", y, tsr_tile_float(b, mlirValueGetType(y), of->scale));
    /* Products beyond the diagonal were not computed. */
    if (of->causal || of->ragged)
        y = tsr_tile_select(b, tsr_tile_mask(b, tsr_tile_sub(b, q->limit, column), lanes), y, zero);
    x = tsr_attention_drop(of, drop_mask, x);
    if (!mlirValueIsNull(q->there)) {
        x = tsr_tile_select(b, q->there, x, zero);
        y = tsr_tile_select(b, q->there, y, zero);
    }
    *out_p = x;
    *out_c = y;
}

/* Computes the weights and the gradients of scores of two queries, in pairs. */
static void emit_two_rows(gradient *g, MlirValue row) {
    tsr_attention_grad *grad = &g->of;
    tsr_attention *of = &grad->of;
    tsr_tile_builder *b = &of->group->b;
    uint32_t lanes = tsr_attention_grad_row_lanes(grad);
    query_row rows[TSR_DOT_PAIR];
    MlirValue p[TSR_DOT_PAIR], c[TSR_DOT_PAIR];
    for (int i = 0; i < TSR_DOT_PAIR; i++)
        begin_row(g, tsr_tile_offset(b, row, i), i > 0, &rows[i]);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_attention_grad_row_end(grad, rows[1].limit),
                 lanes) {
        for (int i = 0; i < TSR_DOT_PAIR; i++) soften(g, &rows[i], loop.index, lanes, &p[i], &c[i]);
        MlirValue first = tsr_tile_add(b, tsr_tile_mul(b, row, grad->score_stride), loop.index);
        MlirValue pair = tsr_tile_add(b, tsr_tile_mul(b, row, grad->score_stride),
                                      tsr_tile_mul(b, loop.index, TSR_DOT_PAIR));
        tsr_dot_store_pairs(b, p, lanes, g->chances, pair);
        tsr_dot_store_pairs(b, c, lanes, g->dlogits, pair);
        for (int i = 0; i < TSR_DOT_PAIR; i++)
            tsr_tile_store(b, of->storage, tsr_dot_round(b, c[i]), g->dlogit_rows,
                           tsr_tile_offset(b, first, i * grad->score_stride), tsr_tile_null);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void begin_keys(tsr_attention_grad *grad) {
    gradient *g = (gradient *)grad;
    const tsr_attention *of = &grad->of;
    tsr_tile_builder *b = &of->group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    tsr_attention_grad_clear(grad, of->dtype, g->dk_sums, zero,
                             tsr_tile_mul(b, grad->key_count, g->key_columns), true);
    tsr_attention_grad_clear(grad, of->dtype, g->dv_sums, zero,
                             tsr_tile_mul(b, grad->key_count, g->value_columns), true);
    tsr_attention_grad_pack(grad, of->k, grad->k_at, of->d, g->key_panels, grad->key_depth);
    tsr_attention_grad_pack(grad, of->v, grad->v_at, of->e, g->value_panels, grad->value_depth);
    pack_rows(grad, &grad->keys, of->k, grad->k_at, of->d, grad->key_count, of->keys % TSR_DOT_PAIR,
              grad->block_keys, g->key_pairs);
}

static void add_queries(tsr_attention_grad *grad) {
    gradient *g = (gradient *)grad;
    tsr_attention *of = &grad->of;
    tsr_tile_builder *b = &of->group->b;
    bool odd = of->queries % TSR_DOT_PAIR;
    tsr_attention_grad_scores(grad, of->q, grad->q_at, of->d, g->key_panels, grad->key_depth,
                              g->scores_at);
    tsr_attention_grad_scores(grad, grad->dresult, grad->o_at, of->e, g->value_panels,
                              grad->value_depth, g->dscores);
    TSR_TILE_FOR(b, rows, tsr_attention_first_row(of, tsr_tile_index(b, 0), grad->query_unit),
                 grad->query_count, TSR_DOT_PAIR) {
        emit_two_rows(g, rows.index);
    }
    pack_rows(grad, &grad->keys, of->q, grad->q_at, of->d, grad->query_count, odd,
              grad->block_queries, g->query_pairs);
    pack_rows(grad, &grad->values, grad->dresult, grad->o_at, of->e, grad->query_count, odd,
              grad->block_queries, g->dresult_pairs);
    add_over_queries(grad, &grad->values, g->chances, g->dresult_pairs, of->e, g->dv_sums);
    add_over_queries(grad, &grad->keys, g->dlogits, g->query_pairs, of->d, g->dk_sums);
    add_over_keys(g);
}

/* Rounds the sums of a block, row by row, and stores them in its gradients. */
static void round_sums(gradient *g, MlirValue sums, int64_t stride, int64_t size, MlirValue to,
                       MlirValue to_at) {
    tsr_attention_grad *grad = &g->of;
    tsr_attention *of = &grad->of;
    tsr_tile_builder *b = &of->group->b;
    uint32_t lanes = lanes_of(grad);
    TSR_TILE_FOR(b, rows, tsr_tile_index(b, 0), grad->key_count, 1) {
        TSR_TILE_FOR(b, columns, tsr_tile_index(b, 0), tsr_tile_index(b, size), lanes) {
            MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, rows.index, stride), columns.index);
            MlirValue x = tsr_tile_load(b, of->dtype, sums, at, lanes, tsr_tile_null);
            MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, size), columns.index);
            at = tsr_tile_add(b, tsr_tile_mul(b, rows.index, size), columns.index);
            tsr_tile_store(b, of->storage, tsr_dot_round(b, x), to, tsr_tile_add(b, to_at, at),
                           size % lanes ? tsr_tile_mask(b, left, lanes) : tsr_tile_null);
        }
    }
}

static void end_keys(tsr_attention_grad *grad) {
    gradient *g = (gradient *)grad;
    round_sums(g, g->dk_sums, g->key_columns, grad->of.d, grad->dk, grad->k_at);
    round_sums(g, g->dv_sums, g->value_columns, grad->of.e, grad->dv, grad->v_at);
}

tsr_result tsr_attention_lower_pairs_grad(tsr_tile_group *step, const void *unused) {
    static const tsr_attention_blocks blocks = {.stack_bytes = stack_bytes,
                                                .make_locals = make_locals,
                                                .begin_keys = begin_keys,
                                                .add_queries = add_queries,
                                                .end_keys = end_keys};
    gradient g = {.of = {.unit = TSR_DOT_PAIR, .apart = APART}};
    (void)unused;
    return tsr_attention_grad_lower(step, &g.of, &blocks);
}
