/* SPDX-License-Identifier: Apache-2.0
 *
 * Training through the library: callbacks, stopping, resuming, replaying, on one model and several.
 */
#include "loader/model.h"
#include "runtime/base/array.h"
#include "runtime/data/shuffle.h"
#include "runtime/store.h"
#include "tests/loader/digits.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct heard {
    unsigned begun, steps, evals, saves;
    uint64_t first_step, last_step, saved_step;
    double accuracy;
    bool found;
    uint64_t stop_at;
} heard;

static digits d;
static heard h;
static volatile sig_atomic_t stop;

static void init(void) {
    h = (heard){0};
    stop = 0;
    digits_init(&d);
}
static void finish(void) { digits_finish(&d); }
TestSuite(train, .init = init, .fini = finish);

static void on_step(void *user, const tsr_step_report *step) {
    heard *self = user;
    cr_assert_eq(step->step, self->last_step ? self->last_step + 1 : step->first_step + 1);
    cr_assert_str_eq(step->outputs[0].name, "loss");
    cr_assert_eq(step->samples, DIGITS_BATCH);
    self->steps++;
    self->last_step = step->step;
    stop = step->step == self->stop_at;
}
static void on_eval(void *user, const tsr_eval_report *eval) {
    heard *self = user;
    self->evals++;
    cr_assert_eq(eval->rows, DIGITS_TEST_ROWS);
    self->accuracy = eval->means[1];
}
static void on_saved(void *user, const tsr_save_status *saves) {
    heard *self = user;
    cr_assert_gt(saves->last_committed.position.step, self->saved_step, "once each, in order");
    self->saves++;
    self->saved_step = saves->last_committed.position.step;
}
static void on_begun(void *user, const tsr_recovery *recovery, const tsr_position *position) {
    heard *self = user;
    cr_assert_eq(self->steps, 0, "before the first step");
    self->begun++;
    self->found = recovery->found;
    self->first_step = position->step;
}

static tsr_train_options listening(uint64_t steps) {
    tsr_train_options options = digits_training(&d, steps);
    h = (heard){.stop_at = h.stop_at};
    stop = 0;
    options.callbacks = (tsr_train_callbacks){&h, on_step, on_eval, on_saved, NULL};
    options.begun = on_begun;
    options.stop = &stop;
    return options;
}

static tsr_digest run(tsr_model *model, const tsr_train_options *options) {
    tsr_train_summary summary;
    digits_must(&d, tsr_train(&d.ctx, model, options, &summary));
    tsr_digest hash = digits_state_hash(model);
    cr_assert(tsr_digest_equal(&hash, &summary.state_hash));
    return hash;
}

static bool equal(tsr_digest a, tsr_digest b) { return tsr_digest_equal(&a, &b); }

Test(train, twice_on_one_model_and_a_call_uses_what_was_learnt) {
    static float y[DIGITS_TEST_ROWS * DIGITS_CLASSES];
    tsr_train_options options = listening(300);
    options.eval_every = 100;
    tsr_digest first = run(d.model, &options);
    cr_assert(h.begun == 1 && h.steps == 300 && h.evals == 3 && h.saves == 0 && !h.found);
    cr_assert_gt(h.accuracy, 0.9);
    double accuracy = h.accuracy, hits = 0;
    uint8_t *images = digits_test_images(&d);
    int64_t *labels = digits_test_labels(&d);
    digits_must(&d, digits_predict(&d.ctx, d.model, images, DIGITS_TEST_ROWS, y));
    for (int row = 0; row < DIGITS_TEST_ROWS; row++) {
        const float *scores = y + row * DIGITS_CLASSES;
        int best = 0;
        for (int i = 1; i < DIGITS_CLASSES; i++)
            if (scores[i] > scores[best]) best = i;
        hits += best == labels[row] ? 1.0 / DIGITS_TEST_ROWS : 0;
    }
    cr_assert_float_eq(hits, accuracy, 1e-9, "what is called is what was evaluated");
    options = listening(300);
    cr_assert(equal(run(d.model, &options), first),
              "without a state directory each starts from the beginning");
    options = listening(300);
    options.seed = 2;
    cr_assert(!equal(run(d.model, &options), first));
    free(images);
    free(labels);
}

Test(train, stopped_then_resumed_equals_undisturbed) {
    tsr_train_summary summary;
    tsr_train_options options = listening(60);
    tsr_digest whole = run(d.model, &options);
    h.stop_at = 23;
    options = listening(60);
    options.state_directory = digits_path(&d, "state");
    options.save_every = 10;
    digits_must(&d, tsr_train(&d.ctx, d.model, &options, &summary));
    cr_assert(summary.stopped && summary.position.step == 23 && h.evals == 0);
    cr_assert(h.saves == 3 && h.saved_step == 23 && !h.found);
    h.stop_at = 0;
    options = listening(60);
    options.state_directory = digits_path(&d, "state");
    options.has_seed = false; /* uses the seed of the state */
    tsr_model *other = digits_open(&d, NULL);
    cr_assert(equal(run(other, &options), whole));
    cr_assert(h.found && h.first_step == 23 && h.steps == 37 && h.saves == 1 && h.evals == 1);
    options = listening(60);
    options.state_directory = digits_path(&d, "state");
    cr_assert(equal(run(d.model, &options), whole), "nothing to do");
    cr_assert(h.begun == 1 && h.steps == 0 && h.saves == 0);
    tsr_model_close(&d.ctx, other);
}

static tsr_result try(const tsr_train_options *options) {
    tsr_train_summary summary;
    return tsr_train(&d.ctx, d.model, options, &summary);
}

Test(train, what_is_refused) {
    tsr_train_options options = digits_training(&d, 0);
    REFUSED(&d, try(&options), TSR_USAGE, "steps is 0");
    options = digits_training(&d, 5);
    options.data_count = 0;
    REFUSED(&d, try(&options), TSR_USAGE, "'train'", "images", "ui8", "labels", "i64");
    options = digits_training(&d, 5);
    options.data_count = 3;
    REFUSED(&d, try(&options), TSR_USAGE, "'evaluate'", "test_labels");
    options = digits_training(&d, 5);
    options.data_count = 2;
    options.eval_every = 2;
    REFUSED(&d, try(&options), TSR_USAGE, "evaluation every 2 steps");
    options = digits_training(&d, 5);
    options.entry = "predict";
    REFUSED(&d, try(&options), TSR_USAGE, "'predict' does not train");
    options.entry = "none";
    REFUSED(&d, try(&options), TSR_USAGE, "no entry 'none'");
    options = digits_training(&d, 5);
    options.record = options.replay = digits_path(&d, "run.log");
    REFUSED(&d, try(&options), TSR_USAGE, "not both");
    options = digits_training(&d, 5);
    options.params = digits_path(&d, "none.safetensors");
    REFUSED(&d, try(&options), TSR_IO, "none.safetensors");
    options = digits_training(&d, 5);
    options.size_bytes += 8;
    REFUSED(&d, try(&options), TSR_USAGE, "tsr_train_options has");
    cr_assert_eq(digits_count_files(d.folder), 0);
}

/* The options of an older program end before the state directory. */
Test(train, options_of_an_older_program) {
    tsr_train_options options = digits_training(&d, 5);
    options.size_bytes = offsetof(tsr_train_options, state_directory);
    options.state_directory = digits_path(&d, "state");
    digits_must(&d, try(&options));
    cr_assert_eq(digits_count_files(d.folder), 0);
}

Test(train, a_state_that_does_not_fit) {
    tsr_train_options options = digits_training(&d, 5);
    options.state_directory = digits_path(&d, "state");
    digits_must(&d, try(&options));
    options.seed = 2;
    REFUSED(&d, try(&options), TSR_MISMATCH, "seed 1; this run has 2");
    options.seed = 1;
    options.resume = TSR_RESUME_NEVER;
    REFUSED(&d, try(&options), TSR_STATE, "state");
    options.resume = TSR_RESUME_EXACT;
    options.resume_generation = 77;
    REFUSED(&d, try(&options), TSR_STATE, "77");
    options.resume = TSR_RESUME_AUTO;
    options.keep = 1;
    REFUSED(&d, try(&options), TSR_USAGE, "1");
}

/* Saves a state of this bundle and these tensors, as another program would. */
static void save_state(const char *directory, const tsr_position *position) {
    const tsr_store_options options = {.size_bytes = sizeof options,
                                       .directory = directory,
                                       .bundle_hash = tsr_model_get_digest(d.model),
                                       .numerics = tsr_model_get_numerics(d.model),
                                       .keep = 2};
    tsr_store *store = NULL;
    tsr_recovery recovery;
    digits_must(&d, tsr_store_open(&d.ctx, &options, TSR_RESUME_AUTO, 0, &store, &recovery));
    digits_must(&d, tsr_store_reserve(&d.ctx, store, d.model->state, d.model->state_count));
    digits_must(&d, tsr_store_save(&d.ctx, store, position));
    cr_assert_eq(tsr_store_wait(store).committed_count, 1);
    tsr_store_close(&d.ctx, store);
}

/* States of the same bundle with a different V, a different shuffle, or a different position in the
 * data. */
Test(train, a_state_of_another_v) {
    static const struct {
        const char *name;
        tsr_position position;
        const char *text;
    } rows[] = {
        {"v",
         {.seed = 1,
          .step = 3,
          .sample = 3 * DIGITS_BATCH,
          .virtual_ranks = 2,
          .shuffle_version = TSR_SHUFFLE_VERSION},
         "the state has virtual ranks 2; this run has 1"},
        {"shuffle",
         {.seed = 1,
          .step = 3,
          .sample = 3 * DIGITS_BATCH,
          .virtual_ranks = 1,
          .shuffle_version = TSR_SHUFFLE_VERSION + 1},
         "the state has shuffle version"},
        {"sample",
         {.seed = 1,
          .step = 3,
          .sample = 3 * DIGITS_BATCH + 1,
          .virtual_ranks = 1,
          .shuffle_version = TSR_SHUFFLE_VERSION},
         "the state has global sample index"},
    };
    tsr_train_options options = digits_training(&d, 5);
    digits_must(&d, try(&options)); /* the tensors have values */
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        options.state_directory = digits_path(&d, rows[i].name);
        save_state(options.state_directory, &rows[i].position);
        size_t files = digits_count_files(options.state_directory);
        REFUSED(&d, try(&options), TSR_MISMATCH, rows[i].text);
        cr_assert_geq(digits_count_files(options.state_directory), files, "one is lost");
    }
}

Test(train, a_log_is_replayed_to_the_same_bits) {
    const char *log = digits_path(&d, "run.log"), *second = digits_path(&d, "second.log");
    tsr_train_options options = digits_training(&d, 12);
    options.record = log;
    options.state_directory = digits_path(&d, "state");
    digits_must(&d, try(&options));
    REFUSED(&d, try(&options), TSR_USAGE, log, "never overwritten");
    options = digits_training(&d, 20);
    options.record = second;
    options.state_directory = digits_path(&d, "state");
    digits_must(&d, try(&options));

    options = digits_training(&d, 0);
    options.has_seed = false;
    options.replay = log;
    options.begun = on_begun;
    options.callbacks = (tsr_train_callbacks){&h, on_step, NULL, NULL, NULL};
    digits_must(&d, try(&options));
    cr_assert(h.steps == 12 && h.first_step == 0);
    options.has_seed = true;
    options.seed = 5;
    options.callbacks.step = NULL;
    options.begun = NULL;
    REFUSED(&d, try(&options), TSR_DIVERGED, "step 0, tensor 'layer1.weight'");
    options.has_seed = false;
    options.replay = second;
    REFUSED(&d, try(&options), TSR_USAGE, "begins at step 12");
    options.state_directory = digits_path(&d, "state");
    options.callbacks.user = NULL;
    digits_must(&d, try(&options));
    tsr_binding swapped[] = {d.data[0], {"labels", digits_path(&d, "none.npy")}};
    options.data = swapped;
    options.data_count = 2;
    REFUSED(&d, try(&options), TSR_IO, "none.npy");
}

/* Code without FMA gives other bits: neither a state nor a log of the other numerics is continued.
 */
Test(train, numerics_are_never_mixed) {
    if (strcmp(tsr_model_get_target(d.model), "cpu:x86-64-v2") == 0)
        cr_skip_test("this CPU has x86-64-v2 alone");
    tsr_model *v2 = digits_open(&d, "x86-64-v2"), *v3 = digits_open(&d, "x86-64-v3");
    tsr_train_options options = digits_training(&d, 10);
    tsr_train_summary summary;
    tsr_digest mine = run(d.model, &options);
    cr_assert(equal(run(v3, &options), mine), "every level with FMA gives the same bits");
    cr_assert(!equal(run(v2, &options), mine), "otherwise there is nothing to refuse");
    options.state_directory = digits_path(&d, "state");
    options.record = digits_path(&d, "run.log");
    run(v3, &options);
    options = digits_training(&d, 20);
    options.state_directory = digits_path(&d, "state");
    REFUSED(&d, tsr_train(&d.ctx, v2, &options, &summary), TSR_MISMATCH, "'portable+fma.2'",
            "'portable.2'");
    run(d.model, &options);
    options = digits_training(&d, 0);
    options.replay = digits_path(&d, "run.log");
    REFUSED(&d, tsr_train(&d.ctx, v2, &options, &summary), TSR_MISMATCH, "numerics 'portable.2'",
            "'portable+fma.2'");
    run(d.model, &options);
    tsr_model_close(&d.ctx, v2);
    tsr_model_close(&d.ctx, v3);
}

Test(train, starts_from_given_parameters) {
    const char *path = digits_path(&d, "p.safetensors");
    tsr_train_options options = digits_training(&d, 10);
    tsr_digest plain = run(d.model, &options);
    digits_must(&d, tsr_model_initialize(&d.ctx, d.model, 9));
    digits_must(&d, tsr_model_export_params(&d.ctx, d.model, path));
    options.params = path;
    tsr_digest given = run(d.model, &options);
    cr_assert(!equal(given, plain));
    cr_assert(equal(run(d.model, &options), given));
}
