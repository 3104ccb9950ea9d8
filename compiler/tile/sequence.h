/* SPDX-License-Identifier: Apache-2.0
 *
 * A group that becomes several kernels, which run one after the other, and the values that pass
 * between them: each call of the group becomes one call of each kernel, so that these values are
 * planned like all others.
 */
#ifndef TSR_COMPILER_TILE_SEQUENCE_H
#define TSR_COMPILER_TILE_SEQUENCE_H

#include "compiler/tile/region.h"

enum {
    TSR_SEQUENCE_STEPS_MAX = 10,
    TSR_SEQUENCE_ARGUMENTS_MAX = 16, /* values that a step reads or makes */
    TSR_SEQUENCE_RESULTS_MAX = 8,    /* results of the group */
};

/* Values are numbered: the group's inputs, then the outputs of its steps, in order. A step may
 * overwrite a value that no later step reads. */
typedef struct tsr_tile_step {
    const char *suffix; /* suffix of the kernel's name, after the group's name */
    uint32_t inputs[TSR_SEQUENCE_ARGUMENTS_MAX];
    uint32_t input_count, output_count;
    tsr_type outputs[TSR_SEQUENCE_ARGUMENTS_MAX];
    uint32_t over; /* 1 + the index of the input whose memory its only output shares: the step
                      writes the rest of that input; 0: no input */
    bool is_main;  /* the group's operations are counted for it */
    /* Emits the kernel: `step` is a group with these arguments. */
    tsr_result (*lower)(tsr_tile_group *step, const void *plan);
    const void *plan; /* argument of `lower`; NULL: the sequence's plan */
} tsr_tile_step;

typedef struct tsr_tile_sequence {
    tsr_tile_step steps[TSR_SEQUENCE_STEPS_MAX];
    uint32_t step_count;
    uint32_t results[TSR_SEQUENCE_RESULTS_MAX]; /* values that are the group's results */
    const void *plan;
} tsr_tile_sequence;

/* Replaces the calls of the group in the module that contains it. */
TSR_RESULT tsr_tile_call_sequence(tsr_tile_group *group, const tsr_tile_sequence *sequence,
                                  MlirBlock module);
/* rows/sums.c. *out_taken is false for a rows group without sums over rows, which is one kernel. */
TSR_RESULT tsr_tile_plan_rows(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                              bool *out_taken);
/* Makes a group with the arguments of step `index`. */
TSR_RESULT tsr_tile_step_group(const tsr_tile_group *group, const tsr_tile_sequence *sequence,
                               uint32_t index, tsr_tile_group *out_step);

#endif
