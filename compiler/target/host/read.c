/* SPDX-License-Identifier: Apache-2.0
 *
 * Target IR -> host program: buffers and commands in the order of the module.
 */
#include "compiler/ir/value_map.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/host/host.h"
#include "compiler/target/host/rules.h"

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
} reader;

/* "digits.mlir:12:8", the innermost place of an inlined op, or "". In the arena; NULL when out of
 * memory. */
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

/* ---- buffers ---- */

static TSR_RESULT read_space(reader *r, MlirOperation op, tsr_program_buffer *out) {
    int64_t number = 0;
    out->name = "";
    bool part = tsr_op_is(op, "tessera_target.tensor_part");
    if (part || tsr_op_is(op, "tessera_target.tensor")) {
        const char *name = tsr_op_string(op, "name");
        const tsr_config_tensor *tensor = name ? tsr_config_find_tensor(r->config, name) : NULL;
        if (!tensor)
            FAIL(r->ctx, TSR_COMPILE, "@%s uses tensor '%s', which is not in the config",
                 r->entry->name, name ? name : "");
        out->space = part ? TSR_SPACE_PART : TSR_SPACE_TENSOR;
        out->index = (uint32_t)(tensor - r->config->tensors);
    } else if (tsr_op_is(op, "tessera_target.vrank_number")) {
        out->space = TSR_SPACE_VRANK_NUMBER;
    } else if (tsr_op_has(op, "offset")) {
        out->space = tsr_op_is(op, "tessera_target.alloc")         ? TSR_SPACE_WORKSPACE
                     : tsr_op_is(op, "tessera_target.host_alloc")  ? TSR_SPACE_HOST
                     : tsr_op_is(op, "tessera_target.vrank_alloc") ? TSR_SPACE_VRANK
                                                                   : TSR_SPACE_SUMS;
        tsr_op_i64(op, "offset", &number);
        out->offset_bytes = (uint64_t)number;
    } else {
        out->space = tsr_op_is(op, "tessera_target.input")       ? TSR_SPACE_INPUT
                     : tsr_op_is(op, "tessera_target.prepacked") ? TSR_SPACE_PREPACKED
                                                                 : TSR_SPACE_OUTPUT;
        tsr_op_i64(op, "index", &number);
        out->index = (uint32_t)number; /* its verifier keeps it small */
    }
    return TSR_SUCCESS;
}

static bool is_buffer(MlirOperation op) {
    return tsr_op_is(op, "tessera_target.tensor") || tsr_op_is(op, "tessera_target.tensor_part") ||
           tsr_op_is(op, "tessera_target.input") || tsr_op_is(op, "tessera_target.output") ||
           tsr_op_is(op, "tessera_target.alloc") || tsr_op_is(op, "tessera_target.prepacked") ||
           tsr_op_is(op, "tessera_target.host_alloc") ||
           tsr_op_is(op, "tessera_target.vrank_alloc") ||
           tsr_op_is(op, "tessera_target.sum_alloc") ||
           tsr_op_is(op, "tessera_target.vrank_number");
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
    if (!tsr_value_map_set(&r->numbers, r->arena, tsr_op_result(op, 0), r->entry->buffer_count++))
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    return TSR_SUCCESS;
}

/* ---- commands ---- */

static uint64_t launch_cost(MlirOperation kernel) {
    int64_t flops = 0, bytes = 0;
    tsr_op_i64(kernel, "flops", &flops);
    tsr_op_i64(kernel, "bytes", &bytes);
    int64_t cost = flops > bytes ? flops : bytes;
    return cost > 0 ? (uint64_t)cost : 0;
}

static TSR_RESULT read_launch(reader *r, MlirOperation op, tsr_opcode opcode,
                              tsr_program_command *command) {
    const char *name = tsr_op_string(op, "kernel");
    MlirOperation kernel = tsr_module_find(r->module, name ? name : "");
    int64_t grid = 0;
    uint32_t index = 0;
    while (index < r->program->kernel_count && strcmp(r->program->kernels[index], name) != 0)
        index++;
    TSR_ASSERT(index < r->program->kernel_count && tsr_op_i64(kernel, "grid", &grid));
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(kernel, "function_type"));
    command->opcode = tsr_op_has(kernel, "prepacks") ? TSR_OP_PREPARE : opcode;
    command->kernel = index;
    command->grid = (uint64_t)grid;
    command->cost = launch_cost(kernel);
    if (opcode == TSR_OP_LAUNCH)
        command->written_from = (uint32_t)mlirFunctionTypeGetNumInputs(type);
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

/* The buffers of a launch: first the buffers that it reads, then the buffers that it writes. */
static void read_transfer(reader *r, MlirOperation op, tsr_program_command *command) {
    MlirAttribute segments = tsr_op_attr(op, "operandSegmentSizes");
    uint32_t half = (uint32_t)mlirDenseI32ArrayGetElement(segments, 0);
    command->argument_count = 2 * half;
    command->written_from = half;
    for (uint32_t i = 0; i < half; i++) {
        command->arguments[i] = tsr_value_map_get(&r->numbers, tsr_op_operand(op, half + i));
        command->arguments[half + i] = tsr_value_map_get(&r->numbers, tsr_op_operand(op, i));
    }
}

/* Reads regions, exports and imports. An await becomes one command for each awaited token. */
static TSR_RESULT read_ordered(reader *r, MlirOperation op) {
    uint32_t index = r->entry->command_count++;
    tsr_program_command *command = &r->entry->commands[index];
    *command = (tsr_program_command){
        .kernel = find_region(r, tsr_op_string(op, "name")),
        .arguments = TSR_NEW(r->arena, uint32_t, tsr_op_operand_count(op) + 1),
        .location = location_text(mlirOperationGetLocation(op), r->arena)};
    tsr_program_region *region = &r->entry->regions[command->kernel];
    if (!command->arguments || !command->location)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    if (tsr_op_is(op, "tessera_target.enter")) {
        bool replay = strcmp(tsr_op_string(op, "mode"), "replay") == 0;
        command->opcode = TSR_OP_ENTER;
        region->mode = replay ? TSR_REGION_REPLAY : TSR_REGION_RESTART;
        TRY(r->ctx, find_handler(r, op, "on_failure", &region->on_failure));
    } else if (tsr_op_is(op, "tessera_target.leave")) {
        command->opcode = TSR_OP_LEAVE;
        command->argument_count = (uint32_t)tsr_op_operand_count(op) - 1;
        command->written_from = command->argument_count;
        for (uint32_t i = 0; i < command->argument_count; i++)
            command->arguments[i] = tsr_value_map_get(&r->numbers, tsr_op_operand(op, i + 1));
    } else {
        command->opcode = tsr_op_is(op, "tessera_target.export") ? TSR_OP_EXPORT : TSR_OP_IMPORT;
        read_transfer(r, op, command);
    }
    return note_token(r, tsr_op_result(op, 0), index);
}

static bool is_offload(MlirOperation op) {
    return tsr_op_is(op, "tessera_target.offload") || tsr_op_is(op, "tessera_target.prefetch");
}

/* To the host's memory, or back. */
static TSR_RESULT read_offload(reader *r, MlirOperation op) {
    uint32_t index = r->entry->command_count++;
    uint32_t *arguments = TSR_NEW(r->arena, uint32_t, 2);
    const char *location = location_text(mlirOperationGetLocation(op), r->arena);
    if (!arguments || !location)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    for (size_t i = 0; i < 2; i++)
        arguments[i] = tsr_value_map_get(&r->numbers, tsr_op_operand(op, i));
    r->entry->commands[index] = (tsr_program_command){
        .opcode = tsr_op_is(op, "tessera_target.offload") ? TSR_OP_OFFLOAD : TSR_OP_PREFETCH,
        .argument_count = 2,
        .arguments = arguments,
        .location = location};
    return note_token(r, tsr_op_result(op, 0), index);
}

/* An op that is done as soon as the command before it is done needs no await command: the list is
 * in order. */
static TSR_RESULT read_await(reader *r, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirOperation begun = tsr_value_owner(tsr_op_operand(op, i));
        if (!tsr_op_is(begun, "tessera_target.export") &&
            !tsr_op_is(begun, "tessera_target.import") && !is_offload(begun))
            continue;
        r->entry->commands[r->entry->command_count++] =
            (tsr_program_command){.opcode = TSR_OP_AWAIT,
                                  .kernel = tsr_value_map_get(&r->numbers, tsr_op_operand(op, i)),
                                  .arguments = TSR_NEW(r->arena, uint32_t, 1),
                                  .location = ""};
    }
    return TSR_SUCCESS;
}

static bool is_ordered(MlirOperation op) {
    return tsr_op_is(op, "tessera_target.enter") || tsr_op_is(op, "tessera_target.leave") ||
           tsr_op_is(op, "tessera_target.export") || tsr_op_is(op, "tessera_target.import");
}

static bool is_command(MlirOperation op) {
    return tsr_op_is(op, "tessera_target.launch") || tsr_op_is(op, "tessera_target.copy") ||
           tsr_op_is(op, "tessera_target.control") || tsr_op_is(op, "tessera_target.each_vrank") ||
           tsr_op_is(op, "tessera_target.vrank_sum") ||
           tsr_op_is(op, "tessera_target.vrank_gather") ||
           tsr_op_is(op, "tessera_target.collective");
}

/* With one position the collective is a copy. Otherwise the positions are the virtual ranks. */
static TSR_RESULT read_collective(reader *r, MlirOperation op, tsr_program_command *command) {
    const char *kind = tsr_op_string(op, "kind");
    int64_t ranks = 0;
    tsr_op_i64(op, "ranks", &ranks);
    command->location = location_text(mlirOperationGetLocation(op), r->arena);
    if (!command->location)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    if (ranks == 1) return TSR_SUCCESS;
    if ((uint64_t)ranks != r->config->virtual_ranks)
        FAIL(r->ctx, TSR_COMPILE,
             "@%s: \"%s\" is among %lld ranks; the program has %llu virtual ranks", r->entry->name,
             kind, (long long)ranks, (unsigned long long)r->config->virtual_ranks);
    command->opcode = TSR_OP_COLLECTIVE;
    command->kernel = tsr_collective_find(kind)->kind;
    return TSR_SUCCESS;
}

static TSR_RESULT read_control(reader *r, MlirOperation op, tsr_program_command *command) {
    const char *kind = tsr_op_string(op, "kind");
    int64_t commands = 0, times = 0;
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

static TSR_RESULT read_command(reader *r, MlirOperation op) {
    tsr_program_command *command = &r->entry->commands[r->entry->command_count++];
    size_t count = tsr_op_operand_count(op);
    *command = (tsr_program_command){.opcode = TSR_OP_COPY,
                                     .argument_count = (uint32_t)count,
                                     .arguments = TSR_NEW(r->arena, uint32_t, count + 1),
                                     .location = ""};
    if (!command->arguments)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    for (size_t i = 0; i < count; i++)
        command->arguments[i] = tsr_value_map_get(&r->numbers, tsr_op_operand(op, i));
    if (tsr_op_is(op, "tessera_target.launch")) return read_launch(r, op, TSR_OP_LAUNCH, command);
    if (tsr_op_is(op, "tessera_target.vrank_sum"))
        return read_launch(r, op, TSR_OP_VRANK_SUM, command);
    if (tsr_op_is(op, "tessera_target.control")) return read_control(r, op, command);
    if (tsr_op_is(op, "tessera_target.collective")) return read_collective(r, op, command);
    if (tsr_op_is(op, "tessera_target.vrank_gather")) command->opcode = TSR_OP_VRANK_GATHER;
    if (tsr_op_is(op, "tessera_target.each_vrank")) {
        int64_t commands = 0;
        tsr_op_i64(op, "commands", &commands);
        command->opcode = TSR_OP_EACH_VRANK;
        command->grid = (uint64_t)commands;
    }
    return TSR_SUCCESS;
}

/* ---- entries ---- */

static TSR_RESULT read_entry(reader *r) {
    int64_t workspace = 0;
    size_t count = 0;
    MlirBlock body = tsr_op_body(r->func);
    tsr_op_i64(r->func, "workspace", &workspace);
    TRY(r->ctx, find_handler(r, r->func, "on_recovery", &r->entry->on_recovery));
    TSR_FOR_EACH_OP(op, body) {
        count++;
        if (tsr_op_is(op, "tessera_target.await")) count += tsr_op_operand_count(op);
    }
    r->entry->workspace_bytes = (uint64_t)workspace;
    r->entry->buffers = TSR_NEW(r->arena, tsr_program_buffer, count + 1);
    r->entry->commands = TSR_NEW(r->arena, tsr_program_command, count + 1);
    r->entry->regions = TSR_NEW(r->arena, tsr_program_region, count + 1);
    if (!r->entry->buffers || !r->entry->commands || !r->entry->regions)
        FAIL(r->ctx, TSR_MEMORY, "no memory for the program of @%s", r->entry->name);
    TSR_FOR_EACH_OP(op, body) {
        if (is_buffer(op))
            TRY(r->ctx, read_buffer(r, op));
        else if (is_command(op))
            TRY(r->ctx, read_command(r, op));
        else if (is_ordered(op))
            TRY(r->ctx, read_ordered(r, op));
        else if (is_offload(op))
            TRY(r->ctx, read_offload(r, op));
        else if (tsr_op_is(op, "tessera_target.await"))
            TRY(r->ctx, read_await(r, op));
        else
            FAIL(r->ctx, TSR_COMPILE, "@%s: a host program of version %d has no command for %s",
                 r->entry->name, TSR_PROGRAM_VERSION, tsr_op_name(op));
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_kernels(tsr_ctx *ctx, MlirModule module, tsr_arena *arena,
                               tsr_program *program) {
    size_t count = 0;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) count += tsr_op_is(op, "tessera_target.kernel");
    program->kernels = TSR_NEW(arena, const char *, count + 1);
    if (!program->kernels) FAIL(ctx, TSR_MEMORY, "no memory for %zu kernels", count);
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_is(op, "tessera_target.kernel"))
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
        if (!tsr_op_is(r.func, "tessera_target.func"))
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
    if (!tsr_op_is(device, "builtin.module"))
        FAIL(ctx, TSR_COMPILE, "there is no module @" TSR_TARGET_DEVICE " with the kernels");
    *out_device = mlirModuleFromOperation(device);
    return TSR_SUCCESS;
}
