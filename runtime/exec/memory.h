/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory a program needs, and how much this process may still take.
 */
#ifndef TSR_RUNTIME_MEMORY_H
#define TSR_RUNTIME_MEMORY_H

#include "runtime/base/result.h"

/* Bytes that tsr_executor_create allocates: tensors, and up to where the workspace begins, a line
 * of a GPU's cache; what is prepared from them, workspace, inputs and outputs. handler_bytes are a
 * part of the workspace, for entries that handle failures; leaf_bytes what one leaf of the virtual
 * ranks keeps, sum_bytes one set of sums over them, of which there are several, part_bytes the
 * rank's parts of sums that are scattered as they are made, turn_bytes what comes from other ranks
 * while they are. Of the host, besides the total: away_bytes, of what lies there while it waits,
 * with away_handler_bytes of those entries. */
typedef struct tsr_memory_plan {
    uint64_t tensor_bytes, prepared_bytes, workspace_bytes, port_bytes, total_bytes, handler_bytes;
    uint64_t leaf_bytes, sum_bytes, part_bytes, turn_bytes;
    uint64_t away_bytes, away_handler_bytes;
} tsr_memory_plan;

/* What the host's memory holds: all where the device shares it; else tensors, inputs and outputs,
 * if it comes to that, and what is away. */
uint64_t tsr_memory_plan_host(const tsr_memory_plan *plan, bool device_shares);

/* What runs have written of a workspace, in whole lines of TSR_PROGRAM_ALIGN_BYTES, on which its
 * buffers begin: the end of the last line written, and how many were. */
typedef struct tsr_workspace_use {
    uint64_t planned_bytes, reached_bytes, written_bytes;
} tsr_workspace_use;

/* Fills `size_bytes` of a workspace with a pattern; what is not the pattern any more was written. A
 * line that was written with the pattern alone is not counted: no integer below 128, truth value or
 * usual result of arithmetic is it. */
void tsr_memory_mark(void *workspace, uint64_t size_bytes);
tsr_workspace_use tsr_memory_measure(const void *workspace, uint64_t size_bytes);

/* The least of: MemAvailable of /proc/meminfo; what is left of memory.max of the cgroup (v2) and of
 * each above it, the page cache counted as free; what is left of RLIMIT_AS. UINT64_MAX when nothing
 * is known. */
uint64_t tsr_memory_get_available(void);

/* Memory of its own that this process has in use: resident, and no file's. 0: unknown. */
uint64_t tsr_memory_get_resident(void);

/* TSR_MEMORY with both values when `planned_bytes` is more than that. `what` begins the message. */
TSR_RESULT tsr_memory_check(tsr_ctx *ctx, const char *what, uint64_t planned_bytes);

#endif
