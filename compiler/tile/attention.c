/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `attention`: softmax(scale * q k^T + mask) v, one pass over keys and values.
 *
 *     for each block of queries of a head
 *         for each block of keys that the queries may see
 *             scores = q k^T, the keys' transpose packed to the stack
 *             per query: m' = max(m, largest score), p = exp(score - m'), a = exp(m - m'),
 *                        l = l a + sum of p, o = o a, m = m'
 *             o = o + p v
 *         o / l is the result, m + log l the logarithm of the sum of exponentials
 *
 * The method is that of Dao et al., "FlashAttention", 2022, after Milakov and Gimelshein, "Online
 * normalizer calculation for softmax", 2018. Scores and sums are chains over ascending d and key;
 * sums of p have 64 partial results per block of keys. The size of that block follows from the
 * shapes alone, so that all targets with FMA give the same bits. A query that sees no key gives 0.
 */
#include "compiler/tile/gemm.h"
#include "compiler/tile/reduce.h"

#include <math.h>
#include <string.h>

enum {
    BLOCK_KEYS_MAX = 512,
    KEY_ELEMENTS = 32 * 1024, /* of a block of keys, or of values */
    STACK_BYTES = 440 * 1024, /* of all local buffers */
    BLOCK_QUERIES = 64,
    PROGRAMS = 16, /* below so many heads, the blocks of a head are programs of their own */
};
static_assert(STACK_BYTES <= TSR_TARGET_STACK_MAX - 65536, "the local buffers fit the stack");

typedef struct side {
    uint32_t lanes, vectors;
    int64_t width, rows; /* of a tile */
} side;

typedef struct attention {
    tsr_tile_group *group;
    tsr_reduction max, sum;
    tsr_dtype dtype;
    int64_t batch, heads, key_heads, queries, keys, d, e;
    double scale;
    bool causal;
    MlirValue q, k, v, mask; /* buffers; mask null: none */
    tsr_view mask_view;
    tsr_space mask_space; /* [B, H, S, T] */
    /* the plan */
    side scores_side, values_side;
    int64_t block_queries, block_keys, score_stride, depth, value_panels;
    bool online; /* several blocks of keys */
    /* emission */
    MlirValue panels, scores, sums, highest, totals; /* local buffers */
    MlirValue q_at, k_at, v_at, row_at;              /* of the head; row_at in queries */
    MlirValue batch_index, head_index;
    MlirValue query, query_count; /* of the block */
    MlirValue key, key_count;     /* of the block */
} attention;

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }

/* ---- what is to be computed ------------------------------------------------------------------ */

static tsr_result find_operand(attention *a, size_t index, uint32_t rank, MlirValue *out_buffer,
                               const tsr_type **out_type) {
    tsr_tile_group *group = a->group;
    MlirValue operand = tsr_op_operand(group->root, index);
    if (!mlirValueIsABlockArgument(operand))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': operand %zu is not an argument", group->name, index);
    intptr_t number = mlirBlockArgumentGetArgNumber(operand);
    *out_buffer = group->buffers[number];
    *out_type = &group->types[number];
    if (rank && (*out_type)->shape.rank != rank)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed attention", group->name);
    return TSR_SUCCESS;
}

static tsr_result read_attention(attention *a) {
    tsr_tile_group *group = a->group;
    const tsr_type *q = NULL, *k = NULL, *v = NULL, *mask = NULL;
    TRY(group->ctx, find_operand(a, 0, 4, &a->q, &q));
    TRY(group->ctx, find_operand(a, 1, 4, &a->k, &k));
    TRY(group->ctx, find_operand(a, 2, 4, &a->v, &v));
    a->dtype = q->dtype;
    if ((a->dtype != TSR_DTYPE_F32 && a->dtype != TSR_DTYPE_F64) || group->output_count < 1 ||
        group->output_count > 2)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed attention", group->name);
    a->batch = (int64_t)q->shape.dims[0];
    a->heads = (int64_t)q->shape.dims[1];
    a->queries = (int64_t)q->shape.dims[2];
    a->d = (int64_t)q->shape.dims[3];
    a->key_heads = (int64_t)k->shape.dims[1];
    a->keys = (int64_t)k->shape.dims[2];
    a->e = (int64_t)v->shape.dims[3];
    a->scale = 1 / sqrt((double)a->d);
    tsr_op_f64(group->root, "scale", &a->scale);
    a->causal = tsr_op_has(group->root, "causal");
    a->mask_space = (tsr_space){.rank = 4, .dims = {a->batch, a->heads, a->queries, a->keys}};
    if (tsr_op_operand_count(group->root) < 4) return TSR_SUCCESS;
    TRY(group->ctx, find_operand(a, 3, 0, &a->mask, &mask));
    tsr_view_init(&a->mask_view, mask->dtype, a->mask, &mask->shape, &a->mask_space, NULL);
    return TSR_SUCCESS;
}

/* ---- plan ------------------------------------------------------------------------------------ */

static void plan_side(attention *a, int64_t columns, side *out_side) {
    tsr_gemm_shape shape = {
        .element_bytes = (int64_t)tsr_dtype_size(a->dtype), .m = a->queries, .n = columns};
    tsr_gemm_plan_tile(a->group->b.target, &shape, &out_side->lanes, &out_side->vectors,
                       &out_side->rows);
    out_side->width = (int64_t)out_side->lanes * out_side->vectors;
}

static int64_t stack_bytes(const attention *a) {
    int64_t per_query = a->score_stride + a->value_panels * a->values_side.width + 2;
    int64_t keys = divide_up(a->block_keys, a->scores_side.width) * a->scores_side.width * a->depth;
    return (keys + a->block_queries * per_query) * (int64_t)tsr_dtype_size(a->dtype);
}

static tsr_result plan(attention *a) {
    int64_t size = a->d > a->e ? a->d : a->e, limit = KEY_ELEMENTS / (size ? size : 1);
    limit = limit / TSR_PARTIALS * TSR_PARTIALS;
    if (limit < TSR_PARTIALS) limit = TSR_PARTIALS;
    if (limit > BLOCK_KEYS_MAX) limit = BLOCK_KEYS_MAX;
    a->block_keys = tsr_gemm_part(a->keys, limit, TSR_PARTIALS);
    if (!a->block_keys) a->block_keys = TSR_PARTIALS;
    a->online = a->keys > a->block_keys;
    plan_side(a, a->block_keys, &a->scores_side);
    plan_side(a, a->e, &a->values_side);
    a->value_panels = divide_up(a->e, a->values_side.width);
    a->depth = divide_up(a->d, a->scores_side.lanes) * a->scores_side.lanes;
    int64_t wide = divide_up(a->block_keys, a->scores_side.width) * a->scores_side.width;
    a->score_stride = divide_up(wide, TSR_PARTIALS) * TSR_PARTIALS;
    /* Blocks are of whole tiles of both products. */
    int64_t unit = a->scores_side.rows;
    while (unit % a->values_side.rows) unit += a->scores_side.rows;
    a->block_queries = tsr_gemm_part(a->queries, BLOCK_QUERIES, unit);
    while (stack_bytes(a) > STACK_BYTES && a->block_queries > unit)
        a->block_queries = divide_up(a->block_queries / 2, unit) * unit;
    if (stack_bytes(a) > STACK_BYTES)
        FAIL(a->group->ctx, TSR_COMPILE, "'%s': heads of %lld and %lld numbers are too large",
             a->group->name, (long long)a->d, (long long)a->e);
    int64_t sizes[] = {a->scores_side.rows, a->scores_side.width, a->block_queries, a->block_keys};
    memcpy(a->group->tile, sizes, sizeof sizes);
    a->group->tile_count = sizeof sizes / sizeof sizes[0];
    return TSR_SUCCESS;
}

/* ---- the two products ------------------------------------------------------------------------ */

static void pack_keys(attention *a) {
    tsr_tile_builder *b = &a->group->b;
    const side *s = &a->scores_side;
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), a->key_count, s->width, 0, NULL);
    MlirValue first = tsr_tile_add(b, a->key, loop.index);
    tsr_gemm_pack pack = {.from_dtype = a->dtype,
                          .to_dtype = a->dtype,
                          .lanes = s->lanes,
                          .vectors = s->vectors,
                          .from = a->k,
                          .to = a->panels,
                          .from_at = tsr_tile_add(b, a->k_at, tsr_tile_mul(b, first, a->d)),
                          .to_at = tsr_tile_mul(b, loop.index, a->depth),
                          .from_step = a->d,
                          .to_step = s->width,
                          .count = tsr_tile_index(b, a->d)};
    if (a->keys % a->block_keys || a->block_keys % s->width)
        pack.columns = tsr_tile_sub(b, tsr_tile_index(b, a->keys), first);
    tsr_gemm_pack_columns(b, &pack);
    tsr_tile_loop_end(b, &loop, NULL);
}

typedef void (*tile_fn)(attention *a, MlirValue column, MlirValue row, int64_t rows);

/* Tiles of the block's queries: whole ones, then the edge of the last block. */
static void walk_rows(attention *a, const side *s, MlirValue column, tile_fn visit) {
    tsr_tile_builder *b = &a->group->b;
    int64_t edge = a->queries % s->rows;
    MlirValue whole = tsr_tile_sub(b, a->query_count, tsr_tile_rem(b, a->query_count, s->rows));
    for (int part = 0; part < 2; part++) {
        int64_t rows = part ? edge : s->rows;
        tsr_tile_loop loop;
        if (!rows) continue;
        tsr_tile_loop_begin(b, &loop, part ? whole : tsr_tile_index(b, 0),
                            part ? a->query_count : whole, rows, 0, NULL);
        visit(a, column, loop.index, rows);
        tsr_tile_loop_end(b, &loop, NULL);
    }
}

static void score_tile(attention *a, MlirValue column, MlirValue row, int64_t rows) {
    tsr_tile_builder *b = &a->group->b;
    const side *s = &a->scores_side;
    MlirValue tile[TSR_GEMM_TILE_MAX], zero = tsr_element_zero(b, a->dtype, s->lanes);
    MlirValue query = tsr_tile_add(b, a->query, row);
    tsr_gemm_tile gemm = {.a_dtype = a->dtype,
                          .b_dtype = a->dtype,
                          .lanes = s->lanes,
                          .vectors = s->vectors,
                          .rows = rows,
                          .a = a->q,
                          .b = a->panels,
                          .a_at = tsr_tile_add(b, a->q_at, tsr_tile_mul(b, query, a->d)),
                          .a_row = a->d,
                          .a_step = 1,
                          .b_at = tsr_tile_mul(b, column, a->depth),
                          .b_step = s->width};
    for (int64_t i = 0; i < rows * s->vectors; i++) tile[i] = zero;
    tsr_gemm_multiply(b, &gemm, tsr_tile_index(b, a->d), tile);
    MlirValue to = tsr_tile_add(b, tsr_tile_mul(b, row, a->score_stride), column);
    for (int64_t i = 0; i < rows; i++)
        for (uint32_t v = 0; v < s->vectors; v++)
            tsr_tile_store(b, a->dtype, tile[i * s->vectors + v], a->scores,
                           tsr_tile_offset(b, to, i * a->score_stride + v * s->lanes),
                           tsr_tile_null);
}

static MlirValue sum_at(attention *a, MlirValue row, MlirValue column) {
    tsr_tile_builder *b = &a->group->b;
    int64_t stride = a->value_panels * a->values_side.width;
    return tsr_tile_add(b, tsr_tile_mul(b, row, stride), column);
}

static void value_tile(attention *a, MlirValue column, MlirValue row, int64_t rows) {
    tsr_tile_builder *b = &a->group->b;
    const side *s = &a->values_side;
    MlirValue tile[TSR_GEMM_TILE_MAX], masks[TSR_TILE_VECTORS_MAX];
    int64_t stride = a->value_panels * s->width;
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, a->e), column), to = sum_at(a, row, column);
    for (uint32_t v = 0; v < s->vectors; v++)
        masks[v] =
            a->e % s->width
                ? tsr_tile_mask(b, tsr_tile_offset(b, left, -(int64_t)(v * s->lanes)), s->lanes)
                : tsr_tile_null;
    MlirValue from = tsr_tile_add(b, a->v_at, tsr_tile_mul(b, a->key, a->e));
    tsr_gemm_tile gemm = {.a_dtype = a->dtype,
                          .b_dtype = a->dtype,
                          .lanes = s->lanes,
                          .vectors = s->vectors,
                          .rows = rows,
                          .a = a->scores,
                          .b = a->v,
                          .a_at = tsr_tile_mul(b, row, a->score_stride),
                          .a_row = a->score_stride,
                          .a_step = 1,
                          .b_at = tsr_tile_add(b, from, column),
                          .b_step = a->e,
                          .masks = masks};
    for (int64_t i = 0; i < rows; i++)
        for (uint32_t v = 0; v < s->vectors; v++)
            tile[i * s->vectors + v] = tsr_tile_load(
                b, a->dtype, a->sums, tsr_tile_offset(b, to, i * stride + v * s->lanes), s->lanes,
                tsr_tile_null);
    tsr_gemm_multiply(b, &gemm, a->key_count, tile);
    for (int64_t i = 0; i < rows; i++)
        for (uint32_t v = 0; v < s->vectors; v++)
            tsr_tile_store(b, a->dtype, tile[i * s->vectors + v], a->sums,
                           tsr_tile_offset(b, to, i * stride + v * s->lanes), tsr_tile_null);
}

/* ---- the rows between them ------------------------------------------------------------------- */

static MlirValue lowest(attention *a, uint32_t lanes) {
    return tsr_element_lowest(&a->group->b, a->dtype, lanes);
}

static MlirValue unless_lowest(attention *a, MlirValue x) {
    tsr_tile_builder *b = &a->group->b;
    MlirValue is = tsr_tile_fcompare(b, TSR_FCMP_OEQ, x, lowest(a, 0));
    return tsr_tile_select(b, is, tsr_element_zero(b, a->dtype, 0), x);
}

/* Scores of 64 keys from `column` of the block on, of row `row` of the block: scaled and masked. */
static MlirValue masked_scores(attention *a, MlirValue row, MlirValue column, MlirValue limit) {
    tsr_tile_builder *b = &a->group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, row, a->score_stride), column);
    MlirValue x = tsr_tile_load(b, a->dtype, a->scores, at, TSR_PARTIALS, tsr_tile_null);
    MlirValue valid = tsr_tile_null;
    if (a->causal || a->keys % TSR_PARTIALS)
        valid = tsr_tile_mask(b, tsr_tile_sub(b, limit, column), TSR_PARTIALS);
    x = tsr_tile_2(b, "arith.mulf", x, tsr_tile_float(b, mlirValueGetType(x), a->scale));
    if (!mlirValueIsNull(a->mask)) {
        tsr_point point = {.space = &a->mask_space,
                           .index = {a->batch_index, a->head_index, tsr_tile_add(b, a->query, row),
                                     tsr_tile_add(b, a->key, column)}};
        bool along = a->mask_view.strides[3] != 0;
        MlirValue mask = tsr_tile_load(b, a->mask_view.dtype, a->mask,
                                       tsr_point_offset(b, &point, &a->mask_view),
                                       along ? TSR_PARTIALS : 0, along ? valid : tsr_tile_null);
        mask = tsr_tile_splat(b, mask, TSR_PARTIALS);
        x = a->mask_view.dtype == TSR_DTYPE_I1
                ? tsr_tile_select(b, mask, x, lowest(a, TSR_PARTIALS))
                : tsr_tile_2(b, "arith.addf", x, mask);
    }
    if (mlirValueIsNull(valid)) return x;
    return tsr_tile_select(b, valid, x, lowest(a, TSR_PARTIALS));
}

static void rescale_sums(attention *a, MlirValue row, MlirValue factor) {
    tsr_tile_builder *b = &a->group->b;
    uint32_t lanes = a->values_side.lanes;
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0),
                        tsr_tile_index(b, a->value_panels * a->values_side.width), lanes, 0, NULL);
    MlirValue at = sum_at(a, row, loop.index);
    MlirValue value = tsr_tile_load(b, a->dtype, a->sums, at, lanes, tsr_tile_null);
    value = tsr_tile_2(b, "arith.mulf", value, tsr_tile_splat(b, factor, lanes));
    tsr_tile_store(b, a->dtype, value, a->sums, at, tsr_tile_null);
    tsr_tile_loop_end(b, &loop, NULL);
}

/* Scores of one query become exp(score - m'). */
static void soften_row(attention *a, MlirValue row) {
    tsr_tile_builder *b = &a->group->b;
    MlirValue zero = tsr_tile_index(b, 0), limit = a->key_count;
    tsr_tile_loop loop;
    if (a->causal) {
        MlirValue seen = tsr_tile_add(b, a->query, row);
        seen = tsr_tile_sub(b, tsr_tile_offset(b, seen, a->keys - a->queries + 1), a->key);
        limit = tsr_tile_min(b, limit, seen);
    }
    MlirValue carried = tsr_reduction_identity(&a->max, TSR_PARTIALS);
    tsr_tile_loop_begin(b, &loop, zero, a->key_count, TSR_PARTIALS, 1, &carried);
    MlirValue x = masked_scores(a, row, loop.index, limit);
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, row, a->score_stride), loop.index);
    tsr_tile_store(b, a->dtype, x, a->scores, at, tsr_tile_null);
    carried = tsr_reduction_combine(&a->max, loop.carried[0], x);
    tsr_tile_loop_end(b, &loop, &carried);
    MlirValue before = tsr_tile_load(b, a->dtype, a->highest, row, 0, tsr_tile_null);
    MlirValue here = tsr_reduction_tree(&a->max, loop.carried[0], TSR_PARTIALS);
    MlirValue highest = tsr_element_max(b, a->dtype, before, here);
    MlirValue shift = unless_lowest(a, highest), wide = tsr_tile_splat(b, shift, TSR_PARTIALS);

    carried = tsr_reduction_identity(&a->sum, TSR_PARTIALS);
    tsr_tile_loop_begin(b, &loop, zero, a->key_count, TSR_PARTIALS, 1, &carried);
    at = tsr_tile_add(b, tsr_tile_mul(b, row, a->score_stride), loop.index);
    x = tsr_tile_load(b, a->dtype, a->scores, at, TSR_PARTIALS, tsr_tile_null);
    x = tsr_tile_1(b, "math.exp", tsr_tile_2(b, "arith.subf", x, wide));
    tsr_tile_store(b, a->dtype, x, a->scores, at, tsr_tile_null);
    carried = tsr_reduction_combine(&a->sum, loop.carried[0], x);
    tsr_tile_loop_end(b, &loop, &carried);
    MlirValue total = tsr_reduction_tree(&a->sum, loop.carried[0], TSR_PARTIALS);
    if (a->online) {
        MlirValue factor = tsr_tile_1(b, "math.exp", tsr_tile_2(b, "arith.subf", before, shift));
        MlirValue old = tsr_tile_load(b, a->dtype, a->totals, row, 0, tsr_tile_null);
        total = tsr_tile_3(b, "math.fma", old, factor, total);
        rescale_sums(a, row, factor);
    }
    tsr_tile_store(b, a->dtype, highest, a->highest, row, tsr_tile_null);
    tsr_tile_store(b, a->dtype, total, a->totals, row, tsr_tile_null);
}

static void clear_rows(attention *a) {
    tsr_tile_builder *b = &a->group->b;
    uint32_t lanes = a->values_side.lanes;
    tsr_tile_loop rows, columns;
    MlirValue zero = tsr_tile_index(b, 0);
    tsr_tile_loop_begin(b, &rows, zero, a->query_count, 1, 0, NULL);
    tsr_tile_store(b, a->dtype, lowest(a, 0), a->highest, rows.index, tsr_tile_null);
    tsr_tile_store(b, a->dtype, tsr_element_zero(b, a->dtype, 0), a->totals, rows.index,
                   tsr_tile_null);
    tsr_tile_loop_begin(b, &columns, zero,
                        tsr_tile_index(b, a->value_panels * a->values_side.width), lanes, 0, NULL);
    tsr_tile_store(b, a->dtype, tsr_element_zero(b, a->dtype, lanes), a->sums,
                   sum_at(a, rows.index, columns.index), tsr_tile_null);
    tsr_tile_loop_end(b, &columns, NULL);
    tsr_tile_loop_end(b, &rows, NULL);
}

static void finish_rows(attention *a) {
    tsr_tile_builder *b = &a->group->b;
    uint32_t lanes = a->values_side.lanes;
    MlirValue *outputs = a->group->buffers + a->group->input_count;
    MlirValue zero = tsr_tile_index(b, 0), nothing = tsr_element_zero(b, a->dtype, 0);
    tsr_tile_loop rows, columns;
    tsr_tile_loop_begin(b, &rows, zero, a->query_count, 1, 0, NULL);
    MlirValue query = tsr_tile_add(b, a->row_at, tsr_tile_add(b, a->query, rows.index));
    MlirValue total = tsr_tile_load(b, a->dtype, a->totals, rows.index, 0, tsr_tile_null);
    if (a->group->output_count == 2) {
        MlirValue highest = tsr_tile_load(b, a->dtype, a->highest, rows.index, 0, tsr_tile_null);
        MlirValue sum = tsr_tile_2(b, "arith.addf", tsr_tile_1(b, "math.log", total),
                                   unless_lowest(a, highest));
        tsr_tile_store(b, a->dtype, sum, outputs[1], query, tsr_tile_null);
    }
    MlirValue none = tsr_tile_fcompare(b, TSR_FCMP_OEQ, total, nothing);
    MlirValue divisor = tsr_tile_select(b, none, tsr_element_one(b, a->dtype, 0), total);
    tsr_tile_loop_begin(b, &columns, zero, tsr_tile_index(b, a->e), lanes, 0, NULL);
    MlirValue value = tsr_tile_load(b, a->dtype, a->sums, sum_at(a, rows.index, columns.index),
                                    lanes, tsr_tile_null);
    value = tsr_tile_2(b, "arith.divf", value, tsr_tile_splat(b, divisor, lanes));
    MlirValue mask = tsr_tile_null;
    if (a->e % lanes)
        mask = tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, a->e), columns.index), lanes);
    tsr_tile_store(b, a->dtype, value, outputs[0],
                   tsr_tile_add(b, tsr_tile_mul(b, query, a->e), columns.index), mask);
    tsr_tile_loop_end(b, &columns, NULL);
    tsr_tile_loop_end(b, &rows, NULL);
}

/* ---- a program ------------------------------------------------------------------------------- */

static void emit_key_block(attention *a, MlirValue end) {
    tsr_tile_builder *b = &a->group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    tsr_tile_loop loop;
    a->key_count = tsr_tile_min(b, tsr_tile_index(b, a->block_keys), tsr_tile_sub(b, end, a->key));
    if (a->online) pack_keys(a);
    tsr_tile_loop_begin(b, &loop, zero, a->key_count, a->scores_side.width, 0, NULL);
    walk_rows(a, &a->scores_side, loop.index, score_tile);
    tsr_tile_loop_end(b, &loop, NULL);
    tsr_tile_loop_begin(b, &loop, zero, a->query_count, 1, 0, NULL);
    soften_row(a, loop.index);
    tsr_tile_loop_end(b, &loop, NULL);
    tsr_tile_loop_begin(b, &loop, zero, tsr_tile_index(b, a->e), a->values_side.width, 0, NULL);
    walk_rows(a, &a->values_side, loop.index, value_tile);
    tsr_tile_loop_end(b, &loop, NULL);
}

static void emit_query_block(attention *a, MlirValue query) {
    tsr_tile_builder *b = &a->group->b;
    a->query = query;
    a->query_count = tsr_tile_min(b, tsr_tile_index(b, a->block_queries),
                                  tsr_tile_sub(b, tsr_tile_index(b, a->queries), query));
    if (a->queries % a->block_queries == 0) a->query_count = tsr_tile_index(b, a->block_queries);
    clear_rows(a);
    MlirValue end = tsr_tile_index(b, a->keys);
    if (a->causal) {
        MlirValue seen = tsr_tile_add(b, query, a->query_count);
        end = tsr_tile_min(b, end, tsr_tile_offset(b, seen, a->keys - a->queries));
    }
    tsr_tile_loop keys;
    tsr_tile_loop_begin(b, &keys, tsr_tile_index(b, 0), end, a->block_keys, 0, NULL);
    a->key = keys.index;
    emit_key_block(a, end);
    tsr_tile_loop_end(b, &keys, NULL);
    finish_rows(a);
}

static void make_locals(attention *a) {
    tsr_tile_builder *b = &a->group->b;
    MlirType type = tsr_tile_storage_type(b, a->dtype);
    int64_t panels = divide_up(a->block_keys, a->scores_side.width);
    a->panels = tsr_tile_local(b, type, panels * a->scores_side.width * a->depth);
    a->scores = tsr_tile_local(b, type, a->block_queries * a->score_stride);
    a->sums = tsr_tile_local(b, type, a->block_queries * a->value_panels * a->values_side.width);
    a->highest = tsr_tile_local(b, type, a->block_queries);
    a->totals = tsr_tile_local(b, type, a->block_queries);
}

static void emit(attention *a) {
    tsr_tile_builder *b = &a->group->b;
    int64_t blocks = divide_up(a->queries, a->block_queries), heads = a->batch * a->heads;
    int64_t parts = heads >= PROGRAMS ? 1 : blocks;
    int64_t part_queries = divide_up(blocks, parts) * a->block_queries;
    make_locals(a);
    a->group->grid = heads * parts;
    MlirValue pid = a->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    MlirValue head = tsr_tile_div(b, pid, parts);
    a->batch_index = tsr_tile_div(b, head, a->heads);
    a->head_index = tsr_tile_rem(b, head, a->heads);
    MlirValue key_head = tsr_tile_div(b, a->head_index, a->heads / a->key_heads);
    key_head = tsr_tile_add(b, tsr_tile_mul(b, a->batch_index, a->key_heads), key_head);
    a->row_at = tsr_tile_mul(b, head, a->queries);
    a->q_at = tsr_tile_mul(b, a->row_at, a->d);
    a->k_at = tsr_tile_mul(b, key_head, a->keys * a->d);
    a->v_at = tsr_tile_mul(b, key_head, a->keys * a->e);
    if (!a->online) {
        a->key = tsr_tile_index(b, 0);
        a->key_count = tsr_tile_index(b, a->keys);
        pack_keys(a);
    }
    MlirValue first = tsr_tile_mul(b, tsr_tile_rem(b, pid, parts), part_queries);
    MlirValue end =
        tsr_tile_min(b, tsr_tile_offset(b, first, part_queries), tsr_tile_index(b, a->queries));
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, first, end, a->block_queries, 0, NULL);
    emit_query_block(a, loop.index);
    tsr_tile_loop_end(b, &loop, NULL);
}

tsr_result tsr_tile_lower_attention(tsr_tile_group *group) {
    attention a = {.group = group};
    TRY(group->ctx, read_attention(&a));
    a.max = (tsr_reduction){.group = group, .dtype = a.dtype, .op = &tsr_reduction_max};
    a.sum = (tsr_reduction){.group = group, .dtype = a.dtype, .op = &tsr_reduction_sum};
    if (!a.batch || !a.heads || !a.queries) return TSR_SUCCESS;
    TRY(group->ctx, plan(&a));
    emit(&a);
    return TSR_SUCCESS;
}
