/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs entries of a host program. All memory is allocated at creation: the tensors of the config
 * (parameters, optimizer state, constants), what kernels prepare from them, one workspace as large
 * as the largest entry needs, memory of the host for what waits there meanwhile, and a buffer for
 * every input and output. A run allocates nothing.
 *
 * What is prepared from a tensor (weights in the order in which products read them) is made before
 * the first run that reads it, and again after the tensor has changed: after a run of an entry that
 * writes it, or after tsr_executor_claim.
 *
 * A program with virtual ranks is run leaf after leaf. Several ranks each run their leaves and
 * exchange what is summed or gathered; all then have the same tensors, or
 * the parts of their leaves.
 */
#ifndef TSR_RUNTIME_EXECUTOR_H
#define TSR_RUNTIME_EXECUTOR_H

#include "manifests/program.h"
#include "runtime/device/device.h"
#include "runtime/exec/leaves.h"
#include "runtime/exec/loop.h"
#include "runtime/exec/memory.h"
#include "runtime/trace/probe.h"

typedef struct tsr_executor tsr_executor;

/* transport: NULL for one rank alone. Fails with TSR_MEMORY when a sum overflows, TSR_USAGE where
 * there are more ranks than virtual ones. */
TSR_RESULT tsr_executor_plan(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                             const tsr_transport *transport, tsr_memory_plan *out_plan);
/* For messages, in the arena: "'net' plans 900 bytes, of them 600 for tensors: w (400), b (200)",
 * the largest of them; what is away from the device is told besides. NULL: no memory for it. */
const char *tsr_executor_describe_plan(const tsr_config *config, const tsr_memory_plan *plan,
                                       tsr_arena *arena);

/* config, program, device (opened with the program's kernels) and transport (NULL: one rank alone)
 * are borrowed and outlive the executor. Several ranks are TSR_MACHINE where the device does not
 * share the host's memory. */
TSR_RESULT tsr_executor_create(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                               tsr_device *device, tsr_transport *transport,
                               tsr_executor **out_executor);
void tsr_executor_destroy(tsr_executor *executor); /* accepts NULL */

/* Borrowed memory of the host, aligned to TSR_BUFFER_ALIGN_BYTES: tensor of the config; input or
 * output of an entry. Inputs and outputs go to the device and back with each run. Tensors are read
 * after tsr_executor_fetch and written after tsr_executor_claim. */
void *tsr_executor_get_tensor(const tsr_executor *executor, size_t tensor);
/* V where the memory of the tensor is that of the parts of this rank's leaves alone (of ceil(n / V)
 * elements each, side by side), or 0: it is whole. */
uint64_t tsr_executor_get_parts(const tsr_executor *executor, size_t tensor);
void *tsr_executor_get_input(const tsr_executor *executor, size_t entry, size_t input);
void *tsr_executor_get_output(const tsr_executor *executor, size_t entry, size_t output);

/* Does a run of the entry exchange with other ranks, so that all of them have to run it? */
bool tsr_executor_exchanges(const tsr_executor *executor, size_t entry);
/* Bytes that a run of the entry sends to other ranks. */
uint64_t tsr_executor_plan_exchange(const tsr_executor *executor, size_t entry);

/* What this rank runs. */
const tsr_leaves *tsr_executor_get_leaves(const tsr_executor *executor);
/* Rows that one leaf gets of a data input; all of them where the entry has no leaves. */
uint64_t tsr_executor_get_leaf_rows(const tsr_executor *executor, size_t entry);
/* As tsr_executor_get_input, which is leaf 0: the rows of leaf `leaf` of this rank. */
void *tsr_executor_get_leaf_input(const tsr_executor *executor, size_t entry, size_t input,
                                  uint32_t leaf);

/* The host's memory of the tensors holds what the device's does. Nothing to do where they are one.
 */
TSR_RESULT tsr_executor_fetch(tsr_ctx *ctx, tsr_executor *executor);
/* The same, and what the host then writes goes to the device before the next run, which prepares
 * anew what it needs. */
TSR_RESULT tsr_executor_claim(tsr_ctx *ctx, tsr_executor *executor);
/* Of tsr_executor_claim what cannot fail: enough where the memories are one, or nothing was run. */
void tsr_executor_touch(tsr_executor *executor);

/* All of a tensor is about to be written to the host's memory, which is returned (borrowed); what
 * it was is not fetched. It goes to the device before the next run. */
void *tsr_executor_replace(tsr_executor *executor, size_t tensor);
/* The tensor is zero, as all are at creation: nothing is written as long as it still is. */
void tsr_executor_clear(tsr_executor *executor, size_t tensor);

/* All of a tensor is about to be written to the device's memory: what the host has is not good any
 * more. Where the memories differ. */
void tsr_executor_replace_there(tsr_executor *executor, size_t tensor);
const tsr_device_memory *tsr_executor_get_memory(const tsr_executor *executor); /* borrowed */

/* For who reads tensors beside runs, under the guard below: `count` readers, each a thread of its
 * own; and what the tensor that `data` lies in holds there, at *out_bytes until the same reader
 * reads again. See read in runtime/device/device.h. */
TSR_RESULT tsr_executor_ready_readers(tsr_ctx *ctx, tsr_executor *executor, unsigned count);
TSR_RESULT tsr_executor_read(tsr_ctx *ctx, tsr_executor *executor, unsigned reader,
                             const void *data, size_t size_bytes, const void **out_bytes);

/* The same of the state (all but constants) as it was at the last keep, where the device can keep
 * it beside what runs on and has room for that, which ready_keeping takes; else as it is. What is
 * kept needs no guard, and is read once, best in the order of the config. ready_keeping before the
 * guard is set. */
TSR_RESULT tsr_executor_ready_keeping(tsr_ctx *ctx, tsr_executor *executor, bool *out_keeps);
TSR_RESULT tsr_executor_keep(tsr_ctx *ctx, tsr_executor *executor);
TSR_RESULT tsr_executor_read_kept(tsr_ctx *ctx, tsr_executor *executor, unsigned reader,
                                  const void *data, size_t size_bytes, const void **out_bytes);

/* What inputs of source SEED are from now on; 0 before. */
void tsr_executor_set_seed(tsr_executor *executor, uint64_t seed);
/* From now on `guard` is called before a tensor is written, with its memory: in a run before each
 * command that does so; where the device has memory of its own, with NULL, which means all, before
 * the first such command, and in a fetch. Until then another thread may read it. NULL: none. */
void tsr_executor_set_guard(tsr_executor *executor, void (*guard)(void *user, const void *tensor),
                            void *user);
/* From now on it is told the results of each loop of a run; without a call: none is. */
void tsr_executor_set_observer(tsr_executor *executor, tsr_loop_observer observer);
/* The loops over leaves of an entry, in the order they run in; NULL behind the last. */
const tsr_loop *tsr_executor_get_loop(const tsr_executor *executor, size_t entry, size_t number);
/* One call of the entry on what lies in its inputs. TSR_RANK from the transport. TSR_DATA when a
 * kernel met an index out of range (names the value, the element, both bounds): the commands after
 * it did not run, or ran on what it left, so the tensors may hold a part of a step. `step` (from 1)
 * goes to inputs of source STEP. */
TSR_RESULT tsr_executor_run(tsr_ctx *ctx, tsr_executor *executor, size_t entry, uint64_t step);
/* The region of resilience that the last run failed in, which is over; NULL where it was none. A
 * run begins a region of mode replay again after its handler has run, TSR_REGION_ATTEMPTS_MAX times
 * in all; in mode restart the caller goes back to a committed state. In either case no tensor holds
 * a part of the step. A region fails with TSR_NONFINITE or TSR_DATA. */
enum { TSR_REGION_ATTEMPTS_MAX = 3 };
const tsr_program_region *tsr_executor_get_failed_region(const tsr_executor *executor);
/* Before other work than a run of an entry, whose errors are no failure of that region. */
void tsr_executor_forget_failed_region(tsr_executor *executor);
/* After that TSR_DATA: the row of the batch of a data input in which the value stands;
 * UINT64_MAX where it stands elsewhere. */
uint64_t tsr_executor_get_fault_row(const tsr_executor *executor);
/* From now on the workspace tells what runs write of it; false where the device has memory of its
 * own. Between runs. */
bool tsr_executor_mark_workspace(tsr_executor *executor);
/* Since then. */
tsr_workspace_use tsr_executor_measure_workspace(const tsr_executor *executor);
/* What each kernel of the program took while the trace recorded; NULL of an executor that was
 * created without one. */
const tsr_kernel_times *tsr_executor_get_times(const tsr_executor *executor);

#endif
