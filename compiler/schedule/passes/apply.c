/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tsched-apply: attaches the choices of plans to the ops that they name, as attributes, which
 * tsched-fuse copies to its groups or obeys: `tsched.tile`, the sizes of tiles, and
 * `tsched.group`, the kernel that a function is materialized as. The layout of a parameter is
 * recorded where the parameter is read, for tessera-virtual-ranks. Then it removes the plans. The
 * pipelines of the plans stay recorded on the module, for the deployment manifest.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"
#include "compiler/ir/pipeline.h"
#include "compiler/ir/resilience_ops.h"
#include "compiler/schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

/* Ops whose kernels have tiles; a group has at most one. */
static bool has_tiles(MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    return row && (row->op_class == TSR_CLASS_MATMUL || row->op_class == TSR_CLASS_ALONE ||
                   row->op_class == TSR_CLASS_WIDE);
}

typedef struct apply {
    MlirModule module;
    bool good;
} apply;

static void choose(apply *a, MlirOperation tile, MlirOperation func) {
    MlirAttribute chosen = tsr_op_attr(tile, "chosen");
    size_t count = 0;
    if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func))
        return; /* tsched-verify reports it */
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        MlirAttribute before = tsr_op_attr(op, TSR_CHOSEN_TILE);
        if (!has_tiles(op)) continue;
        count++;
        if (!mlirAttributeIsNull(before) && !mlirAttributeEqual(before, chosen)) {
            tsr_diag_error(mlirOperationGetLocation(tile), TSR_DIAG_PLAN_TILE,
                           "tsched.tile: %s of @%s already has other sizes", tsr_op_name(op),
                           tsr_op_symbol(func));
            a->good = false;
            return;
        }
        tsr_op_set(op, TSR_CHOSEN_TILE, chosen);
    }
    if (count) return;
    tsr_diag_error(mlirOperationGetLocation(tile), TSR_DIAG_PLAN_TILE,
                   "tsched.tile: no op of @%s has tiles", tsr_op_symbol(func));
    a->good = false;
}

/* Marks the function's ops as one kernel; tsched-fuse reports an error if they cannot be. */
static void materialize(const apply *a, MlirOperation func) {
    if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) return;
    MlirAttribute name = tsr_attr_make_string(mlirModuleGetContext(a->module), tsr_op_symbol(func));
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (tsr_op_is_of(op, TSR_DIALECT_GRAPH)) tsr_op_set(op, TSR_PLANNED_GROUP, name);
    }
}

static const char *word_of(MlirOperation op, const char *name, size_t index) {
    MlirAttribute words = tsr_op_attr(op, name);
    bool has = !mlirAttributeIsNull(words) && mlirAttributeIsAArray(words) &&
               mlirArrayAttrGetNumElements(words) > (intptr_t)index;
    return has ? tsr_attr_string(mlirArrayAttrGetElement(words, (intptr_t)index)) : NULL;
}

static size_t word_count(MlirOperation op, const char *name) {
    MlirAttribute words = tsr_op_attr(op, name);
    bool has = !mlirAttributeIsNull(words) && mlirAttributeIsAArray(words);
    return has ? (size_t)mlirArrayAttrGetNumElements(words) : 0;
}

/* The number of the dim that is split. `order` names the dims; without it, the dim is the first. */
static bool find_split_dim(MlirOperation layout, MlirOperation param, int64_t *out_dim) {
    const char *dim = word_of(layout, "partition", 0), *name = tsr_op_string(param, "name");
    size_t names = word_count(layout, "order");
    tsr_type type;
    if (word_count(layout, "mesh_axes") > 1) {
        tsr_diag_error(mlirOperationGetLocation(layout), TSR_DIAG_PLAN_LAYOUT,
                       "tsched.layout: parameter '%s' is to be split along dim '%s' and others; "
                       "expected one dim",
                       name, dim);
        return false;
    }
    *out_dim = 0;
    if (names == 0) return true;
    if (tsr_value_type(tsr_op_result(param, 0), &type) && type.shape.rank != names) {
        tsr_diag_error(mlirOperationGetLocation(layout), TSR_DIAG_PLAN_LAYOUT,
                       "tsched.layout: order names %zu dims; parameter '%s' has %u", names, name,
                       type.shape.rank);
        return false;
    }
    for (size_t i = 0; i < names; i++) {
        const char *word = word_of(layout, "order", i);
        *out_dim = (int64_t)i;
        if (word && dim && strcmp(word, dim) == 0) return true;
    }
    tsr_diag_error(mlirOperationGetLocation(layout), TSR_DIAG_PLAN_LAYOUT,
                   "tsched.layout: parameter '%s' is to be split along dim '%s', which order does "
                   "not name",
                   name, dim ? dim : "");
    return false;
}

static void record_layout(apply *a, MlirOperation layout) {
    MlirOperation value = tsr_value_owner(tsr_op_operand(layout, 0));
    MlirOperation param = tsr_op_is(value, TSR_SCHED_VALUE)
                              ? tsr_value_owner(tsr_op_operand(value, 0))
                              : (MlirOperation){NULL};
    const char *axis = word_of(layout, "mesh_axes", 0);
    MlirContext context = mlirModuleGetContext(a->module);
    int64_t dim = 0;
    if (!axis || mlirOperationIsNull(param) || !tsr_op_is(param, TSR_GRAPH_PARAM)) return;
    if (!find_split_dim(layout, param, &dim)) {
        a->good = false;
        return;
    }
    tsr_op_set(param, TSR_LAYOUT_AXIS, tsr_attr_make_string(context, axis));
    if (dim > 0) tsr_op_set(param, TSR_LAYOUT_DIM, tsr_attr_make_i64(context, dim));
}

/* Returns the function whose group a plan's op takes. */
static MlirOperation find_func(const apply *a, MlirOperation op) {
    MlirOperation fuse = tsr_value_owner(tsr_op_operand(op, 0));
    if (!tsr_op_is(fuse, TSR_SCHED_FUSE)) return (MlirOperation){NULL};
    return tsr_module_find(a->module, tsr_op_string(fuse, "callee"));
}

static MlirWalkResult visit(MlirOperation op, void *user) {
    apply *a = user;
    if (tsr_op_is(op, TSR_SCHED_TILE) && !tsr_op_operand_count(op)) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_PLAN_TILE,
                       "tsched.tile: has no group; --schedule takes a file with sizes of kernels");
        a->good = false;
    } else if (tsr_op_is(op, TSR_SCHED_TILE) && tsr_op_has(op, "chosen"))
        choose(a, op, find_func(a, op));
    if (tsr_op_is(op, TSR_SCHED_LAYOUT)) record_layout(a, op);
    if (tsr_op_is(op, TSR_SCHED_MATERIALIZE)) materialize(a, find_func(a, op));
    MlirOperation parent = mlirOperationGetParentOperation(op);
    if (!mlirOperationIsNull(parent) && tsr_op_is_plan(parent) && !tsr_op_is_plan(op)) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_PLAN_OP,
                       "%s: is in %s, which may contain only plans", tsr_op_name(op),
                       tsr_op_name(parent));
        a->good = false;
    }
    return MlirWalkResultAdvance;
}

/* Later ops use values of earlier ones. */
static bool remove_plans(MlirBlock block) {
    size_t count = 0, at = 0;
    TSR_FOR_EACH_OP(op, block) count += tsr_op_is_plan(op);
    MlirOperation *plans = calloc(count + 1, sizeof *plans);
    if (!plans) return false;
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_is_plan(op)) plans[at++] = op;
    }
    while (at > 0) mlirOperationDestroy(plans[--at]);
    free(plans);
    return true;
}

bool tsr_pass_apply(MlirModule module) {
    apply a = {.module = module, .good = true};
    mlirOperationWalk(mlirModuleGetOperation(module), visit, &a, MlirWalkPreOrder);
    if (!a.good || !tsr_pipelines_note(module)) return false;
    bool good = remove_plans(mlirModuleGetBody(module));
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_is(op, TSR_FUNC_FUNC) && tsr_op_has_body(op))
            good = remove_plans(tsr_op_body(op)) && good;
    }
    if (!good)
        tsr_diag_error(mlirOperationGetLocation(mlirModuleGetOperation(module)), TSR_DIAG_MEMORY,
                       "no memory to remove the plans");
    return good;
}
