/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule of tile.load_fragment: it checks the reader of the fragment and its ring. The rule of
 * tile.store_fragment checks the ring itself. Also the rule of tile.mma about the order in which it
 * reads f32.
 */
#include "compiler/ir/attributes.h"
#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/features.h"
#include "compiler/shim/shim.h"
#include "compiler/tile/tile.h"

#include <inttypes.h>
#include <string.h>

bool tsr_tile_rule_strided(MlirOperation op, const tsr_feature *has) {
    bool on_waves = has && has->vendor == TSR_VENDOR_AMD;
    if (on_waves || (has && !tsr_feature_has(has, "wgmma."))) return true; /* mma.sync, MFMA */
    return tsr_op_emit_error(
        op, TSR_DIAG_TILE_TYPE,
        "factors of f32 are read along their rows; expected transpose_b and no transpose_a");
}

/* The only user of the value, if it is the op `id` in the same block; null otherwise. */
static MlirOperation reader_of(MlirValue value, tsr_op id) {
    MlirOpOperand use = mlirValueGetFirstUse(value);
    MlirOperation none = {NULL};
    if (mlirOpOperandIsNull(use) || !mlirOpOperandIsNull(mlirOpOperandGetNextUse(use))) return none;
    MlirOperation user = mlirOpOperandGetOwner(use);
    bool same_block =
        mlirBlockEqual(mlirOperationGetBlock(user), mlirOperationGetBlock(tsr_value_owner(value)));
    return same_block && tsr_op_is(user, id) ? user : none;
}

/* True if only the load and the store use the ring. */
static bool is_own(MlirValue ring, MlirOperation load, MlirOperation store) {
    for (MlirOpOperand use = mlirValueGetFirstUse(ring); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use)) {
        MlirOperation user = mlirOpOperandGetOwner(use);
        if (!mlirOperationEqual(user, load) && !mlirOperationEqual(user, store)) return false;
    }
    return true;
}

/* Checks that the copy engine can read the buffer's rows. */
static bool check_rows(MlirOperation op, MlirValue buffer) {
    enum { UNIT = 16 };
    MlirType type = mlirValueGetType(buffer);
    int64_t size = mlirTypeIsAF32(mlirShapedTypeGetElementType(type)) ? 4 : 2;
    int64_t row = tsr_buffer_row(type) * size;
    if (row % UNIT == 0) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                             "rows of a buffer are %" PRId64 " bytes; expected a multiple of %d",
                             row, UNIT);
}

/* The store of the one tile.map result that is computed from the loaded fragment; null if there is
 * no such store. Neither the map nor the store has been verified yet. */
static MlirOperation store_of(MlirOperation op, MlirValue ring) {
    MlirOperation none = {NULL}, map = reader_of(tsr_op_result(op, 0), TSR_TILE_MAP);
    if (mlirOperationIsNull(map) || tsr_op_operand_count(map) != 4 ||
        !mlirValueEqual(tsr_op_operand(map, 3), tsr_op_result(op, 0)) ||
        tsr_op_result_count(map) != 1)
        return none;
    MlirOperation store = reader_of(tsr_op_result(map, 0), TSR_TILE_STORE_FRAGMENT);
    size_t count = mlirOperationIsNull(store) ? 0 : tsr_op_operand_count(store);
    if (count < 3 || !mlirValueEqual(tsr_op_operand(store, 0), tsr_op_result(map, 0)) ||
        !mlirValueEqual(tsr_op_operand(store, count - 1), ring) || !is_own(ring, op, store))
        return none;
    MlirType type = mlirValueGetType(tsr_op_operand(store, 1));
    return mlirTypeIsAMemRef(type) && mlirShapedTypeGetRank(type) > 1 ? store : none;
}

static bool check_reader(MlirOperation op, MlirValue ring) {
    MlirOperation store = store_of(op, ring);
    if (mlirOperationIsNull(store))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_CONTEXT,
                                 "expected one tile.map to read it, and one tile.store_fragment to "
                                 "store the result, through the same ring");
    MlirOperation map = tsr_value_owner(tsr_op_operand(store, 0));
    if (!mlirTypeEqual(mlirValueGetType(tsr_op_result(op, 0)),
                       mlirValueGetType(tsr_op_operand(map, 0))))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "the fragments that tile.map reads differ in their types");
    return check_rows(op, tsr_op_operand(store, 1));
}

static bool check_buffer(MlirOperation op, MlirValue buffer, MlirValue ring) {
    MlirType type = mlirValueGetType(buffer), element = {NULL};
    int64_t rank = mlirShapedTypeGetRank(type), dims[3] = {0};
    int64_t indices = (int64_t)tsr_op_operand_count(op) - 2;
    if (rank < 2 || indices != rank)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                                 "%" PRId64 " indices of %" PRId64
                                 " dimensions; expected the same number of both, at least 2",
                                 indices, rank);
    if (!tsr_shim_tile_shared(mlirValueGetType(ring), dims, &element) ||
        !mlirTypeEqual(element, mlirShapedTypeGetElementType(type)))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "the ring and the buffer differ in element type");
    return check_rows(op, buffer);
}

bool tsr_tile_rule_load_fragment(MlirOperation op) {
    size_t count = tsr_op_operand_count(op);
    MlirValue buffer = tsr_op_operand(op, 0), ring = tsr_op_operand(op, count - 1);
    MlirOperation module = op;
    while (!mlirOperationIsNull(module) && !tsr_op_is(module, TSR_BUILTIN_MODULE))
        module = mlirOperationGetParentOperation(module);
    const char *target =
        mlirOperationIsNull(module) ? NULL : tsr_op_string(module, TSR_TARGET_NAME);
    if (target && strcmp(target, "cuda:sm_90a") != 0)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TARGET,
                                 "there is no machine code for it on '%s'; expected 'cuda:sm_90a'",
                                 target);
    MlirOperation owner = tsr_value_owner(buffer);
    if (!mlirOperationIsNull(owner) && !tsr_op_is(owner, TSR_TILE_VIEW))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "loads from a buffer that is not an argument of the kernel");
    return check_buffer(op, buffer, ring) && check_reader(op, ring);
}
