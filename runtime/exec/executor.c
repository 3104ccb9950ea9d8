/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/plural.h"
#include "runtime/exec/bound.h"
#include "runtime/exec/numerics.h"
#include "runtime/exec/plan.h"
#include "runtime/fault.h"
#include "runtime/transport/collective.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The offsets of buffers depend only on the number of virtual ranks of a rank. */
static tsr_result open_exchanger(tsr_ctx *ctx, tsr_executor *executor) {
    const tsr_vranks *vranks = &executor->vranks;
    const tsr_exchanger_options options = {.device = executor->device,
                                           .memory = &executor->memory,
                                           .transport = executor->transport,
                                           .same_offsets = vranks->total % vranks->rank_count == 0};
    if (vranks->rank_count == 1) return TSR_SUCCESS;
    return tsr_exchanger_open(ctx, &options, &executor->exchanger);
}

static tsr_result set_up(tsr_ctx *ctx, tsr_executor *executor, const tsr_memory_plan *plan) {
    tsr_device *device = executor->device;
    tsr_device_list *list;
    uint32_t most = 1; /* commands of the longest list */
    const tsr_device_range ports = {plan->total_bytes - plan->port_bytes, plan->port_bytes};
    TRY(ctx, device->type->allocate(ctx, device, plan->total_bytes, plan->offloaded_bytes, ports,
                                    &executor->memory));
    TRY(ctx, open_exchanger(ctx, executor));
    if (!tsr_bound_bind(executor, plan))
        FAIL(ctx, TSR_MEMORY, "no memory for the commands of '%s'", executor->config->name);
    for (size_t i = 0; i < executor->config->entry_count; i++)
        for (uint32_t k = 0; k < executor->entries[i].part_count; k++)
            for (uint32_t n = 0; (list = tsr_bound_list(&executor->entries[i].parts[k], n)); n++) {
                if (list->command_count > most) most = list->command_count;
                TRY(ctx, device->type->prepare(ctx, device, &executor->memory, list));
            }
    for (uint32_t i = 0; i < executor->prepacked_count; i++)
        TRY(ctx,
            device->type->prepare(ctx, device, &executor->memory, &executor->prepacked[i].list));
    if (ctx->trace &&
        !tsr_probe_init(executor->program, plan, most, &executor->arena, &executor->probe))
        FAIL(ctx, TSR_MEMORY, "no memory to trace '%s'", executor->config->name);
    return TSR_SUCCESS;
}

tsr_result tsr_executor_create(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                               tsr_device *device, tsr_transport *transport,
                               tsr_executor **out_executor) {
    tsr_memory_plan plan;
    TSR_ASSERT(config->entry_count == program->entry_count);
    for (size_t i = 0; i < config->entry_count && !device->type->shares_memory; i++)
        if (config->entries[i].open.name)
            FAIL(ctx, TSR_MACHINE,
                 "dim '%s' of entry '%s' is open, which only CPUs can run; %s has its own memory",
                 config->entries[i].open.name, config->entries[i].name,
                 device->type->describe(device));
    TRY(ctx, tsr_executor_plan(ctx, config, program, transport, &plan));
    tsr_executor *executor = calloc(1, sizeof *executor);
    if (!executor) FAIL(ctx, TSR_MEMORY, "no memory for the executor of '%s'", config->name);
    *executor = (tsr_executor){.config = config,
                               .program = program,
                               .device = device,
                               .transport = transport,
                               .prepacked_count = tsr_program_prepacked_count(program),
                               .failed_region = NO_REGION};
    tsr_result result = tsr_plan_vranks(ctx, config, program, transport, &executor->vranks);
    if (!result.code) result = set_up(ctx, executor, &plan);
    if (result.code)
        tsr_executor_destroy(executor);
    else
        *out_executor = executor;
    return result;
}

void tsr_bound_finish(tsr_executor *executor, tsr_device_list *list) {
    if (list->prepared) executor->device->type->finish(executor->device, list);
}

void tsr_executor_destroy(tsr_executor *executor) {
    if (!executor) return;
    const tsr_device_type *type = executor->device->type;
    tsr_device_list *list;
    tsr_exchanger_close(executor->exchanger);
    tsr_numerics_finish(executor);
    for (size_t i = 0; executor->entries && i < executor->config->entry_count; i++)
        for (uint32_t k = 0; k < executor->entries[i].part_count; k++)
            for (uint32_t n = 0; (list = tsr_bound_list(&executor->entries[i].parts[k], n)); n++)
                tsr_bound_finish(executor, list);
    for (uint32_t i = 0; executor->prepacked && i < executor->prepacked_count; i++)
        tsr_bound_finish(executor, &executor->prepacked[i].list);
    if (executor->memory.host) type->release(executor->device, &executor->memory);
    tsr_arena_finish(&executor->arena);
    free(executor);
}

/* Finds the next contiguous tensors, from tensor *at, whose copy on the device (or host) is
 * invalid. Returns false if no tensor is left; *at becomes the tensor after them. */
static bool next_bad(const tsr_executor *executor, bool on_device, size_t *at,
                     tsr_device_range *out_range) {
    size_t count = executor->config->tensor_count, first = *at, last;
    const copies *of = executor->copies;
    while (first < count && (on_device ? of[first].device : of[first].host)) first++;
    for (last = first; last < count && !(on_device ? of[last].device : of[last].host);) last++;
    const char *begin = executor->tensors[first], *end = executor->tensors[last];
    *out_range =
        (tsr_device_range){(uint64_t)(begin - executor->memory.host), (uint64_t)(end - begin)};
    *at = last;
    return last > first;
}

tsr_result tsr_executor_fetch(tsr_ctx *ctx, tsr_executor *executor) {
    const tsr_device_type *type = executor->device->type;
    tsr_device_range range;
    bool some = false;
    for (size_t at = 0; next_bad(executor, false, &at, &range); some = true) {
        if (!some && executor->memory.guard)
            executor->memory.guard(executor->memory.guard_user, NULL);
        TRY(ctx, type->download(ctx, executor->device, &executor->memory, range));
    }
    /* Other threads may be reading the marks. */
    if (!some) return TSR_SUCCESS;
    for (size_t i = 0; i < executor->config->tensor_count; i++) executor->copies[i].host = true;
    return TSR_SUCCESS;
}

void tsr_executor_wait_for_readers(const tsr_executor *executor, size_t tensor) {
    const tsr_device_memory *memory = &executor->memory;
    bool shares = executor->device->type->shares_memory;
    if (memory->guard) memory->guard(memory->guard_user, shares ? executor->tensors[tensor] : NULL);
}

tsr_result tsr_executor_fetch_tensor(tsr_ctx *ctx, tsr_executor *executor, size_t tensor) {
    uint64_t size = 0;
    if (executor->copies[tensor].host) return TSR_SUCCESS;
    bool fits = tsr_plan_tensor_size(executor->config, &executor->vranks,
                                     executor->holdings[tensor], tensor, &size);
    TSR_ASSERT(fits);
    tsr_executor_wait_for_readers(executor, tensor);
    TRY(ctx, tsr_device_download(ctx, executor->device, &executor->memory,
                                 executor->tensors[tensor], size));
    executor->copies[tensor].host = true;
    return TSR_SUCCESS;
}

tsr_result tsr_executor_claim(tsr_ctx *ctx, tsr_executor *executor) {
    if (executor->memory.guard) executor->memory.guard(executor->memory.guard_user, NULL);
    TRY(ctx, tsr_executor_fetch(ctx, executor));
    tsr_executor_touch(executor);
    return TSR_SUCCESS;
}

static void change(tsr_executor *executor, size_t tensor) {
    copies *of = &executor->copies[tensor];
    if (of->host) of->device = of->zero = false;
    executor->versions[tensor]++;
    executor->change_count++;
}

uint64_t tsr_executor_count_changes(const tsr_executor *e) { return e->change_count; }

void tsr_executor_touch(tsr_executor *executor) {
    for (size_t i = 0; i < executor->config->tensor_count; i++) change(executor, i);
}

void *tsr_executor_replace(tsr_executor *executor, size_t tensor) {
    executor->copies[tensor].host = true;
    change(executor, tensor);
    return tsr_executor_get_tensor(executor, tensor);
}

void tsr_executor_replace_there(tsr_executor *executor, size_t tensor) {
    TSR_ASSERT(!executor->device->type->shares_memory);
    executor->copies[tensor] = (copies){.device = true};
    executor->versions[tensor]++;
}

const tsr_device_memory *tsr_executor_get_memory(const tsr_executor *e) { return &e->memory; }

void tsr_executor_clear(tsr_executor *executor, size_t tensor) {
    uint64_t size = 0;
    if (executor->copies[tensor].zero) {
        executor->copies[tensor].device = true;
        return;
    }
    bool fits = tsr_plan_tensor_size(executor->config, &executor->vranks,
                                     executor->holdings[tensor], tensor, &size);
    TSR_ASSERT(fits);
    memset(tsr_executor_replace(executor, tensor), 0, (size_t)size);
}

void *tsr_executor_get_tensor(const tsr_executor *executor, size_t tensor) {
    TSR_ASSERT(tensor < executor->config->tensor_count);
    return executor->tensors[tensor];
}

uint64_t tsr_executor_get_parts(const tsr_executor *executor, size_t tensor) {
    TSR_ASSERT(tensor < executor->config->tensor_count);
    return executor->holdings[tensor] == TSR_HOLDING_PARTS ? executor->vranks.total : 0;
}

void *tsr_executor_get_input(const tsr_executor *executor, size_t entry, size_t input) {
    TSR_ASSERT(entry < executor->config->entry_count &&
               input < executor->config->entries[entry].input_count);
    return executor->entries[entry].inputs[input];
}

void *tsr_executor_get_output(const tsr_executor *executor, size_t entry, size_t output) {
    TSR_ASSERT(entry < executor->config->entry_count &&
               output < executor->config->entries[entry].output_count);
    return executor->entries[entry].outputs[output];
}

bool tsr_executor_exchanges(const tsr_executor *executor, size_t entry) {
    return executor->entries[entry].exchanges && executor->vranks.rank_count > 1;
}

bool tsr_executor_can_lend(const tsr_executor *executor, size_t entry) {
    const bound_entry *bound = &executor->entries[entry];
    return executor->device->type->shares_memory && !bound->exchanges && !bound->has_control &&
           !bound->writes_inputs;
}

static void set_address(bound_entry *bound, size_t port, bool is_output, void *memory) {
    for (port_address *at = bound->port_addresses; at; at = at->next)
        if (at->port == port && at->is_output == is_output) *at->at = memory;
}

/* A command only reads its inputs: writes_inputs is false. */
void tsr_executor_lend_input(tsr_executor *executor, size_t entry, size_t input,
                             const void *memory) {
    TSR_ASSERT(tsr_executor_can_lend(executor, entry));
    void *own = tsr_executor_get_input(executor, entry, input);
    set_address(&executor->entries[entry], input, false, memory ? (void *)(uintptr_t)memory : own);
}

void tsr_executor_lend_output(tsr_executor *executor, size_t entry, size_t output, void *memory) {
    TSR_ASSERT(tsr_executor_can_lend(executor, entry));
    void *own = tsr_executor_get_output(executor, entry, output);
    set_address(&executor->entries[entry], output, true, memory ? memory : own);
}

static void one_byte_each(const tsr_transport *t, size_t *out_first_byte) {
    for (uint32_t r = 0; r <= t->rank_count; r++) out_first_byte[r] = r;
}

/* Bytes sent for the agreement at the end of a region. */
static uint64_t plan_agreement(const tsr_transport *t) {
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    one_byte_each(t, first_byte);
    return tsr_all_gather_plan(t, first_byte);
}

uint64_t tsr_executor_plan_exchange(const tsr_executor *executor, size_t entry) {
    const bound_entry *bound = &executor->entries[entry];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < bound->part_count && executor->vranks.rank_count > 1; i++) {
        const part *at = &bound->parts[i];
        if (at->loop)
            bytes += tsr_loop_plan_exchange(at->loop, executor->transport, &executor->vranks);
        if (at->collective)
            bytes += tsr_collective_plan(at->collective, executor->transport, &executor->vranks);
        if (at->vranks) bytes += plan_agreement(executor->transport);
    }
    return bytes;
}

const tsr_vranks *tsr_executor_get_vranks(const tsr_executor *e) { return &e->vranks; }

uint64_t tsr_executor_get_vrank_rows(const tsr_executor *executor, size_t entry) {
    const tsr_config_entry *config = &executor->config->entries[entry];
    return config->batch /
           (tsr_plan_has_vranks(executor->config, config) ? executor->vranks.total : 1);
}

void *tsr_executor_get_vrank_input(const tsr_executor *executor, size_t entry, size_t input,
                                   uint32_t vrank) {
    TSR_ASSERT(vrank < executor->vranks.count);
    return (char *)tsr_executor_get_input(executor, entry, input) +
           vrank * executor->entries[entry].input_strides[input];
}

/* virtual rank: the virtual rank whose rows the command processed; -1: it processed all rows. */
static tsr_result report_fault(tsr_ctx *ctx, tsr_executor *executor, size_t entry, int64_t vrank,
                               const tsr_program_command *command, const tsr_fault *fault) {
    const tsr_fault_location where = {
        executor->config,
        &executor->config->entries[entry],
        &executor->program->entries[entry],
        command,
        vrank,
        vrank < 0 ? 0 : (uint64_t)vrank * tsr_executor_get_vrank_rows(executor, entry),
        executor->iterations,
        executor->depth};
    return tsr_fault_report(ctx, &where, fault, &executor->fault_row);
}

void tsr_executor_set_seed(tsr_executor *executor, uint64_t seed) { executor->seed = seed; }

void tsr_executor_set_hyperparameter(tsr_executor *executor, const char *name, double value) {
    for (size_t e = 0; e < executor->config->entry_count; e++) {
        const tsr_config_entry *entry = &executor->config->entries[e];
        for (size_t i = 0; i < entry->input_count; i++)
            if (tsr_port_is_hyperparameter(&entry->inputs[i], name))
                executor->entries[e].hyperparameters[i] = value;
    }
}

void tsr_executor_set_guard(tsr_executor *e, void (*guard)(void *, const void *), void *user) {
    e->memory.guard = e->has_snapshot ? NULL : guard;
    e->memory.guard_user = user;
}

void tsr_executor_set_observer(tsr_executor *e, tsr_loop_observer o) { e->observer = o; }

const tsr_loop *tsr_executor_get_loop(const tsr_executor *executor, size_t entry, size_t number) {
    const bound_entry *bound = &executor->entries[entry];
    for (uint32_t i = 0; i < bound->part_count; i++)
        if (bound->parts[i].loop && number-- == 0) return bound->parts[i].loop;
    return NULL;
}

static tsr_result upload_tensors(tsr_ctx *ctx, tsr_executor *executor) {
    const tsr_device_type *type = executor->device->type;
    tsr_device_range range;
    if (type->shares_memory) return TSR_SUCCESS;
    for (size_t at = 0; next_bad(executor, true, &at, &range);)
        TRY(ctx, type->upload(ctx, executor->device, &executor->memory, range));
    for (size_t i = 0; i < executor->config->tensor_count; i++) executor->copies[i].device = true;
    return TSR_SUCCESS;
}

static tsr_result run_list(tsr_ctx *ctx, tsr_executor *executor, const tsr_probe_source *source,
                           tsr_device_list *list, int64_t vrank, tsr_fault *out_fault,
                           uint32_t *out_command) {
    if (executor->numerics)
        return tsr_numerics_run(ctx, executor, source, list, vrank, out_fault, out_command);
    tsr_probe_begin(&executor->probe, ctx->trace, list);
    tsr_result result = executor->device->type->run(ctx, executor->device, &executor->memory, list,
                                                    out_fault, out_command);
    tsr_probe_end(&executor->probe, ctx->trace, source, list);
    return result;
}

tsr_result tsr_executor_ready_readers(tsr_ctx *ctx, tsr_executor *executor, unsigned count) {
    const tsr_device_type *type = executor->device->type;
    return type->shares_memory ? TSR_SUCCESS : type->ready_readers(ctx, executor->device, count);
}

/* Returns the range from the first tensor of the state to the end of the last one. */
static tsr_device_range range_of_state(const tsr_executor *executor) {
    const tsr_config *config = executor->config;
    const char *begin = NULL, *end = NULL;
    for (size_t i = 0; i < config->tensor_count; i++) {
        if (config->tensors[i].role == TSR_ROLE_CONSTANT) continue;
        uint64_t size = 0;
        bool fits =
            tsr_plan_tensor_size(config, &executor->vranks, executor->holdings[i], i, &size);
        TSR_ASSERT(fits);
        if (!begin) begin = executor->tensors[i];
        end = (const char *)executor->tensors[i] + size;
    }
    if (!begin) return (tsr_device_range){0, 0};
    return (tsr_device_range){(uint64_t)(begin - executor->memory.host), (uint64_t)(end - begin)};
}

tsr_result tsr_executor_ready_snapshot(tsr_ctx *ctx, tsr_executor *executor,
                                       bool *out_has_snapshot) {
    const tsr_device_type *type = executor->device->type;
    if (type->ready_snapshot)
        TRY(ctx, type->ready_snapshot(ctx, executor->device, range_of_state(executor),
                                      &executor->has_snapshot));
    *out_has_snapshot = executor->has_snapshot;
    return TSR_SUCCESS;
}

tsr_result tsr_executor_take_snapshot(tsr_ctx *ctx, tsr_executor *executor) {
    if (!executor->has_snapshot) return TSR_SUCCESS;
    TRY(ctx, upload_tensors(ctx, executor));
    return executor->device->type->take_snapshot(ctx, executor->device, &executor->memory);
}

tsr_result tsr_executor_read_snapshot(tsr_ctx *ctx, tsr_executor *executor, unsigned reader,
                                      const void *data, size_t size_bytes, const void **out_bytes) {
    const tsr_device_range range = {(uint64_t)((const char *)data - executor->memory.host),
                                    size_bytes};
    if (!executor->has_snapshot)
        return tsr_executor_read(ctx, executor, reader, data, size_bytes, out_bytes);
    return executor->device->type->read_snapshot(ctx, executor->device, reader, range, out_bytes);
}

/* Returns the tensor at or before `data`. */
static size_t tensor_at(const tsr_executor *executor, const char *data) {
    size_t low = 0, high = executor->config->tensor_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if ((const char *)executor->tensors[middle] <= data)
            low = middle;
        else
            high = middle;
    }
    return low;
}

tsr_result tsr_executor_read(tsr_ctx *ctx, tsr_executor *executor, unsigned reader,
                             const void *data, size_t size_bytes, const void **out_bytes) {
    const tsr_device_type *type = executor->device->type;
    const tsr_device_range range = {(uint64_t)((const char *)data - executor->memory.host),
                                    size_bytes};
    if (type->shares_memory || executor->copies[tensor_at(executor, data)].host) {
        *out_bytes = data;
        return TSR_SUCCESS;
    }
    return type->read(ctx, executor->device, &executor->memory, reader, range, out_bytes);
}

/* Prepares the memory that the entry reads, if its tensor has changed since the last preparation.
 */
static tsr_result prepare(tsr_ctx *ctx, tsr_executor *executor, const bound_entry *bound) {
    for (uint32_t i = 0; i < bound->prepacked_count; i++) {
        prepacked *made = bound->prepacked[i];
        uint64_t version = executor->versions[made->tensor];
        if (made->version == version) continue;
        tsr_fault fault;
        uint32_t command = 0;
        const tsr_probe_source source = {.entry = made->entry, .alone = made->source};
        TRY(ctx, run_list(ctx, executor, &source, &made->list, -1, &fault, &command));
        made->version = version;
    }
    return TSR_SUCCESS;
}

static void note_changes(tsr_executor *executor, const bound_entry *bound) {
    if (!bound->changes) return;
    for (size_t i = 0; i < executor->config->tensor_count; i++) {
        if (!bound->changes[i]) continue;
        executor->copies[i] = (copies){executor->device->type->shares_memory, true, false};
        executor->versions[i]++;
    }
}

/* A rank that has failed in a region continues with the other ranks to the end of the region: it
 * computes nothing more, but takes part in the exchanges with meaningless data, because the others
 * wait for it. The rank's own error stays in `ctx`. */
static tsr_result continue_failed(tsr_ctx *ctx, tsr_executor *executor, tsr_result failure) {
    if (!executor->continues_failed) return failure;
    TSR_ASSERT(ctx->error.text[0]);
    executor->failure = failure;
    return TSR_SUCCESS;
}

static tsr_result run_loop(tsr_ctx *ctx, tsr_executor *executor, size_t entry,
                           const tsr_loop *loop) {
    const tsr_program_entry *of = &executor->program->entries[entry];
    const tsr_vranks *vranks = &executor->vranks;
    tsr_ctx aside = tsr_ctx_fork(ctx);
    tsr_result exchanged = TSR_SUCCESS;
    bool pushes = tsr_loop_pushes(loop, executor->exchanger);
    if (pushes) exchanged = tsr_loop_offer(&aside, loop, executor->exchanger, vranks);
    for (uint32_t i = 0; i < loop->step_count && !exchanged.code; i++) {
        tsr_loop_step *step = &loop->steps[i];
        const tsr_probe_source source = {.entry = of, .index = entry, .numbers = step->sources};
        int64_t vrank = vranks->total > 1 ? (int64_t)tsr_vranks_number(vranks, step->vrank) : -1;
        tsr_fault fault = {0};
        uint32_t command = 0;
        if (step->list.command_count > 0 && !executor->failure.code)
            TRY(ctx, run_list(ctx, executor, &source, &step->list, vrank, &fault, &command));
        if (fault.kind != TSR_FAULT_NONE) {
            tsr_result failed = report_fault(ctx, executor, entry, vrank,
                                             &of->commands[step->sources[command]], &fault);
            TRY(ctx, continue_failed(ctx, executor, failed));
        }
        if (step->then)
            exchanged = tsr_round_exchange(&aside, step->then, executor->exchanger, vranks);
        else if (pushes && step->vrank < vranks->count)
            exchanged = tsr_loop_push(&aside, loop, executor->exchanger, vranks, step->vrank);
    }
    if (!exchanged.code)
        exchanged =
            tsr_loop_exchange(&aside, loop, executor->exchanger, vranks, executor->sums_bytes);
    if (exchanged.code) return tsr_error_adopt(ctx, &aside);
    if (executor->failure.code || entry != executor->observer.entry) return TSR_SUCCESS;
    return tsr_loop_tell(ctx, loop, executor->device, &executor->memory, &executor->observer);
}

/* Runs the exchange of ranks, if there is one. */
static tsr_result exchange(tsr_ctx *ctx, tsr_executor *executor, const part *at, bool first) {
    const tsr_collective *collective = at->collective;
    if (!collective || collective->exchanges_first != first || executor->vranks.rank_count == 1)
        return TSR_SUCCESS;
    tsr_ctx aside = tsr_ctx_fork(ctx); /* clearing a context takes as long as a small kernel */
    tsr_result exchanged = tsr_collective_exchange(&aside, collective, executor->exchanger,
                                                   &executor->vranks, executor->sums_bytes);
    return exchanged.code ? tsr_error_adopt(ctx, &aside) : TSR_SUCCESS;
}

/* Reports a sum that a collective consumes, after the exchange. */
static tsr_result tell(tsr_ctx *ctx, tsr_executor *executor, size_t entry, const part *at) {
    const tsr_collective *c = at->collective;
    if (!c || !c->own_sum || !executor->observer.find || entry != executor->observer.entry)
        return TSR_SUCCESS;
    tsr_ctx aside = tsr_ctx_fork(ctx);
    TRY(ctx, tsr_device_download(ctx, executor->device, &executor->memory, c->own_sum,
                                 tsr_collective_own_bytes(c, &executor->vranks)));
    tsr_result told =
        tsr_collective_tell(&aside, c, executor->transport, &executor->vranks, &executor->observer);
    return told.code ? tsr_error_adopt(ctx, &aside) : TSR_SUCCESS;
}

static tsr_result run_part(tsr_ctx *ctx, tsr_executor *executor, size_t entry, part *at) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    const bound_entry *bound = &executor->entries[entry];
    tsr_fault fault = {0};
    uint32_t command = 0;
    if (at->loop) return run_loop(ctx, executor, entry, at->loop);
    if (executor->memory.guard && at->collective && at->collective->writes_tensor)
        executor->memory.guard(executor->memory.guard_user, at->collective->to);
    TRY(ctx, exchange(ctx, executor, at, true));
    TRY(ctx, tell(ctx, executor, entry, at));
    if (at->list.command_count == 0 || executor->failure.code)
        return exchange(ctx, executor, at, false);
    const uint32_t *numbers = at->collective ? NULL : &bound->numbers[at->first];
    const tsr_probe_source origin = {
        .entry = source, .index = entry, .numbers = numbers, .sizes = bound->open.sizes};
    TRY(ctx, run_list(ctx, executor, &origin, &at->list, -1, &fault, &command));
    if (fault.kind == TSR_FAULT_NONE) return exchange(ctx, executor, at, false);
    tsr_result failed = report_fault(
        ctx, executor, entry, -1, &source->commands[bound->numbers[at->first + command]], &fault);
    TRY(ctx, continue_failed(ctx, executor, failed));
    return exchange(ctx, executor, at, false);
}

tsr_result tsr_bound_run(tsr_ctx *ctx, tsr_executor *executor, size_t entry, part *at) {
    TRY(ctx, run_part(ctx, executor, entry, at));
    if (!at->verify || executor->failure.code) return TSR_SUCCESS;
    return tsr_numerics_verify(ctx, executor, entry, at->verify);
}

/* Values that leave a region must be finite. */
static tsr_result check_leaving(tsr_ctx *ctx, tsr_executor *executor, size_t entry,
                                const part *at) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    for (uint32_t i = 0; at->vranks && i < at->vranks->argument_count; i++) {
        const tsr_program_buffer *buffer = &source->buffers[at->vranks->arguments[i]];
        char *memory = tsr_bound_find(executor, entry, 0, buffer);
        const tsr_tensor tensor = {.dtype = buffer->dtype, .shape = buffer->shape, .data = memory};
        double value = 0;
        TRY(ctx, tsr_device_download(ctx, executor->device, &executor->memory, memory,
                                     tsr_program_buffer_size(buffer)));
        uint64_t element = tsr_tensor_find_nonfinite(&tensor, &value);
        if (element == UINT64_MAX) continue;
        FAIL(ctx, TSR_NONFINITE,
             "its value %u has %g at element %" PRIu64 "; expected finite numbers", i, value,
             element);
    }
    return TSR_SUCCESS;
}

static bool is_failure(tsr_result result) {
    return result.code == TSR_DATA || result.code == TSR_NONFINITE;
}

typedef struct failure {
    uint64_t code, row; /* row: in the batch, or UINT64_MAX */
    char text[TSR_ERROR_TEXT_MAX];
} failure;

/* Called at the end of a region: it has failed on all ranks if it has failed on one, with the error
 * of the first failed rank. */
static tsr_result agree(tsr_ctx *ctx, tsr_executor *executor, tsr_result own) {
    tsr_transport *t = executor->transport;
    tsr_ctx aside = tsr_ctx_fork(ctx);
    unsigned char failed[TSR_TRANSPORT_RANKS_MAX];
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    failure first = {.code = (uint64_t)own.code, .row = executor->fault_row};
    one_byte_each(t, first_byte);
    failed[t->rank] = own.code != 0;
    if (tsr_all_gather(&aside, t, failed, first_byte).code) return tsr_error_adopt(ctx, &aside);
    const unsigned char *found = memchr(failed, 1, t->rank_count);
    if (!found) return TSR_SUCCESS;
    uint32_t rank = (uint32_t)(found - failed);
    memcpy(first.text, ctx->error.text, sizeof first.text);
    if (tsr_broadcast(&aside, t, rank, &first, sizeof first).code)
        return tsr_error_adopt(ctx, &aside);
    if (rank == t->rank) return own;
    executor->fault_row = first.row;
    FAIL(ctx, (tsr_code)first.code, "%.*s", TSR_ERROR_TEXT_MAX - 1, first.text);
}

/* Runs a part of a region whose ranks exchange the results of its loops. */
static tsr_result run_together(tsr_ctx *ctx, tsr_executor *executor, size_t entry, part *at) {
    executor->continues_failed = true;
    tsr_result result = tsr_bound_run(ctx, executor, entry, at), own = executor->failure;
    executor->continues_failed = false;
    if (result.code || !at->vranks) return result;
    executor->failure = TSR_SUCCESS;
    return agree(ctx, executor, own.code ? own : check_leaving(ctx, executor, entry, at));
}

/* Runs the handler of a failed region that will be repeated, once. The first error stays. */
static tsr_result handle_failure(tsr_ctx *ctx, tsr_executor *executor,
                                 const tsr_program_region *region, uint64_t step,
                                 const char *error) {
    const tsr_program_entry *handler =
        region->on_failure ? &executor->program->entries[region->on_failure - 1] : NULL;
    tsr_log(ctx, TSR_LOG_WARNING, "step %" PRIu64 ": region '%s' failed: %s%s%s", step,
            region->name, error, handler ? "; ran @" : "", handler ? handler->name : "");
    if (!handler) return TSR_SUCCESS;
    tsr_result result = tsr_executor_run(ctx, executor, region->on_failure - 1, step);
    if (result.code) return tsr_error_prefix(ctx, result, "handler @%s", handler->name);
    return TSR_SUCCESS;
}

static uint32_t part_of(const bound_entry *bound, uint32_t region) {
    uint32_t index = 0;
    while (bound->parts[index].region != region) index++;
    return index;
}

/* Runs the parts; a region of mode replay that fails is repeated, a few times. */
static tsr_result run_parts(tsr_ctx *ctx, tsr_executor *executor, size_t entry, uint64_t step) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    bool together = tsr_executor_exchanges(executor, entry);
    uint32_t attempts = 0;
    uint64_t began_ns = 0;
    tsr_result result;
    for (uint32_t i = 0; i < bound->part_count;) {
        part *at = &bound->parts[i];
        bool begins = at->region != NO_REGION && part_of(bound, at->region) == i;
        if (begins) tsr_probe_enter(ctx->trace, &source->regions[at->region], &began_ns);
        if (together && at->region != NO_REGION) {
            result = run_together(ctx, executor, entry, at);
        } else {
            result = tsr_bound_run(ctx, executor, entry, at);
            if (!result.code) result = check_leaving(ctx, executor, entry, at);
        }
        if (at->vranks || (result.code && at->region != NO_REGION))
            tsr_probe_leave(ctx->trace, &source->regions[at->region], attempts, &began_ns);
        if (!result.code) {
            if (at->vranks) attempts = 0;
            i++;
            continue;
        }
        if (at->region == NO_REGION) return result;
        const tsr_program_region *region = &source->regions[at->region];
        if (result.code == TSR_MACHINE || result.code == TSR_MEMORY)
            return tsr_error_prefix(ctx, result, "region '%s'", region->name);
        if (!is_failure(result)) return result;
        executor->failed_entry = (uint32_t)entry;
        executor->failed_region = at->region;
        if (region->mode != TSR_REGION_REPLAY)
            return tsr_error_prefix(ctx, result, "region '%s'", region->name);
        tsr_ctx apart = tsr_ctx_fork(ctx);
        tsr_result handled = handle_failure(&apart, executor, region, step, ctx->error.text);
        if (handled.code) return tsr_error_adopt(ctx, &apart);
        executor->failed_region = at->region; /* the handler's run has reset it */
        if (++attempts == TSR_REGION_ATTEMPTS_MAX)
            return tsr_error_prefix(ctx, result, "region '%s' failed %u time%s", region->name,
                                    attempts, TSR_PLURAL(attempts));
        TRY(ctx, prepare(ctx, executor, bound));
        i = part_of(bound, at->region);
    }
    executor->failed_region = NO_REGION;
    return TSR_SUCCESS;
}

static void fill_hyperparameter(tsr_executor *executor, size_t entry, size_t input) {
    const bound_entry *bound = &executor->entries[entry];
    double value = bound->hyperparameters[input];
    float narrow = (float)value;
    if (executor->config->entries[entry].inputs[input].dtype == TSR_DTYPE_F64)
        memcpy(bound->inputs[input], &value, sizeof value);
    else
        memcpy(bound->inputs[input], &narrow, sizeof narrow);
}

static void fill_inputs(tsr_executor *executor, size_t entry, uint64_t step) {
    const tsr_config_entry *config = &executor->config->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    for (size_t i = 0; i < config->input_count; i++) {
        tsr_port_source filled = config->inputs[i].source;
        if (filled == TSR_PORT_STEP) memcpy(bound->inputs[i], &step, sizeof step);
        if (filled == TSR_PORT_SEED) memcpy(bound->inputs[i], &executor->seed, sizeof step);
        if (filled == TSR_PORT_HYPERPARAMETER) fill_hyperparameter(executor, entry, i);
    }
    for (uint32_t i = 0;
         tsr_plan_has_vranks(executor->config, config) && i < executor->vranks.count; i++) {
        int64_t number = tsr_vranks_number(&executor->vranks, i);
        memcpy(bound->vrank_numbers + i * TSR_BUFFER_ALIGN_BYTES, &number, sizeof number);
    }
}

/* An exchange may write outputs after the list that has transferred them. */
static tsr_result finish_exchanges(tsr_ctx *ctx, tsr_executor *executor, const bound_entry *bound) {
    tsr_device *device = executor->device;
    TRY(ctx, executor->exchanger->kind->wait(ctx, executor->exchanger));
    if (device->type->shares_memory || !bound->output_range.size_bytes) return TSR_SUCCESS;
    return device->type->download(ctx, device, &executor->memory, bound->output_range);
}

tsr_result tsr_executor_run(tsr_ctx *ctx, tsr_executor *executor, size_t entry, uint64_t step) {
    TSR_ASSERT(entry < executor->program->entry_count);
    bound_entry *bound = &executor->entries[entry];
    fill_inputs(executor, entry, step);
    executor->failure = TSR_SUCCESS;
    executor->failed_region = NO_REGION;
    executor->depth = 0;
    uint64_t began_ns = tsr_trace_begin(ctx->trace, TSR_TRACK_STEPS);
    if (executor->numerics) TRY(ctx, tsr_numerics_begin(ctx, executor, entry, step));
    TRY(ctx, upload_tensors(ctx, executor));
    TRY(ctx, prepare(ctx, executor, bound));
    tsr_result result = bound->has_control ? tsr_control_run(ctx, executor, entry)
                                           : run_parts(ctx, executor, entry, step);
    if (!result.code && tsr_executor_exchanges(executor, entry))
        result = finish_exchanges(ctx, executor, bound);
    note_changes(executor, bound);
    tsr_trace_end(ctx->trace, TSR_TRACK_STEPS, executor->config->entries[entry].name, began_ns);
    return result;
}

const char *tsr_executor_get_exchange(const tsr_executor *e, const char **out_reason) {
    if (!e->exchanger) return NULL;
    *out_reason = e->exchanger->reason;
    return e->exchanger->kind->name;
}

const tsr_kernel_times *tsr_executor_get_times(const tsr_executor *e) { return e->probe.kernels; }

void tsr_executor_forget_failed_region(tsr_executor *executor) {
    executor->failed_region = NO_REGION;
}

const tsr_program_region *tsr_executor_get_failed_region(const tsr_executor *executor) {
    if (executor->failed_region == NO_REGION) return NULL;
    return &executor->program->entries[executor->failed_entry].regions[executor->failed_region];
}

uint64_t tsr_executor_get_fault_row(const tsr_executor *executor) { return executor->fault_row; }

bool tsr_executor_mark_workspace(tsr_executor *executor) {
    if (!executor->device->type->shares_memory) return false;
    tsr_memory_mark(executor->workspace, executor->workspace_bytes);
    return true;
}

tsr_workspace_use tsr_executor_measure_workspace(const tsr_executor *executor) {
    return tsr_memory_measure(executor->workspace, executor->workspace_bytes);
}
