/* SPDX-License-Identifier: Apache-2.0
 *
 * A group that becomes several kernels, which run one after the other, and what passes between
 * them: each call of the group becomes a call of each kernel, so that all of it is planned as
 * values are.
 */
#ifndef TSR_COMPILER_TILE_SEQUENCE_H
#define TSR_COMPILER_TILE_SEQUENCE_H

#include "compiler/tile/region.h"

enum {
    TSR_SEQUENCE_STEPS_MAX = 10,
    TSR_SEQUENCE_ARGUMENTS_MAX = 16, /* of a step, that it reads, or makes */
    TSR_SEQUENCE_RESULTS_MAX = 8,    /* of the group */
};

/* Values are numbered: the group's inputs, then what its steps make, in their order. A step may
 * write what it reads, where no later one reads it. */
typedef struct tsr_tile_step {
    const char *suffix; /* of the kernel's name, behind the group's */
    uint32_t inputs[TSR_SEQUENCE_ARGUMENTS_MAX];
    uint32_t input_count, output_count;
    tsr_type outputs[TSR_SEQUENCE_ARGUMENTS_MAX];
    uint32_t over; /* 1 + which of its inputs its one output lies over: it writes the rest of what
                      is there; 0: none */
    bool is_main;  /* the group's operations count as its */
    /* Writes it: `step` is a group of these arguments. */
    tsr_result (*lower)(tsr_tile_group *step, const void *plan);
    const void *plan; /* what it gets; NULL: the sequence's */
} tsr_tile_step;

typedef struct tsr_tile_sequence {
    tsr_tile_step steps[TSR_SEQUENCE_STEPS_MAX];
    uint32_t step_count;
    uint32_t results[TSR_SEQUENCE_RESULTS_MAX]; /* values that are the group's */
    const void *plan;
} tsr_tile_sequence;

/* Replaces the calls of the group, in the module that holds it. */
TSR_RESULT tsr_tile_call_sequence(tsr_tile_group *group, const tsr_tile_sequence *sequence,
                                  MlirBlock module);
/* rows/sums.c. *out_taken false: a rows group without sums over rows, one kernel. */
TSR_RESULT tsr_tile_plan_rows(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                              bool *out_taken);
/* The arguments of step `index` as those of a group. */
TSR_RESULT tsr_tile_step_group(const tsr_tile_group *group, const tsr_tile_sequence *sequence,
                               uint32_t index, tsr_tile_group *out_step);

#endif
