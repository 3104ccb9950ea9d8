/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/attention/attention.h"
#include "compiler/tile/element.h"
#include "compiler/tile/gpu/heads.h"

#include <math.h>

tsr_result tsr_attention_operand(const tsr_attention *a, size_t index, MlirValue *out_buffer,
                                 const tsr_type **out_type) {
    tsr_tile_group *group = a->group;
    MlirValue operand = tsr_op_operand(group->root, index), from = operand;
    while (!mlirValueIsABlockArgument(from) && tsr_gpu_is_move(tsr_value_owner(from)))
        from = tsr_op_operand(tsr_value_owner(from), 0);
    if (!mlirValueIsABlockArgument(from))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': operand %zu is not an argument", group->name, index);
    tsr_type *type = TSR_NEW(group->arena, tsr_type, 1);
    if (!type) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    if (!tsr_value_type(operand, type))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed attention", group->name);
    *out_buffer = group->buffers[mlirBlockArgumentGetArgNumber(from)];
    *out_type = type;
    return TSR_SUCCESS;
}

tsr_result tsr_attention_read(tsr_tile_group *group, size_t mask_index,
                              tsr_attention *out_attention) {
    tsr_attention a = {.group = group};
    const tsr_type *q = NULL, *k = NULL, *v = NULL, *mask = NULL;
    TRY(group->ctx, tsr_attention_operand(&a, 0, &a.q, &q));
    TRY(group->ctx, tsr_attention_operand(&a, 1, &a.k, &k));
    TRY(group->ctx, tsr_attention_operand(&a, 2, &a.v, &v));
    a.storage = q->dtype;
    a.dtype = tsr_tile_compute_dtype(q->dtype);
    if ((a.dtype != TSR_DTYPE_F32 && a.dtype != TSR_DTYPE_F64) || q->shape.rank != 4 ||
        k->shape.rank != 4 || v->shape.rank != 4)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed attention", group->name);
    a.batch = (int64_t)q->shape.dims[0];
    a.heads = (int64_t)q->shape.dims[1];
    a.queries = (int64_t)q->shape.dims[2];
    a.d = (int64_t)q->shape.dims[3];
    a.key_heads = (int64_t)k->shape.dims[1];
    a.keys = (int64_t)k->shape.dims[2];
    a.e = (int64_t)v->shape.dims[3];
    a.scale = 1 / sqrt((double)a.d);
    tsr_op_f64(group->root, "scale", &a.scale);
    a.causal = tsr_op_has(group->root, "causal");
    a.mask_space = (tsr_space){.rank = 4, .dims = {a.batch, a.heads, a.queries, a.keys}};
    size_t count = tsr_op_operand_count(group->root);
    if (tsr_op_f64(group->root, "dropout", &a.dropout)) {
        count -= TSR_ATTENTION_DRAWS;
        if (!tsr_op_i64(group->root, "stream", &a.stream) || count < mask_index)
            FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed attention", group->name);
        for (size_t i = 0; i < TSR_ATTENTION_DRAWS; i++)
            TRY(group->ctx, tsr_attention_operand(&a, count + i, &a.draws[i], &mask));
    }
    if (count > mask_index) {
        TRY(group->ctx, tsr_attention_operand(&a, mask_index, &a.mask, &mask));
        tsr_view_init(&a.mask_view, mask->dtype, a.mask, &mask->shape, &a.mask_space, NULL);
    }
    *out_attention = a;
    return TSR_SUCCESS;
}

MlirValue tsr_attention_limit(const tsr_attention *a, MlirValue row, MlirValue count) {
    tsr_tile_builder *b = &a->group->b;
    if (!a->causal) return count;
    MlirValue seen = tsr_tile_add(b, a->query, row);
    seen = tsr_tile_sub(b, tsr_tile_offset(b, seen, a->keys - a->queries + 1), a->key);
    return tsr_tile_min(b, count, seen);
}

MlirValue tsr_attention_unless_lowest(const tsr_attention *a, MlirValue x) {
    tsr_tile_builder *b = &a->group->b;
    MlirValue is = tsr_tile_fcompare(b, TSR_FCMP_OEQ, x, tsr_element_lowest(b, a->dtype, 0));
    return tsr_tile_select(b, is, tsr_element_zero(b, a->dtype, 0), x);
}

MlirValue tsr_attention_mask(const tsr_attention *a, MlirValue x, MlirValue row, MlirValue column,
                             MlirValue limit, uint32_t lanes) {
    tsr_tile_builder *b = &a->group->b;
    MlirValue valid = tsr_tile_null, lowest = tsr_element_lowest(b, a->dtype, lanes);
    if (a->causal || a->ragged) valid = tsr_tile_mask(b, tsr_tile_sub(b, limit, column), lanes);
    x = tsr_tile_2(b, "arith.mulf", x, tsr_tile_float(b, mlirValueGetType(x), a->scale));
    if (!mlirValueIsNull(a->mask)) {
        tsr_point point = {.space = &a->mask_space,
                           .index = {a->batch_index, a->head_index, tsr_tile_add(b, a->query, row),
                                     tsr_tile_add(b, a->key, column)}};
        bool along = a->mask_view.strides[3] != 0;
        MlirValue mask = tsr_tile_load(b, a->mask_view.dtype, a->mask,
                                       tsr_point_offset(b, &point, &a->mask_view),
                                       along ? lanes : 0, along ? valid : tsr_tile_null);
        mask = tsr_tile_splat(b, mask, lanes);
        x = a->mask_view.dtype == TSR_DTYPE_I1 ? tsr_tile_select(b, mask, x, lowest)
                                               : tsr_tile_2(b, "arith.addf", x, mask);
    }
    return mlirValueIsNull(valid) ? x : tsr_tile_select(b, valid, x, lowest);
}

void tsr_attention_begin_draws(tsr_attention *a) {
    tsr_tile_builder *b = &a->group->b;
    if (!a->dropout) return;
    for (size_t i = 0; i < TSR_ATTENTION_DRAWS; i++)
        a->drawn[i] = tsr_tile_load(b, TSR_DTYPE_I64, a->draws[i],
                                    i ? tsr_tile_index(b, 0) : a->batch_index, 0, tsr_tile_null);
}

/* Weights lie as [B, H, S, T]. */
MlirValue tsr_attention_kept(const tsr_attention *a, MlirValue row, MlirValue column,
                             uint32_t lanes) {
    tsr_tile_builder *b = &a->group->b;
    if (!a->dropout) return tsr_tile_null;
    MlirType i64 = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    MlirValue place = tsr_tile_add(b, tsr_tile_mul(b, a->head_index, a->queries), a->query);
    place = tsr_tile_mul(b, tsr_tile_add(b, place, row), a->keys);
    place = tsr_tile_add(b, place, tsr_tile_add(b, a->key, column));
    place =
        tsr_tile_2(b, "arith.addi", tsr_tile_to(b, "arith.index_cast", place, i64), a->drawn[0]);
    MlirValue lane = tsr_tile_iota(b, i64, lanes);
    MlirValue operands[TSR_ATTENTION_DRAWS] = {
        tsr_tile_2(b, "arith.addi", tsr_tile_splat(b, place, lanes), lane),
        tsr_tile_splat(b, a->drawn[1], lanes), tsr_tile_splat(b, a->drawn[2], lanes)};
    tsr_philox how = {.stream = a->stream};
    MlirValue drawn = tsr_philox_build(b, &how, operands, lanes, a->dtype);
    MlirValue rate = tsr_tile_float(b, mlirValueGetType(drawn), a->dropout);
    return tsr_tile_fcompare(b, TSR_FCMP_OGE, drawn, rate);
}

MlirValue tsr_attention_drop(const tsr_attention *a, MlirValue kept, MlirValue x) {
    tsr_tile_builder *b = &a->group->b;
    MlirType type = mlirValueGetType(x);
    if (mlirValueIsNull(kept)) return x;
    x = tsr_tile_2(b, "arith.mulf", x, tsr_tile_float(b, type, 1 / (1 - a->dropout)));
    return tsr_tile_select(b, kept, x, tsr_tile_float(b, type, 0));
}
