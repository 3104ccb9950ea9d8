/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/target/host/planner.h"

/* True for values of one virtual rank, or gathered again for each: not sums or gathers of all
 * virtual ranks. */
static bool runs_per_vrank(const launch *l) {
    return l->kind == KIND_LAUNCH || l->kind == KIND_JOIN;
}

static bool made_in(const planner *p, const value *v, uint32_t loop_number) {
    return v->maker != NONE && p->launches[v->maker].loop == loop_number &&
           runs_per_vrank(&p->launches[v->maker]);
}

/* The value that `mlir` is or views. */
static value *find_root(planner *p, MlirValue mlir) {
    value *v = &p->values[tsr_value_map_get(&p->numbers, mlir)];
    return v->view_of == NONE ? v : &p->values[v->view_of];
}

/* A value that is joined or exchanged after the loop that makes it has a slot for each virtual
 * rank, too. */
static void retain_for_join(planner *p, const launch *l) {
    value *v = find_root(p, tsr_op_operand(l->call, 0));
    if (v->maker == NONE || v->imported || p->launches[v->maker].loop == NONE) return;
    v->buffer.space = TSR_SPACE_VRANK;
    v->first = p->loops[p->launches[v->maker].loop].begin;
}

/* A loop's launches run again for the next virtual rank: values that it reads from outside stay
 * until its end, and the results of all virtual ranks exist from its begin on. A value that one
 * virtual rank makes for a later loop gets a slot for each virtual rank. */
void tsr_planner_stretch_lives(planner *p) {
    for (uint32_t i = 0; i < p->value_count; i++) {
        value *v = &p->values[i];
        v->first = v->maker;
        if (v->maker == NONE || v->imported || runs_per_vrank(&p->launches[v->maker]) ||
            p->launches[v->maker].loop == NONE)
            continue;
        const loop *in = &p->loops[p->launches[v->maker].loop];
        v->first = in->begin;
        if (v->first_end < in->end) v->first_end = in->end;
    }
    for (uint32_t i = 0; i < p->launch_count; i++) {
        const launch *l = &p->launches[i];
        if (l->kind == KIND_JOIN || l->kind == KIND_ASSEMBLE || l->kind == KIND_SWAP)
            retain_for_join(p, l);
        if (l->loop == NONE) continue;
        for (size_t k = 0; k < tsr_op_operand_count(l->call); k++) {
            value *v = find_root(p, tsr_op_operand(l->call, k));
            if (made_in(p, v, l->loop) || v->buffer.space == TSR_SPACE_PART) continue;
            if (v->first_end < p->loops[l->loop].end) v->first_end = p->loops[l->loop].end;
            if (v->maker == NONE || v->imported || p->launches[v->maker].loop == NONE ||
                p->launches[v->maker].kind != KIND_LAUNCH)
                continue;
            v->buffer.space = TSR_SPACE_VRANK;
            v->first = p->loops[p->launches[v->maker].loop].begin;
        }
    }
    for (uint32_t i = 0; i < p->value_count; i++) {
        value *v = &p->values[i];
        if (v->view_of != NONE) v->buffer.space = p->values[v->view_of].buffer.space;
    }
}

tsr_result tsr_planner_check_rows(planner *p, intptr_t index) {
    MlirValue argument = mlirBlockGetArgument(tsr_op_body(p->func), index);
    for (MlirOpOperand use = mlirValueGetFirstUse(argument); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
        if (!tsr_op_is(mlirOpOperandGetOwner(use), TSR_SR_VRANK_ROWS))
            FAIL(p->ctx, TSR_COMPILE,
                 "@%s: %s reads all of input '%s', whose rows are spread over virtual ranks; "
                 "expected tessera_sr.vrank_rows",
                 p->entry->name, tsr_op_name(mlirOpOperandGetOwner(use)),
                 p->entry->inputs[index].name);
    return TSR_SUCCESS;
}
