/* SPDX-License-Identifier: Apache-2.0
 *
 * A coordinator, or a rank, alone with messages made by hand: which messages it obeys, and when it
 * continues.
 */
#include "runtime/commit/coordinator.h"
#include "runtime/commit/rank.h"
#include "tests/store/fixture.h"

#include <fcntl.h>
#include <stdio.h>

enum { SENT_MAX = 16, SENT_BYTES = 2048, SUBJECT = 9 };

/* The messages that were sent and the callbacks' data. */
typedef struct wire {
    uint8_t bytes[SENT_MAX][SENT_BYTES];
    size_t sizes[SENT_MAX], count;
    unsigned hashed;
    tsr_manifest plan;
    uint8_t segment[8192];
} wire;

static uint64_t now_ns(void *self) {
    (void)self;
    return 1;
}
static void keep(void *self, uint32_t rank, const uint8_t *bytes, size_t size_bytes) {
    wire *w = self;
    (void)rank;
    cr_assert(w->count < SENT_MAX && size_bytes <= SENT_BYTES);
    memcpy(w->bytes[w->count], bytes, size_bytes);
    w->sizes[w->count++] = size_bytes;
}
static tsr_message last_sent(const wire *w, char *text) {
    tsr_message m;
    cr_assert_gt(w->count, 0);
    cr_assert(tsr_message_decode(w->bytes[w->count - 1], w->sizes[w->count - 1], text, &m));
    return m;
}

/* ---- a second run ---- */

Test(protocol, a_second_run_is_refused) {
    bench *b = begin();
    tsr_store *second = NULL;
    tsr_recovery recovery;
    must_open(b);
    must_fail(b, model_open(&b->ctx, &second, &recovery), TSR_LOCKED, "process");
    must_save(b, 1, 1);
    end(b);
}

/* ---- a rank ---- */

static uint64_t step(void *user) {
    (void)user;
    return 5;
}
static const uint8_t *segment(void *user, uint32_t index) {
    (void)index;
    return ((wire *)user)->segment;
}
static void hash_begin(void *user, tsr_part part) {
    (void)part;
    ((wire *)user)->hashed++;
}
static void hash_end(void *user) { (void)user; }
static tsr_result verify(tsr_ctx *ctx, void *user, const tsr_manifest *manifest, tsr_part part,
                         tsr_purpose purpose) {
    (void)user, (void)manifest, (void)part, (void)purpose;
    FAIL(ctx, TSR_STATE, "not asked for");
}

typedef struct rank_bench {
    fault_io *disk;
    tsr_ctx ctx;
    tsr_arena arena;
    wire *w;
    tsr_rank *rank;
    tsr_digest layout;
    int root, gens;
} rank_bench;

static void tell(rank_bench *b, tsr_message m) {
    uint8_t bytes[SENT_BYTES];
    if (!m.text) m.text = "";
    tsr_rank_receive(&b->ctx, b->rank, bytes, tsr_message_encode(&m, bytes));
}

/* Begins a rank that has agreed with the coordinator of epoch 5 that the store is empty. It may be
 * asked to save. */
static void begin_rank(rank_bench *b) {
    static const tsr_tensor tensors[] = {{"t", TSR_DTYPE_F32, {1, {100}}, NULL}};
    const tsr_tensor *sorted[1];
    *b = (rank_bench){.disk = fault_io_create(), .w = calloc(1, sizeof *b->w)};
    b->ctx = (tsr_ctx){.io = fault_io_table(b->disk)};
    const tsr_io *io = b->ctx.io;
    cr_assert_eq(io->mkdir(io->self, TSR_IO_CWD, "/gen", 0755), 0);
    for (unsigned epoch = 4; epoch <= 5; epoch++) {
        char path[32];
        snprintf(path, sizeof path, "/gen/%u-%d", epoch, SUBJECT);
        cr_assert_eq(io->mkdir(io->self, TSR_IO_CWD, path, 0755), 0);
    }
    b->root = io->open(io->self, TSR_IO_CWD, "/", O_RDONLY | O_DIRECTORY, 0);
    b->gens = io->open(io->self, TSR_IO_CWD, "/gen", O_RDONLY | O_DIRECTORY, 0);
    tsr_rank_options options = {.size_bytes = sizeof options,
                                .rank_count = 1,
                                .root = b->root,
                                .gens = b->gens,
                                .data = {b->w, step, segment, hash_begin, hash_end, verify},
                                .outside = {.self = b->w, .now_ns = now_ns, .send = keep}};
    cr_assert_eq(tsr_rank_create(&b->ctx, &options, &b->rank).code, TSR_OK);
    cr_assert_eq(tsr_manifest_plan(&b->ctx, &b->arena, tensors, 1,
                                   &(tsr_division){TSR_SEGMENT_BYTES_MAX, 1}, sorted, &b->w->plan)
                     .code,
                 TSR_OK);
    cr_assert_eq(tsr_rank_plan(&b->ctx, b->rank, &b->w->plan).code, TSR_OK);
    b->layout = tsr_manifest_layout(&b->w->plan,
                                    TSR_NEW(&b->arena, uint8_t, tsr_manifest_size(&b->w->plan)));
    tell(b, (tsr_message){.kind = TSR_MESSAGE_AGREE, .epoch = 5});
    cr_assert(b->rank->agreed);
    b->w->count = 0;
}
static void end_rank(rank_bench *b) {
    tsr_rank_destroy(b->rank);
    tsr_arena_finish(&b->arena);
    free(b->w);
    fault_io_destroy(b->disk);
}

static tsr_message prepare(const rank_bench *b, uint64_t epoch) {
    return (tsr_message){.kind = TSR_MESSAGE_PREPARE,
                         .epoch = epoch,
                         .subject = {.generation = SUBJECT, .epoch = epoch},
                         .step = 5,
                         .layout = b->layout};
}

Test(protocol, a_rank_answers_again_and_works_once) {
    rank_bench b;
    char text[TSR_MESSAGE_TEXT_MAX + 1];
    begin_rank(&b);
    tell(&b, prepare(&b, 5));
    cr_assert_eq(b.w->count, 1);
    cr_assert_eq(last_sent(b.w, text).kind, TSR_MESSAGE_PREPARED, "%s", text);
    tell(&b, prepare(&b, 5));
    cr_assert_eq(b.w->count, 2, "a request that comes again is answered again");
    cr_assert_eq(b.w->sizes[0], b.w->sizes[1]);
    cr_assert_eq(memcmp(b.w->bytes[0], b.w->bytes[1], b.w->sizes[0]), 0);
    cr_assert_eq(b.w->hashed, 1);
    end_rank(&b);
}

Test(protocol, a_rank_obeys_no_coordinator_that_was_replaced) {
    rank_bench b;
    begin_rank(&b);
    tell(&b, prepare(&b, 4));
    cr_assert_eq(b.w->count, 0);
    cr_assert_eq(b.w->hashed, 0);
    tell(&b, prepare(&b, 5));
    cr_assert_eq(b.w->count, 1);
    end_rank(&b);
}

/* A new coordinator: the rank has not agreed to anything yet, and saves nothing. */
Test(protocol, a_rank_saves_nothing_before_it_agreed) {
    rank_bench b;
    char text[TSR_MESSAGE_TEXT_MAX + 1];
    begin_rank(&b);
    tell(&b, prepare(&b, 6));
    const tsr_message answer = last_sent(b.w, text);
    cr_assert_eq(answer.kind, TSR_MESSAGE_ABORT);
    cr_assert_eq(answer.code, TSR_SAVE);
    cr_assert_str_eq(answer.text, "it has no state to save yet");
    cr_assert_eq(b.w->hashed, 0);
    end_rank(&b);
}

Test(protocol, a_rank_refuses_another_layout_and_step) {
    rank_bench b;
    char text[TSR_MESSAGE_TEXT_MAX + 1];
    begin_rank(&b);
    tsr_message other = prepare(&b, 5);
    other.layout.bytes[3] ^= 1;
    tell(&b, other);
    cr_assert_eq(last_sent(b.w, text).kind, TSR_MESSAGE_ABORT);
    cr_assert_str_eq(text, "its state has another layout than the coordinator's");
    other = prepare(&b, 5);
    other.subject.generation++;
    other.step = 6;
    tell(&b, other);
    cr_assert_eq(last_sent(b.w, text).kind, TSR_MESSAGE_ABORT);
    cr_assert_str_eq(text, "its state belongs to step 5; step 6 is to be saved");
    cr_assert_eq(b.w->hashed, 0);
    end_rank(&b);
}

static tsr_message propose(const tsr_digest *hash, uint64_t generation, tsr_purpose purpose,
                           uint32_t chunks) {
    return (tsr_message){.kind = TSR_MESSAGE_PROPOSE,
                         .epoch = 6,
                         .subject = {.generation = generation, .epoch = 5, .manifest_hash = *hash},
                         .purpose = purpose,
                         .part = {0, chunks}};
}

/* Invalid messages, messages to another rank, and messages that only ranks send. */
Test(protocol, a_rank_ignores_what_is_not_for_it) {
    rank_bench b;
    begin_rank(&b);
    uint8_t bytes[SENT_BYTES];
    tsr_message m = prepare(&b, 5);
    m.text = "";
    size_t size = tsr_message_encode(&m, bytes);
    tsr_rank_receive(&b.ctx, b.rank, bytes, size - 1);
    bytes[40] ^= 1;
    tsr_rank_receive(&b.ctx, b.rank, bytes, size);
    m.rank = 1;
    tell(&b, m);
    tell(&b, (tsr_message){.kind = TSR_MESSAGE_VERDICT, .epoch = 5, .subject = m.subject});
    const tsr_digest other = tsr_hash("x", 1);
    tell(&b, (tsr_message){.kind = TSR_MESSAGE_AGREE,
                           .epoch = 6,
                           .subject = {.generation = 1, .epoch = 1, .manifest_hash = other}});
    cr_assert(!b.rank->agreed, "it has verified nothing of that");
    cr_assert_eq(b.w->count, 0);
    cr_assert_eq(b.w->hashed, 0);
    end_rank(&b);
}

/* Candidates descend and purposes rise: overtaken requests are not processed any more. */
Test(protocol, a_rank_leaves_what_was_overtaken) {
    rank_bench b;
    char text[TSR_MESSAGE_TEXT_MAX + 1];
    const tsr_digest hash = tsr_hash("x", 1);
    begin_rank(&b);
    tell(&b, propose(&hash, 8, TSR_PURPOSE_RECOVER, 1));
    cr_assert_eq(b.w->count, 1);
    tsr_message m = last_sent(b.w, text);
    cr_assert_eq(m.verdict, TSR_VERDICT_DAMAGED);
    cr_assert(strstr(text, "cannot open 'MANIFEST.8.5'"), "%s", text);
    tell(&b, propose(&hash, 9, TSR_PURPOSE_RECOVER, 1));
    cr_assert_eq(b.w->count, 1, "a higher candidate came before");
    tell(&b, propose(&hash, 7, TSR_PURPOSE_COUNT, 1));
    cr_assert_eq(b.w->count, 2);
    tell(&b, propose(&hash, 6, TSR_PURPOSE_RECOVER, 1));
    cr_assert_eq(b.w->count, 2, "counting comes after recovering");
    cr_assert_eq(tsr_rank_plan(&b.ctx, b.rank, &b.w->plan).code, TSR_OK);
    tell(&b, propose(&hash, 7, TSR_PURPOSE_COUNT, 1));
    cr_assert_eq(b.w->count, 2, "the answer is gone, and the question with it");
    tell(&b, (tsr_message){.kind = TSR_MESSAGE_AGREE, .epoch = 6});
    tell(&b, (tsr_message){.kind = TSR_MESSAGE_AGREE, .epoch = 7});
    cr_assert(b.rank->agreed);
    unsigned count = (unsigned)b.w->count;
    m = propose(&hash, 8, TSR_PURPOSE_RECOVER, 1);
    m.epoch = 7;
    tell(&b, m);
    cr_assert_eq(b.w->count, count, "it has agreed already");
    end_rank(&b);
}

Test(protocol, a_rank_compares_the_manifest) {
    rank_bench b;
    char text[TSR_MESSAGE_TEXT_MAX + 1];
    begin_rank(&b);
    tsr_manifest *plan = &b.w->plan;
    const tsr_io *io = b.ctx.io;
    size_t size = tsr_manifest_size(plan);
    uint8_t *bytes = TSR_NEW(&b.arena, uint8_t, size);
    plan->token.generation = SUBJECT;
    plan->token.epoch = 5;
    plan->token.position.virtual_ranks = 1;
    tsr_manifest_encode(plan, bytes);
    int fd = io->open(io->self, TSR_IO_CWD, "/MANIFEST.9.5", O_WRONLY | O_CREAT, 0644);
    cr_assert_eq(io->pwrite(io->self, fd, bytes, size, 0), (ssize_t)size);
    io->close(io->self, fd);
    const tsr_digest other = tsr_hash("x", 1);
    static const char *const says[] = {
        "its manifest differs from the manifest that the coordinator read",
        "its manifest differs from the manifest that the coordinator read", "not asked for"};
    for (unsigned i = 0; i < 3; i++) {
        tsr_message m = propose(i ? &plan->hash : &other, SUBJECT, TSR_PURPOSE_RECOVER,
                                i == 1 ? plan->chunk_count + 1 : plan->chunk_count);
        m.epoch = 6 + i;
        tell(&b, m);
        m = last_sent(b.w, text);
        cr_assert_eq(m.verdict, TSR_VERDICT_DAMAGED);
        cr_assert_str_eq(text, says[i]);
    }
    end_rank(&b);
}

Test(protocol, a_rank_without_a_plan_saves_nothing) {
    rank_bench b;
    char text[TSR_MESSAGE_TEXT_MAX + 1];
    begin_rank(&b);
    b.rank->plan = NULL;
    tell(&b, prepare(&b, 5));
    cr_assert_eq(last_sent(b.w, text).kind, TSR_MESSAGE_ABORT);
    cr_assert_str_eq(text, "it has no state to save yet");
    end_rank(&b);
}

/* ---- a coordinator ---- */

static tsr_coordinator *open_coordinator(bench *b, wire *w, uint32_t rank_count) {
    tsr_coordinator *c = NULL;
    tsr_coordinator_options options = {.size_bytes = sizeof options,
                                       .directory = "/s",
                                       .rank_count = rank_count,
                                       .keep = 2,
                                       .outside = {.self = w, .now_ns = now_ns, .send = keep}};
    cr_assert_eq(tsr_coordinator_open(&b->ctx, &options, &c).code, TSR_OK, "%s", b->ctx.error.text);
    return c;
}

static void answer(bench *b, tsr_coordinator *c, tsr_message m) {
    uint8_t bytes[SENT_BYTES];
    m.text = "";
    cr_assert_eq(tsr_coordinator_receive(&b->ctx, c, bytes, tsr_message_encode(&m, bytes)).code,
                 TSR_OK, "%s", b->ctx.error.text);
}

/* Returns the reply of the rank that was asked last. */
static tsr_message verdict(const wire *w, tsr_verdict what) {
    char text[TSR_MESSAGE_TEXT_MAX + 1];
    tsr_message m = last_sent(w, text);
    cr_assert_eq(m.kind, TSR_MESSAGE_PROPOSE);
    m.kind = TSR_MESSAGE_VERDICT;
    m.verdict = what;
    return m;
}

Test(protocol, a_coordinator_takes_answers_to_itself_alone) {
    bench *b = begin();
    wire *w = calloc(1, sizeof *w);
    must_open(b);
    must_save(b, 1, 1);
    must_open(b);
    close_store(b);
    tsr_coordinator *c = open_coordinator(b, w, 1);
    cr_assert_eq(c->phase, TSR_PHASE_RECOVERING);
    const tsr_message good = verdict(w, TSR_VERDICT_GOOD);
    cr_assert_eq(good.epoch, 3);
    tsr_message wrong = good;
    wrong.epoch = 2;
    answer(b, c, wrong);
    wrong = good;
    wrong.rank = 1;
    answer(b, c, wrong);
    wrong = good;
    wrong.part.count = 0;
    answer(b, c, wrong);
    wrong = good;
    wrong.kind = TSR_MESSAGE_AGREE;
    wrong.part = (tsr_part){0, 0};
    answer(b, c, wrong);
    wrong = good;
    wrong.purpose = TSR_PURPOSE_COUNT;
    answer(b, c, wrong);
    wrong = good;
    wrong.subject.manifest_hash.bytes[0] ^= 1;
    answer(b, c, wrong);
    cr_assert_eq(c->phase, TSR_PHASE_RECOVERING);
    answer(b, c, good);
    cr_assert_neq(c->phase, TSR_PHASE_RECOVERING);
    tsr_coordinator_close(&b->ctx, c);
    free(w);
    end(b);
}

Test(protocol, a_coordinator_waits_for_every_verdict) {
    bench *b = begin();
    wire *w = calloc(1, sizeof *w);
    must_open(b);
    must_save(b, 1, 1);
    close_store(b);
    tsr_coordinator *c = open_coordinator(b, w, 2);
    const tsr_message good = verdict(w, TSR_VERDICT_GOOD);
    cr_assert_eq(good.rank, 1);
    answer(b, c, good);
    answer(b, c, good);
    cr_assert_eq(c->phase, TSR_PHASE_RECOVERING, "one rank of two has answered, twice");
    tsr_coordinator_close(&b->ctx, c);
    free(w);
    end(b);
}
