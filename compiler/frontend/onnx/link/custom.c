/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/onnx/link/custom.h"

#include "compiler/graph/rule.h"
#include "compiler/process/guard.h"

#include <string.h>

const tsr_custom_op *tsr_onnx_find_custom(const tsr_onnx_call *c) {
    const tsr_links *links = &c->importer->options->links;
    const char *domain = c->node->domain;
    bool is_default = tsr_onnx_is_default_domain(domain);
    for (size_t i = 0; i < links->op_count; i++) {
        const tsr_custom_op *op = &links->ops[i];
        bool same =
            is_default ? tsr_onnx_is_default_domain(op->domain) : strcmp(op->domain, domain) == 0;
        if (!same || strcmp(op->op, c->node->op_type) != 0) continue;
        c->importer->op_used[i] = true;
        return op;
    }
    return NULL;
}

/* Inputs that are left out cannot be passed. */
static bool check_arguments(tsr_onnx_call *c, const char *function, MlirType type) {
    size_t count = (size_t)mlirFunctionTypeGetNumInputs(type);
    char is[TSR_TYPE_TEXT_MAX], must[TSR_TYPE_TEXT_MAX];
    if (count != c->input_count)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_CUSTOM, "%zu inputs; '@%s' has %zu arguments",
                             c->input_count, function, count);
    for (size_t i = 0; i < count; i++) {
        MlirValue value = tsr_onnx_in(c, i);
        MlirType argument = mlirFunctionTypeGetInput(type, (intptr_t)i);
        tsr_type wanted = {0};
        if (mlirValueIsNull(value)) return false;
        if (mlirTypeEqual(mlirValueGetType(value), argument)) continue;
        tsr_type found = tsr_onnx_type_of(value);
        bool readable = tsr_type_read(argument, &wanted);
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_CUSTOM,
                             "input %zu is %s; argument %zu of '@%s' is %s", i,
                             tsr_type_text(&found, is), i, function,
                             readable ? tsr_type_text(&wanted, must) : "no tensor");
    }
    return true;
}

bool tsr_onnx_call_custom(tsr_onnx_call *c, const tsr_custom_op *custom) {
    MlirOperation function = tsr_module_find(c->importer->module, custom->function);
    MlirAttribute attr = mlirOperationIsNull(function) ? (MlirAttribute){NULL}
                                                       : tsr_op_attr(function, "function_type");
    if (mlirAttributeIsNull(attr))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_CUSTOM,
                             "--op binds it to '@%s', which is not a function of the program",
                             custom->function);
    if (c->node->attributes.count)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_CUSTOM,
                             "attribute '%s' cannot be passed to '@%s'; write a function "
                             "for its value, and export the node without it",
                             TSR_ONNX_ITEM(c->node->attributes, tsr_onnx_attribute, 0)->name,
                             custom->function);
    MlirType type = mlirTypeAttrGetValue(attr), results[TSR_RULE_RESULTS_MAX];
    size_t count = (size_t)mlirFunctionTypeGetNumResults(type);
    if (!check_arguments(c, custom->function, type)) return false;
    if (count < c->output_count || count > TSR_RULE_RESULTS_MAX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_CUSTOM, "%zu outputs; '@%s' has %zu results",
                             c->output_count, custom->function, count);
    for (size_t i = 0; i < count; i++) results[i] = mlirFunctionTypeGetResult(type, (intptr_t)i);
    const tsr_attr callee = {"callee", tsr_attr_make_symbol(c->builder->context, custom->function)};
    MlirOperation call = tsr_build(c->builder, &(tsr_op_desc){.name = "func.call",
                                                              .operands = c->inputs,
                                                              .operand_count = c->input_count,
                                                              .results = results,
                                                              .result_count = count,
                                                              .attrs = &callee,
                                                              .attr_count = 1});
    for (size_t i = 0; i < c->output_count; i++) c->outputs[i] = tsr_op_result(call, i);
    return true;
}

tsr_result tsr_link_check_ops(tsr_ctx *ctx, const tsr_links *links,
                              tsr_onnx_importer *const *importers, size_t count) {
    for (size_t i = 0; i < links->op_count; i++) {
        bool used = false;
        for (size_t k = 0; k < count; k++) used = used || importers[k]->op_used[i];
        if (!used)
            FAIL(ctx, TSR_USAGE, "--op %s:%s=@%s: no node of %s has this op", links->ops[i].domain,
                 links->ops[i].op, links->ops[i].function,
                 count == 1 ? importers[0]->file_name : "the linked models");
    }
    return TSR_SUCCESS;
}
