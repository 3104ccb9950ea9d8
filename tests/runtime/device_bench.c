/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/device_bench.h"

#include "manifests/fatbin.h"
#include "tests/runtime/device/toy_ptx.h"
#include "tests/runtime/toy.h"

#include <dlfcn.h>
#include <malloc.h>
#include <string.h>

fake_gpu *fake;
int64_t bench_limit = BENCH_LIMIT;
const char bench_planned[] = "'toy' plans 9 bytes, including 8 for tensors: w (4)";

static const char *find_library(const char *device) {
    return strncmp(device, "hip", 3) == 0 ? bench_hip_library : bench_library;
}

void bench_open_fake(void) { bench_open_driver("cuda"); }

void bench_open_driver(const char *device) {
    const char *name = find_library(device);
    /* A fake driver writes to all memory that it allocates. Freed memory is reused without a system
     * call and page faults. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    if (!name) return;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library, "%s", dlerror());
    fake = dlsym(library, "fake");
    REQUIRE(fake || bench_translates, "'%s' is no driver of tests", name);
    if (fake) fake->toy_limit = bench_limit;
}

static tsr_device_options encode(bench *b, const char *library, const tsr_fatbin *fatbin) {
    tsr_device_options options = {.kernels = (const char *const *)toy_program.kernels,
                                  .kernel_count = 3,
                                  .library = library,
                                  .planned = bench_planned};
    void *bytes = NULL;
    bench_must(b, tsr_fatbin_encode(&b->ctx, fatbin, &b->arena, &bytes, &options.code_size_bytes));
    options.code = bytes;
    return options;
}

static tsr_device_options hip_options(bench *b) {
    static const tsr_fatbin_kernel kernels[] = {
        {.threads = 128, .programs = 4},
        {.threads = 128, .programs = 4, .scratch_bytes = 512},
        {.threads = 64, .programs = 2, .shared_bytes = 60000, .blocks = 1}};
    static const tsr_fatbin_image images[] = {
        {TSR_FATBIN_HSACO, 0x942, true, "gfx942..", 9},
        {TSR_FATBIN_HSACO, 0x10094, false, "gfx94-ge", 9},
        {TSR_FATBIN_HSACO, 0x1100, true, "gfx1100.", 9},
    };
    const tsr_fatbin fatbin = {kernels, 3, images, 3};
    return encode(b, bench_hip_library, &fatbin);
}

tsr_device_options bench_options(bench *b, const char *device) {
    return strncmp(device, "hip", 3) == 0 ? hip_options(b) : bench_cuda_options(b);
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
    const char *text = toy_ptx(&b->arena, bench_limit);
    REQUIRE(text, "no memory");
    const tsr_fatbin_image translated = {TSR_FATBIN_PTX, 80, false, text, strlen(text) + 1};
    const tsr_fatbin fatbin = {kernels, 3, bench_translates ? &translated : images,
                               bench_translates ? 1 : 3};
    return encode(b, bench_library, &fatbin);
}

void bench_must(const bench *b, tsr_result result) {
    REQUIRE(result.code == TSR_OK, "%s", b->ctx.error.text);
}

void bench_open_as(bench *b, const char *name, const tsr_device_options *more) {
    memset(b, 0, sizeof *b);
    if (strcmp(name, "cpu") == 0) {
        toy_limit = bench_limit;
        bench_must(b, tsr_threads_create(&b->ctx, 2, &b->threads));
        bench_must(b, tsr_device_cpu_create(&b->ctx, toy_kernels, b->threads, &b->device));
        return;
    }
    tsr_device_options options = bench_options(b, name);
    options.samples = more->samples;
    options.takes_bytes = more->takes_bytes;
    options.one_by_one = more->one_by_one;
    options.memory_max = more->memory_max;
    bench_open_driver(name);
    bench_must(b, tsr_device_open(&b->ctx, name, &options, &b->device));
}

void bench_open(bench *b, const char *name) {
    bench_open_as(b, name, &(tsr_device_options){.memory_max = 0});
}

void bench_close(bench *b) {
    tsr_device_close(b->device);
    tsr_threads_destroy(b->threads);
    tsr_arena_finish(&b->arena);
}

void bench_expect_nothing_open(const char *when) {
    REQUIRE(!fake->contexts && !fake->allocations && !fake->hosts && !fake->streams &&
                !fake->modules && !fake->graphs && !fake->execs && !fake->events,
            "%s: open are %d contexts, %d allocations, %d of the host, %d streams, %d modules, "
            "%d graphs, %d of them ready, %d events",
            when, fake->contexts, fake->allocations, fake->hosts, fake->streams, fake->modules,
            fake->graphs, fake->execs, fake->events);
}

tsr_result bench_take_chunk(bench *b, uint64_t number, const char *bytes, size_t size) {
    const tsr_device_staged_upload *upload = b->device->type->staged_upload;
    void *window = NULL;
    TRY(&b->ctx, upload->get_window(&b->ctx, b->device, number, &window));
    memcpy(window, bytes, size);
    return upload->submit(&b->ctx, b->device, number, size);
}
