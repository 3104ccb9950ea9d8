/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry that only copies. It offloads two values to host memory, overwrites them on the device,
 * and fetches them back: y0 = x0 and y1 = x1 if each copy is complete when it is awaited and begins
 * after the preceding commands are complete.
 */
#ifndef TSR_TESTS_RUNTIME_AWAY_PROGRAM_H
#define TSR_TESTS_RUNTIME_AWAY_PROGRAM_H

#include "manifests/program.h"

enum { AWAY_COUNT = 512, AWAY_BYTES = 4 * AWAY_COUNT }; /* elements and bytes per value */
enum {
    AWAY_X0,
    AWAY_X1,
    AWAY_Y0,
    AWAY_Y1,
    AWAY_A,
    AWAY_B,
    AWAY_ZERO, /* never written */
    AWAY_A_BACK,
    AWAY_B_BACK,
    AWAY_A_KEPT,
    AWAY_B_KEPT,
    AWAY_BUFFERS
};

typedef struct away_program {
    tsr_config_port inputs[2], outputs[2];
    tsr_config_entry declared;
    tsr_config config;
    tsr_program program;
    tsr_program_entry entry;
    tsr_program_buffer buffers[AWAY_BUFFERS];
    tsr_program_command commands[20];
    uint32_t arguments[20][2];
} away_program;

static inline void away_put(away_program *p, tsr_opcode opcode, uint32_t to, uint32_t from) {
    uint32_t at = p->entry.command_count++;
    bool awaits = opcode == TSR_OP_AWAIT;
    p->arguments[at][0] = to;
    p->arguments[at][1] = from;
    p->commands[at] = (tsr_program_command){.opcode = opcode,
                                            .kernel = awaits ? to : 0,
                                            .argument_count = awaits ? 0 : 2,
                                            .arguments = p->arguments[at],
                                            .location = "away.mlir:1:1"};
}

static inline void away_put_commands(away_program *p) {
    away_put(p, TSR_OP_COPY, AWAY_A, AWAY_X0);
    away_put(p, TSR_OP_COPY, AWAY_B, AWAY_X1);
    away_put(p, TSR_OP_OFFLOAD, AWAY_A_KEPT, AWAY_A);
    away_put(p, TSR_OP_OFFLOAD, AWAY_B_KEPT, AWAY_B);
    away_put(p, TSR_OP_COPY, AWAY_A_BACK, AWAY_B); /* concurrent with both offloads */
    away_put(p, TSR_OP_AWAIT, 2, 0);
    away_put(p, TSR_OP_COPY, AWAY_A, AWAY_ZERO); /* concurrent with one offload */
    away_put(p, TSR_OP_AWAIT, 3, 0);
    away_put(p, TSR_OP_COPY, AWAY_B, AWAY_ZERO);
    away_put(p, TSR_OP_COPY, AWAY_B_BACK, AWAY_ZERO);
    away_put(p, TSR_OP_PREFETCH, AWAY_A_BACK, AWAY_A_KEPT);
    away_put(p, TSR_OP_PREFETCH, AWAY_B_BACK, AWAY_B_KEPT);
    away_put(p, TSR_OP_COPY, AWAY_A, AWAY_B); /* concurrent with both prefetches */
    away_put(p, TSR_OP_AWAIT, 11, 0);
    away_put(p, TSR_OP_COPY, AWAY_Y1, AWAY_B_BACK);
    away_put(p, TSR_OP_AWAIT, 10, 0);
    away_put(p, TSR_OP_COPY, AWAY_Y0, AWAY_A_BACK);
}

/* The struct must not be moved afterwards, since it contains pointers to itself. */
static inline void away_make(away_program *p) {
    static const char *const names[] = {"x0", "x1", "y0", "y1"};
    static const char *kernels[] = {"mean", "update", "twice"};
    const tsr_shape shape = {1, {AWAY_COUNT}};
    *p = (away_program){.entry = {.name = "away"}};
    for (uint32_t i = 0; i < 2; i++) {
        p->inputs[i] =
            (tsr_config_port){names[i], TSR_DTYPE_F32, shape, TSR_PORT_ARGUMENT, false, false};
        p->outputs[i] =
            (tsr_config_port){names[2 + i], TSR_DTYPE_F32, shape, TSR_PORT_ARGUMENT, false, false};
    }
    for (uint32_t i = 0; i < AWAY_BUFFERS; i++) {
        bool port = i < AWAY_A, kept = i >= AWAY_A_KEPT;
        p->buffers[i] = (tsr_program_buffer){.space = i < AWAY_Y0 ? TSR_SPACE_INPUT
                                                      : port      ? TSR_SPACE_OUTPUT
                                                      : kept      ? TSR_SPACE_HOST
                                                                  : TSR_SPACE_WORKSPACE,
                                             .index = port ? i % 2 : 0,
                                             .dtype = TSR_DTYPE_F32,
                                             .shape = shape,
                                             .name = ""};
        if (!port) p->buffers[i].offset_bytes = (i - (kept ? AWAY_A_KEPT : AWAY_A)) * AWAY_BYTES;
    }
    away_put_commands(p);
    p->entry.workspace_bytes = (AWAY_A_KEPT - AWAY_A) * AWAY_BYTES;
    p->entry.buffer_count = AWAY_BUFFERS;
    p->entry.buffers = p->buffers;
    p->entry.commands = p->commands;
    p->declared = (tsr_config_entry){.name = "away",
                                     .kind = TSR_ENTRY_INFER,
                                     .inputs = p->inputs,
                                     .input_count = 2,
                                     .outputs = p->outputs,
                                     .output_count = 2};
    p->config = (tsr_config){.version_major = 1,
                             .name = "m",
                             .producer = "test",
                             .numerics = "portable",
                             .virtual_ranks = 1,
                             .entry_count = 1,
                             .entries = &p->declared};
    p->program = (tsr_program){3, 1, kernels, &p->entry};
}

#endif
