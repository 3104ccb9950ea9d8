/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults that need special scenes: file systems that refuse O_DIRECT, a crash during the recovery
 * from a crash, a paused writer that wakes up. For single faults, pairs and crash states see
 * tests/store/proof.
 */
#include "runtime/base/array.h"
#include "tests/base/sweep.h"
#include "tests/store/fault_io.h"
#include "tests/store/model.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAVES = 2, MIXES = 6 };
#ifdef __SANITIZE_ADDRESS__
enum {
    SECOND_STEP = 8
}; /* takes four times as long: tries every eighth second crash, at different operations for each
    * first crash */
#else
enum { SECOND_STEP = 2 };
#endif

typedef struct outcome {
    uint64_t floor;     /* highest step that may not be lost */
    uint64_t attempted; /* highest step whose save was begun */
} outcome;

typedef struct where {
    const char *start;
    fault_plan plan;
    const char *operation;
    int crash;
    uint64_t seed;
} where;

static const char *describe(const where *w) {
    static char text[200];
    snprintf(text, sizeof text,
             "start '%s', fault %d (errno %d, part %zu%s) at %" PRIu64
             " (%s), crash %d, seed %" PRIu64,
             w->start, (int)w->plan.kind, w->plan.error, w->plan.part_bytes,
             w->plan.persistent ? ", persistent" : "", w->plan.at, w->operation, w->crash, w->seed);
    return text;
}

/* ---- one life of a process ---- */

static void run(fault_io *disk, outcome *out) {
    tsr_ctx ctx = {.io = fault_io_table(disk)};
    model *m = malloc(sizeof *m);
    tsr_store *store;
    tsr_recovery recovery;
    model_init(m);
    if (!model_open(&ctx, &store, &recovery).code) {
        uint64_t step = recovery.found ? recovery.generation.position.step : 0;
        cr_assert_geq(step, out->floor, "went back from step %" PRIu64 " to %" PRIu64, out->floor,
                      step);
        out->floor = step; /* it resumes from here */
        if (!tsr_store_reserve(&ctx, store, m->tensors, MODEL_TENSORS).code)
            for (uint64_t i = 1; i <= SAVES; i++) {
                if (step + i > out->attempted) out->attempted = step + i;
                if (model_save(&ctx, store, m, step + i)) out->floor = step + i;
            }
        tsr_store_close(&ctx, store);
    }
    free(m);
}

typedef struct fsck_counts {
    unsigned good, damaged, uncommitted;
} fsck_counts;

static void count_line(void *user, const char *line) {
    sscanf(line, "%u good, %u damaged, %u uncommitted", &((fsck_counts *)user)->good,
           &((fsck_counts *)user)->damaged, &((fsck_counts *)user)->uncommitted);
}

/* Recovers twice. If `clean`, nothing on the disk may look damaged. */
static void check_recovery(fault_io *disk, const outcome *out, unsigned good_min, bool clean,
                           const where *w) {
    model_log log = {0};
    tsr_ctx ctx = {.io = fault_io_table(disk), .log = model_log_add, .log_user = &log};
    model *m = malloc(sizeof *m);
    uint64_t steps[2] = {0, 0};
    fsck_counts counts = {0};
    if (good_min) {
        tsr_result result = tsr_store_fsck(&ctx, "/s", count_line, &counts);
        if (clean) cr_assert_eq(result.code, TSR_OK, "%s: fsck: %s", describe(w), ctx.error.text);
        cr_assert_geq(counts.good, good_min, "%s: %u good generations", describe(w), counts.good);
    }
    for (int i = 0; i < 2; i++) {
        tsr_store *store;
        tsr_recovery recovery;
        tsr_result result = model_open(&ctx, &store, &recovery);
        cr_assert_eq(result.code, TSR_OK, "%s: %s", describe(w), ctx.error.text);
        if (clean) cr_assert_eq(recovery.damaged_count, 0, "%s: %s", describe(w), log.last_error);
        if (recovery.found) {
            model_init(m);
            result = tsr_store_load(&ctx, store, m->tensors, MODEL_TENSORS);
            cr_assert_eq(result.code, TSR_OK, "%s: %s", describe(w), ctx.error.text);
            steps[i] = recovery.generation.position.step;
            cr_assert(model_is(m, steps[i]), "%s: not the bytes of step %" PRIu64, describe(w),
                      steps[i]);
        }
        tsr_store_close(&ctx, store);
        /* The generation that a run resumed from is permanent, regardless of the syncs before. */
        fault_io_crash(disk, i ? FAULT_KEEP : FAULT_LOSE, 0);
    }
    cr_assert_geq(steps[0], out->floor,
                  "%s: step %" PRIu64 " was acknowledged, %" PRIu64 " recovered", describe(w),
                  out->floor, steps[0]);
    cr_assert_leq(steps[0], out->attempted, "%s", describe(w));
    cr_assert_eq(steps[0], steps[1], "%s: recovered again", describe(w));
    free(m);
}

/* ---- starting points ---- */

typedef struct start {
    const char *name;
    fault_io *disk;
    outcome known;
    unsigned good;
} start;

static start start_empty(void) { return (start){.name = "empty", .disk = fault_io_create()}; }

static start start_settled(void) {
    start s = start_empty();
    s.name = "settled";
    run(s.disk, &s.known);
    run(s.disk, &s.known);
    fault_io_crash(s.disk, FAULT_LOSE, 0);
    cr_assert_eq(s.known.floor, 4);
    s.good = 2;
    return s;
}

/* ---- single faults ---- */

static void after_fault(const fault_io *disk, const outcome *out, unsigned good, where *w) {
    bool crashed = w->plan.kind == FAULT_CRASH_BEFORE || w->plan.kind == FAULT_CRASH_AFTER;
    for (int crash = FAULT_LOSE; crash <= FAULT_MIX; crash++)
        for (uint64_t seed = 1; seed <= (crash == FAULT_MIX ? (crashed ? MIXES : 2) : 1); seed++) {
            fault_io *later = fault_io_clone(disk);
            w->crash = crash;
            w->seed = seed * 1000003 + w->plan.at;
            fault_io_crash(later, (fault_crash)crash, w->seed);
            check_recovery(later, out, good, true, w);
            fault_io_destroy(later);
        }
}

static void every_operation(const start *from, const fault_plan *kind) {
    uint64_t n = 0;
    for (bool fired = true; fired;) {
        fault_io *disk = fault_io_clone(from->disk);
        outcome out = from->known;
        where w = {.start = from->name, .plan = *kind};
        w.plan.at = ++n;
        fault_io_arm(disk, &w.plan);
        run(disk, &out);
        fired =
            fault_io_fired(disk) || (kind->kind == FAULT_SHORT_WRITE && fault_io_count(disk) >= n);
        w.operation = fault_io_fired_name(disk);
        fault_io_arm(disk, NULL);
        after_fault(disk, &out, from->good, &w);
        fault_io_destroy(disk);
        cr_assert_lt(n, 2000, "endless");
    }
    cr_assert_gt(n, 50, "only %" PRIu64 " operations were tried", n);
}

/* ---- direct I/O ---- */

/* A file system that supports no direct reads and writes. Some refuse at open, others only at the
 * read or write. */
Test(store_faults, direct_refused) {
    const fault_direct answers[] = {FAULT_DIRECT_NOT_OPENED, FAULT_DIRECT_NOT_USED};
    for (size_t i = 0; i < 2; i++) {
        start from = start_empty();
        fault_io_set_direct(from.disk, answers[i]);
        run(from.disk, &from.known);
        cr_assert_eq(from.known.floor, SAVES, "a save failed");
        uint64_t tried = fault_io_direct_count(from.disk);
        cr_assert(answers[i] == FAULT_DIRECT_NOT_OPENED ? tried == 0 : tried > 0);
        every_operation(&from, &(fault_plan){.kind = FAULT_CRASH_AFTER});
        every_operation(&from, &(fault_plan){.kind = FAULT_SYNC_DROPS, .error = EIO});
        every_operation(&from, &(fault_plan){.kind = FAULT_SHORT_WRITE, .part_bytes = 511});
        fault_io_destroy(from.disk);
    }
}

/* Only EINVAL and EOPNOTSUPP mean that the page cache should be used. Whole blocks were written
 * directly. */
Test(store_faults, direct_errors_kill_the_save) {
    const int errors[] = {EINVAL, EOPNOTSUPP, EIO, ENOSPC, EDQUOT};
    for (size_t i = 0; i < TSR_COUNT(errors); i++) {
        start from = start_settled();
        cr_assert_gt(fault_io_direct_count(from.disk), 0);
        model *m = malloc(sizeof *m);
        tsr_ctx ctx = {.io = fault_io_table(from.disk)};
        tsr_store *store;
        tsr_recovery recovery;
        model_init(m);
        cr_assert_eq(model_open(&ctx, &store, &recovery).code, TSR_OK);
        cr_assert_eq(tsr_store_reserve(&ctx, store, m->tensors, MODEL_TENSORS).code, TSR_OK);
        fault_io_arm(
            from.disk,
            &(fault_plan){.kind = FAULT_ERROR, .error = errors[i], .at = 1, .name = "pwrite"});
        cr_assert_eq(model_save(&ctx, store, m, 5), i < 2, "error %d", errors[i]);
        cr_assert(fault_io_fired(from.disk));
        tsr_store_close(&ctx, store);
        free(m);
        fault_io_destroy(from.disk);
    }
}

/* ---- a crash during the recovery from a crash ---- */

static void crash_in_recovery(const fault_io *crashed, const outcome *known, unsigned good,
                              uint64_t seed) {
    bool fired = true;
    for (uint64_t m = 1 + seed % SECOND_STEP; fired; m += SECOND_STEP) {
        fault_io *disk = fault_io_clone(crashed);
        outcome out = *known;
        where w = {.start = "crashed",
                   .plan = {.kind = FAULT_CRASH_AFTER, .at = m},
                   .operation = "second crash",
                   .crash = m % 3 ? FAULT_MIX : FAULT_LOSE,
                   .seed = seed * 1000 + m};
        fault_io_arm(disk, &w.plan);
        run(disk, &out);
        fired = fault_io_fired(disk);
        fault_io_crash(disk, (fault_crash)w.crash, w.seed);
        check_recovery(disk, &out, good, true, &w);
        fault_io_destroy(disk);
    }
}

Test(store_faults, crash_twice) {
    start from = start_settled();
    bool fired = true;
    for (uint64_t n = 1; fired; n += SWEEP_STEP(3))
        for (int crash = FAULT_LOSE; crash <= FAULT_MIX; crash++) {
            fault_io *disk = fault_io_clone(from.disk);
            outcome out = from.known;
            fault_io_arm(disk, &(fault_plan){.kind = FAULT_CRASH_AFTER, .at = n});
            run(disk, &out);
            fired = fault_io_fired(disk);
            fault_io_crash(disk, (fault_crash)crash, n);
            crash_in_recovery(disk, &out, from.good, n);
            fault_io_destroy(disk);
        }
    fault_io_destroy(from.disk);
}

/* A run is killed between link() and the sync of its directory. Then power is cut while the next
 * run publishes that it resumes from there: its BASE may not outlive the manifest that it names. */
Test(store_faults, recovered_is_synced_before_base) {
    start from = start_settled();
    outcome out = from.known;
    fault_io_arm(from.disk, &(fault_plan){.kind = FAULT_CRASH_AFTER, .at = 3, .name = "link"});
    run(from.disk, &out);
    fault_io_crash(from.disk, FAULT_KEEP, 0);
    fault_io_arm(from.disk, &(fault_plan){.kind = FAULT_CRASH_AFTER, .at = 2, .name = "link"});
    run(from.disk, &out);
    for (uint64_t seed = 1; seed <= 32; seed++) {
        fault_io *disk = fault_io_clone(from.disk);
        where w = {.start = "killed", .operation = "link", .crash = FAULT_MIX, .seed = seed};
        fault_io_crash(disk, FAULT_MIX, seed);
        check_recovery(disk, &out, from.good, true, &w);
        fault_io_destroy(disk);
    }
    fault_io_destroy(from.disk);
}

/* ---- a paused writer wakes up ---- */

typedef struct usurper {
    fault_io *disk;
    uint64_t step; /* the step that it resumed from */
    tsr_ctx ctx;
    tsr_store *store;
} usurper;

static void take_over(void *user) {
    usurper *u = user;
    tsr_recovery recovery;
    fault_io_drop_locks(u->disk);
    u->ctx = (tsr_ctx){.io = fault_io_table(u->disk)};
    tsr_result result = model_open(&u->ctx, &u->store, &recovery);
    cr_assert_eq(result.code, TSR_OK, "%s", u->ctx.error.text);
    cr_assert(recovery.found);
    u->step = recovery.generation.position.step;
    /* The unfinished files of a run of a later epoch. */
    const tsr_io *io = u->ctx.io;
    cr_assert_eq(io->mkdir(io->self, TSR_IO_CWD, "/s/gen/99-99", 0755), 0);
    int fd = io->open(io->self, TSR_IO_CWD, "/s/TEMP.99.1.1", O_WRONLY | O_CREAT, 0644);
    cr_assert_geq(fd, 0);
    io->close(io->self, fd);
}

Test(store_faults, fenced_writer_never_commits) {
    start from = start_settled();
    unsigned taken = 0;
    for (uint64_t n = 1;; n++) {
        fault_io *disk = fault_io_clone(from.disk);
        usurper u = {.disk = disk};
        tsr_ctx ctx = {.io = fault_io_table(disk)};
        tsr_store *store;
        tsr_recovery recovery;
        model *m = malloc(sizeof *m);
        model_init(m);
        cr_assert_eq(model_open(&ctx, &store, &recovery).code, TSR_OK);
        cr_assert_eq(tsr_store_reserve(&ctx, store, m->tensors, MODEL_TENSORS).code, TSR_OK);
        fault_io_arm(
            disk, &(fault_plan){.kind = FAULT_CALL, .at = n, .call = take_over, .call_user = &u});
        uint64_t acknowledged = 4;
        for (uint64_t step = 5; step <= 8; step++)
            if (model_save(&ctx, store, m, step)) acknowledged = step;
        tsr_save_status status = tsr_store_wait(store);
        bool fired = fault_io_fired(disk);
        if (!fired) fault_io_arm(disk, NULL);
        if (fired) {
            taken++;
            cr_assert_leq(acknowledged, u.step,
                          "at %" PRIu64 ": step %" PRIu64 " acknowledged, %" PRIu64 " recovered", n,
                          acknowledged, u.step);
            if (acknowledged < 8) cr_assert_gt(status.failed_count, 0);
            cr_assert(!model_save(&ctx, store, m, 9));
            cr_assert(tsr_store_wait(store).fenced);
            /* The new run and its successors resume from u.step, whatever the old run left. */
            outcome out = {.floor = u.step, .attempted = u.step};
            where w = {.start = "taken over", .plan = {.at = n}, .operation = ""};
            tsr_store_close(&u.ctx, u.store);
            fault_io_arm(disk, NULL);
            const tsr_io *io = fault_io_table(disk);
            cr_assert_eq(io->mkdir(io->self, TSR_IO_CWD, "/s/gen/99-99", 0755), -EEXIST);
            cr_assert(fault_io_remove(disk, "/s/TEMP.99.1.1"));
            fault_io_drop_locks(disk);
            fault_io_crash(disk, FAULT_KEEP, 0);
            check_recovery(disk, &out, 0, true, &w);
        }
        tsr_store_close(&ctx, store);
        free(m);
        fault_io_destroy(disk);
        if (!fired) break;
    }
    cr_assert_gt(taken, 80);
    fault_io_destroy(from.disk);
}
