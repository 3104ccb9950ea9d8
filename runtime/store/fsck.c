/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports on the contents of a store. fsck and ls run recovery without its writes; the log messages
 * of recovery become lines of the report.
 */
#include "runtime/base/plural.h"
#include "runtime/commit/recover.h"
#include "runtime/state/best.h"
#include "runtime/state/token_json.h"
#include "runtime/store/read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

typedef struct reporter {
    tsr_fsck_report_fn report;
    void *user;
} reporter;

typedef struct examination {
    tsr_store_scan scan;
    tsr_reader *reader;   /* borrowed */
    bool verify;          /* also read the data */
    tsr_best best;        /* as in the newest good generation; its link is complete */
    bool knows_best;      /* that generation was read */
    const reporter *json; /* borrowed: gets the lines of a list as JSON; NULL: they are logged */
    const tsr_choice *choice; /* borrowed: what a run resumes; NULL: not asked for */
} examination;

static void forward(void *user, tsr_log_level level, const char *text) {
    const reporter *to = user;
    (void)level;
    to->report(to->user, text);
}

static void report_uncommitted(const tsr_ctx *ctx, const tsr_store_scan *scan) {
    for (size_t i = 0; i < scan->unfinished.count; i++) {
        const tsr_name *name = &scan->unfinished.names[i];
        tsr_log(ctx, TSR_LOG_NOTICE,
                "generation %" PRIu64 " of epoch %" PRIu64
                ": uncommitted, an unfinished save or removal",
                name->generation, name->epoch);
    }
}

static tsr_result check_is_store(tsr_ctx *ctx, const tsr_store_scan *scan) {
    if (!scan->committed && !scan->names.highest_epoch)
        FAIL(ctx, TSR_STATE, "it is not a state directory: it has no EPOCH and no MANIFEST");
    return TSR_SUCCESS;
}

static tsr_result read_generation(tsr_ctx *ctx, const examination *e, const tsr_name *name,
                                  tsr_manifest *out_manifest) {
    const tsr_store_scan *scan = &e->scan;
    TRY(ctx, tsr_store_scan_read_candidate(ctx, scan, name, out_manifest));
    if (!e->verify) return tsr_read_sizes(ctx, scan->gens, out_manifest);
    const tsr_part all = {0, out_manifest->chunk_count};
    return tsr_read_part(ctx, e->reader, scan->gens, out_manifest, all, NULL, false);
}

/* The next manifest below *at that the newest run does not reach; false if there are no more. */
static bool next_unreached(const tsr_store_scan *scan, size_t *at, const tsr_name **out_name) {
    while (*at > 0) {
        *out_name = &scan->names.names[--*at];
        if ((*out_name)->kind == TSR_NAME_MANIFEST &&
            !tsr_names_have(scan->candidates, scan->candidate_count, *out_name))
            return true;
    }
    return false;
}

/* Every manifest of a regular run comes with a BASE and data of its epoch. */
static void report_strays(const tsr_ctx *ctx, const tsr_store_scan *scan) {
    for (size_t i = 0; i < scan->candidate_count; i++) {
        const tsr_name *name = &scan->candidates[i];
        char text[TSR_NAME_TEXT_MAX];
        uint64_t limit = name->epoch + 1;
        if (!tsr_listing_has(&scan->names, TSR_NAME_BASE, name->epoch, 0) &&
            tsr_listing_epoch_below(&scan->generations, TSR_NAME_GENERATION, limit) != name->epoch)
            tsr_log(ctx, TSR_LOG_NOTICE,
                    "'%s' may be a stray file: epoch %" PRIu64 " has left no BASE.%" PRIu64
                    " and no data in gen/",
                    tsr_name_format(name, text), name->epoch, name->epoch);
    }
}

static bool is_best(const examination *e, const tsr_name *name) {
    return e->best.generation == name->generation && e->best.epoch == name->epoch;
}

/* Called with good generations, the newest first: the best one is known before it is read itself.
 */
static void note_best(examination *e, const tsr_manifest *manifest) {
    if (!e->knows_best) e->best = tsr_best_of(manifest);
    e->knows_best = true;
}

/* Reads the best generation. A run that works here may have replaced and removed it: then a newer
 * manifest exists. *out_gone: it is damaged or missing for no such reason, and the context's error
 * is the reason. */
static tsr_result read_best(tsr_ctx *ctx, const examination *e, tsr_manifest *out_manifest,
                            bool *out_gone) {
    const tsr_name name = {TSR_NAME_MANIFEST, e->best.epoch, e->best.generation, 0, 0};
    tsr_listing now = {.arena = e->scan.arena, .wanted = 1u << TSR_NAME_MANIFEST};
    tsr_ctx aside = tsr_ctx_fork(ctx);
    *out_gone = false;
    tsr_result result = tsr_best_check(ctx, e->scan.root, e->scan.arena, &e->best, out_manifest);
    if (!result.code) result = read_generation(ctx, e, &name, out_manifest);
    if (result.code != TSR_STATE) return result;
    if (tsr_disk_list(&aside, e->scan.root, &now).code) return tsr_error_adopt(ctx, &aside);
    tsr_listing_sort(&now);
    *out_gone = tsr_listing_highest(&now, TSR_NAME_MANIFEST) <= e->scan.highest_generation;
    return TSR_SUCCESS;
}

static tsr_result check_best(tsr_ctx *ctx, examination *e) {
    const tsr_best *best = &e->best;
    tsr_manifest manifest;
    bool gone;
    if (!best->generation) return TSR_SUCCESS;
    TRY(ctx, read_best(ctx, e, &manifest, &gone));
    if (gone) {
        e->scan.damaged_count++;
        tsr_log(ctx, TSR_LOG_ERROR,
                "generation %" PRIu64 " of epoch %" PRIu64 ", the best by %s, is damaged: %s",
                best->generation, best->epoch, best->metric, ctx->error.text);
        return TSR_SUCCESS;
    }
    tsr_log(ctx, TSR_LOG_NOTICE,
            "generation %" PRIu64 " of epoch %" PRIu64 ": the best by %s: %.9g at step %" PRIu64,
            best->generation, best->epoch, best->metric, best->value, best->step);
    return TSR_SUCCESS;
}

/* No run needs unreached generations, so an error in such a generation does not count as damage. */
static tsr_result report_unreached(tsr_ctx *ctx, const examination *e) {
    const tsr_name *name;
    for (size_t at = e->scan.names.count; next_unreached(&e->scan, &at, &name);) {
        tsr_manifest manifest;
        tsr_ctx aside = tsr_ctx_fork(ctx);
        if (is_best(e, name)) continue; /* reported already */
        tsr_result result = read_generation(&aside, e, name, &manifest);
        if (result.code && result.code != TSR_STATE) return tsr_error_adopt(ctx, &aside);
        tsr_log(ctx, TSR_LOG_NOTICE,
                "generation %" PRIu64 " of epoch %" PRIu64
                ": ignored, because a later run continued from an earlier generation; it is %s%s",
                name->generation, name->epoch,
                result.code ? "damaged: " : "good: resume it by its number to use it",
                result.code ? aside.error.text : "");
    }
    return TSR_SUCCESS;
}

static tsr_result check(tsr_ctx *ctx, examination *e) {
    tsr_store_scan *scan = &e->scan;
    uint32_t good_count = 0;
    TRY(ctx, tsr_store_scan_run(ctx, scan));
    TRY(ctx, check_is_store(ctx, scan));
    for (size_t i = 0; i < scan->candidate_count; i++) {
        char hash[TSR_DIGEST_HEX + 1];
        tsr_manifest manifest;
        tsr_result result = read_generation(ctx, e, &scan->candidates[i], &manifest);
        if (result.code == TSR_STATE) {
            if (is_best(e, &scan->candidates[i])) continue; /* check_best reports it */
            TRY(ctx, tsr_store_scan_note_damaged(ctx, scan, &scan->candidates[i]));
            continue;
        }
        TRY(ctx, result);
        good_count++;
        note_best(e, &manifest);
        tsr_digest_format(&manifest.token.state_hash, hash);
        tsr_log(ctx, TSR_LOG_NOTICE,
                "generation %" PRIu64 " of epoch %" PRIu64 ": good, step %" PRIu64
                ", %u tensor%s, %u chunk%s, state %s",
                manifest.token.generation, manifest.token.epoch, manifest.token.position.step,
                manifest.tensor_count, TSR_PLURAL(manifest.tensor_count), manifest.chunk_count,
                TSR_PLURAL(manifest.chunk_count), hash);
    }
    TRY(ctx, check_best(ctx, e));
    report_strays(ctx, scan);
    TRY(ctx, report_unreached(ctx, e));
    report_uncommitted(ctx, scan);
    tsr_log(ctx, TSR_LOG_NOTICE, "%u good, %u damaged, %zu uncommitted%s", good_count,
            scan->damaged_count, scan->unfinished.count,
            scan->committed ? "" : "; nothing was committed yet");
    if (scan->damaged_count)
        FAIL(ctx, TSR_STATE, "%u committed record%s %s damaged; %u generation%s %s good",
             scan->damaged_count, TSR_PLURAL_ARE(scan->damaged_count), good_count,
             TSR_PLURAL_ARE(good_count));
    return TSR_SUCCESS;
}

static tsr_result report_json(tsr_ctx *ctx, const examination *e, tsr_buffer *line) {
    tsr_result result = TSR_SUCCESS;
    if (line->failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for a line of JSON");
    e->json->report(e->json->user, line->bytes);
done:
    tsr_buffer_finish(line);
    return result;
}

static tsr_result list_damaged(tsr_ctx *ctx, const examination *e, const tsr_name *name) {
    tsr_buffer line = {0};
    if (!e->json) {
        tsr_log(ctx, TSR_LOG_ERROR, "generation %" PRIu64 " epoch %" PRIu64 " damaged: %s",
                name->generation, name->epoch, ctx->error.text);
        return TSR_SUCCESS;
    }
    tsr_buffer_printf(&line, "{\"generation\":%" PRIu64 ",\"epoch\":%" PRIu64 ",\"damaged\":",
                      name->generation, name->epoch);
    tsr_buffer_json_string(&line, ctx->error.text);
    tsr_buffer_text(&line, "}");
    return report_json(ctx, e, &line);
}

/* Appends ", lr 0.005 set" for each value that a run set. */
static void append_set(tsr_buffer *out, const tsr_identity *identity) {
    for (size_t i = 0; i < identity->hyperparameter_count; i++) {
        const tsr_hyperparameter *one = &identity->hyperparameters[i];
        if (one->is_set) tsr_buffer_printf(out, ", %s %s set", one->name, one->value);
    }
}

static tsr_result list_good(tsr_ctx *ctx, const examination *e, const tsr_manifest *manifest,
                            bool reached) {
    const tsr_token *token = &manifest->token;
    char hash[TSR_DIGEST_HEX + 1], program[TSR_DIGEST_HEX + 1];
    bool known = tsr_identity_is_known(&token->identity);
    const tsr_name name = {TSR_NAME_MANIFEST, token->epoch, token->generation, 0, 0};
    bool best = is_best(e, &name);
    tsr_buffer line = {0};
    if (!e->json) {
        if (best) tsr_buffer_printf(&line, ", best %s %.9g", e->best.metric, e->best.value);
        append_set(&line, &token->identity);
        bool failed = line.failed;
        tsr_digest_format(&token->state_hash, hash);
        tsr_digest_format(&token->identity.program, program);
        tsr_log(ctx, TSR_LOG_NOTICE,
                "generation %" PRIu64 " epoch %" PRIu64 " step %" PRIu64 " seed %" PRIu64
                " bytes %" PRIu64 " state %s%s%s good%s%s",
                token->generation, token->epoch, token->position.step, token->position.seed,
                tsr_manifest_data_bytes(manifest), hash, known ? " program " : "",
                known ? program : "", line.size_bytes ? line.bytes : "",
                reached ? "" : ", ignored unless a run resumes it by its number");
        tsr_buffer_finish(&line);
        if (failed) FAIL(ctx, TSR_MEMORY, "no memory to list a generation");
        return TSR_SUCCESS;
    }
    tsr_digest_format(&manifest->hash, hash);
    tsr_buffer_text(&line, "{\"token\":");
    tsr_token_json(&line, manifest);
    tsr_buffer_printf(&line, ",\"bytes\":%" PRIu64 ",\"manifest\":\"%s\"%s%s}",
                      tsr_manifest_data_bytes(manifest), hash, best ? ",\"best\":true" : "",
                      reached ? "" : ",\"reached\":false");
    return report_json(ctx, e, &line);
}

static tsr_result list_counts(tsr_ctx *ctx, const examination *e) {
    const tsr_store_scan *scan = &e->scan;
    tsr_buffer line = {0};
    if (!e->json) {
        tsr_log(ctx, TSR_LOG_NOTICE, "%zu generation%s, %u damaged, %zu uncommitted%s",
                scan->candidate_count, TSR_PLURAL(scan->candidate_count), scan->damaged_count,
                scan->unfinished.count, e->verify ? "" : "; the data was not read");
        return TSR_SUCCESS;
    }
    tsr_buffer_printf(&line,
                      "{\"generations\":%zu,\"damaged\":%u,\"uncommitted\":%zu,\"verified\":%s}",
                      scan->candidate_count, scan->damaged_count, scan->unfinished.count,
                      e->verify ? "true" : "false");
    return report_json(ctx, e, &line);
}

/* One line for one generation. A generation that cannot be read is damaged, or the error is
 * returned as another failure. */
static tsr_result list_one(tsr_ctx *ctx, examination *e, const tsr_name *name) {
    tsr_manifest manifest;
    tsr_result result = read_generation(ctx, e, name, &manifest);
    if (result.code == TSR_STATE) {
        bool collected;
        if (is_best(e, name)) return TSR_SUCCESS; /* list_lost_best lists it */
        TRY(ctx, tsr_store_scan_check_again(ctx, &e->scan, name, &collected));
        if (collected) return TSR_SUCCESS;
        e->scan.damaged_count++;
        return list_damaged(ctx, e, name);
    }
    TRY(ctx, result);
    note_best(e, &manifest);
    return list_good(ctx, e, &manifest, true);
}

/* Lists the good ones. */
static tsr_result list_unreached(tsr_ctx *ctx, const examination *e) {
    const tsr_name *name;
    for (size_t at = e->scan.names.count; next_unreached(&e->scan, &at, &name);) {
        tsr_manifest manifest;
        tsr_ctx aside = tsr_ctx_fork(ctx);
        tsr_result result = read_generation(&aside, e, name, &manifest);
        if (result.code == TSR_STATE) continue;
        if (result.code) return tsr_error_adopt(ctx, &aside);
        TRY(ctx, list_good(ctx, e, &manifest, is_best(e, name)));
    }
    return TSR_SUCCESS;
}

/* The best generation is listed with the others, unless it cannot be read. */
static tsr_result list_lost_best(tsr_ctx *ctx, examination *e) {
    const tsr_name name = {TSR_NAME_MANIFEST, e->best.epoch, e->best.generation, 0, 0};
    tsr_manifest manifest;
    bool gone;
    if (!e->best.generation) return TSR_SUCCESS;
    TRY(ctx, read_best(ctx, e, &manifest, &gone));
    if (!gone) return TSR_SUCCESS;
    e->scan.damaged_count++;
    TSR_DROP(tsr_error_prefix(ctx, (tsr_result){TSR_STATE}, "the best by %s", e->best.metric),
             "it is listed");
    return list_damaged(ctx, e, &name);
}

static tsr_result list(tsr_ctx *ctx, examination *e) {
    tsr_store_scan *scan = &e->scan;
    TRY(ctx, tsr_store_scan_run(ctx, scan));
    TRY(ctx, check_is_store(ctx, scan));
    for (size_t i = 0; i < scan->candidate_count; i++)
        TRY(ctx, list_one(ctx, e, &scan->candidates[i]));
    report_strays(ctx, scan);
    TRY(ctx, list_unreached(ctx, e));
    TRY(ctx, list_lost_best(ctx, e));
    TRY(ctx, list_counts(ctx, e));
    if (scan->damaged_count)
        FAIL(ctx, TSR_STATE, "%u committed record%s %s damaged", scan->damaged_count,
             TSR_PLURAL_ARE(scan->damaged_count));
    return TSR_SUCCESS;
}

/* The best generation that the newest good one names; its data is not read. */
static tsr_result find_best(tsr_ctx *ctx, examination *e) {
    tsr_store_scan *scan = &e->scan;
    tsr_manifest manifest;
    TRY(ctx, tsr_store_scan_run(ctx, scan));
    TRY(ctx, check_is_store(ctx, scan));
    for (size_t i = 0; i < scan->candidate_count; i++) {
        tsr_ctx aside = tsr_ctx_fork(ctx);
        tsr_result result = read_generation(&aside, e, &scan->candidates[i], &manifest);
        if (result.code == TSR_STATE) continue;
        if (result.code) return tsr_error_adopt(ctx, &aside);
        note_best(e, &manifest);
        if (e->best.generation)
            return tsr_best_check(ctx, scan->root, scan->arena, &e->best, &manifest);
        FAIL(ctx, TSR_STATE, "generation %" PRIu64 " names no best generation%s",
             manifest.token.generation,
             e->best.metric[0] ? ": nothing was judged yet" : ": --keep-best was not given");
    }
    FAIL(ctx, TSR_STATE, "there is no good generation, and so no best one");
}

/* The best generation that the one names that a run would resume: by manifests and sizes. */
static tsr_result find_resumed(tsr_ctx *ctx, examination *e) {
    tsr_store_scan *scan = &e->scan;
    tsr_manifest manifest;
    TRY(ctx, tsr_store_scan_run(ctx, scan));
    for (size_t i = 0;; i++) {
        tsr_ctx aside = tsr_ctx_fork(ctx);
        TRY(ctx, tsr_store_scan_next(ctx, scan, e->choice, &i, &manifest));
        if (i == scan->candidate_count) return TSR_SUCCESS;
        tsr_result result = tsr_read_sizes(&aside, scan->gens, &manifest);
        if (!result.code) note_best(e, &manifest);
        if (!result.code) return TSR_SUCCESS;
        if (result.code != TSR_STATE) return tsr_error_adopt(ctx, &aside);
    }
}

static tsr_result examine(tsr_ctx *ctx, const char *directory,
                          tsr_result (*examine_all)(tsr_ctx *ctx, examination *e), bool verify,
                          bool json, tsr_fsck_report_fn report, void *user,
                          const tsr_choice *choice, tsr_best *out_best) {
    const tsr_io *io = tsr_ctx_io(ctx);
    reporter to = {report, user};
    tsr_ctx own = {.log = forward, .log_user = &to, .log_level = TSR_LOG_NOTICE, .io = ctx->io};
    if (json) {
        own.log = ctx->log;
        own.log_user = ctx->log_user;
        own.log_level = ctx->log_level;
    }
    tsr_arena arena = {0};
    examination e = {.scan = {.root = -1, .gens = -1, .arena = &arena},
                     .reader = tsr_reader_create(),
                     .verify = verify,
                     .json = json ? &to : NULL,
                     .choice = choice};
    tsr_store_scan *scan = &e.scan;
    tsr_result result;
    if (!e.reader) FAIL_GOTO(&own, result, TSR_MEMORY, "no memory to read a state");
    scan->root = io->open(io->self, TSR_IO_CWD, directory, O_RDONLY | O_DIRECTORY, 0);
    if (scan->root < 0) {
        result = tsr_fail_(&own, TSR_IO, -scan->root, __FILE__, __LINE__, "cannot open it");
        goto done;
    }
    scan->gens = io->open(io->self, scan->root, "gen", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    result = examine_all(&own, &e);
    if (out_best) *out_best = e.best;
done:
    if (scan->gens >= 0) io->close(io->self, scan->gens);
    if (scan->root >= 0) io->close(io->self, scan->root);
    tsr_reader_destroy(e.reader);
    tsr_arena_finish(&arena);
    if (!result.code) return result;
    result = tsr_error_prefix(&own, result, "state directory '%s'", directory);
    return tsr_error_adopt(ctx, &own);
}

tsr_result tsr_store_fsck(tsr_ctx *ctx, const char *directory, tsr_fsck_report_fn report,
                          void *user) {
    return examine(ctx, directory, check, true, false, report, user, NULL, NULL);
}

tsr_result tsr_store_list(tsr_ctx *ctx, const char *directory, bool verify,
                          tsr_fsck_report_fn report, void *user) {
    return examine(ctx, directory, list, verify, false, report, user, NULL, NULL);
}

tsr_result tsr_store_list_json(tsr_ctx *ctx, const char *directory, bool verify,
                               tsr_fsck_report_fn report, void *user) {
    return examine(ctx, directory, list, verify, true, report, user, NULL, NULL);
}

tsr_result tsr_store_find_best(tsr_ctx *ctx, const char *directory, tsr_best *out_best) {
    tsr_best best;
    TRY(ctx, examine(ctx, directory, find_best, false, true, NULL, NULL, NULL, &best));
    *out_best = best;
    return TSR_SUCCESS;
}

tsr_result tsr_store_peek_best(tsr_ctx *ctx, const char *directory, tsr_resume_mode mode,
                               uint64_t generation, tsr_best *out_best) {
    const tsr_choice choice = {.mode = mode, .generation = generation};
    tsr_best best = {.generation = 0};
    tsr_ctx aside = tsr_ctx_fork(ctx);
    tsr_result result =
        examine(&aside, directory, find_resumed, false, true, NULL, NULL, &choice, &best);
    bool absent = result.code == TSR_IO && aside.error.native == ENOENT;
    if (result.code && !absent) return tsr_error_adopt(ctx, &aside);
    *out_best = best;
    return TSR_SUCCESS;
}
