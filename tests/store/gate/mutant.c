/* SPDX-License-Identifier: Apache-2.0
 *
 * Enables the planted bug that TESSERA_MUTANT names, before main. Enables none if TESSERA_MUTANT
 * names none.
 */
#include "runtime/commit/mutants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNKNOWN_NAME = 99 };

tsr_mutant tsr_mutant_active = TSR_MUTANT_NONE;

__attribute__((constructor)) static void switch_on(void) {
    static const char *const names[] = {
        "",
#define X(id, name, bug) name,
#include "runtime/commit/mutants.def"
#undef X
    };
    const char *wanted = getenv("TESSERA_MUTANT");
    if (!wanted || !wanted[0]) return;
    for (int i = 1; i < TSR_MUTANT_COUNT; i++)
        if (strcmp(names[i], wanted) == 0) tsr_mutant_active = (tsr_mutant)i;
    if (tsr_mutant_active != TSR_MUTANT_NONE) return;
    fprintf(stderr, "there is no mutant '%s'\n", wanted);
    exit(UNKNOWN_NAME);
}
