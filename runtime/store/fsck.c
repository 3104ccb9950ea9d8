/* SPDX-License-Identifier: Apache-2.0
 *
 * The reports of what lies in a store. They are recovery without its writes: what recovery would
 * log becomes a line.
 */
#include "runtime/store/recover.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

typedef struct reporter {
    tsr_fsck_report_fn report;
    void *user;
} reporter;

static void forward(void *user, tsr_log_level level, const char *text) {
    const reporter *to = user;
    (void)level;
    to->report(to->user, text);
}

static bool is_candidate(const tsr_survey *survey, const tsr_name *name) {
    for (size_t i = 0; i < survey->candidate_count; i++)
        if (survey->candidates[i].epoch == name->epoch &&
            survey->candidates[i].generation == name->generation)
            return true;
    return false;
}

static void report_uncommitted(const tsr_ctx *ctx, const tsr_survey *survey) {
    for (size_t i = 0; i < survey->names.count; i++) {
        const tsr_name *name = &survey->names.names[i];
        if (name->kind == TSR_NAME_MANIFEST && !is_candidate(survey, name))
            tsr_log(ctx, TSR_LOG_NOTICE,
                    "generation %" PRIu64 " of epoch %" PRIu64
                    ": ignored, a later run went on from an earlier one",
                    name->generation, name->epoch);
    }
    for (size_t i = 0; i < survey->generations.count; i++) {
        const tsr_name *name = &survey->generations.names[i];
        if (name->kind == TSR_NAME_GENERATION &&
            !tsr_listing_has(&survey->names, TSR_NAME_MANIFEST, name->epoch, name->generation))
            tsr_log(ctx, TSR_LOG_NOTICE,
                    "generation %" PRIu64 " of epoch %" PRIu64
                    ": uncommitted, an unfinished save or removal",
                    name->generation, name->epoch);
    }
}

static tsr_result check_is_store(tsr_ctx *ctx, const tsr_survey *survey) {
    if (!survey->committed && !tsr_listing_highest_epoch(&survey->names))
        FAIL(ctx, TSR_STATE, "it is not a state directory: it has no EPOCH and no MANIFEST");
    return TSR_SUCCESS;
}

static tsr_result check(tsr_ctx *ctx, tsr_survey *survey) {
    uint32_t good_count = 0;
    TRY(ctx, tsr_survey_take(ctx, survey));
    TRY(ctx, check_is_store(ctx, survey));
    for (size_t i = 0; i < survey->candidate_count; i++) {
        char hash[TSR_DIGEST_HEX + 1];
        tsr_manifest manifest;
        bool good;
        TRY(ctx, tsr_survey_verify(ctx, survey, &survey->candidates[i], &good, &manifest));
        if (!good) continue;
        good_count++;
        tsr_digest_format(&manifest.token.state_hash, hash);
        tsr_log(ctx, TSR_LOG_NOTICE,
                "generation %" PRIu64 " of epoch %" PRIu64 ": good, step %" PRIu64
                ", %u tensors, %u chunks, state %s",
                manifest.token.generation, manifest.token.epoch, manifest.token.position.step,
                manifest.tensor_count, manifest.chunk_count, hash);
    }
    report_uncommitted(ctx, survey);
    tsr_log(ctx, TSR_LOG_NOTICE, "%u good, %u damaged, %u uncommitted%s", good_count,
            survey->damaged_count, survey->uncommitted_count,
            survey->committed ? "" : "; nothing was committed yet");
    if (survey->damaged_count)
        FAIL(ctx, TSR_STATE, "%u committed records are damaged; %u generations are good",
             survey->damaged_count, good_count);
    return TSR_SUCCESS;
}

/* One line for one generation. What cannot be read is damage or, as a result, another failure. */
static tsr_result list_one(tsr_ctx *ctx, tsr_survey *survey, const tsr_name *name) {
    char hash[TSR_DIGEST_HEX + 1];
    tsr_manifest manifest;
    tsr_result result = tsr_survey_read_manifest(ctx, survey, name, &manifest);
    if (!result.code) result = tsr_read_sizes(ctx, survey->gens, &manifest);
    if (!result.code && survey->verify)
        result = tsr_read_state(ctx, survey->reader, survey->gens, &manifest, NULL, false);
    if (result.code == TSR_STATE) {
        survey->damaged_count++;
        tsr_log(ctx, TSR_LOG_ERROR, "generation %" PRIu64 " epoch %" PRIu64 " damaged: %s",
                name->generation, name->epoch, ctx->error.text);
        return TSR_SUCCESS;
    }
    TRY(ctx, result);
    const tsr_token *token = &manifest.token;
    tsr_digest_format(&token->state_hash, hash);
    tsr_log(ctx, TSR_LOG_NOTICE,
            "generation %" PRIu64 " epoch %" PRIu64 " step %" PRIu64 " seed %" PRIu64
            " bytes %" PRIu64 " state %s good",
            token->generation, token->epoch, token->position.step, token->position.seed,
            tsr_manifest_data_bytes(&manifest), hash);
    return TSR_SUCCESS;
}

static tsr_result list(tsr_ctx *ctx, tsr_survey *survey) {
    TRY(ctx, tsr_survey_take(ctx, survey));
    TRY(ctx, check_is_store(ctx, survey));
    for (size_t i = 0; i < survey->candidate_count; i++)
        TRY(ctx, list_one(ctx, survey, &survey->candidates[i]));
    tsr_log(ctx, TSR_LOG_NOTICE, "%zu generations, %u damaged, %u uncommitted%s",
            survey->candidate_count, survey->damaged_count, survey->uncommitted_count,
            survey->verify ? "" : "; the data was not read");
    if (survey->damaged_count)
        FAIL(ctx, TSR_STATE, "%u committed records are damaged", survey->damaged_count);
    return TSR_SUCCESS;
}

static tsr_result examine(tsr_ctx *ctx, const char *directory,
                          tsr_result (*examination)(tsr_ctx *ctx, tsr_survey *survey), bool verify,
                          tsr_fsck_report_fn report, void *user) {
    const tsr_io *io = tsr_ctx_io(ctx);
    reporter to = {report, user};
    tsr_ctx own = {.log = forward, .log_user = &to, .log_level = TSR_LOG_NOTICE, .io = ctx->io};
    tsr_arena arena = {0};
    tsr_survey survey = {
        .root = -1, .gens = -1, .arena = &arena, .reader = tsr_reader_create(), .verify = verify};
    tsr_result result;
    if (!survey.reader) FAIL_GOTO(&own, result, TSR_MEMORY, "no memory to read a state");
    survey.root = io->open(io->self, TSR_IO_CWD, directory, O_RDONLY | O_DIRECTORY, 0);
    if (survey.root < 0) {
        result = tsr_fail_(&own, TSR_IO, -survey.root, __FILE__, __LINE__, "cannot open it");
        goto done;
    }
    survey.gens = io->open(io->self, survey.root, "gen", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    result = examination(&own, &survey);
done:
    if (survey.gens >= 0) io->close(io->self, survey.gens);
    if (survey.root >= 0) io->close(io->self, survey.root);
    tsr_reader_destroy(survey.reader);
    tsr_arena_finish(&arena);
    if (!result.code) return result;
    result = tsr_error_prefix(&own, result, "state directory '%s'", directory);
    return tsr_error_adopt(ctx, &own);
}

tsr_result tsr_store_fsck(tsr_ctx *ctx, const char *directory, tsr_fsck_report_fn report,
                          void *user) {
    return examine(ctx, directory, check, true, report, user);
}

tsr_result tsr_store_list(tsr_ctx *ctx, const char *directory, bool verify,
                          tsr_fsck_report_fn report, void *user) {
    return examine(ctx, directory, list, verify, report, user);
}
