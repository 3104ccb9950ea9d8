/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-run: trains, evaluates, calls or checks a bundle. A thin main over libtessera.
 */
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/plural.h"
#include "runtime/base/suggest.h"
#include "tessera/tessera.h"
#include "tools/common/files.h"
#include "tools/run/advice.h"
#include "tools/run/check.h"
#include "tools/run/entries.h"
#include "tools/run/launcher.h"
#include "tools/run/plot/plot.h"
#include "tools/run/report.h"
#include "tools/run/set.h"
#include "tools/run/signals.h"
#include "tools/run/state.h"
#include "tools/run/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char tool[] = "tessera-run";

typedef struct arguments {
    const char *bundle;
    const char *entry, *state_dir, *resume, *cpu, *device, *params, *export_params, *record,
        *replay, *metrics, *store_log, *out, *check_finite, *keep_best, *tensorboard;
    uint64_t generation;
    uint64_t steps, seed, save_every, keep, eval_every, threads, device_memory, ranks, restarts,
        repeat, record_values, record_every, stop_after;
    const char *devices, *transport_name;
    tsr_transport *transport; /* transport of a rank; NULL: only one process */
    bool debug_numerics, has_seed, has_steps, strict, verify, quiet, allow_network_fs,
        allow_inexact, new_data, verify_data, help, version;
    bool require_signature, check, json, mpi, one_by_one, measure_memory, share_device;
    tsr_flag_list keys, weights_dirs;
    const char *adopt, *advice; /* advice: see advice.h */
    tsr_run_trace trace;
    tsr_launcher_flags launch;
    tsr_flag_pairs data, inputs, outputs, renames, set;
    const tsr_flag *flags; /* borrowed; the flags on the command line */
} arguments;

enum { ARGUMENTS_MAX = 1024 };

/* The requested action; it determines the allowed flags. */
typedef enum run_mode {
    MODE_TRAIN = 1,
    MODE_REPLAY = 2,
    MODE_CALL = 4,
    MODE_EVALUATE = 8,
    MODE_EXPORT = 16,
    MODE_FSCK = 32,
    MODE_LIST = 64,
    MODE_PRUNE = 128,
    MODE_CHECK = 256,
    MODE_EXPORT_STATE = 512,
    MODE_PLOT = 1024,
} run_mode;

/* Sets of modes. */
enum {
    STATES = MODE_FSCK | MODE_LIST | MODE_PRUNE | MODE_EXPORT_STATE,
    RUNS = MODE_TRAIN | MODE_REPLAY | MODE_CALL | MODE_EVALUATE | MODE_EXPORT,
    BUNDLES = RUNS | MODE_CHECK,
    EVERY = BUNDLES | STATES | MODE_PLOT,
};

enum {
    FLAG_COUNT = 0
#define X(...) +1
#include "tools/run/flags.def"
#undef X
};

static void fill_flags(arguments *a, tsr_flag flags[static FLAG_COUNT]) {
    const tsr_flag rows[FLAG_COUNT] = {
#define X(name, kind, use, target, value, help, min, max, modes)                                   \
    TSR_FLAG(name, kind, use, &a->target, value, help, min, max),
#include "tools/run/flags.def"
#undef X
    };
    memcpy(flags, rows, sizeof rows);
}

/* Indexed by the flag. */
static const unsigned flag_modes[FLAG_COUNT] = {
#define X(name, kind, use, target, value, help, min, max, modes) modes,
#include "tools/run/flags.def"
#undef X
};

static bool is_given(const arguments *a, const char *name) {
    size_t i = 0;
    while (i < FLAG_COUNT && strcmp(a->flags[i].name, name) != 0) i++;
    TSR_ASSERT(i < FLAG_COUNT && "a name of the table");
    return a->flags[i].given;
}

static const char *describe_mode(run_mode mode) {
    switch (mode) {
    case MODE_TRAIN:
        return "training";
    case MODE_REPLAY:
        return "a replay";
    case MODE_CALL:
        return "a call, which takes --input and --output";
    case MODE_EVALUATE:
        return "an evaluation, which takes --data; with --input its entry is called";
    case MODE_EXPORT:
        return "an export of parameters";
    case MODE_FSCK:
        return "fsck";
    case MODE_LIST:
        return "ls";
    case MODE_PRUNE:
        return "prune";
    case MODE_EXPORT_STATE:
        return "export";
    case MODE_CHECK:
        return "--check";
    case MODE_PLOT:
        return "plot";
    }
    return "";
}

static tsr_result check_flags(tsr_ctx *ctx, const tsr_flag *flags, run_mode mode) {
    for (size_t i = 0; i < FLAG_COUNT; i++)
        if (flags[i].given && !(flag_modes[i] & mode))
            FAIL(ctx, TSR_USAGE, "%s does not apply to %s", flags[i].name, describe_mode(mode));
    return TSR_SUCCESS;
}

static tsr_result check_state_flags(tsr_ctx *ctx, const arguments *a) {
    static const char *const names[] = {"--save-every", "--keep",      "--resume",
                                        "--store-log",  "--keep-best", "--stop-after"};
    for (size_t k = 0; k < TSR_COUNT(names) && !a->state_dir; k++)
        if (is_given(a, names[k])) FAIL(ctx, TSR_USAGE, "%s needs --state-dir", names[k]);
    return TSR_SUCCESS;
}

static void print_help(const tsr_flag *flags) {
    printf(
        "usage: tessera-run BUNDLE [flags]          train, or call an entry\n"
        "       tessera-run BUNDLE --check [--json] say whether it runs here, and which "
        "resources it needs\n"
        "       tessera-run fsck DIR                check a state directory, changing nothing\n"
        "       tessera-run ls DIR [--verify] [--json]\n"
        "                                           list its generations, changing nothing\n"
        "       tessera-run prune DIR --keep N [--allow-network-fs]\n"
        "                                           remove all but the N newest generations\n"
        "       tessera-run export DIR [--generation N] -o FILE\n"
        "                                           write a generation as safetensors\n"
        "       tessera-run plot METRICS -o FILE    draw a file of --metrics: .svg or .html\n\n");
    tsr_flags_print(flags, FLAG_COUNT);
    printf("\nExit codes: docs/exit-codes.md. SIGTERM, SIGINT, SIGHUP or SIGUSR1: finish the step, "
           "save, exit 0; a second SIGTERM or SIGINT: at once.\n");
}

static tsr_result parse_resume(tsr_ctx *ctx, const char *text, const char *directory,
                               tsr_train_options *options) {
    tsr_best best;
    if (text && directory && strcmp(text, "best") == 0) {
        TRY(ctx, tsr_store_find_best(ctx, directory, &best));
        options->resume = TSR_RESUME_EXACT;
        options->resume_generation = best.generation;
        return TSR_SUCCESS;
    }
    if (!text || strcmp(text, "auto") == 0) return TSR_SUCCESS;
    if (strcmp(text, "never") == 0) {
        options->resume = TSR_RESUME_NEVER;
        return TSR_SUCCESS;
    }
    uint64_t value = 0;
    for (const char *at = text; *at; at++)
        if (*at < '0' || *at > '9' || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            FAIL(ctx, TSR_USAGE,
                 "--resume is '%s'; expected auto, never, best or the number of a generation",
                 text);
    if (!text[0])
        FAIL(ctx, TSR_USAGE,
             "--resume is empty; expected auto, never, best or the number of a generation");
    options->resume = TSR_RESUME_EXACT;
    options->resume_generation = value;
    return TSR_SUCCESS;
}

static tsr_result parse_check_finite(tsr_ctx *ctx, const char *text, tsr_finite_mode *out_mode) {
    static const char *const names[] = {
        [TSR_FINITE_ERROR] = "error", [TSR_FINITE_WARN] = "warn", [TSR_FINITE_OFF] = "off"};
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = text};
    if (!text) return TSR_SUCCESS;
    for (size_t i = TSR_FINITE_ERROR; i < TSR_COUNT(names); i++) {
        if (strcmp(text, names[i]) == 0) return *out_mode = (tsr_finite_mode)i, TSR_SUCCESS;
        tsr_suggest(&likely, names[i]);
    }
    FAIL(ctx, TSR_USAGE, "--check-finite is '%s'; expected error, warn or off%s", text,
         tsr_suggestion_text(&likely, meant));
}

static void print_state(const tsr_train_summary *summary, bool has_store) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&summary->state_hash, hex);
    printf("state %s step %" PRIu64, hex, summary->position.step);
    if (has_store && summary->saves.committed_count)
        printf(" generation %" PRIu64, summary->saves.last_committed.number);
    if (summary->saves.failed_count) printf(" failed-saves %" PRIu64, summary->saves.failed_count);
    printf("\n");
}

static void print_outcome(const arguments *a, const tsr_train_summary *summary,
                          uint64_t first_step) {
    if (a->replay)
        printf("replay matches%s: %" PRIu64 " step%s, every digest equal\n",
               summary->stopped ? " so far" : "", summary->position.step - first_step,
               TSR_PLURAL(summary->position.step - first_step));
    if (summary->stopped) {
        bool failed = *tsr_run_get_stop() == TSR_LINES_STOP;
        printf("stopped %s at step %" PRIu64,
               failed ? "because a log could not be written" : "by a signal",
               summary->position.step);
        if (a->has_steps) printf(" of %" PRIu64, a->steps);
        printf("\n");
    }
    if (summary->without_gain)
        printf("stopped at step %" PRIu64 ": %" PRIu64 " evaluation%s in a row without gain, "
               "--stop-after is %" PRIu64 "\n",
               summary->position.step, summary->position.best.without_gain,
               TSR_PLURAL(summary->position.best.without_gain), a->stop_after);
    if (!a->replay && !summary->stopped && !summary->without_gain && first_step >= a->steps)
        printf("the state is at step %" PRIu64 ", at or past --steps %" PRIu64 ": nothing to do\n",
               first_step, a->steps);
    tsr_report_print_best(&summary->position.best);
    print_state(summary, a->state_dir != NULL);
}

static void bind_pairs(const tsr_flag_pairs *pairs, tsr_binding *out_bindings) {
    for (size_t i = 0; i < pairs->count; i++)
        out_bindings[i] = (tsr_binding){pairs->pairs[i].name, pairs->pairs[i].value};
}

static bool is_first(const arguments *a) {
    return !a->transport || tsr_rank_get_number(a->transport) == 0;
}

static tsr_result train(tsr_ctx *ctx, const arguments *a, tsr_model *model, tsr_report *report) {
    tsr_binding data[TSR_FLAG_PAIRS_MAX];
    tsr_rename renames[TSR_FLAG_PAIRS_MAX];
    tsr_train_summary summary;
    tsr_train_options options = {
        .size_bytes = sizeof options,
        .entry = a->entry,
        .steps = a->steps,
        .has_seed = a->has_seed,
        .seed = (uint32_t)a->seed,
        .data = data,
        .data_count = a->data.count,
        .state_directory = a->state_dir,
        .save_every = a->save_every,
        .keep = (uint32_t)a->keep,
        .allow_network_fs = a->allow_network_fs,
        .allow_inexact = a->allow_inexact,
        .new_data = a->new_data,
        .verify_data = a->verify_data,
        .eval_every = a->eval_every,
        .record = a->record,
        .replay = a->replay,
        .params = a->params,
        .adopt = {a->adopt, renames, a->renames.count},
        .advice = a->advice,
        .callbacks = {report, tsr_report_step, tsr_report_eval, tsr_report_saved, tsr_report_ranks},
        .begun = is_first(a) ? tsr_report_begun : NULL,
        .stop = tsr_run_get_stop(),
        .keep_best = a->keep_best,
        .stop_after = a->stop_after,
        .judged = tsr_report_judged,
        .records_values = a->record_values != UINT64_MAX,
        .values_of = a->record_values,
        .record_every = a->record_every};
    tsr_lines log = {.fd = -1};
    if (!a->has_steps && !a->replay)
        FAIL(ctx, TSR_USAGE, "--steps is missing; expected the absolute step to stop at");
    if (a->renames.count && !a->adopt) FAIL(ctx, TSR_USAGE, "--rename needs --adopt");
    bind_pairs(&a->data, data);
    for (size_t i = 0; i < a->renames.count; i++)
        renames[i] = (tsr_rename){a->renames.pairs[i].name, a->renames.pairs[i].value};
    TRY(ctx, parse_resume(ctx, a->resume, a->state_dir, &options));
    TRY(ctx, tsr_run_set(ctx, &a->set, model));
    tsr_report_train(report, model, a->entry);
    if (a->store_log) {
        TRY(ctx, tsr_lines_open(ctx, "events", a->store_log, tsr_run_get_stop(), &log));
        options.store_event = tsr_state_log_line;
        options.store_event_user = &log;
    }
    tsr_run_catch_signals();
    tsr_result result = tsr_train(ctx, model, &options, &summary);
    if (!result.code) tsr_report_workspace(report);
    tsr_ctx closing = tsr_ctx_fork(ctx);
    tsr_result metrics = tsr_report_finish(&closing, report);
    tsr_result logged = tsr_lines_close(metrics.code ? &(tsr_ctx){0} : &closing, &log);
    if (!metrics.code) metrics = logged;
    TRY(ctx, result);
    if (is_first(a)) print_outcome(a, &summary, report->first_step);
    return metrics.code ? tsr_error_adopt(ctx, &closing) : TSR_SUCCESS;
}

/* Loads parameters for a call or an export: from a state, a file, or the bundle itself. out_step:
 * the step up to which they have been trained, if known. */
static tsr_result load(tsr_ctx *ctx, const arguments *a, tsr_model *model, uint64_t *out_step) {
    tsr_train_options resume = {.resume = TSR_RESUME_AUTO};
    tsr_generation generation;
    *out_step = 0;
    if (a->state_dir && a->params)
        FAIL(ctx, TSR_USAGE, "--state-dir and --params both name parameters; give one");
    TRY(ctx, parse_resume(ctx, a->resume, a->state_dir, &resume));
    TRY(ctx, tsr_model_initialize(ctx, model, (uint32_t)a->seed));
    if (a->params) return tsr_model_load_params(ctx, model, a->params);
    if (a->state_dir) {
        TRY(ctx, tsr_model_load_state(ctx, model, a->state_dir, resume.resume,
                                      resume.resume_generation, &generation));
        *out_step = generation.position.step;
        if (!a->quiet)
            fprintf(stderr, "%s: notice: generation %" PRIu64 ", step %" PRIu64 "\n", tool,
                    generation.number, generation.position.step);
        return TSR_SUCCESS;
    }
    size_t tensor_count;
    tsr_model_get_state(model, &tensor_count);
    if (!a->quiet && tensor_count)
        fprintf(stderr,
                "%s: notice: the bundle's own parameters are used; --state-dir or --params name "
                "others\n",
                tool);
    return TSR_SUCCESS;
}

static tsr_result evaluate(tsr_ctx *ctx, const arguments *a, tsr_model *model, tsr_report *report) {
    uint64_t step = 0;
    tsr_binding data[TSR_FLAG_PAIRS_MAX];
    tsr_eval_report eval;
    tsr_arena arena = {0};
    bind_pairs(&a->data, data);
    TRY(ctx, load(ctx, a, model, &step));
    tsr_result result =
        tsr_model_evaluate(ctx, model, a->entry, data, a->data.count, &arena, &eval);
    if (!result.code) {
        eval.step = step;
        tsr_report_eval(report, &eval);
    }
    tsr_arena_finish(&arena);
    return result;
}

typedef struct counted_calls {
    tsr_report *report;
    uint64_t count;
} counted_calls;

static void count_call(void *user, uint64_t number, double seconds) {
    counted_calls *calls = user;
    calls->count = number;
    tsr_report_called(calls->report, number, seconds);
}

/* Sets *out_uses if an output goes to standard output. */
static tsr_result check_stdout(tsr_ctx *ctx, const arguments *a, bool *out_uses) {
    *out_uses = false;
    for (size_t i = 0; i < a->outputs.count; i++) {
        if (strcmp(a->outputs.pairs[i].value, "-") != 0) continue;
        *out_uses = true;
        if (isatty(STDOUT_FILENO) == 1)
            FAIL(ctx, TSR_USAGE,
                 "output '%s' would be written to a terminal; expected standard output to be a "
                 "file or a pipe",
                 a->outputs.pairs[i].name);
    }
    return TSR_SUCCESS;
}

static tsr_result call(tsr_ctx *ctx, const arguments *a, tsr_model *model, tsr_report *report) {
    uint64_t step = 0;
    counted_calls calls = {.report = report};
    const tsr_call_options options = {.size_bytes = sizeof options,
                                      .repeat = a->repeat,
                                      .keeps_nothing =
                                          a->metrics || a->trace.trace || a->trace.roofline,
                                      .called = count_call,
                                      .called_user = &calls,
                                      .record = a->record,
                                      .replay = a->replay,
                                      .records_values = a->record_values != UINT64_MAX,
                                      .values_of = a->record_values};
    tsr_binding inputs[TSR_FLAG_PAIRS_MAX], outputs[TSR_FLAG_PAIRS_MAX];
    bool uses_stdout;
    TRY(ctx, check_stdout(ctx, a, &uses_stdout));
    TRY(ctx, load(ctx, a, model, &step));
    bind_pairs(&a->inputs, inputs);
    bind_pairs(&a->outputs, outputs);
    TRY(ctx, tsr_model_run_files(ctx, model, a->entry, &options, inputs, a->inputs.count, outputs,
                                 a->outputs.count));
    if (a->replay)
        fprintf(uses_stdout ? stderr : stdout,
                "replay matches: %" PRIu64 " call%s, every digest equal\n", calls.count,
                TSR_PLURAL(calls.count));
    return TSR_SUCCESS;
}

static tsr_result choose_mode(tsr_ctx *ctx, const arguments *a, const tsr_model *model,
                              run_mode *out_mode) {
    const tsr_config_entry *entry = NULL;
    if (a->entry) TRY(ctx, tsr_run_find_entry(ctx, tsr_model_get_config(model), a->entry, &entry));
    bool exports = !entry && a->export_params && !a->has_steps && !a->replay && !a->data.count;
    if (!entry && !exports) TRY(ctx, tsr_run_need_training(ctx, tsr_model_get_config(model)));
    if (exports)
        *out_mode = MODE_EXPORT;
    else if (!entry || entry->kind == TSR_ENTRY_TRAIN)
        *out_mode = a->replay ? MODE_REPLAY : MODE_TRAIN;
    else if (entry->kind == TSR_ENTRY_EVAL && a->inputs.count == 0)
        *out_mode = MODE_EVALUATE;
    else
        *out_mode = MODE_CALL;
    return TSR_SUCCESS;
}

static tsr_result run_chosen(tsr_ctx *ctx, const arguments *a, tsr_model *model,
                             tsr_report *report) {
    run_mode mode = MODE_TRAIN;
    uint64_t step = 0;
    TRY(ctx, choose_mode(ctx, a, model, &mode));
    TRY(ctx, check_flags(ctx, a->flags, mode));
    TRY(ctx, check_state_flags(ctx, a));
    TRY(ctx, tsr_report_open_metrics(ctx, report, a->metrics, tsr_run_get_stop()));
    TRY(ctx, tsr_report_open_board(ctx, report, a->tensorboard, tsr_run_get_stop()));
    if (a->measure_memory && tsr_model_mark_workspace(model)) report->measured = model;
    if (a->measure_memory && !report->measured && !a->quiet)
        fprintf(stderr,
                "%s: notice: --measure-memory measures only the CPU's memory; the device is %s\n",
                tool, tsr_model_get_target(model));
    if (mode == MODE_TRAIN && !a->transport && tsr_launcher_get_name())
        tsr_log(ctx, TSR_LOG_WARNING,
                "%s started this process as one of several ranks, but it trains alone; --launcher "
                "%s joins the others",
                tsr_launcher_get_name(), tsr_launcher_get_name());
    if (mode == MODE_TRAIN || mode == MODE_REPLAY)
        TRY(ctx, train(ctx, a, model, report));
    else if (mode == MODE_EVALUATE)
        TRY(ctx, evaluate(ctx, a, model, report));
    else if (mode == MODE_CALL)
        TRY(ctx, call(ctx, a, model, report));
    else
        TRY(ctx, load(ctx, a, model, &step));
    tsr_report_workspace(report);
    return TSR_SUCCESS;
}

static tsr_result choose_and_run(tsr_ctx *ctx, const arguments *given, tsr_model *model,
                                 tsr_report *report) {
    tsr_buffer name = {0};
    tsr_result result = TSR_SUCCESS;
    arguments chosen = *given;
    if (!given->entry && !given->export_params)
        chosen.entry = tsr_run_only_entry(tsr_model_get_config(model), &name);
    if (name.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the name of an entry");
    result = run_chosen(ctx, &chosen, model, report);
done:
    tsr_buffer_finish(&name);
    return result;
}

/* A failed run has a trace, too. */
static tsr_result close_traced(tsr_ctx *ctx, const arguments *a, tsr_model *model,
                               tsr_result result) {
    tsr_ctx writing = tsr_ctx_fork(ctx);
    tsr_result written = tsr_run_trace_write(&writing, &a->trace, model, a->transport);
    tsr_model_close(ctx, model);
    if (written.code && !result.code) return tsr_error_adopt(ctx, &writing);
    if (written.code) tsr_log(ctx, TSR_LOG_WARNING, "%s", writing.error.text);
    return result;
}

/* Flags for ranks on GPUs. */
static tsr_result check_rank_flags(tsr_ctx *ctx, const arguments *a) {
    static const char *const names[] = {"--devices", "--share-device", "--transport"};
    bool is_cpu = !a->device || strcmp(a->device, "cpu") == 0;
    for (size_t i = 0; i < TSR_COUNT(names); i++) {
        if (!is_given(a, names[i])) continue;
        if (!a->transport) FAIL(ctx, TSR_USAGE, "%s needs --ranks, --launcher or --mpi", names[i]);
        if (is_cpu)
            FAIL(ctx, TSR_USAGE, "%s applies to ranks on GPUs; the device is the CPU", names[i]);
    }
    return TSR_SUCCESS;
}

/* Refuses flags for GPUs only, or for CPUs only. With "auto" they apply to the chosen device. */
static tsr_result check_device_flags(tsr_ctx *ctx, const arguments *a) {
    bool is_cpu = !a->device || strcmp(a->device, "cpu") == 0;
    bool is_gpu = !is_cpu && strcmp(a->device, "auto") != 0;
    if (a->device_memory && is_cpu)
        FAIL(ctx, TSR_USAGE,
             "--device-memory %" PRIu64 " limits a GPU's memory; the device is the CPU",
             a->device_memory);
    if (a->one_by_one && is_cpu)
        FAIL(ctx, TSR_USAGE, "--one-by-one applies to a GPU's kernels; the device is the CPU");
    if (a->measure_memory && is_gpu)
        FAIL(ctx, TSR_USAGE, "--measure-memory measures only the CPU's memory; the device is '%s'",
             a->device);
    if (a->cpu && is_gpu)
        FAIL(ctx, TSR_USAGE, "--cpu %s chooses code for the CPU; the device is '%s'", a->cpu,
             a->device);
    if (a->threads && is_gpu && !a->quiet)
        fprintf(stderr,
                "%s: notice: --threads %" PRIu64
                " applies to the CPU's kernels; the device is '%s'\n",
                tool, a->threads, a->device);
    return TSR_SUCCESS;
}

/* Adds the files that no flag names: the bundle, its weights, and the trace files of a rank. */
static tsr_result add_files(tsr_ctx *ctx, const arguments *a, const char *weights,
                            const uint32_t *rank, tsr_files *files) {
    TRY(ctx, tsr_files_add(ctx, files, "the bundle", TSR_FILE_BUNDLE, a->bundle));
    TRY(ctx, tsr_files_add(ctx, files, "the bundle's weights", TSR_FILE_READ, weights));
    TRY(ctx, tsr_files_add_flags(ctx, files, a->flags, FLAG_COUNT));
    if (!rank) return TSR_SUCCESS;
    TRY(ctx, tsr_files_add(ctx, files, "--trace", TSR_FILE_WRITE,
                           tsr_run_trace_path(a->trace.trace, *rank, &files->arena)));
    return tsr_files_add(ctx, files, "--roofline", TSR_FILE_WRITE,
                         tsr_run_trace_path(a->trace.roofline, *rank, &files->arena));
}

/* weights: a file that the opened bundle names, or NULL. rank: NULL for a single process. */
static tsr_result check_files(tsr_ctx *ctx, const arguments *a, const char *weights,
                              const uint32_t *rank) {
    tsr_files files = {0};
    tsr_result result = add_files(ctx, a, weights, rank, &files);
    if (!result.code) result = tsr_files_check(ctx, &files);
    tsr_files_finish(&files);
    return result;
}

/* No output has been opened before this check. */
static tsr_result check_weights(tsr_ctx *ctx, const arguments *a, const tsr_model *model) {
    tsr_arena arena = {0};
    const char *weights = NULL;
    uint32_t rank = a->transport ? tsr_rank_get_number(a->transport) : 0;
    tsr_result result = tsr_model_find_weights(ctx, model, &arena, &weights);
    if (!result.code && weights) result = check_files(ctx, a, weights, a->transport ? &rank : NULL);
    tsr_arena_finish(&arena);
    return result;
}

static tsr_result run(tsr_ctx *ctx, const arguments *a, tsr_report *report) {
    tsr_model *model = NULL;
    tsr_model_options options = {.size_bytes = sizeof options,
                                 .strict = a->strict,
                                 .cpu = a->cpu,
                                 .device = a->device,
                                 .device_memory_max = a->device_memory << 20,
                                 .threads = (unsigned)a->threads,
                                 .transport = a->transport,
                                 .devices = a->devices,
                                 .share_device = a->share_device,
                                 .exchange = a->transport_name,
                                 .one_by_one = a->one_by_one,
                                 .debug_numerics = a->debug_numerics,
                                 .keys = a->keys.texts,
                                 .key_count = a->keys.count,
                                 .require_signature = a->require_signature,
                                 .weights_folders = a->weights_dirs.texts,
                                 .weights_folder_count = a->weights_dirs.count};
    tsr_result result = TSR_SUCCESS;
    TRY(ctx, parse_check_finite(ctx, a->check_finite, &options.check_finite));
    if (a->require_signature && !a->keys.count)
        FAIL(ctx, TSR_USAGE, "--require-signature needs --key");
    TRY(ctx, check_device_flags(ctx, a));
    TRY(ctx, check_rank_flags(ctx, a));
    if (a->json && !a->check) FAIL(ctx, TSR_USAGE, "--json needs --check, or ls");
    if (a->check) {
        TRY(ctx, check_flags(ctx, a->flags, MODE_CHECK));
        return tsr_run_check(ctx, a->bundle, &options, a->json);
    }
    TRY(ctx, tsr_model_open(ctx, a->bundle, &options, &model));
    result = check_weights(ctx, a, model);
    if (result.code) { /* not even a trace is written */
        tsr_model_close(ctx, model);
        return result;
    }
    const tsr_memory_plan plan = tsr_model_get_memory_plan(model);
    if (!a->quiet)
        fprintf(stderr, "%s: notice: %s; %u thread%s, %.1f MiB planned\n", tool,
                tsr_model_get_choice(model), tsr_model_get_thread_count(model),
                TSR_PLURAL(tsr_model_get_thread_count(model)),
                (double)(plan.total_bytes + plan.offloaded_bytes) / (1 << 20));
    if (!a->quiet) tsr_report_exchange(tool, model);
    TRY_GOTO(ctx, result, choose_and_run(ctx, a, model, report));
    if (a->export_params)
        TRY_GOTO(ctx, result, tsr_model_export_params(ctx, model, a->export_params));
done:
    return close_traced(ctx, a, model, result);
}

static void print_line(void *user, const char *line) {
    (void)user;
    printf("%s\n", line);
}

/* Returns 0 if the word is the name of a bundle. */
static run_mode find_state_mode(const char *word) {
    const run_mode modes[] = {MODE_FSCK, MODE_LIST, MODE_PRUNE, MODE_EXPORT_STATE, MODE_PLOT};
    for (size_t i = 0; i < TSR_COUNT(modes); i++)
        if (strcmp(word, describe_mode(modes[i])) == 0) return modes[i];
    return 0;
}

static tsr_result check_state_files(tsr_ctx *ctx, const arguments *a, const char *directory) {
    tsr_files files = {0};
    tsr_result result = tsr_files_add(ctx, &files, "DIR", TSR_FILE_STATE, directory);
    if (!result.code) result = tsr_files_add_flags(ctx, &files, a->flags, FLAG_COUNT);
    if (!result.code) result = tsr_files_check(ctx, &files);
    tsr_files_finish(&files);
    return result;
}

static tsr_result inspect_state(tsr_ctx *ctx, const arguments *a, run_mode mode,
                                const char **directories, size_t count) {
    if (count != 1)
        FAIL(ctx, TSR_USAGE, "%s: %zu directories are given; expected one", describe_mode(mode),
             count);
    TRY(ctx, check_flags(ctx, a->flags, mode));
    TRY(ctx, check_state_files(ctx, a, directories[0]));
    ctx->log = tsr_tool_log;
    ctx->log_user = (void *)(uintptr_t)tool;
    if (mode == MODE_FSCK) return tsr_store_fsck(ctx, directories[0], print_line, NULL);
    if (mode == MODE_LIST)
        return (a->json ? tsr_store_list_json : tsr_store_list)(ctx, directories[0], a->verify,
                                                                print_line, NULL);
    if (mode == MODE_EXPORT_STATE) {
        if (!a->out) FAIL(ctx, TSR_USAGE, "export: -o is missing; expected the file to write");
        return tsr_state_export(ctx, directories[0], is_given(a, "--generation"), a->generation,
                                a->out);
    }
    if (!is_given(a, "--keep"))
        FAIL(ctx, TSR_USAGE,
             "prune: --keep is missing; expected the number of generations to keep");
    return tsr_store_prune(ctx, directories[0], (uint32_t)a->keep, a->allow_network_fs, print_line,
                           NULL);
}

static tsr_result plot(tsr_ctx *ctx, const arguments *a, const char **paths, size_t count) {
    tsr_files files = {0};
    if (count != 1)
        FAIL(ctx, TSR_USAGE, "plot: %zu files are given; expected one, of --metrics", count);
    TRY(ctx, check_flags(ctx, a->flags, MODE_PLOT));
    if (!a->out) FAIL(ctx, TSR_USAGE, "plot: -o is missing; expected the file to write");
    tsr_result result = tsr_files_add(ctx, &files, "METRICS", TSR_FILE_READ, paths[0]);
    if (!result.code) result = tsr_files_add(ctx, &files, "-o", TSR_FILE_WRITE, a->out);
    if (!result.code) result = tsr_files_check(ctx, &files);
    tsr_files_finish(&files);
    TRY(ctx, result);
    ctx->log = tsr_tool_log;
    ctx->log_user = (void *)(uintptr_t)tool;
    if (!a->quiet) ctx->log_level = TSR_LOG_NOTICE;
    return tsr_plot(ctx, paths[0], a->out);
}

static tsr_result run_reported(tsr_ctx *ctx, const arguments *a) {
    tsr_report report = {0};
    if (!a->quiet) ctx->log_level = TSR_LOG_NOTICE; /* ranks other than the first are quiet */
    tsr_report_init(&report, a->quiet);
    ctx->log = tsr_report_log;
    ctx->log_user = &report;
    uint32_t rank = a->transport ? tsr_rank_get_number(a->transport) : 0;
    tsr_result result =
        tsr_run_trace_parse(ctx, &a->trace, &report.trace_first, &report.trace_last);
    if (!result.code) result = tsr_run_trace_begin(ctx, &a->trace, rank);
    if (!result.code) result = run(ctx, a, &report);
    tsr_run_trace_end(ctx);
    tsr_ctx closing = tsr_ctx_fork(ctx);
    tsr_result finished = tsr_report_finish(&closing, &report);
    if (finished.code && !result.code) result = tsr_error_adopt(ctx, &closing);
    ctx->log = NULL;
    return result;
}

/* Only the first rank reports on the run; errors of the others are sent through the transport. */
static tsr_result run_rank(tsr_ctx *ctx, tsr_transport *transport, void *user) {
    arguments own = *(const arguments *)user;
    uint32_t rank = tsr_rank_get_number(transport);
    if (!own.ranks) TRY(ctx, check_files(ctx, &own, NULL, &rank));
    own.transport = transport;
    if (rank > 0) {
        own.quiet = true;
        own.metrics = own.store_log = own.tensorboard = NULL;
        ctx->log_level = TSR_LOG_ERROR;
    }
    tsr_result result = run_reported(ctx, &own);
    /* Returning an error ends an MPI job and this process before it could be reported, so it is
     * reported here. */
    if (result.code && own.mpi)
        tsr_tool_log((void *)(uintptr_t)tool, TSR_LOG_ERROR, ctx->error.text);
    return result;
}

/* The requested generation applies to the first attempt only; a restart continues from the newest.
 */
static void resume_newest(void *user, uint32_t attempt) {
    (void)attempt;
    ((arguments *)user)->resume = NULL;
}

static tsr_result run_ranks(tsr_ctx *ctx, arguments *a) {
    const tsr_ranks_options options = {.size_bytes = sizeof options,
                                       .rank_count = (uint32_t)a->ranks,
                                       .restarts = (uint32_t)a->restarts,
                                       .stop = tsr_run_get_stop(),
                                       .restarting = resume_newest};
    if (a->restarts && !a->state_dir)
        FAIL(ctx, TSR_USAGE, "--restarts needs --state-dir, where the last generation is");
    if (a->restarts && a->record)
        FAIL(ctx, TSR_USAGE, "--restarts and --record exclude each other: a log has one beginning");
    ctx->log = tsr_tool_log;
    ctx->log_user = (void *)(uintptr_t)tool;
    tsr_run_catch_signals();
    tsr_result result = tsr_ranks_run(ctx, &options, run_rank, a);
    ctx->log = NULL;
    return result;
}

static tsr_result check_job_flags(tsr_ctx *ctx, const arguments *a) {
    static const char *const names[] = {"--rendezvous", "--job-key", "--no-job-key"};
    for (size_t i = 0; i < TSR_COUNT(names) && !a->launch.launcher; i++)
        if (is_given(a, names[i])) FAIL(ctx, TSR_USAGE, "%s needs --launcher", names[i]);
    if ((a->mpi != 0) + (a->ranks != 0) + (a->launch.launcher != NULL) > 1)
        FAIL(ctx, TSR_USAGE, "--mpi, --launcher and --ranks exclude each other: %s",
             "the first two join ranks that another program started, the last starts ranks");
    if (a->restarts && !a->ranks) FAIL(ctx, TSR_USAGE, "--restarts needs --ranks");
    return TSR_SUCCESS;
}

/* One process, or a rank of a job that another program started. */
static tsr_result run_one(tsr_ctx *ctx, tsr_arena *arena, arguments *a) {
    ctx->log = tsr_tool_log; /* while ranks join */
    ctx->log_user = (void *)(uintptr_t)tool;
    tsr_job_options job = {.size_bytes = sizeof job, .transport = TSR_JOB_MPI};
    if (a->launch.launcher) TRY(ctx, tsr_launcher_find(ctx, &a->launch, arena, &job));
    if (a->mpi || a->launch.launcher) return tsr_ranks_join_job(ctx, &job, run_rank, a);
    TRY(ctx, check_files(ctx, a, NULL, NULL));
    return run_reported(ctx, a);
}

static tsr_result dispatch(tsr_ctx *ctx, int argc, char **argv, tsr_arena *arena, arguments *a) {
    tsr_flag flags[FLAG_COUNT];
    const char *positional[ARGUMENTS_MAX];
    size_t count = 0;
    a->record_values = UINT64_MAX; /* no value */
    fill_flags(a, flags);
    if (argc > ARGUMENTS_MAX)
        FAIL(ctx, TSR_USAGE, "%d arguments; at most %d are accepted", argc, ARGUMENTS_MAX);
    TRY(ctx, tsr_flags_parse(ctx, argc - 1, argv + 1, flags, FLAG_COUNT, positional, &count));
    a->flags = flags;
    a->has_steps = is_given(a, "--steps");
    a->has_seed = is_given(a, "--seed");
    if (a->version) return (void)printf("tessera-run %s\n", tsr_version()), TSR_SUCCESS;
    if (a->help) return print_help(flags), TSR_SUCCESS;
    run_mode mode = count ? find_state_mode(positional[0]) : 0;
    if (mode == MODE_PLOT) return plot(ctx, a, positional + 1, count - 1);
    if (mode) return inspect_state(ctx, a, mode, positional + 1, count - 1);
    if (count != 1)
        FAIL(ctx, TSR_USAGE,
             "%zu files are given; expected one bundle (or fsck, ls, prune, export or plot); "
             "--help "
             "tells more",
             count);
    a->bundle = positional[0];
    a->advice = tsr_run_advise_adopt(arena, argc, argv, a->state_dir);
    TRY(ctx, check_job_flags(ctx, a));
    if (!a->ranks) return run_one(ctx, arena, a);
    for (uint32_t rank = 0; rank < a->ranks; rank++) TRY(ctx, check_files(ctx, a, NULL, &rank));
    return run_ranks(ctx, a);
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {.log_level = TSR_LOG_WARNING};
    arguments a = {.keep = 2};
    tsr_arena arena = {0};
    tsr_tool_begin();
    tsr_result result = dispatch(&ctx, argc, argv, &arena, &a);
    tsr_flag_pairs *const pairs[] = {&a.data, &a.inputs, &a.outputs, &a.renames, &a.set};
    for (size_t i = 0; i < TSR_COUNT(pairs); i++) tsr_flag_pairs_finish(pairs[i]);
    tsr_arena_finish(&arena);
    return tsr_tool_finish(&ctx, tool, result);
}
