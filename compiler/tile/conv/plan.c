/* SPDX-License-Identifier: Apache-2.0
 *
 * The division of a convolution: tiles, blocks of channels, taps and positions, programs.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/conv/product.h"
#include "compiler/tile/reductions/tree.h"

#include <inttypes.h>

enum {
    K_MAX = 736,                     /* taps times channels of a block */
    PANEL_ELEMENTS = 48 * 1024,      /* capacity for the filter on the stack */
    PATCH_ELEMENTS = 40 * 1024,      /* capacity for the image on the stack */
    SCRATCH_ELEMENTS = 24 * 1024,    /* capacity for partial sums */
    STACK_ELEMENT_BYTES = 4,         /* element size for these limits: f32; f64 gets half */
    FLAT_WASTE = 16,                 /* flat blocks must save 1 / FLAT_WASTE of a row */
    FLAT_ROWS_MAX = 8,               /* rows of a flat tile: each has an address in a register */
    STRIP_VECTORS = 2,               /* vectors of a tile that reads strips */
    PROGRAM_FLOPS = 8 * 1000 * 1000, /* minimum work of a program, if there is enough */
    PROGRAMS = 32,                   /* minimum number of programs, if there is enough work */
    SHARED_PANELS = 4,      /* maximum number of panels that share a patch in a program ... */
    SHARED_PROGRAMS = 16,   /* ... if at least this number of programs is left ... */
    SHARED_POSITIONS = 256, /* ... which have this number of positions each */
    LEFT_OUT_CHANNELS = 16, /* minimum for a tap with a loop of its own */
};
static_assert((PANEL_ELEMENTS + PATCH_ELEMENTS + SCRATCH_ELEMENTS) * STACK_ELEMENT_BYTES <=
                  TSR_TARGET_STACK_MAX - 32768,
              "the local buffers fit the stack");

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }

static int64_t capacity(const tsr_conv_product *p, int64_t elements) {
    return elements * STACK_ELEMENT_BYTES / (int64_t)tsr_dtype_size(p->conv.compute);
}

/* The number of positions of A that `positions` positions of the result read. */
static int64_t extent(const tsr_conv_product *p, int axis, int64_t positions) {
    const tsr_conv_walk *walk = &p->walks[axis];
    return (positions - 1) * walk->stride + (most(walk->taps, 1) - 1) * walk->step + 1;
}

static bool is_long(const tsr_conv_product *p) {
    int64_t taps = most(p->walks[0].taps, 1) * most(p->walks[1].taps, 1);
    return !p->conv.words.is && tsr_product_is_long(taps * p->a_channels);
}

/* The result follows from the shapes alone, because the order of each chain depends on it. */
static void plan_channels(tsr_conv_product *p) {
    int64_t row = most(p->walks[1].taps, 1), taps = most(p->walks[0].taps, 1) * row;
    int64_t limit = most(K_MAX / taps, 1);
    if (is_long(p)) limit = least(limit, most(TSR_PRODUCT_CHUNK / row, 1));
    if (limit > 16) limit = limit / 16 * 16;
    p->channel_block = most(tsr_gemm_part(p->a_channels, limit, limit >= 16 ? 16 : 1), 1);
    p->channel_blocks = most(tsr_divide_up(p->a_channels, p->channel_block), 1);
}

bool tsr_conv_covers(const tsr_conv_walk *walk) {
    return walk->phases == 1 && walk->first[0] >= 0 &&
           walk->first[0] + (walk->positions - 1) * walk->stride + (walk->taps - 1) * walk->step <
               walk->a_positions;
}

int64_t tsr_conv_slots(const tsr_conv_product *p) {
    return p->chunks ? tsr_product_slots(p->chunks) : 1;
}

/* The number of rows, of x positions each, for which the partial sums of a block fit. */
static int64_t scratch_rows(const tsr_conv_product *p, int64_t x) {
    /* Strips do not use the part of the stack for the panel. */
    int64_t elements = SCRATCH_ELEMENTS + (p->conv.strip ? PANEL_ELEMENTS : 0);
    int64_t positions = capacity(p, elements) / (p->width * p->program_panels * tsr_conv_slots(p));
    return p->partial ? (positions - (p->flat ? p->tile_rows : 0)) / x : tsr_conv_points(p, 0);
}

int64_t tsr_conv_scratch_positions(const tsr_conv_product *p) {
    int64_t positions = p->block[0] * p->block[1];
    return p->flat ? tsr_round_up(positions, p->tile_rows) : positions;
}

/* Half of the positions, rounded up to whole tiles. */
static int64_t halve(const tsr_conv_product *p, int64_t x) {
    return tsr_round_up(x / 2, p->tile_rows);
}

/* The positions of a row, including the positions of the last tile beyond the row's end. */
static int64_t row_positions(const tsr_conv_product *p) {
    int64_t x = tsr_conv_points(p, 1);
    return p->flat ? x : tsr_round_up(x, p->tile_rows);
}

/* Plans the positions of a block along W, then along H, so that the patch and the partial sums
 * fit. */
static bool plan_patch(tsr_conv_product *p) {
    int64_t limit = capacity(p, PATCH_ELEMENTS), x = row_positions(p);
    while (x > p->tile_rows &&
           (extent(p, 1, x) * extent(p, 0, 1) * p->channel_block > limit || scratch_rows(p, x) < 1))
        x = halve(p, x);
    int64_t row = extent(p, 1, x) * p->channel_block;
    if (extent(p, 0, 1) * row > limit) return false;
    int64_t rows = (limit / row - extent(p, 0, 1)) / p->walks[0].stride + 1;
    p->block[1] = x;
    p->block[0] = tsr_gemm_part(p->program_rows, least(rows, scratch_rows(p, x)), 1);
    for (int i = 0; i < 2; i++) p->patch[i] = extent(p, i, p->block[i]);
    return true;
}

/* True if taps have enough channels to leave out those beyond the image. The result follows from
 * the shapes alone. */
static bool has_ranges(const tsr_conv_product *p) { return p->a_channels >= LEFT_OUT_CHANNELS; }

static bool leaves_out(const tsr_conv_product *p) {
    return has_ranges(p) && !tsr_conv_covers(&p->walks[TSR_CONV_X]);
}

/* True if tiles can read the image itself: they read only existing elements, and the rows of a tile
 * do not share sets of the first-level cache. */
static bool can_be_direct(const tsr_conv_product *p) {
    const tsr_conv_walk *x = &p->walks[TSR_CONV_X];
    bool whole = p->flat || x->positions % p->tile_rows == 0;
    bool as_is = p->conv.dtype == p->conv.compute; /* small floats are widened once, not per tile */
    int64_t row_bytes = x->stride * p->a_total * (int64_t)tsr_dtype_size(p->conv.compute);
    return as_is && !tsr_gemm_alias(row_bytes, p->tile_rows) &&
           (has_ranges(p) || (whole && tsr_conv_covers(x)));
}

static void plan_source(tsr_conv_product *p) {
    const tsr_conv_walk *y = &p->walks[0], *x = &p->walks[1];
    int64_t c = p->channel_block, pixels;
    if (can_be_direct(p)) {
        p->source = TSR_CONV_DIRECT;
        p->block[1] = row_positions(p);
        while (scratch_rows(p, p->block[1]) < 1) p->block[1] = halve(p, p->block[1]);
        p->block[0] = tsr_gemm_part(p->program_rows, scratch_rows(p, p->block[1]), 1);
        c = p->a_total;
        pixels = x->a_positions;
    } else if (plan_patch(p)) {
        p->source = TSR_CONV_PATCH;
        pixels = p->patch[1];
    } else {
        p->source = TSR_CONV_TAPS;
        p->block[0] = 1;
        p->block[1] = p->tile_rows;
        p->patch[0] = most(y->taps, 1);
        p->patch[1] = most(x->taps, 1) * p->tile_rows;
        p->position_step[0] = 0;
        p->position_step[1] = c;
        p->tap_step[0] = p->patch[1] * c;
        p->tap_step[1] = p->tile_rows * c;
        return;
    }
    p->position_step[0] = y->stride * pixels * c;
    p->position_step[1] = x->stride * c;
    p->tap_step[0] = y->step * pixels * c;
    p->tap_step[1] = x->step * c;
}

/* True if tiles can slide back, so that stores of whole tiles need no mask: the last block of a row
 * must have space for a whole tile. */
static bool can_slide(const tsr_conv_product *p) {
    if (p->flat) return true;
    int64_t points = tsr_conv_points(p, 1), last = points % p->block[1];
    return p->walks[1].phases == 1 && points >= p->tile_rows && (last == 0 || last >= p->tile_rows);
}

static void plan_tile(tsr_conv_product *p) {
    const tsr_target *target = p->conv.group->b.target;
    int64_t size = (int64_t)tsr_dtype_size(p->conv.compute), strip = p->conv.strip;
    bool direct = tsr_conv_covers(&p->walks[0]) && tsr_conv_covers(&p->walks[1]);
    tsr_gemm_shape shape = {.element_bytes = size,
                            .m = tsr_conv_points(p, 1) * (p->flat ? tsr_conv_points(p, 0) : 1),
                            .n = p->columns,
                            /* Wider tiles with fewer rows would need more bandwidth from the
                             * second-level cache than it has. */
                            .width = strip ? STRIP_VECTORS * target->vector_bytes / size : 0,
                            .strip = strip,
                            .row_bytes = direct ? p->walks[1].stride * p->a_total * size : 0};
    tsr_gemm_plan_tile(target, &shape, &p->lanes, &p->vectors, &p->tile_rows);
    p->width = (int64_t)p->lanes * p->vectors;
    p->panels = tsr_divide_up(p->columns, p->width);
    p->edge = p->columns % p->width;
}

/* A block of K is a chunk if a sum has more than 2,048 steps. Chunks follow from the shapes alone,
 * like the order of their sums, so the panel must have capacity for their rows of taps. */
static tsr_result plan_chunks(tsr_conv_product *p, int64_t fit) {
    int64_t row = most(p->walks[1].taps, 1) * p->channel_block, taps = most(p->walks[0].taps, 1);
    int64_t rows = tsr_gemm_part(taps, most(TSR_PRODUCT_CHUNK / row, 1), 1);
    int64_t chunks = p->channel_blocks * tsr_divide_up(taps, rows);
    p->chunks = 0;
    if (chunks == 1 || !is_long(p)) return TSR_SUCCESS;
    if (rows > fit)
        FAIL(p->conv.group->ctx, TSR_INTERNAL,
             "'%s': a chunk has %" PRId64 " rows of taps; the capacity is %" PRId64,
             p->conv.group->name, rows, fit);
    p->tap_rows = rows;
    p->chunks = chunks;
    return TSR_SUCCESS;
}

/* Plans the rows of a block of taps. For strips, the block has all rows; otherwise it has as many
 * rows as fit into a panel on the stack. */
static tsr_result plan_taps(tsr_conv_product *p) {
    int64_t row = most(p->walks[1].taps, 1) * p->channel_block, taps = most(p->walks[0].taps, 1);
    int64_t fit = p->conv.strip ? taps : (capacity(p, PANEL_ELEMENTS) / p->width - p->lanes) / row;
    if (fit < 1)
        FAIL(p->conv.group->ctx, TSR_COMPILE,
             "'%s': a filter of %" PRId64 " taps in a row is too wide", p->conv.group->name,
             p->walks[1].taps);
    p->tap_rows = tsr_gemm_part(taps, least(fit, taps), 1);
    return plan_chunks(p, fit);
}

/* Plans the panels and rows of a program. */
static void plan_program(tsr_conv_product *p) {
    int64_t x = tsr_conv_points(p, 1), y = tsr_conv_points(p, 0), stride = p->walks[0].stride;
    int64_t taps = most(p->walks[0].taps * p->walks[1].taps, 1);
    int64_t others = p->conv.images * p->conv.groups * p->walks[0].phases * p->walks[1].phases;
    bool shares = p->conv.strip && !p->conv.group->b.target->warp_lanes;
    int64_t panels = shares ? least(p->panels, SHARED_PANELS) : 1;
    while (panels > 1 &&
           others * tsr_divide_up(p->panels, panels) * tsr_divide_up(x * y, SHARED_POSITIONS) <
               SHARED_PROGRAMS)
        panels /= 2;
    double flops = 2.0 * (double)(x * taps) * (double)(p->a_channels * p->width * panels);
    int64_t rows = (int64_t)(PROGRAM_FLOPS / flops) + 1;
    rows = most(rows, tsr_divide_up(y * others * tsr_divide_up(p->panels, panels), PROGRAMS));
    /* At least the number of rows of A that the next program reads again. */
    rows = most(rows, tsr_divide_up(extent(p, 0, 1), stride));
    p->program_rows = least(rows, y);
    p->program_panels = panels;
}

static tsr_result plan_blocks(tsr_conv_product *p) {
    plan_tile(p);
    plan_channels(p);
    TRY(p->conv.group->ctx, plan_taps(p));
    int64_t tap_blocks = tsr_divide_up(most(p->walks[0].taps, 1), p->tap_rows);
    p->partial = p->channel_blocks > 1 || tap_blocks > 1;
    plan_program(p);
    plan_source(p);
    p->program_rows = tsr_divide_up(p->program_rows, p->block[0]) * p->block[0];
    return TSR_SUCCESS;
}

/* True if many positions of a row's tiles would be computed twice. */
static bool wants_flat(const tsr_conv_product *p) {
    int64_t x = tsr_conv_points(p, 1), tiles = tsr_divide_up(x, p->tile_rows);
    /* Flat tiles contain positions of several rows, which must have the same taps. */
    bool whole = tsr_conv_covers(&p->walks[0]) && !leaves_out(p) && p->walks[1].phases == 1;
    return whole && tsr_conv_points(p, 0) > 1 && !p->conv.group->b.target->warp_lanes &&
           (tiles * p->tile_rows - x) * FLAT_WASTE > x;
}

/* True if each block, also the last, has whole rows and at least one whole tile. */
static bool can_be_flat(const tsr_conv_product *p) {
    int64_t x = tsr_conv_points(p, 1), last = tsr_conv_points(p, 0) % p->block[0];
    return p->source != TSR_CONV_TAPS && p->block[1] == x && p->tile_rows <= FLAT_ROWS_MAX &&
           (last ? last : p->block[0]) * x >= p->tile_rows;
}

/* ---- the border ------------------------------------------------------------------------------ */

static void add_range(tsr_conv_product *p, int64_t low, int64_t high, bool *many) {
    for (uint32_t i = 0; i < p->range_count; i++)
        if (p->ranges[i].low == low && p->ranges[i].high == high) return;
    if (p->range_count == TSR_CONV_RANGES_MAX)
        *many = true;
    else
        p->ranges[p->range_count++] = (tsr_conv_range){low, high};
}

/* Finds which taps the positions of the tile have that begins at position x of a row of
 * `points`. */
static void plan_border_tile(tsr_conv_product *p, int64_t phase, int64_t points, int64_t x,
                             bool *many) {
    const tsr_conv_walk *walk = &p->walks[TSR_CONV_X];
    int64_t taps = walk->tap_count[phase], at = walk->first[phase] + x * walk->stride;
    int64_t end = least(points - x, p->tile_rows), last = at + (end - 1) * walk->stride;
    bool inside = at >= 0 && last + (taps - 1) * walk->step < walk->a_positions;
    if (!taps || (inside && end == p->tile_rows)) {
        p->inner = true;
        return;
    }
    p->border = true;
    for (int64_t t = 0; t < taps; t++, at += walk->step) {
        int64_t low = tsr_divide_up(most(-at, 0), walk->stride);
        int64_t high = least(tsr_divide_up(most(walk->a_positions - at, 0), walk->stride), end);
        if (low < high) add_range(p, low, high, many);
    }
}

static void plan_border(tsr_conv_product *p) {
    const tsr_conv_walk *walk = &p->walks[TSR_CONV_X];
    bool many = false;
    p->inner = p->border = false;
    p->range_count = 0;
    if (!has_ranges(p) || p->flat) {
        p->inner = true;
        return;
    }
    for (int64_t phase = 0; phase < walk->phases; phase++) {
        int64_t points = tsr_divide_up(walk->positions - phase, walk->phases);
        for (int64_t begin = 0; begin < points; begin += p->block[1]) {
            int64_t end = least(points - begin, p->block[1]);
            for (int64_t x = 0; x < end; x += p->tile_rows)
                plan_border_tile(
                    p, phase, points,
                    begin + (p->slides && !p->partial ? least(x, end - p->tile_rows) : x), &many);
        }
    }
    if (many) p->range_count = 0;
}

tsr_result tsr_conv_plan(tsr_conv_product *p) {
    tsr_tile_group *group = p->conv.group;
    p->strip_rows = p->walks[0].taps * p->walks[1].taps * p->a_channels;
    TRY(group->ctx, plan_blocks(p));
    if (wants_flat(p)) {
        p->flat = true;
        TRY(group->ctx, plan_blocks(p));
        p->flat = can_be_flat(p);
        if (!p->flat) TRY(group->ctx, plan_blocks(p));
    }
    p->slides = can_slide(p);
    plan_border(p);
    bool even = p->a_channels % p->channel_block == 0;
    p->whole_runs =
        even && p->tap_step[1] == p->channel_block && (!p->conv.strip || p->channel_blocks == 1);
    group->tile[0] = p->tile_rows;
    group->tile[1] = p->width;
    group->tile[2] = p->block[0];
    group->tile[3] = p->block[1];
    group->tile[4] = p->channel_block;
    group->tile_count = 5;
    return TSR_SUCCESS;
}
