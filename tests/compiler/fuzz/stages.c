/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compiler/fuzz/stages.h"

#include "compiler/graph/graph.h"
#include "compiler/target/target.h"
#include "compiler/tile/tile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT_INPUTS = 200 }; /* a context keeps every type and name it saw */

static const char pipeline[] = "parse," TSR_GRAPH_PIPELINE ",tsched-fuse,tile,read again";
static char text[sizeof pipeline];
static const char *names[STAGES_MAX];
static size_t count;

const char *const *stages_names(void) {
    if (count) return names;
    memcpy(text, pipeline, sizeof pipeline);
    for (char *at = strtok(text, ","); at; at = strtok(NULL, ",")) names[count++] = at;
    return names;
}

size_t stages_last_pass(void) {
    stages_names();
    return count - 3;
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

/* The kernels of one target; true where there are none of ops that have no kernel. */
static bool make_tile(MlirModule module, MlirModule *out_tile) {
    tsr_ctx ctx = {0};
    const tsr_target *target;
    return !tsr_target_find(&ctx, "cpu:x86-64-v3", &target).code &&
           !tsr_tile_lower(&ctx, module, target, out_tile).code;
}

size_t stages_run(stages *s, const char *bytes, size_t size_bytes) {
    size_t last = stages_last_pass(), passed = 0;
    tsr_ctx ctx = {0};
    MlirModule tile = {NULL};
    prepare(s);
    begin(s, 0);
    MlirModule module = parse(s, bytes, size_bytes);
    if (mlirModuleIsNull(module)) return 0;
    for (passed = 1; passed <= last && has_ops(module); passed++) {
        begin(s, passed);
        if (tsr_mlir_run_pass(&ctx, module, &s->diags, names[passed]).code) goto done;
    }
    if (passed <= last || !has_ops(module)) goto done;
    begin(s, passed);
    if (!make_tile(module, &tile)) goto done;
    begin(s, ++passed);
    if (read_again(s, module) && read_again(s, tile)) passed++;
done:
    if (!mlirModuleIsNull(tile)) mlirModuleDestroy(tile);
    mlirModuleDestroy(module);
    return passed;
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
