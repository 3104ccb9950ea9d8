/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/resilience/vocabulary.h"

/* ---- rows of a table ---- */

typedef struct selection {
    MlirValue local;          /* the index in the virtual rank's rows */
    MlirValue inside, beyond; /* i1: one of its rows; not a row of the table */
    MlirValue index;
} selection;

static MlirValue number(tsr_builder *b, double value) {
    return tsr_emit_constant(b, TSR_DTYPE_I64, value);
}

static MlirValue logic(tsr_builder *b, const char *name, MlirValue x, MlirValue y) {
    return tsr_emit_binary(b, name, x, y);
}

static selection select_rows(tsr_builder *b, const tsr_table_rows *rows, uint64_t own,
                             MlirValue indices) {
    selection s = {.index = tsr_emit_cast(b, indices, TSR_DTYPE_I64)};
    s.local = tsr_emit_sub(b, s.index, rows->begin);
    s.inside = logic(b, TSR_GRAPH_NAME("and"),
                     tsr_emit_compare(b, TSR_PREDICATE_GE, s.local, number(b, 0)),
                     tsr_emit_compare(b, TSR_PREDICATE_LT, s.local, number(b, (double)own)));
    s.beyond =
        logic(b, TSR_GRAPH_NAME("or"), tsr_emit_compare(b, TSR_PREDICATE_LT, s.index, number(b, 0)),
              tsr_emit_compare(b, TSR_PREDICATE_GE, s.index, number(b, (double)rows->count)));
    return s;
}

/* The index of a row; `otherwise` for rows of others, and itself outside of the table. */
static MlirValue safe_index(tsr_builder *b, const selection *s, double otherwise) {
    MlirValue other = tsr_emit_where(b, s->beyond, s->index, number(b, otherwise));
    return tsr_emit_where(b, s->inside, s->local, other);
}

static MlirValue build_axis(tsr_builder *b, const char *name, const MlirValue *operands,
                            size_t count, const tsr_type *type) {
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(b->context, 0)}, {0}};
    return tsr_build_value(b, name, operands, count, tsr_type_make(b->context, type), attrs);
}

MlirValue tsr_vocabulary_gather(tsr_builder *b, const tsr_table_rows *rows, MlirValue part,
                                MlirValue indices) {
    tsr_type table = tsr_type_of(part), type = {.dtype = table.dtype};
    tsr_shape mask = tsr_type_of(indices).shape;
    selection s = select_rows(b, rows, table.shape.dims[0], indices);
    const MlirValue operands[] = {part, safe_index(b, &s, 0)};
    type.shape = mask;
    for (uint32_t i = 1; i < table.shape.rank; i++) {
        type.shape.dims[type.shape.rank++] = table.shape.dims[i];
        mask.dims[mask.rank++] = 1;
    }
    MlirValue taken = build_axis(b, TSR_GRAPH_NAME("gather"), operands, 2, &type);
    return tsr_emit_where(b, tsr_emit_reshape(b, s.inside, &mask), taken,
                          tsr_emit_number(b, taken, 0.0));
}

MlirValue tsr_vocabulary_scatter(tsr_builder *b, const tsr_table_rows *rows, MlirValue indices,
                                 MlirValue updates, const tsr_type *type) {
    tsr_type table = *type; /* and a row for the updates of others */
    int64_t start[TSR_RANK_MAX] = {0}, size[TSR_RANK_MAX];
    selection s = select_rows(b, rows, type->shape.dims[0], indices);
    table.shape.dims[0]++;
    const MlirValue operands[] = {tsr_emit_filled(b, &table, 0.0),
                                  safe_index(b, &s, (double)type->shape.dims[0]), updates};
    MlirValue sums = build_axis(b, TSR_GRAPH_NAME("scatter_add"), operands, 3, &table);
    for (uint32_t i = 0; i < type->shape.rank; i++) size[i] = (int64_t)type->shape.dims[i];
    return tsr_emit_slice(b, sums, start, size, NULL);
}

/* ---- losses ---- */

static MlirValue column(tsr_builder *b, MlirValue x) {
    tsr_shape shape = {.rank = 2, .dims = {tsr_type_of(x).shape.dims[0], 1}};
    return tsr_emit_reshape(b, x, &shape);
}

static MlirValue over_classes(tsr_builder *b, const char *name, MlirValue x) {
    return tsr_emit_reduce(b, name, x, 1, &(int64_t){1});
}

/* Zeros, by a gather that reports a label outside of the classes. */
static MlirValue check_labels(tsr_builder *b, MlirValue labels, const tsr_type *logits) {
    tsr_type classes = {.dtype = logits->dtype,
                        .shape = {.rank = 1, .dims = {logits->shape.dims[1]}}};
    tsr_type rows = {.dtype = logits->dtype, .shape = {.rank = 1, .dims = {logits->shape.dims[0]}}};
    const MlirValue operands[] = {tsr_emit_filled(b, &classes, 0.0), labels};
    return build_axis(b, TSR_GRAPH_NAME("gather"), operands, 2, &rows);
}

MlirValue tsr_vocabulary_losses(tsr_builder *b, MlirOperation op, const MlirValue *operands) {
    tsr_dtype dtype = tsr_type_of(operands[0]).dtype;
    MlirValue x = tsr_emit_wide(b, operands[0]);
    tsr_type logits = tsr_type_of(x);
    MlirValue labels = tsr_emit_cast(b, operands[1], TSR_DTYPE_I64);
    MlirValue most = over_classes(b, TSR_GRAPH_NAME("reduce_max"), x);
    MlirValue powers =
        tsr_emit_unary(b, TSR_GRAPH_NAME("exp"), tsr_emit_sub(b, x, column(b, most)));
    MlirValue total = over_classes(b, TSR_GRAPH_NAME("sum"), powers);
    MlirValue here = tsr_emit_compare(b, TSR_PREDICATE_EQ, column(b, labels),
                                      tsr_emit_iota(b, &logits.shape, 1, TSR_DTYPE_I64));
    if (tsr_op_is(op, TSR_GRAPH_CROSS_ENTROPY)) {
        MlirValue own = tsr_emit_where(b, here, x, tsr_emit_number(b, x, 0.0));
        MlirValue label = over_classes(b, TSR_GRAPH_NAME("sum"), own);
        MlirValue loss = tsr_emit_add(b, tsr_emit_unary(b, TSR_GRAPH_NAME("log"), total), most);
        loss = tsr_emit_add(b, tsr_emit_sub(b, loss, label), check_labels(b, labels, &logits));
        return tsr_emit_cast(b, loss, dtype);
    }
    MlirValue share = tsr_emit_div(b, powers, column(b, total));
    MlirValue off = tsr_emit_sub(b, share, tsr_emit_cast(b, here, logits.dtype));
    return tsr_emit_cast(b, tsr_emit_mul(b, off, column(b, tsr_emit_wide(b, operands[2]))), dtype);
}
