/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the limits of a GPU: copies of a block larger than the caches, and the rates of the
 * kernels that the driver's API has for this. Matrices contain only zeros: other values heat the
 * GPU, which then slows down.
 */
#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/device/gpu/device.h"

enum {
    COPY_BYTES = 256 << 20,
    COPIES = 8, /* one after the other, so that the final wait is relatively short */
    ROUNDS = 5, /* the best one counts */
};

/* Work that is put into the stream. */
typedef tsr_result (*work_fn)(tsr_ctx *ctx, tsr_gpu_device *self, void *user);

static tsr_result time_best(tsr_ctx *ctx, tsr_gpu_device *self, work_fn work, void *user,
                            double *out_seconds) {
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, stream_wait, self->about, self->stream));
        uint64_t began = tsr_clock_ns();
        TRY(ctx, work(ctx, self, user));
        TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, stream_wait, self->about, self->stream));
        uint64_t took = tsr_clock_ns() - began;
        if (took < best) best = took;
    }
    *out_seconds = 1e-9 * (double)(best ? best : 1);
    return TSR_SUCCESS;
}

static tsr_result copy_blocks(tsr_ctx *ctx, tsr_gpu_device *self, void *user) {
    tsr_gpu_address blocks = *(tsr_gpu_address *)user;
    for (int i = 0; i < COPIES; i++)
        TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, copy, self->about, blocks, blocks + COPY_BYTES,
                              COPY_BYTES, self->stream));
    return TSR_SUCCESS;
}

/* Measures only if there is enough memory for two blocks. */
static tsr_result measure_memory(tsr_ctx *ctx, tsr_gpu_device *self, double *out_bytes_per_s) {
    tsr_gpu_address blocks = 0;
    size_t left = 0, total = 0;
    double seconds = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, memory_info, self->about, &left, &total));
    if (left / 2 < COPY_BYTES) return TSR_SUCCESS;
    TRY(ctx, tsr_gpu_reserve(ctx, self, self->about, 2 * COPY_BYTES, &blocks));
    tsr_result result = time_best(ctx, self, copy_blocks, &blocks, &seconds);
    tsr_gpu_free(self, blocks);
    if (!result.code) *out_bytes_per_s = 2.0 * COPIES * COPY_BYTES / seconds;
    return result;
}

typedef struct rate {
    struct tsr_gpu_function *function;
    tsr_gpu_rate kernel;
} rate;

/* `to` is never written, because the total is never NaN. */
static tsr_result launch_rate(tsr_ctx *ctx, tsr_gpu_device *self, void *user) {
    rate *of = user;
    tsr_gpu_address to = 0;
    void *parameters[] = {&to, &of->kernel.steps};
    return TSR_GPU_CALL(ctx, &self->driver, launch, self->driver.api->programs->rate_name,
                        of->function, of->kernel.blocks * self->gpu.multiprocessors, 1, 1,
                        of->kernel.threads, 1, 1, 0, self->stream, parameters, NULL);
}

static tsr_result measure_rate(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_gpu_rate *kernel,
                               double *out_flops_per_s) {
    tsr_buffer text = {0};
    struct tsr_gpu_module *module = NULL;
    rate of = {NULL, *kernel};
    const char *name = self->driver.api->programs->rate_name;
    tsr_result result = TSR_SUCCESS;
    double seconds = 0;
    kernel->print(&text);
    if (text.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the text of %s", name);
    TRY_GOTO(
        ctx, result,
        TSR_GPU_CALL(ctx, &self->driver, module_load, name, &module, text.bytes, 0, NULL, NULL));
    TRY_GOTO(ctx, result,
             TSR_GPU_CALL(ctx, &self->driver, module_function, name, &of.function, module, name));
    TRY_GOTO(ctx, result, time_best(ctx, self, launch_rate, &of, &seconds));
    *out_flops_per_s = kernel->blocks * (double)self->gpu.multiprocessors * kernel->flops_of_step *
                       kernel->steps / seconds;
done:
    if (module) self->driver.module_unload(module);
    tsr_buffer_finish(&text);
    return result;
}

tsr_result tsr_gpu_measure(tsr_ctx *ctx, tsr_device *device, tsr_limits *out_limits) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    const tsr_gpu_programs *programs = self->driver.api->programs;
    tsr_limits limits = {0};
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, measure_memory(ctx, self, &limits.bytes_per_s));
    if (programs) {
        TRY(ctx, measure_rate(ctx, self, programs->chains, &limits.flops_per_s));
        TRY(ctx, measure_rate(ctx, self, programs->get_products(self->gpu.arch),
                              &limits.matrix_flops_per_s));
    }
    *out_limits = limits;
    return TSR_SUCCESS;
}
