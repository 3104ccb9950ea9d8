/* SPDX-License-Identifier: Apache-2.0
 *
 * Places of many values in one workspace, in time that grows with their number alone: they are
 * taken and given back in the order of their commands, as by an allocator at run time. Gaps lie in
 * lists of about equal sizes. Method: Masmano et al., "TLSF: A New Dynamic Memory Allocator for
 * Real-Time Systems", 2004, section 3; but that the list of the size itself is scanned
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

/* Forward, or from the last command back: the places differ. TSR_MEMORY where sizes overflow or
 * there is no memory. */
TSR_RESULT tsr_memory_sweep(tsr_ctx *ctx, tsr_arena *arena, tsr_sweep_value *values, uint32_t count,
                            bool backward, uint64_t *out_peak);

#endif
