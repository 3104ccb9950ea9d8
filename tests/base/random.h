/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers for tests: splitmix64 (Steele, Lea, Flood, OOPSLA 2014). The seed is the state.
 */
#ifndef TSR_TESTS_BASE_RANDOM_H
#define TSR_TESTS_BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t random_u64(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Returns a number from 0 to count - 1. */
static inline uint32_t random_below(uint64_t *state, uint32_t count) {
    return (uint32_t)(random_u64(state) % count);
}

#endif
