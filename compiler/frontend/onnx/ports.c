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

/* The name by which --dim gives a dim its size. */
static void name_dim(const tsr_onnx_value_info *info, const tsr_onnx_dim *dim, size_t index,
                     char *out, size_t size) {
    if (dim->param[0])
        snprintf(out, size, "%s", dim->param);
    else
        snprintf(out, size, "%s:%zu", info->name, index);
}

static bool is_open(const tsr_onnx_dim *dim) { return !dim->has_value || dim->value < 0; }

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
            name_dim(info, dim, k, name, sizeof name);
            if (is_open(dim) && strcmp(name, symbol) == 0)
                tsr_buffer_printf(out, "%s'%s' (dim %zu)", out->size_bytes ? ", " : "", info->name,
                                  k);
        }
    }
}

static bool refuse_open(const tsr_onnx_importer *im, const char *name) {
    tsr_buffer inputs = {0};
    list_inputs(im, name, &inputs);
    tsr_diag_error(tsr_onnx_location(im, NULL), TSR_DIAG_ONNX_DIM,
                   "dim '%s' has no size; inputs that have it: %s. Give its size: --dim %s=N", name,
                   inputs.bytes ? inputs.bytes : "", name);
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

bool tsr_onnx_input_type(const tsr_onnx_importer *im, const tsr_onnx_value_info *info,
                         tsr_type *out_type) {
    const tsr_onnx_tensor_type *from = tensor_type(info);
    tsr_type type = {.dtype = TSR_DTYPE_NONE};
    uint64_t count = 0;
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
    for (size_t i = 0; i < from->shape->dims.count; i++) {
        const tsr_onnx_dim *dim = TSR_ONNX_ITEM(from->shape->dims, tsr_onnx_dim, i);
        char name[TSR_NAME_MAX + 32];
        name_dim(info, dim, i, name, sizeof name);
        const tsr_dim_binding *binding = is_open(dim) ? find_binding(im, name) : NULL;
        if (is_open(dim) && !binding) return refuse_open(im, name);
        type.shape.dims[type.shape.rank++] = binding ? binding->size : (uint64_t)dim->value;
    }
    if (!tsr_shape_count(&type.shape, &count)) {
        tsr_diag_error(tsr_onnx_location(im, NULL), TSR_DIAG_ONNX_SHAPE,
                       "input '%s' has more than 2^63 elements", info->name);
        return false;
    }
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
        if (im->options->bindings[i].size_count > 1)
            FAIL(im->ctx, TSR_USAGE,
                 "dim '%s' has %zu sizes; expected one, because the shapes of an ONNX model are "
                 "computed when it is imported",
                 symbol, im->options->bindings[i].size_count);
        if (!found)
            FAIL(im->ctx, TSR_USAGE,
                 "--dim %s=%" PRIu64 ": no open dim of an input of '%s' has "
                 "this name",
                 symbol, im->options->bindings[i].size, im->file_name);
    }
    return TSR_SUCCESS;
}
