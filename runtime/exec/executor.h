/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs entries of a host program. All memory is allocated at creation: the tensors of the config
 * (parameters, optimizer state, constants), memory that kernels prepare from them, one workspace
 * for the largest entry, host memory for offloaded values, and a buffer for every input and output.
 * A run allocates nothing.
 *
 * Memory prepared from a tensor (weights in the order in which products read them) is computed
 * before the first run that reads it, and again after the tensor has changed: after a run of an
 * entry that writes it, or after tsr_executor_claim.
 *
 * A program with virtual ranks runs virtual rank by virtual rank. Each of several ranks runs its
 * virtual ranks, and the ranks exchange sums and gathered values; afterwards all have the same
 * tensors, or the parts of their virtual ranks.
 */
#ifndef TSR_RUNTIME_EXECUTOR_H
#define TSR_RUNTIME_EXECUTOR_H

#include "manifests/program.h"
#include "runtime/device/device.h"
#include "runtime/exec/loop.h"
#include "runtime/exec/memory.h"
#include "runtime/exec/vranks.h"
#include "runtime/trace/probe.h"

typedef struct tsr_executor tsr_executor;

/* transport: NULL for a single rank. Fails with TSR_MEMORY when a sum overflows, TSR_USAGE if there
 * are more ranks than virtual ranks. */
TSR_RESULT tsr_executor_plan(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                             const tsr_transport *transport, tsr_memory_plan *out_plan);
/* Describes the plan for messages, in the arena: "'net' plans 900 bytes, including 600 for tensors:
 * w (400), b (200)", with the largest tensors; offloaded bytes are listed separately. NULL: out of
 * memory. */
const char *tsr_executor_describe_plan(const tsr_config *config, const tsr_memory_plan *plan,
                                       tsr_arena *arena);

/* config, program, device (opened with the program's kernels) and transport (NULL: a single rank)
 * are borrowed and must outlive the executor. Several ranks on devices with their own memory
 * exchange as transport->exchange says (runtime/exchange/exchange.h). TSR_MACHINE for an entry with
 * an open dim on a device with its own memory. */
TSR_RESULT tsr_executor_create(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                               tsr_device *device, tsr_transport *transport,
                               tsr_executor **out_executor);
void tsr_executor_destroy(tsr_executor *executor); /* accepts NULL */

/* Return borrowed host memory, aligned to TSR_BUFFER_ALIGN_BYTES: of a tensor of the config, or of
 * an input or output of an entry. Each run transfers inputs to the device and outputs back. Read
 * tensors after tsr_executor_fetch and write them after tsr_executor_claim. */
void *tsr_executor_get_tensor(const tsr_executor *executor, size_t tensor);
/* Returns V if the memory of the tensor contains only the parts of this rank's virtual ranks
 * (ceil(n / V) elements each, contiguous), or 0 if it contains the full tensor. */
uint64_t tsr_executor_get_parts(const tsr_executor *executor, size_t tensor);
void *tsr_executor_get_input(const tsr_executor *executor, size_t entry, size_t input);
void *tsr_executor_get_output(const tsr_executor *executor, size_t entry, size_t output);

/* Lend memory of the caller to the commands of an entry, in place of an input or output, until NULL
 * ends the loan. Only if can_lend: the device shares the host's memory, and the entry has no loops,
 * branches or exchanges. An input is aligned to its elements, an output to TSR_BUFFER_ALIGN_BYTES;
 * the runs read and write exactly the elements. get_input and get_output stay what they are. */
bool tsr_executor_can_lend(const tsr_executor *executor, size_t entry);
void tsr_executor_lend_input(tsr_executor *executor, size_t entry, size_t input,
                             const void *memory);
void tsr_executor_lend_output(tsr_executor *executor, size_t entry, size_t output, void *memory);

/* True if a run of the entry exchanges with other ranks, so that every rank must run it. */
bool tsr_executor_exchanges(const tsr_executor *executor, size_t entry);
/* Number of bytes that a run of the entry sends to other ranks. */
uint64_t tsr_executor_plan_exchange(const tsr_executor *executor, size_t entry);

/* The virtual ranks that this rank runs. */
const tsr_vranks *tsr_executor_get_vranks(const tsr_executor *executor);
/* Number of rows of a data input for one virtual rank; all rows if the entry has no virtual ranks.
 */
uint64_t tsr_executor_get_vrank_rows(const tsr_executor *executor, size_t entry);
/* Like tsr_executor_get_input, which returns virtual rank 0: the rows of virtual rank `leaf` of
 * this rank. */
void *tsr_executor_get_vrank_input(const tsr_executor *executor, size_t entry, size_t input,
                                   uint32_t vrank);

/* Updates the host memory of the tensors from the device. Does nothing if they are the same memory.
 */
TSR_RESULT tsr_executor_fetch(tsr_ctx *ctx, tsr_executor *executor);
/* The same, after the guard; in addition, the host's changes are transferred to the device before
 * the next run, which then repeats the preparations that it needs. */
TSR_RESULT tsr_executor_claim(tsr_ctx *ctx, tsr_executor *executor);
/* tsr_executor_fetch of one tensor. */
TSR_RESULT tsr_executor_fetch_tensor(tsr_ctx *ctx, tsr_executor *executor, size_t tensor);
/* The part of tsr_executor_claim that cannot fail: sufficient if host and device share memory, or
 * before the first run. */
void tsr_executor_touch(tsr_executor *executor);

/* Counts the calls by which the host has changed tensors: it differs after tsr_executor_claim,
 * touch, replace. */
uint64_t tsr_executor_count_changes(const tsr_executor *executor);

/* Returns the host memory of a tensor (borrowed), which the caller will overwrite completely; its
 * old value is not fetched. The tensor is transferred to the device before the next run. */
void *tsr_executor_replace(tsr_executor *executor, size_t tensor);
/* Sets the tensor to zero, as all tensors are at creation: nothing is written if it is still zero.
 */
void tsr_executor_clear(tsr_executor *executor, size_t tensor);

/* The caller will overwrite a tensor completely in device memory: the host's copy becomes invalid.
 * Only if the memories differ. */
void tsr_executor_replace_there(tsr_executor *executor, size_t tensor);
const tsr_device_memory *tsr_executor_get_memory(const tsr_executor *executor); /* borrowed */

/* Concurrent reads of tensors during runs, under the guard below. ready_readers allows `count`
 * readers, each a separate thread. read returns device bytes of the tensor that contains `data`, at
 * *out_bytes until the same reader reads again. See read in runtime/device/device.h. */
TSR_RESULT tsr_executor_ready_readers(tsr_ctx *ctx, tsr_executor *executor, unsigned count);
TSR_RESULT tsr_executor_read(tsr_ctx *ctx, tsr_executor *executor, unsigned reader,
                             const void *data, size_t size_bytes, const void **out_bytes);

/* The same for the state (all tensors but constants) at the last snapshot, if the device can hold a
 * copy in addition to the memory of runs and has memory for it, which ready_snapshot allocates;
 * otherwise for the current state. A snapshot needs no guard and is read once, best in the order of
 * the config. Call ready_snapshot before the guard is set. */
TSR_RESULT tsr_executor_ready_snapshot(tsr_ctx *ctx, tsr_executor *executor,
                                       bool *out_has_snapshot);
TSR_RESULT tsr_executor_take_snapshot(tsr_ctx *ctx, tsr_executor *executor);
TSR_RESULT tsr_executor_read_snapshot(tsr_ctx *ctx, tsr_executor *executor, unsigned reader,
                                      const void *data, size_t size_bytes, const void **out_bytes);

/* Sets the value of inputs of source SEED; 0 before the first call. */
void tsr_executor_set_seed(tsr_executor *executor, uint64_t seed);
/* Sets the value of inputs of source HYPERPARAMETER with this name; the config's before the first
 * call. */
void tsr_executor_set_hyperparameter(tsr_executor *executor, const char *name, double value);
/* Sets a function `guard` that is called before a tensor is written, with its memory: during a run,
 * before each command that writes a tensor; if the device has its own memory, with NULL, which
 * means all tensors, before the first such command and in a fetch. Until then another thread may
 * read the tensor. NULL: no guard. */
void tsr_executor_set_guard(tsr_executor *executor, void (*guard)(void *user, const void *tensor),
                            void *user);
/* Calls the guard, if there is one, before the caller writes to the host's memory of a tensor. */
void tsr_executor_wait_for_readers(const tsr_executor *executor, size_t tensor);
/* Sets the observer, which receives the results of each loop of a run; without a call function it
 * receives nothing. */
void tsr_executor_set_observer(tsr_executor *executor, tsr_loop_observer observer);
/* Returns the loops over virtual ranks of an entry, in their order; NULL after the last. */
const tsr_loop *tsr_executor_get_loop(const tsr_executor *executor, size_t entry, size_t number);
/* Sets the open dim of an entry for the next runs, one of the sizes that its config allows; at
 * first it has the largest. The runs then read and write that many rows of its open inputs and
 * outputs. */
void tsr_executor_set_dim(tsr_executor *executor, size_t entry, uint64_t dim);
/* Runs the entry once on the current values of its inputs. TSR_RANK from the transport. TSR_DATA
 * when a kernel found an index out of range (names the value, the element, both bounds): later
 * commands did not run, or ran on its incomplete results, so the tensors may contain a part of a
 * step. `step` (from 1) is the value of inputs of source STEP. */
TSR_RESULT tsr_executor_run(tsr_ctx *ctx, tsr_executor *executor, size_t entry, uint64_t step);
/* Returns the region of resilience in which the last run failed, and which has ended; NULL if none
 * failed. A run restarts a region of mode replay after its handler has run, TSR_REGION_ATTEMPTS_MAX
 * times in total; in mode restart the caller goes back to a committed state. In both cases no
 * tensor contains a part of the step. A region fails with TSR_NONFINITE or TSR_DATA. */
enum { TSR_REGION_ATTEMPTS_MAX = 3 };
const tsr_program_region *tsr_executor_get_failed_region(const tsr_executor *executor);
/* Call before work other than a run of an entry, whose errors are not failures of that region. */
void tsr_executor_forget_failed_region(tsr_executor *executor);
/* Returns the row of the batch, in a data input, that contains the value of the last TSR_DATA;
 * UINT64_MAX if the value is not in a data input. */
uint64_t tsr_executor_get_fault_row(const tsr_executor *executor);
/* Starts to record which parts of the workspace runs write; returns false if the device has its own
 * memory. Call between runs. */
bool tsr_executor_mark_workspace(tsr_executor *executor);
/* Returns the use since tsr_executor_mark_workspace. */
tsr_workspace_use tsr_executor_measure_workspace(const tsr_executor *executor);
/* Checks the results of every kernel in later runs (numerics.h): they are then much slower. Call
 * before the first run. TSR_NONFINITE from a run names the first NaN. */
TSR_RESULT tsr_executor_check_numerics(tsr_ctx *ctx, tsr_executor *executor);
typedef struct tsr_numerics_cost {
    uint64_t elements, launches, time_ns;
} tsr_numerics_cost;
/* Returns what the checks have cost until now; false if there are none. */
bool tsr_executor_get_numerics_cost(const tsr_executor *executor, tsr_numerics_cost *out_cost);
/* Returns the name of the way in which ranks exchange, and why it was chosen; NULL: a single rank.
 */
const char *tsr_executor_get_exchange(const tsr_executor *executor, const char **out_reason);
/* Returns the times of each kernel of the program while the trace recorded; NULL for an executor
 * that was created without a trace. */
const tsr_kernel_times *tsr_executor_get_times(const tsr_executor *executor);

#endif
