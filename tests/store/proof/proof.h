/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of proof: each goes through its cases, in an order that a seed decides where it cannot do
 * all of them in the time it has, and stops at the first violation.
 */
#ifndef TSR_TESTS_STORE_PROOF_PROOF_H
#define TSR_TESTS_STORE_PROOF_PROOF_H

#include "tests/store/proof/life.h"

typedef struct proof_options {
    double seconds; /* 0: all there is to do */
    uint64_t seed;
    const char *life, *start; /* only these, or NULL */
    const char *fault;        /* singles: only this one, or NULL */
    uint64_t at;              /* only this operation, or 0 */
    uint64_t every;           /* singles: of a fault's operations one in so many, or 0 for all */
} proof_options;

/* Seconds since the program began. */
double proof_seconds(void);
bool proof_chosen(const proof_options *options, const life_case *which);
uint64_t proof_random(uint64_t *state);

/* Each prints one line: what was done, of how much; false after a violation, which it printed. */
bool proof_singles(const proof_options *options);
bool proof_pairs(const proof_options *options);
bool proof_weak(const proof_options *options);

#endif
