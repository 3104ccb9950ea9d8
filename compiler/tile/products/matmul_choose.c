/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes that a product can have: those that the schedule gives or the model of the caches
 * chooses, and others that may be faster.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/plan.h"
#include "compiler/tile/products/matmul.h"

#include <string.h>

/* Adds the plan with these sizes, if there is one; 0: the model chooses. */
static void try(const tsr_matmul *product, const tsr_matmul_sizes *sizes, tsr_tiling *tiling) {
    tsr_tile_group group = *product->group;
    tsr_matmul mm = *product;
    mm.group = &group;
    memcpy(group.given, sizes, sizeof *sizes);
    if (tsr_matmul_plan(&mm)) tsr_tiling_add(tiling, group.tile);
}

/* Other tiles: the model then chooses the blocks again. */
static void try_tiles(const tsr_matmul *product, tsr_tiling *tiling) {
    const tsr_target *target = product->group->b.target;
    int64_t lanes = target->vector_bytes / tsr_matmul_element_size(product);
    for (int64_t v = 1; v <= TSR_TILE_VECTORS_MAX; v++) {
        int64_t rows = target->matmul_rows[v - 1];
        if (!rows) continue;
        try(product, &(tsr_matmul_sizes){.width = v * lanes}, tiling);
        try(product, &(tsr_matmul_sizes){.rows = rows, .width = v * lanes}, tiling);
        try(product, &(tsr_matmul_sizes){.rows = rows / 2, .width = v * lanes}, tiling);
    }
}

/* The tile of the model with other blocks. */
static void try_blocks(const tsr_matmul *product, const tsr_matmul_sizes *model,
                       tsr_tiling *tiling) {
    static const int64_t times[] = {2, 4};
    for (size_t i = 0; i < 2; i++) {
        tsr_matmul_sizes s = *model;
        s.block_rows = tsr_round_up(tsr_divide_up(model->block_rows, times[i]), s.rows);
        try(product, &s, tiling);
        s.block_rows = model->block_rows * times[i];
        try(product, &s, tiling);
        s = *model;
        s.program_panels = tsr_divide_up(model->program_panels, times[i]);
        try(product, &s, tiling);
        s.program_panels = model->program_panels * times[i];
        try(product, &s, tiling);
        s = (tsr_matmul_sizes){.rows = model->rows, .width = model->width};
        s.k_block = model->k_block / times[i] / 16 * 16;
        try(product, &s, tiling);
        s.k_block = model->k_block * times[i];
        try(product, &s, tiling);
    }
    tsr_matmul_sizes whole = *model;
    whole.block_rows = product->m;
    try(product, &whole, tiling);
    whole = *model;
    whole.program_panels = product->panels;
    try(product, &whole, tiling);
}

tsr_result tsr_matmul_choose(tsr_tile_group *group, tsr_tiling *tiling) {
    tsr_matmul product = {.group = group};
    TRY(group->ctx, tsr_matmul_read(&product));
    if (!product.m || !product.n || !product.batch) return TSR_SUCCESS;
    tiling->kind = TSR_TILING_PRODUCT;
    tiling->source = TSR_TILING_MODEL;
    tsr_matmul planned = product;
    if (!tsr_matmul_plan(&planned)) return TSR_SUCCESS;
    memcpy(tiling->sizes, group->tile, sizeof planned.size);
    tsr_tiling_add(tiling, tiling->sizes);
    if (product.group->b.target->warp_lanes) return TSR_SUCCESS;
    try_tiles(&product, tiling);
    product.panels = planned.panels;
    try_blocks(&product, &planned.size, tiling);
    return TSR_SUCCESS;
}
