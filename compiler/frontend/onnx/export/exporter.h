/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: the state of one export, and what rules call.
 */
#ifndef TSR_COMPILER_ONNX_EXPORTER_H
#define TSR_COMPILER_ONNX_EXPORTER_H

#include "compiler/frontend/onnx/export/proto.h"
#include "compiler/frontend/onnx/exporting.h"
#include "compiler/graph/emit.h"
#include "compiler/ir/names.h"
#include "compiler/ir/value_map.h"

/* A parameter of the model. */
typedef struct tsr_exported_param {
    const char *name; /* of the context */
    tsr_type type;
} tsr_exported_param;

typedef struct tsr_exporter {
    tsr_ctx *ctx;
    const tsr_onnx_export_options *options;
    tsr_arena arena;
    tsr_buffer nodes, constants; /* fields of the graph */
    tsr_names taken;             /* names of values */
    tsr_value_map numbers;       /* of values in `names` */
    const char **names;
    size_t name_count, name_capacity, next;
    tsr_exported_param *params;
    size_t param_count, param_capacity;
    MlirOperation op; /* that is exported */
    size_t output_count;
    MlirValue *outputs; /* values that have the name of an output; null: another value has it */
    const char **output_names;
} tsr_exporter;

/* A rule gets the op's row of ops.def. False after a diagnostic. */
typedef bool (*tsr_export_fn)(tsr_exporter *x, MlirOperation op, const char *name);
#define X(ID, onnx_op, rule)                                                                       \
    bool tsr_export_##rule(tsr_exporter *x, MlirOperation op, const char *name);
#include "compiler/frontend/onnx/export/ops.def"
#undef X

/* Emits that the op has no form in ONNX, and why; returns false. */
bool tsr_export_refuse(tsr_exporter *x, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *tsr_export_name(tsr_exporter *x, MlirValue value); /* of a value that was bound */
void tsr_export_bind(tsr_exporter *x, MlirValue value, const char *name);
const char *tsr_export_fresh(tsr_exporter *x); /* a name that no value has */
/* The name of an output of the model, or a fresh one. */
const char *tsr_export_result_name(tsr_exporter *x, MlirValue value);

/* A node with one output, which has the name returned. `attrs` are its attributes, and are
 * finished; NULL: none. Inputs may be "". */
const char *tsr_export_node(tsr_exporter *x, const char *op, size_t count,
                            const char *const *inputs, tsr_buffer *attrs);
/* The same; the outputs are those of the op. */
void tsr_export_results(tsr_exporter *x, MlirOperation op, const char *name, size_t count,
                        const char *const *inputs, tsr_buffer *attrs);
void tsr_export_copy(tsr_exporter *x, const char *from, const char *name);
void tsr_export_attr_int(tsr_buffer *attrs, const char *name, int64_t value);
void tsr_export_attr_ints(tsr_buffer *attrs, const char *name, size_t count, const int64_t *values);
void tsr_export_attr_float(tsr_buffer *attrs, const char *name, double value);
void tsr_export_attr_text(tsr_buffer *attrs, const char *name, const char *value);

/* Initializers; the name is returned. `data` has the elements in our layout. */
const char *tsr_export_tensor(tsr_exporter *x, const tsr_type *type, const void *data);
const char *tsr_export_ints(tsr_exporter *x, size_t count, const int64_t *values);
const char *tsr_export_number(tsr_exporter *x, const tsr_shape *shape, tsr_dtype dtype,
                              double value);
const char *tsr_export_moved(tsr_exporter *x, const char *value, size_t rank,
                             const int64_t *permutation);

#endif
