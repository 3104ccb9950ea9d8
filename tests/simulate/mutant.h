/* SPDX-License-Identifier: Apache-2.0
 *
 * Planted bugs. A program that links the unchanged product has none.
 */
#ifndef TSR_TESTS_SIMULATE_MUTANT_H
#define TSR_TESTS_SIMULATE_MUTANT_H

#include <stdbool.h>

bool sim_mutant_choose(const char *name); /* false: this program has no such bug */

#endif
