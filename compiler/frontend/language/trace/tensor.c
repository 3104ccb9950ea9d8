/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators, attributes and indices of tensors mean, and how their ops are emitted.
 */
#include "compiler/frontend/language/trace/tracer.h"
#include "runtime/base/array.h"

#include <string.h>

bool tsr_value_is(tsr_value v, const tsr_class *class) {
    return v.kind == TSR_VALUE_OBJECT && v.object->class == class;
}

const tsr_traced *tsr_tensor_get(tsr_value v) { return v.object->data; }

tsr_value tsr_tensor_make(tsr_evaluator *e, MlirValue value) {
    tsr_traced *own = TSR_NEW(e->arena, tsr_traced, 1);
    if (!own) return tsr_evaluate_no_memory(e);
    *own =
        (tsr_traced){.value = value, .ir = mlirValueGetType(value), .body = tsr_tracer_of(e)->body};
    tsr_value_type(value, &own->type);
    return tsr_evaluate_object(e, &tsr_tensor_class, own);
}

static tsr_type type_of(tsr_value v) { return tsr_tensor_get(v)->type; }

/* ---- values from outside ---- */

/* A parameter of the module, read where the entry begins. */
static MlirValue read_parameter(tsr_tracer *t, const tsr_traced *parameter, tsr_body *entry) {
    MlirOperation first = mlirBlockGetFirstOperation(entry->block);
    tsr_builder builder = tsr_builder_at_end(entry->block, parameter->location);
    if (!mlirOperationIsNull(first)) builder.before = first;
    const tsr_attr attrs[] = {{"name", tsr_attr_make_string(t->context, parameter->name)},
                              {"init", parameter->init},
                              {0}};
    return tsr_build_value(&builder, TSR_GRAPH_NAME("param"), NULL, 0, parameter->ir, attrs);
}

static MlirValue resolve(tsr_evaluator *e, tsr_body *body, const tsr_traced *tensor) {
    tsr_tracer *t = tsr_tracer_of(e);
    MlirValue inner = {NULL};
    if (body == tensor->body) return tensor->value;
    if (!body || (!body->outer && tensor->body)) return inner;
    if (body->outer && !body->function) return resolve(e, body->outer, tensor);
    for (size_t i = 0; i < body->capture_count; i++)
        if (body->captures[i].source == tensor) return body->captures[i].inner;
    if (body->outer && mlirValueIsNull(resolve(e, body->outer, tensor))) return inner;
    if (body->capture_count == body->capture_capacity) {
        tsr_capture *larger = TSR_ARENA_GROW(e->arena, body->captures, &body->capture_capacity, 8);
        if (!larger) return tsr_evaluate_no_memory(e), inner;
        body->captures = larger;
    }
    inner = body->outer ? mlirBlockAddArgument(body->block, tensor->ir, t->builder.location)
                        : read_parameter(t, tensor, body);
    body->captures[body->capture_count++] = (tsr_capture){tensor, inner};
    return inner;
}

MlirValue tsr_tensor_use(tsr_evaluator *e, tsr_value v, tsr_span span) {
    const tsr_traced *tensor = tsr_tensor_get(v);
    tsr_body *body = tsr_tracer_of(e)->body;
    if (body && body == tensor->body) return tensor->value;
    MlirValue value = resolve(e, body, tensor);
    if (mlirValueIsNull(value) && !body)
        tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_ENTRY,
                          "a tensor is computed outside of an entry; put the code into a function");
    else if (mlirValueIsNull(value))
        tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_ENTRY,
                          "the tensor was computed in a function, loop or branch that has ended; "
                          "return it from there");
    return value;
}

/* ---- emitting ---- */

MlirLocation tsr_trace_locate(const tsr_tracer *t, const tsr_source *source, tsr_span span) {
    uint32_t end = span.end > span.begin ? span.end - 1 : span.begin;
    return mlirLocationFileLineColRangeGet(
        t->context, tsr_ref(source->name), tsr_source_line(source, span.begin),
        tsr_source_column(source, span.begin), tsr_source_line(source, end),
        tsr_source_column(source, end) + 1);
}

MlirLocation tsr_trace_location(tsr_evaluator *e, tsr_span span) {
    MlirLocation location = tsr_trace_locate(tsr_tracer_of(e), e->frame->source, span);
    const tsr_body *body = tsr_tracer_of(e)->body;
    while (body && !body->function) body = body->outer;
    const tsr_activation *end = body ? body->frame : NULL;
    for (const tsr_activation *f = e->frame; f != end && f->caller && f->caller != end;
         f = f->caller)
        location = mlirLocationCallSiteGet(
            location, tsr_trace_locate(tsr_tracer_of(e), f->caller->source, f->called_at));
    return location;
}

bool tsr_trace_op(tsr_evaluator *e, tsr_span span, const char *name, size_t operand_count,
                  const MlirValue *operands, const tsr_attr *attrs, size_t count,
                  const tsr_type *declared, MlirValue *out_results) {
    tsr_tracer *t = tsr_tracer_of(e);
    MlirType types[TSR_RULE_RESULTS_MAX];
    size_t attr_count = 0;
    tsr_rule rule;
    if (!t->body) {
        tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_ENTRY,
                          "a tensor is computed outside of an entry; put the code into a function");
        return false;
    }
    while (attrs && attrs[attr_count].name) attr_count++;
    for (size_t i = 0; i < count; i++)
        types[i] =
            declared ? tsr_type_make(t->context, &declared[i]) : mlirValueGetType(operands[0]);
    t->builder.location = tsr_trace_location(e, span);
    MlirOperation op = tsr_build(&t->builder, &(tsr_op_desc){.name = name,
                                                             .operands = operands,
                                                             .operand_count = operand_count,
                                                             .results = types,
                                                             .result_count = count,
                                                             .attrs = attrs,
                                                             .attr_count = attr_count});
    if (!(declared || !count ? tsr_graph_verify_op(op) : tsr_graph_check(op, &rule))) {
        mlirOperationDestroy(op); /* the rule has said why */
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        out_results[i] = tsr_op_result(op, i);
        if (!declared)
            mlirValueSetType(out_results[i], tsr_type_make(t->context, &rule.results[i]));
    }
    return true;
}

tsr_value tsr_trace(tsr_evaluator *e, tsr_span span, const char *name, size_t operand_count,
                    const MlirValue *operands, const tsr_attr *attrs, const tsr_type *declared) {
    MlirValue result;
    if (!tsr_trace_op(e, span, name, operand_count, operands, attrs, 1, declared, &result))
        return TSR_POISON;
    return tsr_tensor_make(e, result);
}

/* ---- constants ---- */

static const MlirValue null_value = {NULL};

static MlirValue refuse_operand(tsr_evaluator *e, tsr_value v, tsr_span span) {
    if (v.kind)
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "expected a tensor or numbers, not %s",
                          tsr_value_type_name(v));
    return null_value;
}

/* A number in the element type; false, reported, where the type cannot hold it. */
static bool write_number(tsr_evaluator *e, tsr_value v, tsr_dtype dtype, void *bytes, size_t index,
                         tsr_span span) {
    double real;
    if (!tsr_value_as_real(v, &real)) {
        refuse_operand(e, v, span);
        return false;
    }
    bool whole = v.kind != TSR_VALUE_FLOAT, floating = (1 << dtype) & TSR_DTYPES_FLOAT;
    if (!whole && !floating) {
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE,
                          "a float meets a tensor of %s; cast(x, f32) makes it one of floats",
                          tsr_dtype_name(dtype));
        return false;
    }
    if (dtype == TSR_DTYPE_I64 && tsr_value_as_integer(v, (int64_t *)bytes + index)) return true;
    tsr_dtype_write(dtype, real, bytes, index);
    return true;
}

MlirValue tsr_trace_operand(tsr_evaluator *e, tsr_value v, tsr_value like, tsr_span span) {
    const tsr_tracer *t = tsr_tracer_of(e);
    if (tsr_value_is(v, &tsr_tensor_class)) return tsr_tensor_use(e, v, span);
    bool list = v.kind == TSR_VALUE_LIST || v.kind == TSR_VALUE_TUPLE;
    size_t count = list ? v.list->count : 1;
    if (!tsr_value_is(like, &tsr_tensor_class)) return refuse_operand(e, v, span);
    tsr_type type = {.dtype = type_of(like).dtype, .shape = {.rank = list}};
    if (list) type.shape.dims[0] = count;
    void *bytes = tsr_arena_alloc(e->arena, count + 1, tsr_dtype_size(type.dtype), 16);
    if (!bytes) return tsr_evaluate_no_memory(e), null_value;
    if (!list && v.kind != TSR_VALUE_BOOL && v.kind != TSR_VALUE_INTEGER &&
        v.kind != TSR_VALUE_FLOAT)
        return refuse_operand(e, v, span);
    for (size_t i = 0; i < count; i++)
        if (!write_number(e, list ? v.list->items[i] : v, type.dtype, bytes, i, span))
            return null_value;
    const tsr_attr attrs[] = {{"value", tsr_attr_make_elements(t->context, &type, bytes)}, {0}};
    MlirValue result;
    bool made =
        tsr_trace_op(e, span, TSR_GRAPH_NAME("constant"), 0, NULL, attrs, 1, &type, &result);
    return made ? result : null_value;
}

/* ---- operators ---- */

static tsr_value unary(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_span span) {
    if (op == TSR_OPERATOR_PLUS) return a;
    MlirValue x = tsr_tensor_use(e, a, span);
    if (mlirValueIsNull(x)) return TSR_POISON;
    return tsr_trace(e, span,
                     op == TSR_OPERATOR_NEGATE ? TSR_GRAPH_NAME("neg") : TSR_GRAPH_NAME("not"), 1,
                     &x, NULL, NULL);
}

static bool find_predicate(tsr_operator op, tsr_predicate *out) {
    static const struct {
        tsr_operator op;
        tsr_predicate predicate;
    } rows[] = {
        {TSR_OPERATOR_EQUAL, TSR_PREDICATE_EQ},   {TSR_OPERATOR_NOT_EQUAL, TSR_PREDICATE_NE},
        {TSR_OPERATOR_LESS, TSR_PREDICATE_LT},    {TSR_OPERATOR_LESS_EQUAL, TSR_PREDICATE_LE},
        {TSR_OPERATOR_GREATER, TSR_PREDICATE_GT}, {TSR_OPERATOR_GREATER_EQUAL, TSR_PREDICATE_GE},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        if (rows[i].op != op) continue;
        *out = rows[i].predicate;
        return true;
    }
    return false;
}

static const char *find_op(tsr_operator op) {
    static const struct {
        tsr_operator op;
        const char *name;
    } rows[] = {
        {TSR_OPERATOR_ADD, TSR_GRAPH_NAME("add")},
        {TSR_OPERATOR_SUBTRACT, TSR_GRAPH_NAME("sub")},
        {TSR_OPERATOR_MULTIPLY, TSR_GRAPH_NAME("mul")},
        {TSR_OPERATOR_DIVIDE, TSR_GRAPH_NAME("div")},
        {TSR_OPERATOR_POWER, TSR_GRAPH_NAME("pow")},
        {TSR_OPERATOR_MATRIX, TSR_GRAPH_NAME("matmul")},
        {TSR_OPERATOR_BIT_AND, TSR_GRAPH_NAME("and")},
        {TSR_OPERATOR_BIT_OR, TSR_GRAPH_NAME("or")},
        {TSR_OPERATOR_BIT_XOR, TSR_GRAPH_NAME("xor")},
        {TSR_OPERATOR_SHIFT_LEFT, TSR_GRAPH_NAME("shift_left")},
        {TSR_OPERATOR_SHIFT_RIGHT, TSR_GRAPH_NAME("shift_right")},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        if (rows[i].op == op) return rows[i].name;
    return NULL;
}

static tsr_value binary(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_value b,
                        tsr_span span) {
    const tsr_tracer *t = tsr_tracer_of(e);
    tsr_predicate predicate = TSR_PREDICATE_EQ;
    bool compares = find_predicate(op, &predicate);
    const char *name = compares ? TSR_GRAPH_NAME("compare") : find_op(op);
    if (!name)
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "'%s' does not take %s and %s",
                                 tsr_operator_text(op), tsr_value_type_name(a),
                                 tsr_value_type_name(b));
    MlirValue x[2] = {tsr_trace_operand(e, a, b, span), null_value};
    if (!mlirValueIsNull(x[0])) x[1] = tsr_trace_operand(e, b, a, span);
    if (mlirValueIsNull(x[1])) return TSR_POISON;
    const tsr_attr attrs[] = {{"predicate", tsr_attr_make_i32(t->context, (int32_t)predicate)},
                              {0}};
    return tsr_trace(e, span, name, 2, x, compares ? attrs : NULL, NULL);
}

/* ---- attributes ---- */

static tsr_value shape_of(tsr_evaluator *e, const tsr_type *type) {
    tsr_value shape = tsr_value_list(e->arena, TSR_VALUE_TUPLE, type->shape.rank);
    if (!shape.kind) return tsr_evaluate_no_memory(e);
    for (uint32_t i = 0; i < type->shape.rank; i++)
        shape.list->items[shape.list->count++] = tsr_dim_object(e, type->shape.dims[i]);
    return shape;
}

static tsr_value swap_last(tsr_evaluator *e, tsr_value self, tsr_span span) {
    const tsr_tracer *t = tsr_tracer_of(e);
    MlirValue x = tsr_tensor_use(e, self, span);
    uint32_t rank = type_of(self).shape.rank;
    if (mlirValueIsNull(x)) return TSR_POISON;
    int64_t permutation[TSR_RANK_MAX];
    for (uint32_t i = 0; i < rank; i++) permutation[i] = i;
    if (rank < 2)
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                                 "'.T' needs two dims; the tensor has %u", rank);
    permutation[rank - 2] = rank - 1;
    permutation[rank - 1] = rank - 2;
    const tsr_attr attrs[] = {{"permutation", tsr_attr_make_i64s(t->context, rank, permutation)},
                              {0}};
    return tsr_trace(e, span, TSR_GRAPH_NAME("transpose"), 1, &x, attrs, NULL);
}

static tsr_value attribute(tsr_evaluator *e, tsr_value self, const char *name, tsr_span span) {
    tsr_type type = type_of(self);
    if (strcmp(name, "shape") == 0) return shape_of(e, &type);
    if (strcmp(name, "dtype") == 0) return tsr_dtype_object(e, type.dtype);
    if (strcmp(name, "rank") == 0) return tsr_value_integer(type.shape.rank);
    if (strcmp(name, "T") == 0) return swap_last(e, self, span);
    return TSR_POISON;
}

/* ---- indices ---- */

typedef struct selection {
    int64_t start[TSR_RANK_MAX], size[TSR_RANK_MAX], stride[TSR_RANK_MAX];
    bool removed[TSR_RANK_MAX]; /* selected by an integer */
} selection;

static bool select_dim(tsr_evaluator *e, tsr_value index, uint64_t dim, uint32_t at, tsr_span span,
                       selection *out) {
    int64_t number, stop;
    size_t count;
    if (tsr_value_slice(index)) {
        if (!tsr_evaluate_slice(e, tsr_value_slice(index), (size_t)dim, span, &out->start[at],
                                &stop, &out->stride[at], &count))
            return false;
        out->size[at] = (int64_t)count;
        if (count && out->stride[at] > 0) return true;
        tsr_evaluate_fail(
            e, span, TSR_DIAG_EVALUATE_VALUE,
            "the slice of dim %u selects %zu elements with step %d; expected at least "
            "one, in ascending order",
            at, count, (int)out->stride[at]);
        return false;
    }
    if (!tsr_value_as_integer(index, &number)) {
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE,
                          "a tensor is indexed by %s; expected an int or a slice, and gather(x, "
                          "indices) for a tensor",
                          tsr_value_type_name(index));
        return false;
    }
    out->start[at] = number < 0 ? number + (int64_t)dim : number;
    out->size[at] = out->stride[at] = 1;
    out->removed[at] = true;
    if (out->start[at] >= 0 && (uint64_t)out->start[at] < dim) return true;
    tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE, "the index is %d; dim %u has %d elements",
                      (int)number, at, (int)dim);
    return false;
}

static tsr_value subscript(tsr_evaluator *e, tsr_value self, tsr_value index, tsr_span span) {
    const tsr_tracer *t = tsr_tracer_of(e);
    MlirValue x = tsr_tensor_use(e, self, span);
    tsr_type type = type_of(self), selected = {.dtype = type.dtype};
    selection s = {0};
    bool tuple = index.kind == TSR_VALUE_TUPLE;
    size_t count = tuple ? index.list->count : 1;
    uint32_t rank = type.shape.rank;
    if (mlirValueIsNull(x)) return TSR_POISON;
    if (count > rank)
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                                 "%zu indices select from a tensor of %u dims", count, rank);
    for (uint32_t i = 0; i < rank; i++) {
        s.size[i] = (int64_t)type.shape.dims[i];
        s.stride[i] = 1;
        tsr_value at = tuple && i < count ? index.list->items[i] : index;
        if (i < count && !select_dim(e, at, type.shape.dims[i], i, span, &s)) return TSR_POISON;
        if (!s.removed[i]) selected.shape.dims[selected.shape.rank++] = (uint64_t)s.size[i];
    }
    const tsr_attr attrs[] = {{"start", tsr_attr_make_i64s(t->context, rank, s.start)},
                              {"size", tsr_attr_make_i64s(t->context, rank, s.size)},
                              {"stride", tsr_attr_make_i64s(t->context, rank, s.stride)},
                              {0}};
    tsr_value part = tsr_trace(e, span, TSR_GRAPH_NAME("slice"), 1, &x, attrs, NULL);
    if (!part.kind || selected.shape.rank == rank) return part;
    x = tsr_tensor_get(part)->value;
    return tsr_trace(e, span, TSR_GRAPH_NAME("reshape"), 1, &x, NULL, &selected);
}

static const char *const attributes[] = {"shape", "dtype", "rank", "T", NULL};

const tsr_class tsr_tensor_class = {.name = "a tensor",
                                    .traced = true,
                                    .unary = unary,
                                    .binary = binary,
                                    .attribute = attribute,
                                    .attributes = attributes,
                                    .subscript = subscript};
