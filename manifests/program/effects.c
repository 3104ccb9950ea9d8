/* SPDX-License-Identifier: Apache-2.0
 *
 * The effects of an entry, from its commands and inputs: its kernels only read and write buffers.
 */
#include "manifests/program.h"

static uint32_t of_command(const tsr_program_command *command) {
    switch (command->opcode) {
    case TSR_OP_EXPORT:
    case TSR_OP_IMPORT:
        return TSR_EFFECT_IO;
    case TSR_OP_OFFLOAD:
    case TSR_OP_PREFETCH:
        return TSR_EFFECT_MEMORY | TSR_EFFECT_MOVEMENT;
    case TSR_OP_VRANK_SUM:
    case TSR_OP_VRANK_GATHER:
        return TSR_EFFECT_COLLECTIVE;
    case TSR_OP_COLLECTIVE:
        return command->kernel == TSR_COLLECTIVE_SLICE ? 0 : TSR_EFFECT_COLLECTIVE;
    default:
        return 0;
    }
}

static uint32_t of_writes(const tsr_program_entry *entry, const tsr_program_command *command) {
    if (command->opcode == TSR_OP_EXPORT) return 0;
    for (uint32_t i = command->written_from; i < tsr_program_written_end(command); i++) {
        tsr_space space = entry->buffers[command->arguments[i]].space;
        if (space == TSR_SPACE_TENSOR || space == TSR_SPACE_PART) return TSR_EFFECT_STATE;
    }
    return 0;
}

uint32_t tsr_program_effects(const tsr_program *program, const tsr_config *config, uint32_t entry) {
    const tsr_program_entry *plan = &program->entries[entry];
    const tsr_config_entry *ports = &config->entries[entry];
    uint32_t effects = 0;
    for (size_t i = 0; i < ports->input_count; i++)
        if (ports->inputs[i].source == TSR_PORT_SEED) effects |= TSR_EFFECT_RANDOM;
    for (uint32_t i = 0; i < plan->command_count; i++)
        effects |= of_command(&plan->commands[i]) | of_writes(plan, &plan->commands[i]);
    return effects;
}
