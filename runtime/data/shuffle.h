/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of training samples, version 1. Samples form one endless stream: global sample index g
 * is position g % count of epoch g / count, and each epoch is its own permutation of 0 … count-1.
 * The permutation is counter-based, so only (seed, step) determine the batch and nothing has to be
 * saved: a balanced Feistel network over Z_a x Z_a, a the smallest integer with a^2 >= count, with
 * Philox4x32-10 as round function and addition modulo a, cycle-walked into range (Black & Rogaway,
 * "Ciphers with Arbitrary Finite Domains", CT-RSA 2002, methods 2 and 3). 8 rounds, and 12 for
 * fewer than 1024 samples, where 8 leave a measurable correlation between neighbours. A round adds
 * to the left half the high 64 bits of a * (words 0, 1) of Philox with key {seed, 0x73687566} and
 * counter {right half, round, epoch low, epoch high}; then the halves swap.
 */
#ifndef TSR_RUNTIME_DATA_SHUFFLE_H
#define TSR_RUNTIME_DATA_SHUFFLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TSR_SHUFFLE_VERSION = 1 };

/* 0 < count < 2^63; returns the data-set index of global sample `sample`. */
uint64_t tsr_shuffle_index(uint32_t seed, uint64_t count, uint64_t sample);

/* The same order for many samples, about ten times as fast: the round functions of one epoch are
 * kept as a table, filled when the epoch changes. Only one thread may use a shuffle at a time. */
typedef struct tsr_shuffler {
    uint64_t count, side, epoch;
    uint32_t seed, rounds;
    uint32_t *table; /* borrowed; rounds * side values of the current (seed, epoch); or NULL */
    bool filled;
} tsr_shuffler;

/* Number of values in the table for `count` samples; 0 if it would be too large (count > 2^32):
 * then a shuffler computes every index without a table. */
size_t tsr_shuffler_table_count(uint64_t count);
/* `table` has tsr_shuffler_table_count(count) values, NULL if that is 0; the caller keeps
 * ownership. */
void tsr_shuffler_init(tsr_shuffler *shuffler, uint64_t count, uint32_t *table);
uint64_t tsr_shuffler_index(tsr_shuffler *shuffler, uint32_t seed, uint64_t sample);

#endif
