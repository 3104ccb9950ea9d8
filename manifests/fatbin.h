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
    TSR_FATBIN_VERSION = 4,
    TSR_FATBIN_IMAGES_MAX = 16,
    TSR_FATBIN_KERNELS_MAX = 1 << 22,
    TSR_FATBIN_THREADS_MAX = 1024,        /* of a block */
    TSR_FATBIN_SHARED_MAX = 256 * 1024,   /* bytes, of a block */
    TSR_FATBIN_SCRATCH_MAX = 1024 * 1024, /* bytes, of a block */
    TSR_FATBIN_REGISTERS_MAX = 1024,      /* of a thread */
    TSR_FATBIN_BLOCKS_MAX = 32,           /* of a multiprocessor */
    TSR_FATBIN_MAPS_MAX = 8,              /* of a kernel */
    TSR_FATBIN_MAPS_FEW = 4,              /* before version 3, which more than these need */
    TSR_FATBIN_MAP_RANK_MAX = 5,
    TSR_FATBIN_BOX_MAX = 256,
    TSR_FATBIN_ARGUMENTS_MAX = 256, /* buffers of a kernel */
    TSR_FATBIN_SWIZZLE_MAX = 128,
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

typedef enum tsr_fatbin_element {
    TSR_FATBIN_BF16 = 1,
    TSR_FATBIN_F16 = 2,
    TSR_FATBIN_F32 = 3,
    TSR_FATBIN_TF32 = 4, /* f32, rounded to 10 bits of fraction as it is copied */
} tsr_fatbin_element;

/* How the device's copy engine sees an argument: boxes of rows of an array, which follow each
 * other.
 */
typedef struct tsr_fatbin_map {
    uint32_t argument; /* of the kernel */
    uint32_t element;  /* tsr_fatbin_element */
    uint32_t rank;     /* 2 to TSR_FATBIN_MAP_RANK_MAX */
    uint32_t box_rows, box_columns;
    uint32_t swizzle_bytes; /* 128, or 0: none */
    uint64_t
        dims[TSR_FATBIN_MAP_RANK_MAX]; /* the last one, along rows, first; beyond the rank: 1 */
    uint64_t pitch; /* since version 4: elements from row to row; 0: as many as a row has */
} tsr_fatbin_map;

typedef struct tsr_fatbin_kernel {
    uint32_t threads;       /* of a block */
    uint32_t programs;      /* of the grid that a block runs at a time */
    uint32_t shared_bytes;  /* of a block, beyond what the code declares itself */
    uint32_t scratch_bytes; /* of a block, in device memory */
    /* for people: */
    uint32_t registers;    /* of a thread; 0 unknown */
    uint32_t static_bytes; /* shared memory that the code declares */
    uint32_t spill_bytes;
    /* since version 2, maps beyond TSR_FATBIN_MAPS_FEW since version 3: */
    uint32_t blocks;    /* that run at a time on a multiprocessor and take the rest in turn; 0:
                           one for each of `programs` */
    uint32_t map_count; /* its last arguments */
    tsr_fatbin_map maps[TSR_FATBIN_MAPS_MAX];
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

/* Blocks of the kernel that a multiprocessor of that architecture (80, 90, 100) has room for, by
 * its threads, registers and shared memory; 0 where the architecture or the registers are not
 * known. Source: NVIDIA, "CUDA C++ Programming Guide", technical specifications per compute
 * capability. */
uint32_t tsr_fatbin_resident(const tsr_fatbin_kernel *kernel, uint32_t arch);

#endif
