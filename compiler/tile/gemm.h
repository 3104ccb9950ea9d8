/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of every product: a tile of rows x (vectors * lanes) elements of C is kept in
 * registers while k ascends,
 *
 *     for k: for each row i, vector v: c[i][v] = fma(splat(a[i][k]), b[k][v], c[i][v])
 *
 * so that an element is one chain of fused multiply-adds, whatever the tile. And what brings B into
 * the order in which it is read.
 */
#ifndef TSR_COMPILER_TILE_GEMM_H
#define TSR_COMPILER_TILE_GEMM_H

#include "compiler/tile/region.h"

enum {
    TSR_GEMM_ROWS_MAX = 16,
    TSR_GEMM_TILE_MAX = TSR_GEMM_ROWS_MAX * TSR_TILE_VECTORS_MAX,
    TSR_GEMM_TILES_TOGETHER = 8, /* are packed side by side: whole cache lines of A's rows */
};

typedef struct tsr_gemm_tile {
    tsr_dtype a_dtype, b_dtype; /* in memory; both are computed with as one type */
    uint32_t lanes, vectors;
    int64_t rows;
    MlirValue a, b; /* buffers */
    MlirValue a_at; /* offset of A at the first row and k = 0 */
    int64_t a_row, a_step;
    /* Offsets of A at k = 0 of each row, where the rows are not evenly apart; else NULL, and a_at
     * and a_row count. */
    const MlirValue *a_rows;
    MlirValue b_at; /* offset of B at the first column and k = 0 */
    int64_t b_step;
    /* From b_at to each vector, where they do not follow one another; else NULL. */
    const int64_t *b_vectors;
    const MlirValue *masks; /* of B's vectors, null ones are none; NULL: none at all */
    uint32_t last_lanes;    /* of each row's last vector, where they are fewer; else 0 */
    MlirValue ahead;        /* offset of B that is asked for, as from b_at; null: nothing is */
    MlirValue copy;         /* the rows of B, or their pairs, go there as they are read; or null */
    int64_t copy_step;      /* from one to the next */
    MlirValue copy_at;      /* the first; null: 0 */
    bool unrolled;          /* `count` is known and small: no loop */
    /* Of tsr_dot_multiply alone: */
    bool odd;      /* the last step has one element of K ... */
    bool a_padded; /* ... and A has a zero beside it */
    int64_t b_row; /* from a row of B to the next, where pairs do not lie together; else 0 */
} tsr_gemm_tile;

/* Lanes of the last vector that hold `columns` columns: half of them, where a CPU computes the
 * widest vectors in halves (others take no longer for it); 0: all. */
uint32_t tsr_gemm_last_lanes(const tsr_target *target, uint32_t lanes, int64_t columns);
/* Accumulators as tsr_gemm_multiply and tsr_dot_multiply take them: of last_lanes at a row's end.
 */
void tsr_gemm_narrow_last(tsr_tile_builder *b, const tsr_gemm_tile *tile, MlirValue *accumulators);
/* As they were; the lanes that were not there are zero. */
void tsr_gemm_widen_last(tsr_tile_builder *b, const tsr_gemm_tile *tile, MlirValue *accumulators);
static inline uint32_t tsr_gemm_lanes(const tsr_gemm_tile *tile, uint32_t vector) {
    return tile->last_lanes && vector + 1 == tile->vectors ? tile->last_lanes : tile->lanes;
}
/* The mask of such a vector of B; null: none. */
MlirValue tsr_gemm_mask(tsr_tile_builder *b, const tsr_gemm_tile *tile, uint32_t vector);

/* The loop over k = 0 ... count - 1; `accumulators`, row by row, in and out. */
void tsr_gemm_multiply(tsr_tile_builder *b, const tsr_gemm_tile *tile, MlirValue count,
                       MlirValue *accumulators);

/* Columns of a matrix brought together: to[k * width + column], k = 0 ... count - 1. */
typedef struct tsr_gemm_pack {
    tsr_dtype from_dtype, to_dtype;
    uint32_t lanes, vectors; /* width = lanes * vectors */
    MlirValue from, to;      /* buffers */
    MlirValue from_at, to_at;
    int64_t from_step; /* of k, or transposed: of the column; the other is 1 */
    int64_t to_step;   /* of k; at least the width */
    MlirValue count;
    MlirValue columns; /* there are so many from the first on; null: at least the width */
    bool exact;        /* pack_columns: nothing is written beyond `count` */
} tsr_gemm_pack;

/* Columns that are not there are zero. */
void tsr_gemm_pack_rows(tsr_tile_builder *b, const tsr_gemm_pack *pack);
/* The same from the transpose: squares of lanes x lanes through registers. `to` has room for
 * `count` rounded up to the lanes; what is beyond `count` is zero, or with `exact` not written. */
void tsr_gemm_pack_columns(tsr_tile_builder *b, const tsr_gemm_pack *pack);

/* Rows of A, which is transposed, brought together tile by tile: to[tile][k * rows + row]. */
typedef struct tsr_gemm_pack_tiles {
    tsr_dtype from_dtype, to_dtype;
    uint32_t lanes;
    int64_t rows; /* of a tile */
    MlirValue from, to;
    MlirValue from_at;              /* the first row at k = 0 */
    int64_t from_step;              /* of k; the rows are neighbours */
    int64_t to_tile;                /* between tiles: what tsr_gemm_tile_size says */
    MlirValue count;                /* of k */
    MlirValue row_count, rows_left; /* to bring; there are so many from the first on */
} tsr_gemm_pack_tiles;

/* Elements from a packed tile of `rows` x `count` to the next: the last store of a tile may reach
 * beyond it, and tiles are not to share sets of the first-level cache. A multiple of `rows`. */
int64_t tsr_gemm_tile_size(tsr_dtype dtype, int64_t rows, int64_t count);
/* Rows from rows_left on are zero. */
void tsr_gemm_pack_a(tsr_tile_builder *b, const tsr_gemm_pack_tiles *pack);

/* An operand of a product. */
typedef struct tsr_gemm_operand {
    MlirValue buffer;
    tsr_dtype dtype; /* of the buffer's elements; they are widened as they are read */
    tsr_type matrix; /* that the product takes it for */
    int64_t line;    /* it lies in strips, of lines of so many elements; 0: it does not */
    bool pairs;      /* of pairs of rows */
} tsr_gemm_operand;
/* A cast that widens, or tsched.unpack, may stand between the group's argument and its root. */
TSR_RESULT tsr_gemm_find_operand(const tsr_tile_group *group, size_t index,
                                 tsr_gemm_operand *out_operand);

/* What a tile is chosen for: m rows and n columns. */
typedef struct tsr_gemm_shape {
    int64_t element_bytes, m, n;
    int64_t k;         /* steps of the loop; 0: many */
    int64_t width;     /* at most so many columns, if a vector fits; 0: any */
    int64_t strip;     /* B lies in strips so wide: tiles are parts or multiples; 0: it does not */
    int64_t unit;      /* a multiple of the tile's rows; 0: any */
    int64_t row_bytes; /* between rows of A as tiles read it; 0: they are near each other */
    bool far;          /* B is read where it lies, and no second level holds it */
} tsr_gemm_shape;

/* Would so many rows, row_bytes apart, push one another out of the first-level cache? 0: no. */
bool tsr_gemm_alias(int64_t row_bytes, int64_t rows);
/* The tile that wastes least: what is computed, over how well a tile of that shape runs. */
void tsr_gemm_plan_tile(const tsr_target *target, const tsr_gemm_shape *shape, uint32_t *out_lanes,
                        uint32_t *out_vectors, int64_t *out_rows);

/* Are there vector registers for more than a tile's sums and operands? 32, as AVX-512 has: with 16
 * an epilogue between the steps of k would move the sums to the stack and back. */
bool tsr_gemm_has_registers(const tsr_target *target);
int64_t tsr_gemm_second_level(const tsr_target *target); /* bytes of the cache, about */
/* Up to so many rows of A, B is read where it lies, rows of it `row_bytes` apart, while the next
 * panel is on its way to the second level; more rows pay for packing. */
int64_t tsr_gemm_direct_rows(const tsr_target *target, int64_t row_bytes);
/* Rows of a large B that are read side by side, for m rows of A: few, where reading B is most of
 * the time, or where panels are so narrow that they share cache lines; else what the second level
 * holds of a panel beside the next one. `asks`: that one is asked for. */
int64_t tsr_gemm_streamed_rows(const tsr_target *target, int64_t m, int64_t row_bytes,
                               int64_t width_bytes, bool asks);

/* Panels of a program that reads B's rows side by side: hardware reads ahead within a run, and each
 * run's begin waits, the longer the fewer rows of A are computed meanwhile. */
int64_t tsr_gemm_run_panels(int64_t panels, int64_t row_bytes, int64_t m);

/* TSR_COMPILE where a vector of what is computed with is wider than the strips that B lies in. */
TSR_RESULT tsr_gemm_check_strip(const tsr_tile_group *group, int64_t strip, tsr_dtype compute);
/* The vectors of a tile that begins at a multiple of its width, from its first: see b_vectors.
 * `rows` of B are in a strip. */
void tsr_gemm_strip_vectors(int64_t strip, int64_t rows, uint32_t lanes, uint32_t vectors,
                            int64_t *out_offsets);
/* Where such a tile's B begins at row k. */
MlirValue tsr_gemm_strip_at(tsr_tile_builder *b, int64_t strip, int64_t rows, MlirValue column,
                            MlirValue k);

/* The size of equal parts of x, of at most `part` each, a multiple of `unit` where there are
 * several. */
int64_t tsr_gemm_part(int64_t x, int64_t part, int64_t unit);

#endif
