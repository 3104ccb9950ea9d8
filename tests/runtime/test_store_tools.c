/* SPDX-License-Identifier: Apache-2.0
 *
 * What people do with a state directory beside running: list it, prune it.
 */
#include "runtime/store/internal.h"
#include "tests/runtime/fault_io.h"
#include "tests/runtime/store_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    fault_io *disk;
    model_log log;
    tsr_ctx ctx;
    model m;
    tsr_store *store;
    tsr_recovery recovery;
} bench;

static bench *begin(void) {
    bench *b = calloc(1, sizeof *b);
    cr_assert(b);
    b->disk = fault_io_create();
    b->ctx = (tsr_ctx){.log = model_log_add,
                       .log_user = &b->log,
                       .log_level = TSR_LOG_WARNING,
                       .io = fault_io_table(b->disk)};
    model_init(&b->m);
    return b;
}
static void end(bench *b) {
    tsr_store_close(&b->ctx, b->store);
    fault_io_destroy(b->disk);
    free(b);
}

static tsr_result reopen(bench *b, tsr_resume_mode mode, uint64_t generation) {
    tsr_store_options options = model_options("/s");
    tsr_store_close(&b->ctx, b->store);
    b->store = NULL;
    b->log = (model_log){0};
    return tsr_store_open(&b->ctx, &options, mode, generation, &b->store, &b->recovery);
}
static void must_open(bench *b) {
    tsr_result result = reopen(b, TSR_RESUME_AUTO, 0);
    cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
}
static void must_save(bench *b, uint64_t first, uint64_t last) {
    if (!b->store->thread_started)
        cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS).code,
                     TSR_OK);
    for (uint64_t step = first; step <= last; step++)
        cr_assert(model_save(&b->ctx, b->store, &b->m, step));
}
static void must_load(bench *b, uint64_t step) {
    cr_assert(b->recovery.found);
    cr_assert_eq(b->recovery.generation.position.step, step);
    memset(b->m.weights, 0, sizeof b->m.weights);
    tsr_result result = tsr_store_load(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS);
    cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
    cr_assert(model_is(&b->m, step));
    tsr_digest hash = tsr_state_hash(b->m.tensors, MODEL_TENSORS);
    cr_assert(tsr_digest_equal(&hash, &b->recovery.generation.state_hash));
}
static void must_fail(bench *b, tsr_result result, tsr_code code, const char *text) {
    cr_assert_eq(result.code, code, "code %d: %s", (int)result.code, b->ctx.error.text);
    cr_assert(strstr(b->ctx.error.text, text), "'%s' does not hold '%s'", b->ctx.error.text, text);
}
static void flip(bench *b, const char *path, size_t at) {
    size_t size = 0;
    uint8_t *bytes = fault_io_bytes(b->disk, path, &size);
    cr_assert(bytes && at < size, "%s has no byte %zu", path, at);
    bytes[at] ^= 0x10;
}
static bool exists(bench *b, const char *path) {
    size_t size;
    return fault_io_bytes(b->disk, path, &size) != NULL;
}

typedef struct lines {
    unsigned count;
    char first[256], last[256];
} lines;

static void add_to(void *user, const char *line) {
    lines *l = user;
    snprintf(l->count++ ? l->last : l->first, sizeof l->first, "%s", line);
}

Test(store, list_tells_damage_by_size_and_by_reading) {
    bench *b = begin();
    must_open(b);
    must_save(b, 1, 2);
    tsr_store_close(&b->ctx, b->store);
    b->store = NULL;
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

Test(store, prune_keeps_what_was_asked) {
    bench *b = begin();
    lines l = {0};
    tsr_store_options options = model_options("/s");
    options.keep = 5;
    cr_assert_eq(
        tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery).code,
        TSR_OK);
    must_save(b, 1, 5);
    must_fail(b, tsr_store_prune(&b->ctx, "/s", 2, false, add_to, &l), TSR_LOCKED, "in use");
    tsr_store_close(&b->ctx, b->store);
    b->store = NULL;
    must_fail(b, tsr_store_prune(&b->ctx, "/s", 1, false, add_to, &l), TSR_USAGE, "1 generations");
    must_fail(b, tsr_store_prune(&b->ctx, "/none", 2, false, add_to, &l), TSR_IO, "cannot open");
    must_fail(b, tsr_store_prune(&b->ctx, "/s/gen", 2, false, add_to, &l), TSR_STATE,
              "not a state directory");
    cr_assert_eq(l.count, 0);
    cr_assert_eq(tsr_store_prune(&b->ctx, "/s", 3, false, add_to, &l).code, TSR_OK, "%s",
                 b->ctx.error.text);
    cr_assert(strstr(l.last, "2 removed, 3 left"), "%s", l.last);
    cr_assert(!exists(b, "/s/MANIFEST.2.1") && !exists(b, "/s/gen/1-2/segment.0"));
    cr_assert(exists(b, "/s/MANIFEST.3.1") && exists(b, "/s/gen/1-3/segment.0"));
    /* Pruning is safe at once: nothing of it waits in a cache. */
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
