/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver: reads the file, binds inputs and initializers, imports node after node, closes the
 * entry, moves transposes, writes the parameters.
 */
#include "compiler/frontend/onnx/import.h"

#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/layout.h"
#include "compiler/frontend/onnx/link/custom.h"
#include "compiler/frontend/onnx/link/link.h"
#include "compiler/frontend/onnx/train/train.h"
#include "compiler/ir/attributes.h"
#include "compiler/process/guard.h"
#include "manifests/config.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

void tsr_onnx_grow(tsr_arena *arena, void **items, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity) return;
    void *grown = tsr_arena_grow(arena, *items, capacity, 16, size, _Alignof(max_align_t));
    TSR_NEED(grown);
    *items = grown;
}

void tsr_onnx_bind(tsr_onnx_importer *im, tsr_onnx_scope *scope, const char *name, MlirValue value,
                   const tsr_onnx_tensor *tensor) {
    tsr_onnx_grow(&im->arena, (void **)&scope->bindings, scope->count, &scope->capacity,
                  sizeof *scope->bindings);
    uint32_t number = tsr_names_add(&scope->names, name, (uint32_t)scope->count);
    scope->bindings[number] = (tsr_onnx_binding_value){.value = value, .tensor = tensor};
    scope->count += number == scope->count;
}

bool tsr_onnx_is_bound(const tsr_onnx_scope *scope, const char *name) {
    return tsr_names_find(&scope->names, name) != TSR_NAME_ABSENT;
}

static tsr_onnx_binding_value *find_binding(tsr_onnx_scope *scope, const char *name) {
    for (; scope; scope = scope->parent) {
        uint32_t number = tsr_names_find(&scope->names, name);
        if (number != TSR_NAME_ABSENT) return &scope->bindings[number];
    }
    return NULL;
}

bool tsr_onnx_lookup(tsr_onnx_importer *im, tsr_onnx_scope *scope, const char *name,
                     MlirLocation location, MlirValue *out_value) {
    tsr_onnx_binding_value *found = find_binding(scope, name);
    if (!found) {
        tsr_diag_error(location, TSR_DIAG_ONNX_NAME,
                       "'%s' is read, but neither an input, an initializer nor an earlier node "
                       "makes it",
                       name);
        return false;
    }
    if (mlirValueIsNull(found->value) && found->tensor)
        found->value = tsr_onnx_emit_initializer(im, found->tensor, name, location);
    *out_value = found->value;
    return !mlirValueIsNull(found->value);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static const tsr_onnx_function *find_function(const tsr_onnx_importer *im,
                                              const tsr_onnx_node *node) {
    tsr_wire_list all = im->model->functions;
    for (size_t i = 0; i < all.count; i++) {
        const tsr_onnx_function *f = TSR_ONNX_ITEM(all, tsr_onnx_function, i);
        if (strcmp(f->name, node->op_type) == 0 && strcmp(f->domain, node->domain) == 0 &&
            strcmp(f->overload, node->overload) == 0)
            return f;
    }
    return NULL;
}

static bool import_nodes(tsr_onnx_importer *im, tsr_onnx_scope *scope, tsr_wire_list nodes);

static bool calls_itself(const tsr_onnx_scope *scope, const tsr_onnx_function *function) {
    while (scope) {
        if (scope->function == function) return true;
        scope = scope->caller ? scope->caller->scope : scope->parent;
    }
    return false;
}

static bool check_depth(tsr_onnx_call *c, size_t depth) {
    return depth < TSR_ONNX_CALLS_MAX ||
           tsr_onnx_fail(c, TSR_DIAG_ONNX_NAME, "functions and graphs are nested more than %d deep",
                         TSR_ONNX_CALLS_MAX);
}

static bool import_function(tsr_onnx_call *c, const tsr_onnx_function *f) {
    tsr_onnx_importer *im = c->importer;
    tsr_onnx_scope scope = {
        .caller = c, .function = f, .opsets = f->opsets, .depth = c->scope->depth + 1};
    if (calls_itself(c->scope, f))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_NAME, "function '%s' calls itself", f->name);
    if (!check_depth(c, scope.depth)) return false;
    if (c->input_count > f->inputs.count || c->output_count > f->outputs.count)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT,
                             "%zu inputs and %zu outputs; the function has %zu and %zu",
                             c->input_count, c->output_count, f->inputs.count, f->outputs.count);
    for (size_t i = 0; i < c->input_count; i++)
        if (tsr_onnx_has(c, i))
            tsr_onnx_bind(im, &scope, TSR_ONNX_TEXT(f->inputs, i), c->inputs[i], NULL);
    for (size_t i = 0; i < f->inputs.count; i++) /* absent ones */
        if (!tsr_onnx_is_bound(&scope, TSR_ONNX_TEXT(f->inputs, i)))
            tsr_onnx_bind(im, &scope, TSR_ONNX_TEXT(f->inputs, i), (MlirValue){NULL}, NULL);
    bool done = import_nodes(im, &scope, f->nodes);
    for (size_t i = 0; i < c->output_count && done; i++)
        if (tsr_onnx_wants(c, i))
            done = tsr_onnx_lookup(im, &scope, TSR_ONNX_TEXT(f->outputs, i), c->builder->location,
                                   &c->outputs[i]);
    tsr_names_finish(&scope.names);
    c->failed = c->failed || !done;
    return done;
}

bool tsr_onnx_import_body(tsr_onnx_call *c, const tsr_onnx_graph *graph, size_t count,
                          const MlirValue *values, MlirValue *out_outputs) {
    tsr_onnx_importer *im = c->importer;
    MlirLocation location = c->builder->location;
    tsr_onnx_scope scope = {.parent = (tsr_onnx_scope *)(uintptr_t)c->scope,
                            .opsets = c->scope->opsets,
                            .depth = c->scope->depth + 1};
    if (!check_depth(c, scope.depth)) return false;
    if (graph->inputs.count != count)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "its graph has %zu inputs; expected %zu",
                             graph->inputs.count, count);
    for (size_t i = 0; i < count; i++)
        tsr_onnx_bind(im, &scope, TSR_ONNX_ITEM(graph->inputs, tsr_onnx_value_info, i)->name,
                      values[i], NULL);
    bool done = tsr_onnx_import_graph(im, &scope, graph);
    for (size_t i = 0; i < graph->outputs.count && done; i++)
        done =
            tsr_onnx_lookup(im, &scope, TSR_ONNX_ITEM(graph->outputs, tsr_onnx_value_info, i)->name,
                            location, &out_outputs[i]);
    tsr_names_finish(&scope.names);
    c->builder->location = location;
    c->failed = c->failed || !done;
    return done;
}

static bool import_by_rule(tsr_onnx_call *c) {
    const tsr_onnx_node *n = c->node;
    char other[64];
    bool is_default = tsr_onnx_is_default_domain(n->domain);
    const tsr_custom_op *custom = tsr_onnx_find_custom(c);
    if (custom) return tsr_onnx_call_custom(c, custom);
    c->opset = tsr_onnx_opset_version(c->scope->opsets, n->domain);
    if (!c->opset && is_default)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_VERSION, "the model names no opset of this domain");
    if (!c->opset) c->opset = 1; /* ONNX Runtime's optimizer names none for its own domain */
    c->row = tsr_onnx_find_row(is_default ? "" : n->domain, n->op_type, c->opset, other);
    if (c->row)
        return (tsr_onnx_takes_open(c->row) || tsr_onnx_refuse_open_inputs(c)) && c->row->rule(c);
    if (other[0])
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_VERSION,
                             "version %" PRId64 " of this op cannot be imported; known are %s",
                             c->opset, other);
    return tsr_onnx_fail(c, TSR_DIAG_ONNX_OP, "%s%s%s",
                         is_default ? "no rule imports this op"
                                    : "neither a rule nor a function of the model is known for "
                                      "this op of domain '",
                         is_default ? "" : n->domain, is_default ? "" : "'");
}

/* A value whose integers depend on open dims becomes a list of these, reshaped; the value itself if
 * one has no text. */
static MlirValue fold_sizes(tsr_onnx_call *c, MlirValue value, const tsr_onnx_known *known) {
    tsr_dim_expression *sizes = TSR_NEW(c->arena, tsr_dim_expression, (size_t)known->count + 1);
    TSR_NEED(sizes);
    for (uint64_t i = 0; i < known->count; i++)
        sizes[i] = known->open[i] ? *known->open[i] : tsr_dim_expression_number(known->ints[i]);
    MlirValue list = tsr_onnx_size_list(c, known->count, sizes);
    if (mlirValueIsNull(list)) return value;
    return tsr_onnx_cast(c, tsr_onnx_reshape(c, list, &known->type.shape), known->type.dtype);
}

/* Integers that are known become constants, so that no shape arithmetic is left. */
static MlirValue fold(tsr_onnx_call *c, MlirValue value) {
    enum { FOLDED_MAX = 4096 };
    if (mlirValueIsNull(value) || tsr_onnx_is_float(value) || !mlirValueIsAOpResult(value))
        return value;
    tsr_op id = tsr_op_of(mlirOpResultGetOwner(value));
    if (id == TSR_GRAPH_CONSTANT || id == TSR_GRAPH_PARAM || id == TSR_GRAPH_SIZES) return value;
    const tsr_onnx_known *known = tsr_onnx_evaluate_open(c->importer, value);
    if (!known || known->count > FOLDED_MAX) return value;
    if (known->open) return fold_sizes(c, value, known);
    if (known->type.dtype == TSR_DTYPE_I64) return tsr_onnx_constant(c, &known->type, known->ints);
    double *values = TSR_NEW(c->arena, double, (size_t)known->count + 1);
    TSR_NEED(values);
    for (uint64_t i = 0; i < known->count; i++) values[i] = (double)known->ints[i];
    return tsr_onnx_numbers(c, known->type.dtype, &known->type.shape, values);
}

static bool bind_outputs(tsr_onnx_call *c, tsr_onnx_scope *scope) {
    for (size_t i = 0; i < c->output_count; i++) {
        const char *name = TSR_ONNX_TEXT(c->node->outputs, i);
        if (!name[0]) continue;
        if (tsr_onnx_is_bound(scope, name))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_NAME, "'%s' is made twice", name);
        if (mlirValueIsNull(c->outputs[i]))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_OUTPUT, "output %zu ('%s') cannot be imported", i,
                                 name);
        tsr_onnx_bind(c->importer, scope, name, fold(c, c->outputs[i]), NULL);
    }
    return !c->failed;
}

static bool read_inputs(tsr_onnx_call *c, tsr_onnx_scope *scope) {
    for (size_t i = 0; i < c->input_count; i++) {
        const char *name = TSR_ONNX_TEXT(c->node->inputs, i);
        if (!name[0]) continue;
        const tsr_onnx_binding_value *found = find_binding(scope, name);
        if (found && mlirValueIsNull(found->value) && !found->tensor) continue; /* absent */
        if (!tsr_onnx_lookup(c->importer, scope, name, c->builder->location, &c->inputs[i]))
            return false;
    }
    return true;
}

static bool import_node(tsr_onnx_importer *im, tsr_onnx_scope *scope, const tsr_onnx_node *node) {
    tsr_arena arena = {0};
    tsr_onnx_call c = {.importer = im,
                       .scope = scope,
                       .node = node,
                       .builder = &im->builder,
                       .arena = &arena,
                       .input_count = node->inputs.count,
                       .output_count = node->outputs.count};
    im->builder.location = tsr_onnx_location(im, node);
    c.inputs = TSR_NEW(&arena, MlirValue, c.input_count + 1);
    c.outputs = TSR_NEW(&arena, MlirValue, c.output_count + 1);
    TSR_NEED(c.inputs && c.outputs ? im : NULL);
    bool done = im->node_count++ < TSR_ONNX_NODES_MAX ||
                tsr_onnx_fail(&c, TSR_DIAG_ONNX_NAME, "the model has more than %d nodes",
                              TSR_ONNX_NODES_MAX);
    done = done && read_inputs(&c, scope);
    const tsr_onnx_function *function = find_function(im, node);
    if (done) done = function ? import_function(&c, function) : import_by_rule(&c);
    im->builder.location = tsr_onnx_location(im, node);
    done = done && !c.failed && bind_outputs(&c, scope);
    tsr_arena_finish(&arena);
    return done;
}

static bool import_nodes(tsr_onnx_importer *im, tsr_onnx_scope *scope, tsr_wire_list nodes) {
    for (size_t i = 0; i < nodes.count; i++)
        if (!import_node(im, scope, TSR_ONNX_ITEM(nodes, tsr_onnx_node, i))) return false;
    return true;
}

bool tsr_onnx_import_graph(tsr_onnx_importer *im, tsr_onnx_scope *scope,
                           const tsr_onnx_graph *graph) {
    MlirLocation location = im->builder.location;
    if (graph->sparse.count) {
        tsr_diag_error(location, TSR_DIAG_ONNX_FORM,
                       "graph '%s' has %zu sparse initializers; store them as dense ones",
                       graph->name, graph->sparse.count);
        return false;
    }
    for (size_t i = 0; i < graph->initializers.count; i++) {
        const tsr_onnx_tensor *t = TSR_ONNX_ITEM(graph->initializers, tsr_onnx_tensor, i);
        if (tsr_onnx_is_bound(scope, t->name)) {
            tsr_diag_error(location, TSR_DIAG_ONNX_NAME, "initializer '%s' is named twice",
                           t->name);
            return false;
        }
        tsr_onnx_bind(im, scope, t->name, (MlirValue){NULL}, t);
    }
    return import_nodes(im, scope, graph->nodes);
}

/* ---- the entry ------------------------------------------------------------------------------- */

static MlirAttribute port_attrs(const tsr_onnx_importer *im, const char *name, bool infinite) {
    MlirNamedAttribute named[] = {
        {mlirIdentifierGet(im->mlir, tsr_ref("tessera.name")),
         tsr_attr_make_string(im->mlir, name)},
        {mlirIdentifierGet(im->mlir, tsr_ref(TSR_INFINITE_NAME)), tsr_attr_make_unit(im->mlir)}};
    return mlirDictionaryAttrGet(im->mlir, infinite ? 2 : 1, named);
}

static bool check_port(const tsr_onnx_importer *im, const char *what, const char *name) {
    if (name[0] && tsr_text_valid(name, TSR_NAME_MAX)) return true;
    tsr_diag_error(tsr_onnx_location(im, NULL), TSR_DIAG_ONNX_NAME,
                   "an %s has the name '%s'; expected 1 to %d bytes of printable UTF-8", what, name,
                   TSR_NAME_MAX);
    return false;
}

/* The results of an entry. */
typedef struct results {
    size_t count;
    MlirValue values[TSR_CONFIG_PORTS_MAX];
    MlirAttribute attrs[TSR_CONFIG_PORTS_MAX];
} results;

static void close_entry(tsr_onnx_importer *im, size_t input_count, const MlirAttribute *arg_attrs,
                        const results *res) {
    MlirType inputs[TSR_CONFIG_PORTS_MAX], types[TSR_CONFIG_PORTS_MAX];
    for (size_t i = 0; i < input_count; i++)
        inputs[i] = mlirValueGetType(mlirBlockGetArgument(im->entry, (intptr_t)i));
    for (size_t i = 0; i < res->count; i++) types[i] = mlirValueGetType(res->values[i]);
    im->builder.location = tsr_onnx_location(im, NULL);
    tsr_build(&im->builder, &(tsr_op_desc){.name = "func.return",
                                           .operands = res->values,
                                           .operand_count = res->count});
    MlirType type =
        mlirFunctionTypeGet(im->mlir, (intptr_t)input_count, inputs, (intptr_t)res->count, types);
    MlirOperation func = mlirBlockGetParentOperation(im->entry);
    tsr_op_set(func, "function_type", tsr_attr_make_type(type));
    if (im->symbol_count) tsr_op_set(func, TSR_DIMS_NAME, tsr_onnx_symbol_list(im));
    tsr_op_set(func, "arg_attrs", mlirArrayAttrGet(im->mlir, (intptr_t)input_count, arg_attrs));
    tsr_op_set(func, "res_attrs", mlirArrayAttrGet(im->mlir, (intptr_t)res->count, res->attrs));
}

static bool find_outputs(tsr_onnx_importer *im, tsr_onnx_scope *scope, results *out) {
    tsr_wire_list outputs = im->model->graph->outputs;
    MlirLocation location = tsr_onnx_location(im, NULL);
    if (outputs.count > TSR_CONFIG_PORTS_MAX || outputs.count == 0) {
        tsr_diag_error(location, TSR_DIAG_ONNX_FORM, "the model has %zu outputs; expected 1 to %d",
                       outputs.count, TSR_CONFIG_PORTS_MAX);
        return false;
    }
    for (size_t i = 0; i < outputs.count; i++) {
        const char *name = TSR_ONNX_ITEM(outputs, tsr_onnx_value_info, i)->name;
        if (!check_port(im, "output", name) ||
            !tsr_onnx_lookup(im, scope, name, location, &out->values[i]))
            return false;
        out->attrs[i] = port_attrs(im, name, tsr_onnx_is_float(out->values[i]));
    }
    out->count = outputs.count;
    return true;
}

/* Opens the function, whose type is known when it is closed. Errors about dims of its ops look for
 * it. */
static void open_function(tsr_onnx_importer *im, const tsr_onnx_form *form) {
    MlirLocation location = tsr_onnx_location(im, NULL);
    const tsr_attr attrs[] = {
        {"sym_name", tsr_attr_make_string(im->mlir, form->symbol)},
        {"function_type", tsr_attr_make_type(mlirFunctionTypeGet(im->mlir, 0, NULL, 0, NULL))},
        form->entry ? (tsr_attr){"tessera.entry", tsr_attr_make_string(im->mlir, form->entry)}
                    : (tsr_attr){"sym_visibility", tsr_attr_make_string(im->mlir, "private")}};
    MlirRegion region = mlirRegionCreate();
    TSR_ASSERT(im->body_count < TSR_ONNX_BODIES_MAX);
    im->entry = mlirBlockCreate(0, NULL, NULL);
    im->bodies[im->body_count++] = im->entry;
    im->trains = form->trains;
    im->param_next = 0;
    mlirRegionAppendOwnedBlock(region, im->entry);
    tsr_builder top = tsr_builder_at_end(mlirModuleGetBody(im->module), location);
    tsr_build(&top, &(tsr_op_desc){.name = "func.func",
                                   .attr_count = TSR_COUNT(attrs),
                                   .attrs = attrs,
                                   .region_count = 1,
                                   .regions = &region});
    im->builder = tsr_builder_at_end(im->entry, location);
    const tsr_type truth = tsr_type_scalar(TSR_DTYPE_I1);
    const tsr_attr value[] = {{"value", tsr_attr_make_splat(im->mlir, &truth, 0)}, {0}};
    im->anchor = mlirOpResultGetOwner(tsr_build_value(
        &im->builder, TSR_GRAPH_NAME("constant"), NULL, 0, tsr_type_make(im->mlir, &truth), value));
}

static MlirAttribute input_attrs(const tsr_onnx_importer *im, const tsr_onnx_form *form,
                                 const char *name) {
    if (!form->entry) return mlirDictionaryAttrGet(im->mlir, 0, NULL);
    return form->trains ? tsr_onnx_data_attrs(im, name) : port_attrs(im, name, false);
}

static bool add_inputs(tsr_onnx_importer *im, const tsr_onnx_form *form, tsr_onnx_scope *scope,
                       MlirAttribute *arg_attrs, size_t *io_count) {
    const tsr_onnx_graph *graph = im->model->graph;
    MlirLocation location = tsr_onnx_location(im, NULL);
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const tsr_onnx_value_info *info = TSR_ONNX_ITEM(graph->inputs, tsr_onnx_value_info, i);
        tsr_type input;
        if (tsr_onnx_is_initialized(graph, info->name)) continue;
        if (*io_count == TSR_CONFIG_PORTS_MAX)
            return tsr_onnx_refuse_count(im, graph->inputs.count);
        if (!check_port(im, "input", info->name) || !tsr_onnx_input_type(im, info, &input))
            return false;
        MlirValue value =
            mlirBlockAddArgument(im->entry, tsr_type_make(im->mlir, &input), location);
        arg_attrs[(*io_count)++] = input_attrs(im, form, info->name);
        if (tsr_onnx_is_bound(scope, info->name)) {
            tsr_diag_error(location, TSR_DIAG_ONNX_NAME, "input '%s' is named twice", info->name);
            return false;
        }
        tsr_onnx_bind(im, scope, info->name, value, NULL);
    }
    return true;
}

/* The results: the loss of an entry that trains, else the outputs of the model. */
static bool add_results(tsr_onnx_importer *im, const tsr_onnx_form *form, tsr_onnx_scope *scope,
                        MlirAttribute *arg_attrs, size_t *io_count, results *out) {
    if (form->entry && form->trains) {
        out->attrs[out->count++] = port_attrs(im, "loss", false);
        return tsr_onnx_close_training(im, scope, io_count, arg_attrs, &out->values[0]);
    }
    if (!find_outputs(im, scope, out)) return false;
    if (form->trains) tsr_onnx_assign_statistics(im);
    for (size_t i = 0; i < out->count && !form->entry; i++)
        out->attrs[i] = mlirDictionaryAttrGet(im->mlir, 0, NULL);
    return true;
}

bool tsr_onnx_import_function(tsr_onnx_importer *im, const tsr_onnx_form *form) {
    tsr_onnx_scope scope = {.opsets = im->model->opsets};
    MlirAttribute arg_attrs[TSR_CONFIG_PORTS_MAX];
    results res = {0};
    size_t count = 0;
    open_function(im, form);
    bool done = add_inputs(im, form, &scope, arg_attrs, &count) &&
                tsr_onnx_import_graph(im, &scope, im->model->graph) &&
                add_results(im, form, &scope, arg_attrs, &count, &res);
    if (done) close_entry(im, count, arg_attrs, &res);
    tsr_names_finish(&scope.names);
    return done;
}

void tsr_onnx_finish_functions(tsr_onnx_importer *im) {
    tsr_onnx_relayout_params(im);
    for (size_t i = 0; i < im->body_count; i++) tsr_onnx_move_transposes(im->bodies[i]);
    tsr_onnx_relayout_params(im);
}

/* ---- the file -------------------------------------------------------------------------------- */

bool tsr_onnx_is_model(const char *path) {
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".onnx") == 0;
}

static bool check_versions(const tsr_onnx_importer *im) {
    MlirLocation location = tsr_onnx_location(im, NULL);
    int64_t version = tsr_onnx_opset_version(im->model->opsets, "");
    if (im->model->ir_version > TSR_ONNX_IR_MAX) {
        tsr_diag_error(location, TSR_DIAG_ONNX_VERSION,
                       "the file has IR version %" PRId64 "; at most %d can be read",
                       im->model->ir_version, TSR_ONNX_IR_MAX);
        return false;
    }
    if (version <= TSR_ONNX_OPSET_MAX) return true; /* older versions: by op */
    tsr_diag_error(location, TSR_DIAG_ONNX_VERSION,
                   "the model is of opset %" PRId64 "; at most %d can be imported", version,
                   TSR_ONNX_OPSET_MAX);
    return false;
}

/* Errors of the file become diagnostics at the file. */
static tsr_result refuse_file(tsr_onnx_importer *im, tsr_result result) {
    if (result.code != TSR_COMPILE) return result;
    tsr_diag_error(tsr_onnx_location(im, NULL), TSR_DIAG_ONNX_FILE, "this is no ONNX model: %s",
                   im->ctx->error.text);
    tsr_error_clear(im->ctx);
    return tsr_diag_fail(im->ctx, im->diags, "import");
}

static TSR_RESULT read_model(tsr_onnx_importer *im) {
    tsr_buffer listing = {0};
    tsr_result result =
        tsr_onnx_model_read(im->ctx, im->map.bytes, im->map.size_bytes, &im->arena, &im->content);
    if (result.code) return refuse_file(im, result);
    im->model = &im->content;
    tsr_onnx_list_nodes(&im->content, &listing);
    const char *text = listing.bytes && !listing.failed
                           ? tsr_arena_strndup(&im->diags->arena, listing.bytes, listing.size_bytes)
                           : "";
    bool added = text && tsr_diag_add_source(im->diags, im->file_name, text, strlen(text));
    tsr_buffer_finish(&listing);
    if (!added) FAIL(im->ctx, TSR_MEMORY, "no memory to import '%s'", im->options->path);
    return check_versions(im) ? TSR_SUCCESS : tsr_diag_fail(im->ctx, im->diags, "import");
}

tsr_result tsr_onnx_open(tsr_onnx_importer *im) {
    const char *path = im->options->path, *slash = strrchr(path, '/');
    im->file_name = slash ? slash + 1 : path;
    im->files.folder = !slash ? ""
                       : slash == path
                           ? "/"
                           : tsr_arena_strndup(&im->arena, path, (size_t)(slash - path));
    im->op_used = TSR_NEW(&im->arena, bool, im->options->links.op_count + 1);
    if (!im->files.folder || !im->op_used) FAIL(im->ctx, TSR_MEMORY, "no memory for a path");
    TRY(im->ctx, tsr_onnx_map_open(im->ctx, path, &im->map));
    return read_model(im);
}

void tsr_onnx_close(tsr_onnx_importer *im) {
    tsr_onnx_map_close(&im->map);
    tsr_onnx_files_finish(&im->files);
    tsr_names_finish(&im->param_names);
    tsr_arena_finish(&im->scratch);
    tsr_arena_finish(&im->arena);
}

/* A linked program can have a function of that name. */
static bool is_free(const tsr_onnx_importer *im, const char *symbol) {
    MlirOperation other = tsr_module_find(im->module, symbol);
    if (!mlirOperationIsNull(other))
        tsr_diag_error(mlirOperationGetLocation(other), TSR_DIAG_ONNX_LINK,
                       "the entry of the model is called '@%s', too", symbol);
    return mlirOperationIsNull(other);
}

static TSR_RESULT import_module(tsr_onnx_importer *im) {
    const tsr_onnx_training *training = im->options->training;
    const tsr_onnx_form infer = {.symbol = "main", .entry = "infer"};
    const tsr_onnx_form train = {.symbol = "train", .entry = "train", .trains = true};
    TRY(im->ctx, tsr_link_programs(im->ctx, im->diags, &im->options->links, im->module));
    if (!is_free(im, infer.symbol) || (training && !is_free(im, train.symbol)))
        return tsr_diag_fail(im->ctx, im->diags, "linking");
    if (!tsr_onnx_import_function(im, &infer) ||
        (training && !tsr_onnx_import_function(im, &train)))
        return tsr_diag_fail(im->ctx, im->diags, "import");
    TRY(im->ctx, tsr_onnx_check_bindings(im));
    TRY(im->ctx, tsr_link_check_ops(im->ctx, &im->options->links, &im, 1));
    tsr_onnx_finish_functions(im);
    tsr_onnx_note_bounds(im);
    if (training) TRY(im->ctx, tsr_onnx_freeze(training, &im, 1));
    return tsr_onnx_write_params(&im, 1, im->module, im->options->weights_path);
}

tsr_result tsr_onnx_import(tsr_ctx *ctx, MlirContext context, tsr_diag_list *list,
                           const tsr_onnx_options *options, MlirModule *out_module,
                           tsr_digest *out_digest) {
    tsr_onnx_importer im = {.ctx = ctx, .diags = list, .options = options, .mlir = context};
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, tsr_onnx_open(&im));
    im.module = mlirModuleCreateEmpty(tsr_onnx_location(&im, NULL));
    TRY_GOTO(ctx, result, import_module(&im));
    *out_module = im.module;
    im.module = (MlirModule){NULL};
    *out_digest = tsr_hash(im.map.bytes, im.map.size_bytes);
done:
    if (!mlirModuleIsNull(im.module)) mlirModuleDestroy(im.module);
    tsr_onnx_close(&im);
    return result;
}
