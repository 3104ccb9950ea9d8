/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver: inlines calls, lowers ops that have no row of ops.def, writes op after op as nodes,
 * then the model around them.
 */
#include "compiler/frontend/onnx/export/export.h"

#include "compiler/frontend/onnx/export/exporter.h"
#include "compiler/frontend/onnx/export/write.h"
#include "compiler/graph/rule.h"
#include "compiler/process/guard.h"
#include "manifests/config.h"
#include "runtime/base/array.h"

#include <stdio.h>
#include <string.h>

/* Calls are inlined, scans and branches are unrolled where they are small. */
#define PIPELINE                                                                                   \
    "tessera-name-calls,inline,tessera-streams,tessera-drop-other-functions,tessera-inline-"       \
    "regions,"                                                                                     \
    "tessera-infer-shapes,tessera-flatten," TSR_CANONICALIZE ",cse"
enum { LOWERINGS_MAX = 16 }; /* of the ops that lowering made */

static const struct {
    tsr_export_fn rule;
    const char *name;
} rows[TSR_OP_COUNT] = {
#define X(ID, op_name, rule_name)                                                                  \
    [TSR_GRAPH_##ID] = {.rule = tsr_export_##rule_name, .name = op_name},
#include "compiler/frontend/onnx/export/ops.def"
#undef X
};

/* ---- names ----------------------------------------------------------------------------------- */

bool tsr_export_refuse(tsr_exporter *x, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return tsr_op_emit_error(x->op, TSR_DIAG_ONNX_EXPORT, "it has no form in ONNX: %s", text);
}

const char *tsr_export_name(tsr_exporter *x, MlirValue value) {
    uint32_t number = tsr_value_map_get(&x->numbers, value);
    TSR_ASSERT(number != UINT32_MAX);
    return x->names[number];
}

void tsr_export_bind(tsr_exporter *x, MlirValue value, const char *name) {
    if (x->name_count == x->name_capacity) {
        x->names = TSR_ARENA_GROW(&x->arena, x->names, &x->name_capacity, 64);
        TSR_NEED(x->names);
    }
    bool set = tsr_value_map_set(&x->numbers, &x->arena, value, (uint32_t)x->name_count);
    TSR_NEED(set ? x : NULL);
    x->names[x->name_count++] = name;
}

const char *tsr_export_fresh(tsr_exporter *x) {
    for (;;) {
        const char *name = tsr_arena_printf(&x->arena, "v%zu", x->next++);
        TSR_NEED(name);
        if (tsr_names_find(&x->taken, name) == TSR_NAME_ABSENT) return name;
    }
}

const char *tsr_export_result_name(tsr_exporter *x, MlirValue value) {
    for (size_t i = 0; i < x->output_count; i++)
        if (!mlirValueIsNull(x->outputs[i]) && mlirValueEqual(x->outputs[i], value))
            return x->output_names[i];
    return tsr_export_fresh(x);
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* Replaces ops without a row by those that they are combinations of. */
static bool lower(tsr_exporter *x, MlirBlock block, bool *out_changed) {
    static const char *const lowerings[TSR_OP_COUNT] = {
#define X(ID, mnemonic, Class, KIND, check, gradient, forward, lowering, rows, dims)               \
    [TSR_GRAPH_##ID] = #lowering,
#include "compiler/graph/ops.def"
#undef X
    };
    *out_changed = false;
    TSR_FOR_EACH_OP(op, block) {
        tsr_op id = tsr_op_of(op);
        x->op = op;
        if (rows[id].rule || id == TSR_FUNC_RETURN) continue;
        const char *how = lowerings[id];
        if (!how || strcmp(how, "legal") == 0 || strcmp(how, "refused") == 0)
            return tsr_export_refuse(x, "no op there computes the same");
        if (!tsr_graph_rules(id)->lower(op)) return false;
        *out_changed = true;
    }
    return true;
}

static bool lower_all(tsr_exporter *x, MlirBlock block) {
    bool changed = true;
    for (size_t i = 0; changed; i++) {
        if (i == LOWERINGS_MAX) return tsr_export_refuse(x, "it is lowered without an end");
        if (!lower(x, block, &changed)) return false;
    }
    return true;
}

static bool has_types(tsr_exporter *x, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        tsr_type type;
        if (!tsr_value_type(tsr_op_result(op, i), &type) || !tsr_type_is_inferred(&type))
            return tsr_export_refuse(x, "the dims of a result are not known");
    }
    return true;
}

static bool write_ops(tsr_exporter *x, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        tsr_op id = tsr_op_of(op);
        x->op = op;
        if (id == TSR_FUNC_RETURN) continue;
        if (!has_types(x, op) || !rows[id].rule(x, op, rows[id].name)) return false;
    }
    return true;
}

/* ---- ports and parameters -------------------------------------------------------------------- */

static const char *port_name(MlirOperation func, const char *list, size_t index) {
    MlirAttribute all = tsr_op_attr(func, list);
    if (!mlirAttributeIsAArray(all)) return NULL;
    MlirAttribute one = mlirArrayAttrGetElement(all, (intptr_t)index);
    return tsr_attr_string(mlirDictionaryAttrGetElementByName(one, tsr_ref("tessera.name")));
}

static bool take_name(tsr_exporter *x, const char *what, const char *name) {
    if (tsr_names_find(&x->taken, name) != TSR_NAME_ABSENT)
        return tsr_export_refuse(x, "the name '%s' of %s is also that of another value", name,
                                 what);
    tsr_names_add(&x->taken, name, 0);
    return true;
}

static bool read_ports(tsr_exporter *x, MlirOperation func, MlirOperation end) {
    MlirBlock block = tsr_op_body(func);
    size_t count = (size_t)mlirBlockGetNumArguments(block);
    x->op = func;
    for (size_t i = 0; i < count; i++) {
        const char *name = port_name(func, "arg_attrs", i);
        if (!name) return tsr_export_refuse(x, "argument %zu has no tessera.name", i);
        if (!take_name(x, "an input", name)) return false;
        tsr_export_bind(x, mlirBlockGetArgument(block, (intptr_t)i), name);
    }
    x->output_count = tsr_op_operand_count(end);
    x->outputs = TSR_NEW(&x->arena, MlirValue, x->output_count + 1);
    x->output_names = TSR_NEW(&x->arena, const char *, x->output_count + 1);
    TSR_NEED(x->outputs && x->output_names ? x : NULL);
    for (size_t i = 0; i < x->output_count; i++) {
        MlirValue value = tsr_op_operand(end, i);
        MlirOperation owner = tsr_value_owner(value);
        bool is_made = !mlirOperationIsNull(owner) && !tsr_op_is(owner, TSR_GRAPH_PARAM) &&
                       !tsr_op_is(owner, TSR_GRAPH_CONSTANT);
        for (size_t k = 0; k < i; k++)
            is_made = is_made && !(x->outputs[k].ptr && mlirValueEqual(x->outputs[k], value));
        x->output_names[i] = port_name(func, "res_attrs", i);
        if (!x->output_names[i]) return tsr_export_refuse(x, "result %zu has no tessera.name", i);
        if (!take_name(x, "an output", x->output_names[i])) return false;
        if (is_made) x->outputs[i] = value;
    }
    return true;
}

static bool read_params(tsr_exporter *x, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        const char *name = tsr_op_is(op, TSR_GRAPH_PARAM) ? tsr_op_string(op, "name") : NULL;
        bool found = !name;
        for (size_t i = 0; i < x->param_count && !found; i++)
            found = strcmp(x->params[i].name, name) == 0;
        x->op = op;
        if (found) continue;
        if (!take_name(x, "a parameter", name)) return false;
        if (x->param_count == x->param_capacity) {
            x->params = TSR_ARENA_GROW(&x->arena, x->params, &x->param_capacity, 16);
            TSR_NEED(x->params);
        }
        x->params[x->param_count++] =
            (tsr_exported_param){.name = name, .type = tsr_type_of(tsr_op_result(op, 0))};
    }
    return true;
}

/* Outputs whose value has another name are copies. */
static void copy_outputs(tsr_exporter *x, MlirOperation end) {
    for (size_t i = 0; i < x->output_count; i++)
        if (mlirValueIsNull(x->outputs[i]))
            tsr_export_copy(x, tsr_export_name(x, tsr_op_operand(end, i)), x->output_names[i]);
}

/* ---- the entry ------------------------------------------------------------------------------- */

static bool is_inference(MlirOperation func) {
    const char *kind = tsr_op_string(func, "tessera.entry");
    return kind && strcmp(kind, "infer") == 0;
}

/* The name of the entry, in the arena. */
static TSR_RESULT choose_entry(tsr_exporter *x, MlirModule module, const char **out) {
    tsr_buffer names = {0};
    const char *found = NULL;
    size_t count = 0;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        const char *name = tsr_op_symbol(op);
        if (!is_inference(op)) continue;
        if (!x->options->entry || strcmp(x->options->entry, name) == 0) {
            found = tsr_arena_strdup(&x->arena, name);
            count++;
        }
        tsr_buffer_printf(&names, "%s%s", names.size_bytes ? ", " : "", name);
    }
    const char *list = names.bytes ? tsr_arena_strdup(&x->arena, names.bytes) : "none";
    tsr_buffer_finish(&names);
    TSR_NEED(list);
    if (count == 1) {
        *out = found;
        return TSR_SUCCESS;
    }
    if (x->options->entry)
        FAIL(x->ctx, TSR_USAGE, "--entry '%s' is not an entry of kind \"infer\"; known are: %s",
             x->options->entry, list);
    FAIL(x->ctx, TSR_USAGE, "the bundle has %zu entries of kind \"infer\" (%s); %s", count, list,
         count ? "choose one with --entry" : "a model needs one");
}

static TSR_RESULT export_entry(tsr_exporter *x, tsr_diag_list *list, MlirModule module) {
    const char *name = NULL;
    TRY(x->ctx, choose_entry(x, module, &name));
    TRY(x->ctx, tsr_mlir_run_pass(x->ctx, module, list, PIPELINE));
    MlirOperation func = tsr_module_find(module, name);
    TSR_ASSERT(!mlirOperationIsNull(func));
    MlirBlock block = tsr_op_body(func);
    bool done = lower_all(x, block);
    MlirOperation end = mlirBlockGetTerminator(block);
    done = done && read_ports(x, func, end) && read_params(x, block) && write_ops(x, block);
    if (!done) return tsr_diag_fail(x->ctx, list, "export");
    copy_outputs(x, end);
    return tsr_export_write(x, func);
}

tsr_result tsr_onnx_export(tsr_ctx *ctx, tsr_diag_list *list, MlirModule module,
                           const tsr_onnx_export_options *options) {
    tsr_exporter x = {.ctx = ctx, .options = options};
    tsr_result result = export_entry(&x, list, module);
    tsr_buffer_finish(&x.nodes);
    tsr_buffer_finish(&x.constants);
    tsr_names_finish(&x.taken);
    tsr_arena_finish(&x.arena);
    return result;
}
