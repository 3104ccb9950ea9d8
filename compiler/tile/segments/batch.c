/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `batch`: one elementwise expression on the buffers of several segments, whose sizes
 * differ. A program works on a part of one segment, which it finds by its program number
 * (tile.segment); the expression is emitted once.
 */
#include "compiler/schedule/schedule.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/segments/segments.h"

enum { PROGRAM_BYTES = 16 * 1024, PROGRAM_UNIT = 256 };

typedef struct batch {
    tsr_tile_group *group;
    tsr_segments segments;
    tsr_region region;
    tsr_view *outputs; /* outputs of a segment */
    tsr_space space;   /* shape of the first segment */
    int64_t elements;  /* elements of a program */
    MlirValue *parts;  /* the buffers of the program's segment */
    MlirValue number, size;
} batch;

static uint64_t count_of(const batch *t, uint32_t segment) {
    uint64_t count = 0;
    const tsr_tile_group *group = t->group;
    tsr_shape_count(&group->types[group->input_count + segment * t->segments.outputs].shape,
                    &count);
    return count;
}

static tsr_result prepare(batch *t) {
    tsr_tile_group *group = t->group;
    uint32_t input_count = group->input_count;
    const tsr_shape *shape = &group->types[input_count].shape;
    if (!tsr_segments_read(group->op, input_count, group->output_count, &t->segments))
        FAIL(group->ctx, TSR_INTERNAL, "'%s' has no segments", group->name);
    for (uint32_t i = 1; i < t->segments.count; i++)
        if (count_of(t, i) > count_of(t, 0))
            FAIL(group->ctx, TSR_INTERNAL, "'%s': segment %u is larger than the first one",
                 group->name, i);
    t->space.rank = shape->rank;
    for (uint32_t d = 0; d < shape->rank; d++) t->space.dims[d] = (int64_t)shape->dims[d];
    t->outputs = TSR_NEW(group->arena, tsr_view, t->segments.outputs);
    t->parts = TSR_NEW(group->arena, MlirValue, t->segments.inputs + t->segments.outputs);
    if (!t->outputs || !t->parts)
        FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    for (uint32_t i = 0; i < t->segments.outputs; i++)
        tsr_view_of_argument(&t->outputs[i], group, input_count + i, &t->space, NULL);
    TRY(group->ctx, tsr_region_init(group, group->returned, t->segments.outputs, tsr_tile_null,
                                    &t->space, NULL, &t->region));
    tsr_region *regions[] = {&t->region};
    tsr_space_collapse(&t->space, regions, 1, t->outputs, t->segments.outputs);
    if (t->space.rank != 1)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': a segment has %u dimensions; expected one",
             group->name, t->space.rank);
    return TSR_SUCCESS;
}

/* Builds tile.segment; *out_grid is the total number of programs. */
static tsr_result find_segment(batch *t, int64_t *out_grid) {
    tsr_tile_group *group = t->group;
    tsr_tile_builder *b = &group->b;
    uint32_t inputs = t->segments.inputs, outputs = t->segments.outputs, parts = inputs + outputs;
    MlirValue *operands = TSR_NEW(group->arena, MlirValue, 1 + (size_t)t->segments.count * parts);
    MlirType *types = TSR_NEW(group->arena, MlirType, 2 + (size_t)parts);
    int64_t *first = TSR_NEW(group->arena, int64_t, t->segments.count);
    int64_t grid = 0;
    size_t at = 0;
    if (!operands || !types || !first)
        FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    operands[at++] = tsr_tile_program_id(b);
    for (uint32_t p = 0; p < t->segments.count; p++) {
        first[p] = grid;
        grid += ((int64_t)count_of(t, p) + t->elements - 1) / t->elements;
        for (uint32_t i = 0; i < inputs; i++) operands[at++] = group->buffers[p * inputs + i];
        for (uint32_t i = 0; i < outputs; i++)
            operands[at++] = group->buffers[group->input_count + p * outputs + i];
    }
    types[0] = types[1] = tsr_tile_index_type(b);
    for (uint32_t i = 0; i < parts; i++) types[2 + i] = mlirValueGetType(operands[1 + i]);
    const tsr_attr attr = {"first", tsr_attr_make_i64s(b->at.context, t->segments.count, first)};
    MlirOperation op = tsr_build(&b->at, &(tsr_op_desc){.name = "tile.segment",
                                                        .operand_count = at,
                                                        .operands = operands,
                                                        .result_count = 2 + (size_t)parts,
                                                        .results = types,
                                                        .attr_count = 1,
                                                        .attrs = &attr});
    t->number = tsr_op_result(op, 0);
    t->size = tsr_op_result(op, 1);
    for (uint32_t i = 0; i < parts; i++) t->parts[i] = tsr_op_result(op, 2 + i);
    *out_grid = grid;
    return TSR_SUCCESS;
}

/* Views of the first segment's buffers become views of the program's segment. */
static void redirect(batch *t) {
    for (uint32_t i = 0; i < t->region.node_count; i++) {
        tsr_node *node = t->region.nodes[i];
        if (node->kind != TSR_NODE_VIEW || !mlirValueIsABlockArgument(node->source)) continue;
        uint32_t number = (uint32_t)mlirBlockArgumentGetArgNumber(node->source);
        if (number < t->segments.inputs) node->view.buffer = t->parts[number];
    }
    for (uint32_t i = 0; i < t->segments.outputs; i++)
        t->outputs[i].buffer = t->parts[t->segments.inputs + i];
}

tsr_result tsr_tile_lower_batch(tsr_tile_group *group) {
    batch t = {.group = group};
    tsr_tile_builder *b = &group->b;
    bool inner[TSR_RANK_MAX] = {true};
    TRY(group->ctx, prepare(&t));
    int64_t bytes = tsr_region_bytes(&t.region, t.outputs, &t.space);
    t.elements = (PROGRAM_BYTES / bytes + PROGRAM_UNIT - 1) / PROGRAM_UNIT * PROGRAM_UNIT;
    tsr_map_run run = {.region = &t.region, .outputs = t.outputs, .loops = true, .tails = true};
    run.lanes = 2 * b->target->vector_bytes / tsr_region_width(&t.region);
    run.blocked = tsr_region_may_block(&t.region, t.outputs, &t.space, (int64_t)count_of(&t, 0));
    for (uint32_t p = 1; p < t.segments.count; p++)
        run.blocked = run.blocked && tsr_region_may_block(&t.region, t.outputs, &t.space,
                                                          (int64_t)count_of(&t, p));
    if (run.blocked) run.lanes = TSR_BLOCKED_ELEMENTS;
    TRY(group->ctx, find_segment(&t, &group->grid));
    redirect(&t);
    tsr_region_levels(&t.region, &t.space, inner);
    tsr_point point = {.space = &t.space};
    tsr_region_emit(&t.region, 0, &point);
    MlirValue begin = tsr_tile_mul(b, t.number, t.elements);
    MlirValue count =
        tsr_tile_min(b, tsr_tile_index(b, t.elements), tsr_tile_sub(b, t.size, begin));
    tsr_map_run_emit(&run, &point, begin, count);
    if (run.blocked) tsr_tile_set_blocked(b, b->at.block, false);
    return TSR_SUCCESS;
}
