/* SPDX-License-Identifier: Apache-2.0
 *
 * What pass tessera-autodiff is made of: reverse accumulation over the ops of one block, that of an
 * entry or of a region; tangents, forward; the ops that ask for either; blocks.
 */
#ifndef TSR_COMPILER_GRAPH_AUTODIFF_H
#define TSR_COMPILER_GRAPH_AUTODIFF_H

#include "compiler/graph/rule.h"
#include "compiler/names.h"
#include "compiler/schedule/schedule.h"

/* What stands for a value: of a copy, say. */
typedef struct tsr_copies {
    tsr_arena *arena;
    tsr_value_map numbers; /* of originals */
    MlirValue *values;
    uint32_t count, capacity;
} tsr_copies;
void tsr_copies_set(tsr_copies *c, MlirValue from, MlirValue to);
bool tsr_copies_has(const tsr_copies *c, MlirValue value);
/* The value itself where nothing stands for it. */
MlirValue tsr_copies_get(const tsr_copies *c, MlirValue value);

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
    tsr_names param_names; /* numbers in params */
    MlirValue scale;       /* of all gradients, f32; null: they are not clipped */
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

/* What gradients of the ops of a block are asked for, and what of. */
typedef struct tsr_question {
    const MlirValue *roots;
    size_t root_count;
    const MlirValue *seeds, *gradients; /* of values of the block; null: none */
    size_t seed_count;
    MlirValue *out; /* by root; null where there is none */
} tsr_question;
/* Of the ops that stand in the block; theirs are appended. */
bool tsr_autodiff_block(MlirBlock block, MlirLocation location, const tsr_question *question);
/* The block's ops are linear in its arguments and give `values`, whose `gradients` these are (null:
 * none): their transpose is appended, and what it gives by argument (null: zero). */
bool tsr_autodiff_transpose(MlirBlock block, MlirLocation location, size_t count,
                            const MlirValue *values, const MlirValue *gradients, MlirValue *out);
/* Does the op follow its shape rule, with dims that are known? Else an error is emitted. */
bool tsr_autodiff_check(MlirOperation op);

/* control_gradient.c: of the scan, while or if ad->ops[index], which may be replaced. */
bool tsr_autodiff_control(autodiff *ad, tsr_builder *builder, size_t index);
/* The same: reads of parameters in regions of the block's ops go before these. */
void tsr_autodiff_hoist(MlirBlock block);
/* Of one op. */
void tsr_autodiff_hoist_from(MlirOperation op);

/* ---- forward.c, forward_control.c ------------------------------------------------------------ */

/* Tangents of values, in the order of the ops. */
typedef struct tsr_forward {
    tsr_arena arena;
    tsr_copies tangents; /* by value */
} tsr_forward;

void tsr_forward_init(tsr_forward *f);
void tsr_forward_finish(tsr_forward *f);
/* Null: none, it is zero. */
MlirValue tsr_forward_get(const tsr_forward *f, MlirValue value);
void tsr_forward_set(tsr_forward *f, MlirValue value, MlirValue tangent);
/* Behind each op of the block those of its tangents; scans, whiles and ifs give way to others. */
bool tsr_forward_block(tsr_forward *f, MlirBlock block);
/* Of a scan, while or if. */
bool tsr_forward_control(tsr_forward *f, MlirOperation op);

/* ---- derivatives.c --------------------------------------------------------------------------- */

/* In the block and all regions of its ops: jvp and vjp become what they are, those inside first. */
bool tsr_derivatives_open(MlirBlock block);
/* custom_derivative becomes its function: nothing differentiates it any more. */
void tsr_derivatives_close(MlirBlock block);
/* Tangents and gradients of a custom_derivative, by its rules, noted in the walk that asks. */
bool tsr_custom_forward(tsr_forward *f, tsr_builder *builder, MlirOperation op);
bool tsr_custom_reverse(autodiff *ad, tsr_builder *builder, MlirOperation op);

/* ---- blocks.c -------------------------------------------------------------------------------- */

/* The first block of a region; null where it has none. */
MlirBlock tsr_region_block(MlirOperation op, intptr_t index);
bool tsr_value_is_float(MlirValue value);
MlirValue tsr_emit_zeros(tsr_builder *b, MlirValue like);
/* All but the yield, rewired, with their results. */
void tsr_copies_ops(tsr_copies *c, MlirBlock from, tsr_builder *to);
/* Ends the block; a yield that ended it is gone. */
void tsr_block_yield(MlirBlock block, MlirLocation location, const MlirValue *values, size_t count);
/* Ops whose results nothing reads vanish. */
void tsr_block_sweep(MlirBlock block);
/* The op's first region takes its place: `values` stand for the block's arguments, what it yields
 * for the op's results. */
void tsr_block_splice(MlirOperation op, const MlirValue *values);
/* A block at the builder, in an op that holds it for the time being, so that its ops stand in their
 * function; its ops take the op's place. */
MlirBlock tsr_scratch_open(tsr_builder *builder);
void tsr_scratch_close(MlirBlock block);

#endif
