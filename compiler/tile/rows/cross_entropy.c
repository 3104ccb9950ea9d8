/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel families `cross_entropy` and `cross_entropy_grad`, row by row of logits [R, C]:
 *
 *     m = max x, s = sum exp(x - m)          in the order of reductions: tile.h
 *     loss = log s - (x[label] - m)
 *     gradient = (exp(x - m) (1 / s) - [i == label]) * dloss
 *
 * A NaN propagates to the result through s, not through m.
 *
 * A label outside [0, C) sets the fault record and selects no element.
 */
#include "compiler/tile/rows/cross_entropy.h"

#include "compiler/ir/targets/target.h"

#include <string.h>

typedef tsr_cross_entropy rows;

enum {
    PASSES_MAX = 2,
    LINE_BYTES = 64,
    AHEAD_BYTES = 16 * 1024, /* bytes in flight to the second-level cache */
    AHEAD_ROWS = 16,         /* rows of a program ... */
    AHEAD_PROGRAMS = 64,     /* ... if that leaves at least this many programs */
};

/* Called for each vector of a row: the columns from `column` on; mask: null for all lanes. The
 * result is accumulated if the walk reduces. */
typedef MlirValue (*visit_fn)(rows *r, MlirValue column, MlirValue mask);

static MlirValue load(rows *r, MlirValue column, MlirValue mask) {
    tsr_tile_builder *b = &r->group->b;
    return tsr_tile_load(b, r->from, r->logits, tsr_tile_add(b, r->start, column), r->lanes, mask);
}

static MlirValue exponential(rows *r, MlirValue column, MlirValue mask) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue highest = tsr_tile_splat(b, r->highest, r->lanes);
    return tsr_tile_exp_shifted(b, tsr_tile_2(b, "arith.subf", load(r, column, mask), highest));
}

/* True if the logits are too large for the caches. */
static bool are_far(const rows *r) {
    return r->count * r->classes * (int64_t)tsr_dtype_size(r->from) >= TSR_PREFETCH_BYTES_MIN;
}

/* Without FMA, exponentials are so slow that memory is never the bottleneck. */
static bool can_prefetch(const tsr_target *target) {
    return target->has_fma && !target->warp_lanes;
}

/* Memory is idle while exponentials are computed: prefetches the next row, unless this walk reads
 * it anyway. */
static MlirValue visit_power(rows *r, MlirValue column, MlirValue mask) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue power = exponential(r, column, mask);
    if (!mlirValueIsNull(r->powers))
        tsr_tile_store(b, tsr_tile_compute_dtype(r->dtype), power, r->powers, column, mask);
    if (!r->ahead && are_far(r))
        tsr_tile_prefetch_vector(b, r->from, r->logits,
                                 tsr_tile_offset(b, tsr_tile_add(b, r->start, column), r->classes),
                                 r->lanes);
    return power;
}

/* Loads a vector of the next row, and prefetches a later part of that row. */
static MlirValue visit_next(rows *r, MlirValue column, MlirValue mask) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue at = tsr_tile_add(b, r->next, column);
    int64_t size = (int64_t)tsr_dtype_size(r->from), step = LINE_BYTES / size;
    for (int64_t i = 0; i < (int64_t)r->lanes; i += step)
        tsr_tile_prefetch_later(b, r->logits, tsr_tile_offset(b, at, AHEAD_BYTES / size + i));
    return tsr_tile_load(b, r->from, r->logits, at, r->lanes, mask);
}

/* One of the operations of a walk: `visit`, and the reduction of its values (null: no reduction)
 * with its result. */
typedef struct pass {
    visit_fn visit;
    tsr_reduction *how;
    tsr_partials partials;
    MlirValue result;
} pass;

static void visit_part(rows *r, pass *p, uint32_t part, MlirValue column, MlirValue mask) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue x = p->visit(r, column, mask), *to = &p->partials.values[part];
    if (!p->how) return;
    if (!mlirValueIsNull(mask))
        x = tsr_tile_select(b, mask, x, tsr_reduction_identity(p->how, r->lanes));
    *to = tsr_reduction_combine(p->how, *to, x);
}

/* Copies the partial results of all passes that reduce to `values`, or back; returns their number.
 */
static uint32_t exchange(pass *passes, uint32_t count, MlirValue *values, bool back) {
    uint32_t done = 0;
    for (uint32_t i = 0; i < count; i++) {
        tsr_partials *partials = &passes[i].partials;
        size_t bytes = partials->count * sizeof *values;
        if (!passes[i].how) continue;
        if (back) memcpy(partials->values, values + done, bytes);
        if (!back) memcpy(values + done, partials->values, bytes);
        done += partials->count;
    }
    return done;
}

/* Visits the vectors of `elements` columns in order, all passes at each. */
static void walk_range(rows *r, pass *passes, uint32_t count, MlirValue first, int64_t elements) {
    tsr_tile_builder *b = &r->group->b;
    int64_t whole = elements - elements % r->all;
    uint32_t parts = r->all / r->lanes;
    MlirValue values[PASSES_MAX * TSR_PARTIAL_VECTORS_MAX];
    for (uint32_t i = 0; i < count; i++)
        if (passes[i].how) tsr_partials_init(passes[i].how, r->all, r->lanes, &passes[i].partials);
    if (whole) {
        tsr_tile_loop loop;
        uint32_t carried = exchange(passes, count, values, false);
        tsr_tile_loop_begin(b, &loop, first, tsr_tile_offset(b, first, whole), r->all, carried,
                            values);
        exchange(passes, count, loop.carried, true);
        for (uint32_t k = 0; k < parts; k++)
            for (uint32_t i = 0; i < count; i++)
                visit_part(r, &passes[i], k, tsr_tile_offset(b, loop.index, k * r->lanes),
                           tsr_tile_null);
        exchange(passes, count, values, false);
        tsr_tile_loop_end(b, &loop, values);
        exchange(passes, count, loop.carried, true);
    }
    for (uint32_t k = 0; whole + (int64_t)(k * r->lanes) < elements; k++) {
        int64_t begin = whole + (int64_t)(k * r->lanes), left = elements - begin;
        MlirValue mask = left < (int64_t)r->lanes
                             ? tsr_tile_mask(b, tsr_tile_index(b, left), r->lanes)
                             : tsr_tile_null;
        for (uint32_t i = 0; i < count; i++)
            visit_part(r, &passes[i], k, tsr_tile_offset(b, first, begin), mask);
    }
}

typedef struct row_chunk {
    rows *r;
    pass *passes;
    uint32_t count;
} row_chunk;

static void reduce_range(void *user, MlirValue first, int64_t elements, MlirValue *out_results) {
    const row_chunk *c = user;
    walk_range(c->r, c->passes, c->count, first, elements);
    for (uint32_t i = 0; i < c->count; i++)
        if (c->passes[i].how)
            *out_results++ = tsr_partials_tree(c->passes[i].how, &c->passes[i].partials);
}

/* Walks over a whole row, in chunks if it is long and a pass reduces. */
static void walk(rows *r, pass *passes, uint32_t count) {
    tsr_reduction *rules[PASSES_MAX];
    MlirValue results[PASSES_MAX];
    row_chunk chunk = {.r = r, .passes = passes, .count = count};
    tsr_reduction_chunks chunks = {
        .rules = rules, .elements = r->classes, .reduce = reduce_range, .user = &chunk};
    for (uint32_t i = 0; i < count; i++)
        if (passes[i].how) rules[chunks.count++] = passes[i].how;
    if (chunks.count)
        tsr_reduction_in_chunks(&chunks, results);
    else
        walk_range(r, passes, count, tsr_tile_index(&r->group->b, 0), r->classes);
    for (uint32_t i = 0, done = 0; i < count; i++)
        if (passes[i].how) passes[i].result = results[done++];
}

/* The operand if `value` is the result of a cast, else `value`. */
static MlirValue uncast(MlirValue value) {
    MlirOperation owner = tsr_value_owner(value);
    return tsr_op_is(owner, TSR_GRAPH_CAST) ? tsr_op_operand(owner, 0) : value;
}

/* The logits, or the operand of their cast, and the labels must be arguments of the group: they are
 * read more than once. */
static tsr_result begin(tsr_tile_group *group, rows *out_rows) {
    int64_t at[2];
    tsr_type logits;
    rows r = {.group = group};
    for (uint32_t i = 0; i < 2; i++) {
        MlirValue operand = tsr_op_operand(group->root, i);
        if (!i) operand = uncast(operand);
        if (!mlirValueIsABlockArgument(operand))
            FAIL(group->ctx, TSR_INTERNAL, "'%s': operand %u is not an argument", group->name, i);
        at[i] = mlirBlockArgumentGetArgNumber(operand);
    }
    bool known = tsr_value_type(tsr_op_operand(group->root, 0), &logits);
    if (!known || logits.shape.rank != 2 || !tsr_dtype_is_float(logits.dtype) ||
        (group->types[at[1]].dtype != TSR_DTYPE_I64 &&
         group->types[at[1]].dtype != TSR_DTYPE_I32) ||
        logits.shape.dims[1] > INT32_MAX)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed cross entropy", group->name);
    if (group->output_count != 1 ||
        !mlirValueEqual(uncast(group->returned[0]), tsr_op_result(group->root, 0)))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': the function must return only this result",
             group->name);
    r.dtype = logits.dtype;
    r.from = group->types[at[0]].dtype;
    r.into = group->types[group->input_count].dtype;
    r.count = (int64_t)logits.shape.dims[0];
    r.classes = (int64_t)logits.shape.dims[1];
    r.all = tsr_lanes_fit(TSR_PARTIALS, r.classes);
    r.lanes =
        tsr_lanes_in_flight(&group->b, (uint32_t)tsr_dtype_size(tsr_tile_compute_dtype(r.dtype)));
    if (r.lanes > r.all) r.lanes = r.all;
    r.logits = group->buffers[at[0]];
    r.labels = group->buffers[at[1]];
    r.labels_argument = at[1];
    r.labels_dtype = group->types[at[1]].dtype;
    r.max = (tsr_reduction){.group = group, .dtype = r.dtype, .op = &tsr_reduction_max_number};
    r.sum = (tsr_reduction){.group = group, .dtype = r.dtype, .op = &tsr_reduction_sum};
    r.by_lanes = group->is_native && tsr_cross_entropy_by_lanes(&r);
    r.ahead = can_prefetch(group->b.target) && are_far(&r);
    *out_rows = r;
    return TSR_SUCCESS;
}

static int64_t row_bytes(const rows *r) {
    /* An exponential costs about as much as moving four elements. */
    return 4 * r->classes * (int64_t)tsr_dtype_size(r->dtype);
}

/* Finds the label, the largest logit and the sum of exponentials of one row. */
static void begin_row(rows *r, MlirValue row) {
    tsr_tile_builder *b = &r->group->b;
    r->row = row;
    r->start = tsr_tile_mul(b, row, r->classes);
    r->label = tsr_tile_load(b, r->labels_dtype, r->labels, row, 0, tsr_tile_null);
    if (r->labels_dtype != TSR_DTYPE_I64)
        r->label =
            tsr_tile_to(b, "arith.extsi", r->label, tsr_tile_value_type(b, TSR_DTYPE_I64, 0));
    r->valid = tsr_tile_check_index(b, r->label, row, r->labels_argument, r->classes);
    if (r->by_lanes) {
        tsr_cross_entropy_walk_lanes(r);
        return;
    }
    pass highest = {.visit = load, .how = &r->max};
    pass both[] = {{.visit = visit_power, .how = &r->sum}, {.visit = visit_next, .how = &r->max}};
    if (r->ahead) {
        r->highest = r->loop.carried[0];
        r->next = tsr_tile_min(b, tsr_tile_offset(b, row, 1), tsr_tile_index(b, r->count - 1));
        r->next = tsr_tile_mul(b, r->next, r->classes);
    } else {
        walk(r, &highest, 1);
        r->highest = highest.result;
    }
    walk(r, both, r->ahead ? 2 : 1);
    r->total = both[0].result;
    r->next_highest = both[1].result;
}

/* Begins the loop over the program's rows. With r->ahead, the walk over each row also finds the
 * next row's largest logit, which the loop carries; the largest logit of the program's first row
 * needs a separate walk. */
static void begin_rows(rows *r) {
    tsr_tile_builder *b = &r->group->b;
    if (!r->ahead) {
        tsr_reduction_programs(&r->sum, r->count, row_bytes(r), &r->loop);
        return;
    }
    int64_t items = r->count / AHEAD_PROGRAMS;
    items = items < 1 ? 1 : items > AHEAD_ROWS ? AHEAD_ROWS : items;
    r->group->grid = tsr_divide_up(r->count, items);
    MlirValue begin = tsr_tile_mul(b, tsr_tile_program_id(b), items);
    MlirValue end = tsr_tile_min(b, tsr_tile_offset(b, begin, items), tsr_tile_index(b, r->count));
    pass highest = {.visit = load, .how = &r->max};
    r->start = tsr_tile_mul(b, begin, r->classes);
    walk(r, &highest, 1);
    tsr_tile_loop_begin(b, &r->loop, begin, end, 1, 1, &highest.result);
}

static void end_rows(rows *r) { tsr_tile_loop_end(&r->group->b, &r->loop, &r->next_highest); }

MlirValue tsr_cross_entropy_picked(rows *r, MlirValue *out_at) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue none = tsr_tile_int(b, tsr_tile_value_type(b, TSR_DTYPE_I64, 0), 0);
    MlirValue safe = tsr_tile_select(b, r->valid, r->label, none);
    MlirValue column = tsr_tile_to(b, "arith.index_cast", safe, tsr_tile_index_type(b));
    *out_at = tsr_tile_add(b, r->start, column);
    MlirValue picked = tsr_tile_load(b, r->from, r->logits, *out_at, 0, tsr_tile_null);
    return tsr_tile_2(b, "arith.subf", picked, r->highest);
}

tsr_result tsr_tile_lower_cross_entropy(tsr_tile_group *group) {
    rows r;
    TRY(group->ctx, begin(group, &r));
    if (!r.count) return TSR_SUCCESS;
    tsr_tile_builder *b = &group->b;
    begin_rows(&r);
    begin_row(&r, r.loop.index);
    MlirValue zero = tsr_element_zero(b, r.dtype, 0), picked = zero, at;
    if (r.classes) picked = tsr_tile_select(b, r.valid, tsr_cross_entropy_picked(&r, &at), zero);
    MlirValue loss = tsr_tile_2(b, "arith.subf", tsr_tile_1(b, "math.log", r.total), picked);
    tsr_tile_store(b, r.into, loss, group->buffers[group->input_count], r.loop.index,
                   tsr_tile_null);
    end_rows(&r);
    if (r.by_lanes) tsr_cross_entropy_end_lanes(&r);
    return TSR_SUCCESS;
}

/* Walks a row whose cache lines in the result are not aligned with the row: first the elements
 * before its first cache line. */
static void walk_shifted(rows *r, pass *only) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue to = r->group->buffers[r->group->input_count];
    MlirValue head = tsr_tile_until_aligned(b, to, r->start);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, r->classes), head);
    MlirValue rest = tsr_tile_rem(b, left, r->lanes);
    MlirValue end = tsr_tile_sub(b, tsr_tile_index(b, r->classes), rest);
    visit_part(r, only, 0, tsr_tile_index(b, 0), tsr_tile_mask(b, head, r->lanes));
    TSR_TILE_FOR(b, loop, head, end, r->lanes) {
        visit_part(r, only, 0, loop.index, tsr_tile_null);
    }
    visit_part(r, only, 0, end, tsr_tile_mask(b, rest, r->lanes));
}

static MlirValue visit_gradient(rows *r, MlirValue column, MlirValue mask) {
    tsr_tile_builder *b = &r->group->b;
    MlirType number = tsr_tile_value_type(b, TSR_DTYPE_I32, 0);
    MlirType type = tsr_tile_value_type(b, r->dtype, r->lanes);
    MlirValue first = tsr_tile_to(b, "arith.index_cast", column, number);
    MlirValue lanes = tsr_tile_2(b, "arith.addi", tsr_tile_splat(b, first, r->lanes),
                                 tsr_tile_iota(b, number, r->lanes));
    MlirValue label = tsr_tile_to(b, "arith.trunci", r->label, number);
    label = tsr_tile_select(b, r->valid, label, tsr_tile_int(b, number, -1));
    MlirValue hit = tsr_tile_icompare(b, TSR_ICMP_EQ, lanes, tsr_tile_splat(b, label, r->lanes));
    MlirValue power =
        mlirValueIsNull(r->powers)
            ? exponential(r, column, mask)
            : tsr_tile_load(b, tsr_tile_compute_dtype(r->dtype), r->powers, column, r->lanes, mask);
    MlirValue one =
        tsr_tile_select(b, hit, tsr_tile_float(b, type, -1), tsr_tile_float(b, type, 0));
    MlirValue gradient =
        tsr_tile_3(b, "math.fma", power, tsr_tile_splat(b, r->share, r->lanes), one);
    gradient = tsr_tile_2(b, "arith.mulf", gradient, tsr_tile_splat(b, r->scale, r->lanes));
    MlirValue to = r->group->buffers[r->group->input_count], at = tsr_tile_add(b, r->start, column);
    if (r->streamed && mlirValueIsNull(mask))
        tsr_tile_store_streamed(b, r->into, gradient, to, at);
    else
        tsr_tile_store(b, r->into, gradient, to, at, mask);
    return tsr_tile_null;
}

static void plan_gradient(rows *r) {
    enum { POWERS_BYTES_MAX = 160 * 1024 };
    tsr_tile_builder *b = &r->group->b;
    tsr_dtype dtype = tsr_tile_compute_dtype(r->dtype);
    tsr_space space = {.rank = 2, .dims = {r->count, r->classes}};
    tsr_view view = {.dtype = r->into, .strides = {r->classes, 1}};
    r->shifted = tsr_view_streams_shifted(r->group, &view, &space, r->lanes);
    r->streamed = r->shifted || tsr_view_streams(&view, &space, r->lanes);
    if (r->classes * (int64_t)tsr_dtype_size(dtype) <= POWERS_BYTES_MAX)
        r->powers = tsr_tile_local(b, tsr_tile_storage_type(b, dtype), r->classes);
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
    tsr_tile_builder *b = &group->b;
    if (!r.by_lanes) plan_gradient(&r);
    tsr_point point = {.space = &space};
    tsr_region_levels(&scale, &space, inner);
    tsr_region_emit(&scale, 0, &point);
    if (r.by_lanes)
        tsr_cross_entropy_begin_lanes(&r, &r.loop);
    else
        begin_rows(&r);
    begin_row(&r, r.loop.index);
    point.index[0] = r.loop.index;
    tsr_region_emit(&scale, 1, &point);
    r.scale = tsr_node_value(&scale, scale.results[0], &point);
    r.share = tsr_tile_2(b, "arith.divf", tsr_element_one(b, r.dtype, 0), r.total);
    if (r.by_lanes)
        tsr_cross_entropy_store_lanes(&r);
    else if (r.shifted)
        walk_shifted(&r, &(pass){.visit = visit_gradient});
    else
        walk(&r, &(pass){.visit = visit_gradient}, 1);
    end_rows(&r);
    if (r.by_lanes) tsr_cross_entropy_end_lanes(&r);
    return TSR_SUCCESS;
}
