/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifies the offloads of a program: no other command accesses the buffers of a copy in progress
 * until it is awaited, and every prefetch reads a value as it was offloaded.
 */
#include "manifests/program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A value that an offload left in the host's memory and that nothing has overwritten since. */
typedef struct offloaded {
    uint64_t begin, end; /* bytes */
    uint32_t buffer, command;
} offloaded;

typedef struct walk {
    tsr_ctx *ctx;
    tsr_code code;
    const tsr_program_entry *entry;
    uint32_t index;                                /* index of the command */
    uint32_t in_flight[TSR_PROGRAM_IN_FLIGHT_MAX]; /* commands that are not awaited yet */
    uint32_t in_flight_count;
    offloaded *offloaded; /* sorted by address; they do not overlap */
    uint32_t offloaded_count;
} walk;

#define EXPECT TSR_PROGRAM_EXPECT

static const char *name_of(const tsr_program_command *command) {
    return command->opcode == TSR_OP_OFFLOAD ? "offload" : "prefetch";
}

static const tsr_program_buffer *buffer_of(const walk *w, const tsr_program_command *command,
                                           uint32_t argument) {
    return &w->entry->buffers[command->arguments[argument]];
}

static TSR_RESULT check_spaces(const walk *w, const tsr_program_command *command) {
    bool offloads = command->opcode == TSR_OP_OFFLOAD;
    for (uint32_t i = 0; i < command->argument_count && !tsr_program_is_offload(command); i++)
        EXPECT(w, buffer_of(w, command, i)->space != TSR_SPACE_HOST,
               "arguments[%u]: expected the host's memory in an offload or prefetch alone, got "
               "opcode %u",
               i, (unsigned)command->opcode);
    if (!tsr_program_is_offload(command)) return TSR_SUCCESS;
    tsr_space to = offloads ? TSR_SPACE_HOST : TSR_SPACE_WORKSPACE;
    tsr_space from = offloads ? TSR_SPACE_WORKSPACE : TSR_SPACE_HOST;
    EXPECT(w, buffer_of(w, command, 0)->space == to && buffer_of(w, command, 1)->space == from,
           "%s: expected spaces %u and %u, got %u and %u", name_of(command), (unsigned)to,
           (unsigned)from, (unsigned)buffer_of(w, command, 0)->space,
           (unsigned)buffer_of(w, command, 1)->space);
    EXPECT(w, tsr_program_buffer_size(buffer_of(w, command, 0)) > 0,
           "%s: expected at least one byte, got none", name_of(command));
    return TSR_SUCCESS;
}

/* A copy and its await are in one command list of a device: no command between them may end the
 * list. */
static TSR_RESULT check_between(const walk *w, const tsr_program_command *command) {
    bool stays = command->opcode == TSR_OP_LAUNCH || command->opcode == TSR_OP_COPY ||
                 command->opcode == TSR_OP_PREPARE || command->opcode == TSR_OP_AWAIT ||
                 tsr_program_is_offload(command);
    EXPECT(w, stays || w->in_flight_count == 0,
           "expected launches, copies and prepares until command %u is awaited, got opcode %u",
           w->in_flight[0], (unsigned)command->opcode);
    return TSR_SUCCESS;
}

/* Checks argument `i` against the buffers that command `copying` reads and writes. */
static TSR_RESULT check_apart(const walk *w, const tsr_program_command *command, uint32_t i,
                              uint32_t copying) {
    const tsr_program_command *copy = &w->entry->commands[copying];
    const tsr_program_buffer *buffer = buffer_of(w, command, i);
    bool written = i >= command->written_from && i < tsr_program_written_end(command);
    EXPECT(w, !tsr_program_overlap(buffer, buffer_of(w, copy, 0)),
           "arguments[%u]: expected command %u to be awaited before buffer %u, to which it copies, "
           "is touched, got buffer %u",
           i, copying, copy->arguments[0], command->arguments[i]);
    EXPECT(w, !written || !tsr_program_overlap(buffer, buffer_of(w, copy, 1)),
           "arguments[%u]: expected command %u to be awaited before buffer %u, which it copies, is "
           "written, got buffer %u",
           i, copying, copy->arguments[1], command->arguments[i]);
    return TSR_SUCCESS;
}

/* Returns the index of the first value that ends after `begin`; offloaded_count if no value does.
 */
static uint32_t find_offloaded(const walk *w, uint64_t begin) {
    uint32_t low = 0, high = w->offloaded_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (w->offloaded[middle].end > begin)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Replaces all values that the new one overwrites. */
static void record_offload(walk *w, const tsr_program_command *offload) {
    const tsr_program_buffer *to = buffer_of(w, offload, 0);
    const offloaded made = {to->offset_bytes, to->offset_bytes + tsr_program_buffer_size(to),
                            offload->arguments[0], w->index};
    uint32_t first = find_offloaded(w, made.begin), last = first;
    while (last < w->offloaded_count && w->offloaded[last].begin < made.end) last++;
    memmove(&w->offloaded[first + 1], &w->offloaded[last],
            (w->offloaded_count - last) * sizeof *w->offloaded);
    w->offloaded_count = w->offloaded_count - (last - first) + 1;
    w->offloaded[first] = made;
}

static TSR_RESULT check_prefetch(const walk *w, const tsr_program_command *command) {
    const tsr_program_buffer *from = buffer_of(w, command, 1);
    char wanted[TSR_TYPE_TEXT_MAX], got[TSR_TYPE_TEXT_MAX];
    uint32_t at = find_offloaded(w, from->offset_bytes);
    uint64_t end = from->offset_bytes + tsr_program_buffer_size(from);
    EXPECT(w, at < w->offloaded_count && w->offloaded[at].begin < end,
           "prefetch: expected an offload before it to %s at %" PRIu64 ", got none",
           tsr_type_format(from->dtype, &from->shape, wanted), from->offset_bytes);
    const tsr_program_buffer *last = &w->entry->buffers[w->offloaded[at].buffer];
    EXPECT(w,
           last->offset_bytes == from->offset_bytes && last->dtype == from->dtype &&
               tsr_shape_equal(&last->shape, &from->shape),
           "prefetch: expected the value that was offloaded there last, which is %s at %" PRIu64
           " by command %u, got %s at %" PRIu64,
           tsr_type_format(last->dtype, &last->shape, wanted), last->offset_bytes,
           w->offloaded[at].command, tsr_type_format(from->dtype, &from->shape, got),
           from->offset_bytes);
    return TSR_SUCCESS;
}

static TSR_RESULT begin_copy(walk *w, const tsr_program_command *command) {
    EXPECT(w, w->in_flight_count < TSR_PROGRAM_IN_FLIGHT_MAX,
           "%s: expected at most %d copies that are not awaited yet, got one more",
           name_of(command), TSR_PROGRAM_IN_FLIGHT_MAX);
    if (command->opcode == TSR_OP_PREFETCH)
        TRY(w->ctx, check_prefetch(w, command));
    else
        record_offload(w, command);
    w->in_flight[w->in_flight_count++] = w->index;
    return TSR_SUCCESS;
}

static void end_copy(walk *w, uint32_t awaited) {
    for (uint32_t i = 0; i < w->in_flight_count; i++)
        if (w->in_flight[i] == awaited) w->in_flight[i--] = w->in_flight[--w->in_flight_count];
}

static TSR_RESULT check_entry(walk *w) {
    for (w->index = 0; w->index < w->entry->command_count; w->index++) {
        const tsr_program_command *command = &w->entry->commands[w->index];
        TRY(w->ctx, check_spaces(w, command));
        TRY(w->ctx, check_between(w, command));
        for (uint32_t i = 0; i < command->argument_count; i++)
            for (uint32_t k = 0; k < w->in_flight_count; k++)
                TRY(w->ctx, check_apart(w, command, i, w->in_flight[k]));
        if (tsr_program_is_offload(command)) TRY(w->ctx, begin_copy(w, command));
        if (command->opcode == TSR_OP_AWAIT) end_copy(w, command->kernel);
    }
    return TSR_SUCCESS;
}

/* Finds host memory that a run would allocate but never use. */
static TSR_RESULT check_host(const walk *w, bool *used) {
    const tsr_program_entry *entry = w->entry;
    for (uint32_t i = 0; i < entry->command_count; i++)
        if (tsr_program_is_offload(&entry->commands[i]))
            used[entry->commands[i].arguments[entry->commands[i].opcode == TSR_OP_PREFETCH]] = true;
    for (uint32_t i = 0; i < entry->buffer_count; i++)
        if (entry->buffers[i].space == TSR_SPACE_HOST && !used[i])
            FAIL(w->ctx, w->code,
                 "program: entry '%s': buffers[%u]: expected an offload or prefetch of the value "
                 "in the host's memory, got none",
                 entry->name, i);
    return TSR_SUCCESS;
}

bool tsr_program_has_offloads(const tsr_program_entry *entry) {
    for (uint32_t i = 0; i < entry->buffer_count; i++)
        if (entry->buffers[i].space == TSR_SPACE_HOST) return true;
    for (uint32_t i = 0; i < entry->command_count; i++)
        if (tsr_program_is_offload(&entry->commands[i])) return true;
    return false;
}

tsr_result tsr_program_verify_offloads(tsr_ctx *ctx, const tsr_program *program, tsr_code code) {
    for (uint32_t i = 0; i < program->entry_count; i++) {
        walk w = {.ctx = ctx, .code = code, .entry = &program->entries[i]};
        tsr_result result = TSR_SUCCESS;
        size_t offloads = 1;
        if (!tsr_program_has_offloads(w.entry)) continue;
        for (uint32_t k = 0; k < w.entry->command_count; k++)
            offloads += w.entry->commands[k].opcode == TSR_OP_OFFLOAD;
        w.offloaded = calloc(offloads + 1, sizeof *w.offloaded);
        bool *used = calloc(w.entry->buffer_count + 1, sizeof *used);
        if (!w.offloaded || !used)
            result =
                tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory to verify a program");
        if (!result.code) result = check_entry(&w);
        if (!result.code) result = check_host(&w, used);
        free(used);
        free(w.offloaded);
        TRY(ctx, result);
    }
    return TSR_SUCCESS;
}
