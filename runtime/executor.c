/* SPDX-License-Identifier: Apache-2.0
 *
 * One block of memory:  tensors | workspace | prepared | inputs, outputs of entry 0 | of entry 1 |
 * … each piece rounded up to the alignment; what leaves keep and sum lies behind what is prepared.
 * At creation every command's arguments become addresses of the device, so that it walks an array.
 * What prepares from a tensor is a list of its own, shared by the entries and run before theirs:
 * they do not write the tensor. Where a region of resilience begins or ends, a list ends: what its
 * values are is looked at between two lists.
 */
#include "runtime/executor.h"

#include "runtime/collective.h"
#include "runtime/fault.h"
#include "runtime/loop.h"
#include "runtime/plan.h"
#include "runtime/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Made from a tensor when that was of `version`; 0: not yet. */
typedef struct prepared {
    void *memory; /* the host's */
    tsr_device_command command;
    tsr_device_list list;
    const tsr_program_entry *entry; /* of the program, and its command */
    const tsr_program_command *source;
    uint32_t tensor;
    uint64_t version;
} prepared;

enum { NO_REGION = UINT32_MAX };

/* Commands up to where a region begins or ends, or the entry does. */
typedef struct part {
    tsr_device_list list;
    uint32_t region;                   /* that they are in, or NO_REGION */
    uint32_t first;                    /* of bound_entry.commands */
    const tsr_program_command *leaves; /* what ends the part; NULL where it is no end of a region */
    tsr_loop *loop;                    /* over leaves, instead of the list; NULL: none */
    tsr_collective *collective;        /* whose copies the list is; NULL: it is commands */
} part;

typedef struct bound_entry {
    void **inputs, **outputs; /* in the arena; the host's memory in the block */
    uint64_t *input_strides;  /* from leaf to leaf */
    char *leaf_numbers;
    tsr_device_command *commands; /* in the arena, as the others */
    uint32_t *numbers;            /* of the commands in the program */
    part *parts;
    uint32_t part_count;
    prepared **prepared; /* what its commands read */
    uint32_t prepared_count;
    bool *changes;  /* tensors; NULL: none */
    bool exchanges; /* loops over leaves, or collectives */
    bool *deferred; /* buffers of sums that a collective takes */
    uint64_t workspace_offset;
} bound_entry;

struct tsr_executor {
    const tsr_config *config;   /* borrowed */
    const tsr_program *program; /* borrowed */
    tsr_device *device;         /* borrowed */
    tsr_transport *transport;   /* borrowed; NULL: one rank */
    tsr_leaves leaves;
    uint64_t leaf_bytes, sums_bytes; /* from leaf to leaf, slot to slot */
    tsr_arena arena;
    tsr_device_memory memory;        /* owned; of the device */
    uint64_t tensor_bytes;           /* at its begin */
    bool host_counts, device_counts; /* whose copy of the tensors is good; both may be */
    void **tensors;
    tsr_holding *holdings;
    uint64_t *versions; /* of the tensors: 1 + how often they may have changed */
    prepared *prepared;
    uint32_t prepared_count;
    char *workspace, *of_leaves, *of_sums; /* the host's */
    uint64_t handler_offset; /* in it: handlers run while another entry's values live */
    bound_entry *entries;
    uint32_t failed_entry, failed_region; /* of the last run; see tsr_executor_get_failed_region */
    tsr_loop_observer observer;
    tsr_probe probe;
    uint64_t seed, fault_row; /* of the last fault; UINT64_MAX where it is none of a data input */
};

static void *take_bytes(char **at, uint64_t size_bytes) {
    uint64_t rounded = 0;
    void *memory = *at;
    bool fits = tsr_plan_add(&rounded, size_bytes);
    TSR_ASSERT(fits); /* tsr_executor_plan added the same numbers */
    *at += rounded;
    return memory;
}

static void *find_part(const tsr_executor *executor, uint32_t leaf, uint32_t tensor) {
    bool alone = executor->holdings[tensor] == TSR_HOLDING_PARTS;
    uint64_t number = leaf + (alone ? 0 : executor->leaves.first);
    return (char *)executor->tensors[tensor] +
           number * tsr_program_part_bytes(executor->config, tensor);
}

static void *find_buffer(const tsr_executor *executor, size_t entry, uint32_t leaf,
                         const tsr_program_buffer *buffer) {
    const bound_entry *bound = &executor->entries[entry];
    switch (buffer->space) {
    case TSR_SPACE_TENSOR:
        return executor->tensors[buffer->index];
    case TSR_SPACE_PART:
        return find_part(executor, leaf, buffer->index);
    case TSR_SPACE_INPUT:
        return (char *)bound->inputs[buffer->index] + leaf * bound->input_strides[buffer->index];
    case TSR_SPACE_OUTPUT:
        return bound->outputs[buffer->index];
    case TSR_SPACE_PREPARED:
        return executor->prepared[buffer->index].memory;
    case TSR_SPACE_WORKSPACE:
        return executor->workspace + bound->workspace_offset + buffer->offset_bytes;
    case TSR_SPACE_LEAF:
        return executor->of_leaves + leaf * executor->leaf_bytes + buffer->offset_bytes;
    case TSR_SPACE_SUMS:
        return executor->of_sums + buffer->offset_bytes;
    case TSR_SPACE_LEAF_NUMBER:
        return bound->leaf_numbers + leaf * TSR_BUFFER_ALIGN_BYTES;
    }
    TSR_ASSERT(!"a decoded program has no other space");
    return NULL;
}

static bool note_change(tsr_executor *executor, size_t entry, const tsr_program_buffer *buffer) {
    bound_entry *bound = &executor->entries[entry];
    if (!bound->changes)
        bound->changes = TSR_NEW(&executor->arena, bool, executor->config->tensor_count);
    if (bound->changes) bound->changes[buffer->index] = true;
    return bound->changes != NULL;
}

static bool bind_command(tsr_executor *executor, size_t entry, const tsr_program_command *command,
                         tsr_device_command *out_bound) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    const tsr_device_memory *memory = &executor->memory;
    bool is_copy = command->opcode == TSR_OP_COPY;
    void **buffers = TSR_NEW(&executor->arena, void *, command->argument_count);
    void **guarded = TSR_NEW(&executor->arena, void *, command->argument_count);
    uint32_t guarded_count = 0;
    if (!buffers || !guarded) return false;
    for (uint32_t i = 0; i < command->argument_count; i++) {
        const tsr_program_buffer *buffer = &source->buffers[command->arguments[i]];
        bool written = is_copy ? i == 0 : i >= command->written_from;
        buffers[i] =
            memory->device + ((char *)find_buffer(executor, entry, 0, buffer) - memory->host);
        if (!written || buffer->space != TSR_SPACE_TENSOR) continue;
        if (!note_change(executor, entry, buffer)) return false;
        guarded[guarded_count++] = executor->tensors[buffer->index];
    }
    *out_bound = (tsr_device_command){.is_copy = is_copy,
                                      .kernel = is_copy ? 0 : command->kernel,
                                      .buffer_count = command->argument_count,
                                      .buffers = buffers,
                                      .grid = command->grid,
                                      .cost = command->cost,
                                      .location = command->location,
                                      .guarded = guarded,
                                      .guarded_count = guarded_count};
    const tsr_program_buffer *target = &source->buffers[command->arguments[0]];
    return !is_copy || tsr_shape_size(&target->shape, target->dtype, &out_bound->copy_bytes);
}

static bool bind_inputs(tsr_executor *executor, size_t entry, char **at) {
    const tsr_config_entry *config = &executor->config->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    bound->inputs = TSR_NEW(&executor->arena, void *, config->input_count + 1);
    bound->input_strides = TSR_NEW(&executor->arena, uint64_t, config->input_count + 1);
    if (!bound->inputs || !bound->input_strides) return false;
    for (size_t i = 0; i < config->input_count; i++) {
        uint64_t size = 0;
        bool splits = tsr_program_splits(executor->config, config, &config->inputs[i]);
        bool fits = tsr_plan_input_size(executor->config, config, i, &size);
        TSR_ASSERT(fits);
        bound->inputs[i] = *at;
        for (uint32_t k = 0; k < (splits ? executor->leaves.count : 1); k++) take_bytes(at, size);
        if (splits) fits = tsr_plan_add(&bound->input_strides[i], size);
    }
    bound->leaf_numbers = *at;
    for (uint32_t i = 0;
         tsr_plan_has_leaves(executor->config, config) && i < executor->leaves.count; i++)
        take_bytes(at, sizeof(int64_t));
    return true;
}

static tsr_device_range range_of(const tsr_executor *executor, const char *begin, const char *end) {
    return (tsr_device_range){(uint64_t)(begin - executor->memory.host), (uint64_t)(end - begin)};
}

/* Of all entries that fill a buffer, the last one's command counts: they are alike. */
static bool bind_prepare(tsr_executor *executor, size_t entry, const tsr_program_command *command) {
    const tsr_program_buffer *buffers = executor->program->entries[entry].buffers;
    bound_entry *bound = &executor->entries[entry];
    prepared *made = &executor->prepared[buffers[command->arguments[1]].index];
    made->tensor = buffers[command->arguments[0]].index;
    made->entry = &executor->program->entries[entry];
    made->source = command;
    made->list = (tsr_device_list){.name = executor->config->tensors[made->tensor].name,
                                   .commands = &made->command,
                                   .command_count = 1,
                                   .cost_max = command->cost};
    bound->prepared[bound->prepared_count++] = made;
    return bind_command(executor, entry, command, &made->command);
}

/* A copy for each pair of buffers. */
static bool bind_transfer(tsr_executor *executor, size_t entry, const tsr_program_command *command,
                          tsr_device_command *out_bound) {
    uint32_t half = command->written_from;
    for (uint32_t i = 0; i < half; i++) {
        uint32_t pair[] = {command->arguments[half + i], command->arguments[i]};
        const tsr_program_command copy = {.opcode = TSR_OP_COPY,
                                          .argument_count = 2,
                                          .arguments = pair,
                                          .location = command->location};
        if (!bind_command(executor, entry, &copy, &out_bound[i])) return false;
    }
    return true;
}

/* Commands of the device that the program's becomes: none for what only orders. */
static uint32_t device_count(const tsr_program_command *command) {
    switch (command->opcode) {
    case TSR_OP_LAUNCH:
    case TSR_OP_COPY:
        return 1;
    case TSR_OP_EXPORT:
    case TSR_OP_IMPORT:
        return command->written_from;
    default:
        return 0;
    }
}

static bool bind_next(tsr_executor *executor, size_t entry, uint32_t index, part *at) {
    const tsr_program_command *command = &executor->program->entries[entry].commands[index];
    bound_entry *bound = &executor->entries[entry];
    uint32_t count = device_count(command), first = at->first + at->list.command_count;
    if (command->opcode == TSR_OP_PREPARE) return bind_prepare(executor, entry, command);
    if (count == 0) return true;
    bool transfers = command->opcode == TSR_OP_EXPORT || command->opcode == TSR_OP_IMPORT;
    tsr_device_command *commands = &bound->commands[first];
    for (uint32_t i = 0; i < count; i++) bound->numbers[first + i] = index;
    if (transfers ? !bind_transfer(executor, entry, command, commands)
                  : !bind_command(executor, entry, command, commands))
        return false;
    at->list.command_count += count;
    if (command->cost > at->list.cost_max) at->list.cost_max = command->cost;
    return true;
}

static part *add_part(bound_entry *bound, const char *name, uint32_t region) {
    const part *last = bound->part_count ? &bound->parts[bound->part_count - 1] : NULL;
    part *made = &bound->parts[bound->part_count++];
    uint32_t first = !last              ? 0
                     : last->collective ? last->first
                                        : last->first + last->list.command_count;
    *made = (part){.list = {.name = name, .commands = bound->commands + first},
                   .region = region,
                   .first = first};
    return made;
}

typedef struct place {
    tsr_executor *executor;
    size_t entry;
} place;
static void *find_for_loop(void *user, uint32_t leaf, const tsr_program_buffer *buffer) {
    return find_buffer(((place *)user)->executor, ((place *)user)->entry, leaf, buffer);
}

static bool note_for_loop(void *user, const tsr_program_buffer *buffer) {
    return note_change(((place *)user)->executor, ((place *)user)->entry, buffer);
}

/* Of commands [begin, end), a part of its own: a loop or a collective. */
static bool bind_for_leaves(tsr_executor *executor, size_t entry, uint32_t begin, uint32_t end,
                            part *at) {
    place p = {executor, entry};
    bound_entry *bound = &executor->entries[entry];
    const tsr_program_entry *of = &executor->program->entries[entry];
    const tsr_program_command *command = &of->commands[begin];
    const tsr_loop_source source = {.arena = &executor->arena,
                                    .name = of->name,
                                    .entry = of,
                                    .leaves = &executor->leaves,
                                    .memory = &executor->memory,
                                    .leaf_bytes = executor->leaf_bytes,
                                    .sums_bytes = executor->sums_bytes,
                                    .deferred = bound->deferred,
                                    .tensors = executor->tensors,
                                    .find = find_for_loop,
                                    .note_change = note_for_loop,
                                    .user = &p};
    if (command->opcode != TSR_OP_COLLECTIVE) {
        at->loop = TSR_NEW(&executor->arena, tsr_loop, 1);
        return at->loop && tsr_loop_bind(&source, begin, end, at->loop);
    }
    const tsr_program_buffer *to = &of->buffers[command->arguments[0]];
    at->collective = TSR_NEW(&executor->arena, tsr_collective, 1);
    if (!at->collective || !tsr_collective_bind(&source, begin, at->collective, &at->list))
        return false;
    at->collective->writes_tensor = to->space == TSR_SPACE_TENSOR;
    if (at->collective->writes_tensor && !note_change(executor, entry, to)) return false;
    return true;
}

static bool bind_commands(tsr_executor *executor, size_t entry) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    part *at = add_part(bound, source->name, NO_REGION);
    for (uint32_t i = 0; i < source->command_count; i++) {
        const tsr_program_command *command = &source->commands[i];
        if (command->opcode == TSR_OP_EACH_LEAF || command->opcode == TSR_OP_COLLECTIVE) {
            uint32_t first = i + (command->opcode == TSR_OP_EACH_LEAF);
            uint32_t end = first + (uint32_t)command->grid;
            at = add_part(bound, source->name, NO_REGION);
            if (!bind_for_leaves(executor, entry, first, end, at)) return false;
            at = add_part(bound, source->name, NO_REGION);
            i = end > first ? end - 1 : first;
            continue;
        }
        if (!bind_next(executor, entry, i, at)) return false;
        if (command->opcode == TSR_OP_LEAVE) at->leaves = command;
        if (command->opcode == TSR_OP_ENTER || command->opcode == TSR_OP_LEAVE)
            at = add_part(bound, source->name,
                          command->opcode == TSR_OP_ENTER ? command->kernel : NO_REGION);
    }
    return true;
}

/* List `index` of a part; NULL behind the last. */
static tsr_device_list *list_of(part *at, uint32_t index) {
    if (!at->loop) return index ? NULL : &at->list;
    return index < at->loop->list_count ? &at->loop->lists[index] : NULL;
}

/* What goes to the device goes with the first list that runs, and comes back with the last. */
static void bind_transfers(bound_entry *bound, tsr_device_range inputs, tsr_device_range outputs) {
    tsr_device_list *first = NULL, *last = NULL, *list;
    for (uint32_t i = 0; i < bound->part_count; i++)
        for (uint32_t k = 0; (list = list_of(&bound->parts[i], k)); k++) {
            if (list->command_count == 0) continue;
            last = list;
            if (!first) first = last;
        }
    if (first) first->inputs = inputs;
    if (last) last->outputs = outputs;
}

static bool bind_entry(tsr_executor *executor, size_t entry, char **at) {
    const tsr_config_entry *config = &executor->config->entries[entry];
    const tsr_program_entry *source = &executor->program->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    const char *inputs = *at;
    size_t count = 1, loops = 0;
    for (uint32_t i = 0; i < source->command_count; i++) {
        const tsr_program_command *command = &source->commands[i];
        count += device_count(command);
        loops += command->opcode == TSR_OP_EACH_LEAF || command->opcode == TSR_OP_COLLECTIVE;
    }
    bound->exchanges = loops > 0;
    if (tsr_program_is_handler(executor->program, (uint32_t)entry))
        bound->workspace_offset = executor->handler_offset;
    bound->commands = TSR_NEW(&executor->arena, tsr_device_command, count);
    bound->numbers = TSR_NEW(&executor->arena, uint32_t, count);
    bound->prepared = TSR_NEW(&executor->arena, prepared *, (size_t)source->command_count + 1);
    bound->parts = TSR_NEW(&executor->arena, part, 2 * (source->region_count + loops) + 1);
    bound->deferred = TSR_NEW(&executor->arena, bool, (size_t)source->buffer_count + 1);
    if (!bound->commands || !bound->numbers || !bound->prepared || !bound->parts ||
        !bound->deferred || !bind_inputs(executor, entry, at))
        return false;
    tsr_plan_find_deferred(source, bound->deferred);
    const char *outputs = *at;
    bound->outputs = TSR_NEW(&executor->arena, void *, config->output_count + 1);
    if (!bound->outputs) return false;
    for (size_t i = 0; i < config->output_count; i++)
        bound->outputs[i] = take_bytes(
            at, tsr_program_buffer_size(&(tsr_program_buffer){.dtype = config->outputs[i].dtype,
                                                              .shape = config->outputs[i].shape}));
    if (!bind_commands(executor, entry)) return false;
    bind_transfers(bound, range_of(executor, inputs, outputs), range_of(executor, outputs, *at));
    return true;
}

static bool bind_all(tsr_executor *executor, const tsr_memory_plan *plan) {
    const tsr_config *config = executor->config;
    char *at = executor->memory.host;
    tsr_prepared_cursor cursor = {0};
    const tsr_program_buffer *made;
    executor->tensors =
        TSR_NEW(&executor->arena, void *, config->tensor_count ? config->tensor_count : 1);
    executor->entries =
        TSR_NEW(&executor->arena, bound_entry, config->entry_count ? config->entry_count : 1);
    executor->versions = TSR_NEW(&executor->arena, uint64_t, config->tensor_count + 1);
    executor->prepared = TSR_NEW(&executor->arena, prepared, (size_t)executor->prepared_count + 1);
    executor->holdings = TSR_NEW(&executor->arena, tsr_holding, config->tensor_count + 1);
    if (!executor->tensors || !executor->entries || !executor->versions || !executor->prepared ||
        !executor->holdings)
        return false;
    tsr_executor_touch(executor);
    tsr_program_find_holdings(executor->program, config, executor->holdings);
    for (size_t i = 0; i < config->tensor_count; i++) {
        uint64_t size = 0;
        bool fits =
            tsr_plan_tensor_size(config, &executor->leaves, executor->holdings[i], i, &size);
        TSR_ASSERT(fits); /* tsr_executor_plan added the same numbers */
        executor->tensors[i] = take_bytes(&at, size);
    }
    executor->workspace = at;
    at += plan->workspace_bytes;
    executor->handler_offset = plan->workspace_bytes - plan->handler_bytes;
    while ((made = tsr_program_next_prepared(executor->program, &cursor)))
        executor->prepared[made->index].memory = take_bytes(&at, tsr_program_buffer_size(made));
    executor->leaf_bytes = plan->leaf_bytes;
    executor->sums_bytes = plan->sum_bytes;
    executor->of_leaves = at;
    at += plan->leaf_bytes * executor->leaves.count;
    executor->of_sums = at;
    at += plan->sum_bytes * tsr_leaves_count_slots(&executor->leaves);
    for (size_t i = 0; i < config->entry_count; i++)
        if (!bind_entry(executor, i, &at)) return false;
    return true;
}

static tsr_result set_up(tsr_ctx *ctx, tsr_executor *executor, const tsr_memory_plan *plan) {
    tsr_device *device = executor->device;
    tsr_device_list *list;
    uint32_t most = 1; /* commands of one */
    tsr_result result = device->type->allocate(ctx, device, plan->total_bytes, &executor->memory);
    if (result.code) return tsr_plan_explain(ctx, result, executor->config, plan);
    if (!bind_all(executor, plan))
        FAIL(ctx, TSR_MEMORY, "no memory for the commands of '%s'", executor->config->name);
    for (size_t i = 0; i < executor->config->entry_count; i++)
        for (uint32_t k = 0; k < executor->entries[i].part_count; k++)
            for (uint32_t n = 0; (list = list_of(&executor->entries[i].parts[k], n)); n++) {
                if (list->command_count > most) most = list->command_count;
                TRY(ctx, device->type->prepare(ctx, device, &executor->memory, list));
            }
    for (uint32_t i = 0; i < executor->prepared_count; i++)
        TRY(ctx,
            device->type->prepare(ctx, device, &executor->memory, &executor->prepared[i].list));
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
    if (transport && transport->rank_count > 1 && !device->type->shares_memory)
        FAIL(ctx, TSR_MACHINE, "%u ranks exchange through the host's memory; %s has its own",
             transport->rank_count, device->type->describe(device));
    TRY(ctx, tsr_executor_plan(ctx, config, program, transport, &plan));
    tsr_executor *executor = calloc(1, sizeof *executor);
    if (!executor) FAIL(ctx, TSR_MEMORY, "no memory for the executor of '%s'", config->name);
    *executor = (tsr_executor){.config = config,
                               .program = program,
                               .device = device,
                               .transport = transport,
                               .tensor_bytes = plan.tensor_bytes,
                               .prepared_count = tsr_program_prepared_count(program),
                               .host_counts = true,
                               .failed_region = NO_REGION};
    tsr_result result = tsr_plan_leaves(ctx, config, transport, &executor->leaves);
    if (!result.code) result = set_up(ctx, executor, &plan);
    if (result.code)
        tsr_executor_destroy(executor);
    else
        *out_executor = executor;
    return result;
}

void tsr_executor_destroy(tsr_executor *executor) {
    if (!executor) return;
    const tsr_device_type *type = executor->device->type;
    tsr_device_list *list;
    for (size_t i = 0; executor->entries && i < executor->config->entry_count; i++)
        for (uint32_t k = 0; k < executor->entries[i].part_count; k++)
            for (uint32_t n = 0; (list = list_of(&executor->entries[i].parts[k], n)); n++)
                if (list->prepared) type->finish(executor->device, list);
    for (uint32_t i = 0; executor->prepared && i < executor->prepared_count; i++)
        if (executor->prepared[i].list.prepared)
            type->finish(executor->device, &executor->prepared[i].list);
    if (executor->memory.host) type->release(executor->device, &executor->memory);
    tsr_arena_finish(&executor->arena);
    free(executor);
}

static tsr_device_range all_tensors(const tsr_executor *executor) {
    return (tsr_device_range){0, executor->tensor_bytes};
}

tsr_result tsr_executor_fetch(tsr_ctx *ctx, tsr_executor *executor) {
    const tsr_device_type *type = executor->device->type;
    if (executor->host_counts) return TSR_SUCCESS;
    if (executor->memory.guard) executor->memory.guard(executor->memory.guard_user, NULL);
    TRY(ctx, type->download(ctx, executor->device, &executor->memory, all_tensors(executor)));
    executor->host_counts = true;
    return TSR_SUCCESS;
}

tsr_result tsr_executor_claim(tsr_ctx *ctx, tsr_executor *executor) {
    TRY(ctx, tsr_executor_fetch(ctx, executor));
    tsr_executor_touch(executor);
    return TSR_SUCCESS;
}

void tsr_executor_touch(tsr_executor *executor) {
    if (executor->host_counts) executor->device_counts = false;
    for (size_t i = 0; i < executor->config->tensor_count; i++) executor->versions[i]++;
}

void *tsr_executor_get_tensor(const tsr_executor *executor, size_t tensor) {
    TSR_ASSERT(tensor < executor->config->tensor_count);
    return executor->tensors[tensor];
}

uint64_t tsr_executor_get_parts(const tsr_executor *executor, size_t tensor) {
    TSR_ASSERT(tensor < executor->config->tensor_count);
    return executor->holdings[tensor] == TSR_HOLDING_PARTS ? executor->leaves.total : 0;
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
    return executor->entries[entry].exchanges && executor->leaves.rank_count > 1;
}

uint64_t tsr_executor_plan_exchange(const tsr_executor *executor, size_t entry) {
    const bound_entry *bound = &executor->entries[entry];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < bound->part_count && executor->leaves.rank_count > 1; i++) {
        const part *at = &bound->parts[i];
        if (at->loop)
            bytes += tsr_loop_plan_exchange(at->loop, executor->transport, &executor->leaves);
        if (at->collective)
            bytes += tsr_collective_plan(at->collective, executor->transport, &executor->leaves);
    }
    return bytes;
}

const tsr_leaves *tsr_executor_get_leaves(const tsr_executor *e) { return &e->leaves; }

uint64_t tsr_executor_get_leaf_rows(const tsr_executor *executor, size_t entry) {
    const tsr_config_entry *config = &executor->config->entries[entry];
    return config->batch /
           (tsr_plan_has_leaves(executor->config, config) ? executor->leaves.total : 1);
}

void *tsr_executor_get_leaf_input(const tsr_executor *executor, size_t entry, size_t input,
                                  uint32_t leaf) {
    TSR_ASSERT(leaf < executor->leaves.count);
    return (char *)tsr_executor_get_input(executor, entry, input) +
           leaf * executor->entries[entry].input_strides[input];
}

static tsr_result report_fault(tsr_ctx *ctx, tsr_executor *executor, size_t entry, uint64_t leaf,
                               const tsr_program_command *command, const tsr_fault *fault) {
    const tsr_fault_place where = {executor->config, &executor->config->entries[entry],
                                   &executor->program->entries[entry], command,
                                   leaf * tsr_executor_get_leaf_rows(executor, entry)};
    return tsr_fault_report(ctx, &where, fault, &executor->fault_row);
}

void tsr_executor_set_seed(tsr_executor *executor, uint64_t seed) { executor->seed = seed; }

void tsr_executor_set_guard(tsr_executor *e, void (*guard)(void *, const void *), void *user) {
    e->memory.guard = guard;
    e->memory.guard_user = user;
}

void tsr_executor_set_observer(tsr_executor *e, tsr_loop_observer o) { e->observer = o; }

const tsr_loop *tsr_executor_get_loop(const tsr_executor *executor, size_t entry, size_t number) {
    const bound_entry *bound = &executor->entries[entry];
    for (uint32_t i = 0; i < bound->part_count; i++)
        if (bound->parts[i].loop && number-- == 0) return bound->parts[i].loop;
    return NULL;
}

static tsr_result bring_tensors(tsr_ctx *ctx, tsr_executor *executor) {
    const tsr_device_type *type = executor->device->type;
    if (executor->device_counts || type->shares_memory) return TSR_SUCCESS;
    TRY(ctx, type->upload(ctx, executor->device, &executor->memory, all_tensors(executor)));
    executor->device_counts = true;
    return TSR_SUCCESS;
}

static tsr_result run_list(tsr_ctx *ctx, tsr_executor *executor, const tsr_probe_source *source,
                           tsr_device_list *list, tsr_fault *out_fault, uint32_t *out_command) {
    tsr_probe_begin(&executor->probe, ctx->trace, list);
    tsr_result result = executor->device->type->run(ctx, executor->device, &executor->memory, list,
                                                    out_fault, out_command);
    tsr_probe_end(&executor->probe, ctx->trace, source, list);
    return result;
}

/* What the entry reads, where its tensor has changed since it was made. */
static tsr_result prepare(tsr_ctx *ctx, tsr_executor *executor, const bound_entry *bound) {
    for (uint32_t i = 0; i < bound->prepared_count; i++) {
        prepared *made = bound->prepared[i];
        uint64_t version = executor->versions[made->tensor];
        if (made->version == version) continue;
        tsr_fault fault;
        uint32_t command = 0;
        const tsr_probe_source source = {.entry = made->entry, .alone = made->source};
        TRY(ctx, run_list(ctx, executor, &source, &made->list, &fault, &command));
        made->version = version;
    }
    return TSR_SUCCESS;
}

static void note_changes(tsr_executor *executor, const bound_entry *bound) {
    if (!bound->changes) return;
    executor->host_counts = executor->device->type->shares_memory;
    for (size_t i = 0; i < executor->config->tensor_count; i++)
        executor->versions[i] += bound->changes[i];
}

static tsr_result run_loop(tsr_ctx *ctx, tsr_executor *executor, size_t entry,
                           const tsr_loop *loop) {
    tsr_fault fault;
    for (uint32_t i = 0, command = 0; i < loop->list_count; i++) {
        const tsr_program_entry *of = &executor->program->entries[entry];
        const tsr_probe_source source = {of, entry, loop->sources[i], NULL};
        TRY(ctx, run_list(ctx, executor, &source, &loop->lists[i], &fault, &command));
        if (fault.kind != TSR_FAULT_NONE)
            return report_fault(ctx, executor, entry, executor->leaves.first + i,
                                &of->commands[loop->sources[i][command]], &fault);
    }
    TRY(ctx,
        tsr_loop_exchange(ctx, loop, executor->transport, &executor->leaves, executor->sums_bytes));
    return tsr_loop_tell(ctx, loop, executor->device, &executor->memory, &executor->observer);
}

/* Of the ranks, or nothing to do. */
static tsr_result exchange(tsr_ctx *ctx, tsr_executor *executor, const part *at, bool first) {
    const tsr_collective *collective = at->collective;
    if (!collective || collective->exchanges_first != first || executor->leaves.rank_count == 1)
        return TSR_SUCCESS;
    return tsr_collective_exchange(ctx, collective, executor->transport, &executor->leaves,
                                   executor->sums_bytes);
}

static tsr_result run_part(tsr_ctx *ctx, tsr_executor *executor, size_t entry, part *at) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    const bound_entry *bound = &executor->entries[entry];
    tsr_fault fault;
    uint32_t command = 0;
    if (at->loop) return run_loop(ctx, executor, entry, at->loop);
    if (executor->memory.guard && at->collective && at->collective->writes_tensor)
        executor->memory.guard(executor->memory.guard_user, at->collective->to);
    TRY(ctx, exchange(ctx, executor, at, true));
    if (at->list.command_count == 0) return exchange(ctx, executor, at, false);
    const uint32_t *numbers = at->collective ? NULL : &bound->numbers[at->first];
    const tsr_probe_source origin = {source, entry, numbers, NULL};
    TRY(ctx, run_list(ctx, executor, &origin, &at->list, &fault, &command));
    if (fault.kind == TSR_FAULT_NONE) return exchange(ctx, executor, at, false);
    return report_fault(ctx, executor, entry, 0,
                        &source->commands[bound->numbers[at->first + command]], &fault);
}

/* What leaves a region must be finite. */
static tsr_result check_leaving(tsr_ctx *ctx, tsr_executor *executor, size_t entry,
                                const part *at) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    for (uint32_t i = 0; at->leaves && i < at->leaves->argument_count; i++) {
        const tsr_program_buffer *buffer = &source->buffers[at->leaves->arguments[i]];
        char *memory = find_buffer(executor, entry, 0, buffer);
        const tsr_tensor tensor = {.dtype = buffer->dtype, .shape = buffer->shape, .data = memory};
        double value = 0;
        TRY(ctx, tsr_device_bring(ctx, executor->device, &executor->memory, memory,
                                  tsr_program_buffer_size(buffer)));
        uint64_t element = tsr_tensor_find_nonfinite(&tensor, &value);
        if (element == UINT64_MAX) continue;
        FAIL(ctx, TSR_NONFINITE,
             "value %u that leaves it has %g at element %llu; expected finite numbers", i, value,
             (unsigned long long)element);
    }
    return TSR_SUCCESS;
}

/* After a failure of a region that runs again: its handler, once. The first error stays. */
static tsr_result handle_failure(tsr_ctx *ctx, tsr_executor *executor,
                                 const tsr_program_region *region, uint64_t step,
                                 const char *error) {
    const tsr_program_entry *handler =
        region->on_failure ? &executor->program->entries[region->on_failure - 1] : NULL;
    tsr_log(ctx, TSR_LOG_WARNING, "step %llu: region '%s' failed: %s%s%s", (unsigned long long)step,
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

/* Runs the parts; a region of mode replay that fails begins again, a few times. */
static tsr_result run_parts(tsr_ctx *ctx, tsr_executor *executor, size_t entry, uint64_t step) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    uint32_t attempts = 0;
    uint64_t began_ns = 0;
    for (uint32_t i = 0; i < bound->part_count;) {
        part *at = &bound->parts[i];
        if (at->region != NO_REGION)
            tsr_probe_enter(ctx->trace, &source->regions[at->region], &began_ns);
        tsr_result result = run_part(ctx, executor, entry, at);
        if (!result.code) result = check_leaving(ctx, executor, entry, at);
        if (at->leaves || (result.code && at->region != NO_REGION))
            tsr_probe_leave(ctx->trace, &source->regions[at->region], attempts, &began_ns);
        if (!result.code) {
            if (at->leaves) attempts = 0;
            i++;
            continue;
        }
        bool failed = result.code == TSR_DATA || result.code == TSR_NONFINITE;
        if (at->region == NO_REGION) return result;
        const tsr_program_region *region = &source->regions[at->region];
        if (result.code == TSR_MACHINE)
            return tsr_error_prefix(ctx, result, "region '%s'", region->name);
        if (!failed) return result;
        executor->failed_entry = (uint32_t)entry;
        executor->failed_region = at->region;
        if (region->mode != TSR_REGION_REPLAY)
            return tsr_error_prefix(ctx, result, "region '%s'", region->name);
        tsr_ctx apart = tsr_ctx_fork(ctx);
        tsr_result handled = handle_failure(&apart, executor, region, step, ctx->error.text);
        if (handled.code) return tsr_error_adopt(ctx, &apart);
        executor->failed_region = at->region; /* the handler's run has none */
        if (++attempts == TSR_REGION_ATTEMPTS_MAX)
            return tsr_error_prefix(ctx, result, "region '%s' failed %u times", region->name,
                                    attempts);
        TRY(ctx, prepare(ctx, executor, bound));
        i = part_of(bound, at->region);
    }
    executor->failed_region = NO_REGION;
    return TSR_SUCCESS;
}

static void fill_inputs(tsr_executor *executor, size_t entry, uint64_t step) {
    const tsr_config_entry *config = &executor->config->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    for (size_t i = 0; i < config->input_count; i++) {
        tsr_port_source filled = config->inputs[i].source;
        if (filled == TSR_PORT_STEP) memcpy(bound->inputs[i], &step, sizeof step);
        if (filled == TSR_PORT_SEED) memcpy(bound->inputs[i], &executor->seed, sizeof step);
    }
    for (uint32_t i = 0;
         tsr_plan_has_leaves(executor->config, config) && i < executor->leaves.count; i++) {
        int64_t number = (int64_t)executor->leaves.first + i;
        memcpy(bound->leaf_numbers + i * TSR_BUFFER_ALIGN_BYTES, &number, sizeof number);
    }
}

tsr_result tsr_executor_run(tsr_ctx *ctx, tsr_executor *executor, size_t entry, uint64_t step) {
    TSR_ASSERT(entry < executor->program->entry_count);
    bound_entry *bound = &executor->entries[entry];
    fill_inputs(executor, entry, step);
    executor->failed_region = NO_REGION;
    uint64_t began_ns = tsr_trace_begin(ctx->trace, TSR_TRACK_STEPS);
    TRY(ctx, bring_tensors(ctx, executor));
    TRY(ctx, prepare(ctx, executor, bound));
    tsr_result result = run_parts(ctx, executor, entry, step);
    note_changes(executor, bound);
    tsr_trace_end(ctx->trace, TSR_TRACK_STEPS, executor->config->entries[entry].name, began_ns);
    return result;
}

const tsr_kernel_times *tsr_executor_get_times(const tsr_executor *e) { return e->probe.kernels; }

const tsr_program_region *tsr_executor_get_failed_region(const tsr_executor *executor) {
    if (executor->failed_region == NO_REGION) return NULL;
    return &executor->program->entries[executor->failed_entry].regions[executor->failed_region];
}

uint64_t tsr_executor_get_fault_row(const tsr_executor *executor) { return executor->fault_row; }
