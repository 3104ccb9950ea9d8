/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of an entry: arguments and data, and the numbers that the runtime fills.
 */
#include "compiler/graph/graph.h"
#include "compiler/target/host/planner.h"

tsr_result tsr_planner_collect_input(planner *p, intptr_t index) {
    if (tsr_program_splits(p->config, p->entry, &p->entry->inputs[index]))
        return tsr_planner_check_rows(p, index);
    return tsr_planner_add_value(
        p, mlirBlockGetArgument(tsr_op_body(p->func), index),
        (value){.buffer = {.space = TSR_SPACE_INPUT, .index = (uint32_t)index},
                .times = p->entry->inputs[index].dim_times,
                .maker = NONE},
        NULL);
}

/* Step and seed are inputs that the runtime fills. */
static TSR_RESULT find_filled(planner *p, MlirOperation op, tsr_port_source source) {
    for (uint32_t i = 0; i < p->entry->input_count; i++)
        if (p->entry->inputs[i].source == source)
            return tsr_planner_add_value(
                p, tsr_op_result(op, 0),
                (value){.buffer = {.space = TSR_SPACE_INPUT, .index = i}, .maker = NONE}, NULL);
    FAIL(p->ctx, TSR_INTERNAL, "@%s reads the %s, but has no input for it", p->entry->name,
         tsr_port_source_name(source));
}

/* So is a hyper-parameter, of which each type is an input of its own. */
static TSR_RESULT find_number(planner *p, MlirOperation op) {
    const char *key = tsr_op_string(op, "key");
    tsr_type type = {0};
    tsr_value_type(tsr_op_result(op, 0), &type);
    for (uint32_t i = 0; key && i < p->entry->input_count; i++)
        if (tsr_port_is_hyperparameter(&p->entry->inputs[i], key) &&
            p->entry->inputs[i].dtype == type.dtype)
            return tsr_planner_add_value(
                p, tsr_op_result(op, 0),
                (value){.buffer = {.space = TSR_SPACE_INPUT, .index = i}, .maker = NONE}, NULL);
    FAIL(p->ctx, TSR_INTERNAL, "@%s reads the hyper-parameter '%s', but has no input for it",
         p->entry->name, key ? key : "");
}

bool tsr_planner_is_filled(MlirOperation op) {
    return tsr_op_is(op, TSR_GRAPH_STEP) || tsr_op_is(op, TSR_GRAPH_SEED) ||
           tsr_op_is(op, TSR_GRAPH_HYPERPARAMETER);
}

tsr_result tsr_planner_collect_filled(planner *p, MlirOperation op) {
    if (tsr_op_is(op, TSR_GRAPH_HYPERPARAMETER)) return find_number(p, op);
    return find_filled(p, op, tsr_op_is(op, TSR_GRAPH_STEP) ? TSR_PORT_STEP : TSR_PORT_SEED);
}
