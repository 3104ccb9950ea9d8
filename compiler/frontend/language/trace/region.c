/* SPDX-License-Identifier: Apache-2.0
 *
 * Regions of ops: code of a function that runs for each step of a loop, in one of two branches, or
 * that is differentiated. Regions use values of the code around them directly.
 */
#include "compiler/frontend/language/trace/region.h"

#include "compiler/process/guard.h"

#include <string.h>

void tsr_region_open(tsr_tracer *t, tsr_region *region, size_t count, const MlirType *types,
                     tsr_span span) {
    MlirLocation location = tsr_trace_location(&t->e, span);
    *region = (tsr_region){.builder = t->builder, .outer = t->body, .region = mlirRegionCreate()};
    region->body = TSR_NEW(t->e.arena, tsr_body, 1); /* tensors refer to it, also later */
    TSR_NEED(region->body);
    *region->body = (tsr_body){.outer = t->body, .block = mlirBlockCreate(0, NULL, NULL)};
    for (size_t i = 0; i < count; i++)
        mlirBlockAddArgument(region->body->block, types[i], location);
    mlirRegionAppendOwnedBlock(region->region, region->body->block);
    t->builder = tsr_builder_at_end(region->body->block, location);
    t->body = region->body;
}

MlirValue tsr_region_argument(const tsr_region *region, size_t index) {
    return mlirBlockGetArgument(region->body->block, (intptr_t)index);
}

bool tsr_region_close(tsr_tracer *t, tsr_region *region, const tsr_tree *results) {
    if (results)
        tsr_build(&t->builder, &(tsr_op_desc){.name = TSR_GRAPH_NAME("yield"),
                                              .operands = results->values,
                                              .operand_count = results->leaves.count});
    else
        mlirRegionDestroy(region->region);
    t->builder = region->builder;
    t->body = region->outer;
    return results != NULL;
}

bool tsr_region_op(tsr_evaluator *e, const tsr_region_desc *desc, MlirValue *out_results) {
    tsr_tracer *t = tsr_tracer_of(e);
    tsr_op_desc op_desc = desc->op;
    t->builder.location = tsr_trace_location(e, desc->span);
    for (op_desc.attr_count = 0; op_desc.attrs && op_desc.attrs[op_desc.attr_count].name;)
        op_desc.attr_count++;
    MlirOperation op = tsr_build(&t->builder, &op_desc);
    bool ours = strncmp(op_desc.name, TSR_GRAPH_NAME(""), sizeof TSR_GRAPH_NAME("") - 1) == 0;
    if (ours && !tsr_graph_verify_op(op)) {
        mlirOperationDestroy(op); /* its rule has said why */
        return false;
    }
    for (size_t i = 0; i < op_desc.result_count; i++) out_results[i] = tsr_op_result(op, i);
    return true;
}

/* ---- trees ---- */

static bool has_only_tensors(tsr_value v) {
    if (v.kind == TSR_VALUE_NONE || tsr_value_is(v, &tsr_tensor_class)) return true;
    bool list = v.kind == TSR_VALUE_TUPLE || v.kind == TSR_VALUE_LIST;
    for (size_t i = 0; list && i < v.list->count; i++)
        if (!has_only_tensors(v.list->items[i])) return false;
    for (size_t i = 0; v.kind == TSR_VALUE_DICT && i < v.dict->live; i++)
        if (!has_only_tensors(tsr_dict_entry_at(v.dict, i)->value)) return false;
    return list || v.kind == TSR_VALUE_DICT;
}

bool tsr_tree_read(tsr_evaluator *e, tsr_value value, const char *what, tsr_span span,
                   tsr_tree *out) {
    *out = (tsr_tree){.value = value};
    if (!value.kind) return false;
    if (!has_only_tensors(value)) {
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE,
                          "%s consists of tensors, in tuples, lists and dicts; this is %s%s", what,
                          tsr_value_type_name(value),
                          value.kind >= TSR_VALUE_TUPLE && value.kind <= TSR_VALUE_DICT
                              ? " with another value"
                              : "");
        return false;
    }
    tsr_leaves_collect(e, value, &out->leaves);
    size_t count = out->leaves.count;
    out->values = TSR_NEW(e->arena, MlirValue, count + 1);
    out->types = TSR_NEW(e->arena, MlirType, count + 1);
    if (!out->values || !out->types) return tsr_evaluate_no_memory(e), false;
    for (size_t i = 0; i < count; i++) {
        out->values[i] = tsr_tensor_use(e, out->leaves.items[i], span);
        if (mlirValueIsNull(out->values[i])) return false;
        out->types[i] = mlirValueGetType(out->values[i]);
    }
    return true;
}

bool tsr_tree_floats(tsr_evaluator *e, const tsr_tree *tree, const char *what, tsr_span span) {
    for (size_t i = 0; i < tree->leaves.count; i++) {
        tsr_dtype dtype = tsr_tensor_get(tree->leaves.items[i])->type.dtype;
        if ((1 << dtype) & TSR_DTYPES_FLOAT) continue;
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE,
                          "%s has elements of %s, which have no derivative; floats have one", what,
                          tsr_dtype_name(dtype));
        return false;
    }
    return true;
}

bool tsr_tree_matches(tsr_evaluator *e, const tsr_tree *tree, const tsr_tree *like,
                      const char *what, const char *like_what, tsr_span span) {
    bool same = tree->leaves.count == like->leaves.count;
    if (!same)
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE, "%s has %zu tensors; %s has %zu", what,
                          tree->leaves.count, like_what, like->leaves.count);
    for (size_t i = 0; same && i < tree->leaves.count; i++) {
        char is[TSR_TYPE_TEXT_MAX], must[TSR_TYPE_TEXT_MAX];
        const tsr_traced *a = tsr_tensor_get(tree->leaves.items[i]),
                         *b = tsr_tensor_get(like->leaves.items[i]);
        same = mlirTypeEqual(a->ir, b->ir);
        if (!same)
            tsr_evaluate_fail(
                e, span, TSR_DIAG_EVALUATE_VALUE, "tensor %zu of %s is %s; that of %s is %s", i,
                what, tsr_type_text(&a->type, is), like_what, tsr_type_text(&b->type, must));
    }
    return same;
}

tsr_value tsr_region_call(tsr_evaluator *e, tsr_value function, const tsr_value *values,
                          size_t count, const tsr_call *call) {
    tsr_argument *args = TSR_NEW(e->arena, tsr_argument, count + 1);
    if (!args) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < count; i++)
        args[i] = (tsr_argument){.value = values[i], .span = call->span};
    tsr_call inner = {.args = args, .count = count, .span = call->span, .callee = "the function"};
    if (function.kind == TSR_VALUE_FUNCTION) inner.callee = function.function->name;
    if (function.kind == TSR_VALUE_BUILTIN) inner.callee = function.builtin->name;
    return tsr_evaluate_call(e, function, &inner);
}

bool tsr_argument_function(tsr_evaluator *e, const tsr_argument *a) {
    bool object = a->value.kind == TSR_VALUE_OBJECT && a->value.object->class->call;
    if (object || a->value.kind == TSR_VALUE_FUNCTION || a->value.kind == TSR_VALUE_BUILTIN)
        return true;
    return tsr_argument_refuse(e, a, "a function");
}
