/* SPDX-License-Identifier: Apache-2.0
 *
 * Architectures of AMD GPUs: the rows of amd.def.
 */
#ifndef TSR_MANIFESTS_AMD_H
#define TSR_MANIFESTS_AMD_H

#include "manifests/fatbin.h"

typedef struct tsr_amd {
    const char *name; /* "gfx942" */
    uint32_t arch;    /* 0x942 */
    uint32_t generic; /* its generic architecture; 0: none */
    uint32_t wave_lanes;
    /* of a SIMD; *_unit: allocated at once */
    uint32_t registers, registers_unit, waves, scalar_registers;
    uint32_t shared_bytes, shared_unit;
    uint32_t simds; /* that share the shared memory */
    /* The vendor's figures for one GPU of this architecture; 0: unknown. */
    uint32_t units, mhz;            /* compute units, their highest clock */
    uint32_t matrix_16, matrix_f32; /* FLOP per cycle of a compute unit, on matrix units; 0: none */
    uint32_t vector_f32, memory_gbs; /* without matrix units; GB/s */
    uint32_t depth_16, depth_f32;    /* of one product of matrix units; 0: none, or unknown */
} tsr_amd;

/* NULL: unknown. Features after the name, as in "gfx90a:sramecc+:xnack-", are ignored. */
const tsr_amd *tsr_amd_find(const char *name);
const tsr_amd *tsr_amd_get(uint32_t arch);
bool tsr_amd_is_generic(uint32_t arch);
/* Does code for architecture `code` run on a GPU of architecture `gpu`? */
bool tsr_amd_runs(uint32_t code, uint32_t gpu);

/* Returns the waves of the kernel that fit on a SIMD at a time, limited by its registers and by the
 * block's shared memory; 0: unknown. */
uint32_t tsr_amd_waves(const tsr_fatbin_kernel *kernel, uint32_t arch);

#endif
