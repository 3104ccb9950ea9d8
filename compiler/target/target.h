/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets, and code generation for them: Tile IR -> LLVM IR -> object -> ELF shared object.
 *
 * All calls of LLVM run in a forked child with a memory and a time limit, because LLVM aborts if it
 * cannot select an instruction: a failure of the child is TSR_INTERNAL and names the kernel being
 * compiled. MLIR's threads must be off in the caller's context
 * (mlirContextEnableMultithreading(context, false)): a forked child has only the calling thread.
 *
 * The shared object exports one function per tile.func (runtime/base/kernel.h), imports nothing,
 * and contains no path, date or host name: the bytes are a function of module, target and LLVM
 * version. Kernels use at most TSR_TARGET_STACK_MAX bytes of stack.
 */
#ifndef TSR_COMPILER_TARGET_TARGET_H
#define TSR_COMPILER_TARGET_TARGET_H

#include "compiler/ir/targets/target.h"
#include "runtime/base/arena.h"
#include "runtime/base/result.h"

#include <mlir-c/IR.h>

/* TSR_COMPILE, after TSR-0511 was emitted, if a tile.func of the module has an op without machine
 * code on the target. */
TSR_RESULT tsr_target_check(tsr_ctx *ctx, MlirModule tile_module, const tsr_target *target);
/* Compiles a module of tile.func. The ELF bytes are in the arena. */
TSR_RESULT tsr_target_compile(tsr_ctx *ctx, MlirModule tile_module, const tsr_target *target,
                              tsr_arena *arena, void **out_elf, size_t *out_size_bytes);

typedef enum tsr_target_text {
    TSR_TARGET_LLVM = 1, /* LLVM IR, after its passes */
    TSR_TARGET_ASM = 2,  /* assembly */
} tsr_target_text;

/* Returns the compiler's output for the module as NUL-terminated text in the arena. */
TSR_RESULT tsr_target_dump(tsr_ctx *ctx, MlirModule tile_module, const tsr_target *target,
                           tsr_target_text kind, tsr_arena *arena, char **out_text);

#endif
