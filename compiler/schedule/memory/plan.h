/* SPDX-License-Identifier: Apache-2.0
 *
 * Assigns offsets in one workspace to the values of one entry. A value lives from the command that
 * writes it to the last command that reads it; values that live at the same command do not overlap.
 * A value may take over the memory of one that dies at the command that writes it (in-place
 * update).
 *
 * Method: values combined by take-overs form slots; slots get offsets one after another, each in
 * the smallest gap it fits between the slots that overlap it in time (best fit), in several fixed
 * orders; the smallest result wins. While the workspace is larger than the sum of the values alive
 * at the busiest command, slots that end at the peak come earlier, and all slots are assigned
 * again, a bounded number of times. Greedy by size is Pisarchyk & Lee, "Efficient Memory Management
 * for Deep Neural Net Inference", 2020, section 5.2. More than 8,192 slots are assigned in the
 * order of their commands (sweep.h).
 */
#ifndef TSR_COMPILER_SCHEDULE_MEMORY_PLAN_H
#define TSR_COMPILER_SCHEDULE_MEMORY_PLAN_H

#include "runtime/base/arena.h"
#include "runtime/base/result.h"

enum { TSR_PLAN_ALIGN_BYTES = 64 };

typedef struct tsr_plan_value {
    uint64_t size_bytes;     /* 0 is allowed: treated like a value of one byte */
    uint32_t first, last;    /* commands: written at `first`, read last at `last`; first <= last */
    const uint32_t *replace; /* values whose memory this one may take over, best first; each must
                              * have the same size, and its last must equal this value's first, else
                              * it is passed over. borrowed */
    uint32_t replace_count;
    uint32_t align_bytes; /* alignment of the offset: a power of two, or less than
                           * TSR_PLAN_ALIGN_BYTES */
} tsr_plan_value;

typedef struct tsr_workspace_plan {
    uint64_t *offset_bytes; /* one per value, multiples of TSR_PLAN_ALIGN_BYTES */
    uint64_t peak_bytes;    /* size of the workspace, a multiple of TSR_PLAN_ALIGN_BYTES */
    uint64_t floor_bytes;   /* bytes alive at the busiest command: no placement needs less */
    uint32_t replaced_count;
    bool *replaced; /* one per value: another value took over its memory */
} tsr_workspace_plan;

/* Fails with TSR_MEMORY when the sizes overflow or no memory is left. */
TSR_RESULT tsr_workspace_plan_build(tsr_ctx *ctx, const tsr_plan_value *values,
                                    uint32_t value_count, tsr_arena *arena,
                                    tsr_workspace_plan *out_plan);

#endif
