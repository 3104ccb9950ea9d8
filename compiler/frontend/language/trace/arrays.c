/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the library that join, fill, sort and spread tensors; assignments and checks.
 */
#include "compiler/frontend/language/trace/tracer.h"
#include "compiler/graph/rule.h"

#include <inttypes.h>
#include <string.h>

static int64_t wrap_axis(int64_t axis, uint32_t rank) { return axis < 0 ? axis + rank : axis; }

static bool read_axis(tsr_evaluator *e, const tsr_argument *a, uint32_t rank, int64_t *out) {
    if (!tsr_value_as_integer(a->value, out)) return tsr_argument_refuse(e, a, "an int");
    *out = wrap_axis(*out, rank);
    return true;
}

tsr_value tsr_run_concat(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[2];
    size_t count = 0;
    int64_t axis;
    (void)self;
    if (!tsr_call_read(e, call, "tensors axis", args, 2) ||
        !tsr_call_need(e, call, args[0], "tensors") || !tsr_call_need(e, call, args[1], "axis"))
        return TSR_POISON;
    const tsr_value *items = tsr_evaluate_items(e, args[0]->value, args[0]->span, &count);
    MlirValue *x = items ? TSR_NEW(e->arena, MlirValue, count + 1) : NULL;
    if (!x) return items ? tsr_evaluate_no_memory(e) : TSR_POISON;
    for (size_t i = 0; i < count; i++) {
        const tsr_argument one = {.value = items[i], .span = args[0]->span};
        if (!tsr_argument_tensor(e, &one, &x[i])) return TSR_POISON;
    }
    if (!count) return tsr_argument_refuse(e, args[0], "at least one tensor"), TSR_POISON;
    if (!read_axis(e, args[1], tsr_tensor_get(items[0])->type.shape.rank, &axis)) return TSR_POISON;
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(tsr_tracer_of(e)->context, axis)}, {0}};
    return tsr_trace(e, call->span, TSR_GRAPH_NAME("concat"), count, x, attrs, NULL);
}

/* ---- filled tensors ---- */

bool tsr_argument_type(tsr_evaluator *e, const tsr_argument *shape, const tsr_argument *dtype,
                       tsr_type *out) {
    size_t rank = 0;
    out->shape = (tsr_shape){0};
    if (!tsr_argument_dims(e, shape, false, out->shape.dims, &rank)) return false;
    out->shape.rank = (uint32_t)rank;
    return !dtype || tsr_argument_dtype(e, dtype, &out->dtype);
}

/* A constant has a size; where dims have none, its one element is repeated. */
tsr_value tsr_trace_fill(tsr_evaluator *e, tsr_span span, const tsr_type *type, double value) {
    tsr_type element = {.dtype = type->dtype};
    const tsr_type *own = tsr_type_is_static(type) ? type : &element;
    const tsr_attr attrs[] = {{"value", tsr_attr_make_splat(tsr_tracer_of(e)->context, own, value)},
                              {0}};
    tsr_value made = tsr_trace(e, span, TSR_GRAPH_NAME("constant"), 0, NULL, attrs, own);
    if (!made.kind || own == type) return made;
    MlirValue x = tsr_tensor_get(made)->value;
    return tsr_trace(e, span, TSR_GRAPH_NAME("broadcast"), 1, &x, NULL, type);
}

static tsr_value fill(tsr_evaluator *e, const tsr_call *call, const tsr_argument *shape,
                      const tsr_argument *dtype, double value) {
    tsr_type type;
    if (!tsr_call_need(e, call, shape, "shape") || !tsr_call_need(e, call, dtype, "dtype") ||
        !tsr_argument_type(e, shape, dtype, &type))
        return TSR_POISON;
    return tsr_trace_fill(e, call->span, &type, value);
}

tsr_value tsr_run_full(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[3];
    double value;
    (void)self;
    if (!tsr_call_read(e, call, "shape value dtype", args, 3) ||
        !tsr_call_need(e, call, args[1], "value") || !tsr_argument_real(e, args[1], &value))
        return TSR_POISON;
    return fill(e, call, args[0], args[2], value);
}

tsr_value tsr_run_zeros(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[2];
    (void)self;
    if (!tsr_call_read(e, call, "shape dtype", args, 2)) return TSR_POISON;
    return fill(e, call, args[0], args[1], 0);
}

tsr_value tsr_run_ones(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[2];
    (void)self;
    if (!tsr_call_read(e, call, "shape dtype", args, 2)) return TSR_POISON;
    return fill(e, call, args[0], args[1], 1);
}

tsr_value tsr_run_broadcast(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[2];
    MlirValue x;
    tsr_type type;
    (void)self;
    if (!tsr_call_read(e, call, "x shape", args, 2) || !tsr_call_need(e, call, args[0], "x") ||
        !tsr_call_need(e, call, args[1], "shape") || !tsr_argument_tensor(e, args[0], &x) ||
        !tsr_argument_type(e, args[1], NULL, &type))
        return TSR_POISON;
    type.dtype = tsr_tensor_get(args[0]->value)->type.dtype;
    return tsr_trace(e, call->span, TSR_GRAPH_NAME("broadcast"), 1, &x, NULL, &type);
}

tsr_value tsr_run_one_hot(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[4];
    MlirValue x;
    int64_t size, axis = -1;
    tsr_type type;
    (void)self;
    if (!tsr_call_read(e, call, "x size dtype axis", args, 4) ||
        !tsr_call_need(e, call, args[0], "x") || !tsr_call_need(e, call, args[1], "size") ||
        !tsr_call_need(e, call, args[2], "dtype") || !tsr_argument_tensor(e, args[0], &x))
        return TSR_POISON;
    type = tsr_tensor_get(args[0]->value)->type;
    if (!tsr_value_as_integer(args[1]->value, &size) || size < 1)
        return tsr_argument_refuse(e, args[1], "an int of at least 1"), TSR_POISON;
    if (!tsr_argument_dtype(e, args[2], &type.dtype)) return TSR_POISON;
    if (args[3] && !tsr_value_as_integer(args[3]->value, &axis))
        return tsr_argument_refuse(e, args[3], "an int"), TSR_POISON;
    axis = wrap_axis(axis, type.shape.rank + 1);
    if (axis < 0 || axis > type.shape.rank || type.shape.rank == TSR_RANK_MAX)
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_VALUE,
                                 "axis %" PRId64 " is not one of %u dims of the result; at most %d "
                                 "are allowed",
                                 axis, type.shape.rank + 1, TSR_RANK_MAX);
    for (uint32_t i = type.shape.rank++; i > axis; i--) type.shape.dims[i] = type.shape.dims[i - 1];
    type.shape.dims[axis] = (uint64_t)size;
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(tsr_tracer_of(e)->context, axis)}, {0}};
    return tsr_trace(e, call->span, TSR_GRAPH_NAME("one_hot"), 1, &x, attrs, &type);
}

/* ---- order ---- */

/* Values and their indices, as a tuple. */
static tsr_value trace_pair(tsr_evaluator *e, const tsr_call *call, const char *op, tsr_value x,
                            MlirValue operand, const tsr_attr *attrs) {
    tsr_type types[2];
    MlirValue results[2];
    const tsr_type *type = &tsr_tensor_get(x)->type;
    int64_t axis = 0, k = 0;
    for (const tsr_attr *a = attrs; a->name; a++) {
        if (strcmp(a->name, "axis") == 0) tsr_attr_i64(a->value, &axis);
        if (strcmp(a->name, "k") == 0) tsr_attr_i64(a->value, &k);
    }
    types[0] = types[1] = *type;
    types[1].dtype = TSR_DTYPE_I64;
    for (size_t i = 0; i < 2 && k > 0 && axis >= 0 && axis < type->shape.rank; i++)
        types[i].shape.dims[axis] = (uint64_t)k;
    tsr_value pair = tsr_value_list(e->arena, TSR_VALUE_TUPLE, 2);
    if (!pair.kind) return tsr_evaluate_no_memory(e);
    if (!tsr_trace_op(e, call->span, op, 1, &operand, attrs, 2, types, results)) return TSR_POISON;
    for (size_t i = 0; i < 2; i++)
        pair.list->items[pair.list->count++] = tsr_tensor_make(e, results[i]);
    return pair;
}

tsr_value tsr_run_sort(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    MlirContext context = tsr_tracer_of(e)->context;
    const tsr_argument *args[3];
    MlirValue x;
    int64_t axis;
    (void)self;
    if (!tsr_call_read(e, call, "x axis descending", args, 3) ||
        !tsr_call_need(e, call, args[0], "x") || !tsr_call_need(e, call, args[1], "axis") ||
        !tsr_argument_tensor(e, args[0], &x) ||
        !read_axis(e, args[1], tsr_tensor_get(args[0]->value)->type.shape.rank, &axis))
        return TSR_POISON;
    if (args[2] && args[2]->value.kind != TSR_VALUE_BOOL)
        return tsr_argument_refuse(e, args[2], "True or False"), TSR_POISON;
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(context, axis)},
                              {args[2] ? "descending" : NULL,
                               tsr_attr_make_bool(context, args[2] && args[2]->value.truth)},
                              {0}};
    return trace_pair(e, call, TSR_GRAPH_NAME("sort"), args[0]->value, x, attrs);
}

tsr_value tsr_run_top_k(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    MlirContext context = tsr_tracer_of(e)->context;
    const tsr_argument *args[3];
    MlirValue x;
    int64_t axis, k;
    (void)self;
    if (!tsr_call_read(e, call, "x k axis", args, 3) || !tsr_call_need(e, call, args[0], "x") ||
        !tsr_call_need(e, call, args[1], "k") || !tsr_call_need(e, call, args[2], "axis") ||
        !tsr_argument_tensor(e, args[0], &x) ||
        !read_axis(e, args[2], tsr_tensor_get(args[0]->value)->type.shape.rank, &axis))
        return TSR_POISON;
    if (!tsr_value_as_integer(args[1]->value, &k))
        return tsr_argument_refuse(e, args[1], "an int"), TSR_POISON;
    const tsr_attr attrs[] = {
        {"axis", tsr_attr_make_i64(context, axis)}, {"k", tsr_attr_make_i64(context, k)}, {0}};
    return trace_pair(e, call, TSR_GRAPH_NAME("top_k"), args[0]->value, x, attrs);
}

/* ---- state ---- */

tsr_value tsr_run_batch_norm_train(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    static const char *const names[] = {"x", "scale", "bias", "mean", "variance", "axis"};
    static const char *const numbers[] = {"eps", "momentum"};
    MlirContext context = tsr_tracer_of(e)->context;
    const tsr_argument *args[8];
    MlirValue x[5], results[3];
    tsr_attr attrs[4] = {{"axis", {NULL}}};
    size_t attr_count = 1;
    int64_t axis;
    (void)self;
    if (!tsr_call_read(e, call, "x scale bias mean variance axis eps momentum", args, 8))
        return TSR_POISON;
    for (size_t i = 0; i < 6; i++)
        if (!tsr_call_need(e, call, args[i], names[i]) ||
            (i < 5 && !tsr_argument_tensor(e, args[i], &x[i])))
            return TSR_POISON;
    if (!read_axis(e, args[5], tsr_tensor_get(args[0]->value)->type.shape.rank, &axis))
        return TSR_POISON;
    attrs[0].value = tsr_attr_make_i64(context, axis);
    for (size_t i = 0; i < 2; i++) {
        double real;
        if (!args[6 + i]) continue;
        if (!tsr_argument_real(e, args[6 + i], &real)) return TSR_POISON;
        attrs[attr_count++] =
            (tsr_attr){numbers[i], mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), real)};
    }
    tsr_value tuple = tsr_value_list(e->arena, TSR_VALUE_TUPLE, 3);
    if (!tuple.kind) return tsr_evaluate_no_memory(e);
    if (!tsr_trace_op(e, call->span, TSR_GRAPH_NAME("batch_norm_train"), 5, x, attrs, 3, NULL,
                      results))
        return TSR_POISON;
    for (size_t i = 0; i < 3; i++)
        tuple.list->items[tuple.list->count++] = tsr_tensor_make(e, results[i]);
    return tuple;
}

tsr_value tsr_run_assign(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_tracer *t = tsr_tracer_of(e);
    const tsr_argument *args[2];
    MlirValue x;
    (void)self;
    if (!tsr_call_read(e, call, "name value", args, 2) ||
        !tsr_call_need(e, call, args[0], "name") || !tsr_call_need(e, call, args[1], "value") ||
        !tsr_argument_tensor(e, args[1], &x))
        return TSR_POISON;
    if (!tsr_value_is_text(args[0]->value))
        return tsr_argument_refuse(e, args[0], "a text"), TSR_POISON;
    const char *name = tsr_arena_printf(e->arena, "%s%s", t->prefix, args[0]->value.text->bytes);
    if (!name) return tsr_evaluate_no_memory(e);
    const tsr_attr attrs[] = {{"target", tsr_attr_make_string(t->context, name)}, {0}};
    bool done = tsr_trace_op(e, call->span, TSR_GRAPH_NAME("assign"), 1, &x, attrs, 0, NULL, NULL);
    return done ? TSR_NONE : TSR_POISON;
}

static tsr_value count_of(tsr_evaluator *e, const tsr_call *call, const char *op) {
    tsr_type type = tsr_type_scalar(TSR_DTYPE_I64);
    if (!tsr_call_read(e, call, "", NULL, 0)) return TSR_POISON;
    return tsr_trace(e, call->span, op, 0, NULL, NULL, &type);
}

tsr_value tsr_run_step(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return count_of(e, call, TSR_GRAPH_NAME("step"));
}

tsr_value tsr_run_seed(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return count_of(e, call, TSR_GRAPH_NAME("seed"));
}

/* ---- verify.numerics ---- */

tsr_value tsr_run_verify_numerics(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    MlirContext context = tsr_tracer_of(e)->context;
    const tsr_argument *args[3];
    tsr_attr attrs[3] = {0};
    size_t count = 0;
    MlirValue x;
    (void)self;
    if (!tsr_call_read(e, call, "x stable bounded", args, 3) ||
        !tsr_call_need(e, call, args[0], "x") || !tsr_argument_tensor(e, args[0], &x))
        return TSR_POISON;
    if (args[1] && args[1]->value.kind != TSR_VALUE_BOOL)
        return tsr_argument_refuse(e, args[1], "True or False"), TSR_POISON;
    if (args[1] && args[1]->value.truth)
        attrs[count++] = (tsr_attr){"stable", tsr_attr_make_unit(context)};
    if (args[2]) {
        bool list = args[2]->value.kind == TSR_VALUE_LIST || args[2]->value.kind == TSR_VALUE_TUPLE;
        double bounds[2];
        MlirAttribute numbers[2];
        for (size_t i = 0; i < 2; i++) {
            if (!list || args[2]->value.list->count != 2 ||
                !tsr_value_as_real(args[2]->value.list->items[i], &bounds[i]))
                return tsr_argument_refuse(e, args[2], "two numbers"), TSR_POISON;
            numbers[i] = mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), bounds[i]);
        }
        attrs[count++] = (tsr_attr){"bounded", mlirArrayAttrGet(context, 2, numbers)};
    }
    bool done =
        tsr_trace_op(e, call->span, TSR_GRAPH_NAME("verify.numerics"), 1, &x, attrs, 0, NULL, NULL);
    return done ? TSR_NONE : TSR_POISON;
}

/* ---- the module ---- */

tsr_value tsr_run_mesh(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_tracer *t = tsr_tracer_of(e);
    MlirNamedAttribute *axes = TSR_NEW(e->arena, MlirNamedAttribute, call->count + 1);
    (void)self;
    if (!axes) return tsr_evaluate_no_memory(e);
    if (t->body || !call->count || tsr_op_has(mlirModuleGetOperation(t->module), "tessera.mesh"))
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL,
                                 "mesh() names the axes of the program once, outside of functions, "
                                 "as mesh(data=8)");
    for (size_t i = 0; i < call->count; i++) {
        const tsr_argument *a = &call->args[i];
        int64_t size;
        if (!a->name || !tsr_value_as_integer(a->value, &size) || size < 1)
            return tsr_argument_refuse(e, a, "a name and a size of at least 1, as data=8"),
                   TSR_POISON;
        axes[i] = mlirNamedAttributeGet(mlirIdentifierGet(t->context, tsr_ref(a->name)),
                                        tsr_attr_make_i64(t->context, size));
    }
    tsr_op_set(mlirModuleGetOperation(t->module), "tessera.mesh",
               mlirDictionaryAttrGet(t->context, (intptr_t)call->count, axes));
    return TSR_NONE;
}
