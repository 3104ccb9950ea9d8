/* SPDX-License-Identifier: Apache-2.0
 *
 * The config that fuzzed programs are verified against.
 */
#ifndef TSR_TESTS_FUZZ_SEEDS_H
#define TSR_TESTS_FUZZ_SEEDS_H

enum { FUZZ_CONFIG_SEED = 1, FUZZ_CONFIG_SIZE = 4 };

#endif
