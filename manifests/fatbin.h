/* SPDX-License-Identifier: Apache-2.0
 *
 * Code for GPUs: one or more images of the same kernels (machine code for one architecture, or PTX
 * that a driver translates), and how each kernel is launched. Plain structs <-> bytes
 * (application/vnd.tessera.fatbin.v1, layout in manifests/README.md).
 */
#ifndef TSR_MANIFESTS_FATBIN_H
#define TSR_MANIFESTS_FATBIN_H

#include "runtime/base/arena.h"
#include "runtime/base/result.h"

enum {
    TSR_FATBIN_VERSION = 5,
    TSR_FATBIN_IMAGES_MAX = 16,
    TSR_FATBIN_KERNELS_MAX = 1 << 22,
    TSR_FATBIN_THREADS_MAX = 1024,        /* threads per block */
    TSR_FATBIN_SHARED_MAX = 256 * 1024,   /* bytes per block */
    TSR_FATBIN_SCRATCH_MAX = 1024 * 1024, /* bytes per block */
    TSR_FATBIN_REGISTERS_MAX = 1024,      /* registers per thread */
    TSR_FATBIN_BLOCKS_MAX = 32,           /* blocks per multiprocessor */
    TSR_FATBIN_MAPS_MAX = 8,              /* maps per kernel */
    TSR_FATBIN_MAPS_FEW = 4,              /* maps per kernel before version 3 */
    TSR_FATBIN_MAP_RANK_MAX = 5,
    TSR_FATBIN_BOX_MAX = 256,
    TSR_FATBIN_ARGUMENTS_MAX = 256, /* buffers per kernel */
    TSR_FATBIN_SWIZZLE_MAX = 128,
};

typedef enum tsr_fatbin_kind {
    TSR_FATBIN_CUBIN = 1, /* ELF */
    TSR_FATBIN_PTX = 2,   /* text, NUL-terminated */
    TSR_FATBIN_HSACO = 3, /* ELF, for AMD GPUs; since version 5 */
} tsr_fatbin_kind;

typedef struct tsr_fatbin_image {
    tsr_fatbin_kind kind;
    uint32_t arch; /* 90: compute capability 9.0; HSACO: manifests/amd.def */
    bool exactly;  /* runs on that capability only: sm_90a; on that GPU only, not generic: gfx942 */
    const void *bytes;
    size_t size_bytes;
} tsr_fatbin_image;

typedef enum tsr_fatbin_element {
    TSR_FATBIN_BF16 = 1,
    TSR_FATBIN_F16 = 2,
    TSR_FATBIN_F32 = 3,
    TSR_FATBIN_TF32 = 4, /* f32, rounded to 10 fraction bits during the copy */
} tsr_fatbin_element;

/* The device's copy engine's view of an argument: consecutive boxes of rows of an array. */
typedef struct tsr_fatbin_map {
    uint32_t argument; /* index of the kernel's argument */
    uint32_t element;  /* tsr_fatbin_element */
    uint32_t rank;     /* 2 to TSR_FATBIN_MAP_RANK_MAX */
    uint32_t box_rows, box_columns;
    uint32_t swizzle_bytes;                 /* 128, or 0: no swizzle */
    uint64_t dims[TSR_FATBIN_MAP_RANK_MAX]; /* the last one, along rows, is first; 1 beyond rank */
    uint64_t pitch; /* since version 4: elements from row to row; 0: rows are contiguous */
} tsr_fatbin_map;

typedef struct tsr_fatbin_kernel {
    uint32_t threads;       /* threads per block */
    uint32_t programs;      /* programs of the grid that a block runs at a time */
    uint32_t shared_bytes;  /* shared memory per block, in addition to the memory that the code
                               declares */
    uint32_t scratch_bytes; /* device memory per block */
    /* informative only: */
    uint32_t registers;    /* registers per thread; 0: unknown */
    uint32_t static_bytes; /* shared memory that the code declares */
    uint32_t spill_bytes;
    /* since version 2; maps beyond TSR_FATBIN_MAPS_FEW since version 3: */
    uint32_t blocks; /* blocks resident on a multiprocessor at a time; they loop over the others. 0:
                        one for each of `programs` */
    uint32_t map_count; /* the kernel's last arguments are maps */
    tsr_fatbin_map maps[TSR_FATBIN_MAPS_MAX];
    /* since version 5, of AMD GPUs, informative only: `registers` counts vector registers, */
    uint32_t scalar_registers;
    uint32_t accumulators; /* those of the vector registers that matrix units add to */
} tsr_fatbin_kernel;

typedef struct tsr_fatbin {
    const tsr_fatbin_kernel *kernels; /* same order as the program's kernels */
    uint32_t kernel_count;
    const tsr_fatbin_image *images;
    uint32_t image_count; /* at least 1 */
} tsr_fatbin;

TSR_RESULT tsr_fatbin_encode(tsr_ctx *ctx, const tsr_fatbin *fatbin, tsr_arena *arena,
                             void **out_bytes, size_t *out_size_bytes);
/* Images point into `bytes`; everything else is in the arena. TSR_CORRUPT names the field and both
 * values. Any other layout or trailing bytes are refused. */
TSR_RESULT tsr_fatbin_decode(tsr_ctx *ctx, const void *bytes, size_t size_bytes, tsr_arena *arena,
                             tsr_fatbin *out_fatbin);

/* Returns the image for a device of compute capability `capability` (90): machine code rather than
 * PTX, the nearest architecture first; NULL if no image fits. Machine code runs on its own major
 * capability, from its minor one on; PTX runs on every later capability; an image that is marked
 * `exactly` runs on its own capability only. */
const tsr_fatbin_image *tsr_fatbin_match(const tsr_fatbin *fatbin, uint32_t capability);
/* Returns the image for an AMD GPU of that architecture (manifests/amd.def): its own code rather
 * than generic code; NULL if no image fits. */
const tsr_fatbin_image *tsr_fatbin_match_amd(const tsr_fatbin *fatbin, uint32_t arch);

/* Returns the number of blocks of the kernel that fit on a multiprocessor of that architecture (80,
 * 90, 100), limited by threads, registers and shared memory; 0 if the architecture or the register
 * count is unknown. Source: NVIDIA, "CUDA C++ Programming Guide", technical specifications per
 * compute capability. */
uint32_t tsr_fatbin_resident(const tsr_fatbin_kernel *kernel, uint32_t arch);

#endif
