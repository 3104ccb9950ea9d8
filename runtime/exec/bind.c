/* SPDX-License-Identifier: Apache-2.0
 *
 * One block of memory:  tensors | workspace | prepared | inputs, outputs of entry 0 | of entry 1 |
 * … each piece rounded up to the alignment; the values and sums of virtual ranks are stored after
 * the prepared memory. At creation, every command's arguments become device addresses, so that a
 * run walks an array. The commands that prepare from a tensor are a separate list, shared by the
 * entries and run before their lists: the entries do not write the tensor. A list ends where a
 * region of resilience begins or ends: its values are checked between two lists.
 */
#include "runtime/exec/bound.h"
#include "runtime/exec/plan.h"

static void *take_bytes(char **at, uint64_t size_bytes) {
    uint64_t rounded = 0;
    void *memory = *at;
    bool fits = tsr_plan_add(&rounded, size_bytes);
    TSR_ASSERT(fits); /* tsr_executor_plan added the same numbers */
    *at += rounded;
    return memory;
}

static void *find_part(const tsr_executor *executor, uint32_t vrank, uint32_t tensor) {
    bool alone = executor->holdings[tensor] == TSR_HOLDING_PARTS;
    uint64_t number = vrank + (alone ? 0 : executor->vranks.first);
    return (char *)executor->tensors[tensor] +
           number * tsr_program_part_bytes(executor->config, tensor);
}

static size_t number_of(const tsr_executor *executor, size_t entry,
                        const tsr_program_buffer *buffer) {
    return (size_t)(buffer - executor->program->entries[entry].buffers);
}

static void *find_sum(const tsr_executor *executor, size_t entry,
                      const tsr_program_buffer *buffer) {
    const tsr_reduction_plan *reductions = &executor->entries[entry].reductions;
    size_t number = number_of(executor, entry, buffer);
    return reductions->strategy[number] == TSR_STRATEGY_SCATTERED
               ? executor->of_parts + reductions->offset_bytes[number]
               : executor->of_sums + buffer->offset_bytes;
}

/* A scattered sum starts at this rank's first part. */
static void *find_sum_part(const tsr_executor *executor, size_t entry, uint32_t vrank,
                           size_t number) {
    const tsr_reduction_plan *reductions = &executor->entries[entry].reductions;
    const tsr_program_buffer *buffers = executor->program->entries[entry].buffers;
    uint32_t sum = reductions->sum[number] - 1;
    uint64_t before =
        reductions->strategy[sum] == TSR_STRATEGY_SCATTERED ? 0 : executor->vranks.first;
    return (char *)find_sum(executor, entry, &buffers[sum]) +
           (before + vrank) * tsr_program_buffer_size(&buffers[number]);
}

void *tsr_bound_find(const tsr_executor *executor, size_t entry, uint32_t vrank,
                     const tsr_program_buffer *buffer) {
    const bound_entry *bound = &executor->entries[entry];
    size_t number = number_of(executor, entry, buffer);
    switch (buffer->space) {
    case TSR_SPACE_TENSOR:
        return executor->tensors[buffer->index];
    case TSR_SPACE_PART:
        return find_part(executor, vrank, buffer->index);
    case TSR_SPACE_INPUT:
        return (char *)bound->inputs[buffer->index] + vrank * bound->input_strides[buffer->index];
    case TSR_SPACE_OUTPUT:
        return bound->outputs[buffer->index];
    case TSR_SPACE_PREPACKED:
        return executor->prepacked[buffer->index].memory;
    case TSR_SPACE_WORKSPACE:
        if (bound->reductions.tensor[number])
            return executor->tensors[bound->reductions.tensor[number] - 1];
        return executor->workspace + bound->workspace_offset + buffer->offset_bytes;
    case TSR_SPACE_VRANK:
        if (bound->reductions.sum[number]) return find_sum_part(executor, entry, vrank, number);
        return executor->of_vranks + vrank * executor->vrank_bytes + buffer->offset_bytes;
    case TSR_SPACE_SUMS:
        return find_sum(executor, entry, buffer);
    case TSR_SPACE_VRANK_NUMBER:
        return bound->vrank_numbers + vrank * TSR_BUFFER_ALIGN_BYTES;
    case TSR_SPACE_SIZE:
        return bound->open.memory + buffer->index * (uint64_t)TSR_BUFFER_ALIGN_BYTES;
    case TSR_SPACE_HOST: /* see address_of */
        break;
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

static bool is_slice(const tsr_program_command *command) {
    return command->opcode == TSR_OP_TAKE || command->opcode == TSR_OP_PUT;
}

/* Returns the device address of a buffer. */
static char *address_of(const tsr_executor *executor, size_t entry,
                        const tsr_program_buffer *buffer) {
    const tsr_device_memory *memory = &executor->memory;
    if (buffer->space == TSR_SPACE_HOST)
        return memory->offloaded + executor->entries[entry].offloaded_offset + buffer->offset_bytes;
    return memory->device + ((char *)tsr_bound_find(executor, entry, 0, buffer) - memory->host);
}

static tsr_device_command_kind kind_of(const tsr_program_command *command) {
    switch (command->opcode) {
    case TSR_OP_COPY:
    case TSR_OP_TAKE:
    case TSR_OP_PUT:
        return TSR_DEVICE_COPY;
    case TSR_OP_OFFLOAD:
        return TSR_DEVICE_OFFLOAD;
    case TSR_OP_PREFETCH:
        return TSR_DEVICE_PREFETCH;
    default:
        return TSR_DEVICE_LAUNCH;
    }
}

/* Notes an argument that is an input or output. */
static bool note_port(tsr_executor *executor, size_t entry, const tsr_program_buffer *buffer,
                      bool written, void **at) {
    bound_entry *bound = &executor->entries[entry];
    bool is_output = buffer->space == TSR_SPACE_OUTPUT;
    if (!is_output && buffer->space != TSR_SPACE_INPUT) return true;
    port_address *made = TSR_NEW(&executor->arena, port_address, 1);
    if (!made) return false;
    *made = (port_address){at, buffer->index, is_output, bound->port_addresses};
    bound->port_addresses = made;
    bound->writes_inputs = bound->writes_inputs || (written && !is_output);
    return true;
}

static bool bind_command(tsr_executor *executor, size_t entry, const tsr_program_command *command,
                         tsr_device_command *out_bound) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    tsr_device_command_kind kind = kind_of(command);
    bool is_copy = kind != TSR_DEVICE_LAUNCH;
    void **buffers = TSR_NEW(&executor->arena, void *, command->argument_count);
    void **guarded = TSR_NEW(&executor->arena, void *, command->argument_count);
    uint32_t guarded_count = 0;
    if (!buffers || !guarded) return false;
    for (uint32_t i = 0; i < command->argument_count; i++) {
        const tsr_program_buffer *buffer = &source->buffers[command->arguments[i]];
        bool written = i >= command->written_from && i < tsr_program_written_end(command);
        buffers[i] = address_of(executor, entry, buffer);
        if (!note_port(executor, entry, buffer, written, &buffers[i])) return false;
        if (!written || buffer->space != TSR_SPACE_TENSOR) continue;
        if (!note_change(executor, entry, buffer)) return false;
        guarded[guarded_count++] = executor->tensors[buffer->index];
    }
    *out_bound = (tsr_device_command){.kind = kind,
                                      .kernel = is_copy ? 0 : command->kernel,
                                      .buffer_count = command->argument_count,
                                      .buffers = buffers,
                                      .grid = command->grid,
                                      .cost = command->cost,
                                      .location = command->location,
                                      .guarded = guarded,
                                      .guarded_count = guarded_count};
    const tsr_program_buffer *copied =
        &source->buffers[command->arguments[command->opcode == TSR_OP_PUT]];
    return !is_copy || tsr_shape_size(&copied->shape, copied->dtype, &out_bound->copy_bytes);
}

static bool bind_inputs(tsr_executor *executor, size_t entry, char **at) {
    const tsr_config_entry *config = &executor->config->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    bound->inputs = TSR_NEW(&executor->arena, void *, config->input_count + 1);
    bound->input_strides = TSR_NEW(&executor->arena, uint64_t, config->input_count + 1);
    bound->hyperparameters = TSR_NEW(&executor->arena, double, config->input_count + 1);
    if (!bound->inputs || !bound->input_strides || !bound->hyperparameters) return false;
    for (size_t i = 0; i < config->input_count; i++) {
        uint64_t size = 0;
        bool splits = tsr_program_splits(executor->config, config, &config->inputs[i]);
        bool fits = tsr_plan_input_size(executor->config, config, i, &size);
        TSR_ASSERT(fits);
        bound->inputs[i] = *at;
        const tsr_config_hyperparameter *of = config->inputs[i].hyperparameter;
        bound->hyperparameters[i] = of ? of->value : 0;
        for (uint32_t k = 0; k < (splits ? executor->vranks.count : 1); k++) take_bytes(at, size);
        if (splits) fits = tsr_plan_add(&bound->input_strides[i], size);
    }
    bound->vrank_numbers = *at;
    for (uint32_t i = 0;
         tsr_plan_has_vranks(executor->config, config) && i < executor->vranks.count; i++)
        take_bytes(at, sizeof(int64_t));
    char *sizes = *at;
    for (uint32_t i = 0; i < executor->program->entries[entry].size_count; i++)
        take_bytes(at, sizeof(int64_t));
    return tsr_open_init(executor, entry, sizes);
}

static tsr_device_range range_of(const tsr_executor *executor, const char *begin, const char *end) {
    return (tsr_device_range){(uint64_t)(begin - executor->memory.host), (uint64_t)(end - begin)};
}

/* If several entries fill a buffer, the command of the last one is used: they are equal. */
static bool bind_prepare(tsr_executor *executor, size_t entry, const tsr_program_command *command) {
    const tsr_program_buffer *buffers = executor->program->entries[entry].buffers;
    bound_entry *bound = &executor->entries[entry];
    prepacked *made = &executor->prepacked[buffers[command->arguments[1]].index];
    made->tensor = buffers[command->arguments[0]].index;
    made->entry = &executor->program->entries[entry];
    made->source = command;
    made->list = (tsr_device_list){.name = executor->config->tensors[made->tensor].name,
                                   .commands = &made->command,
                                   .command_count = 1,
                                   .cost_max = command->cost};
    bound->prepacked[bound->prepacked_count++] = made;
    return bind_command(executor, entry, command, &made->command);
}

/* Makes a copy for each pair of buffers. */
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

/* Number of device commands for command `index`: 0 if it only affects the order. */
static uint32_t device_count(const tsr_program_entry *entry, uint32_t index) {
    const tsr_program_command *command = &entry->commands[index];
    switch (command->opcode) {
    case TSR_OP_LAUNCH:
    case TSR_OP_COPY:
    case TSR_OP_TAKE:
    case TSR_OP_PUT:
    case TSR_OP_OFFLOAD:
    case TSR_OP_PREFETCH:
        return 1;
    case TSR_OP_AWAIT: /* other awaited commands complete in order */
        return tsr_program_is_offload(&entry->commands[command->kernel]);
    case TSR_OP_EXPORT:
    case TSR_OP_IMPORT:
        return command->written_from;
    default:
        return 0;
    }
}

/* The awaited command is an earlier one in the list. */
static void bind_await(const bound_entry *bound, const tsr_program_command *command, const part *at,
                       tsr_device_command *out_bound) {
    uint32_t index = at->list.command_count;
    while (index > 0 && bound->numbers[at->first + index - 1] != command->kernel) index--;
    TSR_ASSERT(index > 0); /* tsr_program_verify ensures it */
    *out_bound = (tsr_device_command){
        .kind = TSR_DEVICE_AWAIT, .awaited = index - 1, .location = command->location};
}

static bool bind_next(tsr_executor *executor, size_t entry, uint32_t index, part *at) {
    const tsr_program_command *command = &executor->program->entries[entry].commands[index];
    bound_entry *bound = &executor->entries[entry];
    uint32_t count = device_count(&executor->program->entries[entry], index);
    uint32_t first = at->first + at->list.command_count;
    if (command->opcode == TSR_OP_PREPARE) return bind_prepare(executor, entry, command);
    if (count == 0) return true;
    bool transfers = command->opcode == TSR_OP_EXPORT || command->opcode == TSR_OP_IMPORT;
    tsr_device_command *commands = &bound->commands[first];
    for (uint32_t i = 0; i < count; i++) bound->numbers[first + i] = index;
    bool done = true;
    if (command->opcode == TSR_OP_AWAIT)
        bind_await(bound, command, at, commands);
    else
        done = transfers ? bind_transfer(executor, entry, command, commands)
                         : bind_command(executor, entry, command, commands);
    if (!done) return false;
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

typedef struct lookup {
    tsr_executor *executor;
    size_t entry;
} lookup;
static void *find_for_loop(void *user, uint32_t vrank, const tsr_program_buffer *buffer) {
    return tsr_bound_find(((lookup *)user)->executor, ((lookup *)user)->entry, vrank, buffer);
}

static bool note_for_loop(void *user, const tsr_program_buffer *buffer) {
    return note_change(((lookup *)user)->executor, ((lookup *)user)->entry, buffer);
}

/* Binds a separate part: a loop of commands [begin, end), or the collective of command `begin`. */
static bool bind_for_vranks(tsr_executor *executor, size_t entry, uint32_t begin, uint32_t end,
                            part *at) {
    lookup p = {executor, entry};
    bound_entry *bound = &executor->entries[entry];
    const tsr_program_entry *of = &executor->program->entries[entry];
    const tsr_program_command *command = &of->commands[begin];
    const tsr_loop_source source = {.arena = &executor->arena,
                                    .name = of->name,
                                    .entry = of,
                                    .vranks = &executor->vranks,
                                    .memory = &executor->memory,
                                    .vrank_bytes = executor->vrank_bytes,
                                    .sums_bytes = executor->sums_bytes,
                                    .deferred = bound->deferred,
                                    .reductions = &bound->reductions,
                                    .round = executor->round,
                                    .tensors = executor->tensors,
                                    .find = find_for_loop,
                                    .note_change = note_for_loop,
                                    .user = &p};
    if (end > begin) {
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
    uint32_t region = NO_REGION;
    part *at = add_part(bound, source->name, region);
    for (uint32_t i = 0; i < source->command_count; i++) {
        const tsr_program_command *command = &source->commands[i];
        if (command->opcode == TSR_OP_EACH_VRANK || command->opcode == TSR_OP_COLLECTIVE) {
            uint32_t first = i + (command->opcode == TSR_OP_EACH_VRANK);
            uint32_t end = first + (uint32_t)command->grid;
            at = add_part(bound, source->name, region);
            if (!bind_for_vranks(executor, entry, first, end, at)) return false;
            at = add_part(bound, source->name, region);
            i = end > first ? end - 1 : first;
            continue;
        }
        if (!bind_next(executor, entry, i, at)) return false;
        if (command->opcode == TSR_OP_LEAVE) at->vranks = command;
        if (command->opcode == TSR_OP_VERIFY) at->verify = command;
        if (command->opcode != TSR_OP_ENTER && command->opcode != TSR_OP_LEAVE &&
            command->opcode != TSR_OP_VERIFY)
            continue;
        if (command->opcode != TSR_OP_VERIFY)
            region = command->opcode == TSR_OP_ENTER ? command->kernel : NO_REGION;
        at = add_part(bound, source->name, region);
    }
    return true;
}

/* Binds a slice; the last command of the list is a take or put. */
static void bind_slice(bound_entry *bound, const tsr_program_command *command, uint64_t times,
                       part *at) {
    const tsr_device_command *copy = &at->list.commands[at->list.command_count - 1];
    void **address = (void **)copy->buffers + (command->opcode == TSR_OP_TAKE);
    int64_t stride = (int64_t)copy->copy_bytes;
    moving *made = &at->moving[at->moving_count++];
    *made = (moving){address, *address, stride};
    bound->moving_count++;
    if (command->kernel == 0) return;
    made->first += (int64_t)(times - 1) * stride;
    made->stride_bytes = -stride;
}

/* The ranges that enclose a command. */
typedef struct ranges {
    uint32_t parts[TSR_PROGRAM_DEPTH_MAX]; /* parts at which they begin */
    uint32_t ends[TSR_PROGRAM_DEPTH_MAX];
    uint32_t depth;
} ranges;

/* Closes the ranges that end before command `index`; returns true if there are any. */
static bool close_ranges(bound_entry *bound, ranges *open, uint32_t index) {
    bool some = false;
    for (; open->depth && open->ends[open->depth - 1] == index; some = true)
        bound->parts[open->parts[--open->depth]].target = bound->part_count;
    return some;
}

static part *add_control(tsr_executor *executor, size_t entry, uint32_t index, ranges *open) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    const tsr_program_command *command = &source->commands[index];
    bound_entry *bound = &executor->entries[entry];
    part *at = add_part(bound, source->name, NO_REGION);
    at->control = command;
    if (command->argument_count)
        at->condition = tsr_bound_find(executor, entry, 0, &source->buffers[command->arguments[0]]);
    if (command->opcode != TSR_OP_STOP) {
        open->parts[open->depth] = bound->part_count - 1;
        open->ends[open->depth++] = index + 1 + command->kernel;
    }
    return add_part(bound, source->name, NO_REGION);
}

/* Binds an entry with loops or branches. */
static bool bind_controlled(tsr_executor *executor, size_t entry) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    ranges open = {.depth = 0};
    part *at = add_part(bound, source->name, NO_REGION);
    for (uint32_t i = 0; i < source->command_count; i++) {
        const tsr_program_command *command = &source->commands[i];
        bool moves = is_slice(command);
        if (close_ranges(bound, &open, i)) at = add_part(bound, source->name, NO_REGION);
        if (tsr_program_is_control(command->opcode) && !moves) {
            at = add_control(executor, entry, i, &open);
            continue;
        }
        if (moves != at->list.moves && at->list.command_count)
            at = add_part(bound, source->name, NO_REGION);
        if (moves && !at->list.moves) at->moving = &bound->moving[bound->moving_count];
        at->list.moves = moves;
        if (!bind_next(executor, entry, i, at)) return false;
        if (command->opcode == TSR_OP_VERIFY) {
            at->verify = command;
            at = add_part(bound, source->name, NO_REGION);
        }
        if (moves)
            bind_slice(bound, command, bound->parts[open.parts[open.depth - 1]].control->grid, at);
    }
    close_ranges(bound, &open, source->command_count);
    return true;
}

/* Returns list `index` of a part; NULL after the last. */
tsr_device_list *tsr_bound_list(part *at, uint32_t index) {
    if (!at->loop) return index ? NULL : &at->list;
    return index < at->loop->step_count ? &at->loop->steps[index].list : NULL;
}

/* Transfers to the device are attached to the first list that runs, transfers back to the last one.
 */
static void bind_transfers(bound_entry *bound, tsr_device_range inputs, tsr_device_range outputs) {
    tsr_device_list *first = NULL, *last = NULL, *list;
    for (uint32_t i = 0; i < bound->part_count; i++)
        for (uint32_t k = 0; (list = tsr_bound_list(&bound->parts[i], k)); k++) {
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
    size_t count = 1, loops = 0, verifies = 0;
    for (uint32_t i = 0; i < source->command_count; i++) {
        const tsr_program_command *command = &source->commands[i];
        count += device_count(source, i);
        loops += command->opcode == TSR_OP_EACH_VRANK || command->opcode == TSR_OP_COLLECTIVE;
        verifies += command->opcode == TSR_OP_VERIFY;
    }
    bound->exchanges = loops > 0;
    bound->has_control = tsr_program_has_control(source);
    if (tsr_program_is_handler(executor->program, (uint32_t)entry)) {
        bound->workspace_offset = executor->handler_offset;
        bound->offloaded_offset = executor->offloaded_handler_offset;
    }
    bound->commands = TSR_NEW(&executor->arena, tsr_device_command, count);
    bound->numbers = TSR_NEW(&executor->arena, uint32_t, count);
    bound->prepacked = TSR_NEW(&executor->arena, prepacked *, (size_t)source->command_count + 1);
    bound->parts = TSR_NEW(&executor->arena, part,
                           bound->has_control ? 3 * (size_t)source->command_count + 1
                                              : 2 * (source->region_count + loops) + verifies + 1);
    bound->moving = TSR_NEW(&executor->arena, moving, count);
    bound->deferred = TSR_NEW(&executor->arena, bool, (size_t)source->buffer_count + 1);
    if (!bound->commands || !bound->numbers || !bound->prepacked || !bound->parts ||
        !bound->moving || !bound->deferred || !bind_inputs(executor, entry, at) ||
        !tsr_reduction_plan_init(executor->config, executor->program, entry, &executor->vranks,
                                 &executor->arena, &bound->reductions))
        return false;
    tsr_plan_find_deferred(source, bound->deferred);
    const char *outputs = *at;
    bound->outputs = TSR_NEW(&executor->arena, void *, config->output_count + 1);
    if (!bound->outputs) return false;
    for (size_t i = 0; i < config->output_count; i++)
        bound->outputs[i] = take_bytes(
            at, tsr_program_buffer_size(&(tsr_program_buffer){.dtype = config->outputs[i].dtype,
                                                              .shape = config->outputs[i].shape}));
    bound->input_range = range_of(executor, inputs, outputs);
    bound->output_range = range_of(executor, outputs, *at);
    if (bound->has_control) return bind_controlled(executor, entry);
    if (!bind_commands(executor, entry) || !tsr_open_bind(executor, entry)) return false;
    bind_transfers(bound, bound->input_range, bound->output_range);
    return true;
}

bool tsr_bound_bind(tsr_executor *executor, const tsr_memory_plan *plan) {
    const tsr_config *config = executor->config;
    char *at = executor->memory.host;
    tsr_prepacked_cursor cursor = {0};
    const tsr_program_buffer *made;
    executor->tensors = TSR_NEW(&executor->arena, void *, config->tensor_count + 1);
    executor->entries =
        TSR_NEW(&executor->arena, bound_entry, config->entry_count ? config->entry_count : 1);
    executor->copies = TSR_NEW(&executor->arena, copies, config->tensor_count + 1);
    executor->versions = TSR_NEW(&executor->arena, uint64_t, config->tensor_count + 1);
    executor->prepacked =
        TSR_NEW(&executor->arena, prepacked, (size_t)executor->prepacked_count + 1);
    executor->holdings = TSR_NEW(&executor->arena, tsr_holding, config->tensor_count + 1);
    if (!executor->tensors || !executor->entries || !executor->copies || !executor->versions ||
        !executor->prepacked || !executor->holdings)
        return false;
    for (size_t i = 0; i < config->tensor_count; i++) {
        executor->copies[i] = (copies){.host = true, .zero = true};
        executor->versions[i] = 1;
    }
    tsr_program_find_holdings(executor->program, config, executor->holdings);
    for (size_t i = 0; i < config->tensor_count; i++) {
        uint64_t size = 0;
        bool fits =
            tsr_plan_tensor_size(config, &executor->vranks, executor->holdings[i], i, &size);
        TSR_ASSERT(fits); /* tsr_executor_plan added the same numbers */
        executor->tensors[i] = take_bytes(&at, size);
    }
    TSR_ASSERT(at <= (char *)executor->memory.host + plan->tensor_bytes);
    at = (char *)executor->memory.host + plan->tensor_bytes;
    executor->tensors[config->tensor_count] = executor->workspace = at;
    at += executor->workspace_bytes = plan->workspace_bytes;
    executor->handler_offset = plan->workspace_bytes - plan->handler_bytes;
    executor->offloaded_handler_offset = plan->offloaded_bytes - plan->offloaded_handler_bytes;
    while ((made = tsr_program_next_prepacked(executor->program, &cursor)))
        executor->prepacked[made->index].memory = take_bytes(&at, tsr_program_buffer_size(made));
    executor->vrank_bytes = plan->vrank_bytes;
    executor->sums_bytes = plan->sum_bytes;
    executor->of_vranks = at;
    at += plan->vrank_bytes * executor->vranks.count;
    executor->of_sums = at;
    at += plan->sum_bytes * tsr_vranks_count_slots(&executor->vranks);
    executor->of_parts = at;
    executor->round = at += plan->part_bytes;
    at += plan->round_bytes;
    for (size_t i = 0; i < config->entry_count; i++)
        if (!bind_entry(executor, i, &at)) return false;
    return true;
}
