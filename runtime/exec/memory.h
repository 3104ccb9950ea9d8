/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that a program needs, and the memory that this process may still allocate.
 */
#ifndef TSR_RUNTIME_MEMORY_H
#define TSR_RUNTIME_MEMORY_H

#include "runtime/base/result.h"
#include "tessera/memory.h"

/* Returns the bytes of host memory: everything if the device shares it; otherwise tensors, inputs
 * and outputs, if they are needed there, and offloaded values. */
uint64_t tsr_memory_plan_host(const tsr_memory_plan *plan, bool device_shares);

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
