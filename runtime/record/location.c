/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/record/location.h"

#include <string.h>

/* The meaning of a log's tensor in the program. */
typedef struct wanted {
    tsr_space space;      /* TENSOR or OUTPUT; 0: neither */
    size_t index;         /* index of the tensor or output */
    const char *location; /* location of a result of a collective, or NULL */
} wanted;

static wanted find_wanted(const tsr_config *config, size_t entry, const char *name) {
    static const char output[] = "output ", at[] = " at ";
    const tsr_config_entry *ports = &config->entries[entry];
    const tsr_config_tensor *tensor = tsr_config_find_tensor(config, name);
    if (tensor) return (wanted){TSR_SPACE_TENSOR, (size_t)(tensor - config->tensors), NULL};
    for (size_t i = 0; i < ports->output_count; i++)
        if (strncmp(name, output, sizeof output - 1) == 0 &&
            strcmp(name + sizeof output - 1, ports->outputs[i].name) == 0)
            return (wanted){TSR_SPACE_OUTPUT, i, NULL};
    const char *location = strstr(name, at);
    return (wanted){0, 0, location ? location + sizeof at - 1 : NULL};
}

/* Finds the arguments that a command writes: from *out_first to before *out_end. */
static void find_written(const tsr_program_command *command, uint32_t *out_first,
                         uint32_t *out_end) {
    *out_first = *out_end = 0;
    switch (command->opcode) {
    case TSR_OP_LAUNCH:
        *out_first = command->written_from;
        *out_end = command->argument_count;
        break;
    case TSR_OP_IMPORT:
        *out_first = command->argument_count / 2;
        *out_end = command->argument_count;
        break;
    case TSR_OP_COPY:
    case TSR_OP_VRANK_SUM:
    case TSR_OP_VRANK_GATHER:
    case TSR_OP_COLLECTIVE:
    case TSR_OP_TAKE:
    case TSR_OP_PUT:
        *out_end = 1;
        break;
    default:
        break;
    }
}

static bool writes(const tsr_program_entry *program, const tsr_program_command *command,
                   const wanted *what) {
    uint32_t first, end;
    if (what->location)
        return strcmp(command->location, what->location) == 0 &&
               (command->opcode == TSR_OP_VRANK_SUM || command->opcode == TSR_OP_VRANK_GATHER ||
                command->opcode == TSR_OP_COLLECTIVE);
    find_written(command, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        const tsr_program_buffer *buffer = &program->buffers[command->arguments[i]];
        tsr_space space = buffer->space == TSR_SPACE_PART ? TSR_SPACE_TENSOR : buffer->space;
        if (space == what->space && buffer->index == what->index) return true;
    }
    return false;
}

static const char *describe(const tsr_program_entry *program, const wanted *what,
                            tsr_arena *arena) {
    const char *region = program->name, *found_region = program->name, *location = "";
    for (uint32_t i = 0; i < program->command_count; i++) {
        const tsr_program_command *command = &program->commands[i];
        if (command->opcode == TSR_OP_ENTER) region = program->regions[command->kernel].name;
        if (command->opcode == TSR_OP_LEAVE) region = program->name;
        if ((!what->space && !what->location) || !writes(program, command, what)) continue;
        found_region = region;
        if (command->location[0]) location = command->location;
    }
    return tsr_arena_printf(arena, "region '%s'%s%s", found_region, location[0] ? ", at " : "",
                            location);
}

tsr_result tsr_locations_set(tsr_ctx *ctx, tsr_replay *replay, const tsr_config *config,
                             const tsr_program *program, size_t entry, const tsr_tensor *tensors,
                             size_t tensor_count, tsr_arena *arena) {
    if (!replay) return TSR_SUCCESS;
    const char **locations = TSR_NEW(arena, const char *, tensor_count + 1);
    if (!locations)
        FAIL(ctx, TSR_MEMORY, "no memory for the locations of %zu tensors", tensor_count);
    for (size_t i = 0; i < tensor_count; i++) {
        const wanted what = find_wanted(config, entry, tensors[i].name);
        locations[i] = describe(&program->entries[entry], &what, arena);
        if (!locations[i])
            FAIL(ctx, TSR_MEMORY, "no memory for the location of '%s'", tensors[i].name);
    }
    tsr_replay_set_locations(replay, locations);
    return TSR_SUCCESS;
}
