/* SPDX-License-Identifier: Apache-2.0
 *
 * Open dims of the model: their symbols, and how rules compute with sizes that are not known.
 *
 * Outline: symbols · refusals · dims · values.
 */
#include "compiler/frontend/onnx/importer.h"
#include "compiler/ir/attributes.h"
#include "compiler/process/guard.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- symbols --------------------------------------------------------------------------------- */

void tsr_onnx_symbol(const char *name, char out_symbol[static TSR_DIM_SYMBOL_MAX + 1]) {
    size_t at = 0;
    if (!isalpha((unsigned char)name[0])) out_symbol[at++] = '_';
    for (; *name && at < TSR_DIM_SYMBOL_MAX - 1; name++) {
        bool fits = isascii((unsigned char)*name) &&
                    (isalnum((unsigned char)*name) || *name == '_' || *name == '.');
        out_symbol[at++] = fits ? *name : '_';
    }
    out_symbol[at] = 0;
    if (!tsr_dim_is_symbol(out_symbol, at)) /* the name of a function */
        snprintf(out_symbol + at, 2, "_");
}

bool tsr_onnx_open_dim(tsr_onnx_importer *im, const char *name, const tsr_dim_binding *binding,
                       uint64_t *out_dim) {
    char symbol[TSR_DIM_SYMBOL_MAX + 1];
    tsr_onnx_symbol(name, symbol);
    bool read = tsr_dim_read(tsr_attr_make_string(im->mlir, symbol), out_dim);
    TSR_ASSERT(read);
    for (size_t i = 0; i < im->symbol_count; i++) {
        const tsr_onnx_open_symbol *s = &im->symbols[i];
        if (strcmp(s->symbol, symbol) != 0) continue;
        if (strcmp(s->name, name) == 0) return true;
        tsr_diag_error(tsr_onnx_location(im, NULL), TSR_DIAG_ONNX_DIM,
                       "dims '%s' and '%s' would have one symbol, '%s'; give one of them a size",
                       s->name, name, symbol);
        return false;
    }
    tsr_onnx_grow(&im->arena, (void **)&im->symbols, im->symbol_count, &im->symbol_capacity,
                  sizeof *im->symbols);
    tsr_onnx_open_symbol *s = &im->symbols[im->symbol_count++];
    *s = (tsr_onnx_open_symbol){.symbol = tsr_arena_strdup(&im->arena, symbol),
                                .name = tsr_arena_strdup(&im->arena, name),
                                .range = {1, INT64_MAX}};
    TSR_NEED(s->symbol && s->name ? im : NULL);
    if (!binding) return true;
    s->range.low = (int64_t)(binding->low ? binding->low : binding->size);
    s->range.high = binding->sizes[binding->size_count - 1];
    return true;
}

MlirAttribute tsr_onnx_symbol_list(const tsr_onnx_importer *im) {
    MlirAttribute list[TSR_CONFIG_PORTS_MAX * TSR_RANK_MAX];
    for (size_t i = 0; i < im->symbol_count; i++)
        list[i] = tsr_attr_make_string(im->mlir, im->symbols[i].symbol);
    return mlirArrayAttrGet(im->mlir, (intptr_t)im->symbol_count, list);
}

void tsr_onnx_note_bounds(const tsr_onnx_importer *im) {
    MlirNamedAttribute bounds[TSR_CONFIG_PORTS_MAX * TSR_RANK_MAX];
    intptr_t count = 0;
    for (size_t i = 0; i < im->symbol_count; i++) {
        const tsr_onnx_open_symbol *s = &im->symbols[i];
        MlirAttribute values[] = {tsr_attr_make_i64(im->mlir, s->range.low),
                                  tsr_attr_make_i64(im->mlir, s->range.high)};
        if (s->range.high == INT64_MAX) continue; /* not limited */
        bounds[count++] = mlirNamedAttributeGet(mlirIdentifierGet(im->mlir, tsr_ref(s->symbol)),
                                                mlirArrayAttrGet(im->mlir, 2, values));
    }
    if (count)
        tsr_op_set(mlirModuleGetOperation(im->module), TSR_BOUNDS_NAME,
                   mlirDictionaryAttrGet(im->mlir, count, bounds));
}

static tsr_dim_range range_of_symbol(void *user, const char *symbol) {
    const tsr_onnx_importer *im = user;
    for (size_t i = 0; i < im->symbol_count; i++)
        if (strcmp(im->symbols[i].symbol, symbol) == 0) return im->symbols[i].range;
    return (tsr_dim_range){1, INT64_MAX};
}

tsr_dim_range tsr_onnx_range(const tsr_onnx_importer *im, const tsr_dim_expression *size) {
    return tsr_dim_expression_range(size, range_of_symbol, (void *)(uintptr_t)im);
}

/* ---- refusals -------------------------------------------------------------------------------- */

typedef struct first_symbol {
    const tsr_onnx_importer *im;
    const char *name; /* as --dim has it */
} first_symbol;

static void take_first(void *user, const char *symbol) {
    first_symbol *first = user;
    for (size_t i = 0; i < first->im->symbol_count && !first->name; i++)
        if (strcmp(first->im->symbols[i].symbol, symbol) == 0)
            first->name = first->im->symbols[i].name;
}

static const char *name_of(const tsr_onnx_importer *im, uint64_t dim) {
    first_symbol first = {.im = im};
    tsr_dim_symbols(dim, take_first, &first);
    return first.name ? first.name : "N";
}

bool tsr_onnx_fail_open(tsr_onnx_call *c, const char *what, uint64_t dim, const char *why) {
    char text[TSR_DIM_TEXT_MAX];
    const char *name = name_of(c->importer, dim);
    return tsr_onnx_fail(c, TSR_DIAG_ONNX_OPEN,
                         "%s is %s, and %s; give dim '%s' a size: --dim %s=SIZE", what,
                         tsr_dim_text(dim, text), why, name, name);
}

/* The first open dim of an input. */
static uint64_t find_open(const tsr_onnx_call *c, size_t *out_input, uint32_t *out_dim) {
    for (size_t i = 0; i < c->input_count; i++) {
        if (!tsr_onnx_has(c, i)) continue;
        tsr_type type = tsr_onnx_type_of(c->inputs[i]);
        for (uint32_t d = 0; d < type.shape.rank; d++)
            if (tsr_dim_is_open(type.shape.dims[d])) {
                *out_input = i;
                *out_dim = d;
                return type.shape.dims[d];
            }
    }
    return 0;
}

bool tsr_onnx_refuse_open_inputs(tsr_onnx_call *c) {
    char what[64];
    size_t input = 0;
    uint32_t at = 0;
    uint64_t dim = find_open(c, &input, &at);
    if (!dim) return true;
    snprintf(what, sizeof what, "dim %u of input %zu", at, input);
    return tsr_onnx_fail_open(c, what, dim, "this op is imported for known sizes only");
}

/* ---- dims ------------------------------------------------------------------------------------ */

bool tsr_onnx_known_dim(tsr_onnx_call *c, const char *what, MlirValue x, uint32_t dim,
                        uint64_t *out_size) {
    char words[96];
    *out_size = tsr_onnx_dim_of(x, dim);
    if (tsr_dim_is_known(*out_size)) return true;
    snprintf(words, sizeof words, "dim %u of %s", dim, what);
    return tsr_onnx_fail_open(c, words, *out_size, "the rule needs its size");
}

uint64_t tsr_onnx_times(tsr_onnx_call *c, uint64_t a, uint64_t b) {
    uint64_t product = 1;
    if (c->failed || tsr_dim_multiply(a, b, &product)) return product;
    tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "a dim has more than 2^63 elements, or is too long");
    return 1;
}

uint64_t tsr_onnx_volume(tsr_onnx_call *c, const tsr_shape *shape, uint32_t first, uint32_t end) {
    uint64_t product = 1;
    for (uint32_t i = first; i < end; i++)
        if (shape->dims[i] == 0) return 0;
    for (uint32_t i = first; i < end; i++) product = tsr_onnx_times(c, product, shape->dims[i]);
    return product;
}

bool tsr_onnx_make_dim(tsr_onnx_call *c, const char *what, const tsr_dim_expression *size,
                       uint64_t *out_dim) {
    int64_t number = 0;
    tsr_dim_range range = tsr_onnx_range(c->importer, size);
    bool is_number = tsr_dim_expression_is_number(size, &number);
    if (is_number && number < 0)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "%s is %" PRId64, what, number);
    if (tsr_dim_from_expression(c->builder->context, size, out_dim)) {
        if (range.low >= 0) return true;
        return tsr_onnx_fail_open(c, what, *out_dim, "it can be below 0");
    }
    return tsr_onnx_fail(c, TSR_DIAG_ONNX_OPEN,
                         "%s is below 0, or too long an expression over open dims; give them "
                         "sizes: --dim NAME=SIZE",
                         what);
}

/* ---- values ---------------------------------------------------------------------------------- */

MlirValue tsr_onnx_size_list(tsr_onnx_call *c, uint64_t count, const tsr_dim_expression *sizes) {
    MlirContext context = c->builder->context;
    tsr_type type = {.dtype = TSR_DTYPE_I64, .shape = {.rank = 1, .dims = {count}}};
    MlirAttribute *values = TSR_NEW(c->arena, MlirAttribute, (size_t)count + 1);
    TSR_NEED(values);
    for (uint64_t i = 0; i < count; i++) {
        int64_t number;
        uint64_t dim;
        if (tsr_dim_expression_is_number(&sizes[i], &number))
            values[i] = tsr_attr_make_i64(context, number);
        else if (tsr_dim_from_expression(context, &sizes[i], &dim))
            values[i] = tsr_dim_attr(context, dim);
        else
            return (MlirValue){NULL};
    }
    const tsr_attr attrs[] = {{"values", mlirArrayAttrGet(context, (intptr_t)count, values)}, {0}};
    return tsr_onnx_emit(c, TSR_GRAPH_NAME("sizes"), NULL, 0, attrs, &type);
}

MlirValue tsr_onnx_dim_number(tsr_onnx_call *c, MlirValue like, uint64_t dim) {
    if (c->failed || tsr_dim_is_known(dim)) return tsr_onnx_number(c, like, (double)dim);
    tsr_dim_expression size = tsr_dim_to_expression(c->arena, dim);
    MlirValue list = tsr_onnx_size_list(c, 1, &size);
    return tsr_onnx_cast(c, tsr_onnx_reshape(c, list, &(tsr_shape){.rank = 0}),
                         tsr_onnx_dtype(like));
}
