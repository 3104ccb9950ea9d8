/* SPDX-License-Identifier: Apache-2.0
 *
 * Training from memory, one step at a time: the caller brings each batch, the library computes the
 * step, and saves when it is asked to. docs/c-api.md shows a complete program.
 *
 *     tsr_trainer_options options = {0};
 *     options.size_bytes = sizeof options;
 *     options.state_directory = "S";
 *     tsr_trainer *trainer = NULL;
 *     result = tsr_trainer_open(&ctx, model, &options, &trainer);
 *     while (!result.code && tsr_trainer_get_position(trainer)->step < 500) {
 *         … fill images and labels …
 *         result = tsr_trainer_step(&ctx, trainer, inputs, 2, outputs, 1);
 *     }
 *     if (!result.code) result = tsr_trainer_save(&ctx, trainer, &generation);
 *     tsr_trainer_close(&ctx, trainer);
 *
 * The same batches give the same bits, states and tokens as tsr_train and tessera-run, on every
 * number of virtual ranks. A batch is always the whole batch of the entry: its rows are dealt to
 * the virtual ranks in their order.
 *
 * A trainer uses its model until it is closed. Meanwhile the entries of the model may be called,
 * and its tensors read and written by name, between the steps; functions that would replace the
 * whole state, train it otherwise or open a second trainer fail with TSR_USAGE. In a callback of a
 * step the rules of every callback hold (tessera/tessera.h): the trainer itself is then in use, and
 * its functions fail with TSR_USAGE. A trainer belongs to the thread of its model.
 *
 * With several ranks (tsr_model_options.transport), every rank makes the same calls with the same
 * whole batches, and reads only its own rows of them.
 */
#ifndef TSR_TESSERA_TRAINER_H
#define TSR_TESSERA_TRAINER_H

#include "tessera/report.h"
#include "tessera/state.h"
#include "tessera/tensor.h"

#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_model tsr_model; /* tessera/tessera.h */

/* ---- tensors of the caller ---- */

typedef enum tsr_location {
    TSR_LOCATION_HOST = 0,   /* memory of this process */
    TSR_LOCATION_DEVICE = 1, /* memory of the model's GPU, as from cudaMalloc; TSR_USAGE on a CPU */
} tsr_location;

/* A view of the caller's memory: dense, row-major, little-endian, of tsr_shape_size() bytes. Work
 * of the caller on memory of a GPU must be finished before the call (cudaStreamSynchronize); the
 * library's own work on it is finished when the call returns. */
typedef struct tsr_view {
    const char *name; /* borrowed */
    tsr_dtype dtype;
    tsr_shape shape;
    void *data; /* borrowed; only read where it is an input */
    tsr_location location;
} tsr_view;

/* Copies a tensor of the state (a parameter, or a tensor of the optimizer state) to the memory of
 * `into`, or from the memory of `from`. Name, dtype and shape must be those of the config:
 * TSR_USAGE for an unknown name or a constant, TSR_DATA with both types. The state must have
 * values. With several ranks every rank makes the call, with the whole tensor. A written tensor is
 * read by the next step and call, and is part of the next save. */
TSR_API TSR_RESULT tsr_model_read_tensor(tsr_ctx *ctx, tsr_model *model, const tsr_view *into);
TSR_API TSR_RESULT tsr_model_write_tensor(tsr_ctx *ctx, tsr_model *model, const tsr_view *from);
/* The state hash of the current values (docs/state-store.md), as in tsr_train_summary. With several
 * ranks every rank makes the call. */
TSR_API TSR_RESULT tsr_model_hash_state(tsr_ctx *ctx, tsr_model *model, tsr_digest *out_hash);

/* ---- the order of samples ---- */

/* The digest of data in memory, as tsr_train computes it of files: one array for each data input,
 * by name, in any order. Shapes do not matter, only elements. TSR_USAGE for an array without name
 * or memory, or two of one name. */
TSR_API TSR_RESULT tsr_data_digest(tsr_ctx *ctx, const tsr_tensor *arrays, size_t count,
                                   tsr_digest *out_digest);
/* Returns the row of the data that tsr_train and tessera-run put in row `index` of the next batch.
 * position->rows is at least 1 (asserted). */
TSR_API uint64_t tsr_position_get_row(const tsr_position *position, uint64_t index);

/* ---- the trainer ---- */

typedef struct tsr_trainer tsr_trainer;

/* Fields that tsr_train_options has too mean the same. A trainer judges nothing: a state that keeps
 * its best generation keeps the same one. */
typedef struct tsr_trainer_options {
    size_t size_bytes; /* sizeof(tsr_trainer_options) */
    const char *entry; /* NULL: the only TRAIN entry */
    bool has_seed;     /* else: the state's, or 0 */
    uint32_t seed;
    const char *state_directory; /* NULL: nothing can be saved */
    uint64_t save_every;         /* steps; 0: only tsr_trainer_save saves */
    uint32_t keep;               /* generations, >= 2; 0 means 2 */
    tsr_resume_mode resume;
    uint64_t resume_generation; /* TSR_RESUME_EXACT */
    bool allow_network_fs;
    bool allow_inexact;
    const char *params;      /* start from these parameters if no state is resumed, or NULL */
    tsr_adopt_options adopt; /* or from the matching tensors of another bundle's state */
    /* Which data the batches are from: its number of rows and its digest (tsr_data_digest); zeros:
     * not said. A state records them, and only a trainer that names the same data continues with it
     * (else TSR_MISMATCH), so that a run does not continue with other data by mistake. */
    uint64_t rows;
    tsr_digest data;
    bool new_data;                 /* continue with other data than the state was trained with */
    tsr_train_callbacks callbacks; /* `eval` and `ranks` are not called */
    /* Lines of the store's event log, from one thread at a time; may be NULL. */
    void (*store_event)(void *user, const char *line);
    void *store_event_user; /* borrowed */
} tsr_trainer_options;

/* Recovers the state from its directory, or initialises it, and holds the directory's lock. Fails
 * as tsr_train does: TSR_LOCKED, TSR_STATE, TSR_MISMATCH, TSR_MEMORY, TSR_USAGE for an entry that
 * does not train. The options are not kept, except for callbacks. */
TSR_API TSR_RESULT tsr_trainer_open(tsr_ctx *ctx, tsr_model *model,
                                    const tsr_trainer_options *options, tsr_trainer **out_trainer);
/* Waits for a running save; nothing is saved that was not asked for. The trained tensors stay in
 * the model. Accepts NULL. In a callback of one of its steps it only logs an error. */
TSR_API void tsr_trainer_close(tsr_ctx *ctx, tsr_trainer *trainer);

/* Borrowed from the trainer; they change with each step. */
TSR_API const tsr_position *tsr_trainer_get_position(const tsr_trainer *trainer);
/* What was found in the state directory; found is false without one. */
TSR_API const tsr_recovery *tsr_trainer_get_recovery(const tsr_trainer *trainer);
TSR_API const tsr_save_status *tsr_trainer_get_saves(const tsr_trainer *trainer);
/* The reported outputs of the last step (loss, metrics) in host memory; undefined before the first
 * step. tsr_dtype_read reads an element as double. */
TSR_API const tsr_tensor *tsr_trainer_get_outputs(const tsr_trainer *trainer, size_t *out_count);

/* Makes one step. Inputs are matched by name, or, where the name is NULL, by their index: view i is
 * input i of the entry, not counting those that the runtime fills (tsr_port_is_filled). A
 * data input is the whole batch, [batch, …] as in the config. Every input must be given
 * (TSR_USAGE), with the dtype and shape of the config (TSR_DATA with both). Outputs are optional
 * and matched in the same way; they are copied to the caller's memory.
 *
 * After an error about the views nothing has changed, and the trainer continues. After an error
 * inside the step the state may hold a part of it: TSR_DATA from a kernel (names the row of the
 * batch), TSR_NONFINITE (names output or tensor), TSR_MACHINE. Then every further step, save and
 * run fails with TSR_USAGE; close the trainer, and open one on the last committed state. Saves that
 * run beside the steps report their errors here, after the step was made (the position shows it):
 * TSR_SAVE after three failures in a row, TSR_LOCKED when another run took the directory over. A
 * region of resilience of mode restart is not restarted: its failure is an error inside the step.
 */
TSR_API TSR_RESULT tsr_trainer_step(tsr_ctx *ctx, tsr_trainer *trainer, const tsr_view *inputs,
                                    size_t input_count, const tsr_view *outputs,
                                    size_t output_count);

/* Like tsr_trainer_step, but the view of a data input has all rows of the data, [rows, …], in
 * memory of the host, and the library draws the batch: that of tsr_train and tessera-run on the
 * same data. TSR_USAGE if the options of the trainer have no rows. */
TSR_API TSR_RESULT tsr_trainer_step_drawn(tsr_ctx *ctx, tsr_trainer *trainer,
                                          const tsr_view *inputs, size_t input_count,
                                          const tsr_view *outputs, size_t output_count);

/* Gives the batch of the next step: `inputs` has one view for each input to be given, in the order
 * of the config, with name, dtype and shape; the callback sets data and location. The memory stays
 * borrowed until the next call, or until the run returns. *out_end = true ends the run before this
 * step. An error (tsr_fail makes one) ends the run with it; nothing has changed then. */
typedef tsr_result (*tsr_batch_fn)(tsr_ctx *ctx, void *user, const tsr_position *position,
                                   tsr_view *inputs, size_t input_count, bool *out_end);

typedef struct tsr_trainer_run_options {
    size_t size_bytes; /* sizeof(tsr_trainer_run_options) */
    uint64_t steps;    /* absolute step to stop at; at or before the position: nothing is run */
    tsr_batch_fn batch;
    void *batch_user;                  /* borrowed */
    const volatile sig_atomic_t *stop; /* non-zero: finish the step and return; may be NULL */
} tsr_trainer_run_options;

/* Makes steps until the last one, the end of the batches or a request to stop; nothing is saved at
 * the end. Errors are those of tsr_trainer_step and of the callback. */
TSR_API TSR_RESULT tsr_trainer_run(tsr_ctx *ctx, tsr_trainer *trainer,
                                   const tsr_trainer_run_options *options);

/* Saves the state of the current step, unless the last save did. *out_generation: returns when the
 * generation is committed; a failed save is repeated, TSR_SAVE after three failures. NULL: returns
 * once the save has begun; it continues beside the next steps, which report its failure. TSR_USAGE
 * without a state directory, TSR_NONFINITE for a state that is not finite. */
TSR_API TSR_RESULT tsr_trainer_save(tsr_ctx *ctx, tsr_trainer *trainer,
                                    tsr_generation *out_generation);

#ifdef __cplusplus
}
#endif

#endif
