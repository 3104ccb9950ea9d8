/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops and branches of an entry: its parts are walked with a stack of the current loops. A
 * verified program has nested ranges, at most TSR_PROGRAM_DEPTH_MAX deep.
 */
#include "runtime/exec/bound.h"

typedef struct iteration {
    const part *of; /* the control part; its `target` is the first part after the loop */
    uint32_t begin; /* first part of the loop */
    uint64_t number;
} iteration;

typedef struct walk {
    tsr_executor *executor;
    size_t entry;
    iteration loops[TSR_PROGRAM_DEPTH_MAX];
    uint32_t depth;
    uint32_t at; /* the part that runs next */
} walk;

/* Reads the scalar condition of the part. */
static tsr_result read_condition(tsr_ctx *ctx, const walk *w, const part *at, bool *out_holds) {
    const tsr_executor *executor = w->executor;
    TRY(ctx, tsr_device_download(ctx, executor->device, &executor->memory, at->condition, 1));
    *out_holds = *at->condition != 0;
    return TSR_SUCCESS;
}

/* Begins the next iteration of current loops that end here, or leaves the loops. */
static void advance(walk *w) {
    while (w->depth && w->loops[w->depth - 1].of->target == w->at) {
        iteration *loop = &w->loops[w->depth - 1];
        if (++loop->number < loop->of->control->grid) {
            w->at = loop->begin;
            return;
        }
        w->depth--;
    }
}

static void move(const part *at, uint64_t number) {
    for (uint32_t i = 0; i < at->moving_count; i++)
        *at->moving[i].address = at->moving[i].first + (int64_t)number * at->moving[i].stride_bytes;
}

/* Records the iterations for the report of a kernel's fault. */
static void note_loops(const walk *w) {
    w->executor->depth = w->depth;
    for (uint32_t i = 0; i < w->depth; i++) w->executor->iterations[i] = w->loops[i].number;
}

static tsr_result step(tsr_ctx *ctx, walk *w, part *at) {
    bool holds = false;
    w->at++;
    if (!at->control) {
        if (at->moving_count) move(at, w->loops[w->depth - 1].number);
        note_loops(w);
        return tsr_bound_run(ctx, w->executor, w->entry, at);
    }
    if (at->control->opcode == TSR_OP_REPEAT) {
        TSR_ASSERT(w->depth < TSR_PROGRAM_DEPTH_MAX);
        w->loops[w->depth++] = (iteration){.of = at, .begin = w->at};
        return TSR_SUCCESS;
    }
    TRY(ctx, read_condition(ctx, w, at, &holds));
    if (at->control->opcode == TSR_OP_STOP) {
        if (!holds) w->at = w->loops[--w->depth].of->target;
    } else if (holds != (at->control->opcode == TSR_OP_WHEN)) {
        w->at = at->target;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_control_run(tsr_ctx *ctx, tsr_executor *executor, size_t entry) {
    const bound_entry *bound = &executor->entries[entry];
    const tsr_device_type *type = executor->device->type;
    walk w = {.executor = executor, .entry = entry};
    TRY(ctx, type->upload(ctx, executor->device, &executor->memory, bound->input_range));
    for (advance(&w); w.at < bound->part_count; advance(&w))
        TRY(ctx, step(ctx, &w, &bound->parts[w.at]));
    return type->download(ctx, executor->device, &executor->memory, bound->output_range);
}
