/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a GPU as a device: the primary context, one stream, a module with the matching image.
 */
#include "runtime/base/plural.h"
#include "runtime/device/gpu/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STATIC_SHARED_MAX = 48 * 1024,
    LOG_BYTES = 400,
};

void tsr_gpu_close_device(tsr_device *device) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    const tsr_gpu_driver *driver = &self->driver;
    if (self->retained) {
        driver->context_set(self->context);
        tsr_gpu_finish_snapshot(self);
        tsr_gpu_finish_readers(self);
        tsr_gpu_close_overlap(self);
        tsr_gpu_close_peers(self);
        tsr_gpu_free(self, self->scratch);
        if (self->module) driver->module_unload(self->module);
        if (self->stream) driver->stream_destroy(self->stream);
        driver->context_release(self->gpu.device);
    }
    tsr_gpu_close(&self->driver);
    tsr_arena_finish(&self->arena);
    pthread_cond_destroy(&self->snapshot.freed);
    pthread_mutex_destroy(&self->snapshot.readers_lock);
    pthread_mutex_destroy(&self->snapshot.mutex);
    free(self);
}

static tsr_result refuse(tsr_ctx *ctx, const tsr_gpu_device *self, const tsr_fatbin *fatbin) {
    const tsr_gpu_api *api = self->driver.api;
    char list[400] = "", arch[TSR_GPU_TEXT_MAX], text[TSR_GPU_TEXT_MAX];
    size_t at = 0;
    for (uint32_t i = 0; i < fatbin->image_count && at < sizeof list; i++) {
        api->print_image(&fatbin->images[i], text);
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", text);
    }
    api->print_arch(self->gpu.arch, arch);
    FAIL(ctx, TSR_TARGET, "no code for %s of %s; the bundle has %s", self->about, arch, list);
}

static tsr_result load_module(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_fatbin_image *image) {
    char log[LOG_BYTES] = "", about[LOG_BYTES + 256];
    tsr_gpu_enum options[] = {TSR_GPU_JIT_ERROR_LOG_BUFFER,
                              TSR_GPU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    tsr_gpu_result result =
        self->driver.module_load(&self->module, image->bytes, 2, options, values);
    log[sizeof log - 1] = 0;
    snprintf(about, sizeof about, "%s for %s%s%s",
             image->kind == TSR_FATBIN_PTX ? "PTX" : "machine code", self->about,
             log[0] ? ": " : "", log);
    return tsr_gpu_check(ctx, &self->driver, result, TSR_GPU_CALL_module_load, about);
}

/* Blocks that run together are in one part of the GPU. The number that run at a time depends on the
 * number of multiprocessors in each part, which differs between GPUs. */
static tsr_result ask_fitting(tsr_ctx *ctx, tsr_gpu_device *self, uint32_t index) {
    const tsr_fatbin_kernel *kernel = &self->fatbin.kernels[index];
    tsr_gpu_launch config = {
        self->clusters[index], 1, 1, kernel->threads, 1, 1, kernel->shared_bytes, NULL, NULL, 0};
    int count = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, clusters_fitting, self->names[index], &count,
                          self->functions[index], (const struct tsr_gpu_launch_config *)&config));
    if (count > 0) self->fitting[index] = (unsigned)count * self->clusters[index];
    return TSR_SUCCESS;
}

static tsr_result find_function(tsr_ctx *ctx, tsr_gpu_device *self, uint32_t index) {
    const tsr_fatbin_kernel *kernel = &self->fatbin.kernels[index];
    const char *name = self->names[index];
    int cluster = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, module_function, name, &self->functions[index],
                          self->module, name));
    if (kernel->map_count && !self->driver.map_encode)
        FAIL(ctx, TSR_CORRUPT, "kernel '%s' has %u tensor map%s; %s has none", name,
             kernel->map_count, TSR_PLURAL(kernel->map_count), self->about);
    if (self->driver.function_get)
        TRY(ctx,
            TSR_GPU_CALL(ctx, &self->driver, function_get, name, &cluster,
                         TSR_GPU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, self->functions[index]));
    self->clusters[index] = cluster > 1 ? (unsigned)cluster : 1;
    self->fitting[index] = 0;
    if (!self->driver.function_set ||
        kernel->shared_bytes + kernel->static_bytes <= STATIC_SHARED_MAX)
        return TSR_SUCCESS;
    return TSR_GPU_CALL(ctx, &self->driver, function_set, name, self->functions[index],
                        TSR_GPU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                        (int)kernel->shared_bytes);
}

static tsr_result find_functions(tsr_ctx *ctx, tsr_gpu_device *self) {
    for (uint32_t i = 0; i < self->fatbin.kernel_count; i++) TRY(ctx, find_function(ctx, self, i));
    for (uint32_t i = 0; i < self->fatbin.kernel_count; i++)
        if (self->clusters[i] > 1) TRY(ctx, ask_fitting(ctx, self, i));
    return TSR_SUCCESS;
}

/* Decodes the code and returns its image for this GPU. */
static tsr_result choose_image(tsr_ctx *ctx, tsr_gpu_device *self,
                               const tsr_device_options *options,
                               const tsr_fatbin_image **out_image) {
    TRY(ctx, tsr_fatbin_decode(ctx, options->code, options->code_size_bytes, &self->arena,
                               &self->fatbin));
    if (self->fatbin.kernel_count != options->kernel_count)
        FAIL(ctx, TSR_CORRUPT, "GPU code has %u kernel%s; the program has %zu",
             self->fatbin.kernel_count, TSR_PLURAL(self->fatbin.kernel_count),
             options->kernel_count);
    *out_image = self->driver.api->match(&self->fatbin, self->gpu.arch);
    return *out_image ? TSR_SUCCESS : refuse(ctx, self, &self->fatbin);
}

static tsr_result load_code(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_options *options) {
    const tsr_fatbin_image *image = NULL;
    TRY(ctx, choose_image(ctx, self, options, &image));
    self->functions = TSR_NEW(&self->arena, struct tsr_gpu_function *, options->kernel_count + 1);
    self->clusters = TSR_NEW(&self->arena, unsigned, options->kernel_count + 1);
    self->fitting = TSR_NEW(&self->arena, unsigned, options->kernel_count + 1);
    if (!self->functions || !self->clusters || !self->fitting)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu kernels", options->kernel_count);
    TRY(ctx, load_module(ctx, self, image));
    self->fatbin.images = NULL;
    self->fatbin.image_count = 0;
    return find_functions(ctx, self);
}

/* Enough for every launch, since launches run one after the other. */
static uint64_t size_scratch(const tsr_gpu_device *self) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < self->fatbin.kernel_count; i++)
        if (self->fatbin.kernels[i].scratch_bytes > most)
            most = self->fatbin.kernels[i].scratch_bytes;
    return most * TSR_GPU_BLOCKS_WITH_SCRATCH_MAX * self->gpu.multiprocessors;
}

static tsr_result allocate_scratch(tsr_ctx *ctx, tsr_gpu_device *self) {
    uint64_t size_bytes = size_scratch(self);
    if (!size_bytes) return TSR_SUCCESS;
    return tsr_gpu_reserve(ctx, self, self->about, size_bytes, &self->scratch);
}

/* Retains the context and makes it current for the calling thread. */
static tsr_result retain(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_options *options) {
    TRY(ctx, tsr_gpu_open(ctx, self->base.type->gpu, options->library, &self->driver));
    self->driver.planned = options->planned;
    TRY(ctx, tsr_gpu_find(ctx, &self->driver, options->selector, &self->gpu));
    snprintf(self->about, sizeof self->about, "%s (%d, %s)", self->gpu.name, self->gpu.ordinal,
             self->gpu.uuid);
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, context_retain, self->about, &self->context,
                          self->gpu.device));
    self->retained = true;
    return tsr_gpu_enter(ctx, self);
}

static tsr_result open_stages(tsr_ctx *ctx, tsr_gpu_device *self,
                              const tsr_device_options *options) {
    TRY(ctx, retain(ctx, self, options));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, stream_create, self->about, &self->stream,
                          TSR_GPU_STREAM_NON_BLOCKING));
    TRY(ctx, tsr_gpu_init_snapshot(ctx, self));
    tsr_gpu_expect(ctx, self, options->samples, options->takes_bytes);
    TRY(ctx, load_code(ctx, self, options));
    return allocate_scratch(ctx, self);
}

static tsr_gpu_device *create(const tsr_device_type *type, const tsr_device_options *options) {
    tsr_gpu_device *self = calloc(1, sizeof *self);
    if (!self) return NULL;
    self->base.type = type;
    pthread_mutex_init(&self->snapshot.readers_lock, NULL);
    pthread_mutex_init(&self->snapshot.mutex, NULL);
    pthread_cond_init(&self->snapshot.freed, NULL);
    self->names = options->kernels;
    self->memory_max = options->memory_max;
    self->one_by_one = options->one_by_one;
    self->shares = options->shares;
    return self;
}

tsr_result tsr_gpu_open_device(tsr_ctx *ctx, const tsr_device_type *type,
                               const tsr_device_options *options, tsr_device **out_device) {
    tsr_gpu_device *self = create(type, options);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory for a device");
    tsr_result result = open_stages(ctx, self, options);
    if (result.code)
        tsr_gpu_close_device(&self->base);
    else
        *out_device = &self->base;
    return result;
}

const char *tsr_gpu_describe_device(const tsr_device *device) {
    return ((const tsr_gpu_device *)device)->about;
}

/* ---- without a device ---- */

tsr_result tsr_device_gpu_probe(tsr_ctx *ctx, const tsr_device_type *type, const char *selector,
                                const char *library, uint32_t *out_arch) {
    tsr_gpu_driver driver;
    tsr_gpu_info gpu;
    TRY(ctx, tsr_gpu_open(ctx, type->gpu, library, &driver));
    tsr_result result = tsr_gpu_find(ctx, &driver, selector, &gpu);
    if (!result.code) *out_arch = gpu.arch;
    tsr_gpu_close(&driver);
    return result;
}

static tsr_result list_gpus(tsr_ctx *ctx, const tsr_gpu_driver *driver, tsr_arena *arena,
                            tsr_device_gpu **out_gpus, uint32_t *out_count) {
    int count = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, driver, device_count, NULL, &count));
    tsr_device_gpu *gpus = TSR_NEW(arena, tsr_device_gpu, (size_t)count + 1);
    if (!gpus) FAIL(ctx, TSR_MEMORY, "no memory for a list of %d GPUs", count);
    for (int i = 0; i < count; i++) {
        tsr_gpu_info gpu;
        TRY(ctx, tsr_gpu_describe(ctx, driver, i, &gpu));
        gpus[i] = (tsr_device_gpu){.arch = gpu.arch, .ordinal = i};
        snprintf(gpus[i].name, sizeof gpus[i].name, "%s", gpu.name);
        snprintf(gpus[i].uuid, sizeof gpus[i].uuid, "%s", gpu.uuid);
        snprintf(gpus[i].bus, sizeof gpus[i].bus, "%s", gpu.bus);
    }
    *out_gpus = gpus;
    *out_count = (uint32_t)count;
    return TSR_SUCCESS;
}

tsr_result tsr_device_gpu_list(tsr_ctx *ctx, const tsr_device_type *type, const char *library,
                               tsr_arena *arena, tsr_device_gpu **out_gpus, uint32_t *out_count) {
    tsr_gpu_driver driver;
    TRY(ctx, tsr_gpu_open(ctx, type->gpu, library, &driver));
    tsr_result result = list_gpus(ctx, &driver, arena, out_gpus, out_count);
    tsr_gpu_close(&driver);
    return result;
}

/* A run first reserves scratch memory, then compares the remaining memory with its buffers. */
static tsr_result compare_capacity(tsr_ctx *ctx, const tsr_gpu_device *self,
                                   const tsr_device_options *options, uint64_t size_bytes,
                                   uint64_t scratch_bytes) {
    uint64_t allowed = options->memory_max ? options->memory_max : UINT64_MAX;
    TRY(ctx, tsr_gpu_check_memory(ctx, &self->driver, self->about, size_bytes, allowed));
    tsr_result result = tsr_gpu_check_memory(ctx, &self->driver, self->about,
                                             size_bytes + scratch_bytes, UINT64_MAX);
    if (result.code != TSR_MEMORY) return result;
    return tsr_error_prefix(ctx, result, "with %" PRIu64 " byte%s of scratch memory for kernels",
                            scratch_bytes, TSR_PLURAL(scratch_bytes));
}

tsr_result tsr_device_gpu_check(tsr_ctx *ctx, const tsr_device_type *type,
                                const tsr_device_options *options, uint64_t size_bytes,
                                tsr_device_capacity *out_capacity) {
    size_t left = 0, total = 0;
    const tsr_fatbin_image *image = NULL;
    tsr_result result = TSR_SUCCESS;
    tsr_gpu_device *self = create(type, options);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory for a device");
    TRY_GOTO(ctx, result, retain(ctx, self, options));
    TRY_GOTO(ctx, result,
             TSR_GPU_CALL(ctx, &self->driver, memory_info, self->about, &left, &total));
    out_capacity->free_bytes = left;
    TRY_GOTO(ctx, result, choose_image(ctx, self, options, &image));
    out_capacity->code_bytes = image->size_bytes;
    out_capacity->scratch_bytes = size_scratch(self);
    TRY_GOTO(ctx, result,
             compare_capacity(ctx, self, options, size_bytes, out_capacity->scratch_bytes));
done:
    tsr_gpu_close_device(&self->base);
    return result;
}
