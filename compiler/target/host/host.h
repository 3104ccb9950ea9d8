/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile IR -> Target IR -> host program. A module of Target IR contains everything about one target:
 * `module @device` with the tile.funcs, a tessera_target.kernel for each, the data of tensors, and
 * a tessera_target.func for each entry. The func says which kernel runs when and on which memory
 * (host/plan.h).
 */
#ifndef TSR_COMPILER_TARGET_HOST_HOST_H
#define TSR_COMPILER_TARGET_HOST_HOST_H

#include "compiler/graph/graph.h"
#include "compiler/ir/mlir.h"
#include "manifests/program.h"

/* The name of the nested module of device code. */
#define TSR_TARGET_DEVICE TSR_DEVICE_NAME

/* Rewrites a module of Tile IR (tile/tile.h) in place. `config` describes its tensors and entries
 * (schedule/config.h). TSR_INTERNAL when the tile stage cannot have made the module. */
TSR_RESULT tsr_host_lower(tsr_ctx *ctx, MlirModule module, const tsr_config *config,
                          tsr_arena *arena);

/* The module of device code, the input of tsr_target_compile. Fails with TSR_COMPILE if the module
 * has no device code. The result is part of `module` and must not be destroyed. */
TSR_RESULT tsr_host_device(tsr_ctx *ctx, MlirModule module, MlirModule *out_device);

/* The host program of a module of Target IR, checked against `config`. All its memory is in the
 * arena, or lives as long as the module. TSR_COMPILE names the rule that the program breaks. */
TSR_RESULT tsr_host_program(tsr_ctx *ctx, MlirModule module, const tsr_config *config,
                            tsr_arena *arena, tsr_program *out_program);

/* The texts that a written module carries in addition to its own level. With these documents, the
 * module alone is sufficient input for the next stage. */
typedef enum tsr_document {
    TSR_DOCUMENT_NAME,       /* the model's name if its module has no name */
    TSR_DOCUMENT_GRAPH,      /* the source as Graph IR, with locations */
    TSR_DOCUMENT_SCHEDULE,   /* the schedule as JSON */
    TSR_DOCUMENT_CONFIG,     /* the config as JSON (manifests/config.h) */
    TSR_DOCUMENT_DEPLOYMENT, /* the passes' results about mesh and state (manifests/deployment.h) */
    TSR_DOCUMENT_COUNT
} tsr_document;
const char *tsr_document_name(tsr_document document); /* "name", "graph", … */
/* Appends tessera_target.documents to the module, those that are not NULL. */
void tsr_documents_add(MlirModule module, const char *const texts[static TSR_DOCUMENT_COUNT]);
/* Takes them out of the module again; the texts live as long as the context, NULL where absent. */
void tsr_documents_take(MlirModule module, const char *out_texts[static TSR_DOCUMENT_COUNT]);

#endif
