/* SPDX-License-Identifier: Apache-2.0
 *
 * A dim that stays open at run time. A value depends on it only in its first dim, which is a
 * multiple of it, so a call with fewer rows computes the first rows of each value, and the layout
 * of the others does not change.
 *
 * A value that has the dim but depends on no input, such as a broadcast constant, would be computed
 * for the largest size. So it may be read only by elementwise ops, together with rows of an input.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"

#include <stdio.h>
#include <string.h>

typedef struct marker {
    const char *symbol;
    uint64_t dim;
    bool done;
} marker;

/* ---- reading --------------------------------------------------------------------------------- */

bool tsr_graph_open_read(MlirOperation func, tsr_graph_open *out_open) {
    int64_t range[2];
    size_t count = 0, inputs = 0, outputs = 0;
    tsr_graph_open open = {.dim = tsr_op_string(func, TSR_OPEN_DIM_NAME)};
    if (!open.dim || !tsr_op_i64s(func, TSR_OPEN_RANGE_NAME, 2, range, &count) || count != 2 ||
        !tsr_op_i64s(func, TSR_OPEN_INPUTS_NAME, TSR_CONFIG_PORTS_MAX, open.inputs, &inputs) ||
        !tsr_op_i64s(func, TSR_OPEN_OUTPUTS_NAME, TSR_CONFIG_PORTS_MAX, open.outputs, &outputs))
        return false;
    if (range[0] < 1 || range[1] < range[0]) return false;
    open.low = range[0];
    open.high = range[1];
    *out_open = open;
    return true;
}

/* ---- checking -------------------------------------------------------------------------------- */

static void refuse(marker *m, MlirOperation op, const char *why) {
    if (m->done)
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_OPEN_DIM,
                       "%s: %s, so dim '%s' cannot stay open; build for its sizes: --dim %s=1,8,64",
                       tsr_op_name(op), why, m->symbol, m->symbol);
    m->done = false;
}

/* The number that, times the dim, is dim 0 of the value; 0 if no dim depends on it. */
static uint64_t find_times(marker *m, MlirOperation op, MlirValue value) {
    tsr_type type;
    uint64_t times = 0;
    char text[TSR_TYPE_TEXT_MAX], why[TSR_TYPE_TEXT_MAX + 100];
    if (!tsr_value_type(value, &type)) return 0;
    for (uint32_t i = 0; i < type.shape.rank; i++) {
        if (!tsr_dim_is_open(type.shape.dims[i])) continue;
        if (i == 0 && tsr_dim_divide(type.shape.dims[0], m->dim, &times) &&
            tsr_dim_is_known(times) && times > 0)
            continue;
        snprintf(why, sizeof why, "a value is %s, where only the first dim may be %s or a multiple",
                 tsr_type_text(&type, text), m->symbol);
        refuse(m, op, why);
        return 0;
    }
    return times;
}

static bool has_open_operand(marker *m, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        if (find_times(m, op, tsr_op_operand(op, i))) return true;
    return false;
}

/* The value has the dim, but is computed from no value that has it. */
static bool is_source(marker *m, MlirValue value) {
    MlirOperation op = tsr_value_owner(value);
    return !mlirOperationIsNull(op) && find_times(m, op, value) && !has_open_operand(m, op);
}

/* The op is elementwise, and reads rows of an input, too. */
static bool reads_rows(marker *m, MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    if (!row || row->op_class != TSR_CLASS_MAP) return false;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirValue operand = tsr_op_operand(op, i);
        if (find_times(m, op, operand) && !is_source(m, operand)) return true;
    }
    return false;
}

static void check_source(marker *m, MlirOperation op, MlirValue value) {
    if (!is_source(m, value)) return;
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
        if (!reads_rows(m, mlirOpOperandGetOwner(use)))
            refuse(m, op, "its result has the dim and depends on no input that has it");
}

static void find_symbol(void *user, const char *symbol) {
    void **pair = user;
    *(bool *)pair[1] |= strcmp(((const marker *)pair[0])->symbol, symbol) == 0;
}

/* Integers that follow from the size of the dim would be those of the largest size. */
static void check_sizes(marker *m, MlirOperation op) {
    MlirAttribute list = tsr_op_attr(op, "values");
    bool found = false;
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(list); i++) {
        uint64_t dim;
        MlirAttribute entry = mlirArrayAttrGetElement(list, i);
        if (mlirAttributeIsAString(entry) && tsr_dim_read(entry, &dim))
            tsr_dim_symbols(dim, find_symbol, (void *[]){m, &found});
    }
    if (found) refuse(m, op, "the program computes with the size of the dim");
}

static MlirWalkResult check_op(MlirOperation op, void *user) {
    marker *m = user;
    if (tsr_op_is(op, TSR_GRAPH_SIZES)) check_sizes(m, op);
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        find_times(m, op, tsr_op_result(op, i));
        check_source(m, op, tsr_op_result(op, i));
    }
    return MlirWalkResultAdvance;
}

bool tsr_graph_open_mark(MlirOperation func, const char *symbol, int64_t low, int64_t high) {
    MlirContext context = mlirOperationGetContext(func);
    MlirBlock body = tsr_op_body(func);
    MlirOperation end = mlirBlockGetTerminator(body);
    size_t input_count = (size_t)mlirBlockGetNumArguments(body);
    size_t output_count = tsr_op_operand_count(end);
    int64_t inputs[TSR_CONFIG_PORTS_MAX], outputs[TSR_CONFIG_PORTS_MAX];
    const int64_t range[] = {low, high};
    marker m = {.symbol = symbol, .done = true};
    bool read = tsr_dim_read(tsr_attr_make_string(context, symbol), &m.dim);
    TSR_ASSERT(read && input_count <= TSR_CONFIG_PORTS_MAX && output_count <= TSR_CONFIG_PORTS_MAX);
    for (size_t i = 0; i < input_count; i++)
        inputs[i] = (int64_t)find_times(&m, func, mlirBlockGetArgument(body, (intptr_t)i));
    bool compared = tsr_op_has(mlirOperationGetParentOperation(func), TSR_COMPARED_NAME);
    if (!compared) mlirOperationWalk(func, check_op, &m, MlirWalkPreOrder);
    for (size_t i = 0; i < output_count; i++)
        outputs[i] = (int64_t)find_times(&m, end, tsr_op_operand(end, i));
    if (!m.done) return false;
    tsr_op_set(func, TSR_OPEN_DIM_NAME, tsr_attr_make_string(context, symbol));
    tsr_op_set(func, TSR_OPEN_RANGE_NAME, tsr_attr_make_i64s(context, 2, range));
    tsr_op_set(func, TSR_OPEN_INPUTS_NAME, tsr_attr_make_i64s(context, input_count, inputs));
    tsr_op_set(func, TSR_OPEN_OUTPUTS_NAME, tsr_attr_make_i64s(context, output_count, outputs));
    return true;
}
