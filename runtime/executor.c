/* SPDX-License-Identifier: Apache-2.0
 *
 * One block of memory:  tensors | workspace | inputs, outputs of entry 0 | … of entry 1 | …
 * each piece rounded up to the alignment. At creation every command's arguments become addresses of
 * the device, so that it walks an array.
 */
#include "runtime/executor.h"

#include <stdlib.h>
#include <string.h>

typedef struct bound_entry {
    void **inputs, **outputs;     /* in the arena; the host's memory in the block */
    tsr_device_command *commands; /* in the arena */
    tsr_device_list list;
    bool writes_tensors;
} bound_entry;

struct tsr_executor {
    const tsr_config *config;   /* borrowed */
    const tsr_program *program; /* borrowed */
    tsr_device *device;         /* borrowed */
    tsr_arena arena;
    tsr_device_memory memory;        /* owned; of the device */
    uint64_t tensor_bytes;           /* at its begin */
    bool host_counts, device_counts; /* whose copy of the tensors is good; both may be */
    void **tensors;
    char *workspace; /* the host's */
    bound_entry *entries;
    void (*guard)(void *user); /* see tsr_executor_set_guard */
    void *guard_user;
    uint64_t seed, fault_row; /* of the last fault; UINT64_MAX where it is none of a data input */
};

static bool add_aligned(uint64_t *total, uint64_t size_bytes) {
    uint64_t rounded;
    if (__builtin_add_overflow(size_bytes, TSR_BUFFER_ALIGN_BYTES - 1, &rounded)) return false;
    rounded &= ~(uint64_t)(TSR_BUFFER_ALIGN_BYTES - 1);
    return !__builtin_add_overflow(*total, rounded ? rounded : TSR_BUFFER_ALIGN_BYTES, total) &&
           *total <= INT64_MAX;
}

static bool add_ports(uint64_t *total, const tsr_config_port *ports, size_t count) {
    uint64_t size = 0;
    for (size_t i = 0; i < count; i++)
        if (!tsr_shape_size(&ports[i].shape, ports[i].dtype, &size) || !add_aligned(total, size))
            return false;
    return true;
}

tsr_result tsr_executor_plan(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                             tsr_memory_plan *out_plan) {
    tsr_memory_plan plan = {0};
    uint64_t size = 0;
    bool fits = true;
    for (size_t i = 0; i < config->tensor_count; i++) {
        const tsr_config_tensor *tensor = &config->tensors[i];
        fits = fits && tsr_shape_size(&tensor->shape, tensor->dtype, &size) &&
               add_aligned(&plan.tensor_bytes, size);
    }
    for (size_t i = 0; i < config->entry_count; i++) {
        const tsr_config_entry *entry = &config->entries[i];
        uint64_t workspace = 0;
        fits = fits && add_aligned(&workspace, program->entries[i].workspace_bytes) &&
               add_ports(&plan.port_bytes, entry->inputs, entry->input_count) &&
               add_ports(&plan.port_bytes, entry->outputs, entry->output_count);
        if (workspace > plan.workspace_bytes) plan.workspace_bytes = workspace;
    }
    fits = fits && add_aligned(&plan.total_bytes, plan.tensor_bytes) &&
           add_aligned(&plan.total_bytes, plan.workspace_bytes) &&
           add_aligned(&plan.total_bytes, plan.port_bytes);
    if (!fits) FAIL(ctx, TSR_MEMORY, "the memory plan of '%s' exceeds 2^63 bytes", config->name);
    *out_plan = plan;
    return TSR_SUCCESS;
}

static void *take(char **at, tsr_dtype dtype, const tsr_shape *shape) {
    uint64_t size = 0, rounded = 0;
    void *memory = *at;
    bool fits = tsr_shape_size(shape, dtype, &size) && add_aligned(&rounded, size);
    TSR_ASSERT(fits); /* tsr_executor_plan added the same numbers */
    *at += rounded;
    return memory;
}

static void *find_buffer(const tsr_executor *executor, size_t entry,
                         const tsr_program_buffer *buffer) {
    const bound_entry *bound = &executor->entries[entry];
    switch (buffer->space) {
    case TSR_SPACE_TENSOR:
        return executor->tensors[buffer->index];
    case TSR_SPACE_INPUT:
        return bound->inputs[buffer->index];
    case TSR_SPACE_OUTPUT:
        return bound->outputs[buffer->index];
    case TSR_SPACE_WORKSPACE:
        return executor->workspace + buffer->offset_bytes;
    }
    TSR_ASSERT(!"a decoded program has no other space");
    return NULL;
}

static bool bind_command(tsr_executor *executor, size_t entry, const tsr_program_command *command,
                         tsr_device_command *out_bound) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    const tsr_device_memory *memory = &executor->memory;
    bool is_copy = command->opcode == TSR_OP_COPY;
    void **buffers = TSR_NEW(&executor->arena, void *, command->argument_count);
    if (!buffers) return false;
    for (uint32_t i = 0; i < command->argument_count; i++) {
        const tsr_program_buffer *buffer = &source->buffers[command->arguments[i]];
        bool written = is_copy ? i == 0 : i >= command->written_from;
        buffers[i] = memory->device + ((char *)find_buffer(executor, entry, buffer) - memory->host);
        if (written && buffer->space == TSR_SPACE_TENSOR)
            executor->entries[entry].writes_tensors = true;
    }
    *out_bound = (tsr_device_command){.is_copy = is_copy,
                                      .kernel = is_copy ? 0 : command->kernel,
                                      .buffer_count = command->argument_count,
                                      .buffers = buffers,
                                      .grid = command->grid,
                                      .cost = command->cost,
                                      .location = command->location};
    const tsr_program_buffer *target = &source->buffers[command->arguments[0]];
    return !is_copy || tsr_shape_size(&target->shape, target->dtype, &out_bound->copy_bytes);
}

static bool bind_ports(tsr_executor *executor, const tsr_config_port *ports, size_t count,
                       char **at, void ***out_memory) {
    void **memory = TSR_NEW(&executor->arena, void *, count ? count : 1);
    for (size_t i = 0; memory && i < count; i++)
        memory[i] = take(at, ports[i].dtype, &ports[i].shape);
    *out_memory = memory;
    return memory != NULL;
}

static tsr_device_range range_of(const tsr_executor *executor, const char *begin, const char *end) {
    return (tsr_device_range){(uint64_t)(begin - executor->memory.host), (uint64_t)(end - begin)};
}

static bool bind_entry(tsr_executor *executor, size_t entry, char **at) {
    const tsr_config_entry *config = &executor->config->entries[entry];
    const tsr_program_entry *source = &executor->program->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    const char *inputs = *at;
    bound->commands = TSR_NEW(&executor->arena, tsr_device_command,
                              source->command_count ? source->command_count : 1);
    if (!bound->commands ||
        !bind_ports(executor, config->inputs, config->input_count, at, &bound->inputs))
        return false;
    const char *outputs = *at;
    if (!bind_ports(executor, config->outputs, config->output_count, at, &bound->outputs))
        return false;
    bound->list = (tsr_device_list){.name = config->name,
                                    .commands = bound->commands,
                                    .command_count = source->command_count,
                                    .inputs = range_of(executor, inputs, outputs),
                                    .outputs = range_of(executor, outputs, *at)};
    for (uint32_t i = 0; i < source->command_count; i++) {
        if (!bind_command(executor, entry, &source->commands[i], &bound->commands[i])) return false;
        if (!bound->writes_tensors) bound->list.guarded_command = i + 1;
        uint64_t cost = source->commands[i].cost;
        if (cost > bound->list.cost_max) bound->list.cost_max = cost;
    }
    return true;
}

static bool bind_all(tsr_executor *executor, const tsr_memory_plan *plan) {
    const tsr_config *config = executor->config;
    char *at = executor->memory.host;
    executor->tensors =
        TSR_NEW(&executor->arena, void *, config->tensor_count ? config->tensor_count : 1);
    executor->entries =
        TSR_NEW(&executor->arena, bound_entry, config->entry_count ? config->entry_count : 1);
    if (!executor->tensors || !executor->entries) return false;
    for (size_t i = 0; i < config->tensor_count; i++)
        executor->tensors[i] = take(&at, config->tensors[i].dtype, &config->tensors[i].shape);
    executor->workspace = at;
    at += plan->workspace_bytes;
    for (size_t i = 0; i < config->entry_count; i++)
        if (!bind_entry(executor, i, &at)) return false;
    return true;
}

static tsr_result set_up(tsr_ctx *ctx, tsr_executor *executor, const tsr_memory_plan *plan) {
    tsr_device *device = executor->device;
    tsr_result result = device->type->allocate(ctx, device, plan->total_bytes, &executor->memory);
    if (result.code)
        return tsr_error_prefix(ctx, result, "'%s' plans %llu bytes", executor->config->name,
                                (unsigned long long)plan->total_bytes);
    if (!bind_all(executor, plan))
        FAIL(ctx, TSR_MEMORY, "no memory for the commands of '%s'", executor->config->name);
    for (size_t i = 0; i < executor->config->entry_count; i++)
        TRY(ctx, device->type->prepare(ctx, device, &executor->memory, &executor->entries[i].list));
    return TSR_SUCCESS;
}

tsr_result tsr_executor_create(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                               tsr_device *device, tsr_executor **out_executor) {
    tsr_memory_plan plan;
    TSR_ASSERT(config->entry_count == program->entry_count);
    TRY(ctx, tsr_executor_plan(ctx, config, program, &plan));
    tsr_executor *executor = calloc(1, sizeof *executor);
    if (!executor) FAIL(ctx, TSR_MEMORY, "no memory for the executor of '%s'", config->name);
    *executor = (tsr_executor){.config = config,
                               .program = program,
                               .device = device,
                               .tensor_bytes = plan.tensor_bytes,
                               .host_counts = true};
    tsr_result result = set_up(ctx, executor, &plan);
    if (result.code)
        tsr_executor_destroy(executor);
    else
        *out_executor = executor;
    return result;
}

void tsr_executor_destroy(tsr_executor *executor) {
    if (!executor) return;
    const tsr_device_type *type = executor->device->type;
    for (size_t i = 0; executor->entries && i < executor->config->entry_count; i++)
        if (executor->entries[i].list.prepared)
            type->finish(executor->device, &executor->entries[i].list);
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
    if (executor->guard) executor->guard(executor->guard_user);
    TRY(ctx, type->download(ctx, executor->device, &executor->memory, all_tensors(executor)));
    executor->host_counts = true;
    return TSR_SUCCESS;
}

tsr_result tsr_executor_claim(tsr_ctx *ctx, tsr_executor *executor) {
    TRY(ctx, tsr_executor_fetch(ctx, executor));
    executor->device_counts = false;
    return TSR_SUCCESS;
}

void *tsr_executor_get_tensor(const tsr_executor *executor, size_t tensor) {
    TSR_ASSERT(tensor < executor->config->tensor_count);
    return executor->tensors[tensor];
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

/* What the user calls it: the input or tensor it is, else the value's name in the source. */
static const char *name_buffer(const tsr_executor *executor, size_t entry,
                               const tsr_program_buffer *buffer) {
    if (buffer->space == TSR_SPACE_INPUT)
        return executor->config->entries[entry].inputs[buffer->index].name;
    if (buffer->space == TSR_SPACE_TENSOR) return executor->config->tensors[buffer->index].name;
    return buffer->name[0] ? buffer->name : "an index";
}

static uint64_t find_row(const tsr_config_entry *entry, const tsr_program_buffer *buffer,
                         const tsr_fault *fault) {
    const tsr_config_port *port = &entry->inputs[buffer->index];
    uint64_t count = 0;
    if (buffer->space != TSR_SPACE_INPUT || port->source != TSR_PORT_DATA || !entry->batch)
        return UINT64_MAX;
    bool fits = tsr_shape_count(&port->shape, &count);
    TSR_ASSERT(fits);
    if (fault->element < 0 || (uint64_t)fault->element >= count) return UINT64_MAX;
    return (uint64_t)fault->element / (count / entry->batch);
}

static tsr_result report_fault(tsr_ctx *ctx, tsr_executor *executor, size_t entry,
                               const tsr_program_command *command, const tsr_fault *fault) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    const char *name = "an index";
    executor->fault_row = UINT64_MAX;
    if (fault->argument >= 0 && fault->argument < (int64_t)command->argument_count) {
        const tsr_program_buffer *buffer = &source->buffers[command->arguments[fault->argument]];
        name = name_buffer(executor, entry, buffer);
        executor->fault_row = find_row(&executor->config->entries[entry], buffer, fault);
    }
    FAIL(ctx, TSR_DATA, "%s[%lld] is %lld; expected 0 to %lld%s%s", name, (long long)fault->element,
         (long long)fault->value, (long long)fault->limit - 1, command->location[0] ? " at " : "",
         command->location);
}

void tsr_executor_set_seed(tsr_executor *executor, uint64_t seed) { executor->seed = seed; }

void tsr_executor_set_guard(tsr_executor *executor, void (*guard)(void *user), void *user) {
    executor->guard = guard;
    executor->guard_user = user;
    for (size_t i = 0; i < executor->program->entry_count; i++) {
        executor->entries[i].list.guard = guard;
        executor->entries[i].list.guard_user = user;
    }
}

static tsr_result bring_tensors(tsr_ctx *ctx, tsr_executor *executor) {
    const tsr_device_type *type = executor->device->type;
    if (executor->device_counts || type->shares_memory) return TSR_SUCCESS;
    TRY(ctx, type->upload(ctx, executor->device, &executor->memory, all_tensors(executor)));
    executor->device_counts = true;
    return TSR_SUCCESS;
}

tsr_result tsr_executor_run(tsr_ctx *ctx, tsr_executor *executor, size_t entry, uint64_t step) {
    TSR_ASSERT(entry < executor->program->entry_count);
    const tsr_program_entry *source = &executor->program->entries[entry];
    const tsr_config_entry *config = &executor->config->entries[entry];
    bound_entry *bound = &executor->entries[entry];
    for (size_t i = 0; i < config->input_count; i++) {
        tsr_port_source filled = config->inputs[i].source;
        if (filled == TSR_PORT_STEP) memcpy(bound->inputs[i], &step, sizeof step);
        if (filled == TSR_PORT_SEED) memcpy(bound->inputs[i], &executor->seed, sizeof step);
    }
    TRY(ctx, bring_tensors(ctx, executor));
    tsr_fault fault;
    uint32_t command = 0;
    tsr_result result = executor->device->type->run(ctx, executor->device, &executor->memory,
                                                    &bound->list, &fault, &command);
    if (bound->writes_tensors) executor->host_counts = executor->device->type->shares_memory;
    if (result.code) return result;
    if (fault.kind != TSR_FAULT_NONE)
        return report_fault(ctx, executor, entry, &source->commands[command], &fault);
    return TSR_SUCCESS;
}

uint64_t tsr_executor_get_fault_row(const tsr_executor *executor) { return executor->fault_row; }
