/* SPDX-License-Identifier: Apache-2.0
 *
 * The caller's views of one step, matched with the inputs and outputs of its entry. Private to the
 * loader.
 */
#ifndef TSR_LOADER_TRAINER_BATCH_H
#define TSR_LOADER_TRAINER_BATCH_H

#include "loader/model.h"
#include "runtime/data/shuffle.h"
#include "tessera/trainer.h"

/* Draws the rows of batches: for each position the row that tsr_position_get_row returns. */
typedef struct tsr_draw {
    const tsr_position *position; /* borrowed */
    tsr_shuffler shuffler;
    uint32_t *table; /* owned; NULL: none, or not yet */
} tsr_draw;

typedef struct tsr_batch {
    const tsr_model *model;
    size_t entry;
    /* By port; NULL: not given. Borrowed. */
    const tsr_view *inputs[TSR_CONFIG_PORTS_MAX], *outputs[TSR_CONFIG_PORTS_MAX];
    /* The batch is drawn from data inputs that have all rows; NULL: they have the batch. */
    tsr_draw *draw;
} tsr_batch;

/* TSR_USAGE for an unknown, repeated or missing input, memory that is not there, or memory of a GPU
 * for a model on a CPU; TSR_DATA with both types. Reads no memory of the views. */
TSR_RESULT tsr_batch_match(tsr_ctx *ctx, const tsr_model *model, size_t entry,
                           const tsr_view *inputs, size_t input_count, const tsr_view *outputs,
                           size_t output_count, tsr_draw *draw, tsr_batch *out_batch);
/* Makes the table of the draws. TSR_USAGE if the position has no rows. */
TSR_RESULT tsr_draw_begin(tsr_ctx *ctx, const tsr_model *model, tsr_draw *draw);
/* For tsr_train_job.batch: `user` is a tsr_batch. */
tsr_result tsr_batch_read(tsr_ctx *ctx, void *user, uint32_t vrank, uint64_t first_row,
                          uint64_t row_count);
/* Copies the outputs of the step to the caller's memory. */
TSR_RESULT tsr_batch_write(tsr_ctx *ctx, const tsr_batch *batch);

/* Fills `out_views`, of TSR_CONFIG_PORTS_MAX elements, with the inputs that a caller gives, without
 * data. Returns their number. */
size_t tsr_batch_list_inputs(const tsr_config_entry *entry, tsr_view *out_views);

/* The model of a trainer, and the entry that it trains. */
tsr_model *tsr_trainer_get_model(const tsr_trainer *trainer, size_t *out_entry);

/* Checks that a view has memory where the model can reach it. `what` begins the message. */
TSR_RESULT tsr_view_check_memory(tsr_ctx *ctx, const tsr_model *model, const char *what,
                                 const tsr_view *view);
/* Copies between a view's memory, from byte `offset_bytes` on, and host memory. */
TSR_RESULT tsr_view_read(tsr_ctx *ctx, const tsr_model *model, const tsr_view *view,
                         uint64_t offset_bytes, void *to, uint64_t size_bytes);
TSR_RESULT tsr_view_write(tsr_ctx *ctx, const tsr_model *model, const tsr_view *view,
                          const void *from, uint64_t size_bytes);

#endif
