/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of a tile of positions over a block of K.
 *
 *     for each row of taps that is inside the image
 *         if every position of the tile has all taps of a row
 *             for each of its taps, channel: fma
 *         else
 *             for each of its taps
 *                 for the positions whose tap is inside the image, for each channel: fma
 *
 * The positions that have a tap are neighbours in their row. The possible sets of positions follow
 * from the shapes. Each set has a loop of its own, whose accumulators stay in registers, and all
 * loops but one have no steps.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/conv/product.h"

#include <string.h>

MlirValue tsr_conv_times(tsr_tile_builder *b, MlirValue x, MlirValue y) {
    int64_t known = 0;
    if (tsr_tile_index_known(y, &known)) return tsr_tile_mul(b, x, known);
    if (tsr_tile_index_known(x, &known)) return tsr_tile_mul(b, y, known);
    return tsr_tile_2(b, "arith.muli", x, y);
}

/* The offset in A of position (y, x), counted from the block's first position, at the first tap. */
static MlirValue a_position(tsr_conv_product *p, const tsr_conv_k *k, MlirValue y, MlirValue x) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue at = tsr_tile_index(b, 0);
    if (p->source == TSR_CONV_DIRECT) {
        MlirValue position[2];
        for (int i = 0; i < 2; i++)
            position[i] =
                tsr_tile_add(b, p->first[i], tsr_tile_mul(b, p->begin[i], p->walks[i].stride));
        MlirValue row =
            tsr_tile_add(b, tsr_tile_mul(b, p->image, p->walks[0].a_positions), position[0]);
        at = tsr_tile_add(b, tsr_tile_mul(b, row, p->walks[1].a_positions), position[1]);
        at = tsr_tile_add(b, tsr_tile_mul(b, at, p->a_total),
                          tsr_tile_mul(b, p->group, p->a_channels));
        at = tsr_tile_add(b, at, k->channel);
    }
    at = tsr_tile_add(b, at, tsr_tile_mul(b, y, p->position_step[0]));
    return tsr_tile_add(b, at, tsr_tile_mul(b, x, p->position_step[1]));
}

MlirValue tsr_conv_flat_end(tsr_conv_product *p) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue rows =
        tsr_tile_min(b, tsr_tile_index(b, p->block[0]), tsr_tile_sub(b, p->points[0], p->begin[0]));
    return tsr_tile_mul(b, rows, p->block[1]);
}

/* Finds the rows of A of the tile at position x of a flat block. Rows beyond the last position
 * repeat the last one. */
static void find_rows(tsr_conv_product *p, const tsr_conv_k *k, MlirValue x, MlirValue *out_rows) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue last = tsr_tile_offset(b, tsr_conv_flat_end(p), -1);
    for (int64_t i = 0; i < p->tile_rows; i++) {
        MlirValue position = tsr_tile_min(b, tsr_tile_offset(b, x, i), last);
        out_rows[i] = a_position(p, k, tsr_tile_div(b, position, p->block[1]),
                                 tsr_tile_rem(b, position, p->block[1]));
    }
}

/* Values that the loops of a tile share. */
typedef struct product_tile {
    const tsr_conv_k *k;
    tsr_gemm_tile gemm;
    MlirValue x;    /* its first position, counted from the row's beginning */
    MlirValue a_at; /* offset in A at the first tap, or of each row: */
    MlirValue rows[TSR_GEMM_ROWS_MAX];
    MlirValue b_begin;         /* offset in B at the first tap of the block */
    MlirValue tap_size, b_row; /* steps between taps in B; steps of a row of taps */
    int64_t b_step;            /* elements of a step */
} product_tile;

/* Moves the tile's rows of A by the offset `tap`. */
static void move_rows(tsr_conv_product *p, product_tile *t, MlirValue tap, MlirValue *out_rows) {
    tsr_tile_builder *b = &p->conv.group->b;
    t->gemm.a_at = p->flat ? t->a_at : tsr_tile_add(b, t->a_at, tap);
    for (int64_t i = 0; p->flat && i < p->tile_rows; i++)
        out_rows[i] = tsr_tile_add(b, t->rows[i], tap);
    t->gemm.a_rows = p->flat ? out_rows : NULL;
}

static MlirValue divide_up_values(tsr_tile_builder *b, MlirValue x, int64_t y) {
    MlirValue positive = tsr_tile_2(b, "arith.maxsi", x, tsr_tile_index(b, 0));
    return tsr_tile_div(b, tsr_tile_offset(b, positive, y - 1), y);
}

/* Finds the block's rows of taps that are inside the image for positions of row y. */
static void find_tap_rows(tsr_conv_product *p, const tsr_conv_k *k, MlirValue y, MlirValue *out_low,
                          MlirValue *out_high) {
    tsr_tile_builder *b = &p->conv.group->b;
    const tsr_conv_walk *walk = &p->walks[TSR_CONV_Y];
    *out_low = tsr_tile_index(b, 0);
    *out_high = k->taps;
    if (tsr_conv_covers(walk)) return;
    MlirValue row = tsr_tile_add(b, p->begin[TSR_CONV_Y], y);
    MlirValue at = tsr_tile_add(b, p->first[TSR_CONV_Y], tsr_tile_mul(b, row, walk->stride));
    MlirValue before = tsr_tile_sub(b, *out_low, at);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, walk->a_positions), at);
    MlirValue low = tsr_tile_sub(b, divide_up_values(b, before, walk->step), k->tap);
    MlirValue high = tsr_tile_sub(b, divide_up_values(b, left, walk->step), k->tap);
    *out_low = tsr_tile_2(b, "arith.maxsi", low, *out_low);
    *out_high = tsr_tile_min(b, high, k->taps);
}

/* Finds the tile's positions low ... high - 1 whose tap number `tap` of a row of taps is inside the
 * image. */
static void find_positions(tsr_conv_product *p, const product_tile *t, MlirValue tap,
                           MlirValue *out_low, MlirValue *out_high) {
    tsr_tile_builder *b = &p->conv.group->b;
    const tsr_conv_walk *walk = &p->walks[TSR_CONV_X];
    MlirValue all = tsr_tile_index(b, p->tile_rows);
    MlirValue at = tsr_tile_add(b, p->first[TSR_CONV_X], tsr_tile_mul(b, t->x, walk->stride));
    at = tsr_tile_add(b, at, tsr_tile_mul(b, tap, walk->step));
    MlirValue before = tsr_tile_sub(b, tsr_tile_index(b, 0), at);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, walk->a_positions), at);
    *out_low = tsr_tile_min(b, divide_up_values(b, before, walk->stride), all);
    *out_high = tsr_tile_min(b, divide_up_values(b, left, walk->stride), all);
    if (p->slides && !p->partial) return; /* no tile extends beyond the end */
    MlirValue end = tsr_tile_sub(b, p->points[TSR_CONV_X], t->x);
    *out_high = tsr_tile_min(b, *out_high, end);
}

/* True if all positions of the tile have all taps of a row. */
static MlirValue has_all(tsr_conv_product *p, const product_tile *t) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue low, high, end = tsr_tile_offset(b, p->taps[TSR_CONV_X], -1), ignored;
    find_positions(p, t, tsr_tile_index(b, 0), &low, &ignored);
    find_positions(p, t, end, &ignored, &high);
    MlirValue begins = tsr_tile_icompare(b, TSR_ICMP_EQ, low, tsr_tile_index(b, 0));
    MlirValue ends = tsr_tile_icompare(b, TSR_ICMP_EQ, high, tsr_tile_index(b, p->tile_rows));
    return tsr_tile_2(b, "arith.andi", begins, ends);
}

/* Multiplies positions low ... high - 1 of the tile if `there` is true. */
static void multiply_positions(tsr_conv_product *p, const product_tile *t, int64_t low,
                               int64_t high, MlirValue there, MlirValue *accumulators) {
    tsr_tile_builder *b = &p->conv.group->b;
    tsr_gemm_tile part = t->gemm;
    part.a_at = tsr_tile_offset(b, part.a_at, low * part.a_row);
    part.rows = high - low;
    MlirValue count = tsr_tile_select(b, there, t->k->channels, tsr_tile_index(b, 0));
    tsr_gemm_multiply(b, &part, count, accumulators + low * part.vectors);
}

/* Multiplies one tap of a tile that may extend beyond the image. */
static void multiply_border(tsr_conv_product *p, const product_tile *t, MlirValue tap,
                            MlirValue *accumulators) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue low, high;
    find_positions(p, t, tap, &low, &high);
    for (uint32_t i = 0; i < p->range_count; i++) {
        const tsr_conv_range *range = &p->ranges[i];
        MlirValue begins = tsr_tile_icompare(b, TSR_ICMP_EQ, low, tsr_tile_index(b, range->low));
        MlirValue ends = tsr_tile_icompare(b, TSR_ICMP_EQ, high, tsr_tile_index(b, range->high));
        multiply_positions(p, t, range->low, range->high, tsr_tile_2(b, "arith.andi", begins, ends),
                           accumulators);
    }
    for (int64_t i = 0; !p->range_count && i < p->tile_rows; i++) {
        MlirValue position = tsr_tile_index(b, i);
        MlirValue begins = tsr_tile_icompare(b, TSR_ICMP_SLE, low, position);
        MlirValue ends = tsr_tile_icompare(b, TSR_ICMP_SGT, high, position);
        multiply_positions(p, t, i, i + 1, tsr_tile_2(b, "arith.andi", begins, ends), accumulators);
    }
}

/* Multiplies the rows of taps low ... high - 1. */
static void multiply_taps(tsr_conv_product *p, product_tile *t, bool border, MlirValue low,
                          MlirValue high, MlirValue *accumulators) {
    tsr_tile_builder *b = &p->conv.group->b;
    uint32_t count = (uint32_t)p->tile_rows * p->panel_vectors;
    MlirValue zero = tsr_tile_index(b, 0), moved[TSR_GEMM_ROWS_MAX];
    TSR_TILE_FOR_CARRIED(b, rows, low, high, 1, count, accumulators) {
        MlirValue a_tap = tsr_tile_mul(b, tsr_tile_add(b, t->k->tap, rows.index), p->tap_step[0]);
        MlirValue b_row = tsr_conv_times(b, rows.index, t->b_row);
        if (p->whole_runs && !border) {
            move_rows(p, t, a_tap, moved);
            t->gemm.b_at = tsr_tile_add(b, t->b_begin, tsr_tile_mul(b, b_row, t->b_step));
            tsr_gemm_multiply(b, &t->gemm, tsr_conv_times(b, p->taps[1], t->k->channels),
                              accumulators);
        } else {
            TSR_TILE_FOR_CARRIED(b, columns, zero, p->taps[1], 1, count, accumulators) {
                MlirValue a_column = tsr_tile_mul(b, columns.index, p->tap_step[1]);
                move_rows(p, t, tsr_tile_add(b, a_tap, a_column), moved);
                MlirValue tap =
                    tsr_tile_add(b, b_row, tsr_conv_times(b, columns.index, t->tap_size));
                t->gemm.b_at = tsr_tile_add(b, t->b_begin, tsr_tile_mul(b, tap, t->b_step));
                if (border)
                    multiply_border(p, t, columns.index, accumulators);
                else
                    tsr_gemm_multiply(b, &t->gemm, t->k->channels, accumulators);
            }
        }
    }
}

/* Initializes `t` for the tile at position (y, x). `vectors` is a buffer for the offsets of its
 * vectors in strips. */
static void enter_tile(tsr_conv_product *p, MlirValue y, MlirValue x, int64_t *vectors,
                       product_tile *t) {
    tsr_tile_builder *b = &p->conv.group->b;
    bool direct = p->source == TSR_CONV_DIRECT, forward = p->kind == TSR_CONV_FORWARD;
    int64_t strip = p->conv.strip;
    t->x = tsr_tile_add(b, p->begin[TSR_CONV_X], x);
    t->a_at = t->b_begin = tsr_tile_index(b, 0);
    if (p->flat)
        find_rows(p, t->k, x, t->rows);
    else
        t->a_at = a_position(p, t->k, y, x);
    t->b_step = strip ? strip : p->width;
    t->gemm = (tsr_gemm_tile){.words = p->conv.words,
                              .a_dtype = direct ? p->conv.dtype : p->conv.compute,
                              .b_dtype = strip ? p->conv.dtype : p->conv.compute,
                              .lanes = p->lanes,
                              .vectors = p->panel_vectors,
                              .rows = p->tile_rows,
                              .a = !direct   ? p->patch_local
                                   : forward ? p->conv.a
                                             : p->conv.b,
                              .b = strip ? p->conv.b : p->panel,
                              .a_row = p->position_step[1],
                              .a_step = 1,
                              .b_step = t->b_step,
                              .b_vectors = strip ? vectors : NULL};
    t->gemm.last_lanes = tsr_gemm_last_lanes(b->target, p->lanes, p->panel_edge);
    t->tap_size = strip ? tsr_tile_index(b, p->a_channels) : t->k->channels;
    t->b_row = tsr_conv_times(b, p->taps[1], t->tap_size);
    if (!strip) return;
    tsr_gemm_strip_vectors(strip, p->strip_rows, p->lanes, p->panel_vectors, vectors);
    MlirValue tap = tsr_tile_mul(b, t->k->tap, p->walks[1].taps * p->a_channels);
    t->b_begin =
        tsr_gemm_strip_at(b, strip, p->strip_rows, p->column, tsr_tile_add(b, tap, t->k->channel));
}

void tsr_conv_multiply(tsr_conv_product *p, const tsr_conv_k *k, MlirValue y, MlirValue x,
                       MlirValue *accumulators) {
    tsr_tile_builder *b = &p->conv.group->b;
    product_tile t = {.k = k};
    int64_t vectors[TSR_TILE_VECTORS_MAX];
    MlirValue low, high;
    enter_tile(p, y, x, vectors, &t);
    tsr_gemm_narrow_last(b, &t.gemm, accumulators);
    find_tap_rows(p, k, y, &low, &high);
    if (p->inner && p->border) {
        MlirValue all = has_all(p, &t);
        MlirValue inner_high = tsr_tile_select(b, all, high, low);
        MlirValue border_high = tsr_tile_select(b, all, low, high);
        multiply_taps(p, &t, false, low, inner_high, accumulators);
        multiply_taps(p, &t, true, low, border_high, accumulators);
    } else {
        multiply_taps(p, &t, p->border, low, high, accumulators);
    }
    tsr_gemm_widen_last(b, &t.gemm, accumulators);
}
