/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: the state of one import.
 */
#ifndef TSR_COMPILER_ONNX_IMPORTER_H
#define TSR_COMPILER_ONNX_IMPORTER_H

#include "compiler/frontend/onnx/import.h"
#include "compiler/frontend/onnx/rules.h"
#include "compiler/frontend/onnx/tensor.h"
#include "compiler/ir/names.h"
#include "compiler/ir/value_map.h"
#include "runtime/base/buffer.h"

enum {
    TSR_ONNX_CALLS_MAX = 64,      /* functions and graphs in one another */
    TSR_ONNX_NODES_MAX = 1 << 20, /* nodes, with those of functions at each call */
    TSR_ONNX_OPSET_MAX = 28,
    TSR_ONNX_IR_MAX = 14,
};

/* The elements of a parameter are moved when they are written. */
typedef struct tsr_onnx_movement {
    tsr_shape shape; /* afterwards */
    bool is_transpose;
    int64_t permutation[TSR_RANK_MAX]; /* of a transpose */
} tsr_onnx_movement;
enum { TSR_ONNX_STEPS_MAX = 6 };

/* A parameter of the program: an initializer that is stored beside it. */
typedef struct tsr_onnx_param {
    const char *name; /* of the tensor in the program; in the arena */
    const tsr_onnx_tensor *tensor;
    MlirValue value; /* result of a tessera.param, of the type after all steps */
    bool is_read;
    size_t step_count;
    tsr_onnx_movement steps[TSR_ONNX_STEPS_MAX];
} tsr_onnx_param;

/* A name of a scope. */
typedef struct tsr_onnx_binding_value {
    MlirValue value;               /* null: not emitted yet */
    const tsr_onnx_tensor *tensor; /* an initializer; or NULL */
} tsr_onnx_binding_value;

/* The names of one graph, or of one call of a function. */
typedef struct tsr_onnx_scope {
    struct tsr_onnx_scope *parent;     /* the graph around this one; NULL for functions */
    const tsr_onnx_call *caller;       /* of a function; else NULL */
    const tsr_onnx_function *function; /* or NULL */
    tsr_wire_list opsets;              /* tsr_onnx_opset */
    size_t depth;
    tsr_names names; /* numbers of bindings */
    tsr_onnx_binding_value *bindings;
    size_t count, capacity;
} tsr_onnx_scope;

typedef struct tsr_onnx_importer {
    tsr_ctx *ctx;
    const tsr_onnx_options *options;
    const tsr_onnx_model *model;
    const char *file_name; /* in locations */
    MlirContext mlir;
    MlirBlock entry;
    MlirOperation anchor; /* parameters and constants of initializers are emitted before it */
    tsr_builder builder;
    tsr_arena arena, scratch; /* scratch: until the end of a node */
    tsr_onnx_files files;
    tsr_onnx_param *params; /* in the arena; the first one of a name counts */
    size_t param_count, param_capacity;
    tsr_names param_names;
    tsr_value_map known; /* numbers of `evaluated` */
    const tsr_onnx_known **evaluated;
    size_t evaluated_count, evaluated_capacity;
    size_t node_count, scratch_depth;
} tsr_onnx_importer;

/* ---- listing.c ---- */

/* Gives each node its line, and appends a text with these lines. */
void tsr_onnx_list_nodes(const tsr_onnx_model *model, tsr_buffer *out);
MlirLocation tsr_onnx_location(const tsr_onnx_importer *im, const tsr_onnx_node *node);

/* ---- params.c ---- */

/* Emits an initializer, or the tensor of a node Constant, as a parameter or constant. `name` is
 * that of the value. Null after an error. */
MlirValue tsr_onnx_emit_tensor(tsr_onnx_importer *im, const tsr_onnx_tensor *tensor,
                               const char *name, MlirLocation location);
/* The parameter that an op tessera.param reads; NULL if there is none. */
const tsr_onnx_param *tsr_onnx_find_param(const tsr_onnx_importer *im, MlirOperation op);
/* Erases ops that nothing uses, and lets parameters take the order of dims in which all uses read
 * them. */
void tsr_onnx_lay_params(tsr_onnx_importer *im);
/* Writes the parameters that the program reads as a safetensors file, and its digest into the
 * module. */
TSR_RESULT tsr_onnx_write_params(tsr_onnx_importer *im, MlirModule module);

/* ---- ports.c ---- */

bool tsr_onnx_is_initialized(const tsr_onnx_graph *graph, const char *name);
/* Emits that the model has too many inputs; returns false. */
bool tsr_onnx_refuse_count(const tsr_onnx_importer *im, size_t count);
/* The type of an input, with the sizes that the options give to open dims. False after a
 * diagnostic. */
bool tsr_onnx_input_type(const tsr_onnx_importer *im, const tsr_onnx_value_info *info,
                         tsr_type *out_type);
/* TSR_USAGE if the options give a size to a dim that no input has. */
TSR_RESULT tsr_onnx_check_bindings(const tsr_onnx_importer *im);

/* ---- import.c ---- */

/* Grows an array in the arena to hold one element more. */
void tsr_onnx_grow(tsr_arena *arena, void **items, size_t count, size_t *capacity, size_t size);
/* False after a diagnostic. */
bool tsr_onnx_lookup(tsr_onnx_importer *im, tsr_onnx_scope *scope, const char *name,
                     MlirLocation location, MlirValue *out_value);
void tsr_onnx_bind(tsr_onnx_importer *im, tsr_onnx_scope *scope, const char *name, MlirValue value,
                   const tsr_onnx_tensor *tensor);
bool tsr_onnx_is_bound(const tsr_onnx_scope *scope, const char *name);
/* Binds the initializers of a graph and imports its nodes. */
bool tsr_onnx_import_graph(tsr_onnx_importer *im, tsr_onnx_scope *scope,
                           const tsr_onnx_graph *graph);
/* A graph in a node: binds `values` to the inputs of the graph, imports it with the current
 * builder and gives its outputs. */
bool tsr_onnx_import_body(tsr_onnx_call *c, const tsr_onnx_graph *graph, size_t count,
                          const MlirValue *values, MlirValue *out_outputs);

#endif
