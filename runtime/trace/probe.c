/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/trace/probe.h"

#include "runtime/base/clock.h"

#include <string.h>

static const char memory_name[] = "memory in use";

bool tsr_probe_init(const tsr_program *program, const tsr_memory_plan *plan, uint32_t commands_max,
                    tsr_arena *arena, tsr_probe *out_probe) {
    tsr_probe probe = {.program = program,
                       .fixed_bytes = plan->total_bytes - plan->workspace_bytes,
                       .spans = TSR_NEW(arena, tsr_device_span, (size_t)commands_max + 2),
                       .live = TSR_NEW(arena, uint64_t *, (size_t)program->entry_count + 1),
                       .kernels =
                           TSR_NEW(arena, tsr_kernel_times, (size_t)program->kernel_count + 1)};
    if (!probe.spans || !probe.live || !probe.kernels) return false;
    for (uint32_t i = 0; i < program->entry_count; i++) {
        const tsr_program_entry *entry = &program->entries[i];
        tsr_arena scratch = {0};
        probe.live[i] = TSR_NEW(arena, uint64_t, (size_t)entry->command_count + 1);
        bool done = probe.live[i] && tsr_program_live(entry, &scratch, probe.live[i]);
        tsr_arena_finish(&scratch);
        if (!done) return false;
    }
    *out_probe = probe;
    return true;
}

void tsr_probe_begin(const tsr_probe *probe, const tsr_trace *trace, tsr_device_list *list) {
    list->spans = NULL;
    if (!probe->program || !tsr_trace_records(trace, TSR_TRACK_KERNELS)) return;
    list->spans = probe->spans;
    memset(probe->spans, 0, ((size_t)list->command_count + 2) * sizeof *probe->spans);
}

static void note_memory(tsr_probe *probe, tsr_trace *trace, const tsr_probe_source *source,
                        uint32_t number, uint64_t time_ns) {
    uint64_t bytes = probe->fixed_bytes + probe->live[source->index][number];
    if (bytes == probe->last_bytes) return;
    probe->last_bytes = bytes;
    tsr_trace_value(trace, memory_name, time_ns, bytes);
}

static void note(tsr_probe *probe, tsr_trace *trace, const tsr_probe_source *source,
                 const tsr_program_command *command, const tsr_device_command *ran,
                 const tsr_device_span *span) {
    static const struct {
        tsr_track track;
        const char *name;
    } rows[] = {[TSR_DEVICE_COPY] = {TSR_TRACK_COPIES, "copy"},
                [TSR_DEVICE_OFFLOAD] = {TSR_TRACK_OFFLOADS, "offload"},
                [TSR_DEVICE_PREFETCH] = {TSR_TRACK_PREFETCHES, "prefetch"},
                [TSR_DEVICE_AWAIT] = {TSR_TRACK_COPIES, "await"}};
    tsr_trace_detail detail = {.location = ran->location, .bytes = ran->copy_bytes};
    if (ran->kind != TSR_DEVICE_LAUNCH) {
        tsr_trace_span(trace, rows[ran->kind].track, rows[ran->kind].name, span->begin_ns,
                       span->end_ns, detail);
        return;
    }
    tsr_kernel_times *times = &probe->kernels[ran->kernel];
    detail.bytes = tsr_program_command_bytes(source->entry, command, source->sizes);
    times->launches++;
    times->time_ns += span->end_ns - span->begin_ns;
    times->bytes += detail.bytes;
    tsr_trace_span(trace, TSR_TRACK_KERNELS, probe->program->kernels[ran->kernel], span->begin_ns,
                   span->end_ns, detail);
}

static void note_transfer(tsr_trace *trace, const char *name, const tsr_device_span *span,
                          uint64_t size_bytes) {
    tsr_trace_span(trace, TSR_TRACK_COPIES, name, span->begin_ns, span->end_ns,
                   (tsr_trace_detail){.bytes = size_bytes});
}

void tsr_probe_end(tsr_probe *probe, tsr_trace *trace, const tsr_probe_source *source,
                   tsr_device_list *list) {
    for (uint32_t i = 0; list->spans && i < list->command_count; i++) {
        const tsr_device_span *span = &list->spans[i];
        if (!span->begin_ns) continue; /* an earlier command had a fault */
        const tsr_program_command *command =
            source->numbers ? &source->entry->commands[source->numbers[i]] : source->alone;
        tsr_device_command_kind kind = list->commands[i].kind;
        bool in_order = kind != TSR_DEVICE_OFFLOAD && kind != TSR_DEVICE_PREFETCH;
        if (source->numbers && in_order)
            note_memory(probe, trace, source, source->numbers[i], span->begin_ns);
        note(probe, trace, source, command, &list->commands[i], span);
    }
    if (list->spans) {
        const tsr_device_span *transfers = list->spans + list->command_count;
        note_transfer(trace, "inputs", &transfers[0], list->inputs.size_bytes);
        note_transfer(trace, "outputs", &transfers[1], list->outputs.size_bytes);
    }
    list->spans = NULL;
}

void tsr_probe_enter(tsr_trace *trace, const tsr_program_region *region, uint64_t *began_ns) {
    if (!trace || *began_ns) return;
    *began_ns = tsr_clock_ns();
    tsr_trace_push(trace, region->name, 0);
}

void tsr_probe_leave(tsr_trace *trace, const tsr_program_region *region, uint32_t failures,
                     uint64_t *began_ns) {
    const tsr_trace_detail detail = {.number = failures ? failures + 1 : 0};
    if (!*began_ns) return;
    tsr_trace_pop(trace);
    if (tsr_trace_records(trace, TSR_TRACK_REGIONS))
        tsr_trace_span(trace, TSR_TRACK_REGIONS, region->name, *began_ns, tsr_clock_ns(), detail);
    *began_ns = 0;
}
