/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of functions with tensors: a function of Graph IR for each signature, that is for each
 * combination of types of the tensors and values of the other arguments; each call calls it.
 * So a layer is compiled once, and a model of many layers has as many calls.
 *
 * What cannot be shared runs in place, as do functions without tensors: a call with a list or dict,
 * which the function may change, and a function that returns a function made in it.
 */
#include "compiler/frontend/language/syntax/limits.h"
#include "compiler/frontend/language/trace/tracer.h"
#include "compiler/ir/attributes.h"
#include "compiler/process/guard.h"

#include <string.h>

typedef struct tsr_specialisation {
    const tsr_function *function;
    const tsr_value *values; /* of the parameters; tensors stand for their types */
    const char *symbol;
    bool inlined;  /* its calls are inlined */
    bool failed;   /* reported */
    tsr_body body; /* with its captures */
    tsr_value returned;
    size_t result_count;
    MlirType *types;
    struct tsr_specialisation *next;
} specialisation;

/* ---- symbols ---- */

typedef struct tsr_symbol {
    const char *text;
    struct tsr_symbol *next;
} tsr_symbol;

static bool is_taken(const tsr_tracer *t, const char *text) {
    for (const tsr_symbol *s = t->symbols; s; s = s->next)
        if (strcmp(s->text, text) == 0) return true;
    return false;
}

const char *tsr_symbol_make(tsr_tracer *t, const char *name) {
    const char *text = name;
    for (unsigned i = 1; text && is_taken(t, text); i++)
        text = tsr_arena_printf(t->e.arena, "%s.%u", name, i);
    tsr_symbol *s = TSR_NEW(t->e.arena, tsr_symbol, 1);
    if (!text || !s) return NULL;
    *s = (tsr_symbol){text, t->symbols};
    t->symbols = s;
    return text;
}

/* ---- signatures ---- */

static bool has_tensor(tsr_value v) {
    if (tsr_value_is(v, &tsr_tensor_class) || tsr_cache_get(v)) return true;
    if (v.kind != TSR_VALUE_TUPLE) return false;
    for (size_t i = 0; i < v.list->count; i++)
        if (has_tensor(v.list->items[i])) return true;
    return false;
}

/* A list or dict can change after the call. */
static bool can_change(tsr_value v) {
    if (v.kind == TSR_VALUE_LIST || v.kind == TSR_VALUE_DICT) return true;
    for (size_t i = 0; v.kind == TSR_VALUE_TUPLE && i < v.list->count; i++)
        if (can_change(v.list->items[i])) return true;
    return false;
}

static bool same_object(const tsr_object *a, const tsr_object *b) {
    if (a == b) return true;
    if (a->class != b->class) return false;
    if (a->class == &tsr_dtype_class)
        return *(const tsr_dtype *)a->data == *(const tsr_dtype *)b->data;
    if (a->class == &tsr_tensor_class)
        return mlirTypeEqual(((const tsr_traced *)a->data)->ir, ((const tsr_traced *)b->data)->ir);
    if (a->class == &tsr_cache_class) return tsr_cache_same(a, b);
    if (a->class == &tsr_dim_class) return *(const uint64_t *)a->data == *(const uint64_t *)b->data;
    const tsr_library_text *x = a->data, *y = b->data;
    return a->class == &tsr_attribute_class && strcmp(x->what, y->what) == 0 &&
           strcmp(x->text, y->text) == 0;
}

/* Whether a function cannot tell the values apart: 1, 1.0 and True are three. */
static bool same(tsr_value a, tsr_value b) {
    if (a.kind != b.kind) return false;
    if (a.kind == TSR_VALUE_OBJECT) return same_object(a.object, b.object);
    if (a.kind == TSR_VALUE_FLOAT) return memcmp(&a.real, &b.real, sizeof a.real) == 0;
    if (a.kind != TSR_VALUE_TUPLE) return tsr_value_equal(a, b);
    if (a.list->count != b.list->count) return false;
    for (size_t i = 0; i < a.list->count; i++)
        if (!same(a.list->items[i], b.list->items[i])) return false;
    return true;
}

static specialisation *find(const tsr_tracer *t, const tsr_function *f, const tsr_value *values,
                            size_t count, size_t *out_others) {
    *out_others = 0;
    for (specialisation *s = t->specialisations; s; s = s->next) {
        size_t i = 0;
        if (s->function != f) continue;
        while (i < count && same(s->values[i], values[i])) i++;
        if (i == count) return s;
        ++*out_others;
    }
    return NULL;
}

/* ---- making one ---- */

MlirOperation tsr_trace_open(tsr_tracer *t, tsr_body *body, const tsr_function *f,
                             const char *symbol, size_t count, const MlirType *types) {
    MlirLocation location = tsr_trace_locate(t, f->source, f->node->span);
    MlirRegion region = mlirRegionCreate();
    tsr_attr attrs[] = {
        {"sym_name", tsr_attr_make_string(t->context, symbol)},
        {"function_type", tsr_attr_make_type(mlirFunctionTypeGet(t->context, 0, NULL, 0, NULL))}};
    body->outer = t->body;
    body->function = true;
    body->frame = t->e.frame;
    body->block = mlirBlockCreate(0, NULL, NULL);
    for (size_t i = 0; i < count; i++) mlirBlockAddArgument(body->block, types[i], location);
    mlirRegionAppendOwnedBlock(region, body->block);
    tsr_builder top = tsr_builder_at_end(mlirModuleGetBody(t->module), location);
    MlirOperation func = tsr_build(&top, &(tsr_op_desc){.name = "func.func",
                                                        .attr_count = 2,
                                                        .attrs = attrs,
                                                        .region_count = 1,
                                                        .regions = &region});
    t->builder = tsr_builder_at_end(body->block, location);
    t->body = body;
    t->prefix = "";
    return func;
}

void tsr_trace_close(tsr_tracer *t, MlirOperation func, size_t count, const MlirValue *results) {
    size_t in = (size_t)mlirBlockGetNumArguments(t->body->block);
    MlirType *types = TSR_NEW(t->e.arena, MlirType, in + count + 1);
    if (!types) {
        tsr_evaluate_no_memory(&t->e);
        return;
    }
    for (size_t i = 0; i < in; i++)
        types[i] = mlirValueGetType(mlirBlockGetArgument(t->body->block, (intptr_t)i));
    for (size_t i = 0; i < count; i++) types[in + i] = mlirValueGetType(results[i]);
    t->builder.location = mlirOperationGetLocation(func);
    tsr_build(&t->builder,
              &(tsr_op_desc){.name = "func.return", .operands = results, .operand_count = count});
    tsr_op_set(func, "function_type",
               tsr_attr_make_type(mlirFunctionTypeGet(t->context, (intptr_t)in, types,
                                                      (intptr_t)count, types + in)));
}

/* The values with parameters of the function of Graph IR for the tensors. */
static const tsr_value *bind(tsr_tracer *t, const tsr_value *values, size_t count,
                             size_t leaf_count) {
    tsr_value *inner = TSR_NEW(t->e.arena, tsr_value, count + 1);
    MlirValue *arguments = TSR_NEW(t->e.arena, MlirValue, leaf_count + 1);
    size_t at = 0;
    if (!inner || !arguments) return tsr_evaluate_no_memory(&t->e), NULL;
    for (size_t i = 0; i < leaf_count; i++)
        arguments[i] = mlirBlockGetArgument(t->body->block, (intptr_t)i);
    for (size_t i = 0; i < count; i++)
        inner[i] = tsr_leaves_replace(&t->e, values[i], arguments, &at);
    return inner;
}

/* A function that was made in the call, or a method, may hold tensors of the call. */
static bool is_plain(tsr_value v) {
    if (v.kind == TSR_VALUE_FUNCTION) return !v.function->outer;
    if (v.kind == TSR_VALUE_BUILTIN) return v.builtin->self.kind == TSR_VALUE_POISON;
    if (v.kind == TSR_VALUE_OBJECT)
        return v.object->class == &tsr_tensor_class || v.object->class == &tsr_dtype_class ||
               v.object->class == &tsr_attribute_class || v.object->class == &tsr_cache_class ||
               v.object->class == &tsr_dim_class;
    for (size_t i = 0; (v.kind == TSR_VALUE_TUPLE || v.kind == TSR_VALUE_LIST) && i < v.list->count;
         i++)
        if (!is_plain(v.list->items[i])) return false;
    for (size_t i = 0; v.kind == TSR_VALUE_DICT && i < v.dict->live; i++)
        if (!is_plain(tsr_dict_entry_at(v.dict, i)->value)) return false;
    return true;
}

static void finish(tsr_tracer *t, specialisation *s, MlirOperation func, tsr_value returned,
                   tsr_span span) {
    tsr_leaves leaves = {0};
    s->returned = returned;
    s->inlined = returned.kind && !is_plain(returned);
    s->failed = !returned.kind;
    if (s->inlined || s->failed) return;
    tsr_leaves_collect(&t->e, returned, &leaves);
    s->result_count = leaves.count;
    s->types = TSR_NEW(t->e.arena, MlirType, leaves.count + 1);
    MlirValue *results = TSR_NEW(t->e.arena, MlirValue, leaves.count + 1);
    s->failed = !results || !s->types;
    if (s->failed) tsr_evaluate_no_memory(&t->e);
    for (size_t i = 0; i < leaves.count && !s->failed; i++) {
        results[i] = tsr_tensor_use(&t->e, leaves.items[i], span);
        s->failed = mlirValueIsNull(results[i]);
        if (!s->failed) s->types[i] = mlirValueGetType(results[i]);
    }
    if (!s->failed) tsr_trace_close(t, func, leaves.count, results);
}

static bool check_limits(tsr_evaluator *e, const tsr_function *f, size_t others, tsr_span span) {
    if (others < TSR_LANGUAGE_SPECIALISATIONS_MAX) return true;
    tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_LIMIT,
                      "%s() is compiled for more than %d combinations of types and static values; "
                      "parameters of layers get their names from scope(…)",
                      f->name, TSR_LANGUAGE_SPECIALISATIONS_MAX);
    e->stopped = true;
    return false;
}

/* Names of dims and constraints. Arguments after those of the call are captures. */
static void put_promises(tsr_tracer *t, const specialisation *s, MlirOperation func) {
    intptr_t count = mlirBlockGetNumArguments(s->body.block);
    MlirAttribute *attrs = TSR_NEW(t->e.arena, MlirAttribute, (size_t)count + 1);
    TSR_NEED(attrs);
    for (intptr_t i = 0; i < count; i++) attrs[i] = mlirDictionaryAttrGet(t->context, 0, NULL);
    if (tsr_annotation_put(t, s->function, s->values, func, attrs))
        tsr_op_set(func, "arg_attrs", mlirArrayAttrGet(t->context, count, attrs));
}

static void trace_function(tsr_tracer *t, specialisation *s, const tsr_leaves *leaves,
                           const MlirType *types, const tsr_call *call) {
    tsr_builder builder = t->builder;
    tsr_body *body = t->body;
    const char *prefix = t->prefix;
    tsr_value self = {.kind = TSR_VALUE_FUNCTION, .function = s->function};
    size_t mark = tsr_evaluate_freeze(&t->e, self);
    MlirOperation func = tsr_trace_open(t, &s->body, s->function, s->symbol, leaves->count, types);
    tsr_op_set(func, "sym_visibility", tsr_attr_make_string(t->context, "private"));
    size_t count = tsr_function_parameter_count(s->function);
    for (size_t i = 0; i < count; i++) tsr_evaluate_freeze(&t->e, s->values[i]);
    const tsr_value *inner = bind(t, s->values, count, leaves->count);
    tsr_value returned = inner ? tsr_evaluate_body(&t->e, s->function, inner, call) : TSR_POISON;
    if (!tsr_annotation_check_result(&t->e, s->function, s->values, returned, call->span))
        returned = TSR_POISON;
    finish(t, s, func, returned, s->function->node->span);
    if (!s->inlined && !s->failed) put_promises(t, s, func);
    tsr_evaluate_thaw(&t->e, mark);
    if (s->inlined || s->failed) mlirOperationDestroy(func);
    t->builder = builder;
    t->body = body;
    t->prefix = prefix;
}

static specialisation *specialise(tsr_tracer *t, const tsr_function *f, const tsr_value *values,
                                  const tsr_leaves *leaves, const tsr_call *call) {
    specialisation *s = TSR_NEW(t->e.arena, specialisation, 1);
    MlirType *types = TSR_NEW(t->e.arena, MlirType, leaves->count + 1);
    const char *symbol = tsr_symbol_make(t, f->name);
    if (!s || !types || !symbol) return tsr_evaluate_no_memory(&t->e), NULL;
    for (size_t i = 0; i < leaves->count; i++) types[i] = tsr_tensor_get(leaves->items[i])->ir;
    *s = (specialisation){.function = f, .values = values, .symbol = symbol};
    trace_function(t, s, leaves, types, call);
    s->next = t->specialisations;
    t->specialisations = s;
    return s;
}

/* ---- calls ---- */

static tsr_value emit_call(tsr_tracer *t, const specialisation *s, const tsr_leaves *leaves,
                           const tsr_call *call) {
    tsr_evaluator *e = &t->e;
    size_t count = leaves->count + s->body.capture_count, at = 0, attr_count = 1;
    MlirValue *operands = TSR_NEW(e->arena, MlirValue, count + s->result_count + 1);
    if (!operands) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < leaves->count; i++)
        operands[i] = tsr_tensor_use(e, leaves->items[i], call->span);
    for (size_t i = leaves->count; i < count; i++) {
        tsr_object object = {&tsr_tensor_class, s->body.captures[i - leaves->count].source};
        tsr_value source = {.kind = TSR_VALUE_OBJECT, .object = &object};
        operands[i] = tsr_tensor_use(e, source, call->span);
    }
    for (size_t i = 0; i < count; i++)
        if (mlirValueIsNull(operands[i])) return TSR_POISON;
    tsr_attr attrs[3] = {{"callee", tsr_attr_make_symbol(t->context, s->symbol)}};
    size_t length = strlen(t->prefix);
    if (length) {
        const char *prefix = tsr_arena_strndup(e->arena, t->prefix, length - 1);
        if (!prefix) return tsr_evaluate_no_memory(e);
        attrs[attr_count++] =
            (tsr_attr){"tessera.prefix", tsr_attr_make_string(t->context, prefix)};
    }
    if (strcmp(s->symbol, s->function->name) != 0)
        attrs[attr_count++] =
            (tsr_attr){TSR_CALLED_NAME, tsr_attr_make_string(t->context, s->function->name)};
    t->builder.location = tsr_trace_location(e, call->span);
    MlirOperation op = tsr_build(&t->builder, &(tsr_op_desc){.name = "func.call",
                                                             .operands = operands,
                                                             .operand_count = count,
                                                             .results = s->types,
                                                             .result_count = s->result_count,
                                                             .attrs = attrs,
                                                             .attr_count = attr_count});
    for (size_t i = 0; i < s->result_count; i++) operands[count + i] = tsr_op_result(op, i);
    return tsr_leaves_replace(e, s->returned, operands + count, &at);
}

static tsr_value apply_inline(tsr_evaluator *e, const tsr_function *f, const tsr_value *values,
                              const tsr_call *call) {
    if (!tsr_annotation_check(e, f, values, call->span)) return TSR_POISON;
    tsr_value returned = tsr_evaluate_body(e, f, values, call);
    bool fits = tsr_annotation_check_result(e, f, values, returned, call->span);
    return fits ? returned : TSR_POISON;
}

tsr_value tsr_trace_apply(tsr_evaluator *e, const tsr_function *f, const tsr_value *values,
                          const tsr_call *call) {
    tsr_tracer *t = tsr_tracer_of(e);
    size_t count = tsr_function_parameter_count(f), others;
    tsr_leaves leaves = {0};
    bool shared = t->body != NULL, traced = false;
    for (size_t i = 0; i < count; i++) {
        shared = shared && !can_change(values[i]);
        traced = traced || has_tensor(values[i]);
    }
    if (!shared || !traced) return apply_inline(e, f, values, call);
    for (size_t i = 0; i < count; i++) tsr_leaves_collect(e, values[i], &leaves);
    specialisation *s = find(t, f, values, count, &others);
    if (!s && (!check_limits(e, f, others, call->span) ||
               !tsr_annotation_check(e, f, values, call->span)))
        return TSR_POISON;
    if (!s) s = specialise(t, f, values, &leaves, call);
    if (!s || s->failed || e->stopped) return TSR_POISON;
    return s->inlined ? tsr_evaluate_body(e, f, values, call) : emit_call(t, s, &leaves, call);
}
