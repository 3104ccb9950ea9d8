/* SPDX-License-Identifier: Apache-2.0
 *
 * A text with a line for each node, which diagnostics quote:
 *
 *     conv1 = Conv(x, w, b) {strides = [2, 2], pads = [1, 1, 1, 1]}
 */
#include "compiler/frontend/onnx/importer.h"

#include <inttypes.h>
#include <string.h>

enum { LISTED_MAX = 8 };

typedef struct listing {
    tsr_buffer *out;
    uint32_t line;
} listing;

static void list_names(tsr_buffer *out, tsr_wire_list names) {
    for (size_t i = 0; i < names.count; i++) {
        if (i) tsr_buffer_text(out, ", ");
        if (i == LISTED_MAX) {
            tsr_buffer_text(out, "…");
            return;
        }
        tsr_buffer_text(out, TSR_ONNX_TEXT(names, i));
    }
}

static void list_value(tsr_buffer *out, const tsr_onnx_attribute *a) {
    switch (a->type) {
    case TSR_ONNX_ATTRIBUTE_FLOAT:
        tsr_buffer_printf(out, "%g", (double)a->f);
        break;
    case TSR_ONNX_ATTRIBUTE_INT:
        tsr_buffer_printf(out, "%" PRId64, a->i);
        break;
    case TSR_ONNX_ATTRIBUTE_STRING:
        tsr_buffer_text(out, "\"");
        tsr_buffer_append(out, a->s.bytes, a->s.size_bytes);
        tsr_buffer_text(out, "\"");
        break;
    case TSR_ONNX_ATTRIBUTE_INTS:
        tsr_buffer_text(out, "[");
        for (size_t i = 0; i < a->ints.count && i < LISTED_MAX; i++)
            tsr_buffer_printf(out, "%s%" PRId64, i ? ", " : "", TSR_ONNX_INT(a->ints, i));
        tsr_buffer_text(out, a->ints.count > LISTED_MAX ? ", …]" : "]");
        break;
    default:
        tsr_buffer_text(out, "…");
    }
}

static void list_node(listing *l, tsr_onnx_node *node) {
    tsr_buffer line = {0};
    list_names(&line, node->outputs);
    tsr_buffer_printf(&line, " = %s(", node->op_type);
    list_names(&line, node->inputs);
    tsr_buffer_text(&line, ")");
    for (size_t i = 0; i < node->attributes.count; i++) {
        const tsr_onnx_attribute *a = TSR_ONNX_ITEM(node->attributes, tsr_onnx_attribute, i);
        tsr_buffer_printf(&line, "%s%s = ", i ? ", " : " {", a->name);
        list_value(&line, a);
    }
    if (node->attributes.count) tsr_buffer_text(&line, "}");
    for (size_t i = 0; i < line.size_bytes; i++)
        if ((unsigned char)line.bytes[i] < ' ') line.bytes[i] = ' ';
    tsr_buffer_append(l->out, line.bytes, line.size_bytes);
    tsr_buffer_text(l->out, "\n");
    tsr_buffer_finish(&line);
    node->line = ++l->line;
}

static void list_all(listing *l, tsr_wire_list nodes) {
    for (size_t i = 0; i < nodes.count; i++) {
        tsr_onnx_node *node = &((tsr_onnx_node *)nodes.items)[i];
        list_node(l, node);
        for (size_t k = 0; k < node->attributes.count; k++) {
            const tsr_onnx_attribute *a = TSR_ONNX_ITEM(node->attributes, tsr_onnx_attribute, k);
            if (a->g) list_all(l, a->g->nodes); /* as deep as the wire reader allows */
        }
    }
}

void tsr_onnx_list_nodes(const tsr_onnx_model *model, tsr_buffer *out) {
    listing l = {.out = out};
    list_all(&l, model->graph->nodes);
    for (size_t i = 0; i < model->functions.count; i++)
        list_all(&l, TSR_ONNX_ITEM(model->functions, tsr_onnx_function, i)->nodes);
}

MlirLocation tsr_onnx_location(const tsr_onnx_importer *im, const tsr_onnx_node *node) {
    return mlirLocationFileLineColGet(im->mlir, tsr_ref(im->file_name), node ? node->line : 0,
                                      node ? 1 : 0);
}
