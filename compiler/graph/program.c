/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the tensors and entries of a program.
 */
#include "compiler/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct found {
    tsr_graph_tensor tensor;
    size_t order; /* position in the text */
} found;

static int by_name(const void *a, const void *b) {
    const found *x = a, *y = b;
    int names = strcmp(x->tensor.name, y->tensor.name);
    return names ? names : (x->order > y->order) - (x->order < y->order);
}

typedef struct search {
    found *found; /* NULL: they are counted only */
    size_t count;
} search;

static MlirWalkResult find_tensor(MlirOperation op, void *user) {
    search *s = user;
    tsr_graph_tensor tensor;
    if (!tsr_graph_tensor_read(op, &tensor)) return MlirWalkResultAdvance;
    if (s->found) s->found[s->count] = (found){.tensor = tensor, .order = s->count};
    s->count++;
    return MlirWalkResultAdvance;
}

/* Includes tensors in regions. */
static size_t find_tensors(MlirModule module, found *out_found) {
    search s = {.found = out_found};
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (tsr_op_is(func, TSR_FUNC_FUNC) && tsr_op_has_body(func))
            mlirOperationWalk(func, find_tensor, &s, MlirWalkPreOrder);
    }
    return s.count;
}

tsr_result tsr_graph_tensors(tsr_ctx *ctx, MlirModule module, tsr_arena *arena,
                             tsr_graph_tensor **out_tensors, size_t *out_count) {
    size_t count = find_tensors(module, NULL), unique = 0;
    found *all = TSR_NEW(arena, found, count + 1);
    tsr_graph_tensor *tensors = TSR_NEW(arena, tsr_graph_tensor, count + 1);
    if (!all || !tensors) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", count);
    find_tensors(module, all);
    qsort(all, count, sizeof *all, by_name);
    for (size_t i = 0; i < count; i++)
        if (unique == 0 || strcmp(tensors[unique - 1].name, all[i].tensor.name) != 0)
            tensors[unique++] = all[i].tensor;
    *out_tensors = tensors;
    *out_count = unique;
    return TSR_SUCCESS;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* An attribute of argument or result `index`; null if it is missing. */
static MlirAttribute port_attr(MlirOperation func, const char *list, size_t index,
                               const char *name) {
    MlirAttribute all = tsr_op_attr(func, list);
    if (mlirAttributeIsNull(all) || !mlirAttributeIsAArray(all) ||
        (intptr_t)index >= mlirArrayAttrGetNumElements(all))
        return mlirAttributeGetNull();
    MlirAttribute one = mlirArrayAttrGetElement(all, (intptr_t)index);
    if (!mlirAttributeIsADictionary(one)) return mlirAttributeGetNull();
    return mlirDictionaryAttrGetElementByName(one, tsr_ref(name));
}

bool tsr_graph_input_read(MlirOperation func, size_t index, tsr_graph_port *out_port) {
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(func, "function_type"));
    const char *data = tsr_attr_string(port_attr(func, "arg_attrs", index, "tessera.data"));
    const char *name = tsr_attr_string(port_attr(func, "arg_attrs", index, "tessera.name"));
    tsr_graph_port port = {.name = data ? data : name,
                           .source = data ? TSR_PORT_DATA : TSR_PORT_ARGUMENT};
    if (!data == !name) return false;
    if (!tsr_type_read(mlirFunctionTypeGetInput(type, (intptr_t)index), &port.type)) return false;
    *out_port = port;
    return true;
}

bool tsr_graph_output_read(MlirOperation func, size_t index, tsr_graph_port *out_port) {
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(func, "function_type"));
    tsr_graph_port port = {
        .name = tsr_attr_string(port_attr(func, "res_attrs", index, "tessera.name")),
        .source = TSR_PORT_ARGUMENT,
        .watched = !mlirAttributeIsNull(port_attr(func, "res_attrs", index, TSR_WATCHED_NAME))};
    if (!port.name) return false;
    port.may_be_infinite =
        !mlirAttributeIsNull(port_attr(func, "res_attrs", index, TSR_INFINITE_NAME));
    if (!tsr_type_read(mlirFunctionTypeGetResult(type, (intptr_t)index), &port.type)) return false;
    *out_port = port;
    return true;
}

static bool has_result(MlirOperation func, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        tsr_graph_port port;
        if (tsr_graph_output_read(func, i, &port) && strcmp(port.name, name) == 0) return true;
    }
    return false;
}

/* The attributes of the results and of a watched one in addition. */
static MlirAttribute with_watched(MlirOperation func, size_t count, const char *name) {
    MlirContext context = mlirOperationGetContext(func);
    MlirAttribute all = tsr_op_attr(func, "res_attrs"), list[TSR_CONFIG_PORTS_MAX];
    MlirNamedAttribute named[] = {
        {mlirIdentifierGet(context, tsr_ref("tessera.name")), tsr_attr_make_string(context, name)},
        {mlirIdentifierGet(context, tsr_ref(TSR_WATCHED_NAME)), tsr_attr_make_unit(context)}};
    for (size_t i = 0; i < count; i++)
        list[i] = mlirAttributeIsNull(all) ? mlirDictionaryAttrGet(context, 0, NULL)
                                           : mlirArrayAttrGetElement(all, (intptr_t)i);
    list[count] = mlirDictionaryAttrGet(context, 2, named);
    return mlirArrayAttrGet(context, (intptr_t)count + 1, list);
}

void tsr_graph_watch(MlirOperation func, MlirValue value, const char *name) {
    MlirOperation end = mlirBlockGetTerminator(tsr_op_body(func));
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(func, "function_type"));
    MlirType inputs[TSR_CONFIG_PORTS_MAX], results[TSR_CONFIG_PORTS_MAX];
    MlirValue returned[TSR_CONFIG_PORTS_MAX];
    size_t count = tsr_op_operand_count(end);
    intptr_t input_count = mlirFunctionTypeGetNumInputs(type);
    char unique[TSR_NAME_MAX + 1];
    if (count >= TSR_CONFIG_PORTS_MAX || input_count > TSR_CONFIG_PORTS_MAX) return;
    for (size_t i = 0; i < count; i++) {
        returned[i] = tsr_op_operand(end, i);
        results[i] = mlirValueGetType(returned[i]);
        if (mlirValueEqual(returned[i], value)) return;
    }
    snprintf(unique, sizeof unique, "%s", name);
    for (unsigned n = 2; has_result(func, count, unique); n++)
        snprintf(unique, sizeof unique, "%s %u", name, n);
    for (intptr_t i = 0; i < input_count; i++) inputs[i] = mlirFunctionTypeGetInput(type, i);
    returned[count] = value;
    results[count] = mlirValueGetType(value);
    tsr_op_set(func, "res_attrs", with_watched(func, count, unique));
    tsr_op_set(func, "function_type",
               tsr_attr_make_type(mlirFunctionTypeGet(mlirOperationGetContext(func), input_count,
                                                      inputs, (intptr_t)count + 1, results)));
    mlirOperationSetOperands(end, (intptr_t)count + 1, returned);
}

bool tsr_graph_is_lowered_func(MlirOperation op) {
    return tsr_op_is(op, TSR_FUNC_FUNC) && tsr_op_has_body(op) &&
           (tsr_op_has(op, "tessera.entry") || tsr_op_has(op, TSR_BODY_NAME));
}

bool tsr_graph_entry_kind(MlirOperation func, tsr_entry_kind *out_kind) {
    const char *name = tsr_op_string(func, "tessera.entry");
    return name && tsr_entry_kind_parse(name, out_kind);
}

bool tsr_graph_entry_read(MlirOperation func, tsr_arena *arena, tsr_graph_entry *out_entry) {
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(func, "function_type"));
    tsr_graph_entry entry = {
        .name = tsr_op_symbol(func),
        .func = func,
        .rows_independent = tsr_op_has(func, "tessera.rows_independent"),
        .input_count = (size_t)mlirFunctionTypeGetNumInputs(type),
        .output_count = (size_t)mlirFunctionTypeGetNumResults(type),
    };
    entry.inputs = TSR_NEW(arena, tsr_graph_port, entry.input_count + 1);
    entry.outputs = TSR_NEW(arena, tsr_graph_port, entry.output_count + 1);
    if (!entry.inputs || !entry.outputs || !tsr_graph_entry_kind(func, &entry.kind)) return false;
    for (size_t i = 0; i < entry.input_count; i++)
        if (!tsr_graph_input_read(func, i, &entry.inputs[i])) return false;
    for (size_t i = 0; i < entry.output_count; i++)
        if (!tsr_graph_output_read(func, i, &entry.outputs[i])) return false;
    *out_entry = entry;
    return true;
}

tsr_result tsr_graph_entries(tsr_ctx *ctx, MlirModule module, tsr_arena *arena,
                             tsr_graph_entry **out_entries, size_t *out_count) {
    size_t count = 0, at = 0;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) { count += tsr_op_has(func, "tessera.entry"); }
    tsr_graph_entry *entries = TSR_NEW(arena, tsr_graph_entry, count + 1);
    if (!entries) FAIL(ctx, TSR_MEMORY, "no memory for %zu entries", count);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_has(func, "tessera.entry")) continue;
        if (!tsr_graph_entry_read(func, arena, &entries[at++]))
            FAIL(ctx, TSR_COMPILE, "entry '%s' is incomplete", tsr_op_symbol(func));
    }
    *out_entries = entries;
    *out_count = count;
    return TSR_SUCCESS;
}
