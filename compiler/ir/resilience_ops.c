/* SPDX-License-Identifier: Apache-2.0
 *
 * The readers of resilience_ops.h.
 */
#include "compiler/ir/resilience_ops.h"

#include <inttypes.h>

/* ---- ops ---- */

static const tsr_op canonical_ops[TSR_OP_COUNT] = {
#define X(ID, name, DIALECT, Class, rule, CANONICAL) [TSR_SR_##ID] = TSR_##CANONICAL,
#include "compiler/resilience/ops.def"
#undef X
};

tsr_op tsr_sr_op_plain(MlirOperation op) {
    tsr_op id = tsr_op_of(op), canonical = canonical_ops[id];
    return tsr_op_dialect(canonical) == TSR_DIALECT_SR ? canonical : id;
}

bool tsr_sr_is_vrank(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_SR_VRANK || id == TSR_SR_VRANK_ROWS || id == TSR_SR_VRANK_SUM ||
           id == TSR_SR_VRANK_GATHER || id == TSR_SR_VRANK_ALL_TO_ALL || tsr_sr_is_vrank_part(op);
}

bool tsr_sr_is_vrank_part(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_SR_VRANK_PART || id == TSR_SR_VRANK_ALL_GATHER || id == TSR_SR_VRANK_ASSEMBLE;
}

bool tsr_sr_is_region(MlirOperation op) {
    tsr_op id = tsr_sr_op_plain(op);
    return id == TSR_SR_CHECKPOINT || id == TSR_SR_RESILIENCE_REGION || id == TSR_SR_SUSPEND;
}

MlirBlock tsr_sr_body(MlirOperation op) {
    return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0));
}

/* ---- tokens ---- */

bool tsr_sr_is_token(MlirType type) {
    MlirContext context = mlirTypeGetContext(type);
    return mlirTypeEqual(type, mlirTypeParseGet(context, tsr_ref("!async.token"))) ||
           mlirTypeEqual(type, mlirTypeParseGet(context, tsr_ref("!tessera_sr.token")));
}

bool tsr_sr_has_token(MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        if (tsr_sr_is_token(mlirValueGetType(tsr_op_operand(op, i)))) return true;
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        if (tsr_sr_is_token(mlirValueGetType(tsr_op_result(op, i)))) return true;
    return false;
}

/* ---- recomputation ---- */

bool tsr_sr_wants_recompute(MlirOperation func) {
    return tsr_op_has(func, TSR_SR_SEGMENTS) || tsr_op_has(func, TSR_SR_HINT);
}

void tsr_sr_mark_backward(MlirOperation last, MlirOperation end) {
    MlirOperation op = mlirOperationGetNextInBlock(last);
    for (; !mlirOperationEqual(op, end); op = mlirOperationGetNextInBlock(op))
        tsr_op_set(op, TSR_SR_BACKWARD, tsr_attr_make_unit(mlirOperationGetContext(op)));
}

/* ---- virtual ranks ---- */

uint64_t tsr_sr_virtual_ranks(MlirModule module) {
    int64_t count = 1;
    tsr_op_i64(mlirModuleGetOperation(module), TSR_SR_VIRTUAL_RANKS, &count);
    return count > 0 ? (uint64_t)count : 1;
}

bool tsr_sr_is_batch_axis(MlirStringRef name) {
    return tsr_ref_is(name, "data") || tsr_ref_is(name, "dp") || tsr_ref_is(name, "batch") ||
           tsr_ref_is(name, "expert");
}

static bool fail_mesh(MlirOperation op, const char *what, int64_t has) {
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_MESH,
                   "%s is %" PRId64 "; expected 1 to %d", what, has, TSR_VIRTUAL_RANKS_MAX);
    return false;
}

/* The axis over which a parameter of an entry is split; NULL if none is. */
static const char *find_layout_axis(MlirModule module) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
            if (tsr_op_has(op, TSR_LAYOUT_AXIS)) return tsr_op_string(op, TSR_LAYOUT_AXIS);
        }
    }
    return NULL;
}

/* The number in the attribute, else the product of the batch axes of the mesh; without a batch
 * axis, the length of the axis over which parameters are split. */
bool tsr_sr_find_virtual_ranks(MlirModule module, uint64_t *out_count) {
    MlirOperation op = mlirModuleGetOperation(module);
    MlirAttribute mesh = tsr_op_attr(op, "tessera.mesh");
    int64_t parts = 1, size = 0;
    if (tsr_op_has(op, TSR_SR_VIRTUAL_RANKS)) {
        if (!tsr_op_i64(op, TSR_SR_VIRTUAL_RANKS, &parts)) parts = 0;
    } else if (!mlirAttributeIsNull(mesh) && mlirAttributeIsADictionary(mesh)) {
        for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(mesh); i++) {
            MlirNamedAttribute axis = mlirDictionaryAttrGetElement(mesh, i);
            if (!tsr_sr_is_batch_axis(mlirIdentifierStr(axis.name))) continue;
            if (!tsr_attr_i64(axis.attribute, &size) || size < 1 || size > TSR_VIRTUAL_RANKS_MAX)
                return fail_mesh(op, "a batch axis of tessera.mesh", size);
            parts *= size;
            if (parts > TSR_VIRTUAL_RANKS_MAX) break;
        }
        const char *axis = parts == 1 ? find_layout_axis(module) : NULL;
        MlirAttribute of =
            axis ? mlirDictionaryAttrGetElementByName(mesh, tsr_ref(axis)) : mlirAttributeGetNull();
        if (!mlirAttributeIsNull(of) && !tsr_attr_i64(of, &parts)) parts = 0;
    }
    if (parts < 1 || parts > TSR_VIRTUAL_RANKS_MAX)
        return fail_mesh(op, "the number of virtual ranks", parts);
    *out_count = (uint64_t)parts;
    return true;
}
