/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-mark-infinite: marks the results of infer and eval entries whose value may be
 * intentionally infinite, because they depend on an infinite constant of the program (a mask of
 * -inf, padding with it). When the entry is called, such a result is checked only for NaN. An
 * infinity computed from finite values does not count: it is an overflow, or a logarithm of 0.
 *
 * A value carries an infinity if its type is a float and an operand carries one, unless the op is
 * bounded. An op with regions carries one if any op inside does. Runs after inlining, and before
 * ops are decomposed into others with infinite constants of their own.
 */
#include "compiler/graph/graph.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* A set of values: open addressing, at most half full. */
typedef struct values {
    const void **slots; /* owned */
    size_t capacity, count;
    bool failed; /* out of memory: then every value counts as a member */
} values;

static size_t find_slot(const values *set, const void *value) {
    size_t at = (size_t)((uintptr_t)value >> 3) * 0x9e3779b97f4a7c15u & (set->capacity - 1);
    while (set->slots[at] && set->slots[at] != value) at = (at + 1) & (set->capacity - 1);
    return at;
}

static bool has_value(const values *set, MlirValue value) {
    if (set->failed) return true;
    return set->count && set->slots[find_slot(set, value.ptr)] == value.ptr;
}

static void add_value(values *set, MlirValue value) {
    if (2 * (set->count + 1) > set->capacity) {
        values grown = {.capacity = set->capacity ? 2 * set->capacity : 64};
        grown.slots = calloc(grown.capacity, sizeof *grown.slots);
        set->failed = set->failed || !grown.slots;
        if (set->failed) return;
        for (size_t i = 0; i < set->capacity; i++)
            if (set->slots[i]) grown.slots[find_slot(&grown, set->slots[i])] = set->slots[i];
        grown.count = set->count;
        free(set->slots);
        *set = grown;
    }
    size_t at = find_slot(set, value.ptr);
    set->count += !set->slots[at];
    set->slots[at] = value.ptr;
}

/* ---- sources --------------------------------------------------------------------------------- */

static bool is_infinite_element(tsr_dtype dtype, const void *data, uint64_t count) {
    double value;
    for (uint64_t at = 0; at < count; at++) {
        const char *from = (const char *)data + at * tsr_dtype_size(dtype);
        uint64_t next = tsr_dtype_find_nonfinite(dtype, from, count - at, &value);
        if (next == UINT64_MAX) return false;
        if (isinf(value)) return true;
        at += next;
    }
    return false;
}

static bool holds_infinity(MlirAttribute attr) {
    double value = 0;
    tsr_arena arena = {0};
    tsr_type type;
    void *data = NULL;
    uint64_t count = 0;
    if (mlirAttributeIsAFloat(attr)) return isinf(mlirFloatAttrGetValueDouble(attr));
    if (!mlirAttributeIsADenseElements(attr)) return false;
    if (tsr_attr_splat(attr, &value)) return isinf(value);
    bool found = tsr_attr_elements(attr, &arena, &type, &data) && tsr_dtype_is_float(type.dtype) &&
                 tsr_shape_count(&type.shape, &count) &&
                 is_infinite_element(type.dtype, data, count);
    tsr_arena_finish(&arena);
    return found;
}

static bool is_source(MlirOperation op) {
    for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++)
        if (holds_infinity(mlirOperationGetAttribute(op, i).attribute)) return true;
    return false;
}

/* ---- flow ------------------------------------------------------------------------------------ */

/* Operands that can make a result infinite: all except bounded ones, and the mask of attention. */
static size_t count_passed(MlirOperation op) {
    enum { ATTENTION_VALUES = 3 };
    size_t count = tsr_op_operand_count(op);
    switch (tsr_op_of(op)) {
    case TSR_GRAPH_SOFTMAX_SAFE:
    case TSR_GRAPH_SIGMOID:
    case TSR_GRAPH_TANH:
    case TSR_GRAPH_ERF:
        return 0;
    case TSR_GRAPH_ATTENTION:
        return count < ATTENTION_VALUES ? count : ATTENTION_VALUES;
    default:
        return count;
    }
}

static bool carries(const values *set, MlirOperation op) {
    size_t count = count_passed(op);
    if (is_source(op)) return true;
    for (size_t i = 0; i < count; i++)
        if (has_value(set, tsr_op_operand(op, i))) return true;
    for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
        MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, i));
        for (; !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block)) {
            TSR_FOR_EACH_OP(inner, block) {
                if (carries(set, inner)) return true;
            }
        }
    }
    return false;
}

static bool is_float(MlirValue value) {
    tsr_type type;
    return tsr_type_read(mlirValueGetType(value), &type) && tsr_dtype_is_float(type.dtype);
}

/* ---- results --------------------------------------------------------------------------------- */

static void mark_result(MlirOperation func, intptr_t index) {
    MlirContext context = mlirOperationGetContext(func);
    MlirAttribute all = tsr_op_attr(func, "res_attrs");
    MlirAttribute list[TSR_CONFIG_PORTS_MAX];
    intptr_t count = mlirArrayAttrGetNumElements(all);
    for (intptr_t i = 0; i < count; i++) list[i] = mlirArrayAttrGetElement(all, i);
    intptr_t size = mlirDictionaryAttrGetNumElements(list[index]);
    MlirNamedAttribute *named = calloc((size_t)size + 1, sizeof *named);
    if (!named) return; /* unmarked: an infinity is reported */
    for (intptr_t i = 0; i < size; i++) named[i] = mlirDictionaryAttrGetElement(list[index], i);
    named[size] = (MlirNamedAttribute){mlirIdentifierGet(context, tsr_ref(TSR_INFINITE_NAME)),
                                       tsr_attr_make_unit(context)};
    list[index] = mlirDictionaryAttrGet(context, size + 1, named);
    free(named);
    tsr_op_set(func, "res_attrs", mlirArrayAttrGet(context, count, list));
}

static void mark_entry(MlirOperation func) {
    values set = {0};
    tsr_graph_port port;
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        size_t result_count = tsr_op_result_count(op);
        if (result_count && carries(&set, op))
            for (size_t i = 0; i < result_count; i++)
                if (is_float(tsr_op_result(op, i))) add_value(&set, tsr_op_result(op, i));
        if (!tsr_op_is(op, TSR_FUNC_RETURN)) continue;
        for (size_t i = 0; i < tsr_op_operand_count(op); i++)
            if (has_value(&set, tsr_op_operand(op, i)) && tsr_graph_output_read(func, i, &port) &&
                !port.may_be_infinite)
                mark_result(func, (intptr_t)i);
    }
    free(set.slots);
}

bool tsr_pass_mark_infinite(MlirModule module) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        tsr_entry_kind kind;
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        if (tsr_graph_entry_kind(func, &kind) && kind != TSR_ENTRY_TRAIN) mark_entry(func);
    }
    return true;
}
