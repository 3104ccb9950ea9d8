/* SPDX-License-Identifier: Apache-2.0
 *
 * Training from memory: the same bits, states and tokens as training from files, with one virtual
 * rank or several, in one process or two; what is refused, and what a trainer does after it.
 */
#include "runtime/base/array.h"
#include "runtime/base/identity.h"
#include "runtime/base/result.h"
#include "runtime/data/array_file.h"
#include "runtime/transport/transport.h"
#include "tests/loader/memory_batches.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
TestSuite(trainer, .init = memory_batches_init, .fini = memory_batches_finish, .timeout = 120);

/* ---- the same as from files ---- */

typedef struct losses {
    size_t count;
    float values[64];
} losses;

static void record_loss(void *user, const tsr_step_report *report) {
    losses *all = user;
    cr_assert_lt(all->count, 64);
    all->values[all->count++] = *(const float *)report->outputs[0].data;
}

static void append_line(void *user, const char *line) {
    strncat(user, line, 8191 - strlen(user));
    strncat(user, "\n", 8191 - strlen(user));
}

/* Trains `steps` steps from files; returns the state hash. */
static tsr_digest train_from_files(tsr_model *model, uint64_t steps, const char *directory,
                                   uint64_t save_every, losses *out_losses) {
    tsr_train_options options = digits_training(&d, steps);
    tsr_train_summary summary;
    *out_losses = (losses){0};
    options.data_count = 2;
    options.state_directory = directory;
    options.save_every = save_every;
    options.callbacks = (tsr_train_callbacks){.user = out_losses, .step = record_loss};
    digits_must(&d, tsr_train(&d.ctx, model, &options, &summary));
    return summary.state_hash;
}

Test(trainer, steps_losses_states_and_tokens_are_those_of_files) {
    static char of_files[8192], of_memory[8192];
    char files[128], memory[128];
    losses expected;
    snprintf(files, sizeof files, "%s", digits_path(&d, "files"));
    snprintf(memory, sizeof memory, "%s", digits_path(&d, "memory"));
    tsr_digest whole = train_from_files(d.model, 40, files, 10, &expected);
    tsr_trainer_options options = options_of(memory);
    options.save_every = 10;
    tsr_trainer *trainer = open_with(d.model, &options);
    cr_assert_not(tsr_trainer_get_recovery(trainer)->found);
    for (size_t i = 0; i < 40; i++) {
        digits_must(&d, step(&d.ctx, trainer));
        cr_assert_eq(memcmp(&loss, &expected.values[i], sizeof loss), 0, "step %zu", i + 1);
        size_t count = 0;
        const tsr_tensor *outputs = tsr_trainer_get_outputs(trainer, &count);
        cr_assert(count == 1 && strcmp(outputs[0].name, "loss") == 0);
        cr_assert_eq(memcmp(&loss, outputs[0].data, sizeof loss), 0);
    }
    tsr_generation generation;
    digits_must(&d, tsr_trainer_save(&d.ctx, trainer, &generation));
    cr_assert(equal(generation.state_hash, whole) && equal(hash_of(d.model), whole));
    cr_assert(generation.position.step == 40 && generation.number == 4,
              "saved once at each position");
    tsr_trainer_close(&d.ctx, trainer);
    digits_must(&d, tsr_store_list_json(&d.ctx, files, true, append_line, of_files));
    digits_must(&d, tsr_store_list_json(&d.ctx, memory, true, append_line, of_memory));
    cr_assert(strstr(of_files, "\"step\":40") != NULL, "%s", of_files);
    cr_assert_str_eq(of_memory, of_files);
}

Test(trainer, goes_on_from_files_and_files_go_on_from_it) {
    losses ignored;
    const char *directory = digits_path(&d, "both");
    tsr_digest whole = train_from_files(d.model, 30, NULL, 0, &ignored);
    train_from_files(d.model, 11, directory, 0, &ignored);
    tsr_trainer_options options = options_of(directory);
    options.has_seed = false; /* that of the state */
    tsr_trainer *trainer = open_with(d.model, &options);
    cr_assert(tsr_trainer_get_recovery(trainer)->found);
    cr_assert_eq(tsr_trainer_get_position(trainer)->step, 11);
    step_to(trainer, 20);
    tsr_generation at_20;
    digits_must(&d, tsr_trainer_save(&d.ctx, trainer, &at_20));
    step_to(trainer, 23);
    tsr_trainer_close(&d.ctx, trainer); /* steps 21 to 23 are not saved */
    cr_assert(equal(train_from_files(d.model, 30, directory, 0, &ignored), whole));
    options.resume = TSR_RESUME_EXACT; /* back to a chosen generation */
    options.resume_generation = at_20.number;
    trainer = open_with(d.model, &options);
    cr_assert_eq(tsr_trainer_get_position(trainer)->step, 20);
    step_to(trainer, 30);
    cr_assert(equal(hash_of(d.model), whole));
    tsr_trainer_close(&d.ctx, trainer);
}

Test(trainer, saves_beside_the_steps) {
    losses ignored;
    tsr_generation generation;
    tsr_digest whole = train_from_files(d.model, 12, NULL, 0, &ignored);
    tsr_trainer_options options = options_of(digits_path(&d, "beside"));
    tsr_trainer *trainer = open_with(d.model, &options);
    for (uint64_t i = 1; i <= 12; i++) {
        step_to(trainer, i);
        digits_must(&d, tsr_trainer_save(&d.ctx, trainer, NULL));
    }
    digits_must(&d, tsr_trainer_save(&d.ctx, trainer, &generation));
    cr_assert_eq(tsr_trainer_get_saves(trainer)->committed_count, 12);
    cr_assert(equal(generation.state_hash, whole));
    tsr_trainer_close(&d.ctx, trainer);
}

/* The losses of the next steps are lower than that of step 3, which the state holds as its best. */
Test(trainer, judges_nothing_and_keeps_the_best_generation) {
    tsr_train_options options = digits_training(&d, 3);
    tsr_train_summary summary;
    tsr_generation generation;
    const char *directory = digits_path(&d, "best");
    options.state_directory = directory;
    options.keep_best = "min:train.loss";
    digits_must(&d, tsr_train(&d.ctx, d.model, &options, &summary));
    const tsr_best best = summary.position.best;
    cr_assert(best.generation == 1 && best.step == 3);
    tsr_trainer_options without = options_of(directory);
    tsr_trainer *trainer = open_with(d.model, &without);
    step_to(trainer, 30);
    cr_assert_lt(loss, best.value);
    digits_must(&d, tsr_trainer_save(&d.ctx, trainer, &generation));
    cr_assert_eq(generation.number, 2, "only tsr_trainer_save saves");
    cr_assert_eq(memcmp(&generation.position.best, &best, sizeof best), 0);
    tsr_trainer_close(&d.ctx, trainer);
}

/* ---- hyper-parameters ---- */

static void expect_lr(const char *directory, uint64_t generation, const char *value, bool is_set) {
    tsr_arena arena = {0};
    tsr_identity found = {.hyperparameter_count = 0};
    const tsr_store_program program = {.bundle_hash = tsr_model_get_digest(d.model),
                                       .identity = tsr_model_get_identity(d.model),
                                       .recovered = &found};
    tsr_recovery recovery;
    tsr_tensor *tensors;
    size_t count;
    digits_must(&d, tsr_store_read(&d.ctx, directory, &program, TSR_RESUME_EXACT, generation,
                                   &arena, &recovery, &tensors, &count));
    const tsr_hyperparameter *lr = tsr_identity_find(&found, "lr");
    cr_assert(lr && strcmp(lr->value, value) == 0 && lr->is_set == is_set);
    tsr_arena_finish(&arena);
}

/* Steps 1 to 10 with the program's value, 11 to 20 with another: as two runs of tsr_train, which
 * read the state between them. A later run keeps the value; every save records its own. */
Test(trainer, sets_hyper_parameters_between_steps) {
    tsr_train_options run = digits_training(&d, 10);
    tsr_train_summary summary;
    tsr_generation at_20;
    const char *directory = digits_path(&d, "steps"), *runs = digits_path(&d, "runs");
    run.state_directory = runs;
    digits_must(&d, tsr_train(&d.ctx, d.model, &run, &summary));
    digits_must(&d, tsr_model_set_hyperparameter(&d.ctx, d.model, "lr", 0.02));
    run.steps = 20;
    digits_must(&d, tsr_train(&d.ctx, d.model, &run, &summary));
    digits_must(&d, tsr_model_set_hyperparameter(&d.ctx, d.model, "lr", 0.001));

    tsr_trainer_options options = options_of(directory);
    options.keep = 9;
    tsr_trainer *trainer = open_with(d.model, &options);
    step_to(trainer, 10);
    digits_must(&d, tsr_trainer_save(&d.ctx, trainer, NULL));
    digits_must(&d, tsr_model_set_hyperparameter(&d.ctx, d.model, "lr", 0.02));
    step_to(trainer, 20);
    digits_must(&d, tsr_trainer_save(&d.ctx, trainer, &at_20));
    cr_assert(equal(at_20.state_hash, summary.state_hash));
    tsr_trainer_close(&d.ctx, trainer);
    expect_lr(directory, 1, "0.001", false);
    expect_lr(directory, 2, "0.02", true);
}

Test(trainer, retains_a_value_that_an_earlier_process_set) {
    tsr_trainer_options options = options_of(digits_path(&d, "kept"));
    digits_must(&d, tsr_model_set_hyperparameter(&d.ctx, d.model, "lr", 0.02));
    tsr_trainer *trainer = open_with(d.model, &options);
    step_to(trainer, 10);
    digits_must(&d, tsr_trainer_save(&d.ctx, trainer, &(tsr_generation){.number = 0}));
    step_to(trainer, 20);
    tsr_digest whole = hash_of(d.model);
    tsr_trainer_close(&d.ctx, trainer);
    tsr_model *second = digits_open(&d, NULL);
    trainer = open_with(second, &options);
    const tsr_hyperparameter *lr = tsr_identity_find(tsr_model_get_identity(second), "lr");
    cr_assert(strcmp(lr->value, "0.02") == 0 && lr->is_set);
    step_to(trainer, 20);
    cr_assert(equal(hash_of(second), whole));
    tsr_trainer_close(&d.ctx, trainer);
    tsr_model_close(&d.ctx, second);
}

static void set_in_callback(void *user, const tsr_step_report *report) {
    tsr_ctx apart = {0};
    cr_assert_eq(report->step, 1);
    cr_assert_eq(tsr_model_set_hyperparameter(&apart, d.model, "lr", 0.5).code, TSR_USAGE);
    cr_assert(strstr(apart.error.text, "no hyper-parameter can be set from a callback"), "%s",
              apart.error.text);
    ++*(int *)user;
}

Test(trainer, refuses_values_and_names) {
    static const struct {
        const char *name;
        double value;
        const char *text;
    } cases[] = {{"lr", NAN, "expected a number from 0 to"},
                 {"lr", -1, "lr is -1; expected a number from 0 to"},
                 {"lr", INFINITY, "lr is inf; expected"},
                 {"beta1", 1, "beta1 is 1; expected a number from 0 to 0.9999999999999999"},
                 {"lrr", 1, "did you mean 'lr'?"},
                 {"", 1, "'' cannot be set to 1"}};
    for (size_t i = 0; i < TSR_COUNT(cases); i++) {
        cr_assert_eq(
            tsr_model_set_hyperparameter(&d.ctx, d.model, cases[i].name, cases[i].value).code,
            TSR_USAGE);
        cr_assert(strstr(d.ctx.error.text, cases[i].text), "%s", d.ctx.error.text);
    }
    int calls = 0;
    tsr_train_summary summary;
    tsr_train_options run = digits_training(&d, 1);
    run.callbacks = (tsr_train_callbacks){.user = &calls, .step = set_in_callback};
    digits_must(&d, tsr_train(&d.ctx, d.model, &run, &summary));
    cr_assert_eq(calls, 1);
}

/* ---- batches from a function ---- */

typedef struct source {
    uint64_t calls, end_at, fail_at, raise_at;
    volatile sig_atomic_t stop;
} source;

static tsr_result give(tsr_ctx *ctx, void *user, const tsr_position *position, tsr_view *inputs,
                       size_t input_count, bool *out_end) {
    source *self = user;
    self->calls++;
    if (position->step == self->fail_at)
        return tsr_fail(ctx, TSR_DATA, "no batch %d", (int)position->step);
    *out_end = position->step == self->end_at;
    self->stop = position->step == self->raise_at;
    cr_assert_eq(input_count, 2);
    cr_assert(strcmp(inputs[0].name, "images") == 0 && inputs[0].dtype == TSR_DTYPE_UI8 &&
              inputs[0].shape.rank == 2 && !inputs[0].data);
    draw(position);
    inputs[0].data = batch_images;
    inputs[1].data = batch_labels;
    return TSR_SUCCESS;
}

static tsr_result run_to(tsr_trainer *trainer, uint64_t steps, source *from) {
    const tsr_trainer_run_options options = {.size_bytes = sizeof options,
                                             .steps = steps,
                                             .batch = give,
                                             .batch_user = from,
                                             .stop = &from->stop};
    return tsr_trainer_run(&d.ctx, trainer, &options);
}

Test(trainer, a_function_gives_the_batches) {
    losses ignored, heard = {0};
    tsr_digest whole = train_from_files(d.model, 30, NULL, 0, &ignored);
    source from = {.end_at = 12, .fail_at = 20, .raise_at = UINT64_MAX};
    tsr_trainer_options options = options_of(NULL);
    options.callbacks = (tsr_train_callbacks){.user = &heard, .step = record_loss};
    tsr_trainer *trainer = open_with(d.model, &options);
    digits_must(&d, run_to(trainer, 30, &from));
    cr_assert(tsr_trainer_get_position(trainer)->step == 12 && from.calls == 13, "the end");
    from.end_at = UINT64_MAX;
    REFUSED(&d, run_to(trainer, 30, &from), TSR_DATA, "no batch 20");
    cr_assert_eq(tsr_trainer_get_position(trainer)->step, 20, "an error of the function");
    from.fail_at = UINT64_MAX;
    from.raise_at = 25;
    digits_must(&d, run_to(trainer, 30, &from));
    cr_assert_eq(tsr_trainer_get_position(trainer)->step, 25, "a request to stop");
    from.raise_at = UINT64_MAX;
    digits_must(&d, run_to(trainer, 30, &from));
    from.calls = 0;
    digits_must(&d, run_to(trainer, 30, &from));
    cr_assert_eq(from.calls, 0, "nothing to do");
    cr_assert(equal(hash_of(d.model), whole));
    cr_assert(heard.count == 30 && memcmp(heard.values, ignored.values, 30 * sizeof(float)) == 0);
    const tsr_trainer_run_options none = {.size_bytes = sizeof none, .steps = 31};
    REFUSED(&d, tsr_trainer_run(&d.ctx, trainer, &none), TSR_USAGE, "no batch function");
    tsr_trainer_close(&d.ctx, trainer);
}

/* ---- virtual ranks, and two processes ---- */

enum { RANKS_STEPS = 10 };

static const char *ranks_bundle(void) {
    const char *path = getenv("TESSERA_RANKS_BUNDLE");
    if (!path || !path[0]) cr_skip_test("TESSERA_RANKS_BUNDLE names no bundle");
    return path;
}

/* `directory`: NULL: no save. `rate`: set after the first step; 0: none. */
static tsr_result train_ranks(tsr_ctx *ctx, tsr_transport *transport, const char *directory,
                              double rate, tsr_digest *out_hash) {
    tsr_model_options open = {.size_bytes = sizeof open, .threads = 1, .transport = transport};
    tsr_trainer_options options = options_of(directory);
    tsr_result result = TSR_SUCCESS;
    tsr_model *model = NULL;
    tsr_trainer *trainer = NULL;
    tsr_generation generation;
    TRY_GOTO(ctx, result, tsr_model_open(ctx, ranks_bundle(), &open, &model));
    TRY_GOTO(ctx, result, tsr_trainer_open(ctx, model, &options, &trainer));
    TRY_GOTO(ctx, result, step(ctx, trainer));
    if (rate > 0) TRY_GOTO(ctx, result, tsr_model_set_hyperparameter(ctx, model, "lr", rate));
    while (tsr_trainer_get_position(trainer)->step < RANKS_STEPS)
        TRY_GOTO(ctx, result, step(ctx, trainer));
    TRY_GOTO(ctx, result, tsr_model_hash_state(ctx, model, out_hash));
    if (!directory) goto done;
    TRY_GOTO(ctx, result, tsr_trainer_save(ctx, trainer, &generation));
    if (!equal(*out_hash, generation.state_hash))
        FAIL_GOTO(ctx, result, TSR_INTERNAL, "the saved state is another");
done:
    tsr_trainer_close(ctx, trainer);
    tsr_model_close(ctx, model);
    return result;
}

static tsr_result rank_body(tsr_ctx *ctx, tsr_transport *transport, void *user) {
    tsr_digest hash;
    return train_ranks(ctx, transport, user, 0, &hash);
}

static tsr_result rate_body(tsr_ctx *ctx, tsr_transport *transport, void *user) {
    const double *rates = user;
    tsr_digest hash;
    return train_ranks(ctx, transport, NULL, rates[transport->rank], &hash);
}

Test(trainer, virtual_ranks_in_one_process_and_in_two) {
    losses ignored;
    tsr_model_options open = {.size_bytes = sizeof open, .threads = 2};
    tsr_model *model = NULL;
    digits_must(&d, tsr_model_open(&d.ctx, ranks_bundle(), &open, &model));
    tsr_digest whole = train_from_files(model, RANKS_STEPS, NULL, 0, &ignored), hash;
    cr_assert(!equal(whole, train_from_files(d.model, RANKS_STEPS, NULL, 0, &ignored)),
              "the sums of virtual ranks have an order of their own");
    digits_must(&d, train_ranks(&d.ctx, NULL, digits_path(&d, "one"), 0, &hash));
    cr_assert(equal(hash, whole));

    const char *directory = digits_path(&d, "two");
    const tsr_ranks_options two = {.size_bytes = sizeof two, .rank_count = 2};
    tsr_generation generation;
    digits_must(&d, tsr_ranks_run(&d.ctx, &two, rank_body, (void *)(uintptr_t)directory));
    digits_must(&d,
                tsr_model_load_state(&d.ctx, model, directory, TSR_RESUME_AUTO, 0, &generation));
    cr_assert(generation.position.step == RANKS_STEPS && equal(hash_of(model), whole));
    tsr_model_close(&d.ctx, model);
}

Test(trainer, ranks_set_the_same_values) {
    static const struct {
        double rates[2];
        tsr_code code;
        const char *text;
    } cases[] = {
        {{0.004, 0.004}, TSR_OK, NULL},
        {{0.004, 0.005}, TSR_MISMATCH, "ranks have different values of hyper-parameters"},
        {{0.004, 0}, TSR_RANK, ""},
    };
    const tsr_ranks_options two = {.size_bytes = sizeof two, .rank_count = 2};
    for (size_t i = 0; i < TSR_COUNT(cases); i++) {
        tsr_result result =
            tsr_ranks_run(&d.ctx, &two, rate_body, (void *)(uintptr_t)cases[i].rates);
        cr_expect_eq(result.code, cases[i].code, "case %zu: %s", i, d.ctx.error.text);
        if (cases[i].text)
            cr_expect(strstr(d.ctx.error.text, cases[i].text), "%s", d.ctx.error.text);
    }
}

/* ---- what is refused ---- */

static tsr_result step_with(tsr_trainer *trainer, tsr_view first, tsr_view second,
                            const tsr_view *output) {
    const tsr_view inputs[] = {first, second};
    draw(tsr_trainer_get_position(trainer));
    return tsr_trainer_step(&d.ctx, trainer, inputs, 2, output, output != NULL);
}

static tsr_view with_name(tsr_view view, const char *name) {
    view.name = name;
    return view;
}

Test(trainer, wrong_batches_change_nothing) {
    losses ignored;
    tsr_digest whole = train_from_files(d.model, 3, NULL, 0, &ignored);
    tsr_trainer_options options = options_of(NULL);
    tsr_trainer *trainer = open_with(d.model, &options);
    tsr_view x = images_view(), y = labels_view(), bad = x, out = loss_view();
    bad.dtype = TSR_DTYPE_F32;
    REFUSED(&d, step_with(trainer, bad, y, NULL), TSR_DATA, "'images' is 64x64xf32",
            "expected 64x64xui8");
    bad = x;
    bad.shape.dims[0] = 63;
    REFUSED(&d, step_with(trainer, bad, y, NULL), TSR_DATA, "63x64xui8", "expected 64x64xui8");
    bad = x;
    bad.data = NULL;
    REFUSED(&d, step_with(trainer, bad, y, NULL), TSR_USAGE, "input 'images' has no memory",
            "4096");
    bad = x;
    bad.location = TSR_LOCATION_DEVICE;
    REFUSED(&d, step_with(trainer, bad, y, NULL), TSR_USAGE, "memory of a GPU", "runs on 'cpu:");
    bad.location = (tsr_location)7;
    REFUSED(&d, step_with(trainer, bad, y, NULL), TSR_USAGE, "location 7");
    REFUSED(&d, step_with(trainer, x, with_name(y, "label"), NULL), TSR_USAGE, "no input 'label'",
            "images (64x64xui8), labels (64xi64)");
    REFUSED(&d, step_with(trainer, x, x, NULL), TSR_USAGE, "'images'", "given twice");
    REFUSED(&d, tsr_trainer_step(&d.ctx, trainer, &x, 1, NULL, 0), TSR_USAGE,
            "input 'labels' of entry 'train' is missing");
    const tsr_view unnamed[] = {with_name(x, NULL), with_name(y, NULL), with_name(y, NULL)};
    REFUSED(&d, tsr_trainer_step(&d.ctx, trainer, unnamed, 3, NULL, 0), TSR_USAGE,
            "no input number 2");
    out.dtype = TSR_DTYPE_F64;
    REFUSED(&d, step_with(trainer, x, y, &out), TSR_DATA, "output 'loss' is f64", "expected f32");
    out = with_name(loss_view(), "accuracy");
    REFUSED(&d, step_with(trainer, x, y, &out), TSR_USAGE, "no output 'accuracy'", "loss (f32)");
    REFUSED(&d, tsr_trainer_save(&d.ctx, trainer, NULL), TSR_USAGE, "no state directory");
    cr_assert_eq(tsr_trainer_get_position(trainer)->step, 0);
    out = with_name(loss_view(), NULL);
    digits_must(&d, step_with(trainer, y, x, NULL)); /* by name, in any order */
    digits_must(&d,
                step_with(trainer, with_name(x, NULL), with_name(y, NULL), &out)); /* by index */
    cr_assert_eq(loss, ignored.values[1]);
    step_to(trainer, 3);
    cr_assert(equal(hash_of(d.model), whole));
    tsr_trainer_close(&d.ctx, trainer);
}

Test(trainer, an_error_inside_a_step_ends_the_trainer) {
    losses ignored;
    const char *directory = digits_path(&d, "broken");
    tsr_digest whole = train_from_files(d.model, 9, NULL, 0, &ignored);
    tsr_trainer_options options = options_of(directory);
    tsr_trainer *trainer = open_with(d.model, &options);
    tsr_generation generation;
    step_to(trainer, 5);
    digits_must(&d, tsr_trainer_save(&d.ctx, trainer, &generation));
    step_to(trainer, 6);
    const tsr_view inputs[] = {images_view(), labels_view()};
    draw(tsr_trainer_get_position(trainer));
    batch_labels[17] = 10;
    REFUSED(&d, tsr_trainer_step(&d.ctx, trainer, inputs, 2, NULL, 0), TSR_DATA,
            "step 7, row 17 of the batch", "10");
    REFUSED(&d, step(&d.ctx, trainer), TSR_USAGE, "step 7", "expected the trainer to be closed");
    REFUSED(&d, tsr_trainer_save(&d.ctx, trainer, NULL), TSR_USAGE, "step 7");
    tsr_trainer_close(&d.ctx, trainer);
    trainer = open_with(d.model, &options);
    cr_assert_eq(tsr_trainer_get_position(trainer)->step, 5);
    step_to(trainer, 9);
    cr_assert(equal(hash_of(d.model), whole));
    tsr_trainer_close(&d.ctx, trainer);
}

Test(trainer, a_state_goes_on_only_with_its_data) {
    const char *directory = digits_path(&d, "data");
    losses ignored;
    tsr_trainer *trainer = NULL;
    train_from_files(d.model, 4, directory, 0, &ignored);
    tsr_trainer_options options = options_of(directory);
    options.data.bytes[0] ^= 1;
    REFUSED(&d, tsr_trainer_open(&d.ctx, d.model, &options, &trainer), TSR_MISMATCH,
            "rows with digest", "the state was trained with");
    options = options_of(directory);
    options.rows--;
    REFUSED(&d, tsr_trainer_open(&d.ctx, d.model, &options, &trainer), TSR_MISMATCH, "rows");
    options.rows = 0;
    options.data = (tsr_digest){{0}};
    REFUSED(&d, tsr_trainer_open(&d.ctx, d.model, &options, &trainer), TSR_MISMATCH,
            "does not say which data", "rows with digest");
    options.seed = 2;
    REFUSED(&d, tsr_trainer_open(&d.ctx, d.model, &options, &trainer), TSR_MISMATCH, "seed 1", "2");
    cr_assert_null(trainer);
    options.seed = 1;
    options.new_data = true;
    trainer = open_with(d.model, &options);
    cr_assert(tsr_trainer_get_position(trainer)->rows == 0);
    tsr_trainer_close(&d.ctx, trainer);
    options = options_of(directory);
    trainer = open_with(d.model, &options); /* nothing was saved meanwhile */
    cr_assert_eq(tsr_trainer_get_position(trainer)->step, 4);
    tsr_trainer_close(&d.ctx, trainer);
}

Test(trainer, data_in_memory_has_the_digest_of_its_files) {
    losses ignored;
    tsr_generation generation;
    const char *directory = digits_path(&d, "digest");
    train_from_files(d.model, 1, directory, 0, &ignored);
    digits_must(&d,
                tsr_model_load_state(&d.ctx, d.model, directory, TSR_RESUME_AUTO, 0, &generation));
    cr_assert(equal(generation.position.data, digest_of_data()));
    tsr_tensor arrays[] = {{"images", TSR_DTYPE_UI8, {1, {rows * DIGITS_PIXELS}}, images},
                           {"labels", TSR_DTYPE_I64, {1, {rows}}, labels}};
    tsr_digest digest;
    digits_must(&d, tsr_data_digest(&d.ctx, arrays, 2, &digest));
    cr_assert(equal(digest, digest_of_data()), "neither order nor shape matters");
    arrays[1].name = "images";
    REFUSED(&d, tsr_data_digest(&d.ctx, arrays, 2, &digest), TSR_USAGE, "'images' is given twice");
    arrays[1].name = NULL;
    REFUSED(&d, tsr_data_digest(&d.ctx, arrays, 2, &digest), TSR_USAGE, "array 1 has no name");
    arrays[0].data = NULL;
    REFUSED(&d, tsr_data_digest(&d.ctx, arrays, 1, &digest), TSR_USAGE, "has no memory");
    REFUSED(&d, tsr_data_digest(&d.ctx, arrays, 0, &digest), TSR_USAGE, "0 arrays");
}

/* ---- files that fail ---- */

/* Trains two steps with a save after each; returns the first error. */
static tsr_result try_saves(tsr_ctx *ctx, const char *directory, bool *out_opened) {
    tsr_trainer_options options = options_of(directory);
    tsr_generation generation;
    tsr_trainer *trainer = NULL;
    tsr_result result = TSR_SUCCESS;
    ctx->io = digits_failing_io();
    TRY_GOTO(ctx, result, tsr_trainer_open(ctx, d.model, &options, &trainer));
    *out_opened = true;
    TRY_GOTO(ctx, result, step(ctx, trainer));
    TRY_GOTO(ctx, result, tsr_trainer_save(ctx, trainer, NULL));
    TRY_GOTO(ctx, result, step(ctx, trainer));
    TRY_GOTO(ctx, result, tsr_trainer_save(ctx, trainer, &generation));
    cr_assert(generation.position.step == 2 && equal(generation.state_hash, hash_of(d.model)));
done:
    tsr_trainer_close(ctx, trainer);
    return result;
}

Test(trainer, a_file_operation_that_fails_loses_no_committed_step) {
    unsigned failed = 0, survived = 0;
    losses ignored;
    tsr_digest whole = train_from_files(d.model, 2, NULL, 0, &ignored);
    for (digits_fail_at = 0;; digits_fail_at++) {
        char name[32];
        tsr_ctx ctx = {0};
        bool opened = false;
        snprintf(name, sizeof name, "io-%u", failed + survived);
        tsr_result result = try_saves(&ctx, digits_path(&d, name), &opened);
        if (!result.code && digits_operations <= digits_fail_at) break;
        failed += result.code != TSR_OK;
        survived += result.code == TSR_OK;
        digits_fail_at += digits_fail_at > 40 ? 6 : 0;
        uint64_t fail_at = digits_fail_at;
        digits_fail_at = UINT64_MAX;
        if (result.code)
            cr_assert(result.code == TSR_IO || result.code == TSR_SAVE, "%s", ctx.error.text);
        tsr_trainer_options options = options_of(digits_path(&d, name));
        tsr_trainer *trainer = open_with(d.model, &options);
        cr_assert_leq(tsr_trainer_get_position(trainer)->step, 2);
        if (!result.code) cr_assert_eq(tsr_trainer_get_position(trainer)->step, 2);
        step_to(trainer, 2);
        cr_assert(equal(hash_of(d.model), whole), "operation %" PRIu64, fail_at);
        tsr_trainer_close(&d.ctx, trainer);
        digits_fail_at = fail_at;
    }
    digits_fail_at = UINT64_MAX;
    cr_assert(failed > 5 && survived > 5, "%u failed, %u survived", failed, survived);
}

/* ---- arguments ---- */

/* w -= 0.1 * d(mean(x * w * rate))/dw, from w = 1: computed in double precision here. */
Test(trainer, an_argument_is_given_with_each_batch) {
    const char *path = getenv("TESSERA_RATED_BUNDLE");
    if (!path || !path[0]) cr_skip_test("TESSERA_RATED_BUNDLE names no bundle");
    float x[4][3], rate = 0, w[3], value = 0;
    double expected[3] = {1, 1, 1}, expected_loss = 0;
    tsr_model *model = NULL;
    tsr_trainer *trainer = NULL;
    digits_must(&d, tsr_model_open(&d.ctx, path, NULL, &model));
    digits_must(&d, tsr_trainer_open(&d.ctx, model, NULL, &trainer));
    const tsr_view inputs[] = {{"x", TSR_DTYPE_F32, {2, {4, 3}}, x, TSR_LOCATION_HOST},
                               {"rate", TSR_DTYPE_F32, {0}, &rate, TSR_LOCATION_HOST}};
    const tsr_view output = {"loss", TSR_DTYPE_F32, {0}, &value, TSR_LOCATION_HOST};
    for (int round = 1; round <= 3; round++) {
        double sums[3] = {0};
        rate = 0.5F * (float)round;
        expected_loss = 0;
        for (int i = 0; i < 12; i++) {
            x[i / 3][i % 3] = (float)(i * round % 7) - 2.5F;
            sums[i % 3] += (double)x[i / 3][i % 3] * (double)rate / 12;
        }
        for (int j = 0; j < 3; j++) expected_loss += sums[j] * expected[j];
        for (int j = 0; j < 3; j++) expected[j] -= 0.1 * sums[j];
        digits_must(&d, tsr_trainer_step(&d.ctx, trainer, inputs, 2, &output, 1));
        cr_assert_float_eq((double)value, expected_loss, 1e-6, "step %d", round);
    }
    const tsr_view parameter = {"w", TSR_DTYPE_F32, {1, {3}}, w, TSR_LOCATION_HOST};
    digits_must(&d, tsr_model_read_tensor(&d.ctx, model, &parameter));
    for (int j = 0; j < 3; j++) cr_assert_float_eq((double)w[j], expected[j], 1e-6, "w[%d]", j);
    REFUSED(&d, tsr_trainer_step(&d.ctx, trainer, inputs, 1, NULL, 0), TSR_USAGE,
            "input 'rate' of entry 'train' is missing");
    tsr_trainer_close(&d.ctx, trainer);
    tsr_model_close(&d.ctx, model);
}

/* ---- options ---- */

Test(trainer, options_of_any_age) {
    tsr_trainer_options options = options_of(NULL);
    tsr_trainer *trainer = NULL;
    options.size_bytes = sizeof options + 8;
    REFUSED(&d, tsr_trainer_open(&d.ctx, d.model, &options, &trainer), TSR_USAGE,
            "tsr_trainer_options");
    options.size_bytes = sizeof options;
    options.entry = "predict";
    REFUSED(&d, tsr_trainer_open(&d.ctx, d.model, &options, &trainer), TSR_USAGE,
            "'predict' does not train");
    digits_must(&d, tsr_trainer_open(&d.ctx, d.model, NULL, &trainer));
    cr_assert_eq(tsr_trainer_get_position(trainer)->seed, 0);
    tsr_trainer *second = NULL;
    REFUSED(&d, tsr_trainer_open(&d.ctx, d.model, NULL, &second), TSR_USAGE, "is in use",
            "a trainer has it open");
    tsr_trainer_close(&d.ctx, trainer);
    tsr_trainer_close(&d.ctx, NULL);
}
