/* SPDX-License-Identifier: Apache-2.0
 *
 * The patch: what a block's taps reach of the image, with zeros around it.
 */
#include "compiler/tile/conv/product.h"

static MlirValue inside(tsr_conv_product *p, MlirValue place, int64_t limit) {
    tsr_tile_builder *b = &p->conv.group->b;
    /* Unsigned: a negative place is a large one. */
    return tsr_tile_icompare(b, TSR_ICMP_ULT, place, tsr_tile_index(b, limit));
}

/* `count` channels of the place, zeros where it is outside, to patch_local[to ...]. */
static void copy_pixel(tsr_conv_product *p, MlirValue y, MlirValue x, MlirValue channel,
                       MlirValue to) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue there = tsr_tile_2(b, "arith.andi", inside(p, y, p->walks[0].a_places),
                                 inside(p, x, p->walks[1].a_places));
    MlirValue zero = tsr_tile_index(b, 0), block = tsr_tile_index(b, p->channel_block);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, p->a_channels), channel);
    MlirValue count = tsr_tile_select(b, there, tsr_tile_min(b, left, block), zero);
    MlirValue row = tsr_tile_add(b, tsr_tile_mul(b, p->image, p->walks[0].a_places), y);
    MlirValue from = tsr_tile_add(b, tsr_tile_mul(b, row, p->walks[1].a_places), x);
    from = tsr_tile_add(b, tsr_tile_mul(b, from, p->a_total),
                        tsr_tile_mul(b, p->group, p->a_channels));
    from = tsr_tile_add(b, from, channel);
    uint32_t lanes = tsr_lanes_fit(
        b->target->vector_bytes / (uint32_t)tsr_dtype_size(p->conv.compute), p->channel_block);
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, zero, block, lanes, 0, NULL);
    MlirValue mask = tsr_tile_mask(b, tsr_tile_sub(b, count, loop.index), lanes);
    MlirValue value =
        tsr_tile_load(b, p->conv.dtype, p->kind == TSR_CONV_FORWARD ? p->conv.a : p->conv.b,
                      tsr_tile_add(b, from, loop.index), lanes, mask);
    MlirValue room_mask = p->channel_block % lanes == 0
                              ? tsr_tile_null
                              : tsr_tile_mask(b, tsr_tile_sub(b, block, loop.index), lanes);
    tsr_tile_store(b, p->conv.compute, value, p->patch_local, tsr_tile_add(b, to, loop.index),
                   room_mask);
    tsr_tile_loop_end(b, &loop, NULL);
}

/* One row of the patch where the channels of A are all in it: places are one run in memory. */
static void copy_run(tsr_conv_product *p, MlirValue y, MlirValue to) {
    tsr_tile_builder *b = &p->conv.group->b;
    int64_t c = p->channel_block, count = p->patch[1] * c;
    uint32_t lanes =
        tsr_lanes_fit(b->target->vector_bytes / (uint32_t)tsr_dtype_size(p->conv.compute), count);
    MlirValue zero = tsr_tile_index(b, 0);
    MlirValue first =
        tsr_tile_add(b, p->first[1], tsr_tile_mul(b, p->begin[1], p->walks[1].stride));
    MlirValue row = tsr_tile_add(b, tsr_tile_mul(b, p->image, p->walks[0].a_places), y);
    MlirValue from =
        tsr_tile_mul(b, tsr_tile_add(b, tsr_tile_mul(b, row, p->walks[1].a_places), first), c);
    /* Elements low ... high - 1 of the run are inside. */
    MlirValue low = tsr_tile_mul(b, tsr_tile_sub(b, zero, first), c);
    MlirValue high = tsr_tile_offset(b, low, p->walks[1].a_places * c);
    high = tsr_tile_select(b, inside(p, y, p->walks[0].a_places), high, zero);
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, zero, tsr_tile_index(b, count), lanes, 0, NULL);
    MlirValue above = tsr_tile_mask(b, tsr_tile_sub(b, low, loop.index), lanes);
    MlirValue mask = tsr_tile_mask(b, tsr_tile_sub(b, high, loop.index), lanes);
    MlirValue all = tsr_tile_int(b, mlirValueGetType(mask), 1);
    mask = tsr_tile_2(b, "arith.andi", mask, tsr_tile_2(b, "arith.xori", above, all));
    MlirValue value =
        tsr_tile_load(b, p->conv.dtype, p->kind == TSR_CONV_FORWARD ? p->conv.a : p->conv.b,
                      tsr_tile_add(b, from, loop.index), lanes, mask);
    MlirValue room_mask =
        count % lanes == 0
            ? tsr_tile_null
            : tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, count), loop.index), lanes);
    tsr_tile_store(b, p->conv.compute, value, p->patch_local, tsr_tile_add(b, to, loop.index),
                   room_mask);
    tsr_tile_loop_end(b, &loop, NULL);
}

void tsr_conv_fill_patch(tsr_conv_product *p, MlirValue channel) {
    tsr_tile_builder *b = &p->conv.group->b;
    tsr_tile_loop rows, columns, places;
    MlirValue zero = tsr_tile_index(b, 0), start[2];
    for (int i = 0; i < 2; i++)
        start[i] = tsr_tile_add(b, p->first[i], tsr_tile_mul(b, p->begin[i], p->walks[i].stride));
    tsr_tile_loop_begin(b, &rows, zero, tsr_tile_index(b, p->patch[0]), 1, 0, NULL);
    bool by_tap = p->source == TSR_CONV_TAPS;
    MlirValue y =
        tsr_tile_add(b, start[0], tsr_tile_mul(b, rows.index, by_tap ? p->walks[0].step : 1));
    MlirValue to = tsr_tile_mul(b, rows.index, p->patch[1] * p->channel_block);
    if (!by_tap && p->a_total == p->channel_block) {
        copy_run(p, y, to);
    } else if (!by_tap) {
        tsr_tile_loop_begin(b, &columns, zero, tsr_tile_index(b, p->patch[1]), 1, 0, NULL);
        copy_pixel(p, y, tsr_tile_add(b, start[1], columns.index), channel,
                   tsr_tile_add(b, to, tsr_tile_mul(b, columns.index, p->channel_block)));
        tsr_tile_loop_end(b, &columns, NULL);
    } else {
        tsr_tile_loop_begin(b, &columns, zero, tsr_tile_index(b, p->patch[1] / p->tile_rows), 1, 0,
                            NULL);
        tsr_tile_loop_begin(b, &places, zero, tsr_tile_index(b, p->tile_rows), 1, 0, NULL);
        MlirValue x = tsr_tile_add(b, start[1], tsr_tile_mul(b, columns.index, p->walks[1].step));
        MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, columns.index, p->tile_rows), places.index);
        copy_pixel(p, y, tsr_tile_add(b, x, tsr_tile_mul(b, places.index, p->walks[1].stride)),
                   channel, tsr_tile_add(b, to, tsr_tile_mul(b, at, p->channel_block)));
        tsr_tile_loop_end(b, &places, NULL);
        tsr_tile_loop_end(b, &columns, NULL);
    }
    tsr_tile_loop_end(b, &rows, NULL);
}
