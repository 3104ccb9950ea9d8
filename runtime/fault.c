/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fault.h"

#include <inttypes.h>
#include <stdio.h>

/* Returns the user's name for a buffer: the name of the input or tensor, else the value's name in
 * the source. */
static const char *name_buffer(const tsr_fault_location *location,
                               const tsr_program_buffer *buffer) {
    if (buffer->space == TSR_SPACE_INPUT) return location->entry->inputs[buffer->index].name;
    if (buffer->space == TSR_SPACE_TENSOR) return location->config->tensors[buffer->index].name;
    return buffer->name[0] ? buffer->name : "an index";
}

/* Returns the row of the batch with a fault in a data input, and makes fault->element an element of
 * the whole batch. */
static uint64_t find_row(const tsr_fault_location *location, const tsr_program_buffer *buffer,
                         tsr_fault *fault) {
    uint64_t count = 0;
    if (buffer->space != TSR_SPACE_INPUT || !location->entry->batch) return UINT64_MAX;
    const tsr_config_port *port = &location->entry->inputs[buffer->index];
    if (port->source != TSR_PORT_DATA) return UINT64_MAX;
    bool fits = tsr_shape_count(&port->shape, &count);
    TSR_ASSERT(fits);
    if (fault->element < 0 || (uint64_t)fault->element >= count) return UINT64_MAX;
    uint64_t of_row = count / location->entry->batch;
    fault->element += (int64_t)(location->first_row * of_row);
    return (uint64_t)fault->element / of_row;
}

/* ---- loops ---- */

/* Finds the loops that contain command `index`, outermost first: the indices of their first
 * commands. */
static uint32_t find_loops(const tsr_program_entry *program, uint32_t index,
                           uint32_t out_begins[static TSR_PROGRAM_DEPTH_MAX]) {
    uint32_t depth = 0;
    for (uint32_t i = 0; i < index; i++) {
        const tsr_program_command *command = &program->commands[i];
        if (command->opcode == TSR_OP_REPEAT && index - i <= command->kernel)
            out_begins[depth++] = i;
    }
    return depth;
}

static bool writes(const tsr_program_command *command, uint32_t buffer) {
    uint32_t end = tsr_program_written_end(command);
    for (uint32_t i = command->written_from; i < end; i++)
        if (command->arguments[i] == buffer) return true;
    return false;
}

/* If command *at reads a slice that an enclosing loop took from a tensor: finds that tensor, the
 * element in it, and the command that took the slice, whose operand may itself be a slice. */
static bool follow_slice(const tsr_fault_location *location, uint32_t *at, uint32_t *buffer,
                         int64_t *element) {
    const tsr_program_entry *program = location->program;
    uint32_t begins[TSR_PROGRAM_DEPTH_MAX];
    uint64_t count = 0;
    uint32_t i = *at;
    while (i > 0 && !writes(&program->commands[i - 1], *buffer)) i--;
    if (i == 0 || program->commands[--i].opcode != TSR_OP_TAKE) return false;
    const tsr_program_command *take = &program->commands[i];
    uint32_t depth = find_loops(program, i, begins);
    TSR_ASSERT(depth > 0); /* tsr_program_verify ensures it */
    const tsr_program_command *loop = &program->commands[begins[depth - 1]];
    if (depth > location->depth || *at - begins[depth - 1] > loop->kernel) return false;
    uint64_t number = location->iterations[depth - 1];
    bool fits = tsr_shape_count(&program->buffers[*buffer].shape, &count);
    TSR_ASSERT(fits && number < loop->grid);
    *element += (int64_t)((take->kernel ? loop->grid - 1 - number : number) * count);
    *buffer = take->arguments[1];
    *at = i;
    return true;
}

/* Formats " in iteration 3", " in iteration 2, 3" for nested loops, or "". */
static void format_iterations(const tsr_fault_location *location, char *text, size_t capacity) {
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < location->depth && used < capacity; i++) {
        int length = snprintf(text + used, capacity - used, "%s%" PRIu64,
                              i ? ", " : " in iteration ", location->iterations[i]);
        if (length > 0) used += (size_t)length;
    }
}

tsr_result tsr_fault_report(tsr_ctx *ctx, const tsr_fault_location *location,
                            const tsr_fault *fault, uint64_t *out_row) {
    const tsr_program_command *command = location->command;
    const char *name = "an index";
    char iterations[32 + TSR_PROGRAM_DEPTH_MAX * 22], rank[48] = "";
    tsr_fault met = *fault;
    *out_row = UINT64_MAX;
    if (fault->argument >= 0 && fault->argument < (int64_t)command->argument_count) {
        uint32_t index = command->arguments[fault->argument];
        uint32_t at = (uint32_t)(command - location->program->commands);
        while (location->depth > 0 && follow_slice(location, &at, &index, &met.element)) continue;
        const tsr_program_buffer *buffer = &location->program->buffers[index];
        name = name_buffer(location, buffer);
        *out_row = find_row(location, buffer, &met);
        bool is_computed = buffer->space == TSR_SPACE_WORKSPACE || buffer->space == TSR_SPACE_VRANK;
        if (location->vrank >= 0 && is_computed)
            snprintf(rank, sizeof rank, " on virtual rank %" PRId64, location->vrank);
    }
    format_iterations(location, iterations, sizeof iterations);
    FAIL(ctx, TSR_DATA, "%s[%" PRId64 "] is %" PRId64 "; expected 0 to %" PRId64 "%s%s%s%s", name,
         met.element, met.value, met.limit - 1, iterations, rank,
         command->location[0] ? " at " : "", command->location);
}
