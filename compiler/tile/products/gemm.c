/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/products/gemm.h"

#include "compiler/ir/targets/target.h"
#include "compiler/tile/products/words.h"

#include <inttypes.h>
#include <string.h>

enum {
    CHAINS_FULL = 12,   /* number of chains that hides the latency of a multiply-add at two per
                           cycle; fewer chains run slower */
    ALIAS_BYTES = 4096, /* rows this far apart share one set of the first-level cache ... */
    ALIAS_ROWS = 8,     /* ... which has this number of ways on all supported CPUs */
    CHAINS_LARGE = 22,  /* to begin and end a tile with this number of chains ... */
    LARGE_STEPS = 3,   /* ... takes as long as these steps of its loop; therefore, for a loop ... */
    SHORT_STEPS = 128, /* ... with at most this number of steps smaller tiles are tried, ... */
    CHAINS_SHORT = 18, /* ... with at most these chains, a little slower in the loop, ... */
    ROWS_SHORT = 6,    /* ... and at least this number of rows, but fewer rows ... */
    FEW_STEPS = 32,    /* ... for at most this number of steps */
    FAR_RUN_BYTES = 192, /* minimum for the part of a row of B in a panel if B is far: lines of
                            shorter parts take long */
    LINE_BYTES = 64,
    HALVED_BYTES = 64, /* vectors that some CPUs compute in halves */
    LANES_MAX = 64,
};

static MlirValue a_element(tsr_tile_builder *b, const tsr_gemm_tile *t, MlirValue k, int64_t row) {
    MlirValue step = tsr_tile_mul(b, k, t->a_step);
    MlirValue at = t->a_rows ? tsr_tile_add(b, t->a_rows[row], step)
                             : tsr_tile_offset(b, tsr_tile_add(b, t->a_at, step), row * t->a_row);
    return tsr_tile_load(b, t->a_dtype, t->a, at, 0, tsr_tile_null);
}

uint32_t tsr_gemm_last_lanes(const tsr_target *target, uint32_t lanes, int64_t columns) {
    int64_t last = columns % lanes;
    bool halves = !target->warp_lanes && target->vector_bytes == HALVED_BYTES;
    return halves && lanes > 1 && last && 2 * last <= (int64_t)lanes ? lanes / 2 : 0;
}

MlirValue tsr_gemm_mask(tsr_tile_builder *b, const tsr_gemm_tile *t, uint32_t vector) {
    MlirValue mask = t->masks ? t->masks[vector] : tsr_tile_null;
    uint32_t lanes = tsr_gemm_lanes(t, vector);
    return mlirValueIsNull(mask) || lanes == t->lanes ? mask : tsr_tile_slice(b, mask, 0, lanes);
}

void tsr_gemm_narrow_last(tsr_tile_builder *b, const tsr_gemm_tile *t, MlirValue *accumulators) {
    for (int64_t i = 0; i < t->rows && t->last_lanes; i++) {
        MlirValue *last = &accumulators[i * t->vectors + t->vectors - 1];
        *last = tsr_tile_slice(b, *last, 0, t->last_lanes);
    }
}

void tsr_gemm_widen_last(tsr_tile_builder *b, const tsr_gemm_tile *t, MlirValue *accumulators) {
    int64_t both[LANES_MAX];
    TSR_ASSERT(t->lanes <= LANES_MAX);
    for (uint32_t i = 0; i < t->lanes; i++) both[i] = i;
    for (int64_t i = 0; i < t->rows && t->last_lanes; i++) {
        MlirValue *last = &accumulators[i * t->vectors + t->vectors - 1];
        MlirType type = mlirValueGetType(*last);
        MlirValue zeros = t->words.is ? tsr_tile_int(b, type, 0) : tsr_tile_float(b, type, 0);
        *last = tsr_tile_shuffle(b, *last, zeros, t->lanes, both);
    }
}

/* Multiplies row k of B by column k of A. */
static void multiply_step(tsr_tile_builder *b, const tsr_gemm_tile *t, MlirValue k,
                          MlirValue *sums) {
    MlirValue row[TSR_TILE_VECTORS_MAX], step = tsr_tile_mul(b, k, t->b_step);
    MlirValue b_at = tsr_tile_add(b, t->b_at, step);
    for (uint32_t v = 0; v < t->vectors; v++) {
        row[v] = tsr_tile_load(
            b, t->b_dtype, t->b,
            tsr_tile_offset(b, b_at, t->b_vectors ? t->b_vectors[v] : v * (int64_t)t->lanes),
            tsr_gemm_lanes(t, v), tsr_gemm_mask(b, t, v));
        if (mlirValueIsNull(t->copy)) continue;
        MlirValue to = tsr_tile_mul(b, k, t->copy_step);
        if (!mlirValueIsNull(t->copy_at)) to = tsr_tile_add(b, t->copy_at, to);
        tsr_tile_store(b, tsr_tile_compute_dtype(t->b_dtype), row[v], t->copy,
                       tsr_tile_offset(b, to, v * t->lanes), tsr_tile_null);
    }
    if (!mlirValueIsNull(t->ahead))
        tsr_tile_prefetch_vector(b, t->b_dtype, t->b, tsr_tile_add(b, t->ahead, step),
                                 t->lanes * t->vectors);
    for (int64_t i = 0; i < t->rows; i++) {
        MlirValue element = a_element(b, t, k, i), a = tsr_tile_splat(b, element, t->lanes);
        for (uint32_t v = 0; v < t->vectors; v++) {
            uint32_t at = (uint32_t)i * t->vectors + v, lanes = tsr_gemm_lanes(t, v);
            /* LLVM uses half of the other register; for a slice it would emit a shuffle. */
            if (lanes != t->lanes) a = tsr_tile_splat(b, element, lanes);
            sums[at] = t->words.is ? tsr_words_dot(b, &t->words, a, row[v], sums[at])
                                   : tsr_tile_3(b, "math.fma", a, row[v], sums[at]);
        }
    }
}

void tsr_gemm_multiply(tsr_tile_builder *b, const tsr_gemm_tile *t, MlirValue count,
                       MlirValue *accumulators) {
    uint32_t size = (uint32_t)t->rows * t->vectors;
    int64_t steps = 0;
    TSR_ASSERT(size <= TSR_GEMM_TILE_MAX);
    if (t->unrolled && tsr_tile_index_known(count, &steps)) {
        for (int64_t k = 0; k < steps; k++) multiply_step(b, t, tsr_tile_index(b, k), accumulators);
        return;
    }
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0), count, 1, size, accumulators) {
        multiply_step(b, t, loop.index, accumulators);
    }
}

void tsr_gemm_pack_rows(tsr_tile_builder *b, const tsr_gemm_pack *p) {
    MlirValue masks[TSR_TILE_VECTORS_MAX];
    for (uint32_t v = 0; v < p->vectors; v++)
        masks[v] = mlirValueIsNull(p->columns)
                       ? tsr_tile_null
                       : tsr_tile_mask(b, tsr_tile_offset(b, p->columns, -(int64_t)(v * p->lanes)),
                                       p->lanes);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), p->count, 1) {
        MlirValue from = tsr_tile_add(b, p->from_at, tsr_tile_mul(b, loop.index, p->from_step));
        MlirValue to = tsr_tile_add(b, p->to_at, tsr_tile_mul(b, loop.index, p->to_step));
        for (uint32_t v = 0; v < p->vectors; v++) {
            MlirValue value =
                tsr_tile_load(b, p->from_dtype, p->from, tsr_tile_offset(b, from, v * p->lanes),
                              p->lanes, masks[v]);
            tsr_tile_store(b, p->to_dtype, value, p->to, tsr_tile_offset(b, to, v * p->lanes),
                           tsr_tile_null);
        }
    }
}

/* Packs one square of `left` rows of k. */
static void pack_square(tsr_tile_builder *b, const tsr_gemm_pack *p, MlirValue k, MlirValue left,
                        bool masked, uint32_t vector) {
    MlirValue rows[64], zero = tsr_tile_index(b, 0);
    uint32_t lanes = p->lanes;
    int64_t column = (int64_t)vector * lanes;
    MlirValue from = tsr_tile_add(b, p->from_at, k);
    for (uint32_t i = 0; i < lanes; i++) {
        MlirValue mask = tsr_tile_null, count = left;
        if (!mlirValueIsNull(p->columns)) {
            MlirValue there = tsr_tile_icompare(b, TSR_ICMP_SGT, p->columns,
                                                tsr_tile_index(b, column + (int64_t)i));
            count = tsr_tile_select(b, there, left, zero);
        }
        if (masked) mask = tsr_tile_mask(b, count, lanes);
        rows[i] = tsr_tile_load(b, p->from_dtype, p->from,
                                tsr_tile_offset(b, from, (column + (int64_t)i) * p->from_step),
                                lanes, mask);
    }
    tsr_tile_transpose(b, lanes, rows);
    MlirValue to =
        tsr_tile_offset(b, tsr_tile_add(b, p->to_at, tsr_tile_mul(b, k, p->to_step)), column);
    for (uint32_t i = 0; i < lanes; i++) {
        MlirValue mask = tsr_tile_null;
        if (p->exact && masked) {
            MlirValue there = tsr_tile_icompare(b, TSR_ICMP_SGT, left, tsr_tile_index(b, i));
            mask =
                tsr_tile_mask(b, tsr_tile_select(b, there, tsr_tile_index(b, lanes), zero), lanes);
        }
        tsr_tile_store(b, p->to_dtype, rows[i], p->to, tsr_tile_offset(b, to, i * p->to_step),
                       mask);
    }
}

void tsr_gemm_pack_columns(tsr_tile_builder *b, const tsr_gemm_pack *p) {
    int64_t count = 0;
    bool whole = tsr_tile_index_known(p->count, &count) && count % p->lanes == 0;
    bool masked = !whole || !mlirValueIsNull(p->columns);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), p->count, p->lanes) {
        MlirValue left = tsr_tile_sub(b, p->count, loop.index);
        for (uint32_t v = 0; v < p->vectors; v++) pack_square(b, p, loop.index, left, masked, v);
    }
}

enum { PREFETCH_K = 2 }; /* prefetch distance in values of k */

int64_t tsr_gemm_tile_size(tsr_dtype dtype, int64_t rows, int64_t count) {
    enum { TRIES = 16 };
    int64_t row_bytes = rows * (int64_t)tsr_dtype_size(dtype);
    int64_t least = count + (LINE_BYTES + row_bytes - 1) / row_bytes;
    /* An odd number of lines, so that tiles that are written together share no set. */
    for (int64_t k = least; k < least + TRIES; k++)
        if (k * row_bytes % (2 * LINE_BYTES) == LINE_BYTES) return rows * k;
    return rows * least;
}

/* Packs row k of tiles from row `row` on. Whole vectors are stored; the next k overwrites the
 * excess elements. */
static void pack_tiles(tsr_tile_builder *b, const tsr_gemm_pack_tiles *p, MlirValue k,
                       MlirValue row, int64_t tiles, const MlirValue *masks) {
    MlirValue from =
        tsr_tile_add(b, tsr_tile_add(b, p->from_at, row), tsr_tile_mul(b, k, p->from_step));
    MlirValue to = tsr_tile_add(b, tsr_tile_mul(b, tsr_tile_div(b, row, p->rows), p->to_tile),
                                tsr_tile_mul(b, k, p->rows));
    tsr_tile_prefetch_vector(b, p->from_dtype, p->from,
                             tsr_tile_offset(b, from, PREFETCH_K * p->from_step),
                             (uint32_t)(tiles * p->rows));
    for (int64_t t = 0; t < tiles; t++)
        for (int64_t at = 0, v = 0; at < p->rows; at += p->lanes, v++) {
            MlirValue value =
                tsr_tile_load(b, p->from_dtype, p->from, tsr_tile_offset(b, from, t * p->rows + at),
                              p->lanes, masks ? masks[v] : tsr_tile_null);
            tsr_tile_store(b, p->to_dtype, value, p->to,
                           tsr_tile_offset(b, to, t * p->to_tile + at), tsr_tile_null);
        }
}

void tsr_gemm_pack_a(tsr_tile_builder *b, const tsr_gemm_pack_tiles *p) {
    MlirValue masks[TSR_GEMM_ROWS_MAX], zero = tsr_tile_index(b, 0);
    int64_t together = p->rows * TSR_GEMM_TILES_TOGETHER;
    int64_t beyond = (p->lanes - p->rows % p->lanes) % p->lanes;
    /* Vectors of whole groups are inside the matrix. */
    MlirValue within = tsr_tile_offset(b, p->rows_left, -beyond);
    within = tsr_tile_select(b, tsr_tile_icompare(b, TSR_ICMP_SGT, within, zero), within, zero);
    within = tsr_tile_min(b, within, p->row_count);
    MlirValue whole = tsr_tile_sub(b, within, tsr_tile_rem(b, within, together));
    TSR_TILE_FOR(b, over_k, zero, p->count, 1) {
        TSR_TILE_FOR(b, loop, zero, whole, together) {
            pack_tiles(b, p, over_k.index, loop.index, TSR_GEMM_TILES_TOGETHER, NULL);
        }
        TSR_TILE_FOR(b, loop, whole, p->row_count, p->rows) {
            MlirValue left = tsr_tile_sub(b, p->rows_left, loop.index);
            for (int64_t at = 0, v = 0; at < p->rows; at += p->lanes, v++)
                masks[v] = tsr_tile_mask(b, tsr_tile_offset(b, left, -at), p->lanes);
            pack_tiles(b, p, over_k.index, loop.index, 1, masks);
        }
    }
}

bool tsr_gemm_alias(int64_t row_bytes, int64_t rows) {
    return row_bytes && row_bytes % ALIAS_BYTES == 0 && rows > ALIAS_ROWS;
}

/* The number of columns that would take the same time in tiles at full speed. */
static double weigh_columns(int64_t n, uint32_t lanes, uint32_t vectors, int64_t rows,
                            const double *speed) {
    int64_t edge = (n % ((int64_t)lanes * vectors) + lanes - 1) / lanes;
    int64_t whole = n / ((int64_t)lanes * vectors) * vectors;
    double sum = 0;
    for (int part = 0; part < 2; part++) {
        int64_t count = part ? edge : whole, v = part ? edge : vectors, chains = rows * v;
        if (!count) continue;
        double cost = (double)(count * lanes) / speed[v - 1];
        if (rows && chains < CHAINS_FULL) cost *= (double)CHAINS_FULL / (double)chains;
        sum += cost;
    }
    return sum;
}

/* The cost of a tile of at most `rows` rows. */
static double weigh_tile(const tsr_gemm_shape *shape, uint32_t lanes, uint32_t vectors,
                         int64_t rows) {
    static const double speed[TSR_TILE_VECTORS_MAX] = {0.80, 0.97, 1.0, 0.98};
    static const double small_cost = 1.02, far_cost = 1.1;
    double cost = weigh_columns(shape->n, lanes, vectors, rows, speed);
    if (rows) cost *= (double)(tsr_round_up(shape->m, rows));
    if (rows * vectors <= CHAINS_SHORT)
        cost *= small_cost;
    else if (shape->k && rows * vectors >= CHAINS_LARGE)
        cost *= 1 + LARGE_STEPS / (double)shape->k;
    /* Rows of a narrow panel have few lines, and more lines are shared with another
     * panel. */
    if (shape->far && (int64_t)lanes * vectors * shape->element_bytes < FAR_RUN_BYTES)
        cost *= far_cost;
    return shape->width ? 1.0 / vectors : cost;
}

void tsr_gemm_plan_tile(const tsr_target *target, const tsr_gemm_shape *shape, uint32_t *out_lanes,
                        uint32_t *out_vectors, int64_t *out_rows) {
    uint32_t lanes = target->vector_bytes / (uint32_t)shape->element_bytes, vectors = 0;
    bool is_short = shape->k && shape->k <= SHORT_STEPS && !target->warp_lanes;
    double best = 0;
    for (uint32_t v = 1; v <= TSR_TILE_VECTORS_MAX; v++) {
        int64_t wide = (int64_t)lanes * v, most = target->matmul_rows[v - 1];
        if (!most || (vectors && shape->width && wide > shape->width)) continue;
        if (vectors && !shape->width && shape->n <= wide - lanes) break; /* the last is empty */
        if (shape->strip && wide % shape->strip && shape->strip % wide) continue;
        if (shape->exact && tsr_round_up(shape->exact, lanes) != wide) continue;
        if (tsr_gemm_alias(shape->row_bytes, most)) most = ALIAS_ROWS;
        if (shape->rows_max && most > shape->rows_max) most = shape->rows_max;
        for (int small = 0; small <= is_short; small++) {
            int64_t limit = small ? CHAINS_SHORT / v : most;
            if (small && (limit >= most || (limit < ROWS_SHORT && shape->k > FEW_STEPS))) continue;
            int64_t rows = tsr_gemm_part(shape->m, limit, 1);
            while (shape->unit && shape->unit % rows) rows--;
            double cost = weigh_tile(shape, lanes, v, rows);
            if (vectors && cost >= best) continue;
            best = cost;
            vectors = v;
            *out_rows = rows;
        }
    }
    *out_lanes = vectors == 1 ? tsr_lanes_fit(lanes, shape->n) : lanes;
    *out_vectors = vectors;
}

uint32_t tsr_gemm_vector(const tsr_target *target, const tsr_gemm_shape *shape) {
    return tsr_lanes_fit(target->vector_bytes / (uint32_t)shape->element_bytes, shape->n);
}

bool tsr_gemm_has_registers(const tsr_target *target) {
    enum { WIDEST_BYTES = 64 };
    return !target->warp_lanes && target->vector_bytes >= WIDEST_BYTES;
}

/* The approximate minimum of CPUs of the level: 256 KiB until Haswell, 512 KiB in Zen 2 and 3, 1
 * MiB in Skylake-X and Zen 4. */
int64_t tsr_gemm_second_level(const tsr_target *target) {
    return (int64_t)target->vector_bytes * 16 * 1024;
}

int64_t tsr_gemm_direct_rows(const tsr_target *target, int64_t row_bytes) {
    int64_t vector = target->vector_bytes;
    /* Narrow panels share lines, which are evicted if rows share sets. */
    bool alias = row_bytes % ALIAS_BYTES == 0 && vector < LINE_BYTES;
    return alias ? vector / 2 : 3 * vector;
}

int64_t tsr_gemm_streamed_rows(const tsr_target *target, int64_t m, int64_t row_bytes,
                               int64_t width_bytes, bool asks) {
    enum { ROWS_FEW = 4, EACH = 8 };
    if (target->warp_lanes) return (int64_t)ROWS_FEW * EACH;
    if (m < ROWS_FEW && (m > 1 || row_bytes % ALIAS_BYTES == 0)) return EACH * m;
    if (m <= ROWS_FEW || width_bytes < 2 * LINE_BYTES || !asks) return (int64_t)ROWS_FEW * EACH;
    return tsr_gemm_second_level(target) / 3 / width_bytes;
}

int64_t tsr_gemm_run_panels(int64_t panels, int64_t row_bytes, int64_t m) {
    enum { RUN_BYTES = 768 };
    int64_t run = RUN_BYTES / m > LINE_BYTES ? RUN_BYTES / m : LINE_BYTES;
    int64_t parts = row_bytes > 2 * run ? row_bytes / run / 2 * 2 : 1; /* an even number */
    return tsr_divide_up(panels, parts);
}

int64_t tsr_gemm_part(int64_t x, int64_t part, int64_t unit) {
    if (part >= x) return x;
    int64_t parts = (x + (part > 1 ? part : 1) - 1) / (part > 1 ? part : 1);
    return (tsr_divide_up(x, parts) + unit - 1) / unit * unit;
}

/* ---- operands -------------------------------------------------------------------------------- */

static bool is_widened(MlirOperation cast, tsr_dtype from) {
    tsr_type to;
    return tsr_op_is(cast, TSR_GRAPH_CAST) && tsr_dtype_is_narrow(from) &&
           tsr_value_type(tsr_op_result(cast, 0), &to) && to.dtype == TSR_DTYPE_F32;
}

tsr_result tsr_gemm_find_operand(const tsr_tile_group *group, size_t index,
                                 tsr_gemm_operand *out_operand) {
    MlirValue value = tsr_op_operand(group->root, index), from = value;
    MlirOperation view = tsr_value_owner(value);
    if (!mlirOperationIsNull(view) && tsr_op_operand_count(view)) from = tsr_op_operand(view, 0);
    if (!mlirValueIsABlockArgument(from))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': operand %zu of %s is not an argument", group->name,
             index, tsr_op_name(group->root));
    intptr_t number = mlirBlockArgumentGetArgNumber(from);
    const tsr_type *type = &group->types[number];
    tsr_gemm_operand operand = {.buffer = group->buffers[number], .dtype = type->dtype};
    bool unpacks = tsr_op_is(view, TSR_SCHED_UNPACK);
    bool known = tsr_value_type(value, &operand.matrix);
    if (!known || operand.matrix.shape.rank < 2 ||
        !(tsr_dtype_is_float(type->dtype) || tsr_words_of(group->root).is) ||
        (!mlirOperationIsNull(view) && !unpacks && !is_widened(view, type->dtype)))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed operand %zu of %s", group->name, index,
             tsr_op_name(group->root));
    if (unpacks) {
        operand.line = (int64_t)type->shape.dims[2];
        operand.pairs = tsr_op_flag(view, "pairs");
        TRY(group->ctx, tsr_gemm_check_strip(group, operand.line / (operand.pairs ? 2 : 1),
                                             tsr_tile_compute_dtype(type->dtype)));
    }
    *out_operand = operand;
    return TSR_SUCCESS;
}

/* ---- strips ---------------------------------------------------------------------------------- */

tsr_result tsr_gemm_check_strip(const tsr_tile_group *group, int64_t strip, tsr_dtype compute) {
    int64_t lanes = group->b.target->vector_bytes / (int64_t)tsr_dtype_size(compute);
    if (lanes > strip)
        FAIL(group->ctx, TSR_COMPILE,
             "'%s': strips of %" PRId64
             " columns are narrower than a vector of '%s', which has %" PRId64,
             group->name, strip, group->b.target->name, lanes);
    return TSR_SUCCESS;
}

void tsr_gemm_strip_vectors(int64_t strip, int64_t rows, uint32_t lanes, uint32_t vectors,
                            int64_t *out_offsets) {
    for (uint32_t v = 0; v < vectors; v++) {
        int64_t column = (int64_t)v * lanes;
        out_offsets[v] = column / strip * strip * rows + column % strip;
    }
}

MlirValue tsr_gemm_strip_at(tsr_tile_builder *b, int64_t strip, int64_t rows, MlirValue column,
                            MlirValue k) {
    MlirValue begin = tsr_tile_mul(b, tsr_tile_div(b, column, strip), rows * strip);
    MlirValue within = tsr_tile_add(b, tsr_tile_rem(b, column, strip), tsr_tile_mul(b, k, strip));
    return tsr_tile_add(b, begin, within);
}
