/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: requests · recovering: candidates are proposed one by one, older ones are counted, the
 * choice is settled · messages and time · opening and closing.
 */
#include "runtime/commit/internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUEST_BYTES = 2048 };

const char *tsr_phase_name(tsr_phase phase) {
    static const char *const names[] = {"recovering", "counting",     "agreeing", "idle",
                                        "preparing",  "reading back", "stopped"};
    return phase <= TSR_PHASE_STOPPED ? names[phase] : "unknown";
}

/* ---- requests ---- */

static void send_to(tsr_coordinator *c, const tsr_message *message, uint32_t rank) {
    uint8_t bytes[REQUEST_BYTES];
    const tsr_outside *outside = &c->options.outside;
    tsr_message m = *message;
    TSR_ASSERT(tsr_message_size_max(0) <= sizeof bytes);
    m.rank = rank;
    m.epoch = c->epoch;
    if (!m.text) m.text = "";
    if (m.kind == TSR_MESSAGE_PROPOSE)
        m.part = tsr_part_of(c->asked_chunks, rank, c->options.rank_count);
    outside->send(outside->self, rank, bytes, tsr_message_encode(&m, bytes));
}

void tsr_coordinator_tell(tsr_coordinator *c, const tsr_message *message) {
    for (uint32_t i = 0; i < c->options.rank_count; i++) send_to(c, message, i);
}

static uint64_t now_ns(const tsr_coordinator *c) {
    return c->options.outside.now_ns(c->options.outside.self);
}

void tsr_coordinator_ask(tsr_coordinator *c, tsr_phase phase, const tsr_message *request,
                         const tsr_manifest *manifest) {
    c->phase = phase;
    c->request = *request;
    c->asked_chunks = manifest->chunk_count;
    c->answered_count = 0;
    memset(c->answered, 0, c->options.rank_count * sizeof *c->answered);
    c->failed_verdict = TSR_VERDICT_GOOD;
    c->asked_ns = c->sent_ns = now_ns(c);
    tsr_coordinator_tell(c, request);
}

tsr_name tsr_coordinator_temp(tsr_coordinator *c) {
    return (tsr_name){
        .kind = TSR_NAME_TEMP,
        .epoch = c->epoch,
        .pid = c->options.outside.process_id,
        .nonce = TSR_MUTANT(TEMP_REOPENED) ? 1 : c->options.outside.nonce + c->temp_count++};
}

tsr_result tsr_coordinator_failure(tsr_ctx *ctx, const tsr_coordinator *c) {
    tsr_error_clear(ctx);
    tsr_result result = tsr_fail_(ctx, c->failed_code, 0, __FILE__, __LINE__, "%s", c->failed_text);
    ctx->error.native = c->failed_native;
    if (c->options.rank_count > 1)
        result = tsr_error_prefix(ctx, result, "rank %" PRIu32, c->failed_rank);
    return result;
}

static void note_failure(tsr_coordinator *c, const tsr_message *m, tsr_verdict verdict) {
    if (verdict <= c->failed_verdict) return;
    c->failed_verdict = verdict;
    c->failed_code = (tsr_code)m->code;
    c->failed_native = (int)m->native;
    c->failed_rank = m->rank;
    memcpy(c->failed_text, m->text, strlen(m->text) + 1);
}

/* ---- recovering ---- */

static tsr_result stop(tsr_ctx *ctx, tsr_coordinator *c, tsr_result result) {
    c->phase = TSR_PHASE_STOPPED;
    tsr_event_more(&c->events, "refuse", NULL, ctx->error.text, "\"code\":%d", (int)result.code);
    return result;
}

/* The resumed generation may have been published by a run that died before its last sync, or whose
 * last sync failed: then another sync may succeed although the name is not durable. A new name will
 * be durable. */
static tsr_result sync_recovered(tsr_ctx *ctx, const tsr_coordinator *c) {
    const tsr_io *io = tsr_ctx_io(ctx);
    const tsr_token *token = &c->recovered.token;
    const tsr_directory *dir = &c->directory;
    tsr_name name = {TSR_NAME_MANIFEST, token->epoch, token->generation, 0, 0};
    const tsr_name spare = {.kind = TSR_NAME_SPARE, .epoch = c->epoch};
    char text[TSR_NAME_TEXT_MAX], second[TSR_NAME_TEXT_MAX];
    if (TSR_MUTANT(RECOVERED_UNSYNCED)) return TSR_SUCCESS;
    TRY(ctx, tsr_disk_sync_name(ctx, dir->root, tsr_name_format(&name, text), 0));
    tsr_name_format(&spare, second);
    int code = TSR_MUTANT(NO_SPARE) ? 0 : io->link(io->self, dir->root, text, second);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot link '%s' to '%s'", text, second);
    name.kind = TSR_NAME_GENERATION;
    TRY(ctx, tsr_disk_sync_name(ctx, dir->gens, tsr_name_format(&name, text), O_DIRECTORY));
    TRY(ctx, tsr_disk_sync(ctx, dir->gens, "gen"));
    return tsr_disk_sync(ctx, dir->root, c->options.directory);
}

static tsr_result publish_base(tsr_ctx *ctx, tsr_coordinator *c) {
    uint8_t bytes[TSR_BASE_BYTES];
    const tsr_name temp = tsr_coordinator_temp(c),
                   name = {.kind = TSR_NAME_BASE, .epoch = c->epoch};
    if (TSR_MUTANT(NO_BASE)) return TSR_SUCCESS;
    tsr_base_encode(c->epoch, &c->previous, bytes);
    tsr_result result = tsr_disk_publish(ctx, c->directory.root, &temp, &name, bytes, sizeof bytes,
                                         &c->outcome_unknown);
    c->fenced = result.code == TSR_LOCKED;
    return result;
}

/* The resumed generation and the counted ones are known to be good. */
static tsr_result apply_choice(tsr_ctx *ctx, tsr_coordinator *c) {
    const tsr_token *token = &c->recovered.token;
    if (c->options.choice.refuse_damage && c->scan.damaged_count)
        FAIL(ctx, TSR_STATE,
             "committed records are damaged (%" PRIu32
             "): nothing was removed; run fsck for details",
             c->scan.damaged_count);
    c->recovery.damaged_count = c->scan.damaged_count;
    c->recovery.uncommitted_count = (uint32_t)c->scan.unfinished.count;
    c->next_generation = c->scan.highest_generation + 1;
    if (c->next_generation > INT64_MAX)
        FAIL(ctx, TSR_STATE, "generation %" PRIu64 " is out of range", c->scan.highest_generation);
    if (c->recovery.found) {
        while (c->found_count--) tsr_collect_add_good(c, c->found[c->found_count]);
        tsr_collect_add_good(c, tsr_retained_of(&c->recovered));
        TRY(ctx, sync_recovered(ctx, c));
        c->best = tsr_best_of(&c->recovered);
        c->recovery.generation = tsr_manifest_generation(&c->recovered);
        c->previous = tsr_manifest_link(&c->recovered);
        c->previous_token = c->recovered.token_hash;
    }
    char state[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&token->state_hash, state);
    tsr_event_more(
        &c->events, "recover", &c->previous, NULL,
        "\"state\":\"%s\",\"step\":%" PRIu64 ",\"damaged\":%" PRIu32 ",\"uncommitted\":%" PRIu32,
        state, token->position.step, c->recovery.damaged_count, c->recovery.uncommitted_count);
    return publish_base(ctx, c);
}

static tsr_result finish_choice(tsr_ctx *ctx, tsr_coordinator *c) {
    tsr_result result = apply_choice(ctx, c);
    if (result.code) {
        if (c->outcome_unknown) tsr_event(&c->events, "unknown", &c->previous, ctx->error.text);
        return stop(ctx, c, result);
    }
    tsr_event(&c->events, "base", &c->previous, NULL);
    /* A run that was suspended until now must not remove its successor's files. */
    if (!TSR_MUTANT(SWEEP_UNFENCED)) result = tsr_save_check_fence(ctx, c);
    if (!result.code) result = tsr_collect_sweep(ctx, c);
    if (result.code)
        tsr_log(ctx, TSR_LOG_WARNING, "unfinished saves are kept for now: %s", ctx->error.text);
    tsr_coordinator_ask(c, TSR_PHASE_AGREEING,
                        &(tsr_message){.kind = TSR_MESSAGE_AGREE, .subject = c->previous},
                        &c->recovered);
    return TSR_SUCCESS;
}

static void propose(tsr_coordinator *c, tsr_phase phase, tsr_purpose purpose) {
    const tsr_message request = {.kind = TSR_MESSAGE_PROPOSE,
                                 .subject = tsr_manifest_link(&c->examined),
                                 .purpose = purpose};
    tsr_event(&c->events, "candidate", &request.subject, NULL);
    tsr_coordinator_ask(c, phase, &request, &c->examined);
}

/* Proposes the next candidate, from c->candidate on. */
static tsr_result propose_next(tsr_ctx *ctx, tsr_coordinator *c) {
    tsr_result result =
        tsr_store_scan_next(ctx, &c->scan, &c->options.choice, &c->candidate, &c->examined);
    if (result.code) return stop(ctx, c, result);
    if (c->candidate == c->scan.candidate_count) {
        c->recovered = (tsr_manifest){0};
        return finish_choice(ctx, c);
    }
    propose(c, TSR_PHASE_RECOVERING, TSR_PURPOSE_RECOVER);
    return TSR_SUCCESS;
}

/* If more than `keep` generations exist, older ones are verified too, so that the next collection
 * may remove the rest. */
static tsr_result count_next(tsr_ctx *ctx, tsr_coordinator *c) {
    for (; c->found_count < c->wanted && c->candidate < c->scan.candidate_count; c->candidate++) {
        const tsr_name *name = &c->scan.candidates[c->candidate];
        tsr_result result = tsr_store_scan_read_candidate(ctx, &c->scan, name, &c->examined);
        if (TSR_MUTANT(COUNTED_UNVERIFIED)) c->found[c->found_count++].name = *name;
        if (!result.code && !TSR_MUTANT(COUNTED_UNVERIFIED)) {
            propose(c, TSR_PHASE_COUNTING, TSR_PURPOSE_COUNT);
            return TSR_SUCCESS;
        }
        if (result.code == TSR_STATE) result = tsr_store_scan_note_damaged(ctx, &c->scan, name);
        if (result.code) return stop(ctx, c, result);
    }
    return finish_choice(ctx, c);
}

static tsr_result choose(tsr_ctx *ctx, tsr_coordinator *c) {
    size_t left = c->scan.candidate_count - c->candidate;
    c->recovered = c->examined;
    c->recovery.found = true;
    if (c->scan.damaged_count)
        tsr_log(ctx, TSR_LOG_WARNING, "resuming from generation %" PRIu64 " at step %" PRIu64,
                c->recovered.token.generation, c->recovered.token.position.step);
    c->wanted = left > c->options.keep ? c->options.keep - 1 : 0;
    c->found = TSR_NEW(&c->arena, tsr_retained, c->wanted + 1);
    if (!c->found)
        return stop(ctx, c, tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory"));
    c->candidate++;
    return count_next(ctx, c);
}

/* Called when all verdicts on the candidate have arrived. */
static tsr_result judge(tsr_ctx *ctx, tsr_coordinator *c) {
    const tsr_name *name = &c->scan.candidates[c->candidate];
    bool recovering = c->phase == TSR_PHASE_RECOVERING;
    TSR_ASSERT(recovering || c->phase == TSR_PHASE_COUNTING);
    if (c->failed_verdict == TSR_VERDICT_UNKNOWN)
        return stop(ctx, c, tsr_coordinator_failure(ctx, c));
    if (c->failed_verdict == TSR_VERDICT_DAMAGED) {
        TSR_DROP(tsr_coordinator_failure(ctx, c), "its text is for the note of the next line");
        tsr_result result = tsr_store_scan_note_damaged(ctx, &c->scan, name);
        if (result.code) return stop(ctx, c, result);
        c->candidate++;
        return recovering ? propose_next(ctx, c) : count_next(ctx, c);
    }
    tsr_event_more(&c->events, "verified", &c->request.subject, NULL,
                   "\"purpose\":\"%s\",\"bytes\":%" PRIu64, recovering ? "recover" : "count",
                   tsr_manifest_data_bytes(&c->examined));
    if (recovering) return choose(ctx, c);
    c->found[c->found_count++] = tsr_retained_of(&c->examined);
    c->candidate++;
    return count_next(ctx, c);
}

/* ---- messages and time ---- */

static bool same_link(const tsr_link *a, const tsr_link *b) {
    return a->generation == b->generation && a->epoch == b->epoch &&
           tsr_digest_equal(&a->manifest_hash, &b->manifest_hash);
}

/* Is it an answer to the current request, from a rank that has not answered yet? */
static bool answers(const tsr_coordinator *c, const tsr_message *m) {
    const tsr_message *asked = &c->request;
    bool asking = c->phase != TSR_PHASE_IDLE && c->phase != TSR_PHASE_STOPPED;
    bool stale = m->epoch != c->epoch && !TSR_MUTANT(OLD_EPOCH_ANSWER);
    if (!asking || stale || m->rank >= c->options.rank_count) return false;
    if (c->answered[m->rank] || !same_link(&m->subject, &asked->subject)) return false;
    if (asked->kind == TSR_MESSAGE_AGREE) return m->kind == TSR_MESSAGE_AGREE;
    const tsr_part part = tsr_part_of(c->asked_chunks, m->rank, c->options.rank_count);
    bool whole = m->part.first == part.first && m->part.count == part.count;
    if (asked->kind == TSR_MESSAGE_PROPOSE)
        return m->kind == TSR_MESSAGE_VERDICT && m->purpose == asked->purpose && whole;
    if (m->kind == TSR_MESSAGE_ABORT) return true;
    return m->kind == TSR_MESSAGE_PREPARED && whole && tsr_digest_equal(&m->layout, &c->layout);
}

/* Called when all have answered, or when one answer is enough. */
static tsr_result go_on(tsr_ctx *ctx, tsr_coordinator *c) {
    if (c->phase == TSR_PHASE_READING_BACK) return tsr_collect_read_back(ctx, c);
    if (c->phase == TSR_PHASE_PREPARING) {
        if (c->failed_verdict) return tsr_save_fail(ctx, c, tsr_coordinator_failure(ctx, c), false);
        return tsr_save_publish(ctx, c);
    }
    if (c->phase != TSR_PHASE_AGREEING) return judge(ctx, c);
    if (c->failed_verdict) return stop(ctx, c, tsr_coordinator_failure(ctx, c));
    c->phase = TSR_PHASE_IDLE;
    return TSR_SUCCESS;
}

tsr_result tsr_coordinator_receive(tsr_ctx *ctx, tsr_coordinator *c, const uint8_t *bytes,
                                   size_t size_bytes) {
    char text[TSR_MESSAGE_TEXT_MAX + 1];
    tsr_message m;
    if (!tsr_message_decode(bytes, size_bytes, text, &m) || !answers(c, &m)) return TSR_SUCCESS;
    c->answered[m.rank] = true;
    c->answered_count++;
    if (m.kind == TSR_MESSAGE_ABORT)
        note_failure(c, &m, TSR_VERDICT_UNKNOWN);
    else if (m.kind == TSR_MESSAGE_VERDICT)
        note_failure(c, &m, m.verdict);
    else if (m.kind == TSR_MESSAGE_PREPARED)
        tsr_save_note(c, &m);
    bool enough = c->answered_count == c->options.rank_count ||
                  (TSR_MUTANT(ONE_PREPARED_IS_ENOUGH) && c->phase == TSR_PHASE_PREPARING) ||
                  (TSR_MUTANT(ONE_VERDICT_IS_ENOUGH) && c->phase == TSR_PHASE_RECOVERING);
    if (!enough && c->failed_verdict != TSR_VERDICT_UNKNOWN) return TSR_SUCCESS;
    return go_on(ctx, c);
}

tsr_result tsr_coordinator_abort(tsr_ctx *ctx, tsr_coordinator *c, const char *reason) {
    TSR_ASSERT(c->phase == TSR_PHASE_PREPARING);
    tsr_result result = tsr_fail_(ctx, TSR_SAVE, 0, __FILE__, __LINE__, "%s", reason);
    return tsr_save_fail(ctx, c, result, false);
}

/* A clock that goes backwards counts as not moving. */
static uint64_t since(uint64_t now, uint64_t then) { return now > then ? now - then : 0; }

tsr_result tsr_coordinator_tick(tsr_ctx *ctx, tsr_coordinator *c) {
    const uint64_t now = now_ns(c);
    char text[128];
    uint32_t silent = 0;
    if (c->phase == TSR_PHASE_IDLE || c->phase == TSR_PHASE_STOPPED) return TSR_SUCCESS;
    while (c->answered[silent]) silent++; /* one exists, or the coordinator would not be waiting */
    if (c->options.deadline_ns && since(now, c->asked_ns) >= c->options.deadline_ns) {
        snprintf(text, sizeof text, "no answer for %.1f s to %s",
                 (double)since(now, c->asked_ns) * 1e-9, tsr_message_kind_name(c->request.kind));
        const tsr_message late = {.rank = silent, .code = TSR_IO, .text = text};
        note_failure(c, &late, TSR_VERDICT_UNKNOWN);
        return go_on(ctx, c);
    }
    if (!c->options.resend_ns || since(now, c->sent_ns) < c->options.resend_ns) return TSR_SUCCESS;
    c->sent_ns = now;
    for (uint32_t i = silent; i < c->options.rank_count; i++)
        if (!c->answered[i]) send_to(c, &c->request, i);
    return TSR_SUCCESS;
}

/* ---- opening and closing ---- */

static tsr_result allocate(tsr_ctx *ctx, const tsr_coordinator_options *options,
                           tsr_coordinator **out_coordinator) {
    tsr_coordinator *c = calloc(1, sizeof *c);
    if (!c) FAIL(ctx, TSR_MEMORY, "no memory for a state store");
    *c = (tsr_coordinator){.options = *options, .directory = {-1, -1, -1}};
    *out_coordinator = c;
    const tsr_outside *outside = &options->outside;
    c->events = (tsr_events){.self = outside->self,
                             .now_ns = outside->now_ns,
                             .line = outside->event,
                             .who = "coordinator",
                             .process_id = outside->process_id};
    tsr_listing *listings[] = {&c->root_names, &c->gen_names, &c->segment_names};
    for (size_t i = 0; i < 3; i++) {
        listings[i]->names = TSR_NEW(&c->arena, tsr_name, TSR_SCRATCH_NAMES);
        listings[i]->capacity = listings[i]->names ? TSR_SCRATCH_NAMES : 0;
    }
    c->options.directory = tsr_arena_strdup(&c->arena, options->directory);
    c->good = TSR_NEW(&c->arena, tsr_retained, options->keep);
    c->answered = TSR_NEW(&c->arena, bool, options->rank_count);
    if (!c->segment_names.capacity || !c->options.directory || !c->good || !c->answered)
        FAIL(ctx, TSR_MEMORY, "no memory for a state store");
    return TSR_SUCCESS;
}

static tsr_result begin(tsr_ctx *ctx, tsr_coordinator *c) {
    static const char *const modes[] = {"auto", "never", "exact"};
    const tsr_coordinator_options *o = &c->options;
    TRY(ctx, tsr_directory_open(ctx, o->directory, o->allow_network_fs, o->outside.process_id,
                                &c->directory));
    tsr_event_more(&c->events, "open", NULL, o->directory,
                   "\"ranks\":%" PRIu32 ",\"keep\":%" PRIu32 ",\"mode\":\"%s\"", o->rank_count,
                   o->keep, modes[o->choice.mode]);
    TRY(ctx, tsr_directory_claim(ctx, &c->directory, o->directory, &c->root_names, &c->epoch));
    c->events.epoch = c->epoch;
    tsr_event(&c->events, "epoch", NULL, NULL);
    c->scan = (tsr_store_scan){.root = c->directory.root,
                               .gens = c->directory.gens,
                               .arena = &c->arena,
                               .events = &c->events};
    return tsr_store_scan_run(ctx, &c->scan);
}

tsr_result tsr_coordinator_open(tsr_ctx *ctx, const tsr_coordinator_options *options,
                                tsr_coordinator **out_coordinator) {
    tsr_coordinator *c = NULL;
    tsr_result result;
    TSR_ASSERT(options->size_bytes == sizeof *options && options->rank_count &&
               options->rank_count <= TSR_RANKS_MAX && options->keep >= 2 &&
               options->keep <= TSR_KEEP_MAX);
    TRY_GOTO(ctx, result, allocate(ctx, options, &c));
    result = begin(ctx, c);
    result = result.code ? stop(ctx, c, result) : propose_next(ctx, c);
done:
    if (result.code)
        tsr_coordinator_close(ctx, c);
    else
        *out_coordinator = c;
    return result;
}

void tsr_coordinator_close(tsr_ctx *ctx, tsr_coordinator *c) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char text[TSR_NAME_TEXT_MAX];
    if (!c) return;
    if (c->ready) {
        const tsr_name name = {TSR_NAME_GENERATION, c->epoch, c->ready, 0, 0};
        io->unlink(io->self, c->directory.gens, tsr_name_format(&name, text), AT_REMOVEDIR);
    }
    tsr_event_more(&c->events, "close", NULL, NULL, "\"committed\":%" PRIu64, c->committed_count);
    tsr_directory_close(ctx, &c->directory);
    free(c->encoded);
    tsr_arena_finish(&c->arena);
    free(c);
}
