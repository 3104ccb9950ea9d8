/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the planned peak of the workspace with the measured one. Each entry runs twice, on a
 * workspace filled with 0xA5 and with 0x5A: the bytes that differ from either pattern were written.
 * They must be exactly the bytes of the program's buffers, and end at the planned peak.
 */
#include "loader/model.h"
#include "tests/loader/digits.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <stdlib.h>
#include <string.h>

static digits d;

static void init(void) {
    digits_init(&d);
    digits_must(&d, tsr_model_initialize(&d.ctx, d.model, 3));
}
static void finish(void) { digits_finish(&d); }
TestSuite(peak, .init = init, .fini = finish);

/* The workspace follows the tensors; the first tensor is at the beginning of the executor's
 * memory. */
static uint8_t *workspace_of(const tsr_model *model) {
    return (uint8_t *)tsr_executor_get_tensor(model->executor, 0) + model->plan.tensor_bytes;
}

static void fill_inputs(const tsr_model *model, size_t entry) {
    const tsr_config_entry *e = &model->config.entries[entry];
    for (size_t i = 0; i < e->input_count; i++) {
        uint64_t size = 0;
        cr_assert(tsr_shape_size(&e->inputs[i].shape, e->inputs[i].dtype, &size));
        uint8_t *bytes = tsr_executor_get_input(model->executor, entry, i);
        memset(bytes, 0, size); /* labels must be in range */
        for (uint64_t k = 0; e->inputs[i].dtype == TSR_DTYPE_UI8 && k < size; k++)
            bytes[k] = (uint8_t)(k * 37 % 17);
    }
}

/* Sets written[i] if a run of the entry wrote byte i of the workspace. */
static void measure(tsr_model *model, size_t entry, uint8_t *written) {
    static const uint8_t patterns[] = {0xA5, 0x5A};
    uint8_t *workspace = workspace_of(model);
    uint64_t size = model->plan.workspace_bytes;
    memset(written, 0, size);
    for (int i = 0; i < 2; i++) {
        fill_inputs(model, entry);
        memset(workspace, patterns[i], size);
        digits_must(&d, tsr_executor_run(&d.ctx, model->executor, entry, 1));
        for (uint64_t k = 0; k < size; k++) written[k] |= workspace[k] != patterns[i];
    }
}

Test(peak, planned_is_measured) {
    tsr_model *model = d.model;
    uint64_t size = model->plan.workspace_bytes;
    uint8_t *written = malloc(size), *planned = malloc(size);
    cr_assert(written && planned);
    for (size_t e = 0; e < model->program.entry_count; e++) {
        const tsr_program_entry *entry = &model->program.entries[e];
        uint64_t peak = 0, bytes = 0;
        memset(planned, 0, size);
        for (uint32_t i = 0; i < entry->buffer_count; i++) {
            const tsr_program_buffer *buffer = &entry->buffers[i];
            if (buffer->space == TSR_SPACE_WORKSPACE)
                memset(planned + buffer->offset_bytes, 1, tsr_program_buffer_size(buffer));
        }
        measure(model, e, written);
        for (uint64_t i = 0; i < size; i++) {
            cr_assert_eq(written[i], planned[i], "%s: byte %zu of the workspace was %s",
                         entry->name, (size_t)i, written[i] ? "written" : "planned only");
            if (written[i]) peak = i + 1;
            bytes += written[i];
        }
        peak = (peak + TSR_PROGRAM_ALIGN_BYTES - 1) / TSR_PROGRAM_ALIGN_BYTES *
               TSR_PROGRAM_ALIGN_BYTES;
        cr_log_info("%s: planned peak %zu, measured %zu; %zu bytes written\n", entry->name,
                    (size_t)entry->workspace_bytes, (size_t)peak, (size_t)bytes);
        cr_assert_eq(peak, entry->workspace_bytes, "%s: planned peak %zu, measured %zu",
                     entry->name, (size_t)entry->workspace_bytes, (size_t)peak);
    }
    free(planned);
    free(written);
}
