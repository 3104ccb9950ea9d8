/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading and exporting parameters.
 */
#include "runtime/data/array_file.h"
#include "tests/loader/digits.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static digits d;
static void init(void) {
    digits_init(&d);
    digits_must(&d, tsr_model_initialize(&d.ctx, d.model, 3));
}
static void finish(void) { digits_finish(&d); }
TestSuite(params, .init = init, .fini = finish);

/* Returns the parameters in the model's memory: the state without the optimizer's state. */
static size_t collect(const tsr_model *model, tsr_tensor out_params[static 16]) {
    size_t state_count = 0, count = 0;
    const tsr_tensor *state = tsr_model_get_state(model, &state_count);
    for (size_t i = 0; i < state_count; i++) {
        const tsr_config_tensor *tensor =
            tsr_config_find_tensor(tsr_model_get_config(model), state[i].name);
        if (tensor->role == TSR_ROLE_PARAM) out_params[count++] = state[i];
    }
    cr_assert_eq(count, 6);
    return count;
}

static bool equal_params(const tsr_model *a, const tsr_model *b) {
    tsr_tensor x[16], y[16];
    size_t count = collect(a, x);
    collect(b, y);
    for (size_t i = 0; i < count; i++) {
        uint64_t size = 0;
        cr_assert(tsr_shape_size(&x[i].shape, x[i].dtype, &size));
        if (memcmp(x[i].data, y[i].data, (size_t)size) != 0) return false;
    }
    return true;
}

Test(params, depend_on_the_seed_alone) {
    tsr_model *other = digits_open(&d, NULL);
    digits_must(&d, tsr_model_initialize(&d.ctx, other, 4));
    cr_assert(!equal_params(d.model, other));
    digits_must(&d, tsr_model_initialize(&d.ctx, other, 3));
    cr_assert(equal_params(d.model, other));
    tsr_model_close(&d.ctx, other);
}

Test(params, survive_a_file) {
    const char *path = digits_path(&d, "p.safetensors");
    tsr_model *other = digits_open(&d, NULL);
    digits_must(&d, tsr_model_export_params(&d.ctx, d.model, path));
    digits_must(&d, tsr_model_load_params(&d.ctx, other, path)); /* into a model without values */
    cr_assert(equal_params(d.model, other));
    tsr_digest mine = digits_state_hash(d.model), theirs = digits_state_hash(other);
    cr_assert(tsr_digest_equal(&mine, &theirs), "its optimizer state has its first values");
    digits_must(&d, tsr_model_initialize(&d.ctx, other, 4));
    digits_must(&d, tsr_model_load_params(&d.ctx, other, path));
    cr_assert(equal_params(d.model, other));
    tsr_model_close(&d.ctx, other);
}

/* A file with additional tensors is accepted. A file that lacks a parameter, or has it in another
 * type, changes nothing. */
Test(params, files_that_do_not_fit) {
    const char *path = digits_path(&d, "p.safetensors");
    float extra[3] = {1, 2, 3};
    tsr_tensor params[16];
    tsr_digest before = digits_state_hash(d.model);
    size_t count = collect(d.model, params);
    params[count] = (tsr_tensor){"aaa.extra", TSR_DTYPE_F32, {1, {3}}, extra};
    digits_must(&d, tsr_safetensors_write(&d.ctx, path, params, count + 1, NULL));
    digits_must(&d, tsr_model_load_params(&d.ctx, d.model, path));

    digits_must(&d, tsr_safetensors_write(&d.ctx, path, params, count - 1, NULL));
    REFUSED(&d, tsr_model_load_params(&d.ctx, d.model, path), TSR_MISMATCH, path, "no tensor '",
            params[count - 1].name);
    tsr_tensor narrow = params[count - 1];
    params[count - 1].shape.dims[0] /= 2;
    digits_must(&d, tsr_safetensors_write(&d.ctx, path, params, count, NULL));
    REFUSED(&d, tsr_model_load_params(&d.ctx, d.model, path), TSR_MISMATCH, "32x10xf32",
            "64x10xf32");
    params[count - 1] = narrow;
    params[count - 1].dtype = TSR_DTYPE_I32;
    digits_must(&d, tsr_safetensors_write(&d.ctx, path, params, count, NULL));
    REFUSED(&d, tsr_model_load_params(&d.ctx, d.model, path), TSR_MISMATCH, "64x10xi32",
            "64x10xf32");
    tsr_digest after = digits_state_hash(d.model);
    cr_assert(tsr_digest_equal(&before, &after));
}

static void write_bytes(const char *path, const void *bytes, size_t size) {
    tsr_arena arena = {0};
    tsr_io_atomic file;
    digits_must(&d, tsr_io_atomic_open(&d.ctx, path, &arena, &file));
    digits_must(&d, tsr_io_write_all(&d.ctx, file.fd, path, bytes, size, 0));
    digits_must(&d, tsr_io_atomic_commit(&d.ctx, &file));
    tsr_arena_finish(&arena);
}

Test(params, files_that_are_none) {
    const char *path = digits_path(&d, "p.safetensors");
    REFUSED(&d, tsr_model_load_params(&d.ctx, d.model, path), TSR_IO, path, "No such file");
    REFUSED(&d, tsr_model_load_params(&d.ctx, d.model, d.folder), TSR_IO, "directory");
    write_bytes(path, "1234567", 7);
    REFUSED(&d, tsr_model_load_params(&d.ctx, d.model, path), TSR_DATA, "7 bytes", "at least 8");
    write_bytes(path, "\x09\0\0\0\0\0\0\0{}", 10);
    REFUSED(&d, tsr_model_load_params(&d.ctx, d.model, path), TSR_DATA, "9 bytes; 2 follow");
    write_bytes(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    REFUSED(&d, tsr_model_load_params(&d.ctx, d.model, path), TSR_DATA, "18446744073709551615");
    write_bytes(path, "\x02\0\0\0\0\0\0\0[]", 10);
    REFUSED(&d, tsr_model_load_params(&d.ctx, d.model, path), TSR_DATA, path);
}

/* A read that fails half-way makes the model unusable until its tensors are set again. */
Test(params, a_load_that_fails_half_way) {
    const char *path = digits_path(&d, "p.safetensors");
    uint8_t x[DIGITS_PIXELS] = {0};
    float y[DIGITS_CLASSES];
    size_t files = digits_count_files("/proc/self/fd");
    tsr_ctx ctx = {.io = digits_failing_io()};
    unsigned half_way = 0;
    digits_must(&d, tsr_model_export_params(&d.ctx, d.model, path));
    for (digits_fail_at = 0;; digits_fail_at++) {
        digits_operations = 0;
        tsr_result result = tsr_model_load_params(&ctx, d.model, path);
        cr_assert_eq(digits_count_files("/proc/self/fd"), files);
        if (!result.code) break;
        cr_assert_eq(result.code, TSR_IO, "%s", ctx.error.text);
        result = digits_predict(&d.ctx, d.model, x, 1, y);
        half_way += result.code == TSR_USAGE;
        digits_must(&d, tsr_model_initialize(&d.ctx, d.model, 3));
    }
    cr_assert_eq(half_way, 6, "as often as there are parameters");
    digits_must(&d, digits_predict(&d.ctx, d.model, x, 1, y));
}

/* An error in the search for leftovers of dead processes does not matter. After the rename only the
 * sync of the directory can fail. */
Test(params, an_export_that_fails_leaves_nothing) {
    const char *path = digits_path(&d, "p.safetensors");
    tsr_ctx ctx = {.io = digits_failing_io()};
    unsigned failed = 0;
    for (digits_fail_at = 0;; digits_fail_at++) {
        digits_operations = 0;
        tsr_result result = tsr_model_export_params(&ctx, d.model, path);
        bool is_there = access(path, F_OK) == 0;
        cr_assert_eq(digits_count_files(d.folder), is_there, "operation %" PRIu64, digits_fail_at);
        cr_assert(is_there || result.code == TSR_IO);
        failed += !is_there;
        if (digits_operations <= digits_fail_at) break;
        unlink(path);
    }
    cr_assert_geq(failed, 4, "open, write, sync, rename: %u", failed);
    unlink(path);
}

Test(params, from_a_state_directory) {
    const char *state = digits_path(&d, "state");
    tsr_train_options options = digits_training(&d, 20);
    tsr_train_summary summary;
    tsr_generation generation = {0};
    tsr_model *other = digits_open(&d, NULL);
    REFUSED(&d, tsr_model_load_state(&d.ctx, other, state, TSR_RESUME_AUTO, 0, &generation), TSR_IO,
            state);
    options.state_directory = state;
    options.save_every = 10;
    digits_must(&d, tsr_train(&d.ctx, d.model, &options, &summary));
    digits_must(&d, tsr_model_load_state(&d.ctx, other, state, TSR_RESUME_AUTO, 0, &generation));
    cr_assert_eq(generation.position.step, 20);
    tsr_digest hash = digits_state_hash(other);
    cr_assert(tsr_digest_equal(&hash, &summary.state_hash));
    cr_assert(tsr_digest_equal(&hash, &generation.state_hash));
    digits_must(&d, tsr_model_load_state(&d.ctx, other, state, TSR_RESUME_EXACT,
                                         generation.number - 1, &generation));
    cr_assert_eq(generation.position.step, 10);
    REFUSED(&d, tsr_model_load_state(&d.ctx, other, state, TSR_RESUME_EXACT, 77, &generation),
            TSR_STATE, "77");
    cr_assert_eq(generation.position.step, 10, "written only on success");
    tsr_model_close(&d.ctx, other);
}

/* ---- tensors prepared from parameters are updated ---- */

enum { ROWS = 3 };
typedef struct answer {
    float y[ROWS * DIGITS_CLASSES];
} answer;

static answer predict(tsr_model *model) {
    static uint8_t images[ROWS * DIGITS_PIXELS];
    answer got;
    for (size_t i = 0; i < sizeof images; i++) images[i] = (uint8_t)(i * 7 % 17);
    digits_must(&d, digits_predict(&d.ctx, model, images, ROWS, got.y));
    return got;
}

/* Returns the answer of a model that never had other parameters. */
static answer predict_fresh(uint32_t seed) {
    tsr_model *model = digits_open(&d, NULL);
    digits_must(&d, tsr_model_initialize(&d.ctx, model, seed));
    answer got = predict(model);
    tsr_model_close(&d.ctx, model);
    return got;
}

static bool equal_answers(answer a, answer b) { return memcmp(&a, &b, sizeof a) == 0; }

Test(params, count_from_the_next_call_on) {
    const char *path = digits_path(&d, "other.safetensors");
    answer three = predict_fresh(3), four = predict_fresh(4);
    cr_assert(!equal_answers(three, four));
    cr_assert_gt(tsr_model_get_memory_plan(d.model).prepacked_bytes, 0, "nothing is tested here");
    tsr_model *other = digits_open(&d, NULL);
    digits_must(&d, tsr_model_initialize(&d.ctx, other, 4));
    digits_must(&d, tsr_model_export_params(&d.ctx, other, path));
    tsr_model_close(&d.ctx, other);
    cr_assert(equal_answers(predict(d.model), three));
    digits_must(&d, tsr_model_load_params(&d.ctx, d.model, path));
    cr_assert(equal_answers(predict(d.model), four), "loaded");
    digits_must(&d, tsr_model_initialize(&d.ctx, d.model, 3));
    cr_assert(equal_answers(predict(d.model), three), "initialised");
}

Test(params, written_through_the_state_count_too) {
    tsr_tensor mine[16], theirs[16];
    answer four = predict_fresh(4);
    tsr_model *other = digits_open(&d, NULL);
    digits_must(&d, tsr_model_initialize(&d.ctx, other, 4));
    predict(d.model);
    size_t count = collect(d.model, mine);
    collect(other, theirs);
    for (size_t i = 0; i < count; i++) {
        uint64_t size = 0;
        cr_assert(tsr_shape_size(&mine[i].shape, mine[i].dtype, &size));
        memcpy(mine[i].data, theirs[i].data, (size_t)size);
    }
    cr_assert(equal_answers(predict(d.model), four));
    tsr_model_close(&d.ctx, other);
}

Test(params, trained_count_from_the_next_call_on) {
    const char *state = digits_path(&d, "state");
    answer before = predict(d.model);
    tsr_train_options options = digits_training(&d, 5);
    tsr_train_summary summary;
    options.state_directory = state;
    digits_must(&d, tsr_train(&d.ctx, d.model, &options, &summary));
    answer trained = predict(d.model);
    cr_assert(!equal_answers(before, trained));
    digits_must(&d, tsr_model_initialize(&d.ctx, d.model, 3));
    cr_assert(equal_answers(predict(d.model), before));
    tsr_generation generation;
    digits_must(&d, tsr_model_load_state(&d.ctx, d.model, state, TSR_RESUME_AUTO, 0, &generation));
    cr_assert(equal_answers(predict(d.model), trained), "a state");
    digits_must(&d, tsr_model_initialize(&d.ctx, d.model, 3));
    predict(d.model);
    options.resume = TSR_RESUME_AUTO;
    digits_must(&d, tsr_train(&d.ctx, d.model, &options, &summary)); /* no step is left */
    cr_assert(equal_answers(predict(d.model), trained), "resumed");
}
