/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions with one channel in each group: vectors contain channels, and a few vectors are
 * computed at a time. In the forward product and the gradient of the image, each position is a sum
 * over the taps that are inside the image; in the gradient of the filter each tap is a sum over the
 * windows in which it is inside the image. Order and numerics equal those of the other
 * convolutions. More than 2,048 taps are divided into blocks of at most 256 taps, in the same way
 * as windows (filter.c).
 */
#include "compiler/tile/conv/conv.h"
#include "compiler/tile/open.h"
#include "compiler/tile/reductions/tree.h"

#include <string.h>

enum { VECTORS = 4, POSITIONS = 4, PROGRAM_ELEMENTS = 32 * 1024 };

typedef struct depthwise {
    tsr_conv *conv;
    tsr_conv_walk walks[2];
    uint32_t lanes, vectors;
    MlirValue channel;        /* first channel of the vectors */
    MlirValue masks[VECTORS]; /* null: all lanes */
    /* Sums of blocks, either of a filter's windows or of a position's taps. */
    tsr_conv_blocks blocks;
    MlirValue scratch;       /* [slot][position][vector] */
    MlirValue image, tap[2]; /* gradient of the filter: the current image and tap */
} depthwise;

static MlirValue largest(tsr_tile_builder *b, MlirValue x, MlirValue y) {
    return tsr_tile_2(b, "arith.maxsi", x, y);
}

static void enter_channels(depthwise *d, MlirValue part) {
    tsr_tile_builder *b = &d->conv->group->b;
    int64_t wide = (int64_t)d->lanes * d->vectors;
    d->channel = tsr_tile_mul(b, part, wide);
    for (uint32_t v = 0; v < d->vectors; v++) {
        d->masks[v] = tsr_tile_null;
        if (d->conv->channels % wide == 0) continue;
        MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, d->conv->channels), d->channel);
        d->masks[v] =
            tsr_tile_mask(b, tsr_tile_offset(b, left, -(int64_t)(v * d->lanes)), d->lanes);
    }
}

/* The offset of the channels of a pixel. */
static MlirValue pixel(depthwise *d, MlirValue image, int64_t height, int64_t width, MlirValue y,
                       MlirValue x) {
    tsr_tile_builder *b = &d->conv->group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, image, height), y);
    at = tsr_tile_add(b, tsr_tile_mul(b, at, width), x);
    return tsr_tile_add(b, tsr_tile_mul(b, at, d->conv->channels), d->channel);
}

static MlirValue tap_at(depthwise *d, MlirValue y, MlirValue x) {
    tsr_tile_builder *b = &d->conv->group->b;
    MlirValue tap = tsr_tile_add(b, tsr_tile_mul(b, y, d->conv->axes[1].taps), x);
    return tsr_tile_add(b, tsr_tile_mul(b, tap, d->conv->channels), d->channel);
}

/* sums[v] = fma(x[v], y[v], sums[v]) */
static void step(depthwise *d, MlirValue x, MlirValue x_at, MlirValue y, MlirValue y_at,
                 MlirValue *sums) {
    tsr_tile_builder *b = &d->conv->group->b;
    for (uint32_t v = 0; v < d->vectors; v++) {
        MlirValue from_x = tsr_tile_load(
            b, d->conv->dtype, x, tsr_tile_offset(b, x_at, v * d->lanes), d->lanes, d->masks[v]);
        MlirValue from_y = tsr_tile_load(
            b, d->conv->dtype, y, tsr_tile_offset(b, y_at, v * d->lanes), d->lanes, d->masks[v]);
        sums[v] = tsr_tile_3(b, "math.fma", from_x, from_y, sums[v]);
    }
}

static void clear(depthwise *d, MlirValue *sums) {
    for (uint32_t v = 0; v < d->vectors; v++)
        sums[v] = tsr_element_zero(&d->conv->group->b, d->conv->compute, d->lanes);
}

static void store(depthwise *d, const MlirValue *sums, MlirValue at) {
    tsr_tile_builder *b = &d->conv->group->b;
    for (uint32_t v = 0; v < d->vectors; v++)
        tsr_tile_store(b, d->conv->dtype, sums[v], d->conv->result,
                       tsr_tile_offset(b, at, v * d->lanes), d->masks[v]);
}

/* ---- sums of blocks -------------------------------------------------------------------------- */

/* The sums of blocks of `times` walks. */
static tsr_product_sums block_sums(const depthwise *d, int64_t times) {
    return (tsr_product_sums){.dtype = d->conv->compute,
                              .buffer = d->scratch,
                              .slot = POSITIONS * VECTORS * (int64_t)d->lanes,
                              .slots = tsr_product_slots(times * d->blocks.count)};
}

static tsr_product_offsets block_offsets(const depthwise *d, uint32_t count, int64_t *offsets) {
    for (uint32_t i = 0; i < count; i++) offsets[i] = i * (int64_t)d->lanes;
    return (tsr_product_offsets){.at = tsr_tile_index(&d->conv->group->b, 0),
                                 .offsets = offsets,
                                 .count = count,
                                 .lanes = d->lanes};
}

static void make_scratch(depthwise *d, int64_t times) {
    tsr_product_sums sums = block_sums(d, times);
    d->scratch = tsr_tile_local(&d->conv->group->b, d->conv->storage, sums.slots * sums.slot);
}

/* ---- forward, and the gradient of the image -------------------------------------------------- */

typedef struct point {
    MlirValue at[2];           /* positions of the result */
    MlirValue start[2];        /* position of A at tap 0 */
    MlirValue low[2], high[2]; /* taps inside the image */
    MlirValue tap_first[2];
} point;

static void enter_axis(depthwise *d, int axis, MlirValue position, point *out) {
    tsr_tile_builder *b = &d->conv->group->b;
    const tsr_conv_walk *walk = &d->walks[axis];
    MlirValue zero = tsr_tile_index(b, 0);
    MlirValue phase = tsr_tile_rem(b, position, walk->phases);
    MlirValue count = tsr_conv_lookup(d->conv, walk->tap_count, walk->phases, phase);
    MlirValue start =
        tsr_tile_add(b, tsr_conv_lookup(d->conv, walk->first, walk->phases, phase),
                     tsr_tile_mul(b, tsr_tile_div(b, position, walk->phases), walk->stride));
    MlirValue before = largest(b, tsr_tile_sub(b, zero, start), zero);
    MlirValue left = largest(b, tsr_tile_sub(b, tsr_tile_index(b, walk->a_positions), start), zero);
    out->at[axis] = position;
    out->start[axis] = start;
    out->low[axis] = tsr_tile_div(b, tsr_tile_offset(b, before, walk->step - 1), walk->step);
    out->high[axis] = tsr_tile_min(
        b, tsr_tile_div(b, tsr_tile_offset(b, left, walk->step - 1), walk->step), count);
    out->tap_first[axis] = tsr_conv_lookup(d->conv, walk->tap_first, walk->phases, phase);
}

static MlirValue coordinate_of(depthwise *d, int axis, const point *p, MlirValue tap,
                               bool of_filter) {
    tsr_tile_builder *b = &d->conv->group->b;
    const tsr_conv_walk *walk = &d->walks[axis];
    return of_filter ? tsr_tile_add(b, p->tap_first[axis], tsr_tile_mul(b, tap, walk->tap_step))
                     : tsr_tile_add(b, p->start[axis], tsr_tile_mul(b, tap, walk->step));
}

/* `positions` neighbours in a row, which all have the taps of `at`. */
typedef struct run {
    depthwise *d;
    bool forward;
    MlirValue image;
    const point *at;
    uint32_t positions;
} run;

/* Computes one chain over these taps. The filter is loaded once for all positions. */
static void multiply_taps(const run *r, const MlirValue low[2], const MlirValue high[2],
                          MlirValue *out_sums) {
    depthwise *d = r->d;
    const point *p = r->at;
    tsr_tile_builder *b = &d->conv->group->b;
    const tsr_conv *conv = d->conv;
    MlirValue a = r->forward ? conv->a : conv->b, filter = r->forward ? conv->b : conv->a;
    MlirValue taps[VECTORS];
    uint32_t count = r->positions * d->vectors;
    for (uint32_t i = 0; i < r->positions; i++) clear(d, out_sums + i * d->vectors);
    TSR_TILE_FOR_CARRIED(b, rows, low[0], high[0], 1, count, out_sums) {
        TSR_TILE_FOR_CARRIED(b, columns, low[1], high[1], 1, count, out_sums) {
            MlirValue a_at = pixel(d, r->image, d->walks[0].a_positions, d->walks[1].a_positions,
                                   coordinate_of(d, 0, p, rows.index, false),
                                   coordinate_of(d, 1, p, columns.index, false));
            MlirValue tap = tap_at(d, coordinate_of(d, 0, p, rows.index, true),
                                   coordinate_of(d, 1, p, columns.index, true));
            for (uint32_t v = 0; v < d->vectors; v++)
                taps[v] =
                    tsr_tile_load(b, conv->dtype, filter, tsr_tile_offset(b, tap, v * d->lanes),
                                  d->lanes, d->masks[v]);
            for (uint32_t i = 0; i < count; i++) {
                uint32_t v = i % d->vectors, position = i / d->vectors;
                int64_t apart = position * d->walks[1].stride * conv->channels + v * d->lanes;
                MlirValue x = tsr_tile_load(b, conv->dtype, a, tsr_tile_offset(b, a_at, apart),
                                            d->lanes, d->masks[v]);
                out_sums[i] = tsr_tile_3(b, "math.fma", x, taps[v], out_sums[i]);
            }
        }
    }
}

static void visit_taps(void *user, const tsr_conv_block *block) {
    const run *r = user;
    tsr_tile_builder *b = &r->d->conv->group->b;
    int64_t offsets[POSITIONS * VECTORS];
    MlirValue sums[POSITIONS * VECTORS];
    tsr_product_sums before = block_sums(r->d, 1);
    tsr_product_offsets where = block_offsets(r->d, r->positions * r->d->vectors, offsets);
    multiply_taps(r, block->low, block->high, sums);
    MlirValue carries = tsr_product_carries(b, block->number, r->d->blocks.count);
    tsr_product_push(b, &before, &where, carries, sums);
}

static void emit_tile(run *r) {
    depthwise *d = r->d;
    const point *p = r->at;
    tsr_tile_builder *b = &d->conv->group->b;
    MlirValue sums[POSITIONS * VECTORS];
    if (d->blocks.many) {
        int64_t offsets[POSITIONS * VECTORS];
        tsr_product_sums before = block_sums(d, 1);
        tsr_product_offsets where = block_offsets(d, r->positions * d->vectors, offsets);
        tsr_product_clear(b, &before, &where);
        tsr_conv_blocks_walk(b, &d->blocks, p->low, p->high, tsr_tile_index(b, 0), visit_taps, r);
        for (uint32_t i = 0; i < r->positions; i++) clear(d, sums + i * d->vectors);
        tsr_product_finish(b, &before, &where, sums);
    } else {
        multiply_taps(r, p->low, p->high, sums);
    }
    MlirValue at =
        pixel(d, r->image, d->walks[0].positions, d->walks[1].positions, p->at[0], p->at[1]);
    for (uint32_t i = 0; i < r->positions; i++)
        store(d, sums + i * d->vectors, tsr_tile_offset(b, at, i * d->conv->channels));
}

/* Emits positions first ... end - 1 of a line, `positions` at a time. */
static void emit_run(depthwise *d, tsr_conv_kind kind, MlirValue image, point *p, int64_t first,
                     int64_t end, uint32_t positions) {
    tsr_tile_builder *b = &d->conv->group->b;
    int64_t parts = tsr_divide_up(d->conv->channels, (int64_t)d->lanes * d->vectors);
    if (first >= end) return;
    TSR_TILE_FOR(b, over_positions, tsr_tile_index(b, first), tsr_tile_index(b, end), positions) {
        enter_axis(d, 1, over_positions.index, p);
        if (positions > 1) {
            p->low[1] = tsr_tile_index(b, 0);
            p->high[1] = tsr_tile_index(b, d->walks[1].taps);
        }
        TSR_TILE_FOR(b, over_channels, tsr_tile_index(b, 0), tsr_tile_index(b, parts), 1) {
            enter_channels(d, over_channels.index);
            run r = {.d = d,
                     .forward = kind == TSR_CONV_FORWARD,
                     .image = image,
                     .at = p,
                     .positions = positions};
            emit_tile(&r);
        }
    }
}

/* Finds the positions of a line whose taps are all inside the image. Finds no position if there are
 * phases. */
static void find_inside(const tsr_conv_walk *walk, int64_t *out_first, int64_t *out_end) {
    int64_t first = walk->first[0],
            last = walk->a_positions - 1 - (walk->taps - 1) * walk->step - first;
    *out_first = first < 0 ? tsr_divide_up(-first, walk->stride) : 0;
    *out_end = last < 0 ? 0 : last / walk->stride + 1;
    if (*out_end > walk->positions) *out_end = walk->positions;
    if (walk->phases == 1 && *out_first < *out_end) return;
    *out_first = *out_end = 0;
}

static tsr_result emit_positions(depthwise *d, tsr_conv_kind kind) {
    tsr_conv *conv = d->conv;
    tsr_tile_builder *b = &conv->group->b;
    for (int i = 0; i < 2; i++)
        TRY(conv->group->ctx, tsr_conv_walk_make(conv, &conv->axes[i], kind, &d->walks[i]));
    d->blocks = tsr_conv_blocks_make(1, d->walks[0].taps, d->walks[1].taps);
    if (d->blocks.many) make_scratch(d, 1);
    int64_t lines = conv->images * d->walks[0].positions,
            line = d->walks[1].positions * conv->channels;
    int64_t lines_each = line < PROGRAM_ELEMENTS ? PROGRAM_ELEMENTS / line : 1;
    conv->group->grid = tsr_divide_up(lines, lines_each);
    tsr_tile_open_grid(conv->group, lines, lines_each, 1);
    MlirValue pid = conv->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    MlirValue first = tsr_tile_mul(b, pid, lines_each);
    MlirValue end = tsr_tile_min(b, tsr_tile_offset(b, first, lines_each),
                                 tsr_tile_open_count(conv->group, lines));
    int64_t inside = 0, outside = 0;
    find_inside(&d->walks[1], &inside, &outside);
    outside = inside + (outside - inside) / POSITIONS * POSITIONS;
    point p = {0};
    TSR_TILE_FOR(b, over_lines, first, end, 1) {
        MlirValue image = tsr_tile_div(b, over_lines.index, d->walks[0].positions);
        enter_axis(d, 0, tsr_tile_rem(b, over_lines.index, d->walks[0].positions), &p);
        emit_run(d, kind, image, &p, 0, inside, 1);
        emit_run(d, kind, image, &p, inside, outside, POSITIONS);
        emit_run(d, kind, image, &p, outside, d->walks[1].positions, 1);
    }
    return TSR_SUCCESS;
}

/* ---- the gradient of the filter -------------------------------------------------------------- */

static MlirValue position_of(depthwise *d, int axis, MlirValue window, MlirValue tap) {
    tsr_tile_builder *b = &d->conv->group->b;
    const tsr_conv_axis *x = &d->conv->axes[axis];
    MlirValue position =
        tsr_tile_add(b, tsr_tile_mul(b, window, x->stride), tsr_tile_mul(b, tap, x->dilation));
    return tsr_tile_offset(b, position, -x->low);
}

/* Adds the products of the windows of an image to `sums`. */
static void add_windows(depthwise *d, const MlirValue low[2], const MlirValue high[2],
                        MlirValue *sums) {
    tsr_tile_builder *b = &d->conv->group->b;
    const tsr_conv_axis *y = &d->conv->axes[0], *x = &d->conv->axes[1];
    TSR_TILE_FOR_CARRIED(b, rows, low[0], high[0], 1, d->vectors, sums) {
        TSR_TILE_FOR_CARRIED(b, columns, low[1], high[1], 1, d->vectors, sums) {
            MlirValue a_at =
                pixel(d, d->image, y->image, x->image, position_of(d, 0, rows.index, d->tap[0]),
                      position_of(d, 1, columns.index, d->tap[1]));
            MlirValue b_at = pixel(d, d->image, y->result, x->result, rows.index, columns.index);
            step(d, d->conv->a, a_at, d->conv->b, b_at, sums);
        }
    }
}

/* Computes one chain over all images. */
static void sum_windows(depthwise *d, const MlirValue low[2], const MlirValue high[2],
                        MlirValue *sums) {
    tsr_tile_builder *b = &d->conv->group->b;
    clear(d, sums);
    TSR_TILE_FOR_CARRIED(b, images, tsr_tile_index(b, 0), tsr_tile_index(b, d->conv->images), 1,
                         d->vectors, sums) {
        d->image = images.index;
        add_windows(d, low, high, sums);
    }
}

static void visit_windows(void *user, const tsr_conv_block *block) {
    depthwise *d = user;
    tsr_tile_builder *b = &d->conv->group->b;
    int64_t offsets[VECTORS];
    MlirValue sums[VECTORS];
    tsr_product_sums before = block_sums(d, d->conv->images);
    tsr_product_offsets where = block_offsets(d, d->vectors, offsets);
    clear(d, sums);
    add_windows(d, block->low, block->high, sums);
    MlirValue carries = tsr_product_carries(b, block->number, d->conv->images * d->blocks.count);
    tsr_product_push(b, &before, &where, carries, sums);
}

/* Computes a chain for each block of windows, as in filter.c. */
static void sum_blocks(depthwise *d, const MlirValue low[2], const MlirValue high[2],
                       MlirValue *sums) {
    tsr_tile_builder *b = &d->conv->group->b;
    int64_t offsets[VECTORS];
    tsr_product_sums before = block_sums(d, d->conv->images);
    tsr_product_offsets where = block_offsets(d, d->vectors, offsets);
    tsr_product_clear(b, &before, &where);
    TSR_TILE_FOR(b, images, tsr_tile_index(b, 0), tsr_tile_index(b, d->conv->images), 1) {
        d->image = images.index;
        MlirValue first = tsr_tile_mul(b, images.index, d->blocks.count);
        tsr_conv_blocks_walk(b, &d->blocks, low, high, first, visit_windows, d);
    }
    clear(d, sums);
    tsr_product_finish(b, &before, &where, sums);
}

static tsr_result emit_taps(depthwise *d) {
    tsr_conv *conv = d->conv;
    tsr_tile_builder *b = &conv->group->b;
    const tsr_conv_axis *y = &conv->axes[0], *x = &conv->axes[1];
    int64_t parts = tsr_divide_up(conv->channels, (int64_t)d->lanes * d->vectors);
    MlirValue tap[2], low[2], high[2], sums[VECTORS];
    d->blocks = tsr_conv_blocks_make(conv->images, y->result, x->result);
    if (d->blocks.many) make_scratch(d, conv->images);
    conv->group->grid = parts * y->taps * x->taps;
    MlirValue pid = conv->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    enter_channels(d, tsr_tile_rem(b, pid, parts));
    MlirValue rest = tsr_tile_div(b, pid, parts);
    tap[0] = tsr_tile_div(b, rest, x->taps);
    tap[1] = tsr_tile_rem(b, rest, x->taps);
    for (int i = 0; i < 2; i++) {
        const int64_t *lows = NULL, *highs = NULL;
        TRY(conv->group->ctx, tsr_conv_windows(conv, &conv->axes[i], &lows, &highs));
        low[i] = tsr_conv_lookup(conv, lows, conv->axes[i].taps, tap[i]);
        high[i] = tsr_conv_lookup(conv, highs, conv->axes[i].taps, tap[i]);
    }
    d->tap[0] = tap[0];
    d->tap[1] = tap[1];
    if (d->blocks.many)
        sum_blocks(d, low, high, sums);
    else
        sum_windows(d, low, high, sums);
    store(d, sums, tap_at(d, tap[0], tap[1]));
    return TSR_SUCCESS;
}

tsr_result tsr_conv_depthwise(tsr_conv *conv, tsr_conv_kind kind) {
    depthwise d = {.conv = conv};
    uint32_t size = (uint32_t)tsr_dtype_size(conv->compute);
    d.lanes = tsr_lanes_fit(conv->group->b.target->vector_bytes / size, conv->channels);
    int64_t vectors = tsr_divide_up(conv->channels, d.lanes);
    /* The sums of all positions and a row of the filter must stay in registers: there are 32 of 64
     * bytes, or 16 smaller ones. */
    int64_t most = conv->group->b.target->vector_bytes == 64 ? VECTORS : VECTORS / 2;
    d.vectors = (uint32_t)tsr_gemm_part(vectors, most, 1);
    return kind == TSR_CONV_OF_FILTER ? emit_taps(&d) : emit_positions(&d, kind);
}
