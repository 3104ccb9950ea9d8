/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/toy.h"

int64_t toy_limit = 256;
float toy_poison;

/* x, w -> loss, mean */
static void mean_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const uint8_t *x = args->buffers[0];
    const float *w = args->buffers[1];
    float *loss = args->buffers[2], *mean = args->buffers[3];
    if (begin == end) return;
    *loss = toy_poison;
    for (int i = 0; i < 4; i++) {
        for (int row = 0; row < 2; row++)
            if (x[4 * row + i] >= toy_limit && args->fault->kind == TSR_FAULT_NONE)
                *args->fault =
                    (tsr_fault){TSR_FAULT_INDEX, 0, 4 * row + i, x[4 * row + i], toy_limit};
        mean[i] = 0.5f * (float)(x[i] + x[4 + i]);
        *loss += (mean[i] - w[i]) * (mean[i] - w[i]);
    }
}

/* mean -> w, count; one program per element */
static void update_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const float *mean = args->buffers[0];
    float *w = args->buffers[1];
    int64_t *count = args->buffers[2];
    for (int64_t i = begin; i < end; i++) {
        w[i] += 0.1f * (mean[i] - w[i]);
        if (i == 0) *count += 1;
    }
}

static void double_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const uint8_t *x = args->buffers[0];
    float *y = args->buffers[1];
    for (int64_t i = begin; i < end; i++) y[i] = 2 * (float)x[i];
}

void toy_add(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const float *a = args->buffers[0], *b = args->buffers[1];
    float *sum = args->buffers[2];
    for (int64_t i = begin; i < end; i++) sum[i] = a[i] + b[i];
}

const tsr_kernel_fn toy_kernels[3] = {mean_kernel, update_kernel, double_kernel};

static tsr_config_tensor tensors[] = {
    {.name = "w",
     .role = TSR_ROLE_PARAM,
     .dtype = TSR_DTYPE_F32,
     .shape = {1, {4}},
     .init = TSR_INIT_UNIFORM,
     .init_a = 0,
     .init_b = 1,
     .init_stream = 3},
    {.name = "w.count",
     .role = TSR_ROLE_STATE,
     .of = "w",
     .kind = "count",
     .dtype = TSR_DTYPE_I64,
     .shape = {0, {0}},
     .init = TSR_INIT_CONSTANT},
};
static tsr_config_port train_inputs[] = {
    {"x", TSR_DTYPE_UI8, {2, {2, 4}}, TSR_PORT_DATA, false, false, NULL, 0},
    {"step", TSR_DTYPE_I64, {0, {0}}, TSR_PORT_STEP, false, false, NULL, 0}};
static tsr_config_port train_outputs[] = {
    {"loss", TSR_DTYPE_F32, {0, {0}}, TSR_PORT_ARGUMENT, false, false, NULL, 0}};
static tsr_config_port rows_inputs[] = {
    {"test_x", TSR_DTYPE_UI8, {2, {2, 4}}, TSR_PORT_DATA, false, false, NULL, 0}};
static tsr_config_port rows_outputs[] = {
    {"y", TSR_DTYPE_F32, {2, {2, 4}}, TSR_PORT_ARGUMENT, false, false, NULL, 0}};
static tsr_config_entry entries[] = {
    {.name = "rows",
     .kind = TSR_ENTRY_EVAL,
     .rows_independent = true,
     .batch = 2,
     .input_count = 1,
     .output_count = 1,
     .inputs = rows_inputs,
     .outputs = rows_outputs},
    {.name = "train",
     .kind = TSR_ENTRY_TRAIN,
     .batch = 2,
     .input_count = 2,
     .output_count = 1,
     .inputs = train_inputs,
     .outputs = train_outputs},
};
const tsr_config toy_config = {.version_major = 1,
                               .name = "toy",
                               .producer = "test",
                               .numerics = "portable",
                               .virtual_ranks = 1,
                               .tensor_count = 2,
                               .entry_count = 2,
                               .tensors = tensors,
                               .entries = entries};

static tsr_program_buffer train_buffers[] = {
    {TSR_SPACE_INPUT, 0, 0, TSR_DTYPE_UI8, {2, {2, 4}}, "x", 0},
    {TSR_SPACE_TENSOR, 0, 0, TSR_DTYPE_F32, {1, {4}}, "w", 0},
    {TSR_SPACE_OUTPUT, 0, 0, TSR_DTYPE_F32, {0, {0}}, "loss", 0},
    {TSR_SPACE_WORKSPACE, 0, 64, TSR_DTYPE_F32, {1, {4}}, "mean", 0},
    {TSR_SPACE_TENSOR, 1, 0, TSR_DTYPE_I64, {0, {0}}, "w.count", 0},
    {TSR_SPACE_WORKSPACE, 0, 128, TSR_DTYPE_F32, {1, {4}}, "copy", 0},
};
static uint32_t mean_arguments[] = {0, 1, 2, 3}, copy_arguments[] = {5, 3},
                update_arguments[] = {5, 1, 4}, double_arguments[] = {0, 1};
static tsr_program_command train_commands[] = {
    {TSR_OP_LAUNCH, 0, 1, 0, 4, 2, mean_arguments, "toy.mlir:3:5", 0, 0},
    {TSR_OP_COPY, 0, 0, 0, 2, 0, copy_arguments, "", 0, 0},
    {TSR_OP_LAUNCH, 1, 4, 1000000000, 3, 1, update_arguments, "", 0, 0},
};
static tsr_program_buffer rows_buffers[] = {
    {TSR_SPACE_INPUT, 0, 0, TSR_DTYPE_UI8, {2, {2, 4}}, "test_x", 0},
    {TSR_SPACE_OUTPUT, 0, 0, TSR_DTYPE_F32, {2, {2, 4}}, "y", 0}};
static tsr_program_command rows_commands[] = {
    {TSR_OP_LAUNCH, 2, 8, 0, 2, 1, double_arguments, "", 0, 0}};
static tsr_program_entry program_entries[] = {
    {.name = "rows",
     .workspace_bytes = 0,
     .buffer_count = 2,
     .command_count = 1,
     .buffers = rows_buffers,
     .commands = rows_commands},
    {.name = "train",
     .workspace_bytes = 192,
     .buffer_count = 6,
     .command_count = 3,
     .buffers = train_buffers,
     .commands = train_commands},
};
static const char *kernel_names[] = {"mean", "update", "twice"};
const tsr_program toy_program = {3, 2, kernel_names, program_entries};
