/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tsched-pipeline: records on each tsched.pipeline.region the warm-up of its ranks, their live
 * activations, and the fraction of time in which they wait.
 */
#include "compiler/ir/pipeline.h"

#include "compiler/schedule/schedule.h"

#include <stdlib.h>

static MlirWalkResult annotate(MlirOperation op, void *user) {
    tsr_wavefront pipeline;
    bool *good = user;
    if (!tsr_op_is(op, TSR_SCHED_PIPELINE_REGION)) return MlirWalkResultAdvance;
    int64_t *numbers = calloc(2 * (size_t)TSR_PIPELINE_RANKS_MAX, sizeof *numbers);
    if (!numbers || !tsr_wavefront_read(op, &pipeline)) {
        free(numbers);
        *good = false;
        return MlirWalkResultInterrupt;
    }
    int64_t *live = numbers + pipeline.ranks;
    for (uint32_t i = 0; i < pipeline.ranks; i++) {
        numbers[i] = tsr_wavefront_warmup(&pipeline, i);
        live[i] = tsr_wavefront_live(&pipeline, i);
    }
    MlirContext context = mlirOperationGetContext(op);
    tsr_op_set(op, "warmup", tsr_attr_make_i64s(context, pipeline.ranks, numbers));
    tsr_op_set(op, "live", tsr_attr_make_i64s(context, pipeline.ranks, live));
    tsr_op_set(
        op, "bubble",
        mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), tsr_wavefront_bubble(&pipeline)));
    free(numbers);
    return MlirWalkResultAdvance;
}

bool tsr_pass_pipeline(MlirModule module) {
    bool good = true;
    mlirOperationWalk(mlirModuleGetOperation(module), annotate, &good, MlirWalkPreOrder);
    return good;
}
