/* SPDX-License-Identifier: Apache-2.0
 *
 * A device with its own memory that executes copies and skips launches: a template for devices, and
 * a device for tests of transfers. This device never computes.
 */
#include "runtime/base/clock.h"
#include "runtime/base/trace/trace.h"
#include "runtime/device/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct null_device {
    tsr_device base;
} null_device;

static tsr_result null_open(tsr_ctx *ctx, const tsr_device_options *options,
                            tsr_device **out_device) {
    (void)options;
    null_device *self = calloc(1, sizeof *self);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory for a device");
    self->base.type = &tsr_device_null;
    *out_device = &self->base;
    return TSR_SUCCESS;
}

static void null_close(tsr_device *device) { free(device); }

static const char *null_describe(const tsr_device *device) {
    (void)device;
    return "no device";
}

static void null_release(tsr_device *device, tsr_device_memory *memory) {
    (void)device;
    free(memory->host);
    free(memory->device);
    free(memory->offloaded);
    *memory = (tsr_device_memory){0};
}

static tsr_result null_allocate(tsr_ctx *ctx, tsr_device *device, uint64_t size_bytes,
                                uint64_t offloaded_bytes, tsr_device_range ports,
                                tsr_device_memory *out_memory) {
    (void)ports;
    tsr_device_memory memory = {.host = calloc(1, (size_t)size_bytes),
                                .device = calloc(1, (size_t)size_bytes),
                                .size_bytes = size_bytes,
                                .offloaded =
                                    offloaded_bytes ? calloc(1, (size_t)offloaded_bytes) : NULL,
                                .offloaded_bytes = offloaded_bytes};
    if (!memory.host || !memory.device || (offloaded_bytes && !memory.offloaded)) {
        null_release(device, &memory);
        FAIL(ctx, TSR_MEMORY, "no memory for %" PRIu64 " bytes", size_bytes + offloaded_bytes);
    }
    *out_memory = memory;
    return TSR_SUCCESS;
}

static tsr_result copy_range(char *to, const char *from, tsr_device_range range) {
    memcpy(to + range.offset_bytes, from + range.offset_bytes, range.size_bytes);
    return TSR_SUCCESS;
}

static tsr_result null_ready_readers(tsr_ctx *ctx, tsr_device *device, unsigned count) {
    (void)ctx, (void)device, (void)count;
    return TSR_SUCCESS;
}

static tsr_result null_read(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                            unsigned reader, tsr_device_range range, const void **out_bytes) {
    (void)ctx, (void)device, (void)reader;
    *out_bytes = memory->device + range.offset_bytes;
    return TSR_SUCCESS;
}

static tsr_result null_upload(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                              tsr_device_range range) {
    (void)ctx, (void)device;
    return copy_range(memory->device, memory->host, range);
}

static tsr_result null_download(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                                tsr_device_range range) {
    (void)ctx, (void)device;
    return copy_range(memory->host, memory->device, range);
}

static tsr_result null_copy_caller(tsr_ctx *ctx, tsr_device *device, const void *from, void *to,
                                   uint64_t size_bytes) {
    (void)ctx, (void)device;
    memcpy(to, from, (size_t)size_bytes);
    return TSR_SUCCESS;
}

static tsr_result null_combine(tsr_ctx *ctx, tsr_device *device, tsr_reduction reduction, void *out,
                               const void *a, const void *b, uint64_t count) {
    (void)ctx, (void)device;
    tsr_tree_combine(reduction, out, a, b, (size_t)count);
    return TSR_SUCCESS;
}

static tsr_result null_prepare(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                               tsr_device_list *list) {
    (void)ctx, (void)device, (void)memory, (void)list;
    return TSR_SUCCESS;
}

static void null_finish(tsr_device *device, tsr_device_list *list) { (void)device, (void)list; }

static tsr_result null_run(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                           tsr_device_list *list, tsr_fault *out_fault, uint32_t *out_command) {
    (void)out_command;
    out_fault->kind = TSR_FAULT_NONE;
    TRY(ctx, null_upload(ctx, device, memory, list->inputs));
    for (uint32_t i = 0; i < list->command_count; i++) {
        const tsr_device_command *command = &list->commands[i];
        if (list->spans) list->spans[i].begin_ns = tsr_clock_ns();
        bool copies = command->kind != TSR_DEVICE_LAUNCH && command->kind != TSR_DEVICE_AWAIT;
        if (copies) memcpy(command->buffers[0], command->buffers[1], command->copy_bytes);
        if (list->spans) list->spans[i].end_ns = tsr_clock_ns();
    }
    return null_download(ctx, device, memory, list->outputs);
}

static int32_t null_get_number(const tsr_device *device) {
    (void)device;
    return 0;
}

static tsr_result null_await_caller(tsr_ctx *ctx, tsr_device *device, const void *stream) {
    (void)ctx, (void)device, (void)stream;
    return TSR_SUCCESS;
}

static tsr_result null_measure(tsr_ctx *ctx, tsr_device *device, tsr_limits *out_limits) {
    (void)ctx, (void)device;
    *out_limits = (tsr_limits){0};
    return TSR_SUCCESS;
}

const tsr_device_type tsr_device_null = {
    .name = "null",
    .open = null_open,
    .close = null_close,
    .describe = null_describe,
    .allocate = null_allocate,
    .release = null_release,
    .upload = null_upload,
    .download = null_download,
    .read_caller = null_copy_caller,
    .write_caller = null_copy_caller,
    .get_number = null_get_number,
    .await_caller = null_await_caller,
    .combine = null_combine,
    .ready_readers = null_ready_readers,
    .read = null_read,
    .prepare = null_prepare,
    .finish = null_finish,
    .run = null_run,
    .measure = null_measure,
};
