/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets of many values in one workspace, in time that grows only with their number: values are
 * allocated and freed in the order of their commands, like by an allocator at run time. Gaps are
 * kept in lists of similar sizes. Method: Masmano et al., "TLSF: A New Dynamic Memory Allocator
 * for Real-Time Systems", 2004, section 3, except that the list of the size itself is scanned
 * first, since many values have equal sizes.
 */
#ifndef TSR_COMPILER_SCHEDULE_MEMORY_SWEEP_H
#define TSR_COMPILER_SCHEDULE_MEMORY_SWEEP_H

#include "runtime/base/arena.h"
#include "runtime/base/result.h"

typedef struct tsr_sweep_value {
    uint64_t size, align; /* multiples of TSR_PLAN_ALIGN_BYTES; align is a power of two */
    uint32_t first, last; /* commands; last < UINT32_MAX */
    uint64_t offset;      /* the result */
} tsr_sweep_value;

/* Sweeps forward, or from the last command back: the offsets differ. TSR_MEMORY if sizes overflow
 * or memory runs out. */
TSR_RESULT tsr_memory_sweep(tsr_ctx *ctx, tsr_arena *arena, tsr_sweep_value *values, uint32_t count,
                            bool backward, uint64_t *out_peak);

#endif
