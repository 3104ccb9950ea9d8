/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: segments · replies · requests.
 */
#include "runtime/commit/rank.h"

#include "runtime/commit/directory.h"
#include "runtime/commit/mutants.h"
#include "runtime/state/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- segments ---- */

static tsr_result write_segment(tsr_ctx *ctx, const tsr_rank *rank, int dir, uint32_t segment) {
    const tsr_io *io = tsr_ctx_io(ctx);
    const tsr_rank_data *data = &rank->options.data;
    char name[TSR_NAME_TEXT_MAX];
    tsr_name_format(&(tsr_name){.kind = TSR_NAME_SEGMENT, .generation = segment}, name);
    int fd = io->open(io->self, dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot create '%s'", name);
    tsr_result result = TSR_SUCCESS;
    uint64_t size = rank->plan->segment_sizes[segment];
    int code = io->fallocate(io->self, fd, (off_t)size);
    if (code < 0 && code != -EOPNOTSUPP)
        result = tsr_fail_(ctx, TSR_IO, -code, __FILE__, __LINE__,
                           "cannot reserve %" PRIu64 " bytes for '%s'", size, name);
    if (!result.code)
        result = tsr_disk_write(ctx, dir, fd, name, data->segment(data->user, segment), size);
    if (!result.code && !TSR_MUTANT(NO_SEGMENT_SYNC)) result = tsr_disk_sync(ctx, fd, name);
    code = io->close(io->self, fd);
    if (!result.code && code < 0 && !TSR_MUTANT(CLOSE_IGNORED))
        FAIL_ERRNO(ctx, TSR_IO, -code, "cannot close '%s'", name);
    return result;
}

/* The directory is already durable; this makes its files durable. */
static tsr_result write_segments(tsr_ctx *ctx, tsr_rank *rank, const tsr_link *subject,
                                 tsr_part part) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_result result = TSR_SUCCESS;
    char name[TSR_NAME_TEXT_MAX];
    if (!part.count) return TSR_SUCCESS;
    tsr_name_format(&(tsr_name){TSR_NAME_GENERATION, subject->epoch, subject->generation, 0, 0},
                    name);
    int dir = io->open(io->self, rank->options.gens, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (dir < 0) FAIL_ERRNO(ctx, TSR_IO, -dir, "cannot open 'gen/%s'", name);
    uint32_t last = rank->plan->chunks[part.first + part.count - 1].segment;
    for (uint32_t i = rank->plan->chunks[part.first].segment; i <= last; i++) {
        TRY_GOTO(ctx, result, write_segment(ctx, rank, dir, i));
        tsr_event_more(&rank->events, "segment", subject, NULL,
                       "\"segment\":%" PRIu32 ",\"bytes\":%" PRIu64, i,
                       rank->plan->segment_sizes[i]);
    }
    if (!TSR_MUTANT(NO_DIRECTORY_SYNC)) result = tsr_disk_sync(ctx, dir, name);
done:
    io->close(io->self, dir);
    return result;
}

/* ---- replies ---- */

static void send_reply(const tsr_rank *rank) {
    const tsr_outside *outside = &rank->options.outside;
    outside->send(outside->self, rank->options.rank, rank->reply, rank->reply_size);
}

/* Answers `asked` with `m`, now and whenever the request is repeated. */
static void reply(tsr_rank *rank, const tsr_message *asked, tsr_message m) {
    m.rank = rank->options.rank;
    m.epoch = asked->epoch;
    m.subject = asked->subject;
    rank->answered = *asked;
    rank->reply_size = tsr_message_encode(&m, rank->reply);
    send_reply(rank);
}

/* Repeated, or overtaken by a later message: candidates have descending numbers, all others
 * ascending numbers. */
static bool is_old(const tsr_rank *rank, const tsr_message *m) {
    const tsr_message *last = &rank->answered;
    bool same = last->kind == m->kind && last->purpose == m->purpose &&
                last->subject.generation == m->subject.generation;
    if (same && rank->reply_size && !TSR_MUTANT(OBEYED_TWICE)) {
        send_reply(rank);
        return true;
    }
    if (m->kind == TSR_MESSAGE_PREPARE) return m->subject.generation <= rank->ended;
    if (m->purpose == TSR_PURPOSE_READ_BACK) return m->subject.generation < rank->ended;
    if (rank->agreed || m->purpose < last->purpose) return true;
    return last->kind == m->kind && m->subject.generation >= last->subject.generation;
}

/* ---- requests ---- */

static tsr_result check_prepare(tsr_ctx *ctx, const tsr_rank *rank, const tsr_message *m) {
    const tsr_rank_data *data = &rank->options.data;
    if (!rank->agreed || !rank->plan) FAIL(ctx, TSR_SAVE, "it has no state to save yet");
    if (!tsr_digest_equal(&m->layout, &rank->layout) && !TSR_MUTANT(LAYOUT_UNCHECKED))
        FAIL(ctx, TSR_SAVE, "its state has another layout than the coordinator's");
    uint64_t step = data->step(data->user);
    if (m->step != step && !TSR_MUTANT(STEP_UNCHECKED))
        FAIL(ctx, TSR_SAVE,
             "its state belongs to step %" PRIu64 "; step %" PRIu64 " is to be saved", step,
             m->step);
    return TSR_SUCCESS;
}

static void prepare(tsr_ctx *ctx, tsr_rank *rank, const tsr_message *m) {
    const tsr_rank_data *data = &rank->options.data;
    tsr_message answer = {.kind = TSR_MESSAGE_PREPARED, .layout = rank->layout, .text = ""};
    tsr_result result = check_prepare(ctx, rank, m);
    rank->ended = m->subject.generation;
    if (!result.code) {
        answer.part =
            tsr_part_of(rank->plan->chunk_count, rank->options.rank, rank->options.rank_count);
        data->hash_begin(data->user, answer.part);
        result = write_segments(ctx, rank, &m->subject, answer.part);
        data->hash_end(data->user);
    }
    if (result.code) {
        reply(rank, m,
              (tsr_message){.kind = TSR_MESSAGE_ABORT,
                            .code = result.code,
                            .native = (uint32_t)ctx->error.native,
                            .text = ctx->error.text});
        return;
    }
    for (uint32_t i = 0; i < answer.part.count; i++) {
        const tsr_chunk_row *chunk = &rank->plan->chunks[answer.part.first + i];
        memcpy(rank->digests + (size_t)i * TSR_DIGEST_BYTES, chunk->digest.bytes, TSR_DIGEST_BYTES);
        answer.bytes += chunk->size_bytes;
    }
    answer.digests = rank->digests;
    reply(rank, m, answer);
}

static tsr_result verify(tsr_ctx *ctx, const tsr_rank *rank, tsr_arena *arena, const tsr_message *m,
                         uint64_t *out_bytes) {
    const tsr_rank_options *o = &rank->options;
    const tsr_manifest *manifest = o->candidate;
    const tsr_name name = {TSR_NAME_MANIFEST, m->subject.epoch, m->subject.generation, 0, 0};
    tsr_manifest read;
    if (!manifest) {
        TRY(ctx, tsr_record_manifest(ctx, o->root, arena, &name, &read));
        manifest = &read;
    }
    if (!tsr_digest_equal(&manifest->hash, &m->subject.manifest_hash) ||
        (uint64_t)m->part.first + m->part.count > manifest->chunk_count)
        FAIL(ctx, TSR_STATE, "its manifest differs from the manifest that the coordinator read");
    *out_bytes = 0;
    for (uint32_t i = 0; i < m->part.count; i++)
        *out_bytes += manifest->chunks[m->part.first + i].size_bytes;
    return o->data.verify(ctx, o->data.user, manifest, m->part, m->purpose);
}

static void answer_proposal(tsr_ctx *ctx, tsr_rank *rank, const tsr_message *m) {
    static const char *const purposes[] = {"recover", "count", "read-back"};
    static const char *const verdicts[] = {"good", "damaged", "unknown"};
    tsr_arena arena = {0};
    tsr_message answer = {
        .kind = TSR_MESSAGE_VERDICT, .purpose = m->purpose, .part = m->part, .text = ""};
    tsr_result result = verify(ctx, rank, &arena, m, &answer.bytes);
    tsr_arena_finish(&arena);
    if (result.code) {
        answer.verdict = result.code == TSR_STATE ? TSR_VERDICT_DAMAGED : TSR_VERDICT_UNKNOWN;
        answer.code = result.code;
        answer.native = (uint32_t)ctx->error.native;
        answer.text = ctx->error.text;
    }
    if (m->purpose == TSR_PURPOSE_RECOVER) rank->proposed = m->subject;
    tsr_event_more(&rank->events, "verdict", &m->subject, NULL,
                   "\"purpose\":\"%s\",\"verdict\":\"%s\",\"first\":%" PRIu32
                   ",\"chunks\":%" PRIu32,
                   purposes[m->purpose], verdicts[answer.verdict], m->part.first, m->part.count);
    reply(rank, m, answer);
}

/* Answers with the same message, as often as it arrives. A rank does not obey if it has not
 * verified the generation. */
static void agree(tsr_rank *rank, const tsr_message *m) {
    uint8_t bytes[256];
    const tsr_outside *outside = &rank->options.outside;
    const tsr_link *expected = rank->agreed ? &rank->base : &rank->proposed;
    bool nothing = !rank->agreed && !m->subject.generation;
    if (!nothing && memcmp(&m->subject, expected, sizeof *expected) != 0) return;
    if (!rank->agreed) tsr_event(&rank->events, "agreed", &m->subject, NULL);
    rank->base = m->subject;
    rank->agreed = true;
    TSR_ASSERT(tsr_message_size(0, 0) <= sizeof bytes);
    outside->send(outside->self, rank->options.rank, bytes, tsr_message_encode(m, bytes));
}

void tsr_rank_receive(tsr_ctx *ctx, tsr_rank *rank, const uint8_t *bytes, size_t size_bytes) {
    char text[TSR_MESSAGE_TEXT_MAX + 1];
    tsr_message m;
    if (!tsr_message_decode(bytes, size_bytes, text, &m) || m.rank != rank->options.rank ||
        (m.epoch < rank->epoch && !TSR_MUTANT(OLD_EPOCH_OBEYED)))
        return;
    if (m.epoch > rank->epoch) {
        rank->epoch = rank->events.epoch = m.epoch;
        rank->agreed = false;
        rank->reply_size = 0;
        rank->answered = (tsr_message){0};
        rank->proposed = rank->base = (tsr_link){0};
        rank->ended = 0;
    }
    m.text = "";
    if (m.kind == TSR_MESSAGE_AGREE) {
        agree(rank, &m);
    } else if (m.kind == TSR_MESSAGE_COMMITTED || m.kind == TSR_MESSAGE_ABORT) {
        if (m.subject.generation > rank->ended) rank->ended = m.subject.generation;
        if (m.kind == TSR_MESSAGE_ABORT || m.subject.generation <= rank->committed.generation)
            return;
        rank->committed = m.subject;
        tsr_event(&rank->events, "committed", &rank->committed, NULL);
    } else if (m.kind == TSR_MESSAGE_PREPARE) {
        if (!is_old(rank, &m)) prepare(ctx, rank, &m);
    } else if (m.kind == TSR_MESSAGE_PROPOSE) {
        if (!is_old(rank, &m)) answer_proposal(ctx, rank, &m);
    }
}

/* ---- life ---- */

static tsr_result reserve_messages(tsr_ctx *ctx, tsr_rank *rank, uint32_t chunk_count) {
    free(rank->reply);
    free(rank->digests);
    rank->reply_size = 0;
    rank->reply = malloc(tsr_message_size_max(chunk_count));
    rank->digests = malloc((size_t)chunk_count * TSR_DIGEST_BYTES + 1);
    if (!rank->reply || !rank->digests) FAIL(ctx, TSR_MEMORY, "no memory for messages");
    return TSR_SUCCESS;
}

tsr_result tsr_rank_create(tsr_ctx *ctx, const tsr_rank_options *options, tsr_rank **out_rank) {
    TSR_ASSERT(options->size_bytes == sizeof *options && options->rank < options->rank_count);
    tsr_rank *rank = calloc(1, sizeof *rank);
    if (!rank) FAIL(ctx, TSR_MEMORY, "no memory for a rank");
    rank->options = *options;
    rank->events = (tsr_events){.self = options->outside.self,
                                .now_ns = options->outside.now_ns,
                                .line = options->outside.event,
                                .process_id = options->outside.process_id};
    snprintf(rank->events.who, sizeof rank->events.who, "rank %" PRIu32, options->rank);
    tsr_result result = reserve_messages(ctx, rank, 0);
    if (result.code)
        tsr_rank_destroy(rank);
    else
        *out_rank = rank;
    return result;
}

tsr_result tsr_rank_plan(tsr_ctx *ctx, tsr_rank *rank, tsr_manifest *plan) {
    uint8_t *scratch = malloc(tsr_manifest_size(plan));
    if (!scratch) FAIL(ctx, TSR_MEMORY, "no memory for a manifest");
    rank->layout = tsr_manifest_layout(plan, scratch);
    free(scratch);
    rank->plan = plan;
    return reserve_messages(
        ctx, rank,
        tsr_part_of(plan->chunk_count, rank->options.rank, rank->options.rank_count).count);
}

void tsr_rank_destroy(tsr_rank *rank) {
    if (!rank) return;
    free(rank->reply);
    free(rank->digests);
    free(rank);
}
