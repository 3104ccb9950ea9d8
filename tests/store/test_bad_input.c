/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories and disks in bad states: each gets its message and its code, no generation is lost,
 * and no generation is skipped silently.
 */
#include "runtime/base/array.h"
#include "tests/base/sweep.h"
#include "tests/store/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <time.h>

static bench *with_generations(uint64_t count) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, count);
    close_store(b);
    return b;
}

static void remove_all(bench *b, const char *prefix, uint64_t first, uint64_t last,
                       const char *suffix) {
    for (uint64_t i = first; i <= last; i++) {
        char path[64];
        snprintf(path, sizeof path, "/s/%s%" PRIu64 "%s", prefix, i, suffix);
        fault_io_remove(b->disk, path);
    }
}

/* ---- missing manifests ---- */

Test(bad_input, all_manifests_deleted_by_hand_are_no_fresh_start) {
    bench *b = with_generations(3);
    remove_all(b, "MANIFEST.", 1, 3, ".1");
    for (int i = 0; i < 2; i++)
        must_fail(b, reopen(b, TSR_RESUME_AUTO, 0), TSR_STATE,
                  "there is no good generation: 2 committed records are damaged");
    cr_assert(strstr(b->log.last_error, "was committed, but its manifest is missing"), "%s",
              b->log.last_error);
    must_fail(b, reopen(b, TSR_RESUME_NEVER, 0), TSR_STATE,
              "a fresh start was requested, but generations were committed here: no manifest is "
              "left, and 2 committed records are damaged or missing");
    cr_assert(exists(b, "/s/gen/1-3/segment.0"), "refusing removes nothing");
    remove_all(b, "BASE.", 1, 9, "");
    must_fail(b, reopen(b, TSR_RESUME_AUTO, 0), TSR_STATE, "there is no good generation");
    cr_assert(exists(b, "/s/gen/1-2/segment.0"));
    end(b);
}

Test(bad_input, the_newest_manifest_deleted_is_told) {
    bench *b = with_generations(3);
    remove_all(b, "MANIFEST.", 3, 3, ".1");
    must_open(b);
    must_load(b, 2);
    cr_assert_eq(b->recovery.damaged_count, 1);
    cr_assert_eq(b->recovery.uncommitted_count, 0);
    cr_assert(strstr(b->log.last_error, "generation 3 of epoch 1 was committed"), "%s",
              b->log.last_error);
    must_open(b); /* reported once: the run resumes from generation 2 from here on */
    must_load(b, 2);
    cr_assert_eq(b->recovery.damaged_count, 0);
    end(b);
}

Test(bad_input, an_older_manifest_deleted_is_no_alarm) {
    bench *b = with_generations(3);
    remove_all(b, "MANIFEST.", 2, 2, ".1"); /* as a crash during a collection leaves it */
    must_open(b);
    must_load(b, 3);
    cr_assert_eq(b->log.errors, 0);
    end(b);
}

Test(bad_input, an_unfinished_save_has_no_mark) {
    bench *b = with_generations(2);
    must_open(b);
    fault_io_arm(b->disk, &(fault_plan){.kind = FAULT_CRASH_BEFORE, .at = 1, .name = "link"});
    cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS).code, TSR_OK);
    cr_assert(!model_save(&b->ctx, b->store, &b->m, 3));
    close_store(b);
    fault_io_crash(b->disk, FAULT_KEEP, 1);
    fault_io_arm(b->disk, NULL);
    must_open(b);
    must_load(b, 2);
    cr_assert_eq(b->recovery.uncommitted_count, 1);
    cr_assert_eq(b->log.errors, 0);
    end(b);
}

/* ---- a newer format ---- */

static tsr_digest rehash(uint8_t *bytes, size_t size) {
    tsr_digest own = tsr_hash(bytes, size - TSR_DIGEST_BYTES);
    memcpy(bytes + size - TSR_DIGEST_BYTES, own.bytes, TSR_DIGEST_BYTES);
    return own;
}

Test(bad_input, a_newer_format_is_refused_not_skipped) {
    bench *b = with_generations(3);
    size_t size;
    uint8_t *bytes = fault_io_bytes(b->disk, "/s/MANIFEST.3.1", &size);
    bytes[8] = 6;
    rehash(bytes, size);
    for (int i = 0; i < 2; i++)
        must_fail(b, reopen(b, TSR_RESUME_AUTO, 0), TSR_VERSION,
                  "MANIFEST.3.1 has format version 6; this Tessera reads versions 1 to 5");
    cr_assert_eq(b->log.errors, 0, "it is not damaged");
    cr_assert(exists(b, "/s/MANIFEST.2.1") && exists(b, "/s/gen/1-3/segment.0"));
    bytes = fault_io_bytes(b->disk, "/s/MANIFEST.3.1", &size);
    bytes[8] = 1;
    rehash(bytes, size);
    must_open(b);
    must_load(b, 3);
    end(b);
}

/* ---- disks ---- */

Test(bad_input, a_full_disk_costs_the_save_alone) {
    const int errors[] = {ENOSPC, EDQUOT};
    for (size_t i = 0; i < 2; i++) {
        bench *b = with_generations(2);
        must_open(b);
        fault_io_arm(b->disk, &(fault_plan){.kind = FAULT_ERROR,
                                            .error = errors[i],
                                            .at = 1,
                                            .name = "fallocate",
                                            .persistent = true});
        cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS).code,
                     TSR_OK);
        for (uint64_t step = 3; step <= 5; step++)
            cr_assert(!model_save(&b->ctx, b->store, &b->m, step));
        tsr_save_status status = tsr_store_poll(b->store);
        cr_assert_eq(status.failed_in_a_row, 3);
        cr_assert(!status.outcome_unknown && !status.fenced);
        cr_assert(strstr(b->store->failure_text, "cannot reserve"), "%s", b->store->failure_text);
        cr_assert(exists(b, "/s/MANIFEST.1.1") && exists(b, "/s/MANIFEST.2.1"));
        fault_io_arm(b->disk, NULL);
        cr_assert(model_save(&b->ctx, b->store, &b->m, 6), "there is room again");
        must_open(b);
        must_load(b, 6);
        end(b);
    }
}

Test(bad_input, a_read_only_disk_is_an_io_error) {
    bench *b = with_generations(2);
    fault_io_arm(b->disk,
                 &(fault_plan){.kind = FAULT_ERROR, .error = EROFS, .at = 2, .name = "open"});
    must_fail(b, reopen(b, TSR_RESUME_AUTO, 0), TSR_IO,
              "cannot open 'LOCK': Read-only file system");
    fault_io_arm(b->disk, NULL);
    must_open(b);
    must_load(b, 2);
    end(b);
}

Test(bad_input, a_disk_that_vanishes_loses_nothing) {
    for (uint64_t n = 1; n < 40; n += 3) {
        bench *b = with_generations(2);
        must_open(b);
        cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS).code,
                     TSR_OK);
        fault_io_arm(
            b->disk,
            &(fault_plan){.kind = FAULT_ERROR, .error = ENODEV, .at = n, .persistent = true});
        uint64_t acked = 2;
        for (uint64_t step = 3; step <= 4; step++)
            if (!tsr_store_poll(b->store).outcome_unknown &&
                model_save(&b->ctx, b->store, &b->m, step))
                acked = step;
        close_store(b);
        fault_io_crash(b->disk, FAULT_LOSE, n);
        fault_io_arm(b->disk, NULL);
        must_open(b);
        cr_assert_geq(b->recovery.generation.position.step, acked);
        must_load(b, b->recovery.generation.position.step);
        cr_assert_eq(b->log.errors, 0);
        end(b);
    }
}

/* ---- stray files ---- */

enum { STRAYS = 1000000 / SWEEP_STEP(5) };
static const tsr_io *under;
static const char *stray_format;
static int (*under_list)(void *self, int fd, tsr_io_entry_fn entry, void *user);

static int list_with_strays(void *self, int fd, tsr_io_entry_fn entry, void *user) {
    char name[64];
    for (unsigned i = 2; i < STRAYS; i++) {
        snprintf(name, sizeof name, stray_format, i);
        int code = entry(user, name);
        if (code) return code;
    }
    return under_list(self, fd, entry, user);
}

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Each listing of the root and of gen/ has STRAYS additional names, of files that another program
 * left or that cannot be opened. */
Test(bad_input, many_stray_files_cost_time_and_memory_in_proportion) {
    const struct {
        const char *format;
        size_t bytes_each; /* bytes of memory per name during the opening */
    } rows[] = {{"stray-%u", 0}, {"TEMP.1.7.%u", 0}, {"EPOCH.%u", 0}, {"999999999-%u", 400}};
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        bench *b = with_generations(2);
        under = b->ctx.io;
        under_list = under->list;
        tsr_io table = *under;
        table.list = list_with_strays;
        stray_format = rows[i].format;
        b->ctx.io = &table;
        double start = cpu_seconds();
        tsr_result result = reopen(b, TSR_RESUME_AUTO, 0);
        cr_assert_eq(result.code, TSR_OK, "%s: %s", stray_format, b->ctx.error.text);
        must_load(b, 2);
        size_t memory = mallinfo2().uordblks + mallinfo2().hblkhd;
        cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS).code,
                     TSR_OK);
        cr_assert(model_save(&b->ctx, b->store, &b->m, 3));
        cr_assert(model_save(&b->ctx, b->store, &b->m, 4));
        double seconds = cpu_seconds() - start;
        cr_assert_lt(seconds, 20, "%s: %.1f s", stray_format, seconds);
        cr_assert_lt(memory, (64u << 20) + rows[i].bytes_each * STRAYS, "%s: %zu bytes",
                     stray_format, memory);
        b->ctx.io = under;
        b->store->ctx.io = under;
        must_open(b);
        must_load(b, 4);
        end(b);
    }
}

/* A higher epoch is seen even if a directory has more names than fit into memory. */
static int list_with_epoch(void *self, int fd, tsr_io_entry_fn entry, void *user) {
    int code = list_with_strays(self, fd, entry, user);
    return code ? code : entry(user, "EPOCH.77");
}
Test(bad_input, a_fence_is_seen_among_a_million_names) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 1);
    under = b->ctx.io;
    under_list = under->list;
    tsr_io table = *under;
    table.list = list_with_epoch;
    stray_format = "TEMP.1.7.%u";
    b->store->ctx.io = &table;
    cr_assert(!model_save(&b->ctx, b->store, &b->m, 2));
    cr_assert(tsr_store_poll(b->store).fenced);
    b->store->ctx.io = under;
    end(b);
}

/* ---- many generations ---- */

static void count_file(void *user, const char *path) {
    (void)path;
    ++*(unsigned *)user;
}
static unsigned count_files(bench *b) {
    unsigned count = 0;
    fault_io_each_file(b->disk, count_file, &count);
    return count;
}

Test(bad_input, ten_thousand_generations_leave_nothing_behind) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 100);
    unsigned files = count_files(b);
    size_t fds = fault_io_open_count(b->disk);
    must_save(b, 101, 10000);
    cr_assert_eq(count_files(b), files);
    cr_assert_eq(fault_io_open_count(b->disk), fds);
    must_open(b);
    must_load(b, 10000);
    cr_assert_eq(b->recovery.generation.number, 10000);
    end(b);
}
