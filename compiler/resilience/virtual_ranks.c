/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-virtual-ranks, on straight-line programs: the ops of a training entry that work on
 * the batch become ops on the rows of one of V virtual ranks, which are run once for each virtual
 * rank. Sums over the batch become sums over virtual ranks, by one binary tree, so that the bits do
 * not depend on which rank runs which virtual rank. Outline: virtual ranks of a module · values
 * (whole, rows of a virtual rank) · ops · entries.
 *
 *   tessera_sr.vrank_rows    rows of a data input
 *   tessera_sr.vrank         the virtual rank's number, the base of random numbers and indices
 *   tessera_sr.vrank_sum     the sum over virtual ranks, which replaces a sum over the batch
 *   tessera_sr.vrank_gather  all rows, for ops that need them; the first dim
 *   tessera_sr.vrank_all_to_all  another dim becomes the one that is split
 *
 * A parameter with a declared layout, and its state, are split along dim 0: each virtual rank reads
 * and writes its rows in place, and the values computed from them stay split.
 */
#include "compiler/graph/emit.h"
#include "compiler/ir/op_rows.h"
#include "compiler/ir/value_map.h"
#include "compiler/process/guard.h"
#include "compiler/resilience/passes.h"
#include "compiler/resilience/resilience.h"
#include "compiler/resilience/split_rules.h"
#include "compiler/resilience/splitter.h"
#include "manifests/config.h"

#include <inttypes.h>
#include <string.h>

enum {
    SLICE_DEPTH_MAX = 64,
    EXCHANGE_MAX = 256 /* TSR_PROGRAM_ALL_TO_ALL_MAX */,
    EXPANDED_MAX = 64
};

/* ---- values ---------------------------------------------------------------------------------- */

uint32_t tsr_splitter_add(tsr_splitter *s, MlirValue value, int state, MlirValue local) {
    TSR_ASSERT(s->count < s->capacity);
    s->views[s->count] = (tsr_sharded_value){.state = state, .local = local};
    if (state == TSR_SPLIT_WHOLE) s->views[s->count].whole = local;
    bool set = tsr_value_map_set(&s->numbers, &s->arena, value, s->count);
    TSR_NEED(set);
    return s->count++;
}

tsr_sharded_value *tsr_splitter_view(tsr_splitter *s, MlirValue value) {
    uint32_t number = tsr_value_map_get(&s->numbers, value);
    TSR_ASSERT(number != UINT32_MAX);
    return &s->views[number];
}

static tsr_builder builder_behind(tsr_splitter *s, MlirValue value) {
    MlirOperation owner = tsr_value_owner(value);
    if (mlirOperationIsNull(owner))
        return tsr_builder_before(mlirBlockGetFirstOperation(tsr_op_body(s->func)));
    tsr_builder b = tsr_builder_before(mlirOperationGetNextInBlock(owner));
    b.location = mlirOperationGetLocation(owner);
    return b;
}

tsr_type tsr_splitter_divided(tsr_type type, int dim, uint64_t parts) {
    if (dim < 0) return type;
    TSR_ASSERT(type.shape.dims[dim] % parts == 0);
    type.shape.dims[dim] /= parts;
    return type;
}

static MlirValue sum_vranks(tsr_splitter *s, tsr_builder *b, MlirValue local) {
    (void)s;
    return tsr_build_value(b, "tessera_sr.vrank_sum", &local, 1, mlirValueGetType(local), NULL);
}

/* Gathers all parts along `dim`, which is the first dim during the gather. */
static MlirValue gather_vranks(tsr_splitter *s, tsr_builder *b, MlirValue local, int dim) {
    int64_t there[TSR_RANK_MAX], back[TSR_RANK_MAX];
    tsr_type type = tsr_type_of(local);
    for (uint32_t i = 0; i < type.shape.rank; i++)
        there[i] = i == 0 ? dim : (int64_t)i <= dim ? (int64_t)i - 1 : (int64_t)i;
    for (uint32_t i = 0; i < type.shape.rank; i++) back[there[i]] = i;
    if (dim > 0) local = tsr_emit_transpose(b, local, there);
    type = tsr_type_of(local);
    type.shape.dims[0] *= s->parts;
    MlirValue all = tsr_build_value(b, "tessera_sr.vrank_gather", &local, 1,
                                    tsr_type_make(s->context, &type), NULL);
    return dim > 0 ? tsr_emit_transpose(b, all, back) : all;
}

MlirValue tsr_splitter_whole(tsr_splitter *s, MlirValue value) {
    tsr_sharded_value *of = tsr_splitter_view(s, value);
    if (!mlirValueIsNull(of->whole)) return of->whole;
    tsr_builder b = builder_behind(s, of->local);
    of->whole = of->state == TSR_SPLIT_PARTIAL ? sum_vranks(s, &b, of->local)
                                               : gather_vranks(s, &b, of->local, of->state);
    return of->whole;
}

static MlirValue vrank_number(tsr_splitter *s) {
    if (!mlirValueIsNull(s->vrank)) return s->vrank;
    tsr_builder b = tsr_builder_before(mlirBlockGetFirstOperation(tsr_op_body(s->func)));
    tsr_type type = tsr_type_scalar(TSR_DTYPE_I64);
    b.location = mlirOperationGetLocation(s->func);
    s->vrank =
        tsr_build_value(&b, "tessera_sr.vrank", NULL, 0, tsr_type_make(s->context, &type), NULL);
    return s->vrank;
}

/* The offset of a virtual rank's part of `size`, as a scalar of this type. */
MlirValue tsr_splitter_begin(tsr_splitter *s, tsr_builder *b, uint64_t size, tsr_dtype dtype) {
    MlirValue first =
        tsr_emit_mul(b, vrank_number(s), tsr_emit_constant(b, TSR_DTYPE_I64, (double)size));
    return tsr_emit_cast(b, first, dtype);
}

/* Clones an op with other operands and other result types. */
static MlirOperation clone_with(tsr_builder *b, MlirOperation op, const MlirValue *operands,
                                const tsr_type *results) {
    MlirOperation copy = mlirOperationClone(op);
    mlirBlockInsertOwnedOperationBefore(b->block, b->before, copy);
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        mlirOperationSetOperand(copy, (intptr_t)i, operands[i]);
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        mlirValueSetType(tsr_op_result(copy, i), tsr_type_make(b->context, &results[i]));
    return copy;
}

/* Elementwise ops are run on the virtual rank's part instead. */
static MlirValue part_of_map(tsr_splitter *s, tsr_builder *b, MlirOperation op,
                             const tsr_type *part, int dim, int depth) {
    MlirValue operands[TSR_RULE_OPERANDS_MAX];
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirValue operand = tsr_op_operand(op, i);
        tsr_type type = tsr_type_of(operand);
        int at = dim - (int)(part->shape.rank - type.shape.rank);
        bool stretches = at < 0 || type.shape.dims[at] == 1;
        operands[i] = stretches ? operand : tsr_splitter_part(s, b, operand, at, depth + 1);
    }
    return tsr_op_result(clone_with(b, op, operands, part), 0);
}

static MlirValue fill(tsr_builder *b, const tsr_type *type, MlirAttribute element) {
    MlirType shaped = tsr_type_make(b->context, type);
    const tsr_attr attrs[] = {{"value", mlirDenseElementsAttrSplatGet(shaped, element)}, {0}};
    return tsr_build_value(b, TSR_GRAPH_NAME("constant"), NULL, 0, shaped, attrs);
}

/* Creates the part of a whole value. */
static MlirValue make_part(tsr_splitter *s, tsr_builder *b, MlirValue value, int dim, int depth) {
    tsr_type type = tsr_type_of(value), part = tsr_splitter_divided(type, dim, s->parts);
    MlirOperation op = tsr_value_owner(value);
    const tsr_op_row *row = tsr_op_row_find(op);
    uint64_t size = part.shape.dims[dim];
    int64_t axis = 0;
    if (tsr_op_is(op, TSR_GRAPH_CONSTANT)) {
        MlirAttribute element = tsr_attr_splat_element(tsr_op_attr(op, "value"));
        if (!mlirAttributeIsNull(element)) return fill(b, &part, element);
    }
    if (tsr_op_is(op, TSR_GRAPH_IOTA) && tsr_op_i64(op, "axis", &axis)) {
        MlirValue positions = tsr_op_result(clone_with(b, op, NULL, &part), 0);
        return axis == dim ? tsr_emit_add(b, positions, tsr_splitter_begin(s, b, size, type.dtype))
                           : positions;
    }
    if (row && row->op_class == TSR_CLASS_MAP && depth < SLICE_DEPTH_MAX &&
        tsr_op_result_count(op) == 1)
        return part_of_map(s, b, op, &part, dim, depth);
    tsr_shape line = {.rank = 1, .dims = {size}};
    MlirValue positions = tsr_emit_add(b, tsr_emit_iota(b, &line, 0, TSR_DTYPE_I64),
                                       tsr_splitter_begin(s, b, size, TSR_DTYPE_I64));
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(s->context, dim)}, {0}};
    MlirValue rows = tsr_build_value(b, TSR_GRAPH_NAME("gather"), (MlirValue[]){value, positions},
                                     2, tsr_type_make(s->context, &part), attrs);
    if (s->stays)
        tsr_op_set(tsr_value_owner(rows), TSR_CHECKED_NAME, tsr_attr_make_unit(s->context));
    return rows;
}

MlirValue tsr_splitter_part(tsr_splitter *s, tsr_builder *b, MlirValue value, int dim, int depth) {
    uint32_t number = tsr_value_map_get(&s->numbers, value);
    if (number == UINT32_MAX) return make_part(s, b, value, dim, depth); /* created by this pass */
    if (s->views[number].state == dim) return s->views[number].local;
    if (mlirValueIsNull(s->views[number].parts[dim])) {
        const tsr_sharded_value *of = &s->views[number];
        MlirValue made = tsr_splitter_can_exchange(s, of, dim)
                             ? tsr_splitter_exchange(s, b, of, dim)
                         : tsr_splitter_can_scatter(s, of, dim)
                             ? tsr_splitter_scatter(s, b, of, dim)
                             : make_part(s, b, tsr_splitter_whole(s, value), dim, depth);
        s->views[number].parts[dim] = made;
    }
    return s->views[number].parts[dim];
}

/* ---- ops ------------------------------------------------------------------------------------- */

static tsr_split read_op(tsr_splitter *s, MlirOperation op) {
    tsr_split split = {.op = op,
                       .parts = s->parts,
                       .has_layouts = s->stays,
                       .operand_count = tsr_op_operand_count(op),
                       .result_count = tsr_op_result_count(op)};
    TSR_ASSERT(split.operand_count <= TSR_RULE_OPERANDS_MAX &&
               split.result_count <= TSR_RULE_RESULTS_MAX);
    for (size_t i = 0; i < split.operand_count; i++) {
        split.operands[i] = tsr_splitter_view(s, tsr_op_operand(op, i))->state;
        split.stays[i] = tsr_splitter_view(s, tsr_op_operand(op, i))->stays;
        split.reads[i] = tsr_splitter_view(s, tsr_op_operand(op, i))->reads;
        split.scatters[i] = tsr_splitter_view(s, tsr_op_operand(op, i))->scatters;
        split.operand_types[i] = tsr_type_of(tsr_op_operand(op, i));
    }
    for (size_t i = 0; i < split.result_count; i++)
        split.result_types[i] = tsr_type_of(tsr_op_result(op, i));
    return split;
}

static void set_size(MlirOperation op, int dim, uint64_t size) {
    int64_t sizes[TSR_RANK_MAX];
    size_t count = 0;
    if (!tsr_op_is(op, TSR_GRAPH_SLICE) || !tsr_op_i64s(op, "size", TSR_RANK_MAX, sizes, &count))
        return;
    sizes[dim] = (int64_t)size;
    tsr_op_set(op, "size", tsr_attr_make_i64s(mlirOperationGetContext(op), count, sizes));
}

static void use_whole_operands(tsr_splitter *s, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        mlirOperationSetOperand(op, (intptr_t)i, tsr_splitter_whole(s, tsr_op_operand(op, i)));
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        tsr_splitter_add(s, tsr_op_result(op, i), TSR_SPLIT_WHOLE, tsr_op_result(op, i));
}

/* A reduction over virtual ranks that is not a sum the tree supports: the results of all virtual
 * ranks are gathered and reduced again. */
static bool reduce_in_two(tsr_splitter *s, MlirOperation op) {
    int64_t axes[TSR_RANK_MAX], first = 0;
    size_t count = 0;
    MlirValue from = tsr_op_operand(op, 0);
    tsr_sharded_value *of = tsr_splitter_view(s, from);
    tsr_op id = tsr_op_of(op);
    bool reduces = id == TSR_GRAPH_SUM || id == TSR_GRAPH_REDUCE_MAX ||
                   id == TSR_GRAPH_REDUCE_MIN || id == TSR_GRAPH_REDUCE_PROD;
    bool over = false;
    if (!reduces || of->state < 0 || !tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count))
        return false;
    for (size_t i = 0; i < count; i++) over = over || axes[i] == of->state;
    if (!over) return false;
    tsr_builder b = tsr_builder_before(op);
    MlirValue part = tsr_emit_reduce(&b, tsr_op_name(op), of->local, count, axes);
    tsr_shape row = tsr_type_of(part).shape;
    if (row.rank == TSR_RANK_MAX) return false;
    memmove(row.dims + 1, row.dims, row.rank * sizeof row.dims[0]);
    row.dims[0] = 1;
    row.rank++;
    MlirValue all = gather_vranks(s, &b, tsr_emit_reshape(&b, part, &row), 0);
    MlirValue whole = tsr_emit_reduce(&b, tsr_op_name(op), all, 1, &first);
    tsr_splitter_add(s, tsr_op_result(op, 0), TSR_SPLIT_WHOLE, whole);
    s->replaced[s->replaced_count++] = op;
    return true;
}

/* A repair of rows that are split among virtual ranks: no virtual rank has a whole row, and
 * gathering rows would take longer than all other work. The rows keep their plain numbers. */
static bool leave_plain(tsr_splitter *s, MlirOperation op) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    bool over = false;
    if (!tsr_op_is(op, TSR_GRAPH_REPAIR) || !tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count))
        return false;
    tsr_shape row = tsr_type_of(tsr_op_operand(op, 0)).shape;
    for (size_t k = 0; k < tsr_op_operand_count(op); k++) {
        tsr_shape shape = tsr_type_of(tsr_op_operand(op, k)).shape;
        int state = tsr_splitter_view(s, tsr_op_operand(op, k))->state;
        for (size_t i = 0; i < count && tsr_shape_equal(&shape, &row); i++)
            over = over || axes[i] == state;
    }
    if (!over) return false;
    double number;
    size_t operand = tsr_repair_plain(op, &number);
    MlirValue plain;
    if (operand) {
        plain = tsr_splitter_whole(s, tsr_op_operand(op, operand));
    } else {
        tsr_builder b = tsr_builder_before(op);
        tsr_type type = tsr_type_of(tsr_op_result(op, 0));
        plain = tsr_emit_filled(&b, &type, number);
    }
    tsr_splitter_add(s, tsr_op_result(op, 0), TSR_SPLIT_WHOLE, plain);
    s->replaced[s->replaced_count++] = op;
    return true;
}

/* True if it works on a virtual rank's parts of tensors (vrank_shards.c). */
static bool is_of_parts(tsr_splitter *s, MlirOperation op) {
    bool is = tsr_sr_is_vrank_part(op);
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        is = is || tsr_splitter_view(s, tsr_op_operand(op, i))->state == TSR_SPLIT_OWN;
    return is;
}

/* The types already are the types of parts; the whole operands next to them are scalars. */
static bool use_parts(tsr_splitter *s, MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    bool joins = tsr_sr_is_vrank_part(op) && !tsr_op_is(op, TSR_SR_VRANK_PART);
    if (!tsr_sr_is_vrank_part(op) && (!row || row->op_class != TSR_CLASS_MAP)) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_LEFT,
                       "%s: cannot be run on a virtual rank's part of a tensor", tsr_op_name(op));
        return false;
    }
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirValue operand = tsr_op_operand(op, i);
        if (tsr_splitter_view(s, operand)->state != TSR_SPLIT_OWN)
            mlirOperationSetOperand(op, (intptr_t)i, tsr_splitter_whole(s, operand));
    }
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        tsr_splitter_add(s, tsr_op_result(op, i), joins ? TSR_SPLIT_WHOLE : TSR_SPLIT_OWN,
                         tsr_op_result(op, i));
    return true;
}

/* Squares of a virtual rank's part of a gradient, whose last elements may be padding: the result
 * has one element for each virtual rank. */
static bool split_squares(tsr_splitter *s, MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue part = tsr_op_operand(op, 0), whole = tsr_op_operand(tsr_value_owner(part), 0);
    tsr_shape shape = tsr_type_of(whole).shape, line = tsr_type_of(part).shape;
    uint64_t count = 0;
    bool fits = tsr_shape_count(&shape, &count);
    TSR_ASSERT(fits);
    if (tsr_type_of(tsr_op_result(op, 0)).shape.dims[0] != s->parts) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_COLLECTIVE,
                       "%s: %" PRIu64 " sums of squares for %" PRIu64 " virtual ranks",
                       tsr_op_name(op), tsr_type_of(tsr_op_result(op, 0)).shape.dims[0], s->parts);
        return false;
    }
    if (line.dims[0] * s->parts != count) {
        MlirValue positions = tsr_emit_add(&b, tsr_emit_iota(&b, &line, 0, TSR_DTYPE_I64),
                                           tsr_splitter_begin(s, &b, line.dims[0], TSR_DTYPE_I64));
        MlirValue end = tsr_emit_constant(&b, TSR_DTYPE_I64, (double)count);
        part = tsr_emit_where(&b, tsr_emit_compare(&b, TSR_PREDICATE_LT, positions, end), part,
                              tsr_emit_number(&b, part, 0.0));
    }
    MlirValue sum =
        tsr_emit_reduce(&b, TSR_GRAPH_NAME("sum"), tsr_sr_square(&b, op, part), 1, &(int64_t){0});
    sum = tsr_emit_broadcast(&b, sum, &(tsr_shape){.rank = 1, .dims = {1}});
    tsr_splitter_add(s, tsr_op_result(op, 0), 0, sum);
    s->replaced[s->replaced_count++] = op;
    return true;
}

static bool is_squares_of_part(MlirOperation op) {
    return tsr_op_is(op, TSR_SR_SQUARES) &&
           tsr_op_is(tsr_value_owner(tsr_op_operand(op, 0)), TSR_SR_VRANK_PART);
}

static bool is_token(MlirValue value) { return tsr_sr_is_token(mlirValueGetType(value)); }

/* Passes either the values of each virtual rank or the values common to all through a barrier,
 * with its tokens. */
static void build_barrier(tsr_splitter *s, tsr_builder *b, MlirOperation op, bool vranks,
                          MlirValue *token) {
    MlirValue operands[TSR_RULE_OPERANDS_MAX];
    MlirType types[TSR_RULE_OPERANDS_MAX];
    size_t from[TSR_RULE_OPERANDS_MAX], values = 0, count;
    bool closes = tsr_op_result_count(op) == 1 && is_token(tsr_op_result(op, 0));
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirValue operand = tsr_op_operand(op, i);
        int state = tsr_splitter_view(s, operand)->state;
        bool of_vrank = state != TSR_SPLIT_WHOLE && state != TSR_SPLIT_PARTIAL;
        if (is_token(operand) || of_vrank != vranks) continue;
        operands[values] =
            of_vrank ? tsr_splitter_view(s, operand)->local : tsr_splitter_whole(s, operand);
        types[values] = mlirValueGetType(operands[values]);
        from[values++] = i;
    }
    if (values == 0 && !(closes && !vranks)) return;
    count = values;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        if (is_token(tsr_op_operand(op, i)))
            operands[count++] = tsr_splitter_whole(s, tsr_op_operand(op, i));
    if (!mlirValueIsNull(*token)) operands[count++] = *token;
    if (closes) types[0] = mlirValueGetType(tsr_op_result(op, 0));
    MlirOperation made = tsr_build(b, &(tsr_op_desc){.name = "tessera_sr.barrier",
                                                     .operand_count = count,
                                                     .operands = operands,
                                                     .result_count = closes ? 1 : values,
                                                     .results = types});
    if (closes) *token = tsr_op_result(made, 0);
    for (size_t i = 0; i < values && !closes; i++)
        tsr_splitter_add(s, tsr_op_result(op, from[i]),
                         vranks ? tsr_splitter_view(s, tsr_op_operand(op, from[i]))->state
                                : TSR_SPLIT_WHOLE,
                         tsr_op_result(made, i));
}

/* The values of each virtual rank and the values common to all get a barrier each. */
static void split_barrier(tsr_splitter *s, MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue token = {NULL};
    if (!tsr_op_is(op, TSR_SR_BARRIER)) {
        use_whole_operands(s, op);
        return;
    }
    build_barrier(s, &b, op, true, &token);
    build_barrier(s, &b, op, false, &token);
    if (!mlirValueIsNull(token)) tsr_splitter_add(s, tsr_op_result(op, 0), TSR_SPLIT_WHOLE, token);
    s->replaced[s->replaced_count++] = op;
}

static void take_operands(tsr_splitter *s, tsr_builder *b, const tsr_split *split,
                          MlirValue *out_operands) {
    for (size_t i = 0; i < split->operand_count; i++) {
        MlirValue operand = tsr_op_operand(split->op, i);
        int state = split->operands[i];
        out_operands[i] = state == TSR_SPLIT_WHOLE     ? tsr_splitter_whole(s, operand)
                          : state == TSR_SPLIT_PARTIAL ? tsr_splitter_view(s, operand)->local
                                                       : tsr_splitter_part(s, b, operand, state, 0);
    }
}

/* The rounded rows of a sum of which each virtual rank has a summand; null if its rows are not
 * those of a product with a tensor that stays. */
static MlirValue scatter_and_round(tsr_splitter *s, tsr_builder *b, const tsr_split *split,
                                   MlirValue summand, tsr_dtype dtype) {
    const tsr_sharded_value of = {.state = TSR_SPLIT_PARTIAL, .local = summand};
    bool stays = split->stays[0] || split->stays[1];
    if (!stays || tsr_type_of(summand).shape.rank < 2 || !tsr_splitter_can_scatter(s, &of, 0))
        return (MlirValue){NULL};
    return tsr_emit_cast(b, tsr_splitter_scatter(s, b, &of, 0), dtype);
}

/* A product of 16-bit floats that sums over the rows: the tree adds the products of the virtual
 * ranks in f32, and the sum is rounded, as the product of all rows would be. Gathering the rows
 * would take longer, and every rank would compute the product of all of them. */
static bool sum_before_rounding(tsr_splitter *s, const tsr_split *of) {
    tsr_split split = *of;
    MlirValue operands[TSR_RULE_OPERANDS_MAX];
    tsr_dtype narrow = of->result_types[0].dtype;
    if (!tsr_op_is(of->op, TSR_GRAPH_MATMUL) || !tsr_dtype_is_float(narrow) ||
        tsr_dtype_size(narrow) != 2)
        return false;
    split.result_types[0].dtype = TSR_DTYPE_F32;
    if (!tsr_split_find(&split) || split.results[0] != TSR_SPLIT_PARTIAL) return false;
    tsr_builder b = tsr_builder_before(of->op);
    take_operands(s, &b, &split, operands);
    MlirValue part = tsr_op_result(clone_with(&b, of->op, operands, of->result_types), 0);
    MlirValue summand = tsr_emit_cast(&b, part, TSR_DTYPE_F32);
    MlirValue rows = scatter_and_round(s, &b, &split, summand, narrow);
    s->replaced[s->replaced_count++] = of->op;
    if (!mlirValueIsNull(rows)) {
        tsr_splitter_add(s, tsr_op_result(of->op, 0), 0, rows);
        return true;
    }
    MlirValue sum = sum_vranks(s, &b, summand);
    tsr_splitter_add(s, tsr_op_result(of->op, 0), TSR_SPLIT_WHOLE, tsr_emit_cast(&b, sum, narrow));
    return true;
}

/* The dim of a result that products read in parts, if they read dim `dim` of its operand. */
static int map_dim(const tsr_split *split, size_t operand) {
    int64_t permutation[TSR_RANK_MAX];
    size_t count = 0;
    int dim = split->reads[operand];
    if (split->operand_types[operand].shape.rank != split->result_types[0].shape.rank) return 0;
    if (!tsr_op_is(split->op, TSR_GRAPH_TRANSPOSE)) return dim;
    if (!tsr_op_i64s(split->op, "permutation", TSR_RANK_MAX, permutation, &count)) return 0;
    for (size_t i = 0; i < count; i++)
        if (permutation[i] == dim) return (int)i;
    return 0;
}

/* Whether a result is made of tensors that stay alone, or is a summand of a product with one. */
static void note_origin(const tsr_split *split, tsr_sharded_value *result) {
    bool all_stay = true, any_stays = false, all_scatter = true;
    for (size_t i = 0; i < split->operand_count; i++)
        if (split->stays[i]) result->reads = map_dim(split, i);
    for (size_t i = 0; i < split->operand_count; i++) {
        any_stays = any_stays || split->stays[i];
        all_stay = all_stay && (split->stays[i] || split->operands[i] == TSR_SPLIT_WHOLE);
        all_scatter = all_scatter && split->scatters[i];
    }
    result->stays = all_stay && any_stays;
    result->scatters = result->state == TSR_SPLIT_PARTIAL && (any_stays || all_scatter);
}

static void split_op(tsr_splitter *s, MlirOperation op) {
    tsr_split split = read_op(s, op);
    MlirValue operands[TSR_RULE_OPERANDS_MAX];
    tsr_type results[TSR_RULE_RESULTS_MAX];
    bool local = false, all_whole = true;
    for (size_t i = 0; i < split.operand_count; i++)
        all_whole = all_whole && split.operands[i] == TSR_SPLIT_WHOLE;
    if (all_whole || split.result_count == 0) {
        use_whole_operands(s, op);
        return;
    }
    if (leave_plain(s, op) || sum_before_rounding(s, &split)) return;
    if (!tsr_split_find(&split) && reduce_in_two(s, op)) return;
    for (size_t i = 0; i < split.operand_count; i++)
        local = local || split.operands[i] != TSR_SPLIT_WHOLE;
    if (!local) {
        use_whole_operands(s, op);
        return;
    }
    tsr_builder b = tsr_builder_before(op);
    take_operands(s, &b, &split, operands);
    for (size_t i = 0; i < split.result_count; i++)
        results[i] = tsr_splitter_divided(split.result_types[i], split.results[i], s->parts);
    MlirOperation copy = clone_with(&b, op, operands, results);
    if (split.results[0] >= 0)
        set_size(copy, split.results[0], results[0].shape.dims[split.results[0]]);
    for (size_t i = 0; i < split.result_count; i++) {
        uint32_t number =
            tsr_splitter_add(s, tsr_op_result(op, i), split.results[i], tsr_op_result(copy, i));
        if (s->stays) note_origin(&split, &s->views[number]);
    }
    s->replaced[s->replaced_count++] = op;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Arguments that are bound to data sets are split, others whole. */
static bool split_argument(tsr_splitter *s, size_t index) {
    MlirValue argument = mlirBlockGetArgument(tsr_op_body(s->func), (intptr_t)index);
    tsr_graph_port port;
    if (!tsr_graph_input_read(s->func, index, &port) || port.source != TSR_PORT_DATA) {
        tsr_splitter_add(s, argument, TSR_SPLIT_WHOLE, argument);
        return true;
    }
    tsr_type type = tsr_type_of(argument);
    if (type.shape.rank == 0 || type.shape.dims[0] == 0 || type.shape.dims[0] % s->parts != 0) {
        tsr_diag_error(mlirOperationGetLocation(s->func), TSR_DIAG_SR_BATCH,
                       "argument '%s' has a batch of %" PRIu64 "; expected a multiple of the "
                       "%" PRIu64 " virtual ranks",
                       port.name, type.shape.rank ? type.shape.dims[0] : 0, s->parts);
        return false;
    }
    tsr_builder b = tsr_builder_before(mlirBlockGetFirstOperation(tsr_op_body(s->func)));
    tsr_type part = tsr_splitter_divided(type, 0, s->parts);
    b.location = mlirOperationGetLocation(s->func);
    MlirValue rows = tsr_build_value(&b, "tessera_sr.vrank_rows", &argument, 1,
                                     tsr_type_make(s->context, &part), NULL);
    tsr_splitter_add(s, argument, 0, rows);
    return true;
}

static bool splitter_init(tsr_splitter *s) {
    MlirBlock block = tsr_op_body(s->func);
    size_t values = (size_t)mlirBlockGetNumArguments(block), ops = 0;
    TSR_FOR_EACH_OP(op, block) {
        bool grows =
            tsr_op_is(op, TSR_GRAPH_CROSS_ENTROPY) || tsr_op_is(op, TSR_GRAPH_CROSS_ENTROPY_GRAD);
        values += tsr_op_result_count(op) + (grows ? EXPANDED_MAX : 0);
        ops += grows ? EXPANDED_MAX : 1;
        s->stays = s->stays || tsr_op_has(op, TSR_LAYOUT_AXIS);
    }
    s->capacity = (uint32_t)values;
    s->views = TSR_NEW(&s->arena, tsr_sharded_value, values + 1);
    s->replaced = TSR_NEW(&s->arena, MlirOperation, ops + 1);
    return s->views && s->replaced;
}

static bool split(tsr_splitter *s, MlirOperation op) {
    bool good = true;
    if (tsr_layout_read(s, op, &good)) return good;
    if (tsr_op_is(op, TSR_GRAPH_ASSIGN) && tsr_layout_assign(s, op)) return true;
    if (tsr_layout_gather(s, op) || tsr_layout_scatter(s, op)) return true;
    if (is_squares_of_part(op)) return split_squares(s, op);
    if (!tsr_sr_has_token(op) && is_of_parts(s, op)) return use_parts(s, op);
    if (tsr_sr_has_token(op))
        split_barrier(s, op);
    else
        split_op(s, op);
    return true;
}

static bool split_entry(tsr_splitter *s) {
    MlirBlock block = tsr_op_body(s->func);
    MlirOperation first = mlirBlockGetFirstOperation(block);
    bool ready = splitter_init(s);
    TSR_NEED(ready);
    if (s->stays) tsr_layout_mark_checked(s->func);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        if (!split_argument(s, (size_t)i)) return false;
    for (MlirOperation op = first, next; !mlirOperationIsNull(op); op = next) {
        MlirOperation expanded = tsr_layout_expand(s, op);
        if (!mlirOperationIsNull(expanded)) op = expanded;
        next = mlirOperationGetNextInBlock(op);
        if (!split(s, op)) return false;
    }
    while (s->replaced_count > 0) mlirOperationDestroy(s->replaced[--s->replaced_count]);
    return true;
}

static bool is_training(MlirOperation func) {
    tsr_entry_kind kind;
    return tsr_op_is(func, TSR_FUNC_FUNC) && tsr_op_has_body(func) &&
           tsr_graph_entry_kind(func, &kind) && kind == TSR_ENTRY_TRAIN;
}

static bool is_split(MlirOperation func) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (tsr_sr_is_vrank(op) && !tsr_sr_is_vrank_part(op)) return true;
    }
    return false;
}

static bool is_tensor(MlirValue value) {
    tsr_type type;
    return tsr_value_type(value, &type) && tsr_type_is_static(&type);
}

/* Only ops of regions may have tokens. */
static bool fits(MlirOperation op, MlirValue value) {
    bool orders = tsr_op_is_of(op, TSR_DIALECT_SR) || tsr_op_is(op, TSR_ASYNC_AWAIT);
    return is_tensor(value) || (orders && is_token(value));
}

/* Checks that all values are tensors of known shapes, as lowering produces them, or tokens. */
static bool check_tensors(MlirOperation func) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        size_t operands = tsr_op_operand_count(op), results = tsr_op_result_count(op);
        bool good = operands < TSR_RULE_OPERANDS_MAX && results <= TSR_RULE_RESULTS_MAX;
        for (size_t i = 0; i < operands && good; i++) good = fits(op, tsr_op_operand(op, i));
        for (size_t i = 0; i < results && good; i++) good = fits(op, tsr_op_result(op, i));
        if (good) continue;
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_LEFT,
                       "%s: cannot be run on several virtual ranks", tsr_op_name(op));
        return false;
    }
    return true;
}

bool tsr_pass_virtual_ranks(MlirModule module) {
    uint64_t parts = 1;
    bool done = true, trains = false;
    if (!tsr_sr_find_virtual_ranks(module, &parts)) return false;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (parts == 1 || !is_training(func)) continue;
        trains = true;
        if (is_split(func)) continue;
        if (!check_tensors(func)) return false;
        tsr_splitter s = {.module = module,
                          .func = func,
                          .context = mlirOperationGetContext(func),
                          .parts = parts};
        done = split_entry(&s) && done;
        if (s.stays && done) tsr_sr_gather_elsewhere(module, func);
        tsr_arena_finish(&s.arena);
    }
    if (trains)
        tsr_op_set(mlirModuleGetOperation(module), TSR_SR_VIRTUAL_RANKS,
                   tsr_attr_make_i64(mlirModuleGetContext(module), (int64_t)parts));
    return done;
}
