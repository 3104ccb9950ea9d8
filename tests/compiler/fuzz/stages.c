/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compiler/fuzz/stages.h"

#include "compiler/graph/graph.h"
#include "compiler/package.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/host/host.h"
#include "compiler/tile/tile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT_INPUTS = 200 }; /* a context keeps every type and name it saw */

/* After the last pass: what the driver does besides passes, and all modules printed and parsed. */
static const char pipeline[] =
    "parse," TSR_GRAPH_PIPELINE ",tsched-fuse,tile,target,program,read again";
enum { AFTER_LAST_PASS = 4 };
static char names_text[sizeof pipeline];
static const char *names[STAGES_MAX];
static size_t count;

const char *const *stages_names(void) {
    if (count) return names;
    memcpy(names_text, pipeline, sizeof pipeline);
    for (char *at = strtok(names_text, ","); at; at = strtok(NULL, ",")) names[count++] = at;
    return names;
}

size_t stages_last_pass(void) {
    stages_names();
    return count - 1 - AFTER_LAST_PASS;
}

/* ---- one input ------------------------------------------------------------------------------- */

/* Diagnostics are formatted as a tool would. */
static void format(void *user, const tsr_diag *diag) {
    tsr_buffer out = {0};
    (void)user;
    tsr_diag_format(diag, &out);
    tsr_diag_format_json(diag, &out);
    tsr_buffer_finish(&out);
}

static void prepare(stages *s) {
    tsr_ctx ctx = {0};
    if (s->context.ptr && ++s->inputs > CONTEXT_INPUTS) stages_finish(s);
    tsr_diag_finish(&s->diags);
    if (s->context.ptr) return;
    s->diags.on_diag = format;
    s->inputs = 0;
    tsr_result result = tsr_mlir_context_create(&ctx, &s->diags, &s->context);
    TSR_ASSERT(!result.code);
}

void stages_finish(stages *s) {
    tsr_mlir_context_destroy(s->context);
    s->context = (MlirContext){NULL};
    tsr_diag_finish(&s->diags);
}

static void begin(stages *s, size_t stage) {
    if (s->on_stage) s->on_stage(s->user, stage);
}

static MlirModule parse(stages *s, const char *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    MlirModule module = {NULL};
    tsr_result result =
        tsr_mlir_parse(&ctx, s->context, &s->diags, bytes, size_bytes, "input.mlir", &module);
    return result.code ? (MlirModule){NULL} : module;
}

static bool has_ops(MlirModule module) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (mlirOperationGetNumRegions(func) == 0 || !tsr_op_has_body(func)) return true;
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
            if (!tsr_op_is(op, "func.return")) return true;
        }
    }
    return false;
}

static bool read_again(stages *s, MlirModule module) {
    tsr_buffer out = {0};
    tsr_mlir_print(mlirModuleGetOperation(module), TSR_PRINT_PRETTY, &out);
    MlirModule again = parse(s, out.bytes ? out.bytes : "", out.size_bytes);
    bool good = !mlirModuleIsNull(again);
    if (!good && getenv("FUZZ_SHOW")) fwrite(out.bytes, 1, out.size_bytes, stderr);
    tsr_buffer_finish(&out);
    if (good) mlirModuleDestroy(again);
    return good;
}

/* ---- the levels ---- */

typedef enum level { GRAPH, SCHEDULE, TILE, TARGET } level;

static level level_of(MlirModule module) {
    level found = GRAPH;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_is(op, "tessera_target.func")) return TARGET;
        if (tsr_op_is(op, "tile.func")) found = TILE;
        if (tsr_op_is(op, "tsched.func") && found == GRAPH) found = SCHEDULE;
    }
    return found;
}

/* What is known of an input that became a module. */
typedef struct run {
    stages *s;
    tsr_ctx ctx;
    tsr_arena arena;
    MlirModule module; /* read; up to Schedule IR rewritten in place */
    MlirModule tile;   /* Tile IR, then Target IR; perhaps `module` itself */
    tsr_config config;
    const char *documents[TSR_DOCUMENT_COUNT]; /* of a module of Target IR */
    size_t passed;
} run;

static bool run_pass(run *r, const char *name) {
    return !tsr_mlir_run_pass(&r->ctx, r->module, &r->s->diags, name).code;
}

static bool run_passes(run *r) {
    for (; r->passed <= stages_last_pass(); r->passed++) {
        begin(r->s, r->passed);
        if (!has_ops(r->module) || !run_pass(r, names[r->passed])) return false;
    }
    return has_ops(r->module);
}

/* Kernels for a CPU or, of every third input, a GPU. */
static bool make_tile(run *r, size_t size_bytes) {
    const tsr_target *target;
    const char *name = size_bytes % 3 ? "cpu:x86-64-v3" : "cuda:sm_80";
    begin(r->s, r->passed);
    if (tsr_target_find(&r->ctx, name, &target).code ||
        tsr_tile_lower(&r->ctx, r->module, target, &r->tile).code)
        return false;
    r->passed++;
    return true;
}

static bool make_target(run *r) {
    begin(r->s, r->passed);
    if (tsr_package_config(&r->ctx, r->tile, "input", &r->arena, &r->config).code ||
        tsr_host_lower(&r->ctx, r->tile, &r->config, &r->arena).code ||
        tsr_mlir_verify(&r->ctx, r->tile, &r->s->diags, "target").code)
        return false;
    r->passed++;
    return true;
}

static bool make_program(run *r) {
    MlirModule device;
    tsr_program program;
    begin(r->s, r->passed);
    if (tsr_host_device(&r->ctx, r->tile, &device).code ||
        tsr_host_program(&r->ctx, r->tile, &r->config, &r->arena, &program).code)
        return false;
    tsr_buffer text = {0};
    tsr_program_format(&program, &r->config, &text);
    tsr_buffer_finish(&text);
    r->passed++;
    return true;
}

/* As compile.c goes on from a dump. */
static bool load(run *r, level from) {
    const char *config;
    if (from == GRAPH) return true;
    r->passed = stages_last_pass() + (from == TILE ? 1 : from == TARGET ? 2 : 0);
    begin(r->s, r->passed);
    tsr_documents_take(r->module, r->documents);
    if (from != TARGET && !run_pass(r, "tessera-verify-scheduled")) return false;
    if (from != SCHEDULE) r->tile = r->module;
    if (from == TILE) r->passed++;
    if (from != TARGET) return true;
    config = r->documents[TSR_DOCUMENT_CONFIG];
    r->passed++;
    return config &&
           !tsr_config_decode(&r->ctx, config, strlen(config), &r->arena, &r->config).code;
}

static void run_stages(run *r, size_t size_bytes) {
    level from = level_of(r->module);
    if (!load(r, from)) return;
    if (from <= SCHEDULE && (!run_passes(r) || !make_tile(r, size_bytes))) return;
    if (from <= TILE && !make_target(r)) return;
    if (!make_program(r)) return;
    begin(r->s, r->passed);
    if (read_again(r->s, r->module) && read_again(r->s, r->tile)) r->passed++;
}

static void finish(run *r) {
    if (!mlirModuleIsNull(r->tile) && r->tile.ptr != r->module.ptr) mlirModuleDestroy(r->tile);
    mlirModuleDestroy(r->module);
    tsr_arena_finish(&r->arena);
}

size_t stages_run(stages *s, const char *bytes, size_t size_bytes) {
    run r = {.s = s, .passed = 1};
    stages_names();
    prepare(s);
    begin(s, 0);
    r.module = parse(s, bytes, size_bytes);
    if (mlirModuleIsNull(r.module)) return 0;
    run_stages(&r, size_bytes);
    finish(&r);
    return r.passed;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static void append(MlirStringRef part, void *user) {
    tsr_buffer_append(user, part.data, part.length);
}

bool stages_bytecode(stages *s, const char *source, size_t size_bytes, tsr_buffer *out) {
    prepare(s);
    MlirModule module = parse(s, source, size_bytes);
    if (mlirModuleIsNull(module)) return false;
    mlirOperationWriteBytecode(mlirModuleGetOperation(module), append, out);
    mlirModuleDestroy(module);
    return true;
}

static MlirAttribute name_ports(MlirContext context, intptr_t ports, const char *kind) {
    MlirAttribute dicts[64];
    for (intptr_t i = 0; i < ports; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%d", kind, (int)i);
        MlirNamedAttribute named = {.name = mlirIdentifierGet(context, tsr_ref("tessera.name")),
                                    .attribute = tsr_attr_make_string(context, name)};
        dicts[i] = mlirDictionaryAttrGet(context, 1, &named);
    }
    return mlirArrayAttrGet(context, ports, dicts);
}

static bool make_entry(MlirContext context, MlirOperation func) {
    MlirAttribute type = tsr_op_attr(func, "function_type");
    if (!tsr_op_is(func, "func.func") || tsr_op_has(func, "tessera.entry") ||
        !tsr_op_has_body(func) || mlirAttributeIsNull(type))
        return false;
    intptr_t inputs = mlirFunctionTypeGetNumInputs(mlirTypeAttrGetValue(type));
    intptr_t results = mlirFunctionTypeGetNumResults(mlirTypeAttrGetValue(type));
    if (inputs > 64 || results > 64) return false;
    tsr_op_set(func, "tessera.entry", tsr_attr_make_string(context, "train"));
    if (inputs) tsr_op_set(func, "arg_attrs", name_ports(context, inputs, "a"));
    if (results) tsr_op_set(func, "res_attrs", name_ports(context, results, "r"));
    return true;
}

bool stages_entries(stages *s, const char *source, size_t size_bytes, tsr_buffer *out) {
    prepare(s);
    MlirModule module = parse(s, source, size_bytes);
    if (mlirModuleIsNull(module)) return false;
    bool changed = false;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        changed = make_entry(s->context, op) || changed;
    }
    if (changed) tsr_mlir_print(mlirModuleGetOperation(module), TSR_PRINT_PRETTY, out);
    mlirModuleDestroy(module);
    return changed;
}

/* ---- dumps ---- */

static void print(MlirModule module, tsr_buffer *out) {
    tsr_mlir_print(mlirModuleGetOperation(module), TSR_PRINT_PRETTY, out);
}

static void print_target(run *r, tsr_buffer *out) {
    char *config = NULL;
    size_t size_bytes = 0;
    if (tsr_config_encode(&r->ctx, &r->config, &r->arena, &config, &size_bytes).code) return;
    r->documents[TSR_DOCUMENT_CONFIG] = config;
    tsr_documents_add(r->tile, r->documents);
    print(r->tile, out);
}

bool stages_dumps(stages *s, const char *source, size_t size_bytes,
                  tsr_buffer out[static STAGES_DUMPS]) {
    run r = {.s = s, .passed = 1};
    prepare(s);
    r.module = parse(s, source, size_bytes);
    if (mlirModuleIsNull(r.module)) return false;
    bool done = level_of(r.module) == GRAPH && run_passes(&r);
    if (done) print(r.module, &out[0]);
    done = done && make_tile(&r, size_bytes);
    if (done) print(r.tile, &out[1]);
    done = done && make_target(&r);
    if (done) print_target(&r, &out[2]);
    finish(&r);
    return done;
}
