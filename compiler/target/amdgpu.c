/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of code generation for AMD GPUs: an object file becomes a code object, in the form that a
 * bundle holds. Runs in the child process.
 *
 * Generic architectures need version 6 of the code object. All others have version 4, which every
 * driver since ROCm 4.5 loads. Source: LLVM, "User Guide for AMDGPU Backend".
 */
#include "compiler/target/link.h"
#include "compiler/target/machine.h"
#include "manifests/amd.h"

#include <stdlib.h>
#include <string.h>

void tsr_amdgpu_set_version(LLVMModuleRef module, const tsr_target *target) {
    static const char name[] = "amdhsa_code_object_version";
    enum { LISTED = 400, GENERIC = 600 };
    LLVMContextRef llvm = LLVMGetModuleContext(module);
    int version = tsr_amd_is_generic(target->arch) ? GENERIC : LISTED;
    LLVMValueRef value = LLVMConstInt(LLVMInt32TypeInContext(llvm), (unsigned)version, false);
    LLVMAddModuleFlag(module, LLVMModuleFlagBehaviorError, name, sizeof name - 1,
                      LLVMValueAsMetadata(value));
}

/* Adds what the code object's metadata says about the resources of each kernel. */
static tsr_result read_resources(tsr_ctx *ctx, const tsr_buffer *elf, tsr_fatbin_kernel *launches,
                                 const char *const *names, uint32_t kernel_count) {
    char message[200];
    tsr_code_resources *rows = calloc(kernel_count + 1, sizeof *rows);
    if (!rows) FAIL(ctx, TSR_MEMORY, "no memory for %u kernels", kernel_count);
    bool read = tsr_read_code_object(elf->bytes, elf->size_bytes, kernel_count, names, rows,
                                     sizeof message, message);
    for (uint32_t i = 0; i < kernel_count; i++) {
        launches[i].registers = rows[i].vector_registers;
        launches[i].scalar_registers = rows[i].scalar_registers;
        launches[i].accumulators = rows[i].accumulators;
        launches[i].static_bytes = rows[i].shared_bytes;
        launches[i].spill_bytes = rows[i].private_bytes;
    }
    free(rows);
    if (!read) FAIL(ctx, TSR_INTERNAL, "the metadata of the code object: %s", message);
    return TSR_SUCCESS;
}

tsr_result tsr_amdgpu_pack(tsr_ctx *ctx, const tsr_target *target, tsr_fatbin_kernel *launches,
                           const char *const *names, uint32_t kernel_count,
                           LLVMMemoryBufferRef object, tsr_buffer *out) {
    static const char *const flags[] = {NULL};
    tsr_arena arena = {0};
    tsr_buffer elf = {0};
    void *bytes = NULL;
    size_t size_bytes = 0;
    TRY(ctx, tsr_link_shared(ctx, &object, 1, flags, &elf));
    TRY(ctx, read_resources(ctx, &elf, launches, names, kernel_count));
    tsr_fatbin_image image = {.kind = TSR_FATBIN_HSACO,
                              .arch = target->arch,
                              .exactly = target->arch_exactly,
                              .bytes = elf.bytes,
                              .size_bytes = elf.size_bytes};
    tsr_fatbin fatbin = {launches, kernel_count, &image, 1};
    TRY(ctx, tsr_fatbin_encode(ctx, &fatbin, &arena, &bytes, &size_bytes));
    tsr_buffer_append(out, bytes, size_bytes);
    tsr_arena_finish(&arena);
    tsr_buffer_finish(&elf);
    return TSR_SUCCESS;
}
