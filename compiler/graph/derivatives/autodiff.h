/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of pass tessera-autodiff: reverse accumulation over the ops of one block (of an entry
 * or of a region); tangents, in forward direction; the ops that request either; helpers for
 * blocks.
 */
#ifndef TSR_COMPILER_GRAPH_DERIVATIVES_AUTODIFF_H
#define TSR_COMPILER_GRAPH_DERIVATIVES_AUTODIFF_H

#include "compiler/graph/rule.h"
#include "compiler/ir/names.h"
#include "compiler/ir/value_map.h"

/* A map from values to other values, such as their copies. */
typedef struct tsr_copies {
    tsr_arena *arena;
    tsr_value_map numbers; /* numbers of the originals */
    MlirValue *values;
    uint32_t count;
    size_t capacity;
} tsr_copies;
void tsr_copies_set(tsr_copies *c, MlirValue from, MlirValue to);
bool tsr_copies_has(const tsr_copies *c, MlirValue value);
/* Returns the value itself if it has no entry. */
MlirValue tsr_copies_get(const tsr_copies *c, MlirValue value);

typedef struct slot {
    const void *value; /* NULL: free */
    bool active;
    MlirValue gradient; /* sum until now; null: no gradient yet */
} slot;

typedef struct trained {
    MlirOperation param; /* the first one of this name */
    const char *name;
    MlirValue gradient;
    MlirAttribute optimizer; /* that of its group; null without a minimize */
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
    trained *params; /* the parameters that the loss depends on, in reverse order of their reads */
    size_t param_count;
    tsr_names param_names; /* indices into params */
    MlirValue scale;       /* scale of all gradients, f32; null: they are not clipped */
} autodiff;

/* Fills ops, and reserves slots for all their values and `others`. */
void tsr_autodiff_collect(autodiff *ad, size_t others);
/* Marks the results of ops whose operands are active, or that read active values in regions. */
void tsr_autodiff_mark(autodiff *ad);
/* Computes the gradients of all ops, from the last op to the first. */
bool tsr_autodiff_reverse(autodiff *ad, tsr_builder *builder);
slot *tsr_autodiff_slot(autodiff *ad, MlirValue value);
/* NULL if it has no slot. */
slot *tsr_autodiff_find(const autodiff *ad, MlirValue value);
void tsr_autodiff_add(tsr_builder *builder, MlirValue *sum, MlirValue gradient);

/* A request for gradients of the ops of a block: with respect to `roots`, given the gradients of
 * `seeds`. */
typedef struct tsr_question {
    const MlirValue *roots;
    size_t root_count;
    const MlirValue *seeds, *gradients; /* values of the block and their gradients; null: no
                                         * gradient */
    size_t seed_count;
    MlirValue *out; /* gradient of each root; null if it has none */
} tsr_question;
/* Appends the gradient ops of the block's ops to the block. */
bool tsr_autodiff_block(MlirBlock block, MlirLocation location, const tsr_question *question);
/* The block's ops are linear in its arguments and compute `values`, whose `gradients` are given
 * (null: no gradient). Appends the transpose and returns its result for each argument (null:
 * zero). */
bool tsr_autodiff_transpose(MlirBlock block, MlirLocation location, size_t count,
                            const MlirValue *values, const MlirValue *gradients, MlirValue *out);
/* True if the op follows its shape rule and its dims are known; else an error is emitted. */
bool tsr_autodiff_check(MlirOperation op);

/* control_gradient.c: gradients of the scan, while or if ad->ops[index], which may be replaced. */
bool tsr_autodiff_control(autodiff *ad, tsr_builder *builder, size_t index);
/* The same: moves reads of parameters in regions of the block's ops before these ops. */
void tsr_autodiff_hoist(MlirBlock block);
/* The same for one op. */
void tsr_autodiff_hoist_from(MlirOperation op);

/* ---- forward.c, forward_control.c ------------------------------------------------------------ */

/* Tangents of values, in the order of the ops. */
typedef struct tsr_forward {
    tsr_arena arena;
    tsr_copies tangents; /* tangent of each value */
} tsr_forward;

void tsr_forward_init(tsr_forward *f);
void tsr_forward_finish(tsr_forward *f);
/* Null if the tangent is zero. */
MlirValue tsr_forward_get(const tsr_forward *f, MlirValue value);
void tsr_forward_set(tsr_forward *f, MlirValue value, MlirValue tangent);
/* Inserts after each op of the block the ops of its tangents; scans, whiles and ifs are replaced
 * by new ones. */
bool tsr_forward_block(tsr_forward *f, MlirBlock block);
/* Tangents of a scan, while or if. */
bool tsr_forward_control(tsr_forward *f, MlirOperation op);

/* ---- derivatives.c --------------------------------------------------------------------------- */

/* Replaces jvp and vjp by the ops that they denote, in the block and all regions of its ops,
 * innermost first. */
bool tsr_derivatives_open(MlirBlock block);
/* Replaces custom_derivative by its function, since nothing differentiates it any more. */
void tsr_derivatives_close(MlirBlock block);
/* Tangents and gradients of a custom_derivative by its rules, recorded in the walk that requests
 * them. */
bool tsr_custom_forward(tsr_forward *f, tsr_builder *builder, MlirOperation op);
bool tsr_custom_reverse(autodiff *ad, tsr_builder *builder, MlirOperation op);

/* ---- blocks.c -------------------------------------------------------------------------------- */

/* The first block of a region; null if there is no block. */
MlirBlock tsr_region_block(MlirOperation op, intptr_t index);
bool tsr_value_is_float(MlirValue value);
MlirValue tsr_emit_zeros(tsr_builder *b, MlirValue like);
/* Copies all ops except the yield, with mapped operands, and maps their results. */
void tsr_copies_ops(tsr_copies *c, MlirBlock from, tsr_builder *to);
/* Ends the block with a yield; an existing yield is removed. */
void tsr_block_yield(MlirBlock block, MlirLocation location, const MlirValue *values, size_t count);
/* Erases ops with unused results. */
void tsr_block_sweep(MlirBlock block);
/* Replaces the op by the ops of its first region: `values` replace the block's arguments, and the
 * yielded values replace the op's results. */
void tsr_block_splice(MlirOperation op, const MlirValue *values);
/* Opens a block at the builder, in a temporary op, so that its ops are inside their function;
 * closing it replaces the temporary op by the block's ops. */
MlirBlock tsr_scratch_open(tsr_builder *builder);
void tsr_scratch_close(MlirBlock block);

#endif
