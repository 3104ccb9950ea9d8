/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: which way each sum goes · what is exchanged in a turn.
 */
#include "runtime/turn.h"

#include "runtime/collective.h"
#include "runtime/plan.h"
#include "runtime/transport/collective.h"

#include <stdlib.h>

/* ---- ways ---- */

static bool is_scatter(const tsr_program_command *command) {
    return command->opcode == TSR_OP_COLLECTIVE && command->kernel == TSR_COLLECTIVE_REDUCE_SCATTER;
}

tsr_result tsr_ways_serve(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                          const tsr_leaves *leaves, bool *out_serve) {
    bool serve = false, clear = leaves->rank_count > 1 && tsr_leaves_can_turn(leaves);
    for (uint32_t e = 0; e < program->entry_count && clear; e++) {
        const tsr_program_entry *entry = &program->entries[e];
        if (!tsr_plan_has_leaves(config, &config->entries[e])) continue;
        uint8_t *owners = calloc((size_t)entry->buffer_count + 1, sizeof *owners);
        if (!owners) FAIL(ctx, TSR_MEMORY, "no memory to plan '%s'", config->name);
        clear = tsr_program_find_owners(config, &config->entries[e], entry, owners);
        free(owners);
        for (uint32_t i = 0; i < entry->command_count; i++)
            serve = serve || is_scatter(&entry->commands[i]);
    }
    *out_serve = serve && clear;
    return TSR_SUCCESS;
}

uint64_t tsr_turn_slot_bytes(const tsr_program_buffer *sum, const tsr_leaves *leaves) {
    uint64_t count = 0, bytes = 0;
    bool fits = tsr_shape_count(&sum->shape, &count);
    fits = fits && tsr_plan_add(&bytes, tsr_collective_part(count, leaves->total) * leaves->count *
                                            tsr_dtype_size(sum->dtype));
    TSR_ASSERT(fits); /* hardly more than the sum */
    return bytes;
}

static void find_ways(const tsr_program_entry *entry, const uint8_t *owners, tsr_ways *ways) {
    for (uint32_t i = 0; i < entry->command_count; i++) {
        const tsr_program_command *command = &entry->commands[i];
        if (command->opcode != TSR_OP_LEAF_SUM && command->opcode != TSR_OP_LEAF_GATHER) continue;
        if (!(owners[command->arguments[0]] & TSR_OWNER_POSITION))
            ways->of[command->arguments[0]] = TSR_WAY_IN_TURN;
    }
    for (uint32_t i = 0; i < entry->command_count; i++)
        if (is_scatter(&entry->commands[i]))
            ways->of[entry->commands[i].arguments[1]] = TSR_WAY_SCATTERED;
}

/* Where the sums lie, and the longest of a turn. */
static void place_sums(const tsr_program_entry *entry, const tsr_leaves *leaves, tsr_ways *ways) {
    uint64_t slots = tsr_leaves_count_slots(leaves);
    for (uint32_t i = 0; i < entry->buffer_count; i++) {
        const tsr_program_buffer *buffer = &entry->buffers[i];
        if (buffer->space != TSR_SPACE_SUMS) continue;
        uint64_t size = 0, end = buffer->offset_bytes;
        bool fits = tsr_plan_add(&size, tsr_program_buffer_size(buffer)) &&
                    !__builtin_add_overflow(end, size, &end);
        TSR_ASSERT(fits); /* within TSR_PROGRAM_LEAF_BYTES_MAX */
        if (ways->of[i] == TSR_WAY_SCATTERED) {
            size = tsr_turn_slot_bytes(buffer, leaves);
            ways->offset_bytes[i] = ways->part_bytes;
            ways->part_bytes += slots * size;
        } else if (end > ways->sum_bytes) {
            ways->sum_bytes = end;
        }
        if (ways->of[i] != TSR_WAY_AT_END && size > ways->turn_bytes) ways->turn_bytes = size;
    }
}

static bool is_written(const tsr_program_command *command, uint32_t argument) {
    bool first = command->opcode == TSR_OP_COPY ||
                 (command->opcode >= TSR_OP_LEAF_SUM && command->opcode <= TSR_OP_COLLECTIVE);
    return first ? argument == 0 : argument >= command->written_from;
}

/* A tensor is gathered to a buffer that nothing else writes, and not written until that was read
 * for the last time: the tensor itself will do. */
static bool find_tensors(const tsr_config *config, const tsr_program_entry *entry, tsr_arena *arena,
                         uint32_t *out_tensors) {
    size_t buffers = (size_t)entry->buffer_count + 1, tensors = config->tensor_count + 1;
    uint32_t *read = TSR_NEW(arena, uint32_t, buffers), *writes = TSR_NEW(arena, uint32_t, buffers);
    uint32_t *written = TSR_NEW(arena, uint32_t, tensors), begin = 0, end = 0;
    if (!read || !writes || !written) return false;
    for (uint32_t i = 0; i < entry->command_count; i++) {
        const tsr_program_command *command = &entry->commands[i];
        if (command->opcode == TSR_OP_EACH_LEAF) {
            begin = i;
            end = i + 1 + (uint32_t)command->grid;
        }
        for (uint32_t k = 0; k < command->argument_count; k++) {
            uint32_t number = command->arguments[k];
            const tsr_program_buffer *buffer = &entry->buffers[number];
            bool tensor = buffer->space == TSR_SPACE_TENSOR || buffer->space == TSR_SPACE_PART;
            if (!is_written(command, k)) {
                read[number] = i < end ? end : i + 1;
                continue;
            }
            writes[number]++;
            if (tensor && !written[buffer->index])
                written[buffer->index] = 1 + (i < end ? begin : i);
        }
    }
    for (uint32_t i = 0; i < entry->command_count; i++) {
        const tsr_program_command *command = &entry->commands[i];
        if (command->opcode != TSR_OP_COLLECTIVE || command->kernel != TSR_COLLECTIVE_ALL_GATHER)
            continue;
        uint32_t to = command->arguments[0];
        const tsr_program_buffer *from = &entry->buffers[command->arguments[1]];
        bool stays = !written[from->index] || read[to] < written[from->index];
        if (from->space == TSR_SPACE_PART && writes[to] == 1 && stays &&
            entry->buffers[to].space == TSR_SPACE_WORKSPACE)
            out_tensors[to] = 1 + from->index;
    }
    return true;
}

bool tsr_ways_init(const tsr_config *config, const tsr_program *program, size_t entry,
                   const tsr_leaves *leaves, tsr_arena *arena, tsr_ways *out_ways) {
    const tsr_program_entry *of = &program->entries[entry];
    tsr_ways ways = {.of = TSR_NEW(arena, tsr_way, (size_t)of->buffer_count + 1),
                     .offset_bytes = TSR_NEW(arena, uint64_t, (size_t)of->buffer_count + 1)};
    uint8_t *owners = TSR_NEW(arena, uint8_t, (size_t)of->buffer_count + 1);
    if (!ways.of || !ways.offset_bytes || !owners) return false;
    if (leaves->by_turns && tsr_plan_has_leaves(config, &config->entries[entry])) {
        bool clear = tsr_program_find_owners(config, &config->entries[entry], of, owners);
        TSR_ASSERT(clear); /* tsr_ways_serve */
        find_ways(of, owners, &ways);
    }
    place_sums(of, leaves, &ways);
    ways.tensor = TSR_NEW(arena, uint32_t, (size_t)of->buffer_count + 1);
    if (!ways.tensor || (leaves->rank_count == 1 && !tsr_program_has_control(of) &&
                         !find_tensors(config, of, arena, ways.tensor)))
        return false;
    *out_ways = ways;
    return true;
}

tsr_leaves tsr_ways_leaves(const tsr_ways *ways, const tsr_leaves *leaves, uint32_t buffer) {
    tsr_leaves of = *leaves;
    of.by_turns = ways->of[buffer] != TSR_WAY_AT_END;
    return of;
}

/* ---- exchanges ---- */

/* A rank has one leaf of a turn. */
typedef struct division {
    uint32_t first_leaf[TSR_TRANSPORT_RANKS_MAX + 1];
    size_t first[TSR_TRANSPORT_RANKS_MAX + 1]; /* elements */
} division;

static tsr_reduce_options divide(const tsr_turn *turn, const tsr_leaves *leaves, division *out) {
    for (uint32_t r = 0; r <= leaves->rank_count; r++) {
        uint64_t first = tsr_leaves_first(leaves, r) * turn->part;
        out->first[r] = (size_t)(first < turn->count ? first : turn->count);
    }
    return tsr_leaves_divide(leaves,
                             (tsr_reduce_options){.reduction = turn->reduction,
                                                  .rows = turn->from,
                                                  .count = (size_t)turn->count},
                             out->first_leaf);
}

static char *slot_of(const tsr_turn *turn, uint32_t slot) {
    return slot == TSR_LEAF_SUMMAND ? turn->to : turn->slots + slot * turn->slot_bytes;
}

tsr_result tsr_turn_exchange(tsr_ctx *ctx, const tsr_turn *turn, tsr_transport *transport,
                             const tsr_leaves *leaves) {
    division d;
    const tsr_leaf_fold *fold = &turn->fold;
    if (turn->gather) return tsr_collective_exchange(ctx, turn->gather, transport, leaves, 0);
    const tsr_reduce_options options = divide(turn, leaves, &d);
    if (!turn->slots) return tsr_all_reduce(ctx, transport, &options, turn->to);
    TRY(ctx, tsr_reduce_scatter(ctx, transport, &options, d.first,
                                fold->step_count ? turn->to : slot_of(turn, fold->copy_to)));
    size_t count = d.first[leaves->rank + 1] - d.first[leaves->rank];
    for (uint32_t i = 0; i < fold->step_count; i++)
        tsr_tree_combine(turn->reduction, slot_of(turn, fold->steps[i].out),
                         slot_of(turn, fold->steps[i].a), slot_of(turn, fold->steps[i].b), count);
    return TSR_SUCCESS;
}

uint64_t tsr_turn_plan(const tsr_turn *turn, const tsr_transport *transport,
                       const tsr_leaves *leaves) {
    division d;
    if (turn->gather) return tsr_collective_plan(turn->gather, transport, leaves);
    const tsr_reduce_options options = divide(turn, leaves, &d);
    return turn->slots ? tsr_reduce_scatter_plan(transport, &options, d.first)
                       : tsr_all_reduce_plan(transport, &options);
}
