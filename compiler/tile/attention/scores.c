/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/ir/samples.h"
#include "compiler/tile/attention/attention.h"
#include "compiler/tile/elements/element.h"
#include "compiler/tile/gpu/heads.h"
#include "compiler/tile/products/dot.h"
#include "runtime/base/array.h"

#include <math.h>
#include <string.h>

tsr_result tsr_attention_operand(const tsr_attention *a, size_t index, MlirValue *out_buffer,
                                 const tsr_type **out_type) {
    tsr_tile_group *group = a->group;
    MlirValue operand = tsr_op_operand(group->root, index), from = operand;
    while (!mlirValueIsABlockArgument(from) && tsr_gpu_is_move(tsr_value_owner(from)))
        from = tsr_op_operand(tsr_value_owner(from), 0);
    if (!mlirValueIsABlockArgument(from))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': operand %zu is not an argument", group->name, index);
    tsr_type *type = TSR_NEW(group->arena, tsr_type, 1);
    if (!type) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    if (!tsr_value_type(operand, type))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed attention", group->name);
    intptr_t number = mlirBlockArgumentGetArgNumber(from);
    type->dtype = group->types[number].dtype; /* may be wider than the operand: wide.c */
    *out_buffer = group->buffers[number];
    *out_type = type;
    return TSR_SUCCESS;
}

tsr_result tsr_attention_read(tsr_tile_group *group, size_t mask_index,
                              tsr_attention *out_attention) {
    tsr_attention a = {.group = group};
    const tsr_type *q = NULL, *k = NULL, *v = NULL, *mask = NULL;
    TRY(group->ctx, tsr_attention_operand(&a, 0, &a.q, &q));
    TRY(group->ctx, tsr_attention_operand(&a, 1, &a.k, &k));
    TRY(group->ctx, tsr_attention_operand(&a, 2, &a.v, &v));
    a.storage = q->dtype;
    a.dtype = tsr_tile_compute_dtype(q->dtype);
    if ((a.dtype != TSR_DTYPE_F32 && a.dtype != TSR_DTYPE_F64) || q->shape.rank != 4 ||
        k->shape.rank != 4 || v->shape.rank != 4)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed attention", group->name);
    a.batch = (int64_t)q->shape.dims[0];
    a.heads = (int64_t)q->shape.dims[1];
    a.queries = (int64_t)q->shape.dims[2];
    a.d = (int64_t)q->shape.dims[3];
    a.key_heads = (int64_t)k->shape.dims[1];
    a.keys = (int64_t)k->shape.dims[2];
    a.e = (int64_t)v->shape.dims[3];
    a.scale = 1 / sqrt((double)a.d);
    tsr_op_f64(group->root, "scale", &a.scale);
    a.causal = tsr_op_has(group->root, "causal");
    a.cut = a.causal && !group->b.target->warp_lanes;
    a.mask_space = (tsr_space){.rank = 4, .dims = {a.batch, a.heads, a.queries, a.keys}};
    size_t count = tsr_op_operand_count(group->root);
    if (tsr_op_f64(group->root, "dropout", &a.dropout)) {
        count -= TSR_ATTENTION_SAMPLES;
        uint64_t numbers = 0;
        if (!tsr_op_i64(group->root, "stream", &a.stream) || count < mask_index ||
            !tsr_samples_of_head((uint64_t)a.queries, (uint64_t)a.keys, &numbers))
            FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed attention", group->name);
        a.head_samples = (int64_t)numbers;
        for (size_t i = 0; i < TSR_ATTENTION_SAMPLES; i++)
            TRY(group->ctx, tsr_attention_operand(&a, count + i, &a.samples[i], &mask));
    }
    if (count > mask_index) {
        TRY(group->ctx, tsr_attention_operand(&a, mask_index, &a.mask, &mask));
        tsr_view_init(&a.mask_view, mask->dtype, a.mask, &mask->shape, &a.mask_space, NULL);
    }
    *out_attention = a;
    return TSR_SUCCESS;
}

void tsr_attention_plan_side(const tsr_attention *a, int64_t rows, int64_t columns, int64_t unit,
                             tsr_attention_side *out_side) {
    tsr_gemm_shape shape = {.unit = unit,
                            .element_bytes = (int64_t)tsr_dtype_size(a->dtype),
                            .m = rows ? rows : 1, /* empty products have a plan, too */
                            .n = columns ? columns : 1};
    tsr_gemm_plan_tile(a->group->b.target, &shape, &out_side->lanes, &out_side->vectors,
                       &out_side->rows);
    out_side->width = (int64_t)out_side->lanes * out_side->vectors;
}

MlirValue tsr_attention_at_least_0(const tsr_attention *a, MlirValue x) {
    tsr_tile_builder *b = &a->group->b;
    return tsr_tile_sub(b, x, tsr_tile_min(b, x, tsr_tile_index(b, 0)));
}

static void multiply_all(const tsr_attention *a, const tsr_gemm_tile *tile, int64_t unit,
                         MlirValue begin, MlirValue end, MlirValue *accumulators) {
    tsr_tile_builder *b = &a->group->b;
    tsr_gemm_tile from = *tile;
    from.a_at = tsr_tile_add(b, tile->a_at, tsr_tile_mul(b, begin, tile->a_step));
    from.b_at = tsr_tile_add(b, tile->b_at, tsr_tile_mul(b, begin, tile->b_step));
    (unit > 1 ? tsr_dot_multiply : tsr_gemm_multiply)(b, &from, tsr_tile_sub(b, end, begin),
                                                      accumulators);
}

/* Multiplies the steps from `begin` to `end`, which the diagonal crosses, row by row. Steps that a
 * row does not see are not added, because zero times infinity is not zero. */
static void multiply_rows(const tsr_attention *a, const tsr_gemm_tile *tile,
                          const tsr_attention_steps *steps, MlirValue begin, MlirValue end,
                          MlirValue *accumulators) {
    tsr_tile_builder *b = &a->group->b;
    bool upto = steps->edge == TSR_EDGE_END;
    tsr_gemm_tile row = *tile;
    row.rows = 1;
    for (int64_t i = upto ? 1 : 0; i < tile->rows - (upto ? 0 : 1); i++) {
        MlirValue at = tsr_attention_at_least_0(a, tsr_tile_offset(b, steps->first, i));
        at = tsr_tile_min(b, at, steps->count);
        row.a_at = tsr_tile_offset(b, tile->a_at, i * tile->a_row);
        multiply_all(a, &row, 1, upto ? begin : at, upto ? at : end,
                     accumulators + i * tile->vectors);
    }
}

/* Multiplies the same steps one by one; a row that does not see a step keeps its sum. The code is
 * smaller, which saves time in ptxas. */
static void multiply_seen(const tsr_attention *a, const tsr_gemm_tile *tile,
                          const tsr_attention_steps *steps, MlirValue begin, MlirValue end,
                          MlirValue *accumulators) {
    tsr_tile_builder *b = &a->group->b;
    MlirValue next[TSR_GEMM_TILE_MAX];
    uint32_t size = (uint32_t)tile->rows * tile->vectors;
    size_t bytes = size * sizeof *next;
    tsr_tile_icmp sees = steps->edge == TSR_EDGE_END ? TSR_ICMP_SLT : TSR_ICMP_SGE;
    TSR_TILE_FOR_CARRIED(b, loop, begin, end, 1, size, accumulators) {
        memcpy(next, accumulators, bytes);
        multiply_all(a, tile, 1, loop.index, tsr_tile_offset(b, loop.index, 1), next);
        for (int64_t i = 0; i < tile->rows; i++) {
            MlirValue at = tsr_tile_offset(b, steps->first, i);
            MlirValue seen = tsr_tile_icompare(b, sees, loop.index, at);
            for (size_t v = (size_t)i * tile->vectors; v < (size_t)(i + 1) * tile->vectors; v++)
                accumulators[v] = tsr_tile_select(b, seen, next[v], accumulators[v]);
        }
    }
}

void tsr_attention_multiply(const tsr_attention *a, const tsr_gemm_tile *tile,
                            const tsr_attention_steps *steps, MlirValue *accumulators) {
    tsr_tile_builder *b = &a->group->b;
    MlirValue zero = tsr_tile_index(b, 0), count = steps->count;
    if (!a->causal) {
        multiply_all(a, tile, steps->unit, zero, count, accumulators);
        return;
    }
    MlirValue some = tsr_attention_at_least_0(a, steps->first);
    MlirValue all = tsr_attention_at_least_0(a, tsr_tile_offset(b, steps->first, tile->rows - 1));
    bool upto = steps->edge == TSR_EDGE_END;
    if (steps->unit > 1) {
        all = tsr_tile_div(b, tsr_tile_offset(b, all, steps->unit - 1), steps->unit);
        some = tsr_tile_div(b, some, steps->unit);
        multiply_all(a, tile, steps->unit, upto ? zero : tsr_tile_min(b, some, count),
                     upto ? tsr_tile_min(b, all, count) : count, accumulators);
        return;
    }
    some = tsr_tile_min(b, some, count);
    all = tsr_tile_min(b, all, count);
    if (upto) multiply_all(a, tile, 1, zero, some, accumulators);
    (a->cut ? multiply_rows : multiply_seen)(a, tile, steps, some, all, accumulators);
    if (!upto) multiply_all(a, tile, 1, all, count, accumulators);
}

MlirValue tsr_attention_diagonal(const tsr_attention *a) {
    tsr_tile_builder *b = &a->group->b;
    return tsr_tile_offset(b, tsr_tile_sub(b, a->key, a->query), a->queries - a->keys);
}

MlirValue tsr_attention_first_row(const tsr_attention *a, MlirValue column, int64_t rows) {
    tsr_tile_builder *b = &a->group->b;
    if (!a->cut) return tsr_tile_index(b, 0);
    MlirValue first = tsr_tile_add(b, column, tsr_attention_diagonal(a));
    return tsr_tile_mul(b, tsr_tile_div(b, tsr_attention_at_least_0(a, first), rows), rows);
}

static void score_tile(const tsr_attention *a, const tsr_attention_scores *p, MlirValue column,
                       MlirValue row, int64_t rows, uint32_t vectors) {
    tsr_tile_builder *b = &a->group->b;
    uint32_t lanes = p->side->lanes, size = (uint32_t)rows * vectors;
    MlirValue tile[TSR_GEMM_TILE_MAX], zero = tsr_element_zero(b, a->dtype, lanes);
    tsr_gemm_tile gemm = {.a_dtype = a->storage,
                          .b_dtype = p->unit > 1 ? a->storage : a->dtype,
                          .lanes = lanes,
                          .vectors = vectors,
                          .rows = rows,
                          .a = p->a,
                          .b = p->panels,
                          .a_at = tsr_tile_add(b, p->a_at, tsr_tile_mul(b, row, p->size)),
                          .a_row = p->size,
                          .a_step = p->unit,
                          .b_at = tsr_tile_mul(b, column, p->depth),
                          .b_step = p->side->width * p->unit,
                          .odd = p->size % p->unit};
    MlirValue count = tsr_tile_index(b, tsr_divide_up(p->size, p->unit));
    for (uint32_t i = 0; i < size; i++) tile[i] = zero;
    (p->unit > 1 ? tsr_dot_multiply : tsr_gemm_multiply)(b, &gemm, count, tile);
    MlirValue to = tsr_tile_add(b, tsr_tile_mul(b, row, p->stride), column);
    for (uint32_t i = 0; i < size; i++)
        tsr_tile_store(b, a->dtype, tile[i], p->to,
                       tsr_tile_offset(b, to, i / vectors * p->stride + i % vectors * lanes),
                       tsr_tile_null);
}

/* Computes whole tiles of a panel of `vectors` vectors, up to the query `end`. Tiles that the
 * diagonal crosses are only as wide as the keys that their last query sees. */
static void score_tiles(const tsr_attention *a, const tsr_attention_scores *p, MlirValue column,
                        MlirValue end, uint32_t vectors) {
    tsr_tile_builder *b = &a->group->b;
    const tsr_attention_side *s = p->side;
    for (uint32_t v = a->cut ? 1 : vectors; v <= vectors; v++) {
        MlirValue from = tsr_tile_offset(b, column, (v - 1) * s->lanes), to = end;
        if (v < vectors)
            to = tsr_attention_first_row(a, tsr_tile_offset(b, from, s->lanes), s->rows);
        TSR_TILE_FOR(b, loop, tsr_attention_first_row(a, from, s->rows), tsr_tile_min(b, to, end),
                     s->rows) {
            score_tile(a, p, column, loop.index, s->rows, v);
        }
    }
}

/* Computes the panels that begin at columns from `low` to below `high`, with `vectors` vectors
 * each. */
static void score_panels(const tsr_attention *a, const tsr_attention_scores *p, MlirValue low,
                         MlirValue high, uint32_t vectors) {
    tsr_tile_builder *b = &a->group->b;
    const tsr_attention_side *s = p->side;
    int64_t edge = a->queries % s->rows; /* rows of the last block after whole tiles */
    MlirValue whole = tsr_tile_sub(b, p->rows, tsr_tile_rem(b, p->rows, s->rows));
    TSR_TILE_FOR(b, panels, low, high, s->width) {
        score_tiles(a, p, panels.index, whole, vectors);
        if (edge) {
            TSR_TILE_FOR(b, rest, whole, p->rows, edge) {
                score_tile(a, p, panels.index, rest.index, edge, vectors);
            }
        }
    }
}

void tsr_attention_multiply_scores(const tsr_attention *a, const tsr_attention_scores *p) {
    tsr_tile_builder *b = &a->group->b;
    const tsr_attention_side *s = p->side;
    MlirValue zero = tsr_tile_index(b, 0);
    if (a->cut || b->target->warp_lanes) {
        score_panels(a, p, zero, p->columns, s->vectors);
        return;
    }
    /* Panels that need all vectors; then, if there is one, the last, which needs fewer. */
    int64_t columns = 0, full_known = 0;
    MlirValue full = tsr_tile_div(b, tsr_tile_offset(b, p->columns, s->lanes - 1), s->width);
    full = tsr_tile_mul(b, full, s->width);
    score_panels(a, p, zero, full, s->vectors);
    bool known =
        tsr_tile_index_known(p->columns, &columns) && tsr_tile_index_known(full, &full_known);
    MlirValue rest = tsr_tile_offset(b, tsr_tile_sub(b, p->columns, full), s->lanes - 1);
    MlirValue needed = tsr_tile_div(b, rest, s->lanes), next = tsr_tile_offset(b, full, 1);
    for (uint32_t v = 1; v < s->vectors; v++) {
        if (known && (columns - full_known + s->lanes - 1) / s->lanes != v) continue;
        MlirValue is = tsr_tile_icompare(b, TSR_ICMP_EQ, needed, tsr_tile_index(b, v));
        score_panels(a, p, full, known ? next : tsr_tile_select(b, is, next, full), v);
    }
}

MlirValue tsr_attention_limit(const tsr_attention *a, MlirValue row, MlirValue count) {
    tsr_tile_builder *b = &a->group->b;
    if (!a->causal) return count;
    MlirValue seen = tsr_tile_add(b, a->query, row);
    seen = tsr_tile_sub(b, tsr_tile_offset(b, seen, a->keys - a->queries + 1), a->key);
    return tsr_tile_min(b, count, seen);
}

MlirValue tsr_attention_unless_lowest(const tsr_attention *a, MlirValue x) {
    tsr_tile_builder *b = &a->group->b;
    MlirValue is = tsr_tile_fcompare(b, TSR_FCMP_OEQ, x, tsr_element_lowest(b, a->dtype, 0));
    return tsr_tile_select(b, is, tsr_element_zero(b, a->dtype, 0), x);
}

MlirValue tsr_attention_present(const tsr_attention *a, MlirValue count, MlirValue column,
                                uint32_t lanes) {
    tsr_tile_builder *b = &a->group->b;
    if (!a->ragged || !b->target->warp_lanes) return tsr_tile_null;
    return tsr_tile_mask(b, tsr_tile_sub(b, count, column), lanes);
}

MlirValue tsr_attention_mask(const tsr_attention *a, MlirValue x, MlirValue row, MlirValue column,
                             MlirValue limit, uint32_t lanes) {
    tsr_tile_builder *b = &a->group->b;
    MlirValue valid = tsr_tile_null, lowest = tsr_element_lowest(b, a->dtype, lanes);
    if (a->causal || a->ragged) valid = tsr_tile_mask(b, tsr_tile_sub(b, limit, column), lanes);
    x = tsr_tile_2(b, "arith.mulf", x, tsr_tile_float(b, mlirValueGetType(x), a->scale));
    if (!mlirValueIsNull(a->mask)) {
        tsr_point point = {.space = &a->mask_space,
                           .index = {a->batch_index, a->head_index, tsr_tile_add(b, a->query, row),
                                     tsr_tile_add(b, a->key, column)}};
        bool varies = a->mask_view.strides[3] != 0;
        MlirValue mask = tsr_tile_load(b, a->mask_view.dtype, a->mask,
                                       tsr_point_offset(b, &point, &a->mask_view),
                                       varies ? lanes : 0, varies ? valid : tsr_tile_null);
        mask = tsr_tile_splat(b, mask, lanes);
        x = a->mask_view.dtype == TSR_DTYPE_I1 ? tsr_tile_select(b, mask, x, lowest)
                                               : tsr_tile_2(b, "arith.addf", x, mask);
    }
    return mlirValueIsNull(valid) ? x : tsr_tile_select(b, valid, x, lowest);
}

void tsr_attention_begin_samples(tsr_attention *a) {
    tsr_tile_builder *b = &a->group->b;
    if (!a->dropout) return;
    for (size_t i = 0; i < TSR_ATTENTION_SAMPLES; i++)
        a->drawn[i] = tsr_tile_load(b, TSR_DTYPE_I64, a->samples[i],
                                    i ? tsr_tile_index(b, 0) : a->batch_index, 0, tsr_tile_null);
}

/* compiler/ir/samples.h: the position of a number is the sum of a part of the head, one of the
 * query and one of the keys. */
static MlirValue position_of_query(const tsr_attention *a, MlirValue query) {
    tsr_tile_builder *b = &a->group->b;
    int64_t tiles = tsr_divide_up(a->keys, TSR_SAMPLES_TILE);
    MlirValue tile =
        tsr_tile_mul(b, tsr_tile_div(b, query, TSR_SAMPLES_TILE), tiles * TSR_SAMPLES_TILE_NUMBERS);
    MlirValue half = tsr_tile_div(b, tsr_tile_rem(b, query, TSR_SAMPLES_TILE), 8);
    MlirValue rest = tsr_tile_mul(b, tsr_tile_rem(b, query, 8), 32);
    return tsr_tile_add(b, tile, tsr_tile_add(b, rest, tsr_tile_mul(b, half, 2)));
}

static MlirValue positions_of_keys(const tsr_attention *a, MlirValue key, uint32_t lanes) {
    /* Bits of a key and their shifts. */
    static const struct {
        int64_t mask, left;
    } parts[] = {{-TSR_SAMPLES_TILE, 4}, {6, 2}, {8, -1}, {1, 0}};
    tsr_tile_builder *b = &a->group->b;
    MlirType i64 = tsr_tile_value_type(b, TSR_DTYPE_I64, lanes);
    MlirType scalar = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    MlirValue keys = tsr_tile_splat(b, tsr_tile_to(b, "arith.index_cast", key, scalar), lanes);
    keys = tsr_tile_2(b, "arith.addi", keys, tsr_tile_iota(b, scalar, lanes));
    MlirValue position = tsr_tile_null;
    for (size_t i = 0; i < TSR_COUNT(parts); i++) {
        int64_t left = parts[i].left;
        MlirValue part = tsr_tile_2(b, "arith.andi", keys, tsr_tile_int(b, i64, parts[i].mask));
        if (left)
            part = tsr_tile_2(b, left > 0 ? "arith.shli" : "arith.shrui", part,
                              tsr_tile_int(b, i64, left > 0 ? left : -left));
        position = i ? tsr_tile_2(b, "arith.addi", position, part) : part;
    }
    return position;
}

/* The positions of counters without the part of the query: `count` lanes, four for each tile of 16
 * keys, beginning with the tile of `key`. */
static MlirValue positions_of_counters(const tsr_attention *a, MlirValue key, uint32_t count) {
    tsr_tile_builder *b = &a->group->b;
    MlirType i64 = tsr_tile_value_type(b, TSR_DTYPE_I64, count);
    MlirType scalar = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    MlirValue lane = tsr_tile_iota(b, scalar, count), three = tsr_tile_int(b, i64, 3);
    MlirValue tile =
        tsr_tile_mul(b, tsr_tile_div(b, key, TSR_SAMPLES_TILE), TSR_SAMPLES_TILE_NUMBERS);
    tile = tsr_tile_splat(b, tsr_tile_to(b, "arith.index_cast", tile, scalar), count);
    MlirValue pair = tsr_tile_2(b, "arith.andi", lane, three);
    MlirValue more = tsr_tile_2(b, "arith.subi", lane, pair); /* tiles, times 4 */
    more = tsr_tile_2(b, "arith.shli", more, tsr_tile_int(b, i64, 6));
    pair = tsr_tile_2(b, "arith.shli", pair, three);
    return tsr_tile_2(b, "arith.addi", tile, tsr_tile_2(b, "arith.addi", more, pair));
}

static MlirValue is_odd_eight(const tsr_attention *a, MlirValue position) {
    tsr_tile_builder *b = &a->group->b;
    MlirValue half = tsr_tile_div(b, tsr_tile_rem(b, position, TSR_SAMPLES_TILE), 8);
    half = tsr_tile_to(b, "arith.index_cast", half, tsr_tile_value_type(b, TSR_DTYPE_I64, 0));
    return tsr_tile_icompare(b, TSR_ICMP_NE, half, tsr_tile_int(b, mlirValueGetType(half), 0));
}

/* Computes eight keys, or whole tiles of 16 keys, beginning at `key`, a multiple of 8 or 16. Each
 * tile has four counters. */
static MlirValue mask_by_counters(const tsr_attention *a, MlirValue base, MlirValue query,
                                  MlirValue key, uint32_t lanes) {
    enum { LANES_MAX = 256 };
    tsr_tile_builder *b = &a->group->b;
    uint32_t count = lanes < TSR_SAMPLES_TILE ? 4 : lanes / TSR_SAMPLES_TILE * 4;
    MlirType i64 = tsr_tile_value_type(b, TSR_DTYPE_I64, count);
    MlirType i32 = tsr_tile_value_type(b, TSR_DTYPE_I32, lanes);
    MlirValue element = tsr_tile_2(b, "arith.addi", tsr_tile_splat(b, base, count),
                                   positions_of_counters(a, key, count));
    MlirValue words[4],
        operands[TSR_ATTENTION_SAMPLES] = {
            tsr_tile_2(b, "arith.shrui", element, tsr_tile_int(b, i64, 3)),
            tsr_tile_splat(b, a->drawn[1], count), tsr_tile_splat(b, a->drawn[2], count)};
    tsr_philox_words_build(b, a->stream, operands, count, words);
    MlirValue odd_query = is_odd_eight(a, query), pair[2];
    for (size_t i = 0; i < 2; i++) {
        pair[i] = tsr_tile_select(b, odd_query, words[2 * i + 1], words[2 * i]);
        pair[i] =
            tsr_tile_to(b, "arith.trunci", pair[i], tsr_tile_value_type(b, TSR_DTYPE_I32, count));
    }
    if (lanes < TSR_SAMPLES_TILE)
        pair[0] = pair[1] = tsr_tile_select(b, is_odd_eight(a, key), pair[1], pair[0]);
    int64_t from[LANES_MAX];
    for (uint32_t i = 0; i < lanes; i++)
        from[i] = i / TSR_SAMPLES_TILE * 4 + i % 8 / 2 + i / 8 % 2 * count;
    MlirValue word = tsr_tile_shuffle(b, pair[0], pair[1], lanes, from);
    MlirValue lane = tsr_tile_iota(b, tsr_tile_value_type(b, TSR_DTYPE_I32, 0), lanes);
    MlirValue shift = tsr_tile_2(b, "arith.andi", lane, tsr_tile_int(b, i32, 1));
    shift = tsr_tile_2(b, "arith.shli", shift, tsr_tile_int(b, i32, 4));
    word = tsr_tile_2(b, "arith.andi", tsr_tile_2(b, "arith.shrui", word, shift),
                      tsr_tile_int(b, i32, (1 << TSR_SAMPLES_BITS) - 1));
    double rate = a->dtype == TSR_DTYPE_F64 ? a->dropout : (double)(float)a->dropout;
    int64_t least = (int64_t)ceil(ldexp(rate, TSR_SAMPLES_BITS));
    return tsr_tile_icompare(b, TSR_ICMP_SGE, word, tsr_tile_int(b, i32, least));
}

MlirValue tsr_attention_drop_mask(const tsr_attention *a, MlirValue row, MlirValue column,
                                  uint32_t lanes) {
    tsr_tile_builder *b = &a->group->b;
    if (!a->dropout) return tsr_tile_null;
    MlirType i64 = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    MlirValue head = tsr_tile_to(b, "arith.index_cast", a->head_index, i64);
    head = tsr_tile_2(b, "arith.addi", head, a->drawn[0]);
    MlirValue query = tsr_tile_add(b, a->query, row), key = tsr_tile_add(b, a->key, column);
    MlirValue position = tsr_tile_to(b, "arith.index_cast", position_of_query(a, query), i64);
    position = tsr_tile_2(b, "arith.addi", position,
                          tsr_tile_2(b, "arith.muli", head, tsr_tile_int(b, i64, a->head_samples)));
    if (a->in_tiles && !b->target->warp_lanes &&
        (lanes == 8 || (lanes && lanes % TSR_SAMPLES_TILE == 0)))
        return mask_by_counters(a, position, query, key, lanes);
    MlirValue operands[TSR_ATTENTION_SAMPLES] = {
        tsr_tile_2(b, "arith.addi", tsr_tile_splat(b, position, lanes),
                   positions_of_keys(a, key, lanes)),
        tsr_tile_splat(b, a->drawn[1], lanes), tsr_tile_splat(b, a->drawn[2], lanes)};
    tsr_philox how = {.stream = a->stream, .shared = true};
    MlirValue drawn = tsr_philox_build(b, &how, operands, lanes, a->dtype);
    MlirValue rate = tsr_tile_float(b, mlirValueGetType(drawn), a->dropout);
    return tsr_tile_fcompare(b, TSR_FCMP_OGE, drawn, rate);
}

MlirValue tsr_attention_drop(const tsr_attention *a, MlirValue drop_mask, MlirValue x) {
    tsr_tile_builder *b = &a->group->b;
    MlirType type = mlirValueGetType(x);
    if (mlirValueIsNull(drop_mask)) return x;
    x = tsr_tile_2(b, "arith.mulf", x, tsr_tile_float(b, type, 1 / (1 - a->dropout)));
    return tsr_tile_select(b, drop_mask, x, tsr_tile_float(b, type, 0));
}

void tsr_attention_pack_panels(const tsr_attention *a, const tsr_attention_panels *p) {
    tsr_tile_builder *b = &a->group->b;
    const tsr_attention_side *s = p->side;
    bool odd = p->size % p->unit;
    tsr_gemm_pack pack = {.from_dtype = a->storage,
                          .to_dtype = p->to_dtype,
                          .lanes = s->lanes,
                          .from = p->from,
                          .to = p->to,
                          .from_step = p->size,
                          .to_step = s->width * p->unit,
                          .count = tsr_tile_index(b, tsr_divide_up(p->size, p->unit))};
    /* Whole panels of the matrix; then its last panel, which is narrower. */
    int64_t edge = ((a->keys - 1) % p->block_keys + 1) % s->width;
    MlirValue there = tsr_tile_sub(b, tsr_tile_index(b, a->keys), a->key);
    MlirValue whole = tsr_tile_mul(b, tsr_tile_div(b, there, s->width), s->width);
    for (int part = 0; part < (a->keys && edge ? 2 : 1); part++) {
        TSR_TILE_FOR(b, loop, part ? whole : tsr_tile_index(b, 0),
                     part ? p->columns : tsr_tile_min(b, whole, p->columns), s->width) {
            bool narrow = part && !b->target->warp_lanes;
            pack.vectors = narrow ? (uint32_t)tsr_divide_up(edge, s->lanes) : s->vectors;
            pack.columns = tsr_tile_null;
            if (part && (!narrow || edge % s->lanes))
                pack.columns = tsr_tile_sub(b, there, loop.index);
            pack.from_at = tsr_tile_add(b, p->from_at, tsr_tile_mul(b, loop.index, p->size));
            pack.to_at = tsr_tile_mul(b, loop.index, p->depth);
            if (p->unit > 1)
                tsr_dot_pack_columns(b, &pack, odd);
            else
                tsr_gemm_pack_columns(b, &pack);
        }
    }
}

void tsr_attention_pack_pairs(const tsr_attention *a, const tsr_attention_pairs *p) {
    tsr_tile_builder *b = &a->group->b;
    int64_t width = (int64_t)p->lanes * p->vectors, step = width * TSR_DOT_PAIR;
    MlirValue whole = tsr_tile_min(b, p->count, tsr_tile_div(b, p->rows, TSR_DOT_PAIR));
    tsr_tile_loop last;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, p->size), width) {
        tsr_gemm_pack pack = {.from_dtype = a->storage,
                              .to_dtype = a->storage,
                              .lanes = p->lanes,
                              .vectors = p->vectors,
                              .from = p->from,
                              .to = p->to,
                              .from_at = tsr_tile_add(b, p->from_at, loop.index),
                              .to_at =
                                  tsr_tile_mul(b, tsr_tile_div(b, loop.index, width), p->panel),
                              .from_step = p->size,
                              .to_step = step,
                              .count = whole};
        if (p->size % width) pack.columns = tsr_tile_sub(b, tsr_tile_index(b, p->size), loop.index);
        tsr_dot_pack_rows(b, &pack, false);
        if (p->odd) { /* at most one pair */
            tsr_tile_loop_begin(b, &last, whole, p->count, 1, 0, NULL);
            MlirValue row = tsr_tile_mul(b, last.index, TSR_DOT_PAIR * p->size);
            pack.from_at = tsr_tile_add(b, pack.from_at, row);
            pack.to_at = tsr_tile_add(b, pack.to_at, tsr_tile_mul(b, last.index, step));
            pack.count = tsr_tile_index(b, 1);
            tsr_dot_pack_rows(b, &pack, true);
            tsr_tile_loop_end(b, &last, NULL);
        }
    }
}
