/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs of the model: their types, and the sizes that the caller gives for open dims.
 */
#include "compiler/frontend/onnx/importer.h"
#include "manifests/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool tsr_onnx_is_initialized(const tsr_onnx_graph *graph, const char *name) {
    for (size_t i = 0; i < graph->initializers.count; i++)
        if (strcmp(TSR_ONNX_ITEM(graph->initializers, tsr_onnx_tensor, i)->name, name) == 0)
            return true;
    return false;
}

bool tsr_onnx_refuse_count(const tsr_onnx_importer *im, size_t count) {
    tsr_diag_error(tsr_onnx_location(im, NULL), TSR_DIAG_ONNX_FORM,
                   "the model has %zu inputs; an entry has at most %d", count,
                   TSR_CONFIG_PORTS_MAX);
    return false;
}

void tsr_onnx_name_dim(const tsr_onnx_value_info *info, const tsr_onnx_dim *dim, size_t index,
                       char *out, size_t size) {
    if (dim->param[0])
        snprintf(out, size, "%s", dim->param);
    else
        snprintf(out, size, "%s:%zu", info->name, index);
}

bool tsr_onnx_dim_is_open(const tsr_onnx_dim *dim) { return !dim->has_value || dim->value < 0; }

static const tsr_dim_binding *find_binding(const tsr_onnx_importer *im, const char *name) {
    for (size_t i = 0; i < im->options->binding_count; i++)
        if (strcmp(im->options->bindings[i].symbol, name) == 0) return &im->options->bindings[i];
    return NULL;
}

static const tsr_onnx_tensor_type *tensor_type(const tsr_onnx_value_info *info) {
    return info->type ? info->type->tensor : NULL;
}

/* Appends "'x' (dim 0), 'y' (dim 1)": every input that has the symbol. */
static void list_inputs(const tsr_onnx_importer *im, const char *symbol, tsr_buffer *out) {
    tsr_wire_list inputs = im->model->graph->inputs;
    for (size_t i = 0; i < inputs.count; i++) {
        const tsr_onnx_value_info *info = TSR_ONNX_ITEM(inputs, tsr_onnx_value_info, i);
        const tsr_onnx_tensor_type *type = tensor_type(info);
        for (size_t k = 0; type && type->shape && k < type->shape->dims.count; k++) {
            char name[TSR_NAME_MAX + 32];
            const tsr_onnx_dim *dim = TSR_ONNX_ITEM(type->shape->dims, tsr_onnx_dim, k);
            tsr_onnx_name_dim(info, dim, k, name, sizeof name);
            if (tsr_onnx_dim_is_open(dim) && strcmp(name, symbol) == 0)
                tsr_buffer_printf(out, "%s'%s' (dim %zu)", out->size_bytes ? ", " : "", info->name,
                                  k);
        }
    }
}

static bool refuse_open(const tsr_onnx_importer *im, const char *name) {
    tsr_buffer inputs = {0};
    list_inputs(im, name, &inputs);
    tsr_diag_error(tsr_onnx_location(im, NULL), TSR_DIAG_ONNX_DIM,
                   "dim '%s' has no size; inputs that have it: %s. Give its size: --dim %s=SIZE",
                   name, inputs.bytes ? inputs.bytes : "", name);
    tsr_buffer_finish(&inputs);
    return false;
}

static bool refuse_form(const tsr_onnx_importer *im, const tsr_onnx_value_info *info) {
    const tsr_onnx_type *t = info->type;
    const char *form = !t                  ? "no type"
                       : t->sequence.bytes ? "a sequence"
                       : t->map.bytes      ? "a map"
                       : t->optional.bytes ? "an optional value"
                       : t->sparse.bytes   ? "a sparse tensor"
                                           : "no type";
    tsr_diag_error(tsr_onnx_location(im, NULL), TSR_DIAG_ONNX_FORM,
                   "input '%s' is %s; an entry takes tensors of known rank", info->name,
                   t && t->tensor ? "a tensor without a shape" : form);
    return false;
}

/* ---- sizes of dims --------------------------------------------------------------------------- */

/* True if the sizes are given when the program is built or called, not here. */
static bool stays_open(const tsr_onnx_importer *im, const tsr_dim_binding *binding) {
    return binding ? binding->low || binding->size_count > 1 : im->options->dims_stay_open;
}

/* The symbols of an expression such as "past + length", which some exporters write. */
typedef struct parts {
    tsr_onnx_importer *im;
    bool fits; /* all are dims of inputs, and stay open */
} parts;

static void check_part(void *user, const char *symbol) {
    parts *p = user;
    tsr_buffer inputs = {0};
    list_inputs(p->im, symbol, &inputs);
    p->fits = p->fits && inputs.size_bytes && stays_open(p->im, find_binding(p->im, symbol));
    tsr_buffer_finish(&inputs);
}

/* True for the name of a dim that is computed from dims that stay open. */
static bool read_expression(tsr_onnx_importer *im, const char *name, uint64_t *out_dim) {
    parts p = {.im = im, .fits = true};
    uint64_t dim;
    if (!tsr_dim_read(tsr_attr_make_string(im->mlir, name), &dim) || tsr_dim_symbol(dim) ||
        !tsr_dim_is_open(dim))
        return false;
    tsr_dim_symbols(dim, check_part, &p);
    if (p.fits) *out_dim = dim;
    return p.fits;
}

static bool read_dim(tsr_onnx_importer *im, const tsr_onnx_value_info *info, size_t index,
                     uint64_t *out_dim) {
    const tsr_onnx_dim *dim = TSR_ONNX_ITEM(tensor_type(info)->shape->dims, tsr_onnx_dim, index);
    char name[TSR_NAME_MAX + 32];
    *out_dim = (uint64_t)dim->value;
    if (!tsr_onnx_dim_is_open(dim)) return true;
    tsr_onnx_name_dim(info, dim, index, name, sizeof name);
    const tsr_dim_binding *binding = find_binding(im, name);
    if (!binding && read_expression(im, name, out_dim)) return true;
    if (stays_open(im, binding)) return tsr_onnx_open_dim(im, name, binding, out_dim);
    if (!binding) return refuse_open(im, name);
    *out_dim = binding->size;
    return true;
}

static bool check_count(const tsr_onnx_importer *im, const char *name, const tsr_shape *shape) {
    tsr_shape known = {.rank = 0};
    uint64_t count = 0;
    for (uint32_t i = 0; i < shape->rank; i++)
        if (tsr_dim_is_known(shape->dims[i])) known.dims[known.rank++] = shape->dims[i];
    if (tsr_shape_count(&known, &count)) return true;
    tsr_diag_error(tsr_onnx_location(im, NULL), TSR_DIAG_ONNX_SHAPE,
                   "input '%s' has more than 2^63 elements", name);
    return false;
}

bool tsr_onnx_input_type(tsr_onnx_importer *im, const tsr_onnx_value_info *info,
                         tsr_type *out_type) {
    const tsr_onnx_tensor_type *from = tensor_type(info);
    tsr_type type = {.dtype = TSR_DTYPE_NONE};
    if (!from || !from->shape) return refuse_form(im, info);
    type.dtype = tsr_onnx_type_dtype(from->elem_type);
    if (type.dtype == TSR_DTYPE_NONE) {
        tsr_diag_error(tsr_onnx_location(im, NULL), TSR_DIAG_ONNX_TYPE,
                       "input '%s' has elements of type %s (number %" PRId64
                       "); the types of the language are %s",
                       info->name, tsr_onnx_type_name(from->elem_type), from->elem_type,
                       tsr_dtype_names());
        return false;
    }
    if (from->shape->dims.count > TSR_RANK_MAX) {
        tsr_diag_error(tsr_onnx_location(im, NULL), TSR_DIAG_ONNX_SHAPE,
                       "input '%s' has %zu dims; a tensor has at most %d", info->name,
                       from->shape->dims.count, TSR_RANK_MAX);
        return false;
    }
    type.shape.rank = (uint32_t)from->shape->dims.count;
    for (uint32_t i = 0; i < type.shape.rank; i++)
        if (!read_dim(im, info, i, &type.shape.dims[i])) return false;
    if (!check_count(im, info->name, &type.shape)) return false;
    *out_type = type;
    return true;
}

tsr_result tsr_onnx_check_bindings(const tsr_onnx_importer *im) {
    for (size_t i = 0; i < im->options->binding_count; i++) {
        const char *symbol = im->options->bindings[i].symbol;
        tsr_buffer inputs = {0};
        list_inputs(im, symbol, &inputs);
        bool found = inputs.size_bytes > 0;
        tsr_buffer_finish(&inputs);
        if (im->options->training && stays_open(im, &im->options->bindings[i]))
            FAIL(im->ctx, TSR_USAGE,
                 "dim '%s' has several sizes; expected one, because the model is trained", symbol);
        if (!found)
            FAIL(im->ctx, TSR_USAGE,
                 "--dim %s=%" PRIu64 ": no open dim of an input of '%s' has "
                 "this name",
                 symbol, im->options->bindings[i].size, im->file_name);
    }
    return TSR_SUCCESS;
}
