/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifies the collectives of a program: the spaces of their buffers, matching types, and that
 * nothing else reads a sum before ranks have exchanged it.
 */
#include "manifests/program.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const tsr_collective_row rows[] = {
#define X(ID, number, name, from, to)                                                              \
    [number] = {name, TSR_COLLECTIVE_##ID, TSR_COLLECTIVE_LOCATION_##from,                         \
                TSR_COLLECTIVE_LOCATION_##to},
#include "manifests/program/collectives.def"
#undef X
};

const tsr_collective_row *tsr_collective_get(uint32_t number) {
    return number >= 1 && number < TSR_COUNT(rows) ? &rows[number] : NULL;
}

const tsr_collective_row *tsr_collective_find(const char *name) {
    for (uint32_t i = 1; i < TSR_COUNT(rows); i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

uint64_t tsr_collective_part(uint64_t count, uint64_t positions) {
    return count / positions + (count % positions != 0);
}

bool tsr_collective_fits(const tsr_collective_row *row, const tsr_shape *to, const tsr_shape *from,
                         uint64_t positions) {
    bool gathers = row->kind == TSR_COLLECTIVE_ALL_GATHER;
    bool scatters = row->kind == TSR_COLLECTIVE_REDUCE_SCATTER || row->kind == TSR_COLLECTIVE_SLICE;
    const tsr_shape *whole = gathers ? to : from, *part = gathers ? from : to;
    uint64_t count = 0, each = 0;
    if (!tsr_shape_count(whole, &count) || !tsr_shape_count(part, &each)) return false;
    if (row->kind == TSR_COLLECTIVE_ALL_TO_ALL)
        return tsr_shape_equal(to, from) && to->rank > 0 && to->dims[0] % positions == 0;
    if (!gathers && !scatters) return tsr_shape_equal(to, from);
    if (part->rank == 1) return each == tsr_collective_part(count, positions);
    tsr_shape times = *part;
    return part->rank > 0 && !__builtin_mul_overflow(part->dims[0], positions, &times.dims[0]) &&
           tsr_shape_equal(&times, whole);
}

uint64_t tsr_program_part_bytes(const tsr_config *config, size_t tensor) {
    const tsr_config_tensor *of = &config->tensors[tensor];
    uint64_t count = 0, size = 0;
    bool fits = tsr_shape_count(&of->shape, &count);
    const tsr_shape part = {.rank = 1, .dims = {tsr_collective_part(count, config->virtual_ranks)}};
    fits = fits && tsr_shape_size(&part, of->dtype, &size);
    TSR_ASSERT(fits); /* not larger than the tensor */
    return size;
}

void tsr_program_find_holdings(const tsr_program *program, const tsr_config *config,
                               tsr_holding *out_holdings) {
    for (size_t i = 0; i < config->tensor_count; i++) out_holdings[i] = TSR_HOLDING_WHOLE;
    for (uint32_t e = 0; e < program->entry_count; e++)
        for (uint32_t k = 0; k < program->entries[e].buffer_count; k++) {
            const tsr_program_buffer *buffer = &program->entries[e].buffers[k];
            if (buffer->space == TSR_SPACE_PART) out_holdings[buffer->index] = TSR_HOLDING_PARTS;
        }
    for (uint32_t e = 0; e < program->entry_count; e++)
        for (uint32_t k = 0; k < program->entries[e].buffer_count; k++) {
            const tsr_program_buffer *buffer = &program->entries[e].buffers[k];
            if (buffer->space == TSR_SPACE_TENSOR &&
                out_holdings[buffer->index] == TSR_HOLDING_PARTS)
                out_holdings[buffer->index] = TSR_HOLDING_PADDED;
        }
}

/* The state of a buffer that may be a sum taken by a collective. */
typedef enum sum_state { FREE, TAKEN, SUMMED } sum_state;

typedef struct walk {
    tsr_ctx *ctx;
    tsr_code code;
    const tsr_config *config;
    const tsr_program_entry *entry;
    uint32_t index;
    sum_state *sums; /* one state for each buffer */
    const tsr_holding *holdings;
    bool *scattered;   /* tensors: ranks have written their own parts */
    uint32_t *written; /* tensors: see check_loops */
} walk;

#define EXPECT TSR_PROGRAM_EXPECT

/* `other`: one more space that will do. */
static bool is_in(tsr_space space, tsr_collective_location location, tsr_space other) {
    if (space == other) return true;
    if (location == TSR_COLLECTIVE_LOCATION_SUM) return space == TSR_SPACE_SUMS;
    if (location == TSR_COLLECTIVE_LOCATION_OWN) return space == TSR_SPACE_VRANK;
    return space == TSR_SPACE_TENSOR || space == TSR_SPACE_OUTPUT || space == TSR_SPACE_WORKSPACE;
}

static TSR_RESULT check_collective(walk *w, const tsr_program_command *command) {
    const tsr_collective_row *row = tsr_collective_get(command->kernel);
    EXPECT(w, row, "collective: expected one of 1 ... %zu, got %u", TSR_COUNT(rows) - 1,
           command->kernel);
    EXPECT(w, command->grid == 0 && command->written_from == 0,
           "%s: expected grid and written_from 0, got %" PRIu64 " and %u", row->name, command->grid,
           command->written_from);
    const tsr_program_buffer *to = &w->entry->buffers[command->arguments[0]];
    const tsr_program_buffer *from = &w->entry->buffers[command->arguments[1]];
    char wanted[TSR_TYPE_TEXT_MAX], got[TSR_TYPE_TEXT_MAX];
    tsr_space also = row->kind == TSR_COLLECTIVE_ALL_GATHER ? TSR_SPACE_PART
                     : row->kind == TSR_COLLECTIVE_SLICE    ? TSR_SPACE_SUMS
                                                            : from->space + 1; /* no other space */
    EXPECT(w, is_in(to->space, row->to, to->space + 1) && is_in(from->space, row->from, also),
           "%s: expected its result %s and its operand %s, got spaces %u and %u", row->name,
           row->to == TSR_COLLECTIVE_LOCATION_ALL ? "in one buffer"
                                                  : "in a slot of each virtual rank",
           row->from == TSR_COLLECTIVE_LOCATION_SUM   ? "a sum over virtual ranks"
           : row->from == TSR_COLLECTIVE_LOCATION_ALL ? "in one buffer"
                                                      : "in a slot of each virtual rank",
           (unsigned)to->space, (unsigned)from->space);
    EXPECT(w,
           to->dtype == from->dtype &&
               tsr_collective_fits(row, &to->shape, &from->shape, w->config->virtual_ranks),
           "%s: expected types that fit %" PRIu64 " virtual ranks, got %s and %s", row->name,
           w->config->virtual_ranks, tsr_type_format(to->dtype, &to->shape, wanted),
           tsr_type_format(from->dtype, &from->shape, got));
    EXPECT(w, !tsr_program_overlap(to, from),
           "%s: expected buffers apart, got %u and %u that overlap", row->name,
           command->arguments[0], command->arguments[1]);
    EXPECT(w,
           row->kind != TSR_COLLECTIVE_ALL_TO_ALL ||
               w->config->virtual_ranks <= TSR_PROGRAM_ALL_TO_ALL_MAX,
           "%s: expected at most %d virtual ranks, got %" PRIu64, row->name,
           TSR_PROGRAM_ALL_TO_ALL_MAX, w->config->virtual_ranks);
    return TSR_SUCCESS;
}

/* Such a sum covers a rank's own virtual ranks only; its contents are undefined after the
 * collective. */
static TSR_RESULT check_sums(walk *w, const tsr_program_command *command) {
    bool sums = command->opcode == TSR_OP_VRANK_SUM;
    bool takes = command->opcode == TSR_OP_COLLECTIVE && command->kernel != TSR_COLLECTIVE_SLICE;
    for (uint32_t i = 0; i < command->argument_count; i++) {
        uint32_t buffer = command->arguments[i];
        if (w->sums[buffer] == FREE) continue;
        EXPECT(w, (sums && i == 0) || (takes && i == 1),
               "arguments[%u]: expected no sum that a collective takes, got buffer %u", i, buffer);
        EXPECT(w, sums || w->sums[buffer] == SUMMED,
               "arguments[%u]: expected a loop before that sums buffer %u, got none", i, buffer);
        w->sums[buffer] = SUMMED;
    }
    return TSR_SUCCESS;
}

static void note_parts(walk *w, const tsr_program_command *command) {
    const tsr_program_buffer *buffers = w->entry->buffers;
    if (command->opcode == TSR_OP_COLLECTIVE) {
        const tsr_program_buffer *to = &buffers[command->arguments[0]];
        const tsr_program_buffer *from = &buffers[command->arguments[1]];
        if (to->space == TSR_SPACE_TENSOR && from->space == TSR_SPACE_PART &&
            to->index == from->index)
            w->scattered[to->index] = false;
    }
    for (uint32_t i = command->written_from;
         command->opcode == TSR_OP_LAUNCH && i < command->argument_count; i++) {
        const tsr_program_buffer *buffer = &buffers[command->arguments[i]];
        if (buffer->space == TSR_SPACE_PART) w->scattered[buffer->index] = true;
    }
}

/* A tensor that some entry uses as a whole must be whole on every rank at the end of each entry. */
static TSR_RESULT check_parts(walk *w) {
    memset(w->scattered, 0, w->config->tensor_count);
    for (w->index = 0; w->index < w->entry->command_count; w->index++)
        note_parts(w, &w->entry->commands[w->index]);
    for (size_t i = 0; i < w->config->tensor_count; i++)
        if (w->scattered[i] && w->holdings[i] == TSR_HOLDING_PADDED)
            FAIL(w->ctx, w->code,
                 "program: entry '%s': expected an all_gather after the command that writes parts "
                 "of tensor "
                 "'%s', which must be complete, got none",
                 w->entry->name, w->config->tensors[i].name);
    return TSR_SUCCESS;
}

/* Checks that no virtual rank gathers a tensor that another virtual rank of the same loop has
 * written. `written`: 1
 * + the index of the loop that wrote the tensor last. */
static TSR_RESULT check_loops(walk *w) {
    uint32_t *written = w->written;
    const tsr_program_entry *entry = w->entry;
    for (uint32_t begin = 0; begin < entry->command_count; begin++) {
        if (entry->commands[begin].opcode != TSR_OP_EACH_VRANK) continue;
        uint32_t end = begin + 1 + (uint32_t)entry->commands[begin].grid;
        for (uint32_t i = begin + 1; i < end; i++) {
            const tsr_program_command *command = &entry->commands[i];
            for (uint32_t k = command->written_from;
                 command->opcode == TSR_OP_LAUNCH && k < command->argument_count; k++) {
                const tsr_program_buffer *buffer = &entry->buffers[command->arguments[k]];
                if (buffer->space == TSR_SPACE_PART) written[buffer->index] = begin + 1;
            }
        }
        for (w->index = begin + 1; w->index < end; w->index++) {
            const tsr_program_command *command = &entry->commands[w->index];
            if (command->opcode != TSR_OP_COLLECTIVE) continue;
            const tsr_program_buffer *from = &entry->buffers[command->arguments[1]];
            EXPECT(w, written[from->index] != begin + 1,
                   "all_gather: expected a tensor that its loop does not write, got '%s'",
                   w->config->tensors[from->index].name);
        }
        begin = end - 1;
    }
    return TSR_SUCCESS;
}

static TSR_RESULT check_entry(walk *w) {
    bool any = false;
    TRY(w->ctx, check_parts(w));
    memset(w->written, 0, w->config->tensor_count * sizeof *w->written);
    TRY(w->ctx, check_loops(w));
    for (w->index = 0; w->index < w->entry->command_count; w->index++) {
        const tsr_program_command *command = &w->entry->commands[w->index];
        if (command->opcode != TSR_OP_COLLECTIVE) continue;
        TRY(w->ctx, check_collective(w, command));
        if (command->kernel == TSR_COLLECTIVE_SLICE) continue;
        uint32_t from = command->arguments[1];
        if (w->entry->buffers[from].space != TSR_SPACE_SUMS) continue;
        EXPECT(w, w->sums[from] == FREE,
               "collective: expected a sum that no other takes, got buffer %u again", from);
        w->sums[from] = TAKEN;
        any = true;
    }
    for (w->index = 0; any && w->index < w->entry->command_count; w->index++)
        TRY(w->ctx, check_sums(w, &w->entry->commands[w->index]));
    return TSR_SUCCESS;
}

tsr_result tsr_program_verify_collectives(tsr_ctx *ctx, const tsr_program *program,
                                          const tsr_config *config, tsr_code code) {
    tsr_result result = TSR_SUCCESS;
    tsr_holding *holdings = calloc(config->tensor_count + 1, sizeof *holdings);
    bool *scattered = calloc(config->tensor_count + 1, sizeof *scattered);
    uint32_t *written = calloc(config->tensor_count + 1, sizeof *written);
    if (!holdings || !scattered || !written)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to verify a program");
    tsr_program_find_holdings(program, config, holdings);
    for (uint32_t i = 0; i < program->entry_count && !result.code; i++) {
        walk w = {.ctx = ctx,
                  .code = code,
                  .config = config,
                  .entry = &program->entries[i],
                  .holdings = holdings,
                  .scattered = scattered,
                  .written = written};
        w.sums = calloc((size_t)w.entry->buffer_count + 1, sizeof *w.sums);
        if (!w.sums) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to verify a program");
        result = check_entry(&w);
        free(w.sums);
    }
done:
    free(holdings);
    free(scattered);
    free(written);
    return result;
}
