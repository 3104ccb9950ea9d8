/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/ir/samples.h"
#include "compiler/ir/targets/target.h"
#include "compiler/tile/attention/gradient.h"
#include "compiler/tile/products/dot.h"
#include "compiler/tile/reductions/tree.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

enum {
    BLOCK_KEYS = 192, /* maximum, if the second-level cache has capacity for two blocks */
    BLOCK_QUERIES = 128,
    GPU_BLOCK_KEYS = 96,
    GPU_BLOCK_QUERIES = 64,
    CHUNK = 96, /* maximum number of keys or queries */
    CHUNK_ELEMENTS = CHUNK * 256,
};

enum { RESULT = 3, LOGSUMEXP, DRESULT, MASK, GRADIENTS = 3 };

static int64_t multiple(int64_t a, int64_t b) {
    int64_t unit = a;
    while (unit % b) unit += a;
    return unit;
}

/* ---- plan ------------------------------------------------------------------------------------ */

int64_t tsr_attention_grad_panel_elements(const tsr_attention_grad *g, int64_t depth) {
    return tsr_round_up(g->block_keys, g->scores.width) * depth;
}

static void plan_sizes(tsr_attention_grad *g, int64_t keys, int64_t queries, int64_t key_unit) {
    g->block_keys = tsr_gemm_part(g->of.keys, keys, key_unit);
    g->block_queries = tsr_gemm_part(g->of.queries, queries, g->query_unit);
    g->score_stride =
        tsr_round_up(tsr_round_up(g->block_keys, g->scores.width), TSR_PARTIALS) + g->apart;
}

/* The number of keys or queries of a chunk. This number depends only on the shapes, and limits the
 * stack. */
static int64_t chunk_of(int64_t d, int64_t e, size_t element_bytes) {
    int64_t chunk = CHUNK,
            elements = CHUNK_ELEMENTS * (int64_t)sizeof(float) / (int64_t)element_bytes;
    while (chunk % 2 == 0 && chunk * (d + e) > elements) chunk /= 2;
    return chunk;
}

uint32_t tsr_attention_grad_key_slots(const tsr_type *query, const tsr_type *key,
                                      const tsr_type *value) {
    int64_t keys = (int64_t)key->shape.dims[2], d = (int64_t)query->shape.dims[3];
    int64_t e = (int64_t)value->shape.dims[3];
    size_t bytes = tsr_dtype_size(query->dtype);
    if (bytes < sizeof(float)) bytes = sizeof(float);
    if (!tsr_product_is_long(keys)) return 0;
    return tsr_product_slots(tsr_divide_up(keys, chunk_of(d, e, bytes)));
}

/* Each block is one chunk; the tiles of all products divide it. */
static void plan_chunks(tsr_attention_grad *g) {
    tsr_attention *of = &g->of;
    int64_t chunk = chunk_of(of->d, of->e, tsr_dtype_size(of->dtype));
    tsr_attention_plan_side(of, of->queries, chunk, chunk, &g->scores);
    tsr_attention_plan_side(of, of->keys, of->d, chunk, &g->keys);
    tsr_attention_plan_side(of, of->keys, of->e, chunk, &g->values);
    g->query_unit = multiple(g->scores.rows, g->keys.rows);
    g->key_depth = tsr_round_up(of->d, g->scores.lanes);
    g->value_depth = tsr_round_up(of->e, g->scores.lanes);
    g->block_keys = of->keys < chunk ? of->keys : chunk;
    g->block_queries = of->queries < chunk ? of->queries : chunk;
    g->score_stride =
        tsr_round_up(tsr_round_up(g->block_keys, g->scores.width), TSR_PARTIALS) + g->apart;
}

static int64_t query_chunks(const tsr_attention_grad *g) {
    const tsr_attention *of = &g->of;
    return of->heads / of->key_heads * tsr_divide_up(of->queries, g->block_queries);
}

/* Blocks consist of whole tiles of all products, and of whole panels if these are not much
 * larger. */
static void plan_blocks(tsr_attention_grad *g, const tsr_attention_blocks *blocks) {
    tsr_attention *of = &g->of;
    const tsr_target *target = of->group->b.target;
    int64_t keys = target->warp_lanes ? GPU_BLOCK_KEYS : BLOCK_KEYS;
    int64_t queries = target->warp_lanes ? GPU_BLOCK_QUERIES : BLOCK_QUERIES;
    int64_t limit = TSR_ATTENTION_STACK_BYTES;
    if (!target->warp_lanes && tsr_gemm_second_level(target) / 2 < limit)
        limit = tsr_gemm_second_level(target) / 2;
    tsr_attention_plan_side(of, of->queries, keys, 0, &g->scores);
    tsr_attention_plan_side(of, of->keys, of->d, 0, &g->keys);
    tsr_attention_plan_side(of, of->keys, of->e, 0, &g->values);
    int64_t key_unit = multiple(multiple(g->keys.rows, g->values.rows), g->unit);
    g->query_unit = multiple(multiple(g->scores.rows, g->keys.rows), g->unit);
    if (multiple(key_unit, g->scores.width) <= keys) key_unit = multiple(key_unit, g->scores.width);
    g->key_depth = tsr_round_up(of->d, g->scores.lanes * g->unit);
    g->value_depth = tsr_round_up(of->e, g->scores.lanes * g->unit);
    plan_sizes(g, keys, queries, key_unit);
    while (blocks->stack_bytes(g) > limit && (keys > key_unit || queries > g->query_unit)) {
        if (keys > key_unit)
            keys = keys / 2 > key_unit ? keys / 2 : key_unit;
        else
            queries = queries / 2 > g->query_unit ? queries / 2 : g->query_unit;
        plan_sizes(g, keys, queries, key_unit);
    }
}

static tsr_result plan(tsr_attention_grad *g, const tsr_attention_blocks *blocks) {
    tsr_attention *of = &g->of;
    int64_t queries = of->heads / of->key_heads * of->queries;
    bool is_long = tsr_product_is_long(of->keys) || tsr_product_is_long(queries);
    if (is_long && g->unit == 1 && of->queries && of->keys) {
        plan_chunks(g);
        if (tsr_product_is_long(of->keys))
            g->key_slots = tsr_product_slots(tsr_divide_up(of->keys, g->block_keys));
        if (tsr_product_is_long(queries)) g->query_slots = tsr_product_slots(query_chunks(g));
    } else {
        plan_blocks(g, blocks);
    }
    if (blocks->stack_bytes(g) > TSR_ATTENTION_STACK_BYTES)
        FAIL(of->group->ctx, TSR_COMPILE,
             "'%s': heads of %" PRId64 " and %" PRId64 " numbers are too large", of->group->name,
             of->d, of->e);
    int64_t lanes = tsr_attention_grad_row_lanes(g);
    of->ragged = of->keys % lanes || g->block_keys % lanes;
    of->in_tiles = of->keys <= g->block_keys || g->block_keys % TSR_SAMPLES_TILE == 0;
    int64_t sizes[] = {g->scores.rows, g->scores.width, g->block_queries, g->block_keys};
    memcpy(of->group->tile, sizes, sizeof sizes);
    of->group->tile_count = TSR_COUNT(sizes);
    return TSR_SUCCESS;
}

uint32_t tsr_attention_grad_row_lanes(const tsr_attention_grad *g) {
    return 2 * g->of.group->b.target->vector_bytes / (uint32_t)tsr_dtype_size(g->of.dtype);
}

/* ---- products -------------------------------------------------------------------------------- */

static void multiply_tile(tsr_attention_grad *g, const tsr_attention_product *p, MlirValue column,
                          MlirValue row, int64_t rows) {
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
                tsr_tile_load(b, dtype, p->to, tsr_tile_offset(b, to, i * p->to_row + v * s->lanes),
                              s->lanes, masks[v]);
    tsr_gemm_tile gemm = {.a_dtype = g->of.storage,
                          .b_dtype = g->of.storage,
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
                          .masks = masked && g->unit == 1 ? masks : NULL}; /* pairs are padded */
    MlirValue diagonal = tsr_attention_diagonal(&g->of);
    tsr_attention_steps steps = {.edge = p->edge,
                                 .first = tsr_tile_add(b, row, diagonal),
                                 .count = p->count,
                                 .unit = g->unit};
    if (p->edge == TSR_EDGE_END)
        steps.first = tsr_tile_offset(b, tsr_tile_sub(b, row, diagonal), 1);
    tsr_attention_multiply(&g->of, &gemm, &steps, tile);
    for (int64_t i = 0; i < rows; i++)
        for (uint32_t v = 0; v < s->vectors; v++)
            tsr_tile_store(b, dtype, tile[i * s->vectors + v], p->to,
                           tsr_tile_offset(b, to, i * p->to_row + v * s->lanes), masks[v]);
}

/* Finds the rows, in whole tiles below `whole`, that take part in any step. */
static void find_rows(tsr_attention_grad *g, const tsr_attention_product *p, MlirValue whole,
                      MlirValue *out_begin, MlirValue *out_end) {
    tsr_tile_builder *b = &g->of.group->b;
    int64_t rows = p->side->rows;
    MlirValue zero = tsr_tile_index(b, 0);
    *out_begin = p->edge == TSR_EDGE_END ? tsr_attention_first_row(&g->of, zero, rows) : zero;
    *out_end = whole;
    if (!g->of.cut || p->edge == TSR_EDGE_END) return;
    MlirValue seen = tsr_tile_sub(b, g->query_count, tsr_attention_diagonal(&g->of));
    seen = tsr_tile_offset(b, tsr_attention_at_least_0(&g->of, seen), rows - 1);
    *out_end = tsr_tile_min(b, whole, tsr_tile_mul(b, tsr_tile_div(b, seen, rows), rows));
}

void tsr_attention_grad_multiply(tsr_attention_grad *g, const tsr_attention_product *p) {
    tsr_tile_builder *b = &g->of.group->b;
    int64_t edge = p->rows_all % p->side->rows;
    MlirValue whole = tsr_tile_sub(b, p->rows, tsr_tile_rem(b, p->rows, p->side->rows));
    MlirValue begin, end;
    find_rows(g, p, whole, &begin, &end);
    TSR_TILE_FOR(b, columns, tsr_tile_index(b, 0), p->columns, p->side->width) {
        for (int part = 0; part < 2; part++) {
            int64_t size = part ? edge : p->side->rows;
            if (!size) continue;
            TSR_TILE_FOR(b, rows, part ? whole : begin, part ? p->rows : end, size) {
                multiply_tile(g, p, columns.index, rows.index, size);
            }
        }
    }
}

void tsr_attention_grad_scores(tsr_attention_grad *g, MlirValue a, MlirValue a_at, int64_t size,
                               MlirValue panels, int64_t depth, MlirValue to) {
    tsr_attention_scores scores = {.side = &g->scores,
                                   .unit = g->unit,
                                   .a = a,
                                   .a_at = a_at,
                                   .size = size,
                                   .panels = panels,
                                   .depth = depth,
                                   .to = to,
                                   .stride = g->score_stride,
                                   .rows = g->query_count,
                                   .columns = g->key_count};
    tsr_attention_multiply_scores(&g->of, &scores);
}

void tsr_attention_grad_pack(tsr_attention_grad *g, MlirValue from, MlirValue from_at, int64_t size,
                             MlirValue to, int64_t depth) {
    tsr_attention_panels panels = {.side = &g->scores,
                                   .unit = g->unit,
                                   .to_dtype = g->of.storage,
                                   .from = from,
                                   .from_at = from_at,
                                   .size = size,
                                   .to = to,
                                   .depth = depth,
                                   .columns = g->key_count,
                                   .block_keys = g->block_keys};
    tsr_attention_pack_panels(&g->of, &panels);
}

/* ---- rows ------------------------------------------------------------------------------------ */

MlirValue tsr_attention_grad_total(tsr_attention_grad *g, MlirValue at) {
    tsr_tile_builder *b = &g->of.group->b;
    uint32_t lanes = tsr_lanes_fit(TSR_PARTIALS, g->of.e);
    MlirValue partials = tsr_reduction_identity(&g->sum, lanes);
    for (int64_t begin = 0; begin < g->of.e; begin += lanes) {
        MlirValue mask = tsr_tile_null, from = tsr_tile_offset(b, at, begin);
        if (g->of.e - begin < lanes)
            mask = tsr_tile_mask(b, tsr_tile_index(b, g->of.e - begin), lanes);
        MlirValue x = tsr_tile_load(b, g->of.storage, g->dresult, from, lanes, mask);
        MlirValue y = tsr_tile_load(b, g->of.storage, g->result, from, lanes, mask);
        /* Lanes beyond the end are zero in both. */
        partials = tsr_reduction_combine(&g->sum, partials, tsr_tile_2(b, "arith.mulf", x, y));
    }
    return tsr_reduction_tree(&g->sum, partials, lanes);
}

MlirValue tsr_attention_grad_row_end(tsr_attention_grad *g, MlirValue limit) {
    tsr_tile_builder *b = &g->of.group->b;
    int64_t rows = g->keys.rows > g->values.rows ? g->keys.rows : g->values.rows;
    if (!g->of.cut) return g->key_count;
    return tsr_tile_min(b, g->key_count, tsr_tile_offset(b, limit, tsr_round_up(rows, g->unit)));
}

/* ---- a program ------------------------------------------------------------------------------- */

void tsr_attention_grad_clear(tsr_attention_grad *g, tsr_dtype dtype, MlirValue buffer,
                              MlirValue at, MlirValue count, bool even) {
    tsr_tile_builder *b = &g->of.group->b;
    uint32_t lanes = b->target->vector_bytes / (uint32_t)tsr_dtype_size(g->of.dtype);
    MlirValue zero = tsr_element_zero(b, dtype, lanes), mask = tsr_tile_null;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), count, lanes) {
        if (!even) mask = tsr_tile_mask(b, tsr_tile_sub(b, count, loop.index), lanes);
        tsr_tile_store(b, dtype, zero, buffer, tsr_tile_add(b, at, loop.index), mask);
    }
}

/* ---- sums of chunks -------------------------------------------------------------------------- */

/* `count` elements of a gradient from `at` on, and their position in a slot. */
typedef struct chunk_sums {
    MlirValue buffer, at, count;
    tsr_product_sums slots;
    MlirValue slot_at;
    MlirValue carries;
} chunk_sums;

static chunk_sums of_queries(tsr_attention_grad *g, MlirValue at, MlirValue count) {
    const tsr_attention *of = &g->of;
    return (chunk_sums){.buffer = g->dq,
                        .at = at,
                        .count = count,
                        .slots = {.dtype = of->dtype,
                                  .buffer = g->dq_slots,
                                  .slot = of->batch * of->heads * of->queries * of->d,
                                  .slots = g->key_slots},
                        .slot_at = at,
                        .carries = g->key_carries};
}

/* The sums of the block's keys, or of its values if `of_values`. */
static chunk_sums of_keys(tsr_attention_grad *g, bool of_values) {
    tsr_tile_builder *b = &g->of.group->b;
    int64_t size = of_values ? g->of.e : g->of.d;
    return (chunk_sums){.buffer = of_values ? g->dv : g->dk,
                        .at = of_values ? g->v_at : g->k_at,
                        .count = tsr_tile_mul(b, g->key_count, size),
                        .slots = {.dtype = g->of.dtype,
                                  .buffer = of_values ? g->dv_slots : g->dk_slots,
                                  .slot = g->block_keys * size,
                                  .slots = g->query_slots},
                        .slot_at = tsr_tile_index(b, 0),
                        .carries = g->query_carries};
}

typedef enum chunk_act { CHUNK_CLEAR, CHUNK_PUSH, CHUNK_FINISH } chunk_act;

/* CHUNK_CLEAR sets the slots to 0. CHUNK_PUSH adds the gradient to the slots and sets it to 0.
 * CHUNK_FINISH writes the sum of the slots to the gradient. */
static void act_on(tsr_attention_grad *g, const chunk_sums *c, chunk_act act) {
    static const int64_t here[] = {0};
    tsr_tile_builder *b = &g->of.group->b;
    tsr_dtype dtype = g->of.dtype;
    uint32_t lanes = b->target->vector_bytes / (uint32_t)tsr_dtype_size(dtype);
    MlirValue whole = tsr_tile_sub(b, c->count, tsr_tile_rem(b, c->count, lanes));
    for (int part = 0; part < 2; part++) { /* vectors, then single elements */
        uint32_t width = part ? 0 : lanes;
        MlirValue zero = tsr_element_zero(b, dtype, width), value = zero;
        TSR_TILE_FOR(b, loop, part ? whole : tsr_tile_index(b, 0), part ? c->count : whole,
                     part ? 1 : lanes) {
            MlirValue at = tsr_tile_add(b, c->at, loop.index);
            tsr_product_offsets where = {.at = tsr_tile_add(b, c->slot_at, loop.index),
                                         .offsets = here,
                                         .count = 1,
                                         .lanes = width};
            if (act == CHUNK_CLEAR) tsr_product_clear(b, &c->slots, &where);
            if (act == CHUNK_PUSH) {
                value = tsr_tile_load(b, dtype, c->buffer, at, width, tsr_tile_null);
                tsr_product_push(b, &c->slots, &where, c->carries, &value);
                tsr_tile_store(b, dtype, zero, c->buffer, at, tsr_tile_null);
            }
            if (act == CHUNK_FINISH) {
                tsr_product_finish(b, &c->slots, &where, &value);
                tsr_tile_store(b, dtype, value, c->buffer, at, tsr_tile_null);
            }
        }
    }
}

static void act_on_keys(tsr_attention_grad *g, chunk_act act) {
    if (!g->query_slots) return;
    chunk_sums keys = of_keys(g, false), values = of_keys(g, true);
    act_on(g, &keys, act);
    act_on(g, &values, act);
}

/* Called after each block of queries. */
static void push_chunks(tsr_attention_grad *g) {
    tsr_tile_builder *b = &g->of.group->b;
    act_on_keys(g, CHUNK_PUSH);
    if (!g->key_slots) return;
    chunk_sums queries = of_queries(g, g->q_at, tsr_tile_mul(b, g->query_count, g->of.d));
    act_on(g, &queries, CHUNK_PUSH);
}

static void make_slots(tsr_attention_grad *g) {
    tsr_tile_builder *b = &g->of.group->b;
    MlirType type = tsr_tile_storage_type(b, g->of.dtype);
    int64_t elements = g->query_slots * g->block_keys;
    if (!elements) return;
    g->dk_slots = tsr_tile_local(b, type, elements * g->of.d);
    g->dv_slots = tsr_tile_local(b, type, elements * g->of.e);
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* The number of rows of the block at `at`: `size`, or fewer for the last block. */
static MlirValue count_of(tsr_attention_grad *g, MlirValue at, int64_t all, int64_t size) {
    tsr_tile_builder *b = &g->of.group->b;
    if (all % size == 0) return tsr_tile_index(b, size);
    return tsr_tile_min(b, tsr_tile_index(b, size), tsr_tile_sub(b, tsr_tile_index(b, all), at));
}

/* The first block of queries in which a query sees the first key of the block. */
static MlirValue first_query(tsr_attention_grad *g) {
    tsr_tile_builder *b = &g->of.group->b;
    if (!g->of.causal) return tsr_tile_index(b, 0);
    MlirValue sees =
        tsr_attention_at_least_0(&g->of, tsr_tile_offset(b, g->of.key, g->of.queries - g->of.keys));
    return tsr_tile_mul(b, tsr_tile_div(b, sees, g->block_queries), g->block_queries);
}

static void walk_queries(tsr_attention_grad *g, const tsr_attention_blocks *blocks) {
    tsr_tile_builder *b = &g->of.group->b;
    tsr_attention *of = &g->of;
    TSR_TILE_FOR(b, loop, first_query(g), tsr_tile_index(b, of->queries), g->block_queries) {
        MlirValue row = tsr_tile_add(b, g->row_at, loop.index);
        of->query = loop.index;
        g->query_count = count_of(g, loop.index, of->queries, g->block_queries);
        g->q_at = tsr_tile_mul(b, row, of->d);
        g->o_at = tsr_tile_mul(b, row, of->e);
        if (g->query_slots) {
            MlirValue chunk =
                tsr_tile_mul(b, g->head, tsr_divide_up(of->queries, g->block_queries));
            chunk = tsr_tile_add(b, chunk, tsr_tile_div(b, loop.index, g->block_queries));
            g->query_carries = tsr_product_carries(b, chunk, query_chunks(g));
        }
        blocks->add_queries(g);
        push_chunks(g);
    }
}

static void walk_keys(tsr_attention_grad *g, const tsr_attention_blocks *blocks,
                      MlirValue first_head) {
    tsr_tile_builder *b = &g->of.group->b;
    tsr_attention *of = &g->of;
    MlirValue zero = tsr_tile_index(b, 0);
    TSR_TILE_FOR(b, keys, zero, tsr_tile_index(b, of->keys), g->block_keys) {
        MlirValue row = tsr_tile_add(b, g->key_row_at, keys.index);
        of->key = keys.index;
        g->key_count = count_of(g, keys.index, of->keys, g->block_keys);
        g->k_at = tsr_tile_mul(b, row, of->d);
        g->v_at = tsr_tile_mul(b, row, of->e);
        if (g->key_slots)
            g->key_carries = tsr_product_carries(b, tsr_tile_div(b, keys.index, g->block_keys),
                                                 tsr_divide_up(of->keys, g->block_keys));
        blocks->begin_keys(g);
        act_on_keys(g, CHUNK_CLEAR);
        TSR_TILE_FOR(b, heads, zero, tsr_tile_index(b, of->heads / of->key_heads), 1) {
            g->head = heads.index;
            of->head_index = tsr_tile_add(b, first_head, heads.index);
            MlirValue head =
                tsr_tile_add(b, tsr_tile_mul(b, of->batch_index, of->heads), of->head_index);
            g->row_at = tsr_tile_mul(b, head, of->queries);
            walk_queries(g, blocks);
        }
        act_on_keys(g, CHUNK_FINISH);
        if (blocks->end_keys) blocks->end_keys(g);
    }
}

static void emit(tsr_attention_grad *g, const tsr_attention_blocks *blocks) {
    tsr_tile_builder *b = &g->of.group->b;
    tsr_attention *of = &g->of;
    int64_t per_group = of->heads / of->key_heads, queries = per_group * of->queries * of->d;
    of->group->grid = of->batch * of->key_heads;
    MlirValue pid = of->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    MlirValue first_head = tsr_tile_mul(b, tsr_tile_rem(b, pid, of->key_heads), per_group);
    of->batch_index = tsr_tile_div(b, pid, of->key_heads);
    tsr_attention_begin_samples(of);
    g->key_row_at = tsr_tile_mul(b, pid, of->keys);
    tsr_attention_grad_clear(g, of->dtype, g->dq, tsr_tile_mul(b, pid, queries),
                             tsr_tile_index(b, queries), queries % 64 == 0);
    if (of->queries && of->keys) {
        chunk_sums sums = of_queries(g, tsr_tile_mul(b, pid, queries), tsr_tile_index(b, queries));
        blocks->make_locals(g);
        make_slots(g);
        if (g->key_slots) act_on(g, &sums, CHUNK_CLEAR);
        walk_keys(g, blocks, first_head);
        if (g->key_slots) act_on(g, &sums, CHUNK_FINISH);
        return;
    }
    tsr_attention_grad_clear(g, of->storage, g->dk, tsr_tile_mul(b, g->key_row_at, of->d),
                             tsr_tile_index(b, of->keys * of->d), false);
    tsr_attention_grad_clear(g, of->storage, g->dv, tsr_tile_mul(b, g->key_row_at, of->e),
                             tsr_tile_index(b, of->keys * of->e), false);
}

tsr_result tsr_attention_grad_lower(tsr_tile_group *group, tsr_attention_grad *g,
                                    const tsr_attention_blocks *blocks) {
    const tsr_type *type = NULL;
    TRY(group->ctx, tsr_attention_read(group, MASK, &g->of));
    TRY(group->ctx, tsr_attention_operand(&g->of, RESULT, &g->result, &type));
    TRY(group->ctx, tsr_attention_operand(&g->of, LOGSUMEXP, &g->logsumexp, &type));
    TRY(group->ctx, tsr_attention_operand(&g->of, DRESULT, &g->dresult, &type));
    if (group->output_count < GRADIENTS || group->output_count > GRADIENTS + 1)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed gradient of attention", group->name);
    g->dq = group->buffers[group->input_count];
    g->dk = group->buffers[group->input_count + 1];
    g->dv = group->buffers[group->input_count + 2];
    g->sum = (tsr_reduction){.group = group, .dtype = g->of.dtype, .op = &tsr_reduction_sum};
    if (!g->of.batch || !g->of.key_heads) return TSR_SUCCESS;
    TRY(group->ctx, plan(g, blocks));
    if (group->output_count == GRADIENTS)
        g->key_slots = 0; /* wide.c could not add slots */
    else
        g->dq_slots = group->buffers[group->input_count + GRADIENTS];
    emit(g, blocks);
    return TSR_SUCCESS;
}
