/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/record/evidence.h"

#include "runtime/transport/collective.h"

#include <inttypes.h>
#include <string.h>

struct tsr_evidence {
    tsr_executor *executor;
    const tsr_config_entry *config;
    tsr_transport *transport; /* NULL: one rank */
    size_t entry;
    tsr_tensor *tensors; /* tensors of the data inputs, then of results */
    size_t *inputs;      /* index of each data input */
    size_t input_count, count;
    size_t *results; /* 1 + index of the tensor of each command; 0: it has no result */
};

static uint64_t size_of(const tsr_tensor *tensor) {
    uint64_t size = 0;
    bool fits = tsr_shape_size(&tensor->shape, tensor->dtype, &size);
    TSR_ASSERT(fits);
    return size;
}

static tsr_result add(tsr_ctx *ctx, tsr_evidence *self, tsr_arena *arena, const char *name,
                      tsr_dtype dtype, tsr_shape shape) {
    tsr_tensor *made = &self->tensors[self->count++];
    *made = (tsr_tensor){name, dtype, shape, NULL};
    uint64_t size = size_of(made);
    if (name) made->data = tsr_arena_alloc(arena, (size_t)size + 1, 1, TSR_BUFFER_ALIGN_BYTES);
    if (!made->data)
        FAIL(ctx, TSR_MEMORY, "no memory for the %" PRIu64 " bytes that a log is made from", size);
    memset(made->data, 0, (size_t)size);
    return TSR_SUCCESS;
}

static tsr_result add_inputs(tsr_ctx *ctx, tsr_evidence *self, tsr_arena *arena) {
    for (size_t i = 0; i < self->config->input_count; i++) {
        const tsr_config_port *port = &self->config->inputs[i];
        if (port->source != TSR_PORT_DATA) continue;
        self->inputs[self->input_count++] = i;
        TRY(ctx, add(ctx, self, arena, tsr_arena_printf(arena, "batch %s", port->name), port->dtype,
                     port->shape));
    }
    return TSR_SUCCESS;
}

static tsr_result add_results(tsr_ctx *ctx, tsr_evidence *self, const tsr_program_entry *program,
                              tsr_arena *arena) {
    const tsr_loop *loop;
    unsigned number = 0;
    for (size_t n = 0; (loop = tsr_executor_get_loop(self->executor, self->entry, n)); n++)
        for (uint32_t i = 0; i < loop->result_count; i++) {
            uint32_t index = loop->results[i].command;
            const tsr_program_command *command = &program->commands[index];
            const tsr_program_buffer *buffer = &program->buffers[command->arguments[0]];
            const char *what = command->opcode == TSR_OP_VRANK_SUM ? "sum" : "gather";
            const char *name =
                tsr_arena_printf(arena, "%s %u%s%s", what, ++number,
                                 command->location[0] ? " at " : "", command->location);
            TRY(ctx, add(ctx, self, arena, name, buffer->dtype, buffer->shape));
            self->results[index] = self->count;
        }
    return TSR_SUCCESS;
}

/* Adds sums that a collective computes; ranks have a part or all of each. */
static tsr_result add_taken(tsr_ctx *ctx, tsr_evidence *self, const tsr_program_entry *program,
                            tsr_arena *arena) {
    unsigned number = 0;
    for (uint32_t i = 0; i < program->command_count; i++) {
        const tsr_program_command *command = &program->commands[i];
        if (command->opcode != TSR_OP_COLLECTIVE) continue;
        const tsr_collective_row *row = tsr_collective_get(command->kernel);
        if (row->from != TSR_COLLECTIVE_LOCATION_SUM) continue;
        const tsr_program_buffer *sum = &program->buffers[command->arguments[1]];
        const char *name = tsr_arena_printf(arena, "%s %u%s%s", row->name, ++number,
                                            command->location[0] ? " at " : "", command->location);
        TRY(ctx, add(ctx, self, arena, name, sum->dtype, sum->shape));
        self->results[i] = self->count;
    }
    return TSR_SUCCESS;
}

static void *find_taken(void *user, uint32_t command) {
    const tsr_evidence *self = user;
    return self->results[command] ? self->tensors[self->results[command] - 1].data : NULL;
}

static void take_result(void *user, const tsr_loop_result *result) {
    const tsr_evidence *self = user;
    if (!self->results[result->command]) return;
    const tsr_tensor *to = &self->tensors[self->results[result->command] - 1];
    memcpy(to->data, result->bytes, (size_t)result->size_bytes);
}

tsr_result tsr_evidence_begin(tsr_ctx *ctx, tsr_executor *executor, const tsr_config *config,
                              const tsr_program *program, size_t entry, tsr_transport *transport,
                              bool collects_sums, tsr_arena *arena, tsr_evidence **out_evidence) {
    const tsr_program_entry *of = &program->entries[entry];
    tsr_evidence *self = TSR_NEW(arena, tsr_evidence, 1);
    size_t most = config->entries[entry].input_count + of->command_count;
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory to write a log");
    *self = (tsr_evidence){.executor = executor,
                           .config = &config->entries[entry],
                           .transport = transport,
                           .entry = entry,
                           .tensors = TSR_NEW(arena, tsr_tensor, most + 1),
                           .inputs = TSR_NEW(arena, size_t, most + 1),
                           .results = TSR_NEW(arena, size_t, (size_t)of->command_count + 1)};
    if (!self->tensors || !self->inputs || !self->results)
        FAIL(ctx, TSR_MEMORY, "no memory to write a log");
    TRY(ctx, add_inputs(ctx, self, arena));
    if (collects_sums) {
        TRY(ctx, add_results(ctx, self, of, arena));
        TRY(ctx, add_taken(ctx, self, of, arena));
    }
    tsr_executor_set_observer(executor,
                              (tsr_loop_observer){.entry = (uint32_t)entry,
                                                  .call = collects_sums ? take_result : NULL,
                                                  .find = find_taken,
                                                  .user = self});
    *out_evidence = self;
    return TSR_SUCCESS;
}

void tsr_evidence_end(tsr_evidence *evidence) {
    if (evidence) tsr_executor_set_observer(evidence->executor, (tsr_loop_observer){0});
}

const tsr_tensor *tsr_evidence_get_tensors(const tsr_evidence *evidence, size_t *out_count) {
    *out_count = evidence->count;
    return evidence->tensors;
}

tsr_result tsr_evidence_take_batch(tsr_ctx *ctx, tsr_evidence *evidence) {
    const tsr_vranks *vranks = tsr_executor_get_vranks(evidence->executor);
    uint64_t rows = tsr_executor_get_vrank_rows(evidence->executor, evidence->entry);
    for (size_t i = 0; i < evidence->input_count; i++) {
        const tsr_tensor *batch = &evidence->tensors[i];
        size_t part = (size_t)(size_of(batch) / evidence->config->batch * rows);
        for (uint32_t k = 0; k < vranks->count; k++)
            memcpy((char *)batch->data + tsr_vranks_number(vranks, k) * part,
                   tsr_executor_get_vrank_input(evidence->executor, evidence->entry,
                                                evidence->inputs[i], k),
                   part);
        if (vranks->rank_count == 1) continue;
        TRY(ctx, tsr_vranks_gather(ctx, vranks, evidence->transport, batch->data, part));
    }
    return TSR_SUCCESS;
}
