/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions of matrix units, as functions of all lanes of a wave.
 */
#ifndef TSR_TESTS_LANES_MATRICES_H
#define TSR_TESTS_LANES_MATRICES_H

#include "tests/lanes/lanes.h"

#include <stdbool.h>

uint32_t lanes_matrix_lanes(lanes_matrix_id id);
/* One row of each argument for each lane. Returns false if lanes that must have the same elements
 * have different ones. */
bool lanes_multiply(lanes_matrix_id id, const void *const *first, const void *const *second,
                    const void *const *sums, void *const *results);

#endif
