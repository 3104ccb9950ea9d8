/* SPDX-License-Identifier: Apache-2.0
 *
 * The hyper-parameters of a model: the program's values, and those that a run sets instead. Private
 * to this folder.
 *
 * A run decides the values when it begins: those that the caller set
 * (tsr_model_set_hyperparameter), else those that an earlier run set, as the resumed state or the
 * replayed log records them, else the program's.
 */
#ifndef TSR_LOADER_HYPERPARAMETERS_H
#define TSR_LOADER_HYPERPARAMETERS_H

#include "runtime/base/identity.h"
#include "runtime/store.h"
#include "tessera/tessera.h"

/* Room for the text of a value; empty: none. */
typedef char tsr_value_text[TSR_HYPERPARAMETER_VALUE_MAX + 1];

typedef struct tsr_hyperparameters {
    tsr_identity identity;    /* with the current values; `list` */
    tsr_hyperparameter *list; /* arrays in the model's arena, in the order of the config's list */
    tsr_value_text *current;
    tsr_value_text *asked; /* by the caller */
    bool changed;          /* by the caller, since the ranks agreed */
    tsr_store *store;      /* of the trainer that has the model open; borrowed; NULL: none */
} tsr_hyperparameters;

/* Gives each one the program's value. */
TSR_RESULT tsr_hyperparameters_init(tsr_ctx *ctx, tsr_model *model);
/* Begins a run: the values that the caller set, else the program's. */
void tsr_hyperparameters_begin(tsr_model *model);
/* Takes the values that an earlier run set from `stored`, except where the caller set one. A notice
 * names each value that the caller would not expect; `generation`: of the state, 0: a log, without
 * notices. TSR_MISMATCH for a value outside of the range of this program. */
TSR_RESULT tsr_hyperparameters_take(tsr_ctx *ctx, tsr_model *model, const tsr_identity *stored,
                                    uint64_t generation);
/* Checks that all ranks were given the same values; needs a transport. */
TSR_RESULT tsr_hyperparameters_agree(tsr_ctx *ctx, tsr_model *model);
/* Gives all ranks the values of the first one, which has read the state or the log. */
TSR_RESULT tsr_hyperparameters_share(tsr_ctx *ctx, tsr_model *model);

#endif
