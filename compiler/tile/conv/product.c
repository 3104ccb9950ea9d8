/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel families `conv2d` and `conv2d_grad_input`: a matrix product whose rows of A are gathered
 * from an image.
 *
 *     for each block of result rows of the program
 *         for each block of channels
 *             copy the elements that the block's taps reach to the stack, with zeros around them:
 *             the patch
 *             for each block of taps
 *                 for each panel of the program
 *                     copy the filter's panel to the stack, if it is not stored in strips already
 *                     for each tile of positions in a row
 *                         accumulators = 0, or the sums of the last block
 *                         for each tap, channel: fma, A read from the patch (multiply.c)
 *                         store, or keep them for the next block
 *
 * Nothing is expanded: the patch contains each image element once, and the rows of a tile are
 * evenly spaced in it. If the taps are too far apart for a patch, it contains one copy for each tap
 * of one tile instead. If no zeros are needed, A is read from the image itself, and nothing is
 * copied. The gradient of an image with a stride has a phase for each remainder: the positions that
 * the same taps reach.
 *
 * If rows of the result are not whole tiles, and their positions have the same taps, a block is
 * flat: its positions are numbered across rows, and a tile has the address of each of its rows of
 * A.
 *
 * Each element is one chain: blocks of channels, then taps, then channels, ascending (taps of the
 * gradient descending). A tap outside the image adds nothing, except along W if a tap has too few
 * channels for a loop of its own; in that case the tap adds zero times a weight. This rule, and the
 * size of a block of channels, follow from the shapes alone, so that every target and blocking
 * gives the same bits.
 *
 * If an element has more than 2,048 steps, each block of channels and taps is a chain of its own,
 * of at most 256 steps or one row of taps. The sums of blocks are added in groups of 32, and so are
 * the sums of groups, like the chunks of a long product (tile.h).
 */
#include "compiler/tile/conv/product.h"

#include "compiler/tile/open.h"
#include "compiler/tile/reductions/tree.h"

#include <string.h>

static int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }

/* ---- the filter ------------------------------------------------------------------------------ */

/* Packs rows of the filter for one tap, or for a row of taps. */
static void pack_run(tsr_conv_product *p, MlirValue tap_y, MlirValue tap_x, const tsr_conv_k *k,
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
                          .vectors = p->panel_vectors,
                          .from = forward ? conv->b : conv->a,
                          .to = p->panel,
                          .from_at = from,
                          .to_at = tsr_tile_mul(b, to, p->width),
                          .from_step = conv->filters,
                          .to_step = p->width,
                          .count = count};
    if (p->panel_edge) pack.columns = tsr_tile_index(b, p->panel_edge);
    (forward ? tsr_gemm_pack_rows : tsr_gemm_pack_columns)(b, &pack);
}

static MlirValue tap_of(tsr_conv_product *p, int axis, MlirValue index) {
    tsr_tile_builder *b = &p->conv.group->b;
    return tsr_tile_add(b, p->tap_first[axis], tsr_tile_mul(b, index, p->walks[axis].tap_step));
}

static void pack_panel(tsr_conv_product *p, const tsr_conv_k *k) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    MlirValue row_size = tsr_conv_times(b, p->taps[1], k->channels);
    TSR_TILE_FOR(b, rows, zero, k->taps, 1) {
        MlirValue tap_y = tap_of(p, 0, tsr_tile_add(b, k->tap, rows.index));
        MlirValue to = tsr_conv_times(b, rows.index, row_size);
        /* The forward product's taps of a row are contiguous in the filter, too. */
        if (p->kind == TSR_CONV_FORWARD && p->channel_blocks == 1) {
            pack_run(p, tap_y, zero, k, row_size, to);
        } else {
            TSR_TILE_FOR(b, columns, zero, p->taps[1], 1) {
                pack_run(p, tap_y, tap_of(p, 1, columns.index), k, k->channels,
                         tsr_tile_add(b, to, tsr_conv_times(b, columns.index, k->channels)));
            }
        }
    }
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static MlirValue scratch_at(tsr_conv_product *p, MlirValue y, MlirValue x, int64_t row,
                            uint32_t vector) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue position =
        tsr_tile_add(b, tsr_tile_mul(b, y, p->block[1]), tsr_tile_offset(b, x, row));
    position =
        tsr_tile_add(b, position, tsr_tile_mul(b, p->panel_index, tsr_conv_scratch_positions(p)));
    return tsr_tile_offset(b, tsr_tile_mul(b, position, p->width), vector * p->lanes);
}

static void store_tile(tsr_conv_product *p, MlirValue y, MlirValue x,
                       const MlirValue *accumulators) {
    tsr_tile_builder *b = &p->conv.group->b;
    bool overhang =
        !p->slides && (p->walks[1].positions % (p->walks[1].phases * p->tile_rows) != 0 ||
                       tsr_conv_points(p, 1) % p->block[1] != 0);
    MlirValue columns = tsr_tile_index(b, p->panel_edge ? p->panel_edge : p->width);
    MlirValue row = tsr_tile_add(b, tsr_tile_add(b, p->begin[0], y), tsr_tile_index(b, 0));
    row = tsr_tile_add(b, tsr_tile_mul(b, row, p->walks[0].phases), p->phase[0]);
    row = tsr_tile_add(b, tsr_tile_mul(b, p->image, p->walks[0].positions), row);
    for (int64_t i = 0; i < p->tile_rows; i++) {
        MlirValue point = tsr_tile_offset(b, tsr_tile_add(b, p->begin[1], x), i), count = columns;
        if (overhang)
            count = tsr_tile_select(b, tsr_tile_icompare(b, TSR_ICMP_SLT, point, p->points[1]),
                                    columns, tsr_tile_index(b, 0));
        MlirValue position =
            tsr_tile_add(b, tsr_tile_mul(b, point, p->walks[1].phases), p->phase[1]);
        MlirValue to = tsr_tile_add(b, tsr_tile_mul(b, row, p->walks[1].positions), position);
        to = tsr_tile_add(b, tsr_tile_mul(b, to, p->total), tsr_tile_mul(b, p->group, p->columns));
        to = tsr_tile_add(b, to, p->column);
        for (uint32_t v = 0; v < p->panel_vectors; v++) {
            MlirValue mask = tsr_tile_null;
            if (overhang || (p->panel_edge && (v + 1) * (int64_t)p->lanes > p->panel_edge))
                mask =
                    tsr_tile_mask(b, tsr_tile_offset(b, count, -(int64_t)(v * p->lanes)), p->lanes);
            tsr_tile_store(b, p->conv.dtype, accumulators[i * p->panel_vectors + v], p->conv.result,
                           tsr_tile_offset(b, to, v * p->lanes), mask);
        }
    }
}

typedef void (*tile_fn)(tsr_conv_product *p, const tsr_conv_k *k, MlirValue y, MlirValue x);

static void load_scratch(tsr_conv_product *p, MlirValue y, MlirValue x, MlirValue *accumulators) {
    for (int64_t i = 0; i < p->tile_rows; i++)
        for (uint32_t v = 0; v < p->panel_vectors; v++)
            accumulators[i * p->panel_vectors + v] =
                tsr_tile_load(&p->conv.group->b, p->conv.compute, p->scratch,
                              scratch_at(p, y, x, i, v), p->lanes, tsr_tile_null);
}

/* Computes a tile with only one block of K. */
static void whole_tile(tsr_conv_product *p, const tsr_conv_k *k, MlirValue y, MlirValue x) {
    MlirValue accumulators[TSR_GEMM_TILE_MAX];
    MlirValue zero = tsr_element_zero(&p->conv.group->b, p->conv.compute, p->lanes);
    for (int64_t i = 0; i < p->tile_rows * p->panel_vectors; i++) accumulators[i] = zero;
    tsr_conv_multiply(p, k, y, x, accumulators);
    store_tile(p, y, x, accumulators);
}

static tsr_product_sums chunk_sums(const tsr_conv_product *p) {
    return (tsr_product_sums){.dtype = p->conv.compute,
                              .buffer = p->scratch,
                              .slot = tsr_conv_scratch_positions(p) * p->width * p->program_panels,
                              .slots = (uint32_t)tsr_conv_slots(p)};
}

static tsr_product_offsets chunk_offsets(tsr_conv_product *p, MlirValue y, MlirValue x,
                                         int64_t offsets[TSR_GEMM_TILE_MAX]) {
    uint32_t count = 0;
    for (int64_t i = 0; i < p->tile_rows; i++)
        for (uint32_t v = 0; v < p->panel_vectors; v++)
            offsets[count++] = i * p->width + v * (int64_t)p->lanes;
    return (tsr_product_offsets){
        .at = scratch_at(p, y, x, 0, 0), .offsets = offsets, .count = count, .lanes = p->lanes};
}

static void chunk_tile(tsr_conv_product *p, const tsr_conv_k *k, MlirValue y, MlirValue x) {
    MlirValue accumulators[TSR_GEMM_TILE_MAX];
    int64_t offsets[TSR_GEMM_TILE_MAX];
    tsr_product_sums sums = chunk_sums(p);
    tsr_product_offsets where = chunk_offsets(p, y, x, offsets);
    MlirValue zero = tsr_element_zero(&p->conv.group->b, p->conv.compute, p->lanes);
    for (uint32_t i = 0; i < where.count; i++) accumulators[i] = zero;
    tsr_conv_multiply(p, k, y, x, accumulators);
    tsr_product_push(&p->conv.group->b, &sums, &where, p->carries, accumulators);
}

static void partial_tile(tsr_conv_product *p, const tsr_conv_k *k, MlirValue y, MlirValue x) {
    MlirValue accumulators[TSR_GEMM_TILE_MAX];
    load_scratch(p, y, x, accumulators);
    tsr_conv_multiply(p, k, y, x, accumulators);
    for (int64_t i = 0; i < p->tile_rows; i++)
        for (uint32_t v = 0; v < p->panel_vectors; v++)
            tsr_tile_store(&p->conv.group->b, p->conv.compute,
                           accumulators[i * p->panel_vectors + v], p->scratch,
                           scratch_at(p, y, x, i, v), tsr_tile_null);
}

static void clear_tile(tsr_conv_product *p, const tsr_conv_k *k, MlirValue y, MlirValue x) {
    int64_t offsets[TSR_GEMM_TILE_MAX];
    tsr_product_sums sums = chunk_sums(p);
    tsr_product_offsets where = chunk_offsets(p, y, x, offsets);
    (void)k;
    tsr_product_clear(&p->conv.group->b, &sums, &where);
}

static void add_chunks(tsr_conv_product *p, MlirValue y, MlirValue x, MlirValue *accumulators) {
    int64_t offsets[TSR_GEMM_TILE_MAX];
    tsr_product_sums sums = chunk_sums(p);
    tsr_product_offsets where = chunk_offsets(p, y, x, offsets);
    MlirValue zero = tsr_element_zero(&p->conv.group->b, p->conv.compute, p->lanes);
    for (uint32_t i = 0; i < where.count; i++) accumulators[i] = zero;
    tsr_product_finish(&p->conv.group->b, &sums, &where, accumulators);
}

static void final_tile(tsr_conv_product *p, const tsr_conv_k *k, MlirValue y, MlirValue x) {
    MlirValue accumulators[TSR_GEMM_TILE_MAX];
    (void)k;
    if (p->chunks)
        add_chunks(p, y, x, accumulators);
    else
        load_scratch(p, y, x, accumulators);
    store_tile(p, y, x, accumulators);
}

/* Visits all tiles of the panel and block. Tiles that store results, and do not add to anything,
 * may overlap. */
static void walk_tiles(tsr_conv_product *p, const tsr_conv_k *k, tile_fn visit) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue zero = tsr_tile_index(b, 0), end[2];
    for (int i = 0; i < 2; i++)
        end[i] = tsr_tile_min(b, tsr_tile_index(b, p->block[i]),
                              tsr_tile_sub(b, p->points[i], p->begin[i]));
    if (p->flat) {
        end[0] = tsr_tile_index(b, 1);
        end[1] = tsr_conv_flat_end(p);
    }
    TSR_TILE_FOR(b, rows, zero, end[0], 1) {
        TSR_TILE_FOR(b, columns, zero, end[1], p->tile_rows) {
            MlirValue x = columns.index;
            if (p->slides && (visit == whole_tile || visit == final_tile))
                x = tsr_tile_min(b, x, tsr_tile_offset(b, end[1], -p->tile_rows));
            visit(p, k, rows.index, x);
        }
    }
}

/* Walks the panels of the program: whole ones, then the rest of the matrix. If `visit` is null, it
 * packs the filter's panels. */
static void walk_panels(tsr_conv_product *p, const tsr_conv_k *k, tile_fn visit) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue end = tsr_tile_offset(b, p->first_panel, p->program_panels);
    int64_t whole = p->panels - (p->edge != 0);
    for (int part = 0; part < 2; part++) {
        MlirValue limit = tsr_tile_min(b, end, tsr_tile_index(b, part ? p->panels : whole));
        MlirValue begin = p->first_panel;
        if (part) begin = tsr_tile_2(b, "arith.maxsi", begin, tsr_tile_index(b, whole));
        if (part ? !p->edge : !whole) continue;
        TSR_TILE_FOR(b, panels, begin, limit, 1) {
            p->panel_index = tsr_tile_sub(b, panels.index, p->first_panel);
            p->column = tsr_tile_mul(b, part ? tsr_tile_index(b, whole) : panels.index, p->width);
            p->panel_edge = part ? p->edge : 0;
            p->panel_vectors = part ? (uint32_t)tsr_divide_up(p->edge, p->lanes) : p->vectors;
            if (visit)
                walk_tiles(p, k, visit);
            else
                pack_panel(p, k);
        }
    }
}

/* ---- a program ------------------------------------------------------------------------------- */

static void emit_partial_block(tsr_conv_product *p) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    tsr_conv_k k = {.channels = tsr_tile_index(b, p->channel_block)};
    walk_panels(p, &k, clear_tile);
    TSR_TILE_FOR(b, channels, zero, tsr_tile_index(b, p->channel_blocks), 1) {
        k.channel = tsr_tile_mul(b, channels.index, p->channel_block);
        if (p->a_channels % p->channel_block)
            k.channels = tsr_tile_min(b, k.channels,
                                      tsr_tile_sub(b, tsr_tile_index(b, p->a_channels), k.channel));
        if (p->source != TSR_CONV_DIRECT) tsr_conv_fill_patch(p, k.channel);
        TSR_TILE_FOR(b, taps, zero, p->taps[0], p->tap_rows) {
            k.tap = taps.index;
            k.taps =
                tsr_tile_min(b, tsr_tile_index(b, p->tap_rows), tsr_tile_sub(b, p->taps[0], k.tap));
            if (p->chunks) {
                int64_t blocks = p->chunks / p->channel_blocks;
                MlirValue chunk = tsr_tile_add(b, tsr_tile_mul(b, channels.index, blocks),
                                               tsr_tile_div(b, taps.index, p->tap_rows));
                p->carries = tsr_product_carries(b, chunk, p->chunks);
            }
            if (!p->conv.strip) walk_panels(p, &k, NULL);
            walk_panels(p, &k, p->chunks ? chunk_tile : partial_tile);
        }
    }
    walk_panels(p, &k, final_tile);
}

static void emit_blocks(tsr_conv_product *p, MlirValue y_begin, MlirValue y_end) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    tsr_conv_k k = {.channel = zero,
                    .channels = tsr_tile_index(b, p->a_channels),
                    .tap = zero,
                    .taps = p->taps[0]};
    if (!p->partial && !p->conv.strip) walk_panels(p, &k, NULL);
    TSR_TILE_FOR(b, rows, y_begin, y_end, p->block[0]) {
        TSR_TILE_FOR(b, columns, zero, p->points[1], p->block[1]) {
            p->begin[0] = rows.index;
            p->begin[1] = columns.index;
            if (p->partial) {
                emit_partial_block(p);
            } else {
                if (p->source != TSR_CONV_DIRECT) tsr_conv_fill_patch(p, zero);
                walk_panels(p, &k, whole_tile);
            }
        }
    }
}

static MlirValue split_index(tsr_conv_product *p, MlirValue *rest, int64_t count) {
    tsr_tile_builder *b = &p->conv.group->b;
    MlirValue part = count == 1 ? tsr_tile_index(b, 0) : tsr_tile_rem(b, *rest, count);
    *rest = tsr_tile_div(b, *rest, count);
    return part;
}

static void enter_phase(tsr_conv_product *p, int axis, MlirValue phase) {
    tsr_tile_builder *b = &p->conv.group->b;
    const tsr_conv_walk *walk = &p->walks[axis];
    p->phase[axis] = phase;
    p->first[axis] = tsr_conv_lookup(&p->conv, walk->first, walk->phases, phase);
    p->taps[axis] = tsr_conv_lookup(&p->conv, walk->tap_count, walk->phases, phase);
    p->tap_first[axis] = tsr_conv_lookup(&p->conv, walk->tap_first, walk->phases, phase);
    p->points[axis] = tsr_tile_index(b, tsr_conv_points(p, axis));
    if (walk->positions % walk->phases)
        p->points[axis] = tsr_tile_div(
            b, tsr_tile_sub(b, tsr_tile_index(b, walk->positions + walk->phases - 1), phase),
            walk->phases);
}

static void emit(tsr_conv_product *p) {
    tsr_tile_builder *b = &p->conv.group->b;
    const tsr_conv *conv = &p->conv;
    int64_t panel_rows = p->tap_rows * most(p->walks[1].taps, 1) * p->channel_block + p->lanes;
    if (!conv->strip) p->panel = tsr_tile_local(b, conv->storage, panel_rows * p->width);
    if (p->source != TSR_CONV_DIRECT)
        p->patch_local = tsr_tile_local(b, conv->storage, tsr_conv_patch_size(p));
    if (p->partial)
        p->scratch = tsr_tile_local(b, conv->storage, chunk_sums(p).slot * tsr_conv_slots(p));
    int64_t panel_parts = tsr_divide_up(p->panels, p->program_panels),
            parts = tsr_divide_up(tsr_conv_points(p, 0), p->program_rows);
    int64_t of_image = conv->groups * panel_parts * p->walks[0].phases * p->walks[1].phases * parts;
    conv->group->grid = conv->images * of_image;
    tsr_tile_open_grid(conv->group, conv->images, 1, of_image);
    MlirValue rest = conv->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    MlirValue part = split_index(p, &rest, parts);
    MlirValue x_phase = split_index(p, &rest, p->walks[1].phases);
    MlirValue y_phase = split_index(p, &rest, p->walks[0].phases);
    p->first_panel = tsr_tile_mul(b, split_index(p, &rest, panel_parts), p->program_panels);
    p->group = split_index(p, &rest, conv->groups);
    p->image = split_index(p, &rest, conv->images);
    enter_phase(p, 0, y_phase);
    enter_phase(p, 1, x_phase);
    MlirValue begin = tsr_tile_mul(b, part, p->program_rows);
    emit_blocks(p, begin,
                tsr_tile_min(b, tsr_tile_offset(b, begin, p->program_rows), p->points[0]));
}

static tsr_result lower(tsr_tile_group *group, tsr_conv_kind kind) {
    tsr_conv_product p = {.kind = kind};
    bool forward = kind == TSR_CONV_FORWARD;
    TRY(group->ctx, tsr_conv_read(group, kind, &p.conv));
    if (tsr_conv_is_empty(&p.conv)) return TSR_SUCCESS;
    if (tsr_conv_is_depthwise(&p.conv)) return tsr_conv_depthwise(&p.conv, kind);
    if (tsr_conv_is_pointwise(&p.conv) && !group->open_high) tsr_conv_flatten(&p.conv);
    for (int i = 0; i < 2; i++)
        TRY(group->ctx, tsr_conv_walk_make(&p.conv, &p.conv.axes[i], kind, &p.walks[i]));
    p.a_channels = forward ? p.conv.group_channels : p.conv.group_filters;
    p.a_total = forward ? p.conv.channels : p.conv.filters;
    p.columns = forward ? p.conv.group_filters : p.conv.group_channels;
    p.total = forward ? p.conv.filters : p.conv.channels;
    TRY(group->ctx, tsr_conv_plan(&p));
    emit(&p);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_lower_conv2d(tsr_tile_group *group) { return lower(group, TSR_CONV_FORWARD); }

tsr_result tsr_tile_lower_conv2d_grad_input(tsr_tile_group *group) {
    return lower(group, TSR_CONV_OF_INPUT);
}
