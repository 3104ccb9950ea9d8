/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `map`: an elementwise expression over one shape.
 *
 * After collapsing, the last dimension is the longest run that every operand walks with stride 1 or
 * 0, and vectors go along it. A program computes whole rows, or a part of one row if rows are
 * long. On a warp, lanes move 16 bytes at a time if all runs begin at multiples of 16 bytes. With
 * native numerics, if all results have 16 bits, functions use the hardware's approximations, and a
 * product and an addition that uses it may become one FMA.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/open.h"
#include "compiler/tile/region.h"

enum { PROGRAM_BYTES = 16 * 1024 };

typedef struct map {
    tsr_tile_group *group;
    tsr_region region;
    tsr_view *outputs;
    tsr_space space;
    bool inner[TSR_RANK_MAX], outer[TSR_RANK_MAX];
    int64_t columns, rows; /* the last dimension; the product of the other factors */
    int64_t columns_per_program, rows_per_program;
    uint32_t lanes;
    bool blocked;      /* see tsr_region_may_block */
    tsr_view *shifted; /* NULL, or the output to whose lines vectors are aligned */
} map;

static tsr_result prepare(map *m) {
    tsr_tile_group *group = m->group;
    const tsr_shape *shape = &group->types[group->input_count].shape;
    m->space.rank = shape->rank;
    for (uint32_t d = 0; d < shape->rank; d++) m->space.dims[d] = (int64_t)shape->dims[d];
    m->outputs = TSR_NEW(group->arena, tsr_view, group->output_count);
    if (!m->outputs) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    for (uint32_t i = 0; i < group->output_count; i++)
        tsr_view_of_argument(&m->outputs[i], group, group->input_count + i, &m->space, NULL);
    TRY(group->ctx, tsr_region_init(group, group->returned, group->output_count, tsr_tile_null,
                                    &m->space, NULL, &m->region));
    tsr_region *regions[] = {&m->region};
    tsr_space_collapse(&m->space, regions, 1, m->outputs, group->output_count);
    return TSR_SUCCESS;
}

/* True if a view has another stride than 0 or 1. A vector is loaded from consecutive elements;
 * other strides need one load per element. */
static bool skips_elements(const map *m) {
    for (uint32_t i = 0; i < m->region.node_count; i++) {
        const tsr_node *node = m->region.nodes[i];
        int64_t stride = node->view.strides[m->space.rank - 1];
        if (node->kind == TSR_NODE_VIEW && stride != 0 && stride != 1) return true;
    }
    return false;
}

/* True if the map draws normal numbers. Many are then computed at once, so that those in the tails
 * fill several vectors. */
static bool samples_normals(const map *m) {
    for (uint32_t i = 0; i < m->region.node_count; i++) {
        const tsr_node *node = m->region.nodes[i];
        if (node->kind == TSR_NODE_OP && tsr_op_is(node->op, TSR_GRAPH_PHILOX) &&
            tsr_op_has(node->op, "normal"))
            return true;
    }
    return false;
}

/* Four vectors hide the latency of a function; two vectors hide the latency of any other op. Rows
 * use four vectors only if they are multiples of four vectors, or so long that the masked rest does
 * not matter. A lane of a GPU has other warps to hide latency. */
static uint32_t lanes_at_once(const map *m) {
    enum { LONG = 16, NORMALS = 128 };
    const tsr_target *target = m->group->b.target;
    if (!target->warp_lanes && m->columns >= NORMALS && samples_normals(m)) return NORMALS;
    uint32_t two = 2 * target->vector_bytes / tsr_region_width(&m->region);
    int64_t four = 2 * (int64_t)two;
    bool fits = m->columns % four == 0 || m->columns >= LONG * four;
    return fits && !target->warp_lanes ? (uint32_t)four : two;
}

/* The other outputs must not be streamed, because vectors are not aligned to their lines. */
static void find_shifted(map *m) {
    for (uint32_t i = 0; i < m->region.result_count; i++) m->outputs[i].streamed = false;
    m->shifted->streamed = true;
}

static void plan(map *m) {
    uint32_t rank = m->space.rank;
    for (uint32_t d = 0; d < rank; d++) {
        m->inner[d] = d == rank - 1;
        m->outer[d] = d != rank - 1;
    }
    m->columns = rank ? m->space.dims[rank - 1] : 1;
    m->rows = tsr_space_count(&m->space) / m->columns;
    int64_t elements = PROGRAM_BYTES / tsr_region_bytes(&m->region, m->outputs, &m->space);
    elements = tsr_round_up(elements, 256);
    m->columns_per_program = m->columns < elements ? m->columns : elements;
    m->rows_per_program = m->columns < elements ? elements / m->columns : 1;
    if (m->rows_per_program > m->rows) m->rows_per_program = m->rows;
    m->lanes = lanes_at_once(m);
    m->lanes = rank ? tsr_lanes_fit(m->lanes, m->columns_per_program) : 0;
    if (rank && skips_elements(m)) m->lanes = 1;
    m->blocked = m->columns_per_program >= TSR_BLOCKED_ELEMENTS &&
                 tsr_region_may_block(&m->region, m->outputs, &m->space, m->columns);
    if (m->blocked) m->lanes = TSR_BLOCKED_ELEMENTS;
    tsr_region_levels(&m->region, &m->space, m->inner);
    for (uint32_t i = 0; i < m->region.result_count; i++)
        m->outputs[i].streamed = tsr_view_streams(&m->outputs[i], &m->space, m->lanes);
    for (uint32_t i = 0; i < m->region.result_count && !m->shifted; i++)
        if (tsr_view_streams_shifted(m->group, &m->outputs[i], &m->space, m->lanes))
            m->shifted = &m->outputs[i];
    if (m->shifted) find_shifted(m);
}

/* A row of the open dim may end in a partial vector. */
static bool open_tails(const map *m) {
    int64_t high = m->group->open_high;
    return high && m->space.rank == 1 && m->columns / high % m->lanes != 0;
}

static void emit(map *m) {
    tsr_tile_builder *b = &m->group->b;
    tsr_point point = {.space = &m->space};
    tsr_region_emit(&m->region, 0, &point);
    if (!m->space.rank) {
        tsr_region_store(&m->region, m->outputs, &point);
        return;
    }
    int64_t parts = tsr_divide_up(m->columns, m->columns_per_program);
    int64_t blocks = tsr_divide_up(m->rows, m->rows_per_program);
    bool open_columns = m->group->open_high && m->space.rank == 1;
    m->group->grid = parts * blocks;
    if (open_columns)
        tsr_tile_open_grid(m->group, m->columns, m->columns_per_program, 1);
    else
        tsr_tile_open_grid(m->group, m->rows, m->rows_per_program, parts);
    MlirValue columns =
        open_columns ? tsr_tile_open_count(m->group, m->columns) : tsr_tile_index(b, m->columns);
    MlirValue zero = tsr_tile_index(b, 0);
    MlirValue pid = m->group->grid > 1 ? tsr_tile_program_id(b) : zero;
    MlirValue column = tsr_tile_mul(b, tsr_tile_rem(b, pid, parts), m->columns_per_program);
    MlirValue count = tsr_tile_min(b, tsr_tile_index(b, m->columns_per_program),
                                   tsr_tile_sub(b, columns, column));
    if (m->columns % m->columns_per_program == 0 && !open_columns)
        count = tsr_tile_index(b, m->columns_per_program);
    MlirValue row = tsr_tile_mul(b, tsr_tile_div(b, pid, parts), m->rows_per_program);
    MlirValue rows = open_columns ? tsr_tile_index(b, 1) : tsr_tile_open_count(m->group, m->rows);
    MlirValue end = tsr_tile_min(b, tsr_tile_offset(b, row, m->rows_per_program), rows);
    tsr_tile_loop loop;
    bool looped = m->rows_per_program > 1;
    if (looped) tsr_tile_loop_begin(b, &loop, row, end, 1, 0, NULL);
    tsr_point_unflatten(b, &point, m->outer, looped ? loop.index : row);
    tsr_region_emit(&m->region, 1, &point);
    const tsr_map_run run = {.region = &m->region,
                             .outputs = m->outputs,
                             .lanes = m->lanes,
                             .blocked = m->blocked,
                             .loops = m->columns_per_program >= (int64_t)m->lanes,
                             .tails = m->columns % m->lanes != 0 || open_tails(m),
                             .shifted = m->shifted};
    tsr_map_run_emit(&run, &point, column, count);
    if (looped) tsr_tile_loop_end(b, &loop, NULL);
}

void tsr_tile_emit_map(tsr_tile_group *group, const tsr_region *region, tsr_view *outputs,
                       const tsr_space *space) {
    map m = {.group = group, .region = *region, .outputs = outputs, .space = *space};
    if (tsr_space_count(space) == 0) return;
    plan(&m);
    emit(&m);
    if (m.blocked) tsr_tile_set_blocked(&group->b, group->b.at.block, false);
}

/* True if all results have 16 bits. */
static bool is_narrow(const tsr_tile_group *group) {
    for (uint32_t i = 0; i < group->output_count; i++)
        if (!tsr_dtype_is_narrow(group->types[group->input_count + i].dtype)) return false;
    return true;
}

tsr_result tsr_tile_lower_map(tsr_tile_group *group) {
    map m = {.group = group};
    bool approximates = group->is_native && is_narrow(group);
    TRY(group->ctx, prepare(&m));
    group->b.approximate = group->contracts = approximates;
    tsr_tile_emit_map(group, &m.region, m.outputs, &m.space);
    if (approximates) tsr_tile_approximate(&group->b, group->b.at.block);
    return TSR_SUCCESS;
}
