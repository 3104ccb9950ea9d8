/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera.repair with extents: an item is one number. The rows of family `rows` are the elements
 * over which it is computed, read one by one where it is computed again.
 */
#include "compiler/tile/open.h"
#include "compiler/tile/rows/rows.h"

#include <string.h>

enum { X, PLAIN, CENTRE, OPERANDS_MAX };

typedef struct repairer {
    tsr_tile_group *group;
    tsr_rows rows;
    tsr_row_item items[OPERANDS_MAX], it, *list[1];
    tsr_view numbers[OPERANDS_MAX], result;
    int64_t count; /* of numbers */
} repairer;

static TSR_RESULT read_space(repairer *p) {
    tsr_tile_group *group = p->group;
    tsr_rows *r = &p->rows;
    tsr_type type;
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    if (!tsr_tile_group_type(group, tsr_op_operand(group->root, X), &type) ||
        !tsr_op_i64s(group->root, "axes", TSR_RANK_MAX, axes, &count))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed repair", group->name);
    r->space.rank = type.shape.rank;
    for (size_t i = 0; i < count; i++) r->space.reduced[axes[i]] = true;
    r->columns = p->count = 1;
    for (uint32_t d = 0; d < type.shape.rank; d++) {
        int64_t *of = r->space.reduced[d] ? &r->columns : &p->count;
        r->space.dims[d] = (int64_t)type.shape.dims[d];
        r->parallel[d] = !r->space.reduced[d];
        *of = tsr_extent_times(*of, r->space.dims[d]);
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_operands(repairer *p) {
    tsr_tile_group *group = p->group;
    tsr_rows *r = &p->rows;
    size_t count = tsr_op_operand_count(group->root);
    TSR_ASSERT(count <= OPERANDS_MAX); /* those of gradients have more, and are not in this table */
    for (size_t i = 0; i < count; i++) {
        MlirValue operand = tsr_op_operand(group->root, i);
        if (!mlirValueIsABlockArgument(operand))
            FAIL(group->ctx, TSR_INTERNAL, "'%s': operand %zu is not an argument", group->name, i);
        uint32_t number = (uint32_t)mlirBlockArgumentGetArgNumber(operand);
        tsr_row_item *item = &p->items[i];
        tsr_view_of_argument(&p->numbers[i], group, number, &r->space, i == X ? NULL : r->parallel);
        item->kind = TSR_ROW_LEAF;
        item->level = i == X ? 2 : 1;
        item->node = (tsr_node){
            .kind = TSR_NODE_VIEW, .dtype = group->types[number].dtype, .view = p->numbers[i]};
        p->it.operands[i] = item;
    }
    tsr_view_of_argument(&p->result, group, group->input_count, &r->space, r->parallel);
    p->it.kind = TSR_ROW_REPAIR;
    p->it.level = 1;
    p->it.operand_count = (uint32_t)count;
    p->it.node = (tsr_node){.op = group->root, .dtype = group->types[group->input_count].dtype};
    p->list[0] = &p->it;
    r->items = p->list;
    r->item_count = 1;
    return TSR_SUCCESS;
}

static void emit_number(repairer *p) {
    tsr_tile_builder *b = &p->group->b;
    for (uint32_t i = PLAIN; i < p->it.operand_count; i++)
        p->items[i].scalar =
            tsr_tile_load(b, p->numbers[i].dtype, p->numbers[i].buffer,
                          tsr_point_offset(b, &p->rows.point, &p->numbers[i]), 0, tsr_tile_null);
    tsr_rows_emit_repair(&p->rows, &p->it, 0);
    tsr_tile_store(b, p->result.dtype, p->it.scalar, p->result.buffer,
                   tsr_point_offset(b, &p->rows.point, &p->result), tsr_tile_null);
}

tsr_result tsr_open_lower_repair(tsr_tile_group *group) {
    repairer p = {.group = group, .rows = {.group = group, .has_trailing = true}};
    TRY(group->ctx, read_space(&p));
    TRY(group->ctx, read_operands(&p));
    tsr_tile_builder *b = &group->b;
    tsr_tile_loop loop;
    p.rows.point.space = &p.rows.space;
    tsr_open_programs(group, tsr_extent_high(b, p.count), 64);
    tsr_open_share(group, tsr_tile_index(b, p.count), &loop);
    tsr_point_unflatten(b, &p.rows.point, p.rows.parallel, loop.index);
    emit_number(&p);
    tsr_tile_loop_end(b, &loop, NULL);
    return TSR_SUCCESS;
}
