/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross entropy and its gradient with native numerics: several warps process a row together, 16
 * bytes a lane at a time. Each lane keeps the largest logit m it has met and the sum s of
 * exponentials of its logits minus m; both are updated once for each round of the walk:
 *
 *     m' = max(m, x…), s' = s exp(m - m') + sum of exp(x - m')
 *
 * (Milakov, Gimelshein: Online normalizer calculation for softmax, section 3), so that a row is
 * read once for the loss. The gradient walks over the row a second time. If the shared memory has
 * capacity for the rows of two programs, the row is held there, and the second walk overwrites it
 * vector by vector with the next row, which is fetched at the same time. Otherwise the row is read
 * again from the second-level cache. m begins with the lowest finite number, so that -inf - m is
 * not a NaN.
 *
 * The gradient is stored as if there were no label; then the label's element is stored again.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/rows/cross_entropy.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    PARTS = TSR_BLOCKED_RUN, /* parts of a vector, each with one element per lane */
    /* Few rows are processed at a time, so that they stay in the second-level cache between the
     * gradient's two walks if the shared memory is too small. */
    LOSS_WARPS = 8,
    GRADIENT_WARPS = 16,
    LOSS_REGISTERS = 48,
    GRADIENT_REGISTERS = 48,
    RESIDENT_REGISTERS = 64,
    RESIDENT_PROGRAMS = 2, /* programs of a multiprocessor */
    BLOCK_BYTES = 1024,    /* shared memory that the system reserves for each program */
    EXCHANGE_BYTES = 1024,
};

typedef struct lanes {
    tsr_cross_entropy *r;
    uint32_t warps, width, vector; /* lanes of a program; elements of a vector */
    MlirValue highest, total;      /* m and s of each lane */
} lanes;

static bool is_gradient(const tsr_cross_entropy *r) {
    return tsr_op_is(r->group->root, TSR_GRAPH_CROSS_ENTROPY_GRAD);
}

static lanes lanes_of(tsr_cross_entropy *r) {
    lanes l = {.r = r, .warps = is_gradient(r) ? GRADIENT_WARPS : LOSS_WARPS};
    l.width = l.warps * r->group->b.target->warp_lanes;
    l.vector = PARTS * l.width;
    return l;
}

/* The mask of a vector of the row; null for all lanes. `left`: the remaining elements of the row,
 * which may be more than a vector. */
static MlirValue mask_of(lanes *l, int64_t left) {
    tsr_tile_builder *b = &l->r->group->b;
    return left < l->vector ? tsr_tile_mask(b, tsr_tile_index(b, left), l->vector) : tsr_tile_null;
}

static MlirValue load_vector(lanes *l, MlirValue column, MlirValue mask) {
    tsr_cross_entropy *r = l->r;
    tsr_tile_builder *b = &r->group->b;
    if (mlirValueIsNull(r->resident))
        return tsr_tile_load(b, r->from, r->logits, tsr_tile_add(b, r->start, column), l->vector,
                             mask);
    return tsr_tile_load(b, r->from, r->resident, column, l->vector, tsr_tile_null);
}

/* Fetches a vector of the row that begins at `start`. */
static void fetch_vector(lanes *l, MlirValue start, MlirValue column, MlirValue mask) {
    tsr_tile_builder *b = &l->r->group->b;
    tsr_tile_fetch(b, l->r->logits, tsr_tile_add(b, start, column), l->r->resident, column,
                   l->vector, mask);
}

/* Loads the parts of a vector; masked elements are the lowest number. */
static void load_parts(lanes *l, MlirValue column, int64_t left, MlirValue *out_parts) {
    tsr_tile_builder *b = &l->r->group->b;
    MlirValue mask = mask_of(l, left), x = load_vector(l, column, mask);
    if (!mlirValueIsNull(mask))
        x = tsr_tile_select(b, mask, x, tsr_tile_float(b, mlirValueGetType(x), -FLT_MAX));
    for (uint32_t i = 0; i < PARTS; i++)
        out_parts[i] = tsr_tile_slice(b, x, i * l->width, l->width);
}

static MlirValue power_of(lanes *l, MlirValue x, MlirValue highest) {
    tsr_tile_builder *b = &l->r->group->b;
    return tsr_tile_exp_shifted(b, tsr_tile_2(b, "arith.subf", x, highest));
}

/* values[0] op values[1] op …, combined by halving */
static MlirValue combine_all(tsr_tile_builder *b, const char *op, MlirValue *values,
                             uint32_t count) {
    for (; count > 1; count = (count + 1) / 2)
        for (uint32_t i = 0; i < count / 2; i++)
            values[i] = tsr_tile_2(b, op, values[i], values[i + (count + 1) / 2]);
    return values[0];
}

static void add_vector(lanes *l, MlirValue column, int64_t left) {
    tsr_tile_builder *b = &l->r->group->b;
    MlirValue parts[PARTS], work[PARTS];
    load_parts(l, column, left, parts);
    memcpy(work, parts, sizeof work);
    MlirValue highest =
        tsr_tile_2(b, "arith.maxnumf", combine_all(b, "arith.maxnumf", work, PARTS), l->highest);
    for (uint32_t i = 0; i < PARTS; i++) work[i] = power_of(l, parts[i], highest);
    MlirValue sum = combine_all(b, "arith.addf", work, PARTS);
    l->total = tsr_tile_3(b, "math.fma", l->total, power_of(l, l->highest, highest), sum);
    l->highest = highest;
}

static void finish_walk(lanes *l) {
    tsr_cross_entropy *r = l->r;
    tsr_tile_builder *b = &r->group->b;
    MlirType type = tsr_tile_value_type(b, TSR_DTYPE_F32, 0);
    MlirValue highest = tsr_tile_reduction(b, "maxnumf", l->highest);
    MlirValue share = power_of(l, l->highest, tsr_tile_splat(b, highest, l->width));
    r->total = tsr_tile_reduction(b, "add", tsr_tile_2(b, "arith.mulf", l->total, share));
    MlirValue none = tsr_tile_fcompare(b, TSR_FCMP_OEQ, highest, tsr_tile_float(b, type, -FLT_MAX));
    r->highest = tsr_tile_select(b, none, tsr_tile_float(b, type, -(double)INFINITY), highest);
}

/* Bytes of a row in shared memory; 0: it does not fit. */
static int64_t resident_bytes(const lanes *l) {
    const tsr_cross_entropy *r = l->r;
    int64_t vectors = (r->classes - 1) / l->vector + 1;
    int64_t bytes = vectors * l->vector * (int64_t)tsr_dtype_size(r->from);
    int64_t capacity = tsr_target_shared_bytes(r->group->b.target) + BLOCK_BYTES;
    return bytes + BLOCK_BYTES + EXCHANGE_BYTES <= capacity / RESIDENT_PROGRAMS ? bytes : 0;
}

/* Fetches the whole row that begins at `start`, if the program has not read a row yet. */
static void fetch_row(lanes *l, MlirValue start) {
    tsr_tile_builder *b = &l->r->group->b;
    for (int64_t at = 0; at < l->r->classes; at += l->vector)
        fetch_vector(l, start, tsr_tile_index(b, at), mask_of(l, l->r->classes - at));
}

void tsr_cross_entropy_begin_lanes(tsr_cross_entropy *r, tsr_tile_loop *loop) {
    lanes l = lanes_of(r);
    tsr_tile_builder *b = &r->group->b;
    int64_t bytes = is_gradient(r) ? resident_bytes(&l) : 0;
    int64_t programs = bytes ? (int64_t)RESIDENT_PROGRAMS * TSR_GPU_MULTIPROCESSORS : r->count;
    if (programs > r->count) programs = r->count;
    r->group->grid = programs;
    MlirValue begin = tsr_tile_program_id(b), end = tsr_tile_index(b, r->count);
    if (bytes) {
        r->resident = tsr_tile_local_own(b, tsr_tile_storage_type(b, r->from),
                                         bytes / (int64_t)tsr_dtype_size(r->from));
        fetch_row(&l, tsr_tile_mul(b, begin, r->classes));
    }
    tsr_tile_loop_begin(b, loop, begin, end, programs, 0, NULL);
    if (!bytes || programs == r->count) return;
    MlirValue next =
        tsr_tile_min(b, tsr_tile_offset(b, loop->index, programs), tsr_tile_offset(b, end, -1));
    r->next = tsr_tile_mul(b, next, r->classes);
}

void tsr_cross_entropy_walk_lanes(tsr_cross_entropy *r) {
    lanes l = lanes_of(r);
    tsr_tile_builder *b = &r->group->b;
    MlirType type = tsr_tile_value_type(b, TSR_DTYPE_F32, l.width);
    int64_t whole = r->classes - r->classes % l.vector;
    if (!mlirValueIsNull(r->resident)) tsr_tile_fetched(b, 0);
    MlirValue carried[] = {tsr_tile_float(b, type, -FLT_MAX), tsr_tile_float(b, type, 0)};
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), l.vector, 2,
                        carried);
    l.highest = loop.carried[0], l.total = loop.carried[1];
    add_vector(&l, loop.index, l.vector);
    carried[0] = l.highest, carried[1] = l.total;
    tsr_tile_loop_end(b, &loop, carried);
    l.highest = loop.carried[0], l.total = loop.carried[1];
    if (whole < r->classes) add_vector(&l, tsr_tile_index(b, whole), r->classes - whole);
    finish_walk(&l);
}

/* The exponential's share of the sum, times dloss. */
static void store_vector(lanes *l, MlirValue column, int64_t left) {
    tsr_cross_entropy *r = l->r;
    tsr_tile_builder *b = &r->group->b;
    MlirValue to = r->group->buffers[r->group->input_count], mask = mask_of(l, left);
    MlirValue at = tsr_tile_add(b, r->start, column);
    MlirValue x = load_vector(l, column, mask);
    if (!mlirValueIsNull(r->next)) fetch_vector(l, r->next, column, mask);
    MlirValue power = power_of(l, x, tsr_tile_splat(b, r->highest, l->vector));
    MlirValue gradient = tsr_tile_2(b, "arith.mulf", power, tsr_tile_splat(b, r->share, l->vector));
    tsr_tile_store(b, r->into, gradient, to, at, mask);
}

void tsr_cross_entropy_store_lanes(tsr_cross_entropy *r) {
    lanes l = lanes_of(r);
    tsr_tile_builder *b = &r->group->b;
    int64_t whole = r->classes - r->classes % l.vector;
    MlirType type = tsr_tile_value_type(b, TSR_DTYPE_F32, 0);
    MlirValue zero = tsr_tile_float(b, type, 0), less = tsr_tile_float(b, type, -1), at;
    MlirValue picked = tsr_tile_exp_shifted(b, tsr_cross_entropy_picked(r, &at));
    picked = tsr_tile_3(b, "math.fma", picked, r->share, tsr_tile_select(b, r->valid, less, zero));
    picked = tsr_tile_2(b, "arith.mulf", picked, r->scale);
    r->share = tsr_tile_2(b, "arith.mulf", r->share, r->scale);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), l.vector) {
        store_vector(&l, loop.index, l.vector);
    }
    if (whole < r->classes) store_vector(&l, tsr_tile_index(b, whole), r->classes - whole);
    tsr_tile_barrier(b);
    tsr_tile_store(b, r->into, picked, r->group->buffers[r->group->input_count], at, tsr_tile_null);
}

bool tsr_cross_entropy_by_lanes(tsr_cross_entropy *r) {
    return tsr_tile_compute_dtype(r->dtype) == TSR_DTYPE_F32 && r->classes % TSR_BLOCKED_RUN == 0 &&
           r->classes >= lanes_of(r).vector;
}

void tsr_cross_entropy_end_lanes(tsr_cross_entropy *r) {
    tsr_tile_group *group = r->group;
    if (!mlirValueIsNull(r->resident)) tsr_tile_fetched(&group->b, 0);
    group->cooperative = lanes_of(r).warps;
    group->registers = !is_gradient(r)                ? LOSS_REGISTERS
                       : mlirValueIsNull(r->resident) ? GRADIENT_REGISTERS
                                                      : RESIDENT_REGISTERS;
    if (tsr_dtype_is_narrow(r->from)) tsr_tile_approximate(&group->b, group->b.at.block);
    tsr_tile_set_blocked(&group->b, group->b.at.block, true);
}
