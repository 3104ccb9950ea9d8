/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: functions of linked programs are moved into the module. Then each linked model is
 * imported once for each declaration that names it, with the sizes of the declared types for its
 * open dims. All models store their parameters in one file.
 */
#include "compiler/frontend/onnx/link/link.h"

#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/link/custom.h"
#include "compiler/frontend/onnx/train/train.h"
#include "compiler/ir/attributes.h"
#include "compiler/process/guard.h"
#include "manifests/config.h"
#include "runtime/base/io/io.h"
#include "runtime/base/suggest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PROGRAM_BYTES_MAX = 1 << 28 };

/* ---- programs -------------------------------------------------------------------------------- */

static bool is_declaration(MlirOperation function) {
    return tsr_op_is(function, TSR_FUNC_FUNC) && !tsr_op_has_body(function);
}

/* Moves a function into the module, where it replaces a declaration of the same type. */
static bool move_function(MlirOperation function, MlirModule module, const char *file) {
    MlirOperation other = tsr_module_find(module, tsr_op_symbol(function));
    MlirLocation location = mlirOperationGetLocation(function);
    if (!tsr_op_is(function, TSR_FUNC_FUNC) || tsr_op_has(function, "tessera.entry")) {
        tsr_diag_error(location, TSR_DIAG_ONNX_LINK,
                       "'%s' is linked, so it must have only functions that are not entries", file);
        return false;
    }
    if (!mlirOperationIsNull(other)) {
        bool fits =
            is_declaration(other) && mlirAttributeEqual(tsr_op_attr(other, "function_type"),
                                                        tsr_op_attr(function, "function_type"));
        if (!fits) {
            tsr_diag_error_note(location, TSR_DIAG_ONNX_LINK,
                                is_declaration(other)
                                    ? "the function has another type than its declaration"
                                    : "another function of the program has this name",
                                mlirOperationGetLocation(other), "it is here");
            return false;
        }
        mlirOperationDestroy(other);
    }
    mlirOperationRemoveFromParent(function);
    mlirBlockAppendOwnedOperation(mlirModuleGetBody(module), function);
    tsr_op_set(function, "sym_visibility",
               tsr_attr_make_string(mlirModuleGetContext(module), "private"));
    return true;
}

static TSR_RESULT link_program(tsr_ctx *ctx, tsr_diag_list *list, const tsr_link *link,
                               MlirModule module) {
    const char *slash = strrchr(link->path, '/'), *name = slash ? slash + 1 : link->path;
    MlirModule linked = {NULL};
    void *text = NULL;
    size_t size_bytes = 0;
    bool done = true;
    TRY(ctx,
        tsr_io_read_file(ctx, link->path, PROGRAM_BYTES_MAX, &list->arena, &text, &size_bytes));
    TRY(ctx,
        tsr_mlir_parse(ctx, mlirModuleGetContext(module), list, text, size_bytes, name, &linked));
    if (tsr_op_has(mlirModuleGetOperation(linked), TSR_WEIGHTS_NAME)) {
        mlirModuleDestroy(linked);
        FAIL(ctx, TSR_USAGE,
             "--link %s=%s: the program names a file of parameters; only the program that is built "
             "can have one",
             link->name, link->path);
    }
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(linked)) {
        done = done && move_function(op, module, name);
    }
    mlirModuleDestroy(linked);
    return done ? TSR_SUCCESS : tsr_diag_fail(ctx, list, "linking");
}

tsr_result tsr_link_programs(tsr_ctx *ctx, tsr_diag_list *list, const tsr_links *links,
                             MlirModule module) {
    for (size_t i = 0; i < links->link_count; i++) {
        const tsr_link *link = &links->links[i];
        if (tsr_onnx_is_model(link->path))
            FAIL(ctx, TSR_USAGE,
                 "--link %s=%s: a model is linked to a program that calls it; the source is a "
                 "model, "
                 "too",
                 link->name, link->path);
        TRY(ctx, link_program(ctx, list, link, module));
    }
    return TSR_SUCCESS;
}

/* ---- declarations ---------------------------------------------------------------------------- */

/* A model, which several declarations can name. */
typedef struct linked {
    tsr_onnx_importer importer;
    tsr_onnx_options options;
    tsr_dim_binding *bindings;
    size_t binding_capacity;
} linked;

static MlirType type_of_function(MlirOperation function) {
    return mlirTypeAttrGetValue(tsr_op_attr(function, "function_type"));
}

static bool fail(MlirOperation declaration, const char *text) {
    tsr_diag_error(mlirOperationGetLocation(declaration), TSR_DIAG_ONNX_LINK, "'@%s': %s",
                   tsr_op_symbol(declaration), text);
    return false;
}

/* Gives an open dim of the model the size that is declared; false if it has another one. */
static bool bind_dim(linked *l, const char *name, uint64_t size, uint64_t *out_other) {
    tsr_onnx_options *options = &l->options;
    for (size_t i = 0; i < options->binding_count; i++) {
        *out_other = l->bindings[i].size;
        if (strcmp(l->bindings[i].symbol, name) == 0) return l->bindings[i].size == size;
    }
    tsr_arena *arena = &l->importer.arena;
    tsr_onnx_grow(arena, (void **)&l->bindings, options->binding_count, &l->binding_capacity,
                  sizeof *l->bindings);
    const char *symbol = tsr_arena_strdup(arena, name);
    TSR_NEED(symbol);
    l->bindings[options->binding_count++] =
        (tsr_dim_binding){.symbol = symbol, .size = size, .size_count = 1};
    options->bindings = l->bindings;
    return true;
}

static bool bind_input(linked *l, MlirOperation declaration, const tsr_onnx_value_info *info,
                       const tsr_type *declared) {
    const tsr_onnx_tensor_type *type = info->type ? info->type->tensor : NULL;
    char text[TSR_NAME_MAX + 256];
    if (!type || !type->shape || type->shape->dims.count != declared->shape.rank) return true;
    for (uint32_t i = 0; i < declared->shape.rank; i++) {
        const tsr_onnx_dim *dim = TSR_ONNX_ITEM(type->shape->dims, tsr_onnx_dim, i);
        char name[TSR_NAME_MAX + 32];
        uint64_t other = 0;
        if (!tsr_onnx_dim_is_open(dim)) continue;
        tsr_onnx_name_dim(info, dim, i, name, sizeof name);
        if (bind_dim(l, name, declared->shape.dims[i], &other)) continue;
        snprintf(text, sizeof text,
                 "dim '%s' of the model is declared as %" PRIu64 " and, in input '%s', as %" PRIu64,
                 name, other, info->name, declared->shape.dims[i]);
        return fail(declaration, text);
    }
    return true;
}

/* The declared types of the inputs must be those of the model. */
static bool bind_inputs(linked *l, MlirOperation declaration) {
    const tsr_onnx_graph *graph = l->importer.model->graph;
    MlirType function = type_of_function(declaration);
    size_t count = (size_t)mlirFunctionTypeGetNumInputs(function), at = 0;
    char text[2 * TSR_TYPE_TEXT_MAX + TSR_NAME_MAX + 96], a[TSR_TYPE_TEXT_MAX],
        b[TSR_TYPE_TEXT_MAX];
    l->options.binding_count = 0;
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const tsr_onnx_value_info *info = TSR_ONNX_ITEM(graph->inputs, tsr_onnx_value_info, i);
        tsr_type declared, type;
        if (tsr_onnx_is_initialized(graph, info->name)) continue;
        if (at++ >= count) continue;
        if (!tsr_type_read(mlirFunctionTypeGetInput(function, (intptr_t)at - 1), &declared) ||
            !tsr_type_is_static(&declared))
            return fail(declaration, "an argument is not a tensor with the size of every dim");
        if (!bind_input(l, declaration, info, &declared) ||
            !tsr_onnx_input_type(&l->importer, info, &type))
            return false;
        if (type.dtype == declared.dtype && tsr_shape_equal(&type.shape, &declared.shape)) continue;
        snprintf(text, sizeof text, "argument %zu is declared as %s; input '%s' of the model is %s",
                 at - 1, tsr_type_text(&declared, a), info->name, tsr_type_text(&type, b));
        return fail(declaration, text);
    }
    snprintf(text, sizeof text, "it is declared with %zu arguments; the model has %zu inputs",
             count, at);
    return at == count || fail(declaration, text);
}

/* The results of the function that was made must be the declared ones. */
static bool check_results(MlirOperation declaration, MlirOperation made) {
    MlirType declared = type_of_function(declaration), type = type_of_function(made);
    intptr_t count = mlirFunctionTypeGetNumResults(declared);
    char text[2 * TSR_TYPE_TEXT_MAX + 96], a[TSR_TYPE_TEXT_MAX], b[TSR_TYPE_TEXT_MAX];
    snprintf(text, sizeof text, "it is declared with %zd results; the model has %zd outputs",
             (ptrdiff_t)count, (ptrdiff_t)mlirFunctionTypeGetNumResults(type));
    if (mlirFunctionTypeGetNumResults(type) != count) return fail(declaration, text);
    for (intptr_t i = 0; i < count; i++) {
        MlirType one = mlirFunctionTypeGetResult(declared, i),
                 other = mlirFunctionTypeGetResult(type, i);
        tsr_type is, must;
        if (mlirTypeEqual(one, other)) continue;
        bool readable = tsr_type_read(one, &is) && tsr_type_read(other, &must);
        snprintf(text, sizeof text, "result %zd is declared as %s; the output of the model is %s",
                 (ptrdiff_t)i, readable ? tsr_type_text(&is, a) : "no tensor",
                 readable ? tsr_type_text(&must, b) : "another type");
        return fail(declaration, text);
    }
    return true;
}

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct linker {
    tsr_ctx *ctx;
    tsr_diag_list *list;
    const tsr_link_options *options;
    MlirModule module;
    tsr_arena arena;
    linked **models;
    tsr_onnx_importer **importers; /* those of the models */
    size_t count;
} linker;

static TSR_RESULT find_declaration(const linker *l, const tsr_link *link, MlirOperation *out) {
    tsr_suggestion likely = {.wrong = link->name};
    char meant[TSR_SUGGESTION_TEXT_MAX];
    MlirOperation found = tsr_module_find(l->module, link->name);
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(l->module)) {
        if (is_declaration(op)) tsr_suggest(&likely, tsr_op_symbol(op));
    }
    if (mlirOperationIsNull(found) || !is_declaration(found))
        FAIL(l->ctx, TSR_USAGE,
             "--link %s=%s: the program %s; expected 'func.func private @%s(…) -> …' without a "
             "body%s",
             link->name, link->path,
             mlirOperationIsNull(found) ? "declares no such function" : "has such a function",
             link->name, tsr_suggestion_text(&likely, meant));
    *out = found;
    return TSR_SUCCESS;
}

static TSR_RESULT open_model(linker *l, const char *path, linked **out) {
    for (size_t i = 0; i < l->count; i++) {
        *out = l->models[i];
        if (strcmp(l->models[i]->options.path, path) == 0) return TSR_SUCCESS;
    }
    linked *model = TSR_NEW(&l->arena, linked, 1);
    TSR_NEED(model);
    model->options = (tsr_onnx_options){
        .path = path, .training = l->options->training, .links = l->options->links};
    model->importer = (tsr_onnx_importer){.ctx = l->ctx,
                                          .diags = l->list,
                                          .options = &model->options,
                                          .mlir = mlirModuleGetContext(l->module),
                                          .module = l->module};
    l->importers[l->count] = &model->importer;
    l->models[l->count++] = model;
    *out = model;
    return tsr_onnx_open(&model->importer);
}

static TSR_RESULT link_model(linker *l, const tsr_link *link) {
    MlirOperation declaration;
    linked *model = NULL;
    TRY(l->ctx, find_declaration(l, link, &declaration));
    TRY(l->ctx, open_model(l, link->path, &model));
    if (model->importer.body_count == TSR_ONNX_BODIES_MAX)
        FAIL(l->ctx, TSR_USAGE, "--link %s=%s: the model is linked more than %d times", link->name,
             link->path, TSR_ONNX_BODIES_MAX);
    const tsr_onnx_form form = {.symbol = link->name,
                                .trains = tsr_op_has(declaration, TSR_LINK_TRAINING_NAME)};
    bool done =
        bind_inputs(model, declaration) && tsr_onnx_import_function(&model->importer, &form);
    if (done) {
        MlirOperation made = mlirBlockGetParentOperation(model->importer.entry);
        done = check_results(declaration, made);
        mlirOperationDestroy(declaration);
    }
    return done ? TSR_SUCCESS : tsr_diag_fail(l->ctx, l->list, "linking");
}

/* Parameters of the program, and of models that were looked at. */
typedef struct owners {
    tsr_names names;
    linker *l;
    size_t model; /* that the walk looks at; SIZE_MAX: the program */
    const char *repeated;
} owners;

static MlirWalkResult add_param(MlirOperation op, void *user) {
    owners *o = user;
    if (!tsr_op_is(op, TSR_GRAPH_PARAM)) return MlirWalkResultAdvance;
    MlirOperation function = op;
    while (!mlirOperationIsNull(function) && !tsr_op_is(function, TSR_FUNC_FUNC))
        function = mlirOperationGetParentOperation(function);
    if (mlirOperationIsNull(function)) return MlirWalkResultAdvance; /* the verifier refuses it */
    for (size_t i = 0; i < o->l->count; i++)
        for (size_t k = 0; k < o->l->importers[i]->body_count; k++)
            if (mlirOperationEqual(function,
                                   mlirBlockGetParentOperation(o->l->importers[i]->bodies[k])))
                return MlirWalkResultAdvance;
    tsr_names_add(&o->names, tsr_op_string(op, "name"), 0);
    return MlirWalkResultAdvance;
}

/* Parameters of two models, or of a model and the program, must not have one name. */
static TSR_RESULT check_names(linker *l) {
    owners o = {.l = l};
    mlirOperationWalk(mlirModuleGetOperation(l->module), add_param, &o, MlirWalkPreOrder);
    tsr_result result = TSR_SUCCESS;
    for (size_t i = 0; i < l->count; i++)
        for (size_t k = 0; k < l->importers[i]->param_count; k++) {
            const tsr_onnx_param *param = &l->importers[i]->params[k];
            uint32_t owner =
                param->is_read ? tsr_names_find(&o.names, param->name) : TSR_NAME_ABSENT;
            if (owner != TSR_NAME_ABSENT && owner != i + 1)
                FAIL_GOTO(l->ctx, result, TSR_USAGE,
                          "parameter '%s' of '%s' is also one of %s; rename one of them",
                          param->name, l->importers[i]->file_name,
                          owner ? l->importers[owner - 1]->file_name : "the program");
            if (param->is_read) tsr_names_add(&o.names, param->name, (uint32_t)i + 1);
        }
done:
    tsr_names_finish(&o.names);
    return result;
}

static TSR_RESULT link_all(linker *l) {
    const tsr_links *links = &l->options->links;
    l->models = TSR_NEW(&l->arena, linked *, links->link_count + 1);
    l->importers = TSR_NEW(&l->arena, tsr_onnx_importer *, links->link_count + 1);
    TSR_NEED(l->models && l->importers ? l : NULL);
    for (size_t i = 0; i < links->link_count; i++)
        if (!tsr_onnx_is_model(links->links[i].path))
            TRY(l->ctx, link_program(l->ctx, l->list, &links->links[i], l->module));
    for (size_t i = 0; i < links->link_count; i++)
        if (tsr_onnx_is_model(links->links[i].path)) TRY(l->ctx, link_model(l, &links->links[i]));
    TRY(l->ctx, tsr_link_check_ops(l->ctx, links, l->importers, l->count));
    if (l->count && tsr_op_has(mlirModuleGetOperation(l->module), TSR_WEIGHTS_NAME))
        FAIL(l->ctx, TSR_USAGE,
             "the program names a file of parameters; expected none, because those of '%s' are "
             "stored",
             l->importers[0]->file_name);
    for (size_t i = 0; i < l->count; i++) tsr_onnx_finish_functions(l->importers[i]);
    TRY(l->ctx, check_names(l));
    TRY(l->ctx, tsr_onnx_freeze(l->options->training, l->importers, l->count));
    return tsr_onnx_write_params(l->importers, l->count, l->module, l->options->weights_path);
}

tsr_result tsr_link_all(tsr_ctx *ctx, tsr_diag_list *list, const tsr_link_options *options,
                        MlirModule module) {
    linker l = {.ctx = ctx, .list = list, .options = options, .module = module};
    tsr_result result = link_all(&l);
    for (size_t i = 0; i < l.count; i++) tsr_onnx_close(l.importers[i]);
    tsr_arena_finish(&l.arena);
    return result;
}
