/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-run: train, evaluate, call or check. A thin main over libtessera.
 */
#include "loader/tessera.h"
#include "runtime/base/buffer.h"
#include "runtime/data/array_file.h"
#include "tools/common/options.h"
#include "tools/run/check.h"
#include "tools/run/outputs.h"
#include "tools/run/report.h"
#include "tools/run/state.h"
#include "tools/run/trace.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char tool[] = "tessera-run";
static volatile sig_atomic_t stop_requested;

typedef struct arguments {
    const char *bundle;
    const char *entry, *state_dir, *resume, *cpu, *device, *params, *export_params, *record,
        *replay, *metrics, *store_log, *out;
    uint64_t generation;
    uint64_t steps, seed, save_every, keep, eval_every, threads, device_memory, ranks, restarts,
        repeat, record_values;
    tsr_transport *transport; /* of a rank; NULL: one process alone */
    bool has_seed, has_steps, strict, verify, quiet, allow_network_fs, allow_inexact, help, version;
    bool require_signature, check, json, mpi, one_by_one, measure_memory;
    tsr_flag_list keys, weights_dirs;
    const char *adopt;
    tsr_run_trace trace;
    tsr_flag_pairs data, inputs, outputs, renames;
    const tsr_flag *flags; /* borrowed: those that were given */
} arguments;

enum { FLAG_COUNT = 47, LOG_FLAG_COUNT = 9, ARGUMENTS_MAX = 1024 };

static void fill_log_flags(arguments *a, tsr_flag flags[static LOG_FLAG_COUNT]) {
    const tsr_flag rows[LOG_FLAG_COUNT] = {
        {"--record", TSR_FLAG_TEXT, &a->record, "FILE", "write every step's digests", 0, 0, false},
        {"--record-values", TSR_FLAG_COUNT, &a->record_values, "STEP",
         "and the values of every tensor of this step", 0, UINT64_MAX - 1, false},
        {"--replay", TSR_FLAG_TEXT, &a->replay, "FILE", "run again, compare digests", 0, 0, false},
        {"--trace", TSR_FLAG_TEXT, &a->trace.trace, "FILE",
         "write what was done when, as JSON for trace viewers", 0, 0, false},
        {"--trace-steps", TSR_FLAG_TEXT, &a->trace.steps, "FIRST:LAST",
         "steps that are traced (default: the first 10 of the run)", 0, 0, false},
        {"--one-by-one", TSR_FLAG_SWITCH, &a->one_by_one, NULL,
         "run a GPU's kernels one at a time, so that an error names it", 0, 0, false},
        {"--measure-memory", TSR_FLAG_SWITCH, &a->measure_memory, NULL,
         "tell how much of the planned workspace was written", 0, 0, false},
        {"--store-log", TSR_FLAG_TEXT, &a->store_log, "FILE",
         "append one JSON object an event of the state directory", 0, 0, false},
        {"--roofline", TSR_FLAG_TEXT, &a->trace.roofline, "FILE",
         "write what each kernel took beside what the machine can, as CSV", 0, 0, false},
    };
    memcpy(flags, rows, sizeof rows);
}

static void fill_flags(arguments *a, tsr_flag flags[static FLAG_COUNT]) {
    const tsr_flag rows[FLAG_COUNT - LOG_FLAG_COUNT] = {
        {"--data", TSR_FLAG_PAIR, &a->data, "NAME=PATH",
         "bind a data input: .npy, FILE.npz:MEMBER, FILE.safetensors:NAME, flat", 0, 0, false},
        {"--steps", TSR_FLAG_COUNT, &a->steps, "N", "last step, absolute", 1, UINT64_MAX, false},
        {"--seed", TSR_FLAG_COUNT, &a->seed, "N",
         "of parameters and data order (default: the state's, or 0)", 0, UINT32_MAX, false},
        {"--state-dir", TSR_FLAG_TEXT, &a->state_dir, "DIR",
         "where generations are saved and resumed from", 0, 0, false},
        {"--save-every", TSR_FLAG_COUNT, &a->save_every, "N",
         "save every N steps (default: at the end)", 1, UINT64_MAX, false},
        {"--keep", TSR_FLAG_COUNT, &a->keep, "N", "generations (default 2)", 2, UINT32_MAX, false},
        {"--resume", TSR_FLAG_TEXT, &a->resume, "auto|never|GEN",
         "which generation to go on from (default auto)", 0, 0, false},
        {"--eval-every", TSR_FLAG_COUNT, &a->eval_every, "N",
         "evaluate every N steps (default: at the end)", 1, UINT64_MAX, false},
        {"--metrics", TSR_FLAG_TEXT, &a->metrics, "FILE", "one JSON object a step or call", 0, 0,
         false},
        {"--entry", TSR_FLAG_TEXT, &a->entry, "NAME", "entry (default: what trains)", 0, 0, false},
        {"--input", TSR_FLAG_PAIR, &a->inputs, "NAME=PATH", "input of a call", 0, 0, false},
        {"--output", TSR_FLAG_PAIR, &a->outputs, "NAME=PATH",
         "of a call: .npy; several in one .npz or .safetensors; flat .txt, .bin", 0, 0, false},
        {"--repeat", TSR_FLAG_COUNT, &a->repeat, "N",
         "call N times: outputs become inputs of their names", 1, UINT64_MAX, false},
        {"--params", TSR_FLAG_TEXT, &a->params, "FILE", "parameters from safetensors", 0, 0, false},
        {"--adopt", TSR_FLAG_TEXT, &a->adopt, "DIR", "go on from an older model", 0, 0, false},
        {"--rename", TSR_FLAG_PAIR, &a->renames, "OLD=NEW",
         "of --adopt: a tensor's name, or the beginning of names before a dot", 0, 0, false},
        {"--export-params", TSR_FLAG_TEXT, &a->export_params, "FILE",
         "write the parameters as safetensors", 0, 0, false},
        {"--cpu", TSR_FLAG_TEXT, &a->cpu, "LEVEL",
         "force a variant: x86-64-v2, x86-64-v3, x86-64-v4, x86-64-v4-bf16", 0, 0, false},
        {"--device", TSR_FLAG_TEXT, &a->device, "DEVICE",
         "cpu (default), cuda, cuda:N, cuda:GPU-UUID, or auto: a GPU if there is one", 0, 0, false},
        {"--device-memory", TSR_FLAG_COUNT, &a->device_memory, "MIB",
         "take at most this much of a GPU's memory", 1, UINT32_MAX, false},
        {"--threads", TSR_FLAG_COUNT, &a->threads, "N", "default: every CPU this process may use",
         1, UINT32_MAX, false},
        {"--ranks", TSR_FLAG_COUNT, &a->ranks, "W",
         "processes that train together, each with a part of the batch", 1, 1024, false},
        {"--restarts", TSR_FLAG_COUNT, &a->restarts, "N",
         "go on from the last generation when a rank dies, N times", 0, UINT32_MAX, false},
        {"--mpi", TSR_FLAG_SWITCH, &a->mpi, NULL, "be a rank of an MPI job", 0, 0, false},
        {"--strict", TSR_FLAG_SWITCH, &a->strict, NULL,
         "accept only canonical bytes, all verified first", 0, 0, false},
        {"--key", TSR_FLAG_LIST, &a->keys, "PUB",
         "a public key that may have signed the bundle; more than one may be given", 0, 0, false},
        {"--require-signature", TSR_FLAG_SWITCH, &a->require_signature, NULL,
         "refuse a bundle that is not signed by one of the keys", 0, 0, false},
        {"--allow-network-fs", TSR_FLAG_SWITCH, &a->allow_network_fs, NULL,
         "accept a state directory on a network file system", 0, 0, false},
        {"--allow-inexact", TSR_FLAG_SWITCH, &a->allow_inexact, NULL,
         "go on, with a warning, from a state of other numerics", 0, 0, false},
        {"-o", TSR_FLAG_TEXT, &a->out, "FILE", "of export: the file to write", 0, 0, false},
        {"--generation", TSR_FLAG_COUNT, &a->generation, "N",
         "of export (default: the newest good one)", 1, UINT64_MAX, false},
        {"--verify", TSR_FLAG_SWITCH, &a->verify, NULL, "of ls: read all data, too", 0, 0, false},
        {"--weights-dir", TSR_FLAG_LIST, &a->weights_dirs, "DIR",
         "where weights lie that the bundle only names; more than one may be given", 0, 0, false},
        {"--check", TSR_FLAG_SWITCH, &a->check, NULL,
         "run nothing: tell whether it runs here, on what, and what it needs", 0, 0, false},
        {"--json", TSR_FLAG_SWITCH, &a->json, NULL, "of --check, ls: as JSON", 0, 0, false},
        {"--quiet", TSR_FLAG_SWITCH, &a->quiet, NULL, "no progress, no notices", 0, 0, false},
        {"--help", TSR_FLAG_SWITCH, &a->help, NULL, "this text", 0, 0, false},
        {"--version", TSR_FLAG_SWITCH, &a->version, NULL, "version", 0, 0, false},
    };
    memcpy(flags, rows, sizeof rows);
    fill_log_flags(a, flags + FLAG_COUNT - LOG_FLAG_COUNT);
}

/* What is asked for, and the flags that mean something then. */
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
    MODES_OF_STATES = MODE_FSCK | MODE_LIST | MODE_PRUNE | MODE_EXPORT_STATE,
} run_mode;

static unsigned modes_of(const char *flag) {
    static const struct {
        const char *flag;
        unsigned modes;
    } rows[] = {
        {"--data", MODE_TRAIN | MODE_REPLAY | MODE_EVALUATE},
        {"--steps", MODE_TRAIN | MODE_REPLAY},
        {"--save-every", MODE_TRAIN},
        {"--adopt", MODE_TRAIN},
        {"--rename", MODE_TRAIN},
        {"--keep", MODE_TRAIN | MODE_PRUNE},
        {"--ranks", MODE_TRAIN | MODE_REPLAY},
        {"--restarts", MODE_TRAIN},
        {"--mpi", MODE_TRAIN | MODE_REPLAY},
        {"--store-log", MODE_TRAIN},
        {"-o", MODE_EXPORT_STATE},
        {"--generation", MODE_EXPORT_STATE},
        {"--verify", MODE_LIST},
        {"--allow-network-fs", ~(unsigned)(MODE_FSCK | MODE_LIST | MODE_EXPORT_STATE)},
        {"--allow-inexact", MODE_TRAIN},
        {"--resume", MODE_TRAIN | MODE_CALL | MODE_EVALUATE | MODE_EXPORT},
        {"--eval-every", MODE_TRAIN},
        {"--metrics", MODE_TRAIN | MODE_REPLAY | MODE_CALL | MODE_EVALUATE},
        {"--measure-memory", MODE_TRAIN | MODE_REPLAY | MODE_CALL | MODE_EVALUATE},
        {"--trace", MODE_TRAIN | MODE_REPLAY | MODE_CALL | MODE_EVALUATE},
        {"--trace-steps", MODE_TRAIN | MODE_REPLAY},
        {"--roofline", MODE_TRAIN | MODE_REPLAY | MODE_CALL | MODE_EVALUATE},
        {"--record", MODE_TRAIN | MODE_REPLAY}, /* both is refused with a reason */
        {"--record-values", MODE_TRAIN | MODE_REPLAY},
        {"--replay", MODE_REPLAY},
        {"--input", MODE_CALL},
        {"--output", MODE_CALL},
        {"--repeat", MODE_CALL},
        {"--check", MODE_CHECK},
        {"--json", MODE_CHECK | MODE_LIST},
        {"--cpu", ~(unsigned)MODES_OF_STATES},
        {"--device", ~(unsigned)MODES_OF_STATES},
        {"--device-memory", ~(unsigned)MODES_OF_STATES},
        {"--strict", ~(unsigned)MODES_OF_STATES},
        {"--weights-dir", ~(unsigned)MODES_OF_STATES},
        {"--key", ~(unsigned)MODES_OF_STATES},
        {"--require-signature", ~(unsigned)MODES_OF_STATES},
        {"--quiet", ~0u},
        {"--help", ~0u},
        {"--version", ~0u},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].flag, flag) == 0) return rows[i].modes;
    return ~(unsigned)(MODES_OF_STATES | MODE_CHECK);
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
    case MODES_OF_STATES:
        break;
    }
    return "";
}

static tsr_result check_flags(tsr_ctx *ctx, const tsr_flag *flags, run_mode mode) {
    for (size_t i = 0; i < FLAG_COUNT; i++)
        if (flags[i].given && !(modes_of(flags[i].name) & mode))
            FAIL(ctx, TSR_USAGE, "%s does not apply to %s", flags[i].name, describe_mode(mode));
    return TSR_SUCCESS;
}

static tsr_result check_state_flags(tsr_ctx *ctx, const arguments *a) {
    static const char *const names[] = {"--save-every", "--keep", "--resume", "--store-log"};
    for (size_t i = 0; i < FLAG_COUNT && !a->state_dir; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            if (a->flags[i].given && strcmp(a->flags[i].name, names[k]) == 0)
                FAIL(ctx, TSR_USAGE, "%s needs --state-dir", names[k]);
    return TSR_SUCCESS;
}

static void print_help(const tsr_flag *flags) {
    printf(
        "usage: tessera-run BUNDLE [flags]          train, or call an entry\n"
        "       tessera-run BUNDLE --check [--json] tell whether it runs here, and what it needs\n"
        "       tessera-run fsck DIR                check a state directory, changing nothing\n"
        "       tessera-run ls DIR [--verify] [--json]\n"
        "                                           list its generations, changing nothing\n"
        "       tessera-run prune DIR --keep N      remove all but the N newest generations\n"
        "       tessera-run export DIR -o FILE      write a generation as safetensors\n\n");
    tsr_flags_print(flags, FLAG_COUNT);
    printf("\nExit codes: docs/exit-codes.md. SIGTERM or SIGINT: finish the step, save, exit 0; "
           "again: at once.\n");
}

static void on_signal(int number) {
    if (stop_requested) {
        signal(number, SIG_DFL);
        raise(number);
    }
    stop_requested = 1;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

static tsr_result parse_resume(tsr_ctx *ctx, const char *text, tsr_train_options *options) {
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
                 "--resume is '%s'; expected auto, never or the number of a generation", text);
    if (!text[0])
        FAIL(ctx, TSR_USAGE,
             "--resume is empty; expected auto, never or the number of a generation");
    options->resume = TSR_RESUME_EXACT;
    options->resume_generation = value;
    return TSR_SUCCESS;
}

static void print_state(const tsr_train_summary *summary, bool has_store) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&summary->state_hash, hex);
    printf("state %s step %llu", hex, (unsigned long long)summary->position.step);
    if (has_store && summary->saves.committed_count)
        printf(" generation %llu", (unsigned long long)summary->saves.last_committed.number);
    if (summary->saves.failed_count)
        printf(" failed-saves %llu", (unsigned long long)summary->saves.failed_count);
    printf("\n");
}

static void print_outcome(const arguments *a, const tsr_train_summary *summary,
                          uint64_t first_step) {
    if (a->replay)
        printf("replay matches%s: %llu steps, every digest equal\n",
               summary->stopped ? " so far" : "",
               (unsigned long long)(summary->position.step - first_step));
    if (summary->stopped && a->has_steps)
        printf("stopped by a signal at step %llu of %llu\n",
               (unsigned long long)summary->position.step, (unsigned long long)a->steps);
    else if (summary->stopped)
        printf("stopped by a signal at step %llu\n", (unsigned long long)summary->position.step);
    if (!a->replay && !summary->stopped && first_step >= a->steps)
        printf("the state is at step %llu, at or past --steps %llu: nothing to do\n",
               (unsigned long long)first_step, (unsigned long long)a->steps);
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
        .eval_every = a->eval_every,
        .record = a->record,
        .replay = a->replay,
        .params = a->params,
        .adopt = {a->adopt, renames, a->renames.count},
        .callbacks = {report, tsr_report_step, tsr_report_eval, tsr_report_saved, tsr_report_ranks},
        .begun = is_first(a) ? tsr_report_begun : NULL,
        .stop = &stop_requested,
        .records_values = a->record_values != UINT64_MAX,
        .values_of = a->record_values};
    tsr_state_log log = {.fd = -1};
    if (!a->has_steps && !a->replay)
        FAIL(ctx, TSR_USAGE, "--steps is missing; expected the absolute step to stop at");
    if (a->renames.count && !a->adopt) FAIL(ctx, TSR_USAGE, "--rename needs --adopt");
    bind_pairs(&a->data, data);
    for (size_t i = 0; i < a->renames.count; i++)
        renames[i] = (tsr_rename){a->renames.pairs[i].name, a->renames.pairs[i].value};
    TRY(ctx, parse_resume(ctx, a->resume, &options));
    if (a->store_log) {
        TRY(ctx, tsr_state_log_open(ctx, a->store_log, &log));
        options.store_event = tsr_state_log_line;
        options.store_event_user = &log;
    }
    catch_signals();
    tsr_result result = tsr_train(ctx, model, &options, &summary);
    if (!result.code) tsr_report_workspace(report);
    tsr_ctx closing = tsr_ctx_fork(ctx);
    tsr_result metrics = tsr_report_finish(&closing, report);
    tsr_result logged = tsr_state_log_close(metrics.code ? &(tsr_ctx){0} : &closing, &log);
    if (!metrics.code) metrics = logged;
    TRY(ctx, result);
    if (is_first(a)) print_outcome(a, &summary, report->first_step);
    return metrics.code ? tsr_error_adopt(ctx, &closing) : TSR_SUCCESS;
}

/* Parameters for a call or an export: a state, a file, or the bundle's own. out_step: what they
 * have been trained for, where that is known. */
static tsr_result load(tsr_ctx *ctx, const arguments *a, tsr_model *model, uint64_t *out_step) {
    tsr_train_options resume = {.resume = TSR_RESUME_AUTO};
    tsr_generation generation;
    *out_step = 0;
    if (a->state_dir && a->params)
        FAIL(ctx, TSR_USAGE, "--state-dir and --params both name parameters; give one");
    TRY(ctx, parse_resume(ctx, a->resume, &resume));
    TRY(ctx, tsr_model_initialize(ctx, model, (uint32_t)a->seed));
    if (a->params) return tsr_model_load_params(ctx, model, a->params);
    if (a->state_dir) {
        TRY(ctx, tsr_model_load_state(ctx, model, a->state_dir, resume.resume,
                                      resume.resume_generation, &generation));
        *out_step = generation.position.step;
        if (!a->quiet)
            fprintf(stderr, "%s: notice: generation %llu, step %llu\n", tool,
                    (unsigned long long)generation.number,
                    (unsigned long long)generation.position.step);
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

static tsr_result call(tsr_ctx *ctx, const arguments *a, tsr_model *model, tsr_report *report) {
    uint64_t step = 0;
    const tsr_call_options options = {.size_bytes = sizeof options,
                                      .repeat = a->repeat,
                                      .keeps_nothing =
                                          a->metrics || a->trace.trace || a->trace.roofline,
                                      .called = tsr_report_called,
                                      .called_user = report};
    tsr_binding inputs[TSR_FLAG_PAIRS_MAX], outputs[TSR_FLAG_PAIRS_MAX];
    TRY(ctx, load(ctx, a, model, &step));
    bind_pairs(&a->inputs, inputs);
    bind_pairs(&a->outputs, outputs);
    return tsr_model_run_files(ctx, model, a->entry, &options, inputs, a->inputs.count, outputs,
                               a->outputs.count);
}

static tsr_result find_entry(tsr_ctx *ctx, const tsr_config *config, const char *name,
                             const tsr_config_entry **out_entry) {
    tsr_buffer list = {0};
    tsr_result result = TSR_SUCCESS;
    *out_entry = tsr_config_find_entry(config, name);
    for (size_t i = 0; i < config->entry_count; i++)
        tsr_buffer_printf(&list, "%s%s", i ? ", " : "", config->entries[i].name);
    if (!*out_entry)
        FAIL_GOTO(ctx, result, TSR_USAGE, "no entry '%s'; the bundle has %s", name,
                  list.bytes ? list.bytes : "none");
done:
    tsr_buffer_finish(&list);
    return result;
}

/* Without --entry a run trains: a bundle of other entries alone says which there are. */
static tsr_result need_training(tsr_ctx *ctx, const tsr_config *config) {
    tsr_buffer list = {0};
    tsr_result result = TSR_SUCCESS;
    for (size_t i = 0; i < config->entry_count; i++)
        if (config->entries[i].kind == TSR_ENTRY_TRAIN) goto done;
    for (size_t i = 0; i < config->entry_count; i++)
        tsr_buffer_printf(&list, "%s%s", i ? ", " : "", config->entries[i].name);
    FAIL_GOTO(ctx, result, TSR_USAGE, "the bundle trains nothing; expected --entry with one of %s",
              list.bytes ? list.bytes : "none");
done:
    tsr_buffer_finish(&list);
    return result;
}

static tsr_result choose_mode(tsr_ctx *ctx, const arguments *a, const tsr_model *model,
                              run_mode *out_mode) {
    const tsr_config_entry *entry = NULL;
    if (a->entry) TRY(ctx, find_entry(ctx, tsr_model_get_config(model), a->entry, &entry));
    bool exports = !entry && a->export_params && !a->has_steps && !a->replay && !a->data.count;
    if (!entry && !exports) TRY(ctx, need_training(ctx, tsr_model_get_config(model)));
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
    if (a->measure_memory && tsr_model_mark_workspace(model)) report->measured = model;
    if (a->measure_memory && !report->measured && !a->quiet)
        fprintf(stderr, "%s: notice: --measure-memory is of the CPU's memory; this is %s\n", tool,
                tsr_model_get_target(model));
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

/* A run that failed has a trace, too. */
static tsr_result close_traced(tsr_ctx *ctx, const arguments *a, tsr_model *model,
                               tsr_result result) {
    tsr_ctx writing = tsr_ctx_fork(ctx);
    tsr_result written = tsr_run_trace_write(&writing, &a->trace, model, a->transport);
    tsr_model_close(ctx, model);
    if (written.code && !result.code) return tsr_error_adopt(ctx, &writing);
    if (written.code) tsr_log(ctx, TSR_LOG_WARNING, "%s", writing.error.text);
    return result;
}

/* What is of a GPU alone, or of a CPU alone. With "auto" it holds for what is chosen. */
static tsr_result check_device_flags(tsr_ctx *ctx, const arguments *a) {
    bool is_cpu = !a->device || strcmp(a->device, "cpu") == 0;
    bool is_gpu = !is_cpu && strcmp(a->device, "auto") != 0;
    if (a->device_memory && is_cpu)
        FAIL(ctx, TSR_USAGE,
             "--device-memory %" PRIu64 " limits a GPU's memory; the device is the CPU",
             a->device_memory);
    if (a->one_by_one && is_cpu)
        FAIL(ctx, TSR_USAGE, "--one-by-one is of a GPU's kernels; the device is the CPU");
    if (a->measure_memory && is_gpu)
        FAIL(ctx, TSR_USAGE, "--measure-memory is of the CPU's memory; the device is '%s'",
             a->device);
    if (a->cpu && is_gpu)
        FAIL(ctx, TSR_USAGE, "--cpu %s chooses code for the CPU; the device is '%s'", a->cpu,
             a->device);
    if (a->threads && is_gpu && !a->quiet)
        fprintf(stderr,
                "%s: notice: --threads %" PRIu64 " is of the CPU's kernels; the device is '%s'\n",
                tool, a->threads, a->device);
    return TSR_SUCCESS;
}

enum { FIXED_FILES = 10, FILES_MAX = FIXED_FILES + 3 * TSR_FLAG_PAIRS_MAX + TSR_FLAG_LIST_MAX };

/* Behind rows[count]: the files of arrays, which may be named with a member. */
static tsr_result list_arrays(tsr_ctx *ctx, const char *flag, const tsr_flag_pairs *pairs,
                              tsr_arena *arena, tsr_run_output *rows, size_t *count) {
    for (size_t i = 0; i < pairs->count; i++) {
        const char *spec = pairs->pairs[i].value;
        char *path = tsr_arena_strndup(arena, spec, tsr_array_path_length(spec));
        if (!path) FAIL(ctx, TSR_MEMORY, "no memory for the path '%s'", spec);
        rows[(*count)++] = (tsr_run_output){flag, path, true};
    }
    return TSR_SUCCESS;
}

static tsr_result check_listed(tsr_ctx *ctx, const arguments *a, const char *weights,
                               const char *trace, const char *roofline, tsr_arena *arena) {
    size_t count = FIXED_FILES;
    tsr_run_output rows[FILES_MAX] = {
        {"the bundle", a->bundle, true},
        {"the bundle's weights", weights, true},
        {"--params", a->params, true},
        {"--replay", a->replay, true},
        {"--record", a->record, false},
        {"--metrics", a->metrics, false},
        {"--store-log", a->store_log, false},
        {"--export-params", a->export_params, false},
        {"--trace", trace, false},
        {"--roofline", roofline, false},
    };
    for (size_t i = 0; i < a->outputs.count; i++)
        rows[count++] = (tsr_run_output){"--output", a->outputs.pairs[i].value, false};
    for (size_t i = 0; i < a->keys.count; i++)
        rows[count++] = (tsr_run_output){"--key", a->keys.texts[i], true};
    TRY(ctx, list_arrays(ctx, "--data", &a->data, arena, rows, &count));
    TRY(ctx, list_arrays(ctx, "--input", &a->inputs, arena, rows, &count));
    return tsr_run_check_outputs(ctx, rows, count);
}

/* No two outputs are one file, nor one that is read. weights: a file that the bundle names; NULL:
 * none, or the bundle is not opened yet. rank: NULL of a process alone. */
static tsr_result check_files(tsr_ctx *ctx, const arguments *a, const char *weights,
                              const uint32_t *rank) {
    tsr_arena arena = {0};
    const char *trace = a->trace.trace, *roofline = a->trace.roofline;
    if (rank) {
        trace = tsr_run_trace_path(trace, *rank, &arena);
        roofline = tsr_run_trace_path(roofline, *rank, &arena);
    }
    tsr_result result = check_listed(ctx, a, weights, trace, roofline, &arena);
    tsr_arena_finish(&arena);
    return result;
}

/* Until here outputs have at most been opened to append to them. */
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
                                 .one_by_one = a->one_by_one,
                                 .keys = a->keys.texts,
                                 .key_count = a->keys.count,
                                 .require_signature = a->require_signature,
                                 .weights_folders = a->weights_dirs.texts,
                                 .weights_folder_count = a->weights_dirs.count};
    tsr_result result = TSR_SUCCESS;
    if (a->require_signature && !a->keys.count)
        FAIL(ctx, TSR_USAGE, "--require-signature needs --key");
    TRY(ctx, check_device_flags(ctx, a));
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
        fprintf(stderr, "%s: notice: %s; %u threads, %.1f MiB planned\n", tool,
                tsr_model_get_choice(model), tsr_model_get_thread_count(model),
                (double)(plan.total_bytes + plan.away_bytes) / (1 << 20));
    TRY_GOTO(ctx, result, run_chosen(ctx, a, model, report));
    if (a->export_params)
        TRY_GOTO(ctx, result, tsr_model_export_params(ctx, model, a->export_params));
done:
    return close_traced(ctx, a, model, result);
}

static void print_line(void *user, const char *line) {
    (void)user;
    printf("%s\n", line);
}

/* 0: the word is a bundle's name. */
static run_mode find_state_mode(const char *word) {
    const run_mode modes[] = {MODE_FSCK, MODE_LIST, MODE_PRUNE, MODE_EXPORT_STATE};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(word, describe_mode(modes[i])) == 0) return modes[i];
    return 0;
}

static tsr_result inspect_state(tsr_ctx *ctx, const arguments *a, run_mode mode,
                                const char **directories, size_t count) {
    bool has_keep = false, has_generation = false;
    if (count != 1)
        FAIL(ctx, TSR_USAGE, "%s: %zu directories are given; expected one", describe_mode(mode),
             count);
    TRY(ctx, check_flags(ctx, a->flags, mode));
    ctx->log = tsr_tool_log;
    ctx->log_user = (void *)(uintptr_t)tool;
    if (mode == MODE_FSCK) return tsr_store_fsck(ctx, directories[0], print_line, NULL);
    if (mode == MODE_LIST)
        return (a->json ? tsr_store_list_json : tsr_store_list)(ctx, directories[0], a->verify,
                                                                print_line, NULL);
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        has_keep |= a->flags[i].given && strcmp(a->flags[i].name, "--keep") == 0;
        has_generation |= a->flags[i].given && strcmp(a->flags[i].name, "--generation") == 0;
    }
    if (mode == MODE_EXPORT_STATE) {
        if (!a->out) FAIL(ctx, TSR_USAGE, "export: -o is missing; expected the file to write");
        return tsr_state_export(ctx, directories[0], has_generation, a->generation, a->out);
    }
    if (!has_keep) FAIL(ctx, TSR_USAGE, "prune: --keep is missing; expected how many stay");
    return tsr_store_prune(ctx, directories[0], (uint32_t)a->keep, a->allow_network_fs, print_line,
                           NULL);
}

static tsr_result run_reported(tsr_ctx *ctx, const arguments *a) {
    tsr_report report = {0};
    TRY(ctx, tsr_report_init(ctx, &report, a->quiet, a->metrics));
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

/* Only the first rank tells of the run; the others' errors come through the transport. */
static tsr_result run_rank(tsr_ctx *ctx, tsr_transport *transport, void *user) {
    arguments own = *(const arguments *)user;
    uint32_t rank = tsr_rank_get_number(transport);
    if (own.mpi) TRY(ctx, check_files(ctx, &own, NULL, &rank));
    own.transport = transport;
    if (rank > 0) {
        own.quiet = true;
        own.metrics = own.store_log = NULL;
        ctx->log_level = TSR_LOG_ERROR;
    }
    tsr_result result = run_reported(ctx, &own);
    /* What is returned from here ends the job of MPI, and this process, before it could be told. */
    if (result.code && own.mpi)
        tsr_tool_log((void *)(uintptr_t)tool, TSR_LOG_ERROR, ctx->error.text);
    return result;
}

/* What was asked for holds for the beginning; then the run goes on where it was. */
static void resume_newest(void *user, uint32_t attempt) {
    (void)attempt;
    ((arguments *)user)->resume = NULL;
}

static tsr_result run_ranks(tsr_ctx *ctx, arguments *a) {
    const tsr_ranks_options options = {.size_bytes = sizeof options,
                                       .rank_count = (uint32_t)a->ranks,
                                       .restarts = (uint32_t)a->restarts,
                                       .stop = &stop_requested,
                                       .restarting = resume_newest};
    if (a->restarts && !a->state_dir)
        FAIL(ctx, TSR_USAGE, "--restarts needs --state-dir, where the last generation is");
    if (a->restarts && a->record)
        FAIL(ctx, TSR_USAGE, "--restarts and --record exclude each other: a log has one beginning");
    ctx->log = tsr_tool_log;
    ctx->log_user = (void *)(uintptr_t)tool;
    catch_signals();
    tsr_result result = tsr_ranks_run(ctx, &options, run_rank, a);
    ctx->log = NULL;
    return result;
}

static tsr_result dispatch(tsr_ctx *ctx, int argc, char **argv, arguments *a) {
    tsr_flag flags[FLAG_COUNT];
    const char *positional[ARGUMENTS_MAX];
    size_t count = 0;
    a->record_values = UINT64_MAX; /* none */
    fill_flags(a, flags);
    if (argc > ARGUMENTS_MAX)
        FAIL(ctx, TSR_USAGE, "%d arguments are given; at most %d are accepted", argc,
             ARGUMENTS_MAX);
    TRY(ctx, tsr_flags_parse(ctx, argc - 1, argv + 1, flags, FLAG_COUNT, positional, &count));
    a->has_steps = flags[1].given;
    a->has_seed = flags[2].given;
    a->flags = flags;
    if (a->version) return (void)printf("tessera-run %s\n", tsr_version()), TSR_SUCCESS;
    if (a->help) return print_help(flags), TSR_SUCCESS;
    run_mode mode = count ? find_state_mode(positional[0]) : 0;
    if (mode) return inspect_state(ctx, a, mode, positional + 1, count - 1);
    if (count != 1)
        FAIL(ctx, TSR_USAGE,
             "%zu files are given; expected one bundle (or fsck, ls, prune or export with DIR); "
             "--help "
             "tells more",
             count);
    a->bundle = positional[0];
    if (!a->mpi && !a->ranks) TRY(ctx, check_files(ctx, a, NULL, NULL));
    for (uint32_t rank = 0; rank < a->ranks; rank++) TRY(ctx, check_files(ctx, a, NULL, &rank));
    if (a->ranks == 0) {
        if (a->restarts) FAIL(ctx, TSR_USAGE, "--restarts needs --ranks");
        return a->mpi ? tsr_ranks_join_job(ctx, run_rank, a) : run_reported(ctx, a);
    }
    if (a->mpi) FAIL(ctx, TSR_USAGE, "--mpi and --ranks both start ranks; give one");
    return run_ranks(ctx, a);
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {.log_level = TSR_LOG_WARNING};
    arguments a = {.keep = 2};
    tsr_tool_begin();
    tsr_result result = dispatch(&ctx, argc, argv, &a);
    tsr_flag_pairs_finish(&a.data);
    tsr_flag_pairs_finish(&a.inputs);
    tsr_flag_pairs_finish(&a.outputs);
    tsr_flag_pairs_finish(&a.renames);
    return tsr_tool_finish(&ctx, tool, result);
}
