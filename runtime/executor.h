/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs entries of a host program. All memory is allocated at creation: the tensors of the config
 * (parameters, optimizer state, constants), one workspace as large as the largest entry needs, and
 * a staging buffer for every input and output. A run allocates nothing.
 */
#ifndef TSR_RUNTIME_EXECUTOR_H
#define TSR_RUNTIME_EXECUTOR_H

#include "manifests/program.h"
#include "runtime/memory.h"
#include "runtime/threads.h"

typedef struct tsr_executor tsr_executor;

/* Fails with TSR_MEMORY when a sum overflows. */
TSR_RESULT tsr_executor_plan(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                             tsr_memory_plan *out_plan);

/* config, program, kernels (program->kernel_count of them) and threads are borrowed and outlive the
 * executor. */
TSR_RESULT tsr_executor_create(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                               const tsr_kernel_fn *kernels, tsr_threads *threads,
                               tsr_executor **out_executor);
void tsr_executor_destroy(tsr_executor *executor); /* accepts NULL */

/* Borrowed memory, aligned to TSR_BUFFER_ALIGN_BYTES: tensor of the config; input or output of an
 * entry. */
void *tsr_executor_get_tensor(const tsr_executor *executor, size_t tensor);
void *tsr_executor_get_input(const tsr_executor *executor, size_t entry, size_t input);
void *tsr_executor_get_output(const tsr_executor *executor, size_t entry, size_t output);

/* What inputs of source SEED are from now on; 0 before. */
void tsr_executor_set_seed(tsr_executor *executor, uint64_t seed);
/* One call of the entry on what lies in its inputs. TSR_DATA when a kernel met an index out of
 * range (names the value, the element, both bounds): the commands after it did not run, so the
 * tensors may hold a part of a step. `step` (from 1) goes to inputs of source STEP. */
TSR_RESULT tsr_executor_run(tsr_ctx *ctx, tsr_executor *executor, size_t entry, uint64_t step);
/* After that TSR_DATA: the slice of dimension 0 of a data input in which the value stands;
 * UINT64_MAX where it stands elsewhere. */
uint64_t tsr_executor_get_fault_row(const tsr_executor *executor);

#endif
