/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU device: which x86-64 level this machine has (the levels of the psABI: v2 SSE4.2, v3
 * AVX2+FMA, v4 AVX-512; v4-bf16: v4 with dot products of bf16 and of bytes) and the loader of
 * generated code objects.
 */
#ifndef TSR_RUNTIME_CPU_H
#define TSR_RUNTIME_CPU_H

#include "runtime/base/kernel.h"
#include "runtime/base/result.h"

/* Levels are in order: a CPU runs code of its own level and of all lower levels. */
enum { TSR_CPU_LEVEL_V4_BF16 = 5, TSR_CPU_LEVELS };

/* Returns 1 … 4 or TSR_CPU_LEVEL_V4_BF16. Counts only features that the operating system has
 * enabled, too. */
unsigned tsr_cpu_get_level(void);
/* "cpu:x86-64-v3" -> 3 (also without "cpu:"); 0 if `target` names no x86-64 level. */
unsigned tsr_cpu_parse_level(const char *target);
/* 3 -> "x86-64-v3"; level is 1 … TSR_CPU_LEVELS - 1. */
const char *tsr_cpu_level_name(unsigned level);

typedef struct tsr_code_object tsr_code_object;

/* Maps an ELF shared object from a sealed memory file, so that exactly the verified bytes run, and
 * finds its kernels. `bytes` may be released afterwards; a file descriptor is held until unload.
 * Any number of objects may be loaded at once, even if their kernels have equal names. Fails with
 * TSR_CORRUPT if the bytes are not a shared object or lack a kernel (the message names it),
 * TSR_MACHINE when the system has no sealed memory files, TSR_MEMORY. */
TSR_RESULT tsr_code_object_load(tsr_ctx *ctx, const void *bytes, size_t size_bytes,
                                const char *const *kernel_names, size_t kernel_count,
                                tsr_kernel_fn *out_kernels, tsr_code_object **out_object);
void tsr_code_object_unload(
    tsr_code_object *object); /* accepts NULL; its kernels must not be called any more */

#endif
