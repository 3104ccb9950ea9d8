/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that is small enough to check by hand, with kernels in C. One step moves parameter "w"
 * (f32[4]) a tenth of the way to the mean of the batch x (ui8[2,4]) and adds 1 to state "w.count"
 * (i64); output "loss" is the squared distance before the step. An index in x above `toy_limit` is
 * a fault. Entry "rows" doubles each element of x.
 */
#ifndef TSR_TESTS_RUNTIME_TOY_H
#define TSR_TESTS_RUNTIME_TOY_H

#include "runtime/exec/executor.h"

enum { TOY_TRAIN = 1, TOY_ROWS = 0 };

extern int64_t toy_limit; /* values of x allowed: [0, limit) */
extern float toy_poison;  /* added to the loss; NaN makes it not finite */
extern const tsr_config toy_config;
extern const tsr_program toy_program;
extern const tsr_kernel_fn toy_kernels[3];
/* a, b -> sum; one program per f32 element. For the form of the toy that several ranks run. */
void toy_add(const tsr_kernel_args *args, int64_t begin, int64_t end);

/* The tensor map of the third kernel, as the machine code of a GPU describes it. */
#define TOY_MAP                                                                                    \
    {                                                                                              \
        .argument = 1, .element = TSR_FATBIN_F32, .rank = 3, .box_rows = 64, .box_columns = 32,    \
        .swizzle_bytes = 128, .dims = {32, 64, 2, 1, 1}, .pitch = TOY_PITCH,                       \
    }
enum { TOY_PITCH = 48 };

#endif
