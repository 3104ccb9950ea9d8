/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/numerics.h"

#include "runtime/base/array.h"
#include "runtime/base/clock.h"
#include "runtime/exec/bound.h"
#include "runtime/exec/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A list, and the lists that are run instead of it. A copy that runs beside other commands stays in
 * one segment with its await. */
typedef struct segments {
    const tsr_device_list *of;
    tsr_device_list *lists;
    uint32_t *first; /* the number of each segment's first command in the list */
    uint32_t count;
} segments;

struct tsr_numerics {
    segments *all; /* sorted by `of` */
    size_t count;
    uint64_t step;
    bool warned; /* of an infinity */
    tsr_numerics_cost cost;
};

/* ---- segments -------------------------------------------------------------------------------- */

/* One past the last command of the segment that begins at `begin`. */
static uint32_t end_of_segment(const tsr_device_list *list, uint32_t begin) {
    uint32_t at = begin, in_flight = 0;
    do {
        tsr_device_command_kind kind = list->commands[at++].kind;
        in_flight += kind == TSR_DEVICE_OFFLOAD || kind == TSR_DEVICE_PREFETCH;
        in_flight -= kind == TSR_DEVICE_AWAIT;
    } while (in_flight && at < list->command_count);
    return at;
}

/* The commands of a segment; an await names a command of its own list. */
static const tsr_device_command *cut(tsr_executor *executor, const tsr_device_list *list,
                                     uint32_t begin, uint32_t end) {
    if (end - begin == 1) return list->commands + begin;
    tsr_device_command *commands = TSR_NEW(&executor->arena, tsr_device_command, end - begin);
    for (uint32_t i = begin; commands && i < end; i++) {
        commands[i - begin] = list->commands[i];
        if (commands[i - begin].kind == TSR_DEVICE_AWAIT) commands[i - begin].awaited -= begin;
    }
    return commands;
}

static bool split(tsr_executor *executor, const tsr_device_list *list, segments *out_segments) {
    *out_segments = (segments){.of = list};
    out_segments->lists = TSR_NEW(&executor->arena, tsr_device_list, list->command_count + 1);
    out_segments->first = TSR_NEW(&executor->arena, uint32_t, list->command_count + 1);
    if (!out_segments->lists || !out_segments->first) return false;
    for (uint32_t begin = 0; begin < list->command_count;) {
        uint32_t end = end_of_segment(list, begin);
        tsr_device_list *segment = &out_segments->lists[out_segments->count];
        *segment = (tsr_device_list){.name = list->name,
                                     .commands = cut(executor, list, begin, end),
                                     .command_count = end - begin,
                                     .cost_max = list->cost_max,
                                     .moves = list->moves};
        if (!segment->commands) return false;
        if (begin == 0) segment->inputs = list->inputs;
        if (end == list->command_count) segment->outputs = list->outputs;
        out_segments->first[out_segments->count++] = begin;
        begin = end;
    }
    return true;
}

static tsr_result add_list(tsr_ctx *ctx, tsr_executor *executor, tsr_numerics *numerics,
                           const tsr_device_list *list) {
    const tsr_device_type *type = executor->device->type;
    segments *added = &numerics->all[numerics->count];
    if (!split(executor, list, added)) FAIL(ctx, TSR_MEMORY, "no memory to check '%s'", list->name);
    numerics->count++;
    for (uint32_t i = 0; i < added->count; i++)
        TRY(ctx, type->prepare(ctx, executor->device, &executor->memory, &added->lists[i]));
    return TSR_SUCCESS;
}

static int by_list(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const segments *)a)->of, y = (uintptr_t)((const segments *)b)->of;
    return x < y ? -1 : x > y;
}

/* Calls `visit` for each list of the executor, or counts them if it is NULL. */
static tsr_result for_each_list(tsr_ctx *ctx, tsr_executor *executor, tsr_numerics *numerics,
                                size_t *out_count) {
    tsr_device_list *list;
    size_t count = 0;
    for (size_t i = 0; i < executor->config->entry_count; i++)
        for (uint32_t k = 0; k < executor->entries[i].part_count; k++)
            for (uint32_t n = 0; (list = tsr_bound_list(&executor->entries[i].parts[k], n)); n++) {
                count++;
                if (numerics) TRY(ctx, add_list(ctx, executor, numerics, list));
            }
    for (uint32_t i = 0; i < executor->prepacked_count; i++, count++)
        if (numerics) TRY(ctx, add_list(ctx, executor, numerics, &executor->prepacked[i].list));
    *out_count = count;
    return TSR_SUCCESS;
}

tsr_result tsr_numerics_init(tsr_ctx *ctx, tsr_executor *executor, tsr_numerics **out_numerics) {
    size_t count = 0;
    TRY(ctx, for_each_list(ctx, executor, NULL, &count));
    tsr_numerics *numerics = TSR_NEW(&executor->arena, tsr_numerics, 1);
    if (numerics) numerics->all = TSR_NEW(&executor->arena, segments, count + 1);
    if (!numerics || !numerics->all)
        FAIL(ctx, TSR_MEMORY, "no memory to check the numbers of '%s'", executor->config->name);
    *out_numerics = numerics;
    TRY(ctx, for_each_list(ctx, executor, numerics, &count));
    qsort(numerics->all, numerics->count, sizeof *numerics->all, by_list);
    return TSR_SUCCESS;
}

void tsr_numerics_finish(tsr_executor *executor) {
    const tsr_numerics *numerics = executor->numerics;
    for (size_t i = 0; numerics && i < numerics->count; i++)
        for (uint32_t k = 0; k < numerics->all[i].count; k++)
            tsr_bound_finish(executor, &numerics->all[i].lists[k]);
}

/* ---- messages -------------------------------------------------------------------------------- */

enum { LOCATION_MAX = 512, NAME_MAX_BYTES = 128, ELEMENT_MAX = 24 * TSR_RANK_MAX };

static const char *name_buffer(const tsr_executor *executor, size_t entry,
                               const tsr_program_buffer *buffer) {
    const tsr_config_entry *ports = &executor->config->entries[entry];
    switch (buffer->space) {
    case TSR_SPACE_INPUT:
        return ports->inputs[buffer->index].name;
    case TSR_SPACE_OUTPUT:
        return ports->outputs[buffer->index].name;
    case TSR_SPACE_TENSOR:
    case TSR_SPACE_PART:
        return executor->config->tensors[buffer->index].name;
    default:
        return buffer->name;
    }
}

/* " of 'w'", or "" for a value without a name. */
static const char *describe_name(const char *name, char out_text[static NAME_MAX_BYTES]) {
    snprintf(out_text, NAME_MAX_BYTES, name[0] ? " of '%.100s'" : "", name);
    return out_text;
}

/* "[7, 2]" */
static const char *describe_element(const tsr_shape *shape, uint64_t element,
                                    char out_text[static ELEMENT_MAX]) {
    uint64_t index[TSR_RANK_MAX];
    size_t at = 0;
    for (uint32_t i = shape->rank; i-- > 0; element /= shape->dims[i])
        index[i] = element % shape->dims[i];
    for (uint32_t i = 0; i < shape->rank; i++)
        at += (size_t)snprintf(out_text + at, ELEMENT_MAX - at, "%s%" PRIu64, i ? ", " : "[",
                               index[i]);
    snprintf(out_text + at, ELEMENT_MAX - at, shape->rank ? "]" : "[]");
    return out_text;
}

/* "step 3, rank 1, virtual rank 2, iteration 5: " */
static void describe_source(const tsr_executor *executor, bool with_step, int64_t vrank, char *text,
                            size_t size) {
    size_t at = 0;
    text[0] = 0;
    if (with_step) at = (size_t)snprintf(text, size, "step %" PRIu64, executor->numerics->step);
    if (executor->transport)
        at += (size_t)snprintf(text + at, size - at, "%srank %u", at ? ", " : "",
                               executor->transport->rank);
    if (vrank >= 0 && executor->vranks.total > 1)
        at += (size_t)snprintf(text + at, size - at, "%svirtual rank %" PRId64, at ? ", " : "",
                               vrank);
    for (uint32_t i = 0; i < executor->depth; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s%" PRIu64, at ? ", " : "",
                               i ? "" : "iteration ", executor->iterations[i]);
    if (at) snprintf(text + at, size - at, ": ");
}

/* ---- checks ---------------------------------------------------------------------------------- */

typedef struct finding {
    const tsr_program_buffer *buffer;
    uint64_t element;
    double value;
} finding;

static bool find(const tsr_program_buffer *buffer, const char *memory, uint64_t count,
                 finding *out_finding) {
    double value = 0;
    uint64_t element = tsr_dtype_find_nan(buffer->dtype, memory, count);
    if (element != UINT64_MAX)
        value = (double)NAN;
    else
        element = tsr_dtype_find_nonfinite(buffer->dtype, memory, count, &value);
    *out_finding = (finding){buffer, element, value};
    return element != UINT64_MAX;
}

/* A part of a tensor may end with elements that have no meaning. */
static bool is_checked(const tsr_program_buffer *buffer) {
    return tsr_dtype_is_float(buffer->dtype) && buffer->space != TSR_SPACE_PART &&
           buffer->space != TSR_SPACE_HOST && buffer->space != TSR_SPACE_SIZE;
}

/* The rows that a call with an open dim does not compute hold anything. */
static uint64_t count_elements(const tsr_program_buffer *buffer, const uint64_t *sizes) {
    uint64_t size_bytes = tsr_program_buffer_size(buffer);
    if (buffer->rows && sizes && buffer->shape.dims[0])
        size_bytes = size_bytes / buffer->shape.dims[0] * sizes[buffer->rows - 1];
    return size_bytes / tsr_dtype_size(buffer->dtype);
}

/* Looks at one argument of a command that has run; its address is that of the device. */
static tsr_result inspect(tsr_ctx *ctx, tsr_executor *executor, const tsr_probe_source *source,
                          const tsr_program_buffer *buffer, const void *address, bool *out_found,
                          finding *out_finding) {
    const tsr_device_memory *memory = &executor->memory;
    const char *host = memory->host + ((const char *)address - memory->device);
    uint64_t count = count_elements(buffer, source->sizes);
    *out_found = false;
    if (!is_checked(buffer)) return TSR_SUCCESS;
    TRY(ctx, tsr_device_download(ctx, executor->device, memory, host,
                                 count * tsr_dtype_size(buffer->dtype)));
    executor->numerics->cost.elements += count;
    *out_found = find(buffer, host, count, out_finding);
    return TSR_SUCCESS;
}

/* "; its operand 0 of 'x' has inf at element [3]", or "". Kernels that work in place have
 * overwritten the operand. */
static tsr_result describe_operand(tsr_ctx *ctx, tsr_executor *executor,
                                   const tsr_probe_source *source,
                                   const tsr_program_command *command,
                                   const tsr_device_command *bound, char *text, size_t size) {
    char name[NAME_MAX_BYTES], element[ELEMENT_MAX];
    text[0] = 0;
    for (uint32_t i = 0; i < command->written_from; i++) {
        finding operand;
        bool found = false;
        const tsr_program_buffer *buffer = &source->entry->buffers[command->arguments[i]];
        TRY(ctx, inspect(ctx, executor, source, buffer, bound->buffers[i], &found, &operand));
        if (!found) continue;
        snprintf(text, size, "; its operand %u%s has %g at element %s", i,
                 describe_name(name_buffer(executor, source->index, buffer), name), operand.value,
                 describe_element(&buffer->shape, operand.element, element));
        break;
    }
    return TSR_SUCCESS;
}

static tsr_result report(tsr_ctx *ctx, tsr_executor *executor, const tsr_probe_source *source,
                         const tsr_program_command *command, const tsr_device_command *bound,
                         int64_t vrank, const finding *found) {
    char origin[LOCATION_MAX], type[TSR_TYPE_TEXT_MAX], operand[LOCATION_MAX];
    char name[NAME_MAX_BYTES], element[ELEMENT_MAX];
    bool is_nan = isnan(found->value);
    if (!is_nan && executor->numerics->warned) return TSR_SUCCESS;
    /* Whoever runs training steps puts the step before errors. */
    bool trains = executor->config->entries[source->index].kind == TSR_ENTRY_TRAIN;
    describe_source(executor, !is_nan || !trains, vrank, origin, sizeof origin);
    TRY(ctx, describe_operand(ctx, executor, source, command, bound, operand, sizeof operand));
    describe_name(name_buffer(executor, source->index, found->buffer), name);
    describe_element(&found->buffer->shape, found->element, element);
    const char *kernel = executor->program->kernels[command->kernel];
    tsr_type_format(found->buffer->dtype, &found->buffer->shape, type);
    const char *at = command->location[0] ? command->location : "an unknown place";
    if (is_nan)
        FAIL(ctx, TSR_NONFINITE, "%skernel '%s' at %s makes %g at element %s%s (%s)%s", origin,
             kernel, at, found->value, element, name, type, operand);
    executor->numerics->warned = true;
    tsr_log(ctx, TSR_LOG_WARNING,
            "%skernel '%s' at %s makes %g at element %s%s (%s), the first infinity of this run%s",
            origin, kernel, at, found->value, element, name, type, operand);
    return TSR_SUCCESS;
}

static tsr_result check_command(tsr_ctx *ctx, tsr_executor *executor,
                                const tsr_probe_source *source, uint32_t number,
                                const tsr_device_command *bound, int64_t vrank) {
    const tsr_program_command *command = &source->entry->commands[number];
    if (bound->kind != TSR_DEVICE_LAUNCH || command->opcode != TSR_OP_LAUNCH) return TSR_SUCCESS;
    executor->numerics->cost.launches++;
    for (uint32_t i = command->written_from; i < tsr_program_written_end(command); i++) {
        finding found;
        bool some = false;
        TRY(ctx, inspect(ctx, executor, source, &source->entry->buffers[command->arguments[i]],
                         bound->buffers[i], &some, &found));
        if (some) TRY(ctx, report(ctx, executor, source, command, bound, vrank, &found));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_numerics_run(tsr_ctx *ctx, tsr_executor *executor, const tsr_probe_source *source,
                            const tsr_device_list *list, int64_t vrank, tsr_fault *out_fault,
                            uint32_t *out_command) {
    tsr_numerics *numerics = executor->numerics;
    const segments key = {.of = list};
    const segments *found = bsearch(&key, numerics->all, numerics->count, sizeof key, by_list);
    TSR_ASSERT(found);
    out_fault->kind = TSR_FAULT_NONE;
    for (uint32_t i = 0; i < found->count; i++) {
        tsr_device_list *segment = &found->lists[i];
        uint32_t last = found->first[i] + segment->command_count - 1;
        TRY(ctx, executor->device->type->run(ctx, executor->device, &executor->memory, segment,
                                             out_fault, out_command));
        *out_command += found->first[i];
        if (out_fault->kind != TSR_FAULT_NONE) return TSR_SUCCESS;
        if (!source->numbers) continue;
        uint64_t began_ns = tsr_clock_ns();
        TRY(ctx, check_command(ctx, executor, source, source->numbers[last],
                               &segment->commands[segment->command_count - 1], vrank));
        numerics->cost.time_ns += tsr_clock_ns() - began_ns;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_numerics_begin(tsr_ctx *ctx, tsr_executor *executor, size_t entry, uint64_t step) {
    const tsr_config_entry *ports = &executor->config->entries[entry];
    tsr_numerics *numerics = executor->numerics;
    char text[ELEMENT_MAX];
    numerics->step = step;
    /* Rows of virtual ranks are apart in memory; a kernel that reads a NaN names its operand. */
    if (tsr_plan_has_vranks(executor->config, ports)) return TSR_SUCCESS;
    for (size_t i = 0; i < ports->input_count; i++) {
        const tsr_config_port *port = &ports->inputs[i];
        uint64_t count = 0;
        if (!tsr_dtype_is_float(port->dtype) || tsr_port_is_filled(port->source) ||
            port->dim_times || !tsr_shape_count(&port->shape, &count))
            continue;
        uint64_t element =
            tsr_dtype_find_nan(port->dtype, executor->entries[entry].inputs[i], count);
        if (element != UINT64_MAX)
            FAIL(ctx, TSR_NONFINITE, "step %" PRIu64 ": input '%s' has nan at element %s", step,
                 port->name, describe_element(&port->shape, element, text));
    }
    return TSR_SUCCESS;
}

/* The first element that is not finite or not between the bounds. */
static bool find_outside(const tsr_program_buffer *buffer, const char *memory, uint64_t count,
                         double low, double high, finding *out_finding) {
    if (find(buffer, memory, count, out_finding)) count = out_finding->element;
    bool found = out_finding->element != UINT64_MAX;
    for (uint64_t i = 0; i < count && (isfinite(low) || isfinite(high)); i++) {
        double value = tsr_dtype_read(buffer->dtype, memory, i);
        if (value >= low && value <= high) continue;
        *out_finding = (finding){buffer, i, value};
        return true;
    }
    return found;
}

tsr_result tsr_numerics_verify(tsr_ctx *ctx, tsr_executor *executor, size_t entry,
                               const tsr_program_command *command) {
    const tsr_program_entry *source = &executor->program->entries[entry];
    const tsr_program_buffer *buffer = &source->buffers[command->arguments[0]];
    const char *memory = tsr_bound_find(executor, entry, 0, buffer);
    uint64_t count = count_elements(buffer, executor->entries[entry].open.sizes);
    char origin[LOCATION_MAX], type[TSR_TYPE_TEXT_MAX], name[NAME_MAX_BYTES], element[ELEMENT_MAX];
    double low, high;
    finding found;
    tsr_program_verify_bounds(command, &low, &high);
    TRY(ctx, tsr_device_download(ctx, executor->device, &executor->memory, memory,
                                 count * tsr_dtype_size(buffer->dtype)));
    if (!find_outside(buffer, memory, count, low, high, &found)) return TSR_SUCCESS;
    describe_source(executor, false, -1, origin, sizeof origin);
    describe_name(name_buffer(executor, entry, buffer), name);
    describe_element(&buffer->shape, found.element, element);
    tsr_type_format(buffer->dtype, &buffer->shape, type);
    const char *at = command->location[0] ? command->location : "an unknown place";
    if (isinf(low) && isinf(high))
        FAIL(ctx, TSR_NONFINITE,
             "%sverify.numerics at %s: %g at element %s%s (%s); expected finite numbers", origin,
             at, found.value, element, name, type);
    FAIL(ctx, TSR_NONFINITE,
         "%sverify.numerics at %s: %.9g at element %s%s (%s); expected numbers from %.9g to %.9g",
         origin, at, found.value, element, name, type, low, high);
}

tsr_result tsr_executor_check_numerics(tsr_ctx *ctx, tsr_executor *executor) {
    return tsr_numerics_init(ctx, executor, &executor->numerics);
}

bool tsr_executor_get_numerics_cost(const tsr_executor *executor, tsr_numerics_cost *out_cost) {
    if (!executor->numerics) return false;
    *out_cost = executor->numerics->cost;
    return true;
}
