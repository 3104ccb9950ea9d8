/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that a failed sync has forgotten: they are visible until power is cut, whatever is synced
 * later. A generation that a run resumes from gets a second name, from which a missing first name
 * is restored.
 */
#include "tests/store/fixture.h"

#include <errno.h>
#include <fcntl.h>

/* Lets sync `at` fail from now on; the data that it should have written never become durable. */
static void forget_sync(bench *b, uint64_t at) {
    fault_io_arm(b->disk,
                 &(fault_plan){.kind = FAULT_SYNC_DROPS, .error = EIO, .name = "fsync", .at = at});
}

/* Generation 2 is visible but forgotten, and no run has resumed from it. */
static bench *with_a_forgotten_name(void) {
    for (uint64_t at = 1; at <= 16; at++) {
        bench *b = begin();
        must_open(b);
        must_save(b, 1, 1);
        forget_sync(b, at);
        cr_assert(!model_save(&b->ctx, b->store, &b->m, 2) || !fault_io_fired(b->disk));
        fault_io_arm(b->disk, NULL);
        bool unknown = tsr_store_wait(b->store).outcome_unknown;
        close_store(b);
        if (unknown && exists(b, "/s/MANIFEST.2.1")) return b;
        end(b);
    }
    cr_assert(false, "the sync of a manifest's name was not met");
    return NULL;
}

static void cut_power(bench *b) {
    close_store(b);
    fault_io_crash(b->disk, FAULT_LOSE, 0);
}

Test(spare, what_was_forgotten_and_gone_on_from_is_there_after_a_power_cut) {
    bench *b = with_a_forgotten_name();
    for (unsigned run = 2; run <= 4; run++) {
        must_open(b);
        cr_assert_eq(b->recovery.damaged_count, 0);
        cr_assert_eq(b->recovery.uncommitted_count, 0);
        cr_assert_eq(b->log.errors, 0, "%s", b->log.last_error);
        cr_assert_eq(b->log.warnings, run == 3, "put back once, in run %u", run);
        must_load(b, 2);
        cut_power(b);
        cr_assert_eq(exists(b, "/s/MANIFEST.2.1"), run > 2, "run %u", run);
    }
    must_open(b);
    must_save(b, 3, 3);
    cr_assert(exists(b, "/s/MANIFEST.3.5"), "its number was not used again");
    end(b);
}

/* No run resumed from it, so it is not missed. */
Test(spare, what_was_forgotten_alone_is_gone) {
    bench *b = with_a_forgotten_name();
    cut_power(b);
    must_open(b);
    must_load(b, 1);
    cr_assert_eq(b->recovery.damaged_count, 0);
    cr_assert_eq(b->recovery.uncommitted_count, 1);
    end(b);
}

/* Fails at every operation of the opening that would restore the name. */
Test(spare, putting_back_may_fail) {
    static const fault_kind kinds[] = {FAULT_ERROR, FAULT_ERROR_AFTER, FAULT_CRASH_AFTER};
    for (size_t i = 0; i < 3; i++) {
        bench *b = with_a_forgotten_name();
        must_open(b);
        cut_power(b);
        fault_io_arm(b->disk,
                     &(fault_plan){.kind = kinds[i], .error = ENOSPC, .name = "link", .at = 1});
        tsr_result result = reopen(b, TSR_RESUME_AUTO, 0);
        must_fail(b, result, TSR_IO, "cannot put 'MANIFEST.2.1' back");
        fault_io_arm(b->disk, NULL);
        cut_power(b);
        must_open(b);
        cr_assert_eq(b->recovery.damaged_count, 0);
        must_load(b, 2);
        end(b);
    }
}

static void ignore_line(void *user, const char *line) { (void)user, (void)line; }

/* The listing after the name was restored fails: the opening fails, and the next one succeeds. */
Test(spare, listing_again_may_fail) {
    unsigned refused = 0;
    bool fired = true;
    for (uint64_t at = 1; fired; at++) {
        bench *b = with_a_forgotten_name();
        must_open(b);
        cut_power(b);
        fault_io_arm(b->disk,
                     &(fault_plan){.kind = FAULT_ERROR, .error = EMFILE, .name = "list", .at = at});
        tsr_result result = reopen(b, TSR_RESUME_AUTO, 0);
        fired = fault_io_fired(b->disk);
        refused += result.code == TSR_IO;
        fault_io_arm(b->disk, NULL);
        must_open(b);
        cr_assert_eq(b->recovery.damaged_count, 0);
        must_load(b, 2);
        end(b);
    }
    cr_assert_geq(refused, 4, "%u", refused);
}

/* The crash comes before the run published that it resumes from the generation. */
Test(spare, no_base_names_it_yet) {
    bench *b = with_a_forgotten_name();
    fault_io_arm(b->disk, &(fault_plan){.kind = FAULT_CRASH_BEFORE, .name = "link", .at = 2});
    cr_assert_neq(reopen(b, TSR_RESUME_AUTO, 0).code, TSR_OK);
    cr_assert(fault_io_fired(b->disk));
    cut_power(b);
    must_open(b);
    must_load(b, 2);
    cr_assert_eq(b->recovery.damaged_count, 0);
    end(b);
}

/* The same for a manifest that was deleted by hand. A reader changes nothing, and reports that it
 * is missing. */
Test(spare, a_deleted_manifest_is_put_back) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 3);
    must_open(b);
    close_store(b);
    cr_assert(fault_io_remove(b->disk, "/s/MANIFEST.3.1"));
    must_fail(b, tsr_store_fsck(&b->ctx, "/s", ignore_line, NULL), TSR_STATE, "damaged");
    cr_assert(!exists(b, "/s/MANIFEST.3.1"));
    must_open(b);
    must_load(b, 3);
    cr_assert_eq(b->recovery.damaged_count, 0);
    cr_assert_eq(b->log.warnings, 1);
    end(b);
}

/* The second name is a name of a different file: damage is reported, and an older generation is
 * resumed. */
Test(spare, another_file_of_that_name) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 3);
    must_open(b);
    close_store(b);
    const tsr_io *io = fault_io_table(b->disk);
    cr_assert(fault_io_remove(b->disk, "/s/MANIFEST.3.1") &&
              fault_io_remove(b->disk, "/s/SPARE.2"));
    cr_assert_eq(io->link(io->self, TSR_IO_CWD, "/s/MANIFEST.2.1", "/s/SPARE.2"), 0);
    must_open(b);
    cr_assert_eq(b->recovery.damaged_count, 1);
    must_load(b, 2);
    end(b);
}

/* The file is not a manifest: it is not restored, and the first name is reported missing. */
Test(spare, damaged_itself) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 3);
    must_open(b);
    close_store(b);
    const tsr_io *io = fault_io_table(b->disk);
    cr_assert(fault_io_remove(b->disk, "/s/MANIFEST.3.1") &&
              fault_io_remove(b->disk, "/s/SPARE.2"));
    cr_assert_eq(io->link(io->self, TSR_IO_CWD, "/s/BASE.1", "/s/SPARE.2"), 0);
    must_open(b);
    cr_assert(!exists(b, "/s/MANIFEST.3.1"));
    cr_assert_eq(b->recovery.damaged_count, 1);
    must_load(b, 2);
    end(b);
}

/* A collection removes the second names of older runs. */
Test(spare, older_ones_are_collected) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    cr_assert(!exists(b, "/s/SPARE.1"));
    must_open(b);
    must_open(b);
    cr_assert(exists(b, "/s/SPARE.2") && exists(b, "/s/SPARE.3"));
    must_save(b, 3, 5);
    cr_assert(!exists(b, "/s/SPARE.2") && exists(b, "/s/SPARE.3"));
    end(b);
}

/* ---- removed generations ---- */

/* During the third save sync `at` fails, and the data that it should have written are forgotten.
 * Returns true if the save is acknowledged and generation 1 is removed. */
static bool removes_and_forgets(bench *b, uint64_t at) {
    must_open(b);
    must_save(b, 1, 2);
    forget_sync(b, at);
    bool saved = model_save(&b->ctx, b->store, &b->m, 3);
    fault_io_arm(b->disk, NULL);
    return saved && !exists(b, "/s/MANIFEST.1.1");
}

/* Generation 1 was collected, and the sync of its removal failed. The next run saves up to `last`
 * before power is cut; from 6 on it also collects the generation that it resumed from. */
static bench *with_a_removal_undone(uint64_t last) {
    for (uint64_t at = 1; at <= 40; at++) {
        bench *b = begin();
        if (removes_and_forgets(b, at)) {
            must_open(b);
            must_save(b, 4, last);
            cut_power(b);
            if (exists(b, "/s/MANIFEST.1.1")) return b;
        }
        end(b);
    }
    cr_assert(false, "the sync of a removal was not met");
    return NULL;
}

/* Neither fsck nor a run reports damage; the run resumes from `last` and collects the generation
 * again. */
static void must_not_be_damage(bench *b, uint64_t last) {
    cr_assert_eq(tsr_store_fsck(&b->ctx, "/s", ignore_line, NULL).code, TSR_OK, "%s",
                 b->ctx.error.text);
    must_open(b);
    cr_assert_eq(b->recovery.damaged_count, 0, "%s", b->log.last_error);
    cr_assert_eq(b->log.errors, 0, "%s", b->log.last_error);
    must_load(b, last);
    must_save(b, last + 1, last + 2);
    cr_assert(!exists(b, "/s/MANIFEST.1.1"), "it is collected again");
}

/* A missing BASE and missing data of that generation are not damage: fsck, ls and a run report the
 * cause. */
Test(spare, what_was_removed_and_comes_back_is_no_damage) {
    bench *b = with_a_removal_undone(6);
    cr_assert(!exists(b, "/s/BASE.1") && !exists(b, "/s/gen/1-1/segment.0"));
    cr_assert_eq(tsr_store_list(&b->ctx, "/s", false, ignore_line, NULL).code, TSR_OK, "%s",
                 b->ctx.error.text);
    must_not_be_damage(b, 6);
    end(b);
}

/* The same, while the generation that the next run resumed from still exists. */
Test(spare, what_comes_back_beside_a_base_is_no_damage) {
    bench *b = with_a_removal_undone(4);
    cr_assert(exists(b, "/s/MANIFEST.3.1") && !exists(b, "/s/gen/1-1"));
    must_not_be_damage(b, 4);
    end(b);
}

/* The same for a generation that a run resumed from and collected itself; the next run swept its
 * data. */
Test(spare, what_a_run_went_on_from_comes_back) {
    unsigned met = 0;
    for (uint64_t at = 1; at <= 40; at++) {
        bench *b = begin();
        must_open(b);
        must_save(b, 1, 2);
        must_open(b);
        must_save(b, 3, 3);
        forget_sync(b, at);
        bool saved = model_save(&b->ctx, b->store, &b->m, 4);
        fault_io_arm(b->disk, NULL);
        if (saved && !exists(b, "/s/MANIFEST.2.1")) {
            must_open(b);
            must_save(b, 5, 5);
            cut_power(b);
            met += exists(b, "/s/MANIFEST.2.1") && exists(b, "/s/BASE.2");
            must_open(b);
            cr_assert_eq(b->recovery.damaged_count, 0, "%s", b->log.last_error);
            cr_assert_eq(b->log.errors, 0, "%s", b->log.last_error);
            must_load(b, 5);
        }
        end(b);
    }
    cr_assert_geq(met, 1);
}

/* A damaged generation that exists is reported, although newer ones exist. */
Test(spare, what_a_run_went_on_from_is_damaged) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    must_open(b);
    must_save(b, 3, 3);
    flip(b, "/s/gen/1-2/segment.0", 100);
    must_fail(b, tsr_store_fsck(&b->ctx, "/s", ignore_line, NULL), TSR_STATE,
              "1 committed record is damaged");
    end(b);
}

/* If all newer generations are damaged, the damage is not skipped silently: no good generation is
 * left. */
Test(spare, what_came_back_is_nothing_to_go_on_from) {
    bench *b = with_a_removal_undone(6);
    flip(b, "/s/gen/2-5/segment.0", 100);
    flip(b, "/s/gen/2-6/segment.0", 100);
    must_fail(b, reopen(b, TSR_RESUME_AUTO, 0), TSR_STATE,
              "there is no good generation: 2 committed records are damaged");
    end(b);
}

/* The run whose removal failed removes nothing more, so that a removed generation that reappears
 * still has its data. */
Test(spare, after_a_removal_that_may_come_undone_nothing_more_is_removed) {
    unsigned met = 0;
    for (uint64_t at = 1; at <= 40; at++) {
        bench *b = begin();
        if (removes_and_forgets(b, at)) {
            must_save(b, 4, 6);
            cut_power(b);
            met += exists(b, "/s/MANIFEST.1.1");
            cr_assert_eq(tsr_store_fsck(&b->ctx, "/s", ignore_line, NULL).code, TSR_OK, "%s",
                         b->ctx.error.text);
        }
        end(b);
    }
    cr_assert_geq(met, 1);
}

/* ---- directories ---- */

/* Every sync of the first opening fails in turn: the directory that the next opening finds may
 * never become durable. */
Test(spare, a_store_whose_making_was_not_synced) {
    bool fired = true;
    unsigned refused = 0;
    for (uint64_t at = 1; fired; at++) {
        bench *b = begin();
        forget_sync(b, at);
        refused += reopen(b, TSR_RESUME_AUTO, 0).code != TSR_OK;
        fired = fault_io_fired(b->disk);
        fault_io_arm(b->disk, NULL);
        must_open(b);
        must_save(b, 1, 1);
        cut_power(b);
        must_open(b);
        cr_assert(b->recovery.found, "after a failure of sync %u", (unsigned)at);
        must_load(b, 1);
        end(b);
    }
    cr_assert_geq(refused, 3, "%u", refused);
}
