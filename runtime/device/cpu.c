/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU as a device: memory of this process, kernels of a code object, a pool of threads.
 */
#include "runtime/cpu.h"

#include "runtime/base/clock.h"
#include "runtime/base/trace/trace.h"
#include "runtime/device/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGES_FROM = 8 << 20 }; /* block size, large enough that rounding up wastes little */

typedef struct cpu_device {
    tsr_device base;
    const tsr_kernel_fn *kernels; /* borrowed, or owned_kernels */
    tsr_threads *threads;         /* borrowed, or owned_threads */
    tsr_kernel_fn *owned_kernels;
    tsr_threads *owned_threads;
    tsr_code_object *object; /* owned */
    const char *planned;     /* borrowed; NULL: not known */
} cpu_device;

static void cpu_close(tsr_device *device) {
    cpu_device *self = (cpu_device *)device;
    tsr_threads_destroy(self->owned_threads);
    tsr_code_object_unload(self->object);
    free(self->owned_kernels);
    free(self);
}

tsr_result tsr_device_cpu_create(tsr_ctx *ctx, const tsr_kernel_fn *kernels, tsr_threads *threads,
                                 tsr_device **out_device) {
    cpu_device *self = calloc(1, sizeof *self);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory for a device");
    *self = (cpu_device){.base = {.type = &tsr_device_cpu}, .kernels = kernels, .threads = threads};
    *out_device = &self->base;
    return TSR_SUCCESS;
}

static tsr_result load(tsr_ctx *ctx, cpu_device *self, const tsr_device_options *options) {
    self->owned_kernels = calloc(options->kernel_count + 1, sizeof *self->owned_kernels);
    if (!self->owned_kernels)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu kernels", options->kernel_count);
    self->kernels = self->owned_kernels;
    TRY(ctx, tsr_code_object_load(ctx, options->code, options->code_size_bytes, options->kernels,
                                  options->kernel_count, self->owned_kernels, &self->object));
    TRY(ctx, tsr_threads_create(ctx, options->threads, &self->owned_threads));
    self->threads = self->owned_threads;
    self->planned = options->planned;
    return TSR_SUCCESS;
}

static tsr_result cpu_open(tsr_ctx *ctx, const tsr_device_options *options,
                           tsr_device **out_device) {
    tsr_device *device = NULL;
    TRY(ctx, tsr_device_cpu_create(ctx, NULL, NULL, &device));
    tsr_result result = load(ctx, (cpu_device *)device, options);
    if (result.code)
        cpu_close(device);
    else
        *out_device = device;
    return result;
}

tsr_threads *tsr_device_cpu_get_threads(const tsr_device *device) {
    return device->type == &tsr_device_cpu ? ((const cpu_device *)device)->threads : NULL;
}

static const char *cpu_describe(const tsr_device *device) {
    (void)device;
    return "the CPU";
}

static tsr_result map(tsr_ctx *ctx, const cpu_device *self, uint64_t size_bytes, char **out_block) {
    const char *planned = self->planned;
    void *block =
        mmap(NULL, (size_t)size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        FAIL(ctx, TSR_MEMORY, "no memory for %" PRIu64 " bytes%s%s", size_bytes,
             planned ? "; " : "", planned ? planned : "");
    /* Kernels read columns of matrices: with small pages, every row is on a different page. */
    if (size_bytes >= HUGE_PAGES_FROM) (void)madvise(block, (size_t)size_bytes, MADV_HUGEPAGE);
    *out_block = block;
    return TSR_SUCCESS;
}

static void cpu_release(tsr_device *device, tsr_device_memory *memory) {
    (void)device;
    if (memory->host) munmap(memory->host, (size_t)memory->size_bytes);
    if (memory->offloaded) munmap(memory->offloaded, (size_t)memory->offloaded_bytes);
    *memory = (tsr_device_memory){0};
}

static tsr_result cpu_allocate(tsr_ctx *ctx, tsr_device *device, uint64_t size_bytes,
                               uint64_t offloaded_bytes, tsr_device_range ports,
                               tsr_device_memory *out_memory) {
    const cpu_device *self = (const cpu_device *)device;
    tsr_device_memory memory = {.size_bytes = size_bytes, .offloaded_bytes = offloaded_bytes};
    (void)ports;
    TRY(ctx, map(ctx, self, size_bytes, &memory.host));
    memory.device = memory.host;
    tsr_result result =
        offloaded_bytes ? map(ctx, self, offloaded_bytes, &memory.offloaded) : TSR_SUCCESS;
    if (result.code)
        cpu_release(device, &memory);
    else
        *out_memory = memory;
    return result;
}

static tsr_result cpu_transfer(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                               tsr_device_range range) {
    (void)ctx, (void)device, (void)memory, (void)range;
    return TSR_SUCCESS;
}

static tsr_result cpu_prepare(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                              tsr_device_list *list) {
    (void)ctx, (void)device, (void)memory, (void)list;
    return TSR_SUCCESS;
}

static void cpu_finish(tsr_device *device, tsr_device_list *list) { (void)device, (void)list; }

/* Returns false if the command had a fault. */
static bool run_command(cpu_device *self, const tsr_device_memory *memory,
                        const tsr_device_command *command, tsr_fault *out_fault) {
    for (uint32_t k = 0; memory->guard && k < command->guarded_count; k++)
        memory->guard(memory->guard_user, command->guarded[k]);
    if (command->kind == TSR_DEVICE_LAUNCH)
        tsr_threads_launch(self->threads, self->kernels[command->kernel], command->buffers,
                           command->grid, command->cost, out_fault);
    else if (command->kind != TSR_DEVICE_AWAIT)
        memcpy(command->buffers[0], command->buffers[1], command->copy_bytes);
    return out_fault->kind == TSR_FAULT_NONE;
}

static tsr_result cpu_run(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                          tsr_device_list *list, tsr_fault *out_fault, uint32_t *out_command) {
    cpu_device *self = (cpu_device *)device;
    (void)ctx;
    out_fault->kind = TSR_FAULT_NONE;
    if (list->cost_max >= TSR_LAUNCH_COST_WAKE) tsr_threads_wake(self->threads);
    for (uint32_t i = 0; i < list->command_count; i++) {
        tsr_device_span *span = list->spans ? &list->spans[i] : NULL;
        if (span) span->begin_ns = tsr_clock_ns();
        bool done = run_command(self, memory, &list->commands[i], out_fault);
        if (span) span->end_ns = tsr_clock_ns();
        if (done) continue;
        *out_command = i;
        break;
    }
    return TSR_SUCCESS;
}

static tsr_result cpu_measure(tsr_ctx *ctx, tsr_device *device, tsr_limits *out_limits) {
    return tsr_limits_measure(ctx, ((cpu_device *)device)->threads, out_limits);
}

const tsr_device_type tsr_device_cpu = {
    .name = "cpu",
    .shares_memory = true,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .upload = cpu_transfer,
    .download = cpu_transfer,
    .prepare = cpu_prepare,
    .finish = cpu_finish,
    .run = cpu_run,
    .measure = cpu_measure,
};
