/* SPDX-License-Identifier: Apache-2.0
 *
 * Products whose number of rows a call gives. A last tile with few rows would cost as much as a
 * whole one, because vectors of B are loaded for each tile. So the rows are divided evenly among
 * programs, and those of a program among as few tiles as possible: 17 rows are tiles of 6, 6 and 5.
 */
#include "compiler/tile/open.h"
#include "compiler/tile/products/matmul.h"

static void divide_rows(const tsr_matmul *mm, MlirValue row_count, tsr_matmul_open *out_open) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue tiles =
        tsr_tile_div(b, tsr_tile_offset(b, row_count, mm->size.rows - 1), mm->size.rows);
    MlirValue more = tsr_tile_2(b, "arith.remui", row_count, tiles);
    out_open->tile_rows = tsr_tile_2(b, "arith.divui", row_count, tiles);
    out_open->taller =
        tsr_tile_2(b, "arith.muli", more, tsr_tile_offset(b, out_open->tile_rows, 1));
}

MlirValue tsr_matmul_find_rows(const tsr_matmul *mm, MlirValue number, tsr_matmul_open *out_open,
                               MlirValue *out_count) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue all = tsr_tile_open_count(mm->group, mm->m), row = tsr_tile_index(b, 0);
    *out_count = all;
    if (mm->m > mm->size.block_rows) {
        MlirValue blocks =
            tsr_tile_div(b, tsr_tile_offset(b, all, mm->size.block_rows - 1), mm->size.block_rows);
        MlirValue each = tsr_tile_2(b, "arith.divui", all, blocks);
        MlirValue more = tsr_tile_2(b, "arith.remui", all, blocks);
        MlirValue has_more = tsr_tile_icompare(b, TSR_ICMP_SLT, number, more);
        MlirValue one_more =
            tsr_tile_select(b, has_more, tsr_tile_index(b, 1), tsr_tile_index(b, 0));
        row = tsr_tile_add(b, tsr_tile_2(b, "arith.muli", number, each),
                           tsr_tile_min(b, number, more));
        *out_count = tsr_tile_add(b, each, one_more);
    }
    divide_rows(mm, *out_count, out_open);
    return row;
}

void tsr_matmul_find_tiles(const tsr_matmul *mm, const tsr_matmul_open *open, MlirValue row_count,
                           int64_t height, MlirValue *out_low, MlirValue *out_high) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue rows = tsr_tile_index(b, height), zero = tsr_tile_index(b, 0);
    MlirValue above = tsr_tile_offset(b, open->tile_rows, 1);
    MlirValue is_taller = tsr_tile_icompare(b, TSR_ICMP_EQ, rows, above);
    MlirValue is_lower = tsr_tile_icompare(b, TSR_ICMP_EQ, rows, open->tile_rows);
    MlirValue high = tsr_tile_select(b, is_taller, open->taller, zero);
    *out_low = tsr_tile_select(b, is_lower, open->taller, zero);
    *out_high = tsr_tile_select(b, is_lower, row_count, high);
}
