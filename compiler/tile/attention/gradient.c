/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `attention_grad`: gradients of query, key and value. Scores are computed again from
 * the logarithm of the sum of exponentials; no buffer is as large as all scores.
 *
 *     for each block of keys of a key head (dk = dv = 0; dq = 0 before the first)
 *         for each query head that reads it, for each block of queries that see a key of the block
 *             s = q k^T, c = do v^T               the transposes of k and v packed to the stack
 *             p = exp(scale * s + mask - logsumexp), t = sum of do * o per query
 *             s = drop p, c = p (drop c - t) scale     (drop x is x without dropout)
 *             dv += s^T do, dk += c^T q, dq += c k
 *
 * The method is that of Dao, "FlashAttention-2", 2023, section 3.1.2 (backward pass). Each program
 * computes one key head, so every element of a gradient is one chain in a fixed order: ascending
 * keys for dq; heads of the group, then queries for dk and dv. If attention is causal, chains only
 * include the keys that queries see. t has 64 partial sums. Block sizes do not change a bit, unless
 * there are enough keys or queries to cut them into chunks (gradient.h).
 */
#include "compiler/tile/attention/gradient.h"

enum { APART = 16 }; /* extra elements between rows of scores */

typedef struct gradient {
    tsr_attention_grad of;
    MlirValue key_panels, value_panels, chances, dlogits; /* local buffers */
} gradient;

static int64_t stack_bytes(const tsr_attention_grad *grad) {
    int64_t panels = tsr_attention_grad_panel_elements(grad, grad->key_depth + grad->value_depth);
    int64_t slots = grad->query_slots * grad->block_keys * (grad->of.d + grad->of.e);
    return (panels + slots + 2 * grad->block_queries * grad->score_stride) *
           (int64_t)tsr_dtype_size(grad->of.dtype);
}

static void make_locals(tsr_attention_grad *grad) {
    gradient *g = (gradient *)grad;
    tsr_tile_builder *b = &grad->of.group->b;
    MlirType type = tsr_tile_storage_type(b, grad->of.dtype);
    int64_t scores = grad->block_queries * grad->score_stride;
    g->key_panels =
        tsr_tile_local(b, type, tsr_attention_grad_panel_elements(grad, grad->key_depth) + 1);
    g->value_panels =
        tsr_tile_local(b, type, tsr_attention_grad_panel_elements(grad, grad->value_depth) + 1);
    g->chances = tsr_tile_local(b, type, scores);
    g->dlogits = tsr_tile_local(b, type, scores);
}

static void begin_keys(tsr_attention_grad *grad) {
    gradient *g = (gradient *)grad;
    tsr_tile_builder *b = &grad->of.group->b;
    const tsr_attention *of = &grad->of;
    tsr_attention_grad_clear(grad, of->dtype, grad->dk, grad->k_at,
                             tsr_tile_mul(b, grad->key_count, of->d), of->d % 64 == 0);
    tsr_attention_grad_clear(grad, of->dtype, grad->dv, grad->v_at,
                             tsr_tile_mul(b, grad->key_count, of->e), of->e % 64 == 0);
    tsr_attention_grad_pack(grad, of->k, grad->k_at, of->d, g->key_panels, grad->key_depth);
    tsr_attention_grad_pack(grad, of->v, grad->v_at, of->e, g->value_panels, grad->value_depth);
}

/* Adds scores^T from to the gradient of keys or values. */
static void add_over_queries(tsr_attention_grad *g, const tsr_attention_side *tiles,
                             MlirValue scores, MlirValue from, MlirValue from_at, int64_t size,
                             MlirValue to, MlirValue to_at) {
    tsr_tile_builder *b = &g->of.group->b;
    tsr_attention_grad_multiply(g, &(tsr_attention_product){.side = tiles,
                                                            .edge = TSR_EDGE_BEGIN,
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
                                                            .count = g->query_count});
}

static void add_over_keys(tsr_attention_grad *g, MlirValue dlogits) {
    tsr_tile_builder *b = &g->of.group->b;
    tsr_attention_grad_multiply(g, &(tsr_attention_product){.side = &g->keys,
                                                            .edge = TSR_EDGE_END,
                                                            .a = dlogits,
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
                                                            .count = g->key_count});
}

/* Computes the weights and the gradients of the scores of one query from its products. */
static void emit_row(gradient *g, MlirValue row) {
    tsr_attention_grad *grad = &g->of;
    tsr_attention *of = &grad->of;
    tsr_tile_builder *b = &of->group->b;
    uint32_t lanes = tsr_attention_grad_row_lanes(grad);
    MlirValue query = tsr_tile_add(b, grad->row_at, tsr_tile_add(b, of->query, row));
    MlirValue shift = tsr_tile_load(b, of->dtype, grad->logsumexp, query, 0, tsr_tile_null);
    shift = tsr_tile_splat(b, tsr_attention_unless_lowest(of, shift), lanes);
    MlirValue total =
        tsr_attention_grad_total(grad, tsr_tile_add(b, grad->o_at, tsr_tile_mul(b, row, of->e)));
    total = tsr_tile_splat(b, total, lanes);
    MlirValue limit = tsr_attention_limit(of, row, grad->key_count);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_attention_grad_row_end(grad, limit), lanes) {
        MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, row, grad->score_stride), loop.index);
        MlirValue there = tsr_attention_present(of, grad->key_count, loop.index, lanes);
        MlirValue x = tsr_tile_load(b, of->dtype, g->chances, at, lanes, there);
        x = tsr_attention_mask(of, x, row, loop.index, limit, lanes);
        x = tsr_tile_1(b, "math.exp", tsr_tile_2(b, "arith.subf", x, shift));
        MlirValue drop_mask = tsr_attention_drop_mask(of, row, loop.index, lanes);
        MlirValue y = tsr_tile_load(b, of->dtype, g->dlogits, at, lanes, there);
        y = tsr_attention_drop(of, drop_mask, y);
        y = tsr_tile_2(b, "arith.mulf", x, tsr_tile_2(b, "arith.subf", y, total));
        y = tsr_tile_2(b, "arith.mulf", y, tsr_tile_float(b, mlirValueGetType(y), of->scale));
        tsr_tile_store(b, of->dtype, tsr_attention_drop(of, drop_mask, x), g->chances, at,
                       tsr_tile_null);
        tsr_tile_store(b, of->dtype, y, g->dlogits, at, tsr_tile_null);
    }
}

static void add_queries(tsr_attention_grad *grad) {
    gradient *g = (gradient *)grad;
    tsr_attention *of = &grad->of;
    tsr_tile_builder *b = &of->group->b;
    tsr_attention_grad_scores(grad, of->q, grad->q_at, of->d, g->key_panels, grad->key_depth,
                              g->chances);
    tsr_attention_grad_scores(grad, grad->dresult, grad->o_at, of->e, g->value_panels,
                              grad->value_depth, g->dlogits);
    TSR_TILE_FOR(b, rows, tsr_attention_first_row(of, tsr_tile_index(b, 0), grad->query_unit),
                 grad->query_count, 1) {
        emit_row(g, rows.index);
    }
    add_over_queries(grad, &grad->values, g->chances, grad->dresult, grad->o_at, of->e, grad->dv,
                     grad->v_at);
    add_over_queries(grad, &grad->keys, g->dlogits, of->q, grad->q_at, of->d, grad->dk, grad->k_at);
    add_over_keys(grad, g->dlogits);
}

tsr_result tsr_tile_lower_attention_grad(tsr_tile_group *group) {
    static const tsr_attention_blocks blocks = {.stack_bytes = stack_bytes,
                                                .make_locals = make_locals,
                                                .begin_keys = begin_keys,
                                                .add_queries = add_queries};
    gradient g = {.of = {.unit = 1, .apart = APART}};
    return tsr_attention_grad_lower(group, &g.of, &blocks);
}
