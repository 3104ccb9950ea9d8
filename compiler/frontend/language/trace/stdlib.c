/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of models: from tessera.stdlib import flash_attention, split_qkv, residual; and functions
 * of the library that emit several ops.
 */
#include "compiler/frontend/language/trace/tracer.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

/* ---- single ops ---- */

static tsr_value emit(tsr_evaluator *e, const tsr_call *call, const char *op, size_t count,
                      const tsr_value *operands, const tsr_attr *attrs, const tsr_type *type) {
    MlirValue x[4];
    TSR_ASSERT(count <= TSR_COUNT(x));
    for (size_t i = 0; i < count; i++) {
        if (!operands[i].kind) return TSR_POISON;
        x[i] = tsr_tensor_use(e, operands[i], call->span);
        if (mlirValueIsNull(x[i])) return TSR_POISON;
    }
    return tsr_trace(e, call->span, op, count, x, attrs, type);
}

static tsr_value reshape(tsr_evaluator *e, const tsr_call *call, tsr_value x, uint32_t rank,
                         const uint64_t *dims) {
    if (!x.kind) return TSR_POISON;
    tsr_type type = {.dtype = tsr_tensor_get(x)->type.dtype, .shape = {.rank = rank}};
    memcpy(type.shape.dims, dims, rank * sizeof *dims);
    return emit(e, call, TSR_GRAPH_NAME("reshape"), 1, &x, NULL, &type);
}

/* [batch, length, heads, width] and [batch, heads, length, width] */
static tsr_value swap_heads(tsr_evaluator *e, const tsr_call *call, tsr_value x) {
    static const int64_t permutation[] = {0, 2, 1, 3};
    const tsr_attr attrs[] = {
        {"permutation", tsr_attr_make_i64s(tsr_tracer_of(e)->context, 4, permutation)}, {0}};
    return emit(e, call, TSR_GRAPH_NAME("transpose"), 1, &x, attrs, NULL);
}

static tsr_value drop(tsr_evaluator *e, const tsr_call *call, tsr_value x, double rate) {
    MlirContext context = tsr_tracer_of(e)->context;
    const tsr_attr attrs[] = {
        {"rate", mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), rate)}, {0}};
    return rate == 0 ? x : emit(e, call, TSR_GRAPH_NAME("dropout"), 1, &x, attrs, NULL);
}

static bool read_rate(tsr_evaluator *e, const tsr_argument *a, double *out) {
    *out = 0;
    if (!a) return true;
    if (!tsr_argument_real(e, a, out)) return false;
    if (*out >= 0 && *out < 1) return true;
    tsr_evaluate_fail(e, a->span, TSR_DIAG_EVALUATE_VALUE,
                      "the rate is %g; expected at least 0 and below 1", *out);
    return false;
}

static bool need_rank(tsr_evaluator *e, const tsr_call *call, tsr_value x, const char *name,
                      uint32_t rank) {
    uint32_t is = tsr_tensor_get(x)->type.shape.rank;
    if (is == rank) return true;
    tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_VALUE, "'%s' has %u dims; %s() takes %u",
                      name, is, call->callee, rank);
    return false;
}

/* ---- the library ---- */

tsr_value tsr_run_cast_like(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[2];
    MlirValue x[2];
    (void)self;
    if (!tsr_call_read(e, call, "x like", args, 2) || !tsr_call_need(e, call, args[0], "x") ||
        !tsr_call_need(e, call, args[1], "like") || !tsr_argument_tensor(e, args[0], &x[0]) ||
        !tsr_argument_tensor(e, args[1], &x[1]))
        return TSR_POISON;
    tsr_type type = tsr_tensor_get(args[0]->value)->type;
    tsr_dtype dtype = tsr_tensor_get(args[1]->value)->type.dtype;
    if (type.dtype == dtype) return args[0]->value;
    type.dtype = dtype;
    return tsr_trace(e, call->span, TSR_GRAPH_NAME("cast"), 1, x, NULL, &type);
}

/* Without a scale it is one of ones; without axes it is the last dim. */
tsr_value tsr_run_rmsnorm_safe(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    MlirContext context = tsr_tracer_of(e)->context;
    const tsr_argument *args[4];
    int64_t axes[TSR_RANK_MAX];
    size_t count = 1;
    double eps;
    MlirValue x[2];
    (void)self;
    if (!tsr_call_read(e, call, "x scale axes eps", args, 4) ||
        !tsr_call_need(e, call, args[0], "x") || !tsr_argument_tensor(e, args[0], &x[0]))
        return TSR_POISON;
    tsr_type type = tsr_tensor_get(args[0]->value)->type, ones = {.dtype = type.dtype};
    axes[0] = -1;
    if (args[2] && !tsr_argument_integers(e, args[2], TSR_RANK_MAX, axes, &count))
        return TSR_POISON;
    for (size_t i = 0; i < count; i++) {
        if (axes[i] < 0) axes[i] += type.shape.rank;
        bool has = axes[i] >= 0 && axes[i] < type.shape.rank;
        if (has) ones.shape.dims[ones.shape.rank++] = type.shape.dims[axes[i]];
    }
    tsr_value scale = args[1] ? args[1]->value : tsr_trace_fill(e, call->span, &ones, 1);
    if (!scale.kind) return TSR_POISON;
    x[1] = tsr_trace_operand(e, scale, args[0]->value, args[1] ? args[1]->span : call->span);
    if (mlirValueIsNull(x[1]) || (args[3] && !tsr_argument_real(e, args[3], &eps)))
        return TSR_POISON;
    tsr_attr attrs[] = {{"axes", tsr_attr_make_i64s(context, count, axes)}, {0}, {0}};
    if (args[3])
        attrs[1] = (tsr_attr){"eps", mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), eps)};
    return tsr_trace(e, call->span, TSR_GRAPH_NAME("rmsnorm_safe"), 2, x, attrs, NULL);
}

/* ---- tessera.stdlib ---- */

/* [batch, length, 3 * heads * width] as q, k, v of [batch, heads, length, width]. */
tsr_value tsr_stdlib_split_qkv(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[2];
    MlirValue x, parts[3];
    int64_t heads;
    uint64_t width, head;
    (void)self;
    if (!tsr_call_read(e, call, "qkv heads", args, 2) || !tsr_call_need(e, call, args[0], "qkv") ||
        !tsr_call_need(e, call, args[1], "heads") || !tsr_argument_tensor(e, args[0], &x) ||
        !need_rank(e, call, args[0]->value, "qkv", 3))
        return TSR_POISON;
    if (!tsr_value_as_integer(args[1]->value, &heads))
        return tsr_argument_refuse(e, args[1], "an int"), TSR_POISON;
    if (heads < 1)
        return tsr_evaluate_fail(e, args[1]->span, TSR_DIAG_EVALUATE_VALUE,
                                 "heads is %" PRId64 "; expected at least 1", heads);
    tsr_type type = tsr_tensor_get(args[0]->value)->type;
    const uint64_t *d = type.shape.dims;
    char text[TSR_DIM_TEXT_MAX];
    if (!tsr_dim_divide(d[2], 3, &width) || !tsr_dim_divide(width, (uint64_t)heads, &head))
        return tsr_evaluate_fail(
            e, call->span, TSR_DIAG_EVALUATE_VALUE,
            "the last dim of 'qkv' is %s; expected a multiple of 3 times %" PRId64 " heads",
            tsr_dim_text(d[2], text), heads);
    type.shape.dims[2] = width;
    const tsr_type types[] = {type, type, type};
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(tsr_tracer_of(e)->context, 2)}, {0}};
    if (!tsr_trace_op(e, call->span, TSR_GRAPH_NAME("split"), 1, &x, attrs, 3, types, parts))
        return TSR_POISON;
    tsr_value all = tsr_value_list(e->arena, TSR_VALUE_TUPLE, 3);
    if (!all.kind) return tsr_evaluate_no_memory(e);
    const uint64_t by_head[] = {d[0], d[1], (uint64_t)heads, head};
    for (size_t i = 0; i < 3; i++) {
        tsr_value part = reshape(e, call, tsr_tensor_make(e, parts[i]), 4, by_head);
        all.list->items[all.list->count] = swap_heads(e, call, part);
        if (!all.list->items[all.list->count++].kind) return TSR_POISON;
    }
    return all;
}

/* Attention of q over a cache; its heads are merged: [batch, length, heads * width]. */
tsr_value tsr_stdlib_flash_attention(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    MlirContext context = tsr_tracer_of(e)->context;
    const tsr_argument *args[4];
    MlirValue q;
    double rate;
    size_t count = 0;
    tsr_attr attrs[3] = {0};
    (void)self;
    if (!tsr_call_read(e, call, "q cache dropout causal", args, 4) ||
        !tsr_call_need(e, call, args[0], "q") || !tsr_call_need(e, call, args[1], "cache") ||
        !tsr_argument_tensor(e, args[0], &q) || !need_rank(e, call, args[0]->value, "q", 4) ||
        !read_rate(e, args[2], &rate))
        return TSR_POISON;
    if (args[3] && args[3]->value.kind != TSR_VALUE_BOOL)
        return tsr_argument_refuse(e, args[3], "True or False"), TSR_POISON;
    if (!tsr_value_is(args[1]->value, &tsr_cache_class))
        return tsr_argument_refuse(e, args[1], "a cache, as KVCache.of(k, v)"), TSR_POISON;
    tsr_value k = tsr_evaluate_attribute(e, args[1]->value, "K", args[1]->span);
    tsr_value v = k.kind ? tsr_evaluate_attribute(e, args[1]->value, "V", args[1]->span) : k;
    if (args[3] && args[3]->value.truth)
        attrs[count++] = (tsr_attr){"causal", tsr_attr_make_unit(context)};
    if (rate != 0)
        attrs[count++] =
            (tsr_attr){"dropout", mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), rate)};
    const tsr_value operands[] = {args[0]->value, k, v};
    tsr_value y = emit(e, call, TSR_GRAPH_NAME("attention"), 3, operands, attrs, NULL);
    y = y.kind ? swap_heads(e, call, y) : y;
    if (!y.kind) return TSR_POISON;
    const uint64_t *d = tsr_tensor_get(y)->type.shape.dims;
    uint64_t merged[] = {d[0], d[1], 0};
    if (!tsr_dim_multiply(d[2], d[3], &merged[2]))
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_VALUE,
                                 "heads times width is too large");
    return reshape(e, call, y, 3, merged);
}

/* x + dropout(y) */
tsr_value tsr_stdlib_residual(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[3];
    MlirValue x;
    double rate;
    (void)self;
    if (!tsr_call_read(e, call, "x y dropout", args, 3) || !tsr_call_need(e, call, args[0], "x") ||
        !tsr_call_need(e, call, args[1], "y") || !tsr_argument_tensor(e, args[0], &x) ||
        !tsr_argument_tensor(e, args[1], &x) || !read_rate(e, args[2], &rate))
        return TSR_POISON;
    const tsr_value operands[] = {args[0]->value, drop(e, call, args[1]->value, rate)};
    return emit(e, call, TSR_GRAPH_NAME("add"), 2, operands, NULL, NULL);
}
