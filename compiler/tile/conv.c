/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel families `conv2d` and `conv2d_grad_input`: a matrix product whose rows of A are gathered
 * from an image.
 *
 *     for each block of result rows of the program
 *         for each block of channels
 *             copy what the block's taps reach to the stack, with zeros around it: the patch
 *             for each block of taps
 *                 copy the filter's panel to the stack, where it does not lie in strips already
 *                 for each tile of places in a row
 *                     accumulators = 0, or what the last block left
 *                     for each tap, channel: fma, A read from the patch
 *                     store, or leave them for the next block
 *
 * Nothing is expanded: the patch holds each image element once, and a tile's rows lie evenly apart
 * in it. Where the taps lie so far apart that no patch fits, it holds one copy for each tap of one
 * tile instead; where no zeros are needed, A is read from the image itself. The gradient of an
 * image under a stride has a phase for each remainder: places that the same taps reach.
 *
 * Where rows of the result are no whole tiles, a block is flat: its places are numbered through,
 * and a tile's rows of A lie where they do.
 *
 * Each element is one chain: blocks of channels, then taps, then channels, ascending (taps of the
 * gradient descending). A place outside the image is a zero. The size of a block of channels
 * follows from the shapes alone, so that every target and blocking gives the same bits.
 */
#include "compiler/tile/conv.h"

#include <inttypes.h>
#include <string.h>

enum {
    K_MAX = 736,                     /* taps times channels of a block */
    PANEL_ELEMENTS = 48 * 1024,      /* of the filter on the stack */
    PATCH_ELEMENTS = 40 * 1024,      /* of the image on the stack */
    SCRATCH_ELEMENTS = 24 * 1024,    /* of partial sums */
    STACK_ELEMENT_BYTES = 4,         /* elements are counted as f32; f64 gets half */
    FLAT_WASTE = 16,                 /* of a row: a part of it from which on blocks are flat */
    FLAT_ROWS_MAX = 8,               /* of such a tile: each has an address in a register */
    STRIP_VECTORS = 2,               /* of a tile that reads strips */
    PROGRAM_FLOPS = 8 * 1000 * 1000, /* a program does at least so much, if there is so much */
    PROGRAMS = 32,                   /* and there are so many of them, if there is so much */
};
static_assert((PANEL_ELEMENTS + PATCH_ELEMENTS + SCRATCH_ELEMENTS) * STACK_ELEMENT_BYTES <=
                  TSR_TARGET_STACK_MAX - 32768,
              "the local buffers fit the stack");

typedef enum source { PATCH, TAPS, DIRECT } source;

typedef struct product {
    tsr_conv conv;
    tsr_conv_kind kind;
    tsr_conv_walk walks[2];
    int64_t a_channels, a_total; /* of one group; of A */
    int64_t columns, total;      /* of one group; of the result */
    /* the plan */
    uint32_t lanes, vectors;
    int64_t width, panels, tile_rows;
    int64_t channel_block, channel_blocks;
    int64_t strip_rows; /* of the filter, where it lies in strips */
    int64_t tap_rows;   /* of a block of taps */
    bool whole_runs;    /* taps of a row and channels are one run of A and of the panel */
    source source;
    int64_t block[2];     /* places of a block */
    int64_t patch[2];     /* rows and columns of the patch */
    int64_t program_rows; /* places of a program along H */
    bool partial;         /* several blocks of K */
    bool slides;          /* a tile that would reach beyond its row begins earlier instead */
    bool flat;            /* places of a block are one row */
    /* strides of A as tiles read it, in elements */
    int64_t place_step[2], tap_step[2];
    /* emission */
    MlirValue patch_local, panel, scratch;
    MlirValue image, group, phase[2]; /* of the program */
    MlirValue first[2], taps[2], tap_first[2];
    MlirValue points[2]; /* of the phase */
    MlirValue begin[2];  /* of the block */
    MlirValue column;    /* first of the panel */
} product;

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }

static int64_t points_of(const product *p, int axis) {
    return divide_up(p->walks[axis].places, p->walks[axis].phases);
}

static int64_t room(const product *p, int64_t elements) {
    return elements * STACK_ELEMENT_BYTES / (int64_t)tsr_dtype_size(p->conv.compute);
}

/* ---- plan ------------------------------------------------------------------------------------ */

/* Places of A that `places` places of the result reach. */
static int64_t reach(const product *p, int axis, int64_t places) {
    const tsr_conv_walk *walk = &p->walks[axis];
    return (places - 1) * walk->stride + (most(walk->taps, 1) - 1) * walk->step + 1;
}

/* From the shapes alone: the order of each chain depends on it. */
static void plan_channels(product *p) {
    int64_t taps = most(p->walks[0].taps * p->walks[1].taps, 1), limit = most(K_MAX / taps, 1);
    if (limit > 16) limit = limit / 16 * 16;
    p->channel_block = most(tsr_gemm_part(p->a_channels, limit, limit >= 16 ? 16 : 1), 1);
    p->channel_blocks = most(divide_up(p->a_channels, p->channel_block), 1);
}

static bool covers(const tsr_conv_walk *walk) {
    return walk->phases == 1 && walk->first[0] >= 0 &&
           walk->first[0] + (walk->places - 1) * walk->stride + (walk->taps - 1) * walk->step <
               walk->a_places;
}

/* Rows of a block of x places each, as many as partial sums have room for. */
static int64_t scratch_rows(const product *p, int64_t x) {
    int64_t places = room(p, SCRATCH_ELEMENTS) / p->width;
    return p->partial ? (places - (p->flat ? p->tile_rows : 0)) / x : points_of(p, 0);
}

/* Places of a block that partial sums are kept for. */
static int64_t scratch_places(const product *p) {
    int64_t places = p->block[0] * p->block[1];
    return p->flat ? divide_up(places, p->tile_rows) * p->tile_rows : places;
}

/* Half as many places, of whole tiles. */
static int64_t halve(const product *p, int64_t x) {
    return divide_up(x / 2, p->tile_rows) * p->tile_rows;
}

/* Places of a block along W, then along H, so that patch and partial sums fit. */
static bool plan_patch(product *p) {
    int64_t limit = room(p, PATCH_ELEMENTS), x = points_of(p, 1), y = points_of(p, 0);
    if (!p->flat) x = divide_up(x, p->tile_rows) * p->tile_rows;
    while (x > p->tile_rows &&
           (reach(p, 1, x) * reach(p, 0, 1) * p->channel_block > limit || scratch_rows(p, x) < 1))
        x = halve(p, x);
    int64_t row = reach(p, 1, x) * p->channel_block;
    if (reach(p, 0, 1) * row > limit) return false;
    int64_t rows = (limit / row - reach(p, 0, 1)) / p->walks[0].stride + 1;
    p->block[1] = x;
    p->block[0] = tsr_gemm_part(y, least(rows, scratch_rows(p, x)), 1);
    for (int i = 0; i < 2; i++) p->patch[i] = reach(p, i, p->block[i]);
    return true;
}

static void plan_source(product *p) {
    const tsr_conv_walk *y = &p->walks[0], *x = &p->walks[1];
    int64_t c = p->channel_block, pixels;
    bool as_is = p->conv.dtype == p->conv.compute; /* small floats are widened once, not per tile */
    if (as_is && covers(y) && covers(x) && (p->flat || x->places % p->tile_rows == 0)) {
        p->source = DIRECT;
        p->block[1] = x->places;
        while (scratch_rows(p, p->block[1]) < 1) p->block[1] = halve(p, p->block[1]);
        p->block[0] = tsr_gemm_part(y->places, scratch_rows(p, p->block[1]), 1);
        c = p->a_total;
        pixels = x->a_places;
    } else if (plan_patch(p)) {
        p->source = PATCH;
        pixels = p->patch[1];
    } else {
        p->source = TAPS;
        p->block[0] = 1;
        p->block[1] = p->tile_rows;
        p->patch[0] = most(y->taps, 1);
        p->patch[1] = most(x->taps, 1) * p->tile_rows;
        p->place_step[0] = 0;
        p->place_step[1] = c;
        p->tap_step[0] = p->patch[1] * c;
        p->tap_step[1] = p->tile_rows * c;
        return;
    }
    p->place_step[0] = y->stride * pixels * c;
    p->place_step[1] = x->stride * c;
    p->tap_step[0] = y->step * pixels * c;
    p->tap_step[1] = x->step * c;
}

/* Stores of whole tiles need no mask. In the last block of a row there must be room for one. */
static bool can_slide(const product *p) {
    if (p->flat) return true;
    int64_t points = points_of(p, 1), last = points % p->block[1];
    return p->walks[1].phases == 1 && points >= p->tile_rows && (last == 0 || last >= p->tile_rows);
}

static void plan_tile(product *p) {
    const tsr_target *target = p->conv.group->b.target;
    int64_t size = (int64_t)tsr_dtype_size(p->conv.compute), strip = p->conv.strip;
    bool direct = covers(&p->walks[0]) && covers(&p->walks[1]);
    tsr_gemm_shape shape = {.element_bytes = size,
                            .m = points_of(p, 1) * (p->flat ? points_of(p, 0) : 1),
                            .n = p->columns,
                            /* Wider tiles of fewer rows would ask the second level for more than
                             * it gives. */
                            .width = strip ? STRIP_VECTORS * target->vector_bytes / size : 0,
                            .strip = strip,
                            .row_bytes = direct ? p->walks[1].stride * p->a_total * size : 0};
    tsr_gemm_plan_tile(target, &shape, &p->lanes, &p->vectors, &p->tile_rows);
    /* Behind the last strip there is none to read. */
    if (strip && divide_up(p->columns, strip) * strip % ((int64_t)p->lanes * p->vectors)) {
        shape.width = strip;
        tsr_gemm_plan_tile(target, &shape, &p->lanes, &p->vectors, &p->tile_rows);
    }
    p->width = (int64_t)p->lanes * p->vectors;
    p->panels = divide_up(p->columns, p->width);
}

/* Of a panel on the stack as many as there is room for; all of strips. */
static tsr_result plan_taps(product *p) {
    int64_t row = most(p->walks[1].taps, 1) * p->channel_block, taps = most(p->walks[0].taps, 1);
    p->tap_rows = taps;
    if (p->conv.strip) return TSR_SUCCESS;
    p->tap_rows = (room(p, PANEL_ELEMENTS) / p->width - (int64_t)p->lanes) / row;
    if (p->tap_rows < 1)
        FAIL(p->conv.group->ctx, TSR_COMPILE,
             "'%s': a filter of %" PRId64 " taps in a row is too wide", p->conv.group->name,
             p->walks[1].taps);
    p->tap_rows = tsr_gemm_part(taps, p->tap_rows, 1);
    return TSR_SUCCESS;
}

static tsr_result plan_blocks(product *p) {
    plan_tile(p);
    plan_channels(p);
    TRY(p->conv.group->ctx, plan_taps(p));
    int64_t tap_blocks = divide_up(most(p->walks[0].taps, 1), p->tap_rows);
    p->partial = p->channel_blocks > 1 || tap_blocks > 1;
    plan_source(p);
    return TSR_SUCCESS;
}

/* Much of the tiles of a row would be computed twice. */
static bool wants_flat(const product *p) {
    int64_t x = points_of(p, 1), tiles = divide_up(x, p->tile_rows);
    return p->walks[0].phases == 1 && p->walks[1].phases == 1 && points_of(p, 0) > 1 &&
           !p->conv.group->b.target->warp_lanes && (tiles * p->tile_rows - x) * FLAT_WASTE > x;
}

/* Whole rows in each block, also in the last, and a tile in them. */
static bool can_be_flat(const product *p) {
    int64_t x = points_of(p, 1), last = points_of(p, 0) % p->block[0];
    return p->source != TAPS && p->block[1] == x && p->tile_rows <= FLAT_ROWS_MAX &&
           (last ? last : p->block[0]) * x >= p->tile_rows;
}

static tsr_result plan(product *p) {
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
    bool even = p->a_channels % p->channel_block == 0;
    p->whole_runs =
        even && p->tap_step[1] == p->channel_block && (!p->conv.strip || p->channel_blocks == 1);
    int64_t taps = most(p->walks[0].taps * p->walks[1].taps, 1);
    double flops = 2.0 * (double)(points_of(p, 1) * taps) * (double)(p->a_channels * p->width);
    int64_t rows = (int64_t)(PROGRAM_FLOPS / flops) + 1, y = points_of(p, 0);
    int64_t others =
        p->conv.images * p->conv.groups * p->panels * p->walks[0].phases * p->walks[1].phases;
    rows = most(rows, divide_up(y * others, PROGRAMS));
    p->program_rows = rows >= y ? y : divide_up(rows, p->block[0]) * p->block[0];
    group->tile[0] = p->tile_rows;
    group->tile[1] = p->width;
    group->tile[2] = p->block[0];
    group->tile[3] = p->block[1];
    group->tile[4] = p->channel_block;
    group->tile_count = 5;
    return TSR_SUCCESS;
}

/* ---- the patch ------------------------------------------------------------------------------- */

static MlirValue inside(product *p, MlirValue place, int64_t limit) {
    tsr_tile_builder *b = &p->conv.group->b;
    /* Unsigned: a negative place is a large one. */
    return tsr_tile_icompare(b, TSR_ICMP_ULT, place, tsr_tile_index(b, limit));
}

/* `count` channels of the place, zeros where it is outside, to patch_local[to ...]. */
static void copy_pixel(product *p, MlirValue y, MlirValue x, MlirValue channel, MlirValue to) {
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
static void copy_run(product *p, MlirValue y, MlirValue to) {
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

static void fill_patch(product *p, MlirValue channel) {
    tsr_tile_builder *b = &p->conv.group->b;
    tsr_tile_loop rows, columns, places;
    MlirValue zero = tsr_tile_index(b, 0), start[2];
    for (int i = 0; i < 2; i++)
        start[i] = tsr_tile_add(b, p->first[i], tsr_tile_mul(b, p->begin[i], p->walks[i].stride));
    tsr_tile_loop_begin(b, &rows, zero, tsr_tile_index(b, p->patch[0]), 1, 0, NULL);
    bool by_tap = p->source == TAPS;
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

/* ---- a block of K ---------------------------------------------------------------------------- */

typedef struct k_block {
    MlirValue channel, channels; /* first, and how many */
    MlirValue tap, taps;         /* first row of taps, and how many */
} k_block;

/* Rows of the filter for one tap, or a row of taps. */
static void pack_run(product *p, MlirValue tap_y, MlirValue tap_x, const k_block *k,
                     MlirValue count, MlirValue to) {
    tsr_tile_builder *b = &p->conv.group->b;
    const tsr_conv *conv = &p->conv;
    bool forward = p->kind == TSR_CONV_FORWARD;
    MlirValue tap = tsr_tile_add(b, tsr_tile_mul(b, tap_y, conv->axes[1].taps), tap_x);
    MlirValue row = tsr_tile_mul(b, tap, conv->group_channels);
    MlirValue from =
        tsr_tile_mul(b, tsr_tile_add(b, row, forward ? k->channel : p->column), conv->filters);
    from = tsr_tile_add(b, from, tsr_tile_mul(b, p->group, conv->group_filters));
    from = tsr_tile_add(b, from, forward ? p->column : k->channel);
    tsr_gemm_pack pack = {.from_dtype = conv->dtype,
                          .to_dtype = conv->compute,
                          .lanes = p->lanes,
                          .vectors = p->vectors,
                          .from = forward ? conv->b : conv->a,
                          .to = p->panel,
                          .from_at = from,
                          .to_at = tsr_tile_mul(b, to, p->width),
                          .from_step = conv->filters,
                          .to_step = p->width,
                          .count = count};
    if (p->columns % p->width)
        pack.columns = tsr_tile_sub(b, tsr_tile_index(b, p->columns), p->column);
    (forward ? tsr_gemm_pack_rows : tsr_gemm_pack_columns)(b, &pack);
}

static MlirValue multiply_values(tsr_tile_builder *b, MlirValue x, MlirValue y) {
    int64_t known = 0;
    if (tsr_tile_index_known(y, &known)) return tsr_tile_mul(b, x, known);
    if (tsr_tile_index_known(x, &known)) return tsr_tile_mul(b, y, known);
    return tsr_tile_2(b, "arith.muli", x, y);
}

static MlirValue tap_of(product *p, int axis, MlirValue index) {
    tsr_tile_builder *b = &p->conv.group->b;
    return tsr_tile_add(b, p->tap_first[axis], tsr_tile_mul(b, index, p->walks[axis].tap_step));
}

static void pack_panel(product *p, const k_block *k) {
    if (p->conv.strip) return;
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    MlirValue row_size = multiply_values(b, p->taps[1], k->channels);
    tsr_tile_loop rows, columns;
    tsr_tile_loop_begin(b, &rows, zero, k->taps, 1, 0, NULL);
    MlirValue tap_y = tap_of(p, 0, tsr_tile_add(b, k->tap, rows.index));
    MlirValue to = multiply_values(b, rows.index, row_size);
    /* Forward, the taps of a row follow one another in the filter too. */
    if (p->kind == TSR_CONV_FORWARD && p->channel_blocks == 1) {
        pack_run(p, tap_y, zero, k, row_size, to);
    } else {
        tsr_tile_loop_begin(b, &columns, zero, p->taps[1], 1, 0, NULL);
        pack_run(p, tap_y, tap_of(p, 1, columns.index), k, k->channels,
                 tsr_tile_add(b, to, multiply_values(b, columns.index, k->channels)));
        tsr_tile_loop_end(b, &columns, NULL);
    }
    tsr_tile_loop_end(b, &rows, NULL);
}

/* Of place (y, x), counted from the block's first, the offset of A at the first tap. */
static MlirValue a_place(product *p, const k_block *k, MlirValue y, MlirValue x) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue at = tsr_tile_index(b, 0);
    if (p->source == DIRECT) {
        MlirValue place[2];
        for (int i = 0; i < 2; i++)
            place[i] =
                tsr_tile_add(b, p->first[i], tsr_tile_mul(b, p->begin[i], p->walks[i].stride));
        MlirValue row = tsr_tile_add(b, tsr_tile_mul(b, p->image, p->walks[0].a_places), place[0]);
        at = tsr_tile_add(b, tsr_tile_mul(b, row, p->walks[1].a_places), place[1]);
        at = tsr_tile_add(b, tsr_tile_mul(b, at, p->a_total),
                          tsr_tile_mul(b, p->group, p->a_channels));
        at = tsr_tile_add(b, at, k->channel);
    }
    at = tsr_tile_add(b, at, tsr_tile_mul(b, y, p->place_step[0]));
    return tsr_tile_add(b, at, tsr_tile_mul(b, x, p->place_step[1]));
}

/* The block's places: rows of it that are there, times their length. */
static MlirValue flat_end(product *p) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue rows =
        tsr_tile_min(b, tsr_tile_index(b, p->block[0]), tsr_tile_sub(b, p->points[0], p->begin[0]));
    return tsr_tile_mul(b, rows, p->block[1]);
}

/* Of the tile at place x of a flat block: a row beyond the last place is the last one again. */
static void find_rows(product *p, const k_block *k, MlirValue x, MlirValue *out_rows) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue last = tsr_tile_offset(b, flat_end(p), -1);
    for (int64_t i = 0; i < p->tile_rows; i++) {
        MlirValue place = tsr_tile_min(b, tsr_tile_offset(b, x, i), last);
        out_rows[i] =
            a_place(p, k, tsr_tile_div(b, place, p->block[1]), tsr_tile_rem(b, place, p->block[1]));
    }
}

/* Where A is read for the tap that lies `tap` further. */
static void move_rows(product *p, tsr_gemm_tile *tile, const MlirValue *rows, MlirValue at,
                      MlirValue tap, MlirValue *out_rows) {
    tsr_tile_builder *b = &p->conv.group->b;
    tile->a_at = p->flat ? at : tsr_tile_add(b, at, tap);
    for (int64_t i = 0; p->flat && i < p->tile_rows; i++)
        out_rows[i] = tsr_tile_add(b, rows[i], tap);
    tile->a_rows = p->flat ? out_rows : NULL;
}

/* A tile's products over the block of K; places (y, x) count from the block's first. */
static void multiply(product *p, const k_block *k, MlirValue y, MlirValue x,
                     MlirValue *accumulators) {
    tsr_tile_builder *b = &p->conv.group->b;
    uint32_t count = (uint32_t)p->tile_rows * p->vectors;
    bool direct = p->source == DIRECT, forward = p->kind == TSR_CONV_FORWARD;
    MlirValue zero = tsr_tile_index(b, 0), a_at = zero;
    MlirValue a_rows[TSR_GEMM_ROWS_MAX], moved[TSR_GEMM_ROWS_MAX];
    if (p->flat)
        find_rows(p, k, x, a_rows);
    else
        a_at = a_place(p, k, y, x);
    int64_t strip = p->conv.strip, step = strip ? strip : p->width, b_vectors[TSR_TILE_VECTORS_MAX];
    tsr_gemm_tile tile = {.a_dtype = direct ? p->conv.dtype : p->conv.compute,
                          .b_dtype = strip ? p->conv.dtype : p->conv.compute,
                          .lanes = p->lanes,
                          .vectors = p->vectors,
                          .rows = p->tile_rows,
                          .a = !direct   ? p->patch_local
                               : forward ? p->conv.a
                                         : p->conv.b,
                          .b = strip ? p->conv.b : p->panel,
                          .a_row = p->place_step[1],
                          .a_step = 1,
                          .b_step = step,
                          .b_vectors = strip ? b_vectors : NULL};
    if (strip) tsr_gemm_strip_vectors(strip, p->strip_rows, p->lanes, p->vectors, b_vectors);
    /* From one tap to the next in what B lies in. */
    MlirValue tap_size = strip ? tsr_tile_index(b, p->a_channels) : k->channels;
    MlirValue run = multiply_values(b, p->taps[1], k->channels);
    tsr_tile_loop rows, columns;
    tsr_tile_loop_begin(b, &rows, zero, k->taps, 1, count, accumulators);
    MlirValue next[TSR_GEMM_TILE_MAX];
    memcpy(next, rows.carried, count * sizeof *next);
    MlirValue a_tap = tsr_tile_mul(b, tsr_tile_add(b, k->tap, rows.index), p->tap_step[0]);
    MlirValue b_begin = zero;
    MlirValue b_row = multiply_values(b, rows.index, multiply_values(b, p->taps[1], tap_size));
    if (strip) {
        MlirValue tap = tsr_tile_mul(b, k->tap, p->walks[1].taps * p->a_channels);
        b_begin =
            tsr_gemm_strip_at(b, strip, p->strip_rows, p->column, tsr_tile_add(b, tap, k->channel));
    }
    if (p->whole_runs) {
        move_rows(p, &tile, a_rows, a_at, a_tap, moved);
        tile.b_at = tsr_tile_add(b, b_begin, tsr_tile_mul(b, b_row, step));
        tsr_gemm_multiply(b, &tile, run, next);
    } else {
        tsr_tile_loop_begin(b, &columns, zero, p->taps[1], 1, count, next);
        memcpy(next, columns.carried, count * sizeof *next);
        MlirValue a_column = tsr_tile_mul(b, columns.index, p->tap_step[1]);
        move_rows(p, &tile, a_rows, a_at, tsr_tile_add(b, a_tap, a_column), moved);
        MlirValue tap = tsr_tile_add(b, b_row, multiply_values(b, columns.index, tap_size));
        tile.b_at = tsr_tile_add(b, b_begin, tsr_tile_mul(b, tap, step));
        tsr_gemm_multiply(b, &tile, k->channels, next);
        tsr_tile_loop_end(b, &columns, next);
        memcpy(next, columns.carried, count * sizeof *next);
    }
    tsr_tile_loop_end(b, &rows, next);
    memcpy(accumulators, rows.carried, count * sizeof *accumulators);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static MlirValue scratch_at(product *p, MlirValue y, MlirValue x, int64_t row, uint32_t vector) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue place = tsr_tile_add(b, tsr_tile_mul(b, y, p->block[1]), tsr_tile_offset(b, x, row));
    return tsr_tile_offset(b, tsr_tile_mul(b, place, p->width), vector * p->lanes);
}

static void store_tile(product *p, MlirValue y, MlirValue x, const MlirValue *accumulators) {
    tsr_tile_builder *b = &p->conv.group->b;
    bool overhang = !p->slides && (p->walks[1].places % (p->walks[1].phases * p->tile_rows) != 0 ||
                                   points_of(p, 1) % p->block[1] != 0);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, p->columns), p->column);
    MlirValue row = tsr_tile_add(b, tsr_tile_add(b, p->begin[0], y), tsr_tile_index(b, 0));
    row = tsr_tile_add(b, tsr_tile_mul(b, row, p->walks[0].phases), p->phase[0]);
    row = tsr_tile_add(b, tsr_tile_mul(b, p->image, p->walks[0].places), row);
    for (int64_t i = 0; i < p->tile_rows; i++) {
        MlirValue point = tsr_tile_offset(b, tsr_tile_add(b, p->begin[1], x), i), count = left;
        if (overhang)
            count = tsr_tile_select(b, tsr_tile_icompare(b, TSR_ICMP_SLT, point, p->points[1]),
                                    left, tsr_tile_index(b, 0));
        MlirValue place = tsr_tile_add(b, tsr_tile_mul(b, point, p->walks[1].phases), p->phase[1]);
        MlirValue to = tsr_tile_add(b, tsr_tile_mul(b, row, p->walks[1].places), place);
        to = tsr_tile_add(b, tsr_tile_mul(b, to, p->total), tsr_tile_mul(b, p->group, p->columns));
        to = tsr_tile_add(b, to, p->column);
        for (uint32_t v = 0; v < p->vectors; v++) {
            MlirValue mask = tsr_tile_null;
            if (overhang || p->columns % p->width)
                mask =
                    tsr_tile_mask(b, tsr_tile_offset(b, count, -(int64_t)(v * p->lanes)), p->lanes);
            tsr_tile_store(b, p->conv.dtype, accumulators[i * p->vectors + v], p->conv.result,
                           tsr_tile_offset(b, to, v * p->lanes), mask);
        }
    }
}

typedef void (*tile_fn)(product *p, const k_block *k, MlirValue y, MlirValue x);

static void load_scratch(product *p, MlirValue y, MlirValue x, MlirValue *accumulators) {
    for (int64_t i = 0; i < p->tile_rows; i++)
        for (uint32_t v = 0; v < p->vectors; v++)
            accumulators[i * p->vectors + v] =
                tsr_tile_load(&p->conv.group->b, p->conv.compute, p->scratch,
                              scratch_at(p, y, x, i, v), p->lanes, tsr_tile_null);
}

/* The only block of K. */
static void whole_tile(product *p, const k_block *k, MlirValue y, MlirValue x) {
    MlirValue accumulators[TSR_GEMM_TILE_MAX];
    MlirValue zero = tsr_element_zero(&p->conv.group->b, p->conv.compute, p->lanes);
    for (int64_t i = 0; i < p->tile_rows * p->vectors; i++) accumulators[i] = zero;
    multiply(p, k, y, x, accumulators);
    store_tile(p, y, x, accumulators);
}

static void partial_tile(product *p, const k_block *k, MlirValue y, MlirValue x) {
    MlirValue accumulators[TSR_GEMM_TILE_MAX];
    load_scratch(p, y, x, accumulators);
    multiply(p, k, y, x, accumulators);
    for (int64_t i = 0; i < p->tile_rows; i++)
        for (uint32_t v = 0; v < p->vectors; v++)
            tsr_tile_store(&p->conv.group->b, p->conv.compute, accumulators[i * p->vectors + v],
                           p->scratch, scratch_at(p, y, x, i, v), tsr_tile_null);
}

static void clear_tile(product *p, const k_block *k, MlirValue y, MlirValue x) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue zero = tsr_element_zero(b, p->conv.compute, p->lanes);
    (void)k;
    for (int64_t i = 0; i < p->tile_rows; i++)
        for (uint32_t v = 0; v < p->vectors; v++)
            tsr_tile_store(b, p->conv.compute, zero, p->scratch, scratch_at(p, y, x, i, v),
                           tsr_tile_null);
}

static void final_tile(product *p, const k_block *k, MlirValue y, MlirValue x) {
    MlirValue accumulators[TSR_GEMM_TILE_MAX];
    (void)k;
    load_scratch(p, y, x, accumulators);
    store_tile(p, y, x, accumulators);
}

/* All tiles of the block. Tiles that store results, and add to nothing, may overlap. */
static void walk_tiles(product *p, const k_block *k, tile_fn visit) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue zero = tsr_tile_index(b, 0), end[2];
    for (int i = 0; i < 2; i++)
        end[i] = tsr_tile_min(b, tsr_tile_index(b, p->block[i]),
                              tsr_tile_sub(b, p->points[i], p->begin[i]));
    if (p->flat) {
        end[0] = tsr_tile_index(b, 1);
        end[1] = flat_end(p);
    }
    tsr_tile_loop rows, columns;
    tsr_tile_loop_begin(b, &rows, zero, end[0], 1, 0, NULL);
    tsr_tile_loop_begin(b, &columns, zero, end[1], p->tile_rows, 0, NULL);
    MlirValue x = columns.index;
    if (p->slides && (visit == whole_tile || visit == final_tile))
        x = tsr_tile_min(b, x, tsr_tile_offset(b, end[1], -p->tile_rows));
    visit(p, k, rows.index, x);
    tsr_tile_loop_end(b, &columns, NULL);
    tsr_tile_loop_end(b, &rows, NULL);
}

/* ---- a program ------------------------------------------------------------------------------- */

static void emit_partial_block(product *p) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    tsr_tile_loop channels, taps;
    k_block k = {.channels = tsr_tile_index(b, p->channel_block)};
    walk_tiles(p, &k, clear_tile);
    tsr_tile_loop_begin(b, &channels, zero, tsr_tile_index(b, p->channel_blocks), 1, 0, NULL);
    k.channel = tsr_tile_mul(b, channels.index, p->channel_block);
    if (p->a_channels % p->channel_block)
        k.channels = tsr_tile_min(b, k.channels,
                                  tsr_tile_sub(b, tsr_tile_index(b, p->a_channels), k.channel));
    if (p->source != DIRECT) fill_patch(p, k.channel);
    tsr_tile_loop_begin(b, &taps, zero, p->taps[0], p->tap_rows, 0, NULL);
    k.tap = taps.index;
    k.taps = tsr_tile_min(b, tsr_tile_index(b, p->tap_rows), tsr_tile_sub(b, p->taps[0], k.tap));
    pack_panel(p, &k);
    walk_tiles(p, &k, partial_tile);
    tsr_tile_loop_end(b, &taps, NULL);
    tsr_tile_loop_end(b, &channels, NULL);
    walk_tiles(p, &k, final_tile);
}

static void emit_blocks(product *p, MlirValue y_begin, MlirValue y_end) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    k_block k = {.channel = zero,
                 .channels = tsr_tile_index(b, p->a_channels),
                 .tap = zero,
                 .taps = p->taps[0]};
    tsr_tile_loop rows, columns;
    if (!p->partial) pack_panel(p, &k);
    tsr_tile_loop_begin(b, &rows, y_begin, y_end, p->block[0], 0, NULL);
    tsr_tile_loop_begin(b, &columns, zero, p->points[1], p->block[1], 0, NULL);
    p->begin[0] = rows.index;
    p->begin[1] = columns.index;
    if (p->partial) {
        emit_partial_block(p);
    } else {
        if (p->source != DIRECT) fill_patch(p, zero);
        walk_tiles(p, &k, whole_tile);
    }
    tsr_tile_loop_end(b, &columns, NULL);
    tsr_tile_loop_end(b, &rows, NULL);
}

static MlirValue take(product *p, MlirValue *rest, int64_t count) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue part = count == 1 ? tsr_tile_index(b, 0) : tsr_tile_rem(b, *rest, count);
    *rest = tsr_tile_div(b, *rest, count);
    return part;
}

static void enter_phase(product *p, int axis, MlirValue phase) {
    tsr_tile_builder *b = &p->conv.group->b;
    const tsr_conv_walk *walk = &p->walks[axis];
    p->phase[axis] = phase;
    p->first[axis] = tsr_conv_lookup(&p->conv, walk->first, walk->phases, phase);
    p->taps[axis] = tsr_conv_lookup(&p->conv, walk->tap_count, walk->phases, phase);
    p->tap_first[axis] = tsr_conv_lookup(&p->conv, walk->tap_first, walk->phases, phase);
    p->points[axis] = tsr_tile_index(b, points_of(p, axis));
    if (walk->places % walk->phases)
        p->points[axis] = tsr_tile_div(
            b, tsr_tile_sub(b, tsr_tile_index(b, walk->places + walk->phases - 1), phase),
            walk->phases);
}

static void emit(product *p) {
    tsr_tile_builder *b = &p->conv.group->b;
    const tsr_conv *conv = &p->conv;
    int64_t panel_rows = p->tap_rows * most(p->walks[1].taps, 1) * p->channel_block + p->lanes;
    if (!conv->strip) p->panel = tsr_tile_local(b, conv->storage, panel_rows * p->width);
    if (p->source != DIRECT)
        p->patch_local =
            tsr_tile_local(b, conv->storage, p->patch[0] * p->patch[1] * p->channel_block);
    if (p->partial) p->scratch = tsr_tile_local(b, conv->storage, scratch_places(p) * p->width);
    int64_t parts = divide_up(points_of(p, 0), p->program_rows);
    conv->group->grid =
        conv->images * conv->groups * p->panels * p->walks[0].phases * p->walks[1].phases * parts;
    MlirValue rest = conv->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    MlirValue part = take(p, &rest, parts);
    MlirValue x_phase = take(p, &rest, p->walks[1].phases);
    MlirValue y_phase = take(p, &rest, p->walks[0].phases);
    p->column = tsr_tile_mul(b, take(p, &rest, p->panels), p->width);
    p->group = take(p, &rest, conv->groups);
    p->image = take(p, &rest, conv->images);
    enter_phase(p, 0, y_phase);
    enter_phase(p, 1, x_phase);
    MlirValue begin = tsr_tile_mul(b, part, p->program_rows);
    emit_blocks(p, begin,
                tsr_tile_min(b, tsr_tile_offset(b, begin, p->program_rows), p->points[0]));
}

static tsr_result lower(tsr_tile_group *group, tsr_conv_kind kind) {
    product p = {.kind = kind};
    bool forward = kind == TSR_CONV_FORWARD;
    TRY(group->ctx, tsr_conv_read(group, kind, &p.conv));
    if (tsr_conv_is_empty(&p.conv)) return TSR_SUCCESS;
    if (tsr_conv_is_depthwise(&p.conv)) return tsr_conv_depthwise(&p.conv, kind);
    if (tsr_conv_is_pointwise(&p.conv)) tsr_conv_flatten(&p.conv);
    for (int i = 0; i < 2; i++)
        TRY(group->ctx, tsr_conv_walk_make(&p.conv, &p.conv.axes[i], kind, &p.walks[i]));
    p.a_channels = forward ? p.conv.group_channels : p.conv.group_filters;
    p.a_total = forward ? p.conv.channels : p.conv.filters;
    p.columns = forward ? p.conv.group_filters : p.conv.group_channels;
    p.total = forward ? p.conv.filters : p.conv.channels;
    TRY(group->ctx, plan(&p));
    emit(&p);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_lower_conv2d(tsr_tile_group *group) { return lower(group, TSR_CONV_FORWARD); }

tsr_result tsr_tile_lower_conv2d_grad_input(tsr_tile_group *group) {
    return lower(group, TSR_CONV_OF_INPUT);
}
