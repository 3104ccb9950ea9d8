/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory this process may still take.
 */
#ifndef TSR_RUNTIME_MEMORY_H
#define TSR_RUNTIME_MEMORY_H

#include "runtime/base/result.h"

/* The least of: MemAvailable of /proc/meminfo, what is left of the cgroup's memory.max, and of
 * RLIMIT_AS. UINT64_MAX when nothing is known. */
uint64_t tsr_memory_get_available(void);

/* TSR_MEMORY with both values when `planned_bytes` is more than that. `what` begins the message. */
TSR_RESULT tsr_memory_check(tsr_ctx *ctx, const char *what, uint64_t planned_bytes);

#endif
