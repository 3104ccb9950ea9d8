/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with an open dim N, 1 to 64, and every kind of size: y = f(x, s) has N rows, t has 2 N.
 */
#ifndef TSR_TESTS_MANIFESTS_OPEN_PROGRAM_H
#define TSR_TESTS_MANIFESTS_OPEN_PROGRAM_H

#include "manifests/program.h"

enum { LOW = 1, HIGH = 64 };
enum { K_ROWS, K_TWICE, KERNELS };
enum { X, S, Y, T, W, N, BLOCKS, BUFFERS };
enum { ROWS_OF_W, TWICE, COPY, COMMANDS };
enum {
    Z_DIM,
    Z_TWO,
    Z_TWICE, /* 2 N */
    Z_SIXTEEN,
    Z_BLOCKS, /* ceil(N / 16) */
    Z_THOUSAND,
    Z_COST, /* 1000 N */
    Z_HALF, /* floor(N / 2) */
    Z_SUM,  /* N + 16 */
    Z_REST, /* N + 16 - 16 */
    Z_LESS, /* min(N, 16) */
    Z_MORE, /* max(ceil(N / 16), 2) */
    SIZES
};

static tsr_config_port inputs[] = {
    {"x", TSR_DTYPE_F32, {2, {HIGH, 4}}, TSR_PORT_ARGUMENT, false, false, NULL, 1},
    {"s", TSR_DTYPE_F32, {1, {4}}, TSR_PORT_ARGUMENT, false, false, NULL, 0}};
static tsr_config_port outputs[] = {
    {"y", TSR_DTYPE_F32, {2, {HIGH, 4}}, TSR_PORT_ARGUMENT, false, false, NULL, 1},
    {"t", TSR_DTYPE_F32, {1, {2 * HIGH}}, TSR_PORT_ARGUMENT, false, false, NULL, 2}};
static tsr_config_entry config_entry = {.name = "f",
                                        .kind = TSR_ENTRY_INFER,
                                        .inputs = inputs,
                                        .input_count = 2,
                                        .outputs = outputs,
                                        .output_count = 2,
                                        .open = {"N", LOW, HIGH}};
static const tsr_config config = {.version_major = 1,
                                  .name = "m",
                                  .producer = "test",
                                  .numerics = "portable",
                                  .virtual_ranks = 1,
                                  .entry_count = 1,
                                  .entries = &config_entry};
static const char *kernel_names[] = {"rows", "twice"};

typedef struct example {
    tsr_program program;
    tsr_program_entry entry;
    tsr_program_buffer buffers[BUFFERS];
    tsr_program_command commands[COMMANDS];
    tsr_program_size sizes[SIZES];
    uint32_t arguments[COMMANDS][5];
} example;

static inline void make_example(example *e) {
    static const tsr_program_size sizes[SIZES] = {
        [Z_DIM] = {TSR_SIZE_DIM, 0, 0, 0},
        [Z_TWO] = {TSR_SIZE_CONSTANT, 0, 0, 2},
        [Z_TWICE] = {TSR_SIZE_MULTIPLY, Z_DIM, Z_TWO, 0},
        [Z_SIXTEEN] = {TSR_SIZE_CONSTANT, 0, 0, 16},
        [Z_BLOCKS] = {TSR_SIZE_DIVIDE_UP, Z_DIM, Z_SIXTEEN, 0},
        [Z_THOUSAND] = {TSR_SIZE_CONSTANT, 0, 0, 1000},
        [Z_COST] = {TSR_SIZE_MULTIPLY, Z_DIM, Z_THOUSAND, 0},
        [Z_HALF] = {TSR_SIZE_DIVIDE, Z_DIM, Z_TWO, 0},
        [Z_SUM] = {TSR_SIZE_ADD, Z_DIM, Z_SIXTEEN, 0},
        [Z_REST] = {TSR_SIZE_SUBTRACT, Z_SUM, Z_SIXTEEN, 0},
        [Z_LESS] = {TSR_SIZE_MIN, Z_DIM, Z_SIXTEEN, 0},
        [Z_MORE] = {TSR_SIZE_MAX, Z_BLOCKS, Z_TWO, 0}};
    static const tsr_program_buffer buffers[BUFFERS] = {
        [X] = {TSR_SPACE_INPUT, 0, 0, TSR_DTYPE_F32, {2, {HIGH, 4}}, "x", 1 + Z_DIM},
        [S] = {TSR_SPACE_INPUT, 1, 0, TSR_DTYPE_F32, {1, {4}}, "s", 0},
        [Y] = {TSR_SPACE_OUTPUT, 0, 0, TSR_DTYPE_F32, {2, {HIGH, 4}}, "", 1 + Z_DIM},
        [T] = {TSR_SPACE_OUTPUT, 1, 0, TSR_DTYPE_F32, {1, {2 * HIGH}}, "", 1 + Z_TWICE},
        [W] = {TSR_SPACE_WORKSPACE, 0, 0, TSR_DTYPE_F32, {2, {HIGH, 4}}, "w", 1 + Z_DIM},
        [N] = {TSR_SPACE_SIZE, Z_DIM, 0, TSR_DTYPE_I64, {0, {0}}, "", 0},
        [BLOCKS] = {TSR_SPACE_SIZE, Z_BLOCKS, 0, TSR_DTYPE_I64, {0, {0}}, "", 0}};
    static const tsr_program_command commands[COMMANDS] = {
        [ROWS_OF_W] = {TSR_OP_LAUNCH, K_ROWS, 4, 64000, 5, 4, NULL, "m.mlir:1:1", 1 + Z_BLOCKS,
                       1 + Z_COST},
        [TWICE] = {TSR_OP_LAUNCH, K_TWICE, 4, 0, 3, 2, NULL, "", 1 + Z_MORE, 0},
        [COPY] = {TSR_OP_COPY, 0, 0, 0, 2, 0, NULL, "", 0, 0}};
    static const uint32_t arguments[COMMANDS][5] = {
        [ROWS_OF_W] = {X, S, N, BLOCKS, W}, [TWICE] = {W, N, T}, [COPY] = {Y, W}};
    *e = (example){.program = {KERNELS, 1, kernel_names, &e->entry},
                   .entry = {.name = "f",
                             .workspace_bytes = 1024,
                             .buffer_count = BUFFERS,
                             .command_count = COMMANDS,
                             .buffers = e->buffers,
                             .commands = e->commands,
                             .size_count = SIZES,
                             .sizes = e->sizes}};
    for (int i = 0; i < SIZES; i++) e->sizes[i] = sizes[i];
    for (int i = 0; i < BUFFERS; i++) e->buffers[i] = buffers[i];
    for (int i = 0; i < COMMANDS; i++) {
        e->commands[i] = commands[i];
        e->commands[i].arguments = e->arguments[i];
        for (int k = 0; k < 5; k++) e->arguments[i][k] = arguments[i][k];
    }
}

/* True if every size of this dim is within the limits of what it replaces. */
static inline bool sizes_fit(const tsr_program_entry *entry, uint64_t dim) {
    static uint64_t values[TSR_PROGRAM_SIZES_MAX];
    bool fits = true;
    tsr_program_sizes(entry->sizes, entry->size_count, dim, values);
    for (uint32_t i = 0; i < entry->size_count; i++) fits = fits && values[i] <= INT64_MAX;
    for (uint32_t i = 0; i < entry->buffer_count; i++) {
        const tsr_program_buffer *buffer = &entry->buffers[i];
        if (buffer->rows) fits = fits && values[buffer->rows - 1] <= buffer->shape.dims[0];
    }
    for (uint32_t i = 0; i < entry->command_count; i++) {
        const tsr_program_command *c = &entry->commands[i];
        uint64_t grid = c->grid_size ? values[c->grid_size - 1] : c->grid;
        uint64_t cost = c->cost_size ? values[c->cost_size - 1] : c->cost;
        bool launches = c->opcode == TSR_OP_LAUNCH;
        fits = fits && grid <= c->grid && cost <= c->cost && (!launches || grid >= 1);
    }
    return fits;
}

#endif
