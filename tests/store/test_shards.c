/* SPDX-License-Identifier: Apache-2.0
 *
 * One store of several ranks, each a process. A state that any number of ranks saved is
 * recovered by any other number. A rank dies, or one of its file operations fails, at each
 * operation in turn.
 */
#include "runtime/base/array.h"
#include "runtime/base/io/io.h"
#include "runtime/store/reshard.h"
#include "runtime/transport/shared.h"
#include "tests/base/sweep.h"
#include "tests/store/model.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 8, BIG_ELEMENTS = 5 << 20, NEVER = -1 };

/* ---- an io table that counts changing operations ---- */

typedef enum fault { NONE, DIES, FAILS } fault;

static struct {
    tsr_io table;
    fault fault;
    int at, count;
    uint64_t written_bytes, read_bytes;
} faulty;

/* Returns true if this operation must fail. */
static bool strikes(void) {
    if (faulty.fault == NONE || faulty.count++ != faulty.at) return false;
    if (faulty.fault == DIES) raise(SIGKILL);
    return true;
}
static int io_open(void *self, int dir, const char *path, int flags, mode_t mode) {
    return strikes() ? -EIO : tsr_io_system()->open(self, dir, path, flags, mode);
}
static ssize_t io_pread(void *self, int fd, void *bytes, size_t size, off_t offset) {
    ssize_t got = tsr_io_system()->pread(self, fd, bytes, size, offset);
    if (got > 0) __atomic_add_fetch(&faulty.read_bytes, (uint64_t)got, __ATOMIC_RELAXED);
    return got;
}
static ssize_t io_pwrite(void *self, int fd, const void *bytes, size_t size, off_t offset) {
    if (strikes()) return -EIO;
    faulty.written_bytes += size;
    return tsr_io_system()->pwrite(self, fd, bytes, size, offset);
}
static int io_fsync(void *self, int fd) {
    return strikes() ? -EIO : tsr_io_system()->fsync(self, fd);
}
static int io_fallocate(void *self, int fd, off_t size) {
    return strikes() ? -ENOSPC : tsr_io_system()->fallocate(self, fd, size);
}
static int io_mkdir(void *self, int dir, const char *path, mode_t mode) {
    return strikes() ? -EIO : tsr_io_system()->mkdir(self, dir, path, mode);
}
static int io_link(void *self, int dir, const char *from, const char *to) {
    return strikes() ? -EIO : tsr_io_system()->link(self, dir, from, to);
}
static int io_unlink(void *self, int dir, const char *path, int flags) {
    return strikes() ? -EIO : tsr_io_system()->unlink(self, dir, path, flags);
}

static const tsr_io *faulty_io(fault kind, int at) {
    faulty.table = *tsr_io_system();
    faulty.table.open = io_open;
    faulty.table.pread = io_pread;
    faulty.table.pwrite = io_pwrite;
    faulty.table.fsync = io_fsync;
    faulty.table.fallocate = io_fallocate;
    faulty.table.mkdir = io_mkdir;
    faulty.table.link = io_link;
    faulty.table.unlink = io_unlink;
    faulty.fault = kind;
    faulty.at = at;
    return &faulty.table;
}

/* ---- a run ---- */

typedef struct report {
    uint64_t found_step, acknowledged_step; /* 0: none */
    uint64_t committed_count, failed_count;
    uint64_t written_bytes, read_bytes; /* until the state was loaded */
    uint64_t nonfinite_step, nonfinite_element;
    int operations;
    char error[256];
} report;

typedef struct job {
    const char *directory;
    uint32_t count;
    uint64_t step_count; /* number of saves after the recovered step */
    bool big;            /* also has a tensor of several chunks */
    uint32_t parts;      /* number of parts of all tensors but the weights; 0: no parts */
    uint64_t poisoned;   /* the last but one element is not finite at this step; 0: never */
    fault fault;
    uint32_t victim;
    int at;
    report *reports; /* shared, by rank */
    int codes[RANKS_MAX], signals[RANKS_MAX];
} job;

typedef struct state {
    model m;
    float *big;
    tsr_tensor tensors[MODEL_TENSORS + 1];
    size_t count;
    /* The tensors of this rank; whole tensors if there are no parts. */
    tsr_tensor shards[MODEL_TENSORS + 1];
    uint32_t parts[MODEL_TENSORS + 1];
    tsr_elements elements[MODEL_TENSORS + 1];
} state;

static void init_state(const job *j, state *s) {
    model_init(&s->m);
    memcpy(s->tensors, s->m.tensors, sizeof s->m.tensors);
    s->count = MODEL_TENSORS;
    if (!j->big) return;
    s->big = malloc(BIG_ELEMENTS * sizeof *s->big);
    s->tensors[s->count++] = (tsr_tensor){"v", TSR_DTYPE_F32, {1, {BIG_ELEMENTS}}, s->big};
}
/* The memory has exactly the size of the part, so that a sanitizer detects accesses beyond it. */
static void divide_state(const job *j, state *s, uint32_t rank) {
    for (size_t i = 0; i < s->count; i++) {
        uint64_t count = 0;
        cr_assert(tsr_shape_count(&s->tensors[i].shape, &count));
        s->parts[i] = strcmp(s->tensors[i].name, "w") == 0 ? 0 : j->parts;
        s->elements[i] = tsr_sharding_range(count, s->parts[i], rank, j->count);
        s->shards[i] = s->tensors[i];
        if (s->parts[i])
            s->shards[i].data = malloc(s->elements[i].count * tsr_dtype_size(s->shards[i].dtype));
    }
}
static size_t shard_bytes(const state *s, size_t i, size_t *out_offset) {
    size_t width = tsr_dtype_size(s->shards[i].dtype);
    *out_offset = (size_t)s->elements[i].first * width;
    return (size_t)s->elements[i].count * width;
}
static void fill_state(state *s, uint64_t step, bool poisoned) {
    model_fill(&s->m, step);
    for (size_t i = 0; s->big && i < BIG_ELEMENTS; i++) s->big[i] = (float)(step * 7 + i % 1000003);
    if (poisoned) s->big[BIG_ELEMENTS - 2] = INFINITY;
    size_t offset;
    for (size_t i = 0; i < s->count; i++) {
        size_t size = shard_bytes(s, i, &offset);
        if (s->parts[i] && size)
            memcpy(s->shards[i].data, (char *)s->tensors[i].data + offset, size);
    }
}
/* If a rank has parts, only these are compared. */
static void adopt_parts(state *s, uint64_t step) {
    state want = *s;
    if (s->big) want.big = malloc(BIG_ELEMENTS * sizeof *want.big);
    model_fill(&want.m, step);
    for (size_t i = 0; want.big && i < BIG_ELEMENTS; i++)
        want.big[i] = (float)(step * 7 + i % 1000003);
    const void *wanted[] = {want.m.weights, NULL, &want.m.scale, want.m.moments, want.big};
    void *mine[] = {s->m.weights, NULL, &s->m.scale, s->m.moments, s->big};
    size_t offset;
    for (size_t i = 0; i < s->count; i++) {
        uint64_t size = 0;
        cr_assert(tsr_shape_size(&s->tensors[i].shape, s->tensors[i].dtype, &size));
        if (!s->parts[i] || !size) continue;
        memcpy(mine[i], wanted[i], (size_t)size);
        size_t own = shard_bytes(s, i, &offset);
        if (own) memcpy((char *)mine[i] + offset, s->shards[i].data, own);
    }
    free(want.big);
}
static bool state_is(const state *s, uint64_t step) {
    bool same = model_is(&s->m, step);
    for (size_t i = 0; same && s->big && i < BIG_ELEMENTS; i++)
        same = s->big[i] == (float)(step * 7 + i % 1000003);
    return same;
}

static tsr_result save_all(tsr_ctx *ctx, const job *j, tsr_store *store, state *s, report *r) {
    for (uint64_t step = r->found_step + 1; step <= r->found_step + j->step_count; step++) {
        const tsr_position position = model_position(step);
        fill_state(s, step, step == j->poisoned);
        TRY(ctx, tsr_store_save(ctx, store, &position));
        tsr_save_status status = tsr_store_wait(store);
        if (status.lost) FAIL(ctx, TSR_RANK, "%s", status.lost);
        if (status.committed_count > r->committed_count) r->acknowledged_step = step;
        r->committed_count = status.committed_count;
        r->failed_count = status.failed_count;
        if (status.nonfinite.found) {
            r->nonfinite_step = status.nonfinite.step;
            r->nonfinite_element = status.nonfinite.element;
        }
        if (status.fenced || status.outcome_unknown) break;
    }
    return TSR_SUCCESS;
}

static tsr_result run(tsr_ctx *ctx, const job *j, tsr_transport *t, report *r) {
    state s = {0};
    tsr_store *store = NULL;
    tsr_recovery recovery;
    tsr_result result;
    init_state(j, &s);
    divide_state(j, &s, t->rank);
    tsr_store_options options = model_options(j->directory);
    options.transport = t;
    options.tensors = s.shards;
    options.finite = true;
    options.tensor_count = s.count;
    options.tensor_parts = s.parts;
    TRY_GOTO(ctx, result, tsr_store_open(ctx, &options, TSR_RESUME_AUTO, 0, &store, &recovery));
    if (recovery.found) {
        r->found_step = recovery.generation.position.step;
        TRY_GOTO(ctx, result, tsr_store_load(ctx, store, s.shards, s.count));
        r->read_bytes = faulty.read_bytes;
        adopt_parts(&s, r->found_step);
        if (!state_is(&s, r->found_step))
            FAIL_GOTO(ctx, result, TSR_INTERNAL,
                      "what was loaded is not the state of step %" PRIu64, r->found_step);
    }
    TRY_GOTO(ctx, result, tsr_store_reserve(ctx, store, s.shards, s.count));
    result = save_all(ctx, j, store, &s, r);
done:
    if (result.code) tsr_transport_fail(t, (tsr_code)result.code, ctx->error.text);
    tsr_ctx closing = tsr_ctx_fork(ctx);
    tsr_store_close(&closing, store);
    return result;
}

static void run_rank(const job *j, int fd, uint32_t rank) {
    bool strikes_here = j->fault != NONE && rank == j->victim;
    tsr_ctx ctx = {.io = faulty_io(strikes_here ? j->fault : FAILS, strikes_here ? j->at : NEVER)};
    tsr_transport *t = NULL;
    const tsr_shared_join_options options = {
        .size_bytes = sizeof options, .fd = fd, .rank = rank, .deadline_ns = UINT64_C(20000000000)};
    report *r = &j->reports[rank];
    tsr_result result = tsr_shared_join(&ctx, &options, &t);
    if (!result.code) result = run(&ctx, j, t, r);
    if (result.code) snprintf(r->error, sizeof r->error, "%.255s", ctx.error.text);
    r->written_bytes = faulty.written_bytes;
    r->operations = faulty.count;
    tsr_transport_close(t);
    _exit((int)result.code);
}

static void run_job(job *j) {
    pid_t pids[RANKS_MAX];
    tsr_ctx ctx = {0};
    int fd = -1, status;
    const tsr_shared_options shared = {.size_bytes = sizeof shared, .rank_count = j->count};
    cr_assert_eq(tsr_shared_create(&ctx, &shared, &fd).code, TSR_OK, "%s", ctx.error.text);
    memset(j->reports, 0, RANKS_MAX * sizeof *j->reports);
    fflush(NULL);
    for (uint32_t r = 0; r < j->count; r++) {
        pids[r] = fork();
        cr_assert(pids[r] >= 0);
        if (pids[r] == 0) run_rank(j, fd, r);
    }
    for (uint32_t r = 0; r < j->count; r++) {
        cr_assert_eq(waitpid(pids[r], &status, 0), pids[r]);
        j->signals[r] = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        j->codes[r] = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    close(fd);
}

/* ---- shared by all tests ---- */

typedef struct bench {
    char directory[64];
    report *reports;
} bench;

static bench begin(void) {
    bench b = {.directory = "/dev/shm/tessera-shards-XXXXXX"};
    if (!mkdtemp(b.directory)) {
        strcpy(b.directory, "/tmp/tessera-shards-XXXXXX");
        cr_assert(mkdtemp(b.directory));
    }
    b.reports = mmap(NULL, RANKS_MAX * sizeof *b.reports, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(b.reports, MAP_FAILED);
    return b;
}
static void clear_directory(const bench *b) {
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'/*", b->directory);
    cr_assert_eq(system(command), 0);
}
static void end(const bench *b) {
    clear_directory(b);
    rmdir(b->directory);
    munmap(b->reports, RANKS_MAX * sizeof *b->reports);
}
static job make_job(const bench *b, uint32_t count, uint64_t step_count) {
    return (job){
        .directory = b->directory, .count = count, .step_count = step_count, .reports = b->reports};
}
static void must_end_well(const job *j) {
    for (uint32_t r = 0; r < j->count; r++)
        cr_assert(j->codes[r] == 0, "rank %u of %u: code %d, signal %d: %s", r, j->count,
                  j->codes[r], j->signals[r], j->reports[r].error);
}
static void ignore_line(void *user, const char *line) {
    (void)user;
    (void)line;
}
static unsigned count_segments(const bench *b, uint64_t epoch, uint64_t generation) {
    char path[160];
    unsigned count = 0;
    snprintf(path, sizeof path, "%s/gen/%" PRIu64 "-%" PRIu64, b->directory, epoch, generation);
    DIR *dir = opendir(path);
    cr_assert(dir, "%s", path);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += strcmp(entry->d_name, "COMMITTED") != 0 && entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* ---- any number of ranks saves, any number recovers ---- */

/* All ranks together read every byte of the state once, and one manifest each. */
static void check_traffic(const job *j) {
    const uint64_t state_bytes = BIG_ELEMENTS * sizeof(float);
    uint64_t written = 0, most = 0, read = 0;
    for (uint32_t r = 0; r < j->count; r++) {
        const report *of = &j->reports[r];
        written += of->written_bytes;
        read += of->read_bytes;
        if (of->written_bytes > most) most = of->written_bytes;
    }
    cr_assert(written >= state_bytes && written < state_bytes + 65536);
    /* There are eight chunks: five of 20 MiB together, three small ones. A rank writes at most two
     * of the five. */
    if (j->count >= 4) cr_assert_lt(most, (2 * 4 << 20) + 65536, "%" PRIu64, most);
    if (j->reports[0].found_step)
        cr_assert(read >= state_bytes && read < state_bytes + j->count * 65536,
                  "%" PRIu64 " bytes read", read);
}

static void check_any(uint32_t parts_of_odd, uint32_t parts_of_even) {
    static const uint32_t counts[] = {3, 1, 8, 2, 4, 1, 2, 8, 3};
    bench b = begin();
    uint64_t step = 0;
    for (size_t i = 0; i < TSR_COUNT(counts); i++, step++) {
        job j = make_job(&b, counts[i], 1);
        j.big = true;
        j.parts = i % 2 ? parts_of_odd : parts_of_even;
        run_job(&j);
        must_end_well(&j);
        for (uint32_t r = 0; r < j.count; r++) {
            cr_assert_eq(b.reports[r].found_step, step);
            cr_assert_eq(b.reports[r].acknowledged_step, step + 1);
        }
        check_traffic(&j);
        cr_assert_eq(count_segments(&b, i + 1, i + 1), j.count);
    }
    tsr_ctx ctx = {0};
    cr_assert_eq(tsr_store_fsck(&ctx, b.directory, ignore_line, NULL).code, TSR_OK, "%s",
                 ctx.error.text);
    end(&b);
}

Test(shards, saved_by_any_recovered_by_any, .timeout = 60) { check_any(0, 0); }
Test(shards, saved_in_parts_recovered_in_others, .timeout = 60) { check_any(8, 13); }
Test(shards, saved_in_parts_recovered_whole, .timeout = 60) { check_any(0, 8); }
/* The value is in the part of one rank, and all ranks are told, so all stop in the same way. */
static void check_nonfinite(uint32_t parts) {
    for (uint32_t ranks = 2; ranks <= 8; ranks += 3) {
        bench b = begin();
        job j = make_job(&b, ranks, 3);
        j.big = true;
        j.parts = parts;
        j.poisoned = 2;
        run_job(&j);
        must_end_well(&j);
        for (uint32_t r = 0; r < j.count; r++) {
            const report *at = &b.reports[r];
            cr_assert(at->nonfinite_step == 2 && at->nonfinite_element == BIG_ELEMENTS - 2,
                      "rank %u of %u: step %" PRIu64 ", element %" PRIu64, r, ranks,
                      at->nonfinite_step, at->nonfinite_element);
            cr_assert(at->committed_count == 2 && at->failed_count == 0);
            cr_assert_eq(at->acknowledged_step, 3);
        }
        end(&b);
    }
}

Test(shards, not_finite_is_known_to_all) { check_nonfinite(0); }
Test(shards, not_finite_in_parts_is_known_to_all) { check_nonfinite(8); }

/* ---- a rank dies ---- */

/* A save that all ranks saw acknowledged is recovered completely, for any number of ranks. */
static void check_after(const bench *b, uint64_t acknowledged, uint32_t count) {
    job after = make_job(b, count, 1);
    after.parts = count % 3 ? 0 : 8;
    run_job(&after);
    must_end_well(&after);
    uint64_t found = b->reports[0].found_step;
    cr_assert(found == acknowledged || found == acknowledged + 1,
              "step %" PRIu64 " was acknowledged, %" PRIu64 " recovered", acknowledged, found);
    for (uint32_t r = 1; r < count; r++) cr_assert_eq(b->reports[r].found_step, found);
}

/* Adds a fault at operation `at` of the victim; the ranks have tensors in parts every other
 * time. */
static job struck(job j, fault how, uint32_t victim, int at) {
    j.fault = how;
    j.victim = victim;
    j.at = at;
    j.parts = at % 2 ? 5 : 0;
    return j;
}

/* A rank that waited for the victim names the work and the step: the state until it is loaded, then
 * a save of step 1 or 2. Returns true if it waited in a save. */
static bool names_save(const char *error) {
    const char *waits = strstr(error, " waits for it in ");
    if (!waits) return false;
    bool opening = strstr(waits, "of 'state', step 0");
    bool save = strstr(waits, "of 'save', step 1") || strstr(waits, "of 'save', step 2");
    cr_assert(opening || save, "neither the opening nor a save is named: %s", error);
    return save;
}

/* Operation `at` of the victim is its last one. Returns false if the victim did not reach it. */
static bool die_at(const bench *b, uint32_t count, uint32_t victim, int at, int *saves_named) {
    uint64_t acknowledged = 0;
    clear_directory(b);
    job j = struck(make_job(b, count, 2), DIES, victim, at);
    run_job(&j);
    if (!j.signals[victim]) {
        must_end_well(&j);
        return false;
    }
    for (uint32_t r = 0; r < count; r++) {
        bool told = j.codes[r] == TSR_RANK || j.codes[r] == 0 || r == victim;
        cr_assert(told, "rank %u: code %d: %s", r, j.codes[r], b->reports[r].error);
        if (r != victim && j.codes[r]) *saves_named += names_save(b->reports[r].error);
        if (b->reports[r].acknowledged_step > acknowledged)
            acknowledged = b->reports[r].acknowledged_step;
    }
    check_after(b, acknowledged, 1 + (uint32_t)at % 4);
    return true;
}

static void die_everywhere(uint32_t count, uint32_t victim, int at_least) {
    bench b = begin();
    int at = 0, saves_named = 0;
    while (die_at(&b, count, victim, at, &saves_named)) at += SWEEP_STEP(3);
    cr_assert_geq(at, at_least, "%d operations", at);
    cr_assert_gt(saves_named, 0, "no rank named a save");
    end(&b);
}

Test(shards, the_first_of_two_dies, .timeout = 120) { die_everywhere(2, 0, 40); }
Test(shards, the_second_of_two_dies, .timeout = 120) { die_everywhere(2, 1, 10); }
Test(shards, the_middle_of_three_dies, .timeout = 120) { die_everywhere(3, 1, 10); }

/* ---- a file operation fails ---- */

/* All ranks are told the same result for every save, and acknowledged saves are recovered. */
static bool fail_at(const bench *b, uint32_t count, uint32_t victim, int at) {
    clear_directory(b);
    job j = struck(make_job(b, count, 3), FAILS, victim, at);
    run_job(&j);
    uint64_t acknowledged = b->reports[0].acknowledged_step;
    bool struck = b->reports[victim].operations > at;
    bool opened = true; /* a failure during the opening ends the opening for all ranks */
    for (uint32_t r = 0; r < count; r++) opened &= j.codes[r] == 0;
    for (uint32_t r = 0; r < count; r++) {
        cr_assert_eq(j.signals[r], 0);
        cr_assert(opened || j.codes[r] != 0, "rank %u did not hear of it", r);
        if (!opened) continue;
        cr_assert_eq(b->reports[r].committed_count, b->reports[0].committed_count);
        cr_assert_eq(b->reports[r].failed_count, b->reports[0].failed_count);
        cr_assert_eq(b->reports[r].acknowledged_step, acknowledged);
    }
    if (struck) check_after(b, acknowledged, 1 + (uint32_t)at % 3);
    return struck;
}

static void fail_everywhere(uint32_t count, uint32_t victim) {
    bench b = begin();
    int at = 0;
    while (fail_at(&b, count, victim, at)) at += SWEEP_STEP(3);
    cr_assert_geq(at, 15, "%d operations", at);
    end(&b);
}

Test(shards, an_operation_of_the_first_fails, .timeout = 120) { fail_everywhere(2, 0); }
Test(shards, an_operation_of_the_second_fails, .timeout = 120) { fail_everywhere(2, 1); }
