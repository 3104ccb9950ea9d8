/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: ways and offsets of sums · avoidable copies · the plan of an entry.
 */
#include "runtime/exec/reduction_plan.h"

#include "runtime/exec/plan.h"

#include <stdlib.h>

static bool is_scatter(const tsr_program_command *command) {
    return command->opcode == TSR_OP_COLLECTIVE && command->kernel == TSR_COLLECTIVE_REDUCE_SCATTER;
}

tsr_result tsr_reduction_plan_uses_rounds(tsr_ctx *ctx, const tsr_config *config,
                                          const tsr_program *program, const tsr_vranks *vranks,
                                          bool *out_uses) {
    bool serve = false, clear = vranks->rank_count > 1 && tsr_vranks_have_rounds(vranks);
    for (uint32_t e = 0; e < program->entry_count && clear; e++) {
        const tsr_program_entry *entry = &program->entries[e];
        if (!tsr_plan_has_vranks(config, &config->entries[e])) continue;
        uint8_t *owners = calloc((size_t)entry->buffer_count + 1, sizeof *owners);
        if (!owners) FAIL(ctx, TSR_MEMORY, "no memory to plan '%s'", config->name);
        clear = tsr_program_find_owners(config, &config->entries[e], entry, owners);
        free(owners);
        for (uint32_t i = 0; i < entry->command_count; i++)
            serve = serve || is_scatter(&entry->commands[i]);
    }
    *out_uses = serve && clear;
    return TSR_SUCCESS;
}

uint64_t tsr_reduction_plan_slot_bytes(const tsr_program_buffer *sum, const tsr_vranks *vranks) {
    uint64_t count = 0, bytes = 0;
    bool fits = tsr_shape_count(&sum->shape, &count);
    fits = fits && tsr_plan_add(&bytes, tsr_collective_part(count, vranks->total) * vranks->count *
                                            tsr_dtype_size(sum->dtype));
    TSR_ASSERT(fits); /* slightly more than the sum */
    return bytes;
}

static void find_strategies(const tsr_program_entry *entry, const uint8_t *owners,
                            tsr_reduction_plan *reductions) {
    for (uint32_t i = 0; i < entry->command_count; i++) {
        const tsr_program_command *command = &entry->commands[i];
        if (command->opcode != TSR_OP_VRANK_SUM && command->opcode != TSR_OP_VRANK_GATHER) continue;
        if (!(owners[command->arguments[0]] & TSR_OWNER_POSITION))
            reductions->strategy[command->arguments[0]] = TSR_STRATEGY_IN_ROUND;
    }
    for (uint32_t i = 0; i < entry->command_count; i++)
        if (is_scatter(&entry->commands[i]))
            reductions->strategy[entry->commands[i].arguments[1]] = TSR_STRATEGY_SCATTERED;
}

/* Computes the offsets of the sums, and the largest exchange of a turn. */
static void assign_sums(const tsr_program_entry *entry, const tsr_vranks *vranks,
                        tsr_reduction_plan *reductions) {
    uint64_t slots = tsr_vranks_count_slots(vranks);
    for (uint32_t i = 0; i < entry->buffer_count; i++) {
        const tsr_program_buffer *buffer = &entry->buffers[i];
        if (buffer->space != TSR_SPACE_SUMS) continue;
        uint64_t size = 0, end = buffer->offset_bytes;
        bool fits = tsr_plan_add(&size, tsr_program_buffer_size(buffer)) &&
                    !__builtin_add_overflow(end, size, &end);
        TSR_ASSERT(fits); /* within TSR_PROGRAM_VRANK_BYTES_MAX */
        if (reductions->strategy[i] == TSR_STRATEGY_SCATTERED) {
            size = tsr_reduction_plan_slot_bytes(buffer, vranks);
            reductions->offset_bytes[i] = reductions->part_bytes;
            reductions->part_bytes += slots * size;
        } else if (end > reductions->sum_bytes) {
            reductions->sum_bytes = end;
        }
        if (reductions->strategy[i] != TSR_STRATEGY_AT_END && size > reductions->round_bytes)
            reductions->round_bytes = size;
    }
}

static bool is_written(const tsr_program_command *command, uint32_t argument) {
    return argument >= command->written_from && argument < tsr_program_written_end(command);
}

/* The order of reads and writes; all commands of a loop have the same time. */
typedef struct uses {
    uint32_t *read;    /* the command after the last one that reads a buffer; 0: none */
    uint32_t *writes;  /* number of commands that write a buffer */
    uint32_t *written; /* 1 + the first command that writes a tensor */
    uint32_t *sums;    /* number of sums over virtual ranks before a command */
    bool *mixed; /* buffer used by an all_to_all, which counts from virtual rank to virtual rank */
} uses;

static bool mixes(const tsr_program_command *command) {
    return command->opcode == TSR_OP_COLLECTIVE && command->kernel == TSR_COLLECTIVE_ALL_TO_ALL;
}

static void note_uses(const tsr_program_entry *entry, uses *u) {
    uint32_t begin = 0, end = 0;
    for (uint32_t i = 0; i < entry->command_count; i++) {
        const tsr_program_command *command = &entry->commands[i];
        u->sums[i + 1] = u->sums[i] + (command->opcode == TSR_OP_VRANK_SUM);
        if (command->opcode == TSR_OP_EACH_VRANK) {
            begin = i;
            end = i + 1 + (uint32_t)command->grid;
        }
        for (uint32_t k = 0; k < command->argument_count; k++) {
            uint32_t number = command->arguments[k];
            const tsr_program_buffer *buffer = &entry->buffers[number];
            bool tensor = buffer->space == TSR_SPACE_TENSOR || buffer->space == TSR_SPACE_PART;
            if (!is_written(command, k)) {
                u->read[number] = i < end ? end : i + 1;
                u->mixed[number] |= mixes(command);
                continue;
            }
            u->writes[number] += 1;
            if (tensor && !u->written[buffer->index])
                u->written[buffer->index] = 1 + (i < end ? begin : i);
        }
    }
}

/* A tensor is gathered into a buffer that no other command writes, and is not written until the
 * last read of that buffer: a single rank reads the tensor itself. */
static bool is_tensor(const tsr_program_entry *entry, const uses *u,
                      const tsr_program_command *command) {
    uint32_t to = command->arguments[0];
    const tsr_program_buffer *from = &entry->buffers[command->arguments[1]];
    uint32_t written = u->written[from->index];
    return command->kernel == TSR_COLLECTIVE_ALL_GATHER && from->space == TSR_SPACE_PART &&
           entry->buffers[to].space == TSR_SPACE_WORKSPACE && u->writes[to] == 1 &&
           (!written || u->read[to] < written);
}

/* Parts of a sum, if nothing is summed until their last read. */
static bool is_sum(const tsr_program_entry *entry, const uses *u, uint32_t index) {
    const tsr_program_command *command = &entry->commands[index];
    uint32_t to = command->arguments[0];
    bool takes =
        command->kernel == TSR_COLLECTIVE_REDUCE_SCATTER || command->kernel == TSR_COLLECTIVE_SLICE;
    return takes && entry->buffers[command->arguments[1]].space == TSR_SPACE_SUMS &&
           u->writes[to] == 1 && !u->mixed[to] && u->read[to] > index &&
           u->sums[u->read[to]] == u->sums[index];
}

static bool find_targets(const tsr_program_entry *entry, bool alone, tsr_arena *arena,
                         size_t tensor_count, tsr_reduction_plan *reductions) {
    size_t buffers = (size_t)entry->buffer_count + 1, commands = (size_t)entry->command_count + 1;
    uses u = {.read = TSR_NEW(arena, uint32_t, buffers),
              .writes = TSR_NEW(arena, uint32_t, buffers),
              .written = TSR_NEW(arena, uint32_t, tensor_count + 1),
              .sums = TSR_NEW(arena, uint32_t, commands),
              .mixed = TSR_NEW(arena, bool, buffers)};
    if (!u.read || !u.writes || !u.written || !u.sums || !u.mixed) return false;
    note_uses(entry, &u);
    for (uint32_t i = 0; i < entry->command_count; i++) {
        const tsr_program_command *command = &entry->commands[i];
        if (command->opcode != TSR_OP_COLLECTIVE) continue;
        uint32_t from = command->arguments[1];
        if (alone && is_tensor(entry, &u, command))
            reductions->tensor[command->arguments[0]] = 1 + entry->buffers[from].index;
        if (is_sum(entry, &u, i)) reductions->sum[command->arguments[0]] = 1 + from;
    }
    return true;
}

/* Assigns memory without the parts of sums, which are stored in the sums. */
static void assign_parts(const tsr_program_entry *entry, const tsr_vranks *vranks,
                         tsr_reduction_plan *reductions) {
    uint64_t beyond = 0;
    bool fits = tsr_plan_add(&beyond, vranks->total * sizeof(uint64_t));
    TSR_ASSERT(fits);
    for (uint32_t i = 0; i < entry->buffer_count; i++) {
        const tsr_program_buffer *buffer = &entry->buffers[i];
        uint64_t end = buffer->offset_bytes;
        if (buffer->space != TSR_SPACE_VRANK) continue;
        if (reductions->sum[i]) {
            if (reductions->round_bytes < beyond) reductions->round_bytes = beyond;
            continue;
        }
        uint64_t size = 0;
        fits = tsr_plan_add(&size, tsr_program_buffer_size(buffer)) &&
               !__builtin_add_overflow(end, size, &end);
        TSR_ASSERT(fits); /* within TSR_PROGRAM_VRANK_BYTES_MAX */
        if (end > reductions->vrank_bytes) reductions->vrank_bytes = end;
    }
}

bool tsr_reduction_plan_init(const tsr_config *config, const tsr_program *program, size_t entry,
                             const tsr_vranks *vranks, tsr_arena *arena,
                             tsr_reduction_plan *out_plan) {
    const tsr_program_entry *of = &program->entries[entry];
    tsr_reduction_plan reductions = {
        .strategy = TSR_NEW(arena, tsr_reduction_strategy, (size_t)of->buffer_count + 1),
        .offset_bytes = TSR_NEW(arena, uint64_t, (size_t)of->buffer_count + 1)};
    uint8_t *owners = TSR_NEW(arena, uint8_t, (size_t)of->buffer_count + 1);
    if (!reductions.strategy || !reductions.offset_bytes || !owners) return false;
    if (vranks->by_rounds && tsr_plan_has_vranks(config, &config->entries[entry])) {
        bool clear = tsr_program_find_owners(config, &config->entries[entry], of, owners);
        TSR_ASSERT(clear); /* tsr_reduction_plan_uses_rounds */
        find_strategies(of, owners, &reductions);
    }
    reductions.tensor = TSR_NEW(arena, uint32_t, (size_t)of->buffer_count + 1);
    reductions.sum = TSR_NEW(arena, uint32_t, (size_t)of->buffer_count + 1);
    if (!reductions.tensor || !reductions.sum ||
        (!tsr_program_has_control(of) &&
         !find_targets(of, vranks->rank_count == 1, arena, config->tensor_count, &reductions)))
        return false;
    assign_sums(of, vranks, &reductions);
    assign_parts(of, vranks, &reductions);
    *out_plan = reductions;
    return true;
}

tsr_vranks tsr_reduction_plan_vranks(const tsr_reduction_plan *reductions, const tsr_vranks *vranks,
                                     uint32_t buffer) {
    tsr_vranks of = *vranks;
    of.by_rounds = reductions->strategy[buffer] != TSR_STRATEGY_AT_END;
    return of;
}
