/* SPDX-License-Identifier: Apache-2.0
 *
 * The random number that decides whether an attention weight is dropped. Heads are numbered
 * across the batch, and the numbering continues over the iterations of a loop. Each head has
 * `numbers` random numbers: head n has the elements of the op's stream that begin at n * numbers,
 * generated `shared` (tessera.philox). The weight of query i and key j uses the number at offset
 *
 *     tsr_samples_of_query(i, keys) + tsr_samples_of_key(j)
 *
 * Weights are stored in tiles of 16 x 16, one row of tiles after another. The eight weights that
 * share a counter have queries i and i + 8, keys j, j + 1, j + 8 and j + 9 (j even). One thread
 * has all eight in a forward product on matrix units; in a transposed one, two threads have them.
 *
 *     bits of the offset  7 … 5    4, 3          2            1            0
 *                         i % 8    j % 8 / 2     j / 8 % 2    i / 8 % 2    j % 2
 */
#ifndef TSR_COMPILER_IR_SAMPLES_H
#define TSR_COMPILER_IR_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TSR_SAMPLES_TILE = 16,          /* queries, and keys */
    TSR_SAMPLES_TILE_NUMBERS = 256, /* numbers of a tile */
    TSR_SAMPLES_SHARED = 8,         /* numbers of a counter */
    TSR_SAMPLES_BITS = 15,          /* bits of a number */
};

/* Returns a power of two, so that the counters of a head have one upper word if there are at most
 * 2^32 counters; false if it does not fit in 64 bits. */
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
