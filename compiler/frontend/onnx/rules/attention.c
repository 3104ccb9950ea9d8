/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention and rotary embedding. The op of Graph IR is taken where only its result is wanted;
 * scores that are capped or are an output are computed one by one.
 */
#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/rules.h"
#include "compiler/frontend/onnx/tensor.h"

#include <inttypes.h>
#include <math.h>

typedef struct heads {
    MlirValue q, k, v; /* [B, H, S, D], [B, G, T, D], [B, G, T, E] */
    MlirValue allowed; /* i1 that stretches to [B, H, S, T]; null: all */
    MlirValue bias;    /* of q's type; null: none */
    uint64_t batch, queries, keys;
    tsr_dim_expression past; /* keys before those of the queries; can be negative */
    bool flat;               /* inputs and result are [B, S, H D] */
    bool plain_causal;       /* query i sees the keys j <= i + T - S, and there is no other mask */
    double scale;            /* NaN: that of the op, because the head size is open */
} heads;

/* [B, S, H D] to [B, H, S, D] */
static MlirValue split_heads(tsr_onnx_call *c, MlirValue x, int64_t count) {
    tsr_shape s = tsr_onnx_type_of(x).shape;
    uint64_t size = 0;
    if (s.rank == 4 || c->failed || !tsr_onnx_known_dim(c, "an input", x, 2, &size)) return x;
    if (count < 1 || size % (uint64_t)count)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_ATTRIBUTE,
                                   "%" PRId64 " heads for a dim of %" PRIu64, count, size);
    const tsr_shape four = {
        .rank = 4, .dims = {s.dims[0], s.dims[1], (uint64_t)count, size / (uint64_t)count}};
    return tsr_onnx_swap(c, tsr_onnx_reshape(c, x, &four), 1, 2);
}

/* [B, H, S, D] to [B, S, H D] */
static MlirValue merge_heads(tsr_onnx_call *c, MlirValue x) {
    tsr_shape s = tsr_onnx_type_of(x).shape;
    const tsr_shape three = {
        .rank = 3, .dims = {s.dims[0], s.dims[2], tsr_onnx_times(c, s.dims[1], s.dims[3])}};
    return tsr_onnx_reshape(c, tsr_onnx_swap(c, x, 1, 2), &three);
}

static MlirValue both(tsr_onnx_call *c, MlirValue a, MlirValue b) {
    return mlirValueIsNull(a) ? b : EMIT(c, "and", a, b);
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* A scalar of i64. */
static MlirValue size_value(tsr_onnx_call *c, const tsr_dim_expression *size) {
    MlirValue list = tsr_onnx_size_list(c, 1, size);
    if (mlirValueIsNull(list))
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_OPEN,
                                   "the number of keys before the queries depends on open dims; "
                                   "give them sizes: --dim NAME=SIZE");
    return tsr_onnx_reshape(c, list, &(tsr_shape){.rank = 0});
}

/* The position of each query among the keys, [B or 1, 1, S, 1], and of each key, [1, 1, 1, T]. */
static void positions_of(tsr_onnx_call *c, const heads *h, MlirValue lengths, MlirValue *out_query,
                         MlirValue *out_key) {
    MlirValue query = tsr_onnx_iota(c, TSR_DTYPE_I64, 4, 2, h->queries);
    *out_key = tsr_onnx_iota(c, TSR_DTYPE_I64, 4, 3, h->keys);
    int64_t past = 1;
    bool known = tsr_dim_expression_is_number(&h->past, &past);
    if (mlirValueIsNull(lengths) || past)
        query = EMIT(c, "add", query,
                     known ? tsr_onnx_number(c, query, (double)past) : size_value(c, &h->past));
    else
        query = EMIT(c, "add", query,
                     EMIT(c, "sub", lengths, tsr_onnx_dim_number(c, query, h->queries)));
    *out_query = query;
}

/* Causality, windows around the query and the lengths of the keys. */
static void limit_positions(tsr_onnx_call *c, heads *h, MlirValue lengths, bool causal) {
    int64_t left = tsr_onnx_attr_i(c, "left_window_size", -1);
    int64_t right = tsr_onnx_attr_i(c, "right_window_size", -1);
    MlirValue query, key;
    positions_of(c, h, lengths, &query, &key);
    if (causal) h->allowed = both(c, h->allowed, tsr_onnx_compare(c, TSR_PREDICATE_LE, key, query));
    if (left >= 0) {
        MlirValue first = EMIT(c, "sub", query, tsr_onnx_number(c, query, (double)left));
        h->allowed = both(c, h->allowed, tsr_onnx_compare(c, TSR_PREDICATE_GE, key, first));
    }
    if (right >= 0) {
        MlirValue last = EMIT(c, "add", query, tsr_onnx_number(c, query, (double)right));
        h->allowed = both(c, h->allowed, tsr_onnx_compare(c, TSR_PREDICATE_LE, key, last));
    }
    if (!mlirValueIsNull(lengths))
        h->allowed = both(c, h->allowed, tsr_onnx_compare(c, TSR_PREDICATE_LT, key, lengths));
}

/* A mask for fewer keys is filled up: further keys are not seen. */
static MlirValue fill_mask(tsr_onnx_call *c, const heads *h, MlirValue mask) {
    uint32_t rank = tsr_onnx_rank(mask);
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0};
    uint64_t has = rank ? tsr_onnx_dim_of(mask, rank - 1) : 1;
    bool is_truth = tsr_onnx_dtype(mask) == TSR_DTYPE_I1;
    if (rank == 0 || has == 1 || has == h->keys) return mask;
    if (!tsr_dim_is_known(has) || !tsr_dim_is_known(h->keys)) {
        tsr_onnx_fail_open(c, "the number of keys, or of those of the mask,",
                           tsr_dim_is_open(has) ? has : h->keys,
                           "what the mask lacks is filled up");
        return mask;
    }
    if (has >= h->keys) return mask;
    high[rank - 1] = (int64_t)(h->keys - has);
    return tsr_onnx_pad(c, mask, low, high, NULL, is_truth ? 0 : -(double)INFINITY);
}

/* True if the queries are the last keys. */
static bool counts_all_keys(tsr_onnx_call *c, const heads *h) {
    tsr_dim_expression queries = tsr_dim_to_expression(c->arena, h->queries);
    tsr_dim_expression rest = tsr_dim_to_expression(c->arena, h->keys);
    int64_t number = 1;
    return tsr_dim_expression_subtract(&rest, &queries, &rest) &&
           tsr_dim_expression_subtract(&rest, &h->past, &rest) &&
           tsr_dim_expression_is_number(&rest, &number) && number == 0;
}

static void read_masks(tsr_onnx_call *c, heads *h) {
    MlirValue mask = tsr_onnx_in_or_null(c, 3), lengths = tsr_onnx_in_or_null(c, 6);
    bool causal = tsr_onnx_attr_i(c, "is_causal", 0) != 0;
    bool windowed = tsr_onnx_attr_i(c, "left_window_size", -1) >= 0 ||
                    tsr_onnx_attr_i(c, "right_window_size", -1) >= 0;
    const tsr_shape column = {.rank = 4, .dims = {h->batch, 1, 1, 1}};
    if (!mlirValueIsNull(lengths))
        lengths = tsr_onnx_reshape(c, tsr_onnx_cast(c, lengths, TSR_DTYPE_I64), &column);
    if (!mlirValueIsNull(mask)) mask = fill_mask(c, h, mask);
    if (!mlirValueIsNull(mask) && tsr_onnx_dtype(mask) == TSR_DTYPE_I1)
        h->allowed = mask;
    else if (!mlirValueIsNull(mask))
        h->bias = tsr_onnx_cast(c, mask, tsr_onnx_dtype(h->q));
    h->plain_causal = causal && !windowed && mlirValueIsNull(mask) && mlirValueIsNull(lengths) &&
                      counts_all_keys(c, h);
    if ((causal && !h->plain_causal) || windowed || !mlirValueIsNull(lengths))
        limit_positions(c, h, lengths, causal);
}

/* The mask as one value: what is added, or i1. */
static MlirValue one_mask(tsr_onnx_call *c, const heads *h) {
    if (mlirValueIsNull(h->bias)) return h->allowed;
    if (mlirValueIsNull(h->allowed)) return h->bias;
    return EMIT(c, "where", h->allowed, h->bias, tsr_onnx_number(c, h->bias, -(double)INFINITY));
}

/* ---- the op ---------------------------------------------------------------------------------- */

static MlirValue attend(tsr_onnx_call *c, const heads *h) {
    MlirValue operands[] = {h->q, h->k, h->v, one_mask(c, h)};
    tsr_attr attrs[3] = {{0}};
    size_t count = 0;
    if (!isnan(h->scale)) attrs[count++] = tsr_onnx_f64_attr(c, "scale", h->scale);
    if (h->plain_causal)
        attrs[count] = (tsr_attr){"causal", tsr_attr_make_unit(c->builder->context)};
    return tsr_onnx_emit(c, TSR_GRAPH_NAME("attention"), operands,
                         mlirValueIsNull(operands[3]) ? 3 : 4, attrs, NULL);
}

/* Each head of keys and values as many times as query heads read it. */
static MlirValue repeat_heads(tsr_onnx_call *c, MlirValue x, uint64_t times) {
    tsr_shape s = tsr_onnx_type_of(x).shape;
    tsr_shape five = {.rank = 5, .dims = {s.dims[0], s.dims[1], 1, s.dims[2], s.dims[3]}};
    if (times == 1) return x;
    x = tsr_onnx_reshape(c, x, &five);
    five.dims[2] = times;
    s.dims[1] = tsr_onnx_times(c, s.dims[1], times);
    return tsr_onnx_reshape(c, tsr_onnx_broadcast(c, x, &five), &s);
}

/* The query heads of each key head, which check_heads has checked. */
static uint64_t times_of(const heads *h) {
    uint64_t of_q = tsr_onnx_dim_of(h->q, 1), of_k = tsr_onnx_dim_of(h->k, 1);
    return of_q == of_k ? 1 : of_q / of_k;
}

/* Scores one by one: mode 0 gives the product, 1 capped, 2 masked, 3 after the softmax. */
static MlirValue attend_in_steps(tsr_onnx_call *c, heads *h) {
    double cap = tsr_onnx_attr_f(c, "softcap", 0);
    int64_t mode = tsr_onnx_attr_i(c, "qk_matmul_output_mode", 0);
    tsr_dtype dtype = tsr_onnx_dtype(h->q);
    uint64_t times = times_of(h), size = 0;
    if (isnan(h->scale) && !tsr_onnx_known_dim(c, "the queries", h->q, 3, &size))
        return (MlirValue){NULL};
    MlirValue root = tsr_onnx_number(c, h->q, sqrt(h->scale));
    MlirValue k = repeat_heads(c, h->k, times);
    MlirValue scores =
        tsr_onnx_matmul(c, EMIT(c, "mul", h->q, root), EMIT(c, "mul", k, root), false, true);
    if (mode == 0) tsr_onnx_out(c, 3, scores);
    if (cap > 0) {
        MlirValue limit = tsr_onnx_number(c, scores, cap);
        scores = EMIT(c, "mul", EMIT(c, "tanh", EMIT(c, "div", scores, limit)), limit);
    }
    if (mode == 1) tsr_onnx_out(c, 3, scores);
    if (h->plain_causal) limit_positions(c, h, (MlirValue){NULL}, true);
    if (!mlirValueIsNull(h->bias)) scores = EMIT(c, "add", scores, h->bias);
    if (!mlirValueIsNull(h->allowed))
        scores =
            EMIT(c, "where", h->allowed, scores, tsr_onnx_number(c, scores, -(double)INFINITY));
    if (mode == 2) tsr_onnx_out(c, 3, scores);
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", 3), {0}};
    MlirValue weights = EMIT_WITH(c, "softmax_safe", attrs, tsr_onnx_wide(c, scores));
    weights = tsr_onnx_cast(c, weights, dtype);
    if (mode == 3) tsr_onnx_out(c, 3, weights);
    return tsr_onnx_matmul(c, weights, repeat_heads(c, h->v, times), false, false);
}

/* Past and present keys and values, [B, H, P + S, D]. */
static MlirValue append(tsr_onnx_call *c, MlirValue past, MlirValue now) {
    return mlirValueIsNull(past) ? now : tsr_onnx_concat(c, 2, (MlirValue[]){past, now}, 2);
}

/* 1 / sqrt(head size); NaN if that is open. */
static double default_scale(const heads *h) {
    uint64_t size = tsr_onnx_dim_of(h->q, 3);
    return tsr_dim_is_known(size) ? 1 / sqrt((double)size) : NAN;
}

static bool check_heads(tsr_onnx_call *c, const heads *h) {
    uint64_t of_q = tsr_onnx_dim_of(h->q, 1), of_k = tsr_onnx_dim_of(h->k, 1);
    if (c->failed) return false;
    if (of_q == of_k && of_q != 0) return true;
    if (!tsr_onnx_known_dim(c, "the queries", h->q, 1, &of_q) ||
        !tsr_onnx_known_dim(c, "the keys", h->k, 1, &of_k))
        return false;
    return (of_k && of_q % of_k == 0) ||
           tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                         "%" PRIu64 " query heads are not a multiple of %" PRIu64 " key heads",
                         of_q, of_k);
}

bool tsr_onnx_rule_attention(tsr_onnx_call *c) {
    int64_t count = tsr_onnx_attr_i(c, "q_num_heads", 0);
    int64_t kv_count = tsr_onnx_attr_i(c, "kv_num_heads", 0);
    MlirValue q = tsr_onnx_in(c, 0);
    if (!tsr_onnx_need_rank(c, "Q", q, 3, 4) ||
        !tsr_onnx_need_rank(c, "K", tsr_onnx_in(c, 1), tsr_onnx_rank(q), tsr_onnx_rank(q)) ||
        !tsr_onnx_need_rank(c, "V", tsr_onnx_in(c, 2), tsr_onnx_rank(q), tsr_onnx_rank(q)))
        return false;
    heads h = {.flat = tsr_onnx_rank(q) == 3, .q = split_heads(c, q, count)};
    h.k = append(c, tsr_onnx_in_or_null(c, 4), split_heads(c, c->inputs[1], kv_count));
    h.v = append(c, tsr_onnx_in_or_null(c, 5), split_heads(c, c->inputs[2], kv_count));
    if (!check_heads(c, &h)) return false;
    h.batch = tsr_onnx_dim_of(h.q, 0);
    h.queries = tsr_onnx_dim_of(h.q, 2);
    h.keys = tsr_onnx_dim_of(h.k, 2);
    uint64_t past = tsr_onnx_has(c, 4) ? tsr_onnx_dim_of(c->inputs[4], 2) : 0;
    h.past = tsr_dim_to_expression(c->arena, past);
    h.scale = tsr_onnx_attr_f(c, "scale", default_scale(&h));
    tsr_onnx_out(c, 1, h.k);
    tsr_onnx_out(c, 2, h.v);
    read_masks(c, &h);
    bool in_steps = tsr_onnx_attr_f(c, "softcap", 0) > 0 || tsr_onnx_wants(c, 3);
    MlirValue y = in_steps ? attend_in_steps(c, &h) : attend(c, &h);
    return tsr_onnx_out(c, 0, h.flat ? merge_heads(c, y) : y);
}

/* What attribute `name`, a graph of one input and one output, makes of x; x itself without it. */
static MlirValue modified(tsr_onnx_call *c, const char *name, MlirValue x) {
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, name);
    MlirValue y = x;
    if (!a || c->failed) return x;
    if (!a->g || a->g->inputs.count != 1 || a->g->outputs.count != 1)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_ATTRIBUTE,
                                   "attribute '%s' must be a graph of one input and one output",
                                   name);
    if (!tsr_onnx_import_body(c, a->g, 1, &x, &y)) c->failed = true;
    tsr_type before = tsr_onnx_type_of(x), after = tsr_onnx_type_of(y);
    if (!c->failed &&
        (before.dtype != after.dtype || !tsr_shape_equal(&before.shape, &after.shape)))
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE,
                                   "graph '%s' must return the type of its input", name);
    return y;
}

/* ai.onnx.preview.FlexAttention: graphs change the scores and the weights. */
bool tsr_onnx_rule_flex_attention(tsr_onnx_call *c) {
    heads h = {.q = tsr_onnx_in(c, 0), .k = tsr_onnx_in(c, 1), .v = tsr_onnx_in(c, 2)};
    int64_t given = tsr_onnx_attr_i(c, "softmax_precision", 0);
    if (!tsr_onnx_need_rank(c, "Q", h.q, 4, 4) || !tsr_onnx_need_rank(c, "K", h.k, 4, 4) ||
        !tsr_onnx_need_rank(c, "V", h.v, 4, 4) || !check_heads(c, &h))
        return false;
    tsr_dtype dtype = tsr_onnx_dtype(h.q);
    tsr_dtype by = dtype == TSR_DTYPE_F64 ? TSR_DTYPE_F64 : TSR_DTYPE_F32;
    if (given) by = tsr_onnx_type_dtype(given);
    if (by == TSR_DTYPE_NONE || !tsr_dtype_is_float(by))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_TYPE, "attribute 'softmax_precision' is %s",
                             tsr_onnx_type_name(given));
    h.scale = tsr_onnx_attr_f(c, "scale", default_scale(&h));
    if (!tsr_onnx_attr(c, "score_mod") && !tsr_onnx_attr(c, "prob_mod") && !given)
        return tsr_onnx_out(c, 0, attend(c, &h));
    uint64_t times = times_of(&h), size = 0;
    if (isnan(h.scale) && !tsr_onnx_known_dim(c, "Q", h.q, 3, &size)) return false;
    MlirValue k = tsr_onnx_wide(c, repeat_heads(c, h.k, times));
    MlirValue scores = tsr_onnx_matmul(c, tsr_onnx_wide(c, h.q), k, false, true);
    scores = EMIT(c, "mul", scores, tsr_onnx_number(c, scores, h.scale));
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", 3), {0}};
    scores = modified(c, "score_mod", tsr_onnx_cast(c, scores, by));
    MlirValue weights = modified(c, "prob_mod", EMIT_WITH(c, "softmax_safe", attrs, scores));
    MlirValue v = tsr_onnx_wide(c, repeat_heads(c, h.v, times));
    weights = tsr_onnx_cast(c, weights, tsr_onnx_dtype(v));
    return tsr_onnx_out(c, 0,
                        tsr_onnx_cast(c, tsr_onnx_matmul(c, weights, v, false, false), dtype));
}

/* ---- com.microsoft --------------------------------------------------------------------------- */

/* `number` where the mask is 0, and else 0. */
static MlirValue add_mask(tsr_onnx_call *c, const heads *h, MlirValue seen) {
    double number = tsr_onnx_attr_f(c, "mask_filter_value", -10000);
    MlirValue zero = ZERO(c, h->q);
    return EMIT(c, "where", seen, zero, tsr_onnx_number(c, h->q, number));
}

/* A mask of keys as i1: lengths [B], or 0 and 1 as [B, T] or [B, S, T]. */
static MlirValue read_keys(tsr_onnx_call *c, const heads *h, MlirValue mask) {
    uint32_t rank = tsr_onnx_rank(mask);
    tsr_shape shape = tsr_onnx_type_of(mask).shape, four = {.rank = 4, .dims = {h->batch, 1, 1, 1}};
    char text[4][TSR_DIM_TEXT_MAX];
    bool fits = rank >= 1 && rank <= 3 && shape.dims[0] == h->batch &&
                (rank == 1 || shape.dims[rank - 1] == h->keys) &&
                (rank < 3 || shape.dims[1] == h->queries);
    if (!fits)
        return tsr_onnx_fail_value(
            c, TSR_DIAG_ONNX_SHAPE,
            "the mask of keys has %u dims, of which the first is %s; "
            "expected [B], [B, T] or [B, S, T] with B = %s, S = %s and "
            "T = %s",
            rank, tsr_dim_text(rank ? shape.dims[0] : 0, text[0]), tsr_dim_text(h->batch, text[1]),
            tsr_dim_text(h->queries, text[2]), tsr_dim_text(h->keys, text[3]));
    if (rank > 1) four.dims[3] = h->keys;
    if (rank == 3) four.dims[2] = h->queries;
    mask = tsr_onnx_reshape(c, tsr_onnx_cast(c, mask, TSR_DTYPE_I32), &four);
    if (rank > 1) return tsr_onnx_compare(c, TSR_PREDICATE_NE, mask, ZERO(c, mask));
    MlirValue key = tsr_onnx_iota(c, TSR_DTYPE_I32, 4, 3, h->keys);
    return tsr_onnx_compare(c, TSR_PREDICATE_LT, key, mask);
}

/* What both ops do once q, k and v are separate heads. The result is [B, S, H D]. */
static bool attend_fused(tsr_onnx_call *c, heads *h, MlirValue keys, MlirValue bias) {
    if (!check_heads(c, h)) return false;
    h->batch = tsr_onnx_dim_of(h->q, 0);
    h->queries = tsr_onnx_dim_of(h->q, 2);
    h->keys = tsr_onnx_dim_of(h->k, 2);
    double scale = tsr_onnx_attr_f(c, "scale", 0);
    h->scale = scale != 0 ? scale : default_scale(h);
    if (!mlirValueIsNull(keys)) h->bias = add_mask(c, h, read_keys(c, h, keys));
    if (!mlirValueIsNull(bias))
        h->bias = mlirValueIsNull(h->bias) ? bias : EMIT(c, "add", h->bias, bias);
    bool causal = tsr_onnx_attr_i(c, "unidirectional", 0) != 0;
    tsr_dim_expression queries = tsr_dim_to_expression(c->arena, h->queries);
    h->past = tsr_dim_to_expression(c->arena, h->keys);
    if (!tsr_dim_expression_subtract(&h->past, &queries, &h->past)) return false;
    h->plain_causal = causal && mlirValueIsNull(h->bias);
    if (causal && !h->plain_causal) limit_positions(c, h, (MlirValue){NULL}, true);
    return tsr_onnx_out(c, 0, merge_heads(c, attend(c, h)));
}

/* One input makes queries, keys and values by one product. `past` is [2, B, H, P, D]. */
bool tsr_onnx_rule_packed_attention(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), weights = tsr_onnx_in(c, 1), parts[3], past[2] = {{NULL}};
    int64_t count = tsr_onnx_attr_i(c, "num_heads", 0), sizes[3], at = 0;
    heads h = {.flat = true};
    uint64_t columns = 0;
    if (!tsr_onnx_need_rank(c, "the input", x, 3, 3) ||
        !tsr_onnx_need_rank(c, "the weights", weights, 2, 2) ||
        !tsr_onnx_known_dim(c, "the weights", weights, 1, &columns) ||
        !tsr_onnx_attr_must_be(c, "do_rotary", 0, 0) ||
        !tsr_onnx_attr_must_be(c, "past_present_share_buffer", 0, 0) ||
        !tsr_onnx_attr_ints(c, "qkv_hidden_sizes", 3, (int64_t)columns / 3, sizes))
        return false;
    if (sizes[0] < 1 || sizes[0] != sizes[1] || sizes[2] < 1 ||
        sizes[0] + sizes[1] + sizes[2] != (int64_t)columns)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                             "the weights have %" PRIu64 " columns for sizes of %" PRId64
                             ", %" PRId64 " and %" PRId64,
                             columns, sizes[0], sizes[1], sizes[2]);
    MlirValue all = tsr_onnx_product(c, x, weights), bias = tsr_onnx_in_or_null(c, 2);
    if (!mlirValueIsNull(bias)) all = EMIT(c, "add", all, bias);
    for (size_t i = 0; i < 3; at += sizes[i++])
        parts[i] = split_heads(c, tsr_onnx_slice_dim(c, all, 2, at, sizes[i], 1), count);
    if (tsr_onnx_has(c, 4) && !tsr_onnx_need_rank(c, "past", c->inputs[4], 5, 5)) return false;
    for (int64_t i = 0; i < 2 && tsr_onnx_has(c, 4); i++) {
        tsr_shape s = tsr_onnx_type_of(c->inputs[4]).shape;
        const tsr_shape four = {.rank = 4, .dims = {s.dims[1], s.dims[2], s.dims[3], s.dims[4]}};
        past[i] = tsr_onnx_reshape(c, tsr_onnx_slice_dim(c, c->inputs[4], 0, i, 1, 1), &four);
    }
    h.q = parts[0];
    h.k = append(c, past[0], parts[1]);
    h.v = append(c, past[1], parts[2]);
    if (tsr_onnx_wants(c, 1)) {
        tsr_shape s = tsr_onnx_type_of(h.k).shape;
        const tsr_shape five = {.rank = 5, .dims = {1, s.dims[0], s.dims[1], s.dims[2], s.dims[3]}};
        MlirValue both_of[] = {tsr_onnx_reshape(c, h.k, &five), tsr_onnx_reshape(c, h.v, &five)};
        tsr_onnx_out(c, 1, tsr_onnx_concat(c, 2, both_of, 0));
    }
    return attend_fused(c, &h, tsr_onnx_in_or_null(c, 3), tsr_onnx_in_or_null(c, 5));
}

/* Queries, keys and values are inputs, [B, S, H D]; keys and values may be heads already. */
bool tsr_onnx_rule_multi_head_attention(tsr_onnx_call *c) {
    MlirValue parts[3], bias = tsr_onnx_in_or_null(c, 3);
    int64_t count = tsr_onnx_attr_i(c, "num_heads", 0), at = 0;
    heads h = {.flat = true};
    for (size_t i = 0; i < 3; i++) {
        parts[i] = tsr_onnx_in(c, i);
        if (!tsr_onnx_need_rank(c, i ? "keys and values" : "the queries", parts[i], 3, i ? 4 : 3))
            return false;
        uint64_t columns = 0;
        if (tsr_onnx_rank(parts[i]) == 3 &&
            !tsr_onnx_known_dim(c, "an input", parts[i], 2, &columns))
            return false;
        int64_t size = (int64_t)columns;
        if (!mlirValueIsNull(bias) && size)
            parts[i] = EMIT(c, "add", parts[i], tsr_onnx_slice_dim(c, bias, 0, at, size, 1));
        at += size;
        parts[i] = split_heads(c, parts[i], count);
    }
    h.q = parts[0];
    h.k = append(c, tsr_onnx_in_or_null(c, 6), parts[1]);
    h.v = append(c, tsr_onnx_in_or_null(c, 7), parts[2]);
    tsr_onnx_out(c, 1, h.k);
    tsr_onnx_out(c, 2, h.v);
    return attend_fused(c, &h, tsr_onnx_in_or_null(c, 4), tsr_onnx_in_or_null(c, 5));
}

/* ---- rotary embedding ------------------------------------------------------------------------ */

/* Rows of a cache, [B, S, D / 2] or by position, as [B, 1, S, D / 2]. */
static MlirValue cache_rows(tsr_onnx_call *c, MlirValue cache, MlirValue positions) {
    if (!mlirValueIsNull(positions)) cache = tsr_onnx_gather(c, cache, positions, 0);
    tsr_shape s = tsr_onnx_type_of(cache).shape;
    if (!tsr_onnx_need_rank(c, "a cache", cache, 3, 3)) return (MlirValue){NULL};
    return tsr_onnx_reshape(c, cache,
                            &(tsr_shape){.rank = 4, .dims = {s.dims[0], 1, s.dims[1], s.dims[2]}});
}

/* Even and odd elements of the last dim, or its halves. */
static MlirValue half_of(tsr_onnx_call *c, MlirValue x, bool interleaved, int64_t which) {
    int64_t half = (int64_t)tsr_onnx_dim_of(x, 3) / 2;
    return interleaved ? tsr_onnx_slice_dim(c, x, 3, which, half, 2)
                       : tsr_onnx_slice_dim(c, x, 3, which * half, half, 1);
}

static MlirValue join_halves(tsr_onnx_call *c, MlirValue a, MlirValue b, bool interleaved) {
    tsr_shape s = tsr_onnx_type_of(a).shape, column = s;
    if (!interleaved) return tsr_onnx_concat(c, 2, (MlirValue[]){a, b}, 3);
    column.dims[column.rank++] = 1;
    MlirValue parts[] = {tsr_onnx_reshape(c, a, &column), tsr_onnx_reshape(c, b, &column)};
    s.dims[3] *= 2;
    return tsr_onnx_reshape(c, tsr_onnx_concat(c, 2, parts, 4), &s);
}

bool tsr_onnx_rule_rotary(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), positions = tsr_onnx_in_or_null(c, 3);
    bool interleaved = tsr_onnx_attr_i(c, "interleaved", 0) != 0;
    int64_t rotated = tsr_onnx_attr_i(c, "rotary_embedding_dim", 0);
    if (!tsr_onnx_need_rank(c, "the input", x, 3, 4)) return false;
    bool flat = tsr_onnx_rank(x) == 3;
    MlirValue all = split_heads(c, x, tsr_onnx_attr_i(c, "num_heads", 0));
    uint64_t columns = 0;
    if (c->failed || !tsr_onnx_known_dim(c, "the input", all, 3, &columns)) return false;
    int64_t size = (int64_t)columns;
    if (rotated == 0) rotated = size;
    if (rotated < 0 || rotated > size || rotated % 2)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "attribute 'rotary_embedding_dim' is %" PRId64 " of %" PRId64, rotated,
                             size);
    MlirValue cosine = cache_rows(c, tsr_onnx_in(c, 1), positions);
    MlirValue sine = cache_rows(c, tsr_onnx_in(c, 2), positions);
    MlirValue part = tsr_onnx_slice_dim(c, all, 3, 0, rotated, 1);
    MlirValue a = half_of(c, part, interleaved, 0), b = half_of(c, part, interleaved, 1);
    MlirValue real = EMIT(c, "sub", EMIT(c, "mul", cosine, a), EMIT(c, "mul", sine, b));
    MlirValue imaginary = EMIT(c, "add", EMIT(c, "mul", sine, a), EMIT(c, "mul", cosine, b));
    MlirValue y = join_halves(c, real, imaginary, interleaved);
    if (rotated < size) {
        MlirValue rest = tsr_onnx_slice_dim(c, all, 3, rotated, size - rotated, 1);
        y = tsr_onnx_concat(c, 2, (MlirValue[]){y, rest}, 3);
    }
    return tsr_onnx_out(c, 0, flat ? merge_heads(c, y) : y);
}
