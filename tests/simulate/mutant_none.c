/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulate/mutant.h"

bool sim_mutant_choose(const char *name) {
    (void)name;
    return false;
}
