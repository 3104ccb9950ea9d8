/* SPDX-License-Identifier: Apache-2.0
 *
 * All random numbers of a simulated run, from one seed: splitmix64 (Steele, Lea, Flood 2014).
 */
#ifndef TSR_TESTS_SIMULATE_WORLD_DICE_H
#define TSR_TESTS_SIMULATE_WORLD_DICE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sim_dice {
    uint64_t state;
} sim_dice;

static inline uint64_t sim_roll(sim_dice *dice) {
    uint64_t z = (dice->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
/* Returns a number below `limit`, which is not 0. The bias of the remainder does not matter
 * here. */
static inline uint64_t sim_below(sim_dice *dice, uint64_t limit) { return sim_roll(dice) % limit; }
static inline uint64_t sim_between(sim_dice *dice, uint64_t first, uint64_t last) {
    return first + sim_below(dice, last - first + 1);
}
/* True `per_million` times in a million. */
static inline bool sim_chance(sim_dice *dice, uint32_t per_million) {
    return per_million && sim_below(dice, 1000000) < per_million;
}

#endif
