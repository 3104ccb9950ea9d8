/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints where the simulator's matrix units have each element: "NAME operand|result LANE ELEMENT
 * ROW COLUMN"; the column of an operand is its depth.
 */
#include "tests/lanes/matrices.h"

#include <stdio.h>

int main(void) {
    static const struct {
        const char *name;
        uint32_t elements, lanes;
    } rows[] = {
#define X(id, name, elements, lanes, depth, type) {#id, elements, lanes},
        LANES_MATRICES(X)
#undef X
    };
    for (uint32_t id = 0; id < LANES_MATRIX_COUNT; id++)
        for (uint32_t lane = 0; lane < rows[id].lanes; lane++) {
            uint32_t row, column, sums = LANES_MATRIX_SIZE * LANES_MATRIX_SIZE / rows[id].lanes;
            for (uint32_t e = 0; e < rows[id].elements; e++) {
                lanes_position_of_operand((lanes_matrix_id)id, lane, e, &row, &column);
                printf("%s operand %u %u %u %u\n", rows[id].name, lane, e, row, column);
            }
            for (uint32_t e = 0; e < sums; e++) {
                lanes_position_of_result((lanes_matrix_id)id, lane, e, &row, &column);
                printf("%s result %u %u %u %u\n", rows[id].name, lane, e, row, column);
            }
        }
    return 0;
}
