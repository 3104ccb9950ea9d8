/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling and resilience: dialect `tessera_sr` and the dotted ops of dialect `tessera`. README.md
 * describes the ops.
 */
#ifndef TSR_COMPILER_RESILIENCE_RESILIENCE_H
#define TSR_COMPILER_RESILIENCE_RESILIENCE_H

#include "compiler/ir/mlir.h"

/* The op; a dotted spelling is mapped to the op of this folder that it canonicalizes to. */
tsr_op tsr_sr_op_plain(MlirOperation op);
/* A checkpoint or a resilience region. */
bool tsr_sr_is_region(MlirOperation op);
/* An op that tessera-virtual-ranks or tessera-vrank-shards creates. */
bool tsr_sr_is_vrank(MlirOperation op);
/* An op that tessera-vrank-shards creates: vrank_part, vrank_all_gather, vrank_assemble. */
bool tsr_sr_is_vrank_part(MlirOperation op);
/* Squares `x`, a value with elements of the operand of this `squares` op, in the type of the op's
 * result. */
MlirValue tsr_sr_square(tsr_builder *builder, MlirOperation op, MlirValue x);
/* The block of a region op; null if the region is empty. */
MlirBlock tsr_sr_body(MlirOperation op);

typedef enum tsr_sr_policy {
    TSR_SR_SELECTIVE, /* also the meaning of an absent attribute */
    TSR_SR_FULL,
    TSR_SR_KEEP, /* "none" */
} tsr_sr_policy;
/* Reads `policy` of a checkpoint or hint; false if it is not one of the three. */
bool tsr_sr_policy_read(MlirOperation op, tsr_sr_policy *out_policy);

/* Attributes that tessera-inline-regions derives from checkpoints and hints (inline_regions.c). */
#define TSR_SR_SEGMENT "tessera_sr.segment"
#define TSR_SR_SEGMENTS "tessera_sr.segments"
#define TSR_SR_BUDGETS "tessera_sr.budgets"
#define TSR_SR_HINT "tessera_sr.hint"
#define TSR_SR_HINT_BUDGET "tessera_sr.hint_budget"
enum {
    TSR_SR_POSITIONS_MAX = 1024
}; /* maximum positions of an axis that optimizer state is
    * sharded over */
/* Declared shards: a list of triples ["parameter or *", "axis", "policy"]; and the resulting plan
 * (shard.c). */
#define TSR_SR_SHARDS "tessera_sr.shards"
#define TSR_SR_SHARDED "tessera_sr.sharded"
/* A unit attribute of ops that autodiff created, if the function has segments or a hint. */
#define TSR_SR_BACKWARD "tessera_sr.backward"

/* Attributes of a function: the handler of a restart, and of regions that name none
 * (inline_regions.c). */
#define TSR_SR_RECOVERY_HANDLER "tessera_sr.on_recovery"
#define TSR_SR_FAILURE_HANDLER "tessera_sr.on_failure"
/* A unit attribute of a function that is an entry because it is a handler (handlers.c). */
#define TSR_SR_HANDLER "tessera_sr.handler"
/* Maximum number of values that a region yields or an import returns; also of tensors of one
 * barrier. */
enum { TSR_SR_VALUES_MAX = 12 };

/* !async.token or !tessera_sr.token. */
bool tsr_sr_is_token(MlirType type);
/* True if the op has a token as operand or result: it then orders others at the begin or end of a
 * region. */
bool tsr_sr_has_token(MlirOperation op);

/* Module attribute: the deployment that the passes planned, as JSON (manifest.c). */
#define TSR_SR_DEPLOYMENT "tessera_sr.deployment"

/* The plan of tessera-insert-recompute (recompute.c). */
#define TSR_SR_RECOMPUTE "tessera_sr.recompute"

/* True if the names (of `mesh` of a declared shard: one string or several) are axes of the
 * module's tessera.mesh, each once and `axis` among them. Otherwise emits an error at `op`. */
bool tsr_sr_check_mesh(MlirOperation module, MlirOperation op, MlirAttribute names,
                       const char *axis);

/* Module attribute: the number of virtual ranks, which the source may specify; else it is
 * determined by the mesh. */
#define TSR_SR_VIRTUAL_RANKS "tessera.virtual_ranks"
/* The number of virtual ranks of a lowered module: 1 if it has no such attribute. */
uint64_t tsr_sr_virtual_ranks(MlirModule module);
/* The number that a module which is not lowered yet will have. False, with an error, if its
 * attribute is not a valid number. */
bool tsr_sr_find_virtual_ranks(MlirModule module, uint64_t *out_count);
/* True if an axis of the mesh with this name divides the batch. */
bool tsr_sr_is_batch_axis(MlirStringRef name);
/* A unit attribute of tessera_sr.vrank_part: its operand is summed as a whole, on every rank. */
#define TSR_SR_SUMMED "tessera_sr.summed"

/* Inlines the regions of resilience directly in the function, and its events, like
 * tessera-inline-regions. False after an error. */
bool tsr_sr_inline_regions(MlirOperation func);
/* True if there are segments or a hint. */
bool tsr_sr_wants_recompute(MlirOperation func);
/* Gives the ops after `last` and before `end` the attribute TSR_SR_BACKWARD. */
void tsr_sr_mark_backward(MlirOperation last, MlirOperation end);

#endif
