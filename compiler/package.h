/* SPDX-License-Identifier: Apache-2.0
 *
 * What a bundle says about a compiled module, and the bundle itself: config, weights, and the blobs
 * shared by all targets and of each target, in the order of bundle/FORMAT.md.
 */
#ifndef TSR_COMPILER_PACKAGE_H
#define TSR_COMPILER_PACKAGE_H

#include "bundle/bundle.h"
#include "compiler/mlir.h"
#include "manifests/config.h"
#include "manifests/program.h"

/* Whether a config can hold the parameters and the optimizer state of a lowered program:
 * TSR_COMPILE with how many there are and what can be done when it cannot. */
TSR_RESULT tsr_package_check_tensors(tsr_ctx *ctx, MlirModule module);

/* The config of a module of Schedule IR or Tile IR: tensors are its parameters,
 * optimizer state and constants; entries its functions; an entry that reads the step has an input
 * for it, the last one. `name` is used where the module has none. Everything is in the arena.
 * TSR_COMPILE when it is not a valid config. */
TSR_RESULT tsr_package_config(tsr_ctx *ctx, MlirModule module, const char *name, tsr_arena *arena,
                              tsr_config *out_config);
/* The elements of the config's tensors of kind DATA, as that module holds them; null for others.
 * One per tensor, in the arena. */
TSR_RESULT tsr_package_data(tsr_ctx *ctx, MlirModule module, const tsr_config *config,
                            tsr_arena *arena, MlirAttribute **out_data);

/* What the weights blob holds: the data that a module of Target IR lists. */
typedef struct tsr_package_weights {
    void *bytes; /* safetensors, data 64 KiB aligned; NULL when there are none */
    size_t size_bytes;
} tsr_package_weights;
TSR_RESULT tsr_package_weights_encode(tsr_ctx *ctx, MlirModule target_module,
                                      const tsr_config *config, tsr_arena *arena,
                                      tsr_package_weights *out_weights);

typedef struct tsr_package_target {
    const char *name;           /* "cpu:x86-64-v3" */
    const tsr_program *program; /* borrowed */
    bool is_gpu;
    const void *code; /* ELF shared object; of a GPU, manifests/fatbin.h; borrowed */
    size_t code_size_bytes;
} tsr_package_target;

typedef struct tsr_package {
    const tsr_config *config;
    const char *graph; /* source Graph IR as text */
    size_t graph_size_bytes;
    const char *schedule; /* schedule as JSON */
    size_t schedule_size_bytes;
    const char *deployment; /* what passes made of mesh and state, as JSON; NULL: nothing */
    char *provenance;       /* bundle/provenance.h: what it was built from */
    size_t provenance_size_bytes;
    tsr_package_weights weights;
    const tsr_package_target *targets;
    size_t target_count;
} tsr_package;
/* Encodes config, deployment manifest and programs, and writes `path` whole or not at all; and the
 * manifest beside it where the deployment names a file. */
TSR_RESULT tsr_package_write(tsr_ctx *ctx, const char *path, const tsr_package *package,
                             tsr_arena *arena);

#endif
