/* SPDX-License-Identifier: Apache-2.0
 *
 * Gather and scatter. The operand is seen as a list of rows: the dims at its end that each window
 * covers whole are one row, all dims before them are counted through. Each position of a window is
 * then one row, whose number is computed from the indices.
 */
#include "compiler/frontend/stablehlo/rules.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct dims {
    size_t count;
    int64_t at[TSR_RANK_MAX];
} dims;

/* Both ops by one description: windows of the operand, and where they lie in the other array, which
 * is the result of gather and the updates of scatter. */
typedef struct windows {
    dims offset;    /* dims of the array that run through a window */
    dims collapsed; /* dims of the operand that a window leaves out: it has one position there */
    dims batching, index_batching; /* dims of the operand, and those of the indices beside them */
    dims start;                    /* dims of the operand that the parts of an index belong to */
    int64_t vector;                /* dim of the indices that has the parts; their rank: one part */
    int64_t size[TSR_RANK_MAX];    /* of a window, in dims of the operand */
    tsr_shape operand, array, indices;
    uint32_t head;                     /* dims of the operand before the row */
    uint64_t rows, columns;            /* of the operand */
    int64_t window_dims[TSR_RANK_MAX]; /* of each dim of the operand: its dim of the array, or -1 */
} windows;

static bool has(const dims *d, int64_t dim) {
    for (size_t i = 0; i < d->count; i++)
        if (d->at[i] == dim) return true;
    return false;
}

static bool read_dims(tsr_hlo_call *c, const char *prefix, const char *name, dims *out) {
    char path[96];
    snprintf(path, sizeof path, "%s.%s", prefix, name);
    return tsr_hlo_ints(c, path, NULL, TSR_RANK_MAX, out->at, &out->count);
}

/* The dims that a window does not leave out, in order, are the offset dims. */
static bool match_offsets(tsr_hlo_call *c, windows *w) {
    size_t at = 0;
    for (uint32_t i = 0; i < w->operand.rank; i++) {
        w->window_dims[i] = -1;
        if (has(&w->collapsed, i) || has(&w->batching, i)) continue;
        if (at == w->offset.count)
            return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                                "it has %zu offset dims; the operand has more", at);
        w->window_dims[i] = w->offset.at[at++];
    }
    return at == w->offset.count ||
           tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "it has %zu offset dims; the operand has %zu",
                        w->offset.count, at);
}

/* The dims at the end of the operand that are whole, and at the end of the array, too. */
static void find_rows(windows *w) {
    uint32_t rank = w->operand.rank, last = w->array.rank;
    w->head = rank;
    while (w->head > 0) {
        uint32_t dim = w->head - 1;
        if (w->window_dims[dim] != (int64_t)last - 1 || has(&w->start, dim) ||
            w->size[dim] != (int64_t)w->operand.dims[dim])
            break;
        w->head--;
        last--;
    }
    w->rows = w->columns = 1;
    for (uint32_t i = 0; i < rank; i++)
        *(i < w->head ? &w->rows : &w->columns) *= w->operand.dims[i];
}

static bool check_windows(tsr_hlo_call *c, windows *w) {
    uint64_t parts = w->vector < (int64_t)w->indices.rank ? w->indices.dims[w->vector] : 1;
    if (!tsr_hlo_check_dims(c, "a list of offset dims", w->array.rank, w->offset.count,
                            w->offset.at) ||
        !tsr_hlo_check_dims(c, "a list of collapsed dims", w->operand.rank, w->collapsed.count,
                            w->collapsed.at) ||
        !tsr_hlo_check_dims(c, "a list of batching dims", w->operand.rank, w->batching.count,
                            w->batching.at) ||
        !tsr_hlo_check_dims(c, "a list of batching dims", w->indices.rank, w->index_batching.count,
                            w->index_batching.at) ||
        !tsr_hlo_check_dims(c, "start_index_map", w->operand.rank, w->start.count, w->start.at))
        return false;
    if (parts != w->start.count || w->batching.count != w->index_batching.count)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                            "its indices have %" PRIu64
                            " parts and %zu batching dims; expected %zu "
                            "and %zu",
                            parts, w->index_batching.count, w->start.count, w->batching.count);
    for (uint32_t i = 0; i < w->operand.rank; i++)
        if (w->size[i] < 0 || w->size[i] > (int64_t)w->operand.dims[i])
            return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                                "a window has %" PRId64 " elements of dim %u, which has %" PRIu64,
                                w->size[i], i, w->operand.dims[i]);
    return match_offsets(c, w);
}

static bool read_vector(tsr_hlo_call *c, const char *prefix, windows *w) {
    char path[96];
    snprintf(path, sizeof path, "%s.index_vector_dim", prefix);
    if (!tsr_hlo_int(c, path, NULL, 0, &w->vector)) return false;
    return (w->vector >= 0 && w->vector <= (int64_t)w->indices.rank) ||
           tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                        "index_vector_dim is %" PRId64 "; the indices have %u dims", w->vector,
                        w->indices.rank);
}

/* ---- numbers of rows ------------------------------------------------------------------------- */

/* A value over the dims of the indices without the vector, as one over the dims of the array before
 * the row. */
static MlirValue expand_to_rows(tsr_hlo_call *c, const windows *w, MlirValue x) {
    tsr_shape from = tsr_hlo_type(x).shape, shape = {.rank = 0};
    uint32_t rows = w->array.rank - (w->operand.rank - w->head), at = 0;
    for (uint32_t i = 0; i < rows; i++) {
        bool window = has(&w->offset, i);
        shape.dims[shape.rank++] = window ? 1 : at < from.rank ? from.dims[at] : 1;
        at += !window;
    }
    return tsr_hlo_reshape(c, x, &shape);
}

/* Part `k` of the indices, i64. */
static MlirValue index_part(tsr_hlo_call *c, const windows *w, MlirValue indices, size_t k) {
    tsr_shape shape = {.rank = 0};
    if (w->vector == (int64_t)w->indices.rank) return tsr_hlo_cast(c, indices, TSR_DTYPE_I64);
    for (uint32_t i = 0; i < w->indices.rank; i++)
        if ((int64_t)i != w->vector) shape.dims[shape.rank++] = w->indices.dims[i];
    MlirValue part = tsr_hlo_slice_dim(c, indices, (uint32_t)w->vector, (int64_t)k, 1, 1);
    return tsr_hlo_cast(c, tsr_hlo_reshape(c, part, &shape), TSR_DTYPE_I64);
}

static MlirValue add_or_first(tsr_hlo_call *c, MlirValue sum, MlirValue x) {
    return mlirValueIsNull(sum) ? x : EMIT(c, "add", sum, x);
}

/* i64 number of the row of the operand for each row of the array. Starts of windows are moved so
 * that windows are inside; with `out_inside` they are not, and it is set to i1: those that are. */
static MlirValue row_numbers(tsr_hlo_call *c, const windows *w, MlirValue indices,
                             MlirValue *out_inside) {
    uint32_t rank = w->array.rank - (w->operand.rank - w->head);
    MlirValue sum = {NULL}, inside = {NULL};
    int64_t scale = 1;
    for (uint32_t dim = w->head; dim-- > 0; scale *= (int64_t)w->operand.dims[dim]) {
        for (size_t k = 0; k < w->start.count; k++) {
            if (w->start.at[k] != (int64_t)dim) continue;
            MlirValue part = expand_to_rows(c, w, index_part(c, w, indices, k));
            MlirValue low = tsr_hlo_number(c, TSR_DTYPE_I64, 0);
            MlirValue high = tsr_hlo_number(c, TSR_DTYPE_I64,
                                            (double)((int64_t)w->operand.dims[dim] - w->size[dim]));
            MlirValue moved = EMIT(c, "min", EMIT(c, "max", part, low), high);
            if (out_inside) {
                MlirValue fits = tsr_hlo_compare(c, TSR_PREDICATE_EQ, part, moved);
                inside = mlirValueIsNull(inside) ? fits : EMIT(c, "and", inside, fits);
            }
            MlirValue by = tsr_hlo_number(c, TSR_DTYPE_I64, (double)scale);
            sum = add_or_first(c, sum, scale == 1 ? moved : EMIT(c, "mul", moved, by));
        }
        if (w->window_dims[dim] >= 0 && w->size[dim] > 1)
            sum = add_or_first(c, sum,
                               tsr_hlo_positions(c, rank, (uint32_t)w->window_dims[dim],
                                                 (uint64_t)w->size[dim], scale));
        for (size_t k = 0; k < w->batching.count; k++) {
            if (w->batching.at[k] != (int64_t)dim) continue;
            uint32_t at = (uint32_t)w->index_batching.at[k];
            uint32_t batch_rank = w->indices.rank - (w->vector < (int64_t)w->indices.rank);
            at -= (int64_t)at > w->vector;
            sum = add_or_first(
                c, sum,
                expand_to_rows(c, w,
                               tsr_hlo_positions(c, batch_rank, at, w->operand.dims[dim], scale)));
        }
    }
    tsr_shape all = {.rank = rank};
    memcpy(all.dims, w->array.dims, rank * sizeof *all.dims);
    if (mlirValueIsNull(sum)) sum = tsr_hlo_number(c, TSR_DTYPE_I64, 0);
    if (out_inside && !mlirValueIsNull(inside)) *out_inside = tsr_hlo_broadcast(c, inside, &all);
    return tsr_hlo_broadcast(c, sum, &all);
}

/* ---- gather ---------------------------------------------------------------------------------- */

bool tsr_hlo_rule_gather(tsr_hlo_call *c) {
    windows w = {.operand = tsr_hlo_type(c->in[0]).shape,
                 .array = c->types[0].shape,
                 .indices = tsr_hlo_type(c->in[1]).shape};
    const char *from = "dimension_numbers";
    if (!read_dims(c, from, "offset_dims", &w.offset) ||
        !read_dims(c, from, "collapsed_slice_dims", &w.collapsed) ||
        !read_dims(c, from, "operand_batching_dims", &w.batching) ||
        !read_dims(c, from, "start_indices_batching_dims", &w.index_batching) ||
        !read_dims(c, from, "start_index_map", &w.start) || !read_vector(c, from, &w) ||
        !tsr_hlo_ints_exact(c, "slice_sizes", NULL, w.operand.rank, 1, w.size) ||
        !check_windows(c, &w))
        return false;
    find_rows(&w);
    tsr_shape rows = {.rank = 2, .dims = {w.rows, w.columns}};
    if (w.rows * w.columns == 0)
        return tsr_hlo_out(c, 0, tsr_hlo_filled(c, c->types[0].dtype, &w.array, 0));
    MlirValue numbers = row_numbers(c, &w, c->in[1], NULL);
    MlirValue taken = tsr_hlo_gather(c, tsr_hlo_reshape(c, c->in[0], &rows), numbers, 0);
    return tsr_hlo_out(c, 0, tsr_hlo_reshape(c, taken, &w.array));
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* The windows of scatter are the updates: their sizes follow from these. */
static bool read_scatter(tsr_hlo_call *c, windows *w) {
    const char *from = "scatter_dimension_numbers";
    if (!read_dims(c, from, "update_window_dims", &w->offset) ||
        !read_dims(c, from, "inserted_window_dims", &w->collapsed) ||
        !read_dims(c, from, "input_batching_dims", &w->batching) ||
        !read_dims(c, from, "scatter_indices_batching_dims", &w->index_batching) ||
        !read_dims(c, from, "scatter_dims_to_operand_dims", &w->start) ||
        !read_vector(c, from, w) ||
        !tsr_hlo_check_dims(c, "update_window_dims", w->array.rank, w->offset.count,
                            w->offset.at) ||
        !match_offsets(c, w))
        return false;
    for (uint32_t i = 0; i < w->operand.rank; i++)
        w->size[i] = w->window_dims[i] < 0 ? 1 : (int64_t)w->array.dims[w->window_dims[i]];
    return check_windows(c, w);
}

/* Rows of updates that are outside are added as 0 to row 0. */
static MlirValue scatter_sum(tsr_hlo_call *c, MlirValue rows, MlirValue numbers, MlirValue updates,
                             MlirValue inside) {
    tsr_attr attrs[] = {tsr_hlo_i64_attr(c, "axis", 0), {0}};
    tsr_dtype dtype = tsr_hlo_dtype(rows);
    bool small = !tsr_dtype_is_float(dtype) && tsr_dtype_bits(dtype) < 32;
    if (!mlirValueIsNull(inside)) {
        tsr_shape column = tsr_hlo_type(inside).shape;
        column.dims[column.rank++] = 1;
        updates = EMIT(c, "where", tsr_hlo_reshape(c, inside, &column), updates,
                       tsr_hlo_like(c, updates, 0));
        numbers = EMIT(c, "where", inside, numbers, tsr_hlo_number(c, TSR_DTYPE_I64, 0));
    }
    if (!small) return EMIT_WITH(c, "scatter_add", attrs, rows, numbers, updates);
    rows = tsr_hlo_cast(c, rows, TSR_DTYPE_I32);
    updates = tsr_hlo_cast(c, updates, TSR_DTYPE_I32);
    return tsr_hlo_cast(c, EMIT_WITH(c, "scatter_add", attrs, rows, numbers, updates), dtype);
}

/* Rows of updates that are outside go to one more row, which is then cut off. */
static MlirValue scatter_other(tsr_hlo_call *c, const char *how, MlirValue rows, MlirValue numbers,
                               MlirValue updates, MlirValue inside) {
    tsr_attr attrs[] = {tsr_hlo_i64_attr(c, "axis", 0),
                        {"how", tsr_attr_make_string(c->builder->context, how)},
                        {0}};
    tsr_shape all = tsr_hlo_type(rows).shape, one = all;
    bool cuts = !mlirValueIsNull(inside);
    if (cuts) {
        one.dims[0] = 1;
        MlirValue parts[] = {rows, tsr_hlo_filled(c, tsr_hlo_dtype(rows), &one, 0)};
        rows = tsr_hlo_concat(c, 2, parts, 0);
        numbers = EMIT(c, "where", inside, numbers,
                       tsr_hlo_number(c, TSR_DTYPE_I64, (double)all.dims[0]));
    }
    rows = EMIT_WITH(c, "scatter", attrs, rows, numbers, updates);
    return cuts ? tsr_hlo_slice_dim(c, rows, 0, 0, (int64_t)all.dims[0], 1) : rows;
}

static const char *find_how(const char *body, bool truth) {
    static const char *const pairs[][2] = {{"return", "set"},
                                           {"add", "add"},
                                           {"multiply", "mul"},
                                           {"maximum", "max"},
                                           {"minimum", "min"}};
    for (size_t i = 0; i < TSR_COUNT(pairs); i++)
        if (strcmp(pairs[i][0], body) == 0 && (!truth || i == 0)) return pairs[i][1];
    return NULL;
}

static MlirValue scatter_rows(tsr_hlo_call *c, const windows *w, const char *how, MlirValue x,
                              MlirValue indices, MlirValue updates) {
    tsr_shape rows = {.rank = 2, .dims = {w->rows, w->columns}};
    tsr_shape parts = {.rank = w->array.rank - (w->operand.rank - w->head)};
    MlirValue inside = {NULL};
    memcpy(parts.dims, w->array.dims, parts.rank * sizeof *parts.dims);
    if (parts.rank == TSR_RANK_MAX)
        return tsr_hlo_fail_value(c, TSR_DIAG_HLO_FORM, "its updates have %u dims", parts.rank);
    parts.dims[parts.rank++] = w->columns;
    MlirValue numbers = row_numbers(c, w, indices, &inside);
    x = tsr_hlo_reshape(c, x, &rows);
    updates = tsr_hlo_reshape(c, updates, &parts);
    x = strcmp(how, "add") == 0 ? scatter_sum(c, x, numbers, updates, inside)
                                : scatter_other(c, how, x, numbers, updates, inside);
    return tsr_hlo_reshape(c, x, &w->operand);
}

bool tsr_hlo_rule_scatter(tsr_hlo_call *c) {
    windows w = {.operand = tsr_hlo_type(c->in[0]).shape,
                 .array = tsr_hlo_type(c->in[2]).shape,
                 .indices = tsr_hlo_type(c->in[1]).shape};
    const char *body = tsr_hlo_body_op(c, 0);
    const char *how = find_how(body, tsr_hlo_dtype(c->in[0]) == TSR_DTYPE_I1);
    uint64_t updates;
    if (!how)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                            "its body is %s; expected to give the update, or an add, multiply, "
                            "maximum or minimum of the two arguments",
                            body[0] ? body : "made of several ops");
    if (!read_scatter(c, &w)) return false;
    find_rows(&w);
    if (!tsr_shape_count(&w.array, &updates) || updates == 0 || w.rows * w.columns == 0)
        return tsr_hlo_out(c, 0, c->in[0]);
    return tsr_hlo_out(c, 0, scatter_rows(c, &w, how, c->in[0], c->in[1], c->in[2]));
}

/* ---- slices at computed positions ------------------------------------------------------------ */

/* Positions start … start + size - 1 along a dim of `full` elements, moved to be inside. */
static MlirValue run_from(tsr_hlo_call *c, MlirValue start, uint64_t size, uint64_t full) {
    MlirValue low = tsr_hlo_number(c, TSR_DTYPE_I64, 0);
    MlirValue high = tsr_hlo_number(c, TSR_DTYPE_I64, (double)(full - size));
    start = tsr_hlo_cast(c, start, TSR_DTYPE_I64);
    start = EMIT(c, "min", EMIT(c, "max", start, low), high);
    return EMIT(c, "add", start, tsr_hlo_positions(c, 1, 0, size, 1));
}

static bool check_starts(tsr_hlo_call *c, size_t first, uint32_t rank, const tsr_shape *window) {
    tsr_shape full = tsr_hlo_type(c->in[0]).shape;
    if (c->in_count != first + rank || window->rank != rank)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "it has %zu start indices; expected %u",
                            c->in_count - first, rank);
    for (uint32_t i = 0; i < rank; i++)
        if (window->dims[i] > full.dims[i] || tsr_hlo_rank(c->in[first + i]) != 0)
            return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                                "the slice has %" PRIu64 " elements of dim %u, which has %" PRIu64,
                                window->dims[i], i, full.dims[i]);
    return true;
}

bool tsr_hlo_rule_dynamic_slice(tsr_hlo_call *c) {
    tsr_shape full = tsr_hlo_type(c->in[0]).shape, window = c->types[0].shape;
    MlirValue x = c->in[0];
    if (!check_starts(c, 1, full.rank, &window)) return false;
    for (uint32_t i = 0; i < full.rank; i++)
        if (window.dims[i] != full.dims[i])
            x = tsr_hlo_gather(c, x, run_from(c, c->in[1 + i], window.dims[i], full.dims[i]), i);
    return tsr_hlo_out(c, 0, x);
}

/* The innermost dim that is not whole is set in the slice of the dims before it, which is set in
 * turn. */
static MlirValue update_from(tsr_hlo_call *c, MlirValue x, MlirValue update, uint32_t dim) {
    tsr_attr attrs[] = {tsr_hlo_i64_attr(c, "axis", 0),
                        {"how", tsr_attr_make_string(c->builder->context, "set")},
                        {0}};
    tsr_shape full = tsr_hlo_type(c->in[0]).shape, window = tsr_hlo_type(c->in[1]).shape;
    while (dim < full.rank && window.dims[dim] == full.dims[dim]) dim++;
    if (dim == full.rank || c->failed) return update;
    attrs[0] = tsr_hlo_i64_attr(c, "axis", dim);
    MlirValue run = run_from(c, c->in[2 + dim], window.dims[dim], full.dims[dim]);
    bool more = false;
    for (uint32_t i = dim + 1; i < full.rank; i++) more = more || window.dims[i] != full.dims[i];
    if (more) update = update_from(c, tsr_hlo_gather(c, x, run, dim), update, dim + 1);
    return EMIT_WITH(c, "scatter", attrs, x, run, update);
}

bool tsr_hlo_rule_dynamic_update_slice(tsr_hlo_call *c) {
    uint32_t rank = tsr_hlo_rank(c->in[0]);
    tsr_shape window = tsr_hlo_type(c->in[1]).shape;
    uint64_t count;
    if (!check_starts(c, 2, rank, &window)) return false;
    if (!tsr_shape_count(&window, &count) || count == 0) return tsr_hlo_out(c, 0, c->in[0]);
    return tsr_hlo_out(c, 0, update_from(c, c->in[0], c->in[1], 0));
}
