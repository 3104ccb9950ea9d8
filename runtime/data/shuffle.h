/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of training samples, version 1. Samples form one endless stream: global sample index g
 * is position g % count of epoch g / count, and each epoch is its own permutation of 0 … count-1.
 * The permutation is counter-based (a balanced Feistel network over the next even number of bits
 * with Philox as round function, cycle-walked into range: Black & Rogaway, "Ciphers with Arbitrary
 * Finite Domains", CT-RSA 2002), so (seed, step) alone give the batch and nothing has to be saved.
 */
#ifndef TSR_RUNTIME_DATA_SHUFFLE_H
#define TSR_RUNTIME_DATA_SHUFFLE_H

#include <stdint.h>

enum { TSR_SHUFFLE_VERSION = 1 };

/* count > 0; returns the data-set index of global sample `sample`. */
uint64_t tsr_shuffle_index(uint32_t seed, uint64_t count, uint64_t sample);

#endif
