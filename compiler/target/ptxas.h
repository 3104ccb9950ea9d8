/* SPDX-License-Identifier: Apache-2.0
 *
 * PTX -> machine code, by the assembler of an installed CUDA toolkit.
 */
#ifndef TSR_COMPILER_TARGET_PTXAS_H
#define TSR_COMPILER_TARGET_PTXAS_H

#include "compiler/ir/targets/target.h"
#include "compiler/target/target.h"
#include "runtime/base/arena.h"

typedef struct tsr_ptxas {
    const char *path;        /* NULL: no assembler */
    const char *description; /* "13.0.88 sha256:…" */
} tsr_ptxas;

/* Uses `given`; otherwise the first one in the folders of `search_path` ("/usr/bin:/bin"), then of
 * `toolkit_path`; each may be NULL. Only an executable file counts. If no ptxas is found,
 * out_ptxas->path is NULL; TSR_USAGE if `given` is not an executable file that reports its version.
 */
TSR_RESULT tsr_ptxas_find(tsr_ctx *ctx, const char *given, const char *search_path,
                          const char *toolkit_path, tsr_arena *arena, tsr_ptxas *out_ptxas);

/* Warnings that the kernel differs from the requested one: warp-group instructions serialized,
 * register requests ignored. Ends with NULL. */
extern const char *const tsr_ptxas_refusals[];

/* Takes code that tsr_target_compile made for a GPU, and adds the machine code of its PTX before
 * it, and registers and spills of each kernel. TSR_COMPILE with the messages of ptxas if it refuses
 * the code, or if they contain one of tsr_ptxas_refusals. TSR_USAGE for a program that does not
 * write machine code of GPUs, or does not report the resources of each kernel; TSR_MACHINE if a
 * signal ended it. */
TSR_RESULT tsr_ptxas_assemble(tsr_ctx *ctx, const tsr_ptxas *ptxas, MlirModule tile_module,
                              const tsr_target *target, tsr_arena *arena, void **inout_bytes,
                              size_t *inout_size_bytes);

#endif
