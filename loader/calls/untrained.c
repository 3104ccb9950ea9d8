/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out whether an entry reads parameters that have never been trained.
 *
 * A parameter that is drawn from a distribution is untrained: no baked bundle has one. A parameter
 * whose rule is one value may come from training, because a tensor of equal elements is stored as
 * such a rule. A parameter counts as untrained if the entry reads no parameter whose elements are
 * stored, and the provenance names no input other than the source, as it does for a state or a
 * parameter file.
 */
#include "bundle/provenance.h"
#include "loader/model.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct counts {
    size_t drawn, filled, stored;
    const char *first; /* the first drawn one, else the first with one value */
} counts;

static tsr_result count_read(tsr_ctx *ctx, const tsr_model *model, size_t entry, counts *out) {
    const tsr_program_entry *program = &model->program.entries[entry];
    const tsr_config *config = &model->config;
    bool *is_read = calloc(config->tensor_count + 1, sizeof *is_read);
    if (!is_read) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", config->tensor_count);
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        const tsr_program_buffer *buffer = &program->buffers[i];
        if (buffer->space == TSR_SPACE_TENSOR || buffer->space == TSR_SPACE_PART)
            is_read[buffer->index] = true;
    }
    *out = (counts){0};
    for (size_t i = 0; i < config->tensor_count; i++) {
        const tsr_config_tensor *tensor = &config->tensors[i];
        if (!is_read[i] || tensor->role != TSR_ROLE_PARAM) continue;
        bool is_stored = tensor->init == TSR_INIT_DATA;
        bool is_drawn = !is_stored && tensor->init != TSR_INIT_CONSTANT;
        if (!is_stored && (!out->first || (is_drawn && !out->drawn))) out->first = tensor->name;
        out->stored += is_stored;
        out->drawn += is_drawn;
        out->filled += !is_stored && !is_drawn;
    }
    free(is_read);
    return TSR_SUCCESS;
}

/* Returns true if values were put into the bundle after it was built from its source. */
static tsr_result has_other_inputs(tsr_ctx *ctx, const tsr_model *model, bool *out_found) {
    tsr_arena arena = {0};
    tsr_provenance provenance;
    bool found = false;
    tsr_result result = tsr_provenance_read(ctx, model->bundle, &arena, &provenance, &found);
    if (!result.code) *out_found = found && provenance.input_count > 1;
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_model_check_ready(tsr_ctx *ctx, tsr_model *model, size_t entry) {
    counts read = {0};
    TRY(ctx, tsr_model_check_filled(ctx, model));
    if (!model->untrained) return TSR_SUCCESS;
    TRY(ctx, count_read(ctx, model, entry, &read));
    if (!read.drawn) {
        bool was_given = true;
        if (read.filled && !read.stored) TRY(ctx, has_other_inputs(ctx, model, &was_given));
        if (was_given) return TSR_SUCCESS;
    }
    model->untrained = false;
    size_t others = read.drawn + read.filled - 1;
    char more[64] = "";
    if (others) snprintf(more, sizeof more, " and %zu more", others);
    tsr_log(ctx, TSR_LOG_WARNING,
            "entry '%s' reads parameters that were never trained: '%s'%s, initial values of seed "
            "%u; expected a state, a parameter file or a bundle with trained values",
            model->config.entries[entry].name, read.first, more, model->initial_seed);
    return TSR_SUCCESS;
}
