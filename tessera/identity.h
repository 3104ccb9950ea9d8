/* SPDX-License-Identifier: Apache-2.0
 *
 * Which program a bundle, a state or a log belongs to: the program digest (manifests/README.md says
 * what it covers), and the hyper-parameters, which it does not cover. Two bundles of one program
 * digest compute the same bits if their hyper-parameters, numerics and virtual ranks are equal.
 */
#ifndef TSR_TESSERA_IDENTITY_H
#define TSR_TESSERA_IDENTITY_H

#include "tessera/digest.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "lr", "0.01". Numbers are in their shortest decimal form: equal texts are equal values. */
typedef struct tsr_hyperparameter {
    const char *name, *value; /* borrowed */
    bool is_set;              /* a run set the value; else it is the program's */
} tsr_hyperparameter;

typedef struct tsr_identity {
    tsr_digest program; /* zero: not known; then there are no hyper-parameters either */
    size_t hyperparameter_count;
    const tsr_hyperparameter *hyperparameters; /* borrowed; ascending by name, each name once */
} tsr_identity;

TSR_API bool tsr_identity_is_known(const tsr_identity *identity); /* false for NULL */

/* Finds the next hyper-parameter, by name, that differs, from *at on, which is zero at first. A
 * value is NULL if that list does not have the name. Returns false if there is none left. */
typedef struct tsr_identity_cursor {
    size_t a, b;
} tsr_identity_cursor;
typedef struct tsr_hyperparameter_change {
    const char *name, *a, *b; /* borrowed */
    bool a_is_set, b_is_set;
} tsr_hyperparameter_change;
TSR_API bool tsr_identity_next_change(const tsr_identity *a, const tsr_identity *b,
                                      tsr_identity_cursor *at,
                                      tsr_hyperparameter_change *out_change);

#ifdef __cplusplus
}
#endif
#endif
