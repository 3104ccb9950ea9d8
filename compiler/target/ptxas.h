/* SPDX-License-Identifier: Apache-2.0
 *
 * PTX -> machine code, by the assembler of an installed CUDA toolkit.
 */
#ifndef TSR_COMPILER_TARGET_PTXAS_H
#define TSR_COMPILER_TARGET_PTXAS_H

#include "compiler/target/target.h"
#include "runtime/base/arena.h"

typedef struct tsr_ptxas {
    const char *path;        /* NULL: there is none */
    const char *description; /* "13.0.88 sha256:…" */
} tsr_ptxas;

/* `given`, else the first of the folders of `search_path` ("/usr/bin:/bin"), else of those of
 * `toolkit_path`, each NULL for none; only a file that runs counts. Without any out_ptxas->path is
 * NULL; a `given` that is no file that runs and tells its version is TSR_USAGE. */
TSR_RESULT tsr_ptxas_find(tsr_ctx *ctx, const char *given, const char *search_path,
                          const char *toolkit_path, tsr_arena *arena, tsr_ptxas *out_ptxas);

/* Advice that a kernel has become another one than was asked for: warp-group instructions
 * serialized, register requests ignored. Ends with NULL. */
extern const char *const tsr_ptxas_refusals[];

/* Code as tsr_target_compile makes it for a GPU, with the machine code of its PTX added before it,
 * and registers and spills of each kernel. TSR_COMPILE with what ptxas says when it refuses; also
 * where it says one of tsr_ptxas_refusals. TSR_USAGE for one that writes no machine code of GPUs,
 * or does not tell what each kernel takes; TSR_MACHINE where a signal ended it. */
TSR_RESULT tsr_ptxas_assemble(tsr_ctx *ctx, const tsr_ptxas *ptxas, MlirModule tile_module,
                              const tsr_target *target, tsr_arena *arena, void **inout_bytes,
                              size_t *inout_size_bytes);

#endif
