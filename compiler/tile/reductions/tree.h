/* SPDX-License-Identifier: Apache-2.0
 *
 * Long axes are cut into chunks. The results of a reduction's chunks are combined in a binary tree
 * of n leaves, split at the largest power of two below n. tile.h states the orders.
 *
 * Products have many sums at a time, which are stored in memory: a group of 32 chunk sums is added
 * one after the other, and so are the sums of 32 groups, of 32 groups of groups and so on. This is
 * a tree, too, with few nodes in memory at a time.
 */
#ifndef TSR_COMPILER_TILE_REDUCTIONS_TREE_H
#define TSR_COMPILER_TILE_REDUCTIONS_TREE_H

#include "compiler/tile/build.h"

enum {
    TSR_SUM_SHORT = 16384, /* elements of an axis that is one chunk: 256 of each partial result */
    TSR_SUM_CHUNK = 2048,  /* elements of a chunk of a longer axis: 32 of each partial result */
    TSR_PRODUCT_SHORT = 2048, /* steps of a product that is one chain */
    TSR_PRODUCT_CHUNK = 256,  /* steps of a chunk of a longer product */
    TSR_PRODUCT_GROUP = 32,   /* sums of chunks that are added one after the other */
    TSR_PRODUCT_SLOTS_MAX = 12,
};

/* The number of elements of a chunk of `count`; the last chunk may have fewer. */
static inline int64_t tsr_sum_chunk(int64_t count) {
    return count <= TSR_SUM_SHORT ? count : TSR_SUM_CHUNK;
}
static inline bool tsr_sum_is_long(int64_t count) { return count > TSR_SUM_SHORT; }

/* ---- reductions ---- */

typedef struct tsr_tree {
    tsr_tile_builder *b;
    int64_t leaves;         /* minimum 1 */
    uint32_t count;         /* values of each leaf, at most TSR_TILE_CARRIED_MAX */
    const MlirValue *empty; /* the neutral element of `combine` */
    const MlirValue *last;  /* the last leaf, if it exists already; else NULL */
    /* Writes the values of leaf `index`, which is not the last one if `last` is given. */
    void (*leaf)(void *user, MlirValue index, MlirValue *out_values);
    MlirValue (*combine)(void *user, uint32_t which, MlirValue x, MlirValue y);
    void *user;
} tsr_tree;
void tsr_tree_emit(const tsr_tree *tree, MlirValue *out_values);

/* ---- products ---- */

static inline bool tsr_product_is_long(int64_t steps) { return steps > TSR_PRODUCT_SHORT; }
static inline int64_t tsr_product_chunks(int64_t steps) {
    return (steps - 1) / TSR_PRODUCT_CHUNK + 1;
}

/* Sums that are being added: slot 0 has the sum of the chunks of the current group, slot 1 the sum
 * of the groups, and so on. All slots begin at 0. */
typedef struct tsr_product_sums {
    tsr_dtype dtype;
    MlirValue buffer;
    int64_t slot;   /* elements between slots */
    uint32_t slots; /* tsr_product_slots */
} tsr_product_sums;

/* Vectors of a slot, each at `at` plus an offset. */
typedef struct tsr_product_offsets {
    MlirValue at;
    const int64_t *offsets;
    uint32_t count, lanes; /* number of vectors; lanes of each */
} tsr_product_offsets;

/* The number of slots for `chunks` chunks. */
uint32_t tsr_product_slots(int64_t chunks);
/* The number of slots that are full, and are added to the next slot, after chunk `chunk` is added.
 * The last chunk fills no slot. */
MlirValue tsr_product_carries(tsr_tile_builder *b, MlirValue chunk, int64_t chunks);
void tsr_product_clear(tsr_tile_builder *b, const tsr_product_sums *sums,
                       const tsr_product_offsets *where);
/* Adds the sums of a chunk. */
void tsr_product_push(tsr_tile_builder *b, const tsr_product_sums *sums,
                      const tsr_product_offsets *where, MlirValue carries, const MlirValue *values);
/* Adds all slots to the sums of the last chunk, if it was not pushed; otherwise to zeros. */
void tsr_product_finish(tsr_tile_builder *b, const tsr_product_sums *sums,
                        const tsr_product_offsets *where, MlirValue *values);

#endif
