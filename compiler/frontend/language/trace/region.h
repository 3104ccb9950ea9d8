/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: ops with regions, and the tensors that pass through them.
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_TRACE_REGION_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_TRACE_REGION_H

#include "compiler/frontend/language/trace/tracer.h"

/* Tensors in tuples, lists and dicts. */
typedef struct tsr_tree {
    tsr_value value;
    tsr_leaves leaves;
    MlirValue *values; /* of the leaves, for the code that ran when they were read */
    MlirType *types;
} tsr_tree;

/* Reads a value that has only tensors; `what` names it. False, reported, for another one. */
bool tsr_tree_read(tsr_evaluator *e, tsr_value value, const char *what, tsr_span span,
                   tsr_tree *out);
/* Whether all elements are floats; whether two trees have the same types: reported if not. */
bool tsr_tree_floats(tsr_evaluator *e, const tsr_tree *tree, const char *what, tsr_span span);
bool tsr_tree_matches(tsr_evaluator *e, const tsr_tree *tree, const tsr_tree *like,
                      const char *what, const char *like_what, tsr_span span);

typedef struct tsr_region {
    tsr_body *body;
    tsr_builder builder; /* of the code around it */
    tsr_body *outer;
    MlirRegion region;
} tsr_region;

/* Begins a region, whose block has these types as arguments: the code that runs now is its code,
 * until it is closed. */
void tsr_region_open(tsr_tracer *t, tsr_region *region, size_t count, const MlirType *types,
                     tsr_span span);
MlirValue tsr_region_argument(const tsr_region *region, size_t index);
/* Ends the region with its results. NULL: there was an error, and the region is destroyed; returns
 * false then. */
bool tsr_region_close(tsr_tracer *t, tsr_region *region, const tsr_tree *results);

typedef struct tsr_region_desc {
    tsr_op_desc op; /* attributes end at one without a name */
    tsr_span span;
} tsr_region_desc;
/* Emits an op with regions, which passes to it. False, reported, if its rule refuses it. */
bool tsr_region_op(tsr_evaluator *e, const tsr_region_desc *desc, MlirValue *out_results);

/* Calls a function of the program with these values. */
tsr_value tsr_region_call(tsr_evaluator *e, tsr_value function, const tsr_value *values,
                          size_t count, const tsr_call *call);
/* Whether the argument can be called; reported if not. */
bool tsr_argument_function(tsr_evaluator *e, const tsr_argument *a);

#endif
