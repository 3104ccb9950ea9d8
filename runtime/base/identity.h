/* SPDX-License-Identifier: Apache-2.0
 *
 * Which program a bundle, a state or a log is of: the program digest (manifests/README.md says what
 * it covers), and beside it the hyper-parameters, which it does not cover. Two bundles of one
 * program digest compute the same bits, if their hyper-parameters, numerics and virtual ranks are
 * the same.
 */
#ifndef TSR_BASE_IDENTITY_H
#define TSR_BASE_IDENTITY_H

#include "runtime/base/arena.h"
#include "runtime/base/hash/hash.h"

enum {
    TSR_HYPERPARAMETERS_MAX = 64,
    TSR_HYPERPARAMETER_NAME_MAX = 255,    /* bytes of UTF-8 without control characters */
    TSR_HYPERPARAMETER_VALUE_MAX = 32,    /* printable ASCII without spaces */
    TSR_HYPERPARAMETERS_BYTES_MAX = 2048, /* tsr_identity_size: a list fits into a token */
};

/* "lr", "0.01". Numbers are in their shortest decimal form: equal texts are equal values. */
typedef struct tsr_hyperparameter {
    const char *name, *value; /* borrowed */
} tsr_hyperparameter;

typedef struct tsr_identity {
    tsr_digest program; /* zero: not known; then there are no hyper-parameters either */
    size_t hyperparameter_count;
    const tsr_hyperparameter *hyperparameters; /* borrowed; ascending by name, each name once */
} tsr_identity;

TSR_API bool tsr_identity_is_known(const tsr_identity *identity); /* false for NULL */
/* Bytes of the list in a token: each name and value, and a byte for the length of each. */
size_t tsr_identity_size(const tsr_identity *identity);
/* Returns NULL if names, values, order and limits are as above; else what is wrong. */
const char *tsr_identity_check(const tsr_identity *identity);
/* Copies the list and its texts to the arena. */
TSR_RESULT tsr_identity_copy(tsr_ctx *ctx, const tsr_identity *identity, tsr_arena *arena,
                             tsr_identity *out_copy);

/* Finds the next hyper-parameter, by name, that differs, from *at on, which is zero at first. A
 * value is NULL if that list does not have the name. Returns false if there is none left. */
typedef struct tsr_identity_cursor {
    size_t a, b;
} tsr_identity_cursor;
typedef struct tsr_hyperparameter_change {
    const char *name, *a, *b; /* borrowed */
} tsr_hyperparameter_change;
TSR_API bool tsr_identity_next_change(const tsr_identity *a, const tsr_identity *b,
                                      tsr_identity_cursor *at,
                                      tsr_hyperparameter_change *out_change);

#endif
