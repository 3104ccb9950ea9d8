/* SPDX-License-Identifier: Apache-2.0
 *
 * @fp32_master: parameters of bf16 and f16 get values in f32, which optimizers change; the program
 * reads them in its own type.
 */
#include "compiler/frontend/language/trace/tracer.h"
#include "compiler/graph/graph.h"

static bool is_small(tsr_dtype dtype) { return dtype == TSR_DTYPE_BF16 || dtype == TSR_DTYPE_F16; }

static void replace(tsr_tracer *t, MlirOperation param) {
    MlirValue old = tsr_op_result(param, 0);
    tsr_type type, master;
    if (!tsr_value_type(old, &type) || !is_small(type.dtype)) return;
    master = type;
    master.dtype = TSR_DTYPE_F32;
    tsr_builder builder = tsr_builder_before(param);
    const tsr_attr attrs[] = {
        {"name", tsr_op_attr(param, "name")}, {"init", tsr_op_attr(param, "init")}, {0}};
    MlirValue value = tsr_build_value(&builder, TSR_GRAPH_NAME("param"), NULL, 0,
                                      tsr_type_make(t->context, &master), attrs);
    MlirValue cast = tsr_build_value(&builder, TSR_GRAPH_NAME("cast"), &value, 1,
                                     tsr_type_make(t->context, &type), NULL);
    mlirValueReplaceAllUsesOfWith(old, cast);
    mlirOperationDestroy(param);
}

/* A value for a parameter of the module gets the type that the parameter now has. */
static void widen(tsr_tracer *t, MlirOperation assign) {
    MlirValue value = mlirOperationGetOperand(assign, 0);
    tsr_type type;
    if (!tsr_value_type(value, &type) || !is_small(type.dtype)) return;
    tsr_builder builder = tsr_builder_before(assign);
    type.dtype = TSR_DTYPE_F32;
    mlirOperationSetOperand(assign, 0,
                            tsr_build_value(&builder, TSR_GRAPH_NAME("cast"), &value, 1,
                                            tsr_type_make(t->context, &type), NULL));
}

static void replace_in(tsr_tracer *t, MlirBlock block) {
    for (MlirOperation op = mlirBlockGetFirstOperation(block), next; !mlirOperationIsNull(op);
         op = next) {
        next = mlirOperationGetNextInBlock(op);
        for (MlirRegion r = mlirOperationGetFirstRegion(op); !mlirRegionIsNull(r);
             r = mlirRegionGetNextInOperation(r))
            for (MlirBlock b = mlirRegionGetFirstBlock(r); !mlirBlockIsNull(b);
                 b = mlirBlockGetNextInRegion(b))
                replace_in(t, b);
        if (tsr_op_is(op, TSR_GRAPH_PARAM)) replace(t, op);
        if (tsr_op_is(op, TSR_GRAPH_ASSIGN)) widen(t, op);
    }
}

void tsr_master_make(tsr_tracer *t) { replace_in(t, mlirModuleGetBody(t->module)); }
