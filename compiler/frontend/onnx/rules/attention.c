/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention and rotary embedding. The op of Graph IR is taken where only its result is wanted;
 * scores that are capped or are an output are computed one by one.
 */
#include "compiler/frontend/onnx/rules.h"
#include "compiler/frontend/onnx/tensor.h"

#include <inttypes.h>
#include <math.h>

typedef struct heads {
    MlirValue q, k, v; /* [B, H, S, D], [B, G, T, D], [B, G, T, E] */
    MlirValue allowed; /* i1 that stretches to [B, H, S, T]; null: all */
    MlirValue bias;    /* of q's type; null: none */
    uint64_t batch, queries, keys;
    uint64_t past;     /* keys of the cache */
    bool flat;         /* inputs and result are [B, S, H D] */
    bool plain_causal; /* query i sees the keys j <= i + T - S, and there is no other mask */
    double scale;
} heads;

/* [B, S, H D] to [B, H, S, D] */
static MlirValue split_heads(tsr_onnx_call *c, MlirValue x, int64_t count) {
    tsr_shape s = tsr_onnx_type_of(x).shape;
    if (s.rank == 4 || c->failed) return x;
    if (count < 1 || s.dims[2] % (uint64_t)count)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_ATTRIBUTE,
                                   "%" PRId64 " heads for a dim of %" PRIu64, count, s.dims[2]);
    const tsr_shape four = {
        .rank = 4, .dims = {s.dims[0], s.dims[1], (uint64_t)count, s.dims[2] / (uint64_t)count}};
    return tsr_onnx_swap(c, tsr_onnx_reshape(c, x, &four), 1, 2);
}

/* [B, H, S, D] to [B, S, H D] */
static MlirValue merge_heads(tsr_onnx_call *c, MlirValue x) {
    tsr_shape s = tsr_onnx_type_of(x).shape;
    const tsr_shape three = {.rank = 3, .dims = {s.dims[0], s.dims[2], s.dims[1] * s.dims[3]}};
    return tsr_onnx_reshape(c, tsr_onnx_swap(c, x, 1, 2), &three);
}

static MlirValue both(tsr_onnx_call *c, MlirValue a, MlirValue b) {
    return mlirValueIsNull(a) ? b : EMIT(c, "and", a, b);
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* The place of each query among the keys, [B or 1, 1, S, 1], and of each key, [1, 1, 1, T]. */
static void places_of(tsr_onnx_call *c, const heads *h, MlirValue lengths, MlirValue *out_query,
                      MlirValue *out_key) {
    MlirValue query = tsr_onnx_places(c, TSR_DTYPE_I64, 4, 2, h->queries);
    *out_key = tsr_onnx_places(c, TSR_DTYPE_I64, 4, 3, h->keys);
    if (mlirValueIsNull(lengths) || h->past)
        query = EMIT(c, "add", query, tsr_onnx_number(c, query, (double)h->past));
    else
        query = EMIT(c, "add", query,
                     EMIT(c, "sub", lengths, tsr_onnx_number(c, query, (double)h->queries)));
    *out_query = query;
}

/* Causality, windows around the query and the lengths of the keys. */
static void limit_places(tsr_onnx_call *c, heads *h, MlirValue lengths, bool causal) {
    int64_t left = tsr_onnx_attr_i(c, "left_window_size", -1);
    int64_t right = tsr_onnx_attr_i(c, "right_window_size", -1);
    MlirValue query, key;
    places_of(c, h, lengths, &query, &key);
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
    if (rank == 0 || has == 1 || has >= h->keys) return mask;
    high[rank - 1] = (int64_t)(h->keys - has);
    return tsr_onnx_pad(c, mask, low, high, NULL, is_truth ? 0 : -(double)INFINITY);
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
                      h->past + h->queries == h->keys;
    if ((causal && !h->plain_causal) || windowed || !mlirValueIsNull(lengths))
        limit_places(c, h, lengths, causal);
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
    tsr_attr attrs[3] = {tsr_onnx_f64_attr(c, "scale", h->scale)};
    if (h->plain_causal) attrs[1] = (tsr_attr){"causal", tsr_attr_make_unit(c->builder->context)};
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
    s.dims[1] *= times;
    return tsr_onnx_reshape(c, tsr_onnx_broadcast(c, x, &five), &s);
}

/* Scores one by one: mode 0 gives the product, 1 capped, 2 masked, 3 after the softmax. */
static MlirValue attend_in_steps(tsr_onnx_call *c, heads *h) {
    double cap = tsr_onnx_attr_f(c, "softcap", 0);
    int64_t mode = tsr_onnx_attr_i(c, "qk_matmul_output_mode", 0);
    tsr_dtype dtype = tsr_onnx_dtype(h->q);
    uint64_t times = tsr_onnx_dim_of(h->q, 1) / tsr_onnx_dim_of(h->k, 1);
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
    if (h->plain_causal) limit_places(c, h, (MlirValue){NULL}, true);
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

static MlirValue with_past(tsr_onnx_call *c, size_t input, MlirValue now) {
    MlirValue past = tsr_onnx_in_or_null(c, input);
    return mlirValueIsNull(past) ? now : tsr_onnx_concat(c, 2, (MlirValue[]){past, now}, 2);
}

static bool check_heads(tsr_onnx_call *c, const heads *h) {
    uint64_t of_q = tsr_onnx_dim_of(h->q, 1), of_k = tsr_onnx_dim_of(h->k, 1);
    if (c->failed) return false;
    return (of_k && of_q % of_k == 0) ||
           tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                         "%" PRIu64 " query heads are no multiple of %" PRIu64 " key heads", of_q,
                         of_k);
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
    h.k = with_past(c, 4, split_heads(c, c->inputs[1], kv_count));
    h.v = with_past(c, 5, split_heads(c, c->inputs[2], kv_count));
    if (!check_heads(c, &h)) return false;
    h.batch = tsr_onnx_dim_of(h.q, 0);
    h.queries = tsr_onnx_dim_of(h.q, 2);
    h.keys = tsr_onnx_dim_of(h.k, 2);
    h.past = tsr_onnx_has(c, 4) ? tsr_onnx_dim_of(c->inputs[4], 2) : 0;
    h.scale = tsr_onnx_attr_f(c, "scale", 1 / sqrt((double)tsr_onnx_dim_of(h.q, 3)));
    tsr_onnx_out(c, 1, h.k);
    tsr_onnx_out(c, 2, h.v);
    read_masks(c, &h);
    bool in_steps = tsr_onnx_attr_f(c, "softcap", 0) > 0 || tsr_onnx_wants(c, 3);
    MlirValue y = in_steps ? attend_in_steps(c, &h) : attend(c, &h);
    return tsr_onnx_out(c, 0, h.flat ? merge_heads(c, y) : y);
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
    int64_t turned = tsr_onnx_attr_i(c, "rotary_embedding_dim", 0);
    if (!tsr_onnx_need_rank(c, "the input", x, 3, 4)) return false;
    bool flat = tsr_onnx_rank(x) == 3;
    MlirValue all = split_heads(c, x, tsr_onnx_attr_i(c, "num_heads", 0));
    int64_t size = (int64_t)tsr_onnx_dim_of(all, 3);
    if (turned == 0) turned = size;
    if (turned < 0 || turned > size || turned % 2)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "attribute 'rotary_embedding_dim' is %" PRId64 " of %" PRId64, turned,
                             size);
    MlirValue cosine = cache_rows(c, tsr_onnx_in(c, 1), positions);
    MlirValue sine = cache_rows(c, tsr_onnx_in(c, 2), positions);
    MlirValue part = tsr_onnx_slice_dim(c, all, 3, 0, turned, 1);
    MlirValue a = half_of(c, part, interleaved, 0), b = half_of(c, part, interleaved, 1);
    MlirValue real = EMIT(c, "sub", EMIT(c, "mul", cosine, a), EMIT(c, "mul", sine, b));
    MlirValue imaginary = EMIT(c, "add", EMIT(c, "mul", sine, a), EMIT(c, "mul", cosine, b));
    MlirValue y = join_halves(c, real, imaginary, interleaved);
    if (turned < size) {
        MlirValue rest = tsr_onnx_slice_dim(c, all, 3, turned, size - turned, 1);
        y = tsr_onnx_concat(c, 2, (MlirValue[]){y, rest}, 3);
    }
    return tsr_onnx_out(c, 0, flat ? merge_heads(c, y) : y);
}
