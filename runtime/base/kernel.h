/* SPDX-License-Identifier: Apache-2.0
 *
 * The binary interface between generated CPU code and the runtime. A code object is an ELF shared
 * object without dependencies (no libc, no libm) that exports one function per kernel.
 *
 *     void NAME(const tsr_kernel_args *args, int64_t begin, int64_t end);
 *
 * runs the programs begin … end-1 of the kernel's grid. Programs of one launch are independent:
 * threads and order never change a bit of the result.
 */
#ifndef TSR_BASE_KERNEL_H
#define TSR_BASE_KERNEL_H

#include <stdint.h>

enum {
    TSR_KERNEL_ABI_VERSION = 1,
    /* Alignment of every buffer that a kernel writes. One that it only reads may be aligned to its
     * elements: an input in memory of the caller. */
    TSR_BUFFER_ALIGN_BYTES = 64,
};

typedef enum tsr_fault_kind {
    TSR_FAULT_NONE = 0,
    TSR_FAULT_INDEX = 1, /* an index or label outside [0, limit) */
} tsr_fault_kind;

/* A kernel writes it when it finds a bad value (the first one); the kernel then continues without
 * accesses outside its buffers. Zeroed by the runtime before each call. */
typedef struct tsr_fault {
    int64_t kind;     /* tsr_fault_kind */
    int64_t argument; /* index in buffers */
    int64_t element;  /* flat index in that buffer */
    int64_t value;    /* the bad value */
    int64_t limit;    /* the allowed range is [0, limit) */
} tsr_fault;

typedef struct tsr_kernel_args {
    void *const *buffers; /* one per argument of the launch, in order */
    tsr_fault *fault;     /* belongs to this thread */
} tsr_kernel_args;

typedef void (*tsr_kernel_fn)(const tsr_kernel_args *args, int64_t begin, int64_t end);

#endif
