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
#include "tessera/identity.h"

enum {
    TSR_HYPERPARAMETERS_MAX = 64,
    TSR_HYPERPARAMETER_NAME_MAX = 255,    /* bytes of UTF-8 without control characters */
    TSR_HYPERPARAMETER_VALUE_MAX = 32,    /* printable ASCII without spaces */
    TSR_HYPERPARAMETERS_BYTES_MAX = 2048, /* tsr_identity_size: a list fits into a token */
};

/* The shortest decimal number that is read as the same double, for a value of the list; an integer
 * below 10^15 has no exponent. */
const char *tsr_hyperparameter_format(double value,
                                      char out_text[static TSR_HYPERPARAMETER_VALUE_MAX]);
/* The member of this name, or NULL. */
const tsr_hyperparameter *tsr_identity_find(const tsr_identity *identity, const char *name);
/* Bit i: a run set value i of the list. */
uint64_t tsr_identity_get_set(const tsr_identity *identity);
/* Sets these marks in a list that the caller may write; false if a bit has no value. */
bool tsr_identity_mark_set(tsr_identity *identity, uint64_t set);
/* Bytes of the list in a token: each name and value, and a byte for the length of each. */
size_t tsr_identity_size(const tsr_identity *identity);
/* Returns NULL if names, values, order and limits are as above; else what is wrong. */
const char *tsr_identity_check(const tsr_identity *identity);
/* Copies the list and its texts to the arena. */
TSR_RESULT tsr_identity_copy(tsr_ctx *ctx, const tsr_identity *identity, tsr_arena *arena,
                             tsr_identity *out_copy);

#endif
