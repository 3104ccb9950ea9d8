/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of --carry: which outputs of a step are inputs of the next one.
 *
 *     params=in 0..13:out 1..14     inputs 0 to 13 are params.0 to params.13, outputs 1 to 14 their
 *                                   next values
 *     key=in 14:out 15              one tensor, which has the name itself
 *     key=in 14:out 15;n=in 15:out 0    several texts in one
 */
#ifndef TSR_COMPILER_STABLEHLO_CARRY_H
#define TSR_COMPILER_STABLEHLO_CARRY_H

#include "runtime/base/arena.h"
#include "runtime/base/result.h"

typedef struct tsr_hlo_carry {
    const char *name; /* NULL: the port is not carried */
    size_t partner;   /* of an input: its output; of an output: its input */
} tsr_hlo_carry;

/* Reads the texts into one row for each input and output. TSR_USAGE for another form, a port that
 * does not exist or is named twice, or a name that is given twice; the names are in the arena. */
TSR_RESULT tsr_hlo_read_carry(tsr_ctx *ctx, tsr_arena *arena, size_t count,
                              const char *const *texts, size_t input_count, size_t output_count,
                              tsr_hlo_carry *out_inputs, tsr_hlo_carry *out_outputs);

#endif
