/* SPDX-License-Identifier: Apache-2.0
 *
 * What a target is: the rows of targets.def.
 */
#ifndef TSR_COMPILER_IR_TARGET_H
#define TSR_COMPILER_IR_TARGET_H

#include "runtime/base/result.h"

enum {
    TSR_TILE_VECTORS_MAX = 4, /* width of a matmul tile, in vectors */
    TSR_TARGET_STACK_MAX = 1536 * 1024,
};

/* Speed of a device with its own memory, per second, for estimates. */
typedef struct tsr_device_rates {
    double flops, bytes;
    double copied_bytes;   /* to or from the host, one way */
    double launch_seconds; /* additional time of each launch */
} tsr_device_rates;

/* Targets of one family share their code generation. */
typedef enum tsr_family { TSR_FAMILY_CPU, TSR_FAMILY_CUDA, TSR_FAMILY_HIP } tsr_family;

typedef struct tsr_target {
    tsr_family family;
    const char *name;     /* "cpu:x86-64-v3", as in --target and in bundles */
    const char *triple;   /* LLVM's */
    const char *cpu;      /* LLVM's */
    const char *features; /* LLVM's, beyond the cpu */
    uint32_t vector_bytes;
    bool has_fma;           /* otherwise: multiply, round, add */
    bool has_f16c;          /* conversions between f16 and f32 */
    bool has_dot;           /* dot products of bf16: tile.dot is one instruction */
    bool has_vnni;          /* dot products of bytes, u8 by i8: tile.dot_bytes is one instruction */
    uint32_t warp_lanes;    /* lanes that run one program together; 0: one */
    uint32_t wave_lanes;    /* lanes that the GPU runs in lockstep: those of one or two programs */
    uint32_t arch;          /* GPU: 90 is compute capability 9.0; AMD: manifests/amd.def; CPU: 0 */
    bool arch_exactly;      /* the code only runs on this architecture */
    uint32_t arguments_max; /* GPU: buffers of a kernel with a batch of many buffers */
    tsr_device_rates rates; /* GPU; see targets.def */
    uint32_t matmul_rows[TSR_TILE_VECTORS_MAX]; /* see targets.def */
} tsr_target;

/* True if kernels may use matrix units of the target: all families of tile/gpu exist for it; only
 * that of products. */
bool tsr_target_has_matrix_units(const tsr_target *target);
bool tsr_target_has_matrix_products(const tsr_target *target);
/* TSR_USAGE lists the known names. */
TSR_RESULT tsr_target_find(tsr_ctx *ctx, const char *name, const tsr_target **out_target);
size_t tsr_target_count(void);
const tsr_target *tsr_target_get(size_t index); /* weakest first */
/* Bytes of shared memory that one program of a GPU may have; 0: a CPU. */
int64_t tsr_target_shared_bytes(const tsr_target *target);

#endif
