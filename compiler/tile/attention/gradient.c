/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `attention_grad`: gradients of query, key and value, scores computed again from the
 * logarithm of the sum of exponentials; no buffer is as large as all scores.
 *
 *     for each block of keys of a key head (dk = dv = 0; dq = 0 before the first)
 *         for each query head that reads it, for each block of queries that see a key of the block
 *             s = q k^T, c = do v^T               the transposes of k and v packed to the stack
 *             p = exp(scale * s + mask - logsumexp), t = sum of do * o per query
 *             s = drop p, c = p (drop c - t) scale     (drop x is x where no weights are dropped)
 *             dv += s^T do, dk += c^T q, dq += c k
 *
 * The method is that of Dao, "FlashAttention-2", 2023, section 3.1.2 (backward pass). A program has
 * a key head to itself, so every element of a gradient is one chain in an order of its own: keys
 * ascend for dq; heads of the group, then queries for dk and dv. t has 64 partial sums. No size of
 * a block changes a bit.
 */
#include "compiler/draws.h"
#include "compiler/tile/attention/attention.h"
#include "compiler/tile/gemm.h"
#include "compiler/tile/reduce.h"

#include <string.h>

enum {
    BLOCK_KEYS = 96,
    BLOCK_QUERIES = 64,
    APART = 16, /* elements between rows of scores beyond their length: columns are read, too */
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
    int64_t key_depth, value_depth; /* of packed panels */
    /* emission */
    MlirValue key_panels, value_panels, chances, dlogits;     /* local buffers */
    MlirValue key_row_at, row_at;                             /* of the heads, in rows */
    MlirValue q_at, k_at, v_at, o_at, query_count, key_count; /* of the blocks */
} gradient;

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }

static int64_t multiple(int64_t a, int64_t b) {
    int64_t unit = a;
    while (unit % b) unit += a;
    return unit;
}

/* ---- plan ------------------------------------------------------------------------------------ */

static int64_t panel_elements(const gradient *g, int64_t depth) {
    return divide_up(g->block_keys, g->scores.width) * g->scores.width * depth;
}

static int64_t stack_bytes(const gradient *g) {
    int64_t panels = panel_elements(g, g->key_depth + g->value_depth);
    return (panels + 2 * g->block_queries * g->score_stride) * (int64_t)tsr_dtype_size(g->of.dtype);
}

static void plan_sizes(gradient *g, int64_t keys, int64_t queries, int64_t key_unit,
                       int64_t query_unit) {
    g->block_keys = tsr_gemm_part(g->of.keys, keys, key_unit);
    g->block_queries = tsr_gemm_part(g->of.queries, queries, query_unit);
    g->score_stride = divide_up(g->block_keys, g->scores.width) * g->scores.width;
    g->score_stride = divide_up(g->score_stride, TSR_PARTIALS) * TSR_PARTIALS + APART;
}

static uint32_t lanes_of_row(const gradient *g) {
    return 2 * g->of.group->b.target->vector_bytes / (uint32_t)tsr_dtype_size(g->of.dtype);
}

/* Blocks are of whole tiles of all products, and of whole panels where that is not much more. */
static tsr_result plan(gradient *g) {
    tsr_attention *of = &g->of;
    int64_t keys = BLOCK_KEYS, queries = BLOCK_QUERIES;
    tsr_attention_plan_side(of, of->queries, keys, &g->scores);
    tsr_attention_plan_side(of, of->keys, of->d, &g->keys);
    tsr_attention_plan_side(of, of->keys, of->e, &g->values);
    int64_t key_unit = multiple(g->keys.rows, g->values.rows);
    int64_t query_unit = multiple(g->scores.rows, g->keys.rows);
    if (multiple(key_unit, g->scores.width) <= keys) key_unit = multiple(key_unit, g->scores.width);
    g->key_depth = divide_up(of->d, g->scores.lanes) * g->scores.lanes;
    g->value_depth = divide_up(of->e, g->scores.lanes) * g->scores.lanes;
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
    of->ragged = of->keys % lanes_of_row(g) || g->block_keys % lanes_of_row(g);
    of->in_tiles = of->keys <= g->block_keys || g->block_keys % TSR_DRAWS_TILE == 0;
    int64_t sizes[] = {g->scores.rows, g->scores.width, g->block_queries, g->block_keys};
    memcpy(of->group->tile, sizes, sizeof sizes);
    of->group->tile_count = sizeof sizes / sizeof sizes[0];
    return TSR_SUCCESS;
}

/* ---- products -------------------------------------------------------------------------------- */

/* to[row][column] (+)= sum over k of a[row][k] b[k][column]; rows and k of the blocks at hand. */
typedef struct product {
    const tsr_attention_side *side;
    MlirValue a, b, to; /* buffers */
    MlirValue a_at, b_at, to_at;
    int64_t a_row, a_step, b_step, to_row;
    int64_t b_column;   /* from a column of B to the next, in elements */
    MlirValue columns;  /* of the result */
    int64_t columns_of; /* all of them, where the last vectors need masks; 0: they do not */
    MlirValue rows, count;
    int64_t rows_all; /* of all blocks: what is left over by whole tiles */
    bool add;
} product;

static void emit_tile(gradient *g, const product *p, MlirValue column, MlirValue row,
                      int64_t rows) {
    tsr_tile_builder *b = &g->of.group->b;
    tsr_dtype dtype = g->of.dtype;
    const tsr_attention_side *s = p->side;
    MlirValue tile[TSR_GEMM_TILE_MAX], masks[TSR_TILE_VECTORS_MAX];
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
                p->add ? tsr_tile_load(b, dtype, p->to,
                                       tsr_tile_offset(b, to, i * p->to_row + v * s->lanes),
                                       s->lanes, masks[v])
                       : tsr_element_zero(b, dtype, s->lanes);
    tsr_gemm_tile gemm = {.a_dtype = dtype,
                          .b_dtype = dtype,
                          .lanes = s->lanes,
                          .vectors = s->vectors,
                          .rows = rows,
                          .a = p->a,
                          .b = p->b,
                          .a_at = tsr_tile_add(b, p->a_at, tsr_tile_mul(b, row, p->a_row)),
                          .a_row = p->a_row,
                          .a_step = p->a_step,
                          .b_at = tsr_tile_add(b, p->b_at, tsr_tile_mul(b, column, p->b_column)),
                          .b_step = p->b_step,
                          .masks = masked ? masks : NULL};
    tsr_gemm_multiply(b, &gemm, p->count, tile);
    for (int64_t i = 0; i < rows; i++)
        for (uint32_t v = 0; v < s->vectors; v++)
            tsr_tile_store(b, dtype, tile[i * s->vectors + v], p->to,
                           tsr_tile_offset(b, to, i * p->to_row + v * s->lanes), masks[v]);
}

static void multiply(gradient *g, const product *p) {
    tsr_tile_builder *b = &g->of.group->b;
    int64_t edge = p->rows_all % p->side->rows;
    MlirValue whole = tsr_tile_sub(b, p->rows, tsr_tile_rem(b, p->rows, p->side->rows));
    tsr_tile_loop columns, rows;
    tsr_tile_loop_begin(b, &columns, tsr_tile_index(b, 0), p->columns, p->side->width, 0, NULL);
    for (int part = 0; part < 2; part++) {
        int64_t size = part ? edge : p->side->rows;
        if (!size) continue;
        tsr_tile_loop_begin(b, &rows, part ? whole : tsr_tile_index(b, 0), part ? p->rows : whole,
                            size, 0, NULL);
        emit_tile(g, p, columns.index, rows.index, size);
        tsr_tile_loop_end(b, &rows, NULL);
    }
    tsr_tile_loop_end(b, &columns, NULL);
}

/* The block's keys, or values, as panels in which its scores' columns lie side by side. */
static void pack(gradient *g, MlirValue from, MlirValue from_at, int64_t size, MlirValue to,
                 int64_t depth) {
    tsr_tile_builder *b = &g->of.group->b;
    const tsr_attention_side *s = &g->scores;
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), g->key_count, s->width, 0, NULL);
    tsr_gemm_pack pack = {.from_dtype = g->of.dtype,
                          .to_dtype = g->of.dtype,
                          .lanes = s->lanes,
                          .vectors = s->vectors,
                          .from = from,
                          .to = to,
                          .from_at = tsr_tile_add(b, from_at, tsr_tile_mul(b, loop.index, size)),
                          .to_at = tsr_tile_mul(b, loop.index, depth),
                          .from_step = size,
                          .to_step = s->width,
                          .count = tsr_tile_index(b, size)};
    if (g->of.keys % g->block_keys || g->block_keys % s->width)
        pack.columns = tsr_tile_sub(b, g->key_count, loop.index);
    tsr_gemm_pack_columns(b, &pack);
    tsr_tile_loop_end(b, &loop, NULL);
}

/* Products of the block's queries, or their gradients, with its keys, or values. */
static void multiply_scores(gradient *g, MlirValue a, MlirValue a_at, int64_t size,
                            MlirValue panels, int64_t depth, MlirValue to) {
    tsr_tile_builder *b = &g->of.group->b;
    multiply(g, &(product){.side = &g->scores,
                           .a = a,
                           .b = panels,
                           .to = to,
                           .a_at = a_at,
                           .b_at = tsr_tile_index(b, 0),
                           .to_at = tsr_tile_index(b, 0),
                           .a_row = size,
                           .a_step = 1,
                           .b_step = g->scores.width,
                           .b_column = depth,
                           .to_row = g->score_stride,
                           .columns = g->key_count,
                           .rows = g->query_count,
                           .rows_all = g->of.queries,
                           .count = tsr_tile_index(b, size)});
}

/* The gradient of keys, or values: += scores^T from. */
static void add_over_queries(gradient *g, const tsr_attention_side *tiles, MlirValue scores,
                             MlirValue from, MlirValue from_at, int64_t size, MlirValue to,
                             MlirValue to_at) {
    tsr_tile_builder *b = &g->of.group->b;
    multiply(g, &(product){.side = tiles,
                           .a = scores,
                           .b = from,
                           .to = to,
                           .a_at = tsr_tile_index(b, 0),
                           .b_at = from_at,
                           .to_at = to_at,
                           .a_row = 1,
                           .a_step = g->score_stride,
                           .b_step = size,
                           .b_column = 1,
                           .to_row = size,
                           .columns = tsr_tile_index(b, size),
                           .columns_of = size,
                           .rows = g->key_count,
                           .rows_all = g->of.keys,
                           .count = g->query_count,
                           .add = true});
}

static void add_over_keys(gradient *g) {
    tsr_tile_builder *b = &g->of.group->b;
    multiply(g, &(product){.side = &g->keys,
                           .a = g->dlogits,
                           .b = g->of.k,
                           .to = g->dq,
                           .a_at = tsr_tile_index(b, 0),
                           .b_at = g->k_at,
                           .to_at = g->q_at,
                           .a_row = g->score_stride,
                           .a_step = 1,
                           .b_step = g->of.d,
                           .b_column = 1,
                           .to_row = g->of.d,
                           .columns = tsr_tile_index(b, g->of.d),
                           .columns_of = g->of.d,
                           .rows = g->query_count,
                           .rows_all = g->of.queries,
                           .count = g->key_count,
                           .add = true});
}

/* ---- the rows between them ------------------------------------------------------------------- */

/* t: the sum of do * o of one query. */
static MlirValue sum_of_row(gradient *g, MlirValue at) {
    tsr_tile_builder *b = &g->of.group->b;
    uint32_t lanes = tsr_lanes_fit(TSR_PARTIALS, g->of.e);
    MlirValue partials = tsr_reduction_identity(&g->sum, lanes);
    for (int64_t begin = 0; begin < g->of.e; begin += lanes) {
        MlirValue mask = tsr_tile_null, from = tsr_tile_offset(b, at, begin);
        if (g->of.e - begin < lanes)
            mask = tsr_tile_mask(b, tsr_tile_index(b, g->of.e - begin), lanes);
        MlirValue x = tsr_tile_load(b, g->of.dtype, g->dresult, from, lanes, mask);
        MlirValue y = tsr_tile_load(b, g->of.dtype, g->result, from, lanes, mask);
        /* Lanes that are not there are zero in both. */
        partials = tsr_reduction_combine(&g->sum, partials, tsr_tile_2(b, "arith.mulf", x, y));
    }
    return tsr_reduction_tree(&g->sum, partials, lanes);
}

static void emit_row(gradient *g, MlirValue row) {
    tsr_tile_builder *b = &g->of.group->b;
    tsr_dtype dtype = g->of.dtype;
    uint32_t lanes = lanes_of_row(g);
    MlirValue query = tsr_tile_add(b, g->row_at, tsr_tile_add(b, g->of.query, row));
    MlirValue shift = tsr_tile_load(b, dtype, g->logsumexp, query, 0, tsr_tile_null);
    shift = tsr_tile_splat(b, tsr_attention_unless_lowest(&g->of, shift), lanes);
    MlirValue total = sum_of_row(g, tsr_tile_add(b, g->o_at, tsr_tile_mul(b, row, g->of.e)));
    total = tsr_tile_splat(b, total, lanes);
    MlirValue limit = tsr_attention_limit(&g->of, row, g->key_count);
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), g->key_count, lanes, 0, NULL);
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, row, g->score_stride), loop.index);
    MlirValue there = tsr_attention_present(&g->of, g->key_count, loop.index, lanes);
    MlirValue x = tsr_tile_load(b, dtype, g->chances, at, lanes, there);
    x = tsr_attention_mask(&g->of, x, row, loop.index, limit, lanes);
    x = tsr_tile_1(b, "math.exp", tsr_tile_2(b, "arith.subf", x, shift));
    MlirValue kept = tsr_attention_kept(&g->of, row, loop.index, lanes);
    MlirValue y = tsr_tile_load(b, dtype, g->dlogits, at, lanes, there);
    y = tsr_attention_drop(&g->of, kept, y);
    y = tsr_tile_2(b, "arith.mulf", x, tsr_tile_2(b, "arith.subf", y, total));
    y = tsr_tile_2(b, "arith.mulf", y, tsr_tile_float(b, mlirValueGetType(y), g->of.scale));
    tsr_tile_store(b, dtype, tsr_attention_drop(&g->of, kept, x), g->chances, at, tsr_tile_null);
    tsr_tile_store(b, dtype, y, g->dlogits, at, tsr_tile_null);
    tsr_tile_loop_end(b, &loop, NULL);
}

/* ---- a program ------------------------------------------------------------------------------- */

static void emit_blocks(gradient *g, MlirValue query) {
    tsr_tile_builder *b = &g->of.group->b;
    tsr_attention *of = &g->of;
    MlirValue row = tsr_tile_add(b, g->row_at, query);
    of->query = query;
    g->query_count = tsr_tile_min(b, tsr_tile_index(b, g->block_queries),
                                  tsr_tile_sub(b, tsr_tile_index(b, of->queries), query));
    if (of->queries % g->block_queries == 0) g->query_count = tsr_tile_index(b, g->block_queries);
    g->q_at = tsr_tile_mul(b, row, of->d);
    g->o_at = tsr_tile_mul(b, row, of->e);
    multiply_scores(g, of->q, g->q_at, of->d, g->key_panels, g->key_depth, g->chances);
    multiply_scores(g, g->dresult, g->o_at, of->e, g->value_panels, g->value_depth, g->dlogits);
    tsr_tile_loop rows;
    tsr_tile_loop_begin(b, &rows, tsr_tile_index(b, 0), g->query_count, 1, 0, NULL);
    emit_row(g, rows.index);
    tsr_tile_loop_end(b, &rows, NULL);
    add_over_queries(g, &g->values, g->chances, g->dresult, g->o_at, of->e, g->dv, g->v_at);
    add_over_queries(g, &g->keys, g->dlogits, of->q, g->q_at, of->d, g->dk, g->k_at);
    add_over_keys(g);
}

/* The first query block of which some query sees the first key of the block. */
static MlirValue first_query(gradient *g) {
    tsr_tile_builder *b = &g->of.group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    if (!g->of.causal) return zero;
    MlirValue sees = tsr_tile_offset(b, g->of.key, g->of.queries - g->of.keys);
    sees = tsr_tile_sub(b, sees, tsr_tile_min(b, sees, zero)); /* at least 0 */
    return tsr_tile_mul(b, tsr_tile_div(b, sees, g->block_queries), g->block_queries);
}

static void clear(gradient *g, MlirValue buffer, MlirValue at, MlirValue count, bool even) {
    tsr_tile_builder *b = &g->of.group->b;
    uint32_t lanes = b->target->vector_bytes / (uint32_t)tsr_dtype_size(g->of.dtype);
    MlirValue zero = tsr_element_zero(b, g->of.dtype, lanes), mask = tsr_tile_null;
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), count, lanes, 0, NULL);
    if (!even) mask = tsr_tile_mask(b, tsr_tile_sub(b, count, loop.index), lanes);
    tsr_tile_store(b, g->of.dtype, zero, buffer, tsr_tile_add(b, at, loop.index), mask);
    tsr_tile_loop_end(b, &loop, NULL);
}

static void emit_key_block(gradient *g, MlirValue first_head) {
    tsr_tile_builder *b = &g->of.group->b;
    tsr_attention *of = &g->of;
    MlirValue row = tsr_tile_add(b, g->key_row_at, of->key);
    g->key_count = tsr_tile_min(b, tsr_tile_index(b, g->block_keys),
                                tsr_tile_sub(b, tsr_tile_index(b, of->keys), of->key));
    if (of->keys % g->block_keys == 0) g->key_count = tsr_tile_index(b, g->block_keys);
    g->k_at = tsr_tile_mul(b, row, of->d);
    g->v_at = tsr_tile_mul(b, row, of->e);
    clear(g, g->dk, g->k_at, tsr_tile_mul(b, g->key_count, of->d), of->d % 64 == 0);
    clear(g, g->dv, g->v_at, tsr_tile_mul(b, g->key_count, of->e), of->e % 64 == 0);
    pack(g, of->k, g->k_at, of->d, g->key_panels, g->key_depth);
    pack(g, of->v, g->v_at, of->e, g->value_panels, g->value_depth);
    tsr_tile_loop heads, queries;
    tsr_tile_loop_begin(b, &heads, tsr_tile_index(b, 0),
                        tsr_tile_index(b, of->heads / of->key_heads), 1, 0, NULL);
    of->head_index = tsr_tile_add(b, first_head, heads.index);
    MlirValue head = tsr_tile_add(b, tsr_tile_mul(b, of->batch_index, of->heads), of->head_index);
    g->row_at = tsr_tile_mul(b, head, of->queries);
    tsr_tile_loop_begin(b, &queries, first_query(g), tsr_tile_index(b, of->queries),
                        g->block_queries, 0, NULL);
    emit_blocks(g, queries.index);
    tsr_tile_loop_end(b, &queries, NULL);
    tsr_tile_loop_end(b, &heads, NULL);
}

static void make_locals(gradient *g) {
    tsr_tile_builder *b = &g->of.group->b;
    MlirType type = tsr_tile_storage_type(b, g->of.dtype);
    g->key_panels = tsr_tile_local(b, type, panel_elements(g, g->key_depth) + 1);
    g->value_panels = tsr_tile_local(b, type, panel_elements(g, g->value_depth) + 1);
    g->chances = tsr_tile_local(b, type, g->block_queries * g->score_stride);
    g->dlogits = tsr_tile_local(b, type, g->block_queries * g->score_stride);
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
    if (!of->queries) {
        clear(g, g->dk, tsr_tile_mul(b, g->key_row_at, of->d), tsr_tile_index(b, of->keys * of->d),
              false);
        clear(g, g->dv, tsr_tile_mul(b, g->key_row_at, of->e), tsr_tile_index(b, of->keys * of->e),
              false);
        return;
    }
    if (!of->keys) return;
    make_locals(g);
    tsr_tile_loop keys;
    tsr_tile_loop_begin(b, &keys, tsr_tile_index(b, 0), tsr_tile_index(b, of->keys), g->block_keys,
                        0, NULL);
    of->key = keys.index;
    emit_key_block(g, first_head);
    tsr_tile_loop_end(b, &keys, NULL);
}

tsr_result tsr_tile_lower_attention_grad(tsr_tile_group *group) {
    gradient g = {0};
    const tsr_type *type = NULL;
    TRY(group->ctx, tsr_attention_read(group, MASK, &g.of));
    TRY(group->ctx, tsr_attention_operand(&g.of, RESULT, &g.result, &type));
    TRY(group->ctx, tsr_attention_operand(&g.of, LOGSUMEXP, &g.logsumexp, &type));
    TRY(group->ctx, tsr_attention_operand(&g.of, DRESULT, &g.dresult, &type));
    if (group->output_count != 3)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed gradient of attention", group->name);
    g.dq = group->buffers[group->input_count];
    g.dk = group->buffers[group->input_count + 1];
    g.dv = group->buffers[group->input_count + 2];
    g.sum = (tsr_reduction){.group = group, .dtype = g.of.dtype, .op = &tsr_reduction_sum};
    if (!g.of.batch || !g.of.key_heads) return TSR_SUCCESS;
    TRY(group->ctx, plan(&g));
    emit(&g);
    return TSR_SUCCESS;
}
