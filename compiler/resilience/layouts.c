/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of pass tessera-virtual-ranks: tensors with a declared layout, and tables whose rows stay.
 */
#include "compiler/resilience/resilience.h"
#include "compiler/resilience/split_rules.h"
#include "compiler/resilience/splitter.h"
#include "compiler/resilience/vocabulary.h"

#include <inttypes.h>
#include <string.h>

/* ---- tensors with a declared layout ---------------------------------------------------------- */

/* The read of parameter `name` that declares its layout; null if none does. */
static MlirOperation find_layout(tsr_splitter *s, const char *name) {
    TSR_FOR_EACH_OP(op, tsr_op_body(s->func)) {
        const char *of = tsr_op_is(op, TSR_GRAPH_PARAM) ? tsr_op_string(op, "name") : NULL;
        if (of && strcmp(of, name) == 0 && tsr_op_has(op, TSR_LAYOUT_AXIS)) return op;
    }
    return (MlirOperation){NULL};
}

/* The parameter whose layout a tensor has: that of its own, or of the parameter of a state. */
static const char *layout_name(MlirOperation op) {
    if (tsr_op_is(op, TSR_GRAPH_PARAM)) return tsr_op_string(op, "name");
    return tsr_op_is(op, TSR_GRAPH_OPT_STATE) ? tsr_op_string(op, "of") : NULL;
}

/* The dim that products read in parts. */
static int split_dim(MlirOperation declared) {
    int64_t dim = 0;
    return tsr_op_has(declared, TSR_LAYOUT_DIM) && tsr_op_i64(declared, TSR_LAYOUT_DIM, &dim)
               ? (int)dim
               : 0;
}

static bool divides(const tsr_splitter *s, const tsr_shape *shape, int dim) {
    return dim >= 0 && dim < (int)shape->rank && shape->dims[dim] &&
           shape->dims[dim] % s->parts == 0;
}

/* Checks that the axis has as many positions as there are virtual ranks, which divide dim 0, and
 * the dim that is split. */
static bool check_layout(tsr_splitter *s, MlirOperation op, MlirOperation declared) {
    MlirAttribute mesh = tsr_op_attr(mlirModuleGetOperation(s->module), "tessera.mesh");
    const char *axis = tsr_op_string(declared, TSR_LAYOUT_AXIS);
    int64_t size = 0;
    tsr_type type = tsr_type_of(tsr_op_result(op, 0));
    if (!mlirAttributeIsNull(mesh) && mlirAttributeIsADictionary(mesh)) {
        MlirAttribute of = mlirDictionaryAttrGetElementByName(mesh, tsr_ref(axis));
        if (!mlirAttributeIsNull(of)) tsr_attr_i64(of, &size);
    }
    if (size < 1 || (uint64_t)size != s->parts) {
        tsr_diag_error(mlirOperationGetLocation(declared), TSR_DIAG_SR_MESH,
                       "tsched.layout: axis \"%s\" has %" PRId64 " positions; expected the "
                       "%" PRIu64 " positions of the program",
                       axis, size, s->parts);
        return false;
    }
    for (int i = 0, dims[] = {0, split_dim(declared)}; i < 2; i++) {
        if (type.shape.rank >= 2 && divides(s, &type.shape, dims[i])) continue;
        tsr_diag_error(mlirOperationGetLocation(declared), TSR_DIAG_SR_SHARD,
                       "tsched.layout: dim %d of '%s' is %" PRIu64 "; expected a tensor of two "
                       "dims or more, with a multiple of %" PRIu64,
                       dims[i], tsr_op_string(op, "name"),
                       (int)type.shape.rank > dims[i] ? type.shape.dims[dims[i]] : 1, s->parts);
        return false;
    }
    return true;
}

/* A read of a tensor that stays where it is: each virtual rank reads its rows in place. Products
 * that read another dim in parts get it by an exchange. */
bool tsr_layout_read(tsr_splitter *s, MlirOperation op, bool *out_good) {
    const char *name = layout_name(op);
    MlirOperation declared = name ? find_layout(s, name) : (MlirOperation){NULL};
    *out_good = true;
    if (mlirOperationIsNull(declared)) return false;
    *out_good = check_layout(s, op, declared);
    if (!*out_good) return true;
    tsr_builder b = tsr_builder_before(mlirOperationGetNextInBlock(op));
    MlirValue whole = tsr_op_result(op, 0);
    tsr_type part = tsr_splitter_divided(tsr_type_of(whole), 0, s->parts);
    b.location = mlirOperationGetLocation(op);
    MlirValue rows = tsr_build_value(&b, "tessera_sr.vrank_part", &whole, 1,
                                     tsr_type_make(s->context, &part), NULL);
    tsr_sharded_value *view = &s->views[tsr_splitter_add(s, whole, 0, rows)];
    view->stays = true;
    view->reads = split_dim(declared);
    return true;
}

/* ---- tables whose rows are split ---- */

/* A value that each virtual rank has whole. */
static MlirValue whole_value(tsr_splitter *s, MlirValue value) {
    MlirValue whole = tsr_splitter_whole(s, value);
    if (tsr_value_map_get(&s->numbers, whole) == UINT32_MAX)
        tsr_splitter_add(s, whole, TSR_SPLIT_WHOLE, whole);
    return whole;
}

/* A gather from rows that stay where they are: the indices come to the rows. */
bool tsr_layout_gather(tsr_splitter *s, MlirOperation op) {
    int64_t axis = -1;
    if (!tsr_op_is(op, TSR_GRAPH_GATHER) || !tsr_op_i64(op, "axis", &axis) || axis != 0)
        return false;
    const tsr_sharded_value *table = tsr_splitter_view(s, tsr_op_operand(op, 0));
    tsr_dtype dtype = tsr_type_of(tsr_op_operand(op, 0)).dtype;
    if (!table->stays || table->state != 0 || (dtype != TSR_DTYPE_F32 && dtype != TSR_DTYPE_F64))
        return false;
    tsr_builder b = tsr_builder_before(op);
    MlirValue part = table->local;
    uint64_t own = tsr_type_of(part).shape.dims[0];
    const tsr_table_rows rows = {tsr_splitter_begin(s, &b, own, TSR_DTYPE_I64), own * s->parts};
    MlirValue indices = tsr_splitter_whole(s, tsr_op_operand(op, 1));
    uint32_t number = tsr_splitter_add(s, tsr_op_result(op, 0), TSR_SPLIT_PARTIAL,
                                       tsr_vocabulary_gather(&b, &rows, part, indices));
    s->views[number].scatters = true;
    s->replaced[s->replaced_count++] = op;
    return true;
}

/* True if a tensor with a declared layout has this shape. */
static bool is_shape_of_layout(tsr_splitter *s, const tsr_shape *shape) {
    TSR_FOR_EACH_OP(op, tsr_op_body(s->func)) {
        if (!tsr_op_is(op, TSR_GRAPH_PARAM) || !tsr_op_has(op, TSR_LAYOUT_AXIS)) continue;
        tsr_shape of = tsr_type_of(tsr_op_result(op, 0)).shape;
        if (tsr_shape_equal(&of, shape)) return true;
    }
    return false;
}

static bool is_zeros(MlirValue value) {
    MlirOperation op = tsr_value_owner(value);
    double splat = 1;
    return !mlirOperationIsNull(op) && tsr_op_is(op, TSR_GRAPH_CONSTANT) &&
           tsr_attr_splat(tsr_op_attr(op, "value"), &splat) && splat == 0;
}

/* True if a gather before `scatter` reads rows of a table of the same height by its indices. */
static bool is_checked(MlirOperation scatter) {
    MlirValue indices = tsr_op_operand(scatter, 1);
    uint64_t rows = tsr_type_of(tsr_op_result(scatter, 0)).shape.dims[0];
    for (MlirOpOperand use = mlirValueGetFirstUse(indices); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use)) {
        MlirOperation op = mlirOpOperandGetOwner(use);
        int64_t axis = -1;
        if (tsr_op_is(op, TSR_GRAPH_GATHER) && tsr_op_i64(op, "axis", &axis) && axis == 0 &&
            mlirOpOperandGetOperandNumber(use) == 1 && mlirOperationIsBeforeInBlock(op, scatter) &&
            tsr_type_of(tsr_op_operand(op, 0)).shape.dims[0] == rows)
            return true;
    }
    return false;
}

/* Parts of tensors are written in place only after the last op that can fail. The gradient of a
 * lookup comes last in a backward pass, and cannot fail if the lookup did not. */
void tsr_layout_mark_checked(MlirOperation func) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        int64_t axis = -1;
        if (tsr_op_is(op, TSR_GRAPH_SCATTER_ADD) && tsr_op_i64(op, "axis", &axis) && axis == 0 &&
            is_checked(op))
            tsr_op_set(op, TSR_CHECKED_NAME, tsr_attr_make_unit(mlirOperationGetContext(op)));
    }
}

/* Marks the scatter of which the value is a slice. */
static void mark_scatter(MlirValue slice) {
    MlirOperation op = tsr_value_owner(tsr_op_operand(tsr_value_owner(slice), 0));
    if (tsr_op_is(op, TSR_GRAPH_SCATTER_ADD))
        tsr_op_set(op, TSR_CHECKED_NAME, tsr_attr_make_unit(mlirOperationGetContext(op)));
}

/* The gradient of a gather from split rows: the updates come to the rows. */
bool tsr_layout_scatter(tsr_splitter *s, MlirOperation op) {
    int64_t axis = -1;
    if (!s->stays || !tsr_op_is(op, TSR_GRAPH_SCATTER_ADD) || !tsr_op_i64(op, "axis", &axis) ||
        axis != 0 || !is_zeros(tsr_op_operand(op, 0)))
        return false;
    tsr_type type = tsr_type_of(tsr_op_result(op, 0));
    if (!is_shape_of_layout(s, &type.shape)) return false;
    tsr_builder b = tsr_builder_before(op);
    tsr_type part = tsr_splitter_divided(type, 0, s->parts);
    const tsr_table_rows rows = {tsr_splitter_begin(s, &b, part.shape.dims[0], TSR_DTYPE_I64),
                                 type.shape.dims[0]};
    MlirValue made = tsr_vocabulary_scatter(&b, &rows, tsr_splitter_whole(s, tsr_op_operand(op, 1)),
                                            tsr_splitter_whole(s, tsr_op_operand(op, 2)), &part);
    if (tsr_op_has(op, TSR_CHECKED_NAME)) mark_scatter(made);
    tsr_splitter_add(s, tsr_op_result(op, 0), 0, made);
    s->replaced[s->replaced_count++] = op;
    return true;
}

/* Replaces losses over split classes by simpler ops; returns the first new op. */
MlirOperation tsr_layout_expand(tsr_splitter *s, MlirOperation op) {
    MlirValue operands[3];
    size_t count = tsr_op_operand_count(op);
    bool losses =
        tsr_op_is(op, TSR_GRAPH_CROSS_ENTROPY) || tsr_op_is(op, TSR_GRAPH_CROSS_ENTROPY_GRAD);
    if (!s->stays || !losses || tsr_splitter_view(s, tsr_op_operand(op, 0))->state != 1)
        return (MlirOperation){NULL};
    operands[0] = tsr_op_operand(op, 0);
    for (size_t i = 1; i < count; i++) operands[i] = whole_value(s, tsr_op_operand(op, i));
    tsr_builder b = tsr_builder_before(op);
    MlirValue mark = tsr_emit_constant(&b, TSR_DTYPE_I64, 0);
    MlirOperation first = tsr_value_owner(mark);
    MlirValue result = tsr_vocabulary_losses(&b, op, operands);
    tsr_emit_replace(op, 1, &result);
    return first;
}

/* The read of the tensor that an assign changes; null if the tensor is whole. */
static MlirOperation find_split_read(tsr_splitter *s, const char *target) {
    TSR_FOR_EACH_OP(op, tsr_op_body(s->func)) {
        const char *of = layout_name(op) ? tsr_op_string(op, "name") : NULL;
        if (!of || strcmp(of, target) != 0) continue;
        return tsr_splitter_view(s, tsr_op_result(op, 0))->state == 0 ? op : (MlirOperation){NULL};
    }
    return (MlirOperation){NULL};
}

/* Each virtual rank writes its rows of the next value. */
bool tsr_layout_assign(tsr_splitter *s, MlirOperation op) {
    const char *target = s->stays ? tsr_op_string(op, "target") : NULL;
    if (!target || mlirOperationIsNull(find_split_read(s, target))) return false;
    tsr_builder b = tsr_builder_before(op);
    MlirValue value = tsr_op_operand(op, 0), part = tsr_splitter_part(s, &b, value, 0, 0);
    MlirValue view =
        tsr_build_value(&b, "tessera_sr.vrank_assemble", &part, 1, mlirValueGetType(value), NULL);
    mlirOperationSetOperand(op, 0, view);
    return true;
}
