/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/onnx/train/train.h"

#include "compiler/frontend/onnx/train/compute.h"
#include "compiler/frontend/onnx/train/data_type.h"
#include "compiler/frontend/onnx/train/optimizer.h"
#include "compiler/graph/rule.h"
#include "compiler/process/guard.h"
#include "manifests/config.h"
#include "runtime/base/suggest.h"

#include <fnmatch.h>
#include <string.h>

/* Diagnostics show the text. */
static void show(tsr_onnx_importer *im, const tsr_expression_source *source) {
    bool added = tsr_diag_add_source(im->diags, source->flag, source->text, strlen(source->text));
    TSR_NEED(added ? im : NULL);
}

/* ---- what the expression can read ------------------------------------------------------------ */

MlirAttribute tsr_onnx_data_attrs(const tsr_onnx_importer *im, const char *name) {
    MlirNamedAttribute named = {mlirIdentifierGet(im->mlir, tsr_ref("tessera.data")),
                                tsr_attr_make_string(im->mlir, name)};
    return mlirDictionaryAttrGet(im->mlir, 1, &named);
}

/* Names of outputs, then of inputs. */
static bool add_ports(tsr_onnx_importer *im, tsr_onnx_scope *scope, tsr_compute *c) {
    const tsr_onnx_graph *graph = im->model->graph;
    const tsr_wire_list lists[] = {graph->outputs, graph->inputs};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k].count; i++) {
            const char *name = TSR_ONNX_ITEM(lists[k], tsr_onnx_value_info, i)->name;
            if (k == 1 && tsr_onnx_is_initialized(graph, name)) continue;
            if (tsr_compute_find(c, name)) continue;
            tsr_compute_name *added = tsr_compute_add(c, name, 0);
            if (!added) return false;
            added->is_new = false;
            if (!tsr_onnx_lookup(im, scope, name, tsr_onnx_location(im, NULL), &added->value))
                return false;
        }
    return true;
}

static bool add_data_types(tsr_onnx_importer *im, tsr_compute *c) {
    const tsr_onnx_training *training = im->options->training;
    for (size_t i = 0; i < training->data_type_count; i++) {
        const tsr_expression_source source = {im->mlir, "--data-type", training->data_types[i]};
        const char *name = NULL;
        tsr_type type;
        show(im, &source);
        if (!tsr_data_type_read(&source, im->options->bindings, im->options->binding_count,
                                &im->arena, &name, &type))
            return false;
        tsr_compute_name *found = tsr_compute_find(c, name);
        if (found)
            return tsr_expression_fail(&source, 0,
                                       found->is_new ? "'%s' has two types"
                                                     : "'%s' is in the model, which says its type",
                                       name);
        tsr_compute_name *added = tsr_compute_add(c, name, 0);
        if (!added) return false;
        added->type = type;
        added->has_type = true;
    }
    return true;
}

/* A type of an input that the expression does not read. */
static bool check_read(tsr_onnx_importer *im, const tsr_compute *c) {
    for (size_t i = 0; i < c->count; i++) {
        const tsr_compute_name *n = &c->names[i];
        tsr_suggestion likely = {.wrong = n->name};
        char meant[TSR_SUGGESTION_TEXT_MAX];
        if (!n->has_type || !mlirValueIsNull(n->value)) continue;
        for (size_t k = 0; k < c->count; k++)
            if (c->names[k].is_new && !mlirValueIsNull(c->names[k].value))
                tsr_suggest(&likely, c->names[k].name);
        const tsr_expression_source source = {im->mlir, "--data-type", n->name};
        show(im, &source);
        return tsr_expression_fail(&source, 0, "--train does not read '%s'%s", n->name,
                                   tsr_suggestion_text(&likely, meant));
    }
    return true;
}

/* ---- the loss -------------------------------------------------------------------------------- */

/* A scalar of f32 or f64: the mean of a loss of more elements. */
static MlirValue average(tsr_compute *c, MlirValue loss) {
    int64_t axes[TSR_RANK_MAX];
    tsr_type type = tsr_type_of(loss);
    char text[TSR_TYPE_TEXT_MAX];
    if (!tsr_dtype_is_float(type.dtype)) {
        tsr_expression_fail(c->source, 0, "the loss is %s; expected floats",
                            tsr_type_text(&type, text));
        return (MlirValue){NULL};
    }
    loss = tsr_emit_wide(c->builder, loss);
    for (uint32_t i = 0; i < type.shape.rank; i++) axes[i] = i;
    return type.shape.rank
               ? tsr_emit_reduce(c->builder, TSR_GRAPH_NAME("mean"), loss, type.shape.rank, axes)
               : loss;
}

void tsr_onnx_assign_statistics(tsr_onnx_importer *im) {
    for (size_t i = 0; i < im->param_count; i++) {
        tsr_onnx_param *param = &im->params[i];
        const tsr_attr target = {"target", tsr_attr_make_string(im->mlir, param->name)};
        if (mlirValueIsNull(param->next)) continue;
        tsr_build(&im->builder, &(tsr_op_desc){.name = TSR_GRAPH_NAME("assign"),
                                               .operands = &param->next,
                                               .operand_count = 1,
                                               .attrs = &target,
                                               .attr_count = 1});
        param->next = (MlirValue){NULL};
    }
}

static bool minimize(tsr_onnx_importer *im, MlirValue loss) {
    const tsr_expression_source source = {im->mlir, "--optimizer",
                                          im->options->training->optimizer};
    tsr_attr attrs[TSR_OPTIMIZER_ATTRS_MAX];
    size_t count = 0;
    show(im, &source);
    if (!tsr_optimizer_read(&source, &im->arena, attrs, &count)) return false;
    im->builder.location = tsr_expression_location(&source, 0);
    MlirOperation op = tsr_build(&im->builder, &(tsr_op_desc){.name = TSR_GRAPH_NAME("minimize"),
                                                              .operands = &loss,
                                                              .operand_count = 1,
                                                              .attrs = attrs,
                                                              .attr_count = count});
    return mlirOperationVerify(op);
}

static bool compute_loss(tsr_onnx_importer *im, tsr_compute *c, MlirValue *out_loss) {
    show(im, c->source);
    const tsr_expression *tree = tsr_expression_parse(c->source, &im->arena);
    MlirValue loss = tree ? tsr_compute_value(c, tree) : (MlirValue){NULL};
    if (mlirValueIsNull(loss) || !check_read(im, c)) return false;
    *out_loss = average(c, loss);
    return !mlirValueIsNull(*out_loss);
}

bool tsr_onnx_close_training(tsr_onnx_importer *im, tsr_onnx_scope *scope, size_t *io_count,
                             MlirAttribute *arg_attrs, MlirValue *out_loss) {
    const tsr_expression_source source = {im->mlir, "--train", im->options->training->loss};
    tsr_compute c = {.source = &source,
                     .builder = &im->builder,
                     .arena = &im->arena,
                     .block = im->entry,
                     .names = TSR_NEW(&im->arena, tsr_compute_name, TSR_COMPUTE_NAMES_MAX)};
    TSR_NEED(c.names);
    if (!add_ports(im, scope, &c) || !add_data_types(im, &c) || !compute_loss(im, &c, out_loss))
        return false;
    size_t count = (size_t)mlirBlockGetNumArguments(im->entry);
    if (count > TSR_CONFIG_PORTS_MAX) return tsr_onnx_refuse_count(im, count);
    for (size_t i = 0; i < c.count; i++) {
        if (!c.names[i].is_new || mlirValueIsNull(c.names[i].value)) continue;
        intptr_t at = mlirBlockArgumentGetArgNumber(c.names[i].value);
        arg_attrs[at] = tsr_onnx_data_attrs(im, c.names[i].name);
    }
    *io_count = count;
    tsr_onnx_assign_statistics(im);
    return minimize(im, *out_loss);
}

/* ---- which parameters are trained ------------------------------------------------------------ */

/* True if the program reads it as floats that an optimizer could change. */
static bool could_train(const tsr_onnx_param *param) {
    return param->is_read && !param->is_constant &&
           tsr_dtype_is_float(tsr_onnx_type_of(tsr_onnx_param_value(param)).dtype);
}

static TSR_RESULT freeze_pattern(const char *pattern, tsr_onnx_importer *const *importers,
                                 size_t count) {
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = pattern};
    bool found = false;
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < importers[k]->param_count; i++) {
            tsr_onnx_param *param = &importers[k]->params[i];
            if (!could_train(param)) continue;
            tsr_suggest(&likely, param->name);
            if (fnmatch(pattern, param->name, 0) != 0) continue;
            param->is_fixed = true;
            found = true;
        }
    if (!found)
        FAIL(importers[0]->ctx, TSR_USAGE,
             "--freeze '%s': no trained parameter of '%s'%s has such a name%s", pattern,
             importers[0]->file_name, count > 1 ? ", …" : "", tsr_suggestion_text(&likely, meant));
    return TSR_SUCCESS;
}

static void mark_frozen(tsr_onnx_importer *im) {
    for (size_t i = 0; i < im->param_count; i++) {
        const tsr_onnx_param *param = &im->params[i];
        if (!param->is_read || (could_train(param) && !param->is_fixed)) continue;
        for (size_t k = 0; k < im->body_count; k++)
            if (!mlirValueIsNull(param->values[k]))
                tsr_op_set(mlirOpResultGetOwner(param->values[k]), "frozen",
                           tsr_attr_make_unit(im->mlir));
    }
}

tsr_result tsr_onnx_freeze(const tsr_onnx_training *training, tsr_onnx_importer *const *importers,
                           size_t count) {
    if (count == 0) return TSR_SUCCESS;
    for (size_t i = 0; i < training->freeze_count; i++)
        TRY(importers[0]->ctx, freeze_pattern(training->freeze[i], importers, count));
    for (size_t i = 0; i < count; i++) mark_frozen(importers[i]);
    return TSR_SUCCESS;
}

/* ---- for rules ------------------------------------------------------------------------------- */

bool tsr_onnx_trains(const tsr_onnx_call *c) { return c->importer->trains; }

bool tsr_onnx_is_trained(const tsr_onnx_call *c) { return c->importer->options->training != NULL; }

static tsr_onnx_param *find_statistic(const tsr_onnx_call *c, size_t input) {
    MlirOperation owner = tsr_value_owner(c->inputs[input]);
    return owner.ptr && tsr_op_is(owner, TSR_GRAPH_PARAM)
               ? (tsr_onnx_param *)(uintptr_t)tsr_onnx_find_param(c->importer, owner)
               : NULL;
}

MlirValue tsr_onnx_statistic(tsr_onnx_call *c, size_t input) {
    MlirValue value = tsr_onnx_in(c, input);
    const tsr_onnx_param *param = c->failed ? NULL : find_statistic(c, input);
    if (!param)
        return tsr_onnx_fail_value(
            c, TSR_DIAG_ONNX_INPUT,
            "input %zu is not an initializer; training needs one that holds the "
            "running statistic",
            input);
    return mlirValueIsNull(param->next) ? value : param->next;
}

void tsr_onnx_set_statistic(tsr_onnx_call *c, size_t input, MlirValue next) {
    tsr_onnx_param *param = c->failed ? NULL : find_statistic(c, input);
    if (!param) return;
    if (!mlirBlockEqual(c->importer->builder.block, c->importer->entry)) {
        tsr_onnx_fail(c, TSR_DIAG_ONNX_OP,
                      "a BatchNormalization in a loop or a branch cannot update its running "
                      "statistics");
        return;
    }
    param->next = next;
    param->is_fixed = true;
}
