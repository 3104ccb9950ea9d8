/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of the library: the rows of library.def. Those of one op tsr_call_need no code of
 * their own.
 */
#include "compiler/frontend/language/trace/tracer.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

enum { PARAMETERS_MAX = 8, ATTRS_MAX = PARAMETERS_MAX + 1 };

typedef struct op_row {
    const char *name, *op, *parameters;
} op_row;

/* ---- functions of one op ---- */

/* Counts negative axes from the end. */
static void wrap_axes(MlirValue x, int64_t *axes, size_t count) {
    tsr_type type = {0};
    tsr_value_type(x, &type);
    for (size_t i = 0; i < count; i++)
        if (axes[i] < 0) axes[i] += type.shape.rank;
}

/* The attribute of a type; *out is null where it is left out or off. */
static bool read_attribute(tsr_evaluator *e, const tsr_argument *a, const char *name,
                           const char *type, MlirValue x, MlirAttribute *out) {
    MlirContext context = tsr_tracer_of(e)->context;
    int64_t numbers[TSR_RANK_MAX];
    size_t count = 0;
    double real;
    bool axis = strncmp(name, "ax", 2) == 0;
    if (strcmp(type, "flag") == 0) {
        if (a->value.kind != TSR_VALUE_BOOL) return tsr_argument_refuse(e, a, "True or False");
        if (a->value.truth) *out = tsr_attr_make_unit(context);
    } else if (strcmp(type, "text") == 0) {
        if (!tsr_value_is_text(a->value)) return tsr_argument_refuse(e, a, "a text");
        *out = tsr_attr_make_string(context, a->value.text->bytes);
    } else if (strcmp(type, "f64") == 0) {
        if (!tsr_argument_real(e, a, &real)) return false;
        *out = mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), real);
    } else if (strcmp(type, "i64") == 0) {
        if (!tsr_value_as_integer(a->value, numbers)) return tsr_argument_refuse(e, a, "an int");
        if (axis) wrap_axes(x, numbers, 1);
        *out = tsr_attr_make_i64(context, numbers[0]);
    } else {
        if (!tsr_argument_integers(e, a, TSR_RANK_MAX, numbers, &count)) return false;
        if (axis) wrap_axes(x, numbers, count);
        *out = tsr_attr_make_i64s(context, count, numbers);
    }
    return true;
}

static MlirAttribute all_axes(tsr_evaluator *e, MlirValue x) {
    tsr_type type = {0};
    int64_t axes[TSR_RANK_MAX];
    tsr_value_type(x, &type);
    for (uint32_t i = 0; i < type.shape.rank; i++) axes[i] = i;
    return tsr_attr_make_i64s(tsr_tracer_of(e)->context, type.shape.rank, axes);
}

/* A tensor that the numbers among the operands take their element type from. */
static tsr_value find_like(const tsr_argument *const *args) {
    for (size_t i = PARAMETERS_MAX; i > 0; i--)
        if (args[i - 1] && tsr_value_is(args[i - 1]->value, &tsr_tensor_class))
            return args[i - 1]->value;
    return TSR_NONE;
}

static tsr_value run_op(tsr_evaluator *e, const op_row *row, const tsr_call *call) {
    const tsr_argument *args[PARAMETERS_MAX];
    MlirValue operands[PARAMETERS_MAX];
    tsr_attr attrs[ATTRS_MAX] = {0};
    size_t operand_count = 0, attr_count = 0;
    char word[TSR_WORD_MAX];
    char names[PARAMETERS_MAX][TSR_WORD_MAX];
    if (!tsr_call_read(e, call, row->parameters, args, PARAMETERS_MAX)) return TSR_POISON;
    for (size_t i = 0; tsr_words_find(row->parameters, i, word); i++) {
        bool optional = strchr(word, '?') != NULL;
        char *type = strchr(word, ':');
        word[strcspn(word, "?")] = 0;
        if (type) *type++ = 0;
        bool all = type && strcmp(type, "all") == 0;
        if (!args[i] && optional) continue;
        if (!all && !tsr_call_need(e, call, args[i], word)) return TSR_POISON;
        if (!type) {
            operands[operand_count] =
                tsr_trace_operand(e, args[i]->value, find_like(args), args[i]->span);
            if (mlirValueIsNull(operands[operand_count++])) return TSR_POISON;
            continue;
        }
        strcpy(names[i], word);
        tsr_attr *attr = &attrs[attr_count];
        attr->name = names[i];
        if (all && !args[i])
            attr->value = all_axes(e, operands[0]);
        else if (!read_attribute(e, args[i], word, type, operands[0], &attr->value))
            return TSR_POISON;
        attr_count += !mlirAttributeIsNull(attr->value);
    }
    attrs[attr_count].name = NULL;
    return tsr_trace(e, call->span, row->op, operand_count, operands, attrs, NULL);
}

static bool is_traced_call(const tsr_call *call) {
    for (size_t i = 0; i < call->count; i++)
        if (tsr_value_is(call->args[i].value, &tsr_tensor_class)) return true;
    return false;
}

/* A function of Python with the same name takes the values that are known. */
static tsr_value run_known(tsr_evaluator *e, const op_row *row, const tsr_call *call) {
    tsr_value python = is_traced_call(call) ? TSR_POISON : tsr_builtin_find(e, row->name);
    return python.kind ? tsr_evaluate_call(e, python, call) : run_op(e, row, call);
}

#define OP(what, op, parameters, about, example)                                                   \
    static tsr_value op_##what(tsr_evaluator *e, tsr_value self, const tsr_call *call) {           \
        static const op_row row = {#what, TSR_GRAPH_NAME(op), parameters};                         \
        (void)self;                                                                                \
        return run_known(e, &row, call);                                                           \
    }
#include "compiler/frontend/language/trace/library.def"

/* ---- shapes, types ---- */

static tsr_value run_cast(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[2];
    MlirValue x;
    tsr_dtype dtype = TSR_DTYPE_NONE;
    tsr_type type;
    (void)self;
    if (!tsr_call_read(e, call, "x dtype", args, 2) || !tsr_call_need(e, call, args[0], "x") ||
        !tsr_call_need(e, call, args[1], "dtype") || !tsr_argument_tensor(e, args[0], &x) ||
        !tsr_argument_dtype(e, args[1], &dtype))
        return TSR_POISON;
    tsr_value_type(x, &type);
    if (type.dtype == dtype) return args[0]->value;
    type.dtype = dtype;
    return tsr_trace(e, call->span, TSR_GRAPH_NAME("cast"), 1, &x, NULL, &type);
}

/* Replaces one -1 by the size that is left; false: there is no such size. */
static bool infer_size(const tsr_type *from, tsr_shape *to) {
    uint64_t left = 1;
    uint32_t open = to->rank;
    for (uint32_t i = 0; i < from->shape.rank; i++)
        if (!tsr_dim_multiply(left, from->shape.dims[i], &left)) return false;
    for (uint32_t i = 0; i < to->rank; i++) {
        if (to->dims[i] == TSR_DIM_DYNAMIC && open == to->rank)
            open = i;
        else if (to->dims[i] == TSR_DIM_DYNAMIC)
            return false;
        else if (open == to->rank && !tsr_dim_divide(left, to->dims[i], &left))
            left = TSR_DIM_DYNAMIC;
    }
    for (uint32_t i = open + 1; i < to->rank; i++)
        if (!tsr_dim_divide(left, to->dims[i], &left)) left = TSR_DIM_DYNAMIC;
    if (open < to->rank) to->dims[open] = left;
    return open == to->rank || left != TSR_DIM_DYNAMIC;
}

static tsr_value run_reshape(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[2];
    size_t rank = 0;
    MlirValue x;
    tsr_type type, made;
    char is[TSR_TYPE_TEXT_MAX];
    (void)self;
    if (!tsr_call_read(e, call, "x shape", args, 2) || !tsr_call_need(e, call, args[0], "x") ||
        !tsr_call_need(e, call, args[1], "shape") || !tsr_argument_tensor(e, args[0], &x))
        return TSR_POISON;
    tsr_value_type(x, &type);
    made = (tsr_type){.dtype = type.dtype};
    if (!tsr_argument_dims(e, args[1], true, made.shape.dims, &rank)) return TSR_POISON;
    made.shape.rank = (uint32_t)rank;
    if (!infer_size(&type, &made.shape))
        return tsr_evaluate_fail(e, args[1]->span, TSR_DIAG_EVALUATE_VALUE,
                                 "no size in the place of -1 holds the elements of %s; one -1 is "
                                 "allowed",
                                 tsr_type_text(&type, is));
    return tsr_trace(e, call->span, TSR_GRAPH_NAME("reshape"), 1, &x, NULL, &made);
}

static tsr_value run_matmul(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[5];
    static const char *const names[] = {"transpose_a", "transpose_b", "allow_tf32"};
    MlirValue x[2];
    MlirContext context = tsr_tracer_of(e)->context;
    tsr_attr attrs[4] = {0};
    size_t count = 0;
    (void)self;
    if (!tsr_call_read(e, call, "a b transpose_a transpose_b allow_tf32", args, 5) ||
        !tsr_call_need(e, call, args[0], "a") || !tsr_call_need(e, call, args[1], "b") ||
        !tsr_argument_tensor(e, args[0], &x[0]) || !tsr_argument_tensor(e, args[1], &x[1]))
        return TSR_POISON;
    for (size_t i = 0; i < TSR_COUNT(names); i++) {
        if (args[2 + i] && args[2 + i]->value.kind != TSR_VALUE_BOOL)
            return tsr_argument_refuse(e, args[2 + i], "True or False"), TSR_POISON;
        if (args[2 + i] && args[2 + i]->value.truth)
            attrs[count++] = (tsr_attr){names[i], i < 2 ? tsr_attr_make_bool(context, true)
                                                        : tsr_attr_make_unit(context)};
    }
    return tsr_trace(e, call->span, TSR_GRAPH_NAME("matmul"), 2, x, attrs, NULL);
}

static tsr_value run_gather(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[3];
    MlirValue x[2];
    int64_t axis = 0;
    (void)self;
    if (!tsr_call_read(e, call, "x indices axis", args, 3) ||
        !tsr_call_need(e, call, args[0], "x") || !tsr_call_need(e, call, args[1], "indices") ||
        !tsr_argument_tensor(e, args[0], &x[0]) || !tsr_argument_tensor(e, args[1], &x[1]))
        return TSR_POISON;
    if (args[2] && !tsr_value_as_integer(args[2]->value, &axis))
        return tsr_argument_refuse(e, args[2], "an int"), TSR_POISON;
    wrap_axes(x[0], &axis, 1);
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(tsr_tracer_of(e)->context, axis)}, {0}};
    return tsr_trace(e, call->span, TSR_GRAPH_NAME("gather"), 2, x, attrs, NULL);
}

static tsr_value run_split(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[3];
    MlirValue x, results[TSR_RULE_RESULTS_MAX];
    int64_t parts = 0, axis = 0;
    tsr_type type, types[TSR_RULE_RESULTS_MAX];
    (void)self;
    if (!tsr_call_read(e, call, "x parts axis", args, 3) || !tsr_call_need(e, call, args[0], "x") ||
        !tsr_call_need(e, call, args[1], "parts") || !tsr_call_need(e, call, args[2], "axis") ||
        !tsr_argument_tensor(e, args[0], &x))
        return TSR_POISON;
    if (!tsr_value_as_integer(args[1]->value, &parts))
        return tsr_argument_refuse(e, args[1], "an int"), TSR_POISON;
    if (!tsr_value_as_integer(args[2]->value, &axis))
        return tsr_argument_refuse(e, args[2], "an int"), TSR_POISON;
    wrap_axes(x, &axis, 1);
    tsr_value_type(x, &type);
    uint64_t part = 0;
    bool fits = parts >= 1 && parts <= TSR_RULE_RESULTS_MAX && axis >= 0 &&
                axis < type.shape.rank &&
                tsr_dim_divide(type.shape.dims[axis], (uint64_t)parts, &part);
    if (!fits)
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_VALUE,
                                 "axis %" PRId64 " cannot be split into %" PRId64
                                 " equal parts; at most %d parts are allowed",
                                 axis, parts, TSR_RULE_RESULTS_MAX);
    type.shape.dims[axis] = part;
    for (int64_t i = 0; i < parts; i++) types[i] = type;
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(tsr_tracer_of(e)->context, axis)}, {0}};
    if (!tsr_trace_op(e, call->span, TSR_GRAPH_NAME("split"), 1, &x, attrs, (size_t)parts, types,
                      results))
        return TSR_POISON;
    tsr_value list = tsr_value_list(e->arena, TSR_VALUE_LIST, (size_t)parts);
    if (!list.kind) return tsr_evaluate_no_memory(e);
    for (int64_t i = 0; i < parts; i++)
        list.list->items[list.list->count++] = tsr_tensor_make(e, results[i]);
    return list;
}

static tsr_value run_iota(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[2];
    tsr_type type;
    (void)self;
    if (!tsr_call_read(e, call, "size dtype", args, 2) ||
        !tsr_call_need(e, call, args[0], "size") || !tsr_call_need(e, call, args[1], "dtype") ||
        !tsr_argument_type(e, args[0], args[1], &type))
        return TSR_POISON;
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(tsr_tracer_of(e)->context, 0)}, {0}};
    return tsr_trace(e, call->span, TSR_GRAPH_NAME("iota"), 0, NULL, attrs, &type);
}

static tsr_value draw(tsr_evaluator *e, const tsr_call *call, const char *op) {
    const tsr_argument *args[2];
    tsr_type type;
    if (!tsr_call_read(e, call, "shape dtype", args, 2) ||
        !tsr_call_need(e, call, args[0], "shape") || !tsr_call_need(e, call, args[1], "dtype") ||
        !tsr_argument_type(e, args[0], args[1], &type))
        return TSR_POISON;
    return tsr_trace(e, call->span, op, 0, NULL, NULL, &type);
}

static tsr_value run_random_uniform(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return draw(e, call, TSR_GRAPH_NAME("random_uniform"));
}

static tsr_value run_random_normal(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return draw(e, call, TSR_GRAPH_NAME("random_normal"));
}

/* ---- parameters ---- */

const tsr_class tsr_attribute_class = {.name = "a setting"};

static tsr_value make_setting(tsr_evaluator *e, const char *what, tsr_buffer *text) {
    tsr_library_text *own = TSR_NEW(e->arena, tsr_library_text, 1);
    const char *copy = text->failed ? NULL : tsr_arena_strdup(e->arena, text->bytes);
    tsr_buffer_finish(text);
    if (!own || !copy) return tsr_evaluate_no_memory(e);
    *own = (tsr_library_text){what, copy};
    return tsr_evaluate_object(e, &tsr_attribute_class, own);
}

/* MLIR reads a float only with a point, which this form always has. */
#define NUMBER "%.17e"

static tsr_value make_init(tsr_evaluator *e, const tsr_call *call, const char *kind,
                           const char *parameters) {
    const tsr_argument *args[2];
    tsr_buffer text = {0};
    char word[TSR_WORD_MAX];
    if (!tsr_call_read(e, call, parameters, args, 2)) return TSR_POISON;
    tsr_buffer_printf(&text, "#tessera.%s<", kind);
    for (size_t i = 0; tsr_words_parameter(parameters, i, word); i++) {
        double real;
        if (!tsr_call_need(e, call, args[i], word) || !tsr_argument_real(e, args[i], &real)) {
            tsr_buffer_finish(&text);
            return TSR_POISON;
        }
        tsr_buffer_printf(&text, "%s" NUMBER, i ? ", " : "", real);
    }
    tsr_buffer_text(&text, ">");
    return make_setting(e, "an init rule", &text);
}

static tsr_value run_uniform(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return make_init(e, call, "uniform", "low high");
}

static tsr_value run_normal(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return make_init(e, call, "normal", "mean deviation");
}

static tsr_value run_constant(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return make_init(e, call, "constant", "value");
}

static MlirAttribute parse_setting(tsr_evaluator *e, const tsr_argument *a, const char *what) {
    MlirAttribute null = {NULL};
    const tsr_library_text *text =
        tsr_value_is(a->value, &tsr_attribute_class) ? a->value.object->data : NULL;
    if (!text || strcmp(text->what, what) != 0) return tsr_argument_refuse(e, a, what), null;
    return mlirAttributeParseGet(tsr_tracer_of(e)->context, tsr_ref(text->text));
}

/* A parameter that the module names: each entry that uses it reads it. */
static tsr_value make_parameter(tsr_evaluator *e, const char *name, MlirAttribute init,
                                const tsr_type *type, tsr_span span) {
    tsr_traced *tensor = TSR_NEW(e->arena, tsr_traced, 1);
    if (!tensor) return tsr_evaluate_no_memory(e);
    *tensor = (tsr_traced){.ir = tsr_type_make(tsr_tracer_of(e)->context, type),
                           .type = *type,
                           .name = name,
                           .init = init,
                           .location = tsr_trace_location(e, span)};
    return tsr_evaluate_object(e, &tsr_tensor_class, tensor);
}

static tsr_value run_param(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    static const char *const names[] = {"name", "shape", "dtype", "init"};
    const tsr_tracer *t = tsr_tracer_of(e);
    const tsr_argument *args[4];
    tsr_type type;
    (void)self;
    if (!tsr_call_read(e, call, "name shape dtype init", args, 4)) return TSR_POISON;
    for (size_t i = 0; i < 4; i++)
        if (!tsr_call_need(e, call, args[i], names[i])) return TSR_POISON;
    if (!tsr_value_is_text(args[0]->value))
        return tsr_argument_refuse(e, args[0], "a text"), TSR_POISON;
    if (!tsr_argument_type(e, args[1], args[2], &type)) return TSR_POISON;
    MlirAttribute init = parse_setting(e, args[3], "an init rule");
    if (mlirAttributeIsNull(init)) return TSR_POISON;
    const char *name = tsr_arena_printf(e->arena, "%s%s", t->prefix, args[0]->value.text->bytes);
    if (!name) return tsr_evaluate_no_memory(e);
    if (!t->body) return make_parameter(e, name, init, &type, call->span);
    const tsr_attr attrs[] = {
        {"name", tsr_attr_make_string(t->context, name)}, {"init", init}, {0}};
    return tsr_trace(e, call->span, TSR_GRAPH_NAME("param"), 0, NULL, attrs, &type);
}

/* with scope("h.0"): parameters are called "h.0.…". */
static bool enter_scope(tsr_evaluator *e, tsr_value self, tsr_span span) {
    tsr_tracer *t = tsr_tracer_of(e);
    (void)span;
    const char *prefix =
        tsr_arena_printf(e->arena, "%s%s.", t->prefix, (const char *)self.object->data);
    if (!prefix) return tsr_evaluate_no_memory(e), false;
    t->prefix = prefix;
    return true;
}

static void leave_scope(tsr_evaluator *e, tsr_value self) {
    tsr_tracer *t = tsr_tracer_of(e);
    size_t own = strlen(self.object->data) + 1, length = strlen(t->prefix);
    const char *outer = tsr_arena_strndup(e->arena, t->prefix, length - own);
    if (!outer) tsr_evaluate_no_memory(e);
    t->prefix = outer ? outer : "";
}

static const tsr_class scope_class = {
    .name = "a scope", .enter = enter_scope, .leave = leave_scope};

static tsr_value run_scope(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[1];
    (void)self;
    if (!tsr_call_read(e, call, "name", args, 1) || !tsr_call_need(e, call, args[0], "name"))
        return TSR_POISON;
    if (!tsr_value_is_text(args[0]->value))
        return tsr_argument_refuse(e, args[0], "a text"), TSR_POISON;
    return tsr_evaluate_object(e, &scope_class, args[0]->value.text->bytes);
}

/* ---- training ---- */

/* Named numbers as the fields of an attribute; those that are left out have their defaults there.
 */
static bool print_fields(tsr_evaluator *e, const tsr_call *call, const char *parameters,
                         const tsr_argument *const *args, const char *separator, tsr_buffer *out) {
    char word[TSR_WORD_MAX];
    for (size_t i = 0; tsr_words_parameter(parameters, i, word); i++) {
        double real;
        bool steps = strstr(word, "_steps") != NULL;
        if (!args[i]) continue;
        if (steps && args[i]->value.kind != TSR_VALUE_INTEGER)
            return tsr_argument_refuse(e, args[i], "an int");
        if (!tsr_argument_real(e, args[i], &real)) return false;
        if (steps)
            tsr_buffer_printf(out, "%s%s = %" PRId64, separator, word, args[i]->value.integer);
        else
            tsr_buffer_printf(out, "%s%s = " NUMBER, separator, word, real);
        separator = ", ";
    }
    (void)call;
    return true;
}

static tsr_value make_optimizer(tsr_evaluator *e, const tsr_call *call, const char *kind,
                                const char *parameters) {
    const tsr_argument *args[PARAMETERS_MAX];
    tsr_buffer text = {0};
    if (!tsr_call_read(e, call, parameters, args, PARAMETERS_MAX) ||
        !tsr_call_need(e, call, args[0], "lr"))
        return TSR_POISON;
    tsr_buffer_printf(&text, "#tessera.%s<", kind);
    if (!print_fields(e, call, parameters, args, "", &text)) {
        tsr_buffer_finish(&text);
        return TSR_POISON;
    }
    tsr_buffer_text(&text, ">");
    return make_setting(e, "an optimizer", &text);
}

static tsr_value run_adamw(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return make_optimizer(e, call, "adamw", "lr beta1 beta2 eps weight_decay");
}

static tsr_value run_sgd(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return make_optimizer(e, call, "sgd", "lr momentum weight_decay");
}

static tsr_value run_nesterov(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return make_optimizer(e, call, "nesterov", "lr momentum weight_decay");
}

static tsr_value make_schedule(tsr_evaluator *e, const tsr_call *call, const char *kind) {
    const tsr_argument *args[3];
    tsr_buffer text = {0};
    if (!tsr_call_read(e, call, "warmup_steps total_steps final", args, 3)) return TSR_POISON;
    tsr_buffer_printf(&text, "{kind = \"%s\"", kind);
    if (!print_fields(e, call, "warmup_steps total_steps final", args, ", ", &text)) {
        tsr_buffer_finish(&text);
        return TSR_POISON;
    }
    tsr_buffer_text(&text, "}");
    return make_setting(e, "a schedule", &text);
}

static tsr_value run_cosine(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return make_schedule(e, call, "cosine");
}

static tsr_value run_linear(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return make_schedule(e, call, "linear");
}

static tsr_value run_minimize(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    MlirContext context = tsr_tracer_of(e)->context;
    const tsr_argument *args[5];
    tsr_attr attrs[4] = {0};
    size_t count = 0;
    MlirValue loss;
    double clip;
    (void)self;
    if (!tsr_call_read(e, call, "loss optimizer lr_schedule clip_norm state", args, 5) ||
        !tsr_call_need(e, call, args[0], "loss") || !tsr_call_need(e, call, args[1], "optimizer") ||
        !tsr_argument_tensor(e, args[0], &loss))
        return TSR_POISON;
    attrs[count++] = (tsr_attr){"optimizer", parse_setting(e, args[1], "an optimizer")};
    if (args[2])
        attrs[count++] = (tsr_attr){"lr_schedule", parse_setting(e, args[2], "a schedule")};
    for (size_t i = 0; i < count; i++)
        if (mlirAttributeIsNull(attrs[i].value)) return TSR_POISON;
    if (args[3] && !tsr_argument_real(e, args[3], &clip)) return TSR_POISON;
    if (args[3])
        attrs[count++] =
            (tsr_attr){"clip_norm", mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), clip)};
    if (args[4] && !tsr_value_is(args[4]->value, &tsr_state_class))
        return tsr_argument_refuse(e, args[4], "OptimizerState"), TSR_POISON;
    if (args[4]) tsr_tracer_of(e)->master |= tsr_state_get(args[4]->value)->master;
    bool done =
        tsr_trace_op(e, call->span, TSR_GRAPH_NAME("minimize"), 1, &loss, attrs, 0, NULL, NULL);
    return done ? TSR_NONE : TSR_POISON;
}

/* ---- decorators ---- */

static tsr_value run_function(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    return tsr_entry_decorate(e, self, call);
}

static tsr_value run_jit(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    if (call->count == 1 && call->args[0].value.kind == TSR_VALUE_FUNCTION)
        return call->args[0].value;
    return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL, "jit() takes a function");
}

/* ---- names of the design that are not there ---- */

static tsr_value run_later(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_NAME,
                             "this version of Tessera has no '%s'", call->callee);
}

/* ---- the table ---- */

#define STDLIB_PREFIX TSR_EVALUATE_STDLIB "."

static const tsr_builtin functions[] = {
#define OP(what, op, parameters, about, example) {.name = #what, .run = op_##what},
#define FUNCTION(what, parameters, about, example) {.name = #what, .run = run_##what},
#define OTHER(what, parameters, about, example) {.name = #what, .run = tsr_run_##what},
#define STDLIB(what, parameters, about, example)                                                   \
    {.name = STDLIB_PREFIX #what, .run = tsr_stdlib_##what},
#define LATER(what) {.name = #what, .run = run_later},
#define STDLIB_LATER(what) {.name = STDLIB_PREFIX #what, .run = run_later},
#include "compiler/frontend/language/trace/library.def"
};

/* Values that are no functions. */
static const struct {
    const char *name;
    tsr_value (*make)(tsr_evaluator *e);
} values[] = {
#define NAME(what, about, example) {#what, tsr_name_##what},
#include "compiler/frontend/language/trace/library.def"
};

static const char *const type_name = "Tensor";

tsr_value tsr_library_find(void *user, const char *name) {
    tsr_tracer *t = user;
    tsr_dtype dtype = tsr_dtype_from_name(name);
    if (dtype != TSR_DTYPE_NONE) return tsr_dtype_object(&t->e, dtype);
    if (strcmp(name, type_name) == 0) return tsr_evaluate_object(&t->e, &tsr_type_class, NULL);
    for (size_t i = 0; i < TSR_COUNT(values); i++)
        if (strcmp(values[i].name, name) == 0) return values[i].make(&t->e);
    for (size_t i = 0; i < TSR_COUNT(functions); i++)
        if (strcmp(functions[i].name, name) == 0)
            return (tsr_value){.kind = TSR_VALUE_BUILTIN, .builtin = &functions[i]};
    return TSR_POISON;
}

void tsr_library_names(void *user, void (*offer)(void *to, const char *name), void *to) {
    (void)user;
    offer(to, type_name);
    for (int i = TSR_DTYPE_NONE + 1; tsr_dtype_name((tsr_dtype)i)[0] != '?'; i++)
        offer(to, tsr_dtype_name((tsr_dtype)i));
    for (size_t i = 0; i < TSR_COUNT(values); i++) offer(to, values[i].name);
    for (size_t i = 0; i < TSR_COUNT(functions); i++) offer(to, functions[i].name);
}
