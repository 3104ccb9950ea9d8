/* SPDX-License-Identifier: Apache-2.0
 *
 * The last step of code generation in each family of targets; runs in the child process.
 */
#ifndef TSR_COMPILER_TARGET_MACHINE_H
#define TSR_COMPILER_TARGET_MACHINE_H

#include "compiler/ir/targets/target.h"
#include "compiler/target/target.h"
#include "manifests/fatbin.h"
#include "runtime/base/buffer.h"

#include <llvm-c/Core.h>

/* One or two object files -> an ELF shared object, by LLD. */
TSR_RESULT tsr_cpu_link(tsr_ctx *ctx, const LLVMMemoryBufferRef *objects, size_t object_count,
                        tsr_buffer *out);
/* Object files -> an ELF shared object, by LLD with further flags, which end with NULL. */
TSR_RESULT tsr_link_shared(tsr_ctx *ctx, const LLVMMemoryBufferRef *objects, size_t object_count,
                           const char *const *flags, tsr_buffer *out);
/* Sets the version of the code object that the module becomes. */
void tsr_amdgpu_set_version(LLVMModuleRef module, const tsr_target *target);
/* An object file and the launch data of its kernels -> the bytes of manifests/fatbin.h. */
TSR_RESULT tsr_amdgpu_pack(tsr_ctx *ctx, const tsr_target *target, tsr_fatbin_kernel *launches,
                           const char *const *names, uint32_t kernel_count,
                           LLVMMemoryBufferRef object, tsr_buffer *out);
/* PTX and the launch data of its kernels -> the bytes of manifests/fatbin.h, with only PTX. */
TSR_RESULT tsr_nvptx_pack(tsr_ctx *ctx, const tsr_target *target, const tsr_fatbin_kernel *launches,
                          uint32_t kernel_count, LLVMMemoryBufferRef ptx, tsr_buffer *out);

#endif
