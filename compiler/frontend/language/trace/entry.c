/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries: @function, the types of their parameters, their functions in Graph IR.
 */
#include "compiler/frontend/language/trace/tracer.h"
#include "compiler/ir/attributes.h"
#include "compiler/process/guard.h"
#include "manifests/config.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

/* ---- @function ---- */

static tsr_value decorate(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    tsr_tracer *t = tsr_tracer_of(e);
    tsr_entry entry = *(const tsr_entry *)self.object->data;
    if (call->count != 1 || call->args[0].value.kind != TSR_VALUE_FUNCTION)
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL,
                                 "@function stands before a function");
    entry.function = call->args[0].value;
    for (size_t i = 0; i < t->entry_count; i++)
        if (strcmp(t->entries[i].function.function->name, entry.function.function->name) == 0)
            return tsr_evaluate_fail(e, entry.function.function->node->span, TSR_DIAG_TRACE_ENTRY,
                                     "two entries are called '%s'", entry.function.function->name);
    if (t->entry_count == t->entry_capacity) {
        tsr_entry *entries = TSR_ARENA_GROW(e->arena, t->entries, &t->entry_capacity, 8);
        if (!entries) return tsr_evaluate_no_memory(e);
        t->entries = entries;
    }
    t->entries[t->entry_count++] = entry;
    return entry.function;
}

static const tsr_class decorator_class = {.name = "a decorator", .call = decorate};

tsr_value tsr_entry_decorate(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[3];
    tsr_entry *entry = TSR_NEW(e->arena, tsr_entry, 1);
    (void)self;
    if (!entry) return tsr_evaluate_no_memory(e);
    if (!tsr_call_read(e, call, "entry data rows_independent", args, 3)) return TSR_POISON;
    if (!args[0] || !tsr_value_is_text(args[0]->value))
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL,
                                 "function() needs entry=\"train\", \"eval\" or \"infer\"");
    if (args[1] && args[1]->value.kind != TSR_VALUE_DICT)
        return tsr_evaluate_fail(e, args[1]->span, TSR_DIAG_EVALUATE_TYPE,
                                 "'data' is a dict from parameters to data sets, not %s",
                                 tsr_value_type_name(args[1]->value));
    *entry = (tsr_entry){.kind = args[0]->value.text->bytes,
                         .data = args[1] ? args[1]->value : TSR_NONE,
                         .rows_independent = args[2] && tsr_value_truth(args[2]->value),
                         .span = call->span};
    return tsr_evaluate_object(e, &decorator_class, entry);
}

/* ---- functions in Graph IR ---- */

typedef struct ports {
    size_t count;
    MlirValue values[TSR_CONFIG_PORTS_MAX];
    MlirType types[TSR_CONFIG_PORTS_MAX];
    MlirAttribute attrs[TSR_CONFIG_PORTS_MAX];
} ports;

static MlirAttribute name_port(const tsr_tracer *t, const char *key, const char *name) {
    MlirNamedAttribute named = {mlirIdentifierGet(t->context, tsr_ref(key)),
                                tsr_attr_make_string(t->context, name)};
    return mlirDictionaryAttrGet(t->context, 1, &named);
}

/* The data set that a parameter is bound to; NULL: none. */
static const char *find_data(const tsr_entry *entry, const char *name) {
    for (size_t i = 0; entry->data.kind == TSR_VALUE_DICT && i < entry->data.dict->live; i++) {
        const tsr_dict_entry *d = tsr_dict_entry_at(entry->data.dict, i);
        if (tsr_value_is_text(d->key) && tsr_value_is_text(d->value) &&
            strcmp(d->key.text->bytes, name) == 0)
            return d->value.text->bytes;
    }
    return NULL;
}

static bool check_data(tsr_tracer *t, const tsr_entry *entry, const tsr_ast_list *args) {
    for (size_t i = 0; entry->data.kind == TSR_VALUE_DICT && i < entry->data.dict->live; i++) {
        const tsr_dict_entry *d = tsr_dict_entry_at(entry->data.dict, i);
        bool found = false;
        for (size_t k = 0; k < args->count && tsr_value_is_text(d->key); k++)
            found = found || strcmp(args->items[k]->field[TSR_AST_ARG_NAME].text.bytes,
                                    d->key.text->bytes) == 0;
        if (found && tsr_value_is_text(d->value)) continue;
        tsr_evaluate_fail(&t->e, entry->span, TSR_DIAG_TRACE_ENTRY,
                          "'data' names %.60s, which is not a parameter of %s, or no text",
                          tsr_value_is_text(d->key) ? d->key.text->bytes : "?",
                          entry->function.function->name);
        return false;
    }
    return true;
}

static bool refuse_parameter(tsr_evaluator *e, tsr_value type, const char *name, tsr_span span) {
    if (tsr_value_is(type, &tsr_cache_class))
        tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_LATER,
                          "parameter '%s' of an entry is a cache; in this version a cache lives "
                          "in one call: make it in the function, as KVCache[…].empty()",
                          name);
    else if (type.kind)
        tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_ENTRY,
                          "parameter '%s' of an entry needs a type, as %s: Tensor[64, 10, f32]; "
                          "at most %d parameters are allowed",
                          name, name, TSR_CONFIG_PORTS_MAX);
    return false;
}

/* The types of an entry's parameters say all dims and the element type. */
static const tsr_type *type_of_parameter(tsr_value type) {
    const tsr_annotation *a = tsr_value_is(type, &tsr_type_class) ? type.object->data : NULL;
    return a && !a->leading && a->type.dtype != TSR_DTYPE_NONE ? &a->type : NULL;
}

/* The parameters of the entry become arguments of the function. */
static bool read_parameters(tsr_tracer *t, const tsr_entry *entry, ports *in) {
    const tsr_function *f = entry->function.function;
    const tsr_ast_field *args = f->node->field[TSR_AST_FUNCTION_DEF_ARGS].node->field;
    const tsr_ast_list *list = &args[TSR_AST_ARGUMENTS_ARGS].list;
    if (!check_data(t, entry, list)) return false;
    for (size_t i = 0; i < list->count; i++) {
        const tsr_ast *arg = list->items[i];
        const char *name = arg->field[TSR_AST_ARG_NAME].text.bytes, *data = find_data(entry, name);
        tsr_value annotation = f->annotations[i].kind ? f->annotations[i] : TSR_NONE;
        const tsr_type *type = type_of_parameter(annotation);
        if (!type || i == TSR_CONFIG_PORTS_MAX)
            return refuse_parameter(&t->e, annotation, name, arg->span);
        in->types[in->count] = tsr_type_make(t->context, type);
        in->attrs[in->count++] =
            data ? name_port(t, "tessera.data", data) : name_port(t, "tessera.name", name);
    }
    return true;
}

/* ---- dims without a size ---- */

typedef struct symbols {
    tsr_tracer *t;
    MlirAttribute *list;
    size_t count, capacity;
} symbols;

static void add_symbol(void *user, const char *name) {
    symbols *s = user;
    MlirAttribute own = tsr_attr_make_string(s->t->context, name);
    for (size_t i = 0; i < s->count; i++)
        if (mlirAttributeEqual(s->list[i], own)) return;
    if (s->count == s->capacity) {
        s->list = TSR_ARENA_GROW(s->t->e.arena, s->list, &s->capacity, 8);
        TSR_NEED(s->list);
    }
    s->list[s->count++] = own;
}

/* The entry lists the names of its open dims: their sizes come with --dim or with each call. */
static void list_symbols(tsr_tracer *t, MlirOperation func, const tsr_function *f) {
    symbols all = {.t = t};
    for (size_t i = 0; i < tsr_function_parameter_count(f); i++) {
        const tsr_type *type = type_of_parameter(f->annotations[i]);
        for (uint32_t k = 0; type && k < type->shape.rank; k++)
            tsr_dim_symbols(type->shape.dims[k], add_symbol, &all);
    }
    if (all.count)
        tsr_op_set(func, TSR_DIMS_NAME,
                   mlirArrayAttrGet(t->context, (intptr_t)all.count, all.list));
}

/* The results: a dict from names to tensors. */
static bool read_results(tsr_tracer *t, tsr_value returned, tsr_span span, ports *out) {
    bool dict = returned.kind == TSR_VALUE_DICT;
    for (size_t i = 0; dict && i < returned.dict->live; i++) {
        const tsr_dict_entry *d = tsr_dict_entry_at(returned.dict, i);
        dict = i < TSR_CONFIG_PORTS_MAX && tsr_value_is_text(d->key) &&
               tsr_value_is(d->value, &tsr_tensor_class);
        if (!dict) break;
        out->values[out->count] = tsr_tensor_use(&t->e, d->value, span);
        if (mlirValueIsNull(out->values[out->count])) return false;
        out->attrs[out->count++] = name_port(t, "tessera.name", d->key.text->bytes);
    }
    if (!dict && returned.kind)
        tsr_evaluate_fail(&t->e, span, TSR_DIAG_TRACE_ENTRY,
                          "an entry returns a dict from names to tensors, as {'y': y}, not %s",
                          tsr_value_type_name(returned));
    return dict;
}

/* What the runtime reads: the kind of entry, the names of its parameters and results. */
static void describe(tsr_tracer *t, MlirOperation func, const tsr_entry *entry, const ports *in,
                     const ports *out) {
    tsr_op_set(func, "tessera.entry", tsr_attr_make_string(t->context, entry->kind));
    if (entry->rows_independent)
        tsr_op_set(func, "tessera.rows_independent", tsr_attr_make_unit(t->context));
    tsr_op_set(func, "arg_attrs", mlirArrayAttrGet(t->context, (intptr_t)in->count, in->attrs));
    tsr_op_set(func, "res_attrs", mlirArrayAttrGet(t->context, (intptr_t)out->count, out->attrs));
}

void tsr_entry_trace(tsr_tracer *t, const tsr_entry *entry) {
    const tsr_function *f = entry->function.function;
    ports in = {0}, out = {0};
    tsr_value values[TSR_CONFIG_PORTS_MAX];
    tsr_span span = f->node->span;
    tsr_body *body = TSR_NEW(t->e.arena, tsr_body, 1);
    if (!body) tsr_evaluate_no_memory(&t->e);
    if (!body || !read_parameters(t, entry, &in)) return;
    MlirOperation func = tsr_trace_open(t, body, f, f->name, in.count, in.types);
    for (size_t i = 0; i < in.count; i++)
        values[i] = tsr_tensor_make(&t->e, mlirBlockGetArgument(body->block, (intptr_t)i));
    tsr_call call = {.span = span, .callee = f->name};
    tsr_value returned = tsr_evaluate_body(&t->e, f, values, &call);
    if (read_results(t, returned, span, &out)) {
        tsr_trace_close(t, func, out.count, out.values);
        list_symbols(t, func, f);
        tsr_annotation_put(t, f, values, func, in.attrs);
        describe(t, func, entry, &in, &out);
    }
    t->body = NULL;
}
