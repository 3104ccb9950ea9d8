/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes an expression in a block: emits its ops, and adds the names that it does not know as
 * arguments of the block.
 */
#ifndef TSR_COMPILER_ONNX_COMPUTE_H
#define TSR_COMPILER_ONNX_COMPUTE_H

#include "compiler/frontend/onnx/train/expression.h"
#include "compiler/ir/mlir.h"

typedef struct tsr_compute_name {
    const char *name;
    MlirValue value; /* null: a new input that nothing has read yet */
    bool is_new;     /* an input that the model does not have */
    bool has_type;   /* of a new input: the user said its type */
    tsr_type type;
} tsr_compute_name;

enum { TSR_COMPUTE_NAMES_MAX = 1024 };
typedef struct tsr_compute {
    const tsr_expression_source *source;
    tsr_builder *builder;
    tsr_arena *arena;
    MlirBlock block; /* whose arguments new inputs become, in the order of `names` */
    size_t count;
    tsr_compute_name *names; /* room for TSR_COMPUTE_NAMES_MAX */
} tsr_compute;

tsr_compute_name *tsr_compute_find(const tsr_compute *c, const char *name);
/* NULL after a diagnostic: there are too many. */
tsr_compute_name *tsr_compute_add(tsr_compute *c, const char *name, size_t at);
/* Null after a diagnostic. */
MlirValue tsr_compute_value(tsr_compute *c, const tsr_expression *e);

#endif
