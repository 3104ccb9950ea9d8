/* SPDX-License-Identifier: Apache-2.0
 *
 * A coordinator and several ranks in one process: every rank writes its own segments and verifies
 * its own part, for any number of ranks that wrote the generation; messages are lost, repeated and
 * reordered; one rank fails. The ranks share one file system here, and each has the whole state.
 */
#include "runtime/base/array.h"
#include "runtime/commit/coordinator.h"
#include "runtime/commit/rank.h"
#include "runtime/store/read.h"
#include "tests/store/fault_io.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 8, TENSORS = 11, ELEMENTS = 1500, QUEUE_MAX = 256, SECOND = 1000000000 };

typedef struct cluster cluster;

typedef struct member {
    cluster *home;
    tsr_ctx ctx;
    tsr_rank *rank;
    tsr_reader *reader;
    tsr_arena arena;
    tsr_manifest plan;
    tsr_tensor tensors[TENSORS];
    float values[TENSORS][ELEMENTS];
    uint8_t *segments[TENSORS]; /* indexed by segment; only its own segments are filled */
    void *landing[TENSORS];
    float landed[TENSORS][ELEMENTS];
    uint64_t step;
    unsigned verified_chunks;
} member;

typedef struct message {
    uint32_t rank;
    bool to_rank;
    size_t size;
    uint8_t *bytes;
} message;

struct cluster {
    fault_io *disk;
    tsr_ctx ctx;
    uint32_t count;
    uint64_t now;
    tsr_coordinator *c;
    member *members;
    message queue[QUEUE_MAX];
    size_t queued;
    uint64_t dice;    /* 0: messages arrive once, in order */
    uint32_t mute;    /* messages of this rank are lost; UINT32_MAX: none */
    unsigned damages; /* logged errors */
    tsr_store_program program;
};

static const char *const names[TENSORS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"};

static unsigned roll(cluster *home, unsigned sides) {
    home->dice = home->dice * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(home->dice >> 33) % sides;
}

static uint64_t now_ns(void *self) { return ((const cluster *)self)->now; }
static uint64_t member_now_ns(void *self) { return ((const member *)self)->home->now; }

static void post(cluster *home, bool to_rank, uint32_t rank, const uint8_t *bytes, size_t size) {
    unsigned copies = 1;
    if (rank == home->mute) return;
    if (home->dice) copies = roll(home, 4) ? 1 + !roll(home, 5) : 0;
    while (copies-- && home->queued < QUEUE_MAX) {
        message m = {.rank = rank, .to_rank = to_rank, .size = size, .bytes = malloc(size)};
        memcpy(m.bytes, bytes, size);
        home->queue[home->queued++] = m;
    }
}
static void send_to_rank(void *self, uint32_t rank, const uint8_t *bytes, size_t size) {
    post(self, true, rank, bytes, size);
}
static void send_home(void *self, uint32_t rank, const uint8_t *bytes, size_t size) {
    post(((member *)self)->home, false, rank, bytes, size);
}

static void count_errors(void *user, tsr_log_level level, const char *text) {
    (void)text;
    if (level == TSR_LOG_ERROR) ((cluster *)user)->damages++;
}

/* ---- the data of a rank ---- */

static void fill(member *m, uint64_t step) {
    m->step = step;
    for (size_t i = 0; i < TENSORS; i++)
        for (size_t k = 0; k < ELEMENTS; k++)
            m->values[i][k] = (float)(step * 1000003 + i * 7919 + k);
}

static uint64_t step_of(void *user) { return ((const member *)user)->step; }

static const uint8_t *segment_of(void *user, uint32_t segment) {
    const member *m = user;
    cr_assert(m->segments[segment], "a segment of another rank is asked for");
    return m->segments[segment];
}

static void hash_begin(void *user, tsr_part part) {
    member *m = user;
    for (uint32_t i = part.first; i < part.first + part.count; i++) {
        tsr_chunk_row *chunk = &m->plan.chunks[i]; /* one chunk per tensor */
        uint8_t **segment = &m->segments[chunk->segment];
        if (!*segment) *segment = aligned_alloc(TSR_DIRECT_ALIGN, TENSORS * 8192);
        memcpy(*segment + chunk->offset, m->values[i], chunk->size_bytes);
        chunk->digest = tsr_hash_tree(m->values[i], chunk->size_bytes);
    }
}
static void hash_end(void *user) { (void)user; }

static tsr_result verify(tsr_ctx *ctx, void *user, const tsr_manifest *manifest, tsr_part part,
                         tsr_purpose purpose) {
    member *m = user;
    bool lands = purpose == TSR_PURPOSE_RECOVER;
    m->verified_chunks = part.count;
    return tsr_read_part(ctx, m->reader, m->home->c->directory.gens, manifest, part,
                         lands ? m->landing : NULL, !lands);
}

/* ---- a cluster ---- */

static void begin_member(cluster *home, uint32_t index) {
    member *m = &home->members[index];
    const tsr_tensor *sorted[TENSORS];
    m->home = home;
    m->ctx = (tsr_ctx){.io = fault_io_table(home->disk)};
    m->reader = tsr_reader_create();
    for (size_t i = 0; i < TENSORS; i++) {
        m->tensors[i] = (tsr_tensor){names[i], TSR_DTYPE_F32, {1, {ELEMENTS}}, m->values[i]};
        m->landing[i] = m->landed[i];
    }
    cr_assert_eq(tsr_manifest_plan(&m->ctx, &m->arena, m->tensors, TENSORS,
                                   &(tsr_division){TSR_SEGMENT_BYTES_MAX, home->count}, sorted,
                                   &m->plan)
                     .code,
                 TSR_OK);
    m->plan.token.bundle_hash = home->program.bundle_hash;
    m->plan.token.topology = "ranks=many";
    tsr_rank_options options = {
        .size_bytes = sizeof options,
        .rank = index,
        .rank_count = home->count,
        .root = home->c->directory.root,
        .gens = home->c->directory.gens,
        .data = {m, step_of, segment_of, hash_begin, hash_end, verify},
        .outside = {.self = m, .now_ns = member_now_ns, .send = send_home, .process_id = index}};
    cr_assert_eq(tsr_rank_create(&m->ctx, &options, &m->rank).code, TSR_OK);
    cr_assert_eq(tsr_rank_plan(&m->ctx, m->rank, &m->plan).code, TSR_OK);
}

static tsr_result begin(cluster *home, fault_io *disk, uint32_t count, uint64_t dice) {
    *home = (cluster){.disk = disk, .count = count, .dice = dice, .mute = UINT32_MAX, .now = 1};
    home->ctx = (tsr_ctx){.io = fault_io_table(disk), .log = count_errors, .log_user = home};
    home->members = calloc(count, sizeof *home->members);
    tsr_coordinator_options options = {
        .size_bytes = sizeof options,
        .directory = "/s",
        .rank_count = count,
        .keep = 2,
        .choice = {.program = &home->program},
        .resend_ns = SECOND,
        .deadline_ns = (uint64_t)100 * SECOND,
        .outside = {
            .self = home, .now_ns = now_ns, .send = send_to_rank, .process_id = 77, .nonce = 5}};
    tsr_result result = tsr_coordinator_open(&home->ctx, &options, &home->c);
    for (uint32_t i = 0; !result.code && i < count; i++) begin_member(home, i);
    return result;
}

static void end(cluster *home) {
    for (uint32_t i = 0; i < home->count; i++) {
        member *m = &home->members[i];
        tsr_rank_destroy(m->rank);
        tsr_reader_destroy(m->reader);
        tsr_arena_finish(&m->arena);
        for (size_t k = 0; k < TENSORS; k++) free(m->segments[k]);
    }
    tsr_coordinator_close(&home->ctx, home->c);
    while (home->queued) free(home->queue[--home->queued].bytes);
    free(home->members);
}

/* Delivers messages until the coordinator is idle or stopped and no message is in flight. */
static tsr_result deliver(cluster *home) {
    tsr_result first = TSR_SUCCESS;
    for (unsigned rounds = 0; rounds < 100000; rounds++) {
        bool asks = home->c->phase != TSR_PHASE_IDLE && home->c->phase != TSR_PHASE_STOPPED;
        tsr_result result = TSR_SUCCESS;
        if (!home->queued && !asks) return first;
        if (!home->queued) {
            home->now += SECOND;
            result = tsr_coordinator_tick(&home->ctx, home->c);
        } else {
            size_t at = home->dice ? roll(home, (unsigned)home->queued) : 0;
            message m = home->queue[at];
            memmove(home->queue + at, home->queue + at + 1, (--home->queued - at) * sizeof m);
            if (m.to_rank)
                tsr_rank_receive(&home->members[m.rank].ctx, home->members[m.rank].rank, m.bytes,
                                 m.size);
            else
                result = tsr_coordinator_receive(&home->ctx, home->c, m.bytes, m.size);
            free(m.bytes);
        }
        if (!first.code) first = result;
    }
    cr_assert(false, "the cluster comes to no end");
    return first;
}

static tsr_result save(cluster *home, uint64_t step) {
    if (!home->c->plan)
        cr_assert_eq(tsr_coordinator_plan(&home->ctx, home->c, &home->members[0].plan).code,
                     TSR_OK);
    for (uint32_t i = 0; i < home->count; i++) fill(&home->members[i], step);
    const tsr_position position = {.step = step, .virtual_ranks = 8};
    tsr_result result = tsr_coordinator_save(&home->ctx, home->c, &position);
    tsr_result delivered = deliver(home);
    return result.code ? result : delivered;
}

/* Every tensor of the resumed generation is in some rank's memory, and all ranks have agreed. */
static void must_have(cluster *home, uint64_t step) {
    cr_assert_eq(home->c->phase, TSR_PHASE_IDLE, "%s", home->ctx.error.text);
    cr_assert(home->c->recovery.found);
    cr_assert_eq(home->c->recovery.generation.position.step, step);
    for (uint32_t i = 0; i < home->count; i++) {
        member *m = &home->members[i];
        tsr_part part = tsr_part_of(TENSORS, i, home->count);
        cr_assert(m->rank->agreed);
        cr_assert_eq(m->rank->base.generation, home->c->recovery.generation.number);
        fill(m, step);
        for (uint32_t k = part.first; k < part.first + part.count; k++)
            cr_assert_eq(memcmp(m->landed[k], m->values[k], sizeof m->values[k]), 0,
                         "tensor %u of rank %u", k, i);
    }
}

static const uint32_t sizes[] = {1, 2, 3, 8};
enum { SIZES = TSR_COUNT(sizes) };

/* Segments of different writers do not mix, and together they contain the state. */
static void check_segments(const cluster *home) {
    const tsr_manifest *plan = &home->members[0].plan;
    uint64_t bytes = 0;
    cr_assert_eq(plan->segment_count, home->count);
    for (uint32_t i = 0; i < home->count; i++) {
        tsr_part part = tsr_part_of(TENSORS, i, home->count);
        char path[64];
        size_t size = 0;
        for (uint32_t k = part.first; k < part.first + part.count; k++)
            cr_assert_eq(plan->chunks[k].segment, i);
        snprintf(path, sizeof path, "/s/gen/1-2/segment.%u", i);
        cr_assert(fault_io_bytes(home->disk, path, &size), "%s", path);
        cr_assert_eq(size, plan->segment_sizes[i]);
        bytes += size;
    }
    cr_assert_eq(bytes, sizeof(float) * TENSORS * ELEMENTS);
}

Test(ranks, whatever_number_wrote_any_number_reads) {
    for (size_t w = 0; w < SIZES; w++) {
        fault_io *disk = fault_io_create();
        cluster home;
        cr_assert_eq(begin(&home, disk, sizes[w], 0).code, TSR_OK);
        cr_assert_eq(deliver(&home).code, TSR_OK);
        for (uint32_t i = 0; i < sizes[w]; i++) cr_assert(home.members[i].rank->agreed);
        cr_assert_eq(save(&home, 10).code, TSR_OK);
        cr_assert_eq(save(&home, 20).code, TSR_OK, "%s", home.ctx.error.text);
        cr_assert_eq(home.c->committed_count, 2);
        for (uint32_t i = 0; i < sizes[w]; i++)
            cr_assert_eq(home.members[i].rank->committed.generation, 2);
        tsr_digest state = tsr_state_hash(home.members[0].tensors, TENSORS);
        cr_assert(tsr_digest_equal(&state, &home.c->committed.state_hash));
        check_segments(&home);
        end(&home);
        for (size_t r = 0; r < SIZES; r++) {
            cr_assert_eq(begin(&home, disk, sizes[r], 0).code, TSR_OK);
            cr_assert_eq(deliver(&home).code, TSR_OK, "%s", home.ctx.error.text);
            must_have(&home, 20);
            unsigned chunks = 0;
            for (uint32_t i = 0; i < sizes[r]; i++) chunks += home.members[i].verified_chunks;
            cr_assert_eq(chunks, TENSORS, "ranks verify disjoint parts");
            end(&home);
        }
        fault_io_destroy(disk);
    }
}

Test(ranks, messages_are_lost_repeated_and_reordered) {
    for (uint64_t seed = 1; seed <= 150; seed++) {
        fault_io *disk = fault_io_create();
        cluster home;
        uint64_t step = 0;
        for (unsigned run = 0; run < 3; run++) {
            uint32_t count = sizes[(seed + run) % SIZES];
            cr_assert_eq(begin(&home, disk, count, seed * 3 + run).code, TSR_OK);
            cr_assert_eq(deliver(&home).code, TSR_OK, "%s", home.ctx.error.text);
            if (step) must_have(&home, step);
            for (unsigned i = 0; i < 3; i++) {
                uint64_t before = home.c->committed_count;
                if (save(&home, step + 1).code) {
                    cr_assert_eq(home.c->committed_count, before);
                    cr_assert_eq(home.c->phase, TSR_PHASE_IDLE);
                } else {
                    cr_assert_eq(home.c->committed_count, before + 1);
                    step++;
                }
            }
            end(&home);
        }
        cr_assert_eq(begin(&home, disk, 3, 0).code, TSR_OK);
        cr_assert_eq(deliver(&home).code, TSR_OK);
        if (step) must_have(&home, step);
        cr_assert_eq(home.damages, 0);
        end(&home);
        fault_io_destroy(disk);
    }
}

Test(ranks, one_that_fails_aborts_for_all) {
    fault_io *disk = fault_io_create();
    cluster home;
    cr_assert_eq(begin(&home, disk, 3, 0).code, TSR_OK);
    cr_assert_eq(deliver(&home).code, TSR_OK);
    cr_assert_eq(save(&home, 1).code, TSR_OK);
    /* Fails at the second rank's segment: each rank opens it once, then again for direct I/O. */
    fault_io_arm(disk,
                 &(fault_plan){.kind = FAULT_ERROR, .error = ENOSPC, .at = 2, .name = "fallocate"});
    cr_assert_eq(save(&home, 2).code, TSR_IO);
    cr_assert(strstr(home.ctx.error.text, "rank 1: cannot reserve"), "%s", home.ctx.error.text);
    cr_assert_eq(home.ctx.error.native, ENOSPC);
    cr_assert_eq(home.c->phase, TSR_PHASE_IDLE);
    fault_io_arm(disk, NULL);
    size_t size;
    cr_assert(!fault_io_bytes(disk, "/s/gen/1-2/segment.0", &size), "its bytes are given back");
    cr_assert_eq(save(&home, 3).code, TSR_OK, "%s", home.ctx.error.text);
    /* A rank whose step differs from the coordinator's is not saved. */
    for (uint32_t i = 0; i < 3; i++) fill(&home.members[i], 4 + (i == 2));
    cr_assert_eq(
        tsr_coordinator_save(&home.ctx, home.c, &(tsr_position){.step = 4, .virtual_ranks = 8})
            .code,
        TSR_OK);
    cr_assert_eq(deliver(&home).code, TSR_SAVE);
    cr_assert(strstr(home.ctx.error.text, "rank 2: its state belongs to step 5; step 4"), "%s",
              home.ctx.error.text);
    end(&home);
    fault_io_destroy(disk);
}

Test(ranks, one_that_is_silent_is_given_up) {
    fault_io *disk = fault_io_create();
    cluster home;
    cr_assert_eq(begin(&home, disk, 2, 0).code, TSR_OK);
    cr_assert_eq(deliver(&home).code, TSR_OK);
    cr_assert_eq(save(&home, 1).code, TSR_OK);
    home.mute = 1;
    cr_assert_eq(save(&home, 2).code, TSR_IO);
    cr_assert(strstr(home.ctx.error.text, "rank 1: no answer for 100.0 s to PREPARE"), "%s",
              home.ctx.error.text);
    cr_assert_eq(home.c->phase, TSR_PHASE_IDLE);
    home.mute = UINT32_MAX;
    cr_assert_eq(save(&home, 3).code, TSR_OK, "%s", home.ctx.error.text);
    end(&home);
    /* A rank is mute during the opening: the opening ends in bounded time, and nothing is lost. */
    cr_assert_eq(begin(&home, disk, 2, 0).code, TSR_OK);
    home.mute = 0;
    while (home.queued) free(home.queue[--home.queued].bytes);
    cr_assert_eq(deliver(&home).code, TSR_IO);
    cr_assert_eq(home.c->phase, TSR_PHASE_STOPPED);
    cr_assert_leq(home.now, (uint64_t)102 * SECOND);
    end(&home);
    cr_assert_eq(begin(&home, disk, 8, 0).code, TSR_OK);
    cr_assert_eq(deliver(&home).code, TSR_OK);
    must_have(&home, 3);
    end(&home);
    fault_io_destroy(disk);
}

Test(ranks, damage_in_any_part_is_found) {
    for (uint32_t rank = 0; rank < 3; rank++) {
        fault_io *disk = fault_io_create();
        cluster home;
        char path[64];
        size_t size;
        cr_assert_eq(begin(&home, disk, 3, 0).code, TSR_OK);
        cr_assert_eq(deliver(&home).code, TSR_OK);
        cr_assert_eq(save(&home, 1).code, TSR_OK);
        cr_assert_eq(save(&home, 2).code, TSR_OK);
        end(&home);
        snprintf(path, sizeof path, "/s/gen/1-2/segment.%u", rank);
        uint8_t *bytes = fault_io_bytes(disk, path, &size);
        bytes[size / 2] ^= 4;
        cr_assert_eq(begin(&home, disk, 2, 0).code, TSR_OK);
        cr_assert_eq(deliver(&home).code, TSR_OK);
        cr_assert_eq(home.damages, 1);
        cr_assert_eq(home.c->recovery.damaged_count, 1);
        must_have(&home, 1);
        end(&home);
        fault_io_destroy(disk);
    }
}

Test(ranks, a_clock_that_jumps_loses_nothing) {
    fault_io *disk = fault_io_create();
    cluster home;
    cr_assert_eq(begin(&home, disk, 2, 0).code, TSR_OK);
    home.now = UINT64_C(1) << 62;
    cr_assert_eq(deliver(&home).code, TSR_OK);
    cr_assert_eq(save(&home, 1).code, TSR_OK);
    for (uint32_t i = 0; i < 2; i++) fill(&home.members[i], 2);
    const tsr_position position = {.step = 2, .virtual_ranks = 8};
    cr_assert_eq(tsr_coordinator_save(&home.ctx, home.c, &position).code, TSR_OK);
    home.now = 5; /* the clock is set back: no rank is late */
    cr_assert_eq(tsr_coordinator_tick(&home.ctx, home.c).code, TSR_OK);
    cr_assert_eq(home.c->phase, TSR_PHASE_PREPARING);
    cr_assert_eq(deliver(&home).code, TSR_OK);
    cr_assert_eq(home.c->committed_count, 2);
    end(&home);
    /* The process id and the time of day repeat, as after a restart of the machine. */
    cr_assert_eq(begin(&home, disk, 2, 0).code, TSR_OK);
    cr_assert_eq(deliver(&home).code, TSR_OK, "%s", home.ctx.error.text);
    must_have(&home, 2);
    end(&home);
    fault_io_destroy(disk);
}
