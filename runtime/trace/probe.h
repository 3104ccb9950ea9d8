/* SPDX-License-Identifier: Apache-2.0
 *
 * What an executor tells the trace (runtime/base/trace.h) of the lists it runs, and what its
 * kernels took in all. For executor.c.
 */
#ifndef TSR_RUNTIME_PROBE_H
#define TSR_RUNTIME_PROBE_H

#include "manifests/program.h"
#include "runtime/base/trace.h"
#include "runtime/device/device.h"
#include "runtime/exec/memory.h"

/* What launches of a kernel took while they were recorded; bytes as tsr_program_command_bytes. */
typedef struct tsr_kernel_times {
    uint64_t launches, time_ns, bytes;
} tsr_kernel_times;

typedef struct tsr_probe {
    const tsr_program *program; /* borrowed; NULL: nothing is recorded */
    tsr_device_span *spans;     /* in the arena, as all here: room for the longest list */
    uint64_t **live;            /* by entry: bytes of the workspace in use, by command */
    uint64_t fixed_bytes;       /* in use besides */
    uint64_t last_bytes;        /* the last that was told */
    tsr_kernel_times *kernels;  /* by kernel */
} tsr_probe;

/* commands_max: of a list. False without memory. */
bool tsr_probe_init(const tsr_program *program, const tsr_memory_plan *plan, uint32_t commands_max,
                    tsr_arena *arena, tsr_probe *out_probe);

/* What ran: an entry's commands, or one that is given alone, where numbers is NULL. */
typedef struct tsr_probe_source {
    const tsr_program_entry *entry;
    size_t index;            /* of the entry */
    const uint32_t *numbers; /* by command of the list: that of the entry */
    const tsr_program_command *alone;
} tsr_probe_source;

/* The list is to be timed, if the trace records. */
void tsr_probe_begin(const tsr_probe *probe, const tsr_trace *trace, tsr_device_list *list);
/* After the list was run. */
void tsr_probe_end(tsr_probe *probe, tsr_trace *trace, const tsr_probe_source *source,
                   tsr_device_list *list);
/* A region begins, where *began_ns is 0: it becomes the time, if there is a trace. */
void tsr_probe_enter(tsr_trace *trace, const tsr_program_region *region, uint64_t *began_ns);
/* It was left, or failed, after it had failed so often; *began_ns becomes 0. */
void tsr_probe_leave(tsr_trace *trace, const tsr_program_region *region, uint32_t failures,
                     uint64_t *began_ns);

#endif
