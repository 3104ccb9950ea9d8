/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel families `cross_entropy` and `cross_entropy_grad`, row by row of logits [R, C]:
 *
 *     m = max x, s = sum exp(x - m)          64 partial results each
 *     loss = log s - (x[label] - m)
 *     gradient = (exp(x - m) / s - [i == label]) * dloss
 *
 * A label outside [0, C) sets the fault record and selects no element.
 */
#include "compiler/tile/reduce.h"

typedef struct rows {
    tsr_tile_group *group;
    tsr_reduction max, sum; /* for their arithmetic */
    tsr_dtype dtype;
    int64_t count, classes;
    uint32_t lanes;
    MlirValue logits, labels;
    int64_t labels_argument;
    MlirValue row, start; /* this row; the offset of its logits */
    MlirValue label, valid;
    MlirValue highest, total; /* m, s */
    MlirValue scale;          /* dloss */
} rows;

/* What to do with one vector of a row: columns column … of the row, mask null for all lanes. */
typedef MlirValue (*visit_fn)(rows *r, MlirValue column, MlirValue mask, MlirValue carried);

static MlirValue load(rows *r, MlirValue column, MlirValue mask) {
    tsr_tile_builder *b = &r->group->b;
    return tsr_tile_load(b, r->dtype, r->logits, tsr_tile_add(b, r->start, column), r->lanes, mask);
}

static MlirValue exponential(rows *r, MlirValue column, MlirValue mask) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue highest = tsr_tile_splat(b, r->highest, r->lanes);
    return tsr_tile_1(b, "math.exp", tsr_tile_2(b, "arith.subf", load(r, column, mask), highest));
}

static MlirValue accumulate(rows *r, tsr_reduction *how, MlirValue value, MlirValue mask,
                            MlirValue carried) {
    if (!mlirValueIsNull(mask))
        value = tsr_tile_select(&r->group->b, mask, value, tsr_reduction_identity(how, r->lanes));
    return tsr_reduction_combine(how, carried, value);
}

static MlirValue visit_max(rows *r, MlirValue column, MlirValue mask, MlirValue carried) {
    return accumulate(r, &r->max, load(r, column, mask), mask, carried);
}

static MlirValue visit_sum(rows *r, MlirValue column, MlirValue mask, MlirValue carried) {
    return accumulate(r, &r->sum, exponential(r, column, mask), mask, carried);
}

/* Visits the vectors of the current row in order. */
static MlirValue walk(rows *r, visit_fn visit, MlirValue carried) {
    tsr_tile_builder *b = &r->group->b;
    int64_t whole = r->classes - r->classes % r->lanes;
    uint32_t carries = !mlirValueIsNull(carried);
    if (whole) {
        tsr_tile_loop loop;
        tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), r->lanes,
                            carries, &carried);
        MlirValue next = visit(r, loop.index, tsr_tile_null, loop.carried[0]);
        tsr_tile_loop_end(b, &loop, &next);
        carried = loop.carried[0];
    }
    if (whole == r->classes) return carried;
    MlirValue tail = tsr_tile_mask(b, tsr_tile_index(b, r->classes - whole), r->lanes);
    return visit(r, tsr_tile_index(b, whole), tail, carried);
}

/* Logits and labels must be arguments of the group: they are read more than once. */
static tsr_result begin(tsr_tile_group *group, rows *out_rows) {
    int64_t at[2];
    rows r = {.group = group};
    for (uint32_t i = 0; i < 2; i++) {
        MlirValue operand = tsr_op_operand(group->root, i);
        if (!mlirValueIsABlockArgument(operand))
            FAIL(group->ctx, TSR_INTERNAL, "'%s': operand %u is not an argument", group->name, i);
        at[i] = mlirBlockArgumentGetArgNumber(operand);
    }
    const tsr_type *logits = &group->types[at[0]];
    if (logits->shape.rank != 2 || !tsr_dtype_is_float(logits->dtype) ||
        group->types[at[1]].dtype != TSR_DTYPE_I64 || logits->shape.dims[1] > INT32_MAX)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed cross entropy", group->name);
    if (group->output_count != 1 ||
        !mlirValueEqual(group->returned[0], tsr_op_result(group->root, 0)))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': the result is not returned alone", group->name);
    r.dtype = logits->dtype;
    r.count = (int64_t)logits->shape.dims[0];
    r.classes = (int64_t)logits->shape.dims[1];
    r.lanes = tsr_lanes_fit(TSR_PARTIALS, r.classes);
    r.logits = group->buffers[at[0]];
    r.labels = group->buffers[at[1]];
    r.labels_argument = at[1];
    r.max = (tsr_reduction){.group = group, .dtype = r.dtype, .op = &tsr_reduction_max};
    r.sum = (tsr_reduction){.group = group, .dtype = r.dtype, .op = &tsr_reduction_sum};
    *out_rows = r;
    return TSR_SUCCESS;
}

/* The label, the largest logit and the sum of exponentials of one row. */
static void begin_row(rows *r, MlirValue row) {
    tsr_tile_builder *b = &r->group->b;
    r->row = row;
    r->start = tsr_tile_mul(b, row, r->classes);
    r->label = tsr_tile_load(b, TSR_DTYPE_I64, r->labels, row, 0, tsr_tile_null);
    r->valid = tsr_tile_check_index(b, r->label, row, r->labels_argument, r->classes);
    MlirValue highest = walk(r, visit_max, tsr_reduction_identity(&r->max, r->lanes));
    r->highest = tsr_reduction_tree(&r->max, highest, r->lanes);
    MlirValue total = walk(r, visit_sum, tsr_reduction_identity(&r->sum, r->lanes));
    r->total = tsr_reduction_tree(&r->sum, total, r->lanes);
}

static int64_t row_bytes(const rows *r) {
    /* An exponential costs about as much as moving four elements. */
    return 4 * r->classes * (int64_t)tsr_dtype_size(r->dtype);
}

tsr_result tsr_tile_lower_cross_entropy(tsr_tile_group *group) {
    rows r;
    TRY(group->ctx, begin(group, &r));
    if (!r.count) return TSR_SUCCESS;
    tsr_tile_builder *b = &group->b;
    tsr_tile_loop loop;
    tsr_reduction_programs(&r.sum, r.count, row_bytes(&r), &loop);
    begin_row(&r, loop.index);
    MlirValue zero = tsr_element_zero(b, r.dtype, 0), picked = zero;
    if (r.classes) {
        MlirValue none = tsr_tile_int(b, tsr_tile_value_type(b, TSR_DTYPE_I64, 0), 0);
        MlirValue safe = tsr_tile_select(b, r.valid, r.label, none);
        MlirValue column = tsr_tile_to(b, "arith.index_cast", safe, tsr_tile_index_type(b));
        picked =
            tsr_tile_load(b, r.dtype, r.logits, tsr_tile_add(b, r.start, column), 0, tsr_tile_null);
        picked = tsr_tile_2(b, "arith.subf", picked, r.highest);
        picked = tsr_tile_select(b, r.valid, picked, zero);
    }
    MlirValue loss = tsr_tile_2(b, "arith.subf", tsr_tile_1(b, "math.log", r.total), picked);
    tsr_tile_store(b, r.dtype, loss, group->buffers[group->input_count], loop.index, tsr_tile_null);
    tsr_tile_loop_end(b, &loop, NULL);
    return TSR_SUCCESS;
}

static MlirValue visit_gradient(rows *r, MlirValue column, MlirValue mask, MlirValue carried) {
    tsr_tile_builder *b = &r->group->b;
    (void)carried;
    MlirType number = tsr_tile_value_type(b, TSR_DTYPE_I32, 0);
    MlirType type = tsr_tile_value_type(b, r->dtype, r->lanes);
    MlirValue first = tsr_tile_to(b, "arith.index_cast", column, number);
    MlirValue lanes = tsr_tile_2(b, "arith.addi", tsr_tile_splat(b, first, r->lanes),
                                 tsr_tile_iota(b, number, r->lanes));
    MlirValue label = tsr_tile_to(b, "arith.trunci", r->label, number);
    label = tsr_tile_select(b, r->valid, label, tsr_tile_int(b, number, -1));
    MlirValue hit = tsr_tile_icompare(b, TSR_ICMP_EQ, lanes, tsr_tile_splat(b, label, r->lanes));
    MlirValue share = tsr_tile_2(b, "arith.divf", exponential(r, column, mask),
                                 tsr_tile_splat(b, r->total, r->lanes));
    MlirValue one = tsr_tile_select(b, hit, tsr_tile_float(b, type, 1), tsr_tile_float(b, type, 0));
    MlirValue gradient = tsr_tile_2(b, "arith.mulf", tsr_tile_2(b, "arith.subf", share, one),
                                    tsr_tile_splat(b, r->scale, r->lanes));
    tsr_tile_store(b, r->dtype, gradient, r->group->buffers[r->group->input_count],
                   tsr_tile_add(b, r->start, column), mask);
    return tsr_tile_null;
}

tsr_result tsr_tile_lower_cross_entropy_grad(tsr_tile_group *group) {
    rows r;
    tsr_region scale;
    TRY(group->ctx, begin(group, &r));
    MlirValue dloss = tsr_op_operand(group->root, 2);
    tsr_space space = {.rank = 1, .dims = {r.count}};
    const bool inner[TSR_RANK_MAX] = {false};
    TRY(group->ctx, tsr_region_init(group, &dloss, 1, tsr_tile_null, &space, NULL, &scale));
    if (!r.count || !r.classes) return TSR_SUCCESS;
    tsr_tile_loop loop;
    tsr_point point = {.space = &space};
    tsr_region_levels(&scale, &space, inner);
    tsr_region_emit(&scale, 0, &point);
    tsr_reduction_programs(&r.sum, r.count, row_bytes(&r), &loop);
    begin_row(&r, loop.index);
    point.index[0] = loop.index;
    tsr_region_emit(&scale, 1, &point);
    r.scale = tsr_node_value(&scale, scale.results[0], &point);
    walk(&r, visit_gradient, tsr_tile_null);
    tsr_tile_loop_end(&group->b, &loop, NULL);
    return TSR_SUCCESS;
}
