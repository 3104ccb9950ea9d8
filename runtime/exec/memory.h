/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that a program needs, and the memory that this process may still allocate.
 */
#ifndef TSR_RUNTIME_MEMORY_H
#define TSR_RUNTIME_MEMORY_H

#include "runtime/base/result.h"

/* Bytes that tsr_executor_create allocates: tensors, padded to the aligned begin of the workspace
 * (a cache line of a GPU); memory prepared from them, workspace, inputs and outputs. handler_bytes
 * is the part of the workspace for entries that handle failures; vrank_bytes is the memory of one
 * virtual rank, sum_bytes is the memory of one set of sums over virtual ranks (there are several
 * sets), part_bytes is the memory of the rank's parts of sums that are scattered during a loop, and
 * round_bytes is the memory of data from other ranks during these exchanges. Host memory, not in
 * the total: offloaded_bytes for offloaded values, including offloaded_handler_bytes for the
 * entries that handle failures. */
typedef struct tsr_memory_plan {
    uint64_t tensor_bytes, prepacked_bytes, workspace_bytes, port_bytes, total_bytes, handler_bytes;
    uint64_t vrank_bytes, sum_bytes, part_bytes, round_bytes;
    uint64_t offloaded_bytes, offloaded_handler_bytes;
} tsr_memory_plan;

/* Returns the bytes of host memory: everything if the device shares it; otherwise tensors, inputs
 * and outputs, if they are needed there, and offloaded values. */
uint64_t tsr_memory_plan_host(const tsr_memory_plan *plan, bool device_shares);

/* The part of a workspace that runs have written, in full lines of TSR_PROGRAM_ALIGN_BYTES, to
 * which its buffers are aligned: the end of the last written line, and the size of all written
 * lines. */
typedef struct tsr_workspace_use {
    uint64_t planned_bytes, reached_bytes, written_bytes;
} tsr_workspace_use;

/* Fills `size_bytes` of a workspace with a pattern; bytes that differ from the pattern later have
 * been written. A line that was overwritten only with the pattern is not counted: no integer below
 * 128, truth value or usual result of arithmetic is equal to it. */
void tsr_memory_mark(void *workspace, uint64_t size_bytes);
tsr_workspace_use tsr_memory_measure(const void *workspace, uint64_t size_bytes);

/* Returns the minimum of: MemAvailable of /proc/meminfo; the remainder of memory.max of the cgroup
 * (v2) and of each cgroup above it, where the page cache counts as free; the remainder of
 * RLIMIT_AS. UINT64_MAX if nothing is known. */
uint64_t tsr_memory_get_available(void);

/* Returns this process's resident private memory, without file mappings. 0: unknown. */
uint64_t tsr_memory_get_resident(void);

/* TSR_MEMORY with both values when `planned_bytes` exceeds the available memory. `what` begins the
 * message. */
TSR_RESULT tsr_memory_check(tsr_ctx *ctx, const char *what, uint64_t planned_bytes);

#endif
