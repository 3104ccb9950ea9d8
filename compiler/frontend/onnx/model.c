/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of onnx.proto as tables of fields.
 */
#include "compiler/frontend/onnx/model.h"

#include "runtime/base/array.h"

#include <string.h>

#define FIELD(number, kind, type, member, ...)                                                     \
    { number, TSR_WIRE_##kind, offsetof(type, member), __VA_ARGS__ }
#define MESSAGE(name, type, fields)                                                                \
    { name, sizeof(type), TSR_COUNT(fields), fields }

static const tsr_wire_field pair_fields[] = {
    FIELD(1, TEXT, tsr_onnx_pair, key, NULL, 0),
    FIELD(2, TEXT, tsr_onnx_pair, value, NULL, 0),
};
static const tsr_wire_message pair = MESSAGE("StringStringEntryProto", tsr_onnx_pair, pair_fields);

static const tsr_wire_field opset_fields[] = {
    FIELD(1, TEXT, tsr_onnx_opset, domain, NULL, 0),
    FIELD(2, INT, tsr_onnx_opset, version, NULL, 0),
};
static const tsr_wire_message opset = MESSAGE("OperatorSetIdProto", tsr_onnx_opset, opset_fields);

static const tsr_wire_field tensor_fields[] = {
    FIELD(1, INTS, tsr_onnx_tensor, dims, NULL, 0),
    FIELD(2, INT, tsr_onnx_tensor, data_type, NULL, 0),
    FIELD(3, BYTES, tsr_onnx_tensor, segment, NULL, offsetof(tsr_onnx_tensor, has_segment)),
    FIELD(4, F32S, tsr_onnx_tensor, float_data, NULL, 0),
    FIELD(5, INTS, tsr_onnx_tensor, int32_data, NULL, 0),
    FIELD(6, SPANS, tsr_onnx_tensor, string_data, NULL, 0),
    FIELD(7, INTS, tsr_onnx_tensor, int64_data, NULL, 0),
    FIELD(8, TEXT, tsr_onnx_tensor, name, NULL, 0),
    FIELD(9, BYTES, tsr_onnx_tensor, raw_data, NULL, 0),
    FIELD(10, F64S, tsr_onnx_tensor, double_data, NULL, 0),
    FIELD(11, INTS, tsr_onnx_tensor, uint64_data, NULL, 0),
    FIELD(13, MESSAGES, tsr_onnx_tensor, external_data, &pair, 0),
    FIELD(14, INT, tsr_onnx_tensor, data_location, NULL, 0),
};
static const tsr_wire_message tensor = MESSAGE("TensorProto", tsr_onnx_tensor, tensor_fields);

static const tsr_wire_field dim_fields[] = {
    FIELD(1, INT, tsr_onnx_dim, value, NULL, offsetof(tsr_onnx_dim, has_value)),
    FIELD(2, TEXT, tsr_onnx_dim, param, NULL, 0),
};
static const tsr_wire_message dim = MESSAGE("TensorShapeProto.Dimension", tsr_onnx_dim, dim_fields);

static const tsr_wire_field shape_fields[] = {
    FIELD(1, MESSAGES, tsr_onnx_shape, dims, &dim, 0),
};
static const tsr_wire_message shape = MESSAGE("TensorShapeProto", tsr_onnx_shape, shape_fields);

static const tsr_wire_field tensor_type_fields[] = {
    FIELD(1, INT, tsr_onnx_tensor_type, elem_type, NULL, 0),
    FIELD(2, MESSAGE, tsr_onnx_tensor_type, shape, &shape, 0),
};
static const tsr_wire_message tensor_type =
    MESSAGE("TypeProto.Tensor", tsr_onnx_tensor_type, tensor_type_fields);

static const tsr_wire_field type_fields[] = {
    FIELD(1, MESSAGE, tsr_onnx_type, tensor, &tensor_type, 0),
    FIELD(4, BYTES, tsr_onnx_type, sequence, NULL, 0),
    FIELD(5, BYTES, tsr_onnx_type, map, NULL, 0),
    FIELD(8, BYTES, tsr_onnx_type, sparse, NULL, 0),
    FIELD(9, BYTES, tsr_onnx_type, optional, NULL, 0),
};
static const tsr_wire_message type = MESSAGE("TypeProto", tsr_onnx_type, type_fields);

static const tsr_wire_field value_info_fields[] = {
    FIELD(1, TEXT, tsr_onnx_value_info, name, NULL, 0),
    FIELD(2, MESSAGE, tsr_onnx_value_info, type, &type, 0),
};
static const tsr_wire_message value_info =
    MESSAGE("ValueInfoProto", tsr_onnx_value_info, value_info_fields);

static const tsr_wire_message graph; /* attributes hold graphs, whose nodes have attributes */

static const tsr_wire_field attribute_fields[] = {
    FIELD(1, TEXT, tsr_onnx_attribute, name, NULL, 0),
    FIELD(2, F32, tsr_onnx_attribute, f, NULL, 0),
    FIELD(3, INT, tsr_onnx_attribute, i, NULL, 0),
    FIELD(4, BYTES, tsr_onnx_attribute, s, NULL, 0),
    FIELD(5, MESSAGE, tsr_onnx_attribute, t, &tensor, 0),
    FIELD(6, MESSAGE, tsr_onnx_attribute, g, &graph, 0),
    FIELD(7, F32S, tsr_onnx_attribute, floats, NULL, 0),
    FIELD(8, INTS, tsr_onnx_attribute, ints, NULL, 0),
    FIELD(9, SPANS, tsr_onnx_attribute, strings, NULL, 0),
    FIELD(20, INT, tsr_onnx_attribute, type, NULL, 0),
    FIELD(21, TEXT, tsr_onnx_attribute, ref_attr_name, NULL, 0),
};
static const tsr_wire_message attribute =
    MESSAGE("AttributeProto", tsr_onnx_attribute, attribute_fields);

static const tsr_wire_field node_fields[] = {
    FIELD(1, TEXTS, tsr_onnx_node, inputs, NULL, 0),
    FIELD(2, TEXTS, tsr_onnx_node, outputs, NULL, 0),
    FIELD(3, TEXT, tsr_onnx_node, name, NULL, 0),
    FIELD(4, TEXT, tsr_onnx_node, op_type, NULL, 0),
    FIELD(5, MESSAGES, tsr_onnx_node, attributes, &attribute, 0),
    FIELD(7, TEXT, tsr_onnx_node, domain, NULL, 0),
    FIELD(8, TEXT, tsr_onnx_node, overload, NULL, 0),
};
static const tsr_wire_message node = MESSAGE("NodeProto", tsr_onnx_node, node_fields);

static const tsr_wire_field graph_fields[] = {
    FIELD(1, MESSAGES, tsr_onnx_graph, nodes, &node, 0),
    FIELD(2, TEXT, tsr_onnx_graph, name, NULL, 0),
    FIELD(5, MESSAGES, tsr_onnx_graph, initializers, &tensor, 0),
    FIELD(11, MESSAGES, tsr_onnx_graph, inputs, &value_info, 0),
    FIELD(12, MESSAGES, tsr_onnx_graph, outputs, &value_info, 0),
    FIELD(15, SPANS, tsr_onnx_graph, sparse, NULL, 0),
};
static const tsr_wire_message graph = MESSAGE("GraphProto", tsr_onnx_graph, graph_fields);

static const tsr_wire_field function_fields[] = {
    FIELD(1, TEXT, tsr_onnx_function, name, NULL, 0),
    FIELD(4, TEXTS, tsr_onnx_function, inputs, NULL, 0),
    FIELD(5, TEXTS, tsr_onnx_function, outputs, NULL, 0),
    FIELD(6, TEXTS, tsr_onnx_function, attributes, NULL, 0),
    FIELD(7, MESSAGES, tsr_onnx_function, nodes, &node, 0),
    FIELD(9, MESSAGES, tsr_onnx_function, opsets, &opset, 0),
    FIELD(10, TEXT, tsr_onnx_function, domain, NULL, 0),
    FIELD(11, MESSAGES, tsr_onnx_function, defaults, &attribute, 0),
    FIELD(13, TEXT, tsr_onnx_function, overload, NULL, 0),
};
static const tsr_wire_message function =
    MESSAGE("FunctionProto", tsr_onnx_function, function_fields);

static const tsr_wire_field model_fields[] = {
    FIELD(1, INT, tsr_onnx_model, ir_version, NULL, 0),
    FIELD(2, TEXT, tsr_onnx_model, producer_name, NULL, 0),
    FIELD(3, TEXT, tsr_onnx_model, producer_version, NULL, 0),
    FIELD(7, MESSAGE, tsr_onnx_model, graph, &graph, 0),
    FIELD(8, MESSAGES, tsr_onnx_model, opsets, &opset, 0),
    FIELD(25, MESSAGES, tsr_onnx_model, functions, &function, 0),
};
static const tsr_wire_message model = MESSAGE("ModelProto", tsr_onnx_model, model_fields);

tsr_result tsr_onnx_model_read(tsr_ctx *ctx, const void *bytes, size_t size_bytes, tsr_arena *arena,
                               tsr_onnx_model *out_model) {
    tsr_onnx_model read;
    if (size_bytes == 0) FAIL(ctx, TSR_COMPILE, "the file is empty");
    TRY(ctx, tsr_wire_read(ctx, arena, &model, (tsr_wire_span){bytes, size_bytes}, &read));
    if (!read.graph) FAIL(ctx, TSR_COMPILE, "the file has no graph");
    if (read.opsets.count == 0) FAIL(ctx, TSR_COMPILE, "the file names no opset");
    *out_model = read;
    return TSR_SUCCESS;
}

bool tsr_onnx_is_default_domain(const char *domain) {
    return domain[0] == 0 || strcmp(domain, "ai.onnx") == 0;
}

int64_t tsr_onnx_opset_version(tsr_wire_list opsets, const char *domain) {
    bool is_default = tsr_onnx_is_default_domain(domain);
    for (size_t i = 0; i < opsets.count; i++) {
        const tsr_onnx_opset *o = TSR_ONNX_ITEM(opsets, tsr_onnx_opset, i);
        bool same =
            is_default ? tsr_onnx_is_default_domain(o->domain) : strcmp(o->domain, domain) == 0;
        if (same) return o->version;
    }
    return 0;
}
