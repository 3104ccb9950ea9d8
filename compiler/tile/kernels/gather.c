/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel families `gather`, `scatter` and `scatter_add` along an axis, one kernel each. On a GPU
 * most of a scatter is in scatter.c.
 *
 * An index outside [0, size) sets the fault record and moves nothing; on a GPU it counts as 0.
 * A scatter takes the updates of an element in ascending order of their positions, for every
 * division of the work: each program owns some columns of `inner`.
 */
#include "compiler/tile/kernels/gather.h"

#include "compiler/tile/attributes.h"
#include "compiler/tile/elements/element.h"
#include "runtime/base/array.h"

#include <string.h>

/* Returns the constant input of a scatter, whose result has the shape of its input; else null.
 */
static MlirOperation find_fill(const tsr_tile_group *group) {
    MlirOperation none = {NULL}, op = tsr_value_owner(tsr_op_operand(group->root, 0));
    if (tsr_op_is(group->root, TSR_GRAPH_GATHER) || mlirOperationIsNull(op)) return none;
    return tsr_op_is(op, TSR_GRAPH_CONSTANT) ? op : none;
}

MlirValue tsr_gather_fill_value(tsr_tile_builder *b, const tsr_gather *g) {
    return tsr_splat_value(b, &(tsr_node){.op = g->fill, .dtype = g->dtype});
}

tsr_result tsr_gather_read(tsr_tile_group *group, tsr_gather *out_gather) {
    int64_t axis = 0;
    tsr_gather made = {.group = group}, *g = &made;
    g->fill = find_fill(group);
    if (mlirOperationIsNull(g->fill)) TRY(group->ctx, tsr_runs_argument(group, 0, &g->input));
    TRY(group->ctx, tsr_runs_argument(group, 1, &g->indices));
    const tsr_type *index = &group->types[g->indices];
    const tsr_type *type =
        &group->types[mlirOperationIsNull(g->fill) ? g->input : group->input_count];
    if (!tsr_op_i64(group->root, "axis", &axis) || axis < 0 || axis >= (int64_t)type->shape.rank ||
        (index->dtype != TSR_DTYPE_I64 && index->dtype != TSR_DTYPE_I32))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed gather", group->name);
    g->axis = tsr_axis_of(&type->shape, axis);
    g->count = 1;
    for (uint32_t d = 0; d < index->shape.rank; d++)
        g->count = tsr_extent_times(g->count, (int64_t)index->shape.dims[d]);
    g->dtype = type->dtype;
    g->index_dtype = index->dtype;
    *out_gather = made;
    return TSR_SUCCESS;
}

/* The index at `position`, or 0 if it is not valid. */
static MlirValue load_index(tsr_gather *g, MlirValue position) {
    tsr_tile_builder *b = &g->group->b;
    MlirType wide = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    MlirValue index =
        tsr_tile_load(b, g->index_dtype, g->group->buffers[g->indices], position, 0, tsr_tile_null);
    if (g->index_dtype != TSR_DTYPE_I64) index = tsr_tile_to(b, "arith.extsi", index, wide);
    g->valid = tsr_tile_check_index(b, index, position, g->indices, g->axis.size);
    index = tsr_tile_select(b, g->valid, index, tsr_tile_int(b, wide, 0));
    return tsr_tile_to(b, "arith.index_cast", index, tsr_tile_index_type(b));
}

/* A GPU warp copies columns of a few rows; the loads of all these rows are in flight together. */
static void gather_few(tsr_gather *g) {
    enum { ROWS = 4, WARP = 32, REGISTERS = 64 };
    tsr_tile_group *group = g->group;
    tsr_tile_builder *b = &group->b;
    uint32_t lanes = tsr_lanes_fit(TSR_BLOCKED_ELEMENTS, g->axis.inner);
    if (lanes < WARP) lanes = WARP;
    int64_t rows = g->axis.outer * g->count, parts = tsr_divide_up(g->axis.inner, lanes);
    MlirValue values[ROWS], row[ROWS], from[ROWS], mask = tsr_tile_null;
    MlirValue pid = tsr_tile_program_id(b), last = tsr_tile_index(b, rows - 1);
    MlirValue first = tsr_tile_mul(b, tsr_tile_div(b, pid, parts), ROWS);
    MlirValue column = tsr_tile_mul(b, tsr_tile_rem(b, pid, parts), lanes);
    if (g->axis.inner % lanes)
        mask = tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, g->axis.inner), column), lanes);
    group->grid = tsr_divide_up(rows, ROWS) * parts;
    group->registers = REGISTERS;
    for (int64_t i = 0; i < ROWS; i++) {
        row[i] = tsr_tile_min(b, tsr_tile_offset(b, first, i), last);
        MlirValue index = load_index(g, tsr_tile_rem(b, row[i], g->count));
        MlirValue table = tsr_tile_mul(b, tsr_tile_div(b, row[i], g->count), g->axis.size);
        from[i] = tsr_tile_mul(b, tsr_tile_add(b, table, index), g->axis.inner);
    }
    for (int64_t i = 0; i < ROWS; i++)
        values[i] = tsr_tile_load_stored(b, g->dtype, group->buffers[g->input],
                                         tsr_tile_add(b, from[i], column), lanes, mask);
    for (int64_t i = 0; i < ROWS; i++) {
        MlirValue to = tsr_tile_add(b, tsr_tile_mul(b, row[i], g->axis.inner), column);
        tsr_tile_store_stored(b, values[i], group->buffers[group->input_count], to, mask);
    }
    tsr_tile_set_blocked(b, b->at.block, false);
}

tsr_result tsr_tile_lower_gather(tsr_tile_group *group) {
    tsr_gather g;
    TRY(group->ctx, tsr_gather_read(group, &g));
    if (!g.axis.outer || !g.count || !g.axis.inner) return TSR_SUCCESS;
    if (group->b.target->arch && g.axis.size) {
        gather_few(&g);
        return TSR_SUCCESS;
    }
    tsr_tile_builder *b = &group->b;
    tsr_strip s;
    /* The cost of a row includes the load of its index. */
    int64_t bytes = (int64_t)tsr_dtype_size(g.dtype) + 16 / tsr_extent_high(b, g.axis.inner);
    int64_t rows = tsr_extent_times(g.axis.outer, g.count);
    tsr_strip_begin(group, rows, g.axis.inner, bytes, false, &s);
    MlirValue index = load_index(&g, tsr_tile_rem(b, s.row, g.count));
    MlirValue row = tsr_tile_mul(b, tsr_tile_div(b, s.row, g.count), g.axis.size);
    MlirValue from = tsr_tile_mul(b, tsr_tile_add(b, row, index), g.axis.inner);
    MlirValue columns = tsr_tile_sub(b, s.end, s.begin);
    tsr_run run = {g.dtype, tsr_tile_select(b, g.valid, columns, tsr_tile_index(b, 0)), s.width};
    tsr_run_copy(b, &run, group->buffers[g.input], tsr_tile_add(b, from, s.begin),
                 group->buffers[group->input_count],
                 tsr_tile_add(b, tsr_tile_mul(b, s.row, g.axis.inner), s.begin));
    tsr_strip_end(group, &s);
    return TSR_SUCCESS;
}

/* ---- scatter --------------------------------------------------------------------------------- */

static const char *how_of(const tsr_gather *g) {
    const char *how = tsr_op_string(g->group->root, "how");
    return tsr_op_is(g->group->root, TSR_GRAPH_SCATTER_ADD) ? "add" : how ? how : "set";
}

bool tsr_scatter_sets(const tsr_gather *g) { return strcmp(how_of(g), "set") == 0; }

MlirValue tsr_scatter_combine(tsr_tile_builder *b, const tsr_gather *g, MlirValue element,
                              MlirValue update) {
    static const struct {
        const char *how;
        MlirValue (*combine)(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y);
    } rows[] = {{"add", tsr_element_add},
                {"mul", tsr_element_mul},
                {"max", tsr_element_max},
                {"min", tsr_element_min}};
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        if (strcmp(rows[i].how, how_of(g)) == 0)
            return rows[i].combine(b, g->dtype, element, update);
    return update;
}

/* Takes one vector of an update, from its offset `update`. */
static void add_vector(tsr_gather *g, MlirValue updates, MlirValue update, MlirValue element,
                       uint32_t lanes, MlirValue mask) {
    tsr_tile_builder *b = &g->group->b;
    MlirValue to = g->group->buffers[g->group->input_count];
    MlirValue sum = tsr_tile_load(b, g->dtype, to, element, lanes, mask);
    MlirValue more = tsr_tile_load(b, g->dtype, updates, update, lanes, mask);
    tsr_tile_store(b, g->dtype, tsr_scatter_combine(b, g, sum, more), to, element, mask);
}

static void add_update(tsr_gather *g, MlirValue updates, const tsr_strip *s, MlirValue position) {
    tsr_tile_builder *b = &g->group->b;
    MlirValue zero = tsr_tile_index(b, 0), row = tsr_tile_mul(b, s->row, g->axis.size);
    MlirValue index = load_index(g, position);
    MlirValue columns = tsr_tile_sub(b, s->end, s->begin);
    MlirValue count = tsr_tile_select(b, g->valid, columns, zero);
    MlirValue to = tsr_tile_mul(b, tsr_tile_add(b, row, index), g->axis.inner);
    MlirValue from = tsr_tile_add(b, tsr_tile_mul(b, s->row, g->count), position);
    to = tsr_tile_add(b, to, s->begin);
    from = tsr_tile_add(b, tsr_tile_mul(b, from, g->axis.inner), s->begin);
    if (tsr_scatter_sets(g)) {
        tsr_run run = {g->dtype, count, s->width};
        tsr_run_copy(b, &run, updates, from, g->group->buffers[g->group->input_count], to);
        return;
    }
    size_t width = tsr_dtype_size(tsr_tile_compute_dtype(g->dtype));
    uint32_t lanes = tsr_lanes_fit(2 * b->target->vector_bytes / (uint32_t)width, s->width);
    MlirValue tail = tsr_tile_rem(b, count, lanes);
    TSR_TILE_FOR(b, loop, zero, tsr_tile_sub(b, count, tail), lanes) {
        add_vector(g, updates, tsr_tile_add(b, from, loop.index), tsr_tile_add(b, to, loop.index),
                   lanes, tsr_tile_null);
    }
    if (lanes == 1) return;
    MlirValue whole = tsr_tile_sub(b, count, tail);
    add_vector(g, updates, tsr_tile_add(b, from, whole), tsr_tile_add(b, to, whole), lanes,
               tsr_tile_mask(b, tail, lanes));
}

/* Copies the program's columns of the input; the updates are added to them. */
static void copy_input(tsr_gather *g, const tsr_strip *s) {
    tsr_tile_builder *b = &g->group->b;
    MlirValue to = g->group->buffers[g->group->input_count];
    MlirType stored = tsr_tile_storage_type(b, g->dtype);
    MlirValue fill = tsr_tile_null;
    if (!mlirOperationIsNull(g->fill)) fill = tsr_gather_fill_value(b, g);
    if (!mlirOperationIsNull(g->fill) && tsr_dtype_is_narrow(g->dtype))
        fill = tsr_tile_to(b, "arith.truncf", fill, stored);
    if (!mlirOperationIsNull(g->fill) && g->dtype == TSR_DTYPE_I1)
        fill = tsr_tile_to(b, "arith.extui", fill, stored);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, g->axis.size), 1) {
        MlirValue row = tsr_tile_add(b, tsr_tile_mul(b, s->row, g->axis.size), loop.index);
        MlirValue offset = tsr_tile_add(b, tsr_tile_mul(b, row, g->axis.inner), s->begin);
        tsr_run run = {g->dtype, tsr_tile_sub(b, s->end, s->begin), s->width};
        if (mlirOperationIsNull(g->fill))
            tsr_run_copy(b, &run, g->group->buffers[g->input], offset, to, offset);
        else
            tsr_run_fill(b, &run, fill, to, offset);
    }
}

tsr_result tsr_tile_lower_scatter(tsr_tile_group *group) {
    tsr_gather g;
    uint32_t updates = 0;
    TRY(group->ctx, tsr_gather_read(group, &g));
    TRY(group->ctx, tsr_runs_argument(group, 2, &updates));
    if (!g.axis.outer || !g.axis.inner) return TSR_SUCCESS;
    tsr_tile_builder *b = &group->b;
    tsr_strip s;
    int64_t moved = tsr_extent_high(b, g.axis.size) + 2 * tsr_extent_high(b, g.count) + 1;
    int64_t bytes = moved * (int64_t)tsr_dtype_size(g.dtype);
    tsr_strip_begin(group, g.axis.outer, g.axis.inner, bytes, false, &s);
    if (g.axis.size) copy_input(&g, &s);
    if (g.count) {
        TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, g.count), 1) {
            add_update(&g, group->buffers[updates], &s, loop.index);
        }
    }
    tsr_strip_end(group, &s);
    return TSR_SUCCESS;
}
