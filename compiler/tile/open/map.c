/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise groups with extents, and the division of work over programs.
 */
#include "compiler/tile/open.h"

enum { PROGRAM_BYTES = 16 * 1024, PROGRAMS_MAX = 64 };

/* ---- programs -------------------------------------------------------------------------------- */

void tsr_open_programs(tsr_tile_group *group, int64_t high, int64_t bytes) {
    int64_t each = bytes < PROGRAM_BYTES ? PROGRAM_BYTES / (bytes ? bytes : 1) : 1;
    int64_t programs = tsr_divide_up(high, each);
    if (programs > PROGRAMS_MAX) programs = PROGRAMS_MAX;
    if (programs < 1) programs = 1;
    group->grid = programs;
    group->open_grid[0] = programs;
    group->open_grid[1] = group->open_high;
    group->open_grid[2] = 1;
}

void tsr_open_share(tsr_tile_group *group, MlirValue items, tsr_tile_loop *loop) {
    tsr_tile_builder *b = &group->b;
    MlirValue begin = tsr_tile_index(b, 0), end = items;
    if (group->grid > 1) {
        MlirValue pid = tsr_tile_program_id(b);
        MlirValue scaled = tsr_tile_mul(b, group->open_size, group->grid);
        MlirValue programs =
            tsr_tile_div(b, tsr_tile_offset(b, scaled, group->open_high - 1), group->open_high);
        begin = tsr_tile_2(b, "arith.divui", tsr_tile_2(b, "arith.muli", pid, items), programs);
        MlirValue next = tsr_tile_offset(b, pid, 1);
        end = tsr_tile_2(b, "arith.divui", tsr_tile_2(b, "arith.muli", next, items), programs);
    }
    tsr_tile_loop_begin(b, loop, begin, end, 1, 0, NULL);
}

/* ---- maps ------------------------------------------------------------------------------------ */

typedef struct map {
    tsr_tile_group *group;
    tsr_region *region;
    tsr_view *outputs;
    const tsr_space *space;
    tsr_map_run run;
    int64_t rows, columns; /* extents */
    bool outer[TSR_RANK_MAX], inner[TSR_RANK_MAX];
} map;

/* A vector is loaded from consecutive elements. */
static bool skips_elements(const map *m) {
    uint32_t last = m->space->rank - 1;
    for (uint32_t i = 0; i < m->region->node_count; i++) {
        const tsr_node *node = m->region->nodes[i];
        int64_t stride = node->view.strides[last];
        if (node->kind == TSR_NODE_VIEW && stride != 0 && stride != 1) return true;
    }
    for (uint32_t i = 0; i < m->region->result_count; i++)
        if (m->outputs[i].strides[last] != 1) return true;
    return false;
}

static void plan(map *m) {
    tsr_tile_builder *b = &m->group->b;
    uint32_t last = m->space->rank - 1;
    m->rows = 1;
    m->columns = m->space->dims[last];
    for (uint32_t d = 0; d <= last; d++) {
        m->inner[d] = d == last;
        m->outer[d] = d != last;
        if (d != last) m->rows = tsr_extent_times(m->rows, m->space->dims[d]);
    }
    uint32_t lanes = 2 * b->target->vector_bytes / tsr_region_width(m->region);
    lanes = skips_elements(m) ? 1 : tsr_lanes_fit(lanes, tsr_extent_high(b, m->columns));
    m->run = (tsr_map_run){.region = m->region,
                           .outputs = m->outputs,
                           .lanes = lanes,
                           .loops = true,
                           .tails = lanes > 1};
}

/* One row: its vectors are shared. */
static void emit_row(map *m, const tsr_point *line) {
    tsr_tile_builder *b = &m->group->b;
    enum { UNIT = 64 };
    tsr_tile_loop units;
    int64_t bytes = UNIT * tsr_region_bytes(m->region, m->outputs, m->space);
    MlirValue columns = tsr_tile_index(b, m->columns);
    MlirValue count = tsr_tile_div(b, tsr_tile_offset(b, columns, UNIT - 1), UNIT);
    tsr_open_programs(m->group, tsr_divide_up(tsr_extent_high(b, m->columns), UNIT), bytes);
    tsr_open_share(m->group, count, &units);
    MlirValue begin = tsr_tile_mul(b, units.index, UNIT);
    MlirValue left = tsr_tile_sub(b, columns, begin);
    tsr_map_run_emit(&m->run, line, begin, tsr_tile_min(b, left, tsr_tile_index(b, UNIT)));
    tsr_tile_loop_end(b, &units, NULL);
}

static void emit_rows(map *m, tsr_point *point) {
    tsr_tile_builder *b = &m->group->b;
    tsr_tile_loop rows;
    int64_t bytes = tsr_region_bytes(m->region, m->outputs, m->space);
    tsr_open_programs(m->group, tsr_extent_high(b, m->rows),
                      bytes * tsr_extent_high(b, m->columns));
    tsr_open_share(m->group, tsr_tile_index(b, m->rows), &rows);
    tsr_point_unflatten(b, point, m->outer, rows.index);
    tsr_region_emit(m->region, 1, point);
    tsr_map_run_emit(&m->run, point, tsr_tile_index(b, 0), tsr_tile_index(b, m->columns));
    tsr_tile_loop_end(b, &rows, NULL);
}

void tsr_open_emit_map(tsr_tile_group *group, tsr_region *region, tsr_view *outputs,
                       tsr_space *space) {
    map m = {.group = group, .region = region, .outputs = outputs, .space = space};
    tsr_point point = {.space = space};
    bool none[TSR_RANK_MAX] = {false};
    if (space->rank) plan(&m);
    tsr_region_levels(region, space, space->rank ? m.inner : none);
    tsr_region_emit(region, 0, &point);
    if (!space->rank) {
        tsr_open_programs(group, 1, 1);
        tsr_region_store(region, outputs, &point);
    } else if (space->rank == 1) {
        emit_row(&m, &point);
    } else {
        emit_rows(&m, &point);
    }
}

tsr_result tsr_open_lower_map(tsr_tile_group *group) {
    const tsr_shape *shape = &group->types[group->input_count].shape;
    tsr_region region;
    tsr_space space = {.rank = shape->rank};
    for (uint32_t d = 0; d < shape->rank; d++) space.dims[d] = (int64_t)shape->dims[d];
    tsr_view *outputs = TSR_NEW(group->arena, tsr_view, group->output_count);
    if (!outputs) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    for (uint32_t i = 0; i < group->output_count; i++)
        tsr_view_of_argument(&outputs[i], group, group->input_count + i, &space, NULL);
    TRY(group->ctx, tsr_region_init(group, group->returned, group->output_count, tsr_tile_null,
                                    &space, NULL, &region));
    tsr_region *regions[] = {&region};
    tsr_space_collapse(&space, regions, 1, outputs, group->output_count);
    tsr_open_emit_map(group, &region, outputs, &space);
    return TSR_SUCCESS;
}
