/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fault.h"

/* What the user calls it: the input or tensor it is, else the value's name in the source. */
static const char *name_buffer(const tsr_fault_place *place, const tsr_program_buffer *buffer) {
    if (buffer->space == TSR_SPACE_INPUT) return place->entry->inputs[buffer->index].name;
    if (buffer->space == TSR_SPACE_TENSOR) return place->config->tensors[buffer->index].name;
    return buffer->name[0] ? buffer->name : "an index";
}

static uint64_t find_row(const tsr_fault_place *place, const tsr_program_buffer *buffer,
                         const tsr_fault *fault) {
    uint64_t count = 0;
    if (buffer->space != TSR_SPACE_INPUT || !place->entry->batch) return UINT64_MAX;
    const tsr_config_port *port = &place->entry->inputs[buffer->index];
    if (port->source != TSR_PORT_DATA) return UINT64_MAX;
    bool fits = tsr_shape_count(&port->shape, &count);
    TSR_ASSERT(fits);
    if (fault->element < 0 || (uint64_t)fault->element >= count) return UINT64_MAX;
    return place->first_row + (uint64_t)fault->element / (count / place->entry->batch);
}

tsr_result tsr_fault_report(tsr_ctx *ctx, const tsr_fault_place *place, const tsr_fault *fault,
                            uint64_t *out_row) {
    const tsr_program_command *command = place->command;
    const char *name = "an index";
    *out_row = UINT64_MAX;
    if (fault->argument >= 0 && fault->argument < (int64_t)command->argument_count) {
        const tsr_program_buffer *buffer =
            &place->program->buffers[command->arguments[fault->argument]];
        name = name_buffer(place, buffer);
        *out_row = find_row(place, buffer, fault);
    }
    FAIL(ctx, TSR_DATA, "%s[%lld] is %lld; expected 0 to %lld%s%s", name, (long long)fault->element,
         (long long)fault->value, (long long)fault->limit - 1, command->location[0] ? " at " : "",
         command->location);
}
