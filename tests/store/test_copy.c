/* SPDX-License-Identifier: Apache-2.0
 *
 * The copy of a state: the caller may write to each tensor as soon as it is copied, in the given
 * order; values that are not finite are not saved.
 */
#include "runtime/store/stream.h"
#include "tests/store/fixture.h"

#include <math.h>
#include <stdatomic.h>
#include <time.h>

enum { BYTES = 6 << 20 }; /* two chunks, more than the caller's thread copies alone */

static void nap(long milliseconds) {
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

/* The tensors are not sorted by name, and one without elements is between them. */
static void make_tensors(tsr_tensor tensors[static 4]) {
    static const char *const names[] = {"d", "b", "none", "a"};
    for (size_t i = 0; i < 4; i++) {
        tensors[i] = (tsr_tensor){names[i], TSR_DTYPE_UI8, {1, {BYTES}}, malloc(BYTES)};
        cr_assert(tensors[i].data);
    }
    tensors[2].shape.dims[0] = 0;
}

static void free_tensors(const tsr_tensor tensors[static 4]) {
    for (size_t i = 0; i < 4; i++) free(tensors[i].data);
}

static void ignore_line(void *user, const char *line) {
    (void)user;
    (void)line;
}

/* Tensors are written as soon as this is allowed, one after the other. Each save is verified, since
 * a different thread may be faster each time. */
Test(copy, each_tensor_is_waited_for_alone) {
    bench *b = begin();
    tsr_tensor tensors[4];
    make_tensors(tensors);
    must_open(b);
    cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, tensors, 4).code, TSR_OK);
    for (uint64_t step = 1; step <= 8; step++) {
        const tsr_position position = model_position(step);
        for (size_t i = 0; i < 4; i++) memset(tensors[i].data, (int)(step + i), BYTES);
        cr_assert_eq(tsr_store_save_begin(&b->ctx, b->store, &position).code, TSR_OK);
        for (size_t i = 0; i < 4; i++) {
            if (i == 2) continue;
            tsr_store_wait_copied(b->store, tensors[i].data);
            memset(tensors[i].data, 99, BYTES);
        }
        cr_assert_eq(tsr_store_wait(b->store).committed_count, step);
        cr_assert_eq(tsr_store_fsck(&b->ctx, "/s", ignore_line, NULL).code, TSR_OK, "%s",
                     b->ctx.error.text);
    }
    must_open(b);
    cr_assert_eq(tsr_store_load(&b->ctx, b->store, tensors, 4).code, TSR_OK);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; i != 2 && k < BYTES; k++)
            cr_assert_eq(((char *)tensors[i].data)[k], (char)(8 + i), "tensor %zu, byte %zu", i, k);
    free_tensors(tensors);
    end(b);
}

/* Sets the progress as a save does: this many tasks of one chunk each are done. */
static void set_progress(tsr_store *store, bool copying, uint64_t tasks_done) {
    pthread_mutex_lock(&store->mutex);
    store->copying = copying;
    store->tasks_done = tasks_done;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
}

typedef struct later {
    tsr_store *store;
    uint64_t tasks;
    bool copying;
    atomic_bool done;
} later;

static void *go_on_later(void *user) {
    later *l = user;
    nap(30);
    atomic_store(&l->done, true);
    set_progress(l->store, l->copying, l->tasks);
    return NULL;
}

/* Returns true if the tensor is still in use until `after` tasks are done or the copy has ended. */
static bool waits_for(tsr_store *store, const void *data, uint64_t before, uint64_t after,
                      bool copying) {
    later l = {store, after, copying, false};
    pthread_t thread;
    set_progress(store, true, before);
    cr_assert_eq(pthread_create(&thread, NULL, go_on_later, &l), 0);
    tsr_store_wait_copied(store, data);
    bool waited = atomic_load(&l.done);
    pthread_join(thread, NULL);
    set_progress(store, false, 0);
    return waited;
}

/* Each tensor takes two tasks more, in the given order, not in the order of names or addresses. */
Test(copy, a_tensor_is_given_back_when_its_last_chunk_is_copied, .timeout = 60) {
    bench *b = begin();
    tsr_tensor tensors[4];
    make_tensors(tensors);
    must_open(b);
    cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, tensors, 4).code, TSR_OK);
    for (size_t i = 0, chunks = 2; i < 4; i++) {
        if (i == 2) continue;
        set_progress(b->store, true, chunks);
        tsr_store_wait_copied(b->store, tensors[i].data); /* returns at once, or never */
        cr_assert(waits_for(b->store, tensors[i].data, chunks - 1, chunks, true), "tensor %zu", i);
        cr_assert(waits_for(b->store, tensors[i].data, 0, 0, false), "until nothing is copied");
        chunks += 2;
    }
    cr_assert(waits_for(b->store, NULL, 6, 6, false), "all");
    cr_assert(waits_for(b->store, b, 6, 6, false), "of what is unknown, all");
    cr_assert(tsr_store_poll(b->store).stall_seconds > 0);
    free_tensors(tensors);
    end(b);
}

/* ---- values that are not finite ---- */

static bench *open_finite(const tsr_tensor *tensors, size_t count) {
    bench *b = begin();
    tsr_store_options options = model_options("/s");
    options.finite = true;
    cr_assert_eq(
        tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery).code,
        TSR_OK);
    cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, tensors, count).code, TSR_OK);
    return b;
}

static tsr_save_status save_step(bench *b, uint64_t step) {
    const tsr_position position = model_position(step);
    cr_assert_eq(tsr_store_save_begin(&b->ctx, b->store, &position).code, TSR_OK);
    tsr_store_wait_copied(b->store, NULL);
    tsr_save_status told = tsr_store_poll(b->store);
    tsr_save_status status = tsr_store_wait(b->store);
    cr_assert_eq(told.nonfinite.found, status.nonfinite.found, "it is known once all is copied");
    return status;
}

/* The value may be anywhere, also at the end of a block or in the remainder after the last block,
 * in large states and in small ones. */
Test(copy, not_finite_is_not_saved) {
    static const uint64_t counts[] = {5, 600, (9 << 20) / 4 + 3};
    for (size_t n = 0; n < 3; n++) {
        const uint64_t count = counts[n];
        const uint64_t elements[] = {0, count / 2, count - 1, 511 % count, 512 % count};
        float *values = calloc(count, sizeof *values), other = 0;
        uint8_t odd[5] = {0}; /* the data after it are not aligned */
        const tsr_tensor tensors[] = {{"odd", TSR_DTYPE_UI8, {1, {5}}, odd},
                                      {"z", TSR_DTYPE_F32, {0, {0}}, &other},
                                      {"w", TSR_DTYPE_F32, {1, {count}}, values}};
        bench *b = open_finite(tensors, 3);
        uint64_t step = 0;
        for (size_t i = 0; i < 5; i++) {
            cr_assert_eq(save_step(b, ++step).committed_count, i + 1);
            values[elements[i]] = i % 2 ? NAN : -INFINITY;
            other = NAN; /* the first by name is reported */
            tsr_save_status status = save_step(b, ++step);
            cr_assert_eq(status.committed_count, i + 1);
            cr_assert(status.nonfinite.found && status.failed_count == 0);
            cr_assert_str_eq(status.nonfinite.tensor, "w");
            cr_assert_eq(status.nonfinite.element, elements[i], "%zu", status.nonfinite.element);
            cr_assert_eq(status.nonfinite.step, step);
            cr_assert(i % 2 ? isnan(status.nonfinite.value) : status.nonfinite.value < 0);
            values[elements[i]] = 0;
            status = save_step(b, ++step);
            cr_assert(status.nonfinite.found && strcmp(status.nonfinite.tensor, "z") == 0);
            cr_assert_eq(status.nonfinite.element, 0);
            other = 0;
        }
        cr_assert(!save_step(b, ++step).nonfinite.found);
        must_open(b);
        cr_assert_eq(b->recovery.generation.position.step, step);
        free(values);
        end(b);
    }
}

/* If one tensor has two such elements, the first is reported, although two threads scan the tensor
 * concurrently. */
Test(copy, the_first_element_is_told) {
    enum { COUNT = 40 << 20 >> 2 };
    float *values = calloc(COUNT, sizeof *values);
    const tsr_tensor tensor = {"w", TSR_DTYPE_F32, {1, {COUNT}}, values};
    bench *b = open_finite(&tensor, 1);
    for (uint64_t step = 1; step <= 5; step++) {
        const uint64_t first = COUNT / 10 * step + 7;
        for (uint64_t i = first; i < COUNT; i += COUNT / 30) values[i] = INFINITY;
        tsr_save_status status = save_step(b, step);
        cr_assert(status.nonfinite.found && status.nonfinite.element == first, "%zu, not %zu",
                  (size_t)status.nonfinite.element, (size_t)first);
        memset(values, 0, COUNT * sizeof *values);
    }
    free(values);
    end(b);
}

/* A caller that did not ask for the check saves such values. */
Test(copy, only_where_it_is_asked_for) {
    float value = NAN;
    const tsr_tensor tensor = {"w", TSR_DTYPE_F32, {0, {0}}, &value};
    bench *b = begin();
    must_open(b);
    cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, &tensor, 1).code, TSR_OK);
    tsr_save_status status = save_step(b, 1);
    cr_assert(status.committed_count == 1 && !status.nonfinite.found);
    end(b);
}

/* ---- past the cache ---- */

enum { STREAM_BYTES = 1024, STREAM_ROOM = STREAM_BYTES + 128 };

/* The result equals that of memcpy for every dtype, every source and target offset within a cache
 * line, and every size up to several lines. */
Test(copy, streamed_bytes_are_those_copied) {
    static _Alignas(64) uint8_t from[STREAM_ROOM], to[STREAM_ROOM], expected[STREAM_ROOM];
    for (int dtype = 1; dtype <= (int)TSR_DTYPE_COUNT; dtype++) {
        const size_t width = tsr_dtype_size((tsr_dtype)dtype);
        if (!width) continue;
        for (size_t i = 0; i < STREAM_ROOM; i++) from[i] = (uint8_t)(i * 7 % 61); /* finite */
        for (size_t at = 0; at < 64; at += 1 + at % 3)
            for (size_t into = 0; into < 64; into++) {
                size_t size = (into * 37 + at * 11) % (STREAM_BYTES / width) * width;
                memset(to, 0xee, sizeof to);
                memset(expected, 0xee, sizeof expected);
                memcpy(expected + into, from + at, size);
                cr_assert(!tsr_stream_copy((tsr_dtype)dtype, to + into, from + at, size));
                cr_assert_arr_eq(to, expected, sizeof to, "dtype %d, %zu bytes from %zu to %zu",
                                 dtype, size, at, into);
            }
    }
}

/* The value is found at the beginning, among whole cache lines, and at the end. */
Test(copy, streamed_floats_are_scanned) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F64, TSR_DTYPE_F32, TSR_DTYPE_BF16, TSR_DTYPE_F16};
    static const double values[] = {INFINITY, -INFINITY, NAN};
    static _Alignas(64) uint8_t from[STREAM_ROOM], to[STREAM_ROOM];
    for (size_t i = 0; i < 4; i++) {
        const size_t width = tsr_dtype_size(dtypes[i]);
        for (size_t into = 0; into < 64; into++)
            for (size_t k = 0; k < 400 / width; k++) {
                memset(from, 0, sizeof from);
                cr_assert(!tsr_stream_copy(dtypes[i], to + into, from, 400 / width * width));
                tsr_dtype_write(dtypes[i], values[k % 3], from, k);
                cr_assert(tsr_stream_copy(dtypes[i], to + into, from, 400 / width * width),
                          "dtype %d, element %zu to %zu", (int)dtypes[i], k, into);
            }
    }
}
