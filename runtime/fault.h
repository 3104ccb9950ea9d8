/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a kernel's fault into a message for the user. Used by executor.c.
 */
#ifndef TSR_RUNTIME_FAULT_H
#define TSR_RUNTIME_FAULT_H

#include "manifests/program.h"
#include "runtime/base/kernel.h"

/* The location of the fault; all pointers are borrowed. */
typedef struct tsr_fault_location {
    const tsr_config *config;
    const tsr_config_entry *entry;
    const tsr_program_entry *program;
    const tsr_program_command *command;
    int64_t vrank;      /* virtual rank whose rows the command processed; -1: all rows */
    uint64_t first_row; /* first row of the batch that the command processed */
    const uint64_t
        *iterations; /* current iteration of each enclosing loop, from 0, outermost first */
    uint32_t depth;  /* number of enclosing loops */
} tsr_fault_location;

/* TSR_DATA names the value, the element, both bounds, and the iteration of each loop. An element of
 * a slice that a loop took is reported as an element of the original tensor; an element of a
 * virtual rank's data rows as an element of the batch; for a computed value the virtual rank is
 * named. *out_row: the row of the batch of a data input that contains the value; UINT64_MAX if the
 * value is not in a data input. */
TSR_RESULT tsr_fault_report(tsr_ctx *ctx, const tsr_fault_location *location,
                            const tsr_fault *fault, uint64_t *out_row);

#endif
