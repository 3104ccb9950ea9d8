/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of proof. Each visits its cases and stops at the first violation. If it cannot visit all
 * cases in the available time, a seed decides their order.
 */
#ifndef TSR_TESTS_STORE_PROOF_PROOF_H
#define TSR_TESTS_STORE_PROOF_PROOF_H

#include "tests/store/proof/life.h"

typedef struct proof_options {
    double seconds; /* 0: no time limit */
    uint64_t seed;
    const char *life, *start; /* only these; NULL: all */
    const char *fault;        /* singles: only this one; NULL: all */
    uint64_t at;              /* only this operation; 0: all */
    uint64_t every;           /* singles: tries one in `every` operations of a fault; 0: all */
} proof_options;

/* Seconds since the program began. */
double proof_seconds(void);
bool proof_chosen(const proof_options *options, const life_case *which);
uint64_t proof_random(uint64_t *state);

/* Each prints one line with the number of cases done and the total. Returns false after a
 * violation, which it printed. */
bool proof_singles(const proof_options *options);
bool proof_pairs(const proof_options *options);
bool proof_weak(const proof_options *options);

#endif
