/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compiler/fuzz/stages.h"

#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/level.h"
#include "compiler/ir/targets/target.h"
#include "compiler/ir/text/bytecode.h"
#include "compiler/package.h"
#include "compiler/resilience/resilience.h"
#include "compiler/schedule/config.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/host/host.h"
#include "compiler/target/llvm/emit.h"
#include "compiler/tile/tile.h"
#include "runtime/base/array.h"

#include <llvm-c/Analysis.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT_INPUTS = 200 }; /* a context stores every type and name it has seen */

/* "any pass" runs a single pass on a copy of the input. After the last pass come the driver's other
 * steps, and all modules are printed and parsed. */
static const char pipeline[] = "parse,any pass,tsched-verify,tsched-pipeline," TSR_GRAPH_PIPELINE
                               ",tsched-fuse,tessera-verify-scheduled,tessera-verify-level"
                               ",tsched-hoist,tsched-batch,tsched-fuse-epilogues"
                               ",tsched-narrow,tsched-pack,tile,target,llvm,program,read again";
enum { FIRST_PASS = 2, AFTER_LAST_PASS = 5 };
static char names_text[sizeof pipeline];
static const char *names[STAGES_MAX];
static size_t count;

/* Passes of MLIR that tessera-opt offers; those that print or write files are left out. */
static const char *const general[] = {"canonicalize",
                                      "control-flow-sink",
                                      "cse",
                                      "generate-runtime-verification",
                                      "inline",
                                      "loop-invariant-code-motion",
                                      "loop-invariant-subset-hoisting",
                                      "mem2reg",
                                      "sccp",
                                      "sroa",
                                      "strip-debuginfo",
                                      "symbol-dce",
                                      "symbol-privatize",
                                      "topological-sort",
                                      "remove-dead-values"};
enum { GENERAL_COUNT = TSR_COUNT(general) };

/* The last one crashes in MLIR on sources with plans (LEDGER.md). Only the frames printed by
 * sanitizers distinguish this from a death of ours: without sanitizers the pass is not chosen. */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
static size_t general_count(void) {
    return __lsan_do_recoverable_leak_check ? GENERAL_COUNT : GENERAL_COUNT - 1;
}

const char *const *stages_names(void) {
    if (count) return names;
    memcpy(names_text, pipeline, sizeof pipeline);
    for (char *at = strtok(names_text, ","); at; at = strtok(NULL, ",")) names[count++] = at;
    TSR_ASSERT(count < STAGES_MAX);
    return names;
}

size_t stages_last_pass(void) {
    stages_names();
    return count - 1 - AFTER_LAST_PASS;
}

static size_t stage_of(const char *name) {
    size_t i = 0;
    stages_names();
    while (i < count && strcmp(names[i], name) != 0) i++;
    TSR_ASSERT(i < count);
    return i;
}

const char *stages_missing_pass(void) {
    for (size_t i = 0; i < tsr_pass_count; i++) {
        size_t at = FIRST_PASS;
        while (at <= stages_last_pass() && strcmp(stages_names()[at], tsr_passes[i].name) != 0)
            at++;
        if (at > stages_last_pass()) return tsr_passes[i].name;
    }
    return NULL;
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
            if (!tsr_op_is(op, TSR_FUNC_RETURN)) return true;
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

typedef enum level { GRAPH, LOWERED, SCHEDULE, TILE, TARGET } level;

/* A dump of lowered Graph IR carries its source along. */
static level level_of(MlirModule module) {
    level found = GRAPH;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_is(op, TSR_TARGET_FUNC)) return TARGET;
        if (tsr_op_is(op, TSR_TILE_FUNC)) found = TILE;
        if (tsr_op_is(op, TSR_SCHED_FUNC) && found <= LOWERED) found = SCHEDULE;
        if (tsr_op_is(op, TSR_TARGET_DOCUMENT) && found == GRAPH) found = LOWERED;
    }
    return found;
}

/* The state of an input that became a module. */
typedef struct run {
    stages *s;
    tsr_ctx ctx;
    tsr_arena arena;
    uint64_t choice; /* source of random choices */
    level from;
    MlirModule module; /* the input; rewritten in place up to Schedule IR */
    MlirModule tile;   /* Tile IR, then Target IR; may be `module` itself */
    const tsr_target *target;
    tsr_config config;
    const char *documents[TSR_DOCUMENT_COUNT]; /* for a module of Target IR */
    bool compiling;                            /* LLVM IR is made */
    size_t passed;
} run;

/* FNV-1a. */
static uint64_t hash(const char *bytes, size_t size_bytes) {
    uint64_t value = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size_bytes; i++)
        value = (value ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return value ^ value >> 29;
}

static size_t choose(run *r, size_t below) {
    size_t chosen = r->choice % below;
    r->choice = r->choice / below * 0x9e3779b97f4a7c15u + 1;
    r->choice ^= r->choice >> 31;
    return chosen;
}

/* Records the end of a run with `next`; a stage that fails on input from a dump refuses it, as in
 * the driver. */
static bool note_end(run *r, tsr_result result) {
    if (result.code && r->from > GRAPH && (result.code == TSR_COMPILE || !r->compiling))
        result = tsr_level_refuse(&r->ctx, r->tile.ptr ? r->tile : r->module, &r->s->diags, result);
    stages_end *end = &r->s->end;
    *end = (stages_end){.code = result.code, .numbered = r->s->diags.error_count};
    snprintf(end->text, sizeof end->text, "%s", r->ctx.error.text);
    return !result.code;
}

/* An internal error is a defect of ours, like a death, unless the groups and kernels themselves
 * come from the input; for kernels that were checked it is always a defect. */
static bool is_good(run *r, tsr_result result) {
    if (r->s->next) return note_end(r, result);
    if (result.code == TSR_INTERNAL && (r->from <= LOWERED || r->compiling)) {
        fprintf(stderr, STAGES_INTERNAL "%s\n", r->ctx.error.text);
        abort();
    }
    return !result.code;
}

static bool run_pass(run *r, const char *name) {
    return is_good(r, tsr_mlir_run_pass(&r->ctx, r->module, &r->s->diags, name));
}

static bool run_on_copy(run *r, const char *name) {
    MlirModule module = r->module;
    r->module = mlirModuleFromOperation(mlirOperationClone(mlirModuleGetOperation(module)));
    bool done = run_pass(r, name);
    mlirModuleDestroy(r->module);
    r->module = module;
    return done;
}

/* Sets the attributes that options of the driver would set. */
static void choose_options(run *r) {
    MlirOperation self = mlirModuleGetOperation(r->module);
    MlirContext context = r->s->context;
    if (choose(r, 4) == 0)
        tsr_op_set(self, TSR_NUMERICS_NAME, tsr_attr_make_string(context, "native"));
    if (choose(r, 6) == 0)
        tsr_op_set(self, TSR_SR_VIRTUAL_RANKS, tsr_attr_make_i64(context, 1ll << choose(r, 4)));
}

/* Any pass may be run by name on any module that can be read; its result does not matter. */
static void run_any_pass(run *r) {
    size_t chosen = choose(r, tsr_pass_count + general_count());
    begin(r->s, r->passed);
    run_on_copy(r, chosen < tsr_pass_count ? tsr_passes[chosen].name
                                           : general[chosen - tsr_pass_count]);
    r->passed++;
}

/* True for passes that only some targets need: kernels of the others are made from the unchanged
 * module. */
static bool is_for_some(const char *name) {
    static const char *const some[] = {"tsched-hoist", "tsched-batch", "tsched-fuse-epilogues",
                                       "tsched-narrow", "tsched-pack"};
    for (size_t i = 0; i < TSR_COUNT(some); i++)
        if (strcmp(name, some[i]) == 0) return true;
    return false;
}

static bool run_passes(run *r) {
    for (; r->passed <= stages_last_pass(); r->passed++) {
        const char *name = names[r->passed];
        begin(r->s, r->passed);
        if (!has_ops(r->module)) return false;
        if (!(is_for_some(name) ? run_on_copy : run_pass)(r, name)) return false;
    }
    tsr_buffer json = {0};
    tsr_schedule_json(r->module, NULL, 0, &json);
    tsr_buffer_finish(&json);
    return has_ops(r->module);
}

/* Half of the inputs become kernels for the same target, the others for any. */
static bool make_tile(run *r) {
    bool often = choose(r, 2);
    size_t chosen = choose(r, tsr_target_count());
    begin(r->s, r->passed);
    const char *name = r->s->target ? r->s->target : often ? "cpu:x86-64-v3" : NULL;
    tsr_result found = TSR_SUCCESS;
    if (name)
        found = tsr_target_find(&r->ctx, name, &r->target);
    else
        r->target = tsr_target_get(chosen);
    TSR_ASSERT(!found.code);
    if (!is_good(r, tsr_tile_lower(&r->ctx, r->module, r->target, &r->tile))) return false;
    r->passed++;
    return true;
}

static bool make_target(run *r) {
    begin(r->s, r->passed);
    if (!is_good(r, tsr_module_config(&r->ctx, r->tile, "input", &r->arena, &r->config)) ||
        !is_good(r, tsr_host_lower(&r->ctx, r->tile, &r->config, &r->arena)) ||
        !is_good(r, tsr_mlir_verify(&r->ctx, r->tile, &r->s->diags, "target")))
        return false;
    r->passed++;
    return true;
}

static size_t count_kernels(MlirModule module) {
    size_t kernels = 0;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) kernels += tsr_op_is(op, TSR_TILE_FUNC);
    return kernels;
}

/* Checks the kernels; those made by our stages must be translatable to machine code. */
static tsr_result check_kernels(run *r, MlirModule device) {
    tsr_result result = tsr_target_check(&r->ctx, device, r->target);
    if (result.code == TSR_COMPILE && r->from <= LOWERED)
        FAIL(&r->ctx, TSR_INTERNAL, "of a kernel made here: %.900s", r->s->diags.last->text);
    return result;
}

/* Makes LLVM IR of the kernels, for one in four inputs; translating it further is LLVM's
 * responsibility. */
static bool make_llvm(run *r) {
    MlirModule device;
    char note[256], *message = NULL;
    begin(r->s, r->passed);
    if (!is_good(r, tsr_host_device(&r->ctx, r->tile, &device))) return false;
    r->passed++;
    if (!r->s->next && (r->s->plain || choose(r, 4))) return true;
    if (!is_good(r, check_kernels(r, device))) return false;
    r->compiling = true;
    tsr_emit emit = {.ctx = &r->ctx, .target = r->target, .llvm = LLVMContextCreate()};
    tsr_fatbin_kernel *launches = calloc(count_kernels(device) + 1, sizeof *launches);
    TSR_ASSERT(launches);
    emit.module = LLVMModuleCreateWithNameInContext("tessera", emit.llvm);
    emit.builder = LLVMCreateBuilderInContext(emit.llvm);
    LLVMSetTarget(emit.module, r->target->triple);
    /* The verifier requires the address space of local variables. */
    if (r->target->family == TSR_FAMILY_HIP) LLVMSetDataLayout(emit.module, "e-p5:32:32-A5");
    tsr_result result = tsr_emit_module(&emit, device, note, sizeof note, launches);
    if (!result.code && LLVMVerifyModule(emit.module, LLVMReturnStatusAction, &message))
        result = tsr_fail_(&r->ctx, TSR_INTERNAL, 0, __FILE__, __LINE__,
                           "LLVM IR does not verify: %.400s", message);
    LLVMDisposeMessage(message);
    tsr_emit_finish(&emit);
    LLVMDisposeBuilder(emit.builder);
    LLVMDisposeModule(emit.module);
    LLVMContextDispose(emit.llvm);
    free(launches);
    bool good = is_good(r, result);
    r->compiling = false;
    return good;
}

static bool make_program(run *r) {
    tsr_program program;
    char *config;
    size_t size_bytes;
    tsr_package_weights weights;
    begin(r->s, r->passed);
    if (!is_good(r, tsr_host_program(&r->ctx, r->tile, &r->config, &r->arena, &program)) ||
        !is_good(r, tsr_config_encode(&r->ctx, &r->config, &r->arena, &config, &size_bytes)) ||
        !is_good(r, tsr_package_weights_encode(&r->ctx, r->tile, &r->config, &r->arena, &weights)))
        return false;
    tsr_buffer text = {0};
    tsr_program_format(&program, &r->config, &text);
    tsr_buffer_finish(&text);
    r->passed++;
    return true;
}

/* ---- one input, from its level on ---- */

static tsr_result find_target(run *r) {
    const char *name = tsr_op_string(mlirModuleGetOperation(r->module), TSR_TARGET_NAME);
    if (!name) FAIL(&r->ctx, TSR_COMPILE, "the module has no attribute '" TSR_TARGET_NAME "'");
    return tsr_target_find(&r->ctx, name, &r->target);
}

static tsr_result read_config(run *r) {
    const char *config = r->documents[TSR_DOCUMENT_CONFIG];
    if (!config) FAIL(&r->ctx, TSR_COMPILE, "the module has no document 'config'");
    return tsr_config_decode(&r->ctx, config, strlen(config), &r->arena, &r->config);
}

/* Continues from a dump as compile.c does. */
static bool load(run *r) {
    const level from = r->from;
    static const char *const goes_on[] = {[LOWERED] = "tsched-fuse",
                                          [SCHEDULE] = "tsched-fuse",
                                          [TILE] = "target",
                                          [TARGET] = "llvm"};
    if (r->s->plain)
        r->passed++;
    else
        run_any_pass(r);
    if (from == GRAPH && !r->s->plain) choose_options(r);
    if (from == GRAPH) return true;
    size_t next = stage_of(goes_on[from]);
    begin(r->s, next - 1);
    tsr_documents_take(r->module, r->documents);
    if (from == LOWERED &&
        (!run_pass(r, "tessera-verify") || !run_pass(r, "tessera-verify-lowered")))
        return false;
    if (from >= SCHEDULE && from != TARGET && !run_pass(r, "tessera-verify-scheduled"))
        return false;
    if (from >= TILE && !is_good(r, find_target(r))) return false;
    if (from >= TILE) r->tile = r->module;
    if (from == TARGET && !is_good(r, read_config(r))) return false;
    r->passed = next;
    return true;
}

static void run_stages(run *r) {
    const level from = r->from = level_of(r->module);
    if (!load(r)) return;
    if (from <= SCHEDULE && (!run_passes(r) || !make_tile(r))) return;
    if (from <= SCHEDULE && r->s->next) return;
    if (from <= TILE && !make_target(r)) return;
    if (!make_llvm(r) || !make_program(r)) return;
    begin(r->s, r->passed);
    if (read_again(r->s, r->module) && read_again(r->s, r->tile)) r->passed++;
}

static void finish(run *r) {
    if (!mlirModuleIsNull(r->tile) && r->tile.ptr != r->module.ptr) mlirModuleDestroy(r->tile);
    mlirModuleDestroy(r->module);
    tsr_arena_finish(&r->arena);
}

size_t stages_run(stages *s, const char *bytes, size_t size_bytes) {
    run r = {.s = s, .passed = 1, .choice = hash(bytes, size_bytes)};
    stages_names();
    prepare(s);
    s->end = (stages_end){0};
    begin(s, 0);
    r.module = parse(s, bytes, size_bytes);
    if (mlirModuleIsNull(r.module)) return 0;
    run_stages(&r);
    finish(&r);
    return r.passed;
}

void stages_read(stages *s, const char *bytes, size_t size_bytes) {
    tsr_buffer text = {0};
    prepare(s);
    begin(s, 0);
    tsr_bytecode_print(s->context, bytes, size_bytes, "input.mlir", &text);
    tsr_buffer_finish(&text);
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
    if (!tsr_op_is(func, TSR_FUNC_FUNC) || tsr_op_has(func, "tessera.entry") ||
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

/* Runs the graph stage; its result is annotated with its source. */
static bool lower_graph(run *r, tsr_buffer *out) {
    size_t last = stage_of("tessera-verify-lowered");
    const char *documents[TSR_DOCUMENT_COUNT] = {[TSR_DOCUMENT_GRAPH] = "module {}"},
               *unused[TSR_DOCUMENT_COUNT];
    for (r->passed = FIRST_PASS; r->passed <= last; r->passed++)
        if (!has_ops(r->module) || !run_pass(r, names[r->passed])) return false;
    tsr_documents_add(r->module, documents);
    print(r->module, out);
    tsr_documents_take(r->module, unused);
    return true;
}

bool stages_dumps(stages *s, const char *source, size_t size_bytes,
                  tsr_buffer out[static STAGES_DUMPS]) {
    run r = {.s = s, .passed = 1, .choice = hash(source, size_bytes)};
    prepare(s);
    r.module = parse(s, source, size_bytes);
    if (mlirModuleIsNull(r.module)) return false;
    bool done = level_of(r.module) == GRAPH && lower_graph(&r, &out[0]) && run_passes(&r);
    if (done) print(r.module, &out[1]);
    done = done && make_tile(&r);
    if (done) print(r.tile, &out[2]);
    done = done && make_target(&r);
    if (done) print_target(&r, &out[3]);
    finish(&r);
    return done;
}
