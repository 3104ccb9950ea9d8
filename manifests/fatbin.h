/* SPDX-License-Identifier: Apache-2.0
 *
 * Code for GPUs: one or more images of the same kernels (machine code of one architecture, or text
 * that a driver translates), and how each kernel is launched. Plain structs <-> bytes
 * (application/vnd.tessera.fatbin.v1, layout in manifests/README.md).
 */
#ifndef TSR_MANIFESTS_FATBIN_H
#define TSR_MANIFESTS_FATBIN_H

#include "runtime/base/arena.h"
#include "runtime/base/result.h"

enum {
    TSR_FATBIN_VERSION = 1,
    TSR_FATBIN_IMAGES_MAX = 16,
    TSR_FATBIN_KERNELS_MAX = 1 << 20,
    TSR_FATBIN_THREADS_MAX = 1024,        /* of a block */
    TSR_FATBIN_SHARED_MAX = 256 * 1024,   /* bytes, of a block */
    TSR_FATBIN_SCRATCH_MAX = 1024 * 1024, /* bytes, of a block */
    TSR_FATBIN_REGISTERS_MAX = 1024,      /* of a thread */
};

typedef enum tsr_fatbin_kind {
    TSR_FATBIN_CUBIN = 1, /* ELF */
    TSR_FATBIN_PTX = 2,   /* text, ends with a NUL */
} tsr_fatbin_kind;

typedef struct tsr_fatbin_image {
    tsr_fatbin_kind kind;
    uint32_t arch; /* 90: compute capability 9.0 */
    bool exactly;  /* runs on that capability alone: sm_90a */
    const void *bytes;
    size_t size_bytes;
} tsr_fatbin_image;

typedef struct tsr_fatbin_kernel {
    uint32_t threads;       /* of a block */
    uint32_t programs;      /* of the grid that a block runs at a time */
    uint32_t shared_bytes;  /* of a block, beyond what the code declares itself */
    uint32_t scratch_bytes; /* of a block, in device memory */
    /* for people: */
    uint32_t registers;    /* of a thread; 0 unknown */
    uint32_t static_bytes; /* shared memory that the code declares */
    uint32_t spill_bytes;
} tsr_fatbin_kernel;

typedef struct tsr_fatbin {
    const tsr_fatbin_kernel *kernels; /* in the order of the program's */
    uint32_t kernel_count;
    const tsr_fatbin_image *images;
    uint32_t image_count; /* at least 1 */
} tsr_fatbin;

TSR_RESULT tsr_fatbin_encode(tsr_ctx *ctx, const tsr_fatbin *fatbin, tsr_arena *arena,
                             void **out_bytes, size_t *out_size_bytes);
/* Images point into `bytes`, the rest lies in the arena. TSR_CORRUPT names the field and both
 * values; nothing of another layout, and no byte beyond it, passes. */
TSR_RESULT tsr_fatbin_decode(tsr_ctx *ctx, const void *bytes, size_t size_bytes, tsr_arena *arena,
                             tsr_fatbin *out_fatbin);

/* The image for a device of compute capability `capability` (90): machine code before text, the
 * nearest architecture first; NULL if there is none. Machine code runs on its own major capability
 * from its minor one on, text on every later one; what runs `exactly` on one runs on that. */
const tsr_fatbin_image *tsr_fatbin_match(const tsr_fatbin *fatbin, uint32_t capability);

#endif
