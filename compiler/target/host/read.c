/* SPDX-License-Identifier: Apache-2.0
 *
 * Target IR -> host program: buffers and commands in the order of the module.
 */
#include "compiler/ir/attributes.h"
#include "compiler/ir/value_map.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/host/host.h"
#include "compiler/target/host/rules.h"

#include <inttypes.h>
#include <string.h>

typedef struct reader {
    tsr_ctx *ctx;
    tsr_arena *arena;
    const tsr_config *config;
    MlirModule module;
    MlirOperation func;
    tsr_program *program; /* kernels */
    tsr_program_entry *entry;
    tsr_value_map numbers;
    uint64_t high; /* the largest size of its open dim; 0: the entry has none */
} reader;

/* "digits.mlir:12:8", the innermost position of an inlined op, or "". In the arena; NULL when out
 * of memory. */
static const char *location_text(MlirLocation location, tsr_arena *arena) {
    for (int depth = 0; depth < 64; depth++) {
        if (mlirLocationIsAFileLineColRange(location)) {
            MlirStringRef file =
                mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(location));
            return tsr_arena_printf(arena, "%.*s:%d:%d", (int)file.length, file.data,
                                    mlirLocationFileLineColRangeGetStartLine(location),
                                    mlirLocationFileLineColRangeGetStartColumn(location));
        }
        if (mlirLocationIsACallSite(location))
            location = mlirLocationCallSiteGetCallee(location);
        else if (mlirLocationIsAName(location))
            location = mlirLocationNameGetChildLoc(location);
        else if (mlirLocationIsAFused(location) && mlirLocationFusedGetNumLocations(location) > 0) {
            /* The C API returns all locations at once; the op began at the first one. */
            unsigned count = mlirLocationFusedGetNumLocations(location);
            MlirLocation *all = TSR_NEW(arena, MlirLocation, count);
            if (!all) return NULL;
            mlirLocationFusedGetLocations(location, all);
            location = all[0];
        } else
            break;
    }
    return "";
}

/* ---- sizes ---- */

/* The number of this size; a new one is added. */
static TSR_RESULT find_size(reader *r, tsr_size_kind kind, uint32_t a, uint32_t b, uint64_t number,
                            uint32_t *out_index) {
    tsr_program_entry *entry = r->entry;
    const tsr_program_size wanted = {.kind = kind, .a = a, .b = b, .number = number};
    for (uint32_t i = 0; i < entry->size_count; i++) {
        const tsr_program_size *is = &entry->sizes[i];
        *out_index = i;
        if (is->kind == kind && is->a == a && is->b == b && is->number == number)
            return TSR_SUCCESS;
    }
    if (entry->size_count == TSR_PROGRAM_SIZES_MAX)
        FAIL(r->ctx, TSR_COMPILE, "@%s: more than %d sizes follow from its open dim", entry->name,
             TSR_PROGRAM_SIZES_MAX);
    *out_index = entry->size_count;
    entry->sizes[entry->size_count++] = wanted;
    return TSR_SUCCESS;
}

/* Replaces size *index by itself times, or divided by, a number. */
static TSR_RESULT combine(reader *r, tsr_size_kind kind, uint64_t number, uint32_t *index) {
    uint32_t constant = 0, from = *index;
    if (number == 1) return TSR_SUCCESS;
    TRY(r->ctx, find_size(r, TSR_SIZE_CONSTANT, 0, 0, number, &constant));
    return find_size(r, kind, from, constant, 0, index);
}

/* Size 0 is the dim. */
static TSR_RESULT begin_sizes(reader *r) {
    uint32_t dim = 0;
    const tsr_config_entry *declared = &r->config->entries[r->entry - r->program->entries];
    if (!declared->open.name) return TSR_SUCCESS;
    r->high = declared->open.high;
    r->entry->sizes = TSR_NEW(r->arena, tsr_program_size, TSR_PROGRAM_SIZES_MAX);
    if (!r->entry->sizes)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    return find_size(r, TSR_SIZE_DIM, 0, 0, 0, &dim);
}

/* Grid and cost of a launch whose kernel computes the rows that a call has. */
static TSR_RESULT size_launch(reader *r, MlirOperation kernel, tsr_program_command *command) {
    int64_t grid[3];
    size_t count = 0;
    uint32_t programs = 0, cost = 0;
    uint64_t all = 0;
    if (!tsr_op_has(kernel, TSR_OPEN_GRID_NAME)) return TSR_SUCCESS;
    if (!r->high || !tsr_op_i64s(kernel, TSR_OPEN_GRID_NAME, 3, grid, &count) || count != 3 ||
        grid[0] < 1 || grid[1] < 1 || grid[2] < 1)
        FAIL(r->ctx, TSR_COMPILE, "@%s: %s of '%s' must be three numbers from 1 on", r->entry->name,
             TSR_OPEN_GRID_NAME, tsr_op_symbol(kernel));
    if (command->grid > 1) {
        TRY(r->ctx, combine(r, TSR_SIZE_MULTIPLY, (uint64_t)grid[0], &programs));
        TRY(r->ctx, combine(r, TSR_SIZE_DIVIDE_UP, (uint64_t)grid[1], &programs));
        TRY(r->ctx, combine(r, TSR_SIZE_MULTIPLY, (uint64_t)grid[2], &programs));
        command->grid_size = programs + 1;
    }
    if (!command->cost || __builtin_mul_overflow(command->cost, r->high, &all) || all > INT64_MAX)
        return TSR_SUCCESS;
    TRY(r->ctx, combine(r, TSR_SIZE_MULTIPLY, command->cost, &cost));
    TRY(r->ctx, combine(r, TSR_SIZE_DIVIDE_UP, r->high, &cost));
    command->cost_size = cost + 1;
    return TSR_SUCCESS;
}

/* ---- buffers ---- */

/* What ops.def says of each op: the space of a buffer, the opcode of a command. */
static const struct {
    tsr_space space;
    tsr_opcode opcode;
} rows[TSR_OP_COUNT] = {
#define X(ID, mnemonic, Class, rule, reader, space, opcode) [TSR_TARGET_##ID] = {space, opcode},
#include "compiler/target/host/ops.def"
#undef X
};

static TSR_RESULT read_space(reader *r, MlirOperation op, tsr_program_buffer *out) {
    const char *name = tsr_op_string(op, "name");
    const tsr_config_tensor *tensor = NULL;
    int64_t number = 0;
    out->name = "";
    out->space = rows[tsr_op_of(op)].space;
    switch (out->space) {
    case TSR_SPACE_TENSOR:
    case TSR_SPACE_PART:
        tensor = name ? tsr_config_find_tensor(r->config, name) : NULL;
        if (!tensor)
            FAIL(r->ctx, TSR_COMPILE, "@%s uses tensor '%s', which is not in the config",
                 r->entry->name, name ? name : "");
        out->index = (uint32_t)(tensor - r->config->tensors);
        break;
    case TSR_SPACE_INPUT:
    case TSR_SPACE_OUTPUT:
    case TSR_SPACE_PREPACKED:
    case TSR_SPACE_SIZE:
        tsr_op_i64(op, "index", &number);
        out->index = (uint32_t)number; /* its verifier keeps it small */
        break;
    case TSR_SPACE_VRANK_NUMBER:
        break;
    default:
        tsr_op_i64(op, "offset", &number);
        out->offset_bytes = (uint64_t)number;
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_buffer(reader *r, MlirOperation op) {
    tsr_type type = {0};
    tsr_program_buffer *buffer = &r->entry->buffers[r->entry->buffer_count];
    *buffer = (tsr_program_buffer){0};
    TRY(r->ctx, read_space(r, op, buffer));
    if (!tsr_value_type(tsr_op_result(op, 0), &type))
        FAIL(r->ctx, TSR_COMPILE, "@%s: %s has an element type that no tensor has", r->entry->name,
             tsr_op_name(op));
    int64_t pitch = 0;
    tsr_buffer_pitch(mlirValueGetType(tsr_op_result(op, 0)), &pitch);
    buffer->dtype = type.dtype;
    buffer->shape = tsr_shape_with_pitch(&type.shape, pitch); /* only kernels know of its rows */
    int64_t times = 0;
    uint32_t size = 0;
    if (r->high && tsr_op_i64(op, TSR_OPEN_ROWS_NAME, &times) && times > 0) {
        TRY(r->ctx, combine(r, TSR_SIZE_MULTIPLY, (uint64_t)times, &size));
        buffer->rows = size + 1;
    }
    if (!tsr_value_map_set(&r->numbers, r->arena, tsr_op_result(op, 0), r->entry->buffer_count++))
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    return TSR_SUCCESS;
}

/* ---- commands ---- */

/* Appends the command of an op, with its operands as arguments. */
static TSR_RESULT add_command(reader *r, MlirOperation op, tsr_program_command **out_command) {
    tsr_program_command *command = &r->entry->commands[r->entry->command_count++];
    size_t count = tsr_op_operand_count(op);
    *command = (tsr_program_command){.opcode = rows[tsr_op_of(op)].opcode,
                                     .argument_count = (uint32_t)count,
                                     .arguments = TSR_NEW(r->arena, uint32_t, count + 1),
                                     .location = ""};
    if (!command->arguments)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    for (size_t i = 0; i < count; i++)
        command->arguments[i] = tsr_value_map_get(&r->numbers, tsr_op_operand(op, i));
    *out_command = command;
    return TSR_SUCCESS;
}

static TSR_RESULT read_copy(reader *r, MlirOperation op) {
    tsr_program_command *command;
    return add_command(r, op, &command);
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static TSR_RESULT read_verify(reader *r, MlirOperation op) {
    tsr_program_command *command;
    double low = 0, high = 0;
    TRY(r->ctx, add_command(r, op, &command));
    tsr_op_f64(op, "low", &low);
    tsr_op_f64(op, "high", &high);
    command->grid = bits_of(low);
    command->cost = bits_of(high);
    command->written_from = command->argument_count;
    command->location = location_text(mlirOperationGetLocation(op), r->arena);
    if (!command->location)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    return TSR_SUCCESS;
}

static TSR_RESULT read_each_vrank(reader *r, MlirOperation op) {
    tsr_program_command *command;
    int64_t commands = 0;
    TRY(r->ctx, add_command(r, op, &command));
    tsr_op_i64(op, "commands", &commands);
    command->grid = (uint64_t)commands;
    return TSR_SUCCESS;
}

static uint64_t launch_cost(MlirOperation kernel) {
    int64_t flops = 0, bytes = 0;
    tsr_op_i64(kernel, "flops", &flops);
    tsr_op_i64(kernel, "bytes", &bytes);
    int64_t cost = flops > bytes ? flops : bytes;
    return cost > 0 ? (uint64_t)cost : 0;
}

static TSR_RESULT read_launch(reader *r, MlirOperation op) {
    tsr_program_command *command;
    const char *name = tsr_op_string(op, "kernel");
    MlirOperation kernel = tsr_module_find(r->module, name ? name : "");
    int64_t grid = 0;
    uint32_t index = 0;
    TRY(r->ctx, add_command(r, op, &command));
    while (index < r->program->kernel_count && strcmp(r->program->kernels[index], name) != 0)
        index++;
    bool has_grid = tsr_op_i64(kernel, "grid", &grid);
    TSR_ASSERT(index < r->program->kernel_count && has_grid);
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(kernel, "function_type"));
    command->kernel = index;
    command->grid = (uint64_t)grid;
    command->cost = launch_cost(kernel);
    if (command->opcode == TSR_OP_LAUNCH)
        command->written_from = (uint32_t)mlirFunctionTypeGetNumInputs(type);
    if (tsr_op_has(kernel, "prepacks")) command->opcode = TSR_OP_PREPARE;
    TRY(r->ctx, size_launch(r, kernel, command));
    command->location = location_text(mlirOperationGetLocation(op), r->arena);
    if (!command->location)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    return TSR_SUCCESS;
}

/* The region of that name; a new one is added. */
static uint32_t find_region(reader *r, const char *name) {
    tsr_program_entry *entry = r->entry;
    for (uint32_t i = 0; i < entry->region_count; i++)
        if (strcmp(entry->regions[i].name, name) == 0) return i;
    entry->regions[entry->region_count] = (tsr_program_region){.name = name};
    return entry->region_count++;
}

/* 1 + the entry that an attribute names; 0 where it is absent. */
static TSR_RESULT find_handler(reader *r, MlirOperation op, const char *attr,
                               uint32_t *out_handler) {
    const char *name = tsr_op_string(op, attr);
    *out_handler = 0;
    if (!tsr_op_has(op, attr)) return TSR_SUCCESS;
    const tsr_config_entry *entry = name ? tsr_config_find_entry(r->config, name) : NULL;
    if (!entry)
        FAIL(r->ctx, TSR_COMPILE, "@%s: %s names '%s', which is not an entry", r->entry->name, attr,
             name ? name : "");
    *out_handler = 1 + (uint32_t)(entry - r->config->entries);
    return TSR_SUCCESS;
}

static TSR_RESULT note_token(reader *r, MlirValue token, uint32_t command) {
    if (!tsr_value_map_set(&r->numbers, r->arena, token, command))
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    return TSR_SUCCESS;
}

/* Appends the command of a region, export or import; its result is the token. */
static TSR_RESULT add_ordered(reader *r, MlirOperation op, tsr_program_command **out_command) {
    uint32_t index = r->entry->command_count++;
    tsr_program_command *command = &r->entry->commands[index];
    *command = (tsr_program_command){
        .opcode = rows[tsr_op_of(op)].opcode,
        .kernel = find_region(r, tsr_op_string(op, "name")),
        .arguments = TSR_NEW(r->arena, uint32_t, tsr_op_operand_count(op) + 1),
        .location = location_text(mlirOperationGetLocation(op), r->arena)};
    if (!command->arguments || !command->location)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    *out_command = command;
    return note_token(r, tsr_op_result(op, 0), index);
}

static TSR_RESULT read_enter(reader *r, MlirOperation op) {
    tsr_program_command *command;
    TRY(r->ctx, add_ordered(r, op, &command));
    tsr_program_region *region = &r->entry->regions[command->kernel];
    bool replay = strcmp(tsr_op_string(op, "mode"), "replay") == 0;
    region->mode = replay ? TSR_REGION_REPLAY : TSR_REGION_RESTART;
    return find_handler(r, op, "on_failure", &region->on_failure);
}

static TSR_RESULT read_leave(reader *r, MlirOperation op) {
    tsr_program_command *command;
    TRY(r->ctx, add_ordered(r, op, &command));
    command->argument_count = (uint32_t)tsr_op_operand_count(op) - 1;
    command->written_from = command->argument_count;
    for (uint32_t i = 0; i < command->argument_count; i++)
        command->arguments[i] = tsr_value_map_get(&r->numbers, tsr_op_operand(op, i + 1));
    return TSR_SUCCESS;
}

/* An export or import. Its buffers: the ones read, then the ones written. */
static TSR_RESULT read_transfer(reader *r, MlirOperation op) {
    tsr_program_command *command;
    TRY(r->ctx, add_ordered(r, op, &command));
    MlirAttribute segments = tsr_op_attr(op, "operandSegmentSizes");
    uint32_t half = (uint32_t)mlirDenseI32ArrayGetElement(segments, 0);
    command->argument_count = 2 * half;
    command->written_from = half;
    for (uint32_t i = 0; i < half; i++) {
        command->arguments[i] = tsr_value_map_get(&r->numbers, tsr_op_operand(op, half + i));
        command->arguments[half + i] = tsr_value_map_get(&r->numbers, tsr_op_operand(op, i));
    }
    return TSR_SUCCESS;
}

/* To the host's memory, or back. */
static TSR_RESULT read_offload(reader *r, MlirOperation op) {
    uint32_t index = r->entry->command_count;
    tsr_program_command *command;
    const char *location = location_text(mlirOperationGetLocation(op), r->arena);
    if (!location) FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    TRY(r->ctx, add_command(r, op, &command));
    command->argument_count = 2;
    command->location = location;
    return note_token(r, tsr_op_result(op, 0), index);
}

static bool is_transfer(MlirOperation op) {
    switch (tsr_op_of(op)) {
    case TSR_TARGET_EXPORT:
    case TSR_TARGET_IMPORT:
    case TSR_TARGET_OFFLOAD:
    case TSR_TARGET_PREFETCH:
        return true;
    default:
        return false;
    }
}

/* An op that is done as soon as the command before it is done needs no await command: the list is
 * in order. */
static TSR_RESULT read_await(reader *r, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirOperation begun = tsr_value_owner(tsr_op_operand(op, i));
        if (!is_transfer(begun)) continue;
        r->entry->commands[r->entry->command_count++] =
            (tsr_program_command){.opcode = TSR_OP_AWAIT,
                                  .kernel = tsr_value_map_get(&r->numbers, tsr_op_operand(op, i)),
                                  .arguments = TSR_NEW(r->arena, uint32_t, 1),
                                  .location = ""};
    }
    return TSR_SUCCESS;
}

/* With one position the collective is a copy. Otherwise the positions are the virtual ranks. */
static TSR_RESULT read_collective(reader *r, MlirOperation op) {
    tsr_program_command *command;
    const char *kind = tsr_op_string(op, "kind");
    int64_t ranks = 0;
    TRY(r->ctx, add_command(r, op, &command));
    tsr_op_i64(op, "ranks", &ranks);
    command->location = location_text(mlirOperationGetLocation(op), r->arena);
    if (!command->location)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    if (ranks == 1) {
        command->opcode = TSR_OP_COPY;
        return TSR_SUCCESS;
    }
    if ((uint64_t)ranks != r->config->virtual_ranks)
        FAIL(r->ctx, TSR_COMPILE,
             "@%s: \"%s\" is among %" PRId64 " ranks; the program has %" PRIu64 " virtual ranks",
             r->entry->name, kind, ranks, r->config->virtual_ranks);
    command->kernel = tsr_collective_find(kind)->kind;
    return TSR_SUCCESS;
}

static TSR_RESULT read_control(reader *r, MlirOperation op) {
    tsr_program_command *command;
    const char *kind = tsr_op_string(op, "kind");
    int64_t commands = 0, times = 0;
    TRY(r->ctx, add_command(r, op, &command));
    tsr_op_i64(op, "commands", &commands);
    tsr_op_i64(op, "times", &times);
    const tsr_target_control *row = tsr_target_control_find(kind);
    TSR_ASSERT(row); /* its verifier knows the kind */
    command->opcode = row->opcode;
    command->kernel = row->slices ? tsr_op_flag(op, "reverse") : (uint32_t)commands;
    command->grid = (uint64_t)times;
    command->written_from = row->slices ? 0 : command->argument_count;
    command->location = location_text(mlirOperationGetLocation(op), r->arena);
    if (!command->location)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    return TSR_SUCCESS;
}

static TSR_RESULT read_nothing(reader *r, MlirOperation op) {
    FAIL(r->ctx, TSR_COMPILE, "@%s: a host program of version %d has no command for %s",
         r->entry->name, TSR_PROGRAM_VERSION, tsr_op_name(op));
}

/* ---- entries ---- */

typedef tsr_result (*reader_fn)(reader *r, MlirOperation op);

static TSR_RESULT read_op(reader *r, MlirOperation op) {
    static const reader_fn readers[TSR_OP_COUNT] = {
#define X(ID, mnemonic, Class, rule, reader, space, opcode) [TSR_TARGET_##ID] = read_##reader,
#include "compiler/target/host/ops.def"
#undef X
    };
    tsr_op id = tsr_op_of(op);
    return readers[id] ? readers[id](r, op) : read_nothing(r, op);
}

static TSR_RESULT read_entry(reader *r) {
    int64_t workspace = 0;
    size_t count = 0;
    MlirBlock body = tsr_op_body(r->func);
    tsr_op_i64(r->func, "workspace", &workspace);
    TRY(r->ctx, find_handler(r, r->func, "on_recovery", &r->entry->on_recovery));
    TSR_FOR_EACH_OP(op, body) {
        count++;
        if (tsr_op_is(op, TSR_TARGET_AWAIT)) count += tsr_op_operand_count(op);
    }
    r->entry->workspace_bytes = (uint64_t)workspace;
    TRY(r->ctx, begin_sizes(r));
    r->entry->buffers = TSR_NEW(r->arena, tsr_program_buffer, count + 1);
    r->entry->commands = TSR_NEW(r->arena, tsr_program_command, count + 1);
    r->entry->regions = TSR_NEW(r->arena, tsr_program_region, count + 1);
    if (!r->entry->buffers || !r->entry->commands || !r->entry->regions)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    TSR_FOR_EACH_OP(op, body) TRY(r->ctx, read_op(r, op));
    return TSR_SUCCESS;
}

static TSR_RESULT read_kernels(tsr_ctx *ctx, MlirModule module, tsr_arena *arena,
                               tsr_program *program) {
    size_t count = 0;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) count += tsr_op_is(op, TSR_TARGET_KERNEL);
    program->kernels = TSR_NEW(arena, const char *, count + 1);
    if (!program->kernels) FAIL(ctx, TSR_MEMORY, "no memory for %zu kernels", count);
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_is(op, TSR_TARGET_KERNEL))
            program->kernels[program->kernel_count++] = tsr_op_symbol(op);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_host_program(tsr_ctx *ctx, MlirModule module, const tsr_config *config,
                            tsr_arena *arena, tsr_program *out_program) {
    tsr_program program = {.entry_count = (uint32_t)config->entry_count};
    TRY(ctx, read_kernels(ctx, module, arena, &program));
    program.entries = TSR_NEW(arena, tsr_program_entry, config->entry_count + 1);
    if (!program.entries) FAIL(ctx, TSR_MEMORY, "no memory for %zu entries", config->entry_count);
    for (size_t i = 0; i < config->entry_count; i++) {
        reader r = {.ctx = ctx,
                    .arena = arena,
                    .config = config,
                    .module = module,
                    .func = tsr_module_find(module, config->entries[i].name),
                    .program = &program,
                    .entry = &program.entries[i]};
        r.entry->name = config->entries[i].name;
        if (!tsr_op_is(r.func, TSR_TARGET_FUNC))
            FAIL(ctx, TSR_COMPILE, "there is no tessera_target.func of entry @%s",
                 config->entries[i].name);
        TRY(ctx, read_entry(&r));
    }
    TRY(ctx, tsr_program_verify(ctx, &program, config, TSR_COMPILE));
    *out_program = program;
    return TSR_SUCCESS;
}

tsr_result tsr_host_device(tsr_ctx *ctx, MlirModule module, MlirModule *out_device) {
    MlirOperation device = tsr_module_find(module, TSR_TARGET_DEVICE);
    if (!tsr_op_is(device, TSR_BUILTIN_MODULE))
        FAIL(ctx, TSR_COMPILE, "there is no module @" TSR_TARGET_DEVICE " with the kernels");
    *out_device = mlirModuleFromOperation(device);
    return TSR_SUCCESS;
}
