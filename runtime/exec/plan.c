/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/plan.h"

#include "runtime/base/plural.h"
#include "runtime/base/tensor.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/reduction_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKSPACE_ALIGN_BYTES = 128 }; /* a multiple of TSR_BUFFER_ALIGN_BYTES */

bool tsr_plan_add(uint64_t *total, uint64_t size_bytes) {
    uint64_t rounded;
    if (__builtin_add_overflow(size_bytes, TSR_BUFFER_ALIGN_BYTES - 1, &rounded)) return false;
    rounded &= ~(uint64_t)(TSR_BUFFER_ALIGN_BYTES - 1);
    return !__builtin_add_overflow(*total, rounded ? rounded : TSR_BUFFER_ALIGN_BYTES, total) &&
           *total <= INT64_MAX;
}

static bool add_times(uint64_t *total, uint64_t size_bytes, uint64_t times) {
    uint64_t rounded = 0, all;
    return tsr_plan_add(&rounded, size_bytes) && !__builtin_mul_overflow(rounded, times, &all) &&
           !__builtin_add_overflow(*total, all, total) && *total <= INT64_MAX;
}

bool tsr_plan_has_vranks(const tsr_config *config, const tsr_config_entry *entry) {
    return config->virtual_ranks > 1 && entry->kind == TSR_ENTRY_TRAIN;
}

/* Size of an input for one virtual rank, or of the full input. */
bool tsr_plan_input_size(const tsr_config *config, const tsr_config_entry *entry, size_t input,
                         uint64_t *out_size) {
    const tsr_config_port *port = &entry->inputs[input];
    if (!tsr_shape_size(&port->shape, port->dtype, out_size)) return false;
    if (tsr_program_splits(config, entry, port)) *out_size /= config->virtual_ranks;
    return true;
}

bool tsr_plan_tensor_size(const tsr_config *config, const tsr_vranks *vranks, tsr_holding holding,
                          size_t tensor, uint64_t *out_size) {
    const tsr_config_tensor *of = &config->tensors[tensor];
    if (holding == TSR_HOLDING_WHOLE) return tsr_shape_size(&of->shape, of->dtype, out_size);
    uint64_t parts = holding == TSR_HOLDING_PARTS ? vranks->count : vranks->total;
    return !__builtin_mul_overflow(tsr_program_part_bytes(config, tensor), parts, out_size);
}

void tsr_plan_find_deferred(const tsr_program_entry *entry, bool *out_deferred) {
    for (uint32_t i = 0; i < entry->command_count; i++)
        if (entry->commands[i].opcode == TSR_OP_COLLECTIVE &&
            entry->commands[i].kernel != TSR_COLLECTIVE_SLICE)
            out_deferred[entry->commands[i].arguments[1]] = true;
}

static TSR_RESULT add_tensors(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                              const tsr_vranks *vranks, uint64_t *total, bool *out_fits) {
    tsr_holding *holdings = calloc(config->tensor_count + 1, sizeof *holdings);
    uint64_t size = 0;
    bool fits = true;
    if (!holdings) FAIL(ctx, TSR_MEMORY, "no memory to plan '%s'", config->name);
    tsr_program_find_holdings(program, config, holdings);
    for (size_t i = 0; i < config->tensor_count && fits; i++)
        fits = tsr_plan_tensor_size(config, vranks, holdings[i], i, &size) &&
               tsr_plan_add(total, size);
    free(holdings);
    if (fits)
        *total = (*total + WORKSPACE_ALIGN_BYTES - 1) & ~(uint64_t)(WORKSPACE_ALIGN_BYTES - 1);
    *out_fits = fits;
    return TSR_SUCCESS;
}

static bool add_ports(uint64_t *total, const tsr_config *config, const tsr_config_entry *entry,
                      const tsr_program_entry *program, const tsr_vranks *vranks) {
    uint64_t size = 0;
    bool fits = true;
    for (size_t i = 0; i < entry->input_count && fits; i++) {
        bool splits = tsr_program_splits(config, entry, &entry->inputs[i]);
        fits = tsr_plan_input_size(config, entry, i, &size) &&
               add_times(total, size, splits ? vranks->count : 1);
    }
    if (tsr_plan_has_vranks(config, entry))
        fits = fits && add_times(total, sizeof(int64_t), vranks->count);
    if (program->size_count) fits = fits && add_times(total, sizeof(int64_t), program->size_count);
    for (size_t i = 0; i < entry->output_count && fits; i++)
        fits = tsr_shape_size(&entry->outputs[i].shape, entry->outputs[i].dtype, &size) &&
               tsr_plan_add(total, size);
    return fits;
}

tsr_result tsr_plan_vranks(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                           const tsr_transport *transport, tsr_vranks *out_vranks) {
    TRY(ctx, tsr_vranks_share(ctx, config->virtual_ranks, transport ? transport->rank : 0,
                              transport ? transport->rank_count : 1, out_vranks));
    return tsr_reduction_plan_uses_rounds(ctx, config, program, out_vranks, &out_vranks->by_rounds);
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Plans the memory for virtual ranks and sums, with the maximum over the entries for each. */
static TSR_RESULT plan_sums(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                            const tsr_vranks *vranks, tsr_memory_plan *plan) {
    tsr_result result = TSR_SUCCESS;
    tsr_arena arena = {0};
    for (size_t i = 0; i < config->entry_count && !result.code; i++) {
        tsr_reduction_plan reductions = {0};
        if (!tsr_reduction_plan_init(config, program, i, vranks, &arena, &reductions))
            result = tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory to plan '%s'",
                               config->name);
        plan->vrank_bytes = larger(plan->vrank_bytes, reductions.vrank_bytes);
        plan->sum_bytes = larger(plan->sum_bytes, reductions.sum_bytes);
        plan->part_bytes = larger(plan->part_bytes, reductions.part_bytes);
        plan->round_bytes = larger(plan->round_bytes, reductions.round_bytes);
    }
    tsr_arena_finish(&arena);
    return result;
}

/* Maximum over the entries; handlers run while another entry's values are offloaded. */
static bool plan_offloaded(const tsr_program *program, tsr_memory_plan *plan) {
    for (uint32_t i = 0; i < program->entry_count; i++) {
        uint64_t *most = tsr_program_is_handler(program, i) ? &plan->offloaded_handler_bytes
                                                            : &plan->offloaded_bytes;
        *most = larger(*most, tsr_program_space_bytes(&program->entries[i], TSR_SPACE_HOST));
    }
    return !plan->offloaded_handler_bytes ||
           tsr_plan_add(&plan->offloaded_bytes, plan->offloaded_handler_bytes);
}

tsr_result tsr_executor_plan(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                             const tsr_transport *transport, tsr_memory_plan *out_plan) {
    tsr_memory_plan plan = {0};
    tsr_vranks vranks;
    tsr_prepacked_cursor cursor = {0};
    const tsr_program_buffer *made;
    bool fits = true;
    TRY(ctx, tsr_plan_vranks(ctx, config, program, transport, &vranks));
    TRY(ctx, plan_sums(ctx, config, program, &vranks, &plan));
    TRY(ctx, add_tensors(ctx, config, program, &vranks, &plan.tensor_bytes, &fits));
    while ((made = tsr_program_next_prepacked(program, &cursor)))
        fits = fits && tsr_plan_add(&plan.prepacked_bytes, tsr_program_buffer_size(made));
    for (size_t i = 0; i < config->entry_count; i++) {
        const tsr_program_entry *entry = &program->entries[i];
        uint64_t workspace = 0;
        fits = fits && tsr_plan_add(&workspace, entry->workspace_bytes) &&
               add_ports(&plan.port_bytes, config, &config->entries[i], entry, &vranks);
        uint64_t *most = tsr_program_is_handler(program, (uint32_t)i) ? &plan.handler_bytes
                                                                      : &plan.workspace_bytes;
        if (workspace > *most) *most = workspace;
    }
    fits = fits && (!plan.handler_bytes || tsr_plan_add(&plan.workspace_bytes, plan.handler_bytes));
    fits = fits && tsr_plan_add(&plan.total_bytes, plan.tensor_bytes) &&
           (!plan.prepacked_bytes || tsr_plan_add(&plan.total_bytes, plan.prepacked_bytes)) &&
           tsr_plan_add(&plan.total_bytes, plan.workspace_bytes) &&
           (!plan.vrank_bytes || add_times(&plan.total_bytes, plan.vrank_bytes, vranks.count)) &&
           (!plan.sum_bytes ||
            add_times(&plan.total_bytes, plan.sum_bytes, tsr_vranks_count_slots(&vranks))) &&
           (!plan.part_bytes || tsr_plan_add(&plan.total_bytes, plan.part_bytes)) &&
           (!plan.round_bytes || tsr_plan_add(&plan.total_bytes, plan.round_bytes)) &&
           tsr_plan_add(&plan.total_bytes, plan.port_bytes) && plan_offloaded(program, &plan);
    if (!fits) FAIL(ctx, TSR_MEMORY, "the memory plan of '%s' exceeds 2^63 bytes", config->name);
    *out_plan = plan;
    return TSR_SUCCESS;
}

/* Finds the next tensor in descending order of size: the largest one that is smaller than `below`,
 * or has the same size and comes after `after`; of equal ones the first. Returns tensor_count if no
 * tensor is left. */
static size_t next_largest(const tsr_config *config, uint64_t below, size_t after,
                           uint64_t *out_size) {
    size_t found = config->tensor_count;
    *out_size = 0;
    for (size_t i = 0; i < config->tensor_count; i++) {
        uint64_t size = 0;
        if (!tsr_shape_size(&config->tensors[i].shape, config->tensors[i].dtype, &size)) continue;
        bool is_behind = size < below || (size == below && i > after);
        if (!is_behind || (found < config->tensor_count && size <= *out_size)) continue;
        found = i;
        *out_size = size;
    }
    return found;
}

const char *tsr_executor_describe_plan(const tsr_config *config, const tsr_memory_plan *plan,
                                       tsr_arena *arena) {
    enum { NAMED = 3, NAME_SHOWN = 48, TEXT_MAX = 512 };
    char *text = tsr_arena_alloc(arena, TEXT_MAX, 1, 1);
    uint64_t size = UINT64_MAX;
    size_t index = 0, named = 0;
    if (!text) return NULL;
    size_t at = (size_t)snprintf(
        text, TEXT_MAX, "'%.*s' plans %" PRIu64 " byte%s, including %" PRIu64 " for tensors",
        NAME_SHOWN, config->name, plan->total_bytes, TSR_PLURAL(plan->total_bytes),
        plan->tensor_bytes);
    for (; named < NAMED; named++) {
        index = next_largest(config, size, index, &size);
        if (index == config->tensor_count) break;
        at += (size_t)snprintf(text + at, TEXT_MAX - at, "%s%.*s (%" PRIu64 ")",
                               named ? ", " : ": ", NAME_SHOWN, config->tensors[index].name, size);
    }
    if (config->tensor_count > named)
        at += (size_t)snprintf(text + at, TEXT_MAX - at, " and %zu more",
                               config->tensor_count - named);
    if (plan->offloaded_bytes)
        snprintf(text + at, TEXT_MAX - at,
                 "; and %" PRIu64 " of the host's memory for values that wait",
                 plan->offloaded_bytes);
    return text;
}
