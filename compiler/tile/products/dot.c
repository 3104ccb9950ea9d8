/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/products/dot.h"

#include "compiler/ir/attributes.h"
#include "compiler/ir/targets/target.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/tile.h"

#include <inttypes.h>
#include <string.h>

enum { LANES_MAX = 64 };

static MlirType narrow(tsr_tile_builder *b, uint32_t lanes) {
    return tsr_tile_vector_type(tsr_tile_storage_type(b, TSR_DTYPE_BF16), lanes);
}

static MlirValue zeros(tsr_tile_builder *b, uint32_t lanes) {
    return tsr_tile_float(b, narrow(b, lanes), 0);
}

static MlirValue load(tsr_tile_builder *b, MlirValue buffer, MlirValue at, uint32_t lanes,
                      MlirValue mask) {
    return tsr_tile_load_stored(b, TSR_DTYPE_BF16, buffer, at, lanes, mask);
}

/* Pairs of columns begin ... begin + count - 1 of two rows that are `lanes` wide. */
static MlirValue pairs_of(tsr_tile_builder *b, MlirValue first, MlirValue second, uint32_t lanes,
                          uint32_t begin, uint32_t count) {
    int64_t from[TSR_DOT_PAIR * LANES_MAX];
    TSR_ASSERT(count <= LANES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        from[2 * i] = begin + i;
        from[2 * i + 1] = lanes + begin + i;
    }
    return tsr_tile_shuffle(b, first, second, TSR_DOT_PAIR * count, from);
}

bool tsr_dot_takes(const tsr_tile_group *group, const tsr_gemm_operand *a,
                   const tsr_gemm_operand *b) {
    return group->has_dot && a->matrix.dtype == TSR_DTYPE_BF16 && a->dtype == TSR_DTYPE_BF16 &&
           b->dtype == TSR_DTYPE_BF16 && (b->pairs || !b->line);
}

/* ---- the inner loop -------------------------------------------------------------------------- */

/* `half`: only the first element of the pair exists; it is repeated for each lane. */
static MlirValue a_pair(tsr_tile_builder *b, const tsr_gemm_tile *t, MlirValue step, int64_t row,
                        bool half) {
    MlirValue far = tsr_tile_mul(b, step, t->a_step);
    MlirValue at = t->a_rows ? tsr_tile_add(b, t->a_rows[row], far)
                             : tsr_tile_offset(b, tsr_tile_add(b, t->a_at, far), row * t->a_row);
    if (!half) return load(b, t->a, at, TSR_DOT_PAIR, tsr_tile_null);
    uint32_t wide = TSR_DOT_PAIR * t->lanes;
    int64_t with_zeros[TSR_DOT_PAIR * LANES_MAX];
    TSR_ASSERT(t->lanes <= LANES_MAX);
    for (uint32_t i = 0; i < wide; i++) with_zeros[i] = i % TSR_DOT_PAIR ? wide + i : i;
    MlirValue one = tsr_tile_splat(b, load(b, t->a, at, 0, tsr_tile_null), wide);
    return tsr_tile_shuffle(b, one, zeros(b, wide), wide, with_zeros);
}

static MlirValue b_pairs(tsr_tile_builder *b, const tsr_gemm_tile *t, MlirValue step,
                         uint32_t vector, bool half) {
    MlirValue at = tsr_tile_add(b, t->b_at, tsr_tile_mul(b, step, t->b_step));
    MlirValue mask = tsr_gemm_mask(b, t, vector);
    uint32_t lanes = tsr_gemm_lanes(t, vector);
    int64_t far = (int64_t)vector * t->lanes * (t->b_row ? 1 : TSR_DOT_PAIR);
    at = tsr_tile_offset(b, at, t->b_vectors ? t->b_vectors[vector] : far);
    if (!t->b_row) return load(b, t->b, at, TSR_DOT_PAIR * lanes, tsr_tile_null);
    MlirValue first = load(b, t->b, at, lanes, mask), second = zeros(b, lanes);
    if (!half) second = load(b, t->b, tsr_tile_offset(b, at, t->b_row), lanes, mask);
    MlirValue pairs = pairs_of(b, first, second, lanes, 0, lanes);
    if (!mlirValueIsNull(t->copy))
        tsr_tile_store_stored(b, pairs, t->copy,
                              tsr_tile_offset(b, tsr_tile_mul(b, step, t->copy_step),
                                              TSR_DOT_PAIR * (int64_t)vector * t->lanes),
                              tsr_tile_null);
    return pairs;
}

static void one_step(tsr_tile_builder *b, const tsr_gemm_tile *t, MlirValue step, bool last,
                     MlirValue *sums) {
    MlirValue row[TSR_TILE_VECTORS_MAX];
    for (uint32_t v = 0; v < t->vectors; v++) row[v] = b_pairs(b, t, step, v, last);
    for (int64_t i = 0; i < t->rows; i++) {
        bool half = last && !t->a_padded;
        MlirValue a = a_pair(b, t, step, i, half);
        for (uint32_t v = 0; v < t->vectors; v++) {
            uint32_t at = (uint32_t)i * t->vectors + v, lanes = tsr_gemm_lanes(t, v);
            bool cut = half && lanes != t->lanes;
            MlirValue operands[] = {cut ? tsr_tile_slice(b, a, 0, TSR_DOT_PAIR * lanes) : a, row[v],
                                    sums[at]};
            sums[at] =
                tsr_build_value(&b->at, "tile.dot", operands, 3, mlirValueGetType(sums[at]), NULL);
        }
    }
}

void tsr_dot_multiply(tsr_tile_builder *b, const tsr_gemm_tile *t, MlirValue count,
                      MlirValue *accumulators) {
    uint32_t size = (uint32_t)t->rows * t->vectors;
    MlirValue whole = tsr_tile_offset(b, count, t->odd ? -1 : 0);
    TSR_ASSERT(size <= TSR_GEMM_TILE_MAX);
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0), whole, 1, size, accumulators) {
        one_step(b, t, loop.index, false, accumulators);
    }
    if (t->odd) one_step(b, t, whole, true, accumulators);
}

static void mark_normal(tsr_tile_builder *b, MlirOperation rounds) {
    tsr_op_set(rounds, TSR_NORMAL_NAME, tsr_attr_make_unit(b->at.context));
}

MlirValue tsr_dot_round(tsr_tile_builder *b, MlirValue sums) {
    MlirValue value = tsr_tile_round(b, TSR_DTYPE_BF16, sums);
    MlirOperation widens = tsr_value_owner(value);
    if (tsr_op_is(widens, TSR_ARITH_EXTF)) /* the instruction flushes denormal numbers */
        mark_normal(b, tsr_value_owner(tsr_op_operand(widens, 0)));
    return value;
}

void tsr_dot_round_all(tsr_tile_builder *b, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_is(op, TSR_SCF_FOR)) tsr_dot_round_all(b, tsr_op_body(op));
        if (!tsr_op_is(op, TSR_ARITH_TRUNCF)) continue;
        MlirType type = mlirValueGetType(tsr_op_result(op, 0));
        if (mlirTypeIsAVector(type)) type = mlirShapedTypeGetElementType(type);
        if (mlirTypeIsABF16(type)) mark_normal(b, op);
    }
}

void tsr_dot_store_pairs(tsr_tile_builder *b, const MlirValue *sums, uint32_t lanes, MlirValue to,
                         MlirValue at) {
    MlirValue rows[TSR_DOT_PAIR];
    for (int i = 0; i < TSR_DOT_PAIR; i++) {
        rows[i] = tsr_tile_to(b, "arith.truncf", sums[i], narrow(b, lanes));
        mark_normal(b, tsr_value_owner(rows[i]));
    }
    tsr_tile_store_stored(b, pairs_of(b, rows[0], rows[1], lanes, 0, lanes), to, at, tsr_tile_null);
}

/* ---- B in pairs ------------------------------------------------------------------------------ */

/* Packs `vectors` vectors from vector `first` on, all of one step. */
static void pack_part(tsr_tile_builder *b, const tsr_gemm_pack *p, MlirValue from, MlirValue to,
                      uint32_t first, uint32_t vectors, bool half) {
    uint32_t lanes = p->lanes * vectors;
    int64_t column = (int64_t)first * p->lanes;
    MlirValue mask = tsr_tile_null, low = tsr_tile_offset(b, from, column);
    if (!mlirValueIsNull(p->columns))
        mask = tsr_tile_mask(b, tsr_tile_offset(b, p->columns, -column), lanes);
    MlirValue row = load(b, p->from, low, lanes, mask), below = zeros(b, lanes);
    if (!half) below = load(b, p->from, tsr_tile_offset(b, low, p->from_step), lanes, mask);
    for (uint32_t v = 0; v < vectors; v++)
        tsr_tile_store_stored(
            b, pairs_of(b, row, below, lanes, v * p->lanes, p->lanes), p->to,
            tsr_tile_offset(b, to, TSR_DOT_PAIR * (column + (int64_t)(v * p->lanes))),
            tsr_tile_null);
}

static void pack_step(tsr_tile_builder *b, const tsr_gemm_pack *p, MlirValue step, bool half) {
    MlirValue from =
        tsr_tile_add(b, p->from_at, tsr_tile_mul(b, step, TSR_DOT_PAIR * p->from_step));
    MlirValue to = tsr_tile_add(b, p->to_at, tsr_tile_mul(b, step, p->to_step));
    uint32_t together = TSR_DOT_PAIR * p->lanes <= LANES_MAX ? 2 : 1;
    for (uint32_t v = 0; v < p->vectors; v += together)
        pack_part(b, p, from, to, v, p->vectors - v < together ? p->vectors - v : together, half);
}

void tsr_dot_pack_rows(tsr_tile_builder *b, const tsr_gemm_pack *p, bool odd) {
    MlirValue whole = tsr_tile_offset(b, p->count, odd ? -1 : 0);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), whole, 1) { pack_step(b, p, loop.index, false); }
    if (odd) pack_step(b, p, whole, true);
}

/* Transposes a square of pairs: see tsr_tile_transpose. */
static void transpose_pairs(tsr_tile_builder *b, uint32_t lanes, MlirValue *rows) {
    MlirValue next[LANES_MAX];
    int64_t low[TSR_DOT_PAIR * LANES_MAX], high[TSR_DOT_PAIR * LANES_MAX];
    for (uint32_t i = 0; i < TSR_DOT_PAIR * lanes; i++) {
        uint32_t pair = i / TSR_DOT_PAIR;
        low[i] = TSR_DOT_PAIR * ((pair & 1 ? lanes : 0) + pair / 2) + i % TSR_DOT_PAIR;
        high[i] = low[i] + lanes;
    }
    for (uint32_t done = 1; done < lanes; done *= 2) {
        for (uint32_t i = 0; i < lanes / 2; i++) {
            MlirValue x = rows[i], y = rows[i + lanes / 2];
            next[2 * i] = tsr_tile_shuffle(b, x, y, TSR_DOT_PAIR * lanes, low);
            next[2 * i + 1] = tsr_tile_shuffle(b, x, y, TSR_DOT_PAIR * lanes, high);
        }
        memcpy(rows, next, lanes * sizeof *rows);
    }
}

/* Packs one square of `left` elements of K and `steps` steps of pairs. */
static void pack_square(tsr_tile_builder *b, const tsr_gemm_pack *p, MlirValue step, MlirValue left,
                        MlirValue steps, bool masked, uint32_t vector) {
    MlirValue rows[LANES_MAX], zero = tsr_tile_index(b, 0);
    uint32_t lanes = p->lanes, wide = TSR_DOT_PAIR * lanes;
    int64_t column = (int64_t)vector * lanes;
    MlirValue from = tsr_tile_add(b, p->from_at, tsr_tile_mul(b, step, TSR_DOT_PAIR));
    TSR_ASSERT(lanes <= LANES_MAX);
    for (uint32_t i = 0; i < lanes; i++) {
        MlirValue mask = tsr_tile_null, count = left;
        if (!mlirValueIsNull(p->columns)) {
            MlirValue there = tsr_tile_icompare(b, TSR_ICMP_SGT, p->columns,
                                                tsr_tile_index(b, column + (int64_t)i));
            count = tsr_tile_select(b, there, left, zero);
        }
        if (masked) mask = tsr_tile_mask(b, count, wide);
        rows[i] = load(b, p->from, tsr_tile_offset(b, from, (column + (int64_t)i) * p->from_step),
                       wide, mask);
    }
    transpose_pairs(b, lanes, rows);
    MlirValue to = tsr_tile_add(b, p->to_at, tsr_tile_mul(b, step, p->to_step));
    to = tsr_tile_offset(b, to, TSR_DOT_PAIR * column);
    for (uint32_t i = 0; i < lanes; i++) {
        MlirValue mask = tsr_tile_null;
        if (p->exact && masked) {
            MlirValue there = tsr_tile_icompare(b, TSR_ICMP_SGT, steps, tsr_tile_index(b, i));
            mask = tsr_tile_mask(b, tsr_tile_select(b, there, tsr_tile_index(b, wide), zero), wide);
        }
        tsr_tile_store_stored(b, rows[i], p->to, tsr_tile_offset(b, to, i * p->to_step), mask);
    }
}

void tsr_dot_pack_columns(tsr_tile_builder *b, const tsr_gemm_pack *p, bool odd) {
    int64_t count = 0;
    bool whole = tsr_tile_index_known(p->count, &count) && count % p->lanes == 0 && !odd;
    bool masked = !whole || !mlirValueIsNull(p->columns);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), p->count, p->lanes) {
        MlirValue steps = tsr_tile_sub(b, p->count, loop.index);
        MlirValue left = tsr_tile_offset(b, tsr_tile_mul(b, steps, TSR_DOT_PAIR), odd ? -1 : 0);
        for (uint32_t v = 0; v < p->vectors; v++)
            pack_square(b, p, loop.index, left, steps, masked, v);
    }
}

/* ---- A in pairs ------------------------------------------------------------------------------ */

/* Packs a step of tiles from row `row` on. Whole vectors are stored, as in gemm.c: the next step
 * overwrites the excess elements. */
static void pack_tiles(tsr_tile_builder *b, const tsr_gemm_pack_tiles *p, MlirValue step,
                       MlirValue row, int64_t tiles, const MlirValue *masks, bool half) {
    MlirValue from = tsr_tile_add(b, tsr_tile_add(b, p->from_at, row),
                                  tsr_tile_mul(b, step, TSR_DOT_PAIR * p->from_step));
    MlirValue to = tsr_tile_add(b, tsr_tile_mul(b, tsr_tile_div(b, row, p->rows), p->to_tile),
                                tsr_tile_mul(b, step, TSR_DOT_PAIR * p->rows));
    for (int64_t t = 0; t < tiles; t++)
        for (int64_t at = 0, v = 0; at < p->rows; at += p->lanes, v++) {
            MlirValue low = tsr_tile_offset(b, from, t * p->rows + at);
            MlirValue mask = masks ? masks[v] : tsr_tile_null;
            MlirValue first = load(b, p->from, low, p->lanes, mask), second = zeros(b, p->lanes);
            if (!half)
                second = load(b, p->from, tsr_tile_offset(b, low, p->from_step), p->lanes, mask);
            tsr_tile_store_stored(b, pairs_of(b, first, second, p->lanes, 0, p->lanes), p->to,
                                  tsr_tile_offset(b, to, t * p->to_tile + TSR_DOT_PAIR * at),
                                  tsr_tile_null);
        }
}

/* Packs the tiles of one step: groups of tiles whose vectors are inside the matrix, then single
 * tiles. */
static void pack_a_step(tsr_tile_builder *b, const tsr_gemm_pack_tiles *p, MlirValue step,
                        MlirValue whole, bool half) {
    MlirValue masks[TSR_GEMM_ROWS_MAX];
    int64_t together = p->rows * TSR_GEMM_TILES_TOGETHER;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), whole, together) {
        pack_tiles(b, p, step, loop.index, TSR_GEMM_TILES_TOGETHER, NULL, half);
    }
    TSR_TILE_FOR(b, loop, whole, p->row_count, p->rows) {
        MlirValue left = tsr_tile_sub(b, p->rows_left, loop.index);
        for (int64_t at = 0, v = 0; at < p->rows; at += p->lanes, v++)
            masks[v] = tsr_tile_mask(b, tsr_tile_offset(b, left, -at), p->lanes);
        pack_tiles(b, p, step, loop.index, 1, masks, half);
    }
}

void tsr_dot_pack_a(tsr_tile_builder *b, const tsr_gemm_pack_tiles *p, bool odd) {
    MlirValue zero = tsr_tile_index(b, 0), steps = tsr_tile_offset(b, p->count, odd ? -1 : 0);
    int64_t beyond = (p->lanes - p->rows % p->lanes) % p->lanes;
    MlirValue within = tsr_tile_offset(b, p->rows_left, -beyond);
    within = tsr_tile_select(b, tsr_tile_icompare(b, TSR_ICMP_SGT, within, zero), within, zero);
    within = tsr_tile_min(b, within, p->row_count);
    MlirValue whole =
        tsr_tile_sub(b, within, tsr_tile_rem(b, within, p->rows * TSR_GEMM_TILES_TOGETHER));
    TSR_TILE_FOR(b, over, zero, steps, 1) { pack_a_step(b, p, over.index, whole, false); }
    if (odd) pack_a_step(b, p, steps, whole, true);
}

/* ---- the op ---------------------------------------------------------------------------------- */

static int64_t lanes_of(MlirOperation op, size_t operand) {
    return mlirShapedTypeGetDimSize(mlirValueGetType(tsr_op_operand(op, operand)), 0);
}

static bool emit_error(MlirOperation op, const char *expected, int64_t sums, int64_t elements) {
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_TILE_SHAPE,
                   "tile.dot: %" PRId64 " elements and %" PRId64 " sums; expected %s", elements,
                   sums, expected);
    return false;
}

bool tsr_tile_rule_dot(MlirOperation op) {
    int64_t a = lanes_of(op, 0), pairs = lanes_of(op, 1), sums = lanes_of(op, 2);
    MlirOperation at = op;
    if (pairs != TSR_DOT_PAIR * sums) return emit_error(op, "two for each sum", sums, pairs);
    if (a != TSR_DOT_PAIR && a != pairs)
        return emit_error(op, "one pair, or one for each", sums, a);
    while (!tsr_op_is(at, TSR_BUILTIN_MODULE)) {
        at = mlirOperationGetParentOperation(at);
        if (mlirOperationIsNull(at)) return true;
    }
    const char *target = tsr_op_string(at, TSR_TARGET_NAME);
    if (!target || strncmp(target, "cpu:", 4) == 0) return true;
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_TILE_TARGET,
                   "tile.dot: there is no machine code for it on '%s'; expected a CPU", target);
    return false;
}
