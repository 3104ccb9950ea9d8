/* SPDX-License-Identifier: Apache-2.0
 *
 * What rules write: nodes, their attributes, initializers. Field numbers are those of onnx.proto.
 */
#include "compiler/frontend/onnx/export/exporter.h"
#include "compiler/frontend/onnx/tensor.h"
#include "compiler/process/guard.h"

#include <string.h>

enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5 };

/* ---- nodes ---- */

static void begin_node(tsr_buffer *node, const char *op, size_t count, const char *const *inputs) {
    while (count && !inputs[count - 1][0]) count--; /* those at the end may be left out */
    for (size_t i = 0; i < count; i++) tsr_proto_text(node, NODE_INPUT, inputs[i]);
    tsr_proto_text(node, NODE_OP, op);
}

static void end_node(tsr_exporter *x, tsr_buffer *node, tsr_buffer *attrs) {
    if (attrs && attrs->bytes) tsr_buffer_append(node, attrs->bytes, attrs->size_bytes);
    if (attrs) node->failed = node->failed || attrs->failed;
    tsr_buffer_finish(attrs);
    tsr_proto_message(&x->nodes, GRAPH_NODE, node);
}

const char *tsr_export_node(tsr_exporter *x, const char *op, size_t count,
                            const char *const *inputs, tsr_buffer *attrs) {
    tsr_buffer node = {0};
    const char *output = tsr_export_fresh(x);
    begin_node(&node, op, count, inputs);
    tsr_proto_text(&node, NODE_OUTPUT, output);
    end_node(x, &node, attrs);
    return output;
}

void tsr_export_results(tsr_exporter *x, MlirOperation op, const char *name, size_t count,
                        const char *const *inputs, tsr_buffer *attrs) {
    tsr_buffer node = {0};
    begin_node(&node, name, count, inputs);
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        const char *output = tsr_export_result_name(x, tsr_op_result(op, i));
        tsr_export_bind(x, tsr_op_result(op, i), output);
        tsr_proto_text(&node, NODE_OUTPUT, output);
    }
    end_node(x, &node, attrs);
}

const char *tsr_export_moved(tsr_exporter *x, const char *value, size_t rank,
                             const int64_t *permutation) {
    tsr_buffer attrs = {0};
    tsr_export_attr_ints(&attrs, "perm", rank, permutation);
    return tsr_export_node(x, "Transpose", 1, &value, &attrs);
}

void tsr_export_copy(tsr_exporter *x, const char *from, const char *name) {
    tsr_buffer node = {0};
    begin_node(&node, "Identity", 1, &from);
    tsr_proto_text(&node, NODE_OUTPUT, name);
    end_node(x, &node, NULL);
}

/* ---- attributes ---- */

static void add_attr(tsr_buffer *attrs, const char *name, int64_t type, tsr_buffer *value) {
    tsr_buffer attr = {0};
    tsr_proto_text(&attr, ATTR_NAME, name);
    if (value->bytes) tsr_buffer_append(&attr, value->bytes, value->size_bytes);
    tsr_proto_int(&attr, ATTR_TYPE, type);
    tsr_buffer_finish(value);
    tsr_proto_message(attrs, NODE_ATTRIBUTE, &attr);
}

void tsr_export_attr_int(tsr_buffer *attrs, const char *name, int64_t value) {
    tsr_buffer field = {0};
    tsr_proto_int(&field, ATTR_I, value);
    add_attr(attrs, name, TYPE_INT, &field);
}

void tsr_export_attr_ints(tsr_buffer *attrs, const char *name, size_t count,
                          const int64_t *values) {
    tsr_buffer field = {0};
    for (size_t i = 0; i < count; i++) tsr_proto_int(&field, ATTR_INTS, values[i]);
    add_attr(attrs, name, TYPE_INTS, &field);
}

void tsr_export_attr_float(tsr_buffer *attrs, const char *name, double value) {
    tsr_buffer field = {0};
    tsr_proto_float(&field, ATTR_F, (float)value);
    add_attr(attrs, name, TYPE_FLOAT, &field);
}

void tsr_export_attr_text(tsr_buffer *attrs, const char *name, const char *value) {
    tsr_buffer field = {0};
    tsr_proto_text(&field, ATTR_S, value);
    add_attr(attrs, name, TYPE_STRING, &field);
}

/* ---- initializers ---- */

const char *tsr_export_tensor(tsr_exporter *x, const tsr_type *type, const void *data) {
    tsr_buffer tensor = {0};
    const char *name = tsr_export_fresh(x);
    uint64_t size_bytes = 0;
    bool fits = tsr_shape_size(&type->shape, type->dtype, &size_bytes);
    TSR_ASSERT(fits);
    for (uint32_t i = 0; i < type->shape.rank; i++)
        tsr_proto_int(&tensor, TENSOR_DIMS, (int64_t)type->shape.dims[i]);
    tsr_proto_int(&tensor, TENSOR_TYPE, tsr_onnx_type_of_dtype(type->dtype));
    tsr_proto_text(&tensor, TENSOR_NAME, name);
    tsr_proto_bytes(&tensor, TENSOR_RAW, data, (size_t)size_bytes);
    tsr_proto_message(&x->constants, GRAPH_INITIALIZER, &tensor);
    return name;
}

const char *tsr_export_ints(tsr_exporter *x, size_t count, const int64_t *values) {
    tsr_type type = {.dtype = TSR_DTYPE_I64, .shape = {.rank = 1, .dims = {count}}};
    return tsr_export_tensor(x, &type, values);
}

const char *tsr_export_number(tsr_exporter *x, const tsr_shape *shape, tsr_dtype dtype,
                              double value) {
    tsr_type type = {.dtype = dtype, .shape = *shape};
    uint64_t count = 0;
    bool fits = tsr_shape_count(shape, &count);
    TSR_ASSERT(fits);
    void *data = tsr_arena_alloc(&x->arena, (size_t)count + 1, tsr_dtype_size(dtype), 16);
    TSR_NEED(data);
    for (uint64_t i = 0; i < count; i++) tsr_dtype_write(dtype, value, data, i);
    return tsr_export_tensor(x, &type, data);
}
