/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver: runs the table of stages. The data passed from stage to stage is in `compilation`.
 */
#include "compiler/compile.h"

#include "bundle/provenance.h"
#include "compiler/choose.h"
#include "compiler/frontend/language/trace/import.h"
#include "compiler/frontend/onnx/export/export.h"
#include "compiler/frontend/onnx/import.h"
#include "compiler/frontend/onnx/link/link.h"
#include "compiler/frontend/stablehlo/import.h"
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/level.h"
#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/target.h"
#include "compiler/ir/text/elide.h"
#include "compiler/package.h"
#include "compiler/process/guard.h"
#include "compiler/resilience/resilience.h"
#include "compiler/schedule/choices.h"
#include "compiler/schedule/config.h"
#include "compiler/schedule/schedule.h"
#include "compiler/sizes.h"
#include "compiler/target/host/host.h"
#include "compiler/target/target.h"
#include "compiler/tile/tile.h"
#include "runtime/base/array.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash/file.h"
#include "runtime/base/io/io.h"

#include <llvm/Config/llvm-config.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The results for one target. */
typedef struct job {
    const tsr_target *target;
    MlirModule
        planned;       /* Schedule IR with the sizes of each kernel; null: a later stage was read */
    MlirModule module; /* `planned`, then Tile IR, then Target IR */
    MlirModule device; /* a part of `module` */
    tsr_program program;
    void *code;
    size_t code_size_bytes;
    const tsr_ptxas
        *ptxas;      /* the assembler of a GPU target, if one was found; else NULL. Borrowed */
    tsr_ctx ctx;     /* the context of the thread that generates the code */
    tsr_arena arena; /* owns the code */
    tsr_result result;
    pthread_t thread;
    bool wants_code, threaded; /* needs code; a thread generates it */
} job;

typedef struct compilation {
    tsr_ctx *ctx;
    const tsr_compile_options *options;
    tsr_arena arena;
    tsr_diag_list diags;
    MlirContext mlir;
    MlirModule module;   /* up to Schedule IR: rewritten in place */
    MlirModule schedule; /* the file of choices; null: none */
    tsr_choices choices;
    MlirModule source; /* the module as it was read, if it is dumped; else null */
    const char *base_name;
    tsr_digest source_digest;
    const char *weights_name; /* NULL: the module names no file of parameters */
    tsr_digest weights_digest;
    const char *documents[TSR_DOCUMENT_COUNT]; /* NULL: not known yet */
    tsr_buffer graph, schedule_json;           /* two of the documents, if they are made here */
    tsr_config config;
    tsr_ptxas ptxas;
    bool searched_ptxas;
    bool edited; /* the source is a later stage's result that was changed by hand */
    job *jobs;
    size_t job_count;
} compilation;

static TSR_RESULT run_nothing(compilation *c) {
    (void)c;
    return TSR_SUCCESS;
}

/* ---- the stages ---- */

static TSR_RESULT store_document(compilation *c, tsr_document document, const tsr_buffer *text) {
    if (text->failed || !text->bytes)
        FAIL(c->ctx, TSR_MEMORY, "no memory to keep the %s", tsr_document_name(document));
    c->documents[document] = text->bytes;
    return TSR_SUCCESS;
}

/* Keeps the deployment that the passes noted on the module. */
static TSR_RESULT store_deployment(compilation *c, MlirModule module) {
    MlirOperation self = mlirModuleGetOperation(module);
    const char *text = tsr_op_string(self, TSR_SR_DEPLOYMENT);
    if (!text) return TSR_SUCCESS;
    c->documents[TSR_DOCUMENT_DEPLOYMENT] = tsr_arena_strdup(&c->arena, text);
    if (!c->documents[TSR_DOCUMENT_DEPLOYMENT])
        FAIL(c->ctx, TSR_MEMORY, "no memory to keep the deployment");
    mlirOperationRemoveDiscardableAttributeByName(self, tsr_ref(TSR_SR_DEPLOYMENT));
    return TSR_SUCCESS;
}

static TSR_RESULT run_autodiff(compilation *c) {
    TRY(c->ctx, tsr_graph_lower(c->ctx, c->module, &c->diags, NULL));
    /* Refuse a program with too many tensors before the slow stages run. */
    TRY(c->ctx, tsr_module_check_tensors(c->ctx, c->module));
    return store_deployment(c, c->module);
}

/* Describes the groups of the module, and the kernels of each target if they are planned. */
static TSR_RESULT store_schedule(compilation *c, MlirModule module) {
    size_t count = 0;
    MlirModule *planned = TSR_NEW(&c->arena, MlirModule, c->job_count + 1);
    if (!planned) FAIL(c->ctx, TSR_MEMORY, "no memory for %zu targets", c->job_count);
    for (size_t i = 0; i < c->job_count; i++)
        if (!mlirModuleIsNull(c->jobs[i].planned)) planned[count++] = c->jobs[i].planned;
    tsr_buffer_finish(&c->schedule_json);
    tsr_schedule_json(module, planned, count, &c->schedule_json);
    return store_document(c, TSR_DOCUMENT_SCHEDULE, &c->schedule_json);
}

static TSR_RESULT run_schedule(compilation *c) {
    TRY(c->ctx, tsr_schedule_lower(c->ctx, c->module, &c->diags));
    return store_schedule(c, c->module);
}

static TSR_RESULT run_plan(compilation *c) {
    c->choices.measured = c->options->measured;
    c->choices.measured_count = c->options->measured_count;
    TRY(c->ctx, tsr_choices_add(c->ctx, &c->choices, c->module, false));
    if (c->options->schedule_path)
        TRY(c->ctx, tsr_choices_read(c->ctx, &c->choices, c->options->schedule_path, c->mlir,
                                     &c->diags, &c->arena, &c->schedule));
    for (size_t i = 0; i < c->job_count; i++) {
        job *j = &c->jobs[i];
        TRY(c->ctx, tsr_tile_plan(c->ctx, c->module, j->target, &c->choices, &j->planned));
        j->module = j->planned;
    }
    TRY(c->ctx, tsr_choices_check_used(c->ctx, &c->choices));
    return store_schedule(c, c->module);
}

/* Looks for ptxas if a target is a GPU. */
static TSR_RESULT find_assembler(compilation *c) {
    bool wanted = false;
    if (c->searched_ptxas) return TSR_SUCCESS;
    c->searched_ptxas = true;
    for (size_t i = 0; i < c->job_count; i++)
        wanted = wanted || c->jobs[i].target->family == TSR_FAMILY_CUDA;
    if (!wanted && c->options->ptxas)
        FAIL(c->ctx, TSR_USAGE,
             "'%s' assembles code for NVIDIA GPUs; expected a target cuda:…, got '%s'%s",
             c->options->ptxas, c->jobs[0].target->name, c->job_count > 1 ? ", …" : "");
    if (!wanted) return TSR_SUCCESS;
    TRY(c->ctx, tsr_ptxas_find(c->ctx, c->options->ptxas, c->options->tool_path,
                               c->options->toolkit_path, &c->arena, &c->ptxas));
    if (!c->ptxas.path)
        tsr_log(c->ctx, TSR_LOG_NOTICE,
                "no ptxas was found: the bundle contains only PTX for NVIDIA GPUs, which the "
                "driver translates at each start");
    for (size_t i = 0; i < c->job_count; i++)
        if (c->jobs[i].target->family == TSR_FAMILY_CUDA && c->ptxas.path)
            c->jobs[i].ptxas = &c->ptxas;
    return TSR_SUCCESS;
}

static TSR_RESULT run_tile(compilation *c) {
    TRY(c->ctx, find_assembler(c));
    for (size_t i = 0; i < c->job_count; i++) {
        job *j = &c->jobs[i];
        TRY(c->ctx, tsr_tile_lower_planned(c->ctx, j->planned, j->target, &j->module));
        bool assembles = j->ptxas || j->target->family == TSR_FAMILY_HIP;
        if (!assembles || mlirModuleIsNull(c->module)) continue;
        TRY(c->ctx, tsr_choose_tiles(c->ctx, c->module, j->target, j->ptxas, &c->choices,
                                     &j->planned, &j->module));
    }
    return mlirModuleIsNull(c->module) ? TSR_SUCCESS : store_schedule(c, c->module);
}

static TSR_RESULT run_target(compilation *c) {
    char *config = NULL;
    size_t size_bytes = 0;
    TRY(c->ctx, tsr_module_config(c->ctx, c->jobs[0].module, c->documents[TSR_DOCUMENT_NAME],
                                  &c->arena, &c->config));
    TRY(c->ctx, tsr_config_encode(c->ctx, &c->config, &c->arena, &config, &size_bytes));
    c->documents[TSR_DOCUMENT_CONFIG] = config;
    for (size_t i = 0; i < c->job_count; i++) {
        job *j = &c->jobs[i];
        TRY(c->ctx, tsr_host_lower(c->ctx, j->module, &c->config, &c->arena));
        TRY(c->ctx, tsr_mlir_verify(c->ctx, j->module, &c->diags, "target"));
        TRY(c->ctx, tsr_host_device(c->ctx, j->module, &j->device));
    }
    return TSR_SUCCESS;
}

/* LLVM runs in a child of the thread, which itself only forks, reads and waits. */
static void *make_code(void *user) {
    job *j = user;
    j->result =
        tsr_target_compile(&j->ctx, j->device, j->target, &j->arena, &j->code, &j->code_size_bytes);
    if (!j->result.code && j->ptxas)
        j->result = tsr_ptxas_assemble(&j->ctx, j->ptxas, j->device, j->target, &j->arena, &j->code,
                                       &j->code_size_bytes);
    return NULL;
}

static unsigned thread_limit(const tsr_compile_options *options) {
    cpu_set_t cpus;
    if (options->threads) return options->threads;
    int count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    return count > 0 ? (unsigned)count : 1;
}

/* GPU code identifies its kernels by their index: the host's order and the device's must agree. */
static TSR_RESULT check_order(tsr_ctx *ctx, const job *j) {
    MlirOperation body = mlirBlockGetFirstOperation(mlirModuleGetBody(j->device));
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(j->module)) {
        if (!tsr_op_is(op, TSR_TARGET_KERNEL)) continue;
        while (!mlirOperationIsNull(body) && !tsr_op_is(body, TSR_TILE_FUNC))
            body = mlirOperationGetNextInBlock(body);
        const char *found = mlirOperationIsNull(body) ? "none" : tsr_op_symbol(body);
        if (strcmp(found, tsr_op_symbol(op)) != 0)
            FAIL(ctx, TSR_COMPILE,
                 "'%s': the host has kernel '%s' where @device has '%s'; expected the same order",
                 j->target->name, tsr_op_symbol(op), found);
        body = mlirOperationGetNextInBlock(body);
    }
    return TSR_SUCCESS;
}

/* Generates the code of all jobs that want it, as many at a time as there are threads. */
static void make_codes(compilation *c) {
    size_t limit = thread_limit(c->options), at = 0;
    while (at < c->job_count) {
        size_t first = at, started = 0;
        for (; at < c->job_count && started < limit; at++) {
            job *j = &c->jobs[at];
            j->threaded = j->wants_code && pthread_create(&j->thread, NULL, make_code, j) == 0;
            /* If no thread could be started, the work is done here. */
            if (j->wants_code && !j->threaded) make_code(j);
            started += j->wants_code;
        }
        for (size_t i = first; i < at; i++)
            if (c->jobs[i].threaded) pthread_join(c->jobs[i].thread, NULL);
    }
}

static TSR_RESULT check_codes(compilation *c) {
    for (size_t i = 0; i < c->job_count; i++) {
        if (!c->jobs[i].result.code) continue;
        tsr_result result = tsr_error_adopt(c->ctx, &c->jobs[i].ctx);
        return tsr_error_prefix(c->ctx, result, "%s", c->jobs[i].target->name);
    }
    return TSR_SUCCESS;
}

static TSR_RESULT run_code(compilation *c) {
    TRY(c->ctx, find_assembler(c));
    for (size_t i = 0; i < c->job_count; i++) {
        c->jobs[i].wants_code = true;
        if (c->jobs[i].target->arch) TRY(c->ctx, check_order(c->ctx, &c->jobs[i]));
    }
    /* For kernels that this process made itself, the emitter reports the same violations as
     * internal errors. */
    for (size_t i = 0; i < c->job_count && c->options->from > TSR_STAGE_GRAPH; i++)
        TRY(c->ctx, tsr_target_check(c->ctx, c->jobs[i].device, c->jobs[i].target));
    make_codes(c);
    TRY(c->ctx, check_codes(c));
    for (size_t i = 0; i < c->job_count; i++) {
        job *j = &c->jobs[i];
        j->wants_code = false;
        if (j->ptxas)
            TRY(c->ctx, tsr_choose_registers(c->ctx, j->device, j->target, j->ptxas, j->code,
                                             j->code_size_bytes, &j->wants_code));
    }
    make_codes(c);
    return check_codes(c);
}

static TSR_RESULT run_program(compilation *c) {
    for (size_t i = 0; i < c->job_count; i++)
        TRY(c->ctx, tsr_host_program(c->ctx, c->jobs[i].module, &c->config, &c->arena,
                                     &c->jobs[i].program));
    return TSR_SUCCESS;
}

/* Describes the inputs of the build, with the targets in order of their names. */
static TSR_RESULT describe_build(compilation *c, tsr_package *package) {
    bool native = tsr_config_numerics_native(c->config.numerics);
    const tsr_link *links = c->options->links.links;
    size_t link_count = c->options->links.link_count;
    tsr_provenance_input *inputs = TSR_NEW(&c->arena, tsr_provenance_input, link_count + 1);
    if (!inputs) FAIL(c->ctx, TSR_MEMORY, "no memory to write the bundle");
    inputs[0] = (tsr_provenance_input){c->base_name, c->source_digest};
    for (size_t i = 0; i < link_count; i++) {
        const char *slash = strrchr(links[i].path, '/');
        inputs[1 + i].name = slash ? slash + 1 : links[i].path;
        TRY(c->ctx, tsr_file_digest(c->ctx, links[i].path, &inputs[1 + i].digest));
    }
    char workspace_max[32];
    snprintf(workspace_max, sizeof workspace_max, "%" PRIu64, c->options->workspace_max);
    const tsr_provenance_pair options[] = {{"numerics", native ? "native" : "portable"},
                                           {"workspace_max", workspace_max}};
    const tsr_provenance_pair libraries[] = {{"llvm", LLVM_VERSION_STRING},
                                             {"ptxas", c->ptxas.description}};
    const char **targets = TSR_NEW(&c->arena, const char *, c->job_count);
    if (!targets) FAIL(c->ctx, TSR_MEMORY, "no memory to write the bundle");
    for (size_t i = 0; i < c->job_count; i++) {
        size_t at = i;
        for (; at > 0 && strcmp(targets[at - 1], c->jobs[i].target->name) > 0; at--)
            targets[at] = targets[at - 1];
        targets[at] = c->jobs[i].target->name;
    }
    const tsr_provenance provenance = {.size_bytes = sizeof provenance,
                                       .builder_version = TSR_VERSION_TEXT,
                                       .inputs = inputs,
                                       .input_count = link_count + 1,
                                       .targets = targets,
                                       .target_count = c->job_count,
                                       .options = options,
                                       .option_count = c->options->workspace_max ? 2 : 1,
                                       .libraries = libraries,
                                       .library_count = c->ptxas.path ? 2 : 1,
                                       .started_on = c->options->started_on};
    return tsr_provenance_encode(c->ctx, &provenance, &c->arena, &package->provenance,
                                 &package->provenance_size_bytes);
}

static TSR_RESULT run_bundle(compilation *c) {
    const char *graph = c->documents[TSR_DOCUMENT_GRAPH];
    const char *schedule = c->documents[TSR_DOCUMENT_SCHEDULE];
    tsr_package package = {.config = &c->config,
                           .graph = graph,
                           .graph_size_bytes = strlen(graph),
                           .schedule = schedule,
                           .schedule_size_bytes = strlen(schedule),
                           .deployment = c->documents[TSR_DOCUMENT_DEPLOYMENT],
                           .target_count = c->job_count};
    tsr_package_target *targets = TSR_NEW(&c->arena, tsr_package_target, c->job_count);
    if (!targets) FAIL(c->ctx, TSR_MEMORY, "no memory to write the bundle");
    for (size_t i = 0; i < c->job_count; i++)
        targets[i] = (tsr_package_target){.name = c->jobs[i].target->name,
                                          .program = &c->jobs[i].program,
                                          .is_gpu = c->jobs[i].target->arch != 0,
                                          .code = c->jobs[i].code,
                                          .code_size_bytes = c->jobs[i].code_size_bytes};
    package.targets = targets;
    TRY(c->ctx, describe_build(c, &package));
    TRY(c->ctx, tsr_package_weights_encode(c->ctx, c->jobs[0].module, &c->config, &c->arena,
                                           &package.weights));
    return tsr_package_write(c->ctx, c->options->output_path, &package, &c->arena);
}

/* ---- reading the result of a stage ---- */

/* Returns the SHA-256 of the module's text with locations, in hexadecimal. */
static TSR_RESULT make_seal(compilation *c, MlirModule module, const char **out_hex) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_buffer text = {0};
    tsr_print_whole(module, &text);
    bool printed = !text.failed;
    tsr_digest digest = tsr_hash(printed ? text.bytes : "", printed ? text.size_bytes : 0);
    tsr_buffer_finish(&text);
    tsr_digest_format(&digest, hex);
    *out_hex = tsr_arena_strdup(&c->arena, hex);
    if (!printed || !*out_hex) FAIL(c->ctx, TSR_MEMORY, "no memory to hash the module");
    return TSR_SUCCESS;
}

/* A module that was changed after it was written is no longer the program of its digest. */
static TSR_RESULT check_seal(compilation *c, MlirModule module) {
    MlirOperation self = mlirModuleGetOperation(module);
    const char *stated = c->documents[TSR_DOCUMENT_SEAL], *seal = NULL;
    c->documents[TSR_DOCUMENT_SEAL] = NULL;
    if (c->options->from == TSR_STAGE_GRAPH) return TSR_SUCCESS;
    if (stated) TRY(c->ctx, make_seal(c, module, &seal));
    c->edited = !stated || strcmp(stated, seal) != 0;
    if (!c->edited) return TSR_SUCCESS;
    mlirOperationRemoveDiscardableAttributeByName(self, tsr_ref(TSR_OPERATIONS_NAME));
    mlirOperationRemoveDiscardableAttributeByName(self, tsr_ref(TSR_HYPERPARAMETERS_NAME));
    return TSR_SUCCESS;
}

static TSR_RESULT read_text(compilation *c, MlirModule *out_module) {
    void *text = NULL;
    size_t size_bytes = 0;
    if (c->options->dim_count && c->options->from != TSR_STAGE_GRAPH)
        FAIL(c->ctx, TSR_USAGE,
             "dim '%s' has a size; expected none with a dump of stage %s, in which every dim has "
             "its size",
             c->options->dims[0].symbol, tsr_stage_get(c->options->from)->name);
    TRY(c->ctx, tsr_io_read_file(c->ctx, c->options->source_path, TSR_SOURCE_BYTES_MAX, &c->arena,
                                 &text, &size_bytes));
    c->source_digest = tsr_hash(text, size_bytes);
    return tsr_mlir_parse(c->ctx, c->mlir, &c->diags, text, size_bytes, c->base_name, out_module);
}

/* Keeps what the module says about the file of its parameters. */
static TSR_RESULT store_weights(compilation *c, MlirModule module) {
    static const char kind[] = "sha256:";
    MlirOperation self = mlirModuleGetOperation(module);
    const char *name = tsr_op_string(self, TSR_WEIGHTS_NAME);
    const char *digest = tsr_op_string(self, TSR_WEIGHTS_DIGEST_NAME);
    const size_t skipped = sizeof kind - 1;
    if (!name && !digest) return TSR_SUCCESS;
    bool fits = name && digest && strlen(name) <= TSR_NAME_MAX && name[0] && !strchr(name, '/') &&
                strncmp(digest, kind, skipped) == 0 &&
                tsr_digest_parse(digest + skipped, strlen(digest + skipped), &c->weights_digest);
    if (!fits)
        FAIL(c->ctx, TSR_COMPILE,
             "%s: '" TSR_WEIGHTS_NAME "' must name a file in the folder of the module, and "
             "'" TSR_WEIGHTS_DIGEST_NAME "' its digest, \"sha256:…\"",
             c->base_name);
    c->weights_name = name;
    return TSR_SUCCESS;
}

/* Links files to a program. */
static TSR_RESULT link_files(compilation *c, MlirModule module) {
    const tsr_onnx_training training = {.freeze = c->options->freeze,
                                        .freeze_count = c->options->freeze_count};
    const tsr_link_options options = {.links = c->options->links,
                                      .weights_path = c->options->weights_path,
                                      .training = &training};
    if (options.links.link_count == 0) return TSR_SUCCESS;
    if (c->options->from != TSR_STAGE_GRAPH)
        FAIL(c->ctx, TSR_USAGE, "'%s' is linked; expected no link with a dump of stage %s",
             options.links.links[0].path, tsr_stage_get(c->options->from)->name);
    return tsr_link_all(c->ctx, &c->diags, &options, module);
}

static TSR_RESULT read_source(compilation *c, MlirModule *out_module) {
    const tsr_onnx_options onnx = {
        .path = c->options->source_path,
        .bindings = c->options->dims,
        .binding_count = c->options->dim_count,
        .dims_stay_open = c->options->stage_limit == TSR_STAGE_GRAPH + 1 && !c->options->training,
        .weights_path = c->options->weights_path,
        .training = c->options->training,
        .links = c->options->links};
    const tsr_hlo_options hlo = {.path = c->options->source_path,
                                 .carry = c->options->carry,
                                 .carry_count = c->options->carry_count};
    TRY(c->ctx, tsr_mlir_context_create(c->ctx, &c->diags, &c->mlir));
    if (c->options->from == TSR_STAGE_GRAPH && tsr_onnx_is_model(c->options->source_path))
        TRY(c->ctx,
            tsr_onnx_import(c->ctx, c->mlir, &c->diags, &onnx, out_module, &c->source_digest));
    else if (c->options->from == TSR_STAGE_GRAPH && tsr_hlo_is_program(c->options->source_path))
        TRY(c->ctx,
            tsr_hlo_import(c->ctx, c->mlir, &c->diags, &hlo, out_module, &c->source_digest));
    else if (c->options->from == TSR_STAGE_GRAPH &&
             tsr_language_is_program(c->options->source_path))
        TRY(c->ctx,
            tsr_language_import(
                c->ctx, &(tsr_language_options){c->options->source_path, c->options->strict_python},
                c->mlir, &c->diags, out_module, &c->source_digest));
    else {
        TRY(c->ctx, read_text(c, out_module));
        TRY(c->ctx, link_files(c, *out_module));
    }
    return store_weights(c, *out_module);
}

static TSR_RESULT read_module(compilation *c, MlirModule *out_module) {
    TRY(c->ctx, read_source(c, out_module));
    const char *numerics = c->options->numerics;
    if (numerics && strcmp(numerics, "portable") != 0)
        tsr_op_set(mlirModuleGetOperation(*out_module), TSR_NUMERICS_NAME,
                   tsr_attr_make_string(c->mlir, numerics));
    if (c->options->virtual_ranks && c->options->from == TSR_STAGE_GRAPH)
        tsr_op_set(mlirModuleGetOperation(*out_module), TSR_SR_VIRTUAL_RANKS,
                   tsr_attr_make_i64(c->mlir, c->options->virtual_ranks));
    if (c->options->workspace_max > INT64_MAX)
        FAIL(c->ctx, TSR_USAGE, "workspace_max is %" PRIu64 "; expected at most %" PRId64,
             c->options->workspace_max, INT64_MAX);
    if (c->options->workspace_max)
        tsr_op_set(mlirModuleGetOperation(*out_module), TSR_WORKSPACE_MAX_NAME,
                   tsr_attr_make_i64(c->mlir, (int64_t)c->options->workspace_max));
    tsr_documents_take(*out_module, c->documents);
    TRY(c->ctx, check_seal(c, *out_module));
    if (!c->documents[TSR_DOCUMENT_NAME]) c->documents[TSR_DOCUMENT_NAME] = c->base_name;
    bool last = c->options->stage_limit == TSR_STAGE_GRAPH + 1; /* no later stage reads it */
    if (c->documents[TSR_DOCUMENT_GRAPH] || last) return TSR_SUCCESS;
    tsr_print_referring(*out_module, &c->graph);
    return store_document(c, TSR_DOCUMENT_GRAPH, &c->graph);
}

/* The ops of a later stage would otherwise be refused one by one. */
static TSR_RESULT refuse_later(compilation *c) {
    static const struct {
        tsr_op op;
        const char *stage;
    } later[] = {
        {TSR_TARGET_FUNC, "target"}, {TSR_TILE_FUNC, "tile"}, {TSR_SCHED_FUNC, "schedule"}};
    for (size_t i = 0; i < TSR_COUNT(later); i++)
        TSR_FOR_EACH_OP(op, mlirModuleGetBody(c->module)) {
            if (tsr_op_is(op, later[i].op))
                FAIL(c->ctx, TSR_USAGE,
                     "%s contains a %s, so it is not a source; give --from=%s to continue from it",
                     c->base_name, tsr_op_text(later[i].op), later[i].stage);
        }
    return TSR_SUCCESS;
}

static TSR_RESULT load_graph(compilation *c) {
    TRY(c->ctx, read_module(c, &c->module));
    TRY(c->ctx, refuse_later(c));
    tsr_sizes_note(c->options, &c->arena, c->module);
    if (c->options->dump[TSR_STAGE_GRAPH])
        c->source = mlirModuleFromOperation(mlirOperationClone(mlirModuleGetOperation(c->module)));
    TRY(c->ctx,
        tsr_mlir_run_pass(c->ctx, c->module, &c->diags, "tessera-constraints," TSR_GRAPH_CHECK));
    return c->options->export ? tsr_onnx_export(c->ctx, &c->diags, c->module, c->options->export)
                              : TSR_SUCCESS;
}

static TSR_RESULT load_autodiff(compilation *c) {
    TRY(c->ctx, read_module(c, &c->module));
    TRY(c->ctx,
        tsr_mlir_run_pass(c->ctx, c->module, &c->diags, "tessera-verify,tessera-verify-lowered"));
    return store_deployment(c, c->module);
}

static TSR_RESULT load_schedule(compilation *c) {
    TRY(c->ctx, read_module(c, &c->module));
    TRY(c->ctx, tsr_mlir_run_pass(c->ctx, c->module, &c->diags, "tessera-verify-scheduled"));
    return run_schedule(c); /* groups the ops that are not in groups yet */
}

/* The module names its target. */
static TSR_RESULT read_target(compilation *c, job **out_job) {
    job *j = &c->jobs[0];
    MlirModule module = {NULL};
    const tsr_target *target = NULL;
    TRY(c->ctx, read_module(c, &module));
    j->module = module;
    const char *name = tsr_op_string(mlirModuleGetOperation(module), TSR_TARGET_NAME);
    if (!name)
        FAIL(c->ctx, TSR_COMPILE, "%s: the module has no attribute '" TSR_TARGET_NAME "'",
             c->base_name);
    TRY(c->ctx, tsr_target_find(c->ctx, name, &target));
    if (c->job_count && (c->job_count > 1 || j->target != target))
        FAIL(c->ctx, TSR_USAGE, "%s is only for target '%s'; the requested target is '%s'%s",
             c->base_name, name, j->target->name, c->job_count > 1 ? " and others" : "");
    j->target = target;
    j->ctx = tsr_ctx_fork(c->ctx);
    c->job_count = 1;
    *out_job = j;
    return TSR_SUCCESS;
}

static TSR_RESULT load_plan(compilation *c) {
    job *j = NULL;
    TRY(c->ctx, read_target(c, &j));
    j->planned = j->module;
    TRY(c->ctx, tsr_mlir_run_pass(c->ctx, j->module, &c->diags, "tessera-verify-scheduled"));
    bool is_known = c->documents[TSR_DOCUMENT_SCHEDULE] && !c->edited;
    return is_known ? TSR_SUCCESS : store_schedule(c, j->module);
}

static TSR_RESULT load_tile(compilation *c) {
    job *j = NULL;
    TRY(c->ctx, read_target(c, &j));
    TRY(c->ctx, tsr_mlir_run_pass(c->ctx, j->module, &c->diags, "tessera-verify-scheduled"));
    return c->documents[TSR_DOCUMENT_SCHEDULE] ? TSR_SUCCESS : store_schedule(c, j->module);
}

static TSR_RESULT load_target(compilation *c) {
    job *j = NULL;
    TRY(c->ctx, read_target(c, &j));
    const char *config = c->documents[TSR_DOCUMENT_CONFIG];
    if (!config) FAIL(c->ctx, TSR_COMPILE, "%s: the module has no document 'config'", c->base_name);
    TRY(c->ctx, tsr_config_decode(c->ctx, config, strlen(config), &c->arena, &c->config));
    if (c->edited) {
        c->config.operations = (tsr_digest){{0}};
        c->config.identity = (tsr_identity){.program = {{0}}};
    }
    TRY(c->ctx, tsr_host_device(c->ctx, j->module, &j->device));
    return c->documents[TSR_DOCUMENT_SCHEDULE] ? TSR_SUCCESS : store_schedule(c, j->module);
}

/* ---- showing them ---- */

static TSR_RESULT show_nothing(compilation *c, const job *j, tsr_buffer *out) {
    (void)c, (void)j, (void)out;
    return TSR_SUCCESS;
}

/* Writes the IR for people to read, or with everything needed to continue from it. */
static TSR_RESULT show_level(compilation *c, MlirModule module, bool is_source, tsr_buffer *out) {
    const char *documents[TSR_DOCUMENT_COUNT], *unused[TSR_DOCUMENT_COUNT];
    if (!c->options->dump_whole) {
        tsr_mlir_print(mlirModuleGetOperation(module), TSR_PRINT_PRETTY, out);
        return TSR_SUCCESS;
    }
    memcpy(documents, c->documents, sizeof documents);
    if (!is_source) TRY(c->ctx, make_seal(c, module, &documents[TSR_DOCUMENT_SEAL]));
    if (is_source) documents[TSR_DOCUMENT_GRAPH] = NULL; /* the source itself is this document */
    tsr_documents_add(module, documents);
    tsr_print_whole(module, out);
    tsr_documents_take(module, unused);
    return TSR_SUCCESS;
}

static TSR_RESULT show_source(compilation *c, const job *j, tsr_buffer *out) {
    (void)j;
    return show_level(c, c->source, true, out);
}

static TSR_RESULT show_module(compilation *c, const job *j, tsr_buffer *out) {
    return show_level(c, j ? j->module : c->module, false, out);
}

static TSR_RESULT show_text(compilation *c, const job *j, tsr_target_text kind, tsr_buffer *out) {
    char *text = NULL;
    TRY(c->ctx, tsr_target_dump(c->ctx, j->device, j->target, kind, &c->arena, &text));
    tsr_buffer_text(out, text);
    return TSR_SUCCESS;
}

static TSR_RESULT show_llvm(compilation *c, const job *j, tsr_buffer *out) {
    return show_text(c, j, TSR_TARGET_LLVM, out);
}

static TSR_RESULT show_asm(compilation *c, const job *j, tsr_buffer *out) {
    return show_text(c, j, TSR_TARGET_ASM, out);
}

static TSR_RESULT show_program(compilation *c, const job *j, tsr_buffer *out) {
    tsr_program_format(&j->program, &c->config, out);
    return TSR_SUCCESS;
}

/* ---- the table, and walking it ---- */

static TSR_RESULT load_nothing(compilation *c) {
    FAIL(c->ctx, TSR_USAGE,
         "stage '%s' cannot be the first stage: its result cannot be read from a file",
         tsr_stage_get(c->options->from)->name);
}

enum { ONCE, TARGET };
enum {
    READS_nothing = false,
    READS_graph = true,
    READS_autodiff = true,
    READS_schedule = true,
    READS_plan = true,
    READS_tile = true,
    READS_target = true,
};

typedef struct stage_row {
    tsr_stage_info info;
    TSR_RESULT (*load)(compilation *c);
    TSR_RESULT (*run)(compilation *c);
    TSR_RESULT (*show)(compilation *c, const job *j, tsr_buffer *out);
} stage_row;

static const stage_row stages[] = {
#define X(id, stage_name, scope, load_name, run_name, show_name, ending_text, about_text)          \
    [TSR_STAGE_##id] = {.info = {.name = stage_name,                                               \
                                 .ending = ending_text,                                            \
                                 .about = about_text,                                              \
                                 .per_target = scope == TARGET,                                    \
                                 .dumps = sizeof(ending_text) > 1,                                 \
                                 .reads = READS_##load_name},                                      \
                        .load = load_##load_name,                                                  \
                        .run = run_##run_name,                                                     \
                        .show = show_##show_name},
#include "compiler/stages.def"
#undef X
};
static_assert(TSR_COUNT(stages) == TSR_STAGE_COUNT, "one row per stage");

const tsr_stage_info *tsr_stage_get(tsr_stage stage) {
    TSR_ASSERT(stage < TSR_STAGE_COUNT);
    return &stages[stage].info;
}

static TSR_RESULT show_one(compilation *c, tsr_stage stage, const job *j) {
    tsr_buffer text = {0};
    tsr_result result = stages[stage].show(c, j, &text);
    if (!result.code && text.failed)
        result = tsr_fail_(c->ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory to show stage %s",
                           stages[stage].info.name);
    if (!result.code)
        result = c->options->on_dump(c->ctx, c->options->user, stage, j ? j->target->name : NULL,
                                     text.bytes ? text.bytes : "", text.size_bytes);
    tsr_buffer_finish(&text);
    return result;
}

static TSR_RESULT show(compilation *c, tsr_stage stage) {
    if (!c->options->dump[stage] || !c->options->on_dump || !stages[stage].info.dumps)
        return TSR_SUCCESS;
    if (!stages[stage].info.per_target) return show_one(c, stage, NULL);
    for (size_t i = 0; i < c->job_count; i++) TRY(c->ctx, show_one(c, stage, &c->jobs[i]));
    return TSR_SUCCESS;
}

/* A module that was read, rather than made here, may be one that its stage does not accept.
 * Failures of LLVM itself are not the module's fault. */
static tsr_result refuse(compilation *c, tsr_stage stage, tsr_result result) {
    bool is_read = c->options->from > TSR_STAGE_GRAPH;
    if (!is_read || (stage == TSR_STAGE_CODE && result.code == TSR_INTERNAL)) return result;
    MlirModule module = c->module;
    if (mlirModuleIsNull(module) && c->job_count) module = c->jobs[0].module;
    return tsr_level_refuse(c->ctx, module, &c->diags, result);
}

static TSR_RESULT run_stages(compilation *c, tsr_compile_report *report) {
    size_t end = c->options->stage_limit ? c->options->stage_limit : TSR_STAGE_COUNT;
    for (int i = (int)c->options->from; i < (int)end; i++) {
        double start = tsr_clock_seconds();
        tsr_result result = i == (int)c->options->from ? stages[i].load(c) : stages[i].run(c);
        if (result.code) return refuse(c, (tsr_stage)i, result);
        report->stage_seconds[i] = tsr_clock_seconds() - start;
        TRY(c->ctx, show(c, (tsr_stage)i));
    }
    return TSR_SUCCESS;
}

static TSR_RESULT prepare(compilation *c) {
    const char *slash = strrchr(c->options->source_path, '/');
    c->base_name = slash ? slash + 1 : c->options->source_path;
    c->diags.on_diag = c->options->on_diag;
    c->diags.user = c->options->user;
    TSR_ASSERT(c->options->from < TSR_STAGE_COUNT);
    TSR_ASSERT(c->options->stage_limit <= TSR_STAGE_COUNT);
    if (c->options->target_count == 0 && !stages[c->options->from].info.per_target)
        FAIL(c->ctx, TSR_USAGE, "no target is given");
    c->jobs = TSR_NEW(&c->arena, job, c->options->target_count + 1);
    if (!c->jobs) FAIL(c->ctx, TSR_MEMORY, "no memory to compile");
    for (size_t i = 0; i < c->options->target_count; i++) {
        job *j = &c->jobs[i];
        TRY(c->ctx, tsr_target_find(c->ctx, c->options->targets[i], &j->target));
        j->ctx = tsr_ctx_fork(c->ctx);
        for (size_t k = 0; k < i; k++)
            if (c->jobs[k].target == j->target)
                FAIL(c->ctx, TSR_USAGE, "target '%s' is given twice", j->target->name);
        c->job_count++;
    }
    return TSR_SUCCESS;
}

static void finish(compilation *c) {
    for (size_t i = 0; i < c->job_count; i++) {
        tsr_arena_finish(&c->jobs[i].arena);
        bool lowered = !mlirModuleEqual(c->jobs[i].module, c->jobs[i].planned);
        if (!mlirModuleIsNull(c->jobs[i].module) && lowered) mlirModuleDestroy(c->jobs[i].module);
        if (!mlirModuleIsNull(c->jobs[i].planned)) mlirModuleDestroy(c->jobs[i].planned);
    }
    if (!mlirModuleIsNull(c->schedule)) mlirModuleDestroy(c->schedule);
    tsr_choices_finish(&c->choices);
    if (!mlirModuleIsNull(c->module)) mlirModuleDestroy(c->module);
    if (!mlirModuleIsNull(c->source)) mlirModuleDestroy(c->source);
    tsr_mlir_context_destroy(c->mlir);
    tsr_diag_finish(&c->diags);
    tsr_buffer_finish(&c->graph);
    tsr_buffer_finish(&c->schedule_json);
    tsr_arena_finish(&c->arena);
}

static void fill_report(const compilation *c, tsr_compile_report *report) {
    report->entry_count = c->config.entry_count;
    report->tensor_count = c->config.tensor_count;
    const tsr_program *program = &c->jobs[0].program;
    report->kernel_count = program->kernel_count;
    for (uint32_t i = 0; i < program->entry_count; i++)
        if (program->entries[i].workspace_bytes > report->workspace_bytes)
            report->workspace_bytes = program->entries[i].workspace_bytes;
    if (!c->weights_name) return;
    memcpy(report->weights_name, c->weights_name, strlen(c->weights_name) + 1);
    report->weights_digest = c->weights_digest;
}

tsr_result tsr_compile_here(tsr_ctx *ctx, const tsr_compile_options *options,
                            tsr_compile_report *out_report) {
    compilation c = {.ctx = ctx, .options = options};
    tsr_compile_report report = {0};
    double start = tsr_clock_seconds();
    TSR_ASSERT(options->size_bytes == sizeof *options);
    tsr_result result = prepare(&c);
    if (!result.code) result = run_stages(&c, &report);
    report.seconds = tsr_clock_seconds() - start;
    if (!result.code) fill_report(&c, &report);
    finish(&c);
    if (!result.code && out_report) *out_report = report;
    return result;
}
