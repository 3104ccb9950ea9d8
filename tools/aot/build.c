/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot build: compiles, shows stages, prints their times.
 */
#include "compiler/compile.h"
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/hash/file.h"
#include "runtime/base/io/io.h"
#include "runtime/base/suggest.h"
#include "tessera/tessera.h"
#include "tools/aot/aot.h"
#include "tools/aot/model.h"
#include "tools/aot/rebuild.h"
#include "tools/aot/tune/artifact.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const bool tsr_aot_compiles = true;

/* The folder in which CUDA's installer puts its tools; it is rarely in PATH. */
static const char toolkit_path[] = "/usr/local/cuda/bin";

enum { TARGETS_MAX = 64, THREADS_MAX = 1024, VIRTUAL_RANKS_MAX = 4096 };

typedef struct build {
    const char *params; /* or NULL */
    tsr_flag_list dims; /* NAME=SIZE */
    tsr_aot_training training;
    tsr_aot_links links;
    tsr_flag_list carry;
    const char *imported; /* the parameters of an ONNX model, until they are in the bundle */
    tsr_dim_binding bindings[TSR_FLAG_LIST_MAX];
    const char *source, *output, *targets, *from, *until, *dump, *dump_dir, *diagnostics, *ptxas;
    const char *numerics, *schedule, *schedules;
    bool reference, timing, json_diagnostics, verify_rebuild, strict_python;
    uint64_t threads, virtual_ranks, workspace_mib;
    tsr_arena arena;
    const char *target_names[TARGETS_MAX];
    tsr_compile_options options;
} build;

static void print_diag(void *user, const tsr_diag *diag) {
    const build *b = user;
    tsr_aot_print_diag(diag, b->json_diagnostics);
}

/* Splits "a,b" into words in the arena. */
static tsr_result split(tsr_ctx *ctx, build *b, const char *flag, const char *list,
                        const char **out_words, size_t limit, size_t *out_count) {
    size_t count = 0;
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        if (length == 0) FAIL(ctx, TSR_USAGE, "build: %s has an empty name in '%s'", flag, list);
        if (count == limit) FAIL(ctx, TSR_USAGE, "build: %s has more than %zu names", flag, limit);
        out_words[count] = tsr_arena_strndup(&b->arena, at, length);
        if (!out_words[count++]) FAIL(ctx, TSR_MEMORY, "no memory for the arguments");
        at += length;
        if (!*at) break;
    }
    *out_count = count;
    return TSR_SUCCESS;
}

static bool dumps(const tsr_stage_info *stage) { return stage->dumps; }
static bool reads(const tsr_stage_info *stage) { return stage->reads; }
static bool is_any(const tsr_stage_info *stage) { return stage != NULL; }

/* Finds a suitable stage by its name, or fails with the names of all suitable stages. */
static tsr_result find_stage(tsr_ctx *ctx, const char *flag, const char *name,
                             bool (*fits)(const tsr_stage_info *stage), tsr_stage *out_stage) {
    tsr_buffer names = {0};
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = name};
    for (int i = 0; i < TSR_STAGE_COUNT; i++) {
        const tsr_stage_info *stage = tsr_stage_get((tsr_stage)i);
        if (!fits(stage)) continue;
        tsr_buffer_printf(&names, " %s", stage->name);
        tsr_suggest(&likely, stage->name);
        if (strcmp(name, stage->name) != 0) continue;
        *out_stage = (tsr_stage)i;
        tsr_buffer_finish(&names);
        return TSR_SUCCESS;
    }
    tsr_result result = tsr_fail_(ctx, TSR_USAGE, 0, __FILE__, __LINE__,
                                  "build: %s '%s' is unknown; known are%s%s%s", flag, name,
                                  fits == dumps ? " all" : "", names.bytes ? names.bytes : "",
                                  tsr_suggestion_text(&likely, meant));
    tsr_buffer_finish(&names);
    return result;
}

/* Returns true if a list "a,b" contains the word. */
static bool has_word(const char *list, const char *word) {
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        if (length == strlen(word) && strncmp(at, word, length) == 0) return true;
        at += length;
        if (!*at) return false;
    }
}

/* Returns true if a list of stages contains the stage or "all". */
static bool is_dumped(const char *list, const char *stage) {
    return has_word(list, stage) || has_word(list, "all");
}

static bool writes_bundle(const build *b) {
    return !b->options.stage_limit || b->options.stage_limit == TSR_STAGE_COUNT;
}

/* Checks --until; it must not be before --from. */
static tsr_result choose_until(tsr_ctx *ctx, build *b) {
    tsr_stage until = TSR_STAGE_BUNDLE;
    if (!b->until) return TSR_SUCCESS;
    TRY(ctx, find_stage(ctx, "--until", b->until, is_any, &until));
    if (until < b->options.from)
        FAIL(ctx, TSR_USAGE, "build: --until '%s' ends before --from '%s'", b->until, b->from);
    b->options.stage_limit = (size_t)until + 1;
    return TSR_SUCCESS;
}

/* Checks flags that need the bundle, which --until does not write, and -o, which every other build
 * needs. */
static tsr_result check_output(tsr_ctx *ctx, const build *b) {
    const struct {
        const char *flag;
        bool given;
    } needs[] = {{"-o", b->output != NULL},
                 {"--params", b->params != NULL},
                 {"--verify-rebuild", b->verify_rebuild}};
    if (writes_bundle(b)) {
        if (!b->output) FAIL(ctx, TSR_USAGE, "build: -o OUT is missing");
        return TSR_SUCCESS;
    }
    for (size_t i = 0; i < TSR_COUNT(needs); i++)
        if (needs[i].given)
            FAIL(ctx, TSR_USAGE, "build: --until '%s' writes no bundle, which %s needs", b->until,
                 needs[i].flag);
    return TSR_SUCCESS;
}

/* Refuses a dump of a stage that is not reached. */
static tsr_result check_dumps(tsr_ctx *ctx, const build *b) {
    if (writes_bundle(b)) return TSR_SUCCESS;
    for (size_t i = b->options.stage_limit; i < TSR_STAGE_COUNT; i++)
        if (b->options.dump[i] && !has_word(b->dump, "all"))
            FAIL(ctx, TSR_USAGE, "build: --dump '%s' comes after --until '%s'",
                 tsr_stage_get((tsr_stage)i)->name, b->until);
    return TSR_SUCCESS;
}

static tsr_result choose_dumps(tsr_ctx *ctx, build *b) {
    const char *words[TSR_STAGE_COUNT];
    size_t count = 0;
    if (!b->dump) {
        if (b->dump_dir) FAIL(ctx, TSR_USAGE, "build: --dump-dir is given without --dump");
        return TSR_SUCCESS;
    }
    TRY(ctx, split(ctx, b, "--dump", b->dump, words, TSR_STAGE_COUNT, &count));
    for (size_t i = 0; i < count; i++) {
        tsr_stage stage = TSR_STAGE_GRAPH;
        bool all = strcmp(words[i], "all") == 0;
        for (int k = 0; k < TSR_STAGE_COUNT && all; k++)
            b->options.dump[k] |= tsr_stage_get((tsr_stage)k)->dumps;
        if (all) continue;
        TRY(ctx, find_stage(ctx, "--dump", words[i], dumps, &stage));
        b->options.dump[stage] = true;
    }
    return TSR_SUCCESS;
}

static tsr_result choose_from(tsr_ctx *ctx, build *b) {
    if (!b->from) return TSR_SUCCESS;
    return find_stage(ctx, "--from", b->from, reads, &b->options.from);
}

/* Writes "DIR/tile.x86-64-v3.mlir". */
static tsr_result dump_file(tsr_ctx *ctx, build *b, const tsr_stage_info *stage, const char *target,
                            const char *text, size_t size_bytes) {
    const char *level = target ? strchr(target, ':') : NULL;
    const char *path =
        level ? tsr_arena_printf(&b->arena, "%s/%s.%s.%s", b->dump_dir, stage->name, level + 1,
                                 stage->ending)
              : tsr_arena_printf(&b->arena, "%s/%s.%s", b->dump_dir, stage->name, stage->ending);
    if (!path) FAIL(ctx, TSR_MEMORY, "no memory for a path");
    return tsr_io_atomic_write(ctx, path, text, size_bytes);
}

static tsr_result on_dump(tsr_ctx *ctx, void *user, tsr_stage index, const char *target,
                          const char *text, size_t size_bytes) {
    build *b = user;
    const tsr_stage_info *stage = tsr_stage_get(index);
    if (b->dump_dir) return dump_file(ctx, b, stage, target, text, size_bytes);
    printf("// ---- %s%s%s: %s ----\n", stage->name, target ? " " : "", target ? target : "",
           stage->about);
    fwrite(text, 1, size_bytes, stdout);
    return TSR_SUCCESS;
}

static tsr_result make_dump_dir(tsr_ctx *ctx, const char *path) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int error = io->mkdir(io->self, TSR_IO_CWD, path, 0777);
    if (error < 0 && error != -EEXIST)
        FAIL_ERRNO(ctx, TSR_IO, -error, "cannot create directory '%s'", path);
    return TSR_SUCCESS;
}

static void print_timing(const tsr_compile_report *report) {
    for (int i = 0; i < TSR_STAGE_COUNT; i++) {
        const tsr_stage_info *stage = tsr_stage_get((tsr_stage)i);
        if (report->stage_seconds[i] < 1e-6) continue;
        fprintf(stderr, "%10.3f ms  %-9s %s\n", report->stage_seconds[i] * 1e3, stage->name,
                stage->about);
    }
    fprintf(stderr, "%10.3f ms  all\n", report->seconds * 1e3);
}

/* Finds the parameters that the program names, in the folder of its source, and compares their
 * digest. */
static tsr_result find_weights(tsr_ctx *ctx, build *b, const tsr_compile_report *report,
                               const char **out_path) {
    const char *slash = strrchr(b->source, '/');
    int folder = slash ? (int)(slash + 1 - b->source) : 0;
    tsr_digest digest;
    char is[TSR_DIGEST_HEX + 1], must[TSR_DIGEST_HEX + 1];
    *out_path = b->imported;
    if (b->imported) return TSR_SUCCESS;
    const char *path =
        tsr_arena_printf(&b->arena, "%.*s%s", folder, b->source, report->weights_name);
    if (!path) FAIL(ctx, TSR_MEMORY, "no memory for a path");
    TRY(ctx, tsr_file_digest(ctx, path, &digest));
    tsr_digest_format(&digest, is);
    tsr_digest_format(&report->weights_digest, must);
    if (!tsr_digest_equal(&digest, &report->weights_digest))
        FAIL(ctx, TSR_MISMATCH, "'%s' has the digest %s; '%s' was made with %s", path, is,
             b->source, must);
    *out_path = path;
    return TSR_SUCCESS;
}

/* Stores the parameters while copying the bundle to the output: those of --params, or those that
 * the program names. */
static tsr_result store_params(tsr_ctx *ctx, build *b, const char *compiled,
                               const tsr_compile_report *report) {
    tsr_generation unused;
    const char *params = b->params;
    if (!params) TRY(ctx, find_weights(ctx, b, report, &params));
    const tsr_bake_options options = {.size_bytes = sizeof options,
                                      .params = params,
                                      .out_path = b->output,
                                      .reference = b->reference};
    return tsr_bake(ctx, compiled, &options, &unused);
}

static void remove_file(tsr_ctx *ctx, const char *path) {
    const tsr_io *io = tsr_ctx_io(ctx);
    if (path) io->unlink(io->self, TSR_IO_CWD, path, 0);
}

/* Compiles to a temporary file next to the output, which becomes the output where there are no
 * parameters to store. */
static tsr_result compile_with_params(tsr_ctx *ctx, build *b, tsr_compile_report *report) {
    const tsr_io *io = tsr_ctx_io(ctx);
    const char *compiled =
        tsr_arena_printf(&b->arena, "%s.compiled.%ld", b->output, (long)getpid());
    bool is_onnx = tsr_aot_is_onnx(b->source) || tsr_aot_links_model(&b->links);
    if (is_onnx)
        b->imported =
            tsr_arena_printf(&b->arena, "%s.params.%ld.safetensors", b->output, (long)getpid());
    if (!compiled || (is_onnx && !b->imported)) FAIL(ctx, TSR_MEMORY, "no memory for a path");
    b->options.output_path = compiled;
    b->options.weights_path = b->imported;
    tsr_result result = tsr_compile(ctx, &b->options, report);
    if (!result.code && b->timing) print_timing(report);
    if (!result.code && (b->params || report->weights_name[0]))
        result = store_params(ctx, b, compiled, report);
    else if (!result.code) {
        int error = io->rename(io->self, TSR_IO_CWD, compiled, b->output);
        if (error < 0)
            result =
                tsr_fail_(ctx, TSR_IO, -error, __FILE__, __LINE__, "cannot write '%s'", b->output);
    }
    remove_file(ctx, compiled);
    remove_file(ctx, b->imported);
    return result;
}

static tsr_result load_schedules(tsr_ctx *ctx, build *b) {
    tsr_measured *plans = NULL;
    if (!b->schedules) return TSR_SUCCESS;
    TRY(ctx, tsr_schedules_load(ctx, b->schedules, b->numerics ? b->numerics : "portable",
                                &b->arena, &plans, &b->options.measured_count));
    b->options.measured = plans;
    return TSR_SUCCESS;
}

static tsr_result compile(tsr_ctx *ctx, build *b) {
    static const char defaults[] = "cpu:x86-64-v2,cpu:x86-64-v3,cpu:x86-64-v4";
    tsr_compile_report report;
    TRY(ctx, tsr_aot_read_form(ctx, "build", b->diagnostics, &b->json_diagnostics));
    if (b->numerics && strcmp(b->numerics, "portable") != 0 && strcmp(b->numerics, "native") != 0)
        FAIL(ctx, TSR_USAGE, "build: --numerics is '%s'; expected portable or native", b->numerics);
    b->options = (tsr_compile_options){.size_bytes = sizeof b->options,
                                       .source_path = b->source,
                                       .output_path = b->output,
                                       .targets = b->target_names,
                                       .threads = (unsigned)b->threads,
                                       .virtual_ranks = (uint32_t)b->virtual_ranks,
                                       .strict_python = b->strict_python,
                                       .dump_whole = b->dump_dir != NULL,
                                       .ptxas = b->ptxas,
                                       .schedule_path = b->schedule,
                                       .numerics = b->numerics,
                                       .workspace_max = b->workspace_mib << 20,
                                       .tool_path = getenv("PATH"),
                                       .toolkit_path = toolkit_path,
                                       .on_dump = on_dump,
                                       .on_diag = print_diag,
                                       .user = b};
    TRY(ctx, choose_from(ctx, b));
    TRY(ctx, tsr_aot_read_dims(ctx, "build", &b->dims, &b->arena, b->bindings));
    TRY(ctx, tsr_aot_read_training(ctx, "build", &b->training, b->source, &b->options.training));
    TRY(ctx, tsr_aot_read_links(ctx, "build", &b->links, &b->training, &b->arena, &b->options));
    b->options.dims = b->bindings;
    b->options.dim_count = b->dims.count;
    b->options.carry = b->carry.texts;
    b->options.carry_count = b->carry.count;
    TRY(ctx, tsr_aot_check_source(ctx, "build", &b->options));
    TRY(ctx, choose_until(ctx, b));
    TRY(ctx, check_output(ctx, b));
    if (b->virtual_ranks && b->options.from != TSR_STAGE_GRAPH)
        FAIL(ctx, TSR_USAGE,
             "build: --virtual-ranks needs a model; the input of --from '%s' already has virtual "
             "ranks",
             b->from);
    if (b->targets || !tsr_stage_get(b->options.from)->per_target)
        TRY(ctx, split(ctx, b, "--target", b->targets ? b->targets : defaults, b->target_names,
                       TARGETS_MAX, &b->options.target_count));
    TRY(ctx, load_schedules(ctx, b));
    TRY(ctx, choose_dumps(ctx, b));
    TRY(ctx, check_dumps(ctx, b));
    TRY(ctx, tsr_aot_source_date(ctx, &b->arena, &b->options.started_on));
    if (b->dump_dir) TRY(ctx, make_dump_dir(ctx, b->dump_dir));
    if (b->reference && !b->params) FAIL(ctx, TSR_USAGE, "build: --reference needs --params");
    if (writes_bundle(b) &&
        (b->params || tsr_aot_is_onnx(b->source) || tsr_aot_links_model(&b->links) ||
         tsr_aot_names_weights(ctx, b->source)))
        return compile_with_params(ctx, b, &report);
    TRY(ctx, tsr_compile(ctx, &b->options, &report));
    if (b->timing) print_timing(&report);
    return TSR_SUCCESS;
}

/* Adds the dump files of all stages, for any targets, and the file that --verify-rebuild writes. */
static tsr_result add_files(tsr_ctx *ctx, const void *user, tsr_files *files) {
    const build *b = user;
    for (int i = 0; i < TSR_STAGE_COUNT && b->dump; i++) {
        const tsr_stage_info *stage = tsr_stage_get((tsr_stage)i);
        if (!stage->dumps || !is_dumped(b->dump, stage->name)) continue;
        TRY(ctx, tsr_files_add_names(ctx, files, "--dump-dir", b->dump_dir, stage->name,
                                     stage->ending, stage->per_target));
    }
    if (!b->verify_rebuild) return TSR_SUCCESS;
    return tsr_files_add_sibling(ctx, files, "-o", TSR_FILE_WRITE, b->output, ".rebuild");
}

static void list_stages(tsr_buffer *out) {
    tsr_buffer_text(out, "stages:\n");
    for (int i = 0; i < TSR_STAGE_COUNT; i++)
        tsr_buffer_printf(out, "  %-10s %s%s\n", tsr_stage_get((tsr_stage)i)->name,
                          tsr_stage_get((tsr_stage)i)->about,
                          tsr_stage_get((tsr_stage)i)->dumps ? "" : " (no dump)");
}

tsr_result tsr_aot_build(tsr_ctx *ctx, int argc, char **argv) {
    build b = {0};
    bool done = false;
    tsr_flag flags[] = {
#define X(name, kind, use, target, value, help, min, max)                                          \
    TSR_FLAG(name, kind, use, &b.target, value, help, min, max),
#include "tools/aot/build.def"
#undef X
    };
    const tsr_aot_word positional[] = {{"SRC", TSR_FILE_READ}, {NULL, TSR_FILE_NONE}};
    tsr_buffer notes = {0};
    list_stages(&notes);
    const tsr_aot_command_line line = {.name = "build",
                                       .notes = notes.bytes,
                                       .flags = flags,
                                       .flag_count = TSR_COUNT(flags),
                                       .positional = positional,
                                       .out_words = &b.source,
                                       .files = add_files,
                                       .user = &b};
    tsr_result result = tsr_aot_parse(ctx, argc, argv, &line, &done);
    if (!result.code && !done) result = compile(ctx, &b);
    if (!result.code && !done && b.verify_rebuild)
        result = tsr_aot_verify_rebuild(ctx, argc, argv, b.output);
    tsr_buffer_finish(&notes);
    tsr_flag_pairs_finish(&b.links.files);
    tsr_arena_finish(&b.arena);
    return result;
}
