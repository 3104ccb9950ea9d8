/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls every public function while a model is in use, from a callback or between the steps of a
 * trainer: functions that change the model are refused, all others work, and the active run still
 * computes the same bits.
 */
#include "runtime/base/array.h"
#include "tessera/dlpack.h"
#include "tessera/trainer.h"
#include "tests/loader/digits.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static digits d;
static char state_path[128], params_path[128];
static uint8_t *images;
static const tsr_model *idle; /* an idle model for comparison */
static tsr_trainer *trainer;  /* that of d.model, or NULL */

/* The context from which a function is called. */
typedef enum context { IN_TRAINING, IN_A_CALL, IN_ADOPTION, AT_TRAINER, IN_STEP, CONTEXTS } context;
static const char *const context_names[CONTEXTS] = {"training", "a call", "an adoption",
                                                    "a trainer", "a trainer's step"};

static void ignore_line(void *user, const char *line) {
    (void)user;
    (void)line;
}

static tsr_result fail_unless(bool condition) {
    return condition ? TSR_SUCCESS : (tsr_result){TSR_USAGE};
}

/* ---- one test function for each public function ---- */

static tsr_result version(tsr_ctx *ctx) {
    (void)ctx;
    return fail_unless(tsr_version()[0] != 0);
}
static tsr_result open_another(tsr_ctx *ctx) {
    tsr_model *other = NULL;
    tsr_result result = tsr_model_open(ctx, digits_bundle_path(), NULL, &other);
    tsr_model_close(ctx, other);
    return result;
}
static tsr_result close_it(tsr_ctx *ctx) {
    tsr_model_close(ctx, d.model); /* the next row uses it */
    return TSR_SUCCESS;
}
static tsr_result get_config(tsr_ctx *ctx) {
    (void)ctx;
    return fail_unless(tsr_model_get_config(d.model)->entry_count > 0);
}
static tsr_result get_digest(tsr_ctx *ctx) {
    (void)ctx;
    tsr_digest own = tsr_model_get_digest(d.model), other = tsr_model_get_digest(idle);
    return fail_unless(tsr_digest_equal(&own, &other));
}
static tsr_result get_identity(tsr_ctx *ctx) {
    (void)ctx;
    const tsr_identity *own = tsr_model_get_identity(d.model);
    return fail_unless(tsr_identity_is_known(own) && own->hyperparameter_count > 0 &&
                       tsr_digest_equal(&own->program, &tsr_model_get_identity(idle)->program));
}
static tsr_result get_target(tsr_ctx *ctx) {
    (void)ctx;
    return fail_unless(!strcmp(tsr_model_get_target(d.model), tsr_model_get_target(idle)));
}
static tsr_result get_choice(tsr_ctx *ctx) {
    (void)ctx;
    return fail_unless(!strcmp(tsr_model_get_choice(d.model), tsr_model_get_choice(idle)));
}
static tsr_result get_numerics(tsr_ctx *ctx) {
    (void)ctx;
    return fail_unless(!strcmp(tsr_model_get_numerics(d.model), tsr_model_get_numerics(idle)));
}
static tsr_result get_thread_count(tsr_ctx *ctx) {
    (void)ctx;
    return fail_unless(tsr_model_get_thread_count(d.model) > 0);
}
static tsr_result get_exchange(tsr_ctx *ctx) {
    (void)ctx;
    const char *reason = NULL;
    return fail_unless(tsr_model_get_exchange(d.model, &reason) == NULL);
}
static tsr_result get_memory_plan(tsr_ctx *ctx) {
    (void)ctx;
    return fail_unless(tsr_model_get_memory_plan(d.model).total_bytes ==
                       tsr_model_get_memory_plan(idle).total_bytes);
}
static tsr_result find_weights(tsr_ctx *ctx) {
    tsr_arena arena = {0};
    const char *path = NULL;
    tsr_result result = tsr_model_find_weights(ctx, d.model, &arena, &path);
    tsr_arena_finish(&arena);
    return result;
}
static tsr_result mark_workspace(tsr_ctx *ctx) {
    (void)ctx;
    return fail_unless(tsr_model_mark_workspace(d.model));
}
static tsr_result measure_workspace(tsr_ctx *ctx) {
    (void)ctx;
    tsr_model_measure_workspace(d.model);
    return TSR_SUCCESS;
}
static tsr_result get_state(tsr_ctx *ctx) {
    size_t count = 0, expected = 0;
    (void)ctx;
    tsr_model_get_state(d.model, &count);
    tsr_model_get_state(idle, &expected);
    return fail_unless(count > 0 && count == expected);
}
static tsr_result check(tsr_ctx *ctx) {
    tsr_arena arena = {0};
    tsr_check_report report;
    tsr_result result = tsr_model_check(ctx, digits_bundle_path(), NULL, &arena, &report);
    tsr_arena_finish(&arena);
    return result;
}
static tsr_result initialize(tsr_ctx *ctx) { return tsr_model_initialize(ctx, d.model, 7); }
static tsr_result load_state(tsr_ctx *ctx) {
    tsr_generation generation;
    return tsr_model_load_state(ctx, d.model, state_path, TSR_RESUME_AUTO, 0, &generation);
}
static tsr_result adopt(tsr_ctx *ctx) {
    tsr_generation generation;
    const tsr_adopt_options options = {.directory = state_path};
    return tsr_model_adopt(ctx, d.model, &options, &generation);
}
static tsr_result load_params(tsr_ctx *ctx) {
    return tsr_model_load_params(ctx, d.model, params_path);
}
static tsr_result export_params(tsr_ctx *ctx) {
    return tsr_model_export_params(ctx, d.model, digits_path(&d, "exported.safetensors"));
}
static tsr_result call(tsr_ctx *ctx) {
    static float y[100 * DIGITS_CLASSES];
    return digits_predict(ctx, d.model, images, 100, y);
}
static tsr_result call_dlpack(tsr_ctx *ctx) {
    int64_t dims[] = {100, DIGITS_PIXELS};
    tsr_dlpack_managed tensor = {.version = {1, 0},
                                 .tensor = {.data = images,
                                            .device = {TSR_DLPACK_CPU, 0},
                                            .rank = 2,
                                            .dtype = tsr_dlpack_make_dtype(TSR_DTYPE_UI8),
                                            .dims = dims}};
    const tsr_dlpack_view input = {"x", &tensor};
    tsr_dlpack_view output = {"y", NULL};
    tsr_result result = tsr_model_call_dlpack(ctx, d.model, "predict", NULL, &input, 1, &output, 1);
    if (output.tensor) output.tensor->deleter(output.tensor);
    return result;
}
static tsr_result name_dtypes(tsr_ctx *ctx) {
    (void)ctx;
    for (int i = TSR_DTYPE_F64; i <= TSR_DTYPE_F8E8M0FNU; i++)
        if (tsr_dlpack_get_dtype(tsr_dlpack_make_dtype((tsr_dtype)i)) != (tsr_dtype)i)
            return (tsr_result){TSR_INTERNAL};
    const bool none = tsr_dlpack_make_dtype(TSR_DTYPE_NONE).lanes == 0;
    return fail_unless(none && !tsr_dlpack_get_dtype(tsr_dlpack_make_dtype(TSR_DTYPE_NONE)));
}
static tsr_binding to_file(void) { return (tsr_binding){"y", digits_path(&d, "y.npy")}; }
static tsr_binding from_file(void) { return (tsr_binding){"x", d.data[2].path}; }
static tsr_result call_files(tsr_ctx *ctx) {
    const tsr_binding input = from_file(), output = to_file();
    return tsr_model_call_files(ctx, d.model, "predict", &input, 1, &output, 1);
}
static tsr_result run_files(tsr_ctx *ctx) {
    const tsr_binding input = from_file(), output = to_file();
    const tsr_call_options options = {.size_bytes = sizeof options};
    return tsr_model_run_files(ctx, d.model, "predict", &options, &input, 1, &output, 1);
}
static tsr_result evaluate(tsr_ctx *ctx) {
    tsr_arena arena = {0};
    tsr_eval_report report;
    tsr_result result = tsr_model_evaluate(ctx, d.model, NULL, d.data + 2, 2, &arena, &report);
    tsr_arena_finish(&arena);
    return result;
}
static tsr_result train(tsr_ctx *ctx) {
    tsr_train_options options = digits_training(&d, 3);
    tsr_train_summary summary;
    return tsr_train(ctx, d.model, &options, &summary);
}
static tsr_result write_roofline(tsr_ctx *ctx) {
    /* A model without a trace refuses this, in use or not. */
    tsr_result result = tsr_model_write_roofline(ctx, d.model, digits_path(&d, "roofline.csv"));
    return fail_unless(result.code == TSR_USAGE && strstr(ctx->error.text, "trace"));
}
static tsr_result bake(tsr_ctx *ctx) {
    const tsr_bake_options options = {.size_bytes = sizeof options,
                                      .state_directory = state_path,
                                      .out_path = digits_path(&d, "trained.tsb")};
    tsr_generation generation;
    return tsr_bake(ctx, digits_bundle_path(), &options, &generation);
}
static tsr_result fsck(tsr_ctx *ctx) { return tsr_store_fsck(ctx, state_path, ignore_line, NULL); }
static tsr_result list(tsr_ctx *ctx) {
    return tsr_store_list(ctx, state_path, true, ignore_line, NULL);
}
static tsr_result list_json(tsr_ctx *ctx) {
    return tsr_store_list_json(ctx, state_path, true, ignore_line, NULL);
}
static tsr_result find_best(tsr_ctx *ctx) {
    tsr_best best; /* the state was saved without a best generation */
    return fail_unless(tsr_store_find_best(ctx, state_path, &best).code == TSR_STATE);
}
static tsr_result export(tsr_ctx *ctx) {
    tsr_recovery recovery;
    return tsr_store_export(ctx, state_path, TSR_RESUME_AUTO, 0,
                            digits_path(&d, "state.safetensors"), &recovery);
}
static tsr_result prune(tsr_ctx *ctx) {
    return tsr_store_prune(ctx, state_path, 2, true, ignore_line, NULL);
}

/* ---- those of trainers ---- */

static float weights[64 * DIGITS_CLASSES];
static tsr_view view_weights(void) {
    return (tsr_view){.name = "layer3.weight",
                      .dtype = TSR_DTYPE_F32,
                      .shape = {2, {64, DIGITS_CLASSES}},
                      .data = weights};
}
static tsr_result read_tensor(tsr_ctx *ctx) {
    const tsr_view view = view_weights();
    return tsr_model_read_tensor(ctx, d.model, &view);
}
static tsr_result set_hyperparameter(tsr_ctx *ctx) {
    const tsr_hyperparameter *first = tsr_model_get_identity(d.model)->hyperparameters;
    return tsr_model_set_hyperparameter(ctx, d.model, first->name, strtod(first->value, NULL));
}
static tsr_result write_tensor(tsr_ctx *ctx) {
    const tsr_view view = view_weights(); /* read just before: nothing changes */
    return tsr_model_write_tensor(ctx, d.model, &view);
}
static tsr_result hash_state(tsr_ctx *ctx) {
    tsr_digest hash;
    return tsr_model_hash_state(ctx, d.model, &hash);
}
static tsr_result data_digest(tsr_ctx *ctx) {
    const tsr_tensor array = {"x", TSR_DTYPE_UI8, {1, {DIGITS_PIXELS}}, images};
    tsr_digest digest;
    return tsr_data_digest(ctx, &array, 1, &digest);
}
static tsr_result get_row(tsr_ctx *ctx) {
    const tsr_position position = {.seed = 1, .rows = 5};
    (void)ctx;
    return fail_unless(tsr_position_get_row(&position, 3) < 5);
}
static tsr_result open_trainer(tsr_ctx *ctx) {
    tsr_trainer *second = NULL;
    tsr_result result = tsr_trainer_open(ctx, d.model, NULL, &second);
    cr_assert_null(second);
    return result;
}
static tsr_result close_trainer(tsr_ctx *ctx) {
    tsr_trainer_close(ctx, trainer); /* the next rows use it */
    return TSR_SUCCESS;
}
static tsr_result get_position(tsr_ctx *ctx) {
    (void)ctx;
    return fail_unless(tsr_trainer_get_position(trainer)->step > 0);
}
static tsr_result get_recovery(tsr_ctx *ctx) {
    (void)ctx;
    return fail_unless(!tsr_trainer_get_recovery(trainer)->found);
}
static tsr_result get_saves(tsr_ctx *ctx) {
    (void)ctx;
    return fail_unless(tsr_trainer_get_saves(trainer)->failed_count == 0);
}
static tsr_result get_outputs(tsr_ctx *ctx) {
    size_t count = 0;
    (void)ctx;
    return fail_unless(tsr_trainer_get_outputs(trainer, &count)->data && count == 1);
}
static int64_t classes[DIGITS_BATCH];
static void view_batch(tsr_view out_inputs[static 2]) {
    out_inputs[0] = (tsr_view){
        .dtype = TSR_DTYPE_UI8, .shape = {2, {DIGITS_BATCH, DIGITS_PIXELS}}, .data = images};
    out_inputs[1] =
        (tsr_view){.dtype = TSR_DTYPE_I64, .shape = {1, {DIGITS_BATCH}}, .data = classes};
}
static tsr_result make_step(tsr_ctx *ctx) {
    tsr_view inputs[2];
    view_batch(inputs);
    return tsr_trainer_step(ctx, trainer, inputs, 2, NULL, 0);
}
static tsr_result make_drawn_step(tsr_ctx *ctx) {
    tsr_view inputs[2];
    view_batch(inputs);
    return tsr_trainer_step_drawn(ctx, trainer, inputs, 2, NULL, 0);
}
static tsr_result make_dlpack_step(tsr_ctx *ctx) {
    tsr_view views[2];
    tsr_dlpack_managed tensors[2];
    int64_t dims[2][2];
    tsr_dlpack_view inputs[2];
    view_batch(views);
    for (int i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < views[i].shape.rank; k++)
            dims[i][k] = (int64_t)views[i].shape.dims[k];
        tensors[i] = (tsr_dlpack_managed){.version = {1, 0},
                                          .tensor = {.data = views[i].data,
                                                     .device = {TSR_DLPACK_CPU, 0},
                                                     .rank = (int32_t)views[i].shape.rank,
                                                     .dtype = tsr_dlpack_make_dtype(views[i].dtype),
                                                     .dims = dims[i]}};
        inputs[i] = (tsr_dlpack_view){views[i].name, &tensors[i]};
    }
    return tsr_trainer_step_dlpack(ctx, trainer, NULL, inputs, 2, NULL, 0);
}
static tsr_result give_none(tsr_ctx *ctx, void *user, const tsr_position *position,
                            tsr_view *inputs, size_t input_count, bool *out_end) {
    (void)ctx, (void)user, (void)position, (void)inputs;
    *out_end = true;
    return fail_unless(input_count == 2);
}
static tsr_result run_trainer(tsr_ctx *ctx) {
    const tsr_trainer_run_options options = {
        .size_bytes = sizeof options, .steps = UINT64_MAX, .batch = give_none};
    return tsr_trainer_run(ctx, trainer, &options);
}
static tsr_result save(tsr_ctx *ctx) { return tsr_trainer_save(ctx, trainer, NULL); }

typedef struct row {
    const char *name;
    tsr_result (*run)(tsr_ctx *ctx); /* NULL: the function takes no model */
    tsr_code codes[CONTEXTS];        /* expected */
} row;

#define ALLOWED                                                                                    \
    { TSR_OK, TSR_OK, TSR_OK, TSR_OK, TSR_OK }
#define REFUSED_ALWAYS                                                                             \
    { TSR_USAGE, TSR_USAGE, TSR_USAGE, TSR_USAGE, TSR_USAGE }
/* Not called where there is no trainer. */
#define NOT_TRIED (tsr_code)(-1)
#define OF_A_TRAINER(between, in_step)                                                             \
    { NOT_TRIED, NOT_TRIED, NOT_TRIED, between, in_step }
static const row rows[] = {
    {"tsr_version", version, ALLOWED},
    {"tsr_ranks_run", NULL, ALLOWED},
    {"tsr_ranks_join_job", NULL, ALLOWED},
    {"tsr_rank_get_number", NULL, ALLOWED},
    {"tsr_model_open", open_another, ALLOWED},
    {"tsr_model_close", close_it, ALLOWED},
    {"tsr_model_get_config", get_config, ALLOWED},
    {"tsr_model_get_digest", get_digest, ALLOWED},
    {"tsr_model_get_identity", get_identity, ALLOWED},
    {"tsr_model_get_target", get_target, ALLOWED},
    {"tsr_model_get_choice", get_choice, ALLOWED},
    {"tsr_model_get_numerics", get_numerics, ALLOWED},
    {"tsr_model_get_thread_count", get_thread_count, ALLOWED},
    {"tsr_model_get_exchange", get_exchange, ALLOWED},
    {"tsr_model_get_memory_plan", get_memory_plan, ALLOWED},
    {"tsr_model_find_weights", find_weights, ALLOWED},
    {"tsr_model_mark_workspace", mark_workspace, REFUSED_ALWAYS},
    {"tsr_model_measure_workspace", measure_workspace, ALLOWED},
    {"tsr_model_get_state", get_state, ALLOWED},
    {"tsr_model_check", check, ALLOWED},
    {"tsr_model_initialize", initialize, REFUSED_ALWAYS},
    {"tsr_model_load_state", load_state, REFUSED_ALWAYS},
    {"tsr_model_adopt", adopt, REFUSED_ALWAYS},
    {"tsr_model_load_params", load_params, REFUSED_ALWAYS},
    {"tsr_model_export_params", export_params, {TSR_OK, TSR_OK, TSR_USAGE, TSR_OK, TSR_OK}},
    {"tsr_model_call", call, {TSR_OK, TSR_USAGE, TSR_USAGE, TSR_OK, TSR_OK}},
    {"tsr_model_call_dlpack", call_dlpack, {TSR_OK, TSR_USAGE, TSR_USAGE, TSR_OK, TSR_OK}},
    {"tsr_dlpack_get_dtype", name_dtypes, ALLOWED},
    {"tsr_dlpack_make_dtype", name_dtypes, ALLOWED},
    {"tsr_model_call_files", call_files, {TSR_OK, TSR_USAGE, TSR_USAGE, TSR_OK, TSR_OK}},
    {"tsr_model_run_files", run_files, {TSR_OK, TSR_USAGE, TSR_USAGE, TSR_OK, TSR_OK}},
    {"tsr_model_evaluate", evaluate, {TSR_OK, TSR_OK, TSR_USAGE, TSR_OK, TSR_OK}},
    {"tsr_train", train, REFUSED_ALWAYS},
    {"tsr_model_write_roofline", write_roofline, ALLOWED},
    {"tsr_bake", bake, ALLOWED},
    {"tsr_store_fsck", fsck, ALLOWED},
    {"tsr_store_list", list, ALLOWED},
    {"tsr_store_list_json", list_json, ALLOWED},
    {"tsr_store_find_best", find_best, ALLOWED},
    {"tsr_store_export", export, ALLOWED},
    {"tsr_store_prune", prune, ALLOWED},
    {"tsr_model_read_tensor", read_tensor, {TSR_OK, TSR_OK, TSR_USAGE, TSR_OK, TSR_OK}},
    {"tsr_model_set_hyperparameter",
     set_hyperparameter,
     {TSR_USAGE, TSR_USAGE, TSR_USAGE, TSR_OK, TSR_USAGE}},
    {"tsr_model_write_tensor", write_tensor, {TSR_USAGE, TSR_USAGE, TSR_USAGE, TSR_OK, TSR_USAGE}},
    {"tsr_model_hash_state", hash_state, {TSR_OK, TSR_OK, TSR_USAGE, TSR_OK, TSR_OK}},
    {"tsr_data_digest", data_digest, ALLOWED},
    {"tsr_position_get_row", get_row, ALLOWED},
    {"tsr_trainer_open", open_trainer, REFUSED_ALWAYS},
    {"tsr_trainer_close", close_trainer, OF_A_TRAINER(NOT_TRIED, TSR_OK)},
    {"tsr_trainer_get_position", get_position, OF_A_TRAINER(TSR_OK, TSR_OK)},
    {"tsr_trainer_get_recovery", get_recovery, OF_A_TRAINER(TSR_OK, TSR_OK)},
    {"tsr_trainer_get_saves", get_saves, OF_A_TRAINER(TSR_OK, TSR_OK)},
    {"tsr_trainer_get_outputs", get_outputs, OF_A_TRAINER(TSR_OK, TSR_OK)},
    {"tsr_trainer_step", make_step, OF_A_TRAINER(NOT_TRIED, TSR_USAGE)}, /* between: see below */
    {"tsr_trainer_step_drawn", make_drawn_step, OF_A_TRAINER(NOT_TRIED, TSR_USAGE)},
    {"tsr_trainer_step_dlpack", make_dlpack_step, OF_A_TRAINER(NOT_TRIED, TSR_USAGE)},
    {"tsr_trainer_run", run_trainer, OF_A_TRAINER(TSR_OK, TSR_USAGE)},
    {"tsr_trainer_save", save, OF_A_TRAINER(TSR_OK, TSR_USAGE)},
};
enum { ROWS = TSR_COUNT(rows) };

/* ---- the contexts ---- */

static unsigned visits;

static void call_all(context where) {
    visits++;
    for (size_t i = 0; i < ROWS; i++) {
        tsr_ctx ctx = {0};
        if (!rows[i].run || rows[i].codes[where] == NOT_TRIED) continue;
        tsr_result result = rows[i].run(&ctx);
        cr_assert_eq(result.code, rows[i].codes[where], "%s from %s: code %d, expected %d: %s",
                     rows[i].name, context_names[where], result.code, rows[i].codes[where],
                     ctx.error.text);
        if (result.code && ctx.error.text[0])
            cr_assert(strstr(ctx.error.text, "is in use"), "%s: %s", rows[i].name, ctx.error.text);
    }
}

static void on_step(void *user, const tsr_step_report *step) {
    (void)user;
    if (step->step % 5 == 0) call_all(IN_TRAINING);
}
static void on_eval(void *user, const tsr_eval_report *report) {
    (void)user;
    (void)report;
    call_all(IN_TRAINING);
}
static void on_saved(void *user, const tsr_save_status *saves) {
    (void)user;
    (void)saves;
    call_all(IN_TRAINING);
}
static void on_begun(void *user, const tsr_recovery *recovery, const tsr_position *position) {
    (void)user;
    (void)recovery;
    (void)position;
    call_all(IN_TRAINING);
}
static void on_called(void *user, uint64_t number, double seconds) {
    (void)user;
    (void)seconds;
    if (number == 1) call_all(IN_A_CALL);
}
static void on_log(void *user, tsr_log_level level, const char *text) {
    (void)user;
    (void)level;
    (void)text;
    call_all(IN_ADOPTION);
}

static void init(void) {
    tsr_train_summary summary;
    digits_init(&d);
    visits = 0;
    images = digits_test_images(&d);
    idle = digits_open(&d, NULL);
    snprintf(state_path, sizeof state_path, "%s", digits_path(&d, "old"));
    snprintf(params_path, sizeof params_path, "%s", digits_path(&d, "old.safetensors"));
    tsr_train_options options = digits_training(&d, 4);
    options.state_directory = state_path;
    options.save_every = 1;
    digits_must(&d, tsr_train(&d.ctx, d.model, &options, &summary));
    digits_must(&d, tsr_model_export_params(&d.ctx, d.model, params_path));
}
static void finish(void) {
    tsr_model_close(&d.ctx, (tsr_model *)(uintptr_t)idle);
    free(images);
    digits_finish(&d);
}
TestSuite(use, .init = init, .fini = finish);

Test(use, training_is_not_disturbed_by_its_callbacks) {
    tsr_train_options options = digits_training(&d, 20);
    tsr_train_summary alone, disturbed;
    options.eval_every = 10;
    digits_must(&d, tsr_train(&d.ctx, d.model, &options, &alone));
    options.state_directory = digits_path(&d, "new");
    options.save_every = 7;
    options.callbacks = (tsr_train_callbacks){NULL, on_step, on_eval, on_saved, NULL};
    options.begun = on_begun;
    digits_must(&d, tsr_train(&d.ctx, d.model, &options, &disturbed));
    cr_assert_geq(visits, 1 + 4 + 2 + 1);
    cr_assert(tsr_digest_equal(&alone.state_hash, &disturbed.state_hash));
    tsr_digest held = digits_state_hash(d.model);
    cr_assert(tsr_digest_equal(&held, &disturbed.state_hash));
    /* The model can be changed again after the run. */
    digits_must(&d, tsr_model_initialize(&d.ctx, d.model, 0));
    cr_assert(tsr_model_mark_workspace(d.model));
}

Test(use, a_call_is_not_disturbed_by_its_callback) {
    const tsr_binding input = from_file();
    tsr_binding output = {"y", digits_path(&d, "alone.npy")};
    tsr_call_options options = {.size_bytes = sizeof options};
    digits_must(&d,
                tsr_model_run_files(&d.ctx, d.model, "predict", &options, &input, 1, &output, 1));
    output.path = digits_path(&d, "disturbed.npy");
    options.called = on_called;
    digits_must(&d,
                tsr_model_run_files(&d.ctx, d.model, "predict", &options, &input, 1, &output, 1));
    cr_assert_eq(visits, 1);
    char command[512];
    snprintf(command, sizeof command, "cmp -s '%s/alone.npy' '%s/disturbed.npy'", d.folder,
             d.folder);
    cr_assert_eq(system(command), 0, "the outputs differ");
    digits_must(&d, call(&d.ctx));
    digits_must(&d, train(&d.ctx));
}

Test(use, an_adoption_is_not_disturbed_by_the_log) {
    const tsr_adopt_options options = {.directory = state_path};
    tsr_generation generation;
    tsr_ctx ctx = {.log = on_log, .log_level = TSR_LOG_WARNING};
    digits_must(&d, tsr_model_initialize(&d.ctx, d.model, 0));
    tsr_result result = tsr_model_adopt(&ctx, d.model, &options, &generation);
    cr_assert_eq(result.code, TSR_OK, "%s", ctx.error.text);
    cr_assert_geq(visits, 1);
    tsr_digest held = digits_state_hash(d.model);
    cr_assert(tsr_digest_equal(&held, &generation.state_hash));
    digits_must(&d, call(&d.ctx));
}

static void on_trainers_step(void *user, const tsr_step_report *report) {
    (void)user;
    (void)report;
    call_all(IN_STEP);
}

/* Makes four steps; `disturbs`: with calls of everything in them and between them. */
static tsr_digest train_by_steps(const char *directory, bool disturbs) {
    tsr_trainer_options options = {.size_bytes = sizeof options, .state_directory = directory};
    tsr_digest hash;
    if (disturbs) options.callbacks.step = on_trainers_step;
    digits_must(&d, tsr_trainer_open(&d.ctx, d.model, &options, &trainer));
    for (int i = 0; i < 4; i++) {
        digits_must(&d, make_step(&d.ctx));
        if (disturbs) call_all(AT_TRAINER);
    }
    digits_must(&d, tsr_model_hash_state(&d.ctx, d.model, &hash));
    tsr_trainer_close(&d.ctx, trainer);
    trainer = NULL;
    return hash;
}

Test(use, a_trainer_is_not_disturbed) {
    tsr_digest alone = train_by_steps(digits_path(&d, "alone"), false);
    tsr_digest disturbed = train_by_steps(digits_path(&d, "disturbed"), true);
    cr_assert_eq(visits, 8);
    cr_assert(tsr_digest_equal(&alone, &disturbed));
    digits_must(&d, tsr_model_initialize(&d.ctx, d.model, 0)); /* it may be changed again */
}

/* Requires that the table contains every function of the header. */
static void check_header(const char *path) {
    char line[512];
    FILE *file = fopen(path, "r");
    bool pending = false;
    unsigned found = 0;
    cr_assert(file, "cannot open '%s'", path);
    while (fgets(line, sizeof line, file)) {
        if (line[0] == ' ' || line[0] == '/' || line[0] == '#') continue;
        pending = pending || strncmp(line, "TSR_API", 7) == 0;
        char *open = pending ? strchr(line, '(') : NULL;
        if (!open) continue;
        char *name = open;
        while (name > line && (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z'))) name--;
        *open = 0;
        bool listed = false;
        for (size_t i = 0; i < ROWS; i++) listed |= strcmp(rows[i].name, name) == 0;
        cr_assert(listed, "'%s' of '%s' is not in the table of this test", name, path);
        pending = false;
        found++;
    }
    fclose(file);
    cr_assert_geq(found, 4);
}

Test(use, every_public_function_is_tried) {
    check_header(SOURCE_ROOT "/tessera/tessera.h");
    check_header(SOURCE_ROOT "/tessera/state.h");
    check_header(SOURCE_ROOT "/tessera/trainer.h");
    check_header(SOURCE_ROOT "/tessera/dlpack.h");
}
