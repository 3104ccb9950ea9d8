/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel's fault means to the user. For executor.c.
 */
#ifndef TSR_RUNTIME_FAULT_H
#define TSR_RUNTIME_FAULT_H

#include "manifests/program.h"
#include "runtime/base/kernel.h"

/* Where it was met; borrowed. */
typedef struct tsr_fault_place {
    const tsr_config *config;
    const tsr_config_entry *entry;
    const tsr_program_entry *program;
    const tsr_program_command *command;
    int64_t leaf;       /* virtual rank whose rows the command worked on; -1: all there are */
    uint64_t first_row; /* of the batch: of what the command worked on */
    const uint64_t
        *iterations; /* that the loops it stands in had come to, from 0, outermost first */
    uint32_t depth;  /* how many */
} tsr_fault_place;

/* TSR_DATA names the value, the element and both bounds, and the iteration of each loop; an element
 * of a slice that a loop took is named as one of the tensor that it was taken from, and one of a
 * virtual rank's rows of data as one of the batch; of what it computed the virtual rank is named.
 * *out_row: the
 * row of the batch of a data input in which the value stands; UINT64_MAX where it stands elsewhere.
 */
TSR_RESULT tsr_fault_report(tsr_ctx *ctx, const tsr_fault_place *place, const tsr_fault *fault,
                            uint64_t *out_row);

#endif
