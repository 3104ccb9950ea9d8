/* SPDX-License-Identifier: Apache-2.0
 *
 * Corners of the protocol that lives under faults do not reach: names and numbers at their limits,
 * foreign files, messages that come at the wrong time.
 */
#include "runtime/base/array.h"
#include "runtime/commit/coordinator.h"
#include "tests/store/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

enum { SENT_BYTES = 2048, SECOND = 1000000000 };

static void put_file(bench *b, const char *path, const char *text) {
    const tsr_io *io = b->ctx.io;
    int fd = io->open(io->self, TSR_IO_CWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    cr_assert_geq(fd, 0, "%s", path);
    size_t size = strlen(text);
    if (size) cr_assert_eq(io->pwrite(io->self, fd, text, size, 0), (ssize_t)size);
    io->close(io->self, fd);
}

/* ---- numbers ---- */

Test(corners, numbers_that_leave_no_next_one) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    close_store(b);
    put_file(b, "/s/MANIFEST.9223372036854775807.1", "");
    must_fail(b, reopen(b, TSR_RESUME_AUTO, 0), TSR_STATE,
              "generation 9223372036854775807 is out of range");
    cr_assert(fault_io_remove(b->disk, "/s/MANIFEST.9223372036854775807.1"));
    must_open(b);
    must_load(b, 2);
    close_store(b);
    put_file(b, "/s/EPOCH.9223372036854775807", "");
    must_fail(b, reopen(b, TSR_RESUME_AUTO, 0), TSR_STATE,
              "epoch 9223372036854775808 is out of range");
    end(b);
}

/* A manifest that is valid, but has the name of another generation or of another epoch. */
Test(corners, manifest_under_another_name) {
    const char *const names[] = {"/s/MANIFEST.3.1", "/s/MANIFEST.2.2"};
    for (size_t i = 0; i < 2; i++) {
        bench *b = begin();
        must_open(b);
        must_save(b, 1, 2);
        close_store(b);
        cr_assert_eq(b->ctx.io->rename(b->ctx.io->self, TSR_IO_CWD, "/s/MANIFEST.2.1", names[i]),
                     0);
        must_open(b);
        cr_assert_geq(b->recovery.damaged_count, 1);
        must_load(b, 1);
        end(b);
    }
}

/* ---- foreign files ---- */

/* A foreign file keeps the directory of a generation: this logs a warning, and saving continues. */
Test(corners, stray_files_stay) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    put_file(b, "/s/gen/1-1/notes.txt", "mine");
    put_file(b, "/s/gen/1-1/EPOCH.7", "");
    put_file(b, "/s/gen/EPOCH.7", "");
    cr_assert_eq(b->ctx.io->mkdir(b->ctx.io->self, TSR_IO_CWD, "/s/gen/99-1", 0755), 0);
    put_file(b, "/s/notes.txt", "mine");
    put_file(b, "/s/MANIFEST.x", "mine");
    put_file(b, "/s/TEMP.9.1.1", "");
    must_save(b, 3, 4);
    cr_assert(b->log.warnings > 0);
    cr_assert(exists(b, "/s/gen/1-1/notes.txt") && exists(b, "/s/notes.txt"));
    cr_assert(!exists(b, "/s/gen/1-2/segment.0"), "it does not keep what comes after it");
    cr_assert(exists(b, "/s/gen/1-1/EPOCH.7") && exists(b, "/s/gen/EPOCH.7"));
    cr_assert(exists(b, "/s/TEMP.9.1.1"), "a later run publishes it");
    cr_assert_eq(b->ctx.io->mkdir(b->ctx.io->self, TSR_IO_CWD, "/s/gen/99-1", 0755), -EEXIST,
                 "what a later run writes stays");
    must_open(b);
    must_load(b, 4);
    cr_assert_eq(b->recovery.damaged_count, 0);
    end(b);
}

static void ignore_line(void *user, const char *line) {
    (void)user;
    (void)line;
}

static void open_keeping(bench *b, uint32_t keep) {
    tsr_store_options options = model_options("/s");
    options.keep = keep;
    close_store(b);
    cr_assert_eq(
        tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery).code, TSR_OK,
        "%s", b->ctx.error.text);
}

/* Makes five generations and keeps all. */
static bench *begin_many(void) {
    bench *b = begin();
    open_keeping(b, 8);
    must_save(b, 1, 5);
    close_store(b);
    return b;
}

/* A manifest that no run wrote, of an epoch above all others. The generations below it may have
 * been replaced, so none is resumed by default. A generation that is requested by its number is
 * resumed if it verifies. */
Test(corners, a_stray_manifest_hides_nothing_that_is_asked_for) {
    static const char *const strays[] = {"/s/MANIFEST.1.3", "/s/MANIFEST.3.9"};
    for (size_t i = 0; i < 2; i++) {
        bench *b = begin_many();
        put_file(b, strays[i], i ? "garbage" : "");
        if (i == 0) {
            must_fail(b, reopen(b, TSR_RESUME_AUTO, 0), TSR_STATE,
                      "fsck lists the remaining records");
            must_fail(b, reopen(b, TSR_RESUME_NEVER, 0), TSR_STATE, "a fresh start was requested");
        }
        must_fail(b, reopen(b, TSR_RESUME_EXACT, 8), TSR_STATE, "generation 8 cannot be resumed");
        cr_assert_eq(reopen(b, TSR_RESUME_EXACT, 3).code, TSR_OK, "%s", b->ctx.error.text);
        cr_assert_gt(b->log.warnings, 0, "it is told");
        must_load(b, 3);
        must_open(b);
        must_load(b, 3); /* the newest run resumed from it */
        must_save(b, 4, 5);
        must_open(b);
        must_load(b, 5);
        cr_assert_eq(b->recovery.damaged_count, 0);
        end(b);
    }
}

/* Nothing is damaged: a later run resumed from an older generation. */
Test(corners, what_was_replaced_is_used_when_asked_for) {
    bench *b = begin_many();
    cr_assert_eq(reopen(b, TSR_RESUME_EXACT, 2).code, TSR_OK, "%s", b->ctx.error.text);
    must_open(b);
    must_load(b, 2);
    cr_assert_eq(reopen(b, TSR_RESUME_EXACT, 4).code, TSR_OK, "%s", b->ctx.error.text);
    cr_assert_gt(b->log.warnings, 0, "it is told");
    must_load(b, 4);
    end(b);
}

/* The data of a requested generation are verified like any other, and a newer format is not
 * damage. */
Test(corners, what_is_asked_for_must_verify) {
    bench *b = begin_many();
    size_t size = 0;
    put_file(b, "/s/MANIFEST.1.3", "");
    flip(b, "/s/gen/1-3/segment.0", 9);
    must_fail(b, reopen(b, TSR_RESUME_EXACT, 3), TSR_STATE, "cannot be resumed");
    cr_assert(strstr(b->log.last_error, "generation 3 of epoch 1 is damaged"), "%s",
              b->log.last_error);
    flip(b, "/s/MANIFEST.2.1", 100);
    must_fail(b, reopen(b, TSR_RESUME_EXACT, 2), TSR_STATE, "cannot be resumed");
    uint8_t *bytes = fault_io_bytes(b->disk, "/s/MANIFEST.4.1", &size);
    bytes[8] = 99;
    tsr_digest hash = tsr_hash(bytes, size - TSR_DIGEST_BYTES);
    memcpy(bytes + size - TSR_DIGEST_BYTES, hash.bytes, TSR_DIGEST_BYTES);
    must_fail(b, reopen(b, TSR_RESUME_EXACT, 4), TSR_VERSION, "version 99");
    end(b);
}

/* Each open fails once while the generation is searched. An error that says nothing about the data
 * ends the opening, and the next opening finds the generation. */
Test(corners, looking_for_what_is_asked_for_may_fail) {
    bench *b = begin_many();
    unsigned failed = 0;
    tsr_code code = TSR_IO;
    put_file(b, "/s/MANIFEST.1.3", "");
    for (uint64_t at = 1; code != TSR_OK; at++) {
        fault_io_arm(b->disk,
                     &(fault_plan){.kind = FAULT_ERROR, .error = EMFILE, .at = at, .name = "open"});
        code = reopen(b, TSR_RESUME_EXACT, 3).code;
        fault_io_arm(b->disk, NULL);
        failed += code != TSR_OK;
        cr_assert_lt(at, 100);
        cr_assert(code == TSR_OK || code == TSR_IO, "open %u: %s", (unsigned)at, b->ctx.error.text);
    }
    cr_assert_gt(failed, 5);
    must_load(b, 3);
    end(b);
}

/* An intermediate run that saved nothing leaves a BASE without a manifest, above all manifests. */
Test(corners, base_above_all_manifests) {
    for (int stray = 0; stray <= 1; stray++) {
        bench *b = begin_many();
        must_open(b);
        close_store(b);
        if (stray) put_file(b, "/s/COMMITTED", ""); /* listed after all manifests */
        cr_assert_eq(tsr_store_prune(&b->ctx, "/s", 2, false, ignore_line, NULL).code, TSR_OK, "%s",
                     b->ctx.error.text);
        cr_assert(!exists(b, "/s/MANIFEST.3.1") && exists(b, "/s/MANIFEST.4.1"));
        cr_assert(!exists(b, "/s/BASE.2"));
        cr_assert_eq(exists(b, "/s/COMMITTED"), stray != 0);
        must_open(b);
        must_load(b, 5);
        cr_assert_eq(b->recovery.damaged_count, 0);
        end(b);
    }
}

/* One of the names that did not fit may be a manifest of the BASE's epoch, so the BASE stays. */
Test(corners, base_stays_where_names_are_missed) {
    bench *b = begin();
    char path[64];
    must_open(b);
    must_save(b, 1, 2);
    must_open(b);
    must_save(b, 3, 4);
    cr_assert(exists(b, "/s/BASE.1") && !exists(b, "/s/MANIFEST.2.1"));
    for (unsigned i = 0; i <= TSR_SCRATCH_NAMES; i++) {
        snprintf(path, sizeof path, "/s/TEMP.99.1.%u", i);
        put_file(b, path, "");
    }
    must_save(b, 5, 6);
    cr_assert(exists(b, "/s/BASE.1"));
    for (unsigned i = 0; i <= TSR_SCRATCH_NAMES; i++) {
        snprintf(path, sizeof path, "/s/TEMP.99.1.%u", i);
        cr_assert(fault_io_remove(b->disk, path));
    }
    must_save(b, 7, 7);
    cr_assert(!exists(b, "/s/BASE.1"));
    end(b);
}

/* ---- requested generations that do not exist ---- */

Test(corners, a_generation_of_an_empty_store) {
    bench *b = begin();
    must_fail(b, reopen(b, TSR_RESUME_EXACT, 7), TSR_STATE,
              "there is no generation 7; there are: none");
    end(b);
}

Test(corners, a_generation_that_is_not_among_many) {
    bench *b = begin();
    open_keeping(b, 80);
    must_save(b, 1, 10);
    must_fail(b, reopen(b, TSR_RESUME_EXACT, 999), TSR_STATE,
              "there is no generation 999; there are: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10");
    open_keeping(b, 80);
    must_save(b, 11, 80);
    must_fail(b, reopen(b, TSR_RESUME_EXACT, 999), TSR_STATE,
              "there is no generation 999; there are: 71, 72, 73, 74, 75, 76, 77, 78, 79, 80 and "
              "70 older ones");
    end(b);
}

/* Two runs have used the same generation number. The base of the later run describes the earlier
 * run's generation, not its own generation of that number. */
Test(corners, the_same_number_of_two_runs) {
    bench *b = begin();
    const tsr_link other = {.generation = 2, .epoch = 1, .manifest_hash = tsr_hash("x", 1)};
    size_t size;
    must_open(b);
    must_save(b, 1, 2);
    close_store(b);
    uint8_t *bytes = fault_io_bytes(b->disk, "/s/MANIFEST.2.1", &size), *saved = malloc(size);
    memcpy(saved, bytes, size);
    cr_assert(fault_io_remove(b->disk, "/s/MANIFEST.2.1"));
    cr_assert(fault_io_remove(b->disk, "/s/gen/1-2/COMMITTED"));
    must_open(b);
    must_load(b, 1);
    must_save(b, 3, 3);
    cr_assert(exists(b, "/s/MANIFEST.2.2"));
    close_store(b);
    put_file(b, "/s/MANIFEST.2.1", "");
    const tsr_io *io = b->ctx.io;
    int fd = io->open(io->self, TSR_IO_CWD, "/s/MANIFEST.2.1", O_WRONLY, 0);
    cr_assert_eq(io->pwrite(io->self, fd, saved, size, 0), (ssize_t)size);
    io->close(io->self, fd);
    bytes = fault_io_bytes(b->disk, "/s/BASE.2", &size);
    cr_assert_eq(size, TSR_BASE_BYTES);
    tsr_base_encode(2, &other, bytes);
    open_keeping(b, 8);
    must_load(b, 3);
    cr_assert_eq(b->recovery.damaged_count, 0);
    free(saved);
    end(b);
}

static void remove_file(bench *b, const char *kind, unsigned first, unsigned second) {
    char path[64];
    snprintf(path, sizeof path, second ? "/s/%s%u%c%u%s" : "/s/%s%u", kind, first,
             *kind == 'g' ? '-' : '.', second, *kind == 'g' ? "/COMMITTED" : "");
    cr_assert(fault_io_remove(b->disk, path), "%s", path);
}

/* The manifests and the BASE of the run that the newest one resumed from are missing; in some cases
 * the marks in its directories are missing, too. This is reported, and the next run resumes from an
 * older generation. */
Test(corners, all_of_a_run_is_gone) {
    enum { MARKS_STAY, MARKS_GO, BOTH_RUNS, WAYS };
    for (unsigned way = MARKS_STAY; way < WAYS; way++) {
        bench *b = begin();
        for (unsigned run = 0; run < 2; run++) {
            open_keeping(b, 8);
            must_save(b, 2 * run + 1, 2 * run + 2);
        }
        open_keeping(b, 8);
        close_store(b);
        remove_file(b, "SPARE.", 3, 0);
        for (unsigned run = 2; run >= (way == BOTH_RUNS ? 1 : 2); run--) {
            remove_file(b, "BASE.", run, 0);
            for (unsigned n = 2 * run - 1; n <= 2 * run; n++) {
                remove_file(b, "MANIFEST.", n, run);
                if (way != MARKS_STAY) remove_file(b, "gen/", run, n);
            }
        }
        must_fail(b, reopen(b, TSR_RESUME_NEVER, 0), TSR_STATE, "a fresh start was requested");
        cr_assert(strstr(b->log.last_error, "generation 4 of epoch 2 was committed, but its "
                                            "manifest is missing"),
                  "%s", b->log.last_error);
        if (way == BOTH_RUNS) {
            must_fail(b, reopen(b, TSR_RESUME_AUTO, 0), TSR_STATE,
                      "there is no good generation: 1 committed record is damaged");
        } else {
            must_open(b);
            must_load(b, 2);
            cr_assert_eq(b->recovery.damaged_count, way == MARKS_STAY ? 2 : 1);
        }
        end(b);
    }
}

/* All older generations are damaged: only the newest one counts, and nothing is removed in its
 * favour. */
Test(corners, older_ones_are_all_damaged) {
    bench *b = begin_many();
    for (unsigned n = 1; n <= 4; n++) {
        char path[64];
        snprintf(path, sizeof path, n % 2 ? "/s/gen/1-%u/segment.0" : "/s/MANIFEST.%u.1", n);
        flip(b, path, 20);
    }
    must_open(b);
    cr_assert_eq(b->recovery.damaged_count, 4);
    must_load(b, 5);
    cr_assert(exists(b, "/s/MANIFEST.1.1"));
    end(b);
}

Test(corners, no_permission_while_older_ones_are_counted) {
    bench *many = begin_many();
    unsigned refused = 0;
    for (uint64_t n = 1; n < 24; n++) {
        bench *b = begin();
        fault_io_destroy(b->disk);
        b->disk = fault_io_clone(many->disk);
        b->ctx.io = fault_io_table(b->disk);
        fault_io_arm(b->disk,
                     &(fault_plan){.kind = FAULT_ERROR, .error = EACCES, .name = "open", .at = n});
        tsr_result result = reopen(b, TSR_RESUME_AUTO, 0);
        refused += result.code == TSR_IO;
        if (!result.code) must_load(b, 5);
        fault_io_arm(b->disk, NULL);
        must_open(b);
        must_load(b, 5);
        cr_assert_eq(b->recovery.damaged_count, 0);
        end(b);
    }
    cr_assert_geq(refused, 8);
    end(many);
}

/* ---- damage together with another event ---- */

static const char *const harmed[] = {"/s/gen/1-5/segment.0", "/s/MANIFEST.5.1",
                                     "/s/gen/1-4/segment.0", "/s/MANIFEST.4.1"};
enum { HARMED = TSR_COUNT(harmed), OPERATIONS_MAX = 400 };

/* A file is damaged, and the directory cannot be listed again: no damage is reported, and no run
 * resumes. */
Test(corners, no_permission_while_damage_is_looked_into) {
    for (size_t i = 0; i < HARMED; i++) {
        unsigned refused = 0;
        bool fired = true;
        for (uint64_t n = 1; fired; n++) {
            bench *b = begin_many();
            cr_assert_lt(n, OPERATIONS_MAX);
            flip(b, harmed[i], 20);
            fault_io_arm(
                b->disk,
                &(fault_plan){.kind = FAULT_ERROR, .error = EACCES, .name = "list", .at = n});
            tsr_result result = reopen(b, TSR_RESUME_AUTO, 0);
            fired = fault_io_fired(b->disk);
            fault_io_arm(b->disk, NULL);
            if (result.code) {
                must_fail(b, result, TSR_IO, "cannot list the directory");
                cr_assert_eq(b->log.errors, 0, "%s", b->log.last_error);
                refused++;
                must_open(b);
            }
            must_load(b, i < 2 ? 4 : 5);
            cr_assert_eq(b->recovery.damaged_count, 1);
            end(b);
        }
        cr_assert_geq(refused, 4, "%s: %u", harmed[i], refused);
    }
}

static void publish_epoch(void *user) { put_file(user, "/s/EPOCH.9", ""); }

/* The same, but another run takes the store over: it may have removed the missing files. */
Test(corners, taken_over_while_damage_is_looked_into) {
    for (size_t i = 0; i < HARMED; i++) {
        unsigned told = 0;
        bool fired = true;
        for (uint64_t n = 1; fired; n++) {
            bench *b = begin_many();
            cr_assert_lt(n, OPERATIONS_MAX);
            flip(b, harmed[i], 20);
            fault_io_arm(
                b->disk,
                &(fault_plan){.kind = FAULT_CALL, .at = n, .call = publish_epoch, .call_user = b});
            tsr_result result = reopen(b, TSR_RESUME_AUTO, 0);
            fired = fault_io_fired(b->disk);
            fault_io_arm(b->disk, NULL);
            if (result.code == TSR_LOCKED) {
                must_fail(b, result, TSR_LOCKED,
                          "another run took the store over: it is of epoch 9, this run of 2");
                cr_assert_eq(b->log.errors, 0, "%s", b->log.last_error);
                told++;
            } else if (fired)
                cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
            end(b);
        }
        cr_assert_geq(told, 3, "%s: %u", harmed[i], told);
    }
}

static void take_over_and_remove(void *user) {
    bench *b = user;
    publish_epoch(b);
    flip(b, "/s/gen/1-3/segment.0", 9);
}

/* An acknowledged save cannot be read back, because another run took over. */
Test(corners, taken_over_while_reading_back) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    fault_io_arm(b->disk, &(fault_plan){.kind = FAULT_CALL,
                                        .at = 1,
                                        .name = "pread",
                                        .call = take_over_and_remove,
                                        .call_user = b});
    must_save(b, 3, 3);
    cr_assert(!model_save(&b->ctx, b->store, &b->m, 4));
    cr_assert(fault_io_fired(b->disk));
    cr_assert(tsr_store_wait(b->store).fenced);
    cr_assert_eq(b->log.errors, 0, "%s", b->log.last_error);
    cr_assert(exists(b, "/s/MANIFEST.1.1"), "a run that was replaced removes nothing");
    end(b);
}

Test(corners, lock_of_a_process_without_a_name) {
    bench *b = begin();
    tsr_store *second = NULL;
    tsr_recovery recovery;
    must_open(b);
    put_file(b, "/s/LOCK", "");
    must_fail(b, model_open(&b->ctx, &second, &recovery), TSR_LOCKED, "another process uses it");
    end(b);
}

/* The name of the epoch is taken between the listing and the creation. */
Test(corners, epoch_taken_at_this_moment) {
    bench *b = begin();
    unsigned told = 0;
    must_open(b);
    must_save(b, 1, 1);
    for (uint64_t n = 1; n < 12; n++) {
        close_store(b);
        fault_io_arm(b->disk,
                     &(fault_plan){.kind = FAULT_ERROR, .error = EEXIST, .name = "open", .at = n});
        tsr_result result = reopen(b, TSR_RESUME_AUTO, 0);
        fault_io_arm(b->disk, NULL);
        if (result.code != TSR_LOCKED) continue;
        told++;
        cr_assert(strstr(b->ctx.error.text, "another run published 'EPOCH."), "%s",
                  b->ctx.error.text);
    }
    cr_assert_eq(told, 1);
    end(b);
}

/* There is no BASE, so the opening reads the manifests of its epoch, and one read is
 * refused. That says nothing about the data, so the opening ends, and the next one finds
 * everything. */
Test(corners, no_permission_while_the_base_is_guessed) {
    bench *b = begin();
    unsigned refused = 0;
    must_open(b);
    must_save(b, 1, 2);
    close_store(b);
    cr_assert(fault_io_remove(b->disk, "/s/BASE.1"));
    for (uint64_t n = 1; n < 16; n++) {
        fault_io *before = b->disk;
        b->disk = fault_io_clone(before);
        b->ctx.io = fault_io_table(b->disk);
        fault_io_arm(b->disk,
                     &(fault_plan){.kind = FAULT_ERROR, .error = EACCES, .name = "open", .at = n});
        refused += reopen(b, TSR_RESUME_AUTO, 0).code == TSR_IO;
        fault_io_arm(b->disk, NULL);
        must_open(b);
        must_load(b, 2);
        close_store(b);
        fault_io_destroy(b->disk);
        b->disk = before;
        b->ctx.io = fault_io_table(before);
    }
    cr_assert_geq(refused, 5);
    end(b);
}

/* link() fails, and the result cannot be inspected: the outcome is unknown. */
Test(corners, published_or_not_cannot_be_told) {
    const char *const names[] = {"open", "fstat", "pread"};
    for (size_t i = 0; i < 3; i++) {
        bench *b = begin();
        must_open(b);
        must_save(b, 1, 1);
        for (uint64_t n = 1;; n++) {
            const fault_plan link = {
                .kind = FAULT_ERROR_AFTER, .error = EIO, .name = "link", .at = 1};
            const fault_plan look = {.kind = FAULT_ERROR,
                                     .error = EACCES,
                                     .name = names[i],
                                     .at = n,
                                     .persistent = true};
            cr_assert_lt(n, 12, "%s never was the one", names[i]);
            fault_io_arm_pair(b->disk, &link, &look);
            bool saved = model_save(&b->ctx, b->store, &b->m, n + 1);
            bool both = fault_io_both_fired(b->disk);
            fault_io_arm(b->disk, NULL);
            if (both && tsr_store_wait(b->store).outcome_unknown) {
                cr_assert(!saved);
                break;
            }
        }
        must_open(b);
        cr_assert_eq(b->recovery.damaged_count, 0);
        end(b);
    }
}

/* ---- a coordinator at the wrong time ---- */

typedef struct wire {
    uint8_t bytes[SENT_BYTES]; /* the last message */
    size_t size;
    unsigned count;
    uint64_t now;
    tsr_manifest plan;
    tsr_arena arena;
} wire;

static uint64_t now_ns(void *self) { return ((const wire *)self)->now; }
static void keep(void *self, uint32_t rank, const uint8_t *bytes, size_t size_bytes) {
    wire *w = self;
    (void)rank;
    cr_assert_leq(size_bytes, SENT_BYTES);
    memcpy(w->bytes, bytes, size_bytes);
    w->size = size_bytes;
    w->count++;
}

static tsr_coordinator *open_coordinator(bench *b, wire *w, uint64_t deadline_ns,
                                         uint64_t resend_ns) {
    tsr_coordinator *c = NULL;
    tsr_coordinator_options options = {.size_bytes = sizeof options,
                                       .directory = "/s",
                                       .rank_count = 1,
                                       .keep = 2,
                                       .deadline_ns = deadline_ns,
                                       .resend_ns = resend_ns,
                                       .outside = {.self = w, .now_ns = now_ns, .send = keep}};
    cr_assert_eq(tsr_coordinator_open(&b->ctx, &options, &c).code, TSR_OK, "%s", b->ctx.error.text);
    return c;
}

static tsr_message asked(const wire *w, char *text) {
    tsr_message m;
    cr_assert(tsr_message_decode(w->bytes, w->size, text, &m));
    return m;
}
static tsr_result answer(bench *b, tsr_coordinator *c, tsr_message m) {
    uint8_t bytes[SENT_BYTES];
    if (!m.text) m.text = "";
    return tsr_coordinator_receive(&b->ctx, c, bytes, tsr_message_encode(&m, bytes));
}

/* The rank agrees to the last request. */
static tsr_message yes(const wire *w) {
    static char text[TSR_MESSAGE_TEXT_MAX + 1];
    static const uint8_t digests[4 * TSR_DIGEST_BYTES];
    tsr_message m = asked(w, text);
    if (m.kind == TSR_MESSAGE_PROPOSE) m.kind = TSR_MESSAGE_VERDICT;
    if (m.kind == TSR_MESSAGE_PREPARE) {
        m.kind = TSR_MESSAGE_PREPARED;
        m.step = 0;
        m.part = (tsr_part){0, w->plan.chunk_count};
        m.digests = digests;
    }
    return m;
}

static void make_idle(bench *b, wire *w, tsr_coordinator *c) {
    const tsr_tensor *sorted[MODEL_TENSORS];
    while (c->phase != TSR_PHASE_IDLE)
        cr_assert_eq(answer(b, c, yes(w)).code, TSR_OK, "%s", b->ctx.error.text);
    cr_assert_eq(tsr_manifest_plan(&b->ctx, &w->arena, b->m.tensors, MODEL_TENSORS,
                                   &(tsr_division){TSR_SEGMENT_BYTES_MAX, 1}, sorted, &w->plan)
                     .code,
                 TSR_OK);
    w->plan.token.region = w->plan.token.numerics = w->plan.token.topology = "";
    cr_assert_eq(tsr_coordinator_plan(&b->ctx, c, &w->plan).code, TSR_OK);
}

static void finish(bench *b, wire *w, tsr_coordinator *c) {
    tsr_coordinator_close(&b->ctx, c);
    tsr_arena_finish(&w->arena);
    free(w);
    end(b);
}

static void save_one(bench *b, tsr_coordinator *c, uint64_t step) {
    const tsr_position position = {.step = step, .virtual_ranks = 1};
    cr_assert_eq(tsr_coordinator_save(&b->ctx, c, &position).code, TSR_OK, "%s", b->ctx.error.text);
    cr_assert_eq(c->phase, TSR_PHASE_PREPARING);
}

Test(corners, answers_that_are_none) {
    bench *b = begin();
    wire *w = calloc(1, sizeof *w);
    must_open(b);
    close_store(b);
    tsr_coordinator *c = open_coordinator(b, w, 0, 0);
    make_idle(b, w, c);
    const tsr_message late = yes(w);
    cr_assert_eq(answer(b, c, late).code, TSR_OK);
    cr_assert_eq(c->phase, TSR_PHASE_IDLE, "nothing was asked");
    save_one(b, c, 3);
    const tsr_message good = yes(w);
    tsr_message wrong[6] = {good, good, good, good, good, good};
    wrong[0].subject.generation++;
    wrong[1].rank = 6;
    wrong[2].part.first = 1;
    wrong[3].layout.bytes[0] ^= 1;
    wrong[4] = late;
    wrong[5].rank = 7;
    for (size_t i = 0; i < 6; i++) cr_assert_eq(answer(b, c, wrong[i]).code, TSR_OK);
    tsr_message earlier = good;
    earlier.subject.epoch = 1;
    cr_assert_eq(answer(b, c, earlier).code, TSR_OK);
    tsr_message short_part = good;
    short_part.part.count--;
    cr_assert_eq(answer(b, c, short_part).code, TSR_OK);
    tsr_message verdict = {
        .kind = TSR_MESSAGE_VERDICT, .epoch = good.epoch, .subject = good.subject};
    cr_assert_eq(answer(b, c, verdict).code, TSR_OK);
    cr_assert_eq(tsr_coordinator_receive(&b->ctx, c, w->bytes, w->size - 1).code, TSR_OK);
    cr_assert_eq(c->phase, TSR_PHASE_PREPARING, "none of them was an answer");
    tsr_message no = {.kind = TSR_MESSAGE_ABORT,
                      .epoch = good.epoch,
                      .subject = good.subject,
                      .code = TSR_IO,
                      .native = ENOSPC,
                      .text = "the disk is full"};
    cr_assert_eq(answer(b, c, no).code, TSR_IO);
    cr_assert(strstr(b->ctx.error.text, "the disk is full"));
    cr_assert_eq(b->ctx.error.native, ENOSPC);
    cr_assert_eq(c->phase, TSR_PHASE_IDLE);
    save_one(b, c, 4);
    cr_assert_eq(tsr_coordinator_abort(&b->ctx, c, "the caller thought better of it").code,
                 TSR_SAVE);
    cr_assert_eq(c->phase, TSR_PHASE_IDLE);
    cr_assert_eq(c->committed_count, 0);
    finish(b, w, c);
}

/* Old generations are removed between two saves: the directory of the next save is not a
 * leftover. */
Test(corners, a_directory_made_ready_stays) {
    bench *b = begin_many();
    wire *w = calloc(1, sizeof *w);
    const tsr_io *io = b->ctx.io;
    tsr_coordinator *c = open_coordinator(b, w, 0, 0);
    make_idle(b, w, c);
    cr_assert_eq(c->ready, 6);
    cr_assert_eq(io->mkdir(io->self, TSR_IO_CWD, "/s/gen/2-5", 0755), 0);
    cr_assert_eq(tsr_coordinator_remove_old(&b->ctx, c).code, TSR_OK, "%s", b->ctx.error.text);
    cr_assert(!exists(b, "/s/MANIFEST.3.1") && exists(b, "/s/MANIFEST.4.1"));
    cr_assert_eq(io->mkdir(io->self, TSR_IO_CWD, "/s/gen/2-6", 0755), -EEXIST);
    cr_assert_eq(io->mkdir(io->self, TSR_IO_CWD, "/s/gen/2-5", 0755), 0, "a leftover goes");
    save_one(b, c, 6);
    finish(b, w, c);
}

/* A tick changes nothing if no request is pending, or if no timeout is wanted. */
Test(corners, ticks) {
    bench *b = begin();
    wire *w = calloc(1, sizeof *w);
    tsr_coordinator *c = open_coordinator(b, w, 0, 0);
    make_idle(b, w, c);
    unsigned count;
    w->now = UINT64_C(1000) * SECOND;
    cr_assert_eq(tsr_coordinator_tick(&b->ctx, c).code, TSR_OK);
    save_one(b, c, 1);
    count = w->count;
    w->now *= 2;
    cr_assert_eq(tsr_coordinator_tick(&b->ctx, c).code, TSR_OK);
    cr_assert_eq(w->count, count, "neither a deadline nor a time to ask again was given");
    cr_assert_eq(c->phase, TSR_PHASE_PREPARING);
    finish(b, w, c);
}

Test(corners, nobody_hears_what_goes_on) {
    bench *b = begin();
    wire *w = calloc(1, sizeof *w);
    tsr_coordinator *c = open_coordinator(b, w, (uint64_t)10 * SECOND, SECOND);
    cr_assert_eq(c->phase, TSR_PHASE_AGREEING);
    unsigned count = w->count;
    w->now = SECOND / 2;
    cr_assert_eq(tsr_coordinator_tick(&b->ctx, c).code, TSR_OK);
    cr_assert_eq(w->count, count, "it is too early to ask again");
    w->now = SECOND;
    cr_assert_eq(tsr_coordinator_tick(&b->ctx, c).code, TSR_OK);
    cr_assert_eq(w->count, count + 1);
    w->now = (uint64_t)10 * SECOND;
    cr_assert_eq(tsr_coordinator_tick(&b->ctx, c).code, TSR_IO);
    cr_assert(strstr(b->ctx.error.text, "no answer for 10.0 s to AGREE"), "%s", b->ctx.error.text);
    cr_assert_eq(c->phase, TSR_PHASE_STOPPED);
    cr_assert_eq(tsr_coordinator_tick(&b->ctx, c).code, TSR_OK);
    cr_assert_eq(answer(b, c, yes(w)).code, TSR_OK);
    cr_assert_eq(c->phase, TSR_PHASE_STOPPED);
    finish(b, w, c);
}

Test(corners, phases_have_names) {
    for (int i = TSR_PHASE_RECOVERING; i <= TSR_PHASE_STOPPED; i++)
        for (int k = TSR_PHASE_RECOVERING; k < i; k++)
            cr_assert_str_neq(tsr_phase_name((tsr_phase)i), tsr_phase_name((tsr_phase)k));
    cr_assert_str_eq(tsr_phase_name(TSR_PHASE_IDLE), "idle");
    cr_assert_str_eq(tsr_phase_name((tsr_phase)99), "unknown");
}
