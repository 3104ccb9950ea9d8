/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions of many rows whose last dimension is parallel:
 *
 *     parts   on a GPU a warp computes and stores a partial result of up to 256 columns: rows p,
 *             p + n, … in this order, several of them loaded before they are added. On a CPU a
 *             program has several neighbouring partial results, with all their columns, and reads
 *             the same number of rows of each 64
 *     last    a program has 32 columns, and combines their partial results like a single kernel
 *
 * There are 64 partial results, as everywhere; on a GPU with native numerics there are as many as
 * keep it busy, and numbers p, p + 64, … are added first.
 *
 * If an axis is long (tree.h), the first kernel computes the results of chunks instead, one per
 * program (reduce_strided.c), and the second one combines them in the tree.
 */
#include "compiler/tile/reductions/reduce_parts.h"

#include "compiler/tile/attributes.h"
#include "compiler/tile/reductions/reduce.h"

#include <string.h>

enum {
    LANES = 32,
    WIDE_LANES = 128, /* columns of a warp if they cannot be blocked */
    ROWS_MIN = 1024,
    REGISTERS = 128, /* per lane; by default the assembler uses 32, and waits for each load */
    IN_FLIGHT = 96,  /* registers for rows */
    ROWS_AT_ONCE_MAX = 16,
    PROGRAMS_MIN = 700,  /* number that keeps a GPU busy */
    CHAIN_MIN = 32,      /* minimum rows of a partial result */
    CHUNKS_AT_ONCE = 16, /* a power of two */
    /* CPUs: */
    GROUP_MAX = 16,           /* partial results of a program */
    GROUP_BYTES = 128 * 1024, /* their size: an eighth of a second-level cache */
    OUTER_MAX = 8,            /* more outer indices give threads enough work anyway */
};

typedef struct plan {
    const tsr_tile_group *group;
    int64_t partials; /* number of partial results, or of chunks */
    bool is_long;
    int64_t count;                                  /* partial results of a program of a CPU */
    uint32_t inputs[2][TSR_SEQUENCE_ARGUMENTS_MAX]; /* the group's, for each step */
    uint32_t input_counts[2];
} plan;

/* ---- both kernels ---------------------------------------------------------------------------- */

/* Makes the group and its reduction for a step, which has some of the group's arguments. */
static tsr_result open_step(tsr_tile_group *step, const plan *p, bool is_last, tsr_tile_group *g,
                            tsr_reduction *out_reduction) {
    uint32_t count = p->group->input_count + p->group->output_count;
    *g = *p->group;
    g->b = step->b;
    g->buffers = TSR_NEW(step->arena, MlirValue, count);
    if (!g->buffers) FAIL(step->ctx, TSR_MEMORY, "no memory to lower '%s'", step->name);
    for (uint32_t i = 0; i < p->input_counts[is_last]; i++)
        g->buffers[p->inputs[is_last][i]] = step->buffers[i];
    for (uint32_t i = 0; is_last && i < g->output_count; i++)
        g->buffers[g->input_count + i] = step->buffers[step->input_count + i];
    return tsr_reduction_init(g, out_reduction);
}

/* Finds the program's outer index and first column. A program has `lanes` columns, and there are
 * `each` programs for an outer index and its columns. Returns the number among these. */
static MlirValue find_program(tsr_reduction *r, tsr_tile_group *step, int64_t each, uint32_t lanes,
                              tsr_point *point, MlirValue *out_outer) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    int64_t size = r->space.dims[last], parts = tsr_divide_up(size, lanes);
    step->grid = r->parallel_count / size * each * parts;
    if (b->target->arch) step->registers = REGISTERS;
    MlirValue pid = tsr_tile_program_id(b), item = tsr_tile_div(b, pid, parts);
    *out_outer = tsr_tile_div(b, item, each);
    *point = (tsr_point){.space = &r->space, .lanes = lanes};
    tsr_point_unflatten(b, point, r->outer, *out_outer);
    point->index[last] = tsr_tile_mul(b, tsr_tile_rem(b, pid, parts), lanes);
    if (size % lanes)
        point->mask =
            tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, size), point->index[last]), lanes);
    return tsr_tile_rem(b, item, each);
}

/* The offset of partial result `number` of an outer index. */
static MlirValue partial_offset(tsr_reduction *r, const plan *p, const tsr_point *point,
                                MlirValue outer, MlirValue number) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    MlirValue row = tsr_tile_add(b, tsr_tile_mul(b, outer, p->partials), number);
    return tsr_tile_add(b, tsr_tile_mul(b, row, r->space.dims[last]), point->index[last]);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static bool may_block(const tsr_reduction *r) {
    int64_t size = r->space.dims[r->space.rank - 1];
    tsr_view partials = {.dtype = r->dtype};
    partials.strides[r->space.rank - 1] = 1;
    return size % TSR_BLOCKED_ELEMENTS == 0 &&
           tsr_region_may_block(&r->before, &partials, &r->space, size);
}

/* The number of rows in flight that registers have space for. */
static uint32_t rows_at_once(const tsr_reduction *r, uint32_t lanes) {
    int64_t bytes = tsr_region_bytes(&r->before, NULL, &r->space) * lanes / LANES;
    uint32_t rows = ROWS_AT_ONCE_MAX;
    while (rows > 2 && rows * bytes > 4 * IN_FLIGHT) rows /= 2;
    return rows;
}

/* Adds `count` rows, each `step` after the one before. */
static MlirValue add_rows(tsr_reduction *r, tsr_point *point, MlirValue row, int64_t step,
                          uint32_t count, MlirValue total) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue values[ROWS_AT_ONCE_MAX];
    for (uint32_t i = 0; i < count; i++) {
        tsr_point_unflatten(b, point, r->space.reduced, tsr_tile_offset(b, row, i * step));
        tsr_region_emit(&r->before, 2, point);
        values[i] = tsr_node_value(&r->before, r->before.results[0], point);
    }
    for (uint32_t i = 0; i < count; i++) total = tsr_reduction_combine(r, total, values[i]);
    return total;
}

static tsr_result lower_parts(tsr_tile_group *step, const void *user) {
    const plan *p = user;
    tsr_tile_group g;
    tsr_reduction r;
    tsr_point point;
    MlirValue outer;
    TRY(step->ctx, open_step(step, p, false, &g, &r));
    tsr_tile_builder *b = &g.b;
    uint32_t last = r.space.rank - 1, lanes = TSR_BLOCKED_ELEMENTS;
    bool inner[TSR_RANK_MAX] = {false}, blocked = may_block(&r);
    if (!blocked) lanes = tsr_lanes_fit(WIDE_LANES, r.space.dims[last]);
    if (lanes < LANES) lanes = LANES;
    for (uint32_t d = 0; d <= last; d++) inner[d] = r.space.reduced[d] || d == last;
    tsr_region_levels(&r.before, &r.space, inner);
    MlirValue number = find_program(&r, step, p->partials, lanes, &point, &outer);
    tsr_region_emit(&r.before, 0, &point);
    tsr_region_emit(&r.before, 1, &point);
    int64_t n = p->partials, rows = rows_at_once(&r, lanes), blocks = r.reduced_count / n;
    int64_t whole = blocks - blocks % rows;
    MlirValue total = tsr_reduction_identity(&r, lanes);
    TSR_TILE_FOR_CARRIED(b, most, number, tsr_tile_offset(b, number, whole * n), rows * n, 1,
                         &total) {
        total = add_rows(&r, &point, most.index, n, (uint32_t)rows, total);
    }
    total = add_rows(&r, &point, tsr_tile_offset(b, number, whole * n), n,
                     (uint32_t)(blocks - whole), total);
    TSR_TILE_FOR_CARRIED(b, rest, tsr_tile_offset(b, number, blocks * n),
                         tsr_tile_index(b, r.reduced_count), n, 1, &total) {
        total = add_rows(&r, &point, rest.index, n, 1, total);
    }
    tsr_tile_store(b, r.dtype, total, step->buffers[step->input_count],
                   partial_offset(&r, p, &point, outer, number), point.mask);
    if (blocked) tsr_tile_set_blocked(b, b->at.block, false);
    return TSR_SUCCESS;
}

/* ---- parts, on a CPU ------------------------------------------------------------------------- */

typedef struct group_part {
    const plan *plan;
    tsr_reduction r;
    tsr_point point;
    uint32_t lanes;
    int64_t pitch;   /* elements of a row of `local` */
    MlirValue local; /* [partial][column] */
    MlirValue first; /* first of its partial results, counted over all outer indices */
    MlirValue to;    /* output buffer */
} group_part;

typedef void column_visit(group_part *p, MlirValue column, MlirValue partial);

/* Visits all columns; a mask is used for a partial vector. */
static void walk_columns(group_part *p, MlirValue partial, column_visit *visit) {
    tsr_tile_builder *b = &p->r.group->b;
    int64_t size = p->r.space.dims[p->r.space.rank - 1], rest = size % p->lanes;
    p->point.lanes = p->lanes;
    p->point.mask = tsr_tile_null;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, size - rest), p->lanes) {
        visit(p, loop.index, partial);
    }
    if (!rest) return;
    p->point.mask = tsr_tile_mask(b, tsr_tile_index(b, rest), p->lanes);
    visit(p, tsr_tile_index(b, size - rest), partial);
}

static MlirValue local_offset(group_part *p, MlirValue column, MlirValue partial) {
    tsr_tile_builder *b = &p->r.group->b;
    return tsr_tile_add(b, tsr_tile_mul(b, partial, p->pitch), column);
}

static void begin_partial(group_part *p, MlirValue column, MlirValue partial) {
    tsr_tile_store(&p->r.group->b, p->r.dtype, tsr_reduction_identity(&p->r, p->lanes), p->local,
                   local_offset(p, column, partial), tsr_tile_null);
}

/* Prefetches the next 64 rows to the second-level cache. */
static void prefetch_block(group_part *p) {
    tsr_reduction *r = &p->r;
    tsr_tile_builder *b = &r->group->b;
    uint32_t inner = tsr_reduction_inner(r);
    for (uint32_t i = 0; i < r->before.node_count; i++) {
        const tsr_node *node = r->before.nodes[i];
        const int64_t *strides = node->view.strides;
        if (node->kind != TSR_NODE_VIEW || !strides[r->space.rank - 1] || !strides[inner]) continue;
        MlirValue at = tsr_point_offset(b, &p->point, &node->view);
        at = tsr_tile_offset(b, at, TSR_PARTIALS * strides[inner]);
        tsr_tile_prefetch_vector(b, node->dtype, node->view.buffer, at, p->lanes);
    }
}

static void add_to_partial(group_part *p, MlirValue column, MlirValue partial) {
    tsr_reduction *r = &p->r;
    tsr_tile_builder *b = &r->group->b;
    p->point.index[r->space.rank - 1] = column;
    tsr_region_emit(&r->before, 2, &p->point);
    MlirValue value = tsr_node_value(&r->before, r->before.results[0], &p->point);
    MlirValue at = local_offset(p, column, partial);
    MlirValue old = tsr_tile_load(b, r->dtype, p->local, at, p->lanes, tsr_tile_null);
    tsr_tile_store(b, r->dtype, tsr_reduction_combine(r, old, value), p->local, at, tsr_tile_null);
    prefetch_block(p);
}

static void store_partial(group_part *p, MlirValue column, MlirValue partial) {
    tsr_reduction *r = &p->r;
    tsr_tile_builder *b = &r->group->b;
    MlirValue row =
        tsr_tile_mul(b, tsr_tile_add(b, p->first, partial), r->space.dims[r->space.rank - 1]);
    MlirValue at = tsr_tile_add(b, row, column);
    MlirValue value = tsr_tile_load(b, r->dtype, p->local, local_offset(p, column, partial),
                                    p->lanes, tsr_tile_null);
    tsr_tile_store(b, r->dtype, value, p->to, at, p->point.mask);
}

static void walk_partials(group_part *p, column_visit *visit) {
    tsr_tile_builder *b = &p->r.group->b;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, p->plan->count), 1) {
        walk_columns(p, loop.index, visit);
    }
}

/* Adds the program's rows, from row `first` of each 64 on. */
static void add_blocks(group_part *p, MlirValue first) {
    tsr_tile_builder *b = &p->r.group->b;
    MlirValue zero = tsr_tile_index(b, 0), most = tsr_tile_index(b, p->plan->count);
    MlirValue all = tsr_tile_index(b, p->r.reduced_count);
    TSR_TILE_FOR(b, block, first, all, TSR_PARTIALS) {
        MlirValue rows = tsr_tile_min(b, most, tsr_tile_sub(b, all, block.index));
        TSR_TILE_FOR(b, loop, zero, rows, 1) {
            tsr_point_unflatten(b, &p->point, p->r.space.reduced,
                                tsr_tile_add(b, block.index, loop.index));
            walk_columns(p, loop.index, add_to_partial);
        }
    }
}

static tsr_result lower_group(tsr_tile_group *step, const void *user) {
    const plan *from = user;
    tsr_tile_group g;
    group_part p = {.plan = from};
    TRY(step->ctx, open_step(step, from, false, &g, &p.r));
    tsr_reduction *r = &p.r;
    tsr_tile_builder *b = &g.b;
    uint32_t last = r->space.rank - 1, width = tsr_region_width(&r->before);
    int64_t size = r->space.dims[last], groups = TSR_PARTIALS / from->count;
    bool inner[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d <= last; d++) inner[d] = r->space.reduced[d] || d == last;
    tsr_region_levels(&r->before, &r->space, inner);
    p.lanes = tsr_lanes_fit(2 * b->target->vector_bytes / (width < 4 ? 4 : width), size);
    p.pitch = ((size - 1) / p.lanes + 1) * p.lanes;
    p.local = tsr_tile_local(b, tsr_tile_storage_type(b, r->dtype), from->count * p.pitch);
    p.point = (tsr_point){.space = &r->space};
    step->grid = r->parallel_count / size * groups;
    MlirValue pid = tsr_tile_program_id(b), outer = tsr_tile_div(b, pid, groups);
    MlirValue first = tsr_tile_mul(b, tsr_tile_rem(b, pid, groups), from->count);
    tsr_region_emit(&r->before, 0, &p.point);
    tsr_point_unflatten(b, &p.point, r->outer, outer);
    tsr_region_emit(&r->before, 1, &p.point);
    p.first = tsr_tile_add(b, tsr_tile_mul(b, outer, TSR_PARTIALS), first);
    p.to = step->buffers[step->input_count];
    walk_partials(&p, begin_partial);
    add_blocks(&p, first);
    walk_partials(&p, store_partial);
    return TSR_SUCCESS;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static tsr_result lower_chunks(tsr_tile_group *step, const void *user) {
    tsr_tile_group g;
    tsr_reduction r;
    TRY(step->ctx, open_step(step, user, false, &g, &r));
    tsr_reduction_emit_strided(&r, step->buffers[step->input_count]);
    step->grid = g.grid;
    return TSR_SUCCESS;
}

/* ---- last ------------------------------------------------------------------------------------ */

/* The partial results of 32 columns with one outer index. */
typedef struct last_step {
    tsr_reduction r;
    const plan *plan;
    tsr_point point;
    MlirValue outer, from;
} last_step;

static MlirValue load_partial(last_step *l, int64_t k) {
    tsr_tile_builder *b = &l->r.group->b;
    MlirValue at = partial_offset(&l->r, l->plan, &l->point, l->outer, tsr_tile_index(b, k));
    return tsr_tile_load(b, l->r.dtype, l->from, at, LANES, l->point.mask);
}

/* Loads all partial results at once. */
static MlirValue add_at_once(last_step *l) {
    MlirValue values[TSR_PARTIALS];
    for (int64_t k = 0; k < l->plan->partials; k++) {
        MlirValue value = load_partial(l, k), *to = &values[k % TSR_PARTIALS];
        *to = k < TSR_PARTIALS ? value : tsr_reduction_combine(&l->r, *to, value);
    }
    return tsr_reduction_halve(&l->r, values, TSR_PARTIALS);
}

/* Partial result k of the halving tree after the partial results `step` and more beyond it are
 * added; few are in registers at a time. */
static MlirValue add_in_depth(last_step *l, int64_t k, int64_t step) {
    if (step == TSR_PARTIALS) return load_partial(l, k);
    MlirValue low = add_in_depth(l, k, 2 * step);
    return tsr_reduction_combine(&l->r, low, add_in_depth(l, k + step, 2 * step));
}

/* Emits the tree over `count` neighbouring chunks, which are read together. */
static MlirValue add_chunks(last_step *l, MlirValue first, int64_t count) {
    tsr_tile_builder *b = &l->r.group->b;
    if (count == 1) {
        MlirValue at = partial_offset(&l->r, l->plan, &l->point, l->outer, first);
        return tsr_tile_load(b, l->r.dtype, l->from, at, LANES, l->point.mask);
    }
    int64_t half = 1;
    while (2 * half < count) half *= 2;
    MlirValue low = add_chunks(l, first, half);
    MlirValue high = add_chunks(l, tsr_tile_offset(b, first, half), count - half);
    return tsr_reduction_combine(&l->r, low, high);
}

static void add_chunk_group(void *user, MlirValue index, MlirValue *out_values) {
    last_step *l = user;
    MlirValue first = tsr_tile_mul(&l->r.group->b, index, CHUNKS_AT_ONCE);
    out_values[0] = add_chunks(l, first, CHUNKS_AT_ONCE);
}

static MlirValue combine_groups(void *user, uint32_t which, MlirValue x, MlirValue y) {
    last_step *l = user;
    (void)which;
    return tsr_reduction_combine(&l->r, x, y);
}

static MlirValue add_all_chunks(last_step *l) {
    tsr_tile_builder *b = &l->r.group->b;
    int64_t all = l->plan->partials, rest = all % CHUNKS_AT_ONCE;
    MlirValue empty = tsr_reduction_identity(&l->r, LANES), last = empty, result;
    if (rest) last = add_chunks(l, tsr_tile_index(b, all - rest), rest);
    tsr_tree tree = {.b = b,
                     .leaves = all / CHUNKS_AT_ONCE + (rest != 0),
                     .count = 1,
                     .empty = &empty,
                     .last = rest ? &last : NULL,
                     .leaf = add_chunk_group,
                     .combine = combine_groups,
                     .user = l};
    tsr_tree_emit(&tree, &result);
    return result;
}

static tsr_result lower_last(tsr_tile_group *step, const void *user) {
    last_step l = {.plan = user, .from = step->buffers[step->input_count - 1]};
    tsr_tile_group g;
    TRY(step->ctx, open_step(step, l.plan, true, &g, &l.r));
    bool column[TSR_RANK_MAX] = {false};
    column[l.r.space.rank - 1] = true;
    tsr_region_levels(&l.r.after, &l.r.space, column);
    find_program(&l.r, step, 1, LANES, &l.point, &l.outer);
    tsr_region_emit(&l.r.after, 0, &l.point);
    MlirValue sum = l.plan->is_long    ? add_all_chunks(&l)
                    : g.b.target->arch ? add_at_once(&l)
                                       : add_in_depth(&l, 0, 1);
    tsr_reduction_finish(&l.r, sum, &l.point);
    return TSR_SUCCESS;
}

/* ---- plan ------------------------------------------------------------------------------------ */

/* Finds the group's arguments that a region reads. */
static bool find_inputs(const tsr_region *region, uint32_t inputs[TSR_SEQUENCE_ARGUMENTS_MAX],
                        uint32_t *out_count) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < region->node_count; i++) {
        const tsr_node *node = region->nodes[i];
        if (node->kind != TSR_NODE_VIEW) continue;
        if (count + 1 == TSR_SEQUENCE_ARGUMENTS_MAX) return false;
        inputs[count++] = (uint32_t)mlirBlockArgumentGetArgNumber(node->source);
    }
    *out_count = count;
    return true;
}

/* True if each constant has a single value: other constants are buffers of the kernel. */
static bool has_plain_constants(const tsr_tile_group *group) {
    TSR_FOR_EACH_OP(op, group->body) {
        if (!tsr_op_is(op, TSR_GRAPH_CONSTANT)) continue;
        MlirAttribute value = tsr_op_attr(op, "value");
        if (!mlirAttributeIsADenseElements(value) || !mlirDenseElementsAttrIsSplat(value))
            return false;
    }
    return true;
}

static int64_t count_partials(const tsr_tile_group *group, const tsr_reduction *r) {
    int64_t size = r->space.dims[r->space.rank - 1], count = TSR_PARTIALS;
    int64_t parts = tsr_divide_up(size, TSR_BLOCKED_ELEMENTS);
    parts *= r->parallel_count / size;
    while (group->is_native && count * parts < PROGRAMS_MIN &&
           r->reduced_count / (2 * count) >= CHAIN_MIN)
        count *= 2;
    return count;
}

static void make_steps(const tsr_tile_group *group, const tsr_reduction *r, plan *p,
                       tsr_tile_sequence *sequence) {
    uint64_t size = (uint64_t)r->space.dims[r->space.rank - 1];
    tsr_type partials = {
        r->dtype,
        {.rank = 3, .dims = {(uint64_t)r->parallel_count / size, (uint64_t)p->partials, size}}};
    tsr_tile_step *parts = &sequence->steps[0], *last = &sequence->steps[1];
    *parts = (tsr_tile_step){.suffix = "_parts",
                             .input_count = p->input_counts[0],
                             .outputs = {partials},
                             .output_count = 1,
                             .is_main = true,
                             .lower = p->is_long              ? lower_chunks
                                      : group->b.target->arch ? lower_parts
                                                              : lower_group};
    memcpy(parts->inputs, p->inputs[0], sizeof parts->inputs);
    *last = (tsr_tile_step){.suffix = "",
                            .input_count = p->input_counts[1] + 1,
                            .output_count = group->output_count,
                            .lower = lower_last};
    memcpy(last->inputs, p->inputs[1], sizeof last->inputs);
    last->inputs[p->input_counts[1]] = group->input_count;
    for (uint32_t i = 0; i < group->output_count; i++) {
        last->outputs[i] = group->types[group->input_count + i];
        sequence->results[i] = group->input_count + 1 + i;
    }
    sequence->step_count = 2;
    sequence->plan = p;
}

/* Plans the partial results of a program of a CPU. False if one kernel is enough: there are few
 * rows, or many outer indices. */
static bool find_group(tsr_reduction *r, plan *p) {
    const tsr_region *before = &r->before;
    int64_t size = r->space.dims[r->space.rank - 1], element = (int64_t)tsr_dtype_size(r->dtype);
    int64_t bytes = tsr_region_bytes(before, NULL, &r->space) * tsr_space_count(&r->space);
    if (bytes < TSR_PREFETCH_BYTES_MIN || r->parallel_count / size > OUTER_MAX) return false;
    for (p->count = GROUP_MAX; p->count * size * element > GROUP_BYTES;) p->count /= 2;
    return p->count > 0;
}

tsr_result tsr_tile_plan_reduce(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                                bool *out_taken) {
    tsr_reduction r;
    bool arch = group->b.target->arch;
    *out_taken = false;
    if (!has_plain_constants(group) || group->output_count > TSR_SEQUENCE_RESULTS_MAX)
        return TSR_SUCCESS;
    TRY(group->ctx, tsr_reduction_init(group, &r));
    if (r.contiguous || !r.parallel_count || r.reduced_count < ROWS_MIN ||
        (arch && tsr_dtype_size(r.dtype) > 4))
        return TSR_SUCCESS;
    plan *p = TSR_NEW(group->arena, plan, 1);
    if (!p) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    *p = (plan){.group = group, .partials = arch ? count_partials(group, &r) : TSR_PARTIALS};
    /* GPU sums have an order of their own with native numerics. */
    p->is_long = tsr_sum_is_long(r.reduced_count) && !(arch && group->is_native);
    if (p->is_long) p->partials = (r.reduced_count - 1) / TSR_SUM_CHUNK + 1;
    if ((!arch && !p->is_long && !find_group(&r, p)) ||
        !find_inputs(&r.before, p->inputs[0], &p->input_counts[0]) ||
        !find_inputs(&r.after, p->inputs[1], &p->input_counts[1]))
        return TSR_SUCCESS;
    make_steps(group, &r, p, out_sequence);
    *out_taken = true;
    return TSR_SUCCESS;
}
