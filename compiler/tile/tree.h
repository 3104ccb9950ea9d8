/* SPDX-License-Identifier: Apache-2.0
 *
 * Long axes: they are cut into chunks. What the chunks of a reduction give is combined in a binary
 * tree of n leaves, split at the largest power of two below n. tile.h states the orders.
 *
 * Sums of products are many at a time, and lie in memory: a group of 32 chunk sums is added one
 * after the other, and so are 32 groups, 32 of those and so on: a binary tree, too, of few nodes at
 * a time.
 */
#ifndef TSR_COMPILER_TILE_TREE_H
#define TSR_COMPILER_TILE_TREE_H

#include "compiler/tile/build.h"

enum {
    TSR_SUM_SHORT = 16384, /* elements of an axis that is one chunk: 256 of each partial result */
    TSR_SUM_CHUNK = 2048,  /* of a longer one: 32 of each */
    TSR_PRODUCT_SHORT = 2048, /* steps of a product that is one chain */
    TSR_PRODUCT_CHUNK = 256,  /* of a longer one */
    TSR_PRODUCT_GROUP = 32,   /* sums of chunks that are added one after the other */
    TSR_PRODUCT_SLOTS_MAX = 12,
};

/* Elements of a chunk of `count`, the last chunk may have fewer. */
static inline int64_t tsr_sum_chunk(int64_t count) {
    return count <= TSR_SUM_SHORT ? count : TSR_SUM_CHUNK;
}
static inline bool tsr_sum_is_long(int64_t count) { return count > TSR_SUM_SHORT; }

/* ---- reductions ---- */

typedef struct tsr_tree {
    tsr_tile_builder *b;
    int64_t leaves;         /* at least 1 */
    uint32_t count;         /* values of each leaf, at most TSR_TILE_CARRIED_MAX */
    const MlirValue *empty; /* what combines with a value to that value */
    const MlirValue *last;  /* the last leaf, if it is there already; else NULL */
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

/* Sums that are being added: slot 0 has the sum of the chunks of a group so far, slot 1 that of the
 * groups, and so on. All begin at 0. */
typedef struct tsr_product_sums {
    tsr_dtype dtype;
    MlirValue buffer;
    int64_t slot;   /* elements from a slot to the next */
    uint32_t slots; /* tsr_product_slots */
} tsr_product_sums;

/* Vectors of a slot: at `at`, plus an offset each. */
typedef struct tsr_product_offsets {
    MlirValue at;
    const int64_t *offsets;
    uint32_t count, lanes; /* of vectors; of each */
} tsr_product_offsets;

/* Slots for `chunks` chunks. */
uint32_t tsr_product_slots(int64_t chunks);
/* How many slots are full, and are added to the next one, once chunk `chunk` is added. The last
 * chunk fills none. */
MlirValue tsr_product_carries(tsr_tile_builder *b, MlirValue chunk, int64_t chunks);
void tsr_product_clear(tsr_tile_builder *b, const tsr_product_sums *sums,
                       const tsr_product_offsets *where);
/* Adds the sums of a chunk. */
void tsr_product_push(tsr_tile_builder *b, const tsr_product_sums *sums,
                      const tsr_product_offsets *where, MlirValue carries, const MlirValue *values);
/* Adds all slots to the sums of the last chunk, if that is not pushed; else to zeros. */
void tsr_product_finish(tsr_tile_builder *b, const tsr_product_sums *sums,
                        const tsr_product_offsets *where, MlirValue *values);

#endif
