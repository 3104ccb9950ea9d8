/* SPDX-License-Identifier: Apache-2.0
 *
 * The patch: the part of the image that a block's taps reach, with zeros around it.
 *
 *     for each row: zeros, the elements inside the image, zeros
 *
 * It is written in order, in whole vectors: the next vector overwrites the excess elements of each
 * vector, and the patch has padding after the last one. Therefore no store needs a mask, which
 * takes a dozen cycles with AVX2.
 */
#include "compiler/tile/conv/product.h"

enum { INLINE_VECTORS = 8 }; /* maximum of a position without a loop */

static MlirValue largest(tsr_tile_builder *b, MlirValue x, MlirValue y) {
    return tsr_tile_2(b, "arith.maxsi", x, y);
}

static MlirValue inside(tsr_conv_product *p, MlirValue position, int64_t limit) {
    tsr_tile_builder *b = &p->conv.group->b;
    /* The comparison is unsigned: a negative position becomes a large number. */
    return tsr_tile_icompare(b, TSR_ICMP_ULT, position, tsr_tile_index(b, limit));
}

static uint32_t lanes_of(const tsr_conv_product *p, int64_t count) {
    uint32_t size = (uint32_t)tsr_dtype_size(p->conv.compute);
    return tsr_lanes_fit(p->conv.group->b.target->vector_bytes / size, count);
}

int64_t tsr_conv_patch_size(const tsr_conv_product *p) {
    int64_t padding =
        p->conv.group->b.target->vector_bytes / (int64_t)tsr_dtype_size(p->conv.compute);
    return p->patch[0] * p->patch[1] * p->channel_block + padding;
}

/* Copies one vector; mask null: all lanes. */
static void copy_vector(tsr_conv_product *p, MlirValue from, MlirValue to, uint32_t lanes,
                        MlirValue mask) {
    tsr_tile_builder *b = &p->conv.group->b;
    const tsr_conv *conv = &p->conv;
    MlirValue image = p->kind == TSR_CONV_FORWARD ? conv->a : conv->b;
    MlirValue value = tsr_tile_load(b, conv->dtype, image, from, lanes, mask);
    tsr_tile_store(b, conv->compute, value, p->patch_local, to, tsr_tile_null);
}

/* Copies elements begin ... end - 1 of a row, which begins at `from` and at `to`. */
static void copy_run(tsr_conv_product *p, MlirValue from, MlirValue to, MlirValue begin,
                     MlirValue end, uint32_t lanes) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue count = tsr_tile_sub(b, end, begin), rest = tsr_tile_rem(b, count, lanes);
    MlirValue whole = tsr_tile_sub(b, end, rest);
    TSR_TILE_FOR(b, loop, begin, whole, lanes) {
        copy_vector(p, tsr_tile_add(b, from, loop.index), tsr_tile_add(b, to, loop.index), lanes,
                    tsr_tile_null);
    }
    copy_vector(p, tsr_tile_add(b, from, whole), tsr_tile_add(b, to, whole), lanes,
                tsr_tile_mask(b, rest, lanes));
}

static void clear_run(tsr_conv_product *p, MlirValue to, MlirValue begin, MlirValue end,
                      uint32_t lanes) {
    tsr_tile_builder *b = &p->conv.group->b;
    TSR_TILE_FOR(b, loop, begin, end, lanes) {
        tsr_tile_store(b, p->conv.compute, tsr_element_zero(b, p->conv.compute, lanes),
                       p->patch_local, tsr_tile_add(b, to, loop.index), tsr_tile_null);
    }
}

/* The offset of the block's channels at row y, column x. */
static MlirValue image_at(tsr_conv_product *p, MlirValue y, MlirValue x, MlirValue channel) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, p->image, p->walks[0].a_positions), y);
    at = tsr_tile_add(b, tsr_tile_mul(b, at, p->walks[1].a_positions), x);
    at = tsr_tile_add(b, tsr_tile_mul(b, at, p->a_total), channel);
    return tsr_tile_add(b, at, tsr_tile_mul(b, p->group, p->a_channels));
}

/* Copies the first `count` channels of a position, and fills the rest with zeros. */
static void copy_counted(tsr_conv_product *p, MlirValue from, MlirValue to, MlirValue count) {
    tsr_tile_builder *b = &p->conv.group->b;
    uint32_t lanes = lanes_of(p, p->channel_block);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, p->channel_block), lanes) {
        MlirValue mask = tsr_tile_mask(b, tsr_tile_sub(b, count, loop.index), lanes);
        copy_vector(p, tsr_tile_add(b, from, loop.index), tsr_tile_add(b, to, loop.index), lanes,
                    mask);
    }
}

static MlirValue channels_left(tsr_conv_product *p, MlirValue channel) {
    tsr_tile_builder *b = &p->conv.group->b;
    return tsr_tile_min(b, tsr_tile_sub(b, tsr_tile_index(b, p->a_channels), channel),
                        tsr_tile_index(b, p->channel_block));
}

/* Copies the block's channels of a position. */
static void copy_position(tsr_conv_product *p, MlirValue from, MlirValue to, MlirValue channel) {
    tsr_tile_builder *b = &p->conv.group->b;
    uint32_t lanes = lanes_of(p, p->channel_block);
    int64_t block = p->channel_block, whole = block - block % lanes;
    if (p->a_channels % block) {
        copy_counted(p, from, to, channels_left(p, channel));
    } else if (whole > INLINE_VECTORS * (int64_t)lanes) {
        copy_run(p, from, to, tsr_tile_index(b, 0), tsr_tile_index(b, block), lanes);
    } else {
        for (int64_t i = 0; i < block; i += lanes)
            copy_vector(p, tsr_tile_offset(b, from, i), tsr_tile_offset(b, to, i), lanes,
                        i < whole ? tsr_tile_null
                                  : tsr_tile_mask(b, tsr_tile_index(b, block - whole), lanes));
    }
}

/* Copies row y of the image from column x on to patch_local[to ...]. */
static void fill_row(tsr_conv_product *p, MlirValue y, MlirValue x, MlirValue channel,
                     MlirValue to) {
    tsr_tile_builder *b = &p->conv.group->b;
    bool is_run = p->a_total == p->channel_block;
    int64_t c = p->channel_block;
    MlirValue zero = tsr_tile_index(b, 0), count = tsr_tile_index(b, p->patch[1]);
    /* Positions low ... high - 1 are inside the image. */
    MlirValue high = tsr_tile_sub(b, tsr_tile_index(b, p->walks[1].a_positions), x);
    high = largest(b, tsr_tile_min(b, high, count), zero);
    high = tsr_tile_select(b, inside(p, y, p->walks[0].a_positions), high, zero);
    MlirValue low = tsr_tile_min(b, largest(b, tsr_tile_sub(b, zero, x), zero), high);
    MlirValue begin = tsr_tile_mul(b, low, c), end = tsr_tile_mul(b, high, c);
    uint32_t lanes = lanes_of(p, p->patch[1] * c);
    MlirValue from = image_at(p, y, x, channel);
    clear_run(p, to, zero, begin, lanes);
    if (is_run) {
        copy_run(p, from, to, begin, end, lanes);
    } else {
        TSR_TILE_FOR(b, positions, low, high, 1) {
            copy_position(p, tsr_tile_add(b, from, tsr_tile_mul(b, positions.index, p->a_total)),
                          tsr_tile_add(b, to, tsr_tile_mul(b, positions.index, c)), channel);
        }
    }
    clear_run(p, to, end, tsr_tile_mul(b, count, c), lanes);
}

/* Copies one tap of a row for each position of a tile, from column x on. */
static void fill_tap(tsr_conv_product *p, MlirValue y, MlirValue x, MlirValue channel,
                     MlirValue to) {
    tsr_tile_builder *b = &p->conv.group->b;
    TSR_TILE_FOR(b, positions, tsr_tile_index(b, 0), tsr_tile_index(b, p->tile_rows), 1) {
        MlirValue column = tsr_tile_add(b, x, tsr_tile_mul(b, positions.index, p->walks[1].stride));
        MlirValue there = tsr_tile_2(b, "arith.andi", inside(p, y, p->walks[0].a_positions),
                                     inside(p, column, p->walks[1].a_positions));
        MlirValue count =
            tsr_tile_select(b, there, channels_left(p, channel), tsr_tile_index(b, 0));
        copy_counted(p, image_at(p, y, column, channel),
                     tsr_tile_add(b, to, tsr_tile_mul(b, positions.index, p->channel_block)),
                     count);
    }
}

void tsr_conv_fill_patch(tsr_conv_product *p, MlirValue channel) {
    tsr_tile_builder *b = &p->conv.group->b;
    bool by_tap = p->source == TSR_CONV_TAPS;
    MlirValue zero = tsr_tile_index(b, 0), start[2];
    for (int i = 0; i < 2; i++)
        start[i] = tsr_tile_add(b, p->first[i], tsr_tile_mul(b, p->begin[i], p->walks[i].stride));
    TSR_TILE_FOR(b, rows, zero, tsr_tile_index(b, p->patch[0]), 1) {
        MlirValue y =
            tsr_tile_add(b, start[0], tsr_tile_mul(b, rows.index, by_tap ? p->walks[0].step : 1));
        MlirValue to = tsr_tile_mul(b, rows.index, p->patch[1] * p->channel_block);
        if (!by_tap) {
            fill_row(p, y, start[1], channel, to);
        } else {
            TSR_TILE_FOR(b, columns, zero, tsr_tile_index(b, p->patch[1] / p->tile_rows), 1) {
                MlirValue x =
                    tsr_tile_add(b, start[1], tsr_tile_mul(b, columns.index, p->walks[1].step));
                fill_tap(
                    p, y, x, channel,
                    tsr_tile_add(b, to,
                                 tsr_tile_mul(b, columns.index, p->tile_rows * p->channel_block)));
            }
        }
    }
}
