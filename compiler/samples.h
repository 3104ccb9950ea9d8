/* SPDX-License-Identifier: Apache-2.0
 *
 * Which number a weight of attention falls by. Heads are counted over the batch, and on from
 * iteration to iteration of a loop; a head has `numbers` of them, and those of head n are the
 * elements from n * numbers on of the op's stream, drawn `shared` (tessera.philox). The weight of
 * query i and key j has the one at
 *
 *     tsr_samples_of_query(i, keys) + tsr_samples_of_key(j)
 *
 * Weights lie in tiles of 16 x 16, row by row of tiles. The eight that share a counter are queries
 * i and i + 8, keys j, j + 1, j + 8 and j + 9 (j even): what one thread has of a product of matrix
 * units, forward; transposed, two threads have it.
 *
 *     bits of the place   7 … 5    4, 3          2            1            0
 *                         i % 8    j % 8 / 2     j / 8 % 2    i / 8 % 2    j % 2
 */
#ifndef TSR_COMPILER_SAMPLES_H
#define TSR_COMPILER_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TSR_SAMPLES_TILE = 16,          /* queries, and keys */
    TSR_SAMPLES_TILE_NUMBERS = 256, /* of a tile */
    TSR_SAMPLES_SHARED = 8,         /* numbers of a counter */
    TSR_SAMPLES_BITS = 15,          /* of a number */
};

/* A power of two, so that counters of a head have one upper word where there are no more than
 * 2^32; false: there is no such of 64 bits. */
static inline bool tsr_samples_of_head(uint64_t queries, uint64_t keys, uint64_t *out_numbers) {
    uint64_t rows = queries / TSR_SAMPLES_TILE + (queries % TSR_SAMPLES_TILE != 0);
    uint64_t columns = keys / TSR_SAMPLES_TILE + (keys % TSR_SAMPLES_TILE != 0), tiles;
    if (__builtin_mul_overflow(rows, columns, &tiles) || tiles > UINT64_C(1) << 55) return false;
    uint64_t numbers = TSR_SAMPLES_TILE_NUMBERS;
    while (numbers / TSR_SAMPLES_TILE_NUMBERS < tiles) numbers *= 2;
    *out_numbers = numbers;
    return true;
}

static inline uint64_t tsr_samples_of_query(uint64_t query, uint64_t keys) {
    uint64_t columns = keys / TSR_SAMPLES_TILE + (keys % TSR_SAMPLES_TILE != 0);
    return query / TSR_SAMPLES_TILE * columns * TSR_SAMPLES_TILE_NUMBERS + query % 8 * 32 +
           query / 8 % 2 * 2;
}

static inline uint64_t tsr_samples_of_key(uint64_t key) {
    return key / TSR_SAMPLES_TILE * TSR_SAMPLES_TILE_NUMBERS + key % 8 / 2 * 8 + key / 8 % 2 * 4 +
           key % 2;
}

#endif
