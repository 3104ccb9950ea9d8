/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot tune: measures the candidates of each kernel on this host, and builds with the
 * fastest ones; lists and changes the store of measured plans.
 */
#include "bundle/bundle.h"
#include "runtime/base/array.h"
#include "runtime/base/io/io.h"
#include "runtime/base/io/json.h"
#include "runtime/base/plural.h"
#include "runtime/cpu.h"
#include "tools/aot/aot.h"
#include "tools/aot/model.h"
#include "tools/aot/tune/artifact.h"
#include "tools/aot/tune/host.h"
#include "tools/aot/tune/search.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEADLINE_S = 60, SECONDS_MAX = 1000000, THREADS_MAX = 1024 };

typedef struct tune {
    const char *source, *output, *target, *store, *trace, *diagnostics;
    const char *export, *import; /* documents */
    bool list, prune, json;
    uint64_t budget_s, deadline_s, threads, fake_times;
    tsr_flag_list dims;
    tsr_dim_binding bindings[TSR_FLAG_LIST_MAX];
    tsr_arena arena;
    tsr_tune_host host;
    tsr_schedule_store *open; /* owned */
} tune;

/* ---- interrupts ------------------------------------------------------------------------------ */

static volatile sig_atomic_t stopped;

static void on_signal(int number) {
    if (stopped) {
        tsr_io_remove_temporaries();
        signal(number, SIG_DFL);
        raise(number);
    }
    stopped = 1;
}

/* The first signal ends the search, which keeps what it found; the second one ends the program. */
static void catch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < TSR_COUNT(numbers); i++) sigaction(numbers[i], &action, NULL);
}

/* ---- the store ------------------------------------------------------------------------------- */

static tsr_result make_folder(tsr_ctx *ctx, const char *path) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int error = io->mkdir(io->self, TSR_IO_CWD, path, 0777);
    if (error < 0 && error != -EEXIST)
        FAIL_ERRNO(ctx, TSR_IO, -error, "cannot create directory '%s'", path);
    return TSR_SUCCESS;
}

/* "schedules.db" in the user's folder for caches. */
static tsr_result choose_store(tsr_ctx *ctx, tune *t, bool writes) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (t->store) return TSR_SUCCESS;
    if (cache && cache[0])
        cache = tsr_arena_strdup(&t->arena, cache);
    else if (home && home[0])
        cache = tsr_arena_printf(&t->arena, "%s/.cache", home);
    else
        FAIL(ctx, TSR_USAGE, "tune: --store FILE is missing, and HOME is not set");
    const char *folder = cache ? tsr_arena_printf(&t->arena, "%s/tessera", cache) : NULL;
    t->store = folder ? tsr_arena_printf(&t->arena, "%s/schedules.db", folder) : NULL;
    if (!t->store) FAIL(ctx, TSR_MEMORY, "no memory for a path");
    if (!writes) return TSR_SUCCESS;
    TRY(ctx, make_folder(ctx, cache));
    return make_folder(ctx, folder);
}

static void print_entry(const tsr_store_entry *entry, const tsr_tune_host *host) {
    bool is_current =
        strcmp(entry->compiler, host->compiler) == 0 && strcmp(entry->runtime, host->runtime) == 0;
    printf("%s %s %s\n  %s; %s; compiler %s, runtime %s%s\n  sizes", entry->op_kind,
           entry->shape_sig, entry->arch, entry->machine, entry->policy_hash, entry->compiler,
           entry->runtime, is_current ? "" : " (expired)");
    for (size_t i = 0; i < entry->plan.count; i++) printf(" %" PRId64, entry->plan.sizes[i]);
    printf("; %.3f us, safe plan %.3f us; %" PRIu64 " trial%s\n",
           1e-3 * (double)entry->plan.measured_ns, 1e-3 * (double)entry->plan.safe_ns,
           entry->trials, TSR_PLURAL(entry->trials));
}

static tsr_result import(tsr_ctx *ctx, tune *t) {
    tsr_store_entry *entries = NULL;
    size_t count = 0;
    TRY(ctx, tsr_artifact_read(ctx, t->import, &t->arena, &entries, &count));
    TRY(ctx, tsr_schedule_store_put(ctx, t->open, entries, count));
    printf("imported %zu plan%s\n", count, TSR_PLURAL(count));
    return TSR_SUCCESS;
}

static tsr_result prune(tsr_ctx *ctx, tune *t) {
    uint64_t count = 0;
    TRY(ctx, tsr_schedule_store_prune(ctx, t->open, t->host.compiler, t->host.runtime, &count));
    printf("deleted %" PRIu64 " plan%s of other versions\n", count, TSR_PLURAL(count));
    return TSR_SUCCESS;
}

/* The actions on the store, in this order: import, prune, list, export. */
static tsr_result manage(tsr_ctx *ctx, tune *t) {
    tsr_store_entry *entries = NULL;
    size_t count = 0;
    TRY(ctx, choose_store(ctx, t, t->import != NULL));
    TRY(ctx, tsr_schedule_store_open(ctx, t->store, t->import || t->prune, &t->open));
    if (t->import) TRY(ctx, import(ctx, t));
    if (t->prune) TRY(ctx, prune(ctx, t));
    if (!t->list && !t->export) return TSR_SUCCESS;
    TRY(ctx, tsr_schedule_store_read(ctx, t->open, &t->arena, &entries, &count));
    for (size_t i = 0; i < count && t->list; i++) print_entry(&entries[i], &t->host);
    return t->export ? tsr_artifact_write(ctx, t->export, entries, count) : TSR_SUCCESS;
}

/* The key of a kernel on this host. */
static tsr_result key_of(tsr_ctx *ctx, tune *t, const tsr_tune_kernel *kernel,
                         tsr_store_entry *out_entry) {
    TRY(ctx,
        tsr_store_entry_init(ctx, t->target, kernel->signature, "portable", &t->arena, out_entry));
    out_entry->machine = t->fake_times ? "fake" : t->host.machine;
    out_entry->compiler = t->host.compiler;
    out_entry->runtime = t->host.runtime;
    return TSR_SUCCESS;
}

static bool same_key(const tsr_store_entry *a, const tsr_store_entry *b) {
    return strcmp(a->plan.signature, b->plan.signature) == 0 && strcmp(a->arch, b->arch) == 0 &&
           strcmp(a->policy_hash, b->policy_hash) == 0 && strcmp(a->machine, b->machine) == 0 &&
           strcmp(a->mesh_sig, b->mesh_sig) == 0 && strcmp(a->compiler, b->compiler) == 0 &&
           strcmp(a->driver, b->driver) == 0 && strcmp(a->runtime, b->runtime) == 0;
}

/* Takes the plans that the store has. */
static tsr_result find_known(tsr_ctx *ctx, tune *t, tsr_tune_search *search) {
    tsr_store_entry *entries = NULL;
    size_t count = 0;
    TRY(ctx, tsr_schedule_store_read(ctx, t->open, &t->arena, &entries, &count));
    for (size_t i = 0; i < search->kernel_count; i++) {
        tsr_tune_kernel *kernel = &search->kernels[i];
        tsr_store_entry key;
        TRY(ctx, key_of(ctx, t, kernel, &key));
        for (size_t k = 0; k < count && !kernel->is_known; k++) {
            if (!same_key(&entries[k], &key) || entries[k].plan.count != kernel->size_count)
                continue;
            kernel->is_known = true;
            kernel->plan = entries[k].plan;
        }
    }
    return TSR_SUCCESS;
}

/* Stores the plans that were measured now; of an incomplete search only those that won. */
static tsr_result store_plans(tsr_ctx *ctx, tune *t, const tsr_tune_search *search) {
    tsr_store_entry *entries = TSR_NEW(&t->arena, tsr_store_entry, search->kernel_count + 1);
    size_t count = 0;
    if (!entries) FAIL(ctx, TSR_MEMORY, "no memory for %zu plans", search->kernel_count);
    for (size_t i = 0; i < search->kernel_count; i++) {
        const tsr_tune_kernel *kernel = &search->kernels[i];
        if (kernel->is_known || (!search->is_complete && !kernel->winner)) continue;
        TRY(ctx, key_of(ctx, t, kernel, &entries[count]));
        entries[count].plan = kernel->plan;
        for (size_t k = 0; k < kernel->candidate_count; k++)
            entries[count].trials += kernel->candidates[k].verdict.safe_ns > 0;
        count++;
    }
    return tsr_schedule_store_put(ctx, t->open, entries, count);
}

/* ---- building -------------------------------------------------------------------------------- */

static void print_diag(void *user, const tsr_diag *diag) {
    const tune *t = user;
    tsr_aot_print_diag(diag, t->json);
}

static tsr_result build(tsr_ctx *ctx, void *user, const tsr_measured *plans, size_t count,
                        const char *path) {
    tune *t = user;
    const tsr_compile_options options = {.size_bytes = sizeof options,
                                         .source_path = t->source,
                                         .output_path = path,
                                         .targets = &t->target,
                                         .target_count = 1,
                                         .measured = plans,
                                         .measured_count = count,
                                         .dims = t->bindings,
                                         .dim_count = t->dims.count,
                                         .on_diag = print_diag,
                                         .user = t};
    TRY(ctx, tsr_aot_check_source(ctx, "tune", &options));
    return tsr_compile(ctx, &options, NULL);
}

static tsr_result read_kernels(tsr_ctx *ctx, tune *t, tsr_tune_search *search) {
    const tsr_json_options options = {.subject = "schedule", .code = TSR_CORRUPT};
    tsr_bundle *bundle = NULL;
    tsr_bundle_layer layer;
    struct cJSON *root = NULL;
    void *bytes = NULL;
    size_t size_bytes = 0;
    TRY(ctx, tsr_bundle_open(ctx, search->safe_path, NULL, &bundle));
    tsr_result result = tsr_bundle_need_layer(ctx, bundle, 0, TSR_MEDIA_SCHEDULE, &layer);
    if (!result.code)
        result = tsr_bundle_read_layer(ctx, bundle, &layer, &t->arena, &bytes, &size_bytes);
    if (!result.code) result = tsr_json_parse(ctx, bytes, size_bytes, &options, &root);
    if (!result.code) result = tsr_tune_read_kernels(ctx, root, search);
    tsr_json_destroy(root);
    tsr_bundle_close(ctx, bundle);
    return result;
}

static tsr_result build_tuned(tsr_ctx *ctx, tune *t, const tsr_tune_search *search) {
    tsr_measured *plans = TSR_NEW(&t->arena, tsr_measured, search->kernel_count + 1);
    if (!plans) FAIL(ctx, TSR_MEMORY, "no memory for %zu plans", search->kernel_count);
    for (size_t i = 0; i < search->kernel_count; i++) plans[i] = search->kernels[i].plan;
    return build(ctx, t, plans, search->kernel_count, t->output);
}

/* ---- tuning ---------------------------------------------------------------------------------- */

static void print_kernel(const tsr_tune_kernel *kernel) {
    const tsr_measured *plan = &kernel->plan;
    printf("%s%s:", kernel->names[0], kernel->name_count > 1 ? ", …" : "");
    for (size_t i = 0; i < plan->count; i++) printf(" %" PRId64, plan->sizes[i]);
    printf(" (%s)", kernel->is_known ? "store" : kernel->winner ? "tuned" : "safe plan");
    if (plan->measured_ns)
        printf(", %.3f us; safe plan %.3f us; %.2fx", 1e-3 * (double)plan->measured_ns,
               1e-3 * (double)plan->safe_ns, (double)plan->safe_ns / (double)plan->measured_ns);
    printf("\n");
}

static void print_summary(const tsr_tune_search *search) {
    size_t known = 0;
    for (size_t i = 0; i < search->kernel_count; i++) {
        print_kernel(&search->kernels[i]);
        known += search->kernels[i].is_known;
    }
    printf("%zu kernel%s, %zu from the store, %" PRIu64 " trial%s, %" PRIu64 " fault%s%s\n",
           search->kernel_count, TSR_PLURAL(search->kernel_count), known, search->trials,
           TSR_PLURAL(search->trials), search->faults, TSR_PLURAL(search->faults),
           search->is_complete ? "" : "; not all candidates were tried");
}

static tsr_result write_trace(tsr_ctx *ctx, const tune *t, const tsr_buffer *events) {
    tsr_buffer out = {0};
    if (!t->trace) return TSR_SUCCESS;
    tsr_buffer_text(&out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    tsr_buffer_append(&out, events->bytes, events->size_bytes);
    tsr_buffer_text(&out, "\n]}\n");
    tsr_result result =
        out.failed || events->failed
            ? tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory for the trace")
            : tsr_io_atomic_write(ctx, t->trace, out.bytes, out.size_bytes);
    tsr_buffer_finish(&out);
    return result;
}

static tsr_result search_and_build(tsr_ctx *ctx, tune *t, tsr_tune_search *search) {
    TRY(ctx, build(ctx, t, NULL, 0, search->safe_path));
    TRY(ctx, read_kernels(ctx, t, search));
    TRY(ctx, find_known(ctx, t, search));
    TRY(ctx, tsr_tune_run(ctx, search));
    TRY(ctx, build_tuned(ctx, t, search));
    TRY(ctx, store_plans(ctx, t, search));
    TRY(ctx, write_trace(ctx, t, search->trace));
    print_summary(search);
    return TSR_SUCCESS;
}

/* Chooses this machine's level, or checks that it has the one that is given. */
static tsr_result choose_target(tsr_ctx *ctx, tune *t) {
    unsigned own = tsr_cpu_get_level();
    if (!t->target) t->target = tsr_arena_printf(&t->arena, "cpu:%s", tsr_cpu_level_name(own));
    if (!t->target) FAIL(ctx, TSR_MEMORY, "no memory for the target");
    unsigned level = strncmp(t->target, "cpu:", 4) == 0 ? tsr_cpu_parse_level(t->target) : 0;
    if (!level)
        FAIL(ctx, TSR_USAGE, "tune: --target is '%s'; candidates are measured on CPUs only",
             t->target);
    if (level > own && !t->fake_times)
        FAIL(ctx, TSR_MACHINE, "tune: --target is '%s'; this machine has %s", t->target,
             tsr_cpu_level_name(own));
    return TSR_SUCCESS;
}

static tsr_result check_tuning(tsr_ctx *ctx, const tune *t) {
    if (!t->source)
        FAIL(ctx, TSR_USAGE, "tune: SRC is missing, or one of --list, --prune, --import, --export");
    if (!t->output) FAIL(ctx, TSR_USAGE, "tune: -o OUT is missing");
    if (t->list || t->prune || t->import || t->export)
        FAIL(ctx, TSR_USAGE, "tune: --list, --prune, --import and --export take no SRC");
    if (tsr_aot_is_onnx(t->source) || tsr_aot_names_weights(ctx, t->source))
        FAIL(ctx, TSR_USAGE,
             "tune: '%s' has parameters in another file; expected a program without", t->source);
    return TSR_SUCCESS;
}

static tsr_result tune_source(tsr_ctx *ctx, tune *t) {
    tsr_buffer events = {0};
    long self = (long)getpid();
    TRY(ctx, check_tuning(ctx, t));
    TRY(ctx, choose_target(ctx, t));
    TRY(ctx, tsr_aot_read_dims(ctx, "tune", &t->dims, &t->arena, t->bindings));
    TRY(ctx, choose_store(ctx, t, true));
    TRY(ctx, tsr_schedule_store_open(ctx, t->store, true, &t->open));
    tsr_tune_search search = {
        .target = t->target,
        .device = t->fake_times ? &tsr_tune_fake : &tsr_tune_cpu,
        .safe_path = tsr_arena_printf(&t->arena, "%s.safe.%ld", t->output, self),
        .trial_path = tsr_arena_printf(&t->arena, "%s.trial.%ld", t->output, self),
        .threads = (unsigned)t->threads,
        .seed = t->fake_times,
        .budget_ns = t->budget_s * 1000000000u,
        .timeout_ns = (t->deadline_s ? t->deadline_s : DEADLINE_S) * 1000000000u,
        .stop = &stopped,
        .build = build,
        .user = t,
        .trace = t->trace ? &events : NULL,
        .arena = &t->arena};
    if (!search.safe_path || !search.trial_path) FAIL(ctx, TSR_MEMORY, "no memory for a path");
    catch_signals();
    tsr_result result = search_and_build(ctx, t, &search);
    const tsr_io *io = tsr_ctx_io(ctx);
    io->unlink(io->self, TSR_IO_CWD, search.safe_path, 0);
    io->unlink(io->self, TSR_IO_CWD, search.trial_path, 0);
    tsr_buffer_finish(&events);
    return result;
}

static tsr_result run(tsr_ctx *ctx, tune *t) {
    TRY(ctx, tsr_aot_read_form(ctx, "tune", t->diagnostics, &t->json));
    TRY(ctx, tsr_tune_host_read(ctx, (unsigned)t->threads, &t->arena, &t->host));
    bool manages = t->list || t->prune || t->import || t->export;
    return manages && !t->source ? manage(ctx, t) : tune_source(ctx, t);
}

tsr_result tsr_aot_tune(tsr_ctx *ctx, int argc, char **argv) {
    tune t = {0};
    bool done = false;
    tsr_flag flags[] = {
#define X(name, kind, use, target, value, help, min, max)                                          \
    TSR_FLAG(name, kind, use, &t.target, value, help, min, max),
#include "tools/aot/tune.def"
#undef X
    };
    const tsr_aot_word positional[] = {{"[SRC]", TSR_FILE_READ}, {NULL, TSR_FILE_NONE}};
    const tsr_aot_command_line line = {.name = "tune",
                                       .flags = flags,
                                       .flag_count = TSR_COUNT(flags),
                                       .positional = positional,
                                       .out_words = &t.source,
                                       .user = &t};
    tsr_result result = tsr_aot_parse(ctx, argc, argv, &line, &done);
    if (!result.code && !done) result = run(ctx, &t);
    tsr_schedule_store_close(t.open);
    tsr_arena_finish(&t.arena);
    return result;
}
