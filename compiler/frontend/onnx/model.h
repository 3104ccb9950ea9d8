/* SPDX-License-Identifier: Apache-2.0
 *
 * An ONNX model as it is in its file. Names are copies in the arena; the elements of tensors stay
 * where they are in the mapped file. Field numbers: onnx.proto of onnx 1.23 (IR version 14).
 */
#ifndef TSR_COMPILER_ONNX_MODEL_H
#define TSR_COMPILER_ONNX_MODEL_H

#include "compiler/frontend/onnx/wire.h"

/* Lists of the structs below: `items` has this type. */
#define TSR_ONNX_ITEM(list, type, index) (&((const type *)(list).items)[index])
#define TSR_ONNX_TEXT(list, index) (((const char *const *)(list).items)[index])
#define TSR_ONNX_INT(list, index) (((const int64_t *)(list).items)[index])
#define TSR_ONNX_F32(list, index) (((const float *)(list).items)[index])

typedef struct tsr_onnx_pair {
    const char *key, *value;
} tsr_onnx_pair;

typedef struct tsr_onnx_opset {
    const char *domain; /* "": ONNX's own */
    int64_t version;
} tsr_onnx_opset;

typedef struct tsr_onnx_tensor {
    const char *name;
    tsr_wire_list dims; /* int64_t */
    int64_t data_type;  /* a number of types.def */
    tsr_wire_span raw_data;
    tsr_wire_list float_data, int32_data, int64_data, double_data, uint64_data, string_data;
    tsr_wire_list external_data; /* tsr_onnx_pair */
    int64_t data_location;       /* 1: external */
    bool has_segment;
    tsr_wire_span segment;
} tsr_onnx_tensor;

typedef struct tsr_onnx_dim {
    int64_t value;
    const char *param; /* "": no symbol */
    bool has_value;
} tsr_onnx_dim;

typedef struct tsr_onnx_shape {
    tsr_wire_list dims; /* tsr_onnx_dim */
} tsr_onnx_shape;

typedef struct tsr_onnx_tensor_type {
    int64_t elem_type;
    const tsr_onnx_shape *shape; /* NULL: the rank is not known */
} tsr_onnx_tensor_type;

/* One of them is there, or none. */
typedef struct tsr_onnx_type {
    const tsr_onnx_tensor_type *tensor;
    tsr_wire_span sequence, map, optional, sparse;
} tsr_onnx_type;

typedef struct tsr_onnx_value_info {
    const char *name;
    const tsr_onnx_type *type; /* NULL: not said */
} tsr_onnx_value_info;

/* AttributeProto.AttributeType */
typedef enum tsr_onnx_attribute_type {
    TSR_ONNX_ATTRIBUTE_UNDEFINED = 0,
    TSR_ONNX_ATTRIBUTE_FLOAT = 1,
    TSR_ONNX_ATTRIBUTE_INT = 2,
    TSR_ONNX_ATTRIBUTE_STRING = 3,
    TSR_ONNX_ATTRIBUTE_TENSOR = 4,
    TSR_ONNX_ATTRIBUTE_GRAPH = 5,
    TSR_ONNX_ATTRIBUTE_FLOATS = 6,
    TSR_ONNX_ATTRIBUTE_INTS = 7,
    TSR_ONNX_ATTRIBUTE_STRINGS = 8,
} tsr_onnx_attribute_type;

struct tsr_onnx_graph;
typedef struct tsr_onnx_attribute {
    const char *name, *ref_attr_name; /* "": not a reference to an attribute of the function */
    int64_t type;                     /* tsr_onnx_attribute_type */
    float f;
    int64_t i;
    tsr_wire_span s;
    const tsr_onnx_tensor *t;
    const struct tsr_onnx_graph *g;
    tsr_wire_list floats, ints, strings; /* float, int64_t, tsr_wire_span */
} tsr_onnx_attribute;

typedef struct tsr_onnx_node {
    const char *name, *op_type, *domain, *overload;
    tsr_wire_list inputs, outputs; /* names; "": absent */
    tsr_wire_list attributes;      /* tsr_onnx_attribute */
    uint32_t line;                 /* not of the file: in the listing of the importer, from 1 */
} tsr_onnx_node;

typedef struct tsr_onnx_graph {
    const char *name;
    tsr_wire_list nodes;           /* tsr_onnx_node */
    tsr_wire_list initializers;    /* tsr_onnx_tensor */
    tsr_wire_list sparse;          /* tsr_wire_span */
    tsr_wire_list inputs, outputs; /* tsr_onnx_value_info */
} tsr_onnx_graph;

typedef struct tsr_onnx_function {
    const char *name, *domain, *overload;
    tsr_wire_list inputs, outputs, attributes; /* names */
    tsr_wire_list defaults;                    /* tsr_onnx_attribute */
    tsr_wire_list nodes;                       /* tsr_onnx_node */
    tsr_wire_list opsets;                      /* tsr_onnx_opset */
} tsr_onnx_function;

typedef struct tsr_onnx_model {
    int64_t ir_version;
    const char *producer_name, *producer_version;
    tsr_wire_list opsets;        /* tsr_onnx_opset */
    const tsr_onnx_graph *graph; /* not NULL after reading */
    tsr_wire_list functions;     /* tsr_onnx_function */
} tsr_onnx_model;

/* Reads the bytes, which the model borrows. TSR_COMPILE where they are no ONNX model. */
TSR_RESULT tsr_onnx_model_read(tsr_ctx *ctx, const void *bytes, size_t size_bytes, tsr_arena *arena,
                               tsr_onnx_model *out_model);

/* Returns the version of a domain; 0 if the list has none. "ai.onnx" is the same as "". */
int64_t tsr_onnx_opset_version(tsr_wire_list opsets, const char *domain);
/* True for ONNX's own domain. */
bool tsr_onnx_is_default_domain(const char *domain);

#endif
