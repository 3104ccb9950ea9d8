/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/commit/mutants.h"
#include "tests/simulate/mutant.h"

#include <string.h>

tsr_mutant tsr_mutant_active;

bool sim_mutant_choose(const char *name) {
    static const struct {
        const char *name;
        tsr_mutant mutant;
    } rows[] = {
#define X(id, text, bug) {text, TSR_MUTANT_##id},
#include "runtime/commit/mutants.def"
#undef X
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        if (strcmp(rows[i].name, name) == 0) {
            tsr_mutant_active = rows[i].mutant;
            return true;
        }
    return false;
}
