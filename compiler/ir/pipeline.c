/* SPDX-License-Identifier: Apache-2.0
 *
 * Warm-up, then alternating forward and backward steps, then the remaining backward steps.
 */
#include "compiler/ir/pipeline.h"

#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

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

/* ---- reading a plan ---- */

/* Determined by the stages that a region contains; 1 if it contains none. */
static int64_t ranks_needed(MlirOperation op, int64_t chunks) {
    int64_t count = 0;
    if (tsr_op_is(op, TSR_SCHED_PIPELINE_REGION)) {
        TSR_FOR_EACH_OP(stage, tsr_op_body(op)) count += tsr_op_is(stage, TSR_SCHED_STAGE);
    }
    return count < chunks ? 1 : count / chunks;
}

bool tsr_wavefront_read(MlirOperation op, tsr_wavefront *out_wavefront) {
    static const char *const schedules[] = {"1f1b", "interleaved", NULL};
    int64_t stages = 1, microbatches = 1, chunks = 1;
    const char *schedule = tsr_op_string(op, "schedule");
    bool interleaved = schedule && strcmp(schedule, "interleaved") == 0;
    tsr_op_i64(op, "microbatch", &microbatches);
    tsr_op_i64(op, "chunks", &chunks);
    if (!tsr_op_i64(op, "stages", &stages) && chunks > 0) stages = ranks_needed(op, chunks);
    if (!tsr_op_check_word(op, "schedule", schedules)) return false;
    if (stages < 1 || stages > TSR_PIPELINE_RANKS_MAX || microbatches < 1 ||
        microbatches > TSR_PIPELINE_MICROBATCHES_MAX || chunks < 1 ||
        chunks > TSR_PIPELINE_CHUNKS_MAX)
        return tsr_op_emit_error(op, TSR_DIAG_PLAN_PIPELINE,
                                 "%" PRId64 " stages, %" PRId64 " microbatches, %" PRId64
                                 " chunks; expected 1 to %d, %d, %d",
                                 stages, microbatches, chunks, TSR_PIPELINE_RANKS_MAX,
                                 TSR_PIPELINE_MICROBATCHES_MAX, TSR_PIPELINE_CHUNKS_MAX);
    if (!interleaved && chunks > 1)
        return tsr_op_emit_error(op, TSR_DIAG_PLAN_PIPELINE,
                                 "%" PRId64 " chunks; only \"interleaved\" has more than 1",
                                 chunks);
    if (interleaved && microbatches % stages != 0)
        return tsr_op_emit_error(op, TSR_DIAG_PLAN_PIPELINE,
                                 "%" PRId64 " microbatches are not a multiple of %" PRId64
                                 " stages",
                                 microbatches, stages);
    *out_wavefront = (tsr_wavefront){.ranks = (uint32_t)stages,
                                     .microbatches = (uint32_t)microbatches,
                                     .chunks = (uint32_t)chunks};
    return true;
}

/* ---- for the manifest ---- */

typedef struct pipelines {
    tsr_arena arena;
    MlirAttribute *all;
    size_t count, capacity;
    bool good;
} pipelines;

static MlirAttribute stages_of(MlirOperation op, pipelines *p) {
    MlirContext context = mlirOperationGetContext(op);
    size_t count = 0;
    if (!tsr_op_is(op, TSR_SCHED_PIPELINE_REGION)) return mlirArrayAttrGet(context, 0, NULL);
    TSR_FOR_EACH_OP(stage, tsr_op_body(op)) count += tsr_op_is(stage, TSR_SCHED_STAGE);
    MlirAttribute *names = TSR_NEW(&p->arena, MlirAttribute, count + 1);
    if (!names) return mlirAttributeGetNull();
    count = 0;
    TSR_FOR_EACH_OP(stage, tsr_op_body(op)) {
        if (!tsr_op_is(stage, TSR_SCHED_STAGE)) continue;
        names[count++] = tsr_attr_make_string(context, tsr_op_string(stage, "callee"));
    }
    return mlirArrayAttrGet(context, (intptr_t)count, names);
}

static MlirAttribute describe(MlirOperation op, const tsr_wavefront *pipeline, pipelines *p) {
    MlirContext context = mlirOperationGetContext(op);
    const char *schedule = tsr_op_string(op, "schedule"), *axis = tsr_op_string(op, "axis");
    const char *function = tsr_op_string(op, "callee");
    const tsr_attr attrs[] = {
        {"schedule", tsr_attr_make_string(context, schedule ? schedule : "1f1b")},
        {"ranks", tsr_attr_make_i64(context, pipeline->ranks)},
        {"microbatches", tsr_attr_make_i64(context, pipeline->microbatches)},
        {"chunks", tsr_attr_make_i64(context, pipeline->chunks)},
        {"stages", stages_of(op, p)},
        {"axis", axis ? tsr_attr_make_string(context, axis) : mlirAttributeGetNull()},
        {"function", function ? tsr_attr_make_string(context, function) : mlirAttributeGetNull()}};
    MlirNamedAttribute named[TSR_COUNT(attrs)];
    intptr_t count = 0;
    for (size_t i = 0; i < TSR_COUNT(attrs); i++)
        if (!mlirAttributeIsNull(attrs[i].value))
            named[count++] = (MlirNamedAttribute){
                mlirIdentifierGet(context, tsr_ref(attrs[i].name)), attrs[i].value};
    return mlirDictionaryAttrGet(context, count, named);
}

static bool append_pipeline(pipelines *p, MlirAttribute one) {
    if (p->count == p->capacity) {
        MlirAttribute *larger = TSR_NEW(&p->arena, MlirAttribute, 2 * p->capacity + 16);
        if (!larger) return false;
        if (p->count) memcpy(larger, p->all, p->count * sizeof *larger);
        p->all = larger;
        p->capacity = 2 * p->capacity + 16;
    }
    p->all[p->count++] = one;
    return true;
}

static MlirWalkResult find_pipeline(MlirOperation op, void *user) {
    pipelines *p = user;
    tsr_wavefront pipeline;
    if (!tsr_op_is(op, TSR_SCHED_PIPELINE) && !tsr_op_is(op, TSR_SCHED_PIPELINE_REGION))
        return MlirWalkResultAdvance;
    p->good = tsr_wavefront_read(op, &pipeline) && append_pipeline(p, describe(op, &pipeline, p));
    return p->good ? MlirWalkResultAdvance : MlirWalkResultInterrupt;
}

bool tsr_pipelines_note(MlirModule module) {
    MlirOperation self = mlirModuleGetOperation(module);
    MlirAttribute old = tsr_op_attr(self, TSR_PLANNED_PIPELINES);
    pipelines p = {.good = true};
    bool listed = !mlirAttributeIsNull(old) && mlirAttributeIsAArray(old);
    for (intptr_t i = 0; listed && p.good && i < mlirArrayAttrGetNumElements(old); i++)
        p.good = append_pipeline(&p, mlirArrayAttrGetElement(old, i));
    size_t before = p.count;
    if (p.good) mlirOperationWalk(self, find_pipeline, &p, MlirWalkPreOrder);
    if (p.good && p.count > before)
        tsr_op_set(self, TSR_PLANNED_PIPELINES,
                   mlirArrayAttrGet(mlirOperationGetContext(self), (intptr_t)p.count, p.all));
    tsr_arena_finish(&p.arena);
    return p.good;
}
