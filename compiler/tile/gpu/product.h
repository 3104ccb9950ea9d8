/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products on the matrix units of a GPU, for bundles whose numerics are "native".
 *
 * Numerics: products of bf16 and f16 are exact. An f32 matmul is taken only with `allow_tf32`: each
 * factor is rounded to nearest with 10 bits of fraction; on sm_90a it is truncated instead if rows
 * of one factor do not begin at multiples of 16 bytes. MFMA (AMD, CDNA) multiplies f32 with all
 * bits, with or without `allow_tf32`; WMMA (RDNA) has no f32. The matrix unit sums a tile over K in
 * f32, in steps of one instruction beginning with k = 0. If programs share K, each sums its own
 * part, and the parts are added in order. A row that is added to all rows may be the initial value
 * of the sum. All other ops after the product in its group are computed in f32 and rounded once,
 * when the result is stored. If a result has 16 bits, its functions are the unit's approximations,
 * and in that kernel a product and an addition that uses it may become one FMA. The bits therefore
 * depend on the tile, which is chosen when the bundle is built.
 */
#ifndef TSR_COMPILER_TILE_GPU_PRODUCT_H
#define TSR_COMPILER_TILE_GPU_PRODUCT_H

#include "compiler/ir/targets/target.h"
#include "compiler/tile/region.h"

/* Attribute of a tsched.func: the number of best tiles to skip, because no code could be generated
 * for them. */
#define TSR_SKIP_NAME "tile.skip"

/* A batch of `batch` products of M x K and K x N matrices. */
typedef struct tsr_product_shape {
    int64_t m, n, k, batch;
    int64_t a_pitch, b_pitch; /* elements between the beginnings of rows, as stored */
    uint32_t element_bytes;
    bool by_rows;       /* the result's rows begin at multiples of 16 bytes, so they are stored
                           through shared memory */
    bool may_transpose; /* tiles may be computed transposed */
    bool a_transposed;  /* A is stored transposed: the rows of a tile are copied 64 at a time */
    /* Bytes moved after the product for each element: the results and the inputs that are read with
     * them. */
    uint32_t epilogue_bytes;
    uint32_t work; /* cost of the ops after the product for each element: 1 for an addition, 3 for a
                      function */
} tsr_product_shape;

typedef struct tsr_product_tile {
    int64_t rows, columns, depth;
    uint32_t stages, warps, registers;
    uint32_t teams; /* programs that a block runs concurrently */
    uint32_t parts; /* number of programs that share K, each with one part */
    /* Numbers of programs that run together, in a row and in a column: programs in a row share
     * copies of A, those in a column share copies of B. */
    uint32_t cluster_columns, cluster_rows;
    uint32_t tail;   /* last steps of K in which warp groups multiply in turns */
    bool transposed; /* columns of the result are rows of the matrix units */
} tsr_product_tile;

/* AMD: do the matrix units multiply f32? */
bool tsr_product_takes_f32(const tsr_target *target);

/* Selects the tile with the least time according to a model of the device, without the best `skip`
 * tiles. Returns false if no tile is left. */
bool tsr_product_select(const tsr_target *target, const tsr_product_shape *shape, uint32_t skip,
                        tsr_product_tile *out_tile);

/* The best tiles, at most `limit`, by the same model; returns their number. */
size_t tsr_product_rank(const tsr_target *target, const tsr_product_shape *shape, size_t limit,
                        tsr_product_tile *out_tiles);
/* Selects the best tile that has the given sizes, in the order of TSR_TILING_MATRIX_PRODUCT; 0:
 * any, unless `exact`. If there is none, returns false after it wrote to `out_why`, which has
 * TSR_TILE_REFUSAL_MAX bytes, the rule that they break. */
bool tsr_product_take(const tsr_target *target, const tsr_product_shape *shape,
                      const int64_t *given, bool exact, tsr_product_tile *out_tile, char *out_why);
/* The sizes of a tile, in this order. */
void tsr_product_sizes(const tsr_product_tile *tile, int64_t *out_sizes);

/* The cycles that the model predicts for a tile, and for moving `bytes` between device memory and
 * kernels. */
double tsr_product_time(const tsr_target *target, const tsr_product_shape *shape,
                        const tsr_product_tile *tile);
double tsr_product_move_time(const tsr_target *target, double bytes);
/* The cycles that the model predicts for a kernel that copies `bytes`. */
double tsr_product_copy_time(const tsr_target *target, double bytes);

/* Predicts the cycles of the group with its pitches; nothing is written. *out_taken as below. */
TSR_RESULT tsr_tile_time_product(tsr_tile_group *group, bool *out_taken, double *out_cycles);

/* *out_taken is false if this family cannot lower the group; nothing was written then. */
TSR_RESULT tsr_tile_lower_product(tsr_tile_group *group, bool *out_taken);

#endif
