/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products on the matrix units of a GPU, for bundles whose numerics are "native".
 *
 * Numerics: products of bf16 and f16 are exact; of f32, which a matmul takes with `allow_tf32`
 * alone, each factor is rounded to 10 bits of its fraction, to nearest, or on sm_90a cut to them
 * where rows of one begin at no multiples of 16 bytes; a tile's sum over K is the unit's, in f32,
 * in steps of one instruction from k = 0 on; where programs share K, each has its part of it, and
 * the parts are added in their order. A row added to all rows may be what a sum begins with. What
 * else follows the product in its group is computed in f32 and rounded once, when it is stored;
 * where a result has 16 bits its functions are the unit's approximations, and in that kernel a
 * product and the sum it goes into may be one FMA. So the bits depend on the tile, which is chosen
 * when the bundle is built.
 */
#ifndef TSR_COMPILER_TILE_GPU_PRODUCT_H
#define TSR_COMPILER_TILE_GPU_PRODUCT_H

#include "compiler/tile/region.h"

/* Of a tsched.func: so many of the best tiles are left out, because no code could be made of them.
 */
#define TSR_SKIP_NAME "tile.skip"

/* M x K times K x N, `batch` times. */
typedef struct tsr_product_shape {
    int64_t m, n, k, batch;
    int64_t a_pitch, b_pitch; /* elements from row to row, as they lie */
    uint32_t element_bytes;
    bool by_rows;       /* the result's rows begin at multiples of 16 bytes, so that they go through
                           shared memory */
    bool may_transpose; /* tiles may be computed transposed */
    bool a_transposed;  /* A lies transposed: a tile's rows are copied 64 at a time */
    uint32_t behind;    /* bytes that move behind the product for each element: of results, and what
                           is read with them */
    uint32_t work; /* what follows the product, for each element: 1 an addition, 3 a function */
} tsr_product_shape;

typedef struct tsr_product_tile {
    int64_t rows, columns, depth;
    uint32_t stages, warps, registers;
    uint32_t teams;         /* programs that a block runs side by side */
    uint32_t parts;         /* of K, for a program each */
    uint32_t beside, below; /* programs that run together, in a row and in a column: the first ones
                               share copies of A, the others of B */
    uint32_t tail;          /* of its steps of K, in which warp groups go one after the other */
    bool transposed;        /* columns of the result are rows of the matrix units' */
} tsr_product_tile;

/* The tile for which a model of the device says the least time, leaving out the best `skip` of
 * them. False: there are no more. */
bool tsr_product_select(const tsr_target *target, const tsr_product_shape *shape, uint32_t skip,
                        tsr_product_tile *out_tile);

/* Cycles that the model says of a tile; of `bytes` that go between device memory and kernels. */
double tsr_product_time(const tsr_target *target, const tsr_product_shape *shape,
                        const tsr_product_tile *tile);
double tsr_product_move_time(const tsr_target *target, double bytes);
/* The same of a kernel that copies so many. */
double tsr_product_copy_time(const tsr_target *target, double bytes);

/* What the model says of the group with its pitches; nothing is written. *out_taken as below. */
TSR_RESULT tsr_tile_time_product(tsr_tile_group *group, bool *out_taken, double *out_cycles);

/* *out_taken false: the group is none that this family takes; nothing was written. */
TSR_RESULT tsr_tile_lower_product(tsr_tile_group *group, bool *out_taken);

#endif
