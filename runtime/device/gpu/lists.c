/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of commands for a GPU. A list becomes a graph when it is list_graphs; a run launches it and
 * waits:
 *
 *     inputs to the device -> clear fault records -> launches and copies -> outputs, records back
 *
 * For a timed list there are other graphs, with an event between any two graphs.
 *
 * Other threads may be reading memory that commands write: the first command of a list that writes
 * such memory begins a second graph, which is launched when they have finished, while the commands
 * before it run. An event in the first graph marks the time to copy the memory that these threads
 * have not read yet.
 *
 * All addresses are known at that time and the step number is an ordinary input, so a graph is
 * never changed; copies whose addresses change are put into the stream without a graph.
 */
#include "runtime/base/clock.h"
#include "runtime/base/plural.h"
#include "runtime/base/trace/trace.h"
#include "runtime/device/gpu/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCKS_MAX = INT32_MAX, /* limit for a grid */
    LAST_PART = 64,         /* copies overlap the last 1/64 of a list's cost */
};

/* Halves of a list: up to the first command that writes memory that others may read, and from this
 * command on. */
enum { BEFORE, BEHIND, HALVES };

typedef struct list_graphs {
    tsr_arena arena;
    bool eager;                               /* cannot be captured */
    struct tsr_gpu_graph_exec *execs[HALVES]; /* NULL: nothing to do */
    tsr_gpu_address faults;                   /* one record for each command */
    tsr_fault *host_faults;                   /* page-locked */
    /* Graphs for timed runs, created by the first timed run; NULL before. Events: at the beginning,
     * before each command, after the last one, at the end. */
    struct tsr_gpu_graph_exec *timed[HALVES];
    struct tsr_gpu_event **events; /* in the arena */
    tsr_gpu_list_copies overlap;
} list_graphs;

/* Encodes a tensor map for argument `fact->argument`, as used by the copy engine. */
static tsr_result encode_map(tsr_ctx *ctx, tsr_gpu_device *self, list_graphs *graph,
                             const tsr_device_command *command, const tsr_fatbin_map *fact,
                             struct tsr_gpu_tensor_map **out_map) {
    static const struct {
        tsr_gpu_enum kind;
        uint32_t bytes;
    } elements[] = {[TSR_FATBIN_BF16] = {TSR_GPU_MAP_BFLOAT16, 2},
                    [TSR_FATBIN_F16] = {TSR_GPU_MAP_FLOAT16, 2},
                    [TSR_FATBIN_F32] = {TSR_GPU_MAP_FLOAT32, 4},
                    [TSR_FATBIN_TF32] = {TSR_GPU_MAP_TFLOAT32, 4}};
    uint64_t strides[TSR_FATBIN_MAP_RANK_MAX];
    uint32_t box[TSR_FATBIN_MAP_RANK_MAX] = {fact->box_columns, fact->box_rows, 1, 1, 1};
    static const uint32_t ones[TSR_FATBIN_MAP_RANK_MAX] = {1, 1, 1, 1, 1};
    void *address;
    if (fact->argument >= command->buffer_count)
        FAIL(ctx, TSR_CORRUPT, "kernel '%s' has a map of argument %u of %u",
             self->names[command->kernel], fact->argument, command->buffer_count);
    memcpy(&address, &command->buffers[fact->argument], sizeof address);
    strides[0] = (fact->pitch ? fact->pitch : fact->dims[0]) * elements[fact->element].bytes;
    for (uint32_t d = 1; d < fact->rank; d++) strides[d] = strides[d - 1] * fact->dims[d];
    *out_map = tsr_arena_alloc(&graph->arena, TSR_GPU_MAP_BYTES, 1, TSR_GPU_MAP_ALIGN);
    if (!*out_map) FAIL(ctx, TSR_MEMORY, "no memory for the maps of a kernel");
    return TSR_GPU_CALL(ctx, &self->driver, map_encode, self->names[command->kernel], *out_map,
                        elements[fact->element].kind, fact->rank, address, fact->dims, strides, box,
                        ones, 0,
                        fact->swizzle_bytes ? TSR_GPU_MAP_SWIZZLE_128B : TSR_GPU_MAP_SWIZZLE_NONE,
                        TSR_GPU_MAP_L2_128B, 0);
}

/* A kernel may have fewer maps than there are pointers; the other pointers refer to zeros. */
static tsr_result add_maps(tsr_ctx *ctx, tsr_gpu_device *self, list_graphs *graph,
                           const tsr_device_command *command, void **parameters) {
    const tsr_fatbin_kernel *kernel = &self->fatbin.kernels[command->kernel];
    static char none[TSR_GPU_MAP_BYTES];
    for (uint32_t i = 0; i < TSR_FATBIN_MAPS_MAX; i++) {
        struct tsr_gpu_tensor_map *map = NULL;
        if (i < kernel->map_count)
            TRY(ctx, encode_map(ctx, self, graph, command, &kernel->maps[i], &map));
        parameters[i] = map ? (void *)map : none;
    }
    return TSR_SUCCESS;
}

/* The driver reads the number and sizes of arguments that the code declares. */
static tsr_result check_parameters(tsr_ctx *ctx, const tsr_gpu_device *self,
                                   const tsr_device_command *command) {
    const char *name = self->names[command->kernel];
    size_t plain = (size_t)command->buffer_count + 3, offset = 0, size = 0, taken = 0;
    size_t least = plain + self->fatbin.kernels[command->kernel].map_count;
    if (!self->driver.function_parameter) return TSR_SUCCESS;
    for (; taken <= plain + TSR_FATBIN_MAPS_MAX; taken++) {
        tsr_gpu_result result = self->driver.function_parameter(self->functions[command->kernel],
                                                                taken, &offset, &size);
        if (result == TSR_GPU_ERROR_INVALID_VALUE) break;
        TRY(ctx, tsr_gpu_check(ctx, &self->driver, result, TSR_GPU_CALL_function_parameter, name));
        size_t wanted = taken < plain ? sizeof(tsr_gpu_address) : TSR_GPU_MAP_BYTES;
        if (size != wanted)
            FAIL(ctx, TSR_CORRUPT, "argument %zu of kernel '%s' has %zu byte%s; expected %zu",
                 taken, name, size, TSR_PLURAL(size), wanted);
    }
    if (taken >= least && taken <= plain + TSR_FATBIN_MAPS_MAX) return TSR_SUCCESS;
    FAIL(ctx, TSR_CORRUPT, "kernel '%s' takes %s%zu argument%s; the program gives %zu", name,
         taken < least ? "" : "at least ", taken, TSR_PLURAL(taken), least);
}

static tsr_result launch(tsr_ctx *ctx, tsr_gpu_device *self, list_graphs *graph,
                         const tsr_device_command *command, uint32_t index) {
    const tsr_fatbin_kernel *kernel = &self->fatbin.kernels[command->kernel];
    uint64_t blocks = (command->grid - 1) / kernel->programs + 1;
    uint64_t limit = kernel->scratch_bytes
                         ? (uint64_t)TSR_GPU_BLOCKS_WITH_SCRATCH_MAX * self->gpu.multiprocessors
                         : BLOCKS_MAX;
    tsr_gpu_address fault = graph->faults + index * sizeof(tsr_fault);
    uint64_t grid = command->grid;
    if (kernel->blocks) limit = (uint64_t)kernel->blocks * self->gpu.multiprocessors;
    if (kernel->blocks && self->fitting[command->kernel]) limit = self->fitting[command->kernel];
    if (blocks > limit) blocks = limit - limit % self->clusters[command->kernel];
    TRY(ctx, check_parameters(ctx, self, command));
    /* The driver copies the values to which the pointers refer. */
    void **parameters =
        TSR_NEW(&graph->arena, void *, (size_t)command->buffer_count + 3 + TSR_FATBIN_MAPS_MAX);
    if (!parameters) FAIL(ctx, TSR_MEMORY, "no memory for %u arguments", command->buffer_count);
    for (uint32_t i = 0; i < command->buffer_count; i++) {
        const void *at = &command->buffers[i];
        memcpy(&parameters[i], &at, sizeof at);
    }
    parameters[command->buffer_count] = &fault;
    parameters[command->buffer_count + 1] = &self->scratch;
    parameters[command->buffer_count + 2] = &grid;
    TRY(ctx, add_maps(ctx, self, graph, command, parameters + command->buffer_count + 3));
    return TSR_GPU_CALL(ctx, &self->driver, launch, self->names[command->kernel],
                        self->functions[command->kernel], (unsigned)blocks, 1, 1, kernel->threads,
                        1, 1, kernel->shared_bytes, self->stream, parameters, NULL);
}

/* True if the list runs without a graph. */
static bool is_eager(const tsr_gpu_device *self, const tsr_device_list *list) {
    return self->one_by_one || list->moves || ((const list_graphs *)list->prepared)->eager;
}

/* The same for the next run, which is timed or not. */
static bool runs_eagerly(const tsr_gpu_device *self, const tsr_device_list *list) {
    return is_eager(self, list) || (list->spans && !self->driver.event_record_as);
}

/* Records an event in the stream, or in the graph that is being captured. */
static tsr_result record_event(tsr_ctx *ctx, const tsr_gpu_device *self,
                               const tsr_device_list *list, struct tsr_gpu_event *event) {
    if (runs_eagerly(self, list))
        return TSR_GPU_CALL(ctx, &self->driver, event_record, list->name, event, self->stream);
    return TSR_GPU_CALL(ctx, &self->driver, event_record_as, list->name, event, self->stream,
                        TSR_GPU_EVENT_RECORD_EXTERNAL);
}

/* Records event `index` of a timed graph. */
static tsr_result stamp(tsr_ctx *ctx, const tsr_gpu_device *self, const tsr_device_list *list,
                        const list_graphs *graph, uint32_t index) {
    if (!graph->events) return TSR_SUCCESS;
    return record_event(ctx, self, list, graph->events[index]);
}

/* Records a command of the half that begins with command `begin`. */
static tsr_result record_command(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_list *list,
                                 list_graphs *graph, uint32_t begin, uint32_t index) {
    const tsr_device_command *command = &list->commands[index];
    if (command->kind == TSR_DEVICE_LAUNCH) return launch(ctx, self, graph, command, index);
    if (command->kind != TSR_DEVICE_COPY)
        return tsr_gpu_record_overlap(ctx, self, list, &graph->overlap, begin, index);
    if (!command->copy_bytes) return TSR_SUCCESS;
    return TSR_GPU_CALL(ctx, &self->driver, copy, list->name,
                        tsr_gpu_address_of(command->buffers[0]),
                        tsr_gpu_address_of(command->buffers[1]), command->copy_bytes, self->stream);
}

static tsr_result wait_for_command(tsr_ctx *ctx, const tsr_gpu_device *self,
                                   const tsr_device_command *command) {
    static const char *const names[] = {[TSR_DEVICE_COPY] = "a copy",
                                        [TSR_DEVICE_OFFLOAD] = "an offload",
                                        [TSR_DEVICE_PREFETCH] = "a prefetch",
                                        [TSR_DEVICE_AWAIT] = "an await"};
    char about[TSR_ERROR_TEXT_MAX / 2];
    bool located = command->location && command->location[0];
    snprintf(about, sizeof about, "%s%s%s",
             command->kind == TSR_DEVICE_LAUNCH ? self->names[command->kernel]
                                                : names[command->kind],
             located ? " at " : "", located ? command->location : "");
    return tsr_gpu_wait(ctx, self, about);
}

/* Returns the first command of that half; for HALVES, the number of commands. */
static uint32_t begin_of(const tsr_device_list *list, int half) {
    uint32_t index = 0;
    if (half == BEFORE) return 0;
    if (half == HALVES) return list->command_count;
    while (index < list->command_count && !list->commands[index].guarded_count) index++;
    return index;
}

/* A list without commands has a first half. */
static bool has_half(const tsr_device_list *list, int half) {
    return begin_of(list, half) < begin_of(list, half + 1) ||
           (half == BEFORE && !list->command_count);
}

/* Returns the command of the first half before which the memory that the second half writes must be
 * copied. */
static uint32_t time_to_copy(const tsr_device_list *list) {
    uint32_t count = list->command_count, at = begin_of(list, BEHIND);
    uint64_t all = 0, left = 0;
    if (at == count) return count;
    for (uint32_t i = 0; i < count; i++) all += list->commands[i].cost;
    while (at > 0 && left <= all / LAST_PART) left += list->commands[--at].cost;
    return at;
}

/* True if the first half has that command. */
static bool marks_copy(const tsr_device_list *list) {
    return time_to_copy(list) < begin_of(list, BEHIND);
}

static tsr_result record_begin(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_memory *memory,
                               const tsr_device_list *list, const list_graphs *graph) {
    size_t fault_bytes = list->command_count * sizeof(tsr_fault);
    TRY(ctx, stamp(ctx, self, list, graph, 0));
    TRY(ctx, tsr_gpu_upload_range(ctx, self, memory, list->inputs));
    if (!fault_bytes) return TSR_SUCCESS;
    return TSR_GPU_CALL(ctx, &self->driver, set_bytes, list->name, graph->faults, 0, fault_bytes,
                        self->stream);
}

static tsr_result record_end(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_memory *memory,
                             const tsr_device_list *list, const list_graphs *graph) {
    size_t fault_bytes = list->command_count * sizeof(tsr_fault);
    TRY(ctx, stamp(ctx, self, list, graph, 1 + list->command_count));
    TRY(ctx, tsr_gpu_download_range(ctx, self, memory, list->outputs));
    if (fault_bytes)
        TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, download, list->name, graph->host_faults,
                              graph->faults, fault_bytes, self->stream));
    return stamp(ctx, self, list, graph, 2 + list->command_count);
}

/* Puts the commands of one half of a run into the stream. */
static tsr_result record(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_memory *memory,
                         const tsr_device_list *list, list_graphs *graph, int half) {
    uint32_t begin = begin_of(list, half), end = begin_of(list, half + 1);
    uint32_t copied = time_to_copy(list);
    if (begin == 0) TRY(ctx, record_begin(ctx, self, memory, list, graph));
    for (uint32_t i = begin; i < end; i++) {
        if (i == copied && half == BEFORE)
            TRY(ctx, record_event(ctx, self, list, self->snapshot.before));
        TRY(ctx, stamp(ctx, self, list, graph, 1 + i));
        TRY(ctx, record_command(ctx, self, list, graph, begin, i));
        if (self->one_by_one) TRY(ctx, wait_for_command(ctx, self, &list->commands[i]));
    }
    TRY(ctx, tsr_gpu_join_overlap(ctx, self, list, &graph->overlap, begin, end));
    return end == list->command_count ? record_end(ctx, self, memory, list, graph) : TSR_SUCCESS;
}

static tsr_result capture_half(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_memory *memory,
                               const tsr_device_list *list, list_graphs *graph, int half,
                               struct tsr_gpu_graph_exec **out_exec) {
    struct tsr_gpu_graph *captured = NULL;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, capture_begin, list->name, self->stream,
                          TSR_GPU_STREAM_CAPTURE_MODE_RELAXED));
    tsr_result result = record(ctx, self, memory, list, graph, half);
    /* The capture ends in any case; the first error is the one reported. */
    tsr_gpu_result ended = self->driver.capture_end(self->stream, &captured);
    if (!result.code)
        result = tsr_gpu_check(ctx, &self->driver, ended, TSR_GPU_CALL_capture_end, list->name);
    if (!result.code)
        result =
            TSR_GPU_CALL(ctx, &self->driver, graph_instantiate, list->name, out_exec, captured, 0);
    if (captured) self->driver.graph_destroy(captured);
    return result;
}

static tsr_result capture(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_memory *memory,
                          const tsr_device_list *list, list_graphs *graph,
                          struct tsr_gpu_graph_exec *out_execs[static HALVES]) {
    for (int half = 0; half < HALVES; half++)
        if (has_half(list, half))
            TRY(ctx, capture_half(ctx, self, memory, list, graph, half, &out_execs[half]));
    return TSR_SUCCESS;
}

/* Where the driver does not capture everything, a list that it refuses runs without a graph. */
static tsr_result capture_if_possible(tsr_ctx *ctx, tsr_gpu_device *self,
                                      const tsr_device_memory *memory, const tsr_device_list *list,
                                      list_graphs *graph) {
    tsr_ctx trial = tsr_ctx_fork(ctx);
    tsr_result result = capture(&trial, self, memory, list, graph, graph->execs);
    if (!result.code) return result;
    graph->eager = self->driver.api->captures_partly && result.code == TSR_MACHINE;
    return graph->eager ? TSR_SUCCESS : tsr_error_adopt(ctx, &trial);
}

/* Runs without a graph; with one_by_one, waits after each command. */
static tsr_result run_eagerly(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_memory *memory,
                              const tsr_device_list *list, const list_graphs *graph, int half) {
    list_graphs once = *graph;
    once.arena = (tsr_arena){0};
    if (!list->spans) once.events = NULL;
    tsr_result result = record(ctx, self, memory, list, &once, half);
    tsr_arena_finish(&once.arena);
    return result;
}

/* Prepares the graph with events, once. */
static tsr_result prepare_timed(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_memory *memory,
                                const tsr_device_list *list, list_graphs *graph) {
    bool eager = runs_eagerly(self, list);
    if (graph->timed[BEFORE] || graph->timed[BEHIND] || (eager && graph->events))
        return TSR_SUCCESS;
    uint32_t count = list->command_count + 3;
    if (!graph->events) graph->events = TSR_NEW(&graph->arena, struct tsr_gpu_event *, count);
    if (!graph->events) FAIL(ctx, TSR_MEMORY, "no memory to time '%s'", list->name);
    for (uint32_t i = 0; i < count; i++)
        if (!graph->events[i])
            TRY(ctx,
                TSR_GPU_CALL(ctx, &self->driver, event_create, list->name, &graph->events[i], 0));
    if (eager) return TSR_SUCCESS;
    TRY(ctx, tsr_gpu_time_overlap(ctx, self, list, &graph->arena, &graph->overlap));
    return capture(ctx, self, memory, list, graph, graph->timed);
}

tsr_result tsr_gpu_prepare(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                           tsr_device_list *list) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    size_t fault_bytes = list->command_count * sizeof(tsr_fault);
    void *host = NULL;
    list_graphs *graph = calloc(1, sizeof *graph);
    if (!graph) FAIL(ctx, TSR_MEMORY, "no memory to prepare '%s'", list->name);
    list->prepared = graph; /* the caller finishes it, also after a failure */
    TRY(ctx, tsr_gpu_enter(ctx, self));
    if (fault_bytes) {
        TRY(ctx,
            TSR_GPU_CALL(ctx, &self->driver, host_allocate, list->name, &host, fault_bytes, 0));
        graph->host_faults = host;
        memset(host, 0, fault_bytes);
        TRY(ctx, tsr_gpu_reserve(ctx, self, list->name, fault_bytes, &graph->faults));
    }
    graph->eager = marks_copy(list) && !self->driver.event_record_as;
    if (is_eager(self, list)) return TSR_SUCCESS;
    TRY(ctx, tsr_gpu_ready_overlap(ctx, self, list, &graph->arena, &graph->overlap));
    return capture_if_possible(ctx, self, memory, list, graph);
}

void tsr_gpu_finish(tsr_device *device, tsr_device_list *list) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    list_graphs *graph = list->prepared;
    self->driver.context_set(self->context);
    for (int half = 0; half < HALVES; half++) {
        if (graph->execs[half]) self->driver.graph_exec_destroy(graph->execs[half]);
        if (graph->timed[half]) self->driver.graph_exec_destroy(graph->timed[half]);
    }
    for (uint32_t i = 0; graph->events && i < list->command_count + 3; i++)
        if (graph->events[i]) self->driver.event_destroy(graph->events[i]);
    tsr_gpu_finish_overlap(self, list, &graph->overlap);
    tsr_gpu_free(self, graph->faults);
    if (graph->host_faults) self->driver.host_free(graph->host_faults);
    tsr_arena_finish(&graph->arena);
    free(graph);
    list->prepared = NULL;
}

/* Converts the device's times to the host's clock: the last event corresponds to the end of the
 * wait for it. */
static tsr_result read_spans(tsr_ctx *ctx, const tsr_gpu_device *self, const tsr_device_list *list,
                             const list_graphs *graph, uint64_t began_ns) {
    uint64_t ended_ns = tsr_clock_ns(), before_ns = 0;
    uint32_t count = list->command_count, last = count + 2;
    float took_ms = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, event_elapsed, list->name, &took_ms, graph->events[0],
                          graph->events[last]));
    uint64_t took_ns = (uint64_t)(1e6 * (double)took_ms);
    if (ended_ns - began_ns > took_ns) began_ns = ended_ns - took_ns;
    for (uint32_t i = 0; i <= last; i++) {
        float ms = 0;
        if (i)
            TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, event_elapsed, list->name, &ms,
                                  graph->events[0], graph->events[i]));
        uint64_t at_ns = began_ns + (uint64_t)(1e6 * (double)ms);
        const tsr_device_span span = {before_ns, at_ns};
        if (i == 1 && list->inputs.size_bytes) list->spans[count] = span;
        if (i > 1 && i < last) list->spans[i - 2] = span;
        if (i == last && list->outputs.size_bytes) list->spans[count + 1] = span;
        before_ns = at_ns;
    }
    return tsr_gpu_read_overlap(ctx, self, list, &graph->overlap, graph->events[0], began_ns);
}

static tsr_result run_half(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_memory *memory,
                           const tsr_device_list *list, const list_graphs *graph, int half) {
    if (!has_half(list, half)) return TSR_SUCCESS;
    if (half == BEHIND && memory->guard) memory->guard(memory->guard_user, NULL);
    if (half == BEHIND) TRY(ctx, tsr_gpu_let_write(ctx, self, true));
    if (runs_eagerly(self, list)) return run_eagerly(ctx, self, memory, list, graph, half);
    return TSR_GPU_CALL(ctx, &self->driver, graph_launch, list->name,
                        list->spans ? graph->timed[half] : graph->execs[half], self->stream);
}

static tsr_result run_halves(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_memory *memory,
                             const tsr_device_list *list, const list_graphs *graph) {
    for (int half = 0; half < HALVES; half++)
        TRY(ctx, run_half(ctx, self, memory, list, graph, half));
    return tsr_gpu_wait(ctx, self, list->name);
}

tsr_result tsr_gpu_run(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                       tsr_device_list *list, tsr_fault *out_fault, uint32_t *out_command) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    list_graphs *graph = list->prepared;
    out_fault->kind = TSR_FAULT_NONE;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    if (list->spans) TRY(ctx, prepare_timed(ctx, self, memory, list, graph));
    uint64_t began_ns = list->spans ? tsr_clock_ns() : 0;
    tsr_result ran = run_halves(ctx, self, memory, list, graph);
    tsr_gpu_free_readers(self);
    TRY(ctx, ran);
    if (list->spans) TRY(ctx, read_spans(ctx, self, list, graph, began_ns));
    for (uint32_t i = 0; i < list->command_count; i++) {
        if (graph->host_faults[i].kind == TSR_FAULT_NONE) continue;
        *out_fault = graph->host_faults[i];
        *out_command = i;
        break;
    }
    return TSR_SUCCESS;
}
