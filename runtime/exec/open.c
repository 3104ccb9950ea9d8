/* SPDX-License-Identifier: Apache-2.0
 *
 * The open dim of an entry. All memory is planned for its largest size. A call with another size
 * changes numbers in place: the sizes that kernels read, how many programs a launch has, how many
 * bytes a copy moves.
 */
#include "runtime/exec/bound.h"

#include <string.h>

bool tsr_open_init(tsr_executor *executor, size_t entry, char *memory) {
    open_entry *open = &executor->entries[entry].open;
    uint32_t count = executor->program->entries[entry].size_count;
    open->memory = memory;
    open->sizes = count ? TSR_NEW(&executor->arena, uint64_t, count) : NULL;
    return !count || open->sizes;
}

/* The part of a command that follows from the dim. */
static open_command find_open(const tsr_program_entry *source, const tsr_program_command *command,
                              tsr_device_command *bound) {
    open_command found = {.command = bound, .grid = command->grid_size, .cost = command->cost_size};
    if (command->opcode != TSR_OP_COPY) return found;
    const tsr_program_buffer *to = &source->buffers[command->arguments[0]];
    found.rows = bound->copy_bytes ? to->rows : 0;
    if (found.rows) found.row_bytes = bound->copy_bytes / to->shape.dims[0];
    return found;
}

bool tsr_open_bind(tsr_executor *executor, size_t entry) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    open_entry *open = &bound->open;
    if (!source->size_count) return true;
    open->commands = TSR_NEW(&executor->arena, open_command, (size_t)source->command_count + 1);
    if (!open->commands) return false;
    for (uint32_t i = 0; i < bound->part_count; i++) {
        const part *at = &bound->parts[i];
        for (uint32_t k = 0; k < at->list.command_count; k++) {
            const tsr_program_command *from = &source->commands[bound->numbers[at->first + k]];
            open_command found = find_open(source, from, &bound->commands[at->first + k]);
            if (found.grid || found.cost || found.rows)
                open->commands[open->command_count++] = found;
        }
    }
    tsr_open_set(executor, entry, executor->config->entries[entry].open.high);
    return true;
}

static void find_highest_cost(bound_entry *bound) {
    for (uint32_t i = 0; i < bound->part_count; i++) {
        tsr_device_list *list = &bound->parts[i].list;
        list->cost_max = 0;
        for (uint32_t k = 0; k < list->command_count; k++)
            if (list->commands[k].cost > list->cost_max) list->cost_max = list->commands[k].cost;
    }
}

void tsr_open_set(tsr_executor *executor, size_t entry, uint64_t dim) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    open_entry *open = &bound->open;
    if (open->dim == dim) return;
    open->dim = dim;
    tsr_program_sizes(source->sizes, source->size_count, dim, open->sizes);
    for (uint32_t i = 0; i < source->size_count; i++)
        memcpy(open->memory + i * (size_t)TSR_BUFFER_ALIGN_BYTES, &open->sizes[i],
               sizeof open->sizes[i]);
    for (uint32_t i = 0; i < open->command_count; i++) {
        const open_command *at = &open->commands[i];
        if (at->grid) at->command->grid = open->sizes[at->grid - 1];
        if (at->cost) at->command->cost = open->sizes[at->cost - 1];
        if (at->rows) at->command->copy_bytes = open->sizes[at->rows - 1] * at->row_bytes;
    }
    find_highest_cost(bound);
}

void tsr_executor_set_dim(tsr_executor *executor, size_t entry, uint64_t dim) {
    const tsr_open_dim *open = &executor->config->entries[entry].open;
    TSR_ASSERT(open->name && dim >= open->low && dim <= open->high);
    tsr_open_set(executor, entry, dim);
}
