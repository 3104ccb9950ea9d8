/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of attention of bf16 by dot products (dot.h), native numerics alone. As gradient.c,
 * with factors of bf16 in pairs and sums of f32:
 *
 *     for each block of keys of a key head (dk = dv = 0; dq = 0 before the first)
 *         for each query head that reads it, for each block of queries that see a key of the block
 *             s = q k^T, c = do v^T               pairs of d, of e; k and v packed by columns
 *             p = exp(scale * s + mask - logsumexp), c = p (c - t) scale     rounded to bf16
 *             dv += p^T do, dk += c^T q           pairs of queries; p and c are stored in them
 *             dq += c k                           pairs of keys
 *         dk and dv are rounded
 *
 * What no query of a tile sees is not multiplied where attention is causal: products begin, or end,
 * at the diagonal. dq is of f32 and rounded by a kernel behind this one: wide.c.
 */
#include "compiler/draws.h"
#include "compiler/tile/attention/attention.h"
#include "compiler/tile/dot.h"
#include "compiler/tile/reduce.h"

#include <string.h>

enum {
    BLOCK_KEYS = 96,
    BLOCK_QUERIES = 64,
    APART = 32, /* elements between rows of scores beyond their length: columns are read, too */
};

enum { RESULT = 3, LOGSUMEXP, DRESULT, MASK };

typedef struct gradient {
    tsr_attention of;
    tsr_reduction sum;
    MlirValue result, logsumexp, dresult, dq, dk, dv; /* buffers */
    /* the plan */
    tsr_attention_side scores, keys,
        values; /* products with so many columns: of a block's keys, d, e */
    int64_t block_queries, block_keys, score_stride;
    int64_t key_depth, value_depth;     /* of panels of keys and values by columns */
    int64_t key_columns, value_columns; /* d and e in whole tiles */
    /* emission */
    MlirValue key_panels, value_panels;              /* local buffers: by columns */
    MlirValue key_pairs, query_pairs, dresult_pairs; /* of rows */
    MlirValue scores_at, dscores;                    /* products, of f32 */
    MlirValue chances, dlogits, dlogit_rows;         /* of pairs of queries; by rows */
    MlirValue dk_sums, dv_sums;
    MlirValue key_row_at, row_at;                             /* of the heads, in rows */
    MlirValue q_at, k_at, v_at, o_at, query_count, key_count; /* of the blocks */
    MlirValue diagonal; /* query `row` of the block sees the keys up to row - diagonal */
} gradient;

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t round_up(int64_t x, int64_t unit) { return divide_up(x, unit) * unit; }

static int64_t multiple(int64_t a, int64_t b) {
    int64_t unit = a;
    while (unit % b) unit += a;
    return unit;
}

static uint32_t lanes_of(const gradient *g) {
    return g->of.group->b.target->vector_bytes / (uint32_t)tsr_dtype_size(g->of.dtype);
}

/* ---- plan ------------------------------------------------------------------------------------ */

static void plan_sizes(gradient *g, int64_t keys, int64_t queries, int64_t key_unit,
                       int64_t query_unit) {
    g->block_keys = tsr_gemm_part(g->of.keys, keys, key_unit);
    g->block_queries = tsr_gemm_part(g->of.queries, queries, query_unit);
    g->score_stride = round_up(round_up(g->block_keys, g->scores.width), TSR_PARTIALS) + APART;
}

static int64_t panel_elements(const gradient *g, int64_t depth) {
    return round_up(g->block_keys, g->scores.width) * depth;
}

static int64_t stack_bytes(const gradient *g) {
    int64_t keys = round_up(g->block_keys, TSR_DOT_PAIR);
    int64_t queries = round_up(g->block_queries, TSR_DOT_PAIR);
    int64_t narrow = panel_elements(g, g->key_depth + g->value_depth) + keys * g->key_columns +
                     queries * (g->key_columns + g->value_columns + 3 * g->score_stride);
    int64_t wide = 2 * queries * g->score_stride + keys * (g->key_columns + g->value_columns);
    return narrow * 2 + wide * 4;
}

static tsr_result plan(gradient *g) {
    tsr_attention *of = &g->of;
    int64_t keys = BLOCK_KEYS, queries = BLOCK_QUERIES;
    tsr_attention_plan_side(of, of->queries, keys, &g->scores);
    tsr_attention_plan_side(of, of->keys, of->d, &g->keys);
    tsr_attention_plan_side(of, of->keys, of->e, &g->values);
    int64_t key_unit = multiple(multiple(g->keys.rows, g->values.rows), TSR_DOT_PAIR);
    int64_t query_unit = multiple(multiple(g->scores.rows, g->keys.rows), TSR_DOT_PAIR);
    if (multiple(key_unit, g->scores.width) <= keys) key_unit = multiple(key_unit, g->scores.width);
    g->key_depth = round_up(of->d, g->scores.lanes * TSR_DOT_PAIR);
    g->value_depth = round_up(of->e, g->scores.lanes * TSR_DOT_PAIR);
    g->key_columns = round_up(of->d, g->keys.width);
    g->value_columns = round_up(of->e, g->values.width);
    plan_sizes(g, keys, queries, key_unit, query_unit);
    while (stack_bytes(g) > TSR_ATTENTION_STACK_BYTES &&
           (keys > key_unit || queries > query_unit)) {
        if (keys > key_unit)
            keys = keys / 2 > key_unit ? keys / 2 : key_unit;
        else
            queries = queries / 2 > query_unit ? queries / 2 : query_unit;
        plan_sizes(g, keys, queries, key_unit, query_unit);
    }
    if (stack_bytes(g) > TSR_ATTENTION_STACK_BYTES)
        FAIL(of->group->ctx, TSR_COMPILE, "'%s': heads of %lld and %lld numbers are too large",
             of->group->name, (long long)of->d, (long long)of->e);
    uint32_t lanes = 2 * lanes_of(g);
    of->ragged = of->keys % lanes || g->block_keys % lanes;
    of->in_tiles = of->keys <= g->block_keys || g->block_keys % TSR_DRAWS_TILE == 0;
    int64_t sizes[] = {g->scores.rows, g->scores.width, g->block_queries, g->block_keys};
    memcpy(of->group->tile, sizes, sizeof sizes);
    of->group->tile_count = sizeof sizes / sizeof sizes[0];
    return TSR_SUCCESS;
}

/* ---- products -------------------------------------------------------------------------------- */

/* What of a product lies beyond the diagonal. */
typedef enum bound {
    EDGE_ROWS,  /* rows are queries, columns keys: the first rows of a column */
    EDGE_BEGIN, /* rows are keys, steps queries: the first steps of a row */
    EDGE_END,   /* rows are queries, steps keys: the last steps of a row */
} bound;

/* to[row][column] (+)= sum over pairs of a[row][pair] b[pair][column]; of the blocks at hand. */
typedef struct product {
    const tsr_attention_side *side;
    bound edge;
    MlirValue a, b, to; /* buffers */
    MlirValue a_at, to_at;
    int64_t a_row, a_step, to_row;
    int64_t b_column;   /* of B, from its first column to the next panel's, over the width */
    MlirValue columns;  /* of the result */
    int64_t columns_of; /* all of them, where the last vectors need masks; 0: they do not */
    MlirValue rows, count;
    int64_t rows_all; /* of all blocks: what is left over by whole tiles */
    bool add, odd;
} product;

static MlirValue at_least_0(tsr_tile_builder *b, MlirValue x) {
    return tsr_tile_sub(b, x, tsr_tile_min(b, x, tsr_tile_index(b, 0)));
}

/* The steps of a tile's product. */
static void find_steps(gradient *g, const product *p, MlirValue row, int64_t rows,
                       MlirValue *out_begin, MlirValue *out_count) {
    tsr_tile_builder *b = &g->of.group->b;
    *out_begin = tsr_tile_index(b, 0);
    *out_count = p->count;
    if (!g->of.causal || p->edge == EDGE_ROWS) return;
    if (p->edge == EDGE_BEGIN) {
        MlirValue first = at_least_0(b, tsr_tile_add(b, row, g->diagonal));
        *out_begin = tsr_tile_div(b, first, TSR_DOT_PAIR);
        *out_count = tsr_tile_sub(b, p->count, *out_begin);
    } else {
        MlirValue seen = tsr_tile_sub(b, tsr_tile_offset(b, row, rows), g->diagonal);
        seen = at_least_0(b, tsr_tile_offset(b, seen, TSR_DOT_PAIR - 1));
        *out_count = tsr_tile_min(b, p->count, tsr_tile_div(b, seen, TSR_DOT_PAIR));
    }
}

static void emit_tile(gradient *g, const product *p, MlirValue column, MlirValue row,
                      int64_t rows) {
    tsr_tile_builder *b = &g->of.group->b;
    const tsr_attention_side *s = p->side;
    MlirValue tile[TSR_GEMM_TILE_MAX], masks[TSR_TILE_VECTORS_MAX], begin, count;
    MlirValue to = tsr_tile_add(b, p->to_at, tsr_tile_mul(b, row, p->to_row));
    bool masked = p->columns_of % s->width;
    to = tsr_tile_add(b, to, column);
    for (uint32_t v = 0; v < s->vectors; v++) {
        MlirValue left = tsr_tile_sub(b, p->columns, column);
        left = tsr_tile_offset(b, left, -(int64_t)(v * s->lanes));
        masks[v] = masked ? tsr_tile_mask(b, left, s->lanes) : tsr_tile_null;
    }
    for (int64_t i = 0; i < rows; i++)
        for (uint32_t v = 0; v < s->vectors; v++)
            tile[i * s->vectors + v] =
                p->add ? tsr_tile_load(b, g->of.dtype, p->to,
                                       tsr_tile_offset(b, to, i * p->to_row + v * s->lanes),
                                       s->lanes, masks[v])
                       : tsr_element_zero(b, g->of.dtype, s->lanes);
    find_steps(g, p, row, rows, &begin, &count);
    MlirValue a_at = tsr_tile_add(b, p->a_at, tsr_tile_mul(b, row, p->a_row));
    MlirValue b_at = tsr_tile_mul(b, column, p->b_column);
    tsr_gemm_tile gemm = {
        .a_dtype = g->of.storage,
        .b_dtype = g->of.storage,
        .lanes = s->lanes,
        .vectors = s->vectors,
        .rows = rows,
        .a = p->a,
        .b = p->b,
        .a_at = tsr_tile_add(b, a_at, tsr_tile_mul(b, begin, p->a_step)),
        .a_row = p->a_row,
        .a_step = p->a_step,
        .b_at = tsr_tile_add(b, b_at, tsr_tile_mul(b, begin, s->width * TSR_DOT_PAIR)),
        .b_step = s->width * TSR_DOT_PAIR,
        .odd = p->odd};
    tsr_dot_multiply(b, &gemm, count, tile);
    for (int64_t i = 0; i < rows; i++)
        for (uint32_t v = 0; v < s->vectors; v++)
            tsr_tile_store(b, g->of.dtype, tile[i * s->vectors + v], p->to,
                           tsr_tile_offset(b, to, i * p->to_row + v * s->lanes), masks[v]);
}

static void multiply(gradient *g, const product *p) {
    tsr_tile_builder *b = &g->of.group->b;
    int64_t edge = p->rows_all % p->side->rows;
    MlirValue whole = tsr_tile_sub(b, p->rows, tsr_tile_rem(b, p->rows, p->side->rows));
    tsr_tile_loop columns, rows;
    tsr_tile_loop_begin(b, &columns, tsr_tile_index(b, 0), p->columns, p->side->width, 0, NULL);
    MlirValue first = tsr_tile_index(b, 0);
    if (g->of.causal && p->edge == EDGE_ROWS) {
        first = at_least_0(b, tsr_tile_add(b, columns.index, g->diagonal));
        first = tsr_tile_sub(b, first, tsr_tile_rem(b, first, p->side->rows));
    }
    for (int part = 0; part < 2; part++) {
        int64_t size = part ? edge : p->side->rows;
        if (!size) continue;
        tsr_tile_loop_begin(b, &rows, part ? whole : first, part ? p->rows : whole, size, 0, NULL);
        emit_tile(g, p, columns.index, rows.index, size);
        tsr_tile_loop_end(b, &rows, NULL);
    }
    tsr_tile_loop_end(b, &columns, NULL);
}

/* Products of the block's queries, or their gradients, with its keys, or values. */
static void multiply_scores(gradient *g, MlirValue a, MlirValue a_at, int64_t size,
                            MlirValue panels, int64_t depth, MlirValue to) {
    tsr_tile_builder *b = &g->of.group->b;
    multiply(g, &(product){.side = &g->scores,
                           .edge = EDGE_ROWS,
                           .a = a,
                           .b = panels,
                           .to = to,
                           .a_at = a_at,
                           .to_at = tsr_tile_index(b, 0),
                           .a_row = size,
                           .a_step = TSR_DOT_PAIR,
                           .b_column = depth,
                           .to_row = g->score_stride,
                           .columns = g->key_count,
                           .rows = g->query_count,
                           .rows_all = g->of.queries,
                           .count = tsr_tile_index(b, divide_up(size, TSR_DOT_PAIR)),
                           .odd = size % TSR_DOT_PAIR});
}

static MlirValue pairs_of(gradient *g, MlirValue count) {
    tsr_tile_builder *b = &g->of.group->b;
    return tsr_tile_div(b, tsr_tile_offset(b, count, TSR_DOT_PAIR - 1), TSR_DOT_PAIR);
}

/* The gradient of keys, or values: += scores^T from. */
static void add_over_queries(gradient *g, const tsr_attention_side *tiles, MlirValue scores,
                             MlirValue from, int64_t size, MlirValue to) {
    tsr_tile_builder *b = &g->of.group->b;
    multiply(g, &(product){.side = tiles,
                           .edge = EDGE_BEGIN,
                           .a = scores,
                           .b = from,
                           .to = to,
                           .a_at = tsr_tile_index(b, 0),
                           .to_at = tsr_tile_index(b, 0),
                           .a_row = TSR_DOT_PAIR,
                           .a_step = g->score_stride * TSR_DOT_PAIR,
                           .b_column = round_up(g->block_queries, TSR_DOT_PAIR),
                           .to_row = round_up(size, tiles->width),
                           .columns = tsr_tile_index(b, size),
                           .rows = g->key_count,
                           .rows_all = g->of.keys,
                           .count = pairs_of(g, g->query_count),
                           .add = true});
}

static void add_over_keys(gradient *g) {
    tsr_tile_builder *b = &g->of.group->b;
    multiply(g, &(product){.side = &g->keys,
                           .edge = EDGE_END,
                           .a = g->dlogit_rows,
                           .b = g->key_pairs,
                           .to = g->dq,
                           .a_at = tsr_tile_index(b, 0),
                           .to_at = g->q_at,
                           .a_row = g->score_stride,
                           .a_step = TSR_DOT_PAIR,
                           .b_column = round_up(g->block_keys, TSR_DOT_PAIR),
                           .to_row = g->of.d,
                           .columns = tsr_tile_index(b, g->of.d),
                           .columns_of = g->of.d,
                           .rows = g->query_count,
                           .rows_all = g->of.queries,
                           .count = pairs_of(g, g->key_count),
                           .add = true});
}

/* ---- packing --------------------------------------------------------------------------------- */

/* The block's keys, or values, as panels in which its scores' columns lie side by side. */
static void pack_columns(gradient *g, MlirValue from, MlirValue from_at, int64_t size, MlirValue to,
                         int64_t depth) {
    tsr_tile_builder *b = &g->of.group->b;
    const tsr_attention_side *s = &g->scores;
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), g->key_count, s->width, 0, NULL);
    tsr_gemm_pack pack = {.from_dtype = g->of.storage,
                          .to_dtype = g->of.storage,
                          .lanes = s->lanes,
                          .vectors = s->vectors,
                          .from = from,
                          .to = to,
                          .from_at = tsr_tile_add(b, from_at, tsr_tile_mul(b, loop.index, size)),
                          .to_at = tsr_tile_mul(b, loop.index, depth),
                          .from_step = size,
                          .to_step = s->width * TSR_DOT_PAIR,
                          .count = tsr_tile_index(b, divide_up(size, TSR_DOT_PAIR))};
    if (g->of.keys % g->block_keys || g->block_keys % s->width)
        pack.columns = tsr_tile_sub(b, g->key_count, loop.index);
    tsr_dot_pack_columns(b, &pack, size % TSR_DOT_PAIR);
    tsr_tile_loop_end(b, &loop, NULL);
}

/* Rows of a block. */
static void pack_rows(gradient *g, const tsr_attention_side *s, MlirValue from, MlirValue from_at,
                      int64_t size, MlirValue rows, bool odd, int64_t block, MlirValue to) {
    tsr_attention_pairs pairs = {.from = from,
                                 .to = to,
                                 .from_at = from_at,
                                 .size = size,
                                 .count = pairs_of(g, rows),
                                 .rows = rows,
                                 .odd = odd,
                                 .lanes = s->lanes,
                                 .vectors = s->vectors,
                                 .panel = round_up(block, TSR_DOT_PAIR) * s->width};
    tsr_attention_pack_pairs(&g->of, &pairs);
}

/* ---- the rows between them ------------------------------------------------------------------- */

/* One query of a pair. */
typedef struct query_row {
    MlirValue row, there, shift, total, limit; /* there: null where it is */
} query_row;

/* t: the sum of do * o of one query. */
static MlirValue sum_of_row(gradient *g, MlirValue at) {
    tsr_tile_builder *b = &g->of.group->b;
    uint32_t lanes = tsr_lanes_fit(TSR_PARTIALS, g->of.e);
    MlirValue partials = tsr_reduction_identity(&g->sum, lanes);
    for (int64_t begin = 0; begin < g->of.e; begin += lanes) {
        MlirValue mask = tsr_tile_null, from = tsr_tile_offset(b, at, begin);
        if (g->of.e - begin < lanes)
            mask = tsr_tile_mask(b, tsr_tile_index(b, g->of.e - begin), lanes);
        MlirValue x = tsr_tile_load(b, g->of.storage, g->dresult, from, lanes, mask);
        MlirValue y = tsr_tile_load(b, g->of.storage, g->result, from, lanes, mask);
        /* Lanes that are not there are zero in both. */
        partials = tsr_reduction_combine(&g->sum, partials, tsr_tile_2(b, "arith.mulf", x, y));
    }
    return tsr_reduction_tree(&g->sum, partials, lanes);
}

static void begin_row(gradient *g, MlirValue row, bool second, query_row *out_row) {
    tsr_tile_builder *b = &g->of.group->b;
    query_row q = {.row = row, .there = tsr_tile_null};
    if (second && g->of.queries % TSR_DOT_PAIR) { /* what is not there is as the one before */
        q.there = tsr_tile_icompare(b, TSR_ICMP_SLT, row, g->query_count);
        q.row = tsr_tile_min(b, row, tsr_tile_offset(b, g->query_count, -1));
    }
    MlirValue query = tsr_tile_add(b, g->row_at, tsr_tile_add(b, g->of.query, q.row));
    q.shift = tsr_tile_load(b, g->of.dtype, g->logsumexp, query, 0, tsr_tile_null);
    q.shift = tsr_attention_unless_lowest(&g->of, q.shift);
    q.total = sum_of_row(g, tsr_tile_add(b, g->o_at, tsr_tile_mul(b, q.row, g->of.e)));
    q.limit = tsr_attention_limit(&g->of, q.row, g->key_count);
    *out_row = q;
}

/* p and c of `lanes` keys from `column` on. */
static void soften(gradient *g, const query_row *q, MlirValue column, uint32_t lanes,
                   MlirValue *out_p, MlirValue *out_c) {
    tsr_tile_builder *b = &g->of.group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, q->row, g->score_stride), column);
    MlirValue x = tsr_tile_load(b, g->of.dtype, g->scores_at, at, lanes, tsr_tile_null);
    MlirValue zero = tsr_element_zero(b, g->of.dtype, lanes);
    x = tsr_attention_mask(&g->of, x, q->row, column, q->limit, lanes);
    x = tsr_tile_2(b, "arith.subf", x, tsr_tile_splat(b, q->shift, lanes));
    x = tsr_tile_1(b, "math.exp", x);
    MlirValue kept = tsr_attention_kept(&g->of, q->row, column, lanes);
    MlirValue y = tsr_tile_load(b, g->of.dtype, g->dscores, at, lanes, tsr_tile_null);
    y = tsr_attention_drop(&g->of, kept, y);
    y = tsr_tile_2(b, "arith.subf", y, tsr_tile_splat(b, q->total, lanes));
    y = tsr_tile_2(b, "arith.mulf", x, y);
    y = tsr_tile_2(b, "arith.mulf", y, tsr_tile_float(b, mlirValueGetType(y), g->of.scale));
    /* Beyond the diagonal there are no products. */
    if (g->of.causal || g->of.ragged)
        y = tsr_tile_select(b, tsr_tile_mask(b, tsr_tile_sub(b, q->limit, column), lanes), y, zero);
    x = tsr_attention_drop(&g->of, kept, x);
    if (!mlirValueIsNull(q->there)) {
        x = tsr_tile_select(b, q->there, x, zero);
        y = tsr_tile_select(b, q->there, y, zero);
    }
    *out_p = x;
    *out_c = y;
}

/* Two queries: their chances and gradients of scores, in pairs. */
static void emit_two_rows(gradient *g, MlirValue row) {
    tsr_tile_builder *b = &g->of.group->b;
    uint32_t lanes = 2 * lanes_of(g);
    query_row rows[TSR_DOT_PAIR];
    MlirValue p[TSR_DOT_PAIR], c[TSR_DOT_PAIR];
    for (int i = 0; i < TSR_DOT_PAIR; i++)
        begin_row(g, tsr_tile_offset(b, row, i), i > 0, &rows[i]);
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), g->key_count, lanes, 0, NULL);
    for (int i = 0; i < TSR_DOT_PAIR; i++) soften(g, &rows[i], loop.index, lanes, &p[i], &c[i]);
    MlirValue first = tsr_tile_add(b, tsr_tile_mul(b, row, g->score_stride), loop.index);
    MlirValue pair = tsr_tile_add(b, tsr_tile_mul(b, row, g->score_stride),
                                  tsr_tile_mul(b, loop.index, TSR_DOT_PAIR));
    tsr_dot_store_pairs(b, p, lanes, g->chances, pair);
    tsr_dot_store_pairs(b, c, lanes, g->dlogits, pair);
    for (int i = 0; i < TSR_DOT_PAIR; i++)
        tsr_tile_store(b, g->of.storage, tsr_dot_round(b, c[i]), g->dlogit_rows,
                       tsr_tile_offset(b, first, i * g->score_stride), tsr_tile_null);
    tsr_tile_loop_end(b, &loop, NULL);
}

/* ---- a program ------------------------------------------------------------------------------- */

static void emit_blocks(gradient *g, MlirValue query) {
    tsr_tile_builder *b = &g->of.group->b;
    tsr_attention *of = &g->of;
    MlirValue row = tsr_tile_add(b, g->row_at, query);
    bool odd = of->queries % TSR_DOT_PAIR;
    of->query = query;
    g->query_count = tsr_tile_min(b, tsr_tile_index(b, g->block_queries),
                                  tsr_tile_sub(b, tsr_tile_index(b, of->queries), query));
    if (of->queries % g->block_queries == 0) g->query_count = tsr_tile_index(b, g->block_queries);
    g->diagonal = tsr_tile_offset(b, tsr_tile_sub(b, of->key, query), of->queries - of->keys);
    g->q_at = tsr_tile_mul(b, row, of->d);
    g->o_at = tsr_tile_mul(b, row, of->e);
    multiply_scores(g, of->q, g->q_at, of->d, g->key_panels, g->key_depth, g->scores_at);
    multiply_scores(g, g->dresult, g->o_at, of->e, g->value_panels, g->value_depth, g->dscores);
    tsr_tile_loop rows;
    tsr_tile_loop_begin(b, &rows, tsr_tile_index(b, 0), g->query_count, TSR_DOT_PAIR, 0, NULL);
    emit_two_rows(g, rows.index);
    tsr_tile_loop_end(b, &rows, NULL);
    pack_rows(g, &g->keys, of->q, g->q_at, of->d, g->query_count, odd, g->block_queries,
              g->query_pairs);
    pack_rows(g, &g->values, g->dresult, g->o_at, of->e, g->query_count, odd, g->block_queries,
              g->dresult_pairs);
    add_over_queries(g, &g->values, g->chances, g->dresult_pairs, of->e, g->dv_sums);
    add_over_queries(g, &g->keys, g->dlogits, g->query_pairs, of->d, g->dk_sums);
    add_over_keys(g);
}

/* The first query block of which some query sees the first key of the block. */
static MlirValue first_query(gradient *g) {
    tsr_tile_builder *b = &g->of.group->b;
    if (!g->of.causal) return tsr_tile_index(b, 0);
    MlirValue sees = at_least_0(b, tsr_tile_offset(b, g->of.key, g->of.queries - g->of.keys));
    return tsr_tile_mul(b, tsr_tile_div(b, sees, g->block_queries), g->block_queries);
}

static void clear(gradient *g, MlirValue buffer, MlirValue at, MlirValue count, bool even) {
    tsr_tile_builder *b = &g->of.group->b;
    uint32_t lanes = lanes_of(g);
    MlirValue zero = tsr_element_zero(b, g->of.dtype, lanes), mask = tsr_tile_null;
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), count, lanes, 0, NULL);
    if (!even) mask = tsr_tile_mask(b, tsr_tile_sub(b, count, loop.index), lanes);
    tsr_tile_store(b, g->of.dtype, zero, buffer, tsr_tile_add(b, at, loop.index), mask);
    tsr_tile_loop_end(b, &loop, NULL);
}

/* The sums of a block, row by row, to where its gradients lie. */
static void round_sums(gradient *g, MlirValue sums, int64_t stride, int64_t size, MlirValue to,
                       MlirValue to_at) {
    tsr_tile_builder *b = &g->of.group->b;
    uint32_t lanes = lanes_of(g);
    tsr_tile_loop rows, columns;
    tsr_tile_loop_begin(b, &rows, tsr_tile_index(b, 0), g->key_count, 1, 0, NULL);
    tsr_tile_loop_begin(b, &columns, tsr_tile_index(b, 0), tsr_tile_index(b, size), lanes, 0, NULL);
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, rows.index, stride), columns.index);
    MlirValue x = tsr_tile_load(b, g->of.dtype, sums, at, lanes, tsr_tile_null);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, size), columns.index);
    at = tsr_tile_add(b, tsr_tile_mul(b, rows.index, size), columns.index);
    tsr_tile_store(b, g->of.storage, tsr_dot_round(b, x), to, tsr_tile_add(b, to_at, at),
                   size % lanes ? tsr_tile_mask(b, left, lanes) : tsr_tile_null);
    tsr_tile_loop_end(b, &columns, NULL);
    tsr_tile_loop_end(b, &rows, NULL);
}

static void emit_key_block(gradient *g, MlirValue first_head) {
    tsr_tile_builder *b = &g->of.group->b;
    tsr_attention *of = &g->of;
    MlirValue row = tsr_tile_add(b, g->key_row_at, of->key), zero = tsr_tile_index(b, 0);
    g->key_count = tsr_tile_min(b, tsr_tile_index(b, g->block_keys),
                                tsr_tile_sub(b, tsr_tile_index(b, of->keys), of->key));
    if (of->keys % g->block_keys == 0) g->key_count = tsr_tile_index(b, g->block_keys);
    g->k_at = tsr_tile_mul(b, row, of->d);
    g->v_at = tsr_tile_mul(b, row, of->e);
    clear(g, g->dk_sums, zero, tsr_tile_mul(b, g->key_count, g->key_columns), true);
    clear(g, g->dv_sums, zero, tsr_tile_mul(b, g->key_count, g->value_columns), true);
    pack_columns(g, of->k, g->k_at, of->d, g->key_panels, g->key_depth);
    pack_columns(g, of->v, g->v_at, of->e, g->value_panels, g->value_depth);
    pack_rows(g, &g->keys, of->k, g->k_at, of->d, g->key_count, of->keys % TSR_DOT_PAIR,
              g->block_keys, g->key_pairs);
    tsr_tile_loop heads, queries;
    tsr_tile_loop_begin(b, &heads, zero, tsr_tile_index(b, of->heads / of->key_heads), 1, 0, NULL);
    of->head_index = tsr_tile_add(b, first_head, heads.index);
    MlirValue head = tsr_tile_add(b, tsr_tile_mul(b, of->batch_index, of->heads), of->head_index);
    g->row_at = tsr_tile_mul(b, head, of->queries);
    tsr_tile_loop_begin(b, &queries, first_query(g), tsr_tile_index(b, of->queries),
                        g->block_queries, 0, NULL);
    emit_blocks(g, queries.index);
    tsr_tile_loop_end(b, &queries, NULL);
    tsr_tile_loop_end(b, &heads, NULL);
    round_sums(g, g->dk_sums, g->key_columns, of->d, g->dk, g->k_at);
    round_sums(g, g->dv_sums, g->value_columns, of->e, g->dv, g->v_at);
}

static void make_locals(gradient *g) {
    tsr_tile_builder *b = &g->of.group->b;
    MlirType wide = tsr_tile_storage_type(b, g->of.dtype);
    MlirType narrow = tsr_tile_storage_type(b, g->of.storage);
    int64_t keys = round_up(g->block_keys, TSR_DOT_PAIR);
    int64_t queries = round_up(g->block_queries, TSR_DOT_PAIR);
    g->key_panels = tsr_tile_local(b, narrow, panel_elements(g, g->key_depth) + 1);
    g->value_panels = tsr_tile_local(b, narrow, panel_elements(g, g->value_depth) + 1);
    g->key_pairs = tsr_tile_local(b, narrow, keys * g->key_columns + 1);
    g->query_pairs = tsr_tile_local(b, narrow, queries * g->key_columns + 1);
    g->dresult_pairs = tsr_tile_local(b, narrow, queries * g->value_columns + 1);
    g->scores_at = tsr_tile_local(b, wide, queries * g->score_stride);
    g->dscores = tsr_tile_local(b, wide, queries * g->score_stride);
    g->chances = tsr_tile_local(b, narrow, queries * g->score_stride);
    g->dlogits = tsr_tile_local(b, narrow, queries * g->score_stride);
    g->dlogit_rows = tsr_tile_local(b, narrow, queries * g->score_stride);
    /* They are cleared, and read, in whole vectors. */
    g->dk_sums = tsr_tile_local(b, wide, keys * g->key_columns + lanes_of(g));
    g->dv_sums = tsr_tile_local(b, wide, keys * g->value_columns + lanes_of(g));
}

static void emit(gradient *g) {
    tsr_tile_builder *b = &g->of.group->b;
    tsr_attention *of = &g->of;
    int64_t per_group = of->heads / of->key_heads;
    of->group->grid = of->batch * of->key_heads;
    MlirValue pid = of->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    MlirValue first_head = tsr_tile_mul(b, tsr_tile_rem(b, pid, of->key_heads), per_group);
    of->batch_index = tsr_tile_div(b, pid, of->key_heads);
    tsr_attention_begin_draws(of);
    g->key_row_at = tsr_tile_mul(b, pid, of->keys);
    int64_t queries = per_group * of->queries * of->d;
    clear(g, g->dq, tsr_tile_mul(b, pid, queries), tsr_tile_index(b, queries), queries % 64 == 0);
    if (!of->keys) return;
    make_locals(g);
    tsr_tile_loop keys;
    tsr_tile_loop_begin(b, &keys, tsr_tile_index(b, 0), tsr_tile_index(b, of->keys), g->block_keys,
                        0, NULL);
    of->key = keys.index;
    emit_key_block(g, first_head);
    tsr_tile_loop_end(b, &keys, NULL);
}

tsr_result tsr_attention_lower_pairs_grad(tsr_tile_group *step, const void *unused) {
    gradient g = {0};
    const tsr_type *type = NULL;
    (void)unused;
    TRY(step->ctx, tsr_attention_read(step, MASK, &g.of));
    TRY(step->ctx, tsr_attention_operand(&g.of, RESULT, &g.result, &type));
    TRY(step->ctx, tsr_attention_operand(&g.of, LOGSUMEXP, &g.logsumexp, &type));
    TRY(step->ctx, tsr_attention_operand(&g.of, DRESULT, &g.dresult, &type));
    g.dq = step->buffers[step->input_count];
    g.dk = step->buffers[step->input_count + 1];
    g.dv = step->buffers[step->input_count + 2];
    g.sum = (tsr_reduction){.group = step, .dtype = g.of.dtype, .op = &tsr_reduction_sum};
    if (!g.of.batch || !g.of.key_heads) return TSR_SUCCESS;
    TRY(step->ctx, plan(&g));
    emit(&g);
    return TSR_SUCCESS;
}
