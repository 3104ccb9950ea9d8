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
