/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling and resilience: dialect `tessera_sr` and the dotted ops of dialect `tessera`. What the
 * ops mean stands in README.md.
 */
#ifndef TSR_COMPILER_RESILIENCE_RESILIENCE_H
#define TSR_COMPILER_RESILIENCE_RESILIENCE_H

#include "compiler/mlir.h"

typedef enum tsr_sr_op {
    TSR_SR_NONE, /* no op of this folder */
#define X(ID, name, DIALECT, Class, check, canonical) TSR_SR_##ID,
#include "compiler/resilience/ops.def"
#undef X
    TSR_SR_OP_COUNT
} tsr_sr_op;

/* The op by its name, dotted or not, as written. */
tsr_sr_op tsr_sr_op_of(MlirOperation op);
/* The same with dotted spellings as what they canonicalize to. */
tsr_sr_op tsr_sr_op_plain(MlirOperation op);
/* A checkpoint or a resilience region. */
bool tsr_sr_is_region(MlirOperation op);
/* One of those that tessera-virtual-ranks or tessera-vrank-shards makes. */
bool tsr_sr_is_vrank(MlirOperation op);
/* One that tessera-vrank-shards makes: vrank_part, vrank_all_gather, vrank_assemble. */
bool tsr_sr_is_vrank_part(MlirOperation op);
/* The squares of a value that the operand of this `squares` op has, in the type of its result. */
MlirValue tsr_sr_square(tsr_builder *builder, MlirOperation op, MlirValue x);
/* The block of a region op; null where the region is empty. */
MlirBlock tsr_sr_body(MlirOperation op);

typedef enum tsr_sr_policy {
    TSR_SR_SELECTIVE, /* what an absent attribute means */
    TSR_SR_FULL,
    TSR_SR_KEEP, /* "none" */
} tsr_sr_policy;
/* `policy` of a checkpoint or hint; false where it is none of the three. */
bool tsr_sr_policy_read(MlirOperation op, tsr_sr_policy *out_policy);

/* What tessera-inline-regions leaves of checkpoints and hints (inline_regions.c). */
#define TSR_SR_SEGMENT "tessera_sr.segment"
#define TSR_SR_SEGMENTS "tessera_sr.segments"
#define TSR_SR_BUDGETS "tessera_sr.budgets"
#define TSR_SR_HINT "tessera_sr.hint"
#define TSR_SR_HINT_BUDGET "tessera_sr.hint_budget"
enum { TSR_SR_POSITIONS_MAX = 1024 }; /* of an axis that optimizer state is sharded over */
/* Declared shards: ["parameter or *", "axis", "policy"] again and again; and what was planned
 * (shard.c). */
#define TSR_SR_SHARDS "tessera_sr.shards"
#define TSR_SR_SHARDED "tessera_sr.sharded"
/* A unit attribute of ops that autodiff made, where the function has segments or a hint. */
#define TSR_SR_BACKWARD "tessera_sr.backward"

/* Of a function: the handler of a restart, and of regions that name none (inline_regions.c). */
#define TSR_SR_RECOVERY_HANDLER "tessera_sr.on_recovery"
#define TSR_SR_FAILURE_HANDLER "tessera_sr.on_failure"
/* A unit attribute of a function that is an entry because it is a handler (handlers.c). */
#define TSR_SR_HANDLER "tessera_sr.handler"
/* Values that a region yields or an import gives, at most; tensors behind one barrier. */
enum { TSR_SR_VALUES_MAX = 12 };

/* !async.token or !tessera_sr.token. */
bool tsr_sr_is_token(MlirType type);
/* Has the op a token as operand or result? It then orders others at the begin or end of a region.
 */
bool tsr_sr_has_token(MlirOperation op);

/* Of the module: what its passes made of it, as JSON (manifest.c). */
#define TSR_SR_DEPLOYMENT "tessera_sr.deployment"

/* What tessera-insert-recompute planned (recompute.c). */
#define TSR_SR_RECOMPUTE "tessera_sr.recompute"

/* Are the names (of `mesh` of a declared shard: one string or several) axes of the module's
 * tessera.mesh, each once and `axis` among them? An error at `op` where not. */
bool tsr_sr_check_mesh(MlirOperation module, MlirOperation op, MlirAttribute names,
                       const char *axis);

/* On a module: the number of virtual ranks, which a source may give, and the mesh else gives. */
#define TSR_SR_VIRTUAL_RANKS "tessera.virtual_ranks"
/* Virtual ranks of a lowered module: 1 where it names none. */
uint64_t tsr_sr_virtual_ranks(MlirModule module);
/* Those that a module which is not lowered yet will have. False, with an error, where what it names
 * is no number of them. */
bool tsr_sr_find_virtual_ranks(MlirModule module, uint64_t *out_count);
/* Does an axis of the mesh divide the batch? */
bool tsr_sr_is_batch_axis(MlirStringRef name);
/* A unit attribute of tessera_sr.vrank_part: what it is a part of is summed whole, on every rank.
 */
#define TSR_SR_SUMMED "tessera_sr.summed"

/* The regions of resilience that stand in the function itself, and its events, as
 * tessera-inline-regions inlines them. False after an error. */
bool tsr_sr_inline_regions(MlirOperation func);
/* Are there segments or a hint? */
bool tsr_sr_wants_recompute(MlirOperation func);
/* Gives the ops after `last` and before `end` the attribute TSR_SR_BACKWARD. */
void tsr_sr_mark_backward(MlirOperation last, MlirOperation end);

#endif
