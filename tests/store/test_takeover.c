/* SPDX-License-Identifier: Apache-2.0
 *
 * A run that is being replaced collects while its successor, or a reader, has listed the directory
 * and reads: at each operation of one process, the other acts once. Files that were collected this
 * way are not damage; files that are missing for other reasons are. Locks do not work here.
 */
#include "tests/store/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

/* The action of another process. */
typedef struct other {
    bench *b;
    const char *remove; /* removes this name of the root; NULL: see `collect` */
    bool collect;       /* collects generations 3 and 4, as a run does that keeps 5 and 6 */
} other;

static void remove_name(const tsr_io *io, const char *path, int flags) {
    io->unlink(io->self, TSR_IO_CWD, path, flags);
}

static void act(void *user) {
    const other *o = user;
    const tsr_io *io = o->b->ctx.io;
    char path[64];
    if (o->remove) remove_name(io, o->remove, 0);
    for (int i = 3; i <= 4 && o->collect; i++) {
        snprintf(path, sizeof path, "/s/MANIFEST.%d.1", i);
        remove_name(io, path, 0);
        snprintf(path, sizeof path, "/s/gen/1-%d/segment.0", i);
        remove_name(io, path, 0);
        snprintf(path, sizeof path, "/s/gen/1-%d/COMMITTED", i);
        remove_name(io, path, 0);
        snprintf(path, sizeof path, "/s/gen/1-%d", i);
        remove_name(io, path, AT_REMOVEDIR);
    }
}

static tsr_result open_keeping(bench *b, uint32_t keep) {
    tsr_store_options options = model_options("/s");
    options.keep = keep;
    close_store(b);
    b->log = (model_log){0};
    return tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery);
}

/* Makes generations 3 to 6 of epoch 1. */
static bench *with_four(void) {
    bench *b = begin();
    cr_assert_eq(open_keeping(b, 4).code, TSR_OK);
    must_save(b, 1, 6);
    close_store(b);
    cr_assert(exists(b, "/s/MANIFEST.3.1") && !exists(b, "/s/MANIFEST.2.1"));
    return b;
}

/* Makes a store with manifests of epoch 2 alone, and the BASE of epoch 1, which the next collection
 * removes. */
static bench *with_two_epochs(void) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    must_open(b);
    must_save(b, 3, 4);
    close_store(b);
    cr_assert(exists(b, "/s/BASE.1") && !exists(b, "/s/MANIFEST.2.1"));
    return b;
}

static void arm(bench *b, other *o, uint64_t at) {
    o->b = b;
    fault_io_arm(b->disk, &(fault_plan){.kind = FAULT_CALL, .at = at, .call = act, .call_user = o});
}

typedef struct counts {
    unsigned openings, damaged, newest, refused;
} counts;

/* Opens the store once for each operation of the opening. */
static counts open_beside(bench *(*start)(void), other *o, uint64_t newest) {
    counts n = {0, 0, 0, 0};
    for (bool fired = true; fired; n.openings++) {
        bench *b = start();
        arm(b, o, n.openings + 1);
        tsr_result result = open_keeping(b, 3);
        fired = fault_io_fired(b->disk);
        fault_io_arm(b->disk, NULL);
        if (result.code) {
            must_fail(b, result, TSR_IO, "'MANIFEST.6.1'");
            n.refused++;
            end(b);
            continue;
        }
        cr_assert(b->recovery.found);
        n.damaged += b->recovery.damaged_count;
        n.newest += b->recovery.generation.number == newest;
        cr_assert_eq(b->log.errors, b->recovery.damaged_count, "%s", b->log.last_error);
        end(b);
    }
    cr_assert_gt(n.openings, 40);
    return n;
}

Test(takeover, what_the_old_run_collects_is_no_damage) {
    const counts n = open_beside(with_four, &(other){.collect = true}, 6);
    cr_assert_eq(n.damaged, 0);
    cr_assert_eq(n.newest, n.openings);
}

Test(takeover, a_base_that_the_old_run_collects_is_no_damage) {
    const counts n = open_beside(with_two_epochs, &(other){.remove = "/s/BASE.1"}, 4);
    cr_assert_eq(n.damaged, 0);
    cr_assert_eq(n.newest, n.openings);
}

/* A collection never removes newer generations, nor a BASE whose epoch still has a manifest. If
 * these are missing, damage is reported. */
Test(takeover, what_collecting_leaves_is_missed) {
    counts n = open_beside(with_four, &(other){.remove = "/s/MANIFEST.6.1"}, 6);
    cr_assert_gt(n.damaged, 5);
    cr_assert_gt(n.refused, 0, "verified, and gone before it was synced");
    cr_assert_eq(n.damaged + n.newest + n.refused, n.openings);
    n = open_beside(with_two_epochs, &(other){.remove = "/s/BASE.2"}, 4);
    cr_assert_gt(n.damaged, 5);
    cr_assert_eq(n.newest, n.openings);
}

/* The BASE was removed before the opening, while its epoch has a manifest. */
Test(takeover, a_base_that_nobody_collects_is_missed) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    must_open(b);
    must_save(b, 3, 3);
    cr_assert(exists(b, "/s/MANIFEST.2.1") && fault_io_remove(b->disk, "/s/BASE.1"));
    must_open(b);
    cr_assert_eq(b->recovery.damaged_count, 1);
    cr_assert(strstr(b->log.last_error, "the base of epoch 1 is lost"), "%s", b->log.last_error);
    must_load(b, 3);
    end(b);
}

static void ignore_line(void *user, const char *line) { (void)user, (void)line; }

/* Runs fsck and ls on a store that a run is using. */
Test(takeover, readers_raise_no_alarm) {
    for (int data = 0; data <= 2; data++) {
        unsigned tried = 0;
        for (bool fired = true; fired; tried++) {
            bench *b = with_four();
            other o = {.collect = true};
            arm(b, &o, tried + 1);
            tsr_result result = data == 2
                                    ? tsr_store_fsck(&b->ctx, "/s", ignore_line, NULL)
                                    : tsr_store_list(&b->ctx, "/s", data == 1, ignore_line, NULL);
            fired = fault_io_fired(b->disk);
            cr_assert_eq(result.code, TSR_OK, "at %u: %s", tried + 1, b->ctx.error.text);
            end(b);
        }
        cr_assert_gt(tried, 15);
    }
}

/* The second listing fails: the cause is unknown, so no damage is reported. */
Test(takeover, a_directory_that_cannot_be_listed_again) {
    unsigned refused = 0;
    for (uint64_t at = 1; at <= 8; at++) {
        bench *b = with_two_epochs();
        size_t size;
        fault_io_bytes(b->disk, "/s/BASE.2", &size)[20] ^= 1;
        fault_io_arm(b->disk,
                     &(fault_plan){.kind = FAULT_ERROR, .error = EACCES, .at = at, .name = "list"});
        tsr_result result = reopen(b, TSR_RESUME_AUTO, 0);
        if (result.code) {
            cr_assert_eq(b->log.errors, 0);
            must_fail(b, result, TSR_IO, "cannot list the directory: Permission denied");
            refused++;
        }
        fault_io_arm(b->disk, NULL);
        end(b);
    }
    cr_assert_geq(refused, 3);
}

/* ---- the old run ---- */

typedef struct successor {
    bench *b;
    tsr_ctx ctx;
    model m;
} successor;

/* Runs a whole run, of a later epoch if the other run has published its own. */
static void run_after(void *user) {
    successor *s = user;
    tsr_store *store;
    tsr_recovery recovery;
    fault_io_drop_locks(s->b->disk);
    s->ctx = (tsr_ctx){.io = s->b->ctx.io};
    cr_assert_eq(model_open(&s->ctx, &store, &recovery).code, TSR_OK, "%s", s->ctx.error.text);
    cr_assert_eq(tsr_store_reserve(&s->ctx, store, s->m.tensors, MODEL_TENSORS).code, TSR_OK);
    for (uint64_t step = 7; step <= 9; step++)
        cr_assert(model_save(&s->ctx, store, &s->m, step), "%s", s->ctx.error.text);
    tsr_store_close(&s->ctx, store);
}

/* A run sleeps at any point of its opening while another run opens, saves, collects and ends. The
 * first run either continues but may not save, or gets an error that it was replaced or that its
 * chosen generation is gone. */
Test(takeover, a_run_that_sleeps_while_it_opens) {
    unsigned refused = 0, tried = 0;
    for (bool fired = true; fired; tried++) {
        bench *b = with_four();
        successor *s = calloc(1, sizeof *s);
        s->b = b;
        model_init(&s->m);
        fault_io_arm(
            b->disk,
            &(fault_plan){.kind = FAULT_CALL, .at = tried + 1, .call = run_after, .call_user = s});
        tsr_result result = open_keeping(b, 2);
        fired = fault_io_fired(b->disk);
        fault_io_arm(b->disk, NULL);
        cr_assert(!result.code || result.code == TSR_LOCKED || result.code == TSR_IO, "at %u: %s",
                  tried + 1, b->ctx.error.text);
        cr_assert_eq(b->log.errors, 0, "at %u: %s", tried + 1, b->log.last_error);
        if (result.code == TSR_LOCKED && strstr(b->ctx.error.text, "took the store over"))
            refused++;
        close_store(b);
        fault_io_drop_locks(b->disk);
        must_open(b);
        must_load(b, fired ? 9 : 6);
        end(b);
        free(s);
    }
    cr_assert_gt(tried, 40);
    cr_assert_gt(refused, 2, "%u", refused);
}

static void publish_epoch(void *user) {
    const tsr_io *io = ((bench *)user)->ctx.io;
    int fd = io->open(io->self, TSR_IO_CWD, "/s/EPOCH.9", O_WRONLY | O_CREAT, 0644);
    cr_assert_geq(fd, 0);
    io->close(io->self, fd);
}

/* The run is replaced after it acknowledged, while it reads back. */
Test(takeover, a_run_that_was_replaced_collects_nothing) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    fault_io_arm(
        b->disk,
        &(fault_plan){
            .kind = FAULT_CALL, .at = 1, .name = "pread", .call = publish_epoch, .call_user = b});
    must_save(b, 3, 3);
    tsr_store_wait(b->store);
    cr_assert(fault_io_fired(b->disk));
    cr_assert(!model_save(&b->ctx, b->store, &b->m, 4));
    cr_assert(tsr_store_wait(b->store).fenced);
    for (int i = 1; i <= 3; i++) {
        char path[64];
        snprintf(path, sizeof path, "/s/MANIFEST.%d.1", i);
        cr_assert(exists(b, path), "%s was removed", path);
    }
    end(b);
}

static void publish_epoch_and_damage(void *user) {
    publish_epoch(user);
    flip(user, "/s/gen/1-3/segment.0", 100);
}

/* A replaced run whose save cannot be read back reports no damage: another run may have removed
 * it. */
Test(takeover, a_run_that_was_replaced_tells_no_damage) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    fault_io_arm(b->disk, &(fault_plan){.kind = FAULT_CALL,
                                        .at = 1,
                                        .name = "pread",
                                        .call = publish_epoch_and_damage,
                                        .call_user = b});
    must_save(b, 3, 3);
    cr_assert(tsr_store_wait(b->store).fenced);
    cr_assert(fault_io_fired(b->disk));
    cr_assert_eq(b->log.errors, 0, "%s", b->log.last_error);
    cr_assert(exists(b, "/s/MANIFEST.1.1"));
    end(b);
}

/* The run is replaced before it looks for data to sweep. Data without a manifest may belong to its
 * successor, or to a manifest whose removal is not durable yet. */
static void take_over_with_data(void *user) {
    const bench *b = user;
    const tsr_io *io = b->ctx.io;
    const char *const names[] = {"/s/EPOCH.99", "/s/gen/1-99/segment.0"};
    cr_assert_eq(io->mkdir(io->self, TSR_IO_CWD, "/s/gen/1-99", 0755), 0);
    for (size_t i = 0; i < 2; i++) {
        int fd = io->open(io->self, TSR_IO_CWD, names[i], O_WRONLY | O_CREAT, 0644);
        cr_assert_geq(fd, 0);
        cr_assert_eq(io->pwrite(io->self, fd, names[i], 1, 0), 1);
        io->close(io->self, fd);
    }
}

Test(takeover, a_run_that_was_replaced_sweeps_nothing) {
    bool swept = true;
    for (uint64_t at = 1; swept; at++) {
        bench *b = with_four();
        /* Every link: the one of the second name, then the one of the BASE. */
        fault_io_arm(b->disk, &(fault_plan){.kind = FAULT_CALL,
                                            .at = at,
                                            .name = "link",
                                            .call = take_over_with_data,
                                            .call_user = b});
        TSR_DROP(open_keeping(b, 3), "the run may have been replaced");
        swept = fault_io_fired(b->disk);
        fault_io_arm(b->disk, NULL);
        cr_assert(!swept || exists(b, "/s/gen/1-99/segment.0"), "at link %u", (unsigned)at);
        end(b);
    }
}
