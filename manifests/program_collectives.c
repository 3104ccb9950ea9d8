/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program may say of collectives: where their buffers lie, which types fit, and that nothing
 * else reads a sum before ranks have exchanged it.
 */
#include "manifests/program.h"

#include <stdlib.h>
#include <string.h>

static const tsr_collective_row rows[] = {
#define X(ID, number, name, from, to)                                                              \
    [number] = {name, TSR_COLLECTIVE_##ID, TSR_COLLECTIVE_PLACE_##from, TSR_COLLECTIVE_PLACE_##to},
#include "manifests/collectives.def"
#undef X
};

const tsr_collective_row *tsr_collective_get(uint32_t number) {
    return number >= 1 && number < sizeof rows / sizeof rows[0] ? &rows[number] : NULL;
}

const tsr_collective_row *tsr_collective_find(const char *name) {
    for (uint32_t i = 1; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

uint64_t tsr_collective_part(uint64_t count, uint64_t positions) {
    return count / positions + (count % positions != 0);
}

bool tsr_collective_fits(const tsr_collective_row *row, const tsr_shape *to, const tsr_shape *from,
                         uint64_t positions) {
    bool gathers = row->kind == TSR_COLLECTIVE_ALL_GATHER;
    const tsr_shape *whole = gathers ? to : from, *part = gathers ? from : to;
    uint64_t count = 0, each = 0;
    if (!tsr_shape_count(whole, &count) || !tsr_shape_count(part, &each)) return false;
    if (row->kind == TSR_COLLECTIVE_ALL_TO_ALL)
        return tsr_shape_equal(to, from) && to->rank > 0 && to->dims[0] % positions == 0;
    if (!gathers && row->kind != TSR_COLLECTIVE_REDUCE_SCATTER) return tsr_shape_equal(to, from);
    if (part->rank == 1) return each == tsr_collective_part(count, positions);
    tsr_shape times = *part;
    return part->rank > 0 && !__builtin_mul_overflow(part->dims[0], positions, &times.dims[0]) &&
           tsr_shape_equal(&times, whole);
}

/* Of buffers that a collective takes. */
typedef enum sum_state { FREE, TAKEN, SUMMED } sum_state;

typedef struct walk {
    tsr_ctx *ctx;
    tsr_code code;
    const tsr_config *config;
    const tsr_program_entry *entry;
    uint32_t index;
    sum_state *sums; /* by buffer */
} walk;

#define EXPECT(w, condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            tsr_result r_ = tsr_fail_((w)->ctx, (w)->code, 0, __FILE__, __LINE__, __VA_ARGS__);    \
            return tsr_error_prefix((w)->ctx, r_, "program: entry '%s': commands[%u]",             \
                                    (w)->entry->name, (w)->index);                                 \
        }                                                                                          \
    } while (0)

static bool lies(tsr_space space, tsr_collective_place place) {
    if (place == TSR_COLLECTIVE_PLACE_SUM) return space == TSR_SPACE_SUMS;
    if (place == TSR_COLLECTIVE_PLACE_OWN) return space == TSR_SPACE_LEAF;
    return space == TSR_SPACE_TENSOR || space == TSR_SPACE_OUTPUT || space == TSR_SPACE_WORKSPACE;
}

static TSR_RESULT check_collective(walk *w, const tsr_program_command *command) {
    const tsr_collective_row *row = tsr_collective_get(command->kernel);
    EXPECT(w, row, "collective: expected one of 1 ... %zu, got %u",
           sizeof rows / sizeof rows[0] - 1, command->kernel);
    EXPECT(w, command->grid == 0 && command->written_from == 0,
           "%s: expected grid and written_from 0, got %llu and %u", row->name,
           (unsigned long long)command->grid, command->written_from);
    const tsr_program_buffer *to = &w->entry->buffers[command->arguments[0]];
    const tsr_program_buffer *from = &w->entry->buffers[command->arguments[1]];
    char wanted[TSR_TYPE_TEXT_MAX], got[TSR_TYPE_TEXT_MAX];
    EXPECT(w, lies(to->space, row->to) && lies(from->space, row->from),
           "%s: expected its result %s and its operand %s, got spaces %u and %u", row->name,
           row->to == TSR_COLLECTIVE_PLACE_ALL ? "in one place" : "in a place of each leaf",
           row->from == TSR_COLLECTIVE_PLACE_SUM ? "a sum over leaves" : "in a place of each leaf",
           (unsigned)to->space, (unsigned)from->space);
    EXPECT(w,
           to->dtype == from->dtype &&
               tsr_collective_fits(row, &to->shape, &from->shape, w->config->virtual_ranks),
           "%s: expected types that fit %llu leaves, got %s and %s", row->name,
           (unsigned long long)w->config->virtual_ranks,
           tsr_type_format(to->dtype, &to->shape, wanted),
           tsr_type_format(from->dtype, &from->shape, got));
    EXPECT(w, !tsr_program_overlap(to, from),
           "%s: expected buffers apart, got %u and %u that overlap", row->name,
           command->arguments[0], command->arguments[1]);
    EXPECT(w,
           row->kind != TSR_COLLECTIVE_ALL_TO_ALL ||
               w->config->virtual_ranks <= TSR_PROGRAM_ALL_TO_ALL_MAX,
           "%s: expected at most %d leaves, got %llu", row->name, TSR_PROGRAM_ALL_TO_ALL_MAX,
           (unsigned long long)w->config->virtual_ranks);
    return TSR_SUCCESS;
}

/* It is that of a rank's own leaves, and what a collective leaves of it means nothing. */
static TSR_RESULT check_sums(walk *w, const tsr_program_command *command) {
    bool sums = command->opcode == TSR_OP_LEAF_SUM, takes = command->opcode == TSR_OP_COLLECTIVE;
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

static TSR_RESULT check_entry(walk *w) {
    bool any = false;
    for (w->index = 0; w->index < w->entry->command_count; w->index++) {
        const tsr_program_command *command = &w->entry->commands[w->index];
        if (command->opcode != TSR_OP_COLLECTIVE) continue;
        TRY(w->ctx, check_collective(w, command));
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
    for (uint32_t i = 0; i < program->entry_count; i++) {
        walk w = {.ctx = ctx, .code = code, .config = config, .entry = &program->entries[i]};
        w.sums = calloc((size_t)w.entry->buffer_count + 1, sizeof *w.sums);
        if (!w.sums) FAIL(ctx, TSR_MEMORY, "no memory to verify a program");
        tsr_result result = check_entry(&w);
        free(w.sums);
        if (result.code) return result;
    }
    return TSR_SUCCESS;
}
