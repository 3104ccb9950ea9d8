/* SPDX-License-Identifier: Apache-2.0
 *
 * Planted bugs. In a program that links the product as it is, there are none.
 */
#ifndef TSR_TESTS_SIMULATE_MUTANT_H
#define TSR_TESTS_SIMULATE_MUTANT_H

#include <stdbool.h>

bool sim_mutant_choose(const char *name); /* false: there is no such bug here */

#endif
