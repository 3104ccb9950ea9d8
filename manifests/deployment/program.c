/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives of the deployment manifest, from the host program: the bytes that a step sends with
 * one rank for each virtual rank, by ring algorithms.
 */
#include "manifests/deployment.h"

#include <stdlib.h>
#include <string.h>

typedef struct named_step {
    const tsr_deployment_step *step;
    uint64_t count; /* elements */
    size_t taken;   /* first step of this size: steps whose gradients have been found */
} named_step;

typedef struct finder {
    tsr_ctx *ctx;
    const tsr_config *config;
    const tsr_program_entry *entry;
    tsr_deployment *deployment;
    const char *axis;
    bool *taken;       /* buffers of the entry that are sums with a separate collective */
    named_step *steps; /* sorted by size of the parameter */
    size_t step_count;
    uint64_t *count; /* elements that each collective without a name sums; else 0 */
} finder;

/* Returns the name of the axes that divide the batch: "data", or "dataxdp". */
static const char *name_axis(const tsr_deployment *d, tsr_arena *arena) {
    const char *name = "";
    for (size_t i = 0; i < d->axis_count && name; i++)
        if (d->axes[i].batch)
            name = tsr_arena_printf(arena, "%s%s%s", name, name[0] ? "x" : "", d->axes[i].name);
    return name && !name[0] ? "data" : name;
}

static const char *tensor_of(const finder *f, const tsr_program_buffer *buffer) {
    bool is_tensor = buffer->space == TSR_SPACE_TENSOR || buffer->space == TSR_SPACE_PART;
    return is_tensor ? f->config->tensors[buffer->index].name : NULL;
}

/* Finds the sums that their own collectives exchange, for each buffer. */
static bool find_taken(finder *f, tsr_arena *arena) {
    f->taken = TSR_NEW(arena, bool, f->entry->buffer_count + 1);
    for (uint32_t i = 0; f->taken && i < f->entry->command_count; i++) {
        const tsr_program_command *command = &f->entry->commands[i];
        if (command->opcode == TSR_OP_COLLECTIVE && command->kernel != TSR_COLLECTIVE_SLICE)
            f->taken[command->arguments[1]] = true;
    }
    return f->taken;
}

/* Returns the row of the collective that the command runs; NULL if it runs none. */
static const tsr_collective_row *row_of(const finder *f, const tsr_program_command *command) {
    if (command->opcode == TSR_OP_VRANK_GATHER)
        return tsr_collective_get(TSR_COLLECTIVE_ALL_GATHER);
    if (command->opcode == TSR_OP_VRANK_SUM && !f->taken[command->arguments[0]])
        return tsr_collective_get(TSR_COLLECTIVE_ALL_REDUCE);
    if (command->opcode != TSR_OP_COLLECTIVE || command->kernel == TSR_COLLECTIVE_SLICE)
        return NULL;
    return tsr_collective_get(command->kernel);
}

static void add(finder *f, const tsr_program_command *command, const tsr_collective_row *row) {
    const tsr_program_buffer *to = &f->entry->buffers[command->arguments[0]];
    const tsr_program_buffer *from = &f->entry->buffers[command->arguments[1]];
    bool sums = row->from == TSR_COLLECTIVE_LOCATION_SUM;
    bool scatters = row->kind == TSR_COLLECTIVE_REDUCE_SCATTER;
    uint64_t whole = tsr_program_buffer_size(scatters ? from : to);
    uint64_t others = f->config->virtual_ranks - 1;
    const char *tensor = tensor_of(f, from);
    size_t at = f->deployment->collective_count++;
    if (!tensor) tensor = tensor_of(f, to);
    f->count[at] = sums && !tensor ? whole / tsr_dtype_size(from->dtype) : 0;
    f->deployment->collectives[at] = (tsr_deployment_collective){
        .entry = f->entry->name,
        .kind = row->name,
        .axis = f->axis,
        .tensor = tensor,
        .positions = f->config->virtual_ranks,
        .bytes = others * whole * (row->kind == TSR_COLLECTIVE_ALL_REDUCE ? 2 : 1)};
}

/* ---- names of gradients ---------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    const named_step *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? -1 : 1;
    int entries = strcmp(x->step->entry, y->step->entry);
    return entries ? entries : (x->step > y->step) - (x->step < y->step);
}

static bool sort_steps(finder *f, tsr_arena *arena) {
    const tsr_deployment *d = f->deployment;
    f->steps = TSR_NEW(arena, named_step, d->step_count + 1);
    for (size_t i = 0; f->steps && i < d->step_count; i++) {
        const tsr_config_tensor *tensor = tsr_config_find_tensor(f->config, d->steps[i].tensor);
        named_step *step = &f->steps[f->step_count];
        *step = (named_step){.step = &d->steps[i]};
        f->step_count += tensor && tsr_shape_count(&tensor->shape, &step->count);
    }
    if (f->steps) qsort(f->steps, f->step_count, sizeof *f->steps, by_size);
    return f->steps;
}

/* Returns the index of the first step with such a gradient, or the index where it would be
 * inserted. */
static size_t find_step(const finder *f, uint64_t count, const char *entry) {
    size_t low = 0, high = f->step_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const named_step *at = &f->steps[middle];
        bool before =
            at->count < count || (at->count == count && strcmp(at->step->entry, entry) < 0);
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The manifest has no other way to distinguish gradients of the same size and kind. */
static void name_sums(finder *f, const char *kind) {
    for (size_t i = 0; i < f->deployment->collective_count; i++) {
        tsr_deployment_collective *of = &f->deployment->collectives[i];
        if (f->count[i] == 0 || strcmp(of->kind, kind) != 0) continue;
        size_t first = find_step(f, f->count[i], of->entry);
        if (first == f->step_count) continue;
        size_t next = first + f->steps[first].taken;
        bool fits = next < f->step_count && f->steps[next].count == f->count[i] &&
                    strcmp(f->steps[next].step->entry, of->entry) == 0;
        if (!fits) continue;
        of->tensor = f->steps[next].step->tensor;
        f->steps[first].taken++;
        f->count[i] = 0;
    }
}

tsr_result tsr_deployment_find_collectives(tsr_ctx *ctx, const tsr_config *config,
                                           const tsr_program *program, tsr_arena *arena,
                                           tsr_deployment *io_deployment) {
    finder f = {.ctx = ctx, .config = config, .deployment = io_deployment};
    size_t commands = 0;
    for (uint32_t e = 0; e < program->entry_count; e++)
        commands += program->entries[e].command_count;
    f.axis = name_axis(io_deployment, arena);
    f.count = TSR_NEW(arena, uint64_t, commands + 1);
    io_deployment->collectives = TSR_NEW(arena, tsr_deployment_collective, commands + 1);
    io_deployment->collective_count = 0;
    if (!f.axis || !f.count || !io_deployment->collectives || !sort_steps(&f, arena))
        FAIL(ctx, TSR_MEMORY, "no memory for the collectives of the deployment manifest");
    for (uint32_t e = 0; config->virtual_ranks > 1 && e < program->entry_count; e++) {
        f.entry = &program->entries[e];
        if (!find_taken(&f, arena))
            FAIL(ctx, TSR_MEMORY, "no memory for the collectives of the deployment manifest");
        for (uint32_t i = 0; i < f.entry->command_count; i++) {
            const tsr_collective_row *row = row_of(&f, &f.entry->commands[i]);
            if (row) add(&f, &f.entry->commands[i], row);
        }
    }
    name_sums(&f, "reduce_scatter");
    name_sums(&f, "all_reduce");
    return TSR_SUCCESS;
}
