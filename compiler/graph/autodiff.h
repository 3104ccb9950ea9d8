/* SPDX-License-Identifier: Apache-2.0
 *
 * What autodiff.c and control_gradient.c share: reverse accumulation over the ops of one block,
 * that of an entry or of a region.
 */
#ifndef TSR_COMPILER_GRAPH_AUTODIFF_H
#define TSR_COMPILER_GRAPH_AUTODIFF_H

#include "compiler/graph/rule.h"

typedef struct slot {
    const void *value; /* NULL: free */
    bool active;
    MlirValue gradient; /* so far; null: none yet */
} slot;

typedef struct trained {
    MlirOperation param; /* the first one of this name */
    const char *name;
    MlirValue gradient;
} trained;

typedef struct autodiff {
    tsr_arena arena;
    MlirModule module;
    MlirBlock block;
    MlirOperation minimize; /* null: all ops of the block */
    slot *slots;            /* open addressing, at most half full */
    size_t capacity;
    MlirOperation *ops; /* those before minimize, in order */
    size_t op_count;
    trained *params; /* those the loss depends on, in reverse order of their reads */
    size_t param_count;
    MlirValue scale; /* of all gradients, f32; null: they are not clipped */
} autodiff;

/* Fills ops, and makes room for all their values and `others`. */
void tsr_autodiff_collect(autodiff *ad, size_t others);
/* Of ops whose operands are active, or what they read in regions. */
void tsr_autodiff_mark(autodiff *ad);
/* Gradients of all ops, the last one first. */
bool tsr_autodiff_reverse(autodiff *ad, tsr_builder *builder);
slot *tsr_autodiff_slot(autodiff *ad, MlirValue value);
/* NULL where there is none. */
slot *tsr_autodiff_find(const autodiff *ad, MlirValue value);
void tsr_autodiff_add(tsr_builder *builder, MlirValue *sum, MlirValue gradient);

/* control_gradient.c: of the scan, while or if ad->ops[index], which may be replaced. */
bool tsr_autodiff_control(autodiff *ad, tsr_builder *builder, size_t index);
/* The same: reads of parameters in regions of the block's ops go before these. */
void tsr_autodiff_hoist(MlirBlock block);

#endif
