/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/ir/targets/target.h"
#include "compiler/target/machine.h"

tsr_result tsr_nvptx_pack(tsr_ctx *ctx, const tsr_target *target, const tsr_fatbin_kernel *launches,
                          uint32_t kernel_count, LLVMMemoryBufferRef ptx, tsr_buffer *out) {
    tsr_arena arena = {0};
    void *bytes = NULL;
    size_t size_bytes = 0;
    /* LLVM's buffers end with a NUL that their size does not count. */
    tsr_fatbin_image image = {.kind = TSR_FATBIN_PTX,
                              .arch = target->arch,
                              .exactly = target->arch_exactly,
                              .bytes = LLVMGetBufferStart(ptx),
                              .size_bytes = LLVMGetBufferSize(ptx) + 1};
    tsr_fatbin fatbin = {launches, kernel_count, &image, 1};
    TRY(ctx, tsr_fatbin_encode(ctx, &fatbin, &arena, &bytes, &size_bytes));
    tsr_buffer_append(out, bytes, size_bytes);
    tsr_arena_finish(&arena);
    return TSR_SUCCESS;
}
