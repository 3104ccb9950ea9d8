/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/log_program.h"

#include <inttypes.h>
#include <string.h>

void tsr_log_describe(const tsr_model *model, size_t entry, tsr_record_header *out_header) {
    bool known = tsr_identity_is_known(&model->config.identity);
    out_header->bundle_hash = tsr_model_get_digest(model);
    out_header->identity = model->hyperparameters.identity;
    out_header->virtual_ranks = known ? model->config.virtual_ranks : 0;
    out_header->numerics = model->numerics;
    out_header->entry = model->config.entries[entry].name;
}

static tsr_result check_digest(tsr_ctx *ctx, const char *kind, const tsr_digest *got,
                               const tsr_digest *expected) {
    char got_hex[TSR_DIGEST_HEX + 1], expected_hex[TSR_DIGEST_HEX + 1];
    if (tsr_digest_equal(got, expected)) return TSR_SUCCESS;
    tsr_digest_format(got, got_hex);
    tsr_digest_format(expected, expected_hex);
    FAIL(ctx, TSR_MISMATCH, "this bundle has %s %.16s; the log was recorded with %.16s", kind,
         got_hex, expected_hex);
}

static tsr_result check_training(tsr_ctx *ctx, const tsr_record_header *mine,
                                 const tsr_record_header *logged) {
    tsr_identity_cursor at = {0};
    tsr_hyperparameter_change change;
    if (mine->virtual_ranks != logged->virtual_ranks)
        FAIL(ctx, TSR_MISMATCH,
             "this run has %" PRIu64 " virtual ranks; the log was recorded with %" PRIu64,
             mine->virtual_ranks, logged->virtual_ranks);
    if (tsr_identity_next_change(&mine->identity, &logged->identity, &at, &change))
        FAIL(ctx, TSR_MISMATCH, "this run has %s %s; the log was recorded with %s", change.name,
             change.a ? change.a : "none", change.b ? change.b : "none");
    return TSR_SUCCESS;
}

tsr_result tsr_log_check(tsr_ctx *ctx, const tsr_model *model, size_t entry,
                         const tsr_record_header *header, const char *what) {
    tsr_record_header mine = {.bundle_hash = {{0}}};
    tsr_log_describe(model, entry, &mine);
    bool by_program =
        tsr_identity_is_known(&mine.identity) && tsr_identity_is_known(&header->identity);
    TRY(ctx, check_digest(ctx, by_program ? "program" : "hash",
                          by_program ? &mine.identity.program : &mine.bundle_hash,
                          by_program ? &header->identity.program : &header->bundle_hash));
    if (strcmp(header->numerics, mine.numerics) != 0)
        FAIL(ctx, TSR_MISMATCH, "%s has numerics '%s'; the log was recorded with '%s'", what,
             mine.numerics, header->numerics);
    if (strcmp(header->entry, mine.entry) != 0)
        FAIL(ctx, TSR_MISMATCH, "%s runs entry '%s'; the log was recorded with '%s'", what,
             mine.entry, header->entry);
    bool trains = model->config.entries[entry].kind == TSR_ENTRY_TRAIN;
    return by_program && trains ? check_training(ctx, &mine, header) : TSR_SUCCESS;
}
