/* SPDX-License-Identifier: Apache-2.0
 *
 * The bundle of a compiled module: config, weights, and the blobs shared by all targets and of
 * each target, in the order of bundle/FORMAT.md.
 */
#ifndef TSR_COMPILER_PACKAGE_H
#define TSR_COMPILER_PACKAGE_H

#include "bundle/bundle.h"
#include "compiler/ir/mlir.h"
#include "manifests/config.h"
#include "manifests/program.h"

/* Checks that a config can hold the parameters and the optimizer state of a lowered program. If it
 * cannot, fails with TSR_COMPILE; the text gives their number and a remedy. */
TSR_RESULT tsr_package_check_tensors(tsr_ctx *ctx, MlirModule module);

/* Builds the config of a module of Schedule IR or Tile IR. Its tensors are the module's
 * parameters, optimizer state and constants; its entries are the module's functions. An entry that
 * reads the step has the step as its last input. `name` is used if the module has no name.
 * Everything is in the arena. TSR_COMPILE if the result is not a valid config. */
TSR_RESULT tsr_package_config(tsr_ctx *ctx, MlirModule module, const char *name, tsr_arena *arena,
                              tsr_config *out_config);
/* Finds the elements of the config's tensors of kind DATA in that module; null for others. One per
 * tensor, in the arena. */
TSR_RESULT tsr_package_data(tsr_ctx *ctx, MlirModule module, const tsr_config *config,
                            tsr_arena *arena, MlirAttribute **out_data);

/* The contents of the weights blob: the data that a module of Target IR lists. */
typedef struct tsr_package_weights {
    void *bytes; /* safetensors, data 64 KiB aligned; NULL if there are no weights */
    size_t size_bytes;
} tsr_package_weights;
TSR_RESULT tsr_package_weights_encode(tsr_ctx *ctx, MlirModule target_module,
                                      const tsr_config *config, tsr_arena *arena,
                                      tsr_package_weights *out_weights);

typedef struct tsr_package_target {
    const char *name;           /* "cpu:x86-64-v3" */
    const tsr_program *program; /* borrowed */
    bool is_gpu;
    const void
        *code; /* ELF shared object, or for a GPU the format of manifests/fatbin.h; borrowed */
    size_t code_size_bytes;
} tsr_package_target;

typedef struct tsr_package {
    const tsr_config *config;
    const char *graph; /* source Graph IR as text */
    size_t graph_size_bytes;
    const char *schedule; /* schedule as JSON */
    size_t schedule_size_bytes;
    const char *deployment; /* deployment manifest that the passes made from mesh and state, as
                             * JSON; NULL: no manifest */
    char *provenance;       /* bundle/provenance.h: the inputs of the build */
    size_t provenance_size_bytes;
    tsr_package_weights weights;
    const tsr_package_target *targets;
    size_t target_count;
} tsr_package;
/* Encodes config, deployment manifest and programs, and writes `path` whole or not at all. If the
 * deployment names a file, the manifest is also written there, next to the bundle. */
TSR_RESULT tsr_package_write(tsr_ctx *ctx, const char *path, const tsr_package *package,
                             tsr_arena *arena);

#endif
