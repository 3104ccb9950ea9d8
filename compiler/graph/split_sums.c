/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-split-sums: with numerics "native", sums over several leading dims, of many rows,
 * are taken of the inner dims first and then of the first one, so that a GPU has work for more
 * programs than columns give it. Gradients of biases and scales are such sums.
 */
#include "compiler/graph/graph.h"
#include "compiler/graph/rule.h"
#include "compiler/passes.h"
#include "compiler/schedule/schedule.h"

#include <string.h>

enum { ROWS_MIN = 4096 };

/* Axes 0, 1, … of several dims, but not the last dim; f32. */
static bool is_wide(MlirOperation op, int64_t axes[static TSR_RANK_MAX], size_t *out_count) {
    tsr_type type;
    uint64_t rows = 1;
    if (!tsr_value_type(tsr_op_operand(op, 0), &type) || !tsr_type_is_static(&type)) return false;
    if (type.dtype != TSR_DTYPE_F32) return false;
    if (!tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, out_count)) return false;
    if (*out_count < 2 || *out_count >= type.shape.rank) return false;
    for (size_t i = 0; i < *out_count; i++) {
        if (axes[i] != (int64_t)i) return false;
        rows *= type.shape.dims[i]; /* no overflow: the type was checked */
    }
    return rows >= ROWS_MIN && type.shape.dims[0] > 1;
}

static void split(MlirOperation op) {
    static const int64_t first = 0;
    int64_t axes[TSR_RANK_MAX];
    size_t count;
    if (tsr_op_has(op, TSR_PLANNED_GROUP) || !is_wide(op, axes, &count)) return;
    tsr_builder b = tsr_builder_before(op);
    MlirValue inner =
        tsr_emit_reduce(&b, TSR_GRAPH_NAME("sum"), tsr_op_operand(op, 0), count - 1, axes + 1);
    MlirValue all = tsr_emit_reduce(&b, TSR_GRAPH_NAME("sum"), inner, 1, &first);
    mlirValueReplaceAllUsesOfWith(tsr_op_result(op, 0), all);
    mlirOperationDestroy(op);
}

bool tsr_pass_split_sums(MlirModule module) {
    const char *numerics = tsr_op_string(mlirModuleGetOperation(module), TSR_NUMERICS_NAME);
    if (!numerics || strcmp(numerics, "native") != 0) return true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, "func.func") || !tsr_op_has_body(func)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
            if (tsr_graph_op_of(op) == TSR_GRAPH_SUM) split(op);
        }
    }
    return true;
}
