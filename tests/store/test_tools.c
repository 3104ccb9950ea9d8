/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools for a state directory: listing and pruning.
 */
#include "tests/store/fixture.h"

#include <fcntl.h>
#include <stdio.h>

typedef struct lines {
    unsigned count;
    char first[256], last[256];
} lines;

static void add_to(void *user, const char *line) {
    lines *l = user;
    snprintf(l->count++ ? l->last : l->first, sizeof l->first, "%s", line);
}

typedef struct text_of {
    char text[4096];
} text_of;

static void append_to(void *user, const char *line) {
    text_of *all = user;
    size_t used = strlen(all->text);
    snprintf(all->text + used, sizeof all->text - used, "%s\n", line);
}

Test(store, list_tells_damage_by_size_and_by_reading) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    close_store(b);
    uint64_t before = fault_io_direct_count(b->disk);
    lines l = {0};
    cr_assert_eq(tsr_store_list(&b->ctx, "/s", false, add_to, &l).code, TSR_OK);
    cr_assert_eq(l.count, 3);
    cr_assert(strstr(l.first, "generation 2 epoch 1 step 2 seed 42 bytes 5648 state "));
    cr_assert(strstr(l.last, "2 generations, 0 damaged"));
    cr_assert_eq(fault_io_direct_count(b->disk), before, "no data is read");
    flip(b, "/s/gen/1-2/segment.0", 9);
    cr_assert_eq(tsr_store_list(&b->ctx, "/s", false, add_to, &(lines){0}).code, TSR_OK);
    l = (lines){0};
    must_fail(b, tsr_store_list(&b->ctx, "/s", true, add_to, &l), TSR_STATE, "1 committed");
    cr_assert(strstr(l.first, "generation 2 epoch 1 damaged: "));
    cr_assert(fault_io_remove(b->disk, "/s/gen/1-1/segment.0"));
    must_fail(b, tsr_store_list(&b->ctx, "/s", false, add_to, &l), TSR_STATE, "1 committed");
    must_fail(b, tsr_store_list(&b->ctx, "/none", false, add_to, &l), TSR_IO, "cannot open it");
    end(b);
}

/* Generations that a stray manifest hides are listed, and the stray manifest is named. */
Test(store, list_and_fsck_tell_what_a_stray_manifest_hides) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    close_store(b);
    const tsr_io *io = b->ctx.io;
    io->close(io->self,
              io->open(io->self, TSR_IO_CWD, "/s/MANIFEST.1.3", O_WRONLY | O_CREAT, 0644));
    text_of all = {0};
    must_fail(b, tsr_store_list(&b->ctx, "/s", true, append_to, &all), TSR_STATE, "2 committed");
    cr_assert(strstr(all.text, "the base of epoch 3 is lost: "), "%s", all.text);
    cr_assert(strstr(all.text, "'MANIFEST.1.3' may be a stray file: epoch 3 has left no BASE.3"),
              "%s", all.text);
    cr_assert(strstr(all.text, "generation 1 epoch 3 damaged: MANIFEST.1.3"), "%s", all.text);
    cr_assert(strstr(all.text, "generation 2 epoch 1 step 2 "), "%s", all.text);
    cr_assert(strstr(all.text, " good, ignored unless a run resumes it by its number\n"), "%s",
              all.text);
    all = (text_of){0};
    must_fail(b, tsr_store_list_json(&b->ctx, "/s", true, append_to, &all), TSR_STATE, "2 commit");
    cr_assert(strstr(all.text, "{\"token\":{\"generation\":1,"), "%s", all.text);
    cr_assert(strstr(all.text, ",\"reached\":false}\n"), "%s", all.text);
    flip(b, "/s/gen/1-1/segment.0", 9);
    all = (text_of){0};
    must_fail(b, tsr_store_fsck(&b->ctx, "/s", append_to, &all), TSR_STATE,
              "0 generations are good");
    cr_assert(
        strstr(all.text,
               "generation 2 of epoch 1: ignored, because a later run continued from an earlier "
               "generation; it is good: resume it by its number to use it\n"),
        "%s", all.text);
    cr_assert(
        strstr(all.text,
               "generation 1 of epoch 1: ignored, because a later run continued from an earlier "
               "generation; it is damaged: "),
        "%s", all.text);
    end(b);
}

Test(store, list_as_json_holds_whole_tokens) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    close_store(b);
    lines l = {0};
    cr_assert_eq(tsr_store_list_json(&b->ctx, "/s", false, add_to, &l).code, TSR_OK);
    cr_assert_eq(l.count, 3);
    cr_assert(strstr(l.first, "{\"token\":{\"generation\":2,\"epoch\":1,\"seed\":42,\"step\":2,"),
              "%s", l.first);
    cr_assert_str_eq(l.last,
                     "{\"generations\":2,\"damaged\":0,\"uncommitted\":0,\"verified\":false}");
    flip(b, "/s/gen/1-2/segment.0", 9);
    l = (lines){0};
    must_fail(b, tsr_store_list_json(&b->ctx, "/s", true, add_to, &l), TSR_STATE, "1 committed");
    cr_assert(strstr(l.first, "{\"generation\":2,\"epoch\":1,\"damaged\":\""), "%s", l.first);
    cr_assert(strstr(l.last, "\"damaged\":1,\"uncommitted\":0,\"verified\":true}"), "%s", l.last);
    end(b);
}

Test(store, prune_keeps_what_was_asked) {
    bench *b = begin();
    lines l = {0};
    tsr_store_options options = model_options("/s");
    options.keep = 5;
    cr_assert_eq(
        tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery).code,
        TSR_OK);
    must_save(b, 1, 5);
    must_fail(b, tsr_store_prune(&b->ctx, "/s", 2, false, add_to, &l), TSR_LOCKED, "uses it");
    close_store(b);
    must_fail(b, tsr_store_prune(&b->ctx, "/s", 1, false, add_to, &l), TSR_USAGE, "1 generation");
    must_fail(b, tsr_store_prune(&b->ctx, "/none", 2, false, add_to, &l), TSR_IO, "cannot open");
    must_fail(b, tsr_store_prune(&b->ctx, "/s/gen", 2, false, add_to, &l), TSR_STATE,
              "not a state directory");
    cr_assert_eq(l.count, 0);
    cr_assert_eq(tsr_store_prune(&b->ctx, "/s", 3, false, add_to, &l).code, TSR_OK, "%s",
                 b->ctx.error.text);
    cr_assert(strstr(l.last, "2 removed, 3 left"), "%s", l.last);
    cr_assert(!exists(b, "/s/MANIFEST.2.1") && !exists(b, "/s/gen/1-2/segment.0"));
    cr_assert(exists(b, "/s/MANIFEST.3.1") && exists(b, "/s/gen/1-3/segment.0"));
    /* Pruning is durable at once: no part waits in a cache. */
    fault_io_crash(b->disk, FAULT_LOSE, 0);
    flip(b, "/s/gen/1-4/segment.0", 0);
    must_fail(b, tsr_store_prune(&b->ctx, "/s", 2, false, add_to, &l), TSR_STATE,
              "nothing was removed");
    cr_assert(exists(b, "/s/MANIFEST.3.1"));
    flip(b, "/s/gen/1-4/segment.0", 0);
    cr_assert_eq(tsr_store_prune(&b->ctx, "/s", 2, false, add_to, &l).code, TSR_OK);
    cr_assert(strstr(l.last, "1 removed, 2 left"), "%s", l.last);
    must_open(b);
    must_load(b, 5);
    cr_assert_eq(b->recovery.damaged_count, 0);
    end(b);
}
