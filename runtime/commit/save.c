/* SPDX-License-Identifier: Apache-2.0
 *
 * The coordinator's side of a save: directory, PREPARE, all PREPARED, manifest, fence, COMMITTED.
 */
#include "runtime/commit/internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

tsr_result tsr_save_check_fence(tsr_ctx *ctx, tsr_coordinator *c) {
    TRY(ctx, tsr_disk_list(ctx, c->directory.root, &c->root_names));
    if (c->root_names.highest_epoch <= c->epoch || TSR_MUTANT(NO_EPOCH_CHECK)) return TSR_SUCCESS;
    FAIL(ctx, TSR_LOCKED,
         "another run took the store over: it is of epoch %" PRIu64 ", this run of %" PRIu64,
         c->root_names.highest_epoch, c->epoch);
}

static tsr_name directory_of(const tsr_coordinator *c, uint64_t generation) {
    return (tsr_name){.kind = TSR_NAME_GENERATION, .epoch = c->epoch, .generation = generation};
}

/* Makes it durable before any rank is told about it. */
static tsr_result make_directory(tsr_ctx *ctx, const tsr_coordinator *c, uint64_t generation) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char text[TSR_NAME_TEXT_MAX];
    const tsr_name name = directory_of(c, generation);
    int code = io->mkdir(io->self, c->directory.gens, tsr_name_format(&name, text), 0755);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot create 'gen/%s'", text);
    if (TSR_MUTANT(NO_PARENT_SYNC)) return TSR_SUCCESS;
    return tsr_disk_sync(ctx, c->directory.gens, "gen");
}

/* The number of a failed directory is not used again: a second sync would prove nothing. */
void tsr_save_make_ready(tsr_ctx *ctx, tsr_coordinator *c) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_ctx aside = tsr_ctx_fork(ctx);
    char text[TSR_NAME_TEXT_MAX];
    TSR_ASSERT(!c->ready && c->phase == TSR_PHASE_IDLE);
    uint64_t generation = c->next_generation++;
    const tsr_name name = directory_of(c, generation);
    if (make_directory(&aside, c, generation).code)
        io->unlink(io->self, c->directory.gens, tsr_name_format(&name, text), AT_REMOVEDIR);
    else
        c->ready = generation;
}

tsr_result tsr_coordinator_plan(tsr_ctx *ctx, tsr_coordinator *c, tsr_manifest *plan) {
    TSR_ASSERT(c->phase == TSR_PHASE_IDLE && !c->plan);
    size_t size = tsr_manifest_size(plan) + TSR_TOKEN_GROWTH_MAX;
    c->encoded = malloc(size);
    if (!c->encoded) FAIL(ctx, TSR_MEMORY, "no memory for a manifest of %zu bytes", size);
    c->layout = tsr_manifest_layout(plan, c->encoded);
    c->plan = plan;
    plan->token.epoch = c->epoch;
    tsr_save_make_ready(ctx, c);
    return TSR_SUCCESS;
}

tsr_result tsr_save_fail(tsr_ctx *ctx, tsr_coordinator *c, tsr_result result, bool unknown) {
    tsr_ctx aside = tsr_ctx_fork(ctx);
    const tsr_link subject = {.generation = c->plan->token.generation, .epoch = c->epoch};
    const char *text = ctx->error.text;
    c->fenced |= result.code == TSR_LOCKED;
    if (TSR_MUTANT(GENERATION_REUSED)) c->next_generation = subject.generation;
    c->outcome_unknown |= unknown;
    if (c->fenced) {
        tsr_event_more(&c->events, "fence", &subject, text, "\"highest\":%" PRIu64,
                       c->root_names.highest_epoch);
    } else if (unknown) {
        tsr_event(&c->events, "unknown", &subject, text);
    } else {
        /* This generation has failed and its space is freed. The reported error is the first one.
         */
        tsr_event_more(&c->events, "abort", &subject, text, "\"code\":%d,\"errno\":%d",
                       (int)result.code, ctx->error.native);
        const tsr_name name = directory_of(c, subject.generation);
        tsr_result removed =
            tsr_disk_remove_generation(&aside, c->directory.gens, &name, &c->segment_names);
        if (removed.code) tsr_log(&aside, TSR_LOG_WARNING, "%s", aside.error.text);
    }
    c->phase = c->fenced || c->outcome_unknown ? TSR_PHASE_STOPPED : TSR_PHASE_IDLE;
    if (!unknown)
        tsr_coordinator_tell(c, &(tsr_message){.kind = TSR_MESSAGE_ABORT,
                                               .subject = subject,
                                               .code = result.code,
                                               .native = (uint32_t)ctx->error.native,
                                               .text = text});
    return result;
}

tsr_result tsr_coordinator_save(tsr_ctx *ctx, tsr_coordinator *c, const tsr_position *position) {
    TSR_ASSERT(c->phase == TSR_PHASE_IDLE && c->plan && position->virtual_ranks &&
               position->seed <= UINT32_MAX);
    bool ready = c->ready;
    tsr_token *token = &c->plan->token;
    token->generation = ready ? c->ready : c->next_generation++;
    token->position = *position;
    tsr_best_link(token, &c->best);
    token->previous = c->previous_token;
    c->plan->previous = c->previous;
    c->ready = 0;
    tsr_result result = tsr_save_check_fence(ctx, c);
    if (!result.code && !ready) result = make_directory(ctx, c, token->generation);
    if (result.code) return tsr_save_fail(ctx, c, result, false);
    const tsr_message request = {.kind = TSR_MESSAGE_PREPARE,
                                 .subject = {.generation = token->generation, .epoch = c->epoch},
                                 .step = position->step,
                                 .layout = c->layout};
    tsr_event_more(&c->events, "prepare", &request.subject, NULL, "\"step\":%" PRIu64,
                   position->step);
    tsr_coordinator_ask(c, TSR_PHASE_PREPARING, &request, c->plan);
    return TSR_SUCCESS;
}

void tsr_save_note(tsr_coordinator *c, const tsr_message *m) {
    for (uint32_t i = 0; i < m->part.count; i++)
        for (size_t k = 0; k < TSR_DIGEST_BYTES; k++)
            c->plan->chunks[m->part.first + i].digest.bytes[k] =
                m->digests[(size_t)i * TSR_DIGEST_BYTES + k];
    tsr_event_more(&c->events, "prepared", &m->subject, NULL,
                   "\"rank\":%" PRIu32 ",\"bytes\":%" PRIu64, m->rank, m->bytes);
}

/* Marks that a manifest existed, in case it is ever missing. Nothing depends on the mark, so it is
 * not synced and a failure is harmless. */
static void mark_committed(tsr_ctx *ctx, const tsr_coordinator *c) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char text[2 * TSR_NAME_TEXT_MAX];
    const tsr_name name = directory_of(c, c->plan->token.generation);
    tsr_name_format(&name, text);
    strcat(text, "/COMMITTED");
    int fd = io->open(io->self, c->directory.gens, text, O_WRONLY | O_CREAT | O_NOFOLLOW, 0644);
    if (fd >= 0) io->close(io->self, fd);
}

tsr_result tsr_save_publish(tsr_ctx *ctx, tsr_coordinator *c) {
    const tsr_token *token = &c->plan->token;
    bool unknown = false;
    const tsr_name temp = tsr_coordinator_temp(c);
    const tsr_name name = {TSR_NAME_MANIFEST, c->epoch, token->generation, 0, 0};
    tsr_manifest_encode(c->plan, c->encoded);
    tsr_event_publish(&c->events, c->plan);
    tsr_result result = tsr_disk_publish(ctx, c->directory.root, &temp, &name, c->encoded,
                                         tsr_manifest_size(c->plan), &unknown);
    if (result.code) return tsr_save_fail(ctx, c, result, unknown);
    /* The manifest is durable; it is acknowledged only if this run has not been replaced in
     * between. */
    if (!TSR_MUTANT(NO_FENCE)) result = tsr_save_check_fence(ctx, c);
    if (result.code)
        return tsr_save_fail(ctx, c, result,
                             result.code != TSR_LOCKED && !TSR_MUTANT(FAILED_FENCE_IS_KNOWN));
    c->previous = tsr_manifest_link(c->plan);
    c->previous_token = c->plan->token_hash;
    c->committed = tsr_manifest_generation(c->plan);
    c->committed_count++;
    tsr_event(&c->events, "ack", &c->previous, NULL);
    tsr_coordinator_tell(c, &(tsr_message){.kind = TSR_MESSAGE_COMMITTED, .subject = c->previous});
    mark_committed(ctx, c);
    if (TSR_MUTANT(COLLECT_UNREAD)) return tsr_collect_read_back(ctx, c);
    c->examined = *c->plan;
    tsr_coordinator_ask(c, TSR_PHASE_READING_BACK,
                        &(tsr_message){.kind = TSR_MESSAGE_PROPOSE,
                                       .subject = c->previous,
                                       .purpose = TSR_PURPOSE_READ_BACK},
                        c->plan);
    return TSR_SUCCESS;
}
