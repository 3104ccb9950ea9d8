/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of code generation for CPUs: object files become a shared object. Runs in the child
 * process.
 */
#include "compiler/target/machine.h"

tsr_result tsr_cpu_link(tsr_ctx *ctx, const LLVMMemoryBufferRef *objects, size_t object_count,
                        tsr_buffer *out) {
    static const char *const flags[] = {"--strip-all", "--hash-style=gnu", "-znoexecstack",
                                        "-zmax-page-size=4096", NULL};
    return tsr_link_shared(ctx, objects, object_count, flags, out);
}
