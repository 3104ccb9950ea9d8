/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `pack`: strips[s][k][c] = matrix[k][s * width + c], zeros beyond the last column;
 * all dims of the matrix before the last are one. With `pairs` the result is [s][k][2 c + i] =
 * matrix[2 k + i][...]. With `words` it is the word of matrix rows 4 k ... 4 k + 3. Strips are
 * split over the programs.
 */
#include "compiler/tile/products/dot.h"
#include "compiler/tile/products/words.h"

enum { PROGRAM_BYTES = 256 * 1024 };

typedef struct strips {
    tsr_dtype dtype, to_dtype;
    int64_t rows, columns, width, count; /* matrix rows and columns; strip width; strip count */
    int64_t unit, steps;                 /* matrix rows in a line of a strip; lines of a strip */
    uint32_t lanes;
    bool transposed, words;
} strips;

static tsr_result read_strips(const tsr_tile_group *group, strips *out_strips) {
    const tsr_shape *from = &group->types[0].shape, *to = &group->types[1].shape;
    bool transposed = tsr_op_flag(group->root, "transpose");
    int64_t unit = tsr_op_flag(group->root, "pairs") ? TSR_DOT_PAIR : 1;
    if (group->input_count != 1 || group->output_count != 1 || from->rank < 2 || to->rank != 3)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed pack", group->name);
    tsr_dtype dtype = group->types[0].dtype;
    bool words = tsr_op_flag(group->root, "words");
    tsr_dtype compute = words ? group->types[1].dtype : tsr_tile_compute_dtype(dtype);
    int64_t width = (int64_t)to->dims[2] / unit, last = (int64_t)from->dims[from->rank - 1],
            above = 1;
    for (uint32_t d = 0; d + 1 < from->rank; d++) above *= (int64_t)from->dims[d];
    *out_strips =
        (strips){.dtype = dtype,
                 .to_dtype = group->types[1].dtype,
                 .rows = transposed ? last : above,
                 .columns = transposed ? above : last,
                 .width = width,
                 .count = (int64_t)to->dims[0],
                 .unit = unit,
                 .steps = (int64_t)to->dims[1],
                 .lanes = tsr_lanes_fit(
                     group->b.target->vector_bytes / (uint32_t)tsr_dtype_size(compute), width),
                 .transposed = transposed,
                 .words = words};
    return TSR_SUCCESS;
}

static void emit_strip(tsr_tile_group *group, const strips *s, MlirValue strip) {
    tsr_tile_builder *b = &group->b;
    MlirValue column = tsr_tile_mul(b, strip, s->width);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, s->columns), column);
    for (int64_t at = 0; at < s->width; at += s->lanes) {
        MlirValue first = tsr_tile_offset(b, column, at);
        tsr_gemm_pack pack = {
            .from_dtype = s->dtype,
            .to_dtype = s->to_dtype,
            .lanes = s->lanes,
            .vectors = 1,
            .from = group->buffers[0],
            .to = group->buffers[1],
            .from_at = tsr_tile_mul(b, first, s->transposed ? s->rows : 1),
            .to_at = tsr_tile_offset(b, tsr_tile_mul(b, strip, s->steps * s->width * s->unit),
                                     at * s->unit),
            .from_step = s->transposed ? s->rows : s->columns,
            .to_step = s->width * s->unit,
            .count = tsr_tile_index(b, s->steps),
            .columns = s->columns % s->width ? tsr_tile_offset(b, left, -at) : tsr_tile_null,
            .exact = true};
        if (s->words)
            tsr_words_pack_rows(b, &pack, s->rows);
        else if (s->unit > 1)
            (s->transposed ? tsr_dot_pack_columns : tsr_dot_pack_rows)(b, &pack, s->rows % 2);
        else
            (s->transposed ? tsr_gemm_pack_columns : tsr_gemm_pack_rows)(b, &pack);
    }
}

tsr_result tsr_tile_lower_pack(tsr_tile_group *group) {
    tsr_tile_builder *b = &group->b;
    strips s = {0};
    TRY(group->ctx, read_strips(group, &s));
    if (!s.rows || !s.columns) return TSR_SUCCESS;
    int64_t bytes = s.rows * s.width * (int64_t)tsr_dtype_size(s.to_dtype);
    int64_t each = PROGRAM_BYTES / bytes + 1;
    if (each > s.count) each = s.count;
    group->grid = tsr_divide_up(s.count, each);
    MlirValue begin = tsr_tile_index(b, 0), end = tsr_tile_index(b, s.count);
    if (group->grid > 1) {
        begin = tsr_tile_mul(b, tsr_tile_program_id(b), each);
        end = tsr_tile_min(b, tsr_tile_offset(b, begin, each), end);
    }
    TSR_TILE_FOR(b, loop, begin, end, 1) { emit_strip(group, &s, loop.index); }
    return TSR_SUCCESS;
}
