/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports the lists that an executor runs to the trace (runtime/base/trace/trace.h), and adds up
 * the times of kernels. Used by executor.c.
 */
#ifndef TSR_RUNTIME_PROBE_H
#define TSR_RUNTIME_PROBE_H

#include "manifests/program.h"
#include "runtime/base/trace/trace.h"
#include "runtime/device/device.h"
#include "runtime/exec/memory.h"

/* Total over the recorded launches of a kernel; bytes as in tsr_program_command_bytes. */
typedef struct tsr_kernel_times {
    uint64_t launches, time_ns, bytes;
} tsr_kernel_times;

typedef struct tsr_probe {
    const tsr_program *program; /* borrowed; NULL: no recording */
    tsr_device_span *spans;     /* room for the longest list; in the arena, as all memory here */
    uint64_t **live;            /* bytes of the workspace in use, for each entry and command */
    uint64_t fixed_bytes;       /* other bytes in use */
    uint64_t last_bytes;        /* the last reported value */
    tsr_kernel_times *kernels;  /* one per kernel */
} tsr_probe;

/* commands_max: the most commands of a list. Returns false without memory. */
bool tsr_probe_init(const tsr_program *program, const tsr_memory_plan *plan, uint32_t commands_max,
                    tsr_arena *arena, tsr_probe *out_probe);

/* The source of a list: an entry's commands, or a single command if numbers is NULL. */
typedef struct tsr_probe_source {
    const tsr_program_entry *entry;
    size_t index;            /* index of the entry */
    const uint32_t *numbers; /* number in the entry, for each command of the list */
    const tsr_program_command *alone;
    const uint64_t *sizes; /* of an entry with an open dim; NULL: none is open */
} tsr_probe_source;

/* Requests times for the list if the trace records. */
void tsr_probe_begin(const tsr_probe *probe, const tsr_trace *trace, tsr_device_list *list);
/* Call after the list was run. */
void tsr_probe_end(tsr_probe *probe, tsr_trace *trace, const tsr_probe_source *source,
                   tsr_device_list *list);
/* Called when a region begins: if *began_ns is 0 and there is a trace, it becomes the current time.
 */
void tsr_probe_enter(tsr_trace *trace, const tsr_program_region *region, uint64_t *began_ns);
/* Called when the region was left or has failed, after this number of earlier failures; *began_ns
 * becomes 0. */
void tsr_probe_leave(tsr_trace *trace, const tsr_program_region *region, uint32_t failures,
                     uint64_t *began_ns);

#endif
