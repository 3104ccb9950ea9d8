/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of plans: one function per rule of dialect.def, and pass tsched-verify, which looks up
 * the functions they name.
 */
#include "compiler/ir/pipeline.h"
#include "compiler/schedule/schedule.h"
#include "compiler/schedule/tiling.h"
#include "compiler/shim/shim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SIZES_MAX = TSR_TILE_SIZES_MAX };

static const char *const sources[] = {"default", "safe", "model", "user", "autotune", NULL};

static bool check_least(MlirOperation op, const char *name, int64_t least, tsr_diag_number number) {
    int64_t value = 0;
    if (!tsr_op_has(op, name) || (tsr_op_i64(op, name, &value) && value >= least)) return true;
    return tsr_op_emit_error(op, number, "%s is %" PRId64 "; expected at least %" PRId64, name,
                             value, least);
}

/* ---- the mesh ---- */

/* The innermost mesh around `op`; null if no mesh is declared. */
static MlirAttribute find_mesh(MlirOperation op) {
    for (; !mlirOperationIsNull(op); op = mlirOperationGetParentOperation(op))
        if (tsr_op_is(op, TSR_SCHED_MESH_REGION) && tsr_op_has(op, "mesh"))
            return tsr_op_attr(op, "mesh");
    return mlirAttributeGetNull();
}

static bool check_axis(MlirOperation op, const char *axis) {
    MlirAttribute mesh = find_mesh(op);
    if (!axis || mlirAttributeIsNull(mesh) ||
        !mlirAttributeIsNull(mlirDictionaryAttrGetElementByName(mesh, tsr_ref(axis))))
        return true;
    return tsr_op_emit_error(op, TSR_DIAG_PLAN_MESH, "the mesh has no axis \"%s\"", axis);
}

static bool rule_mesh_region(MlirOperation op) {
    MlirAttribute mesh = tsr_op_attr(op, "mesh");
    const char *axis = tsr_op_string(op, "axis");
    for (intptr_t i = 0; !mlirAttributeIsNull(mesh) && i < mlirDictionaryAttrGetNumElements(mesh);
         i++) {
        int64_t size = 0;
        MlirNamedAttribute element = mlirDictionaryAttrGetElement(mesh, i);
        if (!tsr_attr_i64(element.attribute, &size) || size < 1)
            return tsr_op_emit_error(op, TSR_DIAG_PLAN_MESH,
                                     "axis \"%s\" has no size of at least 1",
                                     mlirIdentifierStr(element.name).data);
    }
    if (mlirAttributeIsNull(find_mesh(op)))
        return tsr_op_emit_error(op, TSR_DIAG_PLAN_MESH, "no mesh is declared here or around it");
    for (MlirOperation outer = mlirOperationGetParentOperation(op); !mlirOperationIsNull(outer);
         outer = mlirOperationGetParentOperation(outer)) {
        const char *used =
            tsr_op_is(outer, TSR_SCHED_MESH_REGION) ? tsr_op_string(outer, "axis") : NULL;
        if (used && strcmp(used, axis) == 0)
            return tsr_op_emit_error(op, TSR_DIAG_PLAN_MESH,
                                     "axis \"%s\" is already used by an enclosing region", axis);
    }
    return check_axis(op, axis);
}

/* ---- groups ---- */

static bool rule_any(MlirOperation op) {
    (void)op;
    return true;
}

static bool rule_fuse(MlirOperation op) {
    return tsr_op_check_word(op, "source", sources) &&
           check_least(op, "flops", 0, TSR_DIAG_PLAN_COST) &&
           check_least(op, "bytes", 0, TSR_DIAG_PLAN_COST) &&
           check_least(op, "time_ns", 0, TSR_DIAG_PLAN_COST);
}

static size_t array_size(MlirOperation op, const char *name) {
    return tsr_op_has(op, name) ? (size_t)mlirArrayAttrGetNumElements(tsr_op_attr(op, name)) : 0;
}

static const char *array_word(MlirOperation op, const char *name, size_t index) {
    return tsr_attr_string(mlirArrayAttrGetElement(tsr_op_attr(op, name), (intptr_t)index));
}

static bool check_distinct(MlirOperation op, const char *name) {
    for (size_t i = 0; i < array_size(op, name); i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(array_word(op, name, i), array_word(op, name, k)) == 0)
                return tsr_op_emit_error(op, TSR_DIAG_PLAN_LAYOUT, "%s names \"%s\" twice", name,
                                         array_word(op, name, i));
    return true;
}

static bool rule_layout(MlirOperation op) {
    size_t dims = array_size(op, "partition"), axes = array_size(op, "mesh_axes");
    if (dims != axes)
        return tsr_op_emit_error(op, TSR_DIAG_PLAN_LAYOUT,
                                 "%zu dims are sharded over %zu axes of the mesh", dims, axes);
    MlirOperation owner = tsr_value_owner(tsr_op_operand(op, 0));
    tsr_type type;
    if (tsr_op_is(owner, TSR_SCHED_VALUE) && tsr_value_type(tsr_op_operand(owner, 0), &type) &&
        dims > type.shape.rank)
        return tsr_op_emit_error(op, TSR_DIAG_PLAN_LAYOUT,
                                 "%zu dims are sharded; the tensor has %u", dims, type.shape.rank);
    for (size_t i = 0; i < axes; i++)
        if (!check_axis(op, array_word(op, "mesh_axes", i))) return false;
    return check_distinct(op, "partition") && check_distinct(op, "mesh_axes") &&
           check_distinct(op, "order");
}

static bool read_sizes(MlirAttribute attr, int64_t *sizes, size_t *out_count) {
    if (!mlirAttributeIsAArray(attr)) return false;
    size_t count = (size_t)mlirArrayAttrGetNumElements(attr);
    if (count == 0 || count > SIZES_MAX) return false;
    for (size_t i = 0; i < count; i++)
        if (!tsr_attr_i64(mlirArrayAttrGetElement(attr, (intptr_t)i), &sizes[i]) || sizes[i] < 0)
            return false;
    *out_count = count;
    return true;
}

static bool check_candidates(MlirOperation op, const int64_t *chosen, size_t chosen_count) {
    size_t candidates = array_size(op, "candidates"), first = 0, count = 0;
    bool found = candidates == 0 || chosen_count == 0;
    for (size_t i = 0; i < candidates; i++) {
        int64_t sizes[SIZES_MAX];
        if (!read_sizes(mlirArrayAttrGetElement(tsr_op_attr(op, "candidates"), (intptr_t)i), sizes,
                        &count))
            return tsr_op_emit_error(op, TSR_DIAG_PLAN_TILE,
                                     "candidate %zu is not an array of 1 to %d sizes", i,
                                     SIZES_MAX);
        if (i == 0) first = count;
        if (count != first)
            return tsr_op_emit_error(op, TSR_DIAG_PLAN_TILE,
                                     "candidate %zu has %zu sizes; the first has %zu", i, count,
                                     first);
        found |= count == chosen_count && memcmp(sizes, chosen, count * sizeof *sizes) == 0;
    }
    return found || tsr_op_emit_error(op, TSR_DIAG_PLAN_TILE,
                                      "the chosen sizes are not one of the candidates");
}

static bool rule_tile(MlirOperation op) {
    int64_t chosen[SIZES_MAX];
    size_t count = 0, loops = array_size(op, "loops");
    if (tsr_op_has(op, "chosen") && !read_sizes(tsr_op_attr(op, "chosen"), chosen, &count))
        return tsr_op_emit_error(op, TSR_DIAG_PLAN_TILE, "chosen is not an array of 1 to %d sizes",
                                 SIZES_MAX);
    if (loops && count && loops != count)
        return tsr_op_emit_error(op, TSR_DIAG_PLAN_TILE,
                                 "%zu loops for %zu sizes; expected one for each", loops, count);
    return check_candidates(op, chosen, count) && tsr_op_check_word(op, "source", sources);
}

static bool rule_collective(MlirOperation op) {
    static const char *const patterns[] = {"all_reduce", "all_gather", "reduce_scatter",
                                           "all_to_all", "RS_MM_AG",   NULL};
    static const char *const algorithms[] = {"ring", "tree", NULL};
    static const char *const topologies[] = {"nvlink", "pcie", "ib", "shm", NULL};
    static const char *const formats[] = {"off", "fp8", "int8", NULL};
    return tsr_op_check_word(op, "pattern", patterns) &&
           tsr_op_check_word(op, "algo", algorithms) &&
           tsr_op_check_word(op, "topology", topologies) &&
           tsr_op_check_word(op, "quantize", formats) &&
           check_least(op, "bytes", 0, TSR_DIAG_PLAN_COST) &&
           check_axis(op, tsr_op_string(op, "axis"));
}

static bool rule_plan_return(MlirOperation op) {
    bool plan = tsr_op_is(mlirOperationGetParentOperation(op), TSR_SCHED_MODULE);
    MlirType group = mlirTypeParseGet(mlirOperationGetContext(op), tsr_ref("!tsched.func"));
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirType type = mlirValueGetType(tsr_op_operand(op, i));
        if (plan ? !mlirTypeEqual(type, group) : !mlirTypeIsARankedTensor(type))
            return tsr_op_emit_error(op, TSR_DIAG_PLAN_RETURN, "value %zu is not a %s", i,
                                     plan ? "!tsched.func" : "tensor");
    }
    return true;
}

/* ---- pipelines ---- */

static bool rule_pipeline(MlirOperation op) {
    tsr_wavefront pipeline;
    return tsr_wavefront_read(op, &pipeline) && check_axis(op, tsr_op_string(op, "axis"));
}

/* True if it reads the stage before it, and no other. */
static bool check_stage(MlirOperation op, MlirOperation before, uint32_t index) {
    uint32_t edges = 0;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirOperation owner = tsr_value_owner(tsr_op_operand(op, i));
        if (!tsr_op_is(owner, TSR_SCHED_STAGE)) continue;
        edges++;
        if (!mlirOperationEqual(owner, before))
            return tsr_op_emit_error(op, TSR_DIAG_PLAN_STAGE,
                                     "stage %u does not read the stage before it", index);
    }
    if (edges == (index > 0)) return true;
    return tsr_op_emit_error(op, TSR_DIAG_PLAN_STAGE,
                             "stage %u reads the stage before it %u times; expected once", index,
                             edges);
}

static bool rule_pipeline_region(MlirOperation op) {
    tsr_wavefront pipeline;
    MlirOperation before = {NULL};
    uint32_t count = 0;
    if (!rule_pipeline(op)) return false;
    TSR_FOR_EACH_OP(stage, tsr_op_body(op)) {
        int64_t rank = -1;
        if (!tsr_op_is(stage, TSR_SCHED_STAGE)) continue;
        tsr_wavefront_read(op, &pipeline);
        tsr_op_i64(stage, "rank", &rank);
        if (rank != count % pipeline.ranks)
            return tsr_op_emit_error(stage, TSR_DIAG_PLAN_STAGE,
                                     "stage %u is on rank %" PRId64 "; expected rank %u", count,
                                     rank, count % pipeline.ranks);
        if (!check_stage(stage, before, count)) return false;
        before = stage;
        count++;
    }
    tsr_wavefront_read(op, &pipeline);
    if (count == 0 || count == pipeline.ranks * pipeline.chunks) return true;
    return tsr_op_emit_error(op, TSR_DIAG_PLAN_STAGE, "it holds %u stages; expected %u * %u", count,
                             pipeline.ranks, pipeline.chunks);
}

#define rule_unchecked NULL
bool tsr_schedule_verify_plan(MlirOperation op) {
    static bool (*const rules[TSR_OP_COUNT])(MlirOperation op) = {
#define X(ID, mnemonic, Class, KIND, rule) [TSR_SCHED_##ID] = rule_##rule,
#include "compiler/schedule/dialect.def"
#undef X
    };
    tsr_op id = tsr_op_of(op);
    TSR_ASSERT(rules[id]); /* an op of KIND PLAN */
    return rules[id](op);
}

/* ---- tsched-verify ---- */

typedef struct lookup {
    MlirModule module;
    bool good;
} lookup;

static MlirWalkResult resolve(MlirOperation op, void *user) {
    lookup *l = user;
    if (!tsr_op_is(op, TSR_SCHED_FUSE) && !tsr_op_is(op, TSR_SCHED_PIPELINE) &&
        !tsr_op_is(op, TSR_SCHED_STAGE))
        return MlirWalkResultAdvance;
    const char *name = tsr_op_string(op, "callee");
    MlirOperation callee = tsr_module_find(l->module, name);
    if (!tsr_op_is(callee, TSR_FUNC_FUNC) && !tsr_op_is(callee, TSR_SCHED_FUNC)) {
        l->good = tsr_op_emit_error(op, TSR_DIAG_PLAN_SYMBOL, "there is no function @%s", name);
        return MlirWalkResultAdvance;
    }
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(callee, "function_type"));
    if (tsr_op_is(op, TSR_SCHED_FUSE) &&
        (size_t)mlirFunctionTypeGetNumInputs(type) != tsr_op_operand_count(op))
        l->good =
            tsr_op_emit_error(op, TSR_DIAG_PLAN_SYMBOL, "%zu values for @%s, which takes %zd",
                              tsr_op_operand_count(op), name, mlirFunctionTypeGetNumInputs(type));
    return MlirWalkResultAdvance;
}

bool tsr_pass_verify_plans(MlirModule module) {
    lookup l = {.module = module, .good = true};
    mlirOperationWalk(mlirModuleGetOperation(module), resolve, &l, MlirWalkPreOrder);
    return l.good;
}
