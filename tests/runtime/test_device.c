/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the suite for every device, and tests the CUDA device with a driver that fails.
 */
#include "manifests/fatbin.h"
#include "runtime/base/array.h"
#include "runtime/base/trace/trace.h"
#include "runtime/device/cuda_ptx.h"
#include "runtime/device/gpu/driver.h"
#include "runtime/initialize.h"
#include "tests/runtime/device/cases.h"
#include "tests/runtime/device_bench.h"
#include "tests/runtime/offloaded_program.h"
#include "tests/runtime/toy.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- every device ---------------------------------------------------------------------------- */

static void run_case(const char *name) {
    for (unsigned i = 0; i < device_case_count; i++) {
        if (strcmp(device_cases[i].name, name) != 0) continue;
        for (const char *const *on = device_cases[i].devices; *on; on++) device_cases[i].run(*on);
    }
    bench_expect_nothing_open("at the end");
}

#define X(name, on)                                                                                \
    Test(device_cases, name) { run_case(#name); }
#include "tests/runtime/device/cases.def"
#undef X

/* ---- calls of the driver --------------------------------------------------------------------- */

static void train(bench *b, tsr_executor *executor, uint64_t steps, float out_losses[]) {
    uint8_t *x = tsr_executor_get_input(executor, TOY_TRAIN, 0);
    for (uint64_t step = 1; step <= steps; step++) {
        for (int i = 0; i < 8; i++) x[i] = (uint8_t)(step * 31 + (uint64_t)i * 7);
        tsr_result result = tsr_executor_run(&b->ctx, executor, TOY_TRAIN, step);
        cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
        out_losses[step - 1] = *(float *)tsr_executor_get_output(executor, TOY_TRAIN, 0);
    }
}

/* Runs launch a graph that was captured once: step numbers are inputs. */
Test(device, one_graph_a_step) {
    bench b;
    tsr_executor *executor = NULL;
    float losses[20];
    bench_open(&b, "cuda");
    cr_assert_eq(
        tsr_executor_create(&b.ctx, &toy_config, &toy_program, b.device, NULL, &executor).code,
        TSR_OK);
    int captures = fake->captures;
    train(&b, executor, 20, losses);
    cr_assert(captures > 0 && fake->captures == captures && fake->launches == 40,
              "%d captures before, %d behind; %d launches", captures, fake->captures,
              fake->launches);
    cr_assert_eq(fake->paired_blocks, 2); /* the number that runs at a time */
    tsr_executor_destroy(executor);
    bench_close(&b);
}

/* The toy's training program with the mean in a region that is replayed after a fault in its
 * values. */
static tsr_program make_region(tsr_program_entry entries[2], tsr_program_command commands[5]) {
    static tsr_program_region region = {"stage", TSR_REGION_REPLAY, 0};
    const tsr_program_entry *train_entry = &toy_program.entries[TOY_TRAIN];
    tsr_program program = toy_program;
    commands[0] = (tsr_program_command){.opcode = TSR_OP_ENTER, .location = ""};
    memcpy(commands + 1, train_entry->commands, 2 * sizeof *commands);
    commands[3] = (tsr_program_command){.opcode = TSR_OP_LEAVE, .location = ""};
    commands[4] = train_entry->commands[2];
    entries[TOY_ROWS] = toy_program.entries[TOY_ROWS];
    entries[TOY_TRAIN] = *train_entry;
    entries[TOY_TRAIN].commands = commands;
    entries[TOY_TRAIN].command_count = 5;
    entries[TOY_TRAIN].regions = &region;
    entries[TOY_TRAIN].region_count = 1;
    program.entries = entries;
    return program;
}

/* A device error within a region is reported with the name of the region, and the region is not
 * retried. Errors after the region do not name it. */
Test(device, an_error_in_a_region_names_it) {
    static const struct {
        const char *call;
        unsigned at, code;
        bool one_by_one;
        tsr_code result;
        const char *text;
    } rows[] = {
        {"cuGraphLaunch", 1, 700, false, TSR_MACHINE,
         "region 'stage': cuGraphLaunch: CUDA_ERROR_ILLEGAL_ADDRESS (700): train"},
        {"cuGraphLaunch", 1, 2, false, TSR_MEMORY,
         "region 'stage': cuGraphLaunch: CUDA_ERROR_OUT_OF_MEMORY (2): train"},
        {"cuGraphLaunch", 2, 700, false, TSR_MACHINE,
         "cuGraphLaunch: CUDA_ERROR_ILLEGAL_ADDRESS (700): train"},
        {"cuStreamSynchronize", 1, 700, true, TSR_MACHINE,
         "region 'stage': cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700): mean at "
         "toy.mlir:3:5; "},
        {"cuLaunchKernel", 1, 214, true, TSR_MACHINE,
         "region 'stage': cuLaunchKernel: CUDA_ERROR_ECC_UNCORRECTABLE (214): mean; "},
    };
    tsr_program_entry entries[2];
    tsr_program_command commands[5];
    const tsr_program program = make_region(entries, commands);
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        bench b = {0};
        tsr_executor *executor = NULL;
        bench_open_fake();
        tsr_device_options options = bench_cuda_options(&b);
        options.one_by_one = rows[i].one_by_one;
        cr_assert_eq(tsr_device_open(&b.ctx, "cuda", &options, &b.device).code, TSR_OK);
        cr_assert_eq(
            tsr_executor_create(&b.ctx, &toy_config, &program, b.device, NULL, &executor).code,
            TSR_OK, "%s", b.ctx.error.text);
        cr_assert_eq(tsr_executor_run(&b.ctx, executor, TOY_TRAIN, 1).code, TSR_OK, "%s",
                     b.ctx.error.text);
        fake->fail = rows[i].call;
        fake->fail_code = rows[i].code;
        fake->fail_at = rows[i].at;
        fake->calls = 0;
        cr_assert_eq(tsr_executor_run(&b.ctx, executor, TOY_TRAIN, 2).code, rows[i].result);
        cr_assert_eq(strncmp(b.ctx.error.text, rows[i].text, strlen(rows[i].text)), 0,
                     "expected '%s'; got '%s'", rows[i].text, b.ctx.error.text);
        cr_assert_eq(fake->calls, rows[i].at);
        fake->fail = NULL;
        tsr_executor_destroy(executor);
        bench_close(&b);
    }
}

/* The number of the failing wait of a run, and the expected message. */
typedef struct named {
    unsigned at;
    const char *text;
} named;

static void expect_named(bench *b, tsr_executor *executor, size_t entry, uint64_t step,
                         const named *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        fake->fail = "cuStreamSynchronize";
        fake->fail_code = 700;
        fake->fail_at = rows[i].at;
        fake->calls = 0;
        cr_assert_eq(tsr_executor_run(&b->ctx, executor, entry, step).code, TSR_MACHINE);
        cr_assert(strstr(b->ctx.error.text, rows[i].text), "expected '%s' in '%s'", rows[i].text,
                  b->ctx.error.text);
    }
    fake->fail = NULL;
}

/* If no graph is used, an error names the command. */
Test(device, one_by_one_names_the_command) {
    static const named rows[] = {
        {1, "(700): mean at toy.mlir:3:5; "}, {2, "(700): a copy; "}, {3, "(700): update; "}};
    bench b = {0};
    tsr_executor *executor = NULL;
    float losses[3];
    bench_open_fake();
    tsr_device_options options = bench_cuda_options(&b);
    options.one_by_one = true;
    cr_assert_eq(tsr_device_open(&b.ctx, "cuda", &options, &b.device).code, TSR_OK);
    cr_assert_eq(
        tsr_executor_create(&b.ctx, &toy_config, &toy_program, b.device, NULL, &executor).code,
        TSR_OK);
    cr_assert_eq(fake->captures, 0);
    train(&b, executor, 3, losses);
    expect_named(&b, executor, TOY_TRAIN, 4, rows, TSR_COUNT(rows));
    tsr_executor_destroy(executor);
    bench_close(&b);
    bench_expect_nothing_open("at the end");
}

Test(device, one_by_one_names_concurrent_copies) {
    static const named rows[] = {{3, "(700): an offload at offloaded.mlir:1:1; "},
                                 {6, "(700): an await at offloaded.mlir:1:1; "},
                                 {11, "(700): a prefetch at offloaded.mlir:1:1; "}};
    bench b = {0};
    offloaded_program p;
    tsr_executor *executor = NULL;
    bench_open_as(&b, "cuda", &(tsr_device_options){.one_by_one = true});
    offloaded_make(&p);
    cr_assert_eq(tsr_executor_create(&b.ctx, &p.config, &p.program, b.device, NULL, &executor).code,
                 TSR_OK, "%s", b.ctx.error.text);
    expect_named(&b, executor, 0, 0, rows, TSR_COUNT(rows));
    tsr_executor_destroy(executor);
    bench_close(&b);
    bench_expect_nothing_open("at the end");
}

/* Only lists that copy concurrently with other commands have additional streams. */
Test(device, other_lists_have_one_stream) {
    bench b;
    tsr_executor *executor = NULL;
    bench_open(&b, "cuda");
    int streams = fake->streams;
    cr_assert_eq(
        tsr_executor_create(&b.ctx, &toy_config, &toy_program, b.device, NULL, &executor).code,
        TSR_OK);
    cr_assert_eq(fake->streams, streams);
    tsr_executor_destroy(executor);
    bench_close(&b);
}

/* Concurrent copies have tracks of their own in a trace, and the waits for them are shown. */
Test(device, concurrent_copies_are_traced) {
    const tsr_trace_options options = {.size_bytes = sizeof options};
    static const char *const shown[] = {"\"copies to the host, concurrent with kernels\"",
                                        "\"copies from the host, concurrent with kernels\"",
                                        "\"offload\"",
                                        "\"prefetch\"",
                                        "\"await\"",
                                        "\"bytes\":2048"};
    char path[] = "/tmp/tessera-trace-XXXXXX";
    static char text[1 << 16];
    bench b;
    offloaded_program p;
    tsr_executor *executor = NULL;
    tsr_trace *trace = NULL;
    bench_open(&b, "cuda");
    offloaded_make(&p);
    cr_assert_eq(tsr_trace_create(&b.ctx, &options, &trace).code, TSR_OK);
    b.ctx.trace = trace;
    cr_assert_eq(tsr_executor_create(&b.ctx, &p.config, &p.program, b.device, NULL, &executor).code,
                 TSR_OK);
    cr_assert_eq(tsr_executor_run(&b.ctx, executor, 0, 0).code, TSR_OK, "%s", b.ctx.error.text);
    const tsr_kernel_times *times = tsr_executor_get_times(executor);
    for (int i = 0; i < 3; i++) cr_assert_eq(times[i].launches, 0, "a copy is no kernel");
    b.ctx.trace = NULL;
    int file = mkstemp(path);
    cr_assert(file >= 0);
    cr_assert_eq(tsr_trace_write(&b.ctx, trace, path).code, TSR_OK, "%s", b.ctx.error.text);
    close(file);
    FILE *written = fopen(path, "r");
    cr_assert(written && fread(text, 1, sizeof text - 1, written) > 0);
    fclose(written);
    unlink(path);
    for (size_t i = 0; i < TSR_COUNT(shown); i++)
        cr_assert(strstr(text, shown[i]), "no %s in %s", shown[i], text);
    tsr_executor_destroy(executor);
    tsr_trace_destroy(trace);
    bench_close(&b);
}

/* ---- a driver that fails --------------------------------------------------------------------- */

static tsr_result live_staged_upload(bench *b) {
    static const char bytes[TSR_HASH_LEAF_BYTES + 9];
    const tsr_device_staged_upload *upload = b->device->type->staged_upload;
    tsr_ctx aside = {0};
    tsr_digest digest;
    tsr_device_memory memory = {0};
    tsr_result result = upload->begin(&b->ctx, b->device);
    if (!result.code) result = bench_take_chunk(b, 0, bytes, sizeof bytes);
    if (!result.code) result = upload->digest(&b->ctx, b->device, 0, sizeof bytes, &digest);
    if (!result.code)
        result =
            b->device->type->allocate(&b->ctx, b->device, 64, 0, (tsr_device_range){0, 0}, &memory);
    if (!result.code)
        result = upload->put(&b->ctx, b->device, &memory, 0, 0, (tsr_device_range){0, 64});
    if (!result.code)
        result = b->device->type->draw(&b->ctx, b->device, &memory, 0,
                                       &(tsr_device_normals){.count = 16});
    tsr_result ended = upload->end(result.code ? &aside : &b->ctx, b->device);
    if (memory.host) b->device->type->release(b->device, &memory);
    return result.code ? result : ended;
}

/* Runs once without a trace, and once with one. */
static tsr_result live_offloaded(bench *b) {
    offloaded_program p;
    tsr_executor *executor = NULL;
    tsr_trace *trace = b->ctx.trace;
    tsr_result result = TSR_SUCCESS;
    offloaded_make(&p);
    TRY_GOTO(&b->ctx, result,
             tsr_executor_create(&b->ctx, &p.config, &p.program, b->device, NULL, &executor));
    tsr_trace_step(trace, 1);
    TRY_GOTO(&b->ctx, result, tsr_executor_run(&b->ctx, executor, 0, 0));
    tsr_trace_step(trace, 2);
    TRY_GOTO(&b->ctx, result, tsr_executor_run(&b->ctx, executor, 0, 0));
done:
    tsr_executor_destroy(executor);
    return result;
}

/* The second step is traced. */
static tsr_result live_traced(bench *b, const char *device, const tsr_device_options *options,
                              tsr_executor **out_executor) {
    TRY(&b->ctx, tsr_device_open(&b->ctx, device, options, &b->device));
    TRY(&b->ctx,
        tsr_executor_create(&b->ctx, &toy_config, &toy_program, b->device, NULL, out_executor));
    const void *bytes = NULL;
    tsr_limits limits;
    if (b->device->type->staged_upload) TRY(&b->ctx, live_staged_upload(b));
    TRY(&b->ctx, live_offloaded(b));
    TRY(&b->ctx, b->device->type->measure(&b->ctx, b->device, &limits));
    TRY(&b->ctx, tsr_executor_ready_readers(&b->ctx, *out_executor, 2));
    bool has_snapshot = false;
    TRY(&b->ctx, tsr_executor_ready_snapshot(&b->ctx, *out_executor, &has_snapshot));
    for (uint64_t step = 1; step < 3; step++) {
        tsr_trace_step(b->ctx.trace, step);
        TRY(&b->ctx, tsr_executor_take_snapshot(&b->ctx, *out_executor));
        TRY(&b->ctx,
            tsr_executor_read_snapshot(&b->ctx, *out_executor, 0,
                                       tsr_executor_get_tensor(*out_executor, 0), 4, &bytes));
        TRY(&b->ctx, tsr_executor_run(&b->ctx, *out_executor, TOY_TRAIN, step));
        TRY(&b->ctx, tsr_executor_read(&b->ctx, *out_executor, 1,
                                       tsr_executor_get_tensor(*out_executor, 0), 4, &bytes));
    }
    return tsr_executor_fetch(&b->ctx, *out_executor);
}

static tsr_result live(bench *b, const char *device, const tsr_device_options *options) {
    tsr_executor *executor = NULL;
    const tsr_trace_options traced = {
        .size_bytes = sizeof traced, .first_step = 2, .last_step = 2, .events_max = 100};
    tsr_ctx apart = {0};
    cr_assert_eq(tsr_trace_create(&apart, &traced, &b->ctx.trace).code, TSR_OK);
    tsr_result result = live_traced(b, device, options, &executor);
    tsr_executor_destroy(executor);
    tsr_device_close(b->device);
    b->device = NULL;
    tsr_trace_destroy(b->ctx.trace);
    b->ctx.trace = NULL;
    return result;
}

/* The message names the planned bytes, and the free bytes if a context exists. */
static void expect_memory_told(const bench *b, const char *symbol) {
    static const char *const before[] = {"cuInit",     "cuDriver",  "cuDevice",         "hipInit",
                                         "hipRuntime", "hipDevice", "hipGetDeviceCount"};
    bool knows_free = true;
    for (size_t i = 0; i < TSR_COUNT(before); i++)
        knows_free = knows_free && strncmp(symbol, before[i], strlen(before[i])) != 0;
    cr_assert(strstr(b->ctx.error.text, bench_planned), "%s: %s", symbol, b->ctx.error.text);
    cr_assert(!knows_free ||
                  strstr(b->ctx.error.text, "; 1048576 of 1048576 bytes of device memory are free"),
              "%s: %s", symbol, b->ctx.error.text);
    cr_assert((strcmp(symbol, "cuMemAllocAsync") != 0 && strcmp(symbol, "hipMalloc") != 0) ||
                  strstr(b->ctx.error.text, "bytes of device memory are needed: "),
              "%s", b->ctx.error.text);
}

/* False for functions that the test below does not call, or whose errors nobody reads. */
static bool is_checked(const char *symbol) {
    static const char *const enders[] = {
        /* errors of functions that release objects are not checked */
        "cuGetErrorName",
        "cuDevicePrimaryCtxRelease_v2",
        "cuModuleUnload",
        "cuMemFreeAsync",
        "cuMemFreeHost",
        "cuStreamDestroy_v2",
        "cuGraphExecDestroy",
        "cuGraphDestroy",
        "cuEventDestroy_v2",
        "cuMemHostUnregister",
        "hipDevicePrimaryCtxRelease",
        "hipModuleUnload",
        "hipFree",
        "hipHostFree",
        "hipStreamDestroy",
        "hipGraphExecDestroy",
        "hipGraphDestroy",
        "hipEventDestroy",
        "hipHostUnregister"};
    static const char *const of_exchanges[] = {/* test_exchange.c */
                                               "cuDeviceCanAccessPeer",
                                               "cuMemGetAllocationGranularity",
                                               "cuMemCreate",
                                               "cuMemRelease",
                                               "cuMemExportToShareableHandle",
                                               "cuMemImportFromShareableHandle",
                                               "cuMemAddressReserve",
                                               "cuMemAddressFree",
                                               "cuMemMap",
                                               "cuMemUnmap",
                                               "cuMemSetAccess",
                                               "cuStreamWriteValue32_v2",
                                               "cuStreamWaitValue32_v2",
                                               "cuStreamQuery",
                                               "cuEventQuery",
                                               "hipStreamQuery",
                                               "hipEventQuery"};
    bool skipped = false;
    for (size_t k = 0; k < TSR_COUNT(enders); k++)
        skipped = skipped || strcmp(symbol, enders[k]) == 0;
    for (size_t k = 0; k < TSR_COUNT(of_exchanges); k++)
        skipped = skipped || strcmp(symbol, of_exchanges[k]) == 0;
    return !skipped;
}

/* A driver of tests. */
typedef struct driver_names {
    const char *device, *illegal, *memory;
    const char *const *symbols; /* up to NULL */
} driver_names;

#define X(name, symbol) #symbol,
static const char *const cuda_symbols[] = {
#include "runtime/device/cuda_symbols.def"
    NULL};
static const char *const hip_symbols[] = {
#include "runtime/device/hip_symbols.def"
    NULL};
#undef X
static const driver_names cuda_names = {"cuda", "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
                                        "CUDA_ERROR_OUT_OF_MEMORY (2)", cuda_symbols},
                          hip_names = {"hip", "hipErrorIllegalAddress (700)",
                                       "hipErrorOutOfMemory (2)", hip_symbols};

/* AMD: a list whose commands cannot be captured runs without a graph; an error of a call that only
 * enters the context to release objects is not read; if memory is short, the device keeps no
 * tensors. */
static bool is_optional(const driver_names *driver, const char *symbol, unsigned at) {
    static const char *const captured[] = {"hipStreamBeginCapture",  "hipStreamEndCapture",
                                           "hipStreamWaitEvent",     "hipGraphInstantiateWithFlags",
                                           "hipMemcpyHtoDAsync",     "hipMemcpyDtoHAsync",
                                           "hipMemcpyDtoDAsync",     "hipMemsetD8Async",
                                           "hipModuleLaunchKernel",  "hipEventRecord",
                                           "hipEventRecordWithFlags"};
    if (driver != &hip_names) return false;
    for (size_t i = 0; i < TSR_COUNT(captured); i++)
        if (at % 2 && strcmp(symbol, captured[i]) == 0) return true;
    return strcmp(symbol, "hipCtxSetCurrent") == 0 ||
           (strcmp(symbol, "hipMalloc") == 0 && !(at % 2));
}

/* Each call of each function fails once: the error names it, and all objects are released. */
static void fail_each(const driver_names *driver) {
    const char *const *symbols = driver->symbols;
    bench b = {0};
    tsr_device_options options = bench_options(&b, driver->device);
    unsigned failed = 0;
    bench_open_driver(driver->device);
    for (size_t i = 0; symbols[i]; i++) {
        if (!is_checked(symbols[i])) continue;
        for (unsigned at = 1;; at++) {
            fake->fail = symbols[i];
            fake->fail_at = at;
            fake->fail_code = at % 2 ? 700 : TSR_GPU_ERROR_OUT_OF_MEMORY;
            fake->calls = 0;
            b.ctx = (tsr_ctx){0};
            tsr_result result = live(&b, driver->device, &options);
            if (fake->calls < at) {
                cr_assert_eq(result.code, TSR_OK, "%s", b.ctx.error.text);
                cr_assert_gt(at, 1, "%s is never called", symbols[i]);
                break;
            }
            failed++;
            bench_expect_nothing_open(symbols[i]);
            /* A call that only enters the context to release objects may fail unnoticed. If memory
             * is short, the device keeps no tensors. If the machine code of the runtime's own
             * kernel cannot be loaded, its text is. */
            if (!result.code && is_optional(driver, symbols[i], at)) continue;
            if (!result.code && (strcmp(symbols[i], "cuCtxSetCurrent") == 0 ||
                                 (strcmp(symbols[i], "cuMemAllocAsync") == 0 && at % 2 == 0) ||
                                 (strcmp(symbols[i], "cuModuleLoadDataEx") == 0 && at > 1 &&
                                  tsr_cuda_leaves_code_count)))
                continue;
            cr_assert_eq(result.code, at % 2 ? TSR_MACHINE : TSR_MEMORY, "%s %u: %s", symbols[i],
                         at, b.ctx.error.text);
            cr_assert(strstr(b.ctx.error.text, symbols[i]) &&
                          strstr(b.ctx.error.text, at % 2 ? driver->illegal : driver->memory),
                      "%s: %s", symbols[i], b.ctx.error.text);
            if (at % 2 == 0) expect_memory_told(&b, symbols[i]);
        }
    }
    cr_assert_gt(failed, 60);
    tsr_arena_finish(&b.arena);
}

Test(device, each_call_fails) { fail_each(&cuda_names); }
Test(device, each_call_of_hip_fails) { fail_each(&hip_names); }

static void refused_by(const char *device, bench *b, const tsr_device_options *options,
                       tsr_code code, const char *text) {
    b->ctx = (tsr_ctx){0};
    tsr_result result = live(b, device, options);
    cr_assert_eq(result.code, code, "%s: %d: %s", text, result.code, b->ctx.error.text);
    cr_assert(strstr(b->ctx.error.text, text), "expected '%s' in '%s'", text, b->ctx.error.text);
    bench_expect_nothing_open(text);
}

static void refused(bench *b, const tsr_device_options *options, tsr_code code, const char *text) {
    refused_by("cuda", b, options, code, text);
}

Test(device, what_is_wrong_is_told) {
    bench b = {0};
    bench_open_fake();
    tsr_device_options options = bench_cuda_options(&b), changed = options;
    const fake_gpu whole = *fake;
    changed.library = "libno-such-driver.so.1";
    refused(&b, &changed, TSR_MACHINE, "there is no NVIDIA driver here: libno-such-driver.so.1");
    changed.library = FAKE_OLD_CUDA;
    refused(&b, &changed, TSR_MACHINE,
            "the NVIDIA driver has no cuGraphInstantiateWithFlags; "
            "expected one of CUDA 12.0 or later");
    changed = options;
    changed.selector = "2";
    refused(&b, &changed, TSR_USAGE,
            "'2' names 0 CUDA devices; expected one of 0 GPU-00010203-0405-0607-0809-0a0b0c0d0e0f "
            "(Fake A), 1 GPU-10111213-1415-1617-1819-1a1b1c1d1e1f (Fake B)");
    changed.selector = "GPU-";
    refused(&b, &changed, TSR_USAGE, "'GPU-' names 0 CUDA devices");
    changed = options;
    changed.memory_max = 500;
    refused(&b, &changed, TSR_MEMORY,
            "0a0b0c0d0e0f); 500 are allowed; 1048576 of 1048576 bytes of device memory are free; "
            "'toy' plans 9 bytes, including 8 for tensors: w (4)");
    changed = options;
    changed.kernel_count = 2;
    refused(&b, &changed, TSR_CORRUPT, "GPU code has 3 kernels; the program has 2");
    changed = options;
    changed.code_size_bytes--;
    refused(&b, &changed, TSR_CORRUPT, "images[2] has 9 bytes; expected 1 to 8");
    fake->version = 11080;
    refused(&b, &options, TSR_MACHINE, "the NVIDIA driver is for CUDA 11.8; expected 12.0");
    *fake = whole;
    fake->device_count = 0;
    refused(&b, &options, TSR_MACHINE, "shows no device");
    *fake = whole;
    fake->free_bytes = 400;
    refused(&b, &options, TSR_MEMORY, "bytes of device memory are needed on Fake A (0, GPU-0001");
    cr_assert(strstr(b.ctx.error.text, "; 400 of 1048576 bytes of device memory are free; 'toy'"),
              "%s", b.ctx.error.text);
    *fake = whole;
    fake->more = TSR_FATBIN_MAPS_MAX + 1;
    refused(&b, &options, TSR_CORRUPT,
            "kernel 'twice' takes at least 14 arguments; the program gives 6");
    fake->more = -1;
    refused(&b, &options, TSR_CORRUPT, "kernel 'twice' takes 5 arguments; the program gives 6");
    *fake = whole;
    fake->first_bytes = 4096;
    refused(&b, &options, TSR_CORRUPT, "argument 0 of kernel 'twice' has 4096 bytes; expected 8");
    *fake = whole;
    fake->major = 7;
    refused(
        &b, &options, TSR_TARGET,
        "no code for Fake A (0, GPU-00010203-0405-0607-0809-0a0b0c0d0e0f) of compute "
        "capability 7.0; the bundle has machine code for 9.0 alone, machine code for 8.0, PTX for "
        "8.0");
    *fake = whole;
    fake->fail = "cuModuleLoadDataEx";
    fake->fail_at = 1;
    fake->fail_code = 700;
    refused(&b, &options, TSR_MACHINE,
            "cuModuleLoadDataEx: CUDA_ERROR_ILLEGAL_ADDRESS (700): "
            "machine code for Fake A (0, GPU-00010203-0405-0607-0809-"
            "0a0b0c0d0e0f): line 1: bad");
    *fake = whole;
    tsr_arena_finish(&b.arena);
}

Test(device, the_matching_image_is_loaded) {
    static const struct {
        int major, minor;
        const char *image;
    } rows[] = {{9, 0, "cubin90"}, {8, 0, "cubin80"}, {8, 9, "cubin80"}, {10, 0, "ptx 80."}};
    bench b = {0};
    bench_open_fake();
    tsr_device_options options = bench_cuda_options(&b);
    for (size_t i = 0; i < 4; i++) {
        fake->major = rows[i].major;
        fake->minor = rows[i].minor;
        options.selector = i % 2 ? "GPU-1011" : "1";
        cr_assert_eq(tsr_device_open(&b.ctx, "cuda", &options, &b.device).code, TSR_OK, "%s",
                     b.ctx.error.text);
        cr_assert(strncmp(b.device->type->describe(b.device), "Fake B (1, GPU-1011", 19) == 0);
        cr_assert(strncmp(fake->image_begin, rows[i].image, 7) == 0, "%d.%d: %s", rows[i].major,
                  rows[i].minor, fake->image_begin);
        tsr_device_close(b.device);
    }
    cr_assert_eq(tsr_device_open(&b.ctx, "tpu:v5", &options, &b.device).code, TSR_TARGET);
    tsr_arena_finish(&b.arena);
}

/* ---- AMD ------------------------------------------------------------------------------------- */

Test(device, the_matching_code_object_is_loaded) {
    static const struct {
        const char *arch, *image, *selector;
    } rows[] = {{"gfx942", "gfx942.", "1"},
                {"gfx950", "gfx94-g", "GPU-1011"},
                {"gfx1100", "gfx1100", "0000:1c:00.0"},
                {"gfx1100", "gfx1100", "0000:1C:00.0"}};
    bench b = {0};
    bench_open_driver("hip");
    tsr_device_options options = bench_options(&b, "hip");
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        snprintf(fake->arch, sizeof fake->arch, "%s", rows[i].arch);
        options.selector = rows[i].selector;
        cr_assert_eq(tsr_device_open(&b.ctx, "hip:gfx942", &options, &b.device).code, TSR_OK, "%s",
                     b.ctx.error.text);
        cr_assert(strncmp(b.device->type->describe(b.device), "Fake B (1, GPU-1011", 19) == 0);
        cr_assert(strncmp(fake->image_begin, rows[i].image, 7) == 0, "%s: %s", rows[i].arch,
                  fake->image_begin);
        tsr_device_close(b.device);
    }
    tsr_arena_finish(&b.arena);
}

Test(device, what_is_wrong_with_hip_is_told) {
    bench b = {0};
    bench_open_driver("hip");
    tsr_device_options options = bench_options(&b, "hip"), changed = options;
    const fake_gpu whole = *fake;
    changed.library = "libno-such-driver.so.1";
    refused_by("hip", &b, &changed, TSR_MACHINE,
               "there is no AMD driver here: libno-such-driver.so.1");
    changed = options;
    changed.selector = "2";
    refused_by("hip", &b, &changed, TSR_USAGE,
               "'2' names 0 HIP devices; expected one of 0 GPU-00010203");
    changed = bench_cuda_options(&b);
    changed.library = options.library;
    refused_by("hip", &b, &changed, TSR_TARGET,
               "of architecture gfx942; the bundle has machine code for NVIDIA GPUs");
    changed = options;
    changed.library = FAKE_CUDA;
    refused_by("cuda", &b, &changed, TSR_TARGET, "the bundle has code for AMD GPUs");
    fake->version = 50100000;
    refused_by("hip", &b, &options, TSR_MACHINE,
               "the AMD driver is for HIP 5.1; expected 5.2 or later");
    *fake = whole;
    fake->device_count = 0;
    setenv("ROCR_VISIBLE_DEVICES", "7", 1);
    refused_by("hip", &b, &options, TSR_MACHINE,
               "the AMD driver shows no device; ROCR_VISIBLE_DEVICES is '7', which may hide");
    unsetenv("ROCR_VISIBLE_DEVICES");
    refused_by("hip", &b, &options, TSR_MACHINE, "the AMD driver shows no device");
    *fake = whole;
    snprintf(fake->arch, sizeof fake->arch, "gfx906");
    refused_by("hip", &b, &options, TSR_TARGET, "device 40 has the architecture 'gfx906:sramecc+");
    snprintf(fake->arch, sizeof fake->arch, "gfx90a");
    refused_by("hip", &b, &options, TSR_TARGET,
               "of architecture gfx90a; the bundle has machine code for gfx942, machine code for "
               "gfx9-4-generic, machine code for gfx1100");
    *fake = whole;
    fake->free_bytes = 400;
    refused_by("hip", &b, &options, TSR_MEMORY, "bytes of device memory are needed on Fake A (0");
    *fake = whole;
    fake->fail = "hipModuleLoadDataEx";
    fake->fail_at = 1;
    fake->fail_code = 218;
    refused_by("hip", &b, &options, TSR_MACHINE, "(generic targets need code object version 6)");
    *fake = whole;
    tsr_arena_finish(&b.arena);
}

/* A runtime older than 7 does not record events within graphs, and one may refuse to capture: what
 * needs this runs without a graph, with the same results. */
Test(device, hip_without_graphs) {
    static const char *const names[] = {"copies",  "loops",    "training",       "faults",
                                        "readers", "snapshot", "hyperparameters"};
    for (int old = 0; old < 2; old++)
        for (size_t k = 0; k < TSR_COUNT(names); k++) {
            bench_hip_library = old ? FAKE_OLD_HIP : FAKE_HIP;
            bench_open_driver("hip");
            const fake_gpu whole = *fake;
            fake->refuses_captures = !old;
            for (unsigned i = 0; i < device_case_count; i++)
                if (strcmp(device_cases[i].name, names[k]) == 0) device_cases[i].run("hip");
            bench_expect_nothing_open(names[k]);
            *fake = whole;
        }
    bench_hip_library = FAKE_HIP;
}
