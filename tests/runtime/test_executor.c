/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepared data of a tensor are made once for all entries, and again after every change of the
 * tensor by an entry or from outside.
 */
#include "runtime/exec/executor.h"

#include <criterion/criterion.h>

static int prepare_count;

static void prepare_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const float *w = args->buffers[0];
    float *twice = args->buffers[1];
    prepare_count += begin == 0;
    for (int64_t i = begin; i < end; i++) twice[i] = 2 * w[i];
}

static void read_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const float *twice = args->buffers[0];
    float *y = args->buffers[1];
    for (int64_t i = 4 * begin; i < 4 * end; i++) y[i] = twice[i] + 1;
}

static void write_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    float *w = args->buffers[0];
    for (int64_t i = 4 * begin; i < 4 * end; i++) w[i] = 10 * (float)(i + 1);
}

#define W                                                                                          \
    {                                                                                              \
        1, { 4 }                                                                                   \
    }
static tsr_config_tensor tensors[] = {
    {.name = "w", .role = TSR_ROLE_PARAM, .dtype = TSR_DTYPE_F32, .shape = W},
};
static tsr_config_port outputs[] = {
    {"y", TSR_DTYPE_F32, W, TSR_PORT_ARGUMENT, false, false, NULL, 0}};
enum { ONE, TRAIN, TWO, ENTRIES };
static tsr_config_entry entries[ENTRIES] = {
    {.name = "one", .kind = TSR_ENTRY_INFER, .outputs = outputs, .output_count = 1},
    {.name = "train", .kind = TSR_ENTRY_TRAIN},
    {.name = "two", .kind = TSR_ENTRY_INFER, .outputs = outputs, .output_count = 1},
};
static const tsr_config config = {.version_major = 1,
                                  .name = "m",
                                  .producer = "test",
                                  .numerics = "portable",
                                  .virtual_ranks = 1,
                                  .tensor_count = 1,
                                  .entry_count = ENTRIES,
                                  .tensors = tensors,
                                  .entries = entries};
static tsr_program_buffer buffers[] = {{TSR_SPACE_TENSOR, 0, 0, TSR_DTYPE_F32, W, "w", 0},
                                       {TSR_SPACE_PREPACKED, 0, 0, TSR_DTYPE_F32, W, "", 0},
                                       {TSR_SPACE_OUTPUT, 0, 0, TSR_DTYPE_F32, W, "y", 0}};
static uint32_t prepare_arguments[] = {0, 1}, read_arguments[] = {1, 2}, write_arguments[] = {0};
static tsr_program_command read_commands[] = {
    {TSR_OP_PREPARE, 0, 4, 0, 2, 1, prepare_arguments, "", 0, 0},
    {TSR_OP_LAUNCH, 1, 1, 0, 2, 1, read_arguments, "", 0, 0},
};
static tsr_program_command write_commands[] = {
    {TSR_OP_LAUNCH, 2, 1, 0, 1, 0, write_arguments, "", 0, 0},
};
static tsr_program_entry program_entries[ENTRIES] = {
    {.name = "one",
     .workspace_bytes = 0,
     .buffer_count = 3,
     .command_count = 2,
     .buffers = buffers,
     .commands = read_commands},
    {.name = "train",
     .workspace_bytes = 0,
     .buffer_count = 1,
     .command_count = 1,
     .buffers = buffers,
     .commands = write_commands},
    {.name = "two",
     .workspace_bytes = 0,
     .buffer_count = 3,
     .command_count = 2,
     .buffers = buffers,
     .commands = read_commands},
};
static const char *names[] = {"prepare", "read", "write"};
static const tsr_kernel_fn kernels[] = {prepare_kernel, read_kernel, write_kernel};
static const tsr_program program = {3, ENTRIES, names, program_entries};

static tsr_ctx ctx;
static tsr_threads *threads;
static tsr_device *device;
static tsr_executor *executor;

static void init(void) {
    prepare_count = 0;
    ctx = (tsr_ctx){0};
    cr_assert_eq(tsr_program_verify(&ctx, &program, &config, TSR_CORRUPT).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(tsr_threads_create(&ctx, 1, &threads).code, TSR_OK);
    cr_assert_eq(tsr_device_cpu_create(&ctx, kernels, threads, &device).code, TSR_OK);
    cr_assert_eq(tsr_executor_create(&ctx, &config, &program, device, NULL, &executor).code,
                 TSR_OK);
    float *w = tsr_executor_get_tensor(executor, 0);
    for (int i = 0; i < 4; i++) w[i] = (float)i;
}

static void finish(void) {
    tsr_executor_destroy(executor);
    tsr_device_close(device);
    tsr_threads_destroy(threads);
}
TestSuite(executor, .init = init, .fini = finish);

static float run(size_t entry) {
    cr_assert_eq(tsr_executor_run(&ctx, executor, entry, 0).code, TSR_OK);
    return entry == TRAIN ? 0 : ((float *)tsr_executor_get_output(executor, entry, 0))[3];
}

Test(executor, prepares_once_for_all_entries) {
    cr_assert_eq(prepare_count, 0, "not before it is read");
    cr_assert_float_eq(run(ONE), 7, 0);
    cr_assert_float_eq(run(ONE), 7, 0);
    cr_assert_float_eq(run(TWO), 7, 0);
    cr_assert_eq(prepare_count, 1);
}

Test(executor, prepares_again_after_an_entry_wrote_the_tensor) {
    run(ONE);
    run(TRAIN);
    cr_assert_float_eq(run(TWO), 81, 0);
    cr_assert_float_eq(run(ONE), 81, 0);
    cr_assert_eq(prepare_count, 2);
    run(TRAIN);
    run(TRAIN);
    cr_assert_eq(prepare_count, 2, "not before it is read");
    run(ONE);
    cr_assert_eq(prepare_count, 3);
}

Test(executor, prepares_again_after_a_change_from_outside) {
    float *w = tsr_executor_get_tensor(executor, 0);
    run(ONE);
    cr_assert_eq(tsr_executor_claim(&ctx, executor).code, TSR_OK);
    w[3] = 5;
    cr_assert_float_eq(run(ONE), 11, 0);
    cr_assert_eq(prepare_count, 2);
}

Test(executor, plans_what_it_prepares) {
    tsr_memory_plan plan;
    cr_assert_eq(tsr_executor_plan(&ctx, &config, &program, NULL, &plan).code, TSR_OK);
    cr_assert_eq(plan.prepacked_bytes, TSR_BUFFER_ALIGN_BYTES);
    cr_assert_eq(plan.total_bytes,
                 plan.tensor_bytes + plan.prepacked_bytes + plan.workspace_bytes + plan.port_bytes);
}
