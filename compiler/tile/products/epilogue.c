/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/products/epilogue.h"

#include "compiler/tile/products/dot.h"

/* ---- from registers -------------------------------------------------------------------------- */

static MlirValue rounded(const tsr_epilogue *e, MlirValue sums) {
    tsr_tile_builder *b = &e->region->group->b;
    return e->dots ? tsr_dot_round(b, sums) : tsr_tile_round(b, e->dtype, sums);
}

/* Computes all values before it stores any, because outputs may share memory with operands of the
 * epilogue. */
static tsr_result finish_sums(const tsr_epilogue *e, const tsr_epilogue_tile *t) {
    tsr_tile_group *group = e->region->group;
    tsr_tile_builder *b = &group->b;
    uint32_t outputs = e->region->result_count, rank = t->point.space->rank;
    size_t count = (size_t)t->rows * t->vectors * outputs;
    MlirValue *values = TSR_NEW(group->arena, MlirValue, count);
    if (!values) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    tsr_point point = t->point;
    for (int pass = 0; pass < 2; pass++) {
        MlirValue *value = values;
        for (int64_t i = 0; i < t->rows; i++) {
            point.index[rank - 2] = tsr_tile_offset(b, t->row, i);
            if (pass == 0) tsr_region_emit(e->region, 1, &point);
            for (uint32_t v = 0; v < t->vectors; v++) {
                point.index[rank - 1] = tsr_tile_offset(b, t->column, v * point.lanes);
                point.mask = t->masks[v];
                if (pass == 0) {
                    e->given->value = rounded(e, t->sums[i * t->vectors + v]);
                    tsr_region_emit(e->region, 2, &point);
                }
                for (uint32_t o = 0; o < outputs; o++, value++) {
                    const tsr_view *to = &e->outputs[o];
                    if (pass == 0)
                        *value = tsr_node_value(e->region, e->region->results[o], &point);
                    else
                        tsr_tile_store(b, to->dtype, *value, to->buffer,
                                       tsr_point_offset(b, &point, to), point.mask);
                }
            }
        }
    }
    return TSR_SUCCESS;
}

/* ---- row by row ------------------------------------------------------------------------------ */

bool tsr_epilogue_computes(const tsr_region *region) {
    static const bool computes[TSR_OP_COUNT] = {
        [TSR_GRAPH_EXP] = true,     [TSR_GRAPH_EXPM1] = true, [TSR_GRAPH_LOG] = true,
        [TSR_GRAPH_LOG1P] = true,   [TSR_GRAPH_TANH] = true,  [TSR_GRAPH_ERF] = true,
        [TSR_GRAPH_SIGMOID] = true, [TSR_GRAPH_SILU] = true,  [TSR_GRAPH_GELU] = true,
        [TSR_GRAPH_POW] = true};
    for (uint32_t i = 0; i < region->node_count; i++) {
        const tsr_node *node = region->nodes[i];
        if (node->kind == TSR_NODE_OP && node->level == 2 && computes[tsr_op_of(node->op)])
            return true;
    }
    return false;
}

void tsr_epilogue_begin(tsr_epilogue *e, int64_t sums) {
    tsr_tile_builder *b = &e->region->group->b;
    e->rows = tsr_tile_null;
    if (b->target->warp_lanes || !tsr_epilogue_computes(e->region)) return;
    MlirType type = tsr_tile_storage_type(b, tsr_tile_compute_dtype(e->dtype));
    e->rows = tsr_tile_local(b, type, sums);
}

static void store_sums(const tsr_epilogue *e, const tsr_epilogue_tile *t, MlirValue to) {
    tsr_tile_builder *b = &e->region->group->b;
    for (int64_t i = 0; i < t->rows * t->vectors; i++)
        tsr_tile_store(b, tsr_tile_compute_dtype(e->dtype), t->sums[i], to,
                       tsr_tile_index(b, i * (int64_t)t->point.lanes), tsr_tile_null);
}

static void finish_rows(const tsr_epilogue *e, const tsr_epilogue_tile *t) {
    tsr_tile_builder *b = &e->region->group->b;
    tsr_dtype dtype = tsr_tile_compute_dtype(e->dtype);
    uint32_t rank = t->point.space->rank, wide = t->point.lanes * t->vectors;
    store_sums(e, t, e->rows);
    tsr_point point = t->point;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, t->rows), 1) {
        point.index[rank - 2] = tsr_tile_add(b, t->row, loop.index);
        tsr_region_emit(e->region, 1, &point);
        point.index[rank - 1] = t->column;
        point.lanes = wide;
        if (t->columns) point.mask = tsr_tile_mask(b, tsr_tile_index(b, t->columns), wide);
        e->given->value =
            rounded(e, tsr_tile_load(b, dtype, e->rows, tsr_tile_mul(b, loop.index, wide), wide,
                                     tsr_tile_null));
        tsr_region_emit(e->region, 2, &point);
        tsr_region_store(e->region, e->outputs, &point);
    }
}

tsr_result tsr_epilogue_finish(const tsr_epilogue *e, const tsr_epilogue_tile *t) {
    if (mlirValueIsNull(e->rows)) return finish_sums(e, t);
    finish_rows(e, t);
    return TSR_SUCCESS;
}

/* ---- concurrently with the next tile --------------------------------------------------------- */

int64_t tsr_epilogue_large_operands(const tsr_region *region, const tsr_space *space) {
    uint32_t rank = space->rank;
    int64_t count = 0;
    for (uint32_t i = 0; i < region->node_count; i++) {
        const tsr_node *node = region->nodes[i];
        count += node->kind == TSR_NODE_VIEW && node->view.strides[rank - 1] == 1 &&
                 node->view.strides[rank - 2];
    }
    return count;
}

void tsr_epilogue_begin_deferred(tsr_epilogue *e, int64_t sums) {
    tsr_tile_builder *b = &e->region->group->b;
    e->deferred =
        tsr_tile_local(b, tsr_tile_storage_type(b, tsr_tile_compute_dtype(e->dtype)), sums);
}

void tsr_epilogue_defer(const tsr_epilogue *e, const tsr_epilogue_tile *t) {
    store_sums(e, t, e->deferred);
}

void tsr_epilogue_finish_deferred(const tsr_epilogue *e, const tsr_epilogue_tile *t, MlirValue row,
                                  uint32_t vector) {
    tsr_tile_builder *b = &e->region->group->b;
    uint32_t rank = t->point.space->rank, lanes = t->point.lanes;
    MlirValue at = tsr_tile_mul(b, row, lanes * t->vectors);
    tsr_point point = t->point;
    point.index[rank - 2] = tsr_tile_add(b, t->row, row);
    point.index[rank - 1] = tsr_tile_offset(b, t->column, vector * lanes);
    point.mask = t->masks[vector];
    tsr_region_emit(e->region, 1, &point);
    MlirValue sums = tsr_tile_load(b, tsr_tile_compute_dtype(e->dtype), e->deferred,
                                   tsr_tile_offset(b, at, vector * lanes), lanes, tsr_tile_null);
    e->given->value = rounded(e, sums);
    tsr_region_emit(e->region, 2, &point);
    tsr_region_store(e->region, e->outputs, &point);
}

/* ---- prefetching ----------------------------------------------------------------------------- */

static void prefetch_row(const tsr_epilogue *e, const tsr_epilogue_tile *t, const tsr_view *view,
                         MlirValue row) {
    tsr_tile_builder *b = &e->region->group->b;
    tsr_point point = t->point;
    uint32_t rank = point.space->rank;
    point.index[rank - 2] = row;
    point.index[rank - 1] = t->column;
    tsr_tile_prefetch_vector(b, view->dtype, view->buffer, tsr_point_offset(b, &point, view),
                             t->vectors * point.lanes);
}

static void prefetch_operands(const tsr_epilogue *e, const tsr_epilogue_tile *t, MlirValue row) {
    uint32_t rank = t->point.space->rank;
    for (uint32_t i = 0; i < e->region->node_count; i++) {
        const tsr_node *node = e->region->nodes[i];
        if (node->kind == TSR_NODE_VIEW && node->view.strides[rank - 1] == 1 &&
            node->view.strides[rank - 2])
            prefetch_row(e, t, &node->view, row);
    }
}

void tsr_epilogue_prefetch(const tsr_epilogue *e, const tsr_epilogue_tile *t) {
    for (int64_t r = 0; r < t->rows; r++)
        prefetch_operands(e, t, tsr_tile_offset(&e->region->group->b, t->row, r));
}

void tsr_epilogue_prefetch_row(const tsr_epilogue *e, const tsr_epilogue_tile *t, MlirValue row) {
    prefetch_operands(e, t, row);
    for (uint32_t i = 0; i < e->region->result_count; i++) prefetch_row(e, t, &e->outputs[i], row);
}
