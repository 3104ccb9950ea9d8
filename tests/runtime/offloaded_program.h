/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry that only copies. It offloads two values to host memory, overwrites them on the device,
 * and fetches them back: y0 = x0 and y1 = x1 if each copy is complete when it is awaited and begins
 * after the preceding commands are complete.
 */
#ifndef TSR_TESTS_RUNTIME_OFFLOADED_PROGRAM_H
#define TSR_TESTS_RUNTIME_OFFLOADED_PROGRAM_H

#include "manifests/program.h"

enum {
    OFFLOADED_COUNT = 512,
    OFFLOADED_BYTES = 4 * OFFLOADED_COUNT
}; /* elements and bytes per value */
enum {
    OFFLOADED_X0,
    OFFLOADED_X1,
    OFFLOADED_Y0,
    OFFLOADED_Y1,
    OFFLOADED_A,
    OFFLOADED_B,
    OFFLOADED_ZERO, /* never written */
    OFFLOADED_A_BACK,
    OFFLOADED_B_BACK,
    OFFLOADED_A_COPY,
    OFFLOADED_B_COPY,
    OFFLOADED_BUFFERS
};

typedef struct offloaded_program {
    tsr_config_port inputs[2], outputs[2];
    tsr_config_entry declared;
    tsr_config config;
    tsr_program program;
    tsr_program_entry entry;
    tsr_program_buffer buffers[OFFLOADED_BUFFERS];
    tsr_program_command commands[20];
    uint32_t arguments[20][2];
} offloaded_program;

static inline void offloaded_put(offloaded_program *p, tsr_opcode opcode, uint32_t to,
                                 uint32_t from) {
    uint32_t at = p->entry.command_count++;
    bool awaits = opcode == TSR_OP_AWAIT;
    p->arguments[at][0] = to;
    p->arguments[at][1] = from;
    p->commands[at] = (tsr_program_command){.opcode = opcode,
                                            .kernel = awaits ? to : 0,
                                            .argument_count = awaits ? 0 : 2,
                                            .arguments = p->arguments[at],
                                            .location = "offloaded.mlir:1:1"};
}

static inline void offloaded_put_commands(offloaded_program *p) {
    offloaded_put(p, TSR_OP_COPY, OFFLOADED_A, OFFLOADED_X0);
    offloaded_put(p, TSR_OP_COPY, OFFLOADED_B, OFFLOADED_X1);
    offloaded_put(p, TSR_OP_OFFLOAD, OFFLOADED_A_COPY, OFFLOADED_A);
    offloaded_put(p, TSR_OP_OFFLOAD, OFFLOADED_B_COPY, OFFLOADED_B);
    offloaded_put(p, TSR_OP_COPY, OFFLOADED_A_BACK,
                  OFFLOADED_B); /* concurrent with both offloads */
    offloaded_put(p, TSR_OP_AWAIT, 2, 0);
    offloaded_put(p, TSR_OP_COPY, OFFLOADED_A, OFFLOADED_ZERO); /* concurrent with one offload */
    offloaded_put(p, TSR_OP_AWAIT, 3, 0);
    offloaded_put(p, TSR_OP_COPY, OFFLOADED_B, OFFLOADED_ZERO);
    offloaded_put(p, TSR_OP_COPY, OFFLOADED_B_BACK, OFFLOADED_ZERO);
    offloaded_put(p, TSR_OP_PREFETCH, OFFLOADED_A_BACK, OFFLOADED_A_COPY);
    offloaded_put(p, TSR_OP_PREFETCH, OFFLOADED_B_BACK, OFFLOADED_B_COPY);
    offloaded_put(p, TSR_OP_COPY, OFFLOADED_A, OFFLOADED_B); /* concurrent with both prefetches */
    offloaded_put(p, TSR_OP_AWAIT, 11, 0);
    offloaded_put(p, TSR_OP_COPY, OFFLOADED_Y1, OFFLOADED_B_BACK);
    offloaded_put(p, TSR_OP_AWAIT, 10, 0);
    offloaded_put(p, TSR_OP_COPY, OFFLOADED_Y0, OFFLOADED_A_BACK);
}

/* The struct must not be moved afterwards, since it contains pointers to itself. */
static inline void offloaded_make(offloaded_program *p) {
    static const char *const names[] = {"x0", "x1", "y0", "y1"};
    static const char *kernels[] = {"mean", "update", "twice"};
    const tsr_shape shape = {1, {OFFLOADED_COUNT}};
    *p = (offloaded_program){.entry = {.name = "offloaded"}};
    for (uint32_t i = 0; i < 2; i++) {
        p->inputs[i] = (tsr_config_port){names[i], TSR_DTYPE_F32, shape, TSR_PORT_ARGUMENT,
                                         false,    false,         NULL,  0};
        p->outputs[i] = (tsr_config_port){names[2 + i], TSR_DTYPE_F32, shape, TSR_PORT_ARGUMENT,
                                          false,        false,         NULL,  0};
    }
    for (uint32_t i = 0; i < OFFLOADED_BUFFERS; i++) {
        bool port = i < OFFLOADED_A, is_copy = i >= OFFLOADED_A_COPY;
        p->buffers[i] = (tsr_program_buffer){.space = i < OFFLOADED_Y0 ? TSR_SPACE_INPUT
                                                      : port           ? TSR_SPACE_OUTPUT
                                                      : is_copy        ? TSR_SPACE_HOST
                                                                       : TSR_SPACE_WORKSPACE,
                                             .index = port ? i % 2 : 0,
                                             .dtype = TSR_DTYPE_F32,
                                             .shape = shape,
                                             .name = ""};
        if (!port)
            p->buffers[i].offset_bytes =
                (i - (is_copy ? OFFLOADED_A_COPY : OFFLOADED_A)) * OFFLOADED_BYTES;
    }
    offloaded_put_commands(p);
    p->entry.workspace_bytes = (OFFLOADED_A_COPY - OFFLOADED_A) * OFFLOADED_BYTES;
    p->entry.buffer_count = OFFLOADED_BUFFERS;
    p->entry.buffers = p->buffers;
    p->entry.commands = p->commands;
    p->declared = (tsr_config_entry){.name = "offloaded",
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
