/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the owners of the values of an entry with leaves: the leaf that a rank runs, or the parts
 * that are stored on the rank. If no command uses both, a rank may run any leaves.
 */
#include "manifests/program.h"

typedef struct dealing {
    const tsr_config *config;
    const tsr_config_entry *ports;
    const tsr_program_entry *entry;
    uint8_t *owners; /* one element for each buffer */
} dealing;

static uint8_t owner_at_first(const dealing *d, const tsr_program_buffer *buffer) {
    switch (buffer->space) {
    case TSR_SPACE_PART:
        return TSR_OWNER_POSITION;
    case TSR_SPACE_VRANK_NUMBER:
        return TSR_OWNER_VRANK;
    case TSR_SPACE_INPUT:
        return tsr_program_splits(d->config, d->ports, &d->ports->inputs[buffer->index])
                   ? TSR_OWNER_VRANK
                   : TSR_OWNER_ALL;
    default:
        return TSR_OWNER_ALL;
    }
}

static bool follow_launch(const dealing *d, const tsr_program_command *command) {
    uint8_t owner = TSR_OWNER_ALL;
    for (uint32_t i = 0; i < command->written_from; i++) {
        uint8_t read = d->owners[command->arguments[i]];
        owner |= read & TSR_OWNER_JOINED ? TSR_OWNER_ALL : read;
    }
    for (uint32_t i = command->written_from; i < command->argument_count; i++) {
        uint32_t number = command->arguments[i];
        if (d->entry->buffers[number].space == TSR_SPACE_PART) owner |= TSR_OWNER_POSITION;
    }
    if (owner == (TSR_OWNER_VRANK | TSR_OWNER_POSITION)) return false;
    for (uint32_t i = command->written_from; i < command->argument_count; i++)
        d->owners[command->arguments[i]] = owner;
    return true;
}

static bool follow_collective(const dealing *d, const tsr_program_command *command) {
    uint32_t to = command->arguments[0], from = command->arguments[1];
    switch ((tsr_collective_kind)command->kernel) {
    case TSR_COLLECTIVE_REDUCE_SCATTER:
        if (d->owners[from] & TSR_OWNER_POSITION) return false;
        d->owners[to] = TSR_OWNER_POSITION;
        return true;
    case TSR_COLLECTIVE_SLICE:
        d->owners[to] = TSR_OWNER_POSITION;
        return true;
    case TSR_COLLECTIVE_ALL_GATHER:
        d->owners[to] = TSR_OWNER_ALL;
        return d->owners[from] != TSR_OWNER_VRANK;
    default:
        return false;
    }
}

/* The result is then the same on all ranks, but its owner still records where its summands or rows
 * came from. */
static bool follow_join(const dealing *d, const tsr_program_command *command) {
    uint8_t *to = &d->owners[command->arguments[0]];
    uint8_t joined = d->owners[command->arguments[1]] | TSR_OWNER_JOINED;
    if ((*to & TSR_OWNER_JOINED) && *to != joined) return false;
    *to = joined;
    return true;
}

bool tsr_program_find_owners(const tsr_config *config, const tsr_config_entry *ports,
                             const tsr_program_entry *entry, uint8_t *out_owners) {
    const dealing d = {config, ports, entry, out_owners};
    for (uint32_t i = 0; i < entry->buffer_count; i++)
        out_owners[i] = owner_at_first(&d, &entry->buffers[i]);
    for (uint32_t i = 0; i < entry->command_count; i++) {
        const tsr_program_command *command = &entry->commands[i];
        bool clear = !tsr_program_is_control(command->opcode);
        if (command->opcode == TSR_OP_LAUNCH) clear = follow_launch(&d, command);
        if (command->opcode == TSR_OP_VRANK_SUM || command->opcode == TSR_OP_VRANK_GATHER)
            clear = follow_join(&d, command);
        if (command->opcode == TSR_OP_COLLECTIVE) clear = follow_collective(&d, command);
        if (!clear) return false;
    }
    return true;
}
