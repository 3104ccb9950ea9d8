/* SPDX-License-Identifier: Apache-2.0
 *
 * Switches for planted bugs (mutants.def). TSR_MUTANTS is defined only by the test library
 * commit_mutants; without it TSR_MUTANT is the constant false, and the objects contain no mutants.
 */
#ifndef TSR_RUNTIME_COMMIT_MUTANTS_H
#define TSR_RUNTIME_COMMIT_MUTANTS_H

#include <stdbool.h>

typedef enum tsr_mutant {
    TSR_MUTANT_NONE,
#define X(id, name, bug) TSR_MUTANT_##id,
#include "runtime/commit/mutants.def"
#undef X
    TSR_MUTANT_COUNT
} tsr_mutant;

#ifdef TSR_MUTANTS
/* Defined by the test, which changes it while no store is open. */
extern tsr_mutant tsr_mutant_active;
#define TSR_MUTANT(id) (tsr_mutant_active == TSR_MUTANT_##id)
#else
#define TSR_MUTANT(id) false
#endif

#endif
