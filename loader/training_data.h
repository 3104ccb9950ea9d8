/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that a run uses the data that its state was trained with. The order of samples is a
 * function of the number of rows, and the bits of a run depend on every row. Private to this
 * folder.
 */
#ifndef TSR_LOADER_TRAINING_DATA_H
#define TSR_LOADER_TRAINING_DATA_H

#include "manifests/config.h"
#include "runtime/data/fingerprint.h"
#include "runtime/record/record.h"
#include "tessera/tessera.h"

typedef struct tsr_training_data {
    tsr_fingerprint_array arrays[TSR_CONFIG_PORTS_MAX]; /* data of the training entry; borrowed */
    size_t count;
    uint64_t rows;
    tsr_fingerprint_options how;
    bool accepts_new;             /* the run may continue with other data than its state */
    tsr_fingerprint *fingerprint; /* owned; NULL until it is needed */
    bool finished;                /* every array is hashed */
    bool told;              /* the caller brings the batches: it says which data they are from,
                               and there are no arrays */
    tsr_digest told_digest; /* zero: unknown */
    bool failed;            /* the data could not be hashed, and a warning said so */
} tsr_training_data;

typedef struct tsr_training_data_options {
    const tsr_train_options *train; /* borrowed: bindings, and the path of the digest cache */
    uint64_t rows;
    bool is_first; /* the first of several ranks, which writes the cache */
} tsr_training_data_options;

/* Reads nothing yet. */
TSR_RESULT tsr_training_data_describe(tsr_ctx *ctx, const tsr_config_entry *entry,
                                      const tsr_training_data_options *options, tsr_arena *arena,
                                      tsr_training_data *out_data);
/* For a caller that brings the batches: `rows` 0 and a digest of zeros mean that it does not say
 * which data they are from. */
typedef struct tsr_told_data {
    uint64_t rows;
    tsr_digest digest;
} tsr_told_data;
tsr_training_data tsr_training_data_tell(const tsr_told_data *told, bool accepts_new);
void tsr_training_data_close(tsr_ctx *ctx, tsr_training_data *data);

/* Hashes all data now; `out_digests` has room for TSR_CONFIG_PORTS_MAX arrays. */
TSR_RESULT tsr_training_data_digest(tsr_ctx *ctx, tsr_training_data *data,
                                    tsr_record_data *out_digests, size_t *out_count);

/* Called after hashing: checks that all ranks have the same data, else TSR_MISMATCH. */
TSR_RESULT tsr_training_data_agree(tsr_ctx *ctx, tsr_transport *transport,
                                   const tsr_training_data *data);

/* Checks that a state at `position` may continue with this data. Fails with TSR_MISMATCH, with rows
 * and digests of both, if it was trained with other data; if new data is accepted, the position
 * then begins an epoch with it. A state without a record of its data adopts this data, with a
 * notice. */
TSR_RESULT tsr_training_data_check(tsr_ctx *ctx, tsr_training_data *data, tsr_position *position);

/* Puts the number of rows and, once known, the digest into the position of a run that begins; else
 * starts hashing concurrently with the run if the run will save. The state directory must exist. */
TSR_RESULT tsr_training_data_begin(tsr_ctx *ctx, tsr_training_data *data, bool saves,
                                   tsr_position *position);
/* For tsr_train_job.identify: `user` is a tsr_training_data. If the data cannot be hashed, the
 * state is saved without a digest, with a warning. */
void tsr_training_data_identify(tsr_ctx *ctx, void *user, tsr_position *position);

#endif
