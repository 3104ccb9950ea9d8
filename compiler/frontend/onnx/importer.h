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
#include "manifests/config.h"
#include "runtime/base/buffer.h"

enum {
    TSR_ONNX_CALLS_MAX = 64,      /* functions and graphs in one another */
    TSR_ONNX_NODES_MAX = 1 << 20, /* nodes, with those of functions at each call */
    TSR_ONNX_OPSET_MAX = 28,
    TSR_ONNX_IR_MAX = 14,
    TSR_ONNX_BODIES_MAX = 4, /* functions that are made of the model */
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
    /* The results of tessera.param in each function, of the type after all steps; null: not there.
     */
    MlirValue values[TSR_ONNX_BODIES_MAX];
    MlirValue next; /* of a running statistic, while training is imported: the latest value */
    bool is_read;
    bool is_constant; /* of a node Constant: it is not an initializer */
    bool is_fixed;    /* not trained: its value was read when the program was made, it is a running
                       * statistic, or the user says so */
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

/* A value that was looked at. */
typedef struct tsr_onnx_evaluated {
    const tsr_onnx_known *known; /* NULL: it depends on an input, or is too large */
    bool is_fixed;               /* it is part of the program */
} tsr_onnx_evaluated;

/* A dim that stays open. */
typedef struct tsr_onnx_open_symbol {
    const char *symbol, *name; /* in the program, and as the model and --dim have it */
    tsr_dim_range range;       /* sizes that it can have */
} tsr_onnx_open_symbol;

/* The result of a DequantizeLinear, and what it was made of. */
typedef struct tsr_onnx_dequantized {
    MlirValue value, bytes, scale, zero; /* zero: null if absent */
    uint32_t axis;                       /* dim with a scale for each position, or: */
} tsr_onnx_dequantized;
enum { TSR_ONNX_NO_AXIS = TSR_RANK_MAX };

typedef struct tsr_onnx_importer {
    tsr_ctx *ctx;
    tsr_diag_list *diags;
    const tsr_onnx_options *options;
    const tsr_onnx_model *model;
    const char *file_name; /* in locations */
    MlirContext mlir;
    MlirBlock bodies[TSR_ONNX_BODIES_MAX];
    size_t body_count;    /* the last one is being made */
    bool trains;          /* it is the form of training */
    MlirBlock entry;      /* the last one */
    MlirOperation anchor; /* parameters and constants of initializers are emitted before it */
    tsr_builder builder;
    tsr_arena arena, scratch; /* scratch: until the end of a node */
    tsr_onnx_map map;         /* of the model */
    tsr_onnx_model content;
    MlirModule module; /* with the functions that custom ops call */
    bool *op_used;     /* of each custom op of the options */
    tsr_onnx_files files;
    tsr_onnx_param *params; /* in the arena; the first one of a name counts */
    size_t param_count, param_capacity, param_next;
    tsr_names param_names;
    tsr_value_map known; /* numbers of `evaluated` */
    tsr_onnx_evaluated *evaluated;
    size_t evaluated_count, evaluated_capacity;
    tsr_onnx_open_symbol *symbols; /* in the order of the inputs */
    size_t symbol_count, symbol_capacity;
    tsr_onnx_dequantized *dequantized; /* in the arena */
    size_t dequantized_count, dequantized_capacity;
    size_t node_count, scratch_depth;
} tsr_onnx_importer;

/* ---- listing.c ---- */

/* Gives each node its line, and appends a text with these lines. */
void tsr_onnx_list_nodes(const tsr_onnx_model *model, tsr_buffer *out);
MlirLocation tsr_onnx_location(const tsr_onnx_importer *im, const tsr_onnx_node *node);

/* ---- params.c ---- */

/* Emits an initializer as a parameter or constant. `name` is that of the value. Null after an
 * error. */
MlirValue tsr_onnx_emit_initializer(tsr_onnx_importer *im, const tsr_onnx_tensor *tensor,
                                    const char *name, MlirLocation location);
/* The same for the tensor of a node Constant, which is not trained. */
MlirValue tsr_onnx_emit_tensor(tsr_onnx_importer *im, const tsr_onnx_tensor *tensor,
                               const char *name, MlirLocation location);
/* The value in one of the functions that read it. */
MlirValue tsr_onnx_param_value(const tsr_onnx_param *param);
/* The parameter that an op tessera.param reads; NULL if there is none. */
const tsr_onnx_param *tsr_onnx_find_param(const tsr_onnx_importer *im, MlirOperation op);
/* Erases ops that nothing uses, and lets parameters take the order of dims in which all uses read
 * them. */
void tsr_onnx_relayout_params(tsr_onnx_importer *im);
/* Writes the parameters that the program reads as a safetensors file, and its digest into the
 * module. The names in all models differ. */
TSR_RESULT tsr_onnx_write_params(tsr_onnx_importer *const *importers, size_t count,
                                 MlirModule module, const char *path);

/* ---- ports.c ---- */

bool tsr_onnx_is_initialized(const tsr_onnx_graph *graph, const char *name);
/* Emits that the model has too many inputs; returns false. */
bool tsr_onnx_refuse_count(const tsr_onnx_importer *im, size_t count);
/* The type of an input, with the sizes that the options give to open dims. False after a
 * diagnostic. */
bool tsr_onnx_input_type(tsr_onnx_importer *im, const tsr_onnx_value_info *info,
                         tsr_type *out_type);
/* TSR_USAGE if the options give a size to a dim that no input has. */
TSR_RESULT tsr_onnx_check_bindings(const tsr_onnx_importer *im);

/* The name by which --dim gives a dim its size. */
void tsr_onnx_name_dim(const tsr_onnx_value_info *info, const tsr_onnx_dim *dim, size_t index,
                       char *out, size_t size);
bool tsr_onnx_dim_is_open(const tsr_onnx_dim *dim);

/* ---- sizes.c ---- */

/* The dim that stands for an open dim of the model, which may have sizes. False after a diagnostic:
 * two names would have one symbol. */
bool tsr_onnx_open_dim(tsr_onnx_importer *im, const char *name, const tsr_dim_binding *binding,
                       uint64_t *out_dim);
/* All symbols, as strings. */
MlirAttribute tsr_onnx_symbol_list(const tsr_onnx_importer *im);
/* Notes in the module which sizes the symbols have been taken to have. */
void tsr_onnx_note_bounds(const tsr_onnx_importer *im);

/* ---- import.c ---- */

/* A function that is made of a model. */
typedef struct tsr_onnx_form {
    const char *symbol;
    const char *entry; /* kind of the entry; NULL: a private function */
    bool trains;       /* the form of training */
} tsr_onnx_form;
/* Reads the model of the options; `ctx`, `diags`, `options` and `mlir` are set. */
TSR_RESULT tsr_onnx_open(tsr_onnx_importer *im);
void tsr_onnx_close(tsr_onnx_importer *im); /* accepts one that was not opened */
/* Adds a function to the module. False after a diagnostic. */
bool tsr_onnx_import_function(tsr_onnx_importer *im, const tsr_onnx_form *form);
/* Moves transposes and lays out parameters, when all functions are imported. */
void tsr_onnx_finish_functions(tsr_onnx_importer *im);

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
