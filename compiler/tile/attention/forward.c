/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `attention`: softmax(scale * q k^T + mask) v, one pass over keys and values.
 *
 *     for each block of queries of a head
 *         for each block of keys that the queries may see
 *             scores = q k^T, the keys' transpose packed to the stack
 *             per query: m' = max(m, largest score), p = exp(score - m'), a = exp(m - m'),
 *                        l = l a + sum of p, o = o a, m = m'
 *             o = o + p v                         (p without dropped weights)
 *         o / l is the result, m + log l the logarithm of the sum of exponentials
 *
 * The method is that of Dao et al., "FlashAttention", 2022, after Milakov and Gimelshein, "Online
 * normalizer calculation for softmax", 2018. Scores and sums are chains over ascending d and key;
 * sums of p have 64 partial results per block of keys. The size of that block follows from the
 * shapes alone, so that all targets with FMA give the same bits. The result of a query that sees no
 * key is 0.
 *
 * If there are more than 2,048 keys, o and l of each block begin at 0. The results of blocks are
 * added in groups of 32, and so are the sums of groups, like the chunks of a long product (tile.h):
 * each level has a slot of sums, and all slots are multiplied by a when m grows.
 */
#include "compiler/ir/samples.h"
#include "compiler/ir/targets/target.h"
#include "compiler/tile/attention/attention.h"
#include "compiler/tile/open.h"
#include "compiler/tile/products/dot.h"
#include "compiler/tile/reductions/reduce.h"
#include "compiler/tile/reductions/tree.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

enum {
    BLOCK_KEYS_MAX = 512,
    KEY_ELEMENTS = 32 * 1024, /* elements of a block of keys, or of values */
    BLOCK_QUERIES = 32,
    MORE_QUERIES = 64, /* on a GPU, or if keys are packed again for each block of queries */
    PROGRAMS = 32,     /* number of programs wanted: heads are split, although each part packs the
                          keys that it sees */
    GPU_HEADS = 16,    /* minimum for one program per head on a GPU; with fewer heads each block is
                          a program */
};

typedef struct attention {
    tsr_attention of;
    tsr_reduction max, sum;
    /* the plan */
    tsr_attention_side scores_side, values_side;
    int64_t block_queries, block_keys, score_stride, depth, value_panels;
    int64_t unit;   /* elements of d, and keys, in a step of a product: 2 with dot products, or 1 */
    bool online;    /* there are several blocks of keys */
    uint32_t slots; /* slots of sums of blocks; 0: chains continue from block to block */
    bool direct;    /* one block of keys, on a CPU: sums stay in registers until they are results */
    /* emission */
    MlirValue panels, scores, sums, highest, totals; /* local buffers; direct: no sums, and totals
                                                        are 1 / the totals */
    MlirValue block_sums, block_totals; /* [slot][query][e], [slot][query]; they replace `totals` */
    MlirValue carries;                  /* carries of the current block */
    MlirValue chances, value_pairs;     /* bf16, only for dot products */
    MlirValue q_at, k_at, v_at, row_at; /* offsets of the head; row_at in queries */
    MlirValue query_count, key_count;   /* sizes of the blocks */
} attention;

/* ---- plan ------------------------------------------------------------------------------------ */

static int64_t key_elements(const attention *a) {
    return tsr_round_up(a->block_keys, a->scores_side.width) * a->depth;
}

/* The number of elements of values in pairs. */
static int64_t value_elements(const attention *a) {
    return tsr_round_up(a->block_keys, TSR_DOT_PAIR) * a->value_panels * a->values_side.width;
}

static int64_t stack_bytes(const attention *a) {
    int64_t size = (int64_t)tsr_dtype_size(a->of.dtype), narrow = size / TSR_DOT_PAIR;
    int64_t sums = a->direct ? 0 : a->value_panels * a->values_side.width;
    int64_t per_query = a->score_stride + sums + 2 + a->slots * (sums + 1);
    int64_t queries = a->block_queries * per_query * size;
    if (a->unit == 1) return queries + key_elements(a) * size;
    return queries +
           (key_elements(a) + value_elements(a) + a->block_queries * a->score_stride) * narrow;
}

/* The smallest number of rows that is a multiple of the tiles of both products. */
static int64_t whole_tiles(const attention *a) {
    int64_t unit = a->scores_side.rows;
    while (unit % a->values_side.rows) unit += a->scores_side.rows;
    return unit;
}

/* Plans the best tile of each product. If blocks that are multiples of both tiles would be large,
 * the number of rows of the second tile divides that of the first tile. */
static void plan_sides(attention *a) {
    const tsr_attention *of = &a->of;
    tsr_attention_plan_side(of, of->queries, a->block_keys, 0, &a->scores_side);
    tsr_attention_plan_side(of, of->queries, of->e, 0, &a->values_side);
    if (whole_tiles(a) > BLOCK_QUERIES && !of->group->b.target->warp_lanes)
        tsr_attention_plan_side(of, of->queries, of->e, a->scores_side.rows, &a->values_side);
}

static tsr_result plan(attention *a) {
    int64_t size = a->of.d > a->of.e ? a->of.d : a->of.e, limit = KEY_ELEMENTS / (size ? size : 1);
    limit = limit / TSR_PARTIALS * TSR_PARTIALS;
    if (limit < TSR_PARTIALS) limit = TSR_PARTIALS;
    if (limit > BLOCK_KEYS_MAX) limit = BLOCK_KEYS_MAX;
    a->block_keys = tsr_gemm_part(a->of.keys, limit, TSR_PARTIALS);
    if (!a->block_keys) a->block_keys = TSR_PARTIALS;
    a->online = a->of.keys > a->block_keys;
    a->direct = !a->online && !a->of.group->b.target->warp_lanes;
    if (a->online && tsr_product_is_long(a->of.keys))
        a->slots = tsr_product_slots(tsr_divide_up(a->of.keys, a->block_keys));
    a->of.ragged = a->of.keys % TSR_PARTIALS != 0;
    a->of.in_tiles = a->block_keys % TSR_SAMPLES_TILE == 0 || !a->online;
    plan_sides(a);
    a->value_panels = tsr_divide_up(a->of.e, a->values_side.width);
    a->depth =
        tsr_divide_up(a->of.d, a->scores_side.lanes * a->unit) * a->scores_side.lanes * a->unit;
    int64_t wide = tsr_round_up(a->block_keys, a->scores_side.width);
    a->score_stride = tsr_round_up(wide, TSR_PARTIALS);
    int64_t unit = whole_tiles(a);
    bool more = a->online || a->of.group->b.target->warp_lanes;
    a->block_queries = tsr_gemm_part(a->of.queries, more ? MORE_QUERIES : BLOCK_QUERIES, unit);
    while (stack_bytes(a) > TSR_ATTENTION_STACK_BYTES && a->block_queries > unit)
        a->block_queries = tsr_round_up(a->block_queries / 2, unit);
    if (stack_bytes(a) > TSR_ATTENTION_STACK_BYTES)
        FAIL(a->of.group->ctx, TSR_COMPILE,
             "'%s': heads of %" PRId64 " and %" PRId64 " numbers are too large", a->of.group->name,
             a->of.d, a->of.e);
    int64_t sizes[] = {a->scores_side.rows, a->scores_side.width, a->block_queries, a->block_keys};
    memcpy(a->of.group->tile, sizes, sizeof sizes);
    a->of.group->tile_count = TSR_COUNT(sizes);
    return TSR_SUCCESS;
}

/* ---- the two products ------------------------------------------------------------------------ */

static void pack_keys(attention *a) {
    tsr_tile_builder *b = &a->of.group->b;
    tsr_attention_panels panels = {
        .side = &a->scores_side,
        .unit = a->unit,
        .to_dtype = a->of.dtype,
        .from = a->of.k,
        .from_at = tsr_tile_add(b, a->k_at, tsr_tile_mul(b, a->of.key, a->of.d)),
        .size = a->of.d,
        .to = a->panels,
        .depth = a->depth,
        .columns = a->key_count,
        .block_keys = a->block_keys};
    tsr_attention_pack_panels(&a->of, &panels);
}

/* Packs the block's values in pairs. If the number of keys is odd, the last one is paired with the
 * next key, which no query sees, or with zeros. */
static void pack_values(attention *a) {
    tsr_tile_builder *b = &a->of.group->b;
    const tsr_attention_side *s = &a->values_side;
    tsr_attention_pairs pairs = {
        .from = a->of.v,
        .to = a->value_pairs,
        .from_at = tsr_tile_add(b, a->v_at, tsr_tile_mul(b, a->of.key, a->of.e)),
        .size = a->of.e,
        .count = tsr_tile_div(b, tsr_tile_offset(b, a->key_count, 1), TSR_DOT_PAIR),
        .rows = tsr_tile_sub(b, tsr_tile_index(b, a->of.keys), a->of.key),
        .odd = a->of.keys % TSR_DOT_PAIR,
        .lanes = s->lanes,
        .vectors = s->vectors,
        .panel = tsr_round_up(a->block_keys, TSR_DOT_PAIR) * s->width};
    tsr_attention_pack_pairs(&a->of, &pairs);
}

static void multiply_scores(attention *a) {
    tsr_tile_builder *b = &a->of.group->b;
    MlirValue first = tsr_tile_mul(b, a->of.query, a->of.d);
    tsr_attention_scores scores = {.side = &a->scores_side,
                                   .unit = a->unit,
                                   .a = a->of.q,
                                   .a_at = tsr_tile_add(b, a->q_at, first),
                                   .size = a->of.d,
                                   .panels = a->panels,
                                   .depth = a->depth,
                                   .to = a->scores,
                                   .stride = a->score_stride,
                                   .rows = a->query_count,
                                   .columns = a->key_count};
    tsr_attention_multiply_scores(&a->of, &scores);
}

static int64_t sums_width(const attention *a) { return a->value_panels * a->values_side.width; }

static MlirValue sum_at(attention *a, MlirValue row, MlirValue column) {
    tsr_tile_builder *b = &a->of.group->b;
    return tsr_tile_add(b, tsr_tile_mul(b, row, sums_width(a)), column);
}

static tsr_product_sums sums_of_blocks(const attention *a) {
    return (tsr_product_sums){.dtype = a->of.dtype,
                              .buffer = a->block_sums,
                              .slot = a->block_queries * sums_width(a),
                              .slots = a->slots};
}

static tsr_product_sums totals_of_blocks(const attention *a) {
    return (tsr_product_sums){.dtype = a->of.dtype,
                              .buffer = a->block_totals,
                              .slot = a->block_queries,
                              .slots = a->slots};
}

/* Stores a tile of sums divided by their totals. */
static void store_results(attention *a, MlirValue column, MlirValue row, int64_t rows,
                          const MlirValue *tile, const MlirValue *masks) {
    tsr_tile_builder *b = &a->of.group->b;
    const tsr_attention_side *s = &a->values_side;
    MlirValue result = a->of.group->buffers[a->of.group->input_count];
    MlirValue query = tsr_tile_add(b, a->row_at, tsr_tile_add(b, a->of.query, row));
    MlirValue to = tsr_tile_add(b, tsr_tile_mul(b, query, a->of.e), column);
    for (int64_t i = 0; i < rows; i++) {
        MlirValue inverse =
            tsr_tile_load(b, a->of.dtype, a->totals, tsr_tile_offset(b, row, i), 0, tsr_tile_null);
        for (uint32_t v = 0; v < s->vectors; v++) {
            MlirValue value = tsr_tile_2(b, "arith.mulf", tile[i * s->vectors + v],
                                         tsr_tile_splat(b, inverse, s->lanes));
            tsr_tile_store(b, a->of.storage, value, result,
                           tsr_tile_offset(b, to, i * a->of.e + v * s->lanes), masks[v]);
        }
    }
}

static void value_tile(attention *a, MlirValue column, MlirValue row, int64_t rows) {
    tsr_tile_builder *b = &a->of.group->b;
    const tsr_attention_side *s = &a->values_side;
    MlirValue tile[TSR_GEMM_TILE_MAX], masks[TSR_TILE_VECTORS_MAX];
    int64_t stride = sums_width(a);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, a->of.e), column),
              to = sum_at(a, row, column);
    for (uint32_t v = 0; v < s->vectors; v++)
        masks[v] =
            a->of.e % s->width
                ? tsr_tile_mask(b, tsr_tile_offset(b, left, -(int64_t)(v * s->lanes)), s->lanes)
                : tsr_tile_null;
    MlirValue from = tsr_tile_add(b, a->v_at, tsr_tile_mul(b, a->of.key, a->of.e));
    tsr_gemm_tile gemm = {.a_dtype = a->of.dtype,
                          .b_dtype = a->of.storage,
                          .lanes = s->lanes,
                          .vectors = s->vectors,
                          .rows = rows,
                          .a = a->scores,
                          .b = a->of.v,
                          .a_at = tsr_tile_mul(b, row, a->score_stride),
                          .a_row = a->score_stride,
                          .a_step = 1,
                          .b_at = tsr_tile_add(b, from, column),
                          .b_step = a->of.e,
                          .masks = masks};
    for (int64_t i = 0; i < rows * s->vectors; i++) {
        int64_t at = i / s->vectors * stride + i % s->vectors * s->lanes;
        tile[i] = a->direct ? tsr_element_zero(b, a->of.dtype, s->lanes)
                            : tsr_tile_load(b, a->of.dtype, a->sums, tsr_tile_offset(b, to, at),
                                            s->lanes, tsr_tile_null);
    }
    MlirValue diagonal = tsr_attention_diagonal(&a->of);
    tsr_attention_steps steps = {.edge = TSR_EDGE_END,
                                 .first = tsr_tile_offset(b, tsr_tile_sub(b, row, diagonal), 1),
                                 .count = a->key_count,
                                 .unit = a->unit};
    if (a->unit > 1) {
        gemm.a = a->chances;
        gemm.a_step = a->unit;
        gemm.b = a->value_pairs;
        gemm.b_at = tsr_tile_mul(b, column, tsr_round_up(a->block_keys, a->unit));
        gemm.b_step = s->width * a->unit;
        steps.count = tsr_tile_div(b, tsr_tile_offset(b, a->key_count, 1), TSR_DOT_PAIR);
    }
    tsr_attention_multiply(&a->of, &gemm, &steps, tile);
    if (a->direct) {
        store_results(a, column, row, rows, tile, masks);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        for (uint32_t v = 0; v < s->vectors; v++)
            tsr_tile_store(b, a->of.dtype, tile[i * s->vectors + v], a->sums,
                           tsr_tile_offset(b, to, i * stride + v * s->lanes), tsr_tile_null);
}

/* Multiplies the tiles of the block's queries from `first` on: whole tiles, then the rest of the
 * last block. */
static void multiply_values(attention *a, MlirValue first) {
    tsr_tile_builder *b = &a->of.group->b;
    const tsr_attention_side *s = &a->values_side;
    int64_t edge = a->of.queries % s->rows;
    MlirValue whole = tsr_tile_sub(b, a->query_count, tsr_tile_rem(b, a->query_count, s->rows));
    TSR_TILE_FOR(b, columns, tsr_tile_index(b, 0), tsr_tile_index(b, a->of.e), s->width) {
        for (int part = 0; part < 2; part++) {
            int64_t rows = part ? edge : s->rows;
            if (!rows) continue;
            TSR_TILE_FOR(b, loop, part ? whole : first, part ? a->query_count : whole, rows) {
                value_tile(a, columns.index, loop.index, rows);
            }
        }
    }
}

/* ---- rows between the products --------------------------------------------------------------- */

/* Multiplies the vector at `at` of a buffer by `factor`, or the element if `lanes` is 0. */
static void rescale(attention *a, MlirValue buffer, MlirValue at, uint32_t lanes,
                    MlirValue factor) {
    tsr_tile_builder *b = &a->of.group->b;
    MlirValue value = tsr_tile_load(b, a->of.dtype, buffer, at, lanes, tsr_tile_null);
    if (lanes) factor = tsr_tile_splat(b, factor, lanes);
    value = tsr_tile_2(b, "arith.mulf", value, factor);
    tsr_tile_store(b, a->of.dtype, value, buffer, at, tsr_tile_null);
}

static void rescale_sums(attention *a, MlirValue row, MlirValue factor) {
    tsr_tile_builder *b = &a->of.group->b;
    uint32_t lanes = a->values_side.lanes;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, sums_width(a)), lanes) {
        MlirValue at = sum_at(a, row, loop.index);
        if (!a->slots) rescale(a, a->sums, at, lanes, factor);
        for (uint32_t slot = 0; slot < a->slots; slot++)
            rescale(a, a->block_sums, tsr_tile_offset(b, at, slot * sums_of_blocks(a).slot), lanes,
                    factor);
    }
}

/* Adds the sum of exponentials of a block to the earlier sums, which are multiplied by `factor`
 * first. */
static void push_total(attention *a, MlirValue row, MlirValue factor, MlirValue total) {
    static const int64_t here[] = {0};
    tsr_tile_builder *b = &a->of.group->b;
    tsr_product_sums sums = totals_of_blocks(a);
    tsr_product_offsets where = {.at = row, .offsets = here, .count = 1};
    for (uint32_t slot = 0; slot < a->slots; slot++)
        rescale(a, a->block_totals, tsr_tile_offset(b, row, slot * sums.slot), 0, factor);
    tsr_product_push(b, &sums, &where, a->carries, &total);
}

/* Adds the products of a block's weights and values to the earlier sums, and sets them to 0. */
static void push_sums(attention *a, MlirValue first) {
    static const int64_t here[] = {0};
    tsr_tile_builder *b = &a->of.group->b;
    uint32_t lanes = a->values_side.lanes;
    tsr_product_sums sums = sums_of_blocks(a);
    TSR_TILE_FOR(b, rows, first, a->query_count, 1) {
        TSR_TILE_FOR(b, columns, tsr_tile_index(b, 0), tsr_tile_index(b, sums_width(a)), lanes) {
            tsr_product_offsets where = {.at = sum_at(a, rows.index, columns.index),
                                         .offsets = here,
                                         .count = 1,
                                         .lanes = lanes};
            MlirValue sum = tsr_tile_load(b, a->of.dtype, a->sums, where.at, lanes, tsr_tile_null);
            tsr_product_push(b, &sums, &where, a->carries, &sum);
            tsr_tile_store(b, a->of.dtype, tsr_element_zero(b, a->of.dtype, lanes), a->sums,
                           where.at, tsr_tile_null);
        }
    }
}

/* Stores exponentials of `lanes` scores of the query from `column` on; dropped ones become 0. */
static void store_chances(attention *a, MlirValue x, MlirValue row, MlirValue column,
                          uint32_t lanes) {
    tsr_tile_builder *b = &a->of.group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, row, a->score_stride), column);
    x = tsr_attention_drop(&a->of, tsr_attention_drop_mask(&a->of, row, column, lanes), x);
    if (a->unit > 1)
        tsr_tile_store(b, a->of.storage, tsr_dot_round(b, x), a->chances, at, tsr_tile_null);
    else
        tsr_tile_store(b, a->of.dtype, x, a->scores, at, tsr_tile_null);
}

/* The number of keys that products read for a query that sees `limit` keys of the block. */
static MlirValue row_end(attention *a, MlirValue limit) {
    tsr_tile_builder *b = &a->of.group->b;
    int64_t beyond = tsr_round_up(a->values_side.rows, a->unit);
    if (!a->of.cut) return a->key_count;
    return tsr_tile_min(b, a->key_count, tsr_tile_offset(b, limit, beyond));
}

/* Walks once over the scores of one query. Finds their maximum, or computes their exponentials,
 * adds them up and stores those that are not dropped. Both walks scale and mask the scores,
 * which takes less time than to write them back. */
static MlirValue walk_row(attention *a, tsr_reduction *how, MlirValue row, MlirValue limit,
                          MlirValue shift) {
    tsr_tile_builder *b = &a->of.group->b;
    tsr_partials partials;
    tsr_partials_init(how, TSR_PARTIALS,
                      tsr_lanes_in_flight(b, (uint32_t)tsr_dtype_size(a->of.dtype)), &partials);
    uint32_t lanes = partials.lanes;
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0), row_end(a, limit), TSR_PARTIALS,
                         partials.count, partials.values) {
        for (uint32_t part = 0; part < partials.count; part++) {
            MlirValue column = tsr_tile_offset(b, loop.index, part * lanes);
            MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, row, a->score_stride), column);
            MlirValue there = tsr_attention_present(&a->of, a->key_count, column, lanes);
            MlirValue x = tsr_tile_load(b, a->of.dtype, a->scores, at, lanes, there);
            x = tsr_attention_mask(&a->of, x, row, column, limit, lanes);
            if (how == &a->sum) {
                x = tsr_tile_2(b, "arith.subf", x, tsr_tile_splat(b, shift, lanes));
                x = tsr_tile_exp_shifted(b, x);
                store_chances(a, x, row, column, lanes);
            }
            partials.values[part] = tsr_reduction_combine(how, partials.values[part], x);
        }
    }
    return tsr_partials_tree(how, &partials);
}

/* Stores the logarithm of a query's sum of exponentials, if it is an output. Returns 1 / the sum,
 * so that a query needs one division; the function returns 1 if the sum is 0. */
static MlirValue finish_row(attention *a, MlirValue row, MlirValue total, MlirValue shift) {
    tsr_tile_builder *b = &a->of.group->b;
    const MlirValue *outputs = a->of.group->buffers + a->of.group->input_count;
    MlirValue query = tsr_tile_add(b, a->row_at, tsr_tile_add(b, a->of.query, row));
    if (a->of.group->output_count == 2) {
        MlirValue sum = tsr_tile_2(b, "arith.addf", tsr_tile_1(b, "math.log", total), shift);
        tsr_tile_store(b, a->of.dtype, sum, outputs[1], query, tsr_tile_null);
    }
    MlirValue one = tsr_element_one(b, a->of.dtype, 0);
    MlirValue none = tsr_tile_fcompare(b, TSR_FCMP_OEQ, total, tsr_element_zero(b, a->of.dtype, 0));
    return tsr_tile_2(b, "arith.divf", one, tsr_tile_select(b, none, one, total));
}

/* Replaces the scores of one query by exp(score - m'). */
static void soften_row(attention *a, MlirValue row) {
    tsr_tile_builder *b = &a->of.group->b;
    MlirValue limit = tsr_attention_limit(&a->of, row, a->key_count);
    MlirValue before = tsr_tile_null, highest = walk_row(a, &a->max, row, limit, tsr_tile_null);
    if (!a->direct) {
        before = tsr_tile_load(b, a->of.dtype, a->highest, row, 0, tsr_tile_null);
        highest = tsr_element_max(b, a->of.dtype, before, highest);
    }
    MlirValue shift = tsr_attention_unless_lowest(&a->of, highest);
    MlirValue total = walk_row(a, &a->sum, row, limit, shift);
    if (a->online) {
        MlirValue factor = tsr_tile_exp_shifted(b, tsr_tile_2(b, "arith.subf", before, shift));
        rescale_sums(a, row, factor);
        if (a->slots) {
            push_total(a, row, factor, total);
        } else {
            MlirValue old = tsr_tile_load(b, a->of.dtype, a->totals, row, 0, tsr_tile_null);
            total = tsr_tile_3(b, "math.fma", old, factor, total);
        }
    }
    if (a->direct)
        total = finish_row(a, row, total, shift);
    else
        tsr_tile_store(b, a->of.dtype, highest, a->highest, row, tsr_tile_null);
    if (!a->slots) tsr_tile_store(b, a->of.dtype, total, a->totals, row, tsr_tile_null);
}

static void clear_rows(attention *a) {
    static const int64_t here[] = {0};
    tsr_tile_builder *b = &a->of.group->b;
    uint32_t lanes = a->values_side.lanes;
    tsr_product_sums sums = sums_of_blocks(a), totals = totals_of_blocks(a);
    tsr_product_offsets where = {.offsets = here, .count = 1};
    MlirValue zero = tsr_tile_index(b, 0);
    TSR_TILE_FOR(b, rows, zero, a->query_count, 1) {
        tsr_tile_store(b, a->of.dtype, tsr_element_lowest(b, a->of.dtype, 0), a->highest,
                       rows.index, tsr_tile_null);
        tsr_tile_store(b, a->of.dtype, tsr_element_zero(b, a->of.dtype, 0), a->totals, rows.index,
                       tsr_tile_null);
        where.at = rows.index;
        tsr_product_clear(b, &totals, &where);
        TSR_TILE_FOR(b, columns, zero, tsr_tile_index(b, sums_width(a)), lanes) {
            where.at = sum_at(a, rows.index, columns.index);
            where.lanes = lanes;
            tsr_tile_store(b, a->of.dtype, tsr_element_zero(b, a->of.dtype, lanes), a->sums,
                           where.at, tsr_tile_null);
            tsr_product_clear(b, &sums, &where);
        }
    }
}

static MlirValue finished_total(attention *a, MlirValue row) {
    static const int64_t here[] = {0};
    tsr_tile_builder *b = &a->of.group->b;
    MlirValue total = tsr_element_zero(b, a->of.dtype, 0);
    if (!a->slots) return tsr_tile_load(b, a->of.dtype, a->totals, row, 0, tsr_tile_null);
    tsr_product_sums sums = totals_of_blocks(a);
    tsr_product_offsets where = {.at = row, .offsets = here, .count = 1};
    tsr_product_finish(b, &sums, &where, &total);
    return total;
}

static MlirValue finished_sum(attention *a, MlirValue row, MlirValue column) {
    static const int64_t here[] = {0};
    tsr_tile_builder *b = &a->of.group->b;
    uint32_t lanes = a->values_side.lanes;
    MlirValue at = sum_at(a, row, column), sum = tsr_element_zero(b, a->of.dtype, lanes);
    if (!a->slots) return tsr_tile_load(b, a->of.dtype, a->sums, at, lanes, tsr_tile_null);
    tsr_product_sums sums = sums_of_blocks(a);
    tsr_product_offsets where = {.at = at, .offsets = here, .count = 1, .lanes = lanes};
    tsr_product_finish(b, &sums, &where, &sum);
    return sum;
}

static void finish_rows(attention *a) {
    tsr_tile_builder *b = &a->of.group->b;
    uint32_t lanes = a->values_side.lanes;
    const MlirValue *outputs = a->of.group->buffers + a->of.group->input_count;
    MlirValue zero = tsr_tile_index(b, 0);
    TSR_TILE_FOR(b, rows, zero, a->query_count, 1) {
        MlirValue query = tsr_tile_add(b, a->row_at, tsr_tile_add(b, a->of.query, rows.index));
        MlirValue total = finished_total(a, rows.index);
        MlirValue highest = tsr_tile_load(b, a->of.dtype, a->highest, rows.index, 0, tsr_tile_null);
        MlirValue inverse =
            finish_row(a, rows.index, total, tsr_attention_unless_lowest(&a->of, highest));
        TSR_TILE_FOR(b, columns, zero, tsr_tile_index(b, a->of.e), lanes) {
            MlirValue value = finished_sum(a, rows.index, columns.index);
            value = tsr_tile_2(b, "arith.mulf", value, tsr_tile_splat(b, inverse, lanes));
            MlirValue mask = tsr_tile_null;
            if (a->of.e % lanes)
                mask = tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, a->of.e), columns.index),
                                     lanes);
            tsr_tile_store(b, a->of.storage, value, outputs[0],
                           tsr_tile_add(b, tsr_tile_mul(b, query, a->of.e), columns.index), mask);
        }
    }
}

/* ---- a program ------------------------------------------------------------------------------- */

static void emit_key_block(attention *a, MlirValue end) {
    tsr_tile_builder *b = &a->of.group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    a->key_count = tsr_tile_index(b, a->block_keys);
    if (a->of.causal || !a->of.keys || a->of.keys % a->block_keys)
        a->key_count = tsr_tile_min(b, a->key_count, tsr_tile_sub(b, end, a->of.key));
    if (a->online) pack_keys(a);
    if (a->online && a->unit > 1) pack_values(a);
    if (a->slots)
        a->carries = tsr_product_carries(b, tsr_tile_div(b, a->of.key, a->block_keys),
                                         tsr_divide_up(a->of.keys, a->block_keys));
    multiply_scores(a);
    MlirValue first = zero; /* queries that see no key get zeros, too */
    if (!a->direct) first = tsr_attention_first_row(&a->of, zero, a->values_side.rows);
    TSR_TILE_FOR(b, loop, first, a->query_count, 1) { soften_row(a, loop.index); }
    multiply_values(a, first);
    if (a->slots) push_sums(a, first);
}

/* The number of keys that the queries below `end` see together. */
static MlirValue keys_seen(attention *a, MlirValue end) {
    tsr_tile_builder *b = &a->of.group->b;
    MlirValue keys = tsr_tile_index(b, a->of.keys);
    if (!a->of.causal) return keys;
    MlirValue seen = tsr_tile_offset(b, end, a->of.keys - a->of.queries);
    if (a->of.keys < a->of.queries) /* no negative count */
        seen = tsr_attention_at_least_0(&a->of, seen);
    return tsr_tile_min(b, keys, seen);
}

static void emit_query_block(attention *a, MlirValue query) {
    tsr_tile_builder *b = &a->of.group->b;
    a->of.query = query;
    a->query_count = tsr_tile_min(b, tsr_tile_index(b, a->block_queries),
                                  tsr_tile_sub(b, tsr_tile_index(b, a->of.queries), query));
    if (a->of.queries % a->block_queries == 0) a->query_count = tsr_tile_index(b, a->block_queries);
    MlirValue end = keys_seen(a, tsr_tile_add(b, query, a->query_count));
    if (a->direct) {
        a->of.key = tsr_tile_index(b, 0);
        emit_key_block(a, end);
        return;
    }
    clear_rows(a);
    TSR_TILE_FOR(b, keys, tsr_tile_index(b, 0), end, a->block_keys) {
        a->of.key = keys.index;
        emit_key_block(a, end);
    }
    finish_rows(a);
}

static void make_locals(attention *a) {
    tsr_tile_builder *b = &a->of.group->b;
    MlirType type = tsr_tile_storage_type(b, a->of.dtype);
    MlirType narrow = tsr_tile_storage_type(b, a->of.storage);
    a->panels = tsr_tile_local(b, a->unit > 1 ? narrow : type, key_elements(a));
    if (a->unit > 1) {
        a->value_pairs = tsr_tile_local(b, narrow, value_elements(a));
        a->chances = tsr_tile_local(b, narrow, a->block_queries * a->score_stride);
    }
    a->scores = tsr_tile_local(b, type, a->block_queries * a->score_stride);
    if (!a->direct) {
        a->sums = tsr_tile_local(b, type, a->block_queries * sums_width(a));
        a->highest = tsr_tile_local(b, type, a->block_queries);
    }
    a->totals = tsr_tile_local(b, type, a->block_queries);
    if (!a->slots) return;
    a->block_sums = tsr_tile_local(b, type, a->slots * a->block_queries * sums_width(a));
    a->block_totals = tsr_tile_local(b, type, a->slots * a->block_queries);
}

static void emit(attention *a) {
    tsr_tile_builder *b = &a->of.group->b;
    int64_t blocks = tsr_divide_up(a->of.queries, a->block_queries),
            heads = a->of.batch * a->of.heads;
    int64_t part_blocks = tsr_divide_up(blocks, tsr_divide_up(PROGRAMS, heads));
    if (b->target->warp_lanes) part_blocks = heads >= GPU_HEADS ? blocks : 1;
    int64_t parts = tsr_divide_up(blocks, part_blocks),
            part_queries = part_blocks * a->block_queries;
    make_locals(a);
    a->of.group->grid = heads * parts;
    tsr_tile_open_grid(a->of.group, heads, 1, parts);
    MlirValue pid = a->of.group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    MlirValue head = tsr_tile_div(b, pid, parts);
    a->of.batch_index = tsr_tile_div(b, head, a->of.heads);
    a->of.head_index = tsr_tile_rem(b, head, a->of.heads);
    tsr_attention_begin_samples(&a->of);
    MlirValue key_head = tsr_tile_div(b, a->of.head_index, a->of.heads / a->of.key_heads);
    key_head = tsr_tile_add(b, tsr_tile_mul(b, a->of.batch_index, a->of.key_heads), key_head);
    a->row_at = tsr_tile_mul(b, head, a->of.queries);
    a->q_at = tsr_tile_mul(b, a->row_at, a->of.d);
    a->k_at = tsr_tile_mul(b, key_head, a->of.keys * a->of.d);
    a->v_at = tsr_tile_mul(b, key_head, a->of.keys * a->of.e);
    MlirValue first = tsr_tile_mul(b, tsr_tile_rem(b, pid, parts), part_queries);
    MlirValue end =
        tsr_tile_min(b, tsr_tile_offset(b, first, part_queries), tsr_tile_index(b, a->of.queries));
    if (!a->online) {
        a->of.key = tsr_tile_index(b, 0);
        a->key_count = keys_seen(a, end);
        pack_keys(a);
        if (a->unit > 1) pack_values(a);
    }
    TSR_TILE_FOR(b, loop, first, end, a->block_queries) { emit_query_block(a, loop.index); }
}

tsr_result tsr_tile_lower_attention(tsr_tile_group *group) {
    attention a = {0};
    TRY(group->ctx, tsr_attention_read(group, 3, &a.of));
    if (group->output_count > 2)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed attention", group->name);
    a.unit = group->has_dot && a.of.storage == TSR_DTYPE_BF16 ? TSR_DOT_PAIR : 1;
    a.max = (tsr_reduction){.group = group, .dtype = a.of.dtype, .op = &tsr_reduction_max_number};
    a.sum = (tsr_reduction){.group = group, .dtype = a.of.dtype, .op = &tsr_reduction_sum};
    if (!a.of.batch || !a.of.heads || !a.of.queries) return TSR_SUCCESS;
    TRY(group->ctx, plan(&a));
    emit(&a);
    if (a.unit > 1) tsr_dot_round_all(&group->b, group->b.at.block);
    return TSR_SUCCESS;
}
