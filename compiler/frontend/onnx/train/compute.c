/* SPDX-License-Identifier: Apache-2.0
 *
 * A call becomes an op: operands of known type first, then new inputs, whose types follow from the
 * op (inputs.def), then numbers, which take the element type of the operands. The op's own rule
 * checks them and says the type of the result.
 */
#include "compiler/frontend/onnx/train/compute.h"

#include "compiler/frontend/onnx/train/form.h"
#include "compiler/graph/rule.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"
#include "runtime/base/suggest.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const MlirValue null_value = {NULL};

/* An operand of a call. */
typedef struct operand {
    const tsr_expression *e;
    MlirValue value; /* null: a number, or a new input without a type */
    bool is_number;
    double number;
} operand;

/* ---- names ----------------------------------------------------------------------------------- */

tsr_compute_name *tsr_compute_find(const tsr_compute *c, const char *name) {
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->names[i].name, name) == 0) return &c->names[i];
    return NULL;
}

tsr_compute_name *tsr_compute_add(tsr_compute *c, const char *name, size_t at) {
    if (c->count == TSR_COMPUTE_NAMES_MAX) {
        tsr_expression_fail(c->source, at, "more than %d names", TSR_COMPUTE_NAMES_MAX);
        return NULL;
    }
    tsr_compute_name *added = &c->names[c->count++];
    *added = (tsr_compute_name){.name = name, .is_new = true};
    return added;
}

/* The end of a message about a new input: the name of the model that is like it. */
static const char *likely_name(const tsr_compute *c, const char *wrong,
                               char out[static TSR_SUGGESTION_TEXT_MAX]) {
    tsr_suggestion likely = {.wrong = wrong};
    for (size_t i = 0; i < c->count; i++)
        if (!c->names[i].is_new) tsr_suggest(&likely, c->names[i].name);
    return tsr_suggestion_text(&likely, out);
}

static MlirValue add_input(tsr_compute *c, const tsr_expression *e, const tsr_type *type) {
    tsr_compute_name *name = tsr_compute_find(c, e->name);
    if (!name) name = tsr_compute_add(c, e->name, e->at);
    if (!name) return null_value;
    name->type = *type;
    name->value = mlirBlockAddArgument(c->block, tsr_type_make(c->builder->context, type),
                                       tsr_expression_location(c->source, e->at));
    return name->value;
}

/* Null, without a diagnostic, for a new input without a type. */
static MlirValue read_name(tsr_compute *c, const tsr_expression *e) {
    tsr_compute_name *name = tsr_compute_find(c, e->name);
    if (!name) return null_value;
    if (mlirValueIsNull(name->value) && name->has_type) return add_input(c, e, &name->type);
    return name->value;
}

/* ---- the op ---------------------------------------------------------------------------------- */

/* Ops that only the compiler makes, or that a declaration has instead of a value. */
static const char *const not_called[] = {"constant", "param",  "opt.state", "philox",
                                         "repair",   "linear", "minimize",  "words"};

static bool can_call(const char *mnemonic, const tsr_form *form) {
    size_t length = strlen(mnemonic);
    for (size_t i = 0; i < TSR_COUNT(not_called); i++)
        if (strcmp(not_called[i], mnemonic) == 0) return false;
    return form->has_value && !strstr(mnemonic, "_grad") && length > 0;
}

static bool find_op(tsr_compute *c, const tsr_expression *e, const char **out_name,
                    tsr_form *out_form) {
    static const char *const mnemonics[] = {
#define X(ID, mnemonic, ...) mnemonic,
#include "compiler/graph/ops.def"
#undef X
    };
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = e->name};
    const char *name = tsr_arena_printf(c->arena, "tessera.%s", e->name);
    TSR_NEED(name);
    const char *text = tsr_shim_op_form(tsr_ref(name));
    if (text) tsr_form_read(text, out_form);
    *out_name = name;
    if (text && can_call(e->name, out_form)) return true;
    for (size_t i = 0; i < TSR_COUNT(mnemonics); i++) {
        tsr_form form;
        const char *other = tsr_arena_printf(c->arena, "tessera.%s", mnemonics[i]);
        TSR_NEED(other);
        tsr_form_read(tsr_shim_op_form(tsr_ref(other)), &form);
        if (can_call(mnemonics[i], &form)) tsr_suggest(&likely, mnemonics[i]);
    }
    if (text)
        return tsr_expression_fail(c->source, e->at,
                                   "an expression cannot call '%s'; expected an op of "
                                   "docs/language.md with one result and without regions%s",
                                   e->name, tsr_suggestion_text(&likely, meant));
    return tsr_expression_fail(c->source, e->at,
                               "there is no op '%s'; expected an op of docs/language.md%s", e->name,
                               tsr_suggestion_text(&likely, meant));
}

/* ---- operands -------------------------------------------------------------------------------- */

static bool compute(tsr_compute *c, const tsr_expression *e, operand *out);

/* The rule of inputs.def as a function of the operand of known type and the first one. */
typedef enum input_rule { LIKE, TRUTH, LABELS } input_rule;
static const struct {
    const char *op;
    size_t operand;
    input_rule rule;
} input_rules[] = {
#define X(op_name, operand_index, rule_name)                                                       \
    {.op = op_name, .operand = operand_index, .rule = rule_name},
#include "compiler/frontend/onnx/train/inputs.def"
#undef X
};

static bool is_condition(const char *op, size_t index) {
    for (size_t i = 0; i < TSR_COUNT(input_rules); i++)
        if (strcmp(input_rules[i].op, op) == 0 && input_rules[i].operand == index)
            return input_rules[i].rule == TRUTH;
    return false;
}

static bool input_type(const char *op, size_t index, MlirValue known, MlirValue first,
                       tsr_type *out_type) {
    for (size_t i = 0; i < TSR_COUNT(input_rules); i++) {
        if (strcmp(input_rules[i].op, op) != 0 || input_rules[i].operand != index) continue;
        input_rule rule = input_rules[i].rule;
        MlirValue from = rule == LABELS ? first : known;
        if (mlirValueIsNull(from)) return false;
        *out_type = tsr_type_of(from);
        if (rule == LABELS && out_type->shape.rank == 0) return false;
        if (rule == LABELS) out_type->shape.rank--;
        if (rule == LABELS) out_type->dtype = TSR_DTYPE_I64;
        if (rule == TRUTH) out_type->dtype = TSR_DTYPE_I1;
        return true;
    }
    return false;
}

/* Gives new inputs the types that follow from the op. */
static bool add_inputs(tsr_compute *c, const tsr_expression *call, size_t count, operand *operands,
                       MlirValue known) {
    for (size_t i = 0; i < count; i++) {
        operand *o = &operands[i];
        tsr_type type;
        char meant[TSR_SUGGESTION_TEXT_MAX];
        if (o->is_number || !mlirValueIsNull(o->value)) continue;
        o->value = read_name(c, o->e); /* an operand before may be the same input */
        if (!mlirValueIsNull(o->value)) continue;
        if (!input_type(call->name, i, known, operands[0].value, &type))
            return tsr_expression_fail(
                c->source, o->e->at,
                "'%s' is not an output or input of the model, and as a new data input its type "
                "does "
                "not follow from '%s'; give the type: --data-type '%s=f32[N, 10]'%s",
                o->e->name, call->name, o->e->name, likely_name(c, o->e->name, meant));
        o->value = add_input(c, o->e, &type);
        if (mlirValueIsNull(o->value)) return false;
    }
    return true;
}

/* A number as a constant of an element type that can hold it. */
static MlirValue make_number(tsr_compute *c, const tsr_expression *e, double number,
                             tsr_dtype dtype) {
    char bytes[16];
    bool is_float = tsr_dtype_is_float(dtype);
    bool fits = is_float || (number >= -0x1p63 && number < 0x1p64);
    if (fits) {
        tsr_dtype_write(dtype, number, bytes, 0);
        double result = tsr_dtype_read(dtype, bytes, 0);
        fits = is_float ? isfinite(result) : result == number;
    }
    if (fits) return tsr_emit_constant(c->builder, dtype, number);
    tsr_expression_fail(c->source, e->at, "%s cannot hold the number %g", tsr_dtype_name(dtype),
                        number);
    return null_value;
}

static bool add_numbers(tsr_compute *c, size_t count, operand *operands, MlirValue known) {
    tsr_dtype dtype = mlirValueIsNull(known) ? TSR_DTYPE_F32 : tsr_type_of(known).dtype;
    for (size_t i = 0; i < count; i++) {
        operand *o = &operands[i];
        if (!o->is_number) continue;
        o->value = make_number(c, o->e, o->number, dtype);
        if (mlirValueIsNull(o->value)) return false;
    }
    return true;
}

/* Arithmetic of numbers alone is a number, as 1/2 is 0.5. */
static bool fold(const tsr_expression *call, size_t count, const operand *operands,
                 double *out_number) {
    double a = count > 0 ? operands[0].number : 0, b = count > 1 ? operands[1].number : 0;
    if (count == 0 || count > 2 || !operands[0].is_number || !operands[count - 1].is_number)
        return false;
    if (count == 1 && strcmp(call->name, "neg") == 0)
        *out_number = -a;
    else if (count == 2 && strcmp(call->name, "add") == 0)
        *out_number = a + b;
    else if (count == 2 && strcmp(call->name, "sub") == 0)
        *out_number = a - b;
    else if (count == 2 && strcmp(call->name, "mul") == 0)
        *out_number = a * b;
    else if (count == 2 && strcmp(call->name, "div") == 0)
        *out_number = a / b;
    else
        return false;
    return isfinite(*out_number);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static bool read_truth(const tsr_expression *value, bool *out) {
    bool is_name = value->kind == TSR_EXPRESSION_NAME && !value->is_text;
    *out = is_name && strcmp(value->name, "true") == 0;
    return *out || (is_name && strcmp(value->name, "false") == 0);
}

static bool read_integers(const tsr_expression *list, size_t limit, int64_t *out_values) {
    size_t count = 0;
    if (list->kind != TSR_EXPRESSION_LIST || list->count > limit) return false;
    for (const tsr_expression *item = list->first; item; item = item->next) {
        if (item->kind != TSR_EXPRESSION_NUMBER || !item->is_integer) return false;
        out_values[count++] = item->integer;
    }
    return true;
}

/* Null if the value is not of the kind. */
static MlirAttribute make_attribute(tsr_compute *c, tsr_form_kind kind,
                                    const tsr_expression *value) {
    MlirContext context = c->builder->context;
    int64_t integers[TSR_RANK_MAX * 2];
    bool truth = false;
    bool is_number = value->kind == TSR_EXPRESSION_NUMBER;
    switch (kind) {
    case TSR_FORM_FLAG:
    case TSR_FORM_BOOL:
        if (!read_truth(value, &truth)) break;
        return kind == TSR_FORM_BOOL ? tsr_attr_make_bool(context, truth)
                                     : tsr_attr_make_unit(context);
    case TSR_FORM_INTEGER:
        if (is_number && value->is_integer) return tsr_attr_make_i64(context, value->integer);
        break;
    case TSR_FORM_INTEGERS:
        if (read_integers(value, TSR_COUNT(integers), integers))
            return tsr_attr_make_i64s(context, value->count, integers);
        break;
    case TSR_FORM_NUMBER:
        if (is_number)
            return mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), value->number);
        break;
    case TSR_FORM_TEXT:
        if (value->kind == TSR_EXPRESSION_NAME && value->is_text)
            return tsr_attr_make_string(context, value->name);
        break;
    case TSR_FORM_OTHER:
        break;
    }
    return (MlirAttribute){NULL};
}

static bool is_off(tsr_form_kind kind, const tsr_expression *value) {
    bool truth = true;
    return kind == TSR_FORM_FLAG && read_truth(value, &truth) && !truth;
}

/* The word of a comparison as the number of its predicate. */
static MlirAttribute make_predicate(tsr_compute *c, const tsr_expression *value) {
    static const char *const words[] = {
        [TSR_PREDICATE_EQ] = "eq", [TSR_PREDICATE_NE] = "ne", [TSR_PREDICATE_LT] = "lt",
        [TSR_PREDICATE_LE] = "le", [TSR_PREDICATE_GT] = "gt", [TSR_PREDICATE_GE] = "ge"};
    static_assert(TSR_COUNT(words) == TSR_PREDICATE_COUNT, "a word for each predicate");
    for (size_t i = 0; value->kind == TSR_EXPRESSION_NAME && i < TSR_COUNT(words); i++)
        if (strcmp(words[i], value->name) == 0)
            return tsr_attr_make_i32(c->builder->context, (int32_t)i);
    tsr_expression_fail(c->source, value->at,
                        "'predicate' must be \"eq\", \"ne\", \"lt\", \"le\", \"gt\" or \"ge\"");
    return (MlirAttribute){NULL};
}

/* What a call says about its op beside the operands. */
typedef struct settings {
    tsr_attr attrs[TSR_FORM_ATTRIBUTES_MAX + 2];
    size_t count;
    const tsr_expression *shape, *type; /* of a result that does not follow from the operands */
} settings;

static bool refuse_attribute(tsr_compute *c, const tsr_expression *call, const tsr_form *form,
                             const tsr_expression *argument) {
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = argument->key};
    tsr_buffer names = {0};
    for (size_t i = 0; i < form->attribute_count; i++) {
        tsr_suggest(&likely, form->attributes[i].name);
        tsr_buffer_printf(&names, "%s %s", i ? "," : ";", form->attributes[i].name);
    }
    tsr_expression_fail(c->source, argument->key_at, "'%s' has no attribute '%s'%s%s%s", call->name,
                        argument->key, names.bytes ? "; it has" : "",
                        names.bytes ? names.bytes + 1 : "", tsr_suggestion_text(&likely, meant));
    tsr_buffer_finish(&names);
    return false;
}

static bool read_setting(tsr_compute *c, const tsr_expression *call, const tsr_form *form,
                         const tsr_expression *argument, settings *s) {
    const tsr_form_attribute *a = tsr_form_find_attribute(form, argument->key);
    bool is_predicate =
        strcmp(call->name, "compare") == 0 && strcmp(argument->key, "predicate") == 0;
    bool is_shape = !a && form->declares_type && strcmp(argument->key, "shape") == 0;
    bool is_type = !a && form->declares_type && strcmp(argument->key, "type") == 0;
    for (const tsr_expression *other = call->first; other != argument; other = other->next)
        if (other->key && strcmp(other->key, argument->key) == 0)
            return tsr_expression_fail(c->source, argument->key_at, "'%s' is given twice",
                                       argument->key);
    if (is_shape) s->shape = argument;
    if (is_type) s->type = argument;
    if (is_shape || is_type) return true;
    if (!a && !is_predicate) return refuse_attribute(c, call, form, argument);
    if (a && is_off(a->kind, argument)) return true;
    MlirAttribute value =
        is_predicate ? make_predicate(c, argument) : make_attribute(c, a->kind, argument);
    if (mlirAttributeIsNull(value))
        return !is_predicate && tsr_expression_fail(c->source, argument->at, "'%s' must be %s",
                                                    argument->key, tsr_form_kind_text(a->kind));
    s->attrs[s->count++] = (tsr_attr){argument->key, value};
    return true;
}

static bool read_settings(tsr_compute *c, const tsr_expression *call, const tsr_form *form,
                          settings *s) {
    bool is_compare = strcmp(call->name, "compare") == 0, found = !is_compare;
    for (const tsr_expression *a = call->first; a; a = a->next)
        if (a->key && !read_setting(c, call, form, a, s)) return false;
    for (size_t i = 0; i < s->count; i++)
        found = found || strcmp(s->attrs[i].name, "predicate") == 0;
    if (!found) return tsr_expression_fail(c->source, call->at, "'compare' needs predicate=\"lt\"");
    for (size_t i = 0; i < form->attribute_count; i++) {
        const tsr_form_attribute *a = &form->attributes[i];
        bool given = a->is_optional;
        for (size_t k = 0; k < s->count; k++)
            given = given || strcmp(s->attrs[k].name, a->name) == 0;
        if (!given)
            return tsr_expression_fail(c->source, call->at, "'%s' needs attribute '%s', %s",
                                       call->name, a->name, tsr_form_kind_text(a->kind));
    }
    return true;
}

/* ---- the type of the result, where it does not follow ---- */

/* A -1 stands for the size that is left. */
static bool read_shape(tsr_compute *c, const tsr_expression *list, MlirValue of, tsr_shape *out) {
    int64_t dims[TSR_RANK_MAX];
    uint64_t count = 0, left = 1;
    int64_t open = -1;
    if (!read_integers(list, TSR_RANK_MAX, dims))
        return tsr_expression_fail(c->source, list->at, "'shape' must be %s of at most %d",
                                   tsr_form_kind_text(TSR_FORM_INTEGERS), TSR_RANK_MAX);
    tsr_shape shape = {.rank = (uint32_t)list->count};
    for (uint32_t i = 0; i < shape.rank; i++) {
        bool is_left = dims[i] == -1 && open < 0 && !mlirValueIsNull(of);
        if (dims[i] < 0 && !is_left)
            return tsr_expression_fail(c->source, list->at,
                                       "size %" PRId64 " of 'shape' is below 0", dims[i]);
        if (is_left) open = i;
        shape.dims[i] = is_left ? 1 : (uint64_t)dims[i];
    }
    if (!tsr_shape_count(&shape, &left) || left == 0) open = -1;
    if (open >= 0) {
        tsr_shape from = tsr_type_of(of).shape;
        if (!tsr_shape_count(&from, &count) || count % left)
            return tsr_expression_fail(
                c->source, list->at, "%" PRIu64 " elements cannot be divided into rows of %" PRIu64,
                count, left);
        shape.dims[open] = count / left;
    }
    *out = shape;
    return true;
}

static bool read_type(tsr_compute *c, const tsr_expression *call, const settings *s,
                      MlirValue first, tsr_type *out) {
    bool has_first = !mlirValueIsNull(first);
    tsr_type type = has_first ? tsr_type_of(first) : tsr_type_scalar(TSR_DTYPE_F32);
    if (!has_first && !s->shape)
        return tsr_expression_fail(c->source, call->at, "'%s' needs shape=[…]", call->name);
    if (!s->shape && !s->type)
        return tsr_expression_fail(c->source, call->at,
                                   "'%s' needs the type of its result: shape=[…] or type=\"f32\"",
                                   call->name);
    if (s->shape && !read_shape(c, s->shape, first, &type.shape)) return false;
    if (s->type)
        type.dtype = s->type->kind == TSR_EXPRESSION_NAME ? tsr_dtype_from_name(s->type->name)
                                                          : TSR_DTYPE_NONE;
    if (type.dtype == TSR_DTYPE_NONE)
        return tsr_expression_fail(c->source, s->type->at, "'type' must be one of %s",
                                   tsr_dtype_names());
    *out = type;
    return true;
}

/* ---- emitting -------------------------------------------------------------------------------- */

/* The attributes are known by name and kind; the op's declaration can still refuse a value. */
static MlirValue emit(tsr_compute *c, const char *name, size_t count, const MlirValue *operands,
                      const settings *s, const tsr_type *declared) {
    tsr_rule rule;
    MlirType type =
        declared ? tsr_type_make(c->builder->context, declared) : mlirValueGetType(operands[0]);
    MlirOperation op = tsr_build(c->builder, &(tsr_op_desc){.name = name,
                                                            .operands = operands,
                                                            .operand_count = count,
                                                            .results = &type,
                                                            .result_count = 1,
                                                            .attrs = s->attrs,
                                                            .attr_count = s->count});
    bool fits = declared ? tsr_graph_verify_op(op) : tsr_graph_check(op, &rule);
    if (fits && !declared)
        mlirValueSetType(tsr_op_result(op, 0),
                         tsr_type_make(c->builder->context, &rule.results[0]));
    if (fits && mlirOperationVerify(op)) return tsr_op_result(op, 0);
    mlirOperationDestroy(op);
    return null_value;
}

static bool check_count(tsr_compute *c, const tsr_expression *call, const tsr_form *form,
                        size_t count) {
    if (count >= form->operand_min && count <= form->operand_max && count <= TSR_RULE_OPERANDS_MAX)
        return true;
    if (form->operand_max == form->operand_min)
        return tsr_expression_fail(c->source, call->at, "'%s' has %zu operands; expected %zu",
                                   call->name, count, form->operand_min);
    return tsr_expression_fail(c->source, call->at, "'%s' has %zu operands; expected %zu to %zu",
                               call->name, count, form->operand_min,
                               form->operand_max > TSR_RULE_OPERANDS_MAX
                                   ? (size_t)TSR_RULE_OPERANDS_MAX
                                   : form->operand_max);
}

/* Computes the operands; *out_known is the first of known type, or null. A condition says nothing
 * about the type of the others, unless no other one is known. */
static bool compute_operands(tsr_compute *c, const tsr_expression *call, operand *operands,
                             MlirValue *out_known) {
    size_t count = 0;
    MlirValue condition = null_value;
    *out_known = null_value;
    for (const tsr_expression *a = call->first; a && !a->key; a = a->next, count++) {
        if (!compute(c, a, &operands[count])) return false;
        MlirValue *first = is_condition(call->name, count) ? &condition : out_known;
        if (mlirValueIsNull(*first)) *first = operands[count].value;
    }
    if (mlirValueIsNull(*out_known)) *out_known = condition;
    return true;
}

static bool compute_call(tsr_compute *c, const tsr_expression *call, operand *out) {
    operand operands[TSR_RULE_OPERANDS_MAX] = {0};
    MlirValue values[TSR_RULE_OPERANDS_MAX], known;
    const char *name = NULL;
    settings s = {0};
    tsr_form form;
    tsr_type type;
    size_t count = 0;
    bool has_key = false;
    if (!find_op(c, call, &name, &form)) return false;
    for (const tsr_expression *a = call->first; a; a = a->next) {
        if (has_key && !a->key)
            return tsr_expression_fail(c->source, a->at, "an operand after an attribute");
        has_key = a->key != NULL;
        count += !has_key;
    }
    if (!check_count(c, call, &form, count) || !compute_operands(c, call, operands, &known))
        return false;
    if (fold(call, count, operands, &out->number)) {
        out->is_number = true;
        return true;
    }
    if (!add_inputs(c, call, count, operands, known) || !add_numbers(c, count, operands, known) ||
        !read_settings(c, call, &form, &s))
        return false;
    for (size_t i = 0; i < count; i++) values[i] = operands[i].value;
    if (form.declares_type && !read_type(c, call, &s, count ? values[0] : null_value, &type))
        return false;
    c->builder->location = tsr_expression_location(c->source, call->at);
    out->value = emit(c, name, count, values, &s, form.declares_type ? &type : NULL);
    return !mlirValueIsNull(out->value);
}

static bool compute(tsr_compute *c, const tsr_expression *e, operand *out) {
    *out = (operand){.e = e};
    switch (e->kind) {
    case TSR_EXPRESSION_NUMBER:
        out->is_number = true;
        out->number = e->number;
        return true;
    case TSR_EXPRESSION_NAME:
        out->value = read_name(c, e);
        return true;
    case TSR_EXPRESSION_CALL:
        return compute_call(c, e, out);
    case TSR_EXPRESSION_LIST:
        break;
    }
    return tsr_expression_fail(c->source, e->at, "a list is only the value of an attribute");
}

MlirValue tsr_compute_value(tsr_compute *c, const tsr_expression *e) {
    operand o;
    char meant[TSR_SUGGESTION_TEXT_MAX];
    if (!compute(c, e, &o)) return null_value;
    if (o.is_number)
        tsr_expression_fail(c->source, e->at, "this is a number; expected a loss of the model");
    else if (mlirValueIsNull(o.value))
        tsr_expression_fail(c->source, e->at, "'%s' is not an output or input of the model%s",
                            e->name, likely_name(c, e->name, meant));
    return o.value;
}
