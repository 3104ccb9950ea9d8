/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `top_k`: the first k of each contiguous line's elements in descending order, and
 * their original positions.
 *
 * A sorted list of the k best elements so far is in a local buffer. Elements are
 * examined several vectors at a time: they are taken one by one only if the largest of the vectors
 * precedes the last of the list. Inserting an element moves the later ones up in one branch-free
 * pass over the list. Elements are inserted in ascending order of their positions, so equal
 * elements keep their order: the result is the first k of a stable sort.
 */
#include "compiler/tile/kernels/runs.h"
#include "compiler/tile/open.h"
#include "compiler/tile/reductions/reduce.h"

#include <math.h>

enum { VECTORS = 4, PROGRAM_BYTES = 32 * 1024 };

typedef struct top_k {
    tsr_tile_group *group;
    tsr_dtype dtype;
    int64_t lines, size, k;
    MlirValue from, values, positions;
    /* Element 0 precedes all others; k elements follow, then padding to whole vectors. */
    MlirValue best, where;
    uint32_t lanes;  /* lanes of a vector of the list */
    int64_t vectors; /* vectors of the list */
} top_k;

static MlirValue position_int(top_k *t, int64_t value) {
    tsr_tile_builder *b = &t->group->b;
    return tsr_tile_int(b, tsr_tile_value_type(b, TSR_DTYPE_I64, t->lanes), value);
}

/* Empties the list: fills it with values and positions that follow all others. */
static void clear_list(top_k *t) {
    tsr_tile_builder *b = &t->group->b;
    MlirType type = tsr_tile_value_type(b, t->dtype, t->lanes);
    MlirType one = tsr_tile_value_type(b, t->dtype, 0);
    bool is_float = tsr_dtype_is_float(t->dtype);
    MlirValue nothing =
        is_float ? tsr_tile_float(b, type, (double)NAN) : tsr_element_lowest(b, t->dtype, t->lanes);
    MlirValue all =
        is_float ? tsr_tile_float(b, one, (double)INFINITY) : tsr_element_highest(b, t->dtype, 0);
    MlirValue zero = tsr_tile_index(b, 0);
    for (int64_t i = 0; i < t->vectors; i++) {
        MlirValue at = tsr_tile_index(b, i * t->lanes + 1);
        tsr_tile_store(b, t->dtype, nothing, t->best, at, tsr_tile_null);
        tsr_tile_store(b, TSR_DTYPE_I64, position_int(t, INT64_MAX), t->where, at, tsr_tile_null);
    }
    tsr_tile_store(b, t->dtype, all, t->best, zero, tsr_tile_null);
    MlirType position_type = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    tsr_tile_store(b, TSR_DTYPE_I64, tsr_tile_int(b, position_type, -1), t->where, zero,
                   tsr_tile_null);
}

/* True if x at position i precedes y at position j. */
static MlirValue enters(top_k *t, MlirValue x, MlirValue i, MlirValue y, MlirValue j) {
    tsr_tile_builder *b = &t->group->b;
    MlirValue is_after = tsr_order_before(b, t->dtype, true, y, x);
    MlirValue earlier = tsr_tile_icompare(b, TSR_ICMP_SLT, i, j);
    MlirValue none = tsr_tile_int(b, mlirValueGetType(is_after), 0);
    MlirValue tied = tsr_tile_select(b, is_after, none, earlier);
    return tsr_tile_2(b, "arith.ori", tsr_order_before(b, t->dtype, true, x, y), tied);
}

/* Walks the list from its end, so that the elements that move up are read before they are
 * overwritten. */
static void insert(top_k *t, MlirValue x, MlirValue position) {
    tsr_tile_builder *b = &t->group->b;
    MlirType number = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    MlirValue position_i64 = tsr_tile_to(b, "arith.index_cast", position, number);
    MlirValue new_value = tsr_tile_splat(b, x, t->lanes);
    MlirValue new_position = tsr_tile_splat(b, position_i64, t->lanes);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, t->vectors), 1) {
        MlirValue back = tsr_tile_sub(b, tsr_tile_index(b, t->vectors - 1), loop.index);
        MlirValue before_at = tsr_tile_mul(b, back, t->lanes),
                  at = tsr_tile_offset(b, before_at, 1);
        MlirValue old = tsr_tile_load(b, t->dtype, t->best, at, t->lanes, tsr_tile_null);
        MlirValue before = tsr_tile_load(b, t->dtype, t->best, before_at, t->lanes, tsr_tile_null);
        MlirValue i = tsr_tile_load(b, TSR_DTYPE_I64, t->where, at, t->lanes, tsr_tile_null);
        MlirValue j = tsr_tile_load(b, TSR_DTYPE_I64, t->where, before_at, t->lanes, tsr_tile_null);
        MlirValue moves = enters(t, new_value, new_position, old, i);
        MlirValue moved = enters(t, new_value, new_position, before, j);
        MlirValue value = tsr_tile_select(b, moved, before, new_value);
        MlirValue index = tsr_tile_select(b, moved, j, new_position);
        tsr_tile_store(b, t->dtype, tsr_tile_select(b, moves, value, old), t->best, at,
                       tsr_tile_null);
        tsr_tile_store(b, TSR_DTYPE_I64, tsr_tile_select(b, moves, index, i), t->where, at,
                       tsr_tile_null);
    }
}

static MlirValue element(top_k *t, MlirValue line, MlirValue position) {
    tsr_tile_builder *b = &t->group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, line, t->size), position);
    return tsr_tile_load(b, t->dtype, t->from, at, 0, tsr_tile_null);
}

static MlirValue last(top_k *t) {
    tsr_tile_builder *b = &t->group->b;
    return tsr_tile_load(b, t->dtype, t->best, tsr_tile_index(b, t->k), 0, tsr_tile_null);
}

/* Inserts elements [begin, end) of the line one by one; all: without a comparison, as the list is
 * not full yet. */
static void insert_elements(top_k *t, MlirValue line, MlirValue begin, MlirValue end, bool all) {
    tsr_tile_builder *b = &t->group->b;
    MlirValue zero = tsr_tile_index(b, 0), one = tsr_tile_index(b, 1);
    TSR_TILE_FOR(b, loop, begin, end, 1) {
        MlirValue x = element(t, line, loop.index);
        if (all) {
            insert(t, x, loop.index);
        } else {
            MlirValue good = tsr_order_before(b, t->dtype, true, x, last(t));
            TSR_TILE_FOR(b, once, zero, tsr_tile_select(b, good, one, zero), 1) {
                insert(t, x, loop.index);
            }
        }
    }
}

/* Scans whole blocks of the line from element k on; returns the end of the last one. */
static int64_t scan(top_k *t, MlirValue line) {
    tsr_tile_builder *b = &t->group->b;
    uint32_t width = (uint32_t)tsr_dtype_size(tsr_tile_compute_dtype(t->dtype));
    uint32_t lanes = b->target->vector_bytes / width;
    int64_t wide = VECTORS * (int64_t)lanes, blocks = (t->size - t->k) / wide;
    tsr_reduction largest = {.group = t->group, .dtype = t->dtype, .op = &tsr_reduction_max};
    if (!blocks) return t->k;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, blocks), 1) {
        MlirValue begin = tsr_tile_offset(b, tsr_tile_mul(b, loop.index, wide), t->k);
        MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, line, t->size), begin), most = tsr_tile_null;
        for (int64_t v = 0; v < VECTORS; v++) {
            MlirValue x = tsr_tile_load(b, t->dtype, t->from, tsr_tile_offset(b, at, v * lanes),
                                        lanes, tsr_tile_null);
            most = v ? tsr_element_max(b, t->dtype, most, x) : x;
        }
        most = tsr_reduction_tree(&largest, most, lanes);
        MlirValue some = tsr_order_before(b, t->dtype, true, most, last(t));
        /* The maximum may be NaN and then hide a number. */
        if (tsr_dtype_is_float(t->dtype))
            some = tsr_tile_2(b, "arith.ori", some, tsr_tile_fcompare(b, TSR_FCMP_UNO, most, most));
        MlirValue end = tsr_tile_offset(b, begin, wide);
        insert_elements(t, line, begin, tsr_tile_select(b, some, end, begin), false);
    }
    return t->k + blocks * wide;
}

static void emit_line(top_k *t, MlirValue line) {
    tsr_tile_builder *b = &t->group->b;
    MlirValue zero = tsr_tile_index(b, 0), size = tsr_tile_index(b, t->size);
    clear_list(t);
    insert_elements(t, line, zero, tsr_tile_index(b, t->k), true);
    int64_t done = scan(t, line);
    if (done < t->size) insert_elements(t, line, tsr_tile_index(b, done), size, false);
    MlirValue to = tsr_tile_mul(b, line, t->k), one = tsr_tile_index(b, 1);
    tsr_run values = {t->dtype, tsr_tile_index(b, t->k), t->k};
    tsr_run positions = {TSR_DTYPE_I64, tsr_tile_index(b, t->k), t->k};
    tsr_run_copy(b, &values, t->best, one, t->values, to);
    tsr_run_copy(b, &positions, t->where, one, t->positions, to);
}

tsr_result tsr_tile_lower_top_k(tsr_tile_group *group) {
    top_k t = {.group = group};
    uint32_t from = 0;
    uint64_t count = 0;
    TRY(group->ctx, tsr_runs_argument(group, 0, &from));
    const tsr_type *type = &group->types[from], *made = &group->types[group->input_count];
    uint32_t rank = type->shape.rank;
    bool known = tsr_op_i64(group->root, "k", &t.k) && rank > 0 && group->output_count == 2 &&
                 made->shape.rank == rank && made->shape.dims[rank - 1] == (uint64_t)t.k &&
                 group->types[group->input_count + 1].dtype == TSR_DTYPE_I64 &&
                 tsr_shape_count(&made->shape, &count);
    if (!known) FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed top_k", group->name);
    if (!count) return TSR_SUCCESS;
    tsr_tile_builder *b = &group->b;
    t.dtype = type->dtype;
    t.size = (int64_t)type->shape.dims[rank - 1];
    t.lines = (int64_t)count / t.k;
    t.from = group->buffers[from];
    t.values = group->buffers[group->input_count];
    t.positions = group->buffers[group->input_count + 1];
    t.lanes = b->target->vector_bytes / 8;
    t.vectors = tsr_divide_up(t.k, t.lanes);
    t.best = tsr_tile_local(b, tsr_tile_storage_type(b, t.dtype), t.vectors * t.lanes + 1);
    t.where = tsr_tile_local(b, tsr_tile_storage_type(b, TSR_DTYPE_I64), t.vectors * t.lanes + 1);
    int64_t bytes = t.size * (int64_t)tsr_dtype_size(t.dtype);
    int64_t each = b->target->warp_lanes || bytes >= PROGRAM_BYTES ? 1 : PROGRAM_BYTES / bytes;
    group->grid = tsr_divide_up(t.lines, each);
    tsr_tile_open_grid(group, t.lines, each, 1);
    MlirValue pid = group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    MlirValue first = tsr_tile_mul(b, pid, each);
    MlirValue end =
        tsr_tile_min(b, tsr_tile_offset(b, first, each), tsr_tile_open_count(group, t.lines));
    TSR_TILE_FOR(b, loop, first, end, 1) { emit_line(&t, loop.index); }
    return TSR_SUCCESS;
}
