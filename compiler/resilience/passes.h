/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes of this folder, one file each; see passes.def for names. False after an error.
 */
#ifndef TSR_COMPILER_RESILIENCE_PASSES_H
#define TSR_COMPILER_RESILIENCE_PASSES_H

#include "compiler/mlir.h"

/* On programs that autodiff has run on. */
#define TSR_SR_PIPELINE                                                                            \
    "canonicalize,cse,tessera-optimizer-shard,tessera-insert-recompute,"                           \
    "tessera-resilience-restart,tessera-export-deployment-manifest"

bool tsr_pass_handlers(MlirModule module);                   /* handlers.c */
bool tsr_pass_open_regions(MlirModule module);               /* open.c */
bool tsr_pass_optimizer_shard(MlirModule module);            /* shard.c */
bool tsr_pass_local_collectives(MlirModule module);          /* collectives.c */
bool tsr_pass_insert_recompute(MlirModule module);           /* recompute.c */
bool tsr_pass_resilience_restart(MlirModule module);         /* restart.c */
bool tsr_pass_export_deployment_manifest(MlirModule module); /* manifest.c */
bool tsr_pass_virtual_ranks(MlirModule module);              /* virtual_ranks.c */

#endif
