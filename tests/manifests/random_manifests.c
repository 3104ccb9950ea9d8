/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/manifests/random_manifests.h"

#include "runtime/base/array.h"
#include "tests/base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct maker {
    uint64_t state;
    tsr_arena *arena;
} maker;

static uint32_t below(maker *m, uint32_t count) { return random_below(&m->state, count); }

/* Returns unique names, in byte order for rising `index`, with all kinds of characters. */
static const char *make_name(maker *m, uint32_t index) {
    static const char *const tails[] = {"",
                                        ".weight",
                                        "\"quoted\\\"",
                                        " with blanks",
                                        "\xc3\xa4\xe2\x82\xac",
                                        "\xf0\x9f\x98\x80",
                                        "/<&>"};
    return tsr_arena_printf(m->arena, "n%05u%s", index, tails[below(m, 7)]);
}

static tsr_dtype make_dtype(maker *m) { return (tsr_dtype)(1 + below(m, TSR_DTYPE_COUNT)); }

static tsr_shape make_shape(maker *m, uint64_t first) {
    tsr_shape shape = {.rank = below(m, 5)};
    if (first && shape.rank == 0) shape.rank = 1;
    for (uint32_t i = 0; i < shape.rank; i++) shape.dims[i] = 1 + below(m, 9);
    if (first) shape.dims[0] = first;
    return shape;
}

/* Returns a finite number of any magnitude; sometimes 0, a subnormal number or a simple
 * fraction. */
static double make_double(maker *m) {
    double value;
    uint64_t bits = random_u64(&m->state);
    if (below(m, 3) == 0) return (double)(int32_t)bits / 64;
    if (below(m, 10) == 0) bits &= ~(UINT64_C(0x7ff) << 52);
    memcpy(&value, &bits, sizeof value);
    return isfinite(value) ? value : -0.0;
}

static void make_init(maker *m, tsr_config_tensor *tensor) {
    bool real = tensor->dtype == TSR_DTYPE_F32 || tensor->dtype == TSR_DTYPE_F64;
    tensor->init = (tsr_init_kind)below(m, real ? 4 : 2);
    if (tensor->init == TSR_INIT_DATA) return;
    tensor->init_a = real ? make_double(m) : below(m, 2);
    if (tensor->dtype == TSR_DTYPE_F8E8M0FNU) tensor->init_a = 1; /* it has no zero */
    if (tensor->dtype == TSR_DTYPE_F32) tensor->init_a = remainder(tensor->init_a, 1e30);
    if (tensor->init == TSR_INIT_CONSTANT) return;
    tensor->init_a = remainder(tensor->init_a, 1e30);
    tensor->init_b = fabs(tensor->init_a) * 2 + 1;
    tensor->init_stream = tsr_name_stream(tensor->name);
}

static void make_tensors(maker *m, uint32_t count, tsr_config *config) {
    config->tensors = TSR_NEW(m->arena, tsr_config_tensor, count);
    config->tensor_count = count;
    const char *param = NULL;
    for (uint32_t i = 0; i < count; i++) {
        tsr_config_tensor *tensor = &config->tensors[i];
        tensor->name = make_name(m, i);
        tensor->role = (tsr_tensor_role)(1 + below(m, 3));
        if (tensor->role == TSR_ROLE_STATE && !param) tensor->role = TSR_ROLE_PARAM;
        if (tensor->role == TSR_ROLE_PARAM) param = tensor->name;
        if (tensor->role == TSR_ROLE_STATE) {
            tensor->of = param;
            tensor->kind = below(m, 2) ? "adam_m" : "adam_v";
        }
        tensor->dtype = make_dtype(m);
        tensor->shape = make_shape(m, 0);
        make_init(m, tensor);
    }
}

static tsr_config_port *make_ports(maker *m, uint32_t count, const tsr_config_entry *entry,
                                   bool input) {
    tsr_config_port *ports = TSR_NEW(m->arena, tsr_config_port, count);
    for (uint32_t i = 0; i < count; i++) {
        bool rows = entry->batch && (entry->rows_independent || below(m, 2));
        ports[i] = (tsr_config_port){.name = make_name(m, count - i), .dtype = make_dtype(m)};
        ports[i].source = input && rows ? (tsr_port_source)(1 + below(m, 4)) : TSR_PORT_ARGUMENT;
        if (tsr_port_is_filled(ports[i].source))
            ports[i].dtype = TSR_DTYPE_I64;
        else
            ports[i].shape = make_shape(m, rows ? entry->batch : 0);
        ports[i].watched = !input && entry->kind == TSR_ENTRY_TRAIN && i % 3 == 2;
    }
    return ports;
}

static void make_entries(maker *m, uint32_t count, uint32_t size, tsr_config *config) {
    config->entries = TSR_NEW(m->arena, tsr_config_entry, count);
    config->entry_count = count;
    for (uint32_t i = 0; i < count; i++) {
        tsr_config_entry *entry = &config->entries[i];
        entry->name = make_name(m, i);
        entry->kind = (tsr_entry_kind)(1 + below(m, 3));
        entry->batch = config->virtual_ranks * below(m, 4);
        entry->rows_independent = entry->batch && below(m, 2);
        entry->input_count = below(m, size + 1);
        entry->output_count = below(m, size + 1);
        entry->inputs = make_ports(m, (uint32_t)entry->input_count, entry, true);
        entry->outputs = make_ports(m, (uint32_t)entry->output_count, entry, false);
    }
}

/* Every second config has a program digest. */
static void make_program(maker *m, uint64_t seed, tsr_config *config) {
    static const char *const values[] = {"0.9", "1e-08", "-3.5e+300", "cosine", "100"};
    uint32_t count = below(m, 6);
    tsr_hyperparameter *list = TSR_NEW(m->arena, tsr_hyperparameter, count + 1);
    if (!(seed & 1)) return;
    for (uint32_t i = 0; i < count; i++)
        list[i] = (tsr_hyperparameter){make_name(m, i), values[below(m, 5)], false};
    config->operations = tsr_hash(&seed, sizeof seed);
    config->identity = (tsr_identity){.hyperparameter_count = count, .hyperparameters = list};
    config->identity.program = tsr_config_program_digest(config);
}

tsr_config random_config(uint64_t seed, uint32_t size, tsr_arena *arena) {
    maker m = {.state = seed, .arena = arena};
    tsr_config config = {.version_major = TSR_CONFIG_VERSION_MAJOR,
                         .version_minor = TSR_CONFIG_VERSION_MINOR,
                         .name = make_name(&m, 0),
                         .producer = "tessera test",
                         .numerics = "portable"};
    config.virtual_ranks = 1 + below(&m, 8);
    make_tensors(&m, size ? 1 + below(&m, size) : 0, &config);
    make_entries(&m, size ? 1 + below(&m, size < 4 ? size : 4) : 0, size, &config);
    make_program(&m, seed, &config);
    return config;
}

/* ---- programs ---- */

static bool has_vranks(const tsr_config *config, const tsr_config_entry *entry) {
    return config->virtual_ranks > 1 && entry->kind == TSR_ENTRY_TRAIN;
}

static void make_bound(const tsr_config *config, const tsr_config_entry *entry,
                       tsr_program_buffer *buffer) {
    const tsr_config_port *port =
        buffer->space == TSR_SPACE_INPUT ? &entry->inputs[buffer->index] : NULL;
    if (buffer->space == TSR_SPACE_OUTPUT) port = &entry->outputs[buffer->index];
    buffer->dtype = port ? port->dtype : config->tensors[buffer->index].dtype;
    buffer->shape = port ? port->shape : config->tensors[buffer->index].shape;
    if (buffer->space == TSR_SPACE_INPUT && tsr_program_splits(config, entry, port))
        buffer->shape.dims[0] /= config->virtual_ranks;
}

/* Makes the outputs first, then any buffers; so buffer i is output i for the first buffers. */
static void make_buffers(maker *m, uint32_t size, const tsr_config *config,
                         const tsr_config_entry *entry, tsr_program_entry *out) {
    out->buffer_count = (uint32_t)entry->output_count + 2 * size + 1;
    out->buffers = TSR_NEW(m->arena, tsr_program_buffer, out->buffer_count + 2);
    for (uint32_t i = 0; i < out->buffer_count; i++) {
        tsr_program_buffer *buffer = &out->buffers[i];
        buffer->name = below(m, 3) ? "" : make_name(m, i);
        buffer->space = i < entry->output_count ? TSR_SPACE_OUTPUT : (tsr_space)(1 + below(m, 4));
        if (buffer->space == TSR_SPACE_INPUT && entry->input_count &&
            has_vranks(config, entry)) /* read only by loops */
            buffer->space = TSR_SPACE_WORKSPACE;
        size_t count = buffer->space == TSR_SPACE_TENSOR   ? config->tensor_count
                       : buffer->space == TSR_SPACE_INPUT  ? entry->input_count
                       : buffer->space == TSR_SPACE_OUTPUT ? entry->output_count
                                                           : 0;
        if (i + 1 == out->buffer_count || !count) buffer->space = TSR_SPACE_WORKSPACE;
        if (buffer->space != TSR_SPACE_WORKSPACE) {
            buffer->index = i < entry->output_count ? i : below(m, (uint32_t)count);
            make_bound(config, entry, buffer);
            continue;
        }
        buffer->dtype = make_dtype(m);
        buffer->shape = make_shape(m, 0);
        buffer->offset_bytes = (uint64_t)TSR_PROGRAM_ALIGN_BYTES * below(m, 50);
        uint64_t end = buffer->offset_bytes + tsr_program_buffer_size(buffer);
        if (end > out->workspace_bytes) out->workspace_bytes = (end + 63) / 64 * 64;
    }
}

static bool writable(const tsr_config *config, const tsr_config_entry *entry,
                     const tsr_program_buffer *buffer) {
    if (buffer->space == TSR_SPACE_INPUT) return false;
    return buffer->space != TSR_SPACE_TENSOR ||
           (entry->kind == TSR_ENTRY_TRAIN &&
            config->tensors[buffer->index].role != TSR_ROLE_CONSTANT);
}

static void make_launch(maker *m, uint32_t kernel_count, const tsr_config *config,
                        const tsr_config_entry *entry, const tsr_program_entry *out, uint32_t last,
                        tsr_program_command *command) {
    *command = (tsr_program_command){.opcode = TSR_OP_LAUNCH,
                                     .kernel = below(m, kernel_count),
                                     .grid = 1 + below(m, 1000),
                                     .cost = below(m, 2) ? 0 : random_u64(&m->state),
                                     .argument_count = 1 + below(m, 6),
                                     .location = below(m, 2) ? "" : "model.mlir:12:8"};
    command->arguments = TSR_NEW(m->arena, uint32_t, command->argument_count);
    command->written_from = command->argument_count - 1;
    for (uint32_t i = 0; i < command->argument_count; i++)
        command->arguments[i] = below(m, out->buffer_count);
    command->arguments[command->written_from] = last;
    while (command->written_from &&
           writable(config, entry, &out->buffers[command->arguments[command->written_from - 1]]) &&
           below(m, 2))
        command->written_from--;
}

/* Makes one launch for each output, then launches into the workspace, then an optional copy. */
static void make_commands(maker *m, uint32_t size, uint32_t kernel_count, const tsr_config *config,
                          const tsr_config_entry *entry, tsr_program_entry *out) {
    out->command_count = (uint32_t)entry->output_count + size + 1;
    out->commands = TSR_NEW(m->arena, tsr_program_command, out->command_count + 3);
    for (uint32_t i = 0; i < out->command_count; i++)
        make_launch(m, kernel_count, config, entry, out,
                    i < entry->output_count ? i : out->buffer_count - 1, &out->commands[i]);
    for (uint32_t to = 0; to < out->buffer_count; to++)
        for (uint32_t from = 0; from < out->buffer_count; from++) {
            const tsr_program_buffer *a = &out->buffers[to], *b = &out->buffers[from];
            if (a->space == b->space || !writable(config, entry, a) || a->dtype != b->dtype ||
                !tsr_shape_equal(&a->shape, &b->shape))
                continue;
            uint32_t *arguments = TSR_NEW(m->arena, uint32_t, 2);
            arguments[0] = to;
            arguments[1] = from;
            out->commands[out->command_count - 1] = (tsr_program_command){
                .opcode = TSR_OP_COPY, .argument_count = 2, .arguments = arguments, .location = ""};
            return;
        }
}

/* Prepares the first tensor, in entries that do not change it. */
static void add_prepare(maker *m, const tsr_config *config, const tsr_config_entry *entry,
                        tsr_program_entry *out) {
    if (!config->tensor_count ||
        (entry->kind == TSR_ENTRY_TRAIN && config->tensors[0].role != TSR_ROLE_CONSTANT))
        return;
    uint32_t *arguments = TSR_NEW(m->arena, uint32_t, 2), at = out->buffer_count;
    for (uint32_t i = 0; i < 2; i++) {
        arguments[i] = at + i;
        out->buffers[at + i] =
            (tsr_program_buffer){.space = i ? TSR_SPACE_PREPACKED : TSR_SPACE_TENSOR,
                                 .dtype = config->tensors[0].dtype,
                                 .shape = config->tensors[0].shape,
                                 .name = ""};
    }
    out->buffer_count += 2;
    out->commands[out->command_count++] = (tsr_program_command){.opcode = TSR_OP_PREPARE,
                                                                .grid = 3,
                                                                .argument_count = 2,
                                                                .written_from = 1,
                                                                .arguments = arguments,
                                                                .location = ""};
}

/* Adds an empty region that checks one buffer, in entries that change no tensor. */
static void add_region(maker *m, const tsr_config_entry *entry, tsr_program_entry *out) {
    if (entry->kind == TSR_ENTRY_TRAIN) return;
    uint32_t *arguments = TSR_NEW(m->arena, uint32_t, 1);
    out->regions = TSR_NEW(m->arena, tsr_program_region, 1);
    out->regions[0] = (tsr_program_region){
        .name = "stage", .mode = below(m, 2) ? TSR_REGION_REPLAY : TSR_REGION_RESTART};
    out->region_count = 1;
    out->commands[out->command_count++] =
        (tsr_program_command){.opcode = TSR_OP_ENTER, .arguments = arguments, .location = ""};
    out->commands[out->command_count++] = (tsr_program_command){.opcode = TSR_OP_LEAVE,
                                                                .argument_count = 1,
                                                                .written_from = 1,
                                                                .arguments = arguments,
                                                                .location = "m.mlir:1:1"};
}

/* Appends a loop: a launch with the leaf's number writes to its own buffer, which is summed and
 * gathered. */
static void append_loop(maker *m, uint32_t kernel_count, const tsr_config *config,
                        tsr_program_entry *out) {
    static const tsr_space spaces[] = {TSR_SPACE_VRANK_NUMBER, TSR_SPACE_VRANK, TSR_SPACE_SUMS,
                                       TSR_SPACE_WORKSPACE};
    static const tsr_opcode opcodes[] = {TSR_OP_EACH_VRANK, TSR_OP_LAUNCH, TSR_OP_VRANK_SUM,
                                         TSR_OP_VRANK_GATHER};
    uint32_t first = out->buffer_count, rows = 1 + below(m, 9);
    tsr_program_buffer *buffers = TSR_NEW(m->arena, tsr_program_buffer, first + 4u);
    tsr_program_command *commands = TSR_NEW(m->arena, tsr_program_command, out->command_count + 4u);
    memcpy(buffers, out->buffers, first * sizeof *buffers);
    memcpy(commands, out->commands, out->command_count * sizeof *commands);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t *arguments = TSR_NEW(m->arena, uint32_t, 2);
        buffers[first + i] =
            (tsr_program_buffer){.space = spaces[i], .dtype = TSR_DTYPE_F64, .name = ""};
        buffers[first + i].shape = (tsr_shape){.rank = 2, .dims = {rows, 3}};
        arguments[0] = first + (i == 3 ? 3 : i == 2 ? 2 : 0);
        arguments[1] = first + 1;
        commands[out->command_count + i] =
            (tsr_program_command){.opcode = opcodes[i],
                                  .grid = i == 0  ? 3
                                          : i < 3 ? 1 + below(m, 9)
                                                  : 0,
                                  .kernel = i == 1 || i == 2 ? below(m, kernel_count) : 0,
                                  .argument_count = i ? 2 : 0,
                                  .written_from = i == 1,
                                  .arguments = arguments,
                                  .location = ""};
    }
    buffers[first].dtype = TSR_DTYPE_I64;
    buffers[first].shape.rank = 0;
    buffers[first + 3].shape.dims[0] *= config->virtual_ranks;
    buffers[first + 3].offset_bytes = out->workspace_bytes;
    out->workspace_bytes += (tsr_program_buffer_size(&buffers[first + 3]) + 63) / 64 * 64;
    out->buffers = buffers;
    out->commands = commands;
    out->buffer_count += 4;
    out->command_count += 4;
}

/* Appends collectives after that loop: an all_reduce of its sum, and another gather of its
 * buffers. */
static void append_collectives(maker *m, tsr_program_entry *out) {
    static const tsr_collective_kind kinds[] = {TSR_COLLECTIVE_ALL_REDUCE,
                                                TSR_COLLECTIVE_ALL_GATHER};
    uint32_t first = out->buffer_count - 4, part = first + 1, sum = first + 2, all = first + 3;
    tsr_program_buffer *buffers = TSR_NEW(m->arena, tsr_program_buffer, out->buffer_count + 1u);
    tsr_program_command *commands = TSR_NEW(m->arena, tsr_program_command, out->command_count + 2u);
    memcpy(buffers, out->buffers, out->buffer_count * sizeof *buffers);
    memcpy(commands, out->commands, out->command_count * sizeof *commands);
    buffers[out->buffer_count] = buffers[all];
    buffers[out->buffer_count].shape = buffers[sum].shape;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t *arguments = TSR_NEW(m->arena, uint32_t, 2);
        arguments[0] = i ? all : out->buffer_count;
        arguments[1] = i ? part : sum;
        commands[out->command_count + i] = (tsr_program_command){.opcode = TSR_OP_COLLECTIVE,
                                                                 .kernel = kinds[i],
                                                                 .argument_count = 2,
                                                                 .arguments = arguments,
                                                                 .location = ""};
    }
    out->buffers = buffers;
    out->commands = commands;
    out->buffer_count += 1;
    out->command_count += 2;
}

/* Appends at the end: each leaf writes its part of a tensor, which is then gathered. */
static void append_parts(maker *m, const tsr_config *config, tsr_program_entry *out) {
    uint32_t tensor = below(m, (uint32_t)config->tensor_count), first = out->buffer_count;
    const tsr_config_tensor *of = &config->tensors[tensor];
    uint64_t count = 0;
    if (of->role == TSR_ROLE_CONSTANT || !tsr_shape_count(&of->shape, &count)) return;
    tsr_program_buffer *buffers = TSR_NEW(m->arena, tsr_program_buffer, first + 2u);
    tsr_program_command *commands = TSR_NEW(m->arena, tsr_program_command, out->command_count + 3u);
    uint32_t *arguments = TSR_NEW(m->arena, uint32_t, 3);
    memcpy(buffers, out->buffers, first * sizeof *buffers);
    memcpy(commands, out->commands, out->command_count * sizeof *commands);
    buffers[first] =
        (tsr_program_buffer){.space = TSR_SPACE_PART,
                             .index = tensor,
                             .dtype = of->dtype,
                             .shape = {1, {tsr_collective_part(count, config->virtual_ranks)}},
                             .name = ""};
    buffers[first + 1] = (tsr_program_buffer){.space = TSR_SPACE_TENSOR,
                                              .index = tensor,
                                              .dtype = of->dtype,
                                              .shape = of->shape,
                                              .name = ""};
    arguments[0] = arguments[2] = first;
    arguments[1] = first + 1;
    const tsr_program_command made[] = {{.opcode = TSR_OP_EACH_VRANK, .grid = 1, .location = ""},
                                        {.opcode = TSR_OP_LAUNCH,
                                         .grid = 1,
                                         .argument_count = 1,
                                         .arguments = arguments,
                                         .location = ""},
                                        {.opcode = TSR_OP_COLLECTIVE,
                                         .kernel = TSR_COLLECTIVE_ALL_GATHER,
                                         .argument_count = 2,
                                         .arguments = arguments + 1,
                                         .location = ""}};
    memcpy(commands + out->command_count, made, sizeof made);
    out->buffers = buffers;
    out->commands = commands;
    out->buffer_count += 2;
    out->command_count += 3;
}

/* A command whose arguments are relative to the first buffer that is added with it. */
typedef struct step {
    tsr_opcode opcode;
    uint32_t of, grid, count, written_from, arguments[2];
} step;

static void append_steps(maker *m, const step *steps, uint32_t count, tsr_program_buffer *buffers,
                         uint32_t buffer_count, tsr_program_entry *out) {
    tsr_program_command *commands =
        TSR_NEW(m->arena, tsr_program_command, out->command_count + (size_t)count);
    memcpy(commands, out->commands, out->command_count * sizeof *commands);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *arguments = TSR_NEW(m->arena, uint32_t, 2);
        for (uint32_t k = 0; k < steps[i].count; k++)
            arguments[k] = out->buffer_count + steps[i].arguments[k];
        commands[out->command_count + i] =
            (tsr_program_command){.opcode = steps[i].opcode,
                                  .kernel = steps[i].of,
                                  .grid = steps[i].grid,
                                  .argument_count = steps[i].count,
                                  .written_from = steps[i].written_from,
                                  .arguments = arguments,
                                  .location = ""};
    }
    out->buffers = buffers;
    out->commands = commands;
    out->buffer_count += buffer_count;
    out->command_count += count;
}

/* Appends a loop that takes slices of a sequence and puts them into another one, with a branch and
 * a stop between, in entries without regions and leaves. */
static void append_control(maker *m, uint32_t kernel_count, tsr_program_entry *out) {
    enum { FROM, TO, SLICE, HOLDS, COUNT };
    const uint64_t times = 1 + below(m, 4);
    uint32_t first = out->buffer_count, kernel = below(m, kernel_count);
    tsr_program_buffer *buffers = TSR_NEW(m->arena, tsr_program_buffer, first + (size_t)COUNT);
    memcpy(buffers, out->buffers, first * sizeof *buffers);
    for (uint32_t i = 0; i < COUNT; i++) {
        buffers[first + i] =
            (tsr_program_buffer){.space = TSR_SPACE_WORKSPACE,
                                 .dtype = i == HOLDS ? TSR_DTYPE_I1 : TSR_DTYPE_F64,
                                 .name = "",
                                 .offset_bytes = out->workspace_bytes};
        if (i <= TO) buffers[first + i].shape = (tsr_shape){.rank = 2, .dims = {times, 3}};
        if (i == SLICE) buffers[first + i].shape = (tsr_shape){.rank = 1, .dims = {3}};
        out->workspace_bytes += (tsr_program_buffer_size(&buffers[first + i]) + 63) / 64 * 64;
    }
    const step steps[] = {{TSR_OP_REPEAT, 5, (uint32_t)times, 0, 0, {0}},
                          {TSR_OP_TAKE, below(m, 2), 0, 2, 0, {SLICE, FROM}},
                          {below(m, 2) ? TSR_OP_WHEN : TSR_OP_UNLESS, 1, 0, 1, 1, {HOLDS}},
                          {TSR_OP_LAUNCH, kernel, 1 + below(m, 9), 2, 1, {SLICE, HOLDS}},
                          {TSR_OP_STOP, 0, 0, 1, 1, {HOLDS}},
                          {TSR_OP_PUT, below(m, 2), 0, 2, 0, {TO, SLICE}}};
    append_steps(m, steps, TSR_COUNT(steps), buffers, COUNT, out);
}

/* Appends an offload of a value to host memory and a prefetch to another buffer, with a launch
 * concurrent with the offload, in entries without loops, branches and leaves. */
static void append_offload(maker *m, uint32_t kernel_count, tsr_program_entry *out) {
    enum { VALUE, OTHER, BACK, OFFLOADED_COPY, COUNT };
    uint32_t first = out->buffer_count, begin = out->command_count, rows = 1 + below(m, 9);
    tsr_program_buffer *buffers = TSR_NEW(m->arena, tsr_program_buffer, first + (size_t)COUNT);
    memcpy(buffers, out->buffers, first * sizeof *buffers);
    for (uint32_t i = 0; i < COUNT; i++) {
        bool is_copy = i == OFFLOADED_COPY;
        buffers[first + i] =
            (tsr_program_buffer){.space = is_copy ? TSR_SPACE_HOST : TSR_SPACE_WORKSPACE,
                                 .offset_bytes = is_copy ? 64 * below(m, 3) : out->workspace_bytes,
                                 .dtype = TSR_DTYPE_F32,
                                 .shape = {2, {rows, 7}},
                                 .name = ""};
        if (!is_copy)
            out->workspace_bytes += (tsr_program_buffer_size(&buffers[first + i]) + 63) / 64 * 64;
    }
    const step steps[] = {{TSR_OP_OFFLOAD, 0, 0, 2, 0, {OFFLOADED_COPY, VALUE}},
                          {TSR_OP_LAUNCH, below(m, kernel_count), 3, 2, 1, {VALUE, OTHER}},
                          {TSR_OP_AWAIT, begin, 0, 0, 0, {0}},
                          {TSR_OP_PREFETCH, 0, 0, 2, 0, {BACK, OFFLOADED_COPY}},
                          {TSR_OP_AWAIT, begin + 3, 0, 0, 0, {0}}};
    append_steps(m, steps, TSR_COUNT(steps), buffers, COUNT, out);
}

tsr_program random_program(uint64_t seed, uint32_t size, const tsr_config *config,
                           tsr_arena *arena) {
    maker m = {.state = seed, .arena = arena};
    tsr_program program = {.kernel_count = 1 + below(&m, size + 1),
                           .entry_count = (uint32_t)config->entry_count};
    program.kernels = TSR_NEW(arena, const char *, program.kernel_count);
    for (uint32_t i = 0; i < program.kernel_count; i++)
        program.kernels[i] = tsr_arena_printf(arena, "_K%u_fused", i);
    program.entries = TSR_NEW(arena, tsr_program_entry, program.entry_count);
    for (uint32_t i = 0; i < program.entry_count; i++) {
        program.entries[i].name = config->entries[i].name;
        make_buffers(&m, size, config, &config->entries[i], &program.entries[i]);
        make_commands(&m, size, program.kernel_count, config, &config->entries[i],
                      &program.entries[i]);
        if (seed % 2) add_prepare(&m, config, &config->entries[i], &program.entries[i]);
        if (seed % 3 == 0) add_region(&m, &config->entries[i], &program.entries[i]);
        if (seed % 4 == 1 && !program.entries[i].region_count &&
            !has_vranks(config, &config->entries[i]))
            append_control(&m, program.kernel_count, &program.entries[i]);
        if (seed % 4 == 2 && !has_vranks(config, &config->entries[i]))
            append_offload(&m, program.kernel_count, &program.entries[i]);
        if (!has_vranks(config, &config->entries[i]) || !below(&m, 2)) continue;
        append_loop(&m, program.kernel_count, config, &program.entries[i]);
        if (below(&m, 2)) append_collectives(&m, &program.entries[i]);
        if (below(&m, 2) && config->tensor_count && !program.entries[i].region_count)
            append_parts(&m, config, &program.entries[i]);
    }
    return program;
}

/* ---- deployments ---- */

static tsr_deployment_shard make_shard(maker *m, const tsr_config_tensor *tensor,
                                       const tsr_deployment_axis *axis) {
    uint64_t count = 1, end = 0;
    for (uint32_t i = 0; i < tensor->shape.rank; i++) count *= tensor->shape.dims[i];
    tsr_deployment_shard shard = {
        .tensor = tensor->name, .axis = axis->name, .position_count = (size_t)axis->size};
    shard.begin = TSR_NEW(m->arena, uint64_t, shard.position_count);
    shard.end = TSR_NEW(m->arena, uint64_t, shard.position_count);
    for (size_t i = 0; i < shard.position_count; i++) {
        shard.begin[i] = end;
        uint64_t left = count - end;
        end += i + 1 == shard.position_count ? left : random_u64(&m->state) % (left + 1);
        shard.end[i] = end;
    }
    return shard;
}

static tsr_deployment_pipeline make_pipeline(maker *m) {
    uint32_t ranks = 1 + below(m, 4), chunks = 1 + below(m, 2);
    tsr_deployment_pipeline p = {.schedule = chunks > 1 ? "interleaved" : "1f1b",
                                 .axis = below(m, 2) ? make_name(m, 0) : NULL,
                                 .ranks = ranks,
                                 .microbatches = 1 + below(m, 9) * (uint64_t)ranks,
                                 .chunks = chunks};
    if (below(m, 2)) {
        p.function = make_name(m, 1);
        return p;
    }
    p.stage_count = ranks * chunks;
    p.stages = TSR_NEW(m->arena, const char *, p.stage_count);
    for (uint32_t i = 0; i < p.stage_count; i++) p.stages[i] = make_name(m, i);
    return p;
}

tsr_deployment random_deployment(uint64_t seed, const tsr_config *config, tsr_arena *arena) {
    static const char *const kinds[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};
    maker m = {.state = seed, .arena = arena};
    tsr_deployment d = {.axis_count = 1 + below(&m, 3)};
    d.axes = TSR_NEW(arena, tsr_deployment_axis, d.axis_count);
    d.shards = TSR_NEW(arena, tsr_deployment_shard, config->tensor_count + 1);
    d.collectives = TSR_NEW(arena, tsr_deployment_collective, config->tensor_count + 1);
    d.recomputes = TSR_NEW(arena, tsr_deployment_recompute, config->entry_count + 1);
    for (uint32_t i = 0; i < d.axis_count; i++)
        d.axes[i] = (tsr_deployment_axis){make_name(&m, i), 1 + below(&m, 5),
                                          config->virtual_ranks > 1 && below(&m, 2)};
    for (size_t i = 0; i < config->tensor_count; i++) {
        const tsr_deployment_axis *axis = &d.axes[below(&m, (uint32_t)d.axis_count)];
        if (below(&m, 2)) d.shards[d.shard_count++] = make_shard(&m, &config->tensors[i], axis);
        if (below(&m, 2) || !config->entry_count) continue;
        d.collectives[d.collective_count++] = (tsr_deployment_collective){
            config->entries[below(&m, (uint32_t)config->entry_count)].name,
            kinds[below(&m, 4)],
            axis->name,
            below(&m, 4) ? config->tensors[i].name : NULL,
            axis->size,
            random_u64(&m.state) >> 12};
    }
    for (size_t i = 0; i < config->entry_count; i++)
        if (below(&m, 2))
            d.recomputes[d.recompute_count++] = (tsr_deployment_recompute){
                config->entries[i].name, below(&m, 1000), below(&m, 1000), below(&m, 9), 7};
    d.pipelines = TSR_NEW(arena, tsr_deployment_pipeline, 2);
    for (uint32_t count = below(&m, 3); d.pipeline_count < count; d.pipeline_count++)
        d.pipelines[d.pipeline_count] = make_pipeline(&m);
    return d;
}
