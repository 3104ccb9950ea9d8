/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/device_bench.h"

#include "manifests/fatbin.h"
#include "tests/runtime/toy.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <string.h>

fake_cuda *fake;
const char bench_planned[] = "'toy' plans 9 bytes, of them 8 for tensors: w (4)";

void bench_open_fake(void) {
    void *library = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    cr_assert(library, "%s", dlerror());
    fake = dlsym(library, "fake");
    cr_assert_not_null(fake);
}

tsr_device_options bench_cuda_options(bench *b) {
    static const tsr_fatbin_kernel kernels[] = {
        {.threads = 128, .programs = 4},
        {.threads = 128, .programs = 4, .scratch_bytes = 512},
        {.threads = 32,
         .programs = 1,
         .shared_bytes = 60000,
         .blocks = 1,
         .map_count = 1,
         .maps = {TOY_MAP}}};
    static const tsr_fatbin_image images[] = {
        {TSR_FATBIN_CUBIN, 90, true, "cubin90a", 9},
        {TSR_FATBIN_CUBIN, 80, false, "cubin80.", 9},
        {TSR_FATBIN_PTX, 80, false, "ptx 80..", 9},
    };
    const tsr_fatbin fatbin = {kernels, 3, images, 3};
    tsr_device_options options = {.kernels = (const char *const *)toy_program.kernels,
                                  .kernel_count = 3,
                                  .library = FAKE_CUDA,
                                  .planned = bench_planned};
    void *bytes = NULL;
    cr_assert_eq(
        tsr_fatbin_encode(&b->ctx, &fatbin, &b->arena, &bytes, &options.code_size_bytes).code,
        TSR_OK);
    options.code = bytes;
    return options;
}

void bench_open(bench *b, const char *name) {
    memset(b, 0, sizeof *b);
    tsr_result result = TSR_SUCCESS;
    if (strcmp(name, "cpu") == 0) {
        cr_assert_eq(tsr_threads_create(&b->ctx, 2, &b->threads).code, TSR_OK);
        result = tsr_device_cpu_create(&b->ctx, toy_kernels, b->threads, &b->device);
    } else {
        tsr_device_options options = bench_cuda_options(b);
        bench_open_fake();
        result = tsr_device_open(&b->ctx, name, &options, &b->device);
    }
    cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
}

void bench_close(bench *b) {
    tsr_device_close(b->device);
    tsr_threads_destroy(b->threads);
    tsr_arena_finish(&b->arena);
}

void bench_expect_nothing_open(const char *when) {
    cr_assert(!fake->contexts && !fake->allocations && !fake->hosts && !fake->streams &&
                  !fake->modules && !fake->graphs && !fake->execs && !fake->events,
              "%s: open are %d contexts, %d allocations, %d of the host, %d streams, %d modules, "
              "%d graphs, %d of them ready, %d events",
              when, fake->contexts, fake->allocations, fake->hosts, fake->streams, fake->modules,
              fake->graphs, fake->execs, fake->events);
}
tsr_result bench_take_chunk(bench *b, uint64_t number, const char *bytes, size_t size) {
    const tsr_device_intake *intake = b->device->type->intake;
    void *room = NULL;
    TRY(&b->ctx, intake->room(&b->ctx, b->device, number, &room));
    memcpy(room, bytes, size);
    return intake->take(&b->ctx, b->device, number, size);
}
