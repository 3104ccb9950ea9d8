/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery follows links and does not trust numbers. The BASE of an epoch names the generation from
 * which it resumed, so all higher generations of that generation's epoch were written by a run that
 * had been replaced. Because BASE records are followed by number, not manifests by hash, a damaged
 * manifest does not hide lower ones. If a BASE is damaged, the manifests of its epoch name the same
 * link.
 */
#include "runtime/commit/recover.h"

#include "runtime/base/plural.h"
#include "runtime/commit/mutants.h"
#include "runtime/state/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

tsr_result tsr_store_scan_read_candidate(tsr_ctx *ctx, const tsr_store_scan *scan,
                                         const tsr_name *name, tsr_manifest *out_manifest) {
    char text[TSR_NAME_TEXT_MAX];
    TRY(ctx, tsr_record_manifest(ctx, scan->root, scan->arena, name, out_manifest));
    for (size_t i = 0; i < scan->base_count && !TSR_MUTANT(BASE_HASH_UNCHECKED); i++)
        if (scan->bases[i].generation == name->generation && scan->bases[i].epoch == name->epoch &&
            !tsr_digest_equal(&scan->bases[i].manifest_hash, &out_manifest->hash))
            FAIL(ctx, TSR_STATE, "%s is not the manifest that a later run resumed from",
                 tsr_name_format(name, text));
    return TSR_SUCCESS;
}

static void report(tsr_ctx *ctx, tsr_store_scan *scan, uint64_t epoch, uint64_t generation,
                   const char *text) {
    if (!TSR_MUTANT(DAMAGE_IS_UNCOMMITTED)) scan->damaged_count++;
    scan->committed = true;
    tsr_event(scan->events, "damaged", &(tsr_link){.generation = generation, .epoch = epoch}, text);
    tsr_log(ctx, TSR_LOG_ERROR, "%s", text);
}

/* A run that was suspended after it published its epoch may list commits of its successor and must
 * not resume from them. A reader has no epoch. */
static tsr_result check_epoch(tsr_ctx *ctx, const tsr_store_scan *scan, uint64_t highest) {
    if (!scan->events || highest <= scan->events->epoch) return TSR_SUCCESS;
    FAIL(ctx, TSR_LOCKED,
         "another run took the store over: it is of epoch %" PRIu64 ", this run of %" PRIu64,
         highest, scan->events->epoch);
}

/* A candidate from which a run resumed, or an older one, that was removed and swept since. */
static bool is_swept(const tsr_store_scan *scan, const tsr_name *lost) {
    return lost->kind == TSR_NAME_MANIFEST && scan->candidates[0].epoch > lost->epoch &&
           !TSR_MUTANT(RETURNED_IS_DAMAGE) &&
           !tsr_listing_has(&scan->generations, TSR_NAME_GENERATION, lost->epoch, lost->generation);
}

tsr_result tsr_store_scan_check_again(tsr_ctx *ctx, const tsr_store_scan *scan,
                                      const tsr_name *lost, bool *out_collected) {
    tsr_listing names = {.arena = scan->arena};
    tsr_ctx aside = tsr_ctx_fork(ctx);
    bool newer = *out_collected = lost->epoch <= scan->removed_epoch || is_swept(scan, lost);
    if (newer) return TSR_SUCCESS;
    tsr_result result = tsr_disk_list(&aside, scan->root, &names);
    if (result.code) return tsr_error_adopt(ctx, &aside);
    TRY(ctx, check_epoch(ctx, scan, names.highest_epoch));
    for (size_t i = 0; i < names.count; i++) {
        const tsr_name *name = &names.names[i];
        if (name->kind == lost->kind && name->epoch == lost->epoch &&
            name->generation == lost->generation)
            return TSR_SUCCESS;
        newer |= name->kind == TSR_NAME_MANIFEST && name->generation > lost->generation &&
                 name->epoch >= lost->epoch + (lost->kind == TSR_NAME_BASE);
    }
    *out_collected = newer && !TSR_MUTANT(COLLECTED_IS_DAMAGE);
    return TSR_SUCCESS;
}

tsr_result tsr_store_scan_note_damaged(tsr_ctx *ctx, tsr_store_scan *scan, const tsr_name *name) {
    char text[TSR_ERROR_TEXT_MAX + 96];
    bool collected;
    TRY(ctx, tsr_store_scan_check_again(ctx, scan, name, &collected));
    if (collected) {
        tsr_log(ctx, TSR_LOG_NOTICE,
                "generation %" PRIu64 " of epoch %" PRIu64 ": it was removed; newer ones exist",
                name->generation, name->epoch);
        return TSR_SUCCESS;
    }
    snprintf(text, sizeof text, "generation %" PRIu64 " of epoch %" PRIu64 " is damaged: %s",
             name->generation, name->epoch, ctx->error.text);
    report(ctx, scan, name->epoch, name->generation, text);
    return TSR_SUCCESS;
}

/* ---- reach ---- */

/* Returns the next epoch below `limit` that left a BASE or a generation; 0: none. */
static uint64_t epoch_below(const tsr_store_scan *scan, uint64_t limit) {
    uint64_t epoch = tsr_listing_epoch_below(&scan->names, TSR_NAME_BASE, limit);
    uint64_t manifest = tsr_listing_epoch_below(&scan->names, TSR_NAME_MANIFEST, limit);
    uint64_t lost = tsr_listing_epoch_below(&scan->lost, TSR_NAME_GENERATION, limit);
    if (manifest > epoch) epoch = manifest;
    return lost > epoch ? lost : epoch;
}

/* Adds candidates, highest first. */
static void add_candidates(tsr_store_scan *scan, uint64_t epoch, uint64_t bound) {
    const tsr_listing *names = &scan->names;
    size_t first = tsr_listing_find(names, TSR_NAME_MANIFEST, epoch, 0);
    size_t end = bound == UINT64_MAX ? tsr_listing_find(names, TSR_NAME_MANIFEST, epoch + 1, 0)
                                     : tsr_listing_find(names, TSR_NAME_MANIFEST, epoch, bound + 1);
    while (end > first) scan->candidates[scan->candidate_count++] = names->names[--end];
}

static void report_missing(tsr_ctx *ctx, tsr_store_scan *scan, uint64_t epoch,
                           uint64_t generation) {
    char text[TSR_ERROR_TEXT_MAX];
    snprintf(text, sizeof text,
             "generation %" PRIu64 " of epoch %" PRIu64
             " was committed, but its manifest is missing",
             generation, epoch);
    report(ctx, scan, epoch, generation, text);
}

/* Reports a generation that was committed and is newer than every existing manifest: collection
 * removes the oldest first and always keeps newer ones, so it was not removed by our code. */
static void report_lost(tsr_ctx *ctx, tsr_store_scan *scan, uint64_t epoch, uint64_t bound) {
    uint64_t newest = scan->candidate_count ? scan->candidates[0].generation : 0;
    size_t at = tsr_listing_find(&scan->lost, TSR_NAME_GENERATION, epoch, 0);
    for (; at < scan->lost.count; at++) {
        const tsr_name *name = &scan->lost.names[at];
        if (name->epoch != epoch || name->generation > bound) return;
        if (name->generation > newest) report_missing(ctx, scan, epoch, name->generation);
    }
}

/* If a BASE cannot be read, the lowest readable manifest of its epoch has the same link, unless the
 * first manifests were removed. In that case, only the number limits the epochs below. */
static tsr_result guess_base(tsr_ctx *ctx, tsr_store_scan *scan, uint64_t epoch, size_t first,
                             uint64_t bound, tsr_link *out_link) {
    *out_link = (tsr_link){.generation = bound, .epoch = epoch_below(scan, epoch)};
    if (scan->candidate_count > first)
        out_link->generation = scan->candidates[scan->candidate_count - 1].generation - 1;
    for (size_t i = scan->candidate_count; i-- > first;) {
        tsr_manifest manifest;
        tsr_result result =
            tsr_record_manifest(ctx, scan->root, scan->arena, &scan->candidates[i], &manifest);
        if (result.code == TSR_STATE) continue;
        TRY(ctx, result);
        if (manifest.previous.epoch < epoch) *out_link = manifest.previous;
        break;
    }
    return TSR_SUCCESS;
}

/* The hash of a guessed BASE may be unknown. */
static void add_base(tsr_store_scan *scan, const tsr_link *base) {
    static const tsr_digest none;
    if (base->generation && !tsr_digest_equal(&base->manifest_hash, &none))
        scan->bases[scan->base_count++] = *base;
}

/* `link` is the link in BASE.<epoch>. Its generation must exist, unless newer generations exist: in
 * that case it was removed, even if its manifest has come back without its data. */
static void check_present(tsr_ctx *ctx, tsr_store_scan *scan, const tsr_link *link) {
    const uint64_t of = link->epoch, number = link->generation;
    bool named = tsr_listing_has(&scan->names, TSR_NAME_MANIFEST, of, number);
    bool exists = tsr_listing_has(&scan->generations, TSR_NAME_GENERATION, of, number);
    if (!number || TSR_MUTANT(MISSING_IS_EMPTY) || (named && (exists || !scan->candidate_count)))
        return;
    if (scan->candidate_count && !scan->removed_epoch && !TSR_MUTANT(RETURNED_IS_DAMAGE))
        scan->removed_epoch = link->epoch;
    if (!scan->candidate_count &&
        !tsr_listing_has(&scan->lost, TSR_NAME_GENERATION, link->epoch, link->generation))
        report_missing(ctx, scan, link->epoch, link->generation);
}

/* `named`: the BASE existed when the directory was listed. */
static tsr_result report_base(tsr_ctx *ctx, tsr_store_scan *scan, uint64_t epoch, bool named) {
    const tsr_name name = {.kind = TSR_NAME_BASE, .epoch = epoch};
    char text[TSR_ERROR_TEXT_MAX + 96];
    bool collected = false;
    if (named || epoch <= scan->removed_epoch)
        TRY(ctx, tsr_store_scan_check_again(ctx, scan, &name, &collected));
    if (collected) return TSR_SUCCESS;
    snprintf(text, sizeof text, "the base of epoch %" PRIu64 " is lost: %s", epoch,
             ctx->error.text);
    report(ctx, scan, epoch, 0, text);
    return TSR_SUCCESS;
}

/* Walks from the generations up to `bound` of `epoch` downwards. */
static tsr_result list_reachable(tsr_ctx *ctx, tsr_store_scan *scan, uint64_t epoch,
                                 uint64_t bound) {
    while (epoch) {
        tsr_link base;
        size_t first = scan->candidate_count;
        bool named = tsr_listing_has(&scan->names, TSR_NAME_BASE, epoch, 0);
        add_candidates(scan, epoch, bound);
        report_lost(ctx, scan, epoch, bound);
        tsr_result result = tsr_record_base(ctx, scan->root, scan->arena, epoch, &base);
        if (result.code == TSR_STATE) {
            if (named || scan->candidate_count > first)
                TRY(ctx, report_base(ctx, scan, epoch, named));
            result = guess_base(ctx, scan, epoch, first, bound, &base);
        } else if (!result.code)
            check_present(ctx, scan, &base);
        TRY(ctx, result);
        add_base(scan, &base);
        bound = TSR_MUTANT(UNREACHABLE_ACCEPTED) ? bound : base.generation;
        epoch = base.epoch ? epoch_below(scan, base.epoch + 1) : 0;
        if (epoch != base.epoch && scan->candidate_count) epoch = 0;
    }
    return TSR_SUCCESS;
}

/* ---- survey ---- */

/* The generation from which the newest run resumed may have a name that is not durable, because a
 * failed sync left it out. In that case, the second name that this run gave to the file still
 * exists. */
static tsr_result put_back(tsr_ctx *ctx, tsr_store_scan *scan) {
    const tsr_io *io = tsr_ctx_io(ctx);
    const tsr_listing *names = &scan->names;
    const tsr_name spare = {.kind = TSR_NAME_SPARE,
                            .epoch = tsr_listing_epoch_below(names, TSR_NAME_SPARE, UINT64_MAX)};
    char from[TSR_NAME_TEXT_MAX], to[TSR_NAME_TEXT_MAX];
    tsr_manifest found;
    if (tsr_listing_epoch_below(names, TSR_NAME_MANIFEST, UINT64_MAX) >= spare.epoch ||
        tsr_listing_epoch_below(names, TSR_NAME_BASE, UINT64_MAX) > spare.epoch)
        return TSR_SUCCESS;
    tsr_result result = tsr_record_manifest(ctx, scan->root, scan->arena, &spare, &found);
    if (result.code == TSR_STATE) return TSR_SUCCESS; /* reaching reports it if it is missing */
    TRY(ctx, result);
    tsr_name_format(&spare, from);
    tsr_name_format(&(tsr_name){TSR_NAME_MANIFEST, found.token.epoch, found.token.generation, 0, 0},
                    to);
    int code = io->link(io->self, scan->root, from, to);
    if (code == -EEXIST) return TSR_SUCCESS;
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot put '%s' back", to);
    tsr_log(ctx, TSR_LOG_WARNING, "'%s' was missing and is put back from '%s'", to, from);
    TRY(ctx, tsr_disk_list(ctx, scan->root, &scan->names));
    tsr_listing_sort(&scan->names);
    return TSR_SUCCESS;
}

/* A directory without a manifest: it belongs to an unfinished save, is prepared for the next save
 * and empty, or is marked as committed. */
static void add_unnamed(tsr_ctx *ctx, tsr_store_scan *scan, const tsr_name *name) {
    tsr_contents found = tsr_disk_scan_generation(ctx, scan->gens, name);
    if (found.marked) {
        scan->lost.names[scan->lost.count++] = *name;
    } else if (found.used) {
        scan->unfinished.names[scan->unfinished.count++] = *name;
        tsr_event(scan->events, "uncommitted",
                  &(tsr_link){.generation = name->generation, .epoch = name->epoch}, NULL);
    }
}

tsr_result tsr_store_scan_run(tsr_ctx *ctx, tsr_store_scan *scan) {
    tsr_listing *names = &scan->names, *generations = &scan->generations;
    names->arena = generations->arena = scan->arena;
    names->wanted = 1u << TSR_NAME_BASE | 1u << TSR_NAME_SPARE | 1u << TSR_NAME_MANIFEST;
    generations->wanted = 1u << TSR_NAME_GENERATION;
    /* The root is listed last, so that all commits of a successor during that time have their
     * manifest in it. */
    if (scan->gens >= 0) TRY(ctx, tsr_disk_list(ctx, scan->gens, generations));
    TRY(ctx, tsr_disk_list(ctx, scan->root, names));
    if (!TSR_MUTANT(SCAN_UNFENCED)) TRY(ctx, check_epoch(ctx, scan, names->highest_epoch));
    tsr_listing_sort(names);
    tsr_listing_sort(generations);
    if (scan->events) TRY(ctx, put_back(ctx, scan));
    scan->candidates = TSR_NEW(scan->arena, tsr_name, names->count + 1);
    scan->bases = TSR_NEW(scan->arena, tsr_link, names->count + generations->count + 1);
    scan->lost.names = TSR_NEW(scan->arena, tsr_name, generations->count + 1);
    scan->unfinished.names = TSR_NEW(scan->arena, tsr_name, generations->count + 1);
    if (!scan->candidates || !scan->bases || !scan->lost.names || !scan->unfinished.names)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu names", names->count + generations->count);
    scan->highest_generation = tsr_listing_highest(names, TSR_NAME_MANIFEST);
    for (size_t i = 0; i < scan->generations.count; i++) {
        const tsr_name *name = &scan->generations.names[i];
        if (!tsr_listing_has(&scan->names, TSR_NAME_MANIFEST, name->epoch, name->generation))
            add_unnamed(ctx, scan, name);
    }
    TRY(ctx, list_reachable(ctx, scan, epoch_below(scan, UINT64_MAX), UINT64_MAX));
    scan->committed |= scan->candidate_count > 0;
    return TSR_SUCCESS;
}

/* ---- choice ---- */

/* A generation that was requested by number becomes the first candidate although the newest records
 * do not lead to it: they may be damaged, or belong to a later run that replaced it. */
static tsr_result seek(tsr_ctx *ctx, tsr_store_scan *scan, uint64_t generation, bool *out_found) {
    static const char text[] =
        "generation %" PRIu64 " of epoch %" PRIu64
        " is only tried because its number was given: the newest records do not refer to it";
    const tsr_name *name =
        tsr_listing_find_other(&scan->names, generation, scan->candidates, scan->candidate_count);
    if (!(*out_found = name)) return TSR_SUCCESS;
    tsr_log(ctx, TSR_LOG_WARNING, text, name->generation, name->epoch);
    scan->candidate_count = scan->base_count = 0;
    scan->removed_epoch = 0;
    return list_reachable(ctx, scan, name->epoch, generation);
}

static tsr_result fail_none(tsr_ctx *ctx, const tsr_store_scan *scan, const tsr_choice *choice) {
    char list[TSR_NAMES_TEXT_MAX];
    if (choice->mode != TSR_RESUME_EXACT)
        FAIL(ctx, TSR_STATE,
             "there is no good generation: %u committed record%s %s damaged. Nothing was changed, "
             "and no run starts again at step 0 by itself; fsck lists the remaining records",
             scan->damaged_count, TSR_PLURAL_ARE(scan->damaged_count));
    bool listed = tsr_names_list(scan->candidates, scan->candidate_count, choice->generation, list);
    FAIL(ctx, TSR_STATE, "%s %" PRIu64 "%s: %s",
         scan->damaged_count ? "generation" : "there is no generation", choice->generation,
         listed                ? " cannot be resumed: it is damaged; the others are"
         : scan->damaged_count ? " cannot be resumed: it is missing; there are"
                               : "; there are",
         list);
}

tsr_result tsr_store_scan_next(tsr_ctx *ctx, tsr_store_scan *scan, const tsr_choice *choice,
                               size_t *index, tsr_manifest *out_manifest) {
    bool refuse_old = choice->mode == TSR_RESUME_NEVER && scan->committed;
    if (refuse_old && scan->candidate_count)
        FAIL(ctx, TSR_STATE,
             "a fresh start was requested, but there are %zu generations; the newest is %" PRIu64,
             scan->candidate_count, scan->candidates[0].generation);
    if (refuse_old)
        FAIL(ctx, TSR_STATE,
             "a fresh start was requested, but generations were committed here: no manifest is "
             "left, and %u committed record%s %s damaged or missing",
             scan->damaged_count, TSR_PLURAL_ARE(scan->damaged_count));
    /* Only before the first proposal: ranks do not accept a second candidate of the same number. */
    bool seeks = choice->mode == TSR_RESUME_EXACT && *index == 0;
    for (;; ++*index) {
        if (*index == scan->candidate_count) {
            if (seeks) TRY(ctx, seek(ctx, scan, choice->generation, &seeks));
            if (!seeks) break;
            seeks = false;
            *index = 0;
        }
        const tsr_name *name = &scan->candidates[*index];
        if (choice->mode == TSR_RESUME_EXACT && name->generation != choice->generation) continue;
        tsr_result result = tsr_store_scan_read_candidate(ctx, scan, name, out_manifest);
        if (!result.code)
            return tsr_token_belongs(ctx, &out_manifest->token, choice->program, choice->numerics,
                                     choice->allow_inexact);
        if (result.code != TSR_STATE) return result;
        TRY(ctx, tsr_store_scan_note_damaged(ctx, scan, name));
    }
    bool refused = scan->committed && !TSR_MUTANT(ALL_DAMAGED_IS_EMPTY);
    if (refused || choice->mode == TSR_RESUME_EXACT) return fail_none(ctx, scan, choice);
    return TSR_SUCCESS;
}
