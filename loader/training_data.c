/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/training_data.h"

#include "runtime/base/plural.h"
#include "runtime/transport/collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Data with another number of rows is known to differ without hashing, but up to this size it is
 * hashed to show both digests. */
static const uint64_t told_bytes_max = UINT64_C(256) << 20;

static bool is_known(const tsr_digest *digest) {
    static const tsr_digest unknown;
    return !tsr_digest_equal(digest, &unknown);
}

tsr_result tsr_training_data_describe(tsr_ctx *ctx, const tsr_config_entry *entry,
                                      const tsr_training_data_options *options, tsr_arena *arena,
                                      tsr_training_data *out_data) {
    const tsr_train_options *train = options->train;
    tsr_training_data data = {.rows = options->rows, .accepts_new = train->new_data};
    data.how = (tsr_fingerprint_options){.writes_cache = options->is_first && !train->replay,
                                         .ignores_cache = train->verify_data};
    for (size_t i = 0; i < entry->input_count; i++) {
        const tsr_config_port *port = &entry->inputs[i];
        if (port->source != TSR_PORT_DATA) continue;
        for (size_t k = 0; k < train->data_count; k++)
            if (strcmp(train->data[k].name, port->name) == 0)
                data.arrays[data.count++] =
                    (tsr_fingerprint_array){port->name, train->data[k].path, port->dtype};
    }
    if (train->state_directory) {
        data.how.cache_path = tsr_arena_printf(arena, "%s/DATA", train->state_directory);
        if (!data.how.cache_path) FAIL(ctx, TSR_MEMORY, "no memory for a path");
    }
    *out_data = data;
    return TSR_SUCCESS;
}

tsr_training_data tsr_training_data_tell(const tsr_told_data *told, bool accepts_new) {
    return (tsr_training_data){.rows = told->rows,
                               .accepts_new = accepts_new,
                               .finished = true,
                               .told = true,
                               .told_digest = told->digest};
}

/* The digest of finished data. */
static tsr_digest digest_of(const tsr_training_data *data) {
    return data->told ? data->told_digest : tsr_fingerprint_get(data->fingerprint);
}

static tsr_result need_fingerprint(tsr_ctx *ctx, tsr_training_data *data) {
    if (data->fingerprint || data->told) return TSR_SUCCESS;
    return tsr_fingerprint_open(ctx, data->arrays, data->count, &data->how, &data->fingerprint);
}

void tsr_training_data_close(tsr_ctx *ctx, tsr_training_data *data) {
    tsr_fingerprint_close(ctx, data->fingerprint);
    data->fingerprint = NULL;
}

static tsr_result finish(tsr_ctx *ctx, tsr_training_data *data) {
    TRY(ctx, need_fingerprint(ctx, data));
    if (!data->finished) TRY(ctx, tsr_fingerprint_finish(ctx, data->fingerprint));
    data->finished = true;
    return TSR_SUCCESS;
}

tsr_result tsr_training_data_digest(tsr_ctx *ctx, tsr_training_data *data,
                                    tsr_record_data *out_digests, size_t *out_count) {
    TRY(ctx, finish(ctx, data));
    for (size_t i = 0; i < data->count; i++)
        out_digests[i] = (tsr_record_data){data->arrays[i].name,
                                           tsr_fingerprint_get_array(data->fingerprint, i)};
    *out_count = data->count;
    return TSR_SUCCESS;
}

tsr_result tsr_training_data_agree(tsr_ctx *ctx, tsr_transport *transport,
                                   const tsr_training_data *data) {
    TSR_ASSERT(data->finished);
    tsr_digest digest = digest_of(data);
    return tsr_agree(ctx, transport, "data", &digest, sizeof digest);
}

/* Returns "1100 rows with digest 0123456789abcdef", or only the rows. */
static const char *describe(uint64_t rows, const tsr_digest *digest, char out_text[static 96]) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(digest, hex);
    int length = snprintf(out_text, 96, "%" PRIu64 " row%s", rows, TSR_PLURAL(rows));
    if (is_known(digest))
        snprintf(out_text + length, 96 - (size_t)length, " with digest %.16s", hex);
    return out_text;
}

static tsr_result refuse(tsr_ctx *ctx, tsr_training_data *data, const tsr_position *position) {
    tsr_digest digest = {{0}};
    char mine[96], stored[96];
    TRY(ctx, need_fingerprint(ctx, data));
    if (data->finished || tsr_fingerprint_get_bytes(data->fingerprint) <= told_bytes_max) {
        TRY(ctx, finish(ctx, data));
        digest = digest_of(data);
    }
    FAIL(ctx, TSR_MISMATCH,
         "the data has %s; the state was trained with %s: the run would not continue the order of "
         "the samples; --new-data accepts the new data from the next epoch on",
         describe(data->rows, &digest, mine), describe(position->rows, &position->data, stored));
}

/* Begins the next epoch here with the new data: the rest of the current epoch is skipped. */
static tsr_result begin_epoch(tsr_ctx *ctx, const tsr_training_data *data, tsr_position *position) {
    uint64_t old_rows = position->rows ? position->rows : data->rows;
    uint64_t drawn = position->sample - position->epoch_base_sample;
    uint64_t epoch = position->epoch_base + drawn / old_rows, left = old_rows - drawn % old_rows;
    if (drawn % old_rows == 0)
        left = 0;
    else
        epoch++;
    if (epoch < position->epoch_base || epoch > INT64_MAX / data->rows)
        FAIL(ctx, TSR_MISMATCH, "epoch %" PRIu64 " of %" PRIu64 " rows is out of range", epoch,
             data->rows);
    tsr_log(ctx, TSR_LOG_WARNING,
            "new data: %" PRIu64 " row%s; the state was trained with %" PRIu64 ". Epoch %" PRIu64
            " begins with the new data at sample %" PRIu64 "; %" PRIu64
            " sample%s of the current epoch are skipped",
            data->rows, TSR_PLURAL(data->rows), old_rows, epoch, position->sample, left,
            TSR_PLURAL(left));
    position->epoch_base = epoch;
    position->epoch_base_sample = position->sample;
    position->rows = data->rows;
    position->data = (tsr_digest){{0}};
    return TSR_SUCCESS;
}

/* The caller does not say which data its batches are from. */
static tsr_result check_untold(tsr_ctx *ctx, const tsr_training_data *data,
                               tsr_position *position) {
    char stored[96];
    if (!position->rows && !is_known(&position->data)) return TSR_SUCCESS;
    if (!data->accepts_new)
        FAIL(ctx, TSR_MISMATCH,
             "the trainer does not say which data its batches are from; the state was trained with "
             "%s: name that data (rows and data of tsr_trainer_options), or ask for other data "
             "(new_data)",
             describe(position->rows, &position->data, stored));
    tsr_log(ctx, TSR_LOG_WARNING,
            "new data, of which the trainer says nothing; the state was trained with %s",
            describe(position->rows, &position->data, stored));
    position->rows = position->epoch_base = position->epoch_base_sample = 0;
    position->data = (tsr_digest){{0}};
    return TSR_SUCCESS;
}

static tsr_result check_range(tsr_ctx *ctx, const tsr_training_data *data,
                              const tsr_position *position) {
    if (position->epoch_base_sample <= position->sample &&
        position->epoch_base <= INT64_MAX / data->rows)
        return TSR_SUCCESS;
    FAIL(ctx, TSR_MISMATCH,
         "the state has epoch %" PRIu64 " of %" PRIu64 " row%s begin at sample %" PRIu64
         "; its next sample is %" PRIu64,
         position->epoch_base, data->rows, TSR_PLURAL(data->rows), position->epoch_base_sample,
         position->sample);
}

tsr_result tsr_training_data_check(tsr_ctx *ctx, tsr_training_data *data, tsr_position *position) {
    bool same = !position->rows || position->rows == data->rows;
    if (data->told && !data->rows) return check_untold(ctx, data, position);
    TRY(ctx, check_range(ctx, data, position));
    if (same && is_known(&position->data)) {
        TRY(ctx, finish(ctx, data));
        tsr_digest digest = digest_of(data);
        same = tsr_digest_equal(&digest, &position->data);
        if (same && data->accepts_new)
            tsr_log(ctx, TSR_LOG_NOTICE,
                    "the state was trained with the same data: there is no new data");
        if (same) return TSR_SUCCESS;
    }
    if (data->accepts_new) return begin_epoch(ctx, data, position);
    if (!same) return refuse(ctx, data, position);
    tsr_log(ctx, TSR_LOG_WARNING,
            "the state does not record the data it was trained with; the run assumes that it was "
            "this data of %" PRIu64 " row%s",
            data->rows, TSR_PLURAL(data->rows));
    return TSR_SUCCESS;
}

tsr_result tsr_training_data_begin(tsr_ctx *ctx, tsr_training_data *data, bool saves,
                                   tsr_position *position) {
    position->rows = data->rows;
    if (!data->finished && !is_known(&position->data) && saves) {
        TRY(ctx, need_fingerprint(ctx, data));
        tsr_fingerprint_begin(ctx, data->fingerprint);
        return TSR_SUCCESS;
    }
    if (!data->finished) return TSR_SUCCESS;
    position->data = digest_of(data);
    if (saves && !data->told) tsr_fingerprint_write_cache(ctx, data->fingerprint);
    return TSR_SUCCESS;
}

void tsr_training_data_identify(tsr_ctx *ctx, void *user, tsr_position *position) {
    tsr_training_data *data = user;
    tsr_ctx aside = tsr_ctx_fork(ctx);
    if (is_known(&position->data) || data->failed || data->told) return;
    data->failed = finish(&aside, data).code != TSR_OK;
    if (data->failed)
        tsr_log(ctx, TSR_LOG_WARNING,
                "the state is saved without a digest of its data, which cannot be hashed: %s",
                aside.error.text);
    if (data->failed) return;
    position->data = digest_of(data);
    tsr_fingerprint_write_cache(ctx, data->fingerprint);
}
