/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops that carry a state along an axis, and newer activations.
 */
#include "compiler/frontend/onnx/rules/loop.h"
#include "compiler/frontend/onnx/rules/windows.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- products -------------------------------------------------------------------------------- */

bool tsr_onnx_rule_cumprod(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), next[1], slices[1], results[2];
    int64_t given = 0;
    uint32_t axis;
    bool exclusive = tsr_onnx_attr_i(c, "exclusive", 0), reverse = tsr_onnx_attr_i(c, "reverse", 0);
    tsr_onnx_loop loop;
    if (!tsr_onnx_in_int(c, 1, "axis", &given) ||
        !tsr_onnx_axis(c, "axis", given, tsr_onnx_rank(x), &axis))
        return false;
    MlirValue rows = tsr_onnx_swap(c, tsr_onnx_wide(c, x), 0, axis);
    tsr_shape shape = tsr_onnx_type_of(rows).shape;
    memmove(shape.dims, shape.dims + 1, --shape.rank * sizeof shape.dims[0]);
    MlirValue first = tsr_onnx_filled(c, tsr_onnx_dtype(rows), &shape, 1);
    if (!tsr_onnx_loop_begin(c, 1, &first, 1, &rows, 0, &loop)) return false;
    next[0] = EMIT(c, "mul", loop.arguments[0], loop.arguments[1]);
    slices[0] = exclusive ? loop.arguments[0] : next[0];
    if (!tsr_onnx_loop_end(c, &loop, reverse, next, 1, slices, results)) return false;
    return tsr_onnx_out(c, 0,
                        tsr_onnx_cast(c, tsr_onnx_swap(c, results[1], 0, axis), tsr_onnx_dtype(x)));
}

/* ---- gated units ----------------------------------------------------------------------------- */

bool tsr_onnx_rule_swiglu(tsr_onnx_call *c) {
    MlirValue a = tsr_onnx_in(c, 0), b = tsr_onnx_in(c, 1), wide = tsr_onnx_wide(c, a);
    double alpha = tsr_onnx_attr_f(c, "alpha", 1);
    MlirValue scaled = EMIT(c, "mul", wide, tsr_onnx_number(c, wide, alpha));
    MlirValue gate = EMIT(c, "mul", wide, EMIT(c, "sigmoid", scaled));
    MlirValue y = EMIT(c, "mul", gate, tsr_onnx_wide(c, b));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, tsr_onnx_dtype(a)));
}

/* A convolution of each channel with what came before. */
bool tsr_onnx_rule_causal_conv(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), filter = tsr_onnx_in(c, 1), bias = tsr_onnx_in_or_null(c, 2);
    MlirValue past = tsr_onnx_in_or_null(c, 3);
    const char *activation = tsr_onnx_attr_s(c, "activation", "none");
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0};
    if (!tsr_onnx_need_rank(c, "the input", x, 3, 3) ||
        !tsr_onnx_need_rank(c, "the weight", filter, 3, 3))
        return false;
    uint64_t of_filter = 0, channels = 0;
    if (!tsr_onnx_known_dim(c, "the weight", filter, 2, &of_filter) ||
        !tsr_onnx_known_dim(c, "the input", x, 1, &channels))
        return false;
    int64_t size = (int64_t)of_filter;
    tsr_onnx_windows w;
    low[2] = size - 1;
    bool has_past = !mlirValueIsNull(past) && tsr_onnx_count(past);
    MlirValue all = has_past ? tsr_onnx_concat(c, 2, (MlirValue[]){past, x}, 2)
                             : tsr_onnx_pad(c, x, low, high, NULL, 0);
    if (!tsr_onnx_read_windows(c, all, &size, &w)) return false;
    MlirValue y = tsr_onnx_conv(c, all, filter, &w, (int64_t)channels);
    if (!mlirValueIsNull(bias)) y = EMIT(c, "add", y, tsr_onnx_per_channel(c, bias, 3));
    if (strcmp(activation, "none") != 0) y = EMIT(c, "silu", y);
    uint64_t first = 0;
    if (!c->failed && !tsr_dim_subtract(tsr_onnx_dim_of(all, 2), of_filter - 1, &first))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                             "the weight has more positions than the input");
    tsr_onnx_out(c, 1, tsr_onnx_slice_open(c, all, 2, first, of_filter - 1, 1));
    return tsr_onnx_out(c, 0, y);
}

/* ---- linear attention ------------------------------------------------------------------------ */

/* [B, T, H D] to [T, B, H, D], in f32 at least. */
static MlirValue by_step(tsr_onnx_call *c, MlirValue x, int64_t heads) {
    tsr_shape s = tsr_onnx_type_of(x).shape;
    if (!tsr_onnx_need_rank(c, "an input", x, 3, 3)) return (MlirValue){NULL};
    uint64_t size = 0;
    if (!tsr_onnx_known_dim(c, "an input", x, 2, &size)) return (MlirValue){NULL};
    if (heads < 1 || size % (uint64_t)heads)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "%" PRId64 " heads for %" PRIu64, heads,
                                   size);
    const tsr_shape four = {
        .rank = 4, .dims = {s.dims[0], s.dims[1], (uint64_t)heads, size / (uint64_t)heads}};
    return tsr_onnx_swap(c, tsr_onnx_reshape(c, tsr_onnx_wide(c, x), &four), 0, 1);
}

static MlirValue add_dim(tsr_onnx_call *c, MlirValue x, uint32_t at) {
    tsr_shape s = tsr_onnx_type_of(x).shape;
    for (uint32_t i = s.rank++; i > at; i--) s.dims[i] = s.dims[i - 1];
    s.dims[at] = 1;
    return tsr_onnx_reshape(c, x, &s);
}

typedef struct linear {
    bool gates, corrects;
    int64_t heads, groups; /* of keys; query heads of each */
    double scale;
} linear;

/* One step: the next state [B, H, K, V], and the result [B, H G, V]. */
static MlirValue linear_step(tsr_onnx_call *c, const linear *l, const MlirValue *arguments,
                             MlirValue *out_state) {
    MlirValue state = arguments[0], q = arguments[1], k = arguments[2], v = arguments[3];
    size_t at = 4;
    if (l->gates) state = EMIT(c, "mul", state, add_dim(c, EMIT(c, "exp", arguments[at++]), 3));
    MlirValue key = add_dim(c, k, 3);
    if (l->corrects) {
        MlirValue found = tsr_onnx_reduce(c, TSR_GRAPH_NAME("sum"), EMIT(c, "mul", state, key), 1,
                                          (const int64_t[]){2}, false);
        v = EMIT(c, "mul", arguments[at], EMIT(c, "sub", v, found));
    }
    state = EMIT(c, "add", state, EMIT(c, "mul", key, add_dim(c, v, 2)));
    *out_state = state;
    tsr_shape s = tsr_onnx_type_of(q).shape; /* [B, H G, K] as [B, H, G, K] */
    const tsr_shape grouped = {
        .rank = 4, .dims = {s.dims[0], (uint64_t)l->heads, (uint64_t)l->groups, s.dims[2]}};
    MlirValue y = tsr_onnx_matmul(c, tsr_onnx_reshape(c, q, &grouped), state, false, false);
    y = EMIT(c, "mul", y, tsr_onnx_number(c, y, l->scale));
    s.dims[2] = tsr_onnx_dim_of(y, 3);
    return tsr_onnx_reshape(c, y, &s);
}

bool tsr_onnx_rule_linear_attention(tsr_onnx_call *c) {
    const char *rule = tsr_onnx_attr_s(c, "update_rule", "gated_delta");
    int64_t of_q = tsr_onnx_attr_i(c, "q_num_heads", 0),
            of_k = tsr_onnx_attr_i(c, "kv_num_heads", 0);
    linear l = {.gates = strncmp(rule, "gated", 5) == 0,
                .corrects = strcmp(rule, "delta") == 0 || strcmp(rule, "gated_delta") == 0,
                .heads = of_k,
                .scale = tsr_onnx_attr_f(c, "scale", 0)};
    MlirValue sequences[5], results[2], next, y, query = tsr_onnx_in(c, 0);
    size_t count = 3;
    tsr_onnx_loop loop;
    if (of_k < 1 || of_q % of_k)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE, "%" PRId64 " query heads of %" PRId64,
                             of_q, of_k);
    l.groups = of_q / of_k;
    sequences[0] = by_step(c, query, of_q);
    sequences[1] = by_step(c, tsr_onnx_in(c, 1), of_k);
    sequences[2] = by_step(c, tsr_onnx_in(c, 2), of_k);
    if (l.gates) sequences[count++] = by_step(c, tsr_onnx_in(c, 4), of_k);
    if (l.corrects) {
        MlirValue beta = tsr_onnx_in(c, 5);
        bool shared = tsr_onnx_dim_of(beta, 2) == 1;
        sequences[count++] = by_step(c, beta, shared ? 1 : of_k);
    }
    if (c->failed) return false;
    if (l.scale == 0) l.scale = 1 / sqrt((double)tsr_onnx_dim_of(sequences[0], 3));
    const tsr_shape shape = {.rank = 4,
                             .dims = {tsr_onnx_dim_of(query, 0), (uint64_t)of_k,
                                      tsr_onnx_dim_of(sequences[1], 3),
                                      tsr_onnx_dim_of(sequences[2], 3)}};
    MlirValue past = tsr_onnx_in_or_null(c, 3);
    tsr_dtype cached = tsr_onnx_dtype(mlirValueIsNull(past) ? query : past);
    tsr_dtype by = tsr_onnx_dtype(sequences[0]);
    MlirValue state =
        mlirValueIsNull(past) ? tsr_onnx_filled(c, by, &shape, 0) : tsr_onnx_cast(c, past, by);
    if (!tsr_onnx_loop_begin(c, 1, &state, count, sequences, 0, &loop)) return false;
    y = linear_step(c, &l, loop.arguments, &next);
    if (!tsr_onnx_loop_end(c, &loop, false, &next, 1, &y, results)) return false;
    y = tsr_onnx_swap(c, results[1], 0, 1); /* [B, T, H, V] */
    tsr_shape s = tsr_onnx_type_of(y).shape;
    s.dims[2] = tsr_onnx_times(c, s.dims[2], s.dims[3]);
    s.rank = 3;
    tsr_onnx_out(c, 1, tsr_onnx_cast(c, results[0], cached));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, tsr_onnx_reshape(c, y, &s), tsr_onnx_dtype(query)));
}
