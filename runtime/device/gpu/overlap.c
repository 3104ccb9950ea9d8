/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies to the host's memory and back that run concurrently with the other commands of a list,
 * with a separate stream for each direction:
 *
 *     the device's stream   a --+-- b -- c --+-- d
 *     of offloads               +-- copy ----+        c runs during the copy
 *
 * Events connect the streams in both directions. In a capture, they create branches of one graph,
 * which all must join before the capture ends. A list without a graph copies in order.
 */
#include "runtime/base/plural.h"
#include "runtime/device/gpu/device.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

static bool copy_overlaps(const tsr_device_command *command) {
    return command->kind == TSR_DEVICE_OFFLOAD || command->kind == TSR_DEVICE_PREFETCH;
}

static struct tsr_gpu_stream *stream_of(const tsr_gpu_device *self,
                                        const tsr_device_command *command) {
    return command->kind == TSR_DEVICE_OFFLOAD ? self->overlap.offloads : self->overlap.prefetches;
}

/* ---- memory ---- */

tsr_result tsr_gpu_allocate_offloaded(tsr_ctx *ctx, const tsr_gpu_device *self, uint64_t size_bytes,
                                      tsr_device_memory *memory) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!size_bytes) return TSR_SUCCESS;
    size_bytes = (size_bytes + page - 1) / page * page;
    void *offloaded =
        mmap(NULL, (size_t)size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (offloaded == MAP_FAILED)
        FAIL(ctx, TSR_MEMORY, "no address space for %" PRIu64 " byte%s", size_bytes,
             TSR_PLURAL(size_bytes));
    (void)madvise(offloaded, (size_t)size_bytes, MADV_HUGEPAGE);
    tsr_result result = tsr_gpu_lock_part(ctx, self, offloaded, (size_t)size_bytes);
    if (result.code) {
        munmap(offloaded, (size_t)size_bytes);
        return tsr_error_prefix(ctx, result,
                                "%" PRIu64 " byte%s of the host's memory are to be locked",
                                size_bytes, TSR_PLURAL(size_bytes));
    }
    memory->offloaded = offloaded;
    memory->offloaded_bytes = size_bytes;
    return TSR_SUCCESS;
}

void tsr_gpu_release_offloaded(const tsr_gpu_device *self, const tsr_device_memory *memory) {
    if (!memory->offloaded) return;
    self->driver.host_unregister(memory->offloaded);
    munmap(memory->offloaded, (size_t)memory->offloaded_bytes);
}

/* ---- lists ---- */

static tsr_result create_streams(tsr_ctx *ctx, tsr_gpu_device *self) {
    struct tsr_gpu_stream **streams[] = {&self->overlap.offloads, &self->overlap.prefetches};
    for (size_t i = 0; i < 2; i++)
        if (!*streams[i])
            TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, stream_create, self->about, streams[i],
                                  TSR_GPU_STREAM_NON_BLOCKING));
    if (self->overlap.begins) return TSR_SUCCESS;
    return TSR_GPU_CALL(ctx, &self->driver, event_create, self->about, &self->overlap.begins,
                        TSR_GPU_EVENT_DISABLE_TIMING);
}

tsr_result tsr_gpu_ready_overlap(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_list *list,
                                 tsr_arena *arena, tsr_gpu_list_copies *out_overlap) {
    uint32_t first = 0;
    while (first < list->command_count && !copy_overlaps(&list->commands[first])) first++;
    if (first == list->command_count) return TSR_SUCCESS;
    TRY(ctx, create_streams(ctx, self));
    out_overlap->done = TSR_NEW(arena, struct tsr_gpu_event *, list->command_count);
    if (!out_overlap->done) FAIL(ctx, TSR_MEMORY, "no memory to prepare '%s'", list->name);
    for (uint32_t i = first; i < list->command_count; i++)
        if (copy_overlaps(&list->commands[i]))
            TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, event_create, list->name,
                                  &out_overlap->done[i], TSR_GPU_EVENT_DISABLE_TIMING));
    return TSR_SUCCESS;
}

tsr_result tsr_gpu_time_overlap(tsr_ctx *ctx, const tsr_gpu_device *self,
                                const tsr_device_list *list, tsr_arena *arena,
                                tsr_gpu_list_copies *overlap) {
    uint32_t count = list->command_count;
    if (!overlap->done) return TSR_SUCCESS;
    if (!overlap->stamps)
        overlap->stamps = TSR_NEW(arena, struct tsr_gpu_event *, 2 * (size_t)count);
    if (!overlap->stamps) FAIL(ctx, TSR_MEMORY, "no memory to time '%s'", list->name);
    for (size_t i = 0; i < 2 * (size_t)count; i++)
        if (overlap->done[i / 2] && !overlap->stamps[i])
            TRY(ctx,
                TSR_GPU_CALL(ctx, &self->driver, event_create, list->name, &overlap->stamps[i], 0));
    return TSR_SUCCESS;
}

void tsr_gpu_finish_overlap(const tsr_gpu_device *self, const tsr_device_list *list,
                            const tsr_gpu_list_copies *overlap) {
    for (uint32_t i = 0; overlap->done && i < list->command_count; i++)
        if (overlap->done[i]) self->driver.event_destroy(overlap->done[i]);
    for (size_t i = 0; overlap->stamps && i < 2 * (size_t)list->command_count; i++)
        if (overlap->stamps[i]) self->driver.event_destroy(overlap->stamps[i]);
}

void tsr_gpu_close_overlap(const tsr_gpu_device *self) {
    if (self->overlap.begins) self->driver.event_destroy(self->overlap.begins);
    if (self->overlap.offloads) self->driver.stream_destroy(self->overlap.offloads);
    if (self->overlap.prefetches) self->driver.stream_destroy(self->overlap.prefetches);
}

/* ---- commands ---- */

static tsr_result copy(tsr_ctx *ctx, const tsr_gpu_device *self, const tsr_device_list *list,
                       const tsr_device_command *command, struct tsr_gpu_stream *stream) {
    if (command->kind == TSR_DEVICE_OFFLOAD)
        return TSR_GPU_CALL(ctx, &self->driver, download, list->name, command->buffers[0],
                            tsr_gpu_address_of(command->buffers[1]), command->copy_bytes, stream);
    return TSR_GPU_CALL(ctx, &self->driver, upload, list->name,
                        tsr_gpu_address_of(command->buffers[0]), command->buffers[1],
                        command->copy_bytes, stream);
}

static tsr_result stamp(tsr_ctx *ctx, const tsr_gpu_device *self, const tsr_device_list *list,
                        const tsr_gpu_list_copies *overlap, size_t number,
                        struct tsr_gpu_stream *stream) {
    if (!overlap->stamps) return TSR_SUCCESS;
    return TSR_GPU_CALL(ctx, &self->driver, event_record_as, list->name, overlap->stamps[number],
                        stream, TSR_GPU_EVENT_RECORD_EXTERNAL);
}

static tsr_result await(tsr_ctx *ctx, const tsr_gpu_device *self, const tsr_device_list *list,
                        const tsr_gpu_list_copies *overlap, uint32_t awaited) {
    return TSR_GPU_CALL(ctx, &self->driver, stream_wait_event, list->name, self->stream,
                        overlap->done[awaited], 0);
}

tsr_result tsr_gpu_record_overlap(tsr_ctx *ctx, const tsr_gpu_device *self,
                                  const tsr_device_list *list, const tsr_gpu_list_copies *overlap,
                                  uint32_t begin, uint32_t index) {
    const tsr_device_command *command = &list->commands[index];
    bool awaits = command->kind == TSR_DEVICE_AWAIT;
    if (!overlap->done) return awaits ? TSR_SUCCESS : copy(ctx, self, list, command, self->stream);
    if (awaits && command->awaited < begin) return TSR_SUCCESS; /* joined when that half ended */
    if (awaits) return await(ctx, self, list, overlap, command->awaited);
    struct tsr_gpu_stream *stream = stream_of(self, command);
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, event_record, list->name, self->overlap.begins,
                          self->stream));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, stream_wait_event, list->name, stream,
                          self->overlap.begins, 0));
    TRY(ctx, stamp(ctx, self, list, overlap, 2 * (size_t)index, stream));
    TRY(ctx, copy(ctx, self, list, command, stream));
    TRY(ctx, stamp(ctx, self, list, overlap, 2 * (size_t)index + 1, stream));
    return TSR_GPU_CALL(ctx, &self->driver, event_record, list->name, overlap->done[index], stream);
}

static bool is_awaited(const tsr_device_list *list, uint32_t index, uint32_t end) {
    for (uint32_t i = index + 1; i < end; i++)
        if (list->commands[i].kind == TSR_DEVICE_AWAIT && list->commands[i].awaited == index)
            return true;
    return false;
}

tsr_result tsr_gpu_join_overlap(tsr_ctx *ctx, const tsr_gpu_device *self,
                                const tsr_device_list *list, const tsr_gpu_list_copies *overlap,
                                uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; overlap->done && i < end; i++)
        if (overlap->done[i] && !is_awaited(list, i, end))
            TRY(ctx, await(ctx, self, list, overlap, i));
    return TSR_SUCCESS;
}

static tsr_result read_stamp(tsr_ctx *ctx, const tsr_gpu_device *self, const tsr_device_list *list,
                             struct tsr_gpu_event *began, struct tsr_gpu_event *stamp,
                             uint64_t *out_after_ns) {
    float ms = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, event_elapsed, list->name, &ms, began, stamp));
    *out_after_ns = (uint64_t)(1e6 * (double)ms);
    return TSR_SUCCESS;
}

tsr_result tsr_gpu_read_overlap(tsr_ctx *ctx, const tsr_gpu_device *self,
                                const tsr_device_list *list, const tsr_gpu_list_copies *overlap,
                                struct tsr_gpu_event *began, uint64_t began_ns) {
    for (uint32_t i = 0; overlap->stamps && i < list->command_count; i++) {
        tsr_device_span span = {0, 0};
        if (!overlap->stamps[2 * (size_t)i]) continue;
        TRY(ctx,
            read_stamp(ctx, self, list, began, overlap->stamps[2 * (size_t)i], &span.begin_ns));
        TRY(ctx,
            read_stamp(ctx, self, list, began, overlap->stamps[2 * (size_t)i + 1], &span.end_ns));
        list->spans[i] = (tsr_device_span){began_ns + span.begin_ns, began_ns + span.end_ns};
    }
    return TSR_SUCCESS;
}
