/* SPDX-License-Identifier: Apache-2.0
 *
 * Types of parameters and results: Tensor["B", "S", "3*D", bf16]. Names of dims belong to one
 * function: at each signature they get the dims of the arguments, which must agree.
 */
#include "compiler/frontend/language/trace/tracer.h"
#include "compiler/ir/attributes.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

/* ---- Tensor[…] ---- */

/* Names are sums and products of symbols. */
static bool is_polynomial(const tsr_dim_expression *x) {
    for (uint32_t i = 0; i < x->count; i++)
        for (uint32_t k = 0; k < x->terms[i].degree; k++)
            if (!tsr_dim_is_symbol(x->terms[i].atoms[k], strlen(x->terms[i].atoms[k])))
                return false;
    return true;
}

static bool read_name(tsr_evaluator *e, const char *text, tsr_span span, uint64_t *out) {
    tsr_dim_expression expression;
    tsr_dim_error error = {.text = "it is another expression, or below 0"};
    if (tsr_dim_expression_parse(e->arena, text, strlen(text), &expression, &error) &&
        is_polynomial(&expression) &&
        tsr_dim_from_expression(tsr_tracer_of(e)->context, &expression, out))
        return true;
    tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_DIMS,
                      "'%.60s' does not name a dim: %s; a dim is a size, a name as \"B\", or a sum "
                      "or product of names as \"3*D\"",
                      text, error.text);
    return false;
}

bool tsr_annotation_dims(tsr_evaluator *e, const tsr_value *items, size_t count, tsr_span span,
                         tsr_shape *out) {
    for (size_t i = 0; i < count; i++) {
        int64_t size;
        if (tsr_value_is_text(items[i])) {
            if (!read_name(e, items[i].text->bytes, span, &out->dims[i])) return false;
            continue;
        }
        if (tsr_value_is(items[i], &tsr_dim_class)) {
            out->dims[i] = *(const uint64_t *)items[i].object->data;
            continue;
        }
        if (!tsr_value_as_integer(items[i], &size) || size < 1) {
            tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_ENTRY,
                              "dim %zu of the type is not an int of at least 1", i);
            return false;
        }
        out->dims[i] = (uint64_t)size;
    }
    out->rank = (uint32_t)count;
    return true;
}

/* Tensor[64, "D", f32]: dims, then the element type, which may be left out. */
static tsr_value select_type(tsr_evaluator *e, tsr_value self, tsr_value index, tsr_span span) {
    bool tuple = index.kind == TSR_VALUE_TUPLE;
    const tsr_value *items = tuple ? index.list->items : &index;
    size_t count = tuple ? index.list->count : 1;
    tsr_annotation *own = TSR_NEW(e->arena, tsr_annotation, 1);
    if (!own) return tsr_evaluate_no_memory(e);
    if (self.object->data)
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "the type has its dims already");
    if (count && tsr_value_is(items[count - 1], &tsr_dtype_class))
        own->type.dtype = tsr_dtype_get(items[--count]);
    if (count && items[0].kind == TSR_VALUE_ELLIPSIS) {
        own->leading = true;
        items++;
        count--;
    }
    if (count > TSR_RANK_MAX)
        return tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_ENTRY,
                                 "Tensor[…] holds at most %d dims, then an element type, as "
                                 "Tensor[64, 10, f32]",
                                 TSR_RANK_MAX);
    if (!tsr_annotation_dims(e, items, count, span, &own->type.shape)) return TSR_POISON;
    return tsr_evaluate_object(e, &tsr_type_class, own);
}

const tsr_class tsr_type_class = {.name = "a type", .subscript = select_type};

/* ---- names and their dims ---- */

enum { NAMES_MAX = 64 };

typedef struct bound {
    const char *name;
    uint64_t dim;
    const char *where; /* "dim 0 of 'x'" */
} bound;

typedef struct names {
    tsr_evaluator *e;
    tsr_span span; /* of the call */
    bound list[NAMES_MAX];
    size_t count;
} names;

static const bound *find_name(const names *n, const char *name) {
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->list[i].name, name) == 0) return &n->list[i];
    return NULL;
}

/* The expression with the dims of its names; false: one of them has none, *out_missing. */
static bool substitute(const names *n, uint64_t pattern, uint64_t *out, const char **out_missing) {
    tsr_arena *arena = n->e->arena;
    tsr_dim_expression from = tsr_dim_to_expression(arena, pattern), sum = {0};
    *out_missing = NULL;
    for (uint32_t i = 0; i < from.count; i++) {
        tsr_dim_expression product = tsr_dim_expression_number(from.terms[i].factor);
        for (uint32_t k = 0; k < from.terms[i].degree; k++) {
            const bound *b = find_name(n, from.terms[i].atoms[k]);
            if (!b) return *out_missing = from.terms[i].atoms[k], false;
            tsr_dim_expression factor = tsr_dim_to_expression(arena, b->dim);
            if (!tsr_dim_expression_multiply(&product, &factor, &product)) return false;
        }
        if (!tsr_dim_expression_add(&sum, &product, &sum)) return false;
    }
    return tsr_dim_from_expression(tsr_tracer_of(n->e)->context, &sum, out);
}

/* A name that stands in a product alone, as D in "3*D", follows from the dim. */
static bool solve(const names *n, uint64_t pattern, uint64_t dim, const char **out_name,
                  uint64_t *out) {
    tsr_dim_expression from = tsr_dim_to_expression(n->e->arena, pattern);
    if (from.count != 1 || from.terms[0].degree != 1) return false;
    *out_name = from.terms[0].atoms[0];
    return from.terms[0].factor > 0 && tsr_dim_divide(dim, (uint64_t)from.terms[0].factor, out);
}

static bool disagree(names *n, uint64_t pattern, uint64_t dim, const char *where, uint64_t expected,
                     const char *origin) {
    char name[TSR_DIM_TEXT_MAX], is[TSR_DIM_TEXT_MAX], must[TSR_DIM_TEXT_MAX];
    tsr_evaluate_fail(n->e, n->span, TSR_DIAG_TRACE_DIMS, "%s is %s; '%s' is %s%s%s", where,
                      tsr_dim_text(dim, is), tsr_dim_text(pattern, name),
                      tsr_dim_text(expected, must), origin ? " from " : "", origin ? origin : "");
    return false;
}

static bool differs(names *n, uint64_t dim, const char *where, uint64_t expected) {
    char is[TSR_DIM_TEXT_MAX], must[TSR_DIM_TEXT_MAX];
    tsr_evaluate_fail(n->e, n->span, TSR_DIAG_TRACE_DIMS, "%s is %s; its type has %s", where,
                      tsr_dim_text(dim, is), tsr_dim_text(expected, must));
    return false;
}

static bool bind_name(names *n, const char *name, uint64_t dim, const char *where) {
    if (n->count == NAMES_MAX) {
        tsr_evaluate_fail(n->e, n->span, TSR_DIAG_TRACE_DIMS,
                          "a function has more than %d names of dims", NAMES_MAX);
        return false;
    }
    n->list[n->count++] = (bound){name, dim, where};
    return true;
}

/* Single names first, so that the others can be computed. */
static bool match_dim(names *n, bool single, uint64_t pattern, uint64_t dim, const char *where) {
    const char *symbol = tsr_dim_symbol(pattern), *name;
    uint64_t expected;
    if (tsr_dim_is_known(pattern))
        return !single || pattern == dim || differs(n, dim, where, pattern);
    if ((symbol != NULL) != single) return true;
    if (symbol) {
        const bound *b = find_name(n, symbol);
        if (!b) return bind_name(n, symbol, dim, where);
        return b->dim == dim || disagree(n, pattern, dim, where, b->dim, b->where);
    }
    if (substitute(n, pattern, &expected, &name))
        return expected == dim || disagree(n, pattern, dim, where, expected, "the other dims");
    if (name && solve(n, pattern, dim, &name, &expected))
        return bind_name(n, name, expected, where);
    char text[TSR_DIM_TEXT_MAX], is[TSR_DIM_TEXT_MAX];
    tsr_evaluate_fail(n->e, n->span, TSR_DIAG_TRACE_DIMS,
                      name ? "%s is %s; '%s' cannot be compared with it, because no other dim is "
                             "'%s'"
                           : "%s is %s; '%s' has no size that fits%.0s",
                      where, tsr_dim_text(dim, is), tsr_dim_text(pattern, text), name);
    return false;
}

static bool match_type(names *n, const tsr_annotation *a, const tsr_type *type, const char *what) {
    const tsr_shape *is = &type->shape, *must = &a->type.shape;
    if (is->rank < must->rank || (is->rank > must->rank && !a->leading)) {
        tsr_evaluate_fail(n->e, n->span, TSR_DIAG_TRACE_DIMS, "%s has %u dims; its type has %s%u",
                          what, is->rank, a->leading ? "at least " : "", must->rank);
        return false;
    }
    if (a->type.dtype != TSR_DTYPE_NONE && a->type.dtype != type->dtype) {
        tsr_evaluate_fail(n->e, n->span, TSR_DIAG_EVALUATE_TYPE,
                          "%s has elements of %s; its type has %s", what,
                          tsr_dtype_name(type->dtype), tsr_dtype_name(a->type.dtype));
        return false;
    }
    return true;
}

static bool match_dims(names *n, bool single, const tsr_annotation *a, const tsr_type *type,
                       const char *what) {
    uint32_t first = type->shape.rank - a->type.shape.rank;
    for (uint32_t i = 0; i < a->type.shape.rank; i++) {
        const char *where = tsr_arena_printf(n->e->arena, "dim %u of %s", first + i, what);
        if (!where) return tsr_evaluate_no_memory(n->e), false;
        if (!match_dim(n, single, a->type.shape.dims[i], type->shape.dims[first + i], where))
            return false;
    }
    return true;
}

/* ---- parameters ---- */

static bool is_number_type(tsr_value annotation, const char *name) {
    return annotation.kind == TSR_VALUE_BUILTIN && strcmp(annotation.builtin->name, name) == 0;
}

/* int, float, bool and str: a value that is known while the program is compiled. */
static bool check_static(names *n, tsr_value annotation, tsr_value v, const char *name) {
    static const char *const types[] = {"int", "float", "bool", "str"};
    bool named = tsr_value_is(annotation, &tsr_dtype_class);
    for (size_t i = 0; i < TSR_COUNT(types); i++)
        named = named || is_number_type(annotation, types[i]);
    if (!named || !tsr_value_is(v, &tsr_tensor_class)) return true;
    tsr_evaluate_fail(n->e, n->span, TSR_DIAG_EVALUATE_TRACED,
                      "'%s' is needed while the program is compiled; it gets a tensor", name);
    return false;
}

static bool check_parameter(names *n, tsr_value annotation, tsr_value v, const char *name) {
    if (tsr_value_is(annotation, &tsr_type_class) && v.kind &&
        !tsr_value_is(v, &tsr_tensor_class) && v.kind != TSR_VALUE_NONE) {
        tsr_evaluate_fail(n->e, n->span, TSR_DIAG_EVALUATE_TYPE, "'%s' is a tensor; it gets %s",
                          name, tsr_value_type_name(v));
        return false;
    }
    return check_static(n, annotation, v, name) &&
           tsr_cache_check(n->e, annotation, v, name, n->span);
}

static const tsr_annotation *annotation_of(tsr_value annotation, tsr_value v) {
    bool both = tsr_value_is(annotation, &tsr_type_class) && tsr_value_is(v, &tsr_tensor_class);
    return both ? annotation.object->data : NULL;
}

static bool bind_parameters(names *n, const tsr_function *f, const tsr_value *values) {
    size_t count = tsr_function_parameter_count(f);
    for (size_t i = 0; i < count; i++)
        if (!check_parameter(n, f->annotations[i], values[i], tsr_function_parameter(f, i)))
            return false;
    for (int pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < count; i++) {
            const tsr_annotation *a = annotation_of(f->annotations[i], values[i]);
            if (!a) continue;
            const tsr_type *type = &tsr_tensor_get(values[i])->type;
            const char *what = tsr_arena_printf(n->e->arena, "'%s'", tsr_function_parameter(f, i));
            if (!what) return tsr_evaluate_no_memory(n->e), false;
            if (pass == 0 ? !match_type(n, a, type, what)
                          : !match_dims(n, pass == 1, a, type, what))
                return false;
        }
    return true;
}

static bool has_types(const tsr_function *f) {
    for (size_t i = 0; i < tsr_function_parameter_count(f); i++)
        if (f->annotations[i].kind) return true;
    return f->returns.kind != TSR_VALUE_POISON;
}

bool tsr_annotation_check(tsr_evaluator *e, const tsr_function *f, const tsr_value *values,
                          tsr_span span) {
    names n = {.e = e, .span = span};
    return !has_types(f) || bind_parameters(&n, f, values);
}

static bool check_results(names *n, tsr_value annotation, tsr_value v, const char *what) {
    const tsr_annotation *a = annotation_of(annotation, v);
    if (annotation.kind == TSR_VALUE_TUPLE && v.kind == TSR_VALUE_TUPLE) {
        if (annotation.list->count != v.list->count) {
            tsr_evaluate_fail(n->e, n->span, TSR_DIAG_EVALUATE_TYPE,
                              "%s has %zu values; its type has %zu", what, v.list->count,
                              annotation.list->count);
            return false;
        }
        for (size_t i = 0; i < v.list->count; i++)
            if (!check_results(n, annotation.list->items[i], v.list->items[i], what)) return false;
    }
    if (tsr_value_is(annotation, &tsr_type_class) && !a) {
        tsr_evaluate_fail(n->e, n->span, TSR_DIAG_EVALUATE_TYPE, "%s is a tensor; it is %s", what,
                          tsr_value_type_name(v));
        return false;
    }
    if (!a) return true;
    const tsr_type *type = &tsr_tensor_get(v)->type;
    return match_type(n, a, type, what) && match_dims(n, true, a, type, what) &&
           match_dims(n, false, a, type, what);
}

bool tsr_annotation_check_result(tsr_evaluator *e, const tsr_function *f, const tsr_value *values,
                                 tsr_value returned, tsr_span span) {
    names n = {.e = e, .span = span};
    if (!returned.kind || !f->returns.kind) return returned.kind != TSR_VALUE_POISON;
    const char *what = tsr_arena_printf(e->arena, "the result of %s()", f->name);
    if (!what) return tsr_evaluate_no_memory(e), false;
    return bind_parameters(&n, f, values) && check_results(&n, f->returns, returned, what);
}

/* ---- Graph IR ---- */

/* The attributes of an argument and the names of its dims. Graph IR names each: a dim without a
 * name gets one. */
static MlirAttribute name_dims(const names *n, const tsr_annotation *a, const tsr_type *type,
                               const char *parameter, MlirAttribute attrs) {
    MlirContext context = tsr_tracer_of(n->e)->context;
    MlirAttribute list[TSR_RANK_MAX];
    uint32_t first = type->shape.rank - a->type.shape.rank;
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        const char *own = tsr_dim_symbol(type->shape.dims[i]);
        if (!own && i >= first) own = tsr_dim_symbol(a->type.shape.dims[i - first]);
        if (!own) own = tsr_arena_printf(n->e->arena, "%s.%u", parameter, i);
        TSR_NEED(own);
        list[i] = tsr_attr_make_string(context, own);
    }
    MlirAttribute dims = mlirArrayAttrGet(context, (intptr_t)type->shape.rank, list);
    MlirNamedAttribute named[] = {{mlirIdentifierGet(context, tsr_ref(TSR_DIMS_NAME)), dims},
                                  {{NULL}, {NULL}}};
    intptr_t others = mlirDictionaryAttrGetNumElements(attrs);
    TSR_ASSERT(others <= 1);
    if (others) named[1] = mlirDictionaryAttrGetElement(attrs, 0);
    return mlirDictionaryAttrGet(context, 1 + others, named);
}

/* A constraint in which names of open dims are replaced by their expressions. */
static MlirAttribute replace_names(const names *n, const char *text) {
    tsr_buffer out = {0};
    while (text[0]) {
        size_t length = 0;
        while (tsr_dim_is_symbol(text, length + 1)) length++;
        const char *name = length ? tsr_arena_strndup(n->e->arena, text, length) : NULL;
        const bound *b = name ? find_name(n, name) : NULL;
        char dim[TSR_DIM_TEXT_MAX];
        if (b && tsr_dim_is_open(b->dim))
            tsr_buffer_printf(&out, tsr_dim_symbol(b->dim) ? "%s" : "(%s)",
                              tsr_dim_text(b->dim, dim));
        else
            tsr_buffer_printf(&out, "%.*s", (int)(length ? length : 1), text);
        text += length ? length : 1;
    }
    TSR_NEED(!out.failed);
    MlirAttribute attr = tsr_attr_make_string(tsr_tracer_of(n->e)->context, out.bytes);
    tsr_buffer_finish(&out);
    return attr;
}

/* The constraints of all decorators of the function, from the first one on. */
static void put_constraints(const names *n, const tsr_function *f, MlirOperation func) {
    tsr_tracer *t = tsr_tracer_of(n->e);
    size_t count = 0, capacity = 1;
    for (const tsr_promise *p = t->promises; p; p = p->next) capacity += p->constraint_count;
    MlirAttribute *list = TSR_NEW(t->e.arena, MlirAttribute, capacity);
    TSR_NEED(list);
    for (const tsr_promise *p = t->promises; p; p = p->next) {
        if (p->function != f->node) continue;
        for (size_t i = 0; i < p->constraint_count; i++)
            list[count++] = replace_names(n, p->constraints[i]);
        if (!mlirAttributeIsNull(p->deterministic))
            tsr_op_set(func, TSR_DETERMINISTIC_NAME, p->deterministic);
    }
    if (count)
        tsr_op_set(func, TSR_CONSTRAINTS_NAME, mlirArrayAttrGet(t->context, (intptr_t)count, list));
}

static bool has_promise(const tsr_tracer *t, const tsr_function *f) {
    for (const tsr_promise *p = t->promises; p; p = p->next)
        if (p->function == f->node) return true;
    return false;
}

bool tsr_annotation_put(tsr_tracer *t, const tsr_function *f, const tsr_value *values,
                        MlirOperation func, MlirAttribute *attrs) {
    names n = {.e = &t->e, .span = f->node->span};
    size_t at = 0;
    if (!has_promise(t, f) || !bind_parameters(&n, f, values)) return false;
    for (size_t i = 0; i < tsr_function_parameter_count(f); i++) {
        const tsr_annotation *a = annotation_of(f->annotations[i], values[i]);
        tsr_leaves leaves = {0};
        tsr_leaves_collect(&t->e, values[i], &leaves);
        if (a)
            attrs[at] = name_dims(&n, a, &tsr_tensor_get(values[i])->type,
                                  tsr_function_parameter(f, i), attrs[at]);
        at += leaves.count;
    }
    put_constraints(&n, f, func);
    return true;
}
