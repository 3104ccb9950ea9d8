/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `conv2d_grad_filter`: for each tap, the product of the image's transpose and the
 * result's gradient over all windows in which the tap is inside the image.
 *
 *     for each image, block of window rows
 *         for each tile of channels x filters of the program
 *             accumulators = the sums of the last block, or 0
 *             for each window: accumulators = fma(channel, gradient, accumulators)
 *             keep them for the next block, or add them to the sums of the earlier blocks
 *
 * A program has one tap, a block of channels and a few panels of filters, and their sums on its
 * stack. Each element is one chain over image, row and column of the windows, ascending. If the
 * images have more than 2,048 windows together, each element has one such chain for each block of
 * at most 256 windows (blocks.c) in which the tap is inside the image. The sums of blocks are added
 * in groups of 32, and so are the sums of groups, like the chunks of a long product (tile.h).
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/conv/conv.h"
#include "compiler/tile/reductions/tree.h"
#include "runtime/base/array.h"

#include <string.h>

enum {
    BLOCK_CHANNELS = 64, /* channels of a program */
    BLOCK_PANELS = 2,
};

typedef struct product {
    tsr_conv conv;
    uint32_t lanes, vectors;
    int64_t width, panels, tile_rows;
    int64_t block_channels, block_panels; /* sizes of a program's block */
    tsr_conv_blocks blocks;               /* blocks of windows */
    MlirValue scratch;                    /* [slot][panel][channel][width] */
    MlirValue image, carries;             /* image and carries of the current block */
    MlirValue group, tap[2], low[2], high[2];
    MlirValue channel, channels, panel, panel_count; /* first channel and panel, and counts */
} product;

typedef struct tile {
    int64_t rows;
    MlirValue channel, panel; /* counted from the program's first panel */
    const tsr_conv_block *windows;
} tile;

static void plan(product *p) {
    const tsr_conv *conv = &p->conv;
    const tsr_target *target = conv->group->b.target;
    tsr_gemm_shape shape = {.element_bytes = (int64_t)tsr_dtype_size(conv->compute),
                            .m = conv->group_channels,
                            .n = conv->group_filters};
    tsr_gemm_plan_tile(target, &shape, &p->lanes, &p->vectors, &p->tile_rows);
    p->width = (int64_t)p->lanes * p->vectors;
    p->panels = tsr_divide_up(conv->group_filters, p->width);
    p->block_channels = tsr_gemm_part(conv->group_channels, BLOCK_CHANNELS, p->tile_rows);
    p->block_panels = p->panels < BLOCK_PANELS ? p->panels : BLOCK_PANELS;
    p->blocks = tsr_conv_blocks_make(conv->images, conv->axes[0].result, conv->axes[1].result);
    int64_t sizes[] = {p->tile_rows, p->width, p->block_channels, p->block_panels, p->blocks.rows};
    memcpy(conv->group->tile, sizes, sizeof sizes);
    conv->group->tile_count = TSR_COUNT(sizes);
}

static MlirValue scratch_at(product *p, const tile *t, int64_t row, uint32_t vector) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, t->panel, p->block_channels), t->channel);
    at = tsr_tile_mul(b, tsr_tile_offset(b, at, row), p->width);
    return tsr_tile_offset(b, at, vector * p->lanes);
}

static MlirValue filter_of(product *p, const tile *t) {
    tsr_tile_builder *b = &p->conv.group->b;
    return tsr_tile_mul(b, tsr_tile_add(b, p->panel, t->panel), p->width);
}

static void make_masks(product *p, const tile *t, MlirValue *masks) {
    tsr_tile_builder *b = &p->conv.group->b;
    for (uint32_t v = 0; v < p->vectors; v++) {
        masks[v] = tsr_tile_null;
        if (p->conv.group_filters % p->width == 0) continue;
        MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, p->conv.group_filters), filter_of(p, t));
        masks[v] = tsr_tile_mask(b, tsr_tile_offset(b, left, -(int64_t)(v * p->lanes)), p->lanes);
    }
}

/* The sums of the earlier blocks. */
static tsr_product_sums block_sums(const product *p) {
    return (tsr_product_sums){
        .dtype = p->conv.compute,
        .buffer = p->scratch,
        .slot = p->block_panels * p->block_channels * p->width,
        .slots = p->blocks.many ? tsr_product_slots(p->conv.images * p->blocks.count) : 1};
}

static tsr_product_offsets offsets_of(product *p, const tile *t,
                                      int64_t offsets[TSR_GEMM_TILE_MAX]) {
    uint32_t count = 0;
    for (int64_t i = 0; i < t->rows; i++)
        for (uint32_t v = 0; v < p->vectors; v++)
            offsets[count++] = i * p->width + v * (int64_t)p->lanes;
    return (tsr_product_offsets){
        .at = scratch_at(p, t, 0, 0), .offsets = offsets, .count = count, .lanes = p->lanes};
}

/* Multiplies all windows of one row of the block. */
static void multiply_row(product *p, const tile *t, MlirValue y, const MlirValue *masks,
                         MlirValue *accumulators) {
    tsr_tile_builder *b = &p->conv.group->b;
    const tsr_conv *conv = &p->conv;
    MlirValue position[2], window[] = {y, t->windows->low[1]};
    for (int i = 0; i < 2; i++) {
        position[i] = tsr_tile_add(b, tsr_tile_mul(b, window[i], conv->axes[i].stride),
                                   tsr_tile_mul(b, p->tap[i], conv->axes[i].dilation));
        position[i] = tsr_tile_offset(b, position[i], -conv->axes[i].low);
    }
    MlirValue a_at = tsr_tile_add(b, tsr_tile_mul(b, p->image, conv->axes[0].image), position[0]);
    a_at = tsr_tile_add(b, tsr_tile_mul(b, a_at, conv->axes[1].image), position[1]);
    a_at = tsr_tile_add(b, tsr_tile_mul(b, a_at, conv->channels),
                        tsr_tile_mul(b, p->group, conv->group_channels));
    a_at = tsr_tile_add(b, a_at, tsr_tile_add(b, p->channel, t->channel));
    MlirValue b_at = tsr_tile_add(b, tsr_tile_mul(b, p->image, conv->axes[0].result), y);
    b_at = tsr_tile_add(b, tsr_tile_mul(b, b_at, conv->axes[1].result), window[1]);
    b_at = tsr_tile_add(b, tsr_tile_mul(b, b_at, conv->filters),
                        tsr_tile_mul(b, p->group, conv->group_filters));
    tsr_gemm_tile gemm = {.a_dtype = conv->dtype,
                          .b_dtype = conv->dtype,
                          .lanes = p->lanes,
                          .vectors = p->vectors,
                          .rows = t->rows,
                          .a = conv->a,
                          .b = conv->b,
                          .a_at = a_at,
                          .a_row = 1,
                          .a_step = conv->axes[1].stride * conv->channels,
                          .b_at = tsr_tile_add(b, b_at, filter_of(p, t)),
                          .b_step = conv->filters,
                          .masks = masks};
    tsr_gemm_multiply(b, &gemm, tsr_tile_sub(b, t->windows->high[1], window[1]), accumulators);
}

static void multiply_tile(product *p, const tile *t) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue accumulators[TSR_GEMM_TILE_MAX], masks[TSR_TILE_VECTORS_MAX];
    uint32_t count = (uint32_t)t->rows * p->vectors;
    make_masks(p, t, masks);
    for (int64_t i = 0; i < t->rows; i++)
        for (uint32_t v = 0; v < p->vectors; v++)
            accumulators[i * p->vectors + v] =
                p->blocks.many ? tsr_element_zero(b, p->conv.compute, p->lanes)
                               : tsr_tile_load(b, p->conv.compute, p->scratch,
                                               scratch_at(p, t, i, v), p->lanes, tsr_tile_null);
    TSR_TILE_FOR_CARRIED(b, rows, t->windows->low[0], t->windows->high[0], 1, count, accumulators) {
        multiply_row(p, t, rows.index, masks, accumulators);
    }
    if (p->blocks.many) {
        int64_t offsets[TSR_GEMM_TILE_MAX];
        tsr_product_sums sums = block_sums(p);
        tsr_product_offsets where = offsets_of(p, t, offsets);
        tsr_product_push(b, &sums, &where, p->carries, accumulators);
        return;
    }
    for (int64_t i = 0; i < t->rows; i++)
        for (uint32_t v = 0; v < p->vectors; v++)
            tsr_tile_store(b, p->conv.compute, accumulators[i * p->vectors + v], p->scratch,
                           scratch_at(p, t, i, v), tsr_tile_null);
}

static void clear_tile(product *p, const tile *t) {
    tsr_tile_builder *b = &p->conv.group->b;
    int64_t offsets[TSR_GEMM_TILE_MAX];
    tsr_product_sums sums = block_sums(p);
    tsr_product_offsets where = offsets_of(p, t, offsets);
    tsr_product_clear(b, &sums, &where);
}

static void store_tile(product *p, const tile *t) {
    tsr_tile_builder *b = &p->conv.group->b;
    const tsr_conv *conv = &p->conv;
    MlirValue masks[TSR_TILE_VECTORS_MAX], totals[TSR_GEMM_TILE_MAX];
    int64_t offsets[TSR_GEMM_TILE_MAX];
    tsr_product_sums sums = block_sums(p);
    tsr_product_offsets where = offsets_of(p, t, offsets);
    make_masks(p, t, masks);
    for (uint32_t i = 0; i < where.count; i++)
        totals[i] = p->blocks.many ? tsr_element_zero(b, conv->compute, p->lanes)
                                   : tsr_tile_load(b, conv->compute, p->scratch,
                                                   tsr_tile_offset(b, where.at, offsets[i]),
                                                   p->lanes, tsr_tile_null);
    if (p->blocks.many) tsr_product_finish(b, &sums, &where, totals);
    MlirValue tap = tsr_tile_add(b, tsr_tile_mul(b, p->tap[0], conv->axes[1].taps), p->tap[1]);
    MlirValue row = tsr_tile_add(b, tsr_tile_mul(b, tap, conv->group_channels),
                                 tsr_tile_add(b, p->channel, t->channel));
    for (int64_t i = 0; i < t->rows; i++) {
        MlirValue to = tsr_tile_mul(b, tsr_tile_offset(b, row, i), conv->filters);
        to = tsr_tile_add(b, to, tsr_tile_mul(b, p->group, conv->group_filters));
        to = tsr_tile_add(b, to, filter_of(p, t));
        for (uint32_t v = 0; v < p->vectors; v++)
            tsr_tile_store(b, conv->dtype, totals[i * p->vectors + v], conv->result,
                           tsr_tile_offset(b, to, v * p->lanes), masks[v]);
    }
}

/* Visits all tiles of the program: whole ones, then the rest of the last block of channels. */
static void walk_tiles(product *p, tile *t, void (*visit)(product *p, const tile *t)) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    int64_t edge = p->conv.group_channels % p->tile_rows;
    MlirValue whole = tsr_tile_sub(b, p->channels, tsr_tile_rem(b, p->channels, p->tile_rows));
    TSR_TILE_FOR(b, panels, zero, p->panel_count, 1) {
        t->panel = panels.index;
        for (int part = 0; part < 2; part++) {
            t->rows = part ? edge : p->tile_rows;
            if (!t->rows) continue;
            TSR_TILE_FOR(b, channels, part ? whole : zero, part ? p->channels : whole, t->rows) {
                t->channel = channels.index;
                visit(p, t);
            }
        }
    }
}

static void visit_block(void *user, const tsr_conv_block *windows) {
    product *p = user;
    tile t = {.windows = windows};
    if (p->blocks.many)
        p->carries = tsr_product_carries(&p->conv.group->b, windows->number,
                                         p->conv.images * p->blocks.count);
    walk_tiles(p, &t, multiply_tile);
}

static void emit_program(product *p) {
    tsr_tile_builder *b = &p->conv.group->b;
    tile t = {0};
    walk_tiles(p, &t, clear_tile);
    TSR_TILE_FOR(b, images, tsr_tile_index(b, 0), tsr_tile_index(b, p->conv.images), 1) {
        p->image = images.index;
        MlirValue first = tsr_tile_mul(b, images.index, p->blocks.count);
        tsr_conv_blocks_walk(b, &p->blocks, p->low, p->high, first, visit_block, p);
    }
    walk_tiles(p, &t, store_tile);
}

static MlirValue split_index(product *p, MlirValue *rest, int64_t count) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue part = count == 1 ? tsr_tile_index(b, 0) : tsr_tile_rem(b, *rest, count);
    *rest = tsr_tile_div(b, *rest, count);
    return part;
}

static tsr_result emit(product *p) {
    tsr_tile_builder *b = &p->conv.group->b;
    tsr_conv *conv = &p->conv;
    tsr_product_sums sums = block_sums(p);
    p->scratch = tsr_tile_local(b, conv->storage, sums.slots * sums.slot);
    int64_t panel_parts = tsr_divide_up(p->panels, p->block_panels);
    int64_t channel_parts = tsr_divide_up(conv->group_channels, p->block_channels);
    conv->group->grid =
        conv->groups * conv->axes[0].taps * conv->axes[1].taps * channel_parts * panel_parts;
    MlirValue rest = conv->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    p->panel = tsr_tile_mul(b, split_index(p, &rest, panel_parts), p->block_panels);
    p->channel = tsr_tile_mul(b, split_index(p, &rest, channel_parts), p->block_channels);
    for (int i = 1; i >= 0; i--) p->tap[i] = split_index(p, &rest, conv->axes[i].taps);
    p->group = split_index(p, &rest, conv->groups);
    p->panel_count = tsr_tile_min(b, tsr_tile_index(b, p->block_panels),
                                  tsr_tile_sub(b, tsr_tile_index(b, p->panels), p->panel));
    p->channels =
        tsr_tile_min(b, tsr_tile_index(b, p->block_channels),
                     tsr_tile_sub(b, tsr_tile_index(b, conv->group_channels), p->channel));
    for (int i = 0; i < 2; i++) {
        const int64_t *low = NULL, *high = NULL;
        TRY(conv->group->ctx, tsr_conv_windows(conv, &conv->axes[i], &low, &high));
        p->low[i] = tsr_conv_lookup(conv, low, conv->axes[i].taps, p->tap[i]);
        p->high[i] = tsr_conv_lookup(conv, high, conv->axes[i].taps, p->tap[i]);
    }
    emit_program(p);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_lower_conv2d_grad_filter(tsr_tile_group *group) {
    product p = {0};
    TRY(group->ctx, tsr_conv_read(group, TSR_CONV_OF_FILTER, &p.conv));
    if (tsr_conv_is_empty(&p.conv)) return TSR_SUCCESS;
    if (tsr_conv_is_depthwise(&p.conv)) return tsr_conv_depthwise(&p.conv, TSR_CONV_OF_FILTER);
    if (tsr_conv_is_pointwise(&p.conv)) tsr_conv_flatten(&p.conv);
    plan(&p);
    return emit(&p);
}
