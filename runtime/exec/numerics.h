/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of numbers: those that a program asks for (VERIFY), and with `--debug-numerics` the
 * results of every kernel. The lists of an executor are run in segments of one command, so that the
 * first kernel whose results have a NaN is found, on every device. Used by executor.c.
 */
#ifndef TSR_RUNTIME_NUMERICS_H
#define TSR_RUNTIME_NUMERICS_H

#include "runtime/exec/executor.h"

typedef struct tsr_numerics tsr_numerics;

/* Prepares the segments of all lists; before the first run. Allocated in the executor's arena. */
TSR_RESULT tsr_numerics_init(tsr_ctx *ctx, tsr_executor *executor, tsr_numerics **out_numerics);
void tsr_numerics_finish(tsr_executor *executor);
/* A run of an entry begins: checks its inputs. TSR_NONFINITE as below. */
TSR_RESULT tsr_numerics_begin(tsr_ctx *ctx, tsr_executor *executor, size_t entry, uint64_t step);
/* Runs a list. `vrank`: the virtual rank whose rows it processes, or -1. TSR_NONFINITE for the
 * first NaN: names the step, the kernel with its place in the source, the value, the element, the
 * rank. The first infinity of a run of the process is a warning, because programs can use
 * infinities. */
TSR_RESULT tsr_numerics_run(tsr_ctx *ctx, tsr_executor *executor, const tsr_probe_source *source,
                            const tsr_device_list *list, int64_t vrank, tsr_fault *out_fault,
                            uint32_t *out_command);

/* Runs a VERIFY. TSR_NONFINITE names the place, the value and the element. */
TSR_RESULT tsr_numerics_verify(tsr_ctx *ctx, tsr_executor *executor, size_t entry,
                               const tsr_program_command *command);

#endif
