/* SPDX-License-Identifier: Apache-2.0
 *
 * Effects: what an op or a function does besides computing its results. A set of them is a sum of
 * tsr_effect; the empty set is a pure function. README.md has the rules.
 */
#ifndef TSR_COMPILER_GRAPH_EFFECTS_EFFECTS_H
#define TSR_COMPILER_GRAPH_EFFECTS_EFFECTS_H

#include "compiler/ir/mlir.h"
#include "manifests/config.h"

enum {
    /* Not an effect of signatures, but inferred in the same way: the bits depend on the target. */
    TSR_EFFECT_NONDETERMINISTIC = 1 << TSR_EFFECT_COUNT,
    TSR_EFFECT_KINDS = TSR_EFFECT_COUNT + 1,
    TSR_EFFECTS_ALL = TSR_EFFECT_NONDETERMINISTIC - 1,
};
/* "random", …, "nondeterministic" */
const char *tsr_effect_word(size_t kind);

/* The effects of the op itself, without those of its regions and of functions that it calls. */
uint32_t tsr_effects_of(MlirOperation op);
/* The function whose effects the op has: that of a call or of a handler; NULL: none. */
const char *tsr_effects_callee(MlirOperation op);

/* Returns true if attribute `name` is a list of effects, each once. With `suspends`, the list may
 * have "nondeterministic". Otherwise emits an error. */
bool tsr_effects_check(MlirOperation op, const char *name, bool suspends);
/* The set in a list that was checked. */
uint32_t tsr_effects_list(MlirAttribute list);
/* The effects that a function states, or false if it states none. */
bool tsr_effects_read(MlirOperation func, uint32_t *out_effects);

/* The seed of a deterministic function; false if it is not deterministic, or not well-formed. */
bool tsr_deterministic_read(MlirOperation func, uint32_t *out_seed);

/* Notes of one diagnostic. */
enum { TSR_NOTE_MAX = 320 };
typedef struct tsr_notes {
    tsr_diag_note list[TSR_DIAG_NOTES_MAX];
    char texts[TSR_DIAG_NOTES_MAX][TSR_NOTE_MAX];
    size_t count;
} tsr_notes;
/* Adds a note; the caller writes its text, of at most TSR_NOTE_MAX bytes. */
char *tsr_notes_add(tsr_notes *notes, MlirLocation location);

#endif
