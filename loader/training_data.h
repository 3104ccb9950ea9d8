/* SPDX-License-Identifier: Apache-2.0
 *
 * Is the data of a run the data that its state was trained with? The order of samples is a function
 * of the number of rows, and the bits of a run depend on every row. Private to this folder.
 */
#ifndef TSR_LOADER_TRAINING_DATA_H
#define TSR_LOADER_TRAINING_DATA_H

#include "loader/tessera.h"
#include "runtime/data/fingerprint.h"
#include "runtime/record/record.h"

typedef struct tsr_training_data {
    tsr_fingerprint_array arrays[TSR_CONFIG_PORTS_MAX]; /* of the entry that trains; borrowed */
    size_t count;
    uint64_t rows;
    tsr_fingerprint_options how;
    bool accepts_new;             /* the run may go on with other data than its state */
    tsr_fingerprint *fingerprint; /* owned; NULL until it is needed */
    bool finished;                /* every array is hashed */
    bool failed;                  /* the data could not be hashed, and a warning said so */
} tsr_training_data;

typedef struct tsr_training_data_options {
    const tsr_train_options *train; /* borrowed: bindings, and where digests are cached */
    uint64_t rows;
    bool is_first; /* of several ranks, which writes the cache */
} tsr_training_data_options;

/* Reads nothing yet. */
TSR_RESULT tsr_training_data_describe(tsr_ctx *ctx, const tsr_config_entry *entry,
                                      const tsr_training_data_options *options, tsr_arena *arena,
                                      tsr_training_data *out_data);
void tsr_training_data_close(tsr_ctx *ctx, tsr_training_data *data);

/* Hashes all of it now; `out_digests` has room for TSR_CONFIG_PORTS_MAX arrays. */
TSR_RESULT tsr_training_data_digest(tsr_ctx *ctx, tsr_training_data *data,
                                    tsr_record_data *out_digests, size_t *out_count);

/* After that: all ranks have the same data, or TSR_MISMATCH. */
TSR_RESULT tsr_training_data_agree(tsr_ctx *ctx, tsr_transport *transport,
                                   const tsr_training_data *data);

/* A state at `position` goes on with this data. TSR_MISMATCH with rows and digests of both if it
 * was trained with other data; where new data is accepted the position then begins an epoch with
 * it. A state that does not know its data takes this data for its own, with a notice. */
TSR_RESULT tsr_training_data_check(tsr_ctx *ctx, tsr_training_data *data, tsr_position *position);

/* Puts rows and, once it is known, the digest into the position of a run that begins; else starts
 * to hash beside the run if the run will save. The state directory is there. */
TSR_RESULT tsr_training_data_begin(tsr_ctx *ctx, tsr_training_data *data, bool saves,
                                   tsr_position *position);
/* For tsr_train_job.identify: `user` is a tsr_training_data. If the data cannot be hashed the state
 * is saved without a digest, with a warning. */
void tsr_training_data_identify(tsr_ctx *ctx, void *user, tsr_position *position);

#endif
