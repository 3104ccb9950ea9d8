/* SPDX-License-Identifier: Apache-2.0
 *
 * Reach, not trust in numbers: an epoch's BASE names the generation it went on from, so of the
 * epoch of that generation everything above it was written by a run that had been replaced. Walking
 * BASE records by number, not manifests by hash, a damaged manifest does not hide those below it;
 * and where a BASE itself is damaged, the manifests of its epoch name the same link.
 */
#include "runtime/store/recover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tsr_result tsr_survey_read_manifest(tsr_ctx *ctx, const tsr_survey *survey, const tsr_name *name,
                                    tsr_manifest *out_manifest) {
    char text[TSR_NAME_TEXT_MAX];
    uint8_t *bytes;
    size_t size;
    tsr_name_format(name, text);
    TRY(ctx, tsr_disk_read_file(ctx, survey->root, text, TSR_MANIFEST_BYTES_MAX, survey->arena,
                                &bytes, &size));
    TRY(ctx, tsr_manifest_decode(ctx, text, bytes, size, survey->arena, out_manifest));
    const tsr_token *token = &out_manifest->token;
    if (token->generation != name->generation || token->epoch != name->epoch)
        FAIL(ctx, TSR_STATE,
             "%s is damaged: its token is of generation %" PRIu64 ", epoch %" PRIu64, text,
             token->generation, token->epoch);
    return TSR_SUCCESS;
}

/* ---- reach ---- */

/* The next epoch below `limit` that left a BASE or a manifest; 0: none. */
static uint64_t epoch_below(const tsr_survey *survey, uint64_t limit) {
    uint64_t epoch = 0;
    for (size_t i = 0; i < survey->names.count; i++) {
        const tsr_name *name = &survey->names.names[i];
        if (name->kind != TSR_NAME_BASE && name->kind != TSR_NAME_MANIFEST) continue;
        if (name->epoch < limit && name->epoch > epoch) epoch = name->epoch;
    }
    return epoch;
}

static int descending(const void *a, const void *b) {
    const tsr_name *x = a, *y = b;
    if (x->generation != y->generation) return x->generation < y->generation ? 1 : -1;
    return x->epoch < y->epoch ? 1 : x->epoch > y->epoch ? -1 : 0;
}

static void add_candidates(tsr_survey *survey, uint64_t epoch, uint64_t bound) {
    for (size_t i = 0; i < survey->names.count; i++) {
        const tsr_name *name = &survey->names.names[i];
        if (name->kind == TSR_NAME_MANIFEST && name->epoch == epoch && name->generation <= bound)
            survey->candidates[survey->candidate_count++] = *name;
    }
}

static tsr_result read_base(tsr_ctx *ctx, tsr_survey *survey, uint64_t epoch, tsr_link *out_link) {
    char text[TSR_NAME_TEXT_MAX];
    uint8_t *bytes;
    size_t size;
    tsr_name_format(&(tsr_name){.kind = TSR_NAME_BASE, .epoch = epoch}, text);
    TRY(ctx,
        tsr_disk_read_file(ctx, survey->root, text, TSR_BASE_BYTES, survey->arena, &bytes, &size));
    return tsr_base_decode(ctx, text, bytes, size, epoch, out_link);
}

/* A BASE that cannot be read: the lowest manifest of the epoch that can says the same, unless the
 * first ones were collected. Then only the number bounds the epochs below. */
static tsr_result guess_base(tsr_ctx *ctx, tsr_survey *survey, uint64_t epoch, size_t first,
                             uint64_t bound, tsr_link *out_link) {
    *out_link = (tsr_link){.generation = bound, .epoch = epoch_below(survey, epoch)};
    if (survey->candidate_count > first)
        out_link->generation = survey->candidates[survey->candidate_count - 1].generation - 1;
    for (size_t i = survey->candidate_count; i-- > first;) {
        tsr_manifest manifest;
        tsr_result result =
            tsr_survey_read_manifest(ctx, survey, &survey->candidates[i], &manifest);
        if (result.code == TSR_STATE) continue;
        TRY(ctx, result);
        if (manifest.previous.epoch < epoch) *out_link = manifest.previous;
        break;
    }
    return TSR_SUCCESS;
}

/* `link` is what BASE.<epoch> says. Nothing above it is there, so it must be. */
static void check_present(tsr_ctx *ctx, tsr_survey *survey, const tsr_link *link) {
    if (survey->candidate_count || !link->generation ||
        tsr_listing_has(&survey->names, TSR_NAME_MANIFEST, link->epoch, link->generation))
        return;
    survey->damaged_count++;
    survey->committed = true;
    tsr_log(ctx, TSR_LOG_ERROR,
            "generation %" PRIu64 " of epoch %" PRIu64 " was committed and its manifest is missing",
            link->generation, link->epoch);
}

static tsr_result reach(tsr_ctx *ctx, tsr_survey *survey) {
    uint64_t bound = UINT64_MAX, epoch = epoch_below(survey, UINT64_MAX);
    while (epoch) {
        tsr_link base;
        size_t first = survey->candidate_count;
        bool named = tsr_listing_has(&survey->names, TSR_NAME_BASE, epoch, 0);
        add_candidates(survey, epoch, bound);
        qsort(survey->candidates + first, survey->candidate_count - first,
              sizeof *survey->candidates, descending);
        tsr_result result = read_base(ctx, survey, epoch, &base);
        if (result.code == TSR_STATE) {
            if (named || survey->candidate_count > first) {
                survey->damaged_count++;
                survey->committed = true;
                tsr_log(ctx, TSR_LOG_ERROR, "the base of epoch %" PRIu64 " is lost: %s", epoch,
                        ctx->error.text);
            }
            result = guess_base(ctx, survey, epoch, first, bound, &base);
        } else if (!result.code)
            check_present(ctx, survey, &base);
        TRY(ctx, result);
        bound = base.generation;
        epoch = base.epoch ? epoch_below(survey, base.epoch + 1) : 0;
        if (epoch != base.epoch && survey->candidate_count) epoch = 0;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_survey_take(tsr_ctx *ctx, tsr_survey *survey) {
    survey->names.arena = survey->generations.arena = survey->arena;
    TRY(ctx, tsr_disk_list(ctx, survey->root, &survey->names));
    if (survey->gens >= 0) TRY(ctx, tsr_disk_list(ctx, survey->gens, &survey->generations));
    survey->candidates = TSR_NEW(survey->arena, tsr_name, survey->names.count + 1);
    if (!survey->candidates) FAIL(ctx, TSR_MEMORY, "no memory for %zu names", survey->names.count);
    for (size_t i = 0; i < survey->names.count; i++) {
        const tsr_name *name = &survey->names.names[i];
        if (name->kind == TSR_NAME_MANIFEST && name->generation > survey->highest_generation)
            survey->highest_generation = name->generation;
    }
    for (size_t i = 0; i < survey->generations.count; i++) {
        const tsr_name *name = &survey->generations.names[i];
        if (name->kind == TSR_NAME_GENERATION &&
            !tsr_listing_has(&survey->names, TSR_NAME_MANIFEST, name->epoch, name->generation))
            survey->uncommitted_count++;
    }
    TRY(ctx, reach(ctx, survey));
    if (survey->candidate_count) survey->committed = true;
    return TSR_SUCCESS;
}

/* ---- choice ---- */

static void report_damage(tsr_ctx *ctx, tsr_survey *survey, const tsr_name *name) {
    survey->damaged_count++;
    tsr_log(ctx, TSR_LOG_ERROR, "generation %" PRIu64 " of epoch %" PRIu64 " is damaged: %s",
            name->generation, name->epoch, ctx->error.text);
}

tsr_result tsr_survey_verify(tsr_ctx *ctx, tsr_survey *survey, const tsr_name *name, bool *out_good,
                             tsr_manifest *out_manifest) {
    tsr_result result = tsr_survey_read_manifest(ctx, survey, name, out_manifest);
    if (!result.code)
        result = tsr_read_state(ctx, survey->reader, survey->gens, out_manifest, NULL, false);
    if (result.code && result.code != TSR_STATE) return result;
    *out_good = !result.code;
    if (!*out_good) report_damage(ctx, survey, name);
    return TSR_SUCCESS;
}

static tsr_result check_belongs(tsr_ctx *ctx, const tsr_choice *choice,
                                const tsr_manifest *manifest) {
    const tsr_token *token = &manifest->token;
    if (choice->bundle_hash && !tsr_digest_equal(choice->bundle_hash, &token->bundle_hash)) {
        char ours[TSR_DIGEST_HEX + 1], theirs[TSR_DIGEST_HEX + 1];
        tsr_digest_format(choice->bundle_hash, ours);
        tsr_digest_format(&token->bundle_hash, theirs);
        FAIL(ctx, TSR_MISMATCH,
             "generation %" PRIu64 " is of the bundle %s; the bundle given is %s",
             token->generation, theirs, ours);
    }
    if (!choice->numerics || strcmp(choice->numerics, token->numerics) == 0) return TSR_SUCCESS;
    if (!choice->allow_inexact)
        FAIL(ctx, TSR_MISMATCH,
             "generation %" PRIu64 " was computed with numerics '%s'; this machine runs '%s', "
             "which does not give the same bits",
             token->generation, token->numerics, choice->numerics);
    tsr_log(ctx, TSR_LOG_WARNING,
            "inexact: generation %" PRIu64 " was computed with numerics '%s' and goes on with '%s'",
            token->generation, token->numerics, choice->numerics);
    return TSR_SUCCESS;
}

static tsr_result fail_none(tsr_ctx *ctx, const tsr_survey *survey, const tsr_choice *choice) {
    char list[256] = "none";
    size_t used = 0;
    if (choice->mode != TSR_RESUME_EXACT)
        FAIL(ctx, TSR_STATE,
             "nothing good is left: %u of %zu committed generations are damaged; nothing was "
             "changed, and no run starts again at step 0 by itself",
             survey->damaged_count, survey->candidate_count);
    for (size_t i = survey->candidate_count; i-- > 0 && used < sizeof list - 32;)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%" PRIu64, used ? ", " : "",
                                 survey->candidates[i].generation);
    if (survey->damaged_count)
        FAIL(ctx, TSR_STATE,
             "generation %" PRIu64 " cannot be resumed: it is damaged or absent; "
             "there are: %s",
             choice->generation, list);
    FAIL(ctx, TSR_STATE, "there is no generation %" PRIu64 "; there are: %s", choice->generation,
         list);
}

static tsr_result land_and_verify(tsr_ctx *ctx, const tsr_survey *survey, const tsr_choice *choice,
                                  const tsr_manifest *manifest) {
    void **destinations = NULL;
    /* Sizes first: no memory is taken on the word of a manifest alone. */
    if (choice->land) {
        TRY(ctx, tsr_read_sizes(ctx, survey->gens, manifest));
        tsr_result result = choice->land(ctx, choice->land_user, manifest, &destinations);
        TSR_ASSERT(result.code != TSR_STATE);
        TRY(ctx, result);
    }
    return tsr_read_state(ctx, survey->reader, survey->gens, manifest, destinations, false);
}

tsr_result tsr_survey_choose(tsr_ctx *ctx, tsr_survey *survey, const tsr_choice *choice,
                             size_t *out_index, tsr_manifest *out_manifest) {
    if (choice->mode == TSR_RESUME_NEVER && survey->committed)
        FAIL(ctx, TSR_STATE,
             "a fresh start was asked for, and %zu committed generations are there, the newest "
             "%" PRIu64,
             survey->candidate_count, survey->highest_generation);
    for (size_t i = 0; i < survey->candidate_count; i++) {
        const tsr_name *name = &survey->candidates[i];
        tsr_manifest manifest;
        if (choice->mode == TSR_RESUME_EXACT && name->generation != choice->generation) continue;
        tsr_result result = tsr_survey_read_manifest(ctx, survey, name, &manifest);
        if (!result.code) TRY(ctx, check_belongs(ctx, choice, &manifest));
        if (!result.code) result = land_and_verify(ctx, survey, choice, &manifest);
        if (!result.code) {
            if (survey->damaged_count)
                tsr_log(ctx, TSR_LOG_WARNING,
                        "going on from generation %" PRIu64 " at step %" PRIu64,
                        manifest.token.generation, manifest.token.position.step);
            *out_index = i;
            *out_manifest = manifest;
            return TSR_SUCCESS;
        }
        if (result.code != TSR_STATE) TRY(ctx, result);
        report_damage(ctx, survey, name);
    }
    if (survey->committed || choice->mode == TSR_RESUME_EXACT)
        return fail_none(ctx, survey, choice);
    *out_index = survey->candidate_count;
    return TSR_SUCCESS;
}
