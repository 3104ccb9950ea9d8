/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that are offloaded to host memory while other commands run: their plan, and a failure
 * handler that also offloads values, which must not overwrite those of the failed entry.
 */
#include "runtime/base/array.h"
#include "runtime/exec/executor.h"
#include "tests/runtime/offloaded_program.h"

#include <criterion/criterion.h>
#include <string.h>

enum { COUNT = 40, BYTES = 4 * COUNT, ROUNDED = 192 };
enum { K_MAKE, K_SHAKE, K_GIVE, K_SPOIL, KERNELS };
enum { MEND, TRAIN, ENTRIES };
static int shakes, mended;

static void make_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) ((float *)args->buffers[0])[i] = (float)(i + 1);
}

/* Fails once. */
static void shake_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    (void)begin, (void)end;
    if (shakes++ > 0) return;
    *args->fault = (tsr_fault){.kind = TSR_FAULT_INDEX, .argument = 0, .limit = 1, .value = 7};
}

static void give_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const float *from = args->buffers[0];
    for (int64_t i = begin; i < end; i++) ((float *)args->buffers[1])[i] = from[i];
}

static void spoil_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    mended += begin == 0;
    for (int64_t i = begin; i < end; i++) ((float *)args->buffers[0])[i] = -1;
}

static const tsr_shape shape = {1, {COUNT}};
static tsr_config_port output = {"y",   TSR_DTYPE_F32, {1, {COUNT}}, TSR_PORT_ARGUMENT,
                                 false, false,         NULL,         0};
static tsr_config_entry entries[ENTRIES] = {
    {.name = "mend", .kind = TSR_ENTRY_TRAIN},
    {.name = "train", .kind = TSR_ENTRY_TRAIN, .outputs = &output, .output_count = 1}};
static const tsr_config config = {.version_major = 1,
                                  .name = "m",
                                  .producer = "test",
                                  .numerics = "portable",
                                  .virtual_ranks = 1,
                                  .entry_count = ENTRIES,
                                  .entries = entries};

enum { A, OFFLOADED_COPY, BACK, Y, BUFFERS };
static tsr_program_buffer buffers[BUFFERS] = {
    [A] = {.space = TSR_SPACE_WORKSPACE},
    [OFFLOADED_COPY] = {.space = TSR_SPACE_HOST},
    [BACK] = {.space = TSR_SPACE_WORKSPACE, .offset_bytes = ROUNDED},
    [Y] = {.space = TSR_SPACE_OUTPUT}};
static uint32_t a[] = {A}, offload[] = {OFFLOADED_COPY, A}, prefetch[] = {BACK, OFFLOADED_COPY},
                give[] = {BACK, Y};
static tsr_program_command mend_commands[] = {
    {TSR_OP_LAUNCH, K_SPOIL, COUNT, 0, 1, 0, a, "", 0, 0},
    {TSR_OP_OFFLOAD, 0, 0, 0, 2, 0, offload, "", 0, 0},
    {TSR_OP_AWAIT, 1, 0, 0, 0, 0, a, "", 0, 0},
};
static tsr_program_command train_commands[] = {
    {TSR_OP_LAUNCH, K_MAKE, COUNT, 0, 1, 0, a, "", 0, 0},
    {TSR_OP_OFFLOAD, 0, 0, 0, 2, 0, offload, "", 0, 0},
    {TSR_OP_AWAIT, 1, 0, 0, 0, 0, a, "", 0, 0},
    {TSR_OP_ENTER, 0, 0, 0, 0, 0, a, "", 0, 0},
    {TSR_OP_LAUNCH, K_SHAKE, 1, 0, 1, 0, a, "", 0, 0},
    {TSR_OP_LEAVE, 0, 0, 0, 0, 0, a, "", 0, 0},
    {TSR_OP_PREFETCH, 0, 0, 0, 2, 0, prefetch, "", 0, 0},
    {TSR_OP_AWAIT, 6, 0, 0, 0, 0, a, "", 0, 0},
    {TSR_OP_LAUNCH, K_GIVE, COUNT, 0, 2, 1, give, "", 0, 0}};
static tsr_program_region region = {"stage", TSR_REGION_REPLAY, 1 + MEND};
static tsr_program_entry program_entries[ENTRIES] = {{.name = "mend",
                                                      .workspace_bytes = 2 * ROUNDED,
                                                      .buffer_count = Y,
                                                      .command_count = TSR_COUNT(mend_commands),
                                                      .buffers = buffers,
                                                      .commands = mend_commands},
                                                     {.name = "train",
                                                      .workspace_bytes = 2 * ROUNDED,
                                                      .buffer_count = BUFFERS,
                                                      .command_count = TSR_COUNT(train_commands),
                                                      .buffers = buffers,
                                                      .commands = train_commands,
                                                      .region_count = 1,
                                                      .regions = &region}};
static const char *names[] = {"make", "shake", "give", "spoil"};
static const tsr_kernel_fn kernels[] = {make_kernel, shake_kernel, give_kernel, spoil_kernel};
static const tsr_program program = {KERNELS, ENTRIES, names, program_entries};

static void fill_types(void) {
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i].dtype = TSR_DTYPE_F32;
        buffers[i].shape = shape;
        buffers[i].name = "";
    }
}

Test(offloaded, a_handler_leaves_offloaded_values_alone) {
    tsr_ctx ctx = {0};
    tsr_threads *threads = NULL;
    tsr_device *device = NULL;
    tsr_executor *executor = NULL;
    fill_types();
    cr_assert_eq(tsr_program_verify(&ctx, &program, &config, TSR_CORRUPT).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(tsr_threads_create(&ctx, 1, &threads).code, TSR_OK);
    cr_assert_eq(tsr_device_cpu_create(&ctx, kernels, threads, &device).code, TSR_OK);
    cr_assert_eq(tsr_executor_create(&ctx, &config, &program, device, NULL, &executor).code,
                 TSR_OK);
    cr_assert_eq(tsr_executor_run(&ctx, executor, TRAIN, 1).code, TSR_OK, "%s", ctx.error.text);
    cr_assert(shakes == 2 && mended == 1, "%d attempts, %d handlers", shakes, mended);
    const float *y = tsr_executor_get_output(executor, TRAIN, 0);
    for (int i = 0; i < COUNT; i++) cr_assert_eq(y[i], (float)(i + 1), "y[%d] is %g", i, y[i]);
    tsr_executor_destroy(executor);
    tsr_device_close(device);
    tsr_threads_destroy(threads);
}

Test(offloaded, is_planned_of_the_host_besides) {
    tsr_ctx ctx = {0};
    tsr_memory_plan plan, without;
    tsr_arena arena = {0};
    offloaded_program p;
    fill_types();
    cr_assert_eq(tsr_executor_plan(&ctx, &config, &program, NULL, &plan).code, TSR_OK);
    cr_assert(plan.offloaded_bytes == 2 * ROUNDED && plan.offloaded_handler_bytes == ROUNDED,
              "%lu, %lu", plan.offloaded_bytes, plan.offloaded_handler_bytes);
    offloaded_make(&p);
    cr_assert_eq(tsr_executor_plan(&ctx, &p.config, &p.program, NULL, &plan).code, TSR_OK);
    cr_assert(plan.offloaded_bytes == 2 * OFFLOADED_BYTES && plan.offloaded_handler_bytes == 0);
    cr_assert_eq(tsr_memory_plan_host(&plan, true), plan.total_bytes + 2 * OFFLOADED_BYTES);
    cr_assert_eq(tsr_memory_plan_host(&plan, false),
                 plan.tensor_bytes + plan.port_bytes + 2 * OFFLOADED_BYTES);
    const char *text = tsr_executor_describe_plan(&p.config, &plan, &arena);
    cr_assert(strstr(text, " for tensors; and 4096 of the host's memory for values that wait"),
              "%s", text);
    p.entry.buffer_count = OFFLOADED_A_COPY;
    p.entry.command_count = 2;
    cr_assert_eq(tsr_executor_plan(&ctx, &p.config, &p.program, NULL, &without).code, TSR_OK);
    cr_assert(without.offloaded_bytes == 0 && without.total_bytes == plan.total_bytes);
    text = tsr_executor_describe_plan(&p.config, &without, &arena);
    cr_assert(!strstr(text, "host"), "%s", text);
    tsr_arena_finish(&arena);
}
