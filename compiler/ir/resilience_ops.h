/* SPDX-License-Identifier: Apache-2.0
 *
 * What every stage must know of the ops of dialect tessera_sr and of the dotted ops: which mark
 * regions, order others by tokens, or work on virtual ranks; and the number of virtual ranks.
 */
#ifndef TSR_COMPILER_IR_RESILIENCE_OPS_H
#define TSR_COMPILER_IR_RESILIENCE_OPS_H

#include "compiler/ir/mlir.h"

/* The op; a dotted spelling is mapped to the op of this folder that it canonicalizes to. */
tsr_op tsr_sr_op_plain(MlirOperation op);
/* A checkpoint, a resilience region or a suspension of effects: an op that only marks its ops. */
bool tsr_sr_is_region(MlirOperation op);
/* An op that tessera-virtual-ranks or tessera-vrank-shards creates. */
bool tsr_sr_is_vrank(MlirOperation op);
/* An op that tessera-vrank-shards creates: vrank_part, vrank_all_gather, vrank_assemble. */
bool tsr_sr_is_vrank_part(MlirOperation op);
/* The block of a region op; null if the region is empty. */
MlirBlock tsr_sr_body(MlirOperation op);

/* !async.token or !tessera_sr.token. */
bool tsr_sr_is_token(MlirType type);
/* True if the op has a token as operand or result: it then orders others at the begin or end of a
 * region. */
bool tsr_sr_has_token(MlirOperation op);

/* Module attribute: the number of virtual ranks, which the source may specify; else it is
 * determined by the mesh. */
#define TSR_SR_VIRTUAL_RANKS "tessera.virtual_ranks"
enum { TSR_VIRTUAL_RANKS_MAX = 4096 };
/* The number of virtual ranks of a lowered module: 1 if it has no such attribute. */
uint64_t tsr_sr_virtual_ranks(MlirModule module);
/* The number that a module which is not lowered yet will have. False, with an error, if its
 * attribute is not a valid number. */
bool tsr_sr_find_virtual_ranks(MlirModule module, uint64_t *out_count);
/* True if an axis of the mesh with this name divides the batch. */
bool tsr_sr_is_batch_axis(MlirStringRef name);
/* Attributes of tessera.param (tsched.layout): the axis of the mesh over which it is split, and the
 * dim that products read in parts; without the second one, dim 0. */
#define TSR_LAYOUT_AXIS "tessera.layout_axis"
#define TSR_LAYOUT_DIM "tessera.layout_dim"
/* Unit attribute of tessera.gather and scatter_add: all indices are in range, or an op before it
 * has failed. */
#define TSR_CHECKED_NAME "tessera.indices_checked"
/* Unit attributes of a function: it has recomputation segments, or a recomputation hint. */
#define TSR_SR_SEGMENTS "tessera_sr.segments"
#define TSR_SR_HINT "tessera_sr.hint"
/* Attributes that tessera-inline-regions derives from checkpoints and hints (inline_regions.c). */
#define TSR_SR_SEGMENT "tessera_sr.segment"
#define TSR_SR_BUDGETS "tessera_sr.budgets"
#define TSR_SR_HINT_BUDGET "tessera_sr.hint_budget"
/* The plan of tessera-insert-recompute (recompute.c). */
#define TSR_SR_RECOMPUTE "tessera_sr.recompute"
/* Declared shards: a list of triples ["parameter or *", "axis", "policy"] (shard.c). */
#define TSR_SR_SHARDS "tessera_sr.shards"
/* Module attribute: the deployment that the passes planned, as JSON (manifest.c). */
#define TSR_SR_DEPLOYMENT "tessera_sr.deployment"
/* A unit attribute of ops that autodiff created, if the function has segments or a hint. */
#define TSR_SR_BACKWARD "tessera_sr.backward"

/* True if there are segments or a hint. */
bool tsr_sr_wants_recompute(MlirOperation func);
/* Gives the ops after `last` and before `end` the attribute TSR_SR_BACKWARD. */
void tsr_sr_mark_backward(MlirOperation last, MlirOperation end);

#endif
