/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that die, hang, leave, call different operations, or are not ranks at all. One rank
 * misbehaves; the others record their errors and the times in memory that the test can read.
 */
#include "runtime/base/array.h"
#include "runtime/base/clock.h"
#include "tests/transport/ranks.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, BAD = 2, HEAP = 1 << 20, DEADLINE_MS = 300 };

/* Memory shared between the processes of a test. */
typedef struct board {
    _Atomic uint64_t when_ns; /* time of the event */
    struct {
        uint64_t seen_ns;
        int code;
        char text[TSR_ERROR_TEXT_MAX];
    } told[RANKS];
} board;

typedef struct scene {
    tsr_result (*bad)(tsr_ctx *ctx, tsr_transport *t, board *b);
    tsr_result (*good)(tsr_ctx *ctx, tsr_transport *t);
    board *board;
} scene;

static int play(tsr_ctx *ctx, tsr_transport *t, void *user) {
    scene *s = user;
    t->region = "train";
    t->step = 41;
    tsr_result result = tsr_barrier(ctx, t); /* if another rank fails first, this fails on ranks
                                              * that have not left it yet */
    t->step = 42;
    if (result.code == TSR_OK) result = t->rank == BAD ? s->bad(ctx, t, s->board) : s->good(ctx, t);
    s->board->told[t->rank].seen_ns = tsr_clock_ns();
    s->board->told[t->rank].code = (int)result.code;
    if (result.code)
        snprintf(s->board->told[t->rank].text, TSR_ERROR_TEXT_MAX, "%s", ctx->error.text);
    return 0;
}

static board *new_board(void) {
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(b, MAP_FAILED);
    return b;
}

static void run_scene_on(ranks_kind kind, scene *s, uint64_t deadline_ms) {
    ranks_options options = {kind, RANKS, HEAP, deadline_ms * 1000000u};
    ranks_run(&options, play, s);
}

static void run_scene(scene *s, uint64_t deadline_ms) {
    run_scene_on(RANKS_PROCESSES, s, deadline_ms);
}

/* Requires that all but the bad rank got the error, and that at least one error contains `text`. */
static void expect_told(const board *b, const char *text) {
    bool found = false;
    for (int r = 0; r < RANKS; r++) {
        if (r == BAD) continue;
        cr_expect_eq(b->told[r].code, TSR_RANK, "rank %d: %d %s", r, b->told[r].code,
                     b->told[r].text);
        found |= strstr(b->told[r].text, text) != NULL;
    }
    cr_expect(found, "nobody was told '%s', but: %s", text, b->told[0].text);
}

static tsr_result barrier(tsr_ctx *ctx, tsr_transport *t) { return tsr_barrier(ctx, t); }

static tsr_result die(tsr_ctx *ctx, tsr_transport *t, board *b) {
    (void)ctx;
    (void)t;
    usleep(30000);
    atomic_store(&b->when_ns, tsr_clock_ns());
    kill(getpid(), SIGKILL);
    return TSR_SUCCESS;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t see_death(ranks_kind kind, const char *text) {
    uint64_t last_ns = 0;
    scene s = {die, barrier, new_board()};
    run_scene_on(kind, &s, 20000);
    expect_told(s.board, text);
    for (int r = 0; r < RANKS; r++)
        if (r != BAD && s.board->told[r].seen_ns - s.board->when_ns > last_ns)
            last_ns = s.board->told[r].seen_ns - s.board->when_ns;
    return last_ns;
}

Test(failure, a_killed_rank_is_seen_within_100_ms) {
    enum { TIMES = 7 };
    uint64_t took[TIMES];
    for (int i = 0; i < TIMES; i++) {
        took[i] =
            see_death(RANKS_PROCESSES, "rank 2 died in region 'train' at step 41, after barrier 1");
    }
    qsort(took, TIMES, sizeof *took, compare);
    printf("the last of %d ranks learned of a death after %.1f ms (median of %d)\n", RANKS - 1,
           (double)took[TIMES / 2] * 1e-6, TIMES);
    cr_expect_lt(took[TIMES / 2], 100u * 1000000u);
}

/* Dies in the middle of a transfer that does not fit into its slots. */
static tsr_result die_sending(tsr_ctx *ctx, tsr_transport *t, board *b) {
    (void)ctx;
    (void)b;
    static unsigned char bytes[8 << 20];
    if (fork() == 0) { /* the child holds no lock of the rank */
        usleep(1000);
        kill(getppid(), SIGKILL);
        _exit(0);
    }
    tsr_transport_segment sends[RANKS], receives[RANKS];
    for (;;) {
        for (int r = 0; r < RANKS; r++) {
            sends[r] = (tsr_transport_segment){bytes, sizeof bytes, r != BAD};
            receives[r] = (tsr_transport_segment){0};
        }
        tsr_result result = tsr_all_to_all(ctx, t, sends, receives);
        if (result.code) return result;
    }
}

static tsr_result receive_much(tsr_ctx *ctx, tsr_transport *t) {
    static unsigned char bytes[8 << 20];
    tsr_transport_segment sends[RANKS] = {0}, receives[RANKS] = {0};
    receives[BAD] = (tsr_transport_segment){bytes, sizeof bytes, true};
    for (;;) {
        tsr_result result = tsr_all_to_all(ctx, t, sends, receives);
        if (result.code) return result;
    }
}

Test(failure, a_rank_killed_while_sending_is_seen) {
    scene s = {die_sending, receive_much, new_board()};
    run_scene(&s, 20000);
    expect_told(s.board, "rank 2 ");
}

static tsr_result stop(tsr_ctx *ctx, tsr_transport *t, board *b) {
    (void)b;
    usleep(4 * DEADLINE_MS * 1000);
    return tsr_barrier(ctx, t);
}

Test(failure, a_rank_that_hangs_is_named_at_the_deadline) {
    scene s = {stop, barrier, new_board()};
    uint64_t began = tsr_clock_ns();
    run_scene(&s, DEADLINE_MS);
    expect_told(s.board, "rank 2 hangs: it did not come to barrier 2 of region 'train' at step 42 "
                         "within 0.3 s; its last was barrier 1 of 'train' at step 41");
    for (int r = 0; r < RANKS; r++) {
        if (r == BAD) continue;
        cr_expect_geq(s.board->told[r].seen_ns - began, DEADLINE_MS * 1000000u, "a false alarm");
    }
    cr_expect_eq(s.board->told[BAD].code, TSR_RANK, "who hung is told when it comes back");
}

static tsr_result leave(tsr_ctx *ctx, tsr_transport *t, board *b) {
    (void)ctx;
    (void)t;
    (void)b;
    return TSR_SUCCESS;
}

Test(failure, a_rank_that_skips_and_leaves_is_named) {
    scene s = {leave, barrier, new_board()};
    run_scene(&s, 20000);
    expect_told(s.board, "rank 2 left in region 'train' at step 41");
}

static tsr_result give_up(tsr_ctx *ctx, tsr_transport *t, board *b) {
    (void)b;
    tsr_transport_fail(t, TSR_NONFINITE, "the loss is NaN at step 42");
    FAIL(ctx, TSR_NONFINITE, "the loss is NaN at step 42");
}

Test(failure, the_error_of_a_rank_reaches_all) {
    scene s = {give_up, barrier, new_board()};
    run_scene(&s, 20000);
    expect_told(s.board, "rank 2 failed: the loss is NaN at step 42");
}

static tsr_result gather_other(tsr_ctx *ctx, tsr_transport *t, board *b) {
    (void)b;
    unsigned char bytes[RANKS * 8] = {0};
    size_t first[RANKS + 1] = {0, 8, 16, 24, 32};
    return tsr_all_gather(ctx, t, bytes, first);
}

Test(failure, ranks_that_do_different_things_are_told_which) {
    scene s = {gather_other, barrier, new_board()};
    run_scene(&s, 20000);
    expect_told(s.board, "all_gather 2 of 'train' (step 42)");
}

static tsr_result gather_sizes(tsr_ctx *ctx, tsr_transport *t) {
    unsigned char bytes[RANKS * 8] = {0};
    size_t first[RANKS + 1] = {0, 8, 16, 20, 28};
    return tsr_all_gather(ctx, t, bytes, first);
}

Test(failure, sizes_that_differ_are_both_named) {
    scene s = {gather_other, gather_sizes, new_board()};
    run_scene(&s, 20000);
    expect_told(s.board, "all_gather 2 of region 'train': rank 2 sends 8 bytes in 0 rows");
}

/* ---- the same over TCP ---- */

Test(failure, over_tcp_a_killed_rank_is_seen_within_100_ms) {
    enum { TIMES = 7 };
    uint64_t took[TIMES];
    for (int i = 0; i < TIMES; i++)
        took[i] =
            see_death(RANKS_TCP, "rank 2 was lost before barrier 2 of region 'train' at step 42");
    qsort(took, TIMES, sizeof *took, compare);
    printf("over TCP: the last of %d ranks learned of a death after %.1f ms (median of %d)\n",
           RANKS - 1, (double)took[TIMES / 2] * 1e-6, TIMES);
    cr_expect_lt(took[TIMES / 2], 100u * 1000000u);
}

Test(failure, over_tcp) {
    static const struct {
        tsr_result (*bad)(tsr_ctx *ctx, tsr_transport *t, board *b);
        tsr_result (*good)(tsr_ctx *ctx, tsr_transport *t);
        uint64_t deadline_ms;
        const char *text;
    } rows[] = {
        {die_sending, receive_much, 20000, "rank 2 "},
        {stop, barrier, DEADLINE_MS,
         "rank 2 hangs: it did not come to barrier 2 of region 'train' at step 42 within 0.3 s"},
        {leave, barrier, 20000, "rank 2 was lost before barrier 2 of region 'train' at step 42"},
        {give_up, barrier, 20000, "rank 2 failed: the loss is NaN at step 42"},
        {gather_other, barrier, 20000, "rank 2 all_gather 2 (step 42)"},
        {gather_other, gather_sizes, 20000,
         "all_gather 2 of region 'train': rank 2 sends 8 bytes, rank "},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        scene s = {rows[i].bad, rows[i].good, new_board()};
        run_scene_on(RANKS_TCP, &s, rows[i].deadline_ms);
        expect_told(s.board, rows[i].text);
    }
}

/* ---- joining ---- */

static int create(uint32_t ranks) {
    tsr_ctx ctx = {0};
    tsr_shared_options options = {sizeof options, ranks, 1 << 16};
    int fd = -1;
    cr_assert_eq(tsr_shared_create(&ctx, &options, &fd).code, TSR_OK, "%s", ctx.error.text);
    return fd;
}

static tsr_code join(int fd, uint32_t rank, tsr_transport **out, char *text) {
    tsr_ctx ctx = {0};
    tsr_shared_join_options options = {.size_bytes = sizeof options, .fd = fd, .rank = rank};
    tsr_result result = tsr_shared_join(&ctx, &options, out);
    if (text) snprintf(text, TSR_ERROR_TEXT_MAX, "%s", ctx.error.text);
    return result.code;
}

Test(failure, a_rank_started_twice_is_refused) {
    char text[TSR_ERROR_TEXT_MAX];
    int fd = create(2);
    tsr_transport *first = NULL, *second = NULL;
    cr_assert_eq(join(fd, 1, &first, NULL), TSR_OK);
    cr_expect_eq(join(fd, 1, &second, text), TSR_LOCKED);
    cr_expect_str_eq(text, "rank 1 of 2 was started before, and runs");
    tsr_transport_close(first);
    cr_expect_eq(join(fd, 1, &second, text), TSR_LOCKED, "its rank in the run is taken");
    cr_expect_str_eq(text, "rank 1 of 2 was started before");
    cr_expect_eq(join(fd, 2, &second, text), TSR_USAGE);
    cr_expect_str_eq(text, "rank 2 does not exist; the run has 2 ranks");
    close(fd);
}

Test(failure, a_rank_that_never_starts_is_named) {
    tsr_ctx ctx = {0};
    int fd = create(2);
    tsr_transport *t = NULL;
    cr_assert_eq(join(fd, 0, &t, NULL), TSR_OK);
    t->deadline_ns = 50 * 1000000u;
    cr_expect_eq(tsr_barrier(&ctx, t).code, TSR_RANK);
    cr_expect_str_eq(ctx.error.text, "rank 1 did not start within 0.1 s");
    tsr_transport_close(t);
    close(fd);
}

Test(failure, memory_that_is_no_group_is_refused) {
    char text[TSR_ERROR_TEXT_MAX];
    tsr_transport *t = NULL;
    uint64_t word;
    int fd = memfd_create("test", 0);
    cr_expect_eq(join(fd, 0, &t, text), TSR_CORRUPT);
    cr_expect(strstr(text, "has 0 bytes"), "%s", text);
    cr_assert_eq(ftruncate(fd, 1 << 20), 0);
    cr_expect_eq(join(fd, 0, &t, text), TSR_CORRUPT);
    cr_expect(strstr(text, "begins with 0000000000000000"), "%s", text);
    close(fd);
    /* Changes each word of the header. */
    for (off_t at = 0; at < 48; at += 8) {
        fd = create(2);
        cr_assert_eq(pread(fd, &word, 8, at), 8);
        word ^= UINT64_C(1) << (at / 8 + 1);
        cr_assert_eq(pwrite(fd, &word, 8, at), 8);
        cr_expect_eq(join(fd, 0, &t, text), TSR_CORRUPT, "word at %" PRId64 ": %s", at, text);
        close(fd);
    }
    cr_expect_eq(join(-1, 0, &t, text), TSR_IO);
}

Test(failure, groups_that_cannot_be_are_refused) {
    tsr_ctx ctx = {0};
    int fd = -1;
    tsr_shared_options options = {sizeof options, 0, 0};
    cr_expect_eq(tsr_shared_create(&ctx, &options, &fd).code, TSR_USAGE);
    options.rank_count = TSR_TRANSPORT_RANKS_MAX + 1;
    cr_expect_eq(tsr_shared_create(&ctx, &options, &fd).code, TSR_USAGE);
    cr_expect_str_eq(ctx.error.text, "1025 ranks asked for; 1 to 1024 are supported");
    options = (tsr_shared_options){sizeof options, 1000, UINT64_C(1) << 60};
    cr_expect_eq(tsr_shared_create(&ctx, &options, &fd).code, TSR_MEMORY);
    options = (tsr_shared_options){sizeof options, 1024, UINT64_C(1) << 40};
    cr_expect_eq(tsr_shared_create(&ctx, &options, &fd).code, TSR_MEMORY);
    cr_expect_eq(fd, -1);
}

/* The values that a rank posts are checked before they are used. */
static int post_nonsense(tsr_ctx *ctx, tsr_transport *t, void *user) {
    tsr_rows rows[2] = {{0}}, expected[2] = {{0}}, theirs[2];
    (void)user;
    size_t size;
    unsigned char *heap = tsr_shared_get_heap(t, &size);
    size_t reach = t->rank ? SIZE_MAX / 4 : 64;
    rows[1 - t->rank] = (tsr_rows){heap, 64, reach, 3};
    expected[1 - t->rank] = (tsr_rows){NULL, 64, 0, 3};
    tsr_exposure exposure = {TSR_OPERATION_REDUCE_SCATTER, rows, expected};
    tsr_result result = tsr_transport_expose(ctx, t, &exposure, theirs);
    if (t->rank == 0)
        EXPECT(result.code == TSR_RANK && strstr(ctx->error.text, "rank 1 posted bytes"), "%s",
               ctx->error.text);
    return 0;
}

Test(failure, posts_outside_the_memory_are_refused) {
    ranks_options options = {RANKS_PROCESSES, 2, HEAP, UINT64_C(20) * 1000000000u};
    cr_expect_eq(ranks_run(&options, post_nonsense, NULL), 0);
}
