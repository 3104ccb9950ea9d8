/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a product: its matrices and their layouts, its epilogue.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/products/matmul.h"

#include <string.h>

enum { TRANSPOSED_MAX = 128 /* maximum rows of A that replace B's columns */ };

/* The elements between neighbours along each dimension of the batch. */
static void batch_strides(const tsr_matmul *mm, const tsr_shape *shape, int64_t *strides) {
    uint32_t from = shape->rank - 2;
    int64_t stride = (int64_t)(shape->dims[from] * shape->dims[from + 1]);
    memset(strides, 0, TSR_RANK_MAX * sizeof *strides);
    for (uint32_t d = tsr_matmul_batch_rank(mm); d-- > 0 && from > 0;) {
        int64_t dim = (int64_t)shape->dims[--from];
        strides[d] = dim == 1 ? 0 : stride;
        stride *= dim;
    }
}

static tsr_result read_space(tsr_matmul *mm) {
    tsr_tile_group *group = mm->group;
    tsr_type result;
    if (!tsr_value_type(tsr_op_result(group->root, 0), &result) || result.shape.rank < 2)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed matmul", group->name);
    mm->space.rank = result.shape.rank;
    mm->batch = 1;
    for (uint32_t d = 0; d < result.shape.rank; d++) {
        mm->space.dims[d] = (int64_t)result.shape.dims[d];
        if (d < tsr_matmul_batch_rank(mm)) mm->batch *= mm->space.dims[d];
    }
    mm->outputs = TSR_NEW(group->arena, tsr_view, group->output_count);
    if (!mm->outputs) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    for (uint32_t i = 0; i < group->output_count; i++)
        tsr_view_of_argument(&mm->outputs[i], group, group->input_count + i, &mm->space, NULL);
    TRY(group->ctx, tsr_region_init(group, group->returned, group->output_count,
                                    tsr_op_result(group->root, 0), &mm->space, NULL, &mm->after));
    for (uint32_t i = 0; i < mm->after.node_count; i++)
        if (mm->after.nodes[i]->kind == TSR_NODE_GIVEN) mm->given = mm->after.nodes[i];
    if (!mm->given) FAIL(group->ctx, TSR_INTERNAL, "'%s': unused matmul", group->name);
    return TSR_SUCCESS;
}

static bool rows_follow(const tsr_matmul *mm, const tsr_view *view) {
    uint32_t d = tsr_matmul_batch_rank(mm) - 1;
    return view->strides[d] == view->strides[d + 1] * mm->space.dims[d + 1];
}

static void drop_stride(const tsr_matmul *mm, tsr_view *view) {
    for (uint32_t d = tsr_matmul_batch_rank(mm) - 1; d + 1 < mm->space.rank; d++)
        view->strides[d] = view->strides[d + 1];
    view->strides[mm->space.rank - 1] = 0;
}

static bool reads_one_b(const tsr_matmul *mm) {
    for (uint32_t d = 0; d < tsr_matmul_batch_rank(mm); d++)
        if (mm->b_batch[d]) return false;
    return true;
}

/* Makes matrices that all read one B rows of one product, if the epilogue allows it. */
static void merge_batch(tsr_matmul *mm) {
    while (tsr_matmul_batch_rank(mm) && mm->batch) {
        uint32_t d = tsr_matmul_batch_rank(mm) - 1;
        for (uint32_t i = 0; i < mm->after.node_count; i++)
            if (mm->after.nodes[i]->kind == TSR_NODE_VIEW &&
                !rows_follow(mm, &mm->after.nodes[i]->view))
                return;
        for (uint32_t i = 0; i < mm->group->output_count; i++)
            if (!rows_follow(mm, &mm->outputs[i])) return;
        if (mm->a_batch[d] != mm->m * mm->depth) return;
        for (uint32_t i = 0; i < mm->after.node_count; i++)
            if (mm->after.nodes[i]->kind == TSR_NODE_VIEW)
                drop_stride(mm, &mm->after.nodes[i]->view);
        for (uint32_t i = 0; i < mm->group->output_count; i++) drop_stride(mm, &mm->outputs[i]);
        mm->m *= mm->space.dims[d];
        mm->batch /= mm->space.dims[d];
        mm->space.dims[d] = mm->m;
        mm->space.dims[d + 1] = mm->n;
        mm->space.rank--;
    }
}

/* A and the transpose of B are both contiguous along K, so one matrix can be read in place, and the
 * other one must be packed. The smaller one is packed. */
static bool pays_to_transpose(const tsr_matmul *mm) {
    const tsr_target *target = mm->group->b.target;
    int64_t lanes = target->vector_bytes / tsr_matmul_element_size(mm);
    return !target->warp_lanes && mm->b.dtype == mm->a.dtype && mm->dtype == mm->a.dtype &&
           !mm->words.is && mm->m >= lanes && mm->m <= TRANSPOSED_MAX && mm->n > mm->m &&
           !tsr_epilogue_computes(&mm->after);
}

static void transpose_product(tsr_matmul *mm) {
    tsr_gemm_operand a = mm->a;
    int64_t m = mm->m, batch[TSR_RANK_MAX];
    memcpy(batch, mm->a_batch, sizeof batch);
    memcpy(mm->a_batch, mm->b_batch, sizeof batch);
    memcpy(mm->b_batch, batch, sizeof batch);
    mm->a = mm->b;
    mm->b = a;
    mm->m = mm->n;
    mm->n = m;
    mm->transposed = true;
}

tsr_result tsr_matmul_read(tsr_matmul *mm) {
    tsr_tile_group *group = mm->group;
    TRY(group->ctx, tsr_gemm_find_operand(group, 0, &mm->a));
    TRY(group->ctx, tsr_gemm_find_operand(group, 1, &mm->b));
    const tsr_shape *a = &mm->a.matrix.shape, *b = &mm->b.matrix.shape;
    mm->words = tsr_words_of(group->root);
    mm->dtype = mm->words.is ? TSR_DTYPE_I32 : mm->a.matrix.dtype;
    mm->unit = tsr_dot_takes(group, &mm->a, &mm->b) ? TSR_DOT_PAIR : 1;
    mm->strip = mm->b.line / mm->unit;
    if (mm->b.pairs && mm->unit == 1)
        FAIL(group->ctx, TSR_COMPILE,
             "'%s': this target has no dot products, which strips of pairs need", group->name);
    bool at = tsr_op_flag(group->root, "transpose_a"), bt = tsr_op_flag(group->root, "transpose_b");
    const uint64_t *a_dims = a->dims + a->rank - 2, *b_dims = b->dims + b->rank - 2;
    if (a_dims[!at] != b_dims[bt])
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed matmul", group->name);
    mm->compute = tsr_tile_compute_dtype(mm->dtype);
    mm->m = (int64_t)a_dims[at];
    mm->depth = (int64_t)a_dims[!at];
    mm->k = tsr_divide_up(mm->depth, mm->unit);
    mm->n = (int64_t)b_dims[!bt];
    mm->a_row = at && mm->m > 1 ? 1 : mm->depth;
    mm->a_k = (at ? mm->m : 1) * mm->unit;
    mm->b_transposed = bt;
    TRY(group->ctx, read_space(mm));
    batch_strides(mm, a, mm->a_batch);
    batch_strides(mm, b, mm->b_batch);
    if (reads_one_b(mm) && !at) merge_batch(mm);
    bool inner[TSR_RANK_MAX] = {false};
    inner[mm->space.rank - 1] = true;
    tsr_region_levels(&mm->after, &mm->space, inner);
    mm->open_rows = group->open_high && tsr_matmul_batch_rank(mm) == 0;
    if (!at && bt && !group->open_high && pays_to_transpose(mm)) transpose_product(mm);
    return TSR_SUCCESS;
}

void tsr_matmul_enter_batch(tsr_matmul *mm, MlirValue batch) {
    tsr_tile_builder *b = &mm->group->b;
    bool selected[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d < tsr_matmul_batch_rank(mm); d++) selected[d] = true;
    mm->point = (tsr_point){.space = &mm->space};
    tsr_point_unflatten(b, &mm->point, selected, batch);
    mm->a_base = mm->b_base = tsr_tile_index(b, 0);
    for (uint32_t d = 0; d < tsr_matmul_batch_rank(mm); d++) {
        MlirValue index = mm->point.index[d];
        mm->a_base = tsr_tile_add(b, mm->a_base, tsr_tile_mul(b, index, mm->a_batch[d]));
        mm->b_base = tsr_tile_add(b, mm->b_base, tsr_tile_mul(b, index, mm->b_batch[d]));
    }
}
