/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with every command of loops and branches. It computes from x [3, 4], starting with the
 * last slice:
 *
 *     sum = 0; while (sum[0] < 6, at most 3 times) { sum = sum + x[i]; sums[i] = sum }
 *     if (sum[0] < 6) sum = 2 sum, else sum = 0
 */
#ifndef TSR_TESTS_MANIFESTS_CONTROL_PROGRAM_H
#define TSR_TESTS_MANIFESTS_CONTROL_PROGRAM_H

#include "manifests/program.h"

enum { K_ZERO, K_ADD, K_TWICE, K_LESS, KERNELS };
enum { X, Y, YS, SUM, SLICE, NEXT, SUMS, GOES_ON, BUFFERS };
enum {
    START,
    REPEAT,
    TEST,
    STOP,
    TAKE,
    ADD,
    PUT,
    COPY_SUM,
    LAST_TEST,
    WHEN,
    TWICE,
    UNLESS,
    ZERO,
    OUT_SUM,
    OUT_SUMS,
    COMMANDS
};

#define VECTOR                                                                                     \
    {                                                                                              \
        1, { 4 }                                                                                   \
    }
#define ROWS                                                                                       \
    {                                                                                              \
        2, { 3, 4 }                                                                                \
    }
static tsr_config_port inputs[] = {
    {"x", TSR_DTYPE_F32, ROWS, TSR_PORT_ARGUMENT, false, false, NULL, 0}};
static tsr_config_port outputs[] = {
    {"y", TSR_DTYPE_F32, VECTOR, TSR_PORT_ARGUMENT, false, false, NULL, 0},
    {"ys", TSR_DTYPE_F32, ROWS, TSR_PORT_ARGUMENT, false, false, NULL, 0}};
static tsr_config_entry config_entry = {.name = "f",
                                        .kind = TSR_ENTRY_INFER,
                                        .inputs = inputs,
                                        .input_count = 1,
                                        .outputs = outputs,
                                        .output_count = 2};
static const tsr_config config = {.version_major = 1,
                                  .name = "m",
                                  .producer = "test",
                                  .numerics = "portable",
                                  .virtual_ranks = 1,
                                  .entry_count = 1,
                                  .entries = &config_entry};
static const char *kernel_names[] = {"zero", "add", "twice", "less"};

typedef struct example {
    tsr_program program;
    tsr_program_entry entry;
    tsr_program_buffer buffers[BUFFERS];
    tsr_program_command commands[COMMANDS];
    uint32_t arguments[COMMANDS][3];
} example;

static inline void make_example(example *e) {
    static const tsr_program_buffer buffers[BUFFERS] = {
        [X] = {TSR_SPACE_INPUT, 0, 0, TSR_DTYPE_F32, ROWS, "x", 0},
        [Y] = {TSR_SPACE_OUTPUT, 0, 0, TSR_DTYPE_F32, VECTOR, "y", 0},
        [YS] = {TSR_SPACE_OUTPUT, 1, 0, TSR_DTYPE_F32, ROWS, "ys", 0},
        [SUM] = {TSR_SPACE_WORKSPACE, 0, 0, TSR_DTYPE_F32, VECTOR, "", 0},
        [SLICE] = {TSR_SPACE_WORKSPACE, 0, 64, TSR_DTYPE_F32, VECTOR, "", 0},
        [NEXT] = {TSR_SPACE_WORKSPACE, 0, 128, TSR_DTYPE_F32, VECTOR, "", 0},
        [SUMS] = {TSR_SPACE_WORKSPACE, 0, 192, TSR_DTYPE_F32, ROWS, "", 0},
        [GOES_ON] = {TSR_SPACE_WORKSPACE, 0, 256, TSR_DTYPE_I1, {0, {0}}, "", 0},
    };
    static const tsr_program_command commands[COMMANDS] = {
        [START] = {TSR_OP_LAUNCH, K_ZERO, 1, 0, 1, 0, NULL, "", 0, 0},
        [REPEAT] = {TSR_OP_REPEAT, COPY_SUM - REPEAT, 3, 0, 0, 0, NULL, "m.mlir:1:1", 0, 0},
        [TEST] = {TSR_OP_LAUNCH, K_LESS, 1, 0, 2, 1, NULL, "", 0, 0},
        [STOP] = {TSR_OP_STOP, 0, 0, 0, 1, 1, NULL, "", 0, 0},
        [TAKE] = {TSR_OP_TAKE, 1, 0, 0, 2, 0, NULL, "", 0, 0},
        [ADD] = {TSR_OP_LAUNCH, K_ADD, 1, 0, 3, 2, NULL, "", 0, 0},
        [PUT] = {TSR_OP_PUT, 1, 0, 0, 2, 0, NULL, "", 0, 0},
        [COPY_SUM] = {TSR_OP_COPY, 0, 0, 0, 2, 0, NULL, "", 0, 0},
        [LAST_TEST] = {TSR_OP_LAUNCH, K_LESS, 1, 0, 2, 1, NULL, "", 0, 0},
        [WHEN] = {TSR_OP_WHEN, 1, 0, 0, 1, 1, NULL, "", 0, 0},
        [TWICE] = {TSR_OP_LAUNCH, K_TWICE, 1, 0, 1, 0, NULL, "", 0, 0},
        [UNLESS] = {TSR_OP_UNLESS, 1, 0, 0, 1, 1, NULL, "", 0, 0},
        [ZERO] = {TSR_OP_LAUNCH, K_ZERO, 1, 0, 1, 0, NULL, "", 0, 0},
        [OUT_SUM] = {TSR_OP_COPY, 0, 0, 0, 2, 0, NULL, "", 0, 0},
        [OUT_SUMS] = {TSR_OP_COPY, 0, 0, 0, 2, 0, NULL, "", 0, 0},
    };
    static const uint32_t arguments[COMMANDS][3] = {
        [START] = {SUM},          [TEST] = {SUM, GOES_ON},      [STOP] = {GOES_ON},
        [TAKE] = {SLICE, X},      [ADD] = {SUM, SLICE, NEXT},   [PUT] = {SUMS, NEXT},
        [COPY_SUM] = {SUM, NEXT}, [LAST_TEST] = {SUM, GOES_ON}, [WHEN] = {GOES_ON},
        [TWICE] = {SUM},          [UNLESS] = {GOES_ON},         [ZERO] = {SUM},
        [OUT_SUM] = {Y, SUM},     [OUT_SUMS] = {YS, SUMS},
    };
    *e = (example){.program = {KERNELS, 1, kernel_names, &e->entry},
                   .entry = {.name = "f",
                             .workspace_bytes = 320,
                             .buffer_count = BUFFERS,
                             .command_count = COMMANDS,
                             .buffers = e->buffers,
                             .commands = e->commands}};
    for (int i = 0; i < BUFFERS; i++) e->buffers[i] = buffers[i];
    for (int i = 0; i < COMMANDS; i++) {
        e->commands[i] = commands[i];
        e->commands[i].arguments = e->arguments[i];
        for (int k = 0; k < 3; k++) e->arguments[i][k] = arguments[i][k];
    }
}

#endif
