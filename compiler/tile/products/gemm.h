/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of every product: a tile of rows x (vectors * lanes) elements of C stays in
 * registers while k ascends,
 *
 *     for k: for each row i, vector v: c[i][v] = fma(splat(a[i][k]), b[k][v], c[i][v])
 *
 * so that an element is one chain of fused multiply-adds, for every tile. Also functions that pack
 * A and B in the order in which the loop reads them.
 */
#ifndef TSR_COMPILER_TILE_PRODUCTS_GEMM_H
#define TSR_COMPILER_TILE_PRODUCTS_GEMM_H

#include "compiler/ir/targets/target.h"
#include "compiler/tile/region.h"

enum {
    TSR_GEMM_ROWS_MAX = 16,
    TSR_GEMM_TILE_MAX = TSR_GEMM_ROWS_MAX * TSR_TILE_VECTORS_MAX,
    TSR_GEMM_TILES_TOGETHER = 8, /* tiles that are packed together: whole cache lines of A's rows */
};

/* words.h */
typedef struct tsr_gemm_words {
    bool is; /* elements are words of four bytes */
    bool a_unsigned, b_unsigned;
} tsr_gemm_words;

typedef struct tsr_gemm_tile {
    tsr_gemm_words words;
    tsr_dtype a_dtype, b_dtype; /* types in memory; both are computed in one type */
    uint32_t lanes, vectors;
    int64_t rows;
    MlirValue a, b; /* buffers */
    MlirValue a_at; /* offset of A at the first row and k = 0 */
    int64_t a_row, a_step;
    /* Offsets of A at k = 0 of each row, if the rows are not evenly spaced; else NULL, and a_at and
     * a_row are used. */
    const MlirValue *a_rows;
    MlirValue b_at; /* offset of B at the first column and k = 0 */
    int64_t b_step;
    /* Offsets from b_at to each vector, if they are not contiguous; else NULL. */
    const int64_t *b_vectors;
    const MlirValue *masks; /* masks of B's vectors, or null for all lanes; NULL: no masks */
    uint32_t last_lanes;    /* lanes of each row's last vector, if they are fewer; else 0 */
    MlirValue ahead;        /* offset of B to prefetch, corresponding to b_at; null: no prefetch */
    MlirValue copy;         /* buffer for a copy of the rows of B, or their pairs, or null */
    int64_t copy_step;      /* elements between copied rows */
    MlirValue copy_at;      /* offset of the first copied row; null: 0 */
    bool unrolled;          /* `count` is known and small: no loop */
    /* Only for tsr_dot_multiply: */
    bool odd;      /* the last step has one element of K ... */
    bool a_padded; /* ... and A has a zero after it */
    int64_t b_row; /* elements between rows of B, if pairs are not interleaved; else 0 */
} tsr_gemm_tile;

/* The lanes of a last vector with `columns` columns: half of the lanes, if they are enough and a
 * CPU computes the widest vectors in halves (on other CPUs whole ones take no longer); 0: all
 * lanes. */
uint32_t tsr_gemm_last_lanes(const tsr_target *target, uint32_t lanes, int64_t columns);
/* Narrows the accumulators at the end of each row to last_lanes, as tsr_gemm_multiply and
 * tsr_dot_multiply expect them. */
void tsr_gemm_narrow_last(tsr_tile_builder *b, const tsr_gemm_tile *tile, MlirValue *accumulators);
/* Widens them again; the added lanes are zero. */
void tsr_gemm_widen_last(tsr_tile_builder *b, const tsr_gemm_tile *tile, MlirValue *accumulators);
static inline uint32_t tsr_gemm_lanes(const tsr_gemm_tile *tile, uint32_t vector) {
    return tile->last_lanes && vector + 1 == tile->vectors ? tile->last_lanes : tile->lanes;
}
/* The mask of this vector of B, or null. */
MlirValue tsr_gemm_mask(tsr_tile_builder *b, const tsr_gemm_tile *tile, uint32_t vector);

/* Emits the loop over k = 0 ... count - 1; `accumulators`, row by row, are input and output. */
void tsr_gemm_multiply(tsr_tile_builder *b, const tsr_gemm_tile *tile, MlirValue count,
                       MlirValue *accumulators);

/* Packs columns of a matrix: to[k * width + column], k = 0 ... count - 1. */
typedef struct tsr_gemm_pack {
    tsr_dtype from_dtype, to_dtype;
    uint32_t lanes, vectors; /* width = lanes * vectors */
    MlirValue from, to;      /* buffers */
    MlirValue from_at, to_at;
    int64_t from_step; /* elements between values of k or, transposed, between columns; the other
                          stride is 1 */
    int64_t to_step;   /* elements between values of k; at least the width */
    MlirValue count;
    MlirValue columns; /* number of columns that exist from the first one on; null: at least the
                          width */
    bool exact;        /* pack_columns: nothing is written beyond `count` */
} tsr_gemm_pack;

/* Packs rows. Missing columns become zero. */
void tsr_gemm_pack_rows(tsr_tile_builder *b, const tsr_gemm_pack *pack);
/* Packs the transpose: squares of lanes x lanes go through registers. `to` has capacity for `count`
 * rounded up to the lanes; elements beyond `count` become zero, or with `exact` are not written. */
void tsr_gemm_pack_columns(tsr_tile_builder *b, const tsr_gemm_pack *pack);

/* Packs rows of A, which is transposed, tile by tile: to[tile][k * rows + row]. */
typedef struct tsr_gemm_pack_tiles {
    tsr_dtype from_dtype, to_dtype;
    uint32_t lanes;
    int64_t rows; /* rows of a tile */
    MlirValue from, to;
    MlirValue from_at;              /* offset of the first row at k = 0 */
    int64_t from_step;              /* elements between values of k; the rows are neighbours */
    int64_t to_tile;                /* elements between tiles, from tsr_gemm_tile_size */
    MlirValue count;                /* number of values of k */
    MlirValue row_count, rows_left; /* rows to pack; rows that exist from the first one on */
} tsr_gemm_pack_tiles;

/* The number of elements between packed tiles of `rows` x `count`: the last store of a tile may
 * extend beyond it, and tiles should not share sets of the first-level cache. A multiple of
 * `rows`. */
int64_t tsr_gemm_tile_size(tsr_dtype dtype, int64_t rows, int64_t count);
/* Packs A. Rows from rows_left on become zero. */
void tsr_gemm_pack_a(tsr_tile_builder *b, const tsr_gemm_pack_tiles *pack);

/* An operand of a product. */
typedef struct tsr_gemm_operand {
    MlirValue buffer;
    tsr_dtype dtype; /* element type of the buffer; elements are widened when they are read */
    tsr_type matrix; /* type that the product reads it as */
    int64_t line;    /* elements of a line of the strips that contain it; 0: no strips */
    bool pairs;      /* strips contain pairs of rows */
} tsr_gemm_operand;
/* Finds an operand of the group's root. A cast that widens, or tsched.unpack, may be between the
 * group's argument and the root. */
TSR_RESULT tsr_gemm_find_operand(const tsr_tile_group *group, size_t index,
                                 tsr_gemm_operand *out_operand);

/* The properties of a product for which a tile is chosen: m rows and n columns. */
typedef struct tsr_gemm_shape {
    int64_t element_bytes, m, n;
    int64_t k;         /* steps of the loop; 0: many */
    int64_t width;     /* maximum number of columns, if a vector fits; 0: any */
    int64_t exact;     /* columns of the tile; 0: any */
    int64_t strip;     /* width of the strips in which B is stored: tiles are parts or multiples; 0:
                          no strips */
    int64_t unit;      /* a multiple of the tile's rows; 0: any */
    int64_t rows_max;  /* maximum rows of the tile; 0: that of the target */
    int64_t row_bytes; /* bytes between rows of A as tiles read it; 0: they are close together */
    bool far;          /* B is read in place and does not fit the second-level cache */
} tsr_gemm_shape;

/* True if `rows` rows, row_bytes apart, would evict one another from the first-level cache. Returns
 * false if row_bytes is 0. */
bool tsr_gemm_alias(int64_t row_bytes, int64_t rows);
/* Plans the tile that wastes least: the cost is the number of computed elements divided by the
 * speed of a tile of that shape. Of an `exact` width that no tile has, *out_vectors is 0. */
void tsr_gemm_plan_tile(const tsr_target *target, const tsr_gemm_shape *shape, uint32_t *out_lanes,
                        uint32_t *out_vectors, int64_t *out_rows);

/* The elements of a vector of a tile: fewer than those of the target if there are few columns. */
uint32_t tsr_gemm_vector(const tsr_target *target, const tsr_gemm_shape *shape);

/* True if there are vector registers for more than a tile's sums and operands: 32, as with AVX-512.
 * With 16, an epilogue between the steps of k would spill the sums to the stack. */
bool tsr_gemm_has_registers(const tsr_target *target);
int64_t tsr_gemm_second_level(const tsr_target *target); /* approximate bytes of the cache */
/* The maximum number of rows of A for which B is read in place, with rows `row_bytes` apart, while
 * the next panel is loaded to the second-level cache. With more rows, packing saves time. */
int64_t tsr_gemm_direct_rows(const tsr_target *target, int64_t row_bytes);
/* The number of rows of a large B that are read side by side, for m rows of A: few rows, if reading
 * B takes most of the time, or if panels are so narrow that they share cache lines; otherwise as
 * many rows of a panel as fit the second-level cache together with the next panel. `asks`: the next
 * panel is prefetched. */
int64_t tsr_gemm_streamed_rows(const tsr_target *target, int64_t m, int64_t row_bytes,
                               int64_t width_bytes, bool asks);

/* The number of panels of a program that reads B's rows side by side. The hardware prefetches
 * within a run, but the beginning of each run stalls. The stall is longer if fewer rows of A are
 * computed during that time. */
int64_t tsr_gemm_run_panels(int64_t panels, int64_t row_bytes, int64_t m);

/* Fails with TSR_COMPILE if a vector of type `compute` is wider than the strips in which B is
 * stored. */
TSR_RESULT tsr_gemm_check_strip(const tsr_tile_group *group, int64_t strip, tsr_dtype compute);
/* The offsets of the vectors of a tile that begins at a multiple of its width, from its first
 * vector: see b_vectors. Strips have `rows` rows of B. */
void tsr_gemm_strip_vectors(int64_t strip, int64_t rows, uint32_t lanes, uint32_t vectors,
                            int64_t *out_offsets);
/* The offset of the tile's B at row k. */
MlirValue tsr_gemm_strip_at(tsr_tile_builder *b, int64_t strip, int64_t rows, MlirValue column,
                            MlirValue k);

/* The size of equal parts of x, at most `part` each, and a multiple of `unit` if there are
 * several. */
int64_t tsr_gemm_part(int64_t x, int64_t part, int64_t unit);

#endif
