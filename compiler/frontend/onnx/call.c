/* SPDX-License-Identifier: Apache-2.0
 *
 * What rules read of a node: inputs, attributes, known values; and how they fail.
 */
#include "compiler/frontend/onnx/importer.h"
#include "compiler/process/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const MlirValue null_value = {NULL};

/* ---- failures ---- */

static void fail_text(tsr_onnx_call *c, tsr_diag_number number, const char *text) {
    const tsr_onnx_node *n = c->node;
    if (c->failed) return; /* the first failure is the cause of the others */
    c->failed = true;
    const char *domain = tsr_onnx_is_default_domain(n->domain) ? "" : n->domain;
    if (n->name[0])
        tsr_diag_error(c->builder->location, number, "node '%s' (%s%s%s): %s", n->name, domain,
                       domain[0] ? "." : "", n->op_type, text);
    else
        tsr_diag_error(c->builder->location, number, "node %u (%s%s%s): %s", n->line, domain,
                       domain[0] ? "." : "", n->op_type, text);
}

bool tsr_onnx_fail(tsr_onnx_call *c, tsr_diag_number number, const char *format, ...) {
    char text[768];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail_text(c, number, text);
    return false;
}

MlirValue tsr_onnx_fail_value(tsr_onnx_call *c, tsr_diag_number number, const char *format, ...) {
    char text[768];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail_text(c, number, text);
    return null_value;
}

/* ---- inputs and outputs ---- */

bool tsr_onnx_has(const tsr_onnx_call *c, size_t input) {
    return input < c->input_count && !mlirValueIsNull(c->inputs[input]);
}

MlirValue tsr_onnx_in(tsr_onnx_call *c, size_t input) {
    if (tsr_onnx_has(c, input)) return c->inputs[input];
    return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_INPUT, "input %zu is missing", input);
}

MlirValue tsr_onnx_in_or_null(const tsr_onnx_call *c, size_t input) {
    return tsr_onnx_has(c, input) ? c->inputs[input] : null_value;
}

bool tsr_onnx_wants(const tsr_onnx_call *c, size_t output) {
    return output < c->output_count && TSR_ONNX_TEXT(c->node->outputs, output)[0];
}

bool tsr_onnx_out(tsr_onnx_call *c, size_t output, MlirValue value) {
    if (output < c->output_count) c->outputs[output] = value;
    return !c->failed;
}

/* ---- attributes ---- */

static const tsr_onnx_attribute *find_in(tsr_wire_list attributes, const char *name) {
    for (size_t i = 0; i < attributes.count; i++) {
        const tsr_onnx_attribute *a = TSR_ONNX_ITEM(attributes, tsr_onnx_attribute, i);
        if (strcmp(a->name, name) == 0) return a;
    }
    return NULL;
}

/* Functions and graphs are in one another to a limited depth, and so is this walk. */
static const tsr_onnx_attribute *find_attribute(const tsr_onnx_scope *scope,
                                                const tsr_onnx_node *node, const char *name) {
    const tsr_onnx_attribute *a = find_in(node->attributes, name);
    while (a && a->ref_attr_name[0]) {
        const char *wanted = a->ref_attr_name;
        while (scope && !scope->caller) scope = scope->parent;
        if (!scope) return NULL;
        a = find_in(scope->caller->node->attributes, wanted);
        if (!a) return find_in(scope->function->defaults, wanted);
        scope = scope->caller->scope;
    }
    return a;
}

const tsr_onnx_attribute *tsr_onnx_attr(tsr_onnx_call *c, const char *name) {
    return find_attribute(c->scope, c->node, name);
}

static bool has_type(tsr_onnx_call *c, const tsr_onnx_attribute *a, const char *name,
                     tsr_onnx_attribute_type type) {
    static const char *const names[] = {"undefined", "a float",  "an integer",
                                        "a string",  "a tensor", "a graph",
                                        "floats",    "integers", "strings"};
    if (a->type == (int64_t)type) return true;
    return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                         "attribute '%s' has type number %" PRId64 "; expected %s", name, a->type,
                         names[type]);
}

int64_t tsr_onnx_attr_i(tsr_onnx_call *c, const char *name, int64_t otherwise) {
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, name);
    return a && has_type(c, a, name, TSR_ONNX_ATTRIBUTE_INT) ? a->i : otherwise;
}

double tsr_onnx_attr_f(tsr_onnx_call *c, const char *name, double otherwise) {
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, name);
    return a && has_type(c, a, name, TSR_ONNX_ATTRIBUTE_FLOAT) ? (double)a->f : otherwise;
}

const char *tsr_onnx_attr_s(tsr_onnx_call *c, const char *name, const char *otherwise) {
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, name);
    if (!a || !has_type(c, a, name, TSR_ONNX_ATTRIBUTE_STRING)) return otherwise;
    const char *text =
        a->s.bytes ? tsr_arena_strndup(c->arena, (const char *)a->s.bytes, a->s.size_bytes) : "";
    TSR_NEED(text);
    return text;
}

bool tsr_onnx_attr_ints(tsr_onnx_call *c, const char *name, size_t count, int64_t otherwise,
                        int64_t *out_values) {
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, name);
    for (size_t i = 0; i < count; i++) out_values[i] = otherwise;
    if (!a) return true;
    if (!has_type(c, a, name, TSR_ONNX_ATTRIBUTE_INTS)) return false;
    if (a->ints.count != count)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "attribute '%s' has %zu integers; expected %zu", name, a->ints.count,
                             count);
    for (size_t i = 0; i < count; i++) out_values[i] = TSR_ONNX_INT(a->ints, i);
    return true;
}

bool tsr_onnx_attr_must_be(tsr_onnx_call *c, const char *name, int64_t otherwise, int64_t value) {
    int64_t is = tsr_onnx_attr_i(c, name, otherwise);
    if (c->failed || is == value) return !c->failed;
    return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                         "attribute '%s' is %" PRId64 "; only %" PRId64 " can be imported", name,
                         is, value);
}

/* ---- known values ---- */

/* Some integers depend on open dims. */
static void refuse_sizes(tsr_onnx_call *c, size_t input, const char *what,
                         const tsr_onnx_known *known) {
    char words[256];
    uint64_t dim = 0;
    snprintf(words, sizeof words, "a number of input %zu ('%.150s': %s)", input,
             TSR_ONNX_TEXT(c->node->inputs, input), what);
    for (uint64_t i = 0; i < known->count; i++)
        if (known->open[i] && tsr_dim_from_expression(c->builder->context, known->open[i], &dim))
            break;
    if (dim)
        tsr_onnx_fail_open(c, words, dim, "the rule needs its value");
    else
        tsr_onnx_fail(c, TSR_DIAG_ONNX_OPEN,
                      "%s depends on open dims; give them sizes: --dim NAME=SIZE", words);
}

const tsr_onnx_known *tsr_onnx_in_known(tsr_onnx_call *c, size_t input, const char *what) {
    MlirValue value = tsr_onnx_in(c, input);
    if (c->failed) return NULL;
    const tsr_onnx_known *known = tsr_onnx_evaluate(c->importer, value);
    if (known) return known;
    known = tsr_onnx_evaluate_open(c->importer, value);
    if (known) {
        refuse_sizes(c, input, what, known);
        return NULL;
    }
    tsr_onnx_fail(c, TSR_DIAG_ONNX_KNOWN,
                  "input %zu ('%s': %s) depends on inputs of the model%s; its value must be known "
                  "when the model is built",
                  input, TSR_ONNX_TEXT(c->node->inputs, input), what,
                  c->importer->symbol_count ? ", or on the sizes of open dims" : "");
    return NULL;
}

bool tsr_onnx_in_ints(tsr_onnx_call *c, size_t input, const char *what, size_t limit,
                      int64_t *out_values, size_t *out_count) {
    const tsr_onnx_known *known = tsr_onnx_in_known(c, input, what);
    *out_count = 0;
    if (!known) return false;
    if (known->is_float)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_TYPE,
                             "input %zu (%s) has elements of %s; expected "
                             "integers",
                             input, what, tsr_dtype_name(known->type.dtype));
    if (known->count > limit)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT,
                             "input %zu (%s) has %" PRIu64 " elements; expected at most %zu", input,
                             what, known->count, limit);
    for (uint64_t i = 0; i < known->count; i++) out_values[i] = known->ints[i];
    *out_count = (size_t)known->count;
    return true;
}

bool tsr_onnx_in_sizes(tsr_onnx_call *c, size_t input, const char *what, size_t limit,
                       tsr_dim_expression *out_values, size_t *out_count) {
    MlirValue value = tsr_onnx_in(c, input);
    const tsr_onnx_known *known = c->failed ? NULL : tsr_onnx_evaluate_open(c->importer, value);
    *out_count = 0;
    if (!known || !known->open || known->count > limit) { /* the message of numbers fits */
        int64_t *numbers = TSR_NEW(c->arena, int64_t, limit + 1);
        TSR_NEED(numbers);
        if (!tsr_onnx_in_ints(c, input, what, limit, numbers, out_count)) return false;
        for (size_t i = 0; i < *out_count; i++)
            out_values[i] = tsr_dim_expression_number(numbers[i]);
        return true;
    }
    for (uint64_t i = 0; i < known->count; i++)
        out_values[i] =
            known->open[i] ? *known->open[i] : tsr_dim_expression_number(known->ints[i]);
    *out_count = (size_t)known->count;
    return true;
}

static bool has_one(tsr_onnx_call *c, size_t input, const char *what, uint64_t count) {
    if (count == 1) return true;
    return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT,
                         "input %zu (%s) has %" PRIu64 " elements; expected 1", input, what, count);
}

bool tsr_onnx_in_int(tsr_onnx_call *c, size_t input, const char *what, int64_t *out_value) {
    size_t count = 0;
    return tsr_onnx_in_ints(c, input, what, 1, out_value, &count) && has_one(c, input, what, count);
}

bool tsr_onnx_in_f64(tsr_onnx_call *c, size_t input, const char *what, double *out_value) {
    const tsr_onnx_known *known = tsr_onnx_in_known(c, input, what);
    if (!known || !has_one(c, input, what, known->count)) return false;
    *out_value = known->is_float ? known->floats[0] : (double)known->ints[0];
    return true;
}

bool tsr_onnx_ints_of(tsr_onnx_call *c, const char *attribute, size_t input, size_t limit,
                      int64_t *out_values, size_t *out_count, bool *out_given) {
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, attribute);
    *out_count = 0;
    *out_given = a || tsr_onnx_has(c, input);
    if (!a)
        return !*out_given || tsr_onnx_in_ints(c, input, attribute, limit, out_values, out_count);
    if (!has_type(c, a, attribute, TSR_ONNX_ATTRIBUTE_INTS)) return false;
    if (a->ints.count > limit)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "attribute '%s' has %zu integers; expected at most %zu", attribute,
                             a->ints.count, limit);
    for (size_t i = 0; i < a->ints.count; i++) out_values[i] = TSR_ONNX_INT(a->ints, i);
    *out_count = a->ints.count;
    return true;
}

/* ---- types ---- */

tsr_type tsr_onnx_type_of(MlirValue value) { return tsr_emitter_type(value); }

tsr_dtype tsr_onnx_dtype(MlirValue value) { return tsr_onnx_type_of(value).dtype; }

uint32_t tsr_onnx_rank(MlirValue value) { return tsr_onnx_type_of(value).shape.rank; }

uint64_t tsr_onnx_dim_of(MlirValue value, uint32_t dim) {
    tsr_type type = tsr_onnx_type_of(value);
    return dim < type.shape.rank ? type.shape.dims[dim] : 1;
}

uint64_t tsr_onnx_count(MlirValue value) {
    tsr_type type = tsr_onnx_type_of(value);
    uint64_t count = 0;
    return tsr_shape_count(&type.shape, &count) ? count : UINT64_MAX;
}

bool tsr_onnx_is_float(MlirValue value) { return tsr_dtype_is_float(tsr_onnx_dtype(value)); }

bool tsr_onnx_axis(tsr_onnx_call *c, const char *name, int64_t axis, uint32_t rank,
                   uint32_t *out_axis) {
    *out_axis = 0;
    if (c->failed) return false;
    int64_t at = axis < 0 ? axis + (int64_t)rank : axis;
    if (at < 0 || at >= (int64_t)rank)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "'%s' is %" PRId64 "; a tensor of %u dims has the axes %d to %d", name,
                             axis, rank, -(int)rank, (int)rank - 1);
    *out_axis = (uint32_t)at;
    return true;
}

bool tsr_onnx_axes(tsr_onnx_call *c, const char *name, uint32_t rank, size_t count, int64_t *axes) {
    for (size_t i = 0; i < count; i++) {
        uint32_t axis;
        if (!tsr_onnx_axis(c, name, axes[i], rank, &axis)) return false;
        size_t at = i;
        for (; at && axes[at - 1] > (int64_t)axis; at--) axes[at] = axes[at - 1];
        axes[at] = axis;
    }
    for (size_t i = 1; i < count; i++)
        if (axes[i] == axes[i - 1])
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE, "'%s' names axis %" PRId64 " twice",
                                 name, axes[i]);
    return true;
}

bool tsr_onnx_need_rank(tsr_onnx_call *c, const char *what, MlirValue value, uint32_t low,
                        uint32_t high) {
    if (c->failed || mlirValueIsNull(value)) return false;
    uint32_t rank = tsr_onnx_rank(value);
    if (rank >= low && rank <= high) return true;
    if (low == high)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "%s has %u dims; %u can be imported", what,
                             rank, low);
    return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "%s has %u dims; %u to %u can be imported", what,
                         rank, low, high);
}
