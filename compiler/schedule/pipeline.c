/* SPDX-License-Identifier: Apache-2.0
 *
 * Warm-up, then one forward and one backward step in turn, then the backward steps that are left.
 * Pass tsched-pipeline writes what that comes to on each tsched.pipeline.region.
 */
#include "compiler/schedule/pipeline.h"

#include "compiler/schedule/schedule.h"

#include <stdlib.h>

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Forward steps before the steady state, in which each forward step is followed by a backward one.
 */
static uint32_t leading(const tsr_wavefront *p, uint32_t rank) {
    uint32_t total = p->microbatches * p->chunks;
    if (p->chunks == 1) return smaller(p->ranks - 1 - rank, total);
    return smaller(2 * (p->ranks - 1 - rank) + (p->chunks - 1) * p->ranks, total);
}

uint32_t tsr_wavefront_warmup(const tsr_wavefront *pipeline, uint32_t rank) {
    TSR_ASSERT(rank < pipeline->ranks);
    return leading(pipeline, rank);
}

uint32_t tsr_wavefront_step_count(const tsr_wavefront *pipeline) {
    return 2 * pipeline->microbatches * pipeline->chunks;
}

/* Microbatches go through a rank in groups of p: a group through one chunk, then the next. */
static tsr_wavefront_step numbered(const tsr_wavefront *p, uint32_t number, bool backward) {
    uint32_t round = p->ranks * p->chunks;
    tsr_wavefront_step step = {.backward = backward, .microbatch = number};
    if (p->chunks == 1) return step;
    step.microbatch = number / round * p->ranks + number % p->ranks;
    step.chunk = number % round / p->ranks;
    if (backward) step.chunk = p->chunks - 1 - step.chunk;
    return step;
}

tsr_wavefront_step tsr_wavefront_step_at(const tsr_wavefront *pipeline, uint32_t rank,
                                         uint32_t index) {
    uint32_t total = pipeline->microbatches * pipeline->chunks, first = leading(pipeline, rank);
    TSR_ASSERT(rank < pipeline->ranks && index < 2 * total);
    if (index < first) return numbered(pipeline, index, false);
    uint32_t pair = (index - first) / 2;
    if (first + pair < total) {
        bool backward = (index - first) % 2;
        return numbered(pipeline, backward ? pair : first + pair, backward);
    }
    return numbered(pipeline, index - total, true);
}

uint32_t tsr_wavefront_live(const tsr_wavefront *pipeline, uint32_t rank) {
    return smaller(leading(pipeline, rank) + 1, pipeline->microbatches * pipeline->chunks);
}

double tsr_wavefront_bubble(const tsr_wavefront *pipeline) {
    double waiting = (double)pipeline->ranks - 1;
    return waiting / ((double)pipeline->chunks * pipeline->microbatches + waiting);
}

static MlirWalkResult annotate(MlirOperation op, void *user) {
    tsr_wavefront pipeline;
    bool *good = user;
    if (!tsr_op_is(op, "tsched.pipeline.region")) return MlirWalkResultAdvance;
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
