/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-export-deployment-manifest, after the passes that shard and recompute and before
 * tessera-local-collectives: it reads their results from the ops and stores them on
 * the module, as JSON (manifests/deployment.h), for the bundle and for the file that
 * tessera.system.export_manifest requests:
 *
 * mesh         the module's tessera.mesh
 * shards       for each optimizer step on slices along the axis of the virtual ranks: the ranges
 *              that shard_slice ops take of the parameter (zero3) and of its states. The positions
 *              of other axes are all on every rank, which has the whole tensor
 * steps        the parameters that have one: names for the collectives, which are read from the
 *              host program when the bundle is written (manifests/deployment/program.c)
 * recomputes   the plan of tessera-insert-recompute for an entry
 * pipelines    the pipelines of plans, which may have been removed since (tsched-apply)
 */
#include "compiler/ir/pipeline.h"
#include "compiler/resilience/passes.h"
#include "compiler/resilience/resilience.h"
#include "manifests/deployment.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

typedef struct exporter {
    MlirModule module;
    MlirOperation func;
    tsr_ctx ctx;
    tsr_arena arena;
    tsr_deployment found;
    size_t shard_capacity, step_capacity;
    uint64_t virtual_ranks;
} exporter;

static bool no_memory(const exporter *e) {
    tsr_diag_error(mlirOperationGetLocation(mlirModuleGetOperation(e->module)), TSR_DIAG_MEMORY,
                   "no memory for the deployment manifest");
    return false;
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool take_request(exporter *e, MlirOperation op) {
    MlirAttribute include = tsr_op_attr(op, "include");
    if (e->found.include) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_MANIFEST,
                       "%s: the manifest is requested twice", tsr_op_name(op));
        return false;
    }
    e->found.path = tsr_op_string(op, "path");
    e->found.include = mlirAttributeIsNull(include) ? TSR_PART_ALL : 0;
    for (intptr_t i = 0; !mlirAttributeIsNull(include) && i < mlirArrayAttrGetNumElements(include);
         i++)
        e->found.include |=
            tsr_deployment_part_parse(tsr_attr_string(mlirArrayAttrGetElement(include, i)));
    mlirOperationDestroy(op);
    return true;
}

static bool take_requests(exporter *e) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(e->module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
            if (tsr_sr_op_plain(op) == TSR_SR_EXPORT_MANIFEST && !take_request(e, op)) return false;
        }
    }
    return true;
}

static bool read_mesh(exporter *e) {
    MlirAttribute mesh = tsr_op_attr(mlirModuleGetOperation(e->module), "tessera.mesh");
    if (mlirAttributeIsNull(mesh) || !mlirAttributeIsADictionary(mesh)) return true;
    intptr_t count = mlirDictionaryAttrGetNumElements(mesh);
    uint64_t product = 1; /* product of the axes that divide the batch */
    e->found.axes = TSR_NEW(&e->arena, tsr_deployment_axis, (size_t)count + 1);
    if (!e->found.axes) return no_memory(e);
    for (intptr_t i = 0; i < count && i < TSR_DEPLOYMENT_AXES_MAX; i++) {
        MlirNamedAttribute axis = mlirDictionaryAttrGetElement(mesh, i);
        MlirStringRef name = mlirIdentifierStr(axis.name);
        int64_t size = 0;
        if (!tsr_attr_i64(axis.attribute, &size) || size < 1 || size > TSR_CONFIG_VIRTUAL_RANKS_MAX)
            continue; /* no pass could use it */
        tsr_deployment_axis *to = &e->found.axes[e->found.axis_count++];
        to->name = tsr_arena_printf(&e->arena, "%.*s", (int)name.length, name.data);
        to->size = (uint64_t)size;
        to->batch = tsr_sr_is_batch_axis(name);
        if (to->batch) product *= to->size;
        if (!to->name) return no_memory(e);
    }
    /* A build may override the number of virtual ranks; they are then not positions of an axis. */
    bool fits = e->virtual_ranks > 1 && product == e->virtual_ranks;
    for (size_t i = 0; i < e->found.axis_count; i++)
        e->found.axes[i].batch = e->found.axes[i].batch && fits;
    return true;
}

/* ---- contents of the ops --------------------------------------------------------------------- */

static bool is_step(MlirOperation op) {
    return tsr_op_is(op, TSR_GRAPH_ADAMW) || tsr_op_is(op, TSR_GRAPH_SGD);
}

/* True if the virtual ranks are the positions of the axis. The positions of other axes are all on
 * every rank. */
static bool is_over_ranks(const exporter *e, const char *axis) {
    for (size_t i = 0; axis && i < e->found.axis_count; i++)
        if (strcmp(e->found.axes[i].name, axis) == 0)
            return e->found.axes[i].size == e->virtual_ranks && tsr_sr_is_batch_axis(tsr_ref(axis));
    return false;
}

/* The name of the tensor that a value is a slice of: the operand of shard_slice, also through a
 * gather. NULL: not a slice. */
static const char *sliced_name(MlirValue value) {
    for (int depth = 0; depth < 4; depth++) {
        MlirOperation owner = tsr_value_owner(value);
        if (tsr_op_is(owner, TSR_GRAPH_PARAM) || tsr_op_is(owner, TSR_GRAPH_OPT_STATE))
            return tsr_op_string(owner, "name");
        if (!tsr_op_is(owner, TSR_SR_SHARD_SLICE) && !tsr_op_is(owner, TSR_SR_ALL_GATHER))
            return NULL;
        value = tsr_op_operand(owner, 0);
    }
    return NULL;
}

static tsr_deployment_shard *shard_of(exporter *e, const char *tensor, const char *axis) {
    for (size_t i = 0; i < e->found.shard_count; i++)
        if (strcmp(e->found.shards[i].tensor, tensor) == 0) return &e->found.shards[i];
    if (e->found.shard_count == e->shard_capacity) {
        tsr_deployment_shard *larger =
            TSR_ARENA_GROW(&e->arena, e->found.shards, &e->shard_capacity, 16);
        if (!larger) return NULL;
        e->found.shards = larger;
    }
    tsr_deployment_shard *made = &e->found.shards[e->found.shard_count];
    *made =
        (tsr_deployment_shard){.tensor = tensor,
                               .axis = axis,
                               .begin = TSR_NEW(&e->arena, uint64_t, TSR_DEPLOYMENT_POSITIONS_MAX),
                               .end = TSR_NEW(&e->arena, uint64_t, TSR_DEPLOYMENT_POSITIONS_MAX)};
    if (!made->begin || !made->end) return NULL;
    e->found.shard_count++;
    return made;
}

/* Positions ascend; a position without elements takes no step and has no op. */
static bool note_slice(exporter *e, MlirOperation slice, const char *tensor) {
    int64_t position = 0, end = 0;
    if (!tsr_op_i64(slice, "position", &position) || !tsr_op_i64(slice, "end", &end) ||
        position >= TSR_DEPLOYMENT_POSITIONS_MAX || !is_over_ranks(e, tsr_op_string(slice, "axis")))
        return true;
    tsr_deployment_shard *shard = shard_of(e, tensor, tsr_op_string(slice, "axis"));
    if (!shard) return no_memory(e);
    if ((size_t)position < shard->position_count) return true; /* read twice */
    for (; shard->position_count <= (size_t)position; shard->position_count++) {
        size_t at = shard->position_count;
        shard->begin[at] = at ? shard->end[at - 1] : 0;
        shard->end[at] = at == (size_t)position ? (uint64_t)end : shard->begin[at];
    }
    return true;
}

/* For a step whose operands are slices: the states are sharded, and the parameter if it is not
 * gathered. */
static bool note_step(exporter *e, MlirOperation step) {
    for (size_t i = 0; i < tsr_op_operand_count(step); i++) {
        MlirOperation slice = tsr_value_owner(tsr_op_operand(step, i));
        if (!tsr_op_is(slice, TSR_SR_SHARD_SLICE)) continue;
        const char *name = sliced_name(tsr_op_result(slice, 0));
        bool state = i >= 2 && name, param = i == 0 && name;
        /* Only zero3 gathers the parameter for its readers; the others gather it after the step. */
        if (param) {
            MlirOperation whole = tsr_value_owner(tsr_op_operand(slice, 0));
            bool gathered = tsr_op_is(whole, TSR_SR_ALL_GATHER);
            for (MlirOpOperand use = mlirValueGetFirstUse(tsr_op_result(step, 0));
                 !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
                gathered = gathered || tsr_op_is(mlirOpOperandGetOwner(use), TSR_SR_ASSEMBLE);
            param = gathered;
        }
        if ((state || param) && !note_slice(e, slice, name)) return false;
    }
    return true;
}

static uint64_t positions_of(const exporter *e, const char *axis) {
    for (size_t i = 0; i < e->found.axis_count; i++)
        if (strcmp(e->found.axes[i].name, axis) == 0) return e->found.axes[i].size;
    return 1;
}

/* Records the parameter of a step, whole or a slice. */
static bool note_name(exporter *e, MlirOperation step) {
    MlirValue param = tsr_op_operand(step, 0);
    MlirOperation owner = tsr_value_owner(param);
    const char *entry = tsr_op_symbol(e->func), *tensor = sliced_name(param);
    if (!tensor && tsr_op_is(owner, TSR_SR_ALL_GATHER))
        tensor = sliced_name(tsr_op_operand(owner, 0));
    if (!tensor || e->virtual_ranks == 1) return true;
    const tsr_deployment_step *last =
        e->found.step_count ? &e->found.steps[e->found.step_count - 1] : NULL;
    if (last && strcmp(last->tensor, tensor) == 0 && strcmp(last->entry, entry) == 0)
        return true; /* recorded at another position */
    if (e->found.step_count == e->step_capacity) {
        tsr_deployment_step *larger =
            TSR_ARENA_GROW(&e->arena, e->found.steps, &e->step_capacity, 16);
        if (!larger) return no_memory(e);
        e->found.steps = larger;
    }
    e->found.steps[e->found.step_count++] = (tsr_deployment_step){entry, tensor};
    return true;
}

static bool read_ops(exporter *e) {
    TSR_FOR_EACH_OP(op, tsr_op_body(e->func)) {
        if (is_step(op) && !(note_step(e, op) && note_name(e, op))) return false;
    }
    return true;
}

static void read_recompute(exporter *e) {
    int64_t plan[4];
    size_t count = 0;
    if (!tsr_op_i64s(e->func, TSR_SR_RECOMPUTE, 4, plan, &count) || count != 4) return;
    e->found.recomputes[e->found.recompute_count++] =
        (tsr_deployment_recompute){.entry = tsr_op_symbol(e->func),
                                   .bytes_before = (uint64_t)plan[0],
                                   .bytes_saved = (uint64_t)plan[1],
                                   .ops = (uint64_t)plan[2],
                                   .operations = (uint64_t)plan[3]};
}

/* Reads a dictionary of tsr_pipelines_note, which may have been edited by hand. */
static bool read_pipeline(exporter *e, MlirAttribute from, tsr_deployment_pipeline *to) {
    static const char *const names[] = {"ranks", "microbatches", "chunks"};
    uint64_t *const counts[] = {&to->ranks, &to->microbatches, &to->chunks};
    if (!mlirAttributeIsADictionary(from)) return false;
    for (size_t i = 0; i < TSR_COUNT(names); i++) {
        MlirAttribute one = mlirDictionaryAttrGetElementByName(from, tsr_ref(names[i]));
        int64_t count = 0;
        if (mlirAttributeIsNull(one) || !tsr_attr_i64(one, &count) || count < 1 ||
            count > TSR_DEPLOYMENT_PIPELINE_MAX)
            return false;
        *counts[i] = (uint64_t)count;
    }
    to->schedule = tsr_attr_string(mlirDictionaryAttrGetElementByName(from, tsr_ref("schedule")));
    to->axis = tsr_attr_string(mlirDictionaryAttrGetElementByName(from, tsr_ref("axis")));
    to->function = tsr_attr_string(mlirDictionaryAttrGetElementByName(from, tsr_ref("function")));
    MlirAttribute stages = mlirDictionaryAttrGetElementByName(from, tsr_ref("stages"));
    if (!to->schedule || mlirAttributeIsNull(stages) || !mlirAttributeIsAArray(stages))
        return false;
    to->stage_count = (size_t)mlirArrayAttrGetNumElements(stages);
    to->stages = TSR_NEW(&e->arena, const char *, to->stage_count + 1);
    if (!to->stages) return false;
    for (size_t i = 0; i < to->stage_count; i++) {
        to->stages[i] = tsr_attr_string(mlirArrayAttrGetElement(stages, (intptr_t)i));
        if (!to->stages[i]) return false;
    }
    return true;
}

static bool read_pipelines(exporter *e) {
    MlirOperation self = mlirModuleGetOperation(e->module);
    if (!tsr_pipelines_note(e->module)) return false;
    MlirAttribute all = tsr_op_attr(self, TSR_PLANNED_PIPELINES);
    if (mlirAttributeIsNull(all)) return true;
    size_t count = mlirAttributeIsAArray(all) ? (size_t)mlirArrayAttrGetNumElements(all) : 0;
    e->found.pipelines = TSR_NEW(&e->arena, tsr_deployment_pipeline, count + 1);
    if (!e->found.pipelines) return no_memory(e);
    for (size_t i = 0; i < count; i++) {
        if (read_pipeline(e, mlirArrayAttrGetElement(all, (intptr_t)i), &e->found.pipelines[i]))
            continue;
        tsr_diag_error(mlirOperationGetLocation(self), TSR_DIAG_SR_MANIFEST,
                       TSR_PLANNED_PIPELINES " of the module: element %zu is not a pipeline", i);
        return false;
    }
    e->found.pipeline_count = count;
    mlirOperationRemoveDiscardableAttributeByName(self, tsr_ref(TSR_PLANNED_PIPELINES));
    return true;
}

/* Positions after the last one with elements are empty. */
static bool fill_positions(exporter *e) {
    for (size_t i = 0; i < e->found.shard_count; i++) {
        tsr_deployment_shard *shard = &e->found.shards[i];
        uint64_t positions = positions_of(e, shard->axis);
        if (positions > TSR_DEPLOYMENT_POSITIONS_MAX) {
            tsr_diag_error(
                mlirOperationGetLocation(mlirModuleGetOperation(e->module)), TSR_DIAG_SR_MESH,
                "axis '%s', over which '%s' is sharded, has %" PRIu64 " positions; at most %d",
                shard->axis, shard->tensor, positions, TSR_DEPLOYMENT_POSITIONS_MAX);
            return false;
        }
        uint64_t last = shard->end[shard->position_count - 1];
        while (shard->position_count < positions) {
            shard->begin[shard->position_count] = last;
            shard->end[shard->position_count++] = last;
        }
    }
    return true;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static bool read_funcs(exporter *e) {
    size_t funcs = 0;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(e->module)) funcs++;
    e->found.recomputes = TSR_NEW(&e->arena, tsr_deployment_recompute, funcs + 1);
    if (!e->found.recomputes) return no_memory(e);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(e->module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        e->func = func;
        if (!read_ops(e)) return false;
        read_recompute(e);
    }
    return fill_positions(e);
}

/* Keeps earlier requests: the pass removes requests from the module. */
static bool record_request(exporter *e) {
    const char *text = tsr_op_string(mlirModuleGetOperation(e->module), TSR_SR_DEPLOYMENT);
    tsr_deployment before = {0};
    if (!text || e->found.include) return true;
    if (tsr_deployment_read(&e->ctx, text, strlen(text), &e->arena, &before).code) {
        tsr_diag_error(mlirOperationGetLocation(mlirModuleGetOperation(e->module)),
                       TSR_DIAG_SR_MANIFEST, "%s", e->ctx.error.text);
        return false;
    }
    e->found.path = before.path;
    e->found.include = before.include;
    return true;
}

static bool is_worth(const tsr_deployment *found) {
    return found->include || found->axis_count || found->shard_count || found->recompute_count ||
           found->pipeline_count || found->step_count;
}

static bool export_manifest(exporter *e) {
    char *json = NULL;
    size_t size_bytes = 0;
    if (!tsr_sr_find_virtual_ranks(e->module, &e->virtual_ranks) || !take_requests(e) ||
        !record_request(e) || !read_mesh(e) || !read_funcs(e) || !read_pipelines(e))
        return false;
    if (!is_worth(&e->found)) return true;
    if (tsr_deployment_write(&e->ctx, &e->found, &e->arena, &json, &size_bytes).code)
        return no_memory(e);
    MlirOperation self = mlirModuleGetOperation(e->module);
    tsr_op_set(self, TSR_SR_DEPLOYMENT, tsr_attr_make_string(mlirOperationGetContext(self), json));
    return true;
}

bool tsr_pass_export_deployment_manifest(MlirModule module) {
    exporter e = {.module = module};
    bool done = export_manifest(&e);
    tsr_arena_finish(&e.arena);
    return done;
}
