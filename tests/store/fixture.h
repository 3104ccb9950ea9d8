/* SPDX-License-Identifier: Apache-2.0
 *
 * A state store on the file system in memory, with the model that is saved to it. begin and end
 * bracket a test; must_* fail it.
 */
#ifndef TSR_TESTS_STORE_FIXTURE_H
#define TSR_TESTS_STORE_FIXTURE_H

#include "runtime/store/internal.h"
#include "tests/store/fault_io.h"
#include "tests/store/model.h"

#include <criterion/criterion.h>
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

static inline bench *begin(void) {
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
static inline void end(bench *b) {
    tsr_store_close(&b->ctx, b->store);
    fault_io_destroy(b->disk);
    free(b);
}

static inline void close_store(bench *b) {
    tsr_store_close(&b->ctx, b->store);
    b->store = NULL;
}
static inline tsr_result reopen(bench *b, tsr_resume_mode mode, uint64_t generation) {
    tsr_store_options options = model_options("/s");
    close_store(b);
    b->log = (model_log){0};
    return tsr_store_open(&b->ctx, &options, mode, generation, &b->store, &b->recovery);
}
static inline void must_open(bench *b) {
    tsr_result result = reopen(b, TSR_RESUME_AUTO, 0);
    cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
}
static inline void must_save(bench *b, uint64_t first, uint64_t last) {
    if (!b->store->thread_started)
        cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS).code,
                     TSR_OK);
    for (uint64_t step = first; step <= last; step++)
        cr_assert(model_save(&b->ctx, b->store, &b->m, step));
}
static inline void must_load(bench *b, uint64_t step) {
    cr_assert(b->recovery.found);
    cr_assert_eq(b->recovery.generation.position.step, step);
    memset(b->m.weights, 0, sizeof b->m.weights);
    tsr_result result = tsr_store_load(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS);
    cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
    cr_assert(model_is(&b->m, step));
    tsr_digest hash = tsr_state_hash(b->m.tensors, MODEL_TENSORS);
    cr_assert(tsr_digest_equal(&hash, &b->recovery.generation.state_hash));
}
static inline void must_fail(bench *b, tsr_result result, tsr_code code, const char *text) {
    cr_assert_eq(result.code, code, "code %d: %s", (int)result.code, b->ctx.error.text);
    cr_assert(strstr(b->ctx.error.text, text), "'%s' does not hold '%s'", b->ctx.error.text, text);
}
static inline void flip(bench *b, const char *path, size_t at) {
    size_t size = 0;
    uint8_t *bytes = fault_io_bytes(b->disk, path, &size);
    cr_assert(bytes && at < size, "%s has no byte %zu", path, at);
    bytes[at] ^= 0x10;
}
static inline bool exists(bench *b, const char *path) {
    size_t size;
    return fault_io_bytes(b->disk, path, &size) != NULL;
}

#endif
