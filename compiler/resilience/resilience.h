/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling and resilience: dialect `tessera_sr` and the dotted ops of dialect `tessera`. README.md
 * describes the ops.
 */
#ifndef TSR_COMPILER_RESILIENCE_RESILIENCE_H
#define TSR_COMPILER_RESILIENCE_RESILIENCE_H

#include "compiler/ir/resilience_ops.h"

/* Squares `x`, a value with elements of the operand of this `squares` op, in the type of the op's
 * result. */
MlirValue tsr_sr_square(tsr_builder *builder, MlirOperation op, MlirValue x);
typedef enum tsr_sr_policy {
    TSR_SR_SELECTIVE, /* also the meaning of an absent attribute */
    TSR_SR_FULL,
    TSR_SR_NONE, /* "none" */
} tsr_sr_policy;
/* Reads `policy` of a checkpoint or hint; false if it is not one of the three. */
bool tsr_sr_policy_read(MlirOperation op, tsr_sr_policy *out_policy);

enum {
    TSR_SR_POSITIONS_MAX = 1024
}; /* maximum positions of an axis that optimizer state is
    * sharded over */
/* The plan that results from the declared shards, TSR_SR_SHARDS (shard.c). */
#define TSR_SR_SHARDED "tessera_sr.sharded"
/* Attributes of a function: the handler of a restart, and of regions that name none
 * (inline_regions.c). */
#define TSR_SR_RECOVERY_HANDLER "tessera_sr.on_recovery"
#define TSR_SR_FAILURE_HANDLER "tessera_sr.on_failure"
/* A unit attribute of a function that is an entry because it is a handler (handlers.c). */
#define TSR_SR_HANDLER "tessera_sr.handler"
/* Maximum number of values that a region yields or an import returns; also of tensors of one
 * barrier. */
enum { TSR_SR_VALUES_MAX = 12 };

/* True if the names (of `mesh` of a declared shard: one string or several) are axes of the
 * module's tessera.mesh, each once and `axis` among them. Otherwise emits an error at `op`. */
bool tsr_sr_check_mesh(MlirOperation module, MlirOperation op, MlirAttribute names,
                       const char *axis);

/* If only `trains` writes tensors, the other entries gather the tensors that it writes in parts. */
void tsr_sr_gather_elsewhere(MlirModule module, MlirOperation trains);

/* A unit attribute of tessera_sr.vrank_part: its operand is summed as a whole, on every rank. */
#define TSR_SR_SUMMED "tessera_sr.summed"

/* Inlines the regions of resilience directly in the function, and its events, like
 * tessera-inline-regions. False after an error. */
bool tsr_sr_inline_regions(MlirOperation func);
#endif
